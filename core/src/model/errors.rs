//! `data` of errors (ERR).

use alloc::string::String;
use alloc::vec::Vec;

use super::capabilities::ClientCapabilities;
use super::elicitation::ElicitUrlParams;
use super::message::message;
use crate::json::EncodeError;
use crate::raw::RawJson;
use crate::rpc::{RpcError, code};

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
