//! Owns making the keys of an export anew: its operations get the digests of another secret, or of none. Needs every operation's whole
//! key, and says so where one is missing. It reads no file and writes none.

use super::{
    super::{
        super::self_test::PROBE,
        blocks::{self, Packer},
        entries::{Counts, Entries, StoredPark, admitted, put_admission},
        format::{self, Damage, Key, Meta, NoteKey},
        names::Names,
    },
    Error, Secrets,
    file::{Entry, Source},
};
use crate::{
    protocol::{
        change::Incident,
        key::KeyDigest,
        secret::{Derivation, SecretFingerprint},
    },
    store::digest_map::DigestMap,
};

/// What is known of an operation whose whole key was not found.
#[derive(Debug, Default)]
struct Nameless {
    open: u64,
    /// Whether more than parked records is noted under it.
    is_more: bool,
}

/// What reading a whole export came to.
#[derive(Default)]
struct Reading {
    from: Names,
    keys: DigestMap<KeyDigest>,
    nameless: DigestMap<Nameless>,
}

/// The way from old digests to new ones.
pub(super) struct Rekey {
    from: Names,
    to: Names,
    keys: DigestMap<KeyDigest>,
    packer: Packer,
    counts: Counts,
}

/// Reads a whole export, where its keys have to be made anew.
pub(super) fn plan(mut source: Source, secrets: &Secrets, mut watch: impl FnMut(&Source)) -> Result<Option<Rekey>, Error> {
    if secrets.exported.is_none() && secrets.new.is_none() {
        return Ok(None);
    }
    let (to, mut reading, mut from_is_known) = (Derivation::of(secrets.new.as_ref()), Reading::default(), false);
    while let Some(entries) = source.next()? {
        watch(&source);
        for (key, value) in &entries {
            let damaged = |damage: Damage| source.damaged(damage);
            let body = format::unseal(key, value).map_err(damaged)?;
            let key = Key::parse(key).ok_or(Damage::Key).map_err(damaged)?;
            if let Key::Meta(Meta::Secret) = key {
                reading.from = opened(&source, secrets, format::read(body).map_err(damaged)?)?;
            }
            let Key::Block(_) = key else { continue };
            // Everything about the whole store sorts before the blocks.
            if !std::mem::replace(&mut from_is_known, true) && keys_stay(&source, secrets, &reading.from)? {
                return Ok(None);
            }
            reading.block(body, &to).map_err(damaged)?;
        }
    }
    if !from_is_known && keys_stay(&source, secrets, &reading.from)? {
        return Ok(None);
    }
    let (from, keys) = (reading.from.clone(), reading.whole(&source)?);
    Ok(Some(Rekey { from, to: Names::of(secrets.new.as_ref()), keys, packer: Packer::new(0), counts: Counts::default() }))
}

/// The exported store's keys, opened where the secret is at hand.
fn opened(source: &Source, secrets: &Secrets, bound: SecretFingerprint) -> Result<Names, Error> {
    let at_hand = [&secrets.exported, &secrets.new].into_iter().flatten().find(|secret| secret.fingerprint() == bound);
    match at_hand {
        Some(secret) => Ok(Names::Sealed(secret.clone())),
        None => Err(Error::Secret { file: source.path().into(), bound: Some(bound) }),
    }
}

/// Whether the new store's secret is the exported one's.
fn keys_stay(source: &Source, secrets: &Secrets, from: &Names) -> Result<bool, Error> {
    match from {
        Names::Clear if secrets.exported.is_some() => Err(Error::Secret { file: source.path().into(), bound: None }),
        Names::Sealed(old) => Ok(secrets.new.as_ref() == Some(old)),
        Names::Clear | Names::Shut => Ok(false),
    }
}

impl Reading {
    fn block(&mut self, body: &[u8], to: &Derivation) -> Result<(), Damage> {
        for note in blocks::notes(body) {
            let (key, note, body) = note?;
            self.note(key, note, body, to)?;
        }
        Ok(())
    }

    fn note(&mut self, key: KeyDigest, note: NoteKey, body: &[u8], to: &Derivation) -> Result<(), Damage> {
        if key == PROBE || self.keys.contains_key(&key) {
            return Ok(());
        }
        if let NoteKey::Admission(_) = note
            && let (Some(name), _) = admitted(&self.from, &key, body)?
        {
            if self.from.digest(&name) != Some(key) {
                return Err(Damage::Key);
            }
            self.nameless.remove(&key);
            self.keys.insert(key, to.digest(&name));
            return Ok(());
        }
        let nameless = self.nameless.entry(key).or_default();
        match note {
            NoteKey::Parked(_) => nameless.open += 1,
            NoteKey::Ended(_) => nameless.open = nameless.open.saturating_sub(1),
            NoteKey::Held(..) => {}
            NoteKey::Admission(_) | NoteKey::Fact(_) | NoteKey::Doubt(_) | NoteKey::Verdict => nameless.is_more = true,
        }
        Ok(())
    }

    /// The new digest of each old one. One whose records have all left the store without an attempt is known no more than a new one.
    fn whole(mut self, source: &Source) -> Result<DigestMap<KeyDigest>, Error> {
        let mut nameless: Vec<_> = self.nameless.iter().filter(|(_, known)| known.open > 0 || known.is_more).map(|(key, _)| *key).collect();
        nameless.sort_unstable();
        if let Some(first) = nameless.first() {
            return Err(Error::Nameless { file: source.path().into(), operations: nameless.len() as u64, first: *first });
        }
        for key in self.nameless.keys() {
            let forgotten = blake3::Hasher::new_derive_key("receipted 2026 forgotten key v1").update(&key.0).finalize();
            self.keys.insert(*key, KeyDigest(*forgotten.as_bytes()));
        }
        self.keys.insert(PROBE, PROBE);
        Ok(self.keys)
    }
}

impl Rekey {
    /// How the new store's keys are written.
    pub(super) fn names(&self) -> &Names {
        &self.to
    }

    /// An entry of the export as the entries that it becomes.
    pub(super) fn entry(&mut self, (bytes, value): Entry, to: &mut Vec<Entry>) -> Result<(), Damage> {
        let body = format::unseal(&bytes, &value)?;
        let mut own = Entries::default();
        match Key::parse(&bytes).ok_or(Damage::Key)? {
            Key::Meta(Meta::Secret) => {}
            Key::Meta(Meta::Counts) => self.counts = format::read(body)?,
            key @ Key::Incident(_) => {
                let incident: Incident = format::read(body)?;
                let incident = Incident { key: self.key(&incident.key)?, ..incident };
                own.put(key, &incident).map_err(|_| Damage::Body)?;
            }
            key @ Key::Park(_) => {
                let mut stored: StoredPark = format::read(body)?;
                stored.park.key = stored.park.key.map(|key| self.key(&key)).transpose()?;
                own.put(key, &stored).map_err(|_| Damage::Body)?;
            }
            Key::Block(_) => {
                for note in blocks::notes(body) {
                    let (key, note, body) = note?;
                    self.repack(&key, note, body)?;
                }
                to.append(&mut self.packer.entries);
                self.packer.places.clear();
            }
            _ => to.push((bytes, value)),
        }
        to.append(&mut own.0);
        Ok(())
    }

    /// What comes last: the block that is being filled, and how many there are.
    pub(super) fn finish(mut self) -> Result<Vec<Entry>, Damage> {
        self.counts.blocks = self.packer.finish().ok_or(Damage::Body)?;
        let mut own = Entries(self.packer.entries);
        own.put(Key::Meta(Meta::Counts), &self.counts).map_err(|_| Damage::Body)?;
        if let Names::Sealed(secret) = &self.to {
            own.put(Key::Meta(Meta::Secret), &secret.fingerprint()).map_err(|_| Damage::Body)?;
        }
        Ok(own.0)
    }

    fn repack(&mut self, old: &KeyDigest, note: NoteKey, body: &[u8]) -> Result<(), Damage> {
        let key = self.key(old)?;
        let packed = match note {
            NoteKey::Admission(attempt) if *old != PROBE => {
                let (name, admission) = admitted(&self.from, old, body)?;
                put_admission(&mut self.packer, &self.to, &key, attempt, name.as_ref(), &admission)
            }
            _ => self.packer.add_written(&key, note, body),
        };
        packed.map_err(|_| Damage::Body)
    }

    fn key(&self, old: &KeyDigest) -> Result<KeyDigest, Damage> {
        self.keys.get(old).copied().ok_or(Damage::Key)
    }
}
