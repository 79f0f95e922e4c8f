//! Changes that the server has reported and that are not printed yet.

use alloc::sync::Arc;
use std::sync::Mutex;

use mcp_proto::{CallError, Change};

/// An event of a subscription.
#[derive(Debug, PartialEq)]
pub(crate) enum ChangeEvent {
    /// A list or resource has changed.
    Changed(Change),
    /// The subscription has ended, gracefully if there is no error.
    Ended(Option<CallError>),
}

/// Queue of events, shared between the client, which fills it, and the command that prints them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceivedChanges(Arc<Mutex<Vec<ChangeEvent>>>);

impl ReceivedChanges {
    /// Adds an event unless an equal one is queued, so a server cannot grow the queue by repetition.
    pub(crate) fn add(&self, item: ChangeEvent) {
        let mut items = mcp_std::sync::lock(&self.0);
        if !items.contains(&item) {
            items.push(item);
        }
    }

    /// Takes all events that arrived since the last call.
    pub(crate) fn take(&self) -> Vec<ChangeEvent> {
        core::mem::take(&mut *mcp_std::sync::lock(&self.0))
    }
}

/// Returns the name of what has changed: of a list, or the URI of a resource.
pub(crate) fn change_name(change: &Change) -> &str {
    match change {
        Change::Tools => "tools",
        Change::Prompts => "prompts",
        Change::Resources => "resources",
        Change::Resource(uri) => uri,
        Change::Custom(list) => list.member(),
        _ => "something",
    }
}
