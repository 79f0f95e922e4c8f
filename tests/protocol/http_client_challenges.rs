//! HTTP client: 401 and 403 challenges, and the credentials of the application.

use mcp_proto::http::client::{ChallengeCause, Config, Credential, RequestFieldError, UrlError};
use mcp_proto::{CallError, CallOptions, Fault, HttpError, UseError, Version, VersionSet};
use mcp_tests::harness::build::{discover_result, result_response};
use mcp_tests::harness::{Chunker, ENDPOINT, HttpClientHarness, for_each_chunker};
use serde_json::json;

use crate::protocol::common::{client, secs};

const BEARER: &str = r#"Bearer resource_metadata="http://tide.example:3000/.well-known/x", scope="a b""#;
const STEP_UP: &str = r#"Bearer error="insufficient_scope", scope="a b c", error_description="more""#;

fn challenge_config() -> Config {
    HttpClientHarness::default_http_config().handle_challenges(true)
}

fn credential(text: &str) -> Credential {
    Credential::bearer(text).expect("a token")
}

fn tool_result() -> serde_json::Value {
    json!({"resultType": "complete", "content": []})
}

// covers: HTTP-079, VER-021, HTTP-088
#[test]
fn request_is_held_until_application_provides_credential() {
    for_each_chunker(|cut| {
        let mut harness = HttpClientHarness::new(client(VersionSet::ALL), challenge_config(), cut);
        let probe = harness.expect_post("server/discover");
        assert_eq!(probe.field("authorization"), None);
        harness.respond_with(
            probe.id,
            401,
            &[("WWW-Authenticate", BEARER), ("Content-Type", "text/plain")],
            "no",
        );
        let challenge = harness.expect_challenge();
        assert_eq!((challenge.cause, challenge.credentials_tried), (ChallengeCause::Unauthorized, 0));
        let bearer = &challenge.challenges[0];
        assert!(bearer.is_bearer());
        assert_eq!(bearer.param("resource_metadata"), Some("http://tide.example:3000/.well-known/x"));
        assert_eq!(bearer.param("scope"), Some("a b"));
        // A person may take long to log in.
        harness.advance(secs(600));
        harness.assert_idle();
        harness
            .client
            .authorization()
            .authorize(harness.now, challenge.exchange, credential("t0k3n"))
            .expect("an open challenge");
        let again = harness.expect_post("server/discover");
        assert_eq!(again.field("Authorization"), Some("Bearer t0k3n"));
        assert_eq!(again.body, probe.body);
        harness.respond_with_json(
            again.id,
            200,
            &result_response(&again.body, discover_result(&["2026-07-28"], json!({"tools": {}}))),
        );
        harness.expect_ready();
        // Every later request has the credential too.
        let (key, request) = harness.start_wave_call(&CallOptions::new());
        assert_eq!(request.field("Authorization"), Some("Bearer t0k3n"));
        harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
        assert!(harness.expect_done(key).is_ok());
        harness.transcript
    });
}

#[test]
fn held_exchanges_continue_together_after_authorize() {
    let mut harness = HttpClientHarness::new(client(VersionSet::MODERN), challenge_config(), Chunker::Whole);
    harness.become_modern(json!({"tools": {}}));
    let (a, one) = harness.start_wave_call(&CallOptions::new());
    let (b, two) = harness.start_wave_call(&CallOptions::new());
    let (c, three) = harness.start_wave_call(&CallOptions::new());
    harness.respond_with(one.id, 401, &[("WWW-Authenticate", BEARER)], "");
    harness.respond_with(two.id, 401, &[], "");
    let challenge = harness.expect_challenge();
    assert!(
        harness.client.authorization().poll_challenge().is_none(),
        "one challenge for all held exchanges"
    );
    assert_eq!(
        harness.client.authorization().authorize(harness.now, one.id, credential("x")),
        Err(UseError::Stale)
    );
    harness
        .client
        .authorization()
        .authorize(harness.now, challenge.exchange, credential("x"))
        .expect("an open challenge");
    assert_eq!(
        harness.client.authorization().authorize(harness.now, challenge.exchange, credential("x")),
        Err(UseError::Stale)
    );
    let mut requests = harness.take_requests();
    assert_eq!(requests.len(), 2);
    requests.sort_by_key(|a| a.body["id"] != one.body["id"]);
    // A request that was sent before the credential is sent again with it, without another challenge.
    harness.respond_with(three.id, 401, &[], "");
    let last = harness.expect_post("tools/call");
    assert!(harness.client.authorization().poll_challenge().is_none());
    for (key, request) in [(a, &requests[0]), (b, &requests[1]), (c, &last)] {
        assert_eq!(request.field("Authorization"), Some("Bearer x"));
        harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
        assert!(harness.expect_done(key).is_ok());
    }
    harness.assert_idle();
}

fn expect_refused(outcome: Result<serde_json::Value, CallError>) -> mcp_proto::HttpResponse {
    match outcome {
        Err(CallError::Http(e)) => match HttpError::clone(&e) {
            HttpError::Response(answer) => answer,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn call_fails_after_three_rejected_credentials() {
    let mut harness = HttpClientHarness::new(client(VersionSet::MODERN), challenge_config(), Chunker::Whole);
    harness.become_modern(json!({"tools": {}}));
    let (key, mut request) = harness.start_wave_call(&CallOptions::new());
    for tried in 0..3 {
        harness.respond_with(request.id, 403, &[("WWW-Authenticate", STEP_UP)], "");
        let challenge = harness.expect_challenge();
        assert_eq!(
            (challenge.cause, challenge.credentials_tried),
            (ChallengeCause::InsufficientScope, tried)
        );
        assert_eq!(challenge.challenges[0].param("error_description"), Some("more"));
        harness
            .client
            .authorization()
            .authorize(harness.now, challenge.exchange, credential("s3cret"))
            .expect("an open challenge");
        request = harness.expect_post("tools/call");
    }
    harness.respond_with(request.id, 403, &[("WWW-Authenticate", STEP_UP)], "");
    let answer = expect_refused(harness.expect_done(key));
    assert_eq!((answer.status, answer.challenges[0].param("scope")), (403, Some("a b c")));
    let details = "; the server asks for `Bearer` authorization, error `insufficient_scope`, error_description `more`, scope `a b c`";
    assert!(answer.to_string().ends_with(details), "{answer}");
    assert!(harness.client.authorization().poll_challenge().is_none());
    assert!(!format!("{:?}", harness.client).contains("s3cret"));
}

#[test]
fn refused_challenge_fails_held_call() {
    let mut harness = HttpClientHarness::new(client(VersionSet::MODERN), challenge_config(), Chunker::Whole);
    harness.become_modern(json!({"tools": {}}));
    let (key, request) = harness.start_wave_call(&CallOptions::new());
    harness.respond_with(request.id, 401, &[("WWW-Authenticate", BEARER)], "");
    let challenge = harness.expect_challenge();
    harness.client.authorization().refuse(harness.now, challenge.exchange).expect("an open challenge");
    assert_eq!(expect_refused(harness.expect_done(key)).challenges.len(), 1);
    harness.assert_idle();
    // A cancelled exchange needs no credential; the next held exchange raises a challenge of its own.
    let (a, one) = harness.start_wave_call(&CallOptions::new());
    let (_, two) = harness.start_wave_call(&CallOptions::new());
    harness.respond_with(one.id, 401, &[], "");
    harness.respond_with(two.id, 401, &[], "");
    let first = harness.expect_challenge();
    harness.client.engine().cancel(harness.now, a, None).expect("a call");
    assert_eq!(harness.expect_done(a), Err(CallError::Cancelled));
    let second = harness.expect_challenge();
    assert_ne!(first.exchange, second.exchange);
    assert_eq!(harness.client.authorization().refuse(harness.now, first.exchange), Err(UseError::Stale));
    harness.client.close(harness.now);
    assert_eq!(harness.client.authorization().refuse(harness.now, second.exchange), Err(UseError::Stale));
}

// covers: HTTP-088
#[test]
fn challenge_without_handler_is_an_error() {
    for (status, field) in [(401, BEARER), (401, ""), (401, "Unknown realm=x"), (403, STEP_UP), (403, "")] {
        let mut harness = HttpClientHarness::new(
            client(VersionSet::MODERN),
            HttpClientHarness::default_http_config(),
            Chunker::Whole,
        );
        harness.become_modern(json!({"tools": {}}));
        let (key, request) = harness.start_wave_call(&CallOptions::new());
        let fields: &[(&str, &str)] = if field.is_empty() { &[] } else { &[("www-authenticate", field)] };
        harness.respond_with(request.id, status, fields, "");
        let answer = expect_refused(harness.expect_done(key));
        assert_eq!((answer.status, answer.challenges.len()), (status, usize::from(!field.is_empty())));
        harness.assert_idle();
    }
    let mut harness = HttpClientHarness::new(
        client(VersionSet::ALL),
        HttpClientHarness::default_http_config(),
        Chunker::Whole,
    );
    let probe = harness.expect_post("server/discover");
    harness.respond_with(probe.id, 401, &[("www-authenticate", BEARER)], "");
    let fault = harness.expect_closed();
    assert!(matches!(&fault, Fault::Http(_)));
    assert!(fault.to_string().contains("Bearer"), "{fault}");
}

// covers: HTTP-079
#[test]
fn legacy_session_handles_challenges() {
    let mut harness = HttpClientHarness::new(client(VersionSet::LEGACY), challenge_config(), Chunker::Whole);
    let request = harness.expect_post("initialize");
    harness.respond_with(request.id, 401, &[("WWW-Authenticate", BEARER)], "");
    let challenge = harness.expect_challenge();
    harness
        .client
        .authorization()
        .authorize(harness.now, challenge.exchange, credential("x"))
        .expect("an open challenge");
    harness.become_legacy_with_get_stream(Version::V2025_11_25, Some("s"), json!({}));
    harness.client.close(harness.now);
    harness.expect_aborted();
    assert_eq!(harness.expect_request().field("Authorization"), Some("Bearer x"));
}

// covers: SEC-019
#[test]
fn application_header_fields_are_validated() {
    let config = || Config::new(ENDPOINT).expect("a URL");
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "accept",
        "Content-Type",
        "MCP-Anything",
        "TE",
        "accept-encoding",
        "Range",
    ] {
        assert_eq!(config().field(name, b"x").err(), Some(RequestFieldError::Reserved), "{name}");
    }
    for name in ["", "a b", "a:"] {
        assert_eq!(config().field(name, b"x").err(), Some(RequestFieldError::Name), "{name:?}");
    }
    for name in ["X-Y", "authorization"] {
        assert_eq!(config().field(name, b"a\r\nb: c").err(), Some(RequestFieldError::Value), "{name}");
    }
    for bad in ["", "a b", "a\r\n", "\u{e9}"] {
        assert_eq!(Credential::bearer(bad).err(), Some(RequestFieldError::Value), "{bad:?}");
    }
    assert_eq!(Config::new("ws://x").err(), Some(UrlError::Scheme));
    let config =
        config().field("X-Tide", b"high").expect("a valid field").field("Authorization", b"Basic s3cret");
    let config = config.expect("a valid field");
    assert!(!format!("{config:?}").contains("s3cret") && !format!("{config:?}").contains("high"));
    let mut harness = HttpClientHarness::new(client(VersionSet::ALL), config, Chunker::Whole);
    let probe = harness.expect_post("server/discover");
    assert_eq!((probe.field("x-tide"), probe.field("authorization")), (Some("high"), Some("Basic s3cret")));
}

// covers: SEC-019
#[test]
fn redirect_error_hides_query_and_credential() {
    let config = HttpClientHarness::default_http_config().credential(credential("s3cret"));
    for (status, location, shown) in [
        (302, "/login?next=s3cret", "http://tide.example:3000/login?…,"),
        (307, "https://tide.example/mcp", "https://tide.example/mcp,"),
        (308, "//evil.example/mcp?x=s3cret#s3cret", "http://evil.example/mcp?…,"),
        (307, "http://tide.example:3001/mcp", "http://tide.example:3001/mcp,"),
        (301, "", "http://tide.example:3000/mcp,"),
        (303, "http://a b/", "no valid URL,"),
    ] {
        let mut harness = HttpClientHarness::new(client(VersionSet::MODERN), config.clone(), Chunker::Whole);
        harness.become_modern(json!({"tools": {}}));
        let (key, request) = harness.start_wave_call(&CallOptions::new());
        assert_eq!(request.field("Authorization"), Some("Bearer s3cret"));
        harness.respond_with(request.id, status, &[("Location", location)], "");
        let error = harness.expect_done(key).expect_err("not followed").to_string();
        assert!(error.contains(shown) && !error.contains("s3cret"), "{error}");
        harness.assert_idle();
    }
}

// covers: HTTP-079, AUTH-004
#[test]
fn refusal_whose_body_does_not_end_is_a_challenge_all_the_same() {
    for body in ["", "{\"error\":"] {
        for_each_chunker(|cut| {
            let mut harness = HttpClientHarness::new(client(VersionSet::ALL), challenge_config(), cut);
            let probe = harness.expect_post("server/discover");
            let fields = [("WWW-Authenticate", BEARER), ("Content-Type", "application/json")];
            harness.receive_head(probe.id, 401, &fields);
            harness.receive_body(probe.id, body);
            harness.advance(secs(4));
            harness.assert_idle();
            harness.advance(secs(1));
            assert_eq!(harness.expect_aborted(), probe.id);
            let challenge = harness.expect_challenge();
            let mut authorization = harness.client.authorization();
            authorization
                .authorize(harness.now, challenge.exchange, credential("t0k3n"))
                .expect("an open challenge");
            let again = harness.expect_post("server/discover");
            assert_eq!(again.field("Authorization"), Some("Bearer t0k3n"));
            harness.transcript
        });
    }
}

// covers: HTTP-079
#[test]
fn refusal_is_a_challenge_at_the_end_of_its_body_or_at_its_head_if_that_begins_a_stream() {
    for (content_type, is_at_once) in
        [("text/event-stream", true), ("application/json", false), ("text/plain", false)]
    {
        for is_whole in [true, false] {
            let mut harness =
                HttpClientHarness::new(client(VersionSet::MODERN), challenge_config(), Chunker::Whole);
            harness.become_modern(json!({"tools": {}}));
            let (_, request) = harness.start_wave_call(&CallOptions::new());
            let fields = [("WWW-Authenticate", BEARER), ("Content-Type", content_type)];
            harness.receive_head(request.id, 401, &fields);
            if !is_at_once {
                assert!(harness.client.authorization().poll_challenge().is_none(), "{content_type}");
                harness.receive_body(request.id, "no");
                // What it says is known without the rest of its body.
                if is_whole {
                    harness.receive_end(request.id);
                } else {
                    harness.break_connection(request.id);
                }
            }
            assert_eq!(harness.expect_challenge().cause, ChallengeCause::Unauthorized);
        }
    }
}
