//! Quiet periods over restarts, and clocks that are set: what may still land is never denied, and what was promised for a time is not
//! relied on beyond it.

use super::{
    broker::{Broker, Kind, Log, Row},
    plan::{Act, Destination, MEMORY, Plan, QUIET, Setting},
    world::{Broken, World},
};
use receipted::protocol::{
    note::Ruling,
    policy::{BackOff, Contract, Lanes},
};
use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

/// A world of one record.
fn one(contract: Contract) -> (World, Row) {
    let setting = Setting {
        seed: 1,
        partitions: 1,
        rows: 0,
        ids: 1,
        contracts: [contract.clone(), contract],
        permits: 2,
        tenant_permits_max: 2,
        partition_records_max: 10,
        unresolved_max: 10,
        attempts_max: 5,
        lanes: Lanes::Key,
        replies: false,
        destination: Destination::Honest,
        parked_bytes_max: u64::MAX,
        back_off: BackOff { first: Duration::from_millis(50), max: Duration::from_millis(400), ..BackOff::default() },
    };
    let row = Row { kind: Kind::Operation, tenant: "a", id: 1, route: 0, amount: 1, lane: 1 };
    let mut world = World::new(&Plan { setting, steps: vec![] }, Broken::Nothing);
    world.broker = Broker { logs: vec![Log { rows: vec![row.clone()], committed: None }], dead_letters: BTreeMap::new() };
    world.names = BTreeMap::from([(row.key().digest(), row.name())]);
    world.deliver(0, 1);
    live(&mut world, 1);
    assert_eq!(world.running.len(), 1, "its handler runs");
    (world, row)
}

/// The process lives for so long, and everything that is asked is answered honestly and at once.
fn live(world: &mut World, millis: u64) {
    let end = world.now + millis;
    while world.now < end && world.violation.is_none() {
        world.assign();
        world.deliver(0, 10);
        for _ in 0..6 {
            world.sync_all();
            world.take(usize::MAX);
            while world.answer(0, 5) {}
        }
        world.tick();
        world.wait(25.min(end - world.now));
    }
}

/// How often its absence was stated.
fn denials(world: &World, row: &Row) -> usize {
    let known = world.known(row.key().digest());
    known.receipt.verdicts().iter().filter(|verdict| verdict.ruling == Ruling::NotDone).count()
}

fn act(world: &mut World, act: Act, delay: u64) {
    let attempt = *world.running.keys().next().expect("it runs");
    world.act(attempt, act, delay);
}

/// The wall clock is set, by so much.
fn set(world: &World, by: i64) {
    world.wall.fetch_add(by, Ordering::Relaxed);
}

const HOUR: i64 = 3_600_000;

/// No start of a process counts the quiet of the one before: its request may have left just before the end.
#[test]
fn a_quiet_period_begins_again_with_every_start_whatever_the_wall_clock_says() {
    for clock in [0, HOUR, -HOUR] {
        let (mut world, row) = one(Contract::Ask { quiet: Duration::from_millis(QUIET) });
        // The request is on its way, and lands last of all.
        act(&mut world, Act::Hang, QUIET - 1);
        for _ in 0..8 {
            world.kill(1, 0);
            set(&world, clock);
            live(&mut world, QUIET - 50);
            assert_eq!(denials(&world, &row), 0, "no process was quiet for long enough");
        }
        live(&mut world, 6 * QUIET);
        assert_eq!(world.violation, None);
        assert_eq!((world.truth.of(&row.name()).len(), denials(&world, &row)), (1, 0), "it is found");
        assert!(world.known(row.key().digest()).receipt.state().is_settled());
    }
}

/// What never left is denied once a whole quiet period has passed in one process, and runs again; once.
#[test]
fn what_never_left_is_denied_after_a_quiet_period_and_runs_again_whatever_the_wall_clock_says() {
    for clock in [0, HOUR, -HOUR] {
        let (mut world, row) = one(Contract::Ask { quiet: Duration::from_millis(QUIET) });
        act(&mut world, Act::PanicBefore, 0);
        live(&mut world, QUIET / 2);
        assert_eq!(denials(&world, &row), 0);
        world.restart(0);
        set(&world, clock);
        live(&mut world, QUIET / 2);
        assert_eq!(denials(&world, &row), 0, "half of a period before a restart and half after it are none");
        for _ in 0..20 {
            set(&world, clock / 7);
            live(&mut world, QUIET / 4);
        }
        assert!(denials(&world, &row) >= 1);
        assert_eq!(world.running.len(), 1, "it runs again");
        act(&mut world, Act::Apply, 0);
        live(&mut world, 4 * QUIET);
        assert_eq!((world.violation.clone(), world.truth.of(&row.name()).len()), (None, 1));
    }
}

/// A destination that remembers for a while is relied on within that while alone, and never by a clock that went back.
#[test]
fn a_rerun_rests_on_a_memory_that_no_clock_stretches() {
    let remembers = || Contract::DestinationDeduplicates {
        memory: Duration::from_millis(MEMORY),
        then: Box::new(Contract::Hold { quiet: Duration::from_millis(QUIET) }),
    };
    for (clock, reruns) in [(0, true), (i64::try_from(MEMORY).expect("short"), false), (-5_000, false)] {
        let (mut world, row) = one(remembers());
        world.truth.remembers.insert(row.name());
        act(&mut world, Act::LoseAnswer, 0);
        world.kill(1, 0);
        set(&world, clock);
        live(&mut world, 2_000);
        assert_eq!(!world.running.is_empty(), reruns, "the clock was set by {clock}");
        if reruns {
            act(&mut world, Act::Apply, 0);
        }
        live(&mut world, 20_000);
        assert_eq!((world.violation.clone(), world.truth.of(&row.name()).len()), (None, 1));
    }
}
