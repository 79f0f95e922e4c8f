//! What a server asks, answered by futures that whoever drives the client polls

#![cfg(unix)]

extern crate alloc;

mod support;

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

use async_io::{Async, Timer, block_on};
use futures_lite::future::{or, poll_once, zip};
use mcp_blocking::{Call, Cx};
use mcp_proto::client::Request;
use mcp_proto::model::{
    CallToolResult, ElicitParams, ElicitResult, ElicitSchema, ListRootsResult, Map, Root,
};
use mcp_proto::{CallError, CallOptions, Capabilities, Capability, Era, Limits, RawJson, RpcError, client};
use mcp_smol::{AsyncClientHandler, Client, Error, asynchronous};
use mcp_std::Socket;
use serde_json::{Value, json};
use support::{ERAS, Notes, in_time, only, server, speaks, text};

type Serving = JoinHandle<Result<(), Error>>;

fn asks(cx: &mut Cx<'_>, call: &Call) -> Result<mcp_blocking::Answered, RpcError> {
    let tool = call.tool()?;
    if tool.name != "plain" {
        cx.elicit("sure", format!("Sure of {}?", tool.name), ElicitSchema::default())?;
    }
    cx.complete(&CallToolResult::text(tool.name))
}

fn serving() -> (Async<UnixStream>, Serving) {
    let (near, far) = UnixStream::pair().unwrap();
    let near = Socket::unix(near).unwrap();
    (Async::new(far).unwrap(), thread::spawn(move || mcp_blocking::serve(server(), near, asks)))
}

fn can_be_asked(era: Era) -> client::Config {
    speaks(only(era))
        .capabilities(Capabilities::new().with(Capability::ElicitationForm).with(Capability::Roots))
}

fn message(params: &ElicitParams) -> String {
    let ElicitParams::Form(form) = params else { panic!("no form") };
    form.message.to_string()
}

fn yes() -> Result<ElicitResult, RpcError> {
    Ok(ElicitResult::accept(Map::new()))
}

/// Counts how many of it there are
struct Counted(Arc<AtomicU32>);

impl Counted {
    fn one(count: &Arc<AtomicU32>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        Timer::after(Duration::from_millis(1)).await;
    }
}

/// Asks the server something itself, and answers nobody before as many have been asked as there are
struct Together {
    client: Mutex<Option<Client>>,
    asked: AtomicU32,
    all: u32,
}

impl AsyncClientHandler for Together {
    async fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let client = self.client.lock().unwrap().clone().expect("a client");
        let message = message(params);
        let name = message.strip_prefix("Sure of ").and_then(|rest| rest.strip_suffix('?'));
        self.asked.fetch_add(1, Ordering::SeqCst);
        until(|| self.asked.load(Ordering::SeqCst) == self.all).await;
        // Polled by who drives, it cannot drive itself.
        let answer = client
            .call_tool("plain", &json!({}))
            .await
            .map_err(|error| RpcError::internal(error.to_string()))?;
        if name.is_some() && text(&answer) == "plain" { yes() } else { Ok(ElicitResult::decline()) }
    }
}

// covers: TIME-008
#[test]
fn questions_are_answered_at_the_same_time_while_calls_go_on() {
    in_time(|| {
        for era in ERAS {
            block_on(async {
                let (far, server) = serving();
                let all = 16;
                let together = Arc::new(Together { client: Mutex::new(None), asked: AtomicU32::new(0), all });
                struct Shared(Arc<Together>);
                impl AsyncClientHandler for Shared {
                    async fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
                        self.0.elicit(params).await
                    }
                }
                let options =
                    Client::options(can_be_asked(era)).handler(asynchronous(Shared(together.clone())));
                let client = options.connect(far).await.unwrap();
                *together.client.lock().unwrap() = Some(client.clone());
                // On as many threads: whoever drives polls for the others.
                let tasks = (0..all).map(|n| {
                    let client = client.clone();
                    thread::spawn(move || {
                        let name = format!("book {n}");
                        assert_eq!(text(&block_on(client.call_tool(&name, &json!({}))).unwrap()), name);
                    })
                });
                tasks.collect::<Vec<_>>().into_iter().for_each(|task| task.join().unwrap());
                client.close().await.unwrap();
                // It held a handle, and is gone.
                assert_eq!(Arc::strong_count(&together), 1);
                server.join().unwrap().unwrap();
            });
        }
    });
}

/// Waits for ever, or panics
struct Moody {
    open: Arc<AtomicU32>,
}

impl AsyncClientHandler for Moody {
    async fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let _open = Counted::one(&self.open);
        if message(params).contains("panic") {
            Timer::after(Duration::from_millis(1)).await;
            panic!("on purpose");
        }
        pending().await
    }
}

// covers: CANC-002
#[test]
fn an_answer_that_nobody_wants_is_given_up_and_a_panic_is_an_answer() {
    in_time(|| {
        for era in ERAS {
            block_on(async {
                let open = Arc::new(AtomicU32::new(0));
                let (far, server) = serving();
                let options = Client::options(can_be_asked(era));
                let client =
                    options.handler(asynchronous(Moody { open: open.clone() })).connect(far).await.unwrap();
                let mut call = client.start_tool("book", &json!({}), &CallOptions::new()).unwrap();
                or(async { drop((&mut call).await) }, until(|| open.load(Ordering::SeqCst) == 1)).await;
                client.cancel(call, None).unwrap();
                if era == Era::Modern {
                    // The call was in need of it, and is over.
                    client.ping().await.unwrap();
                    assert_eq!(open.load(Ordering::SeqCst), 0);
                } else {
                    or(async { drop(client.run().await) }, until(|| open.load(Ordering::SeqCst) == 0)).await;
                }
                let error = client.call_tool("panic", &json!({})).await;
                assert!(
                    matches!(error, Err(Error::Call(CallError::Rpc(_) | CallError::InputRefused(_)))),
                    "{error:?}"
                );
                // And what is open at the end does not hold it up.
                let mut call = client.start_tool("book", &json!({}), &CallOptions::new()).unwrap();
                or(async { drop((&mut call).await) }, until(|| open.load(Ordering::SeqCst) == 1)).await;
                client.close().await.unwrap();
                assert_eq!(open.load(Ordering::SeqCst), 0);
                assert!(call.await.unwrap_err().is_closed());
                server.join().unwrap().unwrap();
            });
        }
    });
}

/// A legacy server that says line by line what it is told to, and gives what it reads
fn raw() -> (Async<UnixStream>, UnixStream, mpsc::Receiver<Value>) {
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
    (Async::new(far).unwrap(), near, read)
}

fn say(server: &mut UnixStream, messages: &[Value]) {
    let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
    server.write_all(lines.as_bytes()).unwrap();
}

fn request(id: u32, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}})
}

/// Answers when it is told to
struct Slow {
    notes: Notes,
    open: Arc<AtomicU32>,
    go: Arc<AtomicU32>,
}

impl AsyncClientHandler for Slow {
    async fn request(&self, request: &Request) -> Result<RawJson, RpcError> {
        let _open = Counted::one(&self.open);
        self.notes.note(&*request.method);
        until(|| self.go.load(Ordering::SeqCst) > 0).await;
        Ok(RawJson::encode(&json!({"answered": true})).unwrap())
    }

    async fn roots(&self) -> Result<ListRootsResult, RpcError> {
        let _open = Counted::one(&self.open);
        self.notes.note("roots");
        until(|| self.go.load(Ordering::SeqCst) > 0).await;
        Ok(ListRootsResult::new(vec![Root::new("file:///here")]))
    }
}

/// What the server has read that are answers, by their ids
async fn answers(client: &Client, read: &mpsc::Receiver<Value>, count: usize) -> Vec<Value> {
    let mut all = Vec::new();
    let gathered = until(|| {
        all.extend(read.try_iter().filter(|message| message.get("method").is_none()));
        all.len() >= count
    });
    or(async { drop(client.run().await) }, gathered).await;
    all.sort_by_key(|answer| answer["id"].as_u64());
    all
}

// covers: CANC-010, BASE-018
#[test]
fn a_server_takes_its_questions_back_and_may_have_only_so_many() {
    in_time(|| {
        block_on(async {
            let (far, mut server, read) = raw();
            let mut limits = Limits::default();
            limits.max_waiting = 3;
            let config = can_be_asked(Era::Legacy).custom_method("mine/slow").limits(limits);
            let slow = Slow { notes: Notes::default(), open: Arc::default(), go: Arc::default() };
            let (notes, open, go) = (slow.notes.clone(), slow.open.clone(), slow.go.clone());
            let client = Client::options(config).handler(asynchronous(slow)).connect(far).await.unwrap();
            say(&mut server, &[request(1, "mine/slow"), request(2, "roots/list"), request(3, "mine/slow")]);
            let drive = || async { drop(client.run().await) };
            or(drive(), until(|| open.load(Ordering::SeqCst) == 3)).await;
            let taken_back = |id: u32| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
            // One beyond; then two are taken back, and there is room for another one.
            say(&mut server, &[request(4, "roots/list")]);
            let refused = answers(&client, &read, 1).await;
            assert_eq!(
                (refused[0]["id"].as_u64(), refused[0]["error"]["code"].as_i64()),
                (Some(4), Some(-32603))
            );
            say(&mut server, &[taken_back(1), taken_back(2)]);
            or(drive(), until(|| open.load(Ordering::SeqCst) == 1)).await;
            // Taken back along with it: nobody is asked in vain.
            say(&mut server, &[request(5, "mine/slow"), taken_back(5), request(6, "roots/list")]);
            or(drive(), until(|| open.load(Ordering::SeqCst) == 2)).await;
            go.store(1, Ordering::SeqCst);
            let given = answers(&client, &read, 2).await;
            assert_eq!(given.iter().map(|answer| answer["id"].as_u64().unwrap()).collect::<Vec<_>>(), [3, 6]);
            assert_eq!(given[0]["result"]["answered"], true);
            assert_eq!(given[1]["result"]["roots"][0]["uri"], "file:///here");
            let mut asked = notes.take();
            asked.retain(|note| note == "roots");
            assert_eq!(asked.len(), 2, "the one that was refused was not asked for");
            // What another handler takes the place of is refused.
            go.store(0, Ordering::SeqCst);
            say(&mut server, &[request(7, "roots/list")]);
            or(drive(), until(|| open.load(Ordering::SeqCst) == 1)).await;
            client.set_handler(());
            let refused = answers(&client, &read, 1).await;
            assert_eq!(
                (refused[0]["id"].as_u64(), refused[0]["error"]["code"].as_i64()),
                (Some(7), Some(-32603))
            );
            assert_eq!(open.load(Ordering::SeqCst), 0);
            client.close().await.unwrap();
        });
    });
}

/// Cannot move to another thread
struct Stays {
    count: Rc<Cell<u32>>,
    waits: Rc<Cell<bool>>,
}

impl AsyncClientHandler for Stays {
    async fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let mine = self.count.clone();
        while self.waits.get() {
            Timer::after(Duration::from_millis(1)).await;
        }
        mine.set(mine.get() + 1);
        yes()
    }
}

#[test]
fn a_handler_that_cannot_move_stays_with_the_future_that_has_it() {
    in_time(|| {
        for era in ERAS {
            block_on(async {
                let (far, server) = serving();
                let client = Client::connect(can_be_asked(era), far).await.unwrap();
                let stays = Stays { count: Rc::default(), waits: Rc::default() };
                let (count, waits) = (stays.count.clone(), stays.waits.clone());
                let mut with = client.run_with(asynchronous(stays));
                let calls = async {
                    for n in 1..=20 {
                        // Whoever drives: this one, or a thread that knows nothing of the handler.
                        let name = format!("book {n}");
                        let answer = if n % 2 == 0 {
                            client.call_tool(&name, &json!({})).await
                        } else {
                            let (other, name) = (client.clone(), name.clone());
                            let (told, tells) = mpsc::channel();
                            thread::spawn(move || {
                                drop(told.send(block_on(other.call_tool(&name, &json!({})))))
                            });
                            let mut answer = None;
                            until(|| {
                                answer = tells.try_recv().ok();
                                answer.is_some()
                            })
                            .await;
                            answer.unwrap()
                        };
                        assert_eq!(text(&answer.unwrap()), name);
                        assert_eq!(count.get(), n);
                    }
                };
                or(async { (&mut with).await.unwrap() }, calls).await;
                // What it has open when it goes is refused, and so is what comes afterwards.
                waits.set(true);
                let arguments = json!({});
                let mut call = Box::pin(client.call_tool("book", &arguments));
                for _ in 0..20 {
                    let (ended, none) = zip(poll_once(&mut with), poll_once(&mut call)).await;
                    assert!(ended.is_none() && none.is_none());
                    Timer::after(Duration::from_millis(1)).await;
                }
                drop(with);
                assert!(matches!(call.await, Err(Error::Call(_))));
                assert!(matches!(client.call_tool("book", &json!({})).await, Err(Error::Call(_))));
                client.close().await.unwrap();
                server.join().unwrap().unwrap();
            });
        }
    });
}

/// Whether they can move follows from what they hold
#[test]
fn handlers_that_can_move() {
    fn moves(_: &impl Send) {}
    in_time(|| {
        let (far, server) = serving();
        let client = block_on(Client::connect(can_be_asked(Era::Modern), far)).unwrap();
        let handler = asynchronous(Moody { open: Arc::default() });
        moves(&handler);
        let run = client.run_with(handler);
        moves(&run);
        drop(client);
        fn is_future(_: &impl Future<Output = Result<(), Error>>) {}
        is_future(&run);
        block_on(run).unwrap();
        server.join().unwrap().unwrap();
    });
}
