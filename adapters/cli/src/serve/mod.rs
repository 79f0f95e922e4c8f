//! `serve`: the demonstration server

mod demo;
mod everything;
mod http;

use core::time::Duration;
use std::thread;

use mcp_blocking::{Answered, Call, Cx, Error, Failure as Failed, Handler, Router, Server};
use mcp_proto::http::HeadRecord;
use mcp_proto::http::server::{Denial, Token};
use mcp_proto::model::Implementation;
use mcp_proto::server::{Config, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Change, Diagnostic, Era, Limits, RawJson, RpcError, VersionSet};
use mcp_std::Stdio;

use crate::args;
use crate::demo::Step;
use crate::failure::Failure;
use crate::paint::Paint;
use crate::session::{self, Few};
use crate::trace;
use everything::Clock;

/// Serves until the input ends
pub(crate) fn run(args: &args::Serve) -> Result<(), Failure> {
    let mut versions = args.revisions.set().map_err(Failure::usage)?;
    if args.broken == Some(Step::Negotiate) {
        versions = other_era(versions);
    }
    let mut limits = Limits::default();
    limits.max_frame = args.max_frame;
    if args.trace {
        limits.tap_records = 100_000;
        limits.tap_bytes = 64 << 20;
    }
    let (router, clock) = router(args);
    let config = router.config().map_err(|error| Failure::failed(error.to_string()))?;
    let mut config = config.versions(versions).limits(limits);
    for member in &args.hide {
        config = config.hide_in_tap(member);
    }
    let hides = !args.hide.is_empty();
    let watched = Watched { router, hides, paint: Paint::for_stderr(), oddities: Few(20) };
    if let Some(address) = &args.http.address {
        return http::run(&args.http, address, args.trace, config, watched, clock.as_ref());
    }
    let served = match clock {
        Some(clock) => serve_with(&clock, config, watched),
        None => mcp_blocking::serve_stdio(config, watched),
    };
    served.map_err(|error| Failure::serving(&error))?;
    if args.broken == Some(Step::End) {
        // Longer than any client waits.
        thread::sleep(Duration::from_secs(60));
    }
    Ok(())
}

/// Serves to the end, and tells what changes by itself
fn serve_with(clock: &Clock, config: Config, watched: Watched) -> Result<(), Error> {
    let mut server = Server::new(config, Stdio::guarded()?, watched);
    while server.poll(clock.left().unwrap_or(IDLE))? {
        if clock.ticks() {
            let now = server.now();
            server.engine().publish(now, &Change::Resource(Clock::URI.into()));
        }
    }
    Ok(())
}

fn router(args: &args::Serve) -> (Router, Option<Clock>) {
    let version = env!("CARGO_PKG_VERSION");
    let mut router = Router::new("mcp-probe", version);
    let info = Implementation::new("mcp-probe", version).title("mcp-probe demonstration server");
    let clock = if args.everything {
        Some(everything::register(&mut router, info, args.broken))
    } else {
        router.core().info(info).instructions(INSTRUCTIONS);
        None
    };
    demo::register(&mut router, args.broken);
    router.report(|call, failure| session::note(&format!("{} failed: {failure}", call.method())));
    (router, clock)
}

/// What a client that is pinned to one of these revisions cannot talk to
fn other_era(versions: VersionSet) -> VersionSet {
    let legacy = versions.era(Era::Modern).is_empty();
    VersionSet::ALL.era(if legacy { Era::Modern } else { Era::Legacy })
}

/// A router, and what is seen of it on stderr
struct Watched {
    router: Router,
    /// Members of messages are hidden
    hides: bool,
    paint: Paint,
    oddities: Few,
}

impl Handler for Watched {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        self.router.call(cx, call)
    }

    fn failed(&mut self, call: &Call, failure: &Failed) {
        self.router.failed(call, failure);
    }

    fn notification(&mut self, notification: &Notification) {
        self.router.notification(notification);
    }

    fn event(&mut self, event: &Event) {
        self.router.event(event);
    }

    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        // Two that are nobody's fault: answer and cancellation have crossed.
        if !matches!(diagnostic, Diagnostic::UnknownCancel(_) | Diagnostic::LateResponse(_)) {
            self.oddities.note(&format!("the client did something odd: {diagnostic}"));
        }
    }

    fn tap(&mut self, record: &TapRecord) {
        session::say(&trace::line(record, self.paint));
    }

    fn head(&mut self, record: &HeadRecord) {
        session::say(&trace::head(record, self.hides, self.paint));
    }

    fn token(&mut self, token: &Token) -> Result<String, Denial> {
        self.router.token(token)
    }

    fn tools(&mut self, tell: &mut dyn FnMut(&str, &RawJson)) {
        self.router.tools(tell);
    }
}

/// Until something happens
const IDLE: Duration = Duration::from_secs(3_600);

const INSTRUCTIONS: &str = "Four small tools to try a client on: echo and add answer at once, count takes its time and \
                            reports progress, fail always fails.";
