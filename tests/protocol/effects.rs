//! How often the world changed: certain and suspected effects.

use super::build::*;
use receipted::protocol::note::{Author, Fact, Ruling};

fn extra(receipt: &receipted::protocol::receipt::Receipt) -> (usize, usize) {
    (receipt.effects().extra_certain(), receipt.effects().extra_suspected())
}

#[test]
fn two_references_are_a_certain_duplicate() {
    let mut receipt = admitted(&[1, 2]);
    receipt.learn(attempt(1), Fact::Applied(applied("a")));
    assert_eq!(extra(&receipt), (0, 0));
    receipt.learn(attempt(2), Fact::Applied(applied("b")));
    assert_eq!(extra(&receipt), (1, 0));
}

#[test]
fn the_same_reference_twice_is_one_effect() {
    let mut receipt = admitted(&[1, 2]);
    receipt.learn(attempt(1), Fact::Applied(applied("a")));
    receipt.learn(attempt(2), Fact::Applied(already("a")));
    receipt.rule(verdict(Ruling::Applied(applied("a")), &[1, 2], Author::Reconcile));
    assert_eq!(extra(&receipt), (0, 0));
}

#[test]
fn two_attempts_without_reference_are_a_suspected_duplicate() {
    let mut receipt = admitted(&[1, 2]);
    receipt.learn(attempt(1), Fact::Applied(applied("")));
    assert_eq!(extra(&receipt), (0, 0));
    receipt.learn(attempt(2), Fact::Applied(applied("")));
    assert_eq!(extra(&receipt), (0, 1));
}

#[test]
fn an_attempt_without_reference_beside_a_named_one_is_suspected() {
    let mut receipt = admitted(&[1, 2, 3]);
    receipt.learn(attempt(1), Fact::Applied(applied("a")));
    receipt.learn(attempt(2), Fact::Applied(applied("")));
    assert_eq!(extra(&receipt), (0, 1));
    receipt.learn(attempt(3), Fact::Applied(applied("b")));
    assert_eq!(extra(&receipt), (1, 1));
}

#[test]
fn an_already_without_reference_made_no_effect_of_its_own() {
    let mut receipt = admitted(&[1, 2]);
    receipt.learn(attempt(2), Fact::Applied(already("")));
    receipt.learn(attempt(1), Fact::Applied(applied("late")));
    assert_eq!(extra(&receipt), (0, 0));
}

#[test]
fn a_found_reference_and_the_late_success_without_one_are_the_same_effect() {
    let mut receipt = admitted(&[1]);
    receipt.rule(verdict(Ruling::Applied(applied("a")), &[1], Author::Reconcile));
    receipt.learn(attempt(1), Fact::Applied(applied("")));
    assert_eq!(extra(&receipt), (0, 0));
}

#[test]
fn one_found_reference_does_not_explain_two_successes_without_one() {
    let mut receipt = admitted(&[1, 2]);
    receipt.rule(verdict(Ruling::Applied(applied("a")), &[1, 2], Author::Reconcile));
    receipt.learn(attempt(1), Fact::Applied(applied("")));
    receipt.learn(attempt(2), Fact::Applied(applied("")));
    assert_eq!(extra(&receipt), (0, 1));
    receipt.rule(verdict(Ruling::Applied(applied("b")), &[1, 2], Author::Reconcile));
    assert_eq!(extra(&receipt), (1, 0), "the second is found too");
}
