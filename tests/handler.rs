//! What a team writes, through the same built form that a runner uses: no broker, no store, no runtime.

#![allow(clippy::expect_used, reason = "a test that cannot set its scene has failed")]

#[path = "handler/answers.rs"]
mod answers;
#[path = "handler/arguments.rs"]
mod arguments;
#[path = "handler/bank.rs"]
mod bank;
#[path = "handler/contracts.rs"]
mod contracts;
#[path = "handler/formats.rs"]
mod formats;
#[path = "handler/identity.rs"]
mod identity;
#[path = "handler/invalid.rs"]
mod invalid;
#[path = "handler/outcomes.rs"]
mod outcomes;
#[path = "handler/panics.rs"]
mod panics;
#[path = "handler/refused.rs"]
mod refused;
#[path = "handler/replies.rs"]
mod replies;
#[path = "handler/routing.rs"]
mod routing;
