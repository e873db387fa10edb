//! Owns where the correlation id of a record comes from. It is for people: whatever is wrong with it, the record is handled.

use super::{part::Part, record::Record};
use crate::protocol::note::cut;

/// Bytes of a correlation id, at most; a longer one is cut.
pub const CORRELATION_BYTES_MAX: usize = 128;
/// The header that is read where the route names no other source.
pub const CORRELATION_HEADER: &str = "x-correlation-id";

/// The text of `source`, or of the header [`CORRELATION_HEADER`]; else the trace id of `traceparent`; else none.
pub(super) fn correlation(source: Option<&Part>, record: &Record) -> Option<String> {
    let own = match source {
        Some(part) => part.read(record).ok(),
        None => record.text_of_header(CORRELATION_HEADER).ok().map(Into::into),
    };
    match own.as_deref().map(str::trim) {
        Some(text) if !text.is_empty() && !text.chars().any(char::is_control) => Some(cut(text, CORRELATION_BYTES_MAX).into()),
        _ => record.text_of_header("traceparent").ok().and_then(trace_id).map(Into::into),
    }
}

/// The trace id of a W3C `traceparent`: `version-traceid-parentid-flags`, later versions may append fields.
fn trace_id(traceparent: &str) -> Option<&str> {
    let mut fields = traceparent.trim().split('-');
    let (version, trace, parent) = (fields.next()?, fields.next()?, fields.next()?);
    fields.next()?;
    let valid = is_hex(version, 2) && version != "ff" && is_hex(trace, 32) && is_hex(parent, 16) && trace.bytes().any(|b| b != b'0');
    valid.then_some(trace)
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
