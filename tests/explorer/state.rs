//! One state of the search: what is durable, what the process holds, and what the world does meanwhile. And what a search varies.

use crate::notes::{Note, NoteId, SLOTS_MAX, Set};
use receipted::protocol::{
    policy::{Contract, Policy},
    time::Monotonic,
};
use std::time::Duration;

pub(crate) const ATTEMPTS_MAX: usize = 4;
/// The reading of the process's clock in every state; ages are counted back from it.
pub(crate) const NOW: Monotonic = Monotonic(100);

/// What the destination does with its promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    Keeps,
    /// It books a rerun under the same key again.
    Rebooks,
    /// One request lands up to two quiet periods after its future ended.
    LandsLate,
}

/// What people do. Honest ones say what they see at the destination, when the rules let them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct People {
    pub honest: bool,
    /// How often somebody says the opposite of what is there.
    pub wrong: u8,
    /// How often somebody vouches that nothing can land any more, without knowing.
    pub vouching: u8,
    /// Honest people may say *rejected* in place of *not done*.
    pub reject: bool,
    pub reopen: u8,
    pub discard: bool,
    pub dead_letter: bool,
    /// A *not done* about one attempt of several raises the key.
    pub fresh_key: bool,
}

pub(crate) const HONEST: People =
    People { honest: true, wrong: 0, vouching: 0, reject: false, reopen: 0, discard: false, dead_letter: false, fresh_key: false };

/// A rule that the model's driver leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    StartAfterSync,
    StartOnlyWhenAdmitted,
    CompleteWhenDurable,
    DecideOnSynced,
    RejectedAfterInDoubt,
    ExtractionBeforeAdmission,
    DoubtSurvivesCrash,
    NoBlindRerun,
    ClosedStaysClosed,
    HeldSeesItsNote,
    ParkSeesItsState,
    NotesEndWithSettlement,
    BudgetIsDurable,
    MemoryHasMargin,
    MemoryIsCheckedAtWrite,
    MemoryIsStored,
    ClockBackIsOver,
    KeyRisesOnlyWhileRetryable,
    QuietBeforeProof,
    QuietStartsAtTheEnd,
    QuietRestarts,
    ProofByStart,
    LookLooksLate,
    VerdictWaitsForFuture,
    VerdictWaitsForFact,
    VerdictWaitsForQuiet,
    VerdictSeesItsState,
    VerdictNamesAttempts,
    FoundCoversOnlyWhatItSaw,
    SecondLook,
    SecondLookSurvivesCrash,
    FoundStandsAlways,
    NoVerdictByTimer,
    DiscardNotInDoubt,
    DiscardSeesItsState,
    LookThroughOperations,
    ResumeWhenRetryable,
    DropAtDetachedMax,
    ParkFirst,
}

#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub name: &'static str,
    pub slots: u8,
    /// Attempts of the operation, at most: what lies beyond is cut off.
    pub attempts: u8,
    pub crashes: u8,
    pub rewinds: u8,
    pub policy: Policy,
    /// The contract until the first restart, where a deployment changes it. Its handler does not pass the key.
    pub before: Option<Policy>,
    pub destination: Destination,
    /// How often a handler says *no effect* before it sent anything.
    pub refusals: u8,
    /// How often a handler says *rejected* before it sent anything.
    pub rejections: u8,
    /// How often arguments do not decode.
    pub undecodable: u8,
    /// How far the wall clock may be set back, once.
    pub clock_back: u8,
    /// Waiting records may be parked to make room.
    pub room: bool,
    /// Futures end only when they are dropped.
    pub hang: bool,
    pub people: People,
    /// Everything is to end settled, not only set aside.
    pub settles: bool,
    pub off: &'static [Rule],
}

pub(crate) fn ticks(count: u8) -> Duration {
    Duration::from_millis(count.into())
}

pub(crate) fn policy(contract: Contract) -> Policy {
    let policy = Policy { contract, detached_max: ticks(1), attempts_max: 3, ..Policy::default() };
    Policy { margin: policy.margin_min(), ..policy }
}

pub(crate) fn hold() -> Policy {
    policy(Contract::Hold { quiet: ticks(1) })
}

pub(crate) fn ask() -> Policy {
    policy(Contract::Ask { quiet: ticks(1) })
}

/// The destination deduplicates for four ticks; a rerun starts in the first two.
pub(crate) fn remembers(then: Policy) -> Policy {
    policy(Contract::DestinationDeduplicates { memory: ticks(4), then: Box::new(then.contract) })
}

impl Config {
    pub(crate) fn new(name: &'static str, policy: Policy) -> Self {
        Self {
            name,
            slots: 2,
            attempts: 3,
            crashes: 1,
            rewinds: 0,
            policy,
            before: None,
            destination: Destination::Keeps,
            refusals: 0,
            rejections: 0,
            undecodable: 0,
            clock_back: 0,
            room: false,
            hang: false,
            people: People::default(),
            settles: true,
            off: &[],
        }
    }

    pub(crate) fn without(mut self, off: &'static [Rule]) -> Self {
        self.off = off;
        self
    }

    pub(crate) fn lacks(&self, rule: Rule) -> bool {
        self.off.contains(&rule)
    }

    pub(crate) fn asks(&self) -> bool {
        matches!(self.policy.contract.last(), Contract::Ask { .. })
    }

    pub(crate) fn quiet(&self) -> u8 {
        self.policy.contract.quiet().as_millis() as u8
    }

    pub(crate) fn detached(&self) -> u8 {
        self.policy.detached_max.as_millis() as u8
    }

    pub(crate) fn memory(&self) -> Option<u8> {
        self.policy.contract.memory().map(|memory| memory.as_millis() as u8)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Life {
    #[default]
    Unborn,
    Alive,
    /// It ended, and its fact is on the way.
    Pending,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Request {
    #[default]
    None,
    /// It may still be sent, or lands later.
    Flying,
    /// It made an effect.
    Effect,
    /// The destination answered with the effect of that attempt.
    Deduplicated(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Attempt {
    pub life: Life,
    pub request: Request,
    /// Ticks since it began, or since it ended.
    pub age: u8,
    /// It was of an earlier process.
    pub old: bool,
    /// Its request lands late.
    pub late: bool,
    pub keyed: bool,
    pub generation: u8,
}

impl Attempt {
    /// Whether it has, or may still get, its effect.
    pub(crate) fn possible(&self) -> bool {
        matches!(self.request, Request::Effect | Request::Flying)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Lane,
    Noting,
    Admitting(u8),
    Running(u8),
    Recording(u8),
    Done,
}

impl Phase {
    /// An attempt of it runs, or has ended with its fact not yet durable.
    pub(crate) fn runs(self) -> bool {
        matches!(self, Self::Running(_) | Self::Recording(_))
    }
}

/// Whose entries a batch carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Slot(u8),
    Resumed,
    Late(u8),
    Nobody,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Batch {
    pub notes: Vec<Note>,
    pub owner: Owner,
}

/// A lookup on its way: what the destination showed when it started, and how long ago that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Look {
    pub age: u8,
    pub shown: Set,
    /// Every attempt that it was asked about was quiet when it started.
    pub late: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    /// Ticks since it started.
    pub age: u8,
    /// Ticks since the last *not done*, or since the start.
    pub ruled: u8,
    pub slots: [Phase; SLOTS_MAX],
    /// Slots below are complete as the store knows.
    pub known_complete: u8,
    /// A parked record that runs.
    pub resumed: Option<(NoteId, Phase)>,
    pub look: Option<Look>,
    /// A second look is owed, in the memory of a process that keeps it nowhere else.
    pub owes: bool,
    /// Settled notes whose ends are not written, where that is a step of its own.
    pub to_end: bool,
    /// The wall clock stood before the latest note when it started.
    pub clock_back: bool,
    pub queue: Vec<Batch>,
}

/// What may still go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub crashes: u8,
    pub rewinds: u8,
    pub refusals: u8,
    pub rejections: u8,
    pub undecodable: u8,
    pub clock_back: u8,
    pub wrong: u8,
    pub vouching: u8,
    pub reopen: u8,
    pub late: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The durable notes, by their number in the ledger.
    pub known: u32,
    pub dead_lettered: Set,
    pub discarded: Set,
    pub watermark: Option<u8>,
    /// The broker's.
    pub committed: Option<u8>,
    /// Somebody moved it.
    pub moved: bool,
    pub attempts: [Attempt; ATTEMPTS_MAX],
    /// Ticks since the first admission.
    pub since_first: u8,
    /// By how much the wall clock was set back.
    pub behind: u8,
    /// A person said what was not so.
    pub lied: bool,
    /// A handler or a person said *rejected*.
    pub said_rejected: bool,
    /// An attempt was not admitted because of the search's own bound.
    pub cut: bool,
    /// The new deployment runs.
    pub deployed: bool,
    pub process: Option<Process>,
    pub left: Left,
}

impl State {
    pub(crate) fn first(config: &Config) -> Self {
        let Config { crashes, rewinds, refusals, rejections, undecodable, clock_back, .. } = *config;
        let People { wrong, vouching, reopen, .. } = config.people;
        Self {
            known: 0,
            dead_lettered: 0,
            discarded: 0,
            watermark: None,
            committed: None,
            moved: false,
            attempts: [Attempt::default(); ATTEMPTS_MAX],
            since_first: 0,
            behind: 0,
            lied: false,
            said_rejected: false,
            cut: false,
            deployed: config.before.is_none(),
            process: None,
            left: Left {
                crashes,
                rewinds,
                refusals,
                rejections,
                undecodable,
                clock_back,
                wrong,
                vouching,
                reopen,
                late: u8::from(config.destination == Destination::LandsLate),
            },
        }
    }

    pub(crate) fn attempt(&self, number: u8) -> &Attempt {
        &self.attempts[usize::from(number) - 1]
    }

    pub(crate) fn attempt_mut(&mut self, number: u8) -> &mut Attempt {
        &mut self.attempts[usize::from(number) - 1]
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = u8> + use<> {
        1..=ATTEMPTS_MAX as u8
    }

    /// The effects in the world, by the attempts that made them.
    pub(crate) fn effects(&self) -> Set {
        self.numbers().filter(|n| self.attempt(*n).request == Request::Effect).fold(0, |set, n| set | crate::notes::bit(n))
    }

    pub(crate) fn wall(&self) -> u8 {
        self.since_first.saturating_sub(self.behind)
    }
}
