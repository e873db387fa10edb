//! Owns the unit that the machine carries: one record with its operation, and the phase that it is in.

use super::types::{Replay, StartKind};
use crate::protocol::{
    fingerprint::Fingerprint,
    key::{KeyDigest, OperationKey},
    known::{Known, Revision},
    note::{AttemptId, Slot},
    park::{ParkId, Payload, RecordDigest, SlotNotes},
    time::{Monotonic, UnixMillis},
};
use std::sync::Arc;

/// Names a piece of work while the process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub u64);

/// A partition of this process's assignment: an index that the driver chose, and how often it has been assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Assignment {
    /// The driver's index of the partition.
    pub partition: usize,
    /// Counts the assignments of that partition in this process.
    pub epoch: u64,
}

impl Assignment {
    /// The same partition, assigned once more.
    #[must_use]
    pub fn next(self) -> Self {
        Self { epoch: self.epoch + 1, ..self }
    }
}

/// Which records are handled one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Those with the same record key, as a digest.
    Key(u64),
    /// This record alone.
    Own(i64),
    /// All of the partition.
    Partition,
}

/// One arrival of a record.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// Of an operation that is applied, and stays so whatever else becomes known ([`is_answered`](crate::protocol::decision::is_answered)),
    /// on a route that hands no answers on: its slot is complete as it arrives.
    Answered {
        /// Its offset.
        offset: i64,
        /// The index of its route.
        route: usize,
    },
    /// Any other: the machine decides.
    Record(Box<Arrived>),
}

/// A record that has arrived, with what the driver looked up for it.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// Its offset.
    pub offset: i64,
    /// Its lane.
    pub lane: Lane,
    /// The record, whole.
    pub payload: Arc<Payload>,
    /// Its digest.
    pub record: RecordDigest,
    /// What the store knows of the slot.
    pub notes: SlotNotes,
    /// What the route made of it.
    pub content: Content,
}

impl Delivery {
    /// Its offset.
    #[must_use]
    pub fn offset(&self) -> i64 {
        match self {
            Self::Answered { offset, .. } => *offset,
            Self::Record(arrived) => arrived.offset,
        }
    }

    /// The index of its route, where it has one.
    #[must_use]
    pub fn route(&self) -> Option<usize> {
        match self {
            Self::Answered { route, .. } => Some(*route),
            Self::Record(arrived) => match &arrived.content {
                Content::Operation(subject) => Some(subject.route),
                Content::Skip | Content::DeadLetter(..) => None,
            },
        }
    }
}

/// What the route made of a record.
#[derive(Debug, Clone)]
pub enum Content {
    /// A tombstone, or a type that the route declares it does not handle.
    Skip,
    /// No valid key, undecodable, or a type that goes to the dead-letter topic.
    DeadLetter(DeadLetterReason, String),
    /// It carries an operation.
    Operation(Arc<Subject>),
}

/// Why a record goes to the dead-letter topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeadLetterReason {
    /// No key could be made of it.
    NoKey,
    /// The route sends its type there.
    Route,
    /// The handler's arguments could not be extracted.
    Undecodable,
    /// Every attempt certainly had no effect, and its attempts are used up.
    Exhausted,
    /// The route sends changed parameters there.
    Conflict,
    /// A person said so.
    Operator,
}

impl DeadLetterReason {
    /// The header's value.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::NoKey => "no_key",
            Self::Route => "route",
            Self::Undecodable => "undecodable",
            Self::Exhausted => "exhausted",
            Self::Conflict => "conflict",
            Self::Operator => "operator",
        }
    }
}

/// The operation that a record carries.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The store's key.
    pub key: KeyDigest,
    /// The full key.
    pub name: Arc<OperationKey>,
    /// The index of its route.
    pub route: usize,
    /// The parameters' digest.
    pub fingerprint: Fingerprint,
    /// The correlation id, where it has one.
    pub correlation: Option<String>,
    /// What the store knew when the driver looked.
    pub known: Arc<Known>,
}

/// Where a piece of work comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A slot of an assigned partition.
    Slot(Assignment),
    /// A parked record.
    Parked(ParkId),
}

/// How far a piece of work is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// Behind others of its lane.
    Lane,
    /// Behind an attempt of the same operation.
    Key,
    /// Until its back-off is over.
    BackOff(Monotonic),
    /// For a permit.
    Permit,
    /// Its arguments are being extracted; the permit is its own from here on.
    Extracting(AttemptId),
    /// The admission is on its way to the disk.
    Admitting(AttemptId),
    /// The handler runs.
    Running(AttemptId),
    /// Its fact is on its way to the disk.
    Recording(AttemptId),
    /// A note that ends its slot is on its way to the disk.
    Noting,
    /// Its dead letter is on its way.
    Producing(DeadLetterReason),
    /// The reply hook runs, for the nth time.
    Replying(u32),
    /// The store or its route is at a bound.
    Blocked,
}

impl Phase {
    /// Whether a decision about it is due: nothing of it is on its way.
    pub(super) fn is_undecided(&self) -> bool {
        matches!(self, Self::Lane | Self::Key | Self::BackOff(_) | Self::Blocked)
    }

    /// Whether it only waits: such work may hold half of its partition's bound.
    pub(super) fn waits(&self) -> bool {
        matches!(self, Self::Key | Self::BackOff(_))
    }
}

/// One record on its way.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) source: Source,
    pub(super) slot: Slot,
    pub(super) lane: Lane,
    pub(super) payload: Arc<Payload>,
    pub(super) record: RecordDigest,
    pub(super) notes: SlotNotes,
    pub(super) subject: Option<Arc<Subject>>,
    pub(super) phase: Phase,
    /// When its attempt started, while one runs.
    pub(super) since: Monotonic,
    /// Text for people: why it is parked or dead-lettered.
    pub(super) detail: String,
    /// The state of its operation that the decision to run rests on.
    pub(super) seen: Revision,
    /// Whether its answer comes from an attempt of its own.
    pub(super) replay: Replay,
    /// Why it runs next.
    pub(super) kind: StartKind,
    /// For a rerun: the wall-clock bounds within which it must be admitted.
    pub(super) rerun: Option<(UnixMillis, UnixMillis)>,
    /// What it counts as when its operation turns out to be settled: *running* if it came while an attempt ran.
    pub(super) repeat: &'static str,
}

impl Work {
    /// A record that nothing has been decided about.
    pub(super) fn new(source: Source, slot: Slot, lane: Lane, payload: Arc<Payload>, record: RecordDigest, notes: SlotNotes) -> Self {
        Self {
            source,
            slot,
            lane,
            payload,
            record,
            notes,
            subject: None,
            phase: Phase::Lane,
            since: Monotonic(0),
            detail: String::new(),
            seen: Revision::default(),
            replay: Replay::Repeat,
            kind: StartKind::First,
            rerun: None,
            repeat: "settled",
        }
    }

    pub(super) fn key(&self) -> Option<KeyDigest> {
        self.subject.as_ref().map(|subject| subject.key)
    }
}
