//! Owns which moments of a record are cut, and what is left at each.

use crate::{
    cuts::Walk,
    dice::Dice,
    disk::{Disk, Mood},
    log::Event,
};

/// The choice of moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Plan {
    /// As the dice say.
    Random,
    /// After every write to the log and every sync, in every mood by turns.
    EveryCut,
    /// Before every sync of the log; what it covers is there up to one of its sectors.
    TornTails,
    /// Wherever a snapshot has its name and the name is not synced; all but that name is there.
    Nameless,
}

/// What is left.
#[derive(Debug, Clone, Copy)]
pub enum Left {
    By(Mood),
    /// Of what was written to the log so many bytes.
    Torn(usize),
}

/// One image: when it is cut, which number it has, its dice, and what is left.
pub type Cut = (usize, usize, Dice, Left);

/// The log that is torn.
pub const LOG: &str = "store/sled/db";
/// Places of one tail, about.
const TAIL_PLACES: usize = 12;

impl Plan {
    /// Those of these numbers.
    pub fn cuts(self, walk: &Walk, seed: u64, from: usize, to: usize) -> Vec<Cut> {
        if self == Self::Random {
            return (from..to).map(|number| random(walk, seed, number)).collect();
        }
        let all = self.all(walk).into_iter().enumerate().skip(from).take(to.saturating_sub(from));
        all.map(|(number, (cut, left))| (cut, number, Dice::new(seed, number as u64), left)).collect()
    }

    /// All there are, of a plan that has an end.
    pub fn all(self, walk: &Walk) -> Vec<(usize, Left)> {
        let (mut disk, mut open, mut cuts) = (Disk::default(), false, Vec::new());
        for (place, event) in walk.events.iter().enumerate() {
            disk.take(place, event);
            let turn = cuts.len() % Mood::ALL.len();
            match (self, event) {
                (Self::EveryCut, Event::Wrote { path, .. } | Event::SyncBegan { path, .. }) if path == LOG => {
                    cuts.push((place + 1, Left::By(Mood::ALL[turn])));
                }
                (Self::EveryCut, Event::SyncEnded { .. }) => cuts.push((place + 1, Left::By(Mood::ALL[turn]))),
                (Self::TornTails, Event::SyncBegan { path, .. }) if path == LOG => {
                    let bytes = disk.unsynced(LOG);
                    let step = (bytes / TAIL_PLACES).next_multiple_of(512).max(512);
                    cuts.extend((0..bytes).step_by(step).map(|bytes| (place + 1, Left::Torn(bytes))));
                }
                (Self::Nameless, event) => {
                    open |= matches!(event, Event::Renamed { to, .. } if to.contains("/snap."));
                    open &= !matches!(event, Event::SyncBegan { path, .. } if path == "store/sled");
                    cuts.extend(open.then_some((place + 1, Left::By(Mood::WithoutRenames))));
                }
                _ => {}
            }
        }
        cuts
    }
}

/// Mostly where much is unsynced: at a sync, after a promise, at a name, after a write.
fn random(walk: &Walk, seed: u64, number: usize) -> Cut {
    let mut dice = Dice::new(seed, number as u64);
    let kind = dice.below(12);
    let wanted = |event: &Event| match kind {
        0 => is_probe(event),
        1..3 => is_name(event) && !is_probe(event),
        3..6 => matches!(event, Event::Mark(mark) if mark.starts_with("ack ") || mark.starts_with("open ")),
        6..9 => matches!(event, Event::SyncBegan { path, .. } if path == LOG),
        _ => matches!(event, Event::Wrote { path, .. } if path == LOG),
    };
    let places: Vec<usize> = walk.events.iter().enumerate().filter(|(_, event)| wanted(event)).map(|(place, _)| place).collect();
    let place = if places.is_empty() { dice.below(walk.events.len()) } else { places[dice.below(places.len())] };
    let mood = Mood::ALL[dice.below(Mood::ALL.len())];
    (place + 1, number, dice, Left::By(mood))
}

fn is_probe(event: &Event) -> bool {
    match event {
        Event::Created { path, .. } | Event::Wrote { path, .. } | Event::Renamed { from: path, .. } | Event::Removed { path } => {
            path.contains("probe")
        }
        _ => false,
    }
}

fn is_name(event: &Event) -> bool {
    matches!(
        event,
        Event::Created { .. } | Event::Renamed { .. } | Event::Removed { .. } | Event::MadeDirectory { .. } | Event::Truncated { .. }
    )
}
