//! Sending of messages: their requests and header fields.

use alloc::borrow::Cow;

use bytes::Bytes;

use super::binding::Client;
use super::exchange::{CallMethod, ExchangeId, ExchangePurpose, OutgoingRequest, RetryCounts};
use super::exchange_table::{ClientExchange, ExchangePhase};
use super::session::SendGate;
use crate::head::Fields;
use crate::http::fields;
use crate::json::{object_members, string};
use crate::meta;
use crate::methods;
use crate::rpc::RequestId;
use crate::version::Version;

/// The parts of an outgoing message that its header fields repeat.
#[derive(Debug, Default)]
pub(super) struct MessageParts<'a> {
    pub(super) id: Option<RequestId>,
    pub(super) method: Option<Cow<'a, str>>,
    /// The revision in its `_meta`.
    pub(super) version: Option<Cow<'a, str>>,
    /// The name or URI that it addresses (HTTP-033, XHDR-036).
    pub(super) name: Option<Cow<'a, str>>,
    pub(super) arguments: Option<&'a [u8]>,
    /// The request that it cancels.
    cancelled_request: Option<RequestId>,
    /// It requests a page other than the first.
    pub(super) has_cursor: bool,
}

impl<'a> MessageParts<'a> {
    /// Parses a message of this client; a batch of responses has no parts.
    pub(super) fn parse(message: &'a [u8]) -> Self {
        let mut parts = Self::default();
        let mut params: &[u8] = &[];
        if message.first() != Some(&b'{') {
            return parts;
        }
        object_members(message, |name, value| match name {
            b"id" => parts.id = RequestId::from_json(value, value.len()),
            b"method" => parts.method = string(value),
            b"params" => params = value,
            _ => {}
        });
        let member = parts.method.as_deref().and_then(methods::subject_member).unwrap_or_default();
        if params.is_empty() {
            return parts;
        }
        object_members(params, |name, value| match name {
            b"_meta" => object_members(value, |name, value| {
                if name == meta::PROTOCOL_VERSION.as_bytes() {
                    parts.version = string(value);
                }
            }),
            b"arguments" => parts.arguments = Some(value),
            b"requestId" => parts.cancelled_request = RequestId::from_json(value, value.len()),
            b"cursor" => parts.has_cursor = true,
            name if name == member.as_bytes() => parts.name = string(value),
            _ => {}
        });
        parts
    }
}

/// Returns whether a message is a response, or a notification that the protocol defines.
fn is_protocol_message(message: &[u8]) -> bool {
    let method = MessageParts::parse(message).method;
    let known = [methods::INITIALIZED, methods::CANCELLED, methods::PROGRESS, methods::ROOTS_CHANGED];
    method.is_none_or(|method| known.contains(&&*method))
}

impl Client {
    /// Sends a message of the engine as a POST of its own (HTTP-009, HTTP-014, HTTP-016).
    pub(super) fn send(&mut self, message: Bytes) {
        let parts = MessageParts::parse(&message);
        let method = parts.method.as_deref().unwrap_or_default();
        let mut cancelled = None;
        if let (methods::CANCELLED, Some(id)) = (method, &parts.cancelled_request) {
            if self.exchanges.take_unsent(id) {
                return;
            }
            cancelled = self.exchanges.find(id);
            let held = |x: &ClientExchange| matches!(x.phase(), ExchangePhase::AwaitingCredential { .. });
            let refused = cancelled.and_then(|key| self.exchanges.get(key)).is_some_and(held);
            if self.is_modern() || refused {
                // CANC-016: the end of the exchange cancels the request.
                if let Some(key) = cancelled {
                    self.abort(key);
                }
                return;
            }
        }
        let initialized = method == methods::INITIALIZED;
        let purpose = match parts.id.clone().filter(|_| parts.method.is_some()) {
            None => ExchangePurpose::Message { initialized },
            Some(id) => {
                let is_negotiating = self.engine.peer().is_none();
                let method = match method {
                    methods::DISCOVER if is_negotiating => CallMethod::Probe,
                    methods::INITIALIZE => CallMethod::Handshake,
                    methods::TOOLS_LIST => CallMethod::ListTools,
                    methods::TOOLS_CALL => CallMethod::CallTool,
                    methods::SUBSCRIPTIONS_LISTEN => CallMethod::Listen,
                    methods::SET_LEVEL => CallMethod::SetLevel,
                    methods::PING => CallMethod::Ping,
                    _ => CallMethod::Other,
                };
                ExchangePurpose::Call { id, method }
            }
        };
        let retries = purpose.request_id().map(|id| self.exchanges.take_repeat(id)).unwrap_or_default();
        drop(parts);
        if let Some(id) = purpose.request_id().filter(|id| !self.engine.awaits_response(id)) {
            // Cancelled or expired before it was sent, so it must not be executed.
            return self.exchanges.record_unsent(id);
        }
        match &purpose {
            ExchangePurpose::Call { method: CallMethod::Handshake, id } => {
                self.session.handshake = Some((message.clone(), id.clone()));
            }
            ExchangePurpose::Call { method: CallMethod::Probe, .. } => self.session.was_probed = true,
            ExchangePurpose::Message { initialized: true } => self.session.await_initialized(),
            // POSTs may overtake each other, so later calls wait for the new log level.
            ExchangePurpose::Call { method: CallMethod::SetLevel, .. } => {
                self.close_gate(SendGate::AwaitingLogLevel)
            }
            _ => {}
        }
        self.open_exchange(purpose, message, retries);
        // The cancellation is sent before its exchange is aborted (HTTP-062, HTTP-063).
        if let Some(key) = cancelled {
            self.abort(key);
        }
    }

    /// Opens an exchange to the URL for its purpose.
    pub(super) fn open_exchange(&mut self, purpose: ExchangePurpose, body: Bytes, tries: RetryCounts) {
        let url = match purpose {
            ExchangePurpose::GetStream
            | ExchangePurpose::Resume { .. }
            | ExchangePurpose::HttpSse
            | ExchangePurpose::DeleteSession => self.config.endpoint.clone(),
            _ => self.post_endpoint(),
        };
        self.submit(ClientExchange::new(purpose, url, body, tries));
    }

    /// Sends the same request again, unless it no longer waits for its answer.
    pub(super) fn resend(&mut self, x: ClientExchange) {
        if self.is_abandoned(&x) {
            return self.record_unsent(&x);
        }
        // A message of a lost session has no meaning in the new one.
        if matches!(x.purpose(), ExchangePurpose::Message { .. }) && x.session_serial != self.session.serial {
            return;
        }
        self.submit(x.sent());
    }

    pub(super) fn submit(&mut self, mut x: ClientExchange) {
        x.session_serial = self.session.serial;
        x.credential_generation = self.credentials.generation();
        x.deadline = match x.purpose() {
            ExchangePurpose::Message { .. }
            | ExchangePurpose::RenewSession
            | ExchangePurpose::ConfirmSession
            | ExchangePurpose::RefreshTools(_) => {
                Some(self.now + self.engine.config().effective_limits().call_timeout)
            }
            ExchangePurpose::DeleteSession => Some(self.now + self.config.close_timeout),
            // A server with HTTP+SSE sends its `endpoint` event immediately.
            ExchangePurpose::HttpSse => {
                Some(self.now + self.engine.config().effective_limits().init_timeout / 2)
            }
            _ => None,
        };
        let (method, with_body) = match x.purpose() {
            ExchangePurpose::GetStream | ExchangePurpose::Resume { .. } | ExchangePurpose::HttpSse => {
                ("GET", false)
            }
            ExchangePurpose::DeleteSession => ("DELETE", false),
            _ => ("POST", true),
        };
        let fields = self.request_fields(&x, with_body);
        let body = if with_body { x.body.clone() } else { Bytes::new() };
        let (url, class) = (x.url.clone(), x.purpose().class());
        let idempotent = match x.purpose() {
            // A duplicate handshake leaves an unused session; a duplicate response or notification has no effect.
            ExchangePurpose::Call {
                method: CallMethod::Probe | CallMethod::Handshake | CallMethod::ListTools,
                ..
            }
            | ExchangePurpose::RenewSession
            | ExchangePurpose::ConfirmSession
            | ExchangePurpose::RefreshTools(_) => true,
            ExchangePurpose::Message { .. } => is_protocol_message(&x.body),
            ExchangePurpose::Call { id, .. } => self.engine.is_idempotent(id),
            _ => !with_body,
        };
        let key = self.insert_exchange(x);
        let exchange = ExchangeId(key);
        let request = OutgoingRequest { exchange, method, url, fields, body, class, idempotent };
        self.exchanges.push_request(request);
    }

    fn request_fields(&self, x: &ClientExchange, with_body: bool) -> Fields {
        let mut out = Fields::new();
        // Values that do not fit into a field are omitted; only ids of the server could be such, and they were checked.
        let mut push = |name: &str, value: &[u8]| out.push(name, value);
        match x.purpose() {
            ExchangePurpose::DeleteSession => {}
            ExchangePurpose::GetStream | ExchangePurpose::Resume { .. } | ExchangePurpose::HttpSse => {
                push(fields::ACCEPT, super::EVENT_STREAM.as_bytes()); // HTTP-048
            }
            _ => {
                push(fields::CONTENT_TYPE, super::JSON.as_bytes()); // HTTP-012
                push(fields::ACCEPT, super::JSON_OR_EVENT_STREAM.as_bytes()); // HTTP-010
            }
        }
        if let Some(credential) = self.credentials.current() {
            push(fields::AUTHORIZATION, credential.value());
        }
        for (name, value) in self.config.fields.iter() {
            push(name, value);
        }
        let parts = if with_body { MessageParts::parse(&x.body) } else { MessageParts::default() };
        let is_modern_notification = parts.id.is_none() && parts.method.is_some() && self.is_modern();
        if parts.version.is_some() || is_modern_notification {
            self.push_modern_fields(&parts, &mut push);
            return out;
        }
        let opens_session = matches!(
            x.purpose(),
            ExchangePurpose::Call { method: CallMethod::Handshake | CallMethod::Probe, .. }
                | ExchangePurpose::RenewSession
                | ExchangePurpose::HttpSse
        );
        if opens_session {
            return out; // DEC-026
        }
        if let Some(peer) = self.engine.peer().filter(|p| p.version >= Version::V2025_06_18) {
            push(fields::PROTOCOL_VERSION, peer.version.as_str().as_bytes()); // HTTP-076, VER-039
        }
        if let Some(session) = &self.session.id {
            push(fields::SESSION_ID, session.value()); // HTTP-067
        }
        if self.mirrors_in_session() {
            self.push_mirrored_fields(&parts, &mut push);
        }
        if let Some(events) = x.events.as_ref().filter(|e| !with_body && !e.last_event_id.is_empty()) {
            push(fields::LAST_EVENT_ID, &events.last_event_id); // SSE-021
        }
        out
    }

    /// Adds the fields of a modern request (HTTP-030 to HTTP-035, XHDR-031).
    fn push_modern_fields(&self, parts: &MessageParts<'_>, push: &mut impl FnMut(&str, &[u8]) -> bool) {
        let peer = self.engine.peer().map(|p| Cow::Borrowed(p.version.as_str()));
        if let Some(version) = parts.version.clone().or(peer) {
            push(fields::PROTOCOL_VERSION, version.as_bytes());
        }
        self.push_mirrored_fields(parts, push);
    }

    /// Returns whether requests have the mirrored fields in the legacy session, too.
    pub(super) fn mirrors_in_session(&self) -> bool {
        self.config.mirrors_in_legacy_sessions && self.is_legacy() && self.session.message_endpoint.is_none()
    }

    /// Adds the fields that repeat method, name and arguments.
    fn push_mirrored_fields(&self, parts: &MessageParts<'_>, push: &mut impl FnMut(&str, &[u8]) -> bool) {
        if let Some(method) = &parts.method {
            push(fields::METHOD, fields::encode_value(&**method).as_bytes());
        }
        if let Some(name) = &parts.name {
            push(fields::NAME, fields::encode_value(&**name).as_bytes()); // XHDR-032
        }
        if parts.method.as_deref() == Some(methods::TOOLS_CALL) {
            self.tools.push_fields(parts, push);
        }
    }
}
