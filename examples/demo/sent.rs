//! What was sent, as the sender knows it: the first of the three books that the account compares.

use crate::{
    service::{INVOICES, PAYOUTS},
    support::cluster::{Record, record, unique},
};
use std::collections::{BTreeMap, BTreeSet};

/// The tenants on whose behalf bills are sent.
pub const TENANTS: [&str; 4] = ["acme", "birch", "cobalt", "delta"];

/// One business act, to be sent once or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bill {
    pub topic: &'static str,
    pub tenant: &'static str,
    pub id: String,
    pub cents: u64,
    /// A partition of our choice, instead of the record key's.
    pub partition: Option<i32>,
}

impl Bill {
    pub fn new(topic: &'static str, tenant: &'static str, id: impl Into<String>) -> Self {
        Self { topic, tenant, id: id.into(), cents: 4200, partition: None }
    }

    pub fn on(self, partition: i32) -> Self {
        Self { partition: Some(partition), ..self }
    }

    pub fn cents(self, cents: u64) -> Self {
        Self { cents, ..self }
    }

    /// The operation's name in the destination's ledger.
    pub fn operation(&self) -> String {
        let name = match self.topic {
            INVOICES => "invoice.v1",
            PAYOUTS => "payout.v1",
            _ => "reminder.v1",
        };
        format!("{}/{name}/{}", self.tenant, self.id)
    }

    /// A record of it. Each has a delivery id of its own: nothing but the business id says that two are the same act.
    pub fn record(&self) -> Record {
        let text = format!(r#"{{"id":"{}","cents":{}}}"#, self.id, self.cents);
        let made = record(text).key(self.id.as_str()).header("tenant", self.tenant).header("delivery-id", unique("delivery"));
        Record { partition: self.partition, ..made }
    }
}

/// Everything that was sent.
#[derive(Default)]
pub struct Sent {
    pub records: u64,
    /// Records that were read a second time because the group's offsets were moved back.
    pub read_again: u64,
    /// Distinct operations.
    pub operations: BTreeSet<String>,
    /// Operations that came with another amount, and how often.
    pub changed: BTreeMap<String, u64>,
    /// Values that are no bill.
    pub undecodable: Vec<Vec<u8>>,
    /// Operations whose answer was lost at a destination that nobody can ask, and how.
    pub unknowable: BTreeMap<String, &'static str>,
    /// The operation that the lying destination booked twice.
    pub doubled: BTreeSet<String>,
    /// Next offset of each partition.
    pub ends: BTreeMap<(&'static str, i32), i64>,
}

impl Sent {
    pub fn note(&mut self, topic: &'static str, places: &[(i32, i64)]) {
        self.records += places.len() as u64;
        for (partition, offset) in places {
            let end = self.ends.entry((topic, *partition)).or_default();
            *end = (*end).max(offset + 1);
        }
    }

    /// Deliveries that should have found their operation known: all but the first of each.
    pub fn repeats(&self) -> u64 {
        let others = self.operations.len() + self.undecodable.len();
        (self.records + self.read_again).saturating_sub(others as u64).saturating_sub(self.changed.values().sum::<u64>())
    }
}
