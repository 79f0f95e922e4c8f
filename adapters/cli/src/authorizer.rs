//! What answers the challenges of a server.

#[cfg(feature = "auth")]
pub(crate) use mcp_auth::client::Authorizer;
use mcp_runtime::client::{Connector, Options};

/// What answers the challenges of a server: nothing does, in a program that gets no tokens.
#[cfg(not(feature = "auth"))]
pub(crate) enum Authorizer {}

/// Lets an authorizer answer the challenges of the server.
#[cfg(feature = "auth")]
pub(crate) fn add_to<C: Connector>(options: Options<C>, authorizer: &Authorizer) -> Options<C> {
    options.authorize(authorizer.clone())
}

#[cfg(not(feature = "auth"))]
pub(crate) fn add_to<C: Connector>(_: Options<C>, authorizer: &Authorizer) -> Options<C> {
    match *authorizer {}
}
