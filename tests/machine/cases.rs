//! Public failure reports whose point is timing, each as a story: time is a number here, so that hours cost nothing.

use crate::world::*;
use receipted::protocol::{
    machine::{Assignment, Event, Tally},
    note::DoubtReason,
    outcome::Outcome,
    policy::{Contract, Policy},
    time::Monotonic,
};
use std::time::Duration;

const HOUR: u64 = 3_600_000;

/// One record, delivered and running.
fn running(policy: Policy, rows: Vec<Row>) -> World {
    let mut world = World::new(policy, 16, rows);
    world.deliver(1);
    world.sync_all();
    world
}

fn suppressed(world: &mut World, reason: &str) -> u64 {
    let tallies = world.machine.take_tallies();
    tallies.iter().filter(|(tally, _)| matches!(tally, Tally::Suppressed(why) if *why == reason)).map(|(_, count)| count).sum()
}

fn doubts(world: &World, operation: &str) -> Vec<DoubtReason> {
    world.about(operation).map(|known| known.receipt.doubts().values().map(|doubt| doubt.reason).collect()).unwrap_or_default()
}

/// The admission is on the disk, and the process died before it called the handler.
fn admitted_and_dead(contract: Contract) -> World {
    let mut world = World::new(policy(contract), 4, vec![row("acme", "1", 1)]);
    world.deduplicates = true;
    world.deliver(1);
    world.crash(1);
    assert_eq!((world.starts.len(), world.state("acme", "1").as_str()), (0, "in_doubt"));
    world.settle(&Act::Apply, 300);
    assert_eq!(world.committed, 1, "never dropped, and never in the way");
    world
}

#[test]
fn c10_an_admission_without_a_handler_is_listed_asked_or_run_again_as_its_contract_says() {
    let held = admitted_and_dead(hold());
    assert_eq!((held.open_parks(), held.starts.len()), (vec![(0, "unresolved")], 0));
    for contract in [ask(), rerun()] {
        let done = admitted_and_dead(contract);
        assert_eq!((done.state("acme", "1").as_str(), done.open_parks().len()), ("applied", 0));
        assert_eq!(done.ledger["acme/1"], [2]);
    }
}

/// Attempt 1 took effect and lost its answer; attempt 2 is about to hear of it.
fn second_attempt(first: &Act) -> (World, (receipted::protocol::key::KeyDigest, receipted::protocol::note::AttemptId)) {
    let mut world = running(policy(rerun()), vec![row("acme", "1", 1)]);
    world.deduplicates = true;
    world.act_all(first);
    world.sync_all();
    world.wait(100);
    world.sync_all();
    let attempt = *world.running.keys().next().expect("the rerun");
    assert_eq!(attempt.1.number, 2);
    world.running.clear();
    (world, attempt)
}

#[test]
fn c17_already_used_is_applied_and_closes_the_attempt_that_lost_its_answer() {
    let (mut world, attempt) = second_attempt(&Act::Lose);
    let already = receipted::protocol::note::Applied { already: true, ..applied("ref-acme/1-1") };
    world.on(Event::Finished { attempt, outcome: Outcome::Applied(already) });
    world.settle(&Act::Apply, 100);
    let known = world.about("acme/1").unwrap();
    assert_eq!(known.receipt.state().label(), "applied");
    assert!(known.receipt.unresolved().is_empty(), "nothing of it is unresolved any more");
    assert_eq!((known.receipt.effects().extra_certain(), known.receipt.effects().extra_suspected()), (0, 0));
    assert_eq!((world.ledger["acme/1"].len(), world.committed), (1, 1));
}

#[test]
fn c17_a_refusal_of_the_second_attempt_does_not_settle_what_the_first_left_in_doubt() {
    let (mut world, attempt) = second_attempt(&Act::Lose);
    world.on(Event::Finished { attempt, outcome: Outcome::Rejected("nonce consumed".into()) });
    world.settle(&Act::Reject, 300);
    assert_eq!(world.state("acme", "1"), "in_doubt", "it was paid: rejected would be false");
    assert_eq!((world.open_parks().len(), world.committed), (1, 1));
}

fn remembers_for_a_day() -> Policy {
    policy(Contract::DestinationDeduplicates { memory: Duration::from_secs(24 * 3600), then: Box::new(hold()) })
}

#[test]
fn c19_unresolved_never_expires_and_is_not_run_again_once_the_destination_has_forgotten() {
    let mut world = running(remembers_for_a_day(), vec![row("acme", "1", 1), row("acme", "1", 2)]);
    world.act_all(&Act::Lose);
    world.sync_all();
    world.crash(0);
    // The destination's memory is over: another request would pay again.
    world.now += 25 * HOUR;
    world.settle(&Act::Apply, 200);
    assert_eq!((world.starts.len(), world.ledger["acme/1"].len()), (1, 1));
    for _ in 0..30 {
        world.now += 24 * HOUR;
        world.crash(0);
        world.settle(&Act::Apply, 50);
    }
    assert_eq!((world.state("acme", "1").as_str(), world.open_parks()), ("in_doubt", vec![(0, "unresolved")]));
    assert_eq!((world.starts.len(), world.committed), (1, 2), "its repeat is held, also after a month");
}

#[test]
fn c19_within_the_memory_of_the_destination_it_runs_again() {
    let mut world = running(remembers_for_a_day(), vec![row("acme", "1", 1)]);
    world.deduplicates = true;
    world.act_all(&Act::Lose);
    world.sync_all();
    world.crash(0);
    world.now += 23 * HOUR;
    world.settle(&Act::Apply, 200);
    assert_eq!((world.starts.len(), world.ledger["acme/1"].len()), (2, 1));
    assert_eq!(world.state("acme", "1"), "applied");
}

#[test]
fn c19_a_rerun_whose_admission_reaches_the_disk_too_late_does_not_start() {
    let mut world = running(remembers_for_a_day(), vec![row("acme", "1", 1)]);
    world.act_all(&Act::Lose);
    world.sync_all();
    world.wait(100);
    assert_eq!(world.unsynced.len(), 1, "the admission of the rerun is on its way");
    world.now += 25 * HOUR;
    world.settle(&Act::Apply, 200);
    assert_eq!((world.starts.len(), world.ledger["acme/1"].len()), (1, 1));
    assert_eq!(world.open_parks(), [(0, "unresolved")]);
}

#[test]
fn c27_a_crash_in_the_middle_of_a_handler_is_unresolved_for_that_reason_and_then_goes_by_its_contract() {
    let mut held = running(policy(hold()), vec![row("acme", "1", 1), row("acme", "1", 1)]);
    held.crash(0);
    held.settle(&Act::Apply, 200);
    assert_eq!(doubts(&held, "acme/1"), [DoubtReason::Crash]);
    assert_eq!((held.open_parks(), held.committed), (vec![(0, "unresolved")], 2), "not stuck, and its repeat neither");
    let mut asked = running(policy(ask()), vec![row("acme", "1", 1), row("acme", "1", 1)]);
    asked.crash(0);
    asked.settle(&Act::Apply, 300);
    assert_eq!((asked.state("acme", "1").as_str(), asked.ledger["acme/1"].len(), asked.committed), ("applied", 1, 2));
}

#[test]
fn c28_a_handler_slower_than_its_limit_is_not_run_again_where_a_rerun_is_not_safe() {
    let mut world = running(policy(hold()), vec![row("acme", "1", 1), row("acme", "1", 2)]);
    let attempt = *world.running.keys().next().unwrap();
    let withdrawn = world.effect("acme/1", 1);
    world.wait(1_001);
    world.sync_all();
    assert_eq!(doubts(&world, "acme/1"), [DoubtReason::Timeout]);
    world.settle(&Act::Hang, 5);
    // The partition goes and comes back: what was in progress is not "expired", however long ago it was.
    let assignment = Assignment { partition: 0, epoch: world.epoch };
    world.on(Event::Revoke { assignment, until: Monotonic(world.now) });
    world.sync_all();
    assert!(world.drained);
    world.assign(0);
    world.settle(&Act::Hang, 5);
    assert_eq!((world.starts.len(), world.open_parks()), (1, vec![(0, "unresolved")]));
    world.running.clear();
    world.on(Event::Finished { attempt, outcome: Outcome::Applied(withdrawn) });
    world.settle(&Act::Apply, 50);
    assert_eq!((world.starts.len(), world.ledger["acme/1"].len()), (1, 1));
    assert_eq!((world.state("acme", "1").as_str(), world.open_parks().len()), ("applied", 0), "its late answer settles it");
}

#[test]
fn c30_a_handler_of_three_times_its_limit_has_one_effect_or_is_listed() {
    for contract in [hold(), ask(), rerun()] {
        let may_rerun = contract == rerun();
        let mut world = running(policy(contract), vec![row("acme", "1", 1)]);
        world.deduplicates = may_rerun;
        for _ in 0..30 {
            world.wait(100);
            world.sync_all();
            let listed = !world.open_parks().is_empty() || world.now < 1_300;
            assert!(listed || (may_rerun && world.running.len() > 1), "past its limit it is listed, or run again where that is safe");
            assert!(may_rerun || world.starts.len() == 1, "nobody knows what the first does, and it runs a second time");
        }
        world.auto_look = false;
        world.act_all(&Act::Apply);
        world.settle(&Act::Apply, 100);
        assert_eq!((world.state("acme", "1").as_str(), world.open_parks().len()), ("applied", 0));
        assert_eq!((world.ledger["acme/1"].len(), world.committed), (1, 1));
    }
}

#[test]
fn c31_a_repeat_of_what_still_runs_is_suppressed_and_does_not_reclaim_it() {
    let policy = Policy { time_limit: Duration::from_secs(600), detached_max: Duration::from_secs(6_000), ..policy(hold()) };
    // In the same lane, and in others.
    let mut world = running(policy, vec![row("acme", "1", 1), row("acme", "1", 1), row("acme", "1", 2), row("acme", "1", 3)]);
    world.deliver(3);
    world.wait(120_000);
    world.sync_all();
    assert_eq!(world.running.len(), 1, "healthy, and older than any lease");
    world.act_all(&Act::Apply);
    world.settle(&Act::Apply, 100);
    assert_eq!((world.starts.len(), world.ledger["acme/1"].len(), world.committed), (1, 1, 4));
    assert_eq!(suppressed(&mut world, "running"), 3);
}

#[test]
fn c34_redelivered_every_second_while_it_takes_two_is_sent_once() {
    let policy = Policy { time_limit: Duration::from_secs(30), detached_max: Duration::from_secs(300), ..policy(hold()) };
    let mut world = running(policy, (0..6).map(|delivery| row("acme", "mail", delivery)).collect());
    for _ in 0..2 {
        world.wait(1_000);
        world.deliver(1);
        world.sync_all();
    }
    world.act_all(&Act::Apply);
    world.sync_all();
    for _ in 0..3 {
        world.wait(1_000);
        world.deliver(1);
        world.sync_all();
    }
    world.settle(&Act::Apply, 50);
    assert_eq!((world.starts.len(), world.ledger["acme/mail"].len(), world.committed), (1, 1, 6));
    let tallies = world.machine.take_tallies();
    let of = |reason| tallies.get(&Tally::Suppressed(reason)).copied();
    assert_eq!((of("running"), of("settled")), (Some(2), Some(3)));
}

#[test]
fn c75_ten_seconds_of_unavailable_are_retried_under_the_same_key_and_dead_letter_nothing() {
    let policy = Policy { attempts_max: 10, ..policy(hold()) };
    let mut world = World::new(policy, 16, (0..252).map(|id| row("acme", id, id)).collect());
    for _ in 0..20_000 {
        let mut moved = world.deliver(100) > 0;
        moved |= world.sync();
        let answer = if world.now < 10_000 { Act::NoEffect } else { Act::Apply };
        moved |= world.act_all(&answer) > 0;
        world.on(Event::CommitTick);
        if !moved && !world.sync() {
            match world.machine.next_timer() {
                Some(at) => world.wait(at.0.saturating_sub(world.now)),
                None => break,
            }
        }
    }
    assert_eq!((world.dead_letters.len(), world.open_parks().len()), (0, 0));
    assert_eq!((world.ledger.len(), world.committed), (252, 252));
    for id in 0..252 {
        let known = world.about(&format!("acme/{id}")).unwrap();
        let admissions = known.receipt.admissions();
        assert!(admissions.len() <= 10, "bounded");
        assert!(admissions.values().all(|admission| admission.key_generation == 0), "the destination sees one key");
    }
}
