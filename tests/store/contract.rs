//! The contract of `src/store/mod.rs`, line by line.

use crate::{
    fixture::{Fixture, Kind, START, Stop},
    make::*,
};
use libtest_mimic::{Failed, Trial};
use receipted::{
    protocol::{
        change::Total,
        known::{Answer, Entry, Known, Revision},
        note::{DoubtReason, Fact, Ruling},
        park::{Closing, EndKind, Openness, ParkReason, Payload},
        receipt::State,
        time::UnixMillis,
    },
    store::{Batch, Error, Marks, Partition, PreviousStop, Which},
};
use std::sync::{Arc, Barrier};

type Test = fn(Kind);

macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as Test)),*] };
}

const TESTS: &[(&str, Test)] = tests![
    an_operation_without_notes_is_empty,
    every_kind_of_note_is_there_after_a_kill,
    answers_carry_the_state_that_the_entries_before_left,
    a_permission_on_an_old_state_is_lost_and_its_batch_stands,
    facts_stand_whatever_was_seen,
    c37_an_attempt_knows_its_own_admission_again,
    c38_two_concurrent_admissions_have_one_winner,
    c39_a_read_before_the_other_wrote_admits_nothing,
    what_is_applied_is_told_from_memory_and_nothing_else_is,
    an_admission_outside_the_memory_of_the_destination_is_lost,
    a_repeated_batch_changes_nothing,
    a_parked_record_comes_back_byte_for_byte,
    a_slot_knows_its_newest_note_and_how_it_ended,
    a_dead_letter_closes_the_slots_of_the_repeats_it_held,
    a_settled_operation_ends_its_notes_and_closes_no_slot,
    a_record_without_an_operation_is_parked_and_ended,
    a_park_number_is_used_once,
    the_end_of_a_note_that_is_not_there_changes_nothing,
    a_watermark_goes_forward_and_a_commit_is_the_newest,
    below_the_watermark_a_closed_slot_is_forgotten_and_its_number_is_not,
    an_adopted_offset_is_used_up_by_the_next_commit,
    an_adopted_offset_moves_the_watermark_also_back,
    a_duplicate_effect_leaves_a_total_and_an_incident,
    opened_less_closed_is_unresolved,
    listings_show_what_belongs_in_pages,
    the_store_is_bound_once,
    claims_count_starts_and_know_their_nonces,
    a_closed_store_takes_nothing,
    at_the_bound_new_work_is_refused_and_evidence_is_taken,
    a_note_that_does_not_fit_is_refused_with_its_batch,
];

pub(crate) fn trials(kind: Kind) -> Vec<Trial> {
    let trial = |(name, test): &(&'static str, Test)| {
        let test = *test;
        Trial::test(format!("{}::{name}", kind.name()), move || {
            test(kind);
            Ok::<(), Failed>(())
        })
    };
    TESTS.iter().map(trial).collect()
}

fn an_operation_without_notes_is_empty(kind: Kind) {
    let fixture = Fixture::new(kind);
    assert_eq!(*load(fixture.store(), "a"), Known::default());
    assert!(fixture.store().list(Which::All, None, 10).expect("lists").is_empty());
    assert_eq!(fixture.store().count(Which::InDoubt), 0);
    assert!(fixture.store().slots(&[slot(1)])[0].parked.is_none());
}

/// One operation with every kind of note, and what it looks like.
fn everything(fixture: &Fixture) -> Arc<Known> {
    let store = fixture.store();
    stands(store, admit("a", 1, Revision(0)));
    stands(store, doubt("a", 1, DoubtReason::Timeout));
    stands(store, park(Some("a"), Some(seen(store, "a")), 7, 1, ParkReason::Unresolved));
    let record = payload("repeat").digest();
    stands(store, Entry::Hold { key: key("a"), seen: seen(store, "a"), park: park_id(7, 1), slot: slot(9), record });
    stands(store, rule("a", seen(store, "a"), &[1], Ruling::NotDone));
    stands(store, admit("a", 2, seen(store, "a")));
    stands(store, fact("a", 1, Fact::NoEffect("late".into())));
    stands(store, done("a", 2, "ref-1"));
    stands(store, park(Some("a"), None, 11, 1, ParkReason::Conflict));
    load(store, "a")
}

fn every_kind_of_note_is_there_after_a_kill(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let before = everything(&fixture);
    assert_eq!(before.key.as_deref(), Some(&name("a")));
    assert_eq!(before.receipt.admissions().len(), 2);
    assert_eq!((before.parks.len(), before.ends.len(), before.held.len()), (2, 1, 1));
    for stop in [Stop::Killed, Stop::Clean] {
        fixture.reopen(stop);
        assert_eq!(*load(fixture.store(), "a"), *before);
        assert_eq!(load(fixture.store(), "a").revision(), before.revision());
        assert_eq!(fixture.store().sizes().operations, 1);
    }
}

fn answers_carry_the_state_that_the_entries_before_left(kind: Kind) {
    let fixture = Fixture::new(kind);
    let answers = append(fixture.store(), vec![admit("a", 1, Revision(0)), done("a", 1, "r"), admit("b", 1, Revision(0))]);
    let states: Vec<String> = answers
        .iter()
        .map(|answer| match answer {
            Answer::Done(Some(known)) => known.receipt.state().label().to_string(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(states, ["in_doubt", "applied", "in_doubt"]);
}

fn a_permission_on_an_old_state_is_lost_and_its_batch_stands(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    stands(fixture.store(), admit("a", 1, Revision(0)));
    let answers = append(
        fixture.store(),
        vec![
            admit("b", 1, Revision(0)),
            admit("a", 2, Revision(0)),
            rule("a", Revision(0), &[1], Ruling::NotDone),
            park(Some("a"), Some(Revision(0)), 7, 1, ParkReason::Unresolved),
            Entry::Hold { key: key("a"), seen: Revision(0), park: park_id(7, 1), slot: slot(8), record: payload("x").digest() },
            Entry::Watermark { slot: slot(5) },
            admit("c", 1, Revision(0)),
        ],
    );
    let lost: Vec<bool> = answers.iter().map(is_lost).collect();
    assert_eq!(lost, [false, true, true, true, true, false, false]);
    let Answer::Lost(now) = &answers[1] else { unreachable!() };
    assert_eq!(now.revision(), Revision(1), "a lost entry is answered with the state as it is");
    fixture.reopen(Stop::Killed);
    let store = fixture.store();
    assert_eq!(load(store, "a").revision(), Revision(1));
    assert_eq!((load(store, "b").revision(), load(store, "c").revision()), (Revision(1), Revision(1)));
    assert_eq!(store.payload(&park_id(7, 1)).expect("reads"), None);
    assert_eq!(store.slots(&[slot(7)])[0].times, 0);
}

fn facts_stand_whatever_was_seen(kind: Kind) {
    let fixture = Fixture::new(kind);
    let store = fixture.store();
    // Of an attempt that this store never admitted: true whoever writes it.
    stands(store, done("a", 3, "r"));
    assert!(matches!(load(store, "a").receipt.state(), State::Applied(_)));
    stands(store, doubt("a", 3, DoubtReason::Crash));
    stands(store, fact("a", 3, Fact::NoEffect("no".into())));
    assert_eq!(load(store, "a").receipt.notes(), 3);
}

fn c37_an_attempt_knows_its_own_admission_again(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    stands(fixture.store(), admit("a", 1, Revision(0)));
    // The answer was lost: the same attempt asks again, and is told that it holds the admission.
    let again = stands(fixture.store(), admit("a", 1, Revision(0))).expect("a state");
    assert_eq!(again.receipt.admissions().len(), 1);
    fixture.reopen(Stop::Killed);
    stands(fixture.store(), admit("a", 1, Revision(0)));
    // Another attempt under the same number is not the same attempt.
    let mut other = admission(8);
    other.budget_used = 2;
    let entry =
        Entry::Admit { key: key("a"), name: None, seen: Revision(0), attempt: attempt(1), admission: Box::new(other), within: None };
    assert!(is_lost(&append(fixture.store(), vec![entry])[0]));
}

fn race(fixture: &Fixture, id: &str) -> usize {
    let barrier = Barrier::new(2);
    let won = std::thread::scope(|scope| {
        let threads: Vec<_> = [1, 2]
            .map(|claim| {
                let (barrier, store) = (&barrier, fixture.store());
                scope.spawn(move || {
                    let seen = seen(store, id);
                    barrier.wait();
                    let attempt = receipted::protocol::note::AttemptId { number: 1, claim };
                    let admission = Box::new(admission(claim.cast_signed()));
                    let entry = Entry::Admit { key: key(id), name: None, seen, attempt, admission, within: None };
                    !is_lost(&append(store, vec![entry])[0])
                })
            })
            .into_iter()
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).filter(|won| *won).count()
    });
    assert_eq!(load(fixture.store(), id).receipt.admissions().len(), 1);
    won
}

fn c38_two_concurrent_admissions_have_one_winner(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    for round in 0..20 {
        assert_eq!(race(&fixture, &format!("op-{round}")), 1);
    }
    fixture.reopen(Stop::Killed);
    let late = append(fixture.store(), vec![admit("op-0", 1, Revision(0))]);
    assert!(is_lost(&late[0]), "a redelivery after the restart finds the admission");
}

fn c39_a_read_before_the_other_wrote_admits_nothing(kind: Kind) {
    let fixture = Fixture::new(kind);
    let store = fixture.store();
    stands(store, admit("a", 1, Revision(0)));
    stands(store, fact("a", 1, Fact::NoEffect("limit unknown".into())));
    let (first, second) = (seen(store, "a"), seen(store, "a"));
    stands(store, admit("a", 2, first));
    let lost = append(store, vec![admit("a", 3, second)]);
    assert!(is_lost(&lost[0]));
    assert_eq!(name("a").provider_key(0), name("a").provider_key(0));
}

fn an_admission_outside_the_memory_of_the_destination_is_lost(kind: Kind) {
    let fixture = Fixture::new(kind);
    let within = |from: i64, until: i64| {
        let Entry::Admit { key, name, seen, attempt, admission, .. } = admit("a", 1, Revision(0)) else { unreachable!() };
        Entry::Admit { key, name, seen, attempt, admission, within: Some((UnixMillis(from), UnixMillis(until))) }
    };
    fixture.set_wall(UnixMillis(START));
    assert!(is_lost(&append(fixture.store(), vec![within(0, START)])[0]), "over");
    assert!(is_lost(&append(fixture.store(), vec![within(START + 1, START + 9)])[0]), "the clock went back");
    assert!(!is_lost(&append(fixture.store(), vec![within(START, START + 1)])[0]));
}

fn what_is_applied_is_told_from_memory_and_nothing_else_is(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let told = |fixture: &Fixture, id: &str| {
        let told = fixture.store().applied(&key(id));
        // Whoever forgets says nothing; what is said is what is there.
        assert!(told.is_none_or(|told| Some(told) == load(fixture.store(), id).applied_with()), "{id}");
        told.is_some()
    };
    let keeps = kind.remembers();
    let store = fixture.store();
    let printed = stands(store, admit("applied", 1, Revision(0))).expect("a state").receipt.fingerprint().expect("an admission");
    for id in ["open", "rejected", "ruled"] {
        stands(store, admit(id, 1, Revision(0)));
    }
    assert!(!told(&fixture, "applied") && !told(&fixture, "never-seen"));
    stands(store, done("applied", 1, "r"));
    stands(store, fact("rejected", 1, Fact::Rejected("no".into())));
    stands(store, rule("ruled", seen(store, "ruled"), &[], Ruling::Applied(applied("r"))));
    for round in 0..3 {
        for (id, applied) in [("applied", true), ("ruled", true), ("open", false), ("rejected", false), ("never-seen", false)] {
            assert_eq!(told(&fixture, id), applied && keeps, "{id} in round {round}");
        }
        if keeps {
            assert_eq!(fixture.store().applied(&key("applied")), Some(printed));
        }
        // A second effect takes nothing back, and a start reads it all again.
        match round {
            0 => drop(stands(fixture.store(), done("applied", 2, "other"))),
            _ => fixture.reopen(if round == 1 { Stop::Clean } else { Stop::Killed }),
        }
    }
}

fn a_repeated_batch_changes_nothing(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let park = park(Some("a"), None, 11, 1, ParkReason::Conflict);
    let batch = vec![admit("a", 1, Revision(0)), done("a", 1, "r"), park, Entry::Watermark { slot: slot(5) }];
    append(fixture.store(), batch.clone());
    let (before, totals) = (load(fixture.store(), "a"), fixture.store().totals());
    assert!(!append(fixture.store(), batch.clone()).iter().any(is_lost));
    fixture.reopen(Stop::Killed);
    assert!(!append(fixture.store(), batch).iter().any(is_lost));
    assert_eq!(load(fixture.store(), "a"), before);
    assert_eq!(fixture.store().totals(), totals);
    assert_eq!(fixture.store().sizes().parked_bytes, payload("record 11").bytes());
}

fn a_parked_record_comes_back_byte_for_byte(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let large: Vec<u8> = (0..1_048_576_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let records = [
        Payload::default(),
        Payload { key: None, value: Some(Vec::new()), headers: vec![(Vec::new(), Some(Vec::new()))], timestamp: None },
        Payload { key: Some(vec![0, 255, 0]), value: None, headers: vec![(vec![0xc3, 0x28], None)], timestamp: Some(-1) },
        Payload {
            key: Some(Vec::new()),
            value: Some(large),
            headers: vec![(b"n".to_vec(), Some(vec![0; 3000]))],
            timestamp: Some(i64::MAX),
        },
        Payload { value: Some(vec![7; 2048]), ..Payload::default() },
    ];
    for (offset, record) in (0..).zip(&records) {
        let park = park_of(None, ParkReason::DeadLetterFailed, record);
        let entry = Entry::Park { seen: None, id: park_id(offset, 1), park, payload: Arc::new(record.clone()) };
        append(fixture.store(), vec![entry]);
    }
    fixture.reopen(Stop::Killed);
    for (offset, record) in (0..).zip(&records) {
        assert_eq!(fixture.store().payload(&park_id(offset, 1)).expect("reads").as_ref(), Some(record));
    }
    assert_eq!(fixture.store().payload(&park_id(0, 2)).expect("reads"), None);
    assert_eq!(fixture.store().sizes().parked_bytes, records.iter().map(Payload::bytes).sum::<u64>());
}

fn a_slot_knows_its_newest_note_and_how_it_ended(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let store = fixture.store();
    stands(store, park(Some("a"), None, 7, 1, ParkReason::Conflict));
    let notes = store.slots(&[slot(7)]).remove(0);
    let record = payload("record 7").digest();
    assert_eq!(notes.parked.as_ref().map(|(id, park, openness)| (id.number, park.record, *openness)), Some((1, record, Openness::Open)));
    assert_eq!(notes.closed, None);
    stands(store, end(Some("a"), 7, 1, EndKind::Discarded));
    stands(store, Entry::Close { slot: slot(8), closing: Closing::DeadLettered, record });
    for _ in 0..2 {
        let notes = fixture.store().slots(&[slot(7), slot(8), slot(9)]);
        assert_eq!(notes[0].parked.as_ref().map(|(id, _, openness)| (id.number, *openness)), Some((1, Openness::Ended)));
        assert_eq!(notes[0].closed, Some((Closing::Discarded, record)));
        assert_eq!((notes[1].closed, notes[1].times), (Some((Closing::DeadLettered, record)), 0));
        assert_eq!(notes[2], receipted::protocol::park::SlotNotes::default());
        fixture.reopen(Stop::Killed);
    }
    stands(fixture.store(), park(Some("a"), None, 7, 2, ParkReason::Reply));
    fixture.reopen(Stop::Killed);
    let notes = fixture.store().slots(&[slot(7)]).remove(0);
    assert_eq!(notes.parked.map(|(id, _, openness)| (id.number, openness)), Some((2, Openness::Open)));
    assert_eq!(notes.times, 2);
}

fn a_dead_letter_closes_the_slots_of_the_repeats_it_held(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let store = fixture.store();
    stands(store, admit("a", 1, Revision(0)));
    stands(store, fact("a", 1, Fact::NoEffect("not now".into())));
    stands(store, park(Some("a"), Some(seen(store, "a")), 7, 1, ParkReason::Retry));
    let repeats = [(slot(9), payload("nine").digest()), (slot(12), payload("twelve").digest())];
    for (slot, record) in repeats.clone() {
        stands(store, Entry::Hold { key: key("a"), seen: seen(store, "a"), park: park_id(7, 1), slot, record });
    }
    stands(store, end(Some("a"), 7, 1, EndKind::DeadLettered));
    for _ in 0..2 {
        let closed: Vec<_> = fixture.store().slots(&[slot(7), slot(9), slot(12)]).into_iter().map(|notes| notes.closed).collect();
        let records = [payload("record 7").digest(), repeats[0].1, repeats[1].1];
        assert_eq!(closed, records.map(|record| Some((Closing::DeadLettered, record))));
        fixture.reopen(Stop::Killed);
    }
}

fn a_settled_operation_ends_its_notes_and_closes_no_slot(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let store = fixture.store();
    stands(store, admit("a", 1, Revision(0)));
    stands(store, park(Some("a"), Some(Revision(1)), 7, 1, ParkReason::Unresolved));
    stands(store, done("a", 1, "r"));
    for _ in 0..2 {
        let notes = fixture.store().slots(&[slot(7)]).remove(0);
        assert_eq!(notes.parked.map(|(.., openness)| openness), Some(Openness::Ended));
        assert_eq!(notes.closed, None);
        assert!(fixture.store().parked(None, 10).is_empty());
        assert_eq!((fixture.store().count(Which::Parked), fixture.store().sizes().parked_bytes), (0, 0));
        assert_eq!(load(fixture.store(), "a").ends[&park_id(7, 1)].kind, EndKind::Settled);
        fixture.reopen(Stop::Killed);
    }
    let late = append(fixture.store(), vec![park(Some("a"), Some(Revision(1)), 8, 1, ParkReason::Unresolved)]);
    assert!(is_lost(&late[0]), "a note cannot outlive the settlement that it missed");
}

fn a_record_without_an_operation_is_parked_and_ended(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let answers = append(fixture.store(), vec![park(None, None, 7, 1, ParkReason::DeadLetterFailed)]);
    assert_eq!(answers, [Answer::Done(None)]);
    assert_eq!(append(fixture.store(), vec![park(None, None, 7, 1, ParkReason::DeadLetterFailed)]), [Answer::Done(None)]);
    fixture.reopen(Stop::Killed);
    assert_eq!(fixture.store().parked(None, 10).len(), 1);
    assert_eq!(append(fixture.store(), vec![end(None, 7, 1, EndKind::DeadLettered)]), [Answer::Done(None)]);
    for _ in 0..2 {
        let store = fixture.store();
        assert!(store.parked(None, 10).is_empty());
        assert_eq!(store.slots(&[slot(7)])[0].closed, Some((Closing::DeadLettered, payload("record 7").digest())));
        let reason = || ParkReason::DeadLetterFailed.label().into();
        assert_eq!(store.totals()[&Total::ParkedOpened(reason())], 1);
        assert_eq!(store.totals()[&Total::ParkedClosed(reason(), "operator".into())], 1);
        fixture.reopen(Stop::Killed);
    }
}

fn a_park_number_is_used_once(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    stands(fixture.store(), park(Some("a"), None, 7, 1, ParkReason::Conflict));
    stands(fixture.store(), end(Some("a"), 7, 1, EndKind::Discarded));
    stands(fixture.store(), Entry::Watermark { slot: slot(100) });
    for _ in 0..2 {
        // After a rewind the slot is parked again, for another operation or for none.
        let answers = append(
            fixture.store(),
            vec![park(Some("b"), None, 7, 1, ParkReason::Conflict), park(None, None, 7, 1, ParkReason::DeadLetterFailed)],
        );
        assert!(answers.iter().all(is_lost), "{answers:?}");
        assert_eq!(fixture.store().slots(&[slot(7)])[0].next_park(), 2);
        fixture.reopen(Stop::Killed);
    }
    stands(fixture.store(), park(Some("b"), None, 7, 2, ParkReason::Conflict));
    assert_eq!(fixture.store().payload(&park_id(7, 1)).expect("reads"), Some(payload("record 7")));
}

fn the_end_of_a_note_that_is_not_there_changes_nothing(kind: Kind) {
    let fixture = Fixture::new(kind);
    stands(fixture.store(), end(Some("a"), 7, 1, EndKind::Discarded));
    append(fixture.store(), vec![end(None, 7, 1, EndKind::Discarded)]);
    assert_eq!(*load(fixture.store(), "a"), Known::default());
    assert_eq!(fixture.store().slots(&[slot(7)])[0].closed, None);
    assert!(fixture.store().totals().is_empty());
}

fn a_watermark_goes_forward_and_a_commit_is_the_newest(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let partition = Partition { topic: "payments".into(), number: 0 };
    append(fixture.store(), vec![Entry::Watermark { slot: slot(10) }, Entry::Committed { slot: slot(10) }]);
    append(fixture.store(), vec![Entry::Watermark { slot: slot(4) }, Entry::Committed { slot: slot(4) }]);
    let mut other = slot(3);
    other.partition = 5;
    append(fixture.store(), vec![Entry::Watermark { slot: other }]);
    fixture.reopen(Stop::Killed);
    let marks = fixture.store().marks();
    assert_eq!(marks[&partition], Marks { watermark: Some(10), committed: Some(4), adopted: None });
    assert_eq!(marks[&Partition { topic: "payments".into(), number: 5 }].watermark, Some(3));
    assert_eq!(marks.len(), 2);
}

fn below_the_watermark_a_closed_slot_is_forgotten_and_its_number_is_not(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let record = payload("x").digest();
    stands(fixture.store(), park(Some("a"), None, 7, 1, ParkReason::Conflict));
    stands(fixture.store(), park(Some("b"), None, 6, 1, ParkReason::Conflict));
    append(
        fixture.store(),
        vec![
            end(Some("a"), 7, 1, EndKind::Discarded),
            Entry::Close { slot: slot(8), closing: Closing::DeadLettered, record },
            Entry::Close { slot: slot(9), closing: Closing::DeadLettered, record },
            Entry::Watermark { slot: slot(9) },
        ],
    );
    for _ in 0..2 {
        let notes = fixture.store().slots(&[slot(6), slot(7), slot(8), slot(9)]);
        assert!(notes[0].parked.as_ref().is_some_and(|(.., openness)| *openness == Openness::Open), "open notes stay");
        assert_eq!((notes[1].times, notes[1].closed, notes[1].parked.is_none()), (1, None, true));
        assert_eq!((notes[2].closed, notes[3].closed.is_some()), (None, true));
        fixture.reopen(Stop::Killed);
    }
}

fn an_adopted_offset_moves_the_watermark_also_back(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let partition = Partition { topic: "payments".into(), number: 0 };
    append(fixture.store(), vec![Entry::Watermark { slot: slot(50) }, Entry::Committed { slot: slot(50) }]);
    fixture.store().adopt(&partition, 3, "the topic was recreated").expect("adopts");
    append(fixture.store(), vec![Entry::Watermark { slot: slot(7) }]);
    fixture.reopen(Stop::Killed);
    assert_eq!(fixture.store().marks()[&partition], Marks { watermark: Some(7), committed: None, adopted: Some(3) });
}

fn an_adopted_offset_is_used_up_by_the_next_commit(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let partition = Partition { topic: "payments".into(), number: 0 };
    fixture.store().adopt(&partition, 500, "existing group").expect("adopts");
    append(fixture.store(), vec![Entry::Watermark { slot: slot(500) }]);
    fixture.reopen(Stop::Clean);
    assert_eq!(fixture.store().marks()[&partition], Marks { watermark: Some(500), committed: None, adopted: Some(500) });
    append(fixture.store(), vec![Entry::Committed { slot: slot(510) }]);
    fixture.reopen(Stop::Killed);
    assert_eq!(fixture.store().marks()[&partition].adopted, None);
}

fn a_duplicate_effect_leaves_a_total_and_an_incident(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let store = fixture.store();
    stands(store, admit("a", 1, Revision(0)));
    stands(store, rule("a", seen(store, "a"), &[1], Ruling::NotDone));
    stands(store, admit("a", 2, seen(store, "a")));
    stands(store, done("a", 2, "ref-2"));
    assert!(store.incidents(0, 10).expect("reads").is_empty());
    stands(store, done("a", 1, "ref-1"));
    stands(store, done("a", 1, "ref-1"));
    for _ in 0..2 {
        let store = fixture.store();
        let incidents = store.incidents(0, 10).expect("reads");
        assert_eq!(incidents.len(), 1);
        assert_eq!((incidents[0].0, incidents[0].1.key, incidents[0].1.references.len()), (0, key("a"), 2));
        assert_eq!(store.totals()[&Total::DuplicateEffects("late_completion".into(), "certain".into())], 1);
        assert_eq!((store.count(Which::Disputed), store.list(Which::Disputed, None, 5).expect("lists").len()), (1, 1));
        fixture.reopen(Stop::Killed);
    }
    stands(fixture.store(), done("a", 2, "ref-3"));
    let all = fixture.store().incidents(0, 10).expect("reads");
    assert_eq!(all.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(fixture.store().incidents(1, 10).expect("reads"), all[1..]);
    assert_eq!(fixture.store().incidents(0, 1).expect("reads"), all[..1]);
    assert!(fixture.store().incidents(2, 10).expect("reads").is_empty());
}

fn opened_less_closed_is_unresolved(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    for (id, reason) in [("a", DoubtReason::Crash), ("b", DoubtReason::Timeout), ("c", DoubtReason::Timeout)] {
        append(fixture.store(), vec![admit(id, 1, Revision(0)), doubt(id, 1, reason), doubt(id, 1, DoubtReason::Panic)]);
        fixture.reopen(Stop::Killed);
    }
    stands(fixture.store(), done("b", 1, "late"));
    fixture.reopen(Stop::Killed);
    stands(fixture.store(), rule("c", Revision(2), &[1], Ruling::NotDone));
    let totals = fixture.store().totals();
    let sum = |opened: bool| -> u64 {
        let counts = totals.iter().filter(|(total, _)| match total {
            Total::UnresolvedOpened(_) => opened,
            Total::UnresolvedClosed(..) => !opened,
            _ => false,
        });
        counts.map(|(_, value)| value).sum()
    };
    assert_eq!((sum(true), sum(false)), (3, 2));
    assert_eq!(totals[&Total::UnresolvedClosed("applied".into(), "late_fact".into())], 1);
    assert_eq!(totals[&Total::UnresolvedClosed("not_done".into(), "operator".into())], 1);
    assert_eq!(fixture.store().count(Which::InDoubt), 1);
}

fn listings_show_what_belongs_in_pages(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let store = fixture.store();
    for id in 0..7 {
        stands(store, admit(&format!("doubt-{id}"), 1, Revision(0)));
    }
    append(store, vec![admit("settled", 1, Revision(0)), done("settled", 1, "r")]);
    append(store, vec![admit("superseded", 1, Revision(0)), done("superseded", 2, "r")]);
    append(store, vec![admit("reopened", 1, Revision(0)), fact("reopened", 1, Fact::Rejected("limit".into()))]);
    stands(store, rule("reopened", seen(store, "reopened"), &[1], Ruling::Reopened));
    append(store, vec![park(Some("parked"), None, 7, 1, ParkReason::Expired), park(None, None, 8, 1, ParkReason::DeadLetterFailed)]);
    for _ in 0..2 {
        let store = fixture.store();
        for (which, count) in [
            (Which::All, 11),
            (Which::InDoubt, 7),
            (Which::Parked, 1),
            (Which::Disputed, 0),
            (Which::Superseded, 1),
            (Which::ReopenedWaiting, 1),
        ] {
            let (mut keys, mut after) = (Vec::new(), None);
            loop {
                let page = store.list(which, after, 3).expect("lists");
                assert!(page.len() <= 3);
                let Some((last, _)) = page.last() else { break };
                after = Some(*last);
                for (key, known) in page {
                    assert_eq!(store.load(&[key]).expect("reads")[0], known);
                    keys.push(key);
                }
            }
            assert_eq!(keys.len(), count, "{which:?}");
            assert!(keys.is_sorted_by(|a, b| a < b), "ascending, each once");
            assert_eq!(store.count(which), count, "{which:?}");
        }
        assert_eq!(store.parked(None, 1).len(), 1);
        let first = store.parked(None, 1).remove(0).0;
        assert_eq!(store.parked(Some(&first), 9).len(), 1);
        fixture.reopen(Stop::Killed);
    }
}

fn the_store_is_bound_once(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    fixture.store().bind("cluster-1", "billing").expect("binds");
    fixture.reopen(Stop::Clean);
    fixture.store().bind("cluster-1", "billing").expect("the same");
    for (cluster, group, what) in [("cluster-2", "billing", "cluster"), ("cluster-1", "mail", "group")] {
        match fixture.store().bind(cluster, group) {
            Err(Error::Foreign { what: found, .. }) => assert_eq!(found, what),
            other => panic!("{other:?}"),
        }
    }
}

fn claims_count_starts_and_know_their_nonces(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let first = fixture.store().identity().clone();
    assert_eq!((first.claim, first.previous_stop), (1, PreviousStop::First));
    assert_eq!((first.store_id.len(), first.nonce.len()), (32, 32));
    fixture.reopen(Stop::Killed);
    let second = fixture.store().identity().clone();
    assert_eq!((second.claim, second.previous_stop), (2, PreviousStop::Unclean));
    assert_eq!(second.store_id, first.store_id);
    assert_ne!(second.nonce, first.nonce);
    fixture.reopen(Stop::Clean);
    let third = fixture.store().identity().clone();
    assert_eq!((third.claim, third.previous_stop), (3, PreviousStop::Clean));
    for nonce in [&first.nonce, &second.nonce, &third.nonce] {
        assert!(fixture.store().wrote_nonce(nonce).expect("reads"));
    }
    assert!(!fixture.store().wrote_nonce(&"0".repeat(32)).expect("reads"));
}

fn a_closed_store_takes_nothing(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    stands(fixture.store(), admit("a", 1, Revision(0)));
    fixture.store().close().expect("closes");
    let store = fixture.store();
    assert!(matches!(store.append(Batch(vec![done("a", 1, "r")])), Err(Error::Stopped { .. })));
    assert!(matches!(store.load(&[key("a")]), Err(Error::Stopped { .. })));
    assert!(matches!(store.list(Which::All, None, 1), Err(Error::Stopped { .. })));
    assert!(matches!(store.bind("c", "g"), Err(Error::Stopped { .. })));
    assert!(matches!(store.close(), Err(Error::Stopped { .. })));
    fixture.reopen(Stop::Killed);
    assert_eq!(load(fixture.store(), "a").revision(), Revision(1));
}

fn at_the_bound_new_work_is_refused_and_evidence_is_taken(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let bytes = payload("record 7").bytes();
    fixture.set_parked_bytes_max(bytes);
    append(fixture.store(), vec![admit("a", 1, Revision(0)), doubt("a", 1, DoubtReason::Timeout)]);
    assert!(fixture.store().pressure().is_none());
    stands(fixture.store(), park(Some("a"), Some(Revision(2)), 7, 1, ParkReason::Unresolved));
    let full = fixture.store().pressure();
    assert!(matches!(full, Some(Error::Full { limit, .. }) if limit == bytes), "{full:?}");
    for entry in [admit("b", 1, Revision(0)), park(Some("b"), None, 8, 1, ParkReason::Conflict)] {
        let refused = fixture.store().append(Batch(vec![entry]));
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    }
    assert_eq!(*load(fixture.store(), "b"), Known::default());
    // Only what is parked makes room, so that its own record may run; beside new work it waits.
    let seen = seen(fixture.store(), "a");
    let both = fixture.store().append(Batch(vec![admit("a", 2, seen), admit("b", 1, Revision(0))]));
    assert!(matches!(both, Err(Error::Full { .. })), "{both:?}");
    stands(fixture.store(), admit("a", 2, seen));
    append(fixture.store(), vec![done("a", 1, "r"), Entry::Watermark { slot: slot(8) }]);
    assert!(fixture.store().pressure().is_none(), "its end makes room");
    stands(fixture.store(), admit("b", 1, Revision(0)));
}

fn a_note_that_does_not_fit_is_refused_with_its_batch(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    let large = fact("b", 1, Fact::NoEffect("x".repeat(20_000)));
    let refused = fixture.store().append(Batch(vec![admit("a", 1, Revision(0)), large]));
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    assert_eq!(*load(fixture.store(), "a"), Known::default());
    fixture.reopen(Stop::Killed);
    assert_eq!(*load(fixture.store(), "a"), Known::default());
    stands(fixture.store(), fact("b", 1, Fact::NoEffect("x".repeat(4096))));
}
