//! Holds the test support to its word on a real broker: what it stores can be read back, to the byte.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;
use support::broker::{self, Broker, alive, wait_gone};
use support::cluster::{Committed, record, tombstone, unique};
use support::process;

fn records_of_every_compression_are_stored_compressed_and_read_back() {
    let cluster = broker::shared();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = cluster.fresh_topic("codec", 1);
        // Alike enough to be worth compressing: the library stores a batch as it is where nothing is gained.
        let values: Vec<_> = (0..200).map(|n| format!("{{\"charge\":{n},\"note\":\"{}\"}}", "again and ".repeat(20))).collect();
        let settings = [("compression.type", codec), ("linger.ms", "50")];
        let places = cluster.produce_with(
            &topic,
            values.iter().map(|value| record(value.as_str()).key("k").timestamp(1_700_000_000_000)),
            &settings,
        );
        assert_eq!(places, (0..200).map(|offset| (0, offset)).collect::<Vec<_>>());
        assert_eq!(cluster.codecs(&topic, 0), [codec].into());
        let read = cluster.read_all(&topic);
        assert_eq!(read.iter().map(|stored| stored.text()).collect::<Vec<_>>(), values);
        assert!(read.iter().all(|stored| stored.timestamp == Some(1_700_000_000_000) && stored.key.as_deref() == Some(b"k")));
    }
}

fn odd_records_are_read_back_to_the_byte() {
    let cluster = broker::shared();
    let topic = cluster.fresh_topic("odd", 2);
    let big: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
    let sent = [
        record("plain").partition(1).header("a", "1").header("a", "2").null_header("b").timestamp(7),
        tombstone().key("gone").partition(1).timestamp(7),
        record("").partition(1).timestamp(7),
        record("name is no text").header(*b"\xff\xfe", "value").partition(1).timestamp(7),
        record(big).key("big").partition(1).timestamp(7),
    ];
    let places = cluster.produce(&topic, sent.clone());
    assert_eq!(places, (0..5).map(|offset| (1, offset)).collect::<Vec<_>>());
    let read = cluster.read_all(&topic);
    assert_eq!(read.len(), sent.len());
    for (read, sent) in read.iter().zip(&sent) {
        assert_eq!((&read.key, &read.value, &read.headers, read.timestamp), (&sent.key, &sent.value, &sent.headers, sent.timestamp));
    }
}

fn offsets_of_a_group_are_set_and_read_with_their_metadata() {
    let cluster = broker::shared();
    let (topic, group) = (cluster.fresh_topic("offsets", 2), unique("group"));
    cluster.produce(&topic, (0..10).map(|n| record(n.to_string()).partition(1)));
    assert_eq!(cluster.committed(&group, &topic, 1), None);
    cluster.commit(&group, &topic, 1, 8, Some("store é".as_bytes()));
    assert_eq!(cluster.committed(&group, &topic, 1), Some(Committed { offset: 8, metadata: "store é".into() }));
    // A real broker holds metadata as text: what is none arrives as replacement characters, not as the bytes.
    cluster.commit(&group, &topic, 1, 9, Some(b"\xff"));
    assert_eq!(cluster.committed(&group, &topic, 1).map(|found| found.text()), Some("\u{fffd}".into()));
    assert_eq!(cluster.committed(&group, &topic, 0), None);
    cluster.rewind(&group, &topic, 1, 3);
    assert_eq!(cluster.committed(&group, &topic, 1), Some(Committed { offset: 3, metadata: vec![] }));
}

fn topics_are_widened_truncated_and_deleted() {
    let cluster = broker::shared();
    let topic = cluster.fresh_topic("shape", 1);
    cluster.produce(&topic, (0..10).map(|n| record(n.to_string()).partition(0)));
    cluster.delete_records(&topic, 0, 4);
    assert_eq!(cluster.log_range(&topic, 0), (4, 10));
    assert_eq!(cluster.read_all(&topic).iter().map(|stored| stored.offset).collect::<Vec<_>>(), (4..10).collect::<Vec<_>>());
    cluster.add_partitions(&topic, 3);
    assert_eq!(cluster.partitions(&topic), Some(3));
    cluster.delete_topic(&topic);
    assert_eq!(cluster.partitions(&topic), None);
}

fn a_killed_broker_comes_back_with_its_records() {
    let mut broker = Broker::start();
    let topic = broker.fresh_topic("kept", 1);
    broker.produce(&topic, [record("kept")]);
    let killed = broker.pid();
    broker.kill();
    assert!(!alive(killed));
    broker.restart();
    assert_eq!(broker.read_all(&topic)[0].text(), "kept");
    let second = broker.pid();
    drop(broker);
    assert!(!alive(second));
}

fn a_broker_ends_with_the_process_that_started_it() {
    let mut owner = process::role("broker owner").start();
    let pid = owner.wait_line("broker ", Duration::from_secs(60)).replace("broker ", "").parse().expect("a process id");
    assert!(alive(pid));
    owner.kill();
    wait_gone(pid, Duration::from_secs(10));
}

fn own_a_broker() {
    let broker = Broker::start();
    println!("broker {}", broker.pid());
    loop {
        std::thread::park();
    }
}

fn main() {
    let tests = trials![real broker:
        records_of_every_compression_are_stored_compressed_and_read_back,
        odd_records_are_read_back_to_the_byte,
        offsets_of_a_group_are_set_and_read_with_their_metadata,
        topics_are_widened_truncated_and_deleted,
        a_killed_broker_comes_back_with_its_records,
        a_broker_ends_with_the_process_that_started_it,
    ];
    process::run(tests, &[("broker owner", own_a_broker)])
}
