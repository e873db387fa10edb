//! What a store with a secret keeps to itself, who may open it, and what an export and an import make of its digests.

use crate::{
    durable::{open, options, raw, rich},
    fixture::{InDirectory, in_directories, secret, tests},
    make::*,
};
use libtest_mimic::Trial;
use receipted::{
    protocol::{
        key::{KeyDigest, hex},
        known::{Entry, Known, Revision},
        note::{DoubtReason, Slot},
        park::{EndKind, ParkReason, Payload},
        secret::{Derivation, KeySecret},
    },
    store::{
        Error as StoreError, ReceiptStore, SecretProblem, Which,
        sled::{
            SledStore,
            transfer::{Error, Secrets, export, import},
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
    nothing_of_a_key_is_in_the_files,
    a_sealed_key_has_the_documented_bytes,
    another_secret_or_none_is_refused,
    a_store_that_knows_operations_takes_no_first_secret,
    an_import_makes_digests_anew_and_back,
    an_import_without_a_secret_leaves_keys_sealed,
    an_import_wants_the_exported_stores_own_secret,
    what_is_known_by_its_digest_alone_is_not_made_anew,
];

pub(crate) fn trials() -> Vec<Trial> {
    in_directories(TESTS.iter().map(|(name, test)| (format!("sealed::{name}"), *test)))
}

fn open_with(root: &Path, secret: Option<KeySecret>) -> Result<SledStore, StoreError> {
    let mut options = options(root);
    options.key_secret = secret;
    SledStore::open(&options)
}

/// The entries with the digests that the store makes.
fn admitted(store: &SledStore, id: &str) -> (KeyDigest, Vec<Entry>) {
    let digest = store.derivation().digest(&name(id));
    let entries = [admit(id, 1, Revision(0)), done(id, 1, "r-1")].map(|entry| match entry {
        Entry::Admit { name, seen, attempt, admission, within, .. } => Entry::Admit { key: digest, name, seen, attempt, admission, within },
        Entry::Fact { attempt, fact, .. } => Entry::Fact { key: digest, attempt, fact },
        other => other,
    });
    (digest, entries.into())
}

/// Whether these bytes are in any file of the store.
fn is_in_the_files(root: &Path, wanted: &[u8]) -> bool {
    let mut places = vec![root.to_path_buf()];
    while let Some(place) = places.pop() {
        if place.is_dir() {
            places.extend(fs::read_dir(place).expect("reads").map(|entry| entry.expect("reads").path()));
        } else if fs::read(&place).expect("reads").windows(wanted.len()).any(|window| window == wanted) {
            return true;
        }
    }
    false
}

fn nothing_of_a_key_is_in_the_files(root: &Path) {
    let id = "INV-mia.meier-4711";
    for (place, given) in [(root.join("open"), None), (root.join("sealed"), Some(secret(1)))] {
        let store = open_with(&place, given.clone()).expect("opens");
        let (digest, entries) = admitted(&store, id);
        append(&store, entries);
        store.close().expect("closes");
        let expected = given.is_none();
        for (what, bytes) in [("id", id.as_bytes()), ("tenant", b"acme".as_slice()), ("digest without the secret", &key(id).0)] {
            assert_eq!(is_in_the_files(&place, bytes), expected, "{what}, {given:?}");
        }
        assert!(is_in_the_files(&place, &digest.0), "its own digest is");
        let file = root.join("export");
        export(&place, &file, &mut |_| {}).expect("exports");
        let bytes = fs::read(&file).expect("reads");
        assert_eq!(bytes.windows(id.len()).any(|window| window == id.as_bytes()), expected, "the export, {given:?}");
        fs::remove_file(file).expect("removed");
        let store = open_with(&place, given).expect("opens");
        let known = store.load(&[digest]).expect("loads").remove(0);
        assert_eq!(known.key.as_deref(), Some(&name(id)), "whoever has the secret has the whole key");
    }
}

fn a_sealed_key_has_the_documented_bytes(root: &Path) {
    let store = open_with(root, Some(secret(1))).expect("opens");
    let (digest, entries) = admitted(&store, "INV-1");
    append(&store, entries);
    store.close().expect("closes");
    let db = raw(root);
    let value = |key: &[u8]| hex(&db.get(key).expect("reads").expect("is there"));
    assert!(value(&[1, 0]).starts_with("0103"), "format 3");
    assert_eq!(&value(&[1, 4])[2..34], "3142d6e6f70723b12710bed3ea02451c");
    let block = value(&[0x11, 0, 0, 0, 0, 0, 0, 0, 0]);
    // Made by another implementation of RFC 5297 (docs/STORE_FORMAT.md says of what).
    let sealed = "9301d683a8be359560372932899085f0275fada68a33d857ceb760fc7784d8734e716bd75773";
    assert_eq!(digest.to_string(), "a476c88430199c1ca9c7da400f345d43376617f747288cc68865602185cbee86");
    assert!(block.contains(&format!("0126{sealed}")), "{block}");
}

fn another_secret_or_none_is_refused(root: &Path) {
    let store = open_with(root, Some(secret(1))).expect("opens");
    let (digest, entries) = admitted(&store, "INV-1");
    append(&store, entries);
    store.close().expect("closes");
    let bound = secret(1).fingerprint();
    for (given, expected) in
        [(None, SecretProblem::Missing(bound)), (Some(secret(2)), SecretProblem::Other { bound, given: secret(2).fingerprint() })]
    {
        match open_with(root, given).map(drop) {
            Err(error @ StoreError::Secret { problem, .. }) => {
                assert_eq!(problem, expected);
                assert!(error.to_string().contains("store.key_secret_file"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    let report = verify(root).expect("a check needs no secret");
    assert!(report.is_sound(), "{report}");
    assert_eq!((report.secret, report.claims), (Some(bound), 1), "a refused start is none");
    let store = open_with(root, Some(secret(1))).expect("opens");
    assert!(store.load(&[digest]).expect("loads")[0].receipt.state().is_settled());
    drop(store);
    let text = format!("{:?} {:?}", secret(1), options(root));
    assert!(!text.contains("01, 01"), "no debug output has the secret: {text}");
}

fn a_store_that_knows_operations_takes_no_first_secret(root: &Path) {
    open(root).close().expect("closes");
    let store = open_with(root, Some(secret(1))).expect("a store that knows nothing takes it");
    let (_, entries) = admitted(&store, "INV-1");
    append(&store, entries);
    store.close().expect("closes");
    assert!(matches!(open_with(root, None), Err(StoreError::Secret { problem: SecretProblem::Missing(_), .. })), "and keeps it");
    let filled = root.with_file_name("filled");
    rich(&filled);
    match open_with(&filled, Some(secret(1))).map(drop) {
        Err(StoreError::Secret { problem: SecretProblem::Filled(operations), .. }) => assert_eq!(operations, 42),
        other => panic!("{other:?}"),
    }
    assert_eq!(open(&filled).list(Which::All, None, 100).expect("lists").len(), 42, "it is as it was");
}

fn exported(root: &Path, name: &str) -> PathBuf {
    let file = root.with_file_name(name);
    export(root, &file, &mut |_| {}).expect("exports");
    file
}

/// Everything that a store says, without the digests.
fn everything(store: &SledStore) -> (BTreeMap<String, Known>, Vec<String>, String) {
    let derivation = store.derivation();
    let named = |(digest, known): (KeyDigest, Arc<Known>)| {
        let Some(name) = known.key.clone() else { return (String::from("gone"), Known::default()) };
        assert_eq!(derivation.digest(&name), digest, "each operation is found by the store's own digest");
        let mut known = Known::clone(&known);
        for park in known.parks.values_mut() {
            let mut note = (**park).clone();
            assert_eq!(note.key.take(), Some(digest));
            *park = Arc::new(note);
        }
        (format!("{:?}", name.id()), known)
    };
    let all = store.list(Which::All, None, 1000).expect("lists").into_iter().map(named).collect();
    let names: BTreeMap<KeyDigest, String> = store
        .list(Which::All, None, 1000)
        .expect("lists")
        .into_iter()
        .map(|(digest, known)| (digest, format!("{:?}", known.key.as_ref().map(|name| name.id().to_vec()))))
        .collect();
    let incidents = store.incidents(0, 100).expect("reads").into_iter();
    let mut rest: Vec<String> = incidents.map(|(number, it)| format!("{number} {} {:?}", names[&it.key], it.references)).collect();
    for (id, park) in store.parked(None, 1000) {
        let record = store.payload(&id).expect("reads");
        rest.push(format!("{id:?} {:?} {:?} {record:?}", park.key.map(|key| &names[&key]), park.reason));
    }
    (all, rest, format!("{:?} {:?}", store.totals(), store.marks()))
}

fn an_import_makes_digests_anew_and_back(root: &Path) {
    rich(root);
    let store = open(root);
    append(&store, vec![admit("again", 1, Revision(0)), doubt("again", 1, DoubtReason::Unknown)]);
    let record = Payload { value: Some(vec![7; 5000]), ..payload("x") };
    let note = park_of(Some("again"), ParkReason::Unresolved, &record);
    append(&store, vec![Entry::Park { seen: Some(Revision(2)), id: park_id(60, 1), park: note, payload: Arc::new(record) }]);
    // Parked before it had an attempt, and gone since: its name was never written.
    stands(&store, park(Some("gone"), Some(Revision(0)), 61, 1, ParkReason::Conflict));
    append(&store, vec![end(Some("gone"), 61, 1, EndKind::Discarded)]);
    let before = {
        let all = store.list(Which::All, None, 1000).expect("lists").len();
        store.close().expect("closes");
        all
    };
    let (mut place, mut last, mut told) = (root.to_path_buf(), None, None);
    for (step, next) in [Some(secret(1)), Some(secret(2)), None].into_iter().enumerate() {
        let file = exported(&place, &format!("export-{step}"));
        let made = root.with_file_name(format!("made-{step}"));
        let secrets = Secrets { exported: last.clone(), new: next.clone() };
        let filled = import(&file, &made, &secrets, &mut |_| {}).expect("imports");
        assert!(filled.report.is_sound(), "{}", filled.report);
        assert_eq!(filled.report.secret, next.as_ref().map(KeySecret::fingerprint));
        let store = open_with(&made, next.clone()).expect("opens");
        assert_eq!(store.load(&[key("op-1")]).expect("loads")[0].receipt.state().is_settled(), next.is_none(), "the old digest");
        let digest = Derivation::of(next.as_ref()).digest(&name("op-1"));
        assert!(store.load(&[digest]).expect("loads")[0].receipt.state().is_settled(), "its repeat is recognised");
        let all = store.list(Which::All, None, 1000).expect("lists");
        assert_eq!(all.len(), before);
        let slots: Vec<Slot> = (40..80).map(slot).collect();
        let answers = format!(
            "{:?} {:?}",
            everything(&store),
            store.slots(&slots).iter().map(|notes| (notes.times, notes.closed)).collect::<Vec<_>>()
        );
        assert_eq!(told.get_or_insert_with(|| answers.clone()), &answers);
        store.close().expect("closes");
        (place, last) = (made, next);
    }
}

fn an_import_without_a_secret_leaves_keys_sealed(root: &Path) {
    let store = open_with(root, Some(secret(1))).expect("opens");
    let (digest, entries) = admitted(&store, "INV-1");
    append(&store, entries);
    store.close().expect("closes");
    let (file, made) = (exported(root, "export"), root.with_file_name("made"));
    let filled = import(&file, &made, &Secrets::default(), &mut |_| {}).expect("imports");
    assert_eq!(filled.report.secret, Some(secret(1).fingerprint()));
    assert!(matches!(open_with(&made, None), Err(StoreError::Secret { .. })));
    let store = open_with(&made, Some(secret(1))).expect("opens");
    assert!(store.load(&[digest]).expect("loads")[0].receipt.state().is_settled());
}

fn an_import_wants_the_exported_stores_own_secret(root: &Path) {
    let store = open_with(root, Some(secret(1))).expect("opens");
    let (_, entries) = admitted(&store, "INV-1");
    append(&store, entries);
    store.close().expect("closes");
    let (sealed, made, clear) = (exported(root, "sealed"), root.with_file_name("made"), root.with_file_name("clear"));
    rich(&clear);
    let clear = exported(&clear, "clear-export");
    let bound = Some(secret(1).fingerprint());
    for (file, exported, new, expected) in [
        (&sealed, None, Some(secret(2)), bound),
        (&sealed, Some(secret(2)), Some(secret(3)), bound),
        (&sealed, Some(secret(2)), None, bound),
        (&clear, Some(secret(1)), Some(secret(2)), None),
    ] {
        let error = import(file, &made, &Secrets { exported, new }, &mut |_| {}).expect_err("is refused");
        assert!(matches!(error, Error::Secret { bound, .. } if bound == expected), "{error}");
        assert!(error.to_string().contains("--exported-key-secret-file"), "{error}");
        assert!(!made.exists() && !root.with_file_name("made.importing").exists(), "nothing is left");
    }
}

fn what_is_known_by_its_digest_alone_is_not_made_anew(root: &Path) {
    let store = open(root);
    append(&store, vec![admit("named", 1, Revision(0)), done("named", 1, "r")]);
    stands(&store, park(Some("waiting"), Some(Revision(0)), 50, 1, ParkReason::Conflict));
    store.close().expect("closes");
    let (file, made) = (exported(root, "export"), root.with_file_name("made"));
    let secrets = Secrets { exported: None, new: Some(secret(1)) };
    let error = import(&file, &made, &secrets, &mut |_| {}).expect_err("is refused");
    assert!(matches!(error, Error::Nameless { operations: 1, first, .. } if first == key("waiting")), "{error}");
    assert!(!made.exists());
    let store = open(root);
    append(&store, vec![end(Some("waiting"), 50, 1, EndKind::Discarded)]);
    store.close().expect("closes");
    let file = exported(root, "export-again");
    import(&file, &made, &secrets, &mut |_| {}).expect("nothing waits any more");
    let store = open_with(&made, Some(secret(1))).expect("opens");
    let digest = store.derivation().digest(&name("named"));
    assert!(store.load(&[digest]).expect("loads")[0].receipt.state().is_settled());
}
