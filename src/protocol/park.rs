//! Owns the words about set-aside work: why a record is parked, what ends that, and when a note is open.

use super::{context::Context, fingerprint::Fingerprint, key::KeyDigest, note::AttemptId, note::Author, note::Slot, time::UnixMillis};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

static RECORD_CONTEXT: Context = Context::new("receipted 2026 record v1");

/// A park note's name: the slot, and how often that slot has been parked before it.
///
/// Of a [`Park`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ParkId {
    /// The record's place.
    pub slot: Slot,
    /// 1 for the first note of the slot.
    pub number: u32,
}

/// Why a record is set aside.
///
/// ```
/// # use receipted::store::{ReceiptStore, memory::MemoryStore};
/// /// For an alert of your own: what waits for a person, whatever becomes of its operation.
/// fn for_people(store: &dyn ReceiptStore) -> usize {
///     store.parked(None, 1000).iter().filter(|(_, park)| !park.reason.follows_operation()).count()
/// }
/// assert_eq!(for_people(&MemoryStore::new()), 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ParkReason {
    /// An attempt may have had its effect.
    Unresolved,
    /// The same key came with other parameters.
    Conflict,
    /// The receipt was pruned, and we know that it was.
    Expired,
    /// The dead-letter topic did not take it.
    DeadLetterFailed,
    /// It used up its attempts by ending the process.
    Poison,
    /// It waited for a retry, and made room for others.
    Retry,
    /// The reply hook failed; the operation is settled.
    Reply,
    /// A person had its partition go on without it. The note has no record: that is in the dead-letter topic.
    Skipped,
}

impl ParkReason {
    /// Every reason, in the order of the metric's labels.
    pub const ALL: [Self; 8] =
        [Self::Unresolved, Self::Conflict, Self::Expired, Self::DeadLetterFailed, Self::Poison, Self::Retry, Self::Reply, Self::Skipped];

    /// The metric's label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Unresolved => "unresolved",
            Self::Conflict => "conflict",
            Self::Expired => "expired",
            Self::DeadLetterFailed => "dead_letter_failed",
            Self::Poison => "poison",
            Self::Retry => "retry",
            Self::Reply => "reply",
            Self::Skipped => "skipped",
        }
    }

    /// Whether the note ends by itself when its operation is settled, and its record runs again when it is retryable.
    #[must_use]
    pub fn follows_operation(self) -> bool {
        matches!(self, Self::Unresolved | Self::Retry | Self::Poison)
    }
}

/// The durable note that a record is set aside, whole.
///
/// ```
/// # use receipted::store::{Error, ReceiptStore, memory::MemoryStore};
/// /// Everything that is set aside, whole: for a copy elsewhere before somebody throws it away.
/// fn copies(store: &dyn ReceiptStore) -> Result<Vec<(String, Option<Vec<u8>>)>, Error> {
///     let parked = store.parked(None, 1000).into_iter();
///     let copy = |(id, park): (_, std::sync::Arc<receipted::protocol::park::Park>)| {
///         let value = store.payload(&id)?.and_then(|record| record.value);
///         Ok((format!("{} ({}): {}", id.slot, park.reason.label(), park.detail), value))
///     };
///     parked.map(copy).collect()
/// }
/// assert!(copies(&MemoryStore::new())?.is_empty());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Park {
    /// Why.
    pub reason: ParkReason,
    /// The operation, where the record has one.
    pub key: Option<KeyDigest>,
    /// Its parameters' digest, where it has one.
    pub fingerprint: Option<Fingerprint>,
    /// The attempt whose outcome it waits for, where there is one.
    pub attempt: Option<AttemptId>,
    /// Which record it is, so that another one under the same slot is noticed.
    pub record: RecordDigest,
    /// Size of the record as kept, in bytes.
    pub bytes: u64,
    /// What is known, for people; cut.
    pub detail: String,
    /// The wall clock.
    pub at: UnixMillis,
}

/// What ended a park note.
///
/// A part of an [`End`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EndKind {
    /// The operation is settled.
    Settled,
    /// The record went to the dead-letter topic.
    DeadLettered,
    /// A person threw it away.
    Discarded,
}

impl EndKind {
    /// The name that listings use.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::DeadLettered => "dead_lettered",
            Self::Discarded => "discarded",
        }
    }
}

/// The end of a park note: what, by whom, why, when.
///
/// ```
/// # use receipted::protocol::{known::Known, park::EndKind};
/// /// For an audit: what was thrown away, and why.
/// fn discarded(known: &Known) -> Vec<&str> {
///     known.ends.values().filter(|end| end.kind == EndKind::Discarded).map(|end| end.reason.as_str()).collect()
/// }
/// assert!(discarded(&Known::default()).is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct End {
    /// What ended it.
    pub kind: EndKind,
    /// Who; none when it followed from the operation or from the runner's own rules.
    pub by: Option<Author>,
    /// Why.
    pub reason: String,
    /// The wall clock.
    pub at: UnixMillis,
}

/// Digest of a record's key, value and timestamp: tells whether a slot still holds the record that it held.
///
/// Of a [`Payload`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordDigest(pub [u8; 16]);

/// A record kept whole: what a park note carries and a dead letter is made of. Nulls stay nulls.
///
/// ```
/// # use receipted::{handler::Record, protocol::park::Payload};
/// // A runner of your own, on a client of your own: what its record becomes. Nulls stay nulls.
/// let payload = Payload {
///     key: Some(b"account-7".to_vec()),
///     value: None,
///     headers: vec![(b"type".to_vec(), Some(b"closed".to_vec()))],
///     timestamp: Some(1_900_000_000_000),
/// };
/// assert_eq!(Record::new(payload.into()).header("type"), Ok("closed"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Payload {
    /// The record key.
    pub key: Option<Vec<u8>>,
    /// The value; none is a tombstone.
    pub value: Option<Vec<u8>>,
    /// Names and values in order, as bytes: neither has to be UTF-8.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// The record's timestamp, where it has one.
    pub timestamp: Option<i64>,
}

impl Payload {
    /// Bytes of key, value and headers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len)).sum::<usize>();
        let length = self.key.as_ref().map_or(0, Vec::len) + self.value.as_ref().map_or(0, Vec::len) + headers;
        u64::try_from(length).unwrap_or(u64::MAX)
    }

    /// Digest of key, value and timestamp.
    #[must_use]
    pub fn digest(&self) -> RecordDigest {
        RecordDigest(RECORD_CONTEXT.half(|hasher| {
            for part in [&self.key, &self.value] {
                match part {
                    Some(bytes) => hasher.update(&[1]).update(&(bytes.len() as u64).to_be_bytes()).update(bytes),
                    None => hasher.update(&[0]),
                };
            }
            hasher.update(&self.timestamp.unwrap_or(i64::MIN).to_be_bytes());
        }))
    }
}

/// How a slot was ended without a settled operation of its own.
///
/// A part of [`SlotNotes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Closing {
    /// Sent to the dead-letter topic.
    DeadLettered,
    /// Thrown away by a person.
    Discarded,
}

/// What the store knows about a slot itself, apart from its operation.
///
/// ```
/// # use receipted::{protocol::{note::Slot, park::{Openness, SlotNotes}}, store::{ReceiptStore, memory::MemoryStore}};
/// /// A runner of your own, at a record that comes again: is it done with, whatever its operation is?
/// fn is_over(notes: &SlotNotes) -> bool {
///     notes.closed.is_some() || matches!(notes.parked, Some((_, _, Openness::Open)))
/// }
/// let slot = Slot { topic: "payments".into(), partition: 0, offset: 7 };
/// assert!(!MemoryStore::new().slots(&[slot]).iter().any(is_over));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlotNotes {
    /// How often the slot has been parked, for ever: the number of its newest note.
    pub times: u32,
    /// The newest park note of the slot and whether it is open. An ended one below the watermark is forgotten.
    pub parked: Option<(ParkId, Arc<Park>, Openness)>,
    /// The slot was dead-lettered or discarded, with the digest of the record that was.
    pub closed: Option<(Closing, RecordDigest)>,
}

impl SlotNotes {
    /// The number of the slot's next park note.
    #[must_use]
    pub fn next_park(&self) -> u32 {
        self.times.saturating_add(1)
    }
}

/// Whether a park note still stands.
///
/// A part of [`SlotNotes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Openness {
    /// Its record waits.
    Open,
    /// It has its end.
    Ended,
}
