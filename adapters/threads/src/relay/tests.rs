//! Handlers that run on the thread of the loop, and those for which another thread takes it over.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Condvar, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use mcp_blocking::Client;
use mcp_proto::model::{CallToolResult, Content};
use mcp_proto::{CallOptions, Capabilities, Capability, Limits, RawJson, client, http, server};
use serde_json::json;

use super::{LoopCalls, Pace};
use crate::{Answered, Call, Cx, Error, Handler, HttpServer, RpcError, Server};

/// Time after which a test fails.
const DEADLINE: Duration = Duration::from_secs(60);
/// Every handler is fast, and every call is one of many.
const EAGER: Pace = Pace { fast: DEADLINE, fast_score: 1, busy_calls: 1 };
const LOOP_THREAD: &str = "mcp-loop";

/// Tools that return the name of their thread.
#[derive(Clone, Default)]
struct Probe(Arc<Gate>);

#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
    running: AtomicUsize,
    most_running: AtomicUsize,
    /// Threads of the handlers that wait at the gate.
    waiting: Mutex<Vec<String>>,
}

impl Probe {
    fn set_open(&self, open: bool) {
        *self.0.open.lock().unwrap() = open;
        self.0.opened.notify_all();
    }

    /// Waits until a handler waits at the gate, and returns the name of its thread.
    fn waiting_thread(&self) -> String {
        for _ in 0..DEADLINE.as_millis() {
            if let Some(name) = self.0.waiting.lock().unwrap().pop() {
                return name;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("no handler waits");
    }
}

impl Handler for Probe {
    fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        let gate = &self.0;
        gate.most_running.fetch_max(gate.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let name = thread::current().name().unwrap_or_default().to_string();
        match &*call.tool_call()?.name {
            "waits" => {
                gate.waiting.lock().unwrap().push(name.clone());
                let open = gate.opened.wait_timeout_while(gate.open.lock().unwrap(), DEADLINE, |open| !*open);
                drop(open.unwrap());
            }
            "panics" => {
                gate.running.fetch_sub(1, Ordering::SeqCst);
                panic!("on purpose, on {name}")
            }
            _ => {}
        }
        gate.running.fetch_sub(1, Ordering::SeqCst);
        cx.complete(&CallToolResult::text(name))
    }
}

fn config() -> server::Config {
    let mut limits = Limits::default();
    limits.eof_grace_period = Duration::from_millis(200);
    server::Config::new("test", "1").capabilities(Capabilities::new().with(Capability::Tools)).limits(limits)
}

type Served = JoinHandle<Result<(), Error>>;

fn stream_pair(workers: usize, probe: &Probe) -> (Client, Served) {
    let (client, served, _) = stream_pair_at(EAGER, workers, probe);
    (client, served)
}

fn stream_pair_at(pace: Pace, workers: usize, probe: &Probe) -> (Client, Served, Arc<LoopCalls>) {
    let (near, far) = mcp_std::io::memory_pair(4096);
    let mut server = Server::new(config(), near, probe.clone()).workers(workers);
    server.start_workers_at(pace).unwrap();
    let calls = server.loop_calls().clone();
    let served = thread::spawn(move || server.run());
    (Client::connect(client::Config::new("me", "1"), far).unwrap(), served, calls)
}

fn http_pair(workers: usize, probe: &Probe) -> (Client, Served, crate::Handle) {
    let mut server =
        HttpServer::bind("127.0.0.1:0", config(), http::server::Config::new(), probe.clone()).unwrap();
    server = server.workers(workers);
    server.start_shards_at(EAGER).unwrap();
    let (url, handle) = (format!("http://{}/mcp", server.address().unwrap()), server.handle().unwrap());
    let served = thread::spawn(move || server.run());
    (Client::connect_url(&url).unwrap(), served, handle)
}

fn text(result: &RawJson) -> String {
    match result.parse::<CallToolResult<'_>>().unwrap().content.iter().next() {
        Some(Content::Text(text)) => text.text.to_string(),
        other => panic!("{other:?}"),
    }
}

fn thread_of(client: &Client, tool: &str) -> String {
    let call = client.start_tool(tool, &json!({}), &CallOptions::default()).unwrap();
    text(&client.wait(call).unwrap())
}

/// Calls until a handler has run on the loop's thread.
fn warm_up(client: &Client) {
    for _ in 0..100_000 {
        if thread_of(client, "returns") == LOOP_THREAD {
            return;
        }
    }
    panic!("all handlers run on workers");
}

/// Starts a call of a handler that waits on the loop's thread. The gate is closed then.
fn wait_on_loop(client: &Client, probe: &Probe) -> mcp_proto::CallKey {
    for _ in 0..1_000 {
        warm_up(client);
        probe.set_open(false);
        let call = client.start_tool("waits", &json!({}), &CallOptions::default()).unwrap();
        // Sends the call. The answer is that of the thread that has taken over.
        let _ = client.ping();
        if probe.waiting_thread() == LOOP_THREAD {
            return call;
        }
        probe.set_open(true);
        client.wait(call).unwrap();
    }
    panic!("all handlers that wait run on workers");
}

/// Joins a thread. Panics if it does not end in time.
fn join_in_time<T: Send + 'static>(thread: JoinHandle<T>) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || drop(sender.send(thread.join())));
    receiver.recv_timeout(DEADLINE).expect("no end before the deadline").unwrap()
}

/// Handlers answer while others wait, each time on the loop's thread.
fn check_relief(client: &Client, probe: &Probe) {
    for _ in 0..5 {
        let first = wait_on_loop(client, probe);
        // The other thread of the loop answers. Handlers run on workers, because the thread that would watch still waits.
        for _ in 0..20 {
            assert_ne!(thread_of(client, "returns"), LOOP_THREAD);
        }
        let second = client.start_tool("waits", &json!({}), &CallOptions::default()).unwrap();
        client.ping().unwrap();
        assert_ne!(probe.waiting_thread(), LOOP_THREAD);
        probe.set_open(true);
        assert_eq!(text(&client.wait(first).unwrap()), LOOP_THREAD);
        client.wait(second).unwrap();
    }
}

#[test]
fn waiting_handler_on_the_loops_thread_delays_no_other() {
    let probe = Probe::default();
    let (client, served) = stream_pair(4, &probe);
    check_relief(&client, &probe);
    client.close().unwrap();
    join_in_time(served).unwrap();
}

#[test]
fn waiting_handler_delays_no_other_connection_over_http() {
    let probe = Probe::default();
    let (client, served, handle) = http_pair(4, &probe);
    check_relief(&client, &probe);
    client.close().unwrap();
    handle.shutdown(Duration::ZERO);
    join_in_time(served).unwrap();
}

#[test]
fn server_ends_while_a_handler_on_the_loops_thread_waits() {
    let probe = Probe::default();
    let (client, served) = stream_pair(4, &probe);
    wait_on_loop(&client, &probe);
    client.close().unwrap();
    join_in_time(served).unwrap();
    let (client, served, handle) = http_pair(4, &probe);
    wait_on_loop(&client, &probe);
    handle.shutdown(Duration::from_millis(100));
    join_in_time(served).unwrap();
    drop(client);
    probe.set_open(true);
}

#[test]
fn loop_runs_no_more_handlers_than_there_are_workers() {
    let probe = Probe::default();
    let (client, served) = stream_pair(1, &probe);
    let first = wait_on_loop(&client, &probe);
    let second = client.start_tool("returns", &json!({}), &CallOptions::default()).unwrap();
    // The loop goes on, and the second call waits.
    for _ in 0..20 {
        client.ping().unwrap();
    }
    assert_eq!(probe.0.running.load(Ordering::SeqCst), 1);
    probe.set_open(true);
    client.wait(first).unwrap();
    client.wait(second).unwrap();
    assert_eq!(probe.0.most_running.load(Ordering::SeqCst), 1);
    client.close().unwrap();
    join_in_time(served).unwrap();
}

#[test]
fn panic_on_the_loops_thread_fails_its_call_alone() {
    let probe = Probe::default();
    let (client, served) = stream_pair(4, &probe);
    for _ in 0..20 {
        warm_up(&client);
        let error = client.call_tool("panics", &json!({})).unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error}");
    }
    warm_up(&client);
    client.close().unwrap();
    join_in_time(served).unwrap();
}

#[test]
fn slow_handlers_run_on_workers() {
    let (client, served, _) = stream_pair_at(Pace { fast: Duration::ZERO, ..EAGER }, 4, &Probe::default());
    for _ in 0..200 {
        assert_eq!(thread_of(&client, "returns"), "mcp-worker");
    }
    client.close().unwrap();
    join_in_time(served).unwrap();
}

#[test]
fn few_calls_run_on_workers() {
    let (client, served, calls) = stream_pair_at(Pace { busy_calls: 4, ..EAGER }, 4, &Probe::default());
    for round in 0..3 {
        for _ in 0..5 {
            assert_eq!(thread_of(&client, "returns"), "mcp-worker", "round {round}");
            thread::sleep(super::RATE_WINDOW * 2);
        }
        // After many calls, which the loop's thread runs, the watcher sleeps again.
        warm_up(&client);
        let mut waits = 0..DEADLINE.as_millis();
        while calls.is_watched.load(Ordering::SeqCst) {
            waits.next().expect("the watcher never sleeps");
            thread::sleep(Duration::from_millis(1));
        }
    }
    client.close().unwrap();
    join_in_time(served).unwrap();
}

#[test]
fn panic_of_the_loop_reaches_the_caller_of_run() {
    struct Broken {
        turns: u32,
        _stream: Arc<()>,
    }
    impl super::EventLoop for Broken {
        fn turn(&mut self) -> Result<bool, Error> {
            self.turns += 1;
            assert!(self.turns < 3, "the loop is broken");
            Ok(true)
        }
        fn expect_outcomes(&mut self) {}
    }
    let calls = Arc::new(LoopCalls::new(EAGER, |_| {}));
    calls.score.store(1, Ordering::Relaxed);
    calls.state.lock().unwrap().wants_threads = true;
    let stream = Arc::new(());
    let event_loop = Broken { turns: 0, _stream: stream.clone() };
    let panic = thread::spawn(move || super::run(event_loop, &calls)).join().unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the loop is broken"));
    assert_eq!(Arc::strong_count(&stream), 1, "it is dropped before");
}

#[test]
fn leader_that_is_relieved_before_its_handler_begins_leads_no_more() {
    let calls = LoopCalls::new(EAGER, |_| {});
    calls.is_watched.store(true, Ordering::SeqCst);
    let run = calls.begin_run();
    // The thread is interrupted here for two ticks.
    assert!(calls.relieve(run));
    assert!(!calls.is_watched.load(Ordering::SeqCst));
    // The call runs here, as the new leader has already looked for calls that are kept.
    assert!(calls.may_run(run));
    let run_of_other = calls.begin_run();
    assert!(!calls.end_run(run));
    assert!(!calls.may_run(run_of_other), "nobody watches");
    assert_eq!(calls.runs.load(Ordering::SeqCst) % 2, 0);
}

#[test]
fn calls_are_answered_if_only_one_thread_could_be_started() {
    let (near, far) = mcp_std::io::memory_pair(4096);
    let mut server = Server::new(config(), near, Probe::default());
    server.start_workers_at(EAGER).unwrap();
    // What `Relay::start` leaves then.
    server.loop_calls().end(Ok(Ok(())));
    assert!(!server.loop_calls().watch());
    let served = thread::spawn(move || while server.poll(DEADLINE).unwrap() {});
    let client = Client::connect(client::Config::new("me", "1"), far).unwrap();
    for _ in 0..100 {
        let call = client.start_tool("returns", &json!({}), &CallOptions::default()).unwrap();
        let answer = client.wait_timeout(call, DEADLINE / 6).unwrap().expect("an answer");
        assert_eq!(text(&answer), "mcp-worker");
    }
    client.close().unwrap();
    join_in_time(served);
}

#[test]
fn handlers_are_fast_only_if_slow_ones_among_them_are_rare() {
    let is_fast_with = |slow: Duration, period: u32| {
        let calls = LoopCalls::new(Pace::DEFAULT, |_| {});
        for _ in 0..super::HIGHEST_SCORE {
            calls.note(Duration::from_micros(2));
        }
        for n in 1..=100 * period {
            calls.note(if n % period == 0 { slow } else { Duration::from_micros(2) });
        }
        calls.are_handlers_fast()
    };
    // An interrupted one now and then.
    assert!(is_fast_with(Duration::from_millis(4), 200));
    // Too short for the watcher, and too long for those that wait.
    assert!(!is_fast_with(Duration::from_micros(1_500), 100));
    assert!(!is_fast_with(Duration::from_micros(300), 20));
    assert!(!is_fast_with(Duration::from_micros(40), 5));
}
