//! The entry of a server in a configuration file, in the form of any client.

use serde_json::{Map, Value, json};

use super::{FoundServer, Location};
use crate::args;
use crate::escape;
use crate::failure::CommandFailure;
use crate::notes::print_note;
use crate::server::variables::Variables;
use crate::server::{HeaderField, RemoteServer, Server, ServerProgram};

/// Members with the URL of a server. That of Gemini CLI comes first, which has `url` for HTTP+SSE; Windsurf has `serverUrl`.
const URL_MEMBERS: [&str; 3] = ["httpUrl", "serverUrl", "url"];

/// Returns whether a member is read, or asks for nothing. `envFile` has a note of its own.
pub(super) fn is_followed(name: &str, value: &Value) -> bool {
    let is_read =
        matches!(name, "type" | "command" | "args" | "env" | "environment" | "envFile" | "cwd" | "headers")
            || URL_MEMBERS.contains(&name)
            || matches!(
                (name, value),
                ("source" | "name" | "description", _) | ("enabled", Value::Bool(true))
            );
    is_read || matches!(value, Value::Null | Value::Bool(false)) || *value == json!([]) || *value == json!({})
}

/// Reads an entry.
///
/// # Errors
///
/// Fails if a member has another form, or if a variable is not set. The message contains no value.
pub(super) fn parse(
    found: &FoundServer<'_>,
    entry: &Map<String, Value>,
    variables: &Variables,
) -> Result<Server, CommandFailure> {
    let at = &found.at;
    let kind = entry.get("type").map(|kind| text(kind, &at.member("type"), variables)).transpose()?;
    let is_remote = match kind.as_deref() {
        // `local` and `remote` are those of opencode, and `local` that of Copilot.
        Some("stdio" | "local") => false,
        Some("http" | "sse" | "streamable-http" | "streamable_http" | "streamableHttp" | "remote") => true,
        Some(_) => {
            return Err(at.member("type").failure("must be stdio, http or sse, or local or remote").into());
        }
        None => !entry.contains_key("command"),
    };
    if is_remote { remote(entry, at, variables) } else { program(found, entry, variables, kind.as_deref()) }
}

fn remote(
    entry: &Map<String, Value>,
    at: &Location,
    variables: &Variables,
) -> Result<Server, CommandFailure> {
    let found = URL_MEMBERS.iter().find_map(|member| Some((at.member(member), entry.get(*member)?)));
    let (url_at, url) = match (found, entry.get("source").and_then(Value::as_str)) {
        (Some(found), _) => found,
        (None, Some("extension")) => {
            return Err(at
                .failure("comes from an extension of the editor, which alone knows its command")
                .into());
        }
        (None, _) => return Err(at.failure("has neither `command` nor `url`").into()),
    };
    let url = text(url, &url_at, variables)?;
    if !args::is_url(&url) {
        return Err(url_at.failure("must be an http or https URL").into());
    }
    let headers_at = at.member("headers");
    let headers = texts_by_name(entry, "headers", at, variables)?.into_iter();
    let header = |(name, value): (String, String)| {
        let source = headers_at.member(&name).describe();
        HeaderField { name, value, source }
    };
    Ok(Server::Remote(RemoteServer::new(url, headers.map(header).collect())))
}

fn program(
    FoundServer { name, at, .. }: &FoundServer<'_>,
    entry: &Map<String, Value>,
    variables: &Variables,
    kind: Option<&str>,
) -> Result<Server, CommandFailure> {
    let command = entry.get("command").ok_or_else(|| at.failure("has no `command`"))?;
    if entry.contains_key("envFile") {
        print_note(&format!(
            "{} is not read: name its variables in `env`",
            escape::line(&at.member("envFile").describe())
        ));
    }
    let command_at = at.member("command");
    // opencode writes the whole command as one array, and older files of Zed write an object.
    let (command, mut words, env_of_command) = match command {
        Value::Array(_) if kind == Some("local") => {
            let mut words = texts(Some(command), &command_at, variables)?;
            if words.is_empty() {
                return Err(command_at.failure("must not be empty").into());
            }
            (words.remove(0), words, Vec::new())
        }
        Value::Object(parts) => {
            let path_at = command_at.member("path");
            let path = parts.get("path").ok_or_else(|| command_at.failure("has no `path`"))?;
            let words = texts(parts.get("args"), &command_at.member("args"), variables)?;
            (text(path, &path_at, variables)?, words, texts_by_name(parts, "env", &command_at, variables)?)
        }
        command => (text(command, &command_at, variables)?, Vec::new(), Vec::new()),
    };
    words.extend(texts(entry.get("args"), &at.member("args"), variables)?);
    let mut env = env_of_command;
    for member in ["env", "environment"] {
        env.extend(texts_by_name(entry, member, at, variables)?);
    }
    let directory = entry.get("cwd").map(|cwd| text(cwd, &at.member("cwd"), variables)).transpose()?;
    Ok(Server::Program(ServerProgram {
        program: command.into(),
        args: words.into_iter().map(Into::into).collect(),
        env: env.into_iter().map(|(name, value)| (name, Some(value))).collect(),
        directory: directory.map(Into::into),
        name: Some((*name).to_owned()),
        ..ServerProgram::default()
    }))
}

/// Returns an array of strings; none if it is missing.
fn texts(value: Option<&Value>, at: &Location, variables: &Variables) -> Result<Vec<String>, CommandFailure> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let values = value.as_array().ok_or_else(|| at.failure("must be an array of strings"))?;
    values.iter().enumerate().map(|(index, value)| text(value, &at.element(index), variables)).collect()
}

/// Returns the members of an object of strings. VS Code also writes numbers as values of `env`.
fn texts_by_name(
    entry: &Map<String, Value>,
    member: &str,
    at: &Location,
    variables: &Variables,
) -> Result<Vec<(String, String)>, CommandFailure> {
    let at = at.member(member);
    let values = match entry.get(member) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(values) => values.as_object().ok_or_else(|| at.failure("must be an object of strings"))?,
    };
    let one = |(name, value): (&String, &Value)| match value {
        Value::Number(number) if member.starts_with("env") => Ok((name.clone(), number.to_string())),
        // A value that a variable stands for is not searched for further ones.
        Value::String(value) if !value.contains('{') => Ok((name.clone(), variables.expand_words(value))),
        value => Ok((name.clone(), text(value, &at.member(name), variables)?)),
    };
    values.iter().map(one).collect()
}

/// Returns a string with its variables replaced.
fn text(value: &Value, at: &Location, variables: &Variables) -> Result<String, CommandFailure> {
    let value = value.as_str().ok_or_else(|| at.failure("must be a string"))?;
    variables.expand(value).map_err(|why| at.failure(&why).into())
}
