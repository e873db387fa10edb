//! Owns where a partition is read from at its assignment, and when it must not be read at all: a foreign store, an older copy, a
//! copy that runs elsewhere, a log that lost what was committed. It asks nobody; the driver brings what the broker and the store say.

use super::time::UnixMillis;

/// The first word of our commit metadata, with its format.
const TAG: &str = "receipted1";

/// What stands beside a committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Metadata {
    /// Ours: the store that wrote it, and the claim's nonce.
    Ours {
        /// The store's id.
        store_id: String,
        /// The nonce of the process start.
        nonce: String,
    },
    /// Nothing, or something else: written by another program, or by an operator's tool.
    Other,
}

impl Metadata {
    /// The text for a commit.
    #[must_use]
    pub fn text(store_id: &str, nonce: &str) -> String {
        format!("{TAG} {store_id} {nonce}")
    }

    /// Reads what stands beside a committed offset. Anything that is not ours in full is [`Metadata::Other`].
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            [TAG, store_id, nonce] if !store_id.is_empty() && !nonce.is_empty() => {
                Self::Ours { store_id: store_id.into(), nonce: nonce.into() }
            }
            _ => Self::Other,
        }
    }
}

/// Whose offset it is, as this store sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// This store, in a process start that it remembers.
    ThisStore,
    /// This store's id, in a process start that it does not remember: a copy of it.
    Copy,
    /// Another store.
    OtherStore,
    /// No store of ours.
    Nobody,
}

/// What is known of a partition at its assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Situation {
    /// The group's committed offset.
    pub committed: Option<(i64, Writer)>,
    /// The first offset that the log still has.
    pub low: i64,
    /// The offset after its last record.
    pub high: i64,
    /// The store's watermark.
    pub watermark: Option<i64>,
    /// The last offset whose commit the broker confirmed, as the store noted it.
    pub confirmed: Option<i64>,
    /// The committed offset that an operator adopted.
    pub adopted: Option<i64>,
    /// Whether the store knows other partitions of this topic: then this one was added later.
    pub topic_known: Acquaintance,
    /// Where to start on a topic that has records and no committed offset.
    pub first_start: FirstStart,
    /// Whether everything that the group ever ran was noted here.
    pub lineage: Lineage,
}

/// Whether everything that the group ever ran was noted in this store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lineage {
    /// It was, as far as offsets and marks tell.
    Own,
    /// The store was imported: the one that was exported may have run records since.
    Imported,
}

/// Whether the store has marks of other partitions of the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acquaintance {
    /// It has.
    Known,
    /// It has none.
    New,
}

/// Where to start on a topic that has records and no committed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstStart {
    /// Not said: refused, so that ninety days of invoices do not run because a disk was new.
    Unset,
    /// With the first record.
    Earliest,
    /// After the last one.
    Latest,
    /// With the first record of that time, which the broker resolved to an offset; none lies at or after it when there is none.
    At(UnixMillis, Option<i64>),
}

/// Where the partition is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// The first offset to read.
    pub offset: i64,
    /// Slots below are complete: what arrives of them is rewound.
    pub known_complete: i64,
    /// The committed offset lies below the last one that was confirmed: somebody moved it back.
    pub regression: Option<i64>,
}

/// Why a partition must not be read. Every remedy is in the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Run with the store that wrote it; or, when that one is gone, adopt the offset.
    #[error(
        "committed offset {committed} was written with another receipt store; run with that store, or accept the offset once with `receipted store adopt TOPIC/PARTITION --reason …`"
    )]
    OtherStore {
        /// The offset.
        committed: i64,
    },
    /// Stop the other copy and delete it, or restore the newest one; or adopt the offset with the store that is to go on.
    #[error(
        "committed offset {committed} was written by a start of this receipt store that it does not remember: a copy of it runs elsewhere, or this is an older copy; stop the other one, or restore the newest one, or accept the offset once with `receipted store adopt TOPIC/PARTITION --reason …`"
    )]
    Copy {
        /// The offset.
        committed: i64,
    },
    /// Restore the newest copy of the store; or adopt the offset, when what it lacks was settled otherwise.
    #[error(
        "committed offset {committed} lies above this store's watermark {watermark}: the store is an older copy; restore the newest one, or accept the offset once with `receipted store adopt TOPIC/PARTITION --reason …`"
    )]
    OlderCopy {
        /// The offset.
        committed: i64,
        /// The watermark.
        watermark: i64,
    },
    /// The way in for an existing group: adopt its offsets.
    #[error(
        "the group has committed offset {committed}, which is not this receipt store's; accept it once with `receipted store adopt TOPIC/PARTITION --reason …`"
    )]
    NotOurs {
        /// The offset.
        committed: i64,
    },
    /// Make sure that the exported store never runs again, compare with the destination, and adopt an offset.
    #[error(
        "this store was imported and knows nothing of the topic, and the store that was exported may have run its records since (offsets {low} to {high}); accept an offset once with `receipted store adopt TOPIC/PARTITION --offset N --reason …`"
    )]
    Imported {
        /// The first offset that the log has.
        low: i64,
        /// The offset after its last record.
        high: i64,
    },
    /// Set it.
    #[error(
        "the group has no committed offset and the partition has records (offsets {low} to {high}); set kafka.first_start to \"earliest\", \"latest\" or a time"
    )]
    FirstStartUnset {
        /// The first offset that the log has.
        low: i64,
        /// The offset after its last record.
        high: i64,
    },
    /// The records are gone: settle what they carried, then adopt a later offset.
    #[error(
        "records from offset {from} to {to} are missing from the log (it was truncated); settle what they carried, then accept offset {to} with `receipted store adopt TOPIC/PARTITION --offset {to} --reason …`"
    )]
    Truncated {
        /// The first missing offset.
        from: i64,
        /// The first offset that is there.
        to: i64,
    },
    /// The topic was deleted and created again, or lost acknowledged records.
    #[error(
        "committed offset {committed} lies above the end of the log at {high}: the topic was recreated or lost records; accept its new offsets with `receipted store adopt TOPIC/PARTITION --offset 0 --reason …`"
    )]
    AboveEnd {
        /// The offset.
        committed: i64,
        /// The end of the log.
        high: i64,
    },
}

impl Refusal {
    /// Whether this partition alone stops, and not the whole process.
    #[must_use]
    pub fn halts_partition_only(&self) -> bool {
        matches!(self, Self::Truncated { .. } | Self::AboveEnd { .. })
    }
}

impl Situation {
    /// Decides where to start.
    ///
    /// # Errors
    /// When the partition must not be read; the text names the remedy.
    pub fn decide(&self) -> Result<Start, Refusal> {
        if let Some(adopted) = self.adopted {
            return self.within(Start { offset: adopted, known_complete: adopted, regression: None });
        }
        match (self.committed, self.watermark) {
            (Some((committed, writer)), watermark) => self.at_committed(committed, writer, watermark),
            (None, Some(watermark)) => self.within(Start { offset: watermark, known_complete: watermark, regression: None }),
            (None, None) => self.first(),
        }
    }

    fn at_committed(&self, committed: i64, writer: Writer, watermark: Option<i64>) -> Result<Start, Refusal> {
        match (writer, watermark) {
            (Writer::OtherStore, _) => return Err(Refusal::OtherStore { committed }),
            (Writer::Copy, _) => return Err(Refusal::Copy { committed }),
            (Writer::ThisStore, Some(watermark)) if committed > watermark => return Err(Refusal::OlderCopy { committed, watermark }),
            (Writer::Nobody, Some(watermark)) if committed <= watermark => {}
            (Writer::ThisStore, Some(_)) => {}
            (Writer::Nobody, _) => return Err(Refusal::NotOurs { committed }),
            (Writer::ThisStore, None) => return Err(Refusal::OlderCopy { committed, watermark: 0 }),
        }
        let watermark = watermark.unwrap_or(committed);
        let regression = self.confirmed.filter(|confirmed| committed < *confirmed);
        // Our own commit that a crash left behind the watermark: everything below the watermark is complete, so nothing is read twice.
        let ours = writer == Writer::ThisStore && regression.is_none();
        let offset = if ours { watermark } else { committed };
        self.within(Start { offset, known_complete: watermark, regression })
    }

    fn first(&self) -> Result<Start, Refusal> {
        let offset = match self.first_start {
            _ if self.high == 0 || self.topic_known == Acquaintance::Known => self.low,
            // The setting may stand there for years; it does not speak of what ran elsewhere.
            _ if self.lineage == Lineage::Imported => return Err(Refusal::Imported { low: self.low, high: self.high }),
            FirstStart::Unset => return Err(Refusal::FirstStartUnset { low: self.low, high: self.high }),
            FirstStart::Earliest => self.low,
            FirstStart::Latest => self.high,
            FirstStart::At(_, offset) => offset.unwrap_or(self.high).clamp(self.low, self.high),
        };
        Ok(Start { offset, known_complete: offset, regression: None })
    }

    fn within(&self, start: Start) -> Result<Start, Refusal> {
        if start.offset > self.high {
            return Err(Refusal::AboveEnd { committed: start.offset, high: self.high });
        }
        if start.offset < self.low {
            return Err(Refusal::Truncated { from: start.offset, to: self.low });
        }
        Ok(start)
    }
}
