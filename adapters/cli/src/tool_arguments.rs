//! Arguments of a tool: JSON, and words whose values take the types of the tool's schema.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};

use mcp_blocking::Error;
use mcp_proto::{EntryKind, HttpError, RawJson};
use serde_json::Value;

use crate::args::values::{ArgumentValue, JsonSource, NamedArgument};
use crate::args::{AuthorizationArgs, json_object};
use crate::authorization;
use crate::client::Client;
use crate::failure::CommandFailure;
use crate::ordered;
use crate::output::{MAX_NAMES_SHOWN, join_names, nearest};
use crate::request;
use crate::schema;
use crate::session::ClientSession;

/// The schemas of a tool, as far as its server lists them.
#[derive(Default)]
pub(crate) struct ToolSchemas {
    pub(crate) input: Option<RawJson>,
    /// Entry of the tool in the list, for its output schema.
    entry: Option<RawJson>,
    /// The reason why there is no list, although the call is tried without one.
    list_error: Option<Error>,
}

impl ToolSchemas {
    /// Reads the list of tools if it is needed: for the types of values, and over HTTP for the header fields that repeat
    /// arguments (XHDR-030).
    ///
    /// # Errors
    ///
    /// Fails if a value needs the schema, and the list cannot be read.
    pub(crate) fn fetch(
        tool: &str,
        arguments: &[NamedArgument],
        session: &mut ClientSession,
    ) -> Result<Self, Error> {
        let has_text = arguments.iter().any(|argument| matches!(argument.value, ArgumentValue::Text(_)));
        if !has_text && !session.is_remote() {
            return Ok(Self::default());
        }
        let tools = match session.client.list(EntryKind::Tool) {
            // A server that does not list a tool may have it nevertheless.
            Err(error) if !has_text => return Ok(Self { list_error: Some(error), ..Self::default() }),
            tools => tools?,
        };
        let entry = find_tool(tools, tool);
        let input = entry.as_ref().and_then(|entry| entry.member("inputSchema"));
        Ok(Self { input, entry, list_error: None })
    }

    /// Returns the error that explains why a call failed: if there is no connection since the list, that of the list.
    pub(crate) fn explain(&mut self, error: Error) -> Error {
        let is_lost = matches!(error.http(), Some(HttpError::Unreachable { .. } | HttpError::Lost { .. }))
            || matches!(error, Error::Closed(_));
        self.list_error.take().filter(|_| is_lost).unwrap_or(error)
    }

    /// Describes how a result differs from the output schema, or why that schema cannot be used (TOOL-016).
    #[cfg(feature = "check")]
    pub(crate) fn describe_mismatch(&self, tool: &str, result: &RawJson) -> Option<String> {
        use mcp_proto::client::{OutputMismatch, OutputSchemas};

        let mut schemas = OutputSchemas::new(mcp_std::schema::JsonSchemaValidator::new());
        schemas.set_tools(self.entry.as_slice());
        match schemas.check(tool, result) {
            Ok(()) => None,
            Err(OutputMismatch::Result(violations)) => {
                Some(format!("the result does not fit the output schema of the tool `{tool}`: {violations}"))
            }
            Err(OutputMismatch::Schema(error)) => {
                Some(format!("the output schema of the tool `{tool}` cannot be used: {error}"))
            }
        }
    }

    /// Returns `None`: this program was built without a validator.
    #[cfg(not(feature = "check"))]
    pub(crate) const fn describe_mismatch(&self, _: &str, _: &RawJson) -> Option<String> {
        let _ = &self.entry;
        None
    }
}

/// Returns the entry of a tool.
pub(crate) fn find_tool(tools: Vec<RawJson>, name: &str) -> Option<RawJson> {
    tools.into_iter().find(|tool| tool.member("name").and_then(|of| of.string()).as_deref() == Some(name))
}

/// Returns what is wrong with a call by the list of the server, whatever the server says of it: there is no such tool, or its schema has
/// other arguments.
pub(crate) fn advice(client: &mut Client, tool: &str, arguments: &RawJson) -> Option<String> {
    let tools = client.list(EntryKind::Tool).ok()?;
    match find_tool(tools.clone(), tool) {
        Some(entry) => argument_advice(tool, &entry.member("inputSchema")?, arguments),
        None => request::alternatives_among(&tools, "tool", "name", tool),
    }
}

/// Returns which arguments of a call are not in the schema of the tool, if that has them all, and which are missing.
pub(crate) fn argument_advice(tool: &str, schema: &RawJson, arguments: &RawJson) -> Option<String> {
    let schema = schema::resolve_ref(schema, schema.clone());
    let known =
        schema.member("properties").map(|properties| ordered::members(&properties)).unwrap_or_default();
    let required: Vec<String> =
        schema.member("required").and_then(|names| names.parse().ok()).unwrap_or_default();
    let given = ordered::members(arguments);
    let has = |all: &[(String, RawJson)], name: &str| all.iter().any(|(other, _)| other == name);
    let names = || known.iter().map(|(name, _)| name.as_str());
    let is_open =
        ["additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"]
            .iter();
    let is_open = schema.member("properties").is_none()
        || is_open.filter_map(|word| schema.member(word)).any(|value| value.as_str() != "false");
    let unknown = given.iter().filter(|(name, _)| !is_open && !has(&known, name)).map(|(name, _)| {
        let near = nearest(name, names()).map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
        format!("has no argument `{name}`{near}")
    });
    let missing = required.iter().filter(|name| !has(&given, name)).map(|name| format!("needs `{name}`"));
    let wrong: Vec<_> = unknown.chain(missing).take(MAX_NAMES_SHOWN).collect();
    let takes = if known.is_empty() { "no arguments".into() } else { join_names(names()) };
    (!wrong.is_empty()).then(|| format!("by its schema `{tool}` {}; it takes {takes}", wrong.join(", and ")))
}

/// Adds the arguments of the command line to an object, whose members with the same name they replace. `of` names what takes them.
///
/// # Errors
///
/// Fails if a value does not have a type of the schema.
pub(crate) fn merge(
    of: &str,
    arguments: &[NamedArgument],
    object: &RawJson,
    schema: Option<&RawJson>,
) -> Result<RawJson, CommandFailure> {
    if arguments.is_empty() {
        return Ok(object.clone());
    }
    let mut members = ordered::members(object);
    for NamedArgument { name, value } in arguments {
        let value = match value {
            ArgumentValue::Json(json) => json.clone(),
            ArgumentValue::Text(text) => {
                let value = schema::value_from_text(schema, name, text);
                value.map_err(|why| invalid_value(of, name, text, &why))?
            }
        };
        members.retain(|(other, _)| other != name);
        members.push((name.clone(), value));
    }
    ordered::object(&members).map_err(|error| CommandFailure::failed(error.to_string()))
}

/// Checks that no argument is given twice.
///
/// # Errors
///
/// Fails with a usage error that names the argument.
pub(crate) fn check_unique<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), CommandFailure> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(CommandFailure::usage(format!("the argument `{name}` is given twice")));
        }
    }
    Ok(())
}

/// Returns a JSON object from its source.
///
/// # Errors
///
/// Fails if the source cannot be read, is too large, is not a JSON object, or is stdin that another option reads.
pub(crate) fn read_object(
    source: &JsonSource,
    authorization: &AuthorizationArgs,
) -> Result<RawJson, CommandFailure> {
    let (name, input): (String, io::Result<Box<dyn Read>>) = match source {
        JsonSource::Json(json) => return Ok(json.clone()),
        JsonSource::File(path) => {
            (format!("@{}", path.display()), File::open(path).map(|file| Box::new(file) as _))
        }
        JsonSource::Stdin => {
            authorization::check_stdin(authorization, "where --args comes from")?;
            ("-".to_owned(), Ok(Box::new(io::stdin().lock())))
        }
    };
    let wrong = |why: &str| CommandFailure::usage(format!("--args {name}: {why}"));
    let mut text = String::new();
    let read = input.and_then(|input| input.take(MAX_ARGS_BYTES + 1).read_to_string(&mut text));
    read.map_err(|error| wrong(&error.to_string()))?;
    if text.len() as u64 > MAX_ARGS_BYTES {
        return Err(wrong(&format!("is larger than {MAX_ARGS_BYTES} bytes")));
    }
    json_object(&text).map_err(|why| wrong(&why))
}

fn invalid_value(of: &str, name: &str, text: &str, why: &str) -> CommandFailure {
    let short: String = text.chars().take(MAX_VALUE_CHARS).collect();
    let more = if short.len() < text.len() { " …" } else { "" };
    let value = Value::from(short);
    CommandFailure::usage(format!("{of}: the argument `{name}` {why}, but is {value}{more}"))
        .with_hint(format!("{name}:=JSON sends a value of any type; `mcp-probe inspect` shows the types"))
}

/// Maximum size of the arguments from a file or from stdin, in bytes. Larger input is refused.
const MAX_ARGS_BYTES: u64 = 16 << 20;
/// Maximum number of characters shown of a value.
const MAX_VALUE_CHARS: usize = 100;
