//! What may settle a doubt, and when (DESIGN 5).

use super::build::*;
use receipted::protocol::{
    doubt::{Future, Refusal, Step, Vouched, may_rule, provable, quiet_until, step},
    note::{Admission, Ruling},
    policy::{BackOff, Contract, Policy},
    receipt::Receipt,
    time::{Monotonic, UnixMillis},
};
use std::time::Duration;

const QUIET: Duration = Duration::from_secs(10);
const MEMORY: Duration = Duration::from_secs(1000);

fn policy(contract: Contract) -> Policy {
    Policy { contract, margin: Duration::from_secs(100), attempts_max: 3, ..Policy::default() }
}

fn remembers() -> Policy {
    policy(Contract::DestinationDeduplicates { memory: MEMORY, then: Box::new(Contract::Ask { quiet: QUIET }) })
}

/// Attempts admitted one second apart from second 1 on, with this memory.
fn remembered(numbers: &[u32], memory: Option<Duration>) -> Receipt {
    let mut receipt = Receipt::default();
    for number in numbers {
        receipt.admit(attempt(*number), Admission { memory, ..admission(*number) });
    }
    receipt
}

#[test]
fn ask_and_hold_park_first() {
    for contract in [Contract::Ask { quiet: QUIET }, Contract::Hold { quiet: QUIET }] {
        assert_eq!(step(&policy(contract), &remembered(&[1], Some(MEMORY)), UnixMillis(1000), 0), Step::Park);
    }
}

#[test]
fn a_rerun_is_safe_from_the_latest_note_until_the_memory_less_its_margin_is_over() {
    let receipt = remembered(&[1, 2], Some(MEMORY));
    let rerun = Step::Rerun { from: UnixMillis(2000), until: UnixMillis(901_000) };
    for (now, expected) in [(1999, Step::Park), (2000, rerun.clone()), (900_999, rerun), (901_000, Step::Park)] {
        assert_eq!(step(&remembers(), &receipt, UnixMillis(now), 1), expected, "at {now}");
    }
}

#[test]
fn a_rerun_uses_the_budget_up_and_is_then_poison() {
    let receipt = remembered(&[1], Some(MEMORY));
    assert!(matches!(step(&remembers(), &receipt, UnixMillis(1000), 2), Step::Rerun { .. }));
    assert_eq!(step(&remembers(), &receipt, UnixMillis(1000), 3), Step::Exhausted);
    assert_eq!(step(&remembers(), &receipt, UnixMillis(901_000), 3), Step::Park, "past the memory it is a plain doubt");
}

#[test]
fn the_memory_is_that_of_the_least_promise_given_to_an_attempt_in_doubt() {
    let mut receipt = remembered(&[1], Some(Duration::from_secs(200)));
    receipt.admit(attempt(2), Admission { memory: Some(MEMORY), ..admission(2) });
    let expected = Step::Rerun { from: UnixMillis(2000), until: UnixMillis(101_000) };
    assert_eq!(step(&remembers(), &receipt, UnixMillis(3000), 1), expected);
}

#[test]
fn an_attempt_without_a_promise_is_not_rerun_whatever_the_route_says_now() {
    let mut receipt = remembered(&[1], None);
    receipt.admit(attempt(2), Admission { memory: Some(MEMORY), ..admission(2) });
    assert_eq!(step(&remembers(), &receipt, UnixMillis(3000), 1), Step::Park);
    receipt.rule(verdict(Ruling::NotDone, &[1], operator()));
    assert!(matches!(step(&remembers(), &receipt, UnixMillis(9000), 1), Step::Rerun { .. }), "a decided one does not matter");
}

#[test]
fn an_attempt_under_an_older_key_is_not_rerun_under_a_newer() {
    let mut receipt = remembered(&[1], Some(MEMORY));
    receipt.admit(attempt(2), Admission { memory: Some(MEMORY), key_generation: 1, ..admission(2) });
    assert_eq!(step(&remembers(), &receipt, UnixMillis(3000), 1), Step::Park);
}

#[test]
fn a_new_key_begins_a_new_memory() {
    let mut receipt = remembered(&[1], Some(MEMORY));
    receipt.learn(attempt(1), no_effect());
    receipt.admit(attempt(2), Admission { memory: Some(MEMORY), key_generation: 1, at: UnixMillis(800_000), ..admission(2) });
    let expected = Step::Rerun { from: UnixMillis(800_000), until: UnixMillis(1_700_000) };
    assert_eq!(step(&remembers(), &receipt, UnixMillis(1_000_000), 1), expected);
}

#[test]
fn a_memory_within_its_margin_allows_no_rerun() {
    let receipt = remembered(&[1], Some(Duration::from_secs(100)));
    assert_eq!(step(&remembers(), &receipt, UnixMillis(1000), 0), Step::Park);
}

#[test]
fn the_margin_covers_a_living_future_and_its_last_request() {
    let policy = Policy { detached_max: Duration::from_secs(300), ..remembers() };
    assert_eq!(policy.margin_min(), Duration::from_secs(310));
    assert!(Policy::default().margin >= Policy::default().margin_min());
}

#[test]
fn the_quiet_period_starts_when_the_future_ends() {
    assert_eq!(quiet_until(Future::Alive, QUIET), None);
    assert_eq!(quiet_until(Future::FactPending, QUIET), None);
    assert_eq!(quiet_until(Future::EndedAt(Monotonic(5)), QUIET), Some(Monotonic(10_005)));
}

#[test]
fn only_a_lookup_that_started_after_an_attempts_quiet_period_proves_its_absence() {
    let futures = |id: receipted::protocol::note::AttemptId| match id.number {
        1 => Future::EndedAt(Monotonic(0)),
        2 => Future::EndedAt(Monotonic(1)),
        3 => Future::Alive,
        _ => Future::FactPending,
    };
    let all = attempts(&[1, 2, 3, 4]);
    assert_eq!(provable(&all, futures, QUIET, Monotonic(9_999)), attempts(&[]));
    assert_eq!(provable(&all, futures, QUIET, Monotonic(10_000)), attempts(&[1]));
    assert_eq!(provable(&all, futures, QUIET, Monotonic(u64::MAX)), attempts(&[1, 2]));
}

#[test]
fn nobody_says_not_done_or_rejected_while_a_future_lives_or_its_fact_is_on_the_way() {
    for vouched in [Vouched::No, Vouched::CannotLand] {
        for ruling in [Ruling::NotDone, Ruling::Rejected] {
            let asked = |future| may_rule(&ruling, &attempts(&[1]), move |_| future, QUIET, &vouched, Monotonic(u64::MAX));
            assert_eq!(asked(Future::Alive), Err(Refusal::StillRuns { attempt: attempt(1) }));
            assert_eq!(asked(Future::FactPending), Err(Refusal::FactPending { attempt: attempt(1) }));
        }
    }
}

#[test]
fn before_the_quiet_period_is_over_only_who_knows_better_says_not_done() {
    for ruling in [Ruling::NotDone, Ruling::Rejected] {
        let ended = |_| Future::EndedAt(Monotonic(1000));
        let asked = |vouched, now| may_rule(&ruling, &attempts(&[1]), ended, QUIET, &vouched, Monotonic(now));
        let refused = Refusal::Quiet { attempt: attempt(1), left: Duration::from_millis(1) };
        assert_eq!(asked(Vouched::No, 10_999), Err(refused));
        assert_eq!(asked(Vouched::No, 11_000), Ok(()));
        assert_eq!(asked(Vouched::CannotLand, 1000), Ok(()));
    }
}

#[test]
fn a_single_attempt_in_the_way_refuses_the_whole_verdict() {
    let futures = |id: receipted::protocol::note::AttemptId| if id.number == 2 { Future::Alive } else { Future::EndedAt(Monotonic(0)) };
    let asked = may_rule(&Ruling::Rejected, &attempts(&[1, 2]), futures, QUIET, &Vouched::No, Monotonic(u64::MAX));
    assert_eq!(asked, Err(Refusal::StillRuns { attempt: attempt(2) }));
}

#[test]
fn applied_and_reopened_wait_for_nothing() {
    for ruling in [Ruling::Applied(applied("r")), Ruling::Reopened] {
        assert_eq!(may_rule(&ruling, &attempts(&[1]), |_| Future::Alive, QUIET, &Vouched::No, Monotonic(0)), Ok(()));
    }
}

#[test]
fn the_quiet_period_is_the_last_contracts() {
    assert_eq!(remembers().contract.quiet(), QUIET);
    assert_eq!(remembers().contract.last(), &Contract::Ask { quiet: QUIET });
    assert_eq!(remembers().contract.memory(), Some(MEMORY));
    assert_eq!(Contract::Hold { quiet: QUIET }.memory(), None);
}

#[test]
fn back_off_doubles_up_to_its_maximum_and_never_overflows() {
    let back_off = BackOff { first: Duration::from_millis(100), max: Duration::from_secs(30), ..BackOff::default() };
    let waits: Vec<u128> = [0, 1, 2, 3, 9, 10, 32, 33, 34, u32::MAX].map(|used| back_off.wait(used).as_millis()).to_vec();
    assert_eq!(waits, [100, 100, 200, 400, 25_600, 30_000, 30_000, 30_000, 30_000, 30_000]);
}
