//! Options of the command `skills`.

use clap::{Args, Subcommand};

use crate::args::{TargetArgs, usage};

/// Lists, shows and verifies the skills of a server.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    List(SkillsListArgs),
    Show(SkillsShowArgs),
    Verify(SkillsVerifyArgs),
}

/// Lists the skills of a server.
///
/// No file is read. A server may have more skills than it lists.
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP, after_long_help = LIST_HELP)]
#[command(override_usage = usage!("mcp-probe skills list [OPTIONS]"))]
pub(crate) struct SkillsListArgs {
    /// Prints one JSON object instead.
    ///
    /// Its member skills has the entries as the server sent them.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Reads a file of a skill, verifies it, and prints it.
///
/// Without --file that is the SKILL.md. Size, digest and front matter are compared with the entry of the skill, and a
/// file that differs is not printed. Text is printed with control characters escaped.
#[derive(Debug, Args)]
#[command(after_help = SHOW_HELP, after_long_help = SHOW_HELP)]
#[command(override_usage = usage!("mcp-probe skills show [OPTIONS] <SKILL>"))]
pub(crate) struct SkillsShowArgs {
    /// Name of the skill, or the URI of its SKILL.md.
    ///
    /// A URI is also found if the server does not list the skill. A name that several skills have is refused.
    pub(crate) skill: String,
    /// Shows this file instead: its path in the folder of the skill, or its URI.
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<String>,
    /// Prints one JSON object instead.
    ///
    /// Its members: skill (the entry), file (uri, mediaType, verified, and text, or blob in Base64).
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Reads all files of skills and compares them with their entries.
///
/// Prints one line for each skill, and one for each mismatch. The exit code is 1 if there is a mismatch.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_HELP, after_long_help = VERIFY_HELP)]
#[command(override_usage = usage!("mcp-probe skills verify [OPTIONS] [SKILL]..."))]
pub(crate) struct SkillsVerifyArgs {
    /// Name of a skill, or the URI of its SKILL.md; all skills that the server lists if none is named.
    #[arg(value_name = "SKILL")]
    pub(crate) skills: Vec<String>,
    /// Prints one JSON object instead.
    ///
    /// Its member skills has one object for each skill: uri, name, files, verified, errors.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

const LIST_HELP: &str = "\
Examples:
  mcp-probe skills list -- mcp-probe serve --everything
  mcp-probe skills list --json http://127.0.0.1:8080/mcp | jq -r .skills[].uri";

const SHOW_HELP: &str = "\
Examples:
  mcp-probe skills show berth-planning -- mcp-probe serve --everything
  mcp-probe skills show berth-planning --file references/HARBOURS.md -- \\
      mcp-probe serve --everything";

const VERIFY_HELP: &str = "\
A match says that a server agrees with itself. It says nothing about trust.

Examples:
  mcp-probe skills verify -- mcp-probe serve --everything
  mcp-probe skills verify skill://acme/refunds/SKILL.md \\
      http://127.0.0.1:8080/mcp";
