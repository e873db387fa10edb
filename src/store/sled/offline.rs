//! Owns what is done to a stopped store: checking it, and adopting an offset (`transfer` has export and import). It takes the directory's lock and writes no claim.

use super::{
    super::{Error, Imported, Marks, Partition, system_clock},
    directory::{Directory, Missing},
    disk::{Disk, Reader},
    entries::{Adoption, StoredPark},
    format::{self, Key},
    names::Opener,
    open::open_disk,
    scan::{Contents, Strict, Visitor, scan},
    step::{ENTRIES_A_STEP, Stage, Step, Watch},
    writer::write_adoption,
};
use crate::protocol::{
    change::{self, Total},
    key::{KeyDigest, hex},
    known::Known,
    secret::{KeySecret, SecretFingerprint},
};
use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

const CACHE_BYTES: u64 = 64 * 1024 * 1024;
/// Problems that a report names, at most.
const PROBLEMS_MAX: usize = 100;

/// What `verify` found.
///
/// ```
/// # use receipted::store::{FileSystem, ReceiptStore, sled::{Options, Probe, SledStore, verify}};
/// # let directory = tempfile::tempdir()?;
/// # let options = Options { file_system: FileSystem::Any, probe: Probe::Off, ballast_bytes: 0, ..Options::new(directory.path()) };
/// # SledStore::open(&options)?.close()?;
/// # let copy = directory.path();
/// // Every night, of a copy of the store: is it worth keeping?
/// let report = verify(copy)?;
/// assert!(report.is_sound(), "{report}");
/// assert_eq!(report.unresolved, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Which store it is.
    pub store_id: String,
    /// Cluster and group that it is bound to.
    pub binding: Option<(String, String)>,
    /// The secret that digests of keys are made with.
    pub secret: Option<SecretFingerprint>,
    /// Process starts.
    pub claims: u64,
    /// Groups that were written.
    pub groups: u64,
    /// Operations.
    pub operations: u64,
    /// Notes under operations.
    pub notes: u64,
    /// Unresolved attempts.
    pub unresolved: u64,
    /// Park notes, ended ones included.
    pub parks: u64,
    /// Open park notes.
    pub parked: u64,
    /// Bytes of their records.
    pub parked_bytes: u64,
    /// Chunks of parked records, ended ones included.
    pub chunks: u64,
    /// Duplicate effects on record.
    pub incidents: u64,
    /// How far each partition is complete.
    pub marks: BTreeMap<Partition, Marks>,
    /// Adopted offsets with their reasons, by partition, each oldest first.
    pub adoptions: Vec<(Partition, i64, String)>,
    /// Where the store came from when it was imported, and what of it is unverified.
    pub imported: Option<Imported>,
    /// Values that sled put into files of their own. There should be none.
    pub blobs: u64,
    /// Damaged snapshot files that this open moved aside.
    pub set_aside: Vec<PathBuf>,
    /// What is wrong, the first hundred.
    pub problems: Vec<String>,
    /// How much is wrong.
    pub problems_total: u64,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems_total == 0
    }

    fn problem(&mut self, problem: impl fmt::Display) {
        self.problems_total += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem.to_string());
        }
    }

    /// Damage, without the advice of its error: who reads this follows it already.
    fn found(&mut self, error: Error) {
        match error {
            Error::Corrupt { detail, .. } => self.problem(detail),
            error => self.problem(error),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "store {}: {} starts, {} groups", self.store_id, self.claims, self.groups)?;
        if let Some((cluster, group)) = &self.binding {
            writeln!(f, "bound to cluster {cluster:?}, group {group:?}")?;
        }
        if let Some(secret) = &self.secret {
            writeln!(f, "keys sealed, and digests made, with the secret {secret}")?;
        }
        writeln!(f, "{} operations with {} notes, {} unresolved attempts", self.operations, self.notes, self.unresolved)?;
        writeln!(f, "{} park notes in {} chunks; {} open with {} bytes", self.parks, self.chunks, self.parked, self.parked_bytes)?;
        writeln!(f, "{} incidents", self.incidents)?;
        if let Some(imported) = &self.imported {
            writeln!(f, "imported from store {}", imported.from)?;
            if !imported.unverified.is_empty() {
                writeln!(f, "unverified, until an offset is adopted for each: {}", imported.partitions())?;
            }
        }
        for problem in &self.problems {
            writeln!(f, "problem: {problem}")?;
        }
        match self.problems_total {
            0 => write!(f, "sound"),
            problems => write!(f, "{problems} problems"),
        }
    }
}

/// Checks a stopped store: every entry's checksum, that every counted note and every chunk is there, and that totals, listings and
/// incidents add up. Changes nothing but what opening does.
///
/// # Errors
/// [`Error::InUse`] while a process runs on it, and what keeps it from being opened at all. What is wrong inside is in the report.
pub fn verify(directory: &Path) -> Result<Report, Error> {
    verify_watched(directory, &mut |_| {})
}

/// Does what [`verify`] does, and tells now and then how far it is.
///
/// # Errors
/// As [`verify`].
pub fn verify_watched(directory: &Path, watch: &mut dyn FnMut(Step)) -> Result<Report, Error> {
    let (disk, report) = audited(directory, None, watch)?;
    disk.close()?;
    Ok(report)
}

/// Opens a stopped store and checks it.
pub(super) fn audited(directory: &Path, secret: Option<&KeySecret>, watch: Watch<'_>) -> Result<(Disk, Report), Error> {
    watch(Step { stage: Stage::Opening, done: 0, of: 0 });
    let disk = Disk::open(Arc::new(Directory::take(directory, Missing::Refuse)?), CACHE_BYTES, None)?;
    let (report, reader) = (Report::default(), disk.reader.clone());
    let mut audit = Audit { watch, report, reader, effects: BTreeMap::new(), misnamed: BTreeMap::new(), counted_chunks: 0 };
    match scan(&disk.reader, Opener::Command(secret), &mut audit) {
        Ok(contents) => audit.conclude(directory, &disk, contents),
        Err(error) => audit.report.found(error),
    }
    audit.chunks(&disk);
    audit.report.blobs = disk.directory.blobs()? as u64;
    audit.report.set_aside.clone_from(&disk.directory.aside);
    Ok((disk, audit.report))
}

/// Accepts a committed offset that is not this store's, once, noted with its reason for ever. Makes the store when there is none.
/// Durable when it returns.
///
/// # Errors
/// [`Error::InUse`] while a process runs on it, and what opening it says.
pub fn adopt(directory: &Path, partition: &Partition, offset: i64, reason: &str) -> Result<(), Error> {
    let (mut disk, contents) =
        open_disk(Arc::new(Directory::take(directory, Missing::Create)?), CACHE_BYTES, None, Opener::Command(None), &mut Strict)?;
    let marks = Marks::adopting(offset);
    let adoption = Adoption { offset, reason: reason.into(), at: system_clock() };
    let written = write_adoption(&mut disk, partition, contents.adoptions.len() as u64, marks, &adoption);
    written.and(disk.close())
}

struct Audit<'a> {
    watch: Watch<'a>,
    report: Report,
    reader: Arc<Reader>,
    /// Operations with more than one effect, and how many.
    effects: BTreeMap<KeyDigest, u64>,
    /// Operations that carry another's name, and whose.
    misnamed: BTreeMap<KeyDigest, KeyDigest>,
    counted_chunks: u64,
}

impl Visitor for Audit<'_> {
    fn operation(&mut self, key: KeyDigest, known: Known) {
        self.report.unresolved += known.receipt.unresolved().len() as u64;
        let effects = known.receipt.effects();
        let extra = (effects.extra_certain() + effects.extra_suspected()) as u64;
        if extra > 0 {
            self.effects.insert(key, extra);
        }
        if let Some(other) = known.key.and_then(|name| self.reader.names().digest(&name)).filter(|other| *other != key) {
            self.misnamed.insert(key, other);
        }
    }

    fn damage(&mut self, error: Error) -> Result<(), Error> {
        self.report.found(error);
        Ok(())
    }

    fn read(&mut self, done: u64, of: u64) {
        (self.watch)(Step { stage: Stage::Checking, done, of });
    }
}

impl Audit<'_> {
    fn conclude(&mut self, directory: &Path, disk: &Disk, contents: Contents) {
        if contents.meta.is_none() {
            self.report.problem("the entry that names the store is missing");
        } else if let Err(error) = contents.check(directory, disk.progress()) {
            self.report.found(error);
        }
        for (key, other) in std::mem::take(&mut self.misnamed) {
            self.report.problem(format!("operation {key} carries the name of {other}"));
        }
        self.identities(&contents);
        self.counted_chunks = contents.stored.chunks;
        let index = &contents.index;
        let report = &mut self.report;
        report.store_id = contents.meta.as_ref().map(|meta| hex(&meta.store_id)).unwrap_or_default();
        report.claims = contents.claims.len() as u64;
        report.groups = contents.stored.groups;
        report.operations = index.operations();
        report.notes = contents.found.notes;
        report.parks = contents.found.parks;
        report.parked = index.open_parks() as u64;
        report.parked_bytes = index.parked_bytes();
        report.incidents = contents.found.incidents;
        report.imported = contents.imported();
        report.marks = index.marks().clone();
        let adoptions = contents.adoptions.into_iter();
        report.adoptions = adoptions.map(|(partition, adoption)| (partition, adoption.offset, adoption.reason)).collect();
        report.binding = contents.binding;
        report.secret = contents.secret;
    }

    /// Opened less closed is what is there; every duplicate effect has its incident.
    fn identities(&mut self, contents: &Contents) {
        let totals = contents.index.totals();
        let sum = |of: fn(&Total) -> bool| change::sum(totals, of);
        let opened = sum(|total| matches!(total, Total::UnresolvedOpened(_)));
        let closed = sum(|total| matches!(total, Total::UnresolvedClosed(..)));
        let unresolved = self.report.unresolved;
        if opened.checked_sub(closed) != Some(unresolved) {
            self.report.problem(format!("{opened} unresolved opened less {closed} closed, and {unresolved} are there"));
        }
        let opened = sum(|total| matches!(total, Total::ParkedOpened(_)));
        let closed = sum(|total| matches!(total, Total::ParkedClosed(..)));
        let parked = contents.index.open_parks() as u64;
        if opened.checked_sub(closed) != Some(parked) {
            self.report.problem(format!("{opened} parked opened less {closed} closed, and {parked} are there"));
        }
        let duplicates = sum(|total| matches!(total, Total::DuplicateEffects(..)));
        let incidents = contents.found.incidents;
        if duplicates != incidents {
            self.report.problem(format!("{duplicates} duplicate effects counted, and {incidents} incidents are there"));
        }
        for (key, extra) in std::mem::take(&mut self.effects) {
            let noted = contents.incidents.get(&key).copied().unwrap_or(0);
            if noted < extra {
                self.report.problem(format!("operation {key} had {extra} duplicate effects, and {noted} incidents are there"));
            }
        }
    }

    /// Every chunk's checksum, and that the chunks of each park note add up.
    fn chunks(&mut self, disk: &Disk) {
        let (reader, of) = (&disk.reader, self.counted_chunks);
        let read = reader.raw(Key::all_chunks(), |key, value| {
            self.report.chunks += 1;
            if self.report.chunks.is_multiple_of(ENTRIES_A_STEP) {
                (self.watch)(Step { stage: Stage::CheckingRecords, done: self.report.chunks, of });
            }
            if let Err(error) = reader.check(key, value) {
                self.report.found(error);
            }
        });
        if let Err(error) = read {
            self.report.found(error);
        }
        let (there, counted) = (self.report.chunks, self.counted_chunks);
        if there != counted {
            self.report.problem(format!("{counted} chunks were written, and {there} are there"));
        }
        let read = reader.raw(Key::all_parks(), |key, value| {
            // What is damaged here was reported by the scan.
            let Ok((Key::Park(raw), body)) = reader.check(key, value) else { return };
            let Ok(stored) = format::read::<StoredPark>(body) else { return };
            if let Err(error) = reader.record(raw, &stored) {
                self.report.found(error);
            }
        });
        if let Err(error) = read {
            self.report.found(error);
        }
    }
}
