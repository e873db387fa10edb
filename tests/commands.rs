//! A whole program by its commands alone: it runs, is seen, is asked and settled over its socket, stops, and its store is checked.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod support;

use receipted::{
    prelude::*,
    protocol::key::{Alphabet, OperationKey},
};
use serde::Deserialize;
use std::{
    io::Read,
    path::PathBuf,
    process::{Command, ExitCode, Output},
    time::Duration,
};
use support::{
    broker,
    cluster::{self, Record},
    http::{self, Samples},
    process::{self, Child, ROLE, wait_for, wait_until},
};

const BOUND: Duration = Duration::from_secs(60);
const TOPIC: &str = "RECEIPTED_TEST_TOPIC";

#[derive(Deserialize)]
struct Order {
    id: String,
}

/// An id that begins with "lost" has its effect and loses its answer.
async fn ship(op: Operation, Json(order): Json<Order>) -> Result<Applied, Failure> {
    if order.id.starts_with("lost") {
        Err("connection reset")?;
    }
    Ok(Applied::new(format!("parcel-{}-{}", order.id, op.attempt()), ()))
}

fn app() -> App {
    let topic = std::env::var(TOPIC).expect("the topic");
    let ship = operation("ship.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(ship);
    App::new().topic(topic, ship)
}

/// The program under test; it ends with its parent.
fn program() -> ExitCode {
    std::thread::spawn(|| {
        // Whatever the pipe says at its end, the parent is gone.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(70);
    });
    receipted::main(app(), async |config| {
        #[derive(Deserialize)]
        struct Own {
            down: Option<bool>,
        }
        if config.app::<Own>()?.down == Some(true) { Err("the depot is closed".into()) } else { Ok(()) }
    })
}

/// A program whose author put it into a runtime.
fn nested() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async { program() })
}

fn main() -> ExitCode {
    match std::env::var(ROLE).as_deref() {
        Ok("program") => program(),
        Ok("nested") => nested(),
        _ => {
            let mut tests = trials![
                routes_are_printed_and_nothing_is_connected,
                a_shell_completes_the_commands_of_the_program,
                a_program_inside_a_runtime_says_what_to_do,
                what_is_missing_is_said_first,
                a_stopped_store_goes_into_a_file_and_becomes_a_new_one
            ];
            tests.extend(trials![real broker:
                a_program_runs_and_is_seen_and_settled_and_stops,
                an_app_that_cannot_connect_ends_before_anything_is_taken,
                an_existing_group_is_adopted,
                digests_are_made_with_a_secret_that_the_store_is_bound_to_and_anew_with_another,
                a_store_in_use_is_not_opened_twice,
                the_cluster_is_asked_whether_it_goes_with_the_configuration,
                an_app_that_would_read_its_own_dead_letters_does_not_start,
            ]);
            process::run(tests, &[])
        }
    }
}

/// A program with a topic, a group and a store of its own.
struct Program {
    folder: tempfile::TempDir,
    topic: String,
    group: String,
}

impl Program {
    fn new(first_start: &str) -> Self {
        let (folder, topic, group) =
            (tempfile::tempdir().unwrap(), broker::shared().fresh_topic("commands", 2), cluster::unique("commands"));
        broker::shared().create_topic(&format!("{group}.dead-letters"), 1, &[]);
        let program = Self { folder, topic, group };
        let text = format!(
            "[kafka]\nbrokers = {:?}\ngroup = {:?}\nfirst_start = {first_start:?}\nsession_timeout = \"10s\"\n[store]\ndirectory = {:?}\nfile_system = \"any\"\n\
             [runner]\ncommit_interval = \"100ms\"\n[telemetry]\nlisten = \"127.0.0.1:{}\"\n",
            broker::shared().brokers(),
            program.group,
            program.store(),
            free_port(),
        );
        std::fs::write(program.file(), text).unwrap();
        program
    }

    /// Writes the configuration again, with one text in another's place.
    fn set(&self, old: &str, new: &str) {
        let text = std::fs::read_to_string(self.file()).unwrap();
        assert!(text.contains(old), "{old} in {text}");
        std::fs::write(self.file(), text.replace(old, new)).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("receipted.toml")
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("receipts")
    }

    fn address(&self) -> String {
        let text = std::fs::read_to_string(self.file()).unwrap();
        let at = text.split("listen = \"").nth(1).unwrap();
        at.split('"').next().unwrap().into()
    }

    fn start(&self) -> Child {
        process::role("program").env(TOPIC, &self.topic).arg("run").arg("--config").arg(self.file()).start()
    }

    fn ready(&self, child: &mut Child) {
        wait_until("a ready program", BOUND, || {
            assert!(child.ended().is_none(), "it ended:\n{}", child.output());
            http::get(&self.address(), "/health/ready").is_ok_and(|(status, _)| status == 200)
        });
    }

    fn stop(child: &mut Child) {
        child.signal(rustix::process::Signal::TERM);
        child.wait_success(BOUND);
    }

    fn command(&self, arguments: &[&str]) -> Output {
        command("program", &self.topic, &[arguments, &["--config", self.file().to_str().unwrap()]].concat())
    }

    fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        Samples::at(&self.address()).sum(name, labels).unwrap_or_else(|| panic!("{name} {labels:?}"))
    }

    fn wait_metric(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        wait_until(&format!("{name} {labels:?} at {value}"), BOUND, || self.metric(name, labels) == value);
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn command(role: &str, topic: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(ROLE, role).env(TOPIC, topic).args(arguments).stdin(std::process::Stdio::piped());
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let watched = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(watched);
    output
}

fn order(id: &str) -> Record {
    cluster::record(format!(r#"{{"id":"{id}"}}"#)).key(id)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn refused(output: &Output, code: i32) -> &str {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}\n{}", text(&output.stdout));
    said
}

fn done(output: &Output) -> &str {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn routes_are_printed_and_nothing_is_connected() {
    let output = command("program", "orders", &["routes"]);
    let said = done(&output);
    for part in ["operation", "ship.v1", "orders", "record key", "fixed", "/id", "whole", "parked", "hold", "for ever", "30s"] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    let details = command("program", "orders", &["routes", "--details"]);
    for part in ["ship.v1", "topics       orders (in order of each record key)", "in doubt     hold", "unresolved "] {
        assert!(done(&details).contains(part), "{part:?} in {}", done(&details));
    }
    let json: serde_json::Value = serde_json::from_slice(&command("program", "orders", &["routes", "--output", "json"]).stdout).unwrap();
    assert_eq!((&json[0]["operation"], &json[0]["in_doubt"]), (&"ship.v1".into(), &"hold".into()));
    assert_eq!((&json[0]["topics"][0]["topic"], &json[0]["time_limit_ms"]), (&"orders".into(), &30_000.into()));
    assert_eq!(
        (&json[0]["on_conflict"], &json[0]["takes_provider_key"], &json[0]["replies"]),
        (&"parked".into(), &true.into(), &false.into())
    );
    assert_eq!(json[0]["layers"], serde_json::json!([]), "it has none, and says so");
}

/// The script is for the name that the program was started by, and bash completes with it what the program takes.
fn a_shell_completes_the_commands_of_the_program() {
    let output = command("program", "orders", &["completions", "bash"]);
    let script = done(&output);
    let name = std::env::current_exe().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    let function = script.lines().find_map(|line| line.strip_suffix("() {")).expect("a function").trim().to_owned();
    let ask = |words: &[&str]| {
        let all: Vec<String> = std::iter::once(name.as_str()).chain(words.iter().copied()).map(|word| format!("'{word}'")).collect();
        let (last, before) = (words[words.len() - 1], all[all.len() - 2].trim_matches('\''));
        let call = format!("COMP_WORDS=({}); COMP_CWORD={}; {function} '{name}' '{last}' '{before}'", all.join(" "), words.len());
        let asked = format!("{script}\n{call}\necho \"${{COMPREPLY[@]}}\"");
        let output = Command::new("bash").args(["--norc", "-c", &asked]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        let mut found: Vec<String> = said.split_whitespace().map(String::from).collect();
        found.sort();
        found
    };
    assert_eq!(
        ask(&["partitions", ""]).iter().filter(|word| !word.starts_with('-')).collect::<Vec<_>>(),
        ["help", "list", "pause", "resume", "skip"]
    );
    assert_eq!(ask(&["operations", "settle", "--out"]), ["--outcome", "--output"]);
    assert_eq!(ask(&["rout"]), ["routes"]);
    let named = script.lines().rfind(|line| line.trim_start().starts_with("complete ")).unwrap();
    assert!(name.contains('-') && named.ends_with(&format!(" {name}")), "{named}");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        assert!(done(&command("program", "orders", &["completions", shell])).contains(&name), "{shell}");
    }
}

fn a_program_inside_a_runtime_says_what_to_do() {
    let output = command("nested", "orders", &["routes"]);
    let said = refused(&output, 78);
    assert!(said.contains("inside an async runtime") && said.contains("receipted::serve"), "{said}");
}

fn what_is_missing_is_said_first() {
    let output = command("program", "orders", &["run"]);
    assert!(refused(&output, 78).contains("kafka.brokers is not set"));
}

fn a_stopped_store_goes_into_a_file_and_becomes_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (old, file, new) = (path("old"), path("receipts.export"), path("new"));
    let partition = receipted::store::Partition { topic: "orders".into(), number: 0 };
    receipted::store::sled::adopt(&folder.path().join("old"), &partition, 7, "an existing group").unwrap();
    let run = |arguments: &[&str]| command("program", "orders", &[&["store"], arguments].concat());
    let json = |output: &Output| -> serde_json::Value {
        assert_eq!(text(&output.stderr), "", "no progress where programs read");
        serde_json::from_str(done(output)).unwrap()
    };

    let said = json(&run(&["export", &file, "--store", &old, "--output", "json"]));
    let from = said["store"].clone();
    assert_eq!((said["operations"].as_u64(), said["bytes"].as_u64()), (Some(0), Some(std::fs::metadata(&file).unwrap().len())));
    assert!(refused(&run(&["export", &file, "--store", &old]), 65).contains("never written over"));
    assert!(refused(&run(&["export", "-", "--store", &old]), 2).contains("- is not one"));
    assert!(refused(&run(&["export", &path("none.export"), "--store", &path("none")]), 74).contains("find a store"));

    let said = json(&run(&["import", &file, "--store", &new, "--output", "json"]));
    assert_eq!((&said["imported"]["from"], &said["imported"]["unverified"]["orders/0"]["from"]), (&from, &7.into()));
    assert_ne!(said["store"], from);
    assert!(refused(&run(&["import", &file, "--store", &new]), 65).contains("not an empty directory"));
    assert!(refused(&run(&["import", &path("none.export"), "--store", &path("third")]), 66).contains("none.export"));
    let cut = path("cut.export");
    std::fs::write(&cut, &std::fs::read(&file).unwrap()[..100]).unwrap();
    assert!(refused(&run(&["import", &cut, "--store", &path("third")]), 65).contains("ends at byte 100"));
    assert!(!folder.path().join("third").exists());
    let third = run(&["import", &file, "--store", &path("third")]);
    for part in ["is new store", "orders/0 from offset 7 on", "never runs again", "store adopt"] {
        assert!(done(&third).contains(part), "{part:?} in {}", text(&third.stdout));
    }
    let said = json(&run(&["verify", "--store", &new, "--output", "json"]));
    assert_eq!((&said["sound"], &said["imported"]["from"]), (&true.into(), &from));
    assert!(done(&run(&["verify", "--store", &new])).contains("unverified, until an offset is adopted for each: orders/0"));
}

fn a_program_runs_and_is_seen_and_settled_and_stops() {
    let program = Program::new("earliest");
    let mut child = program.start();
    program.ready(&mut child);
    assert_eq!(http::get(&program.address(), "/health/live").unwrap().0, 200);
    let topic = ("topic", program.topic.as_str());
    assert_eq!(program.metric("receipted_operations_total", &[topic, ("operation", "ship.v1")]), 0.0);
    let records = ["a", "b", "a", "lost-1"].map(order).into_iter().chain([cluster::record("no json")]);
    broker::shared().produce(&program.topic, records);
    for (outcome, records) in [("applied", 2.0), ("suppressed", 1.0), ("parked", 1.0), ("dead_lettered", 1.0)] {
        program.wait_metric("receipted_operations_total", &[topic, ("outcome", outcome)], records);
    }
    assert_eq!(program.metric("receipted_records_fetched_total", &[topic]), 5.0);
    program.wait_metric("receipted_records_in_flight", &[topic], 0.0);
    program.wait_metric("receipted_unresolved", &[("reason", "unknown")], 1.0);
    assert_eq!(program.metric("receipted_route_info", &[("operation", "ship.v1"), ("contract", "hold")]), 1.0);

    let listed = program.command(&["operations", "list", "--output", "json"]);
    let listing: serde_json::Value = serde_json::from_str(done(&listed)).unwrap();
    let line = &listing["operations"][0];
    assert_eq!((&line["id"][0], &line["state"], &line["parked"]), (&"lost-1".into(), &"in_doubt".into(), &1.into()));
    let digest = line["key"].as_str().unwrap();
    let word = ["--reason", "seen at the depot", "--by", "ada"];
    let settle = |more: &[&str]| program.command(&[&["operations", "settle", digest], more, &word].concat());
    let early = settle(&["--outcome", "not-done"]);
    assert!(refused(&early, 65).contains("--cannot-land-any-more"));
    assert!(done(&settle(&["--outcome", "applied", "--reference", "parcel-9"])).contains("is applied"));
    program.wait_metric("receipted_unresolved", &[], 0.0);
    program.wait_metric("receipted_parked", &[], 0.0);
    program.wait_metric("receipted_unresolved_closed_total", &[("verdict", "applied"), ("by", "operator")], 1.0);
    let shown = program.command(&["operations", "show", "--tenant", "acme", "--operation", "ship.v1", "--id", "lost-1"]);
    assert!(done(&shown).contains("seen at the depot"), "{}", text(&shown.stdout));

    let file = program.folder.path().join("export");
    for command in [vec!["verify"], vec!["export", file.to_str().unwrap()]] {
        let busy = program.command(&[vec!["store"], command].concat());
        assert!(refused(&busy, 78).contains("in use"));
    }
    assert!(!file.exists());
    Program::stop(&mut child);
    assert!(!program.store().join("receipted.sock").exists());
    assert_eq!(http::get(&program.address(), "/health/live").map_err(|_| ()), Err(()));
    let verified = program.command(&["store", "verify"]);
    assert!(done(&verified).ends_with("sound\n"), "{}", text(&verified.stdout));
}

fn an_app_that_cannot_connect_ends_before_anything_is_taken() {
    let program = Program::new("earliest");
    let down = format!("{}[app]\ndown = true\n", std::fs::read_to_string(program.file()).unwrap());
    std::fs::write(program.file(), down).unwrap();
    let output = program.command(&["run"]);
    assert!(refused(&output, 70).contains("the depot is closed"));
    assert!(!program.store().exists());
}

fn an_existing_group_is_adopted() {
    let program = Program::new("");
    broker::shared().produce(&program.topic, ["a", "b"].map(|id| order(id).partition(0)));
    broker::shared().commit(&program.group, &program.topic, 0, 1, None);
    let output = program.command(&["run"]);
    let said = refused(&output, 78);
    assert!(said.contains("adopt"), "{said}");
    let adopted = program.command(&["store", "adopt", &program.topic, "--reason", "moved from the old consumer"]);
    assert!(done(&adopted).contains("/0 adopted at 1"), "{}", text(&adopted.stdout));
    let mut child = program.start();
    program.ready(&mut child);
    wait_for("the second record alone", BOUND, || {
        (program.metric("receipted_operations_total", &[("topic", &program.topic), ("outcome", "applied")]) == 1.0).then_some(())
    });
    Program::stop(&mut child);
    let none = program.command(&["store", "adopt", "no-such-topic", "--reason", "x"]);
    assert!(refused(&none, 78).contains("no-such-topic"));
}

fn digests_are_made_with_a_secret_that_the_store_is_bound_to_and_anew_with_another() {
    let program = Program::new("earliest");
    let path = |name: &str| program.folder.path().join(name).to_str().unwrap().to_string();
    let setting = |name: &str| format!("key_secret_file = {:?}\n", path(name));
    for (name, secret) in [("one", "1".repeat(64)), ("two", "2".repeat(64)), ("short", "secret".into())] {
        std::fs::write(path(name), format!("{secret}\n")).unwrap();
    }
    program.set("[runner]", &format!("{}[runner]", setting("one")));
    let mut child = program.start();
    program.ready(&mut child);
    broker::shared().produce(&program.topic, ["a", "a", "lost-1"].map(order));
    let outcome = |outcome: &str, records| {
        program.wait_metric("receipted_operations_total", &[("topic", &program.topic), ("outcome", outcome)], records);
    };
    outcome("suppressed", 1.0);
    outcome("parked", 1.0);
    let show = ["operations", "show", "--tenant", "acme", "--operation", "ship.v1", "--id", "lost-1", "--output", "json"];
    let shown: serde_json::Value = serde_json::from_str(done(&program.command(&show))).unwrap();
    let plain = OperationKey::new("acme", "ship.v1", &["lost-1".into()], Alphabet::Token).unwrap().digest().to_string();
    assert_eq!((&shown["id"][0], &shown["state"]), (&"lost-1".into(), &"in_doubt".into()), "a person can settle by it");
    assert_ne!(shown["key"], plain.as_str());
    let word = ["--reason", "seen at the depot", "--by", "ada"];
    let settle = [
        "operations",
        "settle",
        "--tenant",
        "acme",
        "--operation",
        "ship.v1",
        "--id",
        "lost-1",
        "--outcome",
        "applied",
        "--reference",
        "parcel-9",
    ];
    done(&program.command(&[&settle[..], &word].concat()));
    Program::stop(&mut child);
    let logged = child.output();
    assert!(!logged.contains(&plain) && !logged.contains("1111111111"), "{logged}");

    for (name, said) in [("two", "made with the secret"), ("short", "openssl rand"), ("none", "No such file")] {
        program.set(&setting("one"), &setting(name));
        let output = program.command(&["run"]);
        let refused = refused(&output, 78);
        assert!(refused.contains(said) && refused.contains("store.key_secret_file"), "{refused}");
        program.set(&setting(name), &setting("one"));
    }
    let file = path("export");
    done(&program.command(&["store", "export", &file]));
    program.set(&setting("one"), &setting("two"));
    program.set(&format!("{:?}", program.store()), &format!("{:?}", path("anew")));
    assert!(refused(&program.command(&["store", "import", &file]), 65).contains("--exported-key-secret-file"));
    let imported = program.command(&["store", "import", &file, "--exported-key-secret-file", &path("one")]);
    assert!(done(&imported).contains("2 operations"), "{}", text(&imported.stdout));
    done(&program.command(&["store", "adopt", &program.topic, "--reason", "the old store is gone"]));
    broker::shared().produce(&program.topic, ["a", "lost-1"].map(order));
    let mut child = program.start();
    program.ready(&mut child);
    outcome("suppressed", 2.0);
    outcome("applied", 0.0);
    Program::stop(&mut child);
}

fn a_store_in_use_is_not_opened_twice() {
    let program = Program::new("earliest");
    let mut child = program.start();
    program.ready(&mut child);
    let other = Program { folder: tempfile::tempdir().unwrap(), topic: program.topic.clone(), group: program.group.clone() };
    let text = std::fs::read_to_string(program.file()).unwrap().replace(&program.address(), &format!("127.0.0.1:{}", free_port()));
    std::fs::write(other.file(), text).unwrap();
    let output = other.command(&["run"]);
    assert!(refused(&output, 78).contains("in use"));
    Program::stop(&mut child);
}

/// What `check-config --against-brokers` says, as its exit code and its lines.
fn survey(program: &Program) -> (Option<i32>, Vec<[String; 4]>) {
    let output = program.command(&["check-config", "--against-brokers", "--output", "json"]);
    let lines: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let word = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap_or_default().to_string();
    let four = |line: &serde_json::Value| ["about", "found", "verdict", "remedy"].map(|name| word(line, name));
    (output.status.code(), lines.iter().map(four).collect())
}

fn the_cluster_is_asked_whether_it_goes_with_the_configuration() {
    let program = Program::new("earliest");
    let letters = format!("{}.dead-letters", program.group);
    let (code, lines) = survey(&program);
    assert_eq!(code, Some(0), "{lines:?}");
    let about = format!("topic {}", program.topic);
    assert!(lines.iter().any(|line| line[0] == about && line[1] == "2 partitions"), "{lines:?}");
    // The test broker takes larger records than can be parked, and both topics the same, so that the largest has no room for headers.
    assert_eq!(lines.iter().filter(|line| line[2] == "mind").count(), 2, "{lines:?}");

    // Each fault is found by name, with what to do.
    let server = broker::shared();
    let fault = |topic: &str, config: &[(&str, &str)], says: &str, ends: i32| {
        let faulty = Program { folder: tempfile::tempdir().unwrap(), topic: cluster::unique(topic), group: program.group.clone() };
        let text = std::fs::read_to_string(program.file()).unwrap();
        std::fs::write(faulty.file(), &text).unwrap();
        if !config.is_empty() {
            server.create_topic(&faulty.topic, 1, config);
        }
        let (code, lines) = survey(&faulty);
        assert_eq!(code, Some(ends), "{lines:?}");
        assert!(lines.iter().any(|line| line[0].contains(&faulty.topic) && line[3].contains(says)), "{says:?} in {lines:?}");
    };
    fault("none", &[], "create it, or correct the app's route", 78);
    fault("compacted", &[("cleanup.policy", "compact")], "an operation may never come", 0);
    fault("short", &[("retention.ms", "3600000")], "loses records before they are read", 0);
    fault("large", &[("max.message.bytes", "33554432")], "store.park_record_bytes_max = 16777216", 0);

    let changed = |from: &str, to: &str| {
        let text = std::fs::read_to_string(program.file()).unwrap();
        assert!(text.contains(from), "{from:?} in {text}");
        let other = Program { folder: tempfile::tempdir().unwrap(), topic: program.topic.clone(), group: program.group.clone() };
        std::fs::write(other.file(), text.replace(from, to)).unwrap();
        survey(&other)
    };
    let (code, lines) = changed("session_timeout = \"10s\"", "session_timeout = \"900ms\"\nheartbeat_interval = \"300ms\"");
    assert_eq!(code, Some(78));
    assert!(lines.iter().any(|line| line[0] == "session timeout" && line[2] == "wrong"), "{lines:?}");
    let (code, lines) = changed(&format!("group = {:?}", program.group), "group = \"no-letters\"");
    assert_eq!(code, Some(78));
    assert!(lines.iter().any(|line| line[0] == "topic no-letters.dead-letters" && line[3].contains("dead_letter.topic")), "{lines:?}");
    let compacted = cluster::unique("compacted-letters");
    server.create_topic(&compacted, 1, &[("cleanup.policy", "compact")]);
    let (code, lines) = changed("[telemetry]", &format!("[dead_letter]\ntopic = {compacted:?}\n[telemetry]"));
    assert_eq!(code, Some(78));
    assert!(lines.iter().any(|line| line[0].contains(&compacted) && line[3].contains("cleanup.policy=delete")), "{lines:?}");

    // People get a table; nothing was joined and no store was made.
    let shown = program.command(&["check-config", "--against-brokers"]);
    assert!(done(&shown).contains("what to do"), "{}", text(&shown.stdout));
    assert!(!program.store().exists());
    assert_eq!(server.group(&program.group).1, Vec::<String>::new());
    assert!(server.partitions(&letters).is_some());
}

fn an_app_that_would_read_its_own_dead_letters_does_not_start() {
    let program = Program::new("earliest");
    let text = std::fs::read_to_string(program.file()).unwrap();
    std::fs::write(program.file(), format!("{text}[dead_letter]\ntopic = {:?}\n", program.topic)).unwrap();
    broker::shared().produce(&program.topic, [cluster::record("no json")]);
    let output = program.command(&["run"]);
    let said = refused(&output, 78);
    assert!(said.contains("each dead letter would come in again") && said.contains("dead_letter.topic"), "{said}");
    let (least, most) =
        (0..2).map(|partition| broker::shared().log_range(&program.topic, partition)).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    assert_eq!(most - least, 1, "nothing was added");
}
