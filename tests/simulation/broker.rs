//! Owns the log: records, offsets that no record has, the group's committed offsets and who wrote them, and the dead-letter topic.

use super::plan::{Dice, Setting};
use receipted::protocol::{
    fingerprint::Fingerprint,
    key::{Alphabet, OperationKey},
    machine::{DeadLetterReason, Lane},
    park::Payload,
    policy::Lanes,
    start::Writer,
};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// An aborted transaction, or its marker: the offset is there and never delivered.
    Gap,
    Tombstone,
    NoKey,
    /// Its handler's arguments cannot be extracted.
    Undecodable,
    Operation,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub kind: Kind,
    pub tenant: &'static str,
    pub id: u64,
    pub route: usize,
    pub amount: u8,
    pub lane: u64,
}

impl Row {
    pub fn key(&self) -> OperationKey {
        let operation = ["op.v1", "op1.v1"][self.route];
        OperationKey::new(self.tenant, operation, &[self.id.to_string()], Alphabet::Token).expect("a valid key")
    }

    pub fn name(&self) -> String {
        format!("{}/{}@{}", self.tenant, self.id, self.route)
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::Digest([self.amount; 16])
    }

    pub fn payload(&self) -> Payload {
        Payload { value: Some(format!("{self:?}").into_bytes()), ..Payload::default() }
    }

    pub fn lane(&self, lanes: Lanes, offset: i64) -> Lane {
        match lanes {
            Lanes::Key => Lane::Key(self.lane),
            Lanes::Partition => Lane::Partition,
            Lanes::Unordered => Lane::Own(offset),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Log {
    pub rows: Vec<Row>,
    pub committed: Option<(i64, Writer)>,
}

impl Log {
    pub fn end(&self) -> i64 {
        i64::try_from(self.rows.len()).expect("a short log")
    }
}

pub struct Broker {
    pub logs: Vec<Log>,
    pub dead_letters: BTreeMap<(usize, i64), Vec<DeadLetterReason>>,
}

impl Broker {
    pub fn new(setting: &Setting) -> Self {
        let mut dice = Dice::new(setting.seed ^ 0xB0B);
        let mut row = || {
            let kind = match dice.roll(30) {
                0 => Kind::Gap,
                1 => Kind::Tombstone,
                2 => Kind::NoKey,
                3 => Kind::Undecodable,
                _ => Kind::Operation,
            };
            let id = dice.roll(setting.ids);
            let amount = if dice.roll(20) == 0 { 2 } else { 1 };
            Row { kind, tenant: ["a", "b"][dice.roll(2) as usize], id, route: dice.roll(2) as usize, amount, lane: dice.roll(5) }
        };
        let mut log = || Log { rows: (0..setting.rows).map(|_| row()).collect(), committed: None };
        Self { logs: (0..setting.partitions).map(|_| log()).collect(), dead_letters: BTreeMap::new() }
    }

    pub fn row(&self, partition: usize, offset: i64) -> Option<&Row> {
        self.logs.get(partition)?.rows.get(usize::try_from(offset).ok()?)
    }

    pub fn dead_letter(&mut self, partition: usize, offset: i64, reason: DeadLetterReason) {
        self.dead_letters.entry((partition, offset)).or_default().push(reason);
    }
}
