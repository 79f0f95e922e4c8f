//! `check`: looks at a server as a reviewer would, and says what it does wrong
//!
//! Tools are never called, as that may have effects.

mod answer;
mod entries;
mod handshake;
mod lists;
mod modern;
mod peer;
mod report;
mod requests;
mod rules;
mod schemas;
mod stream;
mod subscriptions;
mod talk;
mod versions;

use core::time::Duration;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_proto::{Era, Version};
use mcp_std::child::How;

use crate::args;
use crate::failure::{Asked, Exit, Failure, seconds};
use crate::paint::Paint;
use crate::session;
use handshake::Greeting;
use report::Report;
use talk::{Failed, Setup, Talk};

pub(crate) fn run(args: &args::Check) -> Result<(), Failure> {
    if args.rules {
        return report::print_rules(args.json);
    }
    let versions = args.revisions.set().map_err(Failure::usage)?;
    if args::url(&args.server).is_some() {
        return Err(Failure::usage(
            "a server is checked on its stdin and stdout, so its command is needed, and not a URL",
        ));
    }
    let setup = Setup {
        program: session::program(&args.server, args.stderr, &args.env)?,
        timeout: args.timeout,
        connect_timeout: args.connect_timeout,
        trace: args.trace,
    };
    let report = Report::default();
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
    let unspoken = Report::default();
    let mut patience = setup.connect_timeout;
    let mut session = None;
    let mut broken = false;
    let (legacy_report, modern_report) = (Report::default(), Report::default());
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
        era(talk, legacy, dual);
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
        era(talk, None, dual);
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

/// All that is checked in one era
fn era(mut talk: Talk<'_>, asked: Option<Version>, dual: bool) {
    handshake::capabilities(&talk);
    let lists = lists::all(&mut talk);
    entries::check(&talk, &lists);
    subscriptions::check(&mut talk);
    requests::all(&mut talk, &lists);
    let (setup, report) = (talk.setup(), talk.report);
    let version = talk.version();
    if talk.is_modern() {
        versions::modern(&mut talk, dual);
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
