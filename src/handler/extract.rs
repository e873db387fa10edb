//! Owns the arguments of handlers and lookups: how each is made of a delivery and the app's state. Nothing here is async or runs after
//! the admission, so an extractor cannot have had an effect.

use super::{
    operation::{Delivery, Operation},
    record::{Invalid, Record},
};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// An argument of a handler or lookup. It is made before the admission: where it fails, the record goes to the dead letters and the
/// operation stays as it was.
///
/// ```
/// use receipted::prelude::*;
///
/// /// Who asked for it.
/// struct Caller(String);
///
/// impl<S> FromDelivery<S> for Caller {
///     fn from_delivery(delivery: &Delivery, _: &S) -> Result<Self, Invalid> {
///         match delivery.record().header("caller")? {
///             "" => Err(Invalid::of("header \"caller\"", "it is empty")),
///             caller => Ok(Caller(caller.into())),
///         }
///     }
/// }
///
/// async fn refund(op: Operation, Caller(caller): Caller) -> Result<Applied, Failure> {
///     Ok(Applied::new(format!("{} for {caller}", op.provider_key()), ()))
/// }
/// # let _: Route<()> = operation("refund.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).handle(refund);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler or lookup",
    label = "one of its arguments is not an extractor",
    note = "take the record's value as `Json<_>`, `Text`, `Raw`, `CloudEvent<_>` or `Framed<_>`, its headers as `Headers`, shared state as `State<_>`; or `Operation`, or your own `impl<S> FromDelivery<S>`"
)]
pub trait FromDelivery<S>: Sized {
    /// Whether the argument gives the handler its `Operation`, and with it the provider key. `destination_deduplicates` is refused
    /// for a handler that has none of these; set it in an extractor of your own that keeps the operation.
    const GIVES_OPERATION: bool = false;

    /// Makes the argument.
    ///
    /// # Errors
    /// Says what is wrong with the record.
    fn from_delivery(delivery: &Delivery, state: &S) -> Result<Self, Invalid>;
}

/// The record's value, parsed as JSON. Read from the bytes, so that numbers are as exact as `T` can hold them.
///
/// ```
/// # use receipted::{prelude::*, testing::{block_on, deliver, record}};
/// #[derive(serde::Deserialize)]
/// struct Charge { cents: u64 }
///
/// async fn charge(op: Operation, Json(charge): Json<Charge>) -> Result<Applied<u64>, Failure> {
///     Ok(Applied::new(op.provider_key(), charge.cents))
/// }
/// # let charge = operation("charge.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).handle(charge);
/// # let routes = App::new().topic("payments", charge).with_state(()).build()?;
/// // A value that is no `Charge` is a dead letter at once: the handler does not run, and nothing is in doubt.
/// let became = block_on(deliver(&routes, "payments", record().value(r#"{"id":"c-1","cents":-1}"#)));
/// assert_eq!(became.label(), "dead_lettered");
/// # Ok::<(), receipted::handler::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// The record's value as bytes.
///
/// ```
/// # use receipted::prelude::*;
/// async fn archive(op: Operation, Raw(bytes): Raw) -> Result<Applied<usize>, Failure> {
///     // In whatever form it has: a PDF, say.
///     Ok(Applied::new(op.provider_key(), bytes.len()))
/// }
/// # let _: Route<()> = operation("archive.v1").tenant(fixed("a")).id(record_key()).fingerprint(whole_value()).handle(archive);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw(pub Vec<u8>);

/// The app's state, or a part of it.
///
/// ```
/// # use receipted::prelude::*;
/// #[derive(Clone)]
/// struct Bank { url: String }
///
/// async fn charge(op: Operation, State(bank): State<Bank>) -> Result<Applied, Failure> {
///     Ok(Applied::new(format!("{}/{}", bank.url, op.provider_key()), ()))
/// }
/// # let route = operation("charge.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).handle(charge);
/// let app = App::new().topic("payments", route).with_state(Bank { url: "https://bank.example".into() });
/// # assert!(app.build().is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State<T>(pub T);

/// The record's headers.
///
/// ```
/// # use receipted::prelude::*;
/// async fn notify(op: Operation, headers: Headers) -> Result<Applied, Failure> {
///     let language = headers.get("language").unwrap_or("en"); // optional: a record without it is no dead letter
///     Ok(Applied::new(format!("{}-{language}", op.provider_key()), ()))
/// }
/// # let _: Route<()> = operation("notify.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).handle(notify);
/// ```
#[derive(Debug, Clone)]
pub struct Headers(Arc<Record>);

impl Headers {
    /// The text of the last header with this name; none when it is missing, null or not UTF-8.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.header(name).ok()
    }

    /// Names and values in order, as bytes.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], Option<&[u8]>)> {
        self.0.headers()
    }
}

impl<S> FromDelivery<S> for Operation {
    const GIVES_OPERATION: bool = true;

    fn from_delivery(delivery: &Delivery, _: &S) -> Result<Self, Invalid> {
        Ok(delivery.operation().clone())
    }
}

impl<S, T: DeserializeOwned> FromDelivery<S> for Json<T> {
    fn from_delivery(delivery: &Delivery, _: &S) -> Result<Self, Invalid> {
        serde_json::from_slice(value(delivery)?).map(Json).map_err(|error| Invalid::of("value", error))
    }
}

impl<S> FromDelivery<S> for Raw {
    fn from_delivery(delivery: &Delivery, _: &S) -> Result<Self, Invalid> {
        Ok(Raw(value(delivery)?.to_vec()))
    }
}

impl<S> FromDelivery<S> for Headers {
    fn from_delivery(delivery: &Delivery, _: &S) -> Result<Self, Invalid> {
        Ok(Headers(delivery.record().clone()))
    }
}

impl<S, T: FromRef<S>> FromDelivery<S> for State<T> {
    fn from_delivery(_: &Delivery, state: &S) -> Result<Self, Invalid> {
        Ok(State(T::from_ref(state)))
    }
}

fn value(delivery: &Delivery) -> Result<&[u8], Invalid> {
    delivery.record().value().ok_or_else(|| Invalid::of("value", "the record has no value"))
}

/// The app's state, or a part of it, made from a reference: what `State<_>` takes.
///
/// ```
/// # use receipted::prelude::*;
/// # #[derive(Clone)] struct Bank;
/// # #[derive(Clone)] struct Mail;
/// struct Clients { bank: Bank, mail: Mail }
///
/// impl FromRef<Clients> for Bank {
///     fn from_ref(clients: &Clients) -> Self {
///         clients.bank.clone()
///     }
/// }
/// # impl FromRef<Clients> for Mail { fn from_ref(clients: &Clients) -> Self { clients.mail.clone() } }
///
/// async fn charge(op: Operation, State(bank): State<Bank>) -> Result<Applied, Failure> { // it takes what it needs, no more
/// #   let _ = bank;
///     Ok(Applied::new(op.provider_key(), ()))
/// }
/// # let charge = operation("charge.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).handle(charge);
/// # assert!(App::new().topic("payments", charge).with_state(Clients { bank: Bank, mail: Mail }).build().is_ok());
/// ```
#[diagnostic::on_unimplemented(
    message = "the app's state, `{S}`, has no `{Self}`",
    label = "takes `State<{Self}>`",
    note = "give it with `.with_state(..)`; where the state is a struct of several parts, `impl FromRef<ThatStruct> for {Self}`"
)]
pub trait FromRef<S> {
    /// Takes the part out of the state, usually by a clone of an `Arc` or a client.
    fn from_ref(state: &S) -> Self;
}

impl<T: Clone> FromRef<T> for T {
    fn from_ref(state: &T) -> T {
        state.clone()
    }
}

/// A second way, without which the compiler would conclude from the first that `S` is `T` and complain far from the cause.
impl<T: Clone> FromRef<Arc<T>> for T {
    fn from_ref(state: &Arc<T>) -> T {
        T::clone(state)
    }
}
