//! All bounds of the core: their defaults, the abuse that each one stops, and the outcome when it is reached.

use core::fmt;
use core::time::Duration;

use crate::memory::{self, Held};

/// The bounds that an engine and its bindings keep, whatever the peer and the application do.
///
/// Each field names its default and says what happens when the bound is reached. [`Limits::default`] suits a desktop
/// or a server. [`Limits::small`] suits a device with tens of kilobytes to spare. Sizes are in bytes.
///
/// ```
/// use mcp_proto::Limits;
/// let mut limits = Limits::default();
/// limits.max_frame = 100 << 20; // this server takes large documents
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Longest message, its newline excluded (default 16 MiB, small 8 KiB; values above 4 GiB − 1 act as 4 GiB − 1).
    ///
    /// Stops: a peer that never ends its line. Reached: the rest of the message is skipped without being stored. A
    /// request is answered with an error; an outbound call whose answer is too long ends with
    /// [`CallError::TooLarge`](crate::CallError). The connection continues (STDIO-012).
    pub max_frame: usize,
    /// Deepest nesting of one message (default 128, small 32, at least 1).
    ///
    /// Nothing here recurses, so any depth is safe; each level beyond 128 takes up to two bytes while a message is read. Decoding
    /// by type (`parse`, typed results and arguments, [`RawJson::new`](crate::RawJson::new)) has a bound of its own: 128
    /// levels, that of `serde_json`. What is deeper is an error of that decoding; as raw text it passes.
    /// Stops: a peer that makes readers of its messages recurse. Reached: parse error -32700.
    pub max_depth: u32,
    /// Members of one object that is checked for duplicates (default 65,536, small 256).
    ///
    /// These objects are the envelope, `params`, `_meta`, `arguments` and `result`. Stops: memory spent on member
    /// names. Reached: invalid request -32600.
    pub max_members: u32,
    /// Longest request id or progress token, as written in the message (default 256, small 64).
    ///
    /// Stops: ids that are larger than the call that keeps them. Reached: invalid request -32600.
    pub max_id: usize,
    /// Bytes that the application receives of a line that is not a message (default 1 KiB, small 128).
    pub max_noise_bytes: usize,
    /// Consecutive faulty messages after which the connection is closed (default none, small 64).
    ///
    /// Stops: endless work on garbage. Reached: [`Fault::TooManyFaultyMessages`](crate::Fault).
    pub max_faulty_messages: Option<u32>,

    /// Inbound calls in progress at once, per engine (default 1,024, small 8).
    ///
    /// Stops: unbounded work in flight. Reached: further requests wait, then reading pauses.
    pub max_live_calls: u32,
    /// Requests that wait because `max_live_calls` is reached, per byte stream (default 256, small 4).
    ///
    /// Responses and notifications behind the waiting requests are still handled, cancellations among them.
    /// Reached: reading pauses.
    pub max_waiting_requests: usize,
    /// Bytes of the waiting requests (default 1 MiB, small 8 KiB). The last request may exceed it.
    ///
    /// Reached: reading pauses.
    pub max_waiting_bytes: usize,
    /// Early cancellations that are kept, per engine (default 128, small 8; 0: none).
    ///
    /// Only sessions over HTTP have them, because there a cancellation may overtake its request. One session may hold a
    /// quarter of them. Each is kept for 5 s; after that a request with its id is handled again. Reached: the oldest
    /// one is dropped, and its request is handled if it arrives.
    pub max_early_cancellations: usize,
    /// Events that the application has not taken yet (default 1,024, small 32).
    ///
    /// Reached: `is_stalled` of the engine returns true, and a server over HTTP answers 503. A byte stream does not
    /// come near this limit, because one message is decoded per event that the application polls.
    ///
    /// Clients of the adapters also hold as many notifications of a [long-lived](crate::CallOptions::long_lived) call for its
    /// caller, with `max_waiting_bytes` bytes. Reached: that call ends.
    pub max_events: usize,
    /// Outbound calls without an answer, per engine (default 1,024, small 8; at most 32,767).
    ///
    /// At a server over HTTP, the input requests of one session may use a quarter of them, and always at least
    /// [`max_inputs`](Self::max_inputs). A client that answers nothing therefore does not block the others. Reached:
    /// [`UseError::Full`](crate::UseError).
    pub max_pending_calls: u32,
    /// Bytes of requests that are queued until the connection is ready (default 1 MiB, small 8 KiB).
    ///
    /// Reached: [`UseError::Full`](crate::UseError).
    pub max_queued_bytes: usize,
    /// Bytes kept for calls that may be retried with input responses (default 16 MiB, small 8 KiB).
    ///
    /// They are the request as it was sent, the `requestState` of the server, and the keys of its input requests. The
    /// last call may exceed the bound. Reached: [`UseError::Full`](crate::UseError), or
    /// [`CallError::InvalidInputRequest`](crate::CallError) for a call that was sent already.
    ///
    /// At a server the bound covers the waiting calls and the input responses of all legacy clients together. Reached:
    /// further input requests are refused ([`UseError::Full`](crate::UseError)). An input response that would exceed
    /// the bound by more than a frame counts as [`CallError::TooLarge`](crate::CallError). Over HTTP one session may
    /// hold a quarter of the bytes.
    pub max_retained_bytes: usize,
    /// Output bytes above which the peer counts as slow (default 1 MiB, small 8 KiB).
    ///
    /// Reached: a server pauses reading. A client pauses decoding while the output holds its answers. Progress is held
    /// back, and the latest value is kept. Own calls and notifications are refused
    /// ([`UseError::Full`](crate::UseError)). Results are never dropped.
    pub outbox_high_water: usize,
    /// Members of a batch, 2025-03-26 only (default 100, small 8). Reached: invalid request -32600 (BATCH-006).
    pub max_batch: usize,
    /// Bytes of the answer to one batch (default 16 MiB, small 8 KiB).
    ///
    /// Reached: the member whose answer would exceed it is answered with an internal error instead.
    pub max_batch_bytes: usize,
    /// Subscriptions of one client, per byte stream (default 64, small 4).
    ///
    /// [Long-lived](crate::server::CustomMethod::long_lived) calls are counted apart, with the same limit.
    ///
    /// Reached: a server refuses further `subscriptions/listen` with -32603; a client refuses its own with
    /// [`UseError::Full`](crate::UseError).
    pub max_subscriptions: usize,
    /// Resources that one client may subscribe to, per byte stream (default 1,024, small 16).
    ///
    /// Reached: a server does not honour the rest of a filter (SUB-006) and refuses `resources/subscribe` with -32603.
    /// A client refuses its own subscription with [`UseError::Full`](crate::UseError).
    pub max_subscribed_resources: usize,
    /// Longest URI of a subscribed resource (default 8 KiB, small 256). Longer ones are not honoured.
    pub max_uri: usize,
    /// Rounds of one call (default 10; MRTR-026), and those of the task that a call follows.
    ///
    /// A task of 2025-11-25 begins a round with each input request that comes while none of its own is open.
    ///
    /// Reached: a server's [`need_input`](crate::server::Engine::need_input) is refused
    /// ([`UseError::Full`](crate::UseError)); a client's call ends with
    /// [`CallError::TooManyRounds`](crate::CallError).
    pub max_input_rounds: u32,
    /// Input responses of one call, those of earlier rounds included (default 64, small 8).
    ///
    /// Reached: a handler of a server cannot send more input requests ([`UseError::Full`](crate::UseError)). Surplus
    /// input responses of a client are ignored (MRTR-028). A client's call ends with
    /// [`CallError::InvalidInputRequest`](crate::CallError) if its server asks for more at once.
    pub max_inputs: usize,
    /// Longest `requestState` that is sealed or accepted (default 64 KiB, small 2 KiB).
    ///
    /// Reached: [`UseError::Full`](crate::UseError) for a local state; a received one is refused with -32602.
    pub max_request_state: usize,
    /// Bytes kept of a legacy peer's identity and capabilities (default 16 KiB, small 1 KiB).
    ///
    /// Reached: `initialize` is refused with -32602.
    pub max_peer_info: usize,
    /// Longest `_meta` text, and longest capabilities of a client that is asked, that are kept to recognize equal ones in the
    /// next request (default 1 KiB, small 0 = off).
    pub max_meta_cache: usize,

    /// Bytes that have to be free, in one piece, before a request is taken (default 0 = not asked, small 1 KiB, tiny 1 KiB).
    ///
    /// For devices whose heap is a fixed region. Buffers that grow with input or with a result ask the allocator, and refuse
    /// the message if it has no memory. Small tables cannot, and the program ends if they get none: the reserve is for
    /// them, and for what handlers allocate. With a reserve the allocator is also asked before a line or a body is stored.
    ///
    /// Stops: input that takes the last memory. Reached: a request is answered with -32603, over HTTP with 503. A result is
    /// refused ([`EncodeError::OutOfMemory`](crate::EncodeError)); an error that has no room is sent later. Input of a peer
    /// that does not read its answers waits. Diagnostics are dropped. An outbound call whose answer cannot be stored ends with
    /// [`CallError::Malformed`](crate::CallError). The connection continues, unless a client cannot send a message of the handshake
    /// ([`Fault::OutOfMemory`](crate::Fault::OutOfMemory)).
    pub memory_reserve: usize,
    /// Bytes that one server holds for all its peers: in messages, calls, output, sessions and subscriptions (default none =
    /// left to the adapter; [`usize::MAX`] is no bound).
    ///
    /// Adapters on Linux take a quarter of the machine's memory, or of what its control group may use; the core, and those on other
    /// systems, take [`DEFAULT_MAX_MEMORY`](Self::DEFAULT_MAX_MEMORY). All engines that share a [`server::Config`](crate::server::Config), or
    /// clones of it, share the bytes: the byte streams of a listener, and the shards of a server over HTTP. What handlers
    /// allocate for themselves is not counted, and nothing is on bare metal, where `memory_reserve` asks the allocator.
    ///
    /// Stops: peers that together take all memory while each keeps its limits. Reached: nothing that runs ends. What is new is
    /// refused: over HTTP with 503 and `Retry-After`, on a byte stream with -32603. From 7/8 on that are sessions,
    /// subscriptions and messages of 4 KiB or more (an incomplete head of 4 KiB gets 408), from 15/16 on all requests. Beyond the
    /// bound a result is refused ([`EncodeError::OutOfMemory`](crate::EncodeError)), that of a task fails, own notifications wait or
    /// are refused ([`UseError::Full`](crate::UseError)), and events are not kept for a resumption. While requests are refused,
    /// a peer with 1 KiB of answers that it does not read is not read further. Below four times `max_frame`, messages are refused that
    /// `max_frame` allows; below a few KiB, everything.
    pub max_memory: Option<usize>,

    /// Time of a call without an answer or progress (default 60 s; TIME-001, TIME-004).
    ///
    /// The timer is paused while a client owes the server an input response (TIME-008).
    pub call_timeout: Duration,
    /// Total time of a call, with or without progress (default 10 min; TIME-006).
    ///
    /// The time in which a client owes an input response is not counted; see [`input_timeout`](Self::input_timeout).
    pub call_total_timeout: Duration,
    /// Pause before a call is retried for a server that sent no input request (default 250 ms; MRTR-013, DEC-030).
    ///
    /// It applies from the second answer of this kind on, and doubles each time.
    pub input_backoff: Duration,
    /// Silence after `server/discover` before `initialize` is sent (default 10 s; VER-027).
    pub probe_timeout: Duration,
    /// Time for the handshake after the probe (default 60 s; TIME-007).
    pub init_timeout: Duration,
    /// Oldest age of a call that the application has not answered (default 1 h).
    ///
    /// Stops: a handler that never answers, and a client that makes a call and never finishes its handshake although
    /// the call needs input. Reached: the call is answered with an internal error.
    pub max_call_age: Duration,
    /// Time for an input response (default 1 h, because a person may answer), and lifetime of sealed state.
    ///
    /// Reached at a client: the input is dropped, and a modern call ends with
    /// [`CallError::InputTimedOut`](crate::CallError); a legacy server receives an error.
    pub input_timeout: Duration,
    /// Grace period for live calls after the peer's input has ended (default 5 s).
    pub eof_grace_period: Duration,
    /// Quiet time after which buffers release their memory (default 1 s).
    pub idle_trim_delay: Duration,
    /// Progress notifications that one call may send at once (default 10; PROG-013).
    pub progress_burst: u16,
    /// Progress notifications of one call per second after that (default 20; 0 = only the burst).
    pub progress_rate: u16,

    /// Messages kept for [`poll_tap`](crate::tap) (default 0 = off). Without the feature `observe` none are.
    pub tap_records: usize,
    /// Bytes of those messages (default 256 KiB, small 2 KiB). Reached: the message is dropped and counted.
    pub tap_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_frame: 16 << 20,
            max_depth: 128,
            max_members: 65_536,
            max_id: 256,
            max_noise_bytes: 1 << 10,
            max_faulty_messages: None,
            max_live_calls: 1_024,
            max_waiting_requests: 256,
            max_waiting_bytes: 1 << 20,
            max_early_cancellations: 128,
            max_events: 1_024,
            max_pending_calls: 1_024,
            max_queued_bytes: 1 << 20,
            max_retained_bytes: 16 << 20,
            outbox_high_water: 1 << 20,
            max_batch: 100,
            max_batch_bytes: 16 << 20,
            max_input_rounds: 10,
            max_inputs: 64,
            max_request_state: 64 << 10,
            max_subscriptions: 64,
            max_subscribed_resources: 1_024,
            max_uri: 8 << 10,
            max_peer_info: 16 << 10,
            max_meta_cache: 1 << 10,
            memory_reserve: 0,
            max_memory: None,
            call_timeout: Duration::from_secs(60),
            call_total_timeout: Duration::from_secs(600),
            input_backoff: Duration::from_millis(250),
            probe_timeout: Duration::from_secs(10),
            init_timeout: Duration::from_secs(60),
            max_call_age: Duration::from_secs(3_600),
            input_timeout: Duration::from_secs(3_600),
            eof_grace_period: Duration::from_secs(5),
            idle_trim_delay: Duration::from_secs(1),
            progress_burst: 10,
            progress_rate: 20,
            tap_records: 0,
            tap_bytes: 256 << 10,
        }
    }
}

impl Limits {
    /// The bytes of [`max_memory`](Self::max_memory) if neither the application nor the adapter sets them: 1 GiB.
    pub const DEFAULT_MAX_MEMORY: usize = 1 << 30;

    /// Returns bounds for a small device: about 40 KiB for one connection and its engine, with ordinary messages.
    ///
    /// A client that sends the largest messages and reads no answer can make it 256 KiB (`tests/bounded_heap.rs`).
    #[must_use]
    pub fn small() -> Self {
        Self {
            max_frame: 8 << 10,
            max_depth: 32,
            max_members: 256,
            max_id: 64,
            max_noise_bytes: 128,
            max_faulty_messages: Some(64),
            max_live_calls: 8,
            max_waiting_requests: 4,
            max_waiting_bytes: 8 << 10,
            max_early_cancellations: 8,
            max_events: 32,
            max_pending_calls: 8,
            max_queued_bytes: 8 << 10,
            max_retained_bytes: 8 << 10,
            outbox_high_water: 8 << 10,
            max_batch: 8,
            max_batch_bytes: 8 << 10,
            max_inputs: 8,
            max_request_state: 2 << 10,
            max_subscriptions: 4,
            max_subscribed_resources: 16,
            max_uri: 256,
            max_peer_info: 1 << 10,
            max_meta_cache: 0,
            memory_reserve: 1 << 10,
            tap_bytes: 2 << 10,
            ..Self::default()
        }
    }

    /// Returns bounds for a device with a heap of 16 to 32 KiB: at most 24 KiB for one connection and its engine.
    ///
    /// A message has at most 2 KiB and two calls run at once, one request waits, and one client may follow four resources.
    /// All times are the defaults.
    #[must_use]
    pub fn tiny() -> Self {
        Self {
            max_frame: 2 << 10,
            max_depth: 16,
            max_members: 32,
            max_id: 40,
            max_noise_bytes: 32,
            max_live_calls: 2,
            max_waiting_requests: 1,
            max_waiting_bytes: 1 << 10,
            max_early_cancellations: 2,
            max_events: 8,
            max_pending_calls: 2,
            max_queued_bytes: 1 << 10,
            max_retained_bytes: 2 << 10,
            outbox_high_water: 1 << 10,
            max_batch: 2,
            max_batch_bytes: 2 << 10,
            max_inputs: 2,
            max_request_state: 512,
            max_subscriptions: 2,
            max_subscribed_resources: 4,
            max_uri: 64,
            max_peer_info: 512,
            progress_burst: 2,
            tap_bytes: 512,
            ..Self::small()
        }
    }

    /// Returns bounds under which no message has memory.
    #[cfg(test)]
    #[cfg(feature = "client")]
    pub(crate) fn without_memory() -> Self {
        let none = usize::MAX / 4;
        Self { memory_reserve: none, max_uri: none, max_id: none, ..Self::default() }
    }

    /// Returns whether a request has to be refused because `bytes` and the reserve are not free.
    pub(crate) fn is_out_of_memory(&self, bytes: usize) -> bool {
        self.memory_reserve > 0 && !memory::is_available(self.memory_reserve.saturating_add(bytes))
    }

    /// Returns the room in bytes that the shortest error response needs, or 0 if the heap is not bounded.
    pub(crate) const fn error_room(&self) -> usize {
        if self.memory_reserve > 0 { self.max_id.saturating_add(128) } else { 0 }
    }

    /// Returns the room in bytes that a message of the engine needs, without texts of the application or of a store.
    pub(crate) const fn message_room(&self) -> usize {
        self.error_room().saturating_add(self.max_uri).saturating_add(256)
    }

    /// Keeps the reserve free while something grows. Returns `None` if it is not free.
    #[inline]
    pub(crate) fn hold_reserve(&self) -> Option<Held> {
        if self.memory_reserve == 0 { Some(Held::NONE) } else { memory::hold(self.memory_reserve) }
    }

    /// Returns `max_frame`, capped at what a span within a frame can express.
    pub(crate) fn effective_max_frame(&self) -> usize {
        self.max_frame.min(u32::MAX as usize - 1)
    }

    /// Returns `max_depth`, at least 1.
    pub(crate) fn effective_max_depth(&self) -> u32 {
        self.max_depth.max(1)
    }

    /// Returns `max_pending_calls`, capped so that 16 bits can name each call and one retry of it, or none of them.
    pub(crate) fn effective_max_pending_calls(&self) -> usize {
        self.max_pending_calls.min((1 << 15) - 1) as usize
    }
}

/// The limit that refused a command, in [`UseError::Full`](crate::UseError::Full).
///
/// `Display` writes the name of the field of [`Limits`], or of the setting, that holds the bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// [`Limits::max_events`] or [`Limits::max_waiting_bytes`], for the notifications of a long-lived call
    /// ([`CallOptions::long_lived`](crate::CallOptions::long_lived)) that its caller has not taken.
    CallNotifications,
    /// [`Limits::max_inputs`].
    Inputs,
    /// [`Limits::max_input_rounds`].
    InputRounds,
    /// Commands that wait for an event loop; a bound of the adapter.
    LoopCommands,
    /// [`Limits::max_memory`], or the heap, of which [`Limits::memory_reserve`] stays free.
    Memory,
    /// [`Limits::outbox_high_water`].
    OutboxHighWater,
    /// [`Limits::max_pending_calls`].
    PendingCalls,
    /// [`Limits::max_queued_bytes`].
    QueuedBytes,
    /// [`Limits::max_request_state`].
    RequestState,
    /// [`Limits::max_retained_bytes`].
    RetainedBytes,
    /// [`Limits::max_subscribed_resources`].
    SubscribedResources,
    /// [`Limits::max_subscriptions`].
    Subscriptions,
    /// Bytes that are kept for tasks, of all owners or of one ([`TaskLimits`](crate::server::TaskLimits)).
    TaskBytes,
    /// Number of tasks, of all owners or of one ([`TaskLimits`](crate::server::TaskLimits)).
    Tasks,
    /// [`Limits::max_uri`].
    UriLength,
}

impl Limit {
    /// Returns the name of the setting that holds the bound.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CallNotifications => "max_events or max_waiting_bytes of the notifications of a call",
            Self::Inputs => "max_inputs",
            Self::InputRounds => "max_input_rounds",
            Self::LoopCommands => "commands that wait for the event loop",
            Self::Memory => "max_memory or the heap",
            Self::OutboxHighWater => "outbox_high_water",
            Self::PendingCalls => "max_pending_calls",
            Self::QueuedBytes => "max_queued_bytes",
            Self::RequestState => "max_request_state",
            Self::RetainedBytes => "max_retained_bytes",
            Self::SubscribedResources => "max_subscribed_resources",
            Self::Subscriptions => "max_subscriptions",
            Self::TaskBytes => "max_bytes, max_bytes_per_owner or max_unowned_bytes of tasks",
            Self::Tasks => "max_tasks, max_tasks_per_owner or max_unowned_tasks",
            Self::UriLength => "max_uri",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
