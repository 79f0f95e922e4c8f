//! A legacy session as values: what the engine gives of it to be written down, and takes back in another process.

use alloc::vec::Vec;

use bytes::Bytes;

use super::authorization::Authorization;
use super::channel::{LegacySession, ServerEndpoint, authorization};
use super::exchanges::{ExchangeBuffers, Exchanges};
use super::log::Threshold;
use super::receive::{receive_initialized, report_session};
use crate::built::{Legacy, Part};
use crate::calls::batch::{batch_answers, split_batch};
use crate::calls::outbound::ResponseMatch;
use crate::json::{append_one_line, member};
use crate::methods;
use crate::rpc::RequestId;
use crate::rpc::envelope::{Envelope, Kind};
use crate::slab::Key;
use crate::sync::Arc;
use crate::time::Instant;
use crate::version::Version;

/// What the engine knows of a legacy session.
#[derive(Debug)]
pub(crate) struct SessionState {
    pub(crate) version: Version,
    /// `notifications/initialized` has arrived.
    pub(crate) is_initialized: bool,
    /// `clientInfo` and `capabilities` of the client, as JSON.
    pub(crate) info: Bytes,
    pub(crate) capabilities: Bytes,
    /// The level that the client set for log messages.
    pub(crate) log_level: Option<Threshold>,
    /// The resources that the client subscribes to.
    pub(crate) resources: Vec<Arc<str>>,
    /// The latest generation in an id of a request to the client: no later one was sent.
    pub(crate) newest_request: u32,
}

impl Exchanges<'_> {
    /// Returns what is known of a session; `None` before `initialize` was accepted, and of one that has ended.
    pub(crate) fn session_state(&mut self, channel: Key) -> Option<SessionState> {
        let engine = &mut *self.engine;
        let c = engine.endpoint.channels.get_mut(channel).filter(|c| !c.closed && c.input_end.is_none())?;
        let session = c.role.session.as_ref()?;
        let (info, capabilities) = session.texts();
        // As it is written over HTTP, it may have several lines.
        let one_line = |text: Bytes| {
            let mut line = Vec::with_capacity(text.len());
            append_one_line(&mut line, &text);
            Bytes::from(line)
        };
        let (info, capabilities) = (one_line(info), one_line(capabilities));
        Some(SessionState {
            version: session.version,
            is_initialized: session.initialized,
            info,
            capabilities,
            log_level: session.log.set_level(),
            resources: engine.changes.resources_of_session(&mut c.role.listeners),
            newest_request: engine.endpoint.outbound.calls.newest(),
        })
    }

    /// Makes a new channel the one of a session that another process, or this one, has written down.
    ///
    /// All its lists and resources count as changed, because nobody knows what happened to them meanwhile.
    pub(crate) fn restore_session(&mut self, channel: Key, state: &SessionState) {
        let engine = &mut *self.engine;
        // Ids of requests are unique in a session, whoever asks in it (BASE-005).
        engine.endpoint.outbound.calls.begin_after(state.newest_request);
        let (Some(c), Some(marker)) = (engine.endpoint.channels.get_mut(channel), Legacy::get()) else {
            return;
        };
        let memory = &engine.endpoint.memory;
        let mut session = LegacySession::new(state.version, &state.info, &state.capabilities, memory);
        session.initialized = state.is_initialized;
        if let Some(level) = state.log_level {
            session.log.set_threshold(level);
        }
        c.role.session = Part::new(marker, session);
        if state.is_initialized {
            report_session(engine, channel, state.version);
        }
        self.set_resources(channel, &state.resources, true);
    }

    /// Gives a session the state that another process has written down.
    ///
    /// `announces`: all its lists and resources count as changed.
    pub(crate) fn update_session(&mut self, channel: Key, state: &SessionState, announces: bool) {
        let c = self.engine.endpoint.channels.get_mut(channel);
        let Some(session) = c.and_then(|c| c.role.session.as_mut()) else { return };
        if let Some(level) = state.log_level {
            session.log.set_threshold(level);
        }
        if state.is_initialized {
            receive_initialized(self.engine, channel);
        }
        self.set_resources(channel, &state.resources, announces);
    }

    /// Ends the handshake of a session, whose client has sent `notifications/initialized` to another process.
    pub(crate) fn mark_initialized(&mut self, channel: Key) {
        receive_initialized(self.engine, channel);
    }

    fn set_resources(&mut self, channel: Key, resources: &[Arc<str>], announces: bool) {
        let engine = &mut *self.engine;
        let changed =
            engine.changes.set_resources(&mut engine.endpoint, &engine.config, channel, resources, announces);
        engine.events.extend(changed);
    }

    /// Returns the party of the last request of a session.
    pub(crate) fn party(&self, channel: Key) -> Option<Authorization> {
        authorization(&self.engine.endpoint, channel).cloned()
    }

    /// Makes the ids of requests of this engine differ from those of another one that begins elsewhere.
    pub(crate) fn begin_requests_after(&mut self, newest: u32) {
        self.engine.endpoint.outbound.calls.begin_after(newest);
    }

    /// Returns whether something in this engine waits for a response or notification of a session.
    ///
    /// `None` for one that nothing waits for in particular.
    pub(crate) fn awaits(&mut self, channel: Key, frame: &Bytes, envelope: &Envelope<'_>) -> Option<bool> {
        let endpoint = &mut self.engine.endpoint;
        let is_live = |endpoint: &ServerEndpoint, id: &RequestId| {
            matches!(endpoint.match_response(channel, id), ResponseMatch::Live(_))
        };
        let params = envelope.params.whole.slice(frame).unwrap_or(b"{}");
        match (envelope.kind, &*envelope.method) {
            (Kind::Request, _) => Some(true),
            // One without an id is an error that belongs to no request.
            (Kind::Response, _) => envelope.id.as_ref().map(|id| is_live(endpoint, id)),
            (Kind::Notification, methods::CANCELLED) => {
                let (id, _) = endpoint.parse_cancellation(params)?;
                Some(endpoint.find_call(channel, &id).is_some())
            }
            (Kind::Notification, methods::PROGRESS) => {
                let token = member(params, "progressToken");
                let token = token.and_then(|token| RequestId::from_json(token, endpoint.limits.max_id));
                token.map(|token| is_live(endpoint, &token))
            }
            (Kind::Notification, _) => None,
        }
    }

    /// Returns the request that a message cancels, if it is a cancellation.
    pub(crate) fn cancelled(&self, frame: &Bytes, envelope: &Envelope<'_>) -> Option<RequestId> {
        let is_one = envelope.kind == Kind::Notification && envelope.method == methods::CANCELLED;
        let params = envelope.params.whole.slice(frame).filter(|_| is_one)?;
        self.engine.endpoint.parse_cancellation(params).map(|(id, _)| id)
    }

    /// Takes a response or notification that the client of a session has sent to another process. A request is dropped.
    pub(crate) fn handle_relayed(&mut self, now: Instant, channel: Key, frame: &Bytes) {
        let is_batch = frame.first() == Some(&b'[');
        if is_batch && self.inspect_batch(None, frame).has_requests {
            return;
        }
        let envelope = self.engine.parse(frame).ok();
        let envelope = envelope.filter(|envelope| {
            envelope.kind != Kind::Request && self.awaits(channel, frame, envelope) != Some(false)
        });
        if !is_batch && envelope.is_none() {
            return;
        }
        let stream = self.open_channel(now, Some(channel), Key::NONE, ExchangeBuffers::default());
        match envelope {
            Some(envelope) => {
                self.record_message(now, stream, frame);
                self.receive(stream, frame, Ok(envelope), None);
            }
            None => self.handle_batch(now, stream, frame),
        }
        self.remove(now, stream);
    }

    /// Returns the members of a batch that are no requests.
    pub(crate) fn members_without_answer(&self, frame: &Bytes) -> Vec<Bytes> {
        let mut members = split_batch(frame, &self.engine.endpoint.limits).unwrap_or_default();
        members.retain(|member| self.engine.parse(member).is_ok_and(|e| e.kind != Kind::Request));
        members
    }

    /// Returns the messages of a channel that nobody has taken. Of a batch, the answers that are there are one more.
    pub(crate) fn unsent(&mut self, channel: Key) -> Vec<Bytes> {
        let endpoint = &self.engine.endpoint;
        let Some(c) = endpoint.channels.get(channel) else { return Vec::new() };
        let waiting: Vec<u8> = c.outbox.segments().flatten().copied().collect();
        let mut messages: Vec<Bytes> = waiting
            .split(|byte| *byte == b'\n')
            .filter(|message| !message.is_empty())
            .map(Bytes::copy_from_slice)
            .collect();
        messages.extend(batch_answers(endpoint, channel).map(Bytes::from));
        messages
    }

    /// Returns the requests of a session that have no answer, each with the owner of its exchange.
    pub(crate) fn unanswered(&mut self, channel: Key) -> Vec<(Key, RequestId)> {
        let endpoint = &mut self.engine.endpoint;
        let calls = endpoint.live_calls(channel);
        let place = |call: Key| {
            let call = endpoint.inbound.calls.get(call)?;
            Some((endpoint.channels.get(call.channel)?.role.stream.owner()?, call.id.clone()))
        };
        calls.into_iter().filter_map(place).collect()
    }
}
