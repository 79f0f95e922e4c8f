//! Servers under test, on virtual time
//!
//! `mcp_blocking::testing::pair` makes a client of a [`Router`](crate::Router) in one thread, in memory, on virtual time: a
//! program on smol has `mcp-blocking` among its dependencies for tests, and nothing else of it.
//!
//! ```
//! use std::time::Duration;
//! use mcp_proto::{RawJson, RpcError, model::Tool};
//! use mcp_smol::{Cx, Router};
//!
//! let mut router = Router::new("harbour", "1.0");
//! let schema = RawJson::new(r#"{"type":"object"}"#).unwrap();
//! router.tool_with(Tool::new("tide", schema), async |cx: &mut Cx<'_>, _: serde_json::Value| {
//!     cx.sleep(Duration::from_secs(30)).await?; // over at once
//!     Ok::<_, RpcError>("high")
//! });
//!
//! let mut client = mcp_blocking::testing::pair(router)?;
//! let result = client.call_tool("tide", &serde_json::json!({}))?;
//! assert_eq!(result.content[0].as_text(), Some("high"));
//! # Ok::<(), mcp_smol::Error>(())
//! ```
//!
//! Handlers run at the same time, as they do elsewhere, and those whose calls are cancelled are dropped where they wait.
//! [`Cx::sleep`](crate::Cx::sleep) takes virtual time. Whatever else they wait for (timers and sockets of the runtime, other
//! threads) takes real time: they are given a second of it when nothing else is left to do, and then virtual time goes on
//! without them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Instant as Real;

use mcp_proto::Instant;
use mcp_proto::server::Event;
use mcp_std::catch;
use mcp_std::client::Actor;
use mcp_std::serve::{Desk, Host, Remote};

use crate::handler::{Handler, run, tell};
use crate::running::Running;

/// A handler for `mcp_blocking::testing::Server::of`
pub fn actor(handler: impl Handler + 'static) -> Box<dyn Actor> {
    let handler = Arc::new(handler);
    let start = {
        let handler = handler.clone();
        move |remote| {
            let handler = handler.clone();
            async move { run(&*handler, remote).await }
        }
    };
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    Box::new(Futures { handler, start, running: Running::new(&waker), beds: Arc::default(), given_up: false })
}

/// A handler and its futures
struct Futures<H, S, F> {
    handler: Arc<H>,
    start: S,
    running: Running<F>,
    beds: Arc<Beds>,
    /// Those that run now were given their time
    given_up: bool,
}

impl<H: Handler, S: Fn(Remote) -> F, F: Future<Output = ()>> Actor for Futures<H, S, F> {
    fn handle(&mut self, _: &mut dyn Host, desk: &mut Desk, event: Event) {
        if let Some(event) = desk.take_in(event) {
            tell(&*self.handler, &event);
        }
    }

    fn go_on(&mut self, host: &mut dyn Host, desk: &mut Desk) -> bool {
        self.beds.lock().now = host.now();
        let _here = Here::new(self.beds.clone());
        let mut moved = false;
        while let Some(remote) = desk.next_call(host) {
            self.running.start((), || (self.start)(remote));
            moved = true;
        }
        moved |= self.running.turn();
        let failed = &mut |call: &_, failure: &_| _ = catch(|| self.handler.failed(call, failure));
        moved |= desk.apply(host, failed);
        self.given_up &= !moved;
        moved
    }

    fn linger(&mut self) -> bool {
        let until = Real::now() + PATIENCE;
        let awake = |this: &Self| this.running.len() > this.beds.lock().asleep.len();
        while !self.given_up && awake(self) && !self.running.is_woken() {
            let left = until.saturating_duration_since(Real::now());
            self.given_up = left.is_zero();
            thread::park_timeout(left);
        }
        self.running.is_woken()
    }

    fn due(&self) -> Option<Instant> {
        self.beds.lock().asleep.keys().next().map(|(until, _)| *until)
    }

    fn wake(&mut self, now: Instant) {
        loop {
            let mut state = self.beds.lock();
            state.now = now;
            let Some(first) = state.asleep.first_entry().filter(|first| first.key().0 <= now) else { return };
            let waker = first.remove();
            drop(state);
            waker.wake();
        }
    }
}

/// Who sleeps on virtual time
#[derive(Debug, Default)]
struct Beds(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    now: Instant,
    /// By when they want to be woken
    asleep: BTreeMap<(Instant, u64), Waker>,
    last: u64,
}

impl Beds {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

std::thread_local! {
    /// Those of the handlers that are polled
    static HERE: RefCell<Option<Arc<Beds>>> = const { RefCell::new(None) };
}

/// While it lives, handlers that are polled on this thread sleep here; then as before
struct Here(Option<Arc<Beds>>);

impl Here {
    fn new(beds: Arc<Beds>) -> Self {
        Self(HERE.replace(Some(beds)))
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        HERE.set(self.0.take());
    }
}

/// Sleeps on virtual time; none where time is real
pub(crate) fn sleep(duration: Duration) -> Option<Sleep> {
    let beds = HERE.with_borrow(Clone::clone)?;
    let mut state = beds.lock();
    state.last += 1;
    let place = (state.now + duration, state.last);
    drop(state);
    Some(Sleep { beds, place })
}

/// See [`sleep`]
#[derive(Debug)]
pub(crate) struct Sleep {
    beds: Arc<Beds>,
    place: (Instant, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.beds.lock();
        if self.place.0 <= state.now {
            return Poll::Ready(());
        }
        state.asleep.insert(self.place, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let left = self.beds.lock().asleep.remove(&self.place);
        drop(left);
    }
}

/// Ends the thread's wait for what takes real time
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// How long what takes real time is waited for
const PATIENCE: Duration = Duration::from_secs(1);
