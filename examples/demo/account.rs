//! The account: the destination's ledger against the receipts, operation by operation, and both against what was sent.

use crate::{scenes::REASONS, sent::Sent, service::DEAD_LETTERS, show::grouped, stage::Stage, support::destination::Effect};
use receipted::{
    protocol::{
        change::{Incident, Total},
        known::Known,
        park::ParkReason,
        receipt::State,
    },
    store::{
        ReceiptStore, Which,
        sled::{FileSystem, Options, SledStore},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

const PAGE: usize = 1000;
/// Problems of one kind that are printed by name.
const NAMED: usize = 5;

/// The three books.
struct Books<'a> {
    sent: &'a Sent,
    ledger: BTreeMap<String, Vec<Effect>>,
    receipts: BTreeMap<String, Arc<Known>>,
    incidents: Vec<Incident>,
    counted_duplicates: u64,
    conflicts: usize,
    /// Values in the dead-letter topic, and why.
    dead: Vec<(Vec<u8>, String)>,
    suppressed: [u64; 3],
    handled: u64,
}

/// What does not add up.
#[derive(Default)]
struct Problems(BTreeMap<&'static str, Vec<String>>);

impl Problems {
    fn note(&mut self, kind: &'static str, what: impl Into<String>) {
        self.0.entry(kind).or_default().push(what.into());
    }

    fn count(&self, kind: &'static str) -> usize {
        self.0.get(kind).map_or(0, Vec::len)
    }

    fn compare(&mut self, kind: &'static str, found: u64, expected: u64) {
        if found != expected {
            self.note(kind, format!("{} and not {}", grouped(found), grouped(expected)));
        }
    }
}

const LOST: &str = "lost: sent, without an effect, and not listed";
const SILENT: &str = "silent duplicate effects: in the ledger, and not counted";

/// Compares and prints. True when it adds up.
pub fn settle(stage: &Stage) -> Result<bool, String> {
    let books = read(stage)?;
    let mut problems = Problems::default();
    books.compare(&mut problems);
    books.print(stage, &problems);
    for (kind, all) in &problems.0 {
        stage.show.say(&format!("\n  DOES NOT ADD UP  {kind}"));
        all.iter().take(NAMED).for_each(|what| stage.show.say(&format!("      {what}")));
        if all.len() > NAMED {
            stage.show.say(&format!("      and {} more", all.len() - NAMED));
        }
    }
    Ok(problems.0.is_empty())
}

fn read(stage: &Stage) -> Result<Books<'_>, String> {
    let store =
        SledStore::open(&Options { file_system: FileSystem::Any, ..Options::new(stage.store()) }).map_err(|error| error.to_string())?;
    let mut receipts = BTreeMap::new();
    let mut after = None;
    loop {
        let page = store.list(Which::All, after, PAGE).map_err(|error| error.to_string())?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        for (digest, known) in page {
            let name = known.key.as_ref().map(|key| format!("{}/{}/{}", key.tenant(), key.operation(), key.id().join("/")));
            receipts.insert(name.unwrap_or_else(|| digest.to_string()), known);
        }
    }
    let incidents = store.incidents(0, PAGE).map_err(|error| error.to_string())?.into_iter().map(|(_, incident)| incident).collect();
    let duplicates = store.totals().into_iter().filter(|(total, _)| matches!(total, Total::DuplicateEffects(..)));
    let counted_duplicates = duplicates.map(|(_, count)| count).sum();
    let conflicts = store.parked(None, PAGE).iter().filter(|(_, park)| park.reason == ParkReason::Conflict).count();
    store.close().map_err(|error| error.to_string())?;
    let mut ledger: BTreeMap<String, Vec<Effect>> = BTreeMap::new();
    for effect in stage.ledger.ledger().0 {
        ledger.entry(effect.operation.clone()).or_default().push(effect);
    }
    let dead = stage.cluster.read_all(DEAD_LETTERS);
    let reason = |letter: &crate::support::cluster::Stored| letter.header("x-receipted-error").unwrap_or_default();
    Ok(Books {
        sent: &stage.sent,
        ledger,
        receipts,
        incidents,
        counted_duplicates,
        conflicts,
        dead: dead.iter().map(|letter| (letter.value.clone().unwrap_or_default(), reason(letter))).collect(),
        suppressed: REASONS.map(|reason| stage.counted("receipted_suppressed_total", &[("reason", reason)])),
        handled: stage.counted("receipted_operations_total", &[]),
    })
}

impl Books<'_> {
    fn effects(&self, operation: &str) -> &[Effect] {
        self.ledger.get(operation).map_or(&[], Vec::as_slice)
    }

    /// Operations that nobody knows about, with the doubt's reason.
    fn unresolved(&self) -> BTreeMap<&str, &'static str> {
        let reason = |known: &Known| known.receipt.unresolved().into_values().next().map(receipted::protocol::note::DoubtReason::label);
        self.receipts.iter().filter_map(|(name, known)| Some((name.as_str(), reason(known)?))).collect()
    }

    fn compare(&self, problems: &mut Problems) {
        let all: BTreeSet<&String> = self.sent.operations.iter().chain(self.ledger.keys()).chain(self.receipts.keys()).collect();
        let (unresolved, nothing) = (self.unresolved(), Known::default());
        for name in all {
            let (effects, known) = (self.effects(name), self.receipts.get(name).map_or(&nothing, |known| known));
            let listed = unresolved.contains_key(name.as_str());
            if !self.sent.operations.contains(name) {
                problems.note("never sent", format!("{name}: {} effects", effects.len()));
            }
            if effects.is_empty() && !listed {
                problems.note(LOST, name);
            }
            let counted = known.receipt.effects();
            let (extra, counted) = (effects.len().saturating_sub(1), counted.extra_certain() + counted.extra_suspected());
            for _ in counted..extra {
                problems.note(SILENT, format!("{name}: {}", references(effects)));
            }
            if counted > extra {
                problems.note("duplicate effects counted that the ledger does not have", name);
            }
            match known.receipt.state() {
                State::Applied(applied) => {
                    let named = applied.reference.as_ref().map_or("", |reference| reference.as_str());
                    if !effects.iter().any(|effect| effect.reference == named) {
                        problems
                            .note("receipts that say applied, and the ledger does not have that reference", format!("{name}: {named:?}"));
                    }
                }
                _ if listed => {}
                state => problems.note("operations that are neither applied nor listed", format!("{name}: {}", state.label())),
            }
        }
        self.compare_lists(problems, &unresolved);
        self.compare_incidents(problems);
    }

    fn compare_lists(&self, problems: &mut Problems, unresolved: &BTreeMap<&str, &'static str>) {
        let expected: BTreeMap<&str, &'static str> = self.sent.unknowable.iter().map(|(name, reason)| (name.as_str(), *reason)).collect();
        if *unresolved != expected {
            problems.note("unresolved operations", format!("{unresolved:?} and not {expected:?}"));
        }
        let sent = self.sent;
        problems.compare("records by what became of them", self.handled, sent.records + sent.read_again);
        problems.compare("repeats suppressed", self.suppressed.iter().sum(), sent.repeats());
        problems.compare("conflicts", self.conflicts as u64, sent.changed.values().sum());
        let (mut dead, mut undecodable): (Vec<_>, _) =
            (self.dead.iter().map(|(value, _)| value.clone()).collect(), sent.undecodable.clone());
        dead.sort_unstable();
        undecodable.sort_unstable();
        if dead != undecodable {
            problems.note("dead letters", format!("{} of them, with other bytes than the {} sent", dead.len(), undecodable.len()));
        }
    }

    fn compare_incidents(&self, problems: &mut Problems) {
        let doubled: BTreeSet<String> = self.incidents.iter().map(|incident| self.name_of(incident)).collect();
        if doubled != self.sent.doubled {
            problems.note("incidents", format!("of {doubled:?} and not of {:?}", self.sent.doubled));
        }
        problems.compare("duplicate effects counted, and their incidents", self.counted_duplicates, self.incidents.len() as u64);
        for incident in &self.incidents {
            let name = self.name_of(incident);
            let noted: BTreeSet<&str> = incident.references.iter().map(|reference| reference.as_str()).collect();
            if noted != self.effects(&name).iter().map(|effect| effect.reference.as_str()).collect() {
                problems.note("an incident's references", format!("{name}: {noted:?} and not {}", references(self.effects(&name))));
            }
        }
    }

    fn name_of(&self, incident: &Incident) -> String {
        let found = self.receipts.iter().find(|(_, known)| known.key.as_ref().is_some_and(|key| key.digest() == incident.key));
        found.map_or_else(|| incident.key.to_string(), |(name, _)| name.clone())
    }

    fn print(&self, stage: &Stage, problems: &Problems) {
        let line = |label: &str, number: u64, text: &str| stage.show.say(format!("  {label:30}{:>7}   {text}", grouped(number)).trim_end());
        let (sent, unresolved) = (self.sent, self.unresolved());
        let applied = self.receipts.values().filter(|known| matches!(known.receipt.state(), State::Applied(_))).count() as u64;
        let effects = self.ledger.values().map(Vec::len).sum::<usize>() as u64;
        let in_doubt = unresolved.keys().filter(|name| !self.effects(name).is_empty()).count();
        stage.show.say("\nThe account: the destination's ledger against the receipts, operation by operation\n");
        line(
            "records",
            sent.records + sent.read_again,
            &format!("{} sent, {} read again after the rewind", grouped(sent.records), grouped(sent.read_again)),
        );
        line(
            "operations",
            sent.operations.len() as u64,
            &format!("of {} tenants; receipts: {} applied, {} unresolved", crate::sent::TENANTS.len(), grouped(applied), unresolved.len()),
        );
        let duplicates = self.counted_duplicates;
        line(
            "effects in the ledger",
            effects,
            &format!("{} of applied operations, {in_doubt} of unresolved ones, {duplicates} duplicate", grouped(applied)),
        );
        let by: Vec<String> = REASONS.iter().zip(self.suppressed).map(|(reason, count)| format!("{} {reason}", grouped(count))).collect();
        line("repeats suppressed", self.suppressed.iter().sum(), &by.join(", "));
        line("conflicts", self.conflicts as u64, "same key, another amount: parked for a person");
        line("dead letters", self.dead.len() as u64, "original bytes in the dead-letter topic:");
        for (value, reason) in &self.dead {
            stage.show.say(&format!("      {:42} {reason}", String::from_utf8_lossy(value)));
        }
        line("unresolved", unresolved.len() as u64, "may have had their effect; listed, and not run again:");
        for (name, reason) in &unresolved {
            let truth = if self.effects(name).is_empty() { "did not happen" } else { "happened" };
            stage.show.say(&format!("      {name:26} {reason:8} (only the ledger knows: it {truth})"));
        }
        line("duplicate effects, counted", duplicates, "made by the destination that promised to deduplicate:");
        for incident in &self.incidents {
            let references: Vec<&str> = incident.references.iter().map(|reference| reference.as_str()).collect();
            let (name, detector) = (self.name_of(incident), &incident.detector);
            stage.show.say(&format!(
                "      incident: {name}, references {}, found by {detector}, {}",
                references.join(" and "),
                incident.certainty
            ));
        }
        line("lost", problems.count(LOST) as u64, "");
        line("silent duplicate effects", problems.count(SILENT) as u64, "");
    }
}

fn references(effects: &[Effect]) -> String {
    effects.iter().map(|effect| format!("{} (attempt {})", effect.reference, effect.attempt)).collect::<Vec<_>>().join(", ")
}
