//! The token that the requests of `check` carry.

use mcp_auth::client::Cancellation;
use mcp_oauth::Trigger;

use super::args::CheckArgs;
use crate::authorization;
use crate::challenges;
use crate::failure::{self, CommandFailure, Exit};
use crate::server::Server;

/// Adds a token to the requests of `check`, which makes them itself: the stored one, or one that the user gets now.
///
/// # Errors
///
/// Fails if an option is wrong, if the authorization fails, or if the token is bound to a key.
pub(super) fn add_token(args: &CheckArgs, server: &mut Server) -> Result<(), CommandFailure> {
    let Some(authorizer) = authorization::for_command(&args.authorization, &args.revisions, server)? else {
        return Ok(());
    };
    let Server::Remote(remote) = &*server else { return Ok(()) };
    let url = authorization::endpoint(remote)?;
    let run = |trigger| {
        let outcome = authorizer.run(&url, trigger, &Cancellation::new());
        outcome.map_err(|error| CommandFailure::from_authorization(&error, &url))
    };
    let mut token = run(Trigger::Connect)?;
    if token.is_none() && (args.authorization.authorize || authorization::is_terminal()) {
        // A server that cannot be connected to is what the checks report.
        if let Ok(Some(challenges)) =
            challenges::learn_challenges(server, &args.revisions, args.connect_timeout)
        {
            token = run(Trigger::Unauthorized { challenges, rejected: None })?;
        }
    }
    let (Some(token), Server::Remote(remote)) = (token, server) else { return Ok(()) };
    if token.dpop.is_some() {
        let why = "check cannot use a token that is bound to a key (DPoP)";
        let hint = format!("`mcp-probe login --dpop never {}` gets another one", failure::url_text(&url));
        return Err(CommandFailure::new(Exit::Unauthorized, why).with_hint(hint));
    }
    remote.set_bearer(token.token.expose());
    Ok(())
}
