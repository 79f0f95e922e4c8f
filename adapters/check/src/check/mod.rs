//! Checks of a server against the specification. Tools are never called, because they may have effects.

mod answer;
mod apps;
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
mod profile;
mod protection;
mod received;
mod report;
mod requests;
mod rules;
mod schemas;
mod shutdown;
mod subscriptions;
mod texts;
mod transport;
mod versions;

use alloc::rc::Rc;
use core::fmt;
use core::time::Duration;
use std::io;
use std::time::Instant;

use mcp_proto::draft::Draft;
use mcp_proto::tap::Direction;
use mcp_proto::{Era, Fault, Version, VersionSet};
use mcp_std::process::SpawnError;

use crate::Target;
use crate::exchange::HttpTarget;
use conversation::{CheckConversation, CheckSetup, NOT_A_SERVER};
use handshake::HandshakeOutcome;
use peer::ServerTarget;
pub use profile::{Category, Profile};
use received::TraceSink;
use report::CheckReport;
pub use report::{Counts, Finding, Report};
pub use rules::{Rule, Severity, rules};

/// A check of a server against the specification, and good practice.
///
/// It lists what the server offers, sends it invalid requests, and tests how it starts and ends: in each era that the server speaks, in
/// new connections or processes where they are needed. Tools are never called, because they may have effects. To the server it is the
/// client `mcp-probe`.
///
/// ```no_run
/// use mcp_check::{Check, Severity};
/// use mcp_std::process::{Program, Stderr};
///
/// let server = Program::new("my-server").stderr(Stderr::Capture);
/// let report = Check::new(server.into()).run()?;
/// for finding in &report.findings {
///     println!("{}: {}: {}", finding.rule.check, finding.location, finding.detail);
/// }
/// assert_eq!(report.failures(Severity::Error), None);
/// # Ok::<(), mcp_check::CheckError>(())
/// ```
pub struct Check {
    target: Target,
    profile: Profile,
    versions: VersionSet,
    timeout: Duration,
    connect_timeout: Duration,
    draft: Draft,
    trace: Option<Rc<TraceSink>>,
}

/// Why a server cannot be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The program cannot be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The socket or the serial line cannot be connected to, or the program has no pipes.
    #[error(transparent)]
    Stream(io::Error),
    /// The host of the URL is unknown, or no connection to it can be made.
    #[error(transparent)]
    Unreachable(io::Error),
}

impl Check {
    /// Creates a check by the [specification](Profile::Spec), in all revisions.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self {
            target,
            profile: Profile::Spec,
            versions: VersionSet::ALL,
            timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(30),
            draft: Draft::NONE,
            trace: None,
        }
    }

    /// Selects the rules whose violations are findings. [`Profile::Hosted`] is for a server over HTTP.
    #[must_use]
    pub fn profile(self, profile: Profile) -> Self {
        Self { profile, ..self }
    }

    /// Limits the check to revisions: of each era the newest one is asked for.
    #[must_use]
    pub fn versions(self, versions: VersionSet) -> Self {
        Self { versions, ..self }
    }

    /// Sets the time to wait for one answer: 5 s, unless it is set.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the time to wait for a connection, and for the first answer of a new server: 30 s, unless it is set.
    #[must_use]
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: timeout, ..self }
    }

    /// Follows drafts of the specification where they differ from the releases: in the header fields that requests of sessions have.
    #[must_use]
    pub fn draft(self, draft: Draft) -> Self {
        Self { draft, ..self }
    }

    /// Sets a function that gets each line to and from the server, and the heads of responses: with the time since the connection or the
    /// process began.
    #[must_use]
    pub fn trace(self, sink: impl Fn(Duration, Direction, &[u8]) + 'static) -> Self {
        Self { trace: Some(Rc::new(sink)), ..self }
    }

    /// Checks the server. It takes as long as the server lets it: seconds as a rule, and the sum of many timeouts if it is silent.
    ///
    /// # Errors
    ///
    /// [`CheckError`] if there is no server to check. One that does not speak the protocol is a finding.
    pub fn run(self) -> Result<Report, CheckError> {
        let Self { target, profile, versions, timeout, connect_timeout, draft, trace } = self;
        let mut words = Vec::new();
        let server = match target {
            Target::Program(program) => {
                words.extend(program.argv().map(|word| word.to_string_lossy().into_owned()));
                ServerTarget::Program(program)
            }
            Target::Stream(address) => ServerTarget::Stream(address, connect_timeout),
            Target::Http { url, fields } => {
                let target = HttpTarget::resolve(url, fields, connect_timeout);
                ServerTarget::Http(target.map_err(CheckError::Unreachable)?)
            }
        };
        let setup = CheckSetup { server, profile, timeout, connect_timeout, trace, draft };
        let report = setup.new_report();
        if profile == Profile::Owasp {
            exposure::check_command(&report, &words);
            exposure::note_unseen(&report, setup.server.is_http());
        }
        exposure::check_url(&setup, &report);
        protection::check_challenge(&setup, &report);
        let newest = |era| versions.era(era).newest();
        let supported = check_revisions(&setup, &report, newest(Era::Legacy), newest(Era::Modern))?;
        Ok(report.finish(profile, supported))
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, profile, versions, .. } = self;
        let mut shown = f.debug_struct("Check");
        shown
            .field("target", target)
            .field("profile", profile)
            .field("versions", versions)
            .finish_non_exhaustive()
    }
}

/// Checks each of the given revisions that the server supports, and returns the supported ones.
fn check_revisions(
    setup: &CheckSetup,
    report: &CheckReport,
    legacy: Option<Version>,
    modern: Option<Version>,
) -> Result<Vec<Version>, CheckError> {
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
        let outcome = handshake::initialize(&mut conversation, version);
        if matches!(outcome, HandshakeOutcome::Supported | HandshakeOutcome::Refused(_)) {
            // The server has started once; the next start should take as long.
            discover_timeout = setup.timeout.max(begun.elapsed() * 2);
        }
        failures.extend(outcome.reason("initialize"));
        if let HandshakeOutcome::Supported = outcome {
            session = Some(conversation);
        } else {
            conversation.stop();
        }
        match outcome {
            HandshakeOutcome::Refused(failed) => refusal = Some(failed),
            HandshakeOutcome::Invalid(_) => broken = true,
            HandshakeOutcome::Supported | HandshakeOutcome::Failed(_) => {}
        }
    }
    let mut modern_conversation = None;
    if let Some(version) = modern {
        modern_report.set_revision(Some(version));
        let mut conversation = CheckConversation::start(setup, &modern_report, version)?;
        let outcome = handshake::discover(&mut conversation, discover_timeout);
        failures.extend(outcome.reason("server/discover"));
        match outcome {
            HandshakeOutcome::Supported => modern_conversation = Some(conversation),
            _ => conversation.stop(),
        }
    }
    let dual = session.is_some() && modern_conversation.is_some();
    if let Some(conversation) = session {
        supported.push(conversation.version());
        legacy_report.set_revision(Some(conversation.version()));
        check_era(conversation, legacy, (dual, !dual && modern.is_some()));
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
        check_era(conversation, None, (dual, !dual && legacy.is_some()));
        report.absorb(modern_report);
    } else {
        unsupported.absorb(modern_report);
    }
    // The errors of a server that wants another token tell nothing about its conversations.
    if supported.is_empty() && !protection::is_unauthorized(setup) {
        // As any other client that leaves the handshake out.
        let untried = Fault::ExitedDuringProbe { legacy: false };
        failures.extend(untried.untried_handshake().filter(|_| legacy.is_none()).map(str::to_owned));
        report.add(NOT_A_SERVER, "the server", failures.join("; "));
        transport::note_http_sse(setup, report);
        report.absorb(unsupported);
    }
    Ok(supported)
}

/// Runs all checks of one era. `dual` states that the server supports the other one, `alone` that it does not.
fn check_era(
    mut conversation: CheckConversation<'_>,
    requested: Option<Version>,
    (dual, alone): (bool, bool),
) {
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
        versions::check_modern(&mut conversation, dual);
    }
    if setup.server.is_http() && conversation.is_running() {
        transport::check_transport(&mut conversation, alone);
    }
    if let Some(ended) = conversation.close() {
        shutdown::check_end(report, &ended, setup.close_timeout());
    }
    if let Some(requested) = requested {
        versions::check_legacy(setup, report, requested, version);
    }
}

/// Formats a method as the location of a finding.
fn method_location(method: &str) -> String {
    format!("`{method}`")
}
