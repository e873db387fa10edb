//! Owns reading what the recorder wrote down. It knows the layout of an entry, and not what follows from one.

use std::path::Path;

/// One entry of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A process started.
    Started,
    Created {
        inode: u64,
        path: String,
    },
    Wrote {
        inode: u64,
        path: String,
        at: usize,
        data: Vec<u8>,
    },
    Truncated {
        inode: u64,
        path: String,
        length: usize,
    },
    Renamed {
        from: String,
        to: String,
    },
    Removed {
        path: String,
    },
    MadeDirectory {
        path: String,
    },
    /// What was changed before this is covered by the sync of that number, once it has ended.
    SyncBegan {
        number: u64,
        inode: u64,
        path: String,
    },
    SyncEnded {
        number: u64,
    },
    /// What the process itself said.
    Mark(String),
    /// A call was made to fail.
    Failed {
        call: u64,
        path: String,
    },
}

/// Reads a record to its end; a process that was killed may have left half an entry of nothing that the kernel did.
pub fn read(file: &Path) -> Vec<Event> {
    const HEAD: usize = 1 + 8 + 8 + 4 + 4 + 8;
    let bytes = std::fs::read(file).expect("a record");
    let (mut events, mut rest) = (Vec::new(), &bytes[..]);
    while rest.len() >= HEAD {
        let number = |at: usize| u64::from_le_bytes(*rest[at..].first_chunk().expect("eight bytes"));
        let size = |at: usize| u32::from_le_bytes(*rest[at..].first_chunk().expect("four bytes")) as usize;
        let (a, inode, first, second) = (number(1), number(9), size(17), size(21));
        let data = usize::try_from(number(25)).expect("small");
        let (kind, body) = (rest[0], &rest[HEAD..]);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("paths and marks are text");
        let path = text(&body[..first]);
        let other = text(&body[first..first + second]);
        let data = &body[first + second..first + second + data];
        let at = usize::try_from(a).expect("files are small");
        rest = &body[first + second + data.len()..];
        events.push(match kind {
            b'P' => Event::Started,
            b'C' => Event::Created { inode, path },
            b'W' => Event::Wrote { inode, path, at, data: data.to_vec() },
            b'T' => Event::Truncated { inode, path, length: at },
            b'R' => Event::Renamed { from: path, to: other },
            b'U' => Event::Removed { path },
            b'D' => Event::MadeDirectory { path },
            b'B' => Event::SyncBegan { number: a, inode, path },
            b'S' => Event::SyncEnded { number: a },
            b'M' => Event::Mark(text(data).trim_end().into()),
            b'F' => Event::Failed { call: a, path },
            other => panic!("the record has no entry {other}"),
        });
    }
    assert!(rest.is_empty(), "half an entry at the end of the record");
    events
}

/// What a record is made to say, to see that the judge is not asleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telling {
    AsItWas,
    /// No sync of the log was asked for.
    WithoutSyncsOfTheLog,
    /// No sync of a directory was asked for.
    WithoutSyncsOfDirectories,
    /// Every step was acknowledged when it was handed over.
    AcknowledgedAtOnce,
    /// The log was cut and filled by a store that syncs nothing but what came before the last write.
    SyncedBeforeTheLastWrite,
}

impl Telling {
    pub const LIES: [Self; 4] =
        [Self::WithoutSyncsOfTheLog, Self::WithoutSyncsOfDirectories, Self::AcknowledgedAtOnce, Self::SyncedBeforeTheLastWrite];

    pub fn from_name(name: &str) -> Self {
        let all = Self::LIES.into_iter().chain([Self::AsItWas]);
        all.into_iter().find(|telling| format!("{telling:?}") == name).expect("a telling's name")
    }

    /// The record as it is told.
    pub fn tell(self, events: Vec<Event>) -> Vec<Event> {
        let is_log = |event: &Event| matches!(event, Event::SyncBegan { path, .. } if path.ends_with("/db"));
        let is_directory = |event: &Event| matches!(event, Event::SyncBegan { path, .. } if !["/db", "/conf", "progress", "probe.new", "generating", "ballast"].iter().any(|end| path.ends_with(end)));
        match self {
            Self::AsItWas => events,
            // An end without a begin is nothing.
            Self::WithoutSyncsOfTheLog => events.into_iter().filter(|event| !is_log(event)).collect(),
            Self::WithoutSyncsOfDirectories => events.into_iter().filter(|event| !is_directory(event)).collect(),
            Self::AcknowledgedAtOnce => {
                let acknowledged = |event: Event| match &event {
                    Event::Mark(mark) if mark.starts_with("begin ") => {
                        let ack = Event::Mark(mark.replacen("begin", "ack", 1));
                        vec![event, ack]
                    }
                    Event::Mark(mark) if mark.starts_with("ack ") => Vec::new(),
                    _ => vec![event],
                };
                events.into_iter().flat_map(acknowledged).collect()
            }
            Self::SyncedBeforeTheLastWrite => {
                let mut told: Vec<Event> = Vec::with_capacity(events.len());
                for event in events {
                    let before =
                        is_log(&event).then(|| told.iter().rposition(|e| matches!(e, Event::Wrote { path, .. } if path.ends_with("/db"))));
                    match before.flatten() {
                        Some(at) => told.insert(at, event),
                        None => told.push(event),
                    }
                }
                told
            }
        }
    }
}
