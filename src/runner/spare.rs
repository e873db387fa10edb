//! Owns records that are done with, so that the next ones are copied into their memory: a repeat then allocates nothing.

use crate::protocol::park::Payload;
use std::sync::Arc;

/// Bytes of a record whose memory is kept, at most.
const BYTES_MAX: u64 = 16 * 1024;

/// Spare records, at most so many.
pub(super) struct Spare {
    records: Vec<Arc<Payload>>,
    records_max: usize,
}

impl Spare {
    pub(super) fn new(records_max: usize) -> Self {
        Self { records: Vec::new(), records_max }
    }

    /// Takes back a record that nobody else has.
    pub(super) fn give(&mut self, mut record: Arc<Payload>) {
        if self.records.len() < self.records_max && Arc::get_mut(&mut record).is_some_and(|record| record.bytes() <= BYTES_MAX) {
            self.records.push(record);
        }
    }

    /// A record that `fill` fills: it holds an older one still.
    pub(super) fn filled(&mut self, fill: impl FnOnce(&mut Payload)) -> Arc<Payload> {
        let mut record = self.records.pop().unwrap_or_default();
        match Arc::get_mut(&mut record) {
            Some(own) => {
                fill(own);
                record
            }
            None => {
                let mut own = Payload::default();
                fill(&mut own);
                Arc::new(own)
            }
        }
    }
}
