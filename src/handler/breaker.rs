//! Owns the circuit breaker: a layer that lets a destination's records wait while it fails, instead of failing them. It does not own
//! what an outcome means, nor retries.

use super::{
    function::{Attempt, BoxFuture},
    gate::Ran,
};
use crate::protocol::{note::DoubtReason, outcome::Outcome};
use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};
use tower_layer::Layer;
use tower_service::Service;

/// Pauses attempts while a destination fails. Clones are one breaker: give the routes of one destination clones of the same.
///
/// After some attempts in a row that ended as *no effect* or *unknown* it opens: nothing new starts, records wait without an admission,
/// and no attempt is used up. When its time is over one attempt of each route may try; the first that ends decides whether it closes or
/// stays open as long again. *Applied* and *rejected* say that the destination works. A panic says nothing about it. A destination that
/// hangs is noticed when its attempts end, or are given up at the route's `detached_max`.
///
/// ```
/// # use receipted::{handler::Breaker, prelude::*};
/// # async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// # async fn refund(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// let bank = Breaker::new("bank").opens_after(3);
/// let charge: Route<()> =
///     operation("charge.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).layer(bank.clone()).handle(charge);
/// let refund: Route<()> =
///     operation("refund.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).layer(bank.clone()).handle(refund);
/// assert!(!bank.is_open()); // for a page of your own; failing charges hold refunds back too
/// ```
#[derive(Debug, Clone)]
pub struct Breaker {
    destination: Arc<str>,
    opens_after: u32,
    stays_open: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    mode: Mode,
    /// One for each route that waits.
    waiting: Vec<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// So many attempts in a row were bad.
    Closed(u32),
    Open(Instant),
    /// Its time was over, and no attempt tries.
    Due,
    /// An attempt tries.
    Trying,
}

impl Default for Mode {
    fn default() -> Self {
        Self::Closed(0)
    }
}

impl Breaker {
    /// A closed one: opens after 5 attempts in a row, for 30 seconds. The name is for the log.
    pub fn new(destination: impl Into<Arc<str>>) -> Self {
        Self { destination: destination.into(), opens_after: 5, stays_open: Duration::from_secs(30), state: Arc::default() }
    }

    /// How many attempts in a row have to end badly; at least one.
    #[must_use]
    pub fn opens_after(self, attempts: u32) -> Self {
        Self { opens_after: attempts.max(1), ..self }
    }

    /// How long nothing new starts then.
    #[must_use]
    pub fn stays_open(self, time: Duration) -> Self {
        Self { stays_open: time, ..self }
    }

    /// Whether attempts are held back now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.lock().mode, Mode::Open(_) | Mode::Trying)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, mut state: MutexGuard<'_, State>, mode: Mode) {
        state.mode = mode;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn open(&self, state: MutexGuard<'_, State>) {
        tracing::warn!(destination = &*self.destination, open_for = ?self.stays_open, "the destination fails: its records wait");
        self.set(state, Mode::Open(Instant::now() + self.stays_open));
    }

    fn ended(&self, trial: Trial, health: Health) {
        let state = self.lock();
        match (state.mode, trial, health) {
            (Mode::Trying, Trial::Yes, Health::Unsaid) => self.set(state, Mode::Due),
            (Mode::Trying, Trial::Yes, Health::Good) => {
                tracing::info!(destination = &*self.destination, "the destination works again");
                self.set(state, Mode::Closed(0));
            }
            (Mode::Trying, Trial::Yes, Health::Bad) => self.open(state),
            (Mode::Closed(_), _, Health::Good) => self.set(state, Mode::Closed(0)),
            (Mode::Closed(before), _, Health::Bad) if before + 1 >= self.opens_after => self.open(state),
            (Mode::Closed(before), _, Health::Bad) => self.set(state, Mode::Closed(before + 1)),
            // Of an attempt that began before, or nothing that speaks of the destination.
            (Mode::Closed(_) | Mode::Open(_) | Mode::Due | Mode::Trying, ..) => {}
        }
    }
}

/// Whether an attempt is the one that a breaker waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    Yes,
    No,
}

/// What an attempt's end says of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    Bad,
    Unsaid,
}

impl Health {
    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Applied(_) | Outcome::Rejected(_) => Self::Good,
            Outcome::Unknown(DoubtReason::Panic, _) => Self::Unsaid,
            Outcome::NoEffect(_) | Outcome::Unknown(..) => Self::Bad,
        }
    }
}

impl<S> Layer<S> for Breaker {
    type Service = Breaking<S>;

    fn layer(&self, inner: S) -> Breaking<S> {
        Breaking { inner, breaker: self.clone(), sleep: None }
    }
}

/// A service behind a [`Breaker`].
#[derive(Debug)]
pub struct Breaking<S> {
    inner: S,
    breaker: Breaker,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<S> Breaking<S> {
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut state = self.breaker.lock();
            let until = match state.mode {
                Mode::Closed(_) | Mode::Due => return Poll::Ready(()),
                Mode::Open(until) => Some(until),
                Mode::Trying => None,
            };
            if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                state.waiting.push(context.waker().clone());
            }
            drop(state);
            let Some(until) = until else { return Poll::Pending };
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if sleep.deadline() != until {
                sleep.as_mut().reset(until);
            }
            ready!(sleep.as_mut().poll(context));
            self.sleep = None;
            let state = self.breaker.lock();
            if state.mode == Mode::Open(until) {
                self.breaker.set(state, Mode::Due);
            }
        }
    }
}

impl<S> Service<Attempt> for Breaking<S>
where
    S: Service<Attempt, Response = Ran, Error: Send, Future: Send + 'static>,
{
    type Response = Ran;
    type Error = S::Error;
    type Future = BoxFuture<Result<Ran, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        ready!(self.poll_closed(context));
        self.inner.poll_ready(context)
    }

    fn call(&mut self, attempt: Attempt) -> Self::Future {
        let mut state = self.breaker.lock();
        let trial = if state.mode == Mode::Due { Trial::Yes } else { Trial::No };
        if trial == Trial::Yes {
            state.mode = Mode::Trying;
        }
        drop(state);
        let mut watched = Watched { breaker: self.breaker.clone(), trial, health: Health::Unsaid };
        let run = self.inner.call(attempt);
        Box::pin(async move {
            // Dropped from here on, it has begun, and the destination did not answer.
            watched.says(Health::Bad);
            let ran = run.await;
            watched.says(ran.as_ref().map_or(Health::Unsaid, |ran| Health::of(ran.outcome())));
            ran
        })
    }
}

/// Tells the breaker how an attempt ended, also where its future is dropped.
struct Watched {
    breaker: Breaker,
    trial: Trial,
    health: Health,
}

impl Watched {
    fn says(&mut self, health: Health) {
        self.health = health;
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.breaker.ended(self.trial, self.health);
    }
}
