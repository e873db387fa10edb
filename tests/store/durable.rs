//! What is true of the durable store beyond the contract: what readers see while a sync runs, what a failed sync does, who may
//! open it, and what a stopped store says about itself.

use crate::{
    fixture::{InDirectory, in_directories, tests},
    make::*,
};
use libtest_mimic::Trial;
use receipted::{
    protocol::{
        change::Total,
        fingerprint::Fingerprint,
        key::{Alphabet, OperationKey, hex},
        known::{Entry, Known, Revision},
        note::{Answer as Reply, Author, DoubtReason, Fact, Ruling},
        park::{Closing, EndKind, ParkReason},
    },
    store::{
        Appended, Batch, Error, Marks, Partition, ReceiptStore, Which,
        sled::{FileSystem, OnSyncFailure, Options, Probe, SledStore, adopt, verify},
    },
};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const TESTS: &[(&str, InDirectory)] = tests![
    nothing_is_seen_before_it_is_synced,
    what_arrives_while_a_sync_runs_shares_the_next,
    a_full_queue_answers_at_once,
    a_failed_sync_stops_the_store_for_good,
    a_batch_that_adds_nothing_needs_no_sync,
    a_second_open_is_refused_with_the_process_that_has_it,
    a_sound_store_verifies_with_its_counts,
    verify_needs_a_stopped_store_that_is_there,
    adopting_on_a_stopped_store_is_no_process_start,
    the_bytes_are_as_documented,
    the_numbers_of_variants_are_part_of_the_format,
    another_format_is_refused,
    what_is_missing_or_changed_is_found,
    totals_that_do_not_add_up_are_found,
    a_reader_beside_the_writer_never_sees_half_a_batch,
    large_notes_side_by_side_come_back,
    eviction_keeps_the_memory_bounded_and_the_answers_right,
    what_is_asked_for_stays_in_memory_while_others_pass,
];

pub(crate) fn trials() -> Vec<Trial> {
    in_directories(TESTS.iter().map(|(name, test)| (format!("durable::{name}"), *test)))
}

pub(crate) fn options(root: &Path) -> Options {
    let mut options = Options::new(root);
    options.disk_free_floor_bytes = 0;
    options.file_system = FileSystem::Any;
    options.probe = Probe::Off;
    options.on_sync_failure = OnSyncFailure::Call(Arc::new(|_| {}));
    options
}

pub(crate) fn open(root: &Path) -> SledStore {
    SledStore::open(&options(root)).expect("the store opens")
}

/// A sync that waits: it says when it is reached, and goes on when it is told.
struct Gate {
    reached: Receiver<()>,
    go: SyncSender<()>,
    open: Arc<AtomicBool>,
}

impl Gate {
    /// Lets syncs through until [`Gate::shut`] is called.
    fn install(options: &mut Options) -> Self {
        let (reached_sender, reached) = sync_channel(64);
        let (go, wait) = sync_channel(64);
        let (open, wait) = (Arc::new(AtomicBool::new(true)), Mutex::new(wait));
        let is_open = open.clone();
        options.before_sync = Some(Arc::new(move || {
            if !is_open.load(Ordering::SeqCst) {
                reached_sender.send(()).expect("the test waits for it");
                wait.lock().expect("no panic").recv_timeout(PATIENCE).expect("the test lets it go");
            }
            Ok(())
        }));
        Self { reached, go, open }
    }

    fn shut(&self) {
        self.open.store(false, Ordering::SeqCst);
    }

    fn wait(&self) {
        self.reached.recv_timeout(PATIENCE).expect("the writer syncs");
    }

    fn go(&self) {
        self.go.send(()).expect("the writer waits");
    }
}

fn submit(store: &SledStore, entries: Vec<Entry>) -> Receiver<Result<Appended, Error>> {
    let (sender, receiver) = sync_channel(1);
    store.submit(Batch(entries), Box::new(move |appended| drop(sender.send(appended))));
    receiver
}

fn durable(reply: &Receiver<Result<Appended, Error>>) -> Appended {
    reply.recv_timeout(PATIENCE).expect("an answer").expect("durable")
}

fn nothing_is_seen_before_it_is_synced(root: &Path) {
    for known_bytes_max in [64 * 1024 * 1024, 0] {
        let root = root.join(known_bytes_max.to_string());
        let mut options = options(&root);
        options.known_bytes_max = known_bytes_max;
        let gate = Gate::install(&mut options);
        let store = SledStore::open(&options).expect("opens");
        append(&store, vec![admit("old", 1, Revision(0)), doubt("old", 1, DoubtReason::Crash)]);
        let before = load(&store, "old");
        gate.shut();
        let reply = submit(
            &store,
            vec![
                admit("new", 1, Revision(0)),
                done("old", 1, "r"),
                park(Some("new"), None, 7, 1, ParkReason::Conflict),
                Entry::Watermark { slot: slot(5) },
            ],
        );
        gate.wait();
        // The entries are in sled by now, and nobody may act on them.
        assert_eq!(*load(&store, "new"), Known::default());
        assert_eq!(load(&store, "old"), before);
        assert_eq!(store.list(Which::All, None, 9).expect("lists"), [(key("old"), before)]);
        assert_eq!((store.count(Which::InDoubt), store.count(Which::Parked), store.sizes().operations), (1, 0, 1));
        assert_eq!(store.slots(&[slot(7)])[0].times, 0);
        assert_eq!(store.payload(&park_id(7, 1)).expect("reads"), None);
        assert!(store.parked(None, 9).is_empty() && store.marks().is_empty());
        assert!(!store.totals().contains_key(&Total::ParkedOpened("conflict".into())));
        assert!(reply.try_recv().is_err(), "no reply before the sync");
        gate.go();
        assert!(!durable(&reply).answers.iter().any(is_lost));
        assert_eq!(load(&store, "new").revision(), Revision(2));
        assert_eq!(load(&store, "old").receipt.state().label(), "applied");
        assert_eq!(store.list(Which::All, None, 9).expect("lists").len(), 2);
        gate.open.store(true, Ordering::SeqCst);
    }
}

fn what_arrives_while_a_sync_runs_shares_the_next(root: &Path) {
    let mut options = options(root);
    let gate = Gate::install(&mut options);
    let store = SledStore::open(&options).expect("opens");
    gate.shut();
    let first = submit(&store, vec![admit("first", 1, Revision(0))]);
    gate.wait();
    let rest: Vec<_> =
        (0..5).map(|i| submit(&store, vec![admit(&format!("op-{i}"), 1, Revision(0)), done(&format!("op-{i}"), 1, "r")])).collect();
    // Judged in one group, in the order of submission.
    let late = submit(&store, vec![admit("op-0", 1, Revision(0)), admit("op-0", 2, Revision(0))]);
    gate.go();
    assert_eq!(durable(&first).group, 1);
    gate.wait();
    gate.go();
    for reply in &rest {
        assert_eq!(durable(reply).group, 12);
    }
    let late = durable(&late);
    assert_eq!((late.group, is_lost(&late.answers[1])), (12, true));
    gate.open.store(true, Ordering::SeqCst);
}

fn a_full_queue_answers_at_once(root: &Path) {
    let mut options = options(root);
    options.queue_batches_max = 2;
    let gate = Gate::install(&mut options);
    let store = SledStore::open(&options).expect("opens");
    gate.shut();
    let running = submit(&store, vec![admit("a", 1, Revision(0))]);
    gate.wait();
    let queued: Vec<_> = ["b", "c"].iter().map(|id| submit(&store, vec![admit(id, 1, Revision(0))])).collect();
    let refused = submit(&store, vec![admit("d", 1, Revision(0))]);
    assert!(matches!(refused.try_recv(), Ok(Err(Error::Full { limit: 2, .. }))), "answered before submit returned");
    gate.open.store(true, Ordering::SeqCst);
    gate.go();
    durable(&running);
    queued.iter().for_each(|reply| drop(durable(reply)));
    assert_eq!(*load(&store, "d"), Known::default());
}

fn a_failed_sync_stops_the_store_for_good(root: &Path) {
    let (fails, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut options = options(root);
    let (failing, counted) = (fails.clone(), calls.clone());
    options.before_sync = Some(Arc::new(move || match failing.load(Ordering::SeqCst) {
        true => Err(std::io::Error::other("the disk is gone")),
        false => Ok(()),
    }));
    options.on_sync_failure = OnSyncFailure::Call(Arc::new(move |error| {
        assert!(error.to_string().contains("the disk is gone"));
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    let store = SledStore::open(&options).expect("opens");
    stands(&store, admit("a", 1, Revision(0)));
    fails.store(true, Ordering::SeqCst);
    let failed = store.append(Batch(vec![done("a", 1, "r")]));
    assert!(matches!(&failed, Err(Error::Io { .. })), "{failed:?}");
    // A sync that would work now changes nothing: what the failed one dropped looks clean.
    fails.store(false, Ordering::SeqCst);
    assert!(matches!(store.append(Batch(vec![done("a", 1, "r")])), Err(Error::Stopped { .. })));
    assert!(matches!(store.load(&[key("a")]), Err(Error::Stopped { .. })));
    assert!(matches!(store.close(), Err(Error::Stopped { .. })));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    drop(store);
    let store = SledStore::open(&options).expect("opens again");
    assert_eq!(store.identity().previous_stop, receipted::store::PreviousStop::Unclean);
    assert!(load(&store, "a").revision().0 >= 1, "what was acknowledged is there");
}

fn a_batch_that_adds_nothing_needs_no_sync(root: &Path) {
    let syncs = Arc::new(AtomicUsize::new(0));
    let mut options = options(root);
    let counted = syncs.clone();
    options.before_sync = Some(Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }));
    let store = SledStore::open(&options).expect("opens");
    append(&store, vec![admit("a", 1, Revision(0)), done("a", 1, "r"), Entry::Watermark { slot: slot(8) }]);
    let before = syncs.load(Ordering::SeqCst);
    append(&store, vec![done("a", 1, "r"), Entry::Watermark { slot: slot(7) }, admit("a", 2, Revision(0))]);
    assert_eq!(syncs.load(Ordering::SeqCst), before);
    append(&store, vec![Entry::Watermark { slot: slot(9) }]);
    assert_eq!(syncs.load(Ordering::SeqCst), before + 1);
}

fn a_second_open_is_refused_with_the_process_that_has_it(root: &Path) {
    let store = open(root);
    for attempt in [SledStore::open(&options(root)).map(drop), verify(root).map(drop), adopt(root, &partition(), 1, "x")] {
        match attempt {
            Err(error @ Error::InUse { pid, .. }) => {
                assert_eq!(pid, Some(std::process::id()));
                assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    store.close().expect("closes");
    assert!(verify(root).expect("closing lets the directory go").is_sound());
}

fn partition() -> Partition {
    Partition { topic: "payments".into(), number: 0 }
}

/// A store with everything in it, stopped.
pub(crate) fn rich(root: &Path) {
    let store = open(root);
    store.bind("cluster-1", "billing").expect("binds");
    for i in 0..40 {
        let id = format!("op-{i}");
        append(&store, vec![admit(&id, 1, Revision(0)), done(&id, 1, &id)]);
    }
    append(&store, vec![admit("late", 1, Revision(0)), doubt("late", 1, DoubtReason::Timeout)]);
    stands(&store, park(Some("late"), Some(Revision(2)), 50, 1, ParkReason::Unresolved));
    append(&store, vec![rule("late", Revision(3), &[1], Ruling::NotDone), admit("late", 2, Revision(4)), done("late", 2, "x")]);
    stands(&store, done("late", 1, "y"));
    append(&store, vec![admit("open", 1, Revision(0)), doubt("open", 1, DoubtReason::Crash)]);
    let large = receipted::protocol::park::Payload { value: Some(vec![9; 10_000]), ..payload("x") };
    let note = park_of(Some("open"), ParkReason::Unresolved, &large);
    let entry = Entry::Park { seen: Some(Revision(2)), id: park_id(51, 1), park: note, payload: Arc::new(large) };
    append(&store, vec![entry, park(None, None, 52, 1, ParkReason::DeadLetterFailed)]);
    append(&store, vec![end(None, 52, 1, EndKind::DeadLettered), Entry::Watermark { slot: slot(53) }]);
    store.adopt(&partition(), 50, "an existing group").expect("adopts");
    store.close().expect("closes");
}

fn a_sound_store_verifies_with_its_counts(root: &Path) {
    rich(root);
    for _ in 0..2 {
        let report = verify(root).expect("can be read");
        assert!(report.is_sound(), "{report}");
        assert_eq!((report.operations, report.notes, report.unresolved, report.incidents), (42, 91, 1, 1));
        assert_eq!((report.parks, report.parked, report.chunks, report.claims), (3, 1, 7, 1));
        assert_eq!(report.binding, Some(("cluster-1".into(), "billing".into())));
        assert_eq!(report.adoptions, [(partition(), 50, "an existing group".to_string())]);
        assert_eq!(report.marks[&partition()], Marks { watermark: Some(50), committed: None, adopted: Some(50) });
        assert_eq!((report.blobs, report.set_aside.len()), (0, 0));
        assert!(report.to_string().ends_with("sound"), "{report}");
    }
}

fn verify_needs_a_stopped_store_that_is_there(root: &Path) {
    assert!(matches!(verify(root), Err(Error::Io { action: "find a store", .. })));
    assert!(!root.exists(), "looking makes nothing");
}

fn adopting_on_a_stopped_store_is_no_process_start(root: &Path) {
    adopt(root, &partition(), 70, "a fresh disk").expect("makes the store");
    let store = open(root);
    assert_eq!((store.identity().claim, store.identity().previous_stop), (1, receipted::store::PreviousStop::First));
    let id = store.identity().store_id.clone();
    drop(store);
    adopt(root, &partition(), 90, "once more").expect("adopts");
    let store = open(root);
    assert_eq!(store.identity().previous_stop, receipted::store::PreviousStop::Unclean, "a tool's stop is not a process's");
    assert_eq!((store.identity().claim, &store.identity().store_id), (2, &id));
    assert_eq!(store.marks()[&partition()].adopted, Some(90));
    store.close().expect("closes");
    let reasons: Vec<String> = verify(root).expect("reads").adoptions.into_iter().map(|(_, _, reason)| reason).collect();
    assert_eq!(reasons, ["a fresh disk", "once more"]);
}

/// The entries under the store, without it.
pub(crate) fn raw(root: &Path) -> ::sled::Db {
    ::sled::open(root.join("sled")).expect("nobody has it open")
}

fn seal(key: &[u8], body: &[u8]) -> Vec<u8> {
    let mut value = vec![1];
    value.extend(body);
    let sum = crc32c::crc32c_append(crc32c::crc32c(key), &value);
    value.extend(sum.to_be_bytes());
    value
}

fn another_format_is_refused(root: &Path) {
    rich(root);
    let db = raw(root);
    let key = [0x01, 0x00];
    let value = db.get(key).expect("reads").expect("the store's name");
    let mut body = value[1..value.len() - 4].to_vec();
    assert_eq!(body[0], 2, "the format comes first");
    drop(db);
    for format in [1, 4] {
        body[0] = format;
        let db = raw(root);
        db.insert(key, seal(&key, &body)).expect("writes");
        // An entry that the other format has and this one does not.
        db.insert([0x10, format], seal(&[0x10, format], b"a note")).expect("writes");
        drop(db);
        match SledStore::open(&options(root)) {
            Err(Error::Format { found, expected, .. }) => assert_eq!((found, expected), (u32::from(format), 2)),
            other => panic!("{other:?}"),
        }
        let report = verify(root).expect("can be read");
        assert!(report.problems[0].contains(&format!("format {format}")), "{report}");
    }
}

fn block(number: u64) -> [u8; 9] {
    let mut key = [0x11; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

fn first_key(db: &::sled::Db, prefix: &[u8]) -> ::sled::IVec {
    db.scan_prefix(prefix).next().expect("such an entry").expect("reads").0
}

fn what_is_missing_or_changed_is_found(root: &Path) {
    type Damage = fn(&::sled::Db);
    let damages: [(&str, &str, Damage); 11] = [
        ("the first block is gone", "block 0 is missing", |db| drop(db.remove(block(0)).expect("writes"))),
        ("a block is gone", "block 7 is missing", |db| drop(db.remove(block(7)).expect("writes"))),
        ("the last block is gone", "blocks were written", |db| {
            let last = db.scan_prefix([0x11]).keys().next_back().expect("a block").expect("reads");
            drop(db.remove(last).expect("writes"));
        }),
        ("a park note is gone", "is missing", |db| drop(db.remove(first_key(db, &[0x20])).expect("writes"))),
        ("a chunk is gone", "park note", |db| drop(db.remove(first_key(db, &[0x21])).expect("writes"))),
        ("an incident is gone", "incidents were written", |db| drop(db.remove(first_key(db, &[0x08])).expect("writes"))),
        ("a block has another byte", "block 3: its checksum", |db| {
            let mut value = db.get(block(3)).expect("reads").expect("a block");
            value[60] ^= 1;
            db.insert(block(3), value).expect("writes");
        }),
        ("two blocks are swapped", "block 2: its checksum", |db| {
            let value = |number| db.get(block(number)).expect("reads").expect("a block");
            let (one, other) = (value(2), value(5));
            db.insert(block(2), other).expect("writes");
            db.insert(block(5), one).expect("writes");
        }),
        ("a note is gone from its block", "notes were written", |db| {
            let value = db.get(block(0)).expect("reads").expect("a block");
            let admission = 32 + 13 + 2 + usize::from(u16::from_be_bytes([value[46], value[47]]));
            let body = &value[1 + admission..value.len() - 4];
            db.insert(block(0), seal(&block(0), body)).expect("writes");
        }),
        ("a note goes on after its end", "its body", |db| {
            let key = first_key(db, &[0x20]);
            let value = db.get(&key).expect("reads").expect("a note");
            let body = [&value[1..value.len() - 4], &[0]].concat();
            db.insert(&key, seal(&key, &body)).expect("writes");
        }),
        ("a chunk has another byte", "checksum", |db| {
            let (key, mut value) = db.scan_prefix([0x21]).next().expect("a chunk").expect("reads");
            value[9] ^= 1;
            db.insert(key, value).expect("writes");
        }),
    ];
    for (index, (what, word, damage)) in damages.iter().enumerate() {
        let root: PathBuf = root.join(index.to_string());
        rich(&root);
        let db = raw(&root);
        damage(&db);
        drop(db);
        let report = verify(&root).expect("can be read");
        assert!(report.problems.iter().any(|problem| problem.contains(word)), "{what}: {report}");
        let opened = SledStore::open(&options(&root));
        if what.contains("chunk") {
            // Payloads are read when they are needed.
            let store = opened.expect("opens");
            let parks: Vec<_> = [(50, 1), (51, 1), (52, 1)].map(|(offset, number)| park_id(offset, number)).into();
            let broken = parks.iter().filter(|park| matches!(store.payload(park), Err(Error::Corrupt { .. }))).count();
            assert_eq!(broken, 1, "{what}");
        } else {
            let error = opened.expect_err(what);
            assert!(matches!(error, Error::Corrupt { .. }) && error.to_string().contains(word), "{what}: {error}");
            assert!(error.to_string().contains("copy the directory aside before anything else"), "{what}: {error}");
        }
    }
}

fn totals_that_do_not_add_up_are_found(root: &Path) {
    for (index, word) in ["timeout", "unresolved", "certain"].iter().enumerate() {
        let root = root.join(index.to_string());
        rich(&root);
        let db = raw(&root);
        let found = db.scan_prefix([0x07]).map(|total| total.expect("reads"));
        let (key, value) = found.into_iter().find(|(_, value)| value.windows(word.len()).any(|at| at == word.as_bytes())).expect(word);
        let mut body = value[1..value.len() - 4].to_vec();
        *body.last_mut().expect("a value") += 1;
        db.insert(&key, seal(&key, &body)).expect("writes");
        drop(db);
        let report = verify(&root).expect("can be read");
        assert_eq!(report.problems_total, 1, "{word}: {report}");
    }
}

fn large_notes_side_by_side_come_back(root: &Path) {
    let mut options = options(root);
    options.known_bytes_max = 0;
    let store = SledStore::open(&options).expect("opens");
    let id = |i: usize| (0..16).map(|part| format!("{i}-{part}-{}", "x".repeat(500))).collect::<Vec<_>>();
    let name = |i: usize| OperationKey::new("acme", "charge.v1", &id(i), Alphabet::Printable).expect("a valid key");
    let entry = |i: usize| match admit("a", 1, Revision(0)) {
        Entry::Admit { seen, attempt, admission, within, .. } => {
            let name = name(i);
            let admission = Box::new(receipted::protocol::note::Admission { correlation: Some("c".repeat(1900)), ..*admission });
            Entry::Admit { key: name.digest(), name: Some(Arc::new(name)), seen, attempt, admission, within }
        }
        _ => unreachable!(),
    };
    (0..200).map(entry).for_each(|entry| drop(append(&store, vec![entry])));
    append(&store, (200..400).map(entry).collect());
    store.close().expect("closes");
    // Each has a block of its own. Whether sled makes a file of a page of them depends on when it splits, also while it opens.
    let report = verify(root).expect("reads");
    assert!(report.is_sound(), "{} blobs, {report}", report.blobs);
    let store = SledStore::open(&options).expect("opens");
    for i in 0..400 {
        let known = store.load(&[name(i).digest()]).expect("reads").remove(0);
        assert_eq!(known.key.as_deref(), Some(&name(i)));
    }
}

fn eviction_keeps_the_memory_bounded_and_the_answers_right(root: &Path) {
    let mut options = options(root);
    options.known_bytes_max = 64 * 2000;
    let store = SledStore::open(&options).expect("opens");
    let id = |i: u32| format!("op-{i}");
    for chunk in (0..2000).collect::<Vec<_>>().chunks(200) {
        assert!(store.known_bytes() <= options.known_bytes_max, "{} bytes", store.known_bytes());
        append(&store, chunk.iter().flat_map(|i| [admit(&id(*i), 1, Revision(0)), done(&id(*i), 1, &id(*i))]).collect());
    }
    for round in 0..2 {
        for i in (0..2000).rev() {
            let known = load(&store, &id(i));
            let reference = known.receipt.applied().and_then(|applied| applied.reference.clone()).expect("a reference");
            assert_eq!(reference.as_str(), id(i), "round {round}");
        }
        assert!(store.known_bytes() > 0 && store.known_bytes() <= options.known_bytes_max, "{} bytes", store.known_bytes());
    }
}

fn what_is_asked_for_stays_in_memory_while_others_pass(root: &Path) {
    let mut options = options(root);
    options.known_bytes_max = 64 * 20_000;
    let store = SledStore::open(&options).expect("opens");
    let id = |i: u32| format!("op-{i}");
    let apply = |i: u32| append(&store, vec![admit(&id(i), 1, Revision(0)), done(&id(i), 1, "r")]);
    apply(0);
    apply(1);
    // Some ninety fit into a shard, and fifteen thousand over sixty-four shards pass.
    for chunk in (2..15_000).collect::<Vec<_>>().chunks(500) {
        append(&store, chunk.iter().flat_map(|i| [admit(&id(*i), 1, Revision(0)), done(&id(*i), 1, "r")]).collect());
        assert!(store.applied(&key(&id(0))).is_some(), "at {}", chunk[0]);
    }
    assert!(store.applied(&key(&id(1))).is_none(), "nobody asked for it");
    assert!(store.applied(&key(&id(14_999))).is_some());
}

/// One operation that was parked and dead-lettered, and one that was applied: every entry, as docs/STORE_FORMAT.md describes it.
fn the_bytes_are_as_documented(root: &Path) {
    let mut options = options(root);
    options.clock = Arc::new(|| receipted::protocol::time::UnixMillis(1_700_000_000_000));
    let store = SledStore::open(&options).expect("opens");
    append(&store, vec![admit("a", 1, Revision(0)), done("a", 1, "ref")]);
    append(&store, vec![admit("b", 1, Revision(0)), doubt("b", 1, DoubtReason::Crash)]);
    stands(&store, park(Some("b"), Some(Revision(2)), 9, 1, ParkReason::Unresolved));
    let record = payload("repeat").digest();
    stands(&store, Entry::Hold { key: key("b"), seen: Revision(3), park: park_id(9, 1), slot: slot(-1), record });
    stands(&store, rule("b", Revision(4), &[1], Ruling::NotDone));
    append(
        &store,
        vec![end(Some("b"), 9, 1, EndKind::DeadLettered), Entry::Watermark { slot: slot(-1) }, Entry::Committed { slot: slot(10) }],
    );
    store.adopt(&partition(), 11, "why").expect("adopts");
    store.bind("c", "g").expect("binds");
    store.close().expect("closes");
    let db = raw(root);
    let mut entries = Vec::new();
    for entry in db.iter() {
        let (key, value) = entry.expect("reads");
        let body = &value[1..value.len() - 4];
        assert_eq!(value, seal(&key, body), "version, body, checksum");
        // The store's id, this start's nonce, and when the store was made differ.
        let random = key.starts_with(&[0x01, 0x00]) || key.starts_with(&[0x03]);
        let body = if random { "(random)".into() } else { hex(body) };
        entries.push(format!("{} {body}", hex(&key)).trim_end().to_string());
    }
    let written = include_str!("format-2.txt");
    assert_eq!(entries.join("\n"), written.trim_end(), "the format changed: raise its version");
}

/// A variant is written as its place in its list: one that moved would read old notes as something else.
fn the_numbers_of_variants_are_part_of_the_format(_root: &Path) {
    fn first<T: serde::Serialize>(values: impl IntoIterator<Item = T>) -> Vec<u8> {
        values.into_iter().map(|value| postcard::to_stdvec(&value).expect("encodes")[0]).collect()
    }
    let effect = || applied("ref");
    assert_eq!(first(ParkReason::ALL), [0, 1, 2, 3, 4, 5, 6, 7]);
    let reasons = ["unresolved", "conflict", "expired", "dead_letter_failed", "poison", "retry", "reply", "skipped"];
    assert_eq!(ParkReason::ALL.map(ParkReason::label), reasons);
    assert_eq!(first(DoubtReason::ALL), [0, 1, 2, 3, 4]);
    assert_eq!(DoubtReason::ALL.map(DoubtReason::label), ["unknown", "panic", "timeout", "cancelled", "crash"]);
    let facts = [Fact::Applied(effect()), Fact::Rejected("x".into()), Fact::NoEffect("x".into()), Fact::NotStarted];
    assert_eq!(first(facts), [0, 1, 2, 3]);
    assert_eq!(first([Ruling::Applied(effect()), Ruling::NotDone, Ruling::Rejected, Ruling::Reopened]), [0, 1, 2, 3]);
    assert_eq!(first([EndKind::Settled, EndKind::DeadLettered, EndKind::Discarded]), [0, 1, 2]);
    assert_eq!(first([Closing::DeadLettered, Closing::Discarded]), [0, 1]);
    assert_eq!(first([print(1), Fingerprint::Unchecked]), [0, 1]);
    assert_eq!(first([Author::Reconcile, operator()]), [0, 1]);
    assert_eq!(first([Reply::Json(String::new()), Reply::Absent(String::new())]), [0, 1]);
    let label = || std::borrow::Cow::Borrowed("x");
    let totals = [
        Total::DuplicateEffects(label(), label()),
        Total::PriorEffects(label()),
        Total::UnresolvedOpened(label()),
        Total::UnresolvedClosed(label(), label()),
        Total::ParkedOpened(label()),
        Total::ParkedClosed(label(), label()),
    ];
    assert_eq!(first(totals), [0, 1, 2, 3, 4, 5]);
}

fn a_reader_beside_the_writer_never_sees_half_a_batch(root: &Path) {
    const OPERATIONS: usize = 24;
    let mut options = options(root);
    options.known_bytes_max = 0;
    let store = SledStore::open(&options).expect("opens");
    let current = AtomicUsize::new(0);
    let id = |operation: usize| format!("op-{operation}");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = (0, Revision(0));
                loop {
                    let operation = current.load(Ordering::SeqCst);
                    if operation == OPERATIONS {
                        return;
                    }
                    let known = load(&store, &id(operation));
                    let (admissions, facts) = (known.receipt.admissions().len(), known.receipt.facts().len());
                    assert_eq!(admissions, facts, "half of a batch");
                    assert!((operation, known.revision()) >= last, "{last:?} was durable");
                    last = (operation, known.revision());
                }
            });
        }
        for operation in 0..OPERATIONS {
            current.store(operation, Ordering::SeqCst);
            for number in 1..16 {
                let (id, seen) = (id(operation), Revision(u64::from(number - 1) * 2));
                append(&store, vec![admit(&id, number, seen), fact(&id, number, Fact::NoEffect("busy".into()))]);
            }
        }
        current.store(OPERATIONS, Ordering::SeqCst);
    });
    assert_eq!(load(&store, &id(0)).receipt.notes(), 30);
}
