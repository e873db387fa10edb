//! Owns a short way to the canonical JSON form (RFC 8785) of plain values: no copy, no second parse. It owns no form of its own: where
//! it is not certain to write the same bytes as the library (floats, large integers, names that are not ASCII), it writes nothing.

use super::fingerprint::EXACT_MAX;
use serde_json::{Number, Value};
use std::io::Write;

/// The canonical bytes of `{"fields": …}` with these fields, each with its pointer; none where the library has to write them.
pub(super) fn fields<'a>(found: impl Iterator<Item = (&'a str, &'a Value)>) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(128);
    bytes.extend(b"{\"fields\":");
    object(found, &mut bytes)?;
    bytes.push(b'}');
    Some(bytes)
}

/// The canonical bytes of `{"value": …}`; none where the library has to write them.
pub(super) fn whole(value: &Value) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(256);
    bytes.extend(b"{\"value\":");
    any(value, &mut bytes)?;
    bytes.push(b'}');
    Some(bytes)
}

fn any(value: &Value, bytes: &mut Vec<u8>) -> Option<()> {
    match value {
        Value::Null => bytes.extend(b"null"),
        Value::Bool(true) => bytes.extend(b"true"),
        Value::Bool(false) => bytes.extend(b"false"),
        Value::Number(number) => integer(number, bytes)?,
        Value::String(text) => string(text, bytes)?,
        Value::Array(items) => array(items, bytes)?,
        Value::Object(fields) => object(fields.iter().map(|(name, field)| (name.as_str(), field)), bytes)?,
    }
    Some(())
}

fn array(items: &[Value], bytes: &mut Vec<u8>) -> Option<()> {
    bytes.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        any(item, bytes)?;
    }
    bytes.push(b']');
    Some(())
}

/// Names have to come in order already. ASCII names have the same order as bytes and as UTF-16, which the form asks for. One that
/// begins like our own form of large integers is not written as it is.
fn object<'a>(fields: impl Iterator<Item = (&'a str, &'a Value)>, bytes: &mut Vec<u8>) -> Option<()> {
    bytes.push(b'{');
    let mut last: Option<&str> = None;
    for (name, field) in fields {
        if !name.is_ascii() || name.starts_with('\0') || last.is_some_and(|last| last >= name) {
            return None;
        }
        if last.is_some() {
            bytes.push(b',');
        }
        string(name, bytes)?;
        bytes.push(b':');
        any(field, bytes)?;
        last = Some(name);
    }
    bytes.push(b'}');
    Some(())
}

fn string(text: &str, bytes: &mut Vec<u8>) -> Option<()> {
    serde_json::to_writer(bytes, text).ok()
}

fn integer(number: &Number, bytes: &mut Vec<u8>) -> Option<()> {
    let exact = number.as_i64().map(i64::unsigned_abs).or(number.as_u64()).is_some_and(|size| size <= EXACT_MAX);
    if exact { write!(bytes, "{number}").ok() } else { None }
}
