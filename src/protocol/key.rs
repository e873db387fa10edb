//! Owns an operation's identity: tenant, operation name with version, business id, and what is derived from them. It never sees
//! a partition, an offset or a time, so that no identity can be made of a delivery.

use super::secret::Derivation;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt, sync::Arc};

/// The version of the canonical bytes below. Raised only together with a migration of every store.
pub const DERIVATION_VERSION: u8 = 1;
/// Bytes of a key part, of the tenant and of an operation name, at most.
pub const PART_BYTES_MAX: usize = 128;
/// Bytes of a part under [`Alphabet::Printable`], at most.
pub const PRINTABLE_BYTES_MAX: usize = 512;
/// Parts of a composite id, at most.
pub const ID_PARTS_MAX: usize = 16;

/// Which characters a key part may hold.
///
/// ```
/// # use receipted::prelude::*;
/// # async fn charge_account(op: Operation) -> Result<Applied, Failure> { Ok(Applied::new(op.provider_key(), ())) }
/// // Ids of another system, with spaces and accents: `Müller 7`. By default such a record is a dead letter.
/// let charge = operation("charge.v1").tenant(fixed("acme")).id(record_key()).fingerprint(whole_value());
/// let charge: Route<()> = charge.alphabet(Alphabet::Printable).handle(charge_account);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Alphabet {
    /// `[A-Za-z0-9_.:-]`, 1 to 128 bytes: what nearly every business id is made of, and safe in logs, URLs and headers.
    #[default]
    Token,
    /// Any text without control characters, 1 to 512 bytes of UTF-8.
    Printable,
}

/// Why something is no key.
///
/// ```
/// # use receipted::protocol::key::{Alphabet, Error, OperationKey};
/// // For a form of your own, where a person writes a key: what is wrong with it, and where?
/// let error = OperationKey::new("acme", "charge", &["c-1".into()], Alphabet::Token).unwrap_err();
/// assert!(matches!(error, Error::NoVersion { .. })); // `charge.v1` was meant
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Send a value, or declare another source for this part.
    #[error("{part} is empty")]
    Empty {
        /// The part's place: `tenant`, `operation`, `id` or `id[1]`.
        part: String,
    },
    /// Shorten it, or widen the route's alphabet.
    #[error("{part} has {bytes} bytes, more than {max}")]
    TooLong {
        /// The part's place.
        part: String,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// Correct the producer, or widen the route's alphabet.
    #[error("{part} has the character {character:?} at byte {at}, which the route's alphabet does not hold")]
    Character {
        /// The part's place.
        part: String,
        /// The first character that is refused.
        character: char,
        /// Its place in the part.
        at: usize,
    },
    /// An operation name ends with its version, so that a changed meaning gets a changed identity.
    #[error("operation name {name:?} does not end with its version, as in \"charge.v1\"")]
    NoVersion {
        /// The name as given.
        name: String,
    },
    /// An id has one to sixteen parts.
    #[error("id has {parts} parts, and may have 1 to {ID_PARTS_MAX}")]
    Parts {
        /// How many it has.
        parts: usize,
    },
}

/// The identity of one intended business act. Two are equal exactly when tenant, operation and every id part are.
///
/// ```
/// # use receipted::protocol::key::{Alphabet, OperationKey};
/// // What an operator looks for, and what its destination knows it by: for a script that compares the two.
/// let key = OperationKey::new("acme", "charge.v1", &["o-1".into(), "7".into()], Alphabet::Token)?;
/// assert!(key.provider_key(0).text.starts_with("rk1-"));
/// // Parts are never joined: `o-1`, `7` is another act than `o`, `1-7`.
/// assert_ne!(key, OperationKey::new("acme", "charge.v1", &["o".into(), "1-7".into()], Alphabet::Token)?);
/// # Ok::<(), receipted::protocol::key::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperationKey {
    /// Shared: everything that takes turns by tenant names it.
    tenant: Arc<str>,
    operation: String,
    id: Vec<String>,
}

impl OperationKey {
    /// Builds a key of checked parts.
    ///
    /// # Errors
    /// Names the first part that is empty, too long or holds a character outside `alphabet`.
    pub fn new(tenant: &str, operation: &str, id: &[String], alphabet: Alphabet) -> Result<Self, Error> {
        let id = id.iter().map(|part| Cow::Borrowed(part.as_str())).collect();
        KeyParts::new(tenant.into(), operation, id, alphabet).map(KeyParts::into_key)
    }

    /// The scope: no tenant's key answers or blocks another's.
    #[must_use]
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The same, shared.
    pub(crate) fn shared_tenant(&self) -> Arc<str> {
        self.tenant.clone()
    }

    /// The operation's name with its version.
    #[must_use]
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// The business id, part by part.
    #[must_use]
    pub fn id(&self) -> &[String] {
        &self.id
    }

    /// The same tenant and id under another name of the operation.
    ///
    /// # Errors
    /// When `operation` is no operation name.
    pub fn renamed(&self, operation: &str) -> Result<Self, Error> {
        check_name(operation)?;
        Ok(Self { operation: operation.into(), ..self.clone() })
    }

    /// The canonical bytes: version, then every field with its length before it, so that no two triples share bytes.
    #[must_use]
    pub fn canonical_bytes(&self) -> Vec<u8> {
        canonical(&self.tenant, &self.operation, &self.id)
    }

    /// How many canonical bytes there are.
    pub(crate) fn canonical_len(&self) -> usize {
        canonical_len(&self.tenant, &self.operation, &self.id)
    }

    /// The digest without a secret; [`Derivation::digest`](super::secret::Derivation::digest) makes that of a store. It can be guessed
    /// from a known id, and is not anonymous.
    #[must_use]
    pub fn digest(&self) -> KeyDigest {
        Derivation::Unkeyed.digest(self)
    }

    /// What to give the destination as its idempotency key: the same over retries, replays and restarts.
    #[must_use]
    pub fn provider_key(&self, generation: u32) -> ProviderKey {
        let mut hasher = blake3::Hasher::new_derive_key("receipted 2026 provider key v1");
        hasher.update(&self.canonical_bytes()).update(&generation.to_be_bytes());
        let digest = *hasher.finalize().as_bytes();
        let (mut text, mut short) = ([0; 24], [0; 16]);
        text.copy_from_slice(&digest[..24]);
        short.copy_from_slice(&digest[..16]);
        ProviderKey { text: format!("rk1-{}", hex(&text)), uuid: uuid::Builder::from_custom_bytes(short).into_uuid() }
    }
}

/// Prints the operation's name only: the rest may be personal data, and a digest without the store's secret can be guessed.
impl fmt::Debug for OperationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationKey({} ..)", self.operation)
    }
}

/// The parts of a key, checked, of which nothing is copied yet: a repeat is recognised by their digest.
///
/// They make an [`OperationKey`].
pub struct KeyParts<'a> {
    tenant: Cow<'a, str>,
    operation: &'a str,
    id: Vec<Cow<'a, str>>,
}

impl<'a> KeyParts<'a> {
    /// Checks the parts.
    ///
    /// # Errors
    /// Names the first part that is empty, too long or holds a character outside `alphabet`.
    pub fn new(tenant: Cow<'a, str>, operation: &'a str, id: Vec<Cow<'a, str>>, alphabet: Alphabet) -> Result<Self, Error> {
        check("tenant", &tenant, alphabet)?;
        check_name(operation)?;
        if id.is_empty() || id.len() > ID_PARTS_MAX {
            return Err(Error::Parts { parts: id.len() });
        }
        for (index, part) in id.iter().enumerate() {
            if id.len() == 1 {
                check("id", part, alphabet)?;
            } else {
                check(format_args!("id[{index}]"), part, alphabet)?;
            }
        }
        Ok(Self { tenant, operation, id })
    }

    /// As [`OperationKey::canonical_bytes`].
    #[must_use]
    pub fn canonical_bytes(&self) -> Vec<u8> {
        canonical(&self.tenant, self.operation, &self.id)
    }

    /// The key that they make.
    #[must_use]
    pub fn into_key(self) -> OperationKey {
        let id = self.id.into_iter().map(Cow::into_owned).collect();
        OperationKey { tenant: self.tenant.into(), operation: self.operation.into(), id }
    }
}

/// As [`OperationKey`] is printed.
impl fmt::Debug for KeyParts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyParts({} ..)", self.operation)
    }
}

/// The digest of an operation key: what the store, logs, metrics and headers carry.
///
/// ```
/// # use receipted::protocol::{key::{Alphabet, KeyDigest, OperationKey}, secret::Derivation};
/// # let key = OperationKey::new("acme", "charge.v1", &["c-1".into()], Alphabet::Token)?;
/// // In a log it stands for the key, which may be personal data; from the log it is read back for the store.
/// let logged = Derivation::Unkeyed.digest(&key).to_string();
/// assert_eq!(KeyDigest::parse(&logged), Some(Derivation::Unkeyed.digest(&key)));
/// # Ok::<(), receipted::protocol::key::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyDigest(pub [u8; 32]);

impl KeyDigest {
    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(digest))
    }
}

impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", hex(&self.0[..6]))
    }
}

/// An operation's idempotency key at the destination, in the two forms that destinations take. Its bytes are fixed for ever by
/// the test vectors in `tests/vectors.rs`.
///
/// An [`OperationKey`] makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderKey {
    /// `rk1-` and 48 hexadecimal digits: 52 characters.
    pub text: String,
    /// A UUID of version 8.
    pub uuid: uuid::Uuid,
}

/// Lower-case hexadecimal digits of `bytes`.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).map(char::from).collect()
}

/// Checks an operation name: the token alphabet, ending in `.v` and digits.
///
/// # Errors
/// When it is no name, or carries no version.
pub fn check_name(name: &str) -> Result<(), Error> {
    check("operation", name, Alphabet::Token)?;
    match name.rsplit_once(".v") {
        Some((stem, version)) if !stem.is_empty() && !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit()) => Ok(()),
        _ => Err(Error::NoVersion { name: name.into() }),
    }
}

fn check(part: impl fmt::Display, value: &str, alphabet: Alphabet) -> Result<(), Error> {
    let max = if alphabet == Alphabet::Token { PART_BYTES_MAX } else { PRINTABLE_BYTES_MAX };
    if value.is_empty() {
        return Err(Error::Empty { part: part.to_string() });
    }
    if value.len() > max {
        return Err(Error::TooLong { part: part.to_string(), bytes: value.len(), max });
    }
    let allowed = |c: char| match alphabet {
        Alphabet::Token => c.is_ascii_alphanumeric() || "_.:-".contains(c),
        Alphabet::Printable => !c.is_control(),
    };
    match value.char_indices().find(|(_, c)| !allowed(*c)) {
        Some((at, character)) => Err(Error::Character { part: part.to_string(), character, at }),
        None => Ok(()),
    }
}

/// Every part is at most a few hundred bytes and checked before, so that its length fits.
fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

fn canonical_len(tenant: &str, operation: &str, id: &[impl AsRef<str>]) -> usize {
    let parts = id.iter().map(|part| 4 + part.as_ref().len()).sum::<usize>();
    13 + tenant.len() + operation.len() + parts
}

fn canonical(tenant: &str, operation: &str, id: &[impl AsRef<str>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(canonical_len(tenant, operation, id));
    bytes.push(DERIVATION_VERSION);
    push(&mut bytes, tenant);
    push(&mut bytes, operation);
    bytes.extend(length(id.len()));
    for part in id {
        push(&mut bytes, part.as_ref());
    }
    bytes
}

fn push(bytes: &mut Vec<u8>, part: &str) {
    bytes.extend(length(part.len()));
    bytes.extend(part.as_bytes());
}
