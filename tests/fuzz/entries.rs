//! Entries of the durable store: no bytes make it panic, and a damaged entry is never taken for another.

#[allow(dead_code, reason = "the suite of the store uses all of it")]
#[path = "../store/make.rs"]
mod make;

// The production source itself: what decides whether an entry is one, byte by byte, is private to the store.
#[allow(dead_code, reason = "a test writes no entries of most kinds")]
#[path = "../../src/store/sled/format.rs"]
mod format;

use crate::input::cases;
use format::{Damage, Key};
use make::*;
use proptest::prelude::*;
use receipted::{
    protocol::{
        known::{Entry, Revision},
        note::{DoubtReason, Fact, Ruling},
        park::{Closing, EndKind, ParkReason},
    },
    store::{
        Error, Partition, ReceiptStore, Which,
        sled::{
            FileSystem, Options, Probe, SledStore,
            transfer::{Secrets, export, import},
            verify,
        },
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

type Raw = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(root: &Path) -> Options {
    Options { disk_free_floor_bytes: 0, file_system: FileSystem::Any, probe: Probe::Off, ..Options::new(root) }
}

/// A stopped store with every kind of entry in it, and the file that it was imported from.
pub fn full(folder: &Path) -> (PathBuf, PathBuf) {
    let (first, file, root) = (folder.join("first"), folder.join("export"), folder.join("store"));
    let store = SledStore::open(&options(&first)).expect("opens");
    store.bind("c", "g").expect("binds");
    append(&store, vec![admit("a", 1, Revision(0)), done("a", 1, "r")]);
    append(&store, vec![admit("b", 1, Revision(0)), doubt("b", 1, DoubtReason::Timeout)]);
    stands(&store, park(Some("b"), Some(Revision(2)), 50, 1, ParkReason::Unresolved));
    let hold =
        Entry::Hold { key: key("b"), park: park_id(50, 1), slot: slot(51), record: payload("held").digest(), seen: seen(&store, "b") };
    stands(&store, hold);
    stands(&store, rule("b", seen(&store, "b"), &[1], Ruling::NotDone));
    append(&store, vec![admit("b", 2, seen(&store, "b")), done("b", 2, "x")]);
    stands(&store, done("b", 1, "y"));
    append(&store, vec![admit("no", 1, Revision(0)), fact("no", 1, Fact::Rejected("no such account".into()))]);
    append(&store, vec![park(None, None, 52, 1, ParkReason::Conflict), park(None, None, 53, 1, ParkReason::DeadLetterFailed)]);
    append(&store, vec![end(None, 52, 1, EndKind::DeadLettered)]);
    append(&store, vec![Entry::Close { slot: slot(54), closing: Closing::DeadLettered, record: payload("gone").digest() }]);
    append(&store, vec![Entry::Watermark { slot: slot(52) }, Entry::Committed { slot: slot(51) }]);
    store.adopt(&Partition { topic: "payments".into(), number: 0 }, 50, "an existing group").expect("adopts");
    store.close().expect("closes");
    drop(store);
    export(&first, &file, &mut |_| {}).expect("exports");
    import(&file, &root, &Secrets::default(), &mut |_| {}).expect("imports");
    (root, file)
}

fn raw(root: &Path) -> ::sled::Db {
    ::sled::open(root.join("sled")).expect("nobody has it open")
}

fn entries(root: &Path) -> Raw {
    raw(root).iter().map(|entry| entry.expect("reads")).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

/// Makes the store hold these entries and no others.
fn put(root: &Path, entries: &Raw) {
    let db = raw(root);
    let there: Vec<_> = db.iter().keys().map(|key| key.expect("reads")).collect();
    let mut batch = ::sled::Batch::default();
    there.into_iter().filter(|key| !entries.contains_key(&key[..])).for_each(|key| batch.remove(key));
    entries.iter().for_each(|(key, value)| batch.insert(&key[..], &value[..]));
    db.apply_batch(batch).expect("writes");
    db.flush().expect("writes");
}

fn flipped(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

/// What the store makes of an entry that is read.
fn read(key: &[u8], value: &[u8]) -> Result<Key, Damage> {
    let parsed = Key::parse(key).ok_or(Damage::Key)?;
    format::unseal(key, value).map(|_| parsed)
}

#[test]
fn every_single_bit_of_every_kind_of_entry_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let entries = entries(&full(folder.path()).0);
    let kinds: BTreeSet<u8> = entries.keys().map(|key| key[0]).collect();
    assert_eq!(kinds, [1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x20, 0x21, 0x22].into(), "every kind is there");
    assert!(entries.contains_key(&[1, 3][..]), "imports too");
    let mut flips = 0;
    for (key, value) in &entries {
        assert!(read(key, value).is_ok());
        for bit in 0..value.len() * 8 {
            assert!(read(key, &flipped(value, bit)).is_err(), "bit {bit} of the value under {key:x?}");
            flips += 1;
        }
        for bit in 0..key.len() * 8 {
            assert!(read(&flipped(key, bit), value).is_err(), "bit {bit} of the key {key:x?}");
            flips += 1;
        }
        for length in 0..value.len() {
            assert!(read(key, &value[..length]).is_err(), "{key:x?} cut at {length}");
        }
        for (other, _) in entries.iter().filter(|(other, _)| *other != key) {
            assert!(read(other, value).is_err(), "{key:x?} under {other:x?}");
        }
    }
    assert!(flips > 10_000, "{flips}");
}

/// The same in a whole store, where each is named: some bits of each entry, all entries at once.
#[test]
fn a_flipped_bit_in_a_store_is_named_and_the_store_does_not_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let (root, _) = full(folder.path());
    let sound = entries(&root);
    let name = vec![1, 0];
    for pass in 0..24 {
        // What names the store is read first, and without it nothing else is.
        let damaged: Vec<&Vec<u8>> = if pass % 6 == 0 { vec![&name] } else { sound.keys().filter(|key| **key != name).collect() };
        let mut all = sound.clone();
        for key in &damaged {
            let bits = sound[*key].len() * 8;
            all.insert((*key).clone(), flipped(&sound[*key], (pass * 131 + 7) % bits));
        }
        put(&root, &all);
        let report = verify(&root).expect("can be read");
        for key in damaged {
            let named = match key[0] {
                0x11 => format!("block {}:", u64::from_be_bytes(key[1..].try_into().expect("eight"))),
                _ => receipted::protocol::key::hex(key),
            };
            assert!(report.problems.iter().any(|problem| problem.contains(&named)), "pass {pass}: {named} in {report}");
        }
        let refused = SledStore::open(&options(&root)).map(drop).expect_err("it is damaged");
        assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    }
    put(&root, &sound);
    assert!(verify(&root).expect("can be read").is_sound());
}

/// An entry under a key that has another bit is an entry too many, and one is missing.
#[test]
fn an_entry_under_another_key_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (root, _) = full(folder.path());
    let sound = entries(&root);
    for (at, key) in sound.keys().enumerate() {
        let mut all = sound.clone();
        let value = all.remove(key).expect("it is there");
        all.insert(flipped(key, (at * 37 + 3) % (key.len() * 8)), value);
        put(&root, &all);
        assert!(!verify(&root).expect("can be read").is_sound(), "{key:x?}");
    }
}

/// A body with another byte, or none of ours at all, under a right checksum: what only a fault of our own could write.
fn bodies() -> impl Strategy<Value = Vec<(prop::sample::Index, prop::sample::Index, u8, Option<Vec<u8>>)>> {
    let other = prop::option::weighted(0.3, prop::collection::vec(any::<u8>(), 0..80));
    prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), other), 1..4)
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn no_body_makes_the_store_panic(cases in prop::collection::vec(bodies(), 4)) {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, _) = shared();
        let sound = entries(root);
        for changes in cases {
            let root = folder.path().join("store");
            copy(shared().0.as_path(), &root);
            let mut all = sound.clone();
            for (which, at, byte, other) in changes {
                let key = which.get(&sound.keys().collect::<Vec<_>>()).to_vec();
                let mut body = all[&key][1..all[&key].len() - 4].to_vec();
                match other {
                    Some(other) => body = other,
                    None if body.is_empty() => body.push(byte),
                    None => {
                        let at = at.index(body.len());
                        body[at] ^= byte.max(1);
                    }
                }
                all.insert(key.clone(), format::seal(&key, &body));
            }
            put(&root, &all);
            drop(verify(&root));
            if let Ok(store) = SledStore::open(&options(&root)) {
                for which in [Which::All, Which::InDoubt, Which::Parked] {
                    drop(store.list(which, None, 100));
                }
                for (park, _) in store.parked(None, 100) {
                    drop(store.payload(&park));
                }
                drop((store.load(&[key("a"), key("b"), key("no")]), store.incidents(0, 100), store.totals()));
            }
            std::fs::remove_dir_all(&root).expect("removes");
        }
    }
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn a_key_is_read_as_it_is_written_or_is_none(tag in prop::sample::select(vec![0_u8, 1, 2, 3, 4, 5, 6, 7, 8, 0x10, 0x11, 0x20, 0x21, 0x22, 0xff]), rest in prop::collection::vec(any::<u8>(), 0..30)) {
        let bytes = [vec![tag], rest].concat();
        if let Some(key) = Key::parse(&bytes) {
            prop_assert_eq!(key.bytes(), bytes);
        }
    }

    #[test]
    fn notes_of_any_bytes_come_to_an_end(bytes in prop::collection::vec(prop_oneof![2 => 0_u8..8, 1 => any::<u8>()], 0..300)) {
        let mut rest = &bytes[..];
        while let Some((digest, note, body)) = format::note(&mut rest) {
            let mut again = digest.0.to_vec();
            note.push(&mut again);
            again.extend((body.len() as u16).to_be_bytes());
            again.extend(body);
            prop_assert!(bytes.windows(again.len()).any(|part| part == again), "nothing of it is made up");
        }
    }
}

fn shared() -> &'static (PathBuf, PathBuf) {
    static SHARED: std::sync::LazyLock<(tempfile::TempDir, (PathBuf, PathBuf))> = std::sync::LazyLock::new(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let full = full(folder.path());
        (folder, full)
    });
    &SHARED.1
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("reads") {
        let entry = entry.expect("reads");
        match entry.file_type().expect("a kind").is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copies")),
        }
    }
}
