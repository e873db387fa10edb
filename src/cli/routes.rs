//! Owns `routes`: what each operation of the app declares. Nothing is connected.

use super::output::{Failure, Output, print, table};
use crate::{
    handler::{App, Declared},
    protocol::policy::Lanes,
};
use serde_json::{Value, json};
use std::time::Duration;

/// Receipts are not pruned in this version, whatever a route says.
const KEPT: &str = "for ever";

/// How routes are written for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One line each.
    Table,
    /// Everything, one below the other.
    Details,
}

pub(super) fn run<S: Send + Sync + 'static>(app: &App<S>, shape: Shape, output: Output) -> Result<(), Failure> {
    let declared = app.declared()?;
    print(&declared.iter().map(whole).collect::<Vec<_>>(), output, |_| match shape {
        Shape::Details => declared.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n"),
        Shape::Table => {
            let head =
                ["operation", "topics", "order", "tenant", "id", "fingerprint", "conflict", "in doubt", "kept", "time limit", "attempts"];
            table(&head, &declared.iter().map(row).collect::<Vec<_>>())
        }
    })
}

fn row(route: &Declared) -> Vec<String> {
    let policy = &route.policy;
    let order = |lanes: &Lanes| match lanes {
        Lanes::Key => "record key",
        Lanes::Partition => "partition",
        Lanes::Unordered => "none",
    };
    let mut orders: Vec<&str> = route.lanes.iter().map(order).collect();
    orders.dedup();
    vec![
        route.name.into(),
        route.topics.join(", "),
        orders.join(", "),
        route.tenant.to_string(),
        route.id.join(", "),
        route.fingerprint.clone(),
        route.on_conflict().into(),
        contract(route),
        KEPT.into(),
        format!("{:?}", policy.time_limit),
        policy.attempts_max.to_string(),
    ]
}

fn contract(route: &Declared) -> String {
    let contract = &route.policy.contract;
    match contract.memory() {
        Some(memory) => format!("{} for {memory:?}, then {}", contract.label(), contract.last().label()),
        None => contract.label().into(),
    }
}

/// Durations in milliseconds.
fn whole(route: &Declared) -> Value {
    let (policy, back_off) = (&route.policy, &route.policy.back_off);
    let millis = |duration: Duration| crate::protocol::time::millis(duration);
    let topic = |(topic, lanes): (&String, &Lanes)| json!({ "topic": topic, "order": lanes.label() });
    json!({
        "operation": route.name,
        "formerly": route.formerly,
        "topics": route.topics.iter().zip(&route.lanes).map(topic).collect::<Vec<_>>(),
        "tenant": route.tenant.to_string(),
        "id": route.id,
        "fingerprint": route.fingerprint,
        "on_conflict": route.on_conflict(),
        "in_doubt": policy.contract.label(),
        "in_doubt_memory_ms": policy.contract.memory().map(millis),
        "in_doubt_then": policy.contract.memory().map(|_| policy.contract.last().label()),
        "margin_ms": policy.contract.memory().map(|_| millis(policy.margin)),
        "quiet_ms": millis(policy.contract.quiet()),
        "takes_provider_key": route.takes_provider_key(),
        "kept": KEPT,
        "on_expired": route.on_expired(),
        "time_limit_ms": millis(policy.time_limit),
        "detached_max_ms": millis(policy.detached_max),
        "attempts_max": policy.attempts_max,
        "back_off_ms": { "first": millis(back_off.first), "max": millis(back_off.max), "give_up": millis(back_off.give_up) },
        "unresolved_max": policy.unresolved_max,
        "answer_bytes_max": route.answer_bytes_max,
        "replies": route.replies(),
        "layers": route.layers(),
    })
}
