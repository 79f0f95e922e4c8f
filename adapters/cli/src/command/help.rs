//! The help of the program: its commands below headings, and what each of them shows in short.

use clap::builder::Styles;
use clap::{Command, CommandFactory as _};

use super::Cli;
use crate::features;

/// Headings of the list of commands, each with the first command below it.
const HEADINGS: [(&str, &str); 6] = [
    ("Look at a server", "inspect"),
    ("Use it", "call"),
    ("Keep what it is", "pin"),
    ("Reach it", "login"),
    ("Stand between or in its place", "serve"),
    ("Traces", "trace"),
];
/// The first of the commands that stand in one line: few people need them at first.
const FIRST_OTHER: &str = "events";

/// Returns the definition of the command line.
///
/// Its help has the commands below headings.
pub(crate) fn definition() -> Command {
    let cli = Cli::command().mut_subcommands(with_short_help);
    let (styles, mut list, mut others) = (Styles::styled(), String::new(), Vec::new());
    for command in cli.get_subcommands().filter(|command| !command.is_hide_set()) {
        let (name, header, literal) = (command.get_name(), styles.get_header(), styles.get_literal());
        if name == FIRST_OTHER || !others.is_empty() {
            others.push(format!("{literal}{name}{literal:#}"));
            continue;
        }
        if let Some((heading, _)) = HEADINGS.iter().find(|(_, first)| *first == name) {
            list.push_str(&format!("{header}{heading}:{header:#}\n"));
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        list.push_str(&format!("  {literal}{name:9}{literal:#} {about}\n"));
    }
    list.push_str(&format!("{header}Also:{header:#} {}", others.join(", "), header = styles.get_header()));
    cli.help_template(format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{{after-help}}"))
}

/// Gives a command, and those below it, a short help: of the text behind the options the examples alone, and the options of a login at
/// `login` alone; elsewhere `--authorize` names them.
fn with_short_help(command: Command) -> Command {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_login = command.get_arguments().any(|arg| arg.get_long() == Some("authorize"));
    let command = match text.rfind("Examples:\n") {
        Some(at) if at > 0 => command.after_help(text[at..].to_owned()),
        _ => command,
    };
    command.mut_subcommands(with_short_help).mut_args(|arg| {
        let is_own = arg.get_help_heading() != Some("Authorization") || arg.get_long() == Some("authorize");
        if is_own || !has_login { arg } else { arg.hide(true) }
    })
}

/// Returns the text after the options of the program.
pub(super) fn after_help() -> String {
    let missing = features::describe_missing().map(|missing| format!("\n\n{missing}"));
    format!("{AFTER_HELP}{}", missing.unwrap_or_default())
}

const AFTER_HELP: &str = "\
Examples (options: mcp-probe COMMAND -h, or --help for more of it):
  mcp-probe inspect -- npx -y @modelcontextprotocol/server-everything
  mcp-probe call count to=5 --trace -- mcp-probe serve --era modern

Exit codes: 0 success, 1 it failed, 2 the command line is invalid or names what
is not there, 3 no connection, 4 no answer in time, 5 an input request without
an answer, 6 authorization (`mcp-probe login URL`), 141 nobody reads the output.
With --json a failure is an object with the member error (`mcp-probe schema`).";
