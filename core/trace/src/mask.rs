//! Secrets are replaced before anything is recorded, so that a trace can be given away.

use alloc::borrow::Cow;

use mcp_proto::fields::is_secret as is_secret_field;
use memchr::{memchr, memchr2};

use crate::secrets::{NAMES, VALUES, ends_with, find_in, is_quoted_secret, is_random, is_secret_name};

/// What stands for a secret.
pub const REPLACEMENT: &str = "[masked]";

/// What is replaced. The default has the usual names of secrets, and the usual forms of tokens.
#[derive(Clone, Debug)]
pub struct Mask {
    /// `None` masks nothing.
    names: Option<Vec<String>>,
}

impl Default for Mask {
    fn default() -> Self {
        Self { names: Some(Vec::new()) }
    }
}

/// A text in which secrets were replaced.
#[derive(Debug)]
pub(crate) struct Masked {
    pub(crate) text: Vec<u8>,
    /// Parts that were replaced: begin and end before, and begin and end after.
    replaced: Vec<(usize, usize, usize, usize)>,
}

impl Masked {
    /// Returns where a place of the text before is now. One within a secret is at the begin of what stands for it.
    pub(crate) fn place(&self, offset: usize) -> usize {
        let before = self.replaced.iter().rev().find(|(begin, _, _, _)| *begin < offset);
        match before {
            None => offset,
            Some((_, end, now, _)) if offset < *end => *now,
            Some((_, end, _, now)) => offset - end + now,
        }
    }
}

impl Mask {
    /// Masks nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self { names: None }
    }

    /// Adds a name whose values are secrets. Case, `-` and `_` do not count.
    ///
    /// It has no effect if nothing is masked.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        if let Some(names) = &mut self.names {
            names.push(plain_name(name));
        }
        self
    }

    /// Returns whether anything is masked.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        self.names.is_some()
    }

    /// Returns whether the value of a member, an argument or a header field with this name is masked.
    #[must_use]
    pub fn is_secret_name(&self, name: &str) -> bool {
        let is_own = |known: &String| known.bytes().eq(plain_bytes(name));
        self.names.as_ref().is_some_and(|names| is_secret_name(name) || names.iter().any(is_own))
    }

    /// Masks a text of any kind, with messages in it or none: what is a secret by its form, in a URL, or behind the name of one.
    #[must_use]
    pub fn words(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.message(text.as_bytes()).text).into_owned()
    }

    /// Masks the words of a command: also what stands behind the name of a secret.
    pub(crate) fn command(&self, words: &[String]) -> Vec<String> {
        let is_secret_option = |word: &str| word.starts_with('-') && self.is_secret_name(word);
        let mut before = "";
        let mut masked = Vec::new();
        for word in words {
            masked.push(match word.split_once('=') {
                _ if is_secret_option(before) && !word.starts_with('-') => REPLACEMENT.to_owned(),
                Some((name, _)) if self.is_secret_name(name) => format!("{name}={REPLACEMENT}"),
                _ => self.words(word),
            });
            before = word;
        }
        masked
    }

    /// Masks the head of an HTTP message: secrets in URLs, and the values of fields whose name suggests one.
    pub(crate) fn head(&self, head: &str) -> String {
        if self.names.is_none() {
            return head.to_owned();
        }
        let lines = head.lines().enumerate().map(|(number, line)| {
            let name = line.split(':').next().unwrap_or_default();
            match number > 0 && (self.is_secret_name(name) || is_secret_field(name)) {
                true => format!("{name}: {REPLACEMENT}"),
                false => self.words(line),
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Masks a message. It need not be valid JSON: what looks like a member with a secret name is masked anyway.
    pub(crate) fn message(&self, text: &[u8]) -> Masked {
        let mut out = Replacing::new(text);
        let Some(names) = &self.names else { return out.finish() };
        // Where what was not looked at yet begins.
        let (mut at, mut plain) = (0, 0);
        // Where the value begins that belongs to a name in another member.
        let mut named = None;
        while let Some(found) = find_quote(text, at) {
            self.mask_words(&mut out, plain, found);
            let end = string_end(text, found);
            let next = skip_space(text, end);
            let before = text.get(plain..found).unwrap_or_default();
            (at, plain) = (end, end);
            let is_member = text.get(next) == Some(&b':');
            let may_name = is_member || end - found <= MAX_NAME;
            let name = name_of(text.get(found..end).filter(|_| may_name).unwrap_or_default());
            let begin = skip_space(text, next + 1);
            if is_member {
                self.mask_words(&mut out, found + 1, end.saturating_sub(1));
                let is_named_behind = || {
                    ends_with(&name, VALUES)
                        && sibling(text, begin, NAMES).is_some_and(|at| self.is_secret_value(text, at))
                };
                if !self.is_secret_name(&name) && named != Some(begin) && !is_named_behind() {
                    if ends_with(&name, NAMES) && self.is_secret_value(text, begin) {
                        named = sibling(text, begin, VALUES);
                    }
                    continue;
                }
            } else {
                let value = text.get(found + 1..end.saturating_sub(1)).unwrap_or_default();
                match is_quoted_secret(before, value, &|name| self.is_secret_name(name)) {
                    true => out.replace(found + 1, end - 1),
                    false => mask_string(self, &mut out, found + 1, end.saturating_sub(1)),
                }
                let is_element = text.get(next) == Some(&b',') && !before.trim_ascii_end().ends_with(b":");
                if !is_element || !is_pair(text, before, &name, begin) || !self.is_secret_name(&name) {
                    continue;
                }
            }
            let is_own = names.iter().any(|own| own.bytes().eq(plain_bytes(&name)));
            let value_end = match text.get(begin) {
                // A schema has a property of this name: its members are masked by their own names.
                Some(b'{') if !is_own => continue,
                Some(b'{' | b'[') => container_end(text, begin),
                _ => value_end(text, begin),
            };
            mask_scalars(&mut out, begin, value_end);
            (at, plain) = (value_end, value_end);
        }
        self.mask_words(&mut out, plain, text.len());
        out.finish()
    }

    /// Returns whether a value, which begins here, is the name of a secret.
    fn is_secret_value(&self, text: &[u8], begin: usize) -> bool {
        let value = text.get(begin..near_end(text, begin).min(begin + MAX_NAME)).unwrap_or_default();
        value.starts_with(b"\"") && self.is_secret_name(&name_of(value))
    }

    /// Replaces the secrets in a part of the text.
    fn mask_words(&self, out: &mut Replacing<'_>, begin: usize, end: usize) {
        let mut at = begin;
        let is_name = |name: &str| self.is_secret_name(name);
        while let Some(found) = find_in(out.from, at, begin, end, &is_name) {
            out.replace(found.begin, found.end);
            at = found.end;
        }
    }
}

/// Masks a string of a message, which may hold a message of its own.
fn mask_string(mask: &Mask, out: &mut Replacing<'_>, begin: usize, end: usize) {
    let text = out.from.get(begin..end).unwrap_or_default();
    let is_nested = text.windows(2).any(|pair| pair == b"\\\"");
    if is_nested {
        let quoted = [b"\"", text, b"\""].concat();
        if let Ok(inner) = serde_json::from_slice::<String>(&quoted) {
            let masked = mask.message(inner.as_bytes());
            if masked.text != inner.as_bytes() {
                let masked = String::from_utf8_lossy(&masked.text).into_owned();
                let written = serde_json::to_string(&masked).unwrap_or_default();
                let written = written.get(1..written.len().saturating_sub(1)).unwrap_or_default();
                return out.replace_by(begin, end, written.as_bytes());
            }
        }
    }
    mask.mask_words(out, begin, end);
}

/// Replaces all strings and numbers of a value, except for the names of members and what nobody could use.
fn mask_scalars(out: &mut Replacing<'_>, begin: usize, end: usize) {
    let text = out.from;
    let mut at = begin;
    while at < end {
        match text.get(at) {
            Some(b'"') => {
                let string_end = string_end(text, at).min(end);
                let is_name = text.get(skip_space(text, string_end)) == Some(&b':') && string_end < end;
                let is_closed = string_end > at + 1 && text.get(string_end - 1) == Some(&b'"');
                let content_end = string_end - usize::from(is_closed);
                if !is_name && content_end > at + 1 {
                    out.replace(at + 1, content_end);
                }
                at = string_end;
            }
            Some(b'{' | b'}' | b'[' | b']' | b',' | b':' | b' ' | b'\t' | b'\r' | b'\n') => at += 1,
            Some(_) => {
                let scalar_end = value_end(text, at).clamp(at + 1, end);
                if !matches!(text.get(at..scalar_end), Some(b"null" | b"true" | b"false")) {
                    out.replace_by(at, scalar_end, format!("\"{REPLACEMENT}\"").as_bytes());
                }
                at = scalar_end;
            }
            None => return,
        }
    }
}

/// Returns where the value of one of the next members begins, whose name ends with a word of a list. `at` is where the value before them
/// begins.
fn sibling(text: &[u8], mut at: usize, list: &str) -> Option<usize> {
    // Few members are looked at, and nothing that holds others: otherwise time would be quadratic.
    for _ in 0..8 {
        let comma = skip_space(text, near_end(text, at));
        if matches!(text.get(at), Some(b'{' | b'[')) || text.get(comma) != Some(&b',') {
            return None;
        }
        let name = skip_space(text, comma + 1);
        let end = near_end(text, name);
        at = skip_space(text, skip_space(text, end) + 1);
        if ends_with(&name_of(text.get(name..end).unwrap_or_default()), list) {
            return Some(at);
        }
    }
    None
}

/// Returns whether the element of an array that begins here is the value of the one before it: behind an option, as the second of two in a
/// list of such pairs, and where it is random.
fn is_pair(text: &[u8], before: &[u8], name: &str, begin: usize) -> bool {
    let end = near_end(text, begin);
    let behind = text.get(skip_space(text, end));
    let value = text.get(begin..end).unwrap_or_default();
    match value {
        [b'{' | b'[', ..] => false,
        _ if behind == Some(&b':') => false,
        _ if name.starts_with('-') => !value.starts_with(b"\"-"),
        [b'"', random @ .., b'"'] if is_random(random) => true,
        _ => {
            let list = before.trim_ascii_end().strip_suffix(b"[").unwrap_or_default().trim_ascii_end();
            behind == Some(&b']') && (list.ends_with(b"[") || list.ends_with(b","))
        }
    }
}

/// Returns the place after the string that begins at `at`, or after a scalar that is short.
fn near_end(text: &[u8], at: usize) -> usize {
    let most = if text.get(at) == Some(&b'"') { text.len() } else { text.len().min(at + MAX_NAME) };
    value_end(text.get(..most).unwrap_or(text), at)
}

/// Bytes of a string that may be the name of what stands elsewhere.
const MAX_NAME: usize = 256;

fn find_quote(text: &[u8], from: usize) -> Option<usize> {
    memchr(b'"', text.get(from..)?).map(|at| from + at)
}

/// Returns the place after the array or object that begins at `at`, or the end of the text.
fn container_end(text: &[u8], at: usize) -> usize {
    let (mut next, mut depth) = (at, 0_usize);
    while let Some(byte) = text.get(next) {
        match byte {
            b'"' => {
                next = string_end(text, next);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => return next + 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        next += 1;
    }
    text.len()
}

/// A text that is copied with parts replaced.
struct Replacing<'a> {
    from: &'a [u8],
    text: Vec<u8>,
    copied: usize,
    replaced: Vec<(usize, usize, usize, usize)>,
}

impl<'a> Replacing<'a> {
    fn new(from: &'a [u8]) -> Self {
        Self { from, text: Vec::with_capacity(from.len()), copied: 0, replaced: Vec::new() }
    }

    fn replace(&mut self, begin: usize, end: usize) {
        self.replace_by(begin, end, REPLACEMENT.as_bytes());
    }

    fn replace_by(&mut self, begin: usize, end: usize, by: &[u8]) {
        self.text.extend_from_slice(self.from.get(self.copied..begin).unwrap_or_default());
        let now = self.text.len();
        self.text.extend_from_slice(by);
        self.replaced.push((begin, end, now, self.text.len()));
        self.copied = end;
    }

    fn finish(mut self) -> Masked {
        self.text.extend_from_slice(self.from.get(self.copied..).unwrap_or_default());
        Masked { text: self.text, replaced: self.replaced }
    }
}

/// Returns the bytes of a name without what spellings differ in.
fn plain_bytes(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(|byte| !matches!(byte, b'-' | b'_')).map(|byte| byte.to_ascii_lowercase())
}

/// Returns a name without what spellings differ in.
fn plain_name(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns the text of a name with its quotes.
fn name_of(quoted: &[u8]) -> Cow<'_, str> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if memchr(b'\\', inner).is_none() {
        return String::from_utf8_lossy(inner);
    }
    serde_json::from_slice::<String>(quoted).map_or_else(|_| String::from_utf8_lossy(inner), Cow::Owned)
}

/// Returns the place after a string that begins at `at`, or the end of the text.
fn string_end(text: &[u8], at: usize) -> usize {
    let mut next = at + 1;
    while let Some(found) = memchr2(b'"', b'\\', text.get(next..).unwrap_or_default()) {
        match text.get(next + found) {
            Some(b'"') => return next + found + 1,
            _ => next += found + 2,
        }
    }
    text.len()
}

fn skip_space(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at.min(text.len())
}

/// Returns the place after the string or the scalar that begins at `at`.
fn value_end(text: &[u8], at: usize) -> usize {
    if text.get(at) == Some(&b'"') {
        return string_end(text, at);
    }
    let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(is_end).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str) -> String {
        String::from_utf8(Mask::default().name("Harbour-Pin").message(text.as_bytes()).text).expect("UTF-8")
    }

    #[test]
    fn values_of_secret_names_are_masked_at_any_depth() {
        let cases = [
            (
                r#"{"a":{"api_key":"x"},"b":[{"Password" : "y\"z"}]}"#,
                r#"{"a":{"api_key":"[masked]"},"b":[{"Password" : "[masked]"}]}"#,
            ),
            (r#"{"harbour_pin":1234}"#, r#"{"harbour_pin":"[masked]"}"#),
            (r#"{"p\u0061ssword":"x"}"#, r#"{"p\u0061ssword":"[masked]"}"#),
            // A schema, a progress token and a value that is none stay.
            (
                r#"{"properties":{"password":{"type":"string"}}}"#,
                r#"{"properties":{"password":{"type":"string"}}}"#,
            ),
            (r#"{"_meta":{"progressToken":5}}"#, r#"{"_meta":{"progressToken":5}}"#),
            (r#"{"token":null,"secret":""}"#, r#"{"token":null,"secret":""}"#),
            // Lists, and objects under a name that the user gave.
            (r#"{"password":["a",1,null]}"#, r#"{"password":["[masked]","[masked]",null]}"#),
            (
                r#"{"harbour-pin":{"v":"a","w":[2]},"x":3}"#,
                r#"{"harbour-pin":{"v":"[masked]","w":["[masked]"]},"x":3}"#,
            ),
            // A message within a text, and the code of an error.
            (r#"{"text":"{\"password\":\"x\"}"}"#, r#"{"text":"{\"password\":\"[masked]\"}"}"#),
            (r#"{"error":{"code":-32602}}"#, r#"{"error":{"code":-32602}}"#),
            // A form.
            ("grant_type=x&client_secret=a&code=b", "grant_type=x&client_secret=[masked]&code=[masked]"),
            // No JSON, and cut off.
            (r#"noise "password": "x"#, r#"noise "password": "[masked]"#),
            (r#""password":"#, r#""password":"#),
        ];
        for (text, want) in cases {
            assert_eq!(masked(text), want, "{text}");
        }
    }

    #[test]
    fn secrets_by_their_form_are_masked_in_any_text() {
        let token = "ghp_0123456789012345678901";
        assert_eq!(
            masked(&format!(r#"{{"text":"use {token}, please"}}"#)),
            r#"{"text":"use [masked], please"}"#
        );
        for text in [
            format!("INFO using {token}"),
            format!(r#"{{"text":"a:\n{token}"}}"#),
            format!(r#"{{"text":"a:\u000a{token}"}}"#),
            format!(r#"{{"{token}":1}}"#),
        ] {
            assert_eq!(masked(&text), text.replace(token, "[masked]"));
        }
        assert_eq!(
            Mask::default().words("Authorization: Bearer abcdefgh.ij"),
            "Authorization: Bearer [masked]"
        );
        assert_eq!(Mask::default().words("a task-force of sk-iers"), "a task-force of sk-iers");
        assert_eq!(Mask::none().words(token), token);
    }

    #[test]
    fn urls_heads_and_commands_are_masked() {
        let mask = Mask::default();
        let head = "POST /p/ghp_0123456789012345678901?a=1&code=x HTTP/1.1\nReferer: http://h/?token=y&b=2\nCookie: z";
        let want = "POST /p/[masked]?a=1&code=[masked] HTTP/1.1\nReferer: http://h/?token=[masked]&b=2\nCookie: [masked]";
        assert_eq!(mask.head(head), want);
        let command = ["s", "--api-key", "a", "--token=b", "PASSWORD=c", "--verbose", "d"].map(str::to_owned);
        let want = ["s", "--api-key", "[masked]", "--token=[masked]", "PASSWORD=[masked]", "--verbose", "d"];
        assert_eq!(mask.command(&command), want);
    }

    /// Whatever the text: masking ends, and does not panic.
    #[test]
    fn any_text_can_be_masked() {
        let alphabet = b"\"\\:{}[],a1 n=&?";
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            let text: Vec<u8> = (0..24)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    alphabet[(seed >> 33) as usize % alphabet.len()]
                })
                .collect();
            let text = [b"{\"token\":".as_slice(), &text].concat();
            let masked = Mask::default().message(&text);
            assert!(masked.place(text.len()) <= masked.text.len(), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn a_place_moves_with_what_is_replaced_before_it() {
        let text = br#"{"password":"0123456789abc","x":1}"#;
        let masked = Mask::default().message(text);
        assert_eq!(masked.text, br#"{"password":"[masked]","x":1}"#);
        // Before it, at its begin, within it, after it.
        assert_eq!(
            [3, 13, 20, 26, text.len()].map(|at| masked.place(at)),
            [3, 13, 13, 21, masked.text.len()]
        );
    }
}
