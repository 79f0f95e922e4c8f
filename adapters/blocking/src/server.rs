//! Serving: one loop that reads, runs handlers, and writes

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::pipe::{self, Pipe};
#[cfg(feature = "crypto")]
use mcp_proto::seal::Keys;
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{Fault, Instant};
use mcp_std::{Duplex, Stdio, catch};

use mcp_std::Error;
use mcp_std::drive::Drive;
use mcp_std::serve::{self, Backlog, Handler, Host};

/// Serves on this process' stdin and stdout until the input ends or the client is gone
///
/// Calls that came before the end of input are still answered, so `printf … | server` works: those that are in work or
/// wait when the end is read have [`Limits::eof_grace`](mcp_proto::Limits) (5 s) in all; what is not answered by then is
/// cancelled. The end is read when no more than [`Limits::max_waiting`](mcp_proto::Limits) calls wait for the handler.
/// It is over earlier when nobody reads the output any more, and when the input has ended and nothing moves for that
/// long: so many calls wait that the end cannot be read, and none is finished, or the output is not taken.
///
/// While it runs, stdout
/// belongs to the stream: what else is printed there goes to stderr (on Unix; see
/// [`Stdio::guarded`](mcp_std::Stdio::guarded)).
///
/// # Errors
///
/// [`Error::Io`] when the handles cannot be had, or the stream breaks otherwise than by the client leaving;
/// [`Error::Closed`] when the client sent too much garbage ([`Limits::max_faulty`](mcp_proto::Limits)).
pub fn serve_stdio(config: Config, handler: impl Handler) -> Result<(), Error> {
    let mut server = Server::new(config, Stdio::guarded()?, handler);
    server.state.drive.relax();
    server.run()
}

/// Serves one client on any byte stream until it ends its side or is gone
///
/// ```
/// use mcp_blocking::{Call, Cx, serve};
/// use mcp_proto::{Capabilities, Capability, model::CallToolResult, server::Config};
///
/// let (near, far) = mcp_std::memory_pair(4096);
/// let server = std::thread::spawn(move || {
///     let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
///     serve(config, near, |cx: &mut Cx<'_>, call: &Call| cx.complete(&CallToolResult::text(call.tool()?.name)))
/// });
/// let mut client = mcp_blocking::Client::connect(mcp_proto::client::Config::new("me", "1.0"), far)?;
/// let result = client.call_tool("any", &serde_json::json!({}))?;
/// assert_eq!(result.content[0].as_text(), Some("any"));
/// client.close()?;
/// server.join().unwrap()?;
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
///
/// # Errors
///
/// As [`serve_stdio`].
pub fn serve<D: Duplex>(config: Config, stream: D, handler: impl Handler) -> Result<(), Error> {
    Server::new(config, stream, handler).run()
}

/// A server on one byte stream, for who wants to hold the loop: to stop it, or to do something else now and then
///
/// Handlers run one at a time, on the thread that is in [`run`](Self::run) or [`poll`](Self::poll).
#[derive(Debug)]
pub struct Server<D, H> {
    handler: H,
    stream: D,
    state: State,
    /// When what is left is given up, once it was told to shut down
    gives_up: Option<Instant>,
    fault: Option<Fault>,
}

impl<D: Duplex, H: Handler> Server<D, H> {
    /// A server that has not begun to read
    pub fn new(config: Config, stream: D, handler: H) -> Self {
        Self { handler, stream, state: State::new(config), gives_up: None, fault: None }
    }

    /// Serves to the end
    ///
    /// # Errors
    ///
    /// As [`serve_stdio`].
    pub fn run(mut self) -> Result<(), Error> {
        while self.turn(None)? {}
        Ok(())
    }

    /// Waits for something to do, at most for `timeout`, and does it; false when everything is over
    ///
    /// # Errors
    ///
    /// As [`serve_stdio`]; it is over then, too.
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        let until = self.state.drive.tick() + timeout;
        self.turn(Some(until))
    }

    /// Takes no more requests; ends when those in work are answered and written, or after `grace`
    ///
    /// To be followed by [`poll`](Self::poll) until that says that it is over.
    pub fn shutdown(&mut self, grace: Duration) {
        let now = self.state.drive.tick();
        self.state.pipe.shutdown(now, grace);
        self.gives_up = Some(now + grace);
    }

    /// The engine, for commands such as a notification; what they write goes out with the next [`poll`](Self::poll)
    pub const fn engine(&mut self) -> &mut Engine {
        self.state.pipe.engine()
    }

    /// The channel that the stream is, for the engine's commands
    pub const fn channel(&self) -> mcp_proto::ChannelId {
        self.state.pipe.channel()
    }

    /// The time, for the engine's commands
    pub fn now(&mut self) -> Instant {
        self.state.drive.tick()
    }

    /// The handler
    pub const fn handler(&mut self) -> &mut H {
        &mut self.handler
    }

    /// One turn of the loop; false when everything is over
    fn turn(&mut self, until: Option<Instant>) -> Result<bool, Error> {
        let until = until.into_iter().chain(self.gives_up).min();
        if !self.state.pipe.is_drained() {
            self.show_tap();
            self.state.write(&mut self.stream);
            self.state.wait(&mut self.stream, until);
            if self.gives_up.is_some_and(|at| at <= self.state.drive.now()) {
                self.state.pipe.abort(self.state.drive.now(), &Fault::Closed);
            }
        }
        self.settle();
        if !self.state.pipe.is_drained() {
            return Ok(true);
        }
        // Only a stream that writes behind our back has anything left to do.
        let flushed = self.stream.flush(self.state.pipe.engine().config().get_limits().eof_grace);
        match (self.state.drive.take_error(), self.fault.take(), flushed) {
            (Some(error), ..) => Err(Error::Io(error)),
            (None, Some(fault @ Fault::Garbage { .. }), _) => Err(Error::closed(fault)),
            (None, _, Err(error)) if !mcp_std::is_peer_gone(&error) => Err(Error::Io(error)),
            _ => Ok(false),
        }
    }

    /// Handles everything that was read, then writes everything, until there is nothing left to do but wait
    fn settle(&mut self) {
        loop {
            while let Some(event) = self.state.next_event() {
                self.handle(event);
                self.show_tap();
            }
            self.show_tap();
            if !self.state.write(&mut self.stream) {
                return;
            }
        }
    }

    fn show_tap(&mut self) {
        while let Some(record) = self.state.pipe.engine().poll_tap() {
            let _ = catch(|| self.handler.tap(&record));
        }
    }

    fn handle(&mut self, event: Event) {
        if let Event::Closed { fault, .. } = event {
            self.fault = Some(fault);
            return;
        }
        let is_call = matches!(event, Event::Call(_));
        if is_call {
            self.state.gather(&mut self.stream);
        }
        let mut host = OnStream { state: &mut self.state, stream: &mut self.stream };
        serve::handle(&mut host, &mut self.handler, &event);
        if is_call {
            self.state.gives_up = None;
        }
    }
}

/// A stream and all that is known of it, for a handler that runs
struct OnStream<'a> {
    state: &'a mut State,
    stream: &'a mut dyn Duplex,
}

impl Host for OnStream<'_> {
    fn engine(&mut self) -> &mut Engine {
        self.state.pipe.engine()
    }

    fn now(&self) -> Instant {
        self.state.drive.now()
    }

    fn tick(&mut self) -> Instant {
        self.state.drive.tick()
    }

    fn next_meanwhile(&mut self) -> Option<Event> {
        let now = self.state.drive.now();
        // The end of calls is told even then.
        if self.state.is_congested() {
            self.state.pipe.engine().poll_event(now)
        } else {
            self.state.pipe.poll_event(now)
        }
    }

    fn defer(&mut self, event: Event) {
        self.state.backlog.push(event);
    }

    fn write(&mut self) -> bool {
        self.state.write(self.stream)
    }

    fn wait(&mut self, until: Instant) {
        self.state.wait(self.stream, Some(until));
    }
}

impl core::fmt::Debug for OnStream<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("OnStream").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Everything but the stream and the handler
#[derive(Debug)]
struct State {
    pipe: pipe::Server,
    drive: Drive,
    backlog: Backlog,
    /// Answers that were not written at once, so that one write may do for several
    gathered: u32,
    /// Calls for which that is not done, because handlers are slow
    eager: u32,
    /// When the client, which has ended its direction, is given up unless something moves
    gives_up: Option<Instant>,
    /// When it is looked next whether it has left
    next_look: Instant,
}

impl State {
    fn new(config: Config) -> Self {
        let mut drive = Drive::new();
        let now = drive.tick();
        // Without a source of randomness nothing can be kept between two rounds, and everything else works.
        #[cfg(feature = "crypto")]
        let config =
            config.seal_by_default(|| Some((Keys::new(mcp_std::entropy::seed().ok()?), drive.anchor())));
        Self {
            pipe: pipe::Server::new(Arc::new(config), now),
            drive,
            backlog: Backlog::default(),
            gathered: 0,
            eager: 0,
            gives_up: None,
            next_look: Instant::ZERO,
        }
    }

    fn next_event(&mut self) -> Option<Event> {
        let Some(event) = self.backlog.pop() else { return self.pipe.poll_event(self.drive.now()) };
        self.gives_up = None;
        Some(event)
    }

    /// Whether so much waits for the handler to return that no more is taken in
    fn is_congested(&mut self) -> bool {
        self.backlog.is_full(self.pipe.engine().config().get_limits())
    }

    /// Writes what there is as far as it goes now; whether anything went
    fn write(&mut self, stream: &mut dyn Duplex) -> bool {
        let moved = self.drive.write(&mut self.pipe, stream);
        // A handler that all others wait for is not excused by what it reports.
        if moved && !self.is_congested() {
            self.gives_up = None;
        }
        if self.drive.is_cut_off() && !self.pipe.is_drained() {
            // Whom should we work for?
            self.pipe.abort(self.drive.now(), &Fault::Eof);
        }
        moved
    }

    /// Waits for the stream or a deadline, at most until `until`
    fn wait(&mut self, stream: &mut dyn Duplex, until: Option<Instant>) {
        let reads = !self.is_congested();
        // Who is not read from, or was to the end, could leave unnoticed.
        let blind = !reads || !self.pipe.wants_input();
        let look = blind.then_some(self.next_look);
        self.drive.wait(&mut self.pipe, stream, reads, until.into_iter().chain(look).min());
        self.gathered = 0;
        if blind && self.drive.now() >= self.next_look {
            self.next_look = self.drive.now() + LOOK;
            self.look_for_client(stream);
        }
    }

    /// Ends it all when the client is gone, or has ended its direction and nothing moves any more
    fn look_for_client(&mut self, stream: &mut dyn Duplex) {
        let now = self.drive.now();
        // What it fails with, reading and writing fail with too.
        let hung_up = stream.hung_up().unwrap_or_default();
        if hung_up.input || self.drive.is_at_end() {
            let grace = self.pipe.engine().config().get_limits().eof_grace;
            // Calls in work after the end are the engine's matter, as long as it could read that.
            let stuck = self.is_congested() || !self.pipe.transmit().is_empty();
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

    /// Called before a handler runs: answers of others wait for it only while handlers are fast
    ///
    /// The clock is looked at for every eighth of them, which is noticed neither by fast handlers nor, as it goes on
    /// being `eager` once it found a slow one, by those who wait for slow ones.
    fn gather(&mut self, stream: &mut dyn Duplex) {
        if self.pipe.transmit().is_empty() {
            return;
        }
        self.gathered = self.gathered.wrapping_add(1);
        if self.eager > 0 {
            self.eager -= 1;
        } else if self.gathered % 8 == 1 && self.drive.since_tick() > GATHER {
            self.eager = EAGER;
        } else {
            return;
        }
        self.write(stream);
    }
}

/// How often it is looked whether the client is still there, while nothing is read from it
const LOOK: Duration = Duration::from_millis(250);
/// How long an answer waits for the handlers of other calls that were read along with it
const GATHER: Duration = Duration::from_millis(10);
/// For how many calls nothing waits after that was exceeded
const EAGER: u32 = 64;
