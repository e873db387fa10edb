//! Owns the truth about an attempt that layers carry: whether it began, whether it ended and as what, whoever holds its future. A layer
//! can hold an answer back, drop it or make one up; what became of the effect is known from here.

use super::{
    function::{Attempt, BoxFuture, Running},
    gate::Ran,
    guard::Guarded,
    outcome::Failure,
};
use crate::protocol::{
    note::{DoubtReason, REASON_BYTES_MAX, cut},
    outcome::Outcome,
};
use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// Both ends of an attempt: the one that layers get, and the one that the runner polls.
pub(super) fn linked(attempt: Attempt) -> (Attempt, Outer) {
    let link = Arc::new(Link::default());
    let operation = attempt.operation.clone();
    let inner = Inner { run: Some(attempt.into_future()), link: link.clone() };
    (Attempt::new(operation, Box::pin(inner)), Outer { link })
}

#[derive(Default)]
struct Link(Mutex<State>);

#[derive(Default)]
struct State {
    permission: Permission,
    inner: Stage,
    inner_waker: Option<Waker>,
    outer_waker: Option<Waker>,
}

/// What the runner says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Permission {
    /// The admission is not durable yet.
    #[default]
    Awaited,
    Given,
    /// Nobody waits for an outcome any more.
    Withdrawn,
}

#[derive(Default)]
enum Stage {
    #[default]
    NotBegun,
    Begun,
    Ended(Outcome),
    /// Its future is gone: before it began, or after.
    Dropped(Begun),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    No,
    Yes,
}

impl Link {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(&self, permission: Permission) {
        let mut state = self.lock();
        state.permission = permission;
        let waker = state.inner_waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn reached(&self, stage: Stage) {
        let mut state = self.lock();
        state.inner = stage;
        let waker = state.outer_waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The attempt's own future, somewhere in the layers' hands. It runs once permitted, and no longer than somebody waits for it.
struct Inner {
    run: Option<Running>,
    link: Arc<Link>,
}

impl Future for Inner {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = self.link.lock();
        match state.permission {
            Permission::Awaited => {
                state.inner_waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            Permission::Withdrawn => {
                drop(state);
                drop(self.run.take());
                return Poll::Ready(Outcome::Unknown(DoubtReason::Cancelled, "nobody waits for it any more".into()));
            }
            Permission::Given => {
                state.inner_waker = Some(context.waker().clone());
                if matches!(state.inner, Stage::NotBegun) {
                    state.inner = Stage::Begun;
                }
            }
        }
        drop(state);
        let polled = self.run.as_mut().map(|run| Pin::new(run).poll(context));
        let outcome = match polled {
            Some(Poll::Pending) => return Poll::Pending,
            Some(Poll::Ready(outcome)) => outcome,
            None => Outcome::Unknown(DoubtReason::Unknown, "polled after it had ended".into()),
        };
        self.run = None;
        self.link.reached(Stage::Ended(outcome.clone()));
        Poll::Ready(outcome)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // With its destructors, before anybody hears that it is gone.
        drop(self.run.take());
        let begun = match self.link.lock().inner {
            Stage::NotBegun => Begun::No,
            Stage::Begun => Begun::Yes,
            Stage::Ended(_) | Stage::Dropped(_) => return,
        };
        self.link.reached(Stage::Dropped(begun));
    }
}

/// The runner's end. Dropping it withdraws the permission.
pub(super) struct Outer {
    link: Arc<Link>,
}

impl Drop for Outer {
    fn drop(&mut self) {
        self.link.permit(Permission::Withdrawn);
    }
}

type Said = Result<Result<Ran, Failure>, String>;

impl Outer {
    /// What the runner polls: the layers' future, or why there is none. Its first poll is the permission.
    pub(super) fn over(self, called: Result<BoxFuture<Result<Ran, Failure>>, String>) -> impl Future<Output = Outcome> + Send {
        let (future, said) = match called {
            Ok(future) => (Some(Guarded::new(future)), None),
            Err(panic) => (None, Some(Err(panic))),
        };
        Carried { outer: self, future, said }
    }
}

struct Carried {
    outer: Outer,
    future: Option<Guarded<Result<Ran, Failure>>>,
    said: Option<Said>,
}

impl Future for Carried {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        self.outer.link.lock().outer_waker = Some(context.waker().clone());
        if self.outer.link.lock().permission == Permission::Awaited {
            self.outer.link.permit(Permission::Given);
        }
        if let Some(Poll::Ready(said)) = self.future.as_mut().map(|future| Pin::new(future).poll(context)) {
            (self.future, self.said) = (None, Some(said));
        }
        let mut state = self.outer.link.lock();
        let ended = match &mut state.inner {
            // Whatever a layer says or still does: this is what became of the effect.
            Stage::Ended(outcome) => Some(outcome.clone()),
            Stage::Dropped(Begun::Yes) => Some(dropped(self.said.as_ref())),
            // It certainly had no effect of its own; what that means is the layer's word.
            Stage::Dropped(Begun::No) => None,
            Stage::NotBegun | Stage::Begun => return Poll::Pending,
        };
        drop(state);
        match ended.or_else(|| self.said.take().map(without_a_run)) {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        }
    }
}

/// A layer dropped the future after it began.
fn dropped(said: Option<&Said>) -> Outcome {
    let text = match said {
        Some(Err(panic)) => return unknown(DoubtReason::Panic, format!("a layer panicked after the handler began: {panic}")),
        Some(Ok(Err(_))) => "a layer failed after the handler began, and dropped it",
        Some(Ok(Ok(_))) | None => "a layer dropped the handler's future after it began",
    };
    unknown(DoubtReason::Cancelled, text.into())
}

/// The handler never began.
fn without_a_run(said: Said) -> Outcome {
    match said {
        Ok(Err(failure)) => failure.outcome(),
        Ok(Ok(_)) => unknown(DoubtReason::Unknown, "a layer answered without the attempt that it was given".into()),
        Err(panic) => Outcome::NoEffect(cut(&format!("a layer panicked before the handler began: {panic}"), REASON_BYTES_MAX).into()),
    }
}

fn unknown(reason: DoubtReason, text: String) -> Outcome {
    Outcome::Unknown(reason, cut(&text, REASON_BYTES_MAX).into())
}
