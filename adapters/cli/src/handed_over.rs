//! What `mcp` tells the processes of this program that it starts. It is in variables of their environment, so that nobody else changes
//! it: a file could be another one when it is read again.

use std::env;

use mcp_proto::http::client::Config;
use serde::de::DeserializeOwned;

/// Variable with the server, if no word names one.
pub(crate) const SERVER: &str = "MCP_PROBE_SERVER";
/// Variable with the path that a server over HTTP must not lead to another one of: as for [`Config::confine_to`].
pub(crate) const PATH: &str = "MCP_PROBE_PATH";

/// Returns the server that was handed over, if one was: `mcp` ends the command line with `--` then, and nobody else does.
///
/// # Errors
///
/// Fails if it is none. The message contains no value.
pub(crate) fn server<T: DeserializeOwned>() -> Option<Result<T, String>> {
    env::args_os().next_back().filter(|word| word == "--")?;
    let text = env::var(SERVER).ok()?;
    let unread = |_| format!("the server in the variable {SERVER} cannot be read");
    Some(serde_json::from_str(&text).map_err(unread))
}

/// Keeps a client to the path that was handed over, if one was.
pub(crate) fn confine(config: Config) -> Config {
    match env::var_os(PATH) {
        Some(path) => config.confine_to(&path.to_string_lossy()),
        None => config,
    }
}
