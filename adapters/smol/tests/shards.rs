//! Servers over HTTP in several shards

#![cfg(unix)]

extern crate alloc;

use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::Cell;
use core::future::poll_fn;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::io::Read;
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;

use mcp_proto::http::server::Config as Http;
use mcp_proto::model::{CallToolResult, Tool};
use mcp_proto::server::Config;
use mcp_proto::{Capabilities, Capability, Limits, RawJson, RpcError};
use mcp_smol::{Answered, Call, Cx, Error, Handler, HttpServer, Router, block_on};

#[path = "../../threads/tests/shared/shards.rs"]
mod shared;

use shared::{DEADLINE, Peer, Serving};

mod adapter {
    use alloc::sync::Arc;
    use core::sync::atomic::{AtomicBool, Ordering};
    use core::time::Duration;
    use std::sync::mpsc::{Receiver, Sender};

    use mcp_proto::model::CallToolResult;
    use mcp_smol::{Call, Cx};

    use super::shared::cores;
    use super::{Counting, Http, Serving, held, serve, serve_with};

    /// Two shards, one of which is kept by whoever calls `waits`
    pub(crate) fn behind(begun: Sender<()>, gate: Receiver<()>) -> Serving {
        serve(held(begun, gate), |server| server.shards(2))
    }

    /// Two calls at a time, which end when it is `open`, and four that wait
    pub(crate) fn gated(begun: Sender<()>, open: Arc<AtomicBool>) -> Serving {
        let wait = async move |cx: &mut Cx<'_>, call: &Call| {
            begun.send(()).unwrap();
            while !open.load(Ordering::SeqCst) {
                cx.sleep(Duration::from_millis(5)).await?;
            }
            cx.complete(&CallToolResult::text(call.tool()?.name))
        };
        serve(wait, |server| server.max_running(2))
    }

    /// Two shards that stay on cores, which tell them; whether handlers run there
    pub(crate) fn pinned() -> Vec<(Serving, bool)> {
        let tell = async |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text(cores()));
        vec![(serve(tell, |server| server.shards(2).pin_shards()), true)]
    }

    /// By the wait of this package, and by the reactor
    pub(crate) fn servers(shards: u8, connections: usize) -> Vec<Serving> {
        let more = |server: super::HttpServer<Counting>| server.shards(shards).max_connections(connections);
        vec![
            serve(Counting::default(), more),
            serve_with(Http::new(), Counting::default(), more, async_io::block_on),
        ]
    }
}

fn bind<H: Handler>(http: Http, handler: H) -> HttpServer<H> {
    let capabilities = Capabilities::new()
        .with(Capability::Tools)
        .with(Capability::ToolsListChanged)
        .with(Capability::Resources)
        .with(Capability::ResourceSubscriptions);
    let mut limits = Limits::default();
    limits.max_waiting = 4;
    let config = Config::new("test", "1").capabilities(capabilities).limits(limits);
    HttpServer::bind("127.0.0.1:0", config, http, handler).unwrap()
}

fn serve<H: Handler + Send + Sync + 'static>(
    handler: H,
    more: impl FnOnce(HttpServer<H>) -> HttpServer<H>,
) -> Serving {
    serve_with(Http::new(), handler, more, block_on)
}

type Run = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

fn serve_with<H: Handler + Send + Sync + 'static>(
    http: Http,
    handler: H,
    more: impl FnOnce(HttpServer<H>) -> HttpServer<H>,
    block_on: fn(Run) -> Result<(), Error>,
) -> Serving {
    let server = more(bind(http, handler));
    let (address, handle) = (server.address().unwrap(), server.handle());
    Serving::new(address, handle, thread::spawn(move || block_on(Box::pin(server.run()))))
}

/// Keeps its thread when it is called so, until the gate is opened
fn held(begun: mpsc::Sender<()>, gate: mpsc::Receiver<()>) -> impl Handler + Send + Sync {
    let gate = Mutex::new(gate);
    async move |cx: &mut Cx<'_>, call: &Call| {
        let name = call.tool()?.name;
        if name == "waits" {
            begun.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
        }
        cx.complete(&CallToolResult::text(name))
    }
}

/// Answers with how many answered before
#[derive(Default)]
struct Counting(AtomicUsize);

impl Handler for Counting {
    async fn call(&self, cx: &mut Cx<'_>, _: &Call) -> Result<Answered, RpcError> {
        // Nothing that can be sent: each call stays in its shard.
        let one = Rc::new(Cell::new(1));
        futures_lite::future::yield_now().await;
        cx.complete(&CallToolResult::text(self.0.fetch_add(one.get(), Ordering::Relaxed).to_string()))
    }
}

/// Says that it was dropped
struct Told(mpsc::Sender<&'static str>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

/// Never answers
fn endless(told: mpsc::Sender<&'static str>) -> impl Handler + Send + Sync {
    async move |_: &mut Cx<'_>, _: &Call| {
        told.send("begun").unwrap();
        let _dropped = Told(told.clone());
        core::future::pending().await
    }
}

fn next(told: &mpsc::Receiver<&'static str>) -> &'static str {
    told.recv_timeout(DEADLINE).unwrap()
}

#[test]
fn shards_do_not_wait_for_each_other() {
    // Handlers that keep their threads until both are at it.
    let meet = Barrier::new(2);
    let server = serve(
        async move |cx: &mut Cx<'_>, _: &Call| {
            meet.wait();
            cx.complete(&CallToolResult::text("met"))
        },
        |server| server.shards(2),
    );
    let mut peers = [server.connect(), server.connect()];
    for _ in 0..20 {
        peers.iter_mut().for_each(|peer| peer.begin("meet"));
        peers.iter_mut().for_each(|peer| assert!(peer.answer().1.contains("met")));
    }
    server.ends(DEADLINE);
}

/// What one waits for can come from a handler in another shard
#[test]
fn calls_wake_calls_of_other_shards() {
    let waiting: Mutex<Vec<Waker>> = Mutex::default();
    let server = serve(
        async move |cx: &mut Cx<'_>, _: &Call| {
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
    let mut peers: Vec<_> = (0..20).map(|_| server.connect()).collect();
    peers.iter_mut().for_each(|peer| peer.begin("any"));
    peers.iter_mut().for_each(|peer| assert!(peer.answer().1.contains("together")));
    server.ends(DEADLINE);
}

#[test]
fn told_to_stop_every_shard_answers_what_it_has() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let (begun, begins) = mpsc::channel();
    let server = serve(
        async move |cx: &mut Cx<'_>, _: &Call| {
            begun.send(()).unwrap();
            while gate.lock().unwrap().try_recv() == Err(mpsc::TryRecvError::Empty) {
                cx.sleep(Duration::from_millis(1)).await?;
            }
            cx.complete(&CallToolResult::text("answered"))
        },
        |server| server.shards(2),
    );
    let mut peers: Vec<_> = (0..4).map(|_| server.connect()).collect();
    peers.iter_mut().for_each(|peer| peer.begin("slow"));
    (0..4).for_each(|_| begins.recv_timeout(DEADLINE).unwrap());
    server.handle.shutdown(DEADLINE);
    drop(open);
    peers.iter_mut().for_each(|peer| assert!(peer.answer().1.contains("answered")));
    server.ends(DEADLINE);
}

#[test]
fn what_never_ends_is_dropped_in_every_shard_when_its_time_is_over() {
    let (news, told) = mpsc::channel();
    let server = serve(endless(news), |server| server.shards(3));
    let mut peers: Vec<_> = (0..3).map(|_| server.connect()).collect();
    peers.iter_mut().for_each(|peer| peer.begin("endless"));
    (0..3).for_each(|_| assert_eq!(next(&told), "begun"));
    // Who closes his connection has changed his mind, in whatever shard.
    drop(peers.pop());
    assert_eq!(next(&told), "dropped");
    server.ends(Duration::from_millis(50));
    (0..2).for_each(|_| assert_eq!(next(&told), "dropped"));
}

#[test]
fn a_server_that_is_dropped_leaves_no_shard_behind() {
    let (news, told) = mpsc::channel();
    let server = bind(Http::new(), endless(news)).shards(2);
    let (address, handle) = (server.address().unwrap(), server.handle());
    let mut run = Box::pin(server.run());
    let mut peers = [Peer::connect(address), Peer::connect(address)];
    peers.iter_mut().for_each(|peer| peer.begin("endless"));
    let mut begun = 0;
    block_on(poll_fn(|cx| {
        assert!(run.as_mut().poll(cx).is_pending());
        begun += told.try_iter().count();
        cx.waker().wake_by_ref();
        if begun == 2 { Poll::Ready(()) } else { Poll::Pending }
    }));
    drop(run);
    (0..2).for_each(|_| assert_eq!(next(&told), "dropped"));
    for peer in &mut peers {
        assert!(matches!(peer.0.read(&mut [0; 1]), Ok(0) | Err(_)), "let go");
    }
    assert!(handle.is_over());
}

#[test]
fn so_many_calls_run_in_each_shard_and_the_others_wait() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let (begun, begins) = mpsc::channel();
    let running = AtomicUsize::new(0);
    let handler = async move |cx: &mut Cx<'_>, _: &Call| {
        assert!(running.fetch_add(1, Ordering::SeqCst) < 4, "more run than may");
        begun.send(()).unwrap();
        cx.sleep(Duration::from_millis(5)).await?;
        while gate.lock().unwrap().try_recv() == Err(mpsc::TryRecvError::Empty) {
            cx.sleep(Duration::from_millis(1)).await?;
        }
        running.fetch_sub(1, Ordering::SeqCst);
        cx.complete(&CallToolResult::text("answered"))
    };
    let server = serve(handler, |server| server.shards(2).max_running(2));
    let mut peers: Vec<_> = (0..12).map(|_| server.connect()).collect();
    peers.iter_mut().for_each(|peer| peer.begin("slow"));
    (0..4).for_each(|_| begins.recv_timeout(DEADLINE).unwrap());
    drop(open);
    peers.iter_mut().for_each(|peer| assert!(peer.answer().1.contains("answered")));
    server.ends(DEADLINE);
}

#[test]
fn a_crowd_is_told_to_come_again_by_every_shard_and_served_then() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let (begun, begins) = mpsc::channel();
    let handler = async move |cx: &mut Cx<'_>, _: &Call| {
        begun.send(()).unwrap();
        while gate.lock().unwrap().try_recv() == Err(mpsc::TryRecvError::Empty) {
            cx.sleep(Duration::from_millis(1)).await?;
        }
        cx.complete(&CallToolResult::text("answered"))
    };
    let server = serve_with(Http::new().max_exchanges(2), handler, |server| server.shards(2), block_on);
    let mut first: Vec<_> = (0..4).map(|_| server.connect()).collect();
    first.iter_mut().for_each(|peer| peer.begin("slow"));
    (0..4).for_each(|_| begins.recv_timeout(DEADLINE).unwrap());
    let mut more: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for peer in &mut more {
        peer.begin("slow");
        assert!(peer.answer().0.starts_with("HTTP/1.1 503 "));
    }
    drop(open);
    first.iter_mut().for_each(|peer| assert!(peer.answer().1.contains("answered")));
    more.iter_mut().for_each(|peer| assert_eq!(peer.call("slow"), "answered"));
    server.ends(DEADLINE);
}

/// A router, of which nothing can be shared or sent, that says how many were made before it
fn numbered(made: &AtomicUsize) -> Router {
    let number = Rc::new(Cell::new(made.fetch_add(1, Ordering::SeqCst)));
    let mut router = Router::new("test", "1");
    let tool = Tool::new("which", RawJson::new(r#"{"type":"object"}"#).unwrap());
    let which = async move |_: &mut Cx<'_>, _: serde_json::Value| number.get().to_string();
    router.tool_with(tool, which);
    router
}

fn serve_numbered(shards: u8, make: impl Fn() -> Router + Send + Sync + 'static) -> Serving {
    let (tell, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        let first = make();
        let server = HttpServer::bind("127.0.0.1:0", first.config().unwrap(), Http::new(), first).unwrap();
        tell.send((server.address().unwrap(), server.handle())).unwrap();
        block_on(server.shards_with(shards, make).run())
    });
    let (address, handle) = told.recv_timeout(DEADLINE).unwrap();
    Serving::new(address, handle, thread)
}

#[test]
fn handlers_that_cannot_be_shared_are_made_in_each_shard() {
    for shards in [0, 1, 3] {
        let made = Arc::<AtomicUsize>::default();
        let theirs = made.clone();
        let server = serve_numbered(shards, move || numbered(&theirs));
        let mut peers: Vec<_> = (0..9).map(|_| server.connect()).collect();
        let first: Vec<String> = peers.iter_mut().map(|peer| peer.call("which")).collect();
        let shards = usize::from(shards.max(1));
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), shards, "{first:?}");
        // Connections stay where they are.
        assert!(peers.iter_mut().map(|peer| peer.call("which")).eq(first));
        server.ends(DEADLINE);
        assert_eq!(made.load(Ordering::SeqCst), shards);
    }
}

#[test]
fn a_shard_whose_handler_cannot_be_made_ends_the_server_and_says_so() {
    let made = AtomicUsize::new(0);
    let server = serve_numbered(2, move || {
        let router = numbered(&made);
        assert!(made.load(Ordering::SeqCst) < 2, "no second one");
        router
    });
    let error = server.fails();
    assert!(error.to_string().contains("a shard panicked"), "{error}");
}
