//! Texts of the authorization flow, all within a small scope: Base64url, forms, signed texts, and places of documents.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::jose::{Algorithm, AssertionClaims, ProofClaims, base64url, from_base64url, has_audience};
use super::locations::{canonical, covers, resource_metadata, server_metadata};
use super::request::{Form, parse_form};
use crate::extent::exhaustive;
use mcp_proto::http::Url;
use mcp_proto::testing::{for_each_sequence, for_each_text};

/// Calls `check` with every text of at most `longest` of the pieces, and returns how many there were.
fn for_each_str(pieces: &[&str], longest: usize, mut check: impl FnMut(&str)) -> u64 {
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
    for_each_text(&pieces, longest, |text| check(core::str::from_utf8(text).expect("the pieces are UTF-8")))
}

#[test]
fn exhaustive_base64url_is_decoded_as_the_crate_does() {
    exhaustive(
        "Base64url: exactly the texts without padding and unused bits are decoded, and written as the crate base64 does",
        "texts of 9 characters, up to a length of",
        [4, 6, 7],
        |longest| {
            for_each_str(&["A", "Q", "g", "w", "/", "-", "_", "=", "é"], longest, |text| {
                let found = from_base64url(text);
                assert_eq!(found, URL_SAFE_NO_PAD.decode(text).ok(), "{text:?}");
                if let Some(bytes) = found {
                    assert_eq!(base64url(&bytes), text);
                }
            })
        },
    );
}

#[test]
fn exhaustive_forms_are_read_as_they_were_written() {
    exhaustive(
        "forms: parameters are written as the WHATWG serializer does, and read as they were",
        "pairs of texts of 9 pieces, each up to a length of",
        [2, 2, 3],
        |longest| {
            let mut texts = Vec::new();
            for_each_str(&["a", "*", " ", "+", "%", "&", "=", "é", "~"], longest, |text| {
                let mut encoded = String::new();
                for byte in text.bytes() {
                    match byte {
                        b' ' => encoded.push('+'),
                        b if b.is_ascii_alphanumeric() || b"*-._".contains(&b) => encoded.push(char::from(b)),
                        b => encoded += &format!("%{b:02X}"),
                    }
                }
                texts.push((text.to_owned(), encoded));
            });
            for (name, encoded_name) in &texts {
                for (value, encoded_value) in &texts {
                    let mut form = Form::default();
                    form.push(name, value);
                    form.push("b", name);
                    let text = form.into_string();
                    assert_eq!(text, format!("{encoded_name}={encoded_value}&b={encoded_name}"));
                    let mut read = Vec::new();
                    parse_form(&text, &mut |name, value| read.push((name, value))).expect("a form");
                    assert_eq!(read, [(name.clone(), value.clone()), ("b".to_owned(), name.clone())]);
                }
            }
            (texts.len() * texts.len()) as u64
        },
    );
}

#[test]
fn exhaustive_queries_are_read_as_forms() {
    const PIECES: [&str; 9] = ["a", "&", "=", "+", "%", "41", "%c3", "%A9", "é"];
    exhaustive(
        "forms: every text is read as the WHATWG parser reads it, or refused for a malformed escape or for what is not UTF-8",
        "texts of 9 pieces, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_str(&PIECES, longest, |text| {
                let decode = |text: &str| {
                    let mut pieces = text.split('%');
                    let mut bytes = pieces.next().unwrap_or_default().replace('+', " ").into_bytes();
                    for piece in pieces {
                        let digits =
                            piece.get(..2).filter(|two| two.bytes().all(|b| b.is_ascii_hexdigit()))?;
                        bytes.push(u8::from_str_radix(digits, 16).ok()?);
                        bytes.extend(piece[2..].replace('+', " ").bytes());
                    }
                    String::from_utf8(bytes).ok()
                };
                let parts = text.split('&').filter(|part| !part.is_empty());
                let expected: Option<Vec<_>> = parts
                    .map(|part| part.split_once('=').unwrap_or((part, "")))
                    .map(|(name, value)| Some((decode(name)?, decode(value)?)))
                    .collect();
                let mut read = Vec::new();
                let found = parse_form(text, &mut |name, value| read.push((name, value))).map(|()| read);
                assert_eq!(found, expected, "{text:?}");
            })
        },
    );
}

/// Decodes the two parts of a signing input.
fn decoded(input: &str) -> [Value; 2] {
    let parts: Vec<Value> = input
        .split('.')
        .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("Base64")).expect("JSON"))
        .collect();
    parts.try_into().expect("two parts")
}

const TEXTS: [&str; 6] = ["", "a", "\"", "\\\n", "é", "."];

#[test]
fn exhaustive_signed_texts_have_their_claims() {
    exhaustive(
        "proofs and assertions: header and claims are those that were given, whatever characters they have, and no others",
        "3 texts of 6, with and without optional claims and 4 times, of texts up to",
        [3, 3, 3],
        |parts| {
            let mut count = 0;
            for_each_sequence(TEXTS.len(), parts, |sequence| {
                let [one, two, three] = *sequence else { return };
                let (one, two, three) = (TEXTS[one], TEXTS[two], TEXTS[three]);
                for issued_at in [0, 1, u64::MAX - 1, u64::MAX] {
                    for optional in 0..4 {
                        let nonce = Some(three).filter(|_| optional & 1 == 1);
                        let access_token = Some(three).filter(|_| optional & 2 == 2);
                        let proof =
                            ProofClaims { id: one, method: two, url: three, issued_at, nonce, access_token };
                        let [header, mut claims] = decoded(&proof.signing_input(&[7; 64]));
                        let point = URL_SAFE_NO_PAD.encode([7; 32]);
                        let jwk = json!({"crv": "P-256", "kty": "EC", "x": point, "y": point});
                        assert_eq!(header, json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk}));
                        let members = claims.as_object_mut().expect("an object");
                        let ath = members.remove("ath");
                        assert_eq!(ath.is_some(), access_token.is_some());
                        let mut expected = json!({"jti": one, "htm": two, "htu": three, "iat": issued_at});
                        if let Some(nonce) = nonce {
                            expected["nonce"] = nonce.into();
                        }
                        assert_eq!(claims, expected);
                        let assertion = AssertionClaims {
                            id: one,
                            client_id: two,
                            audience: three,
                            issued_at,
                            lifetime: 60,
                        };
                        let [header, claims] = decoded(&assertion.signing_input(Algorithm::EdDsa, nonce));
                        let mut expected = json!({"typ": "JWT", "alg": "EdDSA"});
                        if let Some(key) = nonce {
                            expected["kid"] = key.into();
                        }
                        assert_eq!(header, expected);
                        let expires = issued_at.saturating_add(60);
                        let expected = json!({
                            "iss": two, "sub": two, "aud": three, "jti": one, "iat": issued_at, "exp": expires,
                        });
                        assert_eq!(claims, expected);
                        count += 1;
                    }
                }
            });
            count
        },
    );
}

#[test]
fn exhaustive_audiences_are_those_of_the_claims() {
    const PIECES: [&[u8]; 9] = [b"\"aud\":", b"\"a\"", b"\"b\"", b"\"c\"", b"[", b"]", b",", b"7", b"\"x\":"];
    exhaustive(
        "audiences: of a token those that serde_json finds in it as a string or a list of strings",
        "claims of 9 pieces in an object, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_text(&PIECES, longest, |members| {
                let claims = [b"{", members, b"}"].concat();
                let token = format!("e30.{}.x", URL_SAFE_NO_PAD.encode(&claims));
                let found = has_audience(&token, ["a", "b"]);
                let Ok(value) = serde_json::from_slice::<Value>(&claims) else {
                    assert_eq!(found, None, "{}", claims.escape_ascii());
                    return;
                };
                let is_one = |value: &Value| value == "a" || value == "b";
                let expected = match value.get("aud") {
                    Some(Value::String(_)) => Some(value.get("aud").is_some_and(is_one)),
                    Some(Value::Array(all)) if all.iter().all(Value::is_string) => {
                        Some(all.iter().any(is_one))
                    }
                    _ => None,
                };
                // A name that occurs twice makes a document that two readers read in two ways.
                let is_repeated = ["aud", "x"].iter().any(|name| {
                    claims.windows(name.len() + 3).filter(|w| *w == format!("\"{name}\":").as_bytes()).count()
                        > 1
                });
                assert_eq!(found, expected.filter(|_| !is_repeated), "{}", claims.escape_ascii());
            })
        },
    );
}

#[test]
fn exhaustive_resources_cover_whole_segments() {
    exhaustive(
        "protected resources: one covers a server of its origin whose segments begin with its own, with a query only itself",
        "pairs of URLs whose paths have 6 pieces, up to a length of",
        [3, 3, 4],
        |longest| {
            let mut urls = Vec::new();
            for_each_str(&["/", "a", "b", "?", "%41", "/a"], longest, |path| {
                urls.extend(Url::parse(&format!("https://h/{path}")).ok());
                urls.extend(Url::parse(&format!("https://h:8/{path}")).ok().filter(|_| path.len() < 2));
            });
            for resource in &urls {
                for server in &urls {
                    let parts = |url: &Url| -> (String, Vec<String>, bool) {
                        let (path, query) = url
                            .target()
                            .split_once('?')
                            .map_or_else(|| (url.target(), false), |(p, _)| (p, true));
                        let path = path.trim_end_matches('/').split('/').skip(1).map(str::to_owned);
                        (format!("{}", url.origin()), path.collect(), query)
                    };
                    let ((origin, path, has_query), (server_origin, server_path, _)) =
                        (parts(resource), parts(server));
                    let expected = match has_query {
                        true => resource.target() == server.target(),
                        false => server_path.starts_with(&path),
                    };
                    let found = covers(resource, server);
                    assert_eq!(found, origin == server_origin && expected, "{resource:?} {server:?}");
                }
            }
            (urls.len() * urls.len()) as u64
        },
    );
}

#[test]
fn exhaustive_documents_are_looked_for_where_the_standards_say() {
    exhaustive(
        "metadata: the places are those of RFC 9728, 3.1 and RFC 8414, 3.1, each once, and all of the origin that was asked for",
        "URLs whose path and query have 7 pieces, up to a length of",
        [4, 5, 6],
        |longest| {
            for_each_str(&["/", "a", ".", "?", "%2F", "/b", "="], longest, |text| {
                let Ok(url) = Url::parse(&format!("https://h:8/{text}")) else { panic!("{text}") };
                let (path, query) =
                    url.target().split_once('?').map_or_else(|| (url.target(), None), |(p, q)| (p, Some(q)));
                let bare = path.trim_end_matches('/');
                let known = |name: &str| format!("/.well-known/{name}{bare}");
                let mut resource = Vec::new();
                resource.extend(query.map(|query| format!("{}?{query}", known("oauth-protected-resource"))));
                resource.push(known("oauth-protected-resource"));
                resource.push("/.well-known/oauth-protected-resource".to_owned());
                resource.dedup();
                let mut server =
                    Vec::from([known("oauth-authorization-server"), known("openid-configuration")]);
                server.extend((!bare.is_empty()).then(|| format!("{bare}/.well-known/openid-configuration")));
                for (places, expected) in
                    [(resource_metadata(&url), resource), (server_metadata(&url), server)]
                {
                    assert!(places.iter().all(|place| place.origin() == url.origin()));
                    let targets: Vec<&str> = places.iter().map(Url::target).collect();
                    assert_eq!(targets, expected, "{text}");
                }
                let slash = if path == "/" { "" } else { path };
                assert_eq!(canonical(&url), format!("https://h:8{slash}"));
            })
        },
    );
}
