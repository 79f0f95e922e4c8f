//! Fuzz target for the challenges in `WWW-Authenticate`.

use mcp_proto::AuthChallenge;
use mcp_proto::head::is_token;
use mcp_proto::http::client::parse_challenges;

/// Parses field values, one on each line, and checks the result.
///
/// - The number of challenges and parameters is bounded.
/// - Schemes and names are tokens. Names are in lower case and occur once.
/// - A further field adds challenges and changes none.
/// - Challenges that are written in their plainest form are read as they were.
pub fn challenge(data: &[u8]) {
    let fields: Vec<&[u8]> = data.split(|b| *b == b'\n').collect();
    let found = parse_challenges(fields.iter().copied());
    assert!(found.len() <= 8, "{} challenges", found.len());
    for challenge in &found {
        assert!(is_token(challenge.scheme.as_bytes()), "{challenge:?}");
        assert!(challenge.params.len() <= 16, "{challenge:?}");
        for (at, (name, _)) in challenge.params.iter().enumerate() {
            assert!(is_token(name.as_bytes()) && *name == name.to_ascii_lowercase(), "{challenge:?}");
            assert!(challenge.params.iter().skip(at + 1).all(|(other, _)| other != name), "{challenge:?}");
        }
    }
    let first = parse_challenges(fields.iter().copied().take(1));
    assert!(found.starts_with(&first), "{first:?} became {found:?}");
    let text = found.iter().map(write).collect::<Vec<_>>().join(", ");
    // A longer field is not parsed at all.
    if text.len() <= 8 << 10 {
        assert_eq!(parse_challenges([text.as_bytes()].into_iter()), found, "{text}");
    }
}

/// Writes a challenge with quoted values.
fn write(challenge: &AuthChallenge) -> String {
    let quoted = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"");
    let params: Vec<String> =
        challenge.params.iter().map(|(name, value)| format!("{name}=\"{}\"", quoted(value))).collect();
    format!("{} {}", challenge.scheme, params.join(", "))
}
