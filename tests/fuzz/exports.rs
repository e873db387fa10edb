//! Files that are given to an import: whatever they hold, it makes the whole store of them or nothing, and says why.

use crate::{entries::full, input::cases};
use proptest::prelude::*;
use receipted::store::sled::{
    transfer::{Error, Secrets, import},
    verify,
};
use std::{fs, path::Path, sync::LazyLock};

/// A sound file: its head and its chunks, each with its kind and body.
static SOUND: LazyLock<Vec<(u8, Vec<u8>)>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = fs::read(full(folder.path()).1).expect("reads");
    let (mut at, mut chunks) = (12, Vec::new());
    while at < bytes.len() {
        let end = at + 5 + u32::from_be_bytes(bytes[at + 1..at + 5].try_into().expect("four")) as usize;
        chunks.push((bytes[at], bytes[at + 5..end].to_vec()));
        at = end + 4;
    }
    assert_eq!(assembled(&chunks), bytes, "as the page says");
    chunks
});

/// A file of these chunks with right lengths and checksums, whatever they hold. The end's digest is right where it can be.
fn assembled(chunks: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut out = b"rcexport\0\0\0\x01".to_vec();
    for (number, (kind, body)) in chunks.iter().enumerate() {
        let mut body = body.clone();
        if *kind == 3 && body.len() >= 32 {
            let at = body.len() - 32;
            body[at..].copy_from_slice(blake3::hash(&out).as_bytes());
        }
        let chunk = [vec![*kind], (body.len() as u32).to_be_bytes().to_vec(), body].concat();
        let sum = crc32c::crc32c_append(crc32c::crc32c(&(number as u64).to_be_bytes()), &chunk);
        out.extend(chunk);
        out.extend(sum.to_be_bytes());
    }
    out
}

/// Whether a file with these bytes is refused, and nothing is left of it.
fn refused(folder: &Path, bytes: &[u8]) -> Result<Error, TestCaseError> {
    let (file, place) = (folder.join("file"), folder.join("place"));
    fs::write(&file, bytes).expect("writes");
    let error = match import(&file, &place, &Secrets::default(), &mut |_| {}) {
        Err(error) => error,
        Ok(filled) => return Err(TestCaseError::fail(format!("taken: {}", filled.report))),
    };
    let named =
        matches!(error, Error::NotAnExport { .. } | Error::Version { .. } | Error::Cut { .. } | Error::Damaged { .. } | Error::Store(_));
    prop_assert!(named, "{}", error);
    prop_assert!(!place.exists() && !folder.join("place.importing").exists(), "something is left: {}", error);
    Ok(error)
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn any_bytes_are_refused_by_name(head in 0..13_usize, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempfile::tempdir().expect("a folder");
        refused(folder.path(), &[&b"rcexport\0\0\0\x01\x01"[..head], &bytes].concat())?;
    }

    /// With right checksums around them, so that only what is inside can tell.
    #[test]
    fn a_changed_body_is_refused_behind_right_checksums(
        which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), with in prop::collection::vec(any::<u8>(), 0..6), cut in 0..6_usize,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut chunks = SOUND.clone();
        // Of the header only what it was checked for: the rest of it are words for people.
        let which = 1 + which.index(chunks.len() - 1);
        let body = &mut chunks[which].1;
        let at = at.index(body.len());
        let end = (at + cut).min(body.len());
        let same = body[at..end] == with[..];
        body.splice(at..end, with);
        let bytes = assembled(&chunks);
        prop_assume!(!same && bytes != assembled(&SOUND));
        refused(folder.path(), &bytes)?;
    }

    #[test]
    fn any_header_makes_the_same_store_or_none(at in any::<prop::sample::Index>(), byte in 1_u8..) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut chunks = SOUND.clone();
        let at = at.index(chunks[0].1.len());
        chunks[0].1[at] ^= byte;
        let (file, place) = (folder.path().join("file"), folder.path().join("place"));
        fs::write(&file, assembled(&chunks)).expect("writes");
        match import(&file, &place, &Secrets::default(), &mut |_| {}) {
            Ok(_) => {
                let report = verify(&place).expect("reads");
                prop_assert!(report.is_sound(), "{}", report);
                prop_assert_eq!((report.operations, report.parks, report.incidents), (3, 3, 1));
            }
            Err(_) => prop_assert!(!place.exists()),
        }
    }
}
