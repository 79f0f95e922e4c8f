//! Validators with keys of real algorithms, and hostile tokens, proofs and authorization servers.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Mutex;

use mcp_oauth::{Fetch, FetchFailure, FetchResponse, Secret};
use mcp_proto::http::server::{Denial, Protected, TokenRequest};
use mcp_proto::server::Identity;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA384, RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use super::jwt::{Jws, encode, sha256};
use super::{Algorithm, DpopVerifier, IntrospectionValidator, JwtValidator, TokenValidator, off_loop};
use crate::client::Fetcher;

const RESOURCE: &str = "https://tools.example.com/mcp";
const ISSUER: &str = "https://login.example.com/tenant";
const NOW: u64 = 1_800_000_000;

fn protected() -> Protected {
    Protected::new(RESOURCE, ISSUER).expect("valid")
}

/// A key that signs.
enum SigningKey {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair, &'static str, &'static dyn RsaEncoding),
}

impl SigningKey {
    fn p256() -> Self {
        let (random, kind) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let document = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("randomness");
        Self::P256(EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random).expect("a key"))
    }

    fn p384() -> Self {
        let (random, kind) = (SystemRandom::new(), &ECDSA_P384_SHA384_FIXED_SIGNING);
        let document = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("randomness");
        Self::P384(EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random).expect("a key"))
    }

    fn ed25519() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("randomness");
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key"))
    }

    fn rsa(algorithm: &'static str, encoding: &'static dyn RsaEncoding) -> Self {
        let pem = include_bytes!("../../tests/keys/rsa.pem");
        let document = PrivatePkcs8KeyDer::from_pem_slice(pem).expect("a PEM");
        let key = RsaKeyPair::from_pkcs8(document.secret_pkcs8_der()).expect("a key");
        Self::Rsa(key, algorithm, encoding)
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
            Self::Ed25519(_) => "EdDSA",
            Self::Rsa(_, algorithm, _) => algorithm,
        }
    }

    fn jwk(&self) -> Value {
        let point = |key: &EcdsaKeyPair, curve: &str| {
            let point = &key.public_key().as_ref()[1..];
            let (x, y) = point.split_at(point.len() / 2);
            json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)})
        };
        match self {
            Self::P256(key) => point(key, "P-256"),
            Self::P384(key) => point(key, "P-384"),
            Self::Ed25519(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encode(key.public_key().as_ref())})
            }
            Self::Rsa(key, ..) => {
                let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({"kty": "RSA", "n": encode(&n), "e": encode(&e)})
            }
        }
    }

    fn jwk_with_id(&self, id: &str) -> Value {
        let mut jwk = self.jwk();
        jwk["kid"] = json!(id);
        jwk
    }

    fn signature(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::P256(key) | Self::P384(key) => {
                key.sign(&random, message).expect("signed").as_ref().to_vec()
            }
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
            Self::Rsa(key, _, encoding) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(*encoding, &random, message, &mut signature).expect("signed");
                signature
            }
        }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed =
            format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
        format!("{signed}.{}", encode(&self.signature(signed.as_bytes())))
    }

    /// Signs claims as the key with this id.
    fn token(&self, id: &str, claims: &Value) -> String {
        self.sign(&json!({"alg": self.algorithm(), "kid": id, "typ": "at+jwt"}), claims)
    }
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": RESOURCE, "sub": "alice", "exp": NOW + 600, "scope": "files:read mail"})
}

fn claims_with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => drop(claims.as_object_mut().expect("an object").remove(name)),
        value => claims[name] = value,
    }
    claims
}

/// An authorization server: answers by URL, and the requests that it got.
#[derive(Clone, Default)]
struct Web(Arc<Mutex<WebState>>);

#[derive(Default)]
struct WebState {
    answers: Vec<(String, u16, Vec<u8>)>,
    requests: Vec<(String, String)>,
}

impl Web {
    /// An issuer with these keys.
    fn with_keys(keys: &[Value]) -> Self {
        let web = Self::default();
        let metadata = json!({"issuer": ISSUER, "jwks_uri": "https://login.example.com/keys"});
        web.answer("https://login.example.com/.well-known/oauth-authorization-server/tenant", 200, &metadata);
        web.answer("https://login.example.com/keys", 200, &json!({"keys": keys}));
        web
    }

    fn answer(&self, url: &str, status: u16, body: &Value) {
        self.answer_text(url, status, body.to_string().into_bytes());
    }

    fn answer_text(&self, url: &str, status: u16, body: Vec<u8>) {
        let mut state = self.0.lock().expect("no panic");
        state.answers.retain(|(known, ..)| known != url);
        state.answers.push((url.into(), status, body));
    }

    fn remove(&self, url: &str) {
        self.0.lock().expect("no panic").answers.retain(|(known, ..)| known != url);
    }

    fn take_requests(&self) -> Vec<(String, String)> {
        core::mem::take(&mut self.0.lock().expect("no panic").requests)
    }
}

impl Fetcher for Web {
    fn fetch(&self, fetch: &Fetch) -> Result<FetchResponse, FetchFailure> {
        let url = format!("{}{}", fetch.url.origin(), fetch.url.target());
        let mut state = self.0.lock().expect("no panic");
        let body = String::from_utf8(fetch.body.clone()).expect("a form");
        let fields = format!("{:?}", fetch.fields);
        assert!(!fields.contains("s3cret") && !format!("{fetch:?}").contains("s3cret"));
        state.requests.push((url.clone(), body));
        let Some((_, status, body)) = state.answers.iter().find(|(known, ..)| *known == url) else {
            return Err(FetchFailure::TimedOut);
        };
        let mut response = FetchResponse::default();
        (response.status, response.body) = (*status, body.clone());
        Ok(response)
    }
}

/// A clock that tests move.
fn clock() -> (Arc<AtomicU64>, impl Fn() -> u64 + Send + Sync + 'static) {
    let time = Arc::new(AtomicU64::new(NOW));
    (time.clone(), move || time.load(Ordering::SeqCst))
}

fn jwt_validator(web: &Web) -> (JwtValidator, Arc<AtomicU64>) {
    let (time, clock) = clock();
    (JwtValidator::new(&protected(), web.clone()).clock(clock), time)
}

fn validate(validator: &impl TokenValidator, token: &str) -> Result<Arc<Identity>, Denial> {
    validator.validate(&TokenRequest::bearer(token, "POST", RESOURCE))
}

/// Returns the description of the denial of an invalid token.
fn why(outcome: Result<Arc<Identity>, Denial>) -> String {
    match outcome {
        Err(Denial::InvalidToken(why) | Denial::InvalidDpopProof(why)) => why.into(),
        other => panic!("{other:?}"),
    }
}

// covers: AUTH-009, AUTH-010
#[test]
fn tokens_of_every_algorithm_are_validated() {
    for key in [
        SigningKey::p256(),
        SigningKey::p384(),
        SigningKey::ed25519(),
        SigningKey::rsa("RS256", &RSA_PKCS1_SHA256),
        SigningKey::rsa("PS384", &RSA_PSS_SHA384),
    ] {
        let web = Web::with_keys(&[SigningKey::p256().jwk_with_id("old"), key.jwk_with_id("new")]);
        let (validator, _) = jwt_validator(&web);
        let token = key.token("new", &claims());
        let request = TokenRequest::bearer(&token, "POST", RESOURCE);
        assert!(validator.validate_now(&request).is_none(), "the keys are not there yet");
        let identity = validate(&validator, &token).expect("valid");
        assert_eq!(identity.principal(), "alice");
        assert_eq!(identity.granted().as_str(), "files:read mail");
        assert_eq!(identity.lifetime().map(|lifetime| lifetime.as_secs()), Some(660));
        assert!(validator.validate_now(&request).is_some_and(|outcome| outcome.is_ok()), "now they are");
        let tampered = format!("{}A.{}", &token[..token.rfind('.').expect("a dot")], &token[..0]);
        assert!(validate(&validator, &tampered).is_err());
        let only_p384 = validator.algorithms([Algorithm::Es384]);
        assert_eq!(validate(&only_p384, &token).is_ok(), key.algorithm() == "ES384");
    }
}

// covers: AUTH-010, SEC-007
#[test]
fn claims_that_do_not_fit_are_refused() {
    let key = SigningKey::p256();
    let (validator, _) = jwt_validator(&Web::with_keys(&[key.jwk_with_id("k")]));
    for (name, value, expected) in [
        ("aud", json!("https://other.example.com/mcp"), "another server"),
        ("aud", json!("https://tools.example.com/mcp/"), "another server"),
        ("aud", json!([]), "another server"),
        ("aud", Value::Null, "another server"),
        ("aud", json!({"x": RESOURCE}), "another server"),
        ("iss", json!("https://login.example.com/tenant/"), "another issuer"),
        ("iss", json!([ISSUER]), "another issuer"),
        ("iss", Value::Null, "another issuer"),
        ("exp", Value::Null, "never expires"),
        ("exp", json!("soon"), "never expires"),
        ("exp", json!(-1), "never expires"),
        ("exp", json!(NOW - 60), "has expired"),
        ("exp", json!(NOW - 300), "has expired"),
        ("nbf", json!(NOW + 61), "not valid yet"),
        ("nbf", json!(NOW + 300), "not valid yet"),
        ("nbf", json!("now"), "not a time"),
        ("sub", Value::Null, "names nobody"),
        ("sub", json!(""), "names nobody"),
        ("cnf", json!({"x5t#S256": "x"}), "not known here"),
        ("cnf", json!({"jkt": "x"}), "bound to a key"),
    ] {
        let token = key.token("k", &claims_with(name, value.clone()));
        let reason = why(validate(&validator, &token));
        assert!(reason.contains(expected), "{name} {value}: {reason}");
        assert!(!reason.contains("alice") && !reason.contains(&token));
    }
    for (name, value) in [
        ("aud", json!(["https://other.example.com", RESOURCE])),
        ("exp", json!(NOW - 59)),
        ("exp", json!(1_800_000_000.5)),
        ("nbf", json!(NOW + 60)),
        ("scope", Value::Null),
    ] {
        assert!(
            validate(&validator, &key.token("k", &claims_with(name, value.clone()))).is_ok(),
            "{name} {value}"
        );
    }
    let scopes = key.token(
        "k",
        &json!({"iss": ISSUER, "aud": RESOURCE, "client_id": "job", "exp": NOW + 1, "scp": ["a", "b"]}),
    );
    let identity = validate(&validator, &scopes).expect("valid");
    assert_eq!((identity.principal(), identity.granted().as_str()), ("client job", "a b"));
}

// covers: AUTH-010
#[test]
#[allow(clippy::print_stdout, reason = "tests/exhaustive counts it")]
fn exhaustive_token_is_accepted_between_its_times_in_every_order_of_times_and_skew() {
    const MOST: u64 = 6;
    let key = SigningKey::ed25519();
    let web = Web::with_keys(&[key.jwk_with_id("k")]);
    let mut count = 0;
    for (expires, begins) in (0..=MOST).flat_map(|e| (0..=MOST + 1).map(move |begins| (e, begins))) {
        let mut claims = claims_with("exp", json!(NOW + expires));
        // One without a beginning holds from the first.
        if begins <= MOST {
            claims["nbf"] = json!(NOW + begins);
        }
        let token = key.token("k", &claims);
        for skew in 0..=MOST / 2 {
            let (validator, time) = jwt_validator(&web);
            let validator = validator.clock_skew(Duration::from_secs(skew));
            for now in 0..=MOST + MOST / 2 {
                time.store(NOW + now, Ordering::SeqCst);
                let outcome = validate(&validator, &token);
                let has_begun = begins > MOST || begins <= now + skew;
                let remaining = (expires + skew).saturating_sub(now);
                let expected = (has_begun && remaining > 0).then(|| Duration::from_secs(remaining));
                let found = outcome.ok().map(|identity| identity.lifetime().expect("it ends"));
                assert_eq!(found, expected, "{begins} to {expires}, now {now}, skew {skew}");
                count += 1;
            }
        }
    }
    println!(
        "EXHAUSTIVE\ttoken times: a JWT is accepted from `nbf` less the skew until `exp` and the skew, and as long as remains until then\tseconds of exp, nbf, now and skew, up to {MOST}\t{count}"
    );
}

// covers: AUTH-010, SEC-007
#[test]
fn id_token_for_a_name_of_the_server_is_no_access_token() {
    let key = SigningKey::p256();
    let validator = || jwt_validator(&Web::with_keys(&[key.jwk_with_id("k")])).0;
    let sign = |kind: Option<&str>, claims: &Value| {
        let mut header = json!({"alg": "ES256", "kid": "k"});
        if let Some(kind) = kind {
            header["typ"] = json!(kind);
        }
        key.sign(&header, claims)
    };
    // The client id of a server that is a client itself.
    let id_token = json!({"iss": ISSUER, "aud": "tools", "sub": "alice", "exp": NOW + 600, "nonce": "n",
        "roles": ["admin"]});
    for kind in [None, Some("JWT"), Some("application/jwt")] {
        let token = sign(kind, &id_token);
        assert!(why(validate(&validator(), &token)).contains("another server"), "{kind:?}");
        let named = validator().audience("tools");
        assert!(
            why(validate(&named, &token)).contains("does not say that it is an access token"),
            "{kind:?}"
        );
        for (name, value) in [
            ("scope", json!("mail")),
            ("scp", json!(["mail"])),
            ("client_id", json!("c")),
            ("azpacr", json!("1")),
        ] {
            let mut claims = id_token.clone();
            claims[name] = value;
            assert!(validate(&named, &sign(kind, &claims)).is_ok(), "{kind:?} {name}");
        }
        let mut claims = id_token.clone();
        claims["aud"] = json!(["tools", RESOURCE]);
        assert!(validate(&named, &sign(kind, &claims)).is_ok(), "no ID token is for a resource");
        assert!(
            why(validate(&validator().require_type(), &sign(kind, &claims))).contains("type"),
            "{kind:?}"
        );
    }
    let typed = sign(Some("at+jwt"), &id_token);
    assert!(validate(&validator().audience("tools"), &typed).is_ok());
}

// covers: AUTH-009
#[test]
fn forged_headers_are_refused() {
    let key = SigningKey::p256();
    let (validator, _) = jwt_validator(&Web::with_keys(&[key.jwk_with_id("k")]));
    assert!(validate(&validator, &key.token("k", &claims())).is_ok());
    let payload = encode(claims().to_string().as_bytes());
    let header = |header: Value| encode(header.to_string().as_bytes());
    // No signature, in the spellings that were accepted elsewhere once.
    for none in ["none", "None", "NONE", "nOnE", ""] {
        for signature in ["", "AA"] {
            let token = format!("{}.{payload}.{signature}", header(json!({"alg": none, "kid": "k"})));
            assert!(validate(&validator, &token).is_err(), "{none}");
        }
    }
    // The public key as a shared secret.
    let signed = format!("{}.{payload}", header(json!({"alg": "HS256", "kid": "k"})));
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.jwk().to_string().as_bytes());
    let hmac = format!("{signed}.{}", encode(ring::hmac::sign(&secret, signed.as_bytes()).as_ref()));
    assert!(validate(&validator, &hmac).is_err());
    // A key of the attacker in the header.
    let own = SigningKey::p256();
    for header in [
        json!({"alg": "ES256", "kid": "k", "jwk": own.jwk()}),
        json!({"alg": "ES256", "kid": "k", "jku": "https://evil.example/keys"}),
        json!({"alg": "ES256", "jwk": own.jwk()}),
    ] {
        assert!(why(validate(&validator, &own.sign(&header, &claims()))).contains("signature"));
    }
    for header in [
        json!({"alg": "ES256", "kid": "k", "crit": ["exp"]}),
        json!({"alg": "ES256", "kid": "k", "b64": false}),
        json!({"alg": "ES256", "kid": "k", "typ": "dpop+jwt"}),
        json!({"alg": "ES384", "kid": "k"}),
        json!({"alg": ["ES256"], "kid": "k"}),
    ] {
        assert!(validate(&validator, &key.sign(&header, &claims())).is_err(), "{header}");
    }
    for typ in [json!("JWT"), json!("AT+JWT"), json!("application/at+jwt"), Value::Null] {
        let mut header = json!({"alg": "ES256", "kid": "k", "typ": typ});
        if typ.is_null() {
            header.as_object_mut().expect("an object").remove("typ");
        }
        let token = key.sign(&header, &claims());
        assert!(validate(&validator, &token).is_ok(), "{header}");
    }
    let token = key.token("k", &claims());
    for text in [
        String::new(),
        "a".into(),
        "..".into(),
        token.replace('.', ".."),
        format!("{token}\n"),
        format!("{token}="),
        format!(" {token}"),
        token.replacen('.', "\r\n.", 1),
        "a.".repeat(10_000),
        format!("{}.{}.AA", header(json!([1])), payload),
        "[".repeat(100_000),
    ] {
        assert!(validate(&validator, &text).is_err(), "{}", text.len());
    }
    let bare = format!("{}.e30.", header(json!({"alg": "ES256"})));
    let signed = |length: usize| format!("{bare}{}", "A".repeat(length - bare.len()));
    assert!(Jws::parse(&signed(16 << 10)).is_some() && Jws::parse(&signed((16 << 10) + 1)).is_none());
    let strict = jwt_validator(&Web::with_keys(&[key.jwk_with_id("k")])).0.require_type();
    assert!(validate(&strict, &token).is_ok());
    assert!(validate(&strict, &key.sign(&json!({"alg": "ES256", "kid": "k"}), &claims())).is_err());
}

#[test]
fn closure_decides_in_the_loop_unless_it_may_block() {
    let grant = |_: &TokenRequest| Ok(Identity::new("alice"));
    let request = TokenRequest::bearer("t", "POST", RESOURCE);
    let decision = grant.validate_now(&request).expect("no thread is needed");
    assert_eq!(decision.expect("valid").principal(), "alice");
    let blocking = off_loop(grant);
    assert_eq!(blocking.validate_now(&request), None);
    assert_eq!(blocking.validate(&request).expect("valid").principal(), "alice");
    assert_eq!(format!("{blocking:?}"), "OffLoop { .. }");
}

#[test]
fn debug_output_of_a_validator_names_its_audiences() {
    let shown = format!("{:?}", jwt_validator(&Web::default()).0.audience("tools"));
    assert!(shown.contains(&format!("[\"{RESOURCE}\", \"tools\"]")), "{shown}");
}

mod bound;
mod foreign;
mod keys;
mod opaque;
