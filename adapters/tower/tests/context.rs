//! What surrounds a request reaches its handler, or nothing does: never what surrounds another one.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Mutex;

use bytes::Bytes;
use futures_lite::future::yield_now;
use http_body_util::{BodyExt as _, Full};
use mcp_tower::mcp_proto::Progress;
use mcp_tower::{Cx, Identity, McpService, Router, RpcError, TokioTimer};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tracing::Instrument as _;
use tracing::span::Id;

use crate::support::{
    Legacy, answer, call, call_text, call_with_progress, json_of, poll_once, post, text_of, tool,
};

tokio::task_local! {
    static USER: String;
}

/// What a layer puts into a request, as the truth.
#[derive(Clone)]
struct Truth {
    user: String,
    span: Option<Id>,
}

/// What handlers saw that was not of their request.
type Strange = Arc<Mutex<Vec<String>>>;

/// Looks at the context of this poll.
fn look(cx: &Cx, strange: &Strange, at: &str) {
    let truth: &Truth = cx.extension().expect("a layer's value");
    let mut strange = strange.lock().unwrap();
    if let Ok(user) = USER.try_with(Clone::clone) {
        if user != truth.user {
            strange.push(format!("{at}: the task-local of {user} at {}", truth.user));
        }
    }
    let span = tracing::Span::current().id();
    if span != truth.span {
        strange.push(format!("{at}: span {span:?} in place of {:?}", truth.span));
    }
}

fn service(strange: &Strange) -> McpService {
    let mut router = Router::new("context", "1");
    let seen = Arc::clone(strange);
    router.tool_with(tool("steps"), async move |cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
        for step in 0..8_u32 {
            look(cx, &seen, "step");
            if step % 2 == 0 {
                yield_now().await;
            } else {
                cx.sleep(Duration::from_millis(step.into())).await?;
            }
            cx.progress(Progress::new(step.into()))?;
        }
        look(cx, &seen, "end");
        Ok("done")
    });
    let seen = Arc::clone(strange);
    router.tool_with(tool("long"), async move |cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
        for _ in 0..40 {
            look(cx, &seen, "long");
            cx.sleep(Duration::from_millis(5)).await?;
        }
        Ok("done")
    });
    McpService::builder(router).timer(TokioTimer).extension::<Truth>().build().unwrap()
}

/// Serves a request as behind a layer that knows the user.
async fn serve<B: http_body::Body>(
    service: McpService,
    user: String,
    mut request: http::Request<B>,
) -> crate::support::TestResponse {
    let span = tracing::info_span!("request", user);
    request.extensions_mut().insert(Truth { user: user.clone(), span: span.id() });
    let response = USER.scope(user, service.handle(request)).instrument(span).await;
    match response {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn assert_nothing_strange(strange: &Strange) {
    let strange = strange.lock().unwrap();
    assert!(strange.is_empty(), "{} polls in a foreign context: {:?}", strange.len(), strange.first());
}

fn set_subscriber() {
    // Of the whole process: threads of the runtime have no default of their own.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
}

/// Makes forty calls of two users at a time, and returns the status and the body of each.
async fn call_as_two_users(
    service: &McpService,
    request: impl Fn() -> http::Request<Full<Bytes>>,
) -> Vec<(u16, Bytes)> {
    let mut calls = JoinSet::new();
    for n in 0..40 {
        let user = if n % 2 == 0 { "alice" } else { "bob" };
        let response = serve(service.clone(), user.to_owned(), request());
        calls.spawn(async move {
            let response = response.await;
            let status = response.status().as_u16();
            (status, response.into_body().collect().await.unwrap().to_bytes())
        });
    }
    calls.join_all().await
}

/// Returns a service with handlers that never end, and the number of their polls. `busy` says nothing, `report` makes progress.
fn busy_service() -> (McpService, Arc<AtomicUsize>) {
    let polls = Arc::new(AtomicUsize::new(0));
    let mut router = Router::new("context", "1");
    let count = Arc::clone(&polls);
    router.tool_with(tool("busy"), async move |_: &mut Cx, _: Value| -> String {
        loop {
            count.fetch_add(1, Ordering::SeqCst);
            yield_now().await;
        }
    });
    let count = Arc::clone(&polls);
    router.tool_with(tool("report"), async move |cx: &mut Cx, _: Value| -> Result<String, RpcError> {
        loop {
            count.fetch_add(1, Ordering::SeqCst);
            cx.progress(Progress::new(1.into()))?;
            yield_now().await;
        }
    });
    router.tool_with(tool("echo"), async |_: &mut Cx, _: Value| "echo");
    (McpService::new(router).unwrap(), polls)
}

// covers: SEC-004
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handlers_are_polled_in_the_context_of_their_request_or_in_none() {
    set_subscriber();
    let strange = Strange::default();
    let service = service(&strange);
    for round in 0..4 {
        let request = || match round % 2 {
            0 => call("steps", json!({})),
            _ => call_with_progress("steps"),
        };
        for (_, body) in call_as_two_users(&service, request).await {
            assert!(String::from_utf8_lossy(&body).contains("done"), "{body:?}");
        }
    }
    assert_nothing_strange(&strange);
}

/// On one thread all futures share its thread-locals, so a wrong one would be seen for certain.
#[tokio::test]
async fn handlers_on_one_thread_are_polled_in_the_context_of_their_request_or_in_none() {
    set_subscriber();
    let strange = Strange::default();
    let service = service(&strange);
    for (status, body) in call_as_two_users(&service, || call("steps", json!({}))).await {
        let answer = serde_json::from_slice(&body).unwrap();
        assert_eq!((status, text_of(&answer)), (200, "done"));
    }
    assert_nothing_strange(&strange);
}

/// A legacy call goes on without its client, and nobody else's request polls it.
#[tokio::test]
async fn handler_whose_client_has_left_is_polled_in_no_foreign_context() {
    set_subscriber();
    let strange = Strange::default();
    let service = service(&strange);
    let client = Legacy::open(&service, &json!({}));
    let params = json!({ "name": "long", "arguments": {} });
    let message = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params });
    let call_of_alice =
        serve(service.clone(), "alice".to_owned(), client.request("POST", message.to_string()));
    let left = tokio::time::timeout(Duration::from_millis(20), call_of_alice).await;
    assert!(left.is_err(), "the call takes longer");
    for _ in 0..40 {
        let response = serve(service.clone(), "bob".to_owned(), call("steps", json!({}))).await;
        assert_eq!(response.status(), 200);
        response.into_body().collect().await.unwrap();
    }
    assert_nothing_strange(&strange);
    // It has ended: the service is idle at once.
    tokio::time::timeout(Duration::from_secs(30), service.shutdown(Duration::from_secs(60))).await.unwrap();
}

/// Without a runtime that drives the service, such a handler waits for [`McpService::run`].
#[test]
fn handler_whose_client_has_left_waits_for_a_driver() {
    let (service, polls) = busy_service();
    let client = Legacy::open(&service, &json!({}));
    let mut response = client.call("busy");
    assert!(poll_once(&mut response).is_pending());
    let before = polls.load(Ordering::SeqCst);
    assert!(before > 0);
    drop(response);
    for _ in 0..10 {
        assert_eq!(call_text(&service, "echo", json!({})), "echo");
    }
    assert_eq!(polls.load(Ordering::SeqCst), before, "polled by others");
    let mut run = service.run();
    assert!(poll_once(&mut run).is_pending());
    assert!(polls.load(Ordering::SeqCst) > before);
}

/// A call that is cancelled between the start of its handler and its first poll gives its place back.
#[test]
fn handler_that_is_cancelled_before_its_first_poll_ends() {
    let is_open = Arc::new(AtomicUsize::new(0));
    let mut router = Router::new("context", "1");
    let gate = Arc::clone(&is_open);
    router.tool_with(tool("gate"), async move |_: &mut Cx, _: Value| {
        while gate.load(Ordering::SeqCst) == 0 {
            yield_now().await;
        }
        "passed"
    });
    let service = McpService::builder(router).max_running(1).build().unwrap();
    let mut responses: Vec<_> = (0..3).map(|_| service.handle(call("gate", json!({})))).collect();
    for response in &mut responses {
        assert!(poll_once(response).is_pending());
    }
    is_open.store(1, Ordering::SeqCst);
    // Its end starts the second handler.
    assert!(poll_once(&mut responses[0]).is_ready());
    let mut third = responses.pop().unwrap();
    drop(responses.pop());
    assert!(poll_once(&mut third).is_ready());
}

/// The driver that the service spawned ends with its runtime, and another runtime goes on.
#[test]
fn runtime_ends_while_a_handler_has_no_response() {
    let (service, polls) = busy_service();
    for mut runtime in
        [tokio::runtime::Builder::new_current_thread(), tokio::runtime::Builder::new_multi_thread()]
    {
        let runtime = runtime.enable_time().build().unwrap();
        runtime.block_on(async {
            let client = Legacy::open(&service, &json!({}));
            let left = tokio::time::timeout(Duration::from_millis(5), client.call("busy")).await;
            assert!(left.is_err());
            tokio::time::sleep(Duration::from_millis(5)).await;
        });
        let before = polls.load(Ordering::SeqCst);
        assert!(before > 0);
        drop(runtime);
    }
    let before = polls.load(Ordering::SeqCst);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let response = service.handle(call("echo", json!({}))).await.unwrap();
        assert_eq!(response.status(), 200);
        tokio::time::sleep(Duration::from_millis(50)).await;
    });
    assert!(polls.load(Ordering::SeqCst) > before, "nobody goes on");
}

/// A stream that is not read for long holds up no handler where somebody drives the service.
#[test]
fn handler_of_a_stream_that_is_not_read_is_polled_by_a_driver() {
    let (service, polls) = busy_service();
    let mut run = service.run();
    let response = answer(&service, call_with_progress("report"));
    let before = polls.load(Ordering::SeqCst);
    for _ in 0..3 {
        assert!(poll_once(&mut run).is_pending());
    }
    assert!(polls.load(Ordering::SeqCst) > before);
    drop(response);
}

// covers: SEC-005
#[test]
fn session_serves_the_principal_that_began_it_and_no_other() {
    let mut router = Router::new("context", "1");
    router.tool_with(tool("whoami"), async |cx: &mut Cx, _: Value| cx.principal().unwrap_or_default());
    let service = McpService::new(router).unwrap();
    // As a login layer does.
    let as_user = |user: Option<&str>, mut request: http::Request<Full<Bytes>>| {
        if let Some(user) = user {
            request.extensions_mut().insert(Identity::new(user));
        }
        answer(&service, request)
    };
    let initialize = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        },
    });
    let params = json!({ "name": "whoami", "arguments": {} });
    let message = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params });
    let users = [Some("alice"), Some("bob"), None];
    for owner in users {
        let response = as_user(owner, post(initialize.to_string()));
        let session = response.headers()["mcp-session-id"].clone();
        let in_session = |method: &str, body: String| {
            let mut request = post(body);
            *request.method_mut() = method.parse().unwrap();
            request.headers_mut().insert("mcp-session-id", session.clone());
            request.headers_mut().insert("mcp-protocol-version", "2025-11-25".parse().unwrap());
            request
        };
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
        for user in users.into_iter().filter(|user| *user != owner) {
            for (method, body) in [
                ("POST", initialized.clone()),
                ("POST", message.to_string()),
                ("GET", String::new()),
                ("DELETE", String::new()),
            ] {
                let refused = as_user(user, in_session(method, body));
                assert_eq!(refused.status(), 404, "{method} of {user:?} in the session of {owner:?}");
            }
        }
        assert_eq!(as_user(owner, in_session("POST", initialized)).status(), 202);
        let (status, answer) = json_of(as_user(owner, in_session("POST", message.to_string())));
        assert_eq!((status, text_of(&answer)), (200, owner.unwrap_or_default()));
    }
    // The modern era has no sessions.
    let mut request = call("whoami", json!({}));
    request.extensions_mut().insert(Identity::new("carol"));
    let (_, answer) = json_of(answer(&service, request));
    assert_eq!(text_of(&answer), "carol");
}
