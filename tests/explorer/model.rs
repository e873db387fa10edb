//! The search's transition relation, and what must hold in every state (DESIGN 2).

use crate::{
    answers::Voice,
    notes::{Aside, Ledger, Ruled, Set, Stand, View, bit, members},
    state::{Attempt, Config, Destination, Life, Owner, Request, Rule, State},
};
use std::{cell::RefCell, rc::Rc};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Write(Owner),
    Admit(u8, u8),
    Sync,
    Lands(u8),
    NeverSends(u8),
    Answers(u8),
    NoEffect(u8),
    Rejects(u8),
    EndsUnknown(u8),
    TimesOut(u8),
    LookStarts,
    LookAnswers,
    LookFails,
    Person(Voice, Ruled, Set),
    SetAside(Aside),
    EndNotes,
    Tick,
    ClockBack,
    Crash { landed: bool, commit: u8 },
    ProcessStarts,
    Rewind,
    Cut,
}

/// The guarantee that is broken, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Violation(pub &'static str, pub &'static str);

pub(crate) type Nexts = Vec<(Step, State, Option<Violation>)>;

pub(crate) struct Model {
    pub config: Config,
    pub ledger: RefCell<Ledger>,
}

impl Model {
    pub(crate) fn new(config: Config) -> Self {
        Self { config, ledger: RefCell::new(Ledger::new()) }
    }

    pub(crate) fn lacks(&self, rule: Rule) -> bool {
        self.config.lacks(rule)
    }

    pub(crate) fn view(&self, known: u32) -> Rc<View> {
        self.ledger.borrow().view(known)
    }

    pub(crate) fn push(&self, step: Step, state: State, out: &mut Nexts) {
        self.push_found(step, state, None, out);
    }

    pub(crate) fn push_found(&self, step: Step, mut state: State, found: Option<Violation>, out: &mut Nexts) {
        self.pass(&mut state);
        self.forget_what_no_longer_matters(&mut state);
        let found = found.or_else(|| self.broken(&state));
        out.push((step, state, found));
    }

    /// Every way on from a state.
    pub(crate) fn nexts(&self, state: &State) -> Nexts {
        let mut out = Vec::new();
        if state.cut {
            return out;
        }
        if state.process.is_some() {
            for slot in 0..self.config.slots {
                self.consider(state, slot, &mut out);
            }
            self.resume(state, &mut out);
            self.sync(state, &mut out);
            self.lookups(state, &mut out);
            self.people(state, &mut out);
        }
        self.world(state, &mut out);
        out
    }

    /// Takes out what can make no difference any more, so that fewer states differ.
    fn forget_what_no_longer_matters(&self, state: &mut State) {
        let view = self.view(state.known);
        let flying = |attempt: &Attempt| attempt.request == Request::Flying;
        let look = state.process.as_ref().and_then(|process| process.look).map_or(0, |look| look.age);
        let cap = self.config.quiet() + look;
        for number in state.numbers() {
            let attempt = state.attempt_mut(number);
            let stated = view.stated & bit(number) != 0 || attempt.old;
            match attempt.life {
                Life::Ended if stated && !flying(attempt) => (attempt.age, attempt.old) = (0, true),
                Life::Ended if !flying(attempt) => attempt.age = attempt.age.min(cap),
                _ => {}
            }
        }
        let without_fact = view.admitted & !view.stated != 0;
        if let Some(process) = &mut state.process {
            process.age = if without_fact { process.age.min(cap) } else { 0 };
            process.ruled = if view.unconfirmed != 0 { process.ruled.min(cap) } else { 0 };
        }
    }

    /// G2, where a handler starts.
    pub(crate) fn may_start(&self, state: &State, owner: Owner, slot: u8, attempt: u8, rerun: bool) -> Option<Violation> {
        let view = self.view(state.known);
        let rewound = state.process.as_ref().is_some_and(|process| slot < process.known_complete);
        let closed = (state.dead_lettered | state.discarded) & bit(slot) != 0;
        if closed && !rewound && owner == Owner::Slot(slot) {
            return Some(Violation("C1", "a record runs that was dead-lettered or discarded"));
        }
        if state.attempt(attempt).life != Life::Unborn {
            return Some(Violation("G2", "an attempt starts twice"));
        }
        let mut others = state.numbers().filter(|n| *n != attempt && state.attempt(*n).life != Life::Unborn);
        let kept = !state.lied && self.config.destination == Destination::Keeps;
        if kept && !rerun && others.any(|n| state.attempt(n).possible()) {
            return Some(Violation("G2", "a handler starts while an earlier effect is possible"));
        }
        let doubtful = view.undecided & !bit(attempt) != 0;
        let admitted = view.admitted & bit(attempt) != 0 || self.lacks(Rule::StartAfterSync);
        match view.stand {
            Stand::Applied | Stand::Rejected => Some(Violation("G2", "a handler starts for a settled operation")),
            _ if doubtful && (!rerun || self.policy(state).contract.memory().is_none()) => {
                Some(Violation("G2", "a handler starts while an earlier attempt is in doubt"))
            }
            _ if !admitted => Some(Violation("G2", "a handler starts without a durable admission")),
            _ => None,
        }
    }

    fn complete(&self, state: &State, view: &View, slot: u8) -> bool {
        view.settled() || view.reopened || (view.noted | state.dead_lettered | state.discarded) & bit(slot) != 0
    }

    fn broken(&self, state: &State) -> Option<Violation> {
        let view = self.view(state.known);
        let known = state.process.as_ref().map_or(0, |process| process.complete_below(self.config.slots));
        let below = state.committed.max(state.watermark).unwrap_or(0).max(known);
        if (0..below).any(|slot| !self.complete(state, &view, slot)) {
            return Some(Violation("G1", "a slot below a committed offset is neither settled nor set aside"));
        }
        let all: Set = bit(self.config.slots) - 1;
        let start = if state.moved { state.committed } else { state.committed.max(state.watermark) }.unwrap_or(0);
        let again = match &state.process {
            Some(process) => process.complete_below(self.config.slots) < self.config.slots,
            None => members(all).any(|slot| slot >= start && (state.moved || (view.noted | state.discarded) & bit(slot) == 0)),
        };
        let kept = !view.open.is_empty() || again || state.dead_lettered != 0;
        let waits = view.stand == Stand::InDoubt || (view.stand == Stand::Retryable && !view.reopened && state.discarded == 0);
        if waits && !kept {
            return Some(Violation("R1", "an operation may have to run again, and its record is gone"));
        }
        let budgets = (0..self.config.slots).map(|slot| view.budget[usize::from(slot)]);
        if budgets.max().unwrap_or(0) > self.config.policy.attempts_max as u8 {
            return Some(Violation("B1", "a slot uses more attempts than its budget"));
        }
        self.false_state(state, &view).or_else(|| self.silent_duplicate(state, &view))
    }

    /// G5.
    fn false_state(&self, state: &State, view: &View) -> Option<Violation> {
        let (effects, honest) = (state.effects(), !state.lied && self.config.destination != Destination::LandsLate);
        match view.stand {
            Stand::Applied if honest && effects == 0 => Some(Violation("G5", "applied, and there is no effect")),
            Stand::Rejected if !state.said_rejected => Some(Violation("G5", "rejected, and nobody said so")),
            Stand::Rejected if honest && state.numbers().any(|n| state.attempt(n).possible()) => {
                Some(Violation("G5", "rejected, and an effect is there or may come"))
            }
            Stand::Rejected if state.lied && effects != 0 && self.config.asks() && !self.still_asks(state) => {
                Some(Violation("G5", "rejected by a wrong verdict, and nobody looks again"))
            }
            _ => None,
        }
    }

    /// G3.
    fn silent_duplicate(&self, state: &State, view: &View) -> Option<Violation> {
        let effects = state.effects();
        if effects.count_ones() < 2 {
            return None;
        }
        if !state.lied && self.config.destination == Destination::Keeps {
            return Some(Violation("one effect", "honest facts and verdicts, a destination that keeps its promise, and two effects"));
        }
        // Which effect is whose cannot be told from outside: each one beyond those that are counted needs an attempt that is still in
        // doubt, or that will speak for itself.
        let speaks = |n: &u8| {
            matches!(state.attempt(*n).life, Life::Alive | Life::Pending) && effects & !view.effects & !view.undecided & bit(*n) != 0
        };
        let listed = view.undecided.count_ones() as usize + state.numbers().filter(speaks).count();
        let silent = effects.count_ones() as usize > view.effects.count_ones() as usize + listed;
        let blind = state.lied && !self.config.asks();
        let silent = silent && !blind && !self.still_asks(state);
        silent.then_some(Violation("G3", "a duplicate effect that is neither counted nor listed"))
    }

    /// Whether nothing is left to do for anybody.
    pub(crate) fn finished(&self, state: &State) -> bool {
        let view = self.view(state.known);
        let all: Set = bit(self.config.slots) - 1;
        let set_aside = state.process.as_ref().is_some_and(|process| process.complete_below(self.config.slots) == self.config.slots);
        if !self.config.settles {
            return state.cut || set_aside;
        }
        // What lies beside an applied one and was never parked cannot be asked about: it stays listed.
        let unproved = view.stand == Stand::Applied && view.noted == 0 && self.config.asks();
        let answered = (view.undecided == 0 || unproved) && view.open.is_empty();
        let waiting_for_redrive = view.reopened && view.stand == Stand::Retryable;
        let closed = (state.dead_lettered | state.discarded) & all == all;
        let asked = !self.still_asks(state);
        state.cut || set_aside && answered && asked && (view.settled() || closed || waiting_for_redrive)
    }
}
