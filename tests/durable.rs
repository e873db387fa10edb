//! Durable means durable, seen from outside: what the process asks of the kernel before an offset is committed, and what a kill leaves.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod support;

#[path = "durable/trace.rs"]
mod trace;

use receipted::store::ReceiptStore;
use support::{
    broker,
    cluster::{Record, record},
    destination::{Behaviour, Server, is},
    process::{self, wait_until},
    service::{self, Service, charge, operation_of},
};
use trace::{Order, Trace};

/// A record with so many bytes of padding, and everything that a header may hold.
fn large(id: &str, bytes: usize) -> Record {
    let noise: String = (0..bytes).map(|at| char::from(b'a' + (at * at % 23) as u8)).collect();
    record(format!(r#"{{"id":"{id}","amount":7,"noise":"{noise}"}}"#))
        .key(b"\x00\xff".to_vec())
        .header("tenant", "acme")
        .null_header("nothing")
        .header(b"\xfe\xff", b"\x00")
        .timestamp(1_700_000_000_123)
}

fn before_each_offset_commit_and_each_effect_the_store_was_synced() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let mut service = Service::new("traced", 1, server.address(), folder.path());
    service.permits = 1;
    let file = folder.path().join("trace");
    let running = service
        .start_under(
            "strace",
            &["-D", "-f", "-yy", "-xx", "-s", "96", "-e", trace::CALLS, "-e", "signal=none", "-o", file.to_str().unwrap()],
        )
        .ready();
    // One record at a time, so that nothing else is on its way to the disk when its offset is committed.
    for offset in 0..12 {
        let id = offset.to_string();
        let parked = offset % 3 == 2;
        if parked {
            server.once(is(operation_of("acme", &id)), Behaviour::LoseAnswer);
        }
        let next = if parked { large(&id, 20_000) } else { charge("acme", &id, 7) };
        broker::shared().produce(&service.topic, [next]);
        service.wait_committed_of(0, offset + 1);
    }
    running.stop();
    wait_until("the end of the trace", service::BOUND, || std::fs::read_to_string(&file).unwrap().contains("+++ exited with 0 +++"));
    let trace = Trace::read(&std::fs::read_to_string(&file).unwrap(), &service.store.join("sled/db"), server.address());
    let said = trace.judge(Order::AsItWas);
    assert_eq!(said.unsynced, [""; 0], "a commit or an effect came before the sync of what was written");
    assert!(said.commits >= 12 && said.effects == 12 && said.writes >= 24, "{said:?}");
    // Each parked record of 20 kB was written in chunks before its commit.
    assert!(said.written >= 4 * 20_000, "{said:?}");
    // The judge is not asleep: without the syncs, nothing is in order.
    let blind = trace.judge(Order::WithoutSyncs);
    assert!(blind.unsynced.len() >= 24, "{blind:?}");
    assert_eq!(service::parked(&service.open_store()).len(), 4);
}

fn a_planted_half_snapshot_does_not_stop_the_start() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let service = Service::new("snapshot", 1, server.address(), folder.path());
    let records = || (0..20).map(|id| charge("acme", id, 7));
    broker::shared().produce(&service.topic, records());
    let mut running = service.start().ready();
    service.wait_committed(20);
    running.kill();
    let sled = service.store.join("sled");
    std::fs::write(sled.join("snap.00000000000000FF.generating"), b"half a snapsho").unwrap();
    std::fs::write(sled.join("snap.00000000000000FE.generating"), b"").unwrap();
    std::fs::write(sled.join("snap.00000000000000FD"), b"half a snapsho").unwrap();
    std::fs::write(sled.join("snap.00000000000000FC"), b"").unwrap();
    broker::shared().produce(&service.topic, records());
    let running = service.start().ready();
    service.wait_committed(40);
    running.stop();
    let ledger = server.ledger();
    assert_eq!((ledger.total(), ledger.excess()), (20, 0), "every receipt is there");
    let left = std::fs::read_dir(&sled).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.ends_with(".generating")).collect::<Vec<_>>(), [""; 0]);
}

fn a_mebibyte_that_is_parked_is_there_byte_for_byte_after_a_kill() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let service = Service::new("parked", 1, server.address(), folder.path());
    server.once(is(operation_of("acme", "large")), Behaviour::LoseAnswer);
    let record = large("large", 1 << 20);
    broker::shared().produce(&service.topic, [record.clone()]);
    let mut running = service.start().ready();
    service.wait_committed(1);
    running.kill();
    let store = service.open_store();
    let parked = store.parked(None, 10);
    assert_eq!(parked.len(), 1);
    let payload = store.payload(&parked[0].0).unwrap().expect("the record of the note");
    assert!(payload.key == record.key && payload.value == record.value, "key and value");
    assert_eq!((payload.headers, payload.timestamp), (record.headers, record.timestamp));
}

fn main() {
    let tests = trials![real broker:
        before_each_offset_commit_and_each_effect_the_store_was_synced,
        a_planted_half_snapshot_does_not_stop_the_start,
        a_mebibyte_that_is_parked_is_there_byte_for_byte_after_a_kill,
    ];
    process::run(tests, &[("service", service::role)]);
}
