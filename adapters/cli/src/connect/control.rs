//! What is said on the control socket of the background process: one line each way.

use core::time::Duration;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::args::{AuthorizationArgs, ConnectionArgs, RevisionArgs};
use crate::failure::{CommandFailure, Exit};
use crate::server::Server;

/// What a command asks of the background process. Those but [`Connect`](Self::Connect) are the same in all versions.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Request {
    Connect {
        /// Version of the program that asks.
        version: String,
        /// As text: another version may write it in another way.
        wanted: String,
    },
    List,
    /// Ends these connections, or all.
    Disconnect(Option<Vec<String>>),
}

/// A connection as it was asked for. It depends on no variable and no working directory any more.
#[derive(Serialize, Deserialize)]
pub(super) struct Wanted {
    pub(super) name: String,
    /// The server as it was given, for display.
    pub(super) shown: String,
    pub(super) server: Server,
    pub(super) authorization: AuthorizationArgs,
    pub(super) revisions: RevisionArgs,
    pub(super) connection: ConnectionArgs,
    pub(super) timeout: Duration,
    pub(super) idle: Duration,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Answer {
    Connected(Summary),
    Connections {
        process: u32,
        version: String,
        connections: Vec<Summary>,
    },
    /// Names of connections that have ended.
    Disconnected(Vec<String>),
    Failed(Failure),
}

/// A connection for display.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    pub(super) name: String,
    pub(super) server: String,
    pub(super) era: String,
    pub(super) revision: String,
    /// Time since it was made.
    pub(super) seconds: u64,
    /// Time without use after which it ends.
    pub(super) idle: Option<f64>,
    pub(super) is_new: bool,
}

/// A failure on its way to the command.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failure {
    exit_code: u8,
    message: String,
    hint: Option<String>,
    stderr: String,
}

impl From<&CommandFailure> for Failure {
    fn from(failure: &CommandFailure) -> Self {
        Self {
            exit_code: failure.exit() as u8,
            message: failure.message().to_owned(),
            hint: failure.hint().map(str::to_owned),
            stderr: failure.stderr_tail().to_owned(),
        }
    }
}

impl From<Failure> for CommandFailure {
    fn from(Failure { exit_code, message, hint, stderr }: Failure) -> Self {
        let failure = Self::new(Exit::from_code(exit_code), message).with_stderr_tail(&stderr);
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

/// Writes one message.
///
/// # Errors
///
/// That of the socket.
pub(super) fn write<T: Serialize>(mut stream: &UnixStream, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Reads one message; `None` if the other side has closed the socket.
///
/// # Errors
///
/// That of the socket. `InvalidData` for what is no message, or too long.
pub(super) fn read<T: DeserializeOwned>(stream: &UnixStream) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    BufReader::new(stream.take(MAX_MESSAGE_BYTES)).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(serde_json::from_slice(&line)?)),
        Some(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Name of the control socket. No connection has it.
pub(super) const CONTROL_SOCKET: &str = ".control";
/// Maximum length of a message: arguments and environment of a program are in it.
const MAX_MESSAGE_BYTES: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_that_is_cut_or_foreign_is_an_error() {
        let (near, far) = UnixStream::pair().unwrap();
        write(&far, &Request::List).unwrap();
        assert!(matches!(read(&near).unwrap(), Some(Request::List)));
        for (sent, is_end) in [("{\"list", false), ("{}\n", false), ("", true)] {
            let (near, mut far) = UnixStream::pair().unwrap();
            far.write_all(sent.as_bytes()).unwrap();
            drop(far);
            assert_eq!(matches!(read::<Request>(&near), Ok(None)), is_end, "{sent}");
        }
    }
}
