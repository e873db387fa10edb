//! Owns what people do: they look at the destination, decide, and sometimes lie. The production rule says what is admissible.

use super::{
    plan::{QUIET, Word},
    world::{Asked, World},
};
use receipted::{
    protocol::{
        known::Entry,
        machine::Event,
        note::Author,
        settle::{Act as Ask, AttemptName, Change, Decided, Scene, Settle, Settlement, Target, decide},
    },
    store::{ReceiptStore, Which},
};
use std::time::Duration;

impl World {
    /// A person does something about an operation in doubt, or parked, or rejected.
    pub fn operate(&mut self, which: usize, word: Word) {
        let list = if word == Word::Reopen { Which::All } else { Which::InDoubt };
        let keys: Vec<_> = self.store.list(list, None, 100).unwrap_or_default().into_iter().map(|(key, _)| key).collect();
        let parks = self.store.parked(None, 100);
        let act = match word {
            Word::DeadLetter | Word::Discard if parks.is_empty() => return,
            Word::DeadLetter => Ask::DeadLetter(Target::Park(parks[which % parks.len()].0.clone())),
            Word::Discard => Ask::Discard { target: Target::Park(parks[which % parks.len()].0.clone()), with_repeats: None },
            _ if keys.is_empty() => return,
            Word::Reopen => self.settle_of(keys[which % keys.len()], Settlement::Reopened, None),
            Word::AsSeen | Word::Wrong => {
                let key = keys[which % keys.len()];
                let (name, known) = (self.names[&key].clone(), self.known(key));
                let seen = self.truth.seen(&name, self.now);
                let there = (word == Word::AsSeen) != seen.is_empty();
                let names = known.receipt.undecided().into_iter().map(AttemptName::from).collect();
                let reference = seen.first().cloned().unwrap_or_else(|| "made up".into());
                if word == Word::Wrong {
                    self.truth.broken.insert(name);
                }
                match there {
                    true => self.settle_of(key, Settlement::Applied { reference }, None),
                    false => self.settle_of(key, Settlement::NotDone, Some(names)),
                }
            }
        };
        self.change(act, word == Word::Wrong);
    }

    fn settle_of(&self, key: receipted::protocol::key::KeyDigest, outcome: Settlement, attempts: Option<Vec<AttemptName>>) -> Ask {
        Ask::Settle(Settle { key, outcome, attempts, cannot_land_any_more: None, fresh_key: false })
    }

    fn change(&mut self, mut act: Ask, vouched: bool) {
        if let (Ask::Settle(settle), true) = (&mut act, vouched) {
            settle.cannot_land_any_more = Some("sure".into());
        }
        let change = Change { act, by: Author::Operator { name: "ann".into(), uid: 1 }, reason: "as told".into() };
        let slot = match &change.act {
            Ask::DeadLetter(Target::Park(park)) | Ask::Discard { target: Target::Park(park), .. } => {
                self.store.slots(std::slice::from_ref(&park.slot)).pop().unwrap_or_default()
            }
            _ => Default::default(),
        };
        let key = change.key().or(slot.parked.as_ref().and_then(|(_, note, _)| note.key));
        let known = key.map(|key| self.known(key)).unwrap_or_default();
        let machine = &self.machine;
        let future = |attempt| key.map_or(receipted::protocol::doubt::Future::Alive, |key| machine.future(key, attempt));
        let scene = Scene { known: &known, slot: &slot, halted: None, future, quiet: Duration::from_millis(QUIET), now: self.clock() };
        let decided = decide(&change, &scene);
        self.tell(|| format!("    an operator: {:?}: {decided:?}", change.act));
        match decided {
            Err(_) => self.saw("an operator is refused"),
            Ok(Decided::Write(entry)) => {
                self.saw("an operator changes something");
                if let Entry::End { park, .. } = &entry {
                    self.discarded.insert((usize::try_from(park.slot.partition).expect("valid"), park.slot.offset));
                }
                self.requests += 1;
                self.on(Event::Operator { request: self.requests, entry });
            }
            Ok(Decided::Skip(_)) => self.wrong("skip", "nobody asked for one".into()),
            Ok(Decided::DeadLetter { park, then, .. }) => {
                self.requests += 1;
                self.asked.push(Asked::Letter { request: self.requests, entry: then, slot: park.slot });
            }
        }
    }
}
