//! The bytes that all scenarios use.

/// The two measured eras.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireEra {
    /// 2025-11-25: `initialize` once, then requests without `_meta`.
    Legacy,
    /// 2026-07-28: every request names its client in `_meta`.
    Modern,
}

impl WireEra {
    /// Both eras, in the order of the results.
    pub const BOTH: [Self; 2] = [Self::Legacy, Self::Modern];

    /// Returns the other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Legacy => Self::Modern,
            Self::Modern => Self::Legacy,
        }
    }

    /// Returns the name, as in the names of scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// First request of a legacy connection, without line end.
pub const INITIALIZE: &[u8] = br#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mcpdrive","version":"1.0.0"}}}"#;

/// Notification after its answer, without line end.
pub const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Smallest id in use. All ids of a run have its length, so that lines do not grow.
pub const FIRST_ID: u32 = 10_000;

/// Position of the id in a request.
const ID_AT: usize = r#"{"jsonrpc":"2.0","id":"#.len();

const META: &str = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"mcpdrive","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// Returns the `_meta` of a modern request, as a member.
#[must_use]
pub fn modern() -> &'static str {
    META.trim_start_matches(',')
}

/// Returns text without characters that JSON escapes.
#[must_use]
pub fn text(len: usize) -> String {
    const PLAIN: &str =
        "The quick brown fox jumps over the lazy dog 0123456789 and then echoes this text back, please. ";
    PLAIN.chars().cycle().take(len).collect()
}

/// One `tools/call` of `echo` as a line, whose id can be changed in place.
#[derive(Clone, Debug)]
pub struct RequestLine {
    line: Vec<u8>,
    /// Position of the id.
    id_offset: usize,
    id: u32,
}

impl RequestLine {
    /// Returns a request with `len` bytes of text.
    #[must_use]
    pub fn new(era: WireEra, len: usize) -> Self {
        Self::of_tool(era, "echo", len)
    }

    /// Returns a request of another tool that echoes, such as that behind a gateway.
    #[must_use]
    pub fn of_tool(era: WireEra, tool: &str, len: usize) -> Self {
        let meta = if era == WireEra::Modern { META } else { "" };
        let text = text(len);
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{FIRST_ID},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\
             \"arguments\":{{\"text\":\"{text}\"}}{meta}}}}}\n"
        );
        Self { line: line.into_bytes(), id_offset: ID_AT, id: FIRST_ID }
    }

    /// Returns the same request with an HTTP head and without line end.
    #[must_use]
    pub fn into_post(self, head: impl FnOnce(usize) -> Vec<u8>) -> Self {
        let body = &self.line[..self.line.len() - 1];
        let head = head(body.len());
        Self { line: [&head, body].concat(), id_offset: head.len() + self.id_offset, id: self.id }
    }

    /// Advances the id and returns the line, with its line end.
    pub fn advance(&mut self) -> &[u8] {
        self.id = if self.id >= FIRST_ID * 10 - 1 { FIRST_ID } else { self.id + 1 };
        let mut rest = self.id;
        for digit in self.line[self.id_offset..self.id_offset + 5].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        &self.line
    }

    /// Returns the current id.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Returns the current line, with its line end.
    #[must_use]
    pub fn line(&self) -> &[u8] {
        &self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_documented_length() {
        for (era, len) in [(WireEra::Legacy, 199), (WireEra::Modern, 387)] {
            let mut request = RequestLine::new(era, 100);
            assert_eq!(request.line().len() - 1, len);
            let first = request.advance().to_vec();
            let second = request.advance();
            assert_ne!(first, second);
            let read: serde_json::Value = serde_json::from_slice(second).expect("JSON");
            assert_eq!(read["id"], FIRST_ID + 2);
        }
    }
}
