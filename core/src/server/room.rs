//! Memory that a request needs before it is taken.

use alloc::collections::VecDeque;

use super::channel::ServerEndpoint;
use super::event::Event;

pub(super) const OUT_OF_MEMORY: &str = "not enough memory for the request";

/// Returns whether a request has to be refused because its event, `more` bytes and the reserve are not free, in one piece.
#[inline]
pub(super) fn lacks_memory(endpoint: &ServerEndpoint, events: &VecDeque<Event>, more: usize) -> bool {
    endpoint.limits.is_out_of_memory(next_growth(events).saturating_add(more))
}

/// Returns the bytes that the queue takes when the next event is added: this table is the largest one that grows.
fn next_growth(events: &VecDeque<Event>) -> usize {
    let grows = events.len() == events.capacity();
    if grows { events.capacity().saturating_mul(2).max(4) * size_of::<Event>() } else { 0 }
}
