//! Owns the decision about a delivery: the table of DESIGN 3, row for row. It reads what is known and performs nothing.

use super::{
    fingerprint::Fingerprint,
    known::Known,
    park::{Closing, Openness, ParkId, RecordDigest, SlotNotes},
    receipt::State,
};

/// Whether a slot lies below what the store knows as complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// At or above the store's watermark: an ordinary delivery, or one repeated after a crash.
    Current,
    /// Below it: somebody moved the group's offset back.
    Rewound,
}

/// Whether an attempt of the operation runs in this process, on whichever partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Running {
    /// It runs and its deadline has not passed.
    Here,
    /// None does.
    No,
}

/// A delivery whose key was found, with all that the decision rests on.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// What the store holds about the operation.
    pub known: &'a Known,
    /// What it holds about the slot.
    pub slot: &'a SlotNotes,
    /// Which record stands in the slot.
    pub record: RecordDigest,
    /// The parameters' digest.
    pub fingerprint: Fingerprint,
    /// Below the watermark or not.
    pub position: Position,
    /// Running here or not.
    pub running: Running,
}

/// What is to be done with a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The slot held another record before: the topic was recreated, and the partition must stop.
    Halt,
    /// The slot was dead-lettered or discarded, and stays so.
    StaysClosed(Closing),
    /// This very slot waits on its own park note.
    HeldBySlot(ParkId),
    /// The operation is known with other parameters.
    Conflict,
    /// The operation waits on the park note of another slot.
    Held(ParkId),
    /// The operation is settled: answer from its receipt.
    Settled,
    /// An attempt runs here: wait behind it.
    Wait,
    /// An attempt may have had its effect: the route's contract decides.
    InDoubt,
    /// Every earlier attempt had no effect: another one, after its back-off.
    Retry,
    /// Nothing is known: the first attempt.
    Run,
}

/// Decides about the slot alone, before its key is looked at: the rows that hold for records without a valid key too.
#[must_use]
pub fn decide_slot(slot: &SlotNotes, record: RecordDigest, position: Position) -> Option<Decision> {
    if let Some((id, park, Openness::Open)) = &slot.parked {
        return Some(if park.record == record { Decision::HeldBySlot(id.clone()) } else { Decision::Halt });
    }
    match &slot.closed {
        Some((closing, closed)) if position == Position::Current => {
            Some(if *closed == record { Decision::StaysClosed(*closing) } else { Decision::Halt })
        }
        _ => None,
    }
}

/// Whether a delivery is answered by the receipt of an operation that is applied with these parameters ([`Known::applied_with`]): the
/// rows of [`decide`] that then are left, for a slot of which nothing is known. Nothing that becomes known later takes *applied* back,
/// so that this may be asked ahead of the machine, on what the store knew then.
#[must_use]
pub fn is_answered(applied_with: Fingerprint, slot: &SlotNotes, fingerprint: Fingerprint) -> bool {
    *slot == SlotNotes::default() && !applied_with.differs(fingerprint)
}

/// Decides about a delivery: the first row of DESIGN 3 that fits.
#[must_use]
pub fn decide(arrival: &Arrival<'_>) -> Decision {
    if let Some(decision) = decide_slot(arrival.slot, arrival.record, arrival.position) {
        return decision;
    }
    let receipt = &arrival.known.receipt;
    let state = receipt.state();
    if state != State::New && receipt.fingerprint().is_some_and(|known| known.differs(arrival.fingerprint)) {
        return Decision::Conflict;
    }
    match state {
        State::Applied(_) | State::Rejected(_) => Decision::Settled,
        State::InDoubt(_) | State::Retryable => match (arrival.known.holder(arrival.fingerprint), arrival.running, state) {
            (Some(holder), _, _) => Decision::Held(holder.clone()),
            (None, Running::Here, _) => Decision::Wait,
            (None, Running::No, State::InDoubt(_)) => Decision::InDoubt,
            (None, Running::No, _) => Decision::Retry,
        },
        State::New if arrival.running == Running::Here => Decision::Wait,
        State::New => Decision::Run,
    }
}
