//! Owns the questions about the cluster and the group that are asked before the first record: do the topics exist, and is this
//! process alone in its group.

use super::{
    Error,
    complaints::Voice,
    context::Context,
    observe,
    settings::{BROKER_WAIT, Settings},
};
use rdkafka::{
    client::Client,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    metadata::Metadata,
};
use std::time::{Duration, Instant};

/// How long one question for the cluster's id may take.
const ASK: Duration = Duration::from_millis(500);
/// How long one question for metadata may take.
const LOOK: Duration = Duration::from_secs(5);
/// How long the client's own words are waited for after that.
const SERVE: Duration = Duration::from_millis(5);

/// Describing a group is optional: a broker that cannot is not waited for long.
const DESCRIBE: Duration = Duration::from_secs(3);
/// The same when leaving, which has a bound of its own.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The cluster's id, as soon as a broker answers. What the client complains of until then is told as it comes.
pub(super) fn cluster(consumer: &BaseConsumer<Context>) -> Option<String> {
    answered(consumer, || consumer.client().fetch_cluster_id(ASK))
}

/// Asks until a broker answers, within the bound of such a wait, and has the client's complaints told meanwhile.
#[allow(clippy::disallowed_methods, reason = "the wait's own bound")]
fn answered<C: ConsumerContext, T>(consumer: &BaseConsumer<C>, ask: impl Fn() -> Option<T>) -> Option<T> {
    let end = Instant::now() + BROKER_WAIT;
    loop {
        let answer = ask();
        // Nothing is subscribed yet: errors come this way and nothing else, and their hook tells them.
        while consumer.poll(SERVE).is_some() && Instant::now() < end {}
        if answer.is_some() || Instant::now() >= end {
            return answer;
        }
    }
}

/// The cluster's metadata, of one topic or of all, for a look from outside: joins no group.
///
/// # Errors
/// When no broker answers, with what the client says of it.
pub(super) fn look(settings: &Settings, topic: Option<&str>) -> Result<(BaseConsumer<Voice>, Metadata), Error> {
    let voice = Voice::new("look", &settings.brokers);
    let consumer: BaseConsumer<Voice> =
        settings.observer().create_with_context(voice).map_err(|source| Error::broker("connect", &source))?;
    match answered(&consumer, || consumer.fetch_metadata(topic, LOOK).ok()) {
        Some(metadata) => Ok((consumer, metadata)),
        None => Err(Error::Unreachable { brokers: settings.brokers.clone(), reason: consumer.context().reason() }),
    }
}

/// How many partitions the topics have together.
pub(super) fn partitions(client: &Client<Context>, topics: &[String]) -> Result<usize, Error> {
    let mut partitions = 0;
    for topic in topics {
        let metadata = client.fetch_metadata(Some(topic), BROKER_WAIT).map_err(|source| Error::broker("ask for a topic", &source))?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        match found {
            Some(found) if found.error().is_none() && !found.partitions().is_empty() => partitions += found.partitions().len(),
            _ => return Err(Error::NoTopic { topic: topic.clone() }),
        }
    }
    Ok(partitions)
}

/// Whether the group has this very member; not when the broker does not say.
pub(super) fn has(client: &Client<Context>, group: &str, instance: &str) -> bool {
    let described = client.fetch_group_list(Some(group), ASK_AGAIN);
    described
        .is_ok_and(|described| described.groups().iter().flat_map(|found| found.members()).any(|member| member.client_id() == instance))
}

/// Refuses a group that has a live member other than an earlier start of this one.
pub(super) fn alone(client: &Client<Context>, group: &str, instance: &str) -> Result<(), Error> {
    let described = match client.fetch_group_list(Some(group), DESCRIBE) {
        Ok(described) => described,
        Err(error) => {
            observe::group_not_described(group, &error);
            return Ok(());
        }
    };
    let members = described.groups().iter().filter(|found| found.name() == group).flat_map(|found| found.members());
    let other =
        members.filter(|member| !member.id().starts_with(instance) && member.client_id() != instance).map(|m| m.id().to_string()).next();
    match other {
        Some(member) => Err(Error::OtherMember { group: group.into(), member }),
        None => Ok(()),
    }
}
