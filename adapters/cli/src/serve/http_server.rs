//! The HTTP server of the demonstration, as the options say, for the adapter that includes this file.

use mcp_proto::http::server::Protected;
use mcp_proto::server::Config;

use super::super::{Router, adapter};
use crate::endpoint::{http, protection};
use crate::failure::CommandFailure;
use crate::serve::ServeArgs;
use crate::serve::card;
#[cfg(feature = "sessions")]
use crate::serve::session_store;

/// Binds the server at `address`. Returns it, and how it is protected.
pub(super) fn bind(
    args: &ServeArgs,
    address: &str,
    config: Config,
    router: Router,
) -> Result<(adapter::HttpServer<Router>, Option<Protected>), CommandFailure> {
    let http = http::config(&args.http);
    let (http, address) = protection::apply(&args.protection, &args.http, http, address, "mcp-probe serve")?;
    let http = card::apply(args, http, &address)?;
    let protected = http.protected_resource().cloned();
    let bound = adapter::HttpServer::bind(&*address, config, http, router);
    let mut server = bound.map_err(|error| http::bind_failure(&address, &error))?;
    #[cfg(feature = "tls")]
    if let Some(tls) = http::tls(&args.http)? {
        server = server.tls(tls);
    }
    #[cfg(feature = "auth")]
    if let Some(protected) = &protected {
        server = server.validate_tokens(protection::validator(protected));
    }
    #[cfg(feature = "sessions")]
    if let Some(sessions) = session_store::join(&args.sessions)? {
        let shared = server.share_sessions(&sessions);
        server = shared.map_err(|error| CommandFailure::from_serve_error(&error))?;
    }
    if args.trace {
        server = server.tap_heads();
    }
    if let Some(connections) = args.http.max_connections {
        server = server.max_connections(connections);
    }
    Ok((server, protected))
}
