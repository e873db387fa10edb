//! Owns the way in: a file becomes a new store, with a name of its own, beside its place, and comes there whole and checked or not at all.

use super::{
    super::{
        super::{Imported, Partition, system_clock},
        directory::{Directory, Missing, sync_directory},
        disk::Disk,
        entries::{Counts, Entries, Import, StoreMeta, StoredMarks},
        format::{self, Key, Meta},
        offline::{Report, audited},
        step::{Stage, Step},
        topics::Topics,
    },
    Error,
    export::folder,
    file::{Entry, Source},
    io_error,
    rekey::{self, Rekey},
};
use crate::{protocol::secret::KeySecret, store::Marks};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
};

const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// What an import made.
///
/// ```
/// use receipted::store::sled::transfer::{Secrets, export, import};
/// # use receipted::store::{FileSystem, ReceiptStore, sled::{Options, Probe, SledStore}};
/// # let folder = tempfile::tempdir()?;
/// # let (old, file, new) = (folder.path().join("old"), folder.path().join("receipts"), folder.path().join("new"));
/// # SledStore::open(&Options { file_system: FileSystem::Any, probe: Probe::Off, ballast_bytes: 0, ..Options::new(&old) })?.close()?;
///
/// let exported = export(&old, &file, &mut |_| {})?;
/// let filled = import(&file, &new, &Secrets::default(), &mut |_| {})?;
/// assert_eq!(filled.imported.from, exported.store_id);
/// assert_ne!(filled.report.store_id, exported.store_id); // the old one may have gone on: this is another store
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Filled {
    /// What the new store holds, as `verify` has it.
    pub report: Report,
    /// Where it came from, and what of it is unverified until an offset is adopted for each partition.
    pub imported: Imported,
    /// Entries that came in.
    pub entries: u64,
}

/// The secrets of an import.
///
/// ```
/// # use receipted::{protocol::secret::KeySecret, store::sled::transfer::Secrets};
/// # fn read(_: &str) -> Result<KeySecret, receipted::protocol::secret::Error> { KeySecret::new(&[7; 32]) }
/// // An import is how a secret is replaced: keys are made anew.
/// let secrets = Secrets { exported: Some(read("the one of last year")?), new: Some(read("a fresh one")?) };
/// # Ok::<(), receipted::protocol::secret::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    /// The exported store's, where its keys are to be made anew and are made with one.
    pub exported: Option<KeySecret>,
    /// The new store's. Where it is none, and `exported` too, keys stay as they are.
    pub new: Option<KeySecret>,
}

/// Makes a new store of an export, in a directory that is empty or not there. It is checked and durable when this returns. The store
/// has an id of its own: it is not the exported one, whose process may have gone on. Its operations get digests of the new secret, or of
/// none, where that is another than the exported store's; some hundred bytes of memory for each are needed meanwhile. Tells now and then
/// how far it is.
///
/// # Errors
/// [`Error::NotEmpty`]; [`Error::Secret`] and [`Error::Nameless`] where keys cannot be made anew; [`Error::NotAnExport`], [`Error::Version`], [`Error::Cut`] or [`Error::Damaged`] as the file is; and what the
/// disk says. No store is left then.
pub fn import(file: &Path, directory: &Path, secrets: &Secrets, watch: &mut dyn FnMut(Step)) -> Result<Filled, Error> {
    let exported = Source::open(file)?;
    let place = place(directory)?;
    let reading = |source: &Source| watch(Step { stage: Stage::Reading, done: source.at(), of: source.length });
    let rekey = rekey::plan(exported, secrets, reading)?;
    let source = Source::open(file)?;
    let making = beside(&place);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder(&place)).map_err(io_error("make", folder(&place)))?;
    fs::DirBuilder::new().mode(0o700).create(&making).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::Unfinished { path: making.clone() },
        _ => io_error("make", &making)(error),
    })?;
    let made = make(source, &making, rekey, secrets, watch).and_then(|filled| {
        // Only an empty directory can be replaced.
        fs::rename(&making, &place).map_err(|error| match error.kind() {
            ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => Error::NotEmpty { directory: directory.into() },
            _ => io_error("name", &place)(error),
        })?;
        sync_directory(folder(&place))?;
        Ok(filled)
    });
    if made.is_err() {
        // Where that fails too, the next import says that it is there.
        drop(fs::remove_dir_all(&making));
    }
    made
}

/// Where the store is to be; refused when something is there.
fn place(directory: &Path) -> Result<PathBuf, Error> {
    match fs::read_dir(directory) {
        Ok(mut entries) => match entries.next() {
            None => {
                let place = directory.canonicalize().map_err(io_error("name", directory))?;
                let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev()).map_err(io_error("look at", path));
                if device(&place)? == device(folder(&place))? { Ok(place) } else { Err(Error::Mounted { directory: place }) }
            }
            Some(_) => Err(Error::NotEmpty { directory: directory.into() }),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(directory.into()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => Err(Error::NotEmpty { directory: directory.into() }),
        Err(error) => Err(io_error("look into", directory)(error)),
    }
}

fn beside(place: &Path) -> PathBuf {
    let mut name = OsString::from(place.components().as_path());
    name.push(".importing");
    name.into()
}

fn make(mut source: Source, making: &Path, rekey: Option<Rekey>, secrets: &Secrets, watch: &mut dyn FnMut(Step)) -> Result<Filled, Error> {
    let mut disk = Disk::open(Arc::new(Directory::take(making, Missing::Create)?), CACHE_BYTES, None)?;
    let filled = fill(&mut source, &mut disk, rekey, watch);
    let closed = disk.close();
    filled?;
    closed?;
    let (disk, report) = audited(making, secrets.new.as_ref(), watch)?;
    disk.close()?;
    if let Some(first) = report.problems.first() {
        return Err(source.damaged(format!("what it holds has {} problems (the first: {first})", report.problems_total)));
    }
    let Some(imported) = report.imported.clone() else { return Err(source.damaged("the new store does not say where it came from")) };
    Ok(Filled { report, imported, entries: source.entries() })
}

fn fill(source: &mut Source, disk: &mut Disk, mut rekey: Option<Rekey>, watch: &mut dyn FnMut(Step)) -> Result<(), Error> {
    let format = rekey.as_ref().map_or(source.header.format, |rekey| rekey.names().format());
    let mut seen = Seen::default();
    loop {
        let begins = source.at();
        watch(Step { stage: Stage::Filling, done: begins, of: source.length });
        let Some(mut entries) = source.next()? else { break };
        let seen = entries.iter().try_for_each(|(key, value)| seen.entry(key, value));
        seen.map_err(|damage| source.damaged(damage))?;
        entries.retain(|(key, _)| !is_own(key));
        disk.fill(match &mut rekey {
            Some(rekey) => anew(rekey, entries).map_err(|damage| source.damaged(damage))?,
            None => entries,
        })?;
    }
    if let Some(rekey) = rekey {
        disk.fill(rekey.finish().map_err(|damage| source.damaged(damage))?)?;
    }
    let meta = seen.meta.take();
    if meta.is_none_or(|meta| (meta.store_id, meta.format) != (source.header.store_id, source.header.format)) {
        return Err(source.damaged("the store in it is not the one that its header names"));
    }
    let now = system_clock();
    let store = StoreMeta { format, store_id: uuid::Uuid::new_v4().into_bytes(), made: now };
    let partitions = seen.partitions.into_iter().map(|(partition, watermark)| (partition.topic.to_string(), partition.number, watermark));
    let (from, exported) = (source.header.store_id, source.header.at);
    seen.imports.push(Import { from, exported, at: now, adoptions: seen.adoptions, partitions: partitions.collect() });
    let mut own = Entries::default();
    let put = own.put(Key::Meta(Meta::Store), &store).and_then(|()| own.put(Key::Meta(Meta::Imports), &seen.imports));
    put.map_err(|error| source.damaged(error))?;
    disk.fill(own.0)?;
    watch(Step { stage: Stage::Syncing, done: 0, of: 0 });
    Ok(disk.filled(store.store_id, seen.groups)?)
}

/// Entries with their operations' new digests.
fn anew(rekey: &mut Rekey, entries: Vec<Entry>) -> Result<Vec<Entry>, format::Damage> {
    let mut made = Vec::with_capacity(entries.len());
    entries.into_iter().try_for_each(|entry| rekey.entry(entry, &mut made))?;
    Ok(made)
}

/// Entries that the new store writes itself.
fn is_own(key: &[u8]) -> bool {
    matches!(Key::parse(key), Some(Key::Meta(Meta::Store | Meta::Imports)))
}

/// What the entries say that an import needs to know.
#[derive(Default)]
struct Seen {
    meta: Option<StoreMeta>,
    imports: Vec<Import>,
    groups: u64,
    adoptions: u64,
    topics: Topics,
    partitions: BTreeMap<Partition, Option<i64>>,
}

impl Seen {
    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), format::Damage> {
        let parsed = Key::parse(key).ok_or(format::Damage::Key)?;
        let body = format::unseal(key, value)?;
        match parsed {
            Key::Meta(Meta::Store) => self.meta = Some(format::read(body)?),
            Key::Meta(Meta::Imports) => self.imports = format::read(body)?,
            Key::Meta(Meta::Counts) => self.groups = format::read::<Counts>(body)?.groups,
            // Names sort before what uses their numbers.
            Key::Topic(number) => self.topics.insert(number, &format::read::<String>(body)?),
            Key::Marks { topic, partition } => {
                let marks = Marks::from(format::read::<StoredMarks>(body)?);
                self.partition(topic, partition, marks.watermark)?;
            }
            Key::Adoption { .. } => self.adoptions += 1,
            // What is parked may have been settled since, also where nothing else is known of its partition.
            Key::Park(park) => self.partition(park.slot.topic, park.slot.partition, None)?,
            _ => {}
        }
        Ok(())
    }

    fn partition(&mut self, topic: u32, number: i32, watermark: Option<i64>) -> Result<(), format::Damage> {
        let topic = self.topics.name(topic).cloned().ok_or(format::Damage::Key)?;
        self.partitions.entry(Partition { topic, number }).or_insert(watermark);
        Ok(())
    }
}
