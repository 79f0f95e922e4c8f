//! The bytes that every scenario works on.

/// The two ways of the protocol that are measured
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Era {
    /// 2025-11-25: `initialize` once, then requests without `_meta`
    Legacy,
    /// 2026-07-28: every request says in `_meta` who asks
    Modern,
}

impl Era {
    /// Both, in the order in which figures are given
    pub const BOTH: [Self; 2] = [Self::Legacy, Self::Modern];

    /// As it stands in the names of scenarios
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// The first request of a legacy connection, without line end
pub const INITIALIZE: &[u8] = br#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mcpdrive","version":"1.0.0"}}}"#;

/// What follows the answer to it, without line end
pub const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The smallest id that is used; all ids of a run have its length, so that lines do not grow
pub const FIRST_ID: u32 = 10_000;

/// Where the id stands in a request
const ID_AT: usize = r#"{"jsonrpc":"2.0","id":"#.len();

const META: &str = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"mcpdrive","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// The `_meta` of a modern request, as a member
#[must_use]
pub fn modern() -> &'static str {
    META.trim_start_matches(',')
}

/// Text without a character that JSON escapes
#[must_use]
pub fn text(len: usize) -> String {
    const PLAIN: &str =
        "The quick brown fox jumps over the lazy dog 0123456789 and then echoes this text back, please. ";
    PLAIN.chars().cycle().take(len).collect()
}

/// One `tools/call` of `echo` as a line; its id can be changed in place
#[derive(Clone, Debug)]
pub struct Request {
    line: Vec<u8>,
    /// Where the id stands
    at: usize,
    id: u32,
}

impl Request {
    /// A request with `len` bytes of text
    #[must_use]
    pub fn new(era: Era, len: usize) -> Self {
        let meta = if era == Era::Modern { META } else { "" };
        let text = text(len);
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{FIRST_ID},\"method\":\"tools/call\",\"params\":{{\"name\":\"echo\",\
             \"arguments\":{{\"text\":\"{text}\"}}{meta}}}}}\n"
        );
        Self { line: line.into_bytes(), at: ID_AT, id: FIRST_ID }
    }

    /// The same behind a head, without line end
    #[must_use]
    pub fn posted(self, head: impl FnOnce(usize) -> Vec<u8>) -> Self {
        let body = &self.line[..self.line.len() - 1];
        let head = head(body.len());
        Self { line: [&head, body].concat(), at: head.len() + self.at, id: self.id }
    }

    /// The line with the id that follows the last one, line end included
    pub fn advance(&mut self) -> &[u8] {
        self.id = if self.id >= FIRST_ID * 10 - 1 { FIRST_ID } else { self.id + 1 };
        let mut rest = self.id;
        for digit in self.line[self.at..self.at + 5].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        &self.line
    }

    /// The id of the line as it is
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// The line as it is, line end included
    #[must_use]
    pub fn line(&self) -> &[u8] {
        &self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_long_as_the_goals_say() {
        for (era, len) in [(Era::Legacy, 199), (Era::Modern, 387)] {
            let mut request = Request::new(era, 100);
            assert_eq!(request.line().len() - 1, len);
            let first = request.advance().to_vec();
            let second = request.advance();
            assert_ne!(first, second);
            let read: serde_json::Value = serde_json::from_slice(second).expect("JSON");
            assert_eq!(read["id"], FIRST_ID + 2);
        }
    }
}
