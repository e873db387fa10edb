//! Owns the words that are written down about an attempt: admission, fact, doubt, verdict. A note is never changed once written.

use super::{fingerprint::Fingerprint, time::UnixMillis};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

/// Bytes of a destination's reference, at most; a longer one is cut and carries a digest of the whole.
pub const REFERENCE_BYTES_MAX: usize = 256;
/// Bytes of an answer that a store takes, at most.
pub const ANSWER_BYTES_MAX: usize = 4096;
/// Bytes of an error text or reason that is kept, at most.
pub const REASON_BYTES_MAX: usize = 512;

/// One attempt of an operation. Unique for ever: the number is counted per operation, the claim per process start.
///
/// ```
/// # use receipted::protocol::note::AttemptId;
/// /// As listings of your own may name it: the second attempt, by the seventh start of the process.
/// fn name(attempt: AttemptId) -> String {
///     format!("attempt {} of start {}", attempt.number, attempt.claim)
/// }
/// assert_eq!(name(AttemptId { number: 2, claim: 7 }), "attempt 2 of start 7");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// 1 for the first attempt of an operation.
    pub number: u32,
    /// The claim under which it was admitted.
    pub claim: u64,
}

/// A place in a topic: where a record stands.
///
/// ```
/// # use receipted::protocol::note::Slot;
/// // What `Rehearsal::deliver` returns and a listing prints: where to look for the record in Kafka.
/// let slot = Slot { topic: "payments".into(), partition: 3, offset: 120 };
/// assert_eq!(slot.to_string(), "payments/3/120");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.topic, self.partition, self.offset)
    }
}

/// The durable note that an attempt may now have an effect. Made before the handler runs.
///
/// ```
/// # use receipted::protocol::known::Known;
/// /// For a report of your own: which records have an operation's attempts run for, and when?
/// fn attempts(known: &Known) -> Vec<String> {
///     let admissions = known.receipt.admissions().iter();
///     admissions.map(|(attempt, admitted)| format!("{}: {} at {}", attempt.number, admitted.slot, admitted.at.0)).collect()
/// }
/// assert!(attempts(&Known::default()).is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Admission {
    /// The parameters' digest.
    pub fingerprint: Fingerprint,
    /// The record that it runs for.
    pub slot: Slot,
    /// The wall clock at the admission.
    pub at: UnixMillis,
    /// How long the handler has before the attempt counts as unknown.
    pub time_limit: Duration,
    /// How long the destination said it deduplicates by the provider key, where the contract rests on that.
    pub memory: Option<Duration>,
    /// The generation of the provider key that the attempt uses.
    pub key_generation: u32,
    /// Which attempt this is in the budget of its slot; 1 for the first. A redrive or a verdict *not done* starts again at 1.
    pub budget_used: u32,
    /// The correlation id, where the record had one.
    pub correlation: Option<String>,
}

/// The destination's name for an effect.
///
/// ```
/// # use receipted::protocol::note::Reference;
/// // For a comparison with the destination's own list: what is kept of a name, however long it is.
/// assert_eq!(Reference::new("ch_7").as_ref().map(Reference::as_str), Some("ch_7"));
/// assert_eq!(Reference::new(""), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reference(String);

impl Reference {
    /// Keeps `text`, or its first bytes and a digest of the whole when it is longer than [`REFERENCE_BYTES_MAX`]. An empty text
    /// counts as none.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        if text.len() <= REFERENCE_BYTES_MAX {
            return Some(Self(text.into()));
        }
        let digest = blake3::hash(text.as_bytes()).to_hex();
        Some(Self(format!("{}~{digest}", cut(text, REFERENCE_BYTES_MAX - 65))))
    }

    /// The text as kept.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a repeat is answered with.
///
/// A part of [`Applied`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Answer {
    /// JSON text.
    Json(String),
    /// The handler's answer did not serialize, or was larger than the route keeps. The effect is as certain as ever.
    Absent(String),
}

/// An effect that is known to have happened.
///
/// ```
/// # use receipted::protocol::{known::Known, note::{Answer, Applied}};
/// /// For a page of your own: what an operation was answered with, and by which name the destination has it.
/// fn shown(known: &Known) -> Option<String> {
///     let Applied { reference, answer, .. } = known.receipt.applied()?;
///     let name = reference.as_ref().map_or("no name", |reference| reference.as_str());
///     Some(match answer {
///         Answer::Json(json) => format!("{name}: {json}"),
///         Answer::Absent(why) => format!("{name}, and {why}"),
///     })
/// }
/// assert_eq!(shown(&Known::default()), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Applied {
    /// The destination's reference, where it names one.
    pub reference: Option<Reference>,
    /// What repeats are answered with.
    pub answer: Answer,
    /// The destination had it before this attempt.
    pub already: bool,
}

/// A durable statement about one named attempt. True whoever writes it, and whenever.
///
/// ```
/// # use receipted::protocol::{note::{AttemptId, Fact}, receipt::Receipt};
/// // Facts about different attempts do not contradict each other: one that had no effect leaves room for another.
/// let mut receipt = Receipt::default();
/// receipt.learn(AttemptId { number: 1, claim: 1 }, Fact::NoEffect("the bank is away".into()));
/// assert_eq!(receipt.state().label(), "retryable");
/// receipt.learn(AttemptId { number: 2, claim: 1 }, Fact::Rejected("over the limit".into()));
/// assert_eq!(receipt.state().label(), "rejected");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Fact {
    /// The effect happened.
    Applied(Applied),
    /// This attempt had no effect, and the operation is refused for good.
    Rejected(String),
    /// This attempt had no effect; another may.
    NoEffect(String),
    /// The handler was never called.
    NotStarted,
}

/// Why nobody knows what became of an attempt.
///
/// ```
/// # use receipted::protocol::{note::DoubtReason, receipt::Receipt};
/// /// For an alert of your own: panics are the team's own mistakes, and nothing of the destination.
/// fn panics(receipt: &Receipt) -> usize {
///     receipt.unresolved().into_values().filter(|reason| *reason == DoubtReason::Panic).count()
/// }
/// assert_eq!(panics(&Receipt::default()), 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DoubtReason {
    /// The handler said that it cannot tell.
    Unknown,
    /// The handler panicked.
    Panic,
    /// The time limit passed.
    Timeout,
    /// The future was dropped before it ended.
    Cancelled,
    /// The process ended between the admission and the fact.
    Crash,
}

impl DoubtReason {
    /// Every reason, in the order of the metric's labels.
    pub const ALL: [Self; 5] = [Self::Unknown, Self::Panic, Self::Timeout, Self::Cancelled, Self::Crash];

    /// The metric's label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Crash => "crash",
        }
    }
}

/// The note that an attempt ended, or passed its deadline, without a fact. It changes no state: it makes the doubt countable.
///
/// Why there is one: [`DoubtReason`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Doubt {
    /// Why.
    pub reason: DoubtReason,
    /// The error's text, cut.
    pub detail: String,
    /// The wall clock.
    pub at: UnixMillis,
}

/// What a verdict says became of the attempts that it covers.
///
/// A part of a [`Verdict`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Ruling {
    /// The effect is there.
    Applied(Applied),
    /// The effect is not there and cannot come any more: the operation runs again.
    NotDone,
    /// The effect is not there, and the operation must not run.
    Rejected,
    /// A rejection is taken back: the operation may run again.
    Reopened,
}

impl Ruling {
    /// The metric's label.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Applied(_) => "applied",
            Self::NotDone => "not_done",
            Self::Rejected => "rejected",
            Self::Reopened => "reopened",
        }
    }
}

/// Who gave a verdict.
///
/// A part of a [`Verdict`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Author {
    /// The route's lookup.
    Reconcile,
    /// A person, by the name given and the user id of the connection.
    Operator {
        /// The name as given.
        name: String,
        /// The user id that the operating system reports.
        uid: u32,
    },
}

impl Author {
    /// The metric's label.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Reconcile => "reconcile",
            Self::Operator { .. } => "operator",
        }
    }
}

/// What settles an attempt in doubt: from a lookup or a person, with the evidence that it rests on.
///
/// ```
/// # use receipted::protocol::{note::{Author, Ruling}, receipt::Receipt};
/// /// For an audit: what was settled by people, on whose word, and why.
/// fn by_people(receipt: &Receipt) -> Vec<String> {
///     let by = |author: &Author| if let Author::Operator { name, .. } = author { Some(name.clone()) } else { None };
///     let verdicts = receipt.verdicts().iter().filter(|verdict| verdict.ruling != Ruling::Reopened);
///     verdicts.filter_map(|verdict| Some(format!("{} by {}: {}", verdict.ruling.label(), by(&verdict.by)?, verdict.reason))).collect()
/// }
/// assert!(by_people(&Receipt::default()).is_empty());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Verdict {
    /// The attempts that it speaks of.
    pub attempts: BTreeSet<AttemptId>,
    /// What it says.
    pub ruling: Ruling,
    /// Who says it.
    pub by: Author,
    /// Why.
    pub reason: String,
    /// The wall clock.
    pub at: UnixMillis,
    /// Raise the generation of the provider key for the next attempt.
    pub fresh_key: bool,
}

impl Verdict {
    /// Whether a lookup found the effect: evidence, which stands whatever became of the operation meanwhile.
    #[must_use]
    pub fn is_found(&self) -> bool {
        self.by == Author::Reconcile && matches!(self.ruling, Ruling::Applied(_))
    }
}

/// The longest prefix of `text` with at most `max` bytes.
#[must_use]
pub fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
