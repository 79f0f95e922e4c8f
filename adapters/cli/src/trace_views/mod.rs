//! The command `trace`: recorded traces as lines, differences, a page, HTTP exchanges and spans.

mod args;
mod diff;
mod show;

use mcp_proto_trace::Trace;
use mcp_proto_trace::views::{Producer, View, har, html, otlp};

use crate::failure::CommandFailure;
use crate::notes::print_note;
use crate::output::{print, write_private_file};
use crate::trace::read_file;
use args::ConvertArgs;

pub(crate) use args::TraceCommand;

const BY: Producer<'_> = Producer { name: "mcp-probe", version: env!("CARGO_PKG_VERSION") };

pub(crate) fn run(command: &TraceCommand) -> Result<(), CommandFailure> {
    match command {
        TraceCommand::Show(args) => show::run(args),
        TraceCommand::Diff(args) => diff::run(args),
        TraceCommand::Html(args) => write(args, &html(&read(args)?)),
        TraceCommand::Har(args) => {
            let archive = har(&read(args)?, BY).map_err(|error| {
                CommandFailure::failed(error.to_string())
                    .with_hint("`trace show` and `trace otlp` take any trace")
            })?;
            write(args, &archive)
        }
        TraceCommand::Otlp(args) => write(args, &otlp(&read(args)?, BY)),
    }
}

fn read(args: &ConvertArgs) -> Result<Trace, CommandFailure> {
    read_file(&args.file, args.size.max_size)
}

/// Writes what is made of a trace to stdout or a file.
fn write(args: &ConvertArgs, view: &View) -> Result<(), CommandFailure> {
    view.notes.iter().for_each(|note| print_note(note));
    let Some(path) = &args.out else { return print(&view.text) };
    // What the two sides said is in it, as in the trace.
    write_private_file(path, &view.text).map_err(CommandFailure::unwritten(path))
}
