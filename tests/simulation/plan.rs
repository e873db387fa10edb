//! Owns what a seed stands for: a setting and a list of steps. A step names what it acts on by a number that the world takes modulo
//! what is there, so that any shorter list of the same steps is a plan too: that is how a failing seed is made readable.

use receipted::protocol::policy::{BackOff, Contract, Lanes};
use std::time::Duration;

/// A generator of numbers, the same on every machine.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x1234_5678_9ABC_DEF1) | 1)
    }

    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len() as u64) as usize].clone()
    }
}

/// Whether the outside world keeps what the contracts rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// A lost request lands within the quiet period, and is seen by then.
    Honest,
    /// Lookups deny effects that are there, until the world heals.
    Denies,
    /// Lost requests land after the quiet period.
    Late,
}

/// What a world is made of.
#[derive(Debug, Clone)]
pub struct Setting {
    pub seed: u64,
    pub partitions: usize,
    pub rows: u64,
    pub ids: u64,
    /// By route.
    pub contracts: [Contract; 2],
    pub permits: usize,
    pub tenant_permits_max: usize,
    pub partition_records_max: usize,
    pub unresolved_max: u32,
    pub attempts_max: u32,
    pub lanes: Lanes,
    pub replies: bool,
    pub destination: Destination,
    pub parked_bytes_max: u64,
    pub back_off: BackOff,
}

/// How long a lost request can land, in milliseconds.
pub const QUIET: u64 = 500;
/// How long a destination that deduplicates remembers.
pub const MEMORY: u64 = 30_000;

/// How long a process stands still, at most: what its margin before the end of a memory allows for.
pub const STALL_MAX: u64 = 2_000;

/// What the destination makes of a request, and the handler of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Apply,
    /// It takes effect, and the answer is lost.
    LoseAnswer,
    /// It is on its way; the handler gives up and knows nothing.
    GiveUp,
    /// It is on its way, and the handler goes on waiting.
    Hang,
    /// The handler panics before any request.
    PanicBefore,
    NoEffect,
    Reject,
}

/// What becomes of a store's sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    Done,
    FailsBefore,
    FailsAfter,
    /// Nothing landed, and the store says nothing any more.
    Broken,
}

/// What becomes of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    Done,
    Lost,
    Unconfirmed,
}

/// How a partition goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    Revoked,
    Lost,
}

/// What an operator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Looks at the destination, and says what is seen; without vouching for what may still land.
    AsSeen,
    /// Says the opposite, and vouches.
    Wrong,
    DeadLetter,
    Discard,
    Reopen,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Deliver {
        partition: u64,
        count: u64,
    },
    Sync(Sync),
    /// The engine takes what the store has answered.
    Take(u64),
    Act {
        which: u64,
        act: Act,
        delay: u64,
    },
    /// Something outside answers, well or badly: a lookup, the dead-letter topic, a reply hook, a read.
    Answer {
        which: u64,
        well: u64,
    },
    CommitTick,
    Commit(Commit),
    Wait(u64),
    /// The process stands still, and hears of the time afterwards.
    Stall(u64),
    /// The wall clock is set forward.
    Forward(u64),
    Kill {
        rewind: Option<(u64, u64)>,
        landed: u64,
        back: u64,
    },
    Stop,
    Leave {
        partition: u64,
        how: Leaves,
    },
    Assign,
    Operate {
        which: u64,
        word: Word,
    },
}

pub struct Plan {
    pub setting: Setting,
    pub steps: Vec<Step>,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let setting = setting(seed, &mut dice);
        let steps = 80 + dice.roll(240);
        let steps = (0..steps).map(|_| step(&mut dice, &setting)).collect();
        Self { setting, steps }
    }
}

fn setting(seed: u64, dice: &mut Dice) -> Setting {
    let quiet = Duration::from_millis(QUIET);
    let last = [Contract::Hold { quiet }, Contract::Ask { quiet }];
    let memory = |then| Contract::DestinationDeduplicates { memory: Duration::from_millis(MEMORY), then: Box::new(then) };
    let contract = |dice: &mut Dice| {
        let then = dice.pick(&last);
        if dice.roll(3) == 0 { memory(then) } else { then }
    };
    let permits = 1 + dice.roll(4) as usize;
    Setting {
        seed,
        partitions: 1 + dice.roll(3) as usize,
        rows: 6 + dice.roll(18),
        ids: 2 + dice.roll(6),
        contracts: [contract(dice), contract(dice)],
        permits,
        tenant_permits_max: 1 + dice.roll(permits as u64) as usize,
        partition_records_max: 4 + dice.roll(12) as usize,
        unresolved_max: dice.pick(&[2, 5, 1000]),
        attempts_max: dice.pick(&[1, 3, 5]),
        lanes: dice.pick(&[Lanes::Key, Lanes::Key, Lanes::Key, Lanes::Partition, Lanes::Unordered]),
        replies: dice.roll(4) == 0,
        destination: dice.pick(&[
            Destination::Honest,
            Destination::Honest,
            Destination::Honest,
            Destination::Honest,
            Destination::Denies,
            Destination::Late,
        ]),
        parked_bytes_max: dice.pick(&[u64::MAX, u64::MAX, 200]),
        back_off: BackOff { first: Duration::from_millis(50), max: Duration::from_millis(400), ..BackOff::default() },
    }
}

fn step(dice: &mut Dice, setting: &Setting) -> Step {
    match dice.roll(100) {
        0..=17 => Step::Deliver { partition: dice.roll(8), count: 1 + dice.roll(4) },
        18..=32 => {
            Step::Sync(if dice.roll(40) == 0 { dice.pick(&[Sync::FailsBefore, Sync::FailsAfter, Sync::Broken]) } else { Sync::Done })
        }
        33..=46 => Step::Take(1 + dice.roll(4)),
        47..=60 => {
            let acts = [
                Act::Apply,
                Act::Apply,
                Act::Apply,
                Act::Apply,
                Act::LoseAnswer,
                Act::GiveUp,
                Act::Hang,
                Act::PanicBefore,
                Act::NoEffect,
                Act::Reject,
            ];
            Step::Act { which: dice.roll(8), act: dice.pick(&acts), delay: dice.roll(QUIET) }
        }
        61..=70 => Step::Answer { which: dice.roll(8), well: dice.roll(6) },
        71..=74 => Step::CommitTick,
        75..=79 => Step::Commit(dice.pick(&[Commit::Done, Commit::Done, Commit::Done, Commit::Lost, Commit::Unconfirmed])),
        80..=84 => Step::Wait(dice.pick(&[1, 20, 100, 300, 700, 1_500, 12_000])),
        85..=86 => Step::Stall(dice.pick(&[10, 600, STALL_MAX])),
        87 => Step::Forward(dice.pick(&[10, 5_000, 60_000])),
        88..=90 => {
            let rewind = (dice.roll(4) == 0).then(|| (dice.roll(8), 1 + dice.roll(8)));
            // Set back while the process is down, a clock shortens a destination's memory, which no note can tell.
            let remembers = setting.contracts.iter().any(|contract| contract.memory().is_some());
            let back = if remembers || dice.roll(3) > 0 { 0 } else { dice.roll(20_000) };
            Step::Kill { rewind, landed: dice.roll(3), back }
        }
        91 => Step::Stop,
        92..=93 => Step::Leave { partition: dice.roll(8), how: dice.pick(&[Leaves::Revoked, Leaves::Lost]) },
        94..=95 => Step::Assign,
        _ => {
            let words =
                [Word::AsSeen, Word::AsSeen, Word::AsSeen, Word::AsSeen, Word::DeadLetter, Word::Discard, Word::Reopen, Word::Wrong];
            Step::Operate { which: dice.roll(8), word: dice.pick(&words) }
        }
    }
}
