//! Bindings of the engines to a byte stream: newline framing and one channel.
//!
//! The caller runs this loop:
//!
//! ```text
//!   pass in input and commands, in any number and order
//!     → poll_event until it returns None
//!     → write the bytes of transmit, consume those that were written
//!     → wait for input (if wants_input), room to write, a command, or poll_timeout
//! ```

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "server")]
mod server;

#[cfg(feature = "client")]
pub use client::Client;
#[cfg(feature = "server")]
pub use server::Server;

use super::time::TimeoutReason;
use crate::time::Instant;

/// A protocol endpoint on a byte stream, as its driver sees it.
///
/// Every implementation keeps this contract:
/// - Inputs and commands may come in any number and order between two polls. The way in which the input was cut never
///   changes the output.
/// - [`handle_input`](Self::handle_input) only stores the input, and records that the peer is alive.
///   [`poll_event`](Self::poll_event) decodes it, a bounded amount per call. A missing poll delays the output and has no
///   other effect.
/// - `now` is monotonic: an older value counts as the last one.
/// - No method blocks or panics, whatever the peer sends.
///
/// # Panics
///
/// In a debug build, if the driver breaks a rule of [the contract](crate::guide::contract): if `now` goes back, if more is
/// consumed than there is, if events are never polled while deadlines pass, or if the clock stands still.
pub trait Pipe {
    /// The type that [`poll_event`](Self::poll_event) returns.
    type Event;

    /// Takes bytes that were read.
    fn handle_input(&mut self, now: Instant, bytes: &[u8]);

    /// Records that the driver does not read at present although input may arrive.
    ///
    /// Silence then proves nothing, so a keep-alive ping waits on. Drivers that stop reading for longer than a moment call
    /// it before each wait.
    fn hold_keep_alive(&mut self, now: Instant);

    /// Reports the end of the input.
    fn handle_eof(&mut self, now: Instant);

    /// Processes the deadlines that have passed. Early or spurious calls have no effect.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns the next event, decoding input as needed.
    fn poll_event(&mut self, now: Instant) -> Option<Self::Event>;

    /// Returns whether the caller should read. False applies back-pressure to the peer.
    fn wants_input(&self) -> bool;

    /// Returns the bytes to write next, or an empty slice.
    fn transmit(&self) -> &[u8];

    /// Removes the first `n` bytes of [`transmit`](Self::transmit), which were written. Short writes are allowed.
    fn consume(&mut self, n: usize);

    /// Returns when to call [`handle_timeout`](Self::handle_timeout).
    fn poll_timeout(&mut self) -> Option<Instant>;

    /// Like [`poll_timeout`](Self::poll_timeout), without the deadline at which idle buffers are freed.
    ///
    /// For a driver that pays for each wait with a deadline and buffers little: one with blocking reads.
    fn poll_timeout_without_trim(&mut self) -> Option<Instant>;

    /// Returns the reason of the deadline of [`poll_timeout`](Self::poll_timeout).
    fn timeout_reason(&mut self) -> Option<TimeoutReason>;

    /// Returns whether the connection is finished: closed, no call open, nothing to write, no event left.
    fn is_drained(&self) -> bool;
}
