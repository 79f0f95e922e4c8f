//! The command line

mod help;
mod target;
mod values;

use core::time::Duration;
use std::ffi::OsString;
#[cfg(feature = "tls")]
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use mcp_proto::RawJson;

use crate::answer::Given;
use crate::demo::Step;
use help::{
    AFTER_HELP, BRIDGE_HELP, CALL_HELP, CHECK_HELP, COMPLETE_HELP, INSPECT_HELP, LISTEN_HELP, PROMPT_HELP,
    READ_HELP, SERVE_HELP,
};
pub(crate) use target::{EraChoice, NO_BEARER, Revisions, Runtime, StderrChoice, Target, url, with_server};
use values::{assignment, duration, frame_size, json_object, json_texts, path, pause, reference};

/// Looks at servers of the Model Context Protocol (MCP): what they offer, what they answer, what goes over the wire.
#[derive(Debug, Parser)]
#[command(name = "mcp-probe", version, max_term_width = 100, after_help = AFTER_HELP, after_long_help = AFTER_HELP)]
#[command(disable_help_subcommand = true, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what a server is and what it offers
    ///
    /// Starts the server, finds out which era and revision of the protocol it speaks, and lists its tools,
    /// resources, resource templates and prompts.
    #[command(after_help = INSPECT_HELP, after_long_help = INSPECT_HELP)]
    Inspect(Inspect),
    /// Call a tool and print what it answers
    ///
    /// The answer goes to stdout, progress and everything else to stderr.
    #[command(after_help = CALL_HELP, after_long_help = CALL_HELP)]
    Call(Call),
    /// Inspect a server as a reviewer would, and say what it does wrong
    ///
    /// Lists what it offers, sends it bad requests, and looks at how it begins and ends, in each era that it speaks,
    /// in fresh processes where that is needed. Tools are never called: they may have effects. The findings go to
    /// stdout.
    #[command(after_help = CHECK_HELP, after_long_help = CHECK_HELP)]
    Check(Check),
    /// Read a resource and print what it holds
    ///
    /// A text is printed with its control characters escaped, bytes are described; --json has both as they came.
    #[command(after_help = READ_HELP, after_long_help = READ_HELP)]
    Read(Read),
    /// Fill in a prompt and print its messages
    #[command(after_help = PROMPT_HELP, after_long_help = PROMPT_HELP)]
    Prompt(Prompt),
    /// Ask how an argument of a prompt, or a variable of a resource template, could go on
    #[command(after_help = COMPLETE_HELP, after_long_help = COMPLETE_HELP)]
    Complete(Complete),
    /// Tell what changes at a server: its lists, and the resources that are named
    ///
    /// Prints what the server has agreed to tell, then a line for each change, until Ctrl-C, or Ctrl-D on a terminal, or
    /// what --for and --count say.
    #[command(after_help = LISTEN_HELP, after_long_help = LISTEN_HELP)]
    Listen(Listen),
    /// Measure round trips: whether the server is alive and how fast it answers
    Ping(Ping),
    /// Be a small server on stdin and stdout, or over HTTP, with the tools echo, add, count and fail
    ///
    /// For trying out clients. Ends when its input ends, or with Ctrl-C or SIGTERM, after which calls in work have a second.
    /// With --everything it offers something of every kind.
    #[command(after_help = SERVE_HELP, after_long_help = SERVE_HELP)]
    Serve(Serve),
    /// Connect a client with a server that it could not talk to: stdio with HTTP, one era of the protocol with the other
    ///
    /// For MCP clients: it stands for the server that it names, on stdin and stdout, or over HTTP with --http. What the
    /// server asks of the client, progress, cancellation, subscriptions and logs pass through, in whatever revision each
    /// side speaks.
    #[command(after_help = BRIDGE_HELP, after_long_help = BRIDGE_HELP)]
    Bridge(Bridge),
    /// A tour: our client and our server, in both eras, with the wire in view
    ///
    /// Starts `mcp-probe serve` as a child and walks through a session, first in the modern era, then in a legacy
    /// one. Every step is checked; the exit code is 0 when all of them went as they should.
    Demo(Demo),
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// Print one JSON object instead: era, revision, server, capabilities, instructions, tools, resources,
    /// resourceTemplates, prompts
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The tool's name, as `inspect` shows it
    pub(crate) tool: String,
    /// The arguments, a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = json_object)]
    pub(crate) args: RawJson,
    #[command(flatten)]
    pub(crate) answering: Answering,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Debug, Args)]
pub(crate) struct Read {
    /// The resource's URI: one that `inspect` shows, or one that a template makes
    pub(crate) uri: String,
    #[command(flatten)]
    pub(crate) answering: Answering,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Debug, Args)]
pub(crate) struct Prompt {
    /// The prompt's name, as `inspect` shows it
    pub(crate) name: String,
    /// The arguments, a JSON object of strings
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = json_texts)]
    pub(crate) args: Texts,
    #[command(flatten)]
    pub(crate) answering: Answering,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Debug, Args)]
pub(crate) struct Complete {
    /// What is being filled in: `prompt:NAME`, or a resource template as `inspect` shows it
    #[arg(value_name = "OF", value_parser = reference)]
    pub(crate) reference: Reference,
    /// The name of the argument or variable
    pub(crate) argument: String,
    /// What was typed so far
    #[arg(default_value = "")]
    pub(crate) value: String,
    /// An argument or variable that is filled in already (may be repeated)
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) with: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

/// What is being completed
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// An argument of this prompt
    Prompt(String),
    /// A variable of this template
    Template(String),
}

/// Members of a JSON object that are all strings
pub(crate) type Texts = Vec<(String, String)>;

/// What is answered when the server asks for something in turn
#[derive(Debug, Args)]
pub(crate) struct Answering {
    /// Answer what the server asks for meanwhile (may be repeated): `mcp-probe call --help` says how; on a terminal you
    /// are asked for the rest
    #[arg(long, value_name = "KEY=JSON", value_parser = Given::parse)]
    pub(crate) answer: Vec<Given>,
    /// Tell the server of this directory when it asks for its roots: a path or a file:// URI (may be repeated)
    #[arg(long, value_name = "PATH")]
    pub(crate) root: Vec<OsString>,
}

/// What all commands have that ask for one thing
#[derive(Debug, Args)]
pub(crate) struct Asking {
    /// Print the result object as JSON instead
    #[arg(long)]
    pub(crate) json: bool,
    /// Longest wait for the answer in all, however much progress is reported; 10 minutes or --timeout if not given,
    /// whichever is longer
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) total: Option<Duration>,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Print a JSON array instead, an object for each finding: severity, check, rules, revisions, where, what, fix
    #[arg(long)]
    pub(crate) json: bool,
    /// Let warnings fail, too
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print what is checked and nothing else (a JSON array with --json)
    #[arg(long, conflicts_with = "server")]
    pub(crate) rules: bool,
    #[command(flatten)]
    pub(crate) revisions: Revisions,
    /// Longest wait for one answer, such as 2s, 500ms or 0.5
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Longest wait for the first answer of a server that was just started
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) connect_timeout: Duration,
    /// Show every line on stderr as it passes: → to the server, ← from it
    #[arg(long)]
    pub(crate) trace: bool,
    /// What becomes of the server's stderr; bad requests make it complain there, as it may
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = StderrChoice::Capture)]
    pub(crate) stderr: StderrChoice,
    /// Pass on an environment variable, or set one; otherwise the server gets only PATH, HOME and the like (may be
    /// repeated)
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Show who we are to a server over HTTP: this token goes out with each request
    ///
    /// What stands on a command line can be seen by others on this machine: env:NAME takes the token from a variable of
    /// the environment, @PATH out of a file.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) bearer: Option<String>,
    /// The server: a program and its arguments, never given to a shell; mcp-probe means this very program. Or a URL, such
    /// as http://127.0.0.1:8080/mcp, which needs no -- before it
    #[arg(last = true, required_unless_present = "rules", value_name = "CMD")]
    pub(crate) server: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Listen {
    /// Resources to follow
    #[arg(value_name = "URI")]
    pub(crate) uris: Vec<String>,
    /// Print a JSON object a line instead: listening (the filter), changed (tools, prompts, resources, or resource with
    /// its uri), ended (count, time, input, graceful, lost)
    #[arg(long)]
    pub(crate) json: bool,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(crate) time: Option<Duration>,
    /// End after so many changes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Ping {
    /// How many round trips
    #[arg(long, short = 'n', value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
    /// Pause between two of them
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = pause)]
    pub(crate) interval: Duration,
    /// Print one JSON object instead: era, revision, sent, milliseconds (min, median, max)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Offer something of every kind: the fixtures of the conformance suite, and things to try by hand
    #[arg(long)]
    pub(crate) everything: bool,
    #[command(flatten)]
    pub(crate) revisions: Revisions,
    /// Longest message that is taken, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20, value_parser = frame_size)]
    pub(crate) max_frame: usize,
    /// Show every message on stderr as it passes: → to the client, ← from it
    #[arg(long)]
    pub(crate) trace: bool,
    /// In the trace, replace the values of members with this name, at any depth (may be repeated)
    #[arg(long, value_name = "MEMBER", requires = "trace")]
    pub(crate) hide: Vec<String>,
    /// What it runs on
    #[arg(long, value_name = "RUNTIME", value_enum, default_value_t)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) http: ServeHttp,
    /// On how many threads HTTP is served, each with connections and sessions of its own: on --runtime threads, and on
    /// smol without --everything
    #[arg(long, value_name = "N", default_value_t = 1, requires = "address")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) shards: u8,
    /// Do one step of the demo wrong, so that a test sees it noticed
    #[arg(long = "break", value_name = "STEP", hide = true)]
    pub(crate) broken: Option<Step>,
}

/// How `serve` speaks HTTP
#[derive(Debug, Args)]
pub(crate) struct ServeHttp {
    /// Serve HTTP here instead of stdin and stdout, at 127.0.0.1:8080 for instance; with port 0 the system chooses one
    ///
    /// The URL is printed on stderr. Who can reach the address can use the server.
    #[arg(long = "http", value_name = "ADDR")]
    pub(crate) address: Option<String>,
    /// Serve HTTPS, with the certificates in this file (PEM), the server's own first
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires_all = ["address", "tls_key"])]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM, not encrypted); it may be in the same file
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The path of the endpoint
    #[arg(long, value_name = "PATH", default_value = "/mcp", requires = "address", value_parser = path)]
    pub(crate) path: String,
    /// Serve HTTP+SSE of 2024-11-05 as well, at /sse and /messages
    #[arg(long, requires = "address")]
    pub(crate) sse: bool,
    /// Answer to this name, too, besides those of this machine: example.com or example.com:8080 (may be repeated)
    #[arg(long, value_name = "HOST", requires = "address")]
    pub(crate) allow_host: Vec<String>,
    /// Let in pages of this origin, too, and let them read answers; it begins with its scheme (may be repeated)
    #[arg(long, value_name = "ORIGIN", requires = "address")]
    pub(crate) allow_origin: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Bridge {
    #[command(flatten)]
    pub(crate) http: ServeHttp,
    /// Which era of the protocol clients may speak
    #[arg(long, value_name = "ERA", value_enum, default_value_t)]
    pub(crate) client_era: EraChoice,
    #[command(flatten)]
    pub(crate) revisions: Revisions,
    /// Longest wait for one answer of the server, such as 2s or 5m; progress starts it anew. Clients have a patience of
    /// their own
    #[arg(long, value_name = "TIME", default_value = "60m", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Longest wait for the server to start and to agree on a revision; over HTTP for each answer on the way there
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) connect_timeout: Duration,
    /// Show every message on stderr as it passes, of both sides: → from here, ← to here
    #[arg(long)]
    pub(crate) trace: bool,
    /// In the trace, replace the values of members with this name, at any depth (may be repeated)
    #[arg(long, value_name = "MEMBER", requires = "trace")]
    pub(crate) hide: Vec<String>,
    /// What our client runs on
    #[arg(long, value_name = "RUNTIME", value_enum, default_value_t)]
    pub(crate) runtime: Runtime,
    /// What becomes of the server's stderr
    #[arg(long, value_name = "WHERE", value_enum, default_value_t)]
    pub(crate) stderr: StderrChoice,
    /// Pass on an environment variable, or set one; otherwise the server gets only PATH, HOME and the like (may be
    /// repeated)
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Show who we are to a server over HTTP: this token goes out with each request
    ///
    /// What stands on a command line can be seen by others on this machine: env:NAME takes the token from a variable of
    /// the environment, @PATH out of a file.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) bearer: Option<String>,
    /// The server: a program and its arguments, never given to a shell; mcp-probe means this very program. Or a URL, such
    /// as http://127.0.0.1:8080/mcp, which needs no -- before it
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) server: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// What our client and our server run on
    #[arg(long, value_name = "RUNTIME", value_enum, default_value_t)]
    pub(crate) runtime: Runtime,
    /// Let the server do this step wrong
    #[arg(long = "break", value_name = "STEP", hide = true)]
    pub(crate) broken: Option<Step>,
    /// Walk through one era only
    #[arg(long, value_enum, default_value_t, hide = true)]
    pub(crate) era: EraChoice,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
