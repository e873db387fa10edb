//! What happens to the process: time, requests and answers, crashes, starts, commits, and a group's offset that is moved back.

use crate::{
    model::{Model, Nexts, Step},
    notes::{SLOTS_MAX, Said},
    state::{Destination, Life, Phase, Process, Request, Rule, State},
};
use receipted::protocol::start::{Acquaintance, FirstStart, Lineage, Situation, Writer};

impl Model {
    pub(crate) fn world(&self, state: &State, out: &mut Nexts) {
        for attempt in state.numbers().filter(|n| state.attempt(*n).life != Life::Unborn) {
            self.requests(state, attempt, out);
            if state.process.is_some() && state.attempt(attempt).life == Life::Alive {
                self.future_ends(state, attempt, out);
            }
        }
        self.time_passes(state, out);
        self.crash(state, out);
        self.process_starts(state, out);
        self.group_moves(state, out);
        if state.process.as_ref().is_some_and(|process| process.to_end) {
            let mut next = state.clone();
            next.process_mut().to_end = false;
            next.known = self.ledger.borrow_mut().end_settled(state.known);
            self.push(Step::EndNotes, next, out);
        }
    }

    fn requests(&self, state: &State, attempt: u8, out: &mut Nexts) {
        let own = *state.attempt(attempt);
        let mut becomes = |request, step| {
            let mut next = state.clone();
            next.attempt_mut(attempt).request = request;
            self.push(step, next, out);
        };
        if self.config.hang && own.request == Request::Flying && own.life == Life::Alive {
            becomes(Request::None, Step::NeverSends(attempt));
        }
        if own.request == Request::Flying {
            let known_key = self.config.memory().is_some_and(|memory| own.keyed && state.since_first < memory);
            let same_key = |n: &u8| state.attempt(*n).keyed && state.attempt(*n).generation == own.generation;
            let first = state.numbers().filter(same_key).find(|n| state.attempt(*n).request == Request::Effect);
            match first.filter(|_| known_key) {
                Some(first) => {
                    becomes(Request::Deduplicated(first), Step::Lands(attempt));
                    if self.config.destination == Destination::Rebooks {
                        becomes(Request::Effect, Step::Lands(attempt));
                    }
                }
                None => becomes(Request::Effect, Step::Lands(attempt)),
            }
        }
    }

    fn future_ends(&self, state: &State, attempt: u8, out: &mut Nexts) {
        let own = *state.attempt(attempt);
        let dropped = own.age >= self.config.detached() && !self.lacks(Rule::DropAtDetachedMax);
        let mut says = |said, step, spend: fn(&mut State)| {
            let mut next = state.clone();
            spend(&mut next);
            if own.request == Request::Flying {
                next.attempt_mut(attempt).request = Request::None;
            }
            self.state_fact(&mut next, attempt, said);
            self.push(step, next, out);
        };
        match own.request {
            _ if self.config.hang => {}
            Request::Effect => says(Said::Applied(attempt), Step::Answers(attempt), |_| {}),
            Request::Deduplicated(first) => says(Said::Already(first), Step::Answers(attempt), |_| {}),
            Request::Flying if state.left.refusals > 0 => says(Said::NoEffect, Step::NoEffect(attempt), |next| next.left.refusals -= 1),
            _ => {}
        }
        if own.request == Request::Flying && state.left.rejections > 0 && !self.config.hang {
            says(Said::Rejected, Step::Rejects(attempt), |next| {
                next.left.rejections -= 1;
                next.said_rejected = true;
            });
        }
        if !self.config.hang || dropped {
            let mut next = state.clone();
            (next.attempt_mut(attempt).life, next.attempt_mut(attempt).age) = (Life::Ended, 0);
            Self::let_go(&mut next, attempt);
            self.push(Step::EndsUnknown(attempt), next, out);
        }
        let mut next = state.clone();
        Self::let_go(&mut next, attempt);
        if next != *state {
            self.push(Step::TimesOut(attempt), next, out);
        }
    }

    /// Time passes, and one request may be late.
    fn time_passes(&self, state: &State, out: &mut Nexts) {
        self.tick(state, out);
        let flying = |n: &u8| state.attempt(*n).life == Life::Ended && state.attempt(*n).request == Request::Flying;
        for attempt in state.numbers().filter(|n| state.left.late > 0 && flying(n)) {
            let mut late = state.clone();
            late.left.late -= 1;
            late.attempt_mut(attempt).late = true;
            self.tick(&late, out);
        }
    }

    /// Time passes, unless something has to happen before.
    fn tick(&self, state: &State, out: &mut Nexts) {
        let must = |n: u8| {
            let own = state.attempt(n);
            own.life == Life::Alive && own.age >= self.config.detached() && !self.lacks(Rule::DropAtDetachedMax)
        };
        // A lookup that started late enough to prove something is answered before time passes; an early one may take its time.
        let looking = state.process.as_ref().and_then(|process| process.look).is_some_and(|look| look.age > 0 || look.late);
        if state.numbers().any(must) || looking {
            return;
        }
        let mut next = state.clone();
        let cap = 2 * self.config.quiet();
        for attempt in &mut next.attempts {
            match attempt.life {
                Life::Alive => attempt.age = (attempt.age + 1).min(self.config.detached()),
                Life::Ended => {
                    attempt.age = (attempt.age + 1).min(cap);
                    let lands_within = if attempt.late { cap } else { self.config.quiet() };
                    if attempt.request == Request::Flying && attempt.age >= lands_within {
                        attempt.request = Request::None;
                    }
                }
                Life::Unborn | Life::Pending => {}
            }
        }
        if let Some(process) = &mut next.process {
            process.age = (process.age + 1).min(cap);
            process.ruled = (process.ruled + 1).min(cap);
            process.look.iter_mut().for_each(|look| look.age += 1);
        }
        if let Some(memory) = self.config.memory().filter(|_| self.view(state.known).admitted != 0) {
            next.since_first = (next.since_first + 1).min(memory);
        }
        if next != *state {
            self.push(Step::Tick, next, out);
        }
    }

    /// The process ends, by a kill or because an append failed: the first batch may have landed all the same, and what was complete
    /// may have been committed.
    fn crash(&self, state: &State, out: &mut Nexts) {
        let Some(process) = state.process.as_ref().filter(|_| state.left.crashes > 0) else { return };
        let committed = state.committed.unwrap_or(0);
        for commit in committed..=process.complete_below(self.config.slots).max(committed) {
            for landed in [false, true].into_iter().take(1 + process.queue.len().min(1)) {
                let mut next = state.clone();
                if commit > committed {
                    (next.committed, next.moved) = (Some(commit), false);
                    next.watermark = next.watermark.max(Some(commit));
                }
                self.crashed(&mut next, landed);
                self.push(Step::Crash { landed, commit }, next, out);
            }
        }
    }

    fn crashed(&self, next: &mut State, landed: bool) {
        next.left.crashes -= 1;
        if let Some(batch) = next.process.as_ref().and_then(|process| process.queue.first().cloned()).filter(|_| landed) {
            self.land(next, &batch);
        }
        next.process = None;
        for attempt in next.attempts.iter_mut().filter(|attempt| attempt.life != Life::Unborn) {
            if attempt.life != Life::Ended {
                (attempt.life, attempt.age) = (Life::Ended, 0);
            }
            attempt.old = true;
        }
        if self.lacks(Rule::DoubtSurvivesCrash) {
            next.known = self.ledger.borrow_mut().forget_undecided(next.known);
        }
    }

    fn process_starts(&self, state: &State, out: &mut Nexts) {
        if state.process.is_some() {
            return;
        }
        let writer = if state.moved { Writer::Nobody } else { Writer::ThisStore };
        let situation = Situation {
            committed: state.committed.map(|committed| (committed.into(), writer)),
            low: 0,
            high: self.config.slots.into(),
            watermark: state.watermark.map(i64::from),
            confirmed: None,
            adopted: None,
            topic_known: Acquaintance::New,
            first_start: FirstStart::Earliest,
            lineage: Lineage::Own,
        };
        let start = situation.decide().expect("the store's own offsets");
        let mut slots = [Phase::Done; SLOTS_MAX];
        slots[start.offset as usize..usize::from(self.config.slots)].fill(Phase::Lane);
        let known_complete = start.known_complete as u8;
        let mut next = state.clone();
        next.deployed = self.config.before.is_none() || state.left.crashes < self.config.crashes;
        next.process = Some(Process {
            age: 0,
            ruled: 0,
            slots,
            known_complete,
            resumed: None,
            look: None,
            owes: false,
            to_end: false,
            clock_back: false,
            queue: Vec::new(),
        });
        // With the wall clock set back to before the latest note. (While a process runs, its clock does not go back.)
        let mut back = next.clone();
        (back.behind, back.left.clock_back) = (state.left.clock_back, 0);
        back.process_mut().clock_back = true;
        if back.behind > 0 && back.wall() < self.view(state.known).latest {
            self.push(Step::ClockBack, back, out);
        }
        self.push(Step::ProcessStarts, next, out);
    }

    /// An operator moves the group's offset back to the beginning, while the process is down.
    fn group_moves(&self, state: &State, out: &mut Nexts) {
        if state.process.is_none() && state.left.rewinds > 0 && state.committed.is_some_and(|committed| committed > 0) {
            let mut next = state.clone();
            next.left.rewinds -= 1;
            (next.committed, next.moved) = (Some(0), true);
            self.push(Step::Rewind, next, out);
        }
    }
}
