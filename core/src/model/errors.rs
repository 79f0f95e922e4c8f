//! `data` of errors (ERR).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::elicitation::ElicitUrlParams;
use super::lifecycle::ClientCapabilities;
use super::message::{message, split_path};
use crate::json::EncodeError;
use crate::raw::RawJson;
use crate::rpc::{RpcError, clip, code};

message! {
    /// `data` of an error that lists the supported revisions (-32022; -32602 before 2026-07-28; ERR-008, ERR-017).
    UnsupportedProtocolVersion {
        /// The supported revisions.
        supported: Vec<String> = "supported",
    } {
        /// The requested revision; required since 2026-07-28.
        opt requested: String = "requested",
    }

    /// `data` of -32021 (since 2026-07-28; ERR-007).
    MissingRequiredClientCapability {
        /// The capabilities that the client would have to declare.
        required_capabilities: ClientCapabilities = "requiredCapabilities",
    } {}

    /// `data` for a resource that does not exist (ERR-010, RES-015, RES-016).
    ///
    /// The error code is -32002 up to and including 2025-11-25, and -32602 since 2026-07-28.
    ResourceNotFound {
        /// URI of the resource.
        uri: String = "uri",
    } {}

    /// `data` of -32042 (2025-11-25 only; ERR-012, ELIC-030).
    UrlElicitationRequired {
        /// Web pages that the user must visit first, each with an `elicitationId`.
        elicitations: Vec<ElicitUrlParams> = "elicitations",
    } {}
}

impl RpcError {
    /// Creates error -32021: the request needs a capability that the client did not declare (META-017, ERR-007).
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if the capabilities cannot be expressed as JSON.
    pub fn missing_client_capability(required: ClientCapabilities) -> Result<Self, EncodeError> {
        let data = RawJson::encode(&MissingRequiredClientCapability::new(required))?;
        let message = "the client lacks a capability that this needs";
        Ok(Self::new(code::MISSING_CLIENT_CAPABILITY, message).with_data(data))
    }

    /// Creates error -32042: the user must visit these web pages first (2025-11-25 only; ELIC-029).
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if a page cannot be expressed as JSON.
    pub fn url_elicitation_required(pages: Vec<ElicitUrlParams>) -> Result<Self, EncodeError> {
        let data = RawJson::encode(&UrlElicitationRequired::new(pages))?;
        let message = "the user must visit a web page first";
        Ok(Self::new(code::URL_ELICITATION_REQUIRED, message).with_data(data))
    }

    /// Returns the missing resource if the error reports one, with either code (ERR-011, RES-018).
    #[must_use]
    pub fn as_resource_not_found(&self) -> Option<ResourceNotFound> {
        let known = matches!(self.code, code::RESOURCE_NOT_FOUND | code::INVALID_PARAMS);
        self.data.as_ref().filter(|_| known)?.parse().ok()
    }

    /// Returns the supported revisions if the error reports them, whatever its code is (DEC-001).
    #[must_use]
    pub fn as_unsupported_version(&self) -> Option<UnsupportedProtocolVersion> {
        let read: UnsupportedProtocolVersion = self.data.as_ref()?.parse().ok()?;
        let known = self.code == code::UNSUPPORTED_PROTOCOL_VERSION || read.requested.is_some();
        known.then_some(read)
    }

    /// Returns the required capabilities if the error reports them.
    #[must_use]
    pub fn as_missing_client_capability(&self) -> Option<MissingRequiredClientCapability> {
        self.data.as_ref().filter(|_| self.released_code() == code::MISSING_CLIENT_CAPABILITY)?.parse().ok()
    }

    /// Returns the web pages that the user must visit first if the error reports them.
    #[must_use]
    pub fn as_url_elicitation_required(&self) -> Option<UrlElicitationRequired> {
        self.data.as_ref().filter(|_| self.code == code::URL_ELICITATION_REQUIRED)?.parse().ok()
    }
}

/// For handlers that write JSON themselves: the peer does not receive the details.
impl From<EncodeError> for RpcError {
    fn from(_: EncodeError) -> Self {
        Self::internal("the answer cannot be written as JSON")
    }
}

// Error for an invalid input request or input response.

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
    #[must_use]
    pub fn new(reason: impl fmt::Display) -> Self {
        Self { path: String::new(), reason: reason.to_string() }
    }

    /// Creates an error about a member, whose name a peer may have chosen.
    #[cold]
    #[must_use]
    pub fn at_member(name: &str, reason: impl fmt::Display) -> Self {
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
    #[must_use]
    pub fn prefixed(mut self, name: &str) -> Self {
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
    #[must_use]
    pub fn at_index(self, at: usize) -> Self {
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
mod validation_error_tests {
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

#[cfg(test)]
mod tests {
    use super::super::RootsCapability;
    use super::super::test_support::{assert_missing, assert_round_trip};
    use super::*;

    // covers: ERR-007, ERR-008, ERR-010, ERR-011, ERR-012, RES-018, ELIC-030
    #[test]
    fn error_data_is_recognised_by_code_and_shape() {
        assert_round_trip(&UnsupportedProtocolVersion::new(["2026-07-28".into()]).requested("2027-01-01"));
        assert_round_trip(&MissingRequiredClientCapability::new(
            ClientCapabilities::new().roots(RootsCapability::new()),
        ));
        assert_round_trip(&ResourceNotFound::new("a:b"));
        let page = ElicitUrlParams::new("m", "https://x.example").elicitation_id("e");
        assert_round_trip(&UrlElicitationRequired::new([page.clone()]));
        assert_missing::<UnsupportedProtocolVersion>("{}", "supported");
        assert_missing::<MissingRequiredClientCapability>("{}", "requiredCapabilities");
        assert_missing::<ResourceNotFound>("{}", "uri");
        assert_missing::<UrlElicitationRequired>("{}", "elicitations");

        let gone = RpcError::resource_not_found("a:\"b");
        assert_eq!((gone.code, gone.as_resource_not_found().expect("data").uri.as_str()), (-32002, "a:\"b"));
        let modern = RpcError { code: code::INVALID_PARAMS, ..gone.clone() };
        assert!(modern.as_resource_not_found().is_some());
        assert!(RpcError { code: 7, ..gone }.as_resource_not_found().is_none());
        let error = RpcError::url_elicitation_required(alloc::vec![page]).expect("JSON");
        assert_eq!(error.as_url_elicitation_required().expect("data").elicitations.len(), 1);
        let error = RpcError::missing_client_capability(ClientCapabilities::new()).expect("JSON");
        assert!(error.as_missing_client_capability().is_some() && error.as_unsupported_version().is_none());
        let data = RawJson::new(r#"{"supported":["x"],"requested":"y"}"#).expect("JSON");
        assert!(RpcError::new(-32004, "draft").with_data(data).as_unsupported_version().is_some());
    }
}
