//! The GET stream of a legacy server, and reconnecting broken event streams.

use alloc::format;
use core::fmt;

use bytes::Bytes;

use super::binding::{Client, max_frame};
use super::event_stream::EventStreamState;
use super::exchange::{CallMethod, ExchangePhase, ExchangePurpose, RetryCounts};
use super::exchange_table::ClientExchange;
use super::session::SendGate;
use crate::diagnostic::Diagnostic;
use crate::error::HttpError;

impl Client {
    /// Opens the GET stream of a legacy server before the first call (HTTP-047).
    ///
    /// Calls wait until it is open: some servers send input requests on it, and drop them if it is not open. It is not
    /// opened later while a call is pending, because some servers send answers on whichever stream comes first.
    pub(super) fn open_get_stream(&mut self) {
        self.session.clear_get_stream_error();
        if !self.config.opens_get_stream || self.session.is_http_sse() || !self.is_legacy() {
            return self.open_gate();
        }
        self.session.close_gate(SendGate::AwaitingGetStream, self.now + self.config.get_stream_timeout);
        self.open_exchange(ExchangePurpose::GetStream, Bytes::new(), RetryCounts::default());
    }

    /// Handles the failure to open the GET stream; a server need not support it (HTTP-049).
    pub(super) fn get_stream_failed(&mut self, mut x: ClientExchange, error: &HttpError) {
        if self.session.gate() == SendGate::AwaitingGetStream {
            self.open_gate();
        }
        let was_open = x.events.as_ref().is_some_and(|e| e.was_open);
        let mut may_reopen = error.allows_reopen(was_open);
        // SSE-022, SSE-024
        if !may_reopen && error.refuses_resumption() && x.events.as_mut().is_some_and(|e| e.forget_events()) {
            let note = "the server cannot resume the GET stream; messages may be lost";
            self.engine.report_diagnostic(Diagnostic::Http(note.into()));
            may_reopen = true;
        }
        if may_reopen {
            let max = max_frame(&self.engine);
            x.events.get_or_insert_with(|| EventStreamState::new(max).into());
            if self.schedule_reconnect(x, false, error.retry_after()).is_none() {
                return;
            }
        }
        if may_reopen || was_open {
            self.give_up_get_stream(error);
        } else {
            let reason = format!("the server does not support the GET stream: {error}");
            self.session.set_get_stream_error(reason);
            self.fail_awaiting_get_stream(error);
        }
    }

    /// Reports that the GET stream stays closed.
    pub(super) fn give_up_get_stream(&mut self, reason: &dyn fmt::Display) {
        let note = format!("the GET stream is not opened again: {reason}");
        self.session.set_get_stream_error(note.as_str());
        self.end_subscriptions_without_stream();
        self.fail_awaiting_get_stream(reason);
        self.engine.report_diagnostic(Diagnostic::Http(note));
    }

    // ---- calls that are answered there -----------------------------------------------------------------------

    /// Returns whether a call that was answered with 202 may get its response on the GET stream.
    ///
    /// A response belongs on the stream of its request (HTTP-021, HTTP-051), but some servers have one stream for all.
    /// Without a GET stream the response cannot arrive.
    pub(super) fn may_answer_on_get_stream(&self, x: &ClientExchange) -> bool {
        self.is_legacy() && x.request_id().is_some() && self.exchanges.has_get_stream(x.session_serial)
    }

    /// Leaves a call to the GET stream. It ends with its response there, with the stream, or by its own time-out.
    pub(super) fn await_get_stream(&mut self, x: ClientExchange) {
        if self.session.record_answer_on_get_stream() {
            let note = "the server accepts requests with status 202 and answers them on the GET stream";
            self.engine.report_diagnostic(Diagnostic::Http(note.into()));
        }
        if matches!(x.purpose(), ExchangePurpose::Call { method: CallMethod::SetLevel, .. }) {
            // Later calls wait for the level, too.
            self.session.close_gate(SendGate::AwaitingLogLevel, self.now + self.config.get_stream_timeout);
        }
        self.exchanges.insert(x.awaiting_get_stream());
    }

    /// Ends the calls that wait for the GET stream, which stays closed.
    fn fail_awaiting_get_stream(&mut self, reason: &dyn fmt::Display) {
        for key in self.exchanges.keys_where(|x| matches!(x.phase(), ExchangePhase::AwaitingGetStream)) {
            let Some(x) = self.remove(key) else { continue };
            let Some(id) = x.request_id().cloned() else { continue };
            let reason = format!("the GET stream, where the answer was expected, stays closed: {reason}");
            self.retry_or_fail(x, &id, HttpError::Lost { reason: reason.into() });
        }
    }

    /// Reopens an event stream.
    pub(super) fn reconnect(&mut self, x: ClientExchange) {
        let purpose = match x.purpose().clone() {
            ExchangePurpose::Call { id, method } => ExchangePurpose::Resume { id, method },
            purpose => purpose,
        };
        let mut x = x.sent_as(purpose);
        (x.url, x.body) = (self.config.endpoint.clone(), Bytes::new());
        self.submit(x);
    }
}
