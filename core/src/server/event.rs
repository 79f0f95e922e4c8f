//! What the server tells the application.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;

use bytes::Bytes;
use serde::Deserialize;

use super::input::Round;
use crate::calls::inbound::CallId;
use crate::calls::outbound::CallKey;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault};
use crate::json::{self, Span};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::rpc::envelope::Params;
use crate::tap::ChannelId;
use crate::version::Version;

/// Something for the application to act on or to know
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A request: answer it with exactly one of [`complete`](super::Engine::complete) and
    /// [`fail`](super::Engine::fail)
    Call(Call),
    /// A call is over before it was answered: stop working on it; its key is stale (CANC-010)
    Cancelled {
        /// Which one
        call: CallId,
        /// Why
        reason: CancelReason,
    },
    /// A call that waits for the answers of its client is over, and does not come again
    ///
    /// Told in the legacy era of a call whose handler [keeps something](super::Engine::need_input): a modern client just
    /// does not come back.
    Dropped {
        /// What [`Call::state`] would have been
        state: Box<[u8]>,
    },
    /// A client opened a session with a handshake (legacy); told once `notifications/initialized` has come
    SessionOpened {
        /// Where
        channel: ChannelId,
        /// The revision agreed on
        version: Version,
    },
    /// A notification that the engine does not handle itself
    Notification(Notification),
    /// The first client subscribed to a resource, or the last one no longer does: what is said to
    /// [`publish`](super::Engine::publish) about it reaches somebody, or nobody
    Interest {
        /// The resource, as clients spelt its URI
        uri: String,
        /// Whether somebody wants to be told
        wanted: bool,
    },
    /// The client answered a request of ours, or will not (legacy)
    Done {
        /// The key that [`request`](super::Engine::request) gave
        call: CallKey,
        /// The result object, or why there is none
        outcome: Result<RawJson, CallError>,
    },
    /// The peer did something odd; nothing else is affected
    Diagnostic {
        /// Where
        channel: ChannelId,
        /// What
        diagnostic: Diagnostic,
    },
    /// A channel is over; told once, after everything else about it
    Closed {
        /// Which one; stale from now on, except for what is left to write
        channel: ChannelId,
        /// Why
        fault: Fault,
    },
}

/// Why a call ended before it was answered
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CancelReason {
    /// The client cancelled it, and may have said why (CANC-005); nothing more is sent for it (CANC-020)
    Client(Option<String>),
    /// The client is gone
    Disconnected,
    /// It passed [`Limits::max_call_age`](crate::Limits::max_call_age); an error was sent
    TooOld,
    /// The server is shutting down; an error was sent
    Shutdown,
}

/// A request from a client
///
/// Shares the memory of the message that it came in: keep a [`compact`](RawJson::compact) copy of what outlives it.
#[derive(Debug)]
pub struct Call {
    pub(super) id: CallId,
    pub(super) channel: ChannelId,
    pub(super) version: Version,
    pub(super) method: Cow<'static, str>,
    pub(super) frame: Bytes,
    pub(super) params: Params,
    /// What came with it, if it was delivered before
    pub(super) round: Option<Box<Round>>,
}

impl Call {
    /// The key to answer with
    #[must_use]
    pub const fn id(&self) -> CallId {
        self.id
    }

    /// The channel that it came on
    #[must_use]
    pub const fn channel(&self) -> ChannelId {
        self.channel
    }

    /// The revision that the call is made in; an application seldom needs it
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The method, `tools/call` for instance
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The parameter object, `_meta` included; none when the request has none
    #[must_use]
    pub fn params(&self) -> Option<RawJson> {
        self.part(self.params.whole)
    }

    /// Reads the parameters; a request without any is read as `{}`. The error is the answer to give.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, RpcError> {
        read(self.params.whole.of(&self.frame).unwrap_or(b"{}"), "params")
    }

    /// `_meta` of the request, trace context included (META-001, META-008)
    #[must_use]
    pub fn meta(&self) -> Option<RawJson> {
        self.part(self.params.meta.whole)
    }

    /// Whether the client asked for progress (PROG-001)
    #[must_use]
    pub const fn wants_progress(&self) -> bool {
        !self.params.meta.token.is_empty()
    }

    /// Name and arguments of `tools/call`; the error is the answer to give (TOOL-021)
    pub fn tool(&self) -> Result<ToolCall<'_>, RpcError> {
        let name = match self.params.name.of(&self.frame) {
            Some([b'"', inner @ .., b'"']) if !inner.contains(&b'\\') => {
                Cow::Borrowed(core::str::from_utf8(inner).unwrap_or_default())
            }
            Some(text) => {
                json::string(text).ok_or_else(|| RpcError::invalid_params("`params.name` is not a string"))?
            }
            None => return Err(RpcError::invalid_params("`params.name` is missing")),
        };
        let arguments = self.params.arguments.of(&self.frame).unwrap_or(b"{}");
        if arguments.first() != Some(&b'{') {
            return Err(RpcError::invalid_params("`params.arguments` is not an object"));
        }
        Ok(ToolCall { name, arguments })
    }

    pub(super) fn part(&self, span: Span) -> Option<RawJson> {
        let part = span.of(&self.frame)?;
        Some(RawJson::trusted(self.frame.slice_ref(part)))
    }
}

/// The parameters of `tools/call`
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolCall<'a> {
    /// Which tool
    pub name: Cow<'a, str>,
    /// The argument object as JSON
    pub arguments: &'a [u8],
}

impl<'a> ToolCall<'a> {
    /// Reads the arguments as `T`, which may borrow from them; the error is the answer to give
    pub fn parse<T: Deserialize<'a>>(&self) -> Result<T, RpcError> {
        let named = |e| RpcError::invalid_params(alloc::format!("`params.arguments`: {e}"));
        super::read_arguments(self.arguments).map_err(named)
    }
}

fn read<'a, T: Deserialize<'a>>(text: &'a [u8], what: &str) -> Result<T, RpcError> {
    json::read(text).map_err(|e| RpcError::invalid_params(alloc::format!("`{what}`: {e}")))
}

/// A notification from a client
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Notification {
    /// Where it came from
    pub channel: ChannelId,
    /// Its method
    pub method: Box<str>,
    /// Its parameters
    pub params: Option<RawJson>,
}

/// Who makes a call, as far as it says (META-019: not to be trusted)
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// The revision in use
    pub version: Version,
    /// `Implementation` of the client, when it gave one
    pub info: Option<RawJson>,
    /// The capability object
    pub capabilities: RawJson,
}
