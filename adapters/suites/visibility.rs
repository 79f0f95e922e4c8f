//! Suite: a router whose entries depend on the principal of the token, on real sockets.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use core::time::Duration;
use std::io::{Read, Write};

use mcp_proto::http::server::{Config as Http, Denial, Protected, TokenRequest};
use mcp_proto::model::Tool;
use mcp_proto::server::Identity;
use mcp_proto::{EntryKind, RawJson};
use mcp_runtime::server::layers::{CallKey, RateLimit};
use serde_json::Value;

use super::http::{HttpTestServer, call};
use crate::adapter::{Cx, Router, handler};
use crate::support::with_timeout;

fn tool(name: &str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).expect("JSON"))
}

fn router() -> Router {
    let mut router = Router::new("visible", "1");
    for name in ["open", "secret", "broken", "paid"] {
        router.tool_with(tool(name), handler!(|_: &mut Cx, _: Value| "done"));
    }
    router.visible_to(EntryKind::Tool, "secret", |caller| caller.principal() == Some("alice"));
    router.visible_to(EntryKind::Tool, "broken", |_| panic!("a test of panics"));
    assert!(router.core().require_scope(EntryKind::Tool, "paid", "paid"));
    router.check().expect("all are registered");
    router
}

/// Sends a request as a principal, and returns the whole response.
fn respond(served: &HttpTestServer, request: &[u8]) -> String {
    let mut stream = served.connect();
    stream.write_all(request).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a response");
    answer
}

fn fields(principal: &str) -> String {
    format!("Authorization: Bearer {principal}\r\nConnection: close\r\n")
}

fn list(served: &HttpTestServer, principal: &str) -> String {
    let request = String::from_utf8(call("tools", "{}", &fields(principal))).expect("text");
    let request = request.replace("tools/call", "tools/list").replace("Mcp-Name: tools\r\n", "");
    respond(served, request.as_bytes())
}

// covers: TOOL-021, TOOL-032, AUTH-054, CACHE-019
#[test]
fn principals_see_and_call_their_own_tools() {
    with_timeout(|| {
        let protected = Protected::new("http://localhost/mcp", "http://localhost:9/as").expect("valid");
        let served = HttpTestServer::with_options(Http::new().protected(protected), router, |server| {
            server.validate_tokens(|request: &TokenRequest| {
                Ok::<_, Denial>(Identity::new(request.token.reveal()))
            })
        });
        for _ in 0..2 {
            for (principal, sees) in [("alice", true), ("bob", false)] {
                let listed = list(&served, principal);
                assert!(listed.contains("\"open\"") && listed.contains("\"paid\""), "{listed}");
                assert_eq!(listed.contains("\"secret\""), sees, "{principal}: {listed}");
                assert!(!listed.contains("\"broken\"") && !listed.contains("public"), "{listed}");
                let answer = respond(&served, &call("secret", "{}", &fields(principal)));
                assert_eq!(answer.contains("done"), sees, "{principal}: {answer}");
                assert_eq!(answer.contains("unknown tool: secret"), !sees, "{principal}: {answer}");
                // A function that panics hides its tool, and takes nothing else down.
                let answer = respond(&served, &call("broken", "{}", &fields(principal)));
                assert!(answer.contains("unknown tool: broken"), "{answer}");
                let answer = respond(&served, &call("paid", "{}", &fields(principal)));
                assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("scope=\"paid\""), "{answer}");
            }
        }
        served.stop();
    });
}

// covers: TOOL-032
#[test]
fn principals_have_rate_limits_of_their_own() {
    with_timeout(|| {
        let protected = Protected::new("http://localhost/mcp", "http://localhost:9/as").expect("valid");
        let limited = || {
            let mut router = router();
            router.layer(RateLimit::new(1, Duration::from_secs(3600)).key(CallKey::NONE.principal()));
            router
        };
        let served = HttpTestServer::with_options(Http::new().protected(protected), limited, |server| {
            server.validate_tokens(|request: &TokenRequest| {
                Ok::<_, Denial>(Identity::new(request.token.reveal()))
            })
        });
        for (principal, passes) in [("alice", true), ("alice", false), ("bob", true), ("bob", false)] {
            let answer = respond(&served, &call("open", "{}", &fields(principal)));
            assert_eq!(answer.contains("done"), passes, "{principal}: {answer}");
            assert_eq!(answer.contains("too many calls"), !passes, "{principal}: {answer}");
        }
        served.stop();
    });
}

#[test]
fn function_for_an_unknown_entry_is_reported() {
    let mut router = router();
    router.visible_to(EntryKind::Prompt, "none", |_| true);
    let errors = router.check().expect_err("there is no such prompt").to_string();
    assert!(errors.contains("none"), "{errors}");
}
