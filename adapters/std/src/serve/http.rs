//! Serving HTTP: one loop for all connections and their streams

mod shards;
mod state;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddr;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::net::ToSocketAddrs;

use mcp_proto::h1::Limits;
use mcp_proto::http::server::{self as http, Denial};
use mcp_proto::seal::Keys;
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{Change, Entropy, Instant};

use self::state::State;
use super::desk::{Commands, Desk};
use super::handler::Handler;
use super::host::{self, Host};
use super::peers::Peers;
use super::remote::Remote;
use super::stream::{Away, HandOut, Handle, ROUNDS};
use crate::{Error, Listener, catch, entropy};

/// A server over HTTP, on one thread: all connections, their streams, and the handlers
///
/// A handler runs on the loop's thread, unless handlers [run elsewhere](Self::away): while it runs, no connection moves,
/// except inside of the methods of [`Cx`](super::Cx) that say so ([`progress`](super::Cx::progress),
/// [`checkpoint`](super::Cx::checkpoint), [`sleep`](super::Cx::sleep)), which move all of them. So a slow handler stops
/// everybody: this is for local tools and for few clients.
///
/// 64 connections are open at a time ([`max_connections`](Self::max_connections)), those included that carry a stream of
/// events. Who comes then gets the place of a connection that is kept alive and was not used for a second, or waits; so
/// does who comes when no descriptor is left.
///
/// Whoever can reach the address can use the server. Listen at `127.0.0.1` or `[::1]` unless it is meant for others
/// (HTTP-006); what is let in besides is in [`http::server::Config`](http::Config). For the open network there is TLS with the
/// feature of that name (`HttpServer::tls`), or put a proxy in front.
pub struct HttpServer<H> {
    handler: H,
    state: State,
    desk: Desk,
    /// Takes calls to where their handlers run; none if that is here
    away: Option<Box<Away>>,
    /// Ends waiting
    waker: Option<Waker>,
    /// There was more to do than one turn is for
    busy: bool,
}

impl<H: Handler> HttpServer<H> {
    /// Begins to listen; connections are accepted while the loop runs
    ///
    /// `address` is one such as `127.0.0.1:8080`; with port 0 the system chooses one: [`address`](Self::address).
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the address cannot be had, there is no source of randomness, a tool's schema asks for header
    /// fields that cannot be, [`Handler::tools`] panics, or the platform cannot wait for many sockets.
    pub fn bind(
        address: impl ToSocketAddrs,
        config: Config,
        http: http::Config,
        handler: H,
    ) -> Result<Self, Error> {
        let peers = Peers::new(Listener::bind(address)?)?;
        let seed = entropy::seed()?;
        let anchor = peers.anchor();
        // Its own, so that what is sealed has nothing to do with ids of sessions.
        let keys = entropy::seed()?;
        let config = Arc::new(config.seal_by_default(|| Some((Keys::new(keys), anchor))));
        let http = Arc::new(http);
        Self::of(State::new(peers, config, http, Entropy::new(seed, entropy::nonce())), handler)
    }

    fn of(mut state: State, mut handler: H) -> Result<Self, Error> {
        state.tell_tools(&mut handler)?;
        Ok(Self { handler, state, desk: Desk::new(1), away: None, waker: None, busy: false })
    }

    /// Has handlers run elsewhere: `run` takes the calls to them, `most` of them at a time (at least 1)
    ///
    /// The handler that the server has only hears what is no call. When more calls wait than may, further requests are
    /// refused with 503. To be said before it runs.
    ///
    /// # Errors
    ///
    /// Those of [`Selector::waker`](crate::Selector::waker).
    pub fn away(
        &mut self,
        most: usize,
        run: impl FnMut(&mut dyn Iterator<Item = Remote>) + Send + 'static,
    ) -> Result<(), Error> {
        self.desk.limit(most);
        self.away = Some(Box::new(run));
        let waker = self.waker()?;
        self.desk.register(&waker);
        Ok(())
    }

    /// What gives it commands from other threads
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system has no descriptor left that could end its waiting.
    pub fn handle(&mut self) -> Result<Handle, Error> {
        let waker = self.waker()?;
        self.desk.register(&waker);
        Ok(Handle::new(self.desk.commands()))
    }

    fn waker(&mut self) -> Result<Waker, Error> {
        if let Some(waker) = &self.waker {
            return Ok(waker.clone());
        }
        Ok(self.waker.insert(self.state.peers.waker()?).clone())
    }

    /// How many connections may be open at a time (default 64; at least 1)
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.state.peers.max = connections.max(1);
        self
    }

    /// The bounds of connections, such as how slow a client may be; how long a body may be is said by
    /// [`Limits::max_frame`](mcp_proto::Limits), whatever stands here
    #[must_use]
    pub fn connection_limits(mut self, limits: Limits) -> Self {
        self.state.peers.limits = limits;
        self.state.peers.limits.max_body = u64::MAX;
        self
    }

    /// Speaks TLS to all clients; one that does not is let go
    ///
    /// The handshake may take as long as the head of a request ([`connection_limits`](Self::connection_limits)). A
    /// connection holds up to 32 KiB more in each direction while it moves data, and about 8 KiB when it is idle.
    ///
    /// ```no_run
    /// use mcp_proto::{http, model::CallToolResult, server::{Call, Config}};
    /// use mcp_std::{serve::{Cx, HttpServer}, tls::ServerTls};
    ///
    /// let tls = ServerTls::from_files("chain.pem", "key.pem")?;
    /// let http = http::server::Config::new().allow_host("tools.example.com");
    /// let handler = |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text("hello"));
    /// HttpServer::bind("[::]:8443", Config::new("demo", "1.0"), http, handler)?.tls(tls).run()?;
    /// # Ok::<(), mcp_std::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: impl Into<crate::tls::ServerTls>) -> Self {
        self.state.peers.tls = Some(tls.into());
        self
    }

    /// Has [`Handler::head`] see the heads of requests and responses
    #[must_use]
    pub const fn tap_heads(mut self) -> Self {
        self.state.peers.heads = true;
        self
    }

    /// Where it listens
    ///
    /// # Errors
    ///
    /// What the operating system says; when it was told to shut down.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.state.peers.address()
    }

    /// Connections that are open, of all [shards](Self::shards)
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.peers.count()
    }

    /// Serves until [shut down](Self::shutdown), which only who holds the loop can do: for ever
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    pub fn run(mut self) -> Result<(), Error> {
        while self.turn(None)? {}
        Ok(())
    }

    /// Waits for something to do, at most for `timeout`, and does it; false when everything is over
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system does not let it wait; what goes wrong with a connection ends that one.
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        let until = self.state.peers.tick() + timeout;
        self.turn(Some(until))
    }

    /// Accepts nobody any more; ends when calls in work are answered and written, or after `grace`
    ///
    /// To be followed by [`poll`](Self::poll) until that says that it is over.
    pub fn shutdown(&mut self, grace: Duration) {
        Host::shutdown(&mut self.state, grace);
    }

    /// The server itself; what its commands write goes out with the next [`poll`](Self::poll)
    pub const fn server(&mut self) -> &mut http::Server {
        &mut self.state.server
    }

    /// The engine, for commands such as a notification; what they write goes out with the next [`poll`](Self::poll)
    pub const fn engine(&mut self) -> &mut Engine {
        self.state.server.engine()
    }

    /// Tells everybody who wants to know that something has changed; how many that are
    pub fn publish(&mut self, change: &Change) -> usize {
        self.state.tell(change)
    }

    /// The time, for the engine's commands
    pub fn now(&mut self) -> Instant {
        self.state.peers.tick()
    }

    /// The handler
    pub const fn handler(&mut self) -> &mut H {
        &mut self.handler
    }

    // For loops that wait by other means and run handlers themselves, as futures: `look` when the selector may have
    // something, `go_on`, and `arm` before a wait.

    /// How many calls may run at a time, for a loop that [runs them itself](Self::go_on) (at least 1)
    pub fn max_running(&mut self, calls: usize) {
        self.desk.limit(calls);
    }

    /// For whoever wants something done on the loop
    #[must_use]
    pub fn commands(&self) -> Commands {
        self.desk.commands()
    }

    /// Has `waker` woken, instead of the selector, by what handlers, [commands](Self::commands) and other
    /// [shards](Self::shards) have to say from now on; to be followed by [`go_on`](Self::go_on)
    pub fn register(&self, waker: &Waker) {
        self.desk.register(waker);
        self.state.crossings.register(waker);
    }

    /// Sees what can be read, written and accepted, without waiting
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system does not let it look.
    pub fn look(&mut self) -> Result<(), Error> {
        let now = self.state.peers.tick();
        self.state.wait_until(Some(now));
        self.state.error.take().map_or(Ok(()), |error| Err(Error::Io(error)))
    }

    /// Does what there is to do, and gives the calls to `run` that may run now; whether there was anything
    ///
    /// The handler that the server has only hears what is no call.
    pub fn go_on(&mut self, run: &mut HandOut<'_>) -> bool {
        self.state.peers.tick();
        self.act(Some(run))
    }

    /// Brings up to date what the selector waits for; when to [look](Self::look) and [go on](Self::go_on) at the latest
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system does not let it wait.
    pub fn arm(&mut self) -> Result<Option<Instant>, Error> {
        let reads = self.state.reads();
        let due = self.state.peers.arm(&mut self.state.server, reads)?;
        Ok(due.into_iter().chain(self.state.ends_at).min())
    }

    /// Whether it was told to shut down, and nobody is connected any more
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state.peers.is_over()
    }

    /// One turn of the loop; false when everything is over
    fn turn(&mut self, until: Option<Instant>) -> Result<bool, Error> {
        let at_once = core::mem::take(&mut self.busy).then(|| self.state.peers.now());
        let until = until.into_iter().chain(self.state.ends_at).chain(at_once).min();
        // Commands may have been given since.
        self.state.write();
        self.show_tap();
        if !self.state.peers.is_over() {
            self.state.wait_until(until);
            if let Some(error) = self.state.error.take() {
                return Err(Error::Io(error));
            }
        }
        let mut away = self.away.take();
        self.act(away.as_mut().map(|away| &mut **away as &mut HandOut<'_>));
        self.away = away;
        Ok(!self.state.peers.is_over())
    }

    /// Does everything there is to do now; whether there was anything
    fn act(&mut self, mut away: Option<&mut HandOut<'_>>) -> bool {
        if self.state.ends_at.is_some_and(|at| at <= self.state.peers.now()) {
            // Those whose calls are given up are told so, as far as it goes now.
            self.state.write();
            self.state.peers.abandon(&mut self.state.server);
        }
        // One after the other, so that nobody's answer waits for what others want.
        let mut moved = self.settle(away.as_deref_mut());
        while self.state.next_peer() {
            moved = true;
            self.settle(away.as_deref_mut());
        }
        moved
    }

    /// Handles everything that was read or reported, then writes everything, until there is nothing left to do but wait,
    /// or others want to have their turn; whether there was anything
    fn settle(&mut self, mut away: Option<&mut HandOut<'_>>) -> bool {
        let mut any = false;
        for _ in 0..ROUNDS {
            let mut moved = self.state.cross();
            moved |= self.apply();
            while let Some(event) = self.state.next_event() {
                self.show_tap();
                self.take(event, away.is_some());
                moved = true;
            }
            if let Some(away) = &mut away {
                away(&mut core::iter::from_fn(|| self.desk.next_call(&mut self.state)));
                // Those that were done at once need no other round.
                moved |= self.apply();
            }
            let overloaded = self.desk.is_congested(self.state.config.get_limits());
            self.state.server.set_overloaded(overloaded);
            if core::mem::take(&mut self.state.tools_changed) {
                // What cannot be used is not checked; it was told of at the start.
                let _ = self.state.tell_tools(&mut self.handler);
            }
            moved |= self.judge();
            moved |= self.state.write();
            self.show_tap();
            if !moved {
                return any;
            }
            any = true;
        }
        self.busy = true;
        any
    }

    /// Does what handlers that run elsewhere and commands have to say; whether there was anything
    fn apply(&mut self) -> bool {
        let Self { handler, state, desk, .. } = self;
        desk.apply(state, &mut |call, failure| _ = catch(|| handler.failed(call, failure)))
    }

    fn take(&mut self, event: Event, elsewhere: bool) {
        let event = if elsewhere { self.desk.take_in(event) } else { Some(event) };
        let Some(event) = event else { return };
        if matches!(event, Event::Call(_)) {
            // Whoever waits for the answers to other calls need not wait for this handler.
            self.state.write();
        }
        host::handle(&mut self.state, &mut self.desk, &mut self.handler, &event);
        // However long that took: what is written next was not waiting meanwhile.
        self.state.peers.tick();
        if core::mem::take(&mut self.state.tools_changed) {
            let _ = self.state.tell_tools(&mut self.handler);
        }
    }

    /// Has the handler judge the tokens that came; whether there were any
    fn judge(&mut self) -> bool {
        let mut any = false;
        while let Some((exchange, token)) = self.state.held.pop_front() {
            any = true;
            let verdict = catch(|| self.handler.token(&token));
            let (now, server) = (self.state.peers.tick(), &mut self.state.server);
            match verdict {
                Ok(Ok(principal)) => server.grant(now, exchange, &principal),
                Ok(Err(denial)) => server.deny(now, exchange, &denial),
                Err(_) => server.deny(now, exchange, &Denial::InvalidToken),
            }
            self.state.peers.drive(server, exchange);
        }
        any
    }

    fn show_tap(&mut self) {
        while let Some(record) = self.state.peers.poll_head() {
            let _ = catch(|| self.handler.head(&record));
        }
        while let Some(record) = self.state.server.engine().poll_tap() {
            let _ = catch(|| self.handler.tap(&record));
        }
    }
}

/// Readable when there is something for [`look`](HttpServer::look) to find
#[cfg(target_os = "linux")]
impl<H> std::os::fd::AsFd for HttpServer<H> {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.state.peers.as_fd()
    }
}

impl<H: fmt::Debug> fmt::Debug for HttpServer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer")
            .field("handler", &self.handler)
            .field("state", &self.state)
            .field("desk", &self.desk)
            .finish_non_exhaustive()
    }
}
