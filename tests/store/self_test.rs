//! The self-test of a start: a sound store passes it and keeps nothing more, a store that would run an operation twice does not.

use crate::{
    fixture::{Fixture, KINDS, Kind, Stop},
    make::*,
};
use libtest_mimic::{Failed, Trial};
use receipted::{
    protocol::{
        change::{Incident, Totals},
        fingerprint::Fingerprint,
        key::KeyDigest,
        known::{Answer, Entry, Known, Revision},
        note::{AttemptId, DoubtReason, Slot},
        park::{Park, ParkId, ParkReason, Payload, SlotNotes},
    },
    store::{Appended, Batch, Error, Identity, Marks, Partition, ReceiptStore, Reply, Sizes, Which, memory::MemoryStore, self_test},
};
use std::{collections::BTreeMap, sync::Arc};

const PROBE: KeyDigest = KeyDigest(*b"receipted self-test probe key v1");

pub(crate) fn trials() -> Vec<Trial> {
    type Test = fn(Kind);
    let each: [(&str, Test); 3] = [
        (
            "every_start_passes_and_the_store_has_no_more_than_after_the_first",
            every_start_passes_and_the_store_has_no_more_than_after_the_first,
        ),
        ("a_store_at_its_bound_passes", a_store_at_its_bound_passes),
        ("the_probe_is_in_no_page_of_a_listing", the_probe_is_in_no_page_of_a_listing),
    ];
    let of_kind = |kind: Kind| {
        each.map(|(name, test)| {
            Trial::test(format!("{}::self_test::{name}", kind.name()), move || {
                test(kind);
                Ok::<(), Failed>(())
            })
        })
    };
    let mut trials: Vec<Trial> = KINDS.iter().flat_map(|kind| of_kind(*kind)).collect();
    trials.push(Trial::test("self_test::a_store_that_would_double_an_effect_is_refused_by_what_it_did", || {
        a_store_that_would_double_an_effect_is_refused_by_what_it_did();
        Ok(())
    }));
    #[cfg(feature = "sled")]
    trials.extend(on_disk::trials());
    trials
}

fn probe(store: &dyn ReceiptStore) -> Arc<Known> {
    store.load(&[PROBE]).expect("reads").remove(0)
}

fn every_start_passes_and_the_store_has_no_more_than_after_the_first(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    for stop in [Stop::Killed, Stop::Clean, Stop::Killed] {
        for _ in 0..3 {
            self_test(fixture.store()).expect("a sound store");
            assert_eq!(probe(fixture.store()).revision(), Revision(2), "an admission and its fact, for ever");
        }
        let store = fixture.store();
        let counted = [Which::All, Which::InDoubt, Which::Parked, Which::Disputed, Which::Unconfirmed].map(|which| store.count(which));
        assert_eq!((counted, store.sizes().operations), ([0; 5], 0), "nobody's operation is counted");
        assert_eq!(store.totals(), Totals::default());
        fixture.reopen(stop);
    }
}

fn a_store_at_its_bound_passes(kind: Kind) {
    for reopened in [false, true] {
        let mut fixture = Fixture::new(kind);
        fixture.set_parked_bytes_max(payload("record 7").bytes());
        append(fixture.store(), vec![admit("a", 1, Revision(0)), doubt("a", 1, DoubtReason::Timeout)]);
        stands(fixture.store(), park(Some("a"), Some(Revision(2)), 7, 1, ParkReason::Unresolved));
        if reopened {
            fixture.reopen(Stop::Killed);
        }
        assert!(fixture.store().pressure().is_some());
        self_test(fixture.store()).expect("a sound store");
        self_test(fixture.store()).expect("a sound store");
        assert!(matches!(fixture.store().append(Batch(vec![admit("b", 1, Revision(0))])), Err(Error::Full { .. })));
    }
}

fn the_probe_is_in_no_page_of_a_listing(kind: Kind) {
    let mut fixture = Fixture::new(kind);
    self_test(fixture.store()).expect("a sound store");
    for id in 0..40 {
        // Beside the probe, where a store may keep them together.
        let key = KeyDigest(std::array::from_fn(|place| if place == 1 { b'e' - 20 + id + id / 20 } else { PROBE.0[place] }));
        let admission = Box::new(admission(1));
        append(fixture.store(), vec![Entry::Admit { key, name: None, seen: Revision(0), attempt: attempt(1), admission, within: None }]);
    }
    for _ in 0..2 {
        for limit in 1..=41 {
            let (mut keys, mut after) = (Vec::new(), None);
            loop {
                let page = fixture.store().list(Which::All, after, limit).expect("lists");
                assert!(page.len() == limit || keys.len() + page.len() == 40, "a page is full, or the last");
                let Some((last, _)) = page.last() else { break };
                after = Some(*last);
                keys.extend(page.into_iter().map(|(key, _)| key));
            }
            assert_eq!((keys.len(), keys.contains(&PROBE)), (40, false));
        }
        fixture.reopen(Stop::Killed);
    }
}

/// What a broken store does.
#[derive(Debug, Clone, Copy)]
enum Broken {
    /// Every admission stands.
    TakesAll,
    /// No admission stands.
    TakesNone,
    /// What was written is not there when it is read.
    Forgets,
}

struct BrokenStore(MemoryStore, Broken);

fn a_store_that_would_double_an_effect_is_refused_by_what_it_did() {
    for (broken, said) in [
        (Broken::TakesAll, "a second admission of one operation was taken, so that its handler could run twice"),
        (Broken::TakesNone, "the first admission of a key that nothing else uses was refused"),
        (Broken::Forgets, "what is read of the probe is not its first admission alone"),
    ] {
        let text = self_test(&BrokenStore(MemoryStore::new(), broken)).expect_err("a broken store").to_string();
        assert!(text.contains(said) && text.contains("nothing was started") && text.contains("receipted store verify"), "{text}");
    }
    // One that took a second admission once is not trusted again.
    let store = MemoryStore::new();
    self_test(&store).expect("a sound store");
    let admission = Box::new(admission(1));
    let attempt = AttemptId { number: 2, claim: 1 };
    append(&store, vec![Entry::Admit { key: PROBE, name: None, seen: Revision(2), attempt, admission, within: None }]);
    let text = self_test(&store).expect_err("a store that ran ahead").to_string();
    assert!(text.contains("not its first admission alone"), "{text}");
    let closed = MemoryStore::new();
    closed.close().expect("closes");
    assert!(matches!(self_test(&closed), Err(Error::Stopped { .. })), "a store's own error stays its own");
}

impl ReceiptStore for BrokenStore {
    fn submit(&self, batch: Batch, reply: Reply) {
        let known = || Arc::new(Known::default());
        let answer = |entry: &Entry| match (self.1, entry) {
            (Broken::TakesAll | Broken::Forgets, Entry::Fact { .. }) | (Broken::TakesAll, _) => Answer::Done(Some(known())),
            (Broken::TakesNone, _) => Answer::Lost(known()),
            (Broken::Forgets, Entry::Admit { attempt, .. }) if attempt.number == 1 => Answer::Done(Some(known())),
            (Broken::Forgets, _) => Answer::Lost(known()),
        };
        let answers = batch.0.iter().map(answer).collect();
        reply(Ok(Appended { answers, group: batch.0.len(), sync: std::time::Duration::ZERO }));
    }
    fn identity(&self) -> &Identity {
        self.0.identity()
    }
    fn bind(&self, cluster: &str, group: &str) -> Result<(), Error> {
        self.0.bind(cluster, group)
    }
    fn wrote_nonce(&self, nonce: &str) -> Result<bool, Error> {
        self.0.wrote_nonce(nonce)
    }
    fn load(&self, keys: &[KeyDigest]) -> Result<Vec<Arc<Known>>, Error> {
        self.0.load(keys)
    }
    fn applied(&self, key: &KeyDigest) -> Option<Fingerprint> {
        self.0.applied(key)
    }
    fn slots(&self, slots: &[Slot]) -> Vec<SlotNotes> {
        self.0.slots(slots)
    }
    fn list(&self, which: Which, after: Option<KeyDigest>, limit: usize) -> Result<Vec<(KeyDigest, Arc<Known>)>, Error> {
        self.0.list(which, after, limit)
    }
    fn count(&self, which: Which) -> usize {
        self.0.count(which)
    }
    fn parked(&self, after: Option<&ParkId>, limit: usize) -> Vec<(ParkId, Arc<Park>)> {
        self.0.parked(after, limit)
    }
    fn payload(&self, park: &ParkId) -> Result<Option<Payload>, Error> {
        self.0.payload(park)
    }
    fn marks(&self) -> BTreeMap<Partition, Marks> {
        self.0.marks()
    }
    fn adopt(&self, partition: &Partition, offset: i64, reason: &str) -> Result<(), Error> {
        self.0.adopt(partition, offset, reason)
    }
    fn totals(&self) -> Totals {
        self.0.totals()
    }
    fn incidents(&self, from: u64, limit: usize) -> Result<Vec<(u64, Incident)>, Error> {
        self.0.incidents(from, limit)
    }
    fn sizes(&self) -> Sizes {
        self.0.sizes()
    }
    fn close(&self) -> Result<(), Error> {
        self.0.close()
    }
}

#[cfg(feature = "sled")]
mod on_disk {
    use super::*;
    use crate::{durable::options, fixture::in_directories};
    use receipted::protocol::note::Fact;
    use receipted::store::sled::{
        Options, SledStore,
        transfer::{Secrets, export, import},
        verify,
    };
    use std::path::Path;

    pub(super) fn trials() -> Vec<Trial> {
        in_directories([
            ("self_test::a_first_start_below_the_floor_passes", a_first_start_below_the_floor_passes as fn(&Path)),
            ("self_test::an_import_passes_and_is_as_sound_as_before", an_import_passes_and_is_as_sound_as_before),
        ])
    }

    fn a_first_start_below_the_floor_passes(root: &Path) {
        let full = Options { disk_free_floor_bytes: 1 << 20, free_bytes: Some(Arc::new(|| (1 << 20) - 1)), ..options(root) };
        for _ in 0..2 {
            let store = SledStore::open(&full).expect("opens");
            assert!(matches!(store.append(Batch(vec![admit("a", 1, Revision(0))])), Err(Error::Full { .. })));
            self_test(&store).expect("a sound store");
            assert_eq!(probe(&store).revision(), Revision(2));
        }
    }

    fn an_import_passes_and_is_as_sound_as_before(root: &Path) {
        let store = SledStore::open(&options(root)).expect("opens");
        self_test(&store).expect("a sound store");
        append(&store, vec![admit("a", 1, Revision(0)), fact("a", 1, Fact::NotStarted)]);
        store.close().expect("closes");
        let (file, copy) = (root.with_extension("export"), root.with_extension("copy"));
        assert_eq!(export(root, &file, &mut |_| {}).expect("exports").operations, 1, "nobody's operation is counted");
        import(&file, &copy, &Secrets::default(), &mut |_| {}).expect("imports");
        let store = SledStore::open(&options(&copy)).expect("opens");
        self_test(&store).expect("a sound store");
        assert_eq!((probe(&store).revision(), store.sizes().operations), (Revision(2), 1));
        store.close().expect("closes");
        let report = verify(&copy).expect("reads");
        assert!(report.is_sound() && report.operations == 1, "{report}");
    }
}
