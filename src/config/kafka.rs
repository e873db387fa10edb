//! Owns the list of client settings that are receipted's own, with the reason why each is refused. All others pass through.

use rdkafka::{ClientConfig, error::KafkaError};

/// Names of client settings that are refused, and why. Where a key of ours does the same, the reason names it.
pub const OWNED: &[(&str, &str)] = &[
    ("bootstrap.servers", "it is the key kafka.brokers"),
    ("metadata.broker.list", "it is the key kafka.brokers"),
    ("group.id", "it is the key kafka.group"),
    ("group.instance.id", "it is the key kafka.group_instance_id"),
    ("client.id", "it is the member's name; it is the key kafka.group_instance_id"),
    ("session.timeout.ms", "it is the key kafka.session_timeout"),
    ("heartbeat.interval.ms", "it is the key kafka.heartbeat_interval"),
    ("max.poll.interval.ms", "it is the key kafka.poll_interval_max"),
    ("enable.auto.commit", "offsets move only after every receipt below them is durable; an automatic commit would lose records"),
    ("auto.commit.enable", "offsets move only after every receipt below them is durable; an automatic commit would lose records"),
    ("auto.commit.interval.ms", "nothing is committed automatically; it is the key runner.commit_interval"),
    ("enable.auto.offset.store", "an offset stored when its record is handed over is committed before the record is handled"),
    ("auto.offset.reset", "a start offset is always decided and named, never reset; it is the key kafka.first_start"),
    ("isolation.level", "read_committed is required, or records of aborted transactions would run"),
    ("enable.partition.eof", "the end of a partition is told without its topic; positions are compared with the log's end instead"),
    ("offset.store.method", "offsets live in the group and in the store"),
    ("partition.assignment.strategy", "cooperative-sticky is required, so that a partition that stays is not interrupted"),
    ("group.remote.assignor", "the group protocol is classic"),
    ("group.protocol.type", "the group is a consumer group"),
    ("transactional.id", "facts must stand even when an output is aborted, so that no client of ours is transactional"),
    ("acks", "a slot is complete only when every in-sync replica has its dead letter"),
    ("request.required.acks", "a slot is complete only when every in-sync replica has its dead letter"),
    ("enable.idempotence", "a retried dead letter must not be written twice"),
    ("message.timeout.ms", "it is the key dead_letter.acknowledge_within"),
    ("delivery.timeout.ms", "it is the key dead_letter.acknowledge_within"),
    ("message.max.bytes", "a dead letter may be as large as what can be parked; it is the key store.park_record_bytes_max"),
];

/// Why `name = value` is refused; none where it passes through to the client.
#[must_use]
pub fn refused(name: &str, value: &str) -> Option<&'static str> {
    if name == "group.protocol" {
        let reason = "with it the client goes on delivering records after it lost its group; the classic protocol is required";
        return (value != "classic").then_some(reason);
    }
    OWNED.iter().find(|(owned, _)| *owned == name).map(|(_, reason)| *reason)
}

/// Whether the client takes `name = value`.
///
/// # Errors
/// The client's own words, without a value that may be secret.
pub fn accepted(name: &str, value: &str) -> Result<(), String> {
    if name.contains('\0') || value.contains('\0') {
        return Err("holds a NUL character".into());
    }
    let words = match ClientConfig::new().set(name, value).create_native_config() {
        Ok(_) => return Ok(()),
        Err(KafkaError::ClientConfig(_, words, ..)) => words,
        Err(other) => other.to_string(),
    };
    let quoted = is_secret(name) && words.contains(value);
    Err(if quoted { "is refused by the client".into() } else { format!("is refused by the client: {words}") })
}

/// Whether the value of a client setting must not be shown.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    const PARTS: [&str; 8] = ["password", "secret", "token", "credential", "ssl.key", "key.pem", "sasl.oauthbearer", "jaas"];
    PARTS.iter().any(|part| name.contains(part))
}
