//! The reason of a deadline.

use core::fmt;

use crate::time::Instant;

/// The reason of the deadline that a state machine returns from `poll_timeout`.
///
/// For logs and for the question why a loop wakes up; it is not needed to drive. Of several deadlines at the same instant
/// it is one of them. [`handle_timeout`](crate::pipe::Pipe::handle_timeout) may find that a deadline has moved meanwhile,
/// as that of a call does after progress. Then nothing happens, and the next deadline is later.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TimeoutReason {
    /// The server did not answer the probe or the handshake: [`Limits::probe_timeout`](crate::Limits::probe_timeout),
    /// [`Limits::init_timeout`](crate::Limits::init_timeout).
    Negotiation,
    /// A call that was made has no answer: [`Limits::call_timeout`](crate::Limits::call_timeout),
    /// [`Limits::call_total_timeout`](crate::Limits::call_total_timeout), and those of
    /// [`CallOptions`](crate::CallOptions).
    Call,
    /// A call that was received is not answered: [`Limits::max_call_age`](crate::Limits::max_call_age).
    CallAge,
    /// Progress or a log message was held back, and may be sent now:
    /// [`Limits::progress_rate`](crate::Limits::progress_rate).
    Notification,
    /// Changes were held back, and may be announced now.
    Changes,
    /// The input has ended, and calls are still open: [`Limits::eof_grace_period`](crate::Limits::eof_grace_period), or
    /// the grace period of a shutdown.
    GracePeriod,
    /// A ping is due, or has no answer.
    KeepAlive,
    /// A task expires, is asked about again, or is tried to be stored again.
    Task,
    /// Buffers are idle and can be freed: [`Limits::idle_trim_delay`](crate::Limits::idle_trim_delay), and those of HTTP.
    /// The deadline of `poll_timeout_without_trim` never has this reason.
    Trim,
    /// HTTP server: a response becomes an event stream, or an event stream is silent, or its token expires.
    EventStream,
    /// HTTP server: a session may have been idle for too long.
    Session,
    /// HTTP server: the application has not decided on a token.
    TokenDecision,
    /// HTTP client: a response is not complete.
    Response,
    /// HTTP client: a refused request waits for a credential.
    Credential,
    /// HTTP client: a request is sent again, or a stream is opened again.
    Retry,
    /// HTTP client: messages wait for the session to be confirmed.
    SessionStart,
    /// HTTP client: a connection is not established.
    Connect,
    /// A connection has no exchange: `HttpLimits::keep_alive`.
    IdleConnection,
    /// A head is not complete: `HttpLimits::head_timeout`.
    Head,
    /// A body is not complete: `HttpLimits::body_idle_timeout`, `HttpLimits::body_timeout`.
    Body,
    /// The peer takes no bytes: `HttpLimits::body_idle_timeout`.
    SlowReader,
    /// A connection ends, and the rest of the input is read: `HttpLimits::drain_timeout`.
    Linger,
}

impl TimeoutReason {
    /// Returns the reason of the earliest deadline, the first one of several at the same instant.
    pub(crate) fn earliest<const N: usize>(
        deadlines: [Option<(Instant, Self)>; N],
    ) -> Option<(Instant, Self)> {
        deadlines.into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

impl fmt::Display for TimeoutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Negotiation => "the handshake is not answered",
            Self::Call => "a call that was made is not answered",
            Self::CallAge => "a call that was received is not answered",
            Self::Notification => "progress or a log message is held back",
            Self::Changes => "changes are held back",
            Self::GracePeriod => "calls are open after the end of the input",
            Self::KeepAlive => "a ping is due or not answered",
            Self::Task => "a task is looked at",
            Self::Trim => "buffers are idle",
            Self::EventStream => "an event stream begins, is silent or expires",
            Self::Session => "a session may be idle",
            Self::TokenDecision => "a token is not decided on",
            Self::Response => "a response is not complete",
            Self::Credential => "a request waits for a credential",
            Self::Retry => "a request is sent again",
            Self::SessionStart => "a session is not confirmed",
            Self::Connect => "a connection is not established",
            Self::IdleConnection => "a connection is idle",
            Self::Head => "a head is not complete",
            Self::Body => "a body is not complete",
            Self::SlowReader => "the peer takes no bytes",
            Self::Linger => "a connection is being closed",
        })
    }
}
