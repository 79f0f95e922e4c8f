//! `WWW-Authenticate`, read by `http-auth` and by the grammar of RFC 9110.

use std::collections::BTreeSet;

use http_auth::parser::ChallengeParser;
use mcp_proto::http::client::parse_challenges;

use crate::compare::{Comparison, for_each_input};

const EXAMPLES: [&str; 6] = [
    "Bearer resource_metadata=\"https://h/.well-known/oauth-protected-resource\", scope=\"a b\"",
    "Basic realm=\"x, y=\\\"z\\\"\", Bearer error=invalid_token",
    "Bearer",
    "Negotiate, Bearer realm=a",
    "Digest realm=\"r\", qop=\"auth,auth-int\", nonce=n, Basic realm=\"b\"",
    ", Bearer  a = \"b\" , c=d,,e=f",
];
const PIECES: [&str; 13] =
    ["Bearer", "Basic", " ", ",", "=", "a", "b", "\"", "\\", "a=\"", "c=d", "realm=\"x\"", "\t"];

/// Schemes and their parameters, names in lower case.
type Challenges = Vec<(String, Vec<(String, String)>)>;

fn by_http_auth(text: &str) -> Option<Challenges> {
    let mut challenges = Vec::new();
    for challenge in ChallengeParser::new(text) {
        let challenge = challenge.ok()?;
        let params = challenge.params.iter();
        let params = params.map(|(name, value)| (name.to_ascii_lowercase(), value.to_unescaped())).collect();
        challenges.push((challenge.scheme.to_owned(), params));
    }
    Some(challenges)
}

/// Reads a field by RFC 9110, 11.6.1: elements of the list first, then which of them begin a challenge.
fn by_grammar(text: &str) -> Option<Challenges> {
    let (mut elements, mut element, mut chars) = (Vec::new(), String::new(), text.chars());
    while let Some(c) = chars.next() {
        match c {
            ',' => elements.push(std::mem::take(&mut element)),
            '"' => {
                element.push(c);
                loop {
                    let c = chars.next()?;
                    element.push(c);
                    match c {
                        '"' => break,
                        '\\' => element.push(chars.next()?),
                        _ => {}
                    }
                }
            }
            _ => element.push(c),
        }
    }
    elements.push(element);
    let mut challenges: Challenges = Vec::new();
    let space = [' ', '\t'];
    for element in elements.iter().map(|e| e.trim_matches(space)).filter(|e| !e.is_empty()) {
        if let Some(param) = param(element) {
            challenges.last_mut()?.1.push(param);
            continue;
        }
        let (scheme, rest) = element.split_once(space).unwrap_or((element, ""));
        let rest = rest.trim_start_matches(space);
        let is_token68 = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/".contains(&b);
        let params = match param(rest) {
            Some(param) => Vec::from([param]),
            None if rest.trim_end_matches('=').bytes().all(is_token68) => Vec::new(),
            None => return None,
        };
        challenges.push((token(scheme)?.to_owned(), params));
    }
    Some(challenges)
}

fn param(text: &str) -> Option<(String, String)> {
    let space = [' ', '\t'];
    let (name, value) = text.split_once('=')?;
    let (name, value) = (token(name.trim_end_matches(space))?, value.trim_start_matches(space));
    let Some(quoted) = value.strip_prefix('"') else {
        return Some((name.to_ascii_lowercase(), token(value)?.into()));
    };
    let (mut value, mut chars) = (String::new(), quoted.strip_suffix('"')?.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => return None,
            '\\' => value.push(chars.next()?),
            c => value.push(c),
        }
    }
    Some((name.to_ascii_lowercase(), value))
}

fn token(text: &str) -> Option<&str> {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    (!text.is_empty() && text.bytes().all(is_token)).then_some(text)
}

/// Returns the class of a field by which `differences.tsv` lists it.
fn class(read: &Challenges) -> &'static str {
    let is_repeated = |(_, params): &(String, Vec<(String, String)>)| {
        let names: BTreeSet<&String> = params.iter().map(|(name, _)| name).collect();
        names.len() < params.len()
    };
    match () {
        () if read.iter().any(is_repeated) => "repeated parameter",
        () if read.iter().any(|(_, params)| params.len() > 16) => "more than 16 parameters",
        () => "",
    }
}

#[test]
fn challenges_that_are_accepted_are_read_alike_by_http_auth_and_the_grammar() {
    let mut comparison = Comparison::new("challenge");
    let check = |input: &[u8]| {
        // Other bytes are in no field value.
        if !input.iter().all(|b| matches!(b, b'\t' | b' '..=b'~')) || input.len() > 4_096 {
            return;
        }
        let text = str::from_utf8(input).expect("ASCII");
        let read = |text: &str| -> Challenges {
            let found = parse_challenges([text.as_bytes()].into_iter());
            found.into_iter().map(|challenge| (challenge.scheme, challenge.params)).collect()
        };
        let ours = read(text);
        // After an error ours keeps what came before it; so a field counts as accepted if a challenge behind it is found.
        let whole = read(&format!("{text}, Last l=\"m\""));
        let is_whole = whole.last().is_some_and(|last| last.0 == "Last") && whole[..whole.len() - 1] == ours;
        if comparison.count(input, (is_whole && !ours.is_empty()).then_some(())).is_none() {
            return;
        }
        let (auth, grammar) = (by_http_auth(text), by_grammar(text));
        let class = grammar.as_ref().map_or("", class);
        comparison.check("grammar", input, &ours, grammar.as_ref(), class);
        let class = if auth.is_none() && class.is_empty() { "refused" } else { class };
        comparison.check("http-auth", input, &ours, auth.as_ref(), class);
    };
    for_each_input("challenge", &EXAMPLES, &PIECES, 5, check);
    comparison.finish(10_000);
}
