//! HTTP servers whose handlers run on the loop's thread.

use std::net::ToSocketAddrs;

use mcp_proto::http::server as http;
use mcp_proto::server::Config;
use mcp_runtime::Error;
use mcp_runtime::server::{Handler, HttpServer};

/// Serves HTTP at `address` until an error occurs; see [`HttpServer`].
///
/// ```no_run
/// use mcp_blocking::mcp_proto::{Capabilities, Capability, http, model::CallToolResult, server::Config};
/// use mcp_blocking::{Call, Cx, serve_http};
///
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// serve_http("127.0.0.1:8080", config, http::server::Config::new(), |cx: &mut Cx<'_>, call: &Call| {
///     cx.complete(&CallToolResult::text(call.tool_call()?.name))
/// })?;
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
///
/// # Errors
///
/// As [`HttpServer::bind`] and [`HttpServer::poll`].
pub fn serve_http(
    address: impl ToSocketAddrs,
    config: Config,
    http: http::Config,
    handler: impl Handler,
) -> Result<(), Error> {
    HttpServer::bind(address, config, http, handler)?.run()
}
