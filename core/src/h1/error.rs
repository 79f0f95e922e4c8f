//! What can be wrong with a message that came, and with a command that was given.

/// Why a connection is over: what was wrong with what came, and where it stood
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}, at byte {offset} of what the peer sent")]
pub struct Fault {
    reason: Reason,
    offset: u64,
}

impl Fault {
    pub(super) const fn new(reason: Reason, offset: u64) -> Self {
        Self { reason, offset }
    }

    /// What was wrong
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// Bytes that the peer sent on this connection before the line or the byte that is at fault
    ///
    /// For a fault of time and for a message that was cut off: all that it sent.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The status of the response that such a request gets
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.reason.status()
    }
}

/// What was wrong with a message that came
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Not `method SP target SP version`
    #[error("malformed request line")]
    RequestLine,
    /// Not `version SP three digits SP text`, or a status outside 100 to 599
    #[error("malformed status line")]
    StatusLine,
    /// HTTP, but neither 1.0 nor 1.1
    #[error("unsupported version of HTTP")]
    Version,
    /// `CONNECT` or `TRACE`
    #[error("method that is not served")]
    Method,
    /// A target that is no path, nor `*` for `OPTIONS`, nor a URI whose authority is the one in `Host`
    #[error("malformed request target")]
    Target,
    /// A request line longer than [`Limits::max_head`](super::Limits)
    #[error("request target too long")]
    TargetTooLong,
    /// A line of a head that ends in a line feed without a carriage return
    #[error("bare line feed")]
    BareLineFeed,
    /// A field whose name is no token, is followed by a space or stands after one (a folded line), or whose value has
    /// control characters in it
    #[error("malformed field")]
    Field,
    /// More fields than [`Limits::max_fields`](super::Limits)
    #[error("too many fields")]
    TooManyFields,
    /// A head longer than [`Limits::max_head`](super::Limits)
    #[error("head too long")]
    HeadTooLong,
    /// `Host` is missing, there more than once, empty, or no host with an optional port
    #[error("missing, repeated or invalid Host")]
    Host,
    /// `Content-Length` that is repeated, or not 1 to 19 digits
    #[error("repeated or invalid Content-Length")]
    ContentLength,
    /// `Transfer-Encoding` that is repeated or empty, or in HTTP/1.0
    #[error("repeated or misplaced Transfer-Encoding")]
    TransferEncoding,
    /// `Transfer-Encoding` other than `chunked`
    #[error("unsupported transfer coding")]
    Coding,
    /// `Content-Length` beside `Transfer-Encoding`
    #[error("both Content-Length and Transfer-Encoding")]
    TwoLengths,
    /// A body where there must be none: a length in a response 1xx or 204
    #[error("a body in a response that has none")]
    BodyForbidden,
    /// `Expect` other than `100-continue`
    #[error("expectation that is not met")]
    Expectation,
    /// A response 101, though nobody asked for it
    #[error("switch of protocols")]
    Upgrade,
    /// More responses 1xx to one request than [`Limits::max_interim`](super::Limits)
    #[error("too many interim responses")]
    TooManyInterim,
    /// A body longer than [`Limits::max_body`](super::Limits)
    #[error("body too long")]
    BodyTooLong,
    /// A chunk size that is not 1 to 8 hexadecimal digits
    #[error("malformed chunk size")]
    ChunkSize,
    /// A chunk extension with control characters in it, or more of them than [`Limits::max_extensions`](super::Limits)
    #[error("malformed chunk extension, or too many")]
    ChunkExtension,
    /// A chunk that is not followed by carriage return and line feed
    #[error("malformed end of a chunk")]
    ChunkEnd,
    /// A field after the last chunk that is malformed or says where the message ends, or more than fits into a head
    #[error("malformed trailer")]
    Trailer,
    /// The head took longer than [`Limits::head_timeout`](super::Limits)
    #[error("head not complete in time")]
    HeadTimeout,
    /// Nothing of the body for [`Limits::body_idle`](super::Limits), or not all of it in
    /// [`Limits::body_timeout`](super::Limits)
    #[error("body not complete in time")]
    BodyTimeout,
    /// The peer ended the connection within a message
    #[error("message cut off")]
    Truncated,
    /// A server sent something without having been asked
    #[error("bytes that nobody asked for")]
    Unasked,
    /// More input was handed over while none was wanted than may be kept
    #[error("input that was not wanted")]
    Overrun,
}

impl Reason {
    /// The status of the response that such a request gets
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::HeadTimeout | Self::BodyTimeout => 408,
            Self::BodyTooLong => 413,
            Self::TargetTooLong => 414,
            Self::Expectation => 417,
            Self::TooManyFields | Self::HeadTooLong => 431,
            Self::Method | Self::Coding => 501,
            Self::Version => 505,
            _ => 400,
        }
    }
}

/// Why a command was refused; nothing has changed
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The connection is over, or the peer is gone
    #[error("the connection is over")]
    Closed,
    /// Not what comes next: a response without a request, a second one, a body without a head
    #[error("not what comes next")]
    OutOfOrder,
    /// A status outside 200 to 599, or a method, target or host that cannot be sent
    #[error("not a value that can be sent")]
    Invalid,
    /// `Content-Length`, `Transfer-Encoding`, `Connection` or `Host` among the fields: these are written here
    #[error("a field that is written by the connection itself")]
    Framing,
    /// More of a body than its length says, or its end before that
    #[error("not the length of the body that was announced")]
    Length,
}
