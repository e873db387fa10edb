//! What a team watches with: the dashboard keeps to its rules, panels and alerts speak of metrics that exist, every alert is explained
//! and tested, and Debian's Prometheus gets an answer to each query from a running demo.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub, missing_docs, reason = "helpers of tests")]

#[path = "dashboards/panels.rs"]
mod panels;
#[path = "dashboards/picture.rs"]
mod picture;
#[path = "dashboards/query.rs"]
mod query;
#[path = "dashboards/server.rs"]
mod server;
mod support;

use panels::{faults, queries};
use query::Rule;
use receipted::telemetry::table::{Kind, Label, Metric, TABLE};
use serde_json::{Value, json};
use server::Prometheus;
use std::{
    collections::BTreeSet,
    net::TcpListener,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};
use support::process;

/// How long the demo may take until it only keeps on.
const DEMO_BOUND: Duration = Duration::from_secs(240);

fn page(name: &str) -> String {
    std::fs::read_to_string(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn dashboard() -> Value {
    serde_json::from_str(&page("dashboards/overview.json")).unwrap()
}

fn rules() -> Vec<Rule> {
    query::rules(&page("dashboards/alerts.yml"))
}

#[track_caller]
fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_dashboard_keeps_to_its_rules() {
    assert_none(&faults(&dashboard()));
}

#[test]
fn each_rule_of_a_dashboard_finds_its_fault() {
    let at = |title: &str| panels::list(&dashboard(), "/panels").iter().position(|panel| panels::text(panel, "/title") == title).unwrap();
    let (unresolved, fetched) = (format!("/panels/{}", at("Unresolved")), format!("/panels/{}", at("Fetched")));
    let metric = r#"receipted_records_fetched_total{job=~"$job",instance=~"$instance"}"#;
    let expr = |path: &str, expr: String| (format!("{path}/targets/0/expr"), json!(expr));
    for ((path, value), part) in [
        (("/editable".into(), json!(true)), "editable"),
        (("/templating/list/0/name".into(), json!("prometheus")), "data source"),
        (("/templating/list/1/name".into(), json!("jobs")), "no variable `job`"),
        (("/templating/list/2/refresh".into(), json!(1)), "asked again"),
        ((format!("{unresolved}/title"), json!("")), "title"),
        ((format!("{unresolved}/title"), json!("Parked")), "title of its own"),
        ((format!("{unresolved}/id"), json!(1)), "its id"),
        ((format!("{unresolved}/description"), json!("")), "no description"),
        ((format!("{unresolved}/fieldConfig/defaults/unit"), json!("")), "no unit"),
        ((format!("{unresolved}/targets"), json!([])), "no query"),
        ((format!("{unresolved}/datasource/uid"), json!("abc")), "data source"),
        ((format!("{unresolved}/gridPos/x"), json!(0)), "lies on another"),
        (expr(&unresolved, "sum(receipted_unresolved)".into()), "does not ask for job"),
        (expr(&unresolved, "1".into()), "without a metric"),
        (expr(&unresolved, metric.replace("records_fetched_total", "lag_records")), "receipted_unresolved is not in the first row"),
        (expr(&fetched, metric.into()), "only rises"),
        (expr(&fetched, format!("rate({metric}[5m])")), "not $__rate_interval"),
    ] {
        let mut planted = dashboard();
        *planted.pointer_mut(&path).unwrap_or_else(|| panic!("{path}")) = value;
        let wrong = faults(&planted);
        assert!(wrong.iter().any(|fault| fault.contains(part)), "{path}: {part:?} is not among {wrong:?}");
    }
}

// ---- names

/// The row of the table, by the name of a series.
fn metric(name: &str) -> Option<&'static Metric> {
    let parts = ["_bucket", "_sum", "_count"];
    TABLE.iter().find(|metric| match metric.kind {
        Kind::Histogram => parts.iter().any(|part| name.strip_suffix(part) == Some(metric.name)),
        _ => metric.name == name,
    })
}

fn labels_of(metric: &Metric) -> Vec<&'static str> {
    let of = |label: &Label| match label {
        Label::Of(name, _) => vec![*name],
        Label::Topic => vec!["topic"],
        Label::TopicOperation => vec!["topic", "operation"],
        Label::OperationContract => vec!["operation", "contract"],
        Label::Operation => vec!["operation"],
        Label::TopicPartition => vec!["topic", "partition"],
    };
    metric.labels.iter().flat_map(of).chain((metric.kind == Kind::Histogram).then_some("le")).collect()
}

/// What a query names that is not there.
fn unknown(expr: &str) -> Vec<String> {
    let query = query::read(expr);
    let (mut wrong, mut labels) = (Vec::new(), vec!["job", "instance"]);
    for selector in &query.selectors {
        if selector.name == "up" {
            continue;
        }
        let Some(metric) = metric(&selector.name) else {
            wrong.push(format!("no metric {}", selector.name));
            continue;
        };
        let own = labels_of(metric);
        for (label, operator, value) in selector.matchers.iter().filter(|(label, ..)| !["job", "instance"].contains(&&**label)) {
            let values = metric.labels.iter().find_map(|of| match of {
                Label::Of(name, values) if name == label => Some(*values),
                _ => None,
            });
            if !own.contains(&&**label) {
                wrong.push(format!("{} has no label {label}", metric.name));
            } else if operator == "=" && values.is_some_and(|values| !values.contains(&&**value)) {
                wrong.push(format!("{} has no {label}={value}", metric.name));
            }
        }
        labels.extend(own);
    }
    wrong.extend(query.labels.iter().filter(|label| !labels.contains(&&***label)).map(|label| format!("no label {label} to group by")));
    wrong.into_iter().map(|fault| format!("{fault}: {expr}")).collect()
}

#[test]
fn panels_and_alerts_name_what_is_in_the_table() {
    let all = queries(&dashboard()).into_iter().map(|(_, expr)| expr).chain(rules().into_iter().map(|rule| rule.expr));
    assert_none(&all.flat_map(|expr| unknown(&expr)).collect::<Vec<_>>());
    for (expr, part) in [
        ("receipted_parked_byte", "no metric"),
        ("receipted_commit_seconds", "no metric"),
        ("rate(receipted_operations_total{outcome=\"dead-lettered\"}[5m])", "no outcome="),
        ("receipted_parked{topic=\"a\"}", "no label topic"),
        ("sum by (topic, reason) (receipted_unresolved)", "no label topic to group by"),
    ] {
        assert!(unknown(expr).iter().any(|fault| fault.contains(part)), "{expr}: {:?}", unknown(expr));
    }
}

/// Comments, descriptions and pages too.
#[test]
fn every_name_in_the_files_is_a_metric() {
    for file in ["dashboards/alerts.yml", "dashboards/alerts_test.yml", "dashboards/overview.json", "docs/OPERATIONS.md"] {
        let text = page(file);
        for (at, _) in text.match_indices("receipted_") {
            let name: String = text[at..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            assert!(metric(&name).is_some() || TABLE.iter().any(|metric| metric.name == name), "{file}: there is no {name}");
        }
    }
}

#[test]
fn every_metric_is_on_the_dashboard() {
    let shown: BTreeSet<_> =
        queries(&dashboard()).iter().flat_map(|(_, expr)| query::read(expr).selectors).map(|found| found.name).collect();
    let shown: BTreeSet<_> = shown.iter().filter_map(|name| metric(name)).map(|metric| metric.name).collect();
    let missing: Vec<_> = TABLE.iter().filter(|metric| !shown.contains(metric.name)).map(|metric| metric.name).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

// ---- alerts

/// The text under a heading, up to the next of its level.
fn section<'a>(page: &'a str, heading: &str) -> Option<&'a str> {
    let start = page.find(&format!("\n### {heading}\n"))? + 1;
    let rest = &page[start..];
    Some(&rest[..rest[4..].find("\n##").map_or(rest.len(), |end| end + 4)])
}

fn alert_faults(rule: &Rule, operations: &str, tests: &str) -> Vec<String> {
    let (mut wrong, name) = (Vec::new(), &rule.name);
    let camel = name.chars().next().is_some_and(char::is_uppercase) && name.chars().all(char::is_alphanumeric);
    let runbook = format!("docs/OPERATIONS.md#{}", name.to_lowercase());
    for (fault, holds) in [
        ("its name is not in camel case", camel),
        ("its severity is neither page nor ticket", ["page", "ticket"].contains(&&*rule.severity)),
        ("it has no summary", !rule.summary.is_empty()),
        ("its description does not say what to do", rule.description.ends_with('.') && rule.description.len() > 60),
        ("its runbook is not its section", rule.runbook == runbook),
    ] {
        if !holds {
            wrong.push(format!("{name}: {fault}"));
        }
    }
    let explained = section(operations, name).unwrap_or_default();
    for part in ["**It means**", "**Look at**", "**Do**"] {
        if !explained.contains(part) {
            wrong.push(format!("{name}: docs/OPERATIONS.md has no section with {part}"));
        }
    }
    let cases = |verb: &str| tests.split("  - name: ").filter(|case| case.starts_with(&format!("'{name} {verb}: "))).collect::<Vec<_>>();
    let fired = format!("- {{labels: 'ALERTS{{alertname=\"{name}\",alertstate=\"firing\",severity=\"{}\"", rule.severity);
    if !cases("fires").iter().any(|case| case.contains(&fired)) {
        wrong.push(format!("{name}: no unit test in which it fires"));
    }
    let silent = format!("- {{alertname: {name}, eval_time: ");
    if !cases("is silent").iter().any(|case| case.contains(&silent) && case.contains("exp_alerts: []}")) {
        wrong.push(format!("{name}: no unit test in which it does not fire"));
    }
    wrong
}

#[test]
fn every_alert_is_explained_and_tested() {
    let (operations, tests) = (page("docs/OPERATIONS.md"), page("dashboards/alerts_test.yml"));
    let rules = rules();
    assert!(rules.len() >= 17, "the rule file is not read: {}", rules.len());
    assert_none(&rules.iter().flat_map(|rule| alert_faults(rule, &operations, &tests)).collect::<Vec<_>>());
    let chapter = operations.split("\n## ").find(|chapter| chapter.starts_with("Alerts")).unwrap();
    let named: BTreeSet<&str> = chapter.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(named, rules.iter().map(|rule| &*rule.name).collect(), "sections under Alerts are the alerts");
    for rule in &rules {
        let name = &rule.name;
        let gone = operations.replace(&format!("### {name}\n"), "### Gone\n");
        assert_eq!(alert_faults(rule, &gone, &tests).len(), 3, "{name}: a section that is gone is missed");
        for verb in ["fires", "is silent"] {
            let gone = tests.replace(&format!("'{name} {verb}: "), "'Gone: ");
            assert_eq!(alert_faults(rule, &operations, &gone).len(), 1, "{name}: a test that is gone is missed");
        }
    }
}

#[test]
fn promtool_passes_the_rules_and_their_tests() {
    for arguments in [["check", "rules", "dashboards/alerts.yml"], ["test", "rules", "dashboards/alerts_test.yml"]] {
        let mut tool = Command::new(server::program("promtool"));
        let mut promtool = process::program("promtool", std::mem::replace(tool.args(arguments), Command::new(""))).start();
        promtool.wait_success(Duration::from_secs(60));
    }
}

/// The pages show what the queries answered when a demo ran: `RECEIPTED_PICTURES=docs/pictures cargo test --test dashboards running_demo`.
#[test]
fn every_panel_has_its_picture_in_the_docs() {
    let operations = page("docs/OPERATIONS.md");
    for (row, panels) in picture::rows(&dashboard()) {
        let file = picture::file(&row);
        assert!(operations.contains(&format!("(pictures/{file})")), "docs/OPERATIONS.md does not show {file}");
        let drawn = page(&format!("docs/pictures/{file}"));
        for panel in panels {
            let title = panels::text(&panel, "/title");
            assert!(picture::shows(&drawn, &panel), "docs/pictures/{file} has no {title:?}: draw it anew");
            assert!(!picture::shows(&drawn.replace(title, "gone"), &panel), "{title:?}: what is gone is missed");
        }
    }
}

// ---- the real thing

#[test]
fn every_query_and_every_alert_is_answered_from_a_running_demo() {
    // Before the demo, so that it sees counters rise from nothing.
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap().to_string();
    let prometheus = Prometheus::start(&address, &std::path::absolute("dashboards/alerts.yml").unwrap());
    let began = Instant::now();
    let mut demo = process::program("demo", Command::new(process::example("demo"))).arg("--keep").arg("--listen").arg(&address).start();
    demo.wait_line(&format!("curl http://{address}/"), DEMO_BOUND);
    for (title, expr) in queries(&dashboard()) {
        let answer = prometheus.wait_numbers(&title, &asked(&expr));
        if title.starts_with("Accounting identity") {
            assert_eq!(answer.len(), 1, "{title}");
            prometheus.wait_value(&title, &asked(&expr), 0.0);
        }
    }
    let rules = rules();
    let names: BTreeSet<String> = rules.iter().map(|rule| rule.name.clone()).collect();
    assert_eq!(prometheus.wait_evaluated(names.len()), names, "Prometheus has the alerts that were read from the file");
    for rule in &rules {
        prometheus.query(&rule.expr).unwrap_or_else(|error| panic!("{}: {error}", rule.name));
        for selector in query::read(&rule.expr).selectors {
            prometheus.wait_numbers(&rule.name, &selector.text);
        }
    }
    if let Some(folder) = std::env::var_os(picture::FOLDER) {
        picture::draw(&dashboard(), &prometheus, began.elapsed().as_secs(), Path::new(&folder));
    }
    demo.signal(rustix::process::Signal::INT);
    demo.wait_success(DEMO_BOUND);
    let down = rules.iter().find(|rule| rule.name == "InstanceDown").unwrap();
    prometheus.wait_numbers("an instance that is gone is seen", &down.expr);
}

/// A panel's query as Grafana would send it.
fn asked(expr: &str) -> String {
    [("$__rate_interval", "15s"), ("$__range", "5m"), ("$job", ".+"), ("$instance", ".+")]
        .iter()
        .fold(expr.to_owned(), |expr, (variable, value)| expr.replace(variable, value))
}
