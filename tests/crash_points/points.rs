//! Owns the list of crash points, along the way of a record. `store/STAGE/KIND` is a stage of the group commit of a group that has such
//! a note: before the write, between write and sync, after the sync and before the progress note, after that, and before the answer.

/// What the process finds that comes to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing: it is the first one.
    Nothing,
    /// The store of one that was killed when handlers had run and their facts were not durable.
    Kill,
}

/// A point, and at which of its hits it is taken: in the ordinary run, and at length besides.
pub struct Point {
    pub name: &'static str,
    pub hits: &'static [u64],
    pub more: &'static [u64],
    pub before: Before,
}

const fn point(name: &'static str, hits: &'static [u64], more: &'static [u64]) -> Point {
    Point { name, hits, more, before: Before::Nothing }
}

const fn after_a_kill(name: &'static str, hits: &'static [u64], more: &'static [u64]) -> Point {
    Point { name, hits, more, before: Before::Kill }
}

/// Those between taking the directory and this start's durable claim.
pub const IN_THE_OPEN: &[&str] = &[
    "open/taken",
    "open/unread",
    "open/read",
    "store/unwritten/claim",
    "store/unsynced/claim",
    "store/unnoted/claim",
    "store/unshown/claim",
    "open/claimed",
    "open/filled",
];

/// Those between taking up what is open and its verdict.
pub const IN_RECONCILE: &[&str] = &[
    "reconcile/taken_up",
    "lookup/unasked",
    "lookup/answered",
    "engine/looked_up",
    "store/unwritten/verdict",
    "store/unsynced/verdict",
    "store/unanswered/verdict",
];

pub const POINTS: &[Point] = &[
    // The open of a store that a kill left, up to the durable claim of this start.
    after_a_kill("open/taken", &[1], &[]),
    after_a_kill("open/unread", &[], &[1]),
    after_a_kill("open/read", &[1], &[]),
    after_a_kill("store/unwritten/claim", &[], &[1]),
    after_a_kill("store/unsynced/claim", &[1], &[]),
    after_a_kill("store/unnoted/claim", &[], &[1]),
    after_a_kill("store/unshown/claim", &[1], &[]),
    after_a_kill("open/claimed", &[1], &[]),
    after_a_kill("open/filled", &[], &[1]),
    // A store's very first open.
    point("store/unsynced/store", &[], &[1]),
    // What is in doubt or parked is taken up.
    after_a_kill("reconcile/taken_up", &[1], &[]),
    // The group and its partitions.
    point("start/unbound", &[1], &[]),
    point("store/unsynced/binding", &[], &[1]),
    point("start/bound", &[], &[1]),
    point("assign/begun", &[1], &[]),
    point("assign/taken", &[], &[1]),
    point("assign/waiting", &[1], &[]),
    point("assign/noted", &[], &[1]),
    point("assign/told", &[1], &[]),
    point("engine/assigned", &[], &[1]),
    // A record comes.
    point("intake/unread", &[1], &[4]),
    point("intake/read", &[4], &[1]),
    point("intake/decided", &[], &[1]),
    point("engine/arrived", &[], &[1]),
    // It is admitted. The first admission of a store, and the first fact, are those of its self-test.
    point("attempt/unprepared", &[1], &[]),
    point("store/unwritten/admission", &[2], &[4]),
    point("store/unsynced/admission", &[2, 4], &[]),
    point("store/unnoted/admission", &[2], &[4]),
    point("store/unshown/admission", &[2], &[4]),
    point("store/unanswered/admission", &[4], &[2]),
    point("engine/appended", &[], &[1, 5]),
    // Its handler runs.
    point("attempt/admitted", &[1, 12], &[5]),
    point("attempt/started", &[5], &[1, 12]),
    point("attempt/ended", &[1, 5, 12], &[]),
    point("engine/finished", &[5], &[1, 12]),
    // Its fact.
    point("store/unwritten/fact", &[2], &[4]),
    point("store/unsynced/fact", &[2, 4], &[]),
    point("store/unnoted/fact", &[4], &[2]),
    point("store/unshown/fact", &[2], &[4]),
    point("store/unanswered/fact", &[4], &[2]),
    // Or its doubt, its place among what is parked, and what becomes of that.
    point("store/unwritten/doubt", &[], &[1]),
    point("store/unsynced/doubt", &[1], &[]),
    point("store/unanswered/doubt", &[], &[1]),
    point("store/unwritten/park", &[1], &[]),
    point("store/unsynced/park", &[1], &[]),
    point("store/unnoted/park", &[], &[1]),
    point("store/unshown/park", &[1], &[]),
    point("store/unanswered/park", &[1], &[]),
    point("store/unsynced/held", &[], &[1]),
    point("lookup/unasked", &[1], &[3]),
    point("lookup/answered", &[1], &[3]),
    point("engine/looked_up", &[], &[1, 3]),
    point("store/unwritten/verdict", &[], &[1]),
    point("store/unsynced/verdict", &[1], &[]),
    point("store/unanswered/verdict", &[1], &[]),
    point("unpark/unread", &[1], &[]),
    point("engine/unparked", &[], &[1]),
    point("store/unwritten/end", &[], &[1]),
    point("store/unsynced/end", &[1], &[]),
    point("store/unnoted/end", &[], &[1]),
    point("store/unanswered/end", &[], &[1]),
    // A dead letter, and that its slot is closed.
    point("letter/unsent", &[1], &[3]),
    point("letter/sent", &[1], &[3]),
    point("engine/dead_lettered", &[], &[1, 3]),
    point("store/unwritten/closed", &[1], &[]),
    point("store/unsynced/closed", &[1], &[]),
    point("store/unshown/closed", &[], &[1]),
    point("store/unanswered/closed", &[], &[1]),
    // An answer is handed on.
    point("reply/unsent", &[1], &[]),
    point("reply/sent", &[1], &[]),
    point("engine/replied", &[], &[1]),
    // The watermark, and the offset.
    point("store/unwritten/marks", &[2], &[1, 3]),
    point("store/unsynced/marks", &[2], &[1, 3]),
    point("store/unnoted/marks", &[], &[1, 2]),
    point("store/unshown/marks", &[], &[1, 2]),
    point("store/unanswered/marks", &[3], &[1, 2]),
    point("commit/asked", &[], &[1, 2]),
    point("commit/unstored", &[1], &[2]),
    point("commit/stored", &[1], &[2]),
    point("commit/sent", &[2], &[1]),
    point("commit/unconfirmed", &[1], &[2]),
    point("engine/committed", &[], &[1, 2]),
    // The stop.
    point("stop/begun", &[], &[1]),
    point("stop/drained", &[1], &[]),
    point("revoke/begun", &[], &[1]),
    point("engine/revoked", &[], &[1]),
    point("revoke/drained", &[1], &[]),
    point("engine/stopped", &[], &[1]),
    point("store/unwritten/stop", &[], &[1]),
    point("store/unsynced/stop", &[1], &[]),
    point("store/unnoted/stop", &[], &[1]),
    point("close/noted", &[1], &[]),
    point("close/let_go", &[], &[1]),
];
