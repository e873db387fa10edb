//! Power cuts: what is acknowledged is there on every disk that one may leave.

use crate::{
    counts::Counts,
    cuts::{Examination, Findings},
    dice::{Dice, seed},
    disk::{self, Disk, Mood},
    judge::{Said, Snapshot},
    log::Telling,
    plan::Plan,
    recorder::World,
    work::Stop,
};
use libtest_mimic::Trial;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Images in the ordinary test; `RECEIPTED_POWER_IMAGES` says otherwise.
const IMAGES: usize = 500;
/// Images that share a record, and those of disks that were cut once before.
const ROUND: usize = 500;
const SECOND_CUTS: usize = 4;
const SECOND_IMAGES: usize = 25;
/// Bytes of the large parked records.
const LARGE: usize = 1 << 20;
const SMALL: usize = 20_000;

/// What has to be seen at least once: a suite that makes none of these any more shows nothing.
const INTERESTING: &[&str] = &[
    "with a step on its way",
    "torn writes",
    "writes kept without one before them",
    "unsynced writes lost",
    "unsynced writes kept",
    "unsynced renames lost",
    "unsynced renames kept",
    "unsynced names lost",
    "unsynced names kept",
    "unsynced removals lost",
    "unsynced removals kept",
    "lengths that are older than bytes",
    "cut on a disk that was cut before",
    "verified",
];

pub fn trials() -> Vec<Trial> {
    trials![
        c13_at_every_cut_the_position_is_there,
        c45_a_log_that_is_torn_at_its_end_opens_with_all_that_was_acknowledged,
        a_start_that_is_cut_before_its_snapshot_has_its_name_opens,
        the_record_is_the_disk_byte_for_byte,
        what_is_acknowledged_is_there_after_a_power_cut,
        a_store_that_lies_about_its_syncs_is_found,
    ]
}

/// A store that is stopped, started, killed, and started again, recorded throughout.
fn recorded(steps: [usize; 3]) -> World {
    let world = World::new();
    world.run(&Said::default(), steps[0], Stop::Close, LARGE);
    world.run(&world.said(Said::default()), steps[1], Stop::Kill, LARGE);
    world.run(&world.said(Said::default()), steps[2], Stop::Kill, LARGE);
    world
}

fn of(world: &World, seed: u64, images: usize, telling: Telling) -> Examination {
    Examination {
        log: world.log(),
        base: None,
        said: Said::default(),
        seed,
        from: 0,
        to: images,
        plan: Plan::Random,
        telling: format!("{telling:?}"),
        large: LARGE,
    }
}

fn the_record_is_the_disk_byte_for_byte() {
    let world = recorded([9, 18, 26]);
    let mut disk = Disk::default();
    world.events().iter().enumerate().for_each(|(place, event)| disk.take(place, event));
    let image = disk.image(Mood::Everything, &mut Dice::new(0, 0), &mut Counts::default());
    let mut there = disk::Image::new();
    gather(&world.disk(), "", &mut there);
    let names =
        |image: &disk::Image| image.iter().map(|(path, bytes)| (path.clone(), bytes.as_ref().map(Vec::len))).collect::<BTreeMap<_, _>>();
    assert_eq!(names(&image), names(&there));
    let differs: Vec<_> = there.iter().filter(|(path, bytes)| image[*path] != **bytes).map(|(path, _)| path).collect();
    assert!(differs.is_empty(), "{differs:?}");
}

fn gather(root: &Path, below: &str, image: &mut disk::Image) {
    for entry in std::fs::read_dir(root.join(below)).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("text");
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type().expect("a type").is_dir() {
            image.insert(path.clone(), None);
            gather(root, &path, image);
        } else {
            image.insert(path, Some(std::fs::read(entry.path()).expect("a file")));
        }
    }
}

/// Where the record of a failure is kept, for a run with the same seed.
fn kept(seed: u64, cut: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("power-{seed}{cut}.log"))
}

fn assert_nothing_lost(world: &World, seed: u64, cut: &str, findings: &Findings) {
    if !findings.failures.is_empty() {
        let kept = kept(seed, cut);
        if !kept.exists() {
            std::fs::copy(world.log(), &kept).expect("kept");
        }
        let name = kept.file_name().expect("a name").to_string_lossy();
        panic!("RECEIPTED_SEED={seed}; the record is kept as {name} in target/tmp:\n{}", findings.failures.join("\n"));
    }
}

fn what_is_acknowledged_is_there_after_a_power_cut() {
    let images =
        std::env::var("RECEIPTED_POWER_IMAGES").map_or(IMAGES, |images| images.parse().expect("RECEIPTED_POWER_IMAGES is a number"));
    let first = seed();
    println!("power cuts: RECEIPTED_SEED={first}");
    let mut counts = Counts::default();
    let mut done = 0;
    for round in 0.. {
        let seed = first + round;
        done += round_of(seed, ROUND.min(images - done), &mut counts);
        println!("power cuts: {done} of {images} images, up to RECEIPTED_SEED={seed}: {counts}");
        if done >= images {
            break;
        }
    }
    if images >= IMAGES {
        let unseen: Vec<_> = INTERESTING.iter().filter(|what| counts.of(what) == 0).collect();
        assert!(unseen.is_empty(), "never seen: {unseen:?}");
    }
    println!("power cuts: {} images, lost 0, half a batch 0, made up 0", counts.of("images"));
}

/// One record and its images; then disks that were cut, on which a process went on and was cut again.
fn round_of(seed: u64, images: usize, counts: &mut Counts) -> usize {
    let world = recorded([14, 28, 40]);
    let second = if images > 2 * SECOND_CUTS * SECOND_IMAGES { SECOND_CUTS * SECOND_IMAGES } else { 0 };
    let mut once = of(&world, seed, images - second, Telling::AsItWas);
    if kept(seed, "").exists() {
        once.log = kept(seed, "");
    }
    let findings = once.run();
    assert_nothing_lost(&world, seed, "", &findings);
    counts.join(&findings.counts);
    for cut in 0..second / SECOND_IMAGES {
        let again = World::new();
        let (image, said, _) = (cut * 40..)
            .map(|number| once.image(number))
            .find(|(_, said, snapshot)| said.promised() && *snapshot == Snapshot::AsItWas)
            .expect("one of them");
        disk::write(&image, &again.disk());
        let base = tempfile::tempdir().expect("a temporary directory");
        disk::write(&image, base.path());
        again.run(&said, said.done.into_iter().max().expect("lanes") + 5, Stop::Kill, LARGE);
        let twice = Examination { base: Some(base.path().into()), said, ..of(&again, seed + cut as u64, SECOND_IMAGES, Telling::AsItWas) };
        let findings = twice.run();
        assert_nothing_lost(&again, seed, "-again", &findings);
        counts.join(&findings.counts);
        counts.many("cut on a disk that was cut before", SECOND_IMAGES);
    }
    images
}

fn a_store_that_lies_about_its_syncs_is_found() {
    let seed = seed();
    let world = recorded([6, 12, 18]);
    for lie in Telling::LIES {
        let findings = of(&world, seed, 60, lie).run();
        println!("{lie:?}: found {} in {} images", findings.failures.len(), findings.counts.of("images"));
        assert!(!findings.failures.is_empty(), "RECEIPTED_SEED={seed}: nothing was lost {lie:?}");
    }
    let findings = of(&world, seed, 60, Telling::AsItWas).run();
    assert_nothing_lost(&world, seed, "-lies", &findings);
}

/// Every image of a plan.
fn every(plan: Plan, world: &World, large: usize) {
    let seed = seed();
    let part = Examination { plan, large, ..of(world, seed, 0, Telling::AsItWas) };
    let part = Examination { to: part.all(), ..part };
    let findings = part.run();
    assert_nothing_lost(world, seed, "-plan", &findings);
    println!("power cuts: {plan:?}: {} images", findings.counts.of("images"));
    assert!(part.to > 0 && findings.counts.of("images") == part.to as u64, "{}", findings.counts);
    assert!(findings.counts.of("opened") + findings.counts.of("refused with nothing promised") == part.to as u64, "{}", findings.counts);
}

/// A short record without large records.
fn short() -> World {
    let world = World::new();
    world.run(&Said::default(), 6, Stop::Close, SMALL);
    world.run(&world.said(Said::default()), 12, Stop::Kill, SMALL);
    world
}

/// The position of each partition, with everything else, is one batch: at no cut is it gone, or behind what was acknowledged.
fn c13_at_every_cut_the_position_is_there() {
    every(Plan::EveryCut, &short(), SMALL);
}

fn c45_a_log_that_is_torn_at_its_end_opens_with_all_that_was_acknowledged() {
    every(Plan::TornTails, &short(), SMALL);
}

/// sled zeroes what a new snapshot does not need before the snapshot's name is synced.
fn a_start_that_is_cut_before_its_snapshot_has_its_name_opens() {
    let world = recorded([14, 20, 30]);
    world.run(&world.said(Said::default()), 31, Stop::Close, LARGE);
    every(Plan::Nameless, &world, LARGE);
}
