//! Error objects of JSON-RPC, and the error codes of the protocol.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::ascii::AsciiCaseExt as _;
use crate::json::{max_escaped_len, write_int, write_str};
use crate::raw::RawJson;

/// Error codes (ERR-001, ERR-006, ERR-007, ERR-008).
pub mod code {
    /// The message is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The message is JSON but not a valid request, or the request is not allowed now.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist here, or needs a capability that was not declared.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// An unexpected failure.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The resource does not exist (up to 2025-11-25; -32602 from then on; RES-015, RES-016).
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The user has to visit a web page first (2025-11-25 only; ERR-012).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// The user refused a sampling request (up to 2025-11-25; ERR-013).
    pub const USER_REJECTED: i64 = -1;
    /// HTTP header fields and body differ (2026-07-28).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The request needs a capability that the client did not declare (2026-07-28).
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// The revision of the request is not supported (2026-07-28).
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
}

/// Error codes of drafts, which mean nothing without the shape of their error (ERR-016, DEC-001).
pub(crate) mod draft_code {
    pub(crate) const HEADER_MISMATCH: i64 = -32001;
    /// The beginning of its message; others use the code, too.
    pub(crate) const HEADER_MISMATCH_MESSAGE: &str = "Header mismatch";
    pub(crate) const MISSING_CLIENT_CAPABILITY: i64 = -32003;
    pub(crate) const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32004;
}

/// Error object of a response, received or to be sent.
///
/// Local errors (timeouts, a lost connection) never take this form (ERR-015); they are variants of
/// [`CallError`](crate::CallError).
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (code {code})")]
#[non_exhaustive]
pub struct RpcError {
    /// Error code; see [`code`].
    pub code: i64,
    /// Description in one short sentence (BASE-012).
    pub message: Cow<'static, str>,
    /// Details: any JSON value.
    pub data: Option<RawJson>,
    /// Scopes that the token lacks, for a challenge of the transport.
    pub(crate) required_scopes: Option<Box<str>>,
}

impl RpcError {
    /// Creates an error.
    ///
    /// Codes of applications lie outside -32768..=-32000 (ERR-014). The codes inside have the meaning that the
    /// specification defines (ERR-005).
    #[must_use]
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None, required_scopes: None }
    }

    /// Sets the details.
    #[must_use]
    pub fn with_data(mut self, data: RawJson) -> Self {
        self.data = Some(data);
        self
    }

    /// Creates an error -32600: the message is not a valid request, or is not allowed now.
    #[must_use]
    pub fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INVALID_REQUEST, message)
    }

    /// Creates an error -32601: the method does not exist, or needs a capability that was not declared (ERR-002).
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(code::METHOD_NOT_FOUND, format!("method not found: {}", clip(method)))
    }

    /// Creates an error -32602: the parameters are not valid (ERR-018).
    #[must_use]
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// Creates the error for a missing resource; the engine sends the code of the revision (RES-015, RES-016).
    #[must_use]
    pub fn resource_not_found(uri: &str) -> Self {
        let mut data = b"{\"uri\":".to_vec();
        write_str(&mut data, uri);
        data.push(b'}');
        Self::new(code::RESOURCE_NOT_FOUND, "resource not found").with_data(RawJson::trusted(data.into()))
    }

    /// Creates an error -32603: an unexpected failure.
    ///
    /// The message goes to the peer, so it must not contain internal details (ERR-019).
    #[must_use]
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INTERNAL_ERROR, message)
    }

    /// Returns the released code of an error of a draft, which its shape shows, and the own code of any other error (DEC-001).
    ///
    /// An unsupported revision has a shape of its own: its data names revisions, whatever the code.
    #[must_use]
    pub fn released_code(&self) -> i64 {
        let required = || self.data.as_ref()?.member("requiredCapabilities");
        let message = draft_code::HEADER_MISMATCH_MESSAGE.as_bytes();
        let start = || self.message.as_bytes().get(..message.len());
        match self.code {
            draft_code::HEADER_MISMATCH if start().is_some_and(|start| start.eq_ignore_case(message)) => {
                code::HEADER_MISMATCH
            }
            draft_code::MISSING_CLIENT_CAPABILITY if required().is_some_and(|c| c.is_object()) => {
                code::MISSING_CLIENT_CAPABILITY
            }
            code => code,
        }
    }

    /// Returns whether it is an error of a draft, by its shape (DEC-001).
    #[must_use]
    pub fn is_of_draft(&self) -> bool {
        self.released_code() != self.code
    }

    /// Adds to an error of a draft which setting a client has for it.
    #[cfg(all(feature = "client", feature = "http"))]
    pub(crate) fn name_draft(&mut self) {
        if self.is_of_draft() {
            let what =
                "the server follows a draft of the specification, as a client does with the setting `draft`";
            self.message = alloc::format!("{}; {what}", self.message).into();
        }
    }

    /// Returns an upper bound of the number of bytes by which message and data make a response longer.
    pub(crate) fn len(&self) -> usize {
        let data = self.data.as_ref().map_or(0, |data| data.as_bytes().len().saturating_add(8));
        max_escaped_len(self.message.len()).saturating_add(data)
    }

    /// Appends the error object.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"code\":");
        write_int(out, self.code);
        out.extend_from_slice(b",\"message\":");
        write_str(out, &self.message);
        if let Some(data) = &self.data {
            out.extend_from_slice(b",\"data\":");
            crate::json::append_one_line(out, data.as_bytes());
        }
        out.push(b'}');
    }
}

/// Returns at most the first 64 characters of a received text, so that an answer does not grow with its request.
pub(crate) fn clip(text: &str) -> Cow<'_, str> {
    clip_to(text, 64)
}

/// Returns at most the first `chars` characters of a text.
pub(crate) fn clip_to(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((end, _)) => {
            let mut short = String::from(text.get(..end).unwrap_or_default());
            short.push('…');
            Cow::Owned(short)
        }
        None => Cow::Borrowed(text),
    }
}

/// Shows the members that are sent.
impl fmt::Debug for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, message, data, .. } = self;
        f.debug_struct("RpcError").field("code", code).field("message", message).field("data", data).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: BASE-011, BASE-012
    #[test]
    fn error_object_is_written_as_json_rpc() {
        let mut out = Vec::new();
        RpcError::new(7, "no \"luck\"").with_data(RawJson::new("[1,\n2]").expect("JSON")).write(&mut out);
        assert_eq!(out, br#"{"code":7,"message":"no \"luck\"","data":[1, 2]}"#);
    }

    // covers: ERR-016
    #[test]
    fn code_of_a_draft_counts_with_its_shape_only() {
        let data = |text: &'static str| RawJson::new(text).expect("JSON");
        let released = |code, message: &'static str| RpcError::new(code, message).released_code();
        for message in ["Header mismatch: Mcp-Name header value 'foo'", "header mismatch", "HEADER MISMATCH"]
        {
            assert_eq!(released(-32001, message), code::HEADER_MISMATCH);
            assert_eq!(released(-32000, message), -32000);
        }
        for message in ["Session not found", "Request timed out", "Header", ""] {
            assert_eq!(released(-32001, message), -32001, "{message}");
        }
        let error = RpcError::new(-32003, "");
        assert_eq!(error.released_code(), -32003);
        assert_eq!(error.clone().with_data(data("{}")).released_code(), -32003);
        let shaped = error.with_data(data(r#"{"requiredCapabilities":{}}"#));
        assert_eq!(shaped.released_code(), code::MISSING_CLIENT_CAPABILITY);
    }

    #[test]
    fn long_method_name_is_clipped() {
        let e = RpcError::method_not_found(&"é".repeat(1_000));
        assert!(e.message.len() < 200);
    }
}
