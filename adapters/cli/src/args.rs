//! Definition of the command line.

pub(crate) mod authorization;
mod events;
mod help;
mod login;
mod parse;
mod pins;
mod proxy;
mod serve;
mod server;
mod skills;
mod target;
mod values;

use core::time::Duration;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use mcp_proto::RawJson;

use crate::answer::PresetAnswer;
use crate::demo::TourStep;
pub(crate) use authorization::AuthorizationArgs;
pub(crate) use events::EventsCommand;
#[cfg(feature = "events")]
pub(crate) use events::{
    EndArgs, EventArgs, EventsFollowArgs, EventsListArgs, EventsPollArgs, EventsReceiveArgs, EventsSendArgs,
    EventsSubscribeArgs, EventsVerifyArgs, WebhookSecretArgs,
};
use help::{
    BRIDGE_HELP, CALL_HELP, CHECK_HELP, COMPLETE_HELP, COMPLETIONS_HELP, GATEWAY_HELP, INSPECT_HELP,
    LISTEN_HELP, LOGIN_HELP, PIN_HELP, PROMPT_HELP, READ_HELP, SERVE_HELP, VERIFY_HELP, after_help,
    remote_usage, usage,
};
pub(crate) use login::{LogInArgs, LogOutArgs, WhoamiArgs};
pub(crate) use parse::{add_name_tip, add_server_tips, wants_json};
pub(crate) use pins::{PinArgs, VerifyArgs};
pub(crate) use proxy::{BridgeArgs, GatewayArgs, ProxyArgs};
#[cfg(feature = "sessions")]
pub(crate) use serve::SessionArgs;
pub(crate) use serve::{CallRate, LayerArgs, ProtectionArgs, ServeArgs, ServeHttpArgs};
pub(crate) use server::{ServerArgs, ServerPlaceArgs, is_url, socket, url, with_server};
pub(crate) use skills::{SkillsCommand, SkillsListArgs, SkillsShowArgs, SkillsVerifyArgs};
pub(crate) use target::{ConnectionArgs, EraChoice, RevisionArgs, Runtime, StderrChoice, TargetArgs};
use values::{assignment, duration_or_zero, json_source, named_argument, reference};
pub(crate) use values::{duration, json_object};

/// Inspects, checks, calls and runs Model Context Protocol servers.
#[derive(Debug, Parser)]
#[command(name = "mcp-probe", version, max_term_width = 100, after_help = after_help(), after_long_help = after_help())]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows what a server is and what it offers.
    ///
    /// Starts the server, finds out which era and revision of the protocol it speaks, and lists its tools, resources,
    /// resource templates, prompts and skills. A list that cannot be read is named, and the exit code is 1 then.
    #[command(after_help = INSPECT_HELP, after_long_help = INSPECT_HELP)]
    #[command(override_usage = usage!("mcp-probe inspect [OPTIONS]"))]
    Inspect(InspectArgs),
    /// Calls a tool and prints its result.
    ///
    /// The result goes to stdout. Progress and everything else goes to stderr.
    #[command(after_help = CALL_HELP, after_long_help = CALL_HELP)]
    #[command(override_usage = usage!("mcp-probe call [OPTIONS] <TOOL> [NAME=VALUE]..."))]
    Call(CallArgs),
    /// Checks a server against the specification and reports violations.
    ///
    /// Lists what the server offers, sends it invalid requests, and tests how it starts and ends. It does so in each
    /// era that the server speaks, with a new process where one is needed. Tools are never called, because they may
    /// have effects. The findings go to stdout.
    #[command(after_help = CHECK_HELP, after_long_help = CHECK_HELP)]
    #[command(override_usage = concat!("mcp-probe check --rules [--json]\n       ", usage!("mcp-probe check [OPTIONS]")))]
    Check(CheckArgs),
    /// Reads a resource and prints its contents.
    ///
    /// Text is printed with control characters escaped. Binary contents are described by type and size. --json prints
    /// both unchanged.
    #[command(after_help = READ_HELP, after_long_help = READ_HELP)]
    #[command(override_usage = usage!("mcp-probe read [OPTIONS] <URI>"))]
    Read(ReadArgs),
    /// Gets a prompt with its arguments filled in and prints its messages.
    #[command(after_help = PROMPT_HELP, after_long_help = PROMPT_HELP)]
    #[command(override_usage = usage!("mcp-probe prompt [OPTIONS] <NAME> [NAME=VALUE]..."))]
    Prompt(PromptArgs),
    /// Completes an argument of a prompt or a variable of a template.
    #[command(after_help = COMPLETE_HELP, after_long_help = COMPLETE_HELP)]
    #[command(override_usage = usage!("mcp-probe complete [OPTIONS] <OF> <ARGUMENT> [VALUE]"))]
    Complete(CompleteArgs),
    /// Follows changes of lists and resources.
    ///
    /// Prints what the server agreed to report, then one line for each change. Ends on Ctrl-C, on Ctrl-D at a terminal,
    /// or at the limit that --for or --count sets.
    #[command(after_help = LISTEN_HELP, after_long_help = LISTEN_HELP)]
    #[command(override_usage = usage!("mcp-probe listen [OPTIONS] [URI]..."))]
    Listen(ListenArgs),
    /// Lists, polls, follows and receives the events of a server (SEP-3415).
    #[command(subcommand)]
    Events(EventsCommand),
    /// Lists, shows and verifies the skills of a server.
    #[command(subcommand)]
    Skills(SkillsCommand),
    /// Writes down the definitions of a server, after you have looked at them.
    ///
    /// Tools, prompts, resources, resource templates and instructions, each with a digest, as JSON. `verify` compares them
    /// with what the server lists later.
    #[command(after_help = PIN_HELP, after_long_help = PIN_HELP)]
    #[command(override_usage = usage!("mcp-probe pin [OPTIONS]"))]
    Pin(PinArgs),
    /// Tells what has changed since a server was pinned.
    ///
    /// Prints a line for each difference. The exit code is 1 if there is one.
    #[command(after_help = VERIFY_HELP, after_long_help = VERIFY_HELP)]
    #[command(override_usage = usage!("mcp-probe verify [OPTIONS] <LOCKFILE>"))]
    Verify(VerifyArgs),
    /// Measures round-trip times to a server.
    #[command(override_usage = usage!("mcp-probe ping [OPTIONS]"))]
    Ping(PingArgs),
    /// Logs in to a server that asks for authorization.
    ///
    /// Connects to learn what the server asks for, lets the user log in, and stores the tokens. Other commands on this URL
    /// then use them, and renew them.
    #[command(after_help = LOGIN_HELP, after_long_help = LOGIN_HELP)]
    #[command(override_usage = remote_usage!("mcp-probe login [OPTIONS]"))]
    Login(LogInArgs),
    /// Forgets the tokens for a server, and revokes them.
    ///
    /// They are revoked where the authorization server offers it. The exit code is 0 if there are none.
    #[command(override_usage = remote_usage!("mcp-probe logout [OPTIONS]"))]
    Logout(LogOutArgs),
    /// Shows the stored authorization for a server.
    ///
    /// No token is shown, and nothing is sent. The exit code is 6 if there is none.
    #[command(override_usage = remote_usage!("mcp-probe whoami [OPTIONS]"))]
    Whoami(WhoamiArgs),
    /// Runs a demonstration server on stdio, a socket, a serial line or over HTTP.
    ///
    /// A server to try clients with. It has the tools echo, add, count and fail; with --everything it offers something
    /// of every kind. It ends when its input ends, on Ctrl-C or on SIGTERM. After a signal, running calls have one
    /// second to finish.
    #[command(after_help = SERVE_HELP, after_long_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Bridges stdio, sockets, serial lines and HTTP, or the eras of the protocol.
    ///
    /// For MCP clients that cannot talk to a server directly. The bridge stands in for the server that it names, on
    /// stdin and stdout, on a socket with --listen, or over HTTP with --http. Requests of the server, progress, cancellation, subscriptions and
    /// log messages pass through, whatever revision each side speaks.
    #[command(after_help = BRIDGE_HELP, after_long_help = BRIDGE_HELP)]
    #[command(override_usage = usage!("mcp-probe bridge [OPTIONS]"))]
    Bridge(BridgeArgs),
    /// Shows several servers to clients as one.
    ///
    /// The servers of a configuration file stand behind the gateway, programs and URLs of any era. Their tools and prompts are
    /// named SERVER_TOOL, and lists are merged. Clients are served on stdin and stdout, on a socket with --listen, or over HTTP
    /// with --http. A server that fails is left out and started again.
    #[command(after_help = GATEWAY_HELP, after_long_help = GATEWAY_HELP)]
    #[command(override_usage = "mcp-probe gateway [OPTIONS] --config <FILE>")]
    Gateway(GatewayArgs),
    /// Demonstrates a session in both eras and shows its messages.
    ///
    /// Starts `mcp-probe serve` as a child process and walks through a session, first in the modern era, then in a
    /// legacy one. Every step is checked. The exit code is 0 when all steps succeed.
    Demo(DemoArgs),
    /// Prints a completion script for a shell.
    ///
    /// The script goes to stdout.
    #[command(after_help = COMPLETIONS_HELP, after_long_help = COMPLETIONS_HELP)]
    Completions(CompletionsArgs),
}

impl Command {
    /// Returns whether the command prints one JSON object, so that a failure is printed as one, too.
    pub(crate) const fn prints_json_object(&self) -> bool {
        match self {
            Self::Inspect(args) => args.json,
            Self::Call(args) => args.request_args.json,
            Self::Read(args) => args.request_args.json,
            Self::Prompt(args) => args.request_args.json,
            Self::Complete(args) => args.request_args.json,
            Self::Events(command) => command.prints_json_object(),
            Self::Skills(command) => command.prints_json_object(),
            Self::Verify(args) => args.json || args.sarif,
            Self::Ping(args) => args.json,
            Self::Login(args) => args.json,
            Self::Whoami(args) => args.json,
            Self::Check(_)
            | Self::Listen(_)
            | Self::Serve(_)
            | Self::Bridge(_)
            | Self::Gateway(_)
            | Self::Logout(_)
            | Self::Pin(_)
            | Self::Demo(_)
            | Self::Completions(_) => false,
        }
    }

    /// Returns whether the command ends in order after a signal, instead of at once.
    pub(crate) const fn ends_by_itself(&self) -> bool {
        matches!(
            self,
            Self::Serve(_) | Self::Bridge(_) | Self::Gateway(_) | Self::Events(EventsCommand::Subscribe(_))
        )
    }
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// Prints one JSON object instead.
    ///
    /// Its members: era, revision, server, capabilities, instructions, tools, resources, resourceTemplates, prompts,
    /// skills; and failures (part, message) if a list could not be read.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Name of the tool, as `inspect` shows it.
    // Servers choose names, and some begin with `-`.
    #[arg(allow_hyphen_values = true)]
    pub(crate) tool: String,
    /// Argument of the tool: `NAME=VALUE`, or `NAME:=JSON` for a value of any type.
    ///
    /// The tool's schema tells whether VALUE is a string, a number, true or false, or JSON. Arguments replace members of
    /// --args.
    #[arg(value_name = "NAME=VALUE", value_parser = named_argument)]
    pub(crate) arguments: Vec<NamedArgument>,
    /// Sets the arguments of the tool: a JSON object, @FILE or - for stdin.
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = json_source)]
    pub(crate) args: JsonSource,
    #[command(flatten)]
    pub(crate) answer_args: AnswerArgs,
    #[command(flatten)]
    pub(crate) request_args: RequestArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// URI of the resource, from `inspect` or from an expanded template.
    pub(crate) uri: String,
    #[command(flatten)]
    pub(crate) answer_args: AnswerArgs,
    #[command(flatten)]
    pub(crate) request_args: RequestArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// Name of the prompt, as `inspect` shows it.
    #[arg(allow_hyphen_values = true)]
    pub(crate) name: String,
    /// Argument of the prompt.
    ///
    /// Arguments replace members of --args.
    #[arg(value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) arguments: Vec<(String, String)>,
    /// Sets the arguments of the prompt: a JSON object of strings, @FILE or - for stdin.
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = json_source)]
    pub(crate) args: JsonSource,
    #[command(flatten)]
    pub(crate) answer_args: AnswerArgs,
    #[command(flatten)]
    pub(crate) request_args: RequestArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    /// Target of the completion: `prompt:NAME` or a resource template.
    ///
    /// The template is written as `inspect` shows it.
    #[arg(value_name = "OF", value_parser = reference)]
    pub(crate) reference: CompletionReference,
    /// Name of the argument or variable.
    #[arg(allow_hyphen_values = true)]
    pub(crate) argument: String,
    /// Text typed so far.
    #[arg(default_value = "", allow_hyphen_values = true)]
    pub(crate) value: String,
    /// Reads texts from stdin as they are typed, one per line, instead of VALUE.
    ///
    /// A text is completed when no other one follows within 150 ms, and one that was completed within a minute is not asked
    /// for again. Each completion is printed with its text; with --json, one object per line (text, result). Ends with the
    /// input.
    #[arg(long, conflicts_with = "value")]
    pub(crate) typed: bool,
    /// Sets an argument or variable that is already known (may be repeated).
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) with: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) request_args: RequestArgs,
}

/// Target of a completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CompletionReference {
    /// An argument of this prompt.
    Prompt(String),
    /// A variable of this resource template.
    Template(String),
}

/// Source of a JSON object.
#[derive(Clone, Debug)]
pub(crate) enum JsonSource {
    Json(RawJson),
    File(PathBuf),
    Stdin,
}

/// An argument of a tool.
#[derive(Clone, Debug)]
pub(crate) struct NamedArgument {
    pub(crate) name: String,
    pub(crate) value: ArgumentValue,
}

/// Value of an argument of a tool.
#[derive(Clone, Debug)]
pub(crate) enum ArgumentValue {
    /// A text whose type the tool's schema tells.
    Text(String),
    Json(RawJson),
}

/// Answers to input requests of the server.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Answers an input request of the server (may be repeated).
    ///
    /// `mcp-probe call --help` explains KEY and JSON. On a terminal you are asked for every answer that is missing.
    #[arg(long, value_name = "KEY=JSON", value_parser = PresetAnswer::parse)]
    pub(crate) answer: Vec<PresetAnswer>,
    /// Offers this directory as a root (may be repeated).
    ///
    /// The directory is a path or a file:// URI.
    #[arg(long, value_name = "PATH")]
    pub(crate) root: Vec<OsString>,
}

/// Options of the commands that send one request.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// Prints the result object as JSON instead.
    ///
    /// A failure without a result is printed as an object with the member `error`. Its members: kind (failed, usage,
    /// connection, timeout, unanswered, unauthorized), exitCode, message, hint, code and data (of an error response),
    /// scopes (that the server asks for), and deviations of the server from the protocol before the failure, if there were
    /// any.
    #[arg(long)]
    pub(crate) json: bool,
    /// Limits the total time to wait for the answer, despite progress.
    ///
    /// The default is 10 minutes, or --timeout if that is longer; 24 hours for a tool that runs as a task.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) total: Option<Duration>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Prints a JSON array instead, with one object for each finding.
    ///
    /// The members of a finding: severity, check, rules, revisions, where, what, fix.
    #[arg(long, conflicts_with_all = ["sarif", "junit"])]
    pub(crate) json: bool,
    /// Prints a report in SARIF 2.1.0 instead, for code scanning.
    ///
    /// Findings are located in the first word of the command that is a file, or at the URL.
    #[arg(long, conflicts_with_all = ["junit", "rules"])]
    pub(crate) sarif: bool,
    /// Prints a report in JUnit's XML instead, for CI servers.
    ///
    /// Each check with findings is a test case: one with errors has failed, and so has one with warnings with --strict.
    #[arg(long, conflicts_with = "rules")]
    pub(crate) junit: bool,
    /// Treats warnings as failures.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Prints the list of checks and exits (a JSON array with --json).
    #[arg(long, conflicts_with_all = ["command", "config", "serial"])]
    pub(crate) rules: bool,
    #[command(flatten)]
    pub(crate) revisions: RevisionArgs,
    /// Limits the time to wait for one answer: 2s, 500ms or 0.5.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Limits the time to wait for the first answer of a new server.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) connect_timeout: Duration,
    /// Shows every line on stderr: → to the server, ← from it.
    #[arg(long)]
    pub(crate) trace: bool,
    /// Selects where the server's stderr goes.
    ///
    /// A server may complain there about the invalid requests.
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = StderrChoice::Capture)]
    pub(crate) stderr: StderrChoice,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) authorization: AuthorizationArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Resources to follow.
    #[arg(value_name = "URI")]
    pub(crate) uris: Vec<String>,
    /// Prints one JSON object per line instead.
    ///
    /// Its members: listening (the filter), changed (tools, prompts, resources, or resource with its uri), ended
    /// (count, time, input, graceful, lost).
    #[arg(long)]
    pub(crate) json: bool,
    /// Ends after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(crate) time: Option<Duration>,
    /// Ends after this number of changes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PingArgs {
    /// Sets the number of round trips.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
    /// Sets the pause between two round trips.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration_or_zero)]
    pub(crate) interval: Duration,
    /// Prints one JSON object instead.
    ///
    /// Its members: era, revision, sent, milliseconds (min, median, max).
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Selects the adapter that client and server run on.
    #[arg(long, value_name = "RUNTIME", value_enum, default_value_t)]
    pub(crate) runtime: Runtime,
    /// Makes the server perform this step wrongly.
    #[arg(long = "break", value_name = "STEP", hide = true)]
    pub(crate) broken: Option<TourStep>,
    /// Runs the tour in one era only.
    #[arg(long, value_enum, default_value_t, hide = true)]
    pub(crate) era: EraChoice,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete the command line of.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    /// A longer line is broken anywhere, which spoils examples.
    #[test]
    fn texts_after_the_options_need_no_more_than_80_columns() {
        let mut commands = vec![Cli::command()];
        let mut lines = 0;
        while let Some(command) = commands.pop() {
            for text in [command.get_after_help(), command.get_after_long_help()].into_iter().flatten() {
                for line in text.to_string().lines() {
                    lines += 1;
                    assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
                }
            }
            commands.extend(command.get_subcommands().cloned());
        }
        assert!(lines > 150, "{lines}");
    }
}
