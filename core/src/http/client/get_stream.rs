//! The GET stream of a legacy server, and reconnecting broken event streams.

use alloc::format;

use bytes::Bytes;

use super::binding::Client;
use super::exchange::{ClientExchange, EventStreamState, ExchangePhase, ExchangePurpose, RetryCounts};
use super::session::SendGate;
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
        let may_reopen = error.allows_reopen(was_open);
        if may_reopen {
            let max = self.max_frame();
            x.events.get_or_insert_with(|| EventStreamState::new(max).into());
            if self.schedule_reconnect(&mut x, false, error.retry_after()) {
                self.insert_exchange(x);
                return;
            }
        }
        if may_reopen || was_open {
            self.give_up_get_stream(error);
        } else {
            let reason = format!("the server does not support the GET stream: {error}");
            self.session.get_stream_error = Some(reason.into());
        }
    }

    /// Reopens an event stream.
    pub(super) fn reconnect(&mut self, x: ClientExchange) {
        let purpose = match x.purpose {
            ExchangePurpose::Call { id, .. } => ExchangePurpose::Resume { id },
            purpose => purpose,
        };
        self.submit(ClientExchange {
            purpose,
            url: self.config.endpoint.clone(),
            body: Bytes::new(),
            phase: ExchangePhase::Sent,
            ..x
        });
    }
}
