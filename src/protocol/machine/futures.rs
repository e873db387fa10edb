//! Owns what this process knows of the futures that it started: which live, which have passed their deadline, which ended and when.

use super::{table::Table, types::Timer, work::WorkId};
use crate::protocol::{doubt::Future, key::KeyDigest, note::AttemptId, receipt::Receipt, time::Monotonic};
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
pub(super) struct Futures {
    lives: Table<AttemptKey, Life>,
    /// Attempts of this process whose admission is being written, until they start, or until it is durable that they do not.
    admitting: Table<AttemptKey, ()>,
}

impl Futures {
    /// An admission is on its way. It may be durable, and seen, before this process hears of it.
    pub(super) fn admitting(&mut self, attempt: AttemptKey) {
        self.admitting.insert(attempt, ());
    }

    /// The next attempt that has no name yet: one whose admission is on its way has, though the store does not know it, and must not
    /// share it with another.
    pub(super) fn next_attempt(&self, key: KeyDigest, receipt: &Receipt, claim: u64) -> AttemptId {
        let mut attempt = AttemptId { number: receipt.next_number(), claim };
        while self.admitting.contains_key(&(key, attempt)) {
            attempt.number += 1;
        }
        attempt
    }

    pub(super) fn not_admitted(&mut self, attempt: &AttemptKey) {
        self.admitting.remove(attempt);
    }

    pub(super) fn started(&mut self, attempt: AttemptKey, life: Life) {
        self.admitting.remove(&attempt);
        self.lives.insert(attempt, life);
    }

    pub(super) fn get_mut(&mut self, attempt: &AttemptKey) -> Option<&mut Life> {
        self.lives.get_mut(attempt)
    }

    /// Forgets a future whose attempt is decided.
    pub(super) fn decided(&mut self, attempt: &AttemptKey) -> Option<Life> {
        self.admitting.remove(attempt);
        self.lives.remove(attempt)
    }

    /// What is known of an attempt's future. One that this process never started ended, at the latest, when this process began. Of one
    /// that is about to start, or never will, nothing can be said before that.
    pub(super) fn state(&self, attempt: &AttemptKey) -> Future {
        match self.lives.get(attempt) {
            Some(life) => life.state,
            None if self.admitting.contains_key(attempt) => Future::FactPending,
            None => Future::EndedAt(Monotonic(0)),
        }
    }

    /// Futures that live, or whose facts are not durable.
    pub(super) fn alive(&self) -> usize {
        self.lives.count(|life| !matches!(life.state, Future::EndedAt(_)))
    }
}
