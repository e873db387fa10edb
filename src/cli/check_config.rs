//! Owns `check-config`: the configuration as it would be used, without secrets.

use super::output::{Failure, Output, print};
use crate::config::{Config, Shown};
use serde_json::json;
use std::path::Path;

pub(super) fn run(file: Option<&Path>, output: Output) -> Result<(), Failure> {
    let config = Config::load(file, std::env::vars_os())?;
    let line = |shown: &Shown| json!({ "key": shown.key, "value": shown.value, "from": shown.origin.to_string() });
    let lines: Vec<_> = config.shown().iter().map(line).collect();
    print(&lines, output, |_| {
        let width = config.shown().iter().map(|shown| shown.key.len() + shown.value.len() + 3).max().unwrap_or(0);
        let line = |shown: &Shown| format!("{:<width$}  # {}", format!("{} = {}", shown.key, shown.value), shown.origin);
        config.shown().iter().map(line).collect::<Vec<_>>().join("\n")
    })
}
