//! Owns reading a secret from the file that the configuration or a command names. The secret itself is shown nowhere.

use super::{Error, Store};
use crate::protocol::secret::{KeySecret, SECRET_BYTES_MAX};
use std::{fs::File, io::Read, path::Path};

/// Which key names the file.
const KEY: &str = "store.key_secret_file";

impl Store {
    /// The secret that digests of keys are made with, where one is set.
    ///
    /// # Errors
    /// When its file cannot be read, or holds none.
    pub fn key_secret(&self) -> Result<Option<KeySecret>, Error> {
        self.key_secret_file.as_deref().map(|file| key_secret(KEY, file)).transpose()
    }
}

/// The secret in a file that `named_by` names. A line's end behind it is not part of it.
///
/// # Errors
/// When the file cannot be read, or holds none.
pub fn key_secret(named_by: &'static str, file: &Path) -> Result<KeySecret, Error> {
    let failed = |reason: String| Error::SecretFile { named_by, file: file.into(), reason };
    let mut secret = Vec::new();
    // One byte more than a secret with its line's end can have: a file of any length is no secret, and is not read to its end.
    let limit = SECRET_BYTES_MAX as u64 + 3;
    let read = File::open(file).and_then(|open| open.take(limit).read_to_end(&mut secret));
    read.map_err(|error| failed(error.to_string()))?;
    let secret = secret.strip_suffix(b"\n").unwrap_or(&secret);
    let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
    KeySecret::new(secret).map_err(|error| failed(error.to_string()))
}
