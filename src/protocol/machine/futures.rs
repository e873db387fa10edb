//! Owns what this process knows of the futures that it started: which live, which have passed their deadline, which ended and when.

use super::{table::Table, types::Timer, work::WorkId};
use crate::protocol::{doubt::Future, key::KeyDigest, note::AttemptId, time::Monotonic};
use std::sync::Arc;

/// An attempt by its operation.
pub type AttemptKey = (KeyDigest, AttemptId);

/// A future of this process.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) state: Future,
    pub(super) tenant: Arc<str>,
    pub(super) route: usize,
    /// The work that it belongs to, until its deadline.
    pub(super) work: Option<WorkId>,
    /// Whether the partition was taken away while it ran.
    pub(super) deposed: bool,
    /// What is due next: its attempt's deadline, then the end of its life detached.
    pub(super) due: (Monotonic, Timer),
    /// When it is dropped.
    pub(super) dropped: Monotonic,
}

#[derive(Debug, Default)]
pub(super) struct Futures(Table<AttemptKey, Life>);

impl Futures {
    pub(super) fn started(&mut self, attempt: AttemptKey, life: Life) {
        self.0.insert(attempt, life);
    }

    pub(super) fn get_mut(&mut self, attempt: &AttemptKey) -> Option<&mut Life> {
        self.0.get_mut(attempt)
    }

    /// Forgets a future whose attempt is decided.
    pub(super) fn decided(&mut self, attempt: &AttemptKey) -> Option<Life> {
        self.0.remove(attempt)
    }

    /// What is known of an attempt's future. One that this process never started ended, at the latest, when this process began.
    pub(super) fn state(&self, attempt: &AttemptKey) -> Future {
        self.0.get(attempt).map_or(Future::EndedAt(Monotonic(0)), |life| life.state)
    }

    /// Futures that live, or whose facts are not durable.
    pub(super) fn alive(&self) -> usize {
        self.0.count(|life| !matches!(life.state, Future::EndedAt(_)))
    }
}
