//! One property a test, told as a story.

use crate::world::*;
use receipted::protocol::{
    doubt::Future,
    known::Entry,
    machine::{Bound, Event},
    note::{Author, Ruling, Verdict},
    policy::{Contract, Policy},
    time::Monotonic,
};
use std::time::Duration;

#[test]
fn an_operation_runs_once_however_often_it_is_delivered() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1), row("acme", "1", 2), row("acme", "1", 1)]);
    world.settle(&Act::Apply, 100);
    assert_eq!(world.ledger["acme/1"], [1]);
    assert_eq!(world.committed, 3);
}

#[test]
fn the_watermark_stays_below_a_record_that_is_not_complete() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1), row("acme", "2", 2), row("acme", "3", 3)]);
    world.deliver(3);
    world.sync_all();
    let running: Vec<_> = world.running.iter().map(|(attempt, operation)| (*attempt, operation.clone())).collect();
    for (attempt, operation) in running {
        if operation != "acme/1" {
            world.act_on(attempt, &Act::Apply);
        }
    }
    world.sync_all();
    world.on(Event::CommitTick);
    world.sync_all();
    assert_eq!(world.committed, 0, "the first record still runs");
    world.act_all(&Act::Apply);
    world.sync_all();
    world.on(Event::CommitTick);
    world.sync_all();
    assert_eq!(world.committed, 3);
}

#[test]
fn what_never_arrives_holds_no_offset_back() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1)]);
    world.deliver(1);
    world.sync_all();
    let assignment = world.assignment();
    world.on(Event::Reached { assignment, offset: 5 });
    world.on(Event::CommitTick);
    world.sync_all();
    assert_eq!(world.committed, 0, "the record below still runs");
    world.settle(&Act::Apply, 100);
    world.on(Event::CommitTick);
    world.sync_all();
    assert_eq!(world.committed, 5);
}

#[test]
fn records_of_a_lane_run_one_after_another() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 7), row("acme", "2", 7), row("acme", "3", 8)]);
    world.deliver(3);
    world.sync_all();
    let mut running: Vec<_> = world.running.values().cloned().collect();
    running.sort();
    assert_eq!(running, ["acme/1", "acme/3"]);
    world.settle(&Act::Apply, 100);
    assert_eq!(
        world.starts.iter().map(|(operation, _)| operation.as_str()).filter(|o| *o != "acme/3").collect::<Vec<_>>(),
        ["acme/1", "acme/2"]
    );
}

#[test]
fn a_repeat_behind_its_first_delivery_needs_no_permit() {
    let mut rows = vec![row("acme", "1", 7), row("acme", "1", 7)];
    rows.extend((2..20).map(|id| row("acme", id, id)));
    let mut world = World::new(policy(hold()), 1, rows);
    world.deliver(20);
    world.sync_all();
    assert_eq!(world.running.values().collect::<Vec<_>>(), ["acme/1"]);
    world.act_all(&Act::Apply);
    world.sync_all();
    world.on(Event::CommitTick);
    world.sync_all();
    assert_eq!(world.committed, 2, "the repeat is answered as soon as its operation is settled, whoever waits for a permit");
}

#[test]
fn no_more_handlers_run_or_are_admitted_than_there_are_permits() {
    let mut world = World::new(policy(hold()), 3, (0..50).map(|i| row("acme", i, i)).collect());
    world.deliver(50);
    world.sync_all();
    assert_eq!(world.running.len(), 3);
    let doubtful = world.disk.known.values().filter(|k| !k.receipt.undecided().is_empty()).count();
    assert_eq!(doubtful, 3, "a kill now leaves three in doubt");
    world.settle(&Act::Apply, 1000);
    assert_eq!(world.ledger.len(), 50);
}

#[test]
fn an_attempt_in_doubt_is_parked_under_hold_and_its_repeat_is_held() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1), row("acme", "1", 2)]);
    world.settle(&Act::Lose, 200);
    assert_eq!(world.state("acme", "1"), "in_doubt");
    assert_eq!(world.open_parks(), [(0, "unresolved")]);
    assert_eq!(world.committed, 2, "parking completes the slot");
    assert_eq!(world.ledger["acme/1"].len(), 1);
    assert_eq!(world.starts.len(), 1, "never silently run again");
}

#[test]
fn a_lost_answer_under_ask_is_settled_by_the_lookup() {
    let mut world = World::new(policy(ask()), 4, vec![row("acme", "1", 1)]);
    world.settle(&Act::Lose, 200);
    assert_eq!(world.state("acme", "1"), "applied");
    assert_eq!(world.ledger["acme/1"], [1]);
    assert!(world.open_parks().is_empty());
}

#[test]
fn a_lost_request_under_ask_runs_again_after_the_quiet_period_and_never_before() {
    let mut world = World::new(policy(ask()), 4, vec![row("acme", "1", 1)]);
    world.deliver(1);
    world.sync_all();
    world.crash(0);
    let restarted = world.now;
    world.settle(&Act::Apply, 300);
    assert_eq!(world.ledger["acme/1"], [2], "the first attempt had none, the second had it");
    assert_eq!(world.starts, [("acme/1".into(), 1), ("acme/1".into(), 2)]);
    assert!(world.now >= restarted + 500);
}

#[test]
fn a_crash_after_the_effect_under_rerun_is_one_effect_where_the_destination_deduplicates() {
    let mut world = World::new(policy(rerun()), 4, vec![row("acme", "1", 1)]);
    world.deduplicates = true;
    world.deliver(1);
    world.sync_all();
    let attempt = *world.running.keys().next().unwrap();
    world.effect("acme/1", attempt.1.number);
    world.crash(0);
    world.settle(&Act::Apply, 200);
    assert_eq!(world.ledger["acme/1"], [1]);
    assert_eq!(world.state("acme", "1"), "applied");
    assert_eq!(world.committed, 1);
}

#[test]
fn stated_no_effect_is_tried_again_and_then_dead_lettered_with_the_operation_retryable() {
    let policy = Policy { attempts_max: 3, ..policy(hold()) };
    let mut world = World::new(policy, 4, vec![row("acme", "1", 1)]);
    world.settle(&Act::NoEffect, 300);
    assert_eq!(world.starts.len(), 3);
    assert_eq!(world.dead_letters.len(), 1);
    assert_eq!(world.state("acme", "1"), "retryable");
    assert_eq!(world.committed, 1);
}

#[test]
fn a_failing_dead_letter_topic_parks_the_record() {
    let undecodable = Row { operation: None, ..row("acme", "1", 1) };
    let mut world = World::new(policy(hold()), 4, vec![undecodable, row("acme", "2", 2)]);
    world.dead_letter_fails = true;
    world.settle(&Act::Apply, 100);
    assert_eq!(world.open_parks(), [(0, "dead_letter_failed")]);
    assert_eq!((world.committed, world.ledger.len()), (2, 1));
}

#[test]
fn changed_parameters_are_parked_and_never_run() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1), Row { amount: 2, ..row("acme", "1", 1) }]);
    world.settle(&Act::Apply, 100);
    assert_eq!(world.open_parks(), [(1, "conflict")]);
    assert_eq!(world.starts.len(), 1);
}

#[test]
fn a_late_answer_settles_what_its_time_limit_left_in_doubt() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1)]);
    world.deliver(1);
    world.sync_all();
    world.wait(1_500);
    world.sync_all();
    assert_eq!(world.open_parks(), [(0, "unresolved")]);
    world.act_all(&Act::Apply);
    world.sync_all();
    assert_eq!(world.state("acme", "1"), "applied");
    assert!(world.open_parks().is_empty());
}

#[test]
fn a_future_that_never_ends_is_dropped_and_its_permit_comes_back() {
    let mut world = World::new(policy(hold()), 1, vec![row("acme", "1", 1), row("acme", "2", 2)]);
    world.deliver(2);
    world.sync_all();
    assert_eq!(world.running.len(), 1);
    world.wait(1_001);
    world.sync_all();
    assert_eq!(world.starts.len(), 1, "a detached future keeps its permit");
    world.wait(10_000);
    world.sync_all();
    assert_eq!(world.starts.len(), 2);
}

#[test]
fn a_revoked_partition_drains_what_runs_and_gives_the_rest_back() {
    let mut world = World::new(policy(hold()), 1, vec![row("acme", "1", 1), row("acme", "2", 2)]);
    world.deliver(2);
    world.sync_all();
    let (assignment, until) = (receipted::protocol::machine::Assignment { partition: 0, epoch: world.epoch }, Monotonic(world.now + 5_000));
    world.on(Event::Revoke { assignment, until });
    assert!(!world.drained);
    world.act_all(&Act::Apply);
    world.sync_all();
    assert!(world.drained);
    assert_eq!((world.committed, world.starts.len()), (1, 1));
}

#[test]
fn at_the_end_of_the_drain_budget_what_runs_is_detached_and_its_slot_stays_open() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1)]);
    world.deliver(1);
    world.sync_all();
    let (assignment, until) = (receipted::protocol::machine::Assignment { partition: 0, epoch: world.epoch }, Monotonic(world.now + 100));
    world.on(Event::Revoke { assignment, until });
    world.wait(101);
    world.sync_all();
    assert!(world.drained);
    assert_eq!(world.committed, 0);
    world.assign(0);
    world.deliver(1);
    world.sync_all();
    assert_eq!(world.starts.len(), 1, "the detached attempt still runs: its repeat waits");
    world.act_all(&Act::Apply);
    world.settle(&Act::Apply, 50);
    assert_eq!((world.ledger["acme/1"].len(), world.committed), (1, 1));
}

#[test]
fn waiting_records_hold_half_of_a_partitions_bound_and_another_tenant_goes_on() {
    let mut log: Vec<Row> = (0..20).map(|i| row("failing", i, i)).collect();
    log.push(row("fine", "1", 100));
    let mut world = World::with(vec![policy(hold())], limits(4, 10), log);
    for _ in 0..200 {
        let in_flight = world.machine.in_flight(0).0;
        world.deliver(10 - in_flight.min(10));
        world.sync_all();
        for (attempt, operation) in world.running.clone() {
            world.act_on(attempt, if operation.starts_with("fine") { &Act::Apply } else { &Act::NoEffect });
        }
        world.sync_all();
    }
    assert_eq!(world.ledger.get("fine/1").map(Vec::len), Some(1), "starts: {:?}", world.starts.len());
    assert!(world.open_parks().iter().any(|(_, reason)| *reason == "retry"));
    world.settle(&Act::Apply, 2000);
    assert_eq!(world.ledger.len(), 21, "what made room runs when it is due");
    assert!(world.open_parks().is_empty());
}

#[test]
fn a_queue_of_one_tenant_does_not_delay_another() {
    let mut log: Vec<Row> = (0..100).map(|i| row("hot", i, i)).collect();
    log.push(row("calm", "1", 1000));
    let mut world = World::new(policy(hold()), 2, log);
    world.deliver(101);
    world.settle(&Act::Apply, 1000);
    let at = world.starts.iter().position(|(operation, _)| operation == "calm/1").unwrap();
    assert!(at <= 4, "the calm tenant was start number {at}");
}

#[test]
fn hanging_handlers_of_one_tenant_leave_permits_for_another() {
    let mut log: Vec<Row> = (0..10).map(|i| row("hangs", i, i)).collect();
    log.push(row("calm", "1", 1000));
    let mut limits = limits(4, 1000);
    limits.tenant_permits_max = 3;
    let mut world = World::with(vec![policy(hold())], limits, log);
    world.deliver(11);
    world.sync_all();
    assert!(world.running.values().any(|operation| operation == "calm/1"));
}

#[test]
fn a_record_that_kills_the_process_is_parked_after_its_attempts_and_its_neighbours_are_not() {
    let policy = Policy { attempts_max: 4, ..policy(rerun()) };
    let mut world = World::new(policy, 8, (0..6).map(|i| row("acme", i, i)).collect());
    world.deduplicates = true;
    for _ in 0..12 {
        for _ in 0..200 {
            world.deliver(10);
            world.sync_all();
            let poison = world.running.iter().any(|(_, operation)| operation == "acme/3");
            if poison {
                break;
            }
            if world.act_all(&Act::Apply) == 0 {
                let Some(at) = world.machine.next_timer() else { break };
                world.now = world.now.max(at.0);
                world.on(Event::CommitTick);
            }
        }
        if world.running.values().any(|operation| operation == "acme/3") {
            world.crash(0);
        }
    }
    world.settle(&Act::Apply, 200);
    assert_eq!(world.open_parks(), [(3, "poison")]);
    assert_eq!(world.ledger.len(), 5, "{:?}", world.ledger);
    assert_eq!(world.committed, 6);
}

#[test]
fn a_route_at_its_bound_of_unresolved_operations_pauses_and_another_goes_on() {
    let bounded = Policy { unresolved_max: 2, ..policy(hold()) };
    let mut log: Vec<Row> = (0..10).map(|i| row("acme", i, i)).collect();
    log.push(Row { route: 1, ..row("acme", "x", 99) });
    let mut world = World::with(vec![bounded, policy(hold())], limits(1, 1000), log);
    for _ in 0..100 {
        world.deliver(20);
        world.sync_all();
        for (attempt, operation) in world.running.clone() {
            world.act_on(attempt, if operation == "acme/x" { &Act::Apply } else { &Act::Lose });
        }
    }
    let doubtful = world.disk.known.values().filter(|k| !k.receipt.unresolved().is_empty()).count();
    assert!((2..=3).contains(&doubtful), "two, and the one that ran when the bound was reached: {doubtful}");
    assert!(world.ledger.contains_key("acme/x"));
    assert_eq!(world.machine.paused_routes().collect::<Vec<_>>(), [0]);
}

#[test]
fn a_full_store_admits_nothing_and_still_records_what_ended() {
    let mut world = World::new(policy(hold()), 1, vec![row("acme", "1", 1), row("acme", "2", 2)]);
    world.deliver(2);
    world.sync_all();
    world.on(Event::StoreFull(Some(Bound::Space)));
    world.act_all(&Act::Apply);
    world.sync_all();
    assert_eq!((world.state("acme", "1").as_str(), world.starts.len()), ("applied", 1));
    world.on(Event::StoreFull(None));
    world.settle(&Act::Apply, 50);
    assert_eq!(world.ledger.len(), 2);
}

#[test]
fn a_dead_letter_that_failed_while_the_store_was_full_is_parked_when_it_is_not() {
    let undecodable = Row { operation: None, ..row("acme", "1", 1) };
    let mut world = World::new(policy(hold()), 4, vec![undecodable, row("acme", "2", 2)]);
    world.dead_letters_hang = true;
    world.deliver(2);
    world.on(Event::StoreFull(Some(Bound::Space)));
    let work = world.producing.remove(0);
    world.on(Event::DeadLettered { work, result: Err("no topic".into()) });
    world.sync_all();
    assert_eq!((world.open_parks().len(), world.committed), (0, 0));
    world.on(Event::StoreFull(None));
    world.settle(&Act::Apply, 50);
    assert_eq!(world.open_parks(), [(0, "dead_letter_failed")]);
    assert_eq!((world.committed, world.ledger.len()), (2, 1));
}

/// The partition goes and comes again while the note that parks its record is on its way: the second delivery writes another.
fn parked_twice(log: Vec<Row>, first: usize) -> World {
    let mut world = World::new(policy(hold()), 4, log);
    world.dead_letter_fails = true;
    world.deliver(first);
    world.sync_all();
    world.act_all(&Act::Apply);
    world.sync_all();
    world.on(Event::CommitTick);
    world.sync_all();
    world.deliver(1);
    assert_eq!((world.unsynced.len(), world.open_parks().len()), (1, 0));
    let assignment = world.assignment();
    world.on(Event::Revoke { assignment, until: Monotonic(world.now) });
    world.wait(1);
    assert!(world.drained);
    world.assign(i64::try_from(first).unwrap());
    world.deliver(1);
    for _ in 0..20 {
        world.sync();
    }
    world.settle(&Act::Apply, 20);
    world
}

#[test]
fn a_slot_that_an_earlier_assignment_parked_meanwhile_is_held_by_that_note() {
    let undecodable = Row { operation: None, ..row("acme", "1", 1) };
    let world = parked_twice(vec![undecodable], 0);
    assert_eq!((world.committed, world.open_parks()), (1, vec![(0, "dead_letter_failed")]));
    let world = parked_twice(vec![row("acme", "1", 1), Row { amount: 2, ..row("acme", "1", 1) }], 1);
    assert_eq!((world.committed, world.open_parks()), (2, vec![(1, "conflict")]));
}

#[test]
fn the_budget_of_the_destinations_memory_ends_reruns() {
    let contract =
        receipted::protocol::policy::Contract::DestinationDeduplicates { memory: Duration::from_secs(20), then: Box::new(hold()) };
    let mut world = World::new(policy(contract), 4, vec![row("acme", "1", 1)]);
    world.deduplicates = true;
    world.deliver(1);
    world.sync_all();
    world.now += 25_000;
    world.crash(0);
    world.settle(&Act::Apply, 100);
    assert_eq!(world.starts.len(), 1);
    assert_eq!(world.open_parks(), [(0, "unresolved")]);
}

/// Attempt 1 died with its process, a lookup denied it, and attempt 2 had the effect. Nobody has looked a second time yet.
fn denied_once_and_run_again() -> World {
    let mut world = World::denied_and_running_again();
    world.auto_look = false;
    world.act_all(&Act::Apply);
    world.sync_all();
    assert_eq!((world.state("acme", "1").as_str(), &world.ledger["acme/1"]), ("applied", &vec![2]));
    world
}

fn the_first_request_lands_and_is_found(mut world: World) {
    world.ledger.entry("acme/1".into()).or_default().push(1);
    world.auto_look = true;
    world.settle(&Act::Apply, 300);
    let receipt = &world.about("acme/1").unwrap().receipt;
    assert_eq!((receipt.effects().extra_certain(), receipt.is_disputed()), (1, true));
}

#[test]
fn a_request_that_lands_after_it_was_denied_is_found_by_the_second_look() {
    let world = denied_once_and_run_again();
    the_first_request_lands_and_is_found(world);
}

#[test]
fn the_second_look_is_owed_after_a_crash_too() {
    let mut world = denied_once_and_run_again();
    world.crash(0);
    the_first_request_lands_and_is_found(world);
}

/// One effect, and two attempts whose answers were lost: while the second request can still land, it settles neither.
#[test]
fn the_attempt_beside_an_applied_one_is_asked_about_until_it_is_settled_too() {
    let contract = Contract::DestinationDeduplicates { memory: Duration::from_secs(3600), then: Box::new(ask()) };
    let mut world = World::new(Policy { attempts_max: 2, ..policy(contract) }, 4, vec![row("acme", "1", 1)]);
    world.deduplicates = true;
    let half_settled = |world: &World| {
        world.about("acme/1").is_some_and(|known| known.receipt.applied().is_some() && !known.receipt.undecided().is_empty())
    };
    let rounds = (0..1_000).take_while(|_| {
        world.settle(&Act::Lose, 1);
        !half_settled(&world)
    });
    assert!(rounds.count() < 1_000, "{:?}", world.about("acme/1"));
    world.settle(&Act::Lose, 300);
    let receipt = &world.about("acme/1").unwrap().receipt;
    assert!(receipt.undecided().is_empty() && !receipt.is_disputed(), "{receipt:?}");
    assert_eq!((world.starts.len(), world.ledger["acme/1"].len()), (2, 1));
}

/// A denial that came early: a second look has to know until when the request could still land.
#[test]
fn when_a_denied_attempt_ended_is_known_until_its_request_cannot_land_any_more() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", "1", 1)]);
    world.deliver(1);
    world.sync_all();
    let attempt = *world.running.keys().next().unwrap();
    world.now += 100;
    let ended = Future::EndedAt(Monotonic(world.now));
    world.act_on(attempt, &Act::Lose);
    world.sync_all();
    world.wait(10);
    let (known, by) = (world.about("acme/1").unwrap(), Author::Operator { name: "mia".into(), uid: 1 });
    let (attempts, at) = (known.receipt.undecided(), world.clock().wall);
    let verdict = Verdict { attempts, ruling: Ruling::NotDone, by, reason: "it cannot land any more".into(), at, fresh_key: false };
    let entry = Entry::Rule { key: attempt.0, seen: known.revision(), verdict: Box::new(verdict) };
    world.on(Event::Operator { request: 1, entry });
    world.sync_all();
    assert_eq!(world.machine.future(attempt.0, attempt.1), ended);
    world.wait(500);
    assert_ne!(world.machine.future(attempt.0, attempt.1), ended, "and nothing is remembered for longer");
}

#[test]
fn a_second_look_that_finds_nothing_new_is_the_last() {
    let mut world = denied_once_and_run_again();
    world.auto_look = true;
    world.settle(&Act::Apply, 300);
    let receipt = world.about("acme/1").unwrap().receipt.clone();
    assert!(receipt.unconfirmed().is_empty() && !receipt.is_disputed());
    world.crash(0);
    world.auto_look = false;
    world.settle(&Act::Apply, 300);
    assert!(world.looked.is_empty(), "nobody asks again");
}

#[test]
fn the_next_of_a_lane_shares_its_syncs_and_starts_after_the_fact_before_it() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", 1, 7), row("acme", 2, 7), row("acme", 1, 7), row("acme", 3, 7)]);
    world.deliver(4);
    world.sync_all();
    assert_eq!(world.running.len(), 1, "one of a lane at a time");
    world.act_all(&Act::Apply);
    let kinds: Vec<&str> =
        world.unsynced[0].1.iter().map(|entry| if matches!(entry, Entry::Fact { .. }) { "fact" } else { "admission" }).collect();
    assert_eq!((kinds, world.unsynced.len()), (vec!["fact", "admission"], 1), "both share a sync");
    assert_eq!(world.starts.len(), 1, "and nothing starts before it");
    world.sync_all();
    assert_eq!(world.starts, [("acme/1".to_string(), 1), ("acme/2".to_string(), 1)]);
    world.settle(&Act::Apply, 100);
    assert_eq!(world.starts.len(), 3, "the repeat ran nothing");
    assert_eq!(world.committed, 4);
}

#[test]
fn a_lane_waits_for_an_attempt_that_had_no_effect() {
    let mut world = World::new(policy(hold()), 4, vec![row("acme", 1, 7), row("acme", 2, 7)]);
    world.deliver(2);
    world.sync_all();
    world.act_all(&Act::NoEffect);
    world.sync_all();
    assert_eq!(world.starts, [("acme/1".to_string(), 1)], "its retry comes first");
    world.settle(&Act::Apply, 1000);
    assert_eq!(world.starts, [("acme/1".to_string(), 1), ("acme/1".to_string(), 2), ("acme/2".to_string(), 1)]);
}
