//! Going on without the slot that holds a partition up.

use super::build::*;
use receipted::protocol::{
    known::{Entry, Known},
    note::Slot,
    park::{EndKind, Openness, Park, ParkReason, SlotNotes},
    refused::Refused,
    settle::{Act, Change, Decided, Next, Scene, changed, decide},
    skip::Halted,
    time::{Monotonic, Now, UnixMillis},
};
use std::{sync::Arc, time::Duration};

fn halted(at: i64) -> Halted {
    Halted { slot: slot(at), reason: "too large".into(), payload: Arc::default(), record: RECORD, subject: None }
}

fn skip(at: Slot, halted: Option<&Halted>, notes: &SlotNotes, reason: &str) -> Result<Decided, Refused> {
    let change = Change { act: Act::Skip(at), by: operator(), reason: reason.into() };
    let now = Now { monotonic: Monotonic(1), wall: UnixMillis(8000) };
    let future = |_| receipted::protocol::doubt::Future::Alive;
    let scene = Scene { known: &Known::default(), slot: notes, halted, future, quiet: Duration::ZERO, now };
    decide(&change, &scene)
}

#[test]
fn a_skip_is_a_note_without_bytes_that_its_end_closes_and_both_say_who_and_why() {
    let notes = SlotNotes { times: 2, ..SlotNotes::default() };
    let Ok(Decided::Skip(skipped)) = skip(slot(7), Some(&halted(7)), &notes, "agreed with billing") else { panic!("refused") };
    let Entry::Park { seen: None, id, park, payload } = &skipped.park else { panic!("{:?}", skipped.park) };
    assert_eq!((&id.slot, id.number), (&slot(7), 3));
    assert_eq!((park.reason, park.key, park.record, park.bytes, park.at), (ParkReason::Skipped, None, RECORD, 0, UnixMillis(8000)));
    assert_eq!((park.detail.as_str(), payload.bytes()), ("too large", 0));
    let Entry::End { key: None, seen: None, park: of, end } = &skipped.end else { panic!("{:?}", skipped.end) };
    assert_eq!((of, &end.kind, &end.by, end.reason.as_str()), (id, &EndKind::DeadLettered, &Some(operator()), "agreed with billing"));
    assert_eq!(changed(&skipped.end, &Known::default()).next, Next::DeadLettered(0));
}

#[test]
fn only_the_slot_that_its_partition_stands_at_is_skipped() {
    let none = SlotNotes::default();
    assert_eq!(skip(slot(7), None, &none, "x"), Err(Refused::NotHalted { at: None }));
    let wrong = skip(slot(6), Some(&halted(7)), &none, "x").unwrap_err();
    assert_eq!(wrong, Refused::NotHalted { at: Some(slot(7)) });
    assert_eq!(wrong.to_string(), "its partition is halted at payments/0/7");
    assert!(matches!(skip(slot(7), Some(&halted(7)), &none, " "), Err(Refused::Text { what: "reason", .. })));
}

/// Of a topic that was created again: the record that is parked is another one, and somebody has to say what becomes of it.
#[test]
fn another_record_that_is_parked_there_is_ended_first() {
    let park = Park {
        reason: ParkReason::Conflict,
        key: None,
        fingerprint: None,
        attempt: None,
        record: OTHER_RECORD,
        bytes: 1,
        detail: String::new(),
        at: UnixMillis(0),
    };
    let noted = |openness| SlotNotes { times: 1, parked: Some((park_id(7, 1), Arc::new(park.clone()), openness)), closed: None };
    let refused = skip(slot(7), Some(&halted(7)), &noted(Openness::Open), "x").unwrap_err();
    assert_eq!(refused, Refused::ParkedThere { park: park_id(7, 1) });
    assert!(refused.remedy().contains("--park payments/0/7#1"), "{}", refused.remedy());
    assert!(skip(slot(7), Some(&halted(7)), &noted(Openness::Ended), "x").is_ok());
}
