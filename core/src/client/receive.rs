//! What a message from the server is and what becomes of it.

use alloc::borrow::Cow;
use alloc::string::String;

use bytes::Bytes;

use super::engine::Engine;
use super::event::{Event, Request};
use crate::calls::batch;
use crate::calls::inbound::{CallId, InCall};
use crate::calls::link::{Content, content};
use crate::calls::outbound::{Match, Purpose};
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault};
use crate::frame::line::Oversize;
use crate::raw::RawJson;
use crate::rpc::envelope::{self, Envelope, Kind, Malformed, Rejected};
use crate::rpc::{RequestId, RpcError, encode};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::{Era, Version};
use crate::vocab;

impl Engine {
    /// One frame: a message, a batch, or something else
    ///
    /// `own`: the request that alone may be answered by it, where the transport says which one that is.
    pub(super) fn receive(&mut self, channel: Key, frame: Bytes, own: Option<&RequestId>) {
        match content(frame) {
            (Content::Blank, _) => {}
            (Content::Array, frame) => self.receive_batch(channel, &frame, own),
            (Content::One, frame) => self.receive_one(channel, None, &frame, own),
        }
    }

    fn receive_one(&mut self, channel: Key, batch: Option<Key>, frame: &Bytes, own: Option<&RequestId>) {
        match envelope::parse(frame, &self.link.limits, None) {
            Err(rejected) => self.reject(channel, batch, rejected, frame),
            Ok(envelope) => {
                if let Some(c) = self.link.channels.get_mut(channel) {
                    c.faulty = 0;
                }
                match envelope.kind {
                    Kind::Response => self.response_in(channel, frame, &envelope, own),
                    Kind::Notification => self.notification_in(channel, frame, &envelope),
                    Kind::Request => {
                        let before = self.outbox_len();
                        self.request_in(channel, batch, frame, envelope);
                        self.owe(before);
                    }
                }
            }
        }
    }

    fn receive_batch(&mut self, channel: Key, frame: &Bytes, own: Option<&RequestId>) {
        let batches = self.peer.as_ref().is_some_and(|p| p.version == Version::V2025_03_26);
        let members = match batch::members(frame, &self.link.limits) {
            Ok(members) if batches => members,
            Ok(_) => return self.reject(channel, None, Rejected::unknown(Malformed::Batch), frame),
            Err(why) => return self.reject(channel, None, Rejected::unknown(why), frame),
        };
        let before = self.outbox_len();
        let batch = self.link.open_batch(channel);
        for member in members {
            // One of them may be the fault that was one too many.
            if self.link.channels.get(channel).is_some_and(|c| !c.closed) {
                self.receive_one(channel, Some(batch), &member, own);
            }
        }
        self.link.close_batch(batch);
        self.owe(before);
    }

    fn reject(&mut self, channel: Key, batch: Option<Key>, rejected: Rejected, frame: &[u8]) {
        // Servers print banners to stdout; that is noise, and no message to answer (STDIO-005).
        let noise =
            batch.is_none() && matches!(rejected.why, Malformed::Json { at: 0 } | Malformed::NotAnObject);
        let noise = noise
            || (matches!(rejected.why, Malformed::Json { .. } | Malformed::Utf8 { .. })
                && !frame.trim_ascii_start().starts_with(b"{"));
        if noise {
            let kept = frame.get(..self.link.limits.max_noise).unwrap_or(frame);
            let line = String::from_utf8_lossy(kept).into_owned();
            self.diagnose(Diagnostic::Noise { line, length: frame.len() });
        } else {
            self.refuse_message(channel, batch, rejected);
            return;
        }
        self.count_fault(channel);
    }

    fn refuse_message(&mut self, channel: Key, batch: Option<Key>, rejected: Rejected) {
        let before = self.outbox_len();
        // A modern client never answers (BASE-020); before the era is known it says nothing either.
        let legacy = self.peer.as_ref().is_some_and(|p| p.era() == Era::Legacy);
        let mut rejected = rejected;
        let waits =
            rejected.id.as_ref().is_some_and(|id| self.link.match_answer(channel, id) != Match::Unknown);
        if !legacy && !rejected.answers {
            // Without `asks` nothing is sent; the id still ends a call that waits for it.
            rejected.asks = false;
            rejected.answers = waits;
        }
        let answers = rejected.answers;
        let idless = !legacy && rejected.id.is_none() && !answers;
        let (diagnostic, ended) = if idless {
            (Diagnostic::Malformed { why: rejected.why, id: None, answered: false }, None)
        } else {
            let in_flight = rejected.id.as_ref().is_some_and(|id| self.link.is_live(channel, id));
            self.link.reject(channel, batch, rejected, in_flight)
        };
        // Told first: the end of the connection may follow from it.
        self.diagnose(diagnostic);
        if let Some((key, outcome)) = ended {
            self.ended(key, outcome);
        }
        self.owe(before);
        self.count_fault(channel);
    }

    fn count_fault(&mut self, channel: Key) {
        if let Some(fault) = self.link.count_fault(channel) {
            self.close_with(fault);
        }
    }

    /// Takes note of a message that was too long to keep
    pub(crate) fn handle_oversize(&mut self, now: Instant, channel: ChannelId, oversize: Oversize) {
        self.link.tick(now);
        self.link.touch();
        let rejected = self.link.too_long(oversize);
        self.refuse_message(channel.0, None, rejected);
    }

    fn response_in(&mut self, channel: Key, frame: &Bytes, envelope: &Envelope<'_>, own: Option<&RequestId>) {
        let outcome = envelope.outcome(frame);
        let Some(id) = &envelope.id else {
            if let Err(error) = outcome {
                self.diagnose(Diagnostic::PeerError(error));
            }
            return;
        };
        if own.is_some_and(|own| own != id) {
            return self.diagnose(Diagnostic::UnknownResponse(id.clone()));
        }
        match self.link.match_answer(channel, id) {
            Match::Live(key) => {
                let outcome = match outcome {
                    Err(error) => Err(CallError::Rpc(error)),
                    Ok(result) => match envelope.result_type.of(frame) {
                        Some(b"\"input_required\"") if self.is_modern() && self.may_need_input(key) => {
                            return self.input_required(key, &result); // MRTR-002, MRTR-003
                        }
                        // BASE-030, BASE-031: absent means complete; anything else is no success.
                        Some(kind) if self.is_modern() && kind != b"\"complete\"" => {
                            Err(CallError::ResultType(RawJson::trusted(Bytes::copy_from_slice(kind))))
                        }
                        _ => Ok(result),
                    },
                };
                self.ended(key, outcome);
            }
            Match::Late => self.diagnose(Diagnostic::LateResponse(id.clone())),
            Match::Unknown => self.diagnose(Diagnostic::UnknownResponse(id.clone())),
        }
    }

    /// A request of ours has its outcome: a call's is told, a question's drives the negotiation
    pub(super) fn ended(&mut self, key: Key, outcome: Result<RawJson, CallError>) {
        let Some(purpose) = self.link.outbound.calls.get(key).map(|c| c.purpose) else { return };
        match purpose {
            Purpose::Application | Purpose::Round(_) => {
                if let Err(CallError::Rpc(error)) = &outcome {
                    self.check_era(error);
                    self.note_refusal(error);
                }
                let call = match purpose {
                    Purpose::Round(_) => self.repeat_over(key),
                    _ => key,
                };
                return self.finish(call, outcome);
            }
            Purpose::Listen => return self.listen_ended(key, outcome.map(drop)),
            Purpose::Errand => return self.errand_ended(key, outcome.map(drop)),
            Purpose::Probe | Purpose::Handshake | Purpose::Input(_) => {}
        }
        let outcome = outcome.map_err(|e| match e {
            CallError::Rpc(error) => error,
            // What cannot be read is an answer all the same, of a server that is not modern.
            other => RpcError::invalid_request(alloc::format!("{other}")),
        });
        self.opening_answered(key, purpose, outcome);
    }

    /// A request from the server: only legacy ones send any
    fn request_in(&mut self, channel: Key, batch: Option<Key>, frame: &Bytes, envelope: Envelope<'_>) {
        let Envelope { id: Some(id), method, params, .. } = envelope else { return };
        let question = matches!(&*method, vocab::DISCOVER | vocab::INITIALIZE);
        if self.peer.is_none() && question && matches!(self.link.match_answer(channel, &id), Match::Live(_)) {
            return self.close_with(Fault::Echo);
        }
        let modern = match &self.peer {
            Some(peer) => peer.era() == Era::Modern,
            None => self.config.legacy().is_empty(),
        };
        if modern {
            return self.diagnose(Diagnostic::UnexpectedRequest { method: method.into(), id }); // BASE-020
        }
        if self.link.is_live(channel, &id) {
            // Whatever was answered to the second would end the first at the peer (design, 9).
            return self.diagnose(Diagnostic::DuplicateId(id));
        }
        let version = match &self.peer {
            Some(peer) => peer.version,
            // PING-001, LIFE-006: ping may come before the handshake is done.
            None => Version::V2024_11_05,
        };
        let rule = vocab::request(&method).filter(|r| r.server_sends() && r.exists_in(version));
        let declared = |gate| self.config.capabilities.has(gate);
        let method: Cow<'static, str> = match rule {
            Some(rule) if rule.name == vocab::PING => return self.answer_ping(channel, batch, &id),
            // ERR-002, ERR-021
            Some(rule) if rule.gate_in(version).is_none_or(declared) => Cow::Borrowed(rule.name),
            None if self.config.accepts_custom(&method) => Cow::Owned(method.into_owned()),
            _ => {
                let error = RpcError::method_not_found(&method);
                return self.link.send_error(channel, batch, Some(&id), &error);
            }
        };
        let token = match self.link.token(params.meta.token.of(frame)) {
            Ok(token) => token,
            Err(error) => return self.link.send_error(channel, batch, Some(&id), &error),
        };
        if self.link.inbound.calls.len() >= self.link.limits.max_live_calls as usize {
            let error = RpcError::internal("too many requests in work");
            return self.link.send_error(channel, batch, Some(&id), &error);
        }
        let params = params.whole.of(frame).map(|p| RawJson::trusted(frame.slice_ref(p)));
        // Whatever else a server may ask is input.
        let input = match rule.map(|rule| self.read_input(rule.name, params.as_ref(), version)).transpose() {
            Ok(input) => input,
            Err(error) => return self.link.send_error(channel, batch, Some(&id), &error),
        };
        let again = id.clone();
        let limits = &self.link.limits;
        let expires =
            self.link.now + if input.is_some() { limits.input_timeout } else { limits.max_call_age };
        let call = InCall {
            id,
            channel,
            version,
            cacheable: false,
            token,
            progress: None,
            expires,
            batch,
            log: 0,
            parked: None,
        };
        match self.link.begin(call) {
            None => self.diagnose(Diagnostic::DuplicateId(again)),
            Some(key) => {
                if let Some(input) = input {
                    return self.input_in(key, input);
                }
                self.events.push_back(Event::Request(Request { id: CallId(key), method, params }));
            }
        }
    }

    fn answer_ping(&mut self, channel: Key, batch: Option<Key>, id: &RequestId) {
        self.link.send_or_gather(channel, batch, Some(id), |out| {
            encode::result_head(out, id);
            out.extend_from_slice(b"{}"); // PING-002
            encode::end(out);
        });
    }
}
