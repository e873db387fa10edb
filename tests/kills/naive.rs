//! Owns what a team writes without receipted: a consumer with a durable set of keys. It is here to lose and to double, so that the
//! account is known to notice.

use crate::support::{
    broker::{self},
    destination::{Apply, Destination},
    process::{self, Child},
    service::operation_of,
};
use rdkafka::{
    Message,
    config::ClientConfig,
    consumer::{BaseConsumer, CommitMode, Consumer},
    message::Headers,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, io::Write, path::PathBuf, time::Duration};

const VARIABLE: &str = "RECEIPTED_TEST_NAIVE";
/// Records that are handled at the same time: as many as the permits of the other runs.
const AT_ONCE: usize = 16;

/// When a key is added to the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Claim {
    /// Before the effect: whoever dies between has lost it.
    First,
    /// After the effect: whoever dies between has it again.
    After,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Naive {
    pub group: String,
    pub topic: String,
    pub destination: String,
    pub claims: PathBuf,
    pub claim: Claim,
    brokers: String,
}

impl Naive {
    pub fn new(topic: &str, destination: &str, claims: PathBuf, claim: Claim) -> Self {
        let brokers = broker::shared().brokers().into();
        Self { group: topic.into(), topic: topic.into(), destination: destination.into(), claims, claim, brokers }
    }

    pub fn start(&self) -> Child {
        process::role("naive").env(VARIABLE, serde_json::to_string(self).expect("plain data")).start()
    }
}

/// The child's side.
pub fn role() {
    let naive: Naive = serde_json::from_str(&std::env::var(VARIABLE).expect("a setting")).expect("a setting");
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &naive.brokers).set("group.id", &naive.group).set("group.instance.id", &naive.group);
    config.set("session.timeout.ms", "10000").set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
    config.set("fetch.queue.backoff.ms", "2");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    consumer.subscribe(&[&naive.topic]).expect("subscribed");
    let mut set: BTreeSet<String> = std::fs::read_to_string(&naive.claims).unwrap_or_default().lines().map(String::from).collect();
    let mut file = std::fs::File::options().create(true).append(true).open(&naive.claims).expect("the set's file");
    let destination = Destination::new(naive.destination.as_str());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    loop {
        let batch = batch(&consumer, &set);
        let keys: Vec<&str> = batch.iter().map(|apply| apply.operation.as_str()).collect();
        let mut claim = |keys: &[&str]| {
            // Durable as far as a kill goes.
            file.write_all(keys.iter().map(|key| format!("{key}\n")).collect::<String>().as_bytes()).expect("the set's file");
            set.extend(keys.iter().map(|key| (*key).to_owned()));
        };
        if naive.claim == Claim::First {
            claim(&keys);
        }
        runtime.block_on(async {
            let effects: Vec<_> = batch
                .iter()
                .map(|apply| {
                    let (destination, apply) = (destination.clone(), apply.clone());
                    tokio::spawn(async move { destination.apply(apply).await.expect("a destination that answers") })
                })
                .collect();
            for effect in effects {
                effect.await.expect("an effect");
            }
        });
        if naive.claim == Claim::After {
            claim(&keys);
        }
        // What was polled is handled. Nothing new to commit is an error of its own.
        let _ = consumer.commit_consumer_state(CommitMode::Async);
    }
}

/// The next records whose keys are not in the set, each once.
fn batch(consumer: &BaseConsumer, set: &BTreeSet<String>) -> Vec<Apply> {
    let mut batch: Vec<Apply> = Vec::new();
    for _ in 0..AT_ONCE * 2 {
        let Some(polled) = consumer.poll(Duration::from_millis(10)) else { break };
        let Ok(record) = polled else { break };
        let value: serde_json::Value = serde_json::from_slice(record.payload().expect("a value")).expect("JSON");
        let tenant = record.headers().and_then(|headers| headers.iter().find(|header| header.key == "tenant"));
        let tenant = String::from_utf8_lossy(tenant.and_then(|header| header.value).expect("a tenant")).into_owned();
        let operation = operation_of(&tenant, value["id"].as_str().expect("an id"));
        if !set.contains(&operation) && batch.iter().all(|apply| apply.operation != operation) {
            batch.push(Apply::new(operation.clone(), operation).amount(value["amount"].as_u64().expect("an amount")));
        }
        if batch.len() == AT_ONCE {
            break;
        }
    }
    batch
}
