//! The clients of a socket that share one server: byte streams of one engine, in one loop.

use alloc::sync::Arc;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;

use mcp_proto::frame::line::{Line, LineDecoder};
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{ChannelId, Fault, Instant};
use mcp_runtime::server::longest_unused;
use mcp_std::Clock;
use mcp_std::io::{
    Descriptors, Duplex as _, Interest, Socket as Stream, SocketControl, StreamListener,
    is_resource_exhausted,
};
use mcp_std::poll::{PollHandles, WaitRequest};

use super::downstream::{Downstream, give_tasks, with_defaults};
use super::notice::{Notice, Operator};

/// A socket, whose clients share the servers of a proxy.
///
/// There is neither encryption nor authorization: everybody who can reach the address can use the servers.
#[derive(Debug)]
pub struct Socket {
    /// `None` after the shutdown has begun.
    listener: Option<StreamListener>,
    max_clients: usize,
    idle_end: Option<Duration>,
}

impl Socket {
    /// Serves the clients of this listener, at most 64 at a time.
    #[must_use]
    pub const fn new(listener: StreamListener) -> Self {
        Self { listener: Some(listener), max_clients: MAX_CLIENTS, idle_end: None }
    }

    /// Sets the maximum number of clients. Others take the place of one that is silent or was not used for 10 minutes, or are closed at
    /// once. Beyond 64 the descriptor limit is raised as far as possible.
    #[must_use]
    pub const fn max_clients(mut self, clients: usize) -> Self {
        self.max_clients = clients;
        self
    }

    /// Ends the proxy when there was no client for this time.
    #[must_use]
    pub const fn end_after(mut self, idle: Duration) -> Self {
        self.idle_end = Some(idle);
        self
    }
}

/// Clients on the byte streams of a socket.
pub(super) struct SocketDownstream {
    engine: Engine,
    socket: Socket,
    clients: Vec<Client>,
    /// Time until which no client is accepted, because the system had no descriptor for one.
    accepts_at: Option<Instant>,
    operator: Arc<dyn Operator>,
    clock: Clock,
    now: Instant,
    error: Option<io::Error>,
    shutdown_deadline: Option<Instant>,
    /// Time at which the transport ends without a client; `None` while there are clients.
    idle_deadline: Option<Instant>,
}

struct Client {
    channel: ChannelId,
    stream: Stream,
    control: SocketControl,
    decoder: LineDecoder,
    /// Time at which the client is closed: without a first line, or if it does not read its last messages.
    deadline: Option<Instant>,
    state: ClientState,
    /// Whether its place is of another client.
    is_evicted: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum ClientState {
    Open,
    /// The input has ended. What is decoded yet comes first.
    Ended,
    /// The engine knows of the end.
    Ending,
    /// The engine has closed the channel. What it wrote is still sent until the deadline of the client.
    Closed,
}

impl Client {
    /// Returns whether more input can be taken.
    fn wants_input(&self, engine: &Engine) -> bool {
        // Messages that were not decoded yet are bounded as well.
        let has_room =
            self.decoder.buffered() <= engine.config().effective_limits().max_frame.saturating_mul(2);
        self.state == ClientState::Open && has_room && !engine.is_stalled(self.channel)
    }

    /// Reads once.
    fn read(&mut self, scratch: &mut [u8]) {
        match self.stream.read(scratch) {
            Ok(0) => self.state = ClientState::Ended,
            Ok(n) => self.decoder.push(scratch.get(..n).unwrap_or_default()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.state = ClientState::Ended,
        }
    }

    /// Decodes a message, or the end of the input. Returns false if there is none, or if the engine takes none now.
    fn decode_next(&mut self, engine: &mut Engine, now: Instant) -> bool {
        if matches!(self.state, ClientState::Ending | ClientState::Closed) || engine.is_stalled(self.channel)
        {
            return false;
        }
        match self.decoder.next_line() {
            Some(line) => {
                // One that is too long is answered, and is no message.
                if matches!(line, Line::Frame(_)) {
                    self.deadline = None;
                }
                engine.handle_line(now, self.channel, line);
            }
            None if self.state == ClientState::Ended => {
                self.state = ClientState::Ending;
                engine.handle_eof(now, self.channel);
            }
            None => return false,
        }
        true
    }

    /// Writes as much as possible. Returns whether anything was written.
    fn write(&mut self, engine: &mut Engine, now: Instant) -> bool {
        let mut moved = false;
        while let Some(outbox) = engine.outbox(self.channel).filter(|outbox| !outbox.is_empty()) {
            match self.stream.write(outbox.transmit()) {
                Ok(0) => break,
                Ok(n) => outbox.consume(n),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => break,
                // The client can no longer receive answers, so its calls are aborted.
                Err(_) => engine.close_channel(now, self.channel, &Fault::Eof),
            }
            moved = true;
        }
        moved
    }
}

impl SocketDownstream {
    /// Creates the transport.
    pub(super) fn new(config: Config, socket: Socket, operator: Arc<dyn Operator>) -> Self {
        if socket.max_clients > MAX_CLIENTS {
            // Without it there are fewer clients.
            let _ = mcp_std::io::raise_descriptor_limit();
        }
        let clock = Clock::start();
        let (now, anchor) = (clock.now(), clock.anchor());
        let mut engine = Engine::new(with_defaults(config, anchor));
        give_tasks(&mut engine, now, anchor);
        Self {
            engine,
            socket,
            clients: Vec::new(),
            accepts_at: None,
            operator,
            clock,
            now,
            error: None,
            shutdown_deadline: None,
            idle_deadline: None,
        }
    }

    /// Lets go of the listener if there was no client for long enough. One that is about to come is accepted before this.
    fn end_if_idle(&mut self) {
        let Some(idle) = self.socket.idle_end.filter(|_| self.clients.is_empty()) else {
            self.idle_deadline = None;
            return;
        };
        if *self.idle_deadline.get_or_insert(self.now + idle) <= self.now {
            self.socket.listener = None;
        }
    }

    fn accept(&mut self) {
        if self.accepts_at.is_some_and(|at| at > self.now) {
            return;
        }
        self.accepts_at = None;
        while let Some(listener) = &self.socket.listener {
            match listener.accept() {
                Ok(Some(stream)) => self.add(stream),
                Ok(None) => return,
                Err(error) if is_resource_exhausted(&error) => {
                    // Linux reports exhaustion even if no connection waits.
                    let handles = PollHandles { read: Some(listener.as_fd()), ..PollHandles::default() };
                    if handles.wait(Some(Duration::ZERO)).is_ok_and(|ready| ready.read) {
                        self.evict_one();
                        self.accepts_at = Some(self.now + EXHAUSTED_PAUSE);
                    }
                    return;
                }
                Err(error) => {
                    self.error.get_or_insert(error);
                    return;
                }
            }
        }
    }

    fn add(&mut self, mut stream: Stream) {
        let evicted = self.clients.iter().filter(|client| client.is_evicted).count();
        if self.clients.len() - evicted >= self.socket.max_clients && !self.evict_one() {
            // Closed by the end of this function.
            self.operator.notice(&Notice::NoPlace(self.socket.max_clients));
            return;
        }
        let channel = self.engine.open_channel(self.now);
        let decoder = self.engine.line_decoder();
        let deadline = Some(self.now + FIRST_LINE_TIMEOUT);
        let (control, state) = (stream.control(), ClientState::Open);
        self.clients.push(Client { channel, stream, control, decoder, deadline, state, is_evicted: false });
    }

    /// Closes the client that was silent for longest, or else the one idle for longest, as other listeners do. Returns false if there
    /// is none that may be closed.
    fn evict_one(&mut self) -> bool {
        let open = self.clients.iter().enumerate().filter(|(_, client)| !client.is_evicted);
        let victim = longest_unused(open.map(|(at, client)| (at, &client.control)), MAX_IDLE_TIME);
        let Some(victim) = victim.and_then(|at| self.clients.get_mut(at)) else { return false };
        victim.is_evicted = true;
        self.engine.close_channel(self.now, victim.channel, &Fault::Closed);
        true
    }

    /// Closes clients whose time is over, or all of them after a shutdown.
    fn close_late(&mut self) {
        let is_over = self.shutdown_deadline.is_some_and(|at| at <= self.now);
        for client in &mut self.clients {
            if is_over || client.deadline.is_some_and(|at| at <= self.now) {
                client.deadline = None;
                self.engine.close_channel(self.now, client.channel, &Fault::Closed);
            }
        }
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        let deadlines = self.clients.iter().filter_map(|client| client.deadline);
        deadlines
            .chain(self.accepts_at)
            .chain(self.shutdown_deadline)
            .chain(self.idle_deadline)
            .chain(self.engine.poll_timeout())
            .min()
    }
}

impl Downstream for SocketDownstream {
    fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn poll_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.engine.poll_event(self.now) {
                if let Event::Closed { channel, .. } = &event {
                    let closed = self.clients.iter_mut().filter(|client| client.channel == *channel);
                    for client in closed {
                        client.state = ClientState::Closed;
                        client.deadline = Some(self.now + LAST_WRITE_TIME);
                    }
                }
                return Some(event);
            }
            let mut decoded = false;
            for client in &mut self.clients {
                decoded |= client.decode_next(&mut self.engine, self.now);
            }
            if !decoded {
                return None;
            }
        }
    }

    fn write(&mut self) -> bool {
        let (engine, now) = (&mut self.engine, self.now);
        let mut moved = false;
        self.clients.retain_mut(|client| {
            moved |= client.write(engine, now);
            let is_written = engine.outbox(client.channel).is_none_or(|outbox| outbox.is_empty());
            let is_over = client.state == ClientState::Closed && is_written;
            if is_over {
                engine.release_channel(client.channel);
            }
            !is_over
        });
        moved
    }

    fn poll_io(&mut self, reads: bool) {
        self.now = self.clock.now();
        self.accept();
        let mut scratch = [0; 16 << 10];
        for client in self.clients.iter_mut().filter(|_| reads) {
            if client.wants_input(&self.engine) {
                client.read(&mut scratch);
            }
        }
        self.close_late();
        self.end_if_idle();
        self.engine.handle_timeout(self.now);
    }

    fn wait_requests(&mut self, reads: bool) -> Vec<WaitRequest<'_>> {
        let timeout = self.next_deadline().map(|at| at.saturating_duration_since(self.now));
        let mut requests = Vec::new();
        if let Some(listener) = self.socket.listener.as_ref().filter(|_| self.error.is_none()) {
            let descriptors = Descriptors { read: Some(listener.as_fd()), ..Descriptors::default() };
            let interest = Interest { read: self.accepts_at.is_none(), write: false };
            requests.push(WaitRequest::new(descriptors, interest, timeout));
        }
        for client in &self.clients {
            let read = reads && client.wants_input(&self.engine);
            let write = self.engine.outbox(client.channel).is_some_and(|outbox| !outbox.is_empty());
            requests.push(WaitRequest::new(client.stream.descriptors(), Interest { read, write }, timeout));
        }
        requests
    }

    fn shutdown(&mut self, grace: Duration) {
        self.now = self.clock.now();
        // Removes the file of a Unix socket.
        self.socket.listener = None;
        for client in self.clients.iter_mut().filter(|client| client.state == ClientState::Open) {
            client.state = ClientState::Ending;
        }
        self.engine.shutdown(self.now, grace);
        self.shutdown_deadline = Some(self.now + grace);
    }

    fn is_finished(&self) -> bool {
        self.error.is_some() || (self.socket.listener.is_none() && self.clients.is_empty())
    }

    fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }
}

/// Time in which a client has to send its first line.
const FIRST_LINE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time without a byte after which a client loses its place to a new one.
const MAX_IDLE_TIME: Duration = Duration::from_secs(600);
/// Time in which a client has to read its last messages after its channel was closed.
const LAST_WRITE_TIME: Duration = Duration::from_secs(5);
/// Pause before another client is accepted without free descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
/// Default of [`Socket::max_clients`].
const MAX_CLIENTS: usize = 64;
