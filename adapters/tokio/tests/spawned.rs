//! Calls of `mcp-tokio` in tasks of their own, on runtimes of one and of several threads.

use alloc::sync::Arc;
use core::future::pending;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, mpsc};
use std::thread::{self, JoinHandle, ThreadId};

use crate::support::{DEADLINE, INITIALIZE, call_line, cancel_line, with_timeout};
use mcp_proto::client;
use mcp_proto::http::server::Config as HttpConfig;
use mcp_proto::model::{ElicitSchema, StringSchema};
use mcp_proto::{Progress, RpcError};
use mcp_tokio::{Cx, Error, HttpServer, Router, Server, Spawned};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

const INITIALIZE_WITH_FORMS: &str = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\
                                     \"capabilities\":{\"elicitation\":{}},\"clientInfo\":{\"name\":\"x\",\"version\":\"1\"}}}\n\
                                     {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn two_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A server of a router on a thread, and the client end of its stream.
struct Served {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    serving: JoinHandle<Result<(), Error>>,
}

impl Served {
    fn new(runtime: Runtime, max_running: usize, router: Router) -> Self {
        Self::begin(runtime, max_running, router, INITIALIZE)
    }

    fn begin(runtime: Runtime, max_running: usize, router: Router, initialize: &str) -> Self {
        Self::begin_spawned(runtime, max_running, Spawned::new(router), initialize)
    }

    fn begin_spawned(runtime: Runtime, max_running: usize, spawned: Spawned, initialize: &str) -> Self {
        let (near, stream) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        near.set_nonblocking(true).unwrap();
        let serving = thread::spawn(move || {
            runtime.block_on(async {
                let near = tokio::net::UnixStream::from_std(near)?;
                let config = spawned.router().config()?;
                let server = Server::new(config, near, spawned).max_running(max_running);
                // On a thread of the runtime, which no call may hold up.
                tokio::spawn(server.run()).await.expect("the server does not panic")
            })
        });
        let reader = BufReader::new(stream.try_clone().unwrap());
        let mut served = Self { stream, reader, serving };
        served.send(initialize);
        assert_eq!(served.read()["id"], 0);
        served
    }

    fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.reader.read_line(&mut line).unwrap() > 0, "the stream has ended");
        serde_json::from_str(&line).unwrap()
    }

    /// Reads an answer of a tool; returns its id and its text.
    fn read_text(&mut self) -> (Value, Value) {
        let mut answer = self.read();
        (answer["id"].take(), answer["result"]["content"][0]["text"].take())
    }

    fn finish(self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
        self.serving.join().unwrap().unwrap();
    }
}

/// A handler that reports that it has begun, and blocks its thread until a message comes.
#[derive(Clone)]
struct Gate(mpsc::Sender<ThreadId>, Arc<Mutex<mpsc::Receiver<()>>>);

impl Gate {
    fn new() -> (Self, mpsc::Receiver<ThreadId>, mpsc::Sender<()>) {
        let ((begin, begun), (open, opened)) = (mpsc::channel(), mpsc::channel());
        (Self(begin, Arc::new(Mutex::new(opened))), begun, open)
    }

    fn block(&self) {
        self.0.send(thread::current().id()).unwrap();
        self.1.lock().unwrap().recv_timeout(DEADLINE).unwrap();
    }
}

/// Counts the futures of handlers that exist.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::sleep(Duration::from_millis(1));
    }
}

fn router(gate: Gate) -> Router {
    let mut router = Router::new("spawned", "1.0");
    router.tool("block", async move |_: &mut Cx, (): ()| {
        gate.block();
        "passed"
    });
    router.tool("quick", async |_: &mut Cx, (): ()| "quick");
    router
}

/// Adds a tool that never answers. Returns the number of its running calls.
fn add_never(router: &mut Router) -> Arc<AtomicUsize> {
    let running = Arc::new(AtomicUsize::new(0));
    let counted = running.clone();
    router.tool("never", async move |_: &mut Cx, (): ()| -> String {
        let _counted = Counted::new(&counted);
        pending().await
    });
    running
}

// covers: BASE-033
#[test]
fn call_that_blocks_its_thread_holds_up_no_other_call() {
    with_timeout(|| {
        let (gate, begun, open) = Gate::new();
        let mut served = Served::new(two_threads(), 8, router(gate));
        served.send(&call_line(1, "block"));
        begun.recv_timeout(DEADLINE).unwrap();
        for id in 2..50 {
            served.send(&call_line(id, "quick"));
            assert_eq!(served.read_text(), (json!(id), json!("quick")));
        }
        open.send(()).unwrap();
        assert_eq!(served.read_text(), (json!(1), json!("passed")));
        served.finish();
    });
}

#[test]
fn calls_of_a_shard_run_on_the_named_runtime() {
    with_timeout(|| {
        let (gate, begun, open) = Gate::new();
        let workers = two_threads();
        let router = router(gate);
        let config = router.config().unwrap();
        let handler = Spawned::new(router).on(workers.handle().clone());
        let server = HttpServer::bind("127.0.0.1:0", config, HttpConfig::new(), handler).unwrap();
        let (address, handle) = (server.address().unwrap(), server.handle());
        let serving = thread::spawn(move || current_thread().block_on(server.run()));
        let call = move || {
            let config = client::Config::new("x", "1");
            let client = mcp_blocking::Client::options(config).connect_url(&format!("http://{address}/mcp"));
            let client = client.unwrap();
            client.call_tool("block", &json!({})).unwrap().content[0].as_text().map(str::to_owned)
        };
        // Both block at the same time, though the server has one thread.
        let calls = [(); 2].map(|()| thread::spawn(call));
        let threads = [(); 2].map(|()| begun.recv_timeout(DEADLINE).unwrap());
        assert_ne!(threads[0], threads[1]);
        assert!(!threads.contains(&serving.thread().id()));
        open.send(()).unwrap();
        open.send(()).unwrap();
        for call in calls {
            assert_eq!(call.join().unwrap().as_deref(), Some("passed"));
        }
        handle.shutdown(Duration::from_secs(5));
        serving.join().unwrap().unwrap();
    });
}

#[test]
fn calls_on_one_thread_run_concurrently() {
    with_timeout(|| {
        let mut router = Router::new("spawned", "1.0");
        let barrier = Arc::new(tokio::sync::Barrier::new(3));
        router.tool("meet", async move |cx: &mut Cx, (): ()| -> Result<&str, RpcError> {
            cx.progress(Progress::new(1.0))?;
            barrier.wait().await;
            cx.sleep(Duration::from_millis(1)).await?;
            Ok("met")
        });
        let mut served = Served::new(current_thread(), 8, router);
        (1..=3).for_each(|id| served.send(&call_line(id, "meet")));
        let messages: Vec<_> = (0..6).map(|_| served.read()).collect();
        assert_eq!(messages.iter().filter(|m| m["method"] == "notifications/progress").count(), 3);
        assert_eq!(messages.iter().filter(|m| m["result"]["content"][0]["text"] == "met").count(), 3);
        served.finish();
    });
}

#[test]
fn panic_in_task_is_answered_and_reported() {
    for runtime in [current_thread(), two_threads()] {
        with_timeout(move || {
            let (tell, failed) = mpsc::channel();
            let mut router = Router::new("spawned", "1.0");
            router.tool("panic", async |_: &mut Cx, (): ()| -> &str { panic!("on purpose") });
            router.tool("quick", async |_: &mut Cx, (): ()| "quick");
            router.on_failure(move |_, failure| tell.send(failure.to_string()).unwrap());
            let mut served = Served::new(runtime, 1, router);
            served.send(&call_line(1, "panic"));
            let answer = served.read();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32603)), "{answer}");
            assert!(failed.recv_timeout(DEADLINE).unwrap().contains("on purpose"));
            served.send(&call_line(2, "quick"));
            assert_eq!(served.read_text(), (json!(2), json!("quick")));
            served.finish();
        });
    }
}

// covers: CANC-010
#[test]
fn cancelled_call_drops_its_future_and_frees_its_place() {
    for runtime in [current_thread(), two_threads()] {
        with_timeout(move || {
            let mut router = router(Gate::new().0);
            let running = add_never(&mut router);
            let mut served = Served::new(runtime, 1, router);
            served.send(&call_line(1, "never"));
            wait_until(|| running.load(Ordering::SeqCst) == 1);
            served.send(&call_line(2, "quick"));
            served.send(&cancel_line(1));
            assert_eq!(served.read_text(), (json!(2), json!("quick")), "a cancelled call is not answered");
            assert_eq!(running.load(Ordering::SeqCst), 0);
            served.finish();
        });
    }
}

#[test]
fn end_of_server_aborts_tasks() {
    with_timeout(|| {
        let runtime = two_threads();
        let mut router = router(Gate::new().0);
        let running = add_never(&mut router);
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let server = {
            let _entered = runtime.enter();
            let near = tokio::net::UnixStream::from_std(near).unwrap();
            tokio::spawn(Server::new(router.config().unwrap(), near, Spawned::new(router)).run())
        };
        far.write_all((INITIALIZE.to_owned() + &call_line(1, "never")).as_bytes()).unwrap();
        wait_until(|| running.load(Ordering::SeqCst) == 1);
        server.abort();
        wait_until(|| running.load(Ordering::SeqCst) == 0);
    });
}

#[test]
fn server_outlives_the_runtime_of_its_calls() {
    with_timeout(|| {
        let workers = two_threads();
        let mut router = router(Gate::new().0);
        let running = add_never(&mut router);
        let spawned = Spawned::new(router).on(workers.handle().clone());
        let mut served = Served::begin_spawned(current_thread(), 8, spawned, INITIALIZE);
        served.send(&call_line(1, "never"));
        wait_until(|| running.load(Ordering::SeqCst) == 1);
        workers.shutdown_background();
        // Neither the call that ran nor one that comes later is left without an answer.
        for id in [1, 2] {
            let answer = served.read();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32603)), "{answer}");
            if id == 1 {
                served.send(&call_line(2, "quick"));
            }
        }
        served.send("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}\n");
        assert_eq!(served.read(), json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
        served.finish();
    });
}

#[test]
fn input_in_the_middle_of_a_spawned_call_is_asked_for() {
    with_timeout(|| {
        let mut router = Router::new("spawned", "1.0");
        router.tool("ask", async |cx: &mut Cx, (): ()| -> Result<String, RpcError> {
            let form = ElicitSchema::new([("name", StringSchema::new().into())]);
            let answer = cx.elicit("name", "For whom?", form)?;
            Ok(format!("{:?}", answer.action))
        });
        let mut served = Served::begin(two_threads(), 8, router, INITIALIZE_WITH_FORMS);
        served.send(&call_line(1, "ask"));
        let asked = served.read();
        assert_eq!(asked["method"], "elicitation/create");
        let reply = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}});
        served.send(&format!("{reply}\n"));
        assert_eq!(served.read_text(), (json!(1), json!("Decline")));
        served.finish();
    });
}
