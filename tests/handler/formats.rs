//! Values in the forms that Kafka teams meet: what they hold reaches the handler, and what they are not is said before it runs.

use crate::bank::{became, outcome, routes};
use receipted::{
    handler::unframed,
    prelude::*,
    protocol::outcome::Outcome,
    testing::{Delivered, RecordBuilder, record},
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    total: u64,
}

/// What the handler saw, as the reference that it answers with.
fn seen(routes: &receipted::handler::Routes, record: RecordBuilder) -> String {
    match outcome(routes, record) {
        Outcome::Applied(applied) => applied.reference.expect("a reference").as_str().to_string(),
        other => panic!("{other:?}"),
    }
}

fn refused(routes: &receipted::handler::Routes, record: RecordBuilder) -> String {
    match became(routes, record) {
        Delivered::DeadLettered(reason) => reason,
        other => panic!("it was taken: {other:?}"),
    }
}

/// The key is the record's own, so that only the argument is in question.
fn keyed<S>() -> receipted::handler::NeedsHandler<S, receipted::handler::Part, Vec<receipted::handler::Part>, receipted::handler::Parameters>
{
    operation("ship.v1").tenant(fixed("acme")).id(record_key()).fingerprint(unchecked("the argument is in question"))
}

#[test]
fn text_is_utf_8_or_refused() {
    async fn take(Text(text): Text) -> Result<Applied, Failure> {
        Ok(Applied::new(text, ()))
    }
    let routes = routes(keyed().handle(take), ());
    assert_eq!(seen(&routes, record().key("k").value("grüße")), "grüße");
    assert_eq!(refused(&routes, record().key("k").value(vec![0xff])), "value: it is not UTF-8");
}

async fn take(event: CloudEvent<Order>) -> Result<Applied, Failure> {
    let CloudEvent { id, source, kind, subject, time, data } = event;
    Ok(Applied::new(format!("{id} {source} {kind} {subject:?} {time:?} {}", data.total), ()))
}

/// Attributes in headers, with the value as it is.
fn binary() -> RecordBuilder {
    let attributes =
        [("ce_specversion", "1.0"), ("ce_id", "e-1"), ("ce_source", "/shop"), ("ce_type", "order.paid"), ("ce_subject", "o-7")];
    let record = record().key("k").header("content-type", "application/json").value(r#"{"total":5}"#);
    attributes.into_iter().fold(record, |record, (name, value)| record.header(name, value))
}

fn structured(json: &str) -> RecordBuilder {
    record().key("k").header("content-type", "application/cloudevents+json; charset=UTF-8").value(json)
}

#[test]
fn a_cloud_event_is_read_in_both_modes() {
    let routes = routes(keyed().handle(take), ());
    assert_eq!(seen(&routes, binary()), r#"e-1 /shop order.paid Some("o-7") None 5"#);
    let whole = r#"{"specversion":"1.0","id":"e-1","source":"/shop","type":"order.paid","time":"2026-03-01T00:00:00Z","data":{"total":5},"more":1}"#;
    assert_eq!(seen(&routes, structured(whole)), r#"e-1 /shop order.paid None Some("2026-03-01T00:00:00Z") 5"#);
}

#[test]
fn what_is_no_cloud_event_is_refused_by_name() {
    let routes = routes(keyed().handle(take), ());
    let without = |name: &str| {
        let attributes = [("ce_specversion", "1.0"), ("ce_id", "e-1"), ("ce_source", "/shop"), ("ce_type", "t")];
        let kept = attributes.into_iter().filter(|(own, _)| *own != name);
        kept.fold(record().key("k").value(r#"{"total":5}"#), |record, (name, value)| record.header(name, value))
    };
    for name in ["ce_specversion", "ce_id", "ce_source", "ce_type"] {
        assert_eq!(refused(&routes, without(name)), format!("header {name:?}: the record has no such header"));
    }
    assert_eq!(refused(&routes, without("ce_id").header("ce_id", "")), "attribute \"id\": it is empty");
    assert_eq!(
        refused(&routes, without("ce_specversion").header("ce_specversion", "0.3")),
        "specversion: \"0.3\" is not known: this reads 1.0"
    );
    let batch = record().key("k").header("content-type", "application/cloudevents-batch+json").value("[]");
    assert_eq!(refused(&routes, batch), "value: it is a batch; a record carries one operation");
    let missing = refused(&routes, structured(r#"{"specversion":"1.0","id":"e-1","source":"/shop","data":{"total":5}}"#));
    assert!(missing.contains("missing field `type`"), "{missing}");
    let other = refused(&routes, structured(r#"{"specversion":"1.0","id":"e-1","source":"/shop","type":"t","data":{"total":-5}}"#));
    assert!(other.starts_with("value: "), "{other}");
}

/// The delivery's own id is not the act's: two deliveries of one order are one operation.
#[test]
fn c63_two_cloud_events_about_one_order_have_one_key() {
    let route = operation("ship.v1").tenant(fixed("acme")).id(header("ce_subject")).fingerprint(whole_value());
    let routes = routes(route.handle(take), ());
    let again = binary().header("ce_id", "e-2");
    let key = |record| crate::bank::identity(&routes, record).into_key().digest();
    assert_eq!(key(binary()), key(again));
}

#[derive(Debug)]
struct Paid(u8);

impl Decode for Paid {
    fn decode(schema: u32, bytes: &[u8]) -> Result<Self, BoxError> {
        match (schema, bytes) {
            (7, [cents]) => Ok(Self(*cents)),
            (7, _) => Err("one byte of cents is expected".into()),
            _ => Err("the schema is not known".into()),
        }
    }
}

#[test]
fn a_framed_value_goes_to_the_teams_decoder_with_its_schema() {
    async fn take(Framed(Paid(cents)): Framed<Paid>) -> Result<Applied, Failure> {
        Ok(Applied::new(cents.to_string(), ()))
    }
    let routes = routes(keyed().handle(take), ());
    let framed = |bytes: &[u8]| record().key("k").value(bytes);
    assert_eq!(seen(&routes, framed(&[0, 0, 0, 0, 7, 42])), "42");
    assert_eq!(refused(&routes, framed(&[0, 0, 0, 0, 7])), "value: schema 7: one byte of cents is expected");
    assert_eq!(refused(&routes, framed(&[0, 0, 0, 1, 7, 42])), "value: schema 263: the schema is not known");
    assert_eq!(refused(&routes, framed(b"{}")), "value: it has no registry's frame: it has 2 bytes and begins with 0x7b");
    assert_eq!(refused(&routes, framed(b"{\"a\":1}")), "value: it has no registry's frame: it has 7 bytes and begins with 0x7b");
    assert_eq!(refused(&routes, framed(b"")), "value: it has no registry's frame: it is empty");
    assert_eq!(unframed(&[0, 1, 2, 3, 4, 5, 6]), Some((0x0102_0304, &[5, 6][..])));
}
