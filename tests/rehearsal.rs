//! The rehearsal that teams test with: what it promises of the outside world is counted in a ledger that outlives the app.
#![cfg(feature = "kafka")]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use receipted::{
    handler::{Contract, ReadyApp},
    prelude::*,
    protocol::{
        key::{Alphabet, OperationKey},
        note::Author,
        settle::{Act, Change, Settle, Settlement},
    },
    store::{ReceiptStore, memory::Fault as StoreFault},
    testing::{Answers, Booked, Destination, Fault, Rehearsal, record, rehearsal},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

#[derive(serde::Deserialize)]
struct Invoice {
    cents: u64,
}

async fn issue(op: Operation, Json(invoice): Json<Invoice>, State(books): State<Destination>) -> Result<Applied, Failure> {
    match books.book(op.provider_key(), invoice.cents).await {
        Ok(Booked::Now(reference)) => Ok(Applied::new(reference, ())),
        Ok(Booked::Before(reference)) => Ok(Applied::already(reference, ())),
        Err(down @ Fault::Down) => Err(down).no_effect(),
        Err(lost) => Err(lost).unknown(),
    }
}

async fn find(op: Operation, State(books): State<Destination>) -> Result<Finding, std::io::Error> {
    Ok(books.find(op.provider_key()).map_or(Finding::NotFound, |reference| Finding::Found(Applied::new(reference, ()))))
}

fn app(contract: impl Fn() -> Contract<Destination>, books: &Destination) -> ReadyApp<Destination> {
    let issue = operation("invoice.issue.v1")
        .tenant(fixed("acme"))
        .id(json("/id"))
        .fingerprint(json_fields(["/cents"]))
        .in_doubt(contract())
        .time_limit(30 * SECOND)
        .handle(issue);
    App::new().topic("invoices", issue).with_state(books.clone())
}

async fn start(contract: impl Fn() -> Contract<Destination> + Send + Sync + 'static, books: &Destination) -> Rehearsal {
    let books = books.clone();
    Rehearsal::start(move || app(&contract, &books)).await.unwrap()
}

fn invoice(id: &str, cents: u64) -> receipted::testing::RecordBuilder {
    record().key(id).value(format!(r#"{{"id":"{id}","cents":{cents}}}"#))
}

fn dedup() -> Contract<Destination> {
    destination_deduplicates(DAY).then(hold())
}

#[tokio::test(start_paused = true)]
async fn repeats_have_one_effect_and_another_amount_is_a_conflict() {
    let books = Destination::forgetful();
    let mut app = start(hold, &books).await;
    for _ in 0..3 {
        app.deliver("invoices", invoice("4711", 100)).unwrap();
    }
    app.complete_within(SECOND).await.unwrap();
    app.deliver("invoices", invoice("4711", 100)).unwrap();
    app.deliver("invoices", invoice("4711", 999)).unwrap();
    app.complete_within(SECOND).await.unwrap();
    assert_eq!(books.effects().len(), 1);
    assert_eq!(app.state("acme", "invoice.issue.v1", &["4711"]).unwrap(), "applied");
    assert_eq!(app.parked().unwrap(), 1, "the conflict");
}

/// A kill between effect and fact, for each contract: nothing is lost, nothing is doubled in silence.
#[tokio::test(start_paused = true)]
async fn a_kill_after_the_effect_is_settled_as_the_contract_says() {
    let killed = |contract: fn() -> Contract<Destination>| async move {
        let books = Destination::deduplicating();
        books.next([Answers::Never]);
        let mut app = start(contract, &books).await;
        app.deliver("invoices", invoice("1", 5)).unwrap();
        app.until(SECOND, || books.requests() == 1).await.unwrap();
        app.kill().await;
        assert_eq!(app.state("acme", "invoice.issue.v1", &["1"]).unwrap(), "in_doubt");
        app.restart().await.unwrap();
        app.complete_within(HOUR).await.unwrap();
        (books, app)
    };
    let (books, app) = killed(dedup).await;
    assert_eq!((books.effects().len(), books.requests()), (1, 2), "asked again with the same key");
    assert_eq!(app.state("acme", "invoice.issue.v1", &["1"]).unwrap(), "applied");

    let (books, app) = killed(hold).await;
    assert_eq!((books.effects().len(), books.requests()), (1, 1), "not run again");
    assert_eq!((app.in_doubt().unwrap(), app.parked().unwrap()), (1, 1));

    let (books, mut app) = killed(|| ask(find).after_quiet(120 * SECOND)).await;
    app.pass(HOUR).await;
    app.complete_within(SECOND).await.unwrap();
    assert_eq!((books.effects().len(), books.requests()), (1, 1), "asked about, and not run again");
    assert_eq!(app.state("acme", "invoice.issue.v1", &["1"]).unwrap(), "applied");
}

#[tokio::test(start_paused = true)]
async fn stated_no_effect_is_tried_again_after_its_back_off_in_the_tests_own_time() {
    let books = Destination::deduplicating();
    books.next([Answers::Down; 4]);
    let mut app = start(hold, &books).await;
    app.deliver("invoices", invoice("1", 5)).unwrap();
    let began = tokio::time::Instant::now();
    app.complete_within(HOUR).await.unwrap();
    assert_eq!((books.effects().len(), books.requests()), (1, 5));
    assert!(began.elapsed() > Duration::from_millis(300), "{:?}", began.elapsed());
}

/// A lost answer, one that never comes, and one that comes after the limit.
#[tokio::test(start_paused = true)]
async fn what_nobody_knows_is_held_and_a_late_answer_settles_it() {
    for (answers, settled) in [(Answers::Lost, "in_doubt"), (Answers::Never, "in_doubt"), (Answers::Late(40 * SECOND), "applied")] {
        let books = Destination::deduplicating();
        books.next([answers]);
        let mut app = start(hold, &books).await;
        app.deliver("invoices", invoice("1", 5)).unwrap();
        app.complete_within(35 * SECOND).await.unwrap();
        assert_eq!(app.state("acme", "invoice.issue.v1", &["1"]).unwrap(), "in_doubt", "{answers:?}");
        app.pass(60 * SECOND).await;
        assert_eq!(app.state("acme", "invoice.issue.v1", &["1"]).unwrap(), settled, "{answers:?}");
        app.deliver("invoices", invoice("1", 5)).unwrap();
        app.complete_within(SECOND).await.unwrap();
        assert_eq!(books.effects().len(), 1, "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_books_twice_is_counted() {
    let books = Destination::deduplicating();
    books.next([Answers::Late(40 * SECOND), Answers::Again]);
    let mut app = start(dedup, &books).await;
    app.deliver("invoices", invoice("1", 5)).unwrap();
    app.complete_within(35 * SECOND).await.unwrap();
    app.pass(60 * SECOND).await;
    assert_eq!(books.effects().len(), 2, "it lied");
    let totals = app.store().totals();
    let counted: u64 =
        totals.iter().filter(|(total, _)| format!("{total:?}").starts_with("DuplicateEffect")).map(|(_, count)| *count).sum();
    assert_eq!(counted, 1, "{totals:?}");
}

#[tokio::test(start_paused = true)]
async fn a_person_settles_through_the_operators_way() {
    let books = Destination::deduplicating();
    books.next([Answers::Lost]);
    let mut app = start(hold, &books).await;
    app.deliver("invoices", invoice("1", 5)).unwrap();
    app.complete_within(SECOND).await.unwrap();
    let key = OperationKey::new("acme", "invoice.issue.v1", &["1".into()], Alphabet::Token).unwrap().digest();
    let outcome = Settlement::Applied { reference: "ref-1".into() };
    let settle = Settle { key, outcome, attempts: None, cannot_land_any_more: None, fresh_key: false };
    let by = Author::Operator { name: "ada".into(), uid: 1000 };
    let change = Change { act: Act::Settle(settle), reason: "seen in the books".into(), by };
    app.operators().unwrap().perform(change).await.unwrap();
    assert_eq!(app.state("acme", "invoice.issue.v1", &["1"]).unwrap(), "applied");
    app.pass(SECOND).await;
    assert_eq!((app.parked().unwrap(), books.requests()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stop_drains_and_the_next_start_reads_on() {
    let books = Destination::deduplicating();
    books.next([Answers::Late(5 * SECOND)]);
    let mut app = start(hold, &books).await;
    app.deliver("invoices", invoice("1", 5)).unwrap();
    app.until(SECOND, || books.requests() == 1).await.unwrap();
    app.stop().await.unwrap();
    assert_eq!(app.state("acme", "invoice.issue.v1", &["1"]).unwrap(), "applied", "the handler ended within the drain");
    app.deliver("invoices", invoice("2", 5)).unwrap();
    app.restart().await.unwrap();
    app.complete_within(SECOND).await.unwrap();
    assert_eq!((books.effects().len(), books.requests()), (2, 2));
    // An operator's replay of the whole topic.
    app.stop().await.unwrap();
    app.rewind("invoices", 0).unwrap();
    app.restart().await.unwrap();
    app.complete_within(SECOND).await.unwrap();
    assert_eq!((books.effects().len(), books.requests()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_there_to_be_looked_at() {
    let books = Destination::deduplicating();
    let mut app = start(hold, &books).await;
    app.deliver("invoices", record().key("k").value("no json").header("trace", "t-1")).unwrap();
    app.complete_within(SECOND).await.unwrap();
    let letters = app.dead_letters();
    assert_eq!((letters.len(), letters[0].value.as_deref()), (1, Some(&b"no json"[..])));
    assert_eq!(letters[0].header("trace").as_deref(), Some("t-1"));
    assert_eq!(letters[0].header("x-receipted-reason").as_deref(), Some("no_key"));
    assert!(letters[0].header("x-receipted-error").is_some());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_go_on_says_why() {
    let books = Destination::deduplicating();
    books.next([Answers::Never]);
    let mut app = start(hold, &books).await;
    let wrong = app.deliver("invoice", invoice("1", 5)).unwrap_err();
    assert_eq!(wrong.to_string(), "topic \"invoice\" is none of the app's");
    app.deliver("invoices", invoice("1", 5)).unwrap();
    assert!(matches!(app.until(SECOND, || books.requests() == 2).await, Err(rehearsal::Error::NotSo { .. })));
    let waits = app.complete_within(SECOND).await.unwrap_err();
    assert_eq!(waits.to_string(), "not complete within 1s: invoices from offset 0 of 1");

    app.store().fail_next([StoreFault::SyncFails]);
    app.deliver("invoices", invoice("2", 5)).unwrap();
    let failed = app.complete_within(SECOND).await.unwrap_err();
    assert!(matches!(failed, rehearsal::Error::Runner(_)), "{failed:?}");
    assert!(app.operators().is_none());
    // What a failed sync leaves is found by the next start.
    app.restart().await.unwrap();
    app.complete_within(HOUR).await.unwrap();
    assert_eq!(books.effects().len(), 2);

    let twice = Rehearsal::start(|| App::new().with_state(())).await;
    assert!(matches!(twice, Err(rehearsal::Error::App(_))));
}

/// The handler is told whether it runs for the first time.
#[tokio::test(start_paused = true)]
async fn a_rerun_says_that_it_is_one() {
    async fn tell(op: Operation, State(books): State<Destination>) -> Result<Applied, Failure> {
        let what = if op.is_replay() { "repeat" } else { "first" };
        books.book(what, "").await.map_err(|_| Failure::unknown("lost"))?;
        Ok(Applied::without_reference(()))
    }
    let books = Destination::forgetful();
    books.next([Answers::Lost]);
    let outside = books.clone();
    let mut app = Rehearsal::start(move || {
        let tell = operation("tell.v1").tenant(fixed("t")).id(json("/id")).fingerprint(whole_value()).in_doubt(dedup()).handle(tell);
        App::new().topic("told", tell).with_state(outside.clone())
    })
    .await
    .unwrap();
    app.deliver("told", record().value(r#"{"id":"1"}"#)).unwrap();
    app.complete_within(HOUR).await.unwrap();
    let keys: Vec<String> = books.effects().into_iter().map(|effect| effect.key).collect();
    assert_eq!(keys, ["first", "repeat"]);
}

/// C68. A handler that has the key at hand and gives the destination something else: nobody sees that in its declaration, so that its
/// first effect has to tell. Under a contract that rests on no key there is nothing to tell.
#[tokio::test(start_paused = true)]
async fn c68_a_handler_that_does_not_give_its_key_on_is_told_of() {
    async fn careless(op: Operation, Json(invoice): Json<Invoice>, State(books): State<Destination>) -> Result<Applied, Failure> {
        let booked = books.book(op.id()[0].as_str(), invoice.cents).await.map_err(|_| Failure::unknown("lost"))?;
        Ok(Applied::new(
            match booked {
                Booked::Now(reference) | Booked::Before(reference) => reference,
            },
            (),
        ))
    }
    let told = |handler: u8, contract: fn() -> Contract<Destination>| async move {
        let recorder = receipted::telemetry::recorder::build().unwrap();
        let handle = recorder.handle();
        let _here = metrics::set_default_local_recorder(&recorder);
        let books = Destination::deduplicating();
        let outside = books.clone();
        let mut app = Rehearsal::start(move || {
            let route = operation("invoice.issue.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).in_doubt(contract());
            let route = if handler == 0 { route.handle(careless) } else { route.handle(issue) };
            App::new().topic("invoices", route).with_state(outside.clone())
        })
        .await
        .unwrap();
        app.deliver("invoices", invoice("1", 5)).unwrap();
        app.deliver("invoices", invoice("2", 5)).unwrap();
        app.complete_within(HOUR).await.unwrap();
        assert_eq!(books.effects().len(), 2);
        let page = handle.render();
        let line = page.lines().find_map(|line| line.strip_prefix("receipted_provider_key_unused_total{operation=\"invoice.issue.v1\"} "));
        line.unwrap_or_else(|| panic!("no such line in\n{page}")).to_owned()
    };
    assert_eq!(told(0, dedup).await, "2");
    assert_eq!(told(1, dedup).await, "0");
    assert_eq!(told(0, hold).await, "0");
}

/// A destination whose connections lead nowhere while it is down, and whose lookups fail.
#[derive(Clone)]
struct Outage {
    down: Arc<AtomicBool>,
    books: Destination,
}

impl Outage {
    fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }
}

async fn through(op: Operation, State(outside): State<Outage>) -> Result<Applied, Failure> {
    if outside.is_down() {
        return Err(Failure::unknown("no answer"));
    }
    let booked = outside.books.book(op.provider_key(), "").await.unknown()?;
    Ok(match booked {
        Booked::Now(reference) => Applied::new(reference, ()),
        Booked::Before(reference) => Applied::already(reference, ()),
    })
}

async fn seek(op: Operation, State(outside): State<Outage>) -> Result<Finding, std::io::Error> {
    if outside.is_down() {
        return Err(std::io::Error::other("no answer"));
    }
    Ok(outside.books.find(op.provider_key()).map_or(Finding::NotFound, |reference| Finding::Found(Applied::new(reference, ()))))
}

async fn write(op: Operation, State(outside): State<Outage>) -> Result<Applied, Failure> {
    outside.books.book(format!("letter {}", op.provider_key()), "").await.unknown()?;
    Ok(Applied::without_reference(()))
}

/// The engine that runs in production, in an hour in which a destination answers nothing: what is kept stops at a bound, of the route or of
/// the store, and all of it drains.
#[tokio::test(start_paused = true)]
async fn an_hour_without_a_destination_stops_at_a_bound_and_drains() {
    const INVOICES: usize = 200;
    // Beside the bound there is what ran when it was reached, and what was on its way to the store.
    const PERMITS: usize = 64;
    for (unresolved_max, parked_bytes_max) in [(50, u64::MAX), (100_000, 3_000)] {
        let outside = Outage { down: Arc::new(AtomicBool::new(true)), books: Destination::forgetful() };
        let captured = outside.clone();
        let mut app = Rehearsal::start(move || {
            let declared = |name| operation(name).tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value());
            let ask = ask(seek).after_quiet(120 * SECOND);
            let invoices = declared("invoice.v1").in_doubt(ask).unresolved_max(unresolved_max).handle(through);
            App::new().topic("invoices", invoices).topic("letters", declared("letter.v1").handle(write)).with_state(captured.clone())
        })
        .await
        .unwrap();
        app.store().set_parked_bytes_max(parked_bytes_max);
        for number in 0..INVOICES {
            app.deliver("invoices", invoice(&format!("i-{number}"), 5)).unwrap();
        }
        let (mut unresolved, mut bytes) = (0, 0);
        for minute in 0..60 {
            app.deliver("letters", invoice(&format!("l-{minute}"), 5)).unwrap();
            app.pass(60 * SECOND).await;
            unresolved = unresolved.max(app.in_doubt().unwrap());
            bytes = bytes.max(app.store().sizes().parked_bytes);
        }
        let letters = outside.books.effects().len();
        if parked_bytes_max == u64::MAX {
            assert_eq!(letters, 60, "another route goes on");
            assert!((50..=50 + 2 * PERMITS).contains(&unresolved), "{unresolved}");
        } else {
            assert!((3_000..3_000 + 2 * PERMITS as u64 * 50).contains(&bytes), "{bytes}");
        }
        outside.down.store(false, Ordering::Relaxed);
        app.pass(HOUR / 2).await;
        app.complete_within(HOUR).await.unwrap();
        assert_eq!((app.in_doubt().unwrap(), app.parked().unwrap()), (0, 0), "all of it drains");
        let mut effects: Vec<String> = outside.books.effects().into_iter().map(|effect| effect.key).collect();
        eprintln!(
            "bound {unresolved_max}, {parked_bytes_max}: {unresolved} unresolved, {bytes} bytes, {letters} letters meanwhile, {} effects",
            effects.len()
        );
        assert_eq!(effects.len(), INVOICES + 60, "none is lost");
        effects.sort_unstable();
        effects.dedup();
        assert_eq!(effects.len(), INVOICES + 60, "and none is doubled");
    }
}

/// So long a request is on its way.
async fn on_the_wire(by: Duration) {
    let wire = Destination::forgetful();
    wire.next([Answers::Late(by)]);
    wire.book("", "").await.unwrap();
}

/// A lookup that sees nothing, and says so only after the quiet period: the request landed in between.
#[tokio::test(start_paused = true)]
async fn a_lookup_that_answers_after_the_quiet_period_and_began_before_it_proves_nothing() {
    async fn lands_later(op: Operation, State(books): State<Destination>) -> Result<Applied, Failure> {
        let key = op.provider_key().to_string();
        tokio::spawn(async move {
            on_the_wire(2 * SECOND).await;
            books.book(key, "").await.map(drop)
        });
        Err(Failure::unknown("no answer"))
    }
    async fn slow(op: Operation, State(books): State<Destination>) -> Result<Finding, std::io::Error> {
        let seen = find(op, State(books)).await;
        on_the_wire(4 * SECOND).await;
        seen
    }
    let books = Destination::forgetful();
    let outside = books.clone();
    let mut app = Rehearsal::start(move || {
        let route = operation("invoice.issue.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value());
        let route = route.in_doubt(ask(slow).after_quiet(3 * SECOND)).handle(lands_later);
        App::new().topic("invoices", route).with_state(outside.clone())
    })
    .await
    .unwrap();
    app.deliver("invoices", invoice("1", 5)).unwrap();
    app.complete_within(HOUR).await.unwrap();
    app.pass(HOUR).await;
    assert_eq!(books.effects().len(), 1, "it is not run again");
    assert_eq!(app.state("acme", "invoice.issue.v1", &["1"]).unwrap(), "applied");
}

#[tokio::test(start_paused = true)]
async fn what_ran_under_a_former_name_does_not_run_under_the_new_one() {
    let books = Destination::forgetful();
    let (outside, renamed) = (books.clone(), Arc::new(AtomicBool::new(false)));
    let is_renamed = renamed.clone();
    let mut app = Rehearsal::start(move || {
        let (name, formerly) = if is_renamed.load(Ordering::Relaxed) { ("issue.v1", vec!["invoice.v1"]) } else { ("invoice.v1", vec![]) };
        let route = operation(name).tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).in_doubt(hold());
        let route = formerly.into_iter().fold(route, |route, former| route.formerly(former));
        App::new().topic("invoices", route.handle(issue)).with_state(outside.clone())
    })
    .await
    .unwrap();
    app.deliver("invoices", invoice("1", 5)).unwrap();
    app.complete_within(SECOND).await.unwrap();
    app.stop().await.unwrap();
    renamed.store(true, Ordering::Relaxed);
    app.restart().await.unwrap();
    for id in ["1", "2", "2"] {
        app.deliver("invoices", invoice(id, 5)).unwrap();
    }
    app.complete_within(SECOND).await.unwrap();
    assert_eq!(books.effects().len(), 2, "the first one under its former name, the second one under the new one");
    assert_eq!(app.state("acme", "invoice.v1", &["1"]).unwrap(), "applied");
    assert_eq!(app.state("acme", "issue.v1", &["2"]).unwrap(), "applied");
}
