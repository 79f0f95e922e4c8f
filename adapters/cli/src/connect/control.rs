//! The messages on the control socket of the background process: a request and its answer, each a JSON value on one line.

use core::time::Duration;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::args::{AuthorizationArgs, ConnectionArgs, RevisionArgs};
use crate::failure::CommandFailure;
use crate::server::Server;

/// A request to the background process. All versions write [`List`](Self::List) and [`Disconnect`](Self::Disconnect) alike.
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
    /// Asks for the server of this connection.
    Server(String),
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
    /// [`Wanted`] as text.
    Server(String),
    /// Names of connections that have ended.
    Disconnected(Vec<String>),
    Failed(CommandFailure),
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
    use mcp_proto::{RawJson, RpcError};

    use super::*;
    use crate::failure::Exit;

    #[test]
    fn failure_arrives_as_it_was_sent() {
        let (near, far) = UnixStream::pair().unwrap();
        let data = RawJson::new(r#"{"supported":["x"],"n":12345678901234567890123}"#).unwrap();
        let failure = CommandFailure::new(Exit::Unauthorized, "refused")
            .with_hint("log in")
            .with_stderr_tail("a\nb")
            .with_deviations(vec!["odd".into()])
            .with_scopes(["read", "write"].into_iter())
            .with_response(RpcError::new(-32_000, "no").with_data(data));
        let sent = format!("{failure:?}");
        write(&far, &Answer::Failed(failure)).unwrap();
        let Some(Answer::Failed(arrived)) = read(&near).unwrap() else { panic!("a failure") };
        assert_eq!(format!("{arrived:?}"), sent);
        // Without the members that a version may leave out.
        let short = r#"{"failed":{"exitCode":3,"message":"m","hint":null,"stderr":""}}"#;
        writeln!(&far, "{short}").unwrap();
        let Some(Answer::Failed(arrived)) = read(&near).unwrap() else { panic!("a failure") };
        assert_eq!((arrived.exit, &*arrived.message(), arrived.hint), (Exit::Connection, "m", None));
    }

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
