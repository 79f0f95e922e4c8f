//! The options `--session-store` and `--session-key`: sessions that several processes serve.

use std::path::Path;

use mcp_proto::seal::Keys;
use mcp_redis_store::{RedisStore, Settings};
use mcp_runtime::server::{SessionKeys, SharedSessions};
use mcp_std::session_store::FileSessionStore;

use crate::args::SessionArgs;
use crate::failure::{CommandFailure, Exit};

/// Joins the processes that use the store, if there is one.
///
/// # Errors
///
/// Fails if an option is not valid, or if the store does not answer.
pub(super) fn join(args: &SessionArgs) -> Result<Option<SharedSessions>, CommandFailure> {
    let (Some(store), Some(keys)) = (&args.session_store, read_keys(args)?) else { return Ok(None) };
    let (current, older) = keys;
    let keys = older.into_iter().fold(SessionKeys::new(current), SessionKeys::with_older);
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
///
/// # Errors
///
/// Fails if the file of the keys cannot be read.
pub(super) fn state_keys(args: &SessionArgs) -> Result<Option<Keys>, CommandFailure> {
    let keys = read_keys(args)?;
    Ok(keys.map(|(current, older)| older.into_iter().fold(Keys::new(current), Keys::with_older)))
}

type KeyFile = ([u8; 32], Vec<[u8; 32]>);

/// Reads the file of the keys: the current one, and older ones.
fn read_keys(args: &SessionArgs) -> Result<Option<KeyFile>, CommandFailure> {
    let Some(path) = &args.session_key else { return Ok(None) };
    let text = std::fs::read_to_string(path).map_err(|error| failure(path, &error.to_string()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let keys: Option<Vec<[u8; 32]>> = lines.map(parse_key).collect();
    let why = "each line has to be a key of 64 hexadecimal digits";
    let mut keys = keys.ok_or_else(|| failure(path, why))?.into_iter();
    let current = keys.next().ok_or_else(|| failure(path, "there is no key in it"))?;
    Ok(Some((current, keys.collect())))
}

fn failure(path: &Path, why: &str) -> CommandFailure {
    CommandFailure::usage(format!("--session-key {}: {why}", path.display()))
}

fn parse_key(line: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if line.len() != 64 || !line.is_ascii() {
        return None;
    }
    for (byte, digits) in key.iter_mut().zip(line.as_bytes().chunks_exact(2)) {
        *byte =
            u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok().filter(|_| digits[0] != b'+')?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_64_hexadecimal_digits() {
        assert_eq!(parse_key(&"0f".repeat(32)), Some([15; 32]));
        for text in ["", "0f", &"0f".repeat(33), &"+f".repeat(32), &"0g".repeat(32), &"é".repeat(32)] {
            assert_eq!(parse_key(text), None, "{text}");
        }
    }
}
