//! A protected server, whose validator decides at once or on a thread.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread;

use alloc::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use mcp_tower::mcp_proto::http::server::{Denial, Protected, TokenRequest};
use mcp_tower::mcp_proto::server::Identity;
use mcp_tower::token::off_loop;
use mcp_tower::{Cx, Error, HttpConfig, McpService, Router, RpcError};
use serde_json::{Value, json};

use crate::support::{answer, call, json_of, poll_once, text_of, tool};

fn service(validator: impl mcp_tower::token::TokenValidator + 'static) -> McpService {
    let mut router = Router::new("protected", "1");
    router.tool_with(tool("me"), async |cx: &mut Cx, _: Value| -> Result<String, RpcError> {
        cx.require_scopes(&["greet"])?;
        Ok(cx.principal().unwrap_or_default().to_owned())
    });
    let protected = Protected::new("https://tools.example.com/mcp", "https://login.example.com").unwrap();
    let http = HttpConfig::new().allow_host("tools.example.com").protected(protected);
    McpService::builder(router).http(http).validate_tokens(validator).build().unwrap()
}

fn call_with(token: Option<&str>) -> Request<Full<Bytes>> {
    let mut request = call("me", json!({}));
    if let Some(token) = token {
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    request
}

fn decide(request: &TokenRequest) -> Result<Identity, Denial> {
    if request.token.matches("right") {
        return Ok(Identity::new("alice").scopes("greet"));
    }
    assert!(!request.token.matches("panic"), "as expected");
    Err(Denial::invalid_token())
}

fn assert_protected(service: &McpService) {
    let refused = answer(service, call_with(None));
    assert_eq!(refused.status(), 401);
    assert!(refused.headers().contains_key("www-authenticate"));
    assert_eq!(answer(service, call_with(Some("wrong"))).status(), 401);
    assert_eq!(answer(service, call_with(Some("panic"))).status(), 401);
    let (status, message) = json_of(answer(service, call_with(Some("right"))));
    assert_eq!((status, text_of(&message)), (200, "alice"));
    let metadata = Request::get("/.well-known/oauth-protected-resource/mcp")
        .header("host", "tools.example.com")
        .body(Full::<Bytes>::default())
        .unwrap();
    assert_eq!(json_of(answer(service, metadata)).1["resource"], "https://tools.example.com/mcp");
}

#[test]
fn an_identity_of_a_layer_is_no_token() {
    let mut request = call_with(None);
    request.extensions_mut().insert(Identity::new("alice").scopes("greet"));
    assert_eq!(answer(&service(decide), request).status(), 401);
}

/// AUTH-009
#[test]
fn a_validator_decides_at_once() {
    assert_protected(&service(decide));
}

/// AUTH-009
#[test]
fn a_validator_decides_on_a_thread() {
    assert_protected(&service(off_loop(|request: &TokenRequest| {
        thread::sleep(Duration::from_millis(5));
        decide(request)
    })));
}

#[test]
fn a_request_that_leaves_during_the_decision_leaves_nothing() {
    let gate = Arc::new(AtomicBool::new(false));
    let is_open = gate.clone();
    let service = service(off_loop(move |request: &TokenRequest| {
        while !is_open.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        decide(request)
    }));
    let mut waiting = service.handle(call_with(Some("right")));
    assert!(poll_once(&mut waiting).is_pending());
    drop(waiting);
    gate.store(true, Ordering::SeqCst);
    assert_eq!(json_of(answer(&service, call_with(Some("right")))).0, 200);
    assert!(poll_once(&mut service.shutdown(Duration::from_secs(60))).is_ready());
}

/// Builds a service as a `main` does, whose error is that of the package.
fn build(resource: &str, scope: &str, field: &str) -> Result<McpService, Error> {
    let protected = Protected::new(resource, "https://login.example.com")?.scope(scope)?;
    let http = HttpConfig::new().protected(protected).visible_fields([field])?;
    McpService::builder(Router::new("shop", "1")).http(http).build()
}

#[test]
fn faults_of_an_http_configuration_are_errors_of_the_package() {
    let resource = "https://tools.example.com/mcp";
    assert!(build(resource, "shop", "X-Tenant").is_ok());
    let text = |resource, scope, field| build(resource, scope, field).expect_err("a fault").to_string();
    assert!(text("http://tools.example.com/mcp", "shop", "X-Tenant").contains("is not https"));
    assert!(text(resource, "two words", "X-Tenant").contains("a scope is one word"));
    assert!(text(resource, "shop", "Cookie").contains("its name suggests a secret"));
    assert!(matches!(build(resource, "", "X-Tenant"), Err(Error::Protected(_))));
    assert!(matches!(build(resource, "shop", "a b"), Err(Error::VisibleField(_))));
}
