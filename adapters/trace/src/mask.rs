//! Secrets are replaced before anything is recorded, so that a trace can be given away.

use mcp_proto::fields::is_secret as is_secret_field;

/// What stands for a secret.
pub const REPLACEMENT: &str = "[masked]";

/// Names of members and header fields whose values are secrets, in lower case, without `-` and `_`.
const SECRET_NAMES: [&str; 22] = [
    "accesstoken",
    "apikey",
    "apitoken",
    "authorization",
    "authtoken",
    "bearer",
    "bearertoken",
    "clientsecret",
    "connectionstring",
    "cookie",
    "credential",
    "credentials",
    "idtoken",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "proxyauthorization",
    "refreshtoken",
    "secret",
    "setcookie",
    "token",
];

/// Beginnings of words that are secrets wherever they stand, with the least number of characters that follow.
const SECRET_WORDS: [(&str, usize); 13] = [
    ("AKIA", 16),
    ("AIza", 30),
    ("Bearer ", 8),
    ("eyJ", 40),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghs_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("npm_", 30),
    ("sk-", 20),
    ("xoxb-", 10),
    ("xoxp-", 10),
];

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
    /// Parts that were replaced: begin and end before, and begin after.
    replaced: Vec<(usize, usize, usize)>,
}

impl Masked {
    /// Returns where a place of the text before is now. One within a secret is at the begin of what stands for it.
    pub(crate) fn place(&self, offset: usize) -> usize {
        let before = self.replaced.iter().rev().find(|(begin, _, _)| *begin < offset);
        match before {
            None => offset,
            Some((_, end, now)) if offset < *end => *now,
            Some((_, end, now)) => offset - end + now + REPLACEMENT.len(),
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
            names.push(plain(name));
        }
        self
    }

    /// Returns whether anything is masked.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        self.names.is_some()
    }

    /// Masks a text of any kind: words that are secrets by their form.
    #[must_use]
    pub fn words(&self, text: &str) -> String {
        let mut out = Replacing::new(text.as_bytes());
        if self.is_active() {
            mask_words(&mut out, 0, text.len());
        }
        String::from_utf8_lossy(&out.finish().text).into_owned()
    }

    /// Masks the head of an HTTP message: secrets in the query, and the values of fields whose name suggests one.
    pub(crate) fn head(&self, head: &str) -> String {
        let Some(names) = &self.names else { return head.to_owned() };
        let mut lines = head.lines();
        let first = lines.next().unwrap_or_default();
        let mut masked = match first.split_once('?') {
            Some((before, after)) => {
                let (query, rest) = after.split_once(' ').unwrap_or((after, ""));
                let parameters = query.split('&').map(|parameter| match parameter.split_once('=') {
                    Some((name, _)) if is_secret(name, names) || is_secret_field(name) => {
                        format!("{name}={REPLACEMENT}")
                    }
                    _ => self.words(parameter),
                });
                let query = parameters.collect::<Vec<_>>().join("&");
                format!("{before}?{query} {rest}").trim_end().to_owned()
            }
            None => first.to_owned(),
        };
        for line in lines {
            masked.push('\n');
            let name = line.split(':').next().unwrap_or_default();
            if is_secret(name, names) || is_secret_field(name) {
                masked.push_str(&format!("{name}: {REPLACEMENT}"));
            } else {
                masked.push_str(&self.words(line));
            }
        }
        masked
    }

    /// Masks a message. It need not be valid JSON: what looks like a member with a secret name is masked anyway.
    pub(crate) fn message(&self, text: &[u8]) -> Masked {
        let mut out = Replacing::new(text);
        if let Some(names) = &self.names {
            let mut at = 0;
            while let Some(&byte) = text.get(at) {
                if byte != b'"' {
                    at += 1;
                    continue;
                }
                let end = string_end(text, at);
                let colon = skip_space(text, end);
                if text.get(colon) != Some(&b':') {
                    mask_words(&mut out, at + 1, end.saturating_sub(1));
                    at = end;
                    continue;
                }
                let begin = skip_space(text, colon + 1);
                if is_secret(name_of(text.get(at..end).unwrap_or_default()).as_str(), names) {
                    let end = value_end(text, begin);
                    // A value that nobody could use is shown: `"password":null` in a schema, `true`.
                    if !matches!(text.get(begin..end), Some(b"" | b"null" | b"true" | b"false" | b"\"\""))
                        && !is_container(text, begin)
                    {
                        out.replace_quoted(begin, end);
                        at = end;
                        continue;
                    }
                }
                at = begin;
            }
        }
        out.finish()
    }
}

/// Returns whether a value begins here whose members are masked by their own names: schemas have properties with such names.
fn is_container(text: &[u8], at: usize) -> bool {
    matches!(text.get(at), Some(b'{' | b'['))
}

/// A text that is copied with parts replaced.
struct Replacing<'a> {
    from: &'a [u8],
    text: Vec<u8>,
    copied: usize,
    replaced: Vec<(usize, usize, usize)>,
}

impl<'a> Replacing<'a> {
    fn new(from: &'a [u8]) -> Self {
        Self { from, text: Vec::with_capacity(from.len()), copied: 0, replaced: Vec::new() }
    }

    fn replace(&mut self, begin: usize, end: usize) {
        self.text.extend_from_slice(self.from.get(self.copied..begin).unwrap_or_default());
        self.replaced.push((begin, end, self.text.len()));
        self.text.extend_from_slice(REPLACEMENT.as_bytes());
        self.copied = end;
    }

    /// Replaces a value, which stays a JSON string.
    fn replace_quoted(&mut self, begin: usize, end: usize) {
        if self.from.get(begin) == Some(&b'"') {
            // One without an end has no quote there.
            let is_closed = end > begin + 1 && self.from.get(end - 1) == Some(&b'"');
            self.replace(begin + 1, end - usize::from(is_closed));
            return;
        }
        self.text.extend_from_slice(self.from.get(self.copied..begin).unwrap_or_default());
        self.text.push(b'"');
        self.copied = begin;
        self.replace(begin, end);
        self.text.push(b'"');
    }

    fn finish(mut self) -> Masked {
        self.text.extend_from_slice(self.from.get(self.copied..).unwrap_or_default());
        Masked { text: self.text, replaced: self.replaced }
    }
}

/// Replaces the words of a part of the text that are secrets by their form.
fn mask_words(out: &mut Replacing<'_>, begin: usize, end: usize) {
    let text = out.from;
    let mut at = begin;
    while at < end {
        let rest = text.get(at..end).unwrap_or_default();
        let is_word_start = at == begin || !text.get(at - 1).is_some_and(u8::is_ascii_alphanumeric);
        let found =
            SECRET_WORDS.iter().find(|(start, _)| is_word_start && rest.starts_with(start.as_bytes()));
        let Some((start, least)) = found else {
            at += 1;
            continue;
        };
        let secret = rest.get(start.len()..).unwrap_or_default();
        let length = secret.iter().take_while(|byte| is_token_byte(**byte)).count();
        if length < *least {
            at += start.len();
            continue;
        }
        // The scheme is no secret.
        let shown = if start.ends_with(' ') { start.len() } else { 0 };
        out.replace(at + shown, at + start.len() + length);
        at += start.len() + length;
    }
}

const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+' | b'/' | b'=' | b'~')
}

fn is_secret(name: &str, further: &[String]) -> bool {
    let name = plain(name);
    SECRET_NAMES.binary_search(&name.as_str()).is_ok() || further.contains(&name)
}

/// Returns a name without what spellings differ in.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns the text of a name with its quotes.
fn name_of(quoted: &[u8]) -> String {
    serde_json::from_slice(quoted).unwrap_or_else(|_| String::from_utf8_lossy(quoted).into_owned())
}

/// Returns the place after a string that begins at `at`, or the end of the text.
fn string_end(text: &[u8], at: usize) -> usize {
    let mut next = at + 1;
    while let Some(byte) = text.get(next) {
        match byte {
            b'\\' => next += 2,
            b'"' => return next + 1,
            _ => next += 1,
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
    fn names_are_sorted_for_the_search() {
        assert!(SECRET_NAMES.is_sorted());
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
        assert_eq!(
            Mask::default().words("Authorization: Bearer abcdefgh.ij"),
            "Authorization: Bearer [masked]"
        );
        assert_eq!(Mask::default().words("a task-force of sk-iers"), "a task-force of sk-iers");
        assert_eq!(Mask::none().words(token), token);
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
