//! Owns what stands between the runner and a route's handler where the route has layers: asked before an attempt is admitted whether one
//! may start, then given the attempt. It does not own when it is asked, nor what an outcome means.

use super::{
    function::{Attempt, BoxFuture},
    guard::guarded,
    link,
    outcome::Failure,
};
use crate::protocol::outcome::Outcome;
use std::{
    sync::Arc,
    task::{Context, Poll},
};

/// That an attempt ran to its end, and what it said: only the attempt itself makes one.
///
/// ```
/// # use receipted::{handler::Ran, protocol::outcome::Outcome};
/// /// In a layer of your own: whether the destination answers.
/// fn answers(ran: &Ran) -> bool {
///     matches!(ran.outcome(), Outcome::Applied(_) | Outcome::Rejected(_))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    outcome: Outcome,
}

impl Ran {
    /// What the attempt said.
    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }
}

/// A route's layers over its attempts, their types erased.
pub(super) trait Gate: Send {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>>;
    fn call(&mut self, attempt: Attempt) -> BoxFuture<Result<Ran, Failure>>;
}

pub(super) type BoxGate = Box<dyn Gate>;
/// One layer.
pub(super) type Wrap = Arc<dyn Fn(BoxGate) -> BoxGate + Send + Sync>;

/// The innermost: always ready, and runs the attempt.
struct Plain;

impl Gate for Plain {
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, attempt: Attempt) -> BoxFuture<Result<Ran, Failure>> {
        Box::pin(async move { Ok(Ran { outcome: attempt.await }) })
    }
}

/// A route's layers as a runner holds them. No panic of theirs leaves it.
pub(crate) struct Gated {
    layers: Vec<Wrap>,
    gate: Option<BoxGate>,
}

impl Gated {
    pub(super) fn new(layers: Vec<Wrap>) -> Self {
        Self { layers, gate: None }
    }

    /// Whether one attempt may start now. Once it may, it may until [`Self::call`].
    ///
    /// # Errors
    /// A layer's own words. Its service is made afresh the next time, as services that failed have to be.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), String>> {
        let Self { layers, gate } = self;
        let made = || layers.iter().fold(Box::new(Plain) as BoxGate, |inner, wrap| wrap(inner));
        let polled = match guarded(|| gate.get_or_insert_with(made).poll_ready(context)) {
            Ok(polled) => polled.map_err(Failure::text),
            Err(panic) => Poll::Ready(Err(format!("a layer panicked: {panic}"))),
        };
        if let Poll::Ready(Err(_)) = polled {
            self.discard();
        }
        polled
    }

    /// The attempt with the layers around it. Nothing of the handler runs before it is polled, whatever they do.
    pub(crate) fn call(&mut self, attempt: Attempt) -> Attempt {
        let operation = attempt.operation.clone();
        let (inner, outer) = link::linked(attempt);
        let called = match (self.gate.as_mut(), inner) {
            (Some(gate), inner) => guarded(|| gate.call(inner)),
            (None, _) => Err("it was called before it was ready".into()),
        };
        if called.is_err() {
            self.discard();
        }
        Attempt::new(operation, Box::pin(outer.over(called)))
    }

    fn discard(&mut self) {
        let gate = self.gate.take();
        // A panic of its destructor changes nothing: it is gone.
        let _gone = guarded(|| drop(gate));
    }
}
