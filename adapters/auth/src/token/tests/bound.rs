//! Tokens that are bound to a key, and their proofs.

use super::*;

/// A token, the key to which it is bound, and proofs of that key.
struct Bound {
    validator: JwtValidator,
    time: Arc<AtomicU64>,
    token: String,
    key: SigningKey,
}

fn thumbprint(key: &SigningKey) -> String {
    let jwk = key.jwk();
    let text = |name: &str| jwk[name].as_str().expect("a coordinate").to_owned();
    let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#, text("x"), text("y"));
    encode(&sha256(canonical.as_bytes()))
}

impl Bound {
    fn new() -> Self {
        let (issuer, key) = (SigningKey::p256(), SigningKey::p256());
        let (validator, time) = jwt_validator(&Web::with_keys(&[issuer.jwk_with_id("k")]));
        let token = issuer.token("k", &claims_with("cnf", json!({"jkt": thumbprint(&key)})));
        Self { validator, time, token, key }
    }

    fn proof_claims(&self, id: &str) -> Value {
        json!({
            "jti": id, "htm": "POST", "htu": RESOURCE, "iat": self.time.load(Ordering::SeqCst),
            "ath": encode(&sha256(self.token.as_bytes()))
        })
    }

    fn header(&self) -> Value {
        json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": self.key.jwk()})
    }

    fn present(&self, proof: &str) -> Result<Arc<Identity>, Denial> {
        self.validator.validate(&TokenRequest::dpop(&self.token, proof, "POST", RESOURCE))
    }
}

// covers: AUTH-009
#[test]
fn bound_token_needs_a_proof_of_its_key() {
    let bound = Bound::new();
    let proof = bound.key.sign(&bound.header(), &bound.proof_claims("1"));
    assert_eq!(bound.present(&proof).expect("valid").principal(), "alice");
    assert!(why(bound.present(&proof)).contains("used before"));
    assert_eq!(why(validate(&bound.validator, &bound.token)), "the token is bound to a key");
    // A token without a binding proves nothing about the key.
    let issuer = SigningKey::p256();
    let (validator, _) = jwt_validator(&Web::with_keys(&[issuer.jwk_with_id("k")]));
    let proof = bound.key.sign(&bound.header(), &bound.proof_claims("2"));
    let request = TokenRequest::dpop(&issuer.token("k", &claims()), &proof, "POST", RESOURCE);
    assert!(why(validator.validate(&request)).contains("not bound"));
}

#[test]
fn verifier_of_a_closure_has_a_clock_of_its_own() {
    let bound = Bound::new();
    let proof = bound.key.sign(&bound.header(), &bound.proof_claims("1"));
    let request = TokenRequest::dpop(&bound.token, &proof, "POST", RESOURCE);
    let thumbprint = thumbprint(&bound.key);
    let late = DpopVerifier::new().clock(|| NOW + 61);
    assert!(late.verify(&request, Some(&thumbprint)).is_err());
    let verifier = DpopVerifier::new().clock(|| NOW + 60);
    let key = verifier.verify(&request, Some(&thumbprint)).expect("valid").expect("a key");
    assert_eq!(key.thumbprint(), thumbprint);
    assert_eq!(format!("{verifier:?}"), "DpopVerifier { nonces: false, .. }");
}

// covers: AUTH-009
#[test]
fn proofs_that_do_not_fit_are_refused() {
    let bound = Bound::new();
    for (name, value, expected) in [
        ("htm", json!("GET"), "another request"),
        ("htm", json!("post"), "another request"),
        ("htu", json!("https://tools.example.com/other"), "another request"),
        ("htu", json!("http://tools.example.com/mcp"), "another request"),
        ("htu", json!("nonsense"), "another request"),
        ("ath", json!(encode(&sha256(b"other"))), "another token"),
        ("ath", json!(null), "another token"),
        ("iat", json!(NOW - 61), "too old"),
        ("iat", json!(NOW + 61), "too old"),
        ("iat", json!(NOW + 300), "too old"),
        ("iat", json!("now"), "too old"),
        ("jti", json!(""), "jti"),
        ("jti", json!("x".repeat(600)), "jti"),
        ("jti", json!(7), "jti"),
        ("jti", json!(null), "jti"),
        ("htm", json!(null), "another request"),
        ("htu", json!(null), "another request"),
        ("iat", json!(null), "too old"),
    ] {
        let mut claims = bound.proof_claims("x");
        claims[name] = value.clone();
        let reason = why(bound.present(&bound.key.sign(&bound.header(), &claims)));
        assert!(reason.contains(expected), "{name} {value}: {reason}");
    }
    let private = {
        let mut jwk = bound.key.jwk();
        jwk["d"] = json!("AA");
        jwk
    };
    let rsa = SigningKey::rsa("RS256", &RSA_PKCS1_SHA256);
    let other = SigningKey::p256();
    for (header, key, expected) in [
        (json!({"typ": "jwt", "alg": "ES256", "jwk": bound.key.jwk()}), &bound.key, "type"),
        (json!({"alg": "ES256", "jwk": bound.key.jwk()}), &bound.key, "type"),
        (json!({"typ": "dpop+jwt", "alg": "none", "jwk": bound.key.jwk()}), &bound.key, "not a signed token"),
        (json!({"typ": "dpop+jwt", "alg": "RS256", "jwk": rsa.jwk()}), &rsa, "algorithm"),
        (
            json!({"typ": "dpop+jwt", "alg": "HS256", "jwk": bound.key.jwk()}),
            &bound.key,
            "not a signed token",
        ),
        (json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": private}), &bound.key, "no public key"),
        (json!({"typ": "dpop+jwt", "alg": "ES256"}), &bound.key, "no public key"),
        (json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": bound.key.jwk()}), &other, "signature"),
        (json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": other.jwk()}), &other, "another key"),
    ] {
        let reason = why(bound.present(&key.sign(&header, &bound.proof_claims("y"))));
        assert!(reason.contains(expected), "{header}: {reason}");
    }
    // Spellings of the same URL, with a query that does not count.
    for (n, url) in
        ["HTTPS://Tools.Example.com:443/mcp", "https://tools.example.com/mcp?x=1#y"].iter().enumerate()
    {
        let mut claims = bound.proof_claims(&format!("url {n}"));
        claims["htu"] = json!(url);
        assert!(bound.present(&bound.key.sign(&bound.header(), &claims)).is_ok(), "{url}");
    }
}

#[test]
fn proofs_are_remembered_while_they_could_be_used_again() {
    let bound = Bound::new();
    let mut early = bound.proof_claims("early");
    early["iat"] = json!(NOW + 60);
    let early = bound.key.sign(&bound.header(), &early);
    assert!(bound.present(&early).is_ok());
    for seconds in [1, 59, 60] {
        bound.time.fetch_add(seconds, Ordering::SeqCst);
        assert!(bound.present(&early).is_err(), "{seconds}");
    }
    assert!(why(bound.present(&early)).contains("used before"), "120 s later it would still be new enough");
    bound.time.fetch_add(1, Ordering::SeqCst);
    assert!(why(bound.present(&early)).contains("too old"));
}

// covers: AUTH-009
#[test]
fn validator_with_nonces_asks_for_them_and_renews_them() {
    let bound = Bound::new();
    let verifier = DpopVerifier::new().require_nonces(Duration::from_secs(60)).expect("randomness");
    let bound = Bound { validator: bound.validator.dpop(verifier), ..bound };
    let present = |id: &str, nonce: Option<&str>| {
        let mut claims = bound.proof_claims(id);
        claims["nonce"] = json!(nonce);
        bound.present(&bound.key.sign(&bound.header(), &claims))
    };
    let asked = |id: &str, nonce: Option<&str>| match present(id, nonce) {
        Err(Denial::UseDpopNonce(nonce)) => nonce,
        other => panic!("{other:?}"),
    };
    let nonce = asked("1", None);
    assert_eq!(asked("1", Some("x")), nonce);
    let next = |id: &str, nonce: &str| {
        let identity = present(id, Some(nonce)).expect("valid");
        let key = identity.key().expect("a key");
        assert_eq!(key.thumbprint(), thumbprint(&bound.key));
        key.next_nonce().map(str::to_owned)
    };
    assert_eq!(next("1", &nonce), None);
    bound.time.fetch_add(60, Ordering::SeqCst);
    let second = next("2", &nonce).expect("another nonce");
    assert_ne!(second, nonce);
    assert_eq!(next("3", &second), None);
    bound.time.fetch_add(60, Ordering::SeqCst);
    assert_ne!(asked("4", Some(&nonce)), nonce);
}
