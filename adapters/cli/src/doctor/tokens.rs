//! The tokens of `doctor`: those that are stored, or that the options give without a user.

use mcp_auth::client::Cancellation;
use mcp_check::diagnosis::{Fault, FaultKind, Tokens};
use mcp_oauth::{AccessToken, TokenRecord, Trigger};
use mcp_proto::http::client::Url;

use super::DoctorArgs;
use super::report::fault_of;
use crate::authorization::{self, ProbeStore};
use crate::authorizer::Authorizer;
use crate::escape::shell_word;
use crate::failure::CommandFailure;
use crate::failure::url_text;
use crate::server::Server;

/// Tokens for a server, from an authorizer that is made once the server asks for one.
pub(super) struct ProbeTokens<'a> {
    args: &'a DoctorArgs,
    server: Server,
    authorizer: Option<Authorizer>,
}

impl<'a> ProbeTokens<'a> {
    pub(super) const fn new(args: &'a DoctorArgs, server: Server) -> Self {
        Self { args, server, authorizer: None }
    }
}

impl Tokens for ProbeTokens<'_> {
    fn token(&mut self, url: &Url, trigger: Trigger) -> Result<Option<AccessToken>, Fault> {
        if self.authorizer.is_none() {
            let DoctorArgs { authorization, revisions, .. } = self.args;
            let made = authorization::for_command(authorization, revisions, &mut self.server);
            self.authorizer = made.map_err(|failure| fault(&failure, url))?;
        }
        let Some(authorizer) = &self.authorizer else {
            return Err(Fault::new(
                "no token is sent to this server",
                "it would travel in the clear to another machine, since the URL is http",
                "use https; --allow-http HOST allows it for a host",
            )
            .with_kind(FaultKind::Unauthorized));
        };
        let token = authorizer.run(url, trigger, &Cancellation::new());
        token.map_err(|error| fault(&CommandFailure::from_authorization(&error, url), url))
    }

    fn stored(&mut self, url: &Url) -> Result<Option<TokenRecord>, Fault> {
        let store = ProbeStore::open(self.args.authorization.tokens.store.token_store.as_deref());
        authorization::stored(&store, url).map_err(|failure| fault(&failure, url))
    }
}

fn fault(failure: &CommandFailure, url: &Url) -> Fault {
    let why = "a token is stored, or could be got without a user, and that failed";
    fault_of(failure, why, &format!("`mcp-probe login {}` tries again", shell_word(&url_text(url))))
}
