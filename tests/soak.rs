//! A service under steady load: does what it holds level off? New operations, repeats, lost answers and requests that are settled, a
//! destination that is down or refuses, dead letters, kills and stops; on a real broker and a store on disk. Resident memory and store are
//! looked at whenever everything is settled; the destination's ledger says whether anything is lost or doubled.
//!
//! A few rounds by themselves; `RECEIPTED_SOAK=10m` goes on for so long (`make soak`: two hours).
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

mod support;

use receipted::store::{ReceiptStore, Which};
use std::{
    collections::BTreeSet,
    fmt,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, Instant},
};
use support::{
    broker,
    cluster::{Record, record},
    destination::{Behaviour, Server, prefix},
    process::{self, wait_until},
    service::{self, BOUND, InDoubt, Service, charge, operation_of},
};

const PARTITIONS: i32 = 4;
/// Rounds of a run that nobody gave a time.
const ROUNDS: usize = 8;
/// Records of a round: so many new operations, and repeats of any that there were.
const NEW: usize = 700;
const REPEATS: usize = 300;
/// In so many rounds one process is killed and one is stopped; the lives between are long, so that a leak has time.
const RESTARTS: usize = 64;
/// Every so many rounds the destination loses and refuses some requests.
const TURN: usize = 8;
const FAULTS: u64 = 20;
/// The store's caches, small, so that they are full soon: what grows after that is beside them.
const CACHES: u32 = 2 << 20;
/// What resident memory may grow by for each receipt in the life of a process, and from one start to a later one, which reads all that there
/// is; what the store may grow by; and what does not grow with receipts, such as a table that doubles.
const RESIDENT_EACH: u64 = 128;
const START_EACH: u64 = 384;
const STORE_EACH: u64 = 2048;
const SLACK: u64 = 16 << 20;
/// Lines of a run's table.
const LINES: u32 = 24;

/// What is there once a round is settled.
#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: u64,
    records: u64,
    receipts: u64,
    starts: u64,
    resident: u64,
    store: u64,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, records, receipts, starts, resident, store } = self;
        write!(f, "{seconds:>6} s {records:>9} {receipts:>9} {starts:>7} {:>9} KiB {:>8} KiB", resident >> 10, store >> 10)?;
        write!(f, " {:>6} B", store / receipts.max(&1))
    }
}

/// A size in a sample, in bytes or counted.
type Size = fn(&Sample) -> u64;

/// What grows by more than receipts make it: the highest of the last quarter beside the highest of the second, in which the caches are
/// full already. Within a quarter a process may be killed or stopped, and begins anew.
fn growth(samples: &[Sample]) -> Vec<String> {
    let quarter = samples.len() / 4;
    let (early, late) = (&samples[quarter..2 * quarter], &samples[samples.len() - quarter..]);
    let highest = |of: &[Sample], what: Size| of.iter().map(what).max().expect("samples");
    let receipts = highest(late, |sample| sample.receipts) - highest(early, |sample| sample.receipts);
    let mut wrong = Vec::new();
    let all: [(_, Size, _); 2] =
        [("resident memory", |sample| sample.resident, START_EACH), ("the store", |sample| sample.store, STORE_EACH)];
    for (name, what, each) in all {
        let (before, after) = (highest(early, what), highest(late, what));
        let grown = after.saturating_sub(before);
        println!("soak: {name} grew by {} KiB with {receipts} receipts, from {} KiB to {} KiB", grown >> 10, before >> 10, after >> 10);
        if grown > each * receipts + SLACK {
            wrong.push(format!("{name} grew by {grown} bytes with {receipts} receipts, which is above {each} for each and {SLACK}"));
        }
    }
    let longest = samples.chunk_by(|a, b| a.starts == b.starts).max_by_key(|life| life.len()).expect("samples");
    let (first, last) = (&longest[0], &longest[longest.len() - 1]);
    let (grown, receipts) = (last.resident.saturating_sub(first.resident), last.receipts - first.receipts);
    println!("soak: in the longest life resident memory grew by {} KiB with {receipts} receipts", grown >> 10);
    if grown > RESIDENT_EACH * receipts + SLACK {
        wrong
            .push(format!("a process grew by {grown} bytes with {receipts} receipts, which is above {RESIDENT_EACH} for each and {SLACK}"));
    }
    wrong
}

struct Soak {
    service: Service,
    server: Server,
    folder: tempfile::TempDir,
    /// Operations so far, by their number; and which the destination refuses.
    operations: Vec<&'static str>,
    records: u64,
    undecodable: usize,
}

/// The tenant says what becomes of it: its answers are lost, its requests, it is down or refused now and then, or nothing of that.
fn tenant(number: usize) -> &'static str {
    match number % 50 {
        7 | 29 => "lost",
        11 => "gone",
        17 | 31 => "down",
        23 => "refused",
        _ => "acme",
    }
}

impl Soak {
    fn new() -> Self {
        let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
        server.always(prefix("lost/"), Behaviour::LoseAnswer);
        server.always(prefix("refused/"), Behaviour::Reject("no such account".into()));
        let base = Service::new("soak", PARTITIONS, server.address(), folder.path());
        let service = Service { in_doubt: InDoubt::Ask, caches: Some(CACHES), attempts_max: 50, ..base };
        Self { service, server, folder, operations: Vec::new(), records: 0, undecodable: 0 }
    }

    fn feed(&mut self, round: usize) {
        if round.is_multiple_of(TURN) {
            self.server.times(FAULTS, prefix("gone/"), Behaviour::LoseRequest);
            self.server.times(FAULTS, prefix("down/"), Behaviour::Unavailable);
        }
        let mut records: Vec<Record> = Vec::with_capacity(NEW + REPEATS + 1);
        for at in 0..NEW + REPEATS {
            let is_new = at * NEW / (NEW + REPEATS) != (at + 1) * NEW / (NEW + REPEATS);
            let number = if is_new { self.operations.len() } else { (at * 7919 + round * 104_729) % self.operations.len().max(1) };
            if is_new {
                self.operations.push(tenant(number));
            }
            records.push(charge(tenant(number), number, 1 + number as u64));
        }
        records.push(record(format!("no charge {round}")).key("nobodys").header("tenant", "acme"));
        self.undecodable += 1;
        self.records += records.len() as u64;
        broker::shared().produce(&self.service.topic, records);
    }

    /// Rounds until it is enough, with kills and stops.
    fn run(&mut self, enough: impl Fn(usize, Duration) -> bool, line_every: Duration) -> Vec<Sample> {
        let (began, mut samples, mut starts) = (Instant::now(), Vec::new(), 1);
        let mut running = self.service.start().ready();
        let mut next_line = Duration::ZERO;
        println!("   time      records  receipts  starts      resident        store     each");
        for round in 0.. {
            if enough(round, began.elapsed()) {
                break;
            }
            let before = i64::try_from(self.records).unwrap();
            self.feed(round);
            match round % RESTARTS {
                3 => {
                    // In the middle of the round.
                    let some = before + i64::try_from(NEW / 4).unwrap();
                    wait_until("some records of the round", BOUND, || self.service.committed() >= some);
                    running.kill();
                    running = self.service.start().ready();
                    starts += 1;
                }
                6 => {
                    running.stop();
                    running = self.service.start().ready();
                    starts += 1;
                }
                _ => {}
            }
            self.service.wait_committed(i64::try_from(self.records).unwrap());
            running.wait_open(0, 0);
            let sample = Sample {
                seconds: began.elapsed().as_secs(),
                records: self.records,
                receipts: self.operations.len() as u64,
                starts,
                resident: resident(running.child.pid()),
                store: on_disk(&self.service.store),
            };
            if began.elapsed() >= next_line {
                println!("{sample}");
                next_line += line_every;
            }
            samples.push(sample);
        }
        running.stop();
        samples
    }

    /// Nothing is lost, nothing is doubled, and nothing is left for a person.
    fn assert_nothing_lost_or_doubled(&self) {
        let (ledger, store) = (self.server.ledger(), self.service.open_store());
        let names: Vec<_> = self.operations.iter().enumerate().map(|(number, tenant)| (*tenant, operation_of(tenant, number))).collect();
        let taken = || names.iter().filter(|(tenant, _)| *tenant != "refused").map(|(_, name)| name.as_str());
        let (lost, doubled) = (ledger.lost(taken()), ledger.doubled());
        println!(
            "soak: {} operations in {} records: {} effects, lost {}, doubled {}",
            names.len(),
            self.records,
            ledger.total(),
            lost.len(),
            doubled.len()
        );
        assert_eq!((lost, doubled.len(), ledger.unexpected(taken())), (vec![], 0, vec![]));
        assert_eq!(store.sizes().operations, names.len() as u64, "each has its receipt");
        let listed: BTreeSet<_> = service::listed(&store);
        assert!(listed.is_empty() && store.count(Which::Parked) == 0, "{listed:?}");
        let letters = broker::shared().read_all(&self.service.dead_letters);
        let different: BTreeSet<_> = letters.iter().map(|letter| letter.value.clone()).collect();
        assert_eq!(different.len(), self.undecodable, "what is no charge is dead-lettered, and nothing else");
    }
}

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse::<u64>().ok()).expect("a number") << 10
}

/// Files that go while they are counted count as nothing.
fn on_disk(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    entries
        .map(|entry| if entry.path().is_dir() { on_disk(&entry.path()) } else { entry.metadata().map_or(0, |file| file.blocks() * 512) })
        .sum()
}

fn what_a_service_holds_levels_off_and_nothing_is_lost_or_doubled() {
    let time = std::env::var("RECEIPTED_SOAK").ok().map(|time| humantime::parse_duration(&time).expect("RECEIPTED_SOAK is a time, as 10m"));
    let mut soak = Soak::new();
    let samples = match time {
        None => soak.run(|round, _| round >= ROUNDS, Duration::ZERO),
        Some(time) => soak.run(|round, elapsed| round >= ROUNDS && elapsed >= time, time / LINES),
    };
    soak.assert_nothing_lost_or_doubled();
    let last = samples.last().expect("samples");
    println!("soak: {} rounds, {} starts, {} receipts in {} s", samples.len(), last.starts, last.receipts, last.seconds);
    let wrong = growth(&samples);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    drop(soak.folder);
}

/// The judge of growth, and a run of 200,000 receipts that holds so many bytes for each.
fn memory_or_a_store_that_goes_on_growing_is_noticed() {
    let run = |life: u64, resident_each: u64, store_each: u64| -> Vec<Sample> {
        let sample = |at: u64| Sample {
            seconds: at,
            records: at * 1000,
            receipts: at * 1000,
            starts: at / life,
            resident: (60 << 20) + at * 1000 * resident_each,
            store: at * 1000 * store_each,
        };
        (0..200).map(sample).collect()
    };
    assert_eq!(growth(&run(200, 39, 1_000)), [""; 0], "an index and receipts");
    assert_eq!(growth(&run(20, 300, 1_000)), [""; 0], "what a start reads");
    assert_eq!(growth(&run(200, 300, 1_000)).len(), 1, "a leak for each receipt");
    assert_eq!(growth(&run(20, 600, 1_000)).len(), 1, "more from start to start");
    assert_eq!(growth(&run(200, 39, 3_000)).len(), 1, "a log that is not cleaned up");
}

fn main() {
    let mut tests = trials![real broker: what_a_service_holds_levels_off_and_nothing_is_lost_or_doubled];
    tests.extend(trials![memory_or_a_store_that_goes_on_growing_is_noticed]);
    process::run(tests, &[("service", service::role)]);
}
