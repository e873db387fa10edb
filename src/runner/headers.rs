//! Owns the headers under which other tools look for a dead letter's origin and cause, beside ours: Spring Kafka's and Kafka Connect's,
//! in their own encodings. It does not own our own headers, nor what is sent when.

use crate::{
    config::HeaderNames,
    protocol::{machine::DeadLetterReason, note::Slot},
};

/// A header's name and value.
pub(super) type Named = (&'static str, Vec<u8>);

/// What headers of another tool say of a dead letter.
pub(super) struct Cause<'a> {
    pub(super) slot: &'a Slot,
    pub(super) timestamp: Option<i64>,
    pub(super) reason: DeadLetterReason,
    /// The consumer group that gives the record up.
    pub(super) group: &'a str,
    /// The error's text, where headers may carry it.
    pub(super) text: Option<&'a str>,
}

impl Cause<'_> {
    /// The headers that `names` adds to ours.
    pub(super) fn under(&self, names: HeaderNames) -> Vec<Named> {
        match names {
            HeaderNames::Receipted => Vec::new(),
            HeaderNames::Spring => self.spring(),
            HeaderNames::Connect => self.connect(),
        }
    }

    /// Numbers are big-endian, four bytes for the partition and eight for the rest; -1 stands for no timestamp.
    fn spring(&self) -> Vec<Named> {
        vec![
            ("kafka_dlt-original-topic", self.slot.topic.as_bytes().to_vec()),
            ("kafka_dlt-original-partition", self.slot.partition.to_be_bytes().to_vec()),
            ("kafka_dlt-original-offset", self.slot.offset.to_be_bytes().to_vec()),
            ("kafka_dlt-original-timestamp", self.timestamp.unwrap_or(-1).to_be_bytes().to_vec()),
            ("kafka_dlt-original-consumer-group", self.group.as_bytes().to_vec()),
            ("kafka_dlt-exception-fqcn", self.class().into_bytes()),
            ("kafka_dlt-exception-message", self.words().into()),
        ]
    }

    /// All text.
    fn connect(&self) -> Vec<Named> {
        vec![
            ("__connect.errors.topic", self.slot.topic.as_bytes().to_vec()),
            ("__connect.errors.partition", self.slot.partition.to_string().into_bytes()),
            ("__connect.errors.offset", self.slot.offset.to_string().into_bytes()),
            ("__connect.errors.connector.name", self.group.as_bytes().to_vec()),
            ("__connect.errors.task.id", b"0".to_vec()),
            ("__connect.errors.stage", self.stage().into()),
            ("__connect.errors.class.name", b"receipted".to_vec()),
            ("__connect.errors.exception.class.name", self.class().into_bytes()),
            ("__connect.errors.exception.message", self.words().into()),
        ]
    }

    /// There is no exception class; the reason stands where tools sort by one.
    fn class(&self) -> String {
        format!("receipted.{}", self.reason.label())
    }

    fn words(&self) -> &str {
        self.text.unwrap_or(self.reason.label())
    }

    /// Connect's name for the step that failed: reading the value, or putting it.
    fn stage(&self) -> &'static str {
        match self.reason {
            DeadLetterReason::NoKey | DeadLetterReason::Undecodable => "VALUE_CONVERTER",
            DeadLetterReason::Route | DeadLetterReason::Exhausted | DeadLetterReason::Conflict | DeadLetterReason::Operator => "TASK_PUT",
        }
    }
}
