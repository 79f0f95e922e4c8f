//! Recovery of the top-level `id` from a message that is too long, too deep or broken (DESIGN-17).
//!
//! The finder takes one byte at a time, in constant memory, with any chunking. An id counts only under these
//! conditions: it is a string or a number at depth one, its name occurs once, and a comma or the closing brace follows.

use alloc::vec::Vec;

/// Maximum length of a stored member name or id, in bytes.
const MAX_REMEMBERED: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FinderState {
    /// Before the opening brace.
    Start,
    /// Before a member name.
    Name,
    /// Behind a member name.
    Colon,
    /// Before or inside the value of the current member.
    Value,
    /// Behind that value.
    Comma,
    /// Behind the closing brace.
    Closed,
    /// After a syntax error.
    Broken,
}

/// The place in a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StringState {
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
}

/// Facts about a message that was not parsed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RecoveredMessage {
    /// JSON text of the id.
    pub(crate) id: Option<Vec<u8>>,
    /// Whether a member `method` was found.
    pub(crate) has_method: bool,
    /// Whether a member `result` or `error` was found.
    pub(crate) is_response: bool,
    /// Whether the message is complete and has a `method` and no `id`.
    pub(crate) is_notification: bool,
}

#[derive(Debug)]
pub(crate) struct IdFinder {
    state: FinderState,
    depth: u32,
    string: StringState,
    text: Vec<u8>,
    is_overflowed: bool,
    member_is_id: bool,
    ids: u32,
    recovered: RecoveredMessage,
}

impl IdFinder {
    pub(crate) const fn new() -> Self {
        Self {
            state: FinderState::Start,
            depth: 0,
            string: StringState::Outside,
            text: Vec::new(),
            is_overflowed: false,
            member_is_id: false,
            ids: 0,
            recovered: RecoveredMessage {
                id: None,
                has_method: false,
                is_response: false,
                is_notification: false,
            },
        }
    }

    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((byte, rest)) = bytes.split_first() {
            if matches!(self.state, FinderState::Closed | FinderState::Broken) {
                return;
            }
            if self.string == StringState::Inside && self.depth > 1 {
                // Inside a nested string only its end matters.
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

    pub(crate) fn finish(mut self) -> RecoveredMessage {
        // With two ids it is unknown which of them the peer waits for.
        if self.ids != 1 {
            self.recovered.id = None;
        }
        // A message that was cut may have its `id` behind the cut.
        self.recovered.is_notification =
            self.state == FinderState::Closed && self.recovered.has_method && self.ids == 0;
        self.recovered
    }

    fn push_text(&mut self, byte: u8) {
        if self.text.len() < MAX_REMEMBERED {
            self.text.push(byte);
        } else {
            self.is_overflowed = true;
        }
    }

    fn begin_text(&mut self) {
        self.text.clear();
        self.is_overflowed = false;
    }

    fn byte(&mut self, byte: u8) {
        if self.string != StringState::Outside {
            if self.depth == 1 {
                self.push_text(byte);
            }
            match byte {
                _ if self.string == StringState::Escaped => self.string = StringState::Inside,
                b'\\' => self.string = StringState::Escaped,
                b'"' => {
                    self.string = StringState::Outside;
                    if self.depth == 1 {
                        self.end_string();
                    }
                }
                _ => {}
            }
            return;
        }
        if self.depth > 1 {
            match byte {
                b'"' => self.string = StringState::Inside,
                b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 1 {
                        self.state = FinderState::Comma;
                    }
                }
                _ => {}
            }
            return;
        }
        self.top_level_byte(byte);
    }

    /// Processes a byte outside strings at depth zero or one.
    fn top_level_byte(&mut self, byte: u8) {
        let space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        match (self.state, byte) {
            (FinderState::Start, b'{') => {
                self.depth = 1;
                self.state = FinderState::Name;
            }
            (FinderState::Name, b'"') => {
                self.begin_text();
                self.push_text(byte);
                self.string = StringState::Inside;
            }
            (FinderState::Colon, b':') => {
                self.state = FinderState::Value;
                self.begin_text();
            }
            (FinderState::Value, b'"') if self.text.is_empty() => {
                self.push_text(byte);
                self.string = StringState::Inside;
            }
            (FinderState::Value, b'{' | b'[') if self.text.is_empty() => self.depth = 2,
            (FinderState::Value | FinderState::Comma, b',' | b'}') => {
                self.end_value();
                self.state = if byte == b'}' { FinderState::Closed } else { FinderState::Name };
            }
            (FinderState::Value, _) if space => {
                if !self.text.is_empty() {
                    self.state = FinderState::Comma;
                }
            }
            (FinderState::Value, _) => self.push_text(byte),
            _ if space || (self.state == FinderState::Start && matches!(byte, 0xEF | 0xBB | 0xBF)) => {}
            _ => self.state = FinderState::Broken,
        }
    }

    fn end_string(&mut self) {
        if self.state == FinderState::Name {
            self.state = FinderState::Colon;
            let raw = self.text.get(1..self.text.len() - 1).unwrap_or_default();
            let name = crate::json::unescape(raw);
            self.member_is_id = false;
            match &*name {
                b"id" => {
                    self.member_is_id = true;
                    self.ids += 1;
                }
                b"method" => self.recovered.has_method = true,
                b"result" | b"error" => self.recovered.is_response = true,
                _ => {}
            }
        } else {
            self.state = FinderState::Comma;
        }
    }

    fn end_value(&mut self) {
        if self.member_is_id {
            let sound = !self.is_overflowed && is_id(&self.text);
            self.recovered.id = sound.then(|| core::mem::take(&mut self.text));
            self.member_is_id = false;
        }
        self.begin_text();
    }
}

/// Returns whether the text is exactly one JSON string or number; parts of a broken message are not echoed unchecked.
fn is_id(text: &[u8]) -> bool {
    let mut s = crate::json::Scanner::new(text, 1, 1);
    matches!(text.first(), Some(b'"' | b'-' | b'0'..=b'9'))
        && core::str::from_utf8(text).is_ok()
        && s.value().is_ok()
        && s.is_at_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn find(text: &[u8]) -> (Option<Vec<u8>>, bool, bool) {
        let mut whole = IdFinder::new();
        whole.feed(text);
        let whole = whole.finish();
        let mut bytewise = IdFinder::new();
        text.iter().for_each(|b| bytewise.feed(&[*b]));
        assert_eq!(whole, bytewise.finish());
        (whole.id, whole.has_method, whole.is_response)
    }

    #[test]
    fn id_is_found_at_any_position() {
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
    fn ambiguous_id_is_not_recovered() {
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

    #[test]
    fn notification_is_complete_and_has_a_method_and_no_id() {
        for (text, is_notification) in [
            (r#"{"method":"x"}"#, true),
            (r#"{"method":"x","params":[1,2] } "#, true),
            (r#"{"method":"x""#, false),
            (r#"{"method":"x","id":1}"#, false),
            (r#"{"result":1}"#, false),
            ("{}", false),
        ] {
            let mut finder = IdFinder::new();
            finder.feed(text.as_bytes());
            assert_eq!(finder.finish().is_notification, is_notification, "{text}");
        }
    }

    #[test]
    fn id_is_found_behind_what_is_broken_and_not_within() {
        let longest = format!("\"{}\"", "x".repeat(MAX_REMEMBERED - 2));
        let too_long = format!("\"{}\"", "x".repeat(MAX_REMEMBERED - 1));
        for (text, id) in [
            (format!(r#"{{"id":{longest}}}"#), Some(longest.as_str())),
            (format!(r#"{{"id":{too_long}}}"#), None),
            ("\u{feff}{\"id\":7}".into(), Some("7")),
            ("{\"id\":7\u{feff}}".into(), None),
            (r#"{"x":1","id":7}"#.into(), Some("7")),
            (r#"{"x":1[,"id":7}"#.into(), Some("7")),
            (r#"{"id":{}7}"#.into(), None),
            (r#"{"id":[[]]7}"#.into(), None),
        ] {
            assert_eq!(find(text.as_bytes()).0.as_deref(), id.map(str::as_bytes), "{text}");
        }
    }
}
