//! Order in which connections are closed when the server needs a permit for another client.

use crate::time::Instant;

/// Time from which a connection may be evicted, and how little is lost by it (SEC-018).
///
/// The connection with the smallest value is evicted first: the order is by class, then by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Eviction {
    /// The class of the connection.
    pub class: EvictionClass,
    /// The time from which it may be evicted.
    pub at: Instant,
}

/// The classes of connections that may be evicted; the first one is evicted first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EvictionClass {
    /// The last response was written; the connection only lingers (RFC 9112, 9.6).
    Done,
    /// Not a single byte was received.
    Silent,
    /// The head of a request is incomplete.
    IncompleteHead,
    /// The token of the request has waited for its decision for 2 s; nobody knows yet whose request it is.
    Undecided,
    /// The client sends a body, or takes a response, slower than
    /// [`min_rate`](super::HttpLimits::min_rate).
    Slow,
    /// The connection waits for its next request.
    Idle,
}
