//! The state function, line by line (DESIGN 3).

use super::build::*;
use receipted::protocol::{
    note::{Author, DoubtReason, Fact, Ruling, Verdict},
    policy::FreshKey,
    receipt::{Receipt, State},
    time::UnixMillis,
};

#[test]
fn nothing_known_is_new() {
    let mut receipt = Receipt::default();
    assert_eq!(receipt.state(), State::New);
    receipt.doubt(attempt(1), doubt(DoubtReason::Crash));
    assert_eq!(receipt.state(), State::New, "a doubt alone changes no state");
}

#[test]
fn line_1_applied_holds_whatever_else_is_known() {
    let mut receipt = admitted(&[1, 2, 3]);
    receipt.learn(attempt(1), rejected());
    receipt.rule(verdict(Ruling::Rejected, &[3], operator()));
    receipt.learn(attempt(2), Fact::Applied(applied("r2")));
    assert_eq!(receipt.state(), State::Applied(&applied("r2")));
}

#[test]
fn line_1_applied_by_verdict_is_as_good_as_by_fact() {
    for by in [Author::Reconcile, operator()] {
        let mut receipt = admitted(&[1]);
        receipt.rule(verdict(Ruling::Applied(applied("r1")), &[1], by));
        assert_eq!(receipt.state(), State::Applied(&applied("r1")));
    }
}

#[test]
fn line_1_the_answer_is_the_first_effects_and_not_an_already() {
    let mut receipt = admitted(&[1, 2]);
    receipt.learn(attempt(1), Fact::Applied(already("a")));
    receipt.learn(attempt(2), Fact::Applied(applied("b")));
    assert_eq!(receipt.applied(), Some(&applied("b")));
}

#[test]
fn line_2_an_admitted_attempt_without_fact_is_in_doubt() {
    let receipt = admitted(&[1]);
    assert_eq!(receipt.state(), State::InDoubt(attempts(&[1])));
}

#[test]
fn line_2_attempt_2_rejects_while_attempt_1_is_in_doubt() {
    let mut receipt = admitted(&[1, 2]);
    receipt.learn(attempt(2), rejected());
    assert_eq!(receipt.state(), State::InDoubt(attempts(&[1])), "it may have been rejected because of attempt 1");
    receipt.learn(attempt(1), no_effect());
    assert!(matches!(receipt.state(), State::Rejected(_)));
}

#[test]
fn line_2_no_effect_of_attempt_2_says_nothing_about_attempt_1() {
    for fact in [no_effect(), Fact::NotStarted] {
        let mut receipt = admitted(&[1, 2]);
        receipt.learn(attempt(2), fact);
        assert_eq!(receipt.state(), State::InDoubt(attempts(&[1])));
    }
}

#[test]
fn line_2_a_verdict_covers_only_the_attempts_that_it_names() {
    let mut receipt = admitted(&[1, 2]);
    receipt.rule(verdict(Ruling::NotDone, &[1], operator()));
    assert_eq!(receipt.state(), State::InDoubt(attempts(&[2])));
    receipt.rule(verdict(Ruling::Rejected, &[2], operator()));
    assert!(matches!(receipt.state(), State::Rejected(_)));
}

#[test]
fn line_2_reopened_alone_says_nothing_about_an_attempt() {
    let mut receipt = admitted(&[1]);
    receipt.rule(verdict(Ruling::Reopened, &[1], operator()));
    assert_eq!(receipt.state(), State::InDoubt(attempts(&[1])));
}

#[test]
fn line_3_rejected_stands_once_no_attempt_is_in_doubt() {
    let mut receipt = admitted(&[1, 2]);
    receipt.learn(attempt(1), no_effect());
    receipt.learn(attempt(2), rejected());
    assert_eq!(receipt.state(), State::Rejected("over the limit"));
    assert_eq!(receipt.rejected(), attempts(&[2]));
}

#[test]
fn line_3_a_reopened_rejection_does_not_stand() {
    let mut receipt = admitted(&[1]);
    receipt.learn(attempt(1), rejected());
    receipt.rule(verdict(Ruling::Reopened, &[1], operator()));
    assert_eq!(receipt.state(), State::Retryable);
    assert!(receipt.is_reopened());
    receipt.admit(attempt(2), admission(2));
    receipt.learn(attempt(2), rejected());
    assert!(matches!(receipt.state(), State::Rejected(_)), "a later rejection stands again");
    assert!(!receipt.is_reopened());
}

#[test]
fn line_4_certain_absence_of_every_attempt_is_retryable() {
    let mut receipt = admitted(&[1, 2, 3]);
    receipt.learn(attempt(1), no_effect());
    receipt.learn(attempt(2), Fact::NotStarted);
    receipt.rule(verdict(Ruling::NotDone, &[3], Author::Reconcile));
    assert_eq!(receipt.state(), State::Retryable);
    assert_eq!(receipt.next_number(), 4);
}

#[test]
fn a_late_success_settles_what_was_retryable_or_rejected() {
    for fact in [no_effect(), rejected()] {
        let mut receipt = admitted(&[1, 2]);
        receipt.rule(verdict(Ruling::NotDone, &[1], operator()));
        receipt.learn(attempt(2), fact);
        receipt.learn(attempt(1), Fact::Applied(applied("late")));
        assert_eq!(receipt.state(), State::Applied(&applied("late")));
        assert!(receipt.is_disputed());
    }
}

#[test]
fn a_success_that_contradicts_a_verdict_is_disputed() {
    for ruling in [Ruling::NotDone, Ruling::Rejected] {
        let mut receipt = admitted(&[1]);
        receipt.rule(verdict(ruling.clone(), &[1], operator()));
        assert!(!receipt.is_disputed());
        let mut found = receipt.clone();
        receipt.learn(attempt(1), Fact::Applied(applied("r")));
        assert!(receipt.is_disputed());
        found.rule(verdict(Ruling::Applied(applied("r")), &[1], Author::Reconcile));
        assert!(found.is_disputed());
    }
}

#[test]
fn a_success_of_another_attempt_than_the_denied_one_is_no_dispute() {
    let mut receipt = admitted(&[1, 2]);
    receipt.rule(verdict(Ruling::NotDone, &[1], operator()));
    receipt.learn(attempt(2), Fact::Applied(applied("r")));
    assert!(!receipt.is_disputed());
}

#[test]
fn a_found_speaks_of_the_key_so_that_a_later_no_effect_is_no_dispute() {
    for fact in [no_effect(), rejected()] {
        let mut receipt = admitted(&[1, 2]);
        receipt.rule(verdict(Ruling::Applied(applied("r")), &[1, 2], Author::Reconcile));
        receipt.learn(attempt(2), fact);
        assert!(!receipt.is_disputed());
        assert!(receipt.state().is_settled());
    }
}

#[test]
fn unresolved_counts_doubted_attempts_until_the_operation_is_applied() {
    let mut receipt = admitted(&[1, 2]);
    assert!(receipt.unresolved().is_empty(), "running is not unresolved");
    receipt.doubt(attempt(1), doubt(DoubtReason::Timeout));
    receipt.doubt(attempt(1), doubt(DoubtReason::Crash));
    assert_eq!(receipt.unresolved().into_iter().collect::<Vec<_>>(), [(attempt(1), DoubtReason::Timeout)]);
    receipt.learn(attempt(2), Fact::Applied(applied("r")));
    assert!(receipt.unresolved().is_empty());
    assert_eq!(receipt.undecided(), attempts(&[1]), "superseded, unproved");
}

#[test]
fn the_fingerprint_is_the_first_that_was_compared() {
    use receipted::protocol::fingerprint::Fingerprint;
    let mut receipt = Receipt::default();
    let unchecked = receipted::protocol::note::Admission { fingerprint: Fingerprint::Unchecked, ..admission(1) };
    receipt.admit(attempt(1), unchecked);
    assert_eq!(receipt.fingerprint(), Some(Fingerprint::Unchecked));
    receipt.admit(attempt(2), admission(2));
    assert_eq!(receipt.fingerprint(), Some(PRINT));
}

#[test]
fn the_key_generation_rises_on_the_routes_word_after_a_stated_no_effect() {
    let mut receipt = admitted(&[1]);
    receipt.learn(attempt(1), no_effect());
    assert_eq!(receipt.next_key_generation(FreshKey::Never), 0);
    assert_eq!(receipt.next_key_generation(FreshKey::AfterNoEffect), 1);
    let under_1 = receipted::protocol::note::Admission { key_generation: 1, ..admission(2) };
    receipt.admit(attempt(2), under_1);
    assert_eq!(receipt.next_key_generation(FreshKey::AfterNoEffect), 1, "a rerun keeps the key");
    receipt.learn(attempt(2), Fact::NotStarted);
    assert_eq!(receipt.next_key_generation(FreshKey::AfterNoEffect), 1, "the key was not used");
}

#[test]
fn the_key_generation_never_rises_while_any_attempt_is_in_doubt() {
    let fresh = Verdict { fresh_key: true, ..verdict(Ruling::NotDone, &[1], operator()) };
    let mut receipt = admitted(&[1, 2, 3]);
    receipt.rule(fresh);
    receipt.learn(attempt(2), no_effect());
    assert_eq!(receipt.next_key_generation(FreshKey::AfterNoEffect), 0, "attempt 3 may still be deduplicated by it");
    receipt.rule(verdict(Ruling::NotDone, &[3], operator()));
    assert_eq!(receipt.next_key_generation(FreshKey::Never), 1);
}

#[test]
fn a_new_budget_begins_with_not_done_and_with_another_slot() {
    let mut receipt = admitted(&[1, 2]);
    assert_eq!(receipt.budget_used(&slot(0)), 2);
    assert_eq!(receipt.budget_used(&slot(1)), 0);
    receipt.rule(verdict(Ruling::NotDone, &[1, 2], Author::Reconcile));
    assert_eq!(receipt.budget_used(&slot(0)), 0);
    receipt.admit(attempt(3), admission(3));
    receipt.admit(attempt(4), admission(4));
    receipt.learn(attempt(4), Fact::NotStarted);
    assert_eq!(receipt.budget_used(&slot(0)), 1, "what never started costs nothing");
}

#[test]
fn the_latest_time_is_that_of_any_note() {
    let mut receipt = admitted(&[1, 2]);
    assert_eq!(receipt.latest(), Some(UnixMillis(2000)));
    receipt.rule(verdict(Ruling::NotDone, &[1], operator()));
    assert_eq!(receipt.latest(), Some(UnixMillis(9000)));
}

/// A fact may come before its admission is known here: a late one, or one of another process.
#[test]
fn an_attempts_number_is_used_once_also_where_only_its_fact_is_known() {
    let mut receipt = admitted(&[1]);
    receipt.learn(attempt(4), Fact::NotStarted);
    assert_eq!(receipt.next_number(), 5);
}
