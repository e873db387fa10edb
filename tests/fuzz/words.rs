//! Words of people and other programs: requests, names of notes and attempts, arguments, variables, what stands beside an offset.
//! Each is read as meant or refused with the part that makes no sense.

use crate::input::{bytes, cases};
use proptest::{prelude::*, sample::select};
use receipted::{
    admin::command::{EndRequest, EndWord, List, SettleRequest, park_name, parse_park},
    config::Config,
    protocol::{
        doubt::Future,
        known::Known,
        note::Slot,
        park::{ParkId, SlotNotes},
        settle::{AttemptName, Change, Scene, decide},
        start::Metadata,
        time::{Monotonic, Now, UnixMillis},
    },
};
use serde_json::{Value, json};
use std::{ffi::OsString, os::unix::ffi::OsStringExt, process::Command, time::Duration};

fn word() -> impl Strategy<Value = String> {
    let known = ["", " ", "applied", "not-done", "rejected", "reopened", "1", "1/2", "-1", "t/0/5#1", "99999999999", "\u{7}", "topic/0/1"];
    prop_oneof![4 => select(known.to_vec()).prop_map(String::from), 1 => Just("a".repeat(64)), 1 => Just("é".repeat(400)), 3 => ".{0,12}"]
}

/// A request with the right members, most of the time, and anything in them.
fn request(members: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let value = prop_oneof![
        6 => word().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => prop::collection::vec(word(), 0..3).prop_map(Value::from),
    ];
    let fields = prop::collection::vec(prop::option::weighted(0.8, value), members.len());
    let digest = any::<bool>();
    (fields, digest).prop_map(move |(fields, digest)| {
        let mut all: serde_json::Map<String, Value> =
            members.iter().zip(fields).filter_map(|(name, value)| Some(((*name).to_string(), value?))).collect();
        if digest {
            all.insert("key".into(), json!("a5".repeat(32)));
            all.insert("outcome".into(), json!("applied"));
            all.insert("by".into(), json!("mia"));
            all.insert("reason".into(), json!("seen"));
            all.remove("attempts");
            all.remove("fresh_key");
        }
        Value::Object(all)
    })
}

/// What the rules make of a change about an operation of which nothing is known.
fn refused(change: &Change) -> Result<(), TestCaseError> {
    let now = Now { monotonic: Monotonic(0), wall: UnixMillis(0) };
    let (known, slot) = (Known::default(), SlotNotes::default());
    let scene = Scene { known: &known, slot: &slot, halted: None, future: |_| Future::Alive, quiet: Duration::ZERO, now };
    let refusal = decide(change, &scene).map(drop).expect_err("nothing is known of it");
    prop_assert!(!refusal.code().is_empty() && !refusal.to_string().is_empty() && !refusal.remedy().is_empty());
    Ok(())
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn any_request_is_a_change_that_the_rules_judge_or_names_what_makes_no_sense(
        settle in request(&["key", "outcome", "reference", "attempts", "cannot_land_any_more", "fresh_key", "reason", "by"]),
        end in request(&["key", "park", "with_repeats", "reason", "by"]),
        list in request(&["state", "after", "limit"]),
    ) {
        drop(serde_json::from_value::<List>(list));
        if let Ok(request) = serde_json::from_value::<SettleRequest>(settle) {
            match request.change(1) {
                Ok(change) => refused(&change)?,
                Err(malformed) => prop_assert!(["reference", "attempts", "key"].contains(&malformed.part), "{}", malformed),
            }
        }
        for word in [EndWord::DeadLetter, EndWord::Discard] {
            if let Ok(request) = serde_json::from_value::<EndRequest>(end.clone()) {
                match request.change(word, 1) {
                    Ok(change) => refused(&change)?,
                    Err(malformed) => prop_assert!(["key", "park", "target", "with_repeats"].contains(&malformed.part), "{}", malformed),
                }
            }
        }
    }

    #[test]
    fn a_name_is_read_as_it_was_written(topic in ".{1,12}", partition in 0..=i32::MAX, offset in 0..=i64::MAX, number in any::<u32>(), claim in any::<Option<u64>>(), text in word()) {
        let park = ParkId { slot: Slot { topic: topic.as_str().into(), partition, offset }, number };
        prop_assert_eq!(parse_park(&park_name(&park)), Some(park));
        let attempt = AttemptName { number, claim };
        prop_assert_eq!(attempt.to_string().parse(), Ok(attempt));
        if let Some(park) = parse_park(&text) {
            prop_assert_eq!(parse_park(&park_name(&park)), Some(park));
        }
        if let Ok(attempt) = text.parse::<AttemptName>() {
            prop_assert_eq!(attempt.to_string().parse(), Ok(attempt));
        }
    }

    #[test]
    fn what_stands_beside_an_offset_is_ours_as_a_whole_or_nobodys(id in "[0-9a-f]{32}", nonce in "[0-9a-f]{32}", other in ".{0,90}") {
        let ours = Metadata::text(&id, &nonce);
        prop_assert_eq!(Metadata::parse(&ours), Metadata::Ours { store_id: id, nonce });
        let cut = ours.char_indices().map(|(at, _)| &ours[..at]).filter(|cut| cut.split(' ').count() < 3);
        for text in cut.chain([other.as_str(), &format!("{ours} x"), &format!(" {ours}")]) {
            prop_assert_eq!(Metadata::parse(text), Metadata::Other, "{:?}", text);
        }
    }

    /// The shape of a configuration is `config`'s; this is about text that is none, and about variables.
    #[test]
    fn any_text_and_any_variables_are_a_configuration_or_say_what_is_wrong(text in ".{0,60}", name in bytes(), value in bytes(), ours in any::<bool>()) {
        if let Err(error) = Config::from_text(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
        let name = if ours { [b"RECEIPTED__", name.as_slice()].concat() } else { name };
        let minimal = [("RECEIPTED__KAFKA__BROKERS", "b:1"), ("RECEIPTED__KAFKA__GROUP", "g"), ("RECEIPTED__STORE__DIRECTORY", "/s")];
        let minimal = minimal.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let odd = (OsString::from_vec(name.clone()), OsString::from_vec(value));
        let loaded = Config::load(None, minimal.into_iter().chain([odd]));
        match loaded {
            Ok(_) => {}
            Err(error) => prop_assert!(ours && !error.to_string().is_empty(), "another program's variable: {}", error),
        }
    }
}

/// The exit codes that `--help` names.
const EXIT_CODES: [i32; 9] = [0, 2, 65, 66, 69, 70, 74, 75, 78];

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn any_arguments_end_with_a_code_that_is_documented(
        arguments in prop::collection::vec(
            prop_oneof![
                3 => select(vec![
                    "operations", "list", "show", "settle", "dead-letter", "discard", "store", "status", "verify", "adopt", "import", "export",
                    "check-config", "--limit", "--park", "--store", "/nowhere", "--id", "--tenant", "--operation", "--outcome", "--by",
                    "--reason", "--output", "json", "--config", "--with-repeats", "--offset", "--attempts", "applied", "c.v1",
                ]).prop_map(|word| word.as_bytes().to_vec()),
                1 => bytes().prop_filter("no argument can hold a zero byte", |bytes| !bytes.contains(&0)),
            ],
            0..9,
        ),
    ) {
        let arguments = arguments.into_iter().map(OsString::from_vec);
        let folder = tempfile::tempdir().expect("a folder");
        let ended = Command::new(env!("CARGO_BIN_EXE_receipted")).args(arguments).current_dir(folder.path()).env_clear().output().expect("runs");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        prop_assert!(ended.status.code().is_some_and(|code| EXIT_CODES.contains(&code)), "{:?}: {}", ended.status, said);
        prop_assert!(!said.contains("panicked"), "{}", said);
        prop_assert!(ended.status.success() || !said.is_empty() || !ended.stdout.is_empty());
    }
}
