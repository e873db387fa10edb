//! Owns the bytes of an export: chunks with a length and a checksum each, and an end that says how much there has to be.
//! `docs/EXPORT_FORMAT.md` describes them; a change raises [`VERSION`]. It does not know what the entries say.

use super::{
    super::format::{self, FORMAT},
    Error, io_error,
};
use crate::protocol::time::UnixMillis;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{BufReader, BufWriter, ErrorKind, Read, Write},
    path::{Path, PathBuf},
};

const MAGIC: [u8; 8] = *b"rcexport";
/// The layout of the file.
const VERSION: u32 = 1;
/// Bytes of a chunk at which the next begins.
const CHUNK_BYTES: usize = 256 * 1024;
/// Bytes of a chunk, at most: what a damaged length cannot ask for.
const CHUNK_BYTES_MAX: usize = 4 * 1024 * 1024;

const HEADER: u8 = 1;
const ENTRIES: u8 = 2;
const END: u8 = 3;

/// What the file says of the store before its entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// The layout of the store's entries.
    pub(super) format: u32,
    pub(super) store_id: [u8; 16],
    pub(super) made: UnixMillis,
    pub(super) binding: Option<(String, String)>,
    /// When it was exported.
    pub(super) at: UnixMillis,
    /// The version of receipted that wrote it.
    pub(super) by: String,
}

/// Body of the last chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct End {
    /// Chunks before this one, the header's included.
    chunks: u64,
    entries: u64,
    /// Bytes of keys and values.
    bytes: u64,
    /// BLAKE3 of all bytes before this chunk.
    digest: [u8; 32],
}

/// What was written or read so far.
#[derive(Debug, Default)]
struct Tally {
    hash: blake3::Hasher,
    chunks: u64,
    entries: u64,
    bytes: u64,
}

impl Tally {
    fn end(&self) -> End {
        End { chunks: self.chunks, entries: self.entries, bytes: self.bytes, digest: *self.hash.finalize().as_bytes() }
    }

    fn count(&mut self, key: &[u8], value: &[u8]) {
        self.entries += 1;
        self.bytes += (key.len() + value.len()) as u64;
    }

    /// The checksum of the next chunk. It covers the chunk's number, so that one in another's place is noticed.
    fn checksum(&self, head: [u8; 5], body: &[u8]) -> [u8; 4] {
        let sum = crc32c::crc32c_append(crc32c::crc32c(&self.chunks.to_be_bytes()), &head);
        crc32c::crc32c_append(sum, body).to_be_bytes()
    }
}

/// A file while it is written.
pub(super) struct Sink<'a> {
    path: &'a Path,
    to: BufWriter<File>,
    tally: Tally,
    pending: Vec<u8>,
    written: u64,
}

impl<'a> Sink<'a> {
    pub(super) fn new(path: &'a Path, file: File, header: &Header) -> Result<Self, Error> {
        let mut sink = Self { path, to: BufWriter::new(file), tally: Tally::default(), pending: Vec::new(), written: 0 };
        sink.write(&MAGIC)?;
        sink.write(&VERSION.to_be_bytes())?;
        let body = sink.body(header)?;
        sink.chunk(HEADER, &body)?;
        Ok(sink)
    }

    /// Adds an entry.
    pub(super) fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let too_long = || io_error("write an entry into", self.path)(ErrorKind::FileTooLarge.into());
        let (key_len, value_len) = (u8::try_from(key.len()).map_err(|_| too_long())?, u32::try_from(value.len()).map_err(|_| too_long())?);
        self.pending.push(key_len);
        self.pending.extend(value_len.to_be_bytes());
        self.pending.extend(key);
        self.pending.extend(value);
        self.tally.count(key, value);
        if self.pending.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    /// How many entries there are so far.
    pub(super) fn entries(&self) -> u64 {
        self.tally.entries
    }

    /// Writes the end, and makes the file durable. Returns its length.
    pub(super) fn finish(mut self) -> Result<u64, Error> {
        self.flush()?;
        let body = self.body(&self.tally.end())?;
        self.chunk(END, &body)?;
        let synced = self.to.flush().and_then(|()| self.to.get_ref().sync_all());
        synced.map_err(io_error("write", self.path))?;
        Ok(self.written)
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let body = std::mem::take(&mut self.pending);
        self.chunk(ENTRIES, &body)
    }

    fn chunk(&mut self, kind: u8, body: &[u8]) -> Result<(), Error> {
        if body.len() > CHUNK_BYTES_MAX {
            return Err(io_error("write an entry into", self.path)(ErrorKind::FileTooLarge.into()));
        }
        let head = head(kind, u32::try_from(body.len()).unwrap_or(u32::MAX));
        let sum = self.tally.checksum(head, body);
        self.write(&head)?;
        self.write(body)?;
        self.write(&sum)?;
        self.tally.chunks += 1;
        Ok(())
    }

    fn body<T: Serialize>(&self, value: &T) -> Result<Vec<u8>, Error> {
        format::body(value).map_err(|error| io_error("write", self.path)(std::io::Error::other(error)))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.to.write_all(bytes).map_err(io_error("write", self.path))?;
        self.tally.hash.update(bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }
}

fn head(kind: u8, length: u32) -> [u8; 5] {
    let [a, b, c, d] = length.to_be_bytes();
    [kind, a, b, c, d]
}

/// A file while it is read.
pub(super) struct Source {
    path: PathBuf,
    from: BufReader<File>,
    tally: Tally,
    at: u64,
    /// What the file says first.
    pub(super) header: Header,
    /// Its length.
    pub(super) length: u64,
    last: Vec<u8>,
}

/// An entry as it is in the store.
pub(super) type Entry = (Vec<u8>, Vec<u8>);

impl Source {
    /// Opens a file and reads what it says of the store.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(io_error("open", path))?;
        let length = file.metadata().map_err(io_error("open", path))?.len();
        let header = Header { format: FORMAT, store_id: [0; 16], made: UnixMillis(0), binding: None, at: UnixMillis(0), by: String::new() };
        let (from, tally) = (BufReader::new(file), Tally::default());
        let mut source = Self { path: path.into(), from, tally, at: 0, header, length, last: Vec::new() };
        source.begin()?;
        Ok(source)
    }

    fn begin(&mut self) -> Result<(), Error> {
        let mut magic = [0; 8];
        match self.read(&mut magic) {
            Ok(()) if magic == MAGIC => {}
            Ok(()) | Err(Error::Cut { .. }) => return Err(Error::NotAnExport { file: self.path.clone() }),
            Err(error) => return Err(error),
        }
        let mut version = [0; 4];
        self.read(&mut version)?;
        self.check_version("export", u32::from_be_bytes(version), VERSION)?;
        let (kind, body) = self.chunk()?;
        if kind != HEADER {
            return Err(self.damaged("it does not begin with a header"));
        }
        // The format comes first: the rest may be another's.
        let format = format::first(&body).map_err(|damage| self.damaged(damage))?;
        if !format::is_read(format) {
            self.check_version("store", format, FORMAT)?;
        }
        self.header = format::read(&body).map_err(|damage| self.damaged(damage))?;
        Ok(())
    }

    /// Which file it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes were read.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// How many entries were read.
    pub(super) fn entries(&self) -> u64 {
        self.tally.entries
    }

    /// The entries of the next chunk; none at the end, which is then checked against all that came.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Entry>>, Error> {
        let before = self.tally.end();
        match self.chunk()? {
            (ENTRIES, body) => self.parse(&body).map(Some),
            (END, body) => {
                let end: End = format::read(&body).map_err(|damage| self.damaged(damage))?;
                if end != before {
                    let (has, says) = (before.entries, end.entries);
                    return Err(self.damaged(format!("{has} entries in {} chunks are there, of {says} in {}", before.chunks, end.chunks)));
                }
                match self.from.read(&mut [0]) {
                    Ok(0) => Ok(None),
                    Ok(_) => Err(self.damaged("more comes after its end")),
                    Err(error) => Err(io_error("read", &self.path)(error)),
                }
            }
            (kind, _) => Err(self.damaged(format!("a chunk of kind {kind} is in the middle"))),
        }
    }

    fn parse(&mut self, body: &[u8]) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        let mut rest = body;
        while let Some((head, after)) = rest.split_first_chunk::<5>() {
            let [key_len, value_len @ ..] = *head;
            let (key_len, value_len) = (usize::from(key_len), usize::try_from(u32::from_be_bytes(value_len)).unwrap_or(usize::MAX));
            let split = after.split_at_checked(key_len).and_then(|(key, after)| Some((key, after.split_at_checked(value_len)?)));
            let Some((key, (value, after))) = split else { break };
            if self.tally.entries > 0 && key <= self.last.as_slice() {
                return Err(self.damaged("its entries are not in the order of their keys"));
            }
            self.last = key.to_vec();
            self.tally.count(key, value);
            entries.push((key.to_vec(), value.to_vec()));
            rest = after;
        }
        if rest.is_empty() { Ok(entries) } else { Err(self.damaged("an entry is longer than its chunk")) }
    }

    fn chunk(&mut self) -> Result<(u8, Vec<u8>), Error> {
        let begins = self.at;
        let mut head = [0; 5];
        self.read(&mut head)?;
        let [kind, length @ ..] = head;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        let damaged = |detail: &str| Error::Damaged { file: self.path.clone(), at: begins, detail: detail.into() };
        if length > CHUNK_BYTES_MAX {
            return Err(damaged("a chunk has an impossible length"));
        }
        let mut body = vec![0; length];
        self.read(&mut body)?;
        let mut sum = [0; 4];
        let expected = self.tally.checksum(head, &body);
        self.read(&mut sum)?;
        if sum != expected {
            return Err(Error::Damaged { file: self.path.clone(), at: begins, detail: "the checksum of a chunk does not match".into() });
        }
        self.tally.chunks += 1;
        Ok((kind, body))
    }

    fn read(&mut self, to: &mut [u8]) -> Result<(), Error> {
        self.from.read_exact(to).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Error::Cut { file: self.path.clone(), at: self.length },
            _ => io_error("read", &self.path)(error),
        })?;
        self.at += to.len() as u64;
        self.tally.hash.update(to);
        Ok(())
    }

    fn check_version(&self, what: &'static str, found: u32, expected: u32) -> Result<(), Error> {
        if found == expected { Ok(()) } else { Err(Error::Version { file: self.path.clone(), what, found, expected }) }
    }

    /// Damage in what was read last.
    pub(super) fn damaged(&self, detail: impl std::fmt::Display) -> Error {
        Error::Damaged { file: self.path.clone(), at: self.at, detail: detail.to_string() }
    }
}
