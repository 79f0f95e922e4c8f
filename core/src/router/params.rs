//! Access to the parameters of requests by name.

use alloc::format;
use alloc::string::String;

use serde::de::DeserializeOwned;

use crate::model::{
    CompleteParams, CompletionArgument, CompletionContext, CompletionReference, Map, Prompt, PromptReference,
    ResourceTemplateReference, Tool,
};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::server::Call;

/// Decodes the parameters of `completion/complete`.
///
/// This is hand-written, because a small server would otherwise contain the typed decoder only for this message.
pub(super) fn completion_params(call: &Call) -> Result<CompleteParams<'static>, RpcError> {
    let (reference, argument) = (object_param(call, "ref")?, object_param(call, "argument")?);
    let kind = text_member(&reference, "ref.", "type")?;
    let reference: CompletionReference<'_> = match &*kind {
        "ref/prompt" => {
            let prompt = PromptReference::new(text_member(&reference, "ref.", "name")?);
            match reference.member("title").and_then(|title| title.string()) {
                Some(title) => prompt.title(title).into(),
                None => prompt.into(),
            }
        }
        "ref/resource" => ResourceTemplateReference::new(text_member(&reference, "ref.", "uri")?).into(),
        _ => CompletionReference::Other(reference),
    };
    let (name, value) =
        (text_member(&argument, "argument.", "name")?, text_member(&argument, "argument.", "value")?);
    let mut params = CompleteParams::new(reference, CompletionArgument::new(name, value));
    if let Some(context) = param(call, "context").filter(|c| c.as_bytes() != b"null") {
        let mut known = CompletionContext::new();
        known.arguments = text_map(context.member("arguments"), "context.arguments")?;
        params.context = Some(known);
    }
    params.meta = call.meta();
    Ok(params)
}

pub(super) fn param(call: &Call, name: &str) -> Option<RawJson> {
    call.params()?.member(name)
}

fn object_param(call: &Call, name: &str) -> Result<RawJson, RpcError> {
    let Some(value) = param(call, name) else { return Err(invalid_param("", name, "missing")) };
    if value.is_object() { Ok(value) } else { Err(invalid_param("", name, "not an object")) }
}

pub(super) fn text_param(call: &Call, name: &str) -> Result<String, RpcError> {
    match call.params() {
        Some(params) => text_member(&params, "", name),
        None => Err(invalid_param("", name, "missing")),
    }
}

fn text_member(object: &RawJson, path: &str, name: &str) -> Result<String, RpcError> {
    let Some(value) = object.member(name) else { return Err(invalid_param(path, name, "missing")) };
    value.string().ok_or_else(|| invalid_param(path, name, "not a string"))
}

/// Decodes texts by name; an absent member or `null` is `None`.
fn text_map(given: Option<RawJson>, name: &str) -> Result<Option<Map<String>>, RpcError> {
    let Some(given) = given.filter(|g| g.as_bytes() != b"null") else { return Ok(None) };
    let read = given.parse().map(Some);
    read.map_err(|e| RpcError::invalid_params(format!("`params.{name}`: {e}")))
}

fn invalid_param(path: &str, name: &str, what: &str) -> RpcError {
    RpcError::invalid_params(format!("`params.{path}{name}` is {what}"))
}

pub(super) fn prompt_arguments(call: &Call, prompt: &Prompt) -> Result<Map<String>, RpcError> {
    let arguments = text_map(param(call, "arguments"), "arguments")?.unwrap_or_default();
    check_required_arguments(prompt, &arguments).map(|()| arguments)
}

/// Checks that every required argument of a prompt is there (PROMPT-010).
pub(super) fn check_required_arguments(prompt: &Prompt, arguments: &Map<String>) -> Result<(), RpcError> {
    let missing =
        |a: &&crate::model::PromptArgument| a.required == Some(true) && arguments.get(&a.name).is_none();
    match prompt.arguments.iter().find(missing) {
        Some(a) => Err(RpcError::invalid_params(format!("the argument `{}` is missing", a.name))),
        None => Ok(()),
    }
}

// Types that the arguments of a tool are decoded into.

/// A type that the arguments of a tool are decoded into, and that knows their schema.
///
/// With the feature `schemars` every type that implements `JsonSchema` is one, and its documentation comment becomes
/// the description of the tool. What a schema constrains beyond the type is checked by a validator alone. Without it, write the schema by hand next to the type:
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
const NO_ARGUMENTS: &[u8] = br#"{"type":"object","properties":{},"additionalProperties":false}"#;

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
impl UntypedArguments for serde_json::Map<String, serde_json::Value> {}
impl UntypedArguments for () {}
