//! A panic of a team's code is a value: it never unwinds into the worker, and claims nothing.

use crate::bank::*;
use receipted::{
    handler::{Answered, AttemptInfo, Reply},
    prelude::*,
    protocol::{note::DoubtReason, outcome::Outcome},
    testing::{Delivered, block_on, look_up},
};
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

fn explode(_: &Record) -> Result<String, BoxError> {
    panic!("in a key part")
}

#[test]
fn a_panic_in_a_key_part_makes_the_record_invalid_and_names_the_part() {
    let base = || operation::<()>("c.v1").fingerprint(whole_value());
    let tenant = routes(base().tenant(explode).id(fixed("b")).handle(nothing), ());
    let id = routes(base().tenant(fixed("a")).id([fixed("b"), explode.into_part()]).handle(nothing), ());
    let kind = routes(by(explode).on("charge", declared::<()>().handle(nothing)).otherwise(skip()), ());
    for (routes, part) in [(tenant, "tenant (function)"), (id, "id[1] (function)"), (kind, "by (function)")] {
        let fault = invalid(&routes, record("c7", "ada", 7));
        assert_eq!((fault.part(), fault.reason()), (Some(part), "the function panicked: in a key part"));
    }
}

#[test]
fn a_panic_in_the_correlation_leaves_the_record_without_one() {
    let routes = routes(declared().correlation(explode).handle(charge), Bank);
    assert_eq!(identity(&routes, record("c7", "ada", 7)).correlation(), None);
}

#[test]
fn a_panic_in_an_extractor_is_a_dead_letter_and_the_handler_is_not_called() {
    struct Own;
    impl<S> FromDelivery<S> for Own {
        fn from_delivery(_: &Delivery, _: &S) -> Result<Self, Invalid> {
            panic!("in an extractor")
        }
    }
    async fn handler(_: Own) -> Result<Applied, Failure> {
        unreachable!("the handler was called")
    }
    let routes = routes(declared().handle(handler), ());
    let reason = "extracting an argument panicked: in an extractor";
    assert_eq!(became(&routes, record("c7", "ada", 7)), Delivered::DeadLettered(reason.into()));
}

#[test]
fn a_panic_in_the_handler_is_unknown_before_and_inside_its_future() {
    fn before(_: Operation) -> std::future::Ready<Result<Applied, Failure>> {
        panic!("before its future")
    }
    async fn inside() -> Result<Applied, Failure> {
        std::future::ready(()).await;
        panic!("inside {}", "it")
    }
    for (route, text) in [(declared().handle(before), "before its future"), (declared().handle(inside), "inside it")] {
        let said = outcome(&routes(route, ()), record("c7", "ada", 7));
        assert_eq!(said, Outcome::Unknown(DoubtReason::Panic, format!("handler panicked: {text}")));
    }
}

#[test]
fn a_panic_that_carries_no_text_or_explodes_itself_is_unknown_too() {
    struct Payload;
    impl Drop for Payload {
        fn drop(&mut self) {
            panic!("in the payload's destructor")
        }
    }
    async fn handler() -> Result<Applied, Failure> {
        std::panic::panic_any(Payload)
    }
    let routes = routes(declared().handle(handler), ());
    // The test harness would not survive that payload.
    let said = catch_unwind(AssertUnwindSafe(|| outcome(&routes, record("c7", "ada", 7)))).map_err(std::mem::forget);
    assert_eq!(said, Ok(Outcome::Unknown(DoubtReason::Panic, "handler panicked: a panic without a text".into())));
}

#[test]
fn a_future_that_panics_when_it_is_dropped_stays_inside() {
    struct Bomb(Arc<AtomicU32>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("in a destructor")
        }
    }
    async fn waits(State(count): State<Arc<AtomicU32>>) -> Result<Applied, Failure> {
        let _bomb = Bomb(count);
        std::future::pending().await
    }
    let dropped = Arc::new(AtomicU32::new(0));
    let routes = routes(declared().handle(waits), dropped.clone());
    let attempt = routes.operations()[0].prepare(delivery(&routes, record("c7", "ada", 7), AttemptInfo::default())).expect("arguments");
    block_on(async {
        let mut running = attempt.into_future();
        std::future::poll_fn(|context| {
            assert!(std::pin::Pin::new(&mut running).poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[derive(Debug)]
struct Unprintable;
impl fmt::Display for Unprintable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("in an error's text")
    }
}
impl std::error::Error for Unprintable {}

#[test]
fn a_panic_in_an_errors_text_changes_no_outcome() {
    async fn no_effect() -> Result<Applied, Failure> {
        Err(Failure::no_effect(Unprintable))
    }
    async fn rejected() -> Result<Applied, Failure> {
        Err(Unprintable).rejected()
    }
    for (route, label) in [(declared().handle(no_effect), "no_effect"), (declared().handle(rejected), "rejected")] {
        assert_eq!(outcome(&routes(route, ()), record("c7", "ada", 7)).label(), label);
    }
}

#[test]
fn a_panic_in_a_lookup_or_a_reply_hook_is_an_error() {
    async fn find() -> Result<Finding, BankError> {
        panic!("in a lookup")
    }
    async fn answer(_: Reply) -> Result<(), BankError> {
        panic!("in a hook")
    }
    let contract = ask(find).after_quiet(Duration::from_secs(1));
    let routes = routes(declared::<()>().in_doubt(contract).reply(answer).handle(nothing), ());
    assert_eq!(block_on(look_up(&routes, "payments", record("c7", "ada", 7))), Err("lookup panicked: in a lookup".into()));
    let reply = Reply::new(delivery(&routes, record("c7", "ada", 7), AttemptInfo::default()), Answered::Rejected("no".into()));
    let replied = routes.operations()[0].reply(reply).expect("a hook");
    assert_eq!(block_on(replied), Err("reply hook panicked: in a hook".into()));
}

#[test]
fn a_panic_while_state_is_taken_is_an_error_for_handler_and_hook() {
    struct Bad;
    impl Clone for Bad {
        fn clone(&self) -> Self {
            panic!("in a clone")
        }
    }
    async fn handler(_: State<Bad>) -> Result<Applied, Failure> {
        unreachable!("the handler was called")
    }
    async fn answer(_: Reply, _: State<Bad>) -> Result<(), BankError> {
        unreachable!("the hook was called")
    }
    let routes = routes(declared().reply(answer).handle(handler), Bad);
    assert_eq!(became(&routes, record("c7", "ada", 7)).label(), "dead_lettered");
    let reply = Reply::new(delivery(&routes, record("c7", "ada", 7), AttemptInfo::default()), Answered::Rejected("no".into()));
    let replied = block_on(routes.operations()[0].reply(reply).expect("a hook"));
    assert!(replied.is_err_and(|text| text.contains("in a clone")));
}
