//! The code that reads input requests, as a table that only a configuration with capabilities holds.
//!
//! Forms, conversations and pages are the largest messages of the protocol. A client that declares no capability gets
//! none of them, and is linked without the code that reads them.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::config::{Config, InputSupport, NamedInput};
use crate::built::Conversing;
use crate::error::CallError;
use crate::identity::Capabilities;
use crate::json;
use crate::methods::{self, Capability};
use crate::model::{ElicitUrlParams, InputRequest, InputRequests};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::sync::Arc;
use crate::version::Version;

impl Config {
    /// Declares the capabilities (LIFE-012, ERR-021).
    ///
    /// Requests that need others are refused before the application sees them. Without the feature `conversations`, those of
    /// requests of a server are not declared.
    #[must_use]
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn capabilities(mut self, mut capabilities: Capabilities) -> Self {
        match Conversing::get() {
            Some(marker) => {
                self.inputs = Some(InputSupport {
                    _marker: marker,
                    read: |config, method, params, version| {
                        let mut request = InputRequest::from_parts(method, params)?;
                        config.check_input_request(&mut request, version)?;
                        Ok(Box::new(request.into_owned()))
                    },
                    read_round,
                    read_pages: |error| {
                        error
                            .as_url_elicitation_required()
                            .map(|refusal| refusal.elicitations)
                            .unwrap_or_default()
                    },
                });
            }
            None => {
                capabilities = [
                    Capability::Elicitation,
                    Capability::ElicitationForm,
                    Capability::ElicitationUrl,
                    Capability::Sampling,
                    Capability::SamplingTools,
                    Capability::SamplingContext,
                    Capability::Roots,
                    Capability::RootsListChanged,
                ]
                .into_iter()
                .fold(capabilities, Capabilities::without);
            }
        }
        self.settings.capabilities = Arc::new(capabilities);
        if self.tasks.is_some() {
            self = self.declare_tasks();
        }
        if self.input_tasks.is_some() {
            self = self.declare_input_tasks();
        }
        self.rebuild_request_meta()
    }

    /// Reads and checks an input request of a legacy server (ERR-021).
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn read_input_request(
        &self,
        method: &str,
        params: Option<&RawJson>,
        version: Version,
    ) -> Result<Box<InputRequest<'static>>, RpcError> {
        match self.inputs {
            Some(support) => (support.read)(self, method, params, version),
            None => Err(RpcError::method_not_found(method)),
        }
    }

    /// Reads and checks the input requests of a round (MRTR-008, MRTR-009).
    ///
    /// # Errors
    ///
    /// The outcome of the call.
    pub(super) fn read_round(
        &self,
        requests: &[u8],
        max: usize,
        version: Version,
    ) -> Result<Vec<NamedInput>, CallError> {
        match self.inputs {
            Some(support) => (support.read_round)(self, requests, max, version),
            None => refuse_round(requests, version).map_or(Ok(Vec::new()), Err),
        }
    }

    /// Returns the pages that the user must visit first, if a call was refused for them (ELIC-029).
    pub(super) fn read_pages(&self, error: &RpcError) -> Vec<ElicitUrlParams> {
        self.inputs.map(|support| (support.read_pages)(error)).unwrap_or_default()
    }
}

/// Reads the input requests of a round strictly, because they are presented to a user.
fn read_round(
    config: &Config,
    requests: &[u8],
    max: usize,
    version: Version,
) -> Result<Vec<NamedInput>, CallError> {
    let invalid = |reason| CallError::InvalidInputRequest { reason };
    let requests =
        json::read::<InputRequests<'_>>(requests).map_err(|e| invalid(format!("`inputRequests`: {e}")))?;
    if requests.len() > max {
        return Err(invalid(format!("it has more than {max} input requests")));
    }
    let mut inputs = Vec::with_capacity(requests.len());
    for (name, mut request) in requests {
        config.check_input_request(&mut request, version)?;
        inputs.push((name.into(), Box::new(request.into_owned())));
    }
    Ok(inputs)
}

/// Returns the reason why a client without capabilities ends a call whose server asks for input (MRTR-009).
///
/// Returns `None` if there are no input requests.
fn refuse_round(requests: &[u8], version: Version) -> Option<CallError> {
    let (mut missing, mut is_empty) = (None, requests.first() == Some(&b'{'));
    json::object_members(requests, |_, request| {
        is_empty = false;
        json::object_members(request, |name, value| {
            let method = (name == b"method").then(|| json::string(value)).flatten();
            let rule = method.and_then(|method| methods::request_rule(&method));
            missing = missing.or_else(|| rule.and_then(|rule| rule.required_capability_in(version)));
        });
    });
    let invalid = || CallError::InvalidInputRequest { reason: "`inputRequests`: an unknown kind".into() };
    (!is_empty).then(|| missing.map_or_else(invalid, CallError::NotDeclared))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::Capability;

    // covers: MRTR-009, ERR-021
    #[test]
    #[expect(deprecated, reason = "tested until its removal")]
    fn client_without_capabilities_names_what_the_first_input_request_needs() {
        let config = Config::new("test", "1");
        let read =
            |text: &str| config.read_round(text.as_bytes(), 8, Version::V2026_07_28).map(|all| all.len());
        assert_eq!(read("{}"), Ok(0));
        let roots = r#"{"a":{"method":"roots/list"},"b":{"method":"elicitation/create","params":{}}}"#;
        assert_eq!(read(roots), Err(CallError::NotDeclared(Capability::Roots)));
        let form = r#"{"a":{"params":{},"method":"elicitation/create"}}"#;
        assert_eq!(read(form), Err(CallError::NotDeclared(Capability::Elicitation)));
        for unknown in ["[]", "1", r#"{"a":{"method":"x"}}"#, r#"{"a":{}}"#, r#"{"a":1}"#] {
            assert!(matches!(read(unknown), Err(CallError::InvalidInputRequest { .. })), "{unknown}");
        }
        let refused = config.read_input_request("roots/list", None, Version::V2025_11_25);
        assert_eq!(refused.map(drop), Err(RpcError::method_not_found("roots/list")));
    }
}
