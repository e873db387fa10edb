//! Owns what goes into a file and comes out of it: the export of a stopped store, and the new store that an import makes of one. The
//! bytes are in `docs/EXPORT_FORMAT.md`. It does not own the store's own bytes, nor when an imported store may run.

mod export;
mod file;
mod import;
mod rekey;

pub use export::{Exported, export};
pub use import::{Filled, Secrets, import};

use super::super::Error as StoreError;
use crate::protocol::{key::KeyDigest, secret::SecretFingerprint};
use std::{io, path::PathBuf};

/// Why an export or an import was not done. Nothing of it is left behind.
///
/// What an export or import ([`Filled`]) returns.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// As the store's error says.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Name another file: an export is never written over.
    #[error("{file:?} is there already, and an export is never written over one; name another file")]
    Exists {
        /// The file.
        file: PathBuf,
    },
    /// Remove it, unless another command is writing it.
    #[error("{path:?} is there already: another command writes it, or one that was killed left it; in that case remove it")]
    Unfinished {
        /// The unfinished file or directory.
        path: PathBuf,
    },
    /// Keep the directory as it is, run `receipted store verify`, and restore a copy: a damaged store is not exported.
    #[error("the store has {problems} problems, and is not exported; `receipted store verify` names them (the first: {first})")]
    Unsound {
        /// How many.
        problems: u64,
        /// One of them.
        first: String,
    },
    /// Give a directory that is empty or not there yet: an import never goes into a store that is.
    #[error(
        "{directory:?} is not an empty directory; an import makes a new store, so name an empty directory or one that is not there yet"
    )]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
    },
    /// Give a directory inside it that is not there yet: one that something is mounted on cannot be replaced.
    #[error("{directory:?} is where a file system is mounted, and cannot be replaced by a new store; name a directory inside it")]
    Mounted {
        /// The directory.
        directory: PathBuf,
    },
    /// Give the file that `receipted store export` wrote.
    #[error("{file:?} is no export of a receipt store")]
    NotAnExport {
        /// The file.
        file: PathBuf,
    },
    /// Use the version of receipted that wrote it, or export again with this one.
    #[error("the {what} of {file:?} has version {found}, and this program reads {expected}; import it with the version that wrote it")]
    Version {
        /// The file.
        file: PathBuf,
        /// `export` or `store`.
        what: &'static str,
        /// What it has.
        found: u32,
        /// What is read.
        expected: u32,
    },
    /// Fetch the file again from where it was copied, or export again.
    #[error("{file:?} ends at byte {at} and is not complete; copy it again, or export again")]
    Cut {
        /// The file.
        file: PathBuf,
        /// Where it ends.
        at: u64,
    },
    /// Name the exported store's own secret, or none where it has none.
    #[error(
        "the keys in {file:?} are {}; `--exported-key-secret-file` names the exported store's own secret, and only that",
        .bound.map_or_else(|| "not made with a secret".into(), |bound| format!("made with the secret {bound}, which is not here"))
    )]
    Secret {
        /// The file.
        file: PathBuf,
        /// The secret that its keys are made with; none where they are made without.
        bound: Option<SecretFingerprint>,
    },
    /// Let the exported store run on until these operations were attempted, or their records discarded or dead-lettered, and export again.
    #[error(
        "{file:?} has {operations} operations that are known by their digest alone (the first: {first}), so that no other digest can be made of them; they are parked and were not attempted yet: let the exported store run on, or end their records by `receipted operations dead-letter` or `discard`, and export again"
    )]
    Nameless {
        /// The file.
        file: PathBuf,
        /// How many.
        operations: u64,
        /// One of them.
        first: KeyDigest,
    },
    /// Fetch the file again from where it was copied, or export again.
    #[error("{file:?} is damaged at byte {at}: {detail}; copy it again, or export again")]
    Damaged {
        /// The file.
        file: PathBuf,
        /// About where.
        at: u64,
        /// What was found.
        detail: String,
    },
    /// As the operating system says.
    #[error("cannot {action} {path:?}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// The operating system's words.
        source: io::Error,
    },
}

/// An error of the operating system, with what was tried and on which path.
fn io_error(action: &'static str, path: &std::path::Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { action, path: path.into(), source }
}
