//! An MCP server as a Worker: WebAssembly without threads, without timers and without a system.
//!
//! The host writes a request to [`buffer`], calls [`fetch`], and reads the response there. If it is not ready,
//! the host calls [`poll`] later, as the promise of a real Worker does. It imports a clock and randomness, and nothing else.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use mcp_tower::mcp_proto::RawJson;
use mcp_tower::mcp_proto::model::Tool;
use mcp_tower::{Cx, HttpConfig, McpService, Progress, Router, RpcError, Sleep, Timer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[link(wasm_import_module = "host")]
unsafe extern "C" {
    /// Returns the milliseconds since 1970.
    safe fn now() -> f64;
    /// Fills 32 bytes.
    fn entropy(secret: *mut u8);
}

/// A request or a response as JSON.
#[derive(Serialize, Deserialize)]
struct Message {
    #[serde(default)]
    method: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

struct HostTime;

impl Timer for HostTime {
    fn now(&self) -> Duration {
        Duration::from_secs_f64(now() / 1000.0)
    }

    fn unix_seconds(&self) -> u64 {
        self.now().as_secs()
    }

    fn sleep(&self, _: Duration) -> Option<Sleep> {
        None
    }
}

fn service() -> &'static McpService {
    static SERVICE: OnceLock<McpService> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let tool = |name| Tool::new(name, RawJson::new(r#"{"type":"object"}"#).expect("an object"));
        let mut router = Router::new("worker", "1");
        router.tool_with(tool("echo"), async |_: &mut Cx, arguments: Value| arguments.to_string()).tool_with(
            tool("later"),
            async |cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
                cx.progress(Progress::new(1.into()))?;
                cx.sleep(Duration::from_secs(2)).await?;
                Ok("later")
            },
        );
        let mut secret = [0; 32];
        // SAFETY: the host writes 32 bytes.
        unsafe { entropy(secret.as_mut_ptr()) };
        let http = HttpConfig::new().sessions(false).allow_host("worker.example");
        McpService::builder(router).http(http).timer(HostTime).secret(secret).build().expect("a valid router")
    })
}

/// Answers one request.
async fn answer(request: Message) -> Message {
    let mut builder = http::Request::builder().method(&*request.method).uri(&request.url);
    for (name, value) in &request.headers {
        builder = builder.header(name, value);
    }
    let Ok(request) = builder.body(Full::<Bytes>::from(request.body)) else {
        return Message {
            method: String::new(),
            url: String::new(),
            status: 400,
            headers: Vec::new(),
            body: String::new(),
        };
    };
    let Ok(response) = service().handle(request).await;
    let (head, body) = response.into_parts();
    let Ok(body) = body.collect().await;
    let value = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Message {
        method: String::new(),
        url: String::new(),
        status: head.status.as_u16(),
        headers: head.headers.iter().map(|(name, v)| (name.to_string(), value(v))).collect(),
        body: String::from_utf8_lossy(&body.to_bytes()).into_owned(),
    }
}

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ANSWER: RefCell<Option<Pin<Box<dyn Future<Output = Message>>>>> = const { RefCell::new(None) };
}

/// Returns the place of a request of `length` bytes, or of the last response.
#[unsafe(no_mangle)]
pub extern "C" fn buffer(length: usize) -> *mut u8 {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(length, 0);
        buffer.as_mut_ptr()
    })
}

/// Begins to answer the request in the buffer. Returns as [`poll`].
#[unsafe(no_mangle)]
pub extern "C" fn fetch() -> usize {
    let request = BUFFER.with_borrow(|buffer| serde_json::from_slice::<Message>(buffer));
    let Ok(request) = request else { return 0 };
    ANSWER.set(Some(Box::pin(answer(request))));
    poll()
}

/// Goes on with the request. Returns the length of the response once it is in the buffer, and 0 before.
#[unsafe(no_mangle)]
pub extern "C" fn poll() -> usize {
    let Some(mut answer) = ANSWER.take() else { return 0 };
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => {
            ANSWER.set(Some(answer));
            0
        }
        Poll::Ready(response) => {
            BUFFER.set(serde_json::to_vec(&response).unwrap_or_default());
            BUFFER.with_borrow(Vec::len)
        }
    }
}

/// Drops the request, as when its client has disconnected.
#[unsafe(no_mangle)]
pub extern "C" fn abort() {
    drop(ANSWER.take());
}
