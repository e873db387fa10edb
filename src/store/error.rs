//! Owns why a store cannot go on, and what to do about it.

use crate::protocol::{machine::Bound, secret::SecretFingerprint};
use std::{fmt, path::PathBuf};

/// Why the store cannot go on.
///
/// ```
/// # use receipted::{protocol::machine::Bound, store::{Error, ReceiptStore, memory::MemoryStore}};
/// /// Whether work that waits for the store may go on later: all other errors are final, and a restart reads back what is durable.
/// fn may_go_on(error: &Error) -> bool {
///     error.bound().is_some()
/// }
/// let store = MemoryStore::new();
/// store.set_parked_bytes_max(0);
/// assert!(store.pressure().is_some_and(|error| may_go_on(&error)));
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Stop the other process, or give this one a directory of its own.
    #[error("store at {directory:?} is in use by another process{}", .pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    InUse {
        /// The store's directory.
        directory: PathBuf,
        /// The process that holds it, where it can be told.
        pid: Option<u32>,
    },
    /// Copy the directory aside before anything else, also before another start; then run `receipted store verify`. Restore it from an
    /// older copy, or `receipted store adopt` with an empty one. It is not copied automatically: restarts would fill the disk.
    #[error(
        "store at {directory:?} is damaged: {detail}; nothing of it was deleted: copy the directory aside before anything else, then run `receipted store verify`"
    )]
    Corrupt {
        /// The store's directory.
        directory: PathBuf,
        /// What was found, and where.
        detail: String,
    },
    /// Put the store's directory on a local disk with ext4 or xfs, or say with `store.file_system = "any"` that its syncs and locks hold.
    #[error("store at {directory:?} would lie on {kind}, {why}; use a local disk with ext4 or xfs, or set `store.file_system = \"any\"`")]
    FileSystem {
        /// The store's directory.
        directory: PathBuf,
        /// Its file system.
        kind: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The store was written by another version of receipted.
    #[error("store at {directory:?} has format {found}, and this program reads {expected}")]
    Format {
        /// The store's directory.
        directory: PathBuf,
        /// What it has.
        found: u32,
        /// What is read.
        expected: u32,
    },
    /// Point the configuration at the store of this cluster and group, or give it a fresh directory and adopt the group's offsets.
    #[error(
        "store belongs to {what} {bound:?}, and this run names {given:?}; use the store of that {what}, or a fresh directory, which `receipted store adopt` makes"
    )]
    Foreign {
        /// `cluster` or `group`.
        what: &'static str,
        /// What the store is bound to.
        bound: String,
        /// What this run names.
        given: String,
    },
    /// Start with the store's own secret; another comes in by an export and an import, which makes the digests anew.
    #[error(
        "store at {directory:?} {problem}; name the store's secret in `store.key_secret_file`, or make its digests anew by `receipted store export` and `receipted store import`"
    )]
    Secret {
        /// The store's directory.
        directory: PathBuf,
        /// What does not go together.
        problem: SecretProblem,
    },
    /// The disk refused. What was not acknowledged may be lost; restart to read back what is there.
    #[error("store cannot {action}: {detail}; {}", remedy(detail))]
    Io {
        /// What was tried.
        action: &'static str,
        /// The operating system's words.
        detail: String,
    },
    /// An earlier write or sync failed, and the store takes nothing more.
    #[error("store stopped after a failed write: {detail}")]
    Stopped {
        /// The first failure.
        detail: String,
    },
    /// The note does not fit into an entry. Nothing of its batch was written. Cut the answer or the reason; it is a bug of the caller.
    #[error("{what} has {bytes} bytes, more than the store's {limit}")]
    TooLarge {
        /// Which part of the note.
        what: &'static str,
        /// How long it is.
        bytes: u64,
        /// How long it may be.
        limit: u64,
    },
    /// Nothing was started. Copy the directory aside and run `receipted store verify`; on sound data it is a bug of the store.
    #[error(
        "the store failed its self-test: {detail}; nothing was started, for effects could be doubled: copy its directory aside, run `receipted store verify`, and where that finds nothing report it as a bug"
    )]
    SelfTest {
        /// What it did.
        detail: String,
    },
    /// A bound of the store is reached, and nothing of the batch was written; completions are still taken.
    #[error("store is at its bound of {limit} ({what})")]
    Full {
        /// Which bound.
        what: &'static str,
        /// Its value.
        limit: u64,
    },
}

/// The bound whose room is made by what is parked.
pub(in crate::store) const PARKED_BYTES: &str = "parked_bytes_max";

/// What is wrong with a secret. It names secrets by their fingerprints.
///
/// A part of [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretProblem {
    /// The store's digests are made with a secret, and this run has none.
    Missing(SecretFingerprint),
    /// The store's digests are made with another secret.
    Other {
        /// The store's.
        bound: SecretFingerprint,
        /// This run's.
        given: SecretFingerprint,
    },
    /// The store has operations whose digests are made without one.
    Filled(u64),
}

impl fmt::Display for SecretProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(bound) => write!(f, "knows operations by digests made with the secret {bound}, and this run has none"),
            Self::Other { bound, given } => {
                write!(f, "knows operations by digests made with the secret {bound}, and this run has the secret {given}")
            }
            Self::Filled(operations) => {
                write!(
                    f,
                    "knows {operations} operations by digests made without a secret, and this run has one: it would know none of them again"
                )
            }
        }
    }
}

impl Error {
    /// Which bound the store is at; none for any other error.
    #[must_use]
    pub fn bound(&self) -> Option<Bound> {
        match self {
            Self::Full { what: PARKED_BYTES, .. } => Some(Bound::ParkedBytes),
            Self::Full { .. } => Some(Bound::Space),
            _ => None,
        }
    }
}

/// What to do about the operating system's words.
fn remedy(detail: &str) -> &'static str {
    let is = |number: &str| detail.ends_with(&format!("(os error {number})"));
    if is("28") || is("122") {
        "free space on its disk, then start again"
    } else if is("30") || is("13") || is("1") {
        "let this user write there, then start again"
    } else {
        "look at its disk and its directory, then start again"
    }
}
