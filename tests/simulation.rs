//! The production rules in a world of their own: many operations, tenants and partitions; a broker, a store, a destination, clocks and
//! people that do all that real ones do. One seed is one trace; a seed that fails is made short and told step by step.
//!
//! `RECEIPTED_SEED=n` plays one world, `RECEIPTED_SIMULATIONS=n` the first n, both so many from there on; a release build is some six
//! times as fast.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation)]

#[path = "simulation/broker.rs"]
mod broker;
#[path = "simulation/destination.rs"]
mod destination;
#[path = "simulation/intake.rs"]
mod intake;
#[path = "simulation/judge.rs"]
mod judge;
#[path = "simulation/outage.rs"]
mod outage;
#[path = "simulation/people.rs"]
mod people;
#[path = "simulation/plan.rs"]
mod plan;
#[path = "simulation/play.rs"]
mod play;
#[path = "simulation/shrink.rs"]
mod shrink;
#[path = "simulation/time.rs"]
mod time;
#[path = "simulation/world.rs"]
mod world;

use plan::Plan;
use play::play;
use shrink::shrink;
use std::collections::BTreeMap;
use world::Broken;

/// What a simulator has to have seen, or it has stopped exploring.
const SEEN: [&str; 31] = [
    "a batch is refused: the store is full",
    "a commit is lost",
    "a commit is not confirmed",
    "a duplicate effect is told of",
    "a future is dropped",
    "a handler hangs",
    "a handler rejects",
    "a hanging request is answered late",
    "a lookup denies what is there",
    "a lookup ends",
    "a parked record is taken up",
    "a partition is lost",
    "a partition is revoked",
    "a permission is lost",
    "a process is killed while handlers run",
    "a process stops cleanly",
    "a record goes to the dead-letter topic",
    "a repeat is answered as it arrives",
    "a request lands after the quiet period",
    "a request of a dead process lands late",
    "a route is paused",
    "a stop is cut off",
    "an idle process is killed",
    "an operation runs again",
    "an operation took effect twice",
    "an operator changes something",
    "an operator is refused",
    "the group is rewound",
    "the store fails",
    "the store is at a bound",
    "the wall clock jumps",
];

/// What a failing seed came to, as short as it gets.
fn told(seed: u64, broken: Broken) -> Option<String> {
    let violation = play(&Plan::of(seed), broken, false).violation?;
    let plan = shrink(Plan::of(seed), broken, violation.rule);
    let played = play(&plan, broken, true);
    let detail = played.violation.map_or(violation.detail, |violation| violation.detail);
    Some(format!("seed {seed}: {}: {detail}\n{:#?}\n{}", violation.rule, plan.setting, played.trace.join("\n")))
}

#[test]
fn simulated_worlds_lose_nothing_and_double_nothing() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is a number")));
    let (first, count) = (number("RECEIPTED_SEED"), number("RECEIPTED_SIMULATIONS"));
    let count = count.unwrap_or(if first.is_some() { 1 } else { 2_000 });
    let seeds = first.unwrap_or(1)..first.unwrap_or(1) + count;
    let (mut seen, mut handlers) = (BTreeMap::<&str, u64>::new(), 0);
    for seed in seeds {
        let played = play(&Plan::of(seed), Broken::Nothing, false);
        assert!(played.violation.is_none(), "{}", told(seed, Broken::Nothing).unwrap_or_default());
        handlers += played.handlers;
        played.seen.into_iter().for_each(|(what, times)| *seen.entry(what).or_default() += times);
        if seed % 20_000 == 0 {
            eprintln!("{seed} worlds");
        }
    }
    eprintln!("{handlers} handlers ended; lost 0, silent duplicates 0, false done or rejected 0, started without a durable admission 0");
    seen.iter().for_each(|(what, times)| eprintln!("{times:>9}  {what}"));
    if count >= 2_000 {
        let missing: Vec<&str> = SEEN.into_iter().filter(|what| !seen.contains_key(what)).collect();
        assert!(missing.is_empty(), "the simulator no longer sees: {missing:?}");
    }
}

#[test]
fn a_seed_plays_the_same_world_every_time() {
    for seed in [7, 49, 4404] {
        let (first, second) = (play(&Plan::of(seed), Broken::Nothing, true), play(&Plan::of(seed), Broken::Nothing, true));
        assert!(first.trace.len() > 50);
        assert_eq!(first.trace, second.trace);
    }
}

/// What each broken rule is noticed by.
fn noticed(broken: Broken, rules: &[&str]) {
    let found = (1..400).find_map(|seed| play(&Plan::of(seed), broken, false).violation);
    let violation = found.unwrap_or_else(|| panic!("nobody noticed that {broken:?}"));
    assert!(rules.contains(&violation.rule), "{broken:?} is noticed as {violation:?}");
}

#[test]
fn offsets_committed_on_arrival_are_noticed() {
    noticed(Broken::CommitsOnArrival, &["G1 nothing lost"]);
}

#[test]
fn handlers_that_start_before_their_admission_is_durable_are_noticed() {
    noticed(Broken::StartsEarly, &["G4 admission"]);
}

#[test]
fn an_unknown_outcome_taken_for_no_effect_is_noticed() {
    noticed(Broken::UnknownIsNoEffect, &["G2 no silent repeat", "G5 no false rejected"]);
}

#[test]
fn a_process_that_starts_on_an_empty_store_is_noticed() {
    noticed(Broken::ForgetsReceipts, &["G2 no silent repeat", "G1 nothing lost"]);
}

#[test]
fn doubts_that_are_not_taken_up_after_a_start_are_noticed() {
    noticed(Broken::ForgetsDoubts, &["liveness of asking"]);
}

#[test]
fn lookups_that_count_before_the_quiet_period_are_noticed() {
    noticed(Broken::HastyLookups, &["G2 no silent repeat"]);
}

#[test]
fn dead_letters_that_are_not_sent_are_noticed() {
    noticed(Broken::DeadLettersUnsent, &["G1 nothing lost"]);
}
