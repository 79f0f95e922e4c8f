//! What a server says without being asked: which notification is for what.

use bytes::Bytes;

use super::engine::Engine;
use super::event::{Event, Notification};
use super::log::Logs;
use super::subscribe::Subscriptions;
use crate::calls::outbound::CallKey;
use crate::diagnostic::Diagnostic;
use crate::raw::RawJson;
use crate::rpc::envelope::Envelope;
use crate::slab::Key;
use crate::vocab;

/// What the application wants to be told of
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) subscriptions: Subscriptions,
    pub(super) logs: Option<Logs>,
}

impl News {
    /// Whether there is nothing to keep
    pub(super) fn is_empty(&self) -> bool {
        self.subscriptions.is_empty() && self.logs.is_none()
    }
}

impl Engine {
    pub(super) fn notification_in(&mut self, channel: Key, frame: &Bytes, envelope: &Envelope<'_>) {
        let whole = envelope.params.whole.of(frame);
        let params = whole.unwrap_or(b"{}");
        match &*envelope.method {
            vocab::PROGRESS => match self.link.progress_in(channel, params) {
                Err(diagnostic) => self.diagnose(diagnostic),
                Ok((key, progress)) => self.progress_in(key, progress),
            },
            vocab::CANCELLED => self.cancelled_in(channel, params),
            vocab::MESSAGE => self.log_in(frame, params),
            vocab::ELICITATION_COMPLETE => self.page_done(params),
            vocab::ACKNOWLEDGED => self.acknowledged_in(channel, params),
            method @ (vocab::TOOLS_CHANGED
            | vocab::PROMPTS_CHANGED
            | vocab::RESOURCES_CHANGED
            | vocab::RESOURCE_UPDATED) => self.change_in(channel, method, params),
            method => self.events.push_back(Event::Notification(Notification {
                method: method.into(),
                params: whole.map(|p| RawJson::trusted(frame.slice_ref(p))),
            })),
        }
    }

    /// A report on a call, whichever round it is in; it goes on where the round before has ended
    fn progress_in(&mut self, key: Key, news: crate::Progress) {
        let call = self.call_of(key);
        if call != key {
            match self.link.outbound.calls.get_mut(call) {
                Some(parked) if news.progress > parked.last_progress => parked.last_progress = news.progress,
                _ => return,
            }
        }
        self.progress_event(CallKey(call), news);
    }

    /// Only the newest report of a call is kept until it is asked for (PROG-013)
    fn progress_event(&mut self, call: CallKey, news: crate::Progress) {
        let unread = self.events.iter_mut().rev().find_map(|e| match e {
            Event::Progress { call: other, progress } if *other == call => Some(progress),
            _ => None,
        });
        match unread {
            Some(old) => *old = news,
            None => self.events.push_back(Event::Progress { call, progress: news }),
        }
    }

    /// The server no longer wants an answer, or ends a subscription
    fn cancelled_in(&mut self, channel: Key, params: &[u8]) {
        let Some((id, _)) = self.link.cancellation(params) else {
            return self.diagnose(Diagnostic::InvalidNotification(vocab::CANCELLED.into()));
        };
        let found = self.link.channels.get(channel).and_then(|c| self.link.inbound.find(&c.live, &id));
        match found {
            Some(key) => {
                self.link.drop_call(key);
                self.request_over(key);
            }
            None if self.listen_cancelled(channel, &id) => {}
            None => self.diagnose(Diagnostic::UnknownCancel(id)),
        }
    }
}
