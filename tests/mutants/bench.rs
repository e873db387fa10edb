//! Owns the copy of the tree in which the product is broken, what was found there, and the processes that find it.

use super::{Suite, list::Mutant, support::process};
use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// A suite takes no longer; one that goes on for ever has noticed too.
const BOUND: Duration = Duration::from_secs(600);
/// A first build, of everything that the suites are built of.
const BUILD_BOUND: Duration = Duration::from_secs(3_600);
/// What is no source.
const LEFT_OUT: [&str; 3] = ["target", ".git", ".github"];

pub struct Bench {
    root: PathBuf,
    tree: PathBuf,
    /// The digest of all of `src/`.
    source: String,
    /// What was found so far, by what it was found about.
    found: BTreeMap<String, String>,
}

enum Ended {
    Well,
    Badly,
    Never,
}

impl Bench {
    pub fn new() -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory").join("mutants");
        let (tree, own) = (root.join("tree"), Path::new(env!("CARGO_MANIFEST_DIR")));
        copy(own, &tree);
        let found = fs::read_to_string(root.join("found")).unwrap_or_default();
        let found = found.lines().filter_map(|line| line.split_once(' ')).map(|(key, found)| (key.into(), found.into())).collect();
        Self { source: digest([tree.join("src"), tree.join("Cargo.lock")]), root, tree, found }
    }

    pub fn play(&mut self, mut chosen: Vec<&Mutant>) {
        chosen.sort_by_key(|mutant| mutant.noticed_by);
        let (all, began) = (chosen.len(), Instant::now());
        let (mut survived, mut baseline) = (Vec::new(), None);
        for (number, mutant) in chosen.into_iter().enumerate() {
            let key = self.key(mutant);
            let before = self.found.get(&key).cloned();
            if before.is_none() && baseline != Some(mutant.noticed_by) {
                self.sound(mutant.noticed_by);
                baseline = Some(mutant.noticed_by);
            }
            let known = before.is_some();
            let found = before.unwrap_or_else(|| self.play_one(mutant));
            eprintln!(
                "{:>4} of {all}, {:>5} s: {found}{}: {} ({}, {})",
                number + 1,
                began.elapsed().as_secs(),
                if known { " before" } else { "" },
                mutant.breaks,
                mutant.file,
                mutant.noticed_by.name()
            );
            if !known && found.starts_with("noticed") {
                self.note(&key, &found);
            }
            if !found.starts_with("noticed") {
                survived.push(format!("{}: {} ({:?} in place of {:?})", mutant.file, mutant.breaks, mutant.new, mutant.old));
            }
        }
        eprintln!("{} of {all} changes are noticed", all - survived.len());
        assert!(survived.is_empty(), "nobody notices, or the change does not build:\n{}", survived.join("\n"));
    }

    /// The suite itself holds, else it would notice anything.
    fn sound(&self, suite: Suite) {
        assert!(matches!(self.cargo(suite, Stage::Build), Ended::Well), "{} does not build; see {}", suite.name(), self.output());
        assert!(matches!(self.cargo(suite, Stage::Run), Ended::Well), "{} fails by itself; see {}", suite.name(), self.output());
    }

    fn play_one(&self, mutant: &Mutant) -> String {
        let file = self.tree.join("src").join(mutant.file);
        let sound = fs::read_to_string(&file).expect("a source");
        fs::write(&file, sound.replacen(mutant.old, mutant.new, 1)).expect("written");
        let builds = matches!(self.cargo(mutant.noticed_by, Stage::Build), Ended::Well);
        let ended = if builds { self.cargo(mutant.noticed_by, Stage::Run) } else { Ended::Well };
        fs::write(&file, sound).expect("written");
        match ended {
            _ if !builds => "does not build".into(),
            Ended::Well => "survived".into(),
            Ended::Badly => "noticed".into(),
            Ended::Never => "noticed (never ends)".into(),
        }
    }

    fn cargo(&self, suite: Suite, stage: Stage) -> Ended {
        let output = fs::File::create(self.root.join("output")).expect("a file");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["test", "--offline", "--quiet", "--test", suite.name()]).args(suite.features()).current_dir(&self.tree);
        match stage {
            Stage::Build => drop(cargo.arg("--no-run")),
            Stage::Run => drop(cargo.arg("--").args(suite.arguments())),
        }
        cargo.env("CARGO_TARGET_DIR", self.root.join("build")).env("RUST_BACKTRACE", "0");
        cargo.env("RECEIPTED_SIMULATIONS", "400").env("RECEIPTED_POWER_IMAGES", "60").env_remove("RECEIPTED_MUTANTS");
        cargo.stdin(Stdio::null()).stdout(output.try_clone().expect("a file")).stderr(output).process_group(0);
        let mut child = cargo.spawn().expect("cargo runs");
        let end = Instant::now() + if stage == Stage::Build { BUILD_BOUND } else { BOUND };
        loop {
            if let Some(status) = child.try_wait().expect("a child") {
                return if status.success() { Ended::Well } else { Ended::Badly };
            }
            if Instant::now() > end {
                let group = rustix::process::Pid::from_child(&child);
                rustix::process::kill_process_group(group, rustix::process::Signal::KILL).expect("its group is ours");
                child.wait().expect("it is dead");
                return Ended::Never;
            }
            process::pause();
        }
    }

    fn output(&self) -> String {
        self.root.join("output").display().to_string()
    }

    /// What a finding is about: the change, the source around it, and the suite.
    fn key(&self, mutant: &Mutant) -> String {
        let tests = self.tree.join("tests");
        let suite = digest([tests.join(mutant.noticed_by.name()), tests.join(mutant.noticed_by.name()).with_extension("rs")]);
        let about = [&self.source, mutant.file, mutant.old, mutant.new, &suite].join("\0");
        blake3::hash(about.as_bytes()).to_hex()[..32].to_string()
    }

    fn note(&mut self, key: &str, found: &str) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.root.join("found")).expect("a file");
        writeln!(file, "{key} {found}").expect("written");
        self.found.insert(key.into(), found.into());
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Build,
    Run,
}

/// Makes `to` the same as `from`, and touches nothing that is the same already.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    let names = |place: &Path| fs::read_dir(place).expect("reads").map(|entry| entry.expect("reads").file_name()).collect::<Vec<_>>();
    let left_out = |name: &std::ffi::OsString| LEFT_OUT.iter().any(|left_out| name == left_out);
    let there: Vec<_> = names(from).into_iter().filter(|name| !left_out(name)).collect();
    for gone in names(to).into_iter().filter(|name| !there.contains(name)).map(|name| to.join(name)) {
        if gone.is_dir() { fs::remove_dir_all(gone) } else { fs::remove_file(gone) }.expect("removed");
    }
    for name in there {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy(&from, &to);
        } else if fs::read(&to).ok() != Some(fs::read(&from).expect("reads")) {
            // Its time is now, so that what was built of another content is built again.
            fs::write(&to, fs::read(&from).expect("reads")).expect("written");
            fs::set_permissions(&to, fs::metadata(&from).expect("reads").permissions()).expect("set");
        }
    }
}

/// One digest of files and directories, their own names and contents.
fn digest(places: impl IntoIterator<Item = PathBuf>) -> String {
    fn add(place: &Path, hasher: &mut blake3::Hasher) {
        if place.is_dir() {
            let mut inside: Vec<_> = fs::read_dir(place).expect("reads").map(|entry| entry.expect("reads").path()).collect();
            inside.sort();
            inside.iter().for_each(|place| add(place, hasher));
        } else if let Ok(content) = fs::read(place) {
            let name = place.file_name().unwrap_or_default().to_string_lossy();
            hasher.update(name.as_bytes()).update(&(content.len() as u64).to_be_bytes()).update(&content);
        }
    }
    let mut hasher = blake3::Hasher::new();
    places.into_iter().for_each(|place| add(&place, &mut hasher));
    hasher.finalize().to_hex().to_string()
}
