//! Owns the digest of the parameters that must not change under one key. What the parameters are is the route's choice.

use super::{canonical, context::Context};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The largest integer that every JSON reader keeps exactly (RFC 8259, section 6).
pub(super) const EXACT_MAX: u64 = 1 << 53;
static JSON_CONTEXT: Context = Context::new("receipted 2026 fingerprint json v1");
static BYTES_CONTEXT: Context = Context::new("receipted 2026 fingerprint bytes v1");

/// The digest of an operation's parameters, or the route's word that it does not compare them.
///
/// ```
/// # use receipted::protocol::fingerprint::Fingerprint;
/// // What counts as the same parameters: not the order of fields, nor white space.
/// let first = Fingerprint::of_value(br#"{"account":"a","cents":250}"#);
/// assert!(!first.differs(Fingerprint::of_value(br#"{ "cents": 250, "account": "a" }"#)));
/// assert!(first.differs(Fingerprint::of_value(br#"{"account":"a","cents":251}"#)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fingerprint {
    /// The first half of a BLAKE3 digest.
    Digest([u8; 16]),
    /// The route declared `unchecked(why)`: it equals everything.
    Unchecked,
}

/// Why parameters have no fingerprint.
///
/// ```
/// # use receipted::protocol::fingerprint::{Error, Fingerprint};
/// // A number that cannot be told from its neighbours is no parameter to compare.
/// let value = serde_json::json!({ "cents": 1e300 });
/// assert!(matches!(Fingerprint::of_fields(&value, &["/cents"]), Err(Error::Inexact { .. })));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Correct the producer, or choose `whole_value()` for a value that is not JSON.
    #[error("value is not JSON: {reason}")]
    NotJson {
        /// The parser's words.
        reason: String,
    },
    /// Send it as a string: as a number it cannot be told from its neighbours.
    #[error("number at {pointer:?} is too large to be compared exactly")]
    Inexact {
        /// Where it stands.
        pointer: String,
    },
    /// The canonical form could not be written.
    #[error("no canonical form: {reason}")]
    NoCanonicalForm {
        /// The serializer's words.
        reason: String,
    },
}

impl Fingerprint {
    /// Digests the fields at `pointers`. A missing field differs from one that is null; the order of pointers does not matter.
    ///
    /// # Errors
    /// When a chosen field holds a number that cannot be compared exactly.
    pub fn of_fields(value: &Value, pointers: &[&str]) -> Result<Self, Error> {
        Self::of_found(pointers.iter().filter_map(|pointer| Some((*pointer, value.pointer(pointer)?))))
    }

    /// The same for fields that have been found already, each with its pointer.
    ///
    /// # Errors
    /// When one holds a number that cannot be compared exactly.
    pub fn of_found<'a>(found: impl Iterator<Item = (&'a str, &'a Value)> + Clone) -> Result<Self, Error> {
        if let Some(bytes) = canonical::fields(found.clone()) {
            return Ok(Self::digest(&JSON_CONTEXT, &bytes));
        }
        let mut fields = Map::new();
        for (pointer, field) in found {
            fields.insert(pointer.into(), exact(field, pointer)?);
        }
        Self::of_canonical(&json!({ "fields": fields }))
    }

    /// Digests the whole value: its canonical JSON form where it has one, else its bytes.
    #[must_use]
    pub fn of_value(value: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(value) {
            Ok(parsed) => Self::of_parsed(&parsed, value),
            Err(_) => Self::digest(&BYTES_CONTEXT, value),
        }
    }

    /// The same for a value that has been parsed already.
    #[must_use]
    pub fn of_parsed(parsed: &Value, value: &[u8]) -> Self {
        if let Some(bytes) = canonical::whole(parsed) {
            return Self::digest(&JSON_CONTEXT, &bytes);
        }
        exact(parsed, "")
            .ok()
            .and_then(|parsed| Self::of_canonical(&json!({ "value": parsed })).ok())
            .unwrap_or_else(|| Self::digest(&BYTES_CONTEXT, value))
    }

    /// Whether the parameters are known to differ.
    #[must_use]
    pub fn differs(self, other: Self) -> bool {
        matches!((self, other), (Self::Digest(a), Self::Digest(b)) if a != b)
    }

    fn of_canonical(value: &Value) -> Result<Self, Error> {
        let bytes = serde_json_canonicalizer::to_vec(value).map_err(|error| Error::NoCanonicalForm { reason: error.to_string() })?;
        Ok(Self::digest(&JSON_CONTEXT, &bytes))
    }

    fn digest(context: &Context, bytes: &[u8]) -> Self {
        Self::Digest(context.half(|hasher| {
            hasher.update(bytes);
        }))
    }
}

/// Keeps integers apart that the canonical form (RFC 8785, all numbers are doubles) would make equal.
fn exact(value: &Value, pointer: &str) -> Result<Value, Error> {
    Ok(match value {
        Value::Number(number) => match (number.as_i64().map(i64::unsigned_abs), number.as_u64(), number.as_f64()) {
            (Some(size), _, _) | (None, Some(size), _) if size <= EXACT_MAX => value.clone(),
            (Some(_), _, _) | (None, Some(_), _) => json!({ "\u{0}integer": number.to_string() }),
            (None, None, Some(float)) if float.abs() < 9_007_199_254_740_992.0 => value.clone(),
            _ => {
                return Err(Error::Inexact { pointer: pointer.into() });
            }
        },
        Value::Array(items) => {
            Value::Array(items.iter().enumerate().map(|(i, item)| exact(item, &format!("{pointer}/{i}"))).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, field)| Ok((apart(name), exact(field, &format!("{pointer}/{name}"))?)))
                .collect::<Result<_, Error>>()?,
        ),
        other => other.clone(),
    })
}

/// Keeps a record's own names apart from the one that stands for a large integer.
fn apart(name: &str) -> String {
    if name.starts_with('\0') { format!("\0{name}") } else { name.into() }
}
