//! What the simulator, and reading with it, found or asked for, each as the shortest story that shows it.

use crate::world::*;
use receipted::protocol::{
    doubt::Future,
    known::Entry,
    machine::{Bound, Event, Machine, Replies, Route},
    note::{AttemptId, Author, DoubtReason, Ruling, Verdict},
    outcome::Outcome,
    park::{End, EndKind},
    policy::{Contract, Policy},
    receipt::State,
};
use std::{collections::BTreeSet, sync::Arc};

/// The oldest batch becomes durable, and nobody is told yet.
fn durable_and_untold(world: &mut World) -> Event {
    let (ticket, entries) = world.unsynced.pop_front().unwrap();
    let answers = world.write(&entries);
    Event::Appended { ticket, answers }
}

#[test]
fn nobody_speaks_for_an_attempt_that_is_admitted_and_about_to_start() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1)]);
    world.wait(5_000);
    world.deliver(1);
    let told = durable_and_untold(&mut world);
    let (operation, attempt) = (key("acme", "1").digest(), AttemptId { number: 1, claim: 1 });
    assert_eq!(world.machine.future(operation, attempt), Future::FactPending, "a person's \"not done\" is refused");
    world.on(told);
    assert_eq!(world.machine.future(operation, attempt), Future::Alive);
}

#[test]
fn a_record_that_comes_again_while_its_admission_is_on_its_way_shares_no_attempt_with_itself() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1), row("acme", "1", 2)]);
    world.deliver(1);
    world.on(Event::Lost { assignment: world.assignment() });
    world.assign(0);
    world.deliver(1);
    world.sync();
    world.sync();
    world.act_all(&Act::Lose);
    world.settle(&Act::Lose, 500);
    let effects = world.ledger.get("acme/1").map_or(0, Vec::len);
    assert!(effects <= 1, "{:?}", world.about("acme/1"));
    assert_eq!(effects, world.starts.len());
}

#[test]
fn a_dead_letter_that_failed_at_a_full_store_is_parked_whoever_runs_in_its_lane() {
    let undecodable = Row { operation: None, ..row("acme", "2", 1) };
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1), undecodable]);
    world.dead_letters_hang = true;
    world.deliver(2);
    let work = world.producing.pop().unwrap();
    world.on(Event::DeadLettered { work, result: Err("down".into()) });
    world.sync();
    let (ticket, _) = world.unsynced.pop_back().unwrap();
    world.on(Event::Refused { ticket, bound: Bound::Space });
    world.on(Event::StoreFull(None));
    world.settle(&Act::Apply, 500);
    assert_eq!(world.committed, 2, "both slots are complete");
    assert_eq!(world.open_parks(), [(1, "dead_letter_failed")]);
}

#[test]
fn a_rerun_does_not_start_when_the_memory_ended_while_the_process_stood_still() {
    let mut world = World::new(policy(rerun()), 4, vec![row("acme", "1", 1)]);
    world.deliver(1);
    world.sync_all();
    world.crash(0);
    world.deliver(1);
    while world.unsynced.is_empty() {
        world.wait(50);
    }
    let told = durable_and_untold(&mut world);
    world.now += 3_600_000;
    world.on(told);
    world.settle(&Act::Apply, 500);
    assert_eq!(world.starts.len(), 1, "the destination has forgotten the key");
    assert_eq!(world.state("acme", "1"), "in_doubt");
    assert_eq!(world.open_parks().len(), 1, "it is held for a person");
}

#[test]
fn a_record_that_was_parked_as_its_partition_went_is_asked_about_all_the_same() {
    let mut world = World::new(policy(ask()), 4, vec![row("acme", "1", 1)]);
    world.deliver(1);
    world.sync_all();
    world.act_all(&Act::Lose);
    world.on(Event::Lost { assignment: world.assignment() });
    world.assign(0);
    world.sync_all();
    world.settle(&Act::Apply, 500);
    assert_eq!(world.state("acme", "1"), "applied", "the destination has it, and says so when it is asked");
    assert_eq!(world.ledger["acme/1"].len(), 1);
}

/// A store whose offsets are somebody else's by now is refused when its partitions come; nothing of it may have run by then.
#[test]
fn what_is_parked_is_not_taken_up_before_a_partition_is_ours() {
    let mut world = World::new(policy(ask()), 4, vec![row("acme", "1", 1)]);
    world.deliver(1);
    world.sync_all();
    world.act_all(&Act::Lose);
    world.sync_all();
    world.looked.clear();
    let route = Route { names: vec!["op.v1".into()], policy: policy(ask()), replies: Replies::None };
    world.machine = Machine::new(2, limits(4, 1000), vec![route], BTreeSet::new());
    let (operation, known) = (key("acme", "1").digest(), Arc::new(world.about("acme/1").unwrap().clone()));
    world.on(Event::Doubtful { key: operation, known });
    (0..50).for_each(|_| world.wait(200));
    assert!(world.looked.is_empty() && world.starts.len() == 1);
    world.assign(world.committed);
    (0..50).for_each(|_| world.wait(200));
    assert!(!world.looked.is_empty(), "from here on it is asked about");
}

/// A record whose attempt ended without a word and without an effect, and which a person denied: it may run again from where it is parked.
fn deny(world: &mut World) {
    let attempt = *world.running.keys().next().unwrap();
    world.running.remove(&attempt);
    world.on(Event::Finished { attempt, outcome: Outcome::Unknown(DoubtReason::Unknown, String::new()) });
    world.sync_all();
    world.wait(1_000);
    not_done(world);
}

/// A person says of the first operation that nothing came of it.
fn not_done(world: &mut World) {
    let known = world.about("acme/1").unwrap();
    let by = Author::Operator { name: "mia".into(), uid: 1 };
    let (attempts, at) = (known.receipt.undecided(), world.clock().wall);
    let verdict = Verdict { attempts, ruling: Ruling::NotDone, by, reason: "looked".into(), at, fresh_key: false };
    let entry = Entry::Rule { key: key("acme", "1").digest(), seen: known.revision(), verdict: Box::new(verdict) };
    world.on(Event::Operator { request: 1, entry });
}

#[test]
fn a_parked_record_that_cannot_be_read_is_read_later() {
    let mut world = World::new(policy(hold()), 2, vec![row("acme", "1", 1)]);
    world.unpark_fails = true;
    world.deliver(1);
    world.sync_all();
    deny(&mut world);
    world.settle(&Act::Apply, 50);
    assert_eq!((world.starts.len(), world.open_parks().len()), (1, 1));
    world.unpark_fails = false;
    world.settle(&Act::Apply, 50);
    assert_eq!((world.starts.len(), world.open_parks().len(), world.ledger.len()), (2, 0, 1));
}

#[test]
fn a_parked_record_whose_dead_letter_fails_stays_parked_and_is_sent_later() {
    let once = Policy { attempts_max: 1, ..policy(hold()) };
    let mut world = World::new(once, 2, vec![row("acme", "1", 1)]);
    world.dead_letter_fails = true;
    world.deliver(1);
    world.sync_all();
    deny(&mut world);
    world.settle(&Act::NoEffect, 50);
    assert_eq!((world.dead_letters.len(), world.open_parks().len()), (0, 1));
    world.dead_letter_fails = false;
    world.settle(&Act::NoEffect, 50);
    assert_eq!((world.dead_letters.len(), world.open_parks().len(), world.starts.len()), (1, 0, 2));
}

/// What is parked is the only thing that makes room: a store at that bound would stay there for ever.
#[test]
fn at_the_bound_of_parked_bytes_what_is_parked_runs_and_nothing_new_does() {
    for (bound, starts) in [(Bound::ParkedBytes, 2), (Bound::Space, 1)] {
        let mut world = World::new(policy(hold()), 2, vec![row("acme", "1", 1), row("acme", "2", 2)]);
        world.deliver(1);
        world.sync_all();
        deny(&mut world);
        world.on(Event::StoreFull(Some(bound)));
        world.deliver(1);
        for _ in 0..20 {
            world.sync_all();
            world.act_all(&Act::Apply);
            world.wait(200);
        }
        assert_eq!(world.starts.len(), starts, "{bound:?}: {:?}", world.starts);
        assert!(world.starts.iter().all(|(operation, _)| operation == "acme/1"), "nothing new is admitted");
        world.on(Event::StoreFull(None));
        world.settle(&Act::Apply, 500);
        assert_eq!((world.open_parks().len(), world.committed, world.ledger.len()), (0, 2, 2));
    }
}

#[test]
fn a_record_that_was_thrown_away_while_it_waited_for_its_permit_does_not_run() {
    for kind in [EndKind::Discarded, EndKind::DeadLettered] {
        let mut world = World::new(policy(hold()), 1, vec![row("acme", "1", 1), row("acme", "2", 2)]);
        world.deliver(1);
        world.sync_all();
        deny(&mut world);
        // The one permit is another's when the record is read.
        world.deliver(1);
        world.sync_all();
        (0..5).for_each(|_| world.wait(200));
        assert_eq!((world.read, world.running.len(), world.starts.len()), (1, 1, 2), "it waits");
        let known = world.about("acme/1").unwrap();
        let (park, _) = known.open_parks().next().unwrap();
        let by = Some(Author::Operator { name: "mia".into(), uid: 1 });
        let end = End { kind: kind.clone(), by, reason: "must not run".into(), at: world.clock().wall };
        let entry = Entry::End { key: Some(key("acme", "1").digest()), seen: Some(known.revision()), park: park.clone(), end };
        world.on(Event::Operator { request: 2, entry });
        world.settle(&Act::Apply, 500);
        assert_eq!(world.starts.iter().filter(|(operation, _)| operation == "acme/1").count(), 1, "{kind:?}: {:?}", world.starts);
        assert!(!world.ledger.contains_key("acme/1"));
    }
}

fn run_again_then_ask(unresolved_max: u32) -> Policy {
    let Contract::DestinationDeduplicates { memory, .. } = rerun() else { unreachable!() };
    let contract = Contract::DestinationDeduplicates { memory, then: Box::new(ask()) };
    Policy { unresolved_max, attempts_max: 1_000, ..policy(contract) }
}

/// Nothing but running them again settles what a route at its bound has in doubt.
#[test]
fn a_paused_route_runs_again_what_is_in_doubt_and_takes_nothing_new() {
    let mut world = World::new(run_again_then_ask(1), 4, vec![row("acme", "1", 1), row("acme", "2", 2)]);
    world.deduplicates = true;
    world.deliver(1);
    world.sync_all();
    world.act_all(&Act::Lose);
    world.sync_all();
    assert_eq!(world.machine.paused_routes().collect::<Vec<_>>(), [0]);
    world.settle(&Act::Lose, 100);
    assert_eq!(world.machine.paused_routes().count(), 1, "no answer has come yet");
    assert!(world.starts.len() > 2 && world.starts.iter().all(|(operation, _)| operation == "acme/1"), "{:?}", world.starts);
    world.settle(&Act::Apply, 100);
    assert_eq!((world.machine.paused_routes().count(), world.committed, world.ledger.len()), (0, 2, 2));
}

/// What made room at a paused route has to be tried again, or is in doubt: the one waits, and must not stand in the other's way.
#[test]
fn parked_records_that_a_pause_holds_back_leave_room_to_those_in_doubt() {
    let share = 2;
    let log = (0..20).map(|i| row("acme", i, i)).collect();
    let mut world = World::with(vec![run_again_then_ask(1)], limits(share, 10), log);
    world.deduplicates = true;
    let mut in_the_way = 0;
    for round in 0..300 {
        let in_flight = world.machine.in_flight(0).0;
        world.deliver(10 - in_flight.min(10));
        world.sync_all();
        world.act_all(if round < 30 { &Act::NoEffect } else { &Act::Lose });
        world.sync_all();
        world.wait(500);
        let parked =
            |state: &State| world.disk.known.values().filter(|k| k.receipt.state() == *state && k.open_parks().next().is_some()).count();
        let in_doubt = world.disk.known.values().any(|k| matches!(k.receipt.state(), State::InDoubt(_)) && k.open_parks().next().is_some());
        if in_doubt && world.machine.paused_routes().count() == 1 {
            in_the_way = in_the_way.max(parked(&State::Retryable));
        }
    }
    let doubtful = world.disk.known.values().filter(|known| !known.receipt.unresolved().is_empty()).count();
    assert!(doubtful < 5 && world.machine.paused_routes().count() == 1, "{doubtful} at a bound of one");
    assert!(in_the_way > share, "{in_the_way} were parked beside one in doubt: this shows nothing");
    world.settle(&Act::Apply, 5_000);
    assert_eq!((world.ledger.len(), world.committed, world.open_parks().len()), (20, 20, 0), "{:?}", world.open_parks());
}

/// One that waits, because its route is paused, does not hold the turn of those that go one at a time after a crash.
#[test]
fn what_waits_for_its_permit_after_a_crash_holds_nobody_else_up() {
    let mut world = World::new(run_again_then_ask(1), 4, vec![row("acme", "1", 1), row("acme", "2", 2)]);
    world.deduplicates = true;
    world.deliver(2);
    world.sync_all();
    let second = *world.running.keys().find(|(operation, _)| *operation == key("acme", "2").digest()).unwrap();
    world.act_on(second, &Act::Lose);
    world.sync_all();
    world.crash(0);
    not_done(&mut world);
    world.sync_all();
    assert_eq!((world.state("acme", "1").as_str(), world.machine.paused_routes().count()), ("retryable", 1));
    world.settle(&Act::Apply, 500);
    assert_eq!((world.state("acme", "2").as_str(), world.committed, world.ledger.len()), ("applied", 2, 2), "{:?}", world.starts);
}
