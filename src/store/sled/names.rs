//! Owns how the whole key of an operation is written beside its digest: as it is, or sealed with the store's secret where its digests
//! are made with one, so that no key can be read or guessed from the files.

use super::format::{self, Damage, FORMAT, FORMAT_SEALED};
use crate::{
    protocol::{
        key::{KeyDigest, OperationKey},
        secret::{Derivation, KeySecret, SecretFingerprint},
    },
    store::SecretProblem,
};
use aes_siv::{KeyInit, siv::Aes256Siv};

/// Who opens a store.
#[derive(Debug, Clone, Copy)]
pub(super) enum Opener<'a> {
    /// A run, with its secret, where it has one: it has to be the store's.
    Run(Option<&'a KeySecret>),
    /// A command on a stopped store, which needs no key, and says more with the secret.
    Command(Option<&'a KeySecret>),
}

impl Opener<'_> {
    /// The names of a store that is bound to this secret.
    pub(super) fn names(self, bound: SecretFingerprint) -> Result<Names, SecretProblem> {
        match self {
            Self::Run(Some(secret)) | Self::Command(Some(secret)) if secret.fingerprint() == bound => Ok(Names::Sealed(secret.clone())),
            Self::Run(Some(secret)) => Err(SecretProblem::Other { bound, given: secret.fingerprint() }),
            Self::Run(None) => Err(SecretProblem::Missing(bound)),
            Self::Command(_) => Ok(Names::Shut),
        }
    }

    /// The secret of a run.
    pub(super) fn secret(self) -> Option<KeySecret> {
        match self {
            Self::Run(secret) => secret.cloned(),
            Self::Command(_) => None,
        }
    }
}

/// How the keys of a store are written.
#[derive(Debug, Clone, Default)]
pub(super) enum Names {
    /// As they are.
    #[default]
    Clear,
    /// Sealed, and this opens them.
    Sealed(KeySecret),
    /// Sealed, and nobody here can open them.
    Shut,
}

/// Why a key cannot be written.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(super) enum Error {
    #[error("the store's secret is needed")]
    Shut,
    #[error("the key cannot be sealed")]
    Seal,
}

impl Names {
    /// With this secret, where there is one.
    pub(super) fn of(secret: Option<&KeySecret>) -> Self {
        secret.cloned().map_or(Self::Clear, Self::Sealed)
    }

    /// How the digests are made; none where the secret is not here.
    pub(super) fn derivation(&self) -> Option<Derivation> {
        match self {
            Self::Clear => Some(Derivation::Unkeyed),
            Self::Sealed(secret) => Some(Derivation::Keyed(secret.clone())),
            Self::Shut => None,
        }
    }

    /// The digest of a key; none where the secret is not here.
    pub(super) fn digest(&self, key: &OperationKey) -> Option<KeyDigest> {
        self.derivation().map(|derivation| derivation.digest(key))
    }

    /// The format of a store with such names.
    pub(super) fn format(&self) -> u32 {
        if matches!(self, Self::Clear) { FORMAT } else { FORMAT_SEALED }
    }

    /// What a sealed store writes of a key. The same key always gives the same bytes (RFC 5297): its digest tells as much.
    pub(super) fn seal(&self, digest: &KeyDigest, name: &[u8]) -> Result<Vec<u8>, Error> {
        let Self::Sealed(secret) = self else { return Err(Error::Shut) };
        Aes256Siv::new(secret.sealing().into()).encrypt([&digest.0], name).map_err(|_| Error::Seal)
    }

    /// A key as a sealed store has it; none where nobody here can open it.
    pub(super) fn open(&self, digest: &KeyDigest, sealed: &[u8]) -> Result<Option<OperationKey>, Damage> {
        let Self::Sealed(secret) = self else { return Ok(None) };
        let name = Aes256Siv::new(secret.sealing().into()).decrypt([&digest.0], sealed).map_err(|_| Damage::Sealed)?;
        format::read(&name).map(Some)
    }
}
