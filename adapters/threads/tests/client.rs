//! A client of `mcp-threads` that many threads share.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Barrier, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::support::{DEADLINE, ERAS, client_config, text, version_set, with_timeout};
use mcp_blocking::{Call, Cx, Handler, serve};
use mcp_proto::client::{self, Input};
use mcp_proto::model::{CallToolResult, ElicitResult, ElicitSchema, InputResponse, Map, SubscriptionFilter};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Change, Era, Limit, Limits, Progress, RpcError,
    UseError,
};
use mcp_std::process::{ShutdownStage, ShutdownTimeouts};
use mcp_threads::{Client, ClientHandler, Error, Program};
use serde_json::json;

#[cfg(target_os = "linux")]
use crate::suites::client_support::{child_with, command_lines_with, is_running, odd_server_after};
use crate::suites::client_support::{odd_server, server_config, short_timeouts, tool_handler};

type ServerThread = JoinHandle<Result<(), Error>>;

/// Starts a server on a thread. Returns the client end of its stream.
fn spawn_server(handler: impl Handler + Send + 'static) -> (mcp_std::io::MemoryEnd, ServerThread) {
    let (near, far) = mcp_std::io::memory_pair(1 << 12);
    (far, thread::spawn(move || serve(server_config(), near, handler)))
}

fn pair(era: Era, handler: impl Handler + Send + 'static) -> (Client, ServerThread) {
    let (far, server) = spawn_server(handler);
    (Client::connect(client_config(version_set(era)), far).expect("a connection"), server)
}

// covers: BASE-033
#[test]
fn concurrent_calls_get_their_own_results() {
    with_timeout(|| {
        for era in ERAS {
            let (client, server) = pair(era, tool_handler(mpsc::channel().0));
            let barrier = Arc::new(Barrier::new(64));
            let threads: Vec<_> = (0..64)
                .map(|caller| {
                    let (client, barrier) = (client.clone(), barrier.clone());
                    thread::spawn(move || {
                        barrier.wait();
                        for n in 0..20 {
                            let word = format!("{caller} {n}");
                            let result = client.call_tool("echo", &json!({"text": word})).unwrap();
                            assert_eq!(text(&result), word);
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

// covers: CANC-002, CANC-010
#[test]
fn dropped_or_late_call_is_cancelled_at_server() {
    with_timeout(|| {
        for era in ERAS {
            let (sender, events) = mpsc::channel();
            let (client, server) = pair(era, tool_handler(sender));
            let mut call = client.start_tool("endless", &json!({}), &CallOptions::new()).unwrap();
            assert_eq!(events.recv_timeout(DEADLINE).unwrap(), "begun");
            assert!(client.wait_timeout(&mut call, Duration::from_millis(5)).unwrap().is_none());
            assert!(call.key().is_some());
            drop(call);
            assert!(events.recv_timeout(DEADLINE).unwrap().starts_with("cancelled"));

            let call = client.start_tool("endless", &json!({}), &CallOptions::new()).unwrap();
            assert_eq!(events.recv_timeout(DEADLINE).unwrap(), "begun");
            client.cancel(call, Some("enough")).unwrap();
            assert!(events.recv_timeout(DEADLINE).unwrap().contains("enough"));

            let options = CallOptions::new().timeout(Duration::from_millis(50));
            let error = client.call_tool_with("endless", &json!({}), &options, &mut |_| {}).unwrap_err();
            assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
            assert_eq!(events.recv_timeout(DEADLINE).unwrap(), "begun");
            assert!(events.recv_timeout(DEADLINE).unwrap().starts_with("cancelled"));
            assert_eq!(text(&client.call_tool("echo", &json!({"text": "next"})).unwrap()), "next");
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

// covers: PROG-001, PROG-006
#[test]
fn progress_reaches_waiting_thread_or_handler() {
    struct ProgressRecorder(mpsc::Sender<f64>);
    impl ClientHandler for ProgressRecorder {
        fn progress(&self, _: mcp_proto::CallKey, progress: &Progress) {
            let _ = self.0.send(progress.progress);
        }
    }
    with_timeout(|| {
        let (client, server) = pair(Era::Modern, tool_handler(mpsc::channel().0));
        let (sender, events) = mpsc::channel();
        client.set_handler(ProgressRecorder(sender));
        let me = thread::current().id();
        let mut seen = Vec::new();
        let result = client.call_tool_with("count", &json!({}), &CallOptions::new(), &mut |progress| {
            assert_eq!(thread::current().id(), me);
            seen.push(progress.progress);
        });
        assert_eq!(text(&result.unwrap()), "counted");
        assert!(seen.is_sorted() && seen.last() == Some(&5.0), "{seen:?}");
        assert!(events.try_recv().is_err());
        let call = client.start_tool("count", &json!({}), &CallOptions::new().with_progress()).unwrap();
        client.wait(call).unwrap();
        while events.recv_timeout(DEADLINE).unwrap() < 5.0 {}
        client.close().unwrap();
        server.join().unwrap().unwrap();
    });
}

/// Blocks in each input callback until it is released.
struct GatedInputHandler {
    started: mpsc::Sender<()>,
    release: mpsc::Receiver<()>,
}

impl ClientHandler for GatedInputHandler {
    fn input(&self, _: &Input) -> Option<Result<InputResponse<'static>, RpcError>> {
        self.started.send(()).unwrap();
        self.release.recv_timeout(DEADLINE).unwrap();
        Some(Ok(ElicitResult::accept(Map::new()).into()))
    }
}

// covers: TIME-008
#[test]
fn blocked_input_callback_delays_nothing_else() {
    with_timeout(|| {
        for era in ERAS {
            let (near, far) = mcp_std::io::memory_pair(1 << 12);
            let asks = |cx: &mut Cx<'_>, call: &Call| {
                cx.elicit("sure", "Sure?", ElicitSchema::default())?;
                cx.complete(&CallToolResult::text(call.tool_call()?.name))
            };
            let server = thread::spawn(move || serve(server_config(), near, asks));
            let config = client_config(version_set(era))
                .capabilities(Capabilities::new().with(Capability::ElicitationForm));
            let (started, starts) = mpsc::channel();
            let (release, released) = mpsc::channel();
            let client = Client::options(config)
                .handler(GatedInputHandler { started, release: released })
                .connect(far)
                .unwrap();
            let caller = client.clone();
            let call =
                thread::spawn(move || caller.call_tool("book", &json!({})).map(|result| text(&result)));
            starts.recv_timeout(DEADLINE).unwrap();
            // The callback blocks only its own thread: the client still pings a modern server.
            if era == Era::Modern {
                client.ping().unwrap();
            }
            release.send(()).unwrap();
            assert_eq!(call.join().unwrap().unwrap(), "book");
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

/// Blocks in its first callback until it is released.
struct GatedLogHandler {
    started: mpsc::Sender<()>,
    release: mpsc::Receiver<()>,
    log_count: Arc<Mutex<u32>>,
}

impl ClientHandler for GatedLogHandler {
    fn log(&self, _: &client::LogMessage) {
        *self.log_count.lock().unwrap() += 1;
        let _ = self.started.send(());
        let _ = self.release.recv_timeout(DEADLINE);
    }
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn full_callback_queue_pauses_reading() {
    with_timeout(|| {
        let (near, far) = mcp_std::io::memory_pair(1 << 8);
        let has_logged = Arc::new(AtomicBool::new(false));
        let logged = has_logged.clone();
        let server = thread::spawn(move || {
            serve(server_config(), near, move |cx: &mut Cx<'_>, call: &Call| {
                for n in 0..200 {
                    cx.log(&mcp_proto::model::LoggingLevel::Error, None, &n)
                        .map_err(|_| RpcError::internal("no log"))?;
                    cx.checkpoint()?;
                }
                logged.store(true, Ordering::SeqCst);
                cx.complete(&CallToolResult::text(call.tool_call()?.name))
            })
        });
        let mut limits = Limits::default();
        limits.max_waiting_requests = 4;
        let config = client_config(version_set(Era::Legacy)).limits(limits);
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let log_count = Arc::new(Mutex::new(0));
        let handler = GatedLogHandler { started: begun, release: released, log_count: log_count.clone() };
        let client = Client::options(config).handler(handler).connect(far).unwrap();
        let options = CallOptions::new().timeout(Duration::from_secs(2));
        // The call still times out, although nothing is read.
        let error = client.call_tool_with("logs", &json!({}), &options, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
        has_begun.recv_timeout(DEADLINE).unwrap();
        assert_eq!(*log_count.lock().unwrap(), 1);
        drop(release);
        // Reading resumes where it stopped.
        assert_eq!(text(&client.call_tool("then", &json!({})).unwrap()), "then");
        assert!(has_logged.load(Ordering::SeqCst));
        client.close().unwrap();
        server.join().unwrap().unwrap();
    });
}

/// Takes a moment for each entry of the log, and closes the client at the last one.
struct SlowLogHandler {
    client: Arc<Mutex<Option<Client>>>,
    log_count: Arc<Mutex<u32>>,
}

impl ClientHandler for SlowLogHandler {
    fn log(&self, _: &client::LogMessage) {
        thread::sleep(Duration::from_millis(40));
        let mut count = self.log_count.lock().unwrap();
        *count += 1;
        if *count == 3 {
            // The callback thread does not wait for itself.
            let client = self.client.lock().unwrap().take();
            drop(client.map(Client::close));
        }
    }
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn close_waits_for_callbacks_that_are_left() {
    let logs = |cx: &mut Cx<'_>, call: &Call| {
        for n in 0..3 {
            cx.log(&mcp_proto::model::LoggingLevel::Error, None, &n)
                .map_err(|_| RpcError::internal("no log"))?;
        }
        cx.complete(&CallToolResult::text(call.tool_call()?.name))
    };
    with_timeout(move || {
        let (client, server) = pair(Era::Legacy, logs);
        let (shared, log_count) = (Arc::new(Mutex::new(Some(client.clone()))), Arc::new(Mutex::new(0)));
        client.set_handler(SlowLogHandler { client: shared, log_count: log_count.clone() });
        client.call_tool("logs", &json!({})).unwrap();
        client.close().unwrap();
        assert_eq!(*log_count.lock().unwrap(), 3);
        server.join().unwrap().unwrap();
        // A handler that blocks delays the end by a second, and no more.
        let (client, server) = pair(Era::Legacy, logs);
        let (started, starts) = mpsc::channel();
        let (release, released) = mpsc::channel();
        client.set_handler(GatedLogHandler { started, release: released, log_count });
        client.call_tool("logs", &json!({})).unwrap();
        starts.recv_timeout(DEADLINE).unwrap();
        client.close().unwrap();
        drop(release);
        server.join().unwrap().unwrap();
    });
}

// covers: SUB-001, RES-014
#[test]
fn change_is_delivered_without_a_call() {
    struct ChangeRecorder(mpsc::Sender<Change>);
    impl ClientHandler for ChangeRecorder {
        fn changed(&self, change: &Change) {
            let _ = self.0.send(change.clone());
        }
    }
    with_timeout(|| {
        for era in ERAS {
            let (client, server) = pair(era, tool_handler(mpsc::channel().0));
            let (sender, events) = mpsc::channel();
            client.set_handler(ChangeRecorder(sender));
            let filter = SubscriptionFilter::new().tools_list_changed(true);
            let (subscription, honoured) = client.subscribe(&filter).unwrap();
            assert_eq!(honoured.tools_list_changed, Some(true));
            client.call_tool("changes", &json!({})).unwrap();
            assert_eq!(events.recv_timeout(DEADLINE).unwrap(), Change::Tools);
            client.unsubscribe(subscription).unwrap();
            assert!(matches!(client.unsubscribe(subscription), Err(Error::Use(UseError::Stale))));
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

// covers: STDIO-023, STDIO-028, ERR-015
#[test]
fn server_exit_fails_all_waiting_calls() {
    with_timeout(|| {
        let client = Client::spawn(odd_server("dies-mid-line")).unwrap();
        let calls: Vec<_> = (0..16)
            .map(|_| {
                let client = client.clone();
                thread::spawn(move || client.call_tool("any", &json!({})))
            })
            .collect();
        for call in calls {
            let Err(Error::Closed(end)) = call.join().unwrap() else { panic!("no end") };
            assert_eq!(end.exit_status.unwrap().code(), Some(7), "{end:?}");
            assert_eq!(end.stderr_tail, "starting\nout of \u{1b}[2Jluck");
        }
        // Later calls fail immediately.
        let Err(Error::Closed(end)) = client.ping() else { panic!("no end") };
        assert_eq!(end.exit_status.unwrap().code(), Some(7));
        let ended = client.close().unwrap().unwrap();
        assert_eq!((ended.stage, ended.status.unwrap().code()), (ShutdownStage::Exited, Some(7)));
    });
}

// covers: LIFE-017, STDIO-020
#[cfg(target_os = "linux")]
#[test]
fn last_handle_ends_server_process() {
    with_timeout(|| {
        for mode in ["ignores-eof", "banner"] {
            // By an argument of its own: other tests have servers at the same time.
            let client = short_timeouts().spawn(odd_server(mode).arg("of-last-handle")).unwrap();
            assert!(client.known_era().is_some());
            let id = child_with("of-last-handle").expect("a child");
            let (other, call) = (client.clone(), client.start_tool("any", &json!({}), &CallOptions::new()));
            drop(client);
            assert_eq!(text(&other.call_tool("any", &json!({})).unwrap()), "ok");
            drop(other);
            assert!(is_running(id), "a call under way holds it");
            drop(call);
            assert!(!is_running(id));
        }
    });
}

// covers: TIME-001, TIME-002
#[test]
fn call_to_server_that_never_reads_times_out() {
    with_timeout(|| {
        let mut limits = Limits::default();
        limits.call_timeout = Duration::from_millis(100);
        let options = Client::options(client::Config::new("test", "1").limits(limits));
        let client = options
            .shutdown_timeouts(ShutdownTimeouts::uniform(Duration::from_secs(2)))
            .spawn(odd_server("never-reads"))
            .unwrap();
        let large = "x".repeat(10_000_000);
        let error = client.call_tool(&large, &json!({})).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
        let error = client.call_tool(&large, &json!({})).unwrap_err();
        assert!(matches!(error, Error::Use(UseError::Full(Limit::OutboxHighWater))), "{error:?}");
        assert_eq!(client.close().unwrap().unwrap().stage, ShutdownStage::Terminated);
    });
}

// covers: STDIO-005
#[test]
fn client_tolerates_odd_servers() {
    with_timeout(|| {
        let client = Client::spawn(odd_server("floods-stderr")).unwrap();
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        assert!(client.close().unwrap().unwrap().status.unwrap().success());
        let error = Client::spawn(Program::new("no-such-program-anywhere")).unwrap_err();
        assert!(matches!(error, Error::Spawn(_)), "{error:?}");
        let client = short_timeouts().spawn(odd_server("ignores-eof")).unwrap();
        let begun = Instant::now();
        assert_eq!(client.close().unwrap().unwrap().stage, ShutdownStage::Terminated);
        assert!(begun.elapsed() < DEADLINE);
    });
}

#[test]
fn invalid_call_is_refused_before_sending() {
    with_timeout(|| {
        let (client, server) = pair(Era::Modern, tool_handler(mpsc::channel().0));
        let error = client.call_tool("echo", &[1, 2]).unwrap_err();
        assert!(matches!(error, Error::Use(UseError::Encode(_))), "{error:?}");
        let error = client.request("resources/list", &json!({}), &CallOptions::new()).unwrap_err();
        assert!(matches!(error, Error::Use(UseError::MissingPeerCapability(_))), "{error:?}");
        client.close().unwrap();
        server.join().unwrap().unwrap();
    });
}

#[test]
fn client_and_pending_call_are_send_and_sync() {
    fn assert_send_sync<T: Send + Sync>() {}
    assert_send_sync::<Client>();
    assert_send_sync::<mcp_threads::PendingCall>();
}

#[cfg(all(feature = "http", target_os = "linux"))]
#[test]
fn threads_share_client_over_http() {
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
            let client = Client::options(client_config(version_set(era))).connect_url(&url).unwrap();
            assert_eq!(client.peer().era(), era);
            thread::scope(|scope| {
                for caller in 0..16 {
                    let client = &client;
                    scope.spawn(move || {
                        for n in 0..3 {
                            let word = format!("{caller} {n}");
                            let result = client.call_tool("echo", &json!({"text": word})).unwrap();
                            assert_eq!(text(&result), word);
                        }
                    });
                }
            });
            drop(client);
        }
        drop(ends);
        server.join().unwrap();
    });
}

// covers: LIFE-017, STDIO-020
#[cfg(target_os = "linux")]
#[test]
fn close_leaves_no_process_of_server() {
    with_timeout(|| {
        // A server that ignores SIGTERM.
        let client = short_timeouts().spawn(odd_server_after("trap '' TERM;", "ignores-eof")).unwrap();
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        let ended = client.close().unwrap().unwrap();
        assert_eq!(ended.stage, ShutdownStage::Killed, "{ended}");
        // A server that leaves a process of its group behind.
        let client = short_timeouts().spawn(odd_server_after("sleep 86399.1 &", "banner")).unwrap();
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        let ended = client.close().unwrap().unwrap();
        assert!(ended.had_stragglers && ended.status.unwrap().success(), "{ended:?}");
        assert_eq!(command_lines_with("86399.1"), Vec::<String>::new());
    });
}

/// A stream that panics at a given number of waits.
struct PanickingStream(mcp_std::io::MemoryEnd, u32);

impl mcp_std::io::Duplex for PanickingStream {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buf)
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn wait(
        &mut self,
        interest: mcp_std::io::Interest,
        timeout: Option<Duration>,
    ) -> std::io::Result<mcp_std::io::Ready> {
        self.1 = self.1.checked_sub(1).expect("on purpose");
        self.0.wait(interest, timeout)
    }

    fn waker(&mut self) -> std::io::Result<core::task::Waker> {
        self.0.waker()
    }

    fn hung_up(&mut self) -> std::io::Result<mcp_std::io::HungUp> {
        self.0.hung_up()
    }

    fn shutdown_write(&mut self) -> std::io::Result<()> {
        self.0.shutdown_write()
    }

    fn flush(&mut self, timeout: Duration) -> std::io::Result<()> {
        self.0.flush(timeout)
    }
}

// covers: ERR-015
#[test]
fn panic_in_stream_fails_waiting_calls() {
    with_timeout(|| {
        for waits in 8..16 {
            let (far, server) = spawn_server(tool_handler(mpsc::channel().0));
            let client =
                Client::connect(client_config(version_set(Era::Modern)), PanickingStream(far, waits))
                    .unwrap();
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| while client.call_tool("echo", &json!({"text": "x"})).is_ok() {});
                }
            });
            // The client closes a moment after its waiting calls have failed.
            while client.check_open().is_ok() {
                thread::yield_now();
            }
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}
