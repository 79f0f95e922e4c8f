//! A strict parser of `WWW-Authenticate`, the challenges of a 401 or 403 (RFC 9110, 11.6.1).
//!
//! The list ends at the first syntax error; a challenge is never guessed.

use alloc::string::String;
use alloc::vec::Vec;

use crate::error::AuthChallenge;
use crate::head::is_token;

/// Largest number of challenges kept of one response.
const MAX_CHALLENGES: usize = 8;
/// Largest number of parameters kept of one challenge.
const MAX_PARAMS: usize = 16;
/// Length of the longest field that is parsed, in bytes.
const MAX_FIELD: usize = 8 << 10;

/// Returns all challenges in these values of `WWW-Authenticate` fields, in order (RFC 9110, 11.6.1).
///
/// A value longer than 8 KiB is skipped, and the rest of a value after a malformed challenge.
pub fn parse<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<AuthChallenge> {
    let mut found = Vec::new();
    for value in values {
        if value.len() <= MAX_FIELD {
            // Human-readable texts may have any encoding.
            parse_field(&String::from_utf8_lossy(value), &mut found);
        }
    }
    found
}

struct ChallengeParser<'a> {
    rest: &'a str,
}

impl<'a> ChallengeParser<'a> {
    fn spaces(&mut self) -> bool {
        let before = self.rest.len();
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        self.rest.len() < before
    }

    fn eat(&mut self, byte: u8) -> bool {
        match self.rest.strip_prefix(char::from(byte)) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn take(&mut self, fits: impl Fn(u8) -> bool) -> &'a str {
        let end = self.rest.bytes().position(|b| !fits(b)).unwrap_or(self.rest.len());
        // Accepted bytes are ASCII, so the cut is between characters.
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn token(&mut self) -> Option<&'a str> {
        let token = self.take(|b| is_token(&[b]));
        (!token.is_empty()).then_some(token)
    }

    fn quoted(&mut self) -> Option<String> {
        let mut value = String::new();
        let mut chars = self.rest.char_indices();
        loop {
            match chars.next()? {
                (at, '"') => {
                    self.rest = self.rest.get(at + 1..)?;
                    return Some(value);
                }
                (_, '\\') => value.push(chars.next()?.1),
                (_, c) => value.push(c),
            }
        }
    }

    /// Parses `name = value`; returns `None` and consumes nothing if there is something else.
    fn param(&mut self) -> Option<(String, String)> {
        let mut ahead = ChallengeParser { rest: self.rest };
        let name = ahead.token()?;
        ahead.spaces();
        if !ahead.eat(b'=') {
            return None;
        }
        ahead.spaces();
        let value = if ahead.eat(b'"') { ahead.quoted()? } else { ahead.token()?.into() };
        // A second `=` is padding, so this is a token68 and not a parameter.
        if ahead.rest.starts_with('=') {
            return None;
        }
        self.rest = ahead.rest;
        Some((name.to_ascii_lowercase(), value))
    }
}

fn parse_field(text: &str, found: &mut Vec<AuthChallenge>) {
    let mut parser = ChallengeParser { rest: text };
    loop {
        while parser.spaces() || parser.eat(b',') {}
        if parser.rest.is_empty() || found.len() >= MAX_CHALLENGES {
            return;
        }
        let Some(scheme) = parser.token() else { return };
        let mut challenge = AuthChallenge::new(scheme.into());
        let spaced = parser.spaces();
        if spaced {
            parse_params(&mut parser, &mut challenge);
        }
        let over = parser.rest.is_empty() || parser.rest.starts_with(',');
        found.push(challenge);
        if !over {
            return;
        }
    }
}

fn parse_params(parser: &mut ChallengeParser<'_>, challenge: &mut AuthChallenge) {
    // `Basic dG9rZW4=`: a token68 in place of parameters, which is skipped.
    let mut ahead = ChallengeParser { rest: parser.rest };
    ahead.take(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~' | b'+' | b'/'));
    ahead.take(|b| b == b'=');
    ahead.spaces();
    if parser.peek_param().is_none() && (ahead.rest.is_empty() || ahead.rest.starts_with(',')) {
        parser.rest = ahead.rest;
        return;
    }
    while let Some((name, value)) = parser.param() {
        // Of equal names the first one counts.
        if challenge.params.len() < MAX_PARAMS && challenge.param(&name).is_none() {
            challenge.params.push((name, value));
        }
        parser.spaces();
        let mut ahead = ChallengeParser { rest: parser.rest };
        let mut comma = false;
        while ahead.spaces() || ahead.eat(b',') {
            comma = true;
        }
        if !comma || ahead.peek_param().is_none() {
            return;
        }
        parser.rest = ahead.rest;
    }
}

impl ChallengeParser<'_> {
    /// Returns the next parameter without consuming it.
    fn peek_param(&self) -> Option<(String, String)> {
        ChallengeParser { rest: self.rest }.param()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn shown(text: &str) -> String {
        let all = parse([text.as_bytes()].into_iter());
        let one = |c: &AuthChallenge| {
            let params: Vec<_> = c.params.iter().map(|(n, v)| format!("{n}={v}")).collect();
            format!("{}({})", c.scheme, params.join(";"))
        };
        all.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn challenges_of_all_forms_are_parsed() {
        for (text, expected) in [
            ("Bearer", "Bearer()"),
            (
                r#"Bearer resource_metadata="https://a/b?c=d,e", scope="a b""#,
                "Bearer(resource_metadata=https://a/b?c=d,e;scope=a b)",
            ),
            (
                r#"bearer error=insufficient_scope , Error_Description = "say \"no\"""#,
                r#"bearer(error=insufficient_scope;error_description=say "no")"#,
            ),
            (
                r#"Basic realm="x", Bearer scope="y", DPoP algs="ES256""#,
                "Basic(realm=x) Bearer(scope=y) DPoP(algs=ES256)",
            ),
            ("Negotiate dG9rZW4=, Bearer", "Negotiate() Bearer()"),
            ("Basic, Bearer realm=a,,", "Basic() Bearer(realm=a)"),
            (r#"Bearer a=1, a=2, A=3"#, "Bearer(a=1)"),
            ("", ""),
            (",,", ""),
            // The list ends at a syntax error.
            (r#"Bearer scope="open"#, "Bearer()"),
            ("\u{e9}", ""),
            ("Bearer \u{e9}, Basic", "Bearer()"),
            (r#"Bearer a="x" b=c, Basic"#, "Bearer(a=x)"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn several_fields_form_one_bounded_list() {
        let fields = [&b"Basic realm=a"[..], b"Bearer scope=b"];
        assert_eq!(parse(fields.into_iter()).len(), 2);
        assert_eq!(parse([b"A,".repeat(100).as_slice()].into_iter()).len(), MAX_CHALLENGES);
        let foreign =
            parse([&b"Bearer realm=\"caf\xe9\", scope=\"a\", Basic realm=\xe9, Digest"[..]].into_iter());
        assert_eq!((foreign.len(), foreign[0].param("scope")), (2, Some("a")));
        assert!(parse(["Bearer ".repeat(2_000).as_bytes()].into_iter()).is_empty());
        let many: String = (0..100).map(|i| format!("p{i}=1,")).collect();
        assert_eq!(parse([format!("B {many}").as_bytes()].into_iter())[0].params.len(), MAX_PARAMS);
    }
}
