//! The command `generate`: writes a typed client from the lists of a server.

mod functions;
mod layout;
mod names;
mod types;

use std::fs;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use mcp_blocking::Error;
use mcp_proto::rpc::code;
use mcp_proto::{CallError, EntryKind, RawJson};
use serde_json::Value;

use crate::args::{TargetArgs, usage};
use crate::failure::CommandFailure;
use crate::output::{count, print};
use crate::session::ClientSession;
use functions::ServerDescription;

/// Writes source code from the lists of a server.
#[derive(Debug, Subcommand)]
pub(crate) enum GenerateCommand {
    Rust(RustArgs),
}

/// Writes a typed client in Rust.
///
/// A method for each tool, prompt and resource template, with a struct of its arguments, and of its result if the
/// tool has an output schema. It works with any client that blocks (`BlockingCalls` of `mcp-runtime`). Parts of a
/// schema that have no Rust type become `serde_json::Value`, and a comment says why. Nothing is called.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe generate rust [OPTIONS]"))]
pub(crate) struct RustArgs {
    /// Writes the source here instead of to stdout.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

const HELP: &str = "\
Examples:
  mcp-probe generate rust -- mcp-probe serve
  mcp-probe generate rust --out src/tools.rs http://127.0.0.1:8080/mcp

Use of the written file, for a server named `files`:
  mod tools;
  let files = tools::Files(&client);
  let result = files.search(&tools::SearchArguments { .. })?;";

pub(crate) fn run(command: &GenerateCommand) -> Result<(), CommandFailure> {
    let GenerateCommand::Rust(args) = command;
    let server = ClientSession::run(&args.target, describe)?;
    let source = functions::source(&server);
    let Some(path) = &args.out else { return print(&source) };
    fs::write(path, source).map_err(|error| {
        CommandFailure::failed(format!("cannot write the source: {}: {error}", path.display()))
    })?;
    let lists = [
        (EntryKind::Tool, &server.tools),
        (EntryKind::Prompt, &server.prompts),
        (EntryKind::ResourceTemplate, &server.templates),
    ];
    let counts = lists.map(|(kind, entries)| count(entries.len(), &kind.to_string()));
    print(&format!("written from {}\n", counts.join(", ")))
}

/// Reads what a server says about itself.
fn describe(session: &mut ClientSession) -> Result<ServerDescription, CommandFailure> {
    let info: Value =
        session.client.peer().info.as_ref().and_then(|info| info.parse().ok()).unwrap_or_default();
    let text = |member: &str| info[member].as_str().unwrap_or_default().to_owned();
    Ok(ServerDescription {
        name: text("name"),
        version: text("version"),
        source: session.server_name(),
        tools: read(session, EntryKind::Tool)?,
        prompts: read(session, EntryKind::Prompt)?,
        templates: read(session, EntryKind::ResourceTemplate)?,
    })
}

/// Returns the entries of a list; none if the server has no such list.
fn read(session: &mut ClientSession, list: EntryKind) -> Result<Vec<RawJson>, CommandFailure> {
    if !session.client.peer().has(list.capability()) {
        return Ok(Vec::new());
    }
    match session.client.list(list) {
        Ok(entries) => Ok(entries),
        // Many servers with resources do not implement templates.
        Err(Error::Call(CallError::Rpc(error)))
            if list == EntryKind::ResourceTemplate && error.code == code::METHOD_NOT_FOUND =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(session.failure(&error).with_context(&format!("listing {}", list.list_member()))),
    }
}
