//! What a Redis server, or the way to it, did wrong.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;

use mcp_std::session_store::SessionStoreError;
use mcp_std::task_store::TaskStoreError;
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// The reason why a Redis server did not do what a store asked. It shows no password, no id and no record.
#[derive(Debug)]
pub struct RedisStoreError {
    /// The address of the server, without the user; empty if there is none.
    address: String,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    TimedOut,
    OutOfMemory,
    Other(Cow<'static, str>),
}

impl RedisStoreError {
    /// Creates the error of a URL.
    pub(crate) fn invalid_url(error: &RedisError) -> Self {
        let cause = Cause::Other(format!("the URL does not name a Redis server: {error}").into());
        Self { address: String::new(), cause }
    }

    /// Creates the error of a command or a connection.
    pub(crate) fn new(address: &str, error: &RedisError) -> Self {
        Self { address: address.into(), cause: cause(error) }
    }
}

fn cause(error: &RedisError) -> Cause {
    if error.is_timeout() {
        return Cause::TimedOut;
    }
    // Of several commands that were sent together the first error counts.
    let first = error.clone().into_server_errors().and_then(|errors| errors.first().cloned());
    let error = &first.map_or_else(|| error.clone(), |(_, error)| error.into());
    let detail = error.detail().unwrap_or_default();
    // Before Redis 7 the error of a command in a script is within that of the script.
    let has = |code: &str| error.code() == Some(code) || detail.contains(&format!("-{code} "));
    if has("OOM") {
        return Cause::OutOfMemory;
    }
    let other = |text: String| Cause::Other(text.into());
    let text = match error.kind() {
        ErrorKind::Io => return other(format!("the connection failed: {error}")),
        ErrorKind::AuthenticationFailed => "it does not accept the user or the password",
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType | ErrorKind::Client => ODD_ANSWER,
        ErrorKind::Server(ServerErrorKind::BusyLoading) => "it is still loading its data",
        ErrorKind::Server(ServerErrorKind::NoPerm) => "it does not allow the user what the store needs",
        ErrorKind::Server(
            ServerErrorKind::Moved
            | ServerErrorKind::Ask
            | ServerErrorKind::CrossSlot
            | ServerErrorKind::ClusterDown,
        ) => "it is a part of a cluster",
        _ if has("READONLY") => "it is a replica, which stores nothing",
        _ if has("NOAUTH") => "it needs a password",
        _ => {
            // The arguments of a command that it does not know may be a record.
            let detail = detail.split(", with").next().unwrap_or_default();
            let shown: String = detail.chars().filter(|c| !c.is_control()).take(MAX_DETAIL).collect();
            let code = error.code().unwrap_or_else(|| error.category());
            return other(format!("it refused a command: {code} {shown}"));
        }
    };
    Cause::Other(text.into())
}

impl fmt::Display for RedisStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.address.is_empty() {
            write!(f, "Redis at {}: ", self.address)?;
        }
        f.write_str(match &self.cause {
            Cause::TimedOut => "it did not answer in time",
            Cause::OutOfMemory => "it has no memory left",
            Cause::Other(text) => text,
        })
    }
}

impl core::error::Error for RedisStoreError {}

impl From<RedisStoreError> for SessionStoreError {
    fn from(error: RedisStoreError) -> Self {
        match error.cause {
            Cause::TimedOut => Self::TimedOut,
            Cause::OutOfMemory => Self::Full,
            Cause::Other(_) => Self::Other(Box::new(error)),
        }
    }
}

impl From<RedisStoreError> for TaskStoreError {
    fn from(error: RedisStoreError) -> Self {
        Self::Other(Box::new(error))
    }
}

const ODD_ANSWER: &str = "its answer is not one of Redis";
/// Characters of an error of the server that are shown, at most.
const MAX_DETAIL: usize = 200;
