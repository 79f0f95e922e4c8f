//! Client capabilities that an input request needs (MRTR-009, ELIC-005, SAMP-002, SAMP-008, SAMP-010, ROOT-010).

use super::{Capabilities, capability_bit};
use crate::meta;
use crate::methods::Capability;
use crate::model::{
    ClientCapabilities, CreateMessageParams, ElicitParams, ElicitationCapability, IncludeContext,
    InputRequest, Map, RootsCapability, SamplingCapability,
};
use crate::raw::RawJson;
use crate::version::Version;

impl InputRequest<'_> {
    /// Returns the capabilities that a client of revision `version` must have declared for this input request.
    ///
    /// [`Capabilities::missing`] returns those that a client lacks. Converted to a [`ClientCapabilities`], they go into
    /// [`RpcError::missing_client_capability`](crate::RpcError::missing_client_capability). This function does not
    /// check whether the revision has this input request; writing it does. An unknown input request needs nothing.
    ///
    /// ```
    /// use mcp_proto::model::{ClientCapabilities, ElicitParams, InputRequest};
    /// use mcp_proto::{Capabilities, RawJson, Version};
    ///
    /// let request = InputRequest::Elicit(ElicitParams::url("Pay", "https://harbour.example/pay"));
    /// let needed = request.required_capabilities(Version::V2026_07_28);
    /// let client = Capabilities::from_json(&RawJson::new(r#"{"elicitation":{}}"#)?); // forms only
    /// let missing = client.missing(&needed);
    /// assert!(!missing.is_empty());
    /// let required = RawJson::encode(&ClientCapabilities::from(&missing))?;
    /// assert_eq!(required.as_str(), r#"{"elicitation":{"url":{}}}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn required_capabilities(&self, version: Version) -> Capabilities {
        let none = Capabilities::new();
        match self {
            Self::Elicit(ElicitParams::Form(_)) => none.with(Capability::ElicitationForm),
            Self::Elicit(ElicitParams::Url(_)) => none.with(Capability::ElicitationUrl),
            Self::Elicit(ElicitParams::Other(_)) => {
                Capabilities { flags: capability_bit(Capability::Elicitation), ..none }
            }
            Self::CreateMessage(params) => sampling_capabilities(params, version),
            Self::ListRoots(_) => none.with(Capability::Roots),
            Self::Other(_) => none,
        }
    }
}

fn sampling_capabilities(params: &CreateMessageParams<'_>, version: Version) -> Capabilities {
    let mut needed = Capabilities::new().with(Capability::Sampling);
    if params.tools.is_some() || params.tool_choice.is_some() {
        needed = needed.with(Capability::SamplingTools);
    }
    // Revisions before 2025-11-25 have no capability for it: any client with sampling may be asked for context.
    let context = !matches!(params.include_context, None | Some(IncludeContext::None));
    if context && version >= Version::V2025_11_25 {
        needed = needed.with(Capability::SamplingContext);
    }
    needed
}

impl From<&Capabilities> for ClientCapabilities {
    /// Returns the object with the client's share of the capabilities; each part is named, forms too.
    fn from(capabilities: &Capabilities) -> Self {
        let mut object = Self::new();
        let given = |capability| capabilities.has(capability).then(Map::new);
        if capabilities.has(Capability::Roots) {
            object.roots = Some(RootsCapability::new());
        }
        let (tools, context) = (given(Capability::SamplingTools), given(Capability::SamplingContext));
        if capabilities.has(Capability::Sampling) || tools.is_some() || context.is_some() {
            let mut sampling = SamplingCapability::new();
            (sampling.tools, sampling.context) = (tools, context);
            object.sampling = Some(sampling);
        }
        let (form, url) = (given(Capability::ElicitationForm), given(Capability::ElicitationUrl));
        if capabilities.has(Capability::Elicitation) || form.is_some() || url.is_some() {
            let mut elicitation = ElicitationCapability::new();
            (elicitation.form, elicitation.url) = (form, url);
            object.elicitation = Some(elicitation);
        }
        if capabilities.has(Capability::TasksExtension) {
            let settings = RawJson::trusted(bytes::Bytes::from_static(b"{}"));
            object.extensions = Some([(meta::TASKS_EXTENSION, settings)].into_iter().collect());
        }
        for (name, value, _) in capabilities.members() {
            object.extra.insert(name, value.clone());
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RpcError;
    use crate::model::{ElicitSchema, SamplingMessage, Tool, ToolChoice};
    use alloc::string::String;
    use alloc::vec::Vec;

    const MODERN: Version = Version::V2026_07_28;

    fn sampling() -> CreateMessageParams<'static> {
        CreateMessageParams::new([SamplingMessage::user("hi")], 9u32)
    }

    /// Each kind of input request with the smallest capability object that permits it.
    fn requests() -> Vec<(InputRequest<'static>, &'static str)> {
        let tool = Tool::new("t", RawJson::new(r#"{"type":"object"}"#).expect("JSON"));
        let both = sampling().tools([tool.clone()]).include_context(IncludeContext::AllServers);
        alloc::vec![
            (InputRequest::ListRoots(None), r#"{"roots":{}}"#),
            (InputRequest::CreateMessage(sampling()), r#"{"sampling":{}}"#),
            (
                InputRequest::CreateMessage(sampling().include_context(IncludeContext::None)),
                r#"{"sampling":{}}"#
            ),
            (InputRequest::CreateMessage(sampling().tools([tool])), r#"{"sampling":{"tools":{}}}"#),
            (
                InputRequest::CreateMessage(sampling().tool_choice(ToolChoice::new())),
                r#"{"sampling":{"tools":{}}}"#
            ),
            (
                InputRequest::CreateMessage(sampling().include_context(IncludeContext::ThisServer)),
                r#"{"sampling":{"context":{}}}"#,
            ),
            (InputRequest::CreateMessage(both), r#"{"sampling":{"context":{},"tools":{}}}"#),
            (
                InputRequest::Elicit(ElicitParams::form("m", ElicitSchema::default())),
                r#"{"elicitation":{"form":{}}}"#,
            ),
            (
                InputRequest::Elicit(ElicitParams::url("m", "https://x.example")),
                r#"{"elicitation":{"url":{}}}"#
            ),
        ]
    }

    fn declared(text: &str) -> Capabilities {
        Capabilities::from_json(&RawJson::new(String::from(text)).expect("JSON"))
    }

    fn object(capabilities: &Capabilities) -> String {
        serde_json::to_string(&ClientCapabilities::from(capabilities)).expect("JSON")
    }

    // covers: SAMP-007, SAMP-010, ERR-007
    #[test]
    fn missing_capabilities_equal_required_ones() {
        for (request, required) in requests() {
            let needed = request.required_capabilities(MODERN);
            let missing = Capabilities::new().missing(&needed);
            assert_eq!(object(&missing), required);
            assert!(declared(required).missing(&needed).is_empty(), "{required}");
            let error = RpcError::missing_client_capability((&missing).into()).expect("JSON");
            let reported = error.as_missing_client_capability().expect("data").required_capabilities;
            assert_eq!(serde_json::to_string(&reported).expect("JSON"), required);
            // The capabilities of another input request suffice only if they contain the required ones.
            for (_, other) in requests() {
                let enough = other == required
                    || required == r#"{"sampling":{}}"# && other.contains("sampling")
                    || required.contains("sampling") && other == r#"{"sampling":{"context":{},"tools":{}}}"#;
                assert_eq!(declared(other).missing(&needed).is_empty(), enough, "{other} for {required}");
            }
        }
        let other = InputRequest::Other(RawJson::new("{}").expect("JSON"));
        assert!(other.required_capabilities(MODERN).is_empty());
        let voice = InputRequest::Elicit(ElicitParams::Other(RawJson::new("{}").expect("JSON")));
        assert!(
            declared(r#"{"elicitation":{"url":{}}}"#)
                .missing(&voice.required_capabilities(MODERN))
                .is_empty()
        );
    }

    // covers: ELIC-003, SAMP-010
    #[test]
    fn only_missing_capabilities_are_named() {
        let both = sampling().tool_choice(ToolChoice::new()).include_context(IncludeContext::from("new"));
        let needed = InputRequest::CreateMessage(both).required_capabilities(MODERN);
        assert_eq!(
            object(&declared(r#"{"sampling":{}}"#).missing(&needed)),
            r#"{"sampling":{"context":{},"tools":{}}}"#
        );
        let missing = declared(r#"{"sampling":{"tools":{}}}"#).missing(&needed);
        assert_eq!(object(&missing), r#"{"sampling":{"context":{}}}"#);
        assert_eq!(missing.iter().collect::<Vec<_>>(), [Capability::SamplingContext]);
        let form = InputRequest::Elicit(ElicitParams::form("m", ElicitSchema::default()))
            .required_capabilities(MODERN);
        assert!(declared(r#"{"elicitation":{}}"#).missing(&form).is_empty());
        let missing = declared(r#"{"elicitation":{"url":{}}}"#).missing(&form);
        assert_eq!(object(&missing), r#"{"elicitation":{"form":{}}}"#);
    }

    // covers: SAMP-010
    #[test]
    fn context_needs_no_capability_before_2025_11_25() {
        let context = InputRequest::CreateMessage(sampling().include_context(IncludeContext::AllServers));
        for (version, enough) in [
            (Version::V2024_11_05, true),
            (Version::V2025_03_26, true),
            (Version::V2025_06_18, true),
            (Version::V2025_11_25, false),
            (MODERN, false),
        ] {
            let missing = declared(r#"{"sampling":{}}"#).missing(&context.required_capabilities(version));
            assert_eq!(missing.is_empty(), enough, "{version}");
            assert!(!declared("{}").missing(&context.required_capabilities(version)).is_empty(), "{version}");
            let form = InputRequest::Elicit(ElicitParams::form("m", ElicitSchema::default()));
            assert!(
                declared(r#"{"elicitation":{}}"#).missing(&form.required_capabilities(version)).is_empty()
            );
        }
    }
}
