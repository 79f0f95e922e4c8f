//! `serve`: the demonstration server

mod demo;
mod everything;

use core::time::Duration;
use std::thread;

use mcp_blocking::{Answered, Call, Cx, Failure as Failed, Handler, Router};
use mcp_proto::model::Implementation;
use mcp_proto::tap::TapRecord;
use mcp_proto::{Diagnostic, Era, Limits, RpcError, VersionSet};

use crate::args;
use crate::demo::Step;
use crate::failure::Failure;
use crate::paint::Paint;
use crate::session::{self, Few};
use crate::trace;

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
    let router = router(args);
    let config = router.config().map_err(|error| Failure::failed(error.to_string()))?;
    let mut config = config.versions(versions).limits(limits);
    for member in &args.hide {
        config = config.hide_in_tap(member);
    }
    let watched = Watched { router, paint: Paint::for_stderr(), oddities: Few(20) };
    mcp_blocking::serve_stdio(config, watched).map_err(|error| Failure::serving(&error))?;
    if args.broken == Some(Step::End) {
        // Longer than any client waits.
        thread::sleep(Duration::from_secs(60));
    }
    Ok(())
}

fn router(args: &args::Serve) -> Router {
    let version = env!("CARGO_PKG_VERSION");
    let mut router = Router::new("mcp-probe", version);
    let info = Implementation::new("mcp-probe", version).title("mcp-probe demonstration server");
    if args.everything {
        everything::register(&mut router, info);
    } else {
        router.core().info(info).instructions(INSTRUCTIONS);
    }
    demo::register(&mut router, args.broken);
    router.report(|call, failure| session::note(&format!("{} failed: {failure}", call.method())));
    router
}

/// What a client that is pinned to one of these revisions cannot talk to
fn other_era(versions: VersionSet) -> VersionSet {
    let legacy = versions.era(Era::Modern).is_empty();
    VersionSet::ALL.era(if legacy { Era::Modern } else { Era::Legacy })
}

/// A router, and what is seen of it on stderr
struct Watched {
    router: Router,
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

    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        // Two that are nobody's fault: answer and cancellation have crossed.
        if !matches!(diagnostic, Diagnostic::UnknownCancel(_) | Diagnostic::LateResponse(_)) {
            self.oddities.note(&format!("the client did something odd: {diagnostic}"));
        }
    }

    fn tap(&mut self, record: &TapRecord) {
        session::say(&trace::line(record, self.paint));
    }
}

const INSTRUCTIONS: &str = "Four small tools to try a client on: echo and add answer at once, count takes its time and \
                            reports progress, fail always fails.";
