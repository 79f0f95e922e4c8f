//! The messages that were seen before.

use alloc::collections::{BTreeSet, VecDeque};

use sha2::{Digest as _, Sha256};

/// First half of a SHA-256: ids are long, and chosen by the server.
pub(crate) type MessageDigest = [u8; 16];

pub(crate) fn digest(kind: &[u8], id: &str) -> MessageDigest {
    let hash = Sha256::new().chain_update(kind).chain_update([0]).chain_update(id).finalize();
    let mut first = [0; 16];
    first.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    first
}

/// The newest messages.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    messages: BTreeSet<MessageDigest>,
    order: VecDeque<MessageDigest>,
}

impl Seen {
    pub(crate) fn contains(&self, message: &MessageDigest) -> bool {
        self.messages.contains(message)
    }

    /// Adds a message, and forgets the oldest ones above a limit. Returns whether it is new.
    pub(crate) fn insert(&mut self, message: MessageDigest, limit: usize) -> bool {
        let is_new = self.messages.insert(message);
        if is_new {
            self.order.push_back(message);
        }
        while self.order.len() > limit {
            if let Some(oldest) = self.order.pop_front() {
                self.messages.remove(&oldest);
            }
        }
        is_new
    }
}
