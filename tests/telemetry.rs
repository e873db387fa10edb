//! What operators see: every metric is in one table, on one page of the documentation, and there at zero from the start; the pages
//! say what is asked of them.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use receipted::{
    protocol::{
        change::Total,
        note::{DoubtReason, Fact, Slot},
        outcome::{Finding, Outcome},
        park::{ParkId, ParkReason},
        policy::Contract,
        time::UnixMillis,
    },
    store::Partition,
    telemetry::{
        observe::{self, Progress},
        pages::{self, Pages},
        recorder,
        table::{self, Kind, Label, Served, TABLE},
    },
};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use support::http::{self, Samples};

fn served() -> Vec<Served> {
    let serve = |topic: &str, operation: &str, contract: Contract| Served {
        topic: topic.into(),
        operation: operation.into(),
        contract: contract.label(),
    };
    let quiet = Duration::from_secs(1);
    vec![
        serve("payments", "charge.v1", Contract::Hold { quiet }),
        serve("payments", "refund.v1", Contract::Ask { quiet }),
        serve("mail", "mail.v1", Contract::Hold { quiet }),
    ]
}

/// The page after `act`, beginning with every series at zero.
fn page(act: impl FnOnce()) -> Samples {
    let recorder = recorder::build().unwrap();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        table::describe_and_zero(&served());
        act();
    });
    Samples::parse(&handle.render()).unwrap()
}

fn known(label: &str, value: &str) -> bool {
    TABLE
        .iter()
        .flat_map(|metric| metric.labels)
        .any(|of| matches!(of, Label::Of(name, values) if *name == label && values.contains(&value)))
}

#[test]
fn the_documentation_has_exactly_this_table() {
    let page = std::fs::read_to_string("docs/METRICS.md").unwrap();
    let listed: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    let table = table::markdown();
    let expected: Vec<&str> = table.lines().collect();
    for (listed, expected) in listed.iter().zip(&expected) {
        assert_eq!(listed, expected, "docs/METRICS.md is to say this");
    }
    assert_eq!(listed.len(), expected.len(), "{table}");
}

#[test]
fn names_are_unique_and_say_their_kind() {
    let names: BTreeSet<&str> = TABLE.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), TABLE.len());
    for metric in TABLE {
        assert!(metric.name.starts_with("receipted_"), "{}", metric.name);
        let counts = matches!(metric.kind, Kind::Counter | Kind::Durable);
        assert_eq!(metric.name.ends_with("_total"), counts, "{}", metric.name);
        assert!(metric.help.ends_with('.'), "{}", metric.name);
    }
}

#[test]
fn every_series_exists_at_zero_from_the_start() {
    let page = page(|| {});
    for metric in TABLE {
        let suffix = if metric.kind == Kind::Histogram { "_count" } else { "" };
        let series = table::series(metric, &served());
        assert_eq!(series.is_empty(), metric.labels.contains(&Label::TopicPartition), "{}", metric.name);
        for labels in series {
            let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let expected = if metric.name == "receipted_route_info" { 1.0 } else { 0.0 };
            assert_eq!(page.value(&format!("{}{suffix}", metric.name), &labels), Some(expected), "{} {labels:?}", metric.name);
        }
    }
    let outcome = |topic, operation| page.sum("receipted_operations_total", &[("topic", topic), ("operation", operation)]);
    assert_eq!((outcome("payments", "refund.v1"), outcome("mail", "none")), (Some(0.0), Some(0.0)));
    assert_eq!(outcome("mail", "charge.v1"), None, "an operation that the topic does not carry");
}

/// A durable counter that a look finds at zero after a restart is a reset to Prometheus, and counts once more: `increase()` would tell of
/// every old duplicate effect again. So the store's values may come first.
#[test]
fn what_the_store_has_counted_is_never_put_back_to_zero() {
    let recorder = recorder::build().unwrap();
    let page = metrics::with_local_recorder(&recorder, || {
        let labels = [("detector", "audit"), ("certainty", "certain")];
        metrics::counter!("receipted_duplicate_effects_total", &labels).absolute(7);
        metrics::gauge!("receipted_store_bytes").set(5.0);
        table::describe_and_zero(&served());
        recorder.handle().render()
    });
    let page = Samples::parse(&page).unwrap();
    let effects =
        |detector, certainty| page.value("receipted_duplicate_effects_total", &[("detector", detector), ("certainty", certainty)]);
    assert_eq!((effects("audit", "certain"), effects("audit", "suspected")), (Some(7.0), Some(0.0)));
    assert_eq!((page.value("receipted_store_bytes", &[]), page.value("receipted_parked_bytes", &[])), (Some(5.0), Some(0.0)));
}

#[test]
fn every_page_name_is_in_the_table() {
    let page = page(every_fact);
    let known: BTreeSet<&str> = TABLE.iter().map(|metric| metric.name).collect();
    for name in page.names() {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        assert!(known.contains(name) || known.contains(base), "{name} is not in the table");
    }
}

/// Every function of `observe`, once.
fn every_fact() {
    let (partition, slot) = (Partition { topic: "mail".into(), number: 3 }, Slot { topic: "mail".into(), partition: 3, offset: 9 });
    observe::records_fetched("mail", 5);
    observe::ended("mail", Some("mail.v1"), "applied", 2);
    observe::ended("mail", None, "dead_lettered", 1);
    observe::suppressed("settled", 1);
    observe::attempts_started("first", 1);
    observe::attempts_finished("applied", 1);
    observe::late_completions("after_timeout", "applied", 1);
    observe::parameter_conflicts("second", 1);
    observe::offset_regression(&partition, 1, 2);
    observe::partition_refused(&partition, &"other store");
    observe::partition_halted(&slot, "recreated");
    observe::partition_open(&partition, 1);
    observe::partition_held(&partition, observe::Held::Paused);
    observe::partition_act(&partition, "pause", "ada", 1000, "tonight");
    observe::partition_act_refused(&partition, "resume", "halted");
    observe::rebalance("assign", 1);
    observe::committed(Duration::from_millis(3));
    observe::commit_failed(&"away");
    observe::client_error("consumer", &"away", "a broker", Some(0));
    observe::brokers_silent("consumer", "b:9092", "1/1", None);
    observe::brokers_answer("consumer", 3);
    observe::client_says("consumer", 4, "REQTMOUT", "timed out", Some(0));
    observe::lag("mail", 3, 17);
    observe::progress(&partition, Progress { watermark: 40, gap: 4, in_flight: 2, since: UnixMillis(1_500) });
    observe::store_submitted(7);
    observe::store_synced(5, 12, Duration::from_millis(1));
    let key = receipted::protocol::key::KeyDigest([1; 32]);
    for finding in [Ok(Finding::NotFound), Ok(Finding::Pending), Ok(Finding::Found(vec![])), Err("away".to_string())] {
        observe::looked_up(&key, &finding);
    }
    observe::not_unparked(&ParkId { slot, number: 1 }, "gone");
    observe::stop_cut_off(1);
    observe::group_not_described("g", &"old broker");
    observe::operator_changed("ada", 1000, Some(key), "settle applied", "seen");
    observe::operator_refused("ada", 1000, "discard", "repeats");
    observe::snapshot_failed(&"away");
    observe::key_not_taken("mail.v1");
}

#[test]
fn a_fact_is_counted_where_the_table_says() {
    let page = page(every_fact);
    let at = ("partition", "3");
    for (name, labels, value) in [
        ("receipted_records_fetched_total", &[("topic", "mail")][..], 5.0),
        ("receipted_operations_total", &[("topic", "mail"), ("operation", "mail.v1"), ("outcome", "applied")], 2.0),
        ("receipted_operations_total", &[("topic", "mail"), ("operation", "none"), ("outcome", "dead_lettered")], 1.0),
        ("receipted_suppressed_total", &[("reason", "settled")], 1.0),
        ("receipted_attempts_started_total", &[("kind", "first")], 1.0),
        ("receipted_attempts_finished_total", &[("result", "applied")], 1.0),
        ("receipted_late_completions_total", &[("relation", "after_timeout"), ("result", "applied")], 1.0),
        ("receipted_parameter_conflicts_total", &[("side", "second")], 1.0),
        ("receipted_offset_regressions_total", &[("topic", "mail")], 1.0),
        ("receipted_provider_key_unused_total", &[("operation", "mail.v1")], 1.0),
        ("receipted_partition_held", &[("topic", "mail"), at, ("why", "halted")], 0.0),
        ("receipted_partition_held", &[("topic", "mail"), at, ("why", "paused")], 1.0),
        ("receipted_rebalances_total", &[("kind", "assign")], 1.0),
        ("receipted_commit_seconds_count", &[], 1.0),
        ("receipted_commit_failures_total", &[], 1.0),
        ("receipted_client_errors_total", &[], 2.0),
        ("receipted_lag_records", &[("topic", "mail"), at], 17.0),
        ("receipted_watermark", &[("topic", "mail"), at], 40.0),
        ("receipted_watermark_gap_records", &[("topic", "mail"), at], 4.0),
        ("receipted_records_in_flight", &[("topic", "mail"), at], 2.0),
        ("receipted_progress_timestamp_seconds", &[("topic", "mail"), at], 1.5),
        ("receipted_receipts_pending", &[], 2.0),
        ("receipted_receipt_group_size_sum", &[], 12.0),
        ("receipted_receipt_sync_seconds_count", &[], 1.0),
        ("receipted_lookups_total", &[("result", "failed")], 1.0),
        ("receipted_lookups_total", &[("result", "found")], 1.0),
    ] {
        assert_eq!(page.value(name, labels), Some(value), "{name} {labels:?}");
    }
}

#[test]
fn an_unknown_lag_and_a_partition_that_left_say_nothing() {
    let partition = Partition { topic: "mail".into(), number: 1 };
    let labels = [("topic", "mail"), ("partition", "1")];
    let unknown = page(|| observe::lag("mail", 1, -1));
    assert_eq!(unknown.value("receipted_lag_records", &labels), None);
    let left = page(|| {
        observe::lag("mail", 1, 9);
        observe::progress(&partition, Progress { watermark: 40, gap: 4, in_flight: 2, since: UnixMillis(0) });
        observe::partition_left(&partition);
    });
    for name in ["receipted_lag_records", "receipted_watermark_gap_records", "receipted_records_in_flight"] {
        assert_eq!(left.value(name, &labels), Some(0.0), "{name}");
    }
}

/// The rules' own words are label values of the table, so that nothing is counted beside the zeros.
#[test]
fn every_word_of_the_rules_is_a_value_of_the_table() {
    for reason in DoubtReason::ALL {
        let ends = known("result", reason.label());
        assert!(known("reason", reason.label()) && ends == (reason != DoubtReason::Crash), "{reason:?}: a crash ends no attempt by itself");
    }
    for reason in ParkReason::ALL {
        assert!(known("reason", reason.label()), "{reason:?}");
    }
    for fact in [Fact::Rejected(String::new()), Fact::NoEffect(String::new()), Fact::NotStarted] {
        let label = receipted::protocol::known::fact_label(&fact);
        assert!(known("result", label) && known("verdict", label), "{label}");
    }
    let unknown = Outcome::Unknown(DoubtReason::Unknown, String::new());
    assert!(known("result", unknown.label()));
    use receipted::protocol::machine::StartKind;
    for kind in [StartKind::First, StartKind::Retry, StartKind::Rerun, StartKind::Resumed] {
        assert!(known("kind", kind.label()), "{kind:?}");
    }
}

#[test]
fn durable_totals_have_a_metric_each() {
    for (total, name) in [
        (Total::DuplicateEffects("late_completion".into(), "certain".into()), "receipted_duplicate_effects_total"),
        (Total::PriorEffects("foreign".into()), "receipted_prior_effects_found_total"),
        (Total::UnresolvedOpened("crash".into()), "receipted_unresolved_opened_total"),
        (Total::UnresolvedClosed("not_done".into(), "operator".into()), "receipted_unresolved_closed_total"),
        (Total::ParkedOpened("poison".into()), "receipted_parked_opened_total"),
        (Total::ParkedClosed("poison".into(), "runner".into()), "receipted_parked_closed_total"),
    ] {
        let metric = TABLE.iter().find(|metric| metric.name == name).unwrap();
        assert_eq!(metric.kind, Kind::Durable, "{total:?}");
    }
}

struct Serving {
    address: String,
    live: Arc<AtomicBool>,
    ready: Arc<AtomicBool>,
}

fn serve_pages() -> Serving {
    let recorder = recorder::build().unwrap();
    let metrics = recorder.handle();
    metrics::with_local_recorder(&recorder, || table::describe_and_zero(&served()));
    let (live, ready) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let probe = |flag: &Arc<AtomicBool>, reason: &'static str| -> pages::Probe {
        let flag = flag.clone();
        Arc::new(move || if flag.load(Ordering::SeqCst) { Ok(()) } else { Err(reason.into()) })
    };
    let pages = Pages { metrics, live: probe(&live, "it stands"), ready: probe(&ready, "0 of 6 partitions are open") };
    let listener = support::block_on(async { tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap() });
    let address = listener.local_addr().unwrap().to_string();
    support::runtime().spawn(pages::serve(listener, pages, std::future::pending()));
    Serving { address, live, ready }
}

#[test]
fn health_pages_answer_with_their_reasons_and_metrics_are_text() {
    let served = serve_pages();
    assert_eq!(http::get(&served.address, "/health/live"), Ok((200, r#"{"ok":true,"reasons":[]}"#.into())));
    let said = r#"{"ok":false,"reasons":["0 of 6 partitions are open"]}"#;
    assert_eq!(http::get(&served.address, "/health/ready"), Ok((503, said.into())));
    served.ready.store(true, Ordering::SeqCst);
    served.live.store(false, Ordering::SeqCst);
    assert_eq!(http::get(&served.address, "/health/ready").unwrap().0, 200);
    assert_eq!(http::get(&served.address, "/health/live").unwrap().0, 503);
    let page = Samples::at(&served.address);
    assert_eq!(page.value("receipted_parked_bytes", &[]), Some(0.0));
}

#[test]
fn nothing_that_changes_state_is_served_on_tcp() {
    let served = serve_pages();
    for path in ["/operations", "/operations/settle", "/status", "/"] {
        assert_eq!(http::get(&served.address, path).unwrap().0, 404, "{path}");
    }
}
