//! The session of a legacy server: its id, the gate for its messages, its loss, renewal and end.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;

use super::binding::{Client, is_custom_notification};
use super::config::Config;
use super::exchange::{CallMethod, ExchangePhase, ExchangePurpose, NextStep, RetryCounts};
use super::exchange_table::ClientExchange;
use crate::client::Peer;
use crate::diagnostic::Diagnostic;
use crate::draft::{Deviation, Draft};
use crate::error::{Fault, HttpError};
use crate::json::{member, string};
use crate::methods;
use crate::rpc::{self, RequestId, envelope};
use crate::slab::Key;
use crate::sync::Arc;
use crate::time::Instant;
use crate::url::Url;
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

/// The session of a legacy server, and whether messages may be sent in it.
///
/// Invariants: only a closed gate has a deadline, and only exchanges that a closed gate holds wait.
#[derive(Debug, Default)]
pub(super) struct HttpClientSession {
    id: Option<SessionId>,
    /// Grows with each new session.
    serial: u32,
    /// The `initialize` request that was sent.
    handshake: Option<(Bytes, RequestId)>,
    /// `server/discover` was sent.
    was_probed: bool,
    gate: SendGate,
    gate_deadline: Option<Instant>,
    /// The URL for messages in HTTP+SSE.
    message_endpoint: Option<Arc<Url>>,
    /// Consecutive sessions without an answer.
    renewals: u32,
    /// Time at which the last session was lost.
    renewed_at: Instant,
    /// Exchanges that wait for the new session.
    waiting_exchanges: Vec<ClientExchange>,
    /// The reason why the GET stream stays closed, if it does.
    get_stream_error: Option<String>,
    /// A request was answered with 202 while the GET stream was open.
    answers_on_get_stream: bool,
}

impl HttpClientSession {
    // ---- negotiation -----------------------------------------------------------------------------------------

    /// Records that `server/discover` was sent.
    pub(super) const fn record_probe(&mut self) {
        self.was_probed = true;
    }

    pub(super) const fn was_probed(&self) -> bool {
        self.was_probed
    }

    /// Records the `initialize` request that was sent, and its id.
    pub(super) fn record_handshake(&mut self, message: Bytes, id: RequestId) {
        self.handshake = Some((message, id));
    }

    /// Returns the `initialize` request that was sent last.
    pub(super) const fn handshake(&self) -> Option<&(Bytes, RequestId)> {
        self.handshake.as_ref()
    }

    /// Sets the URL for messages, which makes this a session of HTTP+SSE.
    pub(super) fn set_message_endpoint(&mut self, url: Arc<Url>) {
        self.message_endpoint = Some(url);
    }

    pub(super) const fn is_http_sse(&self) -> bool {
        self.message_endpoint.is_some()
    }

    /// Returns the URL for messages; `endpoint` is that of Streamable HTTP.
    pub(super) fn message_url(&self, endpoint: &Arc<Url>) -> Arc<Url> {
        Arc::clone(self.message_endpoint.as_ref().unwrap_or(endpoint))
    }

    /// Returns whether requests have the mirrored fields in the legacy session, too.
    pub(super) fn mirrors_fields(&self, config: &Config, draft: Draft, peer: Option<&Peer>) -> bool {
        let mirrors = config.mirrors_in_legacy_sessions || sends_in_sessions(draft);
        mirrors && is_legacy(peer) && !self.is_http_sse()
    }

    // ---- identity ----------------------------------------------------------------------------------------------

    pub(super) const fn id(&self) -> Option<&SessionId> {
        self.id.as_ref()
    }

    /// Records the id in the response to `initialize` (HTTP-064, HTTP-066). Returns false if it is invalid.
    pub(super) fn record_id(&mut self, id: &[u8]) -> bool {
        let is_valid = !id.is_empty() && id.len() <= MAX_SESSION_ID && id.iter().all(u8::is_ascii_graphic);
        if is_valid {
            self.id = Some(SessionId(id.into()));
        }
        is_valid
    }

    /// Returns the number of the session.
    pub(super) const fn serial(&self) -> u32 {
        self.serial
    }

    /// Records that a request was answered in this session.
    pub(super) const fn record_answer(&mut self) {
        self.renewals = 0;
    }

    // ---- loss ------------------------------------------------------------------------------------------------

    /// Returns whether a 404 for this exchange means that its session is lost (HTTP-071, HTTP-072).
    ///
    /// The first GET is excluded, because a server without a GET stream may answer it with 404.
    pub(super) fn is_lost_for(&self, x: &ClientExchange) -> bool {
        // Without a session a 404 says that nothing is at this path. A request of an older session had one.
        (self.id.is_some() || x.session_serial != self.serial)
            && match x.purpose() {
                ExchangePurpose::Call { method, .. } => *method != CallMethod::Handshake,
                ExchangePurpose::Message { .. }
                | ExchangePurpose::Resume { .. }
                | ExchangePurpose::ConfirmSession => true,
                ExchangePurpose::GetStream => x.events.as_ref().is_some_and(|events| events.was_open()),
                _ => false,
            }
    }

    /// Returns whether the session was opened within `recently` because another one was lost, and has answered nothing.
    pub(super) fn is_unproductive(&self, now: Instant, recently: Duration) -> bool {
        self.renewals > 0 && now.saturating_duration_since(self.renewed_at) < recently
    }

    /// Begins a new session: messages wait for it. Returns the `initialize` request to send, unless none was sent before.
    pub(super) fn renew(&mut self, now: Instant) -> Option<Bytes> {
        let (handshake, _) = self.handshake.clone()?;
        self.id = None;
        self.serial += 1;
        self.renewals += 1;
        self.renewed_at = now;
        (self.gate, self.gate_deadline) = (SendGate::RenewingSession, None);
        Some(handshake)
    }

    // ---- the gate --------------------------------------------------------------------------------------------

    pub(super) const fn gate(&self) -> SendGate {
        self.gate
    }

    pub(super) fn is_open(&self) -> bool {
        self.gate == SendGate::Open
    }

    /// Lets messages wait until `notifications/initialized` was accepted or has failed.
    pub(super) const fn await_initialized(&mut self) {
        (self.gate, self.gate_deadline) = (SendGate::AwaitingInitialized, None);
    }

    /// Lets messages wait, until `deadline` at most.
    pub(super) const fn close_gate(&mut self, gate: SendGate, deadline: Instant) {
        (self.gate, self.gate_deadline) = (gate, Some(deadline));
    }

    /// Opens the gate. Returns the exchanges that waited, which are sent first.
    pub(super) fn open_gate(&mut self) -> Vec<ClientExchange> {
        (self.gate, self.gate_deadline) = (SendGate::Open, None);
        core::mem::take(&mut self.waiting_exchanges)
    }

    /// Holds an exchange until the gate opens. Returns it if the gate is open.
    pub(super) fn hold(&mut self, x: ClientExchange) -> Option<ClientExchange> {
        if self.is_open() {
            return Some(x);
        }
        self.waiting_exchanges.push(x);
        None
    }

    /// Takes the exchanges that wait for a session that cannot be opened.
    pub(super) fn take_waiting(&mut self) -> Vec<ClientExchange> {
        core::mem::take(&mut self.waiting_exchanges)
    }

    /// Returns the time at which the gate opens by itself.
    pub(super) const fn next_deadline(&self) -> Option<Instant> {
        self.gate_deadline
    }

    // ---- the GET stream --------------------------------------------------------------------------------------

    /// Records that the GET stream is open, or is tried again.
    pub(super) fn clear_get_stream_error(&mut self) {
        self.get_stream_error = None;
    }

    /// Records that the GET stream stays closed.
    pub(super) fn set_get_stream_error(&mut self, reason: impl Into<String>) {
        self.get_stream_error = Some(reason.into());
    }

    /// Returns why the GET stream stays closed, if it does.
    pub(super) fn get_stream_error(&self) -> Option<&str> {
        self.get_stream_error.as_deref()
    }

    /// Records that the server answers requests on the GET stream. Returns whether that is new.
    pub(super) const fn record_answer_on_get_stream(&mut self) -> bool {
        !core::mem::replace(&mut self.answers_on_get_stream, true)
    }
}

/// Returns whether the server is known to be modern.
pub(super) fn is_modern(peer: Option<&Peer>) -> bool {
    peer.is_some_and(|p| p.era() == Era::Modern)
}

/// Returns whether a draft is followed by which requests in sessions have the mirrored fields.
pub(super) const fn sends_in_sessions(draft: Draft) -> bool {
    draft.contains(Deviation::SentInSessions)
}

/// Returns whether the server is known to be legacy.
pub(super) fn is_legacy(peer: Option<&Peer>) -> bool {
    peer.is_some_and(|p| p.era() == Era::Legacy)
}

impl Client {
    /// Returns whether the server is known to be modern.
    pub(super) fn is_modern(&self) -> bool {
        is_modern(self.engine.peer())
    }

    /// Returns whether the server is known to be legacy.
    pub(super) fn is_legacy(&self) -> bool {
        is_legacy(self.engine.peer())
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
        for x in self.session.open_gate() {
            self.resend(x);
        }
    }

    /// Sends an exchange again as soon as the gate is open.
    fn send_when_open(&mut self, x: ClientExchange) {
        if let Some(x) = self.session.hold(x) {
            self.resend(x);
        }
    }

    /// Opens the gate if it waited for this exchange.
    pub(super) fn exchange_ended(&mut self, x: &ClientExchange) {
        let is_level = matches!(x.purpose(), ExchangePurpose::Call { method: CallMethod::SetLevel, .. })
            && !x.is_draining();
        if is_level && self.session.gate() == SendGate::AwaitingLogLevel {
            self.open_gate();
        }
    }

    // ---- loss ------------------------------------------------------------------------------------------------

    /// Handles the refusal of a request whose session is lost; the request was not executed.
    pub(super) fn handle_session_gone(&mut self, key: Key) {
        let Some(mut x) = self.conclude(key) else { return };
        let current = x.session_serial == self.session.serial();
        if current && self.session.is_unproductive(self.now, self.config.reconnect.max_delay) {
            // The new session was lost before its first answer.
            if let Some(id) = x.request_id() {
                self.engine.exchanges().fail_request(self.now, id, HttpError::SessionLost.into());
            }
            return self.engine.exchanges().close(self.now, Fault::Http(HttpError::SessionLost.into()));
        }
        // Of several requests that find the session lost, only the first one opens a new session.
        if current {
            self.renew_session();
        }
        match x.purpose() {
            ExchangePurpose::Call { id, .. }
                if x.retries.sessions == 0
                    && !self.engine.is_internal_request(id)
                    && !self.engine.exchanges().ends_with_session(id) =>
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
                // `resend` drops messages of an older session, but this one has a meaning in the new one.
                x.session_serial = self.session.serial();
                self.send_when_open(x);
            }
            // Other messages belong to the lost session.
            _ => {}
        }
    }

    /// Opens a new session (HTTP-072).
    fn renew_session(&mut self) {
        let Some(handshake) = self.session.renew(self.now) else { return };
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
        let version = result.as_ref().and_then(|result| member(result.as_bytes(), "protocolVersion"));
        let version = version.and_then(string);
        // What the engine knows of the server, and its calls in flight, hold for this revision alone.
        let same = self.engine.peer().is_some_and(|p| version.as_deref() == Some(p.version.as_str()));
        if !same {
            let note = "a new session could not be opened: the server did not answer with the same revision";
            self.engine.report_diagnostic(Diagnostic::Http(note.into()));
            return self.fail_renewal();
        }
        let mut message = Vec::new();
        rpc::notification_head(&mut message, methods::INITIALIZED);
        rpc::end(&mut message);
        message.pop();
        self.open_exchange(ExchangePurpose::ConfirmSession, message.into(), RetryCounts::default());
    }

    /// Closes the client because no new session could be opened.
    pub(super) fn fail_renewal(&mut self) {
        for x in self.session.take_waiting() {
            if let Some(id) = x.request_id() {
                self.engine.exchanges().fail_request(self.now, id, HttpError::SessionLost.into());
            }
        }
        self.engine.exchanges().close(self.now, Fault::Http(HttpError::SessionLost.into()));
    }

    // ---- end -------------------------------------------------------------------------------------------------

    /// Ends the session at the server (HTTP-073); messages in flight may still arrive.
    pub(super) fn end_session(&mut self) {
        self.exchanges.drain_all(self.now + self.config.close_timeout);
        if self.session.id().is_some() {
            self.open_exchange(ExchangePurpose::DeleteSession, Bytes::new(), RetryCounts::default());
        }
        // The id stays: what is redirected now is sent again with it.
        drop(self.session.take_waiting());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::client::exchange::RetryCounts;

    fn exchange(session: &HttpClientSession, purpose: ExchangePurpose) -> ClientExchange {
        let url = Arc::new(Url::parse("http://localhost/mcp").expect("a URL"));
        let mut x = ClientExchange::new(purpose, url, Bytes::new(), RetryCounts::default());
        x.session_serial = session.serial();
        x
    }

    fn message(session: &HttpClientSession) -> ClientExchange {
        exchange(session, ExchangePurpose::Message { initialized: false })
    }

    #[test]
    fn exchanges_wait_at_the_closed_gate_in_order() {
        let mut session = HttpClientSession::default();
        let x = message(&session);
        assert!(session.hold(x).is_some(), "it is open");
        session.close_gate(SendGate::AwaitingGetStream, Instant::from_micros(7));
        for _ in 0..2 {
            let x = message(&session);
            assert!(session.hold(x).is_none());
        }
        assert_eq!(session.next_deadline(), Some(Instant::from_micros(7)));
        assert_eq!((session.open_gate().len(), session.next_deadline()), (2, None));
        assert!(session.is_open() && session.take_waiting().is_empty());
        session.close_gate(SendGate::AwaitingGetStream, Instant::from_micros(9));
        session.await_initialized();
        assert_eq!(session.next_deadline(), None, "no deadline of an earlier wait is left");
    }

    #[test]
    fn renewed_session_is_unproductive_until_its_first_answer() {
        let (mut session, now, recently) =
            (HttpClientSession::default(), Instant::from_micros(5), Duration::from_secs(1));
        assert!(session.renew(now).is_none(), "there was no handshake");
        session.record_handshake(Bytes::from_static(b"{}"), RequestId::int(1));
        assert!(session.record_id(b"abc") && !session.is_unproductive(now, recently));
        let before = message(&session);
        assert_eq!(session.renew(now), Some(Bytes::from_static(b"{}")));
        assert!(session.id().is_none() && session.gate() == SendGate::RenewingSession);
        assert!(session.is_lost_for(&before), "it was sent in the lost session");
        let current = message(&session);
        assert!(!session.is_lost_for(&current), "the new session has no id yet");
        assert!(session.is_unproductive(now, recently) && !session.is_unproductive(now + recently, recently));
        session.record_answer();
        assert!(!session.is_unproductive(now, recently));
    }

    // covers: HTTP-066
    #[test]
    fn session_id_must_be_visible_ascii() {
        let mut session = HttpClientSession::default();
        for id in [&b""[..], b"a b", b"a\x7f", "\u{e9}".as_bytes(), &[b'a'; MAX_SESSION_ID + 1]] {
            assert!(!session.record_id(id), "{id:?}");
        }
        assert!(session.id().is_none());
        assert!(session.record_id(&[b'a'; MAX_SESSION_ID]) && session.id().is_some());
    }
}
