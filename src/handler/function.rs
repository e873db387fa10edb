//! Owns what a handler or lookup is: a plain function of extractors that returns a future, and one prepared run of it. Calling it is
//! left until the future is polled, for a function may have an effect before it returns one.

use super::{
    extract::FromDelivery,
    guard::Guarded,
    operation::{Delivery, Operation},
    record::Invalid,
};
use crate::protocol::{
    note::{DoubtReason, REASON_BYTES_MAX, cut},
    outcome::Outcome,
};
use std::{
    any::TypeId,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A future on the heap that may move between threads.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A function of up to six arguments.
///
/// ```
/// use receipted::{handler::{Arguments, Function, IntoOutcome}, prelude::*};
///
/// /// What all routes of a team have in common, whatever their handlers take.
/// fn ours<S, H, A>(name: &'static str, handler: H) -> Route<S>
/// where
///     H: Function<A, Output: Future<Output: IntoOutcome> + Send>,
///     A: Arguments<S>,
/// {
///     operation(name).tenant(header("tenant")).id(json("/id")).fingerprint(whole_value()).attempts_max(3).handle(handler)
/// }
///
/// async fn ship(op: Operation) -> Result<Applied, Failure> {
///     Ok(Applied::new(op.provider_key(), ()))
/// }
/// let app: App = App::new().topic("shipments", ours("ship.v1", ship));
/// # assert!(app.declared().is_ok());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function of up to six arguments",
    label = "not a function that can be called with extractors"
)]
pub trait Function<Args>: Send + Sync + 'static {
    /// What it returns: for a handler or lookup, a future.
    type Output;

    /// Calls it.
    fn call(&self, args: Args) -> Self::Output;
}

/// The arguments of a handler or lookup, each an extractor.
///
/// A function that is generic over them: [`Function`].
pub trait Arguments<S>: Sized + Send + 'static {
    /// Whether one of them gives the `Operation`.
    const GIVE_OPERATION: bool;

    /// Makes all of them, in order.
    ///
    /// # Errors
    /// The first extractor's error.
    fn extract(delivery: &Delivery, state: &S) -> Result<Self, Invalid>;
}

macro_rules! functions {
    ($(($($A:ident)*))*) => {$(
        impl<Fun: Fn($($A),*) -> Out + Send + Sync + 'static, Out, $($A),*> Function<($($A,)*)> for Fun {
            type Output = Out;

            #[allow(non_snake_case, reason = "the type's name serves as the variable's")]
            fn call(&self, ($($A,)*): ($($A,)*)) -> Out {
                self($($A),*)
            }
        }

        #[allow(unused_variables, reason = "a function without arguments looks at nothing")]
        impl<S, $($A: FromDelivery<S> + Send + 'static),*> Arguments<S> for ($($A,)*) {
            const GIVE_OPERATION: bool = false $(|| $A::GIVES_OPERATION)*;

            fn extract(delivery: &Delivery, state: &S) -> Result<Self, Invalid> {
                Ok(($($A::from_delivery(delivery, state)?,)*))
            }
        }
    )*};
}
functions! { () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }

/// One run of a handler, its arguments extracted. Not `Clone`, so that no layer can have the effect twice; dropping it is safe until it
/// was polled, and afterwards drops the evidence.
///
/// A runner of your own makes them as [`Routes`](super::Routes) shows.
#[must_use = "nothing runs until it is awaited"]
pub struct Attempt {
    /// The operation that it runs for.
    pub operation: Operation,
    run: BoxFuture<Outcome>,
}

impl Attempt {
    pub(super) fn new(operation: Operation, run: BoxFuture<Outcome>) -> Self {
        Self { operation, run }
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("operation", &self.operation).finish_non_exhaustive()
    }
}

impl IntoFuture for Attempt {
    type Output = Outcome;
    type IntoFuture = Running;

    /// Starts it with the first poll. A panic is an outcome: unknown.
    fn into_future(self) -> Running {
        Running(Guarded::new(self.run))
    }
}

/// An attempt's future. A panic in the handler is [`Outcome::Unknown`]; it never unwinds.
///
/// Of an attempt that [`Routes`](super::Routes) led to.
#[must_use = "nothing runs until it is awaited"]
pub struct Running(Guarded<Outcome>);

impl Future for Running {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.0).poll(context).map(|ended| {
            ended.unwrap_or_else(|text| {
                Outcome::Unknown(DoubtReason::Panic, cut(&format!("handler panicked: {text}"), REASON_BYTES_MAX).into())
            })
        })
    }
}

/// A function with its arguments still to be extracted, and what becomes of its answer, which may have so many bytes.
pub(super) type Prepare<S, T> = Arc<dyn Fn(&Delivery, &S, usize) -> Result<BoxFuture<T>, Invalid> + Send + Sync>;

pub(super) fn prepare<S, A, H, T>(function: H, finish: fn(<H::Output as Future>::Output, usize) -> T) -> Prepare<S, T>
where
    A: Arguments<S>,
    H: Function<A, Output: Future + Send>,
    T: 'static,
{
    let function = Arc::new(function);
    Arc::new(move |delivery, state, answer_bytes_max| {
        let (function, args) = (function.clone(), A::extract(delivery, state)?);
        Ok(Box::pin(async move { finish(function.call(args).await, answer_bytes_max) }))
    })
}

/// Which code a function is. Only functions and closures that capture nothing can be told to be the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Code(Option<TypeId>);

impl Code {
    pub(super) fn of<F: 'static>() -> Self {
        Self((size_of::<F>() == 0).then(TypeId::of::<F>))
    }

    pub(super) fn is(self, other: Self) -> bool {
        self.0.is_some() && self.0 == other.0
    }
}
