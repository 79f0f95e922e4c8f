//! Calls, refusals, handlers: one request after the other, and several at once, without a runtime.

use alloc::sync::Arc;
use core::future::{pending, poll_fn};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Mutex, OnceLock};

use futures_lite::future::{block_on, zip};
use http::{Request, StatusCode};
use http_body_util::{Empty, Full};
use mcp_runtime::server::layers::RateLimit;
use mcp_tower::mcp_proto::EntryKind;
use mcp_tower::mcp_proto::observe::{Observation, Observer, RequestEnd, RequestStart};
use mcp_tower::mcp_proto::server::ConnectionInfo;
use mcp_tower::{Cx, HttpConfig, McpService, Router, RpcError, unblock};
use serde_json::{Value, json};
use tower_service::Service;

use crate::support::{
    CountingWaker, Legacy, answer, assert_body, call, call_text, collect, json_of, modern, poll_once, post,
    text_of, tool,
};

fn echo_service() -> McpService {
    let mut router = Router::new("echo", "1");
    router.tool_with(tool("echo"), async |_: &mut Cx, arguments: Value| arguments.to_string());
    McpService::new(router).unwrap()
}

#[test]
fn a_call_is_answered_without_a_runtime() {
    let mut service = echo_service();
    let context = &mut Context::from_waker(Waker::noop());
    assert!(Service::<Request<Full<bytes::Bytes>>>::poll_ready(&mut service, context).is_ready());
    let response = block_on(service.call(call("echo", json!({ "a": 1 })))).unwrap();
    assert_body(response.body());
    assert_eq!(response.headers()["content-type"], "application/json");
    let length = http_body::Body::size_hint(response.body()).exact().unwrap();
    let text = collect(response);
    assert_eq!(text.len() as u64, length);
    assert_eq!(text_of(&serde_json::from_str(&text).unwrap()), r#"{"a":1}"#);
}

#[test]
fn large_results_and_arguments_arrive() {
    let service = echo_service();
    let text = "long".repeat(300_000);
    assert_eq!(call_text(&service, "echo", json!({ "a": text })).len(), text.len() + 8);
}

#[test]
fn both_eras_are_served() {
    let service = echo_service();
    let (status, listed) = json_of(answer(&service, modern("tools/list", json!({}))));
    assert_eq!((status, &listed["result"]["tools"][0]["name"]), (200, &json!("echo")));
    let client = Legacy::open(&service, &json!({}));
    let (status, message) = json_of(block_on(client.call("echo")).unwrap());
    assert_eq!((status, text_of(&message)), (200, "{}"));
    let deleted = answer(&service, client.request("DELETE", String::new()));
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    assert_eq!(block_on(client.call("echo")).unwrap().status(), StatusCode::NOT_FOUND);
}

/// HTTP-003, HTTP-008
#[test]
fn strangers_are_kept_out() {
    let service = echo_service();
    let status = |host: Option<&str>, origin: Option<&str>, target: &str| {
        let mut request = call("echo", json!({}));
        request.headers_mut().remove("host");
        host.map(|host| request.headers_mut().insert("host", host.parse().unwrap()));
        origin.map(|origin| request.headers_mut().insert("origin", origin.parse().unwrap()));
        *request.uri_mut() = target.parse().unwrap();
        answer(&service, request).status().as_u16()
    };
    assert_eq!(status(Some("localhost"), None, "/mcp"), 200);
    assert_eq!(status(Some("localhost"), None, "/other"), 404);
    assert_eq!(status(Some("evil.example"), None, "/mcp"), 403);
    assert_eq!(status(Some("localhost"), Some("https://evil.example"), "/mcp"), 403);
    assert_eq!(status(None, None, "/mcp"), 403);
    // HTTP/2: the authority stands for the host.
    assert_eq!(status(None, None, "http://localhost:8080/mcp"), 200);
    assert_eq!(status(None, None, "http://me@localhost:8080/mcp"), 200);
    assert_eq!(status(None, None, "http://evil.example/mcp"), 403);
    assert_eq!(status(Some("evil.example"), None, "http://localhost/mcp"), 403);
}

#[test]
fn strange_requests_are_refused() {
    let service = echo_service();
    assert_eq!(answer(&service, post("{")).status(), StatusCode::BAD_REQUEST);
    assert_eq!(answer(&service, post("")).status(), StatusCode::BAD_REQUEST);
    let mut request = call("echo", json!({}));
    *request.method_mut() = "PATCH".parse().unwrap();
    assert_eq!(answer(&service, request).status(), StatusCode::METHOD_NOT_ALLOWED);
    // Header fields that are not text, that are repeated, and that are huge.
    let huge = "x".repeat(1 << 20);
    for name in ["mcp-name", "mcp-method", "mcp-session-id", "accept", "content-type", "x-other"] {
        for value in [&b"\xff\xfe"[..], b"twice", huge.as_bytes()] {
            let mut request = call("echo", json!({}));
            request.headers_mut().append(name, http::HeaderValue::from_bytes(value).unwrap());
            let status = answer(&service, request).status().as_u16();
            assert!((200..500).contains(&status), "{name}: {status}");
        }
    }
    let asterisk = Request::options("*").body(Empty::<bytes::Bytes>::new()).unwrap();
    assert_eq!(answer(&service, asterisk).status(), StatusCode::FORBIDDEN);
    assert_eq!(call_text(&service, "echo", json!({})), "{}");
}

#[test]
fn a_panic_ends_its_call_only() {
    let mut router = Router::new("panics", "1");
    router
        .tool_with(tool("panic"), async |_: &mut Cx, _: Value| -> String { panic!("as expected") })
        .tool_with(tool("fine"), async |_: &mut Cx, _: Value| "fine");
    let service = McpService::new(router).unwrap();
    let (status, message) = json_of(answer(&service, call("panic", json!({}))));
    assert_eq!((status, &message["error"]["code"]), (200, &json!(-32603)));
    assert_eq!(call_text(&service, "fine", json!({})), "fine");
}

/// Two handlers that wait for each other.
fn rendezvous() -> McpService {
    let mut router = Router::new("pair", "1");
    let (first, second) = async_pair();
    router
        .tool_with(tool("first"), async move |_: &mut Cx, _: Value| {
            first.set();
            first.wait().await;
            "first"
        })
        .tool_with(tool("second"), async move |_: &mut Cx, _: Value| {
            second.set();
            second.wait().await;
            "second"
        });
    McpService::new(router).unwrap()
}

/// One side of a meeting.
#[derive(Clone)]
struct Side {
    own: Arc<Mutex<(bool, Option<Waker>)>>,
    other: Arc<Mutex<(bool, Option<Waker>)>>,
}

fn async_pair() -> (Side, Side) {
    let (a, b) = (Arc::default(), Arc::default());
    (Side { own: Arc::clone(&a), other: Arc::clone(&b) }, Side { own: b, other: a })
}

impl Side {
    fn set(&self) {
        let mut own = self.own.lock().unwrap();
        own.0 = true;
        own.1.take().into_iter().for_each(Waker::wake);
    }

    async fn wait(&self) {
        poll_fn(|cx| {
            let mut other = self.other.lock().unwrap();
            if other.0 {
                return Poll::Ready(());
            }
            other.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

#[test]
fn handlers_run_concurrently() {
    let service = rendezvous();
    let both = zip(service.handle(call("first", json!({}))), service.handle(call("second", json!({}))));
    let (first, second) = block_on(both);
    assert_eq!(text_of(&json_of(first.unwrap()).1), "first");
    assert_eq!(text_of(&json_of(second.unwrap()).1), "second");
}

#[test]
fn whoever_polls_does_the_work_of_others_and_wakes_them() {
    let service = rendezvous();
    let mut first = service.handle(call("first", json!({})));
    let woken = Arc::new(CountingWaker::default());
    let waker = Waker::from(woken.clone());
    assert!(core::pin::pin!(&mut first).poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(woken.count(), 0);
    let second = service.handle(call("second", json!({})));
    // The poll of the second call runs both handlers, so the response to the first one is ready.
    assert_eq!(block_on(second).unwrap().status(), StatusCode::OK);
    assert!(woken.count() > 0);
    assert!(poll_once(&mut first).is_ready());
}

/// Sets a flag when it is dropped.
struct DropFlag(Arc<AtomicBool>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// HTTP-042
#[test]
fn dropping_the_future_of_a_response_cancels_its_call() {
    let dropped = Arc::new(AtomicBool::new(false));
    let mut router = Router::new("endless", "1");
    let flag = dropped.clone();
    router.tool_with(tool("endless"), async move |_: &mut Cx, _: Value| -> String {
        let _flag = DropFlag(flag.clone());
        pending().await
    });
    let service = McpService::new(router).unwrap();
    let mut response = service.handle(call("endless", json!({})));
    assert!(poll_once(&mut response).is_pending());
    assert!(!dropped.load(Ordering::SeqCst));
    drop(response);
    assert!(dropped.load(Ordering::SeqCst));
}

#[test]
fn a_waiter_that_was_woken_and_dropped_passes_its_work_on() {
    let gate: Arc<Mutex<(bool, Option<Waker>)>> = Arc::default();
    let mut router = Router::new("gate", "1");
    let inside = gate.clone();
    router.tool_with(tool("gate"), async move |_: &mut Cx, _: Value| {
        poll_fn(|cx| {
            let mut gate = inside.lock().unwrap();
            if gate.0 {
                return Poll::Ready(());
            }
            gate.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        "open"
    });
    router.tool_with(tool("endless"), async |_: &mut Cx, _: Value| -> String { pending().await });
    let service = McpService::new(router).unwrap();
    let wakers: Vec<_> = (0..3).map(|_| Arc::new(CountingWaker::default())).collect();
    let mut calls: Vec<_> = ["gate", "endless", "endless"]
        .iter()
        .zip(&wakers)
        .map(|(name, waker)| {
            let mut response = service.handle(call(name, json!({})));
            let waker = Waker::from(waker.clone());
            assert!(core::pin::pin!(&mut response).poll(&mut Context::from_waker(&waker)).is_pending());
            response
        })
        .collect();
    let waker = {
        let mut gate = gate.lock().unwrap();
        gate.0 = true;
        gate.1.take().unwrap()
    };
    waker.wake_by_ref();
    // The one whose call it is comes first. It is gone before it polls.
    assert_eq!(wakers.iter().map(|waker| waker.count()).collect::<Vec<_>>(), [1, 0, 0]);
    drop(calls.remove(0));
    let woken: usize = wakers.iter().map(|waker| waker.count()).sum();
    assert!(woken <= 2, "{woken}");
    drop(calls);
    assert_eq!(call_text(&service, "gate", json!({})), "open");
}

#[test]
fn a_handler_may_call_its_own_service() {
    let own: Arc<OnceLock<McpService>> = Arc::default();
    let mut router = Router::new("loop", "1");
    let service = own.clone();
    router
        .tool_with(tool("outer"), async move |_: &mut Cx, _: Value| -> Result<String, RpcError> {
            let service = service.get().unwrap().clone();
            let response = service.handle(call("inner", json!({}))).await.unwrap();
            Ok(response.status().to_string())
        })
        .tool_with(tool("inner"), async |cx: &mut Cx, _: Value| cx.checkpoint().map(|()| "inner"));
    let service = own.get_or_init(|| McpService::new(router).unwrap());
    assert_eq!(call_text(service, "outer", json!({})), "200 OK");
}

/// A value that a layer in front attaches.
#[derive(Clone, PartialEq, Eq, Debug)]
struct User(&'static str);

#[test]
fn handlers_see_values_of_layers_and_the_connection() {
    let mut router = Router::new("view", "1");
    router.tool_with(tool("look"), async |cx: &mut Cx, _: Value| {
        let user = cx.extension().map_or("nobody", |User(name)| *name);
        let other = cx.extension::<u8>().is_some();
        let http = cx.http();
        let trace = http.and_then(|http| http.field_text("x-trace")).unwrap_or("none");
        let peer = http.and_then(|http| http.peer_addr()).map(|peer| peer.to_string());
        format!("{user} {other} {trace} {}", peer.unwrap_or_default())
    });
    let service = McpService::builder(router)
        .http(HttpConfig::new().visible_fields(["X-Trace"]).unwrap())
        .extension::<User>()
        .describe_connections(|parts| {
            let info = ConnectionInfo::new();
            match parts.extensions.get::<SocketAddr>() {
                Some(peer) => info.peer_addr(*peer),
                None => info,
            }
        })
        .build()
        .unwrap();
    let mut request = call("look", json!({}));
    request.headers_mut().insert("x-trace", "7".parse().unwrap());
    let extensions = request.extensions_mut();
    extensions.insert(User("alice"));
    // Not named, so it is not seen.
    extensions.insert(3_u8);
    extensions.insert(SocketAddr::from(([192, 0, 2, 1], 80)));
    let (_, message) = json_of(answer(&service, request));
    assert_eq!(text_of(&message), "alice false 7 192.0.2.1:80");
    assert_eq!(call_text(&service, "look", json!({})), "nobody false none ");
    let panics =
        McpService::builder(Router::new("view", "1")).describe_connections(|_| panic!("not described"));
    assert_eq!(answer(&panics.build().unwrap(), call("look", json!({}))).status(), 500);
}

/// Counts the requests that have ended.
#[derive(Debug, Default)]
struct Ended(Arc<AtomicUsize>);

impl Observer for Ended {
    fn request(&self, _: &RequestStart<'_>) -> Option<Arc<dyn Observation>> {
        Some(Arc::new(Self(self.0.clone())))
    }
}

impl Observation for Ended {
    fn end(&self, _: &RequestEnd<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn layers_visibility_observers_and_blocking_work_are_those_of_any_router() {
    let ended = Arc::default();
    let mut router = Router::new("around", "1");
    router.tool_with(tool("echo"), async |_: &mut Cx, arguments: Value| arguments.to_string());
    router.tool_with(tool("hidden"), async |_: &mut Cx, _: Value| "never");
    router.tool_with(tool("slow"), async |cx: &mut Cx, _: Value| unblock(cx, |_| "from a thread").await);
    router.visible_to(EntryKind::Tool, "hidden", |_| false);
    router.layer(RateLimit::new(2, Duration::from_secs(3600)));
    router.observer(Arc::new(Ended(Arc::clone(&ended))));
    let service = McpService::new(router).unwrap();
    let (_, listed) = json_of(answer(&service, modern("tools/list", json!({}))));
    let names: Vec<_> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["echo", "slow"]);
    let (_, refused) = json_of(answer(&service, call("hidden", json!({}))));
    assert_eq!(refused["error"]["message"], "unknown tool: hidden");
    assert_eq!(call_text(&service, "slow", json!({})), "from a thread");
    assert_eq!(call_text(&service, "echo", json!({})), "{}");
    assert!(call_text(&service, "echo", json!({})).starts_with("too many calls"));
    assert_eq!(ended.load(Ordering::SeqCst), 5);
}
