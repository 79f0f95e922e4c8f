//! The demonstration server on mcp-blocking

use core::time::Duration;

use mcp_blocking::{Answered, Call, Cx, Error, Failure as Failed, Handler, HttpServer, Router, Server};
use mcp_proto::http::HeadRecord;
use mcp_proto::http::server::{Denial, Token};
use mcp_proto::server::{Config, Event, Notification};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Change, Diagnostic, RawJson, RpcError};
use mcp_std::Stdio;

use super::clock::Clock;
use super::{Watch, http};
use crate::args;
use crate::failure::Failure;
use crate::session;

macro_rules! handler {
    (|$cx:tt, $($rest:tt)*) => {
        move |$cx: &mut mcp_blocking::Cx<'_>, $($rest)*
    };
}

macro_rules! wait {
    ($waiting:expr) => {
        $waiting
    };
}

#[path = "tools.rs"]
mod tools;

pub(super) fn run(args: &args::Serve) -> Result<(), Failure> {
    let (router, clock) = tools::router(args);
    let config = super::config(args, router.config())?;
    let watched = Watched { router, watch: Watch::new(args) };
    match &args.http.address {
        Some(address) => serve_http(args, address, config, watched, clock.as_ref()),
        None => {
            session::hint_at_terminal("serve");
            serve_stdio(config, watched, clock.as_ref()).map_err(|error| Failure::serving(&error))
        }
    }
}

/// Serves to the end, and tells what changes by itself
fn serve_stdio(config: Config, watched: Watched, clock: Option<&Clock>) -> Result<(), Error> {
    let Some(clock) = clock else { return mcp_blocking::serve_stdio(config, watched) };
    let mut server = Server::new(config, Stdio::guarded()?, watched);
    while server.poll(clock.left().unwrap_or(IDLE))? {
        if clock.ticks() {
            let now = server.now();
            server.engine().publish(now, &Change::Resource(Clock::URI.into()));
        }
    }
    Ok(())
}

/// Serves until somebody ends the process
fn serve_http(
    args: &args::Serve,
    address: &str,
    config: Config,
    watched: Watched,
    clock: Option<&Clock>,
) -> Result<(), Failure> {
    let bound = HttpServer::bind(address, config, http::config(&args.http), watched);
    let mut server = bound.map_err(|error| http::refused(address, &error))?;
    if args.trace {
        server = server.tap_heads();
    }
    http::listening(&args.http, server.address())?;
    while server
        .poll(clock.and_then(Clock::left).unwrap_or(IDLE))
        .map_err(|error| Failure::serving(&error))?
    {
        if clock.is_some_and(Clock::ticks) {
            server.publish(&Change::Resource(Clock::URI.into()));
        }
    }
    Ok(())
}

/// Until something happens
const IDLE: Duration = Duration::from_secs(3_600);

/// A router, and what is seen of it on stderr
struct Watched {
    router: Router,
    watch: Watch,
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
        self.watch.diagnostic(diagnostic);
    }

    fn tap(&mut self, record: &TapRecord) {
        self.watch.tap(record);
    }

    fn head(&mut self, record: &HeadRecord) {
        self.watch.head(record);
    }

    fn token(&mut self, token: &Token) -> Result<String, Denial> {
        self.router.token(token)
    }

    fn tools(&mut self, tell: &mut dyn FnMut(&str, &RawJson)) {
        self.router.tools(tell);
    }
}
