//! The examples of docs/SECURITY.md against a broker that asks for what they give.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod support;

use receipted::prelude::*;
use serde::Deserialize;
use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::OnceLock,
    time::Duration,
};
use support::{
    broker::{Broker, Extra},
    cluster,
    destination::{Apply, Destination, Server},
    process::{self, ROLE, wait_until},
};

const BOUND: Duration = Duration::from_secs(60);
const PAGE: &str = include_str!("../docs/SECURITY.md");
const SECRET: &str = "sesame-4711";
/// Where the examples connect to, and how the broker names that listener and what it speaks.
const LISTENERS: [(&str, &str, &str); 5] = [
    ("kafka.example:9093", "TLS", "SSL"),
    ("kafka.example:9094", "MUTUAL", "SSL"),
    ("kafka.example:9095", "SCRAM", "SASL_SSL"),
    ("kafka.example:9096", "PLAIN", "SASL_SSL"),
    ("kafka.example:9097", "OAUTH", "SASL_SSL"),
];

#[derive(Deserialize)]
struct Order {
    id: String,
}

async fn ship(op: Operation, Json(order): Json<Order>, State(depot): State<Destination>) -> Result<Applied, Failure> {
    let done = depot.apply(Apply::new(op.provider_key(), format!("ship/{}", order.id))).await?;
    Ok(Applied::new(&done.reference, ()))
}

#[derive(Deserialize)]
struct Own {
    topic: String,
    depot: String,
}

fn program() -> ExitCode {
    process::end_with_parent();
    let topic = std::env::var("TEST_TOPIC").expect("the topic");
    let ship = operation("ship.v1").tenant(fixed("acme")).id(json("/id")).fingerprint(whole_value()).handle(ship);
    receipted::main(App::new().topic(topic, ship), async |config| {
        let Own { topic, depot } = config.app()?;
        assert!(!topic.is_empty());
        Ok(Destination::new(depot))
    })
}

/// A broker with every listener, and the files of its clients.
struct Secured {
    broker: Broker,
    files: tempfile::TempDir,
    ports: Vec<u16>,
}

fn openssl(folder: &Path, line: &str) {
    let done = Command::new("openssl").args(line.split(' ')).current_dir(folder).output().expect("openssl");
    assert!(done.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A signer, the broker's key and certificate, and a client's, whose key has a password.
fn certificates(folder: &Path) {
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1").unwrap();
    openssl(folder, "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test-signer -keyout ca.key -out ca.pem");
    for who in ["broker", "client"] {
        openssl(folder, &format!("req -newkey rsa:2048 -nodes -subj /CN={who} -keyout {who}.plain -out {who}.csr"));
        openssl(folder, &format!("x509 -req -in {who}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {who}.pem"));
    }
    openssl(folder, &format!("pkcs8 -topk8 -in client.plain -out client.key -passout pass:{SECRET}"));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    std::fs::write(folder.join("broker-all.pem"), read("broker.plain") + &read("broker.pem")).unwrap();
}

impl Secured {
    fn start() -> Self {
        let files = tempfile::tempdir().unwrap();
        certificates(files.path());
        let held: Vec<TcpListener> = LISTENERS.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = held.iter().map(|held| held.local_addr().unwrap().port()).collect();
        drop(held);
        let file = |name: &str| files.path().join(name).display().to_string();
        let module = |of: &str| format!("org.apache.kafka.common.security.{of} required");
        let properties = vec![
            "ssl.keystore.type=PEM".into(),
            format!("ssl.keystore.location={}", file("broker-all.pem")),
            "ssl.truststore.type=PEM".into(),
            format!("ssl.truststore.location={}", file("ca.pem")),
            "listener.name.mutual.ssl.client.auth=required".into(),
            "listener.name.scram.sasl.enabled.mechanisms=SCRAM-SHA-512".into(),
            format!("listener.name.scram.scram-sha-512.sasl.jaas.config={};", module("scram.ScramLoginModule")),
            "listener.name.plain.sasl.enabled.mechanisms=PLAIN".into(),
            format!("listener.name.plain.plain.sasl.jaas.config={} user_payments=\"{SECRET}\";", module("plain.PlainLoginModule")),
            "listener.name.oauth.sasl.enabled.mechanisms=OAUTHBEARER".into(),
            format!(
                "listener.name.oauth.oauthbearer.sasl.jaas.config={} unsecuredLoginStringClaim_sub=\"broker\";",
                module("oauthbearer.OAuthBearerLoginModule")
            ),
        ];
        let listeners = LISTENERS.iter().zip(&ports).map(|((_, name, protocol), port)| (*name, *port, *protocol)).collect();
        let format = vec!["--add-scram".into(), format!("SCRAM-SHA-512=[name=payments,password={SECRET}]")];
        let broker = Broker::start_with(&Extra { listeners, properties, format });
        Self { broker, files, ports }
    }

    fn shared() -> &'static Self {
        static SHARED: OnceLock<Secured> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// The page's example as somebody here would write it, with the environment beside it.
    fn example(&self, heading: &str) -> (String, Vec<(String, String)>) {
        let section = PAGE.split("\n## ").find(|section| section.starts_with(heading)).expect("the section");
        let block =
            |kind: &str| section.split(&format!("```{kind}\n")).nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
        let mut text = block("toml").replace("/etc/payments", &self.files.path().display().to_string());
        for ((address, ..), port) in LISTENERS.iter().zip(&self.ports) {
            text = text.replace(address, &format!("127.0.0.1:{port}"));
        }
        let environment = block("sh").lines().map(|line| line.split_once('=').expect("a variable"));
        (text, environment.map(|(name, value)| (name.to_owned(), value.replace("change-me", SECRET))).collect())
    }
}

/// A program by an example, with a topic, a group and a store of its own.
struct Case {
    folder: tempfile::TempDir,
    topic: String,
    group: String,
    environment: Vec<(String, String)>,
}

impl Case {
    fn new(text: &str, environment: Vec<(String, String)>, depot: &str) -> Self {
        let cluster = &Secured::shared().broker;
        let (folder, topic, group) = (tempfile::tempdir().unwrap(), cluster.fresh_topic("secured", 1), cluster::unique("secured"));
        cluster.create_topic(&format!("{group}.dead-letters"), 1, &[]);
        let (head, rest) = text.split_once("[kafka]\n").expect("the section");
        let text = format!(
            "{head}[kafka]\ngroup = {group:?}\nfirst_start = \"earliest\"\n{rest}[store]\ndirectory = {:?}\nfile_system = \"any\"\n\
             [runner]\ncommit_interval = \"100ms\"\n[telemetry]\nlisten = \"127.0.0.1:0\"\n[app]\ntopic = {topic:?}\ndepot = {depot:?}\n",
            folder.path().join("receipts"),
        );
        std::fs::write(folder.path().join("receipted.toml"), text).unwrap();
        Self { folder, topic, group, environment }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("receipted.toml")
    }

    /// Records are handled, a record that is no order goes to the dead letters, and the offsets are committed: consumer and producer.
    fn works(self, server: &Server) {
        let cluster = &Secured::shared().broker;
        let order = |id: &str| cluster::record(format!(r#"{{"id":"{id}"}}"#)).key(id);
        cluster.produce(&self.topic, [order("1"), cluster::record("no order").key("x"), order("1"), order("2")]);
        let mut start = process::role("program").env("TEST_TOPIC", &self.topic).arg("run").arg("--config").arg(self.file());
        for (name, value) in &self.environment {
            start = start.env(name, value);
        }
        let mut child = start.start();
        wait_until("four complete slots", BOUND, || {
            assert!(child.ended().is_none(), "it ended:\n{}", child.output());
            cluster.committed(&self.group, &self.topic, 0).is_some_and(|committed| committed.offset == 4)
        });
        child.signal(rustix::process::Signal::TERM);
        child.wait_success(BOUND);
        assert_eq!((server.ledger().total(), server.ledger().excess()), (2, 0));
        assert_eq!(cluster.read_all(&format!("{}.dead-letters", self.group)).len(), 1);
        assert!(!child.output().contains(SECRET), "a secret in what it says:\n{}", child.output());
    }

    /// What `check-config --against-brokers` says, and with which code it ends.
    fn checked(&self) -> (Option<i32>, String) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .env(ROLE, "program")
            .env("TEST_TOPIC", &self.topic)
            .args(["check-config", "--against-brokers", "--config"])
            .arg(self.file());
        command.envs(self.environment.iter().cloned()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let held = child.stdin.take();
        let output = child.wait_with_output().unwrap();
        drop(held);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
    }
}

fn runs_by(heading: &str) {
    let server = Server::start();
    let (text, environment) = Secured::shared().example(heading);
    Case::new(&text, environment, server.address()).works(&server);
}

fn tls_as_the_page_says() {
    runs_by("TLS");
}

fn mutual_tls_as_the_page_says() {
    runs_by("Mutual TLS");
}

fn scram_as_the_page_says() {
    runs_by("SASL: SCRAM");
}

fn plain_as_the_page_says() {
    runs_by("SASL: PLAIN");
}

/// Each is refused with a reason, in a time that has a bound, and the secret is in no line.
fn what_the_broker_does_not_take_is_said_without_the_secret() {
    let same = |text: String| text;
    let other_signer = |text: String| text.replace("ca.pem", "client.pem");
    let nameless = |text: String| {
        text.lines().filter(|line| !line.contains("ssl.key") && !line.contains("ssl.cert")).map(|l| l.to_owned() + "\n").collect()
    };
    type Change<'a> = &'a (dyn Fn(String) -> String + Sync);
    let cases: [(&str, Change<'_>, &str, i32, &str); 6] = [
        ("SASL: SCRAM", &same, SECRET, 0, "brokers answer"),
        ("SASL: SCRAM", &same, "wrong-password", 75, "uthentication fail"),
        ("SASL: PLAIN", &same, "wrong-password", 75, "uthentication fail"),
        ("TLS", &other_signer, SECRET, 75, "certificate verify failed"),
        ("Mutual TLS", &nameless, SECRET, 75, "no answer from the brokers"),
        ("Mutual TLS", &same, "wrong-password", 78, "ssl.key.location"),
    ];
    // Together: each waits for as long as a broker may take to answer.
    std::thread::scope(|scope| {
        for (heading, change, secret, code, words) in cases {
            scope.spawn(move || {
                let (text, environment) = Secured::shared().example(heading);
                let environment = environment.into_iter().map(|(name, value)| (name, value.replace(SECRET, secret))).collect();
                let (ended, said) = Case::new(&change(text), environment, "127.0.0.1:1").checked();
                assert_eq!((ended, said.contains(words), said.contains(secret)), (Some(code), true, false), "{heading}: {said}");
            });
        }
    });
}

/// Without libcurl the client knows no OpenID provider: said at the start, by the key.
#[cfg(not(feature = "oidc"))]
fn oauth_as_the_page_says() {
    let (text, environment) = Secured::shared().example("OAuth");
    let (code, said) = Case::new(&text, environment, "127.0.0.1:1").checked();
    assert!(code == Some(78) && said.contains("oauthbearer") && said.contains("feature `oidc`"), "{code:?} {said}");
    assert!(!said.contains(SECRET), "{said}");
}

/// A provider that gives tokens to whoever knows the secret.
#[cfg(feature = "oidc")]
fn oauth_as_the_page_says() {
    let server = Server::start();
    let (text, environment) = Secured::shared().example("OAuth");
    let provider = provider::start();
    let text = text.replace("https://login.example", &provider);
    Case::new(&text, environment, server.address()).works(&server);
}

#[cfg(feature = "oidc")]
mod provider {
    use axum::{Json, Router, http::HeaderMap, http::StatusCode, routing::post};
    use base64::{Engine, prelude::BASE64_STANDARD, prelude::BASE64_URL_SAFE_NO_PAD};

    pub fn start() -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        crate::support::runtime().spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, Router::new().route("/oauth2/token", post(token))).await
        });
        format!("http://{address}")
    }

    async fn token(headers: HeaderMap, body: String) -> Result<Json<serde_json::Value>, StatusCode> {
        let wanted = format!("Basic {}", BASE64_STANDARD.encode(format!("payments:{}", super::SECRET)));
        let given = headers.get("authorization").and_then(|value| value.to_str().ok());
        if given != Some(wanted.as_str()) || !body.contains("scope=kafka") {
            return Err(StatusCode::UNAUTHORIZED);
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let part = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let claims = serde_json::json!({"sub": "payments", "iat": now, "exp": now + 300, "scope": "kafka"});
        let token = format!("{}.{}.", part(serde_json::json!({"alg": "none"})), part(claims));
        Ok(Json(serde_json::json!({"access_token": token, "token_type": "Bearer", "expires_in": 300})))
    }
}

fn main() -> ExitCode {
    if std::env::var(ROLE).as_deref() == Ok("program") {
        return program();
    }
    let tests = trials![real broker:
        tls_as_the_page_says,
        mutual_tls_as_the_page_says,
        scram_as_the_page_says,
        plain_as_the_page_says,
        what_the_broker_does_not_take_is_said_without_the_secret,
        oauth_as_the_page_says,
    ];
    process::run(tests, &[])
}
