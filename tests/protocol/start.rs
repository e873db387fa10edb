//! Where a partition may be read from, and when it must not be read at all.

use receipted::protocol::{
    start::{Acquaintance, FirstStart, Lineage, Refusal, Situation, Start, Writer},
    time::UnixMillis,
};

fn fresh(lineage: Lineage, topic_known: Acquaintance, high: i64) -> Result<Start, Refusal> {
    let situation = Situation {
        committed: None,
        low: 2,
        high,
        watermark: None,
        confirmed: None,
        adopted: None,
        topic_known,
        first_start: FirstStart::Earliest,
        lineage,
    };
    situation.decide()
}

fn at(offset: i64) -> Result<Start, Refusal> {
    Ok(Start { offset, known_complete: offset, regression: None })
}

#[test]
fn an_imported_store_takes_no_first_start_from_a_setting() {
    assert_eq!(fresh(Lineage::Own, Acquaintance::New, 9), at(2));
    assert_eq!(fresh(Lineage::Imported, Acquaintance::New, 9), Err(Refusal::Imported { low: 2, high: 9 }));
    assert!(!Refusal::Imported { low: 2, high: 9 }.halts_partition_only(), "the process does not start");
    let said = Refusal::Imported { low: 2, high: 9 }.to_string();
    for part in ["imported", "offsets 2 to 9", "receipted store adopt TOPIC/PARTITION --offset N"] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    // A partition that was added to a topic whose offsets were adopted, and an offset that was adopted for this one.
    assert_eq!(fresh(Lineage::Imported, Acquaintance::Known, 9), at(2));
    let adopted = Situation {
        committed: None,
        low: 2,
        high: 9,
        watermark: Some(5),
        confirmed: None,
        adopted: Some(5),
        topic_known: Acquaintance::New,
        first_start: FirstStart::Unset,
        lineage: Lineage::Imported,
    };
    assert_eq!(adopted.decide(), at(5));
}

#[test]
fn an_imported_store_begins_on_a_topic_that_never_had_a_record() {
    let empty = Situation {
        committed: None,
        low: 0,
        high: 0,
        watermark: None,
        confirmed: None,
        adopted: None,
        topic_known: Acquaintance::New,
        first_start: FirstStart::Unset,
        lineage: Lineage::Imported,
    };
    assert_eq!(empty.decide(), at(0));
}

/// A partition of offsets 2 to 9 that this store has completed up to 5.
fn known() -> Situation {
    Situation {
        committed: None,
        low: 2,
        high: 9,
        watermark: Some(5),
        confirmed: Some(5),
        adopted: None,
        topic_known: Acquaintance::Known,
        first_start: FirstStart::Unset,
        lineage: Lineage::Own,
    }
}

#[test]
fn an_offset_of_another_store_or_of_a_copy_is_refused() {
    let of = |committed, writer| Situation { committed: Some((committed, writer)), ..known() }.decide();
    assert_eq!(of(5, Writer::ThisStore), at(5));
    assert_eq!(of(5, Writer::OtherStore), Err(Refusal::OtherStore { committed: 5 }));
    assert_eq!(of(5, Writer::Copy), Err(Refusal::Copy { committed: 5 }));
    assert_eq!(of(6, Writer::ThisStore), Err(Refusal::OlderCopy { committed: 6, watermark: 5 }));
    assert_eq!(of(6, Writer::Nobody), Err(Refusal::NotOurs { committed: 6 }));
    let forgot = Situation { watermark: None, committed: Some((6, Writer::ThisStore)), ..known() };
    assert_eq!(forgot.decide(), Err(Refusal::OlderCopy { committed: 6, watermark: 0 }), "the store was put back to a time before");
}

#[test]
fn a_rewind_by_an_operator_is_read_and_a_commit_that_a_crash_left_behind_is_not() {
    let of = |committed, writer, confirmed| Situation { committed: Some((committed, writer)), confirmed, ..known() }.decide();
    let rewound = Start { offset: 3, known_complete: 5, regression: Some(5) };
    assert_eq!(of(3, Writer::Nobody, Some(5)), Ok(rewound));
    assert_eq!(of(3, Writer::ThisStore, Some(5)), Ok(rewound), "with its metadata kept");
    assert_eq!(of(3, Writer::ThisStore, Some(3)), at(5));
}

#[test]
fn a_log_that_lost_records_or_was_made_anew_is_said() {
    assert_eq!(Situation { low: 6, ..known() }.decide(), Err(Refusal::Truncated { from: 5, to: 6 }));
    assert_eq!(Situation { high: 4, ..known() }.decide(), Err(Refusal::AboveEnd { committed: 5, high: 4 }));
}

#[test]
fn a_first_start_on_a_topic_with_records_has_to_be_said() {
    let new = Situation { watermark: None, confirmed: None, topic_known: Acquaintance::New, ..known() };
    assert_eq!(new.decide(), Err(Refusal::FirstStartUnset { low: 2, high: 9 }));
    assert_eq!(Situation { first_start: FirstStart::Earliest, ..new.clone() }.decide(), at(2));
    assert_eq!(Situation { first_start: FirstStart::Latest, ..new.clone() }.decide(), at(9));
    for (found, offset) in [(Some(4), 4), (Some(1), 2), (Some(12), 9), (None, 9)] {
        let first_start = FirstStart::At(UnixMillis(1), found);
        assert_eq!(Situation { first_start, ..new.clone() }.decide(), at(offset), "{found:?}: the first at that time, or the end");
    }
    assert_eq!(Situation { low: 0, high: 0, ..new }.decide(), at(0), "an empty one has nothing to say");
}
