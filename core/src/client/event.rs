//! What the client tells the application.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;

use super::input::{Input, InputId};
use super::log::Log;
use super::subscribe::SubscriptionKey;
use crate::calls::inbound::{CallId, Progress};
use crate::calls::outbound::CallKey;
use crate::change::Change;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault};
use crate::identity::Capabilities;
use crate::model::SubscriptionFilter;
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
        /// Whether the server needed something first, and the call was sent again for it: then its result is not to be
        /// kept for others (CACHE-011)
        again: bool,
    },
    /// A call has come further (PROG-006)
    Progress {
        /// Which one
        call: CallKey,
        /// How far
        progress: Progress,
    },
    /// The server needs something: answer it with exactly one of [`answer`](super::Engine::answer) and
    /// [`refuse`](super::Engine::refuse)
    Input(Input),
    /// The server no longer needs something, or the call that it was needed for has ended; its key is stale
    ///
    /// An [`Input`](Self::Input) that was not polled by then is taken back instead, so that nobody is asked in vain.
    InputGone(InputId),
    /// The user is done at a web page that the server wanted visited, by its `elicitationId` (2025-11-25; ELIC-025): a
    /// call that was refused with -32042 may succeed now (ELIC-028)
    ElicitationComplete(String),
    /// The server has acknowledged a subscription: it is told of changes from now on
    ///
    /// Told again when it had to be asked for anew, over HTTP: news may have been lost in between.
    Subscribed {
        /// Which one
        key: SubscriptionKey,
        /// The part of what was asked for that the server honours (SUB-006, SUB-007)
        honoured: SubscriptionFilter,
    },
    /// Something has changed; told once until it is read, however often it changes meanwhile
    Changed {
        /// Whose subscription it is for; none where a legacy server tells everybody, and nobody here asked
        key: Option<SubscriptionKey>,
        /// What has changed
        change: Change,
    },
    /// A subscription has ended, and not by [`unsubscribe`](super::Engine::unsubscribe); its key is stale
    SubscriptionEnded {
        /// Which one
        key: SubscriptionKey,
        /// The server has said that it ends; otherwise news may have been lost (SUB-013, SUB-015)
        graceful: bool,
        /// Why, where it was not graceful
        error: Option<CallError>,
    },
    /// The server has logged something
    Log(Log),
    /// A legacy server asks for something of the application's own ([`Config::custom_method`](super::Config)):
    /// answer it with exactly one of [`respond`](super::Engine::respond) and [`refuse`](super::Engine::refuse)
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

/// A request from a legacy server, with a method that the application has said it knows
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
