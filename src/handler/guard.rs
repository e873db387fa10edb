//! Owns the wall against panics of a team's code: a panic becomes a value, and never ends a worker. It does not own what the panic
//! means; for a handler that is *unknown*.

use super::function::BoxFuture;
use crate::protocol::note::{REASON_BYTES_MAX, cut};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

/// Runs `code`; a panic is answered with its text. What `code` touched is not used again by the callers after a panic.
pub(super) fn guarded<T>(code: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(code)).map_err(panic_text)
}

/// A future of a team's code: a panic in it, or in its destructor, stays in here.
pub(super) struct Guarded<T> {
    future: Option<BoxFuture<T>>,
}

impl<T> Guarded<T> {
    pub(super) fn new(future: BoxFuture<T>) -> Self {
        Self { future: Some(future) }
    }

    fn end(&mut self) -> Result<(), String> {
        let future = self.future.take();
        guarded(|| drop(future))
    }
}

impl<T> Future for Guarded<T> {
    /// What the future answered, or the text of its panic.
    type Output = Result<T, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.future.as_mut() else {
            return Poll::Ready(Err("polled after it had ended".into()));
        };
        let polled = guarded(|| future.as_mut().poll(context));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            // What it answered stands, whatever its destructor does.
            Ok(Poll::Ready(answer)) => {
                let _ended = self.end();
                Poll::Ready(Ok(answer))
            }
            Err(text) => {
                let _ended = self.end();
                Poll::Ready(Err(text))
            }
        }
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        let _ended = self.end();
    }
}

fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => cut(text, REASON_BYTES_MAX).to_string(),
        (None, Some(text)) => cut(text, REASON_BYTES_MAX).to_string(),
        (None, None) => "a panic without a text".to_string(),
    };
    // A payload's destructor is a team's code too.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    text
}
