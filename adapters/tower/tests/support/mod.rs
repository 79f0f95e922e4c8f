//! Requests and responses of tests, without sockets.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#![allow(clippy::needless_pass_by_value, reason = "values of `json!` are given away")]

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::convert::Infallible;
use core::future::Future;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Mutex;

use bytes::Bytes;
use futures_lite::future::block_on;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use mcp_tower::mcp_proto::RawJson;
use mcp_tower::mcp_proto::model::Tool;
use mcp_tower::{McpBody, McpService, ResponseFuture, Sleep, Timer};
use serde_json::{Value, json};

pub type TestResponse = Response<McpBody>;
pub type TestFuture = ResponseFuture<Full<Bytes>>;

/// Returns a tool that takes any arguments.
pub fn tool(name: &str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap())
}

/// Returns the message of a modern request.
pub fn modern_message(method: &str, mut params: Value, capabilities: &Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// Returns a POST with the fields that all revisions want.
pub fn post(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(Full::new(body.into()))
        .unwrap()
}

/// Returns a modern request.
pub fn modern(method: &str, params: Value) -> Request<Full<Bytes>> {
    modern_with(method, params, &json!({}))
}

pub fn modern_with(method: &str, params: Value, capabilities: &Value) -> Request<Full<Bytes>> {
    let name = params.get("name").and_then(Value::as_str).map(str::to_owned);
    let mut request = post(modern_message(method, params, capabilities).to_string());
    let headers = request.headers_mut();
    headers.insert("mcp-protocol-version", "2026-07-28".parse().unwrap());
    headers.insert("mcp-method", method.parse().unwrap());
    if let Some(name) = name {
        headers.insert("mcp-name", name.parse().unwrap());
    }
    request
}

/// Returns a modern `tools/call`.
pub fn call(tool: &str, arguments: Value) -> Request<Full<Bytes>> {
    modern("tools/call", json!({ "name": tool, "arguments": arguments }))
}

/// Returns a modern `tools/call` that asks for progress.
pub fn call_with_progress(tool: &str) -> Request<Full<Bytes>> {
    modern("tools/call", json!({ "name": tool, "arguments": {}, "_meta": { "progressToken": 7 } }))
}

/// A client of 2025-11-25.
pub struct Legacy<'a> {
    pub service: &'a McpService,
    pub session: String,
}

impl<'a> Legacy<'a> {
    pub fn open(service: &'a McpService, capabilities: &Value) -> Self {
        let initialize = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "clientInfo": { "name": "test", "version": "1" },
            },
        });
        let response = answer(service, post(initialize.to_string()));
        assert_eq!(response.status(), StatusCode::OK);
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        collect(response);
        let this = Self { service, session };
        this.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        this
    }

    /// Returns a request of the session.
    pub fn request(&self, method: &str, body: String) -> Request<Full<Bytes>> {
        let mut request = post(body);
        *request.method_mut() = method.parse().unwrap();
        request.headers_mut().insert("mcp-session-id", self.session.parse().unwrap());
        request.headers_mut().insert("mcp-protocol-version", "2025-11-25".parse().unwrap());
        request
    }

    /// Posts a message.
    pub fn post(&self, message: &Value) -> TestFuture {
        self.service.handle(self.request("POST", message.to_string()))
    }

    /// Posts a `tools/call`.
    pub fn call(&self, tool: &str) -> TestFuture {
        let params = json!({ "name": tool, "arguments": {}, "_meta": { "progressToken": 7 } });
        self.post(&json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params }))
    }

    /// Posts a message that has no answer.
    pub fn send(&self, message: &Value) {
        assert_eq!(block_on(self.post(message)).unwrap().status(), StatusCode::ACCEPTED);
    }

    /// Opens a GET stream.
    pub fn listen(&self) -> Events {
        let response = answer(self.service, self.request("GET", String::new()));
        assert_eq!(response.status(), StatusCode::OK);
        Events::new(response)
    }
}

/// Returns the response to a request, whose body is not read.
pub fn answer<B: Body>(service: &McpService, request: Request<B>) -> TestResponse {
    block_on(service.handle(request)).unwrap()
}

/// Reads a body to its end.
pub fn collect(response: TestResponse) -> String {
    let bytes = block_on(response.into_body().collect()).unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the status of a response and its JSON.
pub fn json_of(response: TestResponse) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = collect(response);
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Returns the text that a tool has returned.
pub fn text_of(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {message}"))
}

/// Calls a tool and returns its text.
pub fn call_text(service: &McpService, tool: &str, arguments: Value) -> String {
    let (status, message) = json_of(answer(service, call(tool, arguments)));
    assert_eq!(status, 200, "{message}");
    text_of(&message).to_owned()
}

/// The messages of an event stream.
pub struct Events {
    body: Pin<Box<McpBody>>,
    buffer: String,
    messages: VecDeque<Value>,
}

impl Events {
    pub fn new(response: TestResponse) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: Box::pin(response.into_body()), buffer: String::new(), messages: VecDeque::new() }
    }

    /// Returns the next message, or `None` at the end of the stream.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Value>> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Poll::Ready(Some(message));
            }
            match self.body.as_mut().poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(frame)) => {
                    let data = frame.unwrap().into_data().unwrap();
                    self.buffer.push_str(core::str::from_utf8(&data).unwrap());
                }
            }
            while let Some(end) = self.buffer.find("\n\n") {
                let event: String = self.buffer.drain(..end + 2).collect();
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                self.messages.extend(
                    data.filter(|data| !data.is_empty())
                        .map(|data| serde_json::from_str::<Value>(data).unwrap()),
                );
            }
        }
    }

    pub fn next(&mut self) -> Option<Value> {
        block_on(core::future::poll_fn(|cx| self.poll_next(cx)))
    }

    pub fn rest(mut self) -> Vec<Value> {
        core::iter::from_fn(|| self.next()).collect()
    }
}

/// Counts how often it was woken.
#[derive(Default)]
pub struct CountingWaker(pub AtomicUsize);

impl CountingWaker {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls a future once, with a waker that does nothing.
pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A clock that tests advance, with timers that the tests fire.
#[derive(Clone, Default)]
pub struct VirtualTime(Arc<VirtualTimeState>);

#[derive(Default)]
struct VirtualTimeState {
    micros: AtomicU64,
    has_timers: AtomicUsize,
    wakers: Mutex<Vec<Waker>>,
}

impl VirtualTime {
    pub fn with_timers() -> Self {
        let this = Self::default();
        this.0.has_timers.store(1, Ordering::SeqCst);
        this
    }

    /// Advances the clock and wakes all timers.
    pub fn advance(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap();
        self.0.micros.fetch_add(micros, Ordering::SeqCst);
        let wakers = core::mem::take(&mut *self.0.wakers.lock().unwrap());
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Timer for VirtualTime {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.micros.load(Ordering::SeqCst))
    }

    fn unix_seconds(&self) -> u64 {
        1_800_000_000 + self.now().as_secs()
    }

    fn sleep(&self, duration: Duration) -> Option<Sleep> {
        if self.0.has_timers.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let (time, end) = (self.clone(), self.now() + duration);
        Some(Box::pin(core::future::poll_fn(move |cx| {
            if time.now() >= end {
                return Poll::Ready(());
            }
            time.0.wakers.lock().unwrap().push(cx.waker().clone());
            Poll::Pending
        })))
    }
}

/// A body of the given frames, which then ends, or does not.
pub struct ScriptedBody {
    pub frames: VecDeque<Result<Bytes, &'static str>>,
    pub ends: bool,
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        match self.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(frame.map(Frame::data))),
            None if self.ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// Asserts that this is a body as servers want it.
pub fn assert_body<B: Body<Data = Bytes, Error = Infallible> + Send + 'static>(_: &B) {}
