//! What the durable store costs: new operations (an admission and a fact, two group commits) and repeats, for several group sizes,
//! beside bare sled in the same run with the same syncs and as many bytes: once packed into blocks as the store packs them, and once
//! with an entry a note. *Writer* is processor time of the store's one writing thread, for both notes of an operation.
//! `cargo bench --bench store [-- OPERATIONS]`

#[path = "support/receipts.rs"]
mod receipts;

use receipted::{
    protocol::{
        key::{KeyDigest, OperationKey},
        known::{Entry, Revision},
        note::Fact,
    },
    store::{
        Batch, ReceiptStore,
        sled::{Options, SledStore},
    },
};
use receipts::{ATTEMPT, admission, applied, name};
use std::{
    fs::OpenOptions,
    path::Path,
    time::{Duration, Instant},
};

const GROUPS: [usize; 4] = [1, 32, 512, 2048];
/// What the store's admission and fact take on average, with what is around them.
const NOTE_BYTES: usize = 150;
const BLOCK_BYTES: usize = 4096;

fn main() {
    let operations = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(100_000);
    println!(
        "{:>6} {:>10} {:>9} {:>11} {:>13} {:>13} {:>10} {:>12} {:>12} {:>14}",
        "group",
        "operations",
        "new/s",
        "writer each",
        "bare blocks/s",
        "bare notes/s",
        "repeats/s",
        "from disk/s",
        "on disk each",
        "in memory each"
    );
    for group in GROUPS {
        // A group of one is all sync: fewer tell as much.
        let count = operations.min(group * 4000);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let blocks = bare(&directory.path().join("blocks"), count, group, BLOCK_BYTES / NOTE_BYTES);
        let notes = bare(&directory.path().join("notes"), count, group, 1);
        let root = directory.path().join("store");
        let Ours { new, writer, repeats, memory } = ours(&root, count, group);
        let (from_disk, bytes) = cold(&root, count, group);
        let rate = |time: Duration| count as f64 / time.as_secs_f64();
        println!(
            "{group:>6} {count:>10} {:>9.0} {:>8.1} µs {:>13.0} {:>13.0} {:>10.0} {:>12.0} {:>12} {:>14}",
            rate(new),
            writer.as_secs_f64() * 1e6 / count as f64,
            rate(blocks),
            rate(notes),
            rate(repeats),
            rate(from_disk),
            bytes / count as u64,
            memory / count,
        );
    }
    opening(operations);
}

fn keys(count: usize) -> Vec<(OperationKey, KeyDigest)> {
    (0..count).map(name).map(|name| (name.clone(), name.digest())).collect()
}

fn append(store: &SledStore, entries: Vec<Entry>) {
    store.append(Batch(entries)).expect("durable");
}

struct Ours {
    new: Duration,
    writer: Duration,
    repeats: Duration,
    memory: usize,
}

/// The processor time of the store's writer, where the system tells.
fn writer() -> Duration {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let spent = threads.filter_map(|thread| {
        let thread = thread.ok()?.path();
        let name = std::fs::read_to_string(thread.join("comm")).ok()?;
        let spent = std::fs::read_to_string(thread.join("schedstat")).ok()?;
        (name.trim() == "receipted-store").then_some(Duration::from_nanos(spent.split_whitespace().next()?.parse().ok()?))
    });
    spent.sum()
}

/// New operations and their repeats, a group at a time: looked up, admitted, applied. And what they weigh in memory.
fn ours(root: &Path, count: usize, group: usize) -> Ours {
    let keys = keys(count);
    let store = SledStore::open(&Options::new(root)).expect("the store opens");
    let started = Instant::now();
    for (index, chunk) in keys.chunks(group).enumerate() {
        let digests: Vec<KeyDigest> = chunk.iter().map(|(_, key)| *key).collect();
        assert!(store.load(&digests).expect("reads").iter().all(|known| known.revision() == Revision(0)));
        let numbered = || (index * group..).zip(chunk);
        let admit = |(i, (name, key)): (usize, &(OperationKey, KeyDigest))| Entry::Admit {
            key: *key,
            name: Some(std::sync::Arc::new(name.clone())),
            seen: Revision(0),
            attempt: ATTEMPT,
            admission: Box::new(admission(i)),
            within: None,
        };
        append(&store, numbered().map(admit).collect());
        let fact = |(i, (_, key)): (usize, &(OperationKey, KeyDigest))| Entry::Fact {
            key: *key,
            attempt: ATTEMPT,
            fact: Fact::Applied(applied(i)),
        };
        append(&store, numbered().map(fact).collect());
    }
    let (new, writer) = (started.elapsed(), writer());
    let started = Instant::now();
    look_up(&store, &keys, group);
    let (repeats, memory) = (started.elapsed(), store.known_bytes());
    store.close().expect("closes");
    Ours { new, writer, repeats, memory }
}

fn look_up(store: &SledStore, keys: &[(OperationKey, KeyDigest)], group: usize) {
    for chunk in keys.chunks(group) {
        let digests: Vec<KeyDigest> = chunk.iter().map(|(_, key)| *key).collect();
        assert!(store.load(&digests).expect("reads").iter().all(|known| known.receipt.applied().is_some()));
    }
}

/// Repeats that have to be read from disk, and how much there is on it.
fn cold(root: &Path, count: usize, group: usize) -> (Duration, u64) {
    let mut options = Options::new(root);
    options.known_bytes_max = 0;
    let store = SledStore::open(&options).expect("the store opens");
    let keys = keys(count);
    let started = Instant::now();
    look_up(&store, &keys, group);
    (started.elapsed(), store.sizes().store_bytes)
}

/// As many bytes and syncs without a store around them, so many notes in an entry.
fn bare(root: &Path, count: usize, group: usize, notes: usize) -> Duration {
    let db = sled::Config::new().path(root).cache_capacity(64 * 1024 * 1024).open().expect("sled opens");
    let file = OpenOptions::new().write(true).open(root.join("db")).expect("its file");
    let keys = keys(count);
    let mut blocks = 0_u64;
    let started = Instant::now();
    for chunk in keys.chunks(group) {
        for note in [1_u8, 2] {
            let mut batch = sled::Batch::default();
            for block in chunk.chunks(notes) {
                let mut key = block[0].1.0.to_vec();
                key.extend([note; 13]);
                if notes > 1 {
                    key = blocks.to_be_bytes().to_vec();
                    blocks += 1;
                }
                let bytes = block.len() * NOTE_BYTES - key.len().min(NOTE_BYTES / 2);
                batch.insert(key, vec![note; bytes]);
            }
            db.apply_batch(batch).expect("writes");
            db.flush().expect("writes");
            file.sync_data().expect("syncs");
        }
    }
    started.elapsed()
}

/// How long an open takes, which reads everything.
fn opening(count: usize) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let root = directory.path().join("store");
    ours(&root, count, 2048);
    let started = Instant::now();
    let store = SledStore::open(&Options::new(&root)).expect("the store opens");
    println!("open with {count} receipts: {:.2} s", started.elapsed().as_secs_f64());
    drop(store);
}
