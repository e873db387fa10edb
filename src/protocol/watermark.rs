//! Owns the offset below which every slot of a partition is complete. It needs no map of complete slots: their receipts suppress
//! the redelivery.

use std::collections::BTreeSet;

/// Which slots of a partition are not complete, and where the next one is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermark {
    incomplete: BTreeSet<i64>,
    next: i64,
}

impl Watermark {
    /// Starts at the offset from which the partition is read.
    #[must_use]
    pub fn starting_at(offset: i64) -> Self {
        Self { incomplete: BTreeSet::new(), next: offset }
    }

    /// Takes a slot in. Offsets that were jumped over hold no record (transaction markers, compaction) and count as complete.
    pub fn arrived(&mut self, offset: i64) {
        assert!(offset >= self.next, "offset {offset} arrived after {}", self.next);
        self.incomplete.insert(offset);
        self.next = offset + 1;
    }

    /// The log was read up to this offset: from the last record on it holds nothing that arrives, but markers and aborted records.
    pub fn reached(&mut self, offset: i64) {
        self.next = self.next.max(offset);
    }

    /// A slot is complete, durably.
    pub fn completed(&mut self, offset: i64) {
        let was = self.incomplete.remove(&offset);
        assert!(was, "slot {offset} completed twice");
    }

    /// Every slot below this offset is complete.
    #[must_use]
    pub fn offset(&self) -> i64 {
        self.incomplete.first().copied().unwrap_or(self.next)
    }

    /// Offsets between the lowest slot that is not complete and the next one expected: what a slow head holds back.
    #[must_use]
    pub fn gap(&self) -> u64 {
        u64::try_from(self.next - self.offset()).unwrap_or(0)
    }
}
