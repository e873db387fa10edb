//! The same odd records once the way through a client and a cluster in this process: what librdkafka makes of them is part of the way.

use crate::{
    support::{
        cluster::{Cluster, Record, Stored},
        process::wait_for,
    },
    whole::{Ends, app, large, odd, plain},
};
use rdkafka::mocking::MockCluster;
use receipted::{
    config::HeaderNames,
    protocol::park::Payload,
    runner::{ErrorText, FirstStart, Runner, Settings},
    store::{ReceiptStore, memory::MemoryStore},
    testing::{Answers, Destination},
};
use std::{sync::Arc, time::Duration};

const BOUND: Duration = Duration::from_secs(60);
const LETTERS: &str = "odd.dead-letters";

fn settings(brokers: &str) -> Settings {
    let seconds = Duration::from_secs;
    let client = [("topic.metadata.refresh.interval.ms", "1000"), ("fetch.message.max.bytes", "33000000"), ("fetch.max.bytes", "66000000")];
    Settings {
        brokers: brokers.into(),
        group: "odd".into(),
        group_instance_id: None,
        session_timeout: seconds(30),
        heartbeat_interval: seconds(3),
        poll_interval_max: seconds(300),
        first_start: FirstStart::Earliest,
        client: client.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        permits: 8,
        tenant_permits_max: 8,
        waiting_grace: seconds(10),
        partition_records_max: 100,
        partition_bytes_max: 64 << 20,
        batch_records_max: 100,
        commit_interval: Duration::from_millis(50),
        drain_budget: seconds(5),
        stop_deadline: seconds(10),
        lookups_max: 8,
        lookup_time_limit: seconds(5),
        look_up_back_off: (seconds(1), seconds(10)),
        reply_attempts_max: 3,
        reply_time_limit: seconds(5),
        park_record_bytes_max: 16 << 20,
        dead_letter_topic: LETTERS.into(),
        dead_letter_within: seconds(30),
        error_text: ErrorText::Included,
        header_names: HeaderNames::Receipted,
    }
}

fn record(payload: Payload) -> Record {
    Record { key: payload.key, value: payload.value, headers: payload.headers, partition: Some(0), timestamp: payload.timestamp }
}

#[test]
fn each_odd_record_ends_where_it_should_on_a_cluster() {
    let broker = MockCluster::new(1).expect("a cluster");
    for topic in ["odd", "other", LETTERS] {
        broker.create_topic(topic, 1, 1).expect("a topic");
    }
    let cluster = Cluster::new(broker.bootstrap_servers());
    cluster.ready(BOUND).expect("a cluster");
    let (books, store) = (Destination::deduplicating(), Arc::new(MemoryStore::default()));
    let routes = Arc::new(app(&books).build().expect("a sound app"));
    let runner = Runner::new(settings(cluster.brokers()), routes, store.clone());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let runs = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        runtime.block_on(runner.run(async { drop(stopped.await) }))
    });
    let deliver = |offset: i64, payloads: Vec<Payload>| {
        let end = offset + i64::try_from(payloads.len()).expect("few");
        cluster.produce("odd", payloads.into_iter().map(record));
        let committed = || cluster.committed("odd", "odd", 0).is_some_and(|committed| committed.offset == end);
        wait_for("the records are complete", BOUND, || (committed() || runs.is_finished()).then_some(()));
        assert!(committed(), "the runner ended before {end}");
    };
    // Some at a time, and none too large: such a cluster keeps no more than 5 MiB of a partition.
    let mut odd: Vec<_> = odd(2).into_iter().map(|(what, record, ends)| (what, Payload::from(record), ends)).collect();
    odd.sort_by_key(|(_, payload, _)| payload.bytes());
    let mut offset = 0;
    for some in [&odd[..odd.len() - 5], &odd[odd.len() - 5..odd.len() - 2], &odd[odd.len() - 2..]] {
        let effects = books.effects().len();
        deliver(offset, some.iter().map(|(_, payload, _)| payload.clone()).collect());
        assert_eq!(books.effects().len() - effects, some.iter().filter(|(_, _, ends)| *ends == Ends::Applied).count());
        let letters = cluster.read_all(LETTERS);
        for (what, sent, ends) in some {
            let own: Vec<_> = letters.iter().filter(|letter| said(letter, "origin-offset") == offset.to_string()).collect();
            offset += 1;
            assert_eq!(own.len(), usize::from(matches!(ends, Ends::Letter(..))), "{what}");
            let (Ends::Letter(reason, error), [letter]) = (ends, &own[..]) else { continue };
            assert!(letter.key == sent.key && letter.value == sent.value, "{what}: every byte is kept");
            let words = ["reason", "origin-topic", "origin-partition"].map(|name| said(letter, name));
            assert_eq!(words, [*reason, "odd", "0"], "{what}");
            assert!(said(letter, "error").starts_with(error), "{what}: {}", said(letter, "error"));
        }
    }
    let end = i64::try_from(odd.len()).expect("few");
    books.next([Answers::Lost]);
    let parked = Payload::from(large("parked", 2 << 20));
    deliver(end, vec![parked.clone()]);
    deliver(end + 1, vec![plain("after").into()]);
    let notes = store.parked(None, 10);
    assert_eq!(notes.iter().map(|(park, _)| park.slot.offset).collect::<Vec<_>>(), [end]);
    let kept = store.payload(&notes[0].0).expect("reads").expect("it is there");
    assert!(kept.key == parked.key && kept.value == parked.value && kept.headers == parked.headers, "every byte is kept");
    stop.send(()).expect("it runs");
    runs.join().expect("no panic").expect("it stops in good order");
    assert_eq!(cluster.committed("odd", "odd", 0).map(|committed| committed.offset), Some(end + 2));
}

/// What a dead letter says of itself.
fn said(letter: &Stored, name: &str) -> String {
    letter.header(&format!("x-receipted-{name}")).unwrap_or_default()
}
