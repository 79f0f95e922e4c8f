//! The key of a batch.

use crate::built::Batching;
use crate::slab::Key;

/// The key of a batch. Only legacy revisions have batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BatchKey {
    key: Key,
    _marker: Batching,
}

impl BatchKey {
    pub(super) const fn new(marker: Batching, key: Key) -> Self {
        Self { key, _marker: marker }
    }

    pub(super) const fn key(self) -> Key {
        self.key
    }
}
