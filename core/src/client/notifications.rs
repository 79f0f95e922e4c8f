//! Dispatch of notifications from the server.

use bytes::Bytes;

use super::engine::Engine;
use super::event::{Event, Notification};
use super::log::LogSettings;
use super::subscribe::ActiveSubscriptions;
use crate::calls::outbound::CallKey;
use crate::diagnostic::Diagnostic;
use crate::methods;
use crate::raw::RawJson;
use crate::rpc::envelope::Envelope;
use crate::slab::Key;

/// Subscriptions and log level.
#[derive(Debug, Default)]
pub(super) struct NotificationState {
    pub(super) subscriptions: ActiveSubscriptions,
    pub(super) log_settings: Option<LogSettings>,
}

impl NotificationState {
    /// Returns whether there is nothing to keep.
    pub(super) fn is_empty(&self) -> bool {
        self.subscriptions.is_empty() && self.log_settings.is_none()
    }
}

impl Engine {
    pub(super) fn receive_notification(&mut self, channel: Key, frame: &Bytes, envelope: &Envelope<'_>) {
        let whole = envelope.params.whole.slice(frame);
        let params = whole.unwrap_or(b"{}");
        match &*envelope.method {
            methods::PROGRESS => match self.endpoint.receive_progress(channel, params) {
                Err(diagnostic) => self.diagnose(diagnostic),
                Ok((key, progress)) => self.receive_progress(key, progress),
            },
            methods::CANCELLED => self.receive_cancellation(channel, params),
            methods::MESSAGE => self.receive_log(frame, params),
            methods::ELICITATION_COMPLETE => self.receive_elicitation_complete(params),
            methods::ACKNOWLEDGED => self.receive_acknowledged(channel, params),
            method @ (methods::TOOLS_CHANGED
            | methods::PROMPTS_CHANGED
            | methods::RESOURCES_CHANGED
            | methods::RESOURCE_UPDATED) => self.receive_change(channel, method, params),
            method => self.events.push_back(Event::Notification(Notification {
                method: method.into(),
                params: whole.map(|p| RawJson::trusted(frame.slice_ref(p))),
            })),
        }
    }

    /// Handles progress of a call in any round. Values must increase across rounds.
    fn receive_progress(&mut self, key: Key, progress: crate::Progress) {
        let call = self.original_call(key);
        if call != key {
            match self.endpoint.outbound.calls.get_mut(call) {
                Some(parked) if progress.progress > parked.last_progress => {
                    parked.last_progress = progress.progress
                }
                _ => return,
            }
        }
        self.queue_progress(CallKey(call), progress);
    }

    /// Queues a progress report; it replaces an earlier one of the call that was not polled (PROG-013).
    fn queue_progress(&mut self, call: CallKey, progress: crate::Progress) {
        let unread = self.events.iter_mut().rev().find_map(|e| match e {
            Event::Progress { call: other, progress } if *other == call => Some(progress),
            _ => None,
        });
        match unread {
            Some(old) => *old = progress,
            None => self.events.push_back(Event::Progress { call, progress }),
        }
    }

    /// Handles a cancellation of a request of the server, or the end of a subscription.
    fn receive_cancellation(&mut self, channel: Key, params: &[u8]) {
        let Some((id, _)) = self.endpoint.parse_cancellation(params) else {
            return self.diagnose(Diagnostic::InvalidNotification(methods::CANCELLED.into()));
        };
        match self.endpoint.find_call(channel, &id) {
            Some(key) => {
                self.endpoint.drop_call(key);
                self.end_server_request(key);
            }
            None if self.listen_cancelled(channel, &id) => {}
            None => self.diagnose(Diagnostic::UnknownCancellation(id)),
        }
    }
}
