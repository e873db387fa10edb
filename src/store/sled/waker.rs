//! Owns waking a flush that waits in vain: sled 0.34 notes a write that failed on one of its threads, and on one way does not wake who
//! waits for that write. It does not own what follows from the failure.

use super::{super::Error, disk::Reader};
use ::sled::Config;
use std::{
    sync::{
        Weak,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::Duration,
};

/// How long a flush may wait in vain.
const TICK: Duration = Duration::from_millis(200);

/// Ends with this handle, or with the store.
#[derive(Debug)]
pub(super) struct Waker {
    _ends: SyncSender<()>,
}

impl Waker {
    /// Starts looking after the flushes of a store.
    pub(super) fn start(config: Config, reader: Weak<Reader>) -> Result<Self, Error> {
        let (ends, ended) = sync_channel(0);
        let spawned = std::thread::Builder::new().name("receipted-waker".into()).spawn(move || run(&config, &reader, &ended));
        spawned.map_err(super::directory::io("start the thread that wakes its flushes"))?;
        Ok(Self { _ends: ends })
    }
}

fn run(config: &Config, reader: &Weak<Reader>, ended: &Receiver<()>) {
    while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        if config.global_error().is_ok() {
            continue;
        }
        let Some(reader) = reader.upgrade() else { return };
        // With the error there this returns at once, and wakes every other flush, whose error is the one to be told.
        drop(reader.with(|db| db.flush().map(drop).map_err(|error| super::disk::translate(reader.root(), "write", error))));
    }
}
