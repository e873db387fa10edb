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
    /// A route's layers may be ready for an attempt: ask again.
    Ask(usize),
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

/// Tells the engine once: what a task or a thread has come to, or, when it is dropped before, as by a panic, something else. So whatever
/// the engine waits for comes.
pub(super) struct Teller<F: FnOnce() -> Inbox> {
    inbox: UnboundedSender<Inbox>,
    otherwise: Option<F>,
}

impl<F: FnOnce() -> Inbox> Teller<F> {
    pub(super) fn new(inbox: UnboundedSender<Inbox>, otherwise: F) -> Self {
        Self { inbox, otherwise: Some(otherwise) }
    }

    /// An engine that is gone needs no answer.
    pub(super) fn tell(mut self, told: Inbox) {
        self.otherwise = None;
        drop(self.inbox.send(told));
    }
}

impl<F: FnOnce() -> Inbox> Drop for Teller<F> {
    fn drop(&mut self) {
        if let Some(otherwise) = self.otherwise.take() {
            drop(self.inbox.send(otherwise()));
        }
    }
}

/// What a task that panicked is taken to have said.
pub(super) fn unsaid() -> String {
    "its task ended without a word".into()
}

#[cfg(feature = "crash-points")]
impl Inbox {
    /// Where the engine is when it takes this.
    pub(super) fn crash_point(&self) -> &'static str {
        match self {
            Self::Assigned(_) => "engine/assigned",
            Self::Arrived { .. } => "engine/arrived",
            Self::Revoked { .. } => "engine/revoked",
            Self::Committed(..) => "engine/committed",
            Self::Appended(..) => "engine/appended",
            Self::Finished(..) => "engine/finished",
            Self::DeadLettered(..) => "engine/dead_lettered",
            Self::Replied(..) => "engine/replied",
            Self::LookedUp(..) => "engine/looked_up",
            Self::Event(event) if matches!(**event, Event::Unparked { .. }) => "engine/unparked",
            Self::Event(_) => "engine/event",
            Self::Operate(..) | Self::OperatorProduced(..) | Self::Partitions(..) => "engine/operator",
            Self::NotOpened(..) => "engine/not_opened",
            Self::Ask(_) => "engine/gate",
            Self::Stopped(_) => "engine/stopped",
        }
    }
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

#[cfg(test)]
mod tests {
    use super::{Inbox, Teller, unsaid};
    use tokio::sync::mpsc::unbounded_channel;

    #[test]
    fn the_engine_is_told_once_whatever_becomes_of_who_tells() {
        let (inbox, mut told) = unbounded_channel();
        let teller = || Teller::new(inbox.clone(), || Inbox::OperatorProduced(1, Err(unsaid())));
        teller().tell(Inbox::OperatorProduced(1, Ok(())));
        assert!(matches!(told.try_recv(), Ok(Inbox::OperatorProduced(1, Ok(())))));
        let dropped = teller();
        std::thread::spawn(move || {
            let _dropped = dropped;
            panic!("on purpose");
        })
        .join()
        .unwrap_err();
        assert!(matches!(told.try_recv(), Ok(Inbox::OperatorProduced(1, Err(_)))));
        assert!(told.try_recv().is_err(), "once each");
    }
}
