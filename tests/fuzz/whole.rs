//! The whole way of odd records, through the engine that runs in production: each ends as an answer, as a dead letter that says which
//! record and which field, or as a halt that says where. None is lost, and what comes after them goes on.

use crate::input::{cases, nested, payload};
use proptest::prelude::*;
use receipted::{
    prelude::*,
    protocol::park::Payload,
    store::{ReceiptStore, Which},
    testing::{Answers, Booked, Destination, Fault, RecordBuilder, Rehearsal, record, rehearsal},
};
use serde_json::Value;
use std::time::Duration;

const MEBIBYTE: usize = 1 << 20;
const MINUTE: Duration = Duration::from_secs(60);

/// Books any JSON object.
async fn book(op: Operation, Json(_): Json<serde_json::Map<String, Value>>, State(books): State<Destination>) -> Result<Applied, Failure> {
    match books.book(op.provider_key(), op.id().join("/")).await {
        Ok(Booked::Now(reference)) => Ok(Applied::new(reference, ())),
        Ok(Booked::Before(reference)) => Ok(Applied::already(reference, ())),
        Err(down @ Fault::Down) => Err(down).no_effect(),
        Err(lost) => Err(lost).unknown(),
    }
}

pub fn app(books: &Destination) -> ReadyApp<Destination> {
    let book = || operation("book.v1").tenant(header("tenant")).id(receipted::handler::json("/id")).fingerprint(json_fields(["/n"]));
    App::new().topic("odd", book().handle(self::book)).topic("other", book().handle(self::book)).with_state(books.clone())
}

async fn start(books: &Destination) -> Rehearsal {
    let books = books.clone();
    Rehearsal::start(move || app(&books)).await.unwrap()
}

pub fn plain(id: &str) -> RecordBuilder {
    record().key(id).header("tenant", "acme").value(format!(r#"{{"id":"{id}","n":1}}"#))
}

pub fn large(id: &str, bytes: usize) -> RecordBuilder {
    plain(id).value(format!(r#"{{"id":"{id}","n":1,"padding":"{}"}}"#, "x".repeat(bytes)))
}

/// Where a record is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    Applied,
    Skipped,
    /// As a dead letter with this reason, whose error begins so.
    Letter(&'static str, &'static str),
}

/// Records that hardly anybody sends, each with its end. The largest have so many MiB.
pub fn odd(mebibytes: usize) -> Vec<(&'static str, RecordBuilder, Ends)> {
    let no_id = |said| Ends::Letter("no_key", said);
    let tenant = |value: Vec<u8>| record().key("k").header("tenant", "acme").value(value);
    let deep = |list, levels| [br#"{"id":"deep-beside","n":1,"deep":"#.as_slice(), &nested(levels, list, "1"), b"}"].concat();
    let many = |record: RecordBuilder| {
        (0..300).fold(record, |record, at| record.header(format!("h{at}"), vec![at as u8; 4096]).null_header(format!("n{at}")))
    };
    let named =
        |record: RecordBuilder| record.header([0xff, 0xfe], [0]).null_header([0xc3]).header("", "").header("é", "é").header("x", []);
    vec![
        ("a large value", large("large", mebibytes * MEBIBYTE), Ends::Applied),
        ("a large value that is no JSON", tenant(vec![b'['; mebibytes * MEBIBYTE]), no_id("id (json \"/id\"): not JSON")),
        ("a key of 1 MiB", plain("key").key(vec![7; MEBIBYTE]), Ends::Applied),
        ("a tombstone", record().key("k").header("tenant", "acme"), Ends::Skipped),
        ("a tombstone of nothing", record(), Ends::Skipped),
        ("no key", record().header("tenant", "acme").value(r#"{"id":"no-key","n":1}"#), Ends::Applied),
        ("an empty key", plain("empty-key").key([]), Ends::Applied),
        ("600 large headers", many(plain("headers")), Ends::Applied),
        ("600 large headers on a dead letter", many(tenant(b"{}".to_vec())), no_id("id (json \"/id\"): the value has no such field")),
        ("headers with any name", named(plain("names")), Ends::Applied),
        ("headers with any name on a dead letter", named(tenant(b"[]".to_vec())), no_id("id (json \"/id\"): the value has no such field")),
        ("a header that is not UTF-8", plain("t").header("tenant", [0xff]), no_id("tenant (header \"tenant\"): it is not UTF-8")),
        ("a header that is null", plain("t").null_header("tenant"), no_id("tenant (header \"tenant\"): it is null")),
        ("an empty value", tenant(vec![]), no_id("id (json \"/id\"): not JSON")),
        ("a value that is not UTF-8", tenant(b"\xff\xfe".to_vec()), no_id("id (json \"/id\"): not JSON")),
        ("UTF-16", tenant("{\"id\":\"1\"}".encode_utf16().flat_map(u16::to_le_bytes).collect()), no_id("id (json \"/id\"): not JSON")),
        (
            "a text that is not UTF-8 where nobody looks but the handler",
            tenant(b"{\"id\":\"utf8\",\"n\":1,\"x\":\"\xff\"}".to_vec()),
            Ends::Letter("undecodable", "value: "),
        ),
        ("10,000 levels", tenant(nested(10_000, true, "1")), no_id("id (json \"/id\"): the value has no such field")),
        ("10,000 levels of objects", tenant(nested(10_000, false, "1")), no_id("id (json \"/id\"): the value has no such field")),
        ("10,000 levels beside the id", tenant(deep(true, 10_000)), Ends::Letter("undecodable", "value: ")),
        ("10,000 levels of objects beside the id", tenant(deep(false, 10_000)), Ends::Letter("undecodable", "value: ")),
        ("10,000 levels in the fingerprint", tenant(nested_at("n", 10_000)), no_id("id (json \"/id\"): not JSON: recursion limit")),
        ("a number that no double holds", tenant(br#"{"id":"1","n":1e400}"#.to_vec()), no_id("id (json \"/id\"): not JSON: number out of")),
        (
            "a number that is not exact",
            tenant(br#"{"id":"1","n":1e300}"#.to_vec()),
            no_id("fingerprint (json \"/n\"): number at \"/n\" is too large"),
        ),
        (
            "an id of 1 MiB",
            tenant(format!(r#"{{"id":"{}"}}"#, "x".repeat(MEBIBYTE)).into_bytes()),
            no_id("id (json \"/id\"): has 1048576 bytes"),
        ),
        ("an id with a zero byte", tenant(br#"{"id":"\u0000"}"#.to_vec()), no_id("id (json \"/id\"): has the character '\\0'")),
        ("an id twice", tenant(br#"{"id":"first","n":1,"id":"twice"}"#.to_vec()), Ends::Applied),
    ]
}

fn nested_at(name: &str, levels: usize) -> Vec<u8> {
    [format!(r#"{{"id":"1","{name}":"#).into_bytes(), nested(levels, true, "1"), b"}".to_vec()].concat()
}

#[tokio::test(start_paused = true)]
async fn each_odd_record_ends_where_it_should_and_the_next_goes_on() {
    let books = Destination::deduplicating();
    let mut app = start(&books).await;
    for (what, record, ends) in odd(10) {
        let (effects, letters) = (books.effects().len(), app.dead_letters().len());
        let slot = app.deliver("odd", record.clone()).unwrap();
        app.complete_within(MINUTE).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        let (booked, all) = (books.effects().len() - effects, app.dead_letters());
        assert_eq!(
            (booked, all.len() - letters),
            (usize::from(ends == Ends::Applied), usize::from(matches!(ends, Ends::Letter(..)))),
            "{what}"
        );
        let Ends::Letter(reason, error) = ends else { continue };
        let (letter, sent) = (all.last().unwrap(), Payload::from(record));
        assert!(letter.key == sent.key && letter.value == sent.value, "{what}: every byte is kept");
        let said = |name: &str| letter.header(&format!("x-receipted-{name}")).unwrap_or_default();
        assert_eq!(
            (said("reason").as_str(), said("origin-topic").as_str(), said("origin-partition").as_str()),
            (reason, "odd", "0"),
            "{what}"
        );
        assert_eq!(said("origin-offset"), slot.offset.to_string(), "{what}");
        assert!(said("error").starts_with(error), "{what}: {}", said("error"));
        assert!(said("error").len() <= 512, "{what}");
    }
    app.deliver("odd", plain("after")).unwrap();
    app.complete_within(MINUTE).await.unwrap();
    assert_eq!((app.state("acme", "book.v1", &["after"]).unwrap(), app.parked().unwrap(), app.in_doubt().unwrap()), ("applied", 0, 0));
}

/// Also as a record that is set aside it is the same to the byte.
#[tokio::test(start_paused = true)]
async fn ten_mebibytes_are_parked_whole() {
    let books = Destination::deduplicating();
    books.next([Answers::Lost]);
    let mut app = start(&books).await;
    let record = large("large", 10 * MEBIBYTE).header([0xff], [0]).null_header("none");
    app.deliver("odd", record.clone()).unwrap();
    app.complete_within(MINUTE).await.unwrap();
    let parked = app.store().parked(None, 10);
    assert_eq!(parked.len(), 1);
    assert_eq!(app.store().payload(&parked[0].0).unwrap(), Some(Payload::from(record)));
}

/// One that is larger than what may be parked stays where it is, by name, and holds up its partition alone.
#[tokio::test(start_paused = true)]
async fn a_record_too_large_to_be_parked_halts_its_partition_by_name_and_no_other() {
    let books = Destination::deduplicating();
    let mut app = start(&books).await;
    app.deliver("odd", plain("before")).unwrap();
    app.complete_within(MINUTE).await.unwrap();
    books.next([Answers::Lost]);
    app.deliver("odd", large("large", 17 * MEBIBYTE)).unwrap();
    for _ in 0..2 {
        let stands = app.complete_within(MINUTE).await.unwrap_err();
        assert!(matches!(&stands, rehearsal::Error::Incomplete { topic, offset: 1, .. } if topic == "odd"), "{stands}");
        app.deliver("odd", plain("behind")).unwrap();
        app.deliver("other", plain("elsewhere")).unwrap();
        app.pass(MINUTE).await;
        assert_eq!(app.state("acme", "book.v1", &["elsewhere"]).unwrap(), "applied");
        assert_eq!(app.state("acme", "book.v1", &["large"]).unwrap(), "in_doubt", "listed, and not run again");
        // Whoever starts it again without another bound finds the same.
        app.kill().await;
        app.restart().await.unwrap();
    }
    assert_eq!(books.effects().iter().filter(|effect| effect.what == "large").count(), 1);
}

proptest! {
    #![proptest_config(cases(60))]

    /// Any records in any order: every offset is committed, and each record is an effect, a repeat, a tombstone, a dead letter or parked.
    #[test]
    fn any_records_are_all_accounted_for(records in prop::collection::vec((payload(), any::<bool>()), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let books = Destination::deduplicating();
        runtime.block_on(async {
            let mut app = start(&books).await;
            let mut live = 0;
            for (at, (mut payload, known)) in records.into_iter().enumerate() {
                if known {
                    payload.headers.push((b"tenant".to_vec(), Some(b"acme".to_vec())));
                    payload.value = payload.value.map(|value| [format!(r#"{{"id":"{}","n":"#, at % 5).as_bytes(), &value, b"}"].concat());
                }
                live += usize::from(payload.value.is_some());
                app.deliver("odd", payload).unwrap();
            }
            let complete: Result<(), rehearsal::Error> = app.complete_within(MINUTE).await;
            complete.unwrap();
            let operations = app.store().list(Which::All, None, 1_000).unwrap();
            let (settled, letters) = (operations.iter().filter(|(_, known)| known.receipt.state().is_settled()).count(), app.dead_letters().len());
            assert_eq!((settled, app.in_doubt().unwrap()), (books.effects().len(), 0));
            let conflicts = app.store().parked(None, 1_000).len();
            assert!(settled + letters + conflicts <= live && (live == 0 || settled + letters > 0), "{settled} {letters} {conflicts} of {live}");
        });
    }
}
