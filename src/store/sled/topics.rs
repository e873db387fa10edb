//! Owns the numbers that stand for topic names in keys. A name gets its number once, in the batch that first needs it.

use super::format::{RawPark, RawSlot};
use crate::protocol::{note::Slot, park::ParkId};
use std::{collections::BTreeMap, sync::Arc};

/// Topic names and their numbers.
#[derive(Debug, Default)]
pub(super) struct Topics {
    numbers: BTreeMap<Arc<str>, u32>,
    names: BTreeMap<u32, Arc<str>>,
    /// Names that have a number and no entry yet.
    new: Vec<u32>,
}

impl Topics {
    /// Takes over an entry.
    pub(super) fn insert(&mut self, number: u32, name: &str) {
        let name: Arc<str> = name.into();
        self.numbers.insert(name.clone(), number);
        self.names.insert(number, name);
    }

    /// The number of a name; a new one when it has none.
    pub(super) fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.keys().next_back().map_or(0, |last| last.saturating_add(1));
        self.insert(number, name);
        self.new.push(number);
        number
    }

    /// Numbers given since the last call, with their names.
    pub(super) fn take_new(&mut self) -> Vec<(u32, Arc<str>)> {
        let new = std::mem::take(&mut self.new);
        new.into_iter().filter_map(|number| Some((number, self.names.get(&number)?.clone()))).collect()
    }

    /// The name of a number.
    pub(super) fn name(&self, number: u32) -> Option<&Arc<str>> {
        self.names.get(&number)
    }

    /// The number of a name that may have none.
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub(super) fn raw_slot(&mut self, slot: &Slot) -> RawSlot {
        RawSlot { topic: self.number(&slot.topic), partition: slot.partition, offset: slot.offset }
    }

    pub(super) fn raw_park(&mut self, park: &ParkId) -> RawPark {
        RawPark { slot: self.raw_slot(&park.slot), number: park.number }
    }

    pub(super) fn find_park(&self, park: &ParkId) -> Option<RawPark> {
        let topic = self.find(&park.slot.topic)?;
        let slot = RawSlot { topic, partition: park.slot.partition, offset: park.slot.offset };
        Some(RawPark { slot, number: park.number })
    }

    pub(super) fn slot(&self, raw: RawSlot) -> Option<Slot> {
        Some(Slot { topic: self.name(raw.topic)?.clone(), partition: raw.partition, offset: raw.offset })
    }

    pub(super) fn park(&self, raw: RawPark) -> Option<ParkId> {
        Some(ParkId { slot: self.slot(raw.slot)?, number: raw.number })
    }
}
