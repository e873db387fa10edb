//! What can be set, and what is refused: `config/default.toml` is the one list of keys, and every refusal names the key and its place.
#![cfg(feature = "kafka")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "config/mistakes.rs"]
mod mistakes;
#[path = "config/page.rs"]
mod page;
#[path = "config/random.rs"]
mod random;

use receipted::{
    config::{Config, DEFAULTS, Error, FileSystem, FirstStart, HeaderNames, LogFormat, Origin, kafka},
    handler::Part,
    prelude::*,
};
use std::{collections::BTreeSet, ffi::OsString, path::PathBuf, time::Duration};

const MINIMAL: &str = "[kafka]\nbrokers = \"b:9092\"\ngroup = \"g\"\n";

fn env(variables: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn load(text: &str, variables: &[(&str, &str)]) -> Result<Config, Error> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("receipted.toml");
    std::fs::write(&file, text).unwrap();
    Config::load(Some(&file), env(variables))
}

fn refusal(text: &str) -> String {
    Config::from_text(&format!("{MINIMAL}{text}")).unwrap_err().to_string()
}

fn leaves(table: &toml::Table, path: &str, keys: &mut BTreeSet<String>) {
    for (name, value) in table {
        match value.as_table() {
            Some(below) => leaves(below, &format!("{path}{name}."), keys),
            None => drop(keys.insert(format!("{path}{name}"))),
        }
    }
}

#[test]
fn every_key_of_the_defaults_is_known_and_shown_and_there_is_no_other() {
    let mut listed = BTreeSet::new();
    leaves(&DEFAULTS.parse().unwrap(), "", &mut listed);
    let config = Config::from_text(MINIMAL).unwrap();
    let shown: BTreeSet<String> = config.shown().iter().map(|shown| shown.key.clone()).collect();
    assert_eq!(listed, shown);
    assert!(listed.len() > 30, "{listed:?}");
}

#[test]
fn every_key_of_the_defaults_has_a_comment_above_it() {
    let lines: Vec<&str> = DEFAULTS.lines().collect();
    for (above, line) in lines.iter().zip(&lines[1..]) {
        if line.contains(" = ") && !line.starts_with('#') {
            assert!(above.starts_with('#'), "{line:?} has no comment");
        }
    }
}

#[test]
fn the_defaults_resolve_to_what_the_file_says() {
    let config = Config::from_text(MINIMAL).unwrap();
    assert_eq!((config.runner.permits, config.runner.tenant_permits_max), (64, None));
    assert_eq!(config.runner.drain_budget, Duration::from_secs(10));
    assert_eq!(config.kafka.first_start, None);
    assert_eq!(config.dead_letter.topic, "g.dead-letters");
    assert_eq!(config.dead_letter.header_names, HeaderNames::Receipted);
    assert_eq!(config.kafka.instance_id("abc"), "receipted-abc");
    assert_eq!(config.kafka.settings["fetch.queue.backoff.ms"], "2");
    assert_eq!(config.telemetry.listen.unwrap().to_string(), "127.0.0.1:9464");
    assert_eq!(config.telemetry.log_format, LogFormat::Text);
    assert_eq!((config.store.file_system, config.store.ballast_bytes), (FileSystem::Local, 64 << 20));
    let any = Config::from_text(&format!("{MINIMAL}[store]\nfile_system = \"any\"\n")).unwrap();
    assert_eq!(any.store.file_system, FileSystem::Any);
    let names =
        |word: &str| Config::from_text(&format!("{MINIMAL}[dead_letter]\nheader_names = {word:?}\n")).unwrap().dead_letter.header_names;
    assert_eq!((names("spring"), names("connect")), (HeaderNames::Spring, HeaderNames::Connect));
    assert_eq!(config.store.socket(), PathBuf::from("receipted-store/receipted.sock"));
}

#[test]
fn what_follows_from_other_keys_is_shown_resolved() {
    let config = Config::from_text(MINIMAL).unwrap();
    let value = |key: &str| config.shown().iter().find(|shown| shown.key == key).unwrap().value.clone();
    assert_eq!(value("dead_letter.topic"), "\"g.dead-letters\"");
    assert_eq!(value("kafka.group_instance_id"), "\"receipted-<store id>\"");
    assert!(value("runner.worker_threads").parse::<usize>().unwrap() >= 1);
    assert_eq!(value("runner.tenant_permits_max"), "48, or 64 where the app has one tenant");
    let set = Config::from_text(&format!("{MINIMAL}[runner]\ntenant_permits_max = 5\n")).unwrap();
    let threads = |text: &str| Config::from_text(&format!("{MINIMAL}[runner]\n{text}\n")).unwrap().runner.threads();
    assert_eq!((threads("worker_threads = 1"), threads("worker_threads = 7")), (1, 7));
    assert_eq!(set.shown().iter().find(|shown| shown.key == "runner.tenant_permits_max").unwrap().value, "5");
}

#[test]
fn a_tenant_alone_may_have_every_permit_unless_another_share_is_set() {
    async fn accept(op: Operation) -> Result<Applied, Failure> {
        Ok(Applied::new(op.provider_key(), ()))
    }
    let app = |tenants: [Part; 2]| {
        let route = |name, tenant| operation(name).tenant(tenant).id(json("/id")).fingerprint(whole_value()).handle(accept);
        let [first, second] = tenants;
        App::new().topic("a", route("a.v1", first)).topic("b", route("b.v1", second)).with_state(()).build().unwrap()
    };
    let share = |text: &str, tenants| {
        let config = Config::from_text(&format!("{MINIMAL}[runner]\n{text}\n")).unwrap();
        config.runner.tenant_share(app(tenants).operations())
    };
    assert_eq!(share("permits = 8", [fixed("acme"), fixed("acme")]), 8);
    assert_eq!(share("permits = 8", [fixed("acme"), fixed("other")]), 6);
    assert_eq!(share("permits = 8", [fixed("acme"), header("tenant")]), 6);
    assert_eq!(share("permits = 8", [header("tenant"), header("tenant")]), 6);
    assert_eq!(share("permits = 8\ntenant_permits_max = 3", [fixed("acme"), fixed("acme")]), 3);
    assert_eq!(share("permits = 8\ntenant_permits_max = 8", [header("tenant"), fixed("acme")]), 8);
    assert_eq!(share("permits = 1", [header("tenant"), fixed("acme")]), 1);
}

#[test]
fn an_unknown_key_is_refused_with_its_place_and_the_nearest_known_key() {
    let error = load(&format!("{MINIMAL}[runner]\npermit = 3\n"), &[]).unwrap_err();
    assert!(matches!(&error, Error::UnknownKey { key, origin: Origin::File(_), nearest: Some(near) }
        if key == "runner.permit" && near == "runner.permits"));
    assert!(error.to_string().contains("receipted.toml"), "{error}");
    let error = load(MINIMAL, &[("RECEIPTED__STORE__DIRECTRY", "x")]).unwrap_err();
    let said = "store.directry is no key of receipted (variable RECEIPTED__STORE__DIRECTRY): did you mean store.directory?";
    assert_eq!(error.to_string(), said);
    assert!(matches!(load("[kafak]\nbrokers = \"x\"\n", &[]), Err(Error::UnknownKey { key, .. }) if key == "kafak"));
    assert!(matches!(load(MINIMAL, &[("RECEIPTED__RUNNER", "x")]), Err(Error::UnknownKey { .. })));
    assert!(matches!(load(MINIMAL, &[("RECEIPTED__", "x")]), Err(Error::UnknownKey { .. })));
}

#[test]
fn a_wrong_type_is_refused_with_its_place() {
    assert_eq!(
        refusal("[runner]\npermits = \"many\"\n"),
        "runner.permits = \"many\" is a string (text): write an integer, without quotes and unit"
    );
    assert_eq!(refusal("[telemetry]\nlisten = 1\n"), "telemetry.listen = 1 is an integer (text): write a string, in quotes");
    let said = "dead_letter.include_error_text = 1 is an integer (text): write true or false, without quotes";
    assert_eq!(refusal("[dead_letter]\ninclude_error_text = 1\n"), said);
    assert_eq!(
        refusal("[runner]\npermits.x = 1\n"),
        "runner.permits = { .. } is a table (text): write an integer, without quotes and unit"
    );
    assert_eq!(Config::from_text("kafka = 1\n").unwrap_err().to_string(), "kafka = 1 is an integer (text): write a table");
    let error = load(MINIMAL, &[("RECEIPTED__RUNNER__PERMITS", "many")]).unwrap_err();
    assert!(matches!(error, Error::WrongType { origin: Origin::Variable(name), .. } if name == "RECEIPTED__RUNNER__PERMITS"));
}

#[test]
fn what_has_no_default_is_missing_by_name() {
    let error = Config::load(None, env(&[])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kafka.brokers is not set; set it in the configuration file (`--config FILE`), or as RECEIPTED__KAFKA__BROKERS"
    );
    assert!(matches!(load("[kafka]\nbrokers = \"b\"\n", &[]), Err(Error::Missing { key: "kafka.group", .. })));
    assert!(Config::load_store(None, env(&[("RECEIPTED__STORE__DIRECTORY", "/r")])).is_ok_and(|store| store.directory.as_os_str() == "/r"));
}

#[test]
fn a_variable_goes_over_the_file_and_the_file_over_the_defaults() {
    let text = format!("{MINIMAL}[runner]\npermits = 3\npartition_records_max = 500\n[app]\nport = 1\nname = \"x\"\n");
    let config = load(
        &text,
        &[
            ("RECEIPTED__RUNNER__PERMITS", "128"),
            ("RECEIPTED__KAFKA__SETTINGS__SECURITY_PROTOCOL", "SSL"),
            ("RECEIPTED__DEAD_LETTER__INCLUDE_ERROR_TEXT", "true"),
            ("RECEIPTED__APP__PORT", "8080"),
            ("RECEIPTED__APP__NAME", "77"),
            ("RECEIPTED__APP__BANK__URL", "http://bank"),
            ("RECEIPTED__APP__BANK__RETRIES", "4"),
            ("RECEIPTED_TEST_BROKERS", "not ours: one underscore"),
            ("PATH", "/bin"),
        ],
    )
    .unwrap();
    assert_eq!((config.runner.permits, config.runner.partition_records_max, config.runner.batch_records_max), (128, 500, 1024));
    assert_eq!(config.kafka.settings["security.protocol"], "SSL");
    assert!(config.dead_letter.include_error_text);
    #[derive(serde::Deserialize, PartialEq, Debug)]
    struct App {
        port: u16,
        name: String,
        bank: Bank,
    }
    #[derive(serde::Deserialize, PartialEq, Debug)]
    struct Bank {
        url: String,
        retries: u8,
    }
    let bank = Bank { url: "http://bank".into(), retries: 4 };
    assert_eq!(config.app::<App>().unwrap(), App { port: 8080, name: "77".into(), bank });
    let origin = |key: &str| config.shown().iter().find(|shown| shown.key == key).unwrap().origin.clone();
    assert_eq!(origin("runner.permits"), Origin::Variable("RECEIPTED__RUNNER__PERMITS".into()));
    assert!(matches!(origin("runner.partition_records_max"), Origin::File(_)));
    assert_eq!(origin("runner.batch_records_max"), Origin::Default);
}

#[test]
fn every_setting_that_is_ours_is_refused_by_name_with_a_reason_however_it_is_written() {
    for (name, reason) in kafka::OWNED {
        assert!(!reason.is_empty());
        let quoted = refusal(&format!("[kafka.settings]\n\"{name}\" = \"false\"\n"));
        let bare = refusal(&format!("settings.{name} = true\n"));
        for said in [quoted, bare] {
            assert_eq!(said, format!("kafka.settings.{name} is not yours to set (text): remove it; {reason}"));
        }
        let variable = format!("RECEIPTED__KAFKA__SETTINGS__{}", name.to_uppercase().replace('.', "_"));
        assert!(matches!(load(MINIMAL, &[(&variable, "1")]), Err(Error::Owned { name: refused, .. }) if refused == *name));
    }
    for name in ["enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "isolation.level", "enable.partition.eof"] {
        assert!(kafka::OWNED.iter().any(|(owned, _)| *owned == name), "{name}");
    }
}

/// An error, never a silent override: what the runner sets itself is refused from outside.
#[test]
fn every_setting_that_the_runner_sets_is_refused() {
    let source = std::fs::read_to_string("src/runner/settings.rs").unwrap();
    let names: Vec<&str> = source.split(".set(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        assert!(kafka::refused(name, "x").is_some(), "{name} passes through and is overridden");
    }
}

/// C02 and C08: offsets that a client commits by itself lose records, so that a start with them is refused.
#[test]
fn c02_c08_automatic_commits_are_refused_at_start_up() {
    for name in ["enable.auto.commit", "enable.auto.offset.store"] {
        assert!(refusal(&format!("[kafka.settings]\n\"{name}\" = true\n")).contains(name));
    }
}

#[test]
fn the_consumer_group_protocol_is_refused_and_the_classic_one_may_be_written() {
    assert!(refusal("[kafka.settings]\n\"group.protocol\" = \"consumer\"\n").contains("group.protocol"));
    assert!(Config::from_text(&format!("{MINIMAL}[kafka.settings]\n\"group.protocol\" = \"classic\"\n")).is_ok());
}

#[test]
fn client_settings_take_plain_values_and_become_text() {
    let text = format!("{MINIMAL}[kafka.settings]\nsocket.keepalive.enable = true\n\"queued.min.messages\" = 7\nclient.rack = \"a\"\n");
    let config = Config::from_text(&text).unwrap();
    let settings = &config.kafka.settings;
    assert_eq!((&*settings["socket.keepalive.enable"], &*settings["queued.min.messages"], &*settings["client.rack"]), ("true", "7", "a"));
    assert!(refusal("[kafka.settings]\n\"a.b\" = 1.5\n").starts_with("kafka.settings.a.b = 1.5 is a float"));
    assert!(refusal("[kafka.settings]\n\"a.b\" = [1]\n").starts_with("kafka.settings.a.b = [1] is an array"));
}

#[test]
fn a_first_start_is_earliest_latest_or_a_time() {
    let first = |text: &str| Config::from_text(&format!("{MINIMAL}first_start = \"{text}\"\n")).map(|config| config.kafka.first_start);
    assert_eq!(first("earliest").unwrap(), Some(FirstStart::Earliest));
    assert_eq!(first("latest").unwrap(), Some(FirstStart::Latest));
    let at = receipted::protocol::time::UnixMillis(1_772_323_200_000);
    assert_eq!(first("2026-03-01T00:00:00Z").unwrap(), Some(FirstStart::At(at)));
    assert!(first("yesterday").unwrap_err().to_string().starts_with("kafka.first_start = \"yesterday\" is not known"));
}

#[test]
fn no_secret_is_printed_anywhere() {
    let text = format!(
        "{MINIMAL}[kafka.settings]\n\"security.protocol\" = \"SASL_SSL\"\n\"sasl.mechanism\" = \"PLAIN\"\n\"sasl.username\" = \"u\"\n\
         \"sasl.password\" = \"hunter2\"\n\"ssl.key.password\" = \"hunter2\"\n\"sasl.oauthbearer.config\" = \"hunter2\"\n\
         \"client.rack\" = \"r1\"\n[app]\nurl = \"postgres://u:hunter2@db\"\n"
    );
    let config = Config::from_text(&text).unwrap();
    let printed = format!("{config:?} {:?} {:?}", config.kafka, config.shown());
    assert!(!printed.contains("hunter2"), "{printed}");
    assert!(printed.contains("r1") && printed.contains("app.url"));
    let broken = Config::from_text("[kafka.settings]\n\"sasl.password\" = \"hunter2\n").unwrap_err();
    assert!(!broken.to_string().contains("hunter2") && !format!("{broken:?}").contains("hunter2"), "{broken:?}");
    // Also where the client refuses one, which this build cannot use.
    for name in ["ssl.key.pem", "sasl.oauthbearer.client.secret"] {
        let text = format!("[kafka.settings]\nsecurity.protocol = \"SASL_SSL\"\n\"{name}\" = \"hunter2\"\n");
        assert!(!refusal(&text).contains("hunter2"), "{name}");
    }
    #[derive(serde::Deserialize, Debug)]
    struct App {
        #[allow(dead_code)]
        url: u16,
    }
    let error = config.app::<App>().unwrap_err();
    assert_eq!(error.to_string(), "table [app]: another value is expected u16 in `url`");
    #[derive(serde::Deserialize, Debug)]
    struct Other {
        #[allow(dead_code)]
        port: u16,
    }
    assert_eq!(config.app::<Other>().unwrap_err().to_string(), "table [app]: missing field `port`");
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text_is_refused_by_name() {
    use std::os::unix::ffi::OsStringExt;
    let variables = [(OsString::from("RECEIPTED__KAFKA__GROUP"), OsString::from_vec(vec![0xff]))];
    assert!(matches!(Config::load(None, variables), Err(Error::NotText { name }) if name == "RECEIPTED__KAFKA__GROUP"));
}
