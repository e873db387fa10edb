//! Owns what one key demands of another. Each refusal names both, with their values.

use super::{Config, Error, kafka, layers::Layers};
use std::collections::BTreeMap;

/// What every relation needs: the key that is refused, what it does not fit, and the remedy.
struct Relation {
    broken: bool,
    key: &'static str,
    is: &'static str,
    other: &'static str,
    remedy: &'static str,
}

pub(super) fn check(config: &Config, layers: &Layers) -> Result<(), Error> {
    if let Some(relation) = relations(config).into_iter().find(|relation| relation.broken) {
        let Relation { key, is, other, remedy, .. } = relation;
        let reason = format!("{is} {other} = {} ({})", shown(config, layers, other), layers.origin(other));
        return Err(layers.invalid(key, reason, remedy));
    }
    security(&config.kafka.settings, layers)
}

/// The other value: as it is used where it follows from others.
fn shown(config: &Config, layers: &Layers, key: &str) -> String {
    match key {
        "runner.tenant_permits_max" => config.runner.tenant_share(&[]).to_string(),
        _ => layers.written(key),
    }
}

fn relations(config: &Config) -> [Relation; 8] {
    let Config { kafka, store, runner, reconcile, .. } = config;
    [
        Relation {
            broken: runner.drain_budget > kafka.poll_interval_max / 2,
            key: "runner.drain_budget",
            is: "is more than half of",
            other: "kafka.poll_interval_max",
            remedy: "lower the one or raise the other; a drain that takes longer loses its partitions",
        },
        Relation {
            broken: runner.drain_budget > runner.stop_deadline,
            key: "runner.stop_deadline",
            is: "is less than",
            other: "runner.drain_budget",
            remedy: "raise it, best to twice as much: a stop drains first, and then commits",
        },
        Relation {
            broken: kafka.heartbeat_interval * 3 > kafka.session_timeout,
            key: "kafka.heartbeat_interval",
            is: "is more than a third of",
            other: "kafka.session_timeout",
            remedy: "lower the one or raise the other; a lost heartbeat or two must not lose the partitions",
        },
        Relation {
            broken: kafka.session_timeout > kafka.poll_interval_max,
            key: "kafka.session_timeout",
            is: "is more than",
            other: "kafka.poll_interval_max",
            remedy: "lower the one or raise the other; the client refuses the pair",
        },
        Relation {
            broken: runner.tenant_permits_max.is_some_and(|share| share > runner.permits),
            key: "runner.tenant_permits_max",
            is: "is more than",
            other: "runner.permits",
            remedy: "lower it, or raise the other; 0 leaves a quarter of the permits to other tenants",
        },
        Relation {
            broken: runner.partition_records_max <= runner.tenant_share(&[]),
            key: "runner.partition_records_max",
            is: "is not more than",
            other: "runner.tenant_permits_max",
            remedy: "raise it: else one tenant's running handlers fill a partition, and no other tenant's record comes in",
        },
        Relation {
            broken: store.park_record_bytes_max > store.parked_bytes_max,
            key: "store.park_record_bytes_max",
            is: "is more than",
            other: "store.parked_bytes_max",
            remedy: "lower the one or raise the other; such a record could never be parked and would stop its partition",
        },
        Relation {
            broken: reconcile.again_first > reconcile.again_max,
            key: "reconcile.again_first",
            is: "is more than",
            other: "reconcile.again_max",
            remedy: "exchange them",
        },
    ]
}

/// Settings that the client would take and leave unused, and those that it needs beside others.
fn security(settings: &BTreeMap<String, String>, layers: &Layers) -> Result<(), Error> {
    let key = |name: &str| format!("kafka.settings.{name}");
    let protocol = settings.get("security.protocol").map_or("plaintext".into(), |protocol| protocol.to_ascii_lowercase());
    for (begins, tells, remedy) in [
        ("sasl.", protocol.starts_with("sasl_"), "write \"security.protocol\" = \"SASL_SSL\" beside it, or leave it out"),
        ("ssl.", protocol.ends_with("ssl"), "write \"security.protocol\" = \"SSL\" or \"SASL_SSL\" beside it, or leave it out"),
    ] {
        if let Some(name) = settings.keys().find(|name| name.starts_with(begins) && !tells) {
            let reason = format!("is not used while kafka.settings.security.protocol = {protocol:?}");
            return Err(layers.invalid(&key(name), reason, remedy));
        }
    }
    if !protocol.starts_with("sasl_") {
        return Ok(());
    }
    let mechanism = settings.iter().find(|(name, _)| matches!(name.as_str(), "sasl.mechanism" | "sasl.mechanisms"));
    let Some((name, mechanism)) = mechanism else {
        let remedy = "write \"sasl.mechanism\" = \"SCRAM-SHA-512\", or what the cluster takes, beside it";
        return Err(layers.invalid(&key("security.protocol"), "needs kafka.settings.sasl.mechanism, which is not set", remedy));
    };
    if mechanism.eq_ignore_ascii_case("GSSAPI") && !cfg!(feature = "gssapi") {
        let remedy = "build receipted with its feature `gssapi`";
        return Err(layers.invalid(&key(name), "needs the system's SASL library, which this build has not", remedy));
    }
    let by_password = mechanism.eq_ignore_ascii_case("PLAIN") || mechanism.to_ascii_uppercase().starts_with("SCRAM-");
    for needed in ["sasl.username", "sasl.password"].into_iter().filter(|_| by_password) {
        if settings.get(needed).is_none_or(String::is_empty) {
            let variable = format!("RECEIPTED__KAFKA__SETTINGS__{}", needed.to_ascii_uppercase().replace('.', "_"));
            return Err(layers.invalid(&key(name), format!("needs kafka.settings.{needed}, which is not set"), format!("set {variable}")));
        }
    }
    Ok(())
}

/// Each setting as the client itself takes it: its names and its bounds are its own.
pub(super) fn client(settings: &BTreeMap<String, String>, layers: &Layers) -> Result<(), Error> {
    for (name, value) in settings {
        if let Err(reason) = kafka::accepted(name, value) {
            let remedy = match reason.contains("libcurl") {
                true => "build receipted with its feature `oidc`",
                false => "correct or remove it; librdkafka's CONFIGURATION page lists every setting with its bounds",
            };
            return Err(layers.invalid(&format!("kafka.settings.{name}"), reason, remedy));
        }
    }
    Ok(())
}
