//! The command line

mod help;

use core::time::Duration;
use std::ffi::OsString;
#[cfg(feature = "tls")]
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use mcp_proto::model::LoggingLevel;
use mcp_proto::{Era, RawJson, Version, VersionSet};

use crate::answer::Given;
use crate::demo::Step;
use crate::ordered;
use help::{
    AFTER_HELP, BRIDGE_HELP, CALL_HELP, CHECK_HELP, COMPLETE_HELP, INSPECT_HELP, LISTEN_HELP, PROMPT_HELP,
    READ_HELP, SERVE_HELP,
};

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
    /// For trying out clients. Ends when its input ends, or with Ctrl-C. With --everything it offers something of every
    /// kind.
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

/// A server to start and how to talk to it
#[derive(Debug, Args)]
pub(crate) struct Target {
    #[command(flatten)]
    pub(crate) revisions: Revisions,
    /// Longest wait for one answer, such as 2s, 500ms or 0.5; progress starts it anew
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Longest wait for the server to start and to agree on a revision; over HTTP for each answer on the way there
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) connect_timeout: Duration,
    /// Show what the server logs on stderr, from this level on: debug, info, notice, warning, error, critical, alert,
    /// emergency
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub(crate) log: Option<LoggingLevel>,
    /// Show every message on stderr as it passes: → to the server, ← from it
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
pub(crate) struct Revisions {
    /// Which era of the protocol to speak: modern has no handshake (from 2026-07-28), legacy has one
    #[arg(long, value_enum, default_value_t)]
    pub(crate) era: EraChoice,
    /// Speak this revision only, 2025-06-18 for instance
    #[arg(long, value_name = "REV", value_parser = revision)]
    pub(crate) protocol_version: Option<Version>,
}

impl Target {
    /// The URL of the server, if it is not a program
    pub(crate) fn url(&self) -> Option<&str> {
        url(&self.server)
    }
}

/// Why a token is refused that no request would carry
pub(crate) const NO_BEARER: &str = "--bearer is for servers over HTTP: name one by its URL";

/// The URL that stands where a server's command does
pub(crate) fn url(server: &[OsString]) -> Option<&str> {
    match server {
        [only] => only.to_str().filter(|text| is_url(text)),
        _ => None,
    }
}

/// Whether a word can only be a URL to connect to
fn is_url(word: &str) -> bool {
    let begins =
        |scheme: &str| word.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    begins("http://") || begins("https://")
}

/// The command line with a URL where a server's command goes
///
/// A URL needs no `--` before it, and may stand among the options. That is not so for what serves, and of the options
/// of others only `--allow-origin` has a value that begins like one.
pub(crate) fn with_server(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let serves = words.get(1).is_some_and(|word| word == "serve" || word == "demo");
    if serves || words.iter().any(|word| word == "--") {
        return words;
    }
    let is_origin =
        |at: usize| at.checked_sub(1).and_then(|at| words.get(at)).is_some_and(|w| w == "--allow-origin");
    let mut urls = words.iter().enumerate().filter(|(_, word)| word.to_str().is_some_and(is_url));
    if let Some((at, _)) = urls.rfind(|(at, _)| !is_origin(*at)) {
        let url = words.remove(at);
        words.extend(["--".into(), url]);
    }
    words
}

impl Revisions {
    /// The revisions that were asked for; the error is a usage error
    pub(crate) fn set(&self) -> Result<VersionSet, String> {
        let Some(version) = self.protocol_version else {
            return Ok(self.era.set());
        };
        if self.era.set().contains(version) {
            return Ok(VersionSet::only(version));
        }
        Err(format!(
            "--protocol-version {version} belongs to the {} era, and --era says {}",
            version.era(),
            self.era
        ))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EraChoice {
    /// Both: a client finds out by asking, a server serves either
    #[default]
    Auto,
    /// Without a handshake
    Modern,
    /// With a handshake
    Legacy,
}

impl EraChoice {
    pub(crate) const fn set(self) -> VersionSet {
        match self {
            Self::Auto => VersionSet::ALL,
            Self::Modern => VersionSet::ALL.era(Era::Modern),
            Self::Legacy => VersionSet::ALL.era(Era::Legacy),
        }
    }
}

impl core::fmt::Display for EraChoice {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runtime {
    /// One thread, on which handlers run one after the other
    #[default]
    Blocking,
    /// A thread for input and output, and others on which handlers run side by side
    Threads,
    /// Futures on one thread: handlers run at the same time
    Smol,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum StderrChoice {
    /// Shown line by line on our stderr, with what a terminal would act on escaped
    #[default]
    Show,
    /// To our own stderr, raw: the server may do anything to the terminal
    Inherit,
    /// Kept; the last lines are shown when something fails
    Capture,
    /// Nowhere
    Null,
}

/// `2s`, `500ms`, `1m`, or seconds as a bare number; more than nothing
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let time = pause(text)?;
    if time.is_zero() { Err("has to be longer than nothing".into()) } else { Ok(time) }
}

fn pause(text: &str) -> Result<Duration, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0)];
    let (number, unit) = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)))
        .unwrap_or((text, 1.0));
    let number: f64 = number.trim().parse().map_err(|_| "is no time; write 2s, 500ms or 1.5".to_owned())?;
    match Duration::try_from_secs_f64(number * unit) {
        Ok(time) if time <= LONGEST => Ok(time),
        _ => Err(format!("has to lie between 0 and {} days", LONGEST.as_secs() / 86_400)),
    }
}

fn path(text: &str) -> Result<String, String> {
    let fits =
        text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'?' | b'#'));
    if fits { Ok(text.to_owned()) } else { Err("has to begin with / and to be a path alone".into()) }
}

fn revision(text: &str) -> Result<Version, String> {
    Version::from_name(text).ok_or_else(|| {
        let known: Vec<_> = VersionSet::ALL.iter().map(Version::as_str).collect();
        format!("is no revision that we know; there are {}", known.join(", "))
    })
}

fn json_object(text: &str) -> Result<RawJson, String> {
    // Read once by serde_json for the sake of its messages, which say what was expected and where.
    serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|error| format!("not JSON: {error}"))?;
    let value = RawJson::new(text.to_owned()).map_err(|error| error.to_string())?;
    if value.is_object() {
        Ok(value)
    } else {
        Err("has to be an object, such as {\"text\": \"hello\"}".into())
    }
}

fn json_texts(text: &str) -> Result<Vec<(String, String)>, String> {
    let members =
        ordered::members(&json_object(text)?).into_iter().map(|(name, value)| match value.string() {
            Some(text) => Ok((name, text)),
            None => Err(format!("`{name}` has to be a string: prompts take texts only, \"3\" rather than 3")),
        });
    members.collect()
}

fn reference(text: &str) -> Result<Reference, String> {
    match text.split_once(':') {
        None | Some(("", _) | ("prompt", "")) => {
            Err("is neither prompt:NAME nor a template such as file:///{path}".into())
        }
        Some(("prompt", name)) if !name.starts_with("//") => Ok(Reference::Prompt(name.into())),
        Some(_) => Ok(Reference::Template(text.into())),
    }
}

fn level(text: &str) -> Result<LoggingLevel, String> {
    let level = RawJson::encode(text).ok().and_then(|word| word.parse::<LoggingLevel>().ok());
    let known = level.filter(|level| level.severity().is_some());
    known.ok_or_else(|| {
        "is no level; there are debug, info, notice, warning, error, critical, alert, emergency".to_owned()
    })
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("has to be NAME=VALUE".into()),
    }
}

fn frame_size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(size) if size >= SMALLEST_FRAME => Ok(size),
        Ok(_) => Err(format!("has to be at least {SMALLEST_FRAME}")),
        Err(_) => Err("is no number of bytes".into()),
    }
}

/// Longer than anybody waits, short enough to add to any clock
const LONGEST: Duration = Duration::from_secs(30 * 86_400);
/// Below this not even a handshake fits
const SMALLEST_FRAME: usize = 1_024;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_are_read() {
        let cases = [
            ("0.5", Ok(500)),
            ("2s", Ok(2_000)),
            ("500ms", Ok(500)),
            ("1.5m", Ok(90_000)),
            ("3 s", Ok(3_000)),
            ("0", Err("longer than nothing")),
            ("-1", Err("between 0 and")),
            ("1e300", Err("between 0 and")),
            ("NaN", Err("between 0 and")),
            ("", Err("is no time")),
            ("soon", Err("is no time")),
            ("2h", Err("is no time")),
        ];
        for (text, want) in cases {
            match (duration(text), want) {
                (Ok(time), Ok(millis)) => assert_eq!(time.as_millis(), millis, "{text}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (got, want) => panic!("{text}: {got:?}, wanted {want:?}"),
            }
        }
    }

    #[test]
    fn what_is_completed_is_told_by_its_form() {
        let prompt = |name: &str| Ok(Reference::Prompt(name.into()));
        let template = |text: &str| Ok(Reference::Template(text.into()));
        for (text, want) in [
            ("prompt:plan", prompt("plan")),
            ("prompt:a:b", prompt("a:b")),
            ("file:///{path}", template("file:///{path}")),
            ("prompt://{id}", template("prompt://{id}")),
        ] {
            assert_eq!(reference(text), want, "{text}");
        }
        for text in ["plan", "", ":x", "prompt:"] {
            assert!(reference(text).is_err_and(|error| error.contains("prompt:NAME")), "{text}");
        }
    }

    #[test]
    fn an_era_and_a_revision_have_to_agree() {
        let set = |era, protocol_version| Revisions { era, protocol_version }.set();
        assert_eq!(set(EraChoice::Auto, None), Ok(VersionSet::ALL));
        assert_eq!(set(EraChoice::Legacy, None), Ok(VersionSet::LEGACY));
        assert_eq!(
            set(EraChoice::Auto, Some(Version::V2025_06_18)),
            Ok(VersionSet::only(Version::V2025_06_18))
        );
        let error = set(EraChoice::Modern, Some(Version::V2025_06_18)).expect_err("contradiction");
        assert!(error.contains("2025-06-18") && error.contains("modern"), "{error}");
    }
}
