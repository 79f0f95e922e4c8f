//! Bad input, limits, shutdown, shards, threads.

use alloc::sync::Arc;
use core::future::{Future as _, pending, poll_fn};
use core::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use bytes::Bytes;
use futures_lite::future::block_on;
use http::Request;
use mcp_tower::mcp_proto::{Change, Limits};
use mcp_tower::{Builder, Cx, McpService, Router, RpcError, ServerTasks, Sleep, StdClock, Timer};
use serde_json::{Value, json};

use crate::support::{
    CountingWaker, Events, Legacy, ScriptedBody, VirtualTime, answer, call, call_text, json_of, modern,
    poll_once, text_of, tool,
};

/// Counts the handlers that exist.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn builder() -> (Builder, Arc<AtomicUsize>) {
    let running = Arc::default();
    let mut router = Router::new("limits", "1");
    let count = Arc::clone(&running);
    router
        .tool_with(tool("fine"), async |_: &mut Cx, _: Value| "fine")
        .tool_with(tool("endless"), async move |_: &mut Cx, _: Value| -> String {
            let _counted = Counted::new(&count);
            pending().await
        })
        .tool_with(tool("nap"), async |cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
            cx.sleep(Duration::from_millis(2)).await?;
            Ok("rested")
        })
        .tool_with(tool("change"), async |cx: &mut Cx, _: Value| {
            cx.publish(&Change::Tools);
            "changed"
        });
    (McpService::builder(router), running)
}

/// Returns a call whose body is given piece by piece.
fn scripted(
    frames: impl IntoIterator<Item = Result<Bytes, &'static str>>,
    ends: bool,
) -> Request<ScriptedBody> {
    let (head, _) = call("fine", json!({})).into_parts();
    Request::from_parts(head, ScriptedBody { frames: frames.into_iter().collect(), ends })
}

fn body_of_call() -> Bytes {
    use http_body_util::BodyExt as _;
    block_on(call("fine", json!({})).into_body().collect()).unwrap().to_bytes()
}

/// Asserts that nothing is open or running in a service, and ends it.
fn assert_idle(service: &McpService) {
    assert!(poll_once(&mut service.shutdown(Duration::from_secs(60))).is_ready());
    assert_eq!(answer(service, modern("tools/list", json!({}))).status(), 503);
}

#[test]
fn bodies_in_many_pieces_are_read() {
    let service = builder().0.build().unwrap();
    let body = body_of_call();
    let pieces = body.chunks(1).map(|piece| Ok(Bytes::copy_from_slice(piece)));
    assert_eq!(json_of(answer(&service, scripted(pieces, true))).0, 200);
    let empty = (0..500).map(|_| Ok(Bytes::new())).chain([Ok(body)]);
    assert_eq!(json_of(answer(&service, scripted(empty, true))).0, 200);
    assert_idle(&service);
}

#[test]
fn a_body_that_breaks_off_is_refused() {
    let service = builder().0.build().unwrap();
    assert_eq!(
        answer(&service, scripted([Ok(body_of_call().slice(..9)), Err("reset")], false)).status(),
        400
    );
    assert_eq!(answer(&service, scripted([Ok(body_of_call().slice(..9))], true)).status(), 400);
    assert_idle(&service);
}

#[test]
fn a_body_that_never_ends_is_refused_in_time() {
    let time = VirtualTime::with_timers();
    let service = builder().0.timer(time.clone()).body_timeout(Duration::from_secs(30)).build().unwrap();
    let woken = Arc::new(CountingWaker::default());
    let waker = Waker::from(woken.clone());
    let mut response = service.handle(scripted([Ok(body_of_call().slice(..9))], false));
    assert!(pin!(&mut response).poll(&mut Context::from_waker(&waker)).is_pending());
    time.advance(Duration::from_secs(29));
    assert!(pin!(&mut response).poll(&mut Context::from_waker(&waker)).is_pending());
    let before = woken.count();
    time.advance(Duration::from_secs(2));
    assert!(woken.count() > before);
    assert_eq!(block_on(response).unwrap().status(), 408);
    assert_idle(&service);
}

/// HTTP-081
#[test]
fn a_body_that_is_too_large_is_refused() {
    let mut limits = Limits::default();
    limits.max_frame = 1000;
    let service = builder().0.config(|config| config.limits(limits)).build().unwrap();
    let pieces = || (0..200).map(|_| Ok(Bytes::from_static(&[b' '; 10])));
    assert_eq!(answer(&service, scripted(pieces(), false)).status(), 413);
    // One whose length is known is not read at all.
    assert_eq!(answer(&service, call("fine", json!({ "long": "x".repeat(2000) }))).status(), 413);
    assert_idle(&service);
}

#[test]
fn a_request_that_is_dropped_half_way_leaves_nothing() {
    let (builder, running) = builder();
    let service = builder.build().unwrap();
    drop(service.handle(call("endless", json!({}))));
    let mut half = service.handle(scripted([Ok(body_of_call().slice(..9))], false));
    assert!(poll_once(&mut half).is_pending());
    drop(half);
    let mut running_call = service.handle(call("endless", json!({})));
    assert!(poll_once(&mut running_call).is_pending());
    assert_eq!(running.load(Ordering::SeqCst), 1);
    drop(running_call);
    assert_eq!(running.load(Ordering::SeqCst), 0);
    assert_idle(&service);
}

#[test]
fn calls_beyond_the_limit_wait_for_room() {
    let (builder, running) = builder();
    let service = builder.max_running(1).build().unwrap();
    let mut first = service.handle(call("endless", json!({})));
    assert!(poll_once(&mut first).is_pending());
    let woken = Arc::new(CountingWaker::default());
    let waker = Waker::from(woken.clone());
    let mut second = service.handle(call("fine", json!({})));
    assert!(pin!(&mut second).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(first);
    assert!(woken.count() > 0);
    assert_eq!(json_of(block_on(second).unwrap()).0, 200);
    assert_eq!(running.load(Ordering::SeqCst), 0);
    assert_idle(&service);
}

#[test]
fn a_shutdown_waits_for_calls_and_ends_streams() {
    let time = VirtualTime::with_timers();
    let service = builder().0.timer(time.clone()).build().unwrap();
    let client = Legacy::open(&service, &json!({}));
    let mut events = client.listen();
    let mut nap = service.handle(call("nap", json!({})));
    assert!(poll_once(&mut nap).is_pending());
    let mut shutdown = service.shutdown(Duration::from_secs(60));
    assert!(poll_once(&mut shutdown).is_pending());
    assert_eq!(events.next(), None);
    drop(events);
    assert_eq!(answer(&service, modern("tools/list", json!({}))).status(), 503);
    time.advance(Duration::from_secs(1));
    let (_, message) = json_of(block_on(nap).unwrap());
    assert_eq!(text_of(&message), "rested");
    assert!(poll_once(&mut shutdown).is_ready());
    assert_eq!(answer(&service, modern("tools/list", json!({}))).status(), 503);
}

#[test]
fn all_who_await_the_end_are_woken_by_it() {
    let time = VirtualTime::with_timers();
    let service = builder().0.timer(time).build().unwrap();
    let mut response = service.handle(call("endless", json!({})));
    assert!(poll_once(&mut response).is_pending());
    let mut ends = [service.run(), service.shutdown(Duration::from_secs(60))];
    let wakers = [Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default())];
    let mut poll = |index: usize| {
        let waker = Waker::from(wakers[index].clone());
        pin!(&mut ends[index]).poll(&mut Context::from_waker(&waker))
    };
    assert!(poll(0).is_pending() && poll(1).is_pending());
    let before = wakers.each_ref().map(|waker| waker.count());
    // The client leaves, and that was the last one.
    drop(response);
    let is_woken = |index: usize| wakers[index].count() > before[index];
    let first = if is_woken(0) { 0 } else { 1 };
    assert!(is_woken(first) && poll(first).is_ready());
    assert!(is_woken(1 - first) && poll(1 - first).is_ready());
}

#[test]
fn a_shutdown_aborts_calls_after_its_grace_period() {
    let time = VirtualTime::with_timers();
    let (builder, running) = builder();
    let service = builder.timer(time.clone()).build().unwrap();
    let mut endless = service.handle(call("endless", json!({})));
    assert!(poll_once(&mut endless).is_pending());
    let mut shutdown = service.shutdown(Duration::from_secs(2));
    assert!(poll_once(&mut shutdown).is_pending());
    time.advance(Duration::from_secs(3));
    assert!(poll_once(&mut shutdown).is_ready());
    let (status, message) = json_of(block_on(endless).unwrap());
    assert!(status == 503 || message.get("error").is_some(), "{status} {message}");
    assert_eq!(running.load(Ordering::SeqCst), 0);
}

#[test]
fn shards_share_changes_and_know_their_sessions() {
    let service = builder().0.shards(3).build().unwrap();
    let clients: Vec<_> = (0..3).map(|_| Legacy::open(&service, &json!({}))).collect();
    let mut streams: Vec<_> = clients.iter().map(Legacy::listen).collect();
    for client in &clients {
        for _ in 0..4 {
            assert_eq!(json_of(block_on(client.call("fine")).unwrap()).0, 200);
        }
    }
    service.publish(&Change::Tools).unwrap();
    for events in &mut streams {
        assert_eq!(events.next().unwrap()["method"], "notifications/tools/list_changed");
    }
    assert_eq!(call_text(&service, "change", json!({})), "changed");
    for events in &mut streams {
        assert_eq!(events.next().unwrap()["method"], "notifications/tools/list_changed");
    }
    // A session of a shard that does not exist is unknown.
    let mut request = clients[0].request("GET", String::new());
    request.headers_mut().insert("mcp-session-id", "fe0123456789abcdef".parse().unwrap());
    assert_eq!(answer(&service, request).status(), 404);
    let mut shutdown = service.shutdown(Duration::from_secs(60));
    assert!(poll_once(&mut shutdown).is_pending());
    for events in &mut streams {
        assert_eq!(events.next(), None);
    }
    drop(streams);
    assert!(poll_once(&mut shutdown).is_ready());
}

#[test]
fn a_server_with_tasks_is_one_shard() {
    let router = || {
        let mut router = Router::new("tasks", "1");
        router.tasks(ServerTasks::new());
        router
    };
    assert!(McpService::builder(router()).build().is_ok());
    assert!(McpService::builder(router()).shards(2).build().is_err());
}

#[test]
fn an_entry_that_is_registered_twice_is_reported() {
    let mut router = Router::new("twice", "1");
    router
        .tool_with(tool("same"), async |_: &mut Cx, _: Value| "1")
        .tool_with(tool("same"), async |_: &mut Cx, _: Value| "2");
    assert!(McpService::new(router).is_err());
}

/// Timers that start a thread each.
struct ThreadTimer;

impl Timer for ThreadTimer {
    fn now(&self) -> Duration {
        StdClock.now()
    }

    fn unix_seconds(&self) -> u64 {
        StdClock.unix_seconds()
    }

    fn sleep(&self, duration: Duration) -> Option<Sleep> {
        let fired = Arc::new(AtomicBool::new(false));
        let mut is_started = false;
        Some(Box::pin(poll_fn(move |cx| {
            if !core::mem::replace(&mut is_started, true) {
                let (fired, waker) = (fired.clone(), cx.waker().clone());
                thread::spawn(move || {
                    thread::sleep(duration);
                    fired.store(true, Ordering::SeqCst);
                    waker.wake();
                });
            }
            if fired.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        })))
    }
}

/// A lost wake-up would hang this test.
#[test]
fn threads_poll_one_service_at_the_same_time() {
    for shards in [1, 2] {
        let service = builder().0.timer(ThreadTimer).shards(shards).build().unwrap();
        let (done, all_done) = mpsc::channel();
        for thread_index in 0..4_usize {
            let (service, done) = (service.clone(), done.clone());
            thread::spawn(move || {
                for round in 0..150_usize {
                    match (thread_index + round) % 5 {
                        0 => drop(poll_once(&mut service.handle(call("endless", json!({}))))),
                        1 => drop(poll_once(&mut service.handle(call("nap", json!({}))))),
                        2 => assert_eq!(call_text(&service, "fine", json!({})), "fine"),
                        3 => assert_eq!(call_text(&service, "change", json!({})), "changed"),
                        _ => assert_eq!(call_text(&service, "nap", json!({})), "rested"),
                    }
                }
                done.send(()).unwrap();
            });
        }
        for _ in 0..4 {
            all_done.recv_timeout(Duration::from_secs(60)).expect("no thread hangs or panics");
        }
        assert_idle(&service);
    }
}

/// Events of one connection while other threads publish.
#[test]
fn streams_are_woken_from_other_threads() {
    let service = builder().0.timer(ThreadTimer).shards(2).build().unwrap();
    let (done, all_done) = mpsc::channel();
    for _ in 0..3 {
        let (service, done) = (service.clone(), done.clone());
        thread::spawn(move || {
            let client = Legacy::open(&service, &json!({}));
            let mut events: Events = client.listen();
            for _ in 0..50 {
                service.publish(&Change::Tools).unwrap();
                assert_eq!(events.next().unwrap()["method"], "notifications/tools/list_changed");
            }
            done.send(()).unwrap();
        });
    }
    for _ in 0..3 {
        all_done.recv_timeout(Duration::from_secs(60)).expect("no thread hangs or panics");
    }
}
