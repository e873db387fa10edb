//! A tenant that makes no progress fills half of a partition's bound at most, and one that does is left alone.

use crate::world::*;
use receipted::protocol::{
    machine::{Event, Limits},
    note::DoubtReason,
    outcome::Outcome,
    policy::{BackOff, Policy},
};

const RECORDS: usize = 100;

/// Takes what the bound leaves room for, as the consumer does.
fn fetch(world: &mut World) {
    world.deliver(RECORDS.saturating_sub(world.machine.in_flight(0).0));
    world.sync_all();
}

fn bounded(share: usize, log: Vec<Row>) -> World {
    let mut limits = limits(4, RECORDS);
    limits.tenant_permits_max = share;
    let never = std::time::Duration::from_secs(3600);
    World::with(vec![Policy { attempts_max: 1, time_limit: never, detached_max: never, ..policy(hold()) }], limits, log)
}

fn stuck_and_calm(lane: impl Fn(u64) -> u64) -> World {
    let mut log: Vec<Row> = (0..300).map(|id| row("hangs", id, lane(id))).collect();
    log.extend((0..5).map(|id| row("calm", id, 10_000 + id)));
    bounded(2, log)
}

/// The hanging tenant's handlers never return; the others' do.
fn run_others(world: &mut World, rounds: usize, millis: u64) {
    for _ in 0..rounds {
        fetch(world);
        for (attempt, operation) in world.running.clone() {
            if operation.starts_with("calm") {
                world.act_on(attempt, &Act::Apply);
            }
        }
        world.sync_all();
        world.wait(millis);
    }
}

fn of<'a>(world: &'a World, tenant: &'a str) -> Vec<&'a str> {
    world.starts.iter().map(|(operation, _)| operation.as_str()).filter(|operation| operation.starts_with(tenant)).collect()
}

fn others_start_and_the_rest_follows_once(mut world: World, begun: usize) {
    run_others(&mut world, 3, 300);
    assert!(of(&world, "calm").is_empty() && world.open_parks().is_empty(), "nobody is set aside before the grace is over");
    run_others(&mut world, 40, 300);
    assert_eq!(of(&world, "calm").len(), 5);
    assert_eq!(of(&world, "hangs").len(), begun, "and nothing of the hanging tenant runs out of its turn");
    let parked = world.open_parks();
    assert!(parked.iter().all(|(_, reason)| *reason == "retry"), "{parked:?}");
    assert!((150..=250).contains(&parked.len()), "half of the bound stays: {}", parked.len());
    world.settle(&Act::Apply, 20_000);
    assert_eq!(world.ledger.values().map(Vec::len).sum::<usize>(), 305);
    assert_eq!(world.ledger.len(), 305, "each once");
    assert!(world.open_parks().is_empty());
    assert_eq!(world.committed, 305);
}

#[test]
fn handlers_that_hang_and_fill_the_bound_make_room_for_another_tenant() {
    others_start_and_the_rest_follows_once(stuck_and_calm(|id| id), 2);
}

#[test]
fn a_hot_key_whose_handler_hangs_makes_room_for_another_tenant() {
    others_start_and_the_rest_follows_once(stuck_and_calm(|_| 7), 1);
}

#[test]
fn what_made_room_comes_up_in_the_order_of_its_key() {
    let mut world = stuck_and_calm(|_| 7);
    run_others(&mut world, 40, 300);
    world.settle(&Act::Apply, 20_000);
    let started: Vec<u64> = of(&world, "hangs").iter().map(|operation| operation["hangs/".len()..].parse().unwrap()).collect();
    let stayed: Vec<u64> = started.iter().copied().filter(|id| *id < 50).collect();
    assert!(stayed.is_sorted(), "the lane goes on in its order: {stayed:?}");
    let first_parked = started.iter().position(|id| *id >= 60).unwrap();
    assert!(started[..first_parked].len() >= 50, "and what was set aside follows it: {started:?}");
    let parked: Vec<u64> = started.iter().copied().filter(|id| (60..250).contains(id)).collect();
    assert!(parked.is_sorted(), "in its order too: {parked:?}");
}

#[test]
fn what_made_room_is_there_after_a_crash_and_runs_once() {
    for lane in [|id| id, |_| 7] {
        let mut world = stuck_and_calm(lane);
        run_others(&mut world, 20, 300);
        assert!(!world.open_parks().is_empty());
        world.crash(0);
        world.settle(&Act::Apply, 20_000);
        assert!(world.ledger.values().all(|effects| effects.len() == 1));
        let unresolved = world.open_parks();
        assert!(unresolved.iter().all(|(_, reason)| *reason == "unresolved") && unresolved.len() <= 2, "{unresolved:?}");
        assert_eq!((world.ledger.len() + unresolved.len(), world.committed), (305, 305));
    }
}

/// A partition that is full all the time, and moves on all the time: for far longer than the grace nothing is set aside.
fn healthy(share: usize, lane: impl Fn(u64) -> u64) {
    let log: Vec<Row> = (0..400).map(|id| row("hot", id, lane(id))).collect();
    let mut world = bounded(share, log);
    let begun = world.now;
    while world.committed < 400 {
        fetch(&mut world);
        if let Some(attempt) = world.running.keys().next().copied() {
            world.act_on(attempt, &Act::Apply);
        }
        world.sync_all();
        assert!(world.open_parks().is_empty(), "after {} records", world.committed);
        world.wait(500);
        world.on(Event::CommitTick);
        world.sync_all();
    }
    assert!(world.now > begun + 50 * 2000);
    assert!(world.disk.known.values().all(|known| known.parks.is_empty()), "a healthy hot lane is not parked");
}

#[test]
fn a_healthy_hot_key_is_not_parked() {
    healthy(2, |_| 7);
}

#[test]
fn a_healthy_hot_tenant_is_not_parked() {
    healthy(2, |id| id);
}

#[test]
fn nothing_makes_room_while_no_permit_is_free_for_others() {
    let mut world = bounded(4, (0..300).map(|id| row("hangs", id, id)).collect());
    run_others(&mut world, 40, 300);
    assert!(world.open_parks().is_empty());
}

#[test]
fn only_so_many_parked_records_are_read_at_once_as_their_tenant_may_run() {
    let mut world = stuck_and_calm(|id| id);
    run_others(&mut world, 40, 300);
    assert!(world.open_parks().len() > 100);
    run_others(&mut world, 40, 300);
    let carried = world.read;
    assert!(carried <= 2, "{carried} records were read while none could run");
}

/// Record 99 carries the operation of record 1 with another amount, and makes room before record 1 has run; that one says `first`.
fn changed_parameters_make_room(first: &Act) -> World {
    let mut log: Vec<Row> = (0..300).map(|id| row("hangs", id, 7)).collect();
    log[99] = Row { amount: 2, ..row("hangs", 1, 7) };
    let mut world = bounded(2, log);
    run_others(&mut world, 12, 300);
    assert!(world.open_parks().iter().any(|(offset, _)| *offset == 99));
    for _ in 0..2_000 {
        fetch(&mut world);
        world.wait(100);
        for (attempt, operation) in world.running.clone() {
            world.act_on(attempt, if operation == "hangs/1" { first } else { &Act::Apply });
        }
    }
    assert_eq!(world.open_parks().iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), [99], "left to a person");
    assert_eq!(world.starts.iter().filter(|(operation, _)| operation == "hangs/1").count(), 1, "the other amount never ran");
    world
}

#[test]
fn changed_parameters_that_made_room_are_never_run() {
    let applied = changed_parameters_make_room(&Act::Apply);
    assert_eq!((applied.state("hangs", "1").as_str(), applied.ledger.len()), ("applied", 299));
    let exhausted = changed_parameters_make_room(&Act::NoEffect);
    assert_eq!((exhausted.state("hangs", "1").as_str(), exhausted.dead_letters.len()), ("retryable", 1));
}

#[test]
fn a_parked_record_that_ends_in_doubt_again_runs_again_once_that_is_denied() {
    let mut world = World::denied_and_running_again();
    let attempt = *world.running.keys().next().unwrap();
    world.running.clear();
    let outcome = Outcome::Unknown(DoubtReason::Unknown, "the request was lost".into());
    world.on(Event::Finished { attempt, outcome });
    world.settle(&Act::Apply, 300);
    assert_eq!((world.state("acme", "1").as_str(), world.starts.len()), ("applied", 3));
    assert_eq!(world.ledger["acme/1"], [3]);
}

/// Twelve records that fail again and again, each alone in its lane, in a partition that ten of them fill.
fn failing(is_large: impl Fn(u64) -> bool) -> World {
    let id = |n| if is_large(n) { format!("{n}-{}", "x".repeat(100)) } else { n.to_string() };
    let log = (0..12).map(|n| row("failing", id(n), n)).collect();
    World::with(vec![policy(hold())], Limits { park_record_bytes_max: 120, ..limits(4, 10) }, log)
}

fn fail_all(world: &mut World) {
    for _ in 0..20 {
        world.deliver(10_usize.saturating_sub(world.machine.in_flight(0).0));
        world.sync_all();
        world.act_all(&Act::NoEffect);
        world.sync_all();
    }
}

fn all_are_applied_in_the_end(mut world: World) {
    assert!(!world.halted, "nobody asked for it to be parked");
    world.settle(&Act::Apply, 2_000);
    assert_eq!((world.ledger.len(), world.committed, world.open_parks().len()), (12, 12, 0));
}

#[test]
fn what_is_too_large_to_be_parked_goes_on_waiting_and_others_make_room() {
    let mut world = failing(|n| n < 4);
    fail_all(&mut world);
    let parked = world.open_parks();
    assert!(parked.len() >= 5 && parked.iter().all(|(offset, reason)| *offset >= 4 && *reason == "retry"), "{parked:?}");
    all_are_applied_in_the_end(world);
}

#[test]
fn a_partition_full_of_what_is_too_large_to_be_parked_goes_on() {
    let mut world = failing(|_| true);
    fail_all(&mut world);
    assert_eq!(world.open_parks(), []);
    all_are_applied_in_the_end(world);
}

/// The one that is too large holds its lane; what stands behind it there waits with it, in order.
#[test]
fn behind_what_is_too_large_to_be_parked_a_lane_keeps_its_order() {
    let mut world = failing(|n| n == 0);
    world.log.iter_mut().take(8).for_each(|row| row.lane = 0);
    fail_all(&mut world);
    assert!(world.open_parks().iter().all(|(offset, _)| *offset >= 8), "{:?}", world.open_parks());
    all_are_applied_in_the_end(world);
}

/// More than a hundred records are parked behind two handlers that hang; from here on every handler says that it had no effect.
fn many_parked_and_failing(attempts_max: u32) -> World {
    let mut world = stuck_and_calm(|id| id);
    let slow = std::time::Duration::from_secs(60);
    let back_off = BackOff { first: slow, max: slow, ..BackOff::default() };
    world.policies.iter_mut().for_each(|policy| *policy = Policy { attempts_max, back_off, ..policy.clone() });
    world.start();
    run_others(&mut world, 40, 300);
    assert!(world.open_parks().len() > 100);
    world.wait(60_000);
    world
}

/// The most parked records that were in memory at once while everything failed for so long.
fn most_in_memory(world: &mut World, rounds: usize) -> usize {
    let mut most = 0;
    for _ in 0..rounds {
        world.act_all(&Act::NoEffect);
        world.sync_all();
        world.wait(10);
        most = most.max(world.held_in_memory());
    }
    most
}

#[test]
fn parked_records_that_fail_again_wait_for_their_back_off_on_disk() {
    let mut world = many_parked_and_failing(10);
    let most = most_in_memory(&mut world, 300);
    let failed = world.starts.len();
    assert!(failed > 100, "one after another has its turn: {failed}");
    assert!(most <= 4, "{most} parked records were in memory at once");
    let read = world.read;
    most_in_memory(&mut world, 100);
    assert_eq!(world.read, read, "and none is read before its back-off is over");
    world.crash(0);
    most_in_memory(&mut world, 100);
    assert_eq!(world.read, read, "also after a restart");
    world.settle(&Act::Apply, 20_000);
    assert_eq!((world.ledger.len(), world.committed, world.open_parks().len()), (305, 305, 0));
    assert!(world.ledger.values().all(|effects| effects.len() == 1));
}

#[test]
fn parked_records_whose_dead_letters_are_not_acknowledged_are_few() {
    let mut world = many_parked_and_failing(1);
    world.dead_letters_hang = true;
    let most = most_in_memory(&mut world, 300);
    assert!(most <= 4, "{most} parked records were in memory at once");
    world.dead_letters_hang = false;
    for work in std::mem::take(&mut world.producing) {
        world.on(Event::DeadLettered { work, result: Ok(()) });
    }
    world.settle(&Act::NoEffect, 20_000);
    assert_eq!((world.committed, world.open_parks().len()), (305, 0), "and the rest follows them");
}

/// Two records of each operation are parked: the second has attempts of its own when the first has used up its own.
#[test]
fn a_second_parked_record_follows_the_dead_letter_of_the_first() {
    let mut world = stuck_and_calm(|id| id);
    world.log.iter_mut().take(300).enumerate().for_each(|(n, row)| row.operation = Some(("hangs", format!("{}", n / 2))));
    world.start();
    run_others(&mut world, 40, 300);
    assert!(world.open_parks().len() > 100);
    world.settle(&Act::NoEffect, 20_000);
    assert_eq!((world.committed, world.open_parks().len()), (305, 0));
}

#[test]
fn nothing_is_remembered_of_parked_records_that_have_ended() {
    for act in [Act::NoEffect, Act::Apply] {
        let mut world = many_parked_and_failing(1);
        world.settle(&act, 20_000);
        assert_eq!((world.committed, world.open_parks().len()), (305, 0));
        let remembered = format!("{:?}", world.machine);
        for empty in ["doubtful: {}", "rests: {}", "of: {}", "timers: {}"] {
            assert!(remembered.contains(empty), "{act:?}, {empty}: {}", &remembered[..2000]);
        }
    }
}
