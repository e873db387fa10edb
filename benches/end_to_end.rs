//! A runner against a bare consumer, on the same real broker, in one run: new operations, repeats, and 30 % repeats with a handler of
//! two milliseconds in key order; and the processor time that each takes. Figures on shared machines are for ratios. `cargo bench --bench end_to_end [-- RECORDS]`.
#![allow(missing_docs, dead_code, clippy::unwrap_used, clippy::expect_used)]

#[path = "../tests/support/mod.rs"]
mod support;

use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer},
};
use receipted::{
    config::HeaderNames,
    handler::{Applied, Failure, Json},
    prelude::*,
    runner::{ErrorText, FirstStart, Runner, Settings},
    store::sled::{Options, SledStore},
};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use support::{broker, cluster};

/// As the README says to; records are allocated on one thread and freed on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PARTITIONS: i32 = 6;
const PERMITS: usize = 2000;

#[derive(Deserialize)]
struct Charge {
    #[allow(dead_code)]
    id: String,
    cents: u64,
}

/// 228 bytes of JSON.
fn value(id: usize) -> String {
    let head = format!(r#"{{"id":"{id:08}","cents":1200,"note":""#);
    format!("{head}{}\"}}", "x".repeat(226 - head.len()))
}

/// Produces records with `keys` different record keys.
fn produce(topic: &str, ids: impl Iterator<Item = usize>, keys: usize) {
    let records = ids.map(|id| cluster::record(value(id)).key(format!("{:08}", id % keys)).header("tenant", format!("t{}", id % 5)));
    let records: Vec<_> = records.collect();
    for chunk in records.chunks(20_000) {
        broker::shared().produce_with(topic, chunk.to_vec(), &[("linger.ms", "5"), ("batch.num.messages", "10000")]);
    }
}

fn client() -> BTreeMap<String, String> {
    [
        ("fetch.queue.backoff.ms", "2"),
        ("queued.min.messages", "100000"),
        ("queued.max.messages.kbytes", "65536"),
        ("fetch.wait.max.ms", "10"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into()
}

#[derive(Clone)]
struct Count(Arc<AtomicUsize>, Duration);

async fn handle(op: Operation, Json(charge): Json<Charge>, State(count): State<Count>) -> Result<Applied<()>, Failure> {
    if !count.1.is_zero() {
        tokio::time::sleep(count.1).await;
    }
    count.0.fetch_add(1, Ordering::Relaxed);
    assert_eq!(charge.cents, 1200);
    Ok(Applied::new(op.attempt(), ()))
}

fn settings(topic: &str, group: &str) -> Settings {
    let seconds = Duration::from_secs;
    Settings {
        brokers: broker::shared().brokers().into(),
        group: group.into(),
        group_instance_id: None,
        session_timeout: seconds(10),
        heartbeat_interval: seconds(1),
        poll_interval_max: seconds(300),
        first_start: FirstStart::Earliest,
        client: client(),
        permits: PERMITS,
        tenant_permits_max: PERMITS,
        waiting_grace: Duration::from_secs(10),
        partition_records_max: 1024,
        partition_bytes_max: 32 << 20,
        batch_records_max: 1024,
        commit_interval: Duration::from_millis(100),
        drain_budget: seconds(5),
        stop_deadline: seconds(15),
        lookups_max: 8,
        lookup_time_limit: seconds(5),
        look_up_back_off: (seconds(1), seconds(30)),
        reply_attempts_max: 3,
        reply_time_limit: seconds(5),
        park_record_bytes_max: 16 << 20,
        dead_letter_topic: format!("{topic}.dead-letters"),
        dead_letter_within: seconds(5),
        error_text: ErrorText::Left,
        header_names: HeaderNames::Receipted,
    }
}

/// Processor time that this process has used, in microseconds; the broker is another process.
fn processor() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    ticks * 10_000
}

struct Ran {
    /// Records a second, from the first record to the last commit.
    rate: f64,
    /// Microseconds of this process's processor time for a record. Noise of the neighbours changes it less than the rate.
    processor: f64,
}

/// Runs receipted over `records` until the group has committed up to `end`.
fn receipted_run(topic: &str, group: &str, store: &std::path::Path, (records, end): (usize, usize), pause: Duration) -> Ran {
    let count = Arc::new(AtomicUsize::new(0));
    let operation = operation("charge.v1")
        .tenant(header("tenant"))
        .id(json("/id"))
        .fingerprint(json_fields(["/cents"]))
        .in_doubt(destination_deduplicates(Duration::from_secs(86400)).then(hold()))
        .time_limit(Duration::from_secs(30));
    let app = App::new().topic(topic.to_string(), operation.handle(handle)).with_state(Count(count.clone(), pause));
    // As `receipted::main` does.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap();
    let store = Arc::new(SledStore::open(&Options::new(store)).unwrap());
    let runner = Runner::new(settings(topic, group), Arc::new(app.build().unwrap()), store.clone());
    let health = runner.health();
    let (stop, ended) = tokio::sync::oneshot::channel::<()>();
    let running = runtime.spawn(runner.run(async move {
        let _ = ended.await;
    }));
    while health.ready().is_err() {
        assert!(!running.is_finished(), "the runner ended: {:?}", runtime.block_on(running));
        std::thread::sleep(Duration::from_millis(1));
    }
    let (began, used) = (Instant::now(), processor());
    let end_offsets = i64::try_from(end).unwrap();
    let watched = store.clone();
    loop {
        use receipted::store::ReceiptStore;
        let at: i64 = watched.marks().values().filter_map(|marks| marks.committed).sum();
        if at >= end_offsets {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(300), "stuck at {at} of {end_offsets}");
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = began.elapsed().as_secs_f64();
    let ran = Ran { rate: records as f64 / took, processor: (processor() - used) as f64 / records as f64 };
    let _ = stop.send(());
    runtime.block_on(running).unwrap().unwrap();
    use receipted::store::ReceiptStore;
    store.close().unwrap();
    ran
}

fn bare(topic: &str, group: &str) -> BaseConsumer {
    let mut config = ClientConfig::new();
    for (name, value) in client() {
        config.set(name, value);
    }
    config
        .set("bootstrap.servers", broker::shared().brokers())
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&list).unwrap();
    consumer
}

/// Parses, counts, commits once a second.
fn bare_run(topic: &str, group: &str, records: usize) -> f64 {
    let consumer = bare(topic, group);
    let (mut seen, mut began, mut commit) = (0, None, Instant::now());
    while seen < records {
        let Some(record) = consumer.poll(Duration::from_millis(100)) else { continue };
        let record = record.unwrap();
        began.get_or_insert_with(Instant::now);
        let charge: Charge = serde_json::from_slice(record.payload().unwrap()).unwrap();
        assert_eq!(charge.cents, 1200);
        seen += 1;
        consumer.store_offset(topic, record.partition(), record.offset()).unwrap();
        if commit.elapsed() > Duration::from_secs(1) {
            commit = Instant::now();
            let _ = consumer.commit_consumer_state(CommitMode::Sync);
        }
    }
    let _ = consumer.commit_consumer_state(CommitMode::Sync);
    began.unwrap().elapsed().as_secs_f64()
}

/// An unprotected loop: handlers of two milliseconds, one after another per key, at most `PERMITS` in flight.
fn bare_key_ordered(topic: &str, group: &str, records: usize, pause: Duration) -> f64 {
    let consumer = bare(topic, group);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (done, finished) = std::sync::mpsc::channel::<Vec<u8>>();
    let mut lanes: HashMap<Vec<u8>, VecDeque<Vec<u8>>> = HashMap::new();
    let (mut seen, mut in_flight, mut completed, mut began) = (0, 0, 0, None);
    let start = |key: Vec<u8>, payload: Vec<u8>| {
        let done = done.clone();
        runtime.spawn(async move {
            let charge: Charge = serde_json::from_slice(&payload).unwrap();
            tokio::time::sleep(pause).await;
            assert_eq!(charge.cents, 1200);
            let _ = done.send(key);
        });
    };
    while completed < records {
        while in_flight < PERMITS && seen < records {
            let Some(record) = consumer.poll(Duration::ZERO) else { break };
            let record = record.unwrap();
            began.get_or_insert_with(Instant::now);
            let (key, payload) = (record.key().unwrap().to_vec(), record.payload().unwrap().to_vec());
            seen += 1;
            in_flight += 1;
            match lanes.entry(key.clone()) {
                std::collections::hash_map::Entry::Occupied(mut lane) => lane.get_mut().push_back(payload),
                std::collections::hash_map::Entry::Vacant(lane) => {
                    lane.insert(VecDeque::new());
                    start(key, payload);
                }
            }
        }
        let wait = if in_flight >= PERMITS || seen == records { Duration::from_millis(5) } else { Duration::ZERO };
        let mut next = if wait.is_zero() { finished.try_recv().ok() } else { finished.recv_timeout(wait).ok() };
        while let Some(key) = next {
            completed += 1;
            in_flight -= 1;
            match lanes.get_mut(&key).and_then(VecDeque::pop_front) {
                Some(payload) => start(key, payload),
                None => drop(lanes.remove(&key)),
            }
            next = finished.try_recv().ok();
        }
    }
    began.unwrap().elapsed().as_secs_f64()
}

/// Ids of which three in ten have been seen before.
fn with_repeats(records: usize) -> impl Iterator<Item = usize> {
    let mut fresh = 0;
    (0..records).map(move |at| {
        if at % 10 < 3 && fresh > 0 {
            // Any of those before, spread by a step that shares no factor with their number.
            at * 7919 % fresh
        } else {
            fresh += 1;
            fresh - 1
        }
    })
}

fn row(what: &str, ran: &Ran, other: &str, rate: f64, note: &str) {
    let Ran { rate: own, processor } = ran;
    println!("{what:<19} {own:>8.0}/s {processor:>5.1} us   {other:<13} {rate:>9.0}/s   ratio {:.2}{note}", own / rate);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let records = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(300_000_usize);
    let named = ["new", "repeats", "ordered"].map(|name| arguments.iter().any(|argument| argument == name));
    let chosen = |index: usize| named[index] || !named.contains(&true);
    let folder = tempfile::tempdir().unwrap();
    let rate = |seconds: f64| records as f64 / seconds;

    if chosen(0) || chosen(1) {
        let topic = broker::shared().fresh_topic("bench-new", PARTITIONS);
        produce(&topic, 0..records, usize::MAX);
        let plain = (0..2).map(|_| rate(bare_run(&topic, "bench-bare", records))).fold(0.0, f64::max);
        let store = folder.path().join("new");
        let fresh = receipted_run(&topic, "bench-new", &store, (records, records), Duration::ZERO);
        row("new operations", &fresh, "bare consumer", plain, "");
        if chosen(1) {
            produce(&topic, 0..records, usize::MAX);
            let repeats = receipted_run(&topic, "bench-new", &store, (records, 2 * records), Duration::ZERO);
            row("repeats", &repeats, "bare consumer", plain, "");
        }
    }
    if chosen(2) {
        // Few keys: what a lane costs. As many as operations: what a record costs.
        for keys in [100, 1000, usize::MAX] {
            let name = if keys == usize::MAX { "all".to_string() } else { keys.to_string() };
            let mixed = broker::shared().fresh_topic(&format!("bench-{name}"), PARTITIONS);
            produce(&mixed, with_repeats(records), keys);
            let pause = Duration::from_millis(2);
            let ordered = rate(bare_key_ordered(&mixed, &format!("bench-ordered-{name}"), records, pause));
            let store = folder.path().join(&name);
            let slow = receipted_run(&mixed, &format!("bench-{name}"), &store, (records, records), pause);
            row("2 ms, 30 % repeats", &slow, "key-ordered", ordered, &format!("   keys: {name}"));
        }
    }
}
