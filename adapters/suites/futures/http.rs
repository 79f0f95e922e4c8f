//! Suite: asynchronous servers over HTTP.
//!
//! `crate::suites::http` is that of all adapters, and `crate::adapter` names the adapter under test.

use alloc::sync::Arc;
use core::cell::{Cell, RefCell};
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, mpsc};
use std::thread;

use mcp_proto::Change;
use mcp_proto::http::server::Config as Http;
use mcp_proto::model::CallToolResult;

use crate::adapter::package::{Call, Cx, Error, HttpServer};
use crate::adapter::{async_pair, block_on_reactor as block_on, package, yield_now};
use crate::suites::http::{HttpTestServer, call};
use crate::support::{DEADLINE, Tools, server_config, with_timeout};

/// Calls on different connections wait for each other, so they must all run at once.
#[test]
fn calls_of_all_connections_run_concurrently() {
    with_timeout(|| {
        let served = HttpTestServer::new(|| {
            let waiting: RefCell<Vec<Waker>> = RefCell::default();
            async move |cx: &mut Cx, _: &Call| {
                let mut first = true;
                poll_fn(|cx| {
                    let mut waiting = waiting.borrow_mut();
                    if core::mem::take(&mut first) {
                        waiting.push(cx.waker().clone());
                        waiting.iter().for_each(Waker::wake_by_ref);
                    }
                    if waiting.len() == 20 { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                cx.complete(&CallToolResult::text("together"))
            }
        });
        let mut streams: Vec<_> = (0..20).map(|_| served.connect()).collect();
        streams.iter_mut().for_each(|stream| stream.write_all(&call("any", "{}", "")).unwrap());
        for stream in &mut streams {
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
        }
        drop(streams);
        served.stop();
    });
}

thread_local! {
    static CONTEXT: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Polls a future with a value of its context, as a task-local or a span is set.
async fn in_context<T>(context: &'static str, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let outer = CONTEXT.replace(Some(context));
        let outcome = future.as_mut().poll(cx);
        CONTEXT.set(outer);
        outcome
    })
    .await
}

/// Handlers see the context of the server, and nothing that a handler of another client has set.
#[test]
fn handlers_of_all_clients_are_polled_in_the_context_of_the_server() {
    with_timeout(|| {
        let strange = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&strange);
        let handler = async move |cx: &mut Cx, call: &Call| {
            let user = if call.tool_call()?.name == "alice" { "alice" } else { "bob" };
            for step in 0..10 {
                seen.lock().unwrap().extend(CONTEXT.get().filter(|context| *context != "server"));
                if step % 2 == 0 {
                    cx.sleep(Duration::from_millis(1)).await?;
                } else {
                    in_context(user, yield_now()).await;
                }
            }
            cx.complete(&CallToolResult::text(user))
        };
        let (started, starts) = mpsc::channel();
        let running = thread::spawn(move || {
            let server = HttpServer::bind("127.0.0.1:0", server_config(), Http::new(), handler)?;
            started.send((server.address()?, server.handle())).unwrap();
            block_on(in_context("server", server.run()))
        });
        let (address, handle) = starts.recv_timeout(DEADLINE).expect("the server listens");
        let users = ["alice", "bob"].into_iter().cycle().take(40);
        let streams: Vec<_> = users
            .map(|user| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(&call(user, "{}", "")).unwrap();
                stream
            })
            .collect();
        for mut stream in streams {
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
        }
        handle.shutdown(Duration::ZERO);
        running.join().unwrap().unwrap();
        assert_eq!(*strange.lock().unwrap(), [""; 0]);
    });
}

#[test]
fn handle_commands_server_from_other_threads() {
    with_timeout(|| {
        let served = HttpTestServer::new(|| Tools::new().0);
        let (tx, rx) = mpsc::channel();
        served.handle.publish(&Change::Tools).unwrap();
        served.handle.with_engine(move |_, now| _ = tx.send(now)).unwrap();
        rx.recv_timeout(DEADLINE).expect("it was woken");
        // At the end of the grace period the endless handler is dropped.
        let mut stream = served.connect();
        stream.write_all(&call("endless", "{}", "")).unwrap();
        while !served.handle.is_over() {
            served.handle.shutdown(Duration::from_millis(20));
            thread::sleep(Duration::from_millis(1));
        }
        served.stop();
    });
}

/// A handle stays valid when the server is configured further.
#[test]
fn early_handle_commands_running_server() {
    with_timeout(|| {
        let bound = HttpServer::bind("127.0.0.1:0", server_config(), Http::new(), Tools::new().0).unwrap();
        let handle = bound.handle();
        let bound = bound.max_running(1).max_connections(2).shards(2);
        handle.shutdown(Duration::ZERO);
        block_on(bound.run()).unwrap();
        assert!(handle.is_over());
        let (near, _far) = async_pair();
        let bound = package::Server::new(server_config(), near, Tools::new().0);
        let handle = bound.handle();
        handle.shutdown(Duration::ZERO);
        block_on(bound.max_running(1).run()).unwrap();
        assert!(handle.is_over());
    });
}

#[test]
fn bind_reports_address_in_use() {
    with_timeout(|| {
        let served = HttpTestServer::new(|| Tools::new().0);
        let error = HttpServer::bind(served.address, server_config(), Http::new(), Tools::new().0)
            .err()
            .expect("taken");
        assert!(matches!(&error, Error::Io(error) if error.kind() == ErrorKind::AddrInUse), "{error:?}");
        assert!(error.to_string().contains("in use"), "{error}");
        served.stop();
    });
}
