//! Failed exchanges: which requests are retried, and with which error a call ends.

use super::binding::Client;
use super::event_stream::{StreamYield, backoff};
use super::exchange::{CallMethod, ExchangePurpose, NextStep, RetryCounts};
use super::exchange_table::ClientExchange;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, HttpError};
use crate::rpc::RequestId;

impl HttpError {
    /// Returns the error with which a call ends.
    fn into_call_error(self) -> CallError {
        match self {
            // These statuses carry more than the error: where to log in, or when to retry.
            Self::Response(mut answer) if !matches!(answer.status, 401 | 403 | 407 | 408 | 429 | 503) => {
                match answer.error.take() {
                    Some(error) => CallError::Rpc(error),
                    None => Self::Response(answer).into(),
                }
            }
            error => error.into(),
        }
    }
}

impl Client {
    /// Handles a failed exchange.
    pub(super) fn exchange_failed(&mut self, mut x: ClientExchange, mut error: HttpError) {
        if self.engine.is_closed() {
            if let (ExchangePurpose::DeleteSession, HttpError::Redirected { status, .. }) =
                (x.purpose(), &error)
            {
                self.refused_end = Some(*status);
            }
            return;
        }
        match &mut error {
            HttpError::Response(answer) => self.redact(answer),
            #[cfg(feature = "auth")]
            HttpError::Authorization { refusal: Some(answer), .. } => self.redact(answer),
            _ => {}
        }
        match x.purpose() {
            ExchangePurpose::Call { method: CallMethod::Probe | CallMethod::Handshake, .. }
            | ExchangePurpose::HttpSse => {
                self.negotiation_failed(&x, error);
            }
            ExchangePurpose::Call { id, method } => {
                let id = id.clone();
                if !self.engine.awaits_response(&id) {
                    return;
                }
                let may_repeat = *method == CallMethod::Listen || self.engine.is_idempotent(&id);
                let policy = &self.config.reconnect;
                if *method == CallMethod::Listen {
                    let stream_yield = x.events.as_mut().map(|e| e.take_yield(self.now, policy));
                    match stream_yield.unwrap_or(StreamYield::Nothing) {
                        StreamYield::Messages => x.retries.repeats = 0,
                        // A quiet subscription is retried without limit, at growing intervals.
                        StreamYield::Acknowledgment => {
                            x.retries.repeats = x.retries.repeats.min(policy.max_attempts.saturating_sub(1));
                        }
                        StreamYield::Nothing => {}
                    }
                }
                if may_repeat && error.is_transient() && x.retries.repeats < policy.max_attempts {
                    // SUB-016, HTTP-044
                    let until = self.now + backoff(policy, x.retries.repeats).max(error.retry_after());
                    self.exchanges.insert(x.scheduled(NextStep::RetryWithNewId, until));
                    return;
                }
                self.engine.exchanges().fail_request(self.now, &id, error.into_call_error());
            }
            ExchangePurpose::Resume { id, .. } => {
                let id = id.clone();
                if x.session_serial != self.session.serial() {
                    return self.retry_or_fail(x, &id, HttpError::SessionLost);
                }
                let x = if error.allows_reopen(true) {
                    self.schedule_reconnect(x, false, error.retry_after())
                } else {
                    Some(x)
                };
                let Some(x) = x else { return };
                let lost = HttpError::Lost {
                    reason: alloc::format!("the event stream could not be resumed: {error}").into(),
                };
                self.retry_or_fail(x, &id, lost);
            }
            ExchangePurpose::Message { .. } | ExchangePurpose::ConfirmSession => {
                let policy = &self.config.reconnect;
                let may_resend =
                    x.retries.repeats < policy.max_attempts && error.retry_after() <= policy.max_delay;
                if error.is_unprocessed() && may_resend && self.exchanges.has_room_for_resend() {
                    let until = self.now + backoff(policy, x.retries.repeats).max(error.retry_after());
                    x.retries.repeats += 1;
                    self.exchanges.insert(x.scheduled(NextStep::Resend, until));
                    return;
                }
                let note = alloc::format!("the server did not accept a message: {error}");
                self.engine.report_diagnostic(Diagnostic::Http(note));
                self.message_accepted(&x);
            }
            ExchangePurpose::GetStream => self.get_stream_failed(x, &error),
            ExchangePurpose::RenewSession => {
                let note = alloc::format!("a new session could not be opened: {error}");
                self.engine.report_diagnostic(Diagnostic::Http(note));
                self.fail_renewal();
            }
            ExchangePurpose::RefreshTools(_) => self.fail_tool_refresh(x),
            ExchangePurpose::DeleteSession => {}
        }
    }

    /// Retries a call whose stream cannot be resumed, or ends it with `error`.
    pub(super) fn retry_or_fail(&mut self, mut x: ClientExchange, id: &RequestId, error: HttpError) {
        if self.engine.is_idempotent(id) && x.retries.repeats < self.config.reconnect.max_attempts {
            let until = self.now + backoff(&self.config.reconnect, x.retries.repeats);
            x.events = None;
            self.exchanges.insert(x.scheduled(NextStep::RetryWithNewId, until));
        } else {
            self.engine.exchanges().fail_request(self.now, id, error.into());
        }
    }

    /// Sends a request again under a new id.
    pub(super) fn retry_with_new_id(&mut self, x: &ClientExchange) {
        let Some(id) = x.request_id() else { return };
        match self.engine.exchanges().resend_request(self.now, id) {
            Some(again) => {
                let tries = RetryCounts { repeats: x.retries.repeats + 1, ..x.retries };
                self.exchanges.requests().record_repeat(&again, tries);
            }
            None => {
                let reason = "the exchange failed and the request could not be sent again".into();
                self.engine.exchanges().fail_request(self.now, id, HttpError::Lost { reason }.into());
            }
        }
    }
}
