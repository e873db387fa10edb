//! Owns dead letters: the original bytes, key and headers, with ours added under documented names, acknowledged by every in-sync
//! replica before the slot is complete.

use super::{Error, Settings, complaints::Voice, headers::Cause, settings::ErrorText};
use crate::{
    config::HeaderNames,
    crash::point,
    protocol::{
        key::{KeyDigest, OperationKey, hex},
        machine::{DeadLetterReason, Subject},
        note::{REASON_BYTES_MAX, Slot, cut},
        park::Payload,
        receipt::Receipt,
    },
};
use rdkafka::{
    config::FromClientConfigAndContext,
    message::{Header, OwnedHeaders},
    producer::{FutureProducer, FutureRecord},
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// What each of our headers begins with.
const HEADER_PREFIX: &str = "x-receipted-";
/// How long a full queue is waited for.
const QUEUE_WAIT: Duration = Duration::from_secs(5);

/// A dead letter, ready to be sent.
#[derive(Debug, Clone)]
pub(super) struct Letter {
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    /// The record's own, then ours.
    pub(super) headers: Vec<(String, Option<Vec<u8>>)>,
}

/// What a dead letter says of its operation.
#[derive(Debug, Clone)]
pub(super) struct About {
    key: KeyDigest,
    operation: String,
    attempts: u32,
    outcome: &'static str,
    correlation: Option<String>,
}

impl About {
    pub(super) fn of(receipt: &Receipt, key: KeyDigest, name: &OperationKey) -> Self {
        let correlation = receipt.admissions().values().find_map(|admission| admission.correlation.clone());
        let operation = name.operation().to_string();
        Self { key, operation, attempts: receipt.next_number() - 1, outcome: receipt.state().label(), correlation }
    }

    /// Of the operation that a record carries; the record's own correlation id goes first.
    pub(super) fn of_subject(subject: &Subject, receipt: &Receipt) -> Self {
        let about = Self::of(receipt, subject.key, &subject.name);
        Self { correlation: subject.correlation.clone().or(about.correlation.clone()), ..about }
    }
}

#[derive(Clone)]
pub(super) struct Producer {
    way: Way,
    error_text: ErrorText,
    names: HeaderNames,
    group: String,
}

/// Where dead letters go.
#[derive(Clone)]
enum Way {
    Topic(FutureProducer<Voice>, String),
    /// A list, for tests.
    Kept(Arc<Mutex<Vec<Letter>>>),
}

impl Producer {
    pub(super) fn new(settings: &Settings, store_id: &str) -> Result<Self, Error> {
        let voice = Voice::new("dead-letter producer", &settings.brokers);
        let producer = FutureProducer::from_config_and_context(&settings.producer(store_id), voice);
        let producer = producer.map_err(|source| Error::broker("start a producer", &source))?;
        Ok(Self::over(Way::Topic(producer, settings.dead_letter_topic.clone()), settings))
    }

    /// One that keeps what it is given.
    pub(super) fn keeping(letters: Arc<Mutex<Vec<Letter>>>, settings: &Settings) -> Self {
        Self::over(Way::Kept(letters), settings)
    }

    fn over(way: Way, settings: &Settings) -> Self {
        Self { way, error_text: settings.error_text, names: settings.header_names, group: settings.group.clone() }
    }

    /// Makes a dead letter of a record. Header names that are not UTF-8 cannot be written by this client: those headers are kept as
    /// hexadecimal pairs under `x-receipted-raw-headers`.
    pub(super) fn letter(&self, slot: &Slot, reason: DeadLetterReason, detail: &str, payload: &Payload, about: Option<&About>) -> Letter {
        let mut headers = Vec::with_capacity(payload.headers.len() + 20);
        let mut raw = Vec::new();
        for (name, value) in &payload.headers {
            match std::str::from_utf8(name) {
                Ok(key) => headers.push((key.to_string(), value.clone())),
                Err(_) => raw.push(format!("{}={}", hex(name), value.as_deref().map(hex).unwrap_or_default())),
            }
        }
        let mut ours: Vec<(&str, String)> = vec![
            ("reason", reason.label().into()),
            ("origin-topic", slot.topic.to_string()),
            ("origin-partition", slot.partition.to_string()),
            ("origin-offset", slot.offset.to_string()),
        ];
        ours.extend(payload.timestamp.map(|timestamp| ("origin-timestamp", timestamp.to_string())));
        if let Some(about) = about {
            ours.push(("key", about.key.to_string()));
            ours.push(("operation", about.operation.clone()));
            ours.push(("attempts", about.attempts.to_string()));
            ours.push(("outcome", about.outcome.into()));
            ours.extend(about.correlation.clone().map(|id| ("correlation-id", id)));
        }
        let text = (self.error_text == ErrorText::Included).then(|| cut(detail, REASON_BYTES_MAX));
        ours.extend(text.map(|text| ("error", text.into())));
        if !raw.is_empty() {
            ours.push(("raw-headers", raw.join(",")));
        }
        let cause = Cause { slot, timestamp: payload.timestamp, reason, group: &self.group, text };
        headers.extend(cause.under(self.names).into_iter().map(|(name, value)| (name.to_string(), Some(value))));
        headers.extend(ours.into_iter().map(|(name, value)| (format!("{HEADER_PREFIX}{name}"), Some(value.into_bytes()))));
        Letter { key: payload.key.clone(), value: payload.value.clone(), headers }
    }

    /// Sends a dead letter, and says when it is acknowledged or why it is not.
    pub(super) fn send(&self, letter: Letter, done: impl FnOnce(Result<(), String>) + Send + 'static) {
        let (producer, topic) = match &self.way {
            Way::Topic(producer, topic) => (producer.clone(), topic.clone()),
            Way::Kept(letters) => {
                letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
                return done(Ok(()));
            }
        };
        tokio::spawn(async move {
            point!("letter/unsent", said => return done(Err(said)));
            let add = |all: OwnedHeaders, (key, value): &(String, Option<Vec<u8>>)| all.insert(Header { key, value: value.as_ref() });
            let headers = letter.headers.iter().fold(OwnedHeaders::new_with_capacity(letter.headers.len()), add);
            let mut record: FutureRecord<'_, [u8], [u8]> = FutureRecord::to(&topic).headers(headers);
            record.key = letter.key.as_deref();
            record.payload = letter.value.as_deref();
            let sent = producer.send(record, QUEUE_WAIT).await;
            point!("letter/sent", said => return done(Err(said)));
            done(sent.map(|_| ()).map_err(|(error, _)| error.to_string()));
        });
    }
}
