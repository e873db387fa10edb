//! The reply hook is given the settled outcome, the record and the state, and says only whether it could hand them on.

use crate::bank::*;
use receipted::{
    handler::{Answered, AttemptInfo, Replay, Routes},
    prelude::*,
    protocol::note::{Answer, Applied as Kept, Reference},
    testing::block_on,
};
use std::sync::{Arc, Mutex};

type Sent = Arc<Mutex<Vec<String>>>;

async fn answer(reply: Reply, State(sent): State<Sent>) -> Result<(), BankError> {
    #[derive(serde::Deserialize)]
    struct Cents {
        cents: u64,
    }
    let to = reply.record().header("reply-to").map_err(BankError::other)?;
    let cents = reply.answer::<Cents>().map_err(BankError::other)?.map(|answer| answer.cents);
    let text = format!("{to} {} {:?} {cents:?} {}", reply.operation().id().concat(), reply.reference(), reply.is_replay());
    sent.lock().map_err(|_| BankError::other("poisoned"))?.push(text);
    Ok(())
}

fn replied(routes: &Routes, answered: Answered, replay: Replay, to: Option<&str>) -> Result<(), String> {
    let record = to.into_iter().fold(record("c7", "ada", 7), |record, to| record.header("reply-to", to));
    let info = AttemptInfo { replay, ..AttemptInfo::default() };
    let reply = Reply::new(delivery(routes, record, info), answered);
    block_on(routes.operations()[0].reply(reply).expect("the route has a hook"))
}

fn applied(answer: Answer) -> Answered {
    Answered::Applied(Kept { reference: Reference::new("b-1"), answer, already: false })
}

#[test]
fn a_hook_sees_outcome_record_replay_and_state() {
    let sent = Sent::default();
    let routes = routes(declared().reply(answer).handle(nothing), sent.clone());
    assert!(routes.operations()[0].has_reply());
    let json = || applied(Answer::Json(r#"{"cents":7}"#.into()));
    assert_eq!(replied(&routes, json(), Replay::First, Some("out")), Ok(()));
    assert_eq!(replied(&routes, json(), Replay::Repeat, Some("out")), Ok(()));
    assert_eq!(replied(&routes, applied(Answer::Absent("too large".into())), Replay::First, Some("out")), Ok(()));
    assert_eq!(replied(&routes, Answered::Rejected("over the limit".into()), Replay::First, Some("out")), Ok(()));
    let expected = [
        r#"out c7 Some("b-1") Some(7) false"#,
        r#"out c7 Some("b-1") Some(7) true"#,
        r#"out c7 Some("b-1") None false"#,
        "out c7 None None false",
    ];
    assert_eq!(*sent.lock().unwrap(), expected);
}

#[test]
fn a_hook_that_fails_says_why() {
    let routes = routes(declared().reply(answer).handle(nothing), Sent::default());
    let why = replied(&routes, Answered::Rejected("no".into()), Replay::First, None);
    assert!(why.is_err_and(|text| text.contains("reply-to")));
    let why = replied(&routes, applied(Answer::Json("[]".into())), Replay::First, Some("out"));
    assert!(why.is_err_and(|text| text.contains("answer")));
}

#[test]
fn a_route_without_hook_has_none() {
    let routes = routes(declared().handle(charge), Bank);
    let reply = Reply::new(delivery(&routes, record("c7", "ada", 7), AttemptInfo::default()), Answered::Rejected("no".into()));
    assert!(!routes.operations()[0].has_reply() && routes.operations()[0].reply(reply).is_none());
}
