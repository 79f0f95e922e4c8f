//! Options of `login`, `logout` and `whoami`.

use core::time::Duration;

use clap::Args;

use super::authorization::{OAuthClientArgs, TokenArgs, TokenStoreArgs};
use super::server::{ServerArgs, ServerPlaceArgs};
use super::target::RevisionArgs;
use super::values::duration;

#[derive(Debug, Args)]
pub(crate) struct LogInArgs {
    /// Prints one JSON object instead.
    ///
    /// Its members are those of `whoami --json`. It is null if the server asks for no authorization.
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

#[derive(Debug, Args)]
pub(crate) struct LogOutArgs {
    #[command(flatten)]
    pub(crate) place: ServerPlaceArgs,
    #[command(flatten)]
    pub(crate) client: OAuthClientArgs,
    #[command(flatten)]
    pub(crate) store: TokenStoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WhoamiArgs {
    /// Prints one JSON object instead.
    ///
    /// Its members: resource, issuer, client_id, registration (pre-registered, metadata-document, dynamic), scopes,
    /// needed_scopes (that the next login asks for), expires_at (Unix time in seconds, or null), refreshable, dpop.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: ServerPlaceArgs,
    #[command(flatten)]
    pub(crate) store: TokenStoreArgs,
}
