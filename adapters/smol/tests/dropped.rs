//! Many tasks share one client, and drop what they await at any moment: every call that is awaited to its end ends, with its
//! own answer, and no call lives on at the server

#![cfg(unix)]

extern crate alloc;

mod support;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, mpsc};
use std::thread;

use async_io::{Async, Timer};
use mcp_proto::model::{CallToolResult, SubscriptionFilter};
use mcp_proto::{CallOptions, Capabilities, Capability, Era, RpcError, server};
use mcp_smol::{Answered, Call, Client, Cx, Program, Stderr, serve};
use serde_json::json;
use support::{DEADLINE, ERAS, in_time, only, speaks, text};

/// A generator good enough for a test (xorshift)
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// A call's share of those that live
struct Live(Arc<AtomicU32>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Echoes at once, soon, or never
async fn answer(cx: &mut Cx<'_>, call: &Call, live: &Arc<AtomicU32>) -> Result<Answered, RpcError> {
    live.fetch_add(1, Ordering::SeqCst);
    let _live = Live(live.clone());
    let tool = call.tool()?;
    match tool.name.split(' ').next() {
        Some("soon") => drop(Timer::after(Duration::from_micros(tool.name.len() as u64 * 50)).await),
        Some("never") => core::future::pending().await,
        _ => {}
    }
    cx.complete(&CallToolResult::text(tool.name))
}

fn config() -> server::Config {
    server::Config::new("test", "1")
        .capabilities(Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged))
}

/// The way to a server
#[derive(Clone, Copy, Debug)]
enum Way {
    /// A stream of the executor's
    Stream,
    /// A process: this program
    Process,
    #[cfg(all(feature = "http", target_os = "linux"))]
    Http,
}

const WAYS: &[Way] = &[
    Way::Stream,
    Way::Process,
    #[cfg(all(feature = "http", target_os = "linux"))]
    Way::Http,
];

/// The server in a process of its own
#[test]
fn helper() {
    if std::env::var_os("MCP_DROPPED").is_some() {
        let live = Arc::default();
        let serving = mcp_smol::serve_stdio(config(), async |cx: &mut Cx<'_>, call: &Call| {
            answer(cx, call, &live).await
        });
        mcp_smol::block_on(serving).unwrap();
    }
}

/// Ends both sides
type End = Box<dyn FnOnce(Client)>;

/// A client, how many calls live at its server, and what is to be done with both at the end
fn pair(way: Way, era: Era) -> (Client, Arc<AtomicU32>, End) {
    let live = Arc::<AtomicU32>::default();
    let theirs = live.clone();
    let handler = async move |cx: &mut Cx<'_>, call: &Call| answer(cx, call, &theirs).await;
    let options = Client::options(speaks(only(era)));
    let close = |client: Client| async_io::block_on(client.close()).unwrap();
    match way {
        Way::Stream => {
            let (near, far) = Async::<UnixStream>::pair().unwrap();
            let server = thread::spawn(move || async_io::block_on(serve(config(), near, handler)));
            let client = async_io::block_on(options.connect(far)).unwrap();
            let end = move |client: Client| {
                close(client);
                server.join().unwrap().unwrap();
            };
            (client, live, Box::new(end))
        }
        Way::Process => {
            let program = Program::new(std::env::current_exe().unwrap());
            let program = program.args(["helper", "--exact", "--nocapture"]).env("MCP_DROPPED", "1");
            let program = program.stderr(Stderr::Capture);
            let client = async_io::block_on(options.spawn(program)).unwrap();
            let end = move |client: Client| {
                let ended = close(client).unwrap();
                assert!(ended.status.unwrap().success(), "{ended:?}");
            };
            (client, live, Box::new(end))
        }
        #[cfg(all(feature = "http", target_os = "linux"))]
        Way::Http => {
            let http = mcp_proto::http::server::Config::new();
            let (told, tells) = mpsc::channel();
            let server = thread::spawn(move || {
                let server = mcp_smol::HttpServer::bind("127.0.0.1:0", config(), http, handler).unwrap();
                told.send((server.address().unwrap(), server.handle())).unwrap();
                async_io::block_on(server.max_connections(500).run())
            });
            let (address, handle) = tells.recv().unwrap();
            let client = async_io::block_on(options.connect_url(&format!("http://{address}/mcp"))).unwrap();
            let end = move |client: Client| {
                close(client);
                handle.shutdown(Duration::ZERO);
                server.join().unwrap().unwrap();
            };
            (client, live, Box::new(end))
        }
    }
}

type Step = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls what was woken, one at a time, and drops what may be dropped whenever the dice say so
struct Chaos {
    dice: Dice,
    client: Client,
    /// What runs, and whether it may be dropped
    tasks: Vec<(Option<Step>, bool, Waker)>,
    shared: Arc<Shared>,
    /// What is still to be begun
    left: u32,
    thread: u32,
}

#[derive(Default)]
struct Shared {
    woken: Mutex<VecDeque<usize>>,
    outer: Mutex<Option<Waker>>,
}

struct Alarm(usize, Arc<Shared>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.1.woken.lock().unwrap().push_back(self.0);
        let outer = self.1.outer.lock().unwrap().clone();
        if let Some(outer) = outer {
            outer.wake();
        }
    }
}

impl Chaos {
    fn new(seed: u64, thread: u32, client: Client, calls: u32) -> Self {
        let shared = Arc::<Shared>::default();
        Self { dice: Dice::new(seed), client, tasks: Vec::new(), shared, left: calls, thread }
    }

    /// Something that is to end if it is awaited
    fn certain(&mut self, n: u32) -> Step {
        let (client, thread, mut dice) = (self.client.clone(), self.thread, self.dice.clone());
        let kind = ["once", "soon"][self.dice.below(2) as usize];
        let name = format!("{kind} {thread} {n}");
        match self.dice.below(6) {
            0 => Box::pin(async move { _ = client.ping().await.unwrap() }),
            1 => Box::pin(async move {
                let mut call = client.start_tool(&name, &json!({}), &CallOptions::new()).unwrap();
                loop {
                    let timeout = Duration::from_micros(dice.below(300));
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

    /// Something that will be dropped: whatever it is doing then
    fn doomed(&mut self, n: u32) -> Step {
        let (client, thread) = (self.client.clone(), self.thread);
        match self.dice.below(4) {
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
            _ => self.certain(n),
        }
    }

    fn begin(&mut self, at: usize) {
        self.left -= 1;
        let certain = self.dice.below(3) > 0;
        let step = if certain { self.certain(self.left) } else { self.doomed(self.left) };
        if at == self.tasks.len() {
            let waker = Waker::from(Arc::new(Alarm(at, self.shared.clone())));
            self.tasks.push((None, false, waker));
        }
        self.tasks[at].0 = Some(step);
        self.tasks[at].1 = !certain;
        self.shared.woken.lock().unwrap().push_back(at);
    }

    /// Drops one of those that may be, if there is any
    fn drop_one(&mut self) {
        let from = self.dice.below(IN_FLIGHT as u64) as usize;
        let places = self.tasks.len();
        let doomed = (0..places)
            .map(|at| (at + from) % places)
            .find(|at| self.tasks[*at].0.is_some() && self.tasks[*at].1);
        if let Some(at) = doomed {
            self.tasks[at].0 = None;
        }
    }
}

impl Future for Chaos {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        *this.shared.outer.lock().unwrap() = Some(cx.waker().clone());
        for _ in 0..16 {
            while this.left > 0 {
                let free = this.tasks.iter().position(|(task, ..)| task.is_none());
                match free {
                    Some(at) => this.begin(at),
                    None if this.tasks.len() < IN_FLIGHT => this.begin(this.tasks.len()),
                    None => break,
                }
            }
            match this.dice.below(12) {
                0 | 1 => this.drop_one(),
                // Something else to do, and nothing of this is polled meanwhile.
                2 => thread::sleep(Duration::from_micros(this.dice.below(200))),
                _ => {}
            }
            let mut woken = this.shared.woken.lock().unwrap();
            let next = match woken.len() {
                0 => None,
                len if this.dice.below(4) == 0 => woken.remove(this.dice.below(len as u64) as usize),
                _ => woken.pop_front(),
            };
            drop(woken);
            let Some(at) = next else {
                if this.left == 0 && !this.tasks.iter().any(|(task, doomed, _)| task.is_some() && !doomed) {
                    this.tasks.clear();
                    return Poll::Ready(());
                }
                if this.left > 0 && this.tasks.iter().any(|(task, doomed, _)| task.is_some() && *doomed) {
                    // What never ends makes room for others.
                    this.drop_one();
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

/// Of each thread
const IN_FLIGHT: usize = 24;

fn seeds() -> core::ops::Range<u64> {
    let seed: Option<u64> = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    seed.map_or(1..9, |seed| seed..seed + 1)
}

// covers: BASE-033, CANC-002
#[test]
fn futures_that_are_dropped_at_any_moment_hold_nobody_up() {
    in_time(|| {
        let ways = || ERAS.into_iter().flat_map(|era| WAYS.iter().map(move |way| (*way, era)));
        for (seed, (way, era)) in seeds().flat_map(|seed| ways().map(move |way| (seed, way))) {
            let (client, live, end) = pair(way, era);
            let (ends, ended) = mpsc::channel();
            let mut threads = Vec::new();
            for thread in 0..3_u32 {
                let (client, ends) = (client.clone(), ends.clone());
                threads.push(thread::spawn(move || {
                    let chaos = Chaos::new(seed * 31 + u64::from(thread), thread, client, 250);
                    // By several ways to run a future, as long as they are there.
                    match thread {
                        0 => async_io::block_on(chaos),
                        _ => mcp_smol::block_on(chaos),
                    }
                    ends.send(()).unwrap();
                }));
            }
            drop(ends);
            for _ in &threads {
                if ended.recv_timeout(DEADLINE / 4).is_err() {
                    panic!("seed {seed}, {way:?}, {era:?}: hangs");
                }
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            // All are told of what was given up, also where that overtakes the call, over HTTP.
            async_io::block_on(async {
                let begun = std::time::Instant::now();
                while live.load(Ordering::SeqCst) > 0 {
                    client.ping().await.unwrap();
                    let left = live.load(Ordering::SeqCst);
                    assert!(
                        begun.elapsed() < DEADLINE / 8,
                        "seed {seed}, {way:?}, {era:?}: {left} calls live on"
                    );
                }
            });
            end(client);
        }
    });
}

/// A thread that has driven and has other things to do now leaves nobody behind
#[test]
fn who_has_driven_may_turn_to_something_else() {
    in_time(|| {
        for (way, era) in ERAS.into_iter().flat_map(|era| WAYS.iter().map(move |way| (*way, era))) {
            let (client, _, end) = pair(way, era);
            mcp_smol::block_on(async {
                for n in 0..20 {
                    let other = client.clone();
                    let name = format!("soon {}", "x".repeat(100 + 10 * n));
                    let (begins, begun) = mpsc::channel();
                    let waits = thread::spawn(move || {
                        let arguments = json!({});
                        let mut call = Box::pin(other.call_tool(&name, &arguments));
                        assert!(mcp_smol::block_on(futures_lite::future::poll_once(&mut call)).is_none());
                        begins.send(()).unwrap();
                        assert_eq!(text(&mcp_smol::block_on(call).unwrap()), name);
                    });
                    begun.recv().unwrap();
                    client.ping().await.unwrap();
                    // Not as one should: it is the thread's that polls.
                    waits.join().unwrap();
                }
            });
            end(client);
        }
    });
}
