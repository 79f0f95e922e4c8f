//! Configuration files of MCP clients: Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Gemini CLI, Copilot, opencode,
//! Zed, and others with the same forms.

mod entry;
mod forms;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use super::jsonc;
use super::variables::Variables;
use crate::failure::CommandFailure;
use crate::request::join_names;
pub(super) use entry::{ConfigEntry, ConfigHeader};
use forms::{FORMS_HINT, find_servers};

/// A server of a configuration file.
pub(super) struct ConfiguredServer {
    pub(super) name: String,
    pub(super) entry: ConfigEntry,
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

    pub(super) fn element(&self, index: usize) -> Self {
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
    let names = || join_names(servers.iter().map(|server| server.name));
    let named = match (name, &servers[..]) {
        (_, []) => return Err(at.failure("has no servers")),
        (Some(name), all) => all
            .iter()
            .find(|server| server.name == name)
            .ok_or_else(|| at.failure(&format!("there is no server `{name}`; there are: {}", names())))?,
        (None, [only]) => only,
        (None, _) => {
            return Err(at.failure(&format!("choose a server with --server NAME; there are: {}", names())));
        }
    };
    if let [_, _, ..] = named.projects[..] {
        let projects = join_names(named.projects.iter().copied());
        let why = format!(
            "`{}` is a server of several projects: run this in the folder of one: {projects}",
            named.name
        );
        return Err(at.failure(&why));
    }
    let at = named.at.clone();
    let entry = named.entry.as_object().ok_or_else(|| at.failure("must be an object"))?;
    let entry = entry::parse(entry, &at, &Variables::new(path))?;
    Ok(ConfiguredServer { name: named.name.to_owned(), entry })
}

/// Maximum size of a configuration file in bytes. A larger one is refused.
const MAX_FILE_BYTES: u64 = 1 << 20;
