//! Serving: one future that reads, runs handlers, and writes

use alloc::sync::Arc;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::pipe::{self, Pipe};
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{Fault, Instant};
use mcp_std::drive::Drive;
use mcp_std::nudge::Nudge;
use mcp_std::serve::{Desk, Handle, Host, Remote};
use mcp_std::{Error, HungUp, catch};

use crate::handler::{Handler, run, tell};
use crate::io::Polled;
use crate::running::Running;
use crate::timer::Deadline;

/// Serves on this process' stdin and stdout until the input ends or the client is gone
///
/// Calls that came before the end of input are still answered, so `printf … | server` works: those that are in work or
/// wait when the end is read have [`Limits::eof_grace`](mcp_proto::Limits) (5 s) in all; what is not answered by then is
/// cancelled. It is over earlier when nobody reads the output any more, and when the input has ended and nothing moves for
/// that long: so many calls are in work and wait that the end cannot be read, or the output is not taken.
///
/// Pipes, sockets and terminals are watched by the reactor, files are read as they are. While it runs, stdout belongs to
/// the stream: what else is printed there goes to stderr ([`Stdio::guarded`](mcp_std::Stdio::guarded)). There on Unix only.
///
/// # Errors
///
/// [`Error::Io`] when the handles cannot be had, or the stream breaks otherwise than by the client leaving;
/// [`Error::Closed`] when the client sent too much garbage ([`Limits::max_faulty`](mcp_proto::Limits)).
#[cfg(unix)]
pub async fn serve_stdio(config: Config, handler: impl Handler) -> Result<(), Error> {
    Server::stdio(config, handler)?.run().await
}

/// Serves one client on any byte stream until it ends its side or is gone
///
/// One future does it all: it reads, writes, lets deadlines pass and polls the futures of handlers, those that were woken.
/// It runs on any executor, and can move between threads if the handler's futures can. Dropping it drops the stream and
/// what handlers are at.
///
/// ```
/// use std::os::unix::net::UnixStream;
///
/// use async_io::Async;
/// use mcp_proto::{Capabilities, Capability, model::CallToolResult, server::Config};
/// use mcp_smol::{Call, Cx, serve};
///
/// let (near, far) = Async::<UnixStream>::pair()?;
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// let server = serve(config, near, async |cx: &mut Cx<'_>, call: &Call| {
///     cx.complete(&CallToolResult::text(call.tool()?.name))
/// });
/// # drop(far);
/// mcp_smol::block_on(server)?;
/// # Ok::<(), mcp_smol::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Io`] when the stream breaks otherwise than by the client leaving; [`Error::Closed`] when the client sent too
/// much garbage ([`Limits::max_faulty`](mcp_proto::Limits)).
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    config: Config,
    stream: S,
    handler: impl Handler,
) -> Result<(), Error> {
    Server::new(config, stream, handler).run().await
}

/// A server on one byte stream, for who wants to tell it something while it runs
#[derive(Debug)]
pub struct Server<S, H> {
    stream: S,
    handler: H,
    state: State<S>,
}

impl<S: AsyncRead + AsyncWrite + Unpin, H: Handler> Server<S, H> {
    /// A server that has not begun to read
    pub fn new(config: Config, stream: S, handler: H) -> Self {
        Self { stream, handler, state: State::new(config, MAX_RUNNING) }
    }

    /// How many calls run at a time (default 1,024; at least 1); more wait, within
    /// [`Limits::max_waiting`](mcp_proto::Limits) and [`max_waiting_bytes`](mcp_proto::Limits), and then reading pauses
    #[must_use]
    pub fn max_running(mut self, calls: usize) -> Self {
        self.state.desk.limit(calls);
        self
    }

    /// For commands to the server while it runs
    pub fn handle(&self) -> Handle {
        Handle::new(self.state.desk.commands())
    }

    /// Serves to the end
    ///
    /// # Errors
    ///
    /// As [`serve`].
    pub async fn run(self) -> Result<(), Error> {
        let Self { mut stream, handler, mut state } = self;
        let mut running = Running::new(state.nudge.waker());
        state.desk.register(state.nudge.waker());
        poll_fn(|cx| state.poll(cx, &mut stream, &handler, &mut running, &|remote| run(&handler, remote)))
            .await?;
        // Nobody is told any more.
        drop(running);
        state.finish(&mut stream).await
    }
}

#[cfg(unix)]
impl<H: Handler> Server<crate::Stdio, H> {
    /// A server on this process' stdin and stdout, both of which it takes from the rest of the program: see
    /// [`serve_stdio`]
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the handles cannot be had.
    pub fn stdio(config: Config, handler: H) -> Result<Self, Error> {
        let mut server = Self::new(config, crate::Stdio::guarded()?, handler);
        server.state.drive.relax();
        server.state.hung_up = crate::Stdio::hung_up;
        Ok(server)
    }
}

/// Everything but the stream and the handlers
#[derive(Debug)]
struct State<S> {
    pipe: pipe::Server,
    drive: Drive,
    desk: Desk,
    /// What handlers and handles wake
    nudge: Nudge,
    deadline: Deadline,
    /// What was written may not have left
    unflushed: bool,
    /// When what is left is given up, once it was told to shut down
    ends_at: Option<Instant>,
    /// When the client, which has ended its direction, is given up unless something moves
    gives_up: Option<Instant>,
    /// When it is looked next whether it has left
    next_look: Instant,
    /// How that is found out
    hung_up: fn(&mut S) -> HungUp,
    /// Calls for which the clock is looked at, because handlers are slow
    eager: u32,
    fault: Option<Fault>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> State<S> {
    fn new(config: Config, most: usize) -> Self {
        let mut drive = Drive::new();
        let now = drive.tick();
        // Without a source of randomness nothing can be kept between two rounds, and everything else works.
        #[cfg(feature = "crypto")]
        let config = config.seal_when_asked(|| Some((mcp_std::entropy::seed().ok()?, drive.anchor())));
        Self {
            pipe: pipe::Server::new(Arc::new(config), now),
            drive,
            desk: Desk::new(most),
            nudge: Nudge::new(),
            deadline: Deadline::new(),
            unflushed: false,
            ends_at: None,
            gives_up: None,
            next_look: Instant::ZERO,
            hung_up: |_| HungUp::default(),
            eager: 0,
            fault: None,
        }
    }

    /// Does what can be done now; ready when everything is over
    fn poll<H: Handler, F: Future<Output = ()>>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
        handler: &H,
        running: &mut Running<F>,
        start: &impl Fn(Remote) -> F,
    ) -> Poll<Result<(), Error>> {
        self.nudge.begin(cx.waker());
        for _ in 0..TURNS {
            self.nudge.look();
            // What woke it is input most of the time. Written is whatever came of it.
            let mut moved = self.read(cx, stream);
            moved |= self.take_in(handler, running, start);
            moved |= running.turn();
            moved |= self.apply(handler);
            self.show_tap(handler);
            moved |= self.write(cx, stream);
            if self.pipe.is_drained() {
                return Poll::Ready(Ok(()));
            }
            if !moved && self.nudge.rest() {
                return Poll::Pending;
            }
        }
        // Others want to have their turn, too.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Hands what was read to the handlers; whether there was anything
    fn take_in<H: Handler, F: Future<Output = ()>>(
        &mut self,
        handler: &H,
        running: &mut Running<F>,
        start: &impl Fn(Remote) -> F,
    ) -> bool {
        let mut moved = false;
        loop {
            let now = self.drive.now();
            // The end of calls is told even when no more of them are taken in.
            let congested = self.is_congested();
            let event =
                if congested { self.pipe.engine().poll_event(now) } else { self.pipe.poll_event(now) };
            let Some(event) = event else { break };
            moved = true;
            match event {
                Event::Closed { fault, .. } => self.fault = Some(fault),
                event => {
                    if let Some(event) = self.desk.take_in(event) {
                        tell(handler, &event);
                    }
                }
            }
        }
        let mut started = 0_u32;
        let mut host = OnPipe { pipe: &mut self.pipe, drive: &mut self.drive, ends_at: &mut self.ends_at };
        while let Some(remote) = self.desk.next_call(&mut host) {
            running.start((), || start(remote));
            moved = true;
            started += 1;
            // What is answered waits for others only while handlers are fast.
            self.eager = self.eager.saturating_sub(1);
            if (self.eager > 0 || started % 8 == 0) && host.drive.since_tick() > GATHER {
                self.eager = EAGER;
                break;
            }
        }
        if moved {
            self.gives_up = None;
        }
        moved
    }

    /// Does what handlers and handles have to say; whether there was anything
    fn apply<H: Handler>(&mut self, handler: &H) -> bool {
        let mut host = OnPipe { pipe: &mut self.pipe, drive: &mut self.drive, ends_at: &mut self.ends_at };
        self.desk.apply(&mut host, &mut |call, failure| _ = catch(|| handler.failed(call, failure)))
    }

    fn show_tap<H: Handler>(&mut self, handler: &H) {
        while let Some(record) = self.pipe.engine().poll_tap() {
            let _ = catch(|| handler.tap(&record));
        }
    }

    /// Whether so much waits for handlers that no more is taken in
    fn is_congested(&mut self) -> bool {
        self.desk.is_congested(self.pipe.engine().config().get_limits())
    }

    /// Writes what there is as far as it goes now; whether anything went
    fn write(&mut self, cx: &mut Context<'_>, stream: &mut S) -> bool {
        let mut polled = Polled::new(stream, cx);
        let moved = self.drive.write(&mut self.pipe, &mut polled);
        self.unflushed |= moved;
        if moved {
            self.gives_up = None;
        }
        if self.unflushed && !self.drive.is_cut_off() {
            // What fails here fails the next write, too.
            self.unflushed = Pin::new(stream).poll_flush(cx).is_pending();
        }
        if self.drive.is_cut_off() && !self.pipe.is_drained() {
            // Whom should we work for?
            self.pipe.abort(self.drive.now(), &Fault::Eof);
            return true;
        }
        moved
    }

    /// Reads what there is, and lets deadlines pass; whether anything came of it
    fn read(&mut self, cx: &mut Context<'_>, stream: &mut S) -> bool {
        let reads = !self.is_congested();
        // Who is not read from, or was to the end, could leave unnoticed.
        let blind = !reads || !self.pipe.wants_input();
        let look = blind.then_some(self.next_look);
        let mut polled = Polled::new(stream, cx);
        let until = self.ends_at.into_iter().chain(look).min();
        self.drive.wait(&mut self.pipe, &mut polled, reads, until);
        let (mut moved, timeout) = (polled.moved, polled.timeout);
        moved |= self.deadline.poll(cx, timeout);
        let now = self.drive.now();
        if blind && now >= self.next_look {
            self.next_look = now + LOOK;
            moved = true;
            self.look_for_client(stream);
        }
        if self.ends_at.is_some_and(|at| at <= now) {
            self.ends_at = None;
            moved = true;
            // Those whose calls are given up are told so, as far as it goes now.
            self.write(cx, stream);
            self.pipe.abort(now, &Fault::Closed);
        }
        moved
    }

    /// Ends it all when the client is gone, or has ended its direction and nothing moves any more
    fn look_for_client(&mut self, stream: &mut S) {
        let now = self.drive.now();
        let hung_up = (self.hung_up)(stream);
        if hung_up.input || self.drive.is_at_end() {
            let grace = self.pipe.engine().config().get_limits().eof_grace;
            // Calls in work after the end are the engine's matter, as long as it could read that.
            let unread = self.is_congested() || self.pipe.is_stalled();
            let stuck = unread || !self.pipe.transmit().is_empty();
            let until = *self.gives_up.get_or_insert(now + grace);
            if stuck && until <= now {
                self.pipe.abort(now, &Fault::Eof);
            } else if !stuck {
                self.gives_up = None;
            }
        }
        if hung_up.output && !self.pipe.is_drained() {
            self.pipe.abort(now, &Fault::Eof);
        }
    }

    /// Says how it ended, once what was written has left
    async fn finish(mut self, stream: &mut S) -> Result<(), Error> {
        let grace = self.pipe.engine().config().get_limits().eof_grace;
        let closed = if self.drive.is_cut_off() { Ok(()) } else { close(stream, grace).await };
        match (self.drive.take_error(), self.fault.take(), closed) {
            (Some(error), ..) => Err(Error::Io(error)),
            (None, Some(fault @ Fault::Garbage { .. }), _) => Err(Error::closed(fault)),
            (None, _, Err(error)) if !mcp_std::is_peer_gone(&error) => Err(Error::Io(error)),
            _ => Ok(()),
        }
    }
}

/// Has the rest leave that was written, and ends our direction
async fn close<S: AsyncWrite + Unpin>(stream: &mut S, grace: Duration) -> std::io::Result<()> {
    let mut timer = async_io::Timer::after(grace);
    poll_fn(|cx| match Pin::new(&mut *stream).poll_close(cx) {
        Poll::Pending => Pin::new(&mut timer).poll(cx).map(|_| Err(std::io::ErrorKind::TimedOut.into())),
        closed => closed,
    })
    .await
}

/// A pipe's engine and its clock, for what is done between two turns
struct OnPipe<'a> {
    pipe: &'a mut pipe::Server,
    drive: &'a mut Drive,
    ends_at: &'a mut Option<Instant>,
}

impl Host for OnPipe<'_> {
    #[inline]
    fn engine(&mut self) -> &mut Engine {
        self.pipe.engine()
    }

    #[inline]
    fn now(&self) -> Instant {
        self.drive.now()
    }

    #[inline]
    fn tick(&mut self) -> Instant {
        self.drive.tick()
    }

    #[inline]
    fn shutdown(&mut self, grace: Duration) {
        let now = self.drive.tick();
        self.pipe.shutdown(now, grace);
        *self.ends_at = Some(now + grace);
    }

    // No handler runs on the loop itself: nothing has to be kept moving for it.

    #[inline]
    fn next_meanwhile(&mut self) -> Option<Event> {
        None
    }

    #[inline]
    fn defer(&mut self, _: Event) {}

    #[inline]
    fn write(&mut self) -> bool {
        false
    }

    #[inline]
    fn wait(&mut self, _: Instant) {}
}

/// Calls that run at a time, unless told otherwise
pub(crate) const MAX_RUNNING: usize = 1024;
/// Turns before other futures of the executor have theirs
pub(crate) const TURNS: u32 = 16;
/// How often it is looked whether the client is still there, while nothing is read from it
const LOOK: Duration = Duration::from_millis(250);
/// How long an answer waits for the handlers of other calls that were read along with it
const GATHER: Duration = Duration::from_millis(10);
/// For how many calls nothing waits after that was exceeded
const EAGER: u32 = 64;
