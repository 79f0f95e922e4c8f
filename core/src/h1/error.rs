//! Faults in received messages, and errors of refused commands.

/// The reason why a connection has ended, and its position in the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason} at byte {offset} of the received data")]
pub struct ConnectionFault {
    reason: Reason,
    offset: u64,
}

impl ConnectionFault {
    pub(super) const fn new(reason: Reason, offset: u64) -> Self {
        Self { reason, offset }
    }

    /// Returns what was wrong.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns the number of bytes that the peer sent on this connection before the faulty line or byte.
    ///
    /// For a timeout and for a truncated message this is the number of all bytes received.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the status of the response to a request with this fault.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.reason.status()
    }
}

/// Fault of a received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The request line is not `method SP target SP version`.
    #[error("malformed request line")]
    RequestLine,
    /// The status line is not `version SP three digits SP text`, or the status is outside 100 to 599.
    #[error("malformed status line")]
    StatusLine,
    /// The HTTP version is neither 1.0 nor 1.1.
    #[error("unsupported HTTP version")]
    Version,
    /// The method is `CONNECT` or `TRACE`.
    #[error("unsupported method")]
    Method,
    /// The target is not a path, not `*` for `OPTIONS`, and not a URI whose authority equals `Host`.
    #[error("malformed request target")]
    Target,
    /// The request line is longer than [`HttpLimits::max_head`](super::HttpLimits::max_head).
    #[error("request target too long")]
    TargetTooLong,
    /// A line of a head ends in a line feed without a carriage return.
    #[error("bare line feed")]
    BareLineFeed,
    /// A field is malformed.
    ///
    /// Its name is not a token, or is followed by a space. Or the line begins with a space (a folded line). Or the
    /// value has control characters.
    #[error("malformed field")]
    Field,
    /// The head has more fields than [`HttpLimits::max_fields`](super::HttpLimits::max_fields).
    #[error("too many fields")]
    TooManyFields,
    /// The head is longer than [`HttpLimits::max_head`](super::HttpLimits::max_head).
    #[error("head too long")]
    HeadTooLong,
    /// `Host` is missing, repeated, empty, or not a host with an optional port.
    #[error("missing, repeated or invalid Host")]
    Host,
    /// `Content-Length` is repeated, or not 1 to 19 digits.
    #[error("repeated or invalid Content-Length")]
    ContentLength,
    /// `Transfer-Encoding` is repeated, empty, or used in HTTP/1.0.
    #[error("repeated or misplaced Transfer-Encoding")]
    TransferEncoding,
    /// `Transfer-Encoding` is not `chunked`.
    #[error("unsupported transfer coding")]
    TransferCoding,
    /// Both `Content-Length` and `Transfer-Encoding` are present.
    #[error("both Content-Length and Transfer-Encoding")]
    ConflictingLengths,
    /// A 1xx or 204 response announces a body.
    #[error("body in a response that must not have one")]
    BodyForbidden,
    /// `Expect` is not `100-continue`.
    #[error("unsupported expectation")]
    Expectation,
    /// A 101 response arrived although no upgrade was requested.
    #[error("unexpected switch of protocols")]
    Upgrade,
    /// More 1xx responses to one request than [`HttpLimits::max_interim`](super::HttpLimits::max_interim).
    #[error("too many interim responses")]
    TooManyInterim,
    /// The body is longer than [`HttpLimits::max_body`](super::HttpLimits::max_body).
    #[error("body too long")]
    BodyTooLong,
    /// A chunk size is not 1 to 8 hexadecimal digits.
    #[error("malformed chunk size")]
    ChunkSize,
    /// A chunk extension has control characters, or the extensions exceed
    /// [`HttpLimits::max_extensions`](super::HttpLimits::max_extensions).
    #[error("malformed or too long chunk extension")]
    ChunkExtension,
    /// A chunk is not followed by a carriage return and a line feed.
    #[error("malformed end of a chunk")]
    ChunkEnd,
    /// A trailer field is malformed or controls framing or routing, or the trailers exceed the limits of a head.
    #[error("malformed trailer")]
    Trailer,
    /// The head took longer than [`HttpLimits::head_timeout`](super::HttpLimits::head_timeout).
    #[error("timeout before the head was complete")]
    HeadTimeout,
    /// The body paused for [`HttpLimits::body_idle_timeout`](super::HttpLimits::body_idle_timeout), or was not complete
    /// within [`HttpLimits::body_timeout`](super::HttpLimits::body_timeout).
    #[error("timeout before the body was complete")]
    BodyTimeout,
    /// The peer ended the connection within a message.
    #[error("connection closed within a message")]
    Truncated,
    /// A server sent bytes although no request was pending.
    #[error("bytes from the server without a request")]
    Unsolicited,
    /// More input was passed in than may be buffered, although `wants_input` was false.
    #[error("input beyond the buffer limit while none was wanted")]
    Overrun,
}

impl Reason {
    /// Returns the status of the response to a request with this fault.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::HeadTimeout | Self::BodyTimeout => 408,
            Self::BodyTooLong => 413,
            Self::TargetTooLong => 414,
            Self::Expectation => 417,
            Self::TooManyFields | Self::HeadTooLong => 431,
            Self::Method | Self::TransferCoding => 501,
            Self::Version => 505,
            _ => 400,
        }
    }
}

/// The reason why a command was refused; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The connection has ended, or the peer is gone.
    #[error("the connection is over")]
    Closed,
    /// The command does not fit the state: a response without a request, a second response, a body without a head.
    #[error("command out of order for this exchange")]
    OutOfOrder,
    /// The status is outside 200 to 599, or the method, target or host cannot be sent.
    #[error("invalid status, method, target or host")]
    Invalid,
    /// The fields contain `Content-Length`, `Transfer-Encoding`, `Connection` or `Host`, which the connection writes
    /// itself.
    #[error("framing field: the connection writes it itself")]
    FramingField,
    /// The body is longer than the announced length, or ended before it was reached.
    #[error("body length differs from the announced length")]
    Length,
}
