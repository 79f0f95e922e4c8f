//! An engine on a byte stream: newline framing, one channel, and the loop that every adapter runs.
//!
//! ```text
//!   apply input and commands in any number
//!     → poll_event until None
//!     → write transmit, consume what was written
//!     → wait for input (if wants_input), room to write, a command, or poll_timeout
//! ```

mod client;
mod server;

pub use client::Client;
pub use server::Server;

use crate::time::Instant;

/// What a driver needs to know of anything that speaks over a byte stream
///
/// The contract of every implementer:
/// - Any number of inputs and commands may come between two polls, in any order. How the input was cut never changes
///   what comes out.
/// - Input is only stored by [`handle_input`](Self::handle_input); it is decoded by `poll_event`, a bounded amount of
///   work per call. Forgetting to poll delays, and harms nothing.
/// - `now` never goes back; an older `now` counts as the last one seen.
/// - No call blocks or panics, whatever the peer sends.
pub trait Pipe {
    /// What `poll_event` yields
    type Event;

    /// Takes bytes that were read
    fn handle_input(&mut self, now: Instant, bytes: &[u8]);

    /// Says that no more bytes will come
    fn handle_eof(&mut self, now: Instant);

    /// Lets deadlines pass; calling it early or in vain does no harm
    fn handle_timeout(&mut self, now: Instant);

    /// The next event; decodes input as needed
    fn poll_event(&mut self, now: Instant) -> Option<Self::Event>;

    /// Whether to read now; false asks to let the peer wait
    fn wants_input(&self) -> bool;

    /// The bytes to write next; empty when there are none
    fn transmit(&self) -> &[u8];

    /// Notes that `n` of these bytes were written; short writes are welcome
    fn consume(&mut self, n: usize);

    /// When to call [`handle_timeout`](Self::handle_timeout)
    fn poll_timeout(&mut self) -> Option<Instant>;

    /// As [`poll_timeout`](Self::poll_timeout), without the deadline at which idle buffers are given back
    ///
    /// For a driver that pays for every wait with a deadline and keeps little in its buffers: a blocking read.
    fn poll_punctual(&mut self) -> Option<Instant>;

    /// Whether everything is over: closed, nothing in work, nothing to write, no event left
    fn is_drained(&self) -> bool;
}
