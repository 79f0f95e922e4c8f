//! Serving byte streams, with handlers that run on the loop's thread

use mcp_proto::server::Config;
use mcp_std::serve::{Handler, Server};
use mcp_std::{Duplex, Error, Stdio};

/// Serves on this process' stdin and stdout until the input ends or the client is gone
///
/// Calls that came before the end of input are still answered, so `printf … | server` works: those that are in work or
/// wait when the end is read have [`Limits::eof_grace`](mcp_proto::Limits) (5 s) in all; what is not answered by then is
/// cancelled. The end is read when no more than [`Limits::max_waiting`](mcp_proto::Limits) calls wait for the handler.
/// It is over earlier when nobody reads the output any more, and when the input has ended and nothing moves for that
/// long: so many calls wait that the end cannot be read, and none is finished, or the output is not taken.
///
/// While it runs, stdout
/// belongs to the stream: what else is printed there goes to stderr (on Unix; see
/// [`Stdio::guarded`](mcp_std::Stdio::guarded)).
///
/// # Errors
///
/// [`Error::Io`] when the handles cannot be had, or the stream breaks otherwise than by the client leaving;
/// [`Error::Closed`] when the client sent too much garbage ([`Limits::max_faulty`](mcp_proto::Limits)).
pub fn serve_stdio(config: Config, handler: impl Handler) -> Result<(), Error> {
    let mut server = Server::new(config, Stdio::guarded()?, handler);
    server.relax();
    server.run()
}

/// Serves one client on any byte stream until it ends its side or is gone
///
/// ```
/// use mcp_blocking::{Call, Cx, serve};
/// use mcp_proto::{Capabilities, Capability, model::CallToolResult, server::Config};
///
/// let (near, far) = mcp_blocking::memory_pair(4096);
/// let server = std::thread::spawn(move || {
///     let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
///     serve(config, near, |cx: &mut Cx<'_>, call: &Call| cx.complete(&CallToolResult::text(call.tool()?.name)))
/// });
/// let mut client = mcp_blocking::Client::connect(mcp_proto::client::Config::new("me", "1.0"), far)?;
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
