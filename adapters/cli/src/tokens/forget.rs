//! `login --forget`: revokes and forgets the tokens for a server.

use mcp_auth::client::{Cancellation, TokenStore as _};
use mcp_oauth::TokenRecord;
use serde::Serialize;

use super::args::LogInArgs;
use crate::authorization::{self, ProbeStore};
use crate::failure::{CommandFailure, Exit};
use crate::output::{print, print_value};
use crate::server::RemoteServer;

/// Output of `--json`.
#[derive(Serialize)]
struct LogOutReport<'a> {
    server: &'a str,
    /// Whether there were tokens, which are forgotten now.
    forgotten: bool,
    /// Whether the authorization server was told, if it has a way to be.
    revoked: bool,
}

pub(super) fn forget(args: &LogInArgs) -> Result<(), CommandFailure> {
    let remote = RemoteServer::from_place(&args.server.place)?;
    let url = authorization::endpoint(&remote)?;
    let shown = remote.display_name();
    let store = ProbeStore::open(args.tokens.store.token_store.as_deref());
    let record = authorization::stored(&store, &url)?;
    // A wrong option is reported whether or not there is something to revoke.
    let authorizer = authorization::for_logout(&args.tokens.client, &store, record.as_ref())?;
    let report = |forgotten, revoked, text: &str| match args.json {
        true => print_value(&LogOutReport { server: &shown, forgotten, revoked }),
        false => print(text),
    };
    if record.is_none() {
        return report(false, false, &format!("nobody is logged in at {shown}\n"));
    }
    let outcome = authorizer.log_out(&url, &Cancellation::new());
    if authorization::stored(&store, &url)?.is_some() {
        // The flow leaves tokens of another client, or for a server that it may not use, where they are.
        store.remove(&TokenRecord::key(&url)).map_err(|error| {
            CommandFailure::new(Exit::Unauthorized, format!("the tokens are not forgotten: {error}"))
        })?;
        if outcome.is_ok() {
            let text = format!("logged out of {shown}; the tokens are forgotten here, but not revoked\n");
            return report(true, false, &text);
        }
    }
    match outcome {
        Ok(_) => report(true, true, &format!("logged out of {shown}\n")),
        Err(error) => Err(CommandFailure::from_revocation(&error)),
    }
}
