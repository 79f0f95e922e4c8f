//! The card of a server and the catalog of its host: public documents beside the endpoint.

use core::sync::atomic::{AtomicU32, Ordering};

use mcp_extensions::cards::{CardInput, CardRemote, ServerCard};
use mcp_proto::RawJson;
use mcp_proto::http::server::{Config, PublicDocument};
use mcp_tests::harness::HttpServerHarness;
use serde_json::{Value, json};

use super::tokens::protected;
use super::{CALL_FIELDS, ECHO_PARAMS, answer_call, harness, modern_request};

const CARD: &str = "/mcp/server-card";
const CATALOG: &str = "/.well-known/ai-catalog.json";

fn card() -> ServerCard {
    let remote = CardRemote::http("https://mcp.example.com/mcp");
    ServerCard::new("com.example/tides", "1.0.0", "Tide tables").remotes([remote])
}

fn with_card(http: Config) -> HttpServerHarness {
    harness(card().configure(http).expect("valid"))
}

#[test]
fn card_and_catalog_are_public() {
    let origin = ("Origin", "https://inspector.example");
    for http in [Config::new(), Config::new().cors(true), Config::new().protected(protected())] {
        let mut web = with_card(http);
        for (path, kind) in
            [(CARD, "application/mcp-server-card+json"), (CATALOG, "application/ai-catalog+json")]
        {
            for fields in [&[origin][..], &[], &[("Accept", kind)]] {
                let x = web.send_request("GET", path, fields, "");
                let reply = web.response(x);
                assert_eq!((reply.status, reply.field("content-type")), (200, Some(kind)), "{path}");
                assert_eq!(reply.field("cache-control"), Some("public, max-age=3600"));
                assert_eq!(reply.field("access-control-allow-origin"), Some("*"));
                assert_eq!(reply.field("access-control-allow-methods"), Some("GET"));
                assert_eq!(reply.field("access-control-allow-headers"), Some("Content-Type, If-None-Match"));
                assert_eq!(reply.field("access-control-expose-headers"), Some("ETag"));
                assert_eq!(reply.field("access-control-allow-credentials"), None);
                let document: Value = serde_json::from_str(&reply.body).expect("JSON");
                match path {
                    CARD => assert_eq!(document["name"], "com.example/tides"),
                    _ => assert_eq!(
                        document["entries"],
                        json!([{
                            "identifier": "urn:air:example.com:mcp:tides",
                            "type": "application/mcp-server-card+json",
                            "url": "https://mcp.example.com/mcp/server-card",
                        }])
                    ),
                }
            }
            let ask = ("Access-Control-Request-Headers", "if-none-match");
            let x = web.send_request("OPTIONS", path, &[origin, ask], "");
            let reply = web.response(x);
            assert_eq!((reply.status, reply.field("access-control-allow-origin")), (204, Some("*")));
            for method in ["PUT", "POST", "DELETE"] {
                let x = web.send_request(method, path, &[], "");
                let reply = web.response(x);
                assert_eq!((reply.status, reply.field("allow")), (405, Some("GET, HEAD")), "{method}");
                assert_eq!(reply.field("cache-control"), Some("no-store"));
            }
        }
        assert_eq!(web.server.exchange_count(), 0);
    }
}

// covers: HTTP-008
#[test]
fn live_document_is_made_for_each_request_and_is_for_no_other_origin() {
    let count = AtomicU32::new(0);
    let make = move || RawJson::encode(&count.fetch_add(1, Ordering::Relaxed)).expect("JSON");
    let document = PublicDocument::live("/health", "application/json", make);
    let mut web = harness(Config::new().cors(true).protected(protected()).document(document));
    for n in 0..3 {
        let fields = [("Origin", "https://inspector.example"), ("If-None-Match", "*")];
        let x = web.send_request("GET", "/health", &fields, "");
        let reply = web.response(x);
        assert_eq!((reply.status, &*reply.body), (200, &*n.to_string()));
        assert_eq!(reply.field("content-type"), Some("application/json"));
        assert_eq!(reply.field("cache-control"), Some("no-store"));
        assert_eq!((reply.field("access-control-allow-origin"), reply.field("etag")), (None, None));
    }
    let x = web.send_request("HEAD", "/health", &[], "");
    assert_eq!(web.response(x).status, 200);
    for method in ["OPTIONS", "POST"] {
        let x = web.send_request(method, "/health", &[("Origin", "https://inspector.example")], "");
        let reply = web.response(x);
        assert_eq!((reply.status, reply.field("allow")), (405, Some("GET, HEAD")), "{method}");
        assert_eq!(reply.field("access-control-allow-origin"), None);
    }
    let x = web.send_request("GET", "/health", &[("Host", "evil.example")], "");
    assert_eq!(web.response(x).status, 403);
    assert_eq!(web.server.exchange_count(), 0);
}

#[test]
fn unchanged_document_is_not_sent_again() {
    let mut web = with_card(Config::new());
    let mut tags = Vec::new();
    for path in [CARD, CATALOG] {
        let x = web.send_request("HEAD", path, &[], "");
        let tag = web.response(x).field("etag").expect("an entity tag").to_owned();
        assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() == 34, "{tag}");
        let weak = format!("\"other\", W/{tag}");
        for known in [&*tag, &weak, "*"] {
            for method in ["GET", "HEAD"] {
                let x = web.send_request(method, path, &[("If-None-Match", known)], "");
                let reply = web.response(x);
                assert_eq!((reply.status, &*reply.body), (304, ""), "{known}");
                assert_eq!(reply.field("etag"), Some(&*tag));
                assert_eq!(reply.field("access-control-allow-origin"), Some("*"));
            }
        }
        for other in ["\"other\"", "", tag.trim_matches('"')] {
            let x = web.send_request("GET", path, &[("If-None-Match", other)], "");
            assert_eq!(web.response(x).status, 200, "{other}");
        }
        tags.push(tag);
    }
    assert_ne!(tags[0], tags[1]);
    let changed = card().title("Tides").configure(Config::new()).expect("valid");
    let mut web = harness(changed);
    let x = web.send_request("GET", CARD, &[("If-None-Match", &tags[0])], "");
    assert_eq!(web.response(x).status, 200, "the card has changed");
}

// covers: HTTP-008, SEC-017
#[test]
fn check_of_the_host_stays_on() {
    let mut web = with_card(Config::new());
    for path in [CARD, CATALOG] {
        let fields = [("Host", "evil.example"), ("Origin", "http://evil.example")];
        let x = web.send_request("GET", path, &fields, "");
        let reply = web.response(x);
        assert_eq!((reply.status, reply.field("access-control-allow-origin")), (403, None));
        assert!(!reply.body.contains("tides"));
    }
}

#[test]
fn card_is_beside_the_endpoint_and_nowhere_else() {
    for (endpoint, path) in [("/", "/server-card"), ("/a/b", "/a/b/server-card"), ("/a/", "/a/server-card")] {
        let mut web = with_card(Config::new().path(endpoint));
        let x = web.send_request("GET", path, &[], "");
        assert_eq!(web.response(x).status, 200, "{path}");
        for other in ["/x/server-card", "/server-card/", "/a/b/server-card/x", "/.well-known/mcp/server-card"]
        {
            let x = web.send_request("GET", other, &[], "");
            assert_eq!(web.response(x).status, 404, "{other}");
        }
    }
    // The endpoint answers as before, and a server without a card serves none.
    let mut web = with_card(Config::new());
    let x = web.post(&CALL_FIELDS, &modern_request(1, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).status, 200);
    let mut bare = harness(Config::new());
    for path in [CARD, CATALOG] {
        let x = bare.send_request("GET", path, &[], "");
        assert_eq!(bare.response(x).status, 404);
    }
}

#[test]
fn card_that_is_not_valid_is_not_served() {
    let input = CardInput::new().is_secret(true).value("hunter2");
    let secret = CardRemote::http("https://{key}.example").variables([("key", input)]);
    let error = card().remotes([secret]).configure(Config::new()).unwrap_err().to_string();
    assert!(error.starts_with("`remotes[0].variables.key.value`: ") && !error.contains("hunter2"), "{error}");
}

#[test]
fn document_for_the_same_place_is_replaced() {
    let document = |path: &'static str, text: &'static str| {
        PublicDocument::at_path(path, "application/mcp-server-card+json", RawJson::new(text).expect("JSON"))
    };
    let config = Config::new()
        .document(document("/a", "1"))
        .document(document("/b", "2"))
        .document(document("/a", "3"));
    assert!(format!("{:?}", document("/a", "1")).contains("Fixed"));
    let mut web = harness(config);
    for (path, body) in [("/a", "3"), ("/b", "2")] {
        let x = web.send_request("GET", path, &[], "");
        assert_eq!(web.response(x).body, body);
    }
}
