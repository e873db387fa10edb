//! Owns what a route declares about its operation: where the key comes from, what must not change, and its policies. Incomplete until
//! `.handle(..)`. It does not check values; that is `build`.

use super::{
    contract::{Contract, hold},
    function::{Arguments, Code, Function, Prepare, prepare},
    gate::Wrap,
    outcome::{BoxError, IntoOutcome},
    parameters::Parameters,
    part::{IntoId, IntoPart, Part},
    reply::{ReplyArguments, ReplyHook},
    route::Route,
};
use crate::protocol::{
    key::Alphabet,
    outcome::Outcome,
    policy::{BackOff, FreshKey, OnConflict, OnExpired, Policy},
};
use std::{sync::Arc, time::Duration};

/// Bytes of JSON of an answer that are kept where the route says nothing.
pub const ANSWER_BYTES_DEFAULT: usize = 512;

/// A part of the declaration that is there. It holds for everything that is no `No…`.
///
/// Of the parts of [`NeedsHandler`].
#[diagnostic::on_unimplemented(
    message = "this operation is not complete: `{Self}`",
    label = "comes after `.tenant(..)`, `.id(..)` and `.fingerprint(..)`",
    note = "only one tenant: `.tenant(fixed(\"acme\"))`; nothing to compare: `.fingerprint(unchecked(\"why\"))`"
)]
pub trait Given<T> {
    /// The part.
    fn given(self) -> T;
}

impl Given<Part> for Part {
    fn given(self) -> Part {
        self
    }
}

impl Given<Vec<Part>> for Vec<Part> {
    fn given(self) -> Vec<Part> {
        self
    }
}

impl Given<Parameters> for Parameters {
    fn given(self) -> Parameters {
        self
    }
}

/// Missing: `.tenant(..)`.
/// See [`NeedsHandler`].
#[derive(Debug)]
pub struct NoTenant;
/// Missing: `.id(..)`.
/// See [`NeedsHandler`].
#[derive(Debug)]
pub struct NoId;
/// Missing: `.fingerprint(..)`.
/// See [`NeedsHandler`].
#[derive(Debug)]
pub struct NoFingerprint;

/// An operation that needs `.handle(..)`. Tenant, id and fingerprint are required, in any order; all else has a default.
///
/// ```
/// # use receipted::prelude::*;
/// # use std::time::Duration;
/// # async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// let charge: Route<()> = operation("charge.v2")
///     .fingerprint(json_fields(["/account", "/cents"]))
///     .id(json("/charge_id"))
///     .tenant(header("tenant"))                  // the three that are required, in any order
///     .formerly("charge.v1")                     // what was charged under the older name is not charged again
///     .time_limit(Duration::from_secs(10))
///     .on_conflict(OnConflict::DeadLetter)
///     .handle(charge);
/// ```
#[must_use = "an operation without `.handle(..)` is no route"]
pub struct NeedsHandler<S, T = NoTenant, I = NoId, F = NoFingerprint> {
    name: &'static str,
    tenant: T,
    id: I,
    parameters: F,
    options: Options<S>,
}

/// What has a default.
pub(super) struct Options<S> {
    pub(super) alphabet: Alphabet,
    pub(super) formerly: Vec<&'static str>,
    pub(super) contract: Contract<S>,
    pub(super) correlation: Option<Part>,
    pub(super) answer_bytes_max: usize,
    pub(super) reply: Option<ReplyHook<S>>,
    pub(super) detached_max: Option<Duration>,
    /// The innermost first, each with its name.
    pub(super) layers: Vec<(&'static str, Wrap)>,
    /// Without contract, `detached_max` and margin, which follow from the rest at build.
    pub(super) policy: Policy,
}

/// A complete declaration.
pub(super) struct Declaration<S> {
    pub(super) name: &'static str,
    pub(super) tenant: Part,
    pub(super) id: Vec<Part>,
    pub(super) parameters: Parameters,
    pub(super) options: Options<S>,
    pub(super) handler: Prepare<S, Outcome>,
    pub(super) code: Code,
    pub(super) passes_key: PassesKey,
}

/// Whether a handler can pass the provider key on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassesKey {
    /// It takes the `Operation`.
    Can,
    /// It does not.
    Cannot,
}

/// Begins the declaration of an operation. The name ends with its version: a changed meaning is another operation.
pub fn operation<S>(name: &'static str) -> NeedsHandler<S> {
    let options = Options {
        alphabet: Alphabet::Token,
        formerly: Vec::new(),
        contract: hold(),
        correlation: None,
        answer_bytes_max: ANSWER_BYTES_DEFAULT,
        reply: None,
        detached_max: None,
        layers: Vec::new(),
        policy: Policy::default(),
    };
    NeedsHandler { name, tenant: NoTenant, id: NoId, parameters: NoFingerprint, options }
}

impl<S, I, F> NeedsHandler<S, NoTenant, I, F> {
    /// Where the tenant comes from. `fixed("acme")` where there is only one.
    pub fn tenant(self, part: impl IntoPart) -> NeedsHandler<S, Part, I, F> {
        let Self { name, id, parameters, options, .. } = self;
        NeedsHandler { name, tenant: part.into_part(), id, parameters, options }
    }
}

impl<S, T, F> NeedsHandler<S, T, NoId, F> {
    /// Where the business id comes from: one part, or an array of parts, which are never joined.
    pub fn id(self, id: impl IntoId) -> NeedsHandler<S, T, Vec<Part>, F> {
        let Self { name, tenant, parameters, options, .. } = self;
        NeedsHandler { name, tenant, id: id.into_id(), parameters, options }
    }
}

impl<S, T, I> NeedsHandler<S, T, I, NoFingerprint> {
    /// Which parameters must not change under one key: `json_fields([..])`, `whole_value()` or `unchecked("why")`.
    pub fn fingerprint(self, parameters: Parameters) -> NeedsHandler<S, T, I, Parameters> {
        let Self { name, tenant, id, options, .. } = self;
        NeedsHandler { name, tenant, id, parameters, options }
    }
}

impl<S, T, I, F> NeedsHandler<S, T, I, F> {
    fn with(mut self, change: impl FnOnce(&mut Options<S>)) -> Self {
        change(&mut self.options);
        self
    }

    /// Which characters the parts of the key may hold. `Alphabet::Token` by default.
    pub fn alphabet(self, alphabet: Alphabet) -> Self {
        self.with(|options| options.alphabet = alphabet)
    }

    /// An older name of the same operation: what is known under it counts too. May be said more than once.
    pub fn formerly(self, name: &'static str) -> Self {
        self.with(|options| options.formerly.push(name))
    }

    /// What becomes of an attempt in doubt. `hold()` by default.
    pub fn in_doubt(self, contract: Contract<S>) -> Self {
        self.with(|options| options.contract = contract)
    }

    /// How long the handler may run before its attempt counts as unknown. 30 seconds by default.
    pub fn time_limit(self, limit: Duration) -> Self {
        self.with(|options| options.policy.time_limit = limit)
    }

    /// How long a timed-out future is kept for its late answer, from its start. Ten times the time limit by default.
    pub fn detached_max(self, max: Duration) -> Self {
        self.with(|options| options.detached_max = Some(max))
    }

    /// How many attempts one record may use up. 10 by default.
    pub fn attempts_max(self, max: u32) -> Self {
        self.with(|options| options.policy.attempts_max = max)
    }

    /// The wait after the first attempt without effect, doubled each time up to `max`. 100 ms and 30 s by default.
    pub fn back_off(self, first: Duration, max: Duration) -> Self {
        self.with(|options| options.policy.back_off = BackOff { first, max, ..options.policy.back_off })
    }

    /// How long after a record's first attempt its attempts are over. One hour by default.
    pub fn give_up(self, after: Duration) -> Self {
        self.with(|options| options.policy.back_off.give_up = after)
    }

    /// How many unresolved operations the route may have before it pauses with an alert. 1,000 by default.
    pub fn unresolved_max(self, max: u32) -> Self {
        self.with(|options| options.policy.unresolved_max = max)
    }

    /// What becomes of a record whose operation is known with other parameters. Parked by default.
    pub fn on_conflict(self, policy: OnConflict) -> Self {
        self.with(|options| options.policy.on_conflict = policy)
    }

    /// What becomes of a record whose receipt was pruned. Parked by default.
    pub fn on_expired(self, policy: OnExpired) -> Self {
        self.with(|options| options.policy.on_expired = policy)
    }

    /// Where the correlation id comes from. The header `x-correlation-id` by default; without one, the trace id of `traceparent`.
    pub fn correlation(self, part: impl IntoPart) -> Self {
        self.with(|options| options.correlation = Some(part.into_part()))
    }

    /// How many bytes of JSON of an answer are kept. 512 by default, 4,096 at most.
    pub fn answer_bytes_max(self, max: usize) -> Self {
        self.with(|options| options.answer_bytes_max = max)
    }

    /// Uses another provider key after a stated *no effect*, for destinations that replay stored errors under a key. Never while an
    /// attempt is in doubt.
    pub fn fresh_key_after_no_effect(self) -> Self {
        self.with(|options| options.policy.fresh_key_after_no_effect = FreshKey::AfterNoEffect)
    }

    /// A function that hands the operation's answer on: called at least once, before the record counts as handled.
    pub fn reply<H, A, E>(self, hook: H) -> Self
    where
        H: Function<A, Output: Future<Output = Result<(), E>> + Send>,
        A: ReplyArguments<S>,
        E: Into<BoxError> + 'static,
    {
        self.with(|options| options.reply = Some(ReplyHook::new(hook)))
    }

    /// Puts a layer of tower around the attempts; the last one is outermost. While it is not ready the route's records wait without an
    /// admission. What became of an effect is the handler's word, whatever a layer says; see [`layer`](super::layer).
    #[cfg(feature = "tower")]
    pub fn layer<L: super::AttemptLayer>(self, layer: L) -> Self {
        let wrap: Wrap = Arc::new(move |inner| layer.around(super::Attempts::new(inner)).into_gate());
        self.with(|options| options.layers.push((std::any::type_name::<L>(), wrap)))
    }

    /// Completes the route with its handler: an `async fn` of extractors that answers `Result<Applied<_>, _>`.
    pub fn handle<H, A>(self, handler: H) -> Route<S>
    where
        T: Given<Part>,
        I: Given<Vec<Part>>,
        F: Given<Parameters>,
        H: Function<A, Output: Future<Output: IntoOutcome> + Send>,
        A: Arguments<S>,
    {
        Route::of(Arc::new(Declaration {
            name: self.name,
            tenant: self.tenant.given(),
            id: self.id.given(),
            parameters: self.parameters.given(),
            options: self.options,
            handler: prepare(handler, IntoOutcome::into_outcome),
            code: Code::of::<H>(),
            passes_key: if A::GIVE_OPERATION { PassesKey::Can } else { PassesKey::Cannot },
        }))
    }
}
