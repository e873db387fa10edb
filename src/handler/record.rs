//! Owns what a team's code may see of a record: key, value and headers, and the error that says what is wrong with one. It does not
//! show partition, offset or time, so that no identity can be made of them.

use super::pointers::Pointers;
use crate::protocol::{
    note::{REASON_BYTES_MAX, cut},
    park::Payload,
};
use serde_json::Value;
use std::{
    borrow::Cow,
    error::Error,
    fmt,
    sync::{Arc, OnceLock},
};

/// A record as keys and arguments see it: without partition, offset and time. Its value is parsed as JSON at most once as a whole.
///
/// ```
/// use receipted::{prelude::*, testing::record};
///
/// /// A key part of your own: what stands before the first dash of the record key.
/// fn account(record: &Record) -> Result<String, BoxError> {
///     let (account, _) = record.key_text()?.split_once('-').ok_or("no dash")?;
///     Ok(account.into())
/// }
///
/// assert_eq!(account(&record().key("a7-2031").build())?, "a7");
/// # let _ = operation::<()>("charge.v1").tenant(fixed("acme")).id([account.into_part(), json("/id")]);
/// # Ok::<(), BoxError>(())
/// ```
pub struct Record {
    payload: Arc<Payload>,
    /// The fields that its topic's routes name it by.
    named_by: Option<Arc<Pointers>>,
    found: OnceLock<Result<Vec<Option<Value>>, String>>,
    parsed: OnceLock<Result<Value, String>>,
}

impl Record {
    /// Shows `payload`; copies nothing.
    #[must_use]
    pub fn new(payload: Arc<Payload>) -> Self {
        Self::named_by(payload, None)
    }

    pub(super) fn named_by(payload: Arc<Payload>, named_by: Option<Arc<Pointers>>) -> Self {
        Self { payload, named_by, found: OnceLock::new(), parsed: OnceLock::new() }
    }

    /// The record key's bytes.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.payload.key.as_deref()
    }

    /// The record key as text.
    ///
    /// # Errors
    /// When there is none, or it is not UTF-8.
    pub fn key_text(&self) -> Result<&str, Invalid> {
        self.text_of_key().map_err(|reason| Invalid::of("record key", reason))
    }

    /// The value's bytes; none for a tombstone.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        self.payload.value.as_deref()
    }

    /// The headers in order, as bytes: neither name nor value has to be UTF-8.
    pub fn headers(&self) -> impl DoubleEndedIterator<Item = (&[u8], Option<&[u8]>)> {
        self.payload.headers.iter().map(|(name, value)| (name.as_slice(), value.as_deref()))
    }

    /// The text of the last header with this name.
    ///
    /// # Errors
    /// When there is none, or it is null or not UTF-8.
    pub fn header(&self, name: &str) -> Result<&str, Invalid> {
        self.text_of_header(name).map_err(|reason| Invalid::of(format!("header {name:?}"), reason))
    }

    /// The string or integer at a JSON pointer, as text. Floats are refused: their text is not stable.
    ///
    /// # Errors
    /// When the value is not JSON, or has neither string nor integer there.
    pub fn json(&self, pointer: &str) -> Result<Cow<'_, str>, Invalid> {
        self.text_at(pointer).map_err(|reason| Invalid::of(format!("json {pointer:?}"), reason))
    }

    /// The value as JSON.
    ///
    /// # Errors
    /// When there is none, or it does not parse.
    pub fn json_value(&self) -> Result<&Value, Invalid> {
        self.parsed().map_err(|reason| Invalid::of("value", reason))
    }

    /// Reasons are static or borrowed: a record without an optional header costs no allocation.
    pub(super) fn text_of_key(&self) -> Result<&str, &'static str> {
        let key = self.key().ok_or("the record has no key")?;
        std::str::from_utf8(key).map_err(|_| "it is not UTF-8")
    }

    pub(super) fn text_of_header(&self, name: &str) -> Result<&str, &'static str> {
        let (_, value) = self.headers().rev().find(|(found, _)| *found == name.as_bytes()).ok_or("the record has no such header")?;
        std::str::from_utf8(value.ok_or("it is null")?).map_err(|_| "it is not UTF-8")
    }

    pub(super) fn text_at(&self, pointer: &str) -> Result<Cow<'_, str>, &str> {
        match self.at(pointer)? {
            Some(Value::String(text)) => Ok(Cow::Borrowed(text)),
            Some(Value::Number(number)) if !number.is_f64() => Ok(Cow::Owned(number.to_string())),
            Some(Value::Number(_)) => Err("it is no integer of 64 bits; send it as a string"),
            Some(Value::Null) => Err("it is null"),
            Some(_) => Err("it is neither a string nor an integer"),
            None => Err("the value has no such field"),
        }
    }

    /// The field at a pointer. Where the routes name the record by it, nothing else is built.
    pub(super) fn at(&self, pointer: &str) -> Result<Option<&Value>, &str> {
        let Some((named_by, place)) = self.named_by.as_ref().and_then(|named_by| Some((named_by, named_by.place(pointer)?))) else {
            return Ok(self.parsed()?.pointer(pointer));
        };
        self.found
            .get_or_init(|| self.json_by(|value| named_by.read(value)))
            .as_ref()
            .map(|found| found[place].as_ref())
            .map_err(String::as_str)
    }

    pub(super) fn parsed(&self) -> Result<&Value, &str> {
        self.parsed.get_or_init(|| self.json_by(|value| serde_json::from_slice(value))).as_ref().map_err(String::as_str)
    }

    fn json_by<T>(&self, read: impl FnOnce(&[u8]) -> Result<T, serde_json::Error>) -> Result<T, String> {
        let value = self.value().ok_or("the record has no value")?;
        read(value).map_err(|error| format!("not JSON: {error}"))
    }
}

/// Prints sizes only: a record may hold personal data.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = [self.key(), self.value()].map(|bytes| bytes.map(<[u8]>::len));
        f.debug_struct("Record")
            .field("key_bytes", &sizes[0])
            .field("value_bytes", &sizes[1])
            .field("headers", &self.payload.headers.len())
            .finish()
    }
}

/// No such key part or argument: the record goes to the dead letters and its operation stays as it was. (Not "rejected", which is an
/// outcome, and final.)
///
/// ```
/// # use receipted::testing::record;
/// let record = record().value(r#"{"cents":1.5}"#).build();
/// let invalid = record.json("/cents").unwrap_err();
/// assert_eq!(invalid.part(), Some(r#"json "/cents""#)); // the dead letter's reason names the part
/// assert_eq!(invalid.reason(), "it is no integer of 64 bits; send it as a string");
/// ```
/// An extractor that makes one: [`FromDelivery`](super::FromDelivery).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    part: Option<Box<str>>,
    reason: Box<str>,
}

impl Invalid {
    /// Says why an argument cannot be made of a record. The text is capped.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self { part: None, reason: capped(&reason) }
    }

    /// Says which part is wrong, and why. The texts are capped.
    pub fn of(part: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self { part: Some(capped(&part)), reason: capped(&reason) }
    }

    /// The key part or field that is wrong, where it is known.
    #[must_use]
    pub fn part(&self) -> Option<&str> {
        self.part.as_deref()
    }

    /// What is wrong with it.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            Some(part) => write!(f, "{part}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl Error for Invalid {}

fn capped(text: &impl fmt::Display) -> Box<str> {
    cut(&text.to_string(), REASON_BYTES_MAX).into()
}
