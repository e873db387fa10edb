//! What docker-compose.yml, Dockerfile and deploy/ say, held to the code that they run and to the schemas of what reads them.
#![cfg(feature = "cli")]
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

mod support;

use docker_compose_types::Compose;
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, Service},
};
use receipted::{
    config::Config,
    runner,
    telemetry::{
        pages::{self, Pages},
        recorder,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::Path,
    process::Command,
    sync::Arc,
    time::Duration,
};

const COMPOSE: &str = "docker-compose.yml";
const COMPOSE_CONFIG: &str = "deploy/compose/receipted.toml";
const DOCKERFILE: &str = "Dockerfile";
const MANIFEST: &str = "deploy/kubernetes/receipted.yaml";
const UNIT: &str = "deploy/systemd/receipted.service";
const UNIT_CONFIG: &str = "deploy/systemd/receipted.toml";
const UNIT_ENVIRONMENT: &str = "deploy/systemd/environment";
/// What a stop may take beside its deadline: the store is closed, and open requests end.
const CLOSING: Duration = Duration::from_secs(5);

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn documents(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap()
}

fn compose() -> Value {
    documents(&text(COMPOSE)).remove(0)
}

fn services() -> Vec<(String, Value)> {
    compose()["services"].as_object().unwrap().clone().into_iter().collect()
}

/// The manifest of this kind.
fn manifest(kind: &str) -> Value {
    let mut found: Vec<_> = documents(&text(MANIFEST)).into_iter().filter(|document| document["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "{kind}");
    found.remove(0)
}

fn pod() -> Value {
    manifest("StatefulSet")["spec"]["template"]["spec"].clone()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The values of a key of a unit, in their order.
fn unit(key: &str) -> Vec<String> {
    let unit = text(UNIT);
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned).collect()
}

fn unit_one(key: &str) -> String {
    let values = unit(key);
    assert_eq!(values.len(), 1, "{key} in {UNIT}: {values:?}");
    values[0].clone()
}

fn duration(text: &str) -> Duration {
    humantime::parse_duration(text).unwrap()
}

// ---- schemas

/// What is wrong with `written` as a `T`: a part that does not fit, or keys that a `T` does not have.
fn against<T: DeserializeOwned + Serialize>(written: &Value) -> Vec<String> {
    let typed: T = match serde_json::from_value(written.clone()) {
        Ok(typed) => typed,
        Err(error) => return vec![error.to_string()],
    };
    let mut lost = Vec::new();
    lost_on_the_way("", written, &serde_json::to_value(typed).unwrap(), &mut lost);
    lost
}

/// The types skip keys that they do not know; written again, these are missing.
fn lost_on_the_way(path: &str, written: &Value, again: &Value, lost: &mut Vec<String>) {
    match (written, again) {
        (Value::Object(written), Value::Object(again)) => {
            for (name, value) in written {
                lost_on_the_way(&format!("{path}/{name}"), value, again.get(name).unwrap_or(&Value::Null), lost);
            }
        }
        (Value::Array(written), Value::Array(again)) if written.len() == again.len() => {
            written.iter().zip(again).enumerate().for_each(|(at, (written, again))| {
                lost_on_the_way(&format!("{path}/{at}"), written, again, lost);
            });
        }
        (Value::Object(written), Value::Null) if written.is_empty() => {}
        _ if written == again => {}
        _ => lost.push(format!("{path} is not known, or not of this kind")),
    }
}

fn against_kubernetes(yaml: &str) -> Vec<String> {
    let wrong = documents(yaml).into_iter().flat_map(|document| match document["kind"].as_str() {
        Some("ConfigMap") => against::<ConfigMap>(&document),
        Some("Service") => against::<Service>(&document),
        Some("StatefulSet") => against::<StatefulSet>(&document),
        other => vec![format!("{other:?} has no schema here")],
    });
    wrong.collect()
}

#[test]
fn the_compose_file_is_of_its_schema() {
    assert_eq!(against::<Compose>(&compose()), Vec::<String>::new());
}

#[test]
fn the_manifests_are_of_their_schemas() {
    assert_eq!(documents(&text(MANIFEST)).len(), 3);
    assert_eq!(against_kubernetes(&text(MANIFEST)), Vec::<String>::new());
}

#[test]
fn a_misspelt_key_a_wrong_type_and_an_unknown_kind_are_found() {
    let found = |from: &str, to: &str| {
        let page = text(MANIFEST);
        assert!(page.contains(from), "{from}");
        assert!(!against_kubernetes(&page.replacen(from, to, 1)).is_empty(), "{to} went unseen");
    };
    found("terminationGracePeriodSeconds:", "terminationGracePeriod:");
    found("failureThreshold: 180", "failureThreshold: many");
    found("mountPath:", "mountpath:");
    found("kind: StatefulSet", "kind: Statefulset");
    for (from, to) in [("healthcheck:", "healthchek:"), ("stop_grace_period:", "stop_grace:"), ("retries: 3", "retries: [3]")] {
        let page = text(COMPOSE);
        assert!(page.contains(from), "{from}");
        assert!(!against::<Compose>(&documents(&page.replacen(from, to, 1))[0]).is_empty(), "{to} went unseen");
    }
}

/// What systemd says of a unit; its program stands for one that is installed.
fn verify(unit: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("payments.service");
    std::fs::write(&file, unit.replace("/usr/local/bin/payments", "/bin/true")).unwrap();
    let said = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output();
    let said = said.expect("systemd-analyze is missing: run tools/install.sh deploy");
    let words = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success() || !words.is_empty(), "systemd-analyze ended with {}", said.status);
    // Of other units of the machine it speaks too.
    words.lines().filter(|line| line.contains("payments")).collect::<Vec<_>>().join("\n")
}

#[test]
fn systemd_takes_the_unit() {
    assert_eq!(verify(&text(UNIT)), "");
    assert!(verify(&text(UNIT).replace("RestartSec=", "RestartSecs=")).contains("RestartSecs"));
    assert!(verify(&text(UNIT).replace("Restart=on-failure", "Restart=sometimes")).contains("sometimes"));
    assert!(verify(&text(UNIT).replace("/usr/local/bin/payments", "/nowhere/payments")).contains("/nowhere/payments"));
}

// ---- files and images

/// The bind mounts of the compose file: what is on this side.
fn mounted() -> BTreeSet<String> {
    let volumes = services().into_iter().flat_map(|(_, service)| texts(&service["volumes"]));
    volumes.filter(|volume| volume.starts_with('.')).map(|volume| volume.split(':').next().unwrap().to_owned()).collect()
}

#[test]
fn what_the_compose_file_mounts_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(mounted().len() >= 6, "{:?}", mounted());
    // Until the dashboards are there, nothing can be said of their folder.
    let due = |path: &String| path != "./dashboards" || root.join("dashboards").exists();
    let missing: Vec<_> = mounted().into_iter().filter(due).filter(|path| !root.join(path).exists()).collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn named_volumes_are_declared_and_used() {
    let volumes = services().into_iter().flat_map(|(_, service)| texts(&service["volumes"]));
    let used: BTreeSet<_> =
        volumes.map(|volume| volume.split(':').next().unwrap().to_owned()).filter(|name| !name.starts_with('.')).collect();
    let declared: BTreeSet<_> = compose()["volumes"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(used, declared);
}

fn images() -> Vec<String> {
    let composed = services().into_iter().map(|(name, service)| service["image"].as_str().unwrap_or_else(|| panic!("{name}")).to_owned());
    let built = text(DOCKERFILE);
    let bases = built.lines().filter_map(|line| line.strip_prefix("FROM ")).map(|base| base.split(' ').next().unwrap().to_owned());
    let deployed = texts(&Value::Array(pod()["containers"].as_array().unwrap().iter().map(|c| c["image"].clone()).collect()));
    composed.chain(bases.collect::<Vec<_>>()).chain(deployed).collect()
}

fn unpinned(images: &[String]) -> Vec<&String> {
    let pinned = |image: &&String| {
        let tag = image.rsplit_once(':').map_or("", |(_, tag)| tag).trim_start_matches('v');
        let numbers = tag.split(['-', '+']).next().unwrap_or_default().split('.');
        numbers.clone().count() >= 2 && numbers.clone().all(|number| number.parse::<u32>().is_ok())
    };
    images.iter().filter(|image| !pinned(image)).collect()
}

#[test]
fn every_image_is_pinned_to_a_version() {
    assert!(images().len() >= 9, "{:?}", images());
    assert_eq!(unpinned(&images()), Vec::<&String>::new());
    let loose = ["kafka", "a/kafka:latest", "kafka:4", "host:5000/kafka", "rust:slim-1.95"].map(str::to_owned);
    assert_eq!(unpinned(&loose).len(), loose.len());
}

#[test]
fn the_images_have_the_versions_that_the_tests_run_with() {
    let pom = text("tools/kafka/pom.xml");
    let broker = pom.split("<version>").nth(2).and_then(|rest| rest.split('<').next()).unwrap();
    let wanted = [format!("apache/kafka:{broker}"), format!("rust:{}-", env!("CARGO_PKG_RUST_VERSION"))];
    for image in images() {
        let fits = |wanted: &String| image.starts_with(wanted.split(':').next().unwrap()).then(|| image.starts_with(wanted));
        assert!(wanted.iter().find_map(fits).unwrap_or(true), "{image} is none of {wanted:?}");
    }
    assert!(wanted.iter().all(|wanted| images().iter().any(|image| image.starts_with(wanted))), "{wanted:?}");
}

#[test]
fn only_loopback_is_published() {
    let ports: Vec<_> = services().into_iter().flat_map(|(_, service)| texts(&service["ports"])).collect();
    assert!(ports.len() >= 4 && ports.iter().all(|port| port.starts_with("127.0.0.1:")), "{ports:?}");
}

// ---- settings

fn load(toml: &str, environment: &[(String, String)]) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("receipted.toml");
    std::fs::write(&file, toml).unwrap();
    Config::load(Some(&file), environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)))).unwrap()
}

/// `NAME=value` wherever it stands in a text.
fn variables(text: &str) -> Vec<(String, String)> {
    let assigned = text.split_whitespace().filter_map(|word| word.split_once('=')).filter(|(name, _)| name.starts_with("RECEIPTED__"));
    assigned.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn composed() -> Config {
    let service = &compose()["services"]["payments"];
    assert_eq!(texts(&service["command"]), ["run", "--config", "/etc/receipted/receipted.toml"]);
    let mount = format!("./{COMPOSE_CONFIG}:/etc/receipted/receipted.toml:ro");
    assert!(texts(&service["volumes"]).contains(&mount), "{mount}");
    let set = variables(&text(DOCKERFILE));
    assert_eq!(set.len(), 2, "{set:?}");
    load(&text(COMPOSE_CONFIG), &set)
}

fn in_kubernetes() -> Config {
    let container = &pod()["containers"][0];
    assert_eq!(texts(&container["args"]), ["run", "--config", "/etc/receipted/receipted.toml"]);
    let config = manifest("ConfigMap")["data"]["receipted.toml"].as_str().unwrap().to_owned();
    let named = container["env"].as_array().unwrap().iter().map(|variable| variable["name"].as_str().unwrap());
    // The image sets its own below these.
    let set: Vec<_> =
        variables(&text(DOCKERFILE)).into_iter().chain(named.map(|name| (name.to_owned(), "from the secret".to_owned()))).collect();
    assert_eq!(set.len(), 4, "{set:?}");
    load(&config, &set)
}

fn under_systemd() -> Config {
    assert!(unit_one("ExecStart").ends_with(" run --config /etc/payments/receipted.toml"));
    assert_eq!(unit_one("EnvironmentFile"), "-/etc/payments/environment");
    let set = variables(&text(UNIT_ENVIRONMENT));
    assert_eq!(set.len(), 2, "{set:?}");
    load(&text(UNIT_CONFIG), &set)
}

#[test]
fn files_and_variables_are_settings_that_receipted_knows() {
    for config in [composed(), in_kubernetes(), under_systemd()] {
        assert_eq!(config.kafka.group, "payments");
        assert!(config.kafka.first_start.is_some());
    }
    for config in [in_kubernetes(), under_systemd()] {
        let settings = &config.kafka.settings;
        assert!(["sasl.username", "sasl.password", "sasl.mechanism"].iter().all(|name| settings.contains_key(*name)), "{settings:?}");
        assert_eq!(settings["security.protocol"], "SASL_SSL");
    }
}

#[test]
fn the_broker_and_the_topics_are_those_of_the_compose_file() {
    let config = composed();
    let listeners = compose()["services"]["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].as_str().unwrap().to_owned();
    assert!(listeners.split(',').any(|listener| listener == format!("INSIDE://{}", config.kafka.brokers)), "{listeners}");
    let topics = text("deploy/compose/topics.sh");
    let made: BTreeSet<_> = topics.split("--topic ").skip(1).map(|rest| rest.split_whitespace().next().unwrap()).collect();
    assert_eq!(made, ["payments", config.dead_letter.topic.as_str()].into());
    let largest: u64 = topics.split("max.message.bytes=").nth(1).unwrap().trim().parse().unwrap();
    assert!(largest > config.store.park_record_bytes_max);
    for script in ["topics.sh", "charges.sh"].map(|name| text(&format!("deploy/compose/{name}"))) {
        assert!(script.contains(&format!("--bootstrap-server {} ", config.kafka.brokers)), "{script}");
    }
}

#[test]
fn the_store_lies_on_what_outlives_the_process() {
    let within = |config: &Config, folder: &str| {
        let directory = &config.store.directory;
        assert!(directory.starts_with(folder) && directory != Path::new(folder), "{directory:?} is not below {folder}");
    };
    let volumes = texts(&compose()["services"]["payments"]["volumes"]);
    let volume = volumes.iter().find_map(|volume| volume.strip_prefix("receipts:")).unwrap();
    assert!(text(DOCKERFILE).contains(&format!("\nVOLUME {volume}\n")), "{volume}");
    within(&composed(), volume);
    let mounts = pod()["containers"][0]["volumeMounts"].clone();
    let claim = manifest("StatefulSet")["spec"]["volumeClaimTemplates"][0]["metadata"]["name"].clone();
    let mount = mounts.as_array().unwrap().iter().find(|mount| mount["name"] == claim).expect("the claim is mounted");
    within(&in_kubernetes(), mount["mountPath"].as_str().unwrap());
    within(&under_systemd(), &format!("/var/lib/{}", unit_one("StateDirectory")));
    assert_eq!(unit_one("WorkingDirectory"), format!("/var/lib/{}", unit_one("StateDirectory")));
}

// ---- stops and restarts

#[test]
fn a_stop_is_given_more_time_than_it_may_take() {
    let compose = duration(compose()["services"]["payments"]["stop_grace_period"].as_str().unwrap());
    let kubernetes = Duration::from_secs(pod()["terminationGracePeriodSeconds"].as_u64().unwrap());
    let graces = [(compose, composed()), (kubernetes, in_kubernetes()), (duration(&unit_one("TimeoutStopSec")), under_systemd())];
    for (grace, config) in graces {
        let needed = config.runner.stop_deadline + config.runner.drain_budget + CLOSING;
        assert!(grace >= needed, "{grace:?} is less than {needed:?}");
    }
}

#[test]
fn the_unit_restarts_what_a_restart_may_mend_and_nothing_else() {
    let left: BTreeSet<u8> = unit_one("RestartPreventExitStatus").split(' ').map(|code| code.parse().unwrap()).collect();
    let person = runner::Error::NoTopic { topic: "t".into() };
    let again = runner::Error::Unreachable { brokers: "b".into(), reason: None };
    assert!(left.contains(&person.exit_code()), "{left:?}");
    assert!(!left.contains(&again.exit_code()), "{left:?}");
    assert_eq!((unit_one("Restart"), unit_one("StartLimitIntervalSec")), ("on-failure".into(), "0".into()));
}

#[test]
fn there_is_one_process_a_group() {
    let set = manifest("StatefulSet");
    assert_eq!(set["spec"]["replicas"], 1);
    assert_eq!(pod()["containers"].as_array().unwrap().len(), 1);
    let service = &compose()["services"]["payments"];
    assert!(service["scale"].is_null() && service["deploy"].is_null());
    assert!(!Path::new(UNIT).file_name().unwrap().to_string_lossy().contains('@'), "a template invites a second instance");
}

// ---- health and metrics

/// Each HTTP path that something outside asks for.
fn asked() -> BTreeMap<&'static str, String> {
    let container = &pod()["containers"][0];
    let probe = |name: &str| container[name]["httpGet"]["path"].as_str().unwrap().to_owned();
    let check = texts(&compose()["services"]["payments"]["healthcheck"]["test"]).concat();
    let check = check.split("GET ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
    let scraped = manifest("Service")["metadata"]["annotations"]["prometheus.io/path"].as_str().unwrap().to_owned();
    let probes = ["startupProbe", "livenessProbe", "readinessProbe"].map(|name| (name, probe(name)));
    probes.into_iter().chain([("healthcheck", check), ("scrape", scraped)]).collect()
}

#[test]
fn probes_ask_for_pages_that_are_served_and_mean_what_is_asked() {
    let metrics = recorder::build().unwrap().handle();
    let pages = Pages { metrics, live: Arc::new(|| Ok(())), ready: Arc::new(|| Err("not yet".into())) };
    let listener = support::block_on(async { tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap() });
    let address = listener.local_addr().unwrap().to_string();
    support::runtime().spawn(pages::serve(listener, pages, std::future::pending()));
    let answered: BTreeMap<_, _> = asked().into_iter().map(|(who, path)| (who, support::http::get(&address, &path).unwrap().0)).collect();
    let expected = [("startupProbe", 200), ("livenessProbe", 200), ("readinessProbe", 503), ("healthcheck", 200), ("scrape", 200)];
    assert_eq!(answered, expected.into());
}

#[test]
fn everything_asks_at_the_port_that_is_listened_on() {
    let defaults = Config::from_text("[kafka]\nbrokers = \"b:9092\"\ngroup = \"g\"\n").unwrap().telemetry.listen.unwrap();
    for config in [composed(), in_kubernetes()] {
        let listen = config.telemetry.listen.unwrap();
        assert!(listen.ip().is_unspecified(), "{listen} cannot be reached from outside the container");
        assert_eq!(listen.port(), defaults.port());
    }
    assert_eq!(under_systemd().telemetry.listen, Some(defaults));
    let port = defaults.port().to_string();
    assert!(text(DOCKERFILE).contains(&format!("\nEXPOSE {port}\n")));
    let payments = &compose()["services"]["payments"];
    assert_eq!(texts(&payments["ports"]), [format!("127.0.0.1:{port}:{port}")]);
    assert!(texts(&payments["healthcheck"]["test"]).concat().contains(&format!("/dev/tcp/127.0.0.1/{port} ")));
    let scrape = documents(&text("deploy/compose/prometheus.yml")).remove(0);
    assert_eq!(texts(&scrape["scrape_configs"][0]["static_configs"][0]["targets"]), [format!("payments:{port}")]);
    let container = &pod()["containers"][0];
    assert_eq!(
        (&container["ports"][0]["name"], container["ports"][0]["containerPort"].to_string()),
        (&Value::from("metrics"), port.clone())
    );
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], "metrics", "{probe}");
    }
    let service = manifest("Service");
    assert_eq!(
        (service["spec"]["ports"][0]["port"].to_string(), &service["spec"]["ports"][0]["targetPort"]),
        (port.clone(), &"metrics".into())
    );
    assert_eq!(service["metadata"]["annotations"]["prometheus.io/port"], port.as_str());
}

#[test]
fn labels_select_what_they_should() {
    let (set, service) = (manifest("StatefulSet"), manifest("Service"));
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&set["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&service["spec"]["selector"], labels);
    assert_eq!(set["spec"]["serviceName"], service["metadata"]["name"]);
    assert_eq!(pod()["volumes"][0]["configMap"]["name"], manifest("ConfigMap")["metadata"]["name"]);
}

#[test]
fn grafana_and_prometheus_read_what_is_mounted() {
    let mounts = |service: &str| texts(&compose()["services"][service]["volumes"]);
    let provider = documents(&text("deploy/compose/grafana/dashboards/receipted.yml")).remove(0);
    let folder = provider["providers"][0]["options"]["path"].as_str().unwrap().to_owned();
    assert!(mounts("grafana").contains(&format!("./dashboards:{folder}:ro")));
    let home = compose()["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"].clone();
    assert_eq!(home, format!("{folder}/overview.json"));
    let prometheus = documents(&text("deploy/compose/prometheus.yml")).remove(0);
    assert_eq!(texts(&prometheus["rule_files"]), ["/etc/prometheus/rules/alerts.yml"]);
    assert!(mounts("prometheus").contains(&"./dashboards:/etc/prometheus/rules:ro".to_owned()));
    for named in ["dashboards/overview.json", "dashboards/alerts.yml"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(!root.join("dashboards").exists() || root.join(named).exists(), "{named}");
    }
    let source = documents(&text("deploy/compose/grafana/datasources/prometheus.yml")).remove(0);
    assert_eq!(source["datasources"][0]["url"], "http://prometheus:9090");
}
