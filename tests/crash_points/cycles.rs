//! Owns the kill cycles: a process is killed with signal 9 and started again on the same store, again and again, while records come. A
//! tenth of the kills are inside the open of the store, a tenth while what is in doubt is taken up and asked about.

use crate::{
    dice::Dice,
    judge::{self, Account},
    points::{IN_RECONCILE, IN_THE_OPEN, POINTS},
    scene::{Ended, Fate, Scene, charge},
    support::destination::{Behaviour, any},
};

/// Worlds that a run has, and how often each one's process is killed.
pub const WORLDS: usize = 10;
pub const KILLS: usize = 20;
/// Of the kills of a world, how many are inside the open, and how many inside reconcile.
const INSIDE: usize = 2;
/// New operations before each start.
const FRESH: usize = 12;

/// Where the kills were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kills {
    pub in_the_open: usize,
    pub in_reconcile: usize,
    pub elsewhere: usize,
    /// Of a process that had nothing more to do.
    pub idle: usize,
}

impl Kills {
    pub fn all(&self) -> usize {
        self.in_the_open + self.in_reconcile + self.elsewhere + self.idle
    }
}

impl std::ops::AddAssign for Kills {
    fn add_assign(&mut self, other: Self) {
        self.in_the_open += other.in_the_open;
        self.in_reconcile += other.in_reconcile;
        self.elsewhere += other.elsewhere;
        self.idle += other.idle;
    }
}

/// Plays a world to its end, and gives its account and its story.
pub fn play(mut dice: Dice) -> (Kills, Account, Vec<String>) {
    let mut scene = Scene::new("killed");
    // So that no operation is taken for one that kills its process.
    scene.service.attempts_max = 20;
    let (mut kills, mut started_unadmitted) = (Kills::default(), 0);
    for cycle in 0..KILLS {
        feed(&mut scene, &mut dice, cycle);
        let (killed, place) = match cycle % 5 {
            3 if kills.in_the_open < INSIDE => (at(&scene, &mut dice, IN_THE_OPEN), &mut kills.in_the_open),
            4 if kills.in_reconcile < INSIDE => (at(&scene, &mut dice, IN_RECONCILE), &mut kills.in_reconcile),
            _ => (anywhere(&scene, &mut dice), &mut kills.elsewhere),
        };
        match killed {
            Ended::ByItself => *place += 1,
            Ended::Killed => kills.idle += 1,
        }
        started_unadmitted = started_unadmitted.max(judge::started_unadmitted(&scene.server, &scene.service.store));
    }
    scene.run_whole(None);
    let (account, story) = judge::account(&scene.service, &scene.server, &scene.expected);
    let account = Account { started_unadmitted, ..account };
    assert!(kills.in_the_open == INSIDE && kills.in_reconcile == INSIDE, "{kills:?}");
    (kills, account, story)
}

/// New operations, of which some will be in doubt, and repeats of any.
fn feed(scene: &mut Scene, dice: &mut Dice, cycle: usize) {
    let mut records = Vec::new();
    for number in 0..FRESH {
        let (route, fate) = match number {
            0 => ("ask", Fate::AnswerLost),
            1 => ("hold", Fate::AnswerLost),
            // One that is refused after an attempt in doubt waits for a person where nobody can be asked.
            2 => ("ask", Fate::Refused),
            _ => (
                ["hold", "ask", "dedup"][dice.below(3)],
                match dice.below(20) {
                    0 | 1 => Fate::AnswerLost,
                    2 => Fate::RequestLost,
                    3 => Fate::Later,
                    _ => Fate::Plain,
                },
            ),
        };
        records.push(scene.operation(&format!("{route}-{cycle}-{number}"), fate));
        if dice.is(30) {
            let known = &scene.expected.operations[dice.below(scene.expected.operations.len())];
            records.push(charge(known.rsplit('/').next().unwrap_or_default(), 7));
        }
    }
    if cycle.is_multiple_of(3) {
        records.push(scene.undecodable(charge(&format!("nobodys-{cycle}"), 7)));
    }
    scene.produce(records);
}

/// A kill at one of these points, if the process comes there.
fn at(scene: &Scene, dice: &mut Dice, points: &[&str]) -> Ended {
    scene.run_until_dead(Some(&format!("{} 1 abort", points[dice.below(points.len())])))
}

/// A kill at any point, or before or after the effect of any request; if nothing of it comes, once everything is settled.
fn anywhere(scene: &Scene, dice: &mut Dice) -> Ended {
    let kind = [None, Some(Behaviour::KillBefore), Some(Behaviour::KillAfter)][dice.below(3)].clone();
    let Some(behaviour) = kind else {
        return scene.run_until_dead(Some(&format!("{} {} abort", POINTS[dice.below(POINTS.len())].name, 1 + dice.below(4))));
    };
    let answered = scene.server.times(dice.below(FRESH) as u64, any(), Behaviour::Answer);
    let killing = scene.server.once(any(), behaviour);
    let ended = scene.run_until_dead(None);
    // What is on its way takes effect as a late one, and kills nobody any more.
    [killing, answered].into_iter().for_each(|rule| scene.server.release(rule));
    ended
}
