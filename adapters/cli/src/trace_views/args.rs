//! Options of the command `trace`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Shows, compares and converts recorded traces.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    Show(ShowArgs),
    Diff(DiffArgs),
    /// Writes a trace as one HTML page, which needs no network.
    ///
    /// A timeline of both sides, with filters and the details of each message. A page has at most 200,000 records and 64 MiB
    /// of their text; it says what it leaves out.
    #[command(after_help = HTML_HELP, after_long_help = HTML_HELP)]
    Html(ConvertArgs),
    /// Writes the HTTP exchanges of a trace as a HAR 1.2 file, for the tools of browsers.
    #[command(after_help = HAR_HELP, after_long_help = HAR_HELP)]
    Har(ConvertArgs),
    /// Writes the calls of a trace as spans of OpenTelemetry, in OTLP/JSON.
    ///
    /// One span for each request, with the names and attributes of the semantic conventions for MCP. Its parent is that of
    /// `traceparent` in the request's _meta, if there is one. A call without a response ends with the trace.
    #[command(after_help = OTLP_HELP, after_long_help = OTLP_HELP)]
    Otlp(ConvertArgs),
}

/// How much of a trace is read.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SizeArgs {
    /// Refuses a trace of more bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    pub(crate) max_size: u64,
}

/// Prints a trace, one line for each message, and a summary.
///
/// A line has the time, the direction, the method, the name of the tool, prompt or resource, and the id; that of a
/// response also the time since its request. It is cut to the width of the terminal (COLUMNS, or 100 without one).
#[derive(Debug, Args)]
#[command(after_help = SHOW_HELP, after_long_help = SHOW_HELP)]
pub(crate) struct ShowArgs {
    /// The trace, or - for stdin.
    pub(crate) file: PathBuf,
    /// Prints whole messages.
    #[arg(long)]
    pub(crate) full: bool,
    /// Shows only this method, with its responses; with * at the end all that begin so.
    #[arg(long, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// Shows only what comes from this side.
    #[arg(long, value_enum, value_name = "SIDE")]
    pub(crate) from: Option<SideChoice>,
    /// Shows only calls that failed or have no response, lines that are no message, and losses.
    #[arg(long)]
    pub(crate) errors: bool,
    /// Prints a JSON array of the calls instead.
    ///
    /// Their members: id, method, target, from, exchange, start and duration (milliseconds), outcome (ok, tool_error,
    /// error, cancelled or unanswered), error (code and message), requestBytes, responseBytes.
    #[arg(long, conflicts_with = "full")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) size: SizeArgs,
}

/// A side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum SideChoice {
    Client,
    Server,
}

/// Compares two traces message by message.
///
/// The messages of each side are compared in their order. Ids, tokens, times, what was written to stderr, heads of HTTP
/// and the members of _meta that are the protocol's are left out. Messages are first matched by method and arguments
/// (responses by those of their request), then by method and name, so that an additional call moves nothing. The exit
/// code is 1 if there is a difference.
#[derive(Debug, Args)]
#[command(after_help = DIFF_HELP, after_long_help = DIFF_HELP)]
pub(crate) struct DiffArgs {
    /// The first trace.
    #[arg(value_name = "A")]
    pub(crate) first: PathBuf,
    /// The second trace.
    #[arg(value_name = "B")]
    pub(crate) second: PathBuf,
    /// Prints a JSON array of the differences instead.
    ///
    /// Their members: from, message, change (onlyFirst, onlySecond, moved or value), firstLine, secondLine; of a value also
    /// pointer, first and second.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) size: SizeArgs,
}

/// A trace that is converted, and where to.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// The trace, or - for stdin.
    pub(crate) file: PathBuf,
    /// Writes to this file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) size: SizeArgs,
}

const SHOW_HELP: &str = "\
Examples:
  mcp-probe trace show session.ndjson
  mcp-probe trace show --method 'tools/*' --errors session.ndjson
  mcp-probe trace show --full session.ndjson | less
  mcp-probe trace show --json session.ndjson |
      jq '.[] | select(.duration > 500)'";

const DIFF_HELP: &str = "\
Examples:
  mcp-probe trace diff before.ndjson after.ndjson";

const HTML_HELP: &str = "\
Examples:
  mcp-probe trace html --out session.html session.ndjson";

const HAR_HELP: &str = "\
Examples:
  mcp-probe trace har --out session.har session.ndjson";

const OTLP_HELP: &str = "\
Examples:
  mcp-probe trace otlp session.ndjson |
      curl --json @- http://127.0.0.1:4318/v1/traces";
