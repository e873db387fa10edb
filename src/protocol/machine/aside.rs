//! Owns the order in which parked records come up again: those that were set aside behind others of their lane once these have left,
//! those whose back-off lasts once it is over, and for each route and tenant only so many at once as it may have permits, in the order
//! of their slots.

use super::{
    Action, Bound, Machine, WorkId,
    permits::{Asker, Origin},
    types::StartKind,
    work::{Assignment, Lane, Source},
};
use crate::protocol::{
    key::KeyDigest,
    known::Known,
    note::Slot,
    park::ParkId,
    receipt::State,
    time::{Monotonic, Now},
};
use std::collections::{BTreeMap, BTreeSet};

type Waiting = (ParkId, KeyDigest);

/// Parked records whose turn has not come.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// Whose they are: nothing of a new operation is stored but its digest. After a restart its record tells.
    of: BTreeMap<KeyDigest, Asker>,
    /// The place in its lane that a record left when it was set aside.
    left: BTreeMap<KeyDigest, (Assignment, Lane, i64)>,
    /// Those whose lane has not come to their place yet, by offset.
    lanes: BTreeMap<(Assignment, Lane), BTreeMap<i64, (Waiting, Asker)>>,
    /// Those who wait for their turn.
    queues: BTreeMap<Asker, BTreeSet<Waiting>>,
    /// Those whose turn it is, until they wait for a permit.
    waking: BTreeMap<KeyDigest, Asker>,
    waking_of: BTreeMap<Asker, usize>,
    /// How many records each has in memory that were read from where they are parked.
    read_of: BTreeMap<Asker, usize>,
    /// Until when an operation's back-off lasts, and before which attempt.
    rests: BTreeMap<KeyDigest, (u32, Monotonic)>,
}

impl Aside {
    /// Remembers what stood before a record that is set aside.
    pub(super) fn left_lane(&mut self, key: KeyDigest, assignment: Assignment, lane: Lane, offset: i64) {
        self.left.insert(key, (assignment, lane, offset));
    }

    /// Its turn is over, one way or the other.
    pub(super) fn resumed(&mut self, key: &KeyDigest) {
        if let Some(asker) = self.waking.remove(key) {
            one_less(&mut self.waking_of, &asker);
        }
    }

    /// A record that was read is carried from here on.
    pub(super) fn read(&mut self, route: usize, tenant: &str) {
        *self.read_of.entry((route, tenant.into(), Origin::Parked)).or_default() += 1;
    }

    /// It is not carried any more.
    pub(super) fn dropped(&mut self, route: usize, tenant: &str) {
        one_less(&mut self.read_of, &(route, tenant.into(), Origin::Parked));
    }

    /// Nothing of an operation is to be resumed any more.
    pub(super) fn forget(&mut self, key: &KeyDigest) {
        self.left.remove(key);
        self.of.remove(key);
        self.rests.remove(key);
    }

    /// Remembers whose operation it is.
    pub(super) fn belongs(&mut self, key: KeyDigest, route: usize, tenant: &str) {
        self.of.insert(key, (route, tenant.into(), Origin::Parked));
    }

    fn wake(&mut self, key: KeyDigest, asker: Asker) {
        self.resumed(&key);
        *self.waking_of.entry(asker.clone()).or_default() += 1;
        self.waking.insert(key, asker);
    }

    fn waking_of(&self, asker: &Asker) -> usize {
        self.waking_of.get(asker).copied().unwrap_or(0)
    }

    /// How many records of its route and tenant are in memory, or about to be.
    fn carried_of(&self, (route, tenant, _): &Asker) -> usize {
        let all = Origin::PARKED.map(|origin| (*route, tenant.clone(), origin));
        all.iter().map(|asker| self.waking_of(asker) + self.read_of.get(asker).copied().unwrap_or(0)).sum()
    }
}

fn one_less(counts: &mut BTreeMap<Asker, usize>, asker: &Asker) {
    if let Some(count) = counts.get_mut(asker) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(asker);
        }
    }
}

impl Machine {
    /// Whether a parked record may be read and run now; otherwise it waits for its turn.
    pub(super) fn has_turn(&mut self, key: KeyDigest, known: &Known, route: usize, park: &ParkId) -> bool {
        if self.aside.waking.contains_key(&key) {
            return true;
        }
        let asker = match (&known.key, self.aside.of.get(&key)) {
            (Some(name), _) if matches!(known.receipt.state(), State::InDoubt(_)) => (route, name.shared_tenant(), Origin::ParkedAgain),
            (Some(name), _) => (route, name.shared_tenant(), Origin::Parked),
            (None, Some(asker)) => asker.clone(),
            (None, None) => (usize::MAX, "".into(), Origin::Parked),
        };
        if let Some((assignment, lane, offset)) = self.aside.left.remove(&key)
            && self.is_before(assignment, lane, offset)
        {
            self.aside.left_lane(key, assignment, lane, offset);
            self.aside.lanes.entry((assignment, lane)).or_default().insert(offset, ((park.clone(), key), asker));
            return false;
        }
        if !self.aside.queues.contains_key(&asker) && self.may_wake(&asker) {
            self.aside.wake(key, asker);
            return true;
        }
        self.aside.queues.entry(asker).or_default().insert((park.clone(), key));
        false
    }

    /// Whether a record that was read may wait for a permit; otherwise it goes back until it is its tenant's turn.
    pub(super) fn keeps_turn(&mut self, key: KeyDigest, park: &ParkId, route: usize, tenant: &str) -> bool {
        let unknown = !self.aside.of.contains_key(&key) && self.aside.waking.get(&key).is_some_and(|asker| asker.0 == usize::MAX);
        self.aside.resumed(&key);
        self.aside.belongs(key, route, tenant);
        let asker = (route, tenant.into(), Origin::Parked);
        if unknown && (self.aside.queues.contains_key(&asker) || !self.may_wake(&asker)) {
            self.aside.queues.entry(asker).or_default().insert((park.clone(), key));
            return false;
        }
        true
    }

    /// Brings up those whose turn has come.
    pub(super) fn resume_next(&mut self, actions: &mut Vec<Action>) {
        if (self.aside.lanes.is_empty() && self.aside.queues.is_empty()) || self.store_full == Some(Bound::Space) || self.is_stopping() {
            return;
        }
        let lanes: Vec<(Assignment, Lane)> = self.aside.lanes.keys().copied().collect();
        for (assignment, lane) in lanes {
            self.pass_lane(assignment, lane);
        }
        let askers: Vec<Asker> = self.aside.queues.keys().cloned().collect();
        for asker in askers {
            while self.may_wake(&asker) {
                let Some((_, key)) = self.aside.queues.get_mut(&asker).and_then(BTreeSet::pop_first) else { break };
                self.aside.wake(key, asker.clone());
                actions.push(Action::Load { key });
            }
            if self.aside.queues.get(&asker).is_some_and(BTreeSet::is_empty) {
                self.aside.queues.remove(&asker);
            }
        }
    }

    /// Lets those go on whose place their lane has come to.
    fn pass_lane(&mut self, assignment: Assignment, lane: Lane) {
        while let Some((&offset, ((park, key), asker))) = self.aside.lanes.get(&(assignment, lane)).and_then(BTreeMap::first_key_value) {
            let (waiting, asker) = ((park.clone(), *key), asker.clone());
            if self.is_before(assignment, lane, offset) {
                return;
            }
            self.aside.left.remove(&waiting.1);
            self.aside.queues.entry(asker).or_default().insert(waiting);
            if let Some(lane) = self.aside.lanes.get_mut(&(assignment, lane)) {
                lane.remove(&offset);
            }
        }
        self.aside.lanes.remove(&(assignment, lane));
    }

    /// As many as may have permits at once, and with those that run or end twice as many; more would only hold their records in memory.
    /// What is in doubt is counted apart: others that a pause of their route holds back leave it room.
    fn may_wake(&self, asker: &Asker) -> bool {
        let share = self.permits.tenant_share();
        self.aside.waking_of(asker) + self.permits.queued(asker) < share && self.aside.carried_of(asker) < share.saturating_mul(2)
    }

    /// Until when the back-off before an operation's next attempt for this slot lasts; none when it is over, or none is due.
    pub(super) fn rests_until(&mut self, key: KeyDigest, known: &Known, route: usize, slot: &Slot, now: Now) -> Option<Monotonic> {
        let used = known.receipt.budget_used(slot);
        let wait = self.routes.get(route).filter(|_| used > 0)?.policy.back_off.wait(used);
        let (next, fresh) = (known.receipt.next_number(), now.monotonic.after(wait));
        let rest = self.aside.rests.entry(key).or_insert((next, fresh));
        if rest.0 != next {
            *rest = (next, fresh);
        }
        Some(rest.1).filter(|until| *until > now.monotonic)
    }

    /// Asks for a permit for a record that was read, or sends it back to where it is parked until its back-off is over. False for other
    /// work, and where nobody but this record knows that it may run again.
    pub(super) fn asks_or_rests(&mut self, id: WorkId, kind: StartKind, now: Now) -> bool {
        let Some(work) = self.works.get(&id).filter(|work| matches!(work.source, Source::Parked(_))) else { return false };
        let (slot, Some(subject)) = (work.slot.clone(), work.subject.clone()) else { return false };
        let Some(known) = self.keys.get(&subject.key).map(|entry| entry.known.clone()) else { return false };
        if kind == StartKind::Rerun && !self.rerun_waits(&known, subject.route, now) {
            return false;
        }
        match self.rests_until(subject.key, &known, subject.route, &slot, now) {
            None => self.ask_permit(id, kind),
            Some(until) => {
                self.remove(id);
                self.attend_at(subject.key, until, subject.route);
            }
        }
        true
    }

    /// Whether something of the lane still stands before this offset.
    fn is_before(&self, assignment: Assignment, lane: Lane, offset: i64) -> bool {
        let partition = self.partitions.get(&assignment.partition).filter(|partition| partition.assignment == assignment);
        let head = partition.and_then(|partition| partition.head(lane)).and_then(|head| self.works.get(&head));
        head.is_some_and(|head| head.slot.offset < offset)
    }

    /// Whether work of a partition stands behind other work of its lane. A record without an operation has no place in one.
    pub(super) fn is_behind(&self, id: WorkId) -> bool {
        let Some(work) = self.works.get(&id).filter(|work| work.subject.is_some()) else { return false };
        let Source::Slot(assignment) = work.source else { return false };
        let head = self.partitions.get(&assignment.partition).and_then(|partition| partition.head(work.lane));
        head.is_some_and(|head| head != id)
    }
}
