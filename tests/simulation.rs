//! The production rules in a world of their own: many operations, tenants and partitions; a broker, a store, a destination, clocks and
//! people that do all that real ones do. One seed is one trace. See `simulation/README.md`... 
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation)]

#[path = "simulation/broker.rs"]
mod broker;
#[path = "simulation/destination.rs"]
mod destination;
#[path = "simulation/judge.rs"]
mod judge;
#[path = "simulation/plan.rs"]
mod plan;
#[path = "simulation/play.rs"]
mod play;
#[path = "simulation/world.rs"]
mod world;

use plan::Plan;
use play::{play, shrink};
use std::collections::BTreeMap;
use world::Broken;

fn told(seed: u64, broken: Broken) -> Option<String> {
    let violation = play(&Plan::of(seed), broken, false).violation?;
    let plan = shrink(Plan::of(seed), broken, violation.rule);
    let played = play(&plan, broken, true);
    let detail = played.violation.map_or(violation.detail, |violation| violation.detail);
    Some(format!("seed {seed}: {}: {detail}\n{:#?}\n{}", violation.rule, plan.setting, played.trace.join("\n")))
}

#[test]
fn simulated_worlds_lose_nothing_and_double_nothing() {
    let one = std::env::var("RECEIPTED_SEED").ok().and_then(|seed| seed.parse().ok());
    let count: u64 = std::env::var("RECEIPTED_SIMULATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(2_000);
    let seeds = one.map_or(1..=count, |seed: u64| seed..=seed);
    let (mut seen, mut handlers) = (BTreeMap::<&str, u64>::new(), 0);
    for seed in seeds.clone() {
        let played = play(&Plan::of(seed), Broken::Nothing, false);
        if played.violation.is_some() {
            panic!("{}", told(seed, Broken::Nothing).unwrap_or_default());
        }
        handlers += played.handlers;
        for (what, times) in played.seen {
            *seen.entry(what).or_default() += times;
        }
        if seed % 20_000 == 0 {
            eprintln!("{seed} worlds");
        }
    }
    eprintln!("{} worlds, {handlers} handlers ended", seeds.count());
    for (what, times) in &seen {
        eprintln!("{times:>9}  {what}");
    }
}
