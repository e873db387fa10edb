//! Owns the cases: one process, one point, one fault, and then a process that nothing is done to.

use crate::{
    dice::Dice,
    judge::{self, Account},
    points::{Before, POINTS},
    scene::{Fate, Scene, charge},
    support::{
        block_on,
        cluster::record,
        destination::{Apply, Destination, Server},
        service::operation_of,
    },
};
use std::collections::BTreeMap;

/// What a point has the process do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It kills itself with signal 9.
    Abort,
    /// The thread or task panics.
    Panic,
    /// The step returns its error.
    Error,
    /// It stalls, and goes on.
    Delay,
}

impl Fault {
    pub const ALL: [Self; 4] = [Self::Abort, Self::Panic, Self::Error, Self::Delay];

    pub fn label(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::Panic => "panic",
            Self::Error => "error",
            Self::Delay => "delay",
        }
    }
}

/// One process that comes to one point.
#[derive(Clone, Copy)]
pub struct Case {
    pub fault: Fault,
    point: &'static str,
    hit: u64,
    before: Before,
}

impl Case {
    pub fn ordinary() -> impl Iterator<Item = Self> {
        let hits = POINTS.iter().flat_map(|point| point.hits.iter().map(move |hit| (point, *hit)));
        hits.flat_map(|(point, hit)| Fault::ALL.map(|fault| Self { fault, point: point.name, hit, before: point.before }))
    }

    pub fn further() -> impl Iterator<Item = Self> {
        let hits = POINTS.iter().flat_map(|point| point.more.iter().map(move |hit| (point, *hit)));
        hits.flat_map(|(point, hit)| Fault::ALL.map(|fault| Self { fault, point: point.name, hit, before: point.before }))
    }

    pub fn name(&self) -> String {
        format!("{}#{}/{}", self.point, self.hit, self.fault.label())
    }

    /// Plays it, and gives its account and its story.
    pub fn play(self) -> (Account, Vec<String>) {
        let scene = set();
        if self.before == Before::Kill {
            scene.run_until_dead(Some("attempt/ended 6 abort"));
        }
        let went_on = scene.run_to_its_end(&format!("{} {} {}", self.point, self.hit, self.fault.label()));
        let stood_still = usize::from(went_on.is_none());
        let started_unadmitted = judge::started_unadmitted(&scene.server, &scene.service.store);
        scene.run_whole(None);
        let (account, story) = judge::account(&scene.service, &scene.server, &scene.expected);
        let account = Account { stood_still, started_unadmitted, ..account };
        (account, story)
    }
}

/// One record of each fate, their repeats among them. `RECEIPTED_SEED` shuffles them.
fn set() -> Scene {
    let mut scene = Scene::new("crash");
    let fates = [
        ("hold-plain", Fate::Plain),
        ("ask-found", Fate::AnswerLost),
        ("dedup-plain", Fate::Plain),
        ("hold-lost", Fate::AnswerLost),
        ("hold-later", Fate::Later),
        ("ask-absent", Fate::RequestLost),
        ("hold-never", Fate::Never),
        ("dedup-lost", Fate::AnswerLost),
        ("hold-refused", Fate::Refused),
        ("ask-plain", Fate::Plain),
    ];
    let mut records: Vec<_> = fates.iter().map(|(id, fate)| scene.operation(id, *fate)).collect();
    records.insert(3, scene.undecodable(charge("nobodys-1", 7)));
    records.insert(7, scene.undecodable(record("no JSON").header("tenant", "acme").header("type", "hold")));
    // Repeats: of what is on its way or settled, and one with other parameters.
    records.extend([charge("hold-plain", 7), charge("ask-found", 7), charge("hold-plain", 8)]);
    if let Ok(seed) = std::env::var("RECEIPTED_SEED") {
        let mut dice = Dice::new(seed.parse().expect("RECEIPTED_SEED is a number"), 0);
        // The record with other parameters stays behind the first.
        let last = records.len() - 1;
        (1..last).rev().for_each(|at| records.swap(at, dice.below(at + 1)));
    }
    scene.produce(records);
    scene
}

/// Whoever finds nothing wrong has to be able to: each fault of a world, planted into one without any.
pub fn the_judge_is_not_asleep() {
    let mut scene = set();
    scene.run_whole(None);
    let account = |scene: &Scene, server: &Server| judge::account(&scene.service, server, &scene.expected).0;
    let (service, sound) = (&scene.service, account(&scene, &scene.server));
    assert_eq!((sound.wrong(), judge::started_unadmitted(&scene.server, &service.store)), (0, 0), "{sound}");
    let world = account(&scene, &Server::start());
    assert!(world.false_done >= 5 && world.false_rejected == 1, "a destination that knows of nothing: {world}");
    let book = |id: &str, attempt| {
        let destination = Destination::new(scene.server.address());
        let apply = Apply::new("a key", operation_of("acme", id)).attempt(attempt);
        block_on(async move { destination.apply(apply).await }).expect("an effect");
    };
    book("ask-plain", 1);
    book("hold-lost", 1);
    let doubled = account(&scene, &scene.server);
    assert_eq!((doubled.doubled_silently, doubled.doubled_and_listed), (1, 1), "{doubled}");
    book("ask-plain", 9);
    assert_eq!(judge::started_unadmitted(&scene.server, &service.store), 1);
    scene.expected.operations.push(operation_of("acme", "ask-never-came"));
    scene.expected.undecodable.push(b"never came".into());
    let lost = account(&scene, &scene.server);
    assert_eq!((lost.lost, lost.letters_lost), (1, 1), "{lost}");
    book("ask-never-came", 1);
    assert_eq!(account(&scene, &scene.server).unsurfaced, 1);
    let late = scene.operation("ask-late", Fate::Plain);
    scene.produce(vec![late]);
    assert_eq!(account(&scene, &scene.server).uncommitted, 1);
}

/// Each point has to be reached by a process that nothing is done to, or after a kill; and none is without a case.
pub fn every_point_that_is_reached_has_a_case() {
    let scene = set();
    scene.run_until_dead(Some("attempt/ended 6 abort"));
    let mut said = scene.run_whole(Some("count"));
    said.extend(set().run_whole(Some("count")));
    let mut counts = BTreeMap::<&str, usize>::new();
    said.iter().filter_map(|line| line.strip_prefix("receipted-crash-point ")).for_each(|point| *counts.entry(point).or_default() += 1);
    counts.iter().for_each(|(point, count)| println!("{count:>5}  {point}"));
    // What the engine is told a thousand times, and what a store's name and binding are at its other stages.
    let dull =
        |point: &str| point == "engine/event" || point.starts_with("store/") && (point.ends_with("/store") || point.ends_with("/binding"));
    let known = |point: &str| POINTS.iter().any(|own| own.name == point);
    let stages_of_a_known_kind = |point: &str| POINTS.iter().any(|own| own.name.rsplit('/').next() == point.rsplit('/').next());
    let without: Vec<_> = counts.keys().filter(|point| !known(point) && !dull(point) && !stages_of_a_known_kind(point)).collect();
    assert!(without.is_empty(), "no case in tests/crash_points/points.rs takes {without:?}");
    let never: Vec<_> = POINTS.iter().map(|point| point.name).filter(|point| !counts.contains_key(point)).collect();
    assert!(never.is_empty(), "nothing comes to {never:?}");
}
