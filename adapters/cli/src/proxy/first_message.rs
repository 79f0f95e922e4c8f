//! The identity of the client from its first message. A bridge presents this identity to the server.

use std::io::{self, ErrorKind};

use mcp_proto::model::{Implementation, Map};
use mcp_proto::{Capabilities, Capability, Limits, RawJson, RpcError};
use mcp_proto_proxy::relayed_capabilities;
use mcp_std::io::{Duplex, Interest, Stdio};

use super::upstream::ClientIdentity;
use crate::failure::CommandFailure;
use crate::notes;

/// Identity and capabilities from the first message, and the bytes read so far.
pub(crate) struct FirstMessage {
    pub(crate) identity: ClientIdentity,
    pub(crate) bytes: Vec<u8>,
}

impl FirstMessage {
    /// Waits for the first message. Returns `None` if the input ends before one arrives.
    ///
    /// # Errors
    ///
    /// Fails if the stream cannot be read.
    pub(crate) fn read(stream: &mut dyn Duplex) -> Result<Option<Self>, CommandFailure> {
        let (mut bytes, mut scratch) = (Vec::new(), vec![0; 64 << 10]);
        while !has_line(&bytes) && bytes.len() <= Limits::default().max_frame {
            let read = stream.wait(Interest::READ, None).and_then(|ready| match ready.readable {
                true => stream.read(&mut scratch),
                false => Err(ErrorKind::WouldBlock.into()),
            });
            match read {
                Ok(0) => break,
                Ok(n) => bytes.extend_from_slice(scratch.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(broken("the client cannot be read from", &error)),
            }
        }
        if bytes.trim_ascii().is_empty() {
            return Ok(None);
        }
        let (info, capabilities) = parse_client_identity(first_line(&bytes));
        let identity = ClientIdentity { info, capabilities: capabilities.unwrap_or_else(all_capabilities) };
        Ok(Some(Self { identity, bytes }))
    }
}

/// Returns stdin and stdout for one client.
///
/// # Errors
///
/// Fails if they cannot be used.
pub(crate) fn stdio(command: &str) -> Result<Stdio, CommandFailure> {
    notes::hint_at_terminal(command);
    Stdio::guarded().map_err(|error| broken("stdin and stdout cannot be used", &error))
}

pub(crate) fn broken(what: &str, error: &io::Error) -> CommandFailure {
    CommandFailure::failed(format!("{what}: {error}"))
}

fn first_line(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii_start().split(|byte| *byte == b'\n').next().unwrap_or_default()
}

/// Returns the answer to a first message for which there is no server; `None` if it wants none.
pub(crate) fn refusal(bytes: &[u8], why: &str) -> Option<Vec<u8>> {
    let request = RawJson::new(first_line(bytes).to_vec()).ok()?;
    let id = request.member("id").filter(|_| request.member("method").is_some())?;
    let RpcError { code, message, .. } = RpcError::internal(why.to_owned());
    let error =
        Map::from([("code", RawJson::encode(&code).ok()?), ("message", RawJson::encode(&message).ok()?)]);
    let error = RawJson::encode(&error).ok()?;
    let answer = Map::from([("jsonrpc", RawJson::encode("2.0").ok()?), ("id", id), ("error", error)]);
    Some([RawJson::encode(&answer).ok()?.as_bytes(), b"\n"].concat())
}

/// Returns whether there is a complete line that is not blank.
fn has_line(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().contains(&b'\n')
}

/// Parses the identity of a client from `initialize` or from the metadata of a modern request.
fn parse_client_identity(line: &[u8]) -> (Option<Implementation>, Option<Capabilities>) {
    let message = RawJson::new(line.to_vec()).ok();
    let params = message.and_then(|message| message.member("params"));
    let Some(params) = params else { return (None, None) };
    let (info, capabilities) = match params.member("_meta") {
        Some(meta) if meta.member("io.modelcontextprotocol/clientCapabilities").is_some() => (
            meta.member("io.modelcontextprotocol/clientInfo"),
            meta.member("io.modelcontextprotocol/clientCapabilities"),
        ),
        _ => (params.member("clientInfo"), params.member("capabilities")),
    };
    let info = info.and_then(|info| info.parse().ok());
    (info, capabilities.map(|capabilities| relayed_capabilities(&capabilities)))
}

/// Returns all client capabilities: for an unknown client, or for several clients.
#[expect(deprecated, reason = "supported until its removal")]
pub(crate) fn all_capabilities() -> Capabilities {
    let all = [
        Capability::Elicitation,
        Capability::ElicitationForm,
        Capability::ElicitationUrl,
        Capability::Roots,
        Capability::RootsListChanged,
        Capability::Sampling,
        Capability::SamplingContext,
        Capability::SamplingTools,
    ];
    all.into_iter().fold(Capabilities::new(), Capabilities::with)
}

/// Returns the identity for a server that several clients share. Each question goes to the client whose call asks.
///
/// Roots are not among them: a server asks for them once, and those of one client are not for the calls of others. Sampling is not
/// either: a server that has it need not do without it for a client that has not.
pub(crate) fn shared_identity() -> ClientIdentity {
    let all = [Capability::Elicitation, Capability::ElicitationForm, Capability::ElicitationUrl];
    ClientIdentity { info: None, capabilities: all.into_iter().fold(Capabilities::new(), Capabilities::with) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_first_message(text: &[u8]) -> Option<FirstMessage> {
        let (mut near, mut far) = mcp_std::io::memory_pair(1 << 10);
        far.write(text).expect("room");
        far.shutdown_write().expect("open");
        FirstMessage::read(&mut near).expect("memory")
    }

    #[test]
    #[expect(deprecated, reason = "tested until its removal")]
    fn first_message_identifies_the_client() {
        let legacy =
            br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",
            "capabilities":{"roots":{},"extensions":{"a.example/b":{},"io.modelcontextprotocol/tasks":{}}},"clientInfo":{"name":"sailor","version":"1"}}}"#;
        let modern = br#"{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{"_meta":{
            "io.modelcontextprotocol/clientCapabilities":{"roots":{},"extensions":{
            "a.example/b":{},"io.modelcontextprotocol/tasks":{}}},
            "io.modelcontextprotocol/clientInfo":{"name":"sailor","version":"1"}}}}"#;
        for text in [&legacy[..], modern] {
            let line: Vec<u8> = text.iter().copied().filter(|byte| *byte != b'\n').collect();
            let fed = [b" \n".as_slice(), &line, b"\n{\"more\":"].concat();
            let read = read_first_message(&fed).expect("a message");
            assert_eq!(read.identity.info.expect("an identity").name, "sailor");
            let settings = RawJson::new("{}").expect("JSON");
            let declared = Capabilities::new().with(Capability::Roots).extension("a.example/b", settings);
            assert_eq!(read.identity.capabilities, declared.expect("an identifier"), "without tasks");
            assert_eq!(read.bytes, fed);
        }
    }

    #[test]
    fn unidentified_client_gets_all_capabilities() {
        for text in
            [&b"{\"method\":\"ping\",\"id\":1,\"jsonrpc\":\"2.0\"}\n"[..], b"hello\n", b"{\"params\":3}"]
        {
            let read = read_first_message(text).expect("bytes");
            assert_eq!((read.identity.info, read.identity.capabilities), (None, all_capabilities()));
        }
        assert!(read_first_message(b"").is_none() && read_first_message(b" \n\n").is_none());
    }
}
