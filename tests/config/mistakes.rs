//! The mistakes that people make: each is refused, and the refusal names the field, its value, the reason and what to do.

use receipted::config::{Config, DEFAULTS};

/// What is written, and the whole of what is said. `MINIMAL` stands in front unless the text has `[kafka]` itself.
const MISTAKES: &[(&str, &str)] = &[
    // Missing.
    (
        "[kafka]\ngroup = \"g\"\n",
        "kafka.brokers is not set; set it in the configuration file (`--config FILE`), or as RECEIPTED__KAFKA__BROKERS",
    ),
    (
        "[kafka]\nbrokers = \"b:9092\"\ngroup = \" \"\n",
        "kafka.group is not set; set it in the configuration file (`--config FILE`), or as RECEIPTED__KAFKA__GROUP",
    ),
    // Unknown or in the wrong place.
    ("[runner]\npermit = 8\n", "runner.permit is no key of receipted (text): did you mean runner.permits?"),
    ("[runner]\nlog_format = \"json\"\n", "runner.log_format is no key of receipted (text): did you mean telemetry.log_format?"),
    ("[runer]\n", "runer is no key of receipted (text): remove it, or write it under [app] if it is the team's own"),
    ("[store]\npath = \"/var\"\n", "store.path is no key of receipted (text): remove it, or write it under [app] if it is the team's own"),
    // Another type.
    ("[runner]\npermits = \"64\"\n", "runner.permits = \"64\" is a string (text): write an integer, without quotes and unit"),
    ("[runner]\npermits = 6.5\n", "runner.permits = 6.5 is a float (text): write an integer, without quotes and unit"),
    ("[runner]\ndrain_budget = 10\n", "runner.drain_budget = 10 is an integer (text): write a string, in quotes"),
    (
        "[dead_letter]\ninclude_error_text = \"yes\"\n",
        "dead_letter.include_error_text = \"yes\" is a string (text): write true or false, without quotes",
    ),
    (
        "[store]\nballast_bytes = \"64MiB\"\n",
        "store.ballast_bytes = \"64MiB\" is a string (text): write an integer, without quotes and unit",
    ),
    ("[kafka]\nbrokers = [\"a:1\", \"b:2\"]\n", "kafka.brokers = [\"a:1\", \"b:2\"] is an array (text): write a string, in quotes"),
    ("settings = \"acks=all\"\n", "kafka.settings = \"acks=all\" is a string (text): write a table: [kafka.settings]"),
    // Brokers, group and topics.
    (
        "[kafka]\nbrokers = \"http://kafka:9092\"\ngroup = \"g\"\n",
        "kafka.brokers = \"http://kafka:9092\" has \"http\" in front of a broker; kafka.settings.\"security.protocol\" says that (text): write host:port, several with commas, as in \"kafka-1:9092,kafka-2:9092\"",
    ),
    (
        "[kafka]\nbrokers = \"a:9092,,b:9092\"\ngroup = \"g\"\n",
        "kafka.brokers = \"a:9092,,b:9092\" has an empty part (text): write host:port, several with commas, as in \"kafka-1:9092,kafka-2:9092\"",
    ),
    (
        "[kafka]\nbrokers = \"a:90920\"\ngroup = \"g\"\n",
        "kafka.brokers = \"a:90920\" holds \"a:90920\", whose port is no number from 1 to 65535 (text): write host:port, several with commas, as in \"kafka-1:9092,kafka-2:9092\"",
    ),
    (
        "[kafka]\nbrokers = \"a:9092 b:9092\"\ngroup = \"g\"\n",
        "kafka.brokers = \"a:9092 b:9092\" holds \"a:9092 b:9092\", which is no host:port (text): write host:port, several with commas, as in \"kafka-1:9092,kafka-2:9092\"",
    ),
    (
        "[kafka]\nbrokers = \"b\"\ngroup = \"billing \"\n",
        "kafka.group = \"billing \" begins or ends with a space (text): write a name of at most 249 bytes, without spaces around it",
    ),
    (
        "[dead_letter]\ntopic = \"dead letters\"\n",
        "dead_letter.topic = \"dead letters\" is no name that Kafka takes (text): write 1 to 249 letters, digits, dots, underscores and hyphens",
    ),
    (
        "[kafka]\nbrokers = \"b\"\ngroup = \"my group\"\n",
        "dead_letter.topic = \"\" makes it \"my group.dead-letters\", which is no name that Kafka takes (default): write 1 to 249 letters, digits, dots, underscores and hyphens",
    ),
    (
        "first_start = \"yesterday\"\n",
        "kafka.first_start = \"yesterday\" is not known (text): write \"earliest\", \"latest\" or a time in UTC such as \"2026-03-01T00:00:00Z\"",
    ),
    (
        "first_start = \"2026-02-30T00:00:00Z\"\n",
        "kafka.first_start = \"2026-02-30T00:00:00Z\" is not known (text): write \"earliest\", \"latest\" or a time in UTC such as \"2026-03-01T00:00:00Z\"",
    ),
    // Out of bounds.
    ("[runner]\npermits = 0\n", "runner.permits = 0 is too small (text): write 1 to 1000000"),
    ("[runner]\npermits = -1\n", "runner.permits = -1 is too small (text): write 1 to 1000000"),
    ("[runner]\nworker_threads = 5000\n", "runner.worker_threads = 5000 is too large (text): write 0 to 1024"),
    ("[store]\ncache_bytes = 64\n", "store.cache_bytes = 64 is too small (text): write 1048576 to 1125899906842624"),
    (
        "[runner]\ncommit_interval = \"0s\"\n",
        "runner.commit_interval = \"0s\" is too short (text): write a number with its unit, from \"1ms\" to \"24h\", as in \"250ms\", \"30s\" or \"1h 30m\"",
    ),
    (
        "[reconcile]\nagain_max = \"2d\"\n",
        "reconcile.again_max = \"2d\" is too long (text): write a number with its unit, from \"1ms\" to \"24h\", as in \"250ms\", \"30s\" or \"1h 30m\"",
    ),
    (
        "[kafka]\nbrokers = \"b\"\ngroup = \"g\"\nsession_timeout = \"45\"\n",
        "kafka.session_timeout = \"45\" is no duration: time unit needed, for example 45sec or 45ms (text): write a number with its unit, from \"1ms\" to \"24h\", as in \"250ms\", \"30s\" or \"1h 30m\"",
    ),
    (
        "[dead_letter]\nheader_names = \"Spring\"\n",
        "dead_letter.header_names = \"Spring\" is not known (text): write \"receipted\" or \"spring\" or \"connect\"",
    ),
    ("[store]\nfile_system = \"nfs\"\n", "store.file_system = \"nfs\" is not known (text): write \"local\" or \"any\""),
    (
        "[store]\ndirectory = \"\"\n",
        "store.directory = \"\" is empty (text): write the directory of the receipts, on a local disk that stays",
    ),
    (
        "[telemetry]\nlisten = \"localhost:9464\"\n",
        "telemetry.listen = \"localhost:9464\" is no address to listen on (text): write \"address:port\" with a numeric address, as in \"0.0.0.0:9464\", or \"off\"",
    ),
    ("[telemetry]\nlog_format = \"xml\"\n", "telemetry.log_format = \"xml\" is not known (text): write \"text\" or \"json\""),
    (
        "[telemetry]\nlog_filter = \"infos\"\n",
        "telemetry.log_filter = \"infos\" holds \"infos\", which is no level and no module with one (text): write a level (off, error, warn, info, debug, trace), or levels by module as in \"info,receipted::runner=debug\"",
    ),
    // Two keys that do not go together.
    (
        "[runner]\ndrain_budget = \"4m\"\nstop_deadline = \"5m\"\n",
        "runner.drain_budget = \"4m\" is more than half of kafka.poll_interval_max = \"5m\" (default) (text): lower the one or raise the other; a drain that takes longer loses its partitions",
    ),
    (
        "[runner]\nstop_deadline = \"5s\"\n",
        "runner.stop_deadline = \"5s\" is less than runner.drain_budget = \"10s\" (default) (text): raise it, best to twice as much: a stop drains first, and then commits",
    ),
    (
        "heartbeat_interval = \"20s\"\n",
        "kafka.heartbeat_interval = \"20s\" is more than a third of kafka.session_timeout = \"45s\" (default) (text): lower the one or raise the other; a lost heartbeat or two must not lose the partitions",
    ),
    (
        "session_timeout = \"6m\"\n",
        "kafka.session_timeout = \"6m\" is more than kafka.poll_interval_max = \"5m\" (default) (text): lower the one or raise the other; the client refuses the pair",
    ),
    (
        "[runner]\npermits = 4\ntenant_permits_max = 5\n",
        "runner.tenant_permits_max = 5 is more than runner.permits = 4 (text) (text): lower it, or raise the other; 0 leaves a quarter of the permits to other tenants",
    ),
    (
        "[runner]\npermits = 64\npartition_records_max = 48\n",
        "runner.partition_records_max = 48 is not more than runner.tenant_permits_max = 48 (default) (text): raise it: else one tenant's running handlers fill a partition, and no other tenant's record comes in",
    ),
    (
        "[store]\nparked_bytes_max = 1000\n",
        "store.park_record_bytes_max = 16777216 is more than store.parked_bytes_max = 1000 (text) (default): lower the one or raise the other; such a record could never be parked and would stop its partition",
    ),
    (
        "[reconcile]\nagain_first = \"10m\"\n",
        "reconcile.again_first = \"10m\" is more than reconcile.again_max = \"5m\" (default) (text): exchange them",
    ),
    // The client's own.
    (
        "[kafka.settings]\n\"enable.auto.commit\" = true\n",
        "kafka.settings.enable.auto.commit is not yours to set (text): remove it; offsets move only after every receipt below them is durable; an automatic commit would lose records",
    ),
    (
        "[kafka.settings]\n\"fetch.queu.backoff.ms\" = 2\n",
        "kafka.settings.fetch.queu.backoff.ms = \"2\" is refused by the client: No such configuration property: \"fetch.queu.backoff.ms\" (text): correct or remove it; librdkafka's CONFIGURATION page lists every setting with its bounds",
    ),
    (
        "[kafka.settings]\n\"security.protocol\" = \"TLS\"\n",
        "kafka.settings.security.protocol = \"TLS\" is refused by the client: Invalid value \"TLS\" for configuration property \"security.protocol\" (text): correct or remove it; librdkafka's CONFIGURATION page lists every setting with its bounds",
    ),
    (
        "[kafka.settings]\n\"ssl.ca.location\" = \"/etc/ca.pem\"\n",
        "kafka.settings.ssl.ca.location = \"/etc/ca.pem\" is not used while kafka.settings.security.protocol = \"plaintext\" (text): write \"security.protocol\" = \"SSL\" or \"SASL_SSL\" beside it, or leave it out",
    ),
    (
        "[kafka.settings]\n\"security.protocol\" = \"ssl\"\n\"sasl.password\" = \"hunter2\"\n",
        "kafka.settings.sasl.password = (hidden) is not used while kafka.settings.security.protocol = \"ssl\" (text): write \"security.protocol\" = \"SASL_SSL\" beside it, or leave it out",
    ),
    (
        "[kafka.settings]\n\"security.protocol\" = \"SASL_SSL\"\n",
        "kafka.settings.security.protocol = \"SASL_SSL\" needs kafka.settings.sasl.mechanism, which is not set (text): write \"sasl.mechanism\" = \"SCRAM-SHA-512\", or what the cluster takes, beside it",
    ),
    (
        "[kafka.settings]\n\"security.protocol\" = \"SASL_SSL\"\n\"sasl.mechanism\" = \"PLAIN\"\n\"sasl.username\" = \"u\"\n",
        "kafka.settings.sasl.mechanism = \"PLAIN\" needs kafka.settings.sasl.password, which is not set (text): set RECEIPTED__KAFKA__SETTINGS__SASL_PASSWORD",
    ),
];

#[test]
fn each_of_the_likeliest_mistakes_is_refused_with_field_value_reason_and_remedy() {
    let mut wrong = Vec::new();
    for (text, said) in MISTAKES {
        let whole = if text.starts_with("[kafka]\n") { (*text).to_string() } else { format!("{}{text}", super::MINIMAL) };
        match Config::from_text(&whole) {
            Ok(_) => wrong.push(format!("{text:?} is taken")),
            Err(error) if error.to_string() != *said => wrong.push(format!("{text:?} says\n  {error}\nand not\n  {said}")),
            Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(MISTAKES.len() >= 40, "{}", MISTAKES.len());
}

/// Every key whose values have bounds is refused below and above them, so that none was forgotten.
#[test]
fn no_key_takes_every_value_of_its_type() {
    let defaults: toml::Table = DEFAULTS.parse().unwrap();
    let mut free = Vec::new();
    for (section, keys) in defaults.iter().filter(|(section, _)| *section != "app") {
        for (key, value) in keys.as_table().unwrap().iter().filter(|(_, value)| !value.is_table()) {
            let bad = match value {
                toml::Value::Integer(_) => vec!["-1".to_string(), i64::MAX.to_string()],
                toml::Value::String(_) => vec!["\"\\u0007 \"".to_string(), "\"=\"".to_string()],
                _ => continue,
            };
            let refuses = |bad: &String| {
                let mut table: toml::Table = super::MINIMAL.parse().unwrap();
                let section = table.entry(section.as_str()).or_insert_with(|| toml::Value::Table(toml::Table::new()));
                let value: toml::Table = format!("v = {bad}").parse().unwrap();
                section.as_table_mut().unwrap().insert(key.clone(), value["v"].clone());
                Config::from_text(&table.to_string()).is_err()
            };
            if !bad.iter().any(refuses) {
                free.push(format!("{section}.{key}"));
            }
        }
    }
    assert_eq!(free, Vec::<String>::new());
}
