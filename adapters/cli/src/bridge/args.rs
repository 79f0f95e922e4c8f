//! Options of `bridge`.

use clap::Args;

use crate::args::{AuthorizationArgs, ProxyArgs, ServerArgs, usage};

/// Bridges stdio, sockets, serial lines and HTTP, and the eras.
///
/// For MCP clients that cannot talk to a server directly. The bridge stands in for the server that it names, on
/// stdin and stdout, on a socket with --listen, or over HTTP with --http. Requests of the server, progress, cancellation, subscriptions and
/// log messages pass through, whatever revision each side speaks.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe bridge [OPTIONS]"))]
pub(crate) struct BridgeArgs {
    /// Starts one server for all clients of --listen.
    ///
    /// Without it each client has a server of its own; with --http all share one. Its questions go to the client whose call asks,
    /// or are refused if that is not known. The server is told of no roots and no sampling, which not all clients need have.
    #[cfg(unix)]
    #[arg(long, requires = "listen")]
    pub(crate) share: bool,
    #[command(flatten)]
    pub(crate) proxy: ProxyArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) authorization: AuthorizationArgs,
}

const HELP: &str = "\
On stdin and stdout the bridge serves one client. It connects to the server with
the identity and the capabilities that the client's first message declares. Over
HTTP it serves any number of clients. They share one connection to the server,
with one identity and its rights: the server sees mcp-probe as a client with all
capabilities.

On a socket (--listen) each client has its own connection to the server, or its
own process of it, as on stdin and stdout. With --share all have one, which sees
mcp-probe as a client without roots and sampling: not every client need have
them. A serial line has room for one client; another one is disconnected.

Log messages, and input requests of a legacy server, may not name the call that
they belong to. They go to the only client that they can belong to. If several
clients have running calls, they are not passed on, and the server gets an error
for such a request.

Everyone who can reach the address can use the server. Only programs and web
pages of this machine are let in, unless --allow-host and --allow-origin add
others.

Custom requests and notifications pass too. Those of clients always pass. Those
of a legacy server go to the only legacy client; a modern client receives
nothing outside of its calls. Progress on input requests does not pass.

Tasks pass if the server has them. The bridge has tasks of its own for clients,
in the form of their revision, and follows those of the server; they end with
it. Clients without tasks wait for the result.

With --search, clients see two tools: search finds tools of the server, call
calls one (see `mcp-probe help gateway`). A tool of the server that has one of
these two names is called by call alone.

The bridge ends when its client does, on Ctrl-C or on SIGTERM. After a signal,
running calls have one second to finish and the server half a second to end.
When the server is gone, its running calls get an error, and it is started
again, after a minute at most. Calls wait for it if that is 5 seconds away at
most. If it cannot be started at first, the exit code is 3, and a client on
stdin and stdout gets the cause as the answer to its first request. A server at
a URL that is unreachable for a while fails only the calls of that time. After
the end of its input, calls and the first connection have 5 seconds more; then
its first request is answered with an error.

A server that requires authorization gets the tokens that `mcp-probe login` has
stored. They are renewed while the bridge runs.

In a client's configuration, for a server over HTTP:
  {\"command\": \"mcp-probe\", \"args\": [\"bridge\", \"http://127.0.0.1:8080/mcp\"]}

Examples:
  mcp-probe inspect -- mcp-probe bridge http://127.0.0.1:8080/mcp
  mcp-probe bridge --bearer env:TOKEN http://127.0.0.1:8080/mcp
  mcp-probe bridge --http 127.0.0.1:8080 -- \\
      npx -y @modelcontextprotocol/server-everything
  mcp-probe bridge --client-era legacy -- my-modern-server
  mcp-probe bridge --search -- my-server-with-many-tools
  mcp-probe bridge --serial /dev/ttyUSB0   (stdio for a board on a serial line)
  mcp-probe bridge --listen tcp://127.0.0.1:7000 -- my-server
  mcp-probe bridge --http 127.0.0.1:8080 tcp://192.168.4.1:7000";
