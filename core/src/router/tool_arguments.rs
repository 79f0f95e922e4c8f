//! Types that the arguments of a tool are decoded into.

use serde::de::DeserializeOwned;

use crate::model::Tool;
use crate::raw::RawJson;

/// A type that the arguments of a tool are decoded into, and that knows their schema.
///
/// With the feature `schemars` every type that implements `JsonSchema` is one, and its documentation comment becomes
/// the description of the tool. Without it, write the schema by hand next to the type:
///
/// ```
/// use mcp_proto::RawJson;
/// use mcp_proto::model::Tool;
/// use mcp_proto::router::ToolArguments;
///
/// #[derive(serde::Deserialize)]
/// struct Tide { harbour: String }
///
/// impl ToolArguments for Tide {
///     fn tool(name: &str) -> Tool {
///         let schema = r#"{"type":"object","properties":{"harbour":{"type":"string"}},"required":["harbour"]}"#;
///         Tool::new(name, RawJson::new(schema).expect("JSON"))
///     }
/// }
/// # assert_eq!(Tide::tool("tide").name, "tide");
/// # let Tide { harbour } = serde_json::from_str(r#"{"harbour":"Cork"}"#).unwrap();
/// # assert_eq!(harbour, "Cork");
/// ```
pub trait ToolArguments: DeserializeOwned {
    /// Returns a tool of this name with the schema of the type, and with a description if the type has one.
    fn tool(name: &str) -> Tool;
}

#[cfg(feature = "schemars")]
#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + schemars::JsonSchema> ToolArguments for T {
    fn tool(name: &str) -> Tool {
        super::schema::tool::<T>(name)
    }
}

#[cfg(not(feature = "schemars"))]
impl ToolArguments for () {
    fn tool(name: &str) -> Tool {
        Tool::new(name, RawJson::trusted(bytes::Bytes::from_static(NO_ARGUMENTS)))
    }
}

/// Schema of a tool without arguments (TOOL-008).
#[cfg(not(feature = "schemars"))]
const NO_ARGUMENTS: &[u8] = br#"{"type":"object","additionalProperties":false}"#;

/// A type that takes the arguments of a tool as they are, whatever the schema says: [`RawJson`], `serde_json::Value`,
/// `serde_json::Map`, or `()`, which ignores them.
#[diagnostic::on_unimplemented(
    message = "arguments of the type `{Self}` may contradict the schema of this tool",
    label = "the schema is given apart from the type of the arguments",
    note = "`tool` derives the schema from the type: `router.tool(name, handler).title(…).description(…)`",
    note = "a handler for any schema takes `serde_json::Value`, `serde_json::Map` or `RawJson`"
)]
pub trait UntypedArguments: DeserializeOwned {}

impl UntypedArguments for RawJson {}
impl UntypedArguments for serde_json::Value {}
impl UntypedArguments for serde_json::Map<alloc::string::String, serde_json::Value> {}
impl UntypedArguments for () {}
