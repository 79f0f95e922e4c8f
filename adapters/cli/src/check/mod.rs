//! The `check` command: checks a server against the specification.

mod args;
mod report;
mod token;

use std::path::{Path, PathBuf};

use mcp_check::{Check, CheckError, Report, Severity, hints};
use mcp_std::io::StreamAddress;

use crate::answer::uri_reference;
use crate::args::connection;
use crate::failure::{CommandFailure, Exit};
use crate::notes::{print_note, print_stderr};
use crate::output::{print, print_value};
use crate::paint::Paint;
use crate::server::Server;
use crate::trace;
pub(crate) use args::CheckArgs;
use args::ProfileChoice;

/// Checks a server. `server_of` finds that of a connection that is kept.
pub(crate) fn run(
    args: &CheckArgs,
    server_of: impl FnOnce(&str) -> Result<Server, CommandFailure>,
) -> Result<(), CommandFailure> {
    if args.rules {
        return report::print_rules(args.profile.profile(), args.json);
    }
    let versions = args.revisions.version_set().map_err(CommandFailure::usage)?;
    let mut server = Server::from_args(&args.server)?;
    let kept = connection(&args.server.place.command);
    if let Some(name) = kept.filter(|_| matches!(server, Server::Stream(_))) {
        // What keeps a connection answers for itself.
        server = server_of(name)?;
        print_note(&format!(
            "{} is checked in connections of its own, not in @{name}",
            server.display_name()
        ));
    }
    if args.profile == ProfileChoice::Hosted && !matches!(server, Server::Remote(_)) {
        let why = "--profile hosted is for servers over HTTP";
        return Err(CommandFailure::usage(why).with_hint("give the URL by which clients reach the server"));
    }
    let (name, artifact) = (server.report_name(), artifact(&server)?);
    token::add_token(args, &mut server)?;
    if let Server::Stream(StreamAddress::Serial(_)) = server {
        let why = "check opens several connections, and a serial line is a single one";
        let hint = "check the same server on a socket or as a program";
        return Err(CommandFailure::usage(why).with_hint(hint));
    }
    let mut check = Check::new(server.target(args.stderr)?)
        .profile(args.profile.profile())
        .versions(versions)
        .timeout(args.timeout)
        .connect_timeout(args.connect_timeout)
        .draft(args.revisions.drafts.followed());
    if args.trace {
        check = check.trace(|time, direction, line| {
            let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            let text = String::from_utf8_lossy(line);
            print_stderr(&trace::format_line(micros, direction, &text, Paint::for_stderr()));
        });
    }
    let report = check.run().map_err(|error| failure(&error, &server))?;
    let mildest_failure = report.profile.mildest_failure(args.strict);
    if args.json {
        print_value(&report)?;
    } else if args.sarif {
        print_value(&report.to_sarif(&artifact))?;
    } else if args.junit {
        print(&report.to_junit(&name, mildest_failure))?;
    } else {
        report::print_report(&report, Paint::for_stdout())?;
    }
    outcome(&report, mildest_failure)
}

/// Returns the outcome of a command whose report is printed.
fn outcome(report: &Report, mildest_failure: Severity) -> Result<(), CommandFailure> {
    if report.supported.is_empty() && report.counts().errors == 0 {
        let why = "authorization is needed: the challenges and the metadata of the server alone were checked";
        return Err(CommandFailure::new(Exit::Unauthorized, why).with_hint(hints::BEARER).after_result());
    }
    match report.failures(mildest_failure) {
        Some((severity, number)) => {
            let why = format!("{}s were found: {number}", severity.word());
            Err(CommandFailure::failed(why).after_result())
        }
        None => Ok(()),
    }
}

fn failure(error: &CheckError, server: &Server) -> CommandFailure {
    match (error, server) {
        (CheckError::Spawn(error), _) => CommandFailure::from_spawn_error(error),
        (_, Server::Remote(remote)) => {
            let what = format!("no connection to {}: {error}", remote.display_name());
            CommandFailure::new(Exit::Connection, what).with_hint(hints::unreachable(&error.to_string()))
        }
        (_, Server::Stream(_)) => {
            CommandFailure::new(Exit::Connection, error.to_string()).with_hint(hints::UNREACHABLE)
        }
        (_, Server::Program(_)) => {
            CommandFailure::new(Exit::Connection, format!("the stream to the server failed: {error}"))
        }
    }
}

/// Returns where findings about a server are located, as a relative reference (RFC 3986, 4.2) that code scanning takes for a path:
/// the first word of its command that is a file of the current directory, its URL without scheme and query, or its name.
fn artifact(server: &Server) -> Result<String, CommandFailure> {
    let path = match server {
        Server::Program(program) => {
            let file = program.words().map(Path::new).find(|word| word.is_relative() && word.is_file());
            file.map_or_else(|| server.report_name().into(), Path::to_owned)
        }
        Server::Remote(remote) => {
            let config = remote.config()?;
            let target = config.endpoint().target();
            let path = target.split_once('?').map_or(target, |(path, _)| path);
            PathBuf::from(config.endpoint().origin().authority() + path)
        }
        Server::Stream(_) => server.report_name().replace("://", "/").into(),
    };
    Ok(uri_reference(&path).unwrap_or_else(|| "server".into()))
}
