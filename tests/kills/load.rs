//! Owns what the kill runs share: the seeded load, when and how a process is killed, and the account that the ledger gives.

use crate::support::{
    cluster::Record,
    destination::{Behaviour, Ledger, RuleId, Server, any},
    process::{Child, wait_until},
    service::{charge, operation_of},
};
use std::{collections::BTreeSet, fmt, time::Duration};

/// How long the way to the next kill may take on a busy machine.
const NEXT_KILL: Duration = Duration::from_secs(180);
const TENANTS: [&str; 5] = ["acme", "bolt", "core", "dyne", "echo"];

/// Random numbers that a seed repeats.
pub struct Dice(u64);

impl Dice {
    /// From `RECEIPTED_SEED`, else from anywhere. The seed is printed, so that a run can be repeated.
    pub fn new(run: &str) -> Self {
        let given = std::env::var("RECEIPTED_SEED").ok().map(|seed| seed.parse().expect("RECEIPTED_SEED is a number"));
        let seed = given.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0 >> 32);
        println!("{run}: RECEIPTED_SEED={seed}");
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).expect("below the sides")
    }
}

/// Operations, and records of which three in ten are repeats of one.
pub struct Load {
    pub operations: Vec<String>,
    pub records: Vec<Record>,
}

impl Load {
    /// A repeat has an id of its own as a delivery. Half of them come with another record key: mostly on another partition, and in
    /// another lane. Many follow their first at once, so that both are on their way together.
    pub fn new(dice: &mut Dice, operations: usize) -> Self {
        let total = operations * 10 / 7;
        let (mut records, mut first) = (Vec::with_capacity(total), 0_usize);
        while records.len() < total {
            let (firsts_left, left) = (operations - first, total - records.len());
            let repeat = first > 0 && dice.roll(left) >= firsts_left;
            let near = if dice.roll(2) == 0 { 5 } else { first };
            let id = if repeat { first - 1 - dice.roll(near.clamp(1, first)) } else { first };
            let delivery = records.len();
            let record = charge(TENANTS[id % TENANTS.len()], id, 1 + id as u64).header("delivery", delivery.to_string());
            let elsewhere = repeat && dice.roll(2) == 0;
            records.push(if elsewhere { record.key(format!("elsewhere-{delivery}")) } else { record });
            first += usize::from(!repeat);
        }
        let operations = (0..operations).map(|id| operation_of(TENANTS[id % TENANTS.len()], id)).collect();
        Self { operations, records }
    }
}

/// How a process dies at one of its requests.
#[derive(Clone, Copy, Debug)]
pub enum Kill {
    /// The request reached the destination, and has no effect.
    Before,
    /// It has its effect, and the answer never comes.
    After,
    /// Wherever the process is when the destination has seen that many requests.
    Anywhere,
}

/// At which requests the kills come, and of which kind.
pub fn kills(dice: &mut Dice, count: usize, operations: usize) -> Vec<(u64, Kill)> {
    let mut points = BTreeSet::new();
    while points.len() < count {
        points.insert(1 + dice.roll(operations * 9 / 10));
    }
    let gaps: Vec<usize> = std::iter::once(0).chain(points.iter().copied()).zip(points.iter()).map(|(from, to)| to - from).collect();
    let turn = dice.roll(3);
    let kind = |index: usize| [Kill::Before, Kill::After, Kill::Anywhere][(index + turn) % 3];
    gaps.into_iter().enumerate().map(|(index, gap)| (gap as u64, kind(index))).collect()
}

/// Lets a process run until the kill comes.
pub fn run_until_killed(server: &Server, child: &mut Child, requests: u64, kill: Kill) {
    let answered = server.times(requests, any(), Behaviour::Answer);
    let behaviour = match kill {
        Kill::Before => Some(Behaviour::KillBefore),
        Kill::After => Some(Behaviour::KillAfter),
        Kill::Anywhere => None,
    };
    let killing = behaviour.map(|behaviour| server.once(any(), behaviour));
    let come = |rule: Option<RuleId>| rule.map_or_else(|| server.hits(answered) >= requests, |rule| server.hits(rule) > 0);
    wait_until(&format!("{requests} requests and a kill"), NEXT_KILL, || {
        let come = come(killing);
        assert!(come || child.ended().is_none(), "it ended by itself:\n{}", child.output());
        come
    });
    // Also when the request that killed was a late one of the process before.
    child.kill();
    // A request on its way takes effect as a late one, and kills nobody any more.
    killing.into_iter().chain([answered]).for_each(|rule| server.release(rule));
}

/// What the outside ledger says of a run, beside what was listed for a person.
#[derive(Debug, PartialEq, Eq)]
pub struct Account {
    pub operations: usize,
    pub records: usize,
    pub effects: usize,
    /// Neither took effect nor are listed.
    pub lost: usize,
    pub listed: usize,
    /// Took effect more than once and are listed.
    pub doubled_and_listed: usize,
    /// Took effect more than once, and nobody is told.
    pub doubled_silently: usize,
}

impl Account {
    /// `listed` are the operations that are unresolved, parked, or have an incident.
    pub fn of(load: &Load, ledger: &Ledger, listed: &BTreeSet<String>) -> Self {
        let expected = || load.operations.iter().map(String::as_str);
        assert_eq!(ledger.unexpected(expected()), [""; 0], "effects of nothing that was asked for");
        let (told, silent): (Vec<&str>, Vec<&str>) = ledger.doubled().into_keys().partition(|operation| listed.contains(*operation));
        Self {
            operations: load.operations.len(),
            records: load.records.len(),
            effects: ledger.total(),
            lost: ledger.lost(expected()).into_iter().filter(|operation| !listed.contains(*operation)).count(),
            listed: listed.len(),
            doubled_and_listed: told.len(),
            doubled_silently: silent.len(),
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, records, effects, lost, listed, doubled_and_listed, doubled_silently } = self;
        write!(f, "{operations} operations in {records} records: {effects} effects, lost {lost}, listed {listed}, ")?;
        write!(f, "doubled and listed {doubled_and_listed}, doubled silently {doubled_silently}")
    }
}
