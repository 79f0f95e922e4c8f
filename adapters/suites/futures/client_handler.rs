//! Suite: asynchronous client handlers, futures that the task that drives the client polls.
//!
//! `crate::adapter` names the adapter under test.

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::Cell;
use core::future::{Future, pending};
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, mpsc};
use std::thread::{self, JoinHandle};

use futures_lite::future::{or, poll_once, zip};
use mcp_blocking::{Call, Cx};
use mcp_proto::client::{Notification, ServerRequest};
use mcp_proto::model::{
    CallToolResult, ElicitParams, ElicitResult, ElicitSchema, ListRootsResult, Map, Root,
};
use mcp_proto::{CallError, CallOptions, Capabilities, Capability, Era, Limits, RawJson, RpcError, client};
use mcp_std::io::Socket;
use serde_json::{Value, json};

use crate::adapter::package::{AsyncClientHandler, Client, ClientHandler, Error, async_handler};
use crate::adapter::{AsyncStream, async_stream, block_on_reactor as block_on, sleep};
use crate::support::{ERAS, NoteLog, client_config, server_config, text, version_set, with_timeout};

type ServerThread = JoinHandle<Result<(), Error>>;

fn answer_with_elicitation(cx: &mut Cx<'_>, call: &Call) -> Result<mcp_blocking::Answered, RpcError> {
    let tool = call.tool_call()?;
    if tool.name != "plain" {
        cx.elicit("sure", format!("Sure of {}?", tool.name), ElicitSchema::default())?;
    }
    cx.complete(&CallToolResult::text(tool.name))
}

fn spawn_server() -> (AsyncStream, ServerThread) {
    let (near, far) = UnixStream::pair().unwrap();
    let near = Socket::unix(near).unwrap();
    (
        async_stream(far),
        thread::spawn(move || mcp_blocking::serve(server_config(), near, answer_with_elicitation)),
    )
}

#[expect(deprecated, reason = "tested until its removal")]
fn eliciting_config(era: Era) -> client::Config {
    client_config(version_set(era))
        .capabilities(Capabilities::new().with(Capability::ElicitationForm).with(Capability::Roots))
}

fn message(params: &ElicitParams) -> String {
    let ElicitParams::Form(form) = params else { panic!("no form") };
    form.message.to_string()
}

fn accept() -> Result<ElicitResult, RpcError> {
    Ok(ElicitResult::accept(Map::new()))
}

/// Counts its live instances.
struct LiveCounter(Arc<AtomicU32>);

impl LiveCounter {
    fn new(count: &Arc<AtomicU32>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for LiveCounter {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn wait_until(mut done: impl FnMut() -> bool) {
    while !done() {
        sleep(Duration::from_millis(1)).await;
    }
}

/// Waits for `expected` concurrent elicitations, and calls the server before it answers each.
struct BarrierHandler {
    client: Mutex<Option<Client>>,
    elicited: AtomicU32,
    expected: u32,
}

impl AsyncClientHandler for BarrierHandler {
    async fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let client = self.client.lock().unwrap().clone().expect("a client");
        let message = message(params);
        let name = message.strip_prefix("Sure of ").and_then(|rest| rest.strip_suffix('?'));
        self.elicited.fetch_add(1, Ordering::SeqCst);
        wait_until(|| self.elicited.load(Ordering::SeqCst) == self.expected).await;
        // The leader polls this future, so the call must not need a leader of its own.
        let answer = client
            .call_tool("plain", &json!({}))
            .await
            .map_err(|error| RpcError::internal(error.to_string()))?;
        if name.is_some() && text(&answer) == "plain" { accept() } else { Ok(ElicitResult::decline()) }
    }
}

// covers: TIME-008
#[test]
fn input_requests_are_answered_concurrently() {
    with_timeout(|| {
        for era in ERAS {
            block_on(async {
                let (far, server) = spawn_server();
                let all = 16;
                let together = Arc::new(BarrierHandler {
                    client: Mutex::new(None),
                    elicited: AtomicU32::new(0),
                    expected: all,
                });
                struct SharedBarrierHandler(Arc<BarrierHandler>);
                impl AsyncClientHandler for SharedBarrierHandler {
                    async fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
                        self.0.elicit(params).await
                    }
                }
                let options = Client::options(eliciting_config(era))
                    .handler(async_handler(SharedBarrierHandler(together.clone())));
                let client = options.connect(far).await.unwrap();
                *together.client.lock().unwrap() = Some(client.clone());
                // One thread per call: the leader polls the handlers of all.
                let tasks = (0..all).map(|n| {
                    let client = client.clone();
                    thread::spawn(move || {
                        let name = format!("book {n}");
                        assert_eq!(text(&block_on(client.call_tool(&name, &json!({}))).unwrap()), name);
                    })
                });
                tasks.collect::<Vec<_>>().into_iter().for_each(|task| task.join().unwrap());
                client.close().await.unwrap();
                // The handler held a handle of the client, and is dropped.
                assert_eq!(Arc::strong_count(&together), 1);
                server.join().unwrap().unwrap();
            });
        }
    });
}

/// Waits forever, or panics if the message asks for it.
struct PendingOrPanicking {
    open_count: Arc<AtomicU32>,
}

impl AsyncClientHandler for PendingOrPanicking {
    async fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let _open = LiveCounter::new(&self.open_count);
        if message(params).contains("panic") {
            sleep(Duration::from_millis(1)).await;
            panic!("on purpose");
        }
        pending().await
    }
}

// covers: CANC-002
#[test]
fn abandoned_input_request_is_dropped_and_panic_refuses() {
    with_timeout(|| {
        for era in ERAS {
            block_on(async {
                let open = Arc::new(AtomicU32::new(0));
                let (far, server) = spawn_server();
                let options = Client::options(eliciting_config(era));
                let client = options
                    .handler(async_handler(PendingOrPanicking { open_count: open.clone() }))
                    .connect(far)
                    .await
                    .unwrap();
                let mut call = client.start_tool("book", &json!({}), &CallOptions::new()).unwrap();
                or(async { drop((&mut call).await) }, wait_until(|| open.load(Ordering::SeqCst) == 1)).await;
                client.cancel(call, None).unwrap();
                if era == Era::Modern {
                    // The call that needed the answer has ended.
                    client.ping().await.unwrap();
                    assert_eq!(open.load(Ordering::SeqCst), 0);
                } else {
                    or(async { drop(client.run().await) }, wait_until(|| open.load(Ordering::SeqCst) == 0))
                        .await;
                }
                let error = client.call_tool("panic", &json!({})).await;
                assert!(
                    matches!(error, Err(Error::Call(CallError::Rpc(_) | CallError::InputRefused(_)))),
                    "{error:?}"
                );
                // An open input request does not delay the close.
                let mut call = client.start_tool("book", &json!({}), &CallOptions::new()).unwrap();
                or(async { drop((&mut call).await) }, wait_until(|| open.load(Ordering::SeqCst) == 1)).await;
                client.close().await.unwrap();
                assert_eq!(open.load(Ordering::SeqCst), 0);
                assert!(call.await.unwrap_err().is_closed());
                server.join().unwrap().unwrap();
            });
        }
    });
}

/// Starts a legacy server that answers the handshake and pings. Returns its stream, and all other messages it reads.
fn raw_server() -> (AsyncStream, UnixStream, mpsc::Receiver<Value>) {
    let (near, far) = UnixStream::pair().unwrap();
    let (sender, read) = mpsc::channel();
    let mut answers = near.try_clone().unwrap();
    let lines = BufReader::new(near.try_clone().unwrap());
    thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            let message: Value = serde_json::from_str(&line).unwrap();
            let result = match message["method"].as_str() {
                Some("initialize") => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "raw", "version": "1"}}),
                Some("ping") => json!({}),
                _ => {
                    let _ = sender.send(message);
                    continue;
                }
            };
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            let _ = writeln!(answers, "{answer}");
        }
    });
    (async_stream(far), near, read)
}

fn send_messages(server: &mut UnixStream, messages: &[Value]) {
    let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
    server.write_all(lines.as_bytes()).unwrap();
}

fn request(id: u32, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}})
}

/// Answers when it is released.
struct GatedHandler {
    notes: NoteLog,
    open_count: Arc<AtomicU32>,
    is_released: Arc<AtomicU32>,
}

impl AsyncClientHandler for GatedHandler {
    async fn request(&self, request: &ServerRequest) -> Result<RawJson, RpcError> {
        let _open = LiveCounter::new(&self.open_count);
        self.notes.record(&*request.method);
        wait_until(|| self.is_released.load(Ordering::SeqCst) > 0).await;
        Ok(RawJson::encode(&json!({"answered": true})).unwrap())
    }

    async fn roots(&self) -> Result<ListRootsResult, RpcError> {
        let _open = LiveCounter::new(&self.open_count);
        self.notes.record("roots");
        wait_until(|| self.is_released.load(Ordering::SeqCst) > 0).await;
        Ok(ListRootsResult::new(vec![Root::new("file:///here")]))
    }
}

/// Collects `count` responses that the server reads, sorted by id.
async fn read_answers(client: &Client, read: &mpsc::Receiver<Value>, count: usize) -> Vec<Value> {
    let mut all = Vec::new();
    let gathered = wait_until(|| {
        all.extend(read.try_iter().filter(|message| message.get("method").is_none()));
        all.len() >= count
    });
    or(async { drop(client.run().await) }, gathered).await;
    all.sort_by_key(|answer| answer["id"].as_u64());
    all
}

// covers: CANC-010, BASE-018
#[test]
fn server_requests_are_bounded_and_cancellable() {
    with_timeout(|| {
        block_on(async {
            let (far, mut server, read) = raw_server();
            let mut limits = Limits::default();
            limits.max_waiting_requests = 3;
            let config = eliciting_config(Era::Legacy).custom_method("mine/slow").limits(limits);
            let slow = GatedHandler {
                notes: NoteLog::default(),
                open_count: Arc::default(),
                is_released: Arc::default(),
            };
            let (notes, open, go) = (slow.notes.clone(), slow.open_count.clone(), slow.is_released.clone());
            let client = Client::options(config).handler(async_handler(slow)).connect(far).await.unwrap();
            send_messages(
                &mut server,
                &[request(1, "mine/slow"), request(2, "roots/list"), request(3, "mine/slow")],
            );
            let drive = || async { drop(client.run().await) };
            or(drive(), wait_until(|| open.load(Ordering::SeqCst) == 3)).await;
            let cancellation = |id: u32| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
            // The fourth request exceeds the limit. Two cancellations then make room for another one.
            send_messages(&mut server, &[request(4, "roots/list")]);
            let refused = read_answers(&client, &read, 1).await;
            assert_eq!(
                (refused[0]["id"].as_u64(), refused[0]["error"]["code"].as_i64()),
                (Some(4), Some(-32603))
            );
            send_messages(&mut server, &[cancellation(1), cancellation(2)]);
            or(drive(), wait_until(|| open.load(Ordering::SeqCst) == 1)).await;
            // A request that is cancelled in the same read does not reach the handler.
            send_messages(&mut server, &[request(5, "mine/slow"), cancellation(5), request(6, "roots/list")]);
            or(drive(), wait_until(|| open.load(Ordering::SeqCst) == 2)).await;
            go.store(1, Ordering::SeqCst);
            let given = read_answers(&client, &read, 2).await;
            assert_eq!(given.iter().map(|answer| answer["id"].as_u64().unwrap()).collect::<Vec<_>>(), [3, 6]);
            assert_eq!(given[0]["result"]["answered"], true);
            assert_eq!(given[1]["result"]["roots"][0]["uri"], "file:///here");
            let mut handled = notes.take();
            handled.retain(|note| note == "roots");
            assert_eq!(handled.len(), 2, "the refused request does not reach the handler");
            // Replacing the handler refuses its open requests.
            go.store(0, Ordering::SeqCst);
            send_messages(&mut server, &[request(7, "roots/list")]);
            or(drive(), wait_until(|| open.load(Ordering::SeqCst) == 1)).await;
            client.set_handler(());
            let refused = read_answers(&client, &read, 1).await;
            assert_eq!(
                (refused[0]["id"].as_u64(), refused[0]["error"]["code"].as_i64()),
                (Some(7), Some(-32603))
            );
            assert_eq!(open.load(Ordering::SeqCst), 0);
            client.close().await.unwrap();
        });
    });
}

/// Notes the notifications that it gets, and panics at some.
struct NotingHandler(NoteLog);

impl AsyncClientHandler for NotingHandler {
    fn notifications(&self) -> &dyn ClientHandler {
        self
    }
}

impl ClientHandler for NotingHandler {
    fn notification(&self, notification: &Notification) {
        self.0.record(&*notification.method);
        assert_ne!(&*notification.method, "mine/panics", "on purpose");
    }
}

#[test]
fn handler_of_notifications_gets_what_needs_no_answer() {
    with_timeout(|| {
        block_on(async {
            let (far, mut server, _read) = raw_server();
            let notes = NoteLog::default();
            let handler = async_handler(NotingHandler(notes.clone()));
            let client =
                Client::options(eliciting_config(Era::Legacy)).handler(handler).connect(far).await.unwrap();
            let told = ["mine/first", "mine/panics", "mine/last"];
            send_messages(&mut server, &told.map(|method| json!({"jsonrpc": "2.0", "method": method})));
            client.ping().await.unwrap();
            assert_eq!(notes.take(), told);
            client.close().await.unwrap();
        });
    });
}

/// A handler that is not `Send`.
struct LocalHandler {
    count: Rc<Cell<u32>>,
    is_waiting: Rc<Cell<bool>>,
}

impl AsyncClientHandler for LocalHandler {
    async fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let mine = self.count.clone();
        while self.is_waiting.get() {
            sleep(Duration::from_millis(1)).await;
        }
        mine.set(mine.get() + 1);
        accept()
    }
}

#[test]
fn handler_that_is_not_send_stays_with_its_future() {
    with_timeout(|| {
        for era in ERAS {
            block_on(async {
                let (far, server) = spawn_server();
                let client = Client::connect(eliciting_config(era), far).await.unwrap();
                let stays = LocalHandler { count: Rc::default(), is_waiting: Rc::default() };
                let (count, waits) = (stays.count.clone(), stays.is_waiting.clone());
                let mut run_with = client.run_with(async_handler(stays));
                let calls = async {
                    for n in 1..=20 {
                        // The leader is this task, or a thread without access to the handler.
                        let name = format!("book {n}");
                        let answer = if n % 2 == 0 {
                            client.call_tool(&name, &json!({})).await
                        } else {
                            let (other, name) = (client.clone(), name.clone());
                            let (sender, receiver) = mpsc::channel();
                            thread::spawn(move || {
                                drop(sender.send(block_on(other.call_tool(&name, &json!({})))))
                            });
                            let mut answer = None;
                            wait_until(|| {
                                answer = receiver.try_recv().ok();
                                answer.is_some()
                            })
                            .await;
                            answer.unwrap()
                        };
                        assert_eq!(text(&answer.unwrap()), name);
                        assert_eq!(count.get(), n);
                    }
                };
                or(async { (&mut run_with).await.unwrap() }, calls).await;
                // Dropping the handler refuses its open requests and all later ones.
                waits.set(true);
                let arguments = json!({});
                let mut call = Box::pin(client.call_tool("book", &arguments));
                for _ in 0..20 {
                    let (ended, none) = zip(poll_once(&mut run_with), poll_once(&mut call)).await;
                    assert!(ended.is_none() && none.is_none());
                    sleep(Duration::from_millis(1)).await;
                }
                drop(run_with);
                assert!(matches!(call.await, Err(Error::Call(_))));
                assert!(matches!(client.call_tool("book", &json!({})).await, Err(Error::Call(_))));
                client.close().await.unwrap();
                server.join().unwrap().unwrap();
            });
        }
    });
}

/// A handler is `Send` if what it holds is.
#[test]
fn handler_future_is_send_if_handler_is() {
    fn assert_send(_: &impl Send) {}
    with_timeout(|| {
        let (far, server) = spawn_server();
        let client = block_on(Client::connect(eliciting_config(Era::Modern), far)).unwrap();
        let handler = async_handler(PendingOrPanicking { open_count: Arc::default() });
        assert_send(&handler);
        let run = client.run_with(handler);
        assert_send(&run);
        drop(client);
        fn assert_future(_: &impl Future<Output = Result<(), Error>>) {}
        assert_future(&run);
        block_on(run).unwrap();
        server.join().unwrap().unwrap();
    });
}
