//! The error object of JSON-RPC and the codes that the protocol defines.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::json::{write_int, write_str};
use crate::raw::RawJson;

/// Error codes (ERR-001, ERR-006, ERR-007, ERR-008)
pub mod code {
    /// The message is not JSON
    pub const PARSE_ERROR: i64 = -32700;
    /// JSON, but no valid JSON-RPC message, or one that is not allowed now
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist here, or needs a capability that was not declared
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method
    pub const INVALID_PARAMS: i64 = -32602;
    /// Something unexpected went wrong
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The resource does not exist (until 2025-11-25; -32602 since; RES-015, RES-016)
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The user must visit a web page first (2025-11-25 only; ERR-012)
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// The user does not want the model to be used (until 2025-11-25; ERR-013)
    pub const USER_REJECTED: i64 = -1;
    /// HTTP headers and body differ (2026-07-28)
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The request needs a capability that the client did not declare (2026-07-28)
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// The revision of the request is not served (2026-07-28)
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
}

/// An error answer: what a peer sent, or what we send
///
/// Errors that arise here (time-outs, a lost connection) are never dressed up as one of these (ERR-015); they are
/// [`CallError`](crate::CallError) variants of their own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (code {code})")]
#[non_exhaustive]
pub struct RpcError {
    /// What kind of error; see [`code`]
    pub code: i64,
    /// One short sentence (BASE-012)
    pub message: Cow<'static, str>,
    /// Details, any JSON value
    pub data: Option<RawJson>,
}

impl RpcError {
    /// An error with a code of the application's choice
    ///
    /// Application codes lie outside -32768..=-32000 (ERR-014); the codes there have the meaning that the
    /// specification gives them (ERR-005).
    #[must_use]
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Adds details
    #[must_use]
    pub fn with_data(mut self, data: RawJson) -> Self {
        self.data = Some(data);
        self
    }

    /// -32600: the message is not a valid request, or not allowed now
    #[must_use]
    pub fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INVALID_REQUEST, message)
    }

    /// -32601: there is no such method, or it is gated by a capability that was not declared (ERR-002)
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(code::METHOD_NOT_FOUND, format!("method not found: {}", clip(method)))
    }

    /// -32602: the parameters do not fit (ERR-018)
    #[must_use]
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// The resource does not exist: the engine sends the code that the revision has for it (RES-015, RES-016)
    #[must_use]
    pub fn resource_not_found(uri: &str) -> Self {
        let mut data = b"{\"uri\":".to_vec();
        write_str(&mut data, uri);
        data.push(b'}');
        Self::new(code::RESOURCE_NOT_FOUND, "resource not found").with_data(RawJson::trusted(data.into()))
    }

    /// -32603: an unexpected failure; say nothing that should not leave the process (ERR-019)
    #[must_use]
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(code::INTERNAL_ERROR, message)
    }

    /// Appends the error object
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

/// At most the first 64 characters of something that a peer sent, so that an answer does not grow with the question
pub(crate) fn clip(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(64) {
        Some((end, _)) => {
            let mut short = String::from(text.get(..end).unwrap_or_default());
            short.push('…');
            Cow::Owned(short)
        }
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: BASE-011, BASE-012
    #[test]
    fn written_as_json_rpc_wants_it() {
        let mut out = Vec::new();
        RpcError::new(7, "no \"luck\"").with_data(RawJson::new("[1,\n2]").expect("JSON")).write(&mut out);
        assert_eq!(out, br#"{"code":7,"message":"no \"luck\"","data":[1, 2]}"#);
    }

    #[test]
    fn a_long_name_is_clipped() {
        let e = RpcError::method_not_found(&"é".repeat(1_000));
        assert!(e.message.len() < 200);
    }
}
