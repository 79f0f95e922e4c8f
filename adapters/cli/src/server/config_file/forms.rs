//! The places of servers in the configuration files of clients.

use std::env;
use std::path::Path;

use serde_json::{Map, Value};

use super::Location;
use crate::failure::CommandFailure;

/// A server in a configuration file.
pub(super) struct FoundServer<'a> {
    pub(super) name: &'a str,
    pub(super) entry: &'a Value,
    pub(super) at: Location,
    /// Projects that have a server of this name, if it is none of this folder and none of all projects (Claude Code).
    pub(super) projects: Vec<&'a str>,
}

pub(super) const FORMS_HINT: &str = "--config reads the files of MCP clients, for example .mcp.json, .vscode/mcp.json and .gemini/settings.json";

/// Returns the servers of a file, in any of the known forms, and their place.
///
/// Each name is there once.
pub(super) fn find_servers<'a>(
    root: &'a Value,
    top: &Location,
) -> Result<(Vec<FoundServer<'a>>, Location), CommandFailure> {
    let projects = root.get("projects").and_then(Value::as_object);
    // `mcp.servers` is the form in the settings of VS Code, and of newer files of opencode.
    for path in [&["mcpServers"][..], &["servers"], &["context_servers"], &["mcp", "servers"], &["mcp"]] {
        let found = path.iter().try_fold(root, |value, name| value.get(name));
        if let Some(found) = found {
            let at = path.iter().fold(top.clone(), |at, name| at.member(name));
            let servers = found.as_object().ok_or_else(|| at.failure("must be an object"))?;
            return Ok(match projects {
                Some(projects) => (with_projects(Some((servers, &at)), projects, top), top.clone()),
                None => (entries(servers, &at).collect(), at),
            });
        }
    }
    if let Some(projects) = projects {
        return Ok((with_projects(None, projects, top), top.clone()));
    }
    let why = "has no `mcpServers` and no `servers`, nor `context_servers`, `mcp` or `projects`";
    Err(top.failure(why).with_hint(FORMS_HINT).into())
}

/// Returns the entries of one object of servers.
fn entries<'a>(servers: &'a Map<String, Value>, at: &Location) -> impl Iterator<Item = FoundServer<'a>> {
    servers.iter().map(|(name, entry)| FoundServer { name, entry, at: at.member(name), projects: Vec::new() })
}

/// Returns the servers of a file of Claude Code: those of the project of this folder, of all projects, of other projects.
fn with_projects<'a>(
    of_all: Option<(&'a Map<String, Value>, &Location)>,
    projects: &'a Map<String, Value>,
    top: &Location,
) -> Vec<FoundServer<'a>> {
    let folder = env::current_dir().unwrap_or_default();
    let here =
        folder.ancestors().find_map(|folder| projects.keys().find(|project| Path::new(project) == folder));
    let of_project = |project: &'a String| {
        let at = top.member("projects").member(project).member("mcpServers");
        let servers = projects.get(project)?.get("mcpServers")?.as_object()?;
        Some(entries(servers, &at).collect::<Vec<_>>())
    };
    let mut found = here.and_then(of_project).unwrap_or_default();
    let mut add = |server: FoundServer<'a>| match found.iter_mut().find(|other| other.name == server.name) {
        None => found.push(server),
        // Of several other projects the user has to choose one, unless they agree.
        Some(other) if !other.projects.is_empty() && other.entry != server.entry => {
            other.projects.extend(server.projects);
        }
        Some(_) => {}
    };
    of_all.into_iter().flat_map(|(servers, at)| entries(servers, at)).for_each(&mut add);
    for project in projects.keys().filter(|project| Some(*project) != here) {
        for server in of_project(project).into_iter().flatten() {
            add(FoundServer { projects: vec![project], ..server });
        }
    }
    found
}
