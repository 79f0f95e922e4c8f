//! The command `trace`: recorded traces as lines, differences, a page, HTTP exchanges and spans.

mod args;
mod diff;
mod har;
mod html;
mod otlp;
mod show;

use mcp_proto_trace::{Outcome, Trace};

use crate::failure::CommandFailure;
use crate::output::{print, write_private_file};
use crate::session::print_note;
use crate::trace::read_file;
use args::ConvertArgs;

pub(crate) use args::TraceCommand;

pub(crate) fn run(command: &TraceCommand) -> Result<(), CommandFailure> {
    match command {
        TraceCommand::Show(args) => show::run(args),
        TraceCommand::Diff(args) => diff::run(args),
        TraceCommand::Html(args) => convert(&args.convert, html::page),
        TraceCommand::Har(args) => convert(args, har::document),
        TraceCommand::Otlp(args) => convert(&args.convert, otlp::document),
    }
}

/// What is made of a trace, with notes about what it lacks.
struct Document {
    text: String,
    notes: Vec<String>,
}

/// Writes what is made of a trace to stdout or a file.
fn convert(
    args: &ConvertArgs,
    format: fn(&Trace) -> Result<Document, CommandFailure>,
) -> Result<(), CommandFailure> {
    let Document { text, notes } = format(&read_file(&args.file, args.size.max_size)?)?;
    notes.iter().for_each(|note| print_note(note));
    let Some(path) = &args.out else { return print(&text) };
    // What the two sides said is in it, as in the trace.
    write_private_file(path, &text)
        .map_err(|error| CommandFailure::failed(format!("cannot write {}: {error}", path.display())))
}

/// Returns the name of an outcome in JSON.
const fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "ok",
        Outcome::ToolError => "tool_error",
        Outcome::Failed { .. } => "error",
        Outcome::Cancelled => "cancelled",
        _ => "unanswered",
    }
}
