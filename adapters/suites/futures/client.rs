//! Suite: a client that many tasks share.
//!
//! `crate::adapter` names the adapter under test.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::Future;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use futures_lite::future::{or, poll_once};
use mcp_blocking::{Call, Cx, Handler, serve};
use mcp_proto::client::{Input, InputId};
use mcp_proto::model::{CallToolResult, ElicitResult, ElicitSchema, InputResponse, Map, SubscriptionFilter};
use mcp_proto::{CallError, CallOptions, Capabilities, Capability, Change, Era, RpcError, UseError};
use mcp_runtime::runtime::PollStream as _;
use mcp_std::io::Socket;
use serde_json::json;

use crate::adapter::package::{Client, ClientHandler, Error, Program};
use crate::adapter::{
    AsyncStream, Runtime, async_stream, block_on_reactor as block_on, enter, impl_stream, sleep, yield_now,
};
use crate::support::{DEADLINE, ERAS, TestStream, client_config, text, version_set, with_timeout};

use crate::suites::client_support::{server_config, tool_handler};

type ServerThread = JoinHandle<Result<(), Error>>;

/// Starts a server on a thread. Returns the client end of its stream.
fn spawn_server(handler: impl Handler + Send + 'static) -> (AsyncStream, ServerThread) {
    let (near, far) = UnixStream::pair().unwrap();
    let near = Socket::unix(near).unwrap();
    (async_stream(far), thread::spawn(move || serve(server_config(), near, handler)))
}

pub(crate) async fn pair(era: Era, handler: impl Handler + Send + 'static) -> (Client, ServerThread) {
    let (far, server) = spawn_server(handler);
    (Client::connect(client_config(version_set(era)), far).await.expect("a connection"), server)
}

/// Runs each task on a thread of its own until all have ended.
fn run_on_threads(tasks: Vec<BoxFuture>) {
    let threads: Vec<_> = tasks.into_iter().map(|task| thread::spawn(move || block_on(task))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

pub(crate) type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls many futures in one task, each only when its own waker is called.
pub(crate) struct TaskSet {
    tasks: Vec<Option<BoxFuture>>,
    woken: mpsc::Receiver<usize>,
    wakers: Vec<Waker>,
}

struct TaskWaker(mpsc::Sender<usize>, usize);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(self.1);
    }
}

impl TaskSet {
    pub(crate) fn new(tasks: Vec<BoxFuture>) -> Self {
        let (sender, woken) = mpsc::channel();
        for at in 0..tasks.len() {
            sender.send(at).unwrap();
        }
        let wakers =
            (0..tasks.len()).map(|at| Waker::from(Arc::new(TaskWaker(sender.clone(), at)))).collect();
        Self { tasks: tasks.into_iter().map(Some).collect(), woken, wakers }
    }

    /// Runs until all futures have ended.
    ///
    /// # Panics
    ///
    /// Panics if a wake-up is lost.
    pub(crate) fn run(mut self) {
        let _entered = enter();
        while self.tasks.iter().any(Option::is_some) {
            let at = self.woken.recv_timeout(DEADLINE).expect("a task is woken");
            if let Some(task) = &mut self.tasks[at] {
                if task.as_mut().poll(&mut Context::from_waker(&self.wakers[at])).is_ready() {
                    self.tasks[at] = None;
                }
            }
        }
    }
}

async fn run_echoes(client: Client, caller: usize, times: usize) {
    for n in 0..times {
        let word = format!("{caller} {n}");
        let result = client.call_tool("echo", &json!({"text": word})).await.unwrap();
        assert_eq!(text(&result), word);
    }
}

// covers: BASE-033
#[test]
fn concurrent_calls_get_their_own_results() {
    with_timeout(|| {
        for era in ERAS {
            let (client, server) = block_on(pair(era, tool_handler(mpsc::channel().0)));
            let all = || {
                (0..64).map(|caller| Box::pin(run_echoes(client.clone(), caller, 20)) as BoxFuture).collect()
            };
            TaskSet::new(all()).run();
            // The same with one thread per task.
            run_on_threads(all());
            block_on(client.close()).unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

/// The leader may be dropped at any moment: another task takes over.
#[test]
fn dropped_leader_is_replaced() {
    with_timeout(|| {
        let (client, server) = block_on(pair(Era::Modern, tool_handler(mpsc::channel().0)));
        let stop = Arc::new(AtomicU32::new(0));
        let mut tasks: Vec<BoxFuture> = Vec::new();
        for caller in 0..4 {
            let (client, stop) = (client.clone(), stop.clone());
            tasks.push(Box::pin(async move {
                run_echoes(client, caller, 300).await;
                stop.fetch_add(1, Ordering::SeqCst);
            }));
        }
        for _ in 0..4 {
            let (client, stop) = (client.clone(), stop.clone());
            tasks.push(Box::pin(async move {
                // Dropped after a few polls: before it is sent, as the leader, or with its response received.
                for polls in (0..4).cycle() {
                    if stop.load(Ordering::SeqCst) == 4 {
                        return;
                    }
                    let arguments = json!({"text": "dropped"});
                    let mut call = pin!(client.call_tool("echo", &arguments));
                    for _ in 0..polls {
                        if poll_once(&mut call).await.is_some() {
                            break;
                        }
                        yield_now().await;
                    }
                    // Waits for the server, which would otherwise fall behind.
                    client.ping().await.unwrap();
                }
            }));
        }
        run_on_threads(tasks);
        block_on(client.close()).unwrap();
        server.join().unwrap().unwrap();
    });
}

// covers: CANC-002, CANC-010
#[test]
fn dropped_or_late_call_is_cancelled_at_server() {
    with_timeout(|| {
        for era in ERAS {
            block_on(async {
                let (sender, events) = mpsc::channel();
                let (client, server) = pair(era, tool_handler(sender)).await;
                // Dropped by a timeout around it.
                let arguments = json!({});
                let late = or(async { Some(client.call_tool("endless", &arguments).await) }, async {
                    while events.try_recv().is_err() {
                        sleep(Duration::from_millis(1)).await;
                    }
                    None
                });
                assert!(late.await.is_none());
                // The next leader sends the cancellation.
                let next = client.start_tool("echo", &json!({"text": "next"}), &CallOptions::new()).unwrap();
                assert_eq!(
                    next.await.unwrap().parse::<CallToolResult<'_>>().unwrap().content[0].as_text(),
                    Some("next")
                );
                assert!(events.recv_timeout(DEADLINE).unwrap().starts_with("cancelled"));

                // Cancelled while another task is the leader.
                let endless = client.start_tool("endless", &json!({}), &CallOptions::new()).unwrap();
                let driving = thread::spawn({
                    let run = client.run();
                    move || block_on(run)
                });
                assert_eq!(events.recv_timeout(DEADLINE).unwrap(), "begun");
                client.cancel(endless, Some("enough")).unwrap();
                assert!(events.recv_timeout(DEADLINE).unwrap().contains("enough"));

                // A call that is dropped before it is sent never reaches the server.
                drop(client.start_tool("endless", &json!({}), &CallOptions::new()).unwrap());
                // A call that times out.
                let options = CallOptions::new().timeout(Duration::from_millis(50));
                let error =
                    client.call_tool_with("endless", &json!({}), &options, &mut |_| {}).await.unwrap_err();
                assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
                while let Ok(event) = events.recv_timeout(DEADLINE) {
                    if event.starts_with("cancelled") {
                        break;
                    }
                }
                client.close().await.unwrap();
                driving.join().unwrap().unwrap();
                server.join().unwrap().unwrap();
            });
        }
    });
}

// covers: PROG-001, PROG-006
#[test]
fn progress_reaches_awaiting_task() {
    with_timeout(|| {
        block_on(async {
            let (client, server) = pair(Era::Modern, tool_handler(mpsc::channel().0)).await;
            let mut seen = Vec::new();
            let result = client
                .call_tool_with("count", &json!({}), &CallOptions::new(), &mut |progress| {
                    seen.push(progress.progress)
                })
                .await;
            assert_eq!(text(&result.unwrap()), "counted");
            assert!(seen.is_sorted() && seen.last() == Some(&5.0), "{seen:?}");
            client.close().await.unwrap();
            server.join().unwrap().unwrap();
        });
    });
}

/// Leaves each input request open and sends its id to the test.
struct DeferredInputHandler(mpsc::Sender<InputId>);

impl ClientHandler for DeferredInputHandler {
    fn input(&self, input: &Input) -> Option<Result<InputResponse<'static>, RpcError>> {
        self.0.send(input.id).unwrap();
        None
    }
}

// covers: TIME-008
#[test]
fn open_input_request_delays_nothing_else() {
    with_timeout(|| {
        for era in ERAS {
            block_on(async {
                let (far, server) = spawn_server(|cx: &mut Cx<'_>, call: &Call| {
                    cx.elicit("sure", "Sure?", ElicitSchema::default())?;
                    cx.complete(&CallToolResult::text(call.tool_call()?.name))
                });
                let config = client_config(version_set(era))
                    .capabilities(Capabilities::new().with(Capability::ElicitationForm));
                let (sender, input_ids) = mpsc::channel();
                let client =
                    Client::options(config).handler(DeferredInputHandler(sender)).connect(far).await.unwrap();
                let arguments = json!({});
                let call = async { text(&client.call_tool("book", &arguments).await.unwrap()) };
                let user = async {
                    let input = loop {
                        match input_ids.try_recv() {
                            Ok(input) => break input,
                            Err(_) => sleep(Duration::from_millis(1)).await,
                        };
                    };
                    if era == Era::Modern {
                        client.ping().await.unwrap();
                    }
                    client.answer(input, &ElicitResult::accept(Map::new()).into()).await.unwrap();
                };
                let (answer, ()) = futures_lite::future::zip(call, user).await;
                assert_eq!(answer, "book");
                client.close().await.unwrap();
                server.join().unwrap().unwrap();
            });
        }
    });
}

// covers: SUB-001, RES-014
#[test]
fn change_is_delivered_while_client_runs() {
    struct ChangeRecorder(mpsc::Sender<Change>);
    impl ClientHandler for ChangeRecorder {
        fn changed(&self, change: &Change) {
            let _ = self.0.send(change.clone());
        }
    }
    with_timeout(|| {
        for era in ERAS {
            let (client, server) = block_on(pair(era, tool_handler(mpsc::channel().0)));
            let (sender, events) = mpsc::channel();
            client.set_handler(ChangeRecorder(sender));
            let filter = SubscriptionFilter::new().tools_list_changed(true);
            let (subscription, honoured) = block_on(client.subscribe(&filter)).unwrap();
            assert_eq!(honoured.tools_list_changed, Some(true));
            let run = client.run();
            let driving = thread::spawn(move || block_on(run));
            block_on(client.call_tool("changes", &json!({}))).unwrap();
            assert_eq!(events.recv_timeout(DEADLINE).unwrap(), Change::Tools);
            block_on(client.unsubscribe(subscription)).unwrap();
            assert!(matches!(block_on(client.unsubscribe(subscription)), Err(Error::Use(UseError::Stale))));
            // Dropping the last handle closes the client, and the task that runs it ends.
            drop(client);
            driving.join().unwrap().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

#[test]
fn poll_returns_whether_anything_happened() {
    with_timeout(|| {
        block_on(async {
            let (client, server) = pair(Era::Modern, tool_handler(mpsc::channel().0)).await;
            assert!(!client.poll(Duration::from_millis(20)).await.unwrap());
            let call = client.start_tool("echo", &json!({"text": "x"}), &CallOptions::new()).unwrap();
            while !client.poll(DEADLINE).await.unwrap() {}
            let mut call = call;
            assert!(client.wait_timeout(&mut call, Duration::ZERO).await.unwrap().is_some());
            assert!(matches!(call.await, Err(Error::Use(UseError::Stale))));
            client.clone().close().await.unwrap();
            assert!(client.poll(DEADLINE).await.unwrap_err().is_closed());
            server.join().unwrap().unwrap();
        });
    });
}

#[test]
fn futures_of_client_are_send() {
    fn assert_send_sync<T: Send + Sync>() {}
    fn assert_send(_: &impl Send) {}
    assert_send_sync::<Client>();
    with_timeout(|| {
        let (client, server) = block_on(pair(Era::Modern, tool_handler(mpsc::channel().0)));
        let arguments = json!({});
        assert_send(&client.call_tool("x", &arguments));
        assert_send(&client.list_tools());
        assert_send(&client.run());
        assert_send(&client.poll(Duration::ZERO));
        assert_send(&Client::spawn(Program::new("x")));
        let close = client.close();
        assert_send(&close);
        block_on(close).unwrap();
        server.join().unwrap().unwrap();
    });
}

#[cfg(all(feature = "http", target_os = "linux"))]
#[test]
fn tasks_share_client_over_http() {
    with_timeout(|| {
        let http = mcp_proto::http::server::Config::new();
        let (events, address) = mpsc::channel();
        let (ends, ended) = mpsc::channel::<()>();
        let server = thread::spawn(move || {
            let handler = tool_handler(mpsc::channel().0);
            let mut server =
                mcp_blocking::HttpServer::bind("127.0.0.1:0", server_config(), http, handler).unwrap();
            events.send(server.address().unwrap()).unwrap();
            while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {
                assert!(server.poll(Duration::from_millis(20)).unwrap());
            }
        });
        let port = address.recv_timeout(DEADLINE).unwrap().port();
        for era in ERAS {
            // The name is resolved on a thread of its own.
            let url = format!("http://localhost:{port}/mcp");
            let client =
                block_on(Client::options(client_config(version_set(era))).connect_url(&url)).unwrap();
            assert_eq!(client.peer().era(), era);
            let all = (0..16).map(|caller| Box::pin(run_echoes(client.clone(), caller, 3)) as BoxFuture);
            TaskSet::new(all.collect()).run();
            drop(client);
        }
        drop(ends);
        server.join().unwrap();
    });
}

/// A stream that panics at a given number of reads or writes.
struct PanickingStream(AsyncStream, u32, u32);

impl TestStream for PanickingStream {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.1 = self.1.checked_sub(1).expect("on purpose");
        Runtime::poll_read(&mut self.0, cx, buffer)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.2 = self.2.checked_sub(1).expect("on purpose");
        Runtime::poll_write(&mut self.0, cx, bytes)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Runtime::poll_close(&mut self.0, cx)
    }
}

impl_stream!(PanickingStream);

// covers: ERR-015
#[test]
fn panic_in_stream_fails_waiting_calls() {
    with_timeout(|| {
        for (reads, writes) in (0..12).map(|n| (n, u32::MAX)).chain((0..12).map(|n| (u32::MAX, n))) {
            let (far, server) = spawn_server(tool_handler(mpsc::channel().0));
            match block_on(Client::connect(
                client_config(version_set(Era::Modern)),
                PanickingStream(far, reads, writes),
            )) {
                Err(Error::Io(error)) => assert!(error.to_string().contains("on purpose"), "{error}"),
                Err(error) => panic!("{error}"),
                Ok(client) => {
                    let calls = (0..8).map(|_| {
                        let client = client.clone();
                        Box::pin(async move {
                            while client.call_tool("echo", &json!({"text": "x"})).await.is_ok() {}
                        }) as BoxFuture
                    });
                    TaskSet::new(calls.collect()).run();
                    assert!(client.check_open().is_err());
                    block_on(client.close()).unwrap();
                }
            }
            server.join().unwrap().unwrap();
        }
    });
}

// covers: STDIO-023, ERR-015
#[test]
fn server_that_disconnects_after_handshake_closes_client() {
    with_timeout(|| {
        for n in 0..100 {
            let (near, far) = UnixStream::pair().unwrap();
            let (go, events) = mpsc::channel();
            let (has_read, read) = mpsc::channel();
            let server = thread::spawn(move || {
                let mut line = String::new();
                BufReader::new(&near).read_line(&mut line).unwrap();
                has_read.send(()).unwrap();
                events.recv().unwrap();
                let id = &serde_json::from_str::<serde_json::Value>(&line).unwrap()["id"];
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}});
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
                // Every other response is followed by half a line.
                let end = if n % 2 == 0 { "\n" } else { "\n{\"jsonrpc\":" };
                (&near).write_all(format!("{answer}{end}").as_bytes()).unwrap();
            });
            if n % 3 > 0 {
                go.send(()).unwrap();
                let connecting = Client::connect(client_config(version_set(Era::Legacy)), async_stream(far));
                let client = match block_on(connecting) {
                    Ok(client) => client,
                    Err(error) => {
                        assert!(error.is_closed(), "{error}");
                        continue;
                    }
                };
                assert!(block_on(client.ping()).unwrap_err().is_closed());
                let _ = block_on(client.close());
            } else {
                // The response and the end of the stream arrive before the client polls again.
                let mut connecting =
                    pin!(Client::connect(client_config(version_set(Era::Legacy)), async_stream(far)));
                // The reactor tells a stream later that it is writable.
                while read.try_recv().is_err() {
                    assert!(block_on(poll_once(&mut connecting)).is_none());
                    thread::sleep(Duration::from_millis(1));
                }
                go.send(()).unwrap();
                server.join().unwrap();
                let client = block_on(connecting).unwrap();
                assert!(block_on(client.ping()).unwrap_err().is_closed());
                let _ = block_on(client.close());
            }
        }
    });
}
