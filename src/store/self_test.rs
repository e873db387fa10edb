//! Owns the question whether a store refuses what it must: one probe operation, which no record can carry, admitted twice. It owns no
//! rule; when it is asked is the runner's.

use super::{Batch, Error, ReceiptStore};
use crate::protocol::{
    fingerprint::Fingerprint,
    key::KeyDigest,
    known::{Answer, Entry, Revision},
    note::{Admission, AttemptId, Fact, Slot},
    time::UnixMillis,
};
use std::time::Duration;

/// The probe's key: text, and so the digest of no key. It is counted and listed nowhere.
pub(super) const PROBE: KeyDigest = KeyDigest(*b"receipted self-test probe key v1");

/// The one attempt that the probe ever has.
const FIRST: AttemptId = AttemptId { number: 1, claim: 1 };
/// The one that has to be refused.
const SECOND: AttemptId = AttemptId { number: 2, claim: 1 };

/// Admits the probe twice. The first admission stands, or stood since an earlier start; the second rests on a state that is gone, and
/// has to be refused. Writes two small notes when the store has no probe yet, and nothing ever after; also at a bound of the store.
/// Waits for the writer: never call it from async code.
///
/// # Errors
/// [`Error::SelfTest`] when the store takes what it must refuse, refuses what it must take, or forgets; else what the store says.
pub fn self_test(store: &dyn ReceiptStore) -> Result<(), Error> {
    let failed = |detail: &str| Err(Error::SelfTest { detail: detail.into() });
    match admit(store, FIRST)? {
        Some(Answer::Done(_)) => {}
        Some(Answer::Lost(_)) => return failed("the first admission of a key that nothing else uses was refused"),
        None => return failed("an admission got no answer"),
    }
    let seen = match admit(store, SECOND)? {
        Some(Answer::Lost(seen)) => seen,
        Some(Answer::Done(_)) => return failed("a second admission of one operation was taken, so that its handler could run twice"),
        None => return failed("an admission got no answer"),
    };
    let loaded = store.load(&[PROBE])?;
    let is_first = |known: &crate::protocol::known::Known| known.receipt.admissions().keys().eq([&FIRST]);
    match loaded.first() {
        Some(known) if is_first(known) && is_first(&seen) => Ok(()),
        _ => failed("what is read of the probe is not its first admission alone"),
    }
}

/// Admits the probe as if nothing were known of it. The fact makes the attempt one that certainly had no effect, and the batch one that
/// is judged also where new work is not taken.
fn admit(store: &dyn ReceiptStore, attempt: AttemptId) -> Result<Option<Answer>, Error> {
    let admission = Admission {
        fingerprint: Fingerprint::Unchecked,
        slot: Slot { topic: "receipted.self-test".into(), partition: 0, offset: 0 },
        at: UnixMillis(0),
        time_limit: Duration::ZERO,
        memory: None,
        key_generation: 0,
        budget_used: 1,
        correlation: None,
    };
    let admission = Box::new(admission);
    let batch = vec![
        Entry::Admit { key: PROBE, name: None, seen: Revision(0), attempt, admission, within: None },
        Entry::Fact { key: PROBE, attempt: FIRST, fact: Fact::NotStarted },
    ];
    Ok(store.append(Batch(batch))?.answers.into_iter().next())
}
