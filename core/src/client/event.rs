//! Events of the client engine.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;

use super::input::{Input, InputId};
use super::log::LogMessage;
use crate::calls::inbound::{CallId, Progress};
use crate::calls::outbound::CallKey;
use crate::change::Change;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault};
use crate::identity::{Capabilities, declared_extension};
use crate::model::{Implementation, SubscriptionFilter, Task};
use crate::raw::RawJson;
use crate::slab::Key;
use crate::version::{Era, Version};

/// The key of a subscription.
///
/// It is stale after [`Event::SubscriptionEnded`] or [`Engine::unsubscribe`](super::Engine::unsubscribe). A stale key is
/// refused and never reaches another subscription.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriptionKey {
    /// The serial number, which is never reused.
    serial: u64,
    key: Key,
}

impl SubscriptionKey {
    pub(super) const fn new(serial: u64, key: Key) -> Self {
        Self { serial, key }
    }

    pub(super) const fn slab_key(self) -> Key {
        self.key
    }
}

/// An event for the application.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The connection is ready, and queued calls have been sent. Reported once.
    Ready(Peer),
    /// A call has ended. Reported exactly once per call.
    Done {
        /// The call; its key is stale.
        call: CallKey,
        /// The result object, or the reason why there is none.
        outcome: Result<RawJson, CallError>,
        /// Whether the call was sent again, for example with input responses.
        ///
        /// Such a result must not be cached (CACHE-011).
        retried: bool,
    },
    /// Progress of a call (PROG-006).
    Progress {
        /// The call.
        call: CallKey,
        /// The progress report.
        progress: Progress,
    },
    /// A call follows a task from now on, or the status or the message of the task has changed.
    ///
    /// The call still ends with [`Done`](Self::Done).
    Task {
        /// The call.
        call: CallKey,
        /// The state of the task. Its id may be a secret ([`TaskHandle`](super::TaskHandle)).
        task: Box<Task<'static>>,
    },
    /// An input request of the server.
    ///
    /// Answer it with exactly one of [`answer`](super::Engine::answer) and [`refuse`](super::Engine::refuse).
    Input(Input),
    /// An input request was cancelled, or its call has ended. Its key is stale.
    ///
    /// An [`Input`](Self::Input) event that was not polled yet is removed instead, so no user is asked for nothing.
    InputWithdrawn(InputId),
    /// The user has finished an elicitation by URL; the value is its `elicitationId` (2025-11-25; ELIC-025).
    ///
    /// A call that was refused with -32042 may succeed now (ELIC-028).
    ElicitationComplete(String),
    /// The server has acknowledged a subscription and reports changes from now on.
    ///
    /// Over HTTP, a subscription that had to be renewed is reported again. Changes in between may have been missed, so all
    /// that it covers is reported as [changed](Self::Changed).
    Subscribed {
        /// The subscription.
        key: SubscriptionKey,
        /// The part of the filter that the server honours (SUB-006, SUB-007).
        honoured: SubscriptionFilter,
    },
    /// A list or a resource has changed. Equal changes are reported as one until the event is polled.
    Changed {
        /// The subscription; `None` if a legacy server announces a change that no subscription asked for.
        key: Option<SubscriptionKey>,
        /// The change.
        change: Change,
    },
    /// A subscription has ended without [`unsubscribe`](super::Engine::unsubscribe). Its key is stale.
    SubscriptionEnded {
        /// The subscription.
        key: SubscriptionKey,
        /// Whether the server announced the end; if not, changes may have been missed (SUB-013, SUB-015).
        graceful: bool,
        /// The reason, if the end was not graceful.
        error: Option<CallError>,
    },
    /// A log message of the server.
    #[deprecated(note = "MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28")]
    Log(LogMessage),
    /// A request of a legacy server with a custom method ([`Config::custom_method`](super::Config::custom_method)).
    ///
    /// Answer it with exactly one of [`respond`](super::Engine::respond) and [`refuse`](super::Engine::refuse).
    Request(ServerRequest),
    /// A request of the server was cancelled or was not answered in time. Its key is stale.
    RequestCancelled(CallId),
    /// A notification that the engine does not handle.
    Notification(Notification),
    /// The peer deviated from the protocol. Nothing else is affected.
    Diagnostic(Diagnostic),
    /// The connection has ended. Reported once, as the last event.
    Closed(Fault),
}

/// A server as it describes itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// Negotiated revision.
    pub version: Version,
    /// `Implementation` object of the server, if it sent one.
    pub info: Option<RawJson>,
    /// Capability object of the server, as received.
    pub capabilities: RawJson,
    /// Instructions for the use of the server by a model; untrusted text (LIFE-016).
    pub instructions: Option<String>,
    /// The capabilities that the engine knows.
    pub(super) declared: Capabilities,
}

impl Peer {
    /// Returns the era of the negotiated revision.
    #[must_use]
    pub const fn era(&self) -> Era {
        self.version.era()
    }

    /// Returns whether results carry cache hints (CACHE-001).
    pub(super) const fn sends_cache_hints(&self) -> bool {
        matches!(self.era(), Era::Modern)
    }

    /// Returns whether the server declared `capability`.
    #[must_use]
    pub const fn has(&self, capability: crate::Capability) -> bool {
        self.declared.has(capability)
    }

    /// Returns the identity of the server, read as its type, or `None` if it sent none or one without a name or version.
    ///
    /// It is for display and logs: the server chose it, and nobody verified it (META-019).
    #[must_use]
    pub fn info(&self) -> Option<Implementation> {
        self.info.as_ref()?.parse().ok()
    }

    /// Returns the settings of an extension, `{}` for none, or `None` if the server did not declare it (EXT-004).
    ///
    /// A declaration of `io.modelcontextprotocol/tasks` before 2026-07-28 has no effect (TASK-130).
    #[must_use]
    pub fn extension(&self, id: &str) -> Option<RawJson> {
        declared_extension(&self.capabilities, id, self.version)
    }
}

/// A request of a legacy server with a custom method.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerRequest {
    /// The key to answer with.
    pub id: CallId,
    /// Method of the request.
    pub method: Cow<'static, str>,
    /// Parameters of the request.
    pub params: Option<RawJson>,
}

/// A notification from a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Notification {
    /// Method of the notification.
    pub method: Box<str>,
    /// Parameters of the notification.
    pub params: Option<RawJson>,
}
