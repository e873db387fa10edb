//! The operators' way in: who may come to the socket, what it shows, what it refuses and with which remedy, and what the commands
//! make of it.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod support;

use receipted::{
    admin::{
        client::{Client, Error},
        command::{EndRequest, EndWord, Filter, List, OutcomeWord, Refusal, SettleRequest, park_name, parse_park},
        server::{self, Served},
    },
    handler::BoxFuture,
    protocol::{
        doubt::Future,
        fingerprint::Fingerprint,
        key::{Alphabet, KeyDigest, OperationKey},
        known::{Answer, Entry, Revision},
        note::{Admission, Answer as Answered, Applied, AttemptId, Author, Doubt, DoubtReason, Fact, Reference, Slot},
        park::{Park, ParkId, ParkReason, Payload, SlotNotes},
        refused::Refused,
        settle::{Act, Change, Changed, Decided, Scene, Target, changed, decide},
        time::{Monotonic, Now, UnixMillis},
    },
    runner::{Operator, PartitionAsk, PartitionLine, Reading, Word},
    store::{Batch, Partition, ReceiptStore, memory::MemoryStore},
};
use std::{
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use support::block_on;

const ATTEMPT: AttemptId = AttemptId { number: 1, claim: 1 };
const QUIET: Duration = Duration::from_secs(60);

/// Does what the engine does, on a memory store, with futures and a clock that the test sets.
struct Desk {
    store: Arc<MemoryStore>,
    future: Mutex<Future>,
    monotonic: AtomicU64,
}

impl Desk {
    fn decide(&self, change: &Change) -> Result<Changed, Refused> {
        let slot = match &change.act {
            Act::DeadLetter(Target::Park(park)) | Act::Discard { target: Target::Park(park), .. } => {
                self.store.slots(std::slice::from_ref(&park.slot)).remove(0)
            }
            _ => SlotNotes::default(),
        };
        let key = change.key().or_else(|| slot.parked.as_ref().and_then(|(_, note, _)| note.key));
        let known = key.map(|key| self.store.load(&[key]).unwrap().remove(0)).unwrap_or_default();
        let now = Now { monotonic: Monotonic(self.monotonic.load(Ordering::SeqCst)), wall: UnixMillis(5_000) };
        let future = *self.future.lock().unwrap();
        let entry = match decide(change, &Scene { known: &known, slot: &slot, halted: None, future: |_| future, quiet: QUIET, now })? {
            Decided::Write(entry) | Decided::DeadLetter { then: entry, .. } => entry,
            Decided::Skip(skipped) => skipped.end,
        };
        match self.store.append(Batch(vec![entry.clone()])).unwrap().answers.remove(0) {
            Answer::Done(known) => Ok(changed(&entry, &known.unwrap_or_default())),
            Answer::Lost(_) => Err(Refused::Moved),
        }
    }
}

impl Desk {
    /// Two partitions, of which the second is halted at slot 7.
    fn partitions(&self, ask: &PartitionAsk) -> Result<Vec<PartitionLine>, Refused> {
        let (first, halted) = (partition(0), partition(1));
        let open = PartitionLine {
            partition: first.clone(),
            reading: Reading::Open,
            watermark: Some(12),
            committed: Some(11),
            in_flight: (2, 300),
            halted_at: None,
            detail: None,
        };
        let stuck = PartitionLine {
            partition: halted.clone(),
            reading: Reading::Halted,
            watermark: Some(7),
            committed: None,
            in_flight: (1, 99),
            halted_at: Some(7),
            detail: Some("its record is too large".into()),
        };
        let word = |word: &Word| {
            assert_eq!(word.by, Author::Operator { name: "ada".into(), uid: rustix::process::geteuid().as_raw() });
            assert_eq!(word.reason, "tonight");
        };
        match ask {
            PartitionAsk::List => Ok(vec![open, stuck]),
            PartitionAsk::Pause(asked, said) if *asked == first => {
                word(said);
                Ok(vec![PartitionLine { reading: Reading::Paused, in_flight: (0, 0), ..open }])
            }
            PartitionAsk::Resume(asked, said) if *asked == first => {
                word(said);
                Ok(vec![open])
            }
            PartitionAsk::Pause(asked, _) | PartitionAsk::Resume(asked, _) if *asked == halted => {
                Err(Refused::Halted { reason: "its record is too large".into() })
            }
            PartitionAsk::Pause(..) | PartitionAsk::Resume(..) => Err(Refused::NoPartition),
        }
    }
}

fn partition(number: i32) -> Partition {
    Partition { topic: "payments".into(), number }
}

struct DeskOperator(Arc<Desk>);

impl Operator for DeskOperator {
    fn perform(&self, change: Change) -> BoxFuture<Result<Changed, Refused>> {
        let done = self.0.decide(&change);
        Box::pin(async move { done })
    }

    fn partitions(&self, ask: PartitionAsk) -> BoxFuture<Result<Vec<PartitionLine>, Refused>> {
        let lines = self.0.partitions(&ask);
        Box::pin(async move { lines })
    }
}

struct Place {
    folder: tempfile::TempDir,
    desk: Arc<Desk>,
    client: Client,
}

fn key(id: &str) -> OperationKey {
    OperationKey::new("acme", "charge.v1", &[id.into()], Alphabet::Token).unwrap()
}

fn slot(offset: i64) -> Slot {
    Slot { topic: "payments".into(), partition: 0, offset }
}

impl Place {
    /// A store with a socket in its directory, and the futures of its attempts ended just now.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(MemoryStore::with_clock(Arc::new(|| UnixMillis(4_000))));
        let (future, monotonic) = (Mutex::new(Future::EndedAt(Monotonic(0))), AtomicU64::new(0));
        let desk = Arc::new(Desk { store: store.clone(), future, monotonic });
        let socket = folder.path().join("receipted.sock");
        let served = Served { store, operator: Arc::new(DeskOperator(desk.clone())) };
        let path = socket.clone();
        let listener = block_on(async move { server::bind(&path).unwrap() });
        support::runtime().spawn(server::serve(listener, served, std::future::pending()));
        Self { folder, desk, client: Client::new(socket) }
    }

    fn append(&self, entries: Vec<Entry>) {
        let appended = self.desk.store.append(Batch(entries)).unwrap();
        assert!(appended.answers.iter().all(|answer| matches!(answer, Answer::Done(_))));
    }

    fn revision(&self, key: KeyDigest) -> Revision {
        self.desk.store.load(&[key]).unwrap().remove(0).revision()
    }

    /// An operation whose attempt timed out.
    fn in_doubt(&self, id: &str, offset: i64) -> KeyDigest {
        let name = key(id);
        let key = name.digest();
        let admission = Admission {
            fingerprint: Fingerprint::Digest([1; 16]),
            slot: slot(offset),
            at: UnixMillis(1_000),
            time_limit: Duration::from_secs(1),
            memory: None,
            key_generation: 0,
            budget_used: 1,
            correlation: Some("trace-7".into()),
        };
        let doubt = Doubt { reason: DoubtReason::Timeout, detail: "no answer".into(), at: UnixMillis(2_000) };
        let (name, admission) = (Some(Arc::new(name)), Box::new(admission));
        self.append(vec![
            Entry::Admit { key, name, seen: Revision(0), attempt: ATTEMPT, admission, within: None },
            Entry::Doubt { key, attempt: ATTEMPT, doubt },
        ]);
        key
    }

    fn park(&self, key: Option<KeyDigest>, offset: i64, reason: ParkReason) -> ParkId {
        let (payload, id) = (Payload { value: Some(b"{}".to_vec()), ..Payload::default() }, ParkId { slot: slot(offset), number: 1 });
        let fingerprint = key.map(|_| Fingerprint::Digest([1; 16]));
        let (record, bytes, detail) = (payload.digest(), payload.bytes(), "set aside".to_string());
        let park = Park { reason, key, fingerprint, attempt: None, record, bytes, detail, at: UnixMillis(3_000) };
        let seen = key.map(|key| self.revision(key));
        self.append(vec![Entry::Park { seen, id: id.clone(), park: Arc::new(park), payload: Arc::new(payload) }]);
        id
    }

    fn settle(&self, request: SettleRequest) -> Result<String, Refusal> {
        let client = self.client.clone();
        refusal(block_on(async move { client.settle(&request).await })).map(|done| done.next)
    }

    fn end(&self, word: EndWord, request: EndRequest) -> Result<String, Refusal> {
        let client = self.client.clone();
        refusal(block_on(async move { client.end(word, &request).await })).map(|done| done.next)
    }

    fn list(&self, state: Filter, after: Option<String>, limit: usize) -> receipted::admin::view::Listing {
        let client = self.client.clone();
        block_on(async move { client.list(&List { state, after, limit }).await.unwrap() })
    }

    fn show(&self, key: KeyDigest) -> Result<receipted::admin::view::OperationView, Refusal> {
        let client = self.client.clone();
        refusal(block_on(async move { client.show(key).await }))
    }

    fn command(&self, arguments: &[&str]) -> Output {
        command(self.folder.path(), arguments)
    }
}

fn refusal<T>(answer: Result<T, Error>) -> Result<T, Refusal> {
    answer.map_err(|error| if let Error::Refused(refusal) = error { refusal } else { panic!("{error}") })
}

fn command(store: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_receipted"));
    command.env_clear().args(arguments).arg("--store").arg(store).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn settle(key: KeyDigest, outcome: OutcomeWord) -> SettleRequest {
    SettleRequest {
        key: key.to_string(),
        outcome,
        reference: (outcome == OutcomeWord::Applied).then(|| "booking-9".into()),
        attempts: vec![],
        cannot_land_any_more: None,
        fresh_key: false,
        reason: "seen in their ledger".into(),
        by: "ada".into(),
    }
}

fn end(key: Option<KeyDigest>, park: Option<&ParkId>) -> EndRequest {
    let (key, park) = (key.map(|key| key.to_string()), park.map(park_name));
    EndRequest { key, park, with_repeats: None, reason: "not ours".into(), by: "ada".into() }
}

#[test]
fn the_socket_is_for_its_owner_alone_and_replaces_one_that_was_left_there() {
    let place = Place::new();
    let socket = place.folder.path().join("receipted.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let again = socket.clone();
    let listener = block_on(async move { server::bind(&again).unwrap() });
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    drop(listener);
}

#[test]
fn what_stands_in_the_way_of_the_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("receipted.sock");
    std::fs::write(&path, "precious").unwrap();
    let there = path.clone();
    assert!(matches!(block_on(async move { server::bind(&there) }), Err(server::Error::InTheWay { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    let long = folder.path().join("x".repeat(120)).join("receipted.sock");
    assert!(matches!(block_on(async move { server::bind(&long) }), Err(server::Error::TooLong { .. })));
}

#[test]
fn the_doubtful_are_listed_with_digest_key_reason_and_age() {
    let place = Place::new();
    let doubtful = place.in_doubt("c-1", 0);
    place.park(Some(doubtful), 0, ParkReason::Unresolved);
    let listing = place.list(Filter::InDoubt, None, 10);
    let [line] = &listing.operations[..] else { panic!("{listing:?}") };
    assert_eq!((line.key.as_str(), line.state.as_str()), (doubtful.to_string().as_str(), "in_doubt"));
    assert_eq!((line.tenant.as_deref(), line.operation.as_deref(), &line.id[..]), (Some("acme"), Some("charge.v1"), &["c-1".into()][..]));
    assert_eq!((line.attempts, line.parked, line.held), (1, 1, 0));
    assert_eq!((line.in_doubt[0].attempt.as_str(), line.in_doubt[0].reason.as_str()), ("1/1", "timeout"));
    assert_eq!(line.since.as_deref(), Some("1970-01-01T00:00:02.000Z"), "the doubt began with the time-out");
    assert!(line.age_seconds > 1_000_000);
    assert_eq!(place.list(Filter::Disputed, None, 10).operations, vec![]);
}

#[test]
fn a_listing_goes_page_by_page() {
    let place = Place::new();
    let mut keys: Vec<String> = (0..5).map(|n| place.in_doubt(&format!("c-{n}"), n).to_string()).collect();
    keys.sort();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = place.list(Filter::InDoubt, after, 2);
        seen.extend(page.operations.into_iter().map(|line| line.key));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, keys);
}

#[test]
fn parked_records_are_listed_also_those_without_an_operation() {
    let place = Place::new();
    let doubtful = place.in_doubt("c-1", 0);
    let (held, stray) = (place.park(Some(doubtful), 0, ParkReason::Unresolved), place.park(None, 5, ParkReason::DeadLetterFailed));
    let seen = place.revision(doubtful);
    let record = Payload::default().digest();
    place.append(vec![Entry::Hold { key: doubtful, seen, park: held.clone(), slot: slot(3), record }]);
    let first = place.list(Filter::Parked, None, 1);
    assert_eq!((first.notes[0].park.as_str(), first.notes[0].held, first.notes[0].bytes), ("payments/0/0#1", 1, 2));
    let second = place.list(Filter::Parked, first.next, 1);
    assert_eq!((second.notes[0].park.as_str(), second.notes[0].reason.as_str()), (park_name(&stray).as_str(), "dead_letter_failed"));
    assert_eq!(second.notes[0].key, None);
}

#[test]
fn one_operation_is_shown_with_attempts_evidence_verdicts_and_notes() {
    let place = Place::new();
    let doubtful = place.in_doubt("c-1", 7);
    place.park(Some(doubtful), 7, ParkReason::Unresolved);
    place.settle(settle(doubtful, OutcomeWord::Applied)).unwrap();
    let view = place.show(doubtful).unwrap();
    assert_eq!(view.line.state, "applied");
    assert_eq!((view.history[0].slot.as_deref(), view.history[0].correlation.as_deref()), (Some("payments/0/7"), Some("trace-7")));
    assert_eq!((view.verdicts[0].ruling.as_str(), view.verdicts[0].reason.as_str()), ("applied as \"booking-9\"", "seen in their ledger"));
    assert!(view.notes[0].ended.as_ref().unwrap().starts_with("settled at"), "{:?}", view.notes[0]);
}

#[test]
fn the_users_id_is_noted_beside_the_name() {
    let place = Place::new();
    let doubtful = place.in_doubt("c-1", 0);
    place.settle(settle(doubtful, OutcomeWord::Applied)).unwrap();
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(place.show(doubtful).unwrap().verdicts[0].by, format!("ada (uid {own})"));
}

#[test]
fn an_operation_of_which_nothing_is_known_says_so() {
    let refusal = Place::new().show(key("c-404").digest()).unwrap_err();
    assert_eq!(refusal.code, "unknown");
}

#[test]
fn a_verdict_is_refused_with_its_remedy_while_the_future_lives_and_before_it_is_quiet() {
    let place = Place::new();
    let doubtful = place.in_doubt("c-1", 0);
    *place.desk.future.lock().unwrap() = Future::Alive;
    let refused = place.settle(settle(doubtful, OutcomeWord::NotDone)).unwrap_err();
    assert_eq!((refused.code.as_str(), refused.remedy.contains("wait")), ("still_runs", true), "{refused:?}");
    *place.desk.future.lock().unwrap() = Future::EndedAt(Monotonic(0));
    let refused = place.settle(settle(doubtful, OutcomeWord::NotDone)).unwrap_err();
    assert_eq!((refused.code.as_str(), refused.remedy.contains("--cannot-land-any-more")), ("quiet", true), "{refused:?}");
    assert_eq!(place.show(doubtful).unwrap().verdicts, vec![], "a refusal writes nothing");
    place.desk.monotonic.store(60_000, Ordering::SeqCst);
    assert!(place.settle(settle(doubtful, OutcomeWord::NotDone)).unwrap().starts_with("runs again"));
}

#[test]
fn a_discard_needs_the_doubt_settled_and_the_repeats_acknowledged() {
    let place = Place::new();
    let doubtful = place.in_doubt("c-1", 0);
    let park = place.park(Some(doubtful), 0, ParkReason::Conflict);
    let seen = place.revision(doubtful);
    let record = Payload::default().digest();
    place.append(vec![Entry::Hold { key: doubtful, seen, park: park.clone(), slot: slot(3), record }]);
    assert_eq!(place.end(EndWord::Discard, end(Some(doubtful), None)).unwrap_err().code, "discard_in_doubt");
    place.settle(settle(doubtful, OutcomeWord::Applied)).unwrap();
    let refused = place.end(EndWord::Discard, end(None, Some(&park))).unwrap_err();
    assert_eq!((refused.code.as_str(), refused.remedy.contains("--with-repeats 1")), ("repeats", true));
    let request = EndRequest { with_repeats: Some(1), ..end(None, Some(&park)) };
    assert_eq!(place.end(EndWord::Discard, request).unwrap(), "thrown away, with 1 held repeats");
    assert_eq!(place.end(EndWord::Discard, end(None, Some(&park))).unwrap_err().code, "note_ended");
    assert!(place.show(doubtful).unwrap().notes[0].ended.as_ref().unwrap().contains("discarded at"));
}

#[test]
fn a_record_without_an_operation_is_dead_lettered_by_its_note() {
    let place = Place::new();
    let stray = place.park(None, 5, ParkReason::DeadLetterFailed);
    assert_eq!(place.end(EndWord::DeadLetter, end(None, Some(&stray))).unwrap(), "in the dead-letter topic");
    assert_eq!(place.list(Filter::Parked, None, 10).notes, vec![]);
}

#[test]
fn a_request_that_makes_no_sense_names_its_part() {
    let place = Place::new();
    let doubtful = place.in_doubt("c-1", 0);
    let wrong = [
        SettleRequest { key: "abc".into(), ..settle(doubtful, OutcomeWord::NotDone) },
        SettleRequest { reference: Some("r".into()), ..settle(doubtful, OutcomeWord::NotDone) },
        SettleRequest { attempts: vec!["one".into()], ..settle(doubtful, OutcomeWord::NotDone) },
        SettleRequest { attempts: vec!["1".into()], ..settle(doubtful, OutcomeWord::Reopened) },
    ];
    for request in wrong {
        assert_eq!(place.settle(request.clone()).unwrap_err().code, "malformed", "{request:?}");
    }
    let park = ParkId { slot: slot(0), number: 1 };
    for request in [end(None, None), end(Some(doubtful), Some(&park)), EndRequest { park: Some("payments/0".into()), ..end(None, None) }] {
        assert_eq!(place.end(EndWord::Discard, request.clone()).unwrap_err().code, "malformed", "{request:?}");
    }
    let request = EndRequest { with_repeats: Some(1), ..end(Some(doubtful), None) };
    assert_eq!(place.end(EndWord::DeadLetter, request).unwrap_err().code, "malformed");
}

#[test]
fn a_note_is_read_as_it_is_written() {
    let park = ParkId { slot: Slot { topic: "a.b-c_d".into(), partition: 12, offset: 345 }, number: 6 };
    assert_eq!(park_name(&park), "a.b-c_d/12/345#6");
    assert_eq!(parse_park("a.b-c_d/12/345#6"), Some(park));
    for wrong in ["", "t/1/2", "t/1#1", "/1/2#1", "t/x/2#1", "t/1/2#x"] {
        assert_eq!(parse_park(wrong), None, "{wrong}");
    }
}

#[test]
fn commands_find_the_socket_in_the_stores_directory_and_answer_in_text_and_json() {
    let place = Place::new();
    let doubtful = place.in_doubt("c-1", 0);
    let listed = place.command(&["operations", "list"]);
    let said = text(&listed.stdout);
    assert!(listed.status.success() && said.contains("acme charge.v1 c-1") && said.contains(&doubtful.to_string()), "{said}");
    assert!(said.contains("1/1 timeout"), "{said}");
    let shown = place.command(&["operations", "show", "--tenant", "acme", "--operation", "charge.v1", "--id", "c-1", "--output", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&json["key"], &json["state"]), (&doubtful.to_string().into(), &"in_doubt".into()));
    let given = key("c-1").provider_key(0);
    let attempt = &json["history"][0];
    assert_eq!((&attempt["provider_key"], &attempt["provider_uuid"]), (&given.text.clone().into(), &given.uuid.to_string().into()));
    let shown = place.command(&["operations", "show", &doubtful.to_string()]);
    assert!(text(&shown.stdout).contains(&given.text), "what to look for at the destination: {}", text(&shown.stdout));
    let status = place.command(&["store", "status"]);
    assert!(text(&status.stdout).contains("in doubt 1"), "{}", text(&status.stdout));
    assert_eq!(text(&place.command(&["operations", "list", "--state", "disputed"]).stdout), "none disputed\n");
}

/// The destination answered twice for one operation, under two references; and an operation that was done once is in no such list.
#[test]
fn duplicate_effects_are_listed_with_their_references() {
    let place = Place::new();
    let said = |arguments: &[&str]| text(&place.command(&[&["operations", "duplicates"], arguments].concat()).stdout).to_string();
    assert_eq!(said(&[]), "no duplicate effect was ever noticed\n");
    for id in ["c-1", "c-2", "c-3"] {
        let doubtful = place.in_doubt(id, 0);
        place.settle(settle(doubtful, OutcomeWord::Applied)).unwrap();
        if id != "c-2" {
            let late = Applied { reference: Reference::new("late-9"), answer: Answered::Json("{}".into()), already: false };
            place.append(vec![Entry::Fact { key: doubtful, attempt: ATTEMPT, fact: Fact::Applied(late) }]);
        }
    }
    let listed = said(&[]);
    let rows: Vec<&str> = listed.lines().skip(1).collect();
    assert_eq!(rows.len(), 2, "{listed}");
    assert!(rows[0].contains("acme charge.v1 c-1") && rows[0].contains("certain") && rows[0].contains("late-9"), "{listed}");
    assert!(rows[1].contains("c-3") && !listed.contains("c-2"), "{listed}");
    let first = said(&["--limit", "1"]);
    assert!(first.contains("more: --from 1") && !first.contains("c-3"), "{first}");
    let json: serde_json::Value = serde_json::from_str(&said(&["--from", "1", "--output", "json"])).unwrap();
    let only = &json["duplicates"][0];
    assert_eq!((&only["number"], &only["operation"]["id"][0], &only["operation"]["extra_effects"]), (&1.into(), &"c-3".into(), &1.into()));
}

#[test]
fn partitions_are_listed_paused_resumed_and_skipped_by_name() {
    let place = Place::new();
    let said = |arguments: &[&str]| {
        let done = place.command(&[&["partitions"], arguments].concat());
        (done.status.code().unwrap(), text(&done.stdout).to_string() + text(&done.stderr))
    };
    let word = ["--reason", "tonight", "--by", "ada"];
    let (code, listed) = said(&["list"]);
    assert_eq!(code, 0);
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["payments/0", "open", "12", "11", "2", "-"]);
    assert_eq!(rows[2], ["payments/1", "halted", "7", "-", "1", "payments/1/7"]);
    assert!(listed.contains("payments/1: its record is too large"), "{listed}");
    let (code, paused) = said(&[&["pause", "payments/0"][..], &word].concat());
    assert!(code == 0 && paused.contains("paused"), "{paused}");
    let (code, open) = said(&[&["resume", "payments/0", "--output", "json"][..], &word].concat());
    let json: serde_json::Value = serde_json::from_str(&open).unwrap();
    assert_eq!((code, &json[0]["state"], &json[0]["in_flight_bytes"]), (0, &"open".into(), &300.into()));
    let (code, refused) = said(&[&["pause", "payments/1"][..], &word].concat());
    assert!(code == 65 && refused.contains("partitions skip"), "{code}: {refused}");
    let (code, refused) = said(&[&["pause", "refunds/0"][..], &word].concat());
    assert!(code == 65 && refused.contains("partitions list"), "{code}: {refused}");
    let (code, refused) = said(&[&["skip", "payments/0/3"][..], &word].concat());
    assert!(code == 65 && refused.contains("not halted at a record"), "{code}: {refused}");
    for wrong in [["pause", "payments"], ["pause", "/0"], ["resume", "payments/x"], ["skip", "payments/1"], ["skip", "payments/1/-7"]] {
        let (code, refused) = said(&[&wrong[..], &word].concat());
        assert!(code == 65 && refused.contains("is not of the form"), "{wrong:?}: {code}: {refused}");
    }
}

#[test]
fn an_empty_listing_says_how_many_records_are_parked_and_how_they_are_listed() {
    let place = Place::new();
    let list = |more: &[&str]| text(&place.command(&[&["operations", "list"], more].concat()).stdout).to_string();
    assert_eq!((list(&[]).as_str(), list(&["--state", "parked"]).as_str()), ("none in doubt\n", "none parked\n"));
    place.park(None, 5, ParkReason::DeadLetterFailed);
    place.park(None, 6, ParkReason::DeadLetterFailed);
    assert_eq!(list(&[]), "none in doubt; 2 parked: --state parked\n");
    assert_eq!(list(&["--state", "reopened"]), "none reopened; 2 parked: --state parked\n");
    assert_eq!(list(&["--state", "parked", "--after", "payments/0/6#1"]), "no more\n");
    let discard = ["operations", "discard", "--park", "payments/0/5#1", "--reason", "seen", "--by", "ada"];
    assert!(place.command(&discard).status.success());
    assert_eq!(list(&[]), "none in doubt; 1 parked: --state parked\n");
    let json: serde_json::Value = serde_json::from_str(&list(&["--output", "json"])).unwrap();
    assert_eq!((&json["operations"], &json["parked"]), (&serde_json::json!([]), &1.into()));
}

#[test]
fn commands_settle_and_say_what_follows() {
    let place = Place::new();
    let doubtful = place.in_doubt("c-1", 0).to_string();
    let word = ["--reason", "seen", "--by", "ada"];
    let settle = |more: &[&str]| place.command(&[&["operations", "settle", &doubtful], more, &word].concat());
    let refused = settle(&["--outcome", "not-done"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(65), "{said}");
    assert!(said.contains("error: a lost request of attempt 1 can still land") && said.contains("remedy: wait"), "{said}");
    let done = settle(&["--outcome", "applied", "--reference", "booking-9"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout), format!("{doubtful} is applied: settled; repeats are answered from its receipt\n"));
}

#[test]
fn commands_end_with_the_code_that_their_help_says() {
    let place = Place::new();
    let empty = tempfile::tempdir().unwrap();
    let unknown = key("c-404").digest().to_string();
    assert_eq!(place.command(&["operations", "show", &unknown]).status.code(), Some(66));
    assert_eq!(command(empty.path(), &["operations", "list"]).status.code(), Some(69));
    assert_eq!(place.command(&["operations", "show", "abc"]).status.code(), Some(2));
    assert_eq!(place.command(&["operations", "show"]).status.code(), Some(2));
    let missing = Command::new(env!("CARGO_BIN_EXE_receipted")).env_clear().arg("check-config").output().unwrap();
    assert_eq!(missing.status.code(), Some(78));
    let help = Command::new(env!("CARGO_BIN_EXE_receipted")).env_clear().arg("--help").output().unwrap();
    for code in ["65", "66", "69", "70", "74", "75", "78", "130"] {
        assert!(text(&help.stdout).contains(code), "{code}");
    }
    let json = place.command(&["operations", "show", &unknown, "--output", "json"]);
    let said: serde_json::Value = serde_json::from_slice(&json.stderr).unwrap();
    assert_eq!(said["error"], "nothing is known of this operation");
}

#[test]
fn text_from_records_does_not_reach_the_terminal_as_control() {
    let place = Place::new();
    let name = OperationKey::new("acme", "charge.v1", &["c 1".into()], Alphabet::Printable).unwrap();
    let key = name.digest();
    let admission = Admission {
        fingerprint: Fingerprint::Unchecked,
        slot: slot(0),
        at: UnixMillis(0),
        time_limit: Duration::ZERO,
        memory: None,
        key_generation: 0,
        budget_used: 1,
        correlation: Some("\u{1b}[31mred".into()),
    };
    let (name, admission) = (Some(Arc::new(name)), Box::new(admission));
    place.append(vec![Entry::Admit { key, name, seen: Revision(0), attempt: ATTEMPT, admission, within: None }]);
    let shown = place.command(&["operations", "show", &key.to_string()]);
    assert!(!shown.stdout.contains(&0x1b) && text(&shown.stdout).contains("[31mred"), "{}", text(&shown.stdout));
}
