//! A dead letter holds its record: from its bytes and headers the record can be put together again, whatever it was, and however often
//! it was a dead letter before.

use crate::input::{cases, payload};
use proptest::prelude::*;
use receipted::{
    prelude::*,
    protocol::park::Payload,
    testing::{DeadLetter, Rehearsal},
};
use std::time::Duration;

type Headers = Vec<(Vec<u8>, Option<Vec<u8>>)>;
const PREFIX: &str = "x-receipted-";

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "{text:?}");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits")).collect()
}

/// The record's own headers, read back as `docs/DEAD_LETTERS.md` says, and ours by their names.
fn read_back(letter: &DeadLetter, plain: usize) -> (Headers, Headers, Vec<(String, String)>) {
    let (theirs, ours) = letter.headers.split_at(plain);
    let theirs = theirs.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone())).collect();
    let text = |value: &Option<Vec<u8>>| String::from_utf8(value.clone().expect("ours have values")).expect("ours are text");
    let ours: Vec<_> = ours.iter().map(|(name, value)| (name.strip_prefix(PREFIX).expect("ours").to_string(), text(value))).collect();
    let raw = ours.iter().find(|(name, _)| name == "raw-headers").map(|(_, pairs)| pairs.as_str());
    let raw = raw.into_iter().flat_map(|pairs| pairs.split(',')).map(|pair| {
        let (name, value) = pair.split_once('=').expect("NAME=VALUE");
        (unhex(name), Some(unhex(value)).filter(|value| !value.is_empty()))
    });
    (theirs, raw.collect(), ours)
}

async fn nothing() -> Result<Applied, Failure> {
    Ok(Applied::without_reference(()))
}

/// An app that sends whatever comes to the dead letters.
fn app() -> ReadyApp<()> {
    let never = operation("never.v1").tenant(fixed("a")).id(fixed("1")).fingerprint(whole_value()).handle(nothing);
    App::new().topic("odd", dead_letter()).topic("unused", never).with_state(())
}

async fn sent(records: &[Payload]) -> Vec<DeadLetter> {
    let mut app = Rehearsal::start(app).await.unwrap();
    for record in records {
        app.deliver("odd", record.clone()).unwrap();
    }
    app.complete_within(Duration::from_secs(60)).await.unwrap();
    app.dead_letters()
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn any_record_can_be_read_back_from_its_dead_letter(records in prop::collection::vec(payload(), 1..12)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let live: Vec<(usize, &Payload)> = records.iter().enumerate().filter(|(_, record)| record.value.is_some()).collect();
        let letters = runtime.block_on(sent(&records));
        prop_assert_eq!(letters.len(), live.len(), "a tombstone is none, and every other record is one");
        for (letter, (offset, record)) in letters.iter().zip(live) {
            prop_assert_eq!((&letter.key, &letter.value), (&record.key, &record.value));
            let (plain, raw): (Headers, Headers) = record.headers.iter().cloned().partition(|(name, _)| std::str::from_utf8(name).is_ok());
            let (theirs, kept, ours) = read_back(letter, plain.len());
            prop_assert_eq!(theirs, plain, "in their order, nulls as nulls");
            // In a raw header nothing stands for null and for empty.
            let raw: Headers = raw.into_iter().map(|(name, value)| (name, value.filter(|value| !value.is_empty()))).collect();
            prop_assert_eq!(kept, raw);
            let said = |name: &str| ours.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
            prop_assert_eq!(said("reason"), Some("route".to_string()));
            let origin = [said("origin-topic"), said("origin-partition"), said("origin-offset")].map(Option::unwrap);
            prop_assert_eq!(origin, ["odd".to_string(), "0".into(), offset.to_string()]);
            prop_assert_eq!(said("origin-timestamp"), record.timestamp.map(|timestamp| timestamp.to_string()));
            let mut names: Vec<&str> = ours.iter().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            prop_assert_eq!(names.len(), ours.len(), "each of ours once");
        }
        // Sent again as it is, it is a dead letter again, around the one before.
        let again: Vec<Payload> = letters
            .iter()
            .map(|letter| Payload {
                key: letter.key.clone(),
                value: letter.value.clone(),
                headers: letter.headers.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone())).collect(),
                timestamp: None,
            })
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        for (offset, (second, first)) in runtime.block_on(sent(&again)).iter().zip(&letters).enumerate() {
            prop_assert_eq!(&second.headers[..first.headers.len()], &first.headers[..]);
            let last = second.headers.iter().rev().find(|(name, _)| name == "x-receipted-origin-offset");
            prop_assert_eq!(last.and_then(|(_, value)| value.clone()), Some(offset.to_string().into_bytes()), "the last one is ours");
        }
    }
}
