//! Every bound of the core, in one place: what it is, its default, and what it stops.

use core::time::Duration;

/// The bounds within which an engine and its bindings stay, whatever the peer and the application do
///
/// Each field says what happens when it is reached. [`Limits::default`] suits a desktop or a server,
/// [`Limits::small`] a device with tens of kilobytes to spare. Sizes are bytes.
///
/// ```
/// use mcp_proto::Limits;
/// let mut limits = Limits::default();
/// limits.max_frame = 100 << 20; // this server takes large documents
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Longest message in bytes, newline excluded (default 16 MiB, small 8 KiB; values above 4 GiB − 1 act as that)
    ///
    /// Stops: a peer that never ends its line. Reached: the rest is skipped without being stored, the request is
    /// answered with an error (or the waiting call ends with [`CallError::TooLarge`](crate::CallError)), and the
    /// connection goes on (STDIO-012).
    pub max_frame: usize,
    /// Deepest nesting of one message (default and maximum 128, small 32)
    ///
    /// Stops: stack exhaustion in typed parsing. Reached: parse error -32700.
    pub max_depth: u8,
    /// Members in any object that is checked for duplicates: envelope, `params`, `_meta`, `arguments`, `result`
    /// (default 65,536, small 256)
    ///
    /// Stops: memory spent on remembering names. Reached: invalid request -32600.
    pub max_members: u32,
    /// Longest request id or progress token as it stands in the message (default 256, small 64)
    ///
    /// Stops: ids kept per call that are larger than the call. Reached: invalid request -32600.
    pub max_id: usize,
    /// How much of a line that is no message is handed to the application (default 1 KiB, small 128)
    pub max_noise: usize,
    /// Faulty messages in a row after which the connection is given up (default none, small 64)
    ///
    /// Stops: endless work on garbage. Reached: [`Fault::Garbage`](crate::Fault).
    pub max_faulty: Option<u32>,

    /// Calls from the peer that are being worked on at once, per engine (default 1,024, small 8)
    ///
    /// Stops: unbounded work in flight. Reached: further requests wait, then reading pauses.
    pub max_live_calls: u32,
    /// Requests that wait for a free place, per byte stream (default 256, small 4)
    ///
    /// While requests wait, responses and notifications behind them (a cancellation, say) are still handled.
    /// Reached: reading pauses.
    pub max_waiting: usize,
    /// Bytes of the requests that wait, the last of which may go beyond (default 1 MiB, small 8 KiB)
    ///
    /// Reached: reading pauses.
    pub max_waiting_bytes: usize,
    /// Cancellations that are remembered because their requests may be still to come, per engine (default 128, small 8;
    /// 0: none)
    ///
    /// In sessions over HTTP alone, where one message may overtake another; a session may have a quarter of them. Each
    /// waits for 5 s: then a request with its id is worked on again. Reached: the oldest is forgotten, and what it names
    /// is worked on if it comes.
    pub max_early_cancels: usize,
    /// Events that the application has not taken (default 1,024, small 32)
    ///
    /// Reached: the engine says that it is stalled, and a server over HTTP answers 503. On a byte stream one message is decoded per event that is asked
    /// for, so it is never near.
    pub max_events: usize,
    /// Our requests that have no answer yet, per engine (default 1,024, small 8; at most 32,768)
    ///
    /// At a server over HTTP one session may have a quarter of them for what its calls need, [`max_inputs`](Self::max_inputs)
    /// at the least, whatever that is: what its client leaves unanswered does not keep others from being asked. Reached:
    /// [`UseError::Full`](crate::UseError).
    pub max_pending_calls: u32,
    /// Bytes of requests kept until the connection is ready (default 1 MiB, small 8 KiB)
    ///
    /// Reached: [`UseError::Full`](crate::UseError).
    pub max_queued_bytes: usize,
    /// Bytes kept of calls that may have to be repeated with answers: what was sent, what the server wants to have
    /// back, and the names of what it needs (default 16 MiB, small 8 KiB)
    ///
    /// The last one may go beyond. Reached: [`UseError::Full`](crate::UseError), or
    /// [`CallError::BadInputRequest`](crate::CallError) for a call that was made. At a server this bounds, for all legacy
    /// clients together, the calls that wait for answers and the answers that have come: further questions are refused
    /// ([`UseError::Full`](crate::UseError)), and an answer that would go beyond by more than a frame counts as
    /// [`CallError::TooLarge`](crate::CallError). Over HTTP a call waits only if its session keeps no more than a quarter
    /// of it then.
    pub max_kept_bytes: usize,
    /// Output bytes above which the peer is taken to be slow (default 1 MiB, small 8 KiB)
    ///
    /// Above it a server pauses reading, a client whose answers those are pauses decoding, news (progress) is held back, latest value kept, and calls and notifications of our
    /// own are refused ([`UseError::Full`](crate::UseError)). Results are never dropped.
    pub outbox_mark: usize,
    /// Members of a batch, 2025-03-26 only (default 100, small 8). Reached: invalid request -32600 (BATCH-006).
    pub max_batch: usize,
    /// Bytes of the answer to one batch (default 16 MiB, small 8 KiB)
    ///
    /// Reached: the member whose answer would pass it is answered with an internal error instead.
    pub max_batch_bytes: usize,
    /// Subscriptions of one client, per byte stream (default 64, small 4)
    ///
    /// Reached: further `subscriptions/listen` are refused with -32603; a client's own with
    /// [`UseError::Full`](crate::UseError).
    pub max_subscriptions: usize,
    /// Resources that one client may follow, per byte stream (default 1,024, small 16)
    ///
    /// Reached: the rest of a filter is not honoured (SUB-006); `resources/subscribe` is refused with -32603. A
    /// subscription of a client's with more is refused with [`UseError::Full`](crate::UseError).
    pub max_followed: usize,
    /// Longest URI of a resource that is followed (default 8 KiB, small 256). Longer ones are not honoured.
    pub max_uri: usize,
    /// Rounds of input that one call may take (default 10; MRTR-026)
    ///
    /// Reached: a server's [`need_input`](crate::server::Engine::need_input) is refused
    /// ([`UseError::Full`](crate::UseError)); a client's call ends with
    /// [`CallError::TooManyRounds`](crate::CallError).
    pub max_input_rounds: u32,
    /// Answers that one call may come with, those of earlier rounds included (default 64, small 8)
    ///
    /// Reached: a server's handler cannot ask for more ([`UseError::Full`](crate::UseError)), and what comes beyond is
    /// ignored, as surplus answers are (MRTR-028). A client's call whose server needs more at once ends with
    /// [`CallError::BadInputRequest`](crate::CallError).
    pub max_inputs: usize,
    /// Longest `requestState` that is made or accepted (default 64 KiB, small 2 KiB)
    ///
    /// Reached: [`UseError::Full`](crate::UseError); one that comes is refused with -32602.
    pub max_request_state: usize,
    /// What is remembered of a legacy peer's identity and capabilities (default 16 KiB, small 1 KiB)
    ///
    /// Reached: `initialize` is refused with -32602.
    pub max_peer_info: usize,
    /// Longest `_meta` text that is remembered to recognise the next equal one (default 1 KiB, small 0 = off)
    pub max_meta_cache: usize,

    /// A call's time without an answer or progress (default 60 s; TIME-001, TIME-004)
    ///
    /// While a client owes the server something that it needs, nothing of it passes (TIME-008).
    pub call_timeout: Duration,
    /// A call's time in all, progress or not (default 10 min; TIME-006)
    ///
    /// The time in which a client owes the server something is left out; see [`input_timeout`](Self::input_timeout).
    pub call_total: Duration,
    /// Pause before a call is repeated for a server that needs nothing but that, from the second such answer on; it
    /// doubles each time (default 250 ms; MRTR-013, DEC-030)
    pub input_backoff: Duration,
    /// Silence after `server/discover` before `initialize` is tried (default 10 s; VER-027)
    pub probe_timeout: Duration,
    /// Time for the handshake after that (default 60 s; TIME-007)
    pub init_timeout: Duration,
    /// Oldest age of a call that the application has not answered (default 1 h)
    ///
    /// Stops: a handler that vanished. Reached: the call is answered with an internal error.
    pub max_call_age: Duration,
    /// Time for the answer to what a handler needs (default 1 h: people may be asked); sealed state is good for as long
    ///
    /// Reached at a client: the input is gone, and a modern call ends with
    /// [`CallError::InputTimedOut`](crate::CallError); a legacy server gets an error.
    pub input_timeout: Duration,
    /// Time that live calls get to finish once the peer's input has ended (default 5 s)
    pub eof_grace: Duration,
    /// Quiet time after which buffers are given back (default 1 s)
    pub idle_trim: Duration,
    /// Progress notifications of one call that may be sent at once (default 10; PROG-013)
    pub progress_burst: u16,
    /// Progress notifications of one call per second after that (default 20; 0 = only the burst)
    pub progress_rate: u16,

    /// Frames kept for [`poll_tap`](crate::tap) (default 0 = off)
    pub tap_records: usize,
    /// Bytes of those frames (default 256 KiB, small 2 KiB). Reached: the frame is dropped and counted.
    pub tap_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_frame: 16 << 20,
            max_depth: 128,
            max_members: 65_536,
            max_id: 256,
            max_noise: 1 << 10,
            max_faulty: None,
            max_live_calls: 1_024,
            max_waiting: 256,
            max_waiting_bytes: 1 << 20,
            max_early_cancels: 128,
            max_events: 1_024,
            max_pending_calls: 1_024,
            max_queued_bytes: 1 << 20,
            max_kept_bytes: 16 << 20,
            outbox_mark: 1 << 20,
            max_batch: 100,
            max_batch_bytes: 16 << 20,
            max_input_rounds: 10,
            max_inputs: 64,
            max_request_state: 64 << 10,
            max_subscriptions: 64,
            max_followed: 1_024,
            max_uri: 8 << 10,
            max_peer_info: 16 << 10,
            max_meta_cache: 1 << 10,
            call_timeout: Duration::from_secs(60),
            call_total: Duration::from_secs(600),
            input_backoff: Duration::from_millis(250),
            probe_timeout: Duration::from_secs(10),
            init_timeout: Duration::from_secs(60),
            max_call_age: Duration::from_secs(3_600),
            input_timeout: Duration::from_secs(3_600),
            eof_grace: Duration::from_secs(5),
            idle_trim: Duration::from_secs(1),
            progress_burst: 10,
            progress_rate: 20,
            tap_records: 0,
            tap_bytes: 256 << 10,
        }
    }
}

impl Limits {
    /// Bounds for a small device: about 40 KiB at the most for one connection and its engine
    #[must_use]
    pub fn small() -> Self {
        Self {
            max_frame: 8 << 10,
            max_depth: 32,
            max_members: 256,
            max_id: 64,
            max_noise: 128,
            max_faulty: Some(64),
            max_live_calls: 8,
            max_waiting: 4,
            max_waiting_bytes: 8 << 10,
            max_early_cancels: 8,
            max_events: 32,
            max_pending_calls: 8,
            max_queued_bytes: 8 << 10,
            max_kept_bytes: 8 << 10,
            outbox_mark: 8 << 10,
            max_batch: 8,
            max_batch_bytes: 8 << 10,
            max_inputs: 8,
            max_request_state: 2 << 10,
            max_subscriptions: 4,
            max_followed: 16,
            max_uri: 256,
            max_peer_info: 1 << 10,
            max_meta_cache: 0,
            tap_bytes: 2 << 10,
            ..Self::default()
        }
    }

    /// `max_frame` within what a span of a frame can express
    pub(crate) fn frame(&self) -> usize {
        self.max_frame.min(u32::MAX as usize - 1)
    }

    /// `max_depth` within what the scanner can count
    pub(crate) fn depth(&self) -> u8 {
        self.max_depth.clamp(1, crate::json::MAX_DEPTH)
    }

    /// `max_pending_calls` within what a request id can express, each of them repeated once at a time
    pub(crate) fn pending(&self) -> usize {
        self.max_pending_calls.min(1 << 15) as usize
    }
}
