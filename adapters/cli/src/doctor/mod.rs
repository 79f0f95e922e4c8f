//! The `doctor` command: finds the first step on the way to a server that fails, and why.

mod report;
mod session;
#[cfg(feature = "auth")]
mod tokens;

use core::time::Duration;

use clap::Args;
use mcp_check::Target;
use mcp_check::diagnosis::{Diagnosis, Ended, Steps};

use crate::args::{
    AuthorizationArgs, ConnectionArgs, RevisionArgs, Runtime, ServerArgs, StderrChoice, TargetArgs, duration,
    usage,
};
use crate::failure::CommandFailure;
use crate::server::Server;
use report::DiagnosisReport;

/// Finds out why a server does not work, and what to do.
///
/// Goes from the program or the URL to the first list in steps, each of which needs those before it. At the first step
/// that fails it says what failed, why, and what to do, in one sentence each. A program is started twice: once to read what it
/// prints, and once to speak with it. Nobody is asked to log in, and no tool is called.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe doctor [OPTIONS]"))]
pub(crate) struct DoctorArgs {
    /// Prints one JSON object instead.
    ///
    /// Its members: ok, steps (step, state, detail) and failure (step, what, why, fix), which is null if no step failed.
    /// An invalid command line is an object with the member `error`, as of other commands.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) revisions: RevisionArgs,
    /// Limits the time to wait for one answer: 2s, 500ms or 0.5.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Limits the time to start the server or to connect to it.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) connect_timeout: Duration,
    /// Neither uses nor remembers the era of a server, as other commands do.
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Shows the messages of the last two steps on stderr: → to the server, ← from it.
    #[arg(long)]
    pub(crate) trace: bool,
    /// Selects where the server's stderr goes in the last two steps. Before them it is captured.
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = StderrChoice::Capture)]
    pub(crate) stderr: StderrChoice,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) authorization: AuthorizationArgs,
}

impl DoctorArgs {
    /// Returns the options of a session with the same server.
    fn into_target(self) -> TargetArgs {
        let Self { connect_timeout, no_cache, .. } = self;
        TargetArgs {
            revisions: self.revisions,
            timeout: self.timeout,
            connection: ConnectionArgs { connect_timeout, no_cache, keep_alive: None },
            log: None,
            trace: self.trace,
            hide: Vec::new(),
            runtime: Runtime::Blocking,
            stderr: self.stderr,
            server: self.server,
            authorization: self.authorization,
        }
    }
}

pub(crate) fn run(mut args: DoctorArgs) -> Result<(), CommandFailure> {
    if args.authorization.authorize {
        let why = "doctor asks nobody to log in: leave --authorize out";
        return Err(
            CommandFailure::usage(why).with_hint("`mcp-probe login URL` logs in, and doctor uses its token")
        );
    }
    args.authorization.asks_nobody = true;
    let server = Server::from_args(&args.server)?;
    let target = server.target(StderrChoice::Capture)?;
    let mut report = DiagnosisReport::new(args.json);
    let mut steps = Steps::new(|step| report.push(step));
    server.secrets().iter().for_each(|secret| steps.hide(secret));
    // The report has how it ended.
    let _ = diagnose(&mut steps, args, server, &target);
    drop(steps);
    report.finish()
}

/// Goes through the steps of the server.
fn diagnose(steps: &mut Steps<'_>, args: DoctorArgs, server: Server, target: &Target) -> Result<(), Ended> {
    let mut diagnosis = Diagnosis::new(target).timeout(args.timeout).connect_timeout(args.connect_timeout);
    if let Server::Program(program) = &server {
        let word = program.words().next().unwrap_or_default();
        diagnosis = diagnosis.program_name(word.to_string_lossy());
    }
    #[cfg(feature = "auth")]
    let mut tokens = tokens::ProbeTokens::new(&args, server);
    #[cfg(feature = "auth")]
    {
        diagnosis = diagnosis.tokens(&mut tokens);
    }
    diagnosis.run(steps)?;
    session::diagnose(steps, &args.into_target())
}

const HELP: &str = "\
States of a step: ok, warning (it works, but may not for others), skipped (-),
and failed, which ends the diagnosis. The exit code is that of the failure; a
warning is none. No tool is called: `check`, `test` and `call` go further.

Steps:
  program    directory, program, start, output, revision, lists
  socket     connect, output, revision, lists
  URL        proxy, dns, tcp, tls, http, redirect, path, host, clock,
             resource, issuer, token, scopes, content, buffering,
             revision, lists

Examples:
  mcp-probe doctor -- npx -y @modelcontextprotocol/server-everything
  mcp-probe doctor https://mcp.example.com/mcp
  mcp-probe doctor --config .mcp.json --server files
  mcp-probe doctor --json -- my-server | jq -r .failure.fix";
