//! Owns the reply hook: a route's function that hands an operation's answer on. When it is called, and how often, is the runner's.

use super::{
    extract::{FromRef, State},
    function::{BoxFuture, Code, Function},
    operation::{Delivery, Operation},
    outcome::{BoxError, error_text},
    record::{Invalid, Record},
};
use crate::protocol::note::{self, Answer};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// What a delivery is answered with: the operation's settled outcome, durable before the hook is called.
///
/// ```
/// # use receipted::prelude::*;
/// use std::sync::mpsc::Sender;
/// # async fn charge(op: Operation) -> Result<Applied<u64>, Failure> { Ok(Applied::new(op.provider_key(), 250)) }
/// /// Tells whoever asked; a repeat is told the same again.
/// async fn tell(reply: Reply, State(out): State<Sender<String>>) -> Result<(), BoxError> {
///     let to = reply.record().header("reply-to")?;
///     let text = reply.answer_json().unwrap_or("rejected");
///     Ok(out.send(format!("{to}: {text}"))?)
/// }
/// let route: Route<Sender<String>> =
///     operation("charge.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).reply(tell).handle(charge);
/// ```
#[derive(Debug)]
pub struct Reply {
    delivery: Delivery,
    answered: Answered,
}

/// A settled outcome.
///
/// [`Reply`] reads it for a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// The effect happened: reference and answer, as kept.
    Applied(note::Applied),
    /// It did not and will not, and why.
    Rejected(String),
}

impl Reply {
    /// Answers a delivery. Its operation says whether this is a replay.
    #[must_use]
    pub fn new(delivery: Delivery, answered: Answered) -> Self {
        Self { delivery, answered }
    }

    /// The operation.
    #[must_use]
    pub fn operation(&self) -> &Operation {
        self.delivery.operation()
    }

    /// The record that is answered: it may say where to.
    #[must_use]
    pub fn record(&self) -> &Record {
        self.delivery.record()
    }

    /// The outcome.
    #[must_use]
    pub fn answered(&self) -> &Answered {
        &self.answered
    }

    /// Whether the operation was known before this delivery.
    #[must_use]
    pub fn is_replay(&self) -> bool {
        self.operation().is_replay()
    }

    /// The destination's reference, where the effect happened and it names one.
    #[must_use]
    pub fn reference(&self) -> Option<&str> {
        match &self.answered {
            Answered::Applied(applied) => applied.reference.as_ref().map(note::Reference::as_str),
            Answered::Rejected(_) => None,
        }
    }

    /// The handler's answer as JSON text, where the effect happened and the answer was kept.
    #[must_use]
    pub fn answer_json(&self) -> Option<&str> {
        match &self.answered {
            Answered::Applied(note::Applied { answer: Answer::Json(json), .. }) => Some(json),
            Answered::Applied(_) | Answered::Rejected(_) => None,
        }
    }

    /// The handler's answer; none where the effect did not happen or the answer was not kept.
    ///
    /// # Errors
    /// When the answer that was kept is no `T`.
    pub fn answer<T: DeserializeOwned>(&self) -> Result<Option<T>, Invalid> {
        self.answer_json().map(serde_json::from_str).transpose().map_err(|error| Invalid::of("answer", error))
    }
}

/// The arguments of a reply hook: the [`Reply`], and `State<_>` after it where the hook needs some.
///
/// A hook with both: [`Reply`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not the arguments of a reply hook",
    label = "takes something else than a reply and state",
    note = "`async fn answer(reply: Reply)` or `async fn answer(reply: Reply, State(bank): State<Bank>)`"
)]
pub trait ReplyArguments<S>: Sized + Send + 'static {
    /// Makes them.
    fn arguments(reply: Reply, state: &S) -> Self;
}

impl<S> ReplyArguments<S> for (Reply,) {
    fn arguments(reply: Reply, _: &S) -> Self {
        (reply,)
    }
}

impl<S, T: FromRef<S> + Send + 'static> ReplyArguments<S> for (Reply, State<T>) {
    fn arguments(reply: Reply, state: &S) -> Self {
        (reply, State(T::from_ref(state)))
    }
}

/// What became of a reply: handed on, or why not.
pub type Replied = Result<(), String>;

type Call<S> = Arc<dyn Fn(Reply, &S) -> BoxFuture<Replied> + Send + Sync>;

pub(super) struct ReplyHook<S> {
    pub(super) code: Code,
    pub(super) call: Call<S>,
}

impl<S> ReplyHook<S> {
    pub(super) fn new<H, A, E>(hook: H) -> Self
    where
        H: Function<A, Output: Future<Output = Result<(), E>> + Send>,
        A: ReplyArguments<S>,
        E: Into<BoxError> + 'static,
    {
        let hook = Arc::new(hook);
        let call = move |reply: Reply, state: &S| -> BoxFuture<Replied> {
            let (hook, arguments) = (hook.clone(), A::arguments(reply, state));
            Box::pin(async move { hook.call(arguments).await.map_err(|error| error_text(error.into())) })
        };
        Self { code: Code::of::<H>(), call: Arc::new(call) }
    }
}
