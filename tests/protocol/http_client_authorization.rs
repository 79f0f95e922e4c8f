//! HTTP client: credentials that are stored, that are due, and that are bound to a key.

use alloc::collections::BTreeSet;
use core::cell::RefCell;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_oauth::{DpopKey, DpopProofs, Error, SigningKey, Step};
use mcp_proto::http::client::{ChallengeCause, Config, Credential};
use mcp_proto::{Anchor, CallError, CallOptions, Fault, HttpError, Instant, VersionSet};
use mcp_tests::harness::build::{discover_result, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, SentRequest};
use serde_json::{Value, json};

use crate::protocol::common::{client, secs};

const UNIX_SECS: u64 = 1_800_000_000;

fn config() -> Config {
    HttpClientHarness::default_http_config().handle_challenges(true)
}

fn modern(config: Config) -> HttpClientHarness {
    let mut harness = HttpClientHarness::new(client(VersionSet::MODERN), config, Chunker::Whole);
    harness.become_modern(json!({"tools": {}}));
    harness
}

fn bearer(token: &str) -> Credential {
    Credential::bearer(token).expect("a token")
}

fn bound(token: &str) -> Credential {
    Credential::dpop(token).expect("a token")
}

fn answer(harness: &mut HttpClientHarness, request: &SentRequest) {
    let result = json!({"resultType": "complete", "content": []});
    harness.respond_with_json(request.id, 200, &result_response(&request.body, result));
}

thread_local! {
    /// The maker of all proofs of a test.
    static PROOFS: RefCell<DpopProofs> = {
        let key = DpopKey { private: "pr1vate".into(), public: [7; 64] };
        RefCell::new(DpopProofs::new(key, Anchor::new(Instant::ZERO, UNIX_SECS), [1; 32], Instant::ZERO))
    };
}

/// Signs the next proof with a signature of nines.
fn sign(harness: &mut HttpClientHarness) {
    let request = harness.client.authorization().poll_proof().expect("a proof to make");
    let nonce = request.nonce.as_deref();
    let sign = PROOFS.with_borrow_mut(|proofs| {
        proofs.begin(harness.now, request.method, &request.url, nonce, request.token())
    });
    assert_eq!(sign.key, SigningKey::Dpop("pr1vate".into()));
    harness.client.authorization().handle_proof(harness.now, request.exchange, &sign.finish(&[9; 64]));
    harness.pump();
}

/// Returns the claims of the proof of a request.
fn claims(request: &SentRequest) -> Value {
    let proof = request.field("DPoP").expect("a proof");
    let parts: Vec<&str> = proof.split('.').collect();
    assert_eq!(parts.len(), 3, "{proof}");
    let decode = |part: &str| -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("Base64")).expect("JSON")
    };
    assert_eq!(decode(parts[0])["typ"], "dpop+jwt");
    decode(parts[1])
}

// covers: AUTH-007
#[test]
fn stored_credential_is_asked_for_before_the_first_request() {
    let mut harness =
        HttpClientHarness::new(client(VersionSet::ALL), config().await_credential(true), Chunker::Whole);
    harness.assert_nothing_sent();
    let challenge = harness.expect_challenge();
    assert_eq!((challenge.cause, challenge.challenges.len()), (ChallengeCause::Due, 0));
    harness.client.authorization().authorize(harness.now, challenge.exchange, bearer("t")).expect("open");
    let probe = harness.expect_post("server/discover");
    assert_eq!(probe.field("Authorization"), Some("Bearer t"));
}

#[test]
fn without_a_stored_credential_requests_are_sent_without() {
    let mut harness =
        HttpClientHarness::new(client(VersionSet::ALL), config().await_credential(true), Chunker::Whole);
    let challenge = harness.expect_challenge();
    harness.client.authorization().refuse(harness.now, challenge.exchange).expect("open");
    let probe = harness.expect_post("server/discover");
    assert_eq!(probe.field("Authorization"), None);
    // It is asked for once.
    harness.respond_with_json(
        probe.id,
        200,
        &result_response(&probe.body, discover_result(&["2026-07-28"], json!({"tools": {}}))),
    );
    harness.expect_ready();
    let (_, request) = harness.start_wave_call(&CallOptions::new());
    assert_eq!(request.field("Authorization"), None);
}

#[test]
fn due_credential_is_renewed_before_the_next_request() {
    let due = Instant::ZERO + secs(100);
    let mut harness = modern(config().credential(bearer("old").renew_at(Some(due))));
    let (key, request) = harness.start_wave_call(&CallOptions::new());
    assert_eq!(request.field("Authorization"), Some("Bearer old"));
    answer(&mut harness, &request);
    assert!(harness.expect_done(key).is_ok());
    harness.advance(secs(101));
    let key = harness.call("tools/call", &json!({"name": "wave"}), &CallOptions::new());
    harness.assert_nothing_sent();
    let challenge = harness.expect_challenge();
    assert_eq!((challenge.cause, challenge.credentials_tried), (ChallengeCause::Due, 0));
    harness.client.authorization().authorize(harness.now, challenge.exchange, bearer("new")).expect("open");
    let request = harness.expect_post("tools/call");
    assert_eq!(request.field("Authorization"), Some("Bearer new"));
    answer(&mut harness, &request);
    assert!(harness.expect_done(key).is_ok());
}

#[test]
fn due_credential_is_used_if_there_is_no_other() {
    let mut harness = modern(config().credential(bearer("old").renew_at(Some(Instant::ZERO + secs(100)))));
    harness.advance(secs(101));
    let key = harness.call("tools/call", &json!({"name": "wave"}), &CallOptions::new());
    let challenge = harness.expect_challenge();
    harness.client.authorization().refuse(harness.now, challenge.exchange).expect("open");
    let request = harness.expect_post("tools/call");
    assert_eq!(request.field("Authorization"), Some("Bearer old"));
    answer(&mut harness, &request);
    assert!(harness.expect_done(key).is_ok());
    // It is not asked for again with each request.
    let (_, request) = harness.start_wave_call(&CallOptions::new());
    assert_eq!(request.field("Authorization"), Some("Bearer old"));
}

#[test]
fn due_credential_without_a_handler_is_used() {
    let http = HttpClientHarness::default_http_config();
    let mut harness = modern(http.credential(bearer("old").renew_at(Some(Instant::ZERO))));
    let (_, request) = harness.start_wave_call(&CallOptions::new());
    assert_eq!(request.field("Authorization"), Some("Bearer old"));
}

#[test]
fn held_calls_fail_with_the_error_of_the_authorization() {
    let error = Error::local(Step::Token, "https://as.example", "no key");
    let mut harness = modern(config());
    let (key, request) = harness.start_wave_call(&CallOptions::new());
    harness.respond_with(request.id, 401, &[], "");
    let challenge = harness.expect_challenge();
    harness.client.authorization().fail(harness.now, challenge.exchange, &error).expect("open");
    let Err(CallError::Http(found)) = harness.expect_done(key) else { panic!("no HTTP error") };
    let HttpError::Authorization { error: told, refusal: Some(refusal) } = &*found else { panic!("{found}") };
    assert_eq!((told.downcast_ref(), refusal.status), (Some(&error), 401));
    assert_eq!(found.to_string(), "not authorized: the token request at https://as.example: no key");

    let mut harness =
        HttpClientHarness::new(client(VersionSet::ALL), config().await_credential(true), Chunker::Whole);
    let challenge = harness.expect_challenge();
    harness.client.authorization().fail(harness.now, challenge.exchange, &error).expect("open");
    let Fault::Http(found) = harness.expect_closed() else { panic!("no HTTP fault") };
    assert_eq!(*found, HttpError::Authorization { error: (&error).into(), refusal: None });
}

#[test]
fn cancelled_call_does_not_wait_for_a_due_credential() {
    let mut harness = modern(config().credential(bearer("old").renew_at(Some(Instant::ZERO + secs(100)))));
    harness.advance(secs(101));
    let key = harness.call("tools/call", &json!({"name": "wave"}), &CallOptions::new());
    let challenge = harness.expect_challenge();
    harness.client.engine().cancel(harness.now, key, None).expect("a call");
    assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
    assert!(harness.client.authorization().authorize(harness.now, challenge.exchange, bearer("x")).is_err());
    harness.assert_nothing_sent();
}

#[test]
fn credentials_that_are_due_at_once_are_renewed_once_for_a_request() {
    let due = |token| bearer(token).renew_at(Some(Instant::ZERO));
    let mut harness = modern(config().credential(bearer("old").renew_at(Some(Instant::ZERO + secs(100)))));
    harness.advance(secs(101));
    let key = harness.call("tools/call", &json!({"name": "wave"}), &CallOptions::new());
    let challenge = harness.expect_challenge();
    harness.client.authorization().authorize(harness.now, challenge.exchange, due("new")).expect("open");
    let request = harness.expect_post("tools/call");
    assert_eq!(request.field("Authorization"), Some("Bearer new"));
    answer(&mut harness, &request);
    assert!(harness.expect_done(key).is_ok());
}

#[test]
fn credential_without_a_challenge_is_for_later_requests() {
    let mut harness = modern(config());
    harness.client.authorization().set_credential(harness.now, bearer("t")).expect("nothing is held");
    let (key, request) = harness.start_wave_call(&CallOptions::new());
    assert_eq!(request.field("Authorization"), Some("Bearer t"));
    harness.respond_with(request.id, 401, &[], "");
    let challenge = harness.expect_challenge();
    assert!(harness.client.authorization().set_credential(harness.now, bearer("u")).is_err(), "it is open");
    harness.client.authorization().refuse(harness.now, challenge.exchange).expect("open");
    assert!(harness.expect_done(key).is_err());
}

// ---- DPoP ----------------------------------------------------------------------------------------------------------

// covers: AUTH-006, AUTH-007
#[test]
fn each_request_has_a_proof_of_its_own() {
    let mut harness = modern_bound();
    let mut ids = BTreeSet::new();
    for _ in 0..3 {
        let key = harness.call("tools/call", &json!({"name": "wave"}), &CallOptions::new());
        sign(&mut harness);
        let request = harness.expect_post("tools/call");
        assert_eq!(request.field("Authorization"), Some("DPoP t0k3n"));
        let claims = claims(&request);
        assert_eq!(
            (claims["htm"].as_str(), claims["htu"].as_str()),
            (Some("POST"), Some("http://tide.example:3000/mcp"))
        );
        assert_eq!(claims["ath"], "uByCmsVehY6ifCpAFNKgc6GJ7zkfHIXUIU-FfU1cA5o");
        assert!(claims["iat"].as_u64().is_some_and(|at| at >= UNIX_SECS));
        assert!(ids.insert(claims["jti"].to_string()), "a proof was repeated");
        answer(&mut harness, &request);
        assert!(harness.expect_done(key).is_ok());
    }
    let shown = format!("{:?} {:?}", harness.client, bound("t0k3n"));
    assert!(!shown.contains("pr1vate") && !shown.contains("t0k3n"), "{shown}");
    assert!(shown.ends_with(" Credential(…)"), "{shown}");
}

#[test]
fn nonces_of_the_server_are_used_and_asked_for_twice_at_most() {
    let mut harness = modern_bound();
    let key = harness.call("tools/call", &json!({"name": "wave"}), &CallOptions::new());
    sign(&mut harness);
    let mut request = harness.expect_post("tools/call");
    assert_eq!(claims(&request)["nonce"], Value::Null);
    for nonce in ["n1", "n2"] {
        let fields = [("DPoP-Nonce", nonce), ("WWW-Authenticate", "DPoP error=\"use_dpop_nonce\"")];
        harness.respond_with(request.id, 401, &fields, "");
        sign(&mut harness);
        request = harness.expect_post("tools/call");
        assert_eq!(claims(&request)["nonce"], nonce);
    }
    // A server that never has enough is a challenge like any other.
    harness.respond_with(request.id, 401, &[("DPoP-Nonce", "n3")], "");
    let challenge = harness.expect_challenge();
    harness.client.authorization().refuse(harness.now, challenge.exchange).expect("open");
    assert!(harness.expect_done(key).is_err());
}

#[test]
fn request_is_repeated_three_times_with_credentials_that_came_meanwhile() {
    let mut harness = modern(config().credential(bearer("t0")));
    let (key, mut request) = harness.start_wave_call(&CallOptions::new());
    for token in ["t1", "t2", "t3"] {
        let now = harness.now;
        harness.client.authorization().set_credential(now, bearer(token)).expect("no challenge");
        harness.respond_with(request.id, 401, &[], "");
        request = harness.expect_post("tools/call");
        assert_eq!(request.field("authorization"), Some(&*format!("Bearer {token}")));
    }
    let now = harness.now;
    harness.client.authorization().set_credential(now, bearer("t4")).expect("no challenge");
    harness.respond_with(request.id, 401, &[], "");
    assert!(harness.expect_done(key).is_err());
    harness.assert_nothing_sent();
}

#[test]
fn refusal_with_the_nonce_of_its_proof_is_about_the_token() {
    let mut harness = modern_bound();
    harness.call("tools/call", &json!({"name": "wave"}), &CallOptions::new());
    for nonce in [Value::Null, json!("n1")] {
        sign(&mut harness);
        let request = harness.expect_post("tools/call");
        assert_eq!(claims(&request)["nonce"], nonce);
        harness.respond_with(request.id, 401, &[("DPoP-Nonce", "n1")], "");
    }
    assert_eq!(harness.expect_challenge().cause, ChallengeCause::Unauthorized);
}

#[test]
fn bound_credential_is_no_bearer_token_and_shows_nothing() {
    let one = bound("t0k3n");
    assert_eq!(one, bound("t0k3n"));
    assert!(one != bound("other") && one != bearer("t0k3n"));
    let mut harness = modern_bound();
    harness.call("tools/call", &json!({"name": "wave"}), &CallOptions::new());
    harness.pump();
    let request = harness.client.authorization().poll_proof().expect("a proof");
    assert_eq!((request.token(), request.method), ("t0k3n", "POST"));
    assert!(!format!("{request:?}{one:?}").contains("t0k3n"), "{request:?}");
    assert!(config().credential(one).has_credential() && !config().has_credential());
}

#[test]
fn proof_that_no_field_can_have_fails_its_call_alone() {
    let mut harness = modern_bound();
    let key = harness.call("tools/call", &json!({"name": "wave"}), &CallOptions::new());
    harness.pump();
    let request = harness.client.authorization().poll_proof().expect("a proof");
    harness.client.authorization().handle_proof(harness.now, request.exchange, "a\r\nb");
    let Err(CallError::Http(error)) = harness.expect_done(key) else { panic!("no HTTP error") };
    assert!(error.to_string().contains("the proof has characters"), "{error}");
    harness.assert_nothing_sent();
}

#[test]
fn requests_in_flight_together_are_repeated_with_the_same_nonce() {
    let mut harness = modern_bound();
    let keys: Vec<_> =
        (0..2).map(|_| harness.call("tools/call", &json!({"name": "wave"}), &CallOptions::new())).collect();
    harness.pump();
    sign(&mut harness);
    sign(&mut harness);
    let fields = [("DPoP-Nonce", "n1"), ("WWW-Authenticate", "DPoP error=\"use_dpop_nonce\"")];
    for request in harness.take_requests() {
        harness.respond_with(request.id, 401, &fields, "");
    }
    sign(&mut harness);
    sign(&mut harness);
    assert!(harness.client.authorization().poll_challenge().is_none());
    for request in harness.take_requests() {
        assert_eq!(claims(&request)["nonce"], "n1");
        answer(&mut harness, &request);
    }
    for key in keys {
        assert!(harness.expect_done(key).is_ok());
    }
}

#[test]
fn nonce_of_an_answer_is_used_in_the_next_proof() {
    let mut harness = modern_bound();
    for (expected, next) in [(Value::Null, "n1"), (json!("n1"), "bad\"nonce"), (json!("n1"), "n2")] {
        let key = harness.call("tools/call", &json!({"name": "wave"}), &CallOptions::new());
        sign(&mut harness);
        let request = harness.expect_post("tools/call");
        assert_eq!(claims(&request)["nonce"], expected);
        let body = result_response(&request.body, json!({"resultType": "complete", "content": []}));
        let fields = [("Content-Type", "application/json"), ("DPoP-Nonce", next)];
        harness.respond_with(request.id, 200, &fields, &body.to_string());
        assert!(harness.expect_done(key).is_ok());
    }
}

#[test]
fn proof_that_cannot_be_signed_fails_its_call_alone() {
    let mut harness = modern_bound();
    let failing = harness.call("tools/call", &json!({"name": "wave"}), &CallOptions::new());
    let other = harness.call("tools/call", &json!({"name": "wave"}), &CallOptions::new());
    harness.pump();
    let request = harness.client.authorization().poll_proof().expect("a proof");
    harness.client.authorization().fail_proof(harness.now, request.exchange, "the key is gone");
    let Err(CallError::Http(error)) = harness.expect_done(failing) else { panic!("no HTTP error") };
    assert!(error.to_string().contains("the key is gone"), "{error}");
    sign(&mut harness);
    let request = harness.expect_post("tools/call");
    answer(&mut harness, &request);
    assert!(harness.expect_done(other).is_ok());
}

#[test]
fn cancelled_call_is_not_sent_once_its_proof_is_signed() {
    let mut harness = modern_bound();
    let key = harness.call("tools/call", &json!({"name": "wave"}), &CallOptions::new());
    harness.pump();
    let request = harness.client.authorization().poll_proof().expect("a proof");
    harness.client.engine().cancel(harness.now, key, None).expect("a call");
    assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
    harness.client.authorization().handle_proof(harness.now, request.exchange, "p.r.f");
    harness.assert_nothing_sent();
}

/// Returns a modern client whose credential is bound to a key.
fn modern_bound() -> HttpClientHarness {
    let mut harness = HttpClientHarness::new(
        client(VersionSet::MODERN),
        config().credential(bound("t0k3n")),
        Chunker::Whole,
    );
    harness.assert_nothing_sent();
    sign(&mut harness);
    let probe = harness.expect_post("server/discover");
    harness.respond_with_json(
        probe.id,
        200,
        &result_response(&probe.body, discover_result(&["2026-07-28"], json!({"tools": {}}))),
    );
    harness.expect_ready();
    harness
}

// covers: SEC-019
#[test]
fn secrets_that_a_server_quotes_are_not_in_errors() {
    let config =
        config().credential(bearer("s3cret-token")).field("X-Api-Key", b"s3cret-key").expect("a field");
    let quoted = "Authorization: Bearer s3cret-token, X-Api-Key: s3cret-key";
    let rpc = json!({"jsonrpc": "2.0", "id": null, "error": {
        "code": -32000, "message": quoted, "data": {"request": quoted}}});
    let challenge = format!("Bearer error=\"invalid_token\", error_description=\"{quoted}\"");
    let cut = format!("{}{quoted}", "x".repeat(mcp_proto::Limits::default().max_noise_bytes - 30));
    for (status, fields, body) in [
        (400, &[("Content-Type", "text/plain")][..], quoted),
        (500, &[("Content-Type", "application/json")], &*rpc.to_string()),
        (403, &[("WWW-Authenticate", &*challenge)], ""),
        (400, &[("Content-Type", quoted)], "no"),
        (400, &[("Content-Type", "text/plain")], &*cut),
    ] {
        let mut harness = modern(config.clone());
        let (key, request) = harness.start_wave_call(&CallOptions::new());
        harness.respond_with(request.id, status, fields, body);
        let error = harness.expect_done(key).expect_err("a failure");
        let text = format!("{error} {error:?}");
        assert!(text.contains('…') && !text.contains("s3cret"), "{status} {text}");
    }
    // A refusal for which there is no other credential.
    let mut harness = modern(config.clone());
    let (key, request) = harness.start_wave_call(&CallOptions::new());
    harness.respond_with(request.id, 401, &[("Content-Type", "text/plain")], quoted);
    let challenge = harness.expect_challenge();
    let failure = Error::local(Step::Token, "https://as.example", "no key");
    harness.client.authorization().fail(harness.now, challenge.exchange, &failure).expect("open");
    let text = format!("{:?}", harness.expect_done(key).expect_err("a failure"));
    assert!(text.contains('…') && !text.contains("s3cret"), "{text}");
    // A late answer to a request with the credential before.
    let mut harness = modern(config);
    let (key, request) = harness.start_wave_call(&CallOptions::new());
    let now = harness.now;
    harness.client.authorization().set_credential(now, bearer("another-token")).expect("no challenge");
    harness.respond_with(request.id, 400, &[("Content-Type", "text/plain")], quoted);
    let error = harness.expect_done(key).expect_err("a failure");
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
}

#[test]
fn challenge_that_contains_the_value_of_a_field_can_be_answered() {
    let config = config().field("X-Tenant", b"tide.example").expect("a field");
    let config = config.field("X-Api-Key", b"metadata").expect("a field");
    let mut harness = modern(config);
    let (key, request) = harness.start_wave_call(&CallOptions::new());
    let metadata = "https://tide.example/metadata";
    let challenge = format!("Bearer resource_metadata=\"{metadata}\"");
    harness.respond_with(request.id, 401, &[("WWW-Authenticate", &challenge)], "");
    let challenge = harness.expect_challenge();
    assert_eq!(challenge.challenges[0].param("resource_metadata"), Some(metadata));
    harness.client.authorization().refuse(harness.now, challenge.exchange).expect("open");
    // An application may answer the challenge of the error, too.
    let Err(CallError::Http(error)) = harness.expect_done(key) else { panic!("no HTTP error") };
    let HttpError::Response(answer) = &*error else { panic!("{error}") };
    assert_eq!(answer.challenges[0].param("resource_metadata"), Some(metadata));
}

// covers: AUTH-061, AUTH-008
#[test]
fn credential_without_tls_to_another_machine_needs_permission() {
    for (url, exposed) in [
        ("http://h/mcp", true),
        ("http://10.0.0.1/mcp", true),
        ("https://h/mcp", false),
        ("http://localhost:1/mcp", false),
        ("http://127.0.0.9/mcp", false),
        ("http://[::1]/mcp", false),
        ("http://localhost.evil.example/mcp", true),
    ] {
        let config = Config::new(url).expect("a URL");
        assert!(!config.exposes_credential(), "{url}: no credential");
        let config = config.credential(bearer("t"));
        assert_eq!(config.exposes_credential(), exposed, "{url}");
        assert!(!config.dangerously_allow_cleartext_credential().exposes_credential());
    }
}
