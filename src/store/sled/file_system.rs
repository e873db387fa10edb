//! Owns which file systems a store may lie on, told by the number that the kernel gives for each. It does not own what a disk does
//! with a sync: `probe` measures that.

use super::{
    super::{Error, FileSystem},
    directory::io,
    probe::SyncTimes,
};
use std::{borrow::Cow, path::Path};

/// What the open saw of the store's disk. Worth a line in the log.
///
/// ```
/// # use receipted::store::{FileSystem, sled::{Options, SledStore}};
/// # let directory = tempfile::tempdir()?;
/// # let options = Options { file_system: FileSystem::Any, ballast_bytes: 0, ..Options::new(directory.path()) };
/// let store = SledStore::open(&options)?;
/// let disk = store.disk();
/// if disk.is_memory {
///     eprintln!("receipts on {} are gone with the power", disk.file_system);
/// }
/// let slowest = disk.syncs.map(|syncs| syncs.max); // every admission waits for a sync
/// # assert!(slowest.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskFacts {
    /// The file system's name.
    pub file_system: String,
    /// Whether it is memory, of which nothing survives a power cut.
    pub is_memory: bool,
    /// What a sync took; none where the probe was off.
    pub syncs: Option<SyncTimes>,
}

/// What is known of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    /// Its name.
    pub(super) name: Cow<'static, str>,
    pub(super) trust: Trust,
}

/// What a store may expect of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Nothing is said against it.
    Stays,
    /// It is memory.
    Forgets,
    /// Not to be used unless forced, and why.
    Refused(&'static str),
}

const NETWORK: &str = "a network file system: a sync or a lock there does not always mean what it says";
const USER_SPACE: &str = "served by another process: a sync there means whatever that process makes of it";
const COPIES: &str =
    "a copy-on-write file system: it copies what is overwritten, so that the log scatters and a full disk refuses even what it has";

/// What the file system with this number is.
pub(super) fn kind(magic: u32) -> Kind {
    let (name, trust) = match magic {
        0xef53 => ("ext4", Trust::Stays),
        0x5846_5342 => ("xfs", Trust::Stays),
        0x794c_7630 => ("overlayfs", Trust::Stays),
        0x0102_1994 => ("tmpfs", Trust::Forgets),
        0x8584_58f6 => ("ramfs", Trust::Forgets),
        0x6969 => ("nfs", Trust::Refused(NETWORK)),
        0x517b => ("smb", Trust::Refused(NETWORK)),
        0xff53_4d42 => ("cifs", Trust::Refused(NETWORK)),
        0xfe53_4d42 => ("smb2", Trust::Refused(NETWORK)),
        0x0102_1997 => ("9p", Trust::Refused(NETWORK)),
        0x00c3_6400 => ("ceph", Trust::Refused(NETWORK)),
        0x6573_5546 => ("fuse", Trust::Refused(USER_SPACE)),
        0x9123_683e => ("btrfs", Trust::Refused(COPIES)),
        0x2fc1_2fc1 => ("zfs", Trust::Refused(COPIES)),
        0xca45_1a4e => ("bcachefs", Trust::Refused(COPIES)),
        other => return Kind { name: Cow::Owned(format!("unknown (0x{other:x})")), trust: Trust::Stays },
    };
    Kind { name: Cow::Borrowed(name), trust }
}

/// Looks at the file system that `root` is on, or will be, before anything is made there.
pub(super) fn check(root: &Path, allowed: FileSystem) -> Result<Kind, Error> {
    let there = root.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let stat = rustix::fs::statfs(there).map_err(|errno| io("look at its file system")(errno.into()))?;
    // The field's width and sign differ between machines; the number has 32 bits on all of them.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "only these bits are the number")]
    judge(root, kind(stat.f_type as u32), allowed)
}

fn judge(root: &Path, kind: Kind, allowed: FileSystem) -> Result<Kind, Error> {
    match (kind.trust, allowed) {
        (Trust::Refused(why), FileSystem::Local) => Err(Error::FileSystem { directory: root.into(), kind: kind.name.into_owned(), why }),
        _ => Ok(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers as Linux has them.
    const REFUSED: [(u32, &str); 10] = [
        (0x6969, "nfs"),
        (0x517B, "smb"),
        (0xFF53_4D42, "cifs"),
        (0xFE53_4D42, "smb2"),
        (0x0102_1997, "9p"),
        (0x00C3_6400, "ceph"),
        (0x6573_5546, "fuse"),
        (0x9123_683E, "btrfs"),
        (0x2FC1_2FC1, "zfs"),
        (0xCA45_1A4E, "bcachefs"),
    ];

    #[test]
    fn network_and_copying_file_systems_are_refused_by_name_with_the_remedy_unless_forced() {
        for (magic, name) in REFUSED {
            let error = judge(Path::new("/data"), kind(magic), FileSystem::Local).expect_err(name);
            assert!(matches!(&error, Error::FileSystem { kind, .. } if kind == name), "{error:?}");
            let text = error.to_string();
            for part in ["/data", name, "a sync there|a sync or a lock there|it copies", "ext4 or xfs", "store.file_system = \"any\""] {
                assert!(part.split('|').any(|part| text.contains(part)), "{part} is not in: {text}");
            }
            assert_eq!(
                judge(Path::new("/data"), kind(magic), FileSystem::Any).map(|kind| kind.name.into_owned()).ok().as_deref(),
                Some(name)
            );
        }
    }

    #[test]
    fn local_ones_and_memory_are_taken_and_memory_says_that_it_forgets() {
        for (magic, name, trust) in [
            (0xEF53, "ext4", Trust::Stays),
            (0x5846_5342, "xfs", Trust::Stays),
            (0x794C_7630, "overlayfs", Trust::Stays),
            (0x0102_1994, "tmpfs", Trust::Forgets),
            (0x8584_58F6, "ramfs", Trust::Forgets),
            (0xF2F5_2010, "unknown (0xf2f52010)", Trust::Stays),
        ] {
            let kind = judge(Path::new("/data"), kind(magic), FileSystem::Local).expect(name);
            assert_eq!((kind.name.as_ref(), kind.trust), (name, trust));
        }
    }

    #[test]
    fn a_store_that_is_not_there_yet_is_looked_at_where_it_will_be() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let there = check(directory.path(), FileSystem::Any).expect("it is there");
        assert_eq!(check(&directory.path().join("not/there"), FileSystem::Any).expect("its parent is"), there);
        assert!(check(Path::new("not-there"), FileSystem::Any).is_ok(), "relative");
    }
}
