//! Receipts as charges have them, for the benches of the store.

use receipted::protocol::{
    fingerprint::Fingerprint,
    key::{Alphabet, OperationKey},
    note::{Admission, Answer, Applied, AttemptId, Reference, Slot},
    time::UnixMillis,
};
use std::time::Duration;

/// Each operation has one.
pub const ATTEMPT: AttemptId = AttemptId { number: 1, claim: 1 };

pub fn name(i: usize) -> OperationKey {
    OperationKey::new("acme", "charge.v1", &[format!("INV-{i:09}")], Alphabet::Token).expect("a valid key")
}

pub fn admission(offset: usize) -> Admission {
    Admission {
        fingerprint: Fingerprint::Digest([7; 16]),
        slot: Slot { topic: "payments".into(), partition: 3, offset: offset as i64 },
        at: UnixMillis(1_700_000_000_000),
        time_limit: Duration::from_secs(30),
        memory: None,
        key_generation: 0,
        budget_used: 1,
        correlation: Some("0af7651916cd43dd8448eb211c80319c".into()),
    }
}

pub fn applied(i: usize) -> Applied {
    let reference = Reference::new(&format!("ch_{i:020}"));
    Applied { reference, answer: Answer::Json(format!("{{\"charge\":\"ch_{i:020}\",\"cents\":1999}}")), already: false }
}
