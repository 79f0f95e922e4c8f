//! The server on a byte stream as a future: streams that are cut anywhere, and futures that are dropped.

extern crate alloc;

#[path = "support/lines.rs"]
mod lines;
mod support;

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::task::Wake;
use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use embedded_io_async::{ErrorKind, ErrorType, Read, Write};
use mcp_embedded::Application;
use mcp_embedded::serial::Timer;
use mcp_proto::server::{Engine, Event};
use mcp_proto::sync::Arc;
use mcp_proto::{CallId, Instant, RawJson};
use serde_json::Value;

use crate::lines::{START, call, messages, server};

/// One direction of a stream. Its futures are free of side effects when they are dropped.
#[derive(Default)]
struct Direction {
    bytes: VecDeque<u8>,
    /// Bytes that may be moved now, and the wakers of those who wait for more.
    allowed: usize,
    has_ended: bool,
    fails: bool,
    wakers: Vec<Waker>,
}

#[derive(Clone, Default)]
struct End(Rc<RefCell<Direction>>);

impl End {
    fn allow(&self, bytes: usize) {
        let mut direction = self.0.borrow_mut();
        direction.allowed += bytes;
        direction.wakers.drain(..).for_each(Waker::wake);
    }

    fn feed(&self, bytes: &[u8]) {
        self.0.borrow_mut().bytes.extend(bytes);
        self.allow(bytes.len());
    }

    fn messages(&self) -> Vec<Value> {
        let bytes: Vec<u8> = self.0.borrow().bytes.iter().copied().collect();
        messages(&bytes)
    }
}

impl ErrorType for End {
    type Error = ErrorKind;
}

impl Read for End {
    async fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ErrorKind> {
        poll_fn(|cx| {
            let mut direction = self.0.borrow_mut();
            if core::mem::take(&mut direction.fails) {
                return Poll::Ready(Err(ErrorKind::Other));
            }
            let n = bytes.len().min(direction.allowed).min(direction.bytes.len());
            if n == 0 && !(direction.has_ended && direction.bytes.is_empty()) {
                direction.wakers.push(cx.waker().clone());
                return Poll::Pending;
            }
            direction.allowed -= n;
            for (place, byte) in bytes.iter_mut().zip(direction.bytes.drain(..n)) {
                *place = byte;
            }
            Poll::Ready(Ok(n))
        })
        .await
    }
}

impl Write for End {
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, ErrorKind> {
        poll_fn(|cx| {
            let mut direction = self.0.borrow_mut();
            let n = bytes.len().min(direction.allowed);
            if n == 0 {
                direction.wakers.push(cx.waker().clone());
                return Poll::Pending;
            }
            direction.allowed -= n;
            direction.bytes.extend(&bytes[..n]);
            Poll::Ready(Ok(n))
        })
        .await
    }

    async fn flush(&mut self) -> Result<(), ErrorKind> {
        panic!("nothing waits for the other end")
    }
}

/// A clock that the test sets.
#[derive(Clone)]
struct Clock(Rc<RefCell<State>>);

/// The time, and those who sleep.
type State = (Instant, Vec<(Instant, Waker)>);

impl Clock {
    fn new() -> Self {
        Self(Rc::new(RefCell::new((START, Vec::new()))))
    }

    fn pass(&self, time: Duration) {
        let (now, sleepers) = &mut *self.0.borrow_mut();
        *now = *now + time;
        sleepers.retain(|(at, waker)| {
            if at <= now {
                waker.wake_by_ref();
            }
            at > now
        });
    }
}

impl Timer for Clock {
    fn now(&self) -> Instant {
        self.0.borrow().0
    }

    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> {
        poll_fn(move |cx| {
            let (now, sleepers) = &mut *self.0.borrow_mut();
            if at <= *now {
                return Poll::Ready(());
            }
            sleepers.push((at, cx.waker().clone()));
            Poll::Pending
        })
    }
}

/// Answers each call ten milliseconds later.
#[derive(Default)]
struct Calls {
    open: Vec<(CallId, Instant)>,
    done: usize,
}

const WORK: Duration = Duration::from_millis(10);

impl Application for Calls {
    fn handle_event(&mut self, now: Instant, _: &mut Engine, event: Event) {
        if let Event::Call(call) = event {
            self.open.push((call.id(), now + WORK));
        }
    }

    fn poll(&mut self, now: Instant, engine: &mut Engine) -> Option<Instant> {
        let result = RawJson::new("{\"content\":[]}").expect("JSON");
        let done = &mut self.done;
        self.open.retain(|(call, at)| {
            let is_due = *at <= now;
            if is_due {
                engine.complete_raw(now, *call, &result).expect("an open call");
                *done += 1;
            }
            !is_due
        });
        self.open.iter().map(|(_, at)| *at).min()
    }
}

/// Wakes by a flag.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A task that is polled only after it was woken.
struct Task {
    flag: Arc<Flag>,
}

impl Task {
    fn new() -> Self {
        let flag = Arc::new(Flag::default());
        flag.0.store(true, Ordering::SeqCst);
        Self { flag }
    }

    /// Polls until the future waits. Returns its output if it is ready.
    fn run<F: Future>(&self, mut future: Pin<&mut F>) -> Option<F::Output> {
        let waker = Waker::from(self.flag.clone());
        while self.flag.0.swap(false, Ordering::SeqCst) {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(output);
            }
        }
        None
    }
}

#[test]
fn stream_in_pieces_of_any_size_is_served_until_its_end() {
    let input = [call(1), call(2), call(3)].concat();
    for piece in [1, 2, 7, 64, 128, 129, 10_000] {
        let (rx, tx, clock) = (End::default(), End::default(), Clock::new());
        let (mut server, mut app) = (server(), Calls::default());
        let mut serving = pin!(server.serve(rx.clone(), tx.clone(), clock.clone(), &mut app));
        let task = Task::new();
        for bytes in input.chunks(piece) {
            rx.feed(bytes);
            tx.allow(piece);
            assert!(task.run(serving.as_mut()).is_none());
        }
        rx.0.borrow_mut().has_ended = true;
        rx.allow(0);
        let mut outcome = None;
        for _ in 0..10_000 {
            clock.pass(Duration::from_millis(1));
            tx.allow(piece);
            outcome = task.run(serving.as_mut());
            if outcome.is_some() {
                break;
            }
        }
        assert_eq!(outcome, Some(Ok(())), "pieces of {piece}");
        let messages = tx.messages();
        assert_eq!(messages.len(), 3, "pieces of {piece}");
        assert!(messages.iter().all(|message| message["result"].is_object()), "pieces of {piece}");
    }
}

#[test]
fn output_that_waits_does_not_hold_up_input() {
    let (rx, tx, clock) = (End::default(), End::default(), Clock::new());
    let (mut server, mut app) = (server(), Calls::default());
    let mut serving = pin!(server.serve(rx.clone(), tx.clone(), clock.clone(), &mut app));
    let task = Task::new();
    rx.feed(&call(1));
    assert!(task.run(serving.as_mut()).is_none());
    clock.pass(WORK);
    assert!(task.run(serving.as_mut()).is_none());
    assert!(tx.messages().is_empty(), "the stream takes nothing");
    rx.feed(&call(2));
    assert!(task.run(serving.as_mut()).is_none());
    assert!(rx.0.borrow().bytes.is_empty(), "the second call was read");
    tx.allow(10_000);
    clock.pass(WORK);
    assert!(task.run(serving.as_mut()).is_none());
    assert_eq!(tx.messages().len(), 2);
}

#[test]
fn future_that_is_dropped_at_each_step_loses_nothing() {
    let (rx, tx, clock) = (End::default(), End::default(), Clock::new());
    let (mut server, mut app) = (server(), Calls::default());
    let mut step = |rx: &End, tx: &End, clock: &Clock| {
        let mut serving = pin!(server.serve(rx.clone(), tx.clone(), clock.clone(), &mut app));
        assert!(Task::new().run(serving.as_mut()).is_none());
    };
    for id in 1..=4 {
        for bytes in call(id).chunks(5) {
            rx.feed(bytes);
            step(&rx, &tx, &clock);
        }
        clock.pass(WORK);
        for _ in 0..100 {
            tx.allow(3);
            step(&rx, &tx, &clock);
        }
    }
    let ids: Vec<Value> = tx.messages().iter().map(|message| message["id"].clone()).collect();
    assert_eq!(ids, [1, 2, 3, 4]);
}

#[test]
fn error_of_the_stream_ends_the_future_and_the_next_one_goes_on() {
    let (rx, tx, clock) = (End::default(), End::default(), Clock::new());
    let (mut server, mut app) = (server(), Calls::default());
    tx.allow(10_000);
    rx.feed(&call(1));
    {
        let mut serving = pin!(server.serve(rx.clone(), tx.clone(), clock.clone(), &mut app));
        let task = Task::new();
        assert!(task.run(serving.as_mut()).is_none());
        rx.0.borrow_mut().fails = true;
        rx.allow(0);
        assert_eq!(task.run(serving.as_mut()), Some(Err(ErrorKind::Other)));
    }
    clock.pass(WORK);
    let mut serving = pin!(server.serve(rx.clone(), tx.clone(), clock.clone(), &mut app));
    assert!(Task::new().run(serving.as_mut()).is_none());
    assert_eq!(tx.messages().len(), 1);
}
