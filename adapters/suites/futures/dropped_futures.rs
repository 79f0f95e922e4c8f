//! Suite: many tasks share one client and drop futures at any moment.
//!
//! Each call that is awaited to its end gets its own result, and no dropped call lives on at the server.
//!
//! `crate::adapter` names the adapter under test.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Mutex, mpsc};
use std::thread;

use mcp_proto::model::{CallToolResult, SubscriptionFilter};
use mcp_proto::testing::Rng;
use mcp_proto::{CallOptions, Capabilities, Capability, Era, RpcError, server};
use serde_json::json;

use crate::adapter::package::{Answered, Call, Client, Cx, Program, Stderr, serve};
use crate::adapter::{async_pair, block_on, block_on_reactor, package, sleep};
use crate::support::{DEADLINE, ERAS, client_config, text, version_set, with_timeout};

/// Counts a live call until it is dropped.
struct LiveCallGuard(Arc<AtomicU32>);

impl Drop for LiveCallGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Echoes immediately, soon (`soon …`), or never (`never …`).
async fn answer(cx: &mut Cx, call: &Call, live: &Arc<AtomicU32>) -> Result<Answered, RpcError> {
    live.fetch_add(1, Ordering::SeqCst);
    let _live = LiveCallGuard(live.clone());
    let tool = call.tool_call()?;
    match tool.name.split(' ').next() {
        Some("soon") => sleep(Duration::from_micros(tool.name.len() as u64 * 50)).await,
        Some("never") => core::future::pending().await,
        _ => {}
    }
    cx.complete(&CallToolResult::text(tool.name))
}

fn config() -> server::Config {
    server::Config::new("test", "1")
        .capabilities(Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged))
}

/// Transport between client and server.
#[derive(Clone, Copy, Debug)]
enum TransportKind {
    /// A Unix stream.
    Stream,
    /// Stdin and stdout of a process, which runs this program.
    Process,
    #[cfg(all(feature = "http", target_os = "linux"))]
    Http,
}

const TRANSPORTS: &[TransportKind] = &[
    TransportKind::Stream,
    TransportKind::Process,
    #[cfg(all(feature = "http", target_os = "linux"))]
    TransportKind::Http,
];

/// The server that runs in a process of its own.
#[test]
fn helper() {
    if std::env::var_os("MCP_DROPPED").is_some() {
        let live = Arc::default();
        let serving =
            package::serve_stdio(config(), async |cx: &mut Cx, call: &Call| answer(cx, call, &live).await);
        block_on(serving).unwrap();
    }
}

/// Closes the client and ends its server.
type CloseBoth = Box<dyn FnOnce(Client)>;

/// Connects a client. Returns it with the number of live calls at its server, and what closes both.
fn pair(transport: TransportKind, era: Era) -> (Client, Arc<AtomicU32>, CloseBoth) {
    let live = Arc::<AtomicU32>::default();
    let counter = live.clone();
    let handler = async move |cx: &mut Cx, call: &Call| answer(cx, call, &counter).await;
    let options = Client::options(client_config(version_set(era)));
    let close = |client: Client| block_on_reactor(client.close()).unwrap();
    match transport {
        TransportKind::Stream => {
            let (near, far) = async_pair();
            let server = thread::spawn(move || block_on_reactor(serve(config(), near, handler)));
            let client = block_on_reactor(options.connect(far)).unwrap();
            let close_both = move |client: Client| {
                close(client);
                server.join().unwrap().unwrap();
            };
            (client, live, Box::new(close_both))
        }
        TransportKind::Process => {
            let program = Program::new(std::env::current_exe().unwrap());
            let program = program
                // On one core the name of the test would stand in front of the first message.
                .args(["futures::dropped_futures::helper", "--exact", "--nocapture", "--test-threads=2"])
                .env("MCP_DROPPED", "1");
            let program = program.stderr(Stderr::Capture);
            let client = block_on_reactor(options.spawn(program)).unwrap();
            let close_both = move |client: Client| {
                let ended = close(client).unwrap();
                assert!(ended.status.unwrap().success(), "{ended:?}");
            };
            (client, live, Box::new(close_both))
        }
        #[cfg(all(feature = "http", target_os = "linux"))]
        TransportKind::Http => {
            let http = mcp_proto::http::server::Config::new();
            let (sender, receiver) = mpsc::channel();
            let server = thread::spawn(move || {
                let server = package::HttpServer::bind("127.0.0.1:0", config(), http, handler).unwrap();
                sender.send((server.address().unwrap(), server.handle())).unwrap();
                block_on_reactor(server.max_connections(500).run())
            });
            let (address, handle) = receiver.recv().unwrap();
            let client = block_on_reactor(options.connect_url(&format!("http://{address}/mcp"))).unwrap();
            let close_both = move |client: Client| {
                close(client);
                handle.shutdown(Duration::ZERO);
                server.join().unwrap().unwrap();
            };
            (client, live, Box::new(close_both))
        }
    }
}

type CallFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls woken tasks one at a time, and drops tasks that may be dropped at random.
struct RandomDropper {
    rng: Rng,
    client: Client,
    /// For each task: its future while it runs, whether it may be dropped, and its waker.
    tasks: Vec<(Option<CallFuture>, bool, Waker)>,
    wake_queue: Arc<WakeQueue>,
    /// Number of tasks still to be started.
    remaining: u32,
    thread: u32,
}

#[derive(Default)]
struct WakeQueue {
    woken: Mutex<VecDeque<usize>>,
    outer: Mutex<Option<Waker>>,
}

struct QueueWaker(usize, Arc<WakeQueue>);

impl Wake for QueueWaker {
    fn wake(self: Arc<Self>) {
        self.1.woken.lock().unwrap().push_back(self.0);
        let outer = self.1.outer.lock().unwrap().clone();
        if let Some(outer) = outer {
            outer.wake();
        }
    }
}

impl RandomDropper {
    fn new(seed: u64, thread: u32, client: Client, calls: u32) -> Self {
        let shared = Arc::<WakeQueue>::default();
        Self { rng: Rng::new(seed), client, tasks: Vec::new(), wake_queue: shared, remaining: calls, thread }
    }

    /// Returns a future that must complete.
    fn completing_call(&mut self, n: u32) -> CallFuture {
        let (client, thread, mut rng) = (self.client.clone(), self.thread, self.rng.clone());
        let kind = ["once", "soon"][self.rng.below(2)];
        let name = format!("{kind} {thread} {n}");
        match self.rng.below(6) {
            0 => Box::pin(async move { _ = client.ping().await.unwrap() }),
            1 => Box::pin(async move {
                let mut call = client.start_tool(&name, &json!({}), &CallOptions::new()).unwrap();
                loop {
                    let timeout = Duration::from_micros(rng.next() % 300);
                    if let Some(answer) = client.wait_timeout(&mut call, timeout).await.unwrap() {
                        assert_eq!(text(&answer.parse().unwrap()), name);
                        return;
                    }
                }
            }),
            2 => Box::pin(async move { _ = client.poll(Duration::from_millis(1)).await.unwrap() }),
            _ => Box::pin(async move {
                assert_eq!(text(&client.call_tool(&name, &json!({})).await.unwrap()), name);
            }),
        }
    }

    /// Returns a future that may be dropped at any moment.
    fn abandoned_call(&mut self, n: u32) -> CallFuture {
        let (client, thread) = (self.client.clone(), self.thread);
        match self.rng.below(4) {
            0 => Box::pin(async move {
                let filter = SubscriptionFilter::new().tools_list_changed(true);
                if let Ok((key, _)) = client.subscribe(&filter).await {
                    let _ = client.unsubscribe(key).await;
                }
            }),
            1 => Box::pin(async move { drop(client.run().await) }),
            2 => Box::pin(async move {
                let _ = client.call_tool(&format!("never {thread} {n}"), &json!({})).await;
            }),
            _ => self.completing_call(n),
        }
    }

    fn start_task(&mut self, at: usize) {
        self.remaining -= 1;
        let must_complete = self.rng.below(3) > 0;
        let future = if must_complete {
            self.completing_call(self.remaining)
        } else {
            self.abandoned_call(self.remaining)
        };
        if at == self.tasks.len() {
            let waker = Waker::from(Arc::new(QueueWaker(at, self.wake_queue.clone())));
            self.tasks.push((None, false, waker));
        }
        self.tasks[at].0 = Some(future);
        self.tasks[at].1 = !must_complete;
        self.wake_queue.woken.lock().unwrap().push_back(at);
    }

    /// Drops one of the tasks that may be dropped, if there is any.
    fn drop_some_task(&mut self) {
        let from = self.rng.below(IN_FLIGHT);
        let slots = self.tasks.len();
        let droppable = (0..slots)
            .map(|at| (at + from) % slots)
            .find(|at| self.tasks[*at].0.is_some() && self.tasks[*at].1);
        if let Some(at) = droppable {
            self.tasks[at].0 = None;
        }
    }
}

impl Future for RandomDropper {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        *this.wake_queue.outer.lock().unwrap() = Some(cx.waker().clone());
        for _ in 0..16 {
            while this.remaining > 0 {
                let free = this.tasks.iter().position(|(task, ..)| task.is_none());
                match free {
                    Some(at) => this.start_task(at),
                    None if this.tasks.len() < IN_FLIGHT => this.start_task(this.tasks.len()),
                    None => break,
                }
            }
            match this.rng.below(12) {
                0 | 1 => this.drop_some_task(),
                // A busy thread, during which none of its tasks is polled.
                2 => thread::sleep(Duration::from_micros(this.rng.next() % 200)),
                _ => {}
            }
            let mut woken = this.wake_queue.woken.lock().unwrap();
            let next = match woken.len() {
                0 => None,
                len if this.rng.below(4) == 0 => woken.remove(this.rng.below(len)),
                _ => woken.pop_front(),
            };
            drop(woken);
            let Some(at) = next else {
                if this.remaining == 0
                    && !this.tasks.iter().any(|(task, droppable, _)| task.is_some() && !droppable)
                {
                    this.tasks.clear();
                    return Poll::Ready(());
                }
                if this.remaining > 0
                    && this.tasks.iter().any(|(task, droppable, _)| task.is_some() && *droppable)
                {
                    // Makes room, as some of these futures never end.
                    this.drop_some_task();
                    continue;
                }
                return Poll::Pending;
            };
            let (task, _, waker) = &mut this.tasks[at];
            if let Some(running) = task {
                if running.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
                    *task = None;
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Tasks of each thread.
const IN_FLIGHT: usize = 24;

fn seeds() -> core::ops::Range<u64> {
    let seed: Option<u64> = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    seed.map_or(1..9, |seed| seed..seed + 1)
}

// covers: BASE-033, CANC-002
#[test]
fn dropped_futures_do_not_block_other_calls() {
    with_timeout(|| {
        let cases =
            || ERAS.into_iter().flat_map(|era| TRANSPORTS.iter().map(move |transport| (*transport, era)));
        for (seed, (transport, era)) in seeds().flat_map(|seed| cases().map(move |case| (seed, case))) {
            let (client, live, close_both) = pair(transport, era);
            let (ends, ended) = mpsc::channel();
            let mut threads = Vec::new();
            for thread in 0..3_u32 {
                let (client, ends) = (client.clone(), ends.clone());
                threads.push(thread::spawn(move || {
                    let dropper = RandomDropper::new(seed * 31 + u64::from(thread), thread, client, 250);
                    // Different executors run the threads.
                    match thread {
                        0 => block_on_reactor(dropper),
                        _ => block_on(dropper),
                    }
                    ends.send(()).unwrap();
                }));
            }
            drop(ends);
            for _ in &threads {
                if ended.recv_timeout(DEADLINE / 4).is_err() {
                    panic!("seed {seed}, {transport:?}, {era:?}: a thread does not end in time");
                }
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            // The server learns of each dropped call, even if the cancellation overtakes its request over HTTP.
            block_on_reactor(async {
                let begun = std::time::Instant::now();
                while live.load(Ordering::SeqCst) > 0 {
                    client.ping().await.unwrap();
                    let left = live.load(Ordering::SeqCst);
                    assert!(
                        begun.elapsed() < DEADLINE / 8,
                        "seed {seed}, {transport:?}, {era:?}: {left} calls are still live"
                    );
                }
            });
            close_both(client);
        }
    });
}

/// A thread that was the leader may block: the others continue.
#[test]
fn former_leader_may_block_its_thread() {
    with_timeout(|| {
        for (transport, era) in
            ERAS.into_iter().flat_map(|era| TRANSPORTS.iter().map(move |transport| (*transport, era)))
        {
            let (client, _, close_both) = pair(transport, era);
            block_on(async {
                for n in 0..20 {
                    let other = client.clone();
                    let name = format!("soon {}", "x".repeat(100 + 10 * n));
                    let (begins, begun) = mpsc::channel();
                    let waits = thread::spawn(move || {
                        let arguments = json!({});
                        let mut call = Box::pin(other.call_tool(&name, &arguments));
                        let first = block_on(futures_lite::future::poll_once(&mut call));
                        begins.send(()).unwrap();
                        // A busy machine may let the answer arrive within the first poll.
                        let outcome = first.unwrap_or_else(|| block_on(call));
                        assert_eq!(text(&outcome.unwrap()), name);
                    });
                    begun.recv().unwrap();
                    client.ping().await.unwrap();
                    // Blocks the executor of this task, which was the leader.
                    waits.join().unwrap();
                }
            });
            close_both(client);
        }
    });
}
