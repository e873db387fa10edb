//! Owns layers of tower around a route's attempts: which ones there can be, and how what they say becomes a gate. It does not own when
//! an attempt starts. Layers have a say before the admission ([`Service::poll_ready`]: not ready means that records wait) and around
//! the handler's future; what became of the effect is the handler's word alone, and *unknown* where a layer drops it.
//!
//! ```
//! use receipted::{handler::Breaker, prelude::*};
//! use std::time::Duration;
//! use tower::limit::{ConcurrencyLimitLayer, RateLimitLayer};
//!
//! # async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
//! let bank = Breaker::new("bank").opens_after(5).stays_open(Duration::from_secs(30));
//! let route: Route<()> = operation("charge.v1")
//!     .tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value())
//!     .layer(bank)                                                // innermost: nearest to the handler
//!     .layer(ConcurrencyLimitLayer::new(8))
//!     .layer(RateLimitLayer::new(100, Duration::from_secs(1)))    // outermost
//!     .handle(charge);
//! ```
//!
//! A time limit is the route's (`.time_limit(..)`), and no layer: one would drop what the handler knows.
//!
//! ```compile_fail,E0277
//! # use receipted::prelude::*;
//! # use std::time::Duration;
//! # async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
//! let route: Route<()> = operation("charge.v1")
//!     .tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value())
//!     .layer(tower::timeout::TimeoutLayer::new(Duration::from_secs(1)))
//!     .handle(charge);
//! ```

use super::{
    function::{Attempt, BoxFuture},
    gate::{BoxGate, Gate, Ran},
    outcome::{Failure, IntoFailure},
};
use std::{
    fmt,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// What a layer goes around: the handler with the layers nearer to it. Not `Clone`, and neither is an [`Attempt`], so that no layer can
/// have the effect twice.
///
/// ```
/// use receipted::handler::{Attempt, Attempts, BoxFuture, LayerFailure, Ran};
/// use std::task::{Context, Poll};
///
/// /// A layer of your own: it counts what begins.
/// #[derive(Clone, Default)]
/// struct Count(std::sync::Arc<std::sync::atomic::AtomicU32>);
/// struct Counting(Count, Attempts);
///
/// impl tower::Layer<Attempts> for Count {
///     type Service = Counting;
///     fn layer(&self, inner: Attempts) -> Counting { Counting(self.clone(), inner) }
/// }
///
/// impl tower::Service<Attempt> for Counting {
///     type Response = Ran;
///     type Error = LayerFailure;
///     type Future = BoxFuture<Result<Ran, LayerFailure>>;
///     fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), LayerFailure>> { self.1.poll_ready(context) }
///     fn call(&mut self, attempt: Attempt) -> Self::Future {
///         self.0.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///         self.1.call(attempt)
///     }
/// }
/// # use receipted::prelude::*;
/// # async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// # let count = Count::default();
/// # let charge = operation("c.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).layer(count.clone()).handle(charge);
/// # let routes = App::new().topic("t", charge).with_state(()).build().unwrap();
/// # let record = receipted::testing::record().value(r#"{"id":1}"#);
/// # receipted::testing::block_on(receipted::testing::deliver(&routes, "t", record));
/// # assert_eq!(count.0.load(std::sync::atomic::Ordering::Relaxed), 1);
/// ```
pub struct Attempts(BoxGate);

impl Attempts {
    pub(super) fn new(gate: BoxGate) -> Self {
        Self(gate)
    }

    pub(super) fn into_gate(self) -> BoxGate {
        self.0
    }
}

impl fmt::Debug for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attempts")
    }
}

impl Service<Attempt> for Attempts {
    type Response = Ran;
    type Error = LayerFailure;
    type Future = BoxFuture<Result<Ran, LayerFailure>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), LayerFailure>> {
        self.0.poll_ready(context).map_err(LayerFailure)
    }

    fn call(&mut self, attempt: Attempt) -> Self::Future {
        let run = self.0.call(attempt);
        Box::pin(async move { run.await.map_err(LayerFailure) })
    }
}

/// What a layer nearer to the handler failed with. The handler itself never fails here: its failures are outcomes.
///
/// A layer of your own that passes it on: [`Attempts`].
#[derive(Debug)]
pub struct LayerFailure(Failure);

impl fmt::Display for LayerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.reason().fmt(f)
    }
}

impl std::error::Error for LayerFailure {}

impl IntoFailure for LayerFailure {
    fn into_failure(self) -> Failure {
        self.0
    }
}

/// A layer that a route can have: its service takes an [`Attempt`], answers with the [`Ran`] of the one in it, and fails with an
/// [`IntoFailure`]. What it fails with counts where the handler did not begin; else the handler's own outcome does, and *unknown* where
/// that was dropped.
///
/// A layer of your own: [`Attempts`]; layers that are there already: [`layer`](self).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a layer of a route",
    label = "no layer over `Attempts` whose failures say what became of the effect",
    note = "its service takes an `Attempt`, answers with the `Ran` of the service in it, and fails with an `IntoFailure`: `LayerFailure`, or a type of yours that says for each variant what it means",
    note = "a time limit is the route's, and no layer, which would drop what the handler knows: write `.time_limit(..)`",
    note = "to shed load is no layer either: not being ready lets records wait, which loses none"
)]
pub trait AttemptLayer: Send + Sync + 'static {
    /// Puts the layer around `inner`.
    fn around(&self, inner: Attempts) -> Attempts;
}

#[diagnostic::do_not_recommend]
impl<L> AttemptLayer for L
where
    L: Layer<Attempts> + Send + Sync + 'static,
    L::Service: Service<Attempt, Response = Ran, Error: IntoFailure, Future: Send + 'static> + Send + 'static,
{
    fn around(&self, inner: Attempts) -> Attempts {
        Attempts(Box::new(Layered(self.layer(inner))))
    }
}

struct Layered<S>(S);

impl<S> Gate for Layered<S>
where
    S: Service<Attempt, Response = Ran, Error: IntoFailure, Future: Send + 'static> + Send + 'static,
{
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.0.poll_ready(context).map_err(IntoFailure::into_failure)
    }

    fn call(&mut self, attempt: Attempt) -> BoxFuture<Result<Ran, Failure>> {
        let run = self.0.call(attempt);
        Box::pin(async move { run.await.map_err(IntoFailure::into_failure) })
    }
}
