//! Sending of messages: their requests.

use bytes::Bytes;

use super::binding::Client;
use super::exchange::{CallMethod, ExchangeId, ExchangePhase, ExchangePurpose, OutgoingRequest, RetryCounts};
use super::exchange_table::ClientExchange;
use super::message_parts::{MessageParts, is_protocol_message};
use super::request_fields::RequestFields;
use super::session::SendGate;
use crate::methods;
use crate::rpc::RequestId;

impl Client {
    /// Sends a message of the engine as a POST of its own (HTTP-009, HTTP-014, HTTP-016).
    pub(super) fn send(&mut self, message: Bytes) {
        let parts = MessageParts::parse(&message);
        let method = parts.method.as_deref().unwrap_or_default();
        let mut cancelled = None;
        if let (methods::CANCELLED, Some(id)) = (method, &parts.cancelled_request) {
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
                    methods::TASKS_CANCEL => CallMethod::CancelTask,
                    _ => CallMethod::Other,
                };
                ExchangePurpose::Call { id, method }
            }
        };
        let retries =
            purpose.request_id().map(|id| self.exchanges.requests().take_repeat(id)).unwrap_or_default();
        drop(parts);
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
            _ => self.session.message_url(&self.config.endpoint),
        };
        self.submit(ClientExchange::new(purpose, url, body, tries));
    }

    /// Sends the same request again, unless it no longer waits for its answer.
    pub(super) fn resend(&mut self, x: ClientExchange) {
        if self.is_abandoned(&x) {
            return self.exchanges.record_unsent(&x);
        }
        // A message of a lost session has no meaning in the new one.
        if matches!(x.purpose(), ExchangePurpose::Message { .. }) && x.session_serial != self.session.serial()
        {
            return;
        }
        self.submit(x.sent());
    }

    pub(super) fn submit(&mut self, mut x: ClientExchange) {
        x.session_serial = self.session.serial();
        x.credential_generation = self.credentials.generation();
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
        let fields = fields.of(&x, with_body);
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
        let key = self.exchanges.insert(x.until(deadline));
        let exchange = ExchangeId(key);
        let request = OutgoingRequest { exchange, method, url, fields, body, class, idempotent };
        if let Some(request) = self.credentials.hold_for_proof(self.now, request) {
            self.exchanges.push_request(request);
        }
    }
}
