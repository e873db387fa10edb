//! Records of every shape that Kafka allows, on the real broker: nothing stops, and each ends where it should.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod support;

use receipted::store::ReceiptStore;
use std::collections::BTreeMap;
use support::{
    broker,
    cluster::{Record, Stored, TransactionEnd, record, tombstone},
    destination::{Behaviour, Server, any, is},
    process::{self, wait_for},
    service::{self, Running, Service, charge, operation_of},
};

const MEBIBYTE: usize = 1 << 20;

struct World {
    server: Server,
    service: Service,
    _folder: tempfile::TempDir,
}

fn world(prefix: &str, partitions: i32) -> World {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let service = Service::new(prefix, partitions, server.address(), folder.path());
    World { server, service, _folder: folder }
}

impl World {
    /// Runs the service over the records until all offsets are committed.
    fn run(&self, records: impl IntoIterator<Item = Record>) {
        let records: Vec<_> = records.into_iter().collect();
        let count = i64::try_from(records.len()).unwrap();
        broker::shared().produce(&self.service.topic, records);
        let running = self.service.start().ready();
        self.service.wait_committed(count);
        running.stop();
    }

    fn dead_letters(&self) -> Vec<Stored> {
        broker::shared().read_all(&self.service.dead_letters)
    }

    /// The operations that took effect, each once.
    fn assert_effects(&self, ids: &[&str]) {
        let (ledger, expected) = (self.server.ledger(), ids.iter().map(|id| operation_of("acme", id)).collect::<Vec<_>>());
        assert_eq!(ledger.lost(expected.iter().map(String::as_str)), [""; 0]);
        assert_eq!(ledger.unexpected(expected.iter().map(String::as_str)), [""; 0]);
        assert_eq!(ledger.excess(), 0);
    }
}

/// What we add to a dead letter, by its short name.
fn ours(letter: &Stored) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let ours = letter.headers.iter().filter_map(|(name, value)| Some((text(name).strip_prefix("x-receipted-")?.to_owned(), value)));
    ours.map(|(name, value)| (name, text(value.as_deref().unwrap()))).collect()
}

fn theirs(letter: &Stored) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    letter.headers.iter().filter(|(name, _)| !name.starts_with(b"x-receipted-")).cloned().collect()
}

fn padded(id: &str, bytes: usize) -> Record {
    let value = format!(r#"{{"id":"{id}","amount":7,"padding":"{}"}}"#, "x".repeat(bytes));
    Record { value: Some(value.into_bytes()), ..charge("acme", id, 7) }
}

fn a_header_name_that_is_not_utf8_stops_nothing_and_goes_along() {
    let world = world("names", 1);
    let strange = |record: Record| record.header(b"\xff\xfe", b"\x00\x01").header("plain", b"\xff");
    let broken = Record { value: Some(b"{".to_vec()), ..strange(charge("acme", "broken", 7)) };
    world.run([strange(charge("acme", "one", 7)), broken, charge("acme", "two", 7)]);
    world.assert_effects(&["one", "two"]);
    let letters = world.dead_letters();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].value.as_deref(), Some(&b"{"[..]));
    assert_eq!(theirs(&letters[0]), [(b"tenant".to_vec(), Some(b"acme".to_vec())), (b"plain".to_vec(), Some(b"\xff".to_vec()))]);
    assert_eq!(ours(&letters[0])["raw-headers"], "fffe=0001");
}

fn a_null_key_runs_in_a_lane_of_its_own() {
    let world = world("null-key", 1);
    let without = |id: &str| Record { key: None, ..charge("acme", id, 7) };
    let held = world.server.always(is(operation_of("acme", "held")), Behaviour::AnswerLate);
    let records = [without("held"), without("free")];
    broker::shared().produce(&world.service.topic, records);
    let running = world.service.start().ready();
    wait_for("the second of two records without a key", service::BOUND, || {
        (world.server.count(&operation_of("acme", "free")).effects == 1).then_some(())
    });
    world.server.wait_hits(held, 1, service::BOUND);
    assert!(world.service.committed() <= 0, "the first one is not complete");
    world.server.release(held);
    world.service.wait_committed(2);
    running.stop();
    world.assert_effects(&["held", "free"]);
}

fn a_tombstone_is_skipped() {
    let world = world("tombstone", 1);
    world.run([tombstone().key("acme-1").header("tenant", "acme"), tombstone(), charge("acme", "one", 7)]);
    world.assert_effects(&["one"]);
    assert_eq!(world.dead_letters(), []);
}

fn a_mebibyte_runs_and_as_a_dead_letter_keeps_every_byte() {
    let world = world("mebibyte", 1);
    let broken = record(vec![b'['; MEBIBYTE]).key(vec![7; 1000]).header("tenant", "acme");
    world.run([padded("large", MEBIBYTE), broken.clone()]);
    world.assert_effects(&["large"]);
    let letters = world.dead_letters();
    assert_eq!(letters.len(), 1);
    assert!(letters[0].key == broken.key && letters[0].value == broken.value, "every byte is kept");
    assert_eq!(ours(&letters[0])["reason"], "no_key");
}

fn every_compression_is_read() {
    let world = world("codecs", 1);
    let (cluster, codecs) = (broker::shared(), ["none", "gzip", "snappy", "lz4", "zstd"]);
    for codec in codecs {
        let records = (0..50).map(|id| charge("acme", format!("{codec}-{id}"), 7));
        cluster.produce_with(&world.service.topic, records, &[("compression.type", codec), ("linger.ms", "50")]);
    }
    assert_eq!(cluster.codecs(&world.service.topic, 0), codecs.into_iter().collect());
    let running = world.service.start().ready();
    world.service.wait_committed(250);
    running.stop();
    assert_eq!((world.server.ledger().total(), world.server.ledger().excess()), (250, 0));
}

fn a_record_that_does_not_decode_is_dead_lettered_whole_and_settles_nothing() {
    let world = world("undecodable", 1);
    let odd = |value: &str| charge("acme", "x", 7).header("trace", "a").header("trace", "b").null_header("none").value_of(value);
    let records = [
        odd(r#"{"id":"one""#),
        odd(r#"{"id":"one","amount":"seven"}"#),
        Record { headers: vec![], ..charge("acme", "one", 7) },
        charge("acme", "one", 7),
    ];
    world.run(records.clone());
    // The last record carries the same operation as those before, which settled nothing.
    world.assert_effects(&["one"]);
    let mut letters = world.dead_letters();
    letters.sort_by_key(|letter| ours(letter)["origin-offset"].clone());
    assert_eq!(letters.iter().map(|letter| ours(letter)["reason"].clone()).collect::<Vec<_>>(), ["no_key", "undecodable", "no_key"]);
    for (index, (letter, record)) in letters.iter().zip(&records).enumerate() {
        assert_eq!((&letter.key, &letter.value), (&record.key, &record.value));
        assert_eq!(theirs(letter), record.headers);
        let said = ours(letter);
        assert_eq!((said["origin-topic"].as_str(), said["origin-partition"].as_str()), (world.service.topic.as_str(), "0"));
        assert_eq!(said["origin-offset"], index.to_string());
        assert!(said["origin-timestamp"].parse::<i64>().unwrap() > 0);
    }
    let said = ours(&letters[1]);
    assert_eq!((said["operation"].as_str(), said["attempts"].as_str(), said["outcome"].as_str()), ("charge.v1", "0", "new"));
    assert_eq!(said["key"].len(), 64);
    assert!(!said.contains_key("error"), "an error's text may hold personal data, and is left out unless asked for");
}

fn attempts_without_effect_end_as_a_dead_letter_that_names_them() {
    let World { server, mut service, _folder } = world("exhausted", 1);
    service.attempts_max = 2;
    server.always(any(), Behaviour::Unavailable);
    let world = World { server, service, _folder };
    world.run([charge("acme", "one", 7)]);
    let said = ours(&world.dead_letters()[0]);
    assert_eq!((said["reason"].as_str(), said["attempts"].as_str(), said["outcome"].as_str()), ("exhausted", "2", "retryable"));
    assert_eq!(world.server.count(&operation_of("acme", "one")).requests, 2);
}

/// The headers of another tool, by their short names.
fn named(letter: &Stored, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let named = letter.headers.iter().filter_map(|(name, value)| Some((text(name).strip_prefix(prefix)?.to_owned(), value)));
    named.map(|(name, value)| (name, value.clone().unwrap())).collect()
}

/// An undecodable record's dead letter, with the names of another tool.
fn letter_named(names: &str) -> (World, Stored) {
    let mut world = world(names, 1);
    world.service.letter_names = Some(names.into());
    world.run([charge("acme", "one", 7), charge("acme", "two", 7).timestamp(1_700_000_000_123).value_of(r#"{"id":"two","amount":"x"}"#)]);
    let letter = world.dead_letters().remove(0);
    assert_eq!((ours(&letter)["reason"].as_str(), ours(&letter)["origin-offset"].as_str()), ("undecodable", "1"), "ours are always there");
    (world, letter)
}

fn dead_letters_read_as_spring_kafkas_where_asked() {
    let (world, letter) = letter_named("spring");
    let expected: [(&str, &[u8]); 7] = [
        ("exception-fqcn", b"receipted.undecodable"),
        ("exception-message", b"undecodable"),
        ("original-consumer-group", world.service.group.as_bytes()),
        ("original-offset", &[0, 0, 0, 0, 0, 0, 0, 1]),
        ("original-partition", &[0, 0, 0, 0]),
        ("original-timestamp", &1_700_000_000_123_i64.to_be_bytes()),
        ("original-topic", world.service.topic.as_bytes()),
    ];
    assert_eq!(named(&letter, "kafka_dlt-"), expected.into_iter().map(|(name, value)| (name.into(), value.to_vec())).collect());
    assert_eq!(named(&letter, "__connect.errors."), BTreeMap::new());
}

fn dead_letters_read_as_connects_where_asked() {
    let (world, letter) = letter_named("connect");
    let expected = [
        ("class.name", "receipted"),
        ("connector.name", world.service.group.as_str()),
        ("exception.class.name", "receipted.undecodable"),
        ("exception.message", "undecodable"),
        ("offset", "1"),
        ("partition", "0"),
        ("stage", "VALUE_CONVERTER"),
        ("task.id", "0"),
        ("topic", world.service.topic.as_str()),
    ];
    assert_eq!(named(&letter, "__connect.errors."), expected.into_iter().map(|(name, value)| (name.into(), value.into())).collect());
    assert_eq!(named(&letter, "kafka_dlt-"), BTreeMap::new());
}

fn a_record_too_large_to_be_parked_halts_its_partition_and_no_other() {
    let World { server, mut service, _folder } = world("too-large", 2);
    service.park_record_bytes_max = 10_000;
    server.always(is(operation_of("acme", "large")), Behaviour::LoseAnswer);
    let at = |partition: i32, record: Record| record.partition(partition);
    let cluster = broker::shared();
    cluster
        .produce(&service.topic, [at(0, charge("acme", "before", 7)), at(0, padded("large", 20_000)), at(0, charge("acme", "after", 7))]);
    let mut running = service.start().ready();
    let line = running.child.wait_line("partition halted", service::BOUND);
    assert!(line.contains("offset=1") && line.contains("partition=0") && line.contains("park_record_bytes_max"), "{line}");
    cluster.produce(&service.topic, [at(1, charge("acme", "elsewhere", 7))]);
    service.wait_committed_of(1, 1);
    running.stop();
    assert_eq!(service.committed_of(0), Some(1), "the offset waits at the slot");
    // The remedy: a larger bound. The doubt is settled from the parked record then, and the partition goes on.
    service.park_record_bytes_max = 16 << 20;
    let running = service.start().ready();
    service.wait_committed_of(0, 3);
    running.stop();
    let ledger = server.ledger();
    assert_eq!((ledger.total(), ledger.excess()), (4, 0));
    assert_eq!(
        service::parked(&service.open_store()).iter().map(|(id, why)| (id.slot.offset, *why)).collect::<Vec<_>>(),
        [(1, "unresolved")]
    );
}

fn what_a_transaction_aborted_is_not_run_and_its_markers_hold_no_offset_back() {
    let world = world("transactions", 1);
    let (cluster, topic) = (broker::shared(), world.service.topic.clone());
    let running: Running = world.service.start().ready();
    cluster.transaction(&topic, [charge("acme", "one", 7), charge("acme", "two", 7)], TransactionEnd::Commit);
    // Two records and a marker.
    world.service.wait_committed(3);
    cluster.transaction(&topic, [charge("acme", "never", 7)], TransactionEnd::Abort);
    // Nothing of it is to be run, and the offset moves on over the record and its marker.
    world.service.wait_committed(5);
    cluster.produce(&topic, [charge("acme", "three", 7)]);
    world.service.wait_committed(6);
    running.stop();
    world.assert_effects(&["one", "two", "three"]);
    assert_eq!(world.service.open_store().marks().values().map(|marks| marks.watermark).collect::<Vec<_>>(), [Some(6)]);
    // A start at the end of the log, where a marker is all that is left of the last transaction.
    cluster.transaction(&topic, [charge("acme", "four", 7)], TransactionEnd::Commit);
    let running = world.service.start().ready();
    world.service.wait_committed(8);
    running.stop();
    cluster.delete_records(&topic, 0, 8);
    world.service.start().ready().stop();
    world.assert_effects(&["one", "two", "three", "four"]);
}

trait ValueOf {
    fn value_of(self, value: &str) -> Self;
}

impl ValueOf for Record {
    fn value_of(self, value: &str) -> Self {
        Self { value: Some(value.into()), ..self }
    }
}

fn main() {
    let tests = trials![real broker:
        a_header_name_that_is_not_utf8_stops_nothing_and_goes_along,
        a_null_key_runs_in_a_lane_of_its_own,
        a_tombstone_is_skipped,
        a_mebibyte_runs_and_as_a_dead_letter_keeps_every_byte,
        every_compression_is_read,
        a_record_that_does_not_decode_is_dead_lettered_whole_and_settles_nothing,
        attempts_without_effect_end_as_a_dead_letter_that_names_them,
        dead_letters_read_as_spring_kafkas_where_asked,
        dead_letters_read_as_connects_where_asked,
        a_record_too_large_to_be_parked_halts_its_partition_and_no_other,
        what_a_transaction_aborted_is_not_run_and_its_markers_hold_no_offset_back,
    ];
    process::run(tests, &[("service", service::role)]);
}
