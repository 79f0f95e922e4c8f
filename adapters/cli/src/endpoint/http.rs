//! HTTP options of the commands that serve, independent of the adapter.

use core::net::SocketAddr;
use std::io;

use mcp_blocking::Error;
use mcp_proto::http::server::{Config, Protected};
#[cfg(feature = "tls")]
use mcp_std::tls::ServerTls;

use crate::args;
use crate::failure::{CommandFailure, Exit};
use crate::notes;

/// Raises the descriptor limit as far as the system allows, for as many connections.
pub(crate) fn raise_descriptor_limit(args: &args::ServeHttpArgs) {
    if args.address.is_some() {
        // Without it there are fewer connections.
        let _ = mcp_std::io::raise_descriptor_limit();
    }
}

/// Returns the HTTP configuration: paths, hosts, origins and limits.
#[expect(deprecated, reason = "supported until its removal")]
pub(crate) fn config(args: &args::ServeHttpArgs) -> Config {
    // Each connection may have an exchange, and some wait for clients that come back.
    let exchanges = args.max_connections.unwrap_or_default().saturating_mul(2).max(MIN_EXCHANGES);
    let mut http =
        Config::new().max_exchanges(exchanges).path(&args.path).cors(!args.allow_origin.is_empty());
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

/// Returns the TLS configuration, if a certificate is given.
///
/// # Errors
///
/// Fails if the files cannot be read or do not match.
#[cfg(feature = "tls")]
pub(crate) fn tls(args: &args::ServeHttpArgs) -> Result<Option<ServerTls>, CommandFailure> {
    let (Some(chain), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    let tls = ServerTls::from_files(chain, key);
    tls.map(Some).map_err(|error| CommandFailure::usage(format!("--tls-cert and --tls-key: {error}")))
}

/// Returns the scheme of the URL.
pub(crate) const fn url_scheme(args: &args::ServeHttpArgs) -> &'static str {
    #[cfg(feature = "tls")]
    if args.tls_cert.is_some() {
        return "https";
    }
    let _ = args;
    "http"
}

/// Creates the failure for an address that cannot be bound.
pub(crate) fn bind_failure(address: &str, error: &Error) -> CommandFailure {
    let (why, kind) = match error {
        Error::Io(error) => (error.to_string(), Some(error.kind())),
        other => (other.to_string(), None),
    };
    let prefix = "cannot listen at ";
    // An error about an invalid address already starts with these words.
    let why = if why.starts_with(prefix) { why } else { format!("{prefix}{address}: {why}") };
    // `8080` is no address.
    let is_wrong = !matches!(kind, Some(kind) if kind != io::ErrorKind::InvalidInput);
    let exit = if is_wrong { Exit::Usage } else { Exit::Connection };
    CommandFailure::new(exit, why).with_hint(match kind {
        Some(io::ErrorKind::AddrInUse) => {
            "another program listens there; with port 0 the system chooses a free port"
        }
        Some(io::ErrorKind::AddrNotAvailable) => {
            "this machine does not have that address: use 127.0.0.1, or 0.0.0.0 for all of its own"
        }
        Some(io::ErrorKind::PermissionDenied) => "ports below 1024 belong to the administrator",
        _ => {
            "an address is a host and a port up to 65535, for example 127.0.0.1:8080; with port 0 the system \
             chooses a free one"
        }
    })
}

/// Prints the URL that the server listens at, and for an address that other machines can reach, what guards it.
///
/// # Errors
///
/// Fails if the address is unknown.
pub(crate) fn report_address(
    args: &args::ServeHttpArgs,
    at: io::Result<SocketAddr>,
    protected: Option<&Protected>,
) -> Result<(), CommandFailure> {
    let at = at.map_err(|error| CommandFailure::failed(error.to_string()))?;
    let scheme = url_scheme(args);
    notes::print_stderr(&format!("listening at {scheme}://{at}{}", args.path));
    if args.sse {
        notes::print_stderr(&format!("listening at {scheme}://{at}{SSE} (2024-11-05)"));
    }
    if !at.ip().to_canonical().is_loopback() {
        notes::print_note(&describe_guards(args, at, scheme == "https", protected));
    }
    Ok(())
}

/// Describes what guards a server that other machines can reach, and what does not.
fn describe_guards(
    args: &args::ServeHttpArgs,
    at: SocketAddr,
    is_encrypted: bool,
    protected: Option<&Protected>,
) -> String {
    let token = match protected {
        Some(protected) => format!("Requests need a token for {}", protected.resource()),
        None => "No token is required: everyone who reaches the address can use the server".into(),
    };
    let added = |values: &[String]| values.iter().map(|value| format!(", {value}")).collect::<String>();
    let tls = if is_encrypted {
        "TLS encrypts the connections"
    } else {
        "there is no TLS, so others on the way can read and change messages"
    };
    format!(
        "other machines can reach {at}. Requests must name one of these hosts: localhost, 127.0.0.1, [::1]{} (this \
         stops web pages, not programs). Web pages must come from this machine{}. {token}. Also, {tls}",
        added(&args.allow_host),
        added(&args.allow_origin)
    )
}

const SSE: &str = "/sse";
const MESSAGES: &str = "/messages";

/// Limit of open exchanges, unless the connection limit needs more.
const MIN_EXCHANGES: usize = 20_000;
