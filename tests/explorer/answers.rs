//! Who says what became of an attempt in doubt: lookups and people.

use crate::{
    driver::{ALL, ANY, lowest},
    model::{Model, Nexts, Step},
    notes::{Aside, By, Note, Ruled, Set, Stand, View, attempt_ids, bit, effect_of, finding, members, set_of},
    state::{Batch, Life, Look, NOW, Owner, Rule, State},
};
use receipted::protocol::{
    doubt::{Future, Vouched, may_rule, provable},
    lookup,
    note::{AttemptId, Ruling},
    time::Monotonic,
};
use std::time::Duration;

/// How a person comes to a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    Honest,
    /// The opposite of what is there.
    Wrong,
    /// Without waiting, and without knowing.
    Vouching,
    FreshKey,
    /// Nobody: only time has passed.
    Timer,
}

fn ago(ticks: u8) -> Monotonic {
    Monotonic(NOW.0 - u64::from(ticks))
}

impl Model {
    /// What the process knows of an attempt's future.
    fn future(&self, state: &State, attempt: u8) -> Future {
        let own = state.attempt(attempt);
        // One that was admitted and never started is an earlier process's too.
        let old = own.old || own.life == Life::Unborn;
        match own.life {
            _ if old && self.lacks(Rule::QuietRestarts) => Future::EndedAt(Monotonic(0)),
            _ if old => Future::EndedAt(ago(state.process.as_ref().map_or(0, |process| process.age))),
            Life::Unborn | Life::Ended => Future::EndedAt(ago(own.age)),
            Life::Alive => Future::Alive,
            Life::Pending => Future::FactPending,
        }
    }

    fn quiet(&self) -> Duration {
        self.config.policy.contract.quiet()
    }

    /// Attempts that are owed a second look.
    fn owed(&self, state: &State, view: &View) -> Set {
        let remembers = state.process.as_ref().is_some_and(|process| process.owes);
        let owes = remembers || !self.lacks(Rule::SecondLookSurvivesCrash);
        if owes && !self.lacks(Rule::SecondLook) { view.unconfirmed } else { 0 }
    }

    pub(crate) fn lookups(&self, state: &State, out: &mut Nexts) {
        let Some(process) = state.process.as_ref().filter(|_| self.config.asks() && state.deployed) else { return };
        let view = self.view(state.known);
        let Some(look) = process.look else {
            let notes = if self.lacks(Rule::LookThroughOperations) { !view.open.is_empty() } else { view.noted != 0 };
            let wanted = view.undecided | self.owed(state, &view);
            let writing = process.is_full() || process.queues(|note| matches!(note, Note::Rule { by: By::Lookup, .. }));
            if notes && wanted != 0 && !writing {
                let mut next = state.clone();
                let late = self.proved(state, view.undecided, NOW) == view.undecided;
                next.process_mut().look = Some(Look { age: 0, shown: state.effects(), late });
                self.push(Step::LookStarts, next, out);
            }
            return;
        };
        let mut next = state.clone();
        next.process_mut().look = None;
        let notes = self.finding(state, &view, look);
        self.push(Step::LookFails, next.clone(), out);
        if !notes.is_empty() {
            next.process_mut().queue.push(Batch { notes, owner: Owner::Nobody });
            self.push(Step::LookAnswers, next, out);
        }
    }

    /// The verdicts that a lookup's answer is good for.
    fn finding(&self, state: &State, view: &View, look: Look) -> Vec<Note> {
        let started = if self.lacks(Rule::ProofByStart) { NOW } else { ago(look.age) };
        let future = |attempt: AttemptId| self.futures(state, attempt);
        let ruled = if self.lacks(Rule::LookLooksLate) { 0 } else { NOW.0 };
        let ruled = Monotonic(ruled.min(ago(state.process.as_ref().map_or(0, |process| process.ruled)).0));
        let quiet = if self.lacks(Rule::QuietBeforeProof) { Duration::ZERO } else { self.quiet() };
        let generation = 0;
        let ledger = self.ledger.borrow();
        let look =
            lookup::Look { started, future, quiet, ruled, generation }.verdicts(&ledger.known(state.known).receipt, &finding(look.shown));
        let owed = self.owed(state, view);
        look.into_iter().filter_map(|(ruling, of)| self.verdict_of_lookup(view, owed, &ruling, set_of(&of))).collect()
    }

    fn verdict_of_lookup(&self, view: &View, owed: Set, ruling: &Ruling, mut of: Set) -> Option<Note> {
        let ruled = match ruling {
            Ruling::Applied(applied) => {
                if self.lacks(Rule::FoundCoversOnlyWhatItSaw) {
                    of = view.undecided;
                }
                Ruled::Applied(effect_of(applied))
            }
            _ if of & view.undecided == 0 && of & owed == 0 => return None,
            _ if of & view.undecided == 0 => Ruled::NotDoneAgain,
            _ if self.lacks(Rule::VerdictNamesAttempts) => {
                of = ALL;
                Ruled::NotDone
            }
            _ => Ruled::NotDone,
        };
        Some(Note::Rule { of, ruled, by: By::Lookup, fresh: false, seen: self.seen(view), at: 0 })
    }

    /// A future, as one takes it who counts its quiet period while it lives.
    fn futures(&self, state: &State, attempt: AttemptId) -> Future {
        match self.future(state, attempt.number as u8) {
            Future::Alive if self.lacks(Rule::QuietStartsAtTheEnd) => Future::EndedAt(ago(state.attempt(attempt.number as u8).age)),
            future => future,
        }
    }

    fn proved(&self, state: &State, of: Set, started: Monotonic) -> Set {
        set_of(&provable(&attempt_ids(of), |attempt| self.futures(state, attempt), self.quiet(), started))
    }

    fn covers(&self, state: &State, view: &View, effects: Set) -> Set {
        let future = |attempt: AttemptId| self.future(state, attempt.number as u8);
        let (denied, effects) = (view.denied.count_ones() as usize, effects.count_ones() as usize);
        set_of(&lookup::covered(&attempt_ids(view.undecided), denied, effects, future, self.quiet(), NOW))
    }

    fn seen(&self, view: &View) -> u8 {
        if self.lacks(Rule::VerdictSeesItsState) { ANY } else { view.revision }
    }

    fn may(&self, state: &State, ruled: Ruled, of: Set, vouched: &Vouched) -> bool {
        let ruling: Ruling = crate::notes::ruling(ruled);
        let future = |attempt: AttemptId| match self.future(state, attempt.number as u8) {
            Future::Alive if self.lacks(Rule::VerdictWaitsForFuture) => Future::EndedAt(Monotonic(0)),
            Future::FactPending if self.lacks(Rule::VerdictWaitsForFact) => Future::EndedAt(Monotonic(0)),
            future => future,
        };
        let quiet = if self.lacks(Rule::VerdictWaitsForQuiet) { Duration::ZERO } else { self.quiet() };
        may_rule(&ruling, &attempt_ids(of), future, quiet, vouched, NOW).is_ok()
    }

    /// One verdict of a person, where the rules allow it.
    fn verdict(&self, state: &State, voice: Voice, ruled: Ruled, of: Set, out: &mut Nexts) {
        let view = self.view(state.known);
        let fits = self.ledger.borrow().fits(state.known, ruled, of, By::Person);
        let vouched = if voice == Voice::Vouching { Vouched::CannotLand } else { Vouched::No };
        if !fits || !self.may(state, ruled, of, &vouched) {
            return;
        }
        let mut next = state.clone();
        match voice {
            Voice::Wrong => {
                next.left.wrong -= 1;
                next.lied = true;
            }
            Voice::Vouching => {
                next.left.vouching -= 1;
                next.lied |= members(of).any(|attempt| state.attempt(attempt).possible());
            }
            Voice::Honest | Voice::FreshKey | Voice::Timer => {}
        }
        next.left.reopen -= u8::from(ruled == Ruled::Reopened);
        next.said_rejected |= ruled == Ruled::Rejected;
        let negative = matches!(ruled, Ruled::NotDone | Ruled::Rejected);
        let of = if self.lacks(Rule::VerdictNamesAttempts) && negative { ALL } else { of };
        let fresh = voice == Voice::FreshKey;
        let notes = vec![Note::Rule { of, ruled, by: By::Person, fresh, seen: self.seen(&view), at: 0 }];
        next.process_mut().queue.push(Batch { notes, owner: Owner::Nobody });
        self.push(Step::Person(voice, ruled, of), next, out);
    }

    pub(crate) fn people(&self, state: &State, out: &mut Nexts) {
        let (people, left) = (self.config.people, state.left);
        let by_person = |note: &Note| matches!(note, Note::Rule { by: By::Person, .. } | Note::End { seen: Some(_), .. });
        if state.process.as_ref().is_none_or(|process| process.is_full() || process.queues(by_person)) {
            return;
        }
        let view = self.view(state.known);
        let (effects, undecided) = (state.effects(), view.undecided);
        let new = effects & !view.effects;
        // Park first: where the destination can be asked, nobody denies what is not parked, for it could not be asked about again.
        let deniable = if view.noted != 0 || !self.config.asks() { undecided } else { 0 };
        let mut say = |voice, ruled, of| self.verdict(state, voice, ruled, of, out);
        if people.honest && new != 0 {
            // A verdict has one reference: of several effects each is said by itself.
            let of = if new.count_ones() > 1 { 0 } else { self.covers(state, &view, new) };
            say(Voice::Honest, Ruled::Applied(lowest(new)), of);
        }
        let quiet = self.proved(state, undecided, NOW) == undecided;
        if people.honest && new == 0 && effects != 0 && quiet {
            say(Voice::Honest, Ruled::Applied(lowest(effects)), undecided);
        }
        if people.honest && effects == 0 {
            say(Voice::Honest, Ruled::NotDone, deniable);
            if people.reject {
                say(Voice::Honest, Ruled::Rejected, deniable);
            }
            if people.fresh_key && undecided.count_ones() > 1 {
                say(Voice::FreshKey, Ruled::NotDone, bit(lowest(undecided)));
            }
        }
        if left.wrong > 0 && new != 0 {
            say(Voice::Wrong, Ruled::NotDone, deniable);
            say(Voice::Wrong, Ruled::Rejected, deniable);
        }
        if left.wrong > 0 && effects == 0 && deniable != 0 {
            say(Voice::Wrong, Ruled::Applied(7), deniable);
        }
        if left.vouching > 0 && new == 0 {
            say(Voice::Vouching, Ruled::NotDone, deniable);
        }
        if left.reopen > 0 {
            say(Voice::Honest, Ruled::Reopened, view.rejected);
        }
        if self.lacks(Rule::NoVerdictByTimer) && quiet {
            say(Voice::Timer, Ruled::NotDone, undecided);
        }
        if !view.open.is_empty() {
            self.set_aside(state, &view, out);
        }
    }

    /// Discards and dead letters of parked records.
    fn set_aside(&self, state: &State, view: &View, out: &mut Nexts) {
        let id = view.open[0].0;
        let doubtful = view.stand == Stand::InDoubt;
        let discard = self.config.people.discard && (!doubtful || self.lacks(Rule::DiscardNotInDoubt));
        let seen = if self.lacks(Rule::DiscardSeesItsState) { ANY } else { view.revision };
        let mut end = |closing| {
            let mut next = state.clone();
            let notes = vec![Note::End { id, closing, seen: Some(seen) }];
            next.process_mut().queue.push(Batch { notes, owner: Owner::Nobody });
            self.push(Step::SetAside(closing), next, out);
        };
        if discard {
            end(Aside::Discarded);
        }
        let runs = members(view.undecided).any(|attempt| !matches!(self.future(state, attempt), Future::EndedAt(_)));
        if self.config.people.dead_letter && !runs {
            end(Aside::DeadLettered);
        }
    }

    /// Whether the destination will be asked once more.
    pub(crate) fn still_asks(&self, state: &State) -> bool {
        let view = self.view(state.known);
        self.config.asks() && self.owed(state, &view) != 0 && view.noted != 0
    }
}
