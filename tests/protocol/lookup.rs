//! What a lookup's answer is good for (DESIGN 5).

use super::build::*;
use receipted::protocol::{
    doubt::Future,
    lookup::Look,
    note::{Admission, Applied, AttemptId, Author, Fact, Ruling},
    outcome::Finding,
    receipt::Receipt,
    time::Monotonic,
};
use std::{collections::BTreeSet, time::Duration};

const QUIET: Duration = Duration::from_secs(10);

/// Attempt n ended at millisecond n; attempt 9 lives.
fn future(attempt: AttemptId) -> Future {
    if attempt.number == 9 { Future::Alive } else { Future::EndedAt(Monotonic(attempt.number.into())) }
}

fn look(started: u64) -> Look<fn(AttemptId) -> Future> {
    Look { started: Monotonic(started), future, quiet: QUIET, ruled: Monotonic(500), generation: 0 }
}

fn found(references: &[&str]) -> Finding {
    Finding::Found(references.iter().map(|reference| applied(reference)).collect())
}

fn verdicts(receipt: &Receipt, finding: &Finding, started: u64) -> Vec<(Ruling, BTreeSet<AttemptId>)> {
    look(started).verdicts(receipt, finding)
}

fn is(reference: &str, of: &[u32]) -> (Ruling, BTreeSet<AttemptId>) {
    (Ruling::Applied(applied(reference)), attempts(of))
}

fn not_done(numbers: &[u32]) -> (Ruling, BTreeSet<AttemptId>) {
    (Ruling::NotDone, attempts(numbers))
}

#[test]
fn pending_proves_nothing() {
    assert_eq!(verdicts(&admitted(&[1]), &Finding::Pending, u64::MAX), []);
}

#[test]
fn not_found_proves_the_absence_of_quiet_attempts_only() {
    for finding in [Finding::NotFound, found(&[])] {
        assert_eq!(verdicts(&admitted(&[1, 2, 9]), &finding, 10_000), []);
        assert_eq!(verdicts(&admitted(&[1, 2, 9]), &finding, 10_001), [not_done(&[1])]);
        assert_eq!(verdicts(&admitted(&[1, 2, 9]), &finding, u64::MAX), [not_done(&[1, 2])]);
    }
}

#[test]
fn found_settles_the_one_attempt_in_doubt_at_once() {
    assert_eq!(verdicts(&admitted(&[9]), &found(&["a"]), 0), [is("a", &[9])]);
}

#[test]
fn found_settles_several_attempts_only_where_no_other_effect_can_land() {
    let receipt = admitted(&[1, 2]);
    assert_eq!(verdicts(&receipt, &found(&["a"]), 10_001), [is("a", &[])], "attempt 2 may still land, and whose it is nobody can tell");
    assert_eq!(verdicts(&receipt, &found(&["a"]), 10_002), [is("a", &[1, 2])]);
    assert_eq!(verdicts(&receipt, &found(&["a", "b"]), 0), [is("a", &[1, 2]), is("b", &[1, 2])], "one for each");
}

#[test]
fn attempts_beside_a_known_effect_are_settled_by_it_once_all_are_quiet() {
    let mut receipt = admitted(&[1, 2]);
    receipt.rule(verdict(Ruling::Applied(applied("a")), &[], Author::Reconcile));
    assert_eq!(verdicts(&receipt, &found(&["a"]), 10_001), []);
    assert_eq!(verdicts(&receipt, &found(&["a"]), 10_002), [is("a", &[1, 2])]);
    assert_eq!(verdicts(&receipt, &found(&["a", "b"]), 10_001), [is("b", &[])], "a duplicate is recorded at once");
}

#[test]
fn an_effect_without_reference_is_new_only_while_none_is_known() {
    let nameless = Finding::Found(vec![Applied { reference: None, ..applied("") }]);
    let mut receipt = admitted(&[1]);
    assert_eq!(verdicts(&receipt, &nameless, 0), [is("", &[1])]);
    receipt.learn(attempt(1), Fact::Applied(applied("a")));
    assert_eq!(verdicts(&receipt, &nameless, u64::MAX), []);
}

#[test]
fn a_second_look_confirms_once_all_is_quiet_and_as_long_has_passed_since_the_verdict() {
    let mut receipt = admitted(&[1, 2]);
    receipt.rule(verdict(Ruling::NotDone, &[1], Author::Reconcile));
    receipt.learn(attempt(2), no_effect());
    assert_eq!(verdicts(&receipt, &Finding::NotFound, 10_499), []);
    assert_eq!(verdicts(&receipt, &Finding::NotFound, 10_500), [not_done(&[1])]);
    receipt.admit(attempt(9), admission(9));
    assert_eq!(verdicts(&receipt, &Finding::NotFound, u64::MAX), [], "attempt 9 runs");
    receipt.learn(attempt(9), Fact::Applied(applied("a")));
    assert_eq!(verdicts(&receipt, &found(&["a"]), u64::MAX), [not_done(&[1])]);
}

#[test]
fn a_second_look_that_finds_records_it_against_the_verdict() {
    let mut receipt = admitted(&[1, 2]);
    receipt.rule(verdict(Ruling::NotDone, &[1], operator()));
    receipt.learn(attempt(2), Fact::Applied(applied("b")));
    let seen = verdicts(&receipt, &found(&["a", "b"]), 0);
    assert_eq!(seen, [is("a", &[1])]);
    receipt.rule(verdict(seen[0].0.clone(), &[1], Author::Reconcile));
    assert!(receipt.is_disputed());
    assert_eq!(receipt.effects().extra_certain(), 1);
    assert_eq!(receipt.unconfirmed(), attempts(&[]));
}

#[test]
fn a_lookup_says_nothing_of_attempts_under_another_key() {
    let mut receipt = admitted(&[1]);
    receipt.rule(verdict(Ruling::NotDone, &[1], operator()));
    receipt.admit(attempt(2), Admission { key_generation: 1, ..admission(2) });
    assert_eq!(verdicts(&receipt, &Finding::NotFound, u64::MAX), [not_done(&[1])], "the confirmation of the first alone");
    let under_1 = Look { generation: 1, ..look(u64::MAX) };
    assert_eq!(under_1.verdicts(&receipt, &Finding::NotFound), [not_done(&[2])]);
}

#[test]
fn an_effect_found_after_two_denials_covers_neither_until_both_are_quiet() {
    let mut receipt = admitted(&[1, 2]);
    receipt.rule(verdict(Ruling::NotDone, &[1, 2], operator()));
    assert_eq!(verdicts(&receipt, &found(&["a"]), 10_001), [is("a", &[])]);
    assert_eq!(verdicts(&receipt, &found(&["a"]), 10_500), [is("a", &[1, 2])]);
}

/// However often somebody was wrong about the first attempt.
#[test]
fn an_effect_that_may_be_a_denied_attempts_settles_another_only_once_that_is_quiet() {
    for times in 1..=2 {
        let mut receipt = admitted(&[1, 2]);
        (0..times).for_each(|time| receipt.rule(verdict(Ruling::NotDone, &[1], if time == 0 { operator() } else { Author::Reconcile })));
        assert_eq!(verdicts(&receipt, &found(&["a"]), 10_001), [is("a", &[])], "denied {times} times: attempt 2 may still land");
        assert_eq!(verdicts(&receipt, &found(&["a"]), 10_002), [is("a", &[2])]);
        assert_eq!(verdicts(&receipt, &found(&["a", "b"]), 0), [is("a", &[2]), is("b", &[2])], "one for each");
    }
}
