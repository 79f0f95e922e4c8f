//! The option `--protect`: the server requires access tokens.

use alloc::borrow::Cow;
use std::net::{TcpListener, ToSocketAddrs as _};

#[cfg(feature = "auth")]
use mcp_auth::token::JwtValidator;
use mcp_proto::http::server::{Config, Protected, ProtectedError};

use super::http;
use crate::args;
use crate::failure::CommandFailure;

/// Adds the protection to the configuration, if there is one. Also returns the address to listen at.
///
/// Tokens are issued for a URL, so a port that the system chooses has to be known before the server listens.
///
/// # Errors
///
/// Fails if an option is not valid, or if the address cannot be bound.
pub(crate) fn apply<'a>(
    args::ProtectionArgs { issuer, audience, require_scope }: &args::ProtectionArgs,
    args: &args::ServeHttpArgs,
    config: Config,
    address: &'a str,
    name: &str,
) -> Result<(Config, Cow<'a, str>), CommandFailure> {
    let Some(issuer) = issuer else { return Ok((config, address.into())) };
    let (audience, address) = match audience {
        Some(audience) => (audience.clone(), Cow::Borrowed(address)),
        None => {
            check_is_reachable(address)?;
            let address = with_port(address)?;
            (format!("{}://{address}{}", http::url_scheme(args), args.path), address)
        }
    };
    let protected = describe(&audience, issuer, require_scope, name).map_err(|error| {
        CommandFailure::usage(format!("--protect, --audience and --require-scope: {error}"))
    })?;
    Ok((config.protected(protected), address))
}

fn describe(
    audience: &str,
    issuer: &str,
    scopes: &[String],
    name: &str,
) -> Result<Protected, ProtectedError> {
    let protected = Protected::new(audience, issuer)?.resource_name(name);
    scopes.iter().try_fold(protected, |protected, scope| protected.scope(scope))
}

/// Returns the validator of the tokens, which prints on stderr why it has no keys.
#[cfg(feature = "auth")]
pub(crate) fn validator(protected: &Protected) -> JwtValidator {
    JwtValidator::new(protected, mcp_auth::client::HttpFetcher::new()).on_failure(|failure| {
        crate::notes::print_note(&format!("there are no new keys to validate tokens by: {failure}"));
    })
}

/// Checks that the address to listen at is one by which clients reach the server: it becomes a part of the URL that
/// tokens are issued for.
fn check_is_reachable(address: &str) -> Result<(), CommandFailure> {
    let mut all = address.to_socket_addrs().into_iter().flatten();
    if all.any(|one| one.ip().to_canonical().is_unspecified()) {
        let why =
            format!("--protect: clients reach no server at {address}, so no token can be issued for it");
        let hint = "--audience URL says by which URL they reach this one";
        return Err(CommandFailure::usage(why).with_hint(hint));
    }
    Ok(())
}

/// Returns the address with a port that is free now, if it leaves the choice to the system.
fn with_port(address: &str) -> Result<Cow<'_, str>, CommandFailure> {
    let leaves_choice = address.to_socket_addrs().is_ok_and(|mut all| all.any(|one| one.port() == 0));
    let (Some((host, _)), true) = (address.rsplit_once(':'), leaves_choice) else {
        return Ok(address.into());
    };
    let bound = TcpListener::bind(address).and_then(|listener| listener.local_addr());
    let bound = bound.map_err(|error| http::bind_failure(address, &error.into()))?;
    Ok(format!("{host}:{}", bound.port()).into())
}
