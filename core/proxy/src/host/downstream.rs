//! The downstream side, which faces the clients, and one client on a byte stream.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::pipe::{self, Pipe};
use mcp_proto::seal::Keys;
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{Anchor, Entropy, Fault, Instant, RawJson};
use mcp_runtime::driver::PipeDriver;
use mcp_std::entropy;
use mcp_std::io::Duplex;
use mcp_std::poll::WaitRequest;

use crate::set_tasks;

/// Transport that faces the clients.
pub(super) trait Downstream {
    fn engine(&mut self) -> &mut Engine;

    /// Returns the time of the last clock reading.
    fn now(&self) -> Instant;

    /// Returns the next event and decodes input that was read.
    fn poll_event(&mut self) -> Option<Event>;

    /// Writes as much as possible without blocking. Returns whether anything was written.
    fn write(&mut self) -> bool;

    /// Reads available input without waiting and handles deadlines.
    fn poll_io(&mut self, reads: bool);

    /// Returns what to wait for.
    fn wait_requests(&mut self, reads: bool) -> Vec<WaitRequest<'_>>;

    /// Returns whether clients leave so much unread that nothing more should be written. Where each has an outbox of its own, a slow
    /// reader blocks only itself.
    fn is_congested(&mut self) -> bool {
        false
    }

    /// Starts a shutdown, which ends when running calls are answered or after `grace`.
    fn shutdown(&mut self, grace: Duration);

    /// Returns whether the transport is closed and all output is written.
    fn is_finished(&self) -> bool;

    /// Takes the error that broke the transport. A client that leaves is not an error.
    fn take_error(&mut self) -> Option<std::io::Error>;

    /// Sets the input schema of a tool, which names the arguments that clients repeat in header fields, if they have these.
    fn set_tool_schema(&mut self, _: &str, _: &RawJson) {}

    /// Returns whether messages follow each other on byte streams, so that a client may read several at once.
    fn is_stream(&self) -> bool {
        true
    }

    /// Flushes bytes that were not written yet.
    ///
    /// # Errors
    ///
    /// Fails if the stream cannot be written to.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Completes a configuration: its memory has the bound of this machine, and what clients keep is sealed.
pub(super) fn with_defaults(config: Config, anchor: Anchor) -> Arc<Config> {
    let config = config.max_memory_by_default(mcp_std::memory::max_memory());
    Arc::new(config.seal_by_default(|| Some((Keys::new(entropy::seed().ok()?), anchor))))
}

/// Gives an engine the tasks of its configuration. Without entropy it has none: their ids would be known to others.
pub(super) fn give_tasks(engine: &mut Engine, now: Instant, anchor: Anchor) {
    if let Ok(seed) = entropy::seed() {
        set_tasks(engine, now, Entropy::new(seed, entropy::nonce()), anchor);
    }
}

/// One client on a byte stream.
pub(super) struct StreamDownstream<D> {
    pipe: pipe::Server,
    drive: PipeDriver,
    stream: D,
    /// Input that was read before, until the client is read from.
    first: Vec<u8>,
    shutdown_deadline: Option<Instant>,
}

impl<D: Duplex> StreamDownstream<D> {
    /// Creates the transport; `bytes` is input that was read before.
    pub(super) fn new(config: Config, stream: D, bytes: &[u8]) -> Self {
        let mut drive = PipeDriver::new();
        let now = drive.tick();
        let mut pipe = pipe::Server::new(with_defaults(config, drive.anchor()), now);
        give_tasks(pipe.engine(), now, drive.anchor());
        Self { pipe, drive, stream, first: bytes.to_vec(), shutdown_deadline: None }
    }
}

impl<D: Duplex> Downstream for StreamDownstream<D> {
    fn engine(&mut self) -> &mut Engine {
        self.pipe.engine()
    }

    fn now(&self) -> Instant {
        self.drive.now()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.pipe.poll_event(self.drive.now())
    }

    fn write(&mut self) -> bool {
        let moved = self.drive.write(&mut self.pipe, &mut self.stream);
        if self.drive.is_write_closed() && !self.pipe.is_drained() {
            // The client can no longer receive answers, so its calls are aborted.
            self.pipe.abort(self.drive.now(), &Fault::Eof);
        }
        moved
    }

    fn poll_io(&mut self, reads: bool) {
        let now = self.drive.tick();
        if reads {
            self.pipe.handle_input(now, &core::mem::take(&mut self.first));
        }
        self.drive.wait(&mut self.pipe, &mut self.stream, reads, Some(now));
        // While reading is suspended, a client that leaves is detected only here.
        let gone = self.stream.hung_up().is_ok_and(|hung_up| hung_up.write_closed);
        let late = self.shutdown_deadline.is_some_and(|at| at <= self.drive.now());
        if late {
            // Errors for aborted calls are written as far as possible without blocking.
            self.write();
        }
        if (gone || late) && !self.pipe.is_drained() {
            self.pipe.abort(self.drive.now(), &Fault::Eof);
        }
    }

    fn wait_requests(&mut self, reads: bool) -> Vec<WaitRequest<'_>> {
        vec![self.drive.wait_request(&mut self.pipe, &self.stream, reads)]
    }

    fn is_congested(&mut self) -> bool {
        let mark = self.pipe.engine().config().effective_limits().outbox_high_water;
        let channel = self.pipe.channel();
        self.pipe.engine().outbox(channel).is_some_and(|outbox| outbox.len() >= mark)
    }

    fn shutdown(&mut self, grace: Duration) {
        let now = self.drive.tick();
        self.pipe.shutdown(now, grace);
        self.shutdown_deadline = Some(now + grace);
    }

    fn is_finished(&self) -> bool {
        self.pipe.is_drained()
    }

    fn take_error(&mut self) -> Option<std::io::Error> {
        self.drive.take_error()
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush(self.pipe.engine().config().effective_limits().eof_grace_period)
    }
}
