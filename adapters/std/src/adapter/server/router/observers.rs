//! Callbacks of routers for what a server learns beside calls.

use mcp_proto::Diagnostic;
#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
use mcp_proto::server::Notification;
use mcp_proto::tap::TapRecord;

use super::{Flavor, Router};

/// The callbacks that were set.
pub(super) struct Observers<F: Flavor> {
    pub(super) on_notification: Option<F::Observer<Notification>>,
    pub(super) on_diagnostic: Option<F::Observer<Diagnostic>>,
    pub(super) on_tap: Option<F::Observer<TapRecord>>,
    #[cfg(feature = "http")]
    pub(super) on_head: Option<F::Observer<HeadRecord>>,
}

// Not derived: the flavour itself need be neither `Clone` nor `Default`.
impl<F: Flavor> Clone for Observers<F> {
    fn clone(&self) -> Self {
        Self {
            on_notification: self.on_notification.clone(),
            on_diagnostic: self.on_diagnostic.clone(),
            on_tap: self.on_tap.clone(),
            #[cfg(feature = "http")]
            on_head: self.on_head.clone(),
        }
    }
}

impl<F: Flavor> Default for Observers<F> {
    fn default() -> Self {
        Self {
            on_notification: None,
            on_diagnostic: None,
            on_tap: None,
            #[cfg(feature = "http")]
            on_head: None,
        }
    }
}

impl<F: Flavor> Router<F> {
    /// Takes a notification that the engine does not handle; see [`Handler::notification`](crate::adapter::server::Handler::notification).
    pub fn handle_notification(&self, notification: &Notification) {
        if let Some(observer) = &self.state.load().observers.on_notification {
            observer(notification);
        }
    }

    /// Takes a deviation of a client; see [`Handler::diagnostic`](crate::adapter::server::Handler::diagnostic).
    pub fn handle_diagnostic(&self, diagnostic: &Diagnostic) {
        if let Some(observer) = &self.state.load().observers.on_diagnostic {
            observer(diagnostic);
        }
    }

    /// Takes a copy of a message; see [`Handler::tap`](crate::adapter::server::Handler::tap).
    pub fn handle_tap(&self, record: &TapRecord) {
        if let Some(observer) = &self.state.load().observers.on_tap {
            observer(record);
        }
    }

    /// Takes the head of a request or response; see [`Handler::head`](crate::adapter::server::Handler::head).
    #[cfg(feature = "http")]
    pub fn handle_head(&self, record: &HeadRecord) {
        if let Some(observer) = &self.state.load().observers.on_head {
            observer(record);
        }
    }
}
