//! Owns opening a store: what is rebuilt from the disk, and the claim of this process start, which is durable before anything else.

use super::{
    Options, Shared, SledStore,
    cache::Cache,
    directory::{Directory, Missing},
    disk::Disk,
    entries::{Claim, Entries, StoreMeta},
    file_system::{self, DiskFacts, Trust},
    format::{FORMAT, Key, Meta},
    names::{Names, Opener},
    probe::{self, Probe},
    room::Room,
    scan::{Contents, Visitor, scan},
    step::{Stage, Step, Watch},
    writer::Writer,
};
use crate::{
    crash::point,
    protocol::{
        key::{KeyDigest, hex},
        known::Known,
        secret::KeySecret,
        time::UnixMillis,
    },
    store::{Error, Identity, PreviousStop, SecretProblem},
};
use std::sync::{Arc, Mutex, OnceLock, RwLock, mpsc::sync_channel};

impl SledStore {
    /// Opens the store, makes it when there is none, and writes the claim of this process start durably.
    ///
    /// # Errors
    /// [`Error::FileSystem`] where nothing may be trusted, [`Error::InUse`] with the other process's number, [`Error::Corrupt`] when
    /// anything that was written is missing or damaged (nothing is deleted), [`Error::Format`], [`Error::Secret`] when it is not
    /// the store's, and what the disk says.
    pub fn open(options: &Options) -> Result<Self, Error> {
        Self::open_watched(options, &mut |_| {})
    }

    /// Does what [`SledStore::open`] does, and tells now and then how far it is.
    ///
    /// # Errors
    /// As [`SledStore::open`].
    pub fn open_watched(options: &Options, watch: &mut dyn FnMut(Step)) -> Result<Self, Error> {
        watch(Step { stage: Stage::Opening, done: 0, of: 0 });
        let kind = file_system::check(&options.directory, options.file_system)?;
        let directory = Arc::new(Directory::take(&options.directory, Missing::Create)?);
        point!("open/taken", said => return Err(failed(said)));
        let room = Room::open(directory.clone(), options)?;
        let syncs = if options.probe == Probe::On { Some(probe::run(directory.root())?) } else { None };
        let mut warm = Warm { cache: Cache::new(options.known_bytes_max), watch };
        let (mut disk, mut contents) = open_disk(
            directory.clone(),
            options.cache_bytes,
            options.before_sync.clone(),
            Opener::Run(options.key_secret.as_ref()),
            &mut warm,
        )?;
        let cache = warm.cache;
        cache.set_places(std::mem::take(&mut contents.places));
        let imported = RwLock::new(contents.imported());
        let now = (options.clock)();
        let identity = claim(&mut disk, &contents, now)?;
        point!("open/claimed", said => return Err(failed(said)));
        let mut nonces: std::collections::HashSet<String> = contents.claims.into_values().map(|claim| claim.nonce).collect();
        nonces.insert(identity.nonce.clone());
        room.fill()?;
        point!("open/filled", said => return Err(failed(said)));
        let shared = Arc::new(Shared {
            reader: disk.reader.clone(),
            cache,
            index: RwLock::new(contents.index),
            stopped: OnceLock::new(),
            binding: RwLock::new(contents.binding),
            imported,
            nonces,
            parked_bytes_max: options.parked_bytes_max,
            room,
            directory: directory.clone(),
        });
        let (queue, commands) = sync_channel(options.queue_batches_max.max(1));
        let writer = Writer {
            disk,
            shared: shared.clone(),
            claim: identity.claim,
            adoptions: contents.adoptions.len() as u64,
            group_entries_max: options.group_entries_max.max(1),
            on_sync_failure: options.on_sync_failure.clone(),
            clock: options.clock.clone(),
        };
        let spawned = std::thread::Builder::new().name("receipted-store".into()).spawn(move || writer.run(&commands));
        let writer = spawned.map_err(super::directory::io("start its writer"))?;
        let set_aside = directory.aside.clone();
        let facts = DiskFacts { is_memory: kind.trust == Trust::Forgets, file_system: kind.name.into_owned(), syncs };
        let queue_max = options.queue_batches_max;
        Ok(Self { identity, shared, queue, queue_max, writer: Mutex::new(Some(writer)), set_aside, facts })
    }
}

/// Keeps what a scan finds, as far as repeats ask for it, and takes no damage.
struct Warm<'a> {
    cache: Cache,
    watch: Watch<'a>,
}

impl Visitor for Warm<'_> {
    fn operation(&mut self, key: KeyDigest, known: Known) {
        self.cache.warm(&key, &known);
    }

    fn damage(&mut self, error: Error) -> Result<(), Error> {
        Err(error)
    }

    fn read(&mut self, done: u64, of: u64) {
        (self.watch)(Step { stage: Stage::Checking, done, of });
    }
}

/// Opens and reads a store, and gives it its name when it has none.
pub(super) fn open_disk<V: Visitor>(
    directory: Arc<Directory>, cache_bytes: u64, before_sync: Option<super::disk::BeforeSync>, opener: Opener<'_>, visitor: &mut V,
) -> Result<(Disk, Contents), Error> {
    let mut disk = Disk::open(directory, cache_bytes, before_sync)?;
    point!("open/unread", said => return Err(failed(said)));
    let mut contents = scan(&disk.reader, opener, visitor)?;
    point!("open/read", said => return Err(failed(said)));
    contents.check(disk.directory.root(), disk.progress())?;
    let (found, secret) = (contents.meta.take(), opener.secret());
    let new = || StoreMeta { format: FORMAT, store_id: uuid::Uuid::new_v4().into_bytes(), made: crate::store::system_clock() };
    let (is_new, mut meta) = (found.is_none(), found.unwrap_or_else(new));
    disk.resume(meta.store_id, contents.stored);
    let names = Names::of(secret.as_ref().filter(|_| meta.format == FORMAT));
    if is_new || matches!(names, Names::Sealed(_)) {
        let operations = contents.index.operations();
        if operations > 0 {
            let problem = SecretProblem::Filled(operations);
            return Err(Error::Secret { directory: disk.directory.root().into(), problem });
        }
        meta.format = names.format();
        name(&mut disk, &meta, secret.as_ref())?;
        disk.reader.name(names);
    }
    contents.meta = Some(meta);
    Ok((disk, contents))
}

/// Writes what a store is, and which secret it has.
fn name(disk: &mut Disk, meta: &StoreMeta, secret: Option<&KeySecret>) -> Result<(), Error> {
    let mut entries = Entries::default();
    let put = entries.put(Key::Meta(Meta::Store), meta);
    let put = put.and_then(|()| secret.map_or(Ok(()), |secret| entries.put(Key::Meta(Meta::Secret), &secret.fingerprint())));
    put.map_err(untranslated)?;
    disk.write(&[], entries).map(drop)
}

fn untranslated(error: postcard::Error) -> Error {
    Error::Io { action: "translate a note", detail: error.to_string() }
}

/// Writes entries that are no notes, durably.
pub(super) fn put<T: serde::Serialize>(disk: &mut Disk, pairs: impl IntoIterator<Item = (Key, T)>) -> Result<(), Error> {
    let mut entries = Entries::default();
    for (key, body) in pairs {
        entries.put(key, &body).map_err(untranslated)?;
    }
    disk.write(&[], entries).map(drop)
}

/// What an open that a crash point has fail ends with.
#[cfg(feature = "crash-points")]
fn failed(detail: String) -> Error {
    Error::Io { action: "open", detail }
}

fn claim(disk: &mut Disk, contents: &Contents, now: UnixMillis) -> Result<Identity, Error> {
    let last = contents.claims.keys().next_back().copied();
    let previous_stop = match last {
        None => PreviousStop::First,
        Some(last) if contents.stops.contains(&last) => PreviousStop::Clean,
        Some(_) => PreviousStop::Unclean,
    };
    let claim = last.unwrap_or(0) + 1;
    let nonce = hex(uuid::Uuid::new_v4().as_bytes());
    put(disk, [(Key::Claim(claim), Claim { nonce: nonce.clone(), at: now })])?;
    let store_id = contents.meta.as_ref().map(|meta| hex(&meta.store_id)).unwrap_or_default();
    Ok(Identity { store_id, claim, nonce, previous_stop })
}
