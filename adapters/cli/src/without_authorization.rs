//! Stands in for `authorization` in a program without the feature `auth`, which gets and stores no tokens.

use crate::args::authorization::TokenStoreArgs;
use crate::args::{AuthorizationArgs, RevisionArgs};
use crate::authorizer::Authorizer;
use crate::failure::CommandFailure;
use crate::server::Server;

/// Returns `None`: the options are not given, which [`check`](crate::features::check) has seen to.
#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
pub(crate) const fn for_command(
    _: &AuthorizationArgs,
    _: &RevisionArgs,
    _: &mut Server,
) -> Result<Option<Authorizer>, CommandFailure> {
    Ok(None)
}

/// Returns `None`, as [`for_command`] does.
#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
pub(crate) const fn for_stored_tokens(
    _: &TokenStoreArgs,
    _: &[String],
    _: &mut Server,
) -> Result<Option<Authorizer>, CommandFailure> {
    Ok(None)
}

#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
pub(crate) const fn check_stdin(_: &AuthorizationArgs, _: &str) -> Result<(), CommandFailure> {
    Ok(())
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
pub(crate) const fn resolve(_: &mut AuthorizationArgs, _: &std::path::Path) -> Result<(), CommandFailure> {
    Ok(())
}
