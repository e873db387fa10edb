//! Owns what a handler and a lookup may say. Everything that is not said aloud is unknown.

use super::note::{Applied, DoubtReason, Fact, REASON_BYTES_MAX, cut};

/// What became of an attempt's effect.
///
/// ```
/// # use receipted::protocol::{note::DoubtReason, outcome::Outcome};
/// // In a layer or a test of your own: what is known for certain becomes a fact, and nothing else does.
/// assert!(Outcome::NoEffect("the bank is away".into()).fact().is_some());
/// assert!(Outcome::Unknown(DoubtReason::Timeout, "no answer".into()).fact().is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It happened.
    Applied(Applied),
    /// It certainly did not happen; try again later.
    NoEffect(String),
    /// It certainly did not happen, and must not.
    Rejected(String),
    /// Nobody can tell.
    Unknown(DoubtReason, String),
}

impl Outcome {
    /// The fact that it states; none when nobody can tell. Texts are cut to [`REASON_BYTES_MAX`].
    #[must_use]
    pub fn fact(&self) -> Option<Fact> {
        let kept = |text: &str| cut(text, REASON_BYTES_MAX).to_string();
        match self {
            Self::Applied(applied) => Some(Fact::Applied(applied.clone())),
            Self::NoEffect(reason) => Some(Fact::NoEffect(kept(reason))),
            Self::Rejected(reason) => Some(Fact::Rejected(kept(reason))),
            Self::Unknown(..) => None,
        }
    }

    /// The metric's label of `attempts_finished_total`.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Applied(applied) if applied.already => "already",
            Self::Applied(_) => "applied",
            Self::NoEffect(_) => "no_effect",
            Self::Rejected(_) => "rejected",
            Self::Unknown(reason, _) => reason.label(),
        }
    }
}

/// What a lookup saw. It has no word for "no effect": not found is proof only after the quiet period.
///
/// ```
/// # use receipted::{handler::Looked, protocol::outcome::Finding};
/// /// What `testing::look_up` answered, for a test: may the operation run again once the quiet period is over?
/// fn is_absent(looked: &Looked) -> bool {
///     matches!(looked, Ok(Finding::NotFound)) // pending is no evidence, and neither is an error
/// }
/// assert!(!is_absent(&Err("no answer".into())));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The effect is there; more than one when the destination shows several under one key.
    Found(Vec<Applied>),
    /// The destination does not know of it.
    NotFound,
    /// The destination knows of it and is not done. Asked again; never evidence.
    Pending,
}
