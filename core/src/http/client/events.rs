//! Event streams: what stands on them, and what their end means.

use bytes::Bytes;

use super::binding::Client;
use super::config::Why;
use super::exchange::{Exchange, Method, Phase, Then, What};
use crate::error::HttpError;
use crate::frame::sse::Sse;
use crate::rpc::RequestId;
use crate::slab::Key;

impl Client {
    /// Takes one event out of a stream
    pub(super) fn decode(&mut self, key: Key) {
        let Some(events) = self.exchanges.get_mut(key).and_then(|x| x.events.as_mut()) else { return };
        if !events.queued {
            return;
        }
        let before = events.decoder.last_event_id().to_vec();
        let found = events.decoder.next_event();
        events.note();
        match found {
            None => {
                events.queued = false;
                if let Some(how) = events.ended.take() {
                    if let Some(x) = self.remove(key) {
                        self.stream_ended(x, how);
                    }
                }
            }
            Some(found) => {
                self.ready.push_back(key);
                if events.is_known(&before) {
                    return;
                }
                match found {
                    Sse::Event(event) => self.event_in(key, event.kind.as_deref(), event.data),
                    Sse::TooLong { oversize, .. } => {
                        let what = self.exchanges.get(key).map(|x| x.what.clone());
                        match what.as_ref().and_then(What::request) {
                            Some(_) if oversize.found.answers => {
                                if let Some(x) = self.abort(key) {
                                    self.too_large(x);
                                }
                            }
                            _ => self.engine.take_oversize(self.now, self.channel, oversize),
                        }
                    }
                }
            }
        }
    }

    fn event_in(&mut self, key: Key, kind: Option<&[u8]>, data: Bytes) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        if matches!(x.what, What::Sse) && self.session.post_to.is_none() {
            return self.endpoint_in(key, kind, &data);
        }
        if kind.is_some() {
            return; // SSE-001
        }
        if let Some(events) = &mut x.events {
            events.productive = true;
        }
        match x.what.clone() {
            What::Call { id, method } => {
                self.note_attempt(&What::Call { id: id.clone(), method }, &data);
                let data = if method == Method::ListTools { self.learn(data) } else { data };
                self.message_in(key, data, &id);
            }
            What::Resume { id } => self.message_in(key, data, &id),
            What::Stream | What::Sse => self.engine.take_message(self.now, self.channel, data, None),
            What::Renew => {
                self.conclude(key);
                self.renewed(&data);
            }
            What::Tools(_) => {
                if let Some(x) = self.conclude(key) {
                    self.refreshed(x, &data);
                }
            }
            What::Message { .. } | What::Renewed | What::Delete => {}
        }
    }

    /// A message on the stream of a request
    fn message_in(&mut self, key: Key, data: Bytes, id: &RequestId) {
        self.engine.take_message(self.now, self.channel, data, Some(id));
        if !self.engine.waits_for(self.channel, id) {
            self.session.renewals = 0;
            self.conclude(key); // SSE-011: what follows is of no interest.
        }
    }

    /// A stream has ended, and everything on it was read
    fn stream_ended(&mut self, mut x: Exchange, how: Result<(), Why>) {
        let why = how.err().unwrap_or_else(|| "the stream ended before it".into());
        match &x.what {
            What::Call { id, .. } | What::Resume { id } => {
                if !self.engine.waits_for(self.channel, id) {
                    return;
                }
                let resumes = self.is_legacy() && x.events.as_ref().is_some_and(|e| !e.last_id.is_empty());
                if resumes && self.pause(&mut x, true) {
                    self.park(x); // SSE-019, SSE-020, SSE-021
                    return;
                }
                self.failed(x, HttpError::Lost { why });
            }
            What::Stream => {
                if self.pause(&mut x, false) {
                    self.park(x);
                }
            }
            _ => self.failed(x, HttpError::Lost { why }),
        }
    }

    /// Lets a stream wait until it is opened again, if it is to be
    pub(super) fn pause(&mut self, x: &mut Exchange, polled: bool) -> bool {
        let Some(pause) = x.events.as_mut().and_then(|e| e.pause(self.now, &self.config.reconnect, polled))
        else {
            return false;
        };
        x.phase = Phase::Waiting(Then::Reconnect);
        x.due = Some(self.now + pause);
        true
    }
}
