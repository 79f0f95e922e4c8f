//! One client, many threads

extern crate alloc;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Barrier, Mutex, Once, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use mcp_blocking::{Call, Cx, Handler, serve};
use mcp_proto::client::{self, Input};
use mcp_proto::model::{CallToolResult, ElicitResult, ElicitSchema, InputResponse, Map, SubscriptionFilter};
use mcp_proto::server::CancelReason;
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Change, Era, Limits, Progress, RpcError, UseError,
    VersionSet, server,
};
use mcp_std::child::{How, Patience};
use mcp_threads::{Client, ClientHandler, Error, Program, Stderr};
use serde_json::json;

/// Generous, as test machines are slow and shared; nothing waits this long unless it hangs
const DEADLINE: Duration = Duration::from_secs(120);
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Runs `f` on a thread and fails when it does not return in time
fn in_time<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (tx, rx) = mpsc::channel();
    let thread = thread::spawn(move || drop(tx.send(f())));
    match rx.recv_timeout(DEADLINE) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!(),
        },
    }
}

fn speaks(era: Era) -> client::Config {
    client::Config::new("test", "1").versions(VersionSet::ALL.era(era))
}

fn config() -> server::Config {
    server::Config::new("test", "1").capabilities(
        Capabilities::new()
            .with(Capability::Tools)
            .with(Capability::ToolsListChanged)
            .with(Capability::Logging),
    )
}

type Serving = JoinHandle<Result<(), Error>>;

/// A server in a thread, and what to connect to it by
fn serving(handler: impl Handler + Send + 'static) -> (mcp_std::MemoryEnd, Serving) {
    let (near, far) = mcp_std::memory_pair(1 << 12);
    (far, thread::spawn(move || serve(config(), near, handler)))
}

fn pair(era: Era, handler: impl Handler + Send + 'static) -> (Client, Serving) {
    let (far, server) = serving(handler);
    (Client::connect(speaks(era), far).expect("a connection"), server)
}

/// Tools that echo, count, and wait until they are cancelled
fn tools(told: mpsc::Sender<String>) -> impl Handler + Send {
    move |cx: &mut Cx<'_>, call: &Call| {
        let tool = call.tool()?;
        let arguments: serde_json::Value = tool.parse()?;
        match &*tool.name {
            "echo" => cx.complete(&CallToolResult::text(arguments["text"].as_str().unwrap_or_default())),
            "count" => {
                for step in 1..=5 {
                    cx.progress(Progress::new(f64::from(step)))?;
                }
                cx.complete(&CallToolResult::text("counted"))
            }
            "endless" => {
                let _ = told.send("begun".into());
                let slept = cx.sleep(DEADLINE * 2);
                let _ = told.send(match cx.cancel_reason() {
                    Some(CancelReason::Client(reason)) => format!("cancelled {reason:?}"),
                    other => format!("{other:?}"),
                });
                slept?;
                cx.complete(&CallToolResult::text("never"))
            }
            "changes" => {
                cx.publish(&Change::Tools);
                cx.complete(&CallToolResult::text("changed"))
            }
            other => Err(RpcError::invalid_params(format!("unknown tool: {other}"))),
        }
    }
}

fn text(result: &CallToolResult<'_>) -> String {
    result.content[0].as_text().expect("text").to_owned()
}

/// An example program of mcp-blocking, built here if that was not done yet
fn example(name: &str) -> PathBuf {
    static BUILD: Once = Once::new();
    let me = std::env::current_exe().expect("a path");
    let profile = me.parent().and_then(|deps| deps.parent()).expect("target/profile/deps");
    let path = profile.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    BUILD.call_once(|| {
        if path.exists() {
            return;
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "-p", "mcp-blocking", "--examples"]);
        build.env("CARGO_TARGET_DIR", profile.parent().expect("target"));
        assert!(build.status().expect("cargo").success(), "the examples cannot be built");
    });
    path
}

fn odd(mode: &str) -> Program {
    Program::new(example("odd_server")).arg(mode).stderr(Stderr::Capture)
}

fn hasty() -> mcp_threads::Options {
    Client::options(client::Config::new("test", "1")).patience(Patience::each(Duration::from_millis(200)))
}

// covers: BASE-033
#[test]
fn many_threads_call_at_once_and_each_gets_its_own_answer() {
    in_time(|| {
        for era in ERAS {
            let (client, server) = pair(era, tools(mpsc::channel().0));
            let barrier = Arc::new(Barrier::new(64));
            let threads: Vec<_> = (0..64)
                .map(|who| {
                    let (client, barrier) = (client.clone(), barrier.clone());
                    thread::spawn(move || {
                        barrier.wait();
                        for n in 0..20 {
                            let word = format!("{who} {n}");
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
fn a_call_that_is_dropped_or_takes_too_long_is_cancelled_at_the_server() {
    in_time(|| {
        for era in ERAS {
            let (sender, told) = mpsc::channel();
            let (client, server) = pair(era, tools(sender));
            let mut call = client.start_tool("endless", &json!({}), &CallOptions::new()).unwrap();
            assert_eq!(told.recv_timeout(DEADLINE).unwrap(), "begun");
            assert!(client.wait_timeout(&mut call, Duration::from_millis(5)).unwrap().is_none());
            assert!(call.key().is_some());
            drop(call);
            assert!(told.recv_timeout(DEADLINE).unwrap().starts_with("cancelled"));

            let call = client.start_tool("endless", &json!({}), &CallOptions::new()).unwrap();
            assert_eq!(told.recv_timeout(DEADLINE).unwrap(), "begun");
            client.cancel(call, Some("enough")).unwrap();
            assert!(told.recv_timeout(DEADLINE).unwrap().contains("enough"));

            let options = CallOptions::new().timeout(Duration::from_millis(50));
            let error = client.call_tool_with("endless", &json!({}), &options, &mut |_| {}).unwrap_err();
            assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
            assert_eq!(told.recv_timeout(DEADLINE).unwrap(), "begun");
            assert!(told.recv_timeout(DEADLINE).unwrap().starts_with("cancelled"));
            assert_eq!(text(&client.call_tool("echo", &json!({"text": "next"})).unwrap()), "next");
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

// covers: PROG-001, PROG-006
#[test]
fn progress_is_told_on_the_thread_that_waits_or_to_the_handler() {
    struct Notes(mpsc::Sender<f64>);
    impl ClientHandler for Notes {
        fn progress(&mut self, _: mcp_proto::CallKey, progress: &Progress) {
            let _ = self.0.send(progress.progress);
        }
    }
    in_time(|| {
        let (client, server) = pair(Era::Modern, tools(mpsc::channel().0));
        let (sender, told) = mpsc::channel();
        client.set_handler(Notes(sender));
        let me = thread::current().id();
        let mut seen = Vec::new();
        let result = client.call_tool_with("count", &json!({}), &CallOptions::new(), &mut |progress| {
            assert_eq!(thread::current().id(), me);
            seen.push(progress.progress);
        });
        assert_eq!(text(&result.unwrap()), "counted");
        assert!(seen.is_sorted() && seen.last() == Some(&5.0), "{seen:?}");
        assert!(told.try_recv().is_err());
        let call = client.start_tool("count", &json!({}), &CallOptions::new().with_progress()).unwrap();
        client.wait(call).unwrap();
        while told.recv_timeout(DEADLINE).unwrap() < 5.0 {}
        client.close().unwrap();
        server.join().unwrap().unwrap();
    });
}

/// Takes its time with every form, until it is told to go on
struct Slow {
    asked: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
}

impl ClientHandler for Slow {
    fn input(&mut self, _: &Input) -> Option<Result<InputResponse<'static>, RpcError>> {
        self.asked.send(()).unwrap();
        self.go_on.recv_timeout(DEADLINE).unwrap();
        Some(Ok(ElicitResult::accept(Map::new()).into()))
    }
}

// covers: TIME-008
#[test]
fn a_user_who_takes_long_holds_nothing_else_up() {
    in_time(|| {
        for era in ERAS {
            let (near, far) = mcp_std::memory_pair(1 << 12);
            let asks = |cx: &mut Cx<'_>, call: &Call| {
                cx.elicit("sure", "Sure?", ElicitSchema::default())?;
                cx.complete(&CallToolResult::text(call.tool()?.name))
            };
            let server = thread::spawn(move || serve(config(), near, asks));
            let config = speaks(era).capabilities(Capabilities::new().with(Capability::ElicitationForm));
            let (asked, is_asked) = mpsc::channel();
            let (go, go_on) = mpsc::channel();
            let client = Client::options(config).handler(Slow { asked, go_on }).connect(far).unwrap();
            let caller = client.clone();
            let call =
                thread::spawn(move || caller.call_tool("book", &json!({})).map(|result| text(&result)));
            is_asked.recv_timeout(DEADLINE).unwrap();
            // The handler sits there; a legacy server's pings are answered, and ours by it.
            if era == Era::Modern {
                client.ping().unwrap();
            }
            go.send(()).unwrap();
            assert_eq!(call.join().unwrap().unwrap(), "book");
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

/// Is stuck in its first callback
struct Stuck {
    begun: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
    heard: Arc<Mutex<u32>>,
}

impl ClientHandler for Stuck {
    fn log(&mut self, _: &client::Log) {
        *self.heard.lock().unwrap() += 1;
        let _ = self.begun.send(());
        let _ = self.go_on.recv_timeout(DEADLINE);
    }
}

#[test]
fn with_more_to_tell_than_may_wait_nothing_more_is_read() {
    in_time(|| {
        let (near, far) = mcp_std::memory_pair(1 << 8);
        let said = Arc::new(AtomicBool::new(false));
        let all_said = said.clone();
        let server = thread::spawn(move || {
            serve(config(), near, move |cx: &mut Cx<'_>, call: &Call| {
                for n in 0..200 {
                    cx.log(&mcp_proto::model::LoggingLevel::Error, None, &n)
                        .map_err(|_| RpcError::internal("no log"))?;
                    cx.checkpoint()?;
                }
                all_said.store(true, Ordering::SeqCst);
                cx.complete(&CallToolResult::text(call.tool()?.name))
            })
        });
        let mut limits = Limits::default();
        limits.max_waiting = 4;
        let config = speaks(Era::Legacy).limits(limits);
        let (begun, has_begun) = mpsc::channel();
        let (go, go_on) = mpsc::channel();
        let heard = Arc::new(Mutex::new(0));
        let handler = Stuck { begun, go_on, heard: heard.clone() };
        let client = Client::options(config).handler(handler).connect(far).unwrap();
        let options = CallOptions::new().timeout(Duration::from_millis(300));
        // What takes too long still ends, although nothing is read.
        let error = client.call_tool_with("logs", &json!({}), &options, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
        has_begun.recv_timeout(DEADLINE).unwrap();
        assert_eq!(*heard.lock().unwrap(), 1);
        drop(go);
        // It goes on where it stopped.
        assert_eq!(text(&client.call_tool("then", &json!({})).unwrap()), "then");
        assert!(said.load(Ordering::SeqCst));
        client.close().unwrap();
        server.join().unwrap().unwrap();
    });
}

// covers: SUB-001, RES-014
#[test]
fn changes_are_told_without_anybody_asking() {
    struct Notes(mpsc::Sender<Change>);
    impl ClientHandler for Notes {
        fn changed(&mut self, change: &Change) {
            let _ = self.0.send(change.clone());
        }
    }
    in_time(|| {
        for era in ERAS {
            let (client, server) = pair(era, tools(mpsc::channel().0));
            let (sender, told) = mpsc::channel();
            client.set_handler(Notes(sender));
            let filter = SubscriptionFilter::new().tools_list_changed(true);
            let (subscription, honoured) = client.subscribe(&filter).unwrap();
            assert_eq!(honoured.tools_list_changed, Some(true));
            client.call_tool("changes", &json!({})).unwrap();
            assert_eq!(told.recv_timeout(DEADLINE).unwrap(), Change::Tools);
            client.unsubscribe(subscription).unwrap();
            assert!(matches!(client.unsubscribe(subscription), Err(Error::Use(UseError::Stale))));
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

// covers: STDIO-023, STDIO-028, ERR-015
#[test]
fn all_who_wait_learn_how_the_server_died() {
    in_time(|| {
        let client = Client::spawn(odd("dies-mid-line")).unwrap();
        let calls: Vec<_> = (0..16)
            .map(|_| {
                let client = client.clone();
                thread::spawn(move || client.call_tool("any", &json!({})))
            })
            .collect();
        for call in calls {
            let Err(Error::Closed(end)) = call.join().unwrap() else { panic!("no end") };
            assert_eq!(end.ended.unwrap().code(), Some(7), "{end:?}");
            assert_eq!(end.last_words, "starting\nout of \u{1b}[2Jluck");
        }
        // And those who come too late, at once.
        let Err(Error::Closed(end)) = client.ping() else { panic!("no end") };
        assert_eq!(end.ended.unwrap().code(), Some(7));
        let ended = client.close().unwrap().unwrap();
        assert_eq!((ended.how, ended.status.unwrap().code()), (How::Exited, Some(7)));
    });
}

#[cfg(target_os = "linux")]
fn runs(id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

// covers: LIFE-017, STDIO-020
#[cfg(target_os = "linux")]
#[test]
fn the_last_handle_ends_the_server() {
    in_time(|| {
        for mode in ["ignores-eof", "banner"] {
            let client = hasty().spawn(odd(mode)).unwrap();
            let id = client.verdict().map(|_| child_of_ours("odd_server"));
            let id = id.expect("a server");
            let (other, call) = (client.clone(), client.start_tool("any", &json!({}), &CallOptions::new()));
            drop(client);
            assert_eq!(text(&other.call_tool("any", &json!({})).unwrap()), "ok");
            drop(other);
            assert!(runs(id), "a call under way holds it");
            drop(call);
            assert!(!runs(id));
        }
    });
}

/// The process that this one has started last, by its name
#[cfg(target_os = "linux")]
fn child_of_ours(name: &str) -> u32 {
    let me = std::process::id().to_string();
    let all = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let ours = all.filter(|id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.contains(&format!("({name})")) && stat.contains(&format!(" {me} ")) && !stat.contains(") Z ")
    });
    ours.max().expect("a child")
}

// covers: TIME-001, TIME-002
#[test]
fn a_server_that_never_reads_is_waited_for_no_longer_than_said() {
    in_time(|| {
        let mut limits = Limits::default();
        limits.call_timeout = Duration::from_millis(100);
        let options = Client::options(client::Config::new("test", "1").limits(limits));
        let client =
            options.patience(Patience::each(Duration::from_millis(200))).spawn(odd("never-reads")).unwrap();
        let large = "x".repeat(10_000_000);
        let error = client.call_tool(&large, &json!({})).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
        let error = client.call_tool(&large, &json!({})).unwrap_err();
        assert!(matches!(error, Error::Use(UseError::Full("outbox_mark"))), "{error:?}");
        assert_eq!(client.close().unwrap().unwrap().how, How::Terminated);
    });
}

// covers: STDIO-005
#[test]
fn odd_servers() {
    in_time(|| {
        let client = Client::spawn(odd("floods-stderr")).unwrap();
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        assert!(client.close().unwrap().unwrap().status.unwrap().success());
        let error = Client::spawn(Program::new("no-such-program-anywhere")).unwrap_err();
        assert!(matches!(error, Error::Spawn(_)), "{error:?}");
        let client = hasty().spawn(odd("ignores-eof")).unwrap();
        let begun = Instant::now();
        assert_eq!(client.close().unwrap().unwrap().how, How::Terminated);
        assert!(begun.elapsed() < DEADLINE);
    });
}

#[test]
fn what_is_wrong_is_said_before_anything_is_sent() {
    in_time(|| {
        let (client, server) = pair(Era::Modern, tools(mpsc::channel().0));
        let error = client.call_tool("echo", &[1, 2]).unwrap_err();
        assert!(matches!(error, Error::Use(UseError::Encode(_))), "{error:?}");
        let error = client.request("resources/list", &json!({}), &CallOptions::new()).unwrap_err();
        assert!(matches!(error, Error::Use(UseError::PeerLacks(_))), "{error:?}");
        client.close().unwrap();
        server.join().unwrap().unwrap();
    });
}

#[test]
fn handles_go_anywhere() {
    fn anywhere<T: Send + Sync>() {}
    anywhere::<Client>();
    anywhere::<mcp_threads::Pending>();
}

#[cfg(all(feature = "http", target_os = "linux"))]
#[test]
fn a_server_over_http() {
    in_time(|| {
        let http = mcp_proto::http::server::Config::new();
        let (told, address) = mpsc::channel();
        let (ends, ended) = mpsc::channel::<()>();
        let server = thread::spawn(move || {
            let handler = tools(mpsc::channel().0);
            let mut server = mcp_blocking::HttpServer::bind("127.0.0.1:0", config(), http, handler).unwrap();
            told.send(server.address().unwrap()).unwrap();
            while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {
                assert!(server.poll(Duration::from_millis(20)).unwrap());
            }
        });
        let port = address.recv_timeout(DEADLINE).unwrap().port();
        for era in ERAS {
            // By its name: that is looked up by a thread.
            let url = format!("http://localhost:{port}/mcp");
            let client = Client::options(speaks(era)).connect_url(&url).unwrap();
            assert_eq!(client.peer().era(), era);
            thread::scope(|scope| {
                for who in 0..16 {
                    let client = &client;
                    scope.spawn(move || {
                        for n in 0..3 {
                            let word = format!("{who} {n}");
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

/// An odd server that a shell starts after `before`
#[cfg(unix)]
fn after(before: &str, mode: &str) -> Program {
    let script = format!("{before} exec \"$0\" {mode}");
    Program::new("sh").arg("-c").arg(script).arg(example("odd_server")).stderr(Stderr::Capture)
}

// covers: LIFE-017, STDIO-020
#[cfg(target_os = "linux")]
#[test]
fn nothing_is_left_over_of_a_server() {
    in_time(|| {
        // One that ignores SIGTERM.
        let client = hasty().spawn(after("trap '' TERM;", "ignores-eof")).unwrap();
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        let ended = client.close().unwrap().unwrap();
        assert_eq!(ended.how, How::Killed, "{ended}");
        // One that leaves another process of its group behind.
        let client = hasty().spawn(after("sleep 86399.1 &", "banner")).unwrap();
        assert_eq!(text(&client.call_tool("any", &json!({})).unwrap()), "ok");
        let ended = client.close().unwrap().unwrap();
        assert!(ended.stragglers && ended.status.unwrap().success(), "{ended:?}");
        let group = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let line = std::fs::read_to_string(entry.ok()?.path().join("cmdline")).ok()?;
            line.contains("86399.1").then_some(line)
        });
        assert_eq!(group.collect::<Vec<_>>(), Vec::<String>::new());
    });
}

/// A stream that panics once it was waited for so often
struct Trap(mcp_std::MemoryEnd, u32);

impl mcp_std::Duplex for Trap {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buf)
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn wait(
        &mut self,
        interest: mcp_std::Interest,
        timeout: Option<Duration>,
    ) -> std::io::Result<mcp_std::Ready> {
        self.1 = self.1.checked_sub(1).expect("on purpose");
        self.0.wait(interest, timeout)
    }

    fn waker(&mut self) -> std::io::Result<core::task::Waker> {
        self.0.waker()
    }

    fn hung_up(&mut self) -> std::io::Result<mcp_std::HungUp> {
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
fn a_stream_that_panics_leaves_nobody_waiting() {
    in_time(|| {
        for waits in 8..16 {
            let (far, server) = serving(tools(mpsc::channel().0));
            let client = Client::connect(speaks(Era::Modern), Trap(far, waits)).unwrap();
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| while client.call_tool("echo", &json!({"text": "x"})).is_ok() {});
                }
            });
            // A moment after those are told who wait.
            while client.check_open().is_ok() {
                thread::yield_now();
            }
            client.close().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}
