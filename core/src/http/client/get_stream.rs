//! The GET stream of a legacy server, and reconnecting broken event streams.

use alloc::format;
use core::fmt;

use bytes::Bytes;

use super::binding::Client;
use super::event_stream::EventStreamState;
use super::exchange::{CallMethod, ExchangePurpose, RetryCounts};
use super::exchange_table::{ClientExchange, ExchangePhase};
use super::session::SendGate;
use crate::diagnostic::Diagnostic;
use crate::error::HttpError;

impl Client {
    /// Opens the GET stream of a legacy server before the first call (HTTP-047).
    ///
    /// Calls wait until it is open: some servers send input requests on it, and drop them if it is not open. It is not
    /// opened later while a call is pending, because some servers send answers on whichever stream comes first.
    pub(super) fn open_get_stream(&mut self) {
        self.session.get_stream_error = None;
        if !self.config.opens_get_stream || self.session.message_endpoint.is_some() || !self.is_legacy() {
            return self.open_gate();
        }
        self.close_gate(SendGate::AwaitingGetStream);
        self.open_exchange(ExchangePurpose::GetStream, Bytes::new(), RetryCounts::default());
    }

    /// Handles the opening of the GET stream.
    pub(super) fn get_stream_opened(&mut self) {
        self.session.get_stream_error = None;
        if self.session.gate == SendGate::AwaitingGetStream {
            self.open_gate();
        }
    }

    /// Handles the failure to open the GET stream; a server need not support it (HTTP-049).
    pub(super) fn get_stream_failed(&mut self, mut x: ClientExchange, error: &HttpError) {
        if self.session.gate == SendGate::AwaitingGetStream {
            self.open_gate();
        }
        let was_open = x.events.as_ref().is_some_and(|e| e.was_open);
        let may_reopen = error.allows_reopen(was_open) || self.forget_expired_event(&mut x, error);
        if may_reopen {
            let max = self.max_frame();
            x.events.get_or_insert_with(|| EventStreamState::new(max).into());
            if self.schedule_reconnect(x, false, error.retry_after()).is_none() {
                return;
            }
        }
        if may_reopen || was_open {
            self.give_up_get_stream(error);
        } else {
            let reason = format!("the server does not support the GET stream: {error}");
            self.session.get_stream_error = Some(reason.into());
            self.fail_awaiting_get_stream(error);
        }
    }

    /// Reports that the GET stream stays closed.
    pub(super) fn give_up_get_stream(&mut self, reason: &dyn fmt::Display) {
        let note = format!("the GET stream is not opened again: {reason}");
        self.session.get_stream_error = Some(note.as_str().into());
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
        if !core::mem::replace(&mut self.session.answers_on_get_stream, true) {
            let note = "the server accepts requests with status 202 and answers them on the GET stream";
            self.engine.report_diagnostic(Diagnostic::Http(note.into()));
        }
        if matches!(x.purpose(), ExchangePurpose::Call { method: CallMethod::SetLevel, .. }) {
            // Later calls wait for the level, too.
            self.close_gate(SendGate::AwaitingLogLevel);
        }
        self.insert_exchange(x.awaiting_get_stream());
    }

    /// Returns whether a list of tools may come on the GET stream.
    pub(super) fn awaits_tools_on_get_stream(&self) -> bool {
        self.session.answers_on_get_stream && self.exchanges.expects_tool_list()
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

    /// Drops the last event id of the GET stream if the server refuses to go on from there (SSE-022, SSE-024).
    ///
    /// Replay is optional, and bounded where there is any. What was missed is lost, but the stream can be opened anew.
    fn forget_expired_event(&mut self, x: &mut ClientExchange, error: &HttpError) -> bool {
        let Some(events) = x.events.as_mut().filter(|events| !events.last_event_id.is_empty()) else {
            return false;
        };
        if !matches!(error, HttpError::Response(answer) if answer.status == 400) {
            return false;
        }
        events.forget_events();
        let note = "the server cannot resume the GET stream; messages may be lost";
        self.engine.report_diagnostic(Diagnostic::Http(note.into()));
        true
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
