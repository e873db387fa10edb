//! A store that can be stopped and opened again.

#[cfg(feature = "sled")]
use receipted::store::sled::{FileSystem, OnSyncFailure, Options, Probe, SledStore};
use receipted::{
    protocol::time::UnixMillis,
    store::{ReceiptStore, WallClock, memory::MemoryStore},
};
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    #[cfg(feature = "sled")]
    Sled,
    /// sled with room for next to nothing in memory, so that every read is one of the disk.
    #[cfg(feature = "sled")]
    SledWithoutMemory,
    /// sled with a secret, and as little memory: every whole key is sealed, and opened again.
    #[cfg(feature = "sled")]
    SledSealed,
}

pub(crate) const KINDS: &[Kind] = &[
    Kind::Memory,
    #[cfg(feature = "sled")]
    Kind::Sled,
    #[cfg(feature = "sled")]
    Kind::SledWithoutMemory,
    #[cfg(feature = "sled")]
    Kind::SledSealed,
];

impl Kind {
    /// Whether it has room for operations in memory.
    pub(crate) fn remembers(self) -> bool {
        match self {
            Self::Memory => true,
            #[cfg(feature = "sled")]
            Self::Sled => true,
            #[cfg(feature = "sled")]
            Self::SledWithoutMemory | Self::SledSealed => false,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            #[cfg(feature = "sled")]
            Self::Sled => "sled",
            #[cfg(feature = "sled")]
            Self::SledWithoutMemory => "sled_without_memory",
            #[cfg(feature = "sled")]
            Self::SledSealed => "sled_sealed",
        }
    }
}

/// The secret of this number.
#[cfg(feature = "sled")]
pub(crate) fn secret(number: u8) -> receipted::protocol::secret::KeySecret {
    receipted::protocol::secret::KeySecret::new(&[number; 32]).expect("a secret")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Clean,
    Killed,
}

#[allow(clippy::large_enum_variant, reason = "there is one a test")]
enum Store {
    Memory(MemoryStore),
    #[cfg(feature = "sled")]
    Sled(Box<Sled>),
}

#[cfg(feature = "sled")]
struct Sled {
    store: Option<SledStore>,
    options: Options,
    /// Removed with the fixture.
    _directory: tempfile::TempDir,
}

pub(crate) struct Fixture {
    store: Store,
    wall: Arc<AtomicI64>,
}

pub(crate) const START: i64 = 1_700_000_000_000;

impl Fixture {
    pub(crate) fn new(kind: Kind) -> Self {
        let wall = Arc::new(AtomicI64::new(START));
        let reading = wall.clone();
        let clock: WallClock = Arc::new(move || UnixMillis(reading.load(Ordering::SeqCst)));
        let store = match kind {
            Kind::Memory => Store::Memory(MemoryStore::with_clock(clock)),
            #[cfg(feature = "sled")]
            Kind::Sled | Kind::SledWithoutMemory | Kind::SledSealed => {
                let directory = tempfile::tempdir().expect("a temporary directory");
                let mut options = Options::new(directory.path().join("store"));
                options.clock = clock;
                options.disk_free_floor_bytes = 0;
                options.file_system = FileSystem::Any;
                options.probe = Probe::Off;
                options.on_sync_failure = OnSyncFailure::Call(Arc::new(|error| panic!("a sync failed: {error}")));
                if !kind.remembers() {
                    options.known_bytes_max = 0;
                }
                if kind == Kind::SledSealed {
                    options.key_secret = Some(secret(1));
                }
                let store = SledStore::open(&options).expect("the store opens");
                Store::Sled(Box::new(Sled { store: Some(store), options, _directory: directory }))
            }
        };
        Self { store, wall }
    }

    pub(crate) fn store(&self) -> &dyn ReceiptStore {
        match &self.store {
            Store::Memory(store) => store,
            #[cfg(feature = "sled")]
            Store::Sled(sled) => sled.store.as_ref().expect("the store is open"),
        }
    }

    pub(crate) fn set_wall(&self, wall: UnixMillis) {
        self.wall.store(wall.0, Ordering::SeqCst);
    }

    /// Ends the process start and begins the next.
    pub(crate) fn reopen(&mut self, stop: Stop) {
        if stop == Stop::Clean {
            self.store().close().expect("the store closes");
        }
        match &mut self.store {
            Store::Memory(store) => *store = store.restart(),
            #[cfg(feature = "sled")]
            Store::Sled(sled) => {
                drop(sled.store.take());
                sled.store = Some(SledStore::open(&sled.options).expect("the store opens again"));
            }
        }
    }

    /// Sets the bound on parked bytes, by a reopen where it takes one.
    pub(crate) fn set_parked_bytes_max(&mut self, max: u64) {
        match &mut self.store {
            Store::Memory(store) => store.set_parked_bytes_max(max),
            #[cfg(feature = "sled")]
            Store::Sled(sled) => {
                sled.options.parked_bytes_max = max;
                self.reopen(Stop::Clean);
            }
        }
    }
}

/// Tests under their own names.
#[cfg(feature = "sled")]
macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as crate::fixture::InDirectory)),*] };
}
#[cfg(feature = "sled")]
pub(crate) use tests;

/// A test that is given the place of a store that is not there yet.
#[cfg(feature = "sled")]
pub(crate) type InDirectory = fn(&std::path::Path);

/// Makes trials of them, each with a directory of its own.
#[cfg(feature = "sled")]
pub(crate) fn in_directories(tests: impl IntoIterator<Item = (impl Into<String>, InDirectory)>) -> Vec<libtest_mimic::Trial> {
    let trial = |(name, test): (String, InDirectory)| {
        libtest_mimic::Trial::test(name, move || {
            let directory = tempfile::tempdir().expect("a temporary directory");
            test(&directory.path().join("store"));
            Ok(())
        })
    };
    tests.into_iter().map(|(name, test): (_, InDirectory)| trial((name.into(), test))).collect()
}
