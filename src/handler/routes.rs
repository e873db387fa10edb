//! Owns the app in the form that a runner uses: which topics, which operations, and which operation a record carries. It reads the
//! record and nothing else; no panic of a team's code leaves it.

use super::{
    check::id_place,
    correlation::correlation,
    declaration::Declaration,
    parameters::Parameters,
    part::Part,
    plan::RoutePlan,
    pointers::Pointers,
    record::{Invalid, Record},
};
use crate::protocol::{
    fingerprint::Fingerprint,
    key::{self, Alphabet, KeyDigest, KeyParts, OperationKey},
    note::cut,
    park::Payload,
    policy::Lanes,
    secret::Derivation,
};
use std::{fmt, sync::Arc};

/// Bytes of a record's type that a dead letter's reason shows, at most.
const SHOWN_BYTES_MAX: usize = 64;

/// An app, checked, with its state captured.
///
/// A runner of your own finds a record's operation and runs its handler so:
///
/// ```
/// use receipted::{handler::{AttemptInfo, Delivery, Identified}, prelude::*, protocol::secret::Derivation, testing::{block_on, record}};
/// # async fn charge(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// # let charge = operation("charge.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).handle(charge);
/// # let routes = App::new().topic("payments", charge).with_state(()).build()?;
/// let record = record().value(r#"{"id":"c-1"}"#).build_for(&routes, "payments");
/// let Identified::Operation(identity) = routes.identify("payments", &record, &Derivation::Unkeyed) else { panic!("no operation") };
/// let (plan, digest) = (&routes.operations()[identity.route], identity.digest);
/// let operation = Operation::new(identity.into_key().into(), digest, AttemptInfo::default());
/// let attempt = plan.prepare(Delivery::new(record.clone(), operation))?;
/// // Here its admission becomes durable; nothing of the handler has run yet.
/// assert_eq!(block_on(attempt.into_future()).label(), "applied");
/// # Ok::<(), BoxError>(())
/// ```
pub struct Routes {
    topics: Vec<Topic>,
    operations: Vec<RoutePlan>,
}

pub(super) struct Topic {
    pub(super) name: String,
    pub(super) lanes: Lanes,
    node: Node,
    /// The fields that the record's name and parameters are made of, where they are nothing but fields.
    named_by: Option<Arc<Pointers>>,
}

impl Topic {
    pub(super) fn new(name: String, lanes: Lanes, node: Node) -> Self {
        let mut pointers = Vec::new();
        let named_by = node.pointers(&mut pointers).and_then(|()| Pointers::new(pointers)).map(Arc::new);
        Self { name, lanes, node, named_by }
    }
}

pub(super) enum Node {
    Skip,
    DeadLetter,
    By { part: Part, on: Vec<(&'static str, Node)>, otherwise: Box<Node> },
    Run { route: usize, rule: IdentityRule },
}

impl Node {
    /// Gathers the fields that identities are made of; none where one may be made of the whole value.
    fn pointers(&self, all: &mut Vec<String>) -> Option<()> {
        match self {
            Self::Skip | Self::DeadLetter => Some(()),
            Self::By { part, on, otherwise } => {
                part.pointers(all)?;
                on.iter().try_for_each(|(_, node)| node.pointers(all))?;
                otherwise.pointers(all)
            }
            Self::Run { rule, .. } => {
                std::iter::once(&rule.tenant).chain(&rule.id).chain(&rule.correlation).try_for_each(|part| part.pointers(all))?;
                rule.parameters.pointers(all)
            }
        }
    }
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
///
/// [`Routes`] shows what a runner does with it.
#[derive(Debug)]
pub enum Identified<'r> {
    /// A tombstone, or of a type that the route leaves alone.
    Skip,
    /// The route sends it to the dead letters, and why.
    DeadLetter(String),
    /// It has no valid key: dead letter at once, nothing settled.
    Invalid(Invalid),
    /// It carries an operation.
    Operation(Identity<'r>),
}

/// Which operation a record carries: what a repeat is recognised by at once, and the rest when it is asked for.
///
/// [`Routes`] shows what a runner does with it.
pub struct Identity<'r> {
    /// Its index in [`Routes::operations`].
    pub route: usize,
    /// The key's digest.
    pub digest: KeyDigest,
    /// The digest of its parameters.
    pub fingerprint: Fingerprint,
    parts: KeyParts<'r>,
    derivation: &'r Derivation,
    rule: &'r IdentityRule,
    record: &'r Record,
}

/// Prints digests only: a key's text may be personal data.
impl fmt::Debug for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("route", &self.route).field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Identity<'_> {
    /// The correlation id, where the record has one.
    #[must_use]
    pub fn correlation(&self) -> Option<String> {
        correlation(self.rule.correlation.as_ref(), self.record)
    }

    /// The key.
    #[must_use]
    pub fn into_key(self) -> OperationKey {
        self.parts.into_key()
    }

    /// The key, and the same act under the operation's older names, each with its digest: what is known there counts too.
    ///
    /// # Errors
    /// When an older name is none.
    pub fn into_keys(self) -> Result<Vec<(KeyDigest, OperationKey)>, Invalid> {
        let (digest, derivation, rule) = (self.digest, self.derivation, self.rule);
        let key = self.into_key();
        let older = |name: &&'static str| key.renamed(name).map(|key| (derivation.digest(&key), key));
        let older: Vec<_> = rule.formerly.iter().map(older).collect::<Result<_, _>>().map_err(|error| Invalid::of("formerly", error))?;
        Ok(std::iter::once((digest, key)).chain(older).collect())
    }
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

    /// A record of `topic`, of which [`Routes::identify`] builds no more than it asks for.
    #[must_use]
    pub fn record(&self, topic: &str, payload: Arc<Payload>) -> Record {
        let topic = self.topics.iter().find(|known| known.name == topic);
        Record::named_by(payload, topic.and_then(|topic| topic.named_by.clone()))
    }

    /// Finds the operation that a record of `topic` carries, with its digest as the store makes it
    /// ([`ReceiptStore::derivation`](crate::store::ReceiptStore::derivation)). Decides nothing about it, and never panics.
    #[must_use]
    pub fn identify<'r>(&'r self, topic: &str, record: &'r Record, derivation: &'r Derivation) -> Identified<'r> {
        let Some(topic) = self.topics.iter().find(|known| known.name == topic) else {
            return Identified::Invalid(Invalid::of("topic", "the app has no route for it"));
        };
        if record.value().is_none() {
            return Identified::Skip;
        }
        identify(&topic.node, record, derivation).unwrap_or_else(Identified::Invalid)
    }
}

fn identify<'r>(mut node: &'r Node, record: &'r Record, derivation: &'r Derivation) -> Result<Identified<'r>, Invalid> {
    let mut last = None;
    loop {
        match node {
            Node::Skip => return Ok(Identified::Skip),
            Node::DeadLetter => return Ok(Identified::DeadLetter(no_operation(last))),
            Node::Run { route, rule } => return rule.identity(*route, record, derivation).map(Identified::Operation),
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

    fn identity<'r>(&'r self, route: usize, record: &'r Record, derivation: &'r Derivation) -> Result<Identity<'r>, Invalid> {
        let parts = self.parts(record)?;
        let fingerprint = self.parameters.fingerprint(record)?;
        Ok(Identity { route, digest: derivation.digest_parts(&parts), fingerprint, parts, derivation, rule: self, record })
    }

    fn parts<'r>(&'r self, record: &'r Record) -> Result<KeyParts<'r>, Invalid> {
        let tenant = self.tenant.read_as("tenant", record)?;
        let mut id = Vec::with_capacity(self.id.len());
        for (index, part) in self.id.iter().enumerate() {
            let read = part.read(record);
            id.push(read.map_err(|reason| Invalid::of(format_args!("{} ({part})", id_place(index, self.id.len())), reason))?);
        }
        KeyParts::new(tenant, self.name, id, self.alphabet).map_err(|error| self.invalid(&error))
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
