//! The command `trace`: recorded traces as lines, differences, a page, HTTP exchanges and spans.

mod args;
mod diff;
mod har;
mod html;
mod otlp;
mod show;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use mcp_proto_trace::{Outcome, Trace};

use crate::failure::CommandFailure;
use crate::output::print;
use crate::session::print_note;
use args::{ConvertArgs, SizeArgs};

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

/// Reads a trace. One that is cut is read up to there, which a note says.
fn read(path: &Path, size: SizeArgs) -> Result<Trace, CommandFailure> {
    let wrong = |error: &dyn core::fmt::Display| {
        CommandFailure::usage(format!("the trace {} cannot be used: {error}", path.display()))
    };
    let from: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(path).map_err(|error| wrong(&error))?))
    };
    let trace = Trace::read(from, size.max_size).map_err(|error| wrong(&error))?;
    if trace.is_cut {
        print_note(&format!("the trace {} ends within a line, and was read up to there", path.display()));
    }
    Ok(trace)
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
    let Document { text, notes } = format(&read(&args.file, args.size)?)?;
    notes.iter().for_each(|note| print_note(note));
    let Some(path) = &args.out else { return print(&text) };
    fs::write(path, text)
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
