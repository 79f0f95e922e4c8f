//! Options of `check`.

use core::time::Duration;

use clap::{Args, ValueEnum};

use crate::args::{AuthorizationArgs, RevisionArgs, ServerArgs, StderrChoice, duration, usage};

/// Checks a server against the specification and reports violations.
///
/// Lists what the server offers, sends it invalid requests, and tests how it starts and ends. It does so in each
/// era that the server speaks, with a new process where one is needed. Tools are never called, because they may
/// have effects. The findings go to stdout.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = concat!("mcp-probe check --rules [--profile NAME] [--json]\n       ", usage!("mcp-probe check [OPTIONS]")))]
pub(crate) struct CheckArgs {
    /// Prints a JSON array instead, with one object for each finding.
    ///
    /// The members of a finding: severity, check, rules, revisions, where, what, fix; with --profile owasp also owasp. An object
    /// with the member `error` if the server cannot be checked.
    #[arg(long, conflicts_with_all = ["sarif", "junit"])]
    pub(crate) json: bool,
    /// Prints a report in SARIF 2.1.0 instead, for code scanning.
    ///
    /// Findings are located in the first word of the command that is a file of the current directory, which code scanning can
    /// show; otherwise at a path made of the URL, or of the name of the program.
    #[arg(long, conflicts_with_all = ["junit", "rules"])]
    pub(crate) sarif: bool,
    /// Prints a report in JUnit's XML instead, for CI servers.
    ///
    /// Each check with findings is a test case: one with errors has failed, and so has one with warnings with --strict, and
    /// any one with --profile strict.
    #[arg(long, conflicts_with = "rules")]
    pub(crate) junit: bool,
    /// Treats warnings as failures, in every profile.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Selects the checks whose findings count.
    #[arg(long, value_name = "NAME", value_enum, default_value_t = ProfileChoice::Spec)]
    pub(crate) profile: ProfileChoice,
    /// Prints the list of the checks of the profile and exits (a JSON array with --json).
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

/// A selection of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileChoice {
    /// The specification and good practice.
    Spec,
    /// The same rules; every finding fails, also a note.
    Strict,
    /// What a server on the public internet needs, for a URL: one request has 16 MiB; rates are not tested.
    Hosted,
    /// The OWASP MCP Top 10, a beta: each finding with its category.
    ///
    /// Tools are not called, so this finds what a server shows, and names the categories that it does not show.
    Owasp,
}

#[cfg(feature = "check")]
impl ProfileChoice {
    pub(crate) const fn profile(self) -> mcp_check::Profile {
        match self {
            Self::Spec => mcp_check::Profile::Spec,
            Self::Strict => mcp_check::Profile::Strict,
            Self::Hosted => mcp_check::Profile::Hosted,
            Self::Owasp => mcp_check::Profile::Owasp,
        }
    }
}

const HELP: &str = "\
An error violates a MUST of the specification, a warning a SHOULD, a note good
practice. The exit code is 1 when there are errors, or warnings with --strict,
or any findings with --profile strict.

Examples:
  mcp-probe check -- python my_server.py
  mcp-probe check http://127.0.0.1:8080/mcp
  mcp-probe check unix:/run/my-server.sock
  mcp-probe check --json --strict -- my-server | jq -r '.[].what'
  mcp-probe check --sarif -- python my_server.py > check.sarif
  mcp-probe check --junit http://127.0.0.1:8080/mcp > check.xml
  mcp-probe check --profile hosted https://mcp.example.com/mcp
  mcp-probe check --profile owasp -- npx -y some-server@1.2.3
  mcp-probe check --protocol-version 2025-06-18 -- my-server
  mcp-probe check --rules";
