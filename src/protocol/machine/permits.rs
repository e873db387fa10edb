//! Owns who may run now: finitely many permits, given out in turn over routes and tenants, so that one tenant's queue or hanging
//! handlers cannot take them all.

use super::work::WorkId;
use crate::protocol::time::Monotonic;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

/// Where work comes from. All take turns, so that none starves another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// Its partition.
    Slot,
    /// A parked record.
    Parked,
    /// Its partition, to be run again while its operation is in doubt.
    SlotAgain,
    /// A parked record, to be run again while its operation is in doubt.
    ParkedAgain,
}

impl Origin {
    pub(super) const PARKED: [Self; 2] = [Self::Parked, Self::ParkedAgain];

    fn is_parked(self) -> bool {
        Self::PARKED.contains(&self)
    }

    /// Whether it may settle what is unresolved: no pause for too much of that holds it back.
    fn is_again(self) -> bool {
        matches!(self, Self::SlotAgain | Self::ParkedAgain)
    }
}

/// How many of a kind may have permits at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pace {
    /// As many as there are.
    Any,
    /// One of all: work that was in doubt at an unclean stop, so that one poison record does not use up its neighbours' attempts.
    One,
}

/// Who may have a permit now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Anybody,
    /// Work that comes from a parked record.
    Parked,
}

/// Who asks: a route and a tenant, for one kind of work.
pub(super) type Asker = (usize, Arc<str>, Origin);

type Queue = (Asker, Pace);

#[derive(Debug)]
pub(super) struct Permits {
    free: usize,
    per_tenant_max: usize,
    held: BTreeMap<Arc<str>, usize>,
    /// Tenants that hold their whole share, and when they last got a permit.
    full: BTreeMap<Arc<str>, Monotonic>,
    queues: BTreeMap<Queue, VecDeque<WorkId>>,
    /// Which queue each piece of work stands in.
    asked: BTreeMap<WorkId, Queue>,
    /// The queue that was served last.
    turn: Option<Queue>,
    /// Who has the permit of those that go one at a time. Taken with the permit: what waits for one holds nobody else up.
    alone: Option<WorkId>,
    paused: BTreeSet<usize>,
    /// Routes that are asked before each attempt whether one may start.
    gates: BTreeMap<usize, Gate>,
}

/// What a route that is asked has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// It is not asked: none of its work could start.
    Idle,
    /// It is asked, and will say when one may.
    Asked,
    /// One attempt may start.
    Open,
}

impl Permits {
    pub(super) fn new(permits: usize, per_tenant_max: usize) -> Self {
        Self {
            free: permits,
            per_tenant_max: per_tenant_max.max(1),
            held: BTreeMap::new(),
            full: BTreeMap::new(),
            queues: BTreeMap::new(),
            asked: BTreeMap::new(),
            turn: None,
            alone: None,
            paused: BTreeSet::new(),
            gates: BTreeMap::new(),
        }
    }

    pub(super) fn ask(&mut self, asker: Asker, pace: Pace, work: WorkId) {
        self.withdraw(work);
        self.asked.insert(work, (asker.clone(), pace));
        self.queues.entry((asker, pace)).or_default().push_back(work);
    }

    /// Takes a piece of work out of its queue, if it stands in one.
    pub(super) fn withdraw(&mut self, work: WorkId) {
        let Some(of) = self.asked.remove(&work) else { return };
        if let Some(queue) = self.queues.get_mut(&of) {
            queue.retain(|other| *other != work);
            if queue.is_empty() {
                self.queues.remove(&of);
            }
        }
    }

    /// The next piece of work that gets a permit: after the asker that was served last, one that may have one.
    pub(super) fn grant(&mut self, who: Who, now: Monotonic) -> Option<WorkId> {
        if self.free == 0 {
            return None;
        }
        let after = match &self.turn {
            Some(turn) => (Bound::Excluded(turn.clone()), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let may = |of: &&Queue| {
            let (route, _, origin) = &of.0;
            let gate = self.gates.get(route).is_none_or(|gate| *gate == Gate::Open);
            gate && self.may_start(of) && (who == Who::Anybody || origin.is_parked())
        };
        let of = self.queues.range(after).map(|(of, _)| of).chain(self.queues.keys()).find(may)?.clone();
        let queue = self.queues.get_mut(&of)?;
        let work = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&of);
        }
        self.asked.remove(&work);
        if of.1 == Pace::One {
            self.alone = Some(work);
        }
        let asker = &of.0;
        self.free -= 1;
        let held = self.held.entry(asker.1.clone()).or_default();
        *held += 1;
        if *held >= self.per_tenant_max {
            self.full.insert(asker.1.clone(), now);
        }
        if let Some(gate) = self.gates.get_mut(&asker.0) {
            *gate = Gate::Idle;
        }
        self.turn = Some(of);
        Some(work)
    }

    /// Whether a permit may go to this queue, as far as its route, its tenant and its pace go.
    fn may_start(&self, ((route, tenant, origin), pace): &Queue) -> bool {
        (origin.is_again() || !self.paused.contains(route))
            && (*pace == Pace::Any || self.alone.is_none())
            && self.held.get(tenant).copied().unwrap_or(0) < self.per_tenant_max
    }

    /// What this piece of work did alone is over, if it was the one.
    pub(super) fn not_alone(&mut self, work: WorkId) {
        if self.alone == Some(work) {
            self.alone = None;
        }
    }

    /// From now on the route is asked before each of its attempts.
    pub(super) fn gate(&mut self, route: usize) {
        self.gates.insert(route, Gate::Idle);
    }

    /// The route says that one attempt may start.
    pub(super) fn open(&mut self, route: usize) {
        if let Some(gate) = self.gates.get_mut(&route).filter(|gate| **gate == Gate::Asked) {
            *gate = Gate::Open;
        }
    }

    /// The routes that are to be asked now: what they have queued could start but for their word.
    pub(super) fn asks(&mut self) -> Vec<usize> {
        if self.free == 0 || self.gates.is_empty() {
            return Vec::new();
        }
        let idle = |route: &usize| self.gates.get(route) == Some(&Gate::Idle);
        let routes: BTreeSet<usize> = self.queues.keys().filter(|of| self.may_start(of)).map(|of| of.0.0).filter(idle).collect();
        for route in &routes {
            self.gates.insert(*route, Gate::Asked);
        }
        routes.into_iter().collect()
    }

    pub(super) fn release(&mut self, tenant: &Arc<str>) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(tenant) {
            *held -= 1;
            self.full.remove(tenant);
            if *held == 0 {
                self.held.remove(tenant);
            }
        }
    }

    /// Whether others could start: a permit is free.
    pub(super) fn is_any_free(&self) -> bool {
        self.free > 0
    }

    /// Whether a tenant has held its whole share for so long, and got or gave back none.
    pub(super) fn is_stuck(&self, tenant: &str, now: Monotonic, grace: Duration) -> bool {
        self.full.get(tenant).is_some_and(|last| now.since(*last) >= grace)
    }

    /// How much of an asker's work waits for a permit.
    pub(super) fn queued(&self, asker: &Asker) -> usize {
        [Pace::Any, Pace::One].iter().filter_map(|pace| self.queues.get(&(asker.clone(), *pace))).map(VecDeque::len).sum()
    }

    /// Permits that one tenant may hold.
    pub(super) fn tenant_share(&self) -> usize {
        self.per_tenant_max
    }

    pub(super) fn pause(&mut self, route: usize) {
        self.paused.insert(route);
    }

    pub(super) fn resume(&mut self, route: usize) {
        self.paused.remove(&route);
    }

    pub(super) fn is_paused(&self, route: usize) -> bool {
        self.paused.contains(&route)
    }
}
