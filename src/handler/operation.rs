//! Owns what a handler learns about the operation that it runs for, and the delivery that carries it. It decides nothing.

use super::record::Record;
use crate::protocol::key::{KeyDigest, OperationKey, ProviderKey};
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// Whether a delivery is the first of its operation.
///
/// See [`AttemptInfo`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replay {
    /// Nothing was known about the operation.
    #[default]
    First,
    /// It was known: an earlier attempt, or an earlier delivery.
    Repeat,
}

/// What the runner knows about the attempt that an [`Operation`] is made for.
///
/// ```
/// use receipted::{handler::{AttemptInfo, Replay}, prelude::*, protocol::{key::OperationKey, secret::Derivation}};
///
/// /// For tests of what a handler does on its second attempt.
/// fn second_attempt(id: &str) -> Result<Operation, BoxError> {
///     let key = OperationKey::new("acme", "charge.v1", &[id.to_string()], Alphabet::Token)?;
///     let digest = Derivation::Unkeyed.digest(&key);
///     let info = AttemptInfo { number: 2, token: 2, replay: Replay::Repeat, ..AttemptInfo::default() };
///     Ok(Operation::new(key.into(), digest, info))
/// }
///
/// assert!(second_attempt("c-1")?.is_replay());
/// # Ok::<(), BoxError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptInfo {
    /// The attempt's number; 1 for the first of an operation.
    pub number: u32,
    /// The token for destinations that fence: larger for a later attempt of the same operation.
    pub token: u64,
    /// The generation of the provider key. In a lookup, that of the attempt asked about.
    pub key_generation: u32,
    /// The correlation id, where the record had one.
    pub correlation: Option<String>,
    /// Whether the operation was known before this delivery.
    pub replay: Replay,
}

impl Default for AttemptInfo {
    fn default() -> Self {
        Self { number: 1, token: 1, key_generation: 0, correlation: None, replay: Replay::First }
    }
}

/// The operation that a handler runs for. Cheap to clone; prints its digest only, for a key may be personal data.
///
/// ```
/// # use receipted::prelude::*;
/// # async fn post(_: &str, _: &str, _: u64) -> Result<String, std::io::Error> { Ok("id".into()) }
/// async fn open_account(op: Operation) -> Result<Applied, Failure> {
///     let [customer] = op.id() else { return Err(Failure::rejected("an id of one part")) };
///     // The same key in every attempt: a destination that deduplicates has the effect once. One that fences goes by the token.
///     let id = post(customer, op.provider_key(), op.fencing_token()).await?;
///     Ok(Applied::new(id, ()))
/// }
/// # let _: Route<()> = operation("open.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).handle(open_account);
/// ```
#[derive(Clone)]
pub struct Operation(Arc<About>);

struct About {
    key: Arc<OperationKey>,
    digest: KeyDigest,
    info: AttemptInfo,
    provider_key: OnceLock<ProviderKey>,
}

impl Operation {
    /// Describes one attempt of the operation with this key, and the digest under which the store knows it.
    #[must_use]
    pub fn new(key: Arc<OperationKey>, digest: KeyDigest, info: AttemptInfo) -> Self {
        Self(Arc::new(About { key, digest, info, provider_key: OnceLock::new() }))
    }

    /// The tenant.
    #[must_use]
    pub fn tenant(&self) -> &str {
        self.0.key.tenant()
    }

    /// The operation's name with its version.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.key.operation()
    }

    /// The business id, part by part: one part, unless the route's id is an array.
    #[must_use]
    pub fn id(&self) -> &[String] {
        self.0.key.id()
    }

    /// The digest that logs, metrics and headers carry.
    #[must_use]
    pub fn digest(&self) -> KeyDigest {
        self.0.digest
    }

    /// The idempotency key to give to the destination: `rk1-` and 48 digits, the same over retries, replays and restarts.
    #[must_use]
    pub fn provider_key(&self) -> &str {
        &self.keys().text
    }

    /// The same as a UUID, for destinations that take nothing else.
    #[must_use]
    pub fn provider_uuid(&self) -> uuid::Uuid {
        self.keys().uuid
    }

    /// The attempt's number; 1 for the first.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.info.number
    }

    /// The correlation id, where the record had one.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&str> {
        self.0.info.correlation.as_deref()
    }

    /// Whether the operation was known before this delivery.
    #[must_use]
    pub fn is_replay(&self) -> bool {
        self.0.info.replay == Replay::Repeat
    }

    /// The token for destinations that fence: they refuse a smaller one than they have seen for the same operation.
    #[must_use]
    pub fn fencing_token(&self) -> u64 {
        self.0.info.token
    }

    /// Whether anybody has asked for the key to give to the destination.
    #[cfg(feature = "kafka")]
    pub(crate) fn key_was_taken(&self) -> bool {
        self.0.provider_key.get().is_some()
    }

    fn keys(&self) -> &ProviderKey {
        self.0.provider_key.get_or_init(|| self.0.key.provider_key(self.0.info.key_generation))
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operation({}, attempt {})", self.digest(), self.attempt())
    }
}

/// One arrival of a record, with the operation that it carries: what arguments are made of. Not `Clone`.
///
/// An argument of your own is made of it: [`FromDelivery`](super::FromDelivery).
pub struct Delivery {
    record: Arc<Record>,
    operation: Operation,
}

impl Delivery {
    /// Joins a record and the operation that it was found to carry.
    #[must_use]
    pub fn new(record: Arc<Record>, operation: Operation) -> Self {
        Self { record, operation }
    }

    /// The record.
    #[must_use]
    pub fn record(&self) -> &Arc<Record> {
        &self.record
    }

    /// The operation.
    #[must_use]
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    pub(super) fn into_operation(self) -> Operation {
        self.operation
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("operation", &self.operation).finish_non_exhaustive()
    }
}
