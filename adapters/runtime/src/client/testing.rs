//! A client and a server for tests, connected in memory on one thread and on virtual time.
//!
//! Time passes only during a wait. A wait advances it immediately to the next deadline of either end.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::cell::RefCell;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;

use mcp_std::catch;
use mcp_std::poll::Interest;
use mcp_std::process::ShutdownTimeouts;

use crate::Error;
use crate::server as serve;
use crate::server::router::{Flavor, Router};
use crate::server::{Attachments, Backlog, Dispatcher, Handler, ServerLoop, StorePlace};
use mcp_proto::client::{Config, Engine, Event};
use mcp_proto::pipe::{self, Pipe};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Instant, server};

use super::transport::{ClientTransport, CloseAction, ExitInfo};

/// The server's end of a test: answers the events of the server engine.
pub trait TestPeer {
    /// Handles an event. A call may be answered later.
    fn handle(&mut self, server_loop: &mut dyn ServerLoop, dispatcher: &mut Dispatcher, event: server::Event);

    /// Receives a copy of a message; see [`Handler::tap`].
    fn tap(&mut self, record: &TapRecord);

    /// Runs work that is ready. Returns whether there was any.
    fn advance(&mut self, server_loop: &mut dyn ServerLoop, dispatcher: &mut Dispatcher) -> bool {
        let _ = (server_loop, dispatcher);
        false
    }

    /// Waits a moment of real time for work that does not depend on virtual time. Returns whether there was any.
    fn wait_real_time(&mut self) -> bool {
        false
    }

    /// Returns the earliest time at which a sleeping handler wakes.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Returns what the server gives to its loop; see [`Handler::attachments`].
    fn attachments(&mut self) -> Attachments {
        Attachments::default()
    }

    /// Wakes handlers that sleep until `now` or earlier.
    fn wake(&mut self, now: Instant) {
        let _ = now;
    }
}

/// A handler that answers each call immediately.
#[derive(Debug)]
pub struct Inline<H>(pub H);

impl<H: Handler> TestPeer for Inline<H> {
    fn handle(
        &mut self,
        server_loop: &mut dyn ServerLoop,
        dispatcher: &mut Dispatcher,
        event: server::Event,
    ) {
        serve::dispatch_event(server_loop, dispatcher, &mut self.0, &event);
    }

    fn tap(&mut self, record: &TapRecord) {
        let _ = catch(|| self.0.tap(record));
    }

    fn attachments(&mut self) -> Attachments {
        self.0.attachments()
    }
}

/// A server that can be put under test, for example the router of an adapter.
pub trait TestServer {
    /// Returns the configuration of the server and the peer that answers.
    ///
    /// # Errors
    ///
    /// [`Error::Register`] if an entry could not be registered.
    fn into_test_peer(self) -> Result<(server::Config, Box<dyn TestPeer>), Error>;
}

/// An adapter that tests routers of the flavour `F`.
pub trait TestRouter<F: Flavor> {
    /// Returns the peer that answers with the handlers of a router.
    fn test_peer(router: Router<F>) -> Box<dyn TestPeer>;
}

impl<F: Flavor<Adapter: TestRouter<F>>> TestServer for Router<F> {
    fn into_test_peer(self) -> Result<(server::Config, Box<dyn TestPeer>), Error> {
        Ok((self.config()?, F::Adapter::test_peer(self)))
    }
}

/// The client's end. The handler stays on the thread that created it, so it need not be `Send`.
#[derive(Debug)]
pub struct TestConnection {
    client: TestClientEnd,
    server_id: u64,
    /// The reason why the connection cannot continue.
    error: Option<io::Error>,
}

/// The state of the client's end that a running handler of the server can reach.
#[derive(Debug)]
struct TestClientEnd {
    pipe: pipe::Client,
    now: Instant,
    /// Events that arrived while a handler ran.
    events: VecDeque<Event>,
}

/// The server's end.
struct TestServerEnd {
    pipe: pipe::Server,
    backlog: Backlog,
    /// Holds no commands: there is no other thread.
    dispatcher: Dispatcher,
    peer: Box<dyn TestPeer>,
    /// Whether the client has received the end of the stream.
    is_eof_sent: bool,
}

thread_local! {
    /// The server ends of this thread.
    static SERVER_ENDS: RefCell<BTreeMap<u64, Box<TestServerEnd>>> = const { RefCell::new(BTreeMap::new()) };
}

static NEXT_SERVER_ID: AtomicU64 = AtomicU64::new(0);

impl TestConnection {
    /// Creates a client that has not sent anything yet, and its server.
    pub fn new(config: Config, server: server::Config, peer: Box<dyn TestPeer>) -> Self {
        let server = server.seal_by_default(|| {
            let anchor = mcp_std::Clock::start().anchor();
            Some((mcp_proto::seal::Keys::new(mcp_std::entropy::seed().ok()?), anchor))
        });
        let now = Instant::ZERO;
        let pipe = pipe::Server::new(Arc::new(server), now);
        let server_end = TestServerEnd {
            pipe,
            backlog: Backlog::default(),
            dispatcher: Dispatcher::new(MAX_CALLS),
            peer,
            is_eof_sent: false,
        };
        let server_id = NEXT_SERVER_ID.fetch_add(1, Ordering::Relaxed);
        SERVER_ENDS.with_borrow_mut(|ends| ends.insert(server_id, Box::new(server_end)));
        let pipe = pipe::Client::new(Arc::new(config), now);
        let client = TestClientEnd { pipe, now, events: VecDeque::new() };
        let mut connection = Self { client, server_id, error: None };
        if let Some(Err(error)) = connection.with_server_end(TestServerEnd::attach) {
            connection.error = Some(io::Error::other(error.to_string()));
        }
        connection
    }

    /// Sets on whose behalf the client calls.
    pub fn set_authorization(&mut self, authorization: server::Authorization) {
        let _ = self.with_server_end(|server, _| {
            let channel = server.pipe.channel();
            server.pipe.engine().set_authorization(channel, Some(authorization));
        });
    }

    /// Runs a function on the server's end. Returns `None` on another thread than the one that created it.
    fn with_server_end<T>(
        &mut self,
        f: impl FnOnce(&mut TestServerEnd, &mut TestClientEnd) -> T,
    ) -> Option<T> {
        // Removed from the map meanwhile, so that its handler may use a test connection itself.
        let taken = SERVER_ENDS.try_with(|ends| ends.borrow_mut().remove(&self.server_id)).ok().flatten();
        let mut server = taken?;
        let outcome = f(&mut server, &mut self.client);
        let _ = SERVER_ENDS.try_with(|ends| ends.borrow_mut().insert(self.server_id, server));
        Some(outcome)
    }

    fn fail(&mut self, why: &'static str) {
        self.error.get_or_insert_with(|| io::Error::other(why));
        let now = self.client.now;
        self.client.pipe.engine().close(now);
    }
}

impl TestClientEnd {
    /// Reads what has arrived, even while a handler runs: progress resets timeouts, and pings are answered.
    fn read(&mut self) {
        while self.events.len() < MAX_EVENTS {
            let Some(event) = self.pipe.poll_event(self.now) else { return };
            self.events.push_back(event);
        }
    }

    /// Advances the time to `at` and handles the deadlines of this end.
    fn advance_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
        if self.pipe.poll_timeout().is_some_and(|due| due <= self.now) {
            self.pipe.handle_timeout(self.now);
        }
        self.read();
    }
}

/// Moves output of one end to the other. Returns whether there was any.
fn transfer(from: &mut impl Pipe, to: &mut impl Pipe, now: Instant) -> bool {
    let bytes = from.transmit();
    if bytes.is_empty() || !(to.wants_input() || to.is_drained()) {
        return false;
    }
    let n = bytes.len();
    to.handle_input(now, bytes);
    from.consume(n);
    true
}

impl TestServerEnd {
    /// Takes what the handler gives to its loop. A store of tasks runs on this thread.
    fn attach(&mut self, client: &mut TestClientEnd) -> Result<(), Error> {
        let attachments = self.peer.attachments();
        let anchor = mcp_std::Clock::start().anchor();
        let Self { pipe, backlog, dispatcher, .. } = self;
        let server_loop = &mut TestLoop { pipe, backlog, client };
        attachments.install(dispatcher, server_loop, anchor, StorePlace::Inline)
    }

    /// Moves bytes in both directions and lets the client read. Returns whether there were any.
    fn transfer_both(&mut self, client: &mut TestClientEnd) -> bool {
        let mut moved = transfer(&mut self.pipe, &mut client.pipe, client.now);
        client.read();
        moved |= transfer(&mut client.pipe, &mut self.pipe, client.now);
        moved
    }

    /// Handles everything that has arrived. Returns whether there was anything.
    fn process(&mut self, client: &mut TestClientEnd) -> bool {
        let mut any = false;
        loop {
            let mut moved = self.transfer_both(client);
            while let Some(event) = self.backlog.pop().or_else(|| self.pipe.poll_event(client.now)) {
                moved = true;
                let Self { pipe, backlog, dispatcher, peer, .. } = self;
                if !matches!(event, server::Event::Closed { .. }) {
                    peer.handle(&mut TestLoop { pipe, backlog, client }, dispatcher, event);
                }
            }
            let Self { pipe, backlog, dispatcher, peer, .. } = self;
            moved |= peer.advance(&mut TestLoop { pipe, backlog, client }, dispatcher);
            moved |= dispatcher.process_messages(&mut TestLoop { pipe, backlog, client }, &mut |_, _| ());
            while let Some(record) = self.pipe.engine().poll_tap() {
                self.peer.tap(&record);
            }
            let over = self.pipe.is_drained();
            if over && !core::mem::replace(&mut self.is_eof_sent, true) {
                client.pipe.handle_eof(client.now);
                client.read();
                moved = true;
            }
            if !moved {
                return any;
            }
            any = true;
        }
    }

    /// Returns the time of the next work without input.
    fn next_deadline(&mut self) -> Option<Instant> {
        let deadlines =
            [self.pipe.poll_timeout(), self.peer.next_deadline(), self.dispatcher.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.peer.wake(now);
        if self.pipe.poll_timeout().is_some_and(|due| due <= now) {
            self.pipe.handle_timeout(now);
        }
    }

    /// Ends the stream, because the client has left.
    fn disconnect(&mut self, client: &mut TestClientEnd) {
        self.process(client);
        self.pipe.handle_eof(client.now);
        self.process(client);
    }
}

impl fmt::Debug for TestServerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServerEnd").field("pipe", &self.pipe).finish_non_exhaustive()
    }
}

/// Both ends, for a handler that runs.
struct TestLoop<'a> {
    pipe: &'a mut pipe::Server,
    backlog: &'a mut Backlog,
    client: &'a mut TestClientEnd,
}

impl fmt::Debug for TestLoop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestLoop").field("client", &self.client).finish_non_exhaustive()
    }
}

impl ServerLoop for TestLoop<'_> {
    fn engine(&mut self) -> &mut server::Engine {
        self.pipe.engine()
    }

    fn now(&self) -> Instant {
        self.client.now
    }

    /// Advances the time a little. Otherwise a handler that polls until its call is cancelled would never end.
    fn tick(&mut self) -> Instant {
        self.client.now = self.client.now + TICK;
        self.client.now
    }

    fn poll_event_during_call(&mut self) -> Option<server::Event> {
        let now = self.client.now;
        if self.backlog.is_full(self.pipe.engine().config().effective_limits()) {
            self.pipe.engine().poll_event(now)
        } else {
            self.pipe.poll_event(now)
        }
    }

    fn defer(&mut self, event: server::Event) {
        self.backlog.push(event);
    }

    fn write(&mut self) -> bool {
        let moved = transfer(self.pipe, &mut self.client.pipe, self.client.now);
        self.client.read();
        moved
    }

    fn wait(&mut self, until: Instant) {
        if transfer(&mut self.client.pipe, self.pipe, self.client.now) {
            return;
        }
        let deadlines = [self.client.pipe.poll_timeout(), self.pipe.poll_timeout()];
        let next = deadlines.into_iter().flatten().fold(until, Instant::min);
        self.client.advance_to(next);
        if self.pipe.poll_timeout().is_some_and(|due| due <= self.client.now) {
            self.pipe.handle_timeout(self.client.now);
        }
        let _ = transfer(&mut self.client.pipe, self.pipe, self.client.now);
    }
}

impl ClientTransport for TestConnection {
    fn engine(&mut self) -> &mut Engine {
        self.client.pipe.engine()
    }

    fn now(&self) -> Instant {
        self.client.now
    }

    fn tick(&mut self) -> Instant {
        self.client.now
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.client.events.pop_front().or_else(|| self.client.pipe.poll_event(self.client.now))
    }

    /// Writes nothing: bytes move only during a wait.
    fn write(&mut self) -> bool {
        false
    }

    fn wait(&mut self, until: Option<Instant>) {
        let waited = self.with_server_end(|server, client| {
            client.read();
            let progressed = server.process(client);
            let waits = until.is_none_or(|until| until > client.now);
            if !client.events.is_empty() || (progressed && !waits) {
                return true;
            }
            if waits && server.peer.wait_real_time() {
                server.process(client);
                return true;
            }
            let deadlines = [until, client.pipe.poll_timeout(), server.next_deadline()];
            let Some(next) = deadlines.into_iter().flatten().min() else { return false };
            client.advance_to(next);
            server.handle_timeout(client.now);
            server.process(client);
            true
        });
        match waited {
            Some(true) => {}
            Some(false) => {
                self.fail("the test would wait forever: no deadline is pending and no input can arrive")
            }
            None => self.fail("a test client works only on the thread that created it"),
        }
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        Some(self.client.now)
    }

    fn interest(&mut self) -> Interest {
        Interest::default()
    }

    fn close(&mut self) {
        let now = self.client.now;
        self.client.pipe.engine().close(now);
    }

    fn wait_closing(&mut self, until: Instant) {
        if self.error.is_some() || self.with_server_end(|server, client| server.process(client)) != Some(true)
        {
            self.client.now = self.client.now.max(until);
        }
    }

    fn is_drained(&self) -> bool {
        self.client.events.is_empty() && self.client.pipe.is_drained()
    }

    fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    fn exit_info(&mut self, _: Duration) -> ExitInfo {
        ExitInfo::default()
    }

    fn take_close_action(&mut self, _: ShutdownTimeouts, _: Instant) -> CloseAction {
        let _ = self.with_server_end(|server, client| server.disconnect(client));
        CloseAction::Nothing
    }
}

impl Drop for TestConnection {
    fn drop(&mut self) {
        // On another thread, the server's end stays until its own thread ends.
        let left = SERVER_ENDS.try_with(|ends| ends.borrow_mut().remove(&self.server_id));
        drop(left);
    }
}

/// Time that passes with each look at the clock.
const TICK: Duration = Duration::from_micros(1);
/// Maximum number of events kept while a handler runs. Further input is read afterwards.
const MAX_EVENTS: usize = 4096;
/// Maximum number of calls at work at the same time.
const MAX_CALLS: usize = 1024;
