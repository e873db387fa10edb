//! Owns an attempt from its permit to its fact: extraction, admission, start, outcome, deadline, late answer.

use super::{
    Action, AttemptKey, Bound, DeadLetterReason, Machine, Tally, WorkId,
    futures::Life,
    partition::Gate,
    permits::{Asker, Origin, Pace, Who},
    types::{Replay, Replies, StartKind, Then, Timer, doubt_reason},
    work::{Phase, Source, Work},
};
use crate::protocol::{
    doubt::{self, Future, Step},
    known::{Entry, Known, Revision, fact_label},
    note::{Admission, Doubt, DoubtReason, Fact, REASON_BYTES_MAX, cut},
    outcome::Outcome,
    policy::FreshKey,
    receipt::{Receipt, State},
    time::Now,
};
use std::sync::Arc;

impl Machine {
    /// Queues work for a permit.
    pub(super) fn ask_permit(&mut self, id: WorkId, kind: StartKind) {
        self.make_active(id);
        self.set_phase(id, Phase::Permit);
        let Some(work) = self.works.get_mut(&id) else { return };
        let known = work.key().and_then(|key| self.keys.get(&key));
        work.seen = known.map_or_else(Revision::default, |entry| entry.known.revision());
        work.kind = kind;
        if kind != StartKind::Rerun {
            work.rerun = None;
        }
        let pace = if work.key().is_some_and(|key| self.careful.contains(&key)) { Pace::One } else { Pace::Any };
        if let Some(asker) = self.asker(id) {
            self.permits.ask(asker, pace, id);
        }
    }

    fn asker(&self, id: WorkId) -> Option<Asker> {
        let work = self.works.get(&id)?;
        let subject = work.subject.as_ref()?;
        let origin = match (&work.source, work.kind) {
            (Source::Slot(_), StartKind::Rerun) => Origin::SlotAgain,
            (Source::Slot(_), _) => Origin::Slot,
            (Source::Parked(_), StartKind::Rerun) => Origin::ParkedAgain,
            (Source::Parked(_), _) => Origin::Parked,
        };
        Some((subject.route, subject.name.shared_tenant(), origin))
    }

    /// Gives permits out. What was decided on a state that has changed since is decided afresh first.
    pub(super) fn grant_permits(&mut self, now: Now, actions: &mut Vec<Action>) {
        let who = match self.store_full {
            None => Who::Anybody,
            // Only what is parked makes room.
            Some(Bound::ParkedBytes) => Who::Parked,
            Some(Bound::Space) => return,
        };
        while let Some(id) = self.permits.grant(who, now.monotonic) {
            let queued = self.works.get(&id).and_then(|work| Some((work, work.subject.clone()?)));
            let granted = queued.and_then(|(work, subject)| Some((work, self.keys.get(&subject.key)?.known.clone(), subject)));
            assert!(granted.is_some(), "a permit was granted to work that has left");
            let Some((work, known, subject)) = granted else { return };
            if known.revision() != work.seen {
                self.permits.release(&subject.name.shared_tenant());
                self.permits.not_alone(id);
                self.decide_afresh(id);
                self.settle_ready(now, actions);
                continue;
            }
            let attempt = self.futures.next_attempt(subject.key, &known.receipt, self.claim);
            let fresh = self.routes[subject.route].policy.fresh_key_after_no_effect;
            let key_generation = generation(&known.receipt, fresh);
            let (payload, kind) = (work.payload.clone(), work.kind);
            self.set_phase(id, Phase::Extracting(attempt));
            actions.push(Action::Extract { work: id, attempt, key_generation, kind, payload, subject });
        }
    }

    pub(super) fn extracted(&mut self, id: WorkId, result: Result<(), String>, now: Now, actions: &mut Vec<Action>) {
        let Some(work) = self.works.get(&id) else { return actions.push(Action::Forget { work: id }) };
        let Phase::Extracting(attempt) = work.phase else { return };
        let (rerun, slot, seen) = (work.rerun, work.slot.clone(), work.seen);
        let Some(subject) = work.subject.clone() else { return };
        let Some(known) = self.keys.get(&subject.key).map(|entry| entry.known.clone()) else { return };
        if let Err(reason) = result {
            self.release(id);
            self.permits.not_alone(id);
            return self.dead_letter(id, DeadLetterReason::Undecodable, reason, actions);
        }
        let policy = &self.routes[subject.route].policy;
        let admission = Box::new(Admission {
            fingerprint: subject.fingerprint,
            budget_used: known.receipt.budget_used(&slot) + 1,
            slot,
            at: now.wall,
            time_limit: policy.time_limit,
            memory: policy.contract.memory(),
            key_generation: generation(&known.receipt, policy.fresh_key_after_no_effect),
            correlation: subject.correlation.clone(),
        });
        let name = Some(subject.name.clone());
        let entry = Entry::Admit { key: subject.key, name, seen, attempt, admission, within: rerun };
        self.futures.admitting((subject.key, attempt));
        self.append(entry, Then::Admitted(id, (subject.key, attempt)));
        self.set_phase(id, Phase::Admitting(attempt));
    }

    /// The admission is durable: start, unless the partition was taken away meanwhile, or the destination's memory has ended while this
    /// process stood still; then it is said that nothing started.
    pub(super) fn admitted(&mut self, id: WorkId, attempt: AttemptKey, now: Now, actions: &mut Vec<Action>) {
        let (work, number) = (self.works.get(&id), attempt.1);
        let remembers = |work: &Work| work.rerun.is_none_or(|(from, until)| (from..until).contains(&now.wall));
        let may_start = work.is_some_and(|work| work.phase == Phase::Admitting(number) && self.may_start(&work.source) && remembers(work));
        let Some((work, subject)) = work.filter(|_| may_start).and_then(|work| Some((work, work.subject.clone()?))) else {
            actions.push(Action::Forget { work: id });
            self.release(id);
            self.append(Entry::Fact { key: attempt.0, attempt: number, fact: Fact::NotStarted }, Then::Recorded(id, attempt));
            self.tally(Tally::Finished("not_started"));
            return self.set_phase(id, Phase::Recording(number));
        };
        let (kind, slot) = (work.kind, work.slot.clone());
        let policy = &self.routes[subject.route].policy;
        let due = (now.monotonic.after(policy.time_limit), Timer::Deadline(attempt));
        let (tenant, dropped) = (subject.name.shared_tenant(), now.monotonic.after(policy.detached_max));
        self.timers.insert(due.clone());
        let life = Life { state: Future::Alive, tenant, route: subject.route, work: Some(id), deposed: false, due, dropped };
        self.futures.started(attempt, life);
        self.tally(Tally::Started(kind));
        self.set_phase(id, Phase::Running(number));
        if let Some(work) = self.works.get_mut(&id) {
            work.since = now.monotonic;
        }
        actions.push(Action::Start { work: id, attempt, slot });
    }

    fn may_start(&self, source: &Source) -> bool {
        match source {
            Source::Slot(assignment) => {
                self.partitions.get(&assignment.partition).is_some_and(|p| p.assignment == *assignment && p.gate == Gate::Open)
            }
            Source::Parked(_) => !self.is_stopping(),
        }
    }

    /// The state has changed under the admission: nothing happened. Decide afresh.
    pub(super) fn not_admitted(&mut self, id: WorkId, attempt: &AttemptKey, actions: &mut Vec<Action>) {
        self.futures.not_admitted(attempt);
        actions.push(Action::Forget { work: id });
        self.release(id);
        self.permits.not_alone(id);
        self.decide_afresh(id);
    }

    /// Gives the permit of work that was granted one back, before anything ran.
    pub(super) fn release(&mut self, id: WorkId) {
        let granted = self.works.get(&id).is_some_and(|work| matches!(work.phase, Phase::Extracting(_) | Phase::Admitting(_)));
        if granted && let Some((_, tenant, _)) = self.asker(id) {
            self.permits.release(&tenant);
        }
    }

    pub(super) fn finished(&mut self, attempt: AttemptKey, outcome: &Outcome, now: Now) {
        let Some(life) = self.futures.get_mut(&attempt) else { return };
        let (work, tenant, route) = (life.work.take(), life.tenant.clone(), life.route);
        let relation = if life.deposed { "deposed" } else { "after_timeout" };
        self.timers.remove(&life.due);
        let fact = outcome.fact();
        life.state = if fact.is_some() { Future::FactPending } else { Future::EndedAt(now.monotonic) };
        if let Some(fact) = &fact {
            let then = work.map_or(Then::Late(attempt), |id| Then::Recorded(id, attempt));
            self.append(Entry::Fact { key: attempt.0, attempt: attempt.1, fact: fact.clone() }, then);
        } else {
            self.permits.release(&tenant);
        }
        match (work, &fact) {
            (Some(id), Some(fact)) => {
                self.tally(Tally::Finished(fact_label(fact)));
                self.set_phase(id, Phase::Recording(attempt.1));
                if matches!(fact, Fact::Applied(_)) && self.routes[route].replies == Replies::None {
                    self.pass_lane_on(id);
                }
            }
            (Some(id), None) => {
                let (reason, detail) = doubt_reason(outcome);
                self.tally(Tally::Finished(reason.label()));
                self.now_in_doubt(Some(id), attempt, reason, detail, now);
            }
            (None, _) => {
                self.tally(Tally::Late(relation, outcome.label()));
                self.no_longer_deposed(attempt);
                if fact.is_none() && relation == "deposed" {
                    let (reason, detail) = doubt_reason(outcome);
                    self.now_in_doubt(None, attempt, reason, detail, now);
                }
                let quiet = self.routes[route].policy.contract.quiet();
                self.attend_at(attempt.0, now.monotonic.after(quiet), route);
            }
        }
    }

    /// The effect is there, whatever becomes of its fact: the next of the lane may be admitted, and its admission shares the fact's sync.
    fn pass_lane_on(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else { return };
        let (Source::Slot(assignment), lane) = (work.source.clone(), work.lane) else { return };
        let partition = self.partitions.get_mut(&assignment.partition).filter(|p| p.assignment == assignment);
        if let Some(next) = partition.and_then(|partition| partition.leave_lane(lane, id)) {
            self.ready.push_back(next);
        }
    }

    /// The time limit has passed: the attempt is unknown from here on, and its future goes on detached.
    pub(super) fn deadline(&mut self, attempt: AttemptKey, now: Now) {
        let Some(life) = self.futures.get_mut(&attempt) else { return };
        if life.state != Future::Alive {
            return;
        }
        let work = life.work.take();
        life.due = (life.dropped, Timer::Detached(attempt));
        self.timers.insert(life.due.clone());
        if work.is_some() {
            self.tally(Tally::Finished(DoubtReason::Timeout.label()));
        }
        self.no_longer_deposed(attempt);
        self.now_in_doubt(work, attempt, DoubtReason::Timeout, "no answer within the time limit", now);
    }

    /// Notes the doubt, and lets the route's contract decide about the record.
    fn now_in_doubt(&mut self, work: Option<WorkId>, attempt: AttemptKey, reason: DoubtReason, detail: &str, now: Now) {
        let (key, number) = attempt;
        let doubt = Doubt { reason, detail: cut(detail, REASON_BYTES_MAX).into(), at: now.wall };
        self.append(Entry::Doubt { key, attempt: number, doubt: doubt.clone() }, Then::Nothing);
        let Some(id) = work else { return };
        let Some(known) = self.keys.get(&key).map(|entry| entry.known.clone()) else { return };
        self.permits.not_alone(id);
        let mut after: Known = (*known).clone();
        after.receipt.doubt(number, doubt);
        let slot = self.slot_of(id);
        let Some(policy) = self.policy_of(id) else { return };
        let step = doubt::step(policy, &after.receipt, now.wall, after.receipt.budget_used(&slot));
        match step {
            Step::Rerun { .. } => {
                let after = Arc::new(after);
                if let Some(entry) = self.keys.get_mut(&key) {
                    entry.known = after.clone();
                }
                self.in_doubt(id, &after, now);
            }
            step => self.set_aside(id, &step, &after, format!("attempt {}: {}", number.number, reason.label()), now),
        }
    }

    pub(super) fn recorded(&mut self, id: WorkId, attempt: AttemptKey, now: Now, actions: &mut Vec<Action>) {
        if let Some(life) = self.futures.decided(&attempt) {
            self.permits.release(&life.tenant);
        }
        self.permits.not_alone(id);
        self.careful.remove(&attempt.0);
        let Some(known) = self.keys.get(&attempt.0).map(|entry| entry.known.clone()) else { return };
        if !self.works.contains_key(&id) {
            return self.attend_at(attempt.0, now.monotonic, usize::MAX);
        }
        match known.receipt.state() {
            State::Applied(_) | State::Rejected(_) => self.settled(id, &known, Replay::Original, actions),
            State::InDoubt(_) | State::Retryable | State::New => self.decide_afresh(id),
        }
    }

    pub(super) fn late_recorded(&mut self, attempt: AttemptKey, now: Now) {
        if let Some(life) = self.futures.decided(&attempt) {
            self.permits.release(&life.tenant);
            self.attend_at(attempt.0, now.monotonic, life.route);
        }
    }

    /// Work whose future is detached leaves; nothing of the future's is lost.
    pub(super) fn detach(&mut self, id: WorkId, work: &Work) {
        let (Phase::Running(number), Some(key)) = (&work.phase, work.key()) else { return };
        // One that has ended, or passed its deadline, is nobody's any more: nothing waits behind it.
        let Some(life) = self.futures.get_mut(&(key, *number)).filter(|life| life.work.is_some()) else {
            return self.permits.not_alone(id);
        };
        life.work = None;
        life.deposed = true;
        if let Some(entry) = self.keys.get_mut(&key) {
            entry.deposed.insert(*number);
        }
        self.permits.not_alone(id);
    }

    /// Wakes those who waited behind an attempt of a partition that was taken away.
    fn no_longer_deposed(&mut self, attempt: AttemptKey) {
        let Some(entry) = self.keys.get_mut(&attempt.0) else { return };
        if entry.deposed.remove(&attempt.1) && entry.deposed.is_empty() {
            self.wake(attempt.0);
            self.forget_key(attempt.0);
        }
    }
}

/// The generation of the provider key for the next attempt: raised only while every earlier attempt certainly had no effect.
fn generation(receipt: &Receipt, fresh: FreshKey) -> u32 {
    receipt.next_key_generation(fresh)
}
