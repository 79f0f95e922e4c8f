//! `check`: looks at a server as a reviewer would, and says what it does wrong
//!
//! Tools are never called, as that may have effects.

mod answer;
mod entries;
mod exchange;
mod handshake;
mod lists;
mod modern;
mod passing;
mod peer;
mod process;
mod remote;
mod report;
mod requests;
mod rules;
mod schemas;
mod stream;
mod subscriptions;
mod talk;
mod transport;
mod versions;

use core::time::Duration;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_proto::http::client::{Credential, Url};
use mcp_proto::{Era, Version};
use mcp_std::child::How;

use crate::args;
use crate::failure::{Asked, Exit, Failure, seconds};
use crate::paint::Paint;
use crate::session;
use exchange::Site;
use handshake::Greeting;
use peer::Server;
use report::Report;
use talk::{Failed, Setup, Talk};

pub(crate) fn run(args: &args::Check) -> Result<(), Failure> {
    if args.rules {
        return report::print_rules(args.json);
    }
    let versions = args.revisions.set().map_err(Failure::usage)?;
    let setup = Setup {
        server: server(args)?,
        timeout: args.timeout,
        connect_timeout: args.connect_timeout,
        trace: args.trace,
    };
    let report = setup.report();
    let outcome =
        look(&setup, &report, versions.era(Era::Legacy).newest(), versions.era(Era::Modern).newest());
    let spoken = outcome.map_err(|error| {
        let asked = Asked {
            timeout: args.timeout,
            connect_timeout: args.connect_timeout,
            total: None,
            stderr_shown: true,
        };
        Failure::of(&error, &asked)
    })?;
    let findings = report.finish();
    if args.json {
        findings.print_json()?;
    } else {
        findings.print(&spoken, Paint::for_stdout())?;
    }
    let counts = findings.counts();
    match (counts.errors, counts.warnings) {
        (0, 0) => Ok(()),
        (0, n) if args.strict => Err(Failure::new(Exit::Failed, format!("warnings were found: {n}"))),
        (0, _) => Ok(()),
        (n, _) => Err(Failure::new(Exit::Failed, format!("errors were found: {n}"))),
    }
}

/// Where the server is had that the command line names
fn server(args: &args::Check) -> Result<Server, Failure> {
    let Some(text) = args::url(&args.server) else {
        if args.bearer.is_some() {
            return Err(Failure::usage(args::NO_BEARER));
        }
        let program = session::program(&args.server, args.stderr, &args.env)?;
        return Ok(Server::Program(Box::new(program)));
    };
    let shown = Url::shown(text);
    let wrong =
        |why: &dyn core::fmt::Display| Failure::usage(format!("{shown} cannot be connected to: {why}"));
    let url = Url::parse(text).map_err(|why| wrong(&why))?;
    if url.origin().secure && cfg!(not(feature = "tls")) {
        let why = "this mcp-probe was built without the feature `tls`: have a proxy on this machine speak it";
        return Err(wrong(&why));
    }
    let token = args.bearer.as_deref().map(session::token).transpose()?;
    let valid = token.as_deref().map(Credential::bearer).transpose();
    valid.map_err(|why| Failure::usage(format!("--bearer: {why}")))?;
    let credential = token.map(|token| format!("Bearer {token}"));
    let site = Site::find(url, credential, args.connect_timeout);
    site.map(Server::Site).map_err(|error| {
        Failure::new(Exit::Connection, format!("no connection to {shown}: {error}"))
            .hint("is the server running, and is this its host and port?")
    })
}

/// Checks each of these revisions that the server speaks; which ones it does
fn look(
    setup: &Setup,
    report: &Report,
    legacy: Option<Version>,
    modern: Option<Version>,
) -> Result<Vec<Version>, Error> {
    let mut spoken = Vec::new();
    let mut misses = Vec::new();
    let mut refusal = None;
    // What is found in an era that the server does not speak counts only when it speaks neither.
    let unspoken = setup.report();
    let mut patience = setup.connect_timeout;
    let mut session = None;
    let mut broken = false;
    let (legacy_report, modern_report) = (setup.report(), setup.report());
    if let Some(version) = legacy {
        legacy_report.revision(Some(version));
        let begun = Instant::now();
        let mut talk = Talk::start(setup, &legacy_report, version)?;
        match handshake::initialize(&mut talk, version) {
            Greeting::Spoken => {
                // It is up now, and starts as fast the next time.
                patience = setup.timeout.max(begun.elapsed() * 2);
                session = Some(talk);
            }
            Greeting::Refused(failed) => {
                patience = setup.timeout.max(begun.elapsed() * 2);
                misses.push(format!("`initialize` got the error {}", failed.text()));
                refusal = Some(failed);
                talk.end();
            }
            Greeting::Missed(why) => {
                misses.push(format!("`initialize`: {why}"));
                talk.end();
            }
            Greeting::Broken(why) => {
                misses.push(format!("`initialize` {why}"));
                broken = true;
                talk.end();
            }
        }
    }
    let modern_talk = match modern {
        Some(version) => {
            modern_report.revision(Some(version));
            let mut talk = Talk::start(setup, &modern_report, version)?;
            match handshake::discover(&mut talk, patience) {
                Greeting::Spoken => Some(talk),
                Greeting::Refused(failed) => {
                    misses.push(format!("`server/discover` got the error {}", failed.text()));
                    talk.end();
                    None
                }
                Greeting::Missed(why) | Greeting::Broken(why) => {
                    misses.push(format!("`server/discover`: {why}"));
                    talk.end();
                    None
                }
            }
        }
        None => None,
    };
    let dual = session.is_some() && modern_talk.is_some();
    if let Some(talk) = session {
        spoken.push(talk.version());
        legacy_report.revision(Some(talk.version()));
        era(talk, legacy, Other::of(dual, modern.is_some()));
        report.absorb(legacy_report);
    } else if broken {
        report.absorb(legacy_report);
    } else {
        unspoken.absorb(legacy_report);
    }
    if let Some(mut talk) = modern_talk {
        spoken.push(talk.version());
        if let Some(failed) = refusal {
            versions::refusal(&mut talk, &failed);
        }
        era(talk, None, Other::of(dual, legacy.is_some()));
        report.absorb(modern_report);
    } else {
        unspoken.absorb(modern_report);
    }
    if spoken.is_empty() {
        report.add(rules::NOT_A_SERVER, "the server", misses.join("; "));
        report.absorb(unspoken);
    }
    Ok(spoken)
}

/// What is known of the era that is not the one being checked
#[derive(Clone, Copy, PartialEq, Eq)]
enum Other {
    Spoken,
    NotSpoken,
    /// Nobody asked
    Unknown,
}

impl Other {
    const fn of(dual: bool, asked: bool) -> Self {
        match (dual, asked) {
            (true, _) => Self::Spoken,
            (false, true) => Self::NotSpoken,
            (false, false) => Self::Unknown,
        }
    }
}

/// All that is checked in one era
fn era(mut talk: Talk<'_>, asked: Option<Version>, other: Other) {
    handshake::capabilities(&talk);
    let lists = lists::all(&mut talk);
    entries::check(&talk, &lists);
    subscriptions::check(&mut talk);
    requests::all(&mut talk, &lists);
    let (setup, report) = (talk.setup(), talk.report);
    let version = talk.version();
    if talk.is_modern() {
        versions::modern(&mut talk, other == Other::Spoken);
    }
    if setup.server.is_site() && talk.is_up() {
        transport::check(&mut talk, other == Other::NotSpoken);
    }
    match talk.close() {
        Some(ended) if ended.how != How::Exited => {
            let wait = seconds(setup.timeout.max(Duration::from_secs(2)));
            let what = format!("it was still there {wait} after its stdin was closed");
            report.add(rules::STAYS, "the server", what);
        }
        Some(ended) if ended.stragglers => {
            report.add(rules::LEFTOVERS, "the server", "processes were left when it had ended");
        }
        _ => {}
    }
    if let Some(asked) = asked {
        versions::legacy(setup, report, asked, version);
    }
}

/// The name of a method as a place
fn place(method: &str) -> String {
    format!("`{method}`")
}

/// Whether an error is this one
const fn is(failed: &Failed, code: i64) -> bool {
    failed.code == code
}
