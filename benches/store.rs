//! What the durable store costs: new operations (an admission and a fact, two group commits) and repeats, for several group sizes,
//! beside bare sled with entries of the same size and the same syncs in the same run.
//! `cargo bench --bench store [-- OPERATIONS]`

use receipted::{
    protocol::{
        fingerprint::Fingerprint,
        key::{Alphabet, KeyDigest, OperationKey},
        known::{Entry, Revision},
        note::{Admission, Answer, Applied, AttemptId, Fact, Reference, Slot},
        time::UnixMillis,
    },
    store::{
        Batch, ReceiptStore,
        sled::{Options, SledStore},
    },
};
use std::{
    fs::OpenOptions,
    path::Path,
    time::{Duration, Instant},
};

const GROUPS: [usize; 4] = [1, 32, 512, 2048];
const ATTEMPT: AttemptId = AttemptId { number: 1, claim: 1 };

fn main() {
    let operations = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(100_000);
    println!(
        "{:>6} {:>10} {:>12} {:>12} {:>7} {:>12} {:>12} {:>12} {:>14}",
        "group", "operations", "new/s", "bare sled/s", "ratio", "repeats/s", "from disk/s", "on disk each", "in memory each"
    );
    for group in GROUPS {
        // A group of one is all sync: fewer tell as much.
        let count = operations.min(group * 4000);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let bare = bare(&directory.path().join("bare"), count, group);
        let root = directory.path().join("store");
        let (new, repeats, memory) = ours(&root, count, group);
        let (from_disk, bytes) = cold(&root, count, group);
        let rate = |time: Duration| count as f64 / time.as_secs_f64();
        println!(
            "{group:>6} {count:>10} {:>12.0} {:>12.0} {:>7.2} {:>12.0} {:>12.0} {:>12} {:>14}",
            rate(new),
            rate(bare),
            rate(new) / rate(bare),
            rate(repeats),
            rate(from_disk),
            bytes / count as u64,
            memory / count,
        );
    }
    opening(operations);
}

fn name(i: usize) -> OperationKey {
    OperationKey::new("acme", "charge.v1", &[format!("INV-{i:09}")], Alphabet::Token).expect("a valid key")
}

fn keys(count: usize) -> Vec<(OperationKey, KeyDigest)> {
    (0..count).map(name).map(|name| (name.clone(), name.digest())).collect()
}

fn admission(offset: usize) -> Admission {
    Admission {
        fingerprint: Fingerprint::Digest([7; 16]),
        slot: Slot { topic: "payments".into(), partition: 3, offset: offset as i64 },
        at: UnixMillis(1_700_000_000_000),
        time_limit: Duration::from_secs(30),
        memory: None,
        key_generation: 0,
        budget_used: 1,
        correlation: Some("0af7651916cd43dd8448eb211c80319c".into()),
    }
}

fn applied(i: usize) -> Applied {
    let reference = Reference::new(&format!("ch_{i:020}"));
    Applied { reference, answer: Answer::Json(format!("{{\"charge\":\"ch_{i:020}\",\"cents\":1999}}")), already: false }
}

fn append(store: &SledStore, entries: Vec<Entry>) {
    store.append(Batch(entries)).expect("durable");
}

/// New operations and their repeats, a group at a time: looked up, admitted, applied. And what they weigh in memory.
fn ours(root: &Path, count: usize, group: usize) -> (Duration, Duration, usize) {
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
    let new = started.elapsed();
    let started = Instant::now();
    look_up(&store, &keys, group);
    let (repeats, memory) = (started.elapsed(), store.known_bytes());
    store.close().expect("closes");
    (new, repeats, memory)
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

/// The same entries and syncs without a store around them.
fn bare(root: &Path, count: usize, group: usize) -> Duration {
    let db = sled::Config::new().path(root).cache_capacity(64 * 1024 * 1024).open().expect("sled opens");
    let file = OpenOptions::new().write(true).open(root.join("db")).expect("its file");
    let keys = keys(count);
    let started = Instant::now();
    for chunk in keys.chunks(group) {
        for (note, bytes) in [(1_u8, 110), (2, 100)] {
            let mut batch = sled::Batch::default();
            for (_, digest) in chunk {
                let mut key = digest.0.to_vec();
                key.extend([note; 13]);
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
