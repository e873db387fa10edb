//! Owns a system call trace as `strace -f -yy -xx` writes it, and the judgement about its order. Knows the first bytes of two requests:
//! an offset commit to a broker, and an effect at the destination.

use std::{collections::BTreeMap, path::Path};

/// What has to be traced.
pub const CALLS: &str = "trace=write,writev,pwrite64,pwritev,sendto,sendmsg,fsync,fdatasync,ftruncate";
/// Kafka's number of the request that commits offsets.
const OFFSET_COMMIT: [u8; 2] = [0, 8];
/// How the test's handler asks its destination for an effect.
const EFFECT: &[u8] = br#"{"Apply":"#;

#[derive(Debug, Clone, PartialEq)]
enum Event {
    WriteBegins,
    WriteEnds(u64),
    SyncBegins,
    SyncEnds,
    Commit,
    Effect,
}

/// What happened, in order, with the thread that did it.
pub struct Trace(Vec<(u32, Event)>);

/// Whether a trace is judged as it was.
#[derive(Clone, Copy, PartialEq)]
pub enum Order {
    AsItWas,
    WithoutSyncs,
}

#[derive(Debug, Default)]
pub struct Judgement {
    pub commits: usize,
    pub effects: usize,
    pub writes: usize,
    /// Bytes.
    pub written: u64,
    /// Commits and effects that came while something written was not synced.
    pub unsynced: Vec<String>,
}

impl Trace {
    pub fn read(text: &str, db: &Path, destination: &str) -> Self {
        // Paths of files are written in hexadecimal too, addresses are not.
        let path: String = db.as_os_str().as_encoded_bytes().iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let (db, destination) = (format!("<{path}>"), format!("->{destination}]"));
        let mut events = Vec::new();
        // What an unfinished call was about, by thread: its line goes on later.
        let mut unfinished: BTreeMap<u32, bool> = BTreeMap::new();
        for line in text.lines() {
            let Some((pid, call)) = line.split_once(' ') else { continue };
            let (pid, call) = (pid.parse().expect("a thread's number"), call.trim_start());
            let mut say = |event| events.push((pid, event));
            let result = || call.rsplit_once("= ").and_then(|(_, result)| result.split(' ').next()?.parse::<i64>().ok());
            let ends = |sync: bool| match (sync, result()) {
                (true, Some(0)) => Some(Event::SyncEnds),
                (false, Some(bytes @ 1..)) => Some(Event::WriteEnds(bytes.unsigned_abs())),
                _ => None,
            };
            if call.starts_with("<...") {
                if let Some(sync) = unfinished.remove(&pid) {
                    ends(sync).into_iter().for_each(say);
                }
            } else if call.contains(&db) && !call.starts_with("send") {
                let sync = call.starts_with("fsync") || call.starts_with("fdatasync");
                say(if sync { Event::SyncBegins } else { Event::WriteBegins });
                if call.ends_with("<unfinished ...>") {
                    unfinished.insert(pid, sync);
                } else {
                    ends(sync).into_iter().for_each(say);
                }
            } else if let Some((bytes, length)) = sent(call) {
                if call.contains(&destination) && bytes.starts_with(EFFECT) {
                    say(Event::Effect);
                } else if is_commit(&bytes, length) {
                    say(Event::Commit);
                }
            }
        }
        Self(events)
    }

    pub fn judge(&self, order: Order) -> Judgement {
        let mut judgement = Judgement::default();
        // Writes so far, those that a finished sync covers, and where each running sync began.
        let (mut begun, mut ended, mut covered) = (0, 0, 0);
        let mut syncs: BTreeMap<u32, usize> = BTreeMap::new();
        for (pid, event) in &self.0 {
            match event {
                Event::WriteBegins => begun += 1,
                Event::WriteEnds(bytes) => {
                    ended += 1;
                    judgement.written += bytes;
                }
                Event::SyncBegins => drop(syncs.insert(*pid, if begun == ended { ended } else { covered })),
                Event::SyncEnds => {
                    let from = syncs.remove(pid).expect("a sync ends that began");
                    covered = if order == Order::AsItWas { covered.max(from) } else { covered };
                }
                Event::Commit | Event::Effect => {
                    let count = if *event == Event::Commit { &mut judgement.commits } else { &mut judgement.effects };
                    *count += 1;
                    if covered < begun {
                        let number = *count;
                        judgement.unsynced.push(format!("{event:?} {number}: {begun} writes begun, {covered} synced"));
                    }
                }
            }
        }
        judgement.writes = begun;
        judgement
    }
}

/// The first bytes that a call sends over a socket, and how many there are in all.
fn sent(call: &str) -> Option<(Vec<u8>, usize)> {
    let name = call.split('(').next()?;
    if !matches!(name, "sendto" | "sendmsg" | "write" | "writev") || !call.contains("<TCP:") {
        return None;
    }
    let text = call.split_once('"')?.1.split_once('"')?.0;
    let bytes: Option<Vec<u8>> = text.split("\\x").skip(1).map(|byte| u8::from_str_radix(byte.get(..2)?, 16).ok()).collect();
    // Every part of a gathered write has its length; a plain one has it after its text.
    let parts = call.split("iov_len=").skip(1).filter_map(leading);
    let length =
        if name.ends_with("msg") || name == "writev" { parts.sum() } else { leading(call.rsplit_once('"')?.1.split_once(", ")?.1)? };
    Some((bytes?, length))
}

fn leading(text: &str) -> Option<usize> {
    text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())].parse().ok()
}

/// A request to a broker begins with its length and its number.
fn is_commit(bytes: &[u8], length: usize) -> bool {
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else { return false };
    usize::try_from(u32::from_be_bytes(*head)).is_ok_and(|said| said + 4 == length) && rest.starts_with(&OFFSET_COMMIT)
}
