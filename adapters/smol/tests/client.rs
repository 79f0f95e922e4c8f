//! One client, many tasks

#![cfg(unix)]

extern crate alloc;

use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::Future;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Waker};
use core::time::Duration;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, mpsc};
use std::thread::{self, JoinHandle};

use async_io::{Async, Timer, block_on};
use futures_lite::future::{or, poll_once, yield_now};
use mcp_blocking::{Call, Cx, Handler, serve};
use mcp_proto::client::{self, Input, InputId};
use mcp_proto::model::{CallToolResult, ElicitResult, ElicitSchema, InputResponse, Map, SubscriptionFilter};
use mcp_proto::server::CancelReason;
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Change, Era, Limits, Progress, RpcError, UseError,
    VersionSet, server,
};
use mcp_smol::{Client, ClientHandler, Error, Program, Stderr};
use mcp_std::Socket;
use mcp_std::child::{How, Patience};
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
fn serving(handler: impl Handler + Send + 'static) -> (Async<UnixStream>, Serving) {
    let (near, far) = UnixStream::pair().unwrap();
    let near = Socket::unix(near).unwrap();
    (Async::new(far).unwrap(), thread::spawn(move || serve(config(), near, handler)))
}

async fn pair(era: Era, handler: impl Handler + Send + 'static) -> (Client, Serving) {
    let (far, server) = serving(handler);
    (Client::connect(speaks(era), far).await.expect("a connection"), server)
}

/// An executor with two threads: runs until all is done
fn on_threads(tasks: Vec<BoxFuture>) {
    let threads: Vec<_> = tasks.into_iter().map(|task| thread::spawn(move || block_on(task))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

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
    static BUILD: Mutex<()> = Mutex::new(());
    let me = std::env::current_exe().expect("a path");
    let profile = me.parent().and_then(|deps| deps.parent()).expect("target/profile/deps");
    let path = profile.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    let _alone = BUILD.lock().unwrap();
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "-p", "mcp-smol", "-p", "mcp-blocking", "--examples"]);
        build.env("CARGO_TARGET_DIR", profile.parent().expect("target"));
        assert!(build.status().expect("cargo").success(), "the examples cannot be built");
    }
    path
}

fn odd(mode: &str) -> Program {
    Program::new(example("odd_server")).arg(mode).stderr(Stderr::Capture)
}

fn hasty() -> mcp_smol::Options {
    Client::options(client::Config::new("test", "1")).patience(Patience::each(Duration::from_millis(200)))
}

/// Polls many futures in one task, each when it was woken itself; what is woken is all that is polled
struct Tasks {
    tasks: Vec<Option<BoxFuture>>,
    woken: mpsc::Receiver<usize>,
    wakers: Vec<Waker>,
}

struct Wakes(mpsc::Sender<usize>, usize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(self.1);
    }
}

impl Tasks {
    fn new(tasks: Vec<BoxFuture>) -> Self {
        let (sender, woken) = mpsc::channel();
        for at in 0..tasks.len() {
            sender.send(at).unwrap();
        }
        let wakers = (0..tasks.len()).map(|at| Waker::from(Arc::new(Wakes(sender.clone(), at)))).collect();
        Self { tasks: tasks.into_iter().map(Some).collect(), woken, wakers }
    }

    /// A wake-up that is lost leaves it waiting here
    fn run(mut self) {
        while self.tasks.iter().any(Option::is_some) {
            let at = self.woken.recv_timeout(DEADLINE).expect("nobody is woken");
            if let Some(task) = &mut self.tasks[at] {
                if task.as_mut().poll(&mut Context::from_waker(&self.wakers[at])).is_ready() {
                    self.tasks[at] = None;
                }
            }
        }
    }
}

async fn echoes(client: Client, who: usize, times: usize) {
    for n in 0..times {
        let word = format!("{who} {n}");
        let result = client.call_tool("echo", &json!({"text": word})).await.unwrap();
        assert_eq!(text(&result), word);
    }
}

// covers: BASE-033
#[test]
fn many_tasks_call_at_once_and_each_gets_its_own_answer() {
    in_time(|| {
        for era in ERAS {
            let (client, server) = block_on(pair(era, tools(mpsc::channel().0)));
            let all = || (0..64).map(|who| Box::pin(echoes(client.clone(), who, 20)) as BoxFuture).collect();
            Tasks::new(all()).run();
            // And on as many threads.
            on_threads(all());
            block_on(client.close()).unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

/// Whoever drives may vanish at any moment: the others go on
#[test]
fn those_who_drive_may_be_dropped() {
    in_time(|| {
        let (client, server) = block_on(pair(Era::Modern, tools(mpsc::channel().0)));
        let stop = Arc::new(AtomicU32::new(0));
        let mut tasks: Vec<BoxFuture> = Vec::new();
        for who in 0..4 {
            let (client, stop) = (client.clone(), stop.clone());
            tasks.push(Box::pin(async move {
                echoes(client, who, 300).await;
                stop.fetch_add(1, Ordering::SeqCst);
            }));
        }
        for _ in 0..4 {
            let (client, stop) = (client.clone(), stop.clone());
            tasks.push(Box::pin(async move {
                // Polled a few times, and dropped: before it was sent, while it drives, with its answer there.
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
                    // No faster than the server can take it.
                    client.ping().await.unwrap();
                }
            }));
        }
        on_threads(tasks);
        block_on(client.close()).unwrap();
        server.join().unwrap().unwrap();
    });
}

// covers: CANC-002, CANC-010
#[test]
fn a_call_whose_future_is_dropped_is_cancelled_at_the_server() {
    in_time(|| {
        for era in ERAS {
            block_on(async {
                let (sender, told) = mpsc::channel();
                let (client, server) = pair(era, tools(sender)).await;
                // By a time-out around it.
                let arguments = json!({});
                let late = or(async { Some(client.call_tool("endless", &arguments).await) }, async {
                    while told.try_recv().is_err() {
                        Timer::after(Duration::from_millis(1)).await;
                    }
                    None
                });
                assert!(late.await.is_none());
                // The next one to drive tells the server.
                let next = client.start_tool("echo", &json!({"text": "next"}), &CallOptions::new()).unwrap();
                assert_eq!(
                    next.await.unwrap().parse::<CallToolResult<'_>>().unwrap().content[0].as_text(),
                    Some("next")
                );
                assert!(told.recv_timeout(DEADLINE).unwrap().starts_with("cancelled"));

                // While another task drives.
                let endless = client.start_tool("endless", &json!({}), &CallOptions::new()).unwrap();
                let driving = thread::spawn({
                    let run = client.run();
                    move || block_on(run)
                });
                assert_eq!(told.recv_timeout(DEADLINE).unwrap(), "begun");
                client.cancel(endless, Some("enough")).unwrap();
                assert!(told.recv_timeout(DEADLINE).unwrap().contains("enough"));

                // One that was never sent is never heard of.
                drop(client.start_tool("endless", &json!({}), &CallOptions::new()).unwrap());
                // One that takes too long.
                let options = CallOptions::new().timeout(Duration::from_millis(50));
                let error =
                    client.call_tool_with("endless", &json!({}), &options, &mut |_| {}).await.unwrap_err();
                assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
                while let Ok(news) = told.recv_timeout(DEADLINE) {
                    if news.starts_with("cancelled") {
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
fn progress_is_told_where_the_call_is_awaited() {
    in_time(|| {
        block_on(async {
            let (client, server) = pair(Era::Modern, tools(mpsc::channel().0)).await;
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

/// Leaves every question to somebody else
struct Later(mpsc::Sender<InputId>);

impl ClientHandler for Later {
    fn input(&mut self, input: &Input) -> Option<Result<InputResponse<'static>, RpcError>> {
        self.0.send(input.id).unwrap();
        None
    }
}

// covers: TIME-008
#[test]
fn a_user_who_takes_long_holds_nothing_up() {
    in_time(|| {
        for era in ERAS {
            block_on(async {
                let (far, server) = serving(|cx: &mut Cx<'_>, call: &Call| {
                    cx.elicit("sure", "Sure?", ElicitSchema::default())?;
                    cx.complete(&CallToolResult::text(call.tool()?.name))
                });
                let config = speaks(era).capabilities(Capabilities::new().with(Capability::ElicitationForm));
                let (sender, asked) = mpsc::channel();
                let client = Client::options(config).handler(Later(sender)).connect(far).await.unwrap();
                let arguments = json!({});
                let call = async { text(&client.call_tool("book", &arguments).await.unwrap()) };
                let user = async {
                    let input = loop {
                        match asked.try_recv() {
                            Ok(input) => break input,
                            Err(_) => Timer::after(Duration::from_millis(1)).await,
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
fn changes_are_told_while_nobody_calls() {
    struct Notes(mpsc::Sender<Change>);
    impl ClientHandler for Notes {
        fn changed(&mut self, change: &Change) {
            let _ = self.0.send(change.clone());
        }
    }
    in_time(|| {
        for era in ERAS {
            let (client, server) = block_on(pair(era, tools(mpsc::channel().0)));
            let (sender, told) = mpsc::channel();
            client.set_handler(Notes(sender));
            let filter = SubscriptionFilter::new().tools_list_changed(true);
            let (subscription, honoured) = block_on(client.subscribe(&filter)).unwrap();
            assert_eq!(honoured.tools_list_changed, Some(true));
            let run = client.run();
            let driving = thread::spawn(move || block_on(run));
            block_on(client.call_tool("changes", &json!({}))).unwrap();
            assert_eq!(told.recv_timeout(DEADLINE).unwrap(), Change::Tools);
            block_on(client.unsubscribe(subscription)).unwrap();
            assert!(matches!(block_on(client.unsubscribe(subscription)), Err(Error::Use(UseError::Stale))));
            // The last handle: whoever runs it ends it.
            drop(client);
            driving.join().unwrap().unwrap();
            server.join().unwrap().unwrap();
        }
    });
}

#[test]
fn polling_tells_whether_anything_happened() {
    in_time(|| {
        block_on(async {
            let (client, server) = pair(Era::Modern, tools(mpsc::channel().0)).await;
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

// covers: STDIO-023, STDIO-028, ERR-015
#[test]
fn all_who_wait_learn_how_the_server_died() {
    in_time(|| {
        let client = block_on(Client::spawn(odd("dies-mid-line"))).unwrap();
        let calls = (0..16).map(|_| {
            let client = client.clone();
            Box::pin(async move {
                let Err(Error::Closed(end)) = client.call_tool("any", &json!({})).await else {
                    panic!("no end")
                };
                assert_eq!(end.ended.unwrap().code(), Some(7), "{end:?}");
                assert_eq!(end.last_words, "starting\nout of \u{1b}[2Jluck");
            }) as BoxFuture
        });
        Tasks::new(calls.collect()).run();
        // And those who come too late, at once.
        let Err(Error::Closed(end)) = block_on(client.ping()) else { panic!("no end") };
        assert_eq!(end.ended.unwrap().code(), Some(7));
        let ended = block_on(client.close()).unwrap().unwrap();
        assert_eq!((ended.how, ended.status.unwrap().code()), (How::Exited, Some(7)));
    });
}

#[cfg(target_os = "linux")]
fn runs(id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// The processes that this one has started and that run, by their name
#[cfg(target_os = "linux")]
fn children(name: &str) -> Vec<u32> {
    let me = std::process::id().to_string();
    let all = std::fs::read_dir("/proc").unwrap();
    let all = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let ours = all.filter(|id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.contains(&format!("({name})")) && stat.contains(&format!(" {me} ")) && !stat.contains(") Z ")
    });
    ours.collect()
}

// covers: LIFE-017, STDIO-020
#[cfg(target_os = "linux")]
#[test]
fn the_last_handle_ends_the_server() {
    in_time(|| {
        for mode in ["ignores-eof", "banner"] {
            let before = children("odd_server");
            let client = block_on(hasty().spawn(odd(mode))).unwrap();
            let id = children("odd_server").into_iter().find(|id| !before.contains(id)).unwrap();
            let (other, call) = (client.clone(), client.start_tool("any", &json!({}), &CallOptions::new()));
            drop(client);
            assert_eq!(text(&block_on(other.call_tool("any", &json!({}))).unwrap()), "ok");
            drop(other);
            assert!(runs(id), "a call under way holds it");
            drop(call);
            // Nothing waits for that here; nor does anything drive it.
            while runs(id) {
                thread::yield_now();
            }
        }
        // A client that is not there yet.
        let before = children("odd_server");
        let mut connecting = pin!(hasty().spawn(odd("silent")));
        assert!(block_on(poll_once(&mut connecting)).is_none());
        let id = children("odd_server").into_iter().find(|id| !before.contains(id)).unwrap();
        block_on(or(async { drop(connecting.as_mut().await) }, async {
            Timer::after(Duration::from_millis(5)).await;
        }));
        connecting.set(hasty().spawn(Program::new("no-such-program-anywhere")));
        while runs(id) {
            thread::yield_now();
        }
        assert!(matches!(block_on(connecting), Err(Error::Spawn(_))));
    });
}

// covers: LIFE-017, LIFE-021, VER-021, STDIO-005, STDIO-007
#[test]
fn odd_servers() {
    in_time(|| {
        block_on(async {
            for mode in ["floods-stderr", "banner", "exits-on-unknown", "ignores-eof"] {
                let client = hasty().spawn(odd(mode)).await.unwrap_or_else(|error| panic!("{mode}: {error}"));
                assert_eq!(text(&client.call_tool("any", &json!({})).await.unwrap()), "ok", "{mode}");
                let ended = client.close().await.unwrap().unwrap();
                assert_eq!(
                    ended.how,
                    if mode == "ignores-eof" { How::Terminated } else { How::Exited },
                    "{mode}"
                );
            }
            let Err(Error::Closed(end)) = hasty().spawn(odd("exits-on-anything")).await else {
                panic!("opened")
            };
            assert_eq!((end.was_ready, end.ended.unwrap().code()), (false, Some(4)));
            assert_eq!(end.last_words, "cannot read the configuration");
            let mut limits = Limits::default();
            (limits.probe_timeout, limits.init_timeout) =
                (Duration::from_millis(100), Duration::from_millis(300));
            let config = client::Config::new("test", "1").limits(limits);
            let silent = Client::options(config).patience(Patience::each(Duration::from_millis(200)));
            let error = silent.spawn(odd("silent")).await.unwrap_err();
            assert!(error.to_string().contains("did not answer"), "{error}");
        });
    });
}

// covers: TIME-001, TIME-002
#[test]
fn a_server_that_never_reads_is_waited_for_no_longer_than_said() {
    in_time(|| {
        block_on(async {
            let mut limits = Limits::default();
            limits.call_timeout = Duration::from_millis(100);
            let options = Client::options(client::Config::new("test", "1").limits(limits));
            let options = options.patience(Patience::each(Duration::from_millis(200)));
            let client = options.spawn(odd("never-reads")).await.unwrap();
            let large = "x".repeat(10_000_000);
            let error = client.call_tool(&large, &json!({})).await.unwrap_err();
            assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
            let error = client.call_tool(&large, &json!({})).await.unwrap_err();
            assert!(matches!(error, Error::Use(UseError::Full("outbox_mark"))), "{error:?}");
            assert_eq!(client.close().await.unwrap().unwrap().how, How::Terminated);
        });
    });
}

// covers: BASE-041
#[test]
fn full_pipes_both_ways() {
    in_time(|| {
        let large = "0123456789".repeat(1_000_000);
        block_on(async {
            let (client, server) = pair(Era::Modern, tools(mpsc::channel().0)).await;
            let calls = [0; 3]
                .map(|_| client.start_tool("echo", &json!({"text": large}), &CallOptions::new()).unwrap());
            for call in calls {
                let result = call.await.unwrap();
                assert!(text(&result.parse().unwrap()) == large);
            }
            client.close().await.unwrap();
            server.join().unwrap().unwrap();
            let client = Client::spawn(Program::new(example("echo_smol"))).await.unwrap();
            assert!(text(&client.call_tool("echo", &json!({"text": large})).await.unwrap()) == large);
            client.close().await.unwrap();
        });
    });
}

#[test]
fn futures_go_anywhere() {
    fn anywhere<T: Send + Sync>() {}
    fn moves(_: &impl Send) {}
    anywhere::<Client>();
    in_time(|| {
        let (client, server) = block_on(pair(Era::Modern, tools(mpsc::channel().0)));
        let arguments = json!({});
        moves(&client.call_tool("x", &arguments));
        moves(&client.list_tools());
        moves(&client.run());
        moves(&client.poll(Duration::ZERO));
        moves(&Client::spawn(Program::new("x")));
        let close = client.close();
        moves(&close);
        block_on(close).unwrap();
        server.join().unwrap().unwrap();
    });
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
            let client = block_on(Client::options(speaks(era)).connect_url(&url)).unwrap();
            assert_eq!(client.peer().era(), era);
            let all = (0..16).map(|who| Box::pin(echoes(client.clone(), who, 3)) as BoxFuture);
            Tasks::new(all.collect()).run();
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
        let client = block_on(hasty().spawn(after("trap '' TERM;", "ignores-eof"))).unwrap();
        assert_eq!(text(&block_on(client.call_tool("any", &json!({}))).unwrap()), "ok");
        let ended = block_on(client.close()).unwrap().unwrap();
        assert_eq!(ended.how, How::Killed, "{ended}");
        // One that leaves another process of its group behind.
        let client = block_on(hasty().spawn(after("sleep 86399.2 &", "banner"))).unwrap();
        assert_eq!(text(&block_on(client.call_tool("any", &json!({}))).unwrap()), "ok");
        let ended = block_on(client.close()).unwrap().unwrap();
        assert!(ended.stragglers && ended.status.unwrap().success(), "{ended:?}");
        let group = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let line = std::fs::read_to_string(entry.ok()?.path().join("cmdline")).ok()?;
            line.contains("86399.2").then_some(line)
        });
        assert_eq!(group.collect::<Vec<_>>(), Vec::<String>::new());
    });
}

/// A stream that panics once it has been read from, or written to, so often
struct Trap(Async<UnixStream>, u32, u32);

impl futures_lite::io::AsyncRead for Trap {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> core::task::Poll<std::io::Result<usize>> {
        self.1 = self.1.checked_sub(1).expect("on purpose");
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl futures_lite::io::AsyncWrite for Trap {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> core::task::Poll<std::io::Result<usize>> {
        self.2 = self.2.checked_sub(1).expect("on purpose");
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> core::task::Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> core::task::Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}

// covers: ERR-015
#[test]
fn a_stream_that_panics_leaves_nobody_waiting() {
    in_time(|| {
        for (reads, writes) in (0..12).map(|n| (n, u32::MAX)).chain((0..12).map(|n| (u32::MAX, n))) {
            let (far, server) = serving(tools(mpsc::channel().0));
            match block_on(Client::connect(speaks(Era::Modern), Trap(far, reads, writes))) {
                Err(Error::Io(error)) => assert!(error.to_string().contains("on purpose"), "{error}"),
                Err(error) => panic!("{error}"),
                Ok(client) => {
                    let calls = (0..8).map(|_| {
                        let client = client.clone();
                        Box::pin(async move {
                            while client.call_tool("echo", &json!({"text": "x"})).await.is_ok() {}
                        }) as BoxFuture
                    });
                    Tasks::new(calls.collect()).run();
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
fn a_server_that_is_gone_as_soon_as_it_is_there() {
    use std::io::{BufRead as _, BufReader, Write as _};
    in_time(|| {
        for n in 0..100 {
            let (near, far) = UnixStream::pair().unwrap();
            let (go, told) = mpsc::channel();
            let server = thread::spawn(move || {
                let mut line = String::new();
                BufReader::new(&near).read_line(&mut line).unwrap();
                told.recv().unwrap();
                let id = &serde_json::from_str::<serde_json::Value>(&line).unwrap()["id"];
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}});
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
                // Half of another line, now and then.
                let end = if n % 2 == 0 { "\n" } else { "\n{\"jsonrpc\":" };
                (&near).write_all(format!("{answer}{end}").as_bytes()).unwrap();
            });
            if n % 3 > 0 {
                go.send(()).unwrap();
                let connecting = Client::connect(speaks(Era::Legacy), Async::new(far).unwrap());
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
                // All of it is there before it is looked for.
                let mut connecting = pin!(Client::connect(speaks(Era::Legacy), Async::new(far).unwrap()));
                assert!(block_on(poll_once(&mut connecting)).is_none());
                go.send(()).unwrap();
                server.join().unwrap();
                let client = block_on(connecting).unwrap();
                assert!(block_on(client.ping()).unwrap_err().is_closed());
                let _ = block_on(client.close());
            }
        }
    });
}
