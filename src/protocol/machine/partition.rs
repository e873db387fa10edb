//! Owns the order within a partition: its lanes, its bounds, its watermark, and how far it is from being let go.

use super::{
    table::Table,
    work::{Assignment, Lane, WorkId},
};
use crate::protocol::{decision::Position, skip::Halted, time::Monotonic, watermark::Watermark};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

/// Whether a partition takes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// Admissions, facts and commits.
    Open,
    /// No new admissions; what runs may end, until then.
    Draining(Monotonic),
    /// Halted: its log makes no sense. No admissions and no commits until it is assigned again.
    Halted,
    /// Facts only.
    Closed,
}

/// A lane's work in its order. Most have no more than one.
#[derive(Debug)]
struct Queue {
    head: WorkId,
    behind: VecDeque<WorkId>,
}

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) assignment: Assignment,
    pub(super) topic: Arc<str>,
    pub(super) number: i32,
    pub(super) gate: Gate,
    /// The slot that it is halted at.
    pub(super) halted: Option<Box<Halted>>,
    pub(super) watermark: Watermark,
    /// The store's watermark at the assignment: slots below are rewound.
    pub(super) known_complete: i64,
    /// The watermark that is durable in the store, or on its way there.
    pub(super) marked: i64,
    /// A watermark is on its way to the store.
    pub(super) marking: Option<i64>,
    lanes: Table<Lane, Queue>,
    pub(super) works: BTreeSet<WorkId>,
    /// Bytes of their records.
    pub(super) bytes: u64,
    /// Work that only waits, oldest first.
    pub(super) waiting: BTreeSet<WorkId>,
    /// When it is next looked whether something that makes no progress fills the bound, at the earliest.
    pub(super) room_at: Monotonic,
    /// A timer for that is set.
    pub(super) watched: bool,
}

impl Partition {
    pub(super) fn new(assignment: Assignment, topic: Arc<str>, number: i32, start: i64, known_complete: i64) -> Self {
        Self {
            assignment,
            topic,
            number,
            gate: Gate::Open,
            halted: None,
            watermark: Watermark::starting_at(start),
            known_complete,
            marked: start,
            marking: None,
            lanes: Table::default(),
            works: BTreeSet::new(),
            bytes: 0,
            waiting: BTreeSet::new(),
            room_at: Monotonic(0),
            watched: false,
        }
    }

    /// Puts work at the end of its lane; true when it is at the head.
    pub(super) fn join_lane(&mut self, lane: Lane, work: WorkId) -> bool {
        let mut first = false;
        let queue = self.lanes.get_or_insert_with(lane, || {
            first = true;
            Queue { head: work, behind: VecDeque::new() }
        });
        if !first {
            queue.behind.push_back(work);
        }
        first
    }

    /// Takes work out of its lane, and names the new head when the old one left.
    pub(super) fn leave_lane(&mut self, lane: Lane, work: WorkId) -> Option<WorkId> {
        let queue = self.lanes.get_mut(&lane)?;
        if queue.head != work {
            queue.behind.retain(|other| *other != work);
            return None;
        }
        let Some(next) = queue.behind.pop_front() else {
            self.lanes.remove(&lane);
            return None;
        };
        queue.head = next;
        Some(next)
    }

    /// Whether a slot lies below what was complete at the assignment.
    pub(super) fn position(&self, offset: i64) -> Position {
        if offset < self.known_complete { Position::Rewound } else { Position::Current }
    }

    /// The head of a lane.
    pub(super) fn head(&self, lane: Lane) -> Option<WorkId> {
        self.lanes.get(&lane).map(|queue| queue.head)
    }

    /// The work that stands behind `head` in its lane.
    pub(super) fn behind(&self, lane: Lane, head: WorkId) -> Vec<WorkId> {
        let queue = self.lanes.get(&lane).into_iter();
        queue.flat_map(|queue| std::iter::once(&queue.head).chain(&queue.behind)).copied().filter(|work| *work != head).collect()
    }

    /// Whether nothing is on its way any more, so that the partition can be let go.
    pub(super) fn is_drained(&self) -> bool {
        self.works.is_empty() && self.marking.is_none()
    }
}
