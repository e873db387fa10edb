//! Owns what a handler and a lookup say, and how that becomes the protocol's outcome. The only conversion that needs no word is *any
//! error: unknown*. It does not own what follows from an outcome.

use super::guard::guarded;
use crate::protocol::{
    note::{self, Answer, DoubtReason, REASON_BYTES_MAX, Reference, cut},
    outcome::{self, Outcome},
};
use serde::Serialize;
use std::{error::Error, fmt, io};

/// Any error, boxed.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The effect happened, and we know it: the destination's reference, and the answer for repeats.
///
/// ```
/// # use receipted::prelude::*;
/// # #[derive(Clone)] struct Bank;
/// # struct Booking { id: String, is_new: bool }
/// # impl Bank { async fn pay(&self, _: &str) -> Result<Booking, BoxError> { Ok(Booking { id: "b-1".into(), is_new: true }) } }
/// #[derive(serde::Serialize)]
/// struct Paid { cents: u64 } // kept: repeats get it without another payment
///
/// async fn pay(op: Operation, State(bank): State<Bank>) -> Result<Applied<Paid>, Failure> {
///     let booking = bank.pay(op.provider_key()).await?;
///     let answer = Paid { cents: 250 };
///     Ok(if booking.is_new { Applied::new(booking.id, answer) } else { Applied::already(booking.id, answer) })
/// }
/// # let _: Route<Bank> = operation("pay.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).handle(pay);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a handler that does not return it has not said what happened"]
pub struct Applied<T = ()> {
    reference: Option<Reference>,
    already: bool,
    answer: T,
}

impl<T> Applied<T> {
    /// Says that the effect happened in this attempt. An empty reference counts as none; one of more than 256 bytes is cut and carries
    /// a digest of the whole.
    pub fn new(reference: impl fmt::Display, answer: T) -> Self {
        Self { reference: Reference::new(&reference.to_string()), already: false, answer }
    }

    /// Says that the destination had it before this attempt.
    pub fn already(reference: impl fmt::Display, answer: T) -> Self {
        Self { already: true, ..Self::new(reference, answer) }
    }

    /// For a destination that names nothing: two such attempts are a *suspected* duplicate effect.
    pub fn without_reference(answer: T) -> Self {
        Self { reference: None, already: false, answer }
    }
}

impl<T: Serialize> Applied<T> {
    /// The form that is kept. An answer that fails to serialize, panics or is too large never changes what happened.
    fn kept(self, answer_bytes_max: usize) -> note::Applied {
        let Self { reference, already, answer } = self;
        let answer = guarded(move || serialized(&answer, answer_bytes_max))
            .unwrap_or_else(|text| Answer::Absent(capped(format!("serializing the answer panicked: {text}"))));
        note::Applied { reference, answer, already }
    }
}

fn serialized(answer: &impl Serialize, max: usize) -> Answer {
    let mut kept = Capped { bytes: Vec::new(), max, over: false };
    let done = serde_json::to_writer(&mut kept, answer);
    match (done, kept.over) {
        (_, true) => Answer::Absent(format!("the answer has more than {max} bytes of JSON")),
        (Err(error), false) => Answer::Absent(capped(format!("the answer does not serialize: {error}"))),
        (Ok(()), false) => match String::from_utf8(kept.bytes) {
            Ok(json) => Answer::Json(json),
            Err(_) => Answer::Absent("the answer does not serialize as UTF-8".into()),
        },
    }
}

/// Stops the serializer at the limit, so that a huge answer never takes memory.
struct Capped {
    bytes: Vec<u8>,
    max: usize,
    over: bool,
}

impl io::Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.max {
            self.over = true;
            return Err(io::Error::other("too large"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is known instead of success: *no effect* (certain; tried again later), *rejected* (certain and final), *unknown* (we cannot
/// tell). Not an `Error`: so a bare `?` can take every error, and a helper's `Failure` cannot be relabelled.
///
/// ```
/// # use receipted::prelude::*;
/// /// What a status of this destination says of the effect, as its documentation promises.
/// fn failure(status: u16) -> Failure {
///     match status {
///         400 | 422 => Failure::rejected(format!("refused with {status}")),
///         429 | 503 => Failure::no_effect(format!("not taken: {status}")),
///         _ => Failure::unknown(format!("{status} says nothing of the effect")), // 500 and 504 too: it may have happened
///     }
/// }
/// assert_eq!(Err::<Applied, _>(failure(504)).into_outcome(512).label(), "unknown");
/// # use receipted::handler::IntoOutcome;
/// ```
#[derive(Debug)]
pub struct Failure {
    known: Certainty,
    reason: BoxError,
}

#[derive(Debug, Clone, Copy)]
enum Certainty {
    NoEffect,
    Rejected,
    Unknown,
}

impl Failure {
    /// Says that this attempt certainly had no effect, and that another may have one.
    pub fn no_effect(reason: impl Into<BoxError>) -> Self {
        Self { known: Certainty::NoEffect, reason: reason.into() }
    }

    /// Says that this attempt certainly had no effect, and that the operation is refused for good.
    pub fn rejected(reason: impl Into<BoxError>) -> Self {
        Self { known: Certainty::Rejected, reason: reason.into() }
    }

    /// Says that nobody can tell whether the effect happened.
    pub fn unknown(reason: impl Into<BoxError>) -> Self {
        Self { known: Certainty::Unknown, reason: reason.into() }
    }

    /// Why.
    #[cfg(feature = "tower")]
    pub(super) fn reason(&self) -> &BoxError {
        &self.reason
    }

    pub(super) fn text(self) -> String {
        error_text(self.reason)
    }

    pub(super) fn outcome(self) -> Outcome {
        let text = error_text(self.reason);
        match self.known {
            Certainty::NoEffect => Outcome::NoEffect(text),
            Certainty::Rejected => Outcome::Rejected(text),
            Certainty::Unknown => Outcome::Unknown(DoubtReason::Unknown, text),
        }
    }
}

/// A bare `?` means unknown, for every error: boxed ones, `anyhow::Error` and strings too, which are `Into<BoxError>`.
impl<E: Into<BoxError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::unknown(error)
    }
}

/// An error and its sources on one line, capped. What a team's `Display` does, a panic included, changes no outcome.
pub(super) fn error_text(error: BoxError) -> String {
    let text = guarded(move || {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Many errors print their source themselves.
            if !text.ends_with(&cause_text) && text.len() <= REASON_BYTES_MAX {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        text
    });
    capped(text.unwrap_or_else(|panic| format!("printing the error panicked: {panic}")))
}

fn capped(text: String) -> String {
    if text.len() <= REASON_BYTES_MAX { text } else { cut(&text, REASON_BYTES_MAX).into() }
}

/// The words for what an error means: `.no_effect()?`, `.rejected()?`; and `.unknown()?`, which says aloud what a bare `?` means.
///
/// ```
/// # use receipted::prelude::*;
/// # async fn connect() -> Result<(), std::io::Error> { Ok(()) }
/// # async fn send(_: &str, _: u64) -> Result<String, std::io::Error> { Ok("id".into()) }
/// async fn charge(op: Operation, Text(cents): Text) -> Result<Applied, Failure> {
///     let cents = cents.parse().rejected()?; // will never be a number
///     connect().await.no_effect()?; // nothing was sent: try later
///     let id = send(op.provider_key(), cents).await.unknown()?; // sent, and no answer; a bare `?` means the same
///     Ok(Applied::new(id, ()))
/// }
/// # let _: Route<()> = operation("charge.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).handle(charge);
/// ```
pub trait EffectExt<T> {
    /// Says that the effect certainly did not happen; tried again later.
    ///
    /// # Errors
    /// The failure, where there was an error.
    fn no_effect(self) -> Result<T, Failure>;

    /// Says that the effect certainly did not happen, and must not.
    ///
    /// # Errors
    /// The failure, where there was an error.
    fn rejected(self) -> Result<T, Failure>;

    /// Says that nobody can tell.
    ///
    /// # Errors
    /// The failure, where there was an error.
    fn unknown(self) -> Result<T, Failure>;
}

impl<T, E: Into<BoxError>> EffectExt<T> for Result<T, E> {
    fn no_effect(self) -> Result<T, Failure> {
        self.map_err(Failure::no_effect)
    }

    fn rejected(self) -> Result<T, Failure> {
        self.map_err(Failure::rejected)
    }

    fn unknown(self) -> Result<T, Failure> {
        self.map_err(Failure::unknown)
    }
}

/// For a team's own error enum, variant by variant, in a handler that *returns* it: `Result<Applied<_>, MyError>`. (In a handler that
/// returns `Failure`, a bare `?` on `MyError` is unknown: the blanket conversion takes it.)
///
/// ```
/// # use receipted::{handler::IntoOutcome, prelude::*};
/// enum PayError { AccountClosed, NoAnswer(std::io::Error) }
///
/// impl IntoFailure for PayError {
///     fn into_failure(self) -> Failure {
///         match self {
///             PayError::AccountClosed => Failure::rejected("the account is closed"),
///             PayError::NoAnswer(error) => Failure::unknown(error),
///         }
///     }
/// }
/// assert_eq!(Err::<Applied, _>(PayError::AccountClosed).into_outcome(512).label(), "rejected");
/// assert_eq!(Err::<Applied, _>(PayError::NoAnswer(std::io::Error::other("reset"))).into_outcome(512).label(), "unknown");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what became of the effect",
    label = "fails with neither `Failure` nor an `IntoFailure`",
    note = "return `Result<Applied<_>, Failure>`, where a bare `?` means unknown; or `impl IntoFailure for {Self}`, variant by variant"
)]
pub trait IntoFailure {
    /// Says what is known about the effect.
    fn into_failure(self) -> Failure;
}

impl IntoFailure for Failure {
    fn into_failure(self) -> Failure {
        self
    }
}

/// What a handler may answer.
///
/// ```
/// use receipted::{handler::IntoOutcome, prelude::*, testing::block_on};
///
/// async fn ship(Text(to): Text) -> Result<Applied, Failure> {
///     let to = if to == "nowhere" { Err("no such place").rejected()? } else { to };
///     Ok(Applied::new(to, ()))
/// }
///
/// // A handler's own unit test: what is its answer, to receipted?
/// let answer = block_on(ship(Text("nowhere".into())));
/// assert_eq!(answer.into_outcome(512).label(), "rejected");
/// ```
#[diagnostic::on_unimplemented(
    message = "a handler cannot answer `{Self}`",
    label = "does not answer `Result<Applied<_>, _>`",
    note = "`Ok(Applied::new(reference, answer))` says that the effect happened, `Err` says what is known instead; the answer must be `Serialize`"
)]
pub trait IntoOutcome {
    /// The protocol's outcome. Answers of more than `answer_bytes_max` bytes of JSON are marked absent.
    fn into_outcome(self, answer_bytes_max: usize) -> Outcome;
}

impl<T: Serialize, E: IntoFailure> IntoOutcome for Result<Applied<T>, E> {
    fn into_outcome(self, answer_bytes_max: usize) -> Outcome {
        match self {
            Ok(applied) => Outcome::Applied(applied.kept(answer_bytes_max)),
            Err(error) => error.into_failure().outcome(),
        }
    }
}

/// What a lookup saw. It has no word for "no effect": `NotFound` is proof only after the quiet period, nothing else ever is.
///
/// ```
/// # use receipted::prelude::*;
/// # #[derive(Clone)] struct Bank;
/// # impl Bank { async fn search(&self, _: &str) -> Result<Vec<(String, &'static str)>, std::io::Error> { Ok(vec![]) } }
/// async fn find(op: Operation, State(bank): State<Bank>) -> Result<Finding, std::io::Error> {
///     let found = bank.search(op.provider_key()).await?; // a lookup that fails is no evidence
///     Ok(match &found[..] {
///         [] => Finding::NotFound, // proof after the quiet period only
///         [(_, "processing")] => Finding::Pending,
///         [(id, _)] => Finding::Found(Applied::new(id, ())),
///         several => Finding::FoundSeveral(several.iter().map(|(id, _)| Applied::new(id, ())).collect()),
///     })
/// }
/// # let _ = ask::<Bank, _, _>(find);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding<T = ()> {
    /// The effect is there.
    Found(Applied<T>),
    /// Several effects are there under the one key: a duplicate effect, to be counted. An empty list is no answer at all.
    FoundSeveral(Vec<Applied<T>>),
    /// The destination does not know of it.
    NotFound,
    /// The destination knows of it and is not done. Asked again; never evidence.
    Pending,
}

/// What became of a lookup: what it saw, or why it failed, which is no evidence.
pub type Looked = Result<outcome::Finding, String>;

/// What a lookup may answer.
///
/// ```
/// use receipted::{handler::IntoFinding, prelude::*};
///
/// // A lookup's own unit test: a search that timed out must not read as "not found".
/// let timed_out: Result<Finding, &str> = Err("no answer within 2 s");
/// assert_eq!(timed_out.into_finding(512), Err("no answer within 2 s".into()));
/// ```
#[diagnostic::on_unimplemented(
    message = "a lookup cannot answer `{Self}`",
    label = "does not answer `Result<Finding<_>, _>`",
    note = "any error type but `Failure`: that a lookup failed says nothing about the effect; what is found must be `Serialize`"
)]
pub trait IntoFinding {
    /// The protocol's finding.
    ///
    /// # Errors
    /// The lookup's own error, as text.
    fn into_finding(self, answer_bytes_max: usize) -> Looked;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize, E: Into<BoxError>> IntoFinding for Result<Finding<T>, E> {
    fn into_finding(self, answer_bytes_max: usize) -> Looked {
        match self.map_err(|error| error_text(error.into()))? {
            Finding::Found(applied) => Ok(outcome::Finding::Found(vec![applied.kept(answer_bytes_max)])),
            Finding::FoundSeveral(several) if several.is_empty() => Err("the lookup found several effects and names none".into()),
            Finding::FoundSeveral(several) => {
                Ok(outcome::Finding::Found(several.into_iter().map(|applied| applied.kept(answer_bytes_max)).collect()))
            }
            Finding::NotFound => Ok(outcome::Finding::NotFound),
            Finding::Pending => Ok(outcome::Finding::Pending),
        }
    }
}
