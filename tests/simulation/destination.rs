//! Owns the truth: which requests are on their way, which effects there are, and who can see them. Nothing of the product is read
//! here.

use super::plan::{MEMORY, QUIET};
use receipted::protocol::note::AttemptId;
use std::collections::{BTreeMap, BTreeSet};

/// Tenant and id, with its route: as the business would name it.
pub type Name = String;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    pub attempt: AttemptId,
    pub generation: u32,
    pub amount: u8,
    pub at: u64,
    /// From when on a lookup sees it.
    pub visible: u64,
    pub reference: String,
}

#[derive(Debug, Clone)]
struct Flight {
    name: Name,
    attempt: AttemptId,
    generation: u32,
    amount: u8,
    lands: u64,
    visible: u64,
}

/// An attempt whose future lives.
#[derive(Debug, Clone)]
pub struct Running {
    pub name: Name,
    pub generation: u32,
    pub amount: u8,
    pub sent: bool,
}

#[derive(Default)]
pub struct Truth {
    pub effects: BTreeMap<Name, Vec<Effect>>,
    flights: Vec<Flight>,
    /// Operations on which the destination broke its contract, or a person lied: more than one effect may be there.
    pub broken: BTreeSet<Name>,
    /// When an operation was last looked at honestly.
    pub looked: BTreeMap<Name, u64>,
    pub remembers: BTreeSet<Name>,
}

impl Truth {
    /// Time goes on: what is on its way lands.
    pub fn advance(&mut self, now: u64) {
        let (landed, flying): (Vec<_>, Vec<_>) = self.flights.drain(..).partition(|flight| flight.lands <= now);
        self.flights = flying;
        for flight in landed {
            let running = Running { name: flight.name, generation: flight.generation, amount: flight.amount, sent: true };
            self.land(&running, flight.attempt, flight.lands, flight.visible);
        }
    }

    fn land(&mut self, running: &Running, attempt: AttemptId, at: u64, visible: u64) -> String {
        let effects = self.effects.entry(running.name.clone()).or_default();
        if self.remembers.contains(&running.name) {
            let known = effects.iter().find(|effect| effect.generation == running.generation && effect.at + MEMORY > at);
            if let Some(known) = known {
                return known.reference.clone();
            }
        }
        let reference = format!("{}-{}.{}", running.name, attempt.claim, attempt.number);
        effects.push(Effect { attempt, generation: running.generation, amount: running.amount, at, visible, reference: reference.clone() });
        reference
    }

    /// A request arrives now, and its answer too.
    pub fn request(&mut self, running: &Running, attempt: AttemptId, now: u64) -> String {
        self.land(running, attempt, now, now)
    }

    /// A request is on its way, for `delay`, and is seen a while after it landed.
    pub fn send(&mut self, running: &Running, attempt: AttemptId, now: u64, delay: u64) {
        let lands = now + delay;
        if delay > QUIET {
            self.broken.insert(running.name.clone());
        }
        let visible = lands + (QUIET.saturating_sub(delay)) / 2;
        let Running { name, generation, amount, .. } = running.clone();
        self.flights.push(Flight { name, attempt, generation, amount, lands, visible });
    }

    /// Whether an attempt has had an effect, or a request on its way.
    pub fn may_have_effect(&self, name: &str, attempt: AttemptId) -> bool {
        let here = self.effects.get(name).is_some_and(|effects| effects.iter().any(|effect| effect.attempt == attempt));
        here || self.flights.iter().any(|flight| flight.name == name && flight.attempt == attempt)
    }

    /// What is seen of an operation.
    pub fn seen(&self, name: &str, now: u64) -> Vec<String> {
        let effects = self.effects.get(name).map(Vec::as_slice).unwrap_or_default();
        effects.iter().filter(|effect| effect.visible <= now).map(|effect| effect.reference.clone()).collect()
    }

    pub fn of(&self, name: &str) -> &[Effect] {
        self.effects.get(name).map(Vec::as_slice).unwrap_or_default()
    }
}
