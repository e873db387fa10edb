//! Owns the one thread that writes: it takes what is queued, judges it as one group, makes it durable, shows it, answers. It owns
//! no rule and no bytes.

use super::{
    OnSyncFailure, SYNC_FAILED_EXIT_CODE, Shared,
    directory::io,
    disk::Disk,
    entries::{Adoption, Entries, StoredMarks},
    format::{Key, Meta},
    open::put,
};
use crate::{
    crash::{point, point_of_each},
    protocol::{known::Answer, known::Known},
    store::{
        Appended, Batch, Error, Marks, Partition, Reply, WallClock, check_binding,
        draft::{Base, Draft, Group, is_taken},
        index::Index,
    },
};
use std::{
    sync::{
        Arc, PoisonError, RwLockReadGuard,
        mpsc::{Receiver, SyncSender},
    },
    time::{Duration, Instant},
};

/// Bytes of parked records in one group, at most (one batch may have more).
const GROUP_PAYLOAD_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What the writer is told.
pub(super) enum Command {
    Append(Batch, Reply),
    Bind { cluster: String, group: String, reply: SyncSender<Result<(), Error>> },
    Adopt { partition: Partition, offset: i64, reason: String, reply: SyncSender<Result<(), Error>> },
    Close { reply: SyncSender<Result<(), Error>> },
}

pub(super) struct Writer {
    pub(super) disk: Disk,
    pub(super) shared: Arc<Shared>,
    pub(super) claim: u64,
    pub(super) adoptions: u64,
    pub(super) group_entries_max: usize,
    pub(super) on_sync_failure: OnSyncFailure,
    pub(super) clock: WallClock,
}

/// Who is answered, and with what once the group is durable.
type Judged = (Reply, Result<Vec<Answer>, Error>);

struct Now<'a> {
    shared: &'a Shared,
    index: RwLockReadGuard<'a, Index>,
}

impl Base for Now<'_> {
    fn known(&self, key: crate::protocol::key::KeyDigest) -> Result<Arc<Known>, Error> {
        self.shared.known(&key)
    }

    fn index(&self) -> &Index {
        &self.index
    }
}

impl Writer {
    /// Runs until it is closed or every sender is gone.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        let mut next = None;
        while let Some(command) = next.take().or_else(|| commands.recv().ok()) {
            match command {
                Command::Append(batch, reply) => {
                    let (group, other) = self.gather((batch, reply), commands);
                    next = other;
                    self.append(group);
                }
                Command::Bind { cluster, group, reply } => drop(reply.try_send(self.bind(cluster, group))),
                Command::Adopt { partition, offset, reason, reply } => {
                    drop(reply.try_send(self.adopt(&partition, offset, reason)));
                }
                Command::Close { reply } => {
                    drop(reply.try_send(self.close()));
                    return;
                }
            }
        }
        // The directory is let go with its handle in any case.
        drop(self.disk.close());
    }

    /// Everything that is queued now, up to the bounds of a group or a command of another kind.
    fn gather(&self, first: (Batch, Reply), commands: &Receiver<Command>) -> (Vec<(Batch, Reply)>, Option<Command>) {
        let mut weight = Weight::default();
        weight.add(&first.0);
        let mut group = vec![first];
        while weight.entries < self.group_entries_max && weight.payload < GROUP_PAYLOAD_BYTES_MAX {
            match commands.try_recv() {
                Ok(Command::Append(batch, reply)) => {
                    weight.add(&batch);
                    group.push((batch, reply));
                }
                Ok(other) => return (group, Some(other)),
                Err(_) => break,
            }
        }
        (group, None)
    }

    fn append(&mut self, batches: Vec<(Batch, Reply)>) {
        let size = batches.iter().map(|(batch, _)| batch.0.len()).sum();
        let started = Instant::now();
        let (judged, mut group) = self.judge(batches);
        let adds = !group.notes.is_empty();
        let written = self.shared.check_running().and_then(|()| self.write(&mut group));
        let sync = if adds { started.elapsed() } else { Duration::ZERO };
        for (reply, answers) in judged {
            reply(match &written {
                Ok(()) => answers.map(|answers| Appended { answers, group: size, sync }),
                Err(error) => Err(error.clone()),
            });
        }
    }

    fn judge(&self, batches: Vec<(Batch, Reply)>) -> (Vec<Judged>, Group) {
        let pressure = self.shared.pressure();
        let base = Now { shared: &self.shared, index: self.shared.index() };
        let mut draft = Draft::new(&base, (self.clock)());
        let judge = |(batch, reply): (Batch, Reply)| match &pressure {
            Some(full) if !is_taken(&batch, full, &base.index) => (reply, Err(full.clone())),
            _ => (reply, draft.batch(batch)),
        };
        let judged = batches.into_iter().map(judge).collect();
        (judged, draft.finish())
    }

    /// Makes a group durable, then shows it. A group that adds nothing rests on what is durable already.
    fn write(&mut self, group: &mut Group) -> Result<(), Error> {
        if group.notes.is_empty() {
            return Ok(());
        }
        #[cfg(feature = "crash-points")]
        let kinds = super::kinds::kinds(&group.notes, &Entries::default());
        let shared = self.shared.clone();
        let mut places = self.durable(|disk| disk.write(&group.notes, Entries::default()))?;
        shared.cache.publish(&mut places, &mut group.touched);
        shared.index.write().unwrap_or_else(PoisonError::into_inner).publish(group);
        shared.room.measure();
        point_of_each!("store/unanswered", kinds, said => return Err(io("answer")(std::io::Error::other(said))));
        Ok(())
    }

    /// Runs a write. When it fails the store is stopped for good: a page that was dropped by a failed sync looks clean afterwards.
    fn durable<T>(&mut self, write: impl FnOnce(&mut Disk) -> Result<T, Error>) -> Result<T, Error> {
        let written = write(&mut self.disk);
        if let Err(error) = &written {
            self.shared.stopped.get_or_init(|| Error::Stopped { detail: error.to_string() });
            match &self.on_sync_failure {
                OnSyncFailure::Exit => {
                    eprintln!("receipted: {error}; what was acknowledged is durable; exiting with {SYNC_FAILED_EXIT_CODE}");
                    std::process::exit(SYNC_FAILED_EXIT_CODE);
                }
                OnSyncFailure::Call(call) => call(error),
            }
        }
        written
    }

    fn bind(&mut self, cluster: String, group: String) -> Result<(), Error> {
        self.shared.check_running()?;
        let bound = self.shared.binding.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(bound) = bound {
            return check_binding(&bound, &cluster, &group);
        }
        let binding = (cluster, group);
        self.durable(|disk| put(disk, [(Key::Meta(Meta::Binding), &binding)]))?;
        *self.shared.binding.write().unwrap_or_else(PoisonError::into_inner) = Some(binding);
        Ok(())
    }

    fn adopt(&mut self, partition: &Partition, offset: i64, reason: String) -> Result<(), Error> {
        self.shared.check_running()?;
        let marks = Marks::adopting(offset);
        let adoption = Adoption { offset, reason, at: (self.clock)() };
        let number = self.adoptions;
        self.durable(|disk| write_adoption(disk, partition, number, marks, &adoption))?;
        self.adoptions += 1;
        if let Some(imported) = &mut *self.shared.imported.write().unwrap_or_else(PoisonError::into_inner) {
            imported.unverified.remove(partition);
        }
        self.shared.index.write().unwrap_or_else(PoisonError::into_inner).mark(partition.clone(), marks);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        self.shared.check_running()?;
        let (claim, now) = (self.claim, (self.clock)());
        self.durable(|disk| put(disk, [(Key::Stop(claim), now)]))?;
        self.shared.stopped.get_or_init(|| Error::Stopped { detail: "the store is closed".into() });
        point!("close/noted", said => return Err(io("close")(std::io::Error::other(said))));
        self.disk.close()?;
        point!("close/let_go", said => return Err(io("close")(std::io::Error::other(said))));
        Ok(())
    }
}

/// Writes an adopted offset and its reason, durably.
pub(super) fn write_adoption(disk: &mut Disk, partition: &Partition, number: u64, marks: Marks, adoption: &Adoption) -> Result<(), Error> {
    let topic = disk.reader.topics_mut().number(&partition.topic);
    let partition = partition.number;
    let mut entries = Entries::default();
    let put = entries
        .put(Key::Adoption { topic, partition, number }, adoption)
        .and_then(|()| entries.put(Key::Marks { topic, partition }, &StoredMarks::from(marks)));
    put.map_err(|error| io("translate a note")(std::io::Error::other(error)))?;
    disk.write(&[], entries).map(drop)
}

#[derive(Default)]
struct Weight {
    entries: usize,
    payload: u64,
}

impl Weight {
    fn add(&mut self, batch: &Batch) {
        self.entries += batch.0.len();
        let payloads = batch.0.iter().map(|entry| match entry {
            crate::protocol::known::Entry::Park { payload, .. } => payload.bytes(),
            _ => 0,
        });
        self.payload += payloads.sum::<u64>();
    }
}
