//! Owns why a person's change is refused, and what to do instead.

use super::{
    doubt,
    note::{AttemptId, Slot},
    park::ParkId,
    settle::AttemptName,
};
use std::collections::BTreeSet;

/// Why a change is refused. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Shorten the text, or give one.
    #[error("{what} {problem}; it may have 1 to {max} bytes")]
    Text {
        /// `name` or `reason`.
        what: &'static str,
        /// What is wrong with it.
        problem: &'static str,
        /// Bytes, at most.
        max: usize,
    },
    /// Wait: an attempt runs, its fact is on the way, or a lost request can still land.
    #[error(transparent)]
    Doubt(#[from] doubt::Refusal),
    /// Look at the operation's state.
    #[error("{reason}")]
    DoesNotFit {
        /// In words.
        reason: &'static str,
    },
    /// Give the destination's reference for the effect.
    #[error("applied needs the destination's reference")]
    NoReference,
    /// Name the attempts.
    #[error("{} attempts are in doubt, and a negative verdict names those that it speaks of", .in_doubt.len())]
    NameAttempts {
        /// The attempts in doubt.
        in_doubt: BTreeSet<AttemptId>,
    },
    /// Name an attempt that is in doubt.
    #[error("attempt {name} names none, or more than one, of the attempts in doubt")]
    NotInDoubt {
        /// As it was named.
        name: AttemptName,
        /// The attempts in doubt.
        in_doubt: BTreeSet<AttemptId>,
    },
    /// Settle every attempt in doubt first, or with it.
    #[error("a fresh key is given only when nothing stays in doubt: it would switch the destination's own protection off")]
    FreshKeyInDoubt,
    /// Leave the fresh key out.
    #[error("a fresh key is for an operation that runs again: one that is retryable, or is being reopened")]
    FreshKeyUnused,
    /// Say why the earlier attempt cannot land.
    #[error("that attempt {} had no effect is a verdict, not its own word; a fresh key would let it happen twice", .attempt.number)]
    FreshKeyOnVerdict {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Nothing is parked there.
    #[error("no record is parked there")]
    NoNote,
    /// See where it stands with `partitions list`.
    #[error("{}", match .at { Some(slot) => format!("its partition is halted at {slot}"), None => "its partition is not halted at a record".into() })]
    NotHalted {
        /// Where its partition does stand, if it is halted at a record.
        at: Option<Slot>,
    },
    /// End that note first: its record is another one.
    #[error("another record is parked for this slot: {}#{}", .park.slot, .park.number)]
    ParkedThere {
        /// The note.
        park: ParkId,
    },
    /// Name a partition that is here.
    #[error("no partition of that name is assigned to this process")]
    NoPartition,
    /// Mend what halted it.
    #[error("the partition is halted: {reason}")]
    Halted {
        /// Why.
        reason: String,
    },
    /// Somebody or something was faster.
    #[error("park note {}#{} has ended already", .park.slot, .park.number)]
    NoteEnded {
        /// The note.
        park: ParkId,
    },
    /// Name one of the notes.
    #[error("several records are parked for this operation")]
    SeveralNotes {
        /// The first of them.
        parks: Vec<ParkId>,
    },
    /// Settle the operation first.
    #[error("the operation is in doubt; throwing its record away would leave nothing to settle it from")]
    DiscardInDoubt,
    /// Acknowledge how many repeats go with it.
    #[error("{held} held repeats go with this record")]
    Repeats {
        /// How many.
        held: usize,
    },
    /// Look again, and decide afresh.
    #[error("the operation changed while this was decided")]
    Moved,
    /// Mend the topic; the record stays parked.
    #[error("the dead-letter topic did not take it: {reason}")]
    NotTaken {
        /// The client's words.
        reason: String,
    },
    /// The process cannot do it now.
    #[error("not possible now: {reason}")]
    Unavailable {
        /// In words.
        reason: String,
    },
}

impl Refused {
    /// The name for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
            Self::Doubt(doubt::Refusal::StillRuns { .. }) => "still_runs",
            Self::Doubt(doubt::Refusal::FactPending { .. }) => "fact_pending",
            Self::Doubt(doubt::Refusal::Quiet { .. }) => "quiet",
            Self::DoesNotFit { .. } => "does_not_fit",
            Self::NoReference => "no_reference",
            Self::NameAttempts { .. } => "name_attempts",
            Self::NotInDoubt { .. } => "not_in_doubt",
            Self::FreshKeyInDoubt => "fresh_key_in_doubt",
            Self::FreshKeyUnused => "fresh_key_unused",
            Self::FreshKeyOnVerdict { .. } => "fresh_key_on_verdict",
            Self::NoNote => "no_note",
            Self::NotHalted { .. } => "not_halted",
            Self::ParkedThere { .. } => "parked_there",
            Self::NoPartition => "no_partition",
            Self::Halted { .. } => "halted",
            Self::NoteEnded { .. } => "note_ended",
            Self::SeveralNotes { .. } => "several_notes",
            Self::DiscardInDoubt => "discard_in_doubt",
            Self::Repeats { .. } => "repeats",
            Self::Moved => "moved",
            Self::NotTaken { .. } => "not_taken",
            Self::Unavailable { .. } => "unavailable",
        }
    }

    /// What to do instead.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Text { what, .. } => format!("give a shorter --{}", if *what == "name" { "by" } else { what }),
            Self::Doubt(doubt::Refusal::StillRuns { .. }) => {
                "wait until it has ended; at the latest its route's detached_max ends it".into()
            }
            Self::Doubt(doubt::Refusal::FactPending { .. }) | Self::Moved => "look again with `operations show`, and decide afresh".into(),
            Self::Doubt(doubt::Refusal::Quiet { left, .. }) => {
                format!("wait {} s, or say --cannot-land-any-more REASON if you know better", left.as_secs() + 1)
            }
            Self::DoesNotFit { .. } | Self::NoNote | Self::NoteEnded { .. } => "see its state and notes with `operations show`".into(),
            Self::NotHalted { .. } | Self::NoPartition => "see where partitions stand with `partitions list`".into(),
            Self::ParkedThere { park } => {
                format!("end that note first: `operations dead-letter --park {}#{}`, or discard it", park.slot, park.number)
            }
            Self::Halted { .. } => "mend what it names, or go on without its record with `partitions skip`".into(),
            Self::NoReference => "find the effect at the destination and give --reference R".into(),
            Self::NameAttempts { in_doubt } | Self::NotInDoubt { in_doubt, .. } => {
                let names: Vec<String> = in_doubt.iter().map(|attempt| AttemptName::from(*attempt).to_string()).collect();
                if names.is_empty() {
                    "no attempt is in doubt".into()
                } else {
                    format!("name those that you checked: --attempts {}", names.join(","))
                }
            }
            Self::FreshKeyInDoubt => "name every attempt in doubt, or give the fresh key when the operation is retryable".into(),
            Self::FreshKeyUnused => "leave --fresh-key out".into(),
            Self::FreshKeyOnVerdict { .. } => "check the destination, and say --cannot-land-any-more REASON".into(),
            Self::SeveralNotes { parks } => {
                let names: Vec<String> = parks.iter().map(|park| format!("{}#{}", park.slot, park.number)).collect();
                format!("name one with --park, such as {}", names.join(" or "))
            }
            Self::DiscardInDoubt => "settle it first with `operations settle`".into(),
            Self::Repeats { held: 0 } => "leave --with-repeats out: none is held any more".into(),
            Self::Repeats { held } => format!("say --with-repeats {held} to throw them away too"),
            Self::NotTaken { .. } => "mend the dead-letter topic and ask again; the record stays parked".into(),
            Self::Unavailable { .. } => "see the health page and the log".into(),
        }
    }
}
