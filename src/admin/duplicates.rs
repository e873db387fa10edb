//! Owns how duplicate effects are listed: every incident of the store, in the order in which they were found. None is ever removed.

use super::{
    command::LIST_MAX,
    view::{OperationLine, operation_line, time},
};
use crate::{
    protocol::{key::KeyDigest, settle::AttemptName, time::UnixMillis},
    store::{Error, ReceiptStore},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Asks for a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DuplicatesAsk {
    /// Incidents from this number on.
    #[serde(default)]
    pub from: u64,
    /// Lines, at most [`LIST_MAX`].
    pub limit: usize,
}

/// One effect beyond the first of its operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Duplicate {
    /// The incident's number, from 0 on.
    pub number: u64,
    /// When it was noticed.
    pub at: String,
    /// What noticed it.
    pub detector: String,
    /// `certain`, or `suspected` where the destination gave no reference.
    pub certainty: String,
    /// Every reference that the destination gave.
    pub references: Vec<String>,
    /// The attempts that say they were applied.
    pub attempts: Vec<String>,
    /// The operation as it is now.
    pub operation: OperationLine,
}

/// A page of duplicate effects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Duplicates {
    /// The lines.
    pub duplicates: Vec<Duplicate>,
    /// Where the next page begins, where there may be one.
    pub next: Option<u64>,
}

/// A page of duplicate effects.
///
/// # Errors
/// When the store cannot be read.
pub fn list(store: &dyn ReceiptStore, ask: DuplicatesAsk, now: UnixMillis) -> Result<Duplicates, Error> {
    let limit = ask.limit.clamp(1, LIST_MAX);
    let incidents = store.incidents(ask.from, limit)?;
    let keys: Vec<KeyDigest> = incidents.iter().map(|(_, incident)| incident.key).collect();
    let known: BTreeMap<KeyDigest, _> = keys.iter().copied().zip(store.load(&keys)?).collect();
    let next = incidents.last().filter(|_| incidents.len() == limit).map(|(number, _)| number + 1);
    let line = |(number, incident): (u64, crate::protocol::change::Incident)| Duplicate {
        number,
        at: time(incident.at),
        detector: incident.detector.into_owned(),
        certainty: incident.certainty.into_owned(),
        references: incident.references.iter().map(|reference| reference.as_str().into()).collect(),
        attempts: incident.attempts.iter().map(|attempt| AttemptName::from(*attempt).to_string()).collect(),
        operation: operation_line(incident.key, known.get(&incident.key).map(AsRef::as_ref).unwrap_or(&Default::default()), now),
    };
    Ok(Duplicates { duplicates: incidents.into_iter().map(line).collect(), next })
}
