//! Owns what happens to a record that arrives, or comes up again: the decision of DESIGN 3, and the waiting that it may lead to.

use super::{
    Action, KeyEntry, Machine, Tally, WorkId,
    partition::{Gate, Partition},
    types::{Leave, Replay, SECOND, StartKind, Then, Timer},
    work::{Assignment, Content, DeadLetterReason, Delivery, Phase, Source, Work},
};
use crate::protocol::{
    decision::{Arrival, Decision, Position, Running, decide, decide_slot},
    doubt::{self, Step},
    known::{Entry, Known, Revision},
    note::{Doubt, DoubtReason, Slot},
    park::{ParkReason, SlotNotes},
    policy::OnConflict,
    receipt::State,
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
            let route = |content: &Content| if let Content::Operation(subject) = content { Some(subject.route) } else { None };
            return deliveries.iter().for_each(|d| self.tally(Tally::Outcome(assignment.partition, route(&d.content), "returned")));
        };
        let (known_complete, topic, number) = (partition.known_complete, partition.topic.clone(), partition.number);
        for delivery in deliveries {
            let slot = Slot { topic: topic.clone(), partition: number, offset: delivery.offset };
            let Some(partition) = self.open(assignment) else { return };
            partition.watermark.arrived(delivery.offset);
            let position = if delivery.offset < known_complete { Position::Rewound } else { Position::Current };
            match delivery.content {
                Content::Skip => self.pass(assignment, delivery.offset, None, "skipped"),
                Content::DeadLetter(reason, detail) => {
                    let decided = decide_slot(&delivery.notes, delivery.record, position);
                    let work = Self::work(assignment, slot, delivery.lane, delivery.payload, delivery.record, delivery.notes);
                    let id = self.take_in(assignment, work);
                    match decided {
                        Some(decision) => self.by_slot(id, &decision, actions),
                        None => self.dead_letter(id, reason, detail, actions),
                    }
                }
                Content::Operation(subject) => {
                    let mut work = Self::work(assignment, slot, delivery.lane, delivery.payload, delivery.record, delivery.notes);
                    work.subject = Some(subject);
                    if !self.answered_at_once(assignment, &work, position) {
                        let lane = work.lane;
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

    fn work(
        assignment: Assignment, slot: Slot, lane: super::Lane, payload: Arc<crate::protocol::park::Payload>,
        record: crate::protocol::park::RecordDigest, notes: SlotNotes,
    ) -> Work {
        let source = Source::Slot(assignment);
        Work {
            source,
            slot,
            lane,
            payload,
            record,
            notes,
            subject: None,
            phase: Phase::Lane,
            detail: String::new(),
            seen: Revision::default(),
            replay: Replay::Repeat,
            kind: StartKind::First,
            rerun: None,
            repeat: "settled",
        }
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
            let entry = self.keys.entry(subject.key).or_insert_with(|| KeyEntry::new(subject.known.clone()));
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
        self.tally(Tally::Suppressed("settled"));
        self.pass(assignment, work.slot.offset, Some(route), "suppressed");
        true
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
        let Some(subject) = work.subject.clone() else { return };
        let assignment = match work.source {
            Source::Slot(assignment) => assignment,
            Source::Parked(_) => return self.consider_parked(id, &subject, now, actions),
        };
        if self.open(assignment).is_none() {
            return self.give_back(id);
        }
        let Some(work) = self.works.get(&id) else { return };
        let known_complete = self.partitions.get(&assignment.partition).map_or(i64::MIN, |p| p.known_complete);
        let position = if work.slot.offset < known_complete { Position::Rewound } else { Position::Current };
        let Some(entry) = self.keys.get(&subject.key) else { return };
        let known = entry.known.clone();
        let running = if entry.busy_for(id) { Running::Here } else { Running::No };
        let arrival =
            Arrival { known: &known, slot: &work.notes, record: work.record, fingerprint: subject.fingerprint, position, running };
        let decision = decide(&arrival);
        match decision {
            Decision::Halt | Decision::StaysClosed(_) | Decision::HeldBySlot(_) => self.by_slot(id, &decision, actions),
            Decision::Conflict => self.conflict(id, now, actions),
            Decision::Held(park) => {
                let entry = Entry::Hold { key: subject.key, seen: known.revision(), park, slot: self.slot_of(id), record: work.record };
                self.note(id, entry, Leave::Held);
            }
            Decision::Settled => self.settled(id, &known, Replay::Repeat, actions),
            Decision::Wait => self.wait_for_key(id, &subject.key),
            Decision::InDoubt => self.in_doubt(id, &known, now),
            Decision::Retry => self.retry(id, &known, now, actions),
            Decision::Run => self.ask_permit(id, StartKind::First, now),
        }
    }

    /// The rows about the slot itself.
    fn by_slot(&mut self, id: WorkId, decision: &Decision, actions: &mut Vec<Action>) {
        if *decision == Decision::Halt {
            let slot = self.slot_of(id);
            let reason = "it held another record when it was parked or dead-lettered: the topic was recreated".to_string();
            self.halt(id, slot, reason, actions);
            return;
        }
        self.tally(Tally::Suppressed("held"));
        self.complete(id, "suppressed");
    }

    /// Stops a partition whose log or record makes no sense, and says so.
    pub(super) fn halt(&mut self, id: WorkId, slot: Slot, reason: String, actions: &mut Vec<Action>) {
        let Some(Source::Slot(assignment)) = self.works.get(&id).map(|work| work.source.clone()) else { return };
        if let Some(partition) = self.open(assignment) {
            partition.gate = Gate::Halted;
            actions.push(Action::Halt { assignment, slot, reason });
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
        let used = budget(known, &self.slot_of(id));
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
                let reason = if step == Step::Exhausted { ParkReason::Poison } else { ParkReason::Unresolved };
                if self.is_parked_work(id) {
                    self.back_to_park(id, now);
                } else {
                    self.park(id, reason, Some(&after), "an attempt may have had its effect".into(), now);
                }
            }
        }
    }

    /// Every earlier attempt had no effect: another one after its back-off, or the dead-letter topic when its budget is used up.
    pub(super) fn retry(&mut self, id: WorkId, known: &Arc<Known>, now: Now, actions: &mut Vec<Action>) {
        let Some(policy) = self.policy_of(id) else { return };
        let slot = self.slot_of(id);
        let used = budget(known, &slot);
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
        let Some(wait) = self.policy_of(id).map(|policy| policy.back_off.wait(used)) else { return };
        let due = match self.works.get(&id).map(|work| &work.phase) {
            Some(Phase::BackOff(until)) if *until <= now.monotonic => now.monotonic,
            _ if used == 0 => now.monotonic,
            _ => now.monotonic.after(wait),
        };
        if due <= now.monotonic {
            return self.ask_permit(id, kind, now);
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

    /// A repeat that comes while an attempt of its operation runs is suppressed for that reason, wherever it waits meanwhile.
    fn note_running(&mut self, id: WorkId) {
        let Some(work) = self.works.get_mut(&id) else { return };
        if work.key().and_then(|key| self.keys.get(&key)).is_some_and(|entry| entry.busy_for(id)) {
            work.repeat = "running";
        }
    }

    fn wait_for_key(&mut self, id: WorkId, key: &crate::protocol::key::KeyDigest) {
        self.note_running(id);
        self.set_phase(id, Phase::Key);
        if let Some(entry) = self.keys.get_mut(key)
            && !entry.waiters.contains(&id)
        {
            entry.waiters.push_back(id);
        }
        self.mark_waiting(id);
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

    /// Counts work behind a head that only waits as waiting too.
    fn waits_behind(&mut self, assignment: Assignment, id: WorkId) {
        let Some(lane) = self.works.get(&id).map(|work| work.lane) else { return };
        let Some(partition) = self.partitions.get_mut(&assignment.partition) else { return };
        let head = partition.head(lane);
        if head.and_then(|head| self.works.get(&head)).is_some_and(|head| head.phase.waits())
            && let Some(partition) = self.partitions.get_mut(&assignment.partition)
        {
            partition.waiting.insert(id);
        }
    }

    fn mark_waiting(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else { return };
        let (Source::Slot(assignment), lane) = (work.source.clone(), work.lane) else { return };
        if let Some(partition) = self.partitions.get_mut(&assignment.partition) {
            let behind = partition.behind(lane, id);
            partition.waiting.insert(id);
            partition.waiting.extend(behind);
        }
    }

    fn no_longer_waiting(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else { return };
        let (Source::Slot(assignment), lane) = (work.source.clone(), work.lane) else { return };
        if let Some(partition) = self.partitions.get_mut(&assignment.partition) {
            partition.waiting.remove(&id);
            for behind in partition.behind(lane, id) {
                partition.waiting.remove(&behind);
            }
        }
    }

    /// Waiting has a share: beyond half of the partition's bound the head of the oldest is parked, and resumed when it is due.
    fn now_waiting(&mut self, id: WorkId, now: Now) {
        self.mark_waiting(id);
        let Some(Source::Slot(assignment)) = self.works.get(&id).map(|work| work.source.clone()) else { return };
        self.make_room(assignment, now);
    }

    /// Parks heads until the waiting ones hold no more than their share.
    pub(super) fn make_room(&mut self, assignment: Assignment, now: Now) {
        let share = self.limits.partition_records_max / 2;
        while let Some(head) = self.partitions.get(&assignment.partition).filter(|p| p.waiting.len() > share).and_then(|p| {
            let oldest = p.waiting.first()?;
            p.head(self.works.get(oldest)?.lane)
        }) {
            let Some(key) = self.works.get(&head).and_then(Work::key) else { return };
            let Some(known) = self.keys.get(&key).map(|entry| entry.known.clone()) else { return };
            self.park(head, ParkReason::Retry, Some(&known), "made room for others".into(), now);
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

/// Attempts of this slot since the last verdict that began a new budget.
pub(super) fn budget(known: &Known, slot: &Slot) -> u32 {
    known.receipt.budget_used(slot)
}

fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(crate::protocol::time::millis(duration)).unwrap_or(i64::MAX)
}

/// The state's place among those that may run from a parked record.
pub(super) fn may_resume(known: &Known) -> bool {
    matches!(known.receipt.state(), State::Retryable | State::New)
}
