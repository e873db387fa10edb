//! What a person may do, and when not (DESIGN 5): settle, dead-letter, discard.

use super::build::*;
use receipted::protocol::{
    doubt::{Future, Refusal},
    key::KeyDigest,
    known::{Entry, Known},
    note::{Admission, AttemptId, Author, DoubtReason, Fact, Ruling, Verdict},
    park::{Closing, EndKind, Openness, Park, ParkReason, SlotNotes},
    policy::FreshKey,
    receipt::{Receipt, State},
    refused::Refused,
    settle::{Act, AttemptName, Change, Decided, Next, Scene, Settle, Settlement, Target, changed, decide},
    time::{Monotonic, Now, UnixMillis},
};
use std::{sync::Arc, time::Duration};

const QUIET: Duration = Duration::from_secs(10);
/// The quiet period of a future that ended at zero is over.
const LATER: Now = Now { monotonic: Monotonic(10_000), wall: UnixMillis(77_000) };

fn settle(outcome: Settlement) -> Settle {
    Settle { key: KEY, outcome, attempts: None, cannot_land_any_more: None, fresh_key: false }
}

fn applied_under(reference: &str) -> Settlement {
    Settlement::Applied { reference: reference.into() }
}

fn change(act: Act) -> Change {
    Change { act, by: operator(), reason: "seen in their ledger".into() }
}

fn ended(_: AttemptId) -> Future {
    Future::EndedAt(Monotonic(0))
}

fn decided(known: &Known, act: Act, future: impl Fn(AttemptId) -> Future, now: Now) -> Result<Decided, Refused> {
    decide(&change(act), &Scene { known, slot: &SlotNotes::default(), halted: None, future, quiet: QUIET, now })
}

fn later(known: &Known, act: Act) -> Result<Decided, Refused> {
    decided(known, act, ended, LATER)
}

fn ruled(known: &Known, settle: Settle) -> Result<Verdict, Refused> {
    match later(known, Act::Settle(settle))? {
        Decided::Write(Entry::Rule { verdict, .. }) => Ok(*verdict),
        other => panic!("{other:?}"),
    }
}

/// What the writer makes of a decided change.
fn written(known: &mut Known, settle: Settle) -> Next {
    let Ok(Decided::Write(entry)) = later(known, Act::Settle(settle)) else { panic!("refused") };
    known.judge(&entry, UnixMillis(0));
    changed(&entry, known).next
}

fn in_doubt(numbers: &[u32]) -> Known {
    let mut receipt = admitted(numbers);
    for number in numbers {
        receipt.doubt(attempt(*number), doubt(DoubtReason::Timeout));
    }
    known(receipt)
}

fn parked(mut known: Known, reason: ParkReason) -> Known {
    let entry = park_entry(&known, 0, reason);
    known.judge(&entry, UnixMillis(0));
    known
}

#[test]
fn a_verdict_covers_the_attempt_in_doubt_and_carries_who_why_and_when() {
    let known = in_doubt(&[1]);
    let verdict = ruled(&known, settle(applied_under("ref-1"))).unwrap();
    assert_eq!(verdict.attempts, attempts(&[1]));
    assert_eq!((verdict.by, verdict.reason.as_str(), verdict.at), (operator(), "seen in their ledger", LATER.wall));
    assert!(matches!(verdict.ruling, Ruling::Applied(applied) if applied.reference.as_ref().unwrap().as_str() == "ref-1"));
}

#[test]
fn a_verdict_rests_on_the_state_that_was_seen() {
    let mut known = in_doubt(&[1]);
    let Ok(Decided::Write(entry)) = later(&known, Act::Settle(settle(Settlement::NotDone))) else { panic!("refused") };
    known.receipt.learn(attempt(1), Fact::Applied(applied("late")));
    assert_eq!(known.judge(&entry, UnixMillis(0)), receipted::protocol::known::Judgement::Lost);
}

#[test]
fn each_verdict_leads_where_it_says() {
    let mut known = in_doubt(&[1]);
    assert_eq!(written(&mut known, settle(applied_under("r"))), Next::Settled);
    let mut known = parked(in_doubt(&[1]), ParkReason::Unresolved);
    assert_eq!(written(&mut known, settle(Settlement::NotDone)), Next::RunsAgain(slot(0)));
    let mut known = in_doubt(&[1]);
    assert_eq!(written(&mut known, settle(Settlement::NotDone)), Next::WaitsForRecord);
    let mut known = in_doubt(&[1]);
    assert_eq!(written(&mut known, settle(Settlement::Rejected)), Next::Settled);
    assert_eq!(written(&mut known, settle(Settlement::Reopened)), Next::WaitsForRecord);
    let mut known = in_doubt(&[1, 2]);
    let one = Settle { attempts: Some(vec!["1".parse().unwrap()]), ..settle(Settlement::NotDone) };
    assert_eq!(written(&mut known, one), Next::InDoubt(attempts(&[2])));
}

#[test]
fn applied_needs_a_reference() {
    for reference in ["", "  "] {
        assert_eq!(ruled(&in_doubt(&[1]), settle(applied_under(reference))), Err(Refused::NoReference));
    }
}

#[test]
fn a_negative_verdict_is_refused_while_a_future_lives_and_nobody_can_vouch_against_that() {
    for outcome in [Settlement::NotDone, Settlement::Rejected] {
        for vouched in [None, Some("their system is gone".to_string())] {
            let settle = Settle { cannot_land_any_more: vouched, ..settle(outcome.clone()) };
            let decide = |future| decided(&in_doubt(&[1]), Act::Settle(settle.clone()), |_| future, LATER);
            assert_eq!(decide(Future::Alive), Err(Refusal::StillRuns { attempt: attempt(1) }.into()));
            assert_eq!(decide(Future::FactPending), Err(Refusal::FactPending { attempt: attempt(1) }.into()));
        }
    }
}

#[test]
fn a_negative_verdict_is_refused_before_the_quiet_period_is_over_unless_somebody_vouches() {
    let early = Now { monotonic: Monotonic(9_999), ..LATER };
    for outcome in [Settlement::NotDone, Settlement::Rejected] {
        let refused = decided(&in_doubt(&[1]), Act::Settle(settle(outcome.clone())), ended, early).unwrap_err();
        assert_eq!(refused, Refusal::Quiet { attempt: attempt(1), left: Duration::from_millis(1) }.into());
        assert!(refused.remedy().contains("--cannot-land-any-more"), "{}", refused.remedy());
        let vouched = Settle { cannot_land_any_more: Some("their queue is empty".into()), ..settle(outcome) };
        let Ok(Decided::Write(Entry::Rule { verdict, .. })) = decided(&in_doubt(&[1]), Act::Settle(vouched), ended, early) else {
            panic!("refused although vouched");
        };
        assert_eq!(verdict.reason, "seen in their ledger; cannot land any more: their queue is empty");
    }
}

#[test]
fn applied_is_evidence_and_may_be_said_any_time() {
    let at_once = Now { monotonic: Monotonic(0), ..LATER };
    assert!(decided(&in_doubt(&[1]), Act::Settle(settle(applied_under("r"))), |_| Future::Alive, at_once).is_ok());
}

#[test]
fn a_negative_verdict_names_its_attempts_when_several_are_in_doubt() {
    let known = in_doubt(&[1, 2]);
    for outcome in [Settlement::NotDone, Settlement::Rejected] {
        let refused = ruled(&known, settle(outcome)).unwrap_err();
        assert_eq!(refused, Refused::NameAttempts { in_doubt: attempts(&[1, 2]) });
        assert!(refused.remedy().contains("--attempts 1/1,2/1"), "{}", refused.remedy());
    }
    assert_eq!(ruled(&known, settle(applied_under("r"))).unwrap().attempts, attempts(&[1, 2]));
    let names = |names: &[&str]| Some(names.iter().map(|name| name.parse().unwrap()).collect::<Vec<AttemptName>>());
    let named = |outcome, given: &[&str]| ruled(&known, Settle { attempts: names(given), ..settle(outcome) });
    assert_eq!(named(Settlement::NotDone, &["2/1"]).unwrap().attempts, attempts(&[2]));
    assert!(matches!(named(Settlement::Rejected, &["2"]), Err(Refused::DoesNotFit { .. })), "rejected covers every one");
    assert_eq!(named(Settlement::Rejected, &["1", "2"]).unwrap().attempts, attempts(&[1, 2]));
    assert!(matches!(named(Settlement::NotDone, &["3"]), Err(Refused::NotInDoubt { .. })));
    assert!(matches!(named(Settlement::NotDone, &["1/9"]), Err(Refused::NotInDoubt { .. })));
}

#[test]
fn an_attempt_is_written_as_it_is_listed() {
    assert_eq!("2/7".parse(), Ok(AttemptName { number: 2, claim: Some(7) }));
    assert_eq!("2".parse(), Ok(AttemptName { number: 2, claim: None }));
    assert_eq!(AttemptName::from(attempt(2)).to_string(), "2/1");
    for wrong in ["", "x", "2/", "/7", "2/7/1", "-1"] {
        assert!(wrong.parse::<AttemptName>().is_err(), "{wrong}");
    }
}

#[test]
fn what_is_settled_or_unknown_is_not_settled_again() {
    let mut done = admitted(&[1]);
    done.learn(attempt(1), Fact::Applied(applied("r")));
    let mut failed = admitted(&[1]);
    failed.learn(attempt(1), no_effect());
    assert!(ruled(&known(failed.clone()), settle(applied_under("x"))).is_ok(), "the effect is there after all");
    for (receipt, retryable) in [(done, false), (failed, true), (Receipt::default(), false)] {
        for outcome in [applied_under("x"), Settlement::NotDone, Settlement::Rejected, Settlement::Reopened] {
            let found = retryable && matches!(outcome, Settlement::Applied { .. });
            assert!(found || matches!(ruled(&known(receipt.clone()), settle(outcome)), Err(Refused::DoesNotFit { .. })));
        }
    }
}

#[test]
fn reopened_covers_every_rejection_that_stands() {
    let mut receipt = admitted(&[1, 2]);
    receipt.learn(attempt(1), no_effect());
    receipt.learn(attempt(2), rejected());
    let known = known(receipt);
    assert_eq!(ruled(&known, settle(Settlement::Reopened)).unwrap().attempts, attempts(&[2]));
}

#[test]
fn a_fresh_key_is_only_for_an_operation_that_runs_again_with_nothing_left_in_doubt() {
    let fresh = |outcome| Settle { fresh_key: true, cannot_land_any_more: Some("gone".into()), ..settle(outcome) };
    assert_eq!(ruled(&in_doubt(&[1]), fresh(applied_under("r"))), Err(Refused::FreshKeyUnused));
    assert_eq!(ruled(&in_doubt(&[1]), fresh(Settlement::Rejected)), Err(Refused::FreshKeyUnused));
    let partly = Settle { attempts: Some(vec!["1".parse().unwrap()]), ..fresh(Settlement::NotDone) };
    assert_eq!(ruled(&in_doubt(&[1, 2]), partly), Err(Refused::FreshKeyInDoubt));
    assert!(ruled(&in_doubt(&[1]), fresh(Settlement::NotDone)).unwrap().fresh_key);
}

#[test]
fn a_fresh_key_rests_on_the_attempts_own_words_or_on_somebody_who_vouches() {
    let fresh = Settle { fresh_key: true, ..settle(Settlement::NotDone) };
    assert_eq!(ruled(&in_doubt(&[1]), fresh.clone()), Err(Refused::FreshKeyOnVerdict { attempt: attempt(1) }));
    let mut receipt = admitted(&[1]);
    receipt.learn(attempt(1), no_effect());
    let mut stated = known(receipt);
    assert_eq!(stated.receipt.next_key_generation(FreshKey::Never), 0);
    assert_eq!(written(&mut stated, fresh), Next::WaitsForRecord);
    assert_eq!(stated.receipt.next_key_generation(FreshKey::Never), 1, "the next attempt has a new key");
}

#[test]
fn a_fresh_key_alone_covers_the_attempts_under_the_newest_key() {
    let mut receipt = admitted(&[1]);
    receipt.learn(attempt(1), no_effect());
    receipt.admit(attempt(2), Admission { key_generation: 1, ..admission(2) });
    receipt.learn(attempt(2), no_effect());
    let fresh = Settle { fresh_key: true, ..settle(Settlement::NotDone) };
    assert_eq!(ruled(&known(receipt), fresh).unwrap().attempts, attempts(&[2]));
}

#[test]
fn a_reason_and_a_name_are_needed_and_bounded() {
    let known = in_doubt(&[1]);
    let scene = Scene { known: &known, slot: &SlotNotes::default(), halted: None, future: ended, quiet: QUIET, now: LATER };
    let with = |name: &str, reason: &str, vouched: Option<&str>| {
        let settle = Settle { cannot_land_any_more: vouched.map(String::from), ..settle(Settlement::NotDone) };
        let by = Author::Operator { name: name.into(), uid: 0 };
        decide(&Change { act: Act::Settle(settle), by, reason: reason.into() }, &scene)
    };
    assert!(with("ada", "why", None).is_ok());
    let long = "x".repeat(513);
    for (name, reason, vouched) in [
        ("", "why", None),
        ("ada\n", "why", None),
        ("ada", " ", None),
        ("ada", &*long, None),
        (&*long, "why", None),
        ("ada", "why", Some(&*long)),
    ] {
        assert!(matches!(with(name, reason, vouched), Err(Refused::Text { .. })), "{name:?} {reason:?}");
    }
}

fn by_key() -> Target {
    Target::Operation(KEY)
}

fn discard(with_repeats: Option<usize>) -> Act {
    Act::Discard { target: by_key(), with_repeats }
}

#[test]
fn a_discard_is_refused_while_the_operation_is_in_doubt() {
    let known = parked(in_doubt(&[1]), ParkReason::Unresolved);
    assert_eq!(later(&known, discard(None)), Err(Refused::DiscardInDoubt));
}

fn retryable() -> Known {
    let mut receipt = admitted(&[1]);
    receipt.learn(attempt(1), no_effect());
    known(receipt)
}

#[test]
fn an_operator_who_finds_the_effect_of_a_retryable_operation_settles_it_and_its_parked_record() {
    let known = parked(retryable(), ParkReason::Retry);
    let settle = Settle {
        key: KEY,
        outcome: Settlement::Applied { reference: "r-1".into() },
        attempts: None,
        cannot_land_any_more: None,
        fresh_key: false,
    };
    let Ok(Decided::Write(entry)) = later(&known, Act::Settle(settle)) else { panic!("refused") };
    let mut after = known;
    after.judge(&entry, UnixMillis(0));
    assert_eq!((after.receipt.state().label(), after.open_parks().count()), ("applied", 0));
    assert_eq!(changed(&entry, &after).next, Next::Settled);
}

fn held(mut known: Known, repeats: usize) -> Known {
    for offset in 1..=repeats {
        let seen = known.revision();
        let entry = Entry::Hold { key: KEY, seen, park: park_id(0, 1), slot: slot(i64::try_from(offset).unwrap()), record: RECORD };
        known.judge(&entry, UnixMillis(0));
    }
    known
}

#[test]
fn a_discard_acknowledges_exactly_the_repeats_that_go_with_it() {
    let known = held(parked(retryable(), ParkReason::Retry), 2);
    for with_repeats in [None, Some(1), Some(3)] {
        let refused = later(&known, discard(with_repeats)).unwrap_err();
        assert_eq!(refused, Refused::Repeats { held: 2 });
        assert!(refused.remedy().contains("--with-repeats 2"));
    }
    let Ok(Decided::Write(entry)) = later(&known, discard(Some(2))) else { panic!("refused") };
    let Entry::End { key, seen, park, end } = &entry else { panic!("{entry:?}") };
    assert_eq!((*key, *seen, park.clone()), (Some(KEY), Some(known.revision()), park_id(0, 1)));
    assert_eq!((&end.kind, &end.by, end.at), (&EndKind::Discarded, &Some(operator()), LATER.wall));
    let mut after = known;
    after.judge(&entry, UnixMillis(0));
    assert_eq!(changed(&entry, &after).next, Next::Discarded(2));
    assert_eq!(later(&after, discard(None)), Err(Refused::NoNote));
}

#[test]
fn a_discard_without_repeats_takes_no_acknowledgement() {
    let known = parked(retryable(), ParkReason::Retry);
    assert!(later(&known, discard(None)).is_ok());
    assert_eq!(later(&known, discard(Some(1))), Err(Refused::Repeats { held: 0 }));
}

#[test]
fn a_dead_letter_covers_the_repeats_and_its_end_waits_for_the_topic() {
    let known = held(parked(in_doubt(&[1]), ParkReason::Unresolved), 3);
    let Ok(Decided::DeadLetter { park, note, then }) = later(&known, Act::DeadLetter(by_key())) else { panic!("refused") };
    assert_eq!((park, note.reason), (park_id(0, 1), ParkReason::Unresolved));
    assert!(matches!(&then, Entry::End { end, .. } if end.kind == EndKind::DeadLettered));
    let mut after = known;
    after.judge(&then, UnixMillis(0));
    assert_eq!(changed(&then, &after).next, Next::DeadLettered(3));
    assert!(matches!(after.receipt.state(), State::InDoubt(_)), "the doubt stays and is listed");
}

#[test]
fn a_dead_letter_is_refused_while_an_attempt_runs() {
    let known = parked(in_doubt(&[1]), ParkReason::Unresolved);
    for (future, refusal) in
        [(Future::Alive, Refusal::StillRuns { attempt: attempt(1) }), (Future::FactPending, Refusal::FactPending { attempt: attempt(1) })]
    {
        assert_eq!(decided(&known, Act::DeadLetter(by_key()), |_| future, LATER), Err(refusal.into()));
    }
}

#[test]
fn one_of_several_notes_is_to_be_named() {
    let mut known = parked(retryable(), ParkReason::Retry);
    let second = Entry::Park { seen: None, id: park_id(5, 1), park: Arc::new(park(ParkReason::Conflict)), payload: Arc::default() };
    known.judge(&second, UnixMillis(0));
    let refused = later(&known, discard(None)).unwrap_err();
    assert_eq!(refused, Refused::SeveralNotes { parks: vec![park_id(0, 1), park_id(5, 1)] });
    assert!(refused.remedy().contains("payments/0/0#1 or payments/0/5#1"));
}

fn by_note(number: u32, parked: Option<(u32, Openness)>, note: Park) -> Result<Decided, Refused> {
    let times = parked.map_or(0, |(number, _)| number);
    let parked = parked.map(|(number, openness)| (park_id(0, number), Arc::new(note), openness));
    let slot = SlotNotes { parked, closed: Some((Closing::Discarded, RECORD)), times };
    let act = Act::DeadLetter(Target::Park(park_id(0, number)));
    decide(&change(act), &Scene { known: &Known::default(), slot: &slot, halted: None, future: ended, quiet: QUIET, now: LATER })
}

#[test]
fn a_note_without_an_operation_is_ended_by_its_own_name() {
    let without = || Park { key: None, fingerprint: None, ..park(ParkReason::DeadLetterFailed) };
    let Ok(Decided::DeadLetter { then, .. }) = by_note(2, Some((2, Openness::Open)), without()) else { panic!("refused") };
    assert!(matches!(&then, Entry::End { key: None, seen: None, park, .. } if *park == park_id(0, 2)));
    assert_eq!(changed(&then, &Known::default()).state, "none");
    assert_eq!(by_note(2, Some((2, Openness::Ended)), without()), Err(Refused::NoteEnded { park: park_id(0, 2) }));
    assert_eq!(by_note(1, Some((2, Openness::Open)), without()), Err(Refused::NoteEnded { park: park_id(0, 1) }));
    assert_eq!(by_note(3, Some((2, Openness::Open)), without()), Err(Refused::NoNote));
    assert_eq!(by_note(1, None, without()), Err(Refused::NoNote));
}

#[test]
fn every_refusal_has_a_name_of_its_own_and_a_remedy() {
    let attempt = attempt(1);
    let all = [
        Refused::Text { what: "reason", problem: "is empty", max: 1 },
        Refusal::StillRuns { attempt }.into(),
        Refusal::FactPending { attempt }.into(),
        Refusal::Quiet { attempt, left: QUIET }.into(),
        Refused::DoesNotFit { reason: "x" },
        Refused::NoReference,
        Refused::NameAttempts { in_doubt: attempts(&[1]) },
        Refused::NotInDoubt { name: attempt.into(), in_doubt: attempts(&[]) },
        Refused::FreshKeyInDoubt,
        Refused::FreshKeyUnused,
        Refused::FreshKeyOnVerdict { attempt },
        Refused::NoNote,
        Refused::NotHalted { at: None },
        Refused::ParkedThere { park: park_id(0, 1) },
        Refused::NoPartition,
        Refused::Halted { reason: "x".into() },
        Refused::NoteEnded { park: park_id(0, 1) },
        Refused::SeveralNotes { parks: vec![] },
        Refused::DiscardInDoubt,
        Refused::Repeats { held: 1 },
        Refused::Moved,
        Refused::NotTaken { reason: "x".into() },
        Refused::Unavailable { reason: "x".into() },
    ];
    let names: std::collections::BTreeSet<&str> = all.iter().map(Refused::code).collect();
    assert_eq!(names.len(), all.len());
    assert!(Refused::Repeats { held: 0 }.remedy().contains("none is held"));
    assert!(all.iter().all(|refused| !refused.remedy().is_empty() && !refused.to_string().is_empty()));
}

#[test]
fn a_change_names_its_operation() {
    assert_eq!(change(discard(None)).key(), Some(KEY));
    assert_eq!(change(Act::DeadLetter(Target::Park(park_id(0, 1)))).key(), None);
    let other = KeyDigest([9; 32]);
    assert_eq!(change(Act::Settle(Settle { key: other, ..settle(Settlement::NotDone) })).key(), Some(other));
}
