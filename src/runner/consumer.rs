//! Owns the thread that owns the client: poll, hooks, commits, drop. It hands over batches, never single records, and takes no more
//! of a partition than its bound. It decides nothing about operations.

use super::{
    Error,
    assignment::{self, Origin, Stage},
    context::Context,
    credit::Credits,
    group,
    health::Health,
    inbox::{Command, Inbox, Opened},
    intake::Intake,
    native, observe,
    partitions::Then,
    spare::Spare,
};
use crate::{
    crash::point,
    protocol::{
        machine::{Assignment, Event},
        park::Payload,
    },
    store::Partition,
};
use rdkafka::{
    ClientContext, Message, Offset,
    client::Client,
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, Consumer, base_consumer::PartitionQueue},
    error::{KafkaError, RDKafkaErrorCode},
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// How long the thread sleeps when nothing comes; a nonempty queue wakes it.
const IDLE: Duration = Duration::from_millis(20);
/// How long leaving the group may take.
const LEAVE: Duration = Duration::from_secs(5);

pub(super) struct ConsumerThread {
    consumer: Arc<BaseConsumer<Context>>,
    queues: BTreeMap<Partition, Queue>,
    intake: Arc<Intake>,
    credits: Credits,
    health: Arc<Health>,
    /// Partitions of every topic that the app names.
    expected: usize,
    /// Since when the assignment is smaller than the topics.
    partial_since: Option<Instant>,
    next_commit: Instant,
    fetching: Fetching,
    spare: Spare,
}

/// A partition that is read.
struct Queue {
    assignment: Assignment,
    records: PartitionQueue<Context>,
    position: Position,
}

/// Whether the client's position speaks of this epoch. One that was held still has that of before, until a record comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Own,
    OfBefore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fetching {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Go,
    Close,
}

#[allow(clippy::disallowed_methods, reason = "the consumer thread keeps its own bounds")]
impl ConsumerThread {
    /// Connects, makes the checks that need the broker, and subscribes.
    ///
    /// # Errors
    /// When the broker cannot be reached, a topic is missing, the group has another live member, or the store belongs elsewhere.
    pub(super) fn connect(context: Context, intake: Arc<Intake>, credits: Credits, health: Arc<Health>) -> Result<Self, Error> {
        let (settings, store) = (context.settings.clone(), context.store.clone());
        let config = settings.consumer(&store.identity().store_id);
        let consumer =
            BaseConsumer::from_config_and_context(&config, context).map_err(|source| Error::broker("start a client", &source))?;
        let consumer = Arc::new(consumer);
        let client: &Client<Context> = consumer.client();
        let cluster = group::cluster(&consumer)
            .ok_or_else(|| Error::Unreachable { brokers: settings.brokers.clone(), reason: consumer.context().voice.reason() })?;
        point!("start/unbound", detail => return Err(Error::Client { detail }));
        store.bind(&cluster, &settings.group)?;
        let topics = intake.topics();
        let expected = group::partitions(client, &topics)?;
        group::alone(client, &settings.group, &settings.instance(&store.identity().store_id))?;
        point!("start/bound", detail => return Err(Error::Client { detail }));
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        consumer.subscribe(&names).map_err(|source| Error::broker("subscribe", &source))?;
        Ok(Self {
            consumer,
            queues: BTreeMap::new(),
            intake,
            credits,
            health,
            expected,
            partial_since: None,
            next_commit: Instant::now(),
            fetching: Fetching::On,
            spare: Spare::new(settings.batch_records_max),
        })
    }

    /// Runs until it is told to close, or must end.
    pub(super) fn run(mut self) -> Result<(), Error> {
        let context = self.consumer.context().clone();
        let ended = loop {
            self.health.consumer_turned();
            if self.commands(&context) == Flow::Close {
                break Ok(());
            }
            // A hook that refused a partition must not be followed by opening the others.
            let polled = self.poll_main().and_then(|()| context.take_failure().map_or(Ok(()), Err));
            if let Err(error) = polled.and_then(|()| self.open(&context)) {
                break Err(error);
            }
            let took = self.drain_queues(&context);
            self.commit_tick(&context);
            if took == 0 {
                thread::park_timeout(IDLE);
            }
        };
        self.leave(&ended);
        ended
    }

    fn commands(&mut self, context: &Context) -> Flow {
        while let Some(command) = context.next_command() {
            match command {
                Command::Commit(assignment, offset) => context.note_commit(assignment, offset),
                Command::Halt(assignment) => {
                    if let Some((_, owned)) = context.owned().by_assignment(assignment) {
                        owned.stage = Stage::Halted;
                    }
                }
                Command::Hold { assignment, from, then } => self.hold(context, assignment, from, then),
                Command::Reopen(partition) => context.owned().release(&partition),
                Command::StopFetching => self.fetching = Fetching::Off,
                Command::Close => {
                    context.commit(&self.consumer);
                    return Flow::Close;
                }
            }
        }
        Flow::Go
    }

    /// Reads nothing more of a partition that a person had drained, or reads it again from where it stood.
    fn hold(&mut self, context: &Context, assignment: Assignment, from: i64, then: Then) {
        let held = context.owned().hold(assignment, from, then);
        let Some(partition) = held else { return };
        self.queues.remove(&partition);
        let paused = assignment::list([(&partition, Offset::Invalid)])
            .and_then(|list| self.consumer.pause(&list).map_err(|source| Error::broker("pause a partition", &source)));
        if let Err(error) = paused {
            context.fail(error);
        }
        if then == Then::Reopen {
            context.owned().release(&partition);
        }
    }

    /// Serves the hooks. No record comes this way: partitions are split off before they are resumed.
    fn poll_main(&self) -> Result<(), Error> {
        match self.consumer.poll(Duration::ZERO) {
            Some(Err(error)) => survive(self.consumer.context(), &error),
            Some(Ok(record)) => Err(Error::Client {
                detail: format!("record {}/{}/{} came outside its partition's queue", record.topic(), record.partition(), record.offset()),
            }),
            None => Ok(()),
        }
    }

    /// Opens the partitions once every one of them is here: working alone, another member's share means that we are not alone.
    fn open(&mut self, context: &Arc<Context>) -> Result<(), Error> {
        let held = context.owned().held();
        if held < self.expected {
            let since = *self.partial_since.get_or_insert_with(Instant::now);
            if held > 0 && since.elapsed() > 2 * context.settings.session_timeout {
                return Err(Error::NotAlone { assigned: held, partitions: self.expected });
            }
            if held == 0 {
                self.partial_since = None;
            }
            return Ok(());
        }
        self.partial_since = None;
        let waiting: Vec<(Partition, Assignment, Origin)> = {
            let owned = context.owned();
            let waiting = owned.iter().filter(|(_, owned)| owned.stage == Stage::Waiting);
            waiting.map(|(partition, owned)| (partition.clone(), owned.assignment, owned.origin)).collect()
        };
        if waiting.is_empty() {
            return Ok(());
        }
        for (partition, assignment, origin) in waiting {
            let split = self.consumer.split_partition_queue(&partition.topic, partition.number);
            let mut records = split.ok_or_else(|| Error::Client { detail: format!("partition {partition} has no queue") })?;
            let thread: Thread = thread::current();
            records.set_nonempty_callback(move || thread.unpark());
            let position = if origin == Origin::Held { Position::OfBefore } else { Position::Own };
            self.queues.insert(partition, Queue { assignment, records, position });
        }
        point!("assign/waiting", detail => return Err(Error::Client { detail }));
        assignment::note_first_starts(&context.owned(), &*context.store)?;
        let (mut opened, mut starts) = (Vec::new(), Vec::new());
        for (partition, owned) in context.owned().iter_mut().filter(|(_, owned)| owned.stage == Stage::Waiting) {
            owned.stage = Stage::Open;
            // A start that the broker does not know yet: the first one, or a crash between the watermark and its commit.
            owned.commit = (owned.committed != Some(owned.start.offset)).then_some(owned.start.offset);
            let (start, known_complete) = (owned.start.offset, owned.start.known_complete);
            self.credits.open(owned.assignment);
            starts.push((partition.clone(), start));
            opened.push(Opened { assignment: owned.assignment, partition: partition.clone(), start, known_complete });
        }
        self.health.partitions(self.expected, opened.len());
        point!("assign/noted", detail => return Err(Error::Client { detail }));
        context.tell(Inbox::Assigned(opened));
        point!("assign/told", detail => return Err(Error::Client { detail }));
        assignment::resume(&self.consumer, &starts)
    }

    /// Takes what has come, partition by partition, each up to its credit.
    fn drain_queues(&mut self, context: &Context) -> usize {
        if self.fetching == Fetching::Off {
            return 0;
        }
        let owned = context.owned();
        let open = |partition: &Partition| owned.get(partition).filter(|owned| owned.stage == Stage::Open).map(|owned| owned.assignment);
        self.queues.retain(|partition, queue| open(partition) == Some(queue.assignment));
        drop(owned);
        let mut took = 0;
        for (partition, queue) in &mut self.queues {
            let mut batch: Vec<(i64, Arc<Payload>)> = Vec::new();
            let mut credit = self.credits.of(queue.assignment);
            while batch.len() < context.settings.batch_records_max && credit.is_left() {
                match queue.records.poll(Duration::ZERO) {
                    Some(Ok(record)) => {
                        let payload = self.spare.filled(|payload| native::copy(&record, payload));
                        credit.take(payload.bytes());
                        batch.push((record.offset(), payload));
                    }
                    Some(Err(error)) => {
                        if let Err(error) = survive(context, &error) {
                            context.fail(error);
                        }
                        break;
                    }
                    None => break,
                }
            }
            if !credit.is_left() {
                self.credits.starve();
            }
            if batch.is_empty() {
                continue;
            }
            took += batch.len();
            queue.position = Position::Own;
            let assignment = queue.assignment;
            self.credits.took(assignment, &credit);
            observe::records_fetched(&partition.topic, batch.len());
            match self.intake.deliveries(partition, batch, &mut self.spare) {
                Ok(deliveries) => {
                    point!("intake/decided", detail => {
                        context.fail(Error::Client { detail });
                        continue;
                    });
                    context.tell(Inbox::Arrived { assignment, deliveries, bytes: credit.bytes() });
                }
                Err(error) => context.fail(Error::Store(error)),
            }
        }
        took
    }

    fn commit_tick(&mut self, context: &Context) {
        if Instant::now() < self.next_commit {
            return;
        }
        self.next_commit = Instant::now() + context.settings.commit_interval;
        context.commit(&self.consumer);
        self.tell_positions(context);
    }

    /// Says how far each partition is read: transaction markers and aborted records never arrive, and hold no offset back. Whatever
    /// lies below a position was taken from its queue by this thread, and handed over.
    fn tell_positions(&self, context: &Context) {
        if context.has_failed() {
            return;
        }
        let positions: Vec<(Partition, i64)> = match self.consumer.position() {
            Ok(list) => {
                let read = list.elements();
                let named = |e: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| Partition {
                    topic: e.topic().into(),
                    number: e.partition(),
                };
                read.iter().filter_map(|e| if let Offset::Offset(offset) = e.offset() { Some((named(e), offset)) } else { None }).collect()
            }
            Err(error) => return context.error(error, "position"),
        };
        for (partition, offset) in positions {
            let open = context.owned().get(&partition).filter(|owned| owned.stage == Stage::Open).map(|owned| owned.assignment);
            let own = |queue: &Queue| queue.position == Position::Own;
            if let Some(assignment) = open.filter(|_| self.queues.get(&partition).is_some_and(own)) {
                context.tell(Inbox::Event(Box::new(Event::Reached { assignment, offset })));
            }
        }
    }

    /// Leaves the group for good: a planned stop of a lone member need not wait for its session to time out.
    /// The client sends that only after it let the partitions go, and not at all once it is closed: the group itself says when.
    fn leave(mut self, ended: &Result<(), Error>) {
        self.consumer.unsubscribe();
        let context = self.consumer.context().clone();
        let (settings, name) = (&context.settings, context.settings.instance(&context.store.identity().store_id));
        let end = Instant::now() + LEAVE;
        let here = || match ended {
            // The name is another process's now, and stays in the group.
            Err(Error::NameTaken { .. }) => false,
            _ => group::has(self.consumer.client(), &settings.group, &name),
        };
        while Instant::now() < end && (context.owned().held() > 0 || here()) {
            drop(self.consumer.poll(Duration::from_millis(20)));
        }
        self.queues.clear();
    }
}

/// Whether the client can go on. What it complains of has been told by its hook.
fn survive(context: &Context, error: &KafkaError) -> Result<(), Error> {
    match error {
        KafkaError::MessageConsumptionFatal(RDKafkaErrorCode::FencedInstanceId) => {
            Err(Error::NameTaken { name: context.settings.instance(&context.store.identity().store_id) })
        }
        KafkaError::MessageConsumptionFatal(code) => Err(Error::Client { detail: code.to_string() }),
        KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset) => {
            Err(Error::Client { detail: "an offset is out of range: the log was truncated while it was read; restart to see which".into() })
        }
        _ => Ok(()),
    }
}
