//! State of the server engine per channel.

use alloc::collections::VecDeque;

use bytes::Bytes;

use super::authorization::{Authorization, Caller};
use super::backlog::WaitingRequests;
use super::event::Event;
use super::http_request::HttpRequest;
use super::log::SessionLog;
use super::stream::{EarlyEnd, ReadyQueue, StreamState};
use super::subscriptions::{ChannelListeners, SentChanges};
use crate::built::{Legacy, Part, Subscribing};
use crate::calls::endpoint::{Endpoint, Role};
use crate::deprecation::UsedFeatures;
use crate::extensions::Extensions;
use crate::memory::{LONG, MemoryAccount};
use crate::raw::RawJson;
use crate::slab::Key;
use crate::sync::Arc;
use crate::version::Version;

/// The endpoint of a server.
pub(super) type ServerEndpoint = Endpoint<ServerChannel>;

#[derive(Debug)]
pub(super) struct ServerChannel {
    /// Requests that wait because too many calls are in flight.
    pub(super) waiting: WaitingRequests,
    /// The session that `initialize` opened (legacy).
    pub(super) session: Part<Legacy, LegacySession>,
    /// Listeners of the subscriptions, and that of the session if it is subscribed to list changes.
    pub(super) listeners: ChannelListeners,
    /// Change notifications in the outbox; created with the first one.
    pub(super) sent_changes: Part<Subscribing, SentChanges>,
    /// The authenticated party of the channel.
    pub(super) authorization: Option<Authorization>,
    /// The HTTP request of a stream.
    pub(super) http: Option<Arc<HttpRequest>>,
    /// Values that the application attached to the session or byte stream.
    pub(super) extensions: Option<Arc<Extensions>>,
    /// Deprecated features that were reported.
    pub(super) reported_features: UsedFeatures,
    /// State as a stream of a transport with separate exchanges; default on a byte stream.
    pub(super) stream: StreamState,
}

impl ServerChannel {
    pub(super) fn new() -> Self {
        Self {
            waiting: WaitingRequests::default(),
            session: Part::NONE,
            listeners: ChannelListeners::new(),
            sent_changes: Part::NONE,
            authorization: None,
            http: None,
            extensions: None,
            reported_features: UsedFeatures::default(),
            stream: StreamState::default(),
        }
    }
}

/// Returns the legacy session of a channel or stream.
pub(super) fn session(endpoint: &ServerEndpoint, channel: Key) -> Option<&LegacySession> {
    let own = &endpoint.channels.get(channel)?.role;
    let root = own.parent().map_or(Some(own), |parent| Some(&endpoint.channels.get(parent)?.role))?;
    root.session.as_ref()
}

/// Returns the authenticated party of a channel, or of a stream; that of its session if it has none of its own.
#[inline]
pub(super) fn authorization(endpoint: &ServerEndpoint, channel: Key) -> Option<&Authorization> {
    let own = &endpoint.channels.get(channel)?.role;
    own.authorization.as_ref().or_else(|| endpoint.channels.get(own.parent()?)?.role.authorization.as_ref())
}

/// Returns the origin of a request of a channel, or of a stream; the rest is that of its session.
pub(super) fn caller(endpoint: &ServerEndpoint, channel: Key) -> Caller {
    let Some(own) = endpoint.channels.get(channel).map(|c| &c.role) else { return Caller::default() };
    let session = own.parent().and_then(|parent| endpoint.channels.get(parent)).map(|c| &c.role);
    Caller {
        // That of the request comes first, because scopes may differ between the requests of one session.
        authorization: own.authorization.as_ref().or_else(|| session?.authorization.as_ref()).cloned(),
        http: own.http.clone(),
        extensions: own.extensions.as_ref().or_else(|| session?.extensions.as_ref()).cloned(),
        is_resumed: false,
        observation: None,
        creator_ip: None,
    }
}

/// Returns the authenticated principal of a channel or stream.
pub(super) fn principal(endpoint: &ServerEndpoint, channel: Key) -> Option<&str> {
    authorization(endpoint, channel).map(Authorization::principal)
}

/// Records that the request of a stream was refused before it was delivered.
pub(super) fn mark_request_refused(endpoint: &mut ServerEndpoint, key: Key) {
    if let Some(c) = endpoint.channels.get_mut(key) {
        c.role.stream.end_early(EarlyEnd::Refused);
    }
}

/// Returns whether a channel carries one exchange.
pub(super) fn is_exchange(endpoint: &ServerEndpoint, key: Key) -> bool {
    endpoint.channels.get(key).is_some_and(|c| c.role.stream.is_exchange())
}

/// Queues the owner of a stream that has no more output.
pub(super) fn mark_stream_finished(endpoint: &mut ServerEndpoint, key: Key) {
    if let Some(c) = endpoint.channels.get_mut(key) {
        c.role.stream.queue(&mut endpoint.shared);
    }
}

impl Role for ServerChannel {
    type Shared = ReadyQueue;
    const SENDS_REQUESTS: bool = Legacy::IS_BUILT;

    fn parent(&self) -> Option<Key> {
        self.stream.parent()
    }

    fn is_reachable(&self) -> bool {
        !self.stream.has_no_get_stream()
    }

    fn request_started(&mut self) {
        self.stream.begin_request();
    }

    fn request_finished(&mut self, ready: &mut ReadyQueue) {
        self.stream.finish_request(ready);
    }

    fn error_sent(&mut self, code: i64) {
        self.stream.record_error(code);
    }

    fn message_sent(&mut self, ready: &mut ReadyQueue) {
        self.stream.queue(ready);
    }
}

/// A legacy session.
#[derive(Debug)]
pub(super) struct LegacySession {
    pub(super) version: Version,
    /// `notifications/initialized` has arrived.
    pub(super) initialized: bool,
    /// The session exists for one request only.
    pub(super) is_stateless: bool,
    /// `clientInfo`, followed by the capabilities.
    text: Bytes,
    info_len: u32,
    /// Log messages that belong to no call.
    pub(super) log: SessionLog,
    /// Bytes that are kept for the parked calls of the session.
    pub(super) parked_bytes: usize,
}

impl LegacySession {
    /// Creates a session from the parameters of `initialize`.
    pub(super) fn new(version: Version, info: &[u8], capabilities: &[u8], memory: &MemoryAccount) -> Self {
        Self {
            version,
            initialized: false,
            is_stateless: false,
            text: memory.hold_kept([info, capabilities].concat().into()),
            // Frames are shorter than 4 GiB.
            info_len: u32::try_from(info.len()).unwrap_or_default(),
            log: SessionLog::default(),
            parked_bytes: 0,
        }
    }

    /// Returns `clientInfo` and the capabilities, as JSON.
    #[cfg(feature = "http")]
    pub(super) fn texts(&self) -> (Bytes, Bytes) {
        (self.text.slice(..self.info_len as usize), self.text.slice(self.info_len as usize..))
    }

    pub(super) fn info(&self) -> Option<RawJson> {
        let text = self.text.slice(..self.info_len as usize);
        (!text.is_empty()).then(|| RawJson::trusted(text))
    }

    pub(super) fn capabilities(&self) -> RawJson {
        RawJson::trusted(self.text.slice(self.info_len as usize..))
    }
}

// Memory that a request needs before it is taken.

pub(super) const OUT_OF_MEMORY: &str = "not enough memory for the request";

/// Returns whether a request of `length` bytes has to be refused because its event, `more` bytes and the reserve are not free,
/// in one piece.
#[inline]
pub(super) fn lacks_memory(
    endpoint: &ServerEndpoint,
    events: &VecDeque<Event>,
    length: usize,
    more: usize,
) -> bool {
    let memory = &endpoint.memory;
    if !(if length < LONG { memory.takes_request() } else { memory.takes_new(0) }) {
        return true;
    }
    endpoint.limits.is_out_of_memory(next_growth(events).saturating_add(more))
}

/// Returns the bytes that the queue takes when the next event is added: this table is the largest one that grows.
fn next_growth(events: &VecDeque<Event>) -> usize {
    let grows = events.len() == events.capacity();
    // As `VecDeque` grows: to four entries at first, then twofold.
    if grows { events.capacity().saturating_mul(2).max(4) * size_of::<Event>() } else { 0 }
}

// Channels on which messages about a question reach the client that was asked.

/// Returns the channel on which a request about a question reaches the client: the stream of the question, or the GET
/// stream of the session (TASK-037). `None` without one that has room.
pub(super) fn request_route(endpoint: &ServerEndpoint, (stream, root): (Key, Key)) -> Option<Key> {
    let high_water = endpoint.limits.outbox_high_water;
    let has_room = |channel: Key| endpoint.channels.get(channel).is_some_and(|c| c.outbox.len() < high_water);
    [stream, root].into_iter().find(|channel| is_read(endpoint, *channel) && has_room(*channel))
}

/// Returns the channel on which a question is cancelled, as [`request_route`].
///
/// The stream of the question needs no room: it has at most one cancellation for each question that it carried. In a
/// session without a stream that its client reads, nothing is sent: it would stay in the outbox of the session.
pub(super) fn cancellation_route(endpoint: &ServerEndpoint, (stream, root): (Key, Key)) -> Option<Key> {
    if is_read(endpoint, stream) { Some(stream) } else { request_route(endpoint, (root, root)) }
}

/// Returns whether the client reads what is sent on a channel.
fn is_read(endpoint: &ServerEndpoint, channel: Key) -> bool {
    endpoint.channels.get(channel).is_some_and(|c| {
        !c.closed
            && c.input_end.is_none()
            && !c.role.stream.is_unreachable()
            && !c.role.stream.has_no_get_stream()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;

    // A request is taken if what the queue allocates for its event is free, so both have to agree.
    #[test]
    fn growth_of_the_event_queue_is_known_before_it_grows() {
        let mut events = VecDeque::new();
        for waiting in 0..100 {
            let (expected, before) = (next_growth(&events), events.capacity());
            events.push_back(Event::ParkedCallDropped { state: Box::default() });
            let after = events.capacity();
            let allocated = if after == before { 0 } else { after * size_of::<Event>() };
            assert_eq!(expected, allocated, "{waiting} events wait");
        }
    }
}
