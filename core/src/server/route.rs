//! Channels on which messages about a question reach the client that was asked.

use super::channel::ServerEndpoint;
use crate::slab::Key;

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
