//! Suite: an asynchronous server that reads bytes: what it reads and writes when, and how it ends.
//!
//! `crate::wire_suite` is that of all adapters, and `crate::adapter` names the adapter under test.

use alloc::sync::Arc;
use core::future::{pending, poll_fn};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, mpsc};
use std::time::Instant;

use futures_lite::future;
use mcp_proto::model::CallToolResult;
use mcp_proto::{Change, Limits, RpcError};

use crate::adapter::package::{Answered, Call, Cx, Handler, HandlerFailure, serve};
use crate::adapter::{async_stream, block_on_reactor as block_on, yield_now};
use crate::support::{
    DEADLINE, INITIALIZE, ScriptedStream, StreamTestServer, call_line, cancel_line, read_some, response_ids,
    server_config, with_timeout,
};

/// Answers as the handler of the suite does, with more tools.
async fn answer(cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
    match &*call.tool_call()?.name {
        "yields" => yield_now().await,
        "panics" => panic!("on purpose"),
        "panics later" => {
            yield_now().await;
            panic!("on purpose")
        }
        "panics when dropped" => {
            struct PanicOnDrop;
            impl Drop for PanicOnDrop {
                fn drop(&mut self) {
                    panic!("on purpose, while it is dropped");
                }
            }
            let _bomb = PanicOnDrop;
            pending::<()>().await;
        }
        _ => return crate::wire_suite::answer(cx, call).await,
    }
    cx.complete(&CallToolResult::text("ok"))
}

/// Calls a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

// covers: BASE-033, STDIO-010
#[test]
fn calls_run_concurrently() {
    with_timeout(|| {
        // Each handler waits for all others.
        let all: Mutex<Vec<Waker>> = Mutex::default();
        let batch: String = (1..=64).map(|id| call_line(id, "any")).collect();
        let script = ScriptedStream::new([INITIALIZE.as_bytes(), batch.as_bytes()]);
        let handler = async |cx: &mut Cx, _: &Call| {
            let mut first = true;
            poll_fn(|cx| {
                let mut all = all.lock().unwrap();
                if core::mem::take(&mut first) {
                    all.push(cx.waker().clone());
                    if all.len() == 64 {
                        all.iter().for_each(Waker::wake_by_ref);
                    }
                }
                if all.len() == 64 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            cx.complete(&CallToolResult::text("ok"))
        };
        block_on(serve(server_config(), script.clone(), &handler)).unwrap();
        assert_eq!(response_ids(&script.written()).len(), 65);
    });
}

#[test]
fn only_woken_handlers_are_polled() {
    with_timeout(|| {
        let (polls, seen) = (Arc::new(AtomicUsize::new(0)), mpsc::channel());
        let count = polls.clone();
        let mut served = StreamTestServer::new(server_config(), async move |cx: &mut Cx, call: &Call| {
            if call.tool_call()?.name == "waits" {
                let () = poll_fn(|_| {
                    count.fetch_add(1, Ordering::SeqCst);
                    let _ = seen.0.send(());
                    Poll::Pending
                })
                .await;
            }
            cx.complete(&CallToolResult::text("ok"))
        });
        served.send(&(1..=100).map(|id| call_line(id, "waits")).collect::<String>());
        for id in 101..200 {
            served.send(&call_line(id, "any"));
            assert_eq!(served.read_line()["id"], id);
        }
        assert_eq!(polls.load(Ordering::SeqCst), 100);
        served.handle.shutdown(Duration::ZERO);
        served.finish().unwrap();
    });
}

// covers: CANC-010, CANC-011, CANC-013, CANC-014, CANC-020, STDIO-019
#[test]
fn cancellation_drops_handler_future_at_once() {
    with_timeout(|| {
        let (tx, dropped) = mpsc::channel();
        let mut served = StreamTestServer::new(server_config(), async move |cx: &mut Cx, call: &Call| {
            let tool = call.tool_call()?.name.into_owned();
            let _told = OnDrop(|| drop(tx.send(tool.clone())));
            answer(cx, call).await
        });
        served.send(&(call_line(1, "waits") + &call_line(2, "any")));
        assert_eq!(served.read_line()["id"], 2);
        assert_eq!(dropped.recv_timeout(DEADLINE).unwrap(), "any");
        served.send(&cancel_line(1));
        assert_eq!(dropped.recv_timeout(DEADLINE).unwrap(), "waits");
        // Cancellations of an answered call and of an unknown one are ignored.
        served.send(&(cancel_line(2) + &cancel_line(77) + &call_line(4, "sleeps")));
        assert_eq!(served.read_line()["id"], 4);
        // A panic in a drop of the cancelled future is contained.
        served.send(&(call_line(5, "panics when dropped") + &cancel_line(5) + &call_line(6, "any")));
        assert_eq!(served.read_line()["id"], 6);
        served.finish().unwrap();
        // So are two of them, when the server is dropped.
        let (near, mut far) = UnixStream::pair().unwrap();
        let calls = INITIALIZE.to_owned()
            + &call_line(1, "panics when dropped")
            + &call_line(2, "panics when dropped");
        std::io::Write::write_all(&mut far, (calls + &call_line(3, "any")).as_bytes()).unwrap();
        let near = async_stream(near);
        let mut serves = Box::pin(serve(server_config(), near, answer));
        block_on(future::or(async { drop(serves.as_mut().await) }, async {
            let mut far = async_stream(far);
            let mut written = String::new();
            while !written.contains("\"id\":3") {
                let mut buffer = [0; 4096];
                let n = read_some(&mut far, &mut buffer).await.unwrap();
                written.push_str(core::str::from_utf8(&buffer[..n]).unwrap());
            }
        }));
        drop(serves);
    });
}

// covers: CANC-010
#[test]
fn thousand_calls_are_cancelled() {
    with_timeout(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let count = drops.clone();
        let mut served = StreamTestServer::new(server_config(), async move |cx: &mut Cx, call: &Call| {
            let _told = OnDrop(|| _ = count.fetch_add(1, Ordering::SeqCst));
            answer(cx, call).await
        });
        let calls: String = (1..=1000).map(|id| call_line(id, "waits")).collect();
        let cancels: String = (1..=1000).map(cancel_line).collect();
        served.send(&(calls + &cancels + &call_line(2000, "any")));
        assert_eq!(served.read_line()["id"], 2000, "and nothing else");
        served.finish().unwrap();
        assert!(drops.load(Ordering::SeqCst) >= 1);
    });
}

#[test]
fn calls_beyond_max_running_wait_and_can_be_cancelled() {
    with_timeout(|| {
        let mut served =
            StreamTestServer::with_options(server_config(), answer, |server| server.max_running(2));
        served.send(
            &(call_line(1, "waits")
                + &call_line(2, "waits")
                + &call_line(3, "any")
                + &call_line(4, "any")
                + &cancel_line(3)),
        );
        served.send(&cancel_line(1));
        assert_eq!(served.read_line()["id"], 4);
        served.send(&cancel_line(2));
        served.finish().unwrap();
    });
}

#[test]
fn panic_is_answered_and_reported() {
    struct PanicReporter(mpsc::Sender<String>);
    impl Handler for PanicReporter {
        async fn call(&self, cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
            answer(cx, call).await
        }
        fn failed(&self, call: &Call, failure: &HandlerFailure) {
            let _ = self.0.send(format!("{}: {failure}", call.tool_call().unwrap().name));
            panic!("in a callback, on purpose");
        }
    }
    with_timeout(|| {
        let (tx, failures) = mpsc::channel();
        let mut served = StreamTestServer::new(server_config(), PanicReporter(tx));
        for (id, tool) in [(1, "panics"), (2, "panics later")] {
            served.send(&call_line(id, tool));
            let answer = served.read_line();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&id.into(), &(-32603).into()));
            assert_eq!(failures.recv_timeout(DEADLINE).unwrap(), format!("{tool}: panicked: on purpose"));
        }
        served.send(&call_line(3, "any"));
        assert_eq!(served.read_line()["id"], 3);
        served.finish().unwrap();
    });
}

/// A handler that always wakes itself starves neither the stream nor other futures of the executor.
#[test]
fn busy_handler_starves_nothing_else() {
    with_timeout(|| {
        let busy = async |cx: &mut Cx, call: &Call| {
            while call.tool_call()?.name == "busy" {
                yield_now().await;
            }
            cx.complete(&CallToolResult::text("ok"))
        };
        let mut limits = Limits::default();
        limits.eof_grace_period = Duration::from_millis(50);
        let script = ScriptedStream::new([
            INITIALIZE.as_bytes(),
            call_line(1, "busy").as_bytes(),
            call_line(2, "any").as_bytes(),
        ]);
        let mut others = 0;
        let other = async {
            loop {
                others += 1;
                yield_now().await;
            }
        };
        block_on(future::or(serve(server_config().limits(limits), script.clone(), busy), other)).unwrap();
        assert_eq!(response_ids(&script.written()), [0, 2]);
        assert!(others > 1);
    });
}

/// Waiting calls are bounded. Reading pauses at the limit and resumes when there is room.
#[test]
fn flood_pauses_reading() {
    with_timeout(|| {
        let (tx, begun) = mpsc::channel();
        let mut limits = Limits::default();
        limits.max_waiting_requests = 10;
        let gate = Arc::new(AtomicUsize::new(0));
        let open = gate.clone();
        let mut served = StreamTestServer::with_options(
            server_config().limits(limits),
            async move |cx: &mut Cx, _: &Call| {
                let _ = tx.send(());
                while open.load(Ordering::SeqCst) == 0 {
                    cx.sleep(Duration::from_millis(5)).await?;
                }
                cx.complete(&CallToolResult::text("ok"))
            },
            |server| server.max_running(2),
        );
        let mut flood = served.stream.try_clone().unwrap();
        // More than the buffers of the socket hold.
        let calls: String = (1..=20_000).map(|id| call_line(id, "any")).collect();
        let (sent_tx, sent) = mpsc::channel();
        let flooding = std::thread::spawn(move || {
            std::io::Write::write_all(&mut flood, calls.as_bytes()).unwrap();
            let _ = sent_tx.send(());
        });
        begun.recv_timeout(DEADLINE).unwrap();
        assert!(sent.recv_timeout(Duration::from_millis(200)).is_err(), "it reads on");
        assert!(begun.try_iter().count() <= 1);
        gate.store(1, Ordering::SeqCst);
        let mut answered: Vec<_> = (0..20_000).map(|_| served.read_line()["id"].as_i64().unwrap()).collect();
        answered.sort_unstable();
        assert!(answered.into_iter().eq(1..=20_000), "none is lost");
        flooding.join().unwrap();
        served.finish().unwrap();
    });
}

/// A client that does not read delays neither handlers nor other writes.
#[test]
fn full_stream_delays_nothing_else() {
    with_timeout(|| {
        let (tx, done) = mpsc::channel();
        let mut served = StreamTestServer::new(server_config(), async move |cx: &mut Cx, call: &Call| {
            if call.tool_call()?.name == "large" {
                return cx.complete(&CallToolResult::text("x".repeat(10_000_000)));
            }
            cx.sleep(Duration::from_millis(10)).await?;
            let _ = tx.send(());
            cx.complete(&CallToolResult::text("ok"))
        });
        served.send(&(call_line(1, "large") + &call_line(2, "any")));
        done.recv_timeout(DEADLINE).unwrap();
        assert_eq!(
            (served.read_line()["id"].clone(), served.read_line()["id"].clone()),
            (1.into(), 2.into())
        );
        // A shutdown does not wait for a client that does not read.
        served.send(&call_line(3, "large"));
        served.handle.shutdown(Duration::from_millis(20));
        served.thread.join().unwrap().unwrap();
    });
}

#[test]
fn handle_commands_server_from_other_threads() {
    with_timeout(|| {
        let mut served = StreamTestServer::new(server_config(), answer);
        let handle = served.handle.clone();
        handle.publish(&Change::Tools).unwrap();
        let (tx, rx) = mpsc::channel();
        handle
            .with_engine(move |engine, _| {
                _ = tx.send(engine.config().effective_limits().max_waiting_requests)
            })
            .unwrap();
        assert!(rx.recv_timeout(DEADLINE).unwrap() > 0);
        // A panic on the loop is contained.
        handle.with_engine(|_, _| panic!("on purpose")).unwrap();
        served.send(&(call_line(1, "sleeps") + &call_line(2, "looks")));
        assert_eq!(served.read_line()["id"], 2, "both have begun");
        let begun = Instant::now();
        handle.shutdown(DEADLINE);
        assert_eq!(served.read_line()["id"], 1, "what is in work is answered");
        served.thread.join().unwrap().unwrap();
        assert!(begun.elapsed() < DEADLINE && handle.is_over());
        handle.publish(&Change::Tools).unwrap_err();

        // At the end of the grace period the endless handler is dropped.
        let (tx, dropped) = mpsc::channel();
        let mut served = StreamTestServer::new(server_config(), async move |cx: &mut Cx, call: &Call| {
            let _told = OnDrop(|| _ = tx.send(()));
            answer(cx, call).await
        });
        served.send(&(call_line(1, "waits") + &call_line(2, "any")));
        assert_eq!(served.read_line()["id"], 2);
        dropped.recv_timeout(DEADLINE).unwrap();
        served.handle.shutdown(Duration::from_millis(20));
        dropped.recv_timeout(DEADLINE).unwrap();
        assert_eq!(served.read_line()["error"]["message"], "the server is shutting down");
        served.thread.join().unwrap().unwrap();
    });
}
