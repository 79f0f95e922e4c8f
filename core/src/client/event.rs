//! What the client tells the application.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;

use crate::calls::inbound::{CallId, Progress};
use crate::calls::outbound::CallKey;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault};
use crate::identity::Capabilities;
use crate::raw::RawJson;
use crate::version::{Era, Version};

/// Something for the application to act on or to know
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The connection is ready; calls made before have gone out. Told once.
    Ready(Peer),
    /// A call has ended, exactly once
    Done {
        /// Which one; stale from now on
        call: CallKey,
        /// The result object, or why there is none
        outcome: Result<RawJson, CallError>,
    },
    /// A call has come further (PROG-006)
    Progress {
        /// Which one
        call: CallKey,
        /// How far
        progress: Progress,
    },
    /// The server asks for something (legacy): answer it with exactly one of [`respond`](super::Engine::respond) and
    /// [`refuse`](super::Engine::refuse)
    Request(Request),
    /// The server no longer wants the answer to a request, or it came too late; its key is stale
    RequestCancelled(CallId),
    /// A notification that the engine does not handle itself
    Notification(Notification),
    /// The peer did something odd; nothing else is affected
    Diagnostic(Diagnostic),
    /// The connection is over; told once, after everything else
    Closed(Fault),
}

/// A server, as it introduced itself
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// The revision in use
    pub version: Version,
    /// `Implementation` of the server, when it gave one
    pub info: Option<RawJson>,
    /// The capability object as it came
    pub capabilities: RawJson,
    /// How to use the server, for a model to read: untrusted text (LIFE-016)
    pub instructions: Option<String>,
    /// What the engine acts on of the capabilities
    pub(super) flags: Capabilities,
}

impl Peer {
    /// The era in use
    #[must_use]
    pub const fn era(&self) -> Era {
        self.version.era()
    }

    /// Whether results say how long they may be kept (CACHE-001)
    pub(super) const fn hints_at_caching(&self) -> bool {
        matches!(self.era(), Era::Modern)
    }

    /// Whether the server declared `capability`
    #[must_use]
    pub const fn has(&self, capability: crate::Capability) -> bool {
        self.flags.has(capability)
    }
}

/// A request from a legacy server
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The key to answer with
    pub id: CallId,
    /// Its method
    pub method: Cow<'static, str>,
    /// Its parameters
    pub params: Option<RawJson>,
}

/// A notification from a server
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Notification {
    /// Its method
    pub method: Box<str>,
    /// Its parameters
    pub params: Option<RawJson>,
}
