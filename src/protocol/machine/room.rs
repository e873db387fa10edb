//! Owns making room in a partition whose bound is full of work that makes no progress: behind an attempt that has been running for
//! long, or for a permit of a tenant whose share such attempts hold. A busy lane and a busy tenant move on all the time and are left
//! alone; so is everything while no permit is free, for then nobody could use the room.

use super::{
    Action, Machine, WorkId,
    partition::Partition,
    types::Timer,
    work::{Assignment, Lane, Phase, Work},
};
use crate::protocol::{
    decision::Decision,
    doubt::{self, Step},
    park::ParkReason,
    time::Now,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How many looks a grace has: what makes no progress is noticed that much later at most.
const LOOKS: u32 = 4;

impl Machine {
    /// Looks, now and again, whether what fills a partition's bound makes progress.
    pub(super) fn watch_bound(&mut self, assignment: Assignment, now: Now, actions: &mut Vec<Action>) {
        let (records, bytes) = (self.limits.partition_records_max, self.limits.partition_bytes_max);
        let again = self.limits.waiting_grace / LOOKS;
        let Some(partition) = self.open(assignment).filter(|p| p.works.len() >= records || p.bytes >= bytes) else { return };
        if !partition.watched {
            partition.watched = true;
            self.timer(now.monotonic.after(again), Timer::Room(assignment.partition));
        }
        if self.partitions.get(&assignment.partition).is_some_and(|partition| partition.room_at <= now.monotonic) {
            let stuck = self.make_room_for_others(assignment, now, actions);
            if let Some(partition) = self.open(assignment) {
                // Where something is stuck, what arrives behind it is looked at as it fills the bound again.
                partition.room_at = if stuck { now.monotonic } else { now.monotonic.after(again) };
            }
        }
    }

    pub(super) fn room_due(&mut self, index: usize, now: Now, actions: &mut Vec<Action>) {
        let Some(partition) = self.partitions.get_mut(&index) else { return };
        partition.watched = false;
        let assignment = partition.assignment;
        self.watch_bound(assignment, now, actions);
    }

    /// Sets work aside until what only waits holds no more than half of the bound: the newest first, of the tenant that has the most,
    /// so that what stays is handled in its order. True where as much as that is stuck.
    fn make_room_for_others(&mut self, assignment: Assignment, now: Now, actions: &mut Vec<Action>) -> bool {
        let Some(partition) = self.partitions.get(&assignment.partition) else { return false };
        let mut stuck = self.stuck(partition, now);
        if stuck.is_empty() {
            return false;
        }
        let all = || partition.waiting.iter().chain(stuck.values().flatten());
        let mut records = all().count();
        let mut bytes: u64 = all().filter_map(|id| self.works.get(id)).map(|work| work.payload.bytes()).sum();
        let share = (self.limits.partition_records_max / 2, self.limits.partition_bytes_max / 2);
        let full = records >= share.0 || bytes >= share.1;
        let mut sizes: BTreeSet<(usize, Arc<str>)> = stuck.iter().map(|(tenant, works)| (works.len(), tenant.clone())).collect();
        while records > share.0 || bytes > share.1 {
            let Some((size, tenant)) = sizes.pop_last() else { break };
            let Some(id) = stuck.get_mut(&tenant).and_then(Vec::pop) else { continue };
            sizes.insert((size.saturating_sub(1), tenant));
            records -= 1;
            bytes = bytes.saturating_sub(self.works.get(&id).map_or(0, |work| work.payload.bytes()));
            self.move_aside(assignment, id, now, actions);
        }
        full
    }

    /// The work of a partition that makes no progress and may be set aside, by tenant and in order.
    fn stuck(&self, partition: &Partition, now: Now) -> BTreeMap<Arc<str>, Vec<WorkId>> {
        let mut stuck: BTreeMap<Arc<str>, Vec<WorkId>> = BTreeMap::new();
        if !self.permits.is_any_free() || self.store_full.is_some() {
            return stuck;
        }
        for id in &partition.works {
            let Some(work) = self.works.get(id).filter(|work| self.may_move(partition, *id, work)) else { continue };
            let Some(subject) = &work.subject else { continue };
            let front = match work.phase {
                Phase::Permit => Some(work),
                Phase::Lane => partition.head(work.lane).filter(|head| head != id).and_then(|head| self.works.get(&head)),
                _ => None,
            };
            if front.is_some_and(|front| self.is_stuck(front, now)) {
                stuck.entry(subject.name.shared_tenant()).or_default().push(*id);
            }
        }
        stuck
    }

    /// What is in one lane with all of its partition makes no room for anybody, what may not be parked cannot, and in-doubt work of
    /// an unclean stop keeps its turn.
    fn may_move(&self, partition: &Partition, id: WorkId, work: &Work) -> bool {
        let small = work.payload.bytes() <= self.limits.park_record_bytes_max;
        let careful = work.key().is_some_and(|key| self.careful.contains(&key));
        small && !careful && work.lane != Lane::Partition && !partition.waiting.contains(&id)
    }

    fn is_stuck(&self, front: &Work, now: Now) -> bool {
        let grace = self.limits.waiting_grace;
        match (&front.phase, &front.subject) {
            (Phase::Running(_), _) => now.monotonic.since(front.since) >= grace,
            (Phase::Permit, Some(subject)) => self.permits.is_stuck(subject.name.tenant(), now.monotonic, grace),
            _ => false,
        }
    }

    /// Parks work that waits for an attempt, and ends what needs none.
    fn move_aside(&mut self, assignment: Assignment, id: WorkId, now: Now, actions: &mut Vec<Action>) {
        let Some(work) = self.works.get(&id) else { return };
        let Some(subject) = work.subject.clone() else { return };
        let Some(position) = self.partitions.get(&assignment.partition).map(|p| p.position(work.slot.offset)) else { return };
        let Some((known, decision)) = self.decision(id, position) else { return };
        let (lane, offset) = (work.lane, work.slot.offset);
        if work.phase == Phase::Permit && known.revision() != work.seen {
            self.permits.withdraw(id);
            return self.decide_afresh(id);
        }
        if work.phase == Phase::Lane {
            let used = known.receipt.budget_used(&work.slot);
            let policy = &self.routes[subject.route].policy;
            let waits = match decision {
                Decision::Run | Decision::Retry | Decision::Wait => true,
                Decision::InDoubt => matches!(doubt::step(policy, &known.receipt, now.wall, used), Step::Rerun { .. }),
                _ => false,
            };
            if !waits {
                return self.consider(id, now, actions);
            }
            self.aside.left_lane(subject.key, assignment, lane, offset);
        }
        self.aside.belongs(subject.key, subject.route, subject.name.tenant());
        self.park(id, ParkReason::Retry, Some(&known), "made room for others".into(), now);
    }
}
