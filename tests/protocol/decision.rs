//! The decision table, row by row (DESIGN 3). Rows before the key is known (tombstones, invalid keys) are the driver's.

use super::build::*;
use receipted::protocol::{
    decision::{Arrival, Decision, Position, Running, decide, decide_slot, is_answered},
    fingerprint::Fingerprint,
    known::Known,
    note::{Fact, Ruling},
    park::{Closing, Openness, ParkReason, SlotNotes},
    receipt::Receipt,
    time::UnixMillis,
};
use std::sync::Arc;

/// A delivery of slot 5 with the usual record and parameters.
struct Row {
    known: Known,
    slot: SlotNotes,
    fingerprint: Fingerprint,
    position: Position,
    running: Running,
}

fn row(receipt: Receipt) -> Row {
    let (slot, position, running) = (SlotNotes::default(), Position::Current, Running::No);
    Row { known: known(receipt), slot, fingerprint: PRINT, position, running }
}

impl Row {
    fn parked(mut self, offset: i64, reason: ParkReason) -> Self {
        let entry = park_entry(&self.known, offset, reason);
        self.known.judge(&entry, UnixMillis(0));
        self
    }

    fn of_slot(mut self, openness: Openness, record: receipted::protocol::park::RecordDigest) -> Self {
        let park = receipted::protocol::park::Park { record, ..park(ParkReason::Unresolved) };
        self.slot.parked = Some((park_id(5, 1), Arc::new(park), openness));
        self
    }

    fn decide(&self) -> Decision {
        let Self { known, slot, fingerprint, position, running } = self;
        let (fingerprint, position, running) = (*fingerprint, *position, *running);
        decide(&Arrival { known, slot, record: RECORD, fingerprint, position, running })
    }
}

fn settled_receipts() -> [Receipt; 2] {
    let (mut done, mut refused) = (admitted(&[1]), admitted(&[1]));
    done.learn(attempt(1), Fact::Applied(applied("r")));
    refused.learn(attempt(1), rejected());
    [done, refused]
}

fn retryable() -> Receipt {
    let mut receipt = admitted(&[1]);
    receipt.learn(attempt(1), no_effect());
    receipt
}

fn every_receipt() -> Vec<Receipt> {
    let [done, refused] = settled_receipts();
    vec![Receipt::default(), admitted(&[1]), retryable(), done, refused]
}

#[test]
fn a_slot_that_is_parked_with_the_same_record_is_held_whatever_the_operation_and_position() {
    for receipt in every_receipt() {
        for position in [Position::Current, Position::Rewound] {
            let row = Row { position, ..row(receipt.clone()) }.of_slot(Openness::Open, RECORD);
            assert_eq!(row.decide(), Decision::HeldBySlot(park_id(5, 1)));
        }
    }
}

#[test]
fn a_slot_that_was_parked_with_another_record_halts_the_partition() {
    for receipt in every_receipt() {
        assert_eq!(row(receipt).of_slot(Openness::Open, OTHER_RECORD).decide(), Decision::Halt);
    }
}

#[test]
fn a_slot_whose_note_has_ended_is_decided_by_its_operation() {
    let [done, _] = settled_receipts();
    assert_eq!(row(done).of_slot(Openness::Ended, RECORD).decide(), Decision::Settled);
    assert_eq!(row(retryable()).of_slot(Openness::Ended, RECORD).decide(), Decision::Retry);
}

#[test]
fn a_closed_slot_stays_closed_above_the_watermark_and_is_decided_afresh_below() {
    for closing in [Closing::DeadLettered, Closing::Discarded] {
        for receipt in every_receipt() {
            let mut row = row(receipt);
            row.slot.closed = Some((closing, RECORD));
            assert_eq!(row.decide(), Decision::StaysClosed(closing));
            row.position = Position::Rewound;
            assert!(!matches!(row.decide(), Decision::StaysClosed(_)));
        }
    }
}

#[test]
fn a_closed_slot_with_another_record_halts_above_the_watermark_only() {
    let slot = SlotNotes { closed: Some((Closing::DeadLettered, OTHER_RECORD)), ..SlotNotes::default() };
    assert_eq!(decide_slot(&slot, RECORD, Position::Current), Some(Decision::Halt));
    assert_eq!(decide_slot(&slot, RECORD, Position::Rewound), None);
}

#[test]
fn an_open_note_of_a_slot_that_was_closed_before_holds_it() {
    let mut row = row(admitted(&[1])).of_slot(Openness::Open, RECORD);
    row.slot.closed = Some((Closing::DeadLettered, RECORD));
    assert_eq!(row.decide(), Decision::HeldBySlot(park_id(5, 1)));
}

#[test]
fn other_parameters_are_a_conflict_in_every_known_state() {
    for receipt in every_receipt().into_iter().skip(1) {
        for running in [Running::Here, Running::No] {
            let row = Row { fingerprint: OTHER_PRINT, running, ..row(receipt.clone()) };
            assert_eq!(row.decide(), Decision::Conflict);
        }
    }
    assert_eq!(Row { fingerprint: OTHER_PRINT, ..row(Receipt::default()) }.decide(), Decision::Run);
}

#[test]
fn unchecked_parameters_are_never_a_conflict() {
    let [done, _] = settled_receipts();
    assert_eq!(Row { fingerprint: Fingerprint::Unchecked, ..row(done) }.decide(), Decision::Settled);
}

#[test]
fn an_operation_that_is_parked_under_another_slot_holds_its_repeats() {
    for receipt in [admitted(&[1]), retryable()] {
        for reason in [ParkReason::Unresolved, ParkReason::Retry, ParkReason::Poison] {
            for running in [Running::Here, Running::No] {
                let row = Row { running, ..row(receipt.clone()) }.parked(3, reason);
                assert_eq!(row.decide(), Decision::Held(park_id(3, 1)));
            }
        }
    }
}

#[test]
fn notes_that_do_not_follow_the_operation_hold_nothing() {
    for reason in [ParkReason::Conflict, ParkReason::Expired, ParkReason::DeadLetterFailed, ParkReason::Reply] {
        assert_eq!(row(admitted(&[1])).parked(3, reason).decide(), Decision::InDoubt);
        assert_eq!(row(retryable()).parked(3, reason).decide(), Decision::Retry);
    }
}

#[test]
fn settled_answers_from_the_receipt_also_while_a_future_runs() {
    for receipt in settled_receipts() {
        for running in [Running::Here, Running::No] {
            assert_eq!(Row { running, ..row(receipt.clone()) }.decide(), Decision::Settled);
        }
    }
}

#[test]
fn what_runs_here_is_waited_for() {
    for receipt in [Receipt::default(), admitted(&[1]), retryable()] {
        assert_eq!(Row { running: Running::Here, ..row(receipt) }.decide(), Decision::Wait);
    }
}

#[test]
fn in_doubt_goes_by_the_contract_retryable_again_and_new_runs() {
    assert_eq!(row(admitted(&[1])).decide(), Decision::InDoubt);
    assert_eq!(row(retryable()).decide(), Decision::Retry);
    assert_eq!(row(Receipt::default()).decide(), Decision::Run);
}

#[test]
fn attempt_2_rejected_with_attempt_1_in_doubt_is_not_answered_as_settled() {
    let mut receipt = admitted(&[1, 2]);
    receipt.learn(attempt(2), rejected());
    assert_eq!(row(receipt).decide(), Decision::InDoubt);
}

#[test]
fn a_reopened_operation_runs_again() {
    let [_, mut refused] = settled_receipts();
    refused.rule(verdict(Ruling::Reopened, &[1], operator()));
    assert_eq!(row(refused).decide(), Decision::Retry);
}

/// Ahead of the machine nothing is answered that the table would not answer: other parameters, or anything that is known of the slot.
#[test]
fn the_short_way_answers_what_the_table_answers_and_nothing_else() {
    let mut receipt = admitted(&[1]);
    receipt.learn(attempt(1), Fact::Applied(applied("r")));
    let with = known(receipt.clone()).applied_with().expect("it is applied");
    let fresh = SlotNotes::default();
    let closed = SlotNotes { closed: Some((Closing::DeadLettered, RECORD)), ..fresh.clone() };
    let parked = row(receipt.clone()).of_slot(Openness::Open, RECORD).slot;
    for (slot, fingerprint, answers) in [
        (&fresh, PRINT, true),
        (&fresh, Fingerprint::Unchecked, true),
        (&fresh, Fingerprint::Digest([9; 16]), false),
        (&closed, PRINT, false),
        (&parked, PRINT, false),
    ] {
        assert_eq!(is_answered(with, slot, fingerprint), answers, "{slot:?} {fingerprint:?}");
        let decided = Row { slot: slot.clone(), fingerprint, ..row(receipt.clone()) }.decide();
        assert_eq!(decided == Decision::Settled, answers, "{decided:?}");
    }
}
