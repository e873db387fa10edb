//! Owns the journey on Kafka: a consumer thread, an engine that drives the machine, and tasks for handlers, lookups and dead letters.
//! Every rule is `protocol`'s; this performs.
//!
//! Working alone, one process owns every partition of its topics. The store's directory lock is the fence; static membership fences
//! a copy at the broker; a second member is refused.

mod assignment;
mod clock;
mod committed;
mod complaints;
mod consumer;
mod context;
mod credit;
mod engine;
mod error;
mod gates;
mod group;
mod headers;
mod health;
mod inbox;
mod intake;
mod native;
mod observe;
mod operator;
mod partitions;
mod perform;
mod producer;
pub mod rehearsal;
mod settings;
mod spare;
mod survey;

pub use committed::committed;
pub use error::Error;
pub use health::Health;
pub use operator::{Operator, Operators};
pub use partitions::{PartitionAsk, PartitionLine, Reading, Word};
pub use settings::{ErrorText, FirstStart, Settings};
pub use survey::{Found, Verdict, survey};

use self::{
    clock::Clock,
    consumer::ConsumerThread,
    context::Context,
    credit::Credits,
    engine::{Ended, Engine},
    inbox::{Inbox, Teller},
    intake::Intake,
    producer::Producer,
};
use crate::{
    handler::Routes,
    store::{self, ReceiptStore},
};
use std::{sync::Arc, thread};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A runner that is set up and not started: its operators' handle and its health can be given out before it runs.
///
/// ```
/// use receipted::{handler::Routes, runner::{Error, Runner, Settings}, store::ReceiptStore};
/// use std::sync::Arc;
///
/// /// In a program that has its settings and its store from elsewhere. (`receipted::serve` does this, with metrics and an operator socket.)
/// async fn run(settings: Settings, routes: Routes, store: Arc<dyn ReceiptStore>) -> Result<(), Error> {
///     let runner = Runner::new(settings, Arc::new(routes), store);
///     let health = runner.health(); // give it to a page before it runs
///     let end = async { drop(tokio::signal::ctrl_c().await) };
///     runner.run(end).await // facts are durable and offsets committed: now close the store
/// }
/// ```
pub struct Runner {
    settings: Settings,
    routes: Arc<Routes>,
    store: Arc<dyn ReceiptStore>,
    health: Arc<Health>,
    inbox: UnboundedSender<Inbox>,
    incoming: UnboundedReceiver<Inbox>,
}

impl Runner {
    /// Sets a runner up. Touches neither the broker nor the store.
    #[must_use]
    pub fn new(settings: Settings, routes: Arc<Routes>, store: Arc<dyn ReceiptStore>) -> Self {
        let (inbox, incoming) = unbounded_channel();
        Self { settings, routes, store, health: Arc::default(), inbox, incoming }
    }

    /// What live and ready say.
    #[must_use]
    pub fn health(&self) -> Arc<Health> {
        self.health.clone()
    }

    /// Through which operators change state.
    #[must_use]
    pub fn operators(&self) -> Operators {
        Operators::new(self.inbox.clone())
    }

    /// Runs until `end`, then drains: facts are durable and offsets committed when it returns, as far as the stop deadline allows.
    /// The caller closes the store.
    ///
    /// # Errors
    /// Before it touches the broker, when a client setting is receipted's own, the app reads its own dead letters, the store was imported and an offset is not adopted, or it fails its self-test. When the process must end: the store failed, the broker refused, another member has partitions, or the log makes no sense.
    /// Receipts are durable all the same, and a restart goes on from there.
    pub async fn run(self, end: impl Future<Output = ()>) -> Result<(), Error> {
        self.settings.check(self.routes.topics().map(|(topic, _)| topic))?;
        // Before a first partition is ours: from then on what is parked is taken up, whatever the offsets say.
        Error::unverified(&*self.store)?;
        let probed = self.store.clone();
        let tested = tokio::task::spawn_blocking(move || store::self_test(&*probed)).await;
        tested.map_err(|error| Error::Client { detail: format!("self-test of the store: {error}") })??;
        let (settings, store) = (self.settings.clone(), self.store.clone());
        let (commands, received) = std::sync::mpsc::channel();
        let credits = Credits::new(settings.partition_records_max, settings.partition_bytes_max);
        let context = Context::new(settings, store, self.inbox.clone(), received);
        let intake = Arc::new(Intake::new(self.routes.clone(), self.store.clone()));
        let thread_intake = intake.clone();
        let (thread_credits, thread_health, thread_inbox) = (credits.clone(), self.health.clone(), self.inbox.clone());
        let panicked = || Inbox::Stopped(Err(Error::Client { detail: "the consumer thread panicked".into() }));
        let teller = Teller::new(thread_inbox, panicked);
        let spawned = thread::Builder::new().name("receipted-consumer".into()).spawn(move || {
            let ended = ConsumerThread::connect(context, thread_intake, thread_credits, thread_health).and_then(ConsumerThread::run);
            teller.tell(Inbox::Stopped(ended));
        });
        let consumer = spawned.map_err(|source| Error::Client { detail: format!("consumer thread: {source}") })?.thread().clone();
        let producer = Producer::new(&self.settings, &self.store.identity().store_id)?;
        let parts = engine::Parts {
            producer,
            clock: Clock::start(),
            settings: self.settings,
            routes: self.routes,
            store: self.store,
            health: self.health,
            inbox: self.inbox,
            commands: inbox::Commands::Thread(commands, consumer),
            credits,
            intake,
        };
        match Engine::new(parts)?.run(self.incoming, end).await {
            Ended::Stopped => Ok(()),
            Ended::Failed(error) => Err(error),
        }
    }
}
