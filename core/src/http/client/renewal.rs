//! The life of a legacy session: the first messages in it, its loss and renewal, and its end.

use alloc::vec::Vec;

use bytes::Bytes;

use super::binding::Client;
use super::exchange::{CallMethod, ExchangePhase, ExchangePurpose, NextStep, RetryCounts};
use super::exchange_table::ClientExchange;
use super::message_parts::is_custom_notification;
use super::session::{self, SendGate};
use crate::diagnostic::Diagnostic;
use crate::error::{Fault, HttpError};
use crate::json::object_members;
use crate::methods;
use crate::rpc::encode;
use crate::rpc::envelope;
use crate::slab::Key;

impl Client {
    /// Returns whether the server is known to be modern.
    pub(super) fn is_modern(&self) -> bool {
        session::is_modern(self.engine.peer())
    }

    /// Returns whether the server is known to be legacy.
    pub(super) fn is_legacy(&self) -> bool {
        session::is_legacy(self.engine.peer())
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
