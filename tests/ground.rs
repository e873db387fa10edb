//! Holds the rest of the test support to its word: the destination does what it is told and its ledger says what took
//! effect, children are killed and quoted, the metrics page is read right.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::process::Command;
use std::time::Duration;
use support::block_on;
use support::destination::{
    self, Apply, ApplyError, Behaviour, Control, Destination, Done, Effect, Lookup, Memory, Server, any, is, prefix,
};
use support::http::{Samples, get};
use support::process::{self, wait_until};

const BOUND: Duration = Duration::from_secs(20);

fn apply(destination: &Destination, key: &str, operation: &str) -> Result<Done, ApplyError> {
    let (destination, apply) = (destination.clone(), Apply::new(key, operation).amount(7).attempt(1));
    block_on(async move { destination.apply(apply).await })
}

fn find(destination: &Destination, key: &str) -> Result<Option<Effect>, ApplyError> {
    let (destination, key) = (destination.clone(), key.to_owned());
    block_on(async move { destination.find(&key).await })
}

/// Starts a request and leaves it to itself.
fn begin(destination: &Destination, key: &str, operation: &str) -> tokio::task::JoinHandle<Result<Done, ApplyError>> {
    let (destination, apply) = (destination.clone(), Apply::new(key, operation));
    support::runtime().spawn(async move { destination.apply(apply).await })
}

fn the_ledger_names_what_is_lost_doubled_and_unexpected() {
    let server = Server::start();
    let destination = Destination::new(server.address());
    for (key, operation) in [("k1", "acme/charge/1"), ("k1", "acme/charge/1"), ("k2", "acme/charge/2"), ("k9", "acme/charge/9")] {
        apply(&destination, key, operation).unwrap();
    }
    let ledger = server.ledger();
    assert_eq!((ledger.total(), ledger.excess()), (4, 1));
    assert_eq!(ledger.doubled().into_keys().collect::<Vec<_>>(), ["acme/charge/1"]);
    let expected = ["acme/charge/1", "acme/charge/2", "acme/charge/3"];
    assert_eq!(ledger.lost(expected), ["acme/charge/3"]);
    assert_eq!(ledger.unexpected(expected), ["acme/charge/9"]);
    let first = ledger.of("acme/charge/1")[0];
    assert_eq!((first.key.as_str(), first.tenant.as_str(), first.amount, first.attempt), ("k1", "acme", 7, 1));
    assert_ne!(first.reference, ledger.of("acme/charge/1")[1].reference);
}

fn an_honest_destination_recognises_a_key_until_it_forgets() {
    let server = Server::start();
    let destination = Destination::new(server.address());
    server.memory(prefix("acme/"), Memory::ByKey);
    let first = apply(&destination, "k", "acme/charge/1").unwrap();
    assert!(!first.already);
    assert_eq!(apply(&destination, "k", "acme/charge/1").unwrap(), Done { already: true, ..first.clone() });
    assert_eq!(find(&destination, "k").unwrap().unwrap().reference, first.reference);
    assert_eq!(server.count("acme/charge/1").recognised, 1);
    server.memory(is("acme/charge/1"), Memory::None);
    assert!(!apply(&destination, "k", "acme/charge/1").unwrap().already, "a liar books again");
    server.memory(any(), Memory::ByKey);
    server.forget(is("k"));
    assert_eq!(find(&destination, "k").unwrap(), None);
    assert!(!apply(&destination, "k", "acme/charge/1").unwrap().already);
    assert_eq!(server.ledger().total(), 3);
}

fn each_behaviour_has_the_effect_and_the_answer_that_it_names() {
    use Behaviour::*;
    // Behaviour, whether the effect is in the ledger at the end, and what the caller gets.
    type Fits = fn(&Result<Done, ApplyError>) -> bool;
    let table: [(Behaviour, bool, Fits); 6] = [
        (Answer, true, |got| got.is_ok()),
        (LoseAnswer, true, |got| matches!(got, Err(ApplyError::Lost(_)))),
        (LoseRequest, false, |got| matches!(got, Err(ApplyError::Lost(_)))),
        (Reject("no".into()), false, |got| matches!(got, Err(ApplyError::Rejected(why)) if why == "no")),
        (Unavailable, false, |got| matches!(got, Err(ApplyError::Unavailable))),
        (HookAfter, true, |got| got.is_ok()),
    ];
    for (behaviour, effect, fits) in table {
        let server = Server::start();
        server.hook(|_| ());
        server.once(is("a/b/1"), behaviour.clone());
        let destination = Destination::new(server.address());
        let got = apply(&destination, "k", "a/b/1");
        assert!(fits(&got), "{behaviour:?} answers {got:?}");
        assert_eq!(server.ledger().total(), usize::from(effect), "{behaviour:?}");
        assert!(apply(&destination, "k", "a/b/1").is_ok(), "{behaviour:?} is for one request");
        assert_eq!(server.count("a/b/1").requests, 2);
    }
}

fn late_behaviours_wait_until_they_are_released() {
    use Behaviour::*;
    // Behaviour, effects before the release, effects after it.
    for (behaviour, before, after) in [(AnswerLate, 1, 1), (ApplyLate, 0, 1), (Hang, 0, 0)] {
        let server = Server::start();
        let destination = Destination::new(server.address());
        let rule = server.once(any(), behaviour.clone());
        let waiting = begin(&destination, "k", "a/b/1");
        server.wait_hits(rule, 1, BOUND);
        wait_until("the first effects", BOUND, || server.ledger().total() == before);
        assert!(!waiting.is_finished(), "{behaviour:?} waits");
        server.release(rule);
        let got = block_on(waiting).unwrap();
        assert_eq!(got.is_ok(), behaviour != Hang, "{behaviour:?} answers {got:?}");
        assert_eq!(server.ledger().total(), after, "{behaviour:?}");
    }
}

fn a_late_request_lands_though_its_caller_is_gone() {
    let server = Server::start();
    let rule = server.once(any(), Behaviour::ApplyLate);
    let caller = begin(&Destination::new(server.address()), "k", "a/b/1");
    server.wait_hits(rule, 1, BOUND);
    caller.abort();
    assert!(block_on(caller).unwrap_err().is_cancelled());
    assert_eq!(server.ledger().total(), 0);
    server.release(rule);
    wait_until("the late effect", BOUND, || server.ledger().total() == 1);
}

fn a_lookup_can_be_blind_late_or_refused() {
    let server = Server::start();
    let destination = Destination::new(server.address());
    apply(&destination, "k", "a/b/1").unwrap();
    server.lookups_times(1, is("k"), Lookup::Blind);
    assert_eq!(find(&destination, "k").unwrap(), None);
    server.lookups_times(1, is("k"), Lookup::Unavailable);
    assert!(matches!(find(&destination, "k"), Err(ApplyError::Unavailable)));
    server.lookups_times(1, is("k"), Lookup::Lost);
    assert!(matches!(find(&destination, "k"), Err(ApplyError::Lost(_))));
    let rule = server.lookups(is("k"), Lookup::Late);
    let (asking, asked) = (destination.clone(), rule);
    let late = support::runtime().spawn(async move { asking.find("k").await });
    server.wait_hits(asked, 1, BOUND);
    assert!(!late.is_finished());
    server.release(rule);
    assert!(block_on(late).unwrap().unwrap().is_some());
    assert!(find(&destination, "k").unwrap().is_some());
    assert_eq!(server.count("a/b/1").lookups, 5);
}

fn a_caller_is_killed_before_or_after_its_effect() {
    for (behaviour, effects) in [(Behaviour::KillBefore, 0), (Behaviour::KillAfter, 1)] {
        let server = Server::start();
        server.once(is("a/b/1"), behaviour);
        let mut caller = process::role("caller").env("ADDRESS", server.address()).start();
        let status = caller.wait(BOUND);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{}", caller.output());
        assert_eq!(server.ledger().total(), effects);
    }
}

fn call_once() {
    let destination = Destination::new(std::env::var("ADDRESS").unwrap());
    let answer = apply(&destination, "k", "a/b/1");
    println!("still alive with {answer:?}");
}

fn a_destination_in_its_own_process_keeps_its_ledger_through_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ledger");
    let start = || {
        let mut child = process::role("destination").env("RECEIPTED_TEST_LEDGER", &file).start();
        let address = child.wait_line("destination ", BOUND).replace("destination ", "");
        (child, address)
    };
    let (mut child, address) = start();
    let control = Control::of(&address);
    control.once(any(), Behaviour::LoseAnswer);
    assert!(matches!(apply(&Destination::new(&*address), "k", "a/b/1"), Err(ApplyError::Lost(_))));
    let before = control.ledger();
    assert_eq!(before.total(), 1);
    child.kill();
    let (_child, address) = start();
    assert_eq!(Control::of(&address).ledger(), before);
    assert_eq!(find(&Destination::new(&*address), "k").unwrap().as_ref(), before.of("a/b/1").first().copied());
}

fn what_a_child_wrote_is_quoted_when_it_does_not_do_as_expected() {
    let mut command = Command::new("sh");
    command.args(["-c", "echo said; echo complained >&2; exit 3"]);
    let mut child = process::program("a shell", command).start();
    assert_eq!(child.wait(BOUND).code(), Some(3));
    let output = child.output();
    assert!(output.contains("out| said") && output.contains("err| complained"), "{output}");
    let missed = support::catch_quietly(|| child.wait_line("never", BOUND));
    assert!(missed.is_none(), "a line that a dead child did not write is not waited for");
}

fn a_role_ends_when_its_standard_input_does() {
    let mut child = process::role("idle").start();
    child.wait_line("idle", BOUND);
    assert_eq!(child.ended(), None);
    child.close_stdin();
    assert_eq!(child.wait(BOUND).code(), Some(70));
}

fn idle() {
    println!("idle");
    loop {
        std::thread::park();
    }
}

fn a_metrics_page_is_read_by_name_and_labels() {
    let text = concat!(
        "# HELP receipted_a Something\n# TYPE receipted_a counter\n",
        "receipted_a{topic=\"x, \\\"y\\\"\",reason=\"}\"} 3\nreceipted_a{topic=\"z\"} 4 1700000000000\nreceipted_b 1.5e3\n\n",
    );
    let samples = Samples::parse(text).unwrap();
    assert_eq!(samples.value("receipted_a", &[("reason", "}"), ("topic", "x, \"y\"")]), Some(3.0));
    assert_eq!(samples.value("receipted_a", &[("topic", "x")]), None);
    assert_eq!(samples.sum("receipted_a", &[]), Some(7.0));
    assert_eq!(samples.sum("receipted_a", &[("topic", "z")]), Some(4.0));
    assert_eq!(samples.value("receipted_b", &[]), Some(1500.0));
    assert_eq!(samples.names(), ["receipted_a", "receipted_b"]);
    assert_eq!(Samples::parse("receipted_a{topic=\"x} 3"), Err("receipted_a{topic=\"x} 3".into()));
}

fn a_page_is_fetched_with_its_status() {
    let listener = block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let app = axum::Router::new().route("/metrics", axum::routing::get(async || "receipted_a 1\n"));
    support::runtime().spawn(async move { axum::serve(listener, app).await });
    assert_eq!(Samples::at(&address).value("receipted_a", &[]), Some(1.0));
    assert_eq!(get(&address, "/other").unwrap().0, 404);
    assert!(get("127.0.0.1:1", "/metrics").is_err());
}

fn main() {
    let tests = trials![
        the_ledger_names_what_is_lost_doubled_and_unexpected,
        an_honest_destination_recognises_a_key_until_it_forgets,
        each_behaviour_has_the_effect_and_the_answer_that_it_names,
        late_behaviours_wait_until_they_are_released,
        a_late_request_lands_though_its_caller_is_gone,
        a_lookup_can_be_blind_late_or_refused,
        a_caller_is_killed_before_or_after_its_effect,
        a_destination_in_its_own_process_keeps_its_ledger_through_a_kill,
        what_a_child_wrote_is_quoted_when_it_does_not_do_as_expected,
        a_role_ends_when_its_standard_input_does,
        a_metrics_page_is_read_by_name_and_labels,
        a_page_is_fetched_with_its_status,
    ];
    process::run(tests, &[("caller", call_once), ("destination", destination::role), ("idle", idle)])
}
