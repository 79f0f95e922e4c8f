//! Body of the fuzz target `jwt`: tokens, and headers and claims of tokens and proofs.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_oauth::{DpopKey, Fetch, FetchFailure, FetchResponse};
use mcp_proto::http::server::{Protected, TokenRequest};
use serde_json::{Map, Value, json};

use super::jwt::{Algorithm, Jws, MAX_TOKEN, PublicKey, decode, encode, object, public_jwk, sha256};
use super::{JwtValidator, TokenValidator};
use crate::client::{ClientKey, Fetcher, generate_dpop_key, sign_dpop};

const RESOURCE: &str = "https://h/mcp";
const ISSUER: &str = "https://as";
const KEYS_URL: &str = "https://as/keys";
/// Unix time of the validator, in seconds.
const NOW: u64 = 1_800_000_000;
/// Seconds by which clocks may differ.
const SKEW: f64 = 60.0;

/// Key of the authorization server.
static ISSUER_KEY: LazyLock<ClientKey> = LazyLock::new(|| {
    ClientKey::from_pem(include_str!("../../tests/keys/p256.pem")).expect("a key of the tests")
});
/// Key of a client, to which [`BOUND`] is bound. It differs in each process: what depends on it has names in inputs.
static CLIENT_KEY: LazyLock<DpopKey> = LazyLock::new(|| generate_dpop_key().expect("randomness"));
/// Key of another client.
static OTHER_KEY: LazyLock<DpopKey> = LazyLock::new(|| generate_dpop_key().expect("randomness"));
/// A valid token that is bound to a key.
static BOUND: LazyLock<String> = LazyLock::new(|| {
    let DpopKey { public, .. } = &*CLIENT_KEY;
    let (x, y) = public.split_at(32);
    let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#, encode(x), encode(y));
    let binding = encode(&sha256(canonical.as_bytes()));
    let claims =
        json!({"iss": ISSUER, "aud": RESOURCE, "sub": "a", "exp": NOW + 60, "cnf": {"jkt": binding}});
    issued(r#"{"alg":"ES256"}"#, &claims.to_string())
});

/// Reads a token, or the header and the claims of a token or of a proof, on two lines. The first byte chooses.
///
/// In a proof `"JWK"` stands for the key of the client and `ATH` for the digest of its token. With `"OTHER"` another
/// client signs, whose key that is.
///
/// # Panics
///
/// Panics if a token is read whose header names no allowed algorithm or an extension, if a signature fits that nobody
/// made, or if a validator accepts what is not for it.
pub fn jwt(data: &[u8]) {
    if let Some((mode, text)) = data.split_first() {
        check(*mode, &String::from_utf8_lossy(text));
    }
}

/// Reads a text in one of three ways, and returns whether it was accepted.
fn check(mode: u8, text: &str) -> bool {
    let (header, claims) = text.split_once('\n').unwrap_or((text, "{}"));
    match mode % 3 {
        0 => check_token(text),
        1 => check_access_token(header, claims),
        _ => check_proof(header, claims),
    }
}

/// Reads a whole token, which no key here has signed. Returns whether it has the form of one.
fn check_token(token: &str) -> bool {
    let Some(jws) = Jws::parse(token) else { return false };
    assert!(token.len() <= MAX_TOKEN, "a long token is read");
    let parts: [&str; 3] = token.split('.').collect::<Vec<_>>().try_into().expect("three parts");
    // There is one spelling of each token, so that its digest stands for it.
    assert!(parts.iter().all(|part| decode(part).is_some_and(|bytes| encode(&bytes) == *part)), "{token}");
    let header = parts.first().and_then(|part| object(&decode(part)?)).expect("a header");
    check_header(&header, &jws);
    assert!(jws.verify(&issuer_key()).is_none(), "a signature that nobody made fits: {token}");
    true
}

/// Checks what was read from a header.
fn check_header(header: &Map<String, Value>, jws: &Jws<'_>) {
    let text = |name: &str| header.get(name).and_then(Value::as_str);
    let name = text("alg").expect("an algorithm");
    assert!(!name.eq_ignore_ascii_case("none") && !name.starts_with("HS"), "{name}");
    assert!(Algorithm::ALL.contains(&jws.algorithm) && jws.algorithm.name() == name, "{name}");
    assert!(!header.contains_key("crit") && !header.contains_key("b64"), "an extension is ignored");
    assert_eq!((jws.kind(), jws.key_id()), (text("typ"), text("kid")));
    if let Some(key) = jws.own_key() {
        let jwk = header.get("jwk").and_then(Value::as_object).expect("a key");
        assert!(!["d", "p", "q", "k"].iter().any(|name| jwk.contains_key(*name)), "a private key is read");
        assert!(key.p256().is_none_or(|(x, y)| (x.len(), y.len()) == (32, 32)));
    }
}

/// Presents a token with this header and these claims, signed by the authorization server. Returns whether it is accepted.
fn check_access_token(header: &str, claims: &str) -> bool {
    let token = issued(header, claims);
    let request = TokenRequest::bearer(&token, "POST", RESOURCE);
    let Ok(identity) = validator().validate(&request) else { return false };
    let (header, claims) = (read(header), read(claims));
    check_header(&header, &Jws::parse(&token).expect("it was read before"));
    assert_eq!(header.get("alg"), Some(&json!("ES256")), "the key is for another algorithm");
    let kind = header.get("typ").and_then(Value::as_str).map(str::to_ascii_lowercase);
    let kinds = ["at+jwt", "application/at+jwt", "jwt", "application/jwt"];
    assert!(kind.is_none_or(|kind| kinds.contains(&&*kind)), "the token is of another type");
    let claim = |name: &str| claims.get(name).unwrap_or(&Value::Null);
    assert_eq!(claim("iss"), ISSUER);
    let audiences =
        claim("aud").as_array().map_or_else(|| core::slice::from_ref(claim("aud")), Vec::as_slice);
    assert!(audiences.iter().filter_map(Value::as_str).any(is_resource), "the token is for another server");
    assert!(claim("exp").as_f64().is_some_and(|at| at > NOW as f64 - SKEW), "it has expired");
    assert!(claim("nbf").as_f64().is_none_or(|at| at < NOW as f64 + SKEW + 1.0), "it is not valid yet");
    assert!(!claims.contains_key("cnf"), "a bound token without a proof");
    assert!(!identity.principal().is_empty() && identity.lifetime().is_some());
    let (signed, signature) = token.rsplit_once('.').expect("a signature");
    for forged in
        [format!("{signed}."), format!("{signed}.{}", encode(&[0; 64])), token.replace(signature, "AA")]
    {
        let request = TokenRequest::bearer(&forged, "POST", RESOURCE);
        assert!(validator().validate(&request).is_err(), "a forged signature fits");
    }
    true
}

/// Returns whether a name is that of [`RESOURCE`], whose scheme and host have no case, and whose port need not be named.
fn is_resource(name: &str) -> bool {
    let Some(start) = name.strip_suffix("/mcp") else { return false };
    let start = start.to_ascii_lowercase();
    let port = start.strip_prefix("https://h");
    port.is_some_and(|port| ["", ":", ":443", ":0443", ":00443"].contains(&port))
}

/// Presents a bound token with a proof of this header and these claims, signed by the client. Returns whether it is
/// accepted.
fn check_proof(header: &str, claims: &str) -> bool {
    let jwk = |key: &DpopKey| {
        let (x, y) = key.public.split_at(32);
        json!({"kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y)})
    };
    let DpopKey { private, .. } = if header.contains(r#""OTHER""#) { &*OTHER_KEY } else { &*CLIENT_KEY };
    let digest = encode(&sha256(BOUND.as_bytes()));
    let header = header.replace(r#""JWK""#, &jwk(&CLIENT_KEY).to_string());
    let header = header.replace(r#""OTHER""#, &jwk(&OTHER_KEY).to_string());
    let claims = claims.replace("ATH", &digest);
    let input = signing_input(&header, &claims);
    let signature = sign_dpop(private, input.as_bytes()).expect("a signature");
    let proof = format!("{input}.{}", encode(&signature));
    let request = TokenRequest::dpop(&BOUND, &proof, "POST", RESOURCE);
    let validator = validator();
    if validator.validate(&request).is_err() {
        return false;
    }
    let (header, claims) = (read(&header), read(&claims));
    check_header(&header, &Jws::parse(&proof).expect("it was read before"));
    let member = |name: &str| header.get("jwk").and_then(|jwk| jwk.get(name));
    let own = jwk(&CLIENT_KEY);
    assert_eq!((member("x"), member("y")), (own.get("x"), own.get("y")), "the proof of another key");
    assert_eq!((header.get("typ"), header.get("alg")), (Some(&json!("dpop+jwt")), Some(&json!("ES256"))));
    let claim = |name: &str| claims.get(name).unwrap_or(&Value::Null);
    assert_eq!((claim("htm"), claim("ath")), (&json!("POST"), &json!(digest)));
    assert!(claim("htu").as_str().is_some_and(|url| url.to_ascii_lowercase().starts_with("https://h")));
    assert!(claim("iat").as_f64().is_some_and(|at| (at - NOW as f64).abs() < SKEW + 1.0));
    assert!(claim("jti").as_str().is_some_and(|id| !id.is_empty()));
    assert!(validator.validate(&request).is_err(), "a proof is used twice");
    true
}

/// Parses a JSON object that was accepted.
fn read(json: &str) -> Map<String, Value> {
    object(json.as_bytes()).expect("an object")
}

fn signing_input(header: &str, claims: &str) -> String {
    format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()))
}

/// Returns a token that the authorization server has signed.
fn issued(header: &str, claims: &str) -> String {
    let input = signing_input(header, claims);
    let signature = ISSUER_KEY.sign(input.as_bytes()).expect("a signature");
    format!("{input}.{}", encode(&signature))
}

/// Returns the public key of the authorization server as a JWK.
fn issuer_jwk() -> Value {
    let point = STANDARD.decode(include_str!("../../tests/keys/p256.public").trim()).expect("Base64");
    let (x, y) = point.get(1..).expect("a point").split_at(32);
    json!({"kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y), "kid": "k"})
}

fn issuer_key() -> PublicKey {
    let jwk = issuer_jwk();
    let jwk = public_jwk(jwk.as_object().expect("an object")).expect("a public key");
    PublicKey::from_jwk(&jwk).expect("a key for signatures")
}

/// Serves the keys of the authorization server.
struct Keys;

impl Fetcher for Keys {
    fn fetch(&self, _: &Fetch) -> Result<FetchResponse, FetchFailure> {
        let body = json!({"keys": [issuer_jwk()]}).to_string().into_bytes();
        Ok(FetchResponse { status: 200, body, ..FetchResponse::default() })
    }
}

fn validator() -> JwtValidator {
    let protected = Protected::new(RESOURCE, ISSUER).expect("a resource and an issuer");
    JwtValidator::new(&protected, Keys).keys_url(ISSUER, KEYS_URL).expect("a URL").clock(|| NOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz_tests;

    #[test]
    fn name_of_the_resource_has_several_spellings() {
        for name in [RESOURCE, "HTTPS://H/mcp", "https://h:443/mcp", "https://h:/mcp"] {
            assert!(is_resource(name), "{name}");
        }
        for name in ["", "https://h", "https://h/MCP", "http://h/mcp", "https://h:+443/mcp", "https://hh/mcp"]
        {
            assert!(!is_resource(name), "{name}");
        }
    }

    #[test]
    fn jwt_target_accepts_seeds_and_noise() {
        fuzz_tests::for_each_variant("jwt", jwt);
    }

    // Otherwise the checks of what is accepted check nothing.
    #[test]
    fn jwt_target_reaches_valid_tokens_and_proofs() {
        let claims = r#"{"iss":"https://as","aud":"https://h/mcp","sub":"a","exp":1800000060}"#;
        assert!(check(1, &format!("{}\n{claims}", r#"{"alg":"ES256","kid":"k","typ":"at+jwt"}"#)));
        assert!(!check(1, &format!("{}\n{claims}", r#"{"alg":"none"}"#)));
        let token = |header: &str| format!("{}.AAAA", signing_input(header, claims));
        for mode in [0, 3] {
            assert!(check(mode, &token(r#"{"alg":"ES256"}"#)));
            assert!(!check(mode, &token(r#"{"alg":"none"}"#)));
        }
        let header = r#"{"typ":"dpop+jwt","alg":"ES256","jwk":"JWK"}"#;
        let claims = r#"{"jti":"1","htm":"POST","htu":"https://h/mcp","iat":1800000000,"ath":"ATH"}"#;
        assert!(check(2, &format!("{header}\n{claims}")));
        assert!(!check(2, &format!("{header}\n{}", claims.replace("ATH", ""))));
    }

    #[test]
    #[should_panic(expected = "HS256")]
    fn jwt_target_fails_if_a_forbidden_algorithm_is_read() {
        let token = format!("{}.AAAA", signing_input(r#"{"alg":"ES256"}"#, "{}"));
        check_header(&read(r#"{"alg":"HS256"}"#), &Jws::parse(&token).expect("a token"));
    }
}
