//! An operation is a set of notes: order, repetition and merging do not change what is known (DESIGN 3).

use super::build::*;
use proptest::prelude::*;
use receipted::protocol::{
    note::{Author, Doubt, DoubtReason, Fact, Ruling, Verdict},
    receipt::{Receipt, State},
    time::UnixMillis,
};

/// One note about one of three attempts.
#[derive(Debug, Clone)]
enum Note {
    Admit(u32),
    Fact(u32, Fact),
    Doubt(u32, Doubt),
    Rule(Verdict),
}

fn note() -> impl Strategy<Value = Note> {
    let number = 1..4_u32;
    let reference = prop::sample::select(vec!["", "a", "b"]);
    let fact = (prop::sample::select(vec![0, 1, 2, 3, 4]), reference.clone()).prop_map(|(kind, reference)| match kind {
        0 => Fact::Applied(applied(reference)),
        1 => Fact::Applied(already(reference)),
        2 => rejected(),
        3 => no_effect(),
        _ => Fact::NotStarted,
    });
    let doubt =
        (prop::sample::select(DoubtReason::ALL.to_vec()), 0..3_i64).prop_map(|(reason, at)| Doubt { at: UnixMillis(at), ..doubt(reason) });
    let ruling = (0..4, reference).prop_map(|(kind, reference)| match kind {
        0 => Ruling::Applied(applied(reference)),
        1 => Ruling::NotDone,
        2 => Ruling::Rejected,
        _ => Ruling::Reopened,
    });
    let covered = prop::collection::btree_set(number.clone(), 1..3).prop_map(|set| set.into_iter().collect::<Vec<_>>());
    let by = prop::sample::select(vec![Author::Reconcile, operator()]);
    prop_oneof![
        3 => number.clone().prop_map(Note::Admit),
        3 => (number.clone(), fact).prop_map(|(number, fact)| Note::Fact(number, fact)),
        1 => (number, doubt).prop_map(|(number, doubt)| Note::Doubt(number, doubt)),
        2 => (ruling, covered, by).prop_map(|(ruling, covered, by)| Note::Rule(verdict(ruling, &covered, by))),
    ]
}

fn notes() -> impl Strategy<Value = Vec<Note>> {
    prop::collection::vec(note(), 0..14)
}

fn add(receipt: &mut Receipt, note: Note) {
    match note {
        Note::Admit(number) => receipt.admit(attempt(number), admission(number)),
        Note::Fact(number, fact) => receipt.learn(attempt(number), fact),
        Note::Doubt(number, doubt) => receipt.doubt(attempt(number), doubt),
        Note::Rule(verdict) => receipt.rule(verdict),
    }
}

fn receipt(notes: &[Note]) -> Receipt {
    let mut receipt = Receipt::default();
    notes.iter().cloned().for_each(|note| add(&mut receipt, note));
    receipt
}

fn joined(left: &Receipt, right: &Receipt) -> Receipt {
    let mut both = left.clone();
    both.join(right);
    both
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn joins_commute(left in notes(), right in notes()) {
        let (left, right) = (receipt(&left), receipt(&right));
        prop_assert_eq!(joined(&left, &right), joined(&right, &left));
    }

    #[test]
    fn joins_associate(a in notes(), b in notes(), c in notes()) {
        let (a, b, c) = (receipt(&a), receipt(&b), receipt(&c));
        prop_assert_eq!(joined(&joined(&a, &b), &c), joined(&a, &joined(&b, &c)));
    }

    #[test]
    fn joining_twice_changes_nothing(left in notes(), right in notes()) {
        let once = joined(&receipt(&left), &receipt(&right));
        prop_assert_eq!(joined(&once, &receipt(&right)), once.clone());
        prop_assert_eq!(joined(&once, &once), once);
    }

    #[test]
    fn the_order_of_notes_changes_nothing_that_a_decision_rests_on(
        (notes, shuffled) in notes().prop_flat_map(|notes| (Just(notes.clone()), Just(notes).prop_shuffle()))
    ) {
        let (one, other) = (receipt(&notes), receipt(&shuffled));
        prop_assert_eq!(one.state(), other.state());
        prop_assert_eq!(one.effects(), other.effects());
        prop_assert_eq!(one.is_disputed(), other.is_disputed());
        prop_assert_eq!(one.next_number(), other.next_number());
        prop_assert_eq!(one.fingerprint(), other.fingerprint());
        prop_assert_eq!(one.budget_used(&slot(0)), other.budget_used(&slot(0)));
        let keys = |receipt: &Receipt| receipt.unresolved().into_keys().collect::<Vec<_>>();
        prop_assert_eq!(keys(&one), keys(&other));
    }

    #[test]
    fn applied_is_never_taken_back(notes in notes(), more in notes()) {
        let before = receipt(&notes);
        let after = joined(&before, &receipt(&more));
        if matches!(before.state(), State::Applied(_)) {
            prop_assert!(matches!(after.state(), State::Applied(_)));
        }
        prop_assert!(after.effects().references.is_superset(&before.effects().references));
    }

    #[test]
    fn a_rejection_stands_only_where_no_attempt_can_have_had_the_effect(notes in notes()) {
        let receipt = receipt(&notes);
        if matches!(receipt.state(), State::Rejected(_)) {
            prop_assert!(receipt.undecided().is_empty());
            prop_assert!(receipt.applied().is_none());
            prop_assert!(!receipt.rejected().is_empty());
        }
    }

    #[test]
    fn equal_counts_of_notes_mean_the_same_set(notes in notes(), more in notes()) {
        let before = receipt(&notes);
        let mut after = before.clone();
        for note in [notes, more].concat() {
            let counted = after.notes();
            let earlier = after.clone();
            add(&mut after, note);
            prop_assert_eq!(after.notes() == counted, after == earlier);
            prop_assert!(after.notes() >= counted);
        }
    }
}
