//! Notes with short names, for the tests beside it.

use receipted::protocol::{
    fingerprint::Fingerprint,
    key::KeyDigest,
    known::{Entry, Known, Revision},
    note::{Admission, Answer, Applied, AttemptId, Author, Doubt, DoubtReason, Fact, Reference, Ruling, Slot, Verdict},
    park::{Park, ParkId, ParkReason, Payload, RecordDigest},
    receipt::Receipt,
    time::UnixMillis,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

pub(crate) const KEY: KeyDigest = KeyDigest([7; 32]);
pub(crate) const RECORD: RecordDigest = RecordDigest([1; 16]);
pub(crate) const OTHER_RECORD: RecordDigest = RecordDigest([2; 16]);
pub(crate) const PRINT: Fingerprint = Fingerprint::Digest([1; 16]);
pub(crate) const OTHER_PRINT: Fingerprint = Fingerprint::Digest([2; 16]);

pub(crate) fn attempt(number: u32) -> AttemptId {
    AttemptId { number, claim: 1 }
}

pub(crate) fn attempts(numbers: &[u32]) -> BTreeSet<AttemptId> {
    numbers.iter().copied().map(attempt).collect()
}

pub(crate) fn slot(offset: i64) -> Slot {
    Slot { topic: "payments".into(), partition: 0, offset }
}

pub(crate) fn admission(number: u32) -> Admission {
    Admission {
        fingerprint: PRINT,
        slot: slot(0),
        at: UnixMillis(i64::from(number) * 1000),
        time_limit: Duration::from_secs(30),
        memory: None,
        key_generation: 0,
        budget_used: number,
        correlation: None,
    }
}

pub(crate) fn applied(reference: &str) -> Applied {
    Applied { reference: Reference::new(reference), answer: Answer::Json("{}".into()), already: false }
}

pub(crate) fn already(reference: &str) -> Applied {
    Applied { already: true, ..applied(reference) }
}

pub(crate) fn rejected() -> Fact {
    Fact::Rejected("over the limit".into())
}

pub(crate) fn no_effect() -> Fact {
    Fact::NoEffect("busy".into())
}

pub(crate) fn doubt(reason: DoubtReason) -> Doubt {
    Doubt { reason, detail: String::new(), at: UnixMillis(500) }
}

pub(crate) fn operator() -> Author {
    Author::Operator { name: "ada".into(), uid: 1000 }
}

pub(crate) fn verdict(ruling: Ruling, numbers: &[u32], by: Author) -> Verdict {
    Verdict { attempts: attempts(numbers), ruling, by, reason: "seen in their ledger".into(), at: UnixMillis(9000), fresh_key: false }
}

/// A receipt with these attempts admitted.
pub(crate) fn admitted(numbers: &[u32]) -> Receipt {
    let mut receipt = Receipt::default();
    for number in numbers {
        receipt.admit(attempt(*number), admission(*number));
    }
    receipt
}

pub(crate) fn known(receipt: Receipt) -> Known {
    Known { receipt, ..Known::default() }
}

pub(crate) fn park(reason: ParkReason) -> Park {
    Park {
        reason,
        key: Some(KEY),
        fingerprint: Some(PRINT),
        attempt: None,
        record: RECORD,
        bytes: 0,
        detail: String::new(),
        at: UnixMillis(0),
    }
}

pub(crate) fn park_id(offset: i64, number: u32) -> ParkId {
    ParkId { slot: slot(offset), number }
}

pub(crate) fn park_entry(known: &Known, offset: i64, reason: ParkReason) -> Entry {
    let id = park_id(offset, known.next_park(&slot(offset)));
    Entry::Park { seen: Some(known.revision()), id, park: Arc::new(park(reason)), payload: Arc::new(Payload::default()) }
}

pub(crate) fn admit_entry(seen: Revision, number: u32) -> Entry {
    let admission = Box::new(admission(number));
    Entry::Admit { key: KEY, name: None, seen, attempt: attempt(number), admission, within: None }
}

pub(crate) fn fact_entry(number: u32, fact: Fact) -> Entry {
    Entry::Fact { key: KEY, attempt: attempt(number), fact }
}

pub(crate) fn doubt_entry(number: u32, reason: DoubtReason) -> Entry {
    Entry::Doubt { key: KEY, attempt: attempt(number), doubt: doubt(reason) }
}

pub(crate) fn rule_entry(seen: Revision, verdict: Verdict) -> Entry {
    Entry::Rule { key: KEY, seen, verdict: Box::new(verdict) }
}
