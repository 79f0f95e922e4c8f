//! Configuration files of MCP clients: Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Gemini CLI, Copilot, opencode,
//! Zed, and others with the same forms.

mod entry;
mod forms;

use alloc::sync::Arc;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::{Map, Value};

use super::jsonc::{self, Step};
use super::variables::Variables;
use crate::failure::CommandFailure;
use crate::output::join_names;
pub(super) use entry::{ConfigEntry, ConfigHeader};
use forms::{FORMS_HINT, FoundServer, find_servers};

/// A server of a configuration file.
pub(super) struct ConfiguredServer {
    pub(super) name: String,
    pub(super) entry: ConfigEntry,
}

/// A server of a configuration file, with all members of its entry.
pub(super) struct ConfiguredEntry {
    pub(super) server: ConfiguredServer,
    pub(super) members: Map<String, Value>,
    pub(super) at: Location,
}

/// Position in a configuration file, for error messages: the path of the file, then the members down to a value.
#[derive(Clone)]
pub(crate) struct Location {
    file: String,
    /// The file as JSON, to find lines in.
    text: Arc<str>,
    path: Vec<Step>,
}

impl Location {
    /// Returns the location of a member of this value.
    pub(crate) fn member(&self, name: &str) -> Self {
        self.step(Step::Member(name.to_owned()))
    }

    pub(crate) fn element(&self, index: usize) -> Self {
        self.step(Step::Element(index))
    }

    fn step(&self, step: Step) -> Self {
        let mut below = self.clone();
        below.path.push(step);
        below
    }

    /// Formats the location: `mcp.json: mcpServers.files.command`.
    pub(crate) fn describe(&self) -> String {
        let mut text = self.file.clone();
        for (depth, step) in self.path.iter().enumerate() {
            let before = if depth == 0 { ": " } else { "." };
            match step {
                Step::Member(name) => text.extend([before, name]),
                Step::Element(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }

    /// Creates the failure for an invalid value here, which names its line. `why` must not contain the value, which may be secret.
    pub(crate) fn failure(&self, why: &str) -> CommandFailure {
        let line = jsonc::line_of(&self.text, &self.path).filter(|_| !self.path.is_empty());
        let line = line.map(|line| format!(" (line {line})")).unwrap_or_default();
        CommandFailure::usage(format!("{}: {why}{line}", self.describe()))
    }
}

/// Reads the entry of a server from a configuration file. Without a name, the file must have exactly one server.
///
/// # Errors
///
/// Fails if the file cannot be read, has no such server, or if the entry is invalid. The message names the file, the
/// member, and for an unknown server those that exist. It contains no values.
pub(super) fn load(path: &Path, name: Option<&str>) -> Result<ConfiguredServer, CommandFailure> {
    let (top, root) = read(path)?;
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
    check_project(named, &at)?;
    let at = &named.at;
    let entry = entry::parse(members_of(named)?, at, &Variables::new(path))?;
    Ok(ConfiguredServer { name: named.name.to_owned(), entry })
}

/// Reads the entries of all servers of a configuration file that are not disabled, with all of their members.
///
/// # Errors
///
/// Fails if the file cannot be read or has a member twice, or if an entry is invalid. The message contains no values.
pub(super) fn load_all(path: &Path) -> Result<Vec<ConfiguredEntry>, CommandFailure> {
    let (top, root) = read(path)?;
    jsonc::check_members(&top.text).map_err(|why| top.failure(&why))?;
    let (servers, at) = find_servers(&root, &top)?;
    let variables = Variables::new(path);
    let mut all = Vec::new();
    for found in &servers {
        check_project(found, &at)?;
        let members = members_of(found)?;
        let is = |member: &str, value: bool| members.get(member) == Some(&Value::Bool(value));
        if is("disabled", true) || is("enabled", false) {
            continue;
        }
        let server = ConfiguredServer {
            name: found.name.to_owned(),
            entry: entry::parse(members, &found.at, &variables)?,
        };
        all.push(ConfiguredEntry { server, members: members.clone(), at: found.at.clone() });
    }
    Ok(all)
}

/// Checks that a server belongs to one project, if to any.
fn check_project(found: &FoundServer<'_>, at: &Location) -> Result<(), CommandFailure> {
    if let [_, _, ..] = found.projects[..] {
        let projects = join_names(found.projects.iter().copied());
        let why = format!(
            "`{}` is a server of several projects: run this in the folder of one: {projects}",
            found.name
        );
        return Err(at.failure(&why));
    }
    Ok(())
}

fn members_of<'a>(found: &FoundServer<'a>) -> Result<&'a Map<String, Value>, CommandFailure> {
    found.entry.as_object().ok_or_else(|| found.at.failure("must be an object"))
}

/// Reads a file. Returns its place and its content.
fn read(path: &Path) -> Result<(Location, Value), CommandFailure> {
    let top = Location { file: path.display().to_string(), text: "".into(), path: Vec::new() };
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| top.failure(&error.to_string()))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(top.failure(&format!("is larger than {MAX_FILE_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| top.failure("is not UTF-8"))?;
    let text = jsonc::to_json(&text);
    let root = serde_json::from_str(&text)
        .map_err(|error| top.failure(&format!("is not valid JSON: {error}")).with_hint(FORMS_HINT))?;
    Ok((Location { text: text.into(), ..top }, root))
}

/// Maximum size of a configuration file in bytes. A larger one is refused.
const MAX_FILE_BYTES: u64 = 1 << 20;
