//! Owns the cuts of a record: which moments, what is left at each, and the processes that make the images and judge them. It does not
//! own what an image may be, nor what has to be in it.

use crate::{
    counts::Counts,
    dice::Dice,
    disk::{self, Disk, Image, Mood, SNAPSHOT_LOST},
    judge::{Judge, Said, Snapshot, Verdict, WHOLE_ONE_IN},
    log::{self, Event, Telling},
    plan::{LOG, Left, Plan},
    recorder::{BOUND, under},
};
use std::path::PathBuf;

/// Processes that share the images.
const PROCESSES: usize = 2;
/// Failures after which a process does not go on.
const FAILURES_MAX: usize = 3;

/// A record, and how many images to make of it.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Examination {
    pub log: PathBuf,
    /// What the disk had before, and what had been promised by then.
    pub base: Option<PathBuf>,
    pub said: Said,
    pub seed: u64,
    pub from: usize,
    pub to: usize,
    pub plan: Plan,
    pub telling: String,
    pub large: usize,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Findings {
    pub counts: Counts,
    pub failures: Vec<String>,
}

/// A record, step by step.
pub struct Walk {
    pub events: Vec<Event>,
    disk: Disk,
    said: Said,
    at: usize,
}

impl Examination {
    fn walk(&self) -> Walk {
        let disk = self.base.as_deref().map_or_else(Disk::default, Disk::from);
        let telling = Telling::from_name(&self.telling);
        Walk { events: telling.tell(log::read(&self.log)), disk, said: self.said.clone(), at: 0 }
    }

    /// Makes and judges the images, in processes of their own: what a store of a broken image does ends no test.
    pub fn run(&self) -> Findings {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let share = (self.to - self.from).div_ceil(PROCESSES);
        let mut children: Vec<_> = (0..PROCESSES)
            .map(|process| {
                let from = (self.from + process * share).min(self.to);
                let part = Self { from, to: (from + share).min(self.to), ..self.clone() };
                let images = folder.path().join(process.to_string());
                std::fs::create_dir(&images).expect("made");
                let orders = serde_json::to_string(&(part, &images)).expect("orders");
                under("judge", &images).env("RECORDER_SYNC", "skip").env("POWER_ORDERS", orders).start()
            })
            .collect();
        let mut findings = Findings::default();
        for child in &mut children {
            let status = child.wait(BOUND);
            let lines = child.lines();
            let said = |start: &str| lines.iter().filter_map(|line| line.strip_prefix(start).map(str::to_owned)).collect::<Vec<_>>();
            findings.failures.extend(said("failed "));
            match said("counts ").first() {
                Some(counts) => findings.counts.join(&serde_json::from_str(counts).expect("counts")),
                None => {
                    let last = said("image ").last().cloned();
                    findings.failures.push(format!("image {last:?} ended the process with {status}: {}", child.output()));
                }
            }
        }
        findings
    }

    /// How many images there are, of a plan that has an end.
    pub fn all(&self) -> usize {
        self.plan.all(&self.walk()).len()
    }

    /// One image, and what had been promised: for a process that goes on from there.
    pub fn image(&self, number: usize) -> (Image, Said, Snapshot) {
        let mut walk = self.walk();
        let (cut, _, mut dice, left) = self.plan.cuts(&walk, self.seed, number, number + 1).remove(0);
        walk.go_to(cut);
        let (image, snapshot) = walk.image(left, &mut dice, &mut Counts::default());
        (image, walk.said, snapshot)
    }
}

impl Walk {
    fn image(&self, left: Left, dice: &mut Dice, counts: &mut Counts) -> (Image, Snapshot) {
        let mood = match left {
            Left::By(mood) => mood,
            Left::Torn(bytes) => return (self.disk.torn(LOG, bytes), Snapshot::AsItWas),
        };
        let before = counts.of(SNAPSHOT_LOST);
        let image = self.disk.image(mood, dice, counts);
        let lost = counts.of(SNAPSHOT_LOST) > before && mood != Mood::Nothing;
        (image, if lost { Snapshot::NameLost } else { Snapshot::AsItWas })
    }

    fn go_to(&mut self, cut: usize) {
        for place in self.at..cut {
            self.disk.take(place, &self.events[place]);
            self.said.take(&self.events[place]);
        }
        self.at = cut;
    }
}

/// The process that makes images and judges them.
pub fn role() {
    let orders = std::env::var("POWER_ORDERS").expect("orders");
    let (part, folder): (Examination, PathBuf) = serde_json::from_str(&orders).expect("orders");
    let mut walk = part.walk();
    let mut cuts = part.plan.cuts(&walk, part.seed, part.from, part.to);
    cuts.sort_by_key(|(cut, number, ..)| (*cut, *number));
    let (mut judge, mut counts, mut failures) = (Judge::new(part.large), Counts::default(), 0);
    for (cut, number, mut dice, left) in cuts {
        println!("image {number}");
        walk.go_to(cut);
        let (image, snapshot) = walk.image(left, &mut dice, &mut counts);
        disk::write(&image, &folder.join("image"));
        let root = folder.join("image/store");
        let judged = judge.judge(&root, &walk.said, snapshot, number);
        std::fs::remove_dir_all(folder.join("image")).expect("removed");
        counts.add("images");
        counts.many("with a promise", usize::from(walk.said.promised()));
        counts.many("with a step on its way", usize::from(walk.said.running.contains(&true)));
        counts.many("verified", usize::from(number.is_multiple_of(WHOLE_ONE_IN)));
        if let Err(failure) = judged.and_then(|verdict| count(verdict, &mut counts)) {
            println!("failed image {number} of seed {}, cut at {cut}, {left:?}: {failure}", part.seed);
            failures += 1;
        }
        if failures == FAILURES_MAX {
            break;
        }
    }
    println!("counts {}", serde_json::to_string(&counts).expect("counts"));
}

fn count(verdict: Verdict, counts: &mut Counts) -> Result<(), String> {
    match verdict {
        Verdict::AllThere => counts.add("opened"),
        Verdict::GapAfterLostSnapshot => counts.add("refused for a snapshot without any name"),
        Verdict::Refused(why) => {
            counts.add("refused with nothing promised");
            if !why.contains("copy the directory aside before anything else") {
                return Err(format!("it is refused, and not said what to do: {why}"));
            }
        }
    }
    Ok(())
}
