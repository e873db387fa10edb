//! Would we notice? The product is broken on purpose, rule by rule, and for each change a test has to fail.
//!
//! The list is checked with every run, so that it cannot rot. `make mutants` applies each change in a copy of the tree, builds what is
//! needed there and runs the suite that has to notice; it says how far it is, goes on where it was stopped, and fails if a change is not
//! noticed. `RECEIPTED_MUTANTS=text` plays those alone whose file or rule has that text in it, or whose suite has that name.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod support;

#[path = "mutants/bench.rs"]
mod bench;
#[path = "mutants/list.rs"]
mod list;

use bench::Bench;
use libtest_mimic::Trial;
use list::{ALL, Mutant};
use std::{collections::BTreeSet, path::Path};
use support::process;

/// Which suite has to notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    Protocol,
    Machine,
    Simulation,
    Vectors,
    Canonical,
    Handler,
    Store,
    Power,
    Rehearsal,
    Fuzz,
}

impl Suite {
    /// Its file below `tests/`, without the ending.
    fn name(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Machine => "machine",
            Self::Simulation => "simulation",
            Self::Vectors => "vectors",
            Self::Canonical => "canonical",
            Self::Handler => "handler",
            Self::Store => "store",
            Self::Power => "power",
            Self::Rehearsal => "rehearsal",
            Self::Fuzz => "fuzz",
        }
    }

    /// No more of the product than it needs.
    fn features(self) -> &'static [&'static str] {
        match self {
            Self::Store | Self::Power => &["--no-default-features", "--features", "sled"],
            Self::Rehearsal | Self::Fuzz => &[],
            _ => &["--no-default-features"],
        }
    }

    /// No more of the suite than notices.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Fuzz => &["--skip", "cluster", "--skip", "whole", "--skip", "words"],
            _ => &[],
        }
    }
}

fn each_change_fits_the_source_as_it_is() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for mutant in ALL {
        let source = std::fs::read_to_string(src.join(mutant.file)).unwrap_or_default();
        let times = source.matches(mutant.old).count();
        if times != 1 {
            wrong.push(format!("{}: {:?} is there {times} times ({})", mutant.file, mutant.old, mutant.breaks));
        }
        if mutant.old == mutant.new || !seen.insert((mutant.file, mutant.old, mutant.new)) {
            wrong.push(format!("{}: {:?} changes nothing, or is there twice", mutant.file, mutant.old));
        }
    }
    assert!(wrong.is_empty(), "{} changes are to be written anew:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ALL.len() >= 130, "{} changes", ALL.len());
}

/// What of the product the list is about: every part that decides.
fn each_part_that_decides_is_in_the_list() {
    let listed: BTreeSet<&str> = ALL.iter().map(|mutant| mutant.file).collect();
    let protocol = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/protocol");
    // Words, and what holds no rule of its own.
    let words = ["mod.rs", "note.rs", "outcome.rs", "policy.rs", "refused.rs", "time.rs", "context.rs"];
    for entry in std::fs::read_dir(protocol).expect("the rules").map(|entry| entry.expect("a file")) {
        let name = entry.file_name().into_string().expect("a name");
        let decides = name.ends_with(".rs") && !words.contains(&name.as_str());
        assert!(!decides || listed.contains(format!("protocol/{name}").as_str()), "no change of protocol/{name} is in the list");
    }
}

fn every_change_is_noticed() {
    let only = std::env::var("RECEIPTED_MUTANTS").unwrap_or_default();
    let is_chosen = |mutant: &&Mutant| {
        only == "all" || only == mutant.noticed_by.name() || mutant.file.contains(&only) || mutant.breaks.contains(&only)
    };
    let chosen: Vec<_> = ALL.iter().filter(is_chosen).collect();
    assert!(!chosen.is_empty(), "no change has {only:?} in its file or rule, or as its suite");
    Bench::new().play(chosen);
}

fn main() {
    let mut tests = trials![each_change_fits_the_source_as_it_is, each_part_that_decides_is_in_the_list];
    if std::env::var_os("RECEIPTED_MUTANTS").is_some() {
        tests.push(Trial::test("every_change_is_noticed", || {
            every_change_is_noticed();
            Ok(())
        }));
    }
    process::run(tests, &[]);
}
