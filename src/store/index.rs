//! Owns what a store keeps in memory about all of its operations and slots: listings, open park notes, marks, totals. It holds
//! what is durable and nothing else; it does not own the notes, and it decides nothing.

use super::{Marks, Partition, Which, draft::Group, self_test::PROBE};
use crate::protocol::{
    change::Totals,
    key::KeyDigest,
    known::Known,
    note::Slot,
    park::{Closing, Openness, Park, ParkId, RecordDigest, SlotNotes},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

/// The listings of durable state. Rebuilt by a scan when a store opens, and kept by [`Index::publish`].
#[derive(Debug, Default)]
pub(crate) struct Index {
    in_doubt: BTreeSet<KeyDigest>,
    parked: BTreeSet<KeyDigest>,
    disputed: BTreeSet<KeyDigest>,
    superseded: BTreeSet<KeyDigest>,
    unconfirmed: BTreeSet<KeyDigest>,
    reopened: BTreeSet<KeyDigest>,
    open: BTreeMap<ParkId, Arc<Park>>,
    partitions: BTreeMap<Partition, PartitionSlots>,
    marks: BTreeMap<Partition, Marks>,
    totals: Totals,
    incidents: u64,
    operations: u64,
    parked_bytes: u64,
}

/// What is kept about the slots of one partition.
#[derive(Debug, Default)]
struct PartitionSlots {
    /// How often a slot has been parked. Kept for ever, so that no number is used twice.
    times: BTreeMap<i64, u32>,
    /// Ends at or above the watermark; below it a rewind is decided afresh.
    recent: BTreeMap<i64, Recent>,
}

#[derive(Debug, Default)]
struct Recent {
    ended: Option<(ParkId, Arc<Park>)>,
    closed: Option<(Closing, RecordDigest)>,
}

impl Partition {
    /// The partition that `slot` lies in.
    #[must_use]
    pub fn of(slot: &Slot) -> Self {
        Self { topic: slot.topic.clone(), number: slot.partition }
    }
}

impl Index {
    /// Takes over a group that is durable now.
    pub(crate) fn publish(&mut self, group: &Group) {
        for (key, before, after) in &group.touched {
            if before.revision() != after.revision() {
                self.operations += u64::from(before.revision().0 == 0 && *key != PROBE);
                self.classify(*key, Some(before), after);
            }
        }
        for (id, park) in &group.opened {
            self.open(id.clone(), park.clone());
        }
        for id in &group.ended {
            self.end(id);
        }
        for (slot, notes) in &group.slots {
            self.note_slot(slot, notes);
        }
        for (partition, marks) in &group.marks {
            self.mark(partition.clone(), *marks);
        }
        self.totals.extend(group.totals.iter().map(|(total, value)| (total.clone(), *value)));
        self.incidents += group.incidents.len() as u64;
    }

    /// Sorts an operation into the listings.
    pub(crate) fn classify(&mut self, key: KeyDigest, before: Option<&Known>, after: &Known) {
        let before = before.map(listings);
        for (place, (which, is)) in listings(after).into_iter().enumerate() {
            if before.is_some_and(|before| before[place].1) == is {
                continue;
            }
            if let Some(listing) = self.listing_mut(which) {
                if is {
                    listing.insert(key)
                } else {
                    listing.remove(&key)
                };
            }
        }
    }

    /// Adds an open park note.
    pub(crate) fn open(&mut self, id: ParkId, park: Arc<Park>) {
        self.parked_bytes = self.parked_bytes.saturating_add(park.bytes);
        self.open.insert(id, park);
    }

    fn end(&mut self, id: &ParkId) {
        if let Some(park) = self.open.remove(id) {
            self.parked_bytes = self.parked_bytes.saturating_sub(park.bytes);
        }
    }

    /// Takes over what is known of a slot; below the watermark only how often it was parked. Open park notes are not its business.
    pub(crate) fn note_slot(&mut self, slot: &Slot, notes: &SlotNotes) {
        let watermark = self.marks.get(&Partition::of(slot)).and_then(|marks| marks.watermark);
        let slots = self.partitions.entry(Partition::of(slot)).or_default();
        if notes.times > 0 {
            slots.times.insert(slot.offset, notes.times);
        }
        let ended = notes.parked.as_ref().filter(|(.., openness)| *openness == Openness::Ended);
        let recent = Recent { ended: ended.map(|(id, park, _)| (id.clone(), park.clone())), closed: notes.closed };
        if (recent.ended.is_some() || recent.closed.is_some()) && watermark.is_none_or(|watermark| slot.offset >= watermark) {
            slots.recent.insert(slot.offset, recent);
        }
    }

    /// Takes over a partition's marks, and forgets the ends below its watermark.
    pub(crate) fn mark(&mut self, partition: Partition, marks: Marks) {
        if let (Some(watermark), Some(slots)) = (marks.watermark, self.partitions.get_mut(&partition)) {
            slots.recent = slots.recent.split_off(&watermark);
        }
        self.marks.insert(partition, marks);
    }

    /// What is known of a slot: its newest open park note, else its newest, and whether it is closed.
    pub(crate) fn slot(&self, slot: &Slot) -> SlotNotes {
        let Some(slots) = self.partitions.get(&Partition::of(slot)) else { return SlotNotes::default() };
        let times = slots.times.get(&slot.offset).copied().unwrap_or(0);
        let recent = slots.recent.get(&slot.offset);
        let open = if times > 0 { self.open_in(slot).next_back() } else { None };
        let ended = || recent.and_then(|recent| recent.ended.as_ref()).map(|(id, park)| (id.clone(), park.clone(), Openness::Ended));
        SlotNotes {
            times,
            parked: open.map(|(id, park)| (id.clone(), park.clone(), Openness::Open)).or_else(ended),
            closed: recent.and_then(|recent| recent.closed),
        }
    }

    /// The open park notes of one slot.
    pub(crate) fn open_in(&self, slot: &Slot) -> impl DoubleEndedIterator<Item = (&ParkId, &Arc<Park>)> {
        let at = |number| ParkId { slot: slot.clone(), number };
        self.open.range(at(0)..=at(u32::MAX))
    }

    /// Open park notes above `after`, ascending.
    pub(crate) fn parks(&self, after: Option<&ParkId>, limit: usize) -> Vec<(ParkId, Arc<Park>)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.open.range((from, Bound::Unbounded)).take(limit).map(|(id, park)| (id.clone(), park.clone())).collect()
    }

    /// Keys of a listing above `after`, ascending; none for [`Which::All`], which only the notes can answer.
    pub(crate) fn keys(&self, which: Which, after: Option<KeyDigest>, limit: usize) -> Option<Vec<KeyDigest>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        Some(self.listing(which)?.range((from, Bound::Unbounded)).take(limit).copied().collect())
    }

    /// How many operations a listing has.
    pub(crate) fn count(&self, which: Which) -> usize {
        self.listing(which).map_or(usize::try_from(self.operations).unwrap_or(usize::MAX), BTreeSet::len)
    }

    pub(crate) fn marks(&self) -> &BTreeMap<Partition, Marks> {
        &self.marks
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(crate) fn incidents(&self) -> u64 {
        self.incidents
    }

    pub(crate) fn operations(&self) -> u64 {
        self.operations
    }

    pub(crate) fn parked_bytes(&self) -> u64 {
        self.parked_bytes
    }

    fn listing(&self, which: Which) -> Option<&BTreeSet<KeyDigest>> {
        match which {
            Which::All => None,
            Which::InDoubt => Some(&self.in_doubt),
            Which::Parked => Some(&self.parked),
            Which::Disputed => Some(&self.disputed),
            Which::Superseded => Some(&self.superseded),
            Which::Unconfirmed => Some(&self.unconfirmed),
            Which::ReopenedWaiting => Some(&self.reopened),
        }
    }

    fn listing_mut(&mut self, which: Which) -> Option<&mut BTreeSet<KeyDigest>> {
        match which {
            Which::All => None,
            Which::InDoubt => Some(&mut self.in_doubt),
            Which::Parked => Some(&mut self.parked),
            Which::Disputed => Some(&mut self.disputed),
            Which::Superseded => Some(&mut self.superseded),
            Which::Unconfirmed => Some(&mut self.unconfirmed),
            Which::ReopenedWaiting => Some(&mut self.reopened),
        }
    }
}

/// What a scan of the notes needs.
#[cfg(feature = "sled")]
impl Index {
    /// Counts an operation that a scan found.
    pub(crate) fn found(&mut self, key: KeyDigest, known: &Known) {
        self.operations += u64::from(key != PROBE);
        self.classify(key, None, known);
    }

    /// Takes over a counter.
    pub(crate) fn set_total(&mut self, total: crate::protocol::change::Total, value: u64) {
        self.totals.insert(total, value);
    }

    /// Takes over the number of incidents.
    pub(crate) fn set_incidents(&mut self, incidents: u64) {
        self.incidents = incidents;
    }

    /// How many park notes are open.
    pub(crate) fn open_parks(&self) -> usize {
        self.open.len()
    }
}

/// Whether an operation is in any listing.
#[cfg(feature = "sled")]
pub(crate) fn is_listed(known: &Known) -> bool {
    listings(known).into_iter().any(|(_, is)| is)
}

/// Which listings an operation is in. Every settled operation passes here twice, so that nothing is computed twice.
fn listings(known: &Known) -> [(Which, bool); 6] {
    let applied = known.receipt.applied().is_some();
    let undecided = known.receipt.has_undecided();
    let ruled = !known.receipt.verdicts().is_empty();
    let parked = known.open_parks().next().is_some();
    let waits = || known.open_parks().any(|(_, park)| park.reason.follows_operation());
    [
        (Which::InDoubt, !applied && undecided),
        (Which::Parked, parked),
        (Which::Disputed, ruled && known.receipt.is_disputed()),
        (Which::Superseded, applied && undecided),
        (Which::Unconfirmed, ruled && !known.receipt.unconfirmed().is_empty()),
        (Which::ReopenedWaiting, ruled && known.receipt.is_reopened() && !waits()),
    ]
}
