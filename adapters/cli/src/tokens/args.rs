//! Options of `login`.

use core::time::Duration;

use clap::Args;

use crate::args::authorization::TokenArgs;
use crate::args::{RevisionArgs, ServerArgs, duration, remote_usage};

/// Logs in to a server that asks for authorization.
///
/// Connects to learn what the server asks for, lets the user log in, and stores the tokens. Other commands on this URL
/// then use them, and renew them. With --show it shows what is stored, and with --forget it forgets it.
#[derive(Debug, Args)]
#[command(after_help = LOGIN_HELP, after_long_help = LOGIN_HELP)]
#[command(override_usage = remote_usage!("mcp-probe login [OPTIONS]"))]
pub(crate) struct LogInArgs {
    /// Shows the stored authorization for the server instead.
    ///
    /// No token is shown, and nothing is sent. The exit code is 6 if there is none.
    #[arg(long, conflicts_with = "forget")]
    pub(crate) show: bool,
    /// Forgets the tokens for the server instead, and revokes them.
    ///
    /// They are revoked where the authorization server offers it. The exit code is 0 if there are none.
    #[arg(long)]
    pub(crate) forget: bool,
    /// Prints one JSON object instead.
    ///
    /// Its members: resource, issuer, client_id, registration (pre-registered, metadata-document, dynamic), scopes,
    /// needed_scopes (that the next login asks for), expires_at (Unix time in seconds, or null), refreshable, dpop. It is null
    /// if the server asks for no authorization. With --forget: server, forgotten (false if there were no tokens), revoked.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) revisions: RevisionArgs,
    /// Limits the time to wait for each answer of the server.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) connect_timeout: Duration,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) tokens: TokenArgs,
}

const LOGIN_HELP: &str = "\
The browser is opened at the page of the authorization server, which redirects
it to a port of this machine. Without a browser here, use --no-browser or
--device. The client registers itself unless --client-id or --client-metadata
name it.

Examples:
  mcp-probe login https://mcp.example.com/mcp
  mcp-probe login --browser 'firefox --private-window' --scope files:read \\
      https://mcp.example.com/mcp
  mcp-probe login --no-browser https://mcp.example.com/mcp
  mcp-probe login --show https://mcp.example.com/mcp
  mcp-probe login --forget https://mcp.example.com/mcp
  mcp-probe login --device --client-id my-client https://mcp.example.com/mcp
  mcp-probe login --grant client-credentials --client-id ci \\
      --client-secret env:SECRET https://mcp.example.com/mcp
  mcp-probe login --grant assertion --client-id job --assertion @/run/token \\
      https://mcp.example.com/mcp";
