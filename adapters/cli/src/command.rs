//! All commands: the definition of the command line, and what runs each. Only the root of the program knows this, and what looks at
//! the words of the command line.

mod help;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::failure::CommandFailure;
use crate::stop;
use crate::verb::{call, complete, prompt, read};
use crate::{
    bench, bridge, check, completions, connect, demo, doctor, events, gateway, generate, inspect, listen,
    mcp, output, ping, pins, replay, schemas, serve, shell, skills, suite, tap, tokens, trace_views,
};
pub(crate) use help::definition;

/// Inspects, checks, calls and runs Model Context Protocol servers.
#[derive(Debug, Parser)]
#[command(name = "mcp-probe", version, max_term_width = 100, after_help = help::after_help(), after_long_help = help::after_help())]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// In the order of the help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Inspect(inspect::InspectArgs),
    Doctor(doctor::DoctorArgs),
    Check(check::CheckArgs),
    Test(suite::TestArgs),
    Ping(ping::PingArgs),
    Bench(bench::BenchArgs),
    Call(call::CallArgs),
    Read(read::ReadArgs),
    Prompt(prompt::PromptArgs),
    Complete(complete::CompleteArgs),
    Listen(listen::ListenArgs),
    #[command(subcommand)]
    Skills(skills::SkillsCommand),
    Shell(shell::ShellArgs),
    Pin(pins::PinArgs),
    #[command(subcommand)]
    Generate(generate::GenerateCommand),
    Login(tokens::LogInArgs),
    Connect(Box<connect::ConnectArgs>),
    #[command(hide = true)]
    KeepConnections(connect::KeepArgs),
    Serve(serve::ServeArgs),
    Bridge(bridge::BridgeArgs),
    Gateway(gateway::GatewayArgs),
    Mcp(mcp::McpArgs),
    Tap(tap::TapArgs),
    #[command(subcommand)]
    Trace(trace_views::TraceCommand),
    Replay(replay::ReplayArgs),
    Shrink(replay::ShrinkArgs),
    #[command(subcommand)]
    Events(events::EventsCommand),
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
        output::watch_reader(match self {
            // They answer what has arrived, and unsubscribe.
            Self::Events(Receive(_) | Subscribe(_)) => None,
            Self::Events(Follow(_)) | Self::Listen(_) | Self::Complete(_) => Some(0),
            Self::Trace(trace_views::TraceCommand::Show(_)) => Some(0),
            // Success would be said of what was not done to its end.
            Self::Bench(_) | Self::Demo(_) | Self::Doctor(_) | Self::Ping(_) => Some(UNREAD),
            Self::Shell(_) | Self::Test(_) => Some(UNREAD),
            _ => return,
        });
    }

    /// Runs the command.
    ///
    /// # Errors
    ///
    /// Fails if the command does.
    pub(crate) fn run(self) -> Result<(), CommandFailure> {
        if !self.ends_by_itself() {
            stop::end_servers_on_signal();
        }
        self.watch_reader();
        match self {
            Self::Inspect(args) => inspect::run(&args),
            Self::Call(args) => call::run(&args),
            Self::Shell(args) => shell::run(&args),
            #[cfg(feature = "check")]
            Self::Check(args) => check::run(&args, connect::server_of),
            Self::Doctor(args) => doctor::run(args),
            Self::Read(args) => read::run(&args),
            Self::Prompt(args) => prompt::run(&args),
            Self::Complete(args) => complete::run(&args),
            Self::Listen(args) => listen::run(&args),
            #[cfg(feature = "events")]
            Self::Events(command) => events::run(&command),
            Self::Skills(command) => skills::run(&command),
            Self::Generate(command) => generate::run(&command),
            Self::Pin(args) => pins::run(&args),
            Self::Ping(args) => ping::run(&args),
            Self::Bench(args) => bench::run(&args),
            Self::Test(args) => suite::run(args),
            #[cfg(feature = "auth")]
            Self::Login(args) => tokens::run(&args),
            Self::Connect(args) => connect::run(*args),
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
            // The check of features has refused them. Without `auth` there is no `check` either.
            #[cfg(not(all(feature = "check", feature = "events")))]
            _ => Ok(()),
        }
    }
}

/// Status of a program that `SIGPIPE` has ended, as shells have it.
const UNREAD: i32 = 128 + 13;

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::output_schemas::{OutputSchema, SCHEMAS};
    use crate::words;

    #[test]
    fn command_line_definition_is_consistent() {
        definition().debug_assert();
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

    /// Each command that a text of this program names in quotes, with words in place of what is put into it.
    #[test]
    fn tips_are_command_lines_that_are_possible() {
        let (mut folders, mut tips) = (vec![std::path::PathBuf::from("src")], 0);
        while let Some(folder) = folders.pop() {
            for file in std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path())
            {
                if file.is_dir() {
                    folders.push(file);
                    continue;
                }
                // There are pictures beside the source.
                if file.extension().is_none_or(|ending| ending != "rs") {
                    continue;
                }
                let text = std::fs::read_to_string(&file).expect("a file");
                let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                let text: String =
                    lines.map(|line| line.trim().trim_end_matches('\\').to_owned() + " ").collect();
                let texts = text.split("#[cfg(test)]").next().unwrap_or_default().split('`');
                for quoted in texts.filter(|quoted| quoted.starts_with("mcp-probe ")) {
                    check_tip(quoted, &file);
                    tips += 1;
                }
            }
        }
        assert!(tips >= 35, "{tips}");
    }

    fn check_tip(quoted: &str, file: &std::path::Path) {
        // Options and commands of another one, which need a server of their own.
        let mut line = String::new();
        for (index, part) in quoted.split(['{', '}']).enumerate() {
            line.push_str(match (index % 2, part) {
                (0, part) => part,
                (_, "options") => "",
                (_, "url" | "shown" | "") => "http://h/",
                _ => "word",
            });
        }
        let line = line.replace(" …", "").replace("URL", "http://h/");
        let line = line.replace("--engine http://h/", "--engine server");
        let words = split(line.split_whitespace().collect::<Vec<_>>().join(" ").as_str());
        // A name of a command, of which a sentence tells something, is a path to its definition.
        let is_any = words.get(1).is_some_and(|name| name == "word");
        if is_any || matches!(&words[1..], [name] if MENTIONED.iter().any(|mentioned| name == mentioned)) {
            return;
        }
        let parse = |words: Vec<OsString>| Cli::try_parse_from(words::with_server(words.into_iter()));
        if let Err(error) = parse(words) {
            let kind = error.kind();
            let is_help = matches!(kind, clap::error::ErrorKind::DisplayHelp);
            assert!(is_help, "{}: `{quoted}`: {error}", file.display());
        }
    }

    /// Commands that texts speak of by their names alone.
    const MENTIONED: [&str; 3] = ["call", "mcp", "tap"];

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
