//! The keys of an authorization server: where they come from, when they are fetched, and what is told when they are not.

use super::*;

// covers: AUTH-028, AUTH-030
#[test]
fn keys_come_from_the_metadata_of_the_issuer_alone() {
    let key = SigningKey::p256();
    let token = key.token("k", &claims());
    let keys = json!({"keys": [key.jwk_with_id("k")]});
    let metadata = |issuer: &str, url: &str| json!({"issuer": issuer, "jwks_uri": url});
    let locations = [
        "https://login.example.com/.well-known/oauth-authorization-server/tenant",
        "https://login.example.com/.well-known/openid-configuration/tenant",
        "https://login.example.com/tenant/.well-known/openid-configuration",
    ];
    for (at, location) in locations.iter().enumerate() {
        let web = Web::default();
        for earlier in &locations[..at] {
            web.answer(earlier, 200, &metadata("https://evil.example", "https://evil.example/keys"));
        }
        web.answer(location, 200, &metadata(ISSUER, "https://keys.example.com/jwks"));
        web.answer("https://keys.example.com/jwks", 200, &keys);
        assert!(validate(&jwt_validator(&web).0, &token).is_ok(), "{location}");
        let asked: Vec<String> = web.take_requests().into_iter().map(|(url, _)| url).collect();
        assert_eq!(asked[..=at], locations[..=at]);
        assert_eq!(asked.len(), at + 2, "{asked:?}");
    }
    // Keys over a connection that anyone can change, and what is no URL.
    for url in ["http://login.example.com/keys", "file:///etc/passwd", "javascript:1", "/keys"] {
        let web = Web::default();
        web.answer(locations[0], 200, &metadata(ISSUER, url));
        web.answer("http://login.example.com/keys", 200, &keys);
        assert_eq!(validate(&jwt_validator(&web).0, &token), Err(Denial::Unavailable), "{url}");
    }
    // Answers that are no set of keys.
    let large = format!("{{\"keys\":[],\"x\":\"{}\"}}", "a".repeat(1 << 20));
    for (status, body) in
        [(404, "{}"), (302, ""), (200, "<html>"), (200, "[]"), (200, "{\"keys\":{}}"), (200, &*large)]
    {
        let web = Web::with_keys(&[]);
        web.answer_text("https://login.example.com/keys", status, body.into());
        assert_eq!(validate(&jwt_validator(&web).0, &token), Err(Denial::Unavailable), "{status}");
    }
    // Keys that are not for signatures by the issuer.
    let with = |name: &str, value: Value| {
        let mut jwk = key.jwk_with_id("k");
        jwk[name] = value;
        jwk
    };
    for jwk in [
        with("use", json!("enc")),
        with("d", json!("AA")),
        with("alg", json!("ES384")),
        with("x", json!("AA")),
    ] {
        assert!(why(validate(&jwt_validator(&Web::with_keys(&[jwk])).0, &token)).contains("signature"));
    }
}

#[test]
fn keys_are_rotated_with_few_requests() {
    let (old, new) = (SigningKey::p256(), SigningKey::p256());
    let keys_url = "https://login.example.com/keys";
    let web = Web::with_keys(&[old.jwk_with_id("old")]);
    let (validator, time) = jwt_validator(&web);
    let claims = claims_with("exp", json!(NOW + 1_000_000));
    assert!(validate(&validator, &old.token("old", &claims)).is_ok());
    assert_eq!(web.take_requests().len(), 2);
    // An unknown key is looked for once in 30 s.
    for _ in 0..100 {
        assert!(why(validate(&validator, &new.token("new", &claims))).contains("signature"));
    }
    assert_eq!(web.take_requests().len(), 1);
    time.fetch_add(30, Ordering::SeqCst);
    assert!(why(validate(&validator, &new.token("new", &claims))).contains("signature"));
    assert_eq!(web.take_requests().len(), 1);
    // Many invented keys cause few requests. What cannot be looked for is neither good nor bad.
    let invented: Vec<_> =
        (0..100).map(|n| validate(&validator, &new.token(&format!("invented {n}"), &claims))).collect();
    assert_eq!(web.take_requests().len(), 3);
    assert!(invented[..3].iter().all(|outcome| matches!(outcome, Err(Denial::InvalidToken(_)))));
    assert!(invented[3..].iter().all(|outcome| *outcome == Err(Denial::Unavailable)));
    web.answer(keys_url, 200, &json!({"keys": [old.jwk_with_id("old"), new.jwk_with_id("newer")]}));
    let honest = new.token("newer", &claims);
    assert_eq!(validate(&validator, &honest), Err(Denial::Unavailable));
    let request = TokenRequest::bearer(&honest, "POST", RESOURCE);
    assert_eq!(validator.validate_now(&request), Some(Err(Denial::Unavailable)), "no thread is needed");
    assert!(validate(&validator, &old.token("old", &claims)).is_ok(), "a known key needs no request");
    time.fetch_add(30, Ordering::SeqCst);
    for _ in 0..100 {
        assert!(validate(&validator, &honest).is_ok());
        assert!(why(validate(&validator, &new.token("invented 0", &claims))).contains("signature"));
    }
    assert_eq!(web.take_requests().len(), 2);
    // A key that is withdrawn is unknown after an hour.
    web.answer(keys_url, 200, &json!({"keys": [new.jwk_with_id("newer")]}));
    assert!(validate(&validator, &old.token("old", &claims)).is_ok());
    time.fetch_add(3_601, Ordering::SeqCst);
    assert!(validate(&validator, &old.token("old", &claims)).is_err());
    // Without the authorization server known keys last for a day.
    web.remove(keys_url);
    time.fetch_add(23 * 3_600, Ordering::SeqCst);
    assert!(validate(&validator, &honest).is_ok());
    assert_eq!(validate(&validator, &new.token("newest", &claims)), Err(Denial::Unavailable));
    time.fetch_add(2 * 3_600, Ordering::SeqCst);
    assert_eq!(validate(&validator, &honest), Err(Denial::Unavailable));
}

/// An authorization server whose answers to requests for keys are awaited, and take so many seconds.
#[derive(Clone)]
struct SlowKeys {
    web: Web,
    time: Arc<AtomicU64>,
    secs: u64,
    turn: Arc<std::sync::Barrier>,
}

impl Fetcher for SlowKeys {
    fn fetch(&self, fetch: &Fetch) -> Result<FetchResponse, FetchFailure> {
        self.turn.wait();
        self.turn.wait();
        self.time.fetch_add(self.secs, Ordering::SeqCst);
        self.web.fetch(fetch)
    }
}

#[test]
fn known_keys_are_used_while_the_authorization_server_hangs() {
    let key = SigningKey::p256();
    let token = key.token("k", &claims_with("exp", json!(NOW + 1_000_000)));
    let keys_url = "https://login.example.com/keys";
    let web = Web::default();
    web.answer(keys_url, 200, &json!({"keys": [key.jwk_with_id("k")]}));
    let (time, clock) = clock();
    let turn = Arc::new(std::sync::Barrier::new(2));
    let slow = SlowKeys { web: web.clone(), time: time.clone(), secs: 10, turn: turn.clone() };
    let validator =
        JwtValidator::new(&protected(), slow).keys_url(ISSUER, keys_url).expect("a URL").clock(clock);
    let request = || TokenRequest::bearer(&token, "POST", RESOURCE);
    let is_good = || validator.validate_now(&request()).is_some_and(|decision| decision.is_ok());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| validator.validate(&request()));
        turn.wait();
        turn.wait();
        assert!(first.join().expect("no panic").is_ok());
        time.fetch_add(3_601, Ordering::SeqCst);
        web.remove(keys_url);
        for _ in 0..3 {
            assert!(!is_good(), "the keys are old");
            let waiting = scope.spawn(|| validator.validate(&request()));
            turn.wait();
            assert!(is_good(), "one request fetches the keys, the others do not wait");
            turn.wait();
            assert!(waiting.join().expect("no panic").is_ok(), "old keys are good for a day");
            // The pause begins when the attempt has failed, not when it began.
            assert!(is_good());
            time.fetch_add(FAILURE_PAUSE_SECS - 1, Ordering::SeqCst);
            assert!(is_good());
            time.fetch_add(1, Ordering::SeqCst);
        }
    });
}

/// Seconds after a failure in which there is no other attempt.
const FAILURE_PAUSE_SECS: u64 = 10;

#[test]
fn failed_attempt_to_fetch_a_new_key_does_not_count_as_its_absence() {
    let (old, new) = (SigningKey::p256(), SigningKey::p256());
    let keys_url = "https://login.example.com/keys";
    let web = Web::with_keys(&[old.jwk_with_id("old")]);
    let (validator, time) = jwt_validator(&web);
    assert!(validate(&validator, &old.token("old", &claims())).is_ok());
    web.answer_text(keys_url, 500, Vec::new());
    let token = new.token("new", &claims());
    assert_eq!(validate(&validator, &token), Err(Denial::Unavailable));
    time.fetch_add(FAILURE_PAUSE_SECS, Ordering::SeqCst);
    web.answer(keys_url, 200, &json!({"keys": [old.jwk_with_id("old"), new.jwk_with_id("new")]}));
    assert!(validate(&validator, &token).is_ok());
}

#[test]
fn failures_of_the_authorization_server_are_reported_to_the_application() {
    let key = SigningKey::p256();
    let token = key.token("k", &claims());
    let keys_url = "https://login.example.com/keys";
    let (web, told) = (Web::with_keys(&[key.jwk_with_id("k")]), Arc::new(Mutex::new(Vec::new())));
    let (validator, time) = jwt_validator(&web);
    let log = told.clone();
    let validator = validator.on_failure(move |failure| {
        log.lock().expect("no panic").push(failure.clone());
        panic!("on purpose");
    });
    let take = || -> Vec<String> {
        told.lock().expect("no panic").drain(..).map(|failure| failure.to_string()).collect()
    };
    web.answer_text(keys_url, 500, Vec::new());
    assert_eq!(validate(&validator, &token), Err(Denial::Unavailable));
    assert_eq!(take(), [format!("{keys_url}: the status is 500")]);
    assert_eq!(validate(&validator, &token), Err(Denial::Unavailable));
    assert!(take().is_empty(), "there was no other attempt");
    time.fetch_add(10, Ordering::SeqCst);
    for (body, expected) in
        [("<html>", "the answer is not a JSON object"), ("{}", "the answer is not a set of keys")]
    {
        web.answer_text(keys_url, 200, body.into());
        assert_eq!(validate(&validator, &token), Err(Denial::Unavailable));
        assert_eq!(take(), [format!("{keys_url}: {expected}")]);
        time.fetch_add(30, Ordering::SeqCst);
    }
    // Every location of the metadata has a reason of its own.
    let metadata = "https://login.example.com/.well-known/oauth-authorization-server/tenant";
    web.answer(metadata, 200, &json!({"issuer": "https://evil.example", "jwks_uri": keys_url}));
    assert_eq!(validate(&validator, &token), Err(Denial::Unavailable));
    let failures = take();
    assert!(failures[0].ends_with("the document is of another issuer"), "{failures:?}");
    assert!(failures.len() == 3 && failures[1..].iter().all(|f| f.ends_with("no answer in time")));
    time.fetch_add(30, Ordering::SeqCst);
    web.answer(metadata, 200, &json!({"issuer": ISSUER, "jwks_uri": "http://login.example.com/keys"}));
    assert_eq!(validate(&validator, &token), Err(Denial::Unavailable));
    assert_eq!(take(), [format!("{metadata}: `jwks_uri` is not a URL that can be trusted")]);
    // A success tells nothing, also if the keys have moved.
    time.fetch_add(30, Ordering::SeqCst);
    web.answer(metadata, 200, &json!({"issuer": ISSUER, "jwks_uri": keys_url}));
    web.answer(keys_url, 200, &json!({"keys": [key.jwk_with_id("k")]}));
    assert!(validate(&validator, &token).is_ok());
    web.remove(keys_url);
    web.answer(metadata, 200, &json!({"issuer": ISSUER, "jwks_uri": "https://login.example.com/moved"}));
    web.answer("https://login.example.com/moved", 200, &json!({"keys": [key.jwk_with_id("k")]}));
    time.fetch_add(3_601, Ordering::SeqCst);
    assert!(validate(&validator, &key.token("k", &claims_with("exp", json!(NOW + 100_000)))).is_ok());
    assert!(take().is_empty());
}

#[test]
fn tokens_that_wait_for_one_fetch_are_decided_by_its_keys() {
    let (old, new) = (SigningKey::p256(), SigningKey::p256());
    let web = Web::with_keys(&[old.jwk_with_id("old"), new.jwk_with_id("new")]);
    let (validator, _) = jwt_validator(&web);
    let tokens = [old.token("old", &claims()), new.token("new", &claims()), new.token("none", &claims())];
    let outcomes = std::thread::scope(|scope| {
        // Nothing is fetched while the web is locked.
        let held = web.0.lock().expect("no panic");
        let threads: Vec<_> =
            tokens.iter().map(|token| scope.spawn(|| validate(&validator, token))).collect();
        std::thread::sleep(Duration::from_millis(50));
        drop(held);
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok(), "{outcomes:?}");
    assert!(matches!(outcomes[2], Err(Denial::InvalidToken(_))), "{outcomes:?}");
    // One for the metadata and one for the keys, and another one if the last token came too late to wait.
    assert!(web.take_requests().len() <= 3);
}

#[test]
fn tokens_that_wait_for_a_fetch_that_fails_cause_no_other_one() {
    let key = SigningKey::p256();
    let (web, token) = (Web::default(), key.token("k", &claims()));
    let validator = jwt_validator(&web).0.keys_url(ISSUER, "https://login.example.com/keys").expect("a URL");
    std::thread::scope(|scope| {
        // Nothing is fetched while the web is locked.
        let held = web.0.lock().expect("no panic");
        let threads = [(); 3].map(|()| scope.spawn(|| validate(&validator, &token)));
        std::thread::sleep(Duration::from_millis(50));
        drop(held);
        for thread in threads {
            assert_eq!(thread.join().expect("no panic"), Err(Denial::Unavailable));
        }
    });
    assert_eq!(web.take_requests().len(), 1);
}

#[test]
fn unknown_keys_are_remembered_side_by_side() {
    let key = SigningKey::p256();
    let web = Web::with_keys(&[key.jwk_with_id("k")]);
    let validator = jwt_validator(&web).0;
    let requests = |id: &str| {
        let refused = why(validate(&validator, &key.token(id, &claims())));
        assert!(refused.contains("signature"), "{refused}");
        web.take_requests().len()
    };
    // With the metadata at first.
    assert_eq!(["a", "b", "a", "b", "a"].map(requests), [2, 1, 0, 0, 0]);
}
