//! Bad disks: every call that a store makes fails once, one after the other. The process that has it stops, says what to do, and has
//! promised nothing that is not there once the disk works again.

use crate::{
    counts::Counts,
    disk::{self, Disk, Mood},
    judge::{Judge, Said, Snapshot, Verdict},
    log::Event,
    recorder::{BOUND, World},
    work::{REFUSED, Stop},
};
use libtest_mimic::Trial;
use receipted::store::sled::SYNC_FAILED_EXIT_CODE;

const EIO: i32 = 5;
const EACCES: i32 = 13;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
/// A process that has not ended by then hangs.
const HANGS: std::time::Duration = std::time::Duration::from_secs(60);
/// Bytes of the large parked records.
const LARGE: usize = 40_000;
/// Steps of each lane.
const STEPS: usize = 9;
/// A workload has fewer calls of a kind than this.
const CALLS_MAX: u64 = 2_000;
/// What a refusal has to say: one of these.
const REMEDIES: &[&str] = &["then start again", "copy the directory aside before anything else"];

/// Which calls fail, and for how long.
#[derive(Debug, Clone, Copy)]
struct Fault {
    kinds: &'static str,
    errno: i32,
    lasting: Lasting,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Lasting {
    Once,
    FromThenOn,
}

/// On which disk a process starts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Start {
    Empty,
    /// With a store that was killed.
    Used,
}

pub fn trials() -> Vec<Trial> {
    trials![
        a_log_that_cannot_be_read_somewhere_is_refused_and_left_alone,
        each_sync_that_fails_stops_the_store,
        a_disk_that_is_full_at_any_write_loses_nothing,
        each_write_that_fails_stops_the_store,
        a_disk_that_turns_read_only_at_any_call_loses_nothing,
        each_read_that_fails_is_said_and_loses_nothing,
    ]
}

/// A store that was killed, and what it had promised.
fn used() -> (disk::Image, Said) {
    let world = World::new();
    assert!(world.start([0; 3], 6, Stop::Close, LARGE, false).env("RECORDER_LOG", world.log()).start().wait(BOUND).success());
    let said = world.said(Said::default());
    assert!(world.start(said.done, 7, Stop::Kill, LARGE, false).start().wait(BOUND).code().is_none());
    let said = world.said(Said::default());
    let disk = Disk::from(&world.disk());
    (disk.image(Mood::Everything, &mut crate::dice::Dice::new(0, 0), &mut Counts::default()), said)
}

/// Makes the calls of some kinds fail, each in a run of its own, until a run has no such call any more.
fn sweep(fault: Fault, start: Start) -> Counts {
    let base = (start == Start::Used).then(used);
    let (mut judge, mut counts, mut wrong) = (Judge::new(LARGE), Counts::default(), Vec::new());
    for call in 1..CALLS_MAX {
        let world = World::new();
        let before = base.as_ref().map_or_else(Said::default, |(image, said)| {
            disk::write(image, &world.disk());
            said.clone()
        });
        let count = if fault.lasting == Lasting::Once { 1 } else { 1_000_000 };
        let set = format!("{} {} {call} {count}", fault.kinds, fault.errno);
        let process = world.start(before.done, STEPS, Stop::Close, LARGE, false).env("RECORDER_FAULT", set).env("RECORDER_SYNC", "skip");
        let mut child = process.env("RUST_BACKTRACE", "0").start();
        let status = child.wait(HANGS);
        let events = world.events();
        let Some(at) = events.iter().position(|event| matches!(event, Event::Failed { .. })) else {
            assert!(status.success(), "call {call} did not fail, and {status}: {}", child.output());
            counts.many("calls", usize::try_from(call - 1).expect("few"));
            break;
        };
        let Event::Failed { path, .. } = &events[at] else { unreachable!() };
        let end = ending(status.code(), &child.lines());
        counts.add(end.as_ref().map_or("without a word", |end| *end));
        // Steps that were begun after the fault: what came before it may be acknowledged while the fault is met.
        let later: Vec<_> = events[at..].iter().filter_map(|event| if let Event::Mark(mark) = event { Some(mark) } else { None }).collect();
        let begun = |step: &str| later.iter().any(|mark| mark.strip_prefix("begin ") == Some(step));
        let promised_later = later.iter().filter_map(|mark| mark.strip_prefix("ack ")).any(begun);
        let said = world.said(before);
        let judged = judge.judge(&world.store(), &said, Snapshot::AsItWas, usize::try_from(call).expect("few"));
        let fine = match (&end, &judged) {
            (Err(_), _) | (_, Err(_)) => false,
            (Ok(WENT_ON), _) => !(fault.kinds.contains('s') && path.ends_with("/db")),
            (Ok(_), Ok(Verdict::AllThere)) => !promised_later || fault.errno == ENOSPC || fault.kinds == "r",
            (Ok(_), Ok(_)) => false,
        };
        if !fine {
            wrong.push(format!(
                "call {call} ({path}): {status}, {end:?}, promised later: {promised_later}, afterwards {judged:?}\n{}",
                child.output()
            ));
        }
        assert!(wrong.len() < 3, "{fault:?} on {start:?}:\n{}", wrong.join("\n"));
    }
    assert!(wrong.is_empty(), "{fault:?} on {start:?}:\n{}", wrong.join("\n"));
    println!("bad disks: {fault:?} on {start:?}: {counts}");
    assert!(counts.of("calls") > 0 && counts.of("calls") < CALLS_MAX - 1);
    counts
}

const WENT_ON: &str = "went on";

/// How a process with a fault ended; an error where it did not say what to do.
fn ending(code: Option<i32>, lines: &[String]) -> Result<&'static str, String> {
    let (what, start) = match code {
        Some(0) => return Ok(WENT_ON),
        Some(REFUSED) => ("refused", "refused: "),
        Some(SYNC_FAILED_EXIT_CODE) => ("ended with its own code", "receipted: "),
        other => return Err(format!("it ended with {other:?}")),
    };
    let line = lines.iter().find(|line| line.starts_with(start)).ok_or("it said nothing")?;
    if REMEDIES.iter().any(|remedy| line.contains(remedy)) { Ok(what) } else { Err(format!("it did not say what to do: {line}")) }
}

fn each_sync_that_fails_stops_the_store() {
    let fault = Fault { kinds: "s", errno: EIO, lasting: Lasting::Once };
    sweep(fault, Start::Empty);
    sweep(fault, Start::Used);
}

fn a_disk_that_is_full_at_any_write_loses_nothing() {
    let fault = Fault { kinds: "w", errno: ENOSPC, lasting: Lasting::FromThenOn };
    sweep(fault, Start::Empty);
    sweep(fault, Start::Used);
}

fn each_write_that_fails_stops_the_store() {
    sweep(Fault { kinds: "w", errno: EIO, lasting: Lasting::Once }, Start::Used);
}

fn a_disk_that_turns_read_only_at_any_call_loses_nothing() {
    sweep(Fault { kinds: "c", errno: EROFS, lasting: Lasting::FromThenOn }, Start::Empty);
    sweep(Fault { kinds: "c", errno: EACCES, lasting: Lasting::FromThenOn }, Start::Used);
}

fn each_read_that_fails_is_said_and_loses_nothing() {
    sweep(Fault { kinds: "r", errno: EIO, lasting: Lasting::Once }, Start::Used);
}

/// A log of which some place cannot be read. sled alone takes that for the end of its log, and zeroes what follows.
fn a_log_that_cannot_be_read_somewhere_is_refused_and_left_alone() {
    let (image, before) = used();
    let length = image["store/sled/db"].as_ref().expect("a file").iter().rposition(|byte| *byte != 0).expect("it is not empty");
    let (mut judge, places) = (Judge::new(LARGE), 48);
    for turn in 0..places {
        let world = World::new();
        disk::write(&image, &world.disk());
        let set = format!("p {EIO} {} 1", length * turn / places);
        let process = world.start(before.done, STEPS, Stop::Close, LARGE, false).env("RECORDER_FAULT", set).env("RECORDER_SYNC", "skip");
        let mut child = process.start();
        let status = child.wait(HANGS);
        let end = ending(status.code(), &child.lines());
        assert_eq!(end, Ok("refused"), "place {turn}: {}", child.output());
        assert!(
            std::fs::read(world.store().join("sled/db")).expect("a file") == *image["store/sled/db"].as_ref().expect("a file"),
            "place {turn}: it wrote"
        );
        let judged = judge.judge(&world.store(), &before, Snapshot::AsItWas, turn);
        assert!(matches!(judged, Ok(Verdict::AllThere)), "place {turn}: {judged:?}");
    }
    println!("bad disks: {places} places of a log that cannot be read: refused, and all there afterwards");
}
