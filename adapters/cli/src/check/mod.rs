//! The `check` command: checks a server against the specification.
//!
//! Tools are never called, because they may have effects.

mod answer;
mod apps;
mod args;
mod authorization_server;
mod conversation;
mod entries;
mod events;
mod exposure;
mod formats;
mod handshake;
mod http_peer;
mod line_stream;
mod lists;
mod messages;
mod modern;
mod peer;
mod process_peer;
mod profile;
mod protection;
mod received;
mod report;
mod requests;
mod rules;
mod schemas;
mod subscriptions;
mod texts;
mod token;
mod transport;
mod versions;

use core::time::Duration;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_proto::{Era, Fault, Version};
use mcp_std::io::StreamAddress;
use mcp_std::process::ShutdownStage;

use crate::args::connection;
use crate::exchange::HttpTarget;
use crate::failure::{
    BEARER_HINT, CommandFailure, Exit, FailureContext, UNREACHABLE_HINT, format_seconds, unreachable_hint,
};
use crate::notes::print_note;
use crate::output::{print, print_value};
use crate::paint::Paint;
use crate::server::Server;
pub(crate) use args::CheckArgs;
use conversation::{CheckConversation, CheckSetup, ErrorAnswer};
use handshake::HandshakeOutcome;
use peer::ServerTarget;
use profile::Profile;
use report::CheckReport;
use rules::Severity;

/// Checks a server. `server_of` finds that of a connection that is kept.
pub(crate) fn run(
    args: &CheckArgs,
    server_of: impl FnOnce(&str) -> Result<Server, CommandFailure>,
) -> Result<(), CommandFailure> {
    if args.rules {
        return report::print_rules(args.profile, args.json);
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
    if args.profile == Profile::Hosted && !matches!(server, Server::Remote(_)) {
        let why = "--profile hosted is for servers over HTTP";
        return Err(CommandFailure::usage(why).with_hint("give the URL by which clients reach the server"));
    }
    let (name, artifact) = (server.report_name(), formats::artifact(&server)?);
    let words: Vec<_> = match &server {
        Server::Program(program) => program.words().map(|word| word.to_string_lossy().into_owned()).collect(),
        _ => Vec::new(),
    };
    let setup = CheckSetup {
        server: resolve_target(args, server)?,
        profile: args.profile,
        timeout: args.timeout,
        connect_timeout: args.connect_timeout,
        trace: args.trace,
        drafts: args.revisions.drafts,
    };
    let report = setup.new_report();
    if args.profile == Profile::Owasp {
        exposure::check_command(&report, &words);
        exposure::note_unseen(&report, setup.server.is_http());
    }
    exposure::check_url(&setup, &report);
    protection::check_challenge(&setup, &report);
    let outcome = check_revisions(
        &setup,
        &report,
        versions.era(Era::Legacy).newest(),
        versions.era(Era::Modern).newest(),
    );
    let supported = outcome.map_err(|error| {
        let context = FailureContext {
            timeout: args.timeout,
            connect_timeout: args.connect_timeout,
            total_timeout: None,
            is_stderr_shown: true,
        };
        match (&setup.server, error) {
            (ServerTarget::Stream(..), Error::Io(error)) => {
                CommandFailure::new(Exit::Connection, error.to_string()).with_hint(UNREACHABLE_HINT)
            }
            (_, error) => CommandFailure::from_client_error(&error, &context),
        }
    })?;
    let findings = report.into_findings(args.profile);
    let mildest_failure = args.profile.mildest_failure(args.strict);
    if args.json {
        findings.print_json()?;
    } else if args.sarif {
        print_value(&findings.to_sarif(&artifact, !supported.is_empty()))?;
    } else if args.junit {
        print(&findings.to_junit(&name, &supported, mildest_failure))?;
    } else {
        findings.print(&supported, Paint::for_stdout())?;
    }
    let counts = findings.counts();
    if supported.is_empty() && counts.errors == 0 {
        let why = "authorization is needed: the challenges and the metadata of the server alone were checked";
        return Err(CommandFailure::new(Exit::Unauthorized, why).with_hint(BEARER_HINT).after_result());
    }
    let found = [
        (Severity::Error, counts.errors),
        (Severity::Warning, counts.warnings),
        (Severity::Note, counts.notes),
    ];
    match found.iter().find(|(severity, number)| *severity <= mildest_failure && *number > 0) {
        Some((severity, number)) => {
            let why = format!("{}s were found: {number}", severity.word());
            Err(CommandFailure::failed(why).after_result())
        }
        None => Ok(()),
    }
}

/// Returns the target that is checked.
fn resolve_target(args: &CheckArgs, mut server: Server) -> Result<ServerTarget, CommandFailure> {
    token::add_token(args, &mut server)?;
    let remote = match server {
        Server::Program(program) => return Ok(ServerTarget::Program(Box::new(program.program(args.stderr)))),
        Server::Stream(StreamAddress::Serial(_)) => {
            let why = "check opens several connections, and a serial line is a single one";
            let hint = "check the same server on a socket or as a program";
            return Err(CommandFailure::usage(why).with_hint(hint));
        }
        Server::Stream(address) => return Ok(ServerTarget::Stream(address, args.connect_timeout)),
        Server::Remote(remote) => remote,
    };
    let (shown, url) = (remote.display_name(), remote.config()?.endpoint().clone());
    let target = HttpTarget::resolve(url, remote.to_fields(), args.connect_timeout);
    target.map(ServerTarget::Http).map_err(|error| {
        CommandFailure::new(Exit::Connection, format!("no connection to {shown}: {error}"))
            .with_hint(unreachable_hint(&error.to_string()))
    })
}

/// Checks each of the given revisions that the server supports, and returns the supported ones.
fn check_revisions(
    setup: &CheckSetup,
    report: &CheckReport,
    legacy: Option<Version>,
    modern: Option<Version>,
) -> Result<Vec<Version>, Error> {
    let mut supported = Vec::new();
    let mut failures = Vec::new();
    let mut refusal = None;
    // Findings in an unsupported era count only if the server supports neither era.
    let unsupported = setup.new_report();
    let mut discover_timeout = setup.connect_timeout;
    let mut session = None;
    let mut broken = false;
    let (legacy_report, modern_report) = (setup.new_report(), setup.new_report());
    if let Some(version) = legacy {
        legacy_report.set_revision(Some(version));
        let begun = Instant::now();
        let mut conversation = CheckConversation::start(setup, &legacy_report, version)?;
        match handshake::initialize(&mut conversation, version) {
            HandshakeOutcome::Supported => {
                // The server has started once; the next start should take as long.
                discover_timeout = setup.timeout.max(begun.elapsed() * 2);
                session = Some(conversation);
            }
            HandshakeOutcome::Refused(failed) => {
                discover_timeout = setup.timeout.max(begun.elapsed() * 2);
                failures.push(format!("`initialize` got the error {}", failed.summary()));
                refusal = Some(failed);
                conversation.stop();
            }
            HandshakeOutcome::Failed(why) => {
                failures.push(format!("`initialize`: {why}"));
                conversation.stop();
            }
            HandshakeOutcome::Invalid(why) => {
                failures.push(format!("`initialize` {why}"));
                broken = true;
                conversation.stop();
            }
        }
    }
    let modern_conversation = match modern {
        Some(version) => {
            modern_report.set_revision(Some(version));
            let mut conversation = CheckConversation::start(setup, &modern_report, version)?;
            match handshake::discover(&mut conversation, discover_timeout) {
                HandshakeOutcome::Supported => Some(conversation),
                HandshakeOutcome::Refused(failed) => {
                    failures.push(format!("`server/discover` got the error {}", failed.summary()));
                    conversation.stop();
                    None
                }
                HandshakeOutcome::Failed(why) | HandshakeOutcome::Invalid(why) => {
                    failures.push(format!("`server/discover`: {why}"));
                    conversation.stop();
                    None
                }
            }
        }
        None => None,
    };
    let dual = session.is_some() && modern_conversation.is_some();
    if let Some(conversation) = session {
        supported.push(conversation.version());
        legacy_report.set_revision(Some(conversation.version()));
        check_era(conversation, legacy, OtherEra::from_probes(dual, modern.is_some()));
        report.absorb(legacy_report);
    } else if broken {
        report.absorb(legacy_report);
    } else {
        unsupported.absorb(legacy_report);
    }
    if let Some(mut conversation) = modern_conversation {
        supported.push(conversation.version());
        if let Some(failed) = refusal {
            versions::check_refusal(&mut conversation, &failed);
        }
        check_era(conversation, None, OtherEra::from_probes(dual, legacy.is_some()));
        report.absorb(modern_report);
    } else {
        unsupported.absorb(modern_report);
    }
    // The errors of a server that wants another token tell nothing about its conversations.
    if supported.is_empty() && !protection::is_unauthorized(setup) {
        // As any other client that leaves the handshake out.
        let untried = Fault::ExitedDuringProbe { legacy: false };
        failures.extend(untried.untried_handshake().filter(|_| legacy.is_none()).map(str::to_owned));
        report.add(rules::NOT_A_SERVER, "the server", failures.join("; "));
        transport::note_http_sse(setup, report);
        report.absorb(unsupported);
    }
    Ok(supported)
}

/// Support for the era that is not being checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OtherEra {
    Supported,
    Unsupported,
    /// Not tested.
    Unknown,
}

impl OtherEra {
    const fn from_probes(dual: bool, was_probed: bool) -> Self {
        match (dual, was_probed) {
            (true, _) => Self::Supported,
            (false, true) => Self::Unsupported,
            (false, false) => Self::Unknown,
        }
    }
}

/// Runs all checks of one era.
fn check_era(mut conversation: CheckConversation<'_>, requested: Option<Version>, other: OtherEra) {
    handshake::check_capabilities(&conversation);
    let lists = lists::check_lists(&mut conversation);
    entries::check_entries(&conversation, &lists);
    texts::check_texts(&conversation, &lists);
    apps::check_apps(&mut conversation, &lists);
    events::check_events(&mut conversation);
    subscriptions::check_subscriptions(&mut conversation);
    requests::check_requests(&mut conversation, &lists);
    let (setup, report) = (conversation.setup(), conversation.report);
    let version = conversation.version();
    if conversation.is_modern() {
        versions::check_modern(&mut conversation, other == OtherEra::Supported);
    }
    if setup.server.is_http() && conversation.is_running() {
        transport::check_transport(&mut conversation, other == OtherEra::Unsupported);
    }
    match conversation.close() {
        Some(ended) if ended.stage != ShutdownStage::Exited => {
            let wait = format_seconds(setup.timeout.max(Duration::from_secs(2)));
            let what = format!("it was still running {wait} after its stdin was closed");
            report.add(rules::STAYS, "the server", what);
        }
        Some(ended) if ended.had_stragglers => {
            report.add(rules::LEFTOVERS, "the server", "processes were still running after it had ended");
        }
        _ => {}
    }
    if let Some(requested) = requested {
        versions::check_legacy(setup, report, requested, version);
    }
}

/// Formats a method as the location of a finding.
fn method_location(method: &str) -> String {
    format!("`{method}`")
}

/// Returns whether an error has this code.
const fn has_code(failed: &ErrorAnswer, code: i64) -> bool {
    failed.code == code
}
