//! Where a partition may be read from when its store was imported.

use receipted::protocol::start::{Acquaintance, FirstStart, Lineage, Refusal, Situation, Start};

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
