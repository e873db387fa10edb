//! Owns `check-config`: the configuration as it would be used, without secrets; and whether the cluster goes with it.

use super::{
    output::{Failure, Output, print, table},
    serve::settings,
};
use crate::{
    config::{Config, Shown},
    handler::Declared,
    runner::{self, Found, Verdict},
};
use serde_json::json;
use std::{collections::BTreeSet, path::Path};

pub(super) fn run(file: Option<&Path>, output: Output) -> Result<(), Failure> {
    let config = Config::load(file, std::env::vars_os())?;
    config.store.key_secret()?;
    let line = |shown: &Shown| json!({ "key": shown.key, "value": shown.value, "from": shown.origin.to_string() });
    let lines: Vec<_> = config.shown().iter().map(line).collect();
    print(&lines, output, |_| {
        let width = config.shown().iter().map(|shown| shown.key.len() + shown.value.len() + 3).max().unwrap_or(0);
        let line = |shown: &Shown| format!("{:<width$}  # {}", format!("{} = {}", shown.key, shown.value), shown.origin);
        config.shown().iter().map(line).collect::<Vec<_>>().join("\n")
    })
}

/// Asks the cluster about the app's topics; without an app, about the dead-letter topic alone.
pub(super) async fn against(file: Option<&Path>, declared: &[Declared], output: Output) -> Result<(), Failure> {
    let config = Config::load(file, std::env::vars_os())?;
    let topics: BTreeSet<String> = declared.iter().flat_map(|operation| operation.topics.iter().cloned()).collect();
    let topics: Vec<String> = topics.into_iter().collect();
    let failed = |error: runner::Error| Failure::new(error.exit_code(), &error);
    let found = runner::survey(&settings(&config, &[]), &topics).await.map_err(failed)?;
    let line = |found: &Found| json!({ "about": found.about, "found": found.text, "verdict": found.verdict.label(), "remedy": found.verdict.remedy() });
    print(&found.iter().map(line).collect::<Vec<_>>(), output, |_| {
        let cells = |found: &Found| {
            let remedy = found.verdict.remedy().unwrap_or_default();
            [found.verdict.label(), &found.about, &found.text, remedy].map(String::from).to_vec()
        };
        table(&["", "what", "found", "what to do"], &found.iter().map(cells).collect::<Vec<_>>())
    })?;
    match found.iter().filter(|found| matches!(found.verdict, Verdict::Wrong(_))).count() {
        0 => Ok(()),
        wrong => Err(Failure::set_up(format!("{wrong} of what was found cannot work"), "do what its line says")),
    }
}
