//! Options of the command `skills`.

use clap::{Args, Subcommand};

use super::TargetArgs;
use super::help::{SKILLS_LIST_HELP, SKILLS_SHOW_HELP, SKILLS_VERIFY_HELP, usage};

#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// Lists the skills of a server.
    ///
    /// No file is read. A server may have more skills than it lists.
    #[command(after_help = SKILLS_LIST_HELP, after_long_help = SKILLS_LIST_HELP)]
    #[command(override_usage = usage!("mcp-probe skills list [OPTIONS]"))]
    List(SkillsListArgs),
    /// Reads a file of a skill, verifies it, and prints it.
    ///
    /// Without --file that is the SKILL.md. Size, digest and front matter are compared with the entry of the skill, and a
    /// file that differs is not printed. Text is printed with control characters escaped.
    #[command(after_help = SKILLS_SHOW_HELP, after_long_help = SKILLS_SHOW_HELP)]
    #[command(override_usage = usage!("mcp-probe skills show [OPTIONS] <SKILL>"))]
    Show(SkillsShowArgs),
    /// Reads all files of skills and compares them with their entries.
    ///
    /// Prints one line for each skill, and one for each mismatch. The exit code is 1 if there is a mismatch.
    #[command(after_help = SKILLS_VERIFY_HELP, after_long_help = SKILLS_VERIFY_HELP)]
    #[command(override_usage = usage!("mcp-probe skills verify [OPTIONS] [SKILL]..."))]
    Verify(SkillsVerifyArgs),
}

impl SkillsCommand {
    /// Returns whether one JSON object is printed.
    pub(crate) const fn prints_json_object(&self) -> bool {
        match self {
            Self::List(args) => args.json,
            Self::Show(args) => args.json,
            Self::Verify(args) => args.json,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SkillsListArgs {
    /// Prints one JSON object instead.
    ///
    /// Its member skills has the entries as the server sent them.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, Args)]
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

#[derive(Debug, Args)]
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
