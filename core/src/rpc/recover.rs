//! Finds the top-level `id` of a message that is too long, too deep or broken, one byte at a time.
//!
//! Works in constant memory and across any chunking. It trusts nothing that it cannot place: an id counts only when
//! it is a string or a number at depth one, named exactly once, and followed by a comma or the closing brace.

use alloc::vec::Vec;

/// Longest member name or id that is remembered
const MAX_TEXT: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// Before the opening brace
    Start,
    /// Where a member name may begin
    Name,
    /// After a member name
    Colon,
    /// Where the value of the current member begins or goes on
    Value,
    /// After that value
    Comma,
    /// Behind the closing brace, or lost
    End,
}

/// What is known about a message that was not read
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// JSON text of the id
    pub(crate) id: Option<Vec<u8>>,
    /// A member `method` was seen
    pub(crate) asks: bool,
    /// A member `result` or `error` was seen
    pub(crate) answers: bool,
    /// The message is whole, asks and has no `id`: a notification
    pub(crate) notifies: bool,
}

#[derive(Debug)]
pub(crate) struct Finder {
    at: At,
    depth: u32,
    in_string: bool,
    escaped: bool,
    text: Vec<u8>,
    overflow: bool,
    member_is_id: bool,
    ids: u32,
    /// The closing brace was seen
    closed: bool,
    found: Found,
}

impl Finder {
    pub(crate) const fn new() -> Self {
        Self {
            at: At::Start,
            depth: 0,
            in_string: false,
            escaped: false,
            text: Vec::new(),
            overflow: false,
            member_is_id: false,
            ids: 0,
            closed: false,
            found: Found { id: None, asks: false, answers: false, notifies: false },
        }
    }

    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((byte, rest)) = bytes.split_first() {
            if self.at == At::End {
                return;
            }
            if self.in_string && self.depth > 1 && !self.escaped {
                // Inside a string that nobody asks for only its end matters.
                let plain = bytes.iter().position(|b| matches!(b, b'"' | b'\\')).unwrap_or(bytes.len());
                if plain > 0 {
                    bytes = bytes.get(plain..).unwrap_or_default();
                    continue;
                }
            }
            self.byte(*byte);
            bytes = rest;
        }
    }

    pub(crate) fn finish(mut self) -> Found {
        if self.ids != 1 {
            self.found.id = None;
        }
        self.found.notifies = self.closed && self.found.asks && self.ids == 0;
        self.found
    }

    fn keep(&mut self, byte: u8) {
        if self.text.len() < MAX_TEXT {
            self.text.push(byte);
        } else {
            self.overflow = true;
        }
    }

    fn begin(&mut self) {
        self.text.clear();
        self.overflow = false;
    }

    fn byte(&mut self, byte: u8) {
        if self.in_string {
            if self.depth == 1 {
                self.keep(byte);
            }
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.in_string = false;
                    if self.depth == 1 {
                        self.string_ended();
                    }
                }
                _ => {}
            }
            return;
        }
        if self.depth > 1 {
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 1 {
                        self.at = At::Comma;
                    }
                }
                _ => {}
            }
            return;
        }
        self.top(byte);
    }

    /// A byte outside strings at depth zero or one
    fn top(&mut self, byte: u8) {
        let space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        match (self.at, byte) {
            (At::Start, b'{') => {
                self.depth = 1;
                self.at = At::Name;
            }
            (At::Name, b'"') => {
                self.begin();
                self.keep(byte);
                self.in_string = true;
            }
            (At::Colon, b':') => {
                self.at = At::Value;
                self.begin();
            }
            (At::Value, b'"') if self.text.is_empty() => {
                self.keep(byte);
                self.in_string = true;
            }
            (At::Value, b'{' | b'[') if self.text.is_empty() => self.depth = 2,
            (At::Value | At::Comma, b',' | b'}') => {
                self.value_ended();
                self.closed = byte == b'}';
                self.at = if self.closed { At::End } else { At::Name };
            }
            (At::Value, _) if space => {
                if !self.text.is_empty() {
                    self.at = At::Comma;
                }
            }
            (At::Value, _) => self.keep(byte),
            _ if space || (self.at == At::Start && matches!(byte, 0xEF | 0xBB | 0xBF)) => {}
            _ => self.at = At::End,
        }
    }

    fn string_ended(&mut self) {
        if self.at == At::Name {
            self.at = At::Colon;
            let raw = self.text.get(1..self.text.len() - 1).unwrap_or_default();
            let name = crate::json::unescape(raw);
            self.member_is_id = false;
            match &*name {
                b"id" => {
                    self.member_is_id = true;
                    self.ids += 1;
                }
                b"method" => self.found.asks = true,
                b"result" | b"error" => self.found.answers = true,
                _ => {}
            }
        } else {
            self.at = At::Comma;
        }
    }

    fn value_ended(&mut self) {
        if self.member_is_id {
            let sound = !self.overflow && is_id(&self.text);
            self.found.id = sound.then(|| core::mem::take(&mut self.text));
            self.member_is_id = false;
        }
        self.begin();
    }
}

/// Whether the text is one JSON string or number: what stands in a broken message is not echoed unchecked
fn is_id(text: &[u8]) -> bool {
    let mut s = crate::json::Scanner::new(text, 1, 1);
    matches!(text.first(), Some(b'"' | b'-' | b'0'..=b'9'))
        && core::str::from_utf8(text).is_ok()
        && s.value().is_ok()
        && s.at_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn find(text: &[u8]) -> (Option<Vec<u8>>, bool, bool) {
        let mut whole = Finder::new();
        whole.feed(text);
        let whole = whole.finish();
        let mut bytewise = Finder::new();
        text.iter().for_each(|b| bytewise.feed(&[*b]));
        assert_eq!(whole, bytewise.finish());
        (whole.id, whole.asks, whole.answers)
    }

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        let deep = format!("{}{}", "[".repeat(9_999), "]".repeat(9_999));
        let some = |t: &str| Some(t.as_bytes().to_vec());
        assert_eq!(
            find(format!(r#"{{"id":7,"method":"x","params":{deep}}}"#).as_bytes()),
            (some("7"), true, false)
        );
        assert_eq!(
            find(format!(r#"{{"result":{deep} , "id" : "a\"}}b" }}"#).as_bytes()),
            (some(r#""a\"}b""#), false, true)
        );
        assert_eq!(find(br#"{"params":{"id":1,"s":"}]\"{"},"id":2}"#), (some("2"), false, false));
    }

    #[test]
    fn what_is_unsure_is_not_an_id() {
        let none: [&[u8]; 8] = [
            br#"{"id":1,"id":2,"method":"x"}"#,
            br#"{"id":{"a":1}}"#,
            br#"{"id":1 2}"#,
            br#"{"id":truncat"#,
            br#"{"id":12"#,
            b"[{\"id\":1}]",
            b"garbage",
            b"{\"id\":\"\xff\"}",
        ];
        for text in none {
            assert_eq!(find(text).0, None, "{}", text.escape_ascii());
        }
    }
}
