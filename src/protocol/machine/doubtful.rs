//! Owns the operations that wait for an answer: when the destination is asked, what an answer proves, and when a parked record runs
//! again. It works through operations in doubt, not through notes.

use super::{
    Action, Machine, WorkId,
    types::{Replay, StartKind, Then, Timer},
    work::{Lane, Source, Subject, Work},
};
use crate::protocol::{
    doubt::{self, Future},
    fingerprint::Fingerprint,
    key::KeyDigest,
    known::{Answer, Entry, Known},
    lookup::Look,
    note::{AttemptId, Author, Ruling, Slot, Verdict},
    outcome::Finding,
    park::{Park, ParkId, ParkReason, Payload, RecordDigest, SlotNotes},
    policy::Contract,
    receipt::State,
    time::{Monotonic, Now},
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// An operation that is in doubt or parked.
#[derive(Debug)]
pub(super) struct Doubtful {
    route: usize,
    /// When it is looked at next.
    due: Option<Monotonic>,
    /// A lookup or a resume is on its way.
    busy: Busy,
    tries: u32,
    /// When somebody last denied an attempt, or when this process began: the second look comes another quiet period later.
    ruled: Monotonic,
    /// The generation of the provider key that the last lookup asked with.
    asked: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Busy {
    No,
    Looking,
    Resuming,
}

impl Machine {
    /// Has an operation looked at by then at the latest. A route that is not known yet is found from its name.
    pub(super) fn attend_at(&mut self, key: KeyDigest, at: Monotonic, route: usize) {
        let entry = self.doubtful.entry(key).or_insert(Doubtful::new(route));
        if entry.due.is_none_or(|due| at < due) {
            entry.due = Some(at);
            self.timer(at, Timer::Doubt(key));
        }
    }

    fn attend_after(&mut self, key: KeyDigest, wait: Duration, now: Now) {
        let Some(entry) = self.doubtful.get_mut(&key) else { return };
        entry.due = Some(now.monotonic.after(wait));
        self.timer(now.monotonic.after(wait), Timer::Doubt(key));
    }

    /// Looks at an operation: asks the destination, runs a parked record again, or leaves it to a person.
    pub(super) fn attend(&mut self, key: KeyDigest, known: &Arc<Known>, now: Now, actions: &mut Vec<Action>) {
        self.attend_to(key, known, now, actions);
        if self.doubtful.get(&key).is_none_or(|entry| entry.busy != Busy::Resuming) {
            self.aside.resumed(&key);
        }
    }

    fn attend_to(&mut self, key: KeyDigest, known: &Arc<Known>, now: Now, actions: &mut Vec<Action>) {
        self.weigh(key, known);
        let Some(route) = self.route_of(known).or_else(|| self.route_attended(key)) else {
            return self.attend_unnamed(key, known, now, actions);
        };
        let stopping = self.is_stopping();
        let entry = self.doubtful.entry(key).or_insert(Doubtful::new(route));
        entry.route = route;
        entry.due = None;
        self.forget_quiet(key, known, route, now);
        let Some(entry) = self.doubtful.get_mut(&key) else { return };
        if entry.busy != Busy::No || stopping {
            return self.attend_after(key, self.limits.look_up_back_off.0, now);
        }
        let again = entry.ruled.after(self.routes[route].policy.contract.quiet());
        let owed = self.owes_look(known, route);
        if owed && again <= now.monotonic && self.look(key, known, route, &known.receipt.unconfirmed(), actions) {
            return;
        }
        if owed && again > now.monotonic {
            self.attend_at(key, again, route);
        }
        match known.receipt.state() {
            State::InDoubt(_) if self.rerun_waits(known, route, now) => self.resume(key, known, route, now, actions),
            State::InDoubt(_) => match self.routes[route].policy.contract.last() {
                Contract::Ask { .. } => {
                    if !self.look(key, known, route, &known.receipt.undecided(), actions) {
                        self.attend_after(key, self.limits.look_up_back_off.1, now);
                    }
                }
                Contract::Hold { .. } | Contract::DestinationDeduplicates { .. } => {}
            },
            State::Retryable | State::New => self.resume(key, known, route, now, actions),
            State::Applied(_) if self.look(key, known, route, &known.receipt.undecided(), actions) => {}
            State::Applied(_) | State::Rejected(_) => self.leave(key, known, route),
        }
    }

    /// Nothing but a parked record tells what operation this is: it was set aside before anything of it began.
    fn attend_unnamed(&mut self, key: KeyDigest, known: &Arc<Known>, now: Now, actions: &mut Vec<Action>) {
        if known.receipt.state() != State::New || !known.parks.values().any(|park| park.reason.follows_operation()) {
            return;
        }
        let stopping = self.is_stopping();
        let entry = self.doubtful.entry(key).or_insert(Doubtful::new(usize::MAX));
        entry.due = None;
        if entry.busy != Busy::No || stopping {
            return self.attend_after(key, self.limits.look_up_back_off.0, now);
        }
        self.resume(key, known, usize::MAX, now, actions);
    }

    /// Whether an attempt's absence rests on a single denial, and the destination can be asked once more.
    fn owes_look(&self, known: &Known, route: usize) -> bool {
        let asks = self.routes.get(route).is_some_and(|route| matches!(route.policy.contract.last(), Contract::Ask { .. }));
        asks && !known.receipt.unconfirmed().is_empty() && known.parks.values().any(|park| park.reason.follows_operation())
    }

    /// Nothing more is to be done about an operation, unless it is owed a second look.
    fn leave(&mut self, key: KeyDigest, known: &Known, route: usize) {
        if !self.owes_look(known, route) {
            self.doubtful.remove(&key);
            self.aside.forget(&key);
        }
    }

    /// Records that were parked only to make room go on from there, under the same contract as in their lane.
    pub(super) fn rerun_waits(&self, known: &Known, route: usize, now: Now) -> bool {
        let mut made_room = known.open_parks().filter(|(_, park)| park.reason == ParkReason::Retry);
        made_room.any(|(id, _)| {
            let used = known.receipt.budget_used(&id.slot);
            matches!(doubt::step(&self.routes[route].policy, &known.receipt, now.wall, used), doubt::Step::Rerun { .. })
        })
    }

    /// The route that an operation without a stored name was attended with.
    fn route_attended(&self, key: KeyDigest) -> Option<usize> {
        self.doubtful.get(&key).map(|entry| entry.route).filter(|route| *route < self.routes.len())
    }

    /// Asks the destination about the last of these attempts and all others under its key, with the arguments of a parked record; false
    /// when there is no attempt, no record or no lookup.
    fn look(&mut self, key: KeyDigest, known: &Known, route: usize, about: &BTreeSet<AttemptId>, actions: &mut Vec<Action>) -> bool {
        if !matches!(self.routes[route].policy.contract.last(), Contract::Ask { .. }) {
            return false;
        }
        let Some(name) = known.key.clone() else { return false };
        let Some(park) = known.parks.iter().filter(|(_, park)| park.reason.follows_operation()).map(|(id, _)| id).next_back() else {
            return false;
        };
        let Some(attempt) = about.last().copied() else { return false };
        let key_generation = known.receipt.admissions().get(&attempt).map_or(0, |admission| admission.key_generation);
        if let Some(entry) = self.doubtful.get_mut(&key) {
            entry.busy = Busy::Looking;
            entry.asked = key_generation;
        }
        actions.push(Action::LookUp { key, name, route, park: park.clone(), attempt, key_generation });
        true
    }

    /// Runs the oldest parked record of an operation that may run.
    fn resume(&mut self, key: KeyDigest, known: &Known, route: usize, now: Now, actions: &mut Vec<Action>) {
        let held = |park: &Park| park.reason.follows_operation() && !park.fingerprint.is_some_and(|own| is_other(known, own));
        let Some(park) = known.open_parks().filter(|(_, park)| held(park)).map(|(id, _)| id.clone()).next() else {
            return self.leave(key, known, route);
        };
        if self.keys.get(&key).is_some_and(|entry| entry.is_busy()) {
            return self.attend_after(key, self.limits.look_up_back_off.0, now);
        }
        if let Some(until) = self.rests_until(key, known, route, &park.slot, now) {
            return self.attend_at(key, until, route);
        }
        if !self.has_turn(key, known, route, &park) {
            return;
        }
        if let Some(entry) = self.doubtful.get_mut(&key) {
            entry.busy = Busy::Resuming;
        }
        actions.push(Action::Unpark { key, park });
    }

    pub(super) fn unparked(&mut self, park: ParkId, slot: Slot, payload: Arc<Payload>, record: RecordDigest, subject: Arc<Subject>) {
        if let Some(entry) = self.doubtful.get_mut(&subject.key) {
            entry.busy = Busy::No;
            entry.route = subject.route;
        }
        if !self.keeps_turn(subject.key, &park, subject.route, subject.name.tenant()) {
            return;
        }
        self.aside.read(subject.route, subject.name.tenant());
        let id = self.new_id();
        let lane = Lane::Own(slot.offset);
        let work = Work::new(Source::Parked(park), slot, lane, payload, record, SlotNotes::default());
        let work = Work { subject: Some(subject), replay: Replay::Original, kind: StartKind::Resumed, ..work };
        self.carry(id, work);
        self.ready.push_back(id);
    }

    pub(super) fn not_unparked(&mut self, key: KeyDigest, now: Now) {
        self.aside.resumed(&key);
        if let Some(entry) = self.doubtful.get_mut(&key) {
            entry.busy = Busy::No;
        }
        self.attend_after(key, self.limits.look_up_back_off.1, now);
    }

    /// Decides about a parked record that may run again.
    pub(super) fn consider_parked(&mut self, id: WorkId, subject: &Subject, now: Now, actions: &mut Vec<Action>) {
        let Some(entry) = self.keys.get(&subject.key) else { return };
        let (known, busy) = (entry.known.clone(), entry.busy_for(id));
        if busy || self.is_stopping() {
            return self.back_to_park(id, now);
        }
        if self.has_ended(id, &known) {
            // Sent to the dead letters or thrown away since it was read: another record may be parked for the operation.
            self.remove(id);
            return self.attend_at(subject.key, now.monotonic, subject.route);
        }
        if is_other(&known, subject.fingerprint) {
            // Set aside before its operation was known with other parameters: never run, listed for a person.
            return drop(self.remove(id));
        }
        match known.receipt.state() {
            State::Retryable | State::New => self.retry(id, &known, now, actions),
            State::InDoubt(_) => self.in_doubt(id, &known, now),
            _ => self.back_to_park(id, now),
        }
    }

    /// Whether the note that a record was read from has its end.
    fn has_ended(&self, id: WorkId, known: &Known) -> bool {
        let source = self.works.get(&id).map(|work| &work.source);
        matches!(source, Some(Source::Parked(park)) if known.ends.contains_key(park))
    }

    pub(super) fn looked_up(&mut self, key: KeyDigest, known: &Arc<Known>, started: Monotonic, finding: Result<Finding, String>, now: Now) {
        self.learn(key, known);
        let Some(entry) = self.doubtful.get_mut(&key) else { return };
        entry.busy = Busy::No;
        entry.tries = entry.tries.saturating_add(1);
        let (tries, route, ruled, generation) = (entry.tries, entry.route, entry.ruled, entry.asked);
        let wait = self.next_look(key, &known.receipt.undecided(), route, tries, now);
        self.attend_after(key, wait, now);
        // A failed lookup is no evidence.
        let Ok(finding) = finding else { return };
        let future = |attempt: AttemptId| self.futures.state(&(key, attempt));
        let look = Look { started, future, quiet: self.routes[route].policy.contract.quiet(), ruled, generation };
        let verdicts = look.verdicts(&known.receipt, &finding);
        self.rule(key, known, verdicts, now);
    }

    /// Gives reconcile's verdicts. Each rests on the state that the one before it leaves.
    fn rule(&mut self, key: KeyDigest, known: &Arc<Known>, verdicts: Vec<(Ruling, BTreeSet<AttemptId>)>, now: Now) {
        let mut after = (**known).clone();
        for (ruling, attempts) in verdicts {
            let denies = if ruling == Ruling::NotDone { attempts.clone() } else { BTreeSet::new() };
            let reason = "the route's lookup".into();
            let verdict = Verdict { attempts, ruling, by: Author::Reconcile, reason, at: now.wall, fresh_key: false };
            let entry = Entry::Rule { key, seen: after.revision(), verdict: Box::new(verdict) };
            after.judge(&entry, now.wall);
            self.append(entry, Then::Ruled { key, request: None, denies });
        }
    }

    /// How long until the next lookup: backed off, but at the end of the quiet period at the latest.
    fn next_look(&self, key: KeyDigest, undecided: &BTreeSet<AttemptId>, route: usize, tries: u32, now: Now) -> Duration {
        let (first, max) = self.limits.look_up_back_off;
        let backed_off = first.saturating_mul(1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX)).min(max);
        let quiet = self.routes[route].policy.contract.quiet();
        let ends = undecided.iter().filter_map(|attempt| doubt::quiet_until(self.futures.state(&(key, *attempt)), quiet));
        let ahead = ends.filter(|end| *end > now.monotonic).map(|end| end.since(now.monotonic)).min();
        ahead.map_or(backed_off, |ahead| ahead.min(backed_off))
    }

    pub(super) fn operator(&mut self, request: u64, entry: Entry) {
        let (key, denies) = match &entry {
            Entry::Rule { key, verdict, .. } if matches!(verdict.ruling, Ruling::NotDone | Ruling::Rejected) => {
                (Some(*key), verdict.attempts.clone())
            }
            entry => (entry.key(), BTreeSet::new()),
        };
        let key = key.unwrap_or(KeyDigest([0; 32]));
        self.append(entry, Then::Ruled { key, request: Some(request), denies });
    }

    pub(super) fn ruled(
        &mut self, key: KeyDigest, request: Option<u64>, denies: &BTreeSet<AttemptId>, answer: &Answer, now: Now, actions: &mut Vec<Action>,
    ) {
        if let Some(request) = request {
            actions.push(Action::Answer { request, answer: answer.clone() });
        }
        let (Answer::Done(Some(known)) | Answer::Lost(known)) = answer else { return };
        let Some(route) = self.route_of(known).or_else(|| self.doubtful.get(&key).map(|entry| entry.route)) else { return };
        self.attend_at(key, now.monotonic, route);
        if route < self.routes.len() {
            self.forget_quiet(key, known, route, now);
        }
        if let Some(entry) = self.doubtful.get_mut(&key)
            && matches!(answer, Answer::Done(_))
            && !denies.is_empty()
        {
            entry.ruled = now.monotonic;
        }
    }

    /// Forgets the futures of decided attempts, once their last request cannot land any more: until then a second look has to know
    /// when they ended.
    fn forget_quiet(&mut self, key: KeyDigest, known: &Known, route: usize, now: Now) {
        let (undecided, quiet) = (known.receipt.undecided(), self.routes[route].policy.contract.quiet());
        for attempt in known.receipt.admissions().keys().filter(|attempt| !undecided.contains(attempt)) {
            match self.futures.state(&(key, *attempt)) {
                Future::EndedAt(end) if end.after(quiet) <= now.monotonic => drop(self.futures.decided(&(key, *attempt))),
                Future::EndedAt(end) => self.attend_at(key, end.after(quiet), route),
                Future::Alive | Future::FactPending => {}
            }
        }
    }
}

/// Whether an operation is known with other parameters than these.
fn is_other(known: &Known, fingerprint: Fingerprint) -> bool {
    known.receipt.state() != State::New && known.receipt.fingerprint().is_some_and(|own| own.differs(fingerprint))
}

impl Doubtful {
    fn new(route: usize) -> Self {
        Self { route, due: None, busy: Busy::No, tries: 0, ruled: Monotonic(0), asked: 0 }
    }
}
