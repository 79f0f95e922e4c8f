//! The functions of a server that requires tokens.
//!
//! The server calls them through a trait object that [`Config::protected`](super::Config::protected) installs, so a program
//! without tokens links none of them.

use alloc::boxed::Box;
use core::fmt;

use super::Server;
use super::credentials::Credentials;
use super::exchange_table::ExchangeTable;
use super::principals::{ExchangeCounts, PrincipalCounts, PrincipalSessions, SessionsByPrincipal};
use super::protected::{Protected, Scheme};
use super::recent_token::RecentToken;
use super::refusal::Refusal;
use super::token::Denial;
use super::undecided::UndecidedTokens;
use crate::head::Fields;
use crate::slab::Key;
use crate::time::Instant;

/// Decides about the token of a request, or asks for the decision; `Err(None)` means that it was answered already.
///
/// The last argument is the token that the connection brought before.
pub(super) type CheckToken =
    fn(&mut Server, Key, &Credentials<'_>, Option<&mut RecentToken>) -> Result<(), Option<Refusal>>;

/// A protected resource, as its server uses it.
pub(super) trait Protection: fmt::Debug + Send + Sync {
    fn resource(&self) -> &Protected;

    /// Returns the check of the token of a request.
    fn check(&self) -> CheckToken;

    /// Returns whether the metadata document is at a path of a server whose endpoint is at `endpoint`.
    fn is_metadata_path(&self, path: &str, endpoint: &str) -> bool;

    /// Answers a request for the metadata document.
    fn serve_metadata(&self, exchanges: &mut ExchangeTable, key: Key, method: &str);

    /// Refuses a request because of its token.
    fn refuse(&self, exchanges: &mut ExchangeTable, key: Key, denial: &Denial);

    /// Adds the challenge to the response of a call that lacks scopes.
    fn challenge_call(&self, scheme: Scheme, scopes: &str, fields: &mut Fields);

    /// Creates the count of the exchanges of each principal.
    fn exchange_counts(&self) -> Box<dyn ExchangeCounts>;

    /// Creates the table of the sessions of each principal.
    fn sessions(&self) -> Box<dyn SessionsByPrincipal>;

    /// Returns when the next request stops waiting for the decision about its token.
    fn next_deadline(&self, undecided: &mut UndecidedTokens, exchanges: &ExchangeTable) -> Option<Instant>;

    /// Refuses the requests that have waited for it until now.
    fn handle_timeout(&self, undecided: &mut UndecidedTokens, exchanges: &mut ExchangeTable, now: Instant);
}

impl Protection for Protected {
    fn resource(&self) -> &Protected {
        self
    }

    fn check(&self) -> CheckToken {
        Server::check_token
    }

    fn is_metadata_path(&self, path: &str, endpoint: &str) -> bool {
        self.is_metadata_path(path, endpoint)
    }

    fn serve_metadata(&self, exchanges: &mut ExchangeTable, key: Key, method: &str) {
        exchanges.serve_metadata(key, method, self);
    }

    fn refuse(&self, exchanges: &mut ExchangeTable, key: Key, denial: &Denial) {
        exchanges.refuse_token(key, self, denial);
    }

    fn challenge_call(&self, scheme: Scheme, scopes: &str, fields: &mut Fields) {
        self.challenge_call(scheme, scopes, fields);
    }

    fn exchange_counts(&self) -> Box<dyn ExchangeCounts> {
        Box::<PrincipalCounts>::default()
    }

    fn sessions(&self) -> Box<dyn SessionsByPrincipal> {
        Box::<PrincipalSessions>::default()
    }

    fn next_deadline(&self, undecided: &mut UndecidedTokens, exchanges: &ExchangeTable) -> Option<Instant> {
        undecided.next_deadline(exchanges)
    }

    fn handle_timeout(&self, undecided: &mut UndecidedTokens, exchanges: &mut ExchangeTable, now: Instant) {
        undecided.handle_timeout(exchanges, now);
    }
}
