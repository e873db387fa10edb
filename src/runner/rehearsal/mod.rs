//! Owns an app's rehearsal: the engine that runs in production, its handlers and its rules, on a store in memory and a log in memory
//! instead of Kafka. It can be killed and started again, and its clocks are the runtime's, so that a paused one tests an hour in no time.
//! It shows nothing of a broker or a disk.

mod log;

pub use log::DeadLetter;

use self::log::{Consumer, Log};
use super::{
    FirstStart, Settings,
    clock::Clock,
    credit::Credits,
    engine::{Ended, Engine, Parts},
    health::Health,
    inbox::{Commands, Inbox, Opened},
    intake::Intake,
    operator::Operators,
    producer::Producer,
    settings::ErrorText,
};
use crate::{
    config::HeaderNames,
    handler::{BuildError, ReadyApp, Routes},
    protocol::{
        key::{Alphabet, OperationKey},
        known::{Entry, Known},
        machine::Assignment,
        note::Slot,
        park::Payload,
        start::{Acquaintance, FirstStart as First, Lineage, Situation, Writer},
    },
    store::{Batch, Partition, ReceiptStore, Which, memory::MemoryStore},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc::unbounded_channel, oneshot},
    task::JoinHandle,
};

/// How often offsets are committed: often for a clock that runs, seldom for a paused one that passes an hour.
const COMMIT: Duration = Duration::from_millis(250);
/// Operations of one page of a listing.
const PAGE: usize = 1000;

/// Why a rehearsal cannot go on.
///
/// What the tests of a [`Rehearsal`] return.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// As the declaration's error says.
    #[error("the app does not hold")]
    App(#[from] BuildError),
    /// As the runner's error says.
    #[error("the runner ended")]
    Runner(#[from] super::Error),
    /// As the store's error says.
    #[error("the store failed")]
    Store(#[from] crate::store::Error),
    /// Deliver to a topic of the app.
    #[error("topic {topic:?} is none of the app's")]
    NoTopic {
        /// The topic.
        topic: String,
    },
    /// Look at what it names: a parked or doubtful operation completes its record, a handler that never answers does so at its limit.
    #[error("not complete within {within:?}: {topic} from offset {offset} of {end}")]
    Incomplete {
        /// How long it was waited for.
        within: Duration,
        /// A topic with such records.
        topic: String,
        /// The first that is not complete.
        offset: i64,
        /// The offset after the last one.
        end: i64,
    },
    /// Look at what was waited for: it is not so.
    #[error("not so within {within:?}")]
    NotSo {
        /// How long it was waited for.
        within: Duration,
    },
    /// Correct the key.
    #[error("no key of an operation")]
    Key(#[from] crate::protocol::key::Error),
}

/// An app that runs on a store and a log in memory. One partition a topic.
///
/// ```
/// use receipted::{prelude::*, testing::{Rehearsal, record, rehearsal}};
/// use std::time::Duration;
///
/// async fn ship(op: Operation) -> Result<Applied, Failure> {
///     Ok(Applied::new(op.provider_key(), ()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rehearsal::Error> {
/// let mut app = Rehearsal::start(|| {
///     let ship = operation("ship.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(ship);
///     App::new().topic("orders", ship).with_state(())
/// })
/// .await?;
/// app.deliver("orders", record().value(r#"{"id":"o-1"}"#))?;
/// app.complete_within(Duration::from_secs(10)).await?;
/// assert_eq!(app.state("acme", "ship.v1", &["o-1"])?, "applied");
/// # Ok(())
/// # }
/// ```
pub struct Rehearsal {
    routes: Box<dyn Fn() -> Result<Routes, BuildError> + Send + Sync>,
    store: Arc<MemoryStore>,
    clock: Clock,
    log: Arc<Mutex<Log>>,
    moved: Arc<Notify>,
    running: Option<Running>,
    epoch: u64,
    last_stop: LastStop,
}

/// How the last start ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastStop {
    /// Its store is to be closed, once nobody looks at it any more.
    Planned,
    Killed,
}

/// One start of the app.
struct Running {
    engine: JoinHandle<Ended>,
    consumer: JoinHandle<()>,
    end: oneshot::Sender<()>,
    intake: Arc<Intake>,
    operators: Operators,
    inbox: tokio::sync::mpsc::UnboundedSender<Inbox>,
}

impl Rehearsal {
    /// Starts the app on an empty store. `app` makes it, and makes it again at each [`Rehearsal::restart`]: what it captures is the
    /// outside world, which survives. Needs a tokio runtime with a clock.
    ///
    /// # Errors
    /// When a declaration does not hold.
    pub async fn start<S: Send + Sync + 'static>(app: impl Fn() -> ReadyApp<S> + Send + Sync + 'static) -> Result<Self, Error> {
        let clock = Clock::counted();
        let wall = clock.clone();
        let store = Arc::new(MemoryStore::with_clock(Arc::new(move || wall.now().wall)));
        let routes = Box::new(move || app().build());
        let (log, moved) = (Arc::default(), Arc::default());
        let mut rehearsal = Self { routes, store, clock, log, moved, running: None, epoch: 0, last_stop: LastStop::Killed };
        rehearsal.begin().await?;
        Ok(rehearsal)
    }

    /// Appends a record to a topic's log, and hands it over as a consumer would. The same record again is a repeat with another offset.
    /// Returns its place.
    ///
    /// # Errors
    /// When the app does not read the topic.
    pub fn deliver(&mut self, topic: &str, record: impl Into<Payload>) -> Result<Slot, Error> {
        let slot = self.locked().append(topic, Arc::new(record.into()))?;
        self.hand_over()?;
        Ok(slot)
    }

    /// Waits until every record that was delivered is complete: applied, rejected, suppressed, parked or dead-lettered, durably, and its
    /// offset committed.
    ///
    /// # Errors
    /// Names what is not complete after `within` of the runtime's time, or why the app ended.
    pub async fn complete_within(&mut self, within: Duration) -> Result<(), Error> {
        let (log, moved) = (self.log.clone(), self.moved.clone());
        let all = async {
            loop {
                let next = moved.notified();
                if log::lock(&log).first_incomplete().is_none() {
                    return;
                }
                next.await;
            }
        };
        if tokio::time::timeout(within, all).await.is_ok() {
            return Ok(());
        }
        self.still_runs().await?;
        let found = self.locked().first_incomplete();
        found.map_or(Ok(()), |(topic, offset, end)| Err(Error::Incomplete { within, topic, offset, end }))
    }

    /// Waits until something is so, looking once a millisecond of the runtime's time: that a request has come, say.
    ///
    /// # Errors
    /// When it is not so `within` that time.
    pub async fn until(&self, within: Duration, so: impl Fn() -> bool) -> Result<(), Error> {
        let wait = async {
            while !so() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(within, wait).await.map_err(|_| Error::NotSo { within })
    }

    /// Lets time pass: of a paused clock, no time at all.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Ends the app as `kill -9` would: nothing more of it becomes durable, and what its handlers have done outside stays done.
    pub async fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            for task in [running.engine.abort_handle(), running.consumer.abort_handle()] {
                task.abort();
            }
            // Aborted, or ended by itself before: gone in either case.
            let _ = (running.engine.await, running.consumer.await);
        }
    }

    /// Stops the app as a signal would: it drains, and the next start finds a store that was closed.
    ///
    /// # Errors
    /// When the app had ended by itself.
    pub async fn stop(&mut self) -> Result<(), Error> {
        if let Some(running) = self.running.take() {
            // It may have ended already; how is said below.
            let _ = running.end.send(());
            let ended = running.engine.await;
            running.consumer.abort();
            if let Ok(Ended::Failed(error)) = ended {
                return Err(error.into());
            }
            self.last_stop = LastStop::Planned;
        }
        Ok(())
    }

    /// Starts the app again, after a kill or a stop, on the store that was left. It reads on from the committed offsets, as from Kafka:
    /// what was not committed comes again.
    ///
    /// # Errors
    /// As [`Rehearsal::start`].
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.kill().await;
        if std::mem::replace(&mut self.last_stop, LastStop::Killed) == LastStop::Planned {
            self.store.close()?;
        }
        self.store = Arc::new(self.store.restart());
        self.begin().await
    }

    /// Moves the group's offset of a topic back, as an operator's replay would. Takes effect at the next restart.
    ///
    /// # Errors
    /// When the app does not read the topic.
    pub fn rewind(&mut self, topic: &str, offset: i64) -> Result<(), Error> {
        self.locked().rewind(topic, offset)
    }

    /// The state of an operation: `new`, `in_doubt`, `applied`, `rejected` or `retryable`.
    ///
    /// # Errors
    /// When that is no key.
    pub fn state(&self, tenant: &str, operation: &str, id: &[&str]) -> Result<&'static str, Error> {
        Ok(self.known(tenant, operation, id)?.receipt.state().label())
    }

    /// Everything that is known of an operation.
    ///
    /// # Errors
    /// When that is no key.
    pub fn known(&self, tenant: &str, operation: &str, id: &[&str]) -> Result<Arc<Known>, Error> {
        let id: Vec<String> = id.iter().map(ToString::to_string).collect();
        let key = OperationKey::new(tenant, operation, &id, Alphabet::Printable)?;
        Ok(self.store.load(&[self.store.derivation().digest(&key)])?.pop().unwrap_or_default())
    }

    /// How many operations have attempts that nobody knows about.
    ///
    /// # Errors
    /// When the store is stopped.
    pub fn in_doubt(&self) -> Result<usize, Error> {
        self.count(Which::InDoubt)
    }

    /// How many operations have a record set aside.
    ///
    /// # Errors
    /// When the store is stopped.
    pub fn parked(&self) -> Result<usize, Error> {
        self.count(Which::Parked)
    }

    /// The dead letters so far, over all starts.
    #[must_use]
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        self.locked().dead_letters()
    }

    /// Through which operators settle; none while the app does not run.
    #[must_use]
    pub fn operators(&self) -> Option<Operators> {
        self.running.as_ref().map(|running| running.operators.clone())
    }

    /// The store, to be looked at or made to fail.
    #[must_use]
    pub fn store(&self) -> &MemoryStore {
        &self.store
    }

    fn count(&self, which: Which) -> Result<usize, Error> {
        let (mut count, mut last) = (0, None);
        loop {
            let page = self.store.list(which, last, PAGE)?;
            let Some((key, _)) = page.last() else { return Ok(count) };
            (count, last) = (count + page.len(), Some(*key));
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Log> {
        log::lock(&self.log)
    }

    /// The reason why the app ended, where it has.
    async fn still_runs(&mut self) -> Result<(), Error> {
        if self.running.as_ref().is_some_and(|running| running.engine.is_finished())
            && let Some(running) = self.running.take()
            && let Ok(Ended::Failed(error)) = running.engine.await
        {
            return Err(error.into());
        }
        Ok(())
    }

    async fn begin(&mut self) -> Result<(), Error> {
        let routes = Arc::new((self.routes)()?);
        let store: Arc<dyn ReceiptStore> = self.store.clone();
        store.bind("rehearsal", "rehearsal")?;
        self.epoch += 1;
        let settings = settings();
        let intake = Arc::new(Intake::new(routes.clone(), store.clone()));
        let ((inbox, incoming), (commands, told)) = (unbounded_channel(), unbounded_channel());
        let credits = Credits::new(settings.partition_records_max, settings.partition_bytes_max);
        let opened = self.open(&intake.topics(), &credits)?;
        let health = Arc::new(Health::default());
        health.partitions(opened.len(), opened.len());
        let parts = Parts {
            producer: Producer::keeping(self.locked().letters(), &settings),
            clock: self.clock.clone(),
            settings,
            routes,
            store,
            health,
            inbox: inbox.clone(),
            commands: Commands::Task(commands),
            credits,
            intake: intake.clone(),
        };
        let consumer_credits = parts.credits.clone();
        let engine = Engine::new(parts)?;
        // The engine holds the other end.
        let _ = inbox.send(Inbox::Assigned(opened));
        let consumer = Consumer {
            log: self.log.clone(),
            moved: self.moved.clone(),
            inbox: inbox.clone(),
            intake: intake.clone(),
            credits: consumer_credits,
        };
        let (end, ended) = oneshot::channel::<()>();
        let engine = tokio::spawn(engine.run(incoming, async {
            // Gone without a word: the rehearsal was dropped, which is an end too.
            let _ = ended.await;
        }));
        let consumer = tokio::spawn(consumer.run(told));
        let operators = Operators::new(inbox.clone());
        self.running = Some(Running { engine, consumer, end, intake, operators, inbox });
        self.hand_over()
    }

    /// Decides where each partition starts, by the rules of a real start, and notes a first one before its first record.
    fn open(&self, topics: &[String], credits: &Credits) -> Result<Vec<Opened>, Error> {
        let marks = self.store.marks();
        let mut opened = Vec::with_capacity(topics.len());
        for (index, name) in topics.iter().enumerate() {
            let partition = Partition { topic: name.as_str().into(), number: 0 };
            let own = marks.get(&partition).copied().unwrap_or_default();
            let mut log = self.locked();
            let topic = log.topic(name);
            let situation = Situation {
                committed: topic.committed.map(|offset| (offset, Writer::ThisStore)),
                low: 0,
                high: topic.end(),
                watermark: own.watermark,
                confirmed: own.committed,
                adopted: own.adopted,
                topic_known: Acquaintance::New,
                first_start: First::Earliest,
                lineage: Lineage::Own,
            };
            let decided = situation.decide();
            let start = decided.map_err(|refusal| super::Error::Refused { partition: partition.clone(), refusal })?;
            let assignment = Assignment { partition: index, epoch: self.epoch };
            topic.begin(assignment, start.offset);
            drop(log);
            if own.watermark.is_none() {
                self.store.append(Batch(vec![Entry::Watermark { slot: partition.slot(start.offset) }]))?;
            }
            credits.open(assignment);
            opened.push(Opened { assignment, partition, start: start.offset, known_complete: start.known_complete });
        }
        Ok(opened)
    }

    /// Hands over what each topic has and the app has not seen in this start.
    fn hand_over(&self) -> Result<(), Error> {
        let Some(running) = &self.running else { return Ok(()) };
        log::hand_over(&self.log, &running.intake, &running.inbox)?;
        Ok(())
    }
}

/// As the defaults are, with bounds that a test does not reach.
fn settings() -> Settings {
    let seconds = Duration::from_secs;
    Settings {
        brokers: String::new(),
        group: "rehearsal".into(),
        group_instance_id: None,
        session_timeout: seconds(45),
        heartbeat_interval: seconds(3),
        poll_interval_max: seconds(300),
        first_start: FirstStart::Earliest,
        client: BTreeMap::new(),
        permits: 64,
        tenant_permits_max: 64,
        waiting_grace: seconds(10),
        partition_records_max: 1_000_000,
        partition_bytes_max: u64::MAX,
        batch_records_max: 1024,
        commit_interval: COMMIT,
        drain_budget: seconds(10),
        stop_deadline: seconds(25),
        lookups_max: 8,
        lookup_time_limit: seconds(30),
        look_up_back_off: (seconds(1), seconds(300)),
        reply_attempts_max: 5,
        reply_time_limit: seconds(10),
        park_record_bytes_max: 16 << 20,
        dead_letter_topic: "rehearsal.dead-letters".into(),
        dead_letter_within: seconds(30),
        error_text: ErrorText::Included,
        header_names: HeaderNames::Receipted,
    }
}
