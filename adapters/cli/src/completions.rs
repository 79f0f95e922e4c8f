//! The `completions` command: prints a completion script for a shell.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::CommandFailure;
use crate::output::print;

/// Prints a completion script for a shell.
///
/// The script goes to stdout.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete the command line of.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Prints the script for a command line with this definition.
pub(crate) fn run(args: &CompletionsArgs, definition: &Command) -> Result<(), CommandFailure> {
    let mut command = without_hidden(definition);
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "mcp-probe", &mut script);
    let script = String::from_utf8_lossy(&script);
    // The bash generator escapes the hyphen of this program's name in two ways (clap issue 6421).
    print(&script.replace("mcp__subcmd__probe", "mcp__probe"))
}

/// Returns the command without hidden options, which the generators would offer.
fn without_hidden(command: &Command) -> Command {
    let mut shown = Command::new(command.get_name().to_owned());
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        shown = shown.version(version.to_owned());
    }
    shown = shown.args(command.get_arguments().filter(|arg| !arg.is_hide_set()));
    shown.subcommands(command.get_subcommands().map(without_hidden))
}

const HELP: &str = "\
Examples:
  mcp-probe completions bash > \\
      ~/.local/share/bash-completion/completions/mcp-probe
  mcp-probe completions zsh > ~/.zfunc/_mcp-probe   (~/.zfunc must be in fpath)
  mcp-probe completions fish > ~/.config/fish/completions/mcp-probe.fish";
