//! Over HTTP: 401 and 403, whom they ask, and what they get.

use mcp_proto::http::client::{BadField, Config, Credential, UrlError};
use mcp_proto::{CallError, CallOptions, Fault, HttpError, UseError, Version, VersionSet};
use mcp_tests::harness::build::{discovery, result};
use mcp_tests::harness::{Chunker, ENDPOINT, LoneHttp, each_cut};
use serde_json::json;

use crate::common::{client, secs};

const BEARER: &str = r#"Bearer resource_metadata="http://tide.example:3000/.well-known/x", scope="a b""#;
const STEP_UP: &str = r#"Bearer error="insufficient_scope", scope="a b c", error_description="more""#;

fn asking() -> Config {
    LoneHttp::http().asks_for_credentials(true)
}

fn token(text: &str) -> Credential {
    Credential::bearer(text).expect("a token")
}

fn answer() -> serde_json::Value {
    json!({"resultType": "complete", "content": []})
}

// covers: HTTP-079, VER-021, HTTP-088
#[test]
fn the_first_request_is_held_until_there_is_a_credential() {
    each_cut(|cut| {
        let mut lone = LoneHttp::new(client(VersionSet::ALL), asking(), cut);
        let probe = lone.posted("server/discover");
        assert_eq!(probe.field("authorization"), None);
        lone.answer_with(
            probe.id,
            401,
            &[("WWW-Authenticate", BEARER), ("Content-Type", "text/plain")],
            "no",
        );
        let challenge = lone.challenged();
        assert_eq!((challenge.status, challenge.tried), (401, 0));
        let asks = &challenge.challenges[0];
        assert!(asks.is_bearer());
        assert_eq!(asks.param("resource_metadata"), Some("http://tide.example:3000/.well-known/x"));
        assert_eq!(asks.param("scope"), Some("a b"));
        // People take their time.
        lone.pass(secs(600));
        lone.still();
        lone.client.authorize(lone.now, challenge.exchange, token("t0k3n")).expect("it was asked");
        let again = lone.posted("server/discover");
        assert_eq!(again.field("Authorization"), Some("Bearer t0k3n"));
        assert_eq!(again.body, probe.body);
        lone.json(again.id, 200, &result(&again.body, discovery(&["2026-07-28"], json!({"tools": {}}))));
        lone.ready();
        // Every later request has it too.
        let (key, asked) = lone.waves(&CallOptions::new());
        assert_eq!(asked.field("Authorization"), Some("Bearer t0k3n"));
        lone.json(asked.id, 200, &result(&asked.body, answer()));
        assert!(lone.done(key).is_ok());
        lone.transcript
    });
}

#[test]
fn exchanges_that_are_held_together_go_on_together() {
    let mut lone = LoneHttp::new(client(VersionSet::MODERN), asking(), Chunker::Whole);
    lone.with_modern(json!({"tools": {}}));
    let (a, one) = lone.waves(&CallOptions::new());
    let (b, two) = lone.waves(&CallOptions::new());
    let (c, three) = lone.waves(&CallOptions::new());
    lone.answer_with(one.id, 401, &[("WWW-Authenticate", BEARER)], "");
    lone.answer_with(two.id, 401, &[], "");
    let challenge = lone.challenged();
    assert!(lone.client.poll_challenge().is_none(), "asked once");
    assert_eq!(lone.client.authorize(lone.now, one.id, token("x")), Err(UseError::Stale));
    lone.client.authorize(lone.now, challenge.exchange, token("x")).expect("it was asked");
    assert_eq!(lone.client.authorize(lone.now, challenge.exchange, token("x")), Err(UseError::Stale));
    let mut asked = lone.all_asked();
    assert_eq!(asked.len(), 2);
    asked.sort_by_key(|a| a.body["id"] != one.body["id"]);
    // One that was sent without it is sent again with it, and nobody is asked.
    lone.answer_with(three.id, 401, &[], "");
    let last = lone.posted("tools/call");
    assert!(lone.client.poll_challenge().is_none());
    for (key, asked) in [(a, &asked[0]), (b, &asked[1]), (c, &last)] {
        assert_eq!(asked.field("Authorization"), Some("Bearer x"));
        lone.json(asked.id, 200, &result(&asked.body, answer()));
        assert!(lone.done(key).is_ok());
    }
    lone.still();
}

fn refused(outcome: Result<serde_json::Value, CallError>) -> mcp_proto::HttpAnswer {
    match outcome {
        Err(CallError::Http(e)) => match HttpError::clone(&e) {
            HttpError::Answer(answer) => answer,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn credentials_are_not_tried_without_end() {
    let mut lone = LoneHttp::new(client(VersionSet::MODERN), asking(), Chunker::Whole);
    lone.with_modern(json!({"tools": {}}));
    let (key, mut asked) = lone.waves(&CallOptions::new());
    for tried in 0..3 {
        lone.answer_with(asked.id, 403, &[("WWW-Authenticate", STEP_UP)], "");
        let challenge = lone.challenged();
        assert_eq!((challenge.status, challenge.tried), (403, tried));
        assert_eq!(challenge.challenges[0].param("error_description"), Some("more"));
        lone.client.authorize(lone.now, challenge.exchange, token("s3cret")).expect("it was asked");
        asked = lone.posted("tools/call");
    }
    lone.answer_with(asked.id, 403, &[("WWW-Authenticate", STEP_UP)], "");
    let answer = refused(lone.done(key));
    assert_eq!((answer.status, answer.challenges[0].param("scope")), (403, Some("a b c")));
    let said = "; it asks for `Bearer` authorization, error `insufficient_scope`, error_description `more`, scope `a b c`";
    assert!(answer.to_string().ends_with(said), "{answer}");
    assert!(lone.client.poll_challenge().is_none());
    assert!(!format!("{:?}", lone.client).contains("s3cret"));
}

#[test]
fn a_refusal_ends_what_was_held() {
    let mut lone = LoneHttp::new(client(VersionSet::MODERN), asking(), Chunker::Whole);
    lone.with_modern(json!({"tools": {}}));
    let (key, asked) = lone.waves(&CallOptions::new());
    lone.answer_with(asked.id, 401, &[("WWW-Authenticate", BEARER)], "");
    let challenge = lone.challenged();
    lone.client.refuse(lone.now, challenge.exchange).expect("it was asked");
    assert_eq!(refused(lone.done(key)).challenges.len(), 1);
    lone.still();
    // One that is cancelled needs no credential any more; the next one that is held is asked about.
    let (a, one) = lone.waves(&CallOptions::new());
    let (_, two) = lone.waves(&CallOptions::new());
    lone.answer_with(one.id, 401, &[], "");
    lone.answer_with(two.id, 401, &[], "");
    let first = lone.challenged();
    lone.client.engine().cancel(lone.now, a, None).expect("a call");
    assert_eq!(lone.done(a), Err(CallError::Cancelled));
    let second = lone.challenged();
    assert_ne!(first.exchange, second.exchange);
    assert_eq!(lone.client.refuse(lone.now, first.exchange), Err(UseError::Stale));
    lone.client.close(lone.now);
    assert_eq!(lone.client.refuse(lone.now, second.exchange), Err(UseError::Stale));
}

// covers: HTTP-088
#[test]
fn without_anybody_to_ask_a_challenge_is_an_error() {
    for (status, field) in [(401, BEARER), (401, ""), (401, "Unknown realm=x"), (403, STEP_UP), (403, "")] {
        let mut lone = LoneHttp::new(client(VersionSet::MODERN), LoneHttp::http(), Chunker::Whole);
        lone.with_modern(json!({"tools": {}}));
        let (key, asked) = lone.waves(&CallOptions::new());
        let fields: &[(&str, &str)] = if field.is_empty() { &[] } else { &[("www-authenticate", field)] };
        lone.answer_with(asked.id, status, fields, "");
        let answer = refused(lone.done(key));
        assert_eq!((answer.status, answer.challenges.len()), (status, usize::from(!field.is_empty())));
        lone.still();
    }
    let mut lone = LoneHttp::new(client(VersionSet::ALL), LoneHttp::http(), Chunker::Whole);
    let probe = lone.posted("server/discover");
    lone.answer_with(probe.id, 401, &[("www-authenticate", BEARER)], "");
    let fault = lone.closed();
    assert!(matches!(&fault, Fault::Http(_)));
    assert!(fault.to_string().contains("Bearer"), "{fault}");
}

// covers: HTTP-079
#[test]
fn a_legacy_session_asks_too() {
    let mut lone = LoneHttp::new(client(VersionSet::LEGACY), asking(), Chunker::Whole);
    let asked = lone.posted("initialize");
    lone.answer_with(asked.id, 401, &[("WWW-Authenticate", BEARER)], "");
    let challenge = lone.challenged();
    lone.client.authorize(lone.now, challenge.exchange, token("x")).expect("it was asked");
    lone.with_stream(Version::V2025_11_25, Some("s"), json!({}));
    lone.client.close(lone.now);
    lone.aborted();
    assert_eq!(lone.asked().field("Authorization"), Some("Bearer x"));
}

// covers: SEC-019
#[test]
fn fields_of_the_application_are_looked_at() {
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
        assert_eq!(config().field(name, b"x").err(), Some(BadField::Reserved), "{name}");
    }
    for name in ["", "a b", "a:"] {
        assert_eq!(config().field(name, b"x").err(), Some(BadField::Name), "{name:?}");
    }
    assert_eq!(config().field("X-Y", b"a\r\nb: c").err(), Some(BadField::Value));
    for bad in ["", "a b", "a\r\n", "\u{e9}"] {
        assert_eq!(Credential::bearer(bad).err(), Some(BadField::Value), "{bad:?}");
    }
    assert_eq!(Config::new("ws://x").err(), Some(UrlError::Scheme));
    let config = config().field("X-Tide", b"high").expect("fine").field("Authorization", b"Basic s3cret");
    let config = config.expect("fine");
    assert!(!format!("{config:?}").contains("s3cret") && !format!("{config:?}").contains("high"));
    let mut lone = LoneHttp::new(client(VersionSet::ALL), config, Chunker::Whole);
    let probe = lone.posted("server/discover");
    assert_eq!((probe.field("x-tide"), probe.field("authorization")), (Some("high"), Some("Basic s3cret")));
}

// covers: SEC-019
#[test]
fn a_redirect_is_told_without_its_query_and_gets_no_credential() {
    let config = LoneHttp::http().credential(token("s3cret"));
    for (status, location, told) in [
        (302, "/login?next=s3cret", "http://tide.example:3000/login?…,"),
        (307, "https://tide.example/mcp", "https://tide.example/mcp,"),
        (308, "//evil.example/mcp?x=s3cret#s3cret", "http://evil.example/mcp?…,"),
        (307, "http://tide.example:3001/mcp", "http://tide.example:3001/mcp,"),
        (301, "", "http://tide.example:3000/mcp,"),
        (303, "http://a b/", "nowhere,"),
    ] {
        let mut lone = LoneHttp::new(client(VersionSet::MODERN), config.clone(), Chunker::Whole);
        lone.with_modern(json!({"tools": {}}));
        let (key, asked) = lone.waves(&CallOptions::new());
        assert_eq!(asked.field("Authorization"), Some("Bearer s3cret"));
        lone.answer_with(asked.id, status, &[("Location", location)], "");
        let error = lone.done(key).expect_err("not followed").to_string();
        assert!(error.contains(told) && !error.contains("s3cret"), "{error}");
        lone.still();
    }
}
