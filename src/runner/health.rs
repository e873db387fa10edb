//! Owns what live and ready say of a runner, as numbers that the threads leave and the pages read.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// What a runner's threads say of themselves.
///
/// ```
/// # use receipted::runner::Health;
/// /// The answer of a readiness page of your own.
/// fn ready(health: &Health) -> (u16, String) {
///     match health.ready() {
///         Ok(()) => (200, "ready".into()),
///         Err(missing) => (503, missing),
///     }
/// }
/// assert_eq!(ready(&Health::default()), (503, "no partitions are assigned yet".into()));
/// ```
#[derive(Debug)]
pub struct Health {
    began: Instant,
    turned_ms: AtomicU64,
    expected: AtomicUsize,
    open: AtomicUsize,
    paused: Mutex<Option<String>>,
}

#[allow(clippy::disallowed_methods, reason = "health is about time")]
impl Default for Health {
    fn default() -> Self {
        let (expected, open) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        Self { began: Instant::now(), turned_ms: AtomicU64::new(0), expected, open, paused: Mutex::default() }
    }
}

impl Health {
    pub(super) fn consumer_turned(&self) {
        self.turned_ms.store(crate::protocol::time::millis(self.began.elapsed()).max(1), Ordering::Release);
    }

    pub(super) fn partitions(&self, expected: usize, opened: usize) {
        self.expected.store(expected, Ordering::Release);
        self.open.fetch_add(opened, Ordering::AcqRel);
    }

    pub(super) fn closed(&self, partitions: usize) {
        self.open.fetch_sub(partitions, Ordering::AcqRel);
    }

    pub(super) fn paused(&self, reason: Option<String>) {
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Whether the consumer thread turns.
    ///
    /// # Errors
    /// Says for how long it has not, when that is more than `within`.
    pub fn live(&self, within: Duration) -> Result<(), String> {
        let turned = self.turned_ms.load(Ordering::Acquire);
        let quiet = self.began.elapsed().saturating_sub(Duration::from_millis(turned));
        if quiet <= within { Ok(()) } else { Err(format!("the consumer thread has not turned for {} s", quiet.as_secs())) }
    }

    /// Whether every partition is open and nothing is paused.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn ready(&self) -> Result<(), String> {
        let (expected, open) = (self.expected.load(Ordering::Acquire), self.open.load(Ordering::Acquire));
        if expected == usize::MAX {
            return Err("no partitions are assigned yet".into());
        }
        if open < expected {
            return Err(format!("{open} of {expected} partitions are open"));
        }
        match &*self.paused.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(reason) => Err(reason.clone()),
            None => Ok(()),
        }
    }
}
