//! Tokens of another implementation, and what authorization servers put into headers and keys.

use super::*;
use crate::token::jwt::{PublicKey, decode, public_jwk};

/// Keys, tokens of every algorithm, and a bound token with its proof, made by the npm package `jose`.
fn foreign() -> (Web, Value) {
    let made: Value =
        serde_json::from_slice(include_bytes!("../../../tests/keys/tokens.json")).expect("a fixture");
    let keys = made["keys"].as_array().expect("keys");
    (Web::with_keys(keys), made["tokens"].clone())
}

fn with_header(key: &SigningKey, name: &str, value: Value) -> String {
    let mut header = json!({"alg": key.algorithm(), "kid": "k", "typ": "at+jwt"});
    header[name] = value;
    key.sign(&header, &claims())
}

// covers: AUTH-009, AUTH-010
#[test]
fn tokens_of_another_implementation_are_validated() {
    let (web, tokens) = foreign();
    let (validator, _) = jwt_validator(&web);
    for algorithm in Algorithm::ALL {
        let token = tokens[algorithm.name()].as_str().expect("a token of each algorithm");
        let identity = validate(&validator, token).expect("valid");
        assert_eq!((identity.principal(), identity.granted().as_str()), ("alice", "files:read mail"));
        let (signed, signature) = token.rsplit_once('.').expect("a signature");
        for other in Algorithm::ALL.into_iter().filter(|other| *other != algorithm) {
            let foreign = tokens[other.name()].as_str().expect("a token");
            let (_, foreign) = foreign.rsplit_once('.').expect("a signature");
            assert!(validate(&validator, &format!("{signed}.{foreign}")).is_err(), "{}", other.name());
        }
        for at in [0, signature.len() / 2, signature.len() - 3] {
            let mut changed: Vec<char> = signature.chars().collect();
            changed[at] = if changed[at] == 'A' { 'B' } else { 'A' };
            let changed: String = changed.into_iter().collect();
            let reason = why(validate(&validator, &format!("{signed}.{changed}")));
            assert!(reason.contains("signature"), "{} {at}: {reason}", algorithm.name());
        }
    }
}

// covers: AUTH-009
#[test]
fn proof_of_another_implementation_is_accepted_once() {
    let (web, tokens) = foreign();
    let (validator, _) = jwt_validator(&web);
    let text = |name: &str| tokens[name].as_str().expect("a token").to_owned();
    let (token, proof) = (text("bound"), text("proof"));
    let request = TokenRequest::dpop(&token, &proof, "POST", RESOURCE);
    assert_eq!(validator.validate(&request).expect("valid").principal(), "alice");
    assert!(why(validator.validate(&request)).contains("used before"));
    assert!(why(validate(&validator, &token)).contains("bound to a key"));
}

#[test]
fn unknown_members_of_headers_are_ignored() {
    let key = SigningKey::p256();
    let (validator, _) = jwt_validator(&Web::with_keys(&[key.jwk_with_id("k")]));
    for (name, value) in [
        ("oiat", json!(NOW)),
        ("gty", json!(["authorization_code", "refresh_token"])),
        ("ver", json!("1.0")),
        ("twr", Value::Null),
        ("x5c", json!("not a list")),
        ("jwk", json!("not a key")),
    ] {
        assert!(validate(&validator, &with_header(&key, name, value)).is_ok(), "{name}");
    }
    for (name, value) in [
        ("alg", Value::Null),
        ("alg", json!(7)),
        ("alg", json!("es256")),
        ("alg", json!("ES256K")),
        ("alg", json!({"ES256": null, "x": null})),
        ("kid", json!(7)),
        ("typ", json!(7)),
        ("typ", json!(["at+jwt"])),
        ("crit", Value::Null),
        ("crit", json!([])),
        ("b64", json!(true)),
        ("b64", json!("false")),
    ] {
        let reason = why(validate(&validator, &with_header(&key, name, value.clone())));
        assert!(reason.contains("not a JWT"), "{name} {value}: {reason}");
    }
}

#[test]
fn key_verifies_only_algorithms_of_its_kind() {
    let keys = [
        SigningKey::p256(),
        SigningKey::p384(),
        SigningKey::ed25519(),
        SigningKey::rsa("RS256", &RSA_PKCS1_SHA256),
        SigningKey::rsa("PS384", &RSA_PSS_SHA384),
    ];
    for key in &keys {
        let (validator, _) = jwt_validator(&Web::with_keys(&[key.jwk_with_id("k")]));
        for algorithm in Algorithm::ALL {
            let token = with_header(key, "alg", json!(algorithm.name()));
            let is_own = algorithm.name() == key.algorithm();
            assert_eq!(validate(&validator, &token).is_ok(), is_own, "{}", algorithm.name());
        }
        for secret in ["HS256", "HS384", "HS512"] {
            let reason = why(validate(&validator, &with_header(key, "alg", json!(secret))));
            assert!(reason.contains("not a JWT"), "{secret}: {reason}");
        }
    }
}

#[test]
fn keys_of_other_kinds_and_lengths_are_left_out() {
    let (key, ed25519) = (SigningKey::p256(), SigningKey::ed25519());
    let with = |key: &SigningKey, changes: Value| {
        let mut jwk = key.jwk_with_id("k");
        for (name, value) in changes.as_object().expect("an object") {
            jwk[name] = value.clone();
        }
        jwk
    };
    let jwk = key.jwk();
    let text = |name: &str| jwk[name].as_str().expect("a coordinate");
    // The same point, with its bytes divided at another place.
    let point = [decode(text("x")), decode(text("y"))];
    let point = point.map(|half| half.expect("Base64")).concat();
    let divided = json!({"x": encode(&point[..31]), "y": encode(&point[31..])});
    for (signer, jwk) in [
        (&key, with(&key, json!({"crv": "P-384"}))),
        (&key, with(&key, json!({"crv": "P-521"}))),
        (&key, with(&key, json!({"crv": "Ed25519"}))),
        (&key, with(&key, json!({"crv": "secp256k1"}))),
        (&key, with(&key, json!({"kty": "OKP"}))),
        (&key, with(&key, json!({"kty": "oct", "k": "AA"}))),
        (&key, with(&key, json!({"kty": "AKP"}))),
        (&key, with(&key, json!({"y": null}))),
        (&key, with(&key, json!({"kid": 7}))),
        (&key, with(&key, divided)),
        (&ed25519, with(&ed25519, json!({"crv": "X25519"}))),
        (&ed25519, with(&ed25519, json!({"crv": "P-256"}))),
        (&ed25519, with(&ed25519, json!({"x": "AA"}))),
        (&ed25519, with(&ed25519, json!({"alg": "RS256"}))),
        (&ed25519, with(&ed25519, json!({"alg": "unknown"}))),
    ] {
        let read = public_jwk(jwk.as_object().expect("an object")).and_then(|jwk| PublicKey::from_jwk(&jwk));
        assert_eq!(
            read.is_some(),
            jwk.get("alg").is_some(),
            "only the one for another algorithm is read: {jwk}"
        );
        // The key after it is used: one that is left out does not spoil the set.
        let good = SigningKey::rsa("RS256", &RSA_PKCS1_SHA256);
        let (validator, _) = jwt_validator(&Web::with_keys(&[jwk.clone(), good.jwk_with_id("good")]));
        assert!(why(validate(&validator, &signer.token("k", &claims()))).contains("signature"), "{jwk}");
        assert!(validate(&validator, &good.token("good", &claims())).is_ok(), "{jwk}");
    }
}
