//! Event streams: what stands on them, and what their end means.

use alloc::format;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;

use super::binding::Client;
use super::config::Why;
use super::exchange::{Brought, Exchange, Method, Phase, Then, What};
use crate::diagnostic::Diagnostic;
use crate::error::HttpError;
use crate::frame::sse::Sse;
use crate::rpc::RequestId;
use crate::rpc::envelope::{self, Kind};
use crate::slab::Key;
use crate::vocab;

/// What an event says, as far as it matters here
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Answer,
    Request,
    Notification,
    /// The notification with which a subscription begins
    Acknowledgment,
    Unreadable,
}

impl Said {
    fn of(data: &[u8], limits: &crate::Limits) -> Self {
        match envelope::parse(data, limits, None) {
            Ok(envelope) => match envelope.kind {
                Kind::Response => Self::Answer,
                Kind::Request => Self::Request,
                Kind::Notification if envelope.method == vocab::ACKNOWLEDGED => Self::Acknowledgment,
                Kind::Notification => Self::Notification,
            },
            Err(rejected) if rejected.answers => Self::Answer,
            Err(_) => Self::Unreadable,
        }
    }
}

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
                    Sse::TooLong { kind: Some(_), .. } => {} // SSE-001
                    Sse::TooLong { oversize, .. } => {
                        let what = self.exchanges.get(key).map(|x| x.what.clone());
                        match what.as_ref().and_then(What::request) {
                            Some(_) if oversize.found.answers => {
                                if let Some(x) = self.abort(key) {
                                    self.too_large(x);
                                }
                            }
                            _ => {
                                let before = self.engine.open_requests();
                                self.engine.take_oversize(self.now, self.channel, oversize);
                                self.leave_answered(before);
                            }
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
        let is_old = x.session != self.session.serial;
        let looks = is_old
            || matches!(x.what, What::Renew | What::Tools(_) | What::Call { method: Method::Listen, .. });
        let said = looks.then(|| Said::of(&data, self.engine.config().get_limits()));
        // What was asked in another session is not to be answered in this one, where its id may mean something else.
        if is_old && matches!(said, Some(Said::Request | Said::Unreadable)) {
            return;
        }
        if let Some(events) = &mut x.events {
            let begins = said == Some(Said::Acknowledgment);
            events.brought = events.brought.max(if begins { Brought::Acknowledgment } else { Brought::News });
        }
        match x.what.clone() {
            What::Call { id, method } => {
                self.note_attempt(&What::Call { id: id.clone(), method }, &data);
                let data = if method == Method::ListTools { self.learn(data) } else { data };
                self.message_in(key, data, &id);
            }
            What::Resume { id } => self.message_in(key, data, &id),
            What::Stream | What::Sse => self.hand_over(data, None),
            // What is said before the answer is not it.
            What::Renew | What::Tools(_) if said != Some(Said::Answer) => self.hand_over(data, None),
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
        self.hand_over(data, Some(id));
        if !self.engine.waits_for(self.channel, id) {
            self.session.renewals = 0;
            self.conclude(key); // SSE-011: what follows is of no interest.
        }
    }

    /// Gives a message to the engine
    fn hand_over(&mut self, data: Bytes, own: Option<&RequestId>) {
        let before = self.engine.open_requests();
        self.engine.take_message(self.now, self.channel, data, own);
        // A request that has its answer is left by whoever asks for it.
        let left = own.filter(|id| !self.engine.waits_for(self.channel, id)).map_or(0, |_| 1);
        self.leave_answered(before - left.min(before));
    }

    /// Leaves the exchanges of requests that were answered elsewhere, when fewer than `before` are open by now
    fn leave_answered(&mut self, before: usize) {
        if self.engine.open_requests() >= before {
            return;
        }
        let gone = |x: &Exchange| {
            !matches!(x.phase, Phase::Drained { .. })
                && x.what.request().is_some_and(|id| !self.engine.waits_for(self.channel, id))
        };
        let keys: Vec<Key> = self.exchanges.iter().filter(|(_, x)| gone(x)).map(|(key, _)| key).collect();
        for key in keys {
            self.conclude(key);
        }
    }

    /// A stream has ended, and everything on it was read
    fn stream_ended(&mut self, mut x: Exchange, how: Result<(), Why>) {
        let is_whole = how.is_ok();
        let ended = if matches!(x.what, What::Stream) { "it ended" } else { "the stream ended before it" };
        let why = how.err().unwrap_or_else(|| ended.into());
        match &x.what {
            What::Call { id, .. } | What::Resume { id } => {
                if !self.engine.waits_for(self.channel, id) {
                    return;
                }
                let opens = matches!(x.what, What::Call { method: Method::Probe | Method::Handshake, .. });
                if opens && is_whole {
                    return self.failed(x, HttpError::Unanswered { status: 200 });
                }
                let resumes = self.is_legacy() && x.events.as_ref().is_some_and(|e| !e.last_id.is_empty());
                if resumes && x.session != self.session.serial {
                    let id = id.clone();
                    return self.lost(x, &id, HttpError::SessionLost);
                }
                if resumes && self.pause(&mut x, true, Duration::ZERO) {
                    self.park(x); // SSE-019, SSE-020, SSE-021
                    return;
                }
                self.failed(x, HttpError::Lost { why });
            }
            What::Stream => {
                if self.pause(&mut x, false, Duration::ZERO) {
                    self.park(x);
                } else {
                    self.not_opened_again(&why);
                }
            }
            _ => self.failed(x, HttpError::Lost { why }),
        }
    }

    /// Says that nothing unasked will come any more
    pub(super) fn not_opened_again(&mut self, why: &dyn fmt::Display) {
        let note = format!("the stream on which the server speaks unasked is not opened again: {why}");
        self.session.unheard = Some(note.as_str().into());
        self.end_unheard();
        self.engine.note(Diagnostic::Http(note));
    }

    /// Ends the subscriptions that wait for what will not come
    pub(super) fn end_unheard(&mut self) {
        if let Some(why) = self.session.unheard.as_ref().filter(|_| self.engine.is_following()) {
            let error = HttpError::Unheard { why: why.clone() };
            self.engine.unasked_lost(self.now, &error.into());
        }
    }

    /// Lets a stream wait until it is opened again, `least` at least, if it is to be
    pub(super) fn pause(&mut self, x: &mut Exchange, polled: bool, least: Duration) -> bool {
        let Some(pause) = x.events.as_mut().and_then(|e| e.pause(self.now, &self.config.reconnect, polled))
        else {
            return false;
        };
        x.phase = Phase::Waiting(Then::Reconnect);
        x.due = Some(self.now + pause.max(least));
        true
    }
}
