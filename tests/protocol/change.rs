//! What notes mean to an operator: totals that always add up, and an incident for every duplicate effect.

use super::build::*;
use proptest::prelude::*;
use receipted::protocol::{
    change::{Changes, Incident, Total, Totals, changes},
    known::{Entry, Judgement, Known, Revision},
    note::{Author, DoubtReason, Fact, Ruling},
    park::{End, EndKind, ParkReason},
    time::UnixMillis,
};

const NOW: UnixMillis = UnixMillis(60_000);

/// Judges `entry` and says what it changed.
fn add(known: &mut Known, entry: &Entry) -> Changes {
    let before = known.clone();
    match known.judge(entry, NOW) {
        Judgement::Lost => Changes::default(),
        Judgement::Added | Judgement::Repeated => changes(KEY, &before, known, entry, NOW),
    }
}

fn total(name: Total) -> Totals {
    Totals::from([(name, 1)])
}

fn opened(reason: &'static str) -> Total {
    Total::UnresolvedOpened(reason.into())
}

fn closed(verdict: &'static str, by: &'static str) -> Total {
    Total::UnresolvedClosed(verdict.into(), by.into())
}

fn duplicates(detector: &'static str, certainty: &'static str) -> Total {
    Total::DuplicateEffects(detector.into(), certainty.into())
}

#[test]
fn a_doubt_opens_and_only_its_first_reason_counts() {
    let mut known = known(admitted(&[1]));
    assert_eq!(add(&mut known, &doubt_entry(1, DoubtReason::Timeout)).totals, total(opened("timeout")));
    assert_eq!(add(&mut known, &doubt_entry(1, DoubtReason::Crash)).totals, Totals::default());
}

#[test]
fn a_doubt_about_a_decided_attempt_opens_nothing() {
    let mut known = known(admitted(&[1]));
    add(&mut known, &fact_entry(1, no_effect()));
    assert_eq!(add(&mut known, &doubt_entry(1, DoubtReason::Timeout)).totals, Totals::default());
}

#[test]
fn a_late_fact_a_verdict_and_another_attempts_success_close_under_their_own_names() {
    type Cause = fn(&Known) -> Entry;
    let causes: [(Cause, Total); 5] = [
        (|_| fact_entry(1, no_effect()), closed("no_effect", "late_fact")),
        (|_| fact_entry(1, Fact::Applied(already("r"))), closed("already", "late_fact")),
        (|_| fact_entry(2, Fact::Applied(applied("r"))), closed("applied", "superseded")),
        (|known| rule_entry(known.revision(), verdict(Ruling::NotDone, &[1], operator())), closed("not_done", "operator")),
        (
            |known| rule_entry(known.revision(), verdict(Ruling::Applied(applied("r")), &[1], Author::Reconcile)),
            closed("applied", "reconcile"),
        ),
    ];
    for (cause, expected) in causes {
        let mut known = known(admitted(&[1, 2]));
        add(&mut known, &doubt_entry(1, DoubtReason::Crash));
        let entry = cause(&known);
        assert_eq!(add(&mut known, &entry).totals.get(&expected), Some(&1), "{expected:?}");
    }
}

#[test]
fn a_note_opens_and_closes_under_its_reason() {
    let mut known = known(admitted(&[1]));
    let entry = park_entry(&known, 3, ParkReason::Unresolved);
    assert_eq!(add(&mut known, &entry).totals, total(Total::ParkedOpened("unresolved".into())));
    assert_eq!(add(&mut known, &entry).totals, Totals::default());
    let settled = add(&mut known, &fact_entry(1, Fact::Applied(applied("r"))));
    assert_eq!(settled.totals, total(Total::ParkedClosed("unresolved".into(), "runner".into())));
}

#[test]
fn each_duplicate_effect_counts_once_and_leaves_an_incident() {
    let mut known = known(admitted(&[1, 2]));
    add(&mut known, &fact_entry(2, Fact::Applied(applied("b"))));
    let late = add(&mut known, &fact_entry(1, Fact::Applied(applied("a"))));
    assert_eq!(late.totals, total(duplicates("late_completion", "certain")));
    let [Incident { references, attempts: named, certainty, .. }] = &late.incidents[..] else { panic!("{:?}", late.incidents) };
    assert_eq!((references.len(), named, certainty.as_ref()), (2, &vec![attempt(1), attempt(2)], "certain"));
    assert_eq!(add(&mut known, &fact_entry(1, Fact::Applied(applied("a")))), Changes::default());
}

#[test]
fn a_duplicate_names_its_detector() {
    let mut known = known(admitted(&[1, 2]));
    add(&mut known, &fact_entry(1, Fact::Applied(applied("a"))));
    assert_eq!(add(&mut known, &fact_entry(2, Fact::Applied(applied("b")))).totals, total(duplicates("receipt_conflict", "certain")));
    let found = rule_entry(Revision(0), verdict(Ruling::Applied(applied("c")), &[1], Author::Reconcile));
    assert_eq!(add(&mut known, &found).totals, total(duplicates("destination", "certain")));
}

#[test]
fn two_effects_without_reference_are_suspected_and_turn_certain_without_being_counted_again() {
    let mut known = known(admitted(&[1, 2, 3]));
    add(&mut known, &fact_entry(1, Fact::Applied(applied(""))));
    assert_eq!(add(&mut known, &fact_entry(2, Fact::Applied(applied("")))).totals, total(duplicates("late_completion", "suspected")));
    let found = rule_entry(Revision(0), verdict(Ruling::Applied(applied("a")), &[1], Author::Reconcile));
    assert_eq!(add(&mut known, &found).totals, Totals::default(), "attempt 1's own effect, found under its name");
    let found = rule_entry(Revision(0), verdict(Ruling::Applied(applied("b")), &[2], Author::Reconcile));
    assert_eq!(add(&mut known, &found).totals, Totals::default(), "known as one too many already");
    assert_eq!(known.receipt.effects().extra_certain(), 1);
}

#[test]
fn what_the_destination_had_already_is_ours_or_foreign() {
    type Earlier = fn(&mut Known);
    let unknown: [Earlier; 3] = [
        |_| {},
        |known| drop(add(known, &fact_entry(1, Fact::Applied(applied("r"))))),
        |known| {
            let entry = rule_entry(known.revision(), verdict(Ruling::NotDone, &[1], operator()));
            add(known, &entry);
        },
    ];
    for earlier in unknown {
        let mut known = known(admitted(&[1, 2]));
        earlier(&mut known);
        let said = add(&mut known, &fact_entry(2, Fact::Applied(already("r"))));
        assert_eq!(said.totals.get(&Total::PriorEffects("unknown_attempt".into())), Some(&1));
    }
    let mut known = known(admitted(&[1, 2]));
    add(&mut known, &fact_entry(1, no_effect()));
    assert_eq!(add(&mut known, &fact_entry(2, Fact::Applied(already("r")))).totals, total(Total::PriorEffects("foreign".into())));
    assert_eq!(add(&mut known, &fact_entry(2, Fact::Applied(already("r")))).totals, Totals::default());
}

/// What somebody writes, chosen blindly; permissions are written on the state as it is, or on a stale one.
#[derive(Debug, Clone)]
enum Write {
    Admit,
    Fact(u32, Fact),
    Doubt(u32, DoubtReason),
    Rule(u32, Ruling, Author),
    Park(i64, ParkReason),
    End(i64),
    Hold(i64),
}

fn write() -> impl Strategy<Value = (Write, bool)> {
    let reference = || prop::sample::select(vec!["", "a", "b", "c"]);
    let fact = prop_oneof![
        reference().prop_map(|r| Fact::Applied(applied(r))),
        reference().prop_map(|r| Fact::Applied(already(r))),
        Just(no_effect()),
        Just(rejected()),
        Just(Fact::NotStarted),
    ];
    let ruling = prop_oneof![
        reference().prop_map(|r| Ruling::Applied(applied(r))),
        Just(Ruling::NotDone),
        Just(Ruling::Rejected),
        Just(Ruling::Reopened)
    ];
    let by = prop::sample::select(vec![Author::Reconcile, operator()]);
    let write = prop_oneof![
        3 => Just(Write::Admit),
        4 => (1..4_u32, fact).prop_map(|(number, fact)| Write::Fact(number, fact)),
        3 => (1..4_u32, prop::sample::select(DoubtReason::ALL.to_vec())).prop_map(|(number, reason)| Write::Doubt(number, reason)),
        2 => (1..4_u32, ruling, by).prop_map(|(number, ruling, by)| Write::Rule(number, ruling, by)),
        3 => (0..3_i64, prop::sample::select(ParkReason::ALL.to_vec())).prop_map(|(offset, reason)| Write::Park(offset, reason)),
        1 => (0..3_i64).prop_map(Write::End),
        1 => (0..3_i64).prop_map(Write::Hold),
    ];
    (write, prop::bool::weighted(0.2))
}

fn entry(known: &Known, write: Write, stale: bool) -> Entry {
    let seen = if stale { Revision(known.revision().0.saturating_sub(1)) } else { known.revision() };
    match write {
        Write::Admit => admit_entry(seen, known.receipt.next_number()),
        Write::Fact(number, fact) => fact_entry(number, fact),
        Write::Doubt(number, reason) => doubt_entry(number, reason),
        Write::Rule(number, ruling, by) => rule_entry(seen, verdict(ruling, &[number], by)),
        Write::Park(offset, reason) => park_entry(known, offset, reason),
        Write::End(offset) => {
            let end = End { kind: EndKind::DeadLettered, by: None, reason: String::new(), at: NOW };
            Entry::End { key: Some(KEY), seen: None, park: park_id(offset, 1), end }
        }
        Write::Hold(offset) => Entry::Hold {
            key: KEY,
            seen,
            park: park_id(offset, 1),
            slot: slot(offset + 10),
            record: receipted::protocol::park::RecordDigest([9; 16]),
        },
    }
}

fn sum(totals: &Totals, which: impl Fn(&Total) -> bool) -> usize {
    totals.iter().filter(|(total, _)| which(total)).map(|(_, count)| *count as usize).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn totals_add_up_after_every_note(writes in prop::collection::vec(write(), 0..24)) {
        let (mut known, mut totals, mut incidents) = (Known::default(), Totals::default(), 0);
        for (write, stale) in writes {
            if let Write::End(offset) = write && !known.parks.contains_key(&park_id(offset, 1)) {
                continue;
            }
            let entry = entry(&known, write, stale);
            let before = known.clone();
            let changes = add(&mut known, &entry);
            if known == before {
                prop_assert_eq!(&changes, &Changes::default(), "nothing new counts nothing");
            }
            for (total, by) in changes.totals {
                *totals.entry(total).or_default() += by;
            }
            incidents += changes.incidents.len();
            let count = |which: fn(&Total) -> bool| sum(&totals, which);
            let opened = count(|t| matches!(t, Total::UnresolvedOpened(_)));
            prop_assert_eq!(opened - count(|t| matches!(t, Total::UnresolvedClosed(..))), known.receipt.unresolved().len());
            let parked = count(|t| matches!(t, Total::ParkedOpened(_)));
            prop_assert_eq!(parked - count(|t| matches!(t, Total::ParkedClosed(..))), known.open_parks().count());
            let duplicates = count(|t| matches!(t, Total::DuplicateEffects(..)));
            prop_assert_eq!(duplicates, incidents, "an incident for each");
            let effects = known.receipt.effects();
            prop_assert!(duplicates >= effects.extra_certain() + effects.extra_suspected(), "no duplicate is silent");
        }
    }

    #[test]
    fn no_note_that_follows_an_operation_is_open_once_it_is_settled(writes in prop::collection::vec(write(), 0..24)) {
        let mut known = Known::default();
        for (write, stale) in writes {
            let entry = entry(&known, write, stale);
            let before = known.clone();
            let judgement = known.judge(&entry, NOW);
            match judgement {
                Judgement::Added => prop_assert!(known.revision() > before.revision()),
                Judgement::Repeated | Judgement::Lost => prop_assert_eq!(&known, &before),
            }
            if known.receipt.state().is_settled() {
                prop_assert!(known.open_parks().all(|(_, park)| !park.reason.follows_operation()));
            }
        }
    }
}
