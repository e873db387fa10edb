//! Owns what people do to partitions of a running process: look, pause, resume; and how one is read again after it was paused or its
//! slot was skipped. A partition is let go as for a rebalance, and opened again under a new epoch from where it stood: what holds for a
//! rebalance holds for these. A pause is this process's own, and gone with it.

use super::{
    engine::{Engine, Here},
    inbox::{Command, Inbox},
    observe,
    operator::Operators,
};
use crate::{
    protocol::{
        machine::{Action, Assignment, Event},
        note::{Author, REASON_BYTES_MAX},
        refused::Refused,
        settle::{NAME_BYTES_MAX, text},
    },
    store::Partition,
};
use tokio::sync::oneshot;

/// What is asked about partitions.
///
/// ```
/// # use receipted::{protocol::{note::Author, refused::Refused}, runner::{Operators, PartitionAsk, Word}, store::Partition};
/// /// While the bank changes its system at night, payments are not read.
/// async fn pause(operators: &Operators, uid: u32) -> Result<(), Refused> {
///     let by = Author::Operator { name: "night shift".into(), uid };
///     let payments = Partition { topic: "payments".into(), number: 0 };
///     let word = Word { by, reason: "the bank is away until six".into() };
///     operators.partitions(PartitionAsk::Pause(payments, word)).await.map(drop)
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionAsk {
    /// Where each stands.
    List,
    /// Let what runs of it end, commit, and read nothing more of it until it is resumed, or the process starts again.
    Pause(Partition, Word),
    /// Read a paused one again, from where it stood.
    Resume(Partition, Word),
}

/// On whose word, and why. It is logged.
///
/// A part of [`PartitionAsk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Who.
    pub by: Author,
    /// Why.
    pub reason: String,
}

/// Whether a partition is read.
///
/// A page that reads it: [`Operators`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It is.
    Open,
    /// What runs of it ends; then it is paused, or opened again.
    Draining,
    /// Not until somebody resumes it.
    Paused,
    /// Not: at a record that makes no sense, or because its log or its offsets make none.
    Halted,
}

impl Reading {
    /// The name that listings use.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Draining => "draining",
            Self::Paused => "paused",
            Self::Halted => "halted",
        }
    }
}

/// Where a partition stands.
///
/// A page that reads it: [`Operators`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionLine {
    /// Which.
    pub partition: Partition,
    /// Whether it is read.
    pub reading: Reading,
    /// The lowest slot that is not complete, as this process has it.
    pub watermark: Option<i64>,
    /// The offset whose commit the broker confirmed last.
    pub committed: Option<i64>,
    /// Records that are on their way, and their bytes.
    pub in_flight: (usize, u64),
    /// The slot that holds it up, where one does.
    pub halted_at: Option<i64>,
    /// Why it is not read, where it is not.
    pub detail: Option<String>,
}

impl Operators {
    /// Lists partitions, pauses one or resumes it. A pause is answered when the partition is drained and its offset handed over to be
    /// committed; a resume once the consumer is told.
    ///
    /// # Errors
    /// Says why not and what to do instead. [`Refused::Unavailable`] when the runner does not run.
    pub async fn partitions(&self, ask: PartitionAsk) -> Result<Vec<PartitionLine>, Refused> {
        let (answer, answered) = oneshot::channel();
        self.tell(Inbox::Partitions(ask, answer))?;
        answered.await.unwrap_or_else(|_| Err(Self::gone()))
    }
}

pub(super) type AnswerTo = oneshot::Sender<Result<Vec<PartitionLine>, Refused>>;

/// What becomes of a partition once it is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// It waits to be resumed.
    Pause,
    /// It is read again.
    Reopen,
}

/// How the engine stands to a partition that it was given.
#[derive(Default)]
pub(super) enum Stand {
    #[default]
    Given,
    /// It drains; then this, and these are answered.
    Closing(Then, Vec<AnswerTo>),
    Paused,
}

impl Engine {
    pub(super) fn asked(&mut self, ask: PartitionAsk, answer: AnswerTo, actions: &mut Vec<Action>) {
        let (partition, word, act) = match &ask {
            PartitionAsk::List => {
                let lines = self.here.values().map(|here| self.line(here)).chain(self.refused.iter().map(|(at, why)| refused(at, why)));
                return reply(answer, Ok(lines.collect()));
            }
            PartitionAsk::Pause(partition, word) => (partition, word, "pause"),
            PartitionAsk::Resume(partition, word) => (partition, word, "resume"),
        };
        let admissible = check(word).and_then(|()| self.place(partition)).inspect_err(|refused| {
            observe::partition_act_refused(partition, act, refused.code());
        });
        match admissible {
            Err(refused) => reply(answer, Err(refused)),
            Ok(index) => {
                observe::partition_act(partition, act, word);
                match ask {
                    PartitionAsk::Pause(..) => self.pause(index, answer, actions),
                    _ => self.resume(index, answer),
                }
            }
        }
    }

    /// The partition's index, when it can be paused or resumed.
    fn place(&self, partition: &Partition) -> Result<usize, Refused> {
        if let Some(reason) = self.refused.get(partition) {
            return Err(Refused::Halted { reason: reason.clone() });
        }
        let here = self.here.values().find(|here| here.partition == *partition).ok_or(Refused::NoPartition)?;
        if let Some(halted) = self.machine.halted(here.assignment.partition) {
            return Err(Refused::Halted { reason: format!("at {}: {}", halted.slot, halted.reason) });
        }
        Ok(here.assignment.partition)
    }

    fn pause(&mut self, index: usize, answer: AnswerTo, actions: &mut Vec<Action>) {
        let Some(here) = self.here.get_mut(&index) else { return };
        match &mut here.stand {
            Stand::Paused => {}
            Stand::Closing(then, waiting) => {
                *then = Then::Pause;
                return waiting.push(answer);
            }
            Stand::Given => {
                if !self.machine.is_open(here.assignment) {
                    let reason = "the partition is being given back".into();
                    return reply(answer, Err(Refused::Unavailable { reason }));
                }
                if let Some(event) = self.drain(index, Then::Pause, vec![answer]) {
                    self.machine.on(event, self.clock.now(), actions);
                }
                return;
            }
        }
        self.answer_line(index, answer);
    }

    fn resume(&mut self, index: usize, answer: AnswerTo) {
        let Some(here) = self.here.get_mut(&index) else { return };
        match &mut here.stand {
            Stand::Given => {}
            Stand::Closing(then, _) => *then = Then::Reopen,
            Stand::Paused => {
                here.stand = Stand::Given;
                self.parts.commands.tell(Command::Reopen(here.partition.clone()));
            }
        }
        self.answer_line(index, answer);
    }

    /// Begins to drain a partition, by the event that this returns.
    pub(super) fn drain(&mut self, index: usize, then: Then, answers: Vec<AnswerTo>) -> Option<Event> {
        let here = self.here.get_mut(&index)?;
        let assignment = here.assignment;
        if self.machine.halted(index).is_none() {
            self.parts.health.closed(1);
        }
        here.stand = Stand::Closing(then, answers);
        Some(Event::Revoke { assignment, until: self.clock.now().monotonic.after(self.parts.settings.drain_budget) })
    }

    /// A partition that drains for a person has drained.
    pub(super) fn closed(&mut self, assignment: Assignment) {
        let index = assignment.partition;
        let Some(here) = self.here.get_mut(&index).filter(|here| here.assignment == assignment) else { return };
        let Stand::Closing(then, _) = here.stand else { return };
        let next = if then == Then::Pause { Stand::Paused } else { Stand::Given };
        let Stand::Closing(_, answers) = std::mem::replace(&mut here.stand, next) else { return };
        let from = self.machine.position(index).unwrap_or(here.progress.0);
        if then == Then::Pause {
            observe::partition_held(&here.partition, observe::Held::Paused);
        }
        self.parts.commands.tell(Command::Hold { assignment, from, then });
        answers.into_iter().for_each(|answer| self.answer_line(index, answer));
    }

    /// Whether a partition counts as open for the pages.
    pub(super) fn counts_as_open(&self, assignment: Assignment) -> bool {
        self.here.get(&assignment.partition).is_some_and(|here| here.assignment == assignment && matches!(here.stand, Stand::Given))
    }

    fn answer_line(&self, index: usize, answer: AnswerTo) {
        reply(answer, Ok(self.here.get(&index).map(|here| self.line(here)).into_iter().collect()));
    }

    fn line(&self, here: &Here) -> PartitionLine {
        let index = here.assignment.partition;
        let halted = self.machine.halted(index);
        let reading = match (&here.stand, halted) {
            (Stand::Paused, _) => Reading::Paused,
            (Stand::Closing(..), _) => Reading::Draining,
            (Stand::Given, Some(_)) => Reading::Halted,
            (Stand::Given, None) if self.machine.is_open(here.assignment) => Reading::Open,
            (Stand::Given, None) => Reading::Draining,
        };
        let marks = self.parts.store.marks().get(&here.partition).copied().unwrap_or_default();
        PartitionLine {
            partition: here.partition.clone(),
            reading,
            watermark: self.machine.position(index),
            committed: marks.committed,
            in_flight: self.machine.in_flight(index),
            halted_at: halted.map(|halted| halted.slot.offset),
            detail: halted.map(|halted| halted.reason.clone()),
        }
    }
}

fn refused(partition: &Partition, why: &str) -> PartitionLine {
    PartitionLine {
        partition: partition.clone(),
        reading: Reading::Halted,
        watermark: None,
        committed: None,
        in_flight: (0, 0),
        halted_at: None,
        detail: Some(why.into()),
    }
}

fn check(word: &Word) -> Result<(), Refused> {
    text("reason", &word.reason, REASON_BYTES_MAX)?;
    match &word.by {
        Author::Operator { name, .. } => text("name", name, NAME_BYTES_MAX),
        _ => Ok(()),
    }
}

/// Answers; an asker that went away meanwhile sees it in the listing.
fn reply(to: AnswerTo, result: Result<Vec<PartitionLine>, Refused>) {
    drop(to.send(result));
}
