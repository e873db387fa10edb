//! Owns digests under a context of their own, whose own digest is made once and not for every record.

use blake3::hazmat::{ContextKey, HasherExt, hash_derive_key_context};
use std::sync::OnceLock;

/// What a digest is of: the same bytes under another context have another digest.
pub(super) struct Context {
    name: &'static str,
    key: OnceLock<ContextKey>,
}

impl Context {
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, key: OnceLock::new() }
    }

    /// The first half of the BLAKE3 derive-key digest of what `update` writes.
    pub(super) fn half(&self, update: impl FnOnce(&mut blake3::Hasher)) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new_from_context_key(self.key.get_or_init(|| hash_derive_key_context(self.name)));
        update(&mut hasher);
        let mut half = [0; 16];
        half.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        half
    }
}
