//! A mocked server from a file.

use alloc::sync::Arc;
use core::time::Duration;
use std::io::Read;
use std::path::Path;

use mcp_proto::model::{
    CallToolResult, GetPromptResult, Implementation, Prompt, PromptMessage, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate, Tool,
};
use mcp_proto::{RawJson, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::definition::{Answers, Condition, Definition, Reply};
use mcp_std::json_file::{self, JsonFileError, Location, Object};

impl Definition {
    /// Reads the definition in a file of at most 16 MiB. `path` is its name in errors, which have the hint.
    ///
    /// # Errors
    ///
    /// Something in it is not understood. The message names the member and its line.
    pub fn from_file(content: impl Read, path: &Path, hint: &'static str) -> Result<Self, JsonFileError> {
        let (at, root) = json_file::read_from(content, path, MAX_FILE_BYTES, hint)?;
        at.check_members()?;
        at.check_integers()?;
        parse(&root, at).map_err(|failure| failure.with_hint(hint))
    }
}

fn parse(root: &Value, at: Location) -> Result<Definition, JsonFileError> {
    let object = Object::new(root, at, &["server", "tools", "resources", "resourceTemplates", "prompts"])?;
    let mut definition = Definition::new(Implementation::new("mock", env!("CARGO_PKG_VERSION")));
    if let Some((value, at)) = object.get("server") {
        let (entry, own) = split(value, &at, INFO, &["instructions"])?;
        definition.info = decode(&entry, &at)?;
        definition.instructions = own.text("instructions")?.map(str::to_owned);
    }
    for (value, at) in object.elements("tools")? {
        let (mut entry, own) = split(value, &at, TOOL, &["answers"])?;
        entry.entry("inputSchema").or_insert_with(|| json!({ "type": "object" }));
        let tool: Tool = decode(&entry, &at)?;
        let answers = answers(format!("the tool `{}`", tool.name), &own, TOOL_ANSWER, tool_result)?;
        definition.tools.push((tool, answers));
    }
    for (value, at) in object.elements("resources")? {
        let (entry, own) = split(value, &at, RESOURCE, &["answers"])?;
        let resource: Resource = decode(&entry, &at)?;
        let (uri, mime) = (resource.uri.clone(), resource.mime_type.clone());
        let entry = format!("the resource `{uri}`");
        let result = |answer: &Object<'_>| read_result(answer, Some(&uri), mime.as_deref());
        definition.resources.push((resource, answers(entry, &own, RESOURCE_ANSWER, result)?));
    }
    for (value, at) in object.elements("resourceTemplates")? {
        let (entry, own) = split(value, &at, TEMPLATE, &["answers"])?;
        let template: ResourceTemplate = decode(&entry, &at)?;
        let mime = template.mime_type.clone();
        let entry = format!("the template `{}`", template.uri_template);
        let result = |answer: &Object<'_>| read_result(answer, answer.text("uri")?, mime.as_deref());
        definition.templates.push((template, answers(entry, &own, TEMPLATE_ANSWER, result)?));
    }
    for (value, at) in object.elements("prompts")? {
        let (entry, own) = split(value, &at, PROMPT, &["answers"])?;
        let prompt: Prompt = decode(&entry, &at)?;
        let entry = format!("the prompt `{}`", prompt.name);
        definition.prompts.push((prompt, answers(entry, &own, PROMPT_ANSWER, prompt_result)?));
    }
    Ok(definition)
}

/// Divides an entry into the members of the protocol and those of this file.
fn split<'v>(
    value: &'v Value,
    at: &Location,
    protocol: &[&str],
    own: &[&str],
) -> Result<(Map<String, Value>, Object<'v>), JsonFileError> {
    let object = Object::new(value, at.clone(), &[protocol, own].concat())?;
    let mut entry = value.as_object().cloned().unwrap_or_default();
    entry.retain(|name, _| !own.contains(&name.as_str()));
    Ok((entry, object))
}

/// Decodes a value of the protocol.
fn decode<T: DeserializeOwned>(value: &Map<String, Value>, at: &Location) -> Result<T, JsonFileError> {
    let raw = RawJson::encode(value).map_err(|error| at.failure(&error.to_string()))?;
    raw.parse().map_err(|error| at.failure(&error.to_string()))
}

/// Reads the answers of an entry, which have some of these members. `result` reads the result of one that is no error.
fn answers<T: Clone + Serialize>(
    entry: String,
    own: &Object<'_>,
    members: &[&str],
    result: impl Fn(&Object<'_>) -> Result<T, JsonFileError>,
) -> Result<Arc<Answers<T>>, JsonFileError> {
    let mut answers = Answers::new(entry);
    for (value, at) in own.elements("answers")? {
        let answer = Object::new(value, at.clone(), members)?;
        let outcomes = ["text", "structured", "result", "error"].into_iter();
        let outcomes: Vec<_> = outcomes.filter(|name| members.contains(name)).collect();
        if outcomes.iter().filter(|name| answer.has(name)).count() != 1 {
            return Err(at.failure(&format!("must have exactly one of the members {}", outcomes.join(", "))));
        }
        let outcome = match answer.get("error") {
            Some((error, at)) => Err(error_of(error, &at)?),
            None => Ok(result(&answer)?),
        };
        if answer.has("isError") && (answer.has("result") || answer.has("error")) {
            return Err(at.failure("`isError` belongs to `text` and `structured`"));
        }
        if answer.has("exact") && !answer.has("arguments") {
            return Err(at.failure("`exact` needs `arguments`"));
        }
        if let Ok(result) = &outcome {
            // One that cannot be sent is told now, not to the client.
            RawJson::encode(result).map_err(|error| at.failure(&format!("cannot be sent: {error}")))?;
        }
        let condition = match (answer.get("arguments"), answer.text("uri")?) {
            (Some((arguments @ Value::Object(_), _)), _) if answer.flag("exact")? => {
                Condition::Exact(arguments.clone())
            }
            (Some((arguments @ Value::Object(_), _)), _) => Condition::Includes(arguments.clone()),
            (Some((_, at)), _) => return Err(at.failure("must be an object: write {…}")),
            (None, Some(uri)) => Condition::Exact(json!({ "uri": uri })),
            (None, None) => Condition::Any,
        };
        let after = answer.duration("after")?.unwrap_or(Duration::ZERO);
        answers.add(condition, Reply { outcome, after });
    }
    Ok(Arc::new(answers))
}

fn error_of(value: &Value, at: &Location) -> Result<RpcError, JsonFileError> {
    let error = Object::new(value, at.clone(), &["code", "message", "data"])?;
    let code = error.get("code").and_then(|(code, _)| code.as_i64());
    let (Some(code), Some(message)) = (code, error.text("message")?) else {
        return Err(at.failure("must have a whole number as `code`, and a `message`"));
    };
    let response = RpcError::new(code, message.to_owned());
    match error.get("data") {
        None => Ok(response),
        Some((data, at)) => {
            let data = RawJson::encode(data).map_err(|error| at.failure(&error.to_string()))?;
            Ok(response.with_data(data))
        }
    }
}

fn tool_result(answer: &Object<'_>) -> Result<CallToolResult<'static>, JsonFileError> {
    let is_error = answer.flag("isError")?;
    if let Some(text) = answer.text("text")? {
        let text = text.to_owned();
        return Ok(if is_error { CallToolResult::error(text) } else { CallToolResult::text(text) });
    }
    if let Some((value, at)) = answer.get("structured") {
        let value = RawJson::encode(value).map_err(|error| at.failure(&error.to_string()))?;
        let mut result = CallToolResult::structured(value);
        result.is_error = is_error.then_some(true);
        return Ok(result);
    }
    whole_result(answer, |raw| raw.parse::<CallToolResult<'_>>().map(CallToolResult::into_owned))
}

fn read_result(
    answer: &Object<'_>,
    uri: Option<&str>,
    mime: Option<&str>,
) -> Result<ReadResourceResult<'static>, JsonFileError> {
    if let Some(text) = answer.text("text")? {
        let why = "an answer with `text` needs the `uri` that it is for";
        let uri = uri.ok_or_else(|| answer.at().failure(why))?;
        let mut contents = ResourceContents::text(uri.to_owned(), text.to_owned());
        if let (ResourceContents::Text(text), Some(mime)) = (&mut contents, mime) {
            text.mime_type = Some(mime.to_owned().into());
        }
        return Ok(ReadResourceResult::new([contents]));
    }
    whole_result(answer, |raw| raw.parse::<ReadResourceResult<'_>>().map(ReadResourceResult::into_owned))
}

fn prompt_result(answer: &Object<'_>) -> Result<GetPromptResult<'static>, JsonFileError> {
    if let Some(text) = answer.text("text")? {
        return Ok(GetPromptResult::new([PromptMessage::user(text.to_owned())]));
    }
    whole_result(answer, |raw| raw.parse::<GetPromptResult<'_>>().map(GetPromptResult::into_owned))
}

/// Reads the member `result`.
fn whole_result<T>(
    answer: &Object<'_>,
    read: impl Fn(&RawJson) -> Result<T, serde_json::Error>,
) -> Result<T, JsonFileError> {
    let Some((value, at)) = answer.get("result") else {
        return Err(answer.at().failure("has no result"));
    };
    let raw = RawJson::encode(value).map_err(|error| at.failure(&error.to_string()))?;
    read(&raw).map_err(|error| at.failure(&error.to_string()))
}

const INFO: &[&str] = &["name", "title", "version", "description", "websiteUrl", "icons"];
const TOOL: &[&str] =
    &["name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta"];
const RESOURCE: &[&str] =
    &["uri", "name", "title", "description", "mimeType", "size", "annotations", "icons", "_meta"];
const TEMPLATE: &[&str] =
    &["uriTemplate", "name", "title", "description", "mimeType", "annotations", "icons", "_meta"];
const PROMPT: &[&str] = &["name", "title", "description", "arguments", "icons", "_meta"];
const TOOL_ANSWER: &[&str] =
    &["arguments", "exact", "text", "structured", "isError", "result", "error", "after"];
const RESOURCE_ANSWER: &[&str] = &["text", "result", "error", "after"];
const TEMPLATE_ANSWER: &[&str] = &["uri", "text", "result", "error", "after"];
const PROMPT_ANSWER: &[&str] = &["arguments", "exact", "text", "result", "error", "after"];
/// Maximum size of a file in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;
