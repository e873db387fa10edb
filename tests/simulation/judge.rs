//! Owns the invariants, by the ids of DESIGN: each is judged on the truth of the destination and on what is durable, never on what
//! the machine believes.

use super::{
    broker::Kind,
    destination::Running,
    world::{World, partition},
};
use receipted::{
    protocol::{
        known::Known,
        machine::AttemptKey,
        note::Ruling,
        park::{EndKind, Openness},
        policy::Contract,
        receipt::State,
    },
    store::{ReceiptStore, Which},
};
use std::sync::Arc;

impl World {
    /// A handler may start only when its admission is durable, and while no earlier attempt's effect is possible, unless the
    /// destination remembers.
    pub fn judge_start(&mut self, attempt: AttemptKey, running: &Running) {
        let known = self.known(attempt.0);
        if !known.receipt.admissions().contains_key(&attempt.1) {
            self.wrong("G4 admission", format!("{} starts {:?} without a durable admission", running.name, attempt.1));
        }
        if attempt.1.number > 1 {
            self.saw("an operation runs again");
        }
        if self.truth.remembers.contains(&running.name) || self.truth.broken.contains(&running.name) {
            return;
        }
        let alive = self.running.iter().find(|((key, other), _)| *key == attempt.0 && *other != attempt.1).map(|((_, other), _)| *other);
        let others = known.receipt.admissions();
        let possible = others
            .iter()
            .map(|(other, _)| *other)
            .find(|other| *other != attempt.1 && (Some(*other) == alive || self.truth.may_have_effect(&running.name, *other)));
        if let Some(other) = possible.or(alive) {
            let detail = format!("{} starts {:?} while the effect of {other:?} is possible", running.name, attempt.1);
            self.wrong("G2 no silent repeat", detail);
        }
    }

    /// A watermark may be durable, and an offset committed, only when every slot below is complete.
    pub fn judge_complete(&mut self, number: usize, offset: i64) {
        if offset > self.broker.logs[number].end() {
            self.wrong("G1 nothing lost", format!("partition {number} is committed at {offset}, above its end"));
        }
        for below in 0..offset {
            if self.complete.insert((number, below))
                && let Some(reason) = self.incomplete(number, below)
            {
                self.wrong("G1 nothing lost", format!("partition {number} counts as complete below {offset}; {below} is {reason}"));
            }
        }
    }

    /// Why a slot is not complete.
    fn incomplete(&self, number: usize, offset: i64) -> Option<String> {
        let row = self.broker.row(number, offset)?;
        if matches!(row.kind, Kind::Gap | Kind::Tombstone) {
            return None;
        }
        let slot = partition(number).slot(offset);
        let notes = self.store.slots(std::slice::from_ref(&slot)).pop().unwrap_or_default();
        let open = notes.parked.as_ref().is_some_and(|(_, _, openness)| *openness == Openness::Open);
        let ended = self.broker.dead_letters.contains_key(&(number, offset)) || self.discarded.contains(&(number, offset));
        if open || ended {
            return None;
        }
        if row.kind == Kind::NoKey {
            return Some("a record without a key, neither parked nor in the dead-letter topic".into());
        }
        let known = self.known(row.key().digest());
        let held = known.held.iter().find(|(_, slots)| slots.contains_key(&slot)).map(|(park, _)| park);
        let covered =
            held.is_some_and(|park| known.ends.get(park).is_none_or(|end| matches!(end.kind, EndKind::DeadLettered | EndKind::Discarded)));
        let same = known.receipt.fingerprint() == Some(row.fingerprint());
        // A rejection that a person took back is listed until somebody sends its record again; its slots are complete already.
        let reopened = known.receipt.verdicts().iter().any(|verdict| verdict.ruling == Ruling::Reopened);
        let settled = (known.receipt.state().is_settled() || reopened) && same;
        (!covered && !settled).then(|| format!("of {}, which is {}", row.name(), known.receipt.state().label()))
    }

    /// What is durable must be true.
    pub fn judge_known(&mut self, known: &Arc<Known>) {
        let Some(key) = known.key.as_ref() else { return };
        let Some(name) = self.names.get(&key.digest()).cloned() else { return };
        if self.truth.broken.contains(&name) {
            return;
        }
        let effects = self.truth.of(&name).len();
        match known.receipt.state() {
            State::Applied { .. } if effects == 0 => self.wrong("G5 no false done", format!("{name} says applied, and has no effect")),
            State::Applied { .. } => {
                let amount = self.truth.of(&name)[0].amount;
                let said = known.receipt.fingerprint();
                if said != Some(receipted::protocol::fingerprint::Fingerprint::Digest([amount; 16])) {
                    self.wrong("G6 changed parameters", format!("{name} says applied with {said:?}, and the effect has amount {amount}"));
                }
            }
            State::Rejected { .. } if effects > 0 => self.wrong("G5 no false rejected", format!("{name} says rejected, and has an effect")),
            _ => {}
        }
        if known.receipt.is_disputed() {
            self.saw("an operation is disputed");
        }
    }

    /// Where a destination can be asked, and a record tells what about, nobody is needed.
    pub fn judge_asked(&mut self) {
        for (key, name) in self.names.clone() {
            let asks = self
                .broker
                .logs
                .iter()
                .flat_map(|log| &log.rows)
                .find(|row| row.name() == name)
                .is_some_and(|row| matches!(self.setting.contracts[row.route].last(), Contract::Ask { .. }));
            let known = self.known(key);
            let record = known.open_parks().any(|(_, park)| park.reason.follows_operation());
            if asks && record && matches!(known.receipt.state(), State::InDoubt(_)) && !self.truth.broken.contains(&name) {
                self.wrong("liveness of asking", format!("{name} is in doubt, and its destination was not asked"));
            }
        }
    }

    /// How many effects each operation has, and whether they are told of.
    pub fn judge_effects(&mut self) {
        for (key, name) in self.names.clone() {
            let (effects, known) = (self.truth.of(&name).to_vec(), self.known(key));
            if effects.len() > 1 && !self.truth.broken.contains(&name) {
                self.wrong("G2 no silent repeat", format!("{name} took effect {} times: {effects:?}", effects.len()));
            }
            if effects.len() < 2 {
                continue;
            }
            self.saw("an operation took effect twice");
            let told = known.receipt.effects();
            let surfaced = told.extra_certain() + told.extra_suspected() > 0 || known.receipt.is_disputed();
            let visible = effects.iter().map(|effect| effect.visible).max().unwrap_or(0);
            let looked = self.truth.looked.get(&name).is_some_and(|at| *at >= visible);
            if surfaced {
                self.saw("a duplicate effect is told of");
            } else if looked {
                self.wrong(
                    "G3 uncertainty surfaces",
                    format!("{name} took effect {} times, was looked up, and nothing says so", effects.len()),
                );
            }
        }
    }

    /// After everything is well again.
    pub fn judge_end(&mut self) {
        for number in 0..self.setting.partitions {
            let (committed, end) = (self.broker.logs[number].committed.map_or(0, |(offset, _)| offset), self.broker.logs[number].end());
            if committed != end {
                let machine = format!("{:?}", self.machine);
                self.wrong("liveness", format!("partition {number} is committed at {committed} of {end}; {machine}"));
            }
            for offset in 0..end {
                if let Some(reason) = self.incomplete(number, offset) {
                    self.wrong("G1 nothing lost", format!("{offset} of partition {number} is {reason}"));
                }
            }
        }
        for key in self.names.clone().into_keys() {
            let known = self.known(key);
            self.judge_known(&known);
        }
        let left = self.store.count(Which::InDoubt);
        if left > 0 {
            self.wrong("liveness", format!("{left} operations are in doubt, and a person who looked could not settle them"));
        }
        self.judge_effects();
    }
}
