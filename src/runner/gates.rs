//! Owns the layers of routes while a runner runs: each is asked whether an attempt may start, and wakes the engine when it may have
//! changed its mind. It does not own when they are asked.

use super::inbox::Inbox;
use crate::handler::{Attempt, Gated, Routes};
use rustc_hash::FxHashMap;
use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};
use tokio::sync::mpsc::UnboundedSender;

/// How long records wait after a layer failed to say whether an attempt may start.
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);

pub(super) struct Gates {
    gates: FxHashMap<usize, (Gated, Waker)>,
}

/// Asks again, on the engine's own turn.
struct Again {
    route: usize,
    inbox: UnboundedSender<Inbox>,
}

impl Wake for Again {
    fn wake(self: Arc<Self>) {
        // A runner that is gone asks nobody.
        drop(self.inbox.send(Inbox::Ask(self.route)));
    }
}

impl Gates {
    pub(super) fn new(routes: &Routes, inbox: &UnboundedSender<Inbox>) -> Self {
        let gate = |(route, plan): (usize, &crate::handler::RoutePlan)| {
            let waker = Waker::from(Arc::new(Again { route, inbox: inbox.clone() }));
            plan.gate().map(|gate| (route, (gate, waker)))
        };
        Self { gates: routes.operations().iter().enumerate().filter_map(gate).collect() }
    }

    /// The routes that have to be asked.
    pub(super) fn routes(&self) -> impl Iterator<Item = usize> {
        self.gates.keys().copied()
    }

    /// Whether an attempt of the route may start now; where not, the engine is woken to ask again.
    pub(super) fn may_start(&mut self, route: usize) -> bool {
        let Some((gate, waker)) = self.gates.get_mut(&route) else { return true };
        match gate.poll_ready(&mut Context::from_waker(waker)) {
            Poll::Ready(Ok(())) => true,
            Poll::Pending => false,
            Poll::Ready(Err(reason)) => {
                tracing::error!(route, reason, "a layer failed before an attempt; its records wait, and it is made afresh");
                let (waker, wait) = (waker.clone(), tokio::time::sleep(AFTER_A_FAILURE));
                tokio::spawn(async move {
                    wait.await;
                    waker.wake();
                });
                false
            }
        }
    }

    /// Puts the route's layers around an attempt.
    pub(super) fn around(&mut self, route: usize, attempt: Attempt) -> Attempt {
        match self.gates.get_mut(&route) {
            Some((gate, _)) => gate.call(attempt),
            None => attempt,
        }
    }
}
