//! Servers on byte streams and over HTTP.

#[cfg(feature = "http")]
use std::net::ToSocketAddrs;

use futures_lite::{AsyncRead, AsyncWrite};
#[cfg(feature = "http")]
use mcp_proto::http::server as http;
use mcp_proto::server::Config;
use mcp_runtime::Error;
use mcp_runtime::runtime;

use crate::{Handler, Smol};

/// A server on one byte stream, with a [`Handle`](crate::Handle) for commands while it runs.
///
/// Its methods are those of [`generic::Server`](crate::generic::Server).
pub type Server<S, H> = runtime::server::Server<Smol, S, H>;

/// Serves on stdin and stdout of this process until the input ends or the client disconnects.
///
/// Calls received before the end of input are still answered, so `printf … | server` works. After the end of input,
/// all running and waiting calls together have [`Limits::eof_grace_period`](mcp_proto::Limits) (5 s); then they are
/// cancelled.
///
/// The server stops earlier in two cases:
///
/// - Its output is no longer read.
/// - The input has ended, and the server is blocked for the whole grace period: no call finishes although too many
///   calls wait for the server to notice the end, or the client does not read pending output.
///
/// The reactor watches pipes, sockets and terminals; files are read and written at once, or on threads outside of Linux. While the
/// server runs, stdout belongs to the stream. Other output of the process to stdout goes to stderr ([`Stdio::guarded`](mcp_std::io::Stdio::guarded)).
///
/// # Errors
///
/// - [`Error::Io`] if stdin or stdout is not available, or if the stream breaks for another reason than the client
///   disconnecting.
/// - [`Error::Closed`] if the client sent too many faulty messages
///   ([`Limits::max_faulty_messages`](mcp_proto::Limits)) or answered too few
///   keep-alive pings.
pub async fn serve_stdio(config: Config, handler: impl Handler) -> Result<(), Error> {
    Server::stdio(config, handler)?.run().await
}

/// Serves one client on any byte stream until the client closes its sending side or disconnects.
///
/// One future reads, writes, observes deadlines and polls the futures of handlers that were woken. It runs on any
/// executor, and is `Send` if the handler's futures are. Dropping it drops the stream and the running handlers.
///
/// ```
/// use std::os::unix::net::UnixStream;
///
/// use async_io::Async;
/// use mcp_smol::mcp_proto::{Capabilities, Capability, model::CallToolResult, server::Config};
/// use mcp_smol::{Call, Cx, serve};
///
/// let (server_end, client_end) = Async::<UnixStream>::pair()?;
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// let server = serve(config, server_end, async |cx: &mut Cx, call: &Call| {
///     cx.complete(&CallToolResult::text(call.tool_call()?.name))
/// });
/// # drop(client_end);
/// mcp_smol::block_on(server)?;
/// # Ok::<(), mcp_smol::Error>(())
/// ```
///
/// # Errors
///
/// - [`Error::Io`] if the stream breaks for another reason than the client disconnecting.
/// - [`Error::Closed`] if the client sent too many faulty messages
///   ([`Limits::max_faulty_messages`](mcp_proto::Limits)) or answered too few
///   keep-alive pings.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    config: Config,
    stream: S,
    handler: impl Handler,
) -> Result<(), Error> {
    Server::new(config, stream, handler).run().await
}

/// An HTTP server in one future, or in several shards. Its methods are those of
/// [`generic::HttpServer`](crate::generic::HttpServer).
///
/// With shards, a handler that can be shared by threads serves in all of them:
///
/// ```no_run
/// use mcp_smol::mcp_proto::{http, model::CallToolResult, server::Config};
/// use mcp_smol::{Call, Cx, HttpServer};
///
/// let handler = async |cx: &mut Cx, _: &Call| cx.complete(&CallToolResult::text("hello"));
/// let (config, http) = (Config::new("demo", "1.0"), http::server::Config::new());
/// let server = HttpServer::bind("127.0.0.1:8080", config, http, handler)?.shards(2);
/// mcp_smol::block_on(server.run())?;
/// # Ok::<(), mcp_smol::Error>(())
/// ```
///
/// Of a handler that cannot be shared, for example a [`Router`](crate::Router), each thread builds its own:
///
/// ```no_run
/// use mcp_smol::mcp_proto::{RawJson, http, model::Tool};
/// use mcp_smol::{Cx, HttpServer, Router};
///
/// fn router() -> Router {
///     let mut router = Router::new("demo", "1.0");
///     let tool = Tool::new("hello", RawJson::new(r#"{"type":"object"}"#).expect("JSON"));
///     router.tool_with(tool, async |_: &mut Cx, _: serde_json::Value| "hello");
///     router
/// }
///
/// let first = router();
/// let config = first.config()?;
/// let server = HttpServer::bind("127.0.0.1:8080", config, http::server::Config::new(), first)?;
/// mcp_smol::block_on(server.shards_with(2, router).run())?;
/// # Ok::<(), mcp_smol::Error>(())
/// ```
///
/// With TLS (feature `tls`):
///
#[cfg_attr(feature = "tls", doc = "```no_run")]
#[cfg_attr(not(feature = "tls"), doc = "```ignore")]
/// use mcp_smol::mcp_proto::{http, model::CallToolResult, server::Config};
/// use mcp_smol::{Call, Cx, HttpServer, tls::ServerTls};
///
/// let tls = ServerTls::from_files("chain.pem", "key.pem")?;
/// let http = http::server::Config::new().allow_host("tools.example.com");
/// let handler = async |cx: &mut Cx, _: &Call| cx.complete(&CallToolResult::text("hello"));
/// let server = HttpServer::bind("[::]:8443", Config::new("demo", "1.0"), http, handler)?.tls(tls);
/// mcp_smol::block_on(server.run())?;
/// # Ok::<(), mcp_smol::Error>(())
/// ```
///
/// Protected by access tokens:
///
/// ```no_run
/// use mcp_smol::mcp_proto::http::server::{Config as Http, Denial, Protected, TokenRequest};
/// use mcp_smol::mcp_proto::server::{Config, Identity};
/// use mcp_smol::mcp_proto::model::CallToolResult;
/// use mcp_smol::{Call, Cx, HttpServer};
///
/// let handler = async |cx: &mut Cx, _: &Call| {
///     cx.require_scopes(&["greet"])?;
///     let name = cx.principal().unwrap_or_default();
///     cx.complete(&CallToolResult::text(format!("hello, {name}")))
/// };
/// let protected = Protected::new("https://tools.example.com/mcp", "https://login.example.com")?;
/// let http = Http::new().allow_host("tools.example.com").protected(protected);
/// let validator = |request: &TokenRequest| {
///     if request.token.matches("a-long-random-text") {
///         Ok(Identity::new("alice").scopes("greet"))
///     } else {
///         Err(Denial::invalid_token())
///     }
/// };
/// let server = HttpServer::bind("127.0.0.1:8080", Config::new("demo", "1.0"), http, handler)?;
/// mcp_smol::block_on(server.validate_tokens(validator).run())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "http")]
pub type HttpServer<H> = runtime::http::HttpServer<Smol, H>;

/// Serves HTTP at `address` until an error occurs; see [`HttpServer`].
///
/// ```no_run
/// use mcp_smol::mcp_proto::{Capabilities, Capability, http, model::CallToolResult, server::Config};
/// use mcp_smol::{Call, Cx, serve_http};
///
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// let handler = async |cx: &mut Cx, call: &Call| {
///     cx.complete(&CallToolResult::text(call.tool_call()?.name))
/// };
/// mcp_smol::block_on(serve_http("127.0.0.1:8080", config, http::server::Config::new(), handler))?;
/// # Ok::<(), mcp_smol::Error>(())
/// ```
///
/// # Errors
///
/// As [`HttpServer::bind`] and [`HttpServer::run`].
#[cfg(feature = "http")]
pub async fn serve_http(
    address: impl ToSocketAddrs,
    config: Config,
    http: http::Config,
    handler: impl Handler,
) -> Result<(), Error> {
    HttpServer::bind(address, config, http, handler)?.run().await
}
