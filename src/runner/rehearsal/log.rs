//! Owns the log in memory, and what stands in for the consumer thread: committed offsets, dead letters.

use super::{
    super::{
        credit::Credits,
        inbox::{Command, Inbox, Opened},
        intake::Intake,
        partitions::Then,
        producer::Letter,
        spare::Spare,
    },
    Error,
};
use crate::{
    protocol::{machine::Assignment, note::Slot, park::Payload},
    store::{self, Partition},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{
    Notify,
    mpsc::{UnboundedReceiver, UnboundedSender},
};

/// A record that went to the dead letters.
///
/// ```
/// # use receipted::{prelude::*, testing::{Rehearsal, record, rehearsal}};
/// # use std::time::Duration;
/// # async fn ship(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rehearsal::Error> {
/// # let mut app = Rehearsal::start(|| {
/// #     let ship = operation("ship.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(ship);
/// #     App::new().topic("orders", ship).with_state(())
/// # })
/// # .await?;
/// app.deliver("orders", record().value("no JSON"))?;
/// app.complete_within(Duration::from_secs(10)).await?;
/// let letter = &app.dead_letters()[0];
/// assert_eq!(letter.value.as_deref(), Some(&b"no JSON"[..]));
/// assert_eq!(letter.header("x-receipted-reason").as_deref(), Some("no_key"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The record's own key.
    pub key: Option<Vec<u8>>,
    /// The record's own value.
    pub value: Option<Vec<u8>>,
    /// Its headers, then ours under `x-receipted-…`.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl DeadLetter {
    /// The value of the first header with this name, as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        let value = self.headers.iter().find(|(own, _)| own == name)?.1.as_ref()?;
        Some(String::from_utf8_lossy(value).into_owned())
    }
}

/// Every topic, and the dead letters.
#[derive(Default)]
pub(super) struct Log {
    topics: BTreeMap<String, Topic>,
    letters: Arc<Mutex<Vec<Letter>>>,
}

/// One topic of one partition.
#[derive(Default)]
pub(super) struct Topic {
    records: Vec<Arc<Payload>>,
    pub(super) committed: Option<i64>,
    /// The first record that this start has not seen.
    next: i64,
    assignment: Option<Assignment>,
    /// Of a topic that a person paused.
    held: Option<Assignment>,
}

/// What a start has not seen of a topic.
pub(super) struct Fresh {
    pub(super) topic: String,
    pub(super) assignment: Assignment,
    pub(super) batch: Vec<(i64, Arc<Payload>)>,
}

impl Topic {
    pub(super) fn end(&self) -> i64 {
        i64::try_from(self.records.len()).unwrap_or(i64::MAX)
    }

    pub(super) fn begin(&mut self, assignment: Assignment, start: i64) {
        (self.assignment, self.held, self.next) = (Some(assignment), None, start);
    }
}

pub(super) fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    /// The topic, which the app reads.
    pub(super) fn topic(&mut self, name: &str) -> &mut Topic {
        self.topics.entry(name.into()).or_default()
    }

    fn known(&mut self, name: &str) -> Result<&mut Topic, Error> {
        self.topics.get_mut(name).ok_or_else(|| Error::NoTopic { topic: name.into() })
    }

    pub(super) fn append(&mut self, name: &str, record: Arc<Payload>) -> Result<Slot, Error> {
        let topic = self.known(name)?;
        let slot = Slot { topic: name.into(), partition: 0, offset: topic.end() };
        topic.records.push(record);
        Ok(slot)
    }

    pub(super) fn rewind(&mut self, name: &str, offset: i64) -> Result<(), Error> {
        self.known(name)?.committed = Some(offset);
        Ok(())
    }

    /// What no start or not this one has seen, by topic.
    pub(super) fn take_fresh(&mut self) -> Vec<Fresh> {
        let mut fresh = Vec::new();
        for (name, topic) in &mut self.topics {
            let Some(assignment) = topic.assignment else { continue };
            let from = usize::try_from(topic.next).unwrap_or(usize::MAX);
            let batch: Vec<_> = (topic.next..).zip(topic.records.iter().skip(from).cloned()).collect();
            topic.next = topic.end();
            if !batch.is_empty() {
                fresh.push(Fresh { topic: name.clone(), assignment, batch });
            }
        }
        fresh
    }

    /// A topic whose end is not committed, with its offset and its end.
    pub(super) fn first_incomplete(&self) -> Option<(String, i64, i64)> {
        let behind = |topic: &&Topic| topic.committed.unwrap_or(0) < topic.end();
        let (name, topic) = self.topics.iter().find(|(_, topic)| behind(topic))?;
        Some((name.clone(), topic.committed.unwrap_or(0), topic.end()))
    }

    pub(super) fn letters(&self) -> Arc<Mutex<Vec<Letter>>> {
        self.letters.clone()
    }

    pub(super) fn dead_letters(&self) -> Vec<DeadLetter> {
        let letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        letters.iter().cloned().map(|Letter { key, value, headers }| DeadLetter { key, value, headers }).collect()
    }

    /// Hands nothing more over of a topic, and names it.
    fn hold(&mut self, assignment: Assignment, from: i64) -> Option<String> {
        let (name, topic) = self.topics.iter_mut().find(|(_, topic)| topic.assignment == Some(assignment))?;
        (topic.held, topic.assignment, topic.next) = (topic.assignment, None, from);
        Some(name.clone())
    }

    /// Hands a held topic over again, under a new epoch, from where it stood.
    fn release(&mut self, name: &str) -> Option<(Assignment, i64)> {
        let topic = self.topics.get_mut(name)?;
        let was = topic.held.take()?;
        topic.assignment = Some(was.next());
        Some((topic.assignment?, topic.next))
    }

    /// Takes a commit of this assignment, and names its place.
    fn commit(&mut self, assignment: Assignment, offset: i64) -> Option<Slot> {
        let (name, topic) = self.topics.iter_mut().find(|(_, topic)| topic.assignment == Some(assignment))?;
        topic.committed = Some(offset);
        Some(Partition { topic: name.as_str().into(), number: 0 }.slot(offset))
    }
}

impl Consumer {
    /// Has a held topic read again, under a new epoch.
    fn reopen(&self, name: &str) {
        let Some((assignment, start)) = lock(&self.log).release(name) else { return };
        self.credits.open(assignment);
        let partition = Partition { topic: name.into(), number: 0 };
        let opened = Opened { assignment, partition, start, known_complete: start };
        // An engine that is gone needs no partition, and no reason.
        let _ = self.inbox.send(Inbox::Assigned(vec![opened]));
        if let Err(error) = hand_over(&self.log, &self.intake, &self.inbox) {
            let _ = self.inbox.send(Inbox::Stopped(Err(error.into())));
        }
    }
}

/// Hands over what each topic has and this start has not seen.
pub(super) fn hand_over(log: &Mutex<Log>, intake: &Intake, inbox: &UnboundedSender<Inbox>) -> Result<(), store::Error> {
    let fresh = lock(log).take_fresh();
    for Fresh { topic: name, assignment, batch } in fresh {
        let bytes = batch.iter().map(|(_, payload)| payload.bytes()).sum();
        let partition = Partition { topic: name.as_str().into(), number: 0 };
        let deliveries = intake.deliveries(&partition, batch, &mut Spare::new(0))?;
        // An app that ended says why when it is waited for.
        let _ = inbox.send(Inbox::Arrived { assignment, deliveries, bytes });
    }
    Ok(())
}

/// Stands in for the consumer thread.
pub(super) struct Consumer {
    pub(super) log: Arc<Mutex<Log>>,
    pub(super) moved: Arc<Notify>,
    pub(super) inbox: UnboundedSender<Inbox>,
    pub(super) intake: Arc<Intake>,
    pub(super) credits: Credits,
}

impl Consumer {
    pub(super) async fn run(self, mut told: UnboundedReceiver<Command>) {
        while let Some(command) = told.recv().await {
            match command {
                Command::Commit(assignment, offset) => {
                    let slot = lock(&self.log).commit(assignment, offset);
                    if let Some(slot) = slot {
                        // An engine that is gone needs no answer.
                        let _ = self.inbox.send(Inbox::Committed(assignment, slot));
                    }
                    self.moved.notify_waiters();
                }
                // What the log has was handed over already.
                Command::Halt(_) | Command::StopFetching => {}
                Command::Hold { assignment, from, then } => {
                    if let Some(name) = lock(&self.log).hold(assignment, from)
                        && then == Then::Reopen
                    {
                        self.reopen(&name);
                    }
                }
                Command::Reopen(partition) => self.reopen(&partition.topic),
                Command::Close => {
                    let _ = self.inbox.send(Inbox::Stopped(Ok(())));
                    return;
                }
            }
        }
    }
}
