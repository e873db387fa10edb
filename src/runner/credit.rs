//! Owns how much of a partition may still be taken: its bound less what is on its way. The consumer thread counts what it hands
//! over, the engine what has left; neither waits for the other.

use crate::protocol::machine::Assignment;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

#[derive(Debug, Default)]
struct Count {
    taken_records: AtomicUsize,
    taken_bytes: AtomicU64,
    left_records: AtomicUsize,
    left_bytes: AtomicU64,
}

/// The counts of every assignment.
#[derive(Debug, Clone)]
pub(super) struct Credits {
    records_max: usize,
    bytes_max: u64,
    counts: Arc<Mutex<BTreeMap<Assignment, Arc<Count>>>>,
    starved: Arc<AtomicBool>,
}

/// What may still be taken in this round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Credit {
    records_left: usize,
    bytes_left: u64,
    records: usize,
    bytes: u64,
}

impl Credit {
    pub(super) fn is_left(&self) -> bool {
        self.records < self.records_left && self.bytes < self.bytes_left
    }

    /// Bytes taken in this round.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn take(&mut self, bytes: u64) {
        self.records += 1;
        self.bytes += bytes;
    }
}

impl Credits {
    pub(super) fn new(records_max: usize, bytes_max: u64) -> Self {
        Self { records_max, bytes_max, counts: Arc::default(), starved: Arc::default() }
    }

    /// The consumer thread had no credit left for records that are there.
    pub(super) fn starve(&self) {
        self.starved.store(true, Ordering::Release);
    }

    /// Whether the consumer thread waits for credit; asking takes the answer away.
    pub(super) fn take_starved(&self) -> bool {
        self.starved.swap(false, Ordering::AcqRel)
    }

    fn count(&self, assignment: Assignment) -> Arc<Count> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(assignment).or_default().clone()
    }

    /// Begins an assignment, and forgets the earlier ones of the same partition.
    pub(super) fn open(&self, assignment: Assignment) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|other, _| other.partition != assignment.partition);
        counts.insert(assignment, Arc::default());
    }

    pub(super) fn of(&self, assignment: Assignment) -> Credit {
        let count = self.count(assignment);
        let records = count.taken_records.load(Ordering::Acquire).saturating_sub(count.left_records.load(Ordering::Acquire));
        let bytes = count.taken_bytes.load(Ordering::Acquire).saturating_sub(count.left_bytes.load(Ordering::Acquire));
        Credit {
            records_left: self.records_max.saturating_sub(records),
            bytes_left: self.bytes_max.saturating_sub(bytes),
            records: 0,
            bytes: 0,
        }
    }

    pub(super) fn took(&self, assignment: Assignment, credit: &Credit) {
        let count = self.count(assignment);
        count.taken_records.fetch_add(credit.records, Ordering::AcqRel);
        count.taken_bytes.fetch_add(credit.bytes, Ordering::AcqRel);
    }

    /// Says how much of what was handed over has left, in all.
    pub(super) fn left(&self, assignment: Assignment, records: usize, bytes: u64) {
        let count = self.count(assignment);
        count.left_records.store(records, Ordering::Release);
        count.left_bytes.store(bytes, Ordering::Release);
    }
}
