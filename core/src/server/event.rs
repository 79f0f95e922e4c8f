//! Events of the server engine.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;

use bytes::Bytes;
use serde::Deserialize;

use super::authorization::{Authorization, Caller};
use super::http_request::HttpRequest;
use super::receive::RetryContext;
use super::tasks::CallTask;
use crate::calls::inbound::CallId;
use crate::calls::outbound::CallKey;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault};
use crate::identity::{Capabilities, declared_extension};
use crate::json::{self, Span};
use crate::meta;
use crate::methods::{self, Capability, EntryKind};
use crate::model::Implementation;
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::rpc::envelope::ParamsSpans;
use crate::tap::ChannelId;
use crate::version::Version;

/// An event for the application.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A request of a client.
    ///
    /// Answer it with exactly one of [`complete`](super::Engine::complete), [`fail`](super::Engine::fail) and
    /// [`need_input`](super::Engine::need_input).
    Call(Call),
    /// A call ended before it was answered, so its handler should stop (CANC-010). Its key is stale.
    Cancelled {
        /// The call.
        call: CallId,
        /// The reason.
        reason: CancelReason,
    },
    /// A call that waited for input has ended and is not delivered again.
    ///
    /// Reported in the legacy era, and for tasks, if the handler [kept state](super::Engine::need_input). A modern client
    /// just does not repeat a call that is no task.
    ParkedCallDropped {
        /// The state that [`Call::state`] would have returned.
        state: Box<[u8]>,
    },
    /// A client opened a session (legacy). Reported when `notifications/initialized` has arrived.
    SessionOpened {
        /// Channel of the session.
        channel: ChannelId,
        /// Negotiated revision.
        version: Version,
    },
    /// A notification that the engine does not handle.
    Notification(Notification),
    /// A resource has got its first subscriber or lost its last one.
    ///
    /// Without a subscriber, [`publish`](super::Engine::publish) has no effect for the resource.
    ResourceInterest {
        /// URI of the resource, as the client spelled it.
        uri: String,
        /// Whether the resource has subscribers.
        is_subscribed: bool,
    },
    /// An outbound request has ended (legacy).
    Done {
        /// The key that [`request`](super::Engine::request) returned; stale.
        call: CallKey,
        /// The result object, or the reason why there is none.
        outcome: Result<RawJson, CallError>,
    },
    /// The peer deviated from the protocol. Nothing else is affected.
    Diagnostic {
        /// Channel of the deviation. An HTTP request that is refused by its head has none, and its id here is stale.
        channel: ChannelId,
        /// The deviation.
        diagnostic: Diagnostic,
    },
    /// A channel is closed. Reported once, as its last event. The end of an exchange is not reported.
    Closed {
        /// The channel. Its outbox can still be written; all other uses of the id are refused.
        channel: ChannelId,
        /// The reason.
        fault: Fault,
    },
}

/// The reason why a call ended before it was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CancelReason {
    /// The client cancelled the call and may have given a reason (CANC-005). Nothing more is sent for it (CANC-020).
    Client(Option<String>),
    /// The client is gone.
    Disconnected,
    /// The call exceeded [`Limits::max_call_age`](crate::Limits::max_call_age); an error was sent.
    Expired,
    /// The server is shutting down; an error was sent.
    Shutdown,
}

/// A request from a client.
///
/// It shares the memory of the received message. Keep a [`compact`](RawJson::compact) copy of data that outlives it.
#[derive(Debug)]
pub struct Call {
    pub(super) id: CallId,
    pub(super) channel: ChannelId,
    pub(super) version: Version,
    pub(super) method: Cow<'static, str>,
    pub(super) frame: Bytes,
    pub(super) params: ParamsSpans,
    /// State and input responses, if the call was delivered before.
    pub(super) retry: Option<Box<RetryContext>>,
    pub(super) caller: Caller,
    pub(super) task: CallTask,
}

impl Call {
    /// Returns the key to answer with.
    #[must_use]
    pub const fn id(&self) -> CallId {
        self.id
    }

    /// Returns the channel of the call: a byte stream, or its exchange.
    #[must_use]
    pub const fn channel(&self) -> ChannelId {
        self.channel
    }

    /// Returns the origin of the call: its party, its HTTP request, and what the application attached.
    #[must_use]
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the party for which the call is made, if it is authenticated.
    ///
    /// It is that of the request, not of the session: the scopes of one session can differ between its requests. A call
    /// keeps it to its end, also if the token expires meanwhile.
    #[must_use]
    pub const fn authorization(&self) -> Option<&Authorization> {
        self.caller.authorization()
    }

    /// Checks that the token of the request has all these scopes, or broader ones (AUTH-056).
    ///
    /// Without authorization there are no scopes to check: on a byte stream, and on a server that is not protected, the
    /// call is allowed.
    ///
    /// # Errors
    ///
    /// The error that refuses the call: answer with it ([`Engine::fail`](super::Engine::fail)). It names all scopes that
    /// the operation needs, so ask for them at once (AUTH-055).
    pub fn require_scopes<S: AsRef<str>>(&self, scopes: &[S]) -> Result<(), RpcError> {
        self.authorization().map_or(Ok(()), |party| party.require(scopes))
    }

    /// Returns the HTTP request of the call: its path, chosen fields, and its connection.
    ///
    /// `None` on byte streams, in the run of a task, which outlives its request, and for a request of HTTP+SSE that had to
    /// wait for others.
    #[must_use]
    pub fn http(&self) -> Option<&HttpRequest> {
        self.caller.http()
    }

    /// Returns the value of a type that the application attached.
    ///
    /// It may have been attached to the request, to its token ([`Identity::extension`](super::Identity::extension)), to
    /// the session or byte stream ([`Engine::set_extensions`](super::Engine::set_extensions)), or to the connection
    /// ([`ConnectionInfo::extension`](super::ConnectionInfo::extension)): the first of these that has one decides. The run of
    /// a task has those of the token alone, and none of them after a restart of the server.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.caller.extension()
    }

    /// Returns the revision of the call. Applications rarely need it.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Returns the method, for example `tools/call`.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Returns the parameter object with `_meta`, or `None` if the request has no parameters.
    #[must_use]
    pub fn params(&self) -> Option<RawJson> {
        self.slice(self.params.whole)
    }

    /// Returns the size of the parameters in bytes; 0 if there are none.
    #[must_use]
    pub fn params_len(&self) -> usize {
        self.params.whole.slice(&self.frame).map_or(0, <[u8]>::len)
    }

    /// Deserializes the parameters. Missing parameters are read as `{}`.
    ///
    /// # Errors
    ///
    /// The error response for the client, if the parameters do not fit `T`.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, RpcError> {
        parse_value(self.params.whole.slice(&self.frame).unwrap_or(b"{}"), "params")
    }

    /// Returns `_meta` of the request with the trace context (META-001, META-008).
    #[must_use]
    pub fn meta(&self) -> Option<RawJson> {
        self.slice(self.params.meta.whole)
    }

    /// Returns `_meta` of the request without the keys of the protocol (META-002); `None` if nothing is left.
    #[must_use]
    pub fn application_meta(&self) -> Option<RawJson> {
        let meta = self.meta().filter(|_| self.params.meta.has_application_keys)?;
        meta.retain_members(meta::is_unreserved_key).filter(|kept| kept.as_str() != "{}")
    }

    /// Returns whether the client asked for progress (PROG-001).
    #[must_use]
    pub const fn wants_progress(&self) -> bool {
        !self.params.meta.token.is_empty()
    }

    /// Returns what the call addresses, for messages to people: ``the tool `add` ``, or else its method.
    ///
    /// A name is cut after 64 characters.
    #[must_use]
    pub fn describe_target(&self) -> String {
        let kind = match self.method() {
            methods::TOOLS_CALL => EntryKind::Tool,
            methods::PROMPTS_GET => EntryKind::Prompt,
            methods::RESOURCES_READ => EntryKind::Resource,
            method => return alloc::format!("`{method}`"),
        };
        let member = methods::subject_member(self.method());
        let name = member.and_then(|member| self.params()?.member(member)?.string()).unwrap_or_default();
        alloc::format!("the {kind} `{}`", crate::rpc::clip(&name))
    }

    /// Returns name and arguments of a `tools/call`.
    ///
    /// # Errors
    ///
    /// The error response for the client, if name or arguments are missing or have the wrong type (TOOL-021).
    pub fn tool_call(&self) -> Result<ToolCall<'_>, RpcError> {
        let name = match self.params.name.slice(&self.frame) {
            // The usual case: a name without escapes needs no copy.
            Some([b'"', inner @ .., b'"']) if !inner.contains(&b'\\') => {
                Cow::Borrowed(core::str::from_utf8(inner).unwrap_or_default())
            }
            Some(text) => {
                json::string(text).ok_or_else(|| RpcError::invalid_params("`params.name` is not a string"))?
            }
            None => return Err(RpcError::invalid_params("`params.name` is missing")),
        };
        let arguments = self.params.arguments.slice(&self.frame).unwrap_or(b"{}");
        if arguments.first() != Some(&b'{') {
            return Err(RpcError::invalid_params("`params.arguments` is not an object"));
        }
        Ok(ToolCall { name, arguments })
    }

    /// Returns the argument object of a `tools/call` without other parameters than `name` and those that engines write; `None` for
    /// any other call.
    ///
    /// A proxy can pass such a call on without parsing its parameters.
    #[must_use]
    pub fn sole_arguments(&self) -> Option<RawJson> {
        let is_plain = self.method == methods::TOOLS_CALL && !self.params.has_others;
        self.slice(self.params.arguments).filter(|arguments| is_plain && arguments.is_object())
    }

    /// Returns how often this call was delivered before. Each [`need_input`](super::Engine::need_input) adds one.
    ///
    /// Always 0 for a modern call without sealed state ([`Config::seal`](super::Config::seal)).
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.retry.as_ref().map_or(0, |round| round.attempt)
    }

    /// Returns the state that the handler kept at an earlier delivery.
    #[must_use]
    pub fn state(&self) -> Option<&[u8]> {
        self.retry.as_ref().map(|round| &*round.state).filter(|state| !state.is_empty())
    }

    /// Returns the response to an input request of this round or an earlier one, by its key.
    ///
    /// An error means that the client refused or did not answer in time. It occurs in the legacy era only, because a
    /// modern client does not repeat the call then. Responses are returned as the client wrote them and are not
    /// validated (MRTR-020, MRTR-027).
    #[must_use]
    pub fn answer(&self, key: &str) -> Option<Result<&RawJson, &CallError>> {
        let (_, answer) = self.retry.as_ref()?.answers.iter().find(|(other, _)| **other == *key)?;
        Some(answer.as_ref())
    }

    pub(super) fn slice(&self, span: Span) -> Option<RawJson> {
        let part = span.slice(&self.frame)?;
        Some(RawJson::trusted(self.frame.slice_ref(part)))
    }
}

/// The parameters of `tools/call`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolCall<'a> {
    /// Name of the tool.
    pub name: Cow<'a, str>,
    /// The argument object as JSON.
    pub arguments: &'a [u8],
}

impl<'a> ToolCall<'a> {
    /// Returns the JSON text of an argument, which the schema of the tool describes.
    ///
    /// A program that reads its arguments so is linked without serde_json, which is 20 KiB on a device.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&'a [u8]> {
        let mut found = None;
        json::object_members(self.arguments, |key, value| {
            if key == name.as_bytes() {
                found = Some(value);
            }
        });
        found
    }

    /// Deserializes the arguments as `T`, which may borrow from them.
    ///
    /// # Errors
    ///
    /// The error response for the client. It names the argument that does not fit.
    pub fn parse<T: Deserialize<'a>>(&self) -> Result<T, RpcError> {
        let named = |e| RpcError::invalid_params(alloc::format!("`params.arguments`: {e}"));
        super::read_arguments(self.arguments).map_err(named)
    }
}

fn parse_value<'a, T: Deserialize<'a>>(text: &'a [u8], name: &str) -> Result<T, RpcError> {
    json::read(text).map_err(|e| RpcError::invalid_params(alloc::format!("`{name}`: {e}")))
}

/// A notification from a client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Notification {
    /// Channel of the notification.
    pub channel: ChannelId,
    /// Method of the notification.
    pub method: Box<str>,
    /// Parameters of the notification.
    pub params: Option<RawJson>,
}

/// A client as it describes itself. The description is not verified (META-019).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// Negotiated revision.
    pub version: Version,
    /// `Implementation` object of the client, if it sent one.
    pub info: Option<RawJson>,
    /// Capability object of the client.
    pub capabilities: RawJson,
}

impl Peer {
    /// Returns whether the client declared `capability`.
    ///
    /// ```
    /// # use mcp_proto::{Capability, server::Peer};
    /// fn may_ask_by_form(peer: &Peer) -> bool {
    ///     peer.has(Capability::Elicitation)
    /// }
    /// ```
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        Capabilities::from_json(&self.capabilities).has(capability)
    }

    /// Returns the identity of the client, read as its type, or `None` if it sent none or one without a name or version.
    ///
    /// It is for display and logs: the client chose it, and nobody verified it (META-019).
    #[must_use]
    pub fn info(&self) -> Option<Implementation> {
        self.info.as_ref()?.parse().ok()
    }

    /// Returns the settings of an extension, `{}` for none, or `None` if the client did not declare it (EXT-004).
    ///
    /// A declaration of `io.modelcontextprotocol/tasks` before 2026-07-28 has no effect (TASK-130).
    #[must_use]
    pub fn extension(&self, id: &str) -> Option<RawJson> {
        declared_extension(&self.capabilities, id, self.version)
    }
}
