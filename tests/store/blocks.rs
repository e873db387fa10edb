//! Blocks hold notes of many operations, and an operation's notes lie in several: what is put together from them is what was written,
//! whoever shares a block or the beginning of a digest with whom.

use crate::{
    durable::{open, options, raw},
    fixture::{InDirectory, in_directories},
    make::*,
};
use libtest_mimic::Trial;
use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};
use receipted::{
    protocol::{
        key::KeyDigest,
        known::{Entry, Known, Revision},
        note::{DoubtReason, Fact, Ruling},
    },
    store::{
        Batch, ReceiptStore, Which,
        memory::MemoryStore,
        sled::{SledStore, verify},
    },
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, InDirectory); 6] = [
        ("blocks::operations_that_share_blocks_and_digests_stay_apart", operations_that_share_blocks_and_digests_stay_apart),
        (
            "blocks::a_block_is_full_before_the_next_and_a_large_note_has_its_own",
            a_block_is_full_before_the_next_and_a_large_note_has_its_own,
        ),
        ("blocks::an_operation_is_whole_however_many_blocks_it_is_in", an_operation_is_whole_however_many_blocks_it_is_in),
        ("blocks::what_comes_after_a_settlement_is_found_at_the_open", what_comes_after_a_settlement_is_found_at_the_open),
        ("blocks::pages_of_a_listing_are_the_listing", pages_of_a_listing_are_the_listing),
        ("blocks::a_slow_reader_keeps_nothing_old", a_slow_reader_keeps_nothing_old),
    ];
    in_directories(tests)
}

/// A digest that begins with `first`, zeros, and ends with `last`: those with the same beginning share their first 31 bytes.
fn digest(first: u8, last: u8) -> KeyDigest {
    let mut digest = [0; 32];
    (digest[0], digest[31]) = (first, last);
    KeyDigest(digest)
}

/// The entry, about another operation and without a name.
fn about(digest: KeyDigest, mut entry: Entry) -> Entry {
    match &mut entry {
        Entry::Admit { key, name, .. } => (*key, *name) = (digest, None),
        Entry::Fact { key, .. } | Entry::Doubt { key, .. } | Entry::Rule { key, .. } => *key = digest,
        other => panic!("{other:?}"),
    }
    entry
}

fn known(store: &dyn ReceiptStore, key: KeyDigest) -> Arc<Known> {
    store.load(&[key]).expect("reads").remove(0)
}

/// The whole listing, so many at a time.
fn pages(store: &dyn ReceiptStore, which: Which, limit: usize) -> Vec<(KeyDigest, Arc<Known>)> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(which, after, limit).expect("lists");
        assert!(page.len() <= limit);
        let Some((last, _)) = page.last() else { return all };
        after = Some(*last);
        all.extend(page);
    }
}

#[derive(Debug, Clone)]
enum Op {
    Admit(u8, u8, u32),
    Fact(u8, u8, u32, bool),
    Doubt(u8, u8, u32),
    Rule(u8, u8, u32, bool),
}

#[derive(Debug, Clone)]
enum Step {
    Group(Vec<Op>),
    Reopen,
}

const FIRST: [u8; 4] = [0x00, 0x03, 0x04, 0xff];

fn step() -> impl Strategy<Value = Step> {
    let place = || (prop::sample::select(&FIRST[..]), 0..3_u8, 1..4_u32);
    let op = prop_oneof![
        3 => place().prop_map(|(first, last, number)| Op::Admit(first, last, number)),
        3 => (place(), any::<bool>()).prop_map(|((first, last, number), applied)| Op::Fact(first, last, number, applied)),
        1 => place().prop_map(|(first, last, number)| Op::Doubt(first, last, number)),
        1 => (place(), any::<bool>()).prop_map(|((first, last, number), reopen)| Op::Rule(first, last, number, reopen)),
    ];
    prop_oneof![6 => prop::collection::vec(op, 1..8).prop_map(Step::Group), 1 => Just(Step::Reopen)]
}

fn entry(store: &dyn ReceiptStore, op: &Op) -> Entry {
    match *op {
        Op::Admit(first, last, number) => {
            let key = digest(first, last);
            about(key, admit("x", number, known(store, key).revision()))
        }
        Op::Fact(first, last, number, true) => about(digest(first, last), done("x", number, &format!("{first}-{last}"))),
        Op::Fact(first, last, number, false) => about(digest(first, last), fact("x", number, Fact::Rejected(format!("{first}-{last}")))),
        Op::Doubt(first, last, number) => about(digest(first, last), doubt("x", number, DoubtReason::Crash)),
        Op::Rule(first, last, number, reopen) => {
            let key = digest(first, last);
            let ruling = if reopen { Ruling::Reopened } else { Ruling::NotDone };
            about(key, rule("x", known(store, key).revision(), &[number], ruling))
        }
    }
}

/// Everything that is listed, whole and in pages, and every operation by itself.
fn shown(store: &dyn ReceiptStore) -> String {
    let which = [Which::InDoubt, Which::Disputed, Which::Superseded, Which::Unconfirmed, Which::ReopenedWaiting];
    let listed: Vec<_> = which.into_iter().map(|which| (pages(store, which, 2), store.count(which))).collect();
    let pages: Vec<_> = [1, 2, 5, 100].map(|limit| pages(store, Which::All, limit)).into();
    let each: Vec<_> = FIRST.iter().flat_map(|first| (0..4).map(|last| known(store, digest(*first, last)))).collect();
    format!("{listed:#?}\n{pages:#?}\n{each:#?}\n{}", store.sizes().operations)
}

fn operations_that_share_blocks_and_digests_stay_apart(root: &Path) {
    let config = Config { cases: 48, failure_persistence: None, ..Config::default() };
    let case = AtomicU64::new(0);
    let run = TestRunner::new(config).run(&(prop::collection::vec(step(), 1..12), any::<bool>()), |(steps, remember)| {
        let mut options = options(&root.join(case.fetch_add(1, Ordering::SeqCst).to_string()));
        options.known_bytes_max *= usize::from(remember);
        let reopened = || SledStore::open(&options).expect("opens");
        let (memory, mut store) = (MemoryStore::new(), Some(reopened()));
        for step in &steps {
            match (step, store.take()) {
                (Step::Group(ops), Some(open)) => {
                    let entries: Vec<Entry> = ops.iter().map(|op| entry(&memory, op)).collect();
                    let answers = |store: &dyn ReceiptStore| store.append(Batch(entries.clone())).expect("durable").answers;
                    prop_assert_eq!(answers(&open), answers(&memory));
                    store = Some(open);
                }
                (_, open) => {
                    drop(open);
                    store = Some(reopened());
                }
            }
        }
        for _ in 0..2 {
            let open = store.take().ok_or_else(|| TestCaseError::fail("open"))?;
            prop_assert_eq!(shown(&open), shown(&memory));
            drop(open);
            store = Some(reopened());
        }
        drop(store);
        let report = verify(&options.directory).expect("reads");
        prop_assert!(report.is_sound(), "{}", report);
        Ok(())
    });
    run.expect("the stores agree");
}

/// Bytes of each block's value, and how many notes are in it.
fn blocks(root: &Path) -> Vec<(usize, usize)> {
    let notes = |value: &[u8]| {
        let (mut rest, mut notes) = (&value[1..value.len() - 4], 0);
        while !rest.is_empty() {
            // Only admissions and facts here: digest, kind, attempt, length, body.
            let length = usize::from(u16::from_be_bytes([rest[45], rest[46]]));
            rest = &rest[47 + length..];
            notes += 1;
        }
        notes
    };
    let entries = raw(root).scan_prefix([0x11]).values().map(|value| value.expect("reads"));
    entries.map(|value| (value.len(), notes(&value))).collect()
}

fn a_block_is_full_before_the_next_and_a_large_note_has_its_own(root: &Path) {
    let large = |i: u8| fact("large", u32::from(i), Fact::NoEffect(format!("{i}").repeat(6000)));
    let store = open(root);
    let small = || (0..100).flat_map(|i| [admit(&format!("op-{i}"), 1, Revision(0)), done(&format!("op-{i}"), 1, "r")]);
    append(&store, small().chain([large(1), large(2)]).chain([admit("last", 1, Revision(0))]).collect());
    let check = |store: &SledStore| {
        assert_eq!(load(store, "large").receipt.facts().len(), 2);
        assert_eq!(load(store, "last").receipt.admissions().len(), 1);
        assert_eq!(pages(store, Which::All, 7).len(), 102);
    };
    check(&store);
    drop(store);
    check(&open(root));
    let blocks = blocks(root);
    assert_eq!(blocks.iter().map(|(_, notes)| notes).sum::<usize>(), 203);
    let large: Vec<_> = blocks.iter().filter(|(bytes, _)| *bytes > 4096).collect();
    assert!(large.len() == 2 && large.iter().all(|(_, notes)| *notes == 1), "{blocks:?}");
    // Apart from the large ones' neighbours and the last, there is no room left for one more.
    let loose = blocks.iter().filter(|(bytes, _)| *bytes < 4096 - 150).count();
    assert!(loose <= 2, "{blocks:?}");
}

fn an_operation_is_whole_however_many_blocks_it_is_in(root: &Path) {
    let mut options = options(root);
    options.known_bytes_max = 0;
    let memory = MemoryStore::new();
    let mut store = SledStore::open(&options).expect("opens");
    for number in 1..40 {
        // One note a group, others between them; every tenth time from a fresh start.
        for entry in [admit("a", number, seen(&memory, "a")), fact("a", number, Fact::NoEffect("busy".into()))] {
            append(&memory, vec![entry.clone()]);
            append(&store, vec![entry]);
            append(&store, vec![done(&format!("other-{number}"), 1, "r")]);
        }
        if number % 10 == 0 {
            drop(store);
            store = SledStore::open(&options).expect("opens");
        }
        assert_eq!(load(&store, "a"), load(&memory, "a"));
    }
    assert_eq!(load(&store, "a").receipt.notes(), 78);
}

/// A settled operation is let go while the store is read; what comes later must find it again, and it counts once.
fn what_comes_after_a_settlement_is_found_at_the_open(root: &Path) {
    let store = open(root);
    append(&store, vec![admit("back", 1, Revision(0)), fact("back", 1, Fact::Rejected("no".into()))]);
    append(&store, vec![admit("twice", 1, Revision(0)), done("twice", 1, "one")]);
    append(&store, vec![admit("open", 1, Revision(0)), admit("beside", 1, Revision(0)), done("beside", 1, "r")]);
    append(&store, (0..50).map(|i| done(&format!("op-{i}"), 1, "r")).collect());
    append(&store, vec![rule("back", Revision(2), &[1], Ruling::Reopened), done("twice", 2, "two")]);
    append(&store, vec![admit("beside", 2, Revision(2))]);
    let which = [Which::InDoubt, Which::Disputed, Which::Superseded, Which::Unconfirmed, Which::ReopenedWaiting, Which::All];
    let shown = |store: &SledStore| which.map(|which| (store.list(which, None, 99).expect("lists"), store.count(which)));
    let before = shown(&store);
    assert_eq!(before.each_ref().map(|(_, count)| *count), [1, 0, 1, 0, 1, 54]);
    drop(store);
    for _ in 0..2 {
        assert_eq!(shown(&open(root)), before);
    }
    let report = verify(root).expect("reads");
    assert!(report.is_sound() && report.operations == 54, "{report}");
}

fn pages_of_a_listing_are_the_listing(root: &Path) {
    let store = open(root);
    let mut keys: Vec<KeyDigest> = (0..600).map(|i| key(&format!("op-{i}"))).collect();
    // Three more that share their beginning with one, so that some lie on the border of two pages whatever the limit.
    let first = keys[0].0;
    keys.extend((0..3).map(|last| {
        let mut key = first;
        key[31] = last;
        KeyDigest(key)
    }));
    for group in keys.chunks(7) {
        append(&store, group.iter().map(|key| about(*key, done("x", 1, "r"))).collect());
    }
    keys.sort_unstable();
    let check = |store: &SledStore| {
        for limit in [1, 2, 3, 64, 1000] {
            let listed: Vec<KeyDigest> = pages(store, Which::All, limit).into_iter().map(|(key, _)| key).collect();
            assert_eq!(listed, keys, "{limit} at a time");
        }
        let after = KeyDigest([0x7f; 32]);
        let listed: Vec<KeyDigest> = store.list(Which::All, Some(after), 5).expect("lists").into_iter().map(|(key, _)| key).collect();
        assert_eq!(listed, keys.iter().copied().filter(|key| *key > after).take(5).collect::<Vec<_>>(), "from a key that is not there");
        assert!(store.list(Which::All, None, 0).expect("lists").is_empty());
    };
    check(&store);
    drop(store);
    check(&open(root));
}

/// Ends the readers however the test ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Two operations that push each other out of memory, with so many blocks that reading them takes as long as a group.
fn a_slow_reader_keeps_nothing_old(root: &Path) {
    let mut options = options(root);
    options.known_bytes_max = 64 * 5000;
    let store = SledStore::open(&options).expect("opens");
    let keys = [digest(8, 1), digest(8, 2)];
    let newest = [AtomicU64::new(0), AtomicU64::new(0)];
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&ended);
        for _ in 0..3 {
            scope.spawn(|| {
                while !ended.load(Ordering::SeqCst) {
                    for (key, newest) in keys.iter().zip(&newest) {
                        let least = newest.load(Ordering::SeqCst);
                        let known = known(&store, *key);
                        assert!(known.revision().0 >= least, "{} was shown, and then {}", least, known.revision().0);
                        assert_eq!(known.receipt.admissions().len(), known.receipt.facts().len(), "half of a batch");
                        newest.fetch_max(known.revision().0, Ordering::SeqCst);
                    }
                }
            });
        }
        for number in 1..150_u32 {
            let seen = Revision(u64::from(number - 1) * 2);
            let notes =
                |key: &KeyDigest| [about(*key, admit("x", number, seen)), about(*key, fact("x", number, Fact::NoEffect("busy".into())))];
            let answers = append(&store, keys.iter().flat_map(notes).collect());
            assert!(!answers.iter().any(is_lost), "the writer itself was shown something old");
        }
    });
    assert_eq!(keys.map(|key| known(&store, key).revision().0), [298, 298]);
}
