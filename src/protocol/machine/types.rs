//! Owns what goes into the machine and what comes out of it.

use super::{
    futures::AttemptKey,
    work::{Assignment, DeadLetterReason, Delivery, Subject, WorkId},
};
use crate::protocol::{
    key::{KeyDigest, OperationKey},
    known::{Answer, Entry, Known},
    note::{AttemptId, DoubtReason, Slot},
    outcome::{Finding, Outcome},
    park::{ParkId, ParkReason, Payload, RecordDigest},
    policy::Policy,
    receipt::Receipt,
    skip::Skipped,
    time::Monotonic,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Names a batch until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Bounds of the whole process.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Handlers that may run at the same time, those past their deadline included.
    pub permits: usize,
    /// Of these, for one tenant.
    pub tenant_permits_max: usize,
    /// Records of a partition that may be on their way; the driver fetches no more than that. Half of them may wait.
    pub partition_records_max: usize,
    /// Their bytes.
    pub partition_bytes_max: u64,
    /// How long work waits behind an attempt, or for a permit of its tenant's share, without any progress there, until it counts as
    /// waiting. Only while the partition is at its bound.
    pub waiting_grace: Duration,
    /// Bytes of a record that can be parked, at most; a larger one that must be halts its partition.
    pub park_record_bytes_max: u64,
    /// Runs of the reply hook for one record, at most.
    pub reply_attempts_max: u32,
    /// Between two runs of the reply hook.
    pub reply_back_off: Duration,
    /// Between two lookups of an operation in doubt, at first and at most.
    pub look_up_back_off: (Duration, Duration),
}

/// Whether a route hands answers on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replies {
    /// It has a reply hook.
    Hook,
    /// It has none.
    None,
}

/// What the machine needs to know of a route.
#[derive(Debug, Clone)]
pub struct Route {
    /// The operation's name, then its former ones.
    pub names: Vec<String>,
    /// What it declares.
    pub policy: Policy,
    /// Whether it has a reply hook.
    pub replies: Replies,
}

/// Which bound a store is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// That of parked bytes. What is parked goes on all the same: nothing else makes room.
    ParkedBytes,
    /// Any other, such as that of the disk: nothing is admitted.
    Space,
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A partition is ours, and is read from `start` on.
    Assigned {
        /// Which.
        assignment: Assignment,
        /// Its topic.
        topic: Arc<str>,
        /// Its number in the topic.
        number: i32,
        /// The first offset that will arrive, or a later one.
        start: i64,
        /// The store's watermark: slots below are rewound.
        known_complete: i64,
    },
    /// Records came, in the order of their offsets.
    Arrived {
        /// Of which partition.
        assignment: Assignment,
        /// The records.
        deliveries: Vec<Delivery>,
    },
    /// The partition was read up to this offset, and everything below has arrived.
    Reached {
        /// Of which partition.
        assignment: Assignment,
        /// The offset that is read next.
        offset: i64,
    },
    /// A batch is durable.
    Appended {
        /// Which.
        ticket: Ticket,
        /// What became of its entries.
        answers: Vec<Answer>,
    },
    /// A batch of nothing but permissions was refused because the store is at a bound: nothing of it was written.
    Refused {
        /// Which.
        ticket: Ticket,
        /// Which bound.
        bound: Bound,
    },
    /// The handler's arguments are extracted, or cannot be.
    Extracted {
        /// Of which work.
        work: WorkId,
        /// The reason where they cannot.
        result: Result<(), String>,
    },
    /// A future ended or was dropped.
    Finished {
        /// Which.
        attempt: AttemptKey,
        /// What it said.
        outcome: Outcome,
    },
    /// The dead-letter topic took the record, or did not.
    DeadLettered {
        /// Which.
        work: WorkId,
        /// The reason where it did not.
        result: Result<(), String>,
    },
    /// The reply hook ended.
    Replied {
        /// For which work.
        work: WorkId,
        /// The reason where it failed.
        result: Result<(), String>,
    },
    /// Answers [`Action::Load`]; at start-up also sent for every operation that is in doubt or parked.
    Doubtful {
        /// Which operation.
        key: KeyDigest,
        /// What the store holds.
        known: Arc<Known>,
    },
    /// Answers [`Action::Unpark`].
    Unparked {
        /// Which note.
        park: ParkId,
        /// The record's place.
        slot: Slot,
        /// The record.
        payload: Arc<Payload>,
        /// Its digest.
        record: RecordDigest,
        /// The operation that its route makes of it.
        subject: Arc<Subject>,
    },
    /// Answers [`Action::Unpark`] when the record no longer has this operation, or cannot be read: it is left to a person.
    NotUnparked {
        /// The operation.
        key: KeyDigest,
    },
    /// A lookup ended.
    LookedUp {
        /// For which operation.
        key: KeyDigest,
        /// What the store holds now.
        known: Arc<Known>,
        /// When it started.
        started: Monotonic,
        /// What it saw; an error is no evidence.
        finding: Result<Finding, String>,
    },
    /// An operator's entry, already found admissible.
    Operator {
        /// Names the request.
        request: u64,
        /// What to write.
        entry: Entry,
    },
    /// A person has a partition go on without the slot that it stands at, and the dead letter is acknowledged.
    Skip {
        /// Names the request.
        request: u64,
        /// What to write.
        skipped: Skipped,
    },
    /// The broker confirmed a commit.
    Committed {
        /// Of which partition.
        assignment: Assignment,
        /// The partition, and the committed offset.
        slot: Slot,
    },
    /// The store is at a bound, or no longer: nothing new is admitted or parked meanwhile.
    StoreFull(Option<Bound>),
    /// A route that is asked ([`super::Machine::take_asks`]) says that one attempt may start.
    MayStart {
        /// Which.
        route: usize,
    },
    /// The partition is to be given back by then.
    Revoke {
        /// Which.
        assignment: Assignment,
        /// The end of the drain budget.
        until: Monotonic,
    },
    /// The partition is somebody else's already.
    Lost {
        /// Which.
        assignment: Assignment,
    },
    /// Time to move watermarks.
    CommitTick,
    /// Time has passed.
    Tick,
}

/// Why an attempt runs, for the metric's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StartKind {
    /// The operation's first.
    First,
    /// After a stated *no effect*.
    Retry,
    /// While an earlier one is in doubt, resting on the destination's memory.
    Rerun,
    /// From a parked record.
    Resumed,
}

impl StartKind {
    /// The metric's label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Retry => "retry",
            Self::Rerun => "rerun",
            Self::Resumed => "resumed",
        }
    }
}

/// What to do.
#[derive(Debug)]
pub enum Action {
    /// Make these durable, and answer with [`Event::Appended`].
    Append {
        /// Names the batch.
        ticket: Ticket,
        /// Its entries.
        entries: Vec<Entry>,
    },
    /// Extract the handler's arguments without calling it, keep them, and answer with [`Event::Extracted`].
    Extract {
        /// For which work.
        work: WorkId,
        /// The attempt that they are for.
        attempt: AttemptId,
        /// The provider key's generation.
        key_generation: u32,
        /// Why it runs.
        kind: StartKind,
        /// The record.
        payload: Arc<Payload>,
        /// The operation.
        subject: Arc<Subject>,
    },
    /// Drop the arguments that were kept: the attempt does not run.
    Forget {
        /// For which work.
        work: WorkId,
    },
    /// The admission is durable: run the handler, and answer with [`Event::Finished`].
    Start {
        /// With the arguments of which work.
        work: WorkId,
        /// The attempt.
        attempt: AttemptKey,
        /// The record's place, for the span.
        slot: Slot,
    },
    /// Drop the attempt's future.
    Abort {
        /// Which.
        attempt: AttemptKey,
    },
    /// Send the record to the dead-letter topic, and answer with [`Event::DeadLettered`].
    DeadLetter {
        /// Which.
        work: WorkId,
        /// Its place.
        slot: Slot,
        /// Why.
        reason: DeadLetterReason,
        /// In words.
        detail: String,
        /// The record.
        payload: Arc<Payload>,
        /// The operation, where it has one.
        subject: Option<Arc<Subject>>,
        /// What is known of the operation.
        receipt: Box<Receipt>,
    },
    /// Hand the operation's answer on, and answer with [`Event::Replied`].
    Reply {
        /// For which work.
        work: WorkId,
        /// What is known.
        receipt: Box<Receipt>,
        /// The operation.
        subject: Arc<Subject>,
        /// The record is a repeat.
        replay: Replay,
        /// The record.
        payload: Arc<Payload>,
    },
    /// Read an operation, and answer with [`Event::Doubtful`].
    Load {
        /// Which.
        key: KeyDigest,
    },
    /// Read a parked record and find its operation, and answer with [`Event::Unparked`] or [`Event::NotUnparked`].
    Unpark {
        /// The operation that waits for it.
        key: KeyDigest,
        /// Which note.
        park: ParkId,
    },
    /// Ask the destination with the route's lookup, and answer with [`Event::LookedUp`].
    LookUp {
        /// The operation.
        key: KeyDigest,
        /// Its full key.
        name: Arc<OperationKey>,
        /// Its route.
        route: usize,
        /// The note whose record the lookup's arguments come from.
        park: ParkId,
        /// The attempt that is asked about.
        attempt: AttemptId,
        /// The generation of its provider key.
        key_generation: u32,
    },
    /// Commit this offset: everything below is durable.
    Commit {
        /// Of which partition.
        assignment: Assignment,
        /// The offset.
        offset: i64,
    },
    /// The partition's last watermark is durable and asked to be committed: let it go.
    Drained {
        /// Which.
        assignment: Assignment,
    },
    /// Stop reading the partition: its log makes no sense.
    Halt {
        /// Which.
        assignment: Assignment,
        /// The slot that shows it.
        slot: Slot,
        /// In words.
        reason: String,
    },
    /// An operator's entry was written, or no longer fitted.
    Answer {
        /// Names the request.
        request: u64,
        /// What became of it.
        answer: Answer,
    },
}

/// Whether a reply answers the first delivery of an operation or a repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// The attempt ran for this record.
    Original,
    /// The answer comes from the receipt.
    Repeat,
}

/// Something that is counted once, when it is durable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tally {
    /// `operations_total`: a record's end, by partition and route.
    Outcome(usize, Option<usize>, &'static str),
    /// `suppressed_total`.
    Suppressed(&'static str),
    /// `attempts_started_total`.
    Started(StartKind),
    /// `attempts_finished_total`.
    Finished(&'static str),
    /// `late_completions_total`: relation and result.
    Late(&'static str, &'static str),
    /// `parameter_conflicts_total`.
    Conflict(&'static str),
}

/// What a note ends a piece of work as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    Parked(ParkReason),
    Held,
    DeadLettered,
}

/// What follows when an entry is durable.
#[derive(Debug)]
pub(super) enum Then {
    Admitted(WorkId, AttemptKey),
    Recorded(WorkId, AttemptKey),
    Late(AttemptKey),
    Noted(WorkId, Leave),
    Marked(Assignment, i64),
    Ruled { key: KeyDigest, request: Option<u64>, denies: BTreeSet<AttemptId> },
    Nothing,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Deadline(AttemptKey),
    Detached(AttemptKey),
    BackOff(WorkId),
    Reply(WorkId),
    Doubt(KeyDigest),
    Drain(usize),
    Room(usize),
}

/// The side of a parameter conflict whose record came second; the first side is the receipt's.
pub(super) const SECOND: &str = "second";

/// Why an attempt that ended without a fact is in doubt.
pub(super) fn doubt_reason(outcome: &Outcome) -> (DoubtReason, &str) {
    match outcome {
        Outcome::Unknown(reason, detail) => (*reason, detail),
        _ => (DoubtReason::Unknown, ""),
    }
}
