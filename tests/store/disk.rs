//! What the store does about the disk under it: what it asks of it, and the space that it holds back on it.

use crate::{
    durable::options,
    fixture::{InDirectory, in_directories, tests},
    make::*,
};
use libtest_mimic::Trial;
use receipted::{
    protocol::{known::Revision, note::Fact},
    store::{
        Batch, Error, Partition, ReceiptStore,
        sled::{Options, Probe, SledStore, adopt, verify},
    },
};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const FLOOR: u64 = 8 << 20;
const BALLAST: u64 = (1 << 20) + 4096;
const PLENTY: u64 = 1 << 40;

const TESTS: &[(&str, InDirectory)] = tests![
    an_open_measures_the_disk_and_leaves_no_probe,
    the_ballast_has_blocks_of_its_own_and_is_no_part_of_the_store,
    a_running_store_gives_the_ballast_back_for_completions_alone,
    an_open_on_a_full_disk_gives_the_ballast_back_first,
    there_is_no_ballast_without_room_floor_or_size,
    a_ballast_that_holds_nothing_is_made_again,
    verify_and_adopt_leave_the_ballast_alone,
];

pub(crate) fn trials() -> Vec<Trial> {
    in_directories(TESTS.iter().map(|(name, test)| (format!("disk::{name}"), *test)))
}

/// A store that holds space back, on a disk that has free what the test says.
fn holding(root: &Path, free: &Arc<AtomicU64>) -> Options {
    let free = free.clone();
    Options {
        disk_free_floor_bytes: FLOOR,
        ballast_bytes: BALLAST,
        free_bytes: Some(Arc::new(move || free.load(Ordering::SeqCst))),
        ..options(root)
    }
}

fn free(bytes: u64) -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(bytes))
}

fn ballast(root: &Path) -> PathBuf {
    root.join("ballast")
}

fn assert_holds(root: &Path) {
    let meta = fs::metadata(ballast(root)).expect("the ballast is there");
    assert_eq!(meta.len(), BALLAST);
    assert!(meta.blocks() * 512 >= BALLAST, "{} blocks: it is sparse", meta.blocks());
}

fn an_open_measures_the_disk_and_leaves_no_probe(root: &Path) {
    fs::create_dir(root).expect("made");
    for name in ["probe", "probe.new"] {
        fs::write(root.join(name), "of a killed one").expect("written");
    }
    let store = SledStore::open(&options(root)).expect("opens");
    assert_eq!(store.disk().syncs, None, "it was not asked");
    assert!(!store.disk().file_system.is_empty());
    let none_left = || ["probe", "probe.new"].iter().all(|name| !root.join(name).exists());
    assert!(none_left(), "what a killed probe left");
    store.close().expect("closes");
    let store = SledStore::open(&Options { probe: Probe::On, ..options(root) }).expect("opens");
    let syncs = store.disk().syncs.expect("it was asked");
    assert!(Duration::ZERO < syncs.p50 && syncs.p50 <= syncs.max, "{syncs:?}");
    assert!(none_left(), "its own");
}

fn the_ballast_has_blocks_of_its_own_and_is_no_part_of_the_store(root: &Path) {
    let free = free(PLENTY);
    let store = SledStore::open(&holding(root, &free)).expect("opens");
    assert_holds(root);
    assert!(store.sizes().store_bytes < BALLAST, "{}", store.sizes().store_bytes);
    let made = fs::metadata(ballast(root)).expect("there").ino();
    store.close().expect("closes");
    let _store = SledStore::open(&holding(root, &free)).expect("opens");
    assert_holds(root);
    assert_eq!(fs::metadata(ballast(root)).expect("there").ino(), made, "a whole one stays");
}

fn a_running_store_gives_the_ballast_back_for_completions_alone(root: &Path) {
    let free = free(PLENTY);
    let store = SledStore::open(&holding(root, &free)).expect("opens");
    append(&store, vec![admit("a", 1, Revision(0))]);
    free.store(FLOOR / 4, Ordering::SeqCst);
    append(&store, vec![fact("a", 1, Fact::NoEffect("busy".into()))]);
    assert_holds(root);
    assert!(matches!(store.pressure(), Some(Error::Full { limit: FLOOR, .. })), "{:?}", store.pressure());
    free.store(FLOOR / 4 - 1, Ordering::SeqCst);
    append(&store, vec![fact("b", 1, Fact::NoEffect("busy".into()))]);
    assert!(!ballast(root).exists(), "it is given back");
    append(&store, vec![fact("c", 1, Fact::NoEffect("busy".into()))]);

    // The space that came back is above the floor now, and still not for new work.
    free.store(FLOOR + BALLAST - 1, Ordering::SeqCst);
    append(&store, vec![fact("d", 1, Fact::NoEffect("busy".into()))]);
    let refused = store.append(Batch(vec![admit("e", 1, Revision(0))]));
    assert!(matches!(refused, Err(Error::Full { limit, .. }) if limit == FLOOR + BALLAST), "{refused:?}");
    free.store(PLENTY, Ordering::SeqCst);
    append(&store, vec![fact("f", 1, Fact::NoEffect("busy".into()))]);
    append(&store, vec![admit("e", 1, Revision(0))]);
    assert!(!ballast(root).exists(), "a later open makes it again");
    store.close().expect("closes");
    let _store = SledStore::open(&holding(root, &free)).expect("opens");
    assert_holds(root);
}

fn an_open_on_a_full_disk_gives_the_ballast_back_first(root: &Path) {
    let free = free(PLENTY);
    SledStore::open(&holding(root, &free)).and_then(|store| store.close()).expect("opens and closes");
    assert_holds(root);
    let mut full = holding(root, &free);
    let (file, there) = (ballast(root), Arc::new(AtomicU64::new(0)));
    let seen = there.clone();
    full.before_sync = Some(Arc::new(move || {
        seen.fetch_add(u64::from(file.exists()), Ordering::SeqCst);
        Ok(())
    }));
    free.store(FLOOR / 4 - 1, Ordering::SeqCst);
    let store = SledStore::open(&full).expect("opens");
    append(&store, vec![fact("a", 1, Fact::NoEffect("busy".into()))]);
    assert_eq!((ballast(root).exists(), there.load(Ordering::SeqCst)), (false, 0), "gone before anything is synced");
}

fn there_is_no_ballast_without_room_floor_or_size(root: &Path) {
    let without = |case: &str, options: &Options| {
        let store = SledStore::open(options).expect("opens");
        assert!(!ballast(root).exists(), "{case}");
        let pressure = store.pressure().is_some();
        store.close().expect("closes");
        pressure
    };
    assert!(!without("no room", &holding(root, &free(FLOOR + BALLAST))));
    let plenty = holding(root, &free(PLENTY));
    let with = || SledStore::open(&plenty).and_then(|store| store.close()).map(|()| assert_holds(root)).expect("opens and closes");
    with();
    assert!(!without("no floor", &Options { disk_free_floor_bytes: 0, ..plenty.clone() }));
    with();
    assert!(!without("no size", &Options { ballast_bytes: 0, ..plenty.clone() }));
}

fn a_ballast_that_holds_nothing_is_made_again(root: &Path) {
    let options = holding(root, &free(PLENTY));
    SledStore::open(&options).and_then(|store| store.close()).expect("opens and closes");
    for (bytes, length) in [(vec![0; 4096], 4096), (Vec::new(), BALLAST), (vec![0; 4096], BALLAST * 2)] {
        fs::remove_file(ballast(root)).expect("removed");
        fs::write(ballast(root), bytes).expect("written");
        fs::File::options().write(true).open(ballast(root)).and_then(|file| file.set_len(length)).expect("cut");
        SledStore::open(&options).and_then(|store| store.close()).expect("opens and closes");
        assert_holds(root);
    }
}

fn verify_and_adopt_leave_the_ballast_alone(root: &Path) {
    SledStore::open(&holding(root, &free(PLENTY))).and_then(|store| store.close()).expect("opens and closes");
    let partition = Partition { topic: "payments".into(), number: 0 };
    adopt(root, &partition, 7, "a test says so").expect("adopted");
    let report = verify(root).expect("verified");
    assert!(report.is_sound(), "{report}");
    assert_holds(root);
}
