//! Owns what the recorded process does to a store: steps that follow from their numbers alone, so that the judge knows them too. Each
//! lane takes its steps one after the other, and no lane touches what another does.

use crate::make::*;
use receipted::{
    protocol::{
        known::{Entry, Revision},
        note::{DoubtReason, Ruling, Slot},
        park::{Closing, End, EndKind, ParkId, ParkReason, Payload},
        time::UnixMillis,
    },
    store::{
        Batch, Partition, ReceiptStore,
        sled::{FileSystem, OnSyncFailure, Options, Probe, SledStore},
    },
};
use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

pub const LANES: usize = 3;
/// What the store is bound to.
pub const BINDING: (&str, &str) = ("cluster-1", "billing");
/// The step of the first lane that binds.
const BIND: usize = 3;
const ADOPT: usize = 11;

#[derive(Clone)]
pub enum Step {
    Bind,
    Adopt(Partition, i64),
    Append(Batch),
}

/// Whether the store is bound once the first lane has taken so many steps.
pub fn is_bound(steps: usize) -> bool {
    steps > BIND
}

pub fn place(lane: usize, offset: usize) -> Slot {
    Slot { topic: "payments".into(), partition: i32::try_from(lane).expect("small"), offset: i64::try_from(offset).expect("small") }
}

/// Bytes that no compression and no neighbour resembles.
fn noise(seed: usize, bytes: usize) -> Vec<u8> {
    let mut state = seed as u64 | 1;
    let mut noise = Vec::with_capacity(bytes + 8);
    while noise.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend_from_slice(&state.to_le_bytes());
    }
    noise.truncate(bytes);
    noise
}

fn parked(lane: usize, group: usize, id: &str, large: usize) -> Entry {
    let bytes = if (lane + group).is_multiple_of(4) { large } else { 9000 };
    let record = Payload { value: Some(noise(7 + lane * 1000 + group, bytes)), ..payload(id) };
    let park = park_of(Some(id), ParkReason::Unresolved, &record);
    Entry::Park { seen: Some(Revision(2)), id: note(lane, group), park, payload: Arc::new(record) }
}

fn note(lane: usize, group: usize) -> ParkId {
    ParkId { slot: place(lane, group * 8 + 2), number: 1 }
}

/// What a lane does as its step of that number. Some of the parked records have so many bytes.
pub fn step(lane: usize, number: usize, large: usize) -> Step {
    let group = number / 8;
    let (sure, doubtful) = (format!("{lane}-{group}"), format!("{lane}-{group}-doubt"));
    match (lane, number) {
        (0, BIND) => return Step::Bind,
        (0, ADOPT) => return Step::Adopt(Partition { topic: "payments".into(), number: 9 }, 11),
        _ => {}
    }
    let entries = match number % 8 {
        0 => vec![admit(&sure, 1, Revision(0)), admit(&format!("{sure}-b"), 1, Revision(0))],
        1 => vec![done(&sure, 1, &sure), done(&format!("{sure}-b"), 1, "b")],
        2 => vec![admit(&doubtful, 1, Revision(0)), doubt(&doubtful, 1, DoubtReason::Crash), parked(lane, group, &doubtful, large)],
        3 => vec![Entry::Watermark { slot: place(lane, number) }, Entry::Committed { slot: place(lane, number) }],
        4 => vec![rule(&doubtful, Revision(3), &[1], Ruling::NotDone)],
        5 => {
            let end = End { kind: EndKind::Settled, by: Some(operator()), reason: "it went through".into(), at: UnixMillis(5) };
            let mut entries = vec![admit(&doubtful, 2, Revision(4)), done(&doubtful, 2, "second")];
            if lane != 2 {
                entries.push(Entry::End { key: Some(key(&doubtful)), seen: None, park: note(lane, group), end });
            }
            entries
        }
        // The first attempt had its effect after all: a duplicate.
        6 if lane == 0 => vec![done(&doubtful, 1, "first")],
        6 => (0..20)
            .flat_map(|i| {
                let id = format!("{sure}-many-{i}");
                [admit(&id, 1, Revision(0)), done(&id, 1, &id)]
            })
            .collect(),
        _ => {
            let record = payload(&sure).digest();
            let close = Entry::Close { slot: place(lane, number), closing: Closing::DeadLettered, record };
            vec![close, Entry::Watermark { slot: place(lane, number) }]
        }
    };
    Step::Append(Batch(entries))
}

pub fn options(root: &Path) -> Options {
    Options {
        disk_free_floor_bytes: 0,
        file_system: FileSystem::Any,
        probe: Probe::Off,
        clock: Arc::new(|| UnixMillis(9)),
        on_sync_failure: OnSyncFailure::Call(Arc::new(|error| eprintln!("a sync failed: {error}"))),
        ..Options::new(root)
    }
}

/// How a recorded process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Close,
    Kill,
}

/// What a recorded process is told.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Orders {
    pub root: PathBuf,
    pub marks: PathBuf,
    /// Of each lane.
    pub from: [usize; LANES],
    pub to: usize,
    pub kill: bool,
    pub large: usize,
    pub probe: bool,
}

/// Takes a step, and waits until it is durable.
pub fn take(store: &dyn ReceiptStore, step: Step) -> Result<(), receipted::store::Error> {
    match step {
        Step::Bind => store.bind(BINDING.0, BINDING.1),
        Step::Adopt(partition, offset) => store.adopt(&partition, offset, "an older group"),
        Step::Append(batch) => store.append(batch).map(drop),
    }
}

/// The recorded process. It says in the record what it is about to do, and what is durable.
pub fn role() {
    let orders: Orders = serde_json::from_str(&std::env::var("POWER_ORDERS").expect("orders")).expect("orders");
    let marks = File::options().create(true).append(true).open(&orders.marks).expect("the recorder's marks");
    let write = |bytes: &[u8]| (&marks).write_all(bytes).expect("marked");
    let mark = |text: &str| write(format!("{text}\n").as_bytes());
    let mut options = Options { probe: if orders.probe { Probe::On } else { Probe::Off }, ..options(&orders.root) };
    options.on_sync_failure = OnSyncFailure::Exit;
    let store = match SledStore::open(&options) {
        Ok(store) => store,
        Err(error) => {
            println!("refused: {error}");
            std::process::exit(REFUSED);
        }
    };
    mark(&format!("open {} {}", store.identity().store_id, store.identity().nonce));
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let (store, mark, write, orders) = (&store, &mark, &write, &orders);
            scope.spawn(move || {
                for number in orders.from[lane]..orders.to {
                    mark(&format!("begin {lane} {number}"));
                    if let Err(error) = take(store, step(lane, number, orders.large)) {
                        println!("refused: {error}");
                        std::process::exit(REFUSED);
                    }
                    mark(&format!("ack {lane} {number}"));
                }
                // The other lanes are on their way.
                if orders.kill && lane == 0 {
                    write(b"kill");
                }
            });
        }
    });
    if let Err(error) = store.close() {
        println!("refused: {error}");
        std::process::exit(REFUSED);
    }
    mark("closed");
}

/// The exit code of a recorded process whose store refused something.
pub const REFUSED: i32 = 3;
