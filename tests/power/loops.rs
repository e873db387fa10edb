//! Owns power cuts on a file system of the kernel: a store on ext4 on a loop device, whose backing file is copied at single moments while
//! a process writes; each copy is mounted and judged. What the kernel had not given to the device by then is gone.
//!
//! A copy is of one moment because the backing file is on a file system of its own, which is frozen meanwhile. All mounts are made in a
//! name space of this suite's own, and go with it. A device that loses what it was not told to flush is for the recorder (`outage`).

use crate::{
    judge::{Judge, STEPS, Said, Snapshot, Verdict},
    log::Event,
    process::{self, wait_for, wait_until},
    recorder::{self, BOUND},
    work::{LANES, Orders},
};
use libtest_mimic::Trial;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Moments at which a copy is made while the process writes; one more follows its death.
const MOMENTS: usize = 24;
/// Bytes of the large parked records.
const LARGE: usize = 1 << 20;
const FOLDER: &str = "POWER_FOLDER";
/// Whether syncs do nothing: `skip` or `do`.
const SYNCS: &str = "POWER_SYNCS";

pub fn trials() -> Vec<Trial> {
    let trials = trials![on_a_loop_device_what_is_acknowledged_is_there_after_a_cut, on_a_loop_device_a_store_without_syncs_is_found];
    let Err(why) = available() else { return trials };
    println!("power cuts on a loop device: NOT played here: {why}");
    let kind = "no loop device: not played";
    let names: Vec<String> = trials.iter().map(|trial| trial.name().to_owned()).collect();
    names.into_iter().map(|name| Trial::test(name, || Ok(())).with_kind(kind)).collect()
}

/// Why there is no such mount to be had.
fn available() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("mounting takes root".into());
    }
    run("unshare", &["--version"])?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut probe = process::role("probe").under("unshare", &NAME_SPACE).env(FOLDER, folder.path()).start();
    let status = probe.wait(BOUND);
    if status.success() { Ok(()) } else { Err(format!("{status}: {}", probe.lines().join("; "))) }
}

const NAME_SPACE: [&str; 3] = ["--mount", "--propagation", "private"];

/// Everything that a cut does, once and small.
pub fn probe() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("a folder"));
    let all = || {
        make(&folder.join("backing"), 8, &folder.join("outer"))?;
        make(&folder.join("outer/device"), 4, &folder.join("inner"))?;
        copy(&folder, &folder.join("copy"))?;
        run("e2fsck", &["-V"])
    };
    if let Err(why) = all() {
        eprintln!("{why}");
        std::process::exit(1);
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{program} {}: {}{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}

/// A new file system of so many MiB in a file, mounted.
fn make(file: &Path, mebibytes: u64, at: &Path) -> Result<(), String> {
    let made = std::fs::File::create(file).and_then(|file| file.set_len(mebibytes << 20));
    made.map_err(|error| format!("{}: {error}", file.display()))?;
    run("mkfs.ext4", &["-q", "-F", text(file)])?;
    mount(file, at)
}

fn mount(file: &Path, at: &Path) -> Result<(), String> {
    std::fs::create_dir_all(at).map_err(|error| format!("{}: {error}", at.display()))?;
    run("mount", &["-t", "ext4", "-o", "loop,noatime", text(file), text(at)])
}

/// Copies the device, and beside it what had been said by that moment. A process of its own, so that nothing stays frozen.
fn copy(folder: &Path, to: &Path) -> Result<(), String> {
    const COPY: &str = r#"trap "" HUP INT TERM
        fsfreeze -f "$1/outer" || exit 1
        cp "$1/marks" "$2.marks" 2>/dev/null
        cp --sparse=always "$1/outer/device" "$2"; copied=$?
        fsfreeze -u "$1/outer" && exit $copied"#;
    run("sh", &["-c", COPY, "copy", text(folder), text(to)])
}

/// What the process had said by the moment of a copy.
fn said(marks: &Path) -> Said {
    let mut said = Said::default();
    let text = std::fs::read_to_string(marks).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().for_each(|line| said.take(&Event::Mark(line.into())));
    said
}

/// The process that mounts: it lets another one write, cuts, and judges.
pub fn role() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("a folder"));
    make(&folder.join("backing"), 256, &folder.join("outer")).expect("the outer file system");
    make(&folder.join("outer/device"), 128, &folder.join("disk")).expect("the file system of the store");
    let (disk, marks) = (folder.join("disk"), folder.join("marks"));
    let orders =
        Orders { root: disk.join("store"), marks: marks.clone(), from: [0; LANES], to: STEPS, kill: false, large: LARGE, probe: true };
    let orders = serde_json::to_string(&orders).expect("orders");
    let skips = std::env::var(SYNCS).is_ok_and(|syncs| syncs == "skip");
    let start = if skips { recorder::under("work", &disk).env("RECORDER_SYNC", "skip") } else { process::role("work") };
    let mut writer = start.env("POWER_ORDERS", orders).start();
    let mut copies = Vec::new();
    for moment in 0..MOMENTS {
        let wanted = STEPS * LANES * moment / MOMENTS;
        wait_until(&format!("{wanted} acknowledgements"), BOUND, || {
            let ended = writer.ended().is_some_and(|status| !status.success());
            assert!(!ended, "{}", writer.output());
            said(&marks).done.iter().sum::<usize>() >= wanted
        });
        copies.push(folder.join(format!("copy-{moment}")));
        copy(&folder, &copies[moment]).expect("a copy");
    }
    writer.kill();
    copies.push(folder.join("copy-dead"));
    copy(&folder, &copies[MOMENTS]).expect("a copy");
    let mut judge = Judge::new(LARGE);
    for (turn, copy) in copies.iter().enumerate() {
        let said = said(&copy.with_extension("marks"));
        let on_its_way = said.running.iter().filter(|running| **running).count();
        let verdict = examine(&mut judge, copy, &folder.join("mounted"), &said, turn);
        println!("cut {turn}: {} acknowledged, {on_its_way} on their way: {verdict}", said.done.iter().sum::<usize>());
        std::fs::remove_file(copy).expect("removed");
    }
}

/// What is wrong with a copy, or that all is there.
fn examine(judge: &mut Judge, copy: &Path, at: &Path, said: &Said, turn: usize) -> String {
    if let Err(why) = mount(copy, at) {
        return format!("it does not mount: {why}");
    }
    let judged = match at.join("store").exists() {
        false if said.promised() => Err("there is no store".into()),
        _ => judge.judge(&at.join("store"), said, Snapshot::AsItWas, turn),
    };
    wait_for("the store is closed", BOUND, || run("umount", &[text(at)]).ok());
    match (judged, run("e2fsck", &["-f", "-n", text(copy)])) {
        (Err(why), _) => format!("LOST: {why}"),
        (Ok(_), Err(why)) => format!("the file system is damaged: {why}"),
        (Ok(Verdict::AllThere), Ok(())) => "all there".into(),
        (Ok(other), Ok(())) => format!("{other:?}"),
    }
}

/// Plays it, and gives what was said of each copy.
fn play(syncs: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let start = process::role("cuts").under("unshare", &NAME_SPACE);
    let mut child = start.env(FOLDER, folder.path()).env(SYNCS, syncs).start();
    child.wait_success(BOUND);
    let verdicts: Vec<String> = child.lines().into_iter().filter(|line| line.starts_with("cut ")).collect();
    assert_eq!(verdicts.len(), MOMENTS + 1, "{}", child.output());
    verdicts
}

fn on_a_loop_device_what_is_acknowledged_is_there_after_a_cut() {
    let verdicts = play("do");
    let wrong: Vec<_> = verdicts.iter().filter(|verdict| !verdict.ends_with(": all there") && !verdict.contains("Refused")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let on_their_way = verdicts.iter().filter(|verdict| !verdict.contains(" 0 on their way")).count();
    println!("power cuts on a loop device: {} copies, {on_their_way} with steps on their way, lost 0", verdicts.len());
    assert!(on_their_way > 0, "{verdicts:#?}");
}

fn on_a_loop_device_a_store_without_syncs_is_found() {
    let verdicts = play("skip");
    let found = verdicts.iter().filter(|verdict| verdict.contains("LOST: ")).count();
    println!("power cuts on a loop device, without syncs: found {found} in {} copies", verdicts.len());
    assert!(found > 0, "{verdicts:#?}");
}
