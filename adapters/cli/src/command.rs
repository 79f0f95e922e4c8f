//! All commands: the definition of the command line, and what runs each. Only the root of the program knows this, and what looks at
//! the words of the command line.

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::failure::CommandFailure;
use crate::features::{self, Feature, Needs};
use crate::stop;
use crate::{
    bench, bridge, call, check, complete, completions, connect, demo, doctor, events, gateway, generate,
    inspect, listen, mcp, output, ping, pins, prompt, read, replay, schemas, serve, shell, skills, suite,
    tap, tokens, trace_views,
};

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
    Inspect(inspect::InspectArgs),
    Call(call::CallArgs),
    Shell(shell::ShellArgs),
    Check(check::CheckArgs),
    Test(suite::TestArgs),
    Doctor(doctor::DoctorArgs),
    Read(read::ReadArgs),
    Prompt(prompt::PromptArgs),
    Complete(complete::CompleteArgs),
    Listen(listen::ListenArgs),
    #[command(subcommand)]
    Events(events::EventsCommand),
    #[command(subcommand)]
    Skills(skills::SkillsCommand),
    #[command(subcommand)]
    Generate(generate::GenerateCommand),
    Pin(pins::PinArgs),
    Verify(pins::VerifyArgs),
    Ping(ping::PingArgs),
    Bench(bench::BenchArgs),
    Login(tokens::LogInArgs),
    Logout(tokens::LogOutArgs),
    Whoami(tokens::WhoamiArgs),
    Connect(Box<connect::ConnectArgs>),
    Connections(connect::ConnectionsArgs),
    Disconnect(connect::DisconnectArgs),
    #[command(hide = true)]
    KeepConnections(connect::KeepArgs),
    Serve(serve::ServeArgs),
    Bridge(bridge::BridgeArgs),
    Gateway(gateway::GatewayArgs),
    Tap(tap::TapArgs),
    Mcp(mcp::McpArgs),
    Replay(replay::ReplayArgs),
    Shrink(replay::ShrinkArgs),
    #[command(subcommand)]
    Trace(trace_views::TraceCommand),
    Demo(demo::DemoArgs),
    Schema(schemas::SchemaArgs),
    Completions(completions::CompletionsArgs),
}

impl Command {
    /// Returns whether the command ends in order after a signal, instead of at once.
    const fn ends_by_itself(&self) -> bool {
        matches!(
            self,
            Self::Serve(_)
                | Self::Bench(_)
                | Self::Bridge(_)
                | Self::Gateway(_)
                | Self::KeepConnections(_)
                | Self::Mcp(_)
                | Self::Shell(_)
                | Self::Events(events::EventsCommand::Subscribe(_))
        )
    }

    /// Lets a command that prints again and again end with the reader of its output.
    fn watch_reader(&self) {
        use events::EventsCommand::{Follow, Receive, Subscribe};
        match self {
            // They answer what has arrived, and unsubscribe.
            Self::Events(Receive(_) | Subscribe(_)) => output::watch_reader(None),
            Self::Events(Follow(_)) | Self::Listen(_) | Self::Complete(_) => output::watch_reader(Some(0)),
            // Success would be said of what was not done to its end.
            Self::Bench(_) | Self::Demo(_) | Self::Doctor(_) | Self::Shell(_) | Self::Test(_) => {
                output::watch_reader(Some(UNREAD));
            }
            _ => {}
        }
    }

    /// Checks that this program has all that the command line asks for.
    ///
    /// # Errors
    ///
    /// Returns a usage error that names the first missing feature.
    fn check_features(&self) -> Result<(), CommandFailure> {
        let mut needs = Needs::default();
        match self {
            Self::Inspect(args) => needs.target(&args.target),
            Self::Call(args) => needs.target(&args.request_args.target),
            Self::Shell(args) => needs.target(&args.request_args.target),
            Self::Read(args) => needs.target(&args.request_args.target),
            Self::Prompt(args) => needs.target(&args.request_args.target),
            Self::Complete(args) => needs.target(&args.request_args.target),
            Self::Listen(args) => needs.target(&args.target),
            Self::Events(command) => {
                needs.add(Feature::Events, "events");
                if let Some(target) = command.target() {
                    needs.target(target);
                }
            }
            Self::Skills(command) => needs.target(command.target()),
            Self::Generate(command) => needs.target(command.target()),
            Self::Pin(args) => needs.target(&args.target),
            Self::Verify(args) => needs.target(&args.target),
            Self::Ping(args) => needs.target(&args.target),
            Self::Bench(args) => needs.target(&args.target),
            Self::Test(args) => needs.target(&args.target),
            Self::Check(_) => needs.add(Feature::Check, "check"),
            Self::Doctor(args) => needs.authorization(&args.authorization),
            Self::Login(_) => needs.add(Feature::Auth, "login"),
            Self::Logout(_) => needs.add(Feature::Auth, "logout"),
            Self::Whoami(_) => needs.add(Feature::Auth, "whoami"),
            Self::Serve(args) => args.add_needs(&mut needs),
            Self::Bridge(args) => args.add_needs(&mut needs),
            Self::Gateway(args) => args.add_needs(&mut needs),
            Self::Demo(args) => needs.runtime(args.runtime),
            Self::Connect(args) => needs.authorization(&args.authorization),
            Self::Tap(_)
            | Self::Replay(_)
            | Self::Shrink(_)
            | Self::Trace(_)
            | Self::Connections(_)
            | Self::Disconnect(_)
            | Self::KeepConnections(_)
            | Self::Mcp(_)
            | Self::Schema(_)
            | Self::Completions(_) => {}
        }
        needs.check()
    }

    /// Runs the command.
    ///
    /// # Errors
    ///
    /// Fails if the command does, or if it needs a feature that is missing.
    pub(crate) fn run(self) -> Result<(), CommandFailure> {
        self.check_features()?;
        if !self.ends_by_itself() {
            stop::end_servers_on_signal();
        }
        self.watch_reader();
        match self {
            Self::Inspect(args) => inspect::run(&args),
            Self::Call(args) => call::run(&args),
            Self::Shell(args) => shell::run(&args),
            #[cfg(feature = "check")]
            Self::Check(args) => check::run(&args),
            Self::Doctor(args) => doctor::run(args),
            Self::Read(args) => read::run(&args),
            Self::Prompt(args) => prompt::run(&args),
            Self::Complete(args) => complete::run(&args),
            Self::Listen(args) => listen::run(&args),
            #[cfg(feature = "events")]
            Self::Events(command) => events::run(&command),
            Self::Skills(command) => skills::run(&command),
            Self::Generate(command) => generate::run(&command),
            Self::Pin(args) => pins::pin(&args),
            Self::Verify(args) => pins::verify(&args),
            Self::Ping(args) => ping::run(&args),
            Self::Bench(args) => bench::run(&args),
            Self::Test(args) => suite::run(args),
            #[cfg(feature = "auth")]
            Self::Login(args) => tokens::log_in(&args),
            #[cfg(feature = "auth")]
            Self::Logout(args) => tokens::log_out(&args),
            #[cfg(feature = "auth")]
            Self::Whoami(args) => tokens::whoami(&args),
            Self::Connect(args) => connect::connect(*args),
            Self::Connections(args) => connect::list(&args),
            Self::Disconnect(args) => connect::disconnect(args),
            Self::KeepConnections(_) => connect::keep(),
            Self::Serve(args) => serve::run(args),
            Self::Bridge(args) => bridge::run(args),
            Self::Gateway(args) => gateway::run(args),
            Self::Tap(args) => tap::run(&args),
            Self::Mcp(args) => mcp::run(&args),
            Self::Replay(args) => replay::run(&args),
            Self::Shrink(args) => replay::run_shrink(&args),
            Self::Trace(command) => trace_views::run(&command),
            Self::Demo(args) => demo::run(&args),
            Self::Schema(args) => schemas::run(&args),
            Self::Completions(args) => completions::run(&args, &Cli::command()),
            // It fails: the command needs a feature that is missing. Without `auth` there is no `check` either.
            #[cfg(not(all(feature = "check", feature = "events")))]
            other => other.check_features(),
        }
    }
}

/// Status of a program that `SIGPIPE` has ended, as shells have it.
const UNREAD: i32 = 128 + 13;

/// Returns the text after the options of the program.
fn after_help() -> String {
    let missing = features::describe_missing().map(|missing| format!("\n\n{missing}"));
    format!("{AFTER_HELP}{}", missing.unwrap_or_default())
}

const AFTER_HELP: &str = "\
Examples:
  mcp-probe demo
  mcp-probe inspect -- npx -y @modelcontextprotocol/server-everything
  mcp-probe doctor https://mcp.example.com/mcp
  mcp-probe call echo text=hello -- mcp-probe serve
  mcp-probe call read_sensor --serial /dev/ttyACM0
  mcp-probe call count to=5 --trace -- mcp-probe serve --era modern

Exit codes:
  0  success
  1  the operation failed: an error response, a tool that reports an error,
     a failed step
  2  the command line is invalid
  3  no connection: the program does not start, is not an MCP server, speaks
     other revisions, or died
  4  no answer in time
  5  the server sent an input request, and no answer was available
  6  authorization is needed, was refused or failed (`mcp-probe login URL`)
  141  nobody reads the output of bench, demo, doctor, shell or test any more

With --json a failure is an object with the member error. `mcp-probe schema`
prints the JSON Schema of each output.";

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::output_schemas::{OutputSchema, SCHEMAS};
    use crate::words;

    #[test]
    fn command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_with_json_and_schemas_belong_together() {
        let (mut commands, mut found) = (vec![(Vec::new(), Cli::command())], Vec::new());
        while let Some((words, command)) = commands.pop() {
            if command.get_arguments().any(|arg| arg.get_long() == Some("json")) {
                found.push(words.clone());
            }
            for below in command.get_subcommands() {
                commands.push(([&words[..], &[below.get_name().to_owned()]].concat(), below.clone()));
            }
        }
        let words = |schema: &OutputSchema| -> Vec<String> {
            let words = schema.command.iter().filter(|word| !word.starts_with('-'));
            words.map(|word| (*word).to_owned()).collect()
        };
        let mut described: Vec<_> = SCHEMAS.iter().map(words).collect();
        found.sort();
        described.sort();
        described.dedup();
        assert_eq!(found, described);
    }

    /// Splits a line of a shell without variables.
    fn split(line: &str) -> Vec<OsString> {
        let (mut words, mut quote) = (vec![String::new()], None);
        for c in line.chars() {
            match c {
                _ if quote == Some(c) => quote = None,
                '\'' | '"' if quote.is_none() => quote = Some(c),
                ' ' if quote.is_none() => words.push(String::new()),
                _ => words.last_mut().expect("a word").push(c),
            }
        }
        words.into_iter().map(OsString::from).collect()
    }

    #[test]
    fn command_lines_of_the_skill_are_valid() {
        let skill = include_str!("../skills/mcp-probe/SKILL.md");
        let lines: Vec<_> = skill.lines().filter(|line| line.starts_with("mcp-probe ")).collect();
        assert!(lines.len() >= 12, "{lines:?}");
        for line in lines {
            let parsed = Cli::try_parse_from(words::with_server(split(line).into_iter()));
            assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
        }
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
