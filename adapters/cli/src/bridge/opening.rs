//! Who the client is, as far as its first message says: so that the server is connected to as by that client itself

use std::io::{self, ErrorKind};

use mcp_proto::model::Implementation;
use mcp_proto::{Capabilities, Capability, RawJson};
use mcp_std::{Duplex, Interest};

/// What the first message says, and all that was read for it
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) info: Option<Implementation>,
    pub(super) capabilities: Capabilities,
    pub(super) bytes: Vec<u8>,
}

impl Opening {
    /// Waits for the first message; none when the input ends before anything comes
    pub(super) fn of(stream: &mut dyn Duplex, longest: usize) -> io::Result<Option<Self>> {
        let (mut bytes, mut scratch) = (Vec::new(), vec![0; 64 << 10]);
        while !has_line(&bytes) && bytes.len() <= longest {
            if !stream.wait(Interest::READ, None)?.readable {
                continue;
            }
            match stream.read(&mut scratch) {
                Ok(0) => break,
                Ok(n) => bytes.extend_from_slice(scratch.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if bytes.trim_ascii().is_empty() {
            return Ok(None);
        }
        let line = bytes.trim_ascii_start().split(|byte| *byte == b'\n').next().unwrap_or_default();
        let (info, capabilities) = introduction(line);
        Ok(Some(Self { info, capabilities: capabilities.unwrap_or_else(able), bytes }))
    }
}

/// Whether there is a line that is more than white space
fn has_line(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().contains(&b'\n')
}

/// What a client says of itself in `initialize`, or in the metadata of a modern request
fn introduction(line: &[u8]) -> (Option<Implementation>, Option<Capabilities>) {
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
    (info, capabilities.map(|capabilities| Capabilities::declared(&capabilities)))
}

/// What any client may be able to do: where it is not known, or where there are several
pub(super) fn able() -> Capabilities {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(text: &[u8]) -> Option<Opening> {
        let (mut near, mut far) = mcp_std::memory_pair(1 << 10);
        far.write(text).expect("room");
        far.shutdown_write().expect("open");
        Opening::of(&mut near, 1 << 20).expect("memory")
    }

    #[test]
    fn the_first_message_says_who_the_client_is() {
        let legacy =
            br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",
            "capabilities":{"roots":{}},"clientInfo":{"name":"sailor","version":"1"}}}"#;
        let modern = br#"{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{"_meta":{
            "io.modelcontextprotocol/clientCapabilities":{"roots":{}},
            "io.modelcontextprotocol/clientInfo":{"name":"sailor","version":"1"}}}}"#;
        for text in [&legacy[..], modern] {
            let line: Vec<u8> = text.iter().copied().filter(|byte| *byte != b'\n').collect();
            let fed = [b" \n".as_slice(), &line, b"\n{\"more\":"].concat();
            let read = opening(&fed).expect("a message");
            assert_eq!(read.info.expect("an identity").name, "sailor");
            assert_eq!(read.capabilities, Capabilities::new().with(Capability::Roots));
            assert_eq!(read.bytes, fed);
        }
    }

    #[test]
    fn whatever_else_comes_first_may_be_able_to_do_anything() {
        for text in
            [&b"{\"method\":\"ping\",\"id\":1,\"jsonrpc\":\"2.0\"}\n"[..], b"hello\n", b"{\"params\":3}"]
        {
            let read = opening(text).expect("bytes");
            assert_eq!((read.info, read.capabilities), (None, able()));
        }
        assert!(opening(b"").is_none() && opening(b" \n\n").is_none());
    }
}
