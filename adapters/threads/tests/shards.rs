//! HTTP servers of `mcp-threads` with handlers on workers, with one shard and with several.
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

use crate::shards_suite::{DEADLINE, RawHttpClient, ShardedServer};

fn config() -> Config {
    let capabilities = Capabilities::new()
        .with(Capability::Tools)
        .with(Capability::ToolsListChanged)
        .with(Capability::Resources)
        .with(Capability::ResourceSubscriptions);
    let mut limits = Limits::default();
    limits.max_waiting_requests = 4;
    Config::new("test", "1").capabilities(capabilities).limits(limits)
}

fn serve<H: Handler>(handler: H, configure: impl FnOnce(HttpServer<H>) -> HttpServer<H>) -> ShardedServer {
    let mut server = configure(HttpServer::bind("127.0.0.1:0", config(), Http::new(), handler).unwrap());
    let (address, handle) = (server.address().unwrap(), server.handle().unwrap());
    ShardedServer::new(address, handle, thread::spawn(move || server.run()))
}

#[test]
fn hanging_handler_delays_neither_calls_nor_shutdown() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let (begun, begins) = mpsc::channel();
    let server = serve(
        move |cx: &mut Cx<'_>, call: &Call| {
            let name = call.tool_call()?.name;
            if name == "never" {
                begun.send(()).unwrap();
                let _ = gate.lock().unwrap().recv();
            }
            cx.complete(&CallToolResult::text(name))
        },
        |server| server.workers(2),
    );
    let mut stuck = server.connect();
    stuck.send_call("never");
    begins.recv_timeout(DEADLINE).unwrap();
    let mut other = server.connect();
    for _ in 0..50 {
        assert_eq!(other.call("echo"), "echo");
    }
    assert_eq!(server.connect().call("echo"), "echo");
    server.shut_down(Duration::from_millis(50));
    assert!(stuck.read_response().1.contains("shutting down"));
    drop(open);
}

#[test]
fn calls_of_connections_run_in_parallel() {
    for shards in [1, 2] {
        let meet = Barrier::new(4);
        let server = serve(
            move |cx: &mut Cx<'_>, _: &Call| {
                meet.wait();
                cx.complete(&CallToolResult::text("met"))
            },
            |server| server.workers(4).shards(shards),
        );
        let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
        clients.iter_mut().for_each(|client| client.send_call("meet"));
        for client in &mut clients {
            assert!(client.read_response().1.contains("met"));
        }
        server.shut_down(DEADLINE);
    }
}

pub(crate) use adapter::{blocked_server, gated_server, pinned_servers, small_servers};

mod adapter {
    use alloc::sync::Arc;
    use core::sync::atomic::{AtomicBool, Ordering};
    use core::time::Duration;
    use std::sync::mpsc::{Receiver, Sender};

    use mcp_proto::model::CallToolResult;
    use mcp_threads::{Call, Cx};

    use super::{ShardedServer, counting_handler, gated_handler, serve};
    use crate::shards_suite::allowed_cores;

    /// Starts two shards. A call of `waits` blocks its shard until the gate opens.
    pub(crate) fn blocked_server(begun: Sender<()>, gate: Receiver<()>) -> ShardedServer {
        serve(gated_handler(begun, gate), |server| server.workers(0).shards(2))
    }

    /// Starts a server with two running and four waiting calls at most. Handlers end when `open` is set.
    pub(crate) fn gated_server(begun: Sender<()>, open: Arc<AtomicBool>) -> ShardedServer {
        let wait = move |cx: &mut Cx<'_>, call: &Call| {
            begun.send(()).unwrap();
            while !open.load(Ordering::SeqCst) {
                cx.sleep(Duration::from_millis(5))?;
            }
            cx.complete(&CallToolResult::text(call.tool_call()?.name))
        };
        serve(wait, |server| server.workers(2))
    }

    /// Starts a server with handlers on the threads of its shards, and one with workers.
    pub(crate) fn small_servers(shards: u8, connections: usize) -> Vec<ShardedServer> {
        let server = |workers| {
            serve(counting_handler(), |server| {
                server.workers(workers).shards(shards).max_connections(connections)
            })
        };
        vec![server(0), server(2)]
    }

    /// Starts pairs of pinned shards that report their cores. The flag tells whether handlers run on the threads of
    /// the shards.
    pub(crate) fn pinned_servers() -> Vec<(ShardedServer, bool)> {
        let server = |workers| {
            let report = |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text(allowed_cores()));
            serve(report, |server| server.workers(workers).shards(2).pin_shards())
        };
        vec![(server(0), true), (server(2), false)]
    }
}

/// Blocks its thread for the tool `waits` until the gate opens.
fn gated_handler(begun: mpsc::Sender<()>, gate: mpsc::Receiver<()>) -> impl Handler {
    let gate = std::sync::Mutex::new(gate);
    move |cx: &mut Cx<'_>, call: &Call| {
        let name = call.tool_call()?.name;
        if name == "waits" {
            begun.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
        }
        cx.complete(&CallToolResult::text(name))
    }
}

/// Answers with the number of earlier calls.
fn counting_handler() -> impl Handler {
    let count = AtomicUsize::new(0);
    move |cx: &mut Cx<'_>, _: &Call| {
        cx.complete(&CallToolResult::text(count.fetch_add(1, Ordering::Relaxed).to_string()))
    }
}

#[test]
fn shutdown_answers_running_calls_in_each_shard() {
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
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send_call("slow"));
    (0..4).for_each(|_| begins.recv_timeout(DEADLINE).unwrap());
    server.handle.shutdown(DEADLINE);
    drop(open);
    for client in &mut clients {
        assert!(client.read_response().1.contains("answered"));
    }
    server.shut_down(DEADLINE);
}

/// Submits a command that submits itself again.
fn resubmit_forever(handle: &Handle) {
    let next = handle.clone();
    let _ = handle.with_engine(move |_, _| resubmit_forever(&next));
}

#[test]
fn panicking_or_endless_commands_delay_nothing_else() {
    for workers in [0, 2] {
        let server = serve(counting_handler(), |server| server.workers(workers));
        server.handle.with_engine(|_, _| panic!("on purpose")).unwrap();
        resubmit_forever(&server.handle);
        let mut client = server.connect();
        (0..10).for_each(|n| assert_eq!(client.call("n"), n.to_string()));
        server.shut_down(DEADLINE);
    }
}

#[test]
fn shutdown_interrupts_handlers_that_sleep_on_shards() {
    let (begun, begins) = mpsc::channel();
    let server = serve(
        move |cx: &mut Cx<'_>, _: &Call| {
            begun.send(()).unwrap();
            cx.sleep(DEADLINE * 2)?;
            cx.complete(&CallToolResult::text("late"))
        },
        |server| server.workers(0).shards(2),
    );
    let mut clients: Vec<_> = (0..2).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send_call("sleeps"));
    (0..2).for_each(|_| begins.recv_timeout(DEADLINE).unwrap());
    server.shut_down(Duration::from_millis(50));
    clients.iter_mut().for_each(|client| assert!(client.read_response().1.contains("shutting down")));
}

/// A blocked shard receives the shutdown behind any number of changes.
#[test]
fn blocked_shard_shuts_down_with_the_others() {
    let (open, gate) = mpsc::channel();
    let (begun, begins) = mpsc::channel();
    let server = blocked_server(begun, gate);
    // Connections are distributed in turn: the second shard serves the second one.
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(first.call("echo"), "echo");
    second.send_call("waits");
    begins.recv_timeout(DEADLINE).unwrap();
    for _ in 0..200 {
        (0..10).for_each(|_| server.handle.publish(&Change::Tools).unwrap());
        assert_eq!(first.call("echo"), "echo");
    }
    server.handle.shutdown(Duration::from_millis(50));
    assert!(matches!(first.0.read(&mut [0; 1]), Ok(0) | Err(_)), "the first shard has ended");
    drop(open);
    server.shut_down(Duration::from_millis(50));
}

/// Dropping a server ends its shards, whether it ran or not.
#[test]
fn dropped_server_ends_all_shards() {
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
    let mut clients = [RawHttpClient::connect(address), RawHttpClient::connect(address)];
    clients.iter_mut().for_each(|client| client.send_call("sleeps"));
    for _ in 0..2 {
        while begins.try_recv().is_err() {
            assert!(server.poll(Duration::from_millis(1)).unwrap());
        }
    }
    drop(server);
    (0..2).for_each(|_| assert_eq!(ends.recv_timeout(DEADLINE), Ok(true)));
    for client in &mut clients {
        let is_open = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
        assert!(!client.0.read_to_end(&mut Vec::new()).is_err_and(is_open), "the connection is closed");
    }
    assert!(handle.is_over());
}

#[test]
fn bind_reports_address_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = HttpServer::bind(address, config(), Http::new(), counting_handler()).err().unwrap();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(matches!(error, Error::Io(error) if error.kind() == ErrorKind::AddrInUse));
}
