//! Kills: a child process that is this very program writes or opens, and is killed -9; what it acknowledged is counted outside it.

use crate::{
    durable::{open, options, rich},
    fixture::{InDirectory, in_directories},
    make::*,
};
use libtest_mimic::Trial;
use receipted::{
    protocol::{
        known::{Entry, Revision},
        park::{ParkReason, Payload},
    },
    store::{
        Batch, Error, PreviousStop, ReceiptStore,
        sled::{OnSyncFailure, SYNC_FAILED_EXIT_CODE, SledStore, verify},
    },
};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::Arc,
    time::Instant,
};

const ROLE: &str = "RECEIPTED_STORE_TEST_ROLE";
const ROOT: &str = "RECEIPTED_STORE_TEST_ROOT";

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, InDirectory); 6] = [
        ("kill::every_acknowledged_append_survives_a_kill", every_acknowledged_append_survives_a_kill),
        ("kill::c43_a_kill_during_open_never_locks_the_store", c43_a_kill_during_open_never_locks_the_store),
        ("kill::c43_planted_snapshots_do_not_stop_the_open", c43_planted_snapshots_do_not_stop_the_open),
        ("kill::another_process_is_refused_by_name", another_process_is_refused_by_name),
        ("kill::a_failed_sync_ends_the_process", a_failed_sync_ends_the_process),
        ("kill::a_damaged_file_is_refused_or_lost_nothing", a_damaged_file_is_refused_or_lost_nothing),
    ];
    in_directories(tests)
}

/// What a child does instead of running tests.
pub(crate) fn role() -> Option<ExitCode> {
    let role = std::env::var(ROLE).ok()?;
    let root = PathBuf::from(std::env::var(ROOT).expect("the parent names the store"));
    if role == "write" {
        // It ends with its parent, however that one does.
        std::thread::spawn(|| {
            drop(std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
            std::process::exit(70);
        });
    }
    match role.as_str() {
        "write" => write(&root),
        "open" => drop(open(&root)),
        "hold" => {
            let _store = open(&root);
            say("open");
            std::io::stdin().read_line(&mut String::new()).expect("the parent ends it");
        }
        "sync-fails" => {
            let mut options = options(&root);
            options.on_sync_failure = OnSyncFailure::Exit;
            options.before_sync = Some(Arc::new(|| Err(std::io::Error::other("the disk is gone"))));
            let store = SledStore::open(&options);
            // Opening syncs too, and says so instead of ending a process that has promised nothing yet.
            assert!(matches!(store, Err(Error::Io { .. })));
            let reached = std::sync::atomic::AtomicUsize::new(0);
            options.before_sync = Some(Arc::new(move || match reached.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0 => Ok(()),
                _ => Err(std::io::Error::other("the disk is gone")),
            }));
            let store = SledStore::open(&options).expect("opens");
            let appended = store.append(Batch(vec![admit("a", 1, Revision(0))]));
            say(&format!("went on with {appended:?}"));
        }
        other => panic!("no such role: {other}"),
    }
    Some(ExitCode::SUCCESS)
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("the parent reads");
}

fn child(role: &str, root: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(ROLE, role).env(ROOT, root).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the child starts")
}

/// An operation's record: large enough for several chunks.
fn record(id: &str) -> Payload {
    Payload { value: Some(id.bytes().cycle().take(9000).collect()), ..payload(id) }
}

/// Appends for ever, from three threads; says what is durable.
fn write(root: &Path) {
    let store = open(root);
    let claim = store.identity().claim;
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let store = &store;
            scope.spawn(move || {
                for number in 0.. {
                    let id = format!("{claim}.{thread}.{number}");
                    let offset = i64::try_from(claim).expect("small") * 1_000_000 + thread * 100_000 + number;
                    let mut entries = vec![admit(&id, 1, Revision(0)), done(&id, 1, &id)];
                    if number % 4 == 0 {
                        let record = record(&id);
                        let park = park_of(Some(&id), ParkReason::Reply, &record);
                        entries.push(Entry::Park { seen: None, id: park_id(offset, 1), park, payload: Arc::new(record) });
                    }
                    store.append(Batch(entries)).expect("durable");
                    say(&format!("{id} {offset}"));
                }
            });
        }
    });
}

fn every_acknowledged_append_survives_a_kill(root: &Path) {
    let mut acknowledged: Vec<(String, i64)> = Vec::new();
    for round in 0..6 {
        let mut writer = child("write", root);
        let mut lines = BufReader::new(writer.stdout.take().expect("piped")).lines();
        let mut read = |line: String| {
            let (id, offset) = line.split_once(' ').expect("an id and an offset");
            acknowledged.push((id.into(), offset.parse().expect("a number")));
        };
        // Killed after so many acknowledgements, wherever the writer is by then.
        (0..20 + round * 37).for_each(|_| read(lines.next().expect("the child writes").expect("reads")));
        writer.kill().expect("kill -9");
        lines.for_each(|line| read(line.expect("reads")));
        writer.wait().expect("it ended");
        let report = verify(root).expect("can be read");
        assert!(report.is_sound(), "round {round}: {report}");
        let mut options = options(root);
        options.known_bytes_max = 0;
        let store = SledStore::open(&options).expect("opens");
        assert_eq!(store.identity().previous_stop, PreviousStop::Unclean);
        for (id, offset) in &acknowledged {
            let known = load(&store, id);
            assert_eq!(known.receipt.applied().and_then(|applied| applied.reference.as_ref()).map(|r| r.as_str()), Some(id.as_str()));
            if id.rsplit('.').next().expect("a number").parse::<u64>().expect("a number") % 4 == 0 {
                assert_eq!(store.payload(&park_id(*offset, 1)).expect("reads"), Some(record(id)));
            }
        }
        // A batch is there whole or not at all, acknowledged or not.
        for (_, known) in store.list(receipted::store::Which::All, None, usize::MAX).expect("lists") {
            assert_eq!((known.receipt.admissions().len(), known.receipt.facts().len()), (1, 1));
            let number = known.key.as_ref().and_then(|key| key.id()[0].rsplit('.').next()?.parse::<u64>().ok()).expect("a number");
            assert_eq!(known.parks.len(), usize::from(number % 4 == 0));
        }
        store.close().expect("closes");
    }
    let distinct: BTreeSet<_> = acknowledged.iter().collect();
    assert_eq!(distinct.len(), acknowledged.len());
    assert!(acknowledged.len() > 600, "{}", acknowledged.len());
}

fn c43_a_kill_during_open_never_locks_the_store(root: &Path) {
    rich(root);
    let started = Instant::now();
    let mut whole = child("open", root);
    assert!(whole.wait().expect("it ends").success());
    let takes = started.elapsed();
    let mut killed = 0;
    for step in 0..30 {
        let mut opener = child("open", root);
        // It may run for so long: a kill at every part of an open, and some that come too late.
        let (ended, wait) = std::sync::mpsc::sync_channel(1);
        let mut out = opener.stdout.take().expect("piped");
        std::thread::spawn(move || ended.send(std::io::copy(&mut out, &mut std::io::sink())));
        drop(wait.recv_timeout(takes * step / 24));
        opener.kill().expect("kill -9");
        killed += u32::from(!opener.wait().expect("it ends").success());
        if step % 5 == 0 {
            let store = open(root);
            assert_eq!(load(&store, "op-7").receipt.state().label(), "applied");
            assert_eq!(store.sizes().operations, 42);
        }
    }
    assert!(killed > 0, "no open was cut short");
    assert!(verify(root).expect("can be read").is_sound());
}

/// The newest snapshot file.
fn snapshot(root: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(root.join("sled")).expect("the data").map(|file| file.expect("a file").path());
    files
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("snap.") && !name.to_string_lossy().ends_with("g"))
        })
        .max()
}

fn c43_planted_snapshots_do_not_stop_the_open(root: &Path) {
    rich(root);
    let mut aside = 0;
    for round in 0..4 {
        // The open before left a snapshot; the log goes on after it.
        let store = open(root);
        append(&store, vec![admit(&format!("more-{round}"), 1, Revision(0)), done(&format!("more-{round}"), 1, "r")]);
        drop(store);
        let data = root.join("sled");
        fs::write(data.join("snap.00000000FFFFFFFF.generating"), b"half of a snapsh").expect("planted");
        let expected = match round {
            0 => {
                fs::write(data.join("snap.00000000FFFFFFFE"), b"").expect("planted");
                1
            }
            1 => {
                let own = snapshot(root).expect("a snapshot");
                let bytes = fs::read(&own).expect("reads");
                fs::write(&own, &bytes[..bytes.len() / 2]).expect("cut");
                1
            }
            2 => {
                let own = snapshot(root).expect("a snapshot");
                let mut bytes = fs::read(&own).expect("reads");
                bytes[0] ^= 0x40;
                fs::write(&own, bytes).expect("changed");
                1
            }
            _ => 0,
        };
        let store = open(root);
        assert_eq!(store.set_aside().len(), expected, "round {round}");
        assert!(store.set_aside().iter().all(|file| file.exists()), "moved, not deleted");
        aside += expected;
        assert_eq!(store.sizes().operations, 43 + round);
        for i in 0..40 {
            assert_eq!(load(&store, &format!("op-{i}")).receipt.state().label(), "applied");
        }
        assert!(!data.join("snap.00000000FFFFFFFF.generating").exists());
    }
    assert_eq!(fs::read_dir(root.join("aside")).expect("kept").count(), aside);
    assert!(verify(root).expect("can be read").is_sound());
}

fn another_process_is_refused_by_name(root: &Path) {
    let mut holder = child("hold", root);
    let mut line = String::new();
    BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut line).expect("reads");
    assert_eq!(line.trim(), "open");
    match SledStore::open(&options(root)) {
        Err(Error::InUse { pid, directory }) => assert_eq!((pid, directory.as_path()), (Some(holder.id()), root)),
        other => panic!("{other:?}"),
    }
    holder.kill().expect("kill -9");
    holder.wait().expect("it ended");
    // A kill leaves no lock behind.
    let store = open(root);
    assert_eq!(store.identity().claim, 2);
}

fn a_failed_sync_ends_the_process(root: &Path) {
    let child = child("sync-fails", root);
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(SYNC_FAILED_EXIT_CODE), "{errors}");
    assert!(errors.contains("the disk is gone"), "{errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    assert_eq!(open(root).identity().previous_stop, PreviousStop::Unclean);
}

/// Flips a bit, or cuts the file, at many places: either the open says that something is wrong, or everything is there.
fn a_damaged_file_is_refused_or_lost_nothing(root: &Path) {
    rich(root);
    let original = root.with_extension("original");
    copy(root, &original);
    let length = fs::metadata(root.join("sled/db")).expect("the log").len();
    let written = {
        let bytes = fs::read(root.join("sled/db")).expect("the log");
        bytes.iter().rposition(|byte| *byte != 0).expect("not empty") as u64
    };
    let (mut refused, mut survived) = (0, 0);
    let places = (0..48).map(|step| (written * step / 48, false)).chain((1..12).map(|step| (length.min(written) * step / 12, true)));
    for (place, cut) in places {
        let copied = root.with_extension("copy");
        copy(&original, &copied);
        let db = copied.join("sled/db");
        let mut bytes = fs::read(&db).expect("the log");
        let at = usize::try_from(place).expect("small");
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 0x10;
        }
        fs::write(&db, bytes).expect("damaged");
        match SledStore::open(&options(&copied)) {
            Err(error) => {
                assert!(matches!(error, Error::Corrupt { .. }), "at {place}: {error}");
                assert!(error.to_string().contains("damaged"), "{error}");
                refused += 1;
            }
            Ok(store) => {
                let id = store.identity().store_id.clone();
                assert_eq!(store.sizes().operations, 42, "at {place} of {written}, cut {cut}");
                assert_eq!((load(&store, "late").receipt.notes(), id.len()), (6, 32));
                drop(store);
                let report = verify(&copied).expect("can be read");
                assert!(report.is_sound(), "at {place}: {report}");
                survived += 1;
            }
        }
        fs::remove_dir_all(&copied).expect("removed");
    }
    assert!(refused > 20 && survived < 40, "{refused} refused, {survived} survived");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("listed") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}
