//! Event streams: their messages, and the evaluation of their end.

use core::time::Duration;

use bytes::Bytes;

use super::binding::Client;
use super::config::FailureReason;
use super::event_stream::StreamYield;
use super::exchange::{CallMethod, ExchangePurpose, NextStep};
use super::exchange_table::ClientExchange;
use crate::error::HttpError;
use crate::frame::sse::SseItem;
use crate::methods;
use crate::rpc::RequestId;
use crate::rpc::envelope::{self, Kind};
use crate::slab::Key;

/// The kind of the message in an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EventMessageKind {
    Response,
    Request,
    Notification,
    /// The notification that begins a subscription.
    Acknowledgment,
    Malformed,
}

impl EventMessageKind {
    fn classify(data: &[u8], limits: &crate::Limits) -> Self {
        match envelope::parse(data, limits, None) {
            Ok(envelope) => match envelope.kind {
                Kind::Response => Self::Response,
                Kind::Request => Self::Request,
                Kind::Notification if envelope.method == methods::ACKNOWLEDGED => Self::Acknowledgment,
                Kind::Notification => Self::Notification,
            },
            Err(rejected) if rejected.is_response => Self::Response,
            Err(_) => Self::Malformed,
        }
    }
}

impl Client {
    /// Decodes one event of a stream.
    pub(super) fn decode_event(&mut self, key: Key) {
        let Some(events) = self.exchanges.get_mut(key).and_then(|x| x.events.as_mut()) else { return };
        let before = events.decoder.last_event_id().to_vec();
        let found = events.decoder.next_event();
        events.update_from_decoder();
        match found {
            None => {
                if let Some(how) = events.ended.take() {
                    if let Some(x) = self.remove(key) {
                        self.finish_event_stream(x, how);
                    }
                }
            }
            Some(found) => {
                let is_duplicate = events.is_duplicate(&before);
                self.exchanges.queue_stream(key);
                if is_duplicate {
                    return;
                }
                match found {
                    SseItem::Event(event) => self.receive_event(key, event.kind.as_deref(), event.data),
                    SseItem::TooLong { kind: Some(_), .. } => {} // SSE-001
                    SseItem::TooLong { oversize, .. } => {
                        let what = self.exchanges.get(key).map(|x| x.purpose().clone());
                        match what.as_ref().and_then(ExchangePurpose::request_id) {
                            Some(_) if oversize.recovered.is_response => {
                                if let Some(x) = self.abort(key) {
                                    self.fail_too_large(x);
                                }
                            }
                            _ => {
                                self.engine.exchanges().handle_oversize(
                                    self.now,
                                    oversize,
                                    &mut self.ended_requests,
                                );
                                self.release_answered();
                            }
                        }
                    }
                }
            }
        }
    }

    fn receive_event(&mut self, key: Key, kind: Option<&[u8]>, data: Bytes) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        if matches!(x.purpose(), ExchangePurpose::HttpSse) && !self.session.is_http_sse() {
            return self.receive_endpoint(key, kind, &data);
        }
        if kind.is_some() {
            return; // SSE-001
        }
        let is_from_lost_session = x.session_serial != self.session.serial();
        let must_classify = is_from_lost_session
            || matches!(
                x.purpose(),
                ExchangePurpose::RenewSession
                    | ExchangePurpose::RefreshTools(_)
                    | ExchangePurpose::Call { method: CallMethod::Listen, .. }
            );
        let message_kind =
            must_classify.then(|| EventMessageKind::classify(&data, self.engine.config().effective_limits()));
        // A request of another session must not be answered in this one, where its id may differ in meaning.
        if is_from_lost_session
            && matches!(message_kind, Some(EventMessageKind::Request | EventMessageKind::Malformed))
        {
            return;
        }
        if let Some(events) = &mut x.events {
            let is_acknowledgment = message_kind == Some(EventMessageKind::Acknowledgment);
            events.yielded = events.yielded.max(if is_acknowledgment {
                StreamYield::Acknowledgment
            } else {
                StreamYield::Messages
            });
        }
        let purpose = x.purpose().clone();
        match &purpose {
            ExchangePurpose::Call { id, .. } | ExchangePurpose::Resume { id, .. } => {
                self.record_attempt(&purpose, &data);
                let data = if purpose.lists_tools() { self.learn_tools(data) } else { data };
                self.deliver(data, Some(id));
                if !self.engine.awaits_response(id) {
                    self.session.record_answer();
                    self.conclude(key); // SSE-011: later events are ignored.
                }
            }
            ExchangePurpose::GetStream => {
                let may_list = self.session.answers_on_get_stream() && self.exchanges.expects_tool_list();
                let data = if may_list { self.learn_tools(data) } else { data };
                self.deliver(data, None);
            }
            ExchangePurpose::HttpSse => self.deliver(data, None),
            // A message before the response.
            ExchangePurpose::RenewSession | ExchangePurpose::RefreshTools(_)
                if message_kind != Some(EventMessageKind::Response) =>
            {
                self.deliver(data, None)
            }
            ExchangePurpose::RenewSession => {
                self.conclude(key);
                self.finish_renewal(&data);
            }
            ExchangePurpose::RefreshTools(_) => {
                if let Some(x) = self.conclude(key) {
                    self.process_tools_page(x, &data);
                }
            }
            ExchangePurpose::Message { .. }
            | ExchangePurpose::ConfirmSession
            | ExchangePurpose::DeleteSession => {}
        }
    }

    /// Passes a message to the engine.
    pub(super) fn deliver(&mut self, data: Bytes, own: Option<&RequestId>) {
        let ended = &mut self.ended_requests;
        self.engine.exchanges().handle_recorded_message(self.now, data, own, ended);
        self.release_answered();
    }

    /// Concludes the exchanges of the requests that the last message has ended.
    fn release_answered(&mut self) {
        let Some(ended) = self.ended_requests.take() else { return };
        for call in &ended.calls {
            if let Some(key) = self.exchanges.find_by_call(*call) {
                self.conclude(key);
            }
        }
        self.ended_requests = Some(ended);
    }

    /// Handles the end of an event stream after all its events.
    fn finish_event_stream(&mut self, x: ClientExchange, how: Result<(), FailureReason>) {
        let is_whole = how.is_ok();
        let ended = if matches!(x.purpose(), ExchangePurpose::GetStream) {
            "the server ended it"
        } else {
            "the event stream ended before the answer"
        };
        let reason = how.err().unwrap_or_else(|| ended.into());
        match x.purpose() {
            ExchangePurpose::Call { id, .. } | ExchangePurpose::Resume { id, .. } => {
                if !self.engine.awaits_response(id) {
                    return;
                }
                let is_negotiation = matches!(
                    x.purpose(),
                    ExchangePurpose::Call { method: CallMethod::Probe | CallMethod::Handshake, .. }
                );
                if is_negotiation && is_whole {
                    return self.exchange_failed(x, HttpError::Unanswered { status: 200 });
                }
                let can_resume =
                    self.is_legacy() && x.events.as_ref().is_some_and(|e| !e.last_event_id.is_empty());
                if can_resume && x.session_serial != self.session.serial() {
                    let id = id.clone();
                    return self.retry_or_fail(x, &id, HttpError::SessionLost);
                }
                // SSE-019, SSE-020, SSE-021
                let x = if can_resume { self.schedule_reconnect(x, true, Duration::ZERO) } else { Some(x) };
                if let Some(x) = x {
                    self.exchange_failed(x, HttpError::Lost { reason });
                }
            }
            ExchangePurpose::GetStream => {
                if self.schedule_reconnect(x, false, Duration::ZERO).is_some() {
                    self.give_up_get_stream(&reason);
                }
            }
            _ => self.exchange_failed(x, HttpError::Lost { reason }),
        }
    }

    /// Ends the subscriptions that need the GET stream, if it stays closed.
    pub(super) fn end_subscriptions_without_stream(&mut self) {
        if let Some(reason) = self.session.get_stream_error().filter(|_| self.engine.has_subscriptions()) {
            let error = HttpError::GetStreamUnavailable { reason: reason.into() };
            self.engine.exchanges().handle_change_stream_lost(self.now, &error.into());
        }
    }

    /// Schedules the reopening of a stream after at least `least`; returns the exchange if it must not be reopened.
    pub(super) fn schedule_reconnect(
        &mut self,
        mut x: ClientExchange,
        polled: bool,
        least: Duration,
    ) -> Option<ClientExchange> {
        let Some(pause) =
            x.events.as_mut().and_then(|e| e.next_delay(self.now, &self.config.reconnect, polled))
        else {
            return Some(x);
        };
        self.exchanges.insert(x.scheduled(NextStep::Reconnect, self.now + pause.max(least)));
        None
    }
}
