//! Owns how far long work on a store is: the words of it. Whoever watches decides what a person sees.

/// How far long work on a store is.
///
/// ```
/// # use receipted::store::{FileSystem, sled::{Options, Probe, SledStore, Stage, Step}};
/// # let directory = tempfile::tempdir()?;
/// # let options = Options { file_system: FileSystem::Any, probe: Probe::Off, ballast_bytes: 0, ..Options::new(directory.path()) };
/// // A large store takes a while: tell whoever waits for the service.
/// let mut said = Vec::new();
/// let store = SledStore::open_watched(&options, &mut |step: Step| match step.stage {
///     Stage::Opening => said.push("opens the store".to_string()),
///     _ => said.push(format!("{} of about {}", step.done, step.of)),
/// })?;
/// assert_eq!(said[0], "opens the store");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub stage: Stage,
    /// How much of it is done: entries, or bytes of a file.
    pub done: u64,
    /// About how much there is; 0 where that is not known.
    pub of: u64,
}

/// What is done to a store.
///
/// A part of [`Step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Opens the store's log.
    Opening,
    /// Reads and checks entries.
    Checking,
    /// Reads and checks parked records.
    CheckingRecords,
    /// Writes the export; in entries.
    Writing,
    /// Reads the export, for what its keys have to become; in bytes.
    Reading,
    /// Reads the export into a new store; in bytes.
    Filling,
    /// Waits for the disk.
    Syncing,
}

/// Is told how far it is.
pub(super) type Watch<'a> = &'a mut dyn FnMut(Step);

/// Entries between two words on how far it is.
pub(super) const ENTRIES_A_STEP: u64 = 1024;
