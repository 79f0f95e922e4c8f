//! Options of `gateway`.

use std::path::PathBuf;

use clap::Args;

use crate::args::authorization::TokenStoreArgs;
use crate::args::{ProtectionArgs, ProxyArgs};

/// Shows several servers to clients as one.
///
/// The servers of a configuration file stand behind the gateway, programs and URLs of any era. Their tools and prompts are
/// named SERVER_TOOL, and lists are merged. Clients are served on stdin and stdout, on a socket with --listen, or over HTTP
/// with --http. A server that fails is left out and started again.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = "mcp-probe gateway [OPTIONS] --config <FILE>")]
pub(crate) struct GatewayArgs {
    /// Names the configuration file with the servers.
    ///
    /// It has the form of the files of MCP clients, such as .mcp.json of Claude Code or .vscode/mcp.json. ${env:NAME} and
    /// ${NAME} in it are environment variables. It is read again when it changes.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    #[command(flatten)]
    pub(crate) proxy: ProxyArgs,
    #[command(flatten)]
    pub(crate) protection: ProtectionArgs,
    #[command(flatten)]
    pub(crate) store: TokenStoreArgs,
    /// Allows http to this host, where others can read tokens (may be repeated).
    ///
    /// A name without a port. Without this option a server at an http URL on another machine gets no token.
    #[arg(long, value_name = "HOST", help_heading = "Authorization")]
    pub(crate) allow_http: Vec<String>,
}

const HELP: &str = "\
The file has the form that clients use, with members for the gateway beside
those of the server:
  {\"mcpServers\": {
    \"files\": {\"command\": \"npx\", \"args\": [\"-y\", \"my-files\"],
              \"hide\": [\"delete_*\"], \"limits\": {\"calls\": 16}},
    \"search\": {\"url\": \"https://search.example.com/mcp\"}
  }}
The tool read of files is files_read for clients. In a name of a server, all but
letters and digits becomes -. Resources keep their URIs.

  limits      calls: calls in flight, beyond which they are refused (64, without
              lists); timeout: time to wait for one answer, in place of
              --timeout
  allow       tools and prompts by their names, resources by their URIs: nothing
              else is shown and used; * stands for any characters
  hide        the same for what is not shown, and not used; URIs in other
              spellings too, but a server may know more: allow is the safe rule
  principals  names of principals, each with allow and hide in place of those
              above; with --protect they are the subjects of tokens
  disabled    true: the server is not used

Where rules are about URIs, those with . or .. as a segment are refused.
Templates of resources are compared as they are written: to hide one does not
hide the URIs that it makes. A server of which nothing is shown is not named.

With --search, clients see two tools. search takes a query, and a limit (5, at
most 20): it returns names, descriptions and input schemas of the tools that fit
best, an exact name first. call takes the name of a tool, and arguments. Rules
hide tools from both. Changes of servers are heeded at once, after pauses of up
to a minute while they do not end, and the list of two stays the same, so
clients are not told. Clients need not repeat arguments of
tools in header fields.

The file is looked at each second, and read again on SIGHUP. Servers that are
new in it are started, those that are gone are ended, and those that changed are
replaced, each after the end of the last one; the others go on. A file that is
wrong changes nothing. Notes on stderr tell of servers that are ready, fail, are
started again or refuse the gateway, with the command that helps. Lists wait for
servers that start, 10 s at most; they name those that are missing in _meta,
without details, and clients are told of the change later. Clients get the
instructions of the servers under their names, at most 8 KiB; on stdin and
stdout, the first answer waits for that, 5 s at most.

A name of more than 64 characters is shortened, with a digest at its end. Of
resources with one URI the one of the first server is shown. Notes tell of both.
With several clients servers are told of no roots and no sampling.

Tools that run as tasks do so for clients with tasks, in the form of their
revision: the tasks are those of the gateway, and end with it.

Over HTTP, GET /health tells monitors, without a token: status is ok, degraded
(a server has failed) or down (all have); servers, unless tokens are required,
is a list of name and state. A server is ready while it is connected, failed
from its death, or from a start in vain, until it has been started again, which
may take until a client needs it, and idle otherwise. Servers that rules hide
are left out. The HTTP status is always 200.

A server that requires authorization gets the tokens that `mcp-probe login` has
stored. Tokens of clients are never passed on.

Examples:
  mcp-probe inspect -- mcp-probe gateway --config mcp.json
  mcp-probe gateway --config mcp.json --http 127.0.0.1:8080
  mcp-probe gateway --config mcp.json --search
  mcp-probe gateway --config mcp.json --listen unix:/run/tools.sock
  mcp-probe gateway --config mcp.json --http 0.0.0.0:8443 \\
      --allow-host tools.example.com --tls-cert chain.pem --tls-key key.pem \\
      --protect https://login.example.com \\
      --audience https://tools.example.com:8443/mcp";
