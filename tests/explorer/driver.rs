//! The process: a tiny driver that performs what the production rules decide. Each rule can be left out here, and only here.

use crate::{
    model::{Model, Nexts, Step, Violation},
    notes::{Aside, By, Note, NoteId, Place, Ruled, Said, Set, Stand, View, bit, members, park_number},
    state::{Attempt, Batch, Life, Owner, Phase, Process, Request, Rule, State},
};
use receipted::protocol::{decision::Decision, doubt, known::Judgement, park::ParkReason, policy::Policy};

/// Stands for whatever revision the writer finds: a permission that does not say what it was decided on.
pub(crate) const ANY: u8 = u8::MAX;
/// Stands for whatever attempts the writer finds in doubt.
pub(crate) const ALL: Set = Set::MAX;

impl Model {
    /// What decisions are read from.
    pub(crate) fn read(&self, state: &State) -> u32 {
        let queue = state.process.iter().flat_map(|process| &process.queue).filter(|_| self.lacks(Rule::DecideOnSynced));
        queue.flat_map(|batch| &batch.notes).fold(state.known, |known, note| self.judge(state, known, *note).1)
    }

    pub(crate) fn policy<'a>(&'a self, state: &State) -> &'a Policy {
        match &self.config.before {
            Some(before) if !state.deployed => before,
            _ => &self.config.policy,
        }
    }

    fn at(&self, state: &State) -> u8 {
        // The first admission is at 0, and later times tell only that the clock went back.
        if self.config.clock_back > 0 { state.wall() } else { 0 }
    }

    fn decide(&self, state: &State, process: &Process, slot: u8) -> Decision {
        let closed = match (state.dead_lettered & bit(slot) != 0, state.discarded & bit(slot) != 0) {
            _ if self.lacks(Rule::ClosedStaysClosed) => None,
            (true, _) => Some(false),
            (_, discarded) => discarded.then_some(true),
        };
        let place = Place { slot, closed, rewound: slot < process.known_complete, running: process.runs() };
        let known = self.read(state);
        self.ledger.borrow_mut().decide(known, place)
    }

    /// Completes the slots that need no note: what only the process's memory changes is done at once.
    pub(crate) fn pass(&self, state: &mut State) {
        let Some(process) = &state.process else { return };
        let lanes = (0..self.config.slots).filter(|slot| process.slots[usize::from(*slot)] == Phase::Lane);
        let passed: Vec<u8> = lanes
            .filter(|slot| match self.decide(state, process, *slot) {
                Decision::Settled | Decision::StaysClosed(_) | Decision::HeldBySlot(_) => true,
                Decision::InDoubt if self.lacks(Rule::RejectedAfterInDoubt) => self.view(state.known).any_rejection,
                Decision::Halt | Decision::Conflict => unreachable!("one record a slot, one set of parameters"),
                _ => false,
            })
            .collect();
        for slot in passed {
            state.process_mut().slots[usize::from(slot)] = Phase::Done;
        }
    }

    /// A record at the head of its lane.
    pub(crate) fn consider(&self, state: &State, slot: u8, out: &mut Nexts) {
        let Some(process) = state.process.as_ref().filter(|p| p.slots[usize::from(slot)] == Phase::Lane) else { return };
        let (decision, view) = (self.decide(state, process, slot), self.view(self.read(state)));
        match &decision {
            Decision::Held(id) => {
                let seen = if self.lacks(Rule::HeldSeesItsNote) { ANY } else { view.revision };
                self.note(state, Owner::Slot(slot), vec![Note::Hold { on: park_number(id), slot, seen }], out);
            }
            Decision::InDoubt => self.in_doubt(state, Owner::Slot(slot), slot, &view, out),
            Decision::Retry if view.budget[usize::from(slot)] >= self.attempts_max(state) => {
                self.note(state, Owner::Slot(slot), vec![Note::Close { slot }], out);
            }
            Decision::Retry | Decision::Run => self.admit(state, Owner::Slot(slot), slot, None, out),
            _ => {}
        }
        let waits = matches!(decision, Decision::Wait | Decision::Retry);
        if self.config.room && waits {
            let park = Note::Park { id: (slot, view.next_note[usize::from(slot)]), reason: ParkReason::Retry, seen: Some(view.revision) };
            self.note(state, Owner::Slot(slot), vec![park], out);
        }
    }

    fn attempts_max(&self, state: &State) -> u8 {
        self.policy(state).attempts_max as u8
    }

    /// A parked record whose operation may run.
    pub(crate) fn resume(&self, state: &State, out: &mut Nexts) {
        let Some(process) = state.process.as_ref().filter(|p| p.resumed.is_none() && !p.runs()) else { return };
        debug_assert!(process.resumed.is_none());
        let view = self.view(self.read(state));
        let Some((id, _)) = view.open.first().copied() else { return };
        match view.stand {
            Stand::Retryable if self.lacks(Rule::ResumeWhenRetryable) && !view.any_not_done => {}
            Stand::Retryable if view.budget[usize::from(id.0)] >= self.attempts_max(state) => {
                self.note(state, Owner::Resumed, vec![Note::End { id, closing: Aside::DeadLettered, seen: None }], out);
            }
            Stand::Retryable | Stand::New => self.admit(state, Owner::Resumed, id.0, None, out),
            Stand::InDoubt if view.open.iter().any(|(_, reason)| *reason == ParkReason::Retry) => {
                self.in_doubt(state, Owner::Resumed, id.0, &view, out);
            }
            _ => {}
        }
    }

    /// The route's contract decides.
    fn in_doubt(&self, state: &State, owner: Owner, slot: u8, view: &View, out: &mut Nexts) {
        if self.lacks(Rule::NoBlindRerun) {
            return self.admit(state, owner, slot, None, out);
        }
        let mut policy = self.policy(state).clone();
        if self.lacks(Rule::MemoryHasMargin) {
            policy.margin = std::time::Duration::ZERO;
        }
        let used = if self.lacks(Rule::BudgetIsDurable) { 0 } else { view.budget[usize::from(slot)] };
        let clock_back = state.process.as_ref().is_some_and(|process| process.clock_back);
        let wall = if self.lacks(Rule::ClockBackIsOver) { state.wall().max(view.latest) } else { state.wall() };
        let known = self.read(state);
        let mut step = self.ledger.borrow().step(known, &policy, wall, used);
        if clock_back && !self.lacks(Rule::ClockBackIsOver) {
            step = doubt::Step::Park;
        }
        if self.lacks(Rule::MemoryIsStored) && policy.contract.memory().is_some() {
            step = doubt::Step::Rerun { from: receipted::protocol::time::UnixMillis(0), until: receipted::protocol::time::UnixMillis(2) };
        }
        match step {
            doubt::Step::Rerun { from, until } => {
                let from = if self.lacks(Rule::ClockBackIsOver) { 0 } else { from.0 as u8 };
                let within = (!self.lacks(Rule::MemoryIsCheckedAtWrite)).then_some((from, until.0 as u8));
                self.admit(state, owner, slot, Some(within), out);
            }
            doubt::Step::Park | doubt::Step::Exhausted if owner == Owner::Resumed => {}
            doubt::Step::Park | doubt::Step::Exhausted if self.lacks(Rule::ParkFirst) => {}
            step => {
                let reason = if step == doubt::Step::Exhausted { ParkReason::Poison } else { ParkReason::Unresolved };
                let mut notes = self.doubts(state, view);
                let seen = (!self.lacks(Rule::ParkSeesItsState)).then_some(view.revision + notes.len() as u8);
                notes.push(Note::Park { id: (slot, view.next_note[usize::from(slot)]), reason, seen });
                self.note(state, owner, notes, out);
            }
        }
    }

    fn doubts(&self, state: &State, view: &View) -> Vec<Note> {
        let at = self.at(state);
        members(view.undecided & !view.doubted).map(|attempt| Note::Doubt { attempt, at }).collect()
    }

    fn note(&self, state: &State, owner: Owner, notes: Vec<Note>, out: &mut Nexts) {
        if state.process.as_ref().is_some_and(Process::is_full) {
            return;
        }
        let mut next = state.clone();
        let process = next.process_mut();
        match owner {
            Owner::Slot(slot) => process.slots[usize::from(slot)] = Phase::Noting,
            Owner::Resumed => {
                process.resumed = notes.iter().find_map(|n| if let Note::End { id, .. } = n { Some((*id, Phase::Noting)) } else { None })
            }
            Owner::Late(_) | Owner::Nobody => {}
        }
        process.queue.push(Batch { notes, owner });
        self.push(Step::Write(owner), next, out);
    }

    /// Extracts the arguments and admits the next attempt. `rerun` holds the bounds for one beside an attempt in doubt.
    fn admit(&self, state: &State, owner: Owner, slot: u8, rerun: Option<Option<(u8, u8)>>, out: &mut Nexts) {
        let view = self.view(self.read(state));
        let (attempt, mut next) = (view.next, state.clone());
        let parked = view.open.first().map(|(id, _)| *id).filter(|_| owner == Owner::Resumed);
        if state.process.as_ref().is_some_and(Process::is_full) {
            return;
        }
        if attempt > self.config.attempts {
            next.cut = true;
            return self.push(Step::Cut, next, out);
        }
        let mut notes = if rerun.is_some() { self.doubts(state, &view) } else { Vec::new() };
        let generation = if self.lacks(Rule::KeyRisesOnlyWhileRetryable) { view.fresh } else { view.generation };
        let memory = self.policy(state).contract.memory().map(|memory| memory.as_millis() as u8);
        let seen = view.revision + notes.len() as u8;
        notes.push(Note::Admit { attempt, slot, at: self.at(state), generation, memory, seen, within: rerun.flatten() });
        if state.left.undecodable > 0 {
            self.undecodable(state, owner, parked, &notes, out);
        }
        let mut found = None;
        let process = next.process_mut();
        match (owner, parked) {
            (Owner::Slot(slot), _) => process.slots[usize::from(slot)] = Phase::Admitting(attempt),
            (_, Some(id)) => process.resumed = Some((id, Phase::Admitting(attempt))),
            _ => {}
        }
        if self.lacks(Rule::StartAfterSync) {
            found = self.start(&mut next, owner, slot, attempt, generation, rerun.is_some());
        }
        next.process_mut().queue.push(Batch { notes, owner });
        self.push_found(Step::Admit(attempt, slot), next, found, out);
    }

    /// Arguments that do not decode: a dead letter, and the operation stays as it was.
    fn undecodable(&self, state: &State, owner: Owner, parked: Option<NoteId>, admission: &[Note], out: &mut Nexts) {
        let Some(Note::Admit { attempt, slot, .. }) = admission.last().copied() else { return };
        let mut state = state.clone();
        state.left.undecodable -= 1;
        let notes = match parked {
            _ if self.lacks(Rule::ExtractionBeforeAdmission) => [admission, &[Note::Fact { attempt, said: Said::Rejected }]].concat(),
            Some(id) => vec![Note::End { id, closing: Aside::DeadLettered, seen: None }],
            None => vec![Note::Close { slot }],
        };
        self.note(&state, owner, notes, out);
    }

    /// The first batch is durable: judged, and answered to the process.
    pub(crate) fn sync(&self, state: &State, out: &mut Nexts) {
        let Some(batch) = state.process.as_ref().and_then(|process| process.queue.first().cloned()) else { return };
        let mut next = state.clone();
        next.process_mut().queue.remove(0);
        let stated = self.view(state.known).stated;
        let stands = self.land(&mut next, &batch);
        let denies = |note: &Note| matches!(note, Note::Rule { of, ruled: Ruled::NotDone | Ruled::Rejected, .. } if of & stated != 0);
        let denied = stands && batch.notes.iter().any(denies);
        let denied = denied.then_some(Violation("D1", "a verdict denies what the attempt itself had stated"));
        let found = denied.or(self.answered(&mut next, &batch, stands));
        self.push_found(Step::Sync, next, found, out);
    }

    pub(crate) fn judge(&self, state: &State, known: u32, note: Note) -> (Judgement, u32) {
        let view = self.view(known);
        let note = match note {
            Note::Hold { on, slot, seen: ANY } => Note::Hold { on, slot, seen: view.revision },
            Note::End { id, closing, seen: Some(ANY) } => Note::End { id, closing, seen: Some(view.revision) },
            Note::Rule { of, ruled, by, fresh, seen, at } => {
                let of = if of == ALL { view.undecided } else { of };
                let seen = if seen == ANY { view.revision } else { seen };
                if ruled == Ruled::NotDone && of == 0 || self.misses_found(&view, ruled, by, seen) {
                    return (Judgement::Lost, known);
                }
                Note::Rule { of, ruled, by, fresh, seen, at }
            }
            note => note,
        };
        let mut ledger = self.ledger.borrow_mut();
        if self.lacks(Rule::NotesEndWithSettlement) {
            return ledger.judge_without_ends(known, note, state.wall());
        }
        ledger.judge(known, note, state.wall())
    }

    fn misses_found(&self, view: &View, ruled: Ruled, by: By, seen: u8) -> bool {
        self.lacks(Rule::FoundStandsAlways) && by == By::Lookup && matches!(ruled, Ruled::Applied(_)) && seen != view.revision
    }

    /// Makes a batch durable. Whether its last entry stands.
    pub(crate) fn land(&self, state: &mut State, batch: &Batch) -> bool {
        let mut stands = true;
        for note in &batch.notes {
            let before = self.view(state.known);
            let (judgement, known) = self.judge(state, state.known, *note);
            stands = judgement != Judgement::Lost;
            state.known = known;
            match note {
                Note::Close { slot } => state.dead_lettered |= bit(*slot),
                Note::End { id, closing, .. } if judgement == Judgement::Added => {
                    let held = before.held.iter().filter(|(on, _)| on == id).fold(0, |set, (_, slots)| set | slots);
                    let slots = bit(id.0) | held;
                    if *closing == Aside::Discarded { state.discarded |= slots } else { state.dead_lettered |= slots }
                }
                Note::Rule { ruled, .. } if stands => self.ruled(state, *ruled),
                _ => {}
            }
            if self.lacks(Rule::NotesEndWithSettlement) && self.view(known).settled() && !self.view(known).open.is_empty() {
                state.process.iter_mut().for_each(|process| process.to_end = true);
            }
        }
        stands
    }

    fn ruled(&self, state: &mut State, ruled: Ruled) {
        let Some(process) = &mut state.process else { return };
        match ruled {
            Ruled::NotDone | Ruled::Rejected => (process.ruled, process.owes) = (0, true),
            Ruled::NotDoneAgain | Ruled::Applied(_) => process.owes = false,
            Ruled::Reopened => {}
        }
    }

    /// What the process does with the writer's answer.
    fn answered(&self, state: &mut State, batch: &Batch, stands: bool) -> Option<Violation> {
        let settled = self.view(state.known).settled();
        let last = *batch.notes.last()?;
        let (slot, parked) = match batch.owner {
            Owner::Slot(slot) => (Some(slot), None),
            Owner::Resumed => (None, state.process.as_ref()?.resumed),
            Owner::Late(attempt) => {
                state.attempt_mut(attempt).life = Life::Ended;
                return None;
            }
            Owner::Nobody => return None,
        };
        let phase = match last {
            Note::Admit { .. } if self.lacks(Rule::StartAfterSync) => return None,
            Note::Admit { attempt, slot: place, generation, within, .. } if stands || self.lacks(Rule::StartOnlyWhenAdmitted) => {
                let rerun = within.is_some() || batch.notes.len() > 1 || self.lacks(Rule::MemoryIsCheckedAtWrite);
                let found = self.open_note(state, parked.map(|(id, _)| id));
                return found.or_else(|| self.start(state, batch.owner, place, attempt, generation, rerun));
            }
            Note::Admit { .. } => Phase::Lane,
            Note::Fact { attempt, .. } => {
                if state.attempt(attempt).life == Life::Pending {
                    state.attempt_mut(attempt).life = Life::Ended;
                }
                if settled { Phase::Done } else { Phase::Lane }
            }
            _ if stands => Phase::Done,
            _ => Phase::Lane,
        };
        match slot {
            Some(slot) if state.process_mut().slots[usize::from(slot)] != Phase::Done => {
                state.process_mut().slots[usize::from(slot)] = phase
            }
            Some(_) => {}
            None => state.process_mut().resumed = None,
        }
        None
    }

    fn open_note(&self, state: &State, parked: Option<NoteId>) -> Option<Violation> {
        let ended = parked.is_some_and(|id| !self.view(state.known).open.iter().any(|(open, _)| *open == id));
        ended.then_some(Violation("C1", "a parked record runs whose note has ended"))
    }

    /// Calls the handler.
    fn start(&self, state: &mut State, owner: Owner, slot: u8, attempt: u8, generation: u8, rerun: bool) -> Option<Violation> {
        let found = self.may_start(state, owner, slot, attempt, rerun);
        let keyed = self.policy(state).contract.memory().is_some();
        if state.process_mut().known_complete > slot {
            // Moved back below the watermark, and decided afresh.
            state.dead_lettered &= !bit(slot);
            state.discarded &= !bit(slot);
        }
        *state.attempt_mut(attempt) = Attempt { life: Life::Alive, request: Request::Flying, keyed, generation, ..Attempt::default() };
        let process = state.process_mut();
        match owner {
            Owner::Slot(slot) => process.slots[usize::from(slot)] = Phase::Running(attempt),
            _ => process.resumed = process.resumed.map(|(id, _)| (id, Phase::Running(attempt))),
        }
        found
    }

    /// Queues what an attempt stated.
    pub(crate) fn state_fact(&self, state: &mut State, attempt: u8, said: Said) {
        state.attempt_mut(attempt).life = Life::Pending;
        let early = self.lacks(Rule::CompleteWhenDurable);
        let process = state.process_mut();
        let mut owner = Owner::Late(attempt);
        if let Some(slot) = process.slots.iter().position(|phase| *phase == Phase::Running(attempt)) {
            process.slots[slot] = if early { Phase::Done } else { Phase::Recording(attempt) };
            owner = Owner::Slot(slot as u8);
        } else if let Some((id, Phase::Running(own))) = process.resumed
            && own == attempt
        {
            process.resumed = Some((id, Phase::Recording(attempt)));
            owner = Owner::Resumed;
        }
        process.queue.push(Batch { notes: vec![Note::Fact { attempt, said }], owner });
    }

    /// The attempt is not the record's any more: it ended without a fact, or passed its deadline.
    pub(crate) fn let_go(state: &mut State, attempt: u8) {
        let process = state.process_mut();
        for phase in process.slots.iter_mut().filter(|phase| **phase == Phase::Running(attempt)) {
            *phase = Phase::Lane;
        }
        process.resumed = process.resumed.filter(|(_, phase)| *phase != Phase::Running(attempt));
    }
}

impl Process {
    pub(crate) fn runs(&self) -> bool {
        self.slots.iter().any(|phase| phase.runs()) || self.resumed.is_some_and(|(_, phase)| phase.runs())
    }

    /// Two batches are under way, and no third is begun; what attempts state is always taken.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() > 1
    }

    pub(crate) fn queues(&self, which: impl Fn(&Note) -> bool) -> bool {
        self.queue.iter().flat_map(|batch| &batch.notes).any(which)
    }
}

impl State {
    pub(crate) fn process_mut(&mut self) -> &mut Process {
        self.process.as_mut().expect("a process runs")
    }
}

impl Process {
    /// Slots below this are complete, as the process knows: what it may commit at any time.
    pub(crate) fn complete_below(&self, slots: u8) -> u8 {
        (0..slots).find(|slot| self.slots[usize::from(*slot)] != Phase::Done).unwrap_or(slots)
    }
}

pub(crate) fn lowest(set: Set) -> u8 {
    set.trailing_zeros() as u8
}
