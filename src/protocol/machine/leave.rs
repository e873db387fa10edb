//! Owns how work ends: settled and answered, parked, dead-lettered, given back; and how a partition is let go.

use super::{
    Action, Bound, DeadLetterReason, Machine, Tally, WorkId,
    partition::Gate,
    types::{Leave, Replay, Replies, Then, Timer},
    work::{Assignment, Phase, Source, Work},
};
use crate::protocol::{
    key::KeyDigest,
    known::{Entry, Known},
    note::{REASON_BYTES_MAX, Slot, cut},
    park::{Closing, End, EndKind, Park, ParkId, ParkReason},
    receipt::State,
    time::{Monotonic, Now},
};
use std::sync::Arc;

impl Machine {
    /// The operation is settled: hand its answer on where the route wants that, then complete the slot.
    pub(super) fn settled(&mut self, id: WorkId, known: &Arc<Known>, replay: Replay, actions: &mut Vec<Action>) {
        let Some(work) = self.works.get_mut(&id) else { return };
        let Some(subject) = work.subject.clone() else { return };
        work.replay = replay;
        if self.routes[subject.route].replies == Replies::Hook {
            self.set_phase(id, Phase::Replying(1));
            return self.hand_on(id, known, actions);
        }
        self.answered(id);
    }

    /// The answer is handed on, or there is nobody to hand it to.
    fn answered(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else { return };
        let outcome = match (work.replay, work.key().and_then(|key| self.keys.get(&key))) {
            (Replay::Original, Some(entry)) if matches!(entry.known.receipt.state(), State::Rejected(_)) => "rejected",
            (Replay::Original, _) => "applied",
            (Replay::Repeat, _) => {
                let reason = work.repeat;
                self.tally(Tally::Suppressed(reason));
                "suppressed"
            }
        };
        self.complete(id, outcome);
    }

    pub(super) fn replied(&mut self, id: WorkId, result: Result<(), String>, now: Now) {
        let Some(Phase::Replying(tries)) = self.works.get(&id).map(|work| work.phase.clone()) else { return };
        match result {
            Ok(()) => self.answered(id),
            Err(_) if tries < self.limits.reply_attempts_max => {
                self.set_phase(id, Phase::Replying(tries + 1));
                self.timer(now.monotonic.after(self.limits.reply_back_off), Timer::Reply(id));
            }
            Err(_) if self.is_parked_work(id) => self.complete(id, "applied"),
            Err(reason) => self.park(id, ParkReason::Reply, None, format!("reply hook: {reason}"), now),
        }
    }

    pub(super) fn reply_again(&mut self, id: WorkId, actions: &mut Vec<Action>) {
        let replying = self.works.get(&id).filter(|work| matches!(work.phase, Phase::Replying(_)));
        let known = replying.and_then(Work::key).and_then(|key| self.keys.get(&key)).map(|entry| entry.known.clone());
        if let Some(known) = known {
            self.hand_on(id, &known, actions);
        }
    }

    fn hand_on(&self, id: WorkId, known: &Known, actions: &mut Vec<Action>) {
        let Some(work) = self.works.get(&id) else { return };
        let Some(subject) = work.subject.clone() else { return };
        let (receipt, replay, payload) = (Box::new(known.receipt.clone()), work.replay, work.payload.clone());
        actions.push(Action::Reply { work: id, receipt, subject, replay, payload });
    }

    /// Sets the record aside, whole. `seen` is the state that this rests on, for the reasons that follow the operation.
    pub(super) fn park(&mut self, id: WorkId, reason: ParkReason, seen: Option<&Known>, detail: String, now: Now) {
        if self.store_full.is_some() {
            return self.set_phase(id, Phase::Blocked);
        }
        let Some(work) = self.works.get(&id) else { return };
        let (bytes, limit) = (work.payload.bytes(), self.limits.park_record_bytes_max);
        if bytes > limit {
            let reason =
                format!("its record of {bytes} bytes must be parked ({}), and store.park_record_bytes_max is {limit}", reason.label());
            return self.halt(id, reason);
        }
        let number = work.notes.next_park();
        let park = Park {
            reason,
            key: work.key(),
            fingerprint: work.subject.as_ref().map(|subject| subject.fingerprint),
            attempt: seen.and_then(|known| known.receipt.undecided().last().copied()),
            record: work.record,
            bytes: work.payload.bytes(),
            detail: cut(&detail, REASON_BYTES_MAX).into(),
            at: now.wall,
        };
        let entry = Entry::Park {
            seen: seen.map(Known::revision),
            id: ParkId { slot: work.slot.clone(), number },
            park: Arc::new(park),
            payload: work.payload.clone(),
        };
        self.permits.withdraw(id);
        self.note(id, entry, Leave::Parked(reason));
    }

    /// Work that came from a parked record goes back to it: its note is still open.
    pub(super) fn back_to_park(&mut self, id: WorkId, now: Now) {
        let Some(subject) = self.works.get(&id).and_then(|work| work.subject.clone()) else { return };
        self.remove(id);
        self.attend_at(subject.key, now.monotonic.after(self.limits.look_up_back_off.0), subject.route);
    }

    pub(super) fn dead_letter(&mut self, id: WorkId, reason: DeadLetterReason, detail: String, actions: &mut Vec<Action>) {
        self.permits.withdraw(id);
        self.set_phase(id, Phase::Producing(reason));
        let Some(work) = self.works.get_mut(&id) else { return };
        work.detail = cut(&detail, REASON_BYTES_MAX).into();
        let (slot, payload, subject) = (work.slot.clone(), work.payload.clone(), work.subject.clone());
        let known = subject.as_ref().and_then(|subject| self.keys.get(&subject.key));
        let known = known.map(|entry| &entry.known).or(subject.as_ref().map(|subject| &subject.known));
        let receipt = Box::new(known.map(|known| known.receipt.clone()).unwrap_or_default());
        actions.push(Action::DeadLetter { work: id, slot, reason, detail, payload, subject, receipt });
    }

    pub(super) fn dead_lettered(&mut self, id: WorkId, result: Result<(), String>, now: Now) {
        let Some(work) = self.works.get(&id) else { return };
        let Phase::Producing(reason) = work.phase else { return };
        let (slot, record, key, detail) = (work.slot.clone(), work.record, work.key(), work.detail.clone());
        match (result, work.source.clone()) {
            (Ok(()), Source::Slot(_)) => {
                self.note(id, Entry::Close { slot, closing: Closing::DeadLettered, record }, Leave::DeadLettered);
            }
            (Ok(()), Source::Parked(park)) => {
                let reason = format!("{}: {detail}", reason.label());
                let end = End { kind: EndKind::DeadLettered, by: None, reason, at: now.wall };
                self.note(id, Entry::End { key, seen: None, park, end }, Leave::DeadLettered);
            }
            (Err(error), Source::Slot(_)) => {
                let detail = format!("{}: {detail}; dead-letter topic: {error}", reason.label());
                if let Some(work) = self.works.get_mut(&id) {
                    work.detail = cut(&detail, REASON_BYTES_MAX).into();
                }
                self.park(id, ParkReason::DeadLetterFailed, None, detail, now);
            }
            (Err(_), Source::Parked(_)) => {
                let route = self.works.get(&id).and_then(|work| work.subject.as_ref()).map_or(usize::MAX, |subject| subject.route);
                self.remove(id);
                if let Some(key) = key {
                    self.attend_at(key, now.monotonic.after(self.limits.look_up_back_off.1), route);
                }
            }
        }
    }

    /// Writes the note that ends this work.
    pub(super) fn note(&mut self, id: WorkId, entry: Entry, leave: Leave) {
        self.set_phase(id, Phase::Noting);
        self.append(entry, Then::Noted(id, leave));
    }

    pub(super) fn noted(&mut self, id: WorkId, leave: Leave, key: Option<KeyDigest>, now: Now) {
        if let (false, Leave::Parked(reason), Some(key)) = (self.works.contains_key(&id), leave, key)
            && reason.follows_operation()
        {
            // Its partition was taken away meanwhile; the note stands, and is looked after all the same.
            return self.attend_at(key, now.monotonic, usize::MAX);
        }
        let subject = self.works.get(&id).and_then(|work| work.subject.clone());
        match leave {
            Leave::Held => {
                self.tally(Tally::Suppressed("held"));
                self.complete(id, "suppressed");
            }
            Leave::DeadLettered => self.complete(id, "dead_lettered"),
            Leave::Parked(reason) => {
                self.complete(id, "parked");
                if let Some(subject) = subject.filter(|_| reason.follows_operation()) {
                    let wait = self.routes.get(subject.route).map(|route| route.policy.back_off.wait(1)).unwrap_or_default();
                    let due = if reason == ParkReason::Retry { now.monotonic.after(wait) } else { now.monotonic };
                    self.attend_at(subject.key, due, subject.route);
                }
            }
        }
    }

    /// The note does not stand: its operation is no longer as it was, or the slot was parked meanwhile. That happens when the note of
    /// an earlier assignment was still on its way; it holds the record as well as this one would have.
    pub(super) fn not_noted(&mut self, id: WorkId, known: &Known, now: Now) {
        let Some(work) = self.works.get(&id) else { return };
        let number = work.notes.next_park();
        let parked = known.parks.keys().any(|park| park.slot == work.slot && park.number >= number);
        // A note without an operation rests on its slot alone.
        let subject = work.subject.clone();
        if parked || subject.is_none() {
            if let Some(subject) = subject {
                self.attend_at(subject.key, now.monotonic, subject.route);
            }
            self.tally(Tally::Suppressed("held"));
            return self.complete(id, "suppressed");
        }
        self.decide_afresh(id);
    }

    /// The slot is complete, durably.
    pub(super) fn complete(&mut self, id: WorkId, outcome: &'static str) {
        let Some(work) = self.remove(id) else { return };
        let Source::Slot(assignment) = work.source else {
            // Another record may be parked for the operation; else nothing more is to be remembered of it.
            if let Some(subject) = &work.subject {
                self.attend_at(subject.key, Monotonic(0), subject.route);
            }
            return;
        };
        let route = work.subject.as_ref().map(|subject| subject.route);
        if let Some(partition) = self.partitions.get_mut(&assignment.partition).filter(|p| p.assignment == assignment) {
            partition.watermark.completed(work.slot.offset);
            self.tally(Tally::Outcome(assignment.partition, route, outcome));
        }
    }

    /// The slot is not complete and not handled here any more.
    pub(super) fn give_back(&mut self, id: WorkId) {
        let Some(work) = self.remove(id) else { return };
        if let Source::Slot(assignment) = work.source {
            let route = work.subject.as_ref().map(|subject| subject.route);
            self.tally(Tally::Outcome(assignment.partition, route, "returned"));
        }
    }

    /// Takes work out of everything that names it, and lets those behind it go on.
    pub(super) fn remove(&mut self, id: WorkId) -> Option<Work> {
        self.permits.withdraw(id);
        self.release(id);
        if let Some(work) = self.works.get(&id)
            && work.phase.waits()
        {
            self.set_phase(id, Phase::Lane);
        }
        let work = self.works.remove(&id)?;
        self.detach(id, &work);
        self.permits.not_alone(id);
        if let Source::Slot(assignment) = work.source
            && let Some(partition) = self.partitions.get_mut(&assignment.partition).filter(|p| p.assignment == assignment)
        {
            partition.works.remove(&id);
            partition.bytes = partition.bytes.saturating_sub(work.payload.bytes());
            partition.waiting.remove(&id);
            if let Some(next) = partition.leave_lane(work.lane, id) {
                self.ready.push_back(next);
            }
        }
        if let Some(subject) = &work.subject {
            if matches!(work.source, Source::Parked(_)) {
                self.aside.dropped(subject.route, subject.name.tenant());
            }
            self.leave_key(subject.key, id);
        }
        Some(work)
    }

    fn leave_key(&mut self, key: KeyDigest, id: WorkId) {
        let Some(entry) = self.keys.get_mut(&key) else { return };
        entry.carried = entry.carried.saturating_sub(1);
        entry.waiters.retain(|waiter| *waiter != id);
        if entry.active == Some(id) {
            entry.active = None;
        }
        // Also when the one that leaves was woken itself and had no attempt of its own.
        if !entry.is_busy() {
            self.wake(key);
        }
        self.forget_key(key);
    }

    /// Lets the oldest of those who wait for an operation decide afresh.
    pub(super) fn wake(&mut self, key: KeyDigest) {
        let Some(entry) = self.keys.get_mut(&key) else { return };
        if let Some(next) = entry.waiters.pop_front() {
            self.decide_afresh(next);
        }
    }

    pub(super) fn forget_key(&mut self, key: KeyDigest) {
        let unused = |entry: &super::KeyEntry| !entry.is_busy() && entry.carried == 0;
        if self.keys.get(&key).is_some_and(unused) {
            self.keys.remove(&key);
        }
    }

    /// Stops admissions of a partition; what runs may end until then.
    pub(super) fn revoke(&mut self, assignment: Assignment, until: Monotonic) {
        let Some(partition) = self.partitions.get_mut(&assignment.partition).filter(|p| p.assignment == assignment) else { return };
        if partition.gate == Gate::Closed {
            return;
        }
        partition.gate = Gate::Draining(until);
        let works: Vec<WorkId> = partition.works.iter().copied().collect();
        self.timer(until, Timer::Drain(assignment.partition));
        for id in works {
            let not_admitted = self
                .works
                .get(&id)
                .is_some_and(|work| matches!(work.phase, Phase::Lane | Phase::Key | Phase::BackOff(_) | Phase::Permit | Phase::Blocked));
            if not_admitted {
                self.give_back(id);
            }
        }
    }

    /// The drain budget is over: what still runs goes on detached, and its slot stays incomplete.
    pub(super) fn drain_over(&mut self, partition: usize, now: Monotonic) {
        let Some(partition) = self.partitions.get(&partition) else { return };
        if !matches!(partition.gate, Gate::Draining(until) if until <= now) {
            return;
        }
        let works: Vec<WorkId> = partition.works.iter().copied().collect();
        for id in works {
            self.give_back(id);
        }
    }

    /// Lets partitions go whose work is done and whose watermark is durable.
    pub(super) fn let_go(&mut self, actions: &mut Vec<Action>) {
        let draining = |gate: &Gate| matches!(gate, Gate::Draining(_));
        let drained: Vec<usize> =
            self.partitions.iter().filter(|(_, p)| draining(&p.gate) && p.is_drained()).map(|(index, _)| *index).collect();
        for index in drained {
            if self.mark(index) {
                continue;
            }
            if let Some(partition) = self.partitions.get_mut(&index) {
                partition.gate = Gate::Closed;
                actions.push(Action::Drained { assignment: partition.assignment });
            }
        }
    }

    pub(super) fn commit_tick(&mut self) {
        let open: Vec<usize> = self.partitions.iter().filter(|(_, p)| p.gate == Gate::Open).map(|(index, _)| *index).collect();
        for index in open {
            self.mark(index);
        }
    }

    /// Writes the watermark down if it has moved; true while it is on its way.
    fn mark(&mut self, index: usize) -> bool {
        let Some(partition) = self.partitions.get_mut(&index) else { return false };
        let offset = partition.watermark.offset();
        if partition.marking.is_some() || offset <= partition.marked {
            return partition.marking.is_some();
        }
        partition.marking = Some(offset);
        let (assignment, slot) = (partition.assignment, Slot { topic: partition.topic.clone(), partition: partition.number, offset });
        self.append(Entry::Watermark { slot }, Then::Marked(assignment, offset));
        true
    }

    /// The watermark is durable: only now may the offset be committed.
    pub(super) fn marked(&mut self, assignment: Assignment, offset: i64, actions: &mut Vec<Action>) {
        let Some(partition) = self.partitions.get_mut(&assignment.partition).filter(|p| p.assignment == assignment) else { return };
        partition.marking = None;
        partition.marked = offset;
        if matches!(partition.gate, Gate::Open | Gate::Draining(_)) {
            actions.push(Action::Commit { assignment, offset });
        }
    }

    pub(super) fn committed(&mut self, assignment: Assignment, slot: Slot) {
        if self.partitions.get(&assignment.partition).is_some_and(|p| p.assignment == assignment) {
            self.append(Entry::Committed { slot }, Then::Nothing);
        }
    }

    /// While the store is at a bound nothing new is admitted or parked; completions are still recorded.
    pub(super) fn store_full(&mut self, bound: Option<Bound>) {
        self.store_full = bound;
        if self.store_full.is_none() {
            self.works.names(|work| work.phase == Phase::Blocked).into_iter().for_each(|id| self.decide_afresh(id));
        }
    }

    /// Whether every partition is being let go: nothing starts from parked records either.
    pub(super) fn is_stopping(&self) -> bool {
        self.partitions.values().all(|partition| !matches!(partition.gate, Gate::Open | Gate::Halted))
    }
}
