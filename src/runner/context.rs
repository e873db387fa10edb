//! Owns what happens inside the client's hooks: assign and pause, or drain, commit and unassign. It calls each exactly once an event
//! and looks at the result. Hooks run on the consumer thread, inside poll.

use super::{
    Error,
    assignment::{self, Ownerships, Stage},
    complaints::Voice,
    inbox::{Command, Inbox, Ownership},
    observe,
    settings::Settings,
};
use crate::{
    crash::point,
    protocol::{machine::Assignment, note::Slot, start::Metadata},
    store::{Partition, ReceiptStore},
};
use rdkafka::{
    ClientContext, Offset, Statistics, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext},
    error::{KafkaError, RDKafkaErrorCode},
    types::RDKafkaRespErr,
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel},
    },
    time::{Duration, Instant},
};
use tokio::sync::mpsc::UnboundedSender;

/// How much longer than the drain budget a hook waits for the last facts and offsets.
const FLUSH_GRACE: Duration = Duration::from_secs(5);

pub(super) struct Context {
    pub(super) settings: Settings,
    pub(super) store: Arc<dyn ReceiptStore>,
    pub(super) inbox: UnboundedSender<Inbox>,
    pub(super) voice: Voice,
    commands: Mutex<Receiver<Command>>,
    owned: Mutex<Ownerships>,
    fatal: Mutex<Option<Error>>,
}

impl Context {
    pub(super) fn new(
        settings: Settings, store: Arc<dyn ReceiptStore>, inbox: UnboundedSender<Inbox>, commands: Receiver<Command>,
    ) -> Self {
        let (commands, owned, fatal) = (Mutex::new(commands), Mutex::default(), Mutex::default());
        let voice = Voice::new("consumer", &settings.brokers);
        Self { settings, store, inbox, voice, commands, owned, fatal }
    }

    pub(super) fn owned(&self) -> MutexGuard<'_, Ownerships> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn next_command(&self) -> Option<Command> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).try_recv().ok()
    }

    /// Notes why the process must end. The first reason stays.
    pub(super) fn fail(&self, error: Error) {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    pub(super) fn take_failure(&self) -> Option<Error> {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Tells the engine. When it is gone, the process is ending anyway.
    pub(super) fn tell(&self, inbox: Inbox) {
        drop(self.inbox.send(inbox));
    }

    fn assign(&self, consumer: &BaseConsumer<Self>, partitions: &[Partition]) -> Result<(), Error> {
        point!("assign/begun", detail => return Err(Error::Client { detail }));
        let situations = assignment::situations(consumer, partitions, &self.settings, &*self.store);
        let mut owned = self.owned();
        let mut offsets = Vec::with_capacity(partitions.len());
        match situations {
            Err(error) => {
                self.fail(error);
                offsets.extend(partitions.iter().map(|partition| (partition, Offset::End)));
            }
            Ok(situations) => {
                for (partition, situation) in partitions.iter().zip(&situations) {
                    let (start, stage, refusal) = assignment::decide(situation);
                    if let Some(refusal) = refusal {
                        observe::partition_refused(partition, &refusal);
                        self.tell(Inbox::NotOpened(partition.clone(), refusal.to_string()));
                        if !refusal.halts_partition_only() {
                            self.fail(Error::Refused { partition: partition.clone(), refusal });
                        }
                    }
                    if let Some(confirmed) = start.regression {
                        observe::offset_regression(partition, start.offset, confirmed);
                    }
                    offsets.push((partition, Offset::Offset(start.offset)));
                    let stage = owned.take(partition.clone(), situation.committed.map(|(offset, _)| offset), start, stage);
                    if stage == Stage::Paused {
                        observe::partition_held(partition, observe::Held::Paused);
                    }
                }
            }
        }
        let list = assignment::list(offsets)?;
        consumer.incremental_assign(&list).map_err(|source| Error::broker("take partitions", &source))?;
        point!("assign/taken", detail => return Err(Error::Client { detail }));
        if list.count() > 0 {
            consumer.pause(&list).map_err(|source| Error::broker("pause partitions", &source))?;
        }
        Ok(())
    }

    /// Drain, facts, offsets, then the gate closes: the engine says when it is done, and asks for the commits on the way.
    fn revoke(&self, consumer: &BaseConsumer<Self>, partitions: &[Partition]) {
        point!("revoke/begun", detail => self.fail(Error::Client { detail }));
        let lost = consumer.assignment_lost();
        let ownership = if lost { Ownership::Lost } else { Ownership::Ours };
        let assignments: Vec<Assignment> = {
            let owned = self.owned();
            let held = partitions.iter().filter_map(|partition| owned.get(partition)).filter(|owned| owned.stage == Stage::Open);
            held.map(|owned| owned.assignment).collect()
        };
        if !assignments.is_empty() {
            let (done, drained) = sync_channel(1);
            self.tell(Inbox::Revoked { assignments, ownership, done });
            #[allow(clippy::disallowed_methods, reason = "the hook's own bound")]
            let end = Instant::now() + self.settings.drain_budget + FLUSH_GRACE;
            // An engine that is gone has dropped its end: then nothing more becomes durable.
            while drained.try_recv() == Err(TryRecvError::Empty) && Instant::now() < end {
                let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
                match commands.recv_timeout(Duration::from_millis(5)) {
                    Ok(Command::Commit(assignment, offset)) => {
                        drop(commands);
                        self.note_commit(assignment, offset);
                    }
                    Ok(Command::Hold { assignment, from, then }) => {
                        drop(commands);
                        self.owned().hold(assignment, from, then);
                    }
                    Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            while let Some(Command::Commit(assignment, offset)) = self.next_command() {
                self.note_commit(assignment, offset);
            }
            point!("revoke/drained", detail => self.fail(Error::Client { detail }));
            if !lost {
                self.commit(consumer);
            }
        }
        let mut owned = self.owned();
        for (partition, owned) in owned.iter_mut() {
            if partitions.contains(partition) {
                owned.stage = Stage::Closed;
                owned.commit = None;
                observe::partition_not_held(partition);
            }
        }
    }

    /// Remembers what to commit, if the assignment still stands.
    pub(super) fn note_commit(&self, assignment: Assignment, offset: i64) {
        if let Some((_, owned)) = self.owned().by_assignment(assignment) {
            owned.commit = Some(offset);
        }
    }

    /// Commits what is noted, through stored offsets: the client refuses those of a partition that it no longer has, and never goes
    /// back. What fails is tried again with the next tick.
    pub(super) fn commit(&self, consumer: &BaseConsumer<Self>) {
        let due: Vec<(Partition, Assignment, i64)> = {
            let owned = self.owned();
            owned.iter().filter_map(|(partition, owned)| Some((partition.clone(), owned.assignment, owned.commit?))).collect()
        };
        if due.is_empty() {
            return;
        }
        match self.send_commit(consumer, &due) {
            Ok(took) => {
                observe::committed(took);
                self.voice.answered();
                point!("commit/unconfirmed", detail => return self.fail(Error::Client { detail }));
                for (partition, assignment, offset) in due {
                    if let Some((_, owned)) = self.owned().by_assignment(assignment)
                        && owned.commit == Some(offset)
                    {
                        owned.commit = None;
                    }
                    let slot = Slot { topic: partition.topic, partition: partition.number, offset };
                    self.tell(Inbox::Committed(assignment, slot));
                }
            }
            Err(error) => observe::commit_failed(&error),
        }
    }

    fn send_commit(&self, consumer: &BaseConsumer<Self>, due: &[(Partition, Assignment, i64)]) -> Result<Duration, KafkaError> {
        let identity = self.store.identity();
        let metadata = Metadata::text(&identity.store_id, &identity.nonce);
        let mut list = TopicPartitionList::with_capacity(due.len());
        for (partition, _, offset) in due {
            list.add_partition_offset(&partition.topic, partition.number, Offset::Offset(*offset))?;
        }
        for mut element in list.elements() {
            element.set_metadata(&metadata);
        }
        point!("commit/unstored", _detail => return Err(KafkaError::Canceled));
        consumer.store_offsets(&list)?;
        drop(list);
        point!("commit/stored", _detail => return Err(KafkaError::Canceled));
        #[allow(clippy::disallowed_methods, reason = "a commit's latency is measured here")]
        let began = Instant::now();
        let committed = consumer.commit_consumer_state(CommitMode::Sync);
        point!("commit/sent", _detail => return Err(KafkaError::Canceled));
        match committed {
            Ok(()) | Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => Ok(began.elapsed()),
            Err(error) => Err(error),
        }
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        self.voice.log(level, facility, text);
    }

    fn stats(&self, statistics: Statistics) {
        for (topic, stats) in &statistics.topics {
            for (number, partition) in stats.partitions.iter().filter(|(number, _)| **number >= 0) {
                observe::lag(topic, *number, partition.consumer_lag);
            }
        }
        self.voice.stats(statistics);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.voice.error(error, reason);
    }
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, err: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let named = list.elements().iter().map(|e| Partition { topic: e.topic().into(), number: e.partition() }).collect::<Vec<_>>();
        match err {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                observe::rebalance("assign", named.len());
                if let Err(error) = self.assign(consumer, &named) {
                    self.fail(error);
                }
            }
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS => {
                observe::rebalance("revoke", named.len());
                self.revoke(consumer, &named);
                if let Err(source) = consumer.incremental_unassign(list) {
                    self.fail(Error::broker("give partitions back", &source));
                }
            }
            other => self.fail(Error::Client { detail: format!("rebalance: {}", RDKafkaErrorCode::from(other)) }),
        }
    }
}
