//! Notes as small codes, and a ledger that gives every set of notes a number: the production functions are called once for each set
//! and remembered, so that a state of the search is a few bytes.

use crate::hash::Table;
use receipted::protocol::{
    change::{Total, changes},
    decision::{Arrival, Decision, Position, Running, decide},
    doubt::{self, Step},
    fingerprint::Fingerprint,
    key::KeyDigest,
    known::{self, Entry, Judgement, Known, Revision},
    note::{Admission, Answer, Applied, AttemptId, Author, Doubt, DoubtReason, Fact, Reference, Ruling, Slot, Verdict},
    outcome::Finding,
    park::{Closing, End, EndKind, Openness, Park, ParkId, ParkReason, Payload, RecordDigest, SlotNotes},
    policy::{FreshKey, Policy},
    receipt::{Receipt, State},
    time::UnixMillis,
};
use std::{collections::BTreeSet, rc::Rc, sync::Arc, time::Duration};

pub(crate) const SLOTS_MAX: usize = 3;
const KEY: KeyDigest = KeyDigest([9; 32]);
const PRINT: Fingerprint = Fingerprint::Digest([1; 16]);

/// A set of small numbers: attempts by number, or slots.
pub(crate) type Set = u8;

pub(crate) fn bit(number: u8) -> Set {
    1 << number
}

pub(crate) fn members(set: Set) -> impl Iterator<Item = u8> {
    (0..8).filter(move |number| set & bit(*number) != 0)
}

/// What an attempt states about itself; a number names the effect by the attempt that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    Applied(u8),
    Already(u8),
    NoEffect,
    Rejected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Ruled {
    Applied(u8),
    NotDone,
    /// The second look's.
    NotDoneAgain,
    Rejected,
    Reopened,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum By {
    Lookup,
    Person,
}

/// How a record is set aside for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Aside {
    DeadLettered,
    Discarded,
}

/// A park note: its slot and number.
pub(crate) type NoteId = (u8, u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Note {
    Admit { attempt: u8, slot: u8, at: u8, generation: u8, memory: Option<u8>, seen: u8, within: Option<(u8, u8)> },
    Fact { attempt: u8, said: Said },
    Doubt { attempt: u8, at: u8 },
    Rule { of: Set, ruled: Ruled, by: By, fresh: bool, seen: u8, at: u8 },
    Park { id: NoteId, reason: ParkReason, seen: Option<u8> },
    Hold { on: NoteId, slot: u8, seen: u8 },
    End { id: NoteId, closing: Aside, seen: Option<u8> },
    Close { slot: u8 },
}

pub(crate) fn attempt_id(number: u8) -> AttemptId {
    AttemptId { number: number.into(), claim: 1 }
}

pub(crate) fn attempt_ids(set: Set) -> BTreeSet<AttemptId> {
    members(set).map(attempt_id).collect()
}

pub(crate) fn set_of<'a>(attempts: impl IntoIterator<Item = &'a AttemptId>) -> Set {
    attempts.into_iter().fold(0, |set, attempt| set | bit(attempt.number as u8))
}

fn slot_of(index: u8) -> Slot {
    Slot { topic: "t".into(), partition: 0, offset: index.into() }
}

fn note_id(id: &ParkId) -> NoteId {
    (id.slot.offset as u8, id.number as u8)
}

fn park_id((slot, number): NoteId) -> ParkId {
    ParkId { slot: slot_of(slot), number: number.into() }
}

fn record(index: u8) -> RecordDigest {
    RecordDigest([index; 16])
}

fn millis(ticks: u8) -> UnixMillis {
    UnixMillis(ticks.into())
}

fn applied(of: u8, already: bool) -> Applied {
    Applied { reference: Reference::new(&format!("effect {of}")), answer: Answer::Absent(String::new()), already }
}

/// The attempt that made a found effect.
pub(crate) fn effect_of(applied: &Applied) -> u8 {
    applied.reference.as_ref().and_then(|reference| reference.as_str()["effect ".len()..].parse().ok()).unwrap()
}

/// What a lookup answers that sees these effects.
pub(crate) fn finding(effects: Set) -> Finding {
    if effects == 0 { Finding::NotFound } else { Finding::Found(members(effects).map(|of| applied(of, false)).collect()) }
}

fn person() -> Author {
    Author::Operator { name: "ada".into(), uid: 0 }
}

pub(crate) fn author(by: By) -> Author {
    match by {
        By::Lookup => Author::Reconcile,
        By::Person => person(),
    }
}

pub(crate) fn ruling(ruled: Ruled) -> Ruling {
    match ruled {
        Ruled::Applied(of) => Ruling::Applied(applied(of, false)),
        Ruled::NotDone | Ruled::NotDoneAgain => Ruling::NotDone,
        Ruled::Rejected => Ruling::Rejected,
        Ruled::Reopened => Ruling::Reopened,
    }
}

/// The production entry of a note.
fn entry(note: Note) -> Entry {
    let revision = |seen: u8| Revision(seen.into());
    match note {
        Note::Admit { attempt, slot, at, generation, memory, seen, within } => Entry::Admit {
            key: KEY,
            name: None,
            seen: revision(seen),
            attempt: attempt_id(attempt),
            admission: Box::new(Admission {
                fingerprint: PRINT,
                slot: slot_of(slot),
                at: millis(at),
                time_limit: Duration::ZERO,
                memory: memory.map(|ticks| Duration::from_millis(ticks.into())),
                key_generation: generation.into(),
                budget_used: 0,
                correlation: None,
            }),
            within: within.map(|(from, until)| (millis(from), millis(until))),
        },
        Note::Fact { attempt, said } => {
            let fact = match said {
                Said::Applied(of) => Fact::Applied(applied(of, false)),
                Said::Already(of) => Fact::Applied(applied(of, true)),
                Said::NoEffect => Fact::NoEffect(String::new()),
                Said::Rejected => Fact::Rejected(String::new()),
            };
            Entry::Fact { key: KEY, attempt: attempt_id(attempt), fact }
        }
        Note::Doubt { attempt, at } => {
            let doubt = Doubt { reason: DoubtReason::Crash, detail: String::new(), at: millis(at) };
            Entry::Doubt { key: KEY, attempt: attempt_id(attempt), doubt }
        }
        Note::Rule { of, ruled, by, fresh, seen, at } => {
            let reason = if ruled == Ruled::NotDoneAgain { "looked once more" } else { "looked" }.into();
            let verdict =
                Verdict { attempts: attempt_ids(of), ruling: ruling(ruled), by: author(by), reason, at: millis(at), fresh_key: fresh };
            Entry::Rule { key: KEY, seen: revision(seen), verdict: Box::new(verdict) }
        }
        Note::Park { id, reason, seen } => {
            let park = Park {
                reason,
                key: Some(KEY),
                fingerprint: Some(PRINT),
                attempt: None,
                record: record(id.0),
                bytes: 0,
                detail: String::new(),
                at: millis(0),
            };
            Entry::Park { seen: seen.map(revision), id: park_id(id), park: Arc::new(park), payload: Arc::new(Payload::default()) }
        }
        Note::Hold { on, slot, seen } => {
            Entry::Hold { key: KEY, seen: revision(seen), park: park_id(on), slot: slot_of(slot), record: record(slot) }
        }
        Note::End { id, closing, seen } => {
            let kind = if closing == Aside::Discarded { EndKind::Discarded } else { EndKind::DeadLettered };
            let end = End { kind, by: seen.map(|_| person()), reason: String::new(), at: millis(0) };
            Entry::End { key: Some(KEY), seen: seen.map(revision), park: park_id(id), end }
        }
        Note::Close { slot } => Entry::Close { slot: slot_of(slot), closing: Closing::DeadLettered, record: record(slot) },
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    New,
    InDoubt,
    Applied,
    Rejected,
    Retryable,
}

/// What the production functions say of one set of notes.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub stand: Stand,
    pub revision: u8,
    pub next: u8,
    pub generation: u8,
    pub undecided: Set,
    pub doubted: Set,
    pub rejected: Set,
    pub unconfirmed: Set,
    pub denied: Set,
    /// The effects that it knows of, by the attempt that made them.
    pub effects: Set,
    pub budget: [u8; SLOTS_MAX],
    /// Open notes that follow the operation.
    pub open: Vec<(NoteId, ParkReason)>,
    /// Slots that have a note, open or not, or are held on one.
    pub noted: Set,
    /// Repeats by the note that they are held on.
    pub held: Vec<(NoteId, Set)>,
    pub next_note: [u8; SLOTS_MAX],
    pub reopened: bool,
    pub any_rejection: bool,
    pub any_not_done: bool,
    /// Verdicts that raise the key.
    pub fresh: u8,
    pub latest: u8,
    /// Attempts with a fact of their own.
    pub stated: Set,
    pub admitted: Set,
}

impl View {
    fn of(known: &Known) -> Self {
        let receipt = &known.receipt;
        let stand = match receipt.state() {
            State::New => Stand::New,
            State::InDoubt(_) => Stand::InDoubt,
            State::Applied(_) => Stand::Applied,
            State::Rejected(_) => Stand::Rejected,
            State::Retryable => Stand::Retryable,
        };
        let slots = [0_u8, 1, 2];
        let named = receipt.effects().references.iter().fold(0, |set, r| set | bit(r.as_str()["effect ".len()..].parse().unwrap()));
        let held = known.held.values().flat_map(|slots| slots.keys());
        let noted = known.parks.keys().map(|id| &id.slot).chain(held).fold(0, |set, slot| set | bit(slot.offset as u8));
        Self {
            stand,
            revision: known.revision().0 as u8,
            next: receipt.next_number() as u8,
            generation: receipt.next_key_generation(FreshKey::Never) as u8,
            undecided: set_of(&receipt.undecided()),
            doubted: set_of(receipt.doubts().keys()),
            rejected: set_of(&receipt.rejected()),
            unconfirmed: set_of(&receipt.unconfirmed()),
            denied: set_of(&receipt.denied()),
            effects: named,
            budget: slots.map(|slot| receipt.budget_used(&slot_of(slot)) as u8),
            open: known.open_parks().filter(|(_, p)| p.reason.follows_operation()).map(|(id, p)| (note_id(id), p.reason)).collect(),
            noted,
            held: known.held.iter().map(|(id, slots)| (note_id(id), slots.keys().fold(0, |set, s| set | bit(s.offset as u8)))).collect(),
            next_note: slots.map(|slot| known.next_park(&slot_of(slot)) as u8),
            reopened: receipt.verdicts().iter().any(|verdict| verdict.ruling == Ruling::Reopened),
            any_not_done: receipt.verdicts().iter().any(|verdict| verdict.ruling == Ruling::NotDone),
            fresh: receipt.verdicts().iter().filter(|verdict| verdict.fresh_key).count() as u8,
            latest: receipt.latest().map_or(0, |at| at.0 as u8),
            stated: set_of(receipt.facts().keys()),
            admitted: set_of(receipt.admissions().keys()),
            any_rejection: receipt.facts().values().flatten().any(|fact| matches!(fact, Fact::Rejected(_))),
        }
    }

    pub(crate) fn settled(&self) -> bool {
        matches!(self.stand, Stand::Applied | Stand::Rejected)
    }
}

/// A place in the table of decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub slot: u8,
    pub closed: Option<bool>,
    pub rewound: bool,
    pub running: bool,
}

/// Every set of notes that the search has met, by number. Number 0 is the empty one.
pub(crate) struct Ledger {
    all: Vec<(Known, Rc<View>)>,
    numbers: Table<String, u32>,
    judged: Table<(u32, Note, u8), (Judgement, u32)>,
    decided: Table<(u32, Place), Decision>,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        let mut ledger = Self { all: Vec::new(), numbers: Table::default(), judged: Table::default(), decided: Table::default() };
        ledger.number(Known::default());
        ledger
    }

    fn number(&mut self, known: Known) -> u32 {
        let text = format!("{known:?}");
        if let Some(number) = self.numbers.get(&text) {
            return *number;
        }
        let number = self.all.len() as u32;
        self.numbers.insert(text, number);
        let view = View::of(&known);
        self.all.push((known, Rc::new(view)));
        number
    }

    pub(crate) fn known(&self, number: u32) -> &Known {
        &self.all[number as usize].0
    }

    pub(crate) fn view(&self, number: u32) -> Rc<View> {
        self.all[number as usize].1.clone()
    }

    /// The writer's judgement. What it means to operators is checked on the way: totals that add up, an incident for each duplicate.
    pub(crate) fn judge(&mut self, number: u32, note: Note, wall: u8) -> (Judgement, u32) {
        let wall = if matches!(note, Note::Admit { .. }) { wall } else { 0 };
        if let Some(judged) = self.judged.get(&(number, note, wall)) {
            return *judged;
        }
        let (before, entry) = (self.known(number).clone(), entry(note));
        let mut after = before.clone();
        let judgement = after.judge(&entry, millis(wall));
        check_totals(&before, &after, &entry);
        let judged = (judgement, self.number(after));
        self.judged.insert((number, note, wall), judged);
        judged
    }

    /// A judgement that leaves the settled operation's notes open: for the rule that they end in the same step.
    pub(crate) fn judge_without_ends(&mut self, number: u32, note: Note, wall: u8) -> (Judgement, u32) {
        let mut after = self.known(number).clone();
        let ends = after.ends.clone();
        let judgement = after.judge(&entry(note), millis(wall));
        after.ends = ends;
        (judgement, self.number(after))
    }

    /// Ends what the settled operation left open.
    pub(crate) fn end_settled(&mut self, number: u32) -> u32 {
        let known = self.known(number).clone();
        let open: Vec<ParkId> = known.open_parks().map(|(id, _)| id.clone()).collect();
        let mut after = known;
        for id in open {
            after.ends.insert(id, End { kind: EndKind::Settled, by: None, reason: String::new(), at: millis(0) });
        }
        self.number(after)
    }

    /// The notes without those about attempts in doubt.
    pub(crate) fn forget_undecided(&mut self, number: u32) -> u32 {
        let known = self.known(number).clone();
        let mut receipt = Receipt::default();
        let doubtful = known.receipt.undecided();
        for (attempt, admission) in known.receipt.admissions().iter().filter(|(attempt, _)| !doubtful.contains(attempt)) {
            receipt.admit(*attempt, admission.clone());
        }
        for (attempt, fact) in known.receipt.facts().iter().flat_map(|(attempt, facts)| facts.iter().map(move |fact| (attempt, fact))) {
            receipt.learn(*attempt, fact.clone());
        }
        known.receipt.verdicts().iter().for_each(|verdict| receipt.rule(verdict.clone()));
        self.number(Known { receipt, ..known })
    }

    pub(crate) fn decide(&mut self, number: u32, place: Place) -> Decision {
        if let Some(decision) = self.decided.get(&(number, place)) {
            return decision.clone();
        }
        let known = self.known(number);
        let of_slot = known.parks.iter().filter(|(id, _)| id.slot == slot_of(place.slot));
        let parked = of_slot.max_by_key(|(id, _)| id.number).map(|(id, park)| {
            let openness = if known.ends.contains_key(id) { Openness::Ended } else { Openness::Open };
            (id.clone(), park.clone(), openness)
        });
        let closing = |discarded| if discarded { Closing::Discarded } else { Closing::DeadLettered };
        let closed = place.closed.map(|discarded| (closing(discarded), record(place.slot)));
        let slot = &SlotNotes { times: 0, parked, closed };
        let position = if place.rewound { Position::Rewound } else { Position::Current };
        let running = if place.running { Running::Here } else { Running::No };
        let decision = decide(&Arrival { known, slot, record: record(place.slot), fingerprint: PRINT, position, running });
        self.decided.insert((number, place), decision.clone());
        decision
    }

    /// Whether a verdict fits what is known.
    pub(crate) fn fits(&self, number: u32, ruled: Ruled, of: Set, by: By) -> bool {
        known::fits(&self.known(number).receipt, &ruling(ruled), &attempt_ids(of), &author(by)).is_ok()
    }

    pub(crate) fn step(&self, number: u32, policy: &Policy, wall: u8, used: u8) -> Step {
        doubt::step(policy, &self.known(number).receipt, millis(wall), used.into())
    }
}

fn check_totals(before: &Known, after: &Known, entry: &Entry) {
    let changes = changes(KEY, before, after, entry, millis(0));
    let sum = |which: fn(&Total) -> bool| changes.totals.iter().filter(|(t, _)| which(t)).map(|(_, n)| *n as i64).sum::<i64>();
    let opened = sum(|total| matches!(total, Total::UnresolvedOpened(_))) - sum(|total| matches!(total, Total::UnresolvedClosed(..)));
    assert_eq!(opened, after.receipt.unresolved().len() as i64 - before.receipt.unresolved().len() as i64, "unresolved adds up");
    let parked = sum(|total| matches!(total, Total::ParkedOpened(_))) - sum(|total| matches!(total, Total::ParkedClosed(..)));
    assert_eq!(parked, after.open_parks().count() as i64 - before.open_parks().count() as i64, "parked adds up");
    let extra = after.receipt.effects().extra_certain() - before.receipt.effects().extra_certain();
    assert_eq!(changes.incidents.len(), extra, "an incident for each duplicate effect");
}

pub(crate) fn park_number(id: &ParkId) -> NoteId {
    note_id(id)
}
