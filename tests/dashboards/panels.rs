//! Owns the rules that a dashboard keeps to, as a function from its JSON to what is wrong with it. Does not own which panels there are.

use crate::query;
use receipted::telemetry::table::{Kind, TABLE};
use serde_json::Value;
use std::collections::BTreeSet;

/// Panels whose counters are compared as they stand, and not by their rate.
const COUNTERS_AS_THEY_STAND: &[&str] = &[
    "Accounting identity: fetched less outcomes less in flight",
    "Accounting identity: opened less closed less unresolved",
    // A halted partition stays halted until the process starts again.
    "Partitions not read",
];
/// What a person must see first.
const FIRST: &[&str] = &[
    "receipted_duplicate_effects_total",
    "receipted_unresolved",
    "receipted_unresolved_oldest_seconds",
    "receipted_parked",
    "receipted_partition_held",
];

/// The value of a text, empty where there is none.
pub fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

pub fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    value.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Every panel that shows something.
pub fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    list(dashboard, "/panels").iter().filter(|panel| text(panel, "/type") != "row")
}

/// Every query with its panel's title.
pub fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let of = |panel| list(panel, "/targets").iter().map(|target| (text(panel, "/title").to_owned(), text(target, "/expr").to_owned()));
    panels(dashboard).flat_map(of).collect()
}

/// What is against the rules.
pub fn faults(dashboard: &Value) -> Vec<String> {
    let mut wrong = variables(dashboard);
    if dashboard.pointer("/editable") != Some(&Value::Bool(false)) {
        wrong.push("it is editable: a change by hand would be lost".into());
    }
    let (mut titles, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for panel in list(dashboard, "/panels") {
        if !ids.insert(panel.pointer("/id").and_then(Value::as_u64)) {
            wrong.push(format!("{}: its id is another panel's", text(panel, "/title")));
        }
    }
    for panel in panels(dashboard) {
        let title = text(panel, "/title");
        if title.is_empty() || !titles.insert(title) {
            wrong.push(format!("{title:?}: a title of its own is missing"));
        }
        wrong.extend(panel_faults(panel).into_iter().map(|fault| format!("{title}: {fault}")));
    }
    wrong.extend(overlaps(dashboard));
    let until = list(dashboard, "/panels").iter().skip(1).position(|panel| text(panel, "/type") == "row").map_or(0, |at| at + 1);
    let first = Value::from(list(dashboard, "/panels")[..until].to_vec()).to_string();
    wrong.extend(FIRST.iter().filter(|name| !first.contains(&format!("{name}{{"))).map(|name| format!("{name} is not in the first row")));
    wrong
}

fn variables(dashboard: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let variables = list(dashboard, "/templating/list");
    let sources: Vec<&str> = variables.iter().filter(|v| text(v, "/type") == "datasource").map(|v| text(v, "/name")).collect();
    if sources != ["datasource"] {
        wrong.push(format!("the variables for a data source are {sources:?}, and not just `datasource`"));
    }
    for name in ["job", "instance"] {
        let found = variables.iter().find(|variable| text(variable, "/name") == name && text(variable, "/type") == "query");
        match found.map(|variable| variable.pointer("/refresh").and_then(Value::as_u64)) {
            None => wrong.push(format!("there is no variable `{name}`")),
            Some(Some(2)) => {}
            Some(_) => wrong.push(format!("the variable `{name}` is not asked again when the time range changes")),
        }
    }
    wrong
}

fn panel_faults(panel: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    if !text(panel, "/description").ends_with('.') {
        wrong.push("no description in a sentence".into());
    }
    if text(panel, "/fieldConfig/defaults/unit").is_empty() {
        wrong.push("no unit".into());
    }
    let targets = list(panel, "/targets");
    if targets.is_empty() {
        wrong.push("no query".into());
    }
    if std::iter::once(panel).chain(targets).any(|part| text(part, "/datasource/uid") != "${datasource}") {
        wrong.push("its data source is not the variable's".into());
    }
    for expr in targets.iter().map(|target| text(target, "/expr")) {
        let query = query::read(expr);
        if query.selectors.is_empty() {
            wrong.push(format!("a query without a metric: {expr}"));
        }
        for selector in &query.selectors {
            wrong.extend(selector_faults(selector, COUNTERS_AS_THEY_STAND.contains(&text(panel, "/title"))));
        }
    }
    wrong
}

fn selector_faults(selector: &query::Selector, as_they_stand: bool) -> Vec<String> {
    let (mut wrong, name) = (Vec::new(), &selector.name);
    for label in ["job", "instance"] {
        let matcher = (label.to_owned(), "=~".to_owned(), format!("${label}"));
        if !selector.matchers.contains(&matcher) {
            wrong.push(format!("{name} does not ask for {label}=~\"${label}\""));
        }
    }
    let counts = TABLE.iter().any(|metric| match metric.kind {
        Kind::Counter | Kind::Durable => metric.name == name,
        Kind::Histogram => name.starts_with(metric.name),
        Kind::Gauge => false,
    });
    if counts && !as_they_stand && !["rate", "increase"].contains(&&*selector.within) {
        wrong.push(format!("{name} only rises, and is not in rate() or increase()"));
    }
    match (selector.range.as_deref(), &*selector.within) {
        (None | Some("$__rate_interval" | "$__range"), _) | (Some(_), "predict_linear") => {}
        (Some(range), _) => wrong.push(format!("{name} has the range {range} and not $__rate_interval")),
    }
    wrong
}

fn overlaps(dashboard: &Value) -> Vec<String> {
    let (mut taken, mut wrong) = (BTreeSet::new(), Vec::new());
    for panel in list(dashboard, "/panels") {
        let at = |key: &str| panel.pointer(&format!("/gridPos/{key}")).and_then(Value::as_u64).unwrap_or(99);
        let cells = (at("y")..at("y") + at("h")).flat_map(|y| (at("x")..at("x") + at("w")).map(move |x| (x, y)));
        let free = cells.fold(at("x") + at("w") <= 24, |free, cell| taken.insert(cell) && free);
        if !free {
            wrong.push(format!("{}: it lies on another panel, or outside", text(panel, "/title")));
        }
    }
    wrong
}
