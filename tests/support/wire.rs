//! Owns a few requests of the Kafka protocol by hand, for what the client library cannot say: header names and commit
//! metadata that are not UTF-8, offsets of a group without a member, the compression that a batch really has.
//! Does not own retries, and knows no cluster: every request goes to the address it is given.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const CALL_MAX: Duration = Duration::from_secs(10);
const RESPONSE_BYTES_MAX: usize = 128 << 20;

/// What a record holds, with header names as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawRecord {
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// One stored batch: its compression, and its records where there is none.
#[derive(Clone, Debug)]
pub struct Batch {
    pub base_offset: i64,
    pub codec: &'static str,
    pub records: Vec<RawRecord>,
}

/// A refusal by the broker, with its error code.
#[derive(Debug)]
pub struct Refused(pub i16);

impl Refused {
    pub const COORDINATOR_LOADING: i16 = 14;
    pub const COORDINATOR_NOT_AVAILABLE: i16 = 15;
    pub const NOT_COORDINATOR: i16 = 16;
    pub const UNKNOWN_MEMBER: i16 = 25;
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the broker refused with error code {}", self.0)
    }
}

impl std::error::Error for Refused {}

fn check(code: i16) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::other(Refused(code))) }
}

/// The broker's error code behind an error, if it was the broker that refused.
pub fn refusal(error: &io::Error) -> Option<i16> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Refused>()).map(|refused| refused.0)
}

/// Appends one uncompressed batch.
pub fn produce(address: &str, topic: &str, partition: i32, records: &[RawRecord]) -> io::Result<i64> {
    let mut body = Writer::default();
    body.string(None).i16(-1).i32(10_000); // no transaction, all replicas, ten seconds
    body.i32(1).string(Some(topic.as_bytes())).i32(1).i32(partition).bytes(&encode_batch(records));
    let response = call(address, 0, 3, &body.0)?;
    let mut answer = Reader(&response);
    let (_, _, _, _) = (answer.i32()?, answer.string()?, answer.i32()?, answer.i32()?);
    check(answer.i16()?)?;
    answer.i64()
}

/// Reads stored batches from `offset` on, at most about `bytes_max` of them.
pub fn fetch(address: &str, topic: &str, partition: i32, offset: i64, bytes_max: i32) -> io::Result<Vec<Batch>> {
    let mut body = Writer::default();
    body.i32(-1).i32(500).i32(1).i32(bytes_max).i8(0);
    body.i32(1).string(Some(topic.as_bytes())).i32(1).i32(partition).i64(offset).i32(bytes_max);
    let response = call(address, 1, 4, &body.0)?;
    let mut answer = Reader(&response);
    let (_, _, _, _, _) = (answer.i32()?, answer.i32()?, answer.string()?, answer.i32()?, answer.i32()?);
    check(answer.i16()?)?;
    let (_, _) = (answer.i64()?, answer.i64()?);
    for _ in 0..answer.i32()?.max(0) {
        let (_, _) = (answer.i64()?, answer.i64()?);
    }
    decode_batches(&answer.bytes()?.unwrap_or_default())
}

/// The address of the group's coordinator.
pub fn coordinator(address: &str, group: &str) -> io::Result<String> {
    let response = call(address, 10, 0, &Writer::default().string(Some(group.as_bytes())).0)?;
    let mut answer = Reader(&response);
    check(answer.i16()?)?;
    let (_, host, port) = (answer.i32()?, answer.string()?.unwrap_or_default(), answer.i32()?);
    Ok(format!("{}:{port}", String::from_utf8_lossy(&host)))
}

/// Commits an offset of a group that has no member now; with one, the broker refuses with `UNKNOWN_MEMBER`.
pub fn commit(coordinator: &str, group: &str, topic: &str, partition: i32, offset: i64, metadata: Option<&[u8]>) -> io::Result<()> {
    let mut body = Writer::default();
    body.string(Some(group.as_bytes())).i32(-1).string(Some(b"")).i64(-1);
    body.i32(1).string(Some(topic.as_bytes())).i32(1).i32(partition).i64(offset).string(metadata);
    let response = call(coordinator, 8, 2, &body.0)?;
    let mut answer = Reader(&response);
    let (_, _, _, _) = (answer.i32()?, answer.string()?, answer.i32()?, answer.i32()?);
    check(answer.i16()?)
}

/// The committed offset of a group and its metadata.
pub fn committed(coordinator: &str, group: &str, topic: &str, partition: i32) -> io::Result<Option<(i64, Vec<u8>)>> {
    let mut body = Writer::default();
    body.string(Some(group.as_bytes())).i32(1).string(Some(topic.as_bytes())).i32(1).i32(partition);
    let response = call(coordinator, 9, 1, &body.0)?;
    let mut answer = Reader(&response);
    let (_, _, _, _) = (answer.i32()?, answer.string()?, answer.i32()?, answer.i32()?);
    let (offset, metadata) = (answer.i64()?, answer.string()?.unwrap_or_default());
    check(answer.i16()?)?;
    Ok((offset >= 0).then_some((offset, metadata)))
}

fn call(address: &str, api: i16, version: i16, body: &[u8]) -> io::Result<Vec<u8>> {
    const CORRELATION: i32 = 7;
    let mut request = Writer::default();
    request.i16(api).i16(version).i32(CORRELATION).string(Some(b"receipted-tests"));
    request.0.extend_from_slice(body);
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(CALL_MAX))?;
    stream.set_write_timeout(Some(CALL_MAX))?;
    stream.write_all(&Writer::default().bytes(&request.0).0)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(i32::from_be_bytes(length)).map_err(io::Error::other)?;
    if length > RESPONSE_BYTES_MAX {
        return Err(io::Error::other(format!("a response of {length} bytes")));
    }
    let mut response = vec![0; length];
    stream.read_exact(&mut response)?;
    let mut answer = Reader(&response);
    match answer.i32()? {
        CORRELATION => Ok(answer.0.to_vec()),
        other => Err(io::Error::other(format!("an answer to another request, {other}"))),
    }
}

fn encode_batch(records: &[RawRecord]) -> Vec<u8> {
    let base = records.first().map_or(0, |record| record.timestamp);
    let newest = records.iter().map(|record| record.timestamp).max().unwrap_or(base);
    let count = i32::try_from(records.len()).expect("a small batch");
    let mut checked = Writer::default();
    checked.i16(0).i32(count - 1).i64(base).i64(newest).i64(-1).i16(-1).i32(-1).i32(count);
    for (delta, record) in records.iter().enumerate() {
        let mut one = Writer::default();
        one.i8(0).varint(record.timestamp - base).varint(delta as i64);
        one.short_bytes(record.key.as_deref()).short_bytes(record.value.as_deref()).varint(record.headers.len() as i64);
        for (name, value) in &record.headers {
            one.short_bytes(Some(name)).short_bytes(value.as_deref());
        }
        checked.short_bytes(Some(&one.0));
    }
    let mut batch = Writer::default();
    batch.i64(0).i32(i32::try_from(checked.0.len() + 9).expect("a small batch")).i32(-1).i8(2);
    batch.0.extend_from_slice(&crc32c::crc32c(&checked.0).to_be_bytes());
    batch.0.extend_from_slice(&checked.0);
    batch.0
}

fn decode_batches(bytes: &[u8]) -> io::Result<Vec<Batch>> {
    let mut batches = Vec::new();
    let mut rest = Reader(bytes);
    // A broker may cut the last batch off.
    while rest.0.len() > 12 {
        let (base_offset, length) = (rest.i64()?, rest.i32()?);
        let Ok(batch) = rest.take(usize::try_from(length).map_err(io::Error::other)?) else { break };
        let mut batch = Reader(batch);
        let (_, _, _) = (batch.i32()?, batch.i8()?, batch.i32()?);
        let codec =
            ["none", "gzip", "snappy", "lz4", "zstd"].get(usize::from(batch.i16()?.to_be_bytes()[1] & 7)).copied().unwrap_or("unknown");
        let (_, base_timestamp) = (batch.i32()?, batch.i64()?);
        let (_, _, _, _) = (batch.i64()?, batch.i64()?, batch.i16()?, batch.i32()?);
        let count = batch.i32()?;
        let mut records = Vec::new();
        if codec == "none" {
            for _ in 0..count {
                records.push(decode_record(&mut batch, base_offset, base_timestamp)?);
            }
        }
        batches.push(Batch { base_offset, codec, records });
    }
    Ok(batches)
}

fn decode_record(batch: &mut Reader<'_>, base_offset: i64, base_timestamp: i64) -> io::Result<RawRecord> {
    let (_, _) = (batch.varint()?, batch.i8()?);
    let (timestamp, offset) = (base_timestamp + batch.varint()?, base_offset + batch.varint()?);
    let (key, value) = (batch.short_bytes()?, batch.short_bytes()?);
    let headers =
        (0..batch.varint()?).map(|_| Ok((batch.short_bytes()?.unwrap_or_default(), batch.short_bytes()?))).collect::<io::Result<_>>()?;
    Ok(RawRecord { offset, timestamp, key, value, headers })
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn i8(&mut self, value: i8) -> &mut Self {
        self.put(&value.to_be_bytes())
    }
    fn i16(&mut self, value: i16) -> &mut Self {
        self.put(&value.to_be_bytes())
    }
    fn i32(&mut self, value: i32) -> &mut Self {
        self.put(&value.to_be_bytes())
    }
    fn i64(&mut self, value: i64) -> &mut Self {
        self.put(&value.to_be_bytes())
    }
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
    fn string(&mut self, value: Option<&[u8]>) -> &mut Self {
        match value {
            None => self.i16(-1),
            Some(text) => self.i16(i16::try_from(text.len()).expect("a short text")).put(text),
        }
    }
    fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.i32(i32::try_from(value.len()).expect("a few bytes")).put(value)
    }
    fn short_bytes(&mut self, value: Option<&[u8]>) -> &mut Self {
        match value {
            None => self.varint(-1),
            Some(bytes) => self.varint(bytes.len() as i64).put(bytes),
        }
    }
    fn varint(&mut self, value: i64) -> &mut Self {
        let mut rest = ((value << 1) ^ (value >> 63)) as u64;
        while rest >= 0x80 {
            self.0.push((rest as u8) | 0x80);
            rest >>= 7;
        }
        self.put(&[rest as u8])
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        self.take(N).map(|taken| taken.try_into().expect("as many as asked for"))
    }
    fn i8(&mut self) -> io::Result<i8> {
        self.array().map(i8::from_be_bytes)
    }
    fn i16(&mut self) -> io::Result<i16> {
        self.array().map(i16::from_be_bytes)
    }
    fn i32(&mut self) -> io::Result<i32> {
        self.array().map(i32::from_be_bytes)
    }
    fn i64(&mut self) -> io::Result<i64> {
        self.array().map(i64::from_be_bytes)
    }
    fn string(&mut self) -> io::Result<Option<Vec<u8>>> {
        let length = self.i16()?;
        self.nullable(i64::from(length))
    }
    fn bytes(&mut self) -> io::Result<Option<Vec<u8>>> {
        let length = self.i32()?;
        self.nullable(i64::from(length))
    }
    fn short_bytes(&mut self) -> io::Result<Option<Vec<u8>>> {
        let length = self.varint()?;
        self.nullable(length)
    }
    fn nullable(&mut self, length: i64) -> io::Result<Option<Vec<u8>>> {
        if length < 0 { Ok(None) } else { self.take(usize::try_from(length).map_err(io::Error::other)?).map(|taken| Some(taken.to_vec())) }
    }
    fn varint(&mut self) -> io::Result<i64> {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(((value >> 1) as i64) ^ -((value & 1) as i64));
            }
            shift += 7;
            if shift > 63 {
                return Err(io::Error::other("a varint without end"));
            }
        }
    }
}
