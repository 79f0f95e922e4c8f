//! `serve --http`: the demonstration server over HTTP

use mcp_blocking::{Error, HttpServer};
use mcp_proto::Change;
use mcp_proto::http;
use mcp_proto::server::Config;

use super::{Clock, IDLE, Watched};
use crate::args;
use crate::failure::{Exit, Failure};
use crate::session;

/// Serves until somebody ends the process
pub(super) fn run(
    args: &args::ServeHttp,
    address: &str,
    trace: bool,
    config: Config,
    watched: Watched,
    clock: Option<&Clock>,
) -> Result<(), Failure> {
    let mut http = http::server::Config::new().path(&args.path).cors(!args.allow_origin.is_empty());
    for host in &args.allow_host {
        http = http.allow_host(host);
    }
    for origin in &args.allow_origin {
        http = http.allow_origin(origin);
    }
    if args.sse {
        http = http.http_sse(SSE, MESSAGES);
    }
    let bound = HttpServer::bind(address, config, http, watched);
    let mut server = bound.map_err(|error| {
        let error = match error {
            Error::Io(error) => error.to_string(),
            other => other.to_string(),
        };
        Failure::new(Exit::Connection, format!("cannot listen at {address}: {error}"))
            .hint("an address has a port, such as 127.0.0.1:8080; port 0 is any that is free")
    })?;
    if trace {
        server = server.tap_heads();
    }
    let at = server.address().map_err(|error| Failure::failed(error.to_string()))?;
    session::say(&format!("listening at http://{at}{}", args.path));
    if args.sse {
        session::say(&format!("listening at http://{at}{SSE} (2024-11-05)"));
    }
    loop {
        let idle = clock.and_then(Clock::left).unwrap_or(IDLE);
        if !server.poll(idle).map_err(|error| Failure::serving(&error))? {
            return Ok(());
        }
        if clock.is_some_and(Clock::ticks) {
            server.publish(&Change::Resource(Clock::URI.into()));
        }
    }
}

const SSE: &str = "/sse";
const MESSAGES: &str = "/messages";
