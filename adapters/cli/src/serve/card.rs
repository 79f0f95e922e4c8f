//! The card that the demonstration server offers over HTTP.

use mcp_extensions::cards::{CardRemote, ServerCard};
use mcp_proto::http::server::Config;

use crate::endpoint::http;
use crate::failure::CommandFailure;
use crate::serve::ServeArgs;

/// Adds the card to the configuration.
///
/// The card names the URL of the server only if it is known before the server listens and is of use to clients. A server
/// whose port the system chooses, and one that others reach in the clear, have a card without an endpoint.
///
/// # Errors
///
/// Fails if the revisions on the command line are wrong.
pub(super) fn apply(args: &ServeArgs, config: Config, address: &str) -> Result<Config, CommandFailure> {
    if args.mock.definition.is_some() {
        // The card is that of the demonstration.
        return Ok(config);
    }
    let url = match config.protected_resource() {
        Some(protected) => protected.resource().to_owned(),
        None => format!("{}://{address}{}", http::url_scheme(&args.http), args.http.path),
    };
    let versions = args.revisions.version_set().map_err(CommandFailure::usage)?;
    let versions: Vec<_> = versions.iter().map(|version| version.to_string()).collect();
    let bare = ServerCard::new(NAME, env!("CARGO_PKG_VERSION"), DESCRIPTION).title(TITLE);
    // A URL with port 0, or with `http` and an address that is not of this machine, is not valid in a card.
    let card = bare.clone().remotes([CardRemote::http(url).supported_protocol_versions(versions)]);
    let card = if card.check().is_ok() { card } else { bare };
    card.configure(config).map_err(|error| CommandFailure::failed(error.to_string()))
}

const NAME: &str = "io.github.mcp-proto/mcp-probe";
const TITLE: &str = "mcp-probe demonstration server";
const DESCRIPTION: &str = "Tools, resources and prompts to try a client on";
