//! Transports to a server: a byte stream, or exchanges over HTTP.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt::{self, Debug};
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::process::ExitStatus;

use mcp_proto::client::{Config, Engine, Event};
#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
#[cfg(feature = "http")]
use mcp_proto::http::client::{Challenge, Client, Credential, ExchangeId};
use mcp_proto::pipe::{self, Pipe};
use mcp_proto::{Diagnostic, Instant};
use mcp_std::Clock;
use mcp_std::io::{Duplex, StreamAddress, is_peer_gone, memory_pair};
#[cfg(unix)]
use mcp_std::poll::Descriptors;
use mcp_std::poll::{Interest, WaitRequest};
use mcp_std::process::{Child, ChildIo, ProcessStatus, Program, Shutdown, ShutdownReport, ShutdownTimeouts};

use crate::driver::{MessageLineCounter, PipeDriver};
use crate::error::Error;

/// Answers a challenge of an HTTP server; without a credential, its request fails. A stale exchange is ignored.
#[cfg(feature = "http")]
pub(super) fn answer_challenge(
    client: &mut Client,
    now: Instant,
    exchange: ExchangeId,
    credential: Option<Credential>,
) {
    let mut authorization = client.authorization();
    let _ = match credential {
        Some(credential) => authorization.authorize(now, exchange, credential),
        None => authorization.refuse(now, exchange),
    };
}

/// The transport of a client connection, together with its engine.
pub trait ClientTransport: Debug {
    /// Returns the engine.
    fn engine(&mut self) -> &mut Engine;

    /// Returns the time of the last [`tick`](Self::tick), without a system call.
    fn now(&self) -> Instant;

    /// Reads the clock.
    fn tick(&mut self) -> Instant;

    /// Returns the next event. Decodes input as needed.
    fn poll_event(&mut self) -> Option<Event>;

    /// Returns the next event that does not result from input, for example that of a deadline.
    fn poll_timer_event(&mut self) -> Option<Event> {
        let now = self.now();
        self.engine().poll_event(now)
    }

    /// Pauses or resumes events from input.
    fn set_events_paused(&mut self, paused: bool) {
        let _ = paused;
    }

    /// Writes as much as possible without waiting. Returns whether anything was written.
    fn write(&mut self) -> bool;

    /// Waits until the transport is ready for I/O, a deadline passes, or `until`. Then reads once and handles
    /// deadlines.
    fn wait(&mut self, until: Option<Instant>);

    /// Reads and handles deadlines for a loop that has waited itself. `readable` tells whether there is input.
    fn step(&mut self, readable: bool) {
        let _ = readable;
        self.wait(Some(Instant::ZERO));
    }

    /// Returns the conditions that [`wait`](Self::wait) waits for, for a loop that also waits for other sources.
    fn wait_request(&mut self) -> WaitRequest<'_> {
        WaitRequest::unpollable(None)
    }

    /// Returns when an unlimited [`wait`](Self::wait) would end by itself, for loops with their own wait.
    fn next_deadline(&mut self) -> Option<Instant>;

    /// Returns the interest in the [descriptors](Self::descriptors), for loops with their own wait.
    fn interest(&mut self) -> Interest;

    /// Returns the descriptors to watch, for loops with their own wait.
    #[cfg(unix)]
    fn descriptors(&mut self) -> Descriptors<'_> {
        Descriptors::default()
    }

    /// Closes the engine gracefully. The resulting output is still to be written.
    fn close(&mut self);

    /// Waits as [`wait`](Self::wait) does while the remaining output is written.
    fn wait_closing(&mut self, until: Instant) {
        self.wait(Some(until));
    }

    /// Returns whether the engine is closed and all output is written.
    fn is_drained(&self) -> bool;

    /// Returns what went wrong at the end of a session, once. It has no effect.
    fn poll_closing_diagnostic(&mut self) -> Option<Diagnostic> {
        None
    }

    /// Returns the I/O error that broke the transport, once. A peer that left is not an error.
    fn take_error(&mut self) -> Option<io::Error> {
        None
    }

    /// Returns whether messages or heads are recorded for the tap.
    fn is_tapped(&mut self) -> bool {
        self.engine().config().effective_limits().tap_records > 0
    }

    /// Returns the next recorded head of a request or response.
    #[cfg(feature = "http")]
    fn poll_head(&mut self) -> Option<HeadRecord> {
        None
    }

    /// Returns the next challenge of the server.
    #[cfg(feature = "http")]
    fn poll_challenge(&mut self) -> Option<Challenge> {
        None
    }

    /// Answers a challenge. `None` refuses.
    #[cfg(feature = "http")]
    fn authorize(&mut self, exchange: ExchangeId, credential: Option<Credential>) {
        let _ = (exchange, credential);
    }

    /// Returns a waker that ends a [`wait`](Self::wait) from any thread.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](io::ErrorKind::Unsupported) if there is none, or an error of the system.
    fn waker(&mut self) -> io::Result<Waker> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Marks the connection as ready for calls.
    fn set_ready(&mut self) {}

    /// Records the era of the server, which is known now, or was contradicted.
    fn record_era(&mut self) {}

    /// Discards a line that was counted as a message but is noise.
    fn discard_noise(&mut self, line: &str) {
        let _ = line;
    }

    /// Returns whether something that looks like a message arrived before the connection was ready.
    fn has_received_message(&self) -> bool {
        false
    }

    /// Returns what is known about a server that is gone. Waits up to `wait` for its process to exit.
    fn exit_info(&mut self, wait: Duration) -> ExitInfo;

    /// Detaches the transport and returns the last step of closing, for loops with their own wait.
    fn take_close_action(&mut self, timeouts: ShutdownTimeouts, now: Instant) -> CloseAction;

    /// Closes the transport and ends a server process.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the stream fails; a peer that has left is not an error.
    fn shutdown(&mut self, timeouts: ShutdownTimeouts) -> Result<Option<ShutdownReport>, Error> {
        let clock = Clock::start();
        match self.take_close_action(timeouts, clock.now()) {
            CloseAction::Child(shutdown) => Ok(Some(shutdown.run(clock))),
            CloseAction::Stream(mut stream) => {
                match stream.shutdown_write().and_then(|()| stream.flush(timeouts.exit)) {
                    Err(error) if !is_peer_gone(&error) => Err(Error::Io(error)),
                    _ => Ok(None),
                }
            }
            CloseAction::Nothing => Ok(None),
        }
    }
}

/// The last step of closing a connection.
pub enum CloseAction {
    /// Ends a child process.
    Child(Box<Shutdown>),
    /// Closes the write direction of a stream.
    Stream(Box<dyn Duplex + Send>),
    /// Nothing is left to do.
    Nothing,
}

impl Debug for CloseAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Child(shutdown) => shutdown.fmt(f),
            Self::Stream(_) => f.write_str("Stream"),
            Self::Nothing => f.write_str("Nothing"),
        }
    }
}

/// Information about a server whose connection has ended.
#[derive(Debug, Default)]
pub struct ExitInfo {
    /// The program of a child process.
    pub program: Option<String>,
    /// The URL of an HTTP server, or the address of a byte stream.
    pub url: Option<String>,
    /// The exit status of a child process.
    pub exit_status: Option<ExitStatus>,
    /// The end of the child process's stderr.
    pub stderr_tail: String,
    /// Whether the child process has left input unread.
    pub has_unread_input: bool,
}

/// A transport over a byte stream.
#[derive(Debug)]
pub(crate) struct StreamTransport {
    pipe: pipe::Client,
    driver: PipeDriver,
    io: ServerIo,
}

impl StreamTransport {
    /// Creates a transport that has not sent anything yet.
    pub(crate) fn new(config: Config, io: ServerIo) -> Self {
        let mut driver = PipeDriver::new();
        driver.line_counter = Some(MessageLineCounter::default());
        let pipe = pipe::Client::new(Arc::new(config), driver.tick());
        Self { pipe, driver, io }
    }
}

impl ClientTransport for StreamTransport {
    fn engine(&mut self) -> &mut Engine {
        self.pipe.engine()
    }

    fn now(&self) -> Instant {
        self.driver.now()
    }

    fn tick(&mut self) -> Instant {
        self.driver.tick()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.pipe.poll_event(self.driver.now())
    }

    fn write(&mut self) -> bool {
        self.driver.write(&mut self.pipe, self.io.io())
    }

    fn wait(&mut self, until: Option<Instant>) {
        self.driver.wait(&mut self.pipe, self.io.io(), true, until);
    }

    fn step(&mut self, readable: bool) {
        self.driver.step(&mut self.pipe, self.io.io(), readable);
    }

    fn wait_request(&mut self) -> WaitRequest<'_> {
        self.driver.wait_request(&mut self.pipe, self.io.io(), true)
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        self.driver.next_deadline(&mut self.pipe)
    }

    fn interest(&mut self) -> Interest {
        self.driver.interest(&self.pipe, true)
    }

    #[cfg(unix)]
    fn descriptors(&mut self) -> Descriptors<'_> {
        (*self.io.io()).descriptors()
    }

    fn close(&mut self) {
        let now = self.driver.now();
        self.pipe.engine().close(now);
    }

    fn wait_closing(&mut self, until: Instant) {
        self.driver.wait(&mut self.pipe, self.io.io(), false, Some(until));
    }

    fn is_drained(&self) -> bool {
        self.pipe.is_drained()
    }

    fn take_error(&mut self) -> Option<io::Error> {
        self.driver.take_error()
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.io.io().waker()
    }

    fn set_ready(&mut self) {
        self.driver.line_counter = None;
    }

    fn discard_noise(&mut self, line: &str) {
        if let Some(counter) = &mut self.driver.line_counter {
            counter.discard_noise(line);
        }
    }

    fn has_received_message(&self) -> bool {
        self.driver.line_counter.as_ref().is_some_and(MessageLineCounter::has_received_message)
    }

    fn exit_info(&mut self, wait: Duration) -> ExitInfo {
        self.io.exit_info(wait)
    }

    fn take_close_action(&mut self, timeouts: ShutdownTimeouts, now: Instant) -> CloseAction {
        self.io.take_close_action(timeouts, now)
    }
}

// The transport of a client on a byte stream: the pipes of a child process, or a stream.

/// The byte stream to a server.
pub(crate) enum ServerIo {
    /// A server process that this client started.
    Child {
        /// The process.
        child: Box<Child>,
        /// The pipes to the process.
        io: ChildIo,
        /// The name of the program.
        program: String,
    },
    /// A byte stream that is not a child process, and its address if that is known, for errors.
    Stream(Box<dyn Duplex + Send>, Option<String>),
}

impl ServerIo {
    /// Starts a server process.
    ///
    /// # Errors
    ///
    /// [`Error::Spawn`] if the process cannot be started, [`Error::Io`] if its pipes cannot be taken.
    pub(crate) fn spawn(program: &Program) -> Result<Self, Error> {
        let mut child = program.spawn()?;
        let io = child.take_io()?;
        let program = program.program().to_string_lossy().into_owned();
        Ok(Self::Child { child: Box::new(child), io, program })
    }

    /// Opens the byte stream at an address, within `timeout`.
    ///
    /// # Errors
    ///
    /// As [`StreamAddress::connect`].
    pub(crate) fn connect(address: &StreamAddress, timeout: Duration) -> io::Result<Self> {
        Ok(Self::Stream(address.connect(timeout)?, Some(address.to_string())))
    }

    /// Returns the byte stream.
    pub(crate) fn io(&mut self) -> &mut dyn Duplex {
        match self {
            Self::Child { io, .. } => io,
            Self::Stream(stream, _) => stream,
        }
    }

    /// Returns what is known about the server. Waits up to `wait` for a server process to exit.
    pub(crate) fn exit_info(&mut self, wait: Duration) -> ExitInfo {
        match self {
            Self::Stream(_, address) => ExitInfo { url: address.clone(), ..ExitInfo::default() },
            Self::Child { child, program, io } => {
                let status = match child.wait_timeout(wait) {
                    ProcessStatus::Exited(status) => status,
                    ProcessStatus::Running => None,
                };
                ExitInfo {
                    program: Some(program.clone()),
                    url: None,
                    exit_status: status,
                    stderr_tail: child.stderr_tail(),
                    has_unread_input: io.has_unread_input(),
                }
            }
        }
    }

    /// Detaches the byte stream and returns the steps that close it.
    ///
    /// The write direction is closed first, then the process is ended within `timeouts`.
    pub(crate) fn take_close_action(&mut self, timeouts: ShutdownTimeouts, now: Instant) -> CloseAction {
        // A stream whose other end is gone takes its place.
        let detached = core::mem::replace(self, Self::Stream(Box::new(memory_pair(1).0), None));
        match detached {
            Self::Child { child, io, .. } => {
                CloseAction::Child(Box::new(child.begin_shutdown(Some(io), timeouts, now)))
            }
            Self::Stream(stream, _) => CloseAction::Stream(stream),
        }
    }
}

impl Debug for ServerIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Child { child, program, .. } => {
                f.debug_struct("Child").field("program", program).field("id", &child.id()).finish()
            }
            Self::Stream(_, None) => f.write_str("Stream"),
            Self::Stream(_, Some(address)) => f.debug_tuple("Address").field(address).finish(),
        }
    }
}
