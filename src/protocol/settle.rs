//! Owns what a person may do to an operation or a parked record: whether it fits what is known, and the entry that it becomes. The
//! reasons why not, with their remedies, are in `refused`. It performs nothing.

use super::{
    doubt::{Future, Vouched, may_rule},
    key::KeyDigest,
    known::{Entry, Known, fits},
    lookup,
    note::{Answer, Applied, AttemptId, Author, REASON_BYTES_MAX, Reference, Ruling, Slot, Verdict},
    park::{End, EndKind, Openness, Park, ParkId, SlotNotes},
    receipt::{Receipt, State},
    refused::Refused,
    skip::{self, Halted, Skipped},
    time::Now,
};
use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc, time::Duration};

/// Bytes of a person's name, at most.
pub const NAME_BYTES_MAX: usize = 128;

/// What a person asks for, on whose word, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What.
    pub act: Act,
    /// Who.
    pub by: Author,
    /// Why. Kept for ever.
    pub reason: String,
}

/// What can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Say what became of attempts in doubt, or take a rejection back.
    Settle(Settle),
    /// Send a parked record to the dead-letter topic. It covers the repeats held on it.
    DeadLetter(Target),
    /// Throw a parked record away.
    Discard {
        /// Which.
        target: Target,
        /// How many held repeats go with it, as the person knows.
        with_repeats: Option<usize>,
    },
    /// Have a halted partition go on without the slot that it stands at.
    Skip(Slot),
}

impl Change {
    /// The operation that it names; none where it names a park note.
    #[must_use]
    pub fn key(&self) -> Option<KeyDigest> {
        match &self.act {
            Act::Settle(settle) => Some(settle.key),
            Act::DeadLetter(Target::Operation(key)) | Act::Discard { target: Target::Operation(key), .. } => Some(*key),
            Act::DeadLetter(Target::Park(_)) | Act::Discard { target: Target::Park(_), .. } | Act::Skip(_) => None,
        }
    }

    /// The name that logs use.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match &self.act {
            Act::Settle(Settle { outcome: Settlement::Applied { .. }, .. }) => "settle applied",
            Act::Settle(Settle { outcome: Settlement::NotDone, .. }) => "settle not-done",
            Act::Settle(Settle { outcome: Settlement::Rejected, .. }) => "settle rejected",
            Act::Settle(Settle { outcome: Settlement::Reopened, .. }) => "settle reopened",
            Act::DeadLetter(_) => "dead-letter",
            Act::Discard { .. } => "discard",
            Act::Skip(_) => "skip",
        }
    }
}

/// A verdict on an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// The operation.
    pub key: KeyDigest,
    /// What became of it.
    pub outcome: Settlement,
    /// Of which attempts this speaks; none speaks of the one in doubt, or of all where the effect is there.
    pub attempts: Option<Vec<AttemptName>>,
    /// Why no request can land any more, from somebody who knows better than the quiet period.
    pub cannot_land_any_more: Option<String>,
    /// Raise the generation of the provider key for the next attempt.
    pub fresh_key: bool,
}

/// What a person says became of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// The effect is there, under this reference.
    Applied {
        /// The destination's name for it.
        reference: String,
    },
    /// It is not there and cannot come any more: the operation runs again.
    NotDone,
    /// It is not there, and the operation must not run.
    Rejected,
    /// A rejection is taken back.
    Reopened,
}

/// An attempt as people write it: `2`, or `2/7` with the claim where the number alone could mean two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptName {
    /// The attempt's number.
    pub number: u32,
    /// Its claim.
    pub claim: Option<u64>,
}

impl FromStr for AttemptName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "an attempt is a number, or number/claim as listed";
        let (number, claim) = text.split_once('/').map_or((text, None), |(number, claim)| (number, Some(claim)));
        let claim = claim.map(str::parse).transpose().map_err(|_| wrong)?;
        Ok(Self { number: number.parse().map_err(|_| wrong)?, claim })
    }
}

impl fmt::Display for AttemptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.claim {
            Some(claim) => write!(f, "{}/{claim}", self.number),
            None => write!(f, "{}", self.number),
        }
    }
}

impl From<AttemptId> for AttemptName {
    fn from(attempt: AttemptId) -> Self {
        Self { number: attempt.number, claim: Some(attempt.claim) }
    }
}

/// A parked record, by its note or by its operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The one open note of this operation.
    Operation(KeyDigest),
    /// This note.
    Park(ParkId),
}

/// What is known when a change is decided.
pub struct Scene<'a, F> {
    /// The operation; an empty one where the record has none.
    pub known: &'a Known,
    /// For a target that is a note, and for a skip: what is known of its slot.
    pub slot: &'a SlotNotes,
    /// For a skip: the slot that its partition stands at, where it is halted.
    pub halted: Option<&'a Halted>,
    /// What this process knows of an attempt's future.
    pub future: F,
    /// The quiet period of the operation's route.
    pub quiet: Duration,
    /// Both clocks.
    pub now: Now,
}

/// What an admissible change becomes.
#[derive(Debug, Clone, PartialEq)]
pub enum Decided {
    /// Write this entry.
    Write(Entry),
    /// Send the note's record to the dead-letter topic; when that is acknowledged, write the entry.
    DeadLetter {
        /// The note.
        park: ParkId,
        /// Its words.
        note: Arc<Park>,
        /// Its end.
        then: Entry,
    },
    /// Send the record that a partition stands at to the dead-letter topic; when that is acknowledged, write both entries as one batch,
    /// and read the partition again.
    Skip(Skipped),
}

/// What a change led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The operation, where there is one.
    pub key: Option<KeyDigest>,
    /// Its state now; `none` for a record without an operation.
    pub state: &'static str,
    /// What follows.
    pub next: Next,
}

/// What follows from a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing: repeats are answered from the receipt.
    Settled,
    /// These attempts are still in doubt.
    InDoubt(BTreeSet<AttemptId>),
    /// It runs again from the record that is parked here.
    RunsAgain(Slot),
    /// It runs again when a record of it comes: from its lane, or by a redrive.
    WaitsForRecord,
    /// The record is in the dead-letter topic, and so many held repeats are covered by it.
    DeadLettered(usize),
    /// The record is thrown away, and so many held repeats with it.
    Discarded(usize),
}

/// Decides whether `change` fits, and what it becomes.
///
/// # Errors
/// Names the reason, and with it the remedy.
pub fn decide<F: Fn(AttemptId) -> Future>(change: &Change, scene: &Scene<'_, F>) -> Result<Decided, Refused> {
    text("reason", &change.reason, REASON_BYTES_MAX)?;
    if let Author::Operator { name, .. } = &change.by {
        text("name", name, NAME_BYTES_MAX)?;
    }
    match &change.act {
        Act::Settle(settle) => verdict(change, settle, scene).map(Decided::Write),
        Act::DeadLetter(target) => {
            let (park, note) = open_note(target, scene)?;
            nothing_runs(scene)?;
            let then = end(change, &park, &note, EndKind::DeadLettered, scene);
            Ok(Decided::DeadLetter { park, note, then })
        }
        Act::Discard { target, with_repeats } => {
            let (park, note) = open_note(target, scene)?;
            if matches!(scene.known.receipt.state(), State::InDoubt(_)) {
                return Err(Refused::DiscardInDoubt);
            }
            let held = repeats(scene.known, &park);
            if with_repeats.unwrap_or(0) != held {
                return Err(Refused::Repeats { held });
            }
            Ok(Decided::Write(end(change, &park, &note, EndKind::Discarded, scene)))
        }
        Act::Skip(slot) => skip::decide(slot, scene.halted, scene.slot, &change.by, &change.reason, scene.now.wall).map(Decided::Skip),
    }
}

/// What a change led to, from the operation after it. `entry` is what was written.
#[must_use]
pub fn changed(entry: &Entry, after: &Known) -> Changed {
    let state = after.receipt.state();
    let next = match (entry, &state) {
        (Entry::End { park, end, .. }, _) if end.kind == EndKind::DeadLettered => Next::DeadLettered(repeats(after, park)),
        (Entry::End { park, .. }, _) => Next::Discarded(repeats(after, park)),
        (_, State::InDoubt(attempts)) => Next::InDoubt(attempts.clone()),
        (_, State::Applied(_) | State::Rejected(_)) => Next::Settled,
        (_, State::Retryable | State::New) => {
            let waiting = after.open_parks().find(|(_, park)| park.reason.follows_operation());
            waiting.map_or(Next::WaitsForRecord, |(id, _)| Next::RunsAgain(id.slot.clone()))
        }
    };
    let state = if entry.key().is_some() { state.label() } else { "none" };
    Changed { key: entry.key(), state, next }
}

fn verdict<F: Fn(AttemptId) -> Future>(change: &Change, settle: &Settle, scene: &Scene<'_, F>) -> Result<Entry, Refused> {
    let receipt = &scene.known.receipt;
    let ruling = ruling(&settle.outcome)?;
    let attempts = covered(settle, &ruling, scene)?;
    if !raises_key_alone(settle, receipt) {
        fits(receipt, &ruling, &attempts, &change.by).map_err(|reason| Refused::DoesNotFit { reason })?;
    }
    if settle.fresh_key {
        may_raise_key(settle, &ruling, &attempts, receipt)?;
    }
    let vouched = if settle.cannot_land_any_more.is_some() { Vouched::CannotLand } else { Vouched::No };
    may_rule(&ruling, &attempts, &scene.future, scene.quiet, &vouched, scene.now.monotonic)?;
    let reason = match &settle.cannot_land_any_more {
        Some(why) => format!("{}; cannot land any more: {why}", change.reason),
        None => change.reason.clone(),
    };
    text("reason", &reason, REASON_BYTES_MAX)?;
    let verdict = Verdict { attempts, ruling, by: change.by.clone(), reason, at: scene.now.wall, fresh_key: settle.fresh_key };
    Ok(Entry::Rule { key: settle.key, seen: scene.known.revision(), verdict: Box::new(verdict) })
}

fn ruling(outcome: &Settlement) -> Result<Ruling, Refused> {
    Ok(match outcome {
        Settlement::Applied { reference } => {
            let reference = Some(Reference::new(reference.trim()).ok_or(Refused::NoReference)?);
            Ruling::Applied(Applied { reference, answer: Answer::Absent("settled by a person".into()), already: false })
        }
        Settlement::NotDone => Ruling::NotDone,
        Settlement::Rejected => Ruling::Rejected,
        Settlement::Reopened => Ruling::Reopened,
    })
}

/// The attempts that a verdict speaks of. A negative one never covers an attempt that its author may not have seen: with several in
/// doubt they are to be named.
fn covered<F: Fn(AttemptId) -> Future>(settle: &Settle, ruling: &Ruling, scene: &Scene<'_, F>) -> Result<BTreeSet<AttemptId>, Refused> {
    let receipt = &scene.known.receipt;
    if *ruling == Ruling::Reopened {
        return Ok(receipt.rejected());
    }
    if raises_key_alone(settle, receipt) {
        return Ok(under_newest_key(receipt));
    }
    // Of an applied operation too: attempts beside the one that was applied stay in doubt until somebody looks.
    let in_doubt = receipt.undecided();
    let Some(names) = &settle.attempts else {
        return match ruling {
            Ruling::Applied(_) => {
                Ok(lookup::covered(&in_doubt, receipt.denied().len(), 1, &scene.future, scene.quiet, scene.now.monotonic))
            }
            _ if in_doubt.len() > 1 => Err(Refused::NameAttempts { in_doubt }),
            _ => Ok(in_doubt),
        };
    };
    let mut attempts = BTreeSet::new();
    for name in names {
        let fit = |attempt: &&AttemptId| attempt.number == name.number && name.claim.is_none_or(|claim| claim == attempt.claim);
        let mut found = in_doubt.iter().filter(fit);
        match (found.next(), found.next()) {
            (Some(attempt), None) => attempts.insert(*attempt),
            _ => return Err(Refused::NotInDoubt { name: *name, in_doubt }),
        };
    }
    Ok(attempts)
}

/// A retryable operation can be given a fresh key without anything else being settled.
fn raises_key_alone(settle: &Settle, receipt: &Receipt) -> bool {
    settle.fresh_key && settle.outcome == Settlement::NotDone && settle.attempts.is_none() && receipt.state() == State::Retryable
}

fn under_newest_key(receipt: &Receipt) -> BTreeSet<AttemptId> {
    let newest = receipt.admissions().values().map(|admission| admission.key_generation).max();
    receipt.admissions().iter().filter(|(_, admission)| Some(admission.key_generation) == newest).map(|(attempt, _)| *attempt).collect()
}

/// A fresh key switches the destination's own protection off for what came before. So it is for an operation that runs again with
/// nothing left in doubt, and where "no effect" is the word of the attempts themselves or of somebody who vouches.
fn may_raise_key(settle: &Settle, ruling: &Ruling, attempts: &BTreeSet<AttemptId>, receipt: &Receipt) -> Result<(), Refused> {
    match (ruling, receipt.state()) {
        (Ruling::NotDone, State::InDoubt(in_doubt)) if *attempts != in_doubt => return Err(Refused::FreshKeyInDoubt),
        (Ruling::NotDone, State::InDoubt(_) | State::Retryable) | (Ruling::Reopened, State::Rejected(_)) => {}
        _ => return Err(Refused::FreshKeyUnused),
    }
    let unstated = receipt.admissions().keys().find(|attempt| !receipt.facts().contains_key(attempt));
    match unstated {
        Some(attempt) if settle.cannot_land_any_more.is_none() => Err(Refused::FreshKeyOnVerdict { attempt: *attempt }),
        _ => Ok(()),
    }
}

fn open_note<F>(target: &Target, scene: &Scene<'_, F>) -> Result<(ParkId, Arc<Park>), Refused> {
    match target {
        Target::Park(id) => match &scene.slot.parked {
            Some((open, note, Openness::Open)) if open == id => Ok((id.clone(), note.clone())),
            _ if scene.slot.times >= id.number => Err(Refused::NoteEnded { park: id.clone() }),
            _ => Err(Refused::NoNote),
        },
        Target::Operation(_) => {
            let mut open = scene.known.open_parks();
            match (open.next(), open.next()) {
                (Some((id, note)), None) => Ok((id.clone(), note.clone())),
                (Some((one, _)), Some((other, _))) => Err(Refused::SeveralNotes { parks: vec![one.clone(), other.clone()] }),
                (None, _) => Err(Refused::NoNote),
            }
        }
    }
}

/// An attempt that runs, from this record or another, may settle the operation any moment: nobody decides over it meanwhile.
fn nothing_runs<F: Fn(AttemptId) -> Future>(scene: &Scene<'_, F>) -> Result<(), Refused> {
    for attempt in scene.known.receipt.undecided() {
        match (scene.future)(attempt) {
            Future::Alive => return Err(super::doubt::Refusal::StillRuns { attempt }.into()),
            Future::FactPending => return Err(super::doubt::Refusal::FactPending { attempt }.into()),
            Future::EndedAt(_) => {}
        }
    }
    Ok(())
}

fn end<F>(change: &Change, park: &ParkId, note: &Park, kind: EndKind, scene: &Scene<'_, F>) -> Entry {
    let end = End { kind, by: Some(change.by.clone()), reason: change.reason.clone(), at: scene.now.wall };
    let seen = note.key.map(|_| scene.known.revision());
    Entry::End { key: note.key, seen, park: park.clone(), end }
}

fn repeats(known: &Known, park: &ParkId) -> usize {
    known.held.get(park).map_or(0, std::collections::BTreeMap::len)
}

pub(crate) fn text(what: &'static str, text: &str, max: usize) -> Result<(), Refused> {
    let problem = match text {
        text if text.trim().is_empty() => "is empty",
        text if text.len() > max => "is too long",
        text if text.chars().any(char::is_control) => "holds a control character",
        _ => return Ok(()),
    };
    Err(Refused::Text { what, problem, max })
}
