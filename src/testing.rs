//! Owns what teams test with: records, one of them through its key, its arguments and its handler ([`deliver`]: nothing is remembered
//! between two, so every delivery is the first attempt of its operation); a [`Destination`] with a script; and, where there is a
//! runtime, the whole app with its store and its log in memory ([`Rehearsal`]). It owns no rule.
//!

mod destination;

#[cfg(feature = "kafka")]
pub use crate::runner::rehearsal::{self, DeadLetter, Rehearsal};
pub use destination::{Answers, Booked, Destination, Effect, Fault};

use crate::{
    handler::{AttemptInfo, BoxFuture, Delivery, Identified, Identity, Invalid, Looked, Operation, Record, RoutePlan, Routes},
    protocol::{outcome::Outcome, park::Payload, secret::Derivation},
};
use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        mpsc::{SyncSender, sync_channel},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// How long [`block_on`] waits for a future that nothing wakes.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A record to be delivered in a test.
///
/// ```
/// use receipted::testing::{RecordBuilder, record};
///
/// /// What this team's records have in common; a test adds what it is about.
/// fn charge(id: &str) -> RecordBuilder {
///     record().key("account-7").header("tenant", "acme").json(&serde_json::json!({ "id": id, "cents": 250 }))
/// }
///
/// assert_eq!(charge("c-1").header("type", "charge").build().header("type")?, "charge");
/// # Ok::<(), receipted::handler::Invalid>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct RecordBuilder(Payload);

/// Begins a record; without `.value(..)` or `.json(..)` it is a tombstone.
#[must_use]
pub fn record() -> RecordBuilder {
    RecordBuilder::default()
}

impl RecordBuilder {
    /// Sets the record key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.0.key = Some(key.into());
        self
    }

    /// Sets the value's bytes.
    #[must_use]
    pub fn value(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.0.value = Some(value.into());
        self
    }

    /// Sets the value to the text of a JSON value.
    #[must_use]
    pub fn json(self, value: &serde_json::Value) -> Self {
        self.value(value.to_string())
    }

    /// Appends a header. Bytes that are no UTF-8 are welcome.
    #[must_use]
    pub fn header(mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.0.headers.push((name.into(), Some(value.into())));
        self
    }

    /// Appends a header whose value is null.
    #[must_use]
    pub fn null_header(mut self, name: impl Into<Vec<u8>>) -> Self {
        self.0.headers.push((name.into(), None));
        self
    }

    /// The record as a handler's arguments see it.
    #[must_use]
    pub fn build(self) -> Arc<Record> {
        Arc::new(Record::new(Arc::new(self.0)))
    }

    /// The same, as a runner reads it from `topic`: the fields that identities are made of are read first, and alone.
    #[must_use]
    pub fn build_for(self, routes: &Routes, topic: &str) -> Arc<Record> {
        Arc::new(routes.record(topic, Arc::new(self.0)))
    }
}

impl From<RecordBuilder> for Payload {
    fn from(record: RecordBuilder) -> Self {
        record.0
    }
}

/// What became of a record.
///
/// ```
/// use receipted::{prelude::*, testing::{Delivered, block_on, deliver, record}};
///
/// # async fn ship(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// # let ship = operation("ship.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(ship);
/// # let routes = App::new().topic("orders", ship).with_state(()).build()?;
/// match block_on(deliver(&routes, "orders", record().value(r#"{"id":"o-1"}"#))) {
///     Delivered::Ran(outcome) => assert!(outcome.fact().is_some()), // something is known for certain
///     other => panic!("the handler did not run: {other:?}"),
/// }
/// # Ok::<(), receipted::handler::BuildError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivered {
    /// The route leaves it alone.
    Skipped,
    /// It would go to the dead letters, and why.
    DeadLettered(String),
    /// The handler ran, and this is what became of its effect.
    Ran(Outcome),
}

impl Delivered {
    /// One word: `skipped`, `dead_lettered`, `applied`, `already`, `no_effect`, `rejected`, `unknown`, `panic`.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::DeadLettered(_) => "dead_lettered",
            Self::Ran(outcome) => outcome.label(),
        }
    }
}

/// Delivers one record of `topic` and runs its handler once.
pub async fn deliver(routes: &Routes, topic: &str, record: RecordBuilder) -> Delivered {
    let record = record.build_for(routes, topic);
    let prepared = match routes.identify(topic, &record, &Derivation::Unkeyed) {
        Identified::Skip => return Delivered::Skipped,
        Identified::DeadLetter(reason) => return Delivered::DeadLettered(reason),
        Identified::Invalid(invalid) => Err(invalid),
        Identified::Operation(identity) => {
            plan(routes, &identity).and_then(|plan| Ok((plan.gate(), plan.prepare(delivery(&record, identity))?)))
        }
    };
    match prepared {
        Ok((None, attempt)) => Delivered::Ran(attempt.await),
        Ok((Some(mut gate), attempt)) => match poll_fn(|context| gate.poll_ready(context)).await {
            Ok(()) => Delivered::Ran(gate.call(attempt).await),
            Err(reason) => Delivered::Ran(Outcome::NoEffect(reason)),
        },
        Err(invalid) => Delivered::DeadLettered(invalid.to_string()),
    }
}

/// Asks the route's lookup about the operation that a record of `topic` carries.
///
/// # Errors
/// The lookup's own error; or that the record carries no operation, or its route has no lookup.
pub async fn look_up(routes: &Routes, topic: &str, record: RecordBuilder) -> Looked {
    let record = record.build_for(routes, topic);
    match routes.identify(topic, &record, &Derivation::Unkeyed) {
        Identified::Skip => Err("the record is skipped".into()),
        Identified::DeadLetter(reason) => Err(reason),
        Identified::Invalid(invalid) => Err(invalid.to_string()),
        Identified::Operation(identity) => asked(routes, &record, identity).map_err(|invalid| invalid.to_string())?.await,
    }
}

fn asked(routes: &Routes, record: &Arc<Record>, identity: Identity<'_>) -> Result<BoxFuture<Looked>, Invalid> {
    let plan = plan(routes, &identity)?;
    plan.look_up(delivery(record, identity)).unwrap_or_else(|| Err(Invalid::new("the route has no lookup")))
}

fn plan<'a>(routes: &'a Routes, identity: &Identity<'_>) -> Result<&'a RoutePlan, Invalid> {
    routes.operations().get(identity.route).ok_or_else(|| Invalid::new("the identity is of another app"))
}

fn delivery(record: &Arc<Record>, identity: Identity<'_>) -> Delivery {
    let info = AttemptInfo { correlation: identity.correlation(), ..AttemptInfo::default() };
    let digest = identity.digest;
    Delivery::new(record.clone(), Operation::new(Arc::new(identity.into_key()), digest, info))
}

/// Runs a future to its end on this thread, for handlers that need no runtime of their own.
///
/// # Panics
/// When nothing has woken the future for a minute.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let (wake, woken) = sync_channel(1);
    let waker = Waker::from(Arc::new(Signal(wake)));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        assert!(woken.recv_timeout(WAIT_MAX).is_ok(), "nothing woke the future for {WAIT_MAX:?}; does it need a runtime?");
    }
}

struct Signal(SyncSender<()>);

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        // Full means that it has been woken already.
        let _woken = self.0.try_send(());
    }
}
