//! Sending of messages: their requests.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use bytes::Bytes;

use super::binding::{Client, MessageParts};
use super::config::{Config, Credential};
use super::exchange::{CallMethod, ExchangeId, ExchangePhase, ExchangePurpose, OutgoingRequest, RetryCounts};
use super::exchange_table::ClientExchange;
use super::session::{HttpClientSession, SendGate, is_modern};
use super::tools::{ToolHeaders, begin_first_list};
use crate::calls::outbound::OutboundCalls;
use crate::client::Peer;
use crate::draft::{Deviation, Draft};
use crate::error::HttpError;
use crate::head::Fields;
use crate::http::fields;
use crate::methods;
use crate::rpc::RequestId;
use crate::slab::Key;
use crate::version::Version;

/// Returns what the binding has to know of a method.
fn call_method(method: &str, is_negotiating: bool) -> CallMethod {
    match method {
        methods::DISCOVER if is_negotiating => CallMethod::Probe,
        methods::INITIALIZE => CallMethod::Handshake,
        methods::TOOLS_LIST => CallMethod::ListTools,
        methods::TOOLS_CALL => CallMethod::CallTool,
        methods::SUBSCRIPTIONS_LISTEN => CallMethod::Listen,
        methods::SET_LEVEL => CallMethod::SetLevel,
        methods::PING => CallMethod::Ping,
        methods::TASKS_CANCEL => CallMethod::CancelTask,
        _ => CallMethod::Other,
    }
}

impl Client {
    /// Sends a message of the engine as a POST of its own (HTTP-009, HTTP-014, HTTP-016).
    pub(super) fn send(&mut self, message: &Bytes) {
        let parts = MessageParts::parse(message);
        let method = parts.method.as_deref().unwrap_or_default();
        let mut cancelled = None;
        if let (methods::CANCELLED, Some(id)) = (method, &parts.cancelled_request) {
            // The request was not executed, so there is nothing to cancel.
            if self.exchanges.requests().take_unsent(id) {
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
        let purpose = match parts.id.clone().filter(|_| parts.method.is_some()) {
            None => ExchangePurpose::Message { initialized: method == methods::INITIALIZED },
            Some(id) => {
                let method = match call_method(method, self.engine.peer().is_none()) {
                    CallMethod::Other if self.engine.exchanges().is_long_lived(&id) => CallMethod::LongLived,
                    method => method,
                };
                ExchangePurpose::Call { id, method }
            }
        };
        let retries =
            purpose.request_id().map(|id| self.exchanges.requests().take_repeat(id)).unwrap_or_default();
        let is_awaited = |id: &&RequestId| purpose.cancels_task() || self.engine.awaits_response(id);
        if let Some(id) = purpose.request_id().filter(|id| !is_awaited(id)) {
            // Cancelled or expired before it was sent, so it must not be executed.
            return self.exchanges.requests().record_unsent(id);
        }
        match &purpose {
            ExchangePurpose::Call { method: CallMethod::Handshake, id } => {
                self.session.record_handshake(message.clone(), id.clone());
            }
            ExchangePurpose::Call { method: CallMethod::Probe, .. } => self.session.record_probe(),
            ExchangePurpose::Message { initialized: true } => self.session.await_initialized(),
            // POSTs may overtake each other, so later calls wait for the new log level.
            ExchangePurpose::Call { method: CallMethod::SetLevel, .. } => {
                self.session
                    .close_gate(SendGate::AwaitingLogLevel, self.now + self.config.get_stream_timeout);
            }
            _ => {}
        }
        let url = self.session.message_url(&self.config.endpoint);
        let x = ClientExchange::new(purpose, url, message.clone(), retries);
        if !begin_first_list(self, &x) {
            self.submit(x, Some(&parts));
        }
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
            _ => self.session.message_url(&self.config.endpoint),
        };
        self.submit(ClientExchange::new(purpose, url, body, tries), None);
    }

    /// Sends the same request again, unless it no longer waits for its answer.
    pub(super) fn resend(&mut self, x: ClientExchange) {
        if self.is_abandoned(&x) {
            return self.exchanges.record_unsent(&x);
        }
        // A message of a lost session has no meaning in the new one.
        if x.session_serial != self.session.serial() {
            match x.purpose() {
                ExchangePurpose::Message { .. } => return,
                // HTTP-072: it was meant for the lost session, whatever it has waited for since: a credential, a redirect.
                ExchangePurpose::Call { id, .. } if self.engine.exchanges().ends_with_session(id) => {
                    return self.engine.exchanges().fail_request(self.now, id, HttpError::SessionLost.into());
                }
                _ => {}
            }
        }
        self.submit(x.sent(), None);
    }

    /// Makes a request, and hands it to the pool of connections. `parts` are those of its message, if that was parsed before.
    pub(super) fn submit(&mut self, mut x: ClientExchange, parts: Option<&MessageParts<'_>>) {
        // What the request is made with, so that its refusal can be told from that of an older session or credential.
        x.session_serial = self.session.serial();
        x.credential_generation = self.credentials.generation();
        // The exchange is held before its fields are made: they would have the credential that is due.
        let Some(x) = self.authorization().hold_due(x) else { return };
        let deadline = match x.purpose() {
            ExchangePurpose::Message { .. }
            | ExchangePurpose::Call { method: CallMethod::CancelTask, .. }
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
        let fields = RequestFields {
            config: &self.config,
            draft: self.engine.config().settings.draft,
            peer: self.engine.peer(),
            session: &self.session,
            tools: &self.tools,
            credential: self.credentials.current(),
        };
        let body = if with_body { x.body.clone() } else { Bytes::new() };
        let parsed;
        let parts = match parts {
            Some(parts) => parts,
            None => {
                parsed = MessageParts::parse(&body);
                &parsed
            }
        };
        let fields = fields.of(&x, with_body, parts);
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
            // A notification of an application may have an effect each time that it arrives.
            ExchangePurpose::Message { .. } => parts.are_of_protocol_message(),
            ExchangePurpose::Call { id, .. } => self.engine.is_idempotent(id),
            // A second GET opens one more stream, and a second DELETE finds no session. Neither does harm.
            _ => !with_body,
        };
        let key = self.exchanges.insert(x.until(deadline));
        let exchange = ExchangeId(key);
        let request = OutgoingRequest { exchange, method, url, fields, body, class, idempotent };
        if let Some(request) = self.credentials.hold_for_proof(request) {
            self.exchanges.push_request(request);
        }
    }
}

// The header fields of requests.

/// Inputs of the header fields of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestFields<'c> {
    pub(super) config: &'c Config,
    pub(super) draft: Draft,
    /// The server, once it is known.
    pub(super) peer: Option<&'c Peer>,
    pub(super) session: &'c HttpClientSession,
    pub(super) tools: &'c ToolHeaders,
    pub(super) credential: Option<&'c Credential>,
}

impl RequestFields<'_> {
    /// Returns the fields of a request; `with_body` if it is a POST, whose message has these parts.
    fn of(&self, x: &ClientExchange, with_body: bool, parts: &MessageParts<'_>) -> Fields {
        let mut out = Fields::with_capacity(USUAL_FIELDS);
        // Values that do not fit into a field are omitted; only ids of the server could be such, and they were checked.
        // Without it a server may encode an answer as it likes (RFC 9110, 12.5.3).
        out.push_known(fields::ACCEPT_ENCODING, b"identity");
        match x.purpose() {
            ExchangePurpose::DeleteSession => {}
            ExchangePurpose::GetStream | ExchangePurpose::Resume { .. } | ExchangePurpose::HttpSse => {
                out.push_known(fields::ACCEPT, super::EVENT_STREAM.as_bytes()); // HTTP-048
            }
            _ => {
                out.push_known(fields::CONTENT_TYPE, super::JSON.as_bytes()); // HTTP-012
                out.push_known(fields::ACCEPT, super::JSON_OR_EVENT_STREAM.as_bytes()); // HTTP-010
            }
        }
        if let Some(credential) = self.credential {
            out.push_known(fields::AUTHORIZATION, credential.value());
        }
        out.append(&self.config.fields);
        // During the negotiation no peer is known, so the message itself says that it is modern.
        // A session that an earlier answer opened is still ended without it.
        if parts.version.is_some() || (with_body && is_modern(self.peer)) {
            self.push_modern_fields(parts, &mut out);
            return out;
        }
        let opens_session = matches!(
            x.purpose(),
            ExchangePurpose::Call { method: CallMethod::Handshake | CallMethod::Probe, .. }
                | ExchangePurpose::RenewSession
                | ExchangePurpose::HttpSse
        );
        // Before `initialize` is answered, there is neither a revision nor a session to name.
        if opens_session {
            // DEC-026
            if self.draft.contains(Deviation::SentWithInitialize) && !self.session.is_http_sse() {
                self.push_mirrored_fields(parts, &mut out);
            }
            return out;
        }
        let in_every_session = self.draft.contains(Deviation::SentVersion) && !self.session.is_http_sse();
        let names_version = |peer: &&Peer| in_every_session || peer.version >= Version::V2025_06_18;
        if let Some(peer) = self.peer.filter(names_version) {
            out.push_known(fields::PROTOCOL_VERSION, peer.version.as_str().as_bytes()); // HTTP-076, VER-039
        }
        if let Some(session) = self.session.id() {
            out.push_known(fields::SESSION_ID, session.value()); // HTTP-067
        }
        if self.session.mirrors_fields(self.config, self.draft, self.peer) {
            self.push_mirrored_fields(parts, &mut out);
        }
        // Only a GET goes on from an event; a POST begins a stream of its own.
        if let Some(events) = x.events.as_ref().filter(|e| !with_body && !e.last_event_id.is_empty()) {
            out.push_known(fields::LAST_EVENT_ID, &events.last_event_id); // SSE-021
        }
        out
    }

    /// Adds the fields of a modern request (HTTP-030 to HTTP-035, XHDR-031).
    fn push_modern_fields(&self, parts: &MessageParts<'_>, out: &mut Fields) {
        let peer = self.peer.map(|p| Cow::Borrowed(p.version.as_str()));
        // The field has to equal the revision in the body (HTTP-030), so the body comes first.
        if let Some(version) = parts.version.clone().or(peer) {
            out.push_known(fields::PROTOCOL_VERSION, version.as_bytes());
        }
        self.push_mirrored_fields(parts, out);
    }

    /// Adds the fields that repeat method, name and arguments.
    fn push_mirrored_fields(&self, parts: &MessageParts<'_>, out: &mut Fields) {
        if let Some(method) = &parts.method {
            out.push_known(fields::METHOD, fields::encode_value(&**method).as_bytes());
        }
        if let Some(name) = &parts.name {
            out.push_known(fields::NAME, fields::encode_value(&**name).as_bytes()); // XHDR-032
        }
        if parts.method.as_deref() == Some(methods::TOOLS_CALL) {
            self.tools.push_fields(parts, out);
        }
    }
}

/// Bytes that the fields of most requests take.
const USUAL_FIELDS: usize = 384;

// States of the requests of the engine in the binding: the exchange that serves each, and its retries.

/// State of a request of the engine in the binding.
#[derive(Clone, Copy, Debug, Default)]
enum RequestState {
    #[default]
    Unknown,
    /// It ended before it was sent, so its cancellation is not sent.
    Unsent { generation: u32 },
    /// It repeats an earlier request, after these retries.
    Repeated { generation: u32, retries: RetryCounts },
    /// The exchange that serves it: its own, or the one that looks up its tool.
    Served(Key),
}

/// The states of the requests of the engine, by the slots of their calls.
///
/// A state is kept until another one replaces it, or the request is looked up. What it says of a call does not hold for
/// the next call in its slot (`request_of_ended_call_is_not_taken_for_the_next_one_in_its_slot`).
#[derive(Debug, Default)]
pub(super) struct RequestStates {
    slots: Vec<RequestState>,
}

impl RequestStates {
    /// Records that a request was not executed: it was never sent, or was refused.
    pub(super) fn record_unsent(&mut self, id: &RequestId) {
        if let Some(call) = OutboundCalls::key_of(id) {
            self.set(call, RequestState::Unsent { generation: call.generation });
        }
    }

    /// Returns whether a request was not executed, and forgets that.
    pub(super) fn take_unsent(&mut self, id: &RequestId) -> bool {
        let Some(call) = OutboundCalls::key_of(id) else { return false };
        let is_unsent = matches!(self.get(call), Some(RequestState::Unsent { generation }) if *generation == call.generation);
        if is_unsent {
            self.set(call, RequestState::Unknown);
        }
        is_unsent
    }

    /// Records the retries that a new request of the engine continues.
    pub(super) fn record_repeat(&mut self, id: &RequestId, retries: RetryCounts) {
        if let Some(call) = OutboundCalls::key_of(id) {
            self.set(call, RequestState::Repeated { generation: call.generation, retries });
        }
    }

    /// Returns the retries that a request continues, and forgets them.
    pub(super) fn take_repeat(&mut self, id: &RequestId) -> RetryCounts {
        let Some(call) = OutboundCalls::key_of(id) else { return RetryCounts::default() };
        match self.get(call) {
            Some(RequestState::Repeated { generation, retries }) if *generation == call.generation => {
                let retries = *retries;
                self.set(call, RequestState::Unknown);
                retries
            }
            _ => RetryCounts::default(),
        }
    }

    /// Records that an exchange serves a call: its own, or the one that looks up its tool.
    pub(super) fn record_service(&mut self, call: Key, exchange: Key) {
        self.set(call, RequestState::Served(exchange));
    }

    /// Records that an exchange serves a call no longer.
    pub(super) fn record_end(&mut self, call: Key, exchange: Key) {
        // Another exchange may serve the call by now, a retry for example.
        if self.exchange_of(call) == Some(exchange) {
            self.set(call, RequestState::Unknown);
        }
    }

    /// Returns the exchange that serves the call in this slot.
    pub(super) fn exchange_of(&self, call: Key) -> Option<Key> {
        match self.get(call) {
            Some(RequestState::Served(exchange)) => Some(*exchange),
            _ => None,
        }
    }

    fn get(&self, call: Key) -> Option<&RequestState> {
        self.slots.get(call.slot as usize)
    }

    fn set(&mut self, call: Key, state: RequestState) {
        let at = call.slot as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, RequestState::Unknown);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = state;
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u32, generation: u32) -> RequestId {
        RequestId::int(OutboundCalls::wire_id(Key { slot, generation }))
    }

    #[test]
    fn request_of_ended_call_is_not_taken_for_the_next_one_in_its_slot() {
        let mut states = RequestStates::default();
        let retries = RetryCounts { repeats: 3, ..RetryCounts::default() };
        states.record_unsent(&id(5, 0));
        assert!(
            !states.take_unsent(&id(5, 1)) && states.take_unsent(&id(5, 0)) && !states.take_unsent(&id(5, 0))
        );
        states.record_repeat(&id(5, 1), retries);
        assert_eq!(states.take_repeat(&id(5, 0)), RetryCounts::default());
        assert_eq!(
            (states.take_repeat(&id(5, 1)), states.take_repeat(&id(5, 1))),
            (retries, RetryCounts::default())
        );
    }

    #[test]
    fn end_of_an_earlier_exchange_leaves_the_current_one() {
        let mut states = RequestStates::default();
        let [call, old, current] = [1, 2, 3].map(|slot| Key { slot, generation: 0 });
        states.record_service(call, old);
        states.record_service(call, current);
        states.record_end(call, old);
        assert_eq!(states.exchange_of(call), Some(current));
        states.record_end(call, current);
        assert_eq!(states.exchange_of(call), None);
    }
}
