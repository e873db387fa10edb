//! The rules, one by one: the state of an operation, its effects, the decision table, doubts, verdicts and totals (DESIGN 3 and 5).

#[path = "protocol/build.rs"]
mod build;
#[path = "protocol/change.rs"]
mod change;
#[path = "protocol/decision.rs"]
mod decision;
#[path = "protocol/doubt.rs"]
mod doubt;
#[path = "protocol/effects.rs"]
mod effects;
#[path = "protocol/identity.rs"]
mod identity;
#[path = "protocol/known.rs"]
mod known;
#[path = "protocol/lookup.rs"]
mod lookup;
#[path = "protocol/receipt.rs"]
mod receipt;
#[path = "protocol/sets.rs"]
mod sets;
#[path = "protocol/settle.rs"]
mod settle;
#[path = "protocol/skip.rs"]
mod skip;
#[path = "protocol/start.rs"]
mod start;
