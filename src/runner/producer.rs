//! Owns dead letters: the original bytes, key and headers, with ours added under documented names, acknowledged by every in-sync
//! replica before the slot is complete.

use super::{Error, Settings, complaints::Voice, settings::ErrorText};
use crate::protocol::{
    key::{KeyDigest, OperationKey, hex},
    machine::{DeadLetterReason, Subject},
    note::{REASON_BYTES_MAX, Slot, cut},
    park::Payload,
    receipt::Receipt,
};
use rdkafka::{
    config::FromClientConfigAndContext,
    message::{Header, OwnedHeaders},
    producer::{FutureProducer, FutureRecord},
};
use std::time::Duration;

/// What each of our headers begins with.
const HEADER_PREFIX: &str = "x-receipted-";
/// How long a full queue is waited for.
const QUEUE_WAIT: Duration = Duration::from_secs(5);

/// A dead letter, ready to be sent.
#[derive(Debug, Clone)]
pub(super) struct Letter {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: OwnedHeaders,
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
    pub(super) fn of(receipt: &Receipt, name: &OperationKey) -> Self {
        let correlation = receipt.admissions().values().find_map(|admission| admission.correlation.clone());
        let (key, operation) = (name.digest(), name.operation().to_string());
        Self { key, operation, attempts: receipt.next_number() - 1, outcome: receipt.state().label(), correlation }
    }

    /// Of the operation that a record carries; the record's own correlation id goes first.
    pub(super) fn of_subject(subject: &Subject, receipt: &Receipt) -> Self {
        let about = Self::of(receipt, &subject.name);
        Self { correlation: subject.correlation.clone().or(about.correlation.clone()), ..about }
    }
}

#[derive(Clone)]
pub(super) struct Producer {
    producer: FutureProducer<Voice>,
    topic: String,
    error_text: ErrorText,
}

impl Producer {
    pub(super) fn new(settings: &Settings, store_id: &str) -> Result<Self, Error> {
        let voice = Voice::new("dead-letter producer", &settings.brokers);
        let producer = FutureProducer::from_config_and_context(&settings.producer(store_id), voice);
        let producer = producer.map_err(|source| Error::broker("start a producer", &source))?;
        Ok(Self { producer, topic: settings.dead_letter_topic.clone(), error_text: settings.error_text })
    }

    /// Makes a dead letter of a record. Header names that are not UTF-8 cannot be written by this client: those headers are kept as
    /// hexadecimal pairs under `x-receipted-raw-headers`.
    pub(super) fn letter(&self, slot: &Slot, reason: DeadLetterReason, detail: &str, payload: &Payload, about: Option<&About>) -> Letter {
        let mut headers = OwnedHeaders::new_with_capacity(payload.headers.len() + 10);
        let mut raw = Vec::new();
        for (name, value) in &payload.headers {
            match std::str::from_utf8(name) {
                Ok(key) => headers = headers.insert(Header { key, value: value.as_ref() }),
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
        if self.error_text == ErrorText::Included {
            ours.push(("error", cut(detail, REASON_BYTES_MAX).into()));
        }
        if !raw.is_empty() {
            ours.push(("raw-headers", raw.join(",")));
        }
        for (name, value) in ours {
            headers = headers.insert(Header { key: &format!("{HEADER_PREFIX}{name}"), value: Some(&value) });
        }
        Letter { key: payload.key.clone(), value: payload.value.clone(), headers }
    }

    /// Sends a dead letter, and says when it is acknowledged or why it is not.
    pub(super) fn send(&self, letter: Letter, done: impl FnOnce(Result<(), String>) + Send + 'static) {
        let (producer, topic) = (self.producer.clone(), self.topic.clone());
        tokio::spawn(async move {
            let mut record: FutureRecord<'_, [u8], [u8]> = FutureRecord::to(&topic).headers(letter.headers);
            record.key = letter.key.as_deref();
            record.payload = letter.value.as_deref();
            let sent = producer.send(record, QUEUE_WAIT).await;
            done(sent.map(|_| ()).map_err(|(error, _)| error.to_string()));
        });
    }
}
