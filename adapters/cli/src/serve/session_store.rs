//! The options `--session-store` and `--session-key`: sessions that several processes serve.

use mcp_proto::seal::Keys;
use mcp_redis_store::{RedisStore, Settings};
use mcp_runtime::server::{SessionKeys, SharedSessions};
use mcp_std::session_store::FileSessionStore;

use crate::failure::{CommandFailure, Exit};
use crate::serve::args::SessionArgs;

/// Joins the processes that use the store, if there is one.
///
/// # Errors
///
/// Fails if an option is not valid, or if the store does not answer.
pub(super) fn join(args: &SessionArgs) -> Result<Option<SharedSessions>, CommandFailure> {
    let (Some(store), Some(keys)) = (&args.session_store, &args.session_key) else { return Ok(None) };
    let keys = keys.older.iter().copied().fold(SessionKeys::new(keys.current), SessionKeys::with_older);
    let joined = if store.contains("://") {
        let settings = Settings::new(store);
        let settings = settings.map_err(|why| CommandFailure::usage(format!("--session-store: {why}")))?;
        SharedSessions::join(RedisStore::new(settings), &keys)
    } else {
        FileSessionStore::open(store).and_then(|store| SharedSessions::join(store, &keys))
    };
    joined.map(Some).map_err(|why| CommandFailure::new(Exit::Connection, format!("--session-store: {why}")))
}

/// Returns the keys for the state of calls, which comes back to any of the processes.
pub(super) fn state_keys(args: &SessionArgs) -> Option<Keys> {
    let keys = args.session_key.as_ref()?;
    Some(keys.older.iter().copied().fold(Keys::new(keys.current), Keys::with_older))
}
