//! Tokens that only the authorization server can read.

use super::*;

const ENDPOINT: &str = "https://login.example.com/introspect";

fn introspection(web: &Web) -> (IntrospectionValidator, Arc<AtomicU64>) {
    let (time, clock) = clock();
    let secret = Secret::new("s3cret/+ \u{e9}");
    let validator = IntrospectionValidator::new(&protected(), ENDPOINT, "tools:x", &secret, web.clone());
    (validator.expect("a URL").clock(clock), time)
}

fn answer() -> Value {
    json!({"active": true, "aud": RESOURCE, "sub": "alice", "scope": "mail", "exp": NOW + 600, "iss": ISSUER})
}

// covers: AUTH-010, SEC-007
#[test]
fn active_token_for_this_resource_is_accepted_and_kept_for_a_while() {
    let web = Web::default();
    web.answer(ENDPOINT, 200, &answer());
    let (validator, time) = introspection(&web);
    let request = TokenRequest::bearer("opaque+token/=", "POST", RESOURCE);
    assert!(validator.validate_now(&request).is_none());
    let identity = validator.validate(&request).expect("active");
    assert_eq!((identity.principal(), identity.granted().as_str()), ("alice", "mail"));
    assert_eq!(identity.lifetime(), Some(Duration::from_secs(600)));
    let form = "token=opaque%2Btoken%2F%3D&token_type_hint=access_token";
    assert_eq!(web.take_requests(), [(ENDPOINT.to_owned(), form.to_owned())]);
    web.answer(ENDPOINT, 200, &json!({"active": false}));
    time.fetch_add(59, Ordering::SeqCst);
    let identity = validator.validate_now(&request).expect("kept").expect("active");
    assert_eq!(identity.lifetime(), Some(Duration::from_secs(541)));
    time.fetch_add(1, Ordering::SeqCst);
    assert!(validator.validate_now(&request).is_none());
    assert!(why(validator.validate(&request)).contains("not active"));
    let shown = format!("{:?}", introspection(&web).0.audience("tools"));
    assert!(shown.contains(&format!("audiences: [\"{RESOURCE}\", \"tools\"]")), "{shown}");
    assert!(!shown.contains("s3cret"));
    // An answer is not kept beyond the token.
    let mut short = answer();
    short["exp"] = json!(NOW + 62);
    web.answer(ENDPOINT, 200, &short);
    assert!(validator.validate(&request).is_ok());
    time.fetch_add(2, Ordering::SeqCst);
    assert!(validator.validate_now(&request).is_none());
    assert!(why(validator.validate(&request)).contains("has expired"));
}

// covers: AUTH-010, SEC-007
#[test]
fn other_answers_accept_no_token() {
    let web = Web::default();
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = told.clone();
    let validator = introspection(&web).0.cache_for(Duration::ZERO);
    let validator =
        validator.on_failure(move |failure| log.lock().expect("no panic").push(failure.to_string()));
    let with = |name: &str, value: Value| {
        let mut answer = answer();
        answer[name] = value;
        answer
    };
    for (answer, expected) in [
        (json!({}), "not active"),
        (with("active", json!("true")), "not active"),
        (with("aud", json!("https://other.example.com")), "another server"),
        (with("aud", Value::Null), "another server"),
        (with("iss", json!("https://evil.example")), "another issuer"),
        (with("exp", json!(NOW)), "has expired"),
        (with("exp", json!("never")), "malformed"),
        (with("nbf", json!(NOW + 61)), "not valid yet"),
        (with("sub", json!("")), "names nobody"),
        (with("cnf", json!({"jkt": "x"})), "bound to a key"),
    ] {
        web.answer(ENDPOINT, 200, &answer);
        let reason = why(validate(&validator, "t"));
        assert!(reason.contains(expected), "{answer}: {reason}");
    }
    for (status, body) in [(401, "{}"), (500, ""), (200, "<html>"), (200, "[]")] {
        web.answer_text(ENDPOINT, status, body.into());
        assert_eq!(validate(&validator, "t"), Err(Denial::Unavailable), "{status} {body}");
    }
    let mut largest = with("nbf", json!(NOW + 60)).to_string();
    largest.push_str(&" ".repeat((64 << 10) - largest.len()));
    web.answer_text(ENDPOINT, 200, largest.clone().into_bytes());
    assert!(validate(&validator, "t").is_ok());
    web.answer_text(ENDPOINT, 200, (largest + " ").into_bytes());
    assert_eq!(validate(&validator, "t"), Err(Denial::Unavailable));
    web.remove(ENDPOINT);
    assert_eq!(validate(&validator, "t"), Err(Denial::Unavailable));
    let reasons = ["the status is 401", "the status is 500", "the answer is not a JSON object"];
    let reasons = reasons.iter().chain(&["the answer is not a JSON object", "the answer is too large"]);
    let reasons: Vec<_> =
        reasons.chain(&["no answer in time"]).map(|reason| format!("{ENDPOINT}: {reason}")).collect();
    assert_eq!(*told.lock().expect("no panic"), reasons);
    web.take_requests();
    assert!(validate(&validator, &"t".repeat((16 << 10) + 1)).is_err());
    assert!(web.take_requests().is_empty(), "too long to be asked about");
    assert!(validate(&validator, &"t".repeat(16 << 10)).is_err());
    assert_eq!(web.take_requests().len(), 1);
}

#[test]
fn tokens_are_not_shown_to_an_endpoint_without_tls() {
    let make = |endpoint: &str| {
        IntrospectionValidator::new(&protected(), endpoint, "id", &Secret::new("s"), Web::default()).map(drop)
    };
    assert!(make("http://login.example.com/introspect").is_err() && make("nonsense").is_err());
    assert!(make("http://localhost:9/introspect").is_ok());
}
