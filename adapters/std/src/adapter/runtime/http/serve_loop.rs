//! The loop of an HTTP server or of one of its shards.

use core::future::{Future, poll_fn};
use core::task::{Context, Poll};

use mcp_proto::Instant;

use super::InnerServer;
use super::socket_watch::SocketWatch;
use crate::Error;
use crate::adapter::runtime::Runtime;
use crate::adapter::runtime::deadline_timer::{DeadlineTimer, start_timer};
use crate::adapter::runtime::future_set::FutureSet;
use crate::adapter::runtime::server::MAX_TURNS;
use crate::adapter::server::{AsyncHandler, RemoteCall, StartTimer, run_call};
use crate::adapter::sync::CoalescingWaker;

/// Serves one shard, or the whole server if there is only one.
pub(super) async fn serve_shard<R: Runtime, H: AsyncHandler>(
    mut server: InnerServer<H>,
) -> Result<(), Error> {
    let coalescing_waker = CoalescingWaker::new();
    server.register(coalescing_waker.waker());
    let handler = server.handler().0.clone();
    let mut running = FutureSet::new(coalescing_waker.waker());
    let socket_watch = SocketWatch::new(&server)?;
    let mut serve_loop = ServeLoop::<R, H> {
        server,
        socket_watch,
        coalescing_waker,
        timer: DeadlineTimer::new(),
        is_armed: false,
        next_deadline: None,
    };
    poll_fn(|cx| {
        serve_loop.poll(cx, &mut running, &|remote| {
            run_call(&*handler, remote, StartTimer::Function(start_timer::<R>))
        })
    })
    .await
}

/// State of a running server or shard, without the futures of handlers.
struct ServeLoop<R: Runtime, H> {
    server: InnerServer<H>,
    socket_watch: SocketWatch<R>,
    /// Woken by handlers, handles and other shards.
    coalescing_waker: CoalescingWaker,
    timer: DeadlineTimer<R::Timer>,
    /// Whether the reactor watches what is in `socket_watch` and has reported nothing yet.
    is_armed: bool,
    /// Next time at which I/O is polled in any case.
    next_deadline: Option<Instant>,
}

impl<R: Runtime, H: AsyncHandler> ServeLoop<R, H> {
    /// Does the work that is possible now. Ready when the server has ended.
    fn poll<F: Future<Output = ()>>(
        &mut self,
        cx: &mut Context<'_>,
        running: &mut FutureSet<F>,
        start: &impl Fn(RemoteCall) -> F,
    ) -> Poll<Result<(), Error>> {
        self.coalescing_waker.begin_poll(cx.waker());
        self.is_armed = self.is_armed && !self.socket_watch.poll(cx, &self.server)?;
        for _ in 0..MAX_TURNS {
            self.coalescing_waker.mark_polling();
            let mut moved = running.poll_woken();
            if !self.is_armed || self.next_deadline.is_some_and(|at| at <= self.server.now()) {
                // Polling for readiness without waiting costs less than a wait.
                self.server.poll_io()?;
            }
            moved |= self
                .server
                .process_events(&mut |calls| calls.for_each(|remote| running.start((), || start(remote))));
            if self.server.is_over() {
                return Poll::Ready(Ok(()));
            }
            if !moved && !self.arm(cx)? && self.coalescing_waker.try_sleep() {
                return Poll::Pending;
            }
        }
        // Yield to the executor's other futures.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Registers for the next wake-up. Returns whether there may already be work.
    fn arm(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        self.next_deadline = self.server.prepare_wait()?;
        let now = self.server.now();
        let timeout = self.next_deadline.map(|at| at.saturating_duration_since(now));
        if !self.is_armed || SocketWatch::<R>::FOLLOWS_SOURCES {
            self.is_armed = !self.socket_watch.poll(cx, &self.server)?;
        }
        Ok(self.timer.poll(cx, timeout) || !self.is_armed)
    }
}
