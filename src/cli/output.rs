//! Owns how commands answer: tables for people, JSON for programs, and the exit code of what went wrong.

use super::serve;
use crate::{admin::client, config, handler, protocol::key::hex, store, store::sled::transfer};
use clap::ValueEnum;
use serde::Serialize;
use std::{
    io::{self, ErrorKind, Write},
    process::ExitCode,
    time::Duration,
};

/// A rule refuses; the remedy is printed.
const REFUSED: u8 = 65;
/// Nothing is known of it.
const UNKNOWN: u8 = 66;
/// Nobody answers.
const NOBODY: u8 = 69;
/// Anything else.
const FAILED: u8 = 70;
/// The store failed.
const STORE: u8 = 74;
/// A person must change something first.
const SET_UP: u8 = 78;
/// Wrong arguments, as clap has it.
const USAGE: u8 = 2;

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Why a command failed.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Failure {
    #[serde(skip)]
    pub(super) code: u8,
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Failure {
    pub(super) fn new(code: u8, error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        Self { code, error: text, remedy: None }
    }

    pub(super) fn usage(error: impl Into<String>) -> Self {
        Self { code: USAGE, error: error.into(), remedy: None }
    }

    pub(super) fn failed(error: impl Into<String>) -> Self {
        Self { code: FAILED, error: error.into(), remedy: None }
    }

    pub(super) fn damaged(problems: u64) -> Self {
        let remedy = "keep the directory as it is, and restore a copy; or adopt the group's offsets into an empty one";
        Self { code: STORE, error: format!("the store has {problems} problems"), remedy: Some(remedy.into()) }
    }

    pub(super) fn set_up(error: impl Into<String>, remedy: &str) -> Self {
        Self { code: SET_UP, error: error.into(), remedy: Some(remedy.into()) }
    }
}

impl From<config::Error> for Failure {
    fn from(error: config::Error) -> Self {
        Self::new(SET_UP, &error)
    }
}

impl From<handler::BuildError> for Failure {
    fn from(error: handler::BuildError) -> Self {
        Self::new(SET_UP, &error)
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        Self::new(if let store::Error::InUse { .. } | store::Error::Secret { .. } = error { SET_UP } else { STORE }, &error)
    }
}

impl From<transfer::Error> for Failure {
    fn from(error: transfer::Error) -> Self {
        let code = match &error {
            transfer::Error::Store(store) => return store.clone().into(),
            transfer::Error::Io { source, action: "open", .. } if source.kind() == ErrorKind::NotFound => UNKNOWN,
            transfer::Error::Unsound { .. } | transfer::Error::Io { .. } => STORE,
            _ => REFUSED,
        };
        Self::new(code, &error)
    }
}

impl From<serve::Error> for Failure {
    fn from(error: serve::Error) -> Self {
        Self::new(error.exit_code(), &error)
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        let text = error.to_string();
        match error {
            client::Error::Refused(refusal) => {
                let code = if refusal.code == "unknown" { UNKNOWN } else { REFUSED };
                Self { code, error: refusal.message, remedy: Some(refusal.remedy) }
            }
            client::Error::NotRunning { .. } | client::Error::NotAllowed { .. } => Self { code: NOBODY, error: text, remedy: None },
            client::Error::Broken { .. } => Self { code: FAILED, error: text, remedy: None },
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(FAILED, &error)
    }
}

/// Ends a command: its failure goes to standard error, as text or JSON.
pub(super) fn end(done: Result<(), Failure>, output: Output) -> ExitCode {
    let Err(failure) = done else { return ExitCode::SUCCESS };
    let text = match output {
        Output::Json => serde_json::to_string(&failure).unwrap_or_else(|_| failure.error.clone()),
        Output::Text => match &failure.remedy {
            Some(remedy) => format!("error: {}\n  remedy: {remedy}", failure.error),
            None => format!("error: {}", failure.error),
        },
    };
    eprintln!("{text}");
    ExitCode::from(failure.code)
}

/// Prints an answer. A reader that went away is no failure.
pub(super) fn print<T: Serialize>(answer: &T, output: Output, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
    let written = match output {
        Output::Json => serde_json::to_string_pretty(answer).map_err(|error| Failure::failed(error.to_string()))?,
        Output::Text => text(answer).trim_end().to_string(),
    };
    match writeln!(io::stdout().lock(), "{written}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Lines of cells as columns.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let lines: Vec<Vec<&str>> =
        std::iter::once(head.to_vec()).chain(rows.iter().map(|row| row.iter().map(String::as_str).collect())).collect();
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &Vec<&str>| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_string()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// An age as people say it: its two largest units.
pub(super) fn age(seconds: u64) -> String {
    let text = humantime::format_duration(Duration::from_secs(seconds)).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// Text that may come from records, without what a terminal would act on.
pub(super) fn plain(text: &str) -> String {
    let show = |c: char| if c.is_control() { format!("\\x{}", hex(c.to_string().as_bytes())) } else { c.to_string() };
    text.chars().map(show).collect()
}
