//! Owns what is read from the store for metrics: its durable counters, and how much is unresolved, parked and kept. It may touch the
//! disk: call it from a thread that may wait.

use crate::{
    protocol::{change::Total, note::DoubtReason, park::ParkReason, time::UnixMillis},
    store::{Error, ReceiptStore, Which},
};
use metrics::{counter, gauge};
use std::collections::BTreeMap;

/// Operations or notes that are looked at in one turn, at most; sizes beyond it are too small, and say so by standing at it.
pub const SCAN_MAX: usize = 100_000;
/// Of these, at once.
const PAGE: usize = 1000;

/// A size, and the wall clock of its oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Aged {
    /// How many.
    pub count: usize,
    /// When the oldest began.
    pub oldest: Option<UnixMillis>,
}

impl Aged {
    fn add(&mut self, at: UnixMillis) {
        self.count += 1;
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
    }

    fn age_seconds(self, now: UnixMillis) -> f64 {
        self.oldest.map_or(0.0, |oldest| now.0.saturating_sub(oldest.0).max(0) as f64 / 1000.0)
    }
}

/// Reads the store and exports what it says.
///
/// # Errors
/// When the store cannot be read.
pub fn export(store: &dyn ReceiptStore, now: UnixMillis) -> Result<(), Error> {
    for (total, value) in store.totals() {
        export_total(&total, value);
    }
    let unresolved = unresolved(store)?;
    for reason in DoubtReason::ALL {
        let aged = unresolved.get(&reason).copied().unwrap_or_default();
        gauge!("receipted_unresolved", "reason" => reason.label()).set(aged.count as f64);
        gauge!("receipted_unresolved_oldest_seconds", "reason" => reason.label()).set(aged.age_seconds(now));
    }
    let parked = parked(store);
    for reason in ParkReason::ALL {
        let aged = parked.get(&reason).copied().unwrap_or_default();
        gauge!("receipted_parked", "reason" => reason.label()).set(aged.count as f64);
        gauge!("receipted_parked_oldest_seconds", "reason" => reason.label()).set(aged.age_seconds(now));
    }
    let counted = [
        ("receipted_disputed", Which::Disputed),
        ("receipted_superseded_unproved", Which::Superseded),
        ("receipted_reopened_waiting", Which::ReopenedWaiting),
    ];
    for (name, which) in counted {
        gauge!(name).set(store.count(which) as f64);
    }
    let sizes = store.sizes();
    gauge!("receipted_parked_bytes").set(sizes.parked_bytes as f64);
    gauge!("receipted_store_receipts").set(sizes.operations as f64);
    gauge!("receipted_store_bytes").set(sizes.store_bytes as f64);
    gauge!("receipted_disk_free_bytes").set(sizes.disk_free_bytes as f64);
    Ok(())
}

/// Unresolved attempts by reason: admitted, without fact or verdict, with their doubt noted, and the operation not applied.
///
/// # Errors
/// When the store cannot be read.
pub fn unresolved(store: &dyn ReceiptStore) -> Result<BTreeMap<DoubtReason, Aged>, Error> {
    let mut by_reason: BTreeMap<DoubtReason, Aged> = BTreeMap::new();
    let (mut after, mut seen) = (None, 0);
    while seen < SCAN_MAX {
        let page = store.list(Which::InDoubt, after, PAGE)?;
        for (_, known) in &page {
            for (attempt, reason) in known.receipt.unresolved() {
                let at = known.receipt.doubts().get(&attempt).map_or(UnixMillis(i64::MAX), |doubt| doubt.at);
                by_reason.entry(reason).or_default().add(at);
            }
        }
        seen += page.len();
        match page.last() {
            Some((key, _)) if page.len() == PAGE => after = Some(*key),
            _ => break,
        }
    }
    Ok(by_reason)
}

/// Open park notes by reason.
#[must_use]
pub fn parked(store: &dyn ReceiptStore) -> BTreeMap<ParkReason, Aged> {
    let mut by_reason: BTreeMap<ParkReason, Aged> = BTreeMap::new();
    let (mut after, mut seen) = (None, 0);
    while seen < SCAN_MAX {
        let page = store.parked(after.as_ref(), PAGE);
        page.iter().for_each(|(_, note)| by_reason.entry(note.reason).or_default().add(note.at));
        seen += page.len();
        match page.last() {
            Some((id, _)) if page.len() == PAGE => after = Some(id.clone()),
            _ => break,
        }
    }
    by_reason
}

fn export_total(total: &Total, value: u64) {
    let counter = match total {
        Total::DuplicateEffects(detector, certainty) => {
            counter!("receipted_duplicate_effects_total", "detector" => detector.to_string(), "certainty" => certainty.to_string())
        }
        Total::PriorEffects(cause) => counter!("receipted_prior_effects_found_total", "cause" => cause.to_string()),
        Total::UnresolvedOpened(reason) => counter!("receipted_unresolved_opened_total", "reason" => reason.to_string()),
        Total::UnresolvedClosed(verdict, by) => {
            counter!("receipted_unresolved_closed_total", "verdict" => verdict.to_string(), "by" => by.to_string())
        }
        Total::ParkedOpened(reason) => counter!("receipted_parked_opened_total", "reason" => reason.to_string()),
        Total::ParkedClosed(reason, by) => {
            counter!("receipted_parked_closed_total", "reason" => reason.to_string(), "by" => by.to_string())
        }
    };
    counter.absolute(value);
}
