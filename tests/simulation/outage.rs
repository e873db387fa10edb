//! A destination that is down for an hour: what is kept about it stops at its bounds, others go on, and all of it drains.

use super::{
    broker::{Broker, Kind, Log, Row},
    plan::{Act, Commit, Destination, Plan, QUIET, Setting},
    world::{Asked, Broken, World},
};
use receipted::{
    protocol::{
        machine::AttemptKey,
        policy::{BackOff, Contract, Lanes},
    },
    store::{ReceiptStore, Which},
};
use std::{collections::BTreeMap, time::Duration};

/// The hour, in seconds.
const HOUR: u64 = 3_600;
/// A step, in seconds: in each a record comes in each partition.
const STEP: u64 = 4;
/// How many steps that are.
const STEPS: u64 = HOUR / STEP;
/// How long everything may take to drain, in steps.
const DRAIN_MAX: u64 = 1_800 / STEP;
const PERMITS: usize = 16;
const RECORDS_MAX: usize = 100;
const UNRESOLVED_MAX: u32 = 100;

/// How a destination is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Down {
    /// Nobody can tell what became of a request, and lookups fail: of some the effect is there, or lands later, of others not.
    Silent,
    /// It says that it did nothing.
    Refusing,
}

/// Whose destination is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// All of the first route's, whose records have a partition of their own.
    Route,
    /// Tenant `a`'s, whose records are in one partition with those of tenant `b` on the same route.
    Tenant,
}

impl Whose {
    fn is(self, row: &Row) -> bool {
        match self {
            Self::Route => row.route == 0,
            Self::Tenant => row.tenant == "a",
        }
    }
}

/// The records of the hour in each partition, with a repeat now and then.
fn logs(whose: Whose) -> Vec<Log> {
    let row = |tenant, route, number: u64| {
        let id = if number % 50 == 49 { number - 40 } else { number };
        Row { kind: Kind::Operation, tenant, id, route, amount: 1, lane: number }
    };
    let log = |row: &dyn Fn(u64) -> Row| Log { rows: (0..STEPS).map(row).collect(), committed: None };
    let both = |number: u64| if number.is_multiple_of(2) { "a" } else { "b" };
    match whose {
        Whose::Route => vec![log(&|number| row(both(number), 0, number)), log(&|number| row(both(number), 1, number))],
        Whose::Tenant => vec![log(&|number| row(both(number), 0, number)), log(&|number| row("b", 1, number))],
    }
}

/// What was seen while it was down.
#[derive(Debug, Default)]
struct Seen {
    unresolved: usize,
    parked_bytes: u64,
    in_flight: usize,
    /// Notes about the operations of the destination that is down, every ten minutes.
    notes: Vec<usize>,
    effects_of_others: usize,
    paused: bool,
    full: bool,
}

struct Outage {
    world: World,
    whose: Whose,
    rows: BTreeMap<String, Row>,
    seen: Seen,
}

impl Outage {
    fn new(whose: Whose, parked_bytes_max: u64) -> Self {
        let ask = Contract::Ask { quiet: Duration::from_millis(QUIET) };
        let setting = Setting {
            seed: 1,
            partitions: 2,
            rows: 0,
            ids: 1,
            contracts: [ask.clone(), ask],
            permits: PERMITS,
            tenant_permits_max: PERMITS / 2,
            partition_records_max: RECORDS_MAX,
            unresolved_max: UNRESOLVED_MAX,
            attempts_max: u32::MAX,
            lanes: Lanes::Key,
            replies: false,
            destination: Destination::Honest,
            parked_bytes_max,
            back_off: BackOff { first: Duration::from_secs(1), max: Duration::from_secs(300), give_up: Duration::from_secs(3 * HOUR) },
        };
        let mut world = World::new(&Plan { setting, steps: vec![] }, Broken::Nothing);
        world.broker = Broker { logs: logs(whose), dead_letters: BTreeMap::new() };
        let rows: BTreeMap<String, Row> = world.broker.logs.iter().flat_map(|log| &log.rows).map(|row| (row.name(), row.clone())).collect();
        world.names = rows.iter().map(|(name, row)| (row.key().digest(), name.clone())).collect();
        Self { world, whose, rows, seen: Seen::default() }
    }

    fn is_down(&self, name: &str) -> bool {
        self.whose.is(&self.rows[name])
    }

    /// What the destinations make of everything that runs or asks.
    fn answer(&mut self, down: Option<Down>) {
        let running: Vec<(AttemptKey, String)> = self.world.running.iter().map(|(key, running)| (*key, running.name.clone())).collect();
        for (number, (attempt, name)) in running.into_iter().enumerate() {
            let hit = down.filter(|_| self.is_down(&name));
            match hit {
                None => self.world.act(attempt, Act::Apply, 0),
                Some(Down::Refusing) => self.world.act(attempt, Act::NoEffect, 0),
                Some(Down::Silent) => match (number as u64 + self.world.now / 1_000) % 4 {
                    0 => self.world.act(attempt, Act::PanicBefore, 0),
                    1 => self.world.act(attempt, Act::GiveUp, QUIET / 2),
                    2 => self.world.act(attempt, Act::LoseAnswer, 0),
                    // It hangs, past its limit, and is dropped in the end.
                    _ if self.world.running[&attempt].sent => {}
                    _ => self.world.act(attempt, Act::Hang, QUIET / 2),
                },
            }
        }
        for _ in 0..self.world.asked.len() {
            let fails = matches!(self.world.asked.first(), Some(Asked::LookUp { name, .. }) if down.is_some() && self.is_down(name));
            self.world.answer(0, if fails { 0 } else { 5 });
        }
    }

    /// A step: what has arrived is delivered as far as there is room, everybody answers, and time goes on.
    fn step_on(&mut self, arrived: u64, down: Option<Down>) {
        let world = &mut self.world;
        for number in 0..world.setting.partitions {
            let ahead = arrived.saturating_sub(world.here[number].next.unsigned_abs());
            world.deliver(number, usize::try_from(ahead).expect("few"));
        }
        for _ in 0..4 {
            self.world.sync_all();
            self.world.take(usize::MAX);
            self.answer(down);
        }
        let world = &mut self.world;
        world.tick();
        (0..world.setting.partitions).for_each(|number| world.commit(number, Commit::Done));
        world.wait(STEP * 1_000);
        self.look();
    }

    fn look(&mut self) {
        let (world, seen) = (&self.world, &mut self.seen);
        seen.unresolved = seen.unresolved.max(world.store.count(Which::InDoubt));
        seen.parked_bytes = seen.parked_bytes.max(world.store.sizes().parked_bytes);
        seen.in_flight =
            seen.in_flight.max((0..world.setting.partitions).map(|number| world.machine.in_flight(number).0).max().unwrap_or(0));
        seen.paused |= world.machine.paused_routes().next().is_some();
        seen.full |= world.store.pressure().is_some();
    }

    fn effects_of(&self, which: impl Fn(&Row) -> bool) -> usize {
        self.rows.iter().filter(|(_, row)| which(row)).map(|(name, _)| self.world.truth.of(name).len()).sum()
    }

    fn notes_of_the_down(&self) -> usize {
        let down = self.rows.values().filter(|row| self.whose.is(row));
        down.map(|row| self.world.known(row.key().digest()).revision().0 as usize).sum()
    }

    /// The hour, and what follows. Returns how many seconds it took to drain.
    fn play(&mut self, down: Down) -> u64 {
        for step in 0..STEPS {
            self.step_on(step + 1, Some(down));
            if (step + 1).is_multiple_of(STEPS / 6) {
                let notes = self.notes_of_the_down();
                self.seen.notes.push(notes);
            }
        }
        self.seen.effects_of_others = self.effects_of(|row| !self.whose.is(row));
        let drained = |outage: &Self| {
            let logs = outage.world.broker.logs.iter();
            let all = logs.filter(|log| log.committed.as_ref().map(|(offset, _)| *offset) == Some(log.end())).count() == 2;
            all && outage.world.store.count(Which::InDoubt) == 0 && outage.world.store.count(Which::Parked) == 0
        };
        let took = (0..DRAIN_MAX).find(|_| {
            self.step_on(STEPS, None);
            drained(self)
        });
        // What was on its way lands before anybody counts.
        (0..15).for_each(|_| self.step_on(STEPS, None));
        self.world.judge_end();
        assert_eq!(self.world.violation, None);
        took.map(|steps| steps * STEP).unwrap_or_else(|| panic!("it does not drain: {:?}", self.seen))
    }

    /// Nothing lost, nothing doubled, nothing in doubt.
    fn account(&self, what: &str, took: u64) {
        let (operations, effects) = (self.rows.len(), self.effects_of(|_| true));
        let silent = self.rows.keys().filter(|name| self.world.truth.of(name).len() > 1).count();
        let lost = self.rows.keys().filter(|name| self.world.truth.of(name).is_empty()).count();
        eprintln!(
            "{what}: {:?}; drained in {took} s: {operations} operations, {effects} effects, lost {lost}, silent duplicates {silent}",
            self.seen
        );
        assert_eq!((lost, silent, effects), (0, 0, operations));
        assert!(self.world.broker.dead_letters.is_empty());
    }
}

/// Everybody else's operations, as many as have come.
fn others(outage: &Outage) -> usize {
    outage.rows.values().filter(|row| !outage.whose.is(row)).count()
}

#[test]
fn a_route_whose_destination_is_silent_for_an_hour_stops_at_its_bound_and_the_other_goes_on() {
    let mut outage = Outage::new(Whose::Route, u64::MAX);
    let took = outage.play(Down::Silent);
    outage.account("a silent route", took);
    let (bound, seen) = (UNRESOLVED_MAX as usize + PERMITS, &outage.seen);
    assert!(seen.paused && (UNRESOLVED_MAX as usize..=bound).contains(&seen.unresolved), "{seen:?}");
    assert!(seen.in_flight <= RECORDS_MAX, "{seen:?}");
    assert_eq!(seen.notes[0], seen.notes[5], "nothing more is kept after the bound is reached");
    // A record of 100 bytes or so each.
    assert!(seen.parked_bytes <= bound as u64 * 200, "{seen:?}");
    assert_eq!(seen.effects_of_others, others(&outage), "the other route is not held up by a single record");
}

#[test]
fn a_tenant_whose_destination_refuses_for_an_hour_keeps_no_other_of_its_partition_waiting() {
    let mut outage = Outage::new(Whose::Tenant, u64::MAX);
    let took = outage.play(Down::Refusing);
    outage.account("a refused tenant", took);
    let seen = &outage.seen;
    assert!(seen.in_flight <= RECORDS_MAX && seen.unresolved == 0, "{seen:?}");
    let held = outage.rows.values().filter(|row| row.tenant == "a").count() as u64;
    assert!(seen.parked_bytes <= held * 200, "each record is kept once: {seen:?}");
    assert_eq!(seen.effects_of_others, others(&outage), "the other tenant is not held up by a single record");
}

#[test]
fn parked_bytes_stop_at_the_stores_bound_and_all_of_it_drains() {
    const BOUND: u64 = 20_000;
    let mut outage = Outage::new(Whose::Tenant, BOUND);
    let took = outage.play(Down::Refusing);
    outage.account("a store at its bound", took);
    let seen = &outage.seen;
    // What is decided in one turn may go over it, no more.
    assert!(seen.full && (BOUND..BOUND + RECORDS_MAX as u64 * 200).contains(&seen.parked_bytes), "{seen:?}");
    assert!(seen.effects_of_others < others(&outage), "at the store's own bound nobody's new work is admitted");
}
