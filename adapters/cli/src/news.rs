//! What has changed at a server, kept until somebody asks

use alloc::sync::Arc;
use std::sync::{Mutex, PoisonError};

use mcp_proto::{CallError, Change};

/// Something to be told
#[derive(Debug, PartialEq)]
pub(crate) enum Item {
    /// It has changed
    Changed(Change),
    /// The subscription has ended, in good order if there is no error
    Ended(Option<CallError>),
}

/// Shared between the client, which fills it, and who tells it
#[derive(Clone, Debug, Default)]
pub(crate) struct News(Arc<Mutex<Vec<Item>>>);

impl News {
    /// Keeps it, unless the same waits already: a server may say it as often as it likes
    pub(crate) fn add(&self, item: Item) {
        let mut items = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !items.contains(&item) {
            items.push(item);
        }
    }

    /// What has come since this was asked the last time
    pub(crate) fn take(&self) -> Vec<Item> {
        core::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
