//! Owns `routes`: what each operation of the app declares. Nothing is connected.

use super::output::{Failure, Output, print};
use crate::handler::App;
use serde_json::json;

pub(super) fn run<S: Send + Sync + 'static>(app: &App<S>, output: Output) -> Result<(), Failure> {
    let declared = app.declared()?;
    let line = |route: &crate::handler::Declared| {
        let contract = route.policy.contract.label();
        json!({ "operation": route.name, "topics": route.topics, "in_doubt": contract, "text": route.to_string() })
    };
    print(&declared.iter().map(line).collect::<Vec<_>>(), output, |_| {
        declared.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n")
    })
}
