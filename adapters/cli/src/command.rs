//! All commands: the definition of the command line, and what runs each. Only the root of the program knows this, and what looks at
//! the words of the command line.

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::failure::CommandFailure;
use crate::features::{self, Feature, Needs};
use crate::stop;
use crate::{
    bridge, call, check, complete, completions, demo, doctor, events, gateway, generate, inspect, listen,
    ping, pins, prompt, read, replay, serve, shell, skills, tap, tokens, trace_views,
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
    Login(tokens::LogInArgs),
    Logout(tokens::LogOutArgs),
    Whoami(tokens::WhoamiArgs),
    Serve(serve::ServeArgs),
    Bridge(bridge::BridgeArgs),
    Gateway(gateway::GatewayArgs),
    Tap(tap::TapArgs),
    Replay(replay::ReplayArgs),
    Shrink(replay::ShrinkArgs),
    #[command(subcommand)]
    Trace(trace_views::TraceCommand),
    Demo(demo::DemoArgs),
    Completions(completions::CompletionsArgs),
}

impl Command {
    /// Returns whether the command prints one JSON object, so that a failure is printed as one, too.
    pub(crate) const fn prints_json_object(&self) -> bool {
        match self {
            Self::Inspect(args) => args.json,
            Self::Doctor(args) => args.json,
            Self::Call(args) => args.request_args.json,
            Self::Shell(args) => args.request_args.json,
            Self::Read(args) => args.request_args.json,
            Self::Prompt(args) => args.request_args.json,
            Self::Complete(args) => args.request_args.json,
            Self::Events(command) => command.prints_json_object(),
            Self::Skills(command) => command.prints_json_object(),
            Self::Verify(args) => args.json || args.sarif,
            Self::Ping(args) => args.json,
            Self::Login(args) => args.json,
            Self::Whoami(args) => args.json,
            Self::Trace(command) => command.prints_json_object(),
            Self::Check(_)
            | Self::Listen(_)
            | Self::Serve(_)
            | Self::Bridge(_)
            | Self::Gateway(_)
            | Self::Tap(_)
            | Self::Replay(_)
            | Self::Shrink(_)
            | Self::Generate(_)
            | Self::Logout(_)
            | Self::Pin(_)
            | Self::Demo(_)
            | Self::Completions(_) => false,
        }
    }

    /// Returns whether the command ends in order after a signal, instead of at once.
    const fn ends_by_itself(&self) -> bool {
        matches!(
            self,
            Self::Serve(_)
                | Self::Bridge(_)
                | Self::Gateway(_)
                | Self::Shell(_)
                | Self::Events(events::EventsCommand::Subscribe(_))
        )
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
            Self::Check(_) => needs.add(Feature::Check, "check"),
            Self::Doctor(args) => needs.authorization(&args.authorization),
            Self::Login(_) => needs.add(Feature::Auth, "login"),
            Self::Logout(_) => needs.add(Feature::Auth, "logout"),
            Self::Whoami(_) => needs.add(Feature::Auth, "whoami"),
            Self::Serve(args) => args.add_needs(&mut needs),
            Self::Bridge(args) => args.add_needs(&mut needs),
            Self::Gateway(args) => args.add_needs(&mut needs),
            Self::Demo(args) => needs.runtime(args.runtime),
            Self::Tap(_) | Self::Replay(_) | Self::Shrink(_) | Self::Trace(_) | Self::Completions(_) => {}
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
            #[cfg(feature = "auth")]
            Self::Login(args) => tokens::log_in(&args),
            #[cfg(feature = "auth")]
            Self::Logout(args) => tokens::log_out(&args),
            #[cfg(feature = "auth")]
            Self::Whoami(args) => tokens::whoami(&args),
            Self::Serve(args) => serve::run(args),
            Self::Bridge(args) => bridge::run(args),
            Self::Gateway(args) => gateway::run(args),
            Self::Tap(args) => tap::run(&args),
            Self::Replay(args) => replay::run(&args),
            Self::Shrink(args) => replay::run_shrink(&args),
            Self::Trace(command) => trace_views::run(&command),
            Self::Demo(args) => demo::run(&args),
            Self::Completions(args) => completions::run(&args, &Cli::command()),
            // It fails: the command needs a feature that is missing. Without `auth` there is no `check` either.
            #[cfg(not(all(feature = "check", feature = "events")))]
            other => other.check_features(),
        }
    }
}

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
  6  authorization is needed, was refused or failed (`mcp-probe login URL`)";

#[cfg(test)]
mod tests {
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
