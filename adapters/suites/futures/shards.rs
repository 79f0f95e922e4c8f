//! Suite: asynchronous HTTP servers with several shards.
//!
//! `crate::shards_suite` is that of all adapters, and `crate::adapter` names the adapter under test.

use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::Cell;
use core::future::poll_fn;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::io::{self, Read};
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;

use mcp_proto::http::server::Config as Http;
use mcp_proto::model::{CallToolResult, Tool};
use mcp_proto::server::Config;
use mcp_proto::{Capabilities, Capability, Limits, RawJson, RpcError};

use crate::adapter::package::{Answered, Call, Cx, Error, Handler, HttpServer};
use crate::adapter::{Router, block_on, block_on_reactor, yield_now};
use crate::shards_suite::{DEADLINE, RawHttpClient, ShardedServer, allowed_cores};

/// Starts two shards. A call of `waits` blocks its shard until the gate opens.
pub(crate) fn blocked_server(begun: mpsc::Sender<()>, gate: mpsc::Receiver<()>) -> ShardedServer {
    serve(gated_handler(begun, gate), |server| server.shards(2))
}

/// Starts a server with two running and four waiting calls at most. Handlers end when `open` is set.
pub(crate) fn gated_server(begun: mpsc::Sender<()>, open: Arc<AtomicBool>) -> ShardedServer {
    let wait = async move |cx: &mut Cx, call: &Call| {
        begun.send(()).unwrap();
        while !open.load(Ordering::SeqCst) {
            cx.sleep(Duration::from_millis(5)).await?;
        }
        cx.complete(&CallToolResult::text(call.tool_call()?.name))
    };
    serve(wait, |server| server.max_running(2))
}

/// Starts a pair of pinned shards that report their cores. The flag tells that handlers run on the shards' threads.
pub(crate) fn pinned_servers() -> Vec<(ShardedServer, bool)> {
    let sender = async |cx: &mut Cx, _: &Call| cx.complete(&CallToolResult::text(allowed_cores()));
    vec![(serve(sender, |server| server.shards(2).pin_shards()), true)]
}

/// Starts servers that run by each executor of the adapter.
pub(crate) fn small_servers(shards: u8, connections: usize) -> Vec<ShardedServer> {
    let configure = |server: HttpServer<CountingHandler>| server.shards(shards).max_connections(connections);
    vec![
        serve(CountingHandler::default(), configure),
        serve_with(Http::new(), CountingHandler::default(), configure, block_on_reactor),
    ]
}

fn bind_server<H: Handler>(http: Http, handler: H) -> HttpServer<H> {
    let capabilities = Capabilities::new()
        .with(Capability::Tools)
        .with(Capability::ToolsListChanged)
        .with(Capability::Resources)
        .with(Capability::ResourceSubscriptions);
    let mut limits = Limits::default();
    limits.max_waiting_requests = 4;
    let config = Config::new("test", "1").capabilities(capabilities).limits(limits);
    HttpServer::bind("127.0.0.1:0", config, http, handler).unwrap()
}

fn serve<H: Handler + Send + Sync + 'static>(
    handler: H,
    configure: impl FnOnce(HttpServer<H>) -> HttpServer<H>,
) -> ShardedServer {
    serve_with(Http::new(), handler, configure, block_on)
}

type ServeFuture = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

fn serve_with<H: Handler + Send + Sync + 'static>(
    http: Http,
    handler: H,
    configure: impl FnOnce(HttpServer<H>) -> HttpServer<H>,
    block_on: fn(ServeFuture) -> Result<(), Error>,
) -> ShardedServer {
    let server = configure(bind_server(http, handler));
    let (address, handle) = (server.address().unwrap(), server.handle());
    ShardedServer::new(address, handle, thread::spawn(move || block_on(Box::pin(server.run()))))
}

/// Blocks its thread for the tool `waits` until the gate opens.
fn gated_handler(begun: mpsc::Sender<()>, gate: mpsc::Receiver<()>) -> impl Handler + Send + Sync {
    let gate = Mutex::new(gate);
    async move |cx: &mut Cx, call: &Call| {
        let name = call.tool_call()?.name;
        if name == "waits" {
            begun.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
        }
        cx.complete(&CallToolResult::text(name))
    }
}

/// Answers with the number of earlier calls.
#[derive(Default)]
struct CountingHandler(AtomicUsize);

impl Handler for CountingHandler {
    async fn call(&self, cx: &mut Cx, _: &Call) -> Result<Answered, RpcError> {
        // Not `Send`: each call stays in its shard.
        let one = Rc::new(Cell::new(1));
        yield_now().await;
        cx.complete(&CallToolResult::text(self.0.fetch_add(one.get(), Ordering::Relaxed).to_string()))
    }
}

/// Reports that it is dropped.
struct DropReporter(mpsc::Sender<&'static str>);

impl Drop for DropReporter {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

/// Never answers, and reports when it begins and when it is dropped.
fn pending_handler(receiver: mpsc::Sender<&'static str>) -> impl Handler + Send + Sync {
    async move |_: &mut Cx, _: &Call| {
        receiver.send("begun").unwrap();
        let _dropped = DropReporter(receiver.clone());
        core::future::pending().await
    }
}

fn recv_event(receiver: &mpsc::Receiver<&'static str>) -> &'static str {
    receiver.recv_timeout(DEADLINE).unwrap()
}

#[test]
fn shards_run_in_parallel() {
    // Each handler blocks its thread until both have begun.
    let meet = Barrier::new(2);
    let server = serve(
        async move |cx: &mut Cx, _: &Call| {
            meet.wait();
            cx.complete(&CallToolResult::text("met"))
        },
        |server| server.shards(2),
    );
    let mut clients = [server.connect(), server.connect()];
    for _ in 0..20 {
        clients.iter_mut().for_each(|client| client.send_call("meet"));
        clients.iter_mut().for_each(|client| assert!(client.read_response().1.contains("met")));
    }
    server.shut_down(DEADLINE);
}

/// A handler in one shard wakes a handler in another.
#[test]
fn handler_wakes_handler_of_other_shard() {
    let waiting: Mutex<Vec<Waker>> = Mutex::default();
    let server = serve(
        async move |cx: &mut Cx, _: &Call| {
            let mut first = true;
            poll_fn(|cx| {
                let mut waiting = waiting.lock().unwrap();
                if core::mem::take(&mut first) {
                    waiting.push(cx.waker().clone());
                    waiting.iter().for_each(Waker::wake_by_ref);
                }
                if waiting.len() == 20 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            cx.complete(&CallToolResult::text("together"))
        },
        |server| server.shards(3),
    );
    let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send_call("any"));
    clients.iter_mut().for_each(|client| assert!(client.read_response().1.contains("together")));
    server.shut_down(DEADLINE);
}

#[test]
fn shutdown_answers_running_calls_in_each_shard() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let (begun, begins) = mpsc::channel();
    let server = serve(
        async move |cx: &mut Cx, _: &Call| {
            begun.send(()).unwrap();
            while gate.lock().unwrap().try_recv() == Err(mpsc::TryRecvError::Empty) {
                cx.sleep(Duration::from_millis(1)).await?;
            }
            cx.complete(&CallToolResult::text("answered"))
        },
        |server| server.shards(2),
    );
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send_call("slow"));
    (0..4).for_each(|_| begins.recv_timeout(DEADLINE).unwrap());
    server.handle.shutdown(DEADLINE);
    drop(open);
    clients.iter_mut().for_each(|client| assert!(client.read_response().1.contains("answered")));
    server.shut_down(DEADLINE);
}

#[test]
fn endless_handlers_are_dropped_after_grace_period() {
    let (sender, receiver) = mpsc::channel();
    let server = serve(pending_handler(sender), |server| server.shards(3));
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send_call("endless"));
    (0..3).for_each(|_| assert_eq!(recv_event(&receiver), "begun"));
    // Closing the connection cancels the call, in whichever shard it runs.
    drop(clients.pop());
    assert_eq!(recv_event(&receiver), "dropped");
    server.shut_down(Duration::from_millis(50));
    (0..2).for_each(|_| assert_eq!(recv_event(&receiver), "dropped"));
}

#[test]
fn dropped_server_ends_all_shards() {
    let (sender, receiver) = mpsc::channel();
    let server = bind_server(Http::new(), pending_handler(sender)).shards(2);
    let (address, handle) = (server.address().unwrap(), server.handle());
    let mut run = Box::pin(server.run());
    let mut clients = [RawHttpClient::connect(address), RawHttpClient::connect(address)];
    clients.iter_mut().for_each(|client| client.send_call("endless"));
    let mut begun = 0;
    block_on(poll_fn(|cx| {
        assert!(run.as_mut().poll(cx).is_pending());
        begun += receiver.try_iter().count();
        cx.waker().wake_by_ref();
        if begun == 2 { Poll::Ready(()) } else { Poll::Pending }
    }));
    drop(run);
    (0..2).for_each(|_| assert_eq!(recv_event(&receiver), "dropped"));
    for client in &mut clients {
        // A shard that polls its sockets once more tells its client that the call was aborted.
        let mut rest = String::new();
        let end = client.0.read_to_string(&mut rest);
        let is_reset = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
        assert!(end.as_ref().map_or_else(is_reset, |_| true), "the connection is closed: {end:?}");
        assert!(rest.is_empty() || rest.contains("\"error\""), "{rest}");
    }
    assert!(handle.is_over());
}

#[test]
fn max_running_applies_to_each_shard() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let (begun, begins) = mpsc::channel();
    let running = AtomicUsize::new(0);
    let handler = async move |cx: &mut Cx, _: &Call| {
        assert!(running.fetch_add(1, Ordering::SeqCst) < 4, "more calls run than the limit");
        begun.send(()).unwrap();
        cx.sleep(Duration::from_millis(5)).await?;
        while gate.lock().unwrap().try_recv() == Err(mpsc::TryRecvError::Empty) {
            cx.sleep(Duration::from_millis(1)).await?;
        }
        running.fetch_sub(1, Ordering::SeqCst);
        cx.complete(&CallToolResult::text("answered"))
    };
    let server = serve(handler, |server| server.shards(2).max_running(2));
    let mut clients: Vec<_> = (0..12).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send_call("slow"));
    (0..4).for_each(|_| begins.recv_timeout(DEADLINE).unwrap());
    drop(open);
    clients.iter_mut().for_each(|client| assert!(client.read_response().1.contains("answered")));
    server.shut_down(DEADLINE);
}

#[test]
fn calls_beyond_exchange_limit_get_503() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let (begun, begins) = mpsc::channel();
    let handler = async move |cx: &mut Cx, _: &Call| {
        begun.send(()).unwrap();
        while gate.lock().unwrap().try_recv() == Err(mpsc::TryRecvError::Empty) {
            cx.sleep(Duration::from_millis(1)).await?;
        }
        cx.complete(&CallToolResult::text("answered"))
    };
    let server = serve_with(Http::new().max_exchanges(2), handler, |server| server.shards(2), block_on);
    let mut first: Vec<_> = (0..4).map(|_| server.connect()).collect();
    first.iter_mut().for_each(|client| client.send_call("slow"));
    (0..4).for_each(|_| begins.recv_timeout(DEADLINE).unwrap());
    let mut configure: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut configure {
        client.send_call("slow");
        assert!(client.read_response().0.starts_with("HTTP/1.1 503 "));
    }
    drop(open);
    first.iter_mut().for_each(|client| assert!(client.read_response().1.contains("answered")));
    configure.iter_mut().for_each(|client| assert_eq!(client.call("slow"), "answered"));
    server.shut_down(DEADLINE);
}

/// Makes a router that is neither `Send` nor `Sync`, and that reports how many were made before it.
fn numbered(made: &AtomicUsize) -> Router {
    let number = Rc::new(Cell::new(made.fetch_add(1, Ordering::SeqCst)));
    let mut router = Router::new("test", "1");
    let tool = Tool::new("which", RawJson::new(r#"{"type":"object"}"#).unwrap());
    let which = async move |_: &mut Cx, _: serde_json::Value| number.get().to_string();
    router.tool_with(tool, which);
    router
}

fn serve_numbered(shards: u8, make: impl Fn() -> Router + Send + Sync + 'static) -> ShardedServer {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        let first = make();
        let server = HttpServer::bind("127.0.0.1:0", first.config().unwrap(), Http::new(), first).unwrap();
        sender.send((server.address().unwrap(), server.handle())).unwrap();
        block_on(server.shards_with(shards, make).run())
    });
    let (address, handle) = receiver.recv_timeout(DEADLINE).unwrap();
    ShardedServer::new(address, handle, thread)
}

#[test]
fn handler_that_is_not_send_is_made_in_each_shard() {
    for shards in [0, 1, 3] {
        let made = Arc::<AtomicUsize>::default();
        let counter = made.clone();
        let server = serve_numbered(shards, move || numbered(&counter));
        let mut clients: Vec<_> = (0..9).map(|_| server.connect()).collect();
        let first: Vec<String> = clients.iter_mut().map(|client| client.call("which")).collect();
        let shards = usize::from(shards.max(1));
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), shards, "{first:?}");
        // A connection stays in its shard.
        assert!(clients.iter_mut().map(|client| client.call("which")).eq(first));
        server.shut_down(DEADLINE);
        assert_eq!(made.load(Ordering::SeqCst), shards);
    }
}

#[test]
fn panic_while_making_handler_ends_server() {
    let made = AtomicUsize::new(0);
    let server = serve_numbered(2, move || {
        let router = numbered(&made);
        assert!(made.load(Ordering::SeqCst) < 2, "no second one");
        router
    });
    let error = server.join_err();
    assert!(error.to_string().contains("a shard panicked"), "{error}");
}
