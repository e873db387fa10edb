//! Short ways to write entries.

use receipted::{
    protocol::{
        fingerprint::Fingerprint,
        key::{Alphabet, KeyDigest, OperationKey},
        known::{Answer, Entry, Known, Revision},
        note::{Admission, Answer as Reply, Applied, AttemptId, Author, Doubt, DoubtReason, Fact, Reference, Ruling, Slot, Verdict},
        park::{End, EndKind, Park, ParkId, ParkReason, Payload},
        time::UnixMillis,
    },
    store::{Batch, ReceiptStore},
};
use std::{sync::Arc, time::Duration};

pub(crate) fn name(id: &str) -> OperationKey {
    OperationKey::new("acme", "charge.v1", &[id.to_string()], Alphabet::Token).expect("a valid key")
}

pub(crate) fn key(id: &str) -> KeyDigest {
    name(id).digest()
}

pub(crate) fn slot(offset: i64) -> Slot {
    Slot { topic: "payments".into(), partition: 0, offset }
}

pub(crate) fn attempt(number: u32) -> AttemptId {
    AttemptId { number, claim: 1 }
}

pub(crate) fn print(byte: u8) -> Fingerprint {
    Fingerprint::Digest([byte; 16])
}

pub(crate) fn admission(offset: i64) -> Admission {
    Admission {
        fingerprint: print(1),
        slot: slot(offset),
        at: UnixMillis(1),
        time_limit: Duration::from_secs(30),
        memory: None,
        key_generation: 0,
        budget_used: 1,
        correlation: Some("trace".into()),
    }
}

pub(crate) fn admit(id: &str, number: u32, seen: Revision) -> Entry {
    Entry::Admit {
        key: key(id),
        name: Some(Arc::new(name(id))),
        seen,
        attempt: attempt(number),
        admission: Box::new(admission(7)),
        within: None,
    }
}

pub(crate) fn applied(reference: &str) -> Applied {
    Applied { reference: Reference::new(reference), answer: Reply::Json("{\"ok\":true}".into()), already: false }
}

pub(crate) fn fact(id: &str, number: u32, fact: Fact) -> Entry {
    Entry::Fact { key: key(id), attempt: attempt(number), fact }
}

pub(crate) fn done(id: &str, number: u32, reference: &str) -> Entry {
    fact(id, number, Fact::Applied(applied(reference)))
}

pub(crate) fn doubt(id: &str, number: u32, reason: DoubtReason) -> Entry {
    Entry::Doubt { key: key(id), attempt: attempt(number), doubt: Doubt { reason, detail: "nobody knows".into(), at: UnixMillis(2) } }
}

pub(crate) fn operator() -> Author {
    Author::Operator { name: "mia".into(), uid: 1000 }
}

pub(crate) fn rule(id: &str, seen: Revision, attempts: &[u32], ruling: Ruling) -> Entry {
    let verdict = Verdict {
        attempts: attempts.iter().map(|number| attempt(*number)).collect(),
        ruling,
        by: operator(),
        reason: "looked at the ledger".into(),
        at: UnixMillis(3),
        fresh_key: false,
    };
    Entry::Rule { key: key(id), seen, verdict: Box::new(verdict) }
}

pub(crate) fn payload(text: &str) -> Payload {
    Payload {
        key: Some(b"k".to_vec()),
        value: Some(text.as_bytes().to_vec()),
        headers: vec![(vec![0xff, 0xfe], None), (b"type".to_vec(), Some(b"charge".to_vec()))],
        timestamp: Some(42),
    }
}

pub(crate) fn park_id(offset: i64, number: u32) -> ParkId {
    ParkId { slot: slot(offset), number }
}

pub(crate) fn park_of(id: Option<&str>, reason: ParkReason, payload: &Payload) -> Arc<Park> {
    Arc::new(Park {
        reason,
        key: id.map(key),
        fingerprint: id.map(|_| print(1)),
        attempt: None,
        record: payload.digest(),
        bytes: payload.bytes(),
        detail: "set aside".into(),
        at: UnixMillis(4),
    })
}

pub(crate) fn park(id: Option<&str>, seen: Option<Revision>, offset: i64, number: u32, reason: ParkReason) -> Entry {
    let payload = payload(&format!("record {offset}"));
    Entry::Park { seen, id: park_id(offset, number), park: park_of(id, reason, &payload), payload: Arc::new(payload) }
}

pub(crate) fn end(id: Option<&str>, offset: i64, number: u32, kind: EndKind) -> Entry {
    let end = End { kind, by: Some(operator()), reason: "no use".into(), at: UnixMillis(5) };
    Entry::End { key: id.map(key), seen: None, park: park_id(offset, number), end }
}

pub(crate) fn append(store: &dyn ReceiptStore, entries: Vec<Entry>) -> Vec<Answer> {
    store.append(Batch(entries)).expect("the batch is durable").answers
}

/// Appends one entry that must stand.
pub(crate) fn stands(store: &dyn ReceiptStore, entry: Entry) -> Option<Arc<Known>> {
    match append(store, vec![entry]).remove(0) {
        Answer::Done(known) => known,
        Answer::Lost(known) => panic!("lost: {known:?}"),
    }
}

pub(crate) fn is_lost(answer: &Answer) -> bool {
    matches!(answer, Answer::Lost(_))
}

pub(crate) fn load(store: &dyn ReceiptStore, id: &str) -> Arc<Known> {
    store.load(&[key(id)]).expect("the store reads").remove(0)
}

pub(crate) fn seen(store: &dyn ReceiptStore, id: &str) -> Revision {
    load(store, id).revision()
}
