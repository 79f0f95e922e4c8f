//! `application/x-www-form-urlencoded`: the bodies of token requests and the queries of redirects.

use alloc::string::String;
use alloc::vec::Vec;

/// Parameters of a form, in order.
pub(super) struct Form {
    text: String,
}

impl Form {
    /// Creates an empty form.
    pub(super) const fn new() -> Self {
        Self { text: String::new() }
    }

    /// Adds a parameter.
    #[inline(never)]
    pub(super) fn push(&mut self, name: &str, value: &str) {
        if !self.text.is_empty() {
            self.text.push('&');
        }
        encode(&mut self.text, name);
        self.text.push('=');
        encode(&mut self.text, value);
    }

    /// Returns whether there is a parameter of this name, which needs no encoding.
    pub(super) fn has(&self, name: &str) -> bool {
        self.text.split('&').any(|part| part.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
    }

    /// Returns the encoded text.
    pub(super) fn into_string(self) -> String {
        self.text
    }
}

/// Appends `text` in the encoding of a form: a space becomes `+`.
#[inline(never)]
pub(super) fn encode(out: &mut String, text: &str) {
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or('0');
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => {
                out.push('%');
                out.push(digit(byte >> 4));
                out.push(digit(byte & 15));
            }
        }
    }
}

/// Calls `visit` with the name and value of each parameter of a query, decoded; `None` if an escape is malformed or a
/// text is not UTF-8.
pub(super) fn parse(query: &str, visit: &mut dyn FnMut(String, String)) -> Option<()> {
    for part in query.split('&') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        if !part.is_empty() {
            visit(decode(name)?, decode(value)?);
        }
    }
    Some(())
}

#[inline(never)]
fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16).and_then(|d| u8::try_from(d).ok());
                (digit()? << 4) | digit()?
            }
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned as _;

    fn read(text: &str) -> Option<Vec<(String, String)>> {
        let mut pairs = Vec::new();
        parse(text, &mut |name, value| pairs.push((name, value)))?;
        Some(pairs)
    }

    #[test]
    fn a_form_is_read_as_it_was_written() {
        let pairs = [("a b", "c&d=e"), ("é", "+%\u{0}\n"), ("empty", ""), ("url", "https://h:1/p?q#f")];
        let mut form = Form::new();
        pairs.iter().for_each(|(name, value)| form.push(name, value));
        let text = form.into_string();
        assert!(text.starts_with("a+b=c%26d%3De&%C3%A9="), "{text}");
        let read = read(&text).expect("a form");
        assert_eq!(read, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn malformed_escapes_are_refused() {
        for bad in ["a=%", "a=%4", "a=%zz", "%ff=x", "a=%+1"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(read("&&a&"), Some([("a".to_owned(), String::new())].to_vec()));
    }
}
