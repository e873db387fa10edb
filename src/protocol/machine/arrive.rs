//! Owns what happens to a record that arrives, or comes up again: the decision of DESIGN 3, and the waiting that it may lead to.

use super::{
    Action, KeyEntry, Machine, Tally, WorkId,
    partition::{Gate, Partition},
    types::{Leave, Replay, SECOND, StartKind, Then, Timer},
    work::{Arrived, Assignment, Content, DeadLetterReason, Delivery, Phase, Source, Work},
};
use crate::protocol::{
    decision::{Arrival, Decision, Position, Running, decide, decide_slot},
    doubt::{self, Step},
    known::{Entry, Known},
    note::{Doubt, DoubtReason, Slot},
    park::ParkReason,
    policy::OnConflict,
    skip::Halted,
    time::{Monotonic, Now},
};
use std::{collections::VecDeque, sync::Arc};

impl Machine {
    pub(super) fn assigned(&mut self, partition: Partition) {
        let before = self.partitions.insert(partition.assignment.partition, partition);
        assert!(before.is_none_or(|before| before.gate == Gate::Closed), "partition assigned while it was open");
    }

    pub(super) fn arrived(&mut self, assignment: Assignment, deliveries: Vec<Delivery>, actions: &mut Vec<Action>) {
        let Some(partition) = self.open(assignment) else {
            return deliveries.iter().for_each(|d| self.tally(Tally::Outcome(assignment.partition, d.route(), "returned")));
        };
        let (topic, number) = (partition.topic.clone(), partition.number);
        for delivery in deliveries {
            let Some(partition) = self.open(assignment) else { return };
            partition.watermark.arrived(delivery.offset());
            let Arrived { offset, lane, payload, record, notes, content } = match delivery {
                Delivery::Record(arrived) => *arrived,
                Delivery::Answered { offset, route } => {
                    self.pass_answered(assignment, offset, route);
                    continue;
                }
            };
            let position = partition.position(offset);
            let slot = Slot { topic: topic.clone(), partition: number, offset };
            let mut work = Work::new(Source::Slot(assignment), slot, lane, payload, record, notes);
            match content {
                Content::Skip => self.pass(assignment, offset, None, "skipped"),
                Content::DeadLetter(reason, detail) => {
                    let decided = decide_slot(&work.notes, record, position);
                    let id = self.take_in(assignment, work);
                    match decided {
                        Some(decision) => self.by_slot(id, &decision),
                        None => self.dead_letter(id, reason, detail, actions),
                    }
                }
                Content::Operation(subject) => {
                    work.subject = Some(subject);
                    if !self.answered_at_once(assignment, &work, position) {
                        let id = self.take_in(assignment, work);
                        self.note_running(id);
                        let head = self.partitions.get_mut(&assignment.partition).is_some_and(|p| p.join_lane(lane, id));
                        if head { self.ready.push_back(id) } else { self.waits_behind(assignment, id) }
                    }
                }
            }
        }
    }

    pub(super) fn reached(&mut self, assignment: Assignment, offset: i64) {
        if let Some(partition) = self.open(assignment) {
            partition.watermark.reached(offset);
        }
    }

    /// The partition, while it takes work under this assignment.
    pub(super) fn open(&mut self, assignment: Assignment) -> Option<&mut Partition> {
        self.partitions.get_mut(&assignment.partition).filter(|p| p.assignment == assignment && p.gate == Gate::Open)
    }

    pub(super) fn new_id(&mut self) -> WorkId {
        self.next_work += 1;
        WorkId(self.next_work)
    }

    fn take_in(&mut self, assignment: Assignment, work: Work) -> WorkId {
        let (id, bytes) = (self.new_id(), work.payload.bytes());
        self.carry(id, work);
        if let Some(partition) = self.partitions.get_mut(&assignment.partition) {
            partition.works.insert(id);
            partition.bytes += bytes;
        }
        id
    }

    /// Keeps work until it leaves, and what is known of its operation with it: a repeat behind its first delivery decides on what
    /// became of that, and not on what was known when both arrived.
    pub(super) fn carry(&mut self, id: WorkId, work: Work) {
        if let Some(subject) = &work.subject {
            let entry = self.keys.get_or_insert_with(subject.key, || KeyEntry::new(subject.known.clone()));
            entry.known = newer(&entry.known, &subject.known).clone();
            entry.carried += 1;
        }
        self.works.insert(id, work);
    }

    /// A repeat of a settled operation is answered without taking a place in its lane.
    fn answered_at_once(&mut self, assignment: Assignment, work: &Work, position: Position) -> bool {
        let Some(subject) = &work.subject else { return false };
        if self.routes[subject.route].replies == super::Replies::Hook {
            return false;
        }
        let known = self.keys.get(&subject.key).map_or(&subject.known, |entry| newer(&entry.known, &subject.known));
        let (slot, record, fingerprint) = (&work.notes, work.record, subject.fingerprint);
        if decide(&Arrival { known, slot, record, fingerprint, position, running: Running::No }) != Decision::Settled {
            return false;
        }
        let route = subject.route;
        self.pass_answered(assignment, work.slot.offset, route);
        true
    }

    fn pass_answered(&mut self, assignment: Assignment, offset: i64, route: usize) {
        self.tally(Tally::Suppressed("settled"));
        self.pass(assignment, offset, Some(route), "suppressed");
    }

    /// Completes a slot that needs no note of its own.
    fn pass(&mut self, assignment: Assignment, offset: i64, route: Option<usize>, outcome: &'static str) {
        if let Some(partition) = self.open(assignment) {
            partition.watermark.completed(offset);
            self.tally(Tally::Outcome(assignment.partition, route, outcome));
        }
    }

    /// Decides about work that has come to the head of its lane, or comes up again.
    pub(super) fn consider(&mut self, id: WorkId, now: Now, actions: &mut Vec<Action>) {
        let Some(work) = self.works.get(&id).filter(|work| work.phase.is_undecided()) else { return };
        let Some(subject) = work.subject.clone() else {
            // Its dead letter failed while the store was at a bound.
            let detail = work.detail.clone();
            return self.park(id, ParkReason::DeadLetterFailed, None, detail, now);
        };
        let assignment = match work.source {
            Source::Slot(assignment) => assignment,
            Source::Parked(_) => return self.consider_parked(id, &subject, now, actions),
        };
        let (offset, record) = (work.slot.offset, work.record);
        let Some(position) = self.open(assignment).map(|partition| partition.position(offset)) else { return self.give_back(id) };
        let Some((known, decision)) = self.decision(id, position) else { return };
        match decision {
            Decision::Halt | Decision::StaysClosed(_) | Decision::HeldBySlot(_) => self.by_slot(id, &decision),
            Decision::Conflict => self.conflict(id, now, actions),
            Decision::Held(park) => {
                let entry = Entry::Hold { key: subject.key, seen: known.revision(), park, slot: self.slot_of(id), record };
                self.note(id, entry, Leave::Held);
            }
            Decision::Settled => self.settled(id, &known, Replay::Repeat, actions),
            Decision::Wait => self.wait_for_key(id, &subject.key),
            Decision::InDoubt => self.in_doubt(id, &known, now),
            Decision::Retry => self.retry(id, &known, now, actions),
            Decision::Run => self.ask_permit(id, StartKind::First),
        }
    }

    /// What is to be done with work, on what is known of its operation now.
    pub(super) fn decision(&self, id: WorkId, position: Position) -> Option<(Arc<Known>, Decision)> {
        let work = self.works.get(&id)?;
        let subject = work.subject.as_ref()?;
        let entry = self.keys.get(&subject.key)?;
        let (known, fingerprint) = (entry.known.clone(), subject.fingerprint);
        let running = if entry.busy_for(id) { Running::Here } else { Running::No };
        let decision = decide(&Arrival { known: &known, slot: &work.notes, record: work.record, fingerprint, position, running });
        Some((known, decision))
    }

    /// The rows about the slot itself.
    fn by_slot(&mut self, id: WorkId, decision: &Decision) {
        if *decision == Decision::Halt {
            let reason = "it held another record when it was parked or dead-lettered: the topic was recreated";
            return self.halt(id, reason.into());
        }
        self.tally(Tally::Suppressed("held"));
        self.complete(id, "suppressed");
    }

    /// Stops a partition whose log or record makes no sense, and says so.
    pub(super) fn halt(&mut self, id: WorkId, reason: String) {
        let Some(work) = self.works.get(&id) else { return };
        let Source::Slot(assignment) = work.source else { return };
        let (slot, payload, record, subject) = (work.slot.clone(), work.payload.clone(), work.record, work.subject.clone());
        if let Some(partition) = self.open(assignment) {
            partition.gate = Gate::Halted;
            partition.halted = Some(Box::new(Halted { slot: slot.clone(), reason: reason.clone(), payload, record, subject }));
            self.later.push(Action::Halt { assignment, slot, reason });
        }
    }

    fn conflict(&mut self, id: WorkId, now: Now, actions: &mut Vec<Action>) {
        self.tally(Tally::Conflict(SECOND));
        let detail = "the same key with other parameters".to_string();
        match self.policy_of(id).map(|policy| policy.on_conflict) {
            Some(OnConflict::DeadLetter) => self.dead_letter(id, DeadLetterReason::Conflict, detail, actions),
            Some(OnConflict::Reject) => self.complete(id, "rejected"),
            Some(OnConflict::FirstWins) => {
                self.tally(Tally::Suppressed("settled"));
                self.complete(id, "suppressed");
            }
            Some(OnConflict::Park) | None => self.park(id, ParkReason::Conflict, None, detail, now),
        }
    }

    /// An attempt may have had its effect, and none runs here: the route's contract decides.
    pub(super) fn in_doubt(&mut self, id: WorkId, known: &Arc<Known>, now: Now) {
        let Some(subject) = self.works.get(&id).and_then(|work| work.subject.clone()) else { return };
        let used = known.receipt.budget_used(&self.slot_of(id));
        match doubt::step(&self.routes[subject.route].policy, &known.receipt, now.wall, used) {
            Step::Rerun { from, until } => {
                if let Some(work) = self.works.get_mut(&id) {
                    work.rerun = Some((from, until));
                }
                self.after_back_off(id, used, StartKind::Rerun, now);
            }
            step => {
                let mut after = (**known).clone();
                for attempt in known.receipt.undecided().into_iter().filter(|a| !known.receipt.doubts().contains_key(a)) {
                    let doubt = Doubt { reason: DoubtReason::Crash, detail: String::new(), at: now.wall };
                    after.receipt.doubt(attempt, doubt.clone());
                    self.append(Entry::Doubt { key: subject.key, attempt, doubt }, Then::Nothing);
                }
                self.set_aside(id, &step, &after, "an attempt may have had its effect".into(), now);
            }
        }
    }

    /// What may not be rerun waits on a note: its own, or the one that it came from.
    pub(super) fn set_aside(&mut self, id: WorkId, step: &Step, after: &Known, detail: String, now: Now) {
        if self.is_parked_work(id) {
            return self.back_to_park(id, now);
        }
        let reason = if *step == Step::Exhausted { ParkReason::Poison } else { ParkReason::Unresolved };
        self.park(id, reason, Some(after), detail, now);
    }

    /// Every earlier attempt had no effect: another one after its back-off, or the dead-letter topic when its budget is used up.
    pub(super) fn retry(&mut self, id: WorkId, known: &Arc<Known>, now: Now, actions: &mut Vec<Action>) {
        let Some(policy) = self.policy_of(id) else { return };
        let slot = self.slot_of(id);
        let used = known.receipt.budget_used(&slot);
        let first = known.receipt.admissions().values().filter(|a| a.slot == slot).map(|a| a.at).min().unwrap_or(now.wall);
        let too_long = used > 0 && now.wall.0.saturating_sub(first.0) >= millis(policy.back_off.give_up);
        if used >= policy.attempts_max || too_long {
            let detail = format!("{used} attempts without effect");
            return self.dead_letter(id, DeadLetterReason::Exhausted, detail, actions);
        }
        let kind = if self.is_parked_work(id) { StartKind::Resumed } else { StartKind::Retry };
        self.after_back_off(id, used, kind, now);
    }

    /// Asks for a permit, now if the back-off is over or none is due, else when it is.
    fn after_back_off(&mut self, id: WorkId, used: u32, kind: StartKind, now: Now) {
        if self.asks_or_rests(id, kind, now) {
            return;
        }
        let Some(wait) = self.policy_of(id).map(|policy| policy.back_off.wait(used)) else { return };
        let due = match self.works.get(&id).map(|work| &work.phase) {
            Some(Phase::BackOff(until)) if *until <= now.monotonic => now.monotonic,
            _ if used == 0 => now.monotonic,
            _ => now.monotonic.after(wait),
        };
        if due <= now.monotonic {
            return self.ask_permit(id, kind);
        }
        self.make_active(id);
        self.set_phase(id, Phase::BackOff(due));
        self.timer(due, Timer::BackOff(id));
        self.now_waiting(id, now);
    }

    pub(super) fn back_off_over(&mut self, id: WorkId, at: Monotonic) {
        if self.works.get(&id).is_some_and(|work| work.phase == Phase::BackOff(at)) {
            self.ready.push_back(id);
        }
    }

    pub(super) fn make_active(&mut self, id: WorkId) {
        let Some(key) = self.works.get(&id).and_then(Work::key) else { return };
        if let Some(entry) = self.keys.get_mut(&key) {
            entry.active = Some(id);
        }
    }

    pub(super) fn set_phase(&mut self, id: WorkId, phase: Phase) {
        if let Some(work) = self.works.get_mut(&id) {
            let (waited, waits) = (work.phase.waits(), phase.waits());
            let was_behind = work.phase == Phase::Key && phase != Phase::Key;
            work.phase = phase;
            if was_behind && let Some(entry) = work.key().and_then(|key| self.keys.get_mut(&key)) {
                entry.waiters.retain(|waiter| *waiter != id);
            }
            if waited && !waits {
                self.no_longer_waiting(id);
            }
        }
    }

    pub(super) fn slot_of(&self, id: WorkId) -> Slot {
        let none = || Slot { topic: "".into(), partition: -1, offset: -1 };
        self.works.get(&id).map_or_else(none, |work| work.slot.clone())
    }

    pub(super) fn policy_of(&self, id: WorkId) -> Option<&crate::protocol::policy::Policy> {
        let route = self.works.get(&id)?.subject.as_ref()?.route;
        self.routes.get(route).map(|route| &route.policy)
    }

    pub(super) fn is_parked_work(&self, id: WorkId) -> bool {
        self.works.get(&id).is_some_and(|work| matches!(work.source, Source::Parked(_)))
    }
}

impl KeyEntry {
    pub(super) fn new(known: Arc<Known>) -> Self {
        Self { known, carried: 0, active: None, waiters: VecDeque::new(), deposed: std::collections::BTreeSet::new() }
    }

    /// Whether an attempt runs, or is about to.
    pub(super) fn is_busy(&self) -> bool {
        self.active.is_some() || !self.deposed.is_empty()
    }

    /// Whether an attempt runs, or is about to, for other work than `id`.
    pub(super) fn busy_for(&self, id: WorkId) -> bool {
        self.active.is_some_and(|active| active != id) || !self.deposed.is_empty()
    }
}

fn newer<'a>(a: &'a Arc<Known>, b: &'a Arc<Known>) -> &'a Arc<Known> {
    if a.revision() >= b.revision() { a } else { b }
}

fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(crate::protocol::time::millis(duration)).unwrap_or(i64::MAX)
}
