//! Owns what becomes of a slot that holds its partition up, once a person has the partition go on without it: the record goes to the
//! dead-letter topic, and a park note without its bytes says for ever who skipped it and why. It performs nothing.

use super::{
    known::Entry,
    machine::Subject,
    note::{Author, REASON_BYTES_MAX, Slot, cut},
    park::{End, EndKind, Openness, Park, ParkId, ParkReason, Payload, RecordDigest, SlotNotes},
    refused::Refused,
    time::UnixMillis,
};
use std::sync::Arc;

/// A slot that its partition cannot get past.
#[derive(Debug, Clone)]
pub struct Halted {
    /// Where.
    pub slot: Slot,
    /// Why, and what would have to be otherwise.
    pub reason: String,
    /// The record there.
    pub payload: Arc<Payload>,
    /// Its digest.
    pub record: RecordDigest,
    /// The operation that it carries, where it carries one.
    pub subject: Option<Arc<Subject>>,
}

/// What a skip is written down as, once the dead letter is acknowledged.
#[derive(Debug, Clone, PartialEq)]
pub struct Skipped {
    /// A park note of the slot, without an operation and without bytes.
    pub park: Entry,
    /// Its end, in the same batch.
    pub end: Entry,
}

/// Decides whether `slot` may be skipped, on what its partition is `halted` at and what is noted about the slot.
///
/// # Errors
/// When the partition does not stand at that slot, or another record is parked under it.
pub fn decide(
    slot: &Slot, halted: Option<&Halted>, notes: &SlotNotes, by: &Author, reason: &str, now: UnixMillis,
) -> Result<Skipped, Refused> {
    let Some(halted) = halted else { return Err(Refused::NotHalted { at: None }) };
    if halted.slot != *slot {
        return Err(Refused::NotHalted { at: Some(halted.slot.clone()) });
    }
    if let Some((park, _, Openness::Open)) = &notes.parked {
        return Err(Refused::ParkedThere { park: park.clone() });
    }
    let id = ParkId { slot: slot.clone(), number: notes.next_park() };
    let park = Park {
        reason: ParkReason::Skipped,
        key: None,
        fingerprint: halted.subject.as_ref().map(|subject| subject.fingerprint),
        attempt: None,
        record: halted.record,
        bytes: 0,
        detail: cut(&halted.reason, REASON_BYTES_MAX).into(),
        at: now,
    };
    let end = End { kind: EndKind::DeadLettered, by: Some(by.clone()), reason: reason.into(), at: now };
    Ok(Skipped {
        park: Entry::Park { seen: None, id: id.clone(), park: Arc::new(park), payload: Arc::default() },
        end: Entry::End { key: None, seen: None, park: id, end },
    })
}
