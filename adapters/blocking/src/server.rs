//! Servers on byte streams and over HTTP, whose handlers run on the loop's thread.

#[cfg(feature = "http")]
use std::net::ToSocketAddrs;

#[cfg(feature = "http")]
use mcp_proto::http::server as http;
use mcp_proto::server::Config;
use mcp_runtime::Error;
#[cfg(feature = "http")]
use mcp_runtime::server::HttpServer;
use mcp_runtime::server::{Handler, Server};
use mcp_std::io::Duplex;

/// Serves on stdin and stdout of this process until the input ends or the client disconnects.
///
/// Calls received before the end of input are still answered, so `printf … | server` works. After the end of input,
/// all running and waiting calls together have [`Limits::eof_grace_period`](mcp_proto::Limits) (default 5 s); then
/// they are cancelled. The server notices the end of input once no more than
/// [`Limits::max_waiting_requests`](mcp_proto::Limits) calls wait for the handler.
///
/// The server stops earlier in two cases:
///
/// - Its output is no longer read.
/// - The input has ended, and the server is blocked for the whole grace period: no call finishes although too many
///   calls wait for the server to notice the end, or the client does not read pending output.
///
/// While the server runs, stdout belongs to the stream. Other output of the process to stdout goes to stderr (on Unix;
/// see [`Stdio::guarded`](mcp_std::io::Stdio::guarded)).
///
/// # Errors
///
/// - [`Error::Io`] if stdin or stdout is not available, or if the stream breaks for another reason than the client
///   disconnecting.
/// - [`Error::Closed`] if the client sent too many faulty messages
///   ([`Limits::max_faulty_messages`](mcp_proto::Limits)) or answered too few
///   keep-alive pings.
pub fn serve_stdio(config: Config, handler: impl Handler) -> Result<(), Error> {
    Server::stdio(config, handler)?.run()
}

/// Serves one client on any byte stream until the client closes its sending side or disconnects.
///
/// ```
/// use mcp_blocking::mcp_proto::{self, Capabilities, Capability, model::CallToolResult, server::Config};
/// use mcp_blocking::{Call, Cx, serve};
///
/// let (client_end, server_end) = mcp_blocking::memory_pair(4096);
/// let server = std::thread::spawn(move || {
///     let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
///     serve(config, server_end, |cx: &mut Cx<'_>, call: &Call| {
///         cx.complete(&CallToolResult::text(call.tool_call()?.name))
///     })
/// });
/// let client = mcp_blocking::Client::connect(mcp_proto::client::Config::new("me", "1.0"), client_end)?;
/// let result = client.call_tool("any", &serde_json::json!({}))?;
/// assert_eq!(result.content[0].as_text(), Some("any"));
/// client.close()?;
/// server.join().unwrap()?;
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
///
/// # Errors
///
/// As [`serve_stdio`].
pub fn serve<D: Duplex>(config: Config, stream: D, handler: impl Handler) -> Result<(), Error> {
    Server::new(config, stream, handler).run()
}

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
#[cfg(feature = "http")]
pub fn serve_http(
    address: impl ToSocketAddrs,
    config: Config,
    http: http::Config,
    handler: impl Handler,
) -> Result<(), Error> {
    HttpServer::bind(address, config, http, handler)?.run()
}
