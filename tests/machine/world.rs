//! Owns a world around one machine: a log, a store whose unsynced batches a crash loses, a destination with a ledger. It performs
//! what the machine says, when the test says so.

use receipted::protocol::{
    decision::is_answered,
    fingerprint::Fingerprint,
    key::{Alphabet, KeyDigest, OperationKey},
    known::{Answer, Entry, Judgement, Known},
    machine::{
        Action, Arrived, Assignment, AttemptKey, Content, DeadLetterReason, Delivery, Event, Lane, Limits, Machine, Replies, Route,
        Subject, Ticket, WorkId,
    },
    note::{Applied, AttemptId, DoubtReason, Slot},
    outcome::{Finding, Outcome},
    park::{Closing, EndKind, Openness, ParkId, Payload, RecordDigest, SlotNotes},
    policy::{Contract, Policy},
    time::{Monotonic, Now, UnixMillis},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Weak},
    time::Duration,
};

/// A record of the log. The operation is `tenant/id`; none is undecodable.
#[derive(Clone, Debug)]
pub struct Row {
    pub operation: Option<(&'static str, String)>,
    pub amount: u8,
    pub lane: u64,
    pub route: usize,
}

pub fn row(tenant: &'static str, id: impl ToString, lane: u64) -> Row {
    Row { operation: Some((tenant, id.to_string())), amount: 1, lane, route: 0 }
}

/// What the destination does with one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Takes effect and answers.
    Apply,
    /// Takes effect; the answer is lost.
    Lose,
    /// No effect, and says so.
    NoEffect,
    /// Refuses for good.
    Reject,
    /// Nobody hears of it until the test says so.
    Hang,
}

#[derive(Default, Clone)]
pub struct Disk {
    pub known: BTreeMap<KeyDigest, Known>,
    pub payloads: BTreeMap<ParkId, (Payload, usize)>,
    pub closed: BTreeMap<Slot, (Closing, RecordDigest)>,
    pub watermark: i64,
    pub claim: u64,
}

pub struct World {
    pub machine: Machine,
    pub disk: Disk,
    pub log: Vec<Row>,
    pub policies: Vec<Policy>,
    pub limits: Limits,
    pub now: u64,
    pub committed: i64,
    pub delivered: i64,
    pub epoch: u64,
    /// Batches that were submitted and not synced.
    pub unsynced: VecDeque<(Ticket, Vec<Entry>)>,
    /// Attempts whose handler runs.
    pub running: BTreeMap<AttemptKey, String>,
    pub prepared: BTreeMap<WorkId, AttemptId>,
    /// Every start of a handler, in order.
    pub starts: Vec<(String, u32)>,
    /// Effects by operation: which attempts had one.
    pub ledger: BTreeMap<String, Vec<u32>>,
    pub dead_letters: Vec<(i64, DeadLetterReason)>,
    pub dead_letter_fails: bool,
    pub deduplicates: bool,
    pub halted: bool,
    /// Parked records cannot be read.
    pub unpark_fails: bool,
    pub drained: bool,
    pub looked: Vec<(KeyDigest, Monotonic)>,
    pub auto_look: bool,
    /// Dead letters are not acknowledged; these wait for that.
    pub dead_letters_hang: bool,
    pub producing: Vec<WorkId>,
    /// Parked records that were read.
    pub read: usize,
    pub read_payloads: Vec<Weak<Payload>>,
    pub actions: Vec<Action>,
}

pub fn name(digest: KeyDigest, disk: &Disk) -> String {
    disk.known.get(&digest).and_then(|k| k.key.as_ref()).map(|k| format!("{}/{}", k.tenant(), k.id()[0])).unwrap_or_default()
}

pub fn key(tenant: &str, id: &str) -> OperationKey {
    OperationKey::new(tenant, "op.v1", &[id.to_string()], Alphabet::Token).unwrap()
}

pub fn limits(permits: usize, records: usize) -> Limits {
    Limits {
        permits,
        tenant_permits_max: permits,
        partition_records_max: records,
        partition_bytes_max: 1 << 40,
        waiting_grace: Duration::from_millis(2000),
        park_record_bytes_max: 1 << 20,
        reply_attempts_max: 3,
        reply_back_off: Duration::from_millis(10),
        look_up_back_off: (Duration::from_millis(100), Duration::from_millis(1000)),
    }
}

pub fn policy(contract: Contract) -> Policy {
    Policy {
        contract,
        time_limit: Duration::from_millis(1000),
        detached_max: Duration::from_millis(10_000),
        margin: Duration::from_millis(10_000),
        ..Policy::default()
    }
}

pub fn hold() -> Contract {
    Contract::Hold { quiet: Duration::from_millis(500) }
}
pub fn ask() -> Contract {
    Contract::Ask { quiet: Duration::from_millis(500) }
}
pub fn rerun() -> Contract {
    Contract::DestinationDeduplicates { memory: Duration::from_secs(3600), then: Box::new(hold()) }
}

impl World {
    pub fn new(policy: Policy, permits: usize, log: Vec<Row>) -> Self {
        Self::with(vec![policy], limits(permits, 1000), log)
    }

    pub fn with(policies: Vec<Policy>, limits: Limits, log: Vec<Row>) -> Self {
        let mut world = Self {
            machine: Machine::new(0, limits.clone(), vec![], BTreeSet::new()),
            disk: Disk::default(),
            log,
            policies,
            limits,
            now: 1,
            committed: 0,
            delivered: 0,
            epoch: 0,
            unsynced: VecDeque::new(),
            running: BTreeMap::new(),
            prepared: BTreeMap::new(),
            starts: vec![],
            ledger: BTreeMap::new(),
            dead_letters: vec![],
            dead_letter_fails: false,
            deduplicates: false,
            halted: false,
            unpark_fails: false,
            drained: false,
            looked: vec![],
            auto_look: true,
            dead_letters_hang: false,
            producing: vec![],
            read: 0,
            read_payloads: vec![],
            actions: vec![],
        };
        world.start();
        world
    }

    /// Attempt 1 of `acme/1` died with its process, a lookup denied it, and attempt 2 runs.
    pub fn denied_and_running_again() -> Self {
        let mut world = Self::new(policy(ask()), 4, vec![row("acme", "1", 1)]);
        world.deliver(1);
        world.sync_all();
        world.crash(0);
        while world.starts.len() < 2 {
            world.settle(&Act::Hang, 1);
        }
        world
    }

    pub fn assignment(&self) -> Assignment {
        Assignment { partition: 0, epoch: self.epoch }
    }

    pub fn clock(&self) -> Now {
        Now { monotonic: Monotonic(self.now), wall: UnixMillis(1_000_000 + i64::try_from(self.now).unwrap()) }
    }

    /// A process start on what the disk has.
    pub fn start(&mut self) {
        self.disk.claim += 1;
        let routes = self.policies.iter().enumerate().map(|(i, policy)| Route {
            names: vec![if i == 0 { "op.v1".into() } else { format!("op{i}.v1") }],
            policy: policy.clone(),
            replies: Replies::None,
        });
        let careful = if self.disk.claim > 1 {
            self.disk
                .known
                .iter()
                .filter(|(_, k)| !k.receipt.undecided().is_empty() && k.receipt.applied().is_none())
                .map(|(k, _)| *k)
                .collect()
        } else {
            BTreeSet::new()
        };
        self.machine = Machine::new(self.disk.claim, self.limits.clone(), routes.collect(), careful);
        let known: Vec<_> = self.disk.known.iter().map(|(key, known)| (*key, Arc::new(known.clone()))).collect();
        for (key, known) in known {
            self.on(Event::Doubtful { key, known });
        }
        self.assign(self.committed);
    }

    pub fn assign(&mut self, start: i64) {
        self.epoch += 1;
        self.delivered = start;
        self.drained = false;
        let known_complete = self.disk.watermark.max(start);
        self.on(Event::Assigned { assignment: self.assignment(), topic: "t".into(), number: 0, start, known_complete });
    }

    /// The process dies: what is not synced is lost, or landed without an answer. Futures die; their requests may have landed.
    pub fn crash(&mut self, landed: usize) {
        let landed: Vec<_> = self.unsynced.drain(..).take(landed).collect();
        for (_, entries) in landed {
            self.write(&entries);
        }
        self.unsynced.clear();
        self.running.clear();
        self.prepared.clear();
        self.looked.clear();
        self.actions.clear();
        self.now += 10;
        self.start();
    }

    pub fn on(&mut self, event: Event) {
        let mut actions = std::mem::take(&mut self.actions);
        let now = self.clock();
        self.machine.on(event, now, &mut actions);
        self.perform(actions);
    }

    fn perform(&mut self, mut actions: Vec<Action>) {
        loop {
            if actions.is_empty() {
                self.machine.flush(&mut actions);
                if actions.is_empty() {
                    return;
                }
            }
            let mut next = vec![];
            for action in actions.drain(..) {
                if let Some(event) = self.act(action) {
                    let now = self.clock();
                    self.machine.on(event, now, &mut next);
                }
            }
            actions = next;
        }
    }

    fn act(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Append { ticket, entries } => self.unsynced.push_back((ticket, entries)),
            Action::Extract { work, attempt, .. } => {
                self.prepared.insert(work, attempt);
                return Some(Event::Extracted { work, result: Ok(()) });
            }
            Action::Forget { work } => drop(self.prepared.remove(&work)),
            Action::Start { work, attempt, .. } => {
                assert_eq!(self.prepared.remove(&work), Some(attempt.1), "started with its own arguments");
                let known = &self.disk.known[&attempt.0];
                assert!(known.receipt.admissions().contains_key(&attempt.1), "G4: the admission is durable before the handler runs");
                let operation = name(attempt.0, &self.disk);
                self.starts.push((operation.clone(), attempt.1.number));
                self.running.insert(attempt, operation);
            }
            Action::Abort { attempt } => {
                if self.running.remove(&attempt).is_some() {
                    return Some(Event::Finished { attempt, outcome: Outcome::Unknown(DoubtReason::Cancelled, String::new()) });
                }
            }
            Action::DeadLetter { work, .. } if self.dead_letters_hang => self.producing.push(work),
            Action::DeadLetter { work, slot, reason, .. } => {
                let result = if self.dead_letter_fails { Err("down".into()) } else { Ok(()) };
                if result.is_ok() {
                    self.dead_letters.push((slot.offset, reason));
                }
                return Some(Event::DeadLettered { work, result });
            }
            Action::Reply { work, .. } => return Some(Event::Replied { work, result: Ok(()) }),
            Action::Load { key } => {
                let known = Arc::new(self.disk.known.get(&key).cloned().unwrap_or_default());
                return Some(Event::Doubtful { key, known });
            }
            Action::Unpark { key, .. } if self.unpark_fails => return Some(Event::NotUnparked { key }),
            Action::Unpark { key, park } => {
                self.read += 1;
                let (payload, offset) = self.disk.payloads[&park].clone();
                let subject = Arc::new(self.subject(offset).expect("parked with an operation"));
                assert_eq!(subject.key, key);
                let record = payload.digest();
                let payload = Arc::new(payload);
                self.read_payloads.push(Arc::downgrade(&payload));
                return Some(Event::Unparked { slot: park.slot.clone(), park, payload, record, subject });
            }
            Action::LookUp { key, .. } => self.looked.push((key, Monotonic(self.now))),
            Action::Commit { offset, .. } => {
                assert!(offset <= self.disk.watermark, "G1: the watermark is durable before its offset is committed");
                self.committed = offset;
            }
            Action::Drained { .. } => self.drained = true,
            Action::Halt { .. } => self.halted = true,
            Action::Answer { .. } => {}
        }
        None
    }

    pub fn write(&mut self, entries: &[Entry]) -> Vec<Answer> {
        let wall = self.clock().wall;
        let mut answers = vec![];
        for entry in entries {
            let Some(key) = entry.key() else {
                match entry {
                    Entry::Watermark { slot } => self.disk.watermark = self.disk.watermark.max(slot.offset),
                    Entry::Close { slot, closing, record } => drop(self.disk.closed.insert(slot.clone(), (*closing, *record))),
                    Entry::Park { id, park, payload, .. } => {
                        let known = self.disk.known.entry(KeyDigest([0; 32])).or_default();
                        if known.parks.get(id).is_some_and(|own| own != park) {
                            answers.push(Answer::Lost(Arc::new(known.clone())));
                            continue;
                        }
                        known.parks.insert(id.clone(), park.clone());
                        let offset = usize::try_from(id.slot.offset).unwrap();
                        self.disk.payloads.insert(id.clone(), ((**payload).clone(), offset));
                    }
                    _ => {}
                }
                answers.push(Answer::Done(None));
                continue;
            };
            let known = self.disk.known.entry(key).or_default();
            let judgement = known.judge(entry, wall);
            if std::env::var("TRACE").is_ok() {
                eprintln!(
                    "{} {judgement:?} rev {:?} {}",
                    self.now,
                    known.revision(),
                    format!("{entry:?}").chars().take(330).collect::<String>()
                );
            }
            let state = Arc::new(known.clone());
            if judgement == Judgement::Lost {
                answers.push(Answer::Lost(state));
                continue;
            }
            if let Entry::Park { id, payload, .. } = entry {
                let offset = usize::try_from(id.slot.offset).unwrap();
                self.disk.payloads.insert(id.clone(), ((**payload).clone(), offset));
            }
            answers.push(Answer::Done(Some(state)));
        }
        answers
    }

    /// The disk syncs the oldest batch.
    pub fn sync(&mut self) -> bool {
        let Some((ticket, entries)) = self.unsynced.pop_front() else { return false };
        let answers = self.write(&entries);
        self.on(Event::Appended { ticket, answers });
        true
    }

    pub fn sync_all(&mut self) {
        while self.sync() {}
    }

    fn subject(&self, offset: usize) -> Option<Subject> {
        let row = &self.log[offset];
        let (tenant, id) = row.operation.as_ref()?;
        let name = if row.route == 0 { key(tenant, id) } else { key(tenant, id).renamed(&format!("op{}.v1", row.route)).unwrap() };
        let digest = name.digest();
        let known = Arc::new(self.disk.known.get(&digest).cloned().unwrap_or_default());
        let fingerprint = Fingerprint::Digest([row.amount; 16]);
        Some(Subject { key: digest, name: Arc::new(name), route: row.route, fingerprint, correlation: None, known })
    }

    fn notes(&self, slot: &Slot) -> SlotNotes {
        let all = self.disk.known.values().flat_map(|k| k.parks.iter().map(move |(id, park)| (k, id, park)));
        let newest = all.filter(|(_, id, _)| id.slot == *slot).max_by_key(|(_, id, _)| id.number);
        let parked = newest.map(|(known, id, park)| {
            let open = if known.ends.contains_key(id) { Openness::Ended } else { Openness::Open };
            (id.clone(), park.clone(), open)
        });
        let ended = newest.and_then(|(known, id, park)| match known.ends.get(id).map(|end| &end.kind) {
            Some(EndKind::DeadLettered) => Some((Closing::DeadLettered, park.record)),
            Some(EndKind::Discarded) => Some((Closing::Discarded, park.record)),
            _ => None,
        });
        let times = newest.map_or(0, |(_, id, _)| id.number);
        SlotNotes { times, parked, closed: self.disk.closed.get(slot).copied().or(ended) }
    }

    /// How many parked records were read and are held in memory.
    pub fn held_in_memory(&self) -> usize {
        self.read_payloads.iter().filter(|payload| payload.strong_count() > 0).count()
    }

    /// The broker delivers the next records.
    pub fn deliver(&mut self, count: usize) -> usize {
        let from = usize::try_from(self.delivered).unwrap();
        let to = (from + count).min(self.log.len());
        let deliveries: Vec<Delivery> = (from..to)
            .map(|at| {
                let offset = i64::try_from(at).unwrap();
                let row = &self.log[at];
                let payload = Payload { value: Some(format!("{row:?}").into_bytes()), ..Payload::default() };
                let content = self.subject(at).map_or_else(
                    || Content::DeadLetter(DeadLetterReason::NoKey, "no key".into()),
                    |subject| Content::Operation(Arc::new(subject)),
                );
                let slot = Slot { topic: "t".into(), partition: 0, offset };
                let (record, notes) = (payload.digest(), self.notes(&slot));
                if let Content::Operation(subject) = &content
                    && subject.known.applied_with().is_some_and(|with| is_answered(with, &notes, subject.fingerprint))
                {
                    return Delivery::Answered { offset, route: subject.route };
                }
                let (lane, payload) = (Lane::Key(row.lane), Arc::new(payload));
                Delivery::Record(Box::new(Arrived { offset, lane, payload, record, notes, content }))
            })
            .collect();
        self.delivered = i64::try_from(to).unwrap();
        let assignment = self.assignment();
        self.on(Event::Arrived { assignment, deliveries });
        to - from
    }

    /// The destination acts on a running attempt.
    pub fn act_on(&mut self, attempt: AttemptKey, act: &Act) {
        let Some(operation) = self.running.get(&attempt).cloned() else { return };
        if *act == Act::Hang {
            return;
        }
        self.running.remove(&attempt);
        let outcome = match act {
            Act::Apply => Outcome::Applied(self.effect(&operation, attempt.1.number)),
            Act::Lose => {
                self.effect(&operation, attempt.1.number);
                Outcome::Unknown(DoubtReason::Unknown, "no answer".into())
            }
            Act::NoEffect => Outcome::NoEffect("503".into()),
            Act::Reject | Act::Hang => Outcome::Rejected("over the limit".into()),
        };
        self.on(Event::Finished { attempt, outcome });
    }

    /// The world changes: once more, unless the destination deduplicates.
    pub fn effect(&mut self, operation: &str, attempt: u32) -> Applied {
        let effects = self.ledger.entry(operation.into()).or_default();
        if !self.deduplicates || effects.is_empty() {
            effects.push(attempt);
        }
        applied(&format!("ref-{operation}-{}", effects.last().unwrap()))
    }

    pub fn act_all(&mut self, act: &Act) -> usize {
        let running: Vec<_> = self.running.keys().copied().collect();
        running.iter().for_each(|attempt| self.act_on(*attempt, act));
        running.len()
    }

    /// The destination answers the lookups truthfully.
    pub fn answer_lookups(&mut self) -> usize {
        let looked = std::mem::take(&mut self.looked);
        for (key, started) in &looked {
            let effects = self.ledger.get(&name(*key, &self.disk)).cloned().unwrap_or_default();
            let operation = name(*key, &self.disk);
            let found: Vec<_> = effects.iter().map(|attempt| applied(&format!("ref-{operation}-{attempt}"))).collect();
            let finding = Ok(if found.is_empty() { Finding::NotFound } else { Finding::Found(found) });
            let known = Arc::new(self.disk.known.get(key).cloned().unwrap_or_default());
            self.on(Event::LookedUp { key: *key, known, started: *started, finding });
        }
        looked.len()
    }

    pub fn wait(&mut self, millis: u64) {
        self.now += millis;
        self.on(Event::Tick);
    }

    /// Goes on until nothing moves: everything is delivered, synced, answered; time passes up to `rounds` timers.
    pub fn settle(&mut self, act: &Act, rounds: usize) {
        for _ in 0..rounds {
            let mut moved = self.deliver(100) > 0;
            moved |= self.sync();
            moved |= self.act_all(act) > 0 && *act != Act::Hang;
            moved |= self.auto_look && self.answer_lookups() > 0;
            if moved {
                continue;
            }
            self.on(Event::CommitTick);
            if self.sync() {
                continue;
            }
            match self.machine.next_timer() {
                Some(at) => self.now = self.now.max(at.0),
                None => return,
            }
            self.on(Event::Tick);
        }
    }

    pub fn state(&self, tenant: &str, id: &str) -> String {
        let known = self.disk.known.get(&key(tenant, id).digest());
        known.map_or("new", |known| known.receipt.state().label()).to_string()
    }

    pub fn about(&self, operation: &str) -> Option<&Known> {
        let (tenant, id) = operation.split_once('/')?;
        self.disk.known.get(&key(tenant, id).digest())
    }

    pub fn open_parks(&self) -> Vec<(i64, &'static str)> {
        let open = self.disk.known.values().flat_map(Known::open_parks);
        let mut open: Vec<_> = open.map(|(id, park)| (id.slot.offset, park.reason.label())).collect();
        open.sort_unstable();
        open
    }
}

pub fn applied(reference: &str) -> Applied {
    Applied {
        reference: receipted::protocol::note::Reference::new(reference),
        answer: receipted::protocol::note::Answer::Json("null".into()),
        already: false,
    }
}
