//! JSON with comments and trailing commas, as editors write it, the lines of its values, and members that are there twice.

use crate::distinct_members;

/// Replaces comments, trailing commas and a byte order mark by spaces. Lines and columns stay the same.
pub(super) fn to_json(text: &str) -> String {
    let mut out: Vec<char> = text.chars().collect();
    if out.first() == Some(&'\u{feff}') {
        out[0] = ' ';
    }
    let mut at = 0;
    // Position of the last comma, if only spaces and comments follow it so far.
    let mut comma = None;
    while let Some(&c) = out.get(at) {
        let end = match (c, out.get(at + 1)) {
            ('"', _) => string_end(&out, at),
            ('/', Some('/')) => blank(&mut out, at, |rest| rest.iter().position(|c| *c == '\n')),
            ('/', Some('*')) => blank(&mut out, at, |rest| {
                rest.windows(2).skip(2).position(|pair| pair == ['*', '/']).map(|found| found + 4)
            }),
            (c, _) if c.is_ascii_whitespace() => at + 1,
            (',', _) => {
                comma = Some(at);
                at += 1;
                continue;
            }
            ('}' | ']', _) => {
                if let Some(comma) = comma {
                    out[comma] = ' ';
                }
                at + 1
            }
            _ => at + 1,
        };
        if !(c.is_ascii_whitespace() || c == '/') {
            comma = None;
        }
        at = end;
    }
    out.into_iter().collect()
}

/// Returns the position behind a string that begins at `at`.
fn string_end(text: &[char], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(c) = text.get(end) {
        end += match c {
            '"' => return end + 1,
            '\\' => 2,
            _ => 1,
        };
    }
    end
}

/// Replaces a comment by spaces, up to the length that `find` returns or to the end. Returns the position behind it.
fn blank(text: &mut [char], at: usize, find: impl Fn(&[char]) -> Option<usize>) -> usize {
    let end = find(&text[at..]).map_or(text.len(), |length| at + length);
    for c in &mut text[at..end] {
        if *c != '\n' {
            *c = ' ';
        }
    }
    end
}

/// A step from a value to one inside of it.
#[derive(Clone)]
pub(super) enum Step {
    Member(String),
    Element(usize),
}

/// Returns the line of a value in valid JSON, from 1 on; of its name if it is a member. `None` if there is no such value.
pub(super) fn line_of(text: &str, path: &[Step]) -> Option<usize> {
    let mut cursor = Cursor { bytes: text.as_bytes(), at: 0 };
    let mut position = 0;
    for step in path {
        position = cursor.enter(step)?;
    }
    let before = text.as_bytes().get(..position)?;
    Some(1 + before.iter().filter(|byte| **byte == b'\n').count())
}

/// A position in valid JSON.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// Moves from the beginning of a value to that of one inside of it. Returns where the member or element begins.
    fn enter(&mut self, step: &Step) -> Option<usize> {
        self.skip_space();
        self.at += 1;
        for index in 0.. {
            self.skip_space();
            let begin = self.at;
            let is_wanted = match step {
                Step::Element(wanted) => *wanted == index,
                Step::Member(wanted) => {
                    self.skip_value()?;
                    let name: String = serde_json::from_slice(self.bytes.get(begin..self.at)?).ok()?;
                    self.skip_space();
                    // The colon.
                    self.at += 1;
                    name == *wanted
                }
            };
            if is_wanted {
                return Some(begin);
            }
            self.skip_value()?;
            self.skip_space();
            if self.bytes.get(self.at) != Some(&b',') {
                return None;
            }
            self.at += 1;
        }
        None
    }

    fn skip_space(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// Moves to the end of a value. Returns `None` if there is none.
    fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        self.skip_space();
        loop {
            match self.bytes.get(self.at)? {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.checked_sub(1)?,
                b'"' => {
                    self.at += 1;
                    while *self.bytes.get(self.at)? != b'"' {
                        self.at += if *self.bytes.get(self.at)? == b'\\' { 2 } else { 1 };
                    }
                }
                _ => {}
            }
            self.at += 1;
            let is_end = |byte: &u8| b",:}]".contains(byte) || byte.is_ascii_whitespace();
            if depth == 0 && self.bytes.get(self.at).is_none_or(is_end) {
                return Some(());
            }
        }
    }
}

/// Checks that no object has a member twice, of which readers take the last in silence.
///
/// # Errors
///
/// Returns the name of the member with its line.
pub(super) fn check_members(json: &str) -> Result<(), String> {
    distinct_members::parse(json.as_bytes()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_that_of_the_member_or_element() {
        let text =
            "{\n \"a\\\"\": {\"x\": [1, [2], \"}\"],\n\"b\":\n [ true,\n 7.5]},\n\"c\\u0064\": null\n}";
        let member = |name: &str| Step::Member(name.to_owned());
        for (path, line) in [
            (vec![], Some(1)),
            (vec![member("a\"")], Some(2)),
            (vec![member("a\""), member("x"), Step::Element(2)], Some(2)),
            (vec![member("a\""), member("b")], Some(3)),
            (vec![member("a\""), member("b"), Step::Element(0)], Some(4)),
            (vec![member("a\""), member("b"), Step::Element(1)], Some(5)),
            (vec![member("cd")], Some(6)),
            (vec![member("none")], None),
            (vec![member("a\""), member("b"), Step::Element(2)], None),
        ] {
            assert_eq!(line_of(text, &path), line);
        }
        assert_eq!(line_of("", &[member("a")]), None);
    }

    #[test]
    fn member_that_is_there_twice_is_named_at_any_depth() {
        for (text, name, line) in [
            ("{\"a\": 1,\n\"a\": 2}", "a", 2),
            ("[null, {\"b\": {\"a\": true, \n\n\"\\u0061\": -1.5}}]", "a", 3),
        ] {
            let why = check_members(text).expect_err("a member twice");
            assert!(why.starts_with(&format!("the member `{name}` is there twice at line {line} ")), "{why}");
        }
        for text in ["{\"a\": {\"a\": [{\"a\": -1}, {\"a\": \"x\"}]}, \"b\": null}", "7", "1.5", "true"] {
            assert_eq!(check_members(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn comments_and_trailing_commas_become_spaces() {
        for (text, want) in [
            ("{\"a\": 1}", "{\"a\": 1}"),
            ("\u{feff}{}", " {}"),
            ("{\"a\": 1, // one,\n}", "{\"a\": 1         \n}"),
            ("[1, /* ] */ 2,]", "[1,         2 ]"),
            ("[1,/**/]", "[1     ]"),
            ("[\"a,]//\", \"\\\"/*\" ,]", "[\"a,]//\", \"\\\"/*\"  ]"),
            // Not a trailing comma: the parser must refuse it.
            ("[,1]", "[,1]"),
            ("/* open", "       "),
            ("/*/ */1", "      1"),
            ("\"open", "\"open"),
            ("\"open\\", "\"open\\"),
            ("1 / 2", "1 / 2"),
        ] {
            assert_eq!(to_json(text), want, "{text:?}");
        }
    }
}
