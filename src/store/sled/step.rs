//! Owns how far long work on a store is: the words of it. Whoever watches decides what a person sees.

/// How far long work on a store is.
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
