//! The server against bytes: what is read and written when, and how it ends

#![cfg(unix)]

extern crate alloc;

mod support;

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::Cell;
use core::future::{pending, poll_fn};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, mpsc};
use std::time::Instant;

use async_io::Async;
use futures_lite::future::{self, yield_now};
use mcp_proto::model::CallToolResult;
use mcp_proto::{Change, Diagnostic, Limits, Progress, RpcError};
use mcp_smol::{Answered, Call, Cx, Error, Failure, Handler, serve};
use support::{DEADLINE, OPENING, Script, Served, call, cancel, ids, in_time, server};

/// Answers at once, or does what the name of the tool says before
async fn handler(cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
    match &*call.tool()?.name {
        "yields" => yield_now().await,
        "sleeps" => cx.sleep(Duration::from_millis(20)).await?,
        "waits" => pending().await,
        "looks" => cx.checkpoint()?,
        "panics" => panic!("on purpose"),
        "panics later" => {
            yield_now().await;
            panic!("on purpose")
        }
        "panics when dropped" => {
            struct Bomb;
            impl Drop for Bomb {
                fn drop(&mut self) {
                    panic!("on purpose, while it is dropped");
                }
            }
            let _bomb = Bomb;
            pending::<()>().await;
        }
        "reports" => {
            for n in 0..100 {
                cx.progress(Progress::new(n.into()))?;
                yield_now().await;
            }
        }
        _ => {}
    }
    cx.complete(&CallToolResult::text("ok"))
}

fn run(script: &Script) -> Result<(), Error> {
    async_io::block_on(serve(server(), script.clone(), handler))
}

/// Says when it is dropped
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

// covers: STDIO-021
#[test]
fn what_came_before_the_end_of_input_is_answered() {
    in_time(|| {
        // As `printf … | server` gives it: in pieces or at once, with or without the last newline.
        let input = format!("{OPENING}{}{}", call(1, "sleeps"), call(2, "looks"));
        for size in [1, 5, 100, 10_000] {
            let script = Script::new(input.as_bytes().chunks(size));
            run(&script).unwrap();
            assert_eq!(ids(&script.written()), [0, 2, 1]);
        }
        struct Notes(Rc<Cell<u32>>);
        impl Handler for Notes {
            async fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
                handler(cx, call).await
            }
            fn diagnostic(&self, _: &Diagnostic) {
                self.0.set(self.0.get() + 1);
            }
        }
        let cut = call(2, "any");
        let input = format!("{OPENING}{}not JSON\n\n{}", call(1, "any"), cut.trim_end());
        let script = Script::new([input.as_bytes()]);
        let odd = Rc::new(Cell::new(0));
        async_io::block_on(serve(server(), script.clone(), Notes(odd.clone()))).unwrap();
        assert_eq!(ids(&script.written()), [0, 1], "half a message is none");
        assert!(odd.get() > 0);
    });
}

#[test]
fn requests_that_are_read_together_are_answered_in_one_write() {
    in_time(|| {
        let batch: String = (1..=64).map(|id| call(id, "any")).collect();
        let script = Script::new([OPENING.as_bytes(), batch.as_bytes(), batch.as_bytes()]);
        run(&script).unwrap();
        let writes = script.writes();
        // One for the handshake; the machine may be slow enough to take it for a slow handler, so it may be a few.
        assert!(writes.len() <= 6, "{} writes", writes.len());
        assert_eq!(ids(&script.written()).len(), 129);
    });
}

// covers: BASE-033, STDIO-010
#[test]
fn calls_run_at_the_same_time() {
    in_time(|| {
        // Each waits for all others.
        let all: Mutex<Vec<Waker>> = Mutex::default();
        let batch: String = (1..=64).map(|id| call(id, "any")).collect();
        let script = Script::new([OPENING.as_bytes(), batch.as_bytes()]);
        let handler = async |cx: &mut Cx<'_>, _: &Call| {
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
        async_io::block_on(serve(server(), script.clone(), &handler)).unwrap();
        assert_eq!(ids(&script.written()).len(), 65);
    });
}

#[test]
fn only_what_was_woken_is_polled() {
    in_time(|| {
        let (polls, seen) = (Arc::new(AtomicUsize::new(0)), mpsc::channel());
        let count = polls.clone();
        let mut served = Served::new(server(), async move |cx: &mut Cx<'_>, call: &Call| {
            if call.tool()?.name == "waits" {
                let () = poll_fn(|_| {
                    count.fetch_add(1, Ordering::SeqCst);
                    let _ = seen.0.send(());
                    Poll::Pending
                })
                .await;
            }
            cx.complete(&CallToolResult::text("ok"))
        });
        served.send(&(1..=100).map(|id| call(id, "waits")).collect::<String>());
        for id in 101..200 {
            served.send(&call(id, "any"));
            assert_eq!(served.line()["id"], id);
        }
        assert_eq!(polls.load(Ordering::SeqCst), 100);
        served.handle.shutdown(Duration::ZERO);
        served.end().unwrap();
    });
}

// covers: CANC-010, CANC-011, CANC-013, CANC-014, CANC-020, STDIO-019
#[test]
fn the_future_of_a_cancelled_call_is_dropped_at_once() {
    in_time(|| {
        let (tx, dropped) = mpsc::channel();
        let mut served = Served::new(server(), async move |cx: &mut Cx<'_>, call: &Call| {
            let tool = call.tool()?.name.into_owned();
            let _told = OnDrop(|| drop(tx.send(tool.clone())));
            handler(cx, call).await
        });
        served.send(&(call(1, "waits") + &call(2, "any")));
        assert_eq!(served.line()["id"], 2);
        assert_eq!(dropped.recv_timeout(DEADLINE).unwrap(), "any");
        served.send(&cancel(1));
        assert_eq!(dropped.recv_timeout(DEADLINE).unwrap(), "waits");
        // Of what was answered already, and of nothing at all.
        served.send(&(cancel(2) + &cancel(77) + &call(4, "sleeps")));
        assert_eq!(served.line()["id"], 4);
        // A panic while it is dropped is nobody else's matter.
        served.send(&(call(5, "panics when dropped") + &cancel(5) + &call(6, "any")));
        assert_eq!(served.line()["id"], 6);
        served.end().unwrap();
        // Nor are two of them, when it is the server that is dropped.
        let (near, mut far) = UnixStream::pair().unwrap();
        let calls = OPENING.to_owned() + &call(1, "panics when dropped") + &call(2, "panics when dropped");
        std::io::Write::write_all(&mut far, (calls + &call(3, "any")).as_bytes()).unwrap();
        let near = Async::new(near).unwrap();
        let mut serves = Box::pin(serve(server(), near, handler));
        async_io::block_on(future::or(async { drop(serves.as_mut().await) }, async {
            let mut far = Async::new(far).unwrap();
            let mut written = String::new();
            while !written.contains("\"id\":3") {
                let mut buffer = [0; 4096];
                let n = futures_lite::AsyncReadExt::read(&mut far, &mut buffer).await.unwrap();
                written.push_str(core::str::from_utf8(&buffer[..n]).unwrap());
            }
        }));
        drop(serves);
    });
}

// covers: CANC-010
#[test]
fn a_thousand_calls_are_cancelled_at_once() {
    in_time(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let count = drops.clone();
        let mut served = Served::new(server(), async move |cx: &mut Cx<'_>, call: &Call| {
            let _told = OnDrop(|| _ = count.fetch_add(1, Ordering::SeqCst));
            handler(cx, call).await
        });
        let calls: String = (1..=1000).map(|id| call(id, "waits")).collect();
        let cancels: String = (1..=1000).map(cancel).collect();
        served.send(&(calls + &cancels + &call(2000, "any")));
        assert_eq!(served.line()["id"], 2000, "and nothing else");
        served.end().unwrap();
        assert!(drops.load(Ordering::SeqCst) >= 1);
    });
}

#[test]
fn calls_beyond_the_bound_wait_for_a_place_and_may_be_cancelled_there() {
    in_time(|| {
        let mut served = Served::with(server(), handler, |server| server.max_running(2));
        served.send(&(call(1, "waits") + &call(2, "waits") + &call(3, "any") + &call(4, "any") + &cancel(3)));
        served.send(&cancel(1));
        assert_eq!(served.line()["id"], 4);
        served.send(&cancel(2));
        served.end().unwrap();
    });
}

// covers: PROG-005, PROG-010, PROG-011, PROG-013
#[test]
fn progress_leaves_before_the_answer_and_at_a_limited_rate() {
    in_time(|| {
        let script = Script::new([OPENING.as_bytes(), call(1, "reports").as_bytes()]);
        run(&script).unwrap();
        let written = script.written();
        let lines: Vec<&str> = written.lines().skip(1).collect();
        let (answer, progress) = lines.split_last().unwrap();
        assert!(answer.contains("\"id\":1,\"result\""));
        assert!((1..50).contains(&progress.len()), "{} reports", progress.len());
        assert!(progress.iter().all(|line| line.contains("notifications/progress")));
    });
}

// covers: STDIO-021
#[test]
fn a_client_that_is_gone_is_no_error() {
    in_time(|| {
        let batch: String = (1..=8).map(|id| call(id, "any")).collect();
        for room in [0, 1, 200, 500] {
            let script =
                Script::new([OPENING.as_bytes(), batch.as_bytes(), call(9, "waits").as_bytes()]).takes(room);
            run(&script).unwrap();
            assert_eq!(script.written().len(), room);
        }
    });
}

// covers: STDIO-021
#[test]
fn a_handler_that_never_returns_ends_soon_after_the_input() {
    in_time(|| {
        let mut limits = Limits::default();
        limits.eof_grace = Duration::from_millis(20);
        let script = Script::new([OPENING.as_bytes(), call(1, "waits").as_bytes()]);
        let begun = Instant::now();
        async_io::block_on(serve(server().limits(limits), script.clone(), handler)).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(20));
        assert_eq!(ids(&script.written()), [0]);
    });
}

#[test]
fn too_much_garbage_is_an_error_that_says_so() {
    in_time(|| {
        let mut limits = Limits::default();
        limits.max_faulty = Some(3);
        let script = Script::new(["{}\n{}\n{}\n{}\n".as_bytes()]);
        let error = async_io::block_on(serve(server().limits(limits), script, handler)).unwrap_err();
        assert!(error.to_string().contains("3 faulty messages in a row"), "{error}");
    });
}

// covers: BATCH-001
#[test]
fn a_batch_is_answered_whole() {
    in_time(|| {
        let opening = OPENING.replace("2025-11-25", "2025-03-26");
        let members =
            [call(1, "reports"), call(2, "any"), call(3, "sleeps")].map(|call| call.trim_end().to_owned());
        let batch = format!("[{}]\n", members.join(","));
        let script = Script::new([opening.as_bytes(), batch.as_bytes(), call(4, "any").as_bytes()]);
        run(&script).unwrap();
        let written = script.written();
        let answers = written.lines().find(|line| line.starts_with('[')).expect("one answer");
        let answers: Vec<serde_json::Value> = serde_json::from_str(answers).unwrap();
        assert_eq!(answers.len(), 3);
        assert!(written.contains("\"id\":4"));
    });
}

#[test]
fn a_panic_is_answered_and_told() {
    struct Panics(mpsc::Sender<String>);
    impl Handler for Panics {
        async fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
            handler(cx, call).await
        }
        fn failed(&self, call: &Call, failure: &Failure) {
            let _ = self.0.send(format!("{}: {failure}", call.tool().unwrap().name));
            panic!("in a callback, on purpose");
        }
    }
    in_time(|| {
        let (tx, told) = mpsc::channel();
        let mut served = Served::new(server(), Panics(tx));
        for (id, tool) in [(1, "panics"), (2, "panics later")] {
            served.send(&call(id, tool));
            let answer = served.line();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&id.into(), &(-32603).into()));
            assert_eq!(told.recv_timeout(DEADLINE).unwrap(), format!("{tool}: panicked: on purpose"));
        }
        served.send(&call(3, "any"));
        assert_eq!(served.line()["id"], 3);
        served.end().unwrap();
    });
}

/// A handler that wakes itself without end leaves their turns to the stream, and to other futures of its executor
#[test]
fn busy_handlers_starve_nobody() {
    in_time(|| {
        let busy = async |cx: &mut Cx<'_>, call: &Call| {
            while call.tool()?.name == "busy" {
                yield_now().await;
            }
            cx.complete(&CallToolResult::text("ok"))
        };
        let mut limits = Limits::default();
        limits.eof_grace = Duration::from_millis(50);
        let script = Script::new([OPENING.as_bytes(), call(1, "busy").as_bytes(), call(2, "any").as_bytes()]);
        let mut others = 0;
        let other = async {
            loop {
                others += 1;
                yield_now().await;
            }
        };
        async_io::block_on(future::or(serve(server().limits(limits), script.clone(), busy), other)).unwrap();
        assert_eq!(ids(&script.written()), [0, 2]);
        assert!(others > 1);
    });
}

/// What waits for handlers is bounded: reading pauses, and goes on when there is room
#[test]
fn a_flood_pauses_reading() {
    in_time(|| {
        let (tx, begun) = mpsc::channel();
        let mut limits = Limits::default();
        limits.max_waiting = 10;
        let gate = Arc::new(AtomicUsize::new(0));
        let open = gate.clone();
        let mut served = Served::with(
            server().limits(limits),
            async move |cx: &mut Cx<'_>, _: &Call| {
                let _ = tx.send(());
                while open.load(Ordering::SeqCst) == 0 {
                    cx.sleep(Duration::from_millis(5)).await?;
                }
                cx.complete(&CallToolResult::text("ok"))
            },
            |server| server.max_running(2),
        );
        let mut flood = served.stream.try_clone().unwrap();
        // More than the socket's buffers hold.
        let calls: String = (1..=20_000).map(|id| call(id, "any")).collect();
        let (sent_tx, sent) = mpsc::channel();
        let flooding = std::thread::spawn(move || {
            std::io::Write::write_all(&mut flood, calls.as_bytes()).unwrap();
            let _ = sent_tx.send(());
        });
        begun.recv_timeout(DEADLINE).unwrap();
        assert!(sent.recv_timeout(Duration::from_millis(200)).is_err(), "it reads on");
        assert!(begun.try_iter().count() <= 1);
        gate.store(1, Ordering::SeqCst);
        let mut answered: Vec<_> = (0..20_000).map(|_| served.line()["id"].as_i64().unwrap()).collect();
        answered.sort_unstable();
        assert!(answered.into_iter().eq(1..=20_000), "none is lost");
        flooding.join().unwrap();
        served.end().unwrap();
    });
}

/// Nothing that is written waits for a client that does not read, and nothing else waits for that
#[test]
fn a_full_stream_holds_up_nobody() {
    in_time(|| {
        let (tx, done) = mpsc::channel();
        let mut served = Served::new(server(), async move |cx: &mut Cx<'_>, call: &Call| {
            if call.tool()?.name == "large" {
                return cx.complete(&CallToolResult::text("x".repeat(10_000_000)));
            }
            cx.sleep(Duration::from_millis(10)).await?;
            let _ = tx.send(());
            cx.complete(&CallToolResult::text("ok"))
        });
        served.send(&(call(1, "large") + &call(2, "any")));
        done.recv_timeout(DEADLINE).unwrap();
        assert_eq!((served.line()["id"].clone(), served.line()["id"].clone()), (1.into(), 2.into()));
        // One that does not read is not waited for.
        served.send(&call(3, "large"));
        served.handle.shutdown(Duration::from_millis(20));
        served.thread.join().unwrap().unwrap();
    });
}

#[test]
fn a_server_is_commanded_from_other_threads() {
    in_time(|| {
        let mut served = Served::new(server(), handler);
        let handle = served.handle.clone();
        handle.publish(&Change::Tools).unwrap();
        let (tx, rx) = mpsc::channel();
        handle.with_engine(move |engine, _| _ = tx.send(engine.config().get_limits().max_waiting)).unwrap();
        assert!(rx.recv_timeout(DEADLINE).unwrap() > 0);
        // A panic on the loop ends nothing.
        handle.with_engine(|_, _| panic!("on purpose")).unwrap();
        served.send(&(call(1, "sleeps") + &call(2, "looks")));
        assert_eq!(served.line()["id"], 2, "both have begun");
        let begun = Instant::now();
        handle.shutdown(DEADLINE);
        assert_eq!(served.line()["id"], 1, "what is in work is answered");
        served.thread.join().unwrap().unwrap();
        assert!(begun.elapsed() < DEADLINE && handle.is_over());
        handle.publish(&Change::Tools).unwrap_err();

        // What never ends is dropped when its time is over.
        let (tx, dropped) = mpsc::channel();
        let mut served = Served::new(server(), async move |cx: &mut Cx<'_>, call: &Call| {
            let _told = OnDrop(|| _ = tx.send(()));
            handler(cx, call).await
        });
        served.send(&(call(1, "waits") + &call(2, "any")));
        assert_eq!(served.line()["id"], 2);
        dropped.recv_timeout(DEADLINE).unwrap();
        served.handle.shutdown(Duration::from_millis(20));
        dropped.recv_timeout(DEADLINE).unwrap();
        assert_eq!(served.line()["error"]["message"], "the server is shutting down");
        served.thread.join().unwrap().unwrap();
    });
}
