//! The session of a legacy server: its id, loss, renewal and end, and the messages that wait meanwhile.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::binding::{Client, HttpTimer};
use super::exchange::{CallMethod, ExchangePurpose, RetryCounts};
use super::exchange_table::{ClientExchange, ExchangePhase, NextStep};
use super::send::MessageParts;
use super::url::Url;
use crate::diagnostic::Diagnostic;
use crate::error::{Fault, HttpError};
use crate::head;
use crate::http::fields;
use crate::json::object_members;
use crate::methods;
use crate::rpc::envelope;
use crate::rpc::{RequestId, encode};
use crate::slab::Key;
use crate::time::Instant;
use crate::version::Era;

/// Length of the longest session id that is accepted, in bytes.
const MAX_SESSION_ID: usize = 1 << 10;

/// Whether messages of the engine may be sent, and what they wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum SendGate {
    #[default]
    Open,
    /// `notifications/initialized` must be accepted first.
    AwaitingInitialized,
    /// The GET stream must be open, or refused, first.
    AwaitingGetStream,
    /// The log level must be set first.
    AwaitingLogLevel,
    /// There is no session at present.
    RenewingSession,
}

/// A session id; secret, because it authorizes requests in the session (HTTP-068, SEC-019).
pub(super) struct SessionId(Box<[u8]>);

impl SessionId {
    pub(super) fn value(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(…)")
    }
}

#[derive(Debug, Default)]
pub(super) struct HttpClientSession {
    pub(super) id: Option<SessionId>,
    /// Grows with each new session.
    pub(super) serial: u32,
    /// The `initialize` request that was sent.
    pub(super) handshake: Option<(Bytes, RequestId)>,
    /// `server/discover` was sent.
    pub(super) was_probed: bool,
    pub(super) gate: SendGate,
    pub(super) gate_deadline: Option<Instant>,
    /// The URL for messages in HTTP+SSE.
    pub(super) message_endpoint: Option<Arc<Url>>,
    /// Consecutive sessions without an answer.
    pub(super) renewals: u32,
    /// Time at which the last session was lost.
    renewed_at: Instant,
    /// Exchanges that wait for the new session.
    waiting_exchanges: Vec<ClientExchange>,
    /// The reason why the GET stream stays closed, if it does.
    pub(super) get_stream_error: Option<Box<str>>,
    /// A request was answered with 202 while the GET stream was open.
    pub(super) answers_on_get_stream: bool,
}

/// Returns whether a message is a notification that the protocol does not define.
fn is_custom_notification(message: &[u8]) -> bool {
    let parts = MessageParts::parse(message);
    parts.id.is_none() && parts.method.is_some_and(|method| !methods::is_spec_notification(&method))
}

impl HttpClientSession {
    pub(super) fn await_initialized(&mut self) {
        self.gate = SendGate::AwaitingInitialized;
    }
}

impl Client {
    /// Returns whether the server is known to be modern.
    pub(super) fn is_modern(&self) -> bool {
        self.engine.peer().is_some_and(|p| p.era() == Era::Modern)
    }

    /// Returns whether the server is known to be legacy.
    pub(super) fn is_legacy(&self) -> bool {
        self.engine.peer().is_some_and(|p| p.era() == Era::Legacy)
    }

    /// Records the session id in the response to `initialize` (HTTP-064, HTTP-066).
    pub(super) fn record_session_id(&mut self, key: Key, head: &head::ResponseHead<'_>) {
        let opens_session = self.exchanges.get(key).is_some_and(|x| {
            matches!(
                x.purpose(),
                ExchangePurpose::Call { method: CallMethod::Handshake, .. } | ExchangePurpose::RenewSession
            )
        });
        if !opens_session || self.session.message_endpoint.is_some() {
            return;
        }
        let Some(id) = head::values(head.fields, fields::SESSION_ID).next() else { return };
        if !id.is_empty() && id.len() <= MAX_SESSION_ID && id.iter().all(u8::is_ascii_graphic) {
            self.session.id = Some(SessionId(id.into()));
        } else {
            self.engine.report_diagnostic(Diagnostic::Http("the server sent an invalid session id".into()));
        }
    }

    /// Continues after a notification or response was accepted, or has finally failed.
    pub(super) fn message_accepted(&mut self, x: &ClientExchange) {
        match x.purpose() {
            ExchangePurpose::Message { initialized: true } => self.open_get_stream(),
            ExchangePurpose::ConfirmSession => {
                self.engine.exchanges().handle_session_renewed(self.now);
                self.open_get_stream();
            }
            _ => {}
        }
    }

    /// Opens the gate; exchanges that waited for the new session are sent first.
    pub(super) fn open_gate(&mut self) {
        self.session.gate = SendGate::Open;
        self.session.gate_deadline = None;
        for x in core::mem::take(&mut self.session.waiting_exchanges) {
            self.resend(x);
        }
    }

    /// Sends an exchange again as soon as the gate is open.
    fn send_when_open(&mut self, x: ClientExchange) {
        if self.session.gate == SendGate::Open {
            self.resend(x);
        } else {
            self.session.waiting_exchanges.push(x);
        }
    }

    /// Closes the gate for at most `get_stream_timeout`.
    pub(super) fn close_gate(&mut self, gate: SendGate) {
        let until = self.now + self.config.get_stream_timeout;
        self.session.gate = gate;
        self.session.gate_deadline = Some(until);
        self.arm(until, HttpTimer::Gate);
    }

    /// Opens the gate if it waited for this exchange.
    pub(super) fn exchange_ended(&mut self, x: &ClientExchange) {
        let is_level = matches!(x.purpose(), ExchangePurpose::Call { method: CallMethod::SetLevel, .. })
            && !x.is_draining();
        if is_level && self.session.gate == SendGate::AwaitingLogLevel {
            self.open_gate();
        }
    }

    // ---- loss ------------------------------------------------------------------------------------------------

    /// Returns whether a 404 for this exchange means that its session is lost (HTTP-071, HTTP-072).
    ///
    /// The first GET is excluded, because a server without a GET stream may answer it with 404.
    pub(super) fn is_session_gone(&self, x: &ClientExchange) -> bool {
        let sent = self.session.id.is_some() || x.session_serial != self.session.serial;
        sent && self.is_legacy()
            && match x.purpose() {
                ExchangePurpose::Call { method, .. } => *method != CallMethod::Handshake,
                ExchangePurpose::Message { .. }
                | ExchangePurpose::Resume { .. }
                | ExchangePurpose::ConfirmSession => true,
                ExchangePurpose::GetStream => x.events.as_ref().is_some_and(|e| e.was_open),
                _ => false,
            }
    }

    /// Handles the refusal of a request whose session is lost; the request was not executed.
    pub(super) fn handle_session_gone(&mut self, key: Key) {
        let Some(mut x) = self.conclude(key) else { return };
        let current = x.session_serial == self.session.serial;
        let lasted = self.now.saturating_duration_since(self.session.renewed_at);
        if current && self.session.renewals > 0 && lasted < self.config.reconnect.max_delay {
            // The new session was lost before its first answer.
            if let Some(id) = x.request_id() {
                self.engine.exchanges().fail_request(self.now, id, HttpError::SessionLost.into());
            }
            return self.engine.exchanges().close(self.now, Fault::Http(HttpError::SessionLost.into()));
        }
        if current {
            self.renew_session();
        }
        match x.purpose() {
            ExchangePurpose::Call { id, .. }
                if x.retries.sessions == 0 && !self.engine.is_internal_request(id) =>
            {
                x.retries.sessions += 1;
                self.send_when_open(x);
            }
            ExchangePurpose::Call { id, .. } | ExchangePurpose::Resume { id, .. } => {
                let id = id.clone();
                self.retry_or_fail(x, &id, HttpError::SessionLost);
            }
            ExchangePurpose::Message { .. } if x.retries.sessions == 0 && is_custom_notification(&x.body) => {
                x.retries.sessions += 1;
                x.session_serial = self.session.serial;
                self.send_when_open(x);
            }
            // Other messages belong to the lost session.
            _ => {}
        }
    }

    /// Opens a new session (HTTP-072).
    fn renew_session(&mut self) {
        let Some((handshake, _)) = self.session.handshake.clone() else { return };
        self.session.id = None;
        self.session.serial += 1;
        self.session.renewals += 1;
        self.session.renewed_at = self.now;
        self.session.gate = SendGate::RenewingSession;
        self.session.gate_deadline = None;
        self.engine.exchanges().handle_session_lost(self.now);
        let is_lost = |x: &ClientExchange| match x.purpose() {
            ExchangePurpose::GetStream | ExchangePurpose::Resume { .. } => !x.is_draining(),
            ExchangePurpose::Call { .. } => matches!(
                x.phase(),
                ExchangePhase::Scheduled(NextStep::Reconnect) | ExchangePhase::AwaitingGetStream
            ),
            _ => false,
        };
        for key in self.exchanges.keys_where(is_lost) {
            let Some(x) = self.abort(key) else { continue };
            if let Some(id) = x.request_id().cloned() {
                self.retry_or_fail(x, &id, HttpError::SessionLost);
            }
        }
        self.open_exchange(ExchangePurpose::RenewSession, handshake, RetryCounts::default());
    }

    /// Processes the response to `initialize` of a new session.
    pub(super) fn finish_renewal(&mut self, body: &Bytes) {
        let answer = envelope::parse(body, self.engine.config().effective_limits(), None);
        let result = answer.ok().and_then(|envelope| envelope.outcome(body).ok());
        let mut version = None;
        if let Some(result) = &result {
            object_members(result.as_bytes(), |name, value| {
                if name == b"protocolVersion" {
                    version = crate::json::string(value);
                }
            });
        }
        let same = self.engine.peer().is_some_and(|p| version.as_deref() == Some(p.version.as_str()));
        if !same {
            let note = "a new session could not be opened: the server did not answer with the same revision";
            self.engine.report_diagnostic(Diagnostic::Http(note.into()));
            return self.fail_renewal();
        }
        let mut message = Vec::new();
        encode::notification_head(&mut message, methods::INITIALIZED);
        encode::end(&mut message);
        message.pop();
        self.open_exchange(ExchangePurpose::ConfirmSession, message.into(), RetryCounts::default());
    }

    /// Closes the client because no new session could be opened.
    pub(super) fn fail_renewal(&mut self) {
        for x in core::mem::take(&mut self.session.waiting_exchanges) {
            if let Some(id) = x.request_id() {
                self.engine.exchanges().fail_request(self.now, id, HttpError::SessionLost.into());
            }
        }
        self.engine.exchanges().close(self.now, Fault::Http(HttpError::SessionLost.into()));
    }

    // ---- end -------------------------------------------------------------------------------------------------

    /// Ends the session at the server (HTTP-073); messages in flight may still arrive.
    pub(super) fn end_session(&mut self) {
        let until = self.now + self.config.close_timeout;
        for key in self.exchanges.drain_all(until) {
            self.arm(until, HttpTimer::Exchange(key));
        }
        if self.session.id.is_some() {
            self.open_exchange(ExchangePurpose::DeleteSession, Bytes::new(), RetryCounts::default());
        }
        self.session.id = None;
        self.session.waiting_exchanges.clear();
    }
}
