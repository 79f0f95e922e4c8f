//! The framing of a received message, as its head announces it.

/// Framing of the body of a received message (RFC 9112, 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Framing {
    /// No body.
    #[default]
    None,
    /// This number of bytes.
    Exact(u64),
    /// The chunked transfer coding.
    Chunked,
    /// The end of the connection; responses only.
    UntilClose,
}

/// Properties of a request body that the fields alone do not show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestBodyInfo {
    /// Framing of the body.
    pub framing: Framing,
    /// The client waits for `100 Continue`.
    ///
    /// It is sent when the caller polls for the body before it has responded.
    pub expects_continue: bool,
    /// The request is HTTP/1.0, so a [stream](crate::head::BodySize::Stream) in the response ends with the connection.
    pub is_http10: bool,
}
