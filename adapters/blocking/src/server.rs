//! Servers on byte streams, whose handlers run on the loop's thread.

use core::time::Duration;

use mcp_proto::server::{Config, Engine};
use mcp_proto::{ChannelId, Instant};
use mcp_runtime::Error;
use mcp_runtime::server as serve;
use mcp_runtime::server::{Handle, Handler};
use mcp_std::io::{Duplex, Stdio};

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

/// A server on one byte stream, with a [`Handle`] for other threads and control over the loop.
///
/// The thread in [`run`](Self::run) or [`poll`](Self::poll) reads, runs handlers one at a time, and writes.
///
/// ```
/// use core::time::Duration;
/// use mcp_blocking::mcp_proto::{Capabilities, Capability, model::CallToolResult, server::Config};
/// use mcp_blocking::{Call, Cx, Server};
///
/// let (server_end, _client_end) = mcp_blocking::memory_pair(4096);
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// let answer = |cx: &mut Cx<'_>, call: &Call| cx.complete(&CallToolResult::text(call.tool_call()?.name));
/// let mut server = Server::new(config, server_end, answer);
/// let handle = server.handle()?;
/// // From any thread, also while the server waits for its client:
/// let other = std::thread::spawn(move || handle.shutdown(Duration::from_secs(5)));
/// server.run()?;
/// # other.join().unwrap();
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
#[derive(Debug)]
pub struct Server<D, H>(serve::Server<D, H>);

impl<H: Handler> Server<Stdio, H> {
    /// Creates a server on stdin and stdout of this process: see [`serve_stdio`].
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if stdin or stdout is not available.
    pub fn stdio(config: Config, handler: H) -> Result<Self, Error> {
        serve::Server::stdio(config, handler).map(Self)
    }
}

impl<D: Duplex, H: Handler> Server<D, H> {
    /// Creates a server that has not started to read.
    pub fn new(config: Config, stream: D, handler: H) -> Self {
        Self(serve::Server::new(config, stream, handler))
    }

    /// Returns a handle for commands from other threads.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the stream has no [waker](Duplex::waker).
    pub fn handle(&mut self) -> Result<Handle, Error> {
        self.0.handle()
    }

    /// Serves until the stream ends.
    ///
    /// # Errors
    ///
    /// As [`serve()`].
    pub fn run(self) -> Result<(), Error> {
        self.0.run()
    }

    /// Waits for work, at most for `timeout`, and does it. Returns `false` when the server has ended.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run). The server has ended then, too.
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        self.0.poll(timeout)
    }

    /// Stops accepting requests. The server ends when all calls are answered and written, or after `grace`.
    ///
    /// Call [`poll`](Self::poll) afterwards until it returns `false`. From other threads use [`Handle::shutdown`].
    pub fn shutdown(&mut self, grace: Duration) {
        self.0.shutdown(grace);
    }

    /// Returns the engine, for example to send a notification. Output is sent with the next [`poll`](Self::poll).
    pub const fn engine(&mut self) -> &mut Engine {
        self.0.engine()
    }

    /// Returns the channel of the stream, for commands of the engine.
    pub const fn channel(&self) -> ChannelId {
        self.0.channel()
    }

    /// Returns the current time, for commands of the engine.
    pub fn now(&mut self) -> Instant {
        self.0.now()
    }

    /// Returns the handler.
    pub const fn handler(&mut self) -> &mut H {
        self.0.handler()
    }
}
