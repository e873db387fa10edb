//! Owns the words between the consumer thread, the engine and the tasks: what comes in, and what the consumer is told.

use super::{
    Error,
    partitions::{AnswerTo, PartitionAsk, Then},
};
use crate::{
    protocol::{
        key::KeyDigest,
        machine::{Assignment, AttemptKey, Delivery, Event, WorkId},
        note::Slot,
        outcome::{Finding, Outcome},
        refused::Refused,
        settle::{Change, Changed},
        time::Monotonic,
    },
    store::{Appended, Partition},
};
use std::{sync::mpsc, thread::Thread};
use tokio::sync::{mpsc::UnboundedSender, oneshot};

/// What the engine is told. Unbounded by type, bounded by construction: records by the partitions' bounds, the rest by permits,
/// by what was asked for, and by the operator socket's own limit.
pub(super) enum Inbox {
    /// Partitions are ours and will be read.
    Assigned(Vec<Opened>),
    /// Records came, and the bytes that they were counted with.
    Arrived { assignment: Assignment, deliveries: Vec<Delivery>, bytes: u64 },
    /// Partitions are to be given back; answer when they are drained and committed.
    Revoked { assignments: Vec<Assignment>, ownership: Ownership, done: mpsc::SyncSender<()> },
    /// The broker confirmed a commit.
    Committed(Assignment, Slot),
    /// A batch is answered.
    Appended(crate::protocol::machine::Ticket, Result<Appended, crate::store::Error>),
    /// A future ended.
    Finished(AttemptKey, Outcome),
    /// A dead letter is acknowledged, or not.
    DeadLettered(WorkId, Result<(), String>),
    /// A reply hook ended.
    Replied(WorkId, Result<(), String>),
    /// A lookup ended.
    LookedUp(KeyDigest, Monotonic, Result<Finding, String>),
    /// A parked record was read.
    Event(Box<Event>),
    /// An operator asks.
    Operate(Box<Change>, oneshot::Sender<Result<Changed, Refused>>),
    /// An operator looks at partitions, or pauses or resumes one.
    Partitions(PartitionAsk, AnswerTo),
    /// A partition that was assigned is not read, and why.
    NotOpened(Partition, String),
    /// An operator's dead letter is acknowledged, or not.
    OperatorProduced(u64, Result<(), String>),
    /// The consumer thread ended.
    Stopped(Result<(), Error>),
}

/// A partition that is read from here on.
pub(super) struct Opened {
    pub(super) assignment: Assignment,
    pub(super) partition: Partition,
    pub(super) start: i64,
    pub(super) known_complete: i64,
}

/// Whether a revoked partition still is this process's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    Ours,
    Lost,
}

/// What the consumer thread is told.
pub(super) enum Command {
    /// Commit this offset, if the assignment still stands.
    Commit(Assignment, i64),
    /// Stop reading this partition.
    Halt(Assignment),
    /// A person had it drained: read nothing of it, and when it is read again, from here.
    Hold { assignment: Assignment, from: i64, then: Then },
    /// Read a partition that is held.
    Reopen(Partition),
    /// Fetch nothing more.
    StopFetching,
    /// Leave the group and end.
    Close,
}

/// The consumer's ear: a command wakes it.
pub(super) enum Commands {
    /// A thread that owns a client.
    Thread(mpsc::Sender<Command>, Thread),
    /// A task that stands in for it.
    Task(UnboundedSender<Command>),
}

impl Commands {
    /// There is credit again.
    pub(super) fn wake(&self) {
        if let Self::Thread(_, thread) = self {
            thread.unpark();
        }
    }

    /// Tells the consumer. When it is gone, its end is in the inbox already.
    pub(super) fn tell(&self, command: Command) {
        match self {
            Self::Thread(sender, thread) => {
                drop(sender.send(command));
                thread.unpark();
            }
            Self::Task(sender) => drop(sender.send(command)),
        }
    }
}
