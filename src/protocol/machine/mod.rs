//! Owns the journey of every record of this process, from its arrival to the watermark: which attempt may run, what is written down
//! before and after it, and when its slot is complete. It performs nothing: events and the time go in, actions come out.
//!
//! The caller owns the store, the handlers, the broker and the clock. It calls [`Machine::on`] with each event, performs the actions
//! in their order, and calls [`Machine::flush`] once its inbox is empty, which turns the gathered entries into batches. A batch
//! that fails must end the process: nobody knows whether it landed.

mod arrive;
mod aside;
mod attempt;
mod doubtful;
mod futures;
mod leave;
mod partition;
mod permits;
mod room;
mod table;
mod types;
mod waiting;
mod work;

pub use futures::AttemptKey;
pub use types::{Action, Bound, Event, Limits, Replay, Replies, Route, StartKind, Tally, Ticket};
pub use work::{Arrived, Assignment, Content, DeadLetterReason, Delivery, Lane, Source, Subject, WorkId};

use self::{
    aside::Aside,
    doubtful::Doubtful,
    futures::Futures,
    partition::{Gate, Partition},
    permits::Permits,
    table::Table,
    types::{Then, Timer},
    work::Work,
};
use super::{
    doubt::Future,
    key::KeyDigest,
    known::{Answer, Entry, Known},
    note::AttemptId,
    skip::Halted,
    time::{Monotonic, Now},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Entries of one batch, at most: so that the store writes some while the next are decided about. Batches that wait for one sync share it.
const BATCH_ENTRIES_MAX: usize = 256;

/// What the machine holds about an operation while something of it is on its way.
#[derive(Debug)]
struct KeyEntry {
    known: Arc<Known>,
    /// How much work carries this operation, in whatever lane. While there is any, what is known stays here.
    carried: usize,
    /// The work that may have an attempt.
    active: Option<WorkId>,
    /// Work that waits behind it.
    waiters: VecDeque<WorkId>,
    /// Attempts that run, before their deadline, for a partition that was taken away.
    deposed: BTreeSet<AttemptId>,
}

/// Every record that is on its way in this process.
#[derive(Debug)]
pub struct Machine {
    claim: u64,
    limits: Limits,
    routes: Vec<Route>,
    partitions: BTreeMap<usize, Partition>,
    works: Table<WorkId, Work>,
    next_work: u64,
    keys: Table<KeyDigest, KeyEntry>,
    permits: Permits,
    aside: Aside,
    futures: Futures,
    doubtful: BTreeMap<KeyDigest, Doubtful>,
    /// Operations in doubt since an unclean stop: rerun one at a time.
    careful: BTreeSet<KeyDigest>,
    unresolved: BTreeMap<usize, BTreeSet<KeyDigest>>,
    store_full: Option<Bound>,
    timers: BTreeSet<(Monotonic, Timer)>,
    /// Work to be decided about before `on` returns.
    ready: VecDeque<WorkId>,
    entries: Vec<(Entry, Then)>,
    appending: BTreeMap<Ticket, Vec<(Option<KeyDigest>, Then)>>,
    next_ticket: u64,
    tallies: BTreeMap<Tally, u64>,
    /// Actions that a rule without access to the caller's list has to take.
    later: Vec<Action>,
}

impl Machine {
    /// A machine for one process start. `claim` names that start in every attempt; `careful` are the operations that an unclean
    /// stop left in doubt.
    #[must_use]
    pub fn new(claim: u64, limits: Limits, routes: Vec<Route>, careful: BTreeSet<KeyDigest>) -> Self {
        let permits = Permits::new(limits.permits, limits.tenant_permits_max);
        Self {
            claim,
            limits,
            routes,
            partitions: BTreeMap::new(),
            works: Table::default(),
            next_work: 0,
            keys: Table::default(),
            permits,
            aside: Aside::default(),
            futures: Futures::default(),
            doubtful: BTreeMap::new(),
            careful,
            unresolved: BTreeMap::new(),
            store_full: None,
            timers: BTreeSet::new(),
            ready: VecDeque::new(),
            entries: Vec::new(),
            appending: BTreeMap::new(),
            next_ticket: 0,
            tallies: BTreeMap::new(),
            later: Vec::new(),
        }
    }

    /// Takes one event and says what to do.
    pub fn on(&mut self, event: Event, now: Now, actions: &mut Vec<Action>) {
        match event {
            Event::Assigned { assignment, topic, number, start, known_complete } => {
                self.assigned(Partition::new(assignment, topic, number, start, known_complete));
            }
            Event::Arrived { assignment, deliveries } => {
                self.arrived(assignment, deliveries, actions);
                self.watch_bound(assignment, now, actions);
            }
            Event::Reached { assignment, offset } => self.reached(assignment, offset),
            Event::Appended { ticket, answers } => self.appended(ticket, answers, now, actions),
            Event::Refused { ticket, bound } => self.refused(ticket, bound, actions),
            Event::Extracted { work, result } => self.extracted(work, result, now, actions),
            Event::Finished { attempt, outcome } => self.finished(attempt, &outcome, now),
            Event::DeadLettered { work, result } => self.dead_lettered(work, result, now),
            Event::Replied { work, result } => self.replied(work, result, now),
            Event::Doubtful { key, known } => self.attend(key, &known, now, actions),
            Event::Unparked { park, slot, payload, record, subject } => self.unparked(park, slot, payload, record, subject),
            Event::NotUnparked { key } => self.not_unparked(key, now),
            Event::LookedUp { key, known, started, finding } => self.looked_up(key, &known, started, finding, now),
            Event::Operator { request, entry } => self.operator(request, entry),
            Event::Skip { request, skipped } => {
                self.append(skipped.park, Then::Nothing);
                self.operator(request, skipped.end);
            }
            Event::Committed { assignment, slot } => self.committed(assignment, slot),
            Event::StoreFull(bound) => self.store_full(bound),
            Event::MayStart { route } => self.permits.open(route),
            Event::Revoke { assignment, until } => self.revoke(assignment, until),
            Event::Lost { assignment } => self.revoke(assignment, now.monotonic),
            Event::CommitTick => self.commit_tick(),
            Event::Tick => {}
        }
        self.fire_timers(now, actions);
        self.settle_ready(now, actions);
        self.grant_permits(now, actions);
        self.resume_next(actions);
        actions.append(&mut self.later);
        self.let_go(actions);
    }

    /// Turns what was gathered since the last call into batches, in its order.
    pub fn flush(&mut self, actions: &mut Vec<Action>) {
        while !self.entries.is_empty() {
            let ticket = Ticket(self.next_ticket);
            self.next_ticket += 1;
            let some = self.entries.len().min(BATCH_ENTRIES_MAX);
            let (entries, thens): (Vec<_>, Vec<_>) = self.entries.drain(..some).unzip();
            let thens = entries.iter().map(Entry::key).zip(thens).collect();
            self.appending.insert(ticket, thens);
            actions.push(Action::Append { ticket, entries });
        }
    }

    /// Whether a whole batch is gathered: calling [`Machine::flush`] now lets the store work on it meanwhile.
    #[must_use]
    pub fn has_batch(&self) -> bool {
        self.entries.len() >= BATCH_ENTRIES_MAX
    }

    /// When [`Event::Tick`] is due at the latest.
    #[must_use]
    pub fn next_timer(&self) -> Option<Monotonic> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Takes the counts since the last call.
    pub fn take_tallies(&mut self) -> BTreeMap<Tally, u64> {
        std::mem::take(&mut self.tallies)
    }

    /// Records of a partition that are on their way, and the bytes that they hold.
    #[must_use]
    pub fn in_flight(&self, partition: usize) -> (usize, u64) {
        self.partitions.get(&partition).map_or((0, 0), |partition| (partition.works.len(), partition.bytes))
    }

    /// Futures that live, or whose facts are not durable.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.futures.alive()
    }

    /// What this process knows of an attempt's future: for verdicts of operators.
    #[must_use]
    pub fn future(&self, key: KeyDigest, attempt: AttemptId) -> Future {
        self.futures.state(&(key, attempt))
    }

    /// Whether a partition still is to be let go under this assignment.
    #[must_use]
    pub fn is_open(&self, assignment: Assignment) -> bool {
        self.partitions.get(&assignment.partition).is_some_and(|p| p.assignment == assignment && p.gate != Gate::Closed)
    }

    /// The slot that a partition is halted at.
    #[must_use]
    pub fn halted(&self, partition: usize) -> Option<&Halted> {
        self.partitions.get(&partition)?.halted.as_deref()
    }

    /// The lowest slot of a partition that is not complete.
    #[must_use]
    pub fn position(&self, partition: usize) -> Option<i64> {
        Some(self.partitions.get(&partition)?.watermark.offset())
    }

    /// Whether every partition has been let go.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.partitions.values().all(|partition| partition.gate == Gate::Closed) && self.entries.is_empty() && self.appending.is_empty()
    }

    /// From now on a route is asked before each of its attempts whether one may start.
    pub fn gate(&mut self, route: usize) {
        self.permits.gate(route);
    }

    /// Takes the routes that are to be asked now whether one attempt may start. Each answers once, whenever it may, with
    /// [`Event::MayStart`]; nothing of it starts before.
    pub fn take_asks(&mut self) -> Vec<usize> {
        if self.store_full.is_some() { Vec::new() } else { self.permits.asks() }
    }

    /// The routes that take nothing new because too much of theirs is unresolved.
    pub fn paused_routes(&self) -> impl Iterator<Item = usize> {
        (0..self.routes.len()).filter(|route| self.permits.is_paused(*route))
    }

    /// The lowest incomplete offset of each open partition, and its distance to what has arrived.
    pub fn watermarks(&self) -> impl Iterator<Item = (Assignment, i64, u64)> {
        let open = self.partitions.values().filter(|partition| partition.gate != Gate::Closed);
        open.map(|partition| (partition.assignment, partition.watermark.offset(), partition.watermark.gap()))
    }

    fn append(&mut self, entry: Entry, then: Then) {
        self.entries.push((entry, then));
    }

    fn tally(&mut self, tally: Tally) {
        *self.tallies.entry(tally).or_default() += 1;
    }

    fn timer(&mut self, at: Monotonic, timer: Timer) {
        self.timers.insert((at, timer));
    }

    fn fire_timers(&mut self, now: Now, actions: &mut Vec<Action>) {
        while let Some((at, timer)) = self.timers.first().cloned() {
            if at > now.monotonic {
                return;
            }
            self.timers.pop_first();
            match timer {
                Timer::Deadline(attempt) => self.deadline(attempt, now),
                Timer::Detached(attempt) => {
                    if self.futures.state(&attempt) == Future::Alive {
                        actions.push(Action::Abort { attempt });
                    }
                }
                Timer::BackOff(work) => self.back_off_over(work, at),
                Timer::Reply(work) => self.reply_again(work, actions),
                Timer::Doubt(key) => {
                    if self.doubtful.contains_key(&key) {
                        actions.push(Action::Load { key });
                    }
                }
                Timer::Drain(partition) => self.drain_over(partition, now.monotonic),
                Timer::Room(partition) => self.room_due(partition, now, actions),
            }
        }
    }

    fn settle_ready(&mut self, now: Now, actions: &mut Vec<Action>) {
        while let Some(work) = self.ready.pop_front() {
            self.consider(work, now, actions);
        }
    }

    fn appended(&mut self, ticket: Ticket, answers: Vec<Answer>, now: Now, actions: &mut Vec<Action>) {
        let thens = self.appending.remove(&ticket).unwrap_or_default();
        assert_eq!(thens.len(), answers.len(), "a batch is answered once, entry by entry");
        for ((key, then), answer) in thens.into_iter().zip(answers) {
            if let (Some(key), Answer::Done(Some(known)) | Answer::Lost(known)) = (key, &answer) {
                self.learn(key, known);
            }
            self.then(key, then, &answer, now, actions);
        }
    }

    /// Nothing of the batch was written: it waits until the store is below its bound again.
    fn refused(&mut self, ticket: Ticket, bound: Bound, actions: &mut Vec<Action>) {
        self.store_full = Some(bound);
        for (_, then) in self.appending.remove(&ticket).unwrap_or_default() {
            match then {
                Then::Admitted(work, attempt) => self.not_admitted(work, &attempt, actions),
                Then::Noted(work, _) => self.set_phase(work, work::Phase::Blocked),
                // A skip's note, cut off from its end: that says nothing without it.
                Then::Nothing => {}
                other => panic!("a store refuses permissions only, and it refused {other:?}"),
            }
        }
    }

    /// Keeps the newest state of an operation, and what its route may still take on.
    fn learn(&mut self, key: KeyDigest, known: &Arc<Known>) {
        if let Some(entry) = self.keys.get_mut(&key)
            && entry.known.revision() <= known.revision()
        {
            entry.known = known.clone();
        }
        self.weigh(key, known);
    }

    /// Counts the operation towards its route's bound of unresolved ones, or no longer.
    fn weigh(&mut self, key: KeyDigest, known: &Known) {
        if known.receipt.doubts().is_empty() {
            // Nothing of it was ever unresolved: the way of nearly every operation.
            return;
        }
        let Some(route) = self.route_of(known) else { return };
        let unresolved = self.unresolved.entry(route).or_default();
        let changed = if known.receipt.unresolved().is_empty() { unresolved.remove(&key) } else { unresolved.insert(key) };
        if changed {
            if unresolved.len() >= self.routes[route].policy.unresolved_max as usize {
                self.permits.pause(route);
            } else {
                self.permits.resume(route);
            }
        }
    }

    /// The route that an operation belongs to by its name, also by a former one.
    fn route_of(&self, known: &Known) -> Option<usize> {
        let name = known.key.as_ref()?.operation();
        self.routes.iter().position(|route| route.names.iter().any(|own| own == name))
    }

    /// Nothing of it is on its way: at the head of its lane it is decided about, behind others it waits to be.
    fn decide_afresh(&mut self, work: WorkId) {
        self.set_phase(work, work::Phase::Lane);
        if !self.is_behind(work) {
            self.ready.push_back(work);
        }
    }

    fn then(&mut self, key: Option<KeyDigest>, then: Then, answer: &Answer, now: Now, actions: &mut Vec<Action>) {
        match (then, answer) {
            (Then::Admitted(work, attempt), Answer::Done(_)) => self.admitted(work, attempt, now, actions),
            (Then::Admitted(work, attempt), Answer::Lost(_)) => self.not_admitted(work, &attempt, actions),
            (Then::Recorded(work, attempt), _) => self.recorded(work, attempt, now, actions),
            (Then::Late(attempt), _) => self.late_recorded(attempt, now),
            (Then::Noted(work, leave), Answer::Done(_)) => self.noted(work, leave, key, now),
            (Then::Noted(work, _), Answer::Lost(known)) => self.not_noted(work, known, now),
            (Then::Marked(assignment, offset), _) => self.marked(assignment, offset, actions),
            (Then::Ruled { key, request, denies }, answer) => self.ruled(key, request, &denies, answer, now, actions),
            (Then::Nothing, _) => {}
        }
    }
}
