//! Failures of authorization: their exit codes, and what to run then.

use mcp_blocking::Error;
use mcp_oauth::{ErrorKind, Step};
use mcp_proto::http::client::Url;

use super::{CommandFailure, Exit};

impl CommandFailure {
    /// Creates a failure from an authorization that failed for the server at `url`.
    pub(crate) fn from_authorization(error: &mcp_oauth::Error, url: &Url) -> Self {
        Self::from_authorization_at(error, &url_text(url))
    }

    /// Does the same. `url` holds no secret.
    fn from_authorization_at(error: &mcp_oauth::Error, url: &str) -> Self {
        let scopes = match error.kind() {
            ErrorKind::LoginRequired { scopes } | ErrorKind::InsufficientScope { scopes } => scopes.iter(),
            _ => return Self::unauthorized(error, url),
        };
        Self::unauthorized(error, url).with_scopes(scopes)
    }

    fn unauthorized(error: &mcp_oauth::Error, url: &str) -> Self {
        Self::new(exit(error), format!("not authorized: {error}")).with_hint(hint(error, url))
    }

    /// Creates a failure from an error of a client, if an authorization failed. `url` holds no secret.
    pub(crate) fn from_refused_authorization(error: &Error, url: &str) -> Option<Self> {
        let mut failure = Self::from_authorization_at(error.authorization()?, url);
        // The refusal of the server comes first: it may ask for something else than a token.
        if let Some(error) = error.http() {
            failure.message = error.to_string();
        }
        Some(failure)
    }

    /// Creates a failure from a revocation that failed, after which the tokens were forgotten all the same.
    pub(crate) fn from_revocation(error: &mcp_oauth::Error) -> Self {
        let hint =
            "they stay valid until they expire, unless the authorization server offers a page to revoke them";
        Self::new(exit(error), format!("the tokens are forgotten here, but not revoked: {error}"))
            .with_hint(hint)
    }
}

fn exit(error: &mcp_oauth::Error) -> Exit {
    match error {
        error if error.is_unreachable() => Exit::Connection,
        error if error.is_timeout() => Exit::Timeout,
        _ => Exit::Unauthorized,
    }
}

/// Returns what to run after a failure.
fn hint(error: &mcp_oauth::Error, url: &str) -> String {
    let login = format!("`mcp-probe login {url}`");
    match (error.step(), error.kind()) {
        (_, ErrorKind::LoginRequired { .. }) => {
            format!("{login} logs in; --authorize does so within this command")
        }
        (_, ErrorKind::Locked(_)) => "is another mcp-probe about to renew a token? Try again".to_owned(),
        (Step::Store, _) => {
            format!("move the file away and run {login}; --token-store names another file")
        }
        _ if error.is_unreachable() => "is the authorization server running? Try again later".to_owned(),
        (_, ErrorKind::NoRedirect { forgets_client: true, .. }) => format!(
            "if the page said that the client is unknown: {login} registers it anew; --login-wait gives the user more time"
        ),
        (_, ErrorKind::TimedOut | ErrorKind::NoRedirect { .. }) => {
            format!("{login} tries again; --login-wait gives the user more time")
        }
        _ if error.is_timeout() => format!("{login} tries again"),
        (_, ErrorKind::InsufficientScope { .. }) => {
            format!("`mcp-probe login --scope SCOPE {url}` asks for other scopes")
        }
        // It will not be accepted the next time either.
        (_, ErrorKind::TokenRefused { is_bound: true }) => format!(
            "the log of the server may tell why; a server that takes no tokens bound to a key needs \
             `mcp-probe login --dpop never {url}`"
        ),
        (_, ErrorKind::TokenRefused { .. }) => "the log of the server may tell why".to_owned(),
        (Step::ServerMetadata, _) if error.rule() == "AUTH-041" => {
            "if the authorization server has PKCE and does not list it: --allow-unlisted-pkce goes on"
                .to_owned()
        }
        (Step::Challenge | Step::ResourceMetadata | Step::ServerMetadata, _) => format!(
            "`mcp-probe check {url}` tells what is wrong at the server; --bearer sends a token from elsewhere; --header \
             NAME:VALUE sends a key in another field"
        ),
        (Step::Registration, _) => {
            format!("`mcp-probe login --client-id ID {url}` logs in as a client that is registered there")
        }
        _ => format!("{login} tries again"),
    }
}

/// Returns a URL without its query, which may hold a key (SEC-019).
pub(crate) fn url_text(url: &Url) -> String {
    Url::redacted(&format!("{}{}", url.origin(), url.target()))
}
