//! The client of `mcp-blocking` against `mcp-tower` in axum and in hyper on real sockets.

use std::future::pending;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use mcp_blocking::Client;
use mcp_proto::model::{ElicitAction, ElicitParams, ElicitResult, ElicitSchema, StringSchema, Tool};
use mcp_proto::{
    CallOptions, Capabilities, Capability, Change, Era, Progress, RawJson, RpcError, VersionSet, client,
};
use mcp_tower::{Cx, McpService, Router};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// How a service is served.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stack {
    Axum,
    Hyper,
}

const STACKS: [Stack; 2] = [Stack::Axum, Stack::Hyper];

/// A server in a runtime of its own.
struct Served {
    address: SocketAddr,
    service: McpService,
    runtime: Runtime,
    /// Handlers of `never` that exist.
    running: Arc<AtomicUsize>,
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn ask(cx: &mut Cx) -> Result<String, RpcError> {
    let form = ElicitSchema::new([("name", StringSchema::new().into())]);
    let answer = cx.elicit("name", "For whom?", form)?;
    Ok(format!("{:?}", answer.content.unwrap_or_default().get("name")))
}

fn router(running: &Arc<AtomicUsize>) -> Router {
    let mut router = Router::new("mounted", "1");
    let tool = |name| Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap());
    let running = Arc::clone(running);
    router
        .tool_with(tool("echo"), async |_: &mut Cx, arguments: Value| arguments.to_string())
        .tool_with(tool("count"), async |cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
            for n in 1..=3 {
                cx.progress(Progress::new(n.into()))?;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            cx.publish(&Change::Tools);
            cx.sleep(Duration::from_millis(1)).await?;
            Ok("counted")
        })
        .tool_with(tool("ask"), async |cx: &mut Cx, _: Value| ask(cx))
        .tool_with(tool("panic"), async |_: &mut Cx, _: Value| -> String { panic!("as expected") })
        .tool_with(tool("never"), async move |_: &mut Cx, _: Value| -> String {
            running.fetch_add(1, Ordering::SeqCst);
            let _counted = Counted(running.clone());
            pending().await
        });
    router
}

async fn serve(stack: Stack, listener: tokio::net::TcpListener, service: McpService) {
    match stack {
        Stack::Axum => {
            let app = axum::Router::new().route_service("/mcp", service);
            axum::serve(listener, app).await.unwrap();
        }
        Stack::Hyper => loop {
            let stream = hyper_util::rt::TokioIo::new(listener.accept().await.unwrap().0);
            let service = service.clone();
            let service = hyper::service::service_fn(move |request| service.handle(request));
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(stream, service);
            tokio::spawn(async move { drop(connection.await) });
        },
    }
}

impl Served {
    fn start(stack: Stack, shards: u8) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let running = Arc::default();
        let service = McpService::builder(router(&running)).shards(shards).build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(serve(stack, listener, service.clone()));
        Self { address, service, runtime, running }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    fn connect(&self, era: Era) -> Client {
        let config = client::Config::new("test", "1").versions(VersionSet::ALL.era(era));
        Client::options(config).connect_url(&self.url()).unwrap()
    }

    fn wait_for_running(&self, count: usize) {
        for _ in 0..6_000 {
            if self.running.load(Ordering::SeqCst) == count {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("never {count} handlers");
    }

    /// Ends the server after its last request.
    fn stop(self) {
        let shutdown = self.service.shutdown(Duration::from_secs(30));
        self.runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(20), shutdown).await })
            .unwrap();
    }
}

fn text<'a>(result: &'a mcp_proto::model::CallToolResult<'_>) -> &'a str {
    result.content[0].as_text().unwrap()
}

#[test]
fn both_eras_are_served() {
    for stack in STACKS {
        let served = Served::start(stack, 2);
        for era in [Era::Modern, Era::Legacy] {
            let client = served.connect(era);
            assert_eq!(client.peer().era(), era);
            assert_eq!(client.list_tools().unwrap().len(), 5);
            for text_of_call in ["short", &"long".repeat(500_000)] {
                let answer = client.call_tool("echo", &json!({ "text": text_of_call })).unwrap();
                assert_eq!(text(&answer), json!({ "text": text_of_call }).to_string());
            }
            let mut seen = Vec::new();
            let told = &mut |progress: &Progress| seen.push(progress.progress);
            client.call_tool_with("count", &json!({}), &CallOptions::new(), told).unwrap();
            assert!(!seen.is_empty() && seen.is_sorted(), "{seen:?}");
            assert!(client.call_tool("panic", &json!({})).is_err());
            client.close().unwrap();
        }
        served.stop();
    }
}

/// Answers questions.
struct User;

impl mcp_blocking::ClientHandler for User {
    fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let content = json!({ "name": "Ada" });
        let result = json!({ "action": "accept", "content": content });
        let result: ElicitResult = serde_json::from_value(result).unwrap();
        assert_eq!(result.action, ElicitAction::Accept);
        Ok(result)
    }
}

#[test]
fn questions_are_asked_in_both_eras() {
    for stack in STACKS {
        let served = Served::start(stack, 1);
        for era in [Era::Modern, Era::Legacy] {
            let config = client::Config::new("test", "1")
                .versions(VersionSet::ALL.era(era))
                .capabilities(Capabilities::new().with(Capability::ElicitationForm));
            let client = Client::options(config).handler(User).connect_url(&served.url()).unwrap();
            let answer = client.call_tool("ask", &json!({})).unwrap();
            assert!(text(&answer).contains("Ada"), "{stack:?} {era:?}: {}", text(&answer));
            client.close().unwrap();
        }
        served.stop();
    }
}

/// HTTP-042
#[test]
fn a_client_that_leaves_ends_its_modern_call() {
    for stack in STACKS {
        let served = Served::start(stack, 1);
        let client = served.connect(Era::Modern);
        let call = client.start_tool("never", &json!({}), &CallOptions::new()).unwrap();
        client.poll(Duration::from_millis(1)).unwrap();
        served.wait_for_running(1);
        client.cancel(call, None).unwrap();
        client.poll(Duration::from_millis(1)).unwrap();
        served.wait_for_running(0);
        client.close().unwrap();
        served.stop();
    }
}

#[test]
fn many_clients_are_served_at_once() {
    for shards in [1, 4] {
        let served = Served::start(Stack::Axum, shards);
        let (done, all_done) = mpsc::channel();
        for n in 0..8 {
            let (url, done) = (served.url(), done.clone());
            thread::spawn(move || {
                let era = if n % 2 == 0 { Era::Modern } else { Era::Legacy };
                let config = client::Config::new("test", "1").versions(VersionSet::ALL.era(era));
                let client = Client::options(config).connect_url(&url).unwrap();
                for round in 0..20 {
                    let answer = client.call_tool("echo", &json!({ "n": round })).unwrap();
                    assert_eq!(text(&answer), json!({ "n": round }).to_string());
                    client.call_tool("count", &json!({})).unwrap();
                }
                client.close().unwrap();
                done.send(()).unwrap();
            });
        }
        for _ in 0..8 {
            all_done.recv_timeout(Duration::from_secs(60)).expect("no client hangs");
        }
        served.stop();
    }
}

/// Sends bytes and returns the answer up to the end of the connection.
fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // The server may refuse before it has read everything.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn strangers_and_nonsense_are_kept_out() {
    for stack in STACKS {
        let served = Served::start(stack, 1);
        let post = |fields: &str, body: &str| {
            let length = body.len();
            let head = format!(
                "POST /mcp HTTP/1.1\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            let answer = exchange(served.address, &[head.as_bytes(), body.as_bytes()].concat());
            answer.split(' ').nth(1).unwrap_or_default().to_owned()
        };
        assert_eq!(post("Host: evil.example\r\n", "{}"), "403");
        assert_eq!(post("Host: localhost\r\nHost: evil.example\r\n", "{}"), "403");
        let json = "Host: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        assert_eq!(post(json, "{"), "400");
        assert_eq!(post(&format!("{json}Mcp-Session-Id: x\r\nMcp-Session-Id: y\r\n"), "{}"), "400");
        // A request that breaks off, and one that never ends, leave nothing.
        let head = format!("POST /mcp HTTP/1.1\r\n{json}Content-Length: 100\r\n\r\n{{");
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        drop(stream);
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let client = served.connect(Era::Modern);
        client.call_tool("echo", &json!({})).unwrap();
        client.close().unwrap();
        drop(stream);
        served.stop();
    }
}

#[test]
fn a_service_outlives_the_runtime_that_polled_it() {
    let first = Served::start(Stack::Axum, 1);
    let client = first.connect(Era::Modern);
    let _call = client.start_tool("never", &json!({}), &CallOptions::new()).unwrap();
    client.poll(Duration::from_millis(1)).unwrap();
    first.wait_for_running(1);
    let Served { service, runtime, running, .. } = first;
    runtime.shutdown_timeout(Duration::from_secs(10));
    assert_eq!(running.load(Ordering::SeqCst), 0, "its task was dropped, and with it the call");
    drop(client);
    // The same service in another runtime, with timers of that one.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(serve(Stack::Axum, listener, service.clone()));
    let second = Served { address, service, runtime, running };
    let client = second.connect(Era::Modern);
    assert_eq!(text(&client.call_tool("count", &json!({})).unwrap()), "counted");
    client.close().unwrap();
    second.stop();
}

#[test]
fn a_timeout_of_tower_cancels_the_call() {
    use tower::ServiceExt as _;
    let running = Arc::default();
    let service = McpService::new(router(&running)).unwrap();
    let service = tower::timeout::Timeout::new(service, Duration::from_millis(50));
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "never", "arguments": {}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    let request = http::Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "never")
        .body(http_body_util::Full::<bytes::Bytes>::from(message.to_string()))
        .unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    assert!(runtime.block_on(service.oneshot(request)).is_err());
    assert_eq!(running.load(Ordering::SeqCst), 0);
}

#[test]
fn a_router_of_mcp_tokio_is_served() {
    let mut router = mcp_tokio::Router::new("tokio", "1");
    let tool = Tool::new("nap", RawJson::new(r#"{"type":"object"}"#).unwrap());
    router.tool_with(tool, async |cx: &mut mcp_tokio::Cx, _: Value| {
        cx.sleep(Duration::from_millis(1)).await.map(|()| "rested")
    });
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let service = McpService::new(router).unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || runtime.block_on(serve(Stack::Hyper, listener, service)));
    let client = Client::options(client::Config::new("test", "1"))
        .connect_url(&format!("http://{address}/mcp"))
        .unwrap();
    assert_eq!(text(&client.call_tool("nap", &json!({})).unwrap()), "rested");
    client.close().unwrap();
}
