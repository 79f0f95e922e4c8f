//! Error for an invalid input request or input response.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use super::message::split_path;
use crate::rpc::{RpcError, clip};

/// A validation failure, with its place.
///
/// It does not repeat the invalid value, which may be long or confidential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", PathPrefix(.path))]
#[non_exhaustive]
pub struct ValidationError {
    /// Path of the member (`content.nights` or `messages[2].content`, for example); empty for the whole value.
    pub path: String,
    /// Human-readable reason (`must be 1 or more`, for example).
    pub reason: String,
}

struct PathPrefix<'a>(&'a str);

impl fmt::Display for PathPrefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "`{}`: ", self.0) }
    }
}

impl ValidationError {
    /// Creates an error about the whole value.
    #[cold]
    pub(crate) fn new(reason: impl fmt::Display) -> Self {
        Self { path: String::new(), reason: reason.to_string() }
    }

    /// Creates an error about a member, whose name a peer may have chosen.
    #[cold]
    pub(crate) fn at_member(name: &str, reason: impl fmt::Display) -> Self {
        Self::new(reason).prefixed(name)
    }

    /// Converts the error of a reader.
    #[cold]
    pub(crate) fn from_read_error(error: &impl fmt::Display) -> Self {
        let text = error.to_string();
        let (path, reason) = split_path(&text);
        Self { path: path.into(), reason: reason.into() }
    }

    /// Prefixes the path with a member; paths grow from the inside out.
    #[cold]
    pub(crate) fn prefixed(mut self, name: &str) -> Self {
        let name = clip(name);
        self.path = match &*self.path {
            "" => name.into_owned(),
            inner if inner.starts_with('[') => format!("{name}{inner}"),
            inner => format!("{name}.{inner}"),
        };
        self
    }

    /// Prefixes the path with an index.
    #[cold]
    pub(crate) fn at_index(self, at: usize) -> Self {
        self.prefixed(&format!("[{at}]"))
    }
}

impl From<ValidationError> for RpcError {
    /// Converts to -32602, the code for an invalid input request or response (MRTR-027, SAMP-014).
    fn from(mismatch: ValidationError) -> Self {
        Self::invalid_params(mismatch.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_grows_from_the_inside_out() {
        let mismatch = ValidationError::new("is wrong").prefixed("uri").at_index(2).prefixed("roots");
        assert_eq!(mismatch.to_string(), "`roots[2].uri`: is wrong");
        assert_eq!(ValidationError::new("is wrong").to_string(), "is wrong");
        let long = ValidationError::at_member(&"é".repeat(1_000), "is wrong");
        assert_eq!(long.path.chars().count(), 65);
        let read =
            serde_json::from_str::<super::super::ElicitResult>(r#"{"action":"accept","content":{"a":{}}}"#);
        let unread = ValidationError::from_read_error(&read.expect_err("wrong"));
        assert_eq!(unread.path, "content.a");
        assert!(unread.reason.starts_with("invalid type: map, expected a string"), "{}", unread.reason);
        let error = RpcError::from(unread.clone());
        assert_eq!((error.code, &*error.message), (-32602, &*unread.to_string()));
    }
}
