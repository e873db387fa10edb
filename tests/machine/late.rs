//! Late answers: an attempt goes on after its deadline, and whatever it says is heard at every step of what happens meanwhile: while the
//! destination is asked, while another attempt runs, while a person settles, while its partition goes.

use crate::world::*;
use receipted::protocol::{
    machine::{AttemptKey, Event},
    note::{Author, DoubtReason},
    outcome::Outcome,
    park::SlotNotes,
    policy::Contract,
    settle::{Act as Ask, AttemptName, Change, Decided, Scene, Settle, Settlement, decide},
    time::Monotonic,
};

/// What the attempt says in the end, and whether the effect is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Applied,
    NoEffect,
    Rejected,
    /// Nothing, and the effect is there.
    LostAnswer,
    /// Nothing, and it is not.
    Panic,
}

const ALL: [Says; 5] = [Says::Applied, Says::NoEffect, Says::Rejected, Says::LostAnswer, Says::Panic];

/// What happens while the attempt is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    /// The destination is asked.
    Reconcile,
    /// Other attempts run under the same key.
    Rerun,
    /// A person looks and says what is seen, again and again.
    Settle,
    /// The partition is given back, and comes again.
    Stop,
    /// It is somebody else's already, and comes again.
    Lost,
}

impl Meanwhile {
    fn contract(self) -> Contract {
        match self {
            Self::Reconcile | Self::Stop => ask(),
            Self::Rerun | Self::Lost => rerun(),
            Self::Settle => hold(),
        }
    }
}

struct Story {
    world: World,
    meanwhile: Meanwhile,
    first: AttemptKey,
    moves: usize,
    asked: u64,
}

impl Story {
    fn new(meanwhile: Meanwhile) -> Self {
        let log = vec![row("acme", "1", 1), row("acme", "1", 2), row("acme", "2", 3)];
        let mut world = World::new(policy(meanwhile.contract()), 4, log);
        world.deduplicates = meanwhile.contract().memory().is_some();
        world.deliver(1);
        world.sync_all();
        let first = *world.running.keys().next().expect("it runs");
        Self { world, meanwhile, first, moves: 0, asked: 0 }
    }

    /// One thing happens. False when nothing but time is left.
    fn step(&mut self) -> bool {
        self.moves += 1;
        match (self.meanwhile, self.moves) {
            (Meanwhile::Stop, 6 | 14) => {
                let until = Monotonic(self.world.now + 300);
                self.world.on(Event::Revoke { assignment: self.world.assignment(), until });
            }
            (Meanwhile::Lost, 6 | 14) => self.world.on(Event::Lost { assignment: self.world.assignment() }),
            (Meanwhile::Stop | Meanwhile::Lost, 10 | 18) if !self.world.machine.is_open(self.world.assignment()) => {
                self.world.assign(self.world.committed);
            }
            _ => {}
        }
        if self.world.machine.is_open(self.world.assignment()) && self.world.deliver(1) > 0 {
            return true;
        }
        if self.world.sync() || self.world.answer_lookups() > 0 {
            return true;
        }
        let others: Vec<AttemptKey> = self.world.running.keys().copied().filter(|attempt| *attempt != self.first).collect();
        if let Some(attempt) = others.first() {
            self.world.act_on(*attempt, &Act::Apply);
            return true;
        }
        if self.meanwhile == Meanwhile::Settle && self.person() {
            return true;
        }
        self.world.on(Event::CommitTick);
        if self.world.sync() {
            return true;
        }
        let Some(at) = self.world.machine.next_timer() else { return false };
        // In small steps, so that much happens before the future is dropped.
        self.world.now = at.0.clamp(self.world.now, self.world.now + 150);
        self.world.on(Event::Tick);
        true
    }

    /// A person says what is there to be seen, by the production rule. False when it is refused, or nothing is in doubt.
    fn person(&mut self) -> bool {
        let (digest, world) = (key("acme", "1").digest(), &self.world);
        let Some(known) = world.about("acme/1").cloned().filter(|known| known.receipt.has_undecided()) else { return false };
        let names = known.receipt.undecided().into_iter().map(AttemptName::from).collect();
        let (outcome, attempts) = match world.ledger.get("acme/1").and_then(|effects| effects.last()) {
            Some(effect) => (Settlement::Applied { reference: format!("ref-acme/1-{effect}") }, None),
            None => (Settlement::NotDone, Some(names)),
        };
        let act = Ask::Settle(Settle { key: digest, outcome, attempts, cannot_land_any_more: None, fresh_key: false });
        let change = Change { act, by: Author::Operator { name: "mia".into(), uid: 1 }, reason: "looked".into() };
        let slot = SlotNotes::default();
        let future = |attempt| world.machine.future(digest, attempt);
        let scene =
            Scene { known: &known, slot: &slot, halted: None, future, quiet: self.meanwhile.contract().quiet(), now: world.clock() };
        let Ok(Decided::Write(entry)) = decide(&change, &scene) else { return false };
        if self.asked == known.revision().0 {
            return false;
        }
        self.asked = known.revision().0;
        self.world.on(Event::Operator { request: 1, entry });
        true
    }

    /// The attempt answers after all. False when it was dropped before.
    fn answers(&mut self, says: Says) -> bool {
        let Some(operation) = self.world.running.remove(&self.first) else { return false };
        let outcome = match says {
            Says::Applied => Outcome::Applied(self.world.effect(&operation, 1)),
            Says::NoEffect => Outcome::NoEffect("503".into()),
            Says::Rejected => Outcome::Rejected("over the limit".into()),
            Says::LostAnswer => {
                self.world.effect(&operation, 1);
                Outcome::Unknown(DoubtReason::Unknown, String::new())
            }
            Says::Panic => Outcome::Unknown(DoubtReason::Panic, String::new()),
        };
        self.world.on(Event::Finished { attempt: self.first, outcome });
        true
    }

    fn ends(mut self, says: Says, step: usize) {
        let what = format!("{:?}, {says:?} after {step} moves", self.meanwhile);
        for _ in 0..600 {
            if self.moves > 20 && !self.world.machine.is_open(self.world.assignment()) {
                self.world.assign(self.world.committed);
            }
            // What only a person can say is said in the end, whatever the contract.
            if !self.step() && !self.person() && self.moves > 25 {
                break;
            }
            if self.moves > 300 {
                self.person();
            }
        }
        let (world, effects) = (&self.world, self.world.ledger.get("acme/1").map_or(0, Vec::len));
        let known = world.about("acme/1").expect("it was admitted");
        assert!(effects <= 1, "{what}: it took effect {effects} times");
        let state = world.state("acme", "1");
        let expected = match says {
            Says::Rejected if effects == 0 => "rejected",
            _ => "applied",
        };
        assert_eq!(state, expected, "{what}");
        assert_eq!(effects, usize::from(expected == "applied"), "{what}");
        assert!(!known.receipt.is_disputed() && !known.receipt.has_undecided(), "{what}: {known:?}");
        let told = known.receipt.effects();
        assert_eq!(told.extra_certain() + told.extra_suspected(), 0, "{what}: nothing was doubled, and nothing says so");
        assert_eq!((world.committed, world.open_parks().len(), world.machine.alive()), (3, 0, 0), "{what}");
        assert_eq!(world.state("acme", "2"), "applied", "{what}: others went on");
    }
}

#[test]
fn a_late_answer_at_any_step_doubles_nothing_and_settles_nothing_falsely() {
    let mut heard = std::collections::BTreeMap::new();
    for meanwhile in [Meanwhile::Reconcile, Meanwhile::Rerun, Meanwhile::Settle, Meanwhile::Stop, Meanwhile::Lost] {
        for says in ALL {
            for step in 0..60 {
                let mut story = Story::new(meanwhile);
                // Past its deadline: from here on it is late.
                story.world.wait(1_001);
                for _ in 0..step {
                    story.step();
                }
                if story.answers(says) {
                    *heard.entry(format!("{meanwhile:?}")).or_insert(0) += 1;
                    story.ends(says, step);
                }
            }
        }
    }
    eprintln!("late answers heard: {heard:?}");
    assert!(heard.len() == 5 && heard.values().all(|count| *count >= 200), "{heard:?}");
}
