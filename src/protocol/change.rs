//! Owns what a new note means to an operator: which totals it raises, and which duplicate effects it reveals. A function of the
//! states before and after, so that every store counts alike and a crash hides nothing.

use super::{
    key::KeyDigest,
    known::{Entry, Known, closed_by},
    note::{AttemptId, Fact, Reference},
    time::UnixMillis,
};
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

/// A label's value.
pub type Label = Cow<'static, str>;

/// A durable counter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Total {
    /// `duplicate_effects_total{detector, certainty}`.
    DuplicateEffects(Label, Label),
    /// `prior_effects_found_total{cause}`.
    PriorEffects(Label),
    /// `unresolved_opened_total{reason}`.
    UnresolvedOpened(Label),
    /// `unresolved_closed_total{verdict, by}`.
    UnresolvedClosed(Label, Label),
    /// `parked_opened_total{reason}`.
    ParkedOpened(Label),
    /// `parked_closed_total{reason, by}`.
    ParkedClosed(Label, Label),
}

/// The durable counters and their values.
pub type Totals = BTreeMap<Total, u64>;

/// The sum of some of the counters.
#[must_use]
pub fn sum(totals: &Totals, of: impl Fn(&Total) -> bool) -> u64 {
    totals.iter().filter(|(total, _)| of(total)).map(|(_, value)| value).sum()
}

/// The durable entry that every duplicate effect leaves. Never pruned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// The operation.
    pub key: KeyDigest,
    /// What noticed it.
    pub detector: Label,
    /// `certain` (two references) or `suspected` (an attempt without a reference beside another).
    pub certainty: Label,
    /// Every reference that the destination gave.
    pub references: Vec<Reference>,
    /// The attempts that say they were applied.
    pub attempts: Vec<AttemptId>,
    /// The wall clock.
    pub at: UnixMillis,
}

/// What one entry changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Counters and how much to add.
    pub totals: Totals,
    /// New incidents: one for each extra effect.
    pub incidents: Vec<Incident>,
}

impl Changes {
    fn count(&mut self, total: Total, by: usize) {
        if by > 0 {
            *self.totals.entry(total).or_default() += by as u64;
        }
    }
}

/// What `entry` changed for operators, from the operation before and after it.
#[must_use]
pub fn changes(key: KeyDigest, before: &Known, after: &Known, entry: &Entry, now: UnixMillis) -> Changes {
    let mut changes = Changes::default();
    let (opened, closed) = (before.receipt.unresolved(), after.receipt.unresolved());
    for (attempt, reason) in &closed {
        if !opened.contains_key(attempt) {
            changes.count(Total::UnresolvedOpened(reason.label().into()), 1);
        }
    }
    for attempt in opened.keys().filter(|attempt| !closed.contains_key(attempt)) {
        let (verdict, by) = closed_by(entry, *attempt);
        changes.count(Total::UnresolvedClosed(verdict.into(), by.into()), 1);
    }
    for (_, park) in after.parks.iter().filter(|(id, _)| !before.parks.contains_key(id)) {
        changes.count(Total::ParkedOpened(park.reason.label().into()), 1);
    }
    for (id, end) in after.ends.iter().filter(|(id, _)| !before.ends.contains_key(id)) {
        let by = end.by.as_ref().map_or("runner", super::note::Author::label);
        let reason = after.parks.get(id).map_or("unknown", |park| park.reason.label());
        changes.count(Total::ParkedClosed(reason.into(), by.into()), 1);
    }
    if let Entry::Fact { attempt, fact: Fact::Applied(applied), .. } = entry
        && applied.already
        && before.receipt.notes() != after.receipt.notes()
    {
        let harmless = |facts: &Vec<Fact>| facts.iter().any(|f| matches!(f, Fact::NoEffect(_) | Fact::NotStarted | Fact::Rejected(_)));
        let cleared = |other: &AttemptId| before.receipt.facts().get(other).is_some_and(harmless);
        let doubted = before.receipt.admissions().keys().any(|other| other != attempt && !cleared(other));
        changes.count(Total::PriorEffects(if doubted { "unknown_attempt" } else { "foreign" }.into()), 1);
    }
    duplicates(&mut changes, key, before, after, entry, now);
    changes
}

fn duplicates(changes: &mut Changes, key: KeyDigest, before: &Known, after: &Known, entry: &Entry, now: UnixMillis) {
    if !after.receipt.may_have_extra() {
        return;
    }
    let (old, new) = (before.receipt.effects(), after.receipt.effects());
    let detector = match entry {
        Entry::Fact { attempt, .. } if before.receipt.admissions().keys().any(|other| other.number > attempt.number) => "late_completion",
        Entry::Fact { .. } => "receipt_conflict",
        _ => "destination",
    };
    let attempts: Vec<AttemptId> = after
        .receipt
        .facts()
        .iter()
        .filter(|(_, facts)| facts.iter().any(|fact| matches!(fact, Fact::Applied(_))))
        .map(|(attempt, _)| *attempt)
        .chain(after.receipt.verdicts().iter().flat_map(|verdict| verdict.attempts.iter().copied()))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let certain = new.extra_certain().saturating_sub(old.extra_certain());
    let all = (new.extra_certain() + new.extra_suspected()).saturating_sub(old.extra_certain() + old.extra_suspected());
    for (certainty, extra) in [("certain", certain.min(all)), ("suspected", all - certain.min(all))] {
        changes.count(Total::DuplicateEffects(detector.into(), certainty.into()), extra);
        changes.incidents.extend((0..extra).map(|_| Incident {
            key,
            detector: detector.into(),
            certainty: certainty.into(),
            references: new.references.iter().cloned().collect(),
            attempts: attempts.clone(),
            at: now,
        }));
    }
}
