//! Servers over HTTP with handlers on workers, on one thread and on several
#![cfg(unix)]

extern crate alloc;

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::sync::{Barrier, mpsc};
use std::thread;

use mcp_proto::http::server::Config as Http;
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Config;
use mcp_proto::{Capabilities, Capability, Change, Limits};
use mcp_threads::{Call, Cx, Error, Handle, Handler, HttpServer};

#[path = "shared/shards.rs"]
mod shared;

use shared::{DEADLINE, Peer, Serving};

fn config() -> Config {
    let capabilities = Capabilities::new()
        .with(Capability::Tools)
        .with(Capability::ToolsListChanged)
        .with(Capability::Resources)
        .with(Capability::ResourceSubscriptions);
    let mut limits = Limits::default();
    limits.max_waiting = 4;
    Config::new("test", "1").capabilities(capabilities).limits(limits)
}

fn serve<H: Handler>(handler: H, more: impl FnOnce(HttpServer<H>) -> HttpServer<H>) -> Serving {
    let mut server = more(HttpServer::bind("127.0.0.1:0", config(), Http::new(), handler).unwrap());
    let (address, handle) = (server.address().unwrap(), server.handle().unwrap());
    Serving::new(address, handle, thread::spawn(move || server.run()))
}

#[test]
fn a_handler_that_never_returns_holds_up_neither_calls_nor_connections_nor_the_end() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let (begun, begins) = mpsc::channel();
    let server = serve(
        move |cx: &mut Cx<'_>, call: &Call| {
            let name = call.tool()?.name;
            if name == "never" {
                begun.send(()).unwrap();
                let _ = gate.lock().unwrap().recv();
            }
            cx.complete(&CallToolResult::text(name))
        },
        |server| server.workers(2),
    );
    let mut stuck = server.connect();
    stuck.begin("never");
    begins.recv_timeout(DEADLINE).unwrap();
    let mut other = server.connect();
    for _ in 0..50 {
        assert_eq!(other.call("echo"), "echo");
    }
    assert_eq!(server.connect().call("echo"), "echo");
    server.ends(Duration::from_millis(50));
    assert!(stuck.answer().1.contains("shutting down"));
    drop(open);
}

#[test]
fn calls_of_many_connections_run_side_by_side() {
    for shards in [1, 2] {
        let meet = Barrier::new(4);
        let server = serve(
            move |cx: &mut Cx<'_>, _: &Call| {
                meet.wait();
                cx.complete(&CallToolResult::text("met"))
            },
            |server| server.workers(4).shards(shards),
        );
        let mut peers: Vec<_> = (0..4).map(|_| server.connect()).collect();
        peers.iter_mut().for_each(|peer| peer.begin("meet"));
        for peer in &mut peers {
            assert!(peer.answer().1.contains("met"));
        }
        server.ends(DEADLINE);
    }
}

mod adapter {
    use alloc::sync::Arc;
    use core::sync::atomic::{AtomicBool, Ordering};
    use core::time::Duration;
    use std::sync::mpsc::{Receiver, Sender};

    use mcp_proto::model::CallToolResult;
    use mcp_threads::{Call, Cx};

    use super::shared::cores;
    use super::{Serving, counting, held, serve};

    /// Two shards, one of which is kept by whoever calls `waits`
    pub(crate) fn behind(begun: Sender<()>, gate: Receiver<()>) -> Serving {
        serve(held(begun, gate), |server| server.workers(0).shards(2))
    }

    /// Two calls at a time, which end when it is `open`, and four that wait
    pub(crate) fn gated(begun: Sender<()>, open: Arc<AtomicBool>) -> Serving {
        let wait = move |cx: &mut Cx<'_>, call: &Call| {
            begun.send(()).unwrap();
            while !open.load(Ordering::SeqCst) {
                cx.sleep(Duration::from_millis(5))?;
            }
            cx.complete(&CallToolResult::text(call.tool()?.name))
        };
        serve(wait, |server| server.workers(2))
    }

    /// With handlers on the threads of shards, and on workers
    pub(crate) fn servers(shards: u8, connections: usize) -> Vec<Serving> {
        let server = |workers| {
            serve(counting(), |server| server.workers(workers).shards(shards).max_connections(connections))
        };
        vec![server(0), server(2)]
    }

    /// Two shards that stay on cores, which tell them; whether handlers run there
    pub(crate) fn pinned() -> Vec<(Serving, bool)> {
        let server = |workers| {
            let tell = |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text(cores()));
            serve(tell, |server| server.workers(workers).shards(2).pin_shards())
        };
        vec![(server(0), true), (server(2), false)]
    }
}

/// Keeps its thread when it is called so, until the gate is opened
fn held(begun: mpsc::Sender<()>, gate: mpsc::Receiver<()>) -> impl Handler {
    let gate = std::sync::Mutex::new(gate);
    move |cx: &mut Cx<'_>, call: &Call| {
        let name = call.tool()?.name;
        if name == "waits" {
            begun.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
        }
        cx.complete(&CallToolResult::text(name))
    }
}

/// Answers with how many answered before
fn counting() -> impl Handler {
    let count = AtomicUsize::new(0);
    move |cx: &mut Cx<'_>, _: &Call| {
        cx.complete(&CallToolResult::text(count.fetch_add(1, Ordering::Relaxed).to_string()))
    }
}

#[test]
fn told_to_stop_every_shard_answers_what_it_has() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let (begun, begins) = mpsc::channel();
    let server = serve(
        move |cx: &mut Cx<'_>, _: &Call| {
            begun.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
            cx.complete(&CallToolResult::text("answered"))
        },
        |server| server.workers(4).shards(2),
    );
    let mut peers: Vec<_> = (0..4).map(|_| server.connect()).collect();
    peers.iter_mut().for_each(|peer| peer.begin("slow"));
    (0..4).for_each(|_| begins.recv_timeout(DEADLINE).unwrap());
    server.handle.shutdown(DEADLINE);
    drop(open);
    for peer in &mut peers {
        assert!(peer.answer().1.contains("answered"));
    }
    server.ends(DEADLINE);
}

/// A command that gives the next one
fn again(handle: &Handle) {
    let next = handle.clone();
    let _ = handle.with_engine(move |_, _| again(&next));
}

#[test]
fn commands_that_panic_or_never_end_stop_nothing_else() {
    for workers in [0, 2] {
        let server = serve(counting(), |server| server.workers(workers));
        server.handle.with_engine(|_, _| panic!("on purpose")).unwrap();
        again(&server.handle);
        let mut peer = server.connect();
        (0..10).for_each(|n| assert_eq!(peer.call("n"), n.to_string()));
        server.ends(DEADLINE);
    }
}

#[test]
fn handlers_that_sleep_on_the_threads_of_shards_are_told_to_stop() {
    let (begun, begins) = mpsc::channel();
    let server = serve(
        move |cx: &mut Cx<'_>, _: &Call| {
            begun.send(()).unwrap();
            cx.sleep(DEADLINE * 2)?;
            cx.complete(&CallToolResult::text("late"))
        },
        |server| server.workers(0).shards(2),
    );
    let mut peers: Vec<_> = (0..2).map(|_| server.connect()).collect();
    peers.iter_mut().for_each(|peer| peer.begin("sleeps"));
    (0..2).for_each(|_| begins.recv_timeout(DEADLINE).unwrap());
    server.ends(Duration::from_millis(50));
    peers.iter_mut().for_each(|peer| assert!(peer.answer().1.contains("shutting down")));
}

/// However much waits for a shard that is at something, it hears that it is to stop
#[test]
fn a_shard_that_is_behind_stops_with_the_others() {
    let (open, gate) = mpsc::channel();
    let (begun, begins) = mpsc::channel();
    let server = adapter::behind(begun, gate);
    // Shared out in turn: the second one is served by the shard that is not the first.
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(first.call("echo"), "echo");
    second.begin("waits");
    begins.recv_timeout(DEADLINE).unwrap();
    for _ in 0..200 {
        (0..10).for_each(|_| server.handle.publish(&Change::Tools).unwrap());
        assert_eq!(first.call("echo"), "echo");
    }
    server.handle.shutdown(Duration::from_millis(50));
    assert!(matches!(first.0.read(&mut [0; 1]), Ok(0) | Err(_)), "the first shard has ended");
    drop(open);
    server.ends(Duration::from_millis(50));
}

/// Shards end with the server that they are of, whether it was run or not
#[test]
fn a_server_that_is_dropped_leaves_no_shard_behind() {
    let (begun, begins) = mpsc::channel();
    let (ended, ends) = mpsc::channel();
    let sleeps = move |cx: &mut Cx<'_>, _: &Call| {
        begun.send(()).unwrap();
        let slept = cx.sleep(DEADLINE * 2);
        ended.send(cx.is_cancelled()).unwrap();
        slept?;
        cx.complete(&CallToolResult::text("late"))
    };
    let mut server = HttpServer::bind("127.0.0.1:0", config(), Http::new(), sleeps).unwrap().shards(2);
    let (address, handle) = (server.address().unwrap(), server.handle().unwrap());
    let mut peers = [Peer::connect(address), Peer::connect(address)];
    peers.iter_mut().for_each(|peer| peer.begin("sleeps"));
    for _ in 0..2 {
        while begins.try_recv().is_err() {
            assert!(server.poll(Duration::from_millis(1)).unwrap());
        }
    }
    drop(server);
    (0..2).for_each(|_| assert_eq!(ends.recv_timeout(DEADLINE), Ok(true)));
    for peer in &mut peers {
        let kept = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
        assert!(!peer.0.read_to_end(&mut Vec::new()).is_err_and(kept), "it is let go");
    }
    assert!(handle.is_over());
}

#[test]
fn an_address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = HttpServer::bind(address, config(), Http::new(), counting()).err().unwrap();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(matches!(error, Error::Io(error) if error.kind() == ErrorKind::AddrInUse));
}
