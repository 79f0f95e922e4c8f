//! A legacy session as values: what the engine gives of it to be written down, and takes back in another process.

use alloc::vec::Vec;

use bytes::Bytes;

use super::channel::LegacySession;
use super::exchanges::Exchanges;
use super::log::Threshold;
use super::receive::report_session;
use crate::built::{Legacy, Part};
use crate::calls::batch::batch_answers;
use crate::json::append_one_line;
use crate::rpc::RequestId;
use crate::slab::Key;
use crate::sync::Arc;
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
        c.allows_idless_errors = state.version >= Version::V2025_11_25; // DEC-004
        let mut session = LegacySession::new(state.version, &state.info, &state.capabilities);
        session.initialized = state.is_initialized;
        if let Some(level) = state.log_level {
            session.log.set_threshold(level);
        }
        c.role.session = Part::new(marker, session);
        if state.is_initialized {
            report_session(engine, channel, state.version);
        }
        let resumed =
            engine.changes.resume_session(&mut engine.endpoint, &engine.config, channel, &state.resources);
        engine.events.extend(resumed);
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
