//! `serve --http`: what does not depend on the runtime

use core::net::SocketAddr;
use std::io;

use mcp_blocking::Error;
use mcp_proto::http::server::Config;
#[cfg(feature = "tls")]
use mcp_std::tls::ServerTls;

use crate::args;
use crate::failure::{Exit, Failure};
use crate::session;

/// Paths, and whom to let in
pub(crate) fn config(args: &args::ServeHttp) -> Config {
    let mut http = Config::new().path(&args.path).cors(!args.allow_origin.is_empty());
    for host in &args.allow_host {
        http = http.allow_host(host);
    }
    for origin in &args.allow_origin {
        http = http.allow_origin(origin);
    }
    if args.sse {
        http = http.http_sse(SSE, MESSAGES);
    }
    http
}

/// The certificate and the key, if TLS is to be spoken
#[cfg(feature = "tls")]
pub(crate) fn tls(args: &args::ServeHttp) -> Result<Option<ServerTls>, Failure> {
    let (Some(chain), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    let tls = ServerTls::from_files(chain, key);
    tls.map(Some).map_err(|error| Failure::usage(format!("--tls-cert and --tls-key: {error}")))
}

/// How an address is spoken to
const fn scheme(args: &args::ServeHttp) -> &'static str {
    #[cfg(feature = "tls")]
    if args.tls_cert.is_some() {
        return "https";
    }
    let _ = args;
    "http"
}

/// The address cannot be had
pub(crate) fn refused(address: &str, error: &Error) -> Failure {
    let (why, taken) = match error {
        Error::Io(error) => (error.to_string(), error.kind() == io::ErrorKind::AddrInUse),
        other => (other.to_string(), false),
    };
    let said = "cannot listen at ";
    // Unless the address was none, it says that itself.
    let why = if why.starts_with(said) { why } else { format!("{said}{address}: {why}") };
    Failure::new(Exit::Connection, why).hint(if taken {
        "another program listens there; port 0 is any that is free"
    } else {
        "an address has a port, such as 127.0.0.1:8080; port 0 is any that is free"
    })
}

/// Says where it listens.
pub(crate) fn listening(args: &args::ServeHttp, at: io::Result<SocketAddr>) -> Result<(), Failure> {
    let at = at.map_err(|error| Failure::failed(error.to_string()))?;
    let scheme = scheme(args);
    session::say(&format!("listening at {scheme}://{at}{}", args.path));
    if args.sse {
        session::say(&format!("listening at {scheme}://{at}{SSE} (2024-11-05)"));
    }
    Ok(())
}

const SSE: &str = "/sse";
const MESSAGES: &str = "/messages";
