//! What an export holds and an import makes of it: the same content under a new name, or nothing at all.

use crate::{
    durable::{open, raw, rich},
    fixture::{InDirectory, in_directories, tests},
    make::*,
};
use libtest_mimic::Trial;
use receipted::{
    protocol::{
        known::{Entry, Revision},
        note::{DoubtReason, Fact, Slot},
        park::{EndKind, ParkReason, Payload},
        receipt::State,
    },
    store::{
        Error as StoreError, Marks, Partition, ReceiptStore, Which,
        sled::{
            adopt,
            transfer::{Error, Filled, Secrets, export, import},
            verify,
        },
    },
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

const TESTS: &[(&str, InDirectory)] = tests![
    an_import_is_the_same_content_under_a_new_name,
    an_import_answers_as_the_exported_store_did,
    the_file_is_as_documented,
    a_file_of_version_1_is_read,
    every_damaged_byte_of_the_head_is_refused,
    a_damaged_byte_anywhere_is_refused,
    a_cut_file_is_refused_by_that_name,
    chunks_that_are_gone_doubled_or_swapped_are_refused,
    a_sound_file_of_an_unsound_store_is_refused,
    another_version_is_refused_by_that_name,
    an_import_goes_into_an_empty_directory_alone,
    what_a_kill_left_is_named,
    an_export_wants_a_stopped_sound_store_and_a_new_file,
    an_import_is_unverified_until_offsets_are_adopted,
    an_import_of_an_import_is_unverified_again,
];

pub(crate) fn trials() -> Vec<Trial> {
    in_directories(TESTS.iter().map(|(name, test)| (format!("transfer::{name}"), *test)))
}

fn partition(topic: &str, number: i32) -> Partition {
    Partition { topic: topic.into(), number }
}

/// A stopped store with every kind of entry, larger than some chunks of an export.
fn full(root: &Path) {
    rich(root);
    let store = open(root);
    append(&store, vec![admit("again", 1, Revision(0)), doubt("again", 1, DoubtReason::Unknown)]);
    let large = Payload { value: Some((0..700_000_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect()), ..payload("x") };
    let note = park_of(Some("again"), ParkReason::Unresolved, &large);
    let entry = Entry::Park { seen: Some(Revision(2)), id: park_id(60, 1), park: note, payload: Arc::new(large) };
    append(&store, vec![entry]);
    let held = payload("held");
    let hold = Entry::Hold { key: key("again"), park: park_id(60, 1), slot: slot(61), record: held.digest(), seen: seen(&store, "again") };
    stands(&store, hold);
    append(&store, vec![admit("no", 1, Revision(0)), fact("no", 1, Fact::Rejected("no such account".into()))]);
    append(&store, vec![park(None, None, 70, 1, ParkReason::Conflict), park(None, None, 71, 1, ParkReason::Conflict)]);
    append(&store, vec![end(None, 71, 1, EndKind::Discarded)]);
    let other = Slot { topic: "refunds".into(), partition: 3, offset: -1 };
    append(
        &store,
        vec![Entry::Watermark { slot: Slot { offset: 9, ..other.clone() } }, Entry::Committed { slot: Slot { offset: 8, ..other } }],
    );
    store.close().expect("closes");
}

fn beside(root: &Path, name: &str) -> PathBuf {
    root.with_file_name(name)
}

fn exported(root: &Path) -> PathBuf {
    let file = beside(root, "export");
    full(root);
    let exported = export(root, &file, &mut |_| {}).expect("exports");
    assert_eq!(exported.bytes, fs::metadata(&file).expect("the file").len());
    file
}

fn imported(file: &Path, root: &Path) -> Filled {
    import(file, root, &Secrets::default(), &mut |_| {}).expect("imports")
}

type Raw = BTreeMap<Vec<u8>, Vec<u8>>;

fn entries(root: &Path) -> Raw {
    let db = raw(root);
    db.iter().map(|entry| entry.expect("reads")).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

/// Without what names the store and says where it came from.
fn content(root: &Path) -> Raw {
    entries(root).into_iter().filter(|(key, _)| !matches!(key[..], [1, 0 | 3])).collect()
}

fn an_import_is_the_same_content_under_a_new_name(root: &Path) {
    let file = exported(root);
    let (first, second) = (beside(root, "first"), beside(root, "second"));
    let filled = imported(&file, &first);
    let kinds: std::collections::BTreeSet<u8> = entries(&first).keys().map(|key| key[0]).collect();
    assert_eq!(kinds, [1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x20, 0x21, 0x22].into(), "every kind of entry is in the test");
    assert_eq!(content(&first), content(root));
    let ids = [&filled.report.store_id, &filled.imported.from];
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids[1], &verify(root).expect("reads").store_id);
    let report = verify(&first).expect("reads");
    assert!(report.is_sound(), "{report}");
    assert_eq!(&report.store_id, ids[0]);
    let again = beside(root, "again");
    export(&first, &again, &mut |_| {}).expect("exports");
    imported(&again, &second);
    assert_eq!(content(&second), content(root));
    for left in ["first.importing", "export.partial", "again.partial"] {
        assert!(!beside(root, left).exists(), "{left}");
    }
}

fn an_import_answers_as_the_exported_store_did(root: &Path) {
    let file = exported(root);
    let other = beside(root, "other");
    imported(&file, &other);
    let (one, other) = (open(root), open(&other));
    for which in [Which::All, Which::InDoubt, Which::Parked, Which::Disputed, Which::Superseded, Which::Unconfirmed, Which::ReopenedWaiting]
    {
        let list = |store: &dyn ReceiptStore| store.list(which, None, 1000).expect("lists");
        assert_eq!(list(&one), list(&other), "{which:?}");
    }
    let all = one.list(Which::All, None, 1000).expect("lists");
    assert!(all.len() > 40);
    for (key, known) in &all {
        assert_eq!(&other.load(&[*key]).expect("loads")[0], known);
        assert_eq!(one.applied(key), other.applied(key));
    }
    let parked = one.parked(None, 1000);
    assert_eq!(parked, other.parked(None, 1000));
    assert_eq!(parked.len(), 3);
    for id in [park_id(50, 1), park_id(51, 1), park_id(52, 1), park_id(60, 1), park_id(70, 1), park_id(71, 1)] {
        let record = one.payload(&id).expect("reads");
        assert!(record.is_some(), "{id:?}");
        assert_eq!(record, other.payload(&id).expect("reads"));
    }
    let slots: Vec<Slot> = (40..80).map(slot).collect();
    assert_eq!(one.slots(&slots), other.slots(&slots));
    assert_eq!(one.marks(), other.marks());
    assert_eq!(one.totals(), other.totals());
    assert_eq!(one.incidents(0, 100).expect("reads"), other.incidents(0, 100).expect("reads"));
    assert_eq!(one.incidents(0, 100).expect("reads").len(), 1);
    assert_eq!(one.identity().claim, other.identity().claim, "claims go on counting");
    assert!(one.imported().is_none() && other.imported().is_some());
}

/// A chunk as the documentation has it: where it begins, its kind, its body, its checksum.
struct Chunk {
    at: usize,
    kind: u8,
    body: Vec<u8>,
    sum: u32,
}

fn chunks(bytes: &[u8]) -> Vec<Chunk> {
    let (mut at, mut chunks) = (12, Vec::new());
    while at < bytes.len() {
        let number = |from: usize| u32::from_be_bytes(bytes[from..from + 4].try_into().expect("four bytes"));
        let end = at + 5 + number(at + 1) as usize;
        chunks.push(Chunk { at, kind: bytes[at], body: bytes[at + 5..end].to_vec(), sum: number(end) });
        at = end + 4;
    }
    chunks
}

/// Puts a file together, with right checksums, lengths and counts wherever they are not given.
fn assembled(bodies: &[(u8, Vec<u8>)], counts: Option<(u64, u64)>) -> Vec<u8> {
    let mut out = b"rcexport\0\0\0\x01".to_vec();
    let (mut entries, mut content) = (0_u64, 0_u64);
    for (number, (kind, body)) in bodies.iter().enumerate() {
        let mut body = body.clone();
        if *kind == 2 {
            let mut rest = &body[..];
            while !rest.is_empty() {
                let length = usize::from(rest[0]) + u32::from_be_bytes(rest[1..5].try_into().expect("four")) as usize;
                (entries, content, rest) = (entries + 1, content + length as u64, &rest[5 + length..]);
            }
        }
        if *kind == 3 {
            let digest = *blake3::hash(&out).as_bytes();
            let (entries, content) = counts.unwrap_or((entries, content));
            body = [varint(number as u64), varint(entries), varint(content), digest.to_vec()].concat();
        }
        let mut chunk = vec![*kind];
        chunk.extend((body.len() as u32).to_be_bytes());
        chunk.extend(body);
        let sum = crc32c::crc32c_append(crc32c::crc32c(&(number as u64).to_be_bytes()), &chunk);
        out.extend(chunk);
        out.extend(sum.to_be_bytes());
    }
    out
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

fn bodies(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    chunks(bytes).into_iter().map(|chunk| (chunk.kind, chunk.body)).collect()
}

fn the_file_is_as_documented(root: &Path) {
    let bytes = fs::read(exported(root)).expect("reads");
    let chunks = chunks(&bytes);
    let kinds: Vec<u8> = chunks.iter().map(|chunk| chunk.kind).collect();
    assert!(kinds.len() > 4, "{kinds:?}");
    assert!(kinds.starts_with(&[1, 2, 2]) && kinds.ends_with(&[2, 3]), "{kinds:?}");
    // Assembled anew from its bodies alone it is the same file: checksums, counts and digest are what the page says.
    assert_eq!(assembled(&bodies(&bytes), None), bytes);
    let expected: u32 = chunks[0].sum;
    assert_eq!(u32::from_be_bytes(bytes[chunks[1].at - 4..chunks[1].at].try_into().expect("four")), expected);
    let mut written = Raw::new();
    for chunk in chunks.iter().filter(|chunk| chunk.kind == 2) {
        let mut rest = &chunk.body[..];
        while let [key, a, b, c, d, after @ ..] = rest {
            let (key, after) = after.split_at(usize::from(*key));
            let (value, after) = after.split_at(u32::from_be_bytes([*a, *b, *c, *d]) as usize);
            written.insert(key.to_vec(), value.to_vec());
            rest = after;
        }
    }
    assert_eq!(written, entries(root));
    let header = &chunks[0].body;
    assert_eq!(header[0], 2, "the store's format comes first");
    assert_eq!(receipted::protocol::key::hex(&header[1..17]), verify(root).expect("reads").store_id);
}

/// A small store as it was exported when this version was new.
fn a_file_of_version_1_is_read(root: &Path) {
    let file = beside(root, "export-1");
    let digits: String = include_str!("export-1.txt").split_whitespace().collect();
    let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits"));
    fs::write(&file, bytes.collect::<Vec<u8>>()).expect("writes");
    let filled = imported(&file, root);
    assert_eq!(filled.imported.from, "998e5923e2ff4b8891f41f6ece664b79");
    assert_eq!(filled.imported.unverified, BTreeMap::from([(partition("payments", 0), Some(11))]));
    assert_eq!((filled.report.operations, filled.report.notes, filled.report.parked), (2, 5, 1));
    assert_eq!(filled.report.binding, Some(("c".into(), "g".into())));
    let store = open(root);
    assert_eq!(load(&store, "a").receipt.state(), State::Applied(&applied("r")));
    assert_eq!(store.payload(&park_id(9, 1)).expect("reads"), Some(payload("record 9")));
}

/// Whether a file with these bytes is refused as such, and nothing is left.
#[track_caller]
fn refused(root: &Path, bytes: &[u8], what: &str) -> Error {
    let (file, place) = (beside(root, "damaged"), beside(root, "place"));
    fs::write(&file, bytes).expect("writes");
    let error = import(&file, &place, &Secrets::default(), &mut |_| {}).expect_err(what);
    let named = matches!(error, Error::NotAnExport { .. } | Error::Version { .. } | Error::Cut { .. } | Error::Damaged { .. });
    assert!(named, "{what}: {error}");
    assert!(!place.exists() && !beside(root, "place.importing").exists(), "{what}: something is left");
    error
}

fn flipped(bytes: &[u8], at: usize, bit: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1 << bit;
    bytes
}

/// Numbers that look random and are the same each time.
fn sample(seed: u64, below: usize, count: usize) -> impl Iterator<Item = usize> {
    let seed = std::env::var("RECEIPTED_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(seed);
    println!("RECEIPTED_SEED={seed}");
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    })
    .take(count)
}

fn every_damaged_byte_of_the_head_is_refused(root: &Path) {
    let bytes = fs::read(exported(root)).expect("reads");
    let head = chunks(&bytes)[1].at;
    for at in 0..head {
        for bit in 0..8 {
            refused(root, &flipped(&bytes, at, bit), &format!("byte {at}, bit {bit}"));
        }
        let error = refused(root, &bytes[..at], &format!("cut at {at}"));
        assert!(matches!(error, Error::Cut { .. } | Error::NotAnExport { .. }), "cut at {at}: {error}");
    }
}

fn a_damaged_byte_anywhere_is_refused(root: &Path) {
    let bytes = fs::read(exported(root)).expect("reads");
    let chunks = chunks(&bytes);
    let (head, end) = (chunks[1].at, chunks[chunks.len() - 1].at);
    // The length and checksum of each chunk, all of the end, and some of the rest.
    let edges = chunks.iter().skip(1).flat_map(|chunk| (chunk.at - 4)..(chunk.at + 5));
    let rest = sample(7, bytes.len() - head, 40).map(|at| head + at);
    for at in edges.chain((end..bytes.len()).step_by(3)).chain(rest).collect::<Vec<_>>() {
        refused(root, &flipped(&bytes, at, (at % 8) as u32), &format!("byte {at}"));
    }
    let more = [&bytes[..], b"x"].concat();
    assert!(refused(root, &more, "more bytes").to_string().contains("more comes after its end"));
}

fn a_cut_file_is_refused_by_that_name(root: &Path) {
    let bytes = fs::read(exported(root)).expect("reads");
    let head = chunks(&bytes)[1].at;
    let ends = chunks(&bytes).into_iter().skip(1).map(|chunk| chunk.at);
    let rest = sample(11, bytes.len() - head, 30).map(|at| head + at);
    for at in ends.chain(rest).chain([bytes.len() - 1]).collect::<Vec<_>>() {
        match refused(root, &bytes[..at], &format!("cut at {at}")) {
            Error::Cut { at: ends, .. } => assert_eq!(ends, at as u64),
            error => panic!("cut at {at}: {error}"),
        }
    }
}

fn chunks_that_are_gone_doubled_or_swapped_are_refused(root: &Path) {
    let bytes = fs::read(exported(root)).expect("reads");
    let ranges: Vec<_> = chunks(&bytes).iter().map(|chunk| chunk.at..chunk.at + chunk.body.len() + 9).collect();
    let with = |order: &[usize]| [&bytes[..12], &order.iter().map(|at| &bytes[ranges[*at].clone()]).collect::<Vec<_>>().concat()].concat();
    let last = ranges.len() - 1;
    let whole: Vec<usize> = (0..=last).collect();
    assert_eq!(with(&whole), bytes);
    refused(root, &with(&[&whole[..2], &whole[3..]].concat()), "one is gone");
    refused(root, &with(&[&whole[..3], &whole[2..]].concat()), "one is there twice");
    refused(root, &with(&[&[0, 2, 1], &whole[3..]].concat()), "two are swapped");
    // Also with right checksums, and with an end that fits or does not.
    let parts = bodies(&bytes);
    let swapped: Vec<_> = [0, 2, 1].iter().chain(&whole[3..]).map(|at| parts[*at].clone()).collect();
    assert!(refused(root, &assembled(&swapped, None), "the order of keys").to_string().contains("order of their keys"));
    assert!(refused(root, &assembled(&parts, Some((1, 1))), "counts").to_string().contains("entries in"));
    assert!(refused(root, &assembled(&parts[1..], None), "no header").to_string().contains("begin with a header"));
}

fn a_sound_file_of_an_unsound_store_is_refused(root: &Path) {
    let bytes = fs::read(exported(root)).expect("reads");
    let parts = bodies(&bytes);
    // Whole chunks are missing, and the file says so itself: only the store's own counts know.
    let missing: Vec<_> = [&parts[..2], &parts[3..]].concat();
    assert!(refused(root, &assembled(&missing, None), "a chunk").to_string().contains("what it holds has"));
    let mut renamed = parts;
    renamed[0].1[5] ^= 1;
    assert!(refused(root, &assembled(&renamed, None), "the name").to_string().contains("not the one that its header names"));
}

fn another_version_is_refused_by_that_name(root: &Path) {
    let mut bytes = fs::read(exported(root)).expect("reads");
    let mut parts = bodies(&bytes);
    bytes[11] = 2;
    assert!(matches!(refused(root, &bytes, "version 2"), Error::Version { what: "export", found: 2, expected: 1, .. }));
    parts[0].1[0] = 4;
    let other = assembled(&parts, None);
    assert!(matches!(refused(root, &other, "format 4"), Error::Version { what: "store", found: 4, expected: 2, .. }));
    parts[0].1[0] = 3;
    let other = assembled(&parts, None);
    assert!(matches!(refused(root, &other, "sealed, it says"), Error::Damaged { .. }), "its entries are not");
    assert!(matches!(refused(root, b"{\"operations\": []}", "no export"), Error::NotAnExport { .. }));
    assert!(matches!(refused(root, b"", "nothing"), Error::NotAnExport { .. }));
}

fn an_import_goes_into_an_empty_directory_alone(root: &Path) {
    let file = exported(root);
    let before = entries(root);
    assert!(matches!(import(&file, root, &Secrets::default(), &mut |_| {}), Err(Error::NotEmpty { .. })));
    assert_eq!(entries(root), before);
    assert!(matches!(import(&file, &file, &Secrets::default(), &mut |_| {}), Err(Error::NotEmpty { .. })), "a file is no directory");
    let empty = beside(root, "empty");
    fs::create_dir(&empty).expect("made");
    imported(&file, &empty);
    let deep = beside(root, "not/there/yet");
    imported(&file, &deep);
    assert!(verify(&deep).expect("reads").is_sound());
    let foreign = beside(root, "foreign");
    fs::create_dir(&foreign).expect("made");
    fs::write(foreign.join("notes.txt"), "mine").expect("writes");
    assert!(matches!(import(&file, &foreign, &Secrets::default(), &mut |_| {}), Err(Error::NotEmpty { .. })));
    assert!(matches!(import(&beside(root, "none"), &deep, &Secrets::default(), &mut |_| {}), Err(Error::Io { action: "open", .. })));
}

fn what_a_kill_left_is_named(root: &Path) {
    let file = exported(root);
    let half = beside(root, "new.importing");
    fs::create_dir(&half).expect("made");
    assert!(
        matches!(import(&file, &beside(root, "new"), &Secrets::default(), &mut |_| {}), Err(Error::Unfinished { path }) if path == half)
    );
    assert!(half.exists(), "it may be another's");
    let partial = beside(root, "later.partial");
    fs::write(&partial, "half").expect("writes");
    assert!(matches!(export(root, &beside(root, "later"), &mut |_| {}), Err(Error::Unfinished { path }) if path == partial));
    assert_eq!(fs::read(&partial).expect("still there"), b"half");
}

fn an_export_wants_a_stopped_sound_store_and_a_new_file(root: &Path) {
    let file = exported(root);
    let before = fs::read(&file).expect("reads");
    assert!(matches!(export(root, &file, &mut |_| {}), Err(Error::Exists { .. })));
    assert_eq!(fs::read(&file).expect("reads"), before);
    let other = beside(root, "other");
    let store = open(root);
    assert!(matches!(export(root, &other, &mut |_| {}), Err(Error::Store(StoreError::InUse { .. }))));
    store.close().expect("closes");
    drop(store);
    assert!(matches!(export(&beside(root, "none"), &other, &mut |_| {}), Err(Error::Store(StoreError::Io { action: "find a store", .. }))));
    let db = raw(root);
    let chunk = db.scan_prefix([0x21]).keys().next().expect("a chunk").expect("reads");
    db.remove(chunk).expect("writes");
    drop(db);
    assert!(matches!(export(root, &other, &mut |_| {}), Err(Error::Unsound { .. })));
    assert!(!other.exists() && !beside(root, "other.partial").exists());
    assert!(verify(root).is_ok(), "the directory is let go");
}

fn an_import_is_unverified_until_offsets_are_adopted(root: &Path) {
    let file = exported(root);
    let new = beside(root, "new");
    let filled = imported(&file, &new);
    // The offset that was adopted before the export vouches for nothing since.
    assert_eq!(filled.report.marks[&partition("payments", 0)].adopted, Some(50));
    let both = BTreeMap::from([(partition("payments", 0), Some(50)), (partition("refunds", 3), Some(9))]);
    assert_eq!(filled.imported.unverified, both);
    assert_eq!(filled.imported.partitions(), "payments/0 from offset 50 on, refunds/3 from offset 9 on");
    let store = open(&new);
    assert_eq!(store.imported().expect("imported").unverified, both);
    append(&store, vec![Entry::Watermark { slot: slot(55) }, Entry::Committed { slot: slot(55) }]);
    assert_eq!(store.imported().expect("imported").unverified, both, "marks of its own change nothing");
    store.adopt(&partition("refunds", 3), 12, "the other one is gone").expect("adopts");
    let one = BTreeMap::from([(partition("payments", 0), Some(50))]);
    assert_eq!(store.imported().expect("imported").unverified, one);
    store.close().expect("closes");
    drop(store);
    let report = verify(&new).expect("reads");
    assert!(report.is_sound() && report.to_string().contains("unverified, until an offset is adopted for each: payments/0"), "{report}");
    adopt(&new, &partition("payments", 0), 58, "the other one is gone").expect("adopts");
    let store = open(&new);
    assert_eq!(store.imported().expect("imported").unverified, BTreeMap::new());
    let marks = Marks { watermark: Some(58), committed: None, adopted: Some(58) };
    assert_eq!(store.marks()[&partition("payments", 0)], marks);
}

fn an_import_of_an_import_is_unverified_again(root: &Path) {
    let file = exported(root);
    let (first, second) = (beside(root, "first"), beside(root, "second"));
    let from = imported(&file, &first).report.store_id;
    for (topic, number, offset) in [("payments", 0, 58), ("refunds", 3, 12)] {
        adopt(&first, &partition(topic, number), offset, "the other one is gone").expect("adopts");
    }
    let again = beside(root, "again");
    export(&first, &again, &mut |_| {}).expect("exports");
    let filled = imported(&again, &second);
    assert_eq!(filled.imported.from, from);
    assert_eq!(filled.imported.unverified, BTreeMap::from([(partition("payments", 0), Some(58)), (partition("refunds", 3), Some(12))]));
}
