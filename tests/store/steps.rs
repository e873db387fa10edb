//! Whoever waits for long work on a store is told how far it is: opening it, checking it, an export, an import.

use crate::{
    durable::{open, options},
    fixture::{InDirectory, in_directories, tests},
    make::*,
};
use libtest_mimic::Trial;
use receipted::{
    protocol::park::ParkReason,
    store::{
        ReceiptStore as _,
        sled::{
            SledStore, Stage, Step,
            transfer::{Secrets, export, import},
            verify_watched,
        },
    },
};
use std::path::Path;

const TESTS: &[(&str, InDirectory)] = tests![long_work_says_how_far_it_is];

pub(crate) fn trials() -> Vec<Trial> {
    in_directories(TESTS.iter().map(|(name, test)| (format!("steps::{name}"), *test)))
}

/// More entries than pass between two words.
const PARKED: i64 = 3_000;

fn long_work_says_how_far_it_is(root: &Path) {
    let (file, second) = (root.with_file_name("export"), root.with_file_name("second"));
    let store = open(root);
    for from in (0..PARKED).step_by(500) {
        append(&store, (from..from + 500).map(|offset| park(None, None, offset, 1, ParkReason::DeadLetterFailed)).collect());
    }
    store.close().expect("closes");

    let opened = told(|watch| SledStore::open_watched(&options(root), watch).and_then(|store| store.close()).expect("opens"));
    assert_eq!(stages(&opened), [Stage::Opening, Stage::Checking]);
    let verified = told(|watch| assert!(verify_watched(root, watch).expect("reads").is_sound()));
    assert_eq!(stages(&verified)[..2], [Stage::Opening, Stage::Checking]);
    let exported = told(|watch| drop(export(root, &file, watch).expect("exports")));
    assert!(stages(&exported).contains(&Stage::Writing), "{:?}", stages(&exported));
    let imported = told(|watch| drop(import(&file, &second, &Secrets::default(), watch).expect("imports")));
    assert!(stages(&imported).contains(&Stage::Filling), "{:?}", stages(&imported));
    for steps in [opened, verified, exported, imported] {
        goes_forward(&steps);
    }
}

/// What a piece of work tells.
fn told(work: impl FnOnce(&mut dyn FnMut(Step))) -> Vec<Step> {
    let mut steps = Vec::new();
    work(&mut |step| steps.push(step));
    steps
}

fn stages(steps: &[Step]) -> Vec<Stage> {
    let mut stages: Vec<Stage> = steps.iter().map(|step| step.stage).collect();
    stages.dedup();
    stages
}

/// Each word is further than the one before it, and none is beyond the end.
fn goes_forward(steps: &[Step]) {
    for pair in steps.windows(2).filter(|pair| pair[0].stage == pair[1].stage) {
        assert!(pair[0].done <= pair[1].done, "{pair:?}");
    }
    let counted: Vec<_> = steps.iter().filter(|step| step.of > 0).collect();
    assert!(counted.iter().any(|step| step.done > 0), "{steps:?}");
    assert!(counted.iter().all(|step| step.done <= step.of), "{counted:?}");
}
