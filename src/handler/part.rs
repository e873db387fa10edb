//! Owns where the parts of a key come from, how one is read from a record, and whether two sources are the same. It does not own what
//! a part may look like; that is `protocol::key`.

use super::{
    function::Code,
    guard::guarded,
    outcome::{BoxError, error_text},
    record::{Invalid, Record},
};
use std::{borrow::Cow, fmt, sync::Arc};

/// Where one part of a key comes from.
///
/// ```
/// # use receipted::{handler::Part, prelude::*};
/// /// Where this team's tenant stands: in one place, for all of its routes.
/// fn tenant() -> Part {
///     header("tenant")
/// }
/// let charge = operation::<()>("charge.v1").tenant(tenant()).id(json("/charge_id"));
/// let refund = operation::<()>("refund.v1").tenant(tenant()).id([json("/charge_id"), json("/refund_no")]);
/// assert_eq!(tenant().to_string(), r#"header "tenant""#); // as errors and the `routes` command name it
/// ```
#[derive(Clone)]
pub struct Part(Source);

/// A team's own function of a record.
type PartFunction = dyn Fn(&Record) -> Result<String, BoxError> + Send + Sync;

#[derive(Clone)]
pub(super) enum Source {
    Fixed(Cow<'static, str>),
    Header(Cow<'static, str>),
    Json(Cow<'static, str>),
    RecordKey,
    Function(Code, Arc<PartFunction>),
}

/// A part that is the same for every record: the tenant, where there is only one.
pub fn fixed(value: impl Into<Cow<'static, str>>) -> Part {
    Part(Source::Fixed(value.into()))
}

/// The text of the last header with this name.
pub fn header(name: impl Into<Cow<'static, str>>) -> Part {
    Part(Source::Header(name.into()))
}

/// The string or integer at a JSON pointer into the value. Floats are refused.
pub fn json(pointer: impl Into<Cow<'static, str>>) -> Part {
    Part(Source::Json(pointer.into()))
}

/// The record key, as text.
#[must_use]
pub fn record_key() -> Part {
    Part(Source::RecordKey)
}

/// What can be one part of a key.
///
/// See [`Part`] for the usual ones. A function of your own is one too:
///
/// ```
/// # use receipted::prelude::*;
/// let region = |record: &Record| Ok(record.header("host")?.split('.').next().unwrap_or_default().to_string());
/// let charge = operation::<()>("charge.v1").tenant(region);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say where a part of the key comes from",
    label = "no source of a key part",
    note = "`fixed(\"acme\")`, `header(\"name\")`, `json(\"/pointer\")`, `record_key()`; or `|record: &Record| Ok(..)`; an id of several parts is an array, `[json(\"/order\"), json(\"/line\")]`"
)]
pub trait IntoPart {
    /// The part.
    fn into_part(self) -> Part;
}

impl IntoPart for Part {
    fn into_part(self) -> Part {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<F: Fn(&Record) -> Result<String, BoxError> + Send + Sync + 'static> IntoPart for F {
    fn into_part(self) -> Part {
        Part(Source::Function(Code::of::<F>(), Arc::new(self)))
    }
}

/// What can be an operation's id: one part, or an array of parts that are never joined.
///
/// [`Part`] shows an id of one part, and one of two.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say where the id comes from",
    label = "no source of an id",
    note = "one part: `json(\"/charge_id\")`; several: `[json(\"/order\"), json(\"/line\")]`, never a joined string"
)]
pub trait IntoId {
    /// The parts in order.
    fn into_id(self) -> Vec<Part>;
}

#[diagnostic::do_not_recommend]
impl<P: IntoPart> IntoId for P {
    fn into_id(self) -> Vec<Part> {
        vec![self.into_part()]
    }
}

impl<P: IntoPart, const N: usize> IntoId for [P; N] {
    fn into_id(self) -> Vec<Part> {
        self.into_iter().map(IntoPart::into_part).collect()
    }
}

impl Part {
    pub(super) fn source(&self) -> &Source {
        &self.0
    }

    /// Adds the field that it is read from, where it is one; none where a function may look at anything.
    pub(super) fn pointers(&self, all: &mut Vec<String>) -> Option<()> {
        match &self.0 {
            Source::Json(pointer) => all.push(pointer.to_string()),
            Source::Function(..) => return None,
            Source::Fixed(_) | Source::Header(_) | Source::RecordKey => {}
        }
        Some(())
    }

    /// The part's text; the error is the reason alone. A panic of a team's function is a reason.
    pub(super) fn read<'r>(&'r self, record: &'r Record) -> Result<Cow<'r, str>, Cow<'r, str>> {
        match &self.0 {
            Source::Fixed(value) => Ok(Cow::Borrowed(value)),
            Source::Header(name) => record.text_of_header(name).map(Cow::Borrowed).map_err(Cow::Borrowed),
            Source::Json(pointer) => record.text_at(pointer).map_err(Cow::Borrowed),
            Source::RecordKey => record.text_of_key().map(Cow::Borrowed).map_err(Cow::Borrowed),
            Source::Function(_, function) => match guarded(|| function(record)) {
                Ok(read) => read.map(Cow::Owned).map_err(|error| Cow::Owned(error_text(error))),
                Err(panic) => Err(Cow::Owned(format!("the function panicked: {panic}"))),
            },
        }
    }

    /// The same, with an error that names `place` and the source.
    pub(super) fn read_as<'r>(&'r self, place: &str, record: &'r Record) -> Result<Cow<'r, str>, Invalid> {
        self.read(record).map_err(|reason| Invalid::of(format_args!("{place} ({self})"), reason))
    }

    /// Whether both read the same from every record, as far as can be told.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Source::Fixed(a), Source::Fixed(b)) | (Source::Header(a), Source::Header(b)) | (Source::Json(a), Source::Json(b)) => a == b,
            (Source::RecordKey, Source::RecordKey) => true,
            (Source::Function(a, f), Source::Function(b, g)) => a.is(*b) || Arc::ptr_eq(f, g),
            _ => false,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Fixed(value) => write!(f, "fixed {value:?}"),
            Source::Header(name) => write!(f, "header {name:?}"),
            Source::Json(pointer) => write!(f, "json {pointer:?}"),
            Source::RecordKey => f.write_str("record key"),
            Source::Function(..) => f.write_str("function"),
        }
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether two lists of parts are the same, in order.
pub(super) fn same_parts(a: &[Part], b: &[Part]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is(b))
}
