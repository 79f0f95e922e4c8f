//! Every bound of an HTTP/1.1 connection.

use core::time::Duration;

/// Bounds on what a peer can make one connection hold or wait for
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a head, start line included, and of the trailers of a chunked body (default 64 KiB)
    ///
    /// Reached: 431, or 414 when the request line alone is longer.
    pub max_head: usize,
    /// Fields of a head, and of the trailers (default 100; never more than 128). Reached: 431.
    pub max_fields: usize,
    /// Bytes of a body (default 16 MiB; `u64::MAX` leaves it to the caller). Reached: 413.
    ///
    /// A request that announces more is refused before its head is delivered.
    pub max_body: u64,
    /// Bytes of chunk extensions in one body (default 4 KiB). Reached: 400.
    pub max_extensions: usize,
    /// Responses 1xx to one request (default 16). Reached: [`Reason::TooManyInterim`](super::Reason).
    pub max_interim: u8,
    /// Bytes kept before `wants_input` turns false (default 64 KiB; never less than `max_head`)
    ///
    /// What is handed over in one piece while input is wanted is kept whole, so an owner that reads at most so many bytes
    /// at a time makes a connection hold at most twice this.
    pub max_buffered: usize,
    /// The longest body of a request that is read to its end after it was answered early (default 64 KiB)
    ///
    /// The connection is closed after the answer otherwise.
    pub max_drain: u64,
    /// From the first byte of a head to its last (default 10 s). Reached: 408.
    pub head_timeout: Duration,
    /// Longest pause within a body whose end can be waited for (default 30 s). Reached: 408.
    ///
    /// A client has it for bodies of a known length only: a stream may be quiet.
    pub body_idle: Duration,
    /// From the head of a request to the end of its body (default 5 min). Reached: 408.
    pub body_timeout: Duration,
    /// A connection's time without a request, at a client without a new one (default 60 s). Reached: it is closed.
    pub keep_alive: Duration,
    /// How long more is waited for, read and dropped from a client that may not have waited for its response (default 2 s,
    /// and ten times that in all), so that it gets to read that response (RFC 9112, 9.6)
    pub linger: Duration,
    /// Quiet time after which empty buffers are given back (default 1 s)
    pub idle_trim: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_head: 64 << 10,
            max_fields: 100,
            max_body: 16 << 20,
            max_extensions: 4 << 10,
            max_interim: 16,
            max_buffered: 64 << 10,
            max_drain: 64 << 10,
            head_timeout: Duration::from_secs(10),
            body_idle: Duration::from_secs(30),
            body_timeout: Duration::from_secs(300),
            keep_alive: Duration::from_secs(60),
            linger: Duration::from_secs(2),
            idle_trim: Duration::from_secs(1),
        }
    }
}

impl Limits {
    /// Bounds for a small device: about 8 KiB for one connection
    #[must_use]
    pub fn small() -> Self {
        Self {
            max_head: 2 << 10,
            max_fields: 32,
            max_body: 8 << 10,
            max_extensions: 64,
            max_buffered: 2 << 10,
            max_drain: 2 << 10,
            ..Self::default()
        }
    }

    /// Bytes that may be kept
    pub(super) fn buffered(&self) -> usize {
        self.max_buffered.max(self.max_head)
    }
}
