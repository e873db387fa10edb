//! Owns how the digest of an operation key is made: plain, or with a secret, so that nobody who lacks it can guess a key from its
//! digest. A provider key never depends on a secret.

use super::key::{KeyDigest, KeyParts, OperationKey, hex};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a secret, at least: what `openssl rand -hex 32` prints has 64.
pub const SECRET_BYTES_MIN: usize = 32;
/// Bytes of a secret, at most.
pub const SECRET_BYTES_MAX: usize = 4096;

/// Why something is no secret. It never holds the secret.
///
/// A text that is no secret, such as a password: [`KeySecret`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Take a longer one, of random bytes.
    #[error("a secret of {bytes} bytes can be guessed; it needs {SECRET_BYTES_MIN} at least, as `openssl rand -hex 32` makes them")]
    Short {
        /// How long it is.
        bytes: usize,
    },
    /// Take a shorter one.
    #[error("a secret has {SECRET_BYTES_MAX} bytes at most, and this has {bytes}")]
    Long {
        /// How long it is.
        bytes: usize,
    },
}

/// How the digests of keys are made.
///
/// ```
/// # use receipted::protocol::{key::{Alphabet, OperationKey}, secret::{Derivation, KeySecret}};
/// # let key = OperationKey::new("acme", "charge.v1", &["1984-12-24".into()], Alphabet::Token)?;
/// # let secret = KeySecret::new(&[7; 32])?;
/// // Who guesses an id can compute its plain digest; not the one that is made with a secret.
/// let (plain, keyed) = (Derivation::Unkeyed.digest(&key), Derivation::of(Some(&secret)).digest(&key));
/// assert_ne!(plain, keyed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub enum Derivation {
    /// Of the key alone: it can be guessed from a known id, and is not anonymous.
    #[default]
    Unkeyed,
    /// Of the key and a secret.
    Keyed(KeySecret),
}

impl Derivation {
    /// With this secret, where there is one.
    #[must_use]
    pub fn of(secret: Option<&KeySecret>) -> Self {
        secret.cloned().map_or(Self::Unkeyed, Self::Keyed)
    }

    /// The digest under which stores, logs, metrics and headers know an operation.
    #[must_use]
    pub fn digest(&self, key: &OperationKey) -> KeyDigest {
        self.of_canonical(&key.canonical_bytes())
    }

    /// The same of a key's parts.
    #[must_use]
    pub fn digest_parts(&self, parts: &KeyParts<'_>) -> KeyDigest {
        self.of_canonical(&parts.canonical_bytes())
    }

    fn of_canonical(&self, bytes: &[u8]) -> KeyDigest {
        let digest = match self {
            Self::Unkeyed => blake3::hash(bytes),
            Self::Keyed(secret) => blake3::keyed_hash(&secret.digests, bytes),
        };
        KeyDigest(*digest.as_bytes())
    }
}

/// A secret, as what is made of it: what digests are made with, what keys are sealed with, and how it is told from another.
///
/// ```
/// # use receipted::protocol::secret::{Error, KeySecret};
/// // From a vault of your own, not a file. Two processes compare fingerprints, and never the secret.
/// let from_the_vault = [7; 32];
/// let secret = KeySecret::new(&from_the_vault)?;
/// assert_eq!(secret.fingerprint(), KeySecret::new(&from_the_vault)?.fingerprint());
/// assert_eq!(KeySecret::new(b"a password"), Err(Error::Short { bytes: 10 }));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct KeySecret {
    digests: [u8; 32],
    sealing: [u8; 64],
    fingerprint: SecretFingerprint,
}

impl KeySecret {
    /// Takes a secret's bytes.
    ///
    /// # Errors
    /// When there are fewer than [`SECRET_BYTES_MIN`] or more than [`SECRET_BYTES_MAX`].
    pub fn new(secret: &[u8]) -> Result<Self, Error> {
        let bytes = secret.len();
        if bytes < SECRET_BYTES_MIN {
            return Err(Error::Short { bytes });
        }
        if bytes > SECRET_BYTES_MAX {
            return Err(Error::Long { bytes });
        }
        let (mut digests, mut sealing, mut fingerprint) = ([0; 32], [0; 64], [0; 16]);
        derive("receipted 2026 key secret digests v1", secret, &mut digests);
        derive("receipted 2026 key secret sealing v1", secret, &mut sealing);
        derive("receipted 2026 key secret fingerprint v1", secret, &mut fingerprint);
        Ok(Self { digests, sealing, fingerprint: SecretFingerprint(fingerprint) })
    }

    /// What tells it from another secret, and nothing else about it.
    #[must_use]
    pub fn fingerprint(&self) -> SecretFingerprint {
        self.fingerprint
    }

    /// What whole keys are sealed with.
    #[cfg(feature = "sled")]
    pub(crate) fn sealing(&self) -> &[u8; 64] {
        &self.sealing
    }
}

/// Prints the fingerprint only.
impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySecret({})", self.fingerprint)
    }
}

/// Which secret a store's digests are made with.
///
/// Of a [`KeySecret`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretFingerprint([u8; 16]);

impl fmt::Display for SecretFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

fn derive(context: &str, secret: &[u8], out: &mut [u8]) {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    hasher.update(secret);
    hasher.finalize_xof().fill(out);
}
