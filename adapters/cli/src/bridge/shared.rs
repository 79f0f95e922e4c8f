//! The clients of a socket that share one server: byte streams of one engine, in one loop.

use alloc::sync::Arc;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;

use mcp_proto::frame::line::{Line, LineDecoder};
use mcp_proto::seal::Keys;
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{ChannelId, Fault, Instant, RawJson};
use mcp_std::io::{Descriptors, Duplex as _, Interest, Socket, StreamListener, is_resource_exhausted};
use mcp_std::poll::WaitRequest;
use mcp_std::{Clock, entropy};

use super::downstream::Downstream;

/// Clients on the byte streams of a socket.
pub(super) struct SharedDownstream {
    engine: Engine,
    /// `None` after the shutdown has begun.
    listener: Option<StreamListener>,
    clients: Vec<Client>,
    max_clients: usize,
    clock: Clock,
    now: Instant,
    error: Option<io::Error>,
    shutdown_deadline: Option<Instant>,
}

struct Client {
    channel: ChannelId,
    stream: Socket,
    decoder: LineDecoder,
    /// Time until which the first line has to be there; `None` once it is.
    first_line_until: Option<Instant>,
    state: ClientState,
}

#[derive(Clone, Copy, PartialEq)]
enum ClientState {
    Open,
    /// The input has ended. What is decoded yet comes first.
    Ended,
    /// The engine knows of the end.
    Ending,
    /// The engine has closed the channel. What it wrote is still sent.
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
            Some(Line::Frame(frame)) => {
                self.first_line_until = None;
                engine.handle_message(now, self.channel, frame);
            }
            Some(Line::TooLong(_)) => engine.close_channel(now, self.channel, &Fault::Closed),
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

impl SharedDownstream {
    /// Creates the transport; at most `max_clients` are connected, and others are closed at once.
    pub(super) fn new(config: Config, listener: StreamListener, max_clients: usize) -> Self {
        let clock = Clock::start();
        let (now, anchor) = (clock.now(), clock.anchor());
        let config = config.seal_by_default(|| Some((Keys::new(entropy::seed().ok()?), anchor)));
        Self {
            engine: Engine::new(Arc::new(config)),
            listener: Some(listener),
            clients: Vec::new(),
            max_clients,
            clock,
            now,
            error: None,
            shutdown_deadline: None,
        }
    }

    fn accept(&mut self) {
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok(Some(stream)) if self.clients.len() < self.max_clients => {
                    let channel = self.engine.open_channel(self.now);
                    let decoder = LineDecoder::new(self.engine.config().effective_limits().max_frame);
                    let first_line_until = Some(self.now + FIRST_LINE_TIMEOUT);
                    let state = ClientState::Open;
                    self.clients.push(Client { channel, stream, decoder, first_line_until, state });
                }
                // One too many is closed.
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) if is_resource_exhausted(&error) => return,
                Err(error) => {
                    self.error.get_or_insert(error);
                    return;
                }
            }
        }
    }

    /// Closes clients that are silent, or all of them after a shutdown.
    fn close_late(&mut self) {
        let is_over = self.shutdown_deadline.is_some_and(|at| at <= self.now);
        for client in &mut self.clients {
            if is_over || client.first_line_until.is_some_and(|at| at <= self.now) {
                client.first_line_until = None;
                self.engine.close_channel(self.now, client.channel, &Fault::Closed);
            }
        }
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        let first_lines = self.clients.iter().filter_map(|client| client.first_line_until);
        first_lines.chain(self.shutdown_deadline).chain(self.engine.poll_timeout()).min()
    }
}

impl Downstream for SharedDownstream {
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
                    closed.for_each(|client| client.state = ClientState::Closed);
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
        self.engine.handle_timeout(self.now);
    }

    fn wait_requests(&mut self, reads: bool) -> Vec<WaitRequest<'_>> {
        let timeout = self.next_deadline().map(|at| at.saturating_duration_since(self.now));
        let mut requests = Vec::new();
        if let Some(listener) = self.listener.as_ref().filter(|_| self.error.is_none()) {
            let descriptors = Descriptors { read: Some(listener.as_fd()), ..Descriptors::default() };
            requests.push(WaitRequest::new(descriptors, Interest::READ, timeout));
        }
        for client in &self.clients {
            let read = reads && client.wants_input(&self.engine);
            let write = self.engine.outbox(client.channel).is_some_and(|outbox| !outbox.is_empty());
            requests.push(WaitRequest::new(client.stream.descriptors(), Interest { read, write }, timeout));
        }
        requests
    }

    fn is_congested(&mut self) -> bool {
        // Each client has its own outbox, so a slow reader blocks only itself.
        false
    }

    fn shutdown(&mut self, grace: Duration) {
        self.now = self.clock.now();
        // Removes the file of a Unix socket.
        self.listener = None;
        for client in self.clients.iter_mut().filter(|client| client.state == ClientState::Open) {
            client.state = ClientState::Ending;
        }
        self.engine.shutdown(self.now, grace);
        self.shutdown_deadline = Some(self.now + grace);
    }

    fn is_finished(&self) -> bool {
        self.error.is_some() || (self.listener.is_none() && self.clients.is_empty())
    }

    fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    fn set_tool_schema(&mut self, _: &str, _: &RawJson) {}
}

/// Time in which a client has to send its first line.
const FIRST_LINE_TIMEOUT: Duration = Duration::from_secs(30);
