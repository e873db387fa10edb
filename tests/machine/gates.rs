//! What may not happen any more once a partition is halted, revoked or lost, and what waits; each rule in the shortest story that shows it.

use crate::world::*;
use receipted::protocol::{
    doubt::Future,
    known::Entry,
    machine::{DeadLetterReason, Event, Tally},
    note::{AttemptId, DoubtReason},
    park::{Closing, Payload},
    policy::{OnConflict, Policy},
    time::Monotonic,
};

const FIRST: AttemptId = AttemptId { number: 1, claim: 1 };

fn revoke(world: &mut World) {
    let (assignment, until) = (world.assignment(), Monotonic(world.now + 5_000));
    world.on(Event::Revoke { assignment, until });
}

/// A world in which records of more than so many bytes cannot be parked.
fn parks_up_to(bytes: u64, log: Vec<Row>) -> World {
    let mut limits = limits(4, 1000);
    limits.park_record_bytes_max = bytes;
    World::with(vec![policy(hold())], limits, log)
}

fn act_on(world: &mut World, operation: &str, act: &Act) {
    let attempt = *world.running.iter().find(|(_, running)| *running == operation).expect("it runs").0;
    world.act_on(attempt, act);
}

#[test]
fn a_partition_that_is_halted_while_its_watermark_is_written_commits_nothing() {
    let mut world = parks_up_to(0, vec![row("acme", "1", 1), row("acme", "2", 2)]);
    world.deliver(2);
    world.sync_all();
    act_on(&mut world, "acme/1", &Act::Apply);
    world.sync_all();
    world.on(Event::CommitTick);
    act_on(&mut world, "acme/2", &Act::Lose);
    assert!(world.halted, "its record cannot be set aside");
    world.sync_all();
    assert_eq!((world.disk.watermark, world.committed), (1, 0));
}

#[test]
fn what_waits_for_a_permit_when_its_partition_is_revoked_is_never_admitted() {
    let mut world = World::new(policy(hold()), 1, vec![row("acme", "1", 1), row("acme", "2", 2)]);
    world.deliver(2);
    world.sync_all();
    revoke(&mut world);
    world.act_all(&Act::Apply);
    world.sync_all();
    assert!(world.drained);
    assert!(world.about("acme/2").is_none(), "the permit is free, and nothing of it is on the disk");
}

#[test]
fn a_record_of_one_byte_too_many_is_not_parked_and_halts_its_partition() {
    let record = row("acme", "1", 1);
    let bytes = Payload { value: Some(format!("{record:?}").into_bytes()), ..Payload::default() }.bytes();
    for (limit, halts) in [(bytes, false), (bytes - 1, true)] {
        let mut world = parks_up_to(limit, vec![record.clone()]);
        world.settle(&Act::Lose, 100);
        assert_eq!((world.halted, world.open_parks().is_empty(), world.committed), (halts, halts, i64::from(!halts)));
    }
}

#[test]
fn a_dead_letter_closes_its_slot_on_the_disk_before_anything_is_committed() {
    let mut world = World::new(policy(hold()), 4, vec![Row { operation: None, ..row("acme", "1", 1) }]);
    world.deliver(1);
    assert_eq!((world.dead_letters.len(), world.machine.position(0)), (1, Some(0)), "it is sent, and not noted yet");
    world.sync_all();
    assert_eq!(world.machine.position(0), Some(1));
    assert!(world.disk.closed.values().all(|(closing, _)| *closing == Closing::DeadLettered) && world.disk.closed.len() == 1);
}

#[test]
fn a_conflict_that_is_rejected_or_loses_to_the_first_does_not_run_and_is_not_parked() {
    for on_conflict in [OnConflict::Reject, OnConflict::FirstWins] {
        let policy = Policy { on_conflict, ..policy(hold()) };
        let mut world = World::new(policy, 4, vec![row("acme", "1", 1), Row { amount: 2, ..row("acme", "1", 1) }]);
        world.settle(&Act::Apply, 100);
        assert_eq!((world.starts.len(), world.open_parks().len(), world.committed), (1, 0, 2), "{on_conflict:?}");
    }
}

#[test]
fn a_conflict_that_is_to_be_dead_lettered_is_and_does_not_run() {
    let policy = Policy { on_conflict: OnConflict::DeadLetter, ..policy(hold()) };
    let mut world = World::new(policy, 4, vec![row("acme", "1", 1), Row { amount: 2, ..row("acme", "1", 1) }]);
    world.settle(&Act::Apply, 100);
    assert_eq!((world.starts.len(), world.open_parks().len(), world.committed), (1, 0, 2));
    assert_eq!(world.dead_letters, [(1, DeadLetterReason::Conflict)]);
}

/// The topic was made anew under the same name: nobody can tell what the note is about.
#[test]
fn a_slot_that_held_another_record_halts_its_partition() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1)]);
    world.deliver(1);
    world.sync_all();
    world.act_all(&Act::Lose);
    world.sync_all();
    world.log[0] = row("acme", "2", 1);
    world.crash(0);
    world.settle(&Act::Apply, 50);
    let halted = world.machine.halted(0).expect("it does not go on");
    assert_eq!((halted.slot.offset, world.halted, world.starts.len()), (0, true, 1));
    assert!(halted.reason.contains("recreated"), "{}", halted.reason);
}

#[test]
fn nothing_starts_whose_partition_was_revoked_while_its_admission_was_written() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1)]);
    world.deliver(1);
    revoke(&mut world);
    world.sync_all();
    assert_eq!(world.starts, []);
    assert_eq!(
        (world.state("acme", "1").as_str(), world.drained, world.committed),
        ("retryable", true, 0),
        "it is said that nothing started"
    );
}

#[test]
fn nothing_starts_from_a_parked_record_while_everything_is_let_go() {
    let mut world = World::new(policy(ask()), 4, vec![row("acme", "1", 1)]);
    world.deliver(1);
    world.sync_all();
    world.crash(0);
    let is_admission = |entry: &Entry| matches!(entry, Entry::Admit { .. });
    let rounds = (0..1_000).take_while(|_| {
        world.settle(&Act::Hang, 1);
        !world.unsynced.iter().any(|(_, entries)| entries.iter().any(is_admission))
    });
    assert!(rounds.count() < 1_000, "it was to be admitted again");
    revoke(&mut world);
    world.sync_all();
    assert_eq!(world.starts.len(), 1, "the attempt that died");
    world.assign(world.committed);
    world.settle(&Act::Apply, 500);
    assert_eq!((world.starts.len(), world.state("acme", "1").as_str()), (2, "applied"), "and afterwards it does");
}

#[test]
fn an_attempt_that_has_ended_is_nobodys_to_deny_until_its_fact_is_on_the_disk() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1)]);
    world.deliver(1);
    world.sync_all();
    world.act_all(&Act::Apply);
    assert_eq!(world.machine.future(key("acme", "1").digest(), FIRST), Future::FactPending);
}

#[test]
fn what_an_attempt_of_a_lost_partition_leaves_in_doubt_is_noted_when_it_ends() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1)]);
    world.deliver(1);
    world.sync_all();
    world.on(Event::Lost { assignment: world.assignment() });
    world.act_all(&Act::Lose);
    world.sync_all();
    let doubts = world.about("acme/1").expect("it was admitted").receipt.doubts();
    assert_eq!(doubts.get(&FIRST).map(|doubt| doubt.reason), Some(DoubtReason::Unknown));
    assert!(world.machine.take_tallies().keys().any(|tally| matches!(tally, Tally::Late("deposed", _))));
}

#[test]
fn a_repeat_waits_for_an_attempt_of_a_lost_partition_and_is_not_set_aside() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1)]);
    world.deliver(1);
    world.sync_all();
    world.on(Event::Lost { assignment: world.assignment() });
    world.assign(0);
    world.deliver(1);
    world.sync_all();
    assert!(world.about("acme/1").is_some_and(|known| known.parks.is_empty()), "it waits");
    world.act_all(&Act::Apply);
    world.settle(&Act::Apply, 50);
    assert!(world.about("acme/1").is_some_and(|known| known.parks.is_empty()), "and is answered");
    assert_eq!((world.starts.len(), world.committed), (1, 1));
}

#[test]
fn tenants_take_turns_whatever_their_names() {
    for (hot, calm) in [("a", "z"), ("z", "a")] {
        let mut log: Vec<Row> = (0..100).map(|i| row(hot, i, i)).collect();
        log.push(row(calm, "1", 1000));
        let mut world = World::new(policy(hold()), 2, log);
        world.deliver(101);
        world.settle(&Act::Apply, 1000);
        let at = world.starts.iter().position(|(operation, _)| *operation == format!("{calm}/1"));
        assert!(at.is_some_and(|at| at <= 4), "the calm tenant was start number {at:?}");
    }
}
