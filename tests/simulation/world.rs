//! Owns one process on its store and the world around it: it performs what the production machine says, and judges each step. The
//! store is the production one for memory, whose batches wait for a sync; the start is decided by the production rule.

use super::{
    broker::{Broker, Kind},
    destination::{Running, Truth},
    plan::{Destination, Dice, Plan, Setting},
};
use receipted::{
    protocol::{
        key::KeyDigest,
        known::Entry,
        machine::{Action, Assignment, AttemptKey, DeadLetterReason, Event, Limits, Machine, Replies, Route, Ticket, WorkId},
        note::{Answer, Applied, DoubtReason, Reference, Slot},
        outcome::Outcome,
        park::ParkId,
        policy::Policy,
        time::{Monotonic, Now, UnixMillis},
    },
    store::{
        Appended, Batch, Error, Partition, PreviousStop, ReceiptStore, Which,
        memory::{Commit as Commits, MemoryStore},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

pub const TOPIC: &str = "t";

/// A rule of the driver or of the product that is left out, to see that the judges notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    /// Offsets are committed as soon as records have arrived.
    CommitsOnArrival,
    /// Handlers start before their admission is durable.
    StartsEarly,
    /// What ended without an answer counts as "no effect".
    UnknownIsNoEffect,
    /// A process starts on an empty store.
    ForgetsReceipts,
    /// Operations in doubt are not taken up after a start, and their notes are lost.
    ForgetsDoubts,
    /// A lookup counts as if it had begun when it ended, and quiet periods are not kept.
    HastyLookups,
    /// Dead letters count as sent when they are handed over.
    DeadLettersUnsent,
}

/// A rule that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub rule: &'static str,
    pub detail: String,
}

/// Something outside that has not answered yet.
pub enum Asked {
    Load(KeyDigest),
    Unpark(KeyDigest, ParkId),
    DeadLetter { work: WorkId, slot: Slot, reason: DeadLetterReason },
    Reply(WorkId),
    LookUp { key: KeyDigest, started: Monotonic, at: u64, name: String, seen: Vec<String> },
    Letter { request: u64, entry: Entry, slot: Slot },
}

/// A batch that the store has answered.
type Answered = (Ticket, Result<Appended, Error>);

/// A partition as the process has it.
#[derive(Debug, Clone, Default)]
pub struct Here {
    pub epoch: u64,
    pub open: bool,
    /// The next offset that is delivered.
    pub next: i64,
    /// Read up to here, gaps included.
    pub reached: i64,
    pub noted: Option<i64>,
}

pub struct World {
    pub setting: Setting,
    pub broken: Broken,
    pub machine: Machine,
    pub store: Arc<MemoryStore>,
    pub wall: Arc<AtomicI64>,
    pub broker: Broker,
    pub truth: Truth,
    pub now: u64,
    pub born: u64,
    pub here: Vec<Here>,
    pub inbox: Arc<Mutex<VecDeque<Answered>>>,
    pub running: BTreeMap<AttemptKey, Running>,
    prepared: BTreeMap<WorkId, Running>,
    pub asked: Vec<Asked>,
    pub discarded: BTreeSet<(usize, i64)>,
    /// Slots that were seen to be complete when their offset was committed.
    pub complete: BTreeSet<(usize, i64)>,
    pub names: BTreeMap<KeyDigest, String>,
    pub seen: BTreeMap<&'static str, u64>,
    pub trace: Option<Vec<String>>,
    pub violation: Option<Violation>,
    pub failed: bool,
    pub healed: bool,
    pub requests: u64,
}

impl World {
    pub fn new(plan: &Plan, broken: Broken) -> Self {
        let setting = plan.setting.clone();
        let wall = Arc::new(AtomicI64::new(1_000_000));
        let clock = wall.clone();
        let store = MemoryStore::with_clock(Arc::new(move || UnixMillis(clock.load(Ordering::Relaxed))));
        store.set_commit(Commits::WhenTold);
        store.set_parked_bytes_max(setting.parked_bytes_max);
        let broker = Broker::new(&setting);
        let mut truth = Truth::default();
        let mut names = BTreeMap::new();
        for row in broker.logs.iter().flat_map(|log| &log.rows).filter(|row| row.kind == Kind::Operation || row.kind == Kind::Undecodable) {
            names.insert(row.key().digest(), row.name());
            if setting.contracts[row.route].memory().is_some() {
                truth.remembers.insert(row.name());
            }
        }
        let mut world = Self {
            machine: Machine::new(0, limits(&setting), vec![], BTreeSet::new()),
            here: vec![Here::default(); setting.partitions],
            setting,
            broken,
            store: Arc::new(store),
            wall,
            broker,
            truth,
            now: 1,
            born: 1,
            inbox: Arc::default(),
            running: BTreeMap::new(),
            prepared: BTreeMap::new(),
            asked: vec![],
            discarded: BTreeSet::new(),
            complete: BTreeSet::new(),
            names,
            seen: BTreeMap::new(),
            trace: None,
            violation: None,
            failed: false,
            healed: false,
            requests: 0,
        };
        world.begin();
        world
    }

    pub fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.trace.is_some() {
            let line = line();
            self.trace.get_or_insert_default().push(line);
        }
    }

    pub fn wrong(&mut self, rule: &'static str, detail: String) {
        self.tell(|| format!("    !! {rule}: {detail}"));
        self.violation.get_or_insert(Violation { rule, detail });
    }

    pub fn clock(&self) -> Now {
        Now { monotonic: Monotonic(self.now - self.born), wall: UnixMillis(self.wall.load(Ordering::Relaxed)) }
    }

    /// Time goes on, for everybody.
    pub fn pass(&mut self, millis: u64) {
        self.now += millis;
        self.wall.fetch_add(i64::try_from(millis).expect("short"), Ordering::Relaxed);
        self.truth.advance(self.now);
    }

    /// A process starts on what is durable.
    fn begin(&mut self) {
        let setting = &self.setting;
        let routes = setting.contracts.iter().zip(["op.v1", "op1.v1"]).map(|(contract, name)| {
            let policy = Policy {
                contract: contract.clone(),
                time_limit: Duration::from_millis(1_000),
                detached_max: Duration::from_millis(10_000),
                margin: Duration::from_millis(10_000 + super::plan::QUIET + super::plan::STALL_MAX),
                attempts_max: setting.attempts_max,
                unresolved_max: setting.unresolved_max,
                back_off: setting.back_off,
                ..Policy::default()
            };
            let replies = if setting.replies { Replies::Hook } else { Replies::None };
            Route { names: vec![name.into()], policy, replies }
        });
        let unclean = self.store.identity().previous_stop == PreviousStop::Unclean;
        let doubtful = self.list(Which::InDoubt);
        let careful = if unclean { doubtful.iter().copied().collect() } else { BTreeSet::new() };
        self.machine = Machine::new(self.store.identity().claim, limits(setting), routes.collect(), careful);
        let taken_up = [doubtful, self.list(Which::Parked), self.list(Which::Unconfirmed), self.list(Which::Superseded)].concat();
        if self.broken != Broken::ForgetsDoubts {
            for key in taken_up {
                let known = self.known(key);
                self.on(Event::Doubtful { key, known });
            }
        }
        self.here.iter_mut().for_each(|here| *here = Here { epoch: here.epoch, ..Here::default() });
        self.assign();
    }

    fn list(&self, which: Which) -> Vec<KeyDigest> {
        self.store.list(which, None, 1000).map(|page| page.into_iter().map(|(key, _)| key).collect()).unwrap_or_default()
    }

    pub fn assignment(&self, partition: usize) -> Assignment {
        Assignment { partition, epoch: self.here[partition].epoch }
    }

    /// The process dies. What it had sent may have landed, whatever it knew.
    pub fn kill(&mut self, landed: u64, back: u64) {
        let mut dice = Dice::new(self.setting.seed ^ self.now ^ (landed << 32));
        if landed > 0 {
            // The last sync ended, and nobody was told.
            self.sync_all();
        }
        for asked in std::mem::take(&mut self.asked) {
            if let (Asked::DeadLetter { slot, reason, .. }, 0) = (asked, dice.roll(2)) {
                self.broker.dead_letter(usize::try_from(slot.partition).expect("valid"), slot.offset, reason);
            }
        }
        for ((_, attempt), running) in std::mem::take(&mut self.running) {
            match dice.roll(3) {
                0 if !running.sent => drop(self.truth.request(&running, attempt, self.now)),
                1 if !running.sent => {
                    let delay = self.delay(dice.roll(400));
                    self.truth.send(&running, attempt, self.now, delay);
                    self.saw("a request of a dead process lands late");
                }
                _ => {}
            }
        }
        self.restart(back);
    }

    /// How long a request is on its way: what the destination makes of what is asked for.
    pub fn delay(&mut self, asked: u64) -> u64 {
        if self.setting.destination == Destination::Late && asked.is_multiple_of(3) && !self.healed {
            self.saw("a request lands after the quiet period");
            return super::plan::QUIET * 4 + asked;
        }
        asked
    }

    /// What was submitted becomes durable. A watermark that is durable speaks for what lies below, whether it is committed or not.
    pub fn sync_all(&mut self) {
        self.store.commit();
        for number in 0..self.setting.partitions {
            if let Some(watermark) = self.store.marks().get(&partition(number)).and_then(|marks| marks.watermark) {
                self.judge_complete(number, watermark);
            }
        }
    }

    /// The next process, on what is durable.
    pub fn restart(&mut self, back: u64) {
        self.running.clear();
        self.prepared.clear();
        self.asked.clear();
        self.inbox = Arc::default();
        self.failed = false;
        self.pass(10);
        self.wall.fetch_sub(i64::try_from(back).expect("short"), Ordering::Relaxed);
        self.born = self.now;
        self.store = match self.broken {
            Broken::ForgetsReceipts => {
                let clock = self.wall.clone();
                let store = MemoryStore::with_clock(Arc::new(move || UnixMillis(clock.load(Ordering::Relaxed))));
                store.set_commit(Commits::WhenTold);
                self.broker.logs.iter_mut().for_each(|log| log.committed = None);
                Arc::new(store)
            }
            _ => Arc::new(self.store.restart()),
        };
        self.begin();
    }

    pub fn known(&self, key: KeyDigest) -> Arc<receipted::protocol::known::Known> {
        self.store.load(&[key]).ok().and_then(|mut known| known.pop()).unwrap_or_default()
    }

    pub fn on(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.machine.on(event, self.clock(), &mut actions);
        loop {
            if actions.is_empty() {
                self.machine.flush(&mut actions);
                if actions.is_empty() {
                    return;
                }
            }
            let mut next = Vec::new();
            for action in actions.drain(..) {
                if let Some(event) = self.perform(action) {
                    self.machine.on(event, self.clock(), &mut next);
                }
            }
            actions = next;
        }
    }

    fn perform(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Append { ticket, entries } => {
                self.tell(|| {
                    entries
                        .iter()
                        .map(|entry| format!("    + {entry:?}").chars().take(160).collect::<String>())
                        .collect::<Vec<_>>()
                        .join("\n")
                });
                let inbox = self.inbox.clone();
                let reply = move |appended| inbox.lock().expect("one thread").push_back((ticket, appended));
                self.store.submit(Batch(entries), Box::new(reply));
            }
            Action::Extract { work, attempt, key_generation, payload, subject, .. } => {
                let text = String::from_utf8_lossy(payload.value.as_deref().unwrap_or_default()).to_string();
                if text.contains("kind: Undecodable") {
                    return Some(Event::Extracted { work, result: Err("undecodable".into()) });
                }
                let amount = if text.contains("amount: 2") { 2 } else { 1 };
                let name = self.names[&subject.key].clone();
                self.prepared.insert(work, Running { name, generation: key_generation, amount, sent: false });
                if self.broken == Broken::StartsEarly {
                    self.starts((subject.key, attempt), work);
                }
                return Some(Event::Extracted { work, result: Ok(()) });
            }
            Action::Forget { work } => drop(self.prepared.remove(&work)),
            Action::Start { work, attempt, .. } => self.starts(attempt, work),
            Action::Abort { attempt } => {
                let running = self.running.remove(&attempt)?;
                if !running.sent {
                    let delay = self.delay(self.now % super::plan::QUIET);
                    self.truth.send(&running, attempt.1, self.now, delay);
                }
                self.saw("a future is dropped");
                return Some(Event::Finished { attempt, outcome: Outcome::Unknown(DoubtReason::Cancelled, String::new()) });
            }
            Action::DeadLetter { work, slot, .. } if self.broken == Broken::DeadLettersUnsent => {
                drop(slot);
                return Some(Event::DeadLettered { work, result: Ok(()) });
            }
            Action::DeadLetter { work, slot, reason, .. } => self.asked.push(Asked::DeadLetter { work, slot, reason }),
            Action::Reply { work, .. } => self.asked.push(Asked::Reply(work)),
            Action::Load { key } => self.asked.push(Asked::Load(key)),
            Action::Unpark { key, park } => self.asked.push(Asked::Unpark(key, park)),
            Action::LookUp { key, .. } => {
                let (name, started) = (self.names[&key].clone(), self.clock().monotonic);
                let seen = self.truth.seen(&name, self.now);
                self.asked.push(Asked::LookUp { key, started, at: self.now, name, seen });
            }
            Action::Commit { assignment, offset } => {
                let here = &mut self.here[assignment.partition];
                if here.epoch == assignment.epoch {
                    here.noted = Some(offset);
                }
            }
            Action::Drained { assignment } => {
                let here = &mut self.here[assignment.partition];
                if here.epoch == assignment.epoch {
                    here.open = false;
                    self.commit(assignment.partition, super::plan::Commit::Done);
                }
            }
            Action::Halt { slot, reason, .. } => self.wrong("halt", format!("{slot} is not read: {reason}")),
            Action::Answer { .. } => self.saw("an operator is answered"),
        }
        None
    }

    /// A handler starts.
    fn starts(&mut self, attempt: AttemptKey, work: WorkId) {
        let Some(running) = self.prepared.remove(&work) else {
            if self.broken != Broken::StartsEarly {
                self.wrong("driver", format!("{attempt:?} starts without arguments"));
            }
            return;
        };
        self.tell(|| format!("    {} starts attempt {}/{}", running.name, attempt.1.number, attempt.1.claim));
        self.judge_start(attempt, &running);
        self.running.insert(attempt, running);
    }
}

pub fn limits(setting: &Setting) -> Limits {
    Limits {
        permits: setting.permits,
        tenant_permits_max: setting.tenant_permits_max,
        partition_records_max: setting.partition_records_max,
        partition_bytes_max: 1 << 40,
        waiting_grace: Duration::from_millis(200),
        park_record_bytes_max: 1 << 20,
        reply_attempts_max: 3,
        reply_back_off: Duration::from_millis(10),
        look_up_back_off: (Duration::from_millis(100), Duration::from_millis(1_000)),
    }
}

pub fn partition(number: usize) -> Partition {
    Partition { topic: TOPIC.into(), number: i32::try_from(number).expect("few") }
}

pub fn applied(reference: &str) -> Applied {
    Applied { reference: Reference::new(reference), answer: Answer::Json("null".into()), already: false }
}
