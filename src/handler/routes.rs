//! Owns the app in the form that a runner uses: which topics, which operations, and which operation a record carries. It reads the
//! record and nothing else; no panic of a team's code leaves it.

use super::{
    check::id_place,
    correlation::correlation,
    declaration::Declaration,
    parameters::Parameters,
    part::Part,
    plan::RoutePlan,
    record::{Invalid, Record},
};
use crate::protocol::{
    fingerprint::Fingerprint,
    key::{self, Alphabet, KeyDigest, OperationKey},
    note::cut,
    policy::Lanes,
};
use std::{fmt, sync::Arc};

/// Bytes of a record's type that a dead letter's reason shows, at most.
const SHOWN_BYTES_MAX: usize = 64;

/// An app, checked, with its state captured.
pub struct Routes {
    topics: Vec<Topic>,
    operations: Vec<RoutePlan>,
}

pub(super) struct Topic {
    pub(super) name: String,
    pub(super) lanes: Lanes,
    pub(super) node: Node,
}

pub(super) enum Node {
    Skip,
    DeadLetter,
    By { part: Part, on: Vec<(&'static str, Node)>, otherwise: Box<Node> },
    Run { route: usize, rule: IdentityRule },
}

/// How a record's identity is made.
pub(super) struct IdentityRule {
    name: &'static str,
    alphabet: Alphabet,
    tenant: Part,
    id: Vec<Part>,
    parameters: Parameters,
    formerly: Vec<&'static str>,
    correlation: Option<Part>,
}

/// What a record is found to be.
#[derive(Debug)]
pub enum Identified {
    /// A tombstone, or of a type that the route leaves alone.
    Skip,
    /// The route sends it to the dead letters, and why.
    DeadLetter(String),
    /// It has no valid key: dead letter at once, nothing settled.
    Invalid(Invalid),
    /// It carries an operation.
    Operation(Identity),
}

/// Which operation a record carries.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Its index in [`Routes::operations`].
    pub route: usize,
    /// Its key.
    pub key: Arc<OperationKey>,
    /// The key's digest.
    pub digest: KeyDigest,
    /// The same act under the operation's older names: what is known there counts too.
    pub formerly: Vec<(KeyDigest, OperationKey)>,
    /// The digest of its parameters.
    pub fingerprint: Fingerprint,
    /// The correlation id, where the record has one.
    pub correlation: Option<String>,
}

impl Routes {
    pub(super) fn new(topics: Vec<Topic>, operations: Vec<RoutePlan>) -> Self {
        Self { topics, operations }
    }

    /// The topics to subscribe to, and in which order each is handled.
    pub fn topics(&self) -> impl Iterator<Item = (&str, Lanes)> {
        self.topics.iter().map(|topic| (topic.name.as_str(), topic.lanes))
    }

    /// One plan per operation name.
    #[must_use]
    pub fn operations(&self) -> &[RoutePlan] {
        &self.operations
    }

    /// Finds the operation that a record of `topic` carries. Decides nothing about it, and never panics.
    #[must_use]
    pub fn identify(&self, topic: &str, record: &Record) -> Identified {
        let Some(topic) = self.topics.iter().find(|known| known.name == topic) else {
            return Identified::Invalid(Invalid::of("topic", "the app has no route for it"));
        };
        if record.value().is_none() {
            return Identified::Skip;
        }
        identify(&topic.node, record).unwrap_or_else(Identified::Invalid)
    }
}

fn identify(mut node: &Node, record: &Record) -> Result<Identified, Invalid> {
    let mut last = None;
    loop {
        match node {
            Node::Skip => return Ok(Identified::Skip),
            Node::DeadLetter => return Ok(Identified::DeadLetter(no_operation(last))),
            Node::Run { route, rule } => return rule.identity(*route, record).map(Identified::Operation),
            Node::By { part, on, otherwise } => {
                let value = part.read_as("by", record)?;
                node = on.iter().find(|(known, _)| *known == value).map_or(otherwise, |(_, node)| node);
                last = Some((part, value));
            }
        }
    }
}

fn no_operation(by: Option<(&Part, std::borrow::Cow<'_, str>)>) -> String {
    match by {
        Some((part, value)) => format!("no operation for {part} with {:?}", cut(&value, SHOWN_BYTES_MAX)),
        None => "the topic's route sends every record to the dead letters".into(),
    }
}

impl IdentityRule {
    pub(super) fn of<S>(declared: &Declaration<S>) -> Self {
        Self {
            name: declared.name,
            alphabet: declared.options.alphabet,
            tenant: declared.tenant.clone(),
            id: declared.id.clone(),
            parameters: declared.parameters.clone(),
            formerly: declared.options.formerly.clone(),
            correlation: declared.options.correlation.clone(),
        }
    }

    fn identity(&self, route: usize, record: &Record) -> Result<Identity, Invalid> {
        let key = self.key(record)?;
        let fingerprint = self.parameters.fingerprint(record)?;
        let older = |name: &&'static str| key.renamed(name).map(|key| (key.digest(), key));
        let formerly = self.formerly.iter().map(older).collect::<Result<_, _>>().map_err(|error| Invalid::of("formerly", error))?;
        let correlation = correlation(self.correlation.as_ref(), record);
        Ok(Identity { route, digest: key.digest(), key: Arc::new(key), formerly, fingerprint, correlation })
    }

    fn key(&self, record: &Record) -> Result<OperationKey, Invalid> {
        let tenant = self.tenant.read_as("tenant", record)?.into_owned();
        let mut id = Vec::with_capacity(self.id.len());
        for (index, part) in self.id.iter().enumerate() {
            let read = part.read(record);
            id.push(read.map_err(|reason| Invalid::of(format_args!("{} ({part})", id_place(index, self.id.len())), reason))?.into_owned());
        }
        OperationKey::of_parts(tenant, self.name.into(), id, self.alphabet).map_err(|error| self.invalid(&error))
    }

    /// Names the source of the part that is no key part.
    fn invalid(&self, error: &key::Error) -> Invalid {
        let sources = self.id.iter().enumerate().map(|(index, part)| (id_place(index, self.id.len()), part));
        let text = error.to_string();
        for (place, part) in std::iter::once(("tenant".to_string(), &self.tenant)).chain(sources) {
            if let Some(reason) = text.strip_prefix(&format!("{place} ")) {
                return Invalid::of(format_args!("{place} ({part})"), reason);
            }
        }
        Invalid::of("key", text)
    }
}

/// The documented contract of every route.
impl fmt::Display for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, plan) in self.operations.iter().enumerate() {
            write!(f, "{}{plan}", if index == 0 { "" } else { "\n\n" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").field("operations", &self.operations).finish_non_exhaustive()
    }
}
