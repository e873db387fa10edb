//! The demo as a new user runs it, to its end: what its account says, and its exit code.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{process::Command, time::Duration};
use support::{broker, process};

/// Far more than the demo takes; it has bounds of its own.
const BOUND: Duration = Duration::from_secs(180);

fn the_demo_adds_up_and_says_so() {
    let mut demo = process::program("demo", Command::new(process::example("demo"))).start();
    demo.wait_success(BOUND);
    let lines = demo.lines();
    let says = |label: &str, number: &str| {
        let found =
            lines.iter().any(|line| line.trim_start().strip_prefix(label).is_some_and(|rest| rest.trim_start().starts_with(number)));
        assert!(found, "no line {label:?} with {number}\n{}", demo.output());
    };
    says("operations", "1,025 ");
    says("effects in the ledger", "1,025 ");
    says("conflicts", "3 ");
    says("dead letters", "4 ");
    says("unresolved", "3 ");
    says("duplicate effects, counted", "1 ");
    says("incident: acme/payout.v1/PAY-2", ", references ");
    says("lost", "0");
    says("silent duplicate effects", "0");
    says("It adds up.", "");
    assert!(!lines.iter().any(|line| line.contains('\u{1b}')), "plain lines where there is no terminal");
}

/// On somebody's cluster: the same account, and nothing of it is there afterwards.
fn the_demo_adds_up_on_a_cluster_that_is_given() {
    let cluster = broker::shared();
    let mut demo = process::program("demo", Command::new(process::example("demo"))).arg("--brokers").arg(cluster.brokers()).start();
    demo.wait_success(BOUND);
    assert!(demo.lines().iter().any(|line| line.trim_start().starts_with("It adds up.")), "{}", demo.output());
    for topic in ["invoices", "reminders", "payouts", "dead-letters"] {
        assert_eq!(cluster.partitions(&format!("receipted-demo.{topic}")), None);
    }
    cluster.create_topic("receipted-demo.payouts", 1, &[]);
    let mut demo = process::program("demo", Command::new(process::example("demo"))).arg("--brokers").arg(cluster.brokers()).start();
    assert_eq!(demo.wait(BOUND).code(), Some(1));
    assert!(demo.output().contains("has a topic \"receipted-demo.payouts\" already"), "{}", demo.output());
    assert_eq!(cluster.partitions("receipted-demo.payouts"), Some(1), "somebody's topic is not touched");
    cluster.delete_topic("receipted-demo.payouts");
}

fn a_wrong_argument_is_refused() {
    let mut demo = process::program("demo", Command::new(process::example("demo"))).arg("--kep").start();
    assert_eq!(demo.wait(BOUND).code(), Some(2));
    assert!(demo.output().contains("--keep"));
}

fn main() {
    let mut tests = trials![the_demo_adds_up_and_says_so, a_wrong_argument_is_refused];
    tests.extend(trials![real broker: the_demo_adds_up_on_a_cluster_that_is_given]);
    process::run(tests, &[]);
}
