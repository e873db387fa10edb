//! A process that dies, panics, fails or stalls at each named point of the way from a record to its committed offset, and one that is
//! killed and started again and again; with a real store and a real broker. The judge is the destination's ledger. Needs the feature
//! `crash-points`, which no release has.
//!
//! A case alone: `cargo test --features crash-points --test crash_points -- store/unsynced/fact#1/abort`. `RECEIPTED_CRASH_POINTS=all`
//! plays every hit in the list; `RECEIPTED_SEED` shuffles the records, and chooses the kills.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

#[path = "crash_points/cases.rs"]
mod cases;
#[path = "crash_points/cycles.rs"]
mod cycles;
#[allow(dead_code)]
#[path = "power/dice.rs"]
mod dice;
#[path = "crash_points/judge.rs"]
mod judge;
#[path = "crash_points/points.rs"]
mod points;
#[path = "crash_points/scene.rs"]
mod scene;
mod support;
#[path = "crash_points/world.rs"]
mod world;

use cases::{Case, Fault};
use cycles::{Kills, WORLDS};
use judge::Account;
use libtest_mimic::{Arguments, Failed, Trial};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use support::{REAL_BROKER, process};

/// Processes wait more than they compute: so many of them at once for each processor.
const AT_ONCE: usize = 8;

#[derive(Default)]
struct Done {
    cases: BTreeMap<Fault, usize>,
    kills: Kills,
    of_cases: Account,
    of_kills: Account,
}

fn verdict(account: Account, story: &[String]) -> Result<(), Failed> {
    if account.wrong() == 0 { Ok(()) } else { Err(format!("{account}\n{}", story.join("\n")).into()) }
}

fn case(case: Case, done: &Arc<Mutex<Done>>) -> Trial {
    let done = done.clone();
    Trial::test(case.name(), move || {
        let (account, story) = case.play();
        let mut done = done.lock().unwrap();
        *done.cases.entry(case.fault).or_default() += 1;
        done.of_cases += account;
        verdict(account, &story)
    })
    .with_kind(REAL_BROKER)
}

fn world(number: usize, seed: u64, done: &Arc<Mutex<Done>>) -> Trial {
    let done = done.clone();
    Trial::test(format!("kills/world-{number}"), move || {
        let (kills, account, story) = cycles::play(dice::Dice::new(seed, number as u64));
        let mut done = done.lock().unwrap();
        done.kills += kills;
        done.of_kills += account;
        verdict(account, &story)
    })
    .with_kind(REAL_BROKER)
}

fn main() {
    process::play(&[("crashing", world::role)]);
    let mut arguments = Arguments::from_args();
    let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    arguments.test_threads = arguments.test_threads.or(Some(processors * AT_ONCE));
    let (done, seed) = (Arc::default(), dice::seed());
    let all = arguments.filter.is_some() || std::env::var_os("RECEIPTED_CRASH_POINTS").is_some_and(|which| which == "all");
    let further = Case::further().filter(|_| all);
    // The longest first.
    let mut trials: Vec<Trial> = (0..WORLDS).map(|number| world(number, seed, &done)).collect();
    trials.extend(trials![real broker: cases::every_point_that_is_reached_has_a_case, cases::the_judge_is_not_asleep]);
    trials.extend(Case::ordinary().chain(further).map(|chosen| case(chosen, &done)));
    println!("RECEIPTED_SEED={seed}");
    let conclusion = libtest_mimic::run(&arguments, trials);
    let done = done.lock().unwrap();
    let cases: Vec<_> = done.cases.iter().map(|(fault, count)| format!("{count} {}", fault.label())).collect();
    println!("crash points: {} cases ({})\n{}", done.cases.values().sum::<usize>(), cases.join(", "), done.of_cases);
    let Kills { in_the_open, in_reconcile, idle, .. } = done.kills;
    println!("kills: {} ({in_the_open} inside the open, {in_reconcile} inside reconcile, {idle} when idle)", done.kills.all());
    println!("{}", done.of_kills);
    conclusion.exit();
}
