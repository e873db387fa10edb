//! Owns a look at the cluster before a first start: whether what the configuration and the app say can work there. It joins no group and
//! changes nothing.

use super::{
    Error, group,
    settings::{BROKER_WAIT, Settings},
};
use rdkafka::{
    admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier},
    client::DefaultClientContext,
};
use std::{collections::BTreeMap, fmt, time::Duration};

/// What one question found.
///
/// ```
/// # use receipted::runner::{Error, Settings, Verdict, survey};
/// /// Before a deployment: can what the settings and the app say work on that cluster?
/// async fn fits(settings: &Settings) -> Result<bool, Error> {
///     let found = survey(settings, &["payments".into()]).await?;
///     found.iter().for_each(|found| println!("{}: {found}", found.verdict.label()));
///     Ok(!found.iter().any(|found| matches!(found.verdict, Verdict::Wrong(_))))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// What was looked at.
    pub about: String,
    /// What is there.
    pub text: String,
    /// Whether it fits.
    pub verdict: Verdict,
}

/// Whether something on the cluster fits, and what to do where it does not.
///
/// A part of [`Found`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Fits,
    /// It works, and may surprise.
    Mind(String),
    /// It cannot work.
    Wrong(String),
}

impl Verdict {
    /// One word.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::Mind(_) => "mind",
            Self::Wrong(_) => "wrong",
        }
    }

    /// What to do, where there is something.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Fits => None,
            Self::Mind(remedy) | Self::Wrong(remedy) => Some(remedy),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.about, self.text)?;
        self.verdict.remedy().map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

/// Asks the cluster about the app's topics, the dead-letter topic and the session's bounds. Each question has a bound of 15 s.
///
/// # Errors
/// When no broker answers, or one refuses to say.
pub async fn survey(settings: &Settings, topics: &[String]) -> Result<Vec<Found>, Error> {
    let own = settings.clone();
    let asked = tokio::task::spawn_blocking(move || metadata(&own)).await;
    let (brokers, partitions) = asked.map_err(|error| Error::Client { detail: error.to_string() })??;
    let admin: AdminClient<DefaultClientContext> = settings.observer().create().map_err(|source| Error::broker("connect", &source))?;
    let mut found = vec![Found {
        about: "cluster".into(),
        text: format!("{} brokers answer at {}", brokers.len(), settings.brokers),
        verdict: Verdict::Fits,
    }];
    if let Some(broker) = brokers.first() {
        session(settings, &describe(&admin, &ResourceSpecifier::Broker(*broker)).await?, &mut found);
    }
    let mut largest = 0;
    for topic in topics {
        let Some(count) = partitions.get(topic) else {
            found.push(missing(topic, "create it, or correct the app's route"));
            continue;
        };
        let config = describe(&admin, &ResourceSpecifier::Topic(topic)).await?;
        largest = largest.max(number(&config, "max.message.bytes").unwrap_or(0));
        found.extend(source(settings, topic, *count, &config));
    }
    let letters = &settings.dead_letter_topic;
    match partitions.contains_key(letters) {
        true => found.extend(dead_letters(letters, &describe(&admin, &ResourceSpecifier::Topic(letters)).await?, largest)),
        false => {
            found.push(missing(letters, "create it, or name another as dead_letter.topic: dead letters would be parked, with an alert"))
        }
    }
    Ok(found)
}

/// The brokers' ids, and how many partitions each topic has.
fn metadata(settings: &Settings) -> Result<(Vec<i32>, BTreeMap<String, usize>), Error> {
    let (_, metadata) = group::look(settings, None)?;
    let topics = metadata.topics().iter().filter(|topic| topic.error().is_none() && !topic.partitions().is_empty());
    let partitions = topics.map(|topic| (topic.name().to_string(), topic.partitions().len())).collect();
    Ok((metadata.brokers().iter().map(rdkafka::metadata::MetadataBroker::id).collect(), partitions))
}

async fn describe(admin: &AdminClient<DefaultClientContext>, what: &ResourceSpecifier<'_>) -> Result<ConfigResource, Error> {
    let options = AdminOptions::new().request_timeout(Some(BROKER_WAIT));
    let described = admin.describe_configs([what], &options).await.map_err(|source| Error::broker("read a configuration", &source))?;
    let refused = |detail: String| Error::Broker { action: "read a configuration", detail };
    let first = described.into_iter().next().ok_or_else(|| refused("no answer".into()))?;
    first.map_err(|code| refused(code.to_string()))
}

fn number(config: &ConfigResource, name: &str) -> Option<u64> {
    config.get(name)?.value.as_deref()?.parse().ok()
}

fn missing(topic: &str, remedy: &str) -> Found {
    Found { about: format!("topic {topic}"), text: "is not there".into(), verdict: Verdict::Wrong(remedy.into()) }
}

/// The broker refuses a member whose session lies outside its bounds.
fn session(settings: &Settings, broker: &ConfigResource, found: &mut Vec<Found>) {
    let least = number(broker, "group.min.session.timeout.ms").unwrap_or(0);
    let most = number(broker, "group.max.session.timeout.ms").unwrap_or(u64::MAX);
    let own = u64::try_from(settings.session_timeout.as_millis()).unwrap_or(u64::MAX);
    let fits = (least..=most).contains(&own);
    let remedy = || Verdict::Wrong("set kafka.session_timeout within these bounds, or have the broker's changed".into());
    found.push(Found {
        about: "session timeout".into(),
        text: format!("{own} ms; the broker takes {least} to {most} ms"),
        verdict: if fits { Verdict::Fits } else { remedy() },
    });
}

/// A topic that the app reads.
fn source(settings: &Settings, topic: &str, partitions: usize, config: &ConfigResource) -> Vec<Found> {
    let about = format!("topic {topic}");
    let fact = |text: String, verdict| Found { about: about.clone(), text, verdict };
    let bytes = number(config, "max.message.bytes").unwrap_or(0);
    let park = settings.park_record_bytes_max;
    let parks = if bytes <= park {
        Verdict::Fits
    } else {
        Verdict::Mind(format!(
            "a record above store.park_record_bytes_max = {park} stops its partition when it has to be parked: raise that"
        ))
    };
    let compacted = config.get("cleanup.policy").and_then(|entry| entry.value.clone()).unwrap_or_default();
    let cleans = if compacted.contains("compact") {
        Verdict::Mind("the broker may drop a record before it is read, when a later one has its key: an operation may never come".into())
    } else {
        Verdict::Fits
    };
    let retention = match config.get("retention.ms").and_then(|entry| entry.value.as_deref()?.parse::<i64>().ok()) {
        Some(kept @ 0..) => {
            let kept = Duration::from_millis(kept.unsigned_abs());
            let short = kept < Duration::from_secs(24 * 3600);
            let mind = "a stop of that length loses records before they are read".to_string();
            fact(format!("keeps records for {kept:?}"), if short { Verdict::Mind(mind) } else { Verdict::Fits })
        }
        _ => fact("keeps records for ever".into(), Verdict::Fits),
    };
    vec![
        fact(format!("{partitions} partitions"), Verdict::Fits),
        fact(format!("records of up to {bytes} bytes"), parks),
        fact(format!("cleanup by {compacted}"), cleans),
        retention,
    ]
}

/// The topic that dead letters go to: whatever comes in must fit there, with some headers more.
fn dead_letters(topic: &str, config: &ConfigResource, largest: u64) -> Vec<Found> {
    /// Bytes that our headers take, at most about.
    const HEADERS: u64 = 8 * 1024;
    let about = format!("dead-letter topic {topic}");
    let bytes = number(config, "max.message.bytes").unwrap_or(0);
    let wide =
        format!("set its max.message.bytes to {} at least: a larger dead letter is parked instead, with an alert", largest + HEADERS);
    let cleanup = config.get("cleanup.policy").and_then(|entry| entry.value.clone()).unwrap_or_default();
    let kept = "set cleanup.policy=delete: a later dead letter would take the place of one with the same record key".to_string();
    vec![
        Found {
            about: about.clone(),
            text: format!("records of up to {bytes} bytes"),
            verdict: if bytes >= largest + HEADERS { Verdict::Fits } else { Verdict::Mind(wide) },
        },
        Found {
            about,
            text: format!("cleanup by {cleanup}"),
            verdict: if cleanup.contains("compact") { Verdict::Wrong(kept) } else { Verdict::Fits },
        },
    ]
}
