//! Owns what a store's single writer decides: whether an entry still fits the state that its author saw, and what it adds. Both
//! stores and the explorer call it, so that the rule stands once.

use super::{
    fingerprint::Fingerprint,
    key::{KeyDigest, OperationKey},
    note::{Admission, AttemptId, Author, Doubt, Fact, Ruling, Slot, Verdict},
    park::{Closing, End, EndKind, Park, ParkId, Payload, RecordDigest},
    receipt::{Receipt, State},
    time::UnixMillis,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How many notes an operation had when somebody looked. Notes are only added, so that the same count is the same state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Revision(pub u64);

/// Everything that a store holds about one operation: its receipt, and the records that are parked for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// The full key, where it is stored.
    pub key: Option<Arc<OperationKey>>,
    /// The notes about its attempts.
    pub receipt: Receipt,
    /// Every park note, open or not.
    pub parks: BTreeMap<ParkId, Arc<Park>>,
    /// The ends of park notes.
    pub ends: BTreeMap<ParkId, End>,
    /// The slots of repeats that were suppressed because this note holds their operation, and which record each had.
    pub held: BTreeMap<ParkId, BTreeMap<Slot, RecordDigest>>,
}

impl Known {
    /// How many notes there are.
    #[must_use]
    pub fn revision(&self) -> Revision {
        let held = self.held.values().map(BTreeMap::len).sum::<usize>();
        Revision((self.receipt.notes() + self.parks.len() + self.ends.len() + held) as u64)
    }

    /// What a repeat is compared with where the operation is applied: the digest of its parameters. An effect without an admission
    /// compares with nothing.
    #[must_use]
    pub fn applied_with(&self) -> Option<Fingerprint> {
        self.receipt.applied()?;
        Some(self.receipt.fingerprint().unwrap_or(Fingerprint::Unchecked))
    }

    /// The park notes that still stand.
    pub fn open_parks(&self) -> impl Iterator<Item = (&ParkId, &Arc<Park>)> {
        self.parks.iter().filter(|(id, _)| !self.ends.contains_key(id))
    }

    /// The open note that waits for this operation's outcome with these parameters, if there is one: a repeat is held on it.
    #[must_use]
    pub fn holder(&self, fingerprint: Fingerprint) -> Option<&ParkId> {
        let mut open = self.open_parks();
        open.find(|(_, park)| park.reason.follows_operation() && !park.fingerprint.is_none_or(|f| f.differs(fingerprint))).map(|(id, _)| id)
    }

    /// The number of the next park note of `slot`.
    #[must_use]
    pub fn next_park(&self, slot: &Slot) -> u32 {
        self.parks.keys().filter(|id| id.slot == *slot).map(|id| id.number).max().unwrap_or(0) + 1
    }
}

/// One entry of a batch. Those with `seen` are permissions: they stand only while the operation is as their author saw it. The
/// others state what happened, and always stand; so does what a lookup found, for it is evidence.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// An attempt may now have an effect.
    Admit {
        /// The operation.
        key: KeyDigest,
        /// Its full key, where it may be stored.
        name: Option<Arc<OperationKey>>,
        /// What the decision rested on.
        seen: Revision,
        /// The attempt.
        attempt: AttemptId,
        /// Its terms.
        admission: Box<Admission>,
        /// For a rerun that rests on the destination's memory: the wall clock must still lie in here when this is written.
        within: Option<(UnixMillis, UnixMillis)>,
    },
    /// What became of an attempt.
    Fact {
        /// The operation.
        key: KeyDigest,
        /// The attempt.
        attempt: AttemptId,
        /// What became of it.
        fact: Fact,
    },
    /// Nobody knows what became of an attempt.
    Doubt {
        /// The operation.
        key: KeyDigest,
        /// The attempt.
        attempt: AttemptId,
        /// Why.
        doubt: Doubt,
    },
    /// Attempts in doubt are settled.
    Rule {
        /// The operation.
        key: KeyDigest,
        /// What the verdict rested on.
        seen: Revision,
        /// The verdict.
        verdict: Box<Verdict>,
    },
    /// A record is set aside.
    Park {
        /// The operation's state that this rested on; none where the record has no operation, or its reason does not follow one.
        seen: Option<Revision>,
        /// The note's name.
        id: ParkId,
        /// The note.
        park: Arc<Park>,
        /// The record.
        payload: Arc<Payload>,
    },
    /// A repeat is suppressed because the note holds its operation.
    Hold {
        /// The operation.
        key: KeyDigest,
        /// What the decision rested on.
        seen: Revision,
        /// The note.
        park: ParkId,
        /// The repeat's place.
        slot: Slot,
        /// Which record it is: a dead letter or discard of the note closes its slot too.
        record: RecordDigest,
    },
    /// A park note ends other than by its operation. The slot is closed with it.
    End {
        /// The operation, where the note has one.
        key: Option<KeyDigest>,
        /// What a person's decision rested on, so that nothing is thrown away that has begun to run; none for the runner's own.
        seen: Option<Revision>,
        /// The note.
        park: ParkId,
        /// What ended it.
        end: End,
    },
    /// A record that was never parked went to the dead-letter topic.
    Close {
        /// Its place.
        slot: Slot,
        /// How.
        closing: Closing,
        /// Which record it was.
        record: RecordDigest,
    },
    /// Every slot of the partition below this offset is complete.
    Watermark {
        /// The partition, and the offset.
        slot: Slot,
    },
    /// The broker confirmed this committed offset.
    Committed {
        /// The partition, and the offset.
        slot: Slot,
    },
}

impl Entry {
    /// The operation that it is about, where it is about one.
    #[must_use]
    pub fn key(&self) -> Option<KeyDigest> {
        match self {
            Self::Admit { key, .. }
            | Self::Fact { key, .. }
            | Self::Doubt { key, .. }
            | Self::Rule { key, .. }
            | Self::Hold { key, .. } => Some(*key),
            Self::Park { park, .. } => park.key,
            Self::End { key, .. } => *key,
            Self::Close { .. } | Self::Watermark { .. } | Self::Committed { .. } => None,
        }
    }
}

/// The writer's answer to one entry, with the operation as it is now.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Durable. With the operation's state after it, where the entry is about one.
    Done(Option<Arc<Known>>),
    /// Not written: the operation is no longer as the author saw it. Decide afresh.
    Lost(Arc<Known>),
}

/// Whether an entry was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// It stands, and added something.
    Added,
    /// It stands, and was there before.
    Repeated,
    /// It does not stand.
    Lost,
}

impl Known {
    /// Adds `entry` if it stands, and says whether it did. `now` is the writer's wall clock. Park notes that follow the operation
    /// end in the same step as what settles it, so that no note outlives its settlement.
    pub fn judge(&mut self, entry: &Entry, now: UnixMillis) -> Judgement {
        let before = self.revision();
        match entry {
            Entry::Admit { name, seen, attempt, admission, within, .. } => {
                match self.receipt.admissions().get(attempt) {
                    Some(own) if **own == **admission => return Judgement::Repeated,
                    Some(_) => return Judgement::Lost,
                    None => {}
                }
                let forgotten = within.is_some_and(|(from, until)| now < from || now >= until);
                if *seen != before || forgotten {
                    return Judgement::Lost;
                }
                self.key = self.key.take().or_else(|| name.clone());
                self.receipt.admit(*attempt, (**admission).clone());
            }
            Entry::Fact { attempt, fact, .. } => self.receipt.learn(*attempt, fact.clone()),
            Entry::Doubt { attempt, doubt, .. } => self.receipt.doubt(*attempt, doubt.clone()),
            Entry::Rule { seen, verdict, .. } => {
                if *seen != before && !verdict.is_found() {
                    return Judgement::Lost;
                }
                self.receipt.rule((**verdict).clone());
            }
            Entry::Park { seen, id, park, .. } => {
                if self.parks.get(id).is_some_and(|own| own == park) {
                    return Judgement::Repeated;
                }
                if seen.is_some_and(|seen| seen != before) || self.parks.contains_key(id) {
                    return Judgement::Lost;
                }
                self.parks.insert(id.clone(), park.clone());
            }
            Entry::Hold { seen, park, slot, record, .. } => {
                if *seen != before {
                    return Judgement::Lost;
                }
                self.held.entry(park.clone()).or_default().entry(slot.clone()).or_insert(*record);
            }
            Entry::End { seen, park, end, .. } => {
                if seen.is_some_and(|seen| seen != before) {
                    return Judgement::Lost;
                }
                self.ends.entry(park.clone()).or_insert_with(|| end.clone());
            }
            Entry::Close { .. } | Entry::Watermark { .. } | Entry::Committed { .. } => {
                return Judgement::Added;
            }
        }
        self.end_settled(entry, now);
        if self.revision() == before { Judgement::Repeated } else { Judgement::Added }
    }

    fn end_settled(&mut self, cause: &Entry, now: UnixMillis) {
        if self.open_parks().next().is_none() || !self.receipt.state().is_settled() {
            return;
        }
        let by = if let Entry::Rule { verdict, .. } = cause { Some(verdict.by.clone()) } else { None };
        let fingerprint = self.receipt.fingerprint();
        let follows = |park: &Park| {
            let same = fingerprint.is_none_or(|f| park.fingerprint.is_none_or(|own| !own.differs(f)));
            park.reason.follows_operation() && same
        };
        let ended: Vec<ParkId> = self.open_parks().filter(|(_, park)| follows(park)).map(|(id, _)| id.clone()).collect();
        for id in ended {
            let reason = self.receipt.state().label().to_string();
            self.ends.insert(id, End { kind: EndKind::Settled, by: by.clone(), reason, at: now });
        }
    }
}

/// Who closed an unresolved attempt, for the metric's label; `fact` for a late answer, `superseded` when another attempt settled it.
#[must_use]
pub fn closed_by(entry: &Entry, attempt: AttemptId) -> (&'static str, &'static str) {
    match entry {
        Entry::Rule { verdict, .. } => (verdict.ruling.label(), verdict.by.label()),
        Entry::Fact { attempt: own, fact, .. } if *own == attempt => (fact_label(fact), "late_fact"),
        _ => ("applied", "superseded"),
    }
}

/// The metric's label of a fact.
#[must_use]
pub fn fact_label(fact: &Fact) -> &'static str {
    match fact {
        Fact::Applied(applied) if applied.already => "already",
        Fact::Applied(_) => "applied",
        Fact::Rejected(_) => "rejected",
        Fact::NoEffect(_) => "no_effect",
        Fact::NotStarted => "not_started",
    }
}

/// Whether a verdict may be given on this state at all, apart from time and futures (`doubt` decides those).
///
/// # Errors
/// Names the reason in words for the operator.
pub fn fits(receipt: &Receipt, ruling: &Ruling, attempts: &BTreeSet<AttemptId>, by: &Author) -> Result<(), &'static str> {
    if *ruling == Ruling::NotDone && *by == Author::Reconcile && !attempts.is_empty() && attempts.is_subset(&receipt.unconfirmed()) {
        return Ok(());
    }
    match (ruling, receipt.state()) {
        (Ruling::Reopened, State::Rejected(_)) if *attempts == receipt.rejected() => Ok(()),
        (Ruling::Reopened, State::Rejected(_)) => Err("reopened must name every attempt that is rejected"),
        (Ruling::Reopened, _) => Err("only a rejected operation can be reopened"),
        (_, State::InDoubt(doubtful)) => match ruling {
            // It settles the operation, and no attempt by itself: they may still land.
            Ruling::Applied(_) if attempts.is_empty() => Ok(()),
            Ruling::Rejected if *attempts != doubtful => Err("rejected must cover every attempt in doubt"),
            _ if attempts.is_empty() || !attempts.is_subset(&doubtful) => Err("the verdict names an attempt that is not in doubt"),
            _ => Ok(()),
        },
        // A lookup that looks once more after *not done* may find the effect after all.
        (Ruling::Applied(_), State::Retryable | State::Applied(_)) if *by == Author::Reconcile => Ok(()),
        // A person who finds the effect after all keeps a second one from being made. It speaks of the key, and of no attempt by itself.
        (Ruling::Applied(_), State::Retryable) if attempts.is_empty() => Ok(()),
        (Ruling::NotDone, State::Applied(_)) if !attempts.is_empty() && attempts.is_subset(&receipt.undecided()) => Ok(()),
        (Ruling::Applied(_), State::Applied(_)) if !receipt.undecided().is_empty() && attempts.is_subset(&receipt.undecided()) => Ok(()),
        (_, State::Applied(_)) => Err("the operation is applied, and names no such attempt in doubt beside it"),
        (_, State::Rejected(_)) => Err("the operation is rejected; reopen it first"),
        (_, State::New) => Err("nothing is known of this operation"),
        (_, State::Retryable) => Err("no attempt is in doubt; only applied can be said of it, when the effect is there after all"),
    }
}
