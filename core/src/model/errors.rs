//! What errors carry in `data` (ERR).

use alloc::string::String;
use alloc::vec::Vec;

use super::capabilities::ClientCapabilities;
use super::elicitation::ElicitUrlParams;
use super::message::message;
use crate::json::EncodeError;
use crate::raw::RawJson;
use crate::rpc::{RpcError, code};

message! {
    /// `data` of an error that says which revisions are spoken (-32022; -32602 before 2026-07-28; ERR-008, ERR-017)
    UnsupportedProtocolVersion {
        /// The revisions that are spoken
        supported: Vec<String> = "supported",
    } {
        /// The one that was asked for; must be there since 2026-07-28
        opt requested: String = "requested",
    }

    /// `data` of -32021 (since 2026-07-28; ERR-007)
    MissingRequiredClientCapability {
        /// What the client would have to declare
        required_capabilities: ClientCapabilities = "requiredCapabilities",
    } {}

    /// `data` of a resource that does not exist (-32002 until 2025-11-25, -32602 since; ERR-010, RES-015, RES-016)
    ResourceNotFound {
        /// Which one
        uri: String = "uri",
    } {}

    /// `data` of -32042 (2025-11-25 only; ERR-012, ELIC-030)
    UrlElicitationRequired {
        /// The pages that the user must visit first, each with an `elicitationId`
        elicitations: Vec<ElicitUrlParams> = "elicitations",
    } {}
}

impl RpcError {
    /// -32021: the work needs something that the client did not declare (META-017, ERR-007)
    pub fn missing_client_capability(required: ClientCapabilities) -> Result<Self, EncodeError> {
        let data = RawJson::encode(&MissingRequiredClientCapability::new(required))?;
        let message = "the client lacks a capability that this needs";
        Ok(Self::new(code::MISSING_CLIENT_CAPABILITY, message).with_data(data))
    }

    /// -32042: the user must visit these pages first (2025-11-25 only; ELIC-029)
    pub fn url_elicitation_required(pages: Vec<ElicitUrlParams>) -> Result<Self, EncodeError> {
        let data = RawJson::encode(&UrlElicitationRequired::new(pages))?;
        let message = "the user must visit a web page first";
        Ok(Self::new(code::URL_ELICITATION_REQUIRED, message).with_data(data))
    }

    /// The resource that does not exist, when this says so in either spelling (ERR-011, RES-018)
    #[must_use]
    pub fn as_resource_not_found(&self) -> Option<ResourceNotFound> {
        let known = matches!(self.code, code::RESOURCE_NOT_FOUND | code::INVALID_PARAMS);
        self.data.as_ref().filter(|_| known)?.parse().ok()
    }

    /// The revisions that are spoken, when this says so, whatever the code (DEC-001)
    #[must_use]
    pub fn as_unsupported_version(&self) -> Option<UnsupportedProtocolVersion> {
        let read: UnsupportedProtocolVersion = self.data.as_ref()?.parse().ok()?;
        let known = self.code == code::UNSUPPORTED_PROTOCOL_VERSION || read.requested.is_some();
        known.then_some(read)
    }

    /// What the client would have to declare, when this says so
    #[must_use]
    pub fn as_missing_client_capability(&self) -> Option<MissingRequiredClientCapability> {
        self.data.as_ref().filter(|_| self.code == code::MISSING_CLIENT_CAPABILITY)?.parse().ok()
    }

    /// The pages that the user must visit first, when this says so
    #[must_use]
    pub fn as_url_elicitation_required(&self) -> Option<UrlElicitationRequired> {
        self.data.as_ref().filter(|_| self.code == code::URL_ELICITATION_REQUIRED)?.parse().ok()
    }
}

/// For handlers that write JSON themselves: the details are not for the peer
impl From<EncodeError> for RpcError {
    fn from(_: EncodeError) -> Self {
        Self::internal("the answer cannot be written as JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::super::RootsCapability;
    use super::super::for_tests::{missing, same};
    use super::*;

    // covers: ERR-007, ERR-008, ERR-010, ERR-011, ERR-012, RES-018, ELIC-030
    #[test]
    fn data_is_read_by_code_and_shape() {
        same(&UnsupportedProtocolVersion::new(["2026-07-28".into()]).requested("2027-01-01"));
        same(&MissingRequiredClientCapability::new(ClientCapabilities::new().roots(RootsCapability::new())));
        same(&ResourceNotFound::new("a:b"));
        let page = ElicitUrlParams::new("m", "https://x.example").elicitation_id("e");
        same(&UrlElicitationRequired::new([page.clone()]));
        missing::<UnsupportedProtocolVersion>("{}", "supported");
        missing::<MissingRequiredClientCapability>("{}", "requiredCapabilities");
        missing::<ResourceNotFound>("{}", "uri");
        missing::<UrlElicitationRequired>("{}", "elicitations");

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
