//! Owns which parameters of a record must not change under one key. The digest of them is `protocol::fingerprint`.

use super::record::{Invalid, Record};
use crate::protocol::fingerprint::{self, Fingerprint};
use std::fmt;

/// Which parameters must not change under one key.
///
/// ```
/// # use receipted::prelude::*;
/// /// What a second request under one id must not change: not the note, which a clerk may correct.
/// fn amount() -> receipted::handler::Parameters {
///     json_fields(["/account", "/cents"])
/// }
/// let charge = operation::<()>("charge.v1").tenant(fixed("a")).id(json("/id")).fingerprint(amount());
/// let refund = operation::<()>("refund.v1").tenant(fixed("a")).id(json("/id")).fingerprint(amount());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters(pub(super) Compared);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Compared {
    /// Sorted, each once: their order does not matter.
    Fields(Vec<&'static str>),
    Value,
    Unchecked(&'static str),
}

/// The fields at these JSON pointers. A missing field differs from one that is null.
#[must_use]
pub fn json_fields<const N: usize>(pointers: [&'static str; N]) -> Parameters {
    let mut pointers = Vec::from(pointers);
    pointers.sort_unstable();
    pointers.dedup();
    Parameters(Compared::Fields(pointers))
}

/// The whole value: its canonical JSON form where it has one, else its bytes.
#[must_use]
pub fn whole_value() -> Parameters {
    Parameters(Compared::Value)
}

/// No comparison, and the reason why other parameters under the same key do no harm.
#[must_use]
pub fn unchecked(why: &'static str) -> Parameters {
    Parameters(Compared::Unchecked(why))
}

impl Parameters {
    pub(super) fn fingerprint(&self, record: &Record) -> Result<Fingerprint, Invalid> {
        match &self.0 {
            Compared::Fields(pointers) => {
                let found = |pointer: &&'static str| Ok(record.at(pointer)?.map(|field| (*pointer, field)));
                let found: Vec<_> =
                    pointers.iter().map(found).collect::<Result<_, _>>().map_err(|reason: &str| Invalid::of(self.place(), reason))?;
                Fingerprint::of_found(found.into_iter().flatten()).map_err(|error| self.invalid(&error))
            }
            Compared::Value => Ok(match (record.parsed(), record.value().unwrap_or_default()) {
                (Ok(parsed), value) => Fingerprint::of_parsed(parsed, value),
                (Err(_), value) => Fingerprint::of_value(value),
            }),
            Compared::Unchecked(_) => Ok(Fingerprint::Unchecked),
        }
    }

    /// Adds the fields that are compared; none where it is the whole value.
    pub(super) fn pointers(&self, all: &mut Vec<String>) -> Option<()> {
        match &self.0 {
            Compared::Fields(pointers) => all.extend(pointers.iter().map(ToString::to_string)),
            Compared::Value => return None,
            Compared::Unchecked(_) => {}
        }
        Some(())
    }

    fn invalid(&self, error: &fingerprint::Error) -> Invalid {
        match error {
            fingerprint::Error::Inexact { pointer } => Invalid::of(format_args!("fingerprint (json {pointer:?})"), error),
            _ => Invalid::of(self.place(), error),
        }
    }

    fn place(&self) -> String {
        format!("fingerprint ({self})")
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Compared::Fields(pointers) => write!(f, "json fields {}", pointers.join(", ")),
            Compared::Value => f.write_str("whole value"),
            Compared::Unchecked(why) => write!(f, "unchecked: {why}"),
        }
    }
}
