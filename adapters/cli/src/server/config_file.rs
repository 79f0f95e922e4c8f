//! Configuration files of MCP clients: Claude Desktop, Claude Code, Cursor, VS Code and others with the same form.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::{Map, Value};

use super::jsonc;
use super::variables::Variables;
use crate::escape;
use crate::failure::CommandFailure;
use crate::request::join_names;
use crate::session::print_note;

/// An entry of a configuration file, with its variables replaced.
pub(super) enum ConfigEntry {
    Program { command: String, args: Vec<String>, env: Vec<(String, String)>, directory: Option<String> },
    Remote { url: String, headers: Vec<(String, String)> },
}

/// A server of a configuration file.
pub(super) struct ConfiguredServer {
    pub(super) name: String,
    pub(super) entry: ConfigEntry,
    pub(super) at: Location,
}

/// Position in a configuration file, for error messages: the path of the file, then the members down to a value.
#[derive(Clone)]
pub(super) struct Location {
    file: String,
    member: String,
}

impl Location {
    /// Returns the location of a member of this value.
    pub(super) fn member(&self, name: &str) -> Self {
        let dot = if self.member.is_empty() { "" } else { "." };
        Self { file: self.file.clone(), member: format!("{}{dot}{name}", self.member) }
    }

    fn element(&self, index: usize) -> Self {
        Self { file: self.file.clone(), member: format!("{}[{index}]", self.member) }
    }

    /// Formats the location: `mcp.json: mcpServers.files.command`.
    pub(super) fn describe(&self) -> String {
        if self.member.is_empty() { self.file.clone() } else { format!("{}: {}", self.file, self.member) }
    }

    /// Creates the failure for an invalid value here. `why` must not contain the value, which may be secret.
    pub(super) fn failure(&self, why: &str) -> CommandFailure {
        CommandFailure::usage(format!("{}: {why}", self.describe()))
    }
}

/// Reads the entry of a server from a configuration file. Without a name, the file must have exactly one server.
///
/// # Errors
///
/// Fails if the file cannot be read, has no such server, or if the entry is invalid. The message names the file, the
/// member, and for an unknown server those that exist. It contains no values.
pub(super) fn load(path: &Path, name: Option<&str>) -> Result<ConfiguredServer, CommandFailure> {
    let top = Location { file: path.display().to_string(), member: String::new() };
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| top.failure(&error.to_string()))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(top.failure(&format!("is larger than {MAX_FILE_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| top.failure("is not UTF-8"))?;
    let root: Value = serde_json::from_str(&jsonc::to_json(&text))
        .map_err(|error| top.failure(&format!("is not valid JSON: {error}")).with_hint(FORMS_HINT))?;
    let (servers, at) = find_servers(&root, &top)?;
    let names = || join_names(servers.keys().map(String::as_str));
    let name = match (name, servers.len()) {
        (_, 0) => return Err(at.failure("has no servers")),
        (Some(name), _) => name,
        (None, 1) => servers.keys().next().map(String::as_str).unwrap_or_default(),
        (None, _) => {
            return Err(at.failure(&format!("choose a server with --server NAME; there are: {}", names())));
        }
    };
    let Some(entry) = servers.get(name) else {
        return Err(at.failure(&format!("there is no server `{name}`; there are: {}", names())));
    };
    let at = at.member(name);
    let entry = entry.as_object().ok_or_else(|| at.failure("must be an object"))?;
    let entry = parse_entry(entry, &at, &Variables::new(path))?;
    Ok(ConfiguredServer { name: name.to_owned(), entry, at })
}

const FORMS_HINT: &str = "--config reads `mcpServers` or `servers`, as in .mcp.json and .vscode/mcp.json";

/// Returns the object that holds the servers, in any of the known forms.
fn find_servers<'a>(
    root: &'a Value,
    top: &Location,
) -> Result<(&'a Map<String, Value>, Location), CommandFailure> {
    // `mcp.servers` is the form in the settings of VS Code.
    for path in [&["mcpServers"][..], &["servers"], &["mcp", "servers"]] {
        let found = path.iter().try_fold(root, |value, name| value.get(name));
        if let Some(found) = found {
            let at = path.iter().fold(top.clone(), |at, name| at.member(name));
            let servers = found.as_object().ok_or_else(|| at.failure("must be an object"))?;
            return Ok((servers, at));
        }
    }
    Err(top.failure("has no `mcpServers` and no `servers`").with_hint(FORMS_HINT))
}

fn parse_entry(
    entry: &Map<String, Value>,
    at: &Location,
    variables: &Variables,
) -> Result<ConfigEntry, CommandFailure> {
    let kind = entry.get("type").map(|kind| text(kind, &at.member("type"), variables)).transpose()?;
    let is_remote = match kind.as_deref() {
        Some("stdio") => false,
        Some("http" | "sse" | "streamable-http" | "streamableHttp") => true,
        Some(_) => return Err(at.member("type").failure("must be stdio, http or sse")),
        None => !entry.contains_key("command"),
    };
    if is_remote {
        let url = entry.get("url").ok_or_else(|| at.failure("has neither `command` nor `url`"))?;
        return Ok(ConfigEntry::Remote {
            url: text(url, &at.member("url"), variables)?,
            headers: texts_by_name(entry, "headers", at, variables)?,
        });
    }
    let command = entry.get("command").ok_or_else(|| at.failure("has no `command`"))?;
    if entry.contains_key("envFile") {
        print_note(&format!(
            "{} is not read: pass variables with --env",
            escape::line(&at.member("envFile").describe())
        ));
    }
    Ok(ConfigEntry::Program {
        command: text(command, &at.member("command"), variables)?,
        args: match entry.get("args") {
            None => Vec::new(),
            Some(args) => {
                let at = at.member("args");
                let args = args.as_array().ok_or_else(|| at.failure("must be an array of strings"))?;
                let args = args.iter().enumerate();
                args.map(|(index, arg)| text(arg, &at.element(index), variables)).collect::<Result<_, _>>()?
            }
        },
        env: texts_by_name(entry, "env", at, variables)?,
        directory: entry.get("cwd").map(|cwd| text(cwd, &at.member("cwd"), variables)).transpose()?,
    })
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
        Value::Number(number) if member == "env" => Ok((name.clone(), number.to_string())),
        value => Ok((name.clone(), text(value, &at.member(name), variables)?)),
    };
    values.iter().map(one).collect()
}

/// Returns a string with its variables replaced.
fn text(value: &Value, at: &Location, variables: &Variables) -> Result<String, CommandFailure> {
    let value = value.as_str().ok_or_else(|| at.failure("must be a string"))?;
    variables.expand(value).map_err(|why| at.failure(&why))
}

/// Maximum size of a configuration file in bytes. A larger one is refused.
const MAX_FILE_BYTES: u64 = 1 << 20;
