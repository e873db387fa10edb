//! Owns which declarations are refused before anything runs, and the words that say how to mend them.

use super::{
    contract::{Contract, InDoubt},
    declaration::{Declaration, PassesKey},
    parameters::Compared,
    part::{Part, Source},
};
use crate::protocol::{
    key::{self, Alphabet, ID_PARTS_MAX, OperationKey},
    note::ANSWER_BYTES_MAX,
    policy::Policy,
};
use std::{fmt, time::Duration};

/// Where a declaration stands.
///
/// Where an [`Error`] stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The topic.
    pub topic: String,
    /// The operation; empty where the topic itself is meant.
    pub operation: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic {:?}", self.topic)?;
        if self.operation.is_empty() { Ok(()) } else { write!(f, ", operation {:?}", self.operation) }
    }
}

/// Why an app is refused. Each says where, and how to mend it.
///
/// ```
/// # use receipted::prelude::*;
/// # async fn ship() -> Result<Applied, Failure> { Ok(Applied::without_reference(())) }
/// // A test that builds the app finds it before a deployment does. This handler cannot hand on a key to deduplicate by:
/// let contract = destination_deduplicates(std::time::Duration::from_hours(24)).then(hold());
/// let route = operation("ship.v1").tenant(fixed("a")).id(json("/id")).fingerprint(whole_value()).in_doubt(contract).handle(ship);
/// let refused = App::new().topic("orders", route).with_state(()).build().unwrap_err();
/// assert!(matches!(refused, receipted::handler::BuildError::CannotPassKey { .. }));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Declare a topic with an operation.
    #[error("the app handles no operation: give it one with .topic(\"name\", operation(\"name.v1\")…)")]
    Empty,
    /// Join the two routes with `by(..).on(..)`.
    #[error("topic {topic:?} is declared twice: join its routes with by(..).on(..)")]
    TopicTwice {
        /// The topic.
        topic: String,
    },
    /// Use a name that Kafka takes.
    #[error("topic {topic:?} is no topic name: 1 to 249 characters of [A-Za-z0-9._-], not \".\" or \"..\"")]
    TopicName {
        /// The topic as given.
        topic: String,
    },
    /// Say it of the topic's whole route.
    #[error("topic {topic:?}: lanes are declared inside by(..): say .lanes(..) after .otherwise(..), for the whole topic")]
    InnerLanes {
        /// The topic.
        topic: String,
    },
    /// Keep one of the two routes.
    #[error("topic {topic:?}: .on({value:?}, ..) is declared twice: keep one")]
    ValueTwice {
        /// The topic.
        topic: String,
        /// The value.
        value: String,
    },
    /// Correct the name.
    #[error("{place}: {error}")]
    Name {
        /// Where.
        place: Place,
        /// What is wrong with it.
        error: key::Error,
    },
    /// Correct where the part comes from.
    #[error("{place}: {part} comes from {source_text}, which {reason}")]
    Source {
        /// Where.
        place: Place,
        /// The part: `tenant`, `id[1]`, `by`, `correlation`.
        part: String,
        /// Its source.
        source_text: String,
        /// What is wrong with it, and how to mend it.
        reason: String,
    },
    /// Give an id of one to sixteen parts.
    #[error("{place}: the id has {parts} parts: give it 1 to {ID_PARTS_MAX}")]
    IdParts {
        /// Where.
        place: Place,
        /// How many it has.
        parts: usize,
    },
    /// Correct the fingerprint.
    #[error("{place}: fingerprint: {reason}")]
    Parameters {
        /// Where.
        place: Place,
        /// What is wrong with it, and how to mend it.
        reason: String,
    },
    /// Correct the older name.
    #[error("{place}: formerly({name:?}): {reason}")]
    Formerly {
        /// Where.
        place: Place,
        /// The older name.
        name: String,
        /// What is wrong with it, and how to mend it.
        reason: String,
    },
    /// Raise or lower the limit.
    #[error("{place}: {limit}: {reason}")]
    Limit {
        /// Where.
        place: Place,
        /// The limit's name.
        limit: &'static str,
        /// What is wrong with it, and how to mend it.
        reason: String,
    },
    /// Take `Operation` in the handler and pass its key, or declare another contract.
    #[error(
        "{place}: destination_deduplicates needs op.provider_key(), and the handler takes no Operation: add it to the handler's arguments and pass the key on, or declare ask(..) or hold()"
    )]
    CannotPassKey {
        /// Where.
        place: Place,
    },
    /// Say the memory once.
    #[error("{place}: destination_deduplicates stands inside another: say ask(..) or hold() in .then(..)")]
    MemoryTwice {
        /// Where.
        place: Place,
    },
    /// Raise the margin.
    #[error(
        "{place}: margin {margin:?} is shorter than {least:?}, the detached_max and quiet period of a last rerun: say .margin(..) of at least that, or lower detached_max"
    )]
    Margin {
        /// Where.
        place: Place,
        /// The margin.
        margin: Duration,
        /// The shortest that is safe.
        least: Duration,
    },
    /// Declare the destination's true memory, or shorter limits.
    #[error(
        "{place}: memory {memory:?} is no longer than its margin {margin:?}, so nothing could ever be rerun: lower detached_max and the quiet period, or declare ask(..) or hold()"
    )]
    Memory {
        /// Where.
        place: Place,
        /// The memory.
        memory: Duration,
        /// The margin.
        margin: Duration,
    },
    /// Clone one `Route` for both, or make them equal.
    #[error(
        "{place}: the name is used by another route, with another {what}: give this one a name of its own, or use one route.clone() for both (closures that capture something cannot be compared)"
    )]
    Unequal {
        /// Where the second one stands.
        place: Place,
        /// What differs.
        what: &'static str,
    },
}

/// Whether Kafka takes this name for a topic.
pub(crate) fn is_topic_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=249).contains(&name.len()) && name.bytes().all(allowed) && name != "." && name != ".."
}

/// Checks the topic's name as Kafka does.
pub(super) fn topic(topic: &str) -> Result<(), Error> {
    if is_topic_name(topic) { Ok(()) } else { Err(Error::TopicName { topic: topic.into() }) }
}

/// Checks one declaration and completes its policy.
pub(super) fn declaration<S>(place: &Place, declared: &Declaration<S>) -> Result<Policy, Error> {
    key::check_name(declared.name).map_err(|error| Error::Name { place: place.clone(), error })?;
    sources(place, declared)?;
    parameters(place, &declared.parameters.0)?;
    formerly(place, declared)?;
    let policy = policy(declared);
    limits(place, &policy, declared.options.answer_bytes_max)?;
    contract(place, declared, &policy)?;
    Ok(policy)
}

fn sources<S>(place: &Place, declared: &Declaration<S>) -> Result<(), Error> {
    let alphabet = Some(declared.options.alphabet);
    source(place, "tenant", &declared.tenant, alphabet)?;
    let parts = declared.id.len();
    if parts == 0 || parts > ID_PARTS_MAX {
        return Err(Error::IdParts { place: place.clone(), parts });
    }
    for (index, part) in declared.id.iter().enumerate() {
        source(place, &id_place(index, parts), part, alphabet)?;
    }
    declared.options.correlation.as_ref().map_or(Ok(()), |part| source(place, "correlation", part, None))
}

/// The name of an id's part, as `protocol::key` says it.
pub(super) fn id_place(index: usize, parts: usize) -> String {
    if parts == 1 { "id".into() } else { format!("id[{index}]") }
}

/// Checks one source; with an alphabet, a fixed value has to fit it.
pub(super) fn source(place: &Place, name: &str, part: &Part, alphabet: Option<Alphabet>) -> Result<(), Error> {
    let reason = match (part.source(), alphabet) {
        (Source::Header(header), _) if header.is_empty() => Some("is empty: name a header".into()),
        (Source::Json(pointer), _) => pointer_fault(pointer),
        (Source::Fixed(value), Some(alphabet)) => OperationKey::new(value, "fixed.v1", &["x".into()], alphabet)
            .err()
            .map(|error| format!("is no key part: {}", error.to_string().trim_start_matches("tenant "))),
        _ => None,
    };
    match reason {
        Some(reason) => Err(Error::Source { place: place.clone(), part: name.into(), source_text: part.to_string(), reason }),
        None => Ok(()),
    }
}

fn pointer_fault(pointer: &str) -> Option<String> {
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Some(format!("is no JSON pointer: say {:?}", format!("/{}", pointer.replace('.', "/"))));
    }
    let escaped = pointer.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
    (!escaped).then(|| "is no JSON pointer: write ~0 for a tilde and ~1 for a slash in a name".into())
}

fn parameters(place: &Place, compared: &Compared) -> Result<(), Error> {
    let reason = match compared {
        Compared::Fields(pointers) if pointers.is_empty() => {
            Some("json_fields names no field: name those that must not change, or say whole_value() or unchecked(\"why\")".into())
        }
        Compared::Fields(pointers) => {
            pointers.iter().find_map(|pointer| pointer_fault(pointer).map(|fault| format!("json {pointer:?} {fault}")))
        }
        Compared::Unchecked(why) if why.trim().is_empty() => Some("unchecked(\"\") gives no reason: say why".into()),
        Compared::Value | Compared::Unchecked(_) => None,
    };
    reason.map_or(Ok(()), |reason| Err(Error::Parameters { place: place.clone(), reason }))
}

fn formerly<S>(place: &Place, declared: &Declaration<S>) -> Result<(), Error> {
    for (index, name) in declared.options.formerly.iter().enumerate() {
        let reason = match key::check_name(name) {
            Err(error) => Some(error.to_string()),
            Ok(()) if *name == declared.name => Some("is the operation's own name: leave it out".into()),
            Ok(()) if declared.options.formerly[..index].contains(name) => Some("is said twice: keep one".into()),
            Ok(()) => None,
        };
        if let Some(reason) = reason {
            return Err(Error::Formerly { place: place.clone(), name: (*name).into(), reason });
        }
    }
    Ok(())
}

/// The declared policy with what follows from it: contract, `detached_max` and margin.
fn policy<S>(declared: &Declaration<S>) -> Policy {
    let options = &declared.options;
    let (contract, time_limit) = (options.contract.data(), options.policy.time_limit);
    let detached_max = options.detached_max.unwrap_or(time_limit.saturating_mul(10));
    let margin = match &options.contract.0 {
        InDoubt::Rerun { margin: Some(margin), .. } => *margin,
        _ => detached_max.saturating_add(contract.quiet()),
    };
    Policy { contract, detached_max, margin, ..options.policy.clone() }
}

fn limits(place: &Place, policy: &Policy, answer_bytes_max: usize) -> Result<(), Error> {
    let faults = [
        (policy.time_limit.is_zero(), "time_limit", "is zero: give the handler time"),
        (policy.detached_max < policy.time_limit, "detached_max", "is shorter than time_limit: leave it out, or say at least time_limit"),
        (policy.attempts_max == 0, "attempts_max", "is 0: say 1 for a single attempt"),
        (policy.unresolved_max == 0, "unresolved_max", "is 0, so the route would pause at once: say at least 1"),
        (policy.back_off.first.is_zero(), "back_off", "starts at zero, so attempts would follow each other at once: say some milliseconds"),
        (policy.back_off.first > policy.back_off.max, "back_off", "starts above its maximum: exchange them"),
        (policy.back_off.give_up.is_zero(), "give_up", "is zero: say attempts_max(1) for a single attempt"),
        (
            answer_bytes_max > ANSWER_BYTES_MAX,
            "answer_bytes_max",
            "is above 4096: keep larger answers at the destination, under the reference",
        ),
    ];
    match faults.into_iter().find(|(fault, _, _)| *fault) {
        Some((_, limit, reason)) => Err(Error::Limit { place: place.clone(), limit, reason: reason.into() }),
        None => Ok(()),
    }
}

fn contract<S>(place: &Place, declared: &Declaration<S>, policy: &Policy) -> Result<(), Error> {
    let Contract(InDoubt::Rerun { memory, then, .. }) = &declared.options.contract else {
        return Ok(());
    };
    let place = place.clone();
    if matches!(then.0, InDoubt::Rerun { .. }) {
        return Err(Error::MemoryTwice { place });
    }
    if declared.passes_key == PassesKey::Cannot {
        return Err(Error::CannotPassKey { place });
    }
    let least = policy.detached_max.saturating_add(policy.contract.quiet());
    if policy.margin < least {
        return Err(Error::Margin { place, margin: policy.margin, least });
    }
    if policy.margin >= *memory {
        return Err(Error::Memory { place, memory: *memory, margin: policy.margin });
    }
    Ok(())
}
