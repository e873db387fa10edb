//! Owns Debian's Prometheus on loopback, and its answers. Does not own what is asked.

use crate::support::{
    http,
    process::{self, Child, wait_for},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

/// How long an answer may take to come: some scrapes, on a machine that has other things to do.
const BOUND: Duration = Duration::from_secs(60);

/// A program of Debian's package `prometheus`: the machine's own, else the one that `tools/install.sh watch` unpacked.
pub fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache/prometheus/usr/bin");
    let found = std::env::split_paths(&path).chain([unpacked]).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is missing: run tools/install.sh watch"))
}

/// One line of an answer over time.
pub struct Series {
    pub labels: BTreeMap<String, String>,
    /// Seconds since the beginning, and the value there; gaps are left out.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    fn read(one: &Value, start: u64) -> Self {
        let labels = one["metric"].as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()));
        let point = |pair: &Value| Some((pair[0].as_f64()? - start as f64, pair[1].as_str()?.parse().ok()?));
        let points = one["values"].as_array().unwrap().iter().filter_map(point).filter(|(_, value): &(f64, f64)| value.is_finite());
        Self { labels: labels.collect(), points: points.collect() }
    }
}

fn encoded(expr: &str) -> String {
    expr.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

pub struct Prometheus {
    address: String,
    // Dropped in this order.
    _child: Child,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// Starts it with the rules, to look at that address every second.
    pub fn start(target: &str, rules: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("receipted-prometheus-").tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap().to_string();
        let configuration = folder.path().join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{rules:?}]\nscrape_configs:\n- job_name: receipted\n  static_configs: [{{targets: [{target:?}]}}]\n"
        );
        std::fs::write(&configuration, text).unwrap();
        let mut command = Command::new(program("prometheus"));
        command.arg(format!("--config.file={}", configuration.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
        command.arg(format!("--web.listen-address={address}"));
        let mut child = process::program("prometheus", command).start();
        wait_for("Prometheus is ready", BOUND, || {
            assert!(child.ended().is_none(), "{}", child.output());
            http::get(&address, "/-/ready").is_ok_and(|(status, _)| status == 200).then_some(())
        });
        Self { address, _child: child, _folder: folder }
    }

    /// The series of an answer, each with its value; the error is what Prometheus says.
    pub fn query(&self, expr: &str) -> Result<Vec<f64>, String> {
        let answer = self.get(&format!("/api/v1/query?query={}", encoded(expr)))?;
        let series = answer.pointer("/data/result").and_then(Value::as_array).ok_or("no result")?;
        series
            .iter()
            .map(|one| one.pointer("/value/1").and_then(Value::as_str)?.parse().ok())
            .collect::<Option<_>>()
            .ok_or("no values".into())
    }

    /// The series of a query over the last so many seconds, a point each second.
    pub fn range(&self, expr: &str, seconds: u64) -> Result<Vec<Series>, String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(|error| error.to_string())?.as_secs();
        let answer = self.get(&format!("/api/v1/query_range?query={}&start={}&end={now}&step=1", encoded(expr), now - seconds))?;
        let series = answer.pointer("/data/result").and_then(Value::as_array).ok_or("no result")?;
        Ok(series.iter().map(|one| Series::read(one, now - seconds)).collect())
    }

    /// Waits until a query has series, and one of them a number.
    #[track_caller]
    pub fn wait_numbers(&self, what: &str, expr: &str) -> Vec<f64> {
        wait_for(&format!("{what}: series of {expr}"), BOUND, || {
            let values = self.query(expr).unwrap_or_else(|error| panic!("{what}: {error}"));
            values.iter().any(|value| !value.is_nan()).then_some(values)
        })
    }

    /// Waits until a query has this value.
    #[track_caller]
    pub fn wait_value(&self, what: &str, expr: &str, value: f64) {
        wait_for(&format!("{what}: {value}"), BOUND, || (self.query(expr) == Ok(vec![value])).then_some(()));
    }

    /// Waits until that many alerts were evaluated without an error, and gives their names.
    #[track_caller]
    pub fn wait_evaluated(&self, alerts: usize) -> BTreeSet<String> {
        wait_for("every alert is evaluated", BOUND, || {
            let answer = self.get("/api/v1/rules").unwrap_or_else(|error| panic!("{error}"));
            let groups = answer.pointer("/data/groups").and_then(Value::as_array)?;
            let rules: Vec<&Value> = groups.iter().filter_map(|group| group["rules"].as_array()).flatten().collect();
            let healthy: BTreeSet<String> = rules
                .iter()
                .filter(|rule| rule["health"] == "ok")
                .map(|rule| rule["name"].as_str().unwrap_or_default().to_owned())
                .collect();
            (healthy.len() == alerts && rules.len() == alerts).then_some(healthy)
        })
    }

    fn get(&self, path: &str) -> Result<Value, String> {
        let (status, body) = http::get(&self.address, path)?;
        if status == 200 { serde_json::from_str(&body).map_err(|error| error.to_string()) } else { Err(format!("{status}: {body}")) }
    }
}
