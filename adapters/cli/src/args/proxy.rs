//! Options of the commands that stand between clients and servers: `bridge` and `gateway`.

use core::time::Duration;
use std::path::PathBuf;

use clap::Args;

use super::authorization::TokenStoreArgs;
use super::values::{duration, duration_or_zero};
use super::{
    AuthorizationArgs, ConnectionArgs, EraChoice, ProtectionArgs, RevisionArgs, Runtime, ServeHttpArgs,
    ServerArgs, StderrChoice,
};

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
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Shows every message of both sides on stderr: → sent, ← received.
    #[arg(long)]
    pub(crate) trace: bool,
    /// Hides the values of members with this name in the trace.
    ///
    /// Applies at any depth. May be repeated.
    #[arg(long, value_name = "MEMBER", requires = "trace")]
    pub(crate) hide: Vec<String>,
    /// Selects where the server's stderr goes.
    #[arg(long, value_name = "WHERE", value_enum, default_value_t)]
    pub(crate) stderr: StderrChoice,
}

impl ProxyArgs {
    /// Returns the time after which a server without use is ended; `None` if it never is.
    pub(crate) fn server_idle_timeout(&self) -> Option<Duration> {
        Some(self.idle_timeout).filter(|timeout| !timeout.is_zero())
    }
}

#[derive(Debug, Args)]
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
    /// Selects the adapter that the client side runs on.
    #[arg(long, value_name = "RUNTIME", value_enum, default_value_t)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) authorization: AuthorizationArgs,
}

#[derive(Debug, Args)]
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
