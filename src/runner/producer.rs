//! Owns dead letters: the original bytes, key and headers, with ours added under documented names, acknowledged by every in-sync
//! replica before the slot is complete.

use super::{Error, Settings, settings::ErrorText};
use crate::protocol::{
    key::hex,
    machine::{DeadLetterReason, Subject},
    note::{REASON_BYTES_MAX, Slot, cut},
    park::Payload,
};
use rdkafka::{
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

#[derive(Clone)]
pub(super) struct Producer {
    producer: FutureProducer,
    topic: String,
    error_text: ErrorText,
}

impl Producer {
    pub(super) fn new(settings: &Settings, store_id: &str) -> Result<Self, Error> {
        let producer = settings.producer(store_id).create().map_err(|source| Error::broker("start a producer", &source))?;
        Ok(Self { producer, topic: settings.dead_letter_topic.clone(), error_text: settings.error_text })
    }

    /// Makes a dead letter of a record. Header names that are not UTF-8 cannot be written by this client: those headers are kept as
    /// hexadecimal pairs under `x-receipted-raw-headers`.
    pub(super) fn letter(
        &self, slot: &Slot, reason: DeadLetterReason, detail: &str, payload: &Payload, subject: Option<&Subject>, attempts: u32,
    ) -> Letter {
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
            ("attempts", attempts.to_string()),
        ];
        ours.extend(payload.timestamp.map(|timestamp| ("origin-timestamp", timestamp.to_string())));
        if let Some(subject) = subject {
            ours.push(("key", subject.key.to_string()));
            ours.push(("operation", subject.name.operation().into()));
            ours.extend(subject.correlation.clone().map(|id| ("correlation-id", id)));
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
