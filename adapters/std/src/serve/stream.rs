//! Serving a byte stream: one loop that reads, has handlers run, and writes

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use mcp_proto::pipe::{self, Pipe};
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{Change, Fault, Instant};

use super::desk::{Commands, Desk};
use super::handler::Handler;
use super::host::{self, Backlog, Host};
use super::remote::Remote;
use crate::drive::Drive;
use crate::inbox::Refused;
use crate::{Duplex, Error, catch};

/// A server on one byte stream, for who wants to hold the loop: to stop it, or to do something else now and then
///
/// Its loop is turned by the thread that is in [`run`](Self::run) or [`poll`](Self::poll). Handlers run there, one at a
/// time, unless they [run elsewhere](Self::away).
pub struct Server<D, H> {
    handler: H,
    stream: D,
    state: State,
    desk: Desk,
    /// Takes calls to where their handlers run; none if that is here
    away: Option<Box<Away>>,
    /// The loop can be woken
    wakes: bool,
    /// There was more to do than one turn is for
    busy: bool,
    fault: Option<Fault>,
}

/// Takes calls to where their handlers run
pub type HandOut<'a> = dyn FnMut(&mut dyn Iterator<Item = Remote>) + 'a;
/// The same, kept by a loop
pub(super) type Away = dyn FnMut(&mut dyn Iterator<Item = Remote>) + Send;

impl<D: Duplex, H: Handler> Server<D, H> {
    /// A server that has not begun to read
    pub fn new(config: Config, stream: D, handler: H) -> Self {
        let (state, desk) = (State::new(config), Desk::new(1));
        Self { handler, stream, state, desk, away: None, wakes: false, busy: false, fault: None }
    }

    /// Has little looked at while nothing happens: for one connection per process, see [`Drive::relax`]
    pub const fn relax(&mut self) {
        self.state.drive.relax();
    }

    /// Has handlers run elsewhere: `run` takes the calls to them, `most` of them at a time (at least 1)
    ///
    /// The handler that the server has only hears what is no call. To be said before it runs.
    ///
    /// # Errors
    ///
    /// Those of [`Duplex::waker`].
    pub fn away(
        &mut self,
        most: usize,
        run: impl FnMut(&mut dyn Iterator<Item = Remote>) + Send + 'static,
    ) -> Result<(), Error> {
        self.desk.limit(most);
        self.away = Some(Box::new(run));
        self.wake()
    }

    /// What gives it commands from other threads
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when waiting for the stream cannot be ended from elsewhere: see [`Duplex::waker`].
    pub fn handle(&mut self) -> Result<Handle, Error> {
        self.wake()?;
        Ok(Handle::new(self.desk.commands()))
    }

    fn wake(&mut self) -> Result<(), Error> {
        if !self.wakes {
            self.desk.register(&self.stream.waker()?);
            self.wakes = true;
        }
        Ok(())
    }

    /// Serves to the end
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the stream breaks otherwise than by the client leaving; [`Error::Closed`] when the client sent
    /// too much garbage ([`Limits::max_faulty`](mcp_proto::Limits)).
    pub fn run(mut self) -> Result<(), Error> {
        while self.turn(None)? {}
        Ok(())
    }

    /// Waits for something to do, at most for `timeout`, and does it; false when everything is over
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); it is over then, too.
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        let until = self.state.drive.tick() + timeout;
        self.turn(Some(until))
    }

    /// Takes no more requests; ends when those in work are answered and written, or after `grace`
    ///
    /// To be followed by [`poll`](Self::poll) until that says that it is over.
    pub fn shutdown(&mut self, grace: Duration) {
        self.state.shutdown(grace);
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
        let at_once = core::mem::take(&mut self.busy).then(|| self.state.drive.now());
        let until = until.into_iter().chain(self.state.ends_at).chain(at_once).min();
        if !self.state.pipe.is_drained() {
            self.show_tap();
            self.state.write(&mut self.stream);
            self.state.congested = self.desk.is_congested(self.state.pipe.engine().config().get_limits());
            self.state.wait(&mut self.stream, until);
            if self.state.ends_at.is_some_and(|at| at <= self.state.drive.now()) {
                // Those whose calls are given up are told so, as far as it goes now.
                self.state.write(&mut self.stream);
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
            (None, _, Err(error)) if !crate::is_peer_gone(&error) => Err(Error::Io(error)),
            _ => Ok(false),
        }
    }

    /// Handles everything that was read or reported, then writes everything, until there is nothing left to do but wait,
    /// or it is time to look at the stream again
    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            let (handler, stream) = (&mut self.handler, &mut self.stream);
            let mut host = OnStream { state: &mut self.state, stream };
            self.desk.apply(&mut host, &mut |call, failure| _ = catch(|| handler.failed(call, failure)));
            while let Some(event) = self.next_event() {
                self.take(event);
                self.show_tap();
            }
            // Where calls waited there may be room for more, which were read already.
            let mut moved = self.hand_out();
            self.show_tap();
            moved |= self.state.write(&mut self.stream);
            if !moved {
                return;
            }
        }
        self.busy = true;
    }

    fn next_event(&mut self) -> Option<Event> {
        self.state.congested = self.desk.is_congested(self.state.pipe.engine().config().get_limits());
        self.state.next_event()
    }

    fn show_tap(&mut self) {
        while let Some(record) = self.state.pipe.engine().poll_tap() {
            let _ = catch(|| self.handler.tap(&record));
        }
    }

    fn take(&mut self, event: Event) {
        if let Event::Closed { fault, .. } = event {
            self.fault = Some(fault);
            return;
        }
        let event = if self.away.is_some() { self.desk.take_in(event) } else { Some(event) };
        let Some(event) = event else { return };
        let is_call = matches!(event, Event::Call(_));
        if is_call {
            self.state.gather(&mut self.stream);
        }
        let mut host = OnStream { state: &mut self.state, stream: &mut self.stream };
        host::handle(&mut host, &mut self.desk, &mut self.handler, &event);
        if is_call {
            self.state.gives_up = None;
        }
    }

    /// Has handlers run elsewhere for the calls that may run now; whether there were any
    fn hand_out(&mut self) -> bool {
        let Some(away) = &mut self.away else { return false };
        let mut any = false;
        let mut host = OnStream { state: &mut self.state, stream: &mut self.stream };
        away(&mut core::iter::from_fn(|| self.desk.next_call(&mut host)).inspect(|_| any = true));
        if any {
            self.state.gives_up = None;
        }
        any
    }
}

impl<D: fmt::Debug, H: fmt::Debug> fmt::Debug for Server<D, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("handler", &self.handler)
            .field("stream", &self.stream)
            .field("state", &self.state)
            .field("desk", &self.desk)
            .finish_non_exhaustive()
    }
}

/// Gives commands to a server that runs, from any thread; clones are the same
///
/// What is said here is done soon, in order, as long as the server runs.
#[derive(Clone, Debug)]
pub struct Handle(Commands);

impl Handle {
    /// To a server that hears these commands
    #[must_use]
    pub const fn new(commands: Commands) -> Self {
        Self(commands)
    }

    /// Has the server take no more requests, and end when those in work are answered and written, or after `grace`
    pub fn shutdown(&self, grace: Duration) {
        // Refused by a server that is over.
        let _ = self.0.send_due(move |host| host.shutdown(grace));
    }

    /// Tells everybody who wants to know that something has changed; however much waits for the server, they are told,
    /// once for all that is published meanwhile
    ///
    /// When there are very many resources among that, all who follow any are told.
    ///
    /// # Errors
    ///
    /// [`Refused::Closed`] when the server is over.
    pub fn publish(&self, change: &Change) -> Result<(), Refused<()>> {
        self.0.publish(change.clone())
    }

    /// Does something with the engine, such as sending a notification
    ///
    /// # Errors
    ///
    /// [`Refused`] when the server is over, or 1,024 commands wait for it.
    pub fn with_engine(
        &self,
        command: impl FnOnce(&mut Engine, Instant) + Send + 'static,
    ) -> Result<(), Refused<()>> {
        self.0.send(move |host| {
            let now = host.now();
            command(host.engine(), now);
        })
    }

    /// Whether the server is over
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.is_closed()
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
        self.state.poll_event()
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

    fn shutdown(&mut self, grace: Duration) {
        self.state.shutdown(grace);
    }
}

/// Everything but the stream and the handler
#[derive(Debug)]
struct State {
    pipe: pipe::Server,
    drive: Drive,
    backlog: Backlog,
    /// So much waits for handlers that run elsewhere that no more is taken in
    congested: bool,
    /// When what is left is given up, once it was told to shut down
    ends_at: Option<Instant>,
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
        let config = config.seal_when_asked(|| Some((crate::entropy::seed().ok()?, drive.anchor())));
        Self {
            pipe: pipe::Server::new(Arc::new(config), now),
            drive,
            backlog: Backlog::default(),
            congested: false,
            ends_at: None,
            gathered: 0,
            eager: 0,
            gives_up: None,
            next_look: Instant::ZERO,
        }
    }

    fn next_event(&mut self) -> Option<Event> {
        let Some(event) = self.backlog.pop() else { return self.poll_event() };
        self.gives_up = None;
        Some(event)
    }

    fn poll_event(&mut self) -> Option<Event> {
        let now = self.drive.now();
        // The end of calls is told even then.
        if self.is_congested() { self.pipe.engine().poll_event(now) } else { self.pipe.poll_event(now) }
    }

    fn shutdown(&mut self, grace: Duration) {
        let now = self.drive.tick();
        self.pipe.shutdown(now, grace);
        self.ends_at = Some(now + grace);
    }

    /// Whether so much waits for handlers to return that no more is taken in
    fn is_congested(&mut self) -> bool {
        self.congested || self.backlog.is_full(self.pipe.engine().config().get_limits())
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

/// Rounds of handling and writing before input is looked for again, however much is to be done
pub(super) const ROUNDS: u32 = 16;
/// How often it is looked whether the client is still there, while nothing is read from it
const LOOK: Duration = Duration::from_millis(250);
/// How long an answer waits for the handlers of other calls that were read along with it
const GATHER: Duration = Duration::from_millis(10);
/// For how many calls nothing waits after that was exceeded
const EAGER: u32 = 64;
