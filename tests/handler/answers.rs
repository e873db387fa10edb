//! An answer that cannot be kept never changes what happened.

use crate::bank::*;
use receipted::{
    prelude::*,
    protocol::{
        note::{self, Answer},
        outcome::{Finding as Found, Outcome},
    },
    testing::{block_on, look_up},
};
use serde::{Serialize, Serializer};
use std::time::Duration;

fn applied<S: Send + Sync + 'static>(route: Route<S>, state: S) -> note::Applied {
    match outcome(&routes(route, state), record("c1", "ada", 1)) {
        Outcome::Applied(applied) => applied,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_is_kept_as_json() {
    let kept = applied(declared().handle(charge), Bank);
    assert_eq!(kept.answer, Answer::Json(r#"{"cents":1}"#.into()));
}

#[test]
fn an_answer_up_to_the_limit_is_kept_and_a_larger_one_marked_absent() {
    async fn answer(State(bytes): State<usize>) -> Result<Applied<String>, Failure> {
        Ok(Applied::new("b-1", "x".repeat(bytes - 2)))
    }
    let kept = |limit: Option<usize>, bytes: usize| {
        let route = limit.into_iter().fold(declared(), |route, limit| route.answer_bytes_max(limit)).handle(answer);
        let applied = applied(route, bytes);
        assert_eq!(applied.reference.as_ref().map(note::Reference::as_str), Some("b-1"));
        match applied.answer {
            Answer::Json(json) => Ok(json.len()),
            Answer::Absent(reason) => Err(reason),
        }
    };
    assert_eq!(kept(None, 512), Ok(512));
    assert_eq!(kept(None, 513), Err("the answer has more than 512 bytes of JSON".into()));
    assert_eq!(kept(Some(4096), 4096), Ok(4096));
    assert!(kept(Some(4096), 4097).is_err());
    assert!(kept(Some(0), 2).is_err());
}

struct Unserializable;
impl Serialize for Unserializable {
    fn serialize<Z: Serializer>(&self, _: Z) -> Result<Z::Ok, Z::Error> {
        Err(serde::ser::Error::custom("no form"))
    }
}

struct Explosive;
impl Serialize for Explosive {
    fn serialize<Z: Serializer>(&self, _: Z) -> Result<Z::Ok, Z::Error> {
        panic!("in the serializer")
    }
}

/// Its destructor panics once it is serialized.
#[derive(Serialize)]
struct BadEnd(u8);
impl Drop for BadEnd {
    fn drop(&mut self) {
        panic!("in the destructor")
    }
}

#[test]
fn an_answer_that_fails_or_panics_is_absent_and_the_effect_stands() {
    async fn fails() -> Result<Applied<Unserializable>, Failure> {
        Ok(Applied::new("b-1", Unserializable))
    }
    async fn panics() -> Result<Applied<Explosive>, Failure> {
        Ok(Applied::new("b-1", Explosive))
    }
    async fn ends_badly() -> Result<Applied<BadEnd>, Failure> {
        Ok(Applied::new("b-1", BadEnd(1)))
    }
    let absent = |applied: note::Applied, why: &str| match applied {
        note::Applied { reference: Some(reference), answer: Answer::Absent(reason), already: false } => {
            assert_eq!(reference.as_str(), "b-1");
            assert!(reason.contains(why), "{reason}");
        }
        other => panic!("{other:?}"),
    };
    absent(applied(declared().handle(fails), ()), "no form");
    absent(applied(declared().handle(panics), ()), "in the serializer");
    absent(applied(declared().handle(ends_badly), ()), "in the destructor");
}

#[test]
fn an_answer_found_by_a_lookup_keeps_to_the_same_limit() {
    async fn find() -> Result<Finding<String>, BankError> {
        Ok(Finding::Found(Applied::new("b-1", "x".repeat(600))))
    }
    let contract = || ask(find).after_quiet(Duration::from_secs(1));
    for (limit, kept) in [(512, false), (1024, true)] {
        let routes = routes(declared::<()>().in_doubt(contract()).answer_bytes_max(limit).handle(nothing), ());
        match block_on(look_up(&routes, "payments", record("c1", "ada", 1))) {
            Ok(Found::Found(found)) => assert_eq!(matches!(found[0].answer, Answer::Json(_)), kept),
            other => panic!("{other:?}"),
        }
    }
}
