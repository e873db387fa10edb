//! Owns the account of a run: the destination's ledger and its counts against what the store, the dead letters and the group's offsets
//! say afterwards. It does not own what is done to the process.

use crate::{
    support::{
        broker,
        destination::{Counts, Server},
        service::{self, Service, operation_of},
    },
    world::options,
};
use receipted::{
    protocol::known::Known,
    store::{ReceiptStore, Which, sled::SledStore},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::AddAssign,
    path::Path,
    sync::Arc,
};

/// What a suite counts. All of it has to be zero, but for what is only surfaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub operations: usize,
    pub effects: usize,
    /// Neither took effect, nor was refused by the destination, nor is listed or dead-lettered.
    pub lost: usize,
    pub doubled_silently: usize,
    pub doubled_and_listed: usize,
    /// The receipt says applied, and the ledger has nothing.
    pub false_done: usize,
    /// The receipt says rejected, and the ledger has an effect, or the destination never refused.
    pub false_rejected: usize,
    /// The effect happened or may have, and nobody is told.
    pub unsurfaced: usize,
    /// The destination was asked by an attempt that the crash left without an admission.
    pub started_unadmitted: usize,
    /// Records below the committed offset's end that are not there: the group did not come to the end.
    pub uncommitted: usize,
    /// A dead letter that was to be sent, and is neither there nor parked for a person.
    pub letters_lost: usize,
    pub letters_doubled: usize,
    /// The process neither went on nor ended.
    pub stood_still: usize,
    /// Listed for a person: surfaced, not wrong.
    pub listed: usize,
}

impl Account {
    /// What may not be.
    pub fn wrong(&self) -> usize {
        self.lost
            + self.doubled_silently
            + self.doubled_and_listed
            + self.false_done
            + self.false_rejected
            + self.unsurfaced
            + self.started_unadmitted
            + self.uncommitted
            + self.letters_lost
            + self.stood_still
    }
}

impl AddAssign for Account {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.effects += other.effects;
        self.lost += other.lost;
        self.doubled_silently += other.doubled_silently;
        self.doubled_and_listed += other.doubled_and_listed;
        self.false_done += other.false_done;
        self.false_rejected += other.false_rejected;
        self.unsurfaced += other.unsurfaced;
        self.started_unadmitted += other.started_unadmitted;
        self.uncommitted += other.uncommitted;
        self.letters_lost += other.letters_lost;
        self.letters_doubled += other.letters_doubled;
        self.stood_still += other.stood_still;
        self.listed += other.listed;
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("operations", self.operations),
            ("effects in the ledger", self.effects),
            ("listed for a person", self.listed),
            ("dead letters sent twice", self.letters_doubled),
            ("lost", self.lost),
            ("silent duplicates", self.doubled_silently),
            ("duplicates that are listed", self.doubled_and_listed),
            ("false \"done\"", self.false_done),
            ("false \"rejected\"", self.false_rejected),
            ("unsurfaced uncertainty", self.unsurfaced),
            ("handlers started without an admission", self.started_unadmitted),
            ("records left uncommitted", self.uncommitted),
            ("dead letters lost", self.letters_lost),
            ("processes that stood still", self.stood_still),
        ];
        rows.iter().try_for_each(|(what, count)| writeln!(f, "{count:>8}  {what}"))
    }
}

/// Operations of which the destination was asked by an attempt that the store of a crashed process has no admission of. Looks at a
/// copy, so that the next start finds what the crash left.
pub fn started_unadmitted(server: &Server, store: &Path) -> usize {
    if !store.join("sled").exists() {
        return 0;
    }
    let copy = store.with_extension("copy");
    copy_tree(store, &copy);
    let counts = server.counts();
    let admitted: BTreeMap<String, u32> = match SledStore::open(&options(&copy)) {
        Ok(store) => operations(&store).into_iter().map(|(name, known)| (name, known.receipt.next_number() - 1)).collect(),
        Err(error) => panic!("the store of a crashed process does not open: {error}"),
    };
    std::fs::remove_dir_all(&copy).expect("removed");
    let asked = counts.iter().filter(|(name, counts)| counts.requests > 0 && !name.starts_with("reply/"));
    asked.filter(|(name, counts)| admitted.get(*name).copied().unwrap_or(0) < counts.last_attempt).count()
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in from.read_dir().into_iter().flatten() {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

fn operations(store: &SledStore) -> BTreeMap<String, Arc<Known>> {
    let all = store.list(Which::All, None, usize::MAX).expect("a listing");
    all.into_iter().filter_map(|(_, known)| Some((name(&known)?, known))).collect()
}

fn name(known: &Known) -> Option<String> {
    known.key.as_ref().map(|key| operation_of(key.tenant(), &key.id()[0]))
}

/// What the end of a run has to explain: its operations, and the records that can only become dead letters.
#[derive(Default)]
pub struct Expected {
    pub operations: Vec<String>,
    pub undecodable: Vec<Vec<u8>>,
}

/// The account of a stopped service whose group came to the end of its topic, and each operation of which something is wrong.
pub fn account(service: &Service, server: &Server, expected: &Expected) -> (Account, Vec<String>) {
    let store = SledStore::open(&options(&service.store)).expect("the store of a stopped service opens");
    let (known, listed) = (operations(&store), service::listed(&store));
    let (ledger, counts) = (server.ledger(), server.counts());
    let effects = ledger.by_operation();
    let cluster = broker::shared();
    let letters = cluster.read_all(&service.dead_letters);
    let parked: BTreeSet<Vec<u8>> =
        store.parked(None, usize::MAX).iter().filter_map(|(park, _)| store.payload(park).ok()??.value).collect();
    let lettered = |id: &str| letters.iter().any(|letter| letter.text().contains(&format!("\"{id}\"")));
    let mut account = Account { operations: expected.operations.len(), listed: listed.len(), ..Account::default() };
    let mut story = Vec::new();
    for operation in &expected.operations {
        let effects = effects.get(operation.as_str()).map_or(0, Vec::len);
        let counts: Counts = counts.get(operation).copied().unwrap_or_default();
        let receipt = known.get(operation).map(|known| &known.receipt);
        let state = receipt.map_or("new", |receipt| receipt.state().label());
        let (is_listed, id) = (listed.contains(operation), operation.rsplit('/').next().unwrap_or_default());
        let explained = effects > 0 || is_listed || (state == "rejected" && counts.rejected > 0) || lettered(id);
        let told = state == "applied" || is_listed;
        let wrong = account.wrong();
        account.effects += effects;
        account.lost += usize::from(!explained);
        account.doubled_silently += usize::from(effects > 1 && !is_listed);
        account.doubled_and_listed += usize::from(effects > 1 && is_listed);
        account.false_done += usize::from(state == "applied" && effects == 0);
        account.false_rejected += usize::from(state == "rejected" && (effects > 0 || counts.rejected == 0));
        account.unsurfaced += usize::from(!told && (effects > 0 || receipt.is_some_and(|receipt| receipt.has_undecided())));
        if account.wrong() > wrong {
            story.push(format!("{operation}: {state}, listed {is_listed}, {counts:?}"));
        }
    }
    for record in &expected.undecodable {
        let sent = letters.iter().filter(|letter| letter.value.as_ref() == Some(record)).count();
        account.letters_lost += usize::from(sent == 0 && !parked.contains(record));
        account.letters_doubled += usize::from(sent > 1);
    }
    for partition in 0..service.partitions {
        let end = cluster.log_range(&service.topic, partition).1;
        account.uncommitted += usize::try_from(end - service.committed_of(partition).unwrap_or(0)).unwrap_or(usize::MAX);
    }
    (account, story)
}
