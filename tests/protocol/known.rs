//! The writer's judgement of an entry, what may be ruled at all, and the life of park notes.

use super::build::*;
use receipted::protocol::{
    known::{Entry, Judgement, Known, Revision, fits},
    note::{Author, DoubtReason, Fact, Ruling},
    park::{End, EndKind, ParkReason},
    receipt::State,
    time::UnixMillis,
};

const NOW: UnixMillis = UnixMillis(50_000);

fn judged(known: &mut Known, entry: &Entry) -> Judgement {
    known.judge(entry, NOW)
}

fn end(kind: EndKind) -> End {
    End { kind, by: Some(operator()), reason: "asked for".into(), at: NOW }
}

fn end_entry(seen: Option<Revision>, offset: i64) -> Entry {
    Entry::End { key: Some(KEY), seen, park: park_id(offset, 1), end: end(EndKind::Discarded) }
}

#[test]
fn of_two_admissions_on_one_state_the_second_is_lost() {
    let mut known = Known::default();
    let seen = known.revision();
    assert_eq!(judged(&mut known, &admit_entry(seen, 1)), Judgement::Added);
    let before = known.clone();
    let mut other = admission(1);
    other.slot = slot(9);
    let other = Entry::Admit { key: KEY, name: None, seen, attempt: attempt(1), admission: Box::new(other), within: None };
    assert_eq!(judged(&mut known, &other), Judgement::Lost);
    assert_eq!(known, before, "a lost entry adds nothing");
}

#[test]
fn c37_an_admission_is_recognised_as_its_own_when_its_answer_was_lost() {
    let mut known = Known::default();
    let entry = admit_entry(known.revision(), 1);
    assert_eq!(judged(&mut known, &entry), Judgement::Added);
    assert_eq!(judged(&mut known, &entry), Judgement::Repeated);
}

#[test]
fn a_taken_attempt_number_is_lost_even_on_the_right_state() {
    let mut known = Known::default();
    judged(&mut known, &admit_entry(Revision(0), 1));
    let mut other = admission(1);
    other.slot = slot(9);
    let entry =
        Entry::Admit { key: KEY, name: None, seen: known.revision(), attempt: attempt(1), admission: Box::new(other), within: None };
    assert_eq!(judged(&mut known, &entry), Judgement::Lost);
}

/// Another attempt, under a number that nobody took: what it rests on has changed all the same.
#[test]
fn an_admission_stands_only_on_the_state_that_it_was_decided_on() {
    let mut known = Known::default();
    judged(&mut known, &admit_entry(Revision(0), 1));
    judged(&mut known, &fact_entry(1, no_effect()));
    let before = known.clone();
    for seen in [Revision(0), Revision(1), Revision(3)] {
        assert_eq!(judged(&mut known, &admit_entry(seen, 2)), Judgement::Lost, "{seen:?} of {:?}", before.revision());
    }
    assert_eq!(known, before);
    assert_eq!(judged(&mut known, &admit_entry(before.revision(), 2)), Judgement::Added);
}

#[test]
fn the_memory_is_checked_again_when_the_admission_is_written() {
    for (now, expected) in [(49, Judgement::Lost), (50, Judgement::Added), (99, Judgement::Added), (100, Judgement::Lost)] {
        let mut known = Known::default();
        let within = Some((UnixMillis(50), UnixMillis(100)));
        let entry =
            Entry::Admit { key: KEY, name: None, seen: Revision(0), attempt: attempt(1), admission: Box::new(admission(1)), within };
        assert_eq!(known.judge(&entry, UnixMillis(now)), expected, "at {now}");
    }
}

#[test]
fn facts_and_doubts_always_stand() {
    let mut known = known(admitted(&[1]));
    assert_eq!(judged(&mut known, &doubt_entry(1, DoubtReason::Timeout)), Judgement::Added);
    assert_eq!(judged(&mut known, &fact_entry(1, no_effect())), Judgement::Added);
    assert_eq!(judged(&mut known, &fact_entry(1, no_effect())), Judgement::Repeated);
    assert_eq!(judged(&mut known, &doubt_entry(1, DoubtReason::Crash)), Judgement::Repeated, "the first reason stays");
}

#[test]
fn a_verdict_cannot_cover_what_its_author_did_not_see() {
    for ruling in [Ruling::NotDone, Ruling::Rejected, Ruling::Reopened] {
        for by in [Author::Reconcile, operator()] {
            let mut known = known(admitted(&[1]));
            let seen = known.revision();
            judged(&mut known, &fact_entry(1, Fact::Applied(applied("r"))));
            assert_eq!(judged(&mut known, &rule_entry(seen, verdict(ruling.clone(), &[1], by))), Judgement::Lost);
        }
    }
}

#[test]
fn what_a_lookup_found_is_evidence_and_stands_on_any_state() {
    let mut known = known(admitted(&[1]));
    let seen = known.revision();
    for (reference, expected) in [("a", Judgement::Added), ("b", Judgement::Added), ("b", Judgement::Repeated)] {
        let found = verdict(Ruling::Applied(applied(reference)), &[1], Author::Reconcile);
        assert_eq!(judged(&mut known, &rule_entry(seen, found)), expected);
    }
    assert_eq!(known.receipt.effects().extra_certain(), 1, "a second reference is not lost to the first");
    let ruled = verdict(Ruling::Applied(applied("c")), &[1], operator());
    assert_eq!(judged(&mut known, &rule_entry(seen, ruled)), Judgement::Lost, "a person is told that the state has changed");
}

#[test]
fn a_note_cannot_outlive_the_settlement_that_it_missed() {
    let mut known = known(admitted(&[1]));
    let entry = park_entry(&known, 3, ParkReason::Unresolved);
    judged(&mut known, &fact_entry(1, Fact::Applied(applied("r"))));
    assert_eq!(judged(&mut known, &entry), Judgement::Lost);
    assert_eq!(known.open_parks().count(), 0);
}

#[test]
fn a_park_note_is_written_once_and_its_number_is_taken() {
    let mut known = known(admitted(&[1]));
    let entry = park_entry(&known, 3, ParkReason::Unresolved);
    assert_eq!(judged(&mut known, &entry), Judgement::Added);
    assert_eq!(judged(&mut known, &entry), Judgement::Repeated);
    let Entry::Park { id, payload, .. } = entry else { unreachable!() };
    let park = std::sync::Arc::new(park(ParkReason::Retry));
    let other = Entry::Park { seen: Some(known.revision()), id, park, payload };
    assert_eq!(judged(&mut known, &other), Judgement::Lost);
    assert_eq!(known.next_park(&slot(3)), 2);
    assert_eq!(known.next_park(&slot(4)), 1);
}

#[test]
fn a_hold_stands_only_on_the_state_that_it_saw_and_counts_a_slot_once() {
    let mut known = known(admitted(&[1]));
    let entry = park_entry(&known, 3, ParkReason::Unresolved);
    judged(&mut known, &entry);
    let hold =
        |seen| Entry::Hold { key: KEY, seen, park: park_id(3, 1), slot: slot(5), record: receipted::protocol::park::RecordDigest([9; 16]) };
    let seen = known.revision();
    assert_eq!(judged(&mut known, &hold(seen)), Judgement::Added);
    assert_eq!(judged(&mut known, &hold(seen)), Judgement::Lost);
    let seen = known.revision();
    assert_eq!(judged(&mut known, &hold(seen)), Judgement::Repeated);
    assert_eq!(known.held[&park_id(3, 1)].len(), 1);
}

#[test]
fn notes_that_follow_the_operation_end_with_whatever_settles_it() {
    type Cause = (&'static str, fn(&Known) -> Entry);
    let causes: [Cause; 3] = [
        ("fact", |_| fact_entry(1, Fact::Applied(applied("r")))),
        ("rejection", |_| fact_entry(1, rejected())),
        ("verdict", |known| rule_entry(known.revision(), verdict(Ruling::Rejected, &[1], operator()))),
    ];
    for (name, cause) in causes {
        for reason in ParkReason::ALL {
            let mut known = known(admitted(&[1]));
            let entry = park_entry(&known, 3, reason);
            judged(&mut known, &entry);
            let entry = cause(&known);
            judged(&mut known, &entry);
            assert_eq!(known.open_parks().count() == 0, reason.follows_operation(), "{name} {reason:?}");
            if let Some(end) = known.ends.get(&park_id(3, 1)) {
                assert_eq!((&end.kind, end.by.is_some()), (&EndKind::Settled, name == "verdict"));
            }
        }
    }
}

#[test]
fn a_note_stays_open_while_its_operation_is_in_doubt_or_retryable() {
    let mut known = known(admitted(&[1, 2]));
    let entry = park_entry(&known, 3, ParkReason::Unresolved);
    judged(&mut known, &entry);
    judged(&mut known, &fact_entry(2, rejected()));
    assert_eq!(known.open_parks().count(), 1, "rejected with attempt 1 in doubt settles nothing");
    judged(&mut known, &fact_entry(1, no_effect()));
    assert_eq!(known.open_parks().count(), 0);
}

#[test]
fn a_note_that_was_parked_on_a_settled_operation_ends_at_once() {
    let mut receipt = admitted(&[1]);
    receipt.learn(attempt(1), Fact::Applied(applied("r")));
    let mut known = known(receipt);
    let entry = park_entry(&known, 3, ParkReason::Retry);
    judged(&mut known, &entry);
    assert_eq!(known.open_parks().count(), 0);
}

#[test]
fn a_discard_is_lost_when_the_record_has_begun_to_run() {
    let mut known = known(admitted(&[1]));
    let entry = park_entry(&known, 3, ParkReason::Unresolved);
    judged(&mut known, &entry);
    judged(&mut known, &fact_entry(1, no_effect()));
    let seen = known.revision();
    judged(&mut known, &admit_entry(seen, 2));
    assert_eq!(judged(&mut known, &end_entry(Some(seen), 3)), Judgement::Lost);
    assert_eq!(known.open_parks().count(), 1);
    assert_eq!(judged(&mut known, &end_entry(None, 3)), Judgement::Added, "the runner's own end always stands");
    assert_eq!(judged(&mut known, &end_entry(None, 3)), Judgement::Repeated);
}

#[test]
fn a_repeat_is_held_by_an_open_note_with_the_same_parameters_only() {
    let mut known = known(admitted(&[1]));
    for reason in [ParkReason::Conflict, ParkReason::Unresolved] {
        let entry = park_entry(&known, 3, reason);
        judged(&mut known, &entry);
    }
    assert_eq!(known.holder(PRINT), Some(&park_id(3, 2)));
    assert_eq!(known.holder(OTHER_PRINT), None);
    let end = Entry::End { key: Some(KEY), seen: None, park: park_id(3, 2), end: end(EndKind::DeadLettered) };
    judged(&mut known, &end);
    assert_eq!(known.holder(PRINT), None);
}

#[test]
fn rejected_must_cover_every_attempt_in_doubt_and_not_done_need_not() {
    let receipt = admitted(&[1, 2]);
    let asked = |ruling: Ruling, numbers: &[u32]| fits(&receipt, &ruling, &attempts(numbers), &operator()).is_ok();
    assert!(!asked(Ruling::Rejected, &[1]) && asked(Ruling::Rejected, &[1, 2]));
    assert!(asked(Ruling::NotDone, &[1]) && asked(Ruling::Applied(applied("r")), &[2]));
    assert!(!asked(Ruling::NotDone, &[]) && !asked(Ruling::NotDone, &[3]) && !asked(Ruling::Rejected, &[1, 2, 3]));
}

#[test]
fn reopened_takes_back_exactly_the_rejections_that_stand() {
    let mut receipt = admitted(&[1, 2]);
    receipt.learn(attempt(1), rejected());
    receipt.learn(attempt(2), rejected());
    let asked = |numbers: &[u32]| fits(&receipt, &Ruling::Reopened, &attempts(numbers), &operator()).is_ok();
    assert!(asked(&[1, 2]));
    assert!(!asked(&[1]) && !asked(&[]) && !asked(&[1, 2, 3]), "an attempt to come must not be decided beforehand");
    let mut done = admitted(&[1]);
    done.learn(attempt(1), Fact::Applied(applied("r")));
    assert!(fits(&done, &Ruling::Reopened, &attempts(&[1]), &operator()).is_err(), "an applied is never reopened");
}

#[test]
fn an_effect_that_a_person_finds_after_all_settles_a_retryable_operation_and_no_other_word_does() {
    let mut receipt = admitted(&[1]);
    receipt.learn(attempt(1), no_effect());
    assert_eq!(receipt.state(), State::Retryable);
    for ruling in [Ruling::NotDone, Ruling::Rejected] {
        assert!(fits(&receipt, &ruling, &attempts(&[]), &operator()).is_err(), "{ruling:?}");
    }
    let found = Ruling::Applied(applied("r"));
    assert!(fits(&receipt, &found, &attempts(&[]), &operator()).is_ok());
    receipt.rule(verdict(found, &[], operator()));
    assert_eq!(receipt.state().label(), "applied");
    assert!(!receipt.is_disputed(), "the attempt spoke of itself, and the person of the key");
    assert!(fits(&admitted(&[]), &Ruling::Applied(applied("r")), &attempts(&[]), &operator()).is_err(), "nothing is known of a new one");
}

#[test]
fn a_settled_retryable_or_new_operation_takes_no_verdict_of_a_person_about_its_attempts() {
    let [mut done, mut refused, mut again] = [admitted(&[1]), admitted(&[1]), admitted(&[1])];
    done.learn(attempt(1), Fact::Applied(applied("r")));
    refused.learn(attempt(1), rejected());
    again.learn(attempt(1), no_effect());
    for receipt in [done, refused, again, admitted(&[])] {
        for ruling in [Ruling::Applied(applied("s")), Ruling::NotDone, Ruling::Rejected] {
            assert!(fits(&receipt, &ruling, &attempts(&[1]), &operator()).is_err(), "{ruling:?} on {}", receipt.state().label());
        }
    }
}

#[test]
fn a_second_look_may_find_after_not_done() {
    let mut receipt = admitted(&[1]);
    receipt.rule(verdict(Ruling::NotDone, &[1], Author::Reconcile));
    assert_eq!(receipt.state(), State::Retryable);
    assert!(fits(&receipt, &Ruling::Applied(applied("r")), &attempts(&[1]), &Author::Reconcile).is_ok());
}

#[test]
fn a_second_not_done_of_the_lookup_confirms_the_first_once() {
    for first in [verdict(Ruling::NotDone, &[1], Author::Reconcile), verdict(Ruling::NotDone, &[1], operator())] {
        let mut receipt = admitted(&[1]);
        receipt.rule(first);
        assert_eq!(receipt.unconfirmed(), attempts(&[1]));
        let asked = |receipt: &_, by| fits(receipt, &Ruling::NotDone, &attempts(&[1]), &by).is_ok();
        assert!(asked(&receipt, Author::Reconcile) && !asked(&receipt, operator()));
        let mut again = verdict(Ruling::NotDone, &[1], Author::Reconcile);
        again.at = UnixMillis(10_000);
        receipt.rule(again);
        assert_eq!(receipt.unconfirmed(), attempts(&[]));
        assert!(!asked(&receipt, Author::Reconcile));
        assert_eq!(receipt.state(), State::Retryable);
    }
}

#[test]
fn what_the_attempt_said_itself_or_was_found_needs_no_confirmation() {
    let mut receipt = admitted(&[1, 2, 3]);
    receipt.rule(verdict(Ruling::NotDone, &[1, 2, 3], operator()));
    receipt.learn(attempt(1), no_effect());
    receipt.rule(verdict(Ruling::Applied(applied("r")), &[2], Author::Reconcile));
    assert_eq!(receipt.unconfirmed(), attempts(&[3]));
}

#[test]
fn an_attempt_in_doubt_beside_an_applied_one_may_still_be_settled() {
    let mut receipt = admitted(&[1, 2]);
    receipt.learn(attempt(2), Fact::Applied(applied("r")));
    for by in [operator(), Author::Reconcile] {
        let asked = |ruling: Ruling, numbers: &[u32]| fits(&receipt, &ruling, &attempts(numbers), &by).is_ok();
        assert!(asked(Ruling::NotDone, &[1]) && asked(Ruling::Applied(applied("s")), &[1]));
        assert!(!asked(Ruling::Rejected, &[1]) && !asked(Ruling::NotDone, &[2]));
    }
}
