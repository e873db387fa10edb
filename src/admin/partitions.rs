//! Owns the words about partitions between the commands and the running process, as JSON: what is asked, and how one is shown.

use super::command::{Malformed, parse_partition, parse_slot};
use crate::{
    protocol::{
        note::Author,
        settle::{Act, Change},
    },
    runner::{PartitionAsk, PartitionLine, Word},
};
use serde::{Deserialize, Serialize};

/// Asks for a partition to be paused or resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionRequest {
    /// The partition, as `topic/partition`.
    pub partition: String,
    /// Why.
    pub reason: String,
    /// Who.
    pub by: String,
}

/// Asks for a halted partition to go on without the slot that it stands at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkipRequest {
    /// The slot, as `topic/partition/offset`.
    pub slot: String,
    /// Why.
    pub reason: String,
    /// Who.
    pub by: String,
}

/// What is to become of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionWord {
    /// Not read, until it is resumed.
    Pause,
    /// Read again.
    Resume,
}

/// Where a partition stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionView {
    /// The partition, as `topic/partition`.
    pub partition: String,
    /// `open`, `draining`, `paused` or `halted`.
    pub state: String,
    /// The lowest slot that is not complete.
    pub watermark: Option<i64>,
    /// The offset whose commit the broker confirmed last.
    pub committed: Option<i64>,
    /// Records that are on their way.
    pub in_flight: usize,
    /// Their bytes.
    pub in_flight_bytes: u64,
    /// The slot that it is halted at, as `topic/partition/offset`.
    pub halted_at: Option<String>,
    /// Why it is not read, and what to do.
    pub detail: Option<String>,
}

impl From<PartitionLine> for PartitionView {
    fn from(line: PartitionLine) -> Self {
        Self {
            partition: line.partition.to_string(),
            state: line.reading.label().into(),
            watermark: line.watermark,
            committed: line.committed,
            in_flight: line.in_flight.0,
            in_flight_bytes: line.in_flight.1,
            halted_at: line.halted_at.map(|offset| line.partition.slot(offset).to_string()),
            detail: line.detail,
        }
    }
}

impl PartitionRequest {
    /// Reads the request as the person with this user id made it.
    ///
    /// # Errors
    /// When it names no partition.
    pub fn ask(self, word: PartitionWord, uid: u32) -> Result<PartitionAsk, Malformed> {
        let partition =
            parse_partition(&self.partition).ok_or(Malformed { part: "partition", problem: "is not of the form topic/partition" })?;
        let said = Word { by: Author::Operator { name: self.by, uid }, reason: self.reason };
        Ok(match word {
            PartitionWord::Pause => PartitionAsk::Pause(partition, said),
            PartitionWord::Resume => PartitionAsk::Resume(partition, said),
        })
    }
}

impl SkipRequest {
    /// Reads the request as the person with this user id made it.
    ///
    /// # Errors
    /// When it names no slot.
    pub fn change(self, uid: u32) -> Result<Change, Malformed> {
        let slot = parse_slot(&self.slot).ok_or(Malformed { part: "slot", problem: "is not of the form topic/partition/offset" })?;
        Ok(Change { act: Act::Skip(slot), by: Author::Operator { name: self.by, uid }, reason: self.reason })
    }
}
