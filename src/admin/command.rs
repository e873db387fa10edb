//! Owns the words between the commands and the running process, as JSON. Digests, notes and attempts are texts here, read once at
//! the boundary.

use crate::{
    protocol::{
        key::KeyDigest,
        note::{Author, Slot},
        park::ParkId,
        refused::Refused,
        settle::{Act, AttemptName, Change, Changed, Next, Settle, Settlement, Target},
    },
    store::Partition,
};
use serde::{Deserialize, Serialize};

/// Lines of a listing, at most.
pub const LIST_MAX: usize = 1000;

/// Which operations a listing has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// Every one.
    All,
    /// With attempts that nobody knows about.
    #[default]
    InDoubt,
    /// With a record set aside; also records without an operation.
    Parked,
    /// With contradicting evidence.
    Disputed,
    /// Applied, with undecided attempts beside it.
    Superseded,
    /// Reopened, and waiting for a redrive.
    Reopened,
}

/// Asks for a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Which.
    #[serde(default)]
    pub state: Filter,
    /// Behind this line: `next` of the page before.
    pub after: Option<String>,
    /// Lines, at most [`LIST_MAX`].
    #[serde(default = "page")]
    pub limit: usize,
}

fn page() -> usize {
    50
}

/// Asks for a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettleRequest {
    /// The operation's digest.
    pub key: String,
    /// What became of it.
    pub outcome: OutcomeWord,
    /// The destination's reference, for `applied`.
    pub reference: Option<String>,
    /// The attempts that it speaks of.
    #[serde(default)]
    pub attempts: Vec<String>,
    /// Why no request can land any more.
    pub cannot_land_any_more: Option<String>,
    /// Raise the provider key's generation.
    #[serde(default)]
    pub fresh_key: bool,
    /// Why.
    pub reason: String,
    /// Who.
    pub by: String,
}

/// What a person says became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutcomeWord {
    /// The effect is there.
    Applied,
    /// It is not, and the operation runs again.
    NotDone,
    /// It is not, and must not be.
    Rejected,
    /// A rejection is taken back.
    Reopened,
}

/// Asks for the end of a parked record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndRequest {
    /// The operation's digest; or `park`.
    pub key: Option<String>,
    /// The note, as `topic/partition/offset#number`; or `key`.
    pub park: Option<String>,
    /// For a discard: how many held repeats go with it.
    pub with_repeats: Option<usize>,
    /// Why.
    pub reason: String,
    /// Who.
    pub by: String,
}

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndWord {
    /// To the dead-letter topic.
    DeadLetter,
    /// Away.
    Discard,
}

/// Why a request makes no sense. Correct the named part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part} {problem}")]
pub struct Malformed {
    /// Which part.
    pub part: &'static str,
    /// What is wrong.
    pub problem: &'static str,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The operation's digest, where there is one.
    pub key: Option<String>,
    /// Its state now.
    pub state: String,
    /// What follows, in words.
    pub next: String,
}

/// Why a request was not done, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
    /// What to do instead.
    pub remedy: String,
}

impl SettleRequest {
    /// Reads the request as the person with this user id made it.
    ///
    /// # Errors
    /// Names the part that makes no sense.
    pub fn change(self, uid: u32) -> Result<Change, Malformed> {
        let applied = self.outcome == OutcomeWord::Applied;
        if self.reference.is_some() && !applied {
            return Err(Malformed { part: "reference", problem: "belongs to the outcome applied alone" });
        }
        if self.outcome == OutcomeWord::Reopened && !self.attempts.is_empty() {
            return Err(Malformed { part: "attempts", problem: "are not named when a rejection is taken back: it covers them all" });
        }
        let outcome = match self.outcome {
            OutcomeWord::Applied => Settlement::Applied { reference: self.reference.unwrap_or_default() },
            OutcomeWord::NotDone => Settlement::NotDone,
            OutcomeWord::Rejected => Settlement::Rejected,
            OutcomeWord::Reopened => Settlement::Reopened,
        };
        let names = self.attempts.iter().map(|name| name.parse::<AttemptName>());
        let names = names.collect::<Result<Vec<_>, _>>().map_err(|problem| Malformed { part: "attempts", problem })?;
        let settle = Settle {
            key: parse_digest(&self.key)?,
            outcome,
            attempts: Some(names).filter(|names| !names.is_empty()),
            cannot_land_any_more: self.cannot_land_any_more,
            fresh_key: self.fresh_key,
        };
        Ok(Change { act: Act::Settle(settle), by: Author::Operator { name: self.by, uid }, reason: self.reason })
    }
}

impl EndRequest {
    /// Reads the request as the person with this user id made it.
    ///
    /// # Errors
    /// Names the part that makes no sense.
    pub fn change(self, word: EndWord, uid: u32) -> Result<Change, Malformed> {
        let target = match (&self.key, &self.park) {
            (Some(key), None) => Target::Operation(parse_digest(key)?),
            (None, Some(park)) => Target::Park(parse_park(park).ok_or(Malformed { part: "park", problem: PARK_FORM })?),
            _ => return Err(Malformed { part: "target", problem: "is either a key or a park note" }),
        };
        let act = match (word, self.with_repeats) {
            (EndWord::DeadLetter, None) => Act::DeadLetter(target),
            (EndWord::DeadLetter, Some(_)) => {
                return Err(Malformed { part: "with_repeats", problem: "belongs to a discard; a dead letter covers the repeats" });
            }
            (EndWord::Discard, with_repeats) => Act::Discard { target, with_repeats },
        };
        Ok(Change { act, by: Author::Operator { name: self.by, uid }, reason: self.reason })
    }
}

impl From<Changed> for Done {
    fn from(changed: Changed) -> Self {
        let next = match changed.next {
            Next::Settled => "settled; repeats are answered from its receipt".into(),
            Next::InDoubt(attempts) => {
                let names: Vec<String> = attempts.iter().map(|attempt| AttemptName::from(*attempt).to_string()).collect();
                format!("still in doubt: attempts {}", names.join(", "))
            }
            Next::RunsAgain(slot) => format!("runs again, from the record parked at {slot}"),
            Next::WaitsForRecord => "runs again when a record of it comes: from its lane, or by a redrive".into(),
            Next::DeadLettered(repeats) => format!("in the dead-letter topic{}", covered(repeats)),
            Next::Discarded(repeats) => format!("thrown away{}", covered(repeats)),
        };
        Self { key: changed.key.map(|key| key.to_string()), state: changed.state.into(), next }
    }
}

fn covered(repeats: usize) -> String {
    if repeats == 0 { String::new() } else { format!(", with {repeats} held repeats") }
}

impl From<&Refused> for Refusal {
    fn from(refused: &Refused) -> Self {
        Self { code: refused.code().into(), message: refused.to_string(), remedy: refused.remedy() }
    }
}

impl From<&Malformed> for Refusal {
    fn from(malformed: &Malformed) -> Self {
        Self { code: "malformed".into(), message: malformed.to_string(), remedy: "correct the request".into() }
    }
}

/// How a park note is written.
const PARK_FORM: &str = "is not of the form topic/partition/offset#number";

/// A park note as people write it.
#[must_use]
pub fn park_name(park: &ParkId) -> String {
    format!("{}#{}", park.slot, park.number)
}

/// Reads what [`park_name`] writes.
#[must_use]
pub fn parse_park(text: &str) -> Option<ParkId> {
    let (slot, number) = text.rsplit_once('#')?;
    Some(ParkId { slot: parse_slot(slot)?, number: number.parse().ok()? })
}

/// Reads a slot: `topic/partition/offset`.
#[must_use]
pub fn parse_slot(text: &str) -> Option<Slot> {
    let (partition, offset) = text.rsplit_once('/')?;
    let offset = offset.parse().ok().filter(|offset| *offset >= 0)?;
    Some(parse_partition(partition)?.slot(offset))
}

/// Reads a partition: `topic/partition`.
#[must_use]
pub fn parse_partition(text: &str) -> Option<Partition> {
    let (topic, number) = text.rsplit_once('/').filter(|(topic, _)| !topic.is_empty())?;
    let number = number.parse().ok().filter(|number| *number >= 0)?;
    Some(Partition { topic: topic.into(), number })
}

/// Reads an operation's digest.
///
/// # Errors
/// When it is none.
pub fn parse_digest(text: &str) -> Result<KeyDigest, Malformed> {
    KeyDigest::parse(text).ok_or(Malformed { part: "key", problem: "is no digest of 64 hexadecimal digits" })
}
