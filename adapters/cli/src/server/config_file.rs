//! Configuration files of MCP clients: Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Gemini CLI, Copilot, opencode,
//! Zed, and others with the same forms.

mod entry;
mod forms;

use std::path::Path;

use serde_json::{Map, Value};

use super::variables::Variables;
use super::{NamedServer, Server};
use crate::escape;
use crate::failure::CommandFailure;
use crate::notes::print_note;
use crate::output::join_names;
use forms::{FORMS_HINT, FoundServer, find_servers};
use mcp_std::json_file::{self, Location};

/// Reads the entry of a server from a configuration file. Without a name, the file must have exactly one server.
///
/// # Errors
///
/// Fails if the file cannot be read, has no such server, or if the entry is invalid. The message names the file, the
/// member, and for an unknown server those that exist. It contains no values.
pub(super) fn load(path: &Path, name: Option<&str>) -> Result<Server, CommandFailure> {
    let (top, root) = read(path)?;
    let (servers, at) = find_servers(&root, &top)?;
    let names = || join_names(servers.iter().map(|server| server.name));
    let named = match (name, &servers[..]) {
        (_, []) => return Err(at.failure("has no servers").into()),
        (Some(name), all) => all
            .iter()
            .find(|server| server.name == name)
            .ok_or_else(|| at.failure(&format!("there is no server `{name}`; there are: {}", names())))?,
        (None, [only]) => only,
        (None, _) => {
            return Err(at
                .failure(&format!("choose a server with --server NAME; there are: {}", names()))
                .into());
        }
    };
    check_project(named, &at)?;
    let at = &named.at;
    let members = members_of(named)?;
    let server = entry::parse(named, members, &Variables::new(path))?;
    let ignored = members.iter().filter(|(name, value)| !entry::is_followed(name, value));
    let ignored = join_names(ignored.map(|(name, _)| name.as_str()));
    if !ignored.is_empty() {
        print_note(&format!("{}: members that are not followed: {ignored}", escape::line(&at.describe())));
    }
    Ok(server)
}

/// Reads the entries of all servers of a configuration file that are not disabled, with all of their members.
///
/// # Errors
///
/// Fails if the file cannot be read or has a member twice, or if an entry is invalid. The message contains no values.
pub(super) fn load_all(path: &Path) -> Result<Vec<NamedServer>, CommandFailure> {
    let (top, root) = read(path)?;
    top.check_members()?;
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
        let (name, server) = (found.name.to_owned(), entry::parse(found, members, &variables)?);
        all.push(NamedServer { name, server, members: members.clone(), at: found.at.clone() });
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
        return Err(at.failure(&why).into());
    }
    Ok(())
}

fn members_of<'a>(found: &FoundServer<'a>) -> Result<&'a Map<String, Value>, CommandFailure> {
    found.entry.as_object().ok_or_else(|| found.at.failure("must be an object").into())
}

/// Reads a file. Returns its place and its content.
fn read(path: &Path) -> Result<(Location, Value), CommandFailure> {
    Ok(json_file::read(path, MAX_FILE_BYTES, FORMS_HINT)?)
}

/// Maximum size of a configuration file in bytes. A larger one is refused.
const MAX_FILE_BYTES: u64 = 1 << 20;
