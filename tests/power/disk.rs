//! Owns what a disk holds at a moment of a record: what was synced, and what was only asked for. It makes images of what a power cut
//! may leave. It knows nothing of a store.
//!
//! The rules: a file's bytes and length are there when a sync of that file began after them and ended; a name, its removal or its
//! change when every directory that it stands in was synced so. Of the rest anything may be there: a write without the one before it,
//! a sector or a page of a write without its neighbour, a length without its bytes, a name of a file without its bytes. A sector or page
//! holds what it held at one moment. A range sync is nothing.

use crate::{counts::Counts, dice::Dice, log::Event};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::Path,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Directory,
    File(usize),
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

/// A file: what is synced, and the changes since, each with its place in the record.
#[derive(Debug, Default)]
struct File {
    synced: Vec<u8>,
    since: Vec<(usize, Change)>,
}

#[derive(Debug)]
struct Naming {
    place: usize,
    what: Name,
    /// Directories whose sync it still needs.
    needs: BTreeSet<String>,
}

#[derive(Debug, Clone)]
enum Name {
    Add(String, Node),
    Move(String, String),
    Remove(String),
}

#[derive(Debug, Default)]
pub struct Disk {
    files: Vec<File>,
    inodes: HashMap<u64, usize>,
    /// As the running process sees them.
    seen: BTreeMap<String, Node>,
    /// As they are synced.
    synced: BTreeMap<String, Node>,
    since: Vec<Naming>,
    running: HashMap<u64, (usize, u64, String)>,
}

/// What becomes of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// It is lost.
    Nothing,
    /// All is there: a kill.
    Everything,
    /// There up to some change.
    Prefix,
    /// Some changes.
    Changes,
    /// Of every 512 bytes some state.
    Sectors,
    /// Of every 4 KiB some state.
    Pages,
    /// All but renames is there.
    WithoutRenames,
}

impl Mood {
    pub const ALL: [Self; 7] =
        [Self::Nothing, Self::Everything, Self::Prefix, Self::Changes, Self::Sectors, Self::Pages, Self::WithoutRenames];
}

/// Counts snapshots of a start that have lost the name that they were written under and the one that they were given.
pub const SNAPSHOT_LOST: &str = "snapshots without any name";

/// Files with their bytes; directories have none.
pub type Image = BTreeMap<String, Option<Vec<u8>>>;

fn parent(path: &str) -> String {
    path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned()
}

impl Disk {
    /// A disk with what is in `base`, all of it synced.
    pub fn from(base: &Path) -> Self {
        let mut disk = Self::default();
        disk.gather(base, "");
        disk.synced.clone_from(&disk.seen);
        disk
    }

    fn gather(&mut self, base: &Path, below: &str) {
        for entry in fs::read_dir(base.join(below)).expect("a directory") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("text");
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            if entry.file_type().expect("a type").is_dir() {
                self.seen.insert(path.clone(), Node::Directory);
                self.gather(base, &path);
            } else {
                self.files.push(File { synced: fs::read(entry.path()).expect("a file"), since: Vec::new() });
                self.seen.insert(path, Node::File(self.files.len() - 1));
            }
        }
    }

    fn file(&mut self, inode: u64, path: &str) -> &mut File {
        let named = || match self.seen.get(path) {
            Some(Node::File(file)) => *file,
            other => panic!("{path} is {other:?} in the record"),
        };
        let file = *self.inodes.entry(inode).or_insert_with(named);
        &mut self.files[file]
    }

    fn name(&mut self, place: usize, what: Name) {
        let needs = match &what {
            Name::Add(path, _) | Name::Remove(path) => BTreeSet::from([parent(path)]),
            Name::Move(from, to) => BTreeSet::from([parent(from), parent(to)]),
        };
        what.apply(&mut self.seen);
        self.since.push(Naming { place, what, needs });
    }

    /// Takes the next event; `place` counts them.
    pub fn take(&mut self, place: usize, event: &Event) {
        match event {
            Event::Created { inode, path } => {
                self.files.push(File::default());
                self.inodes.insert(*inode, self.files.len() - 1);
                self.name(place, Name::Add(path.clone(), Node::File(self.files.len() - 1)));
            }
            Event::Wrote { inode, path, at, data } => self.file(*inode, path).since.push((place, Change::Write(*at, data.clone()))),
            Event::Truncated { inode, path, length } => self.file(*inode, path).since.push((place, Change::Cut(*length))),
            Event::Renamed { from, to } => self.name(place, Name::Move(from.clone(), to.clone())),
            Event::Removed { path } => self.name(place, Name::Remove(path.clone())),
            Event::MadeDirectory { path } => self.name(place, Name::Add(path.clone(), Node::Directory)),
            Event::SyncBegan { number, inode, path } => drop(self.running.insert(*number, (place, *inode, path.clone()))),
            Event::SyncEnded { number } => {
                if let Some((began, inode, path)) = self.running.remove(number) {
                    self.sync(began, inode, &path);
                }
            }
            // What a process leaves is in memory still; its syncs on the way are nobody's.
            Event::Started => self.running.clear(),
            Event::Mark(_) | Event::Failed { .. } => {}
        }
    }

    fn sync(&mut self, began: usize, inode: u64, path: &str) {
        if !path.is_empty() && self.seen.get(path) != Some(&Node::Directory) {
            let file = self.file(inode, path);
            let later = file.since.partition_point(|(place, _)| *place < began);
            for (_, change) in file.since.drain(..later) {
                change.apply(&mut file.synced);
            }
            return;
        }
        for naming in self.since.iter_mut().filter(|naming| naming.place < began) {
            naming.needs.remove(path);
        }
        let synced = &mut self.synced;
        self.since.retain(|naming| {
            let left = !naming.needs.is_empty();
            if !left {
                naming.what.apply(synced);
            }
            left
        });
    }

    /// What a power cut now may leave.
    pub fn image(&self, mood: Mood, dice: &mut Dice, counts: &mut Counts) -> Image {
        let mut names = self.synced.clone();
        let keep = dice.chance();
        let prefix = dice.below(self.since.len() + 1);
        for (index, naming) in self.since.iter().enumerate() {
            let kept = match mood {
                Mood::Nothing => false,
                Mood::Everything => true,
                Mood::WithoutRenames => !matches!(naming.what, Name::Move(..)),
                Mood::Prefix => index < prefix,
                Mood::Changes | Mood::Sectors | Mood::Pages => dice.is(keep),
            };
            counts.add(naming.what.count(kept));
            if kept {
                naming.what.apply(&mut names);
            }
        }
        self.count_snapshots(&names, counts);
        let mut image = Image::new();
        for (path, node) in &names {
            // What stands in a directory that is not there is not there.
            let above = parent(path);
            if above.is_empty() || image.get(&above) == Some(&None) {
                let bytes = match node {
                    Node::Directory => None,
                    Node::File(file) => Some(self.files[*file].left(mood, dice, counts)),
                };
                image.insert(path.clone(), bytes);
            }
        }
        image
    }
}

impl Disk {
    /// Snapshots of starts whose name is not synced: which of them have the name that they were written under, and which have none. A
    /// rename that is there does not help where the file that was renamed is not.
    fn count_snapshots(&self, names: &BTreeMap<String, Node>, counts: &mut Counts) {
        for naming in &self.since {
            let Name::Move(from, to) = &naming.what else { continue };
            let removed = || self.since.iter().any(|later| matches!(&later.what, Name::Remove(path) if path == to));
            if !to.contains("/snap.") || names.contains_key(to) {
                continue;
            }
            if names.contains_key(from) {
                counts.add("snapshots with the name that they were written under");
            } else if !removed() {
                counts.add(SNAPSHOT_LOST);
            }
        }
    }

    /// What a kill would leave, but that of the unsynced bytes of the log only the first so many are there.
    pub fn torn(&self, log: &str, bytes: usize) -> Image {
        let mut image = self.image(Mood::Everything, &mut Dice::new(0, 0), &mut Counts::default());
        if let (Some(Node::File(file)), Some(Some(there))) = (self.seen.get(log), image.get_mut(log)) {
            there.clone_from(&self.files[*file].synced);
            let mut left = bytes;
            for (_, change) in &self.files[*file].since {
                match change {
                    Change::Write(at, data) if data.len() > left => {
                        Change::Write(*at, data[..left].to_vec()).apply(there);
                        break;
                    }
                    change => change.apply(there),
                }
                left -= if let Change::Write(_, data) = change { data.len() } else { 0 };
            }
        }
        image
    }

    /// Unsynced bytes of a file.
    pub fn unsynced(&self, path: &str) -> usize {
        let Some(Node::File(file)) = self.seen.get(path) else { return 0 };
        self.files[*file].since.iter().map(|(_, change)| if let Change::Write(_, data) = change { data.len() } else { 0 }).sum()
    }
}

impl Name {
    fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            Self::Add(path, node) => drop(names.insert(path.clone(), *node)),
            Self::Remove(path) => drop(names.remove(path)),
            Self::Move(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }

    fn count(&self, kept: bool) -> &'static str {
        match (self, kept) {
            (Self::Add(..), true) => "unsynced names kept",
            (Self::Add(..), false) => "unsynced names lost",
            (Self::Move(..), true) => "unsynced renames kept",
            (Self::Move(..), false) => "unsynced renames lost",
            (Self::Remove(_), true) => "unsynced removals kept",
            (Self::Remove(_), false) => "unsynced removals lost",
        }
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Cut(length) => bytes.resize(*length, 0),
            Self::Write(at, data) => {
                let end = at + data.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*at..end].copy_from_slice(data);
            }
        }
    }

    /// Which cells it touches, of a file that was so long before.
    fn cells(&self, length: usize, cell: usize) -> std::ops::Range<usize> {
        let (from, to) = match self {
            Self::Write(at, data) => (*at, at + data.len()),
            Self::Cut(to) => (*to.min(&length), *to.max(&length)),
        };
        from / cell..to.div_ceil(cell)
    }
}

impl File {
    fn left(&self, mood: Mood, dice: &mut Dice, counts: &mut Counts) -> Vec<u8> {
        let keep = dice.chance();
        let prefix = dice.below(self.since.len() + 1);
        let mut bytes = self.synced.clone();
        match mood {
            Mood::Sectors => return self.cells(512, dice, counts),
            Mood::Pages => return self.cells(4096, dice, counts),
            Mood::Nothing => counts.many("unsynced writes lost", self.since.len()),
            Mood::Everything | Mood::WithoutRenames | Mood::Prefix | Mood::Changes => {
                let mut lost_one = false;
                for (index, (_, change)) in self.since.iter().enumerate() {
                    let kept = matches!(mood, Mood::Everything | Mood::WithoutRenames)
                        || if mood == Mood::Prefix { index < prefix } else { dice.is(keep) };
                    counts.add(if kept { "unsynced writes kept" } else { "unsynced writes lost" });
                    if kept {
                        change.apply(&mut bytes);
                        counts.many("writes kept without one before them", usize::from(lost_one));
                    }
                    lost_one |= !kept;
                }
            }
        }
        bytes
    }

    /// Each cell that was touched as it was after one of the changes to it, or before all; and a length that the file had.
    fn cells(&self, cell: usize, dice: &mut Dice, counts: &mut Counts) -> Vec<u8> {
        let keep = dice.chance();
        let (mut now, mut lengths) = (self.synced.clone(), vec![self.synced.len()]);
        let mut left = self.synced.clone();
        for (_, change) in &self.since {
            let touched = change.cells(now.len(), cell);
            change.apply(&mut now);
            lengths.push(now.len());
            if left.len() < now.len() {
                left.resize(now.len(), 0);
            }
            let (mut kept, mut lost) = (0, 0);
            for number in touched {
                // Later states replace earlier ones, some of the time: what is left is any of them.
                if dice.is(keep) {
                    let (from, to) = (number * cell, left.len().min((number + 1) * cell));
                    let there = now.len().clamp(from, to);
                    left[from..there].copy_from_slice(now.get(from..there).unwrap_or_default());
                    left[there..to].fill(0);
                    kept += 1;
                } else {
                    lost += 1;
                }
            }
            counts.many("torn writes", usize::from(kept > 0 && lost > 0));
        }
        let last = *lengths.last().expect("one at least");
        // Mostly the length that its bytes need.
        let length = if dice.below(3) == 0 { lengths[dice.below(lengths.len())] } else { last };
        counts.many("lengths that are older than bytes", usize::from(length < last));
        counts.many("lengths of cuts that were lost", usize::from(length > last));
        left.resize(length, 0);
        left
    }
}

/// Writes an image down.
pub fn write(image: &Image, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for (path, bytes) in image {
        match bytes {
            None => fs::create_dir(to.join(path)).expect("made"),
            Some(bytes) => fs::write(to.join(path), bytes).expect("written"),
        }
    }
}
