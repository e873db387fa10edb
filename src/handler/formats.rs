//! Owns the forms of a value that Kafka teams meet beside JSON: text, CloudEvents in both of their modes, and values with a schema
//! registry's frame. It owns no schema: what lies in the frame is the team's decoder's.

use super::{
    extract::FromDelivery,
    operation::Delivery,
    outcome::BoxError,
    record::{Invalid, Record},
};
use serde::{Deserialize, de::DeserializeOwned};

/// The content type of a CloudEvent in structured mode begins with this (CloudEvents 1.0, Kafka protocol binding).
const STRUCTURED: &str = "application/cloudevents";
/// The first byte of a registry's frame; four bytes of schema id follow, the highest first.
const MAGIC: u8 = 0;
/// Bytes of the frame.
const FRAME: usize = 5;

/// The record's value as text.
///
/// ```
/// # use receipted::{prelude::*, testing::{block_on, deliver, record}};
/// async fn book(Text(line): Text) -> Result<Applied<u64>, Failure> {
///     let (order, cents) = line.split_once(';').ok_or("no amount").rejected()?;
///     Ok(Applied::new(order, cents.parse().rejected()?))
/// }
/// # let book = operation("book.v1").tenant(fixed("acme")).id(record_key()).fingerprint(whole_value()).handle(book);
/// # let routes = App::new().topic("orders", book).with_state(()).build()?;
/// let became = block_on(deliver(&routes, "orders", record().key("o-1").value("o-1;250")));
/// assert_eq!(became.label(), "applied");
/// # Ok::<(), receipted::handler::BuildError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub String);

impl<S> FromDelivery<S> for Text {
    fn from_delivery(delivery: &Delivery, _: &S) -> Result<Self, Invalid> {
        let text = std::str::from_utf8(value(delivery.record())?).map_err(|_| Invalid::of("value", "it is not UTF-8"))?;
        Ok(Self(text.into()))
    }
}

/// A CloudEvent (1.0): binary mode with its attributes in `ce_…` headers and JSON as the value, or structured mode, one JSON object, where
/// the header `content-type` says so. A key is made of the same places: `header("ce_type")` or `json("/type")`. Its `id` names the
/// delivery, not the business operation; two that mean the same invoice have two.
///
/// ```
/// # use receipted::prelude::*;
/// # #[derive(serde::Deserialize)] struct Order { total: u64 }
/// async fn ship(op: Operation, order: CloudEvent<Order>) -> Result<Applied, Failure> {
///     Ok(Applied::new(format!("{} for {}", op.provider_key(), order.data.total), ()))
/// }
/// let route: Route<()> = operation("ship.v1")
///     .tenant(header("tenant"))
///     .id(header("ce_subject"))
///     .fingerprint(whole_value())
///     .handle(ship);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudEvent<T> {
    /// Which delivery of which producer: no part of an operation's identity.
    pub id: String,
    /// Who says so.
    pub source: String,
    /// What it is about.
    pub kind: String,
    /// On whom, where it says.
    pub subject: Option<String>,
    /// When, as written.
    pub time: Option<String>,
    /// The content.
    pub data: T,
}

#[derive(Deserialize)]
struct Structured<T> {
    specversion: String,
    id: String,
    source: String,
    #[serde(rename = "type")]
    kind: String,
    subject: Option<String>,
    time: Option<String>,
    data: T,
}

impl<S, T: DeserializeOwned> FromDelivery<S> for CloudEvent<T> {
    fn from_delivery(delivery: &Delivery, _: &S) -> Result<Self, Invalid> {
        let record = delivery.record();
        let content_type = record.header("content-type").or_else(|_| record.header("content_type")).unwrap_or_default();
        let (version, event) = if content_type.starts_with(STRUCTURED) { structured(record, content_type)? } else { binary(record)? };
        if version != "1.0" {
            return Err(Invalid::of("specversion", format!("{version:?} is not known: this reads 1.0")));
        }
        for (name, text) in [("id", &event.id), ("source", &event.source), ("type", &event.kind)] {
            if text.is_empty() {
                return Err(Invalid::of(format!("attribute {name:?}"), "it is empty"));
            }
        }
        Ok(event)
    }
}

fn structured<T: DeserializeOwned>(record: &Record, content_type: &str) -> Result<(String, CloudEvent<T>), Invalid> {
    if content_type.starts_with("application/cloudevents-batch") {
        return Err(Invalid::of("value", "it is a batch; a record carries one operation"));
    }
    let parsed = serde_json::from_slice(value(record)?).map_err(|error| Invalid::of("value", error))?;
    let Structured { specversion, id, source, kind, subject, time, data } = parsed;
    Ok((specversion, CloudEvent { id, source, kind, subject, time, data }))
}

fn binary<T: DeserializeOwned>(record: &Record) -> Result<(String, CloudEvent<T>), Invalid> {
    let required = |name: &str| record.header(name).map(String::from);
    let optional = |name: &str| record.header(name).ok().map(String::from);
    let data = serde_json::from_slice(value(record)?).map_err(|error| Invalid::of("value", error))?;
    let event = CloudEvent {
        id: required("ce_id")?,
        source: required("ce_source")?,
        kind: required("ce_type")?,
        subject: optional("ce_subject"),
        time: optional("ce_time"),
        data,
    };
    Ok((required("ce_specversion")?, event))
}

/// How a value with a schema registry's frame is read: the schema's id, then its bytes. Implement it with the team's Avro, Protobuf or
/// JSON-schema decoder; where schemas come from is its own matter, and must not block.
///
/// ```
/// # use receipted::prelude::*;
/// struct Order { cents: u64 }
///
/// impl Decode for Order {
///     fn decode(schema: u32, bytes: &[u8]) -> Result<Self, BoxError> {
///         match schema {
///             7 => Ok(Order { cents: u64::from_be_bytes(bytes.try_into()?) }), // here is your Avro or Protobuf decoder
///             _ => Err("this program does not know the schema".into()),
///         }
///     }
/// }
///
/// async fn ship(op: Operation, Framed(order): Framed<Order>) -> Result<Applied<u64>, Failure> {
///     Ok(Applied::new(op.provider_key(), order.cents))
/// }
/// # let _: Route<()> = operation("ship.v1").tenant(fixed("acme")).id(record_key()).fingerprint(whole_value()).handle(ship);
/// ```
pub trait Decode: Sized {
    /// Reads the bytes behind the frame.
    ///
    /// # Errors
    /// What is wrong with them, or that the schema is not known.
    fn decode(schema: u32, bytes: &[u8]) -> Result<Self, BoxError>;
}

/// The record's value behind a schema registry's frame: a zero byte, four bytes of schema id, and what `T` decodes.
///
/// See [`Decode`] for a handler that takes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framed<T>(pub T);

impl<S, T: Decode> FromDelivery<S> for Framed<T> {
    fn from_delivery(delivery: &Delivery, _: &S) -> Result<Self, Invalid> {
        let value = value(delivery.record())?;
        let (schema, bytes) = unframed(value).ok_or_else(|| {
            let begins =
                value.first().map_or("it is empty".into(), |byte| format!("it has {} bytes and begins with {byte:#04x}", value.len()));
            Invalid::of("value", format!("it has no registry's frame: {begins}"))
        })?;
        T::decode(schema, bytes).map(Self).map_err(|error| Invalid::of("value", format!("schema {schema}: {error}")))
    }
}

/// The schema's id and the bytes behind the frame: also for a key part of the team's own.
#[must_use]
pub fn unframed(value: &[u8]) -> Option<(u32, &[u8])> {
    let (frame, bytes) = value.split_first_chunk::<FRAME>()?;
    let [MAGIC, a, b, c, d] = *frame else { return None };
    Some((u32::from_be_bytes([a, b, c, d]), bytes))
}

fn value(record: &Record) -> Result<&[u8], Invalid> {
    record.value().ok_or_else(|| Invalid::of("value", "the record has no value"))
}
