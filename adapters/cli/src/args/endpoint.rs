//! Options of the commands that clients connect to: where they listen, whom they let in, and what stands behind a proxy.

use core::time::Duration;
use std::path::PathBuf;

use clap::Args;
use mcp_std::io::StreamAddress;

use super::values::{self, duration, duration_or_zero};
use super::{ConnectionArgs, EraChoice, RevisionArgs, StderrChoice};

/// HTTP options of the commands that serve.
#[derive(Debug, Args)]
pub(crate) struct ServeHttpArgs {
    /// Serves HTTP at this address instead of stdin and stdout.
    ///
    /// For example 127.0.0.1:8080; with port 0 the system chooses a port. The URL is printed on stderr. Everyone who
    /// can reach the address can use the server; if other machines can, a note on stderr says what guards it.
    #[arg(long = "http", value_name = "ADDR", group = "listener")]
    pub(crate) address: Option<String>,
    /// Serves a socket instead of stdin and stdout, with one message per line.
    ///
    /// ADDRESS is tcp://HOST:PORT or unix:PATH; with port 0 the system chooses a port. Each connection has a session of its
    /// own. There is no encryption, no authorization and no check of who connects: everyone who can reach the address can
    /// use the server. Only this user can open a Unix socket.
    #[arg(long, value_name = "ADDRESS", group = "listener")]
    pub(crate) listen: Option<StreamAddress>,
    /// Serves HTTPS with the certificates in this PEM file.
    ///
    /// The certificate of the server comes first.
    #[arg(long, value_name = "FILE", requires_all = ["address", "tls_key"])]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Reads the private key of the certificate from this PEM file.
    ///
    /// The key must not be encrypted. It may be in the same file as the certificates.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Sets the path of the endpoint.
    #[arg(long, value_name = "PATH", default_value = "/mcp", requires = "address", value_parser = values::path)]
    pub(crate) path: String,
    /// Serves HTTP+SSE of 2024-11-05 as well, at /sse and /messages.
    #[arg(long, requires = "address", hide_short_help = true)]
    pub(crate) sse: bool,
    /// Accepts requests for this host, besides the names of this machine.
    ///
    /// For example example.com or example.com:8080. May be repeated.
    #[arg(long, value_name = "HOST", requires = "address")]
    pub(crate) allow_host: Vec<String>,
    /// Allows web pages of this origin to send requests and read responses.
    ///
    /// The origin starts with its scheme. May be repeated.
    #[arg(long, value_name = "ORIGIN", requires = "address")]
    pub(crate) allow_origin: Vec<String>,
    /// Limits the open connections, including event streams.
    ///
    /// By default the descriptor limit, which is raised as far as possible, less 128, and at most 10,000. A
    /// client beyond it gets 503 unless an idle or slow connection can be closed. With --listen the default is 64, and a
    /// connection beyond it is closed at once unless another one is silent, or was idle for 10 minutes.
    #[arg(long, value_name = "N", requires = "listener", value_parser = connection_count, hide_short_help = true)]
    pub(crate) max_connections: Option<usize>,
}

/// Options of a server that requires access tokens.
#[derive(Args, Debug)]
pub(crate) struct ProtectionArgs {
    /// Requires an access token of this authorization server.
    ///
    /// ISSUER is its issuer identifier, an https URL (http on this machine). Tokens are JWTs; the keys come from the
    /// metadata of the authorization server. The server describes itself at
    /// /.well-known/oauth-protected-resource/PATH, and its challenges name that document.
    #[arg(long = "protect", value_name = "ISSUER", requires = "address")]
    pub(crate) issuer: Option<String>,
    /// Sets the URL for which tokens have to be issued.
    ///
    /// This is the URL of the server as clients know it. By default it is that at which the server listens; at an address
    /// such as 0.0.0.0 it has to be given.
    #[arg(long, value_name = "URL", requires = "issuer")]
    pub(crate) audience: Option<String>,
    /// Requires this scope of every token.
    ///
    /// May be repeated.
    #[arg(long, value_name = "SCOPE", requires = "issuer")]
    pub(crate) require_scope: Vec<String>,
}

/// Options of both sides of a proxy.
#[derive(Debug, Args)]
pub(crate) struct ProxyArgs {
    #[command(flatten)]
    pub(crate) http: ServeHttpArgs,
    /// Selects the eras that clients may speak.
    #[arg(long, value_name = "ERA", value_enum, default_value_t)]
    pub(crate) client_era: EraChoice,
    #[command(flatten)]
    pub(crate) revisions: RevisionArgs,
    /// Limits the time to wait for one answer of the server: 2s or 5m.
    ///
    /// Progress restarts the time. Clients have their own timeouts.
    #[arg(long, value_name = "TIME", default_value = "60m", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Ends a server that no client has used for this time. The next call starts it again.
    ///
    /// In use is a server with a running call, or with a resource that a client follows. What it keeps in its memory is lost
    /// with it; 0 never ends it. Sessions over HTTP without requests, calls and streams end after the same time, or 30m with 0. A
    /// server that dies is started again too while clients are there, after a delay of up to a minute if it dies at once.
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = duration_or_zero)]
    pub(crate) idle_timeout: Duration,
    /// Shows two tools in place of all: search finds tools by what they do, call calls one.
    ///
    /// A client of many tools then reads only the descriptions that it looks for. All tools can be called by their own names,
    /// too. A note tells how many tokens the list would have and has. Prompts and resources stay as they are.
    #[arg(long)]
    pub(crate) search: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Shows every message of both sides on stderr: → sent, ← received.
    #[arg(long)]
    pub(crate) trace: bool,
    /// Hides the values of members with this name in the trace.
    ///
    /// Applies at any depth. May be repeated.
    #[arg(long, value_name = "MEMBER", requires = "trace", hide_short_help = true)]
    pub(crate) hide: Vec<String>,
    /// Selects where the server's stderr goes.
    #[arg(long, value_name = "WHERE", value_enum, default_value_t)]
    pub(crate) stderr: StderrChoice,
}

/// Parses the value of `--max-connections`.
///
/// # Errors
///
/// Fails for anything but a number from 1 to 1,000,000.
fn connection_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=1_000_000).contains(count));
    count.ok_or_else(|| "a number from 1 to 1000000 is expected".into())
}
