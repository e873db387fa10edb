//! Owns waiting: behind an attempt of the same operation, for a back-off, or behind work of the lane that does; and the share of a
//! partition that it may hold.

use super::{
    Machine, WorkId,
    partition::Partition,
    work::{Assignment, Phase, Source, Work},
};
use crate::protocol::{key::KeyDigest, park::ParkReason, time::Now};

impl Machine {
    /// A repeat that comes while an attempt of its operation runs is suppressed for that reason, wherever it waits meanwhile.
    pub(super) fn note_running(&mut self, id: WorkId) {
        let Some(work) = self.works.get_mut(&id) else { return };
        if work.key().and_then(|key| self.keys.get(&key)).is_some_and(|entry| entry.busy_for(id)) {
            work.repeat = "running";
        }
    }

    pub(super) fn wait_for_key(&mut self, id: WorkId, key: &KeyDigest) {
        self.note_running(id);
        self.set_phase(id, Phase::Key);
        if let Some(entry) = self.keys.get_mut(key)
            && !entry.waiters.contains(&id)
        {
            entry.waiters.push_back(id);
        }
        self.mark_waiting(id);
    }

    /// Counts work behind a head that only waits as waiting too.
    pub(super) fn waits_behind(&mut self, assignment: Assignment, id: WorkId) {
        let Some(lane) = self.works.get(&id).map(|work| work.lane) else { return };
        let Some(partition) = self.partitions.get_mut(&assignment.partition) else { return };
        let head = partition.head(lane);
        if head.and_then(|head| self.works.get(&head)).is_some_and(|head| head.phase.waits())
            && let Some(partition) = self.partitions.get_mut(&assignment.partition)
        {
            partition.waiting.insert(id);
        }
    }

    fn mark_waiting(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else { return };
        let (Source::Slot(assignment), lane) = (work.source.clone(), work.lane) else { return };
        if let Some(partition) = self.partitions.get_mut(&assignment.partition) {
            let behind = partition.behind(lane, id);
            partition.waiting.insert(id);
            partition.waiting.extend(behind);
        }
    }

    pub(super) fn no_longer_waiting(&mut self, id: WorkId) {
        let Some(work) = self.works.get(&id) else { return };
        let (Source::Slot(assignment), lane) = (work.source.clone(), work.lane) else { return };
        if let Some(partition) = self.partitions.get_mut(&assignment.partition) {
            partition.waiting.remove(&id);
            for behind in partition.behind(lane, id) {
                partition.waiting.remove(&behind);
            }
        }
    }

    /// Waiting has a share: beyond half of the partition's bound the head of the oldest is parked, and resumed when it is due.
    pub(super) fn now_waiting(&mut self, id: WorkId, now: Now) {
        self.mark_waiting(id);
        let Some(Source::Slot(assignment)) = self.works.get(&id).map(|work| work.source.clone()) else { return };
        self.make_room(assignment, now);
    }

    /// Parks heads until the waiting ones hold no more than their share.
    fn make_room(&mut self, assignment: Assignment, now: Now) {
        let share = self.limits.partition_records_max / 2;
        while let Some(head) =
            self.partitions.get(&assignment.partition).filter(|p| p.waiting.len() > share).and_then(|p| self.oldest_head(p))
        {
            let Some(key) = self.works.get(&head).and_then(Work::key) else { return };
            let Some(known) = self.keys.get(&key).map(|entry| entry.known.clone()) else { return };
            self.park(head, ParkReason::Retry, Some(&known), "made room for others".into(), now);
        }
    }

    /// The head of the oldest waiting work that may be parked. A larger record need not be, for it only waits: it stays, and holds what
    /// is behind it.
    fn oldest_head(&self, partition: &Partition) -> Option<WorkId> {
        let mut heads = partition.waiting.iter().filter_map(|id| partition.head(self.works.get(id)?.lane));
        let may_leave = |work: &Work| work.phase.waits() && work.payload.bytes() <= self.limits.park_record_bytes_max;
        heads.find(|head| self.works.get(head).is_some_and(may_leave))
    }
}
