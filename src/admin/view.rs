//! Owns how operations, park notes and the store are shown: as JSON on the socket, and from there as tables. Keys are shown where the
//! store has them; logs and metrics never carry them.

use super::command::park_name;
use crate::protocol::{
    key::KeyDigest,
    known::{Known, fact_label},
    note::{Applied, AttemptId, Author, Fact, Ruling, Verdict},
    park::{End, Park, ParkId},
    receipt::State,
    settle::AttemptName,
    time::UnixMillis,
};
use serde::{Deserialize, Serialize};
use std::time::{Duration, UNIX_EPOCH};

/// An operation in a listing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationLine {
    /// The digest of its key.
    pub key: String,
    /// Its state.
    pub state: String,
    /// The tenant, where it is stored.
    pub tenant: Option<String>,
    /// The operation's name, where it is stored.
    pub operation: Option<String>,
    /// The business id, part by part, where it is stored.
    pub id: Vec<String>,
    /// How many attempts were admitted.
    pub attempts: usize,
    /// Attempts in doubt, each with its reason where one is noted.
    pub in_doubt: Vec<DoubtView>,
    /// Open park notes.
    pub parked: usize,
    /// Repeats that are held on them.
    pub held: usize,
    /// Evidence contradicts evidence.
    pub disputed: bool,
    /// Effects beyond the first, certain or suspected.
    pub extra_effects: usize,
    /// When the doubt began; without one, the first admission.
    pub since: Option<String>,
    /// How long ago that was.
    pub age_seconds: u64,
}

/// An attempt in doubt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoubtView {
    /// The attempt, as it is named in a verdict.
    pub attempt: String,
    /// Why nobody knows; `running` while nothing is noted.
    pub reason: String,
    /// The error's text.
    pub detail: String,
}

/// A park note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteLine {
    /// The note, as it is named in a command.
    pub park: String,
    /// Why the record is set aside.
    pub reason: String,
    /// The operation's digest, where the record has one.
    pub key: Option<String>,
    /// Bytes of the record.
    pub bytes: u64,
    /// In words.
    pub detail: String,
    /// Since when.
    pub at: String,
    /// How long ago that was.
    pub age_seconds: u64,
    /// Repeats that are held on it, where they are known.
    pub held: usize,
    /// How it ended, where it has.
    pub ended: Option<String>,
}

/// One attempt with all that is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptView {
    /// The attempt, as it is named in a verdict.
    pub attempt: String,
    /// When it was admitted.
    pub admitted: Option<String>,
    /// The record that it ran for.
    pub slot: Option<String>,
    /// The generation of its provider key.
    pub key_generation: Option<u32>,
    /// The idempotency key that the destination was given, to look for there; none where the operation's name is not stored.
    pub provider_key: Option<String>,
    /// The same as a UUID.
    pub provider_uuid: Option<String>,
    /// The record's correlation id.
    pub correlation: Option<String>,
    /// What it said, with references and reasons.
    pub facts: Vec<String>,
    /// Why it is in doubt, where it was.
    pub doubt: Option<DoubtView>,
}

/// One verdict of the append-only history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictView {
    /// What it says, with its reference.
    pub ruling: String,
    /// Of which attempts.
    pub attempts: Vec<String>,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: String,
    /// Whether it raised the provider key's generation.
    pub fresh_key: bool,
}

/// An operation with all that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationView {
    /// As in a listing.
    #[serde(flatten)]
    pub line: OperationLine,
    /// Every attempt.
    pub history: Vec<AttemptView>,
    /// Every verdict.
    pub verdicts: Vec<VerdictView>,
    /// Every park note, open or ended.
    pub notes: Vec<NoteLine>,
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Listing {
    /// Operations; none in a listing of parked records.
    pub operations: Vec<OperationLine>,
    /// Park notes, in a listing of parked records.
    pub notes: Vec<NoteLine>,
    /// What to ask for the next page with; none on the last one.
    pub next: Option<String>,
    /// Records that are parked, whatever was asked for: an empty listing of another state is not all quiet.
    pub parked: u64,
}

/// One operation as a line.
#[must_use]
pub fn operation_line(key: KeyDigest, known: &Known, now: UnixMillis) -> OperationLine {
    let receipt = &known.receipt;
    let state = receipt.state();
    let undecided: Vec<AttemptId> = if let State::InDoubt(attempts) = &state { attempts.iter().copied().collect() } else { Vec::new() };
    let began = |attempt: &AttemptId| {
        let doubt = receipt.doubts().get(attempt).map(|doubt| doubt.at);
        doubt.or_else(|| receipt.admissions().get(attempt).map(|admission| admission.at))
    };
    let first = receipt.admissions().values().map(|admission| admission.at).min();
    let since = undecided.iter().filter_map(began).min().or(first);
    let effects = receipt.effects();
    OperationLine {
        key: key.to_string(),
        state: state.label().into(),
        tenant: known.key.as_ref().map(|key| key.tenant().into()),
        operation: known.key.as_ref().map(|key| key.operation().into()),
        id: known.key.as_ref().map(|key| key.id().to_vec()).unwrap_or_default(),
        attempts: receipt.admissions().len(),
        in_doubt: undecided.iter().map(|attempt| doubt_view(known, *attempt)).collect(),
        parked: known.open_parks().count(),
        held: known.open_parks().filter_map(|(id, _)| known.held.get(id)).map(std::collections::BTreeMap::len).sum(),
        disputed: receipt.is_disputed(),
        extra_effects: effects.extra_certain() + effects.extra_suspected(),
        since: since.map(time),
        age_seconds: since.map_or(0, |since| age(since, now)),
    }
}

/// One operation with everything.
#[must_use]
pub fn operation_view(key: KeyDigest, known: &Known, now: UnixMillis) -> OperationView {
    let receipt = &known.receipt;
    let mut attempts: Vec<AttemptId> = receipt.admissions().keys().chain(receipt.facts().keys()).copied().collect();
    attempts.sort_unstable();
    attempts.dedup();
    OperationView {
        line: operation_line(key, known, now),
        history: attempts.into_iter().map(|attempt| attempt_view(known, attempt)).collect(),
        verdicts: receipt.verdicts().iter().map(verdict_view).collect(),
        notes: known.parks.iter().map(|(id, park)| note_line(id, park, known.ends.get(id), held(known, id), now)).collect(),
    }
}

/// One park note.
#[must_use]
pub fn note_line(id: &ParkId, park: &Park, end: Option<&End>, held: usize, now: UnixMillis) -> NoteLine {
    NoteLine {
        park: park_name(id),
        reason: park.reason.label().into(),
        key: park.key.map(|key| key.to_string()),
        bytes: park.bytes,
        detail: park.detail.clone(),
        at: time(park.at),
        age_seconds: age(park.at, now),
        held,
        ended: end.map(|end| {
            let by = end.by.as_ref().map(author).unwrap_or_else(|| "receipted".into());
            format!("{} at {} by {by}: {}", end.kind.label(), time(end.at), end.reason)
        }),
    }
}

/// Repeats held on a note.
#[must_use]
pub fn held(known: &Known, id: &ParkId) -> usize {
    known.held.get(id).map_or(0, std::collections::BTreeMap::len)
}

/// A time as text, in UTC.
#[must_use]
pub fn time(at: UnixMillis) -> String {
    let since = Duration::from_millis(u64::try_from(at.0).unwrap_or(0));
    UNIX_EPOCH.checked_add(since).map_or_else(|| format!("{} ms", at.0), |at| humantime::format_rfc3339_millis(at).to_string())
}

fn age(since: UnixMillis, now: UnixMillis) -> u64 {
    u64::try_from(now.0.saturating_sub(since.0)).unwrap_or(0) / 1000
}

fn attempt_view(known: &Known, attempt: AttemptId) -> AttemptView {
    let receipt = &known.receipt;
    let admission = receipt.admissions().get(&attempt);
    let given = admission.and_then(|admission| Some(known.key.as_ref()?.provider_key(admission.key_generation)));
    AttemptView {
        attempt: AttemptName::from(attempt).to_string(),
        admitted: admission.map(|admission| time(admission.at)),
        slot: admission.map(|admission| admission.slot.to_string()),
        key_generation: admission.map(|admission| admission.key_generation),
        provider_uuid: given.as_ref().map(|given| given.uuid.to_string()),
        provider_key: given.map(|given| given.text),
        correlation: admission.and_then(|admission| admission.correlation.clone()),
        facts: receipt.facts().get(&attempt).into_iter().flatten().map(fact_text).collect(),
        doubt: receipt.doubts().contains_key(&attempt).then(|| doubt_view(known, attempt)),
    }
}

fn doubt_view(known: &Known, attempt: AttemptId) -> DoubtView {
    let doubt = known.receipt.doubts().get(&attempt);
    DoubtView {
        attempt: AttemptName::from(attempt).to_string(),
        reason: doubt.map_or("running", |doubt| doubt.reason.label()).into(),
        detail: doubt.map(|doubt| doubt.detail.clone()).unwrap_or_default(),
    }
}

fn verdict_view(verdict: &Verdict) -> VerdictView {
    let ruling = match &verdict.ruling {
        Ruling::Applied(applied) => format!("applied {}", reference(applied)),
        other => other.label().into(),
    };
    VerdictView {
        ruling,
        attempts: verdict.attempts.iter().map(|attempt| AttemptName::from(*attempt).to_string()).collect(),
        by: author(&verdict.by),
        reason: verdict.reason.clone(),
        at: time(verdict.at),
        fresh_key: verdict.fresh_key,
    }
}

fn author(by: &Author) -> String {
    match by {
        Author::Reconcile => "reconcile".into(),
        Author::Operator { name, uid } => format!("{name} (uid {uid})"),
    }
}

fn fact_text(fact: &Fact) -> String {
    let label = fact_label(fact);
    match fact {
        Fact::Applied(applied) => format!("{label} {}", reference(applied)),
        Fact::Rejected(reason) | Fact::NoEffect(reason) => format!("{label}: {reason}"),
        Fact::NotStarted => label.into(),
    }
}

fn reference(applied: &Applied) -> String {
    applied.reference.as_ref().map_or_else(|| "without reference".into(), |reference| format!("as {:?}", reference.as_str()))
}
