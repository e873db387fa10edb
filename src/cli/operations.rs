//! Owns `operations`: what the socket is asked, and how its answers are told.

use super::{
    args::{KeyArgs, OperationsCommand, StoreAt, TargetArgs, Word},
    output::{Failure, Output, age, plain, print, table},
};
use crate::{
    admin::{
        client::Client,
        command::{Done, EndRequest, EndWord, Filter, List, SettleRequest},
        duplicates::{Duplicate, Duplicates, DuplicatesAsk},
        view::{AttemptView, Listing, NoteLine, OperationLine, OperationView, VerdictView},
    },
    config::Config,
    protocol::{key::KeyDigest, secret::Derivation},
};
use std::path::{Path, PathBuf};

/// The client for a store: of the directory given, else of the configuration.
pub(super) fn client(at: &StoreAt, config: Option<&Path>) -> Result<Client, Failure> {
    let directory = directory(at, config)?;
    Ok(Client::new(directory.join("receipted.sock")))
}

/// A store's directory: as given, else of the configuration.
pub(super) fn directory(at: &StoreAt, config: Option<&Path>) -> Result<PathBuf, Failure> {
    match &at.store {
        Some(directory) => Ok(directory.clone()),
        None => Ok(Config::load_store(config, std::env::vars_os())?.directory),
    }
}

pub(super) async fn run(command: OperationsCommand, config: Option<&Path>, output: Output) -> Result<(), Failure> {
    match command {
        OperationsCommand::List { state, after, limit, at } => {
            let asked = List { state: state.into(), after, limit };
            let listing = client(&at, config)?.list(&asked).await?;
            print(&listing, output, |listing| listing_text(&asked, listing))
        }
        OperationsCommand::Duplicates { from, limit, at } => {
            let duplicates = client(&at, config)?.duplicates(DuplicatesAsk { from, limit }).await?;
            print(&duplicates, output, duplicates_text)
        }
        OperationsCommand::Show { key, at } => {
            let view = client(&at, config)?.show(digest(&key, config)?).await?;
            print(&view, output, operation_text)
        }
        OperationsCommand::Settle { key, outcome, reference, attempts, cannot_land_any_more, fresh_key, word, at } => {
            let Word { reason, by } = word;
            let (key, outcome) = (digest(&key, config)?.to_string(), outcome.into());
            let request = SettleRequest { key, outcome, reference, attempts, cannot_land_any_more, fresh_key, reason, by };
            let done = client(&at, config)?.settle(&request).await?;
            print(&done, output, done_text)
        }
        OperationsCommand::DeadLetter { target, word, at } => {
            let done = client(&at, config)?.end(EndWord::DeadLetter, &end(target, None, word)).await?;
            print(&done, output, done_text)
        }
        OperationsCommand::Discard { target, with_repeats, word, at } => {
            let done = client(&at, config)?.end(EndWord::Discard, &end(target, with_repeats, word)).await?;
            print(&done, output, done_text)
        }
    }
}

fn digest(key: &KeyArgs, config: Option<&Path>) -> Result<KeyDigest, Failure> {
    let secret = Config::load_store(config, std::env::vars_os())?.key_secret()?;
    key.digest(&Derivation::of(secret.as_ref())).map_err(Failure::usage)
}

fn end(target: TargetArgs, with_repeats: Option<usize>, word: Word) -> EndRequest {
    EndRequest { key: target.digest, park: target.park, with_repeats, reason: word.reason, by: word.by }
}

pub(super) fn done_text(done: &Done) -> String {
    match &done.key {
        Some(key) => format!("{key} is {}: {}", done.state, done.next),
        None => done.next.clone(),
    }
}

fn listing_text(asked: &List, listing: &Listing) -> String {
    let table = match (listing.operations.is_empty(), listing.notes.is_empty()) {
        (true, true) => return nothing_text(asked, listing.parked),
        (false, _) => operations_table(&listing.operations),
        (true, false) => notes_table(&listing.notes),
    };
    match &listing.next {
        Some(next) => format!("{table}\nmore: --after {next}"),
        None => table,
    }
}

fn duplicates_text(page: &Duplicates) -> String {
    if page.duplicates.is_empty() {
        return "no duplicate effect was ever noticed".into();
    }
    let row = |duplicate: &Duplicate| {
        let Duplicate { number, at, certainty, detector, references, attempts, operation } = duplicate;
        let said = |words: &[String]| plain(&words.join(", "));
        let what = [number.to_string(), at.clone(), certainty.clone(), detector.clone(), said(attempts), said(references)];
        what.into_iter().chain([name(operation), operation.key.clone()]).collect()
    };
    let rows: Vec<Vec<String>> = page.duplicates.iter().map(row).collect();
    let table = table(&["NUMBER", "NOTICED", "CERTAINTY", "BY", "ATTEMPTS", "REFERENCES", "OPERATION", "DIGEST"], &rows);
    match page.next {
        Some(next) => format!("{table}\nmore: --from {next}"),
        None => table,
    }
}

/// What is parked waits for somebody too, and shows in a listing of its own.
fn nothing_text(asked: &List, parked: u64) -> String {
    let none = match asked.state {
        _ if asked.after.is_some() => return "no more".into(),
        Filter::All => "none",
        Filter::InDoubt => "none in doubt",
        Filter::Parked => return "none parked".into(),
        Filter::Disputed => "none disputed",
        Filter::Superseded => "none superseded",
        Filter::Reopened => "none reopened",
    };
    if parked == 0 { none.into() } else { format!("{none}; {parked} parked: --state parked") }
}

fn operations_table(lines: &[OperationLine]) -> String {
    let row = |line: &OperationLine| {
        let doubts: Vec<String> = line.in_doubt.iter().map(|doubt| format!("{} {}", doubt.attempt, doubt.reason)).collect();
        vec![
            line.state.clone(),
            age(line.age_seconds),
            line.attempts.to_string(),
            doubts.join(", "),
            line.parked.to_string(),
            line.held.to_string(),
            name(line),
            line.key.clone(),
        ]
    };
    table(&["STATE", "AGE", "ATTEMPTS", "IN DOUBT", "PARKED", "HELD", "OPERATION", "DIGEST"], &lines.iter().map(row).collect::<Vec<_>>())
}

fn notes_table(notes: &[NoteLine]) -> String {
    let row = |note: &NoteLine| {
        let key = note.key.clone().unwrap_or_else(|| "-".into());
        vec![note.park.clone(), note.reason.clone(), age(note.age_seconds), note.bytes.to_string(), note.held.to_string(), key]
    };
    table(&["NOTE", "REASON", "AGE", "BYTES", "HELD", "DIGEST"], &notes.iter().map(row).collect::<Vec<_>>())
}

fn name(line: &OperationLine) -> String {
    match (&line.tenant, &line.operation) {
        (Some(tenant), Some(operation)) => plain(&format!("{tenant} {operation} {}", line.id.join(" / "))),
        _ => "(not stored)".into(),
    }
}

fn operation_text(view: &OperationView) -> String {
    let line = &view.line;
    let mut text = format!("{}\n{}\nstate: {}, for {}\n", line.key, name(line), line.state, age(line.age_seconds));
    if line.disputed {
        text.push_str("DISPUTED: evidence contradicts a verdict\n");
    }
    if line.extra_effects > 0 {
        text.push_str(&format!("DUPLICATE EFFECTS: {} beyond the first\n", line.extra_effects));
    }
    text.push_str("attempts:\n");
    view.history.iter().for_each(|attempt| text.push_str(&attempt_text(attempt)));
    if !view.verdicts.is_empty() {
        text.push_str("verdicts:\n");
    }
    view.verdicts.iter().for_each(|verdict| text.push_str(&verdict_text(verdict)));
    if !view.notes.is_empty() {
        text.push_str("parked records:\n");
    }
    for note in &view.notes {
        let state = note.ended.clone().unwrap_or_else(|| format!("open for {}, {} repeats held", age(note.age_seconds), note.held));
        text.push_str(&format!("  {} {} ({} bytes): {}\n", note.park, note.reason, note.bytes, plain(&state)));
    }
    text
}

fn attempt_text(attempt: &AttemptView) -> String {
    let mut text = format!("  {}", attempt.attempt);
    if let (Some(admitted), Some(slot)) = (&attempt.admitted, &attempt.slot) {
        text.push_str(&format!(" admitted {admitted} for {slot}"));
    }
    if let Some(provider_key) = &attempt.provider_key {
        text.push_str(&format!(" under {provider_key}"));
    }
    if let Some(correlation) = &attempt.correlation {
        text.push_str(&format!(", correlation {}", plain(correlation)));
    }
    let doubt = attempt.doubt.as_ref().map(|doubt| format!("in doubt since {}: {}", doubt.reason, doubt.detail));
    let said: Vec<String> = attempt.facts.iter().cloned().chain(doubt).collect();
    let said = if said.is_empty() { "nothing known of its end".into() } else { said.join("; ") };
    format!("{text}: {}\n", plain(&said))
}

fn verdict_text(verdict: &VerdictView) -> String {
    let fresh = if verdict.fresh_key { ", fresh key" } else { "" };
    let attempts = verdict.attempts.join(", ");
    plain(&format!("  {} of {attempts}{fresh}, by {} at {}: {}", verdict.ruling, verdict.by, verdict.at, verdict.reason)) + "\n"
}
