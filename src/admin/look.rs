//! Owns what is only looked at: listings, one operation, and the store at a glance. Reads the store and changes nothing; may touch the
//! disk.

use super::{
    command::{Filter, LIST_MAX, List, Malformed, park_name, parse_digest, parse_park},
    view::{Listing, OperationView, held, note_line, operation_line, operation_view},
};
use crate::{
    protocol::{
        change::{Total, sum},
        key::KeyDigest,
        receipt::State,
        time::UnixMillis,
    },
    store::{Error, ReceiptStore, Which},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The store at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The store's id.
    pub store: String,
    /// The claim of this process start.
    pub claim: u64,
    /// Operations that have a receipt.
    pub operations: u64,
    /// Operations in doubt.
    pub in_doubt: usize,
    /// Operations with a parked record.
    pub parked: usize,
    /// Operations whose evidence contradicts itself.
    pub disputed: usize,
    /// Applied operations with an undecided attempt.
    pub superseded: usize,
    /// Reopened operations without a record to run from.
    pub reopened_waiting: usize,
    /// Effects beyond the first, since the store was made.
    pub duplicate_effects: u64,
    /// Bytes on disk.
    pub store_bytes: u64,
    /// Bytes free on that disk.
    pub disk_free_bytes: u64,
    /// Bytes of parked records.
    pub parked_bytes: u64,
    /// The bound that the store is at.
    pub pressure: Option<String>,
    /// How far each partition is: watermark and confirmed commit.
    pub partitions: BTreeMap<String, (Option<i64>, Option<i64>)>,
}

/// Why a look failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failed {
    /// Correct the request.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// See the store's own error.
    #[error(transparent)]
    Store(#[from] Error),
}

/// A page of a listing.
///
/// # Errors
/// When the request makes no sense, or the store cannot be read.
pub fn list(store: &dyn ReceiptStore, list: &List, now: UnixMillis) -> Result<Listing, Failed> {
    let limit = list.limit.clamp(1, LIST_MAX);
    let which = match list.state {
        Filter::Parked => return notes(store, list.after.as_deref(), limit, now),
        Filter::All => Which::All,
        Filter::InDoubt => Which::InDoubt,
        Filter::Disputed => Which::Disputed,
        Filter::Superseded => Which::Superseded,
        Filter::Reopened => Which::ReopenedWaiting,
    };
    let after = list.after.as_deref().map(parse_digest).transpose()?;
    let page = store.list(which, after, limit)?;
    let next = page.last().filter(|_| page.len() == limit).map(|(key, _)| key.to_string());
    let operations = page.iter().map(|(key, known)| operation_line(*key, known, now)).collect();
    Ok(Listing { operations, notes: Vec::new(), next, parked: parked(store) })
}

fn notes(store: &dyn ReceiptStore, after: Option<&str>, limit: usize, now: UnixMillis) -> Result<Listing, Failed> {
    let wrong = Malformed { part: "after", problem: "is no park note" };
    let after = after.map(|after| parse_park(after).ok_or(wrong)).transpose()?;
    let page = store.parked(after.as_ref(), limit);
    let next = page.last().filter(|_| page.len() == limit).map(|(id, _)| park_name(id));
    let keys: Vec<KeyDigest> = page.iter().filter_map(|(_, note)| note.key).collect();
    let known: BTreeMap<KeyDigest, _> = keys.iter().copied().zip(store.load(&keys)?).collect();
    let repeats = |id, key: Option<KeyDigest>| key.and_then(|key| known.get(&key)).map_or(0, |known| held(known, id));
    let notes = page.iter().map(|(id, note)| note_line(id, note, None, repeats(id, note.key), now)).collect();
    Ok(Listing { operations: Vec::new(), notes, next, parked: parked(store) })
}

/// How many records are parked.
fn parked(store: &dyn ReceiptStore) -> u64 {
    let totals = store.totals();
    let opened = sum(&totals, |total| matches!(total, Total::ParkedOpened(_)));
    opened.saturating_sub(sum(&totals, |total| matches!(total, Total::ParkedClosed(..))))
}

/// One operation with everything; none when nothing is known of it.
///
/// # Errors
/// When the store cannot be read.
pub fn show(store: &dyn ReceiptStore, key: KeyDigest, now: UnixMillis) -> Result<Option<OperationView>, Error> {
    let known = store.load(&[key])?.pop().unwrap_or_default();
    let nothing = known.receipt.state() == State::New && known.parks.is_empty();
    Ok((!nothing).then(|| operation_view(key, &known, now)))
}

/// The store at a glance.
#[must_use]
pub fn status(store: &dyn ReceiptStore) -> Status {
    let (identity, sizes) = (store.identity(), store.sizes());
    let duplicates = sum(&store.totals(), |total| matches!(total, Total::DuplicateEffects(..)));
    Status {
        store: identity.store_id.clone(),
        claim: identity.claim,
        operations: sizes.operations,
        in_doubt: store.count(Which::InDoubt),
        parked: store.count(Which::Parked),
        disputed: store.count(Which::Disputed),
        superseded: store.count(Which::Superseded),
        reopened_waiting: store.count(Which::ReopenedWaiting),
        duplicate_effects: duplicates,
        store_bytes: sizes.store_bytes,
        disk_free_bytes: sizes.disk_free_bytes,
        parked_bytes: sizes.parked_bytes,
        pressure: store.pressure().map(|error| error.to_string()),
        partitions: store.marks().into_iter().map(|(at, marks)| (at.to_string(), (marks.watermark, marks.committed))).collect(),
    }
}
