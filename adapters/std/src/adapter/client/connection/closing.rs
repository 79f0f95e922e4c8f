//! The end of a connection: exit information, and the output that is still sent.

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;
use std::io;

use mcp_proto::{Fault, Instant};

use super::Connection;
use crate::adapter::client::callback::Callback;
use crate::adapter::client::transport::CloseAction;
use crate::error::{ConnectionClosed, Error};
use crate::process::{ShutdownReport, ShutdownTimeouts};

impl Connection {
    /// Checks that the connection is not over.
    ///
    /// # Errors
    ///
    /// As returned by [`closed_error`](Self::closed_error).
    pub fn check_open(&mut self) -> Result<(), Error> {
        if self.fault.is_none() { Ok(()) } else { Err(self.closed_error()) }
    }

    /// Returns whether the connection has ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.fault.is_some()
    }

    /// Returns the error that describes the end of the connection.
    ///
    /// This is [`Error::Io`] once for an I/O error, and [`Error::Closed`] otherwise. May wait up to
    /// `exit_status_timeout` for the exit status of the server.
    pub fn closed_error(&mut self) -> Error {
        if let Some(error) = self.io_error.take().or_else(|| self.transport.take_error()) {
            return Error::Io(error);
        }
        if self.closed.is_none() {
            let fault = self.fault.clone().unwrap_or(Fault::Closed);
            let mut closed = ConnectionClosed {
                fault,
                was_ready: self.was_ready,
                program: None,
                url: None,
                exit_status: None,
                stderr_tail: String::new(),
                noise: self.noise.clone(),
                received_message: self.received_message || self.transport.has_received_message(),
            };
            // A process closes its output a moment before it exits.
            let wait = if closed.is_ended_by_peer() { self.exit_status_timeout } else { Duration::ZERO };
            let info = self.transport.exit_info(wait);
            (closed.program, closed.url) = (info.program, info.url);
            (closed.exit_status, closed.stderr_tail) = (info.exit_status, info.stderr_tail);
            self.closed = Some(Arc::new(closed));
        }
        self.closed.clone().map_or_else(|| Error::closed(Fault::Closed), Error::Closed)
    }

    /// Ends the connection because its loop cannot wait any more.
    pub fn abort(&mut self, error: io::Error) {
        self.io_error.get_or_insert(error);
        self.fault.get_or_insert(Fault::Closed);
    }

    /// Ends the connection as [`abort`](Self::abort) does, and skips the graceful shutdown.
    pub fn abort_unclean(&mut self, error: io::Error) {
        self.abort(error);
        self.finished = true;
    }

    /// Returns whether the server's output has ended and its exit status is still unknown, for loops with their own
    /// wait.
    pub fn is_awaiting_exit_status(&mut self) -> bool {
        let ended = matches!(
            self.fault,
            Some(Fault::Eof | Fault::Truncated { .. } | Fault::ExitedDuringProbe { .. })
        );
        ended && {
            let info = self.transport.exit_info(Duration::ZERO);
            info.program.is_some() && info.exit_status.is_none()
        }
    }

    /// Sends the remaining output as far as the server reads it soon, and ends the server.
    ///
    /// Returns the report on a server process, or `None` for other servers and for repeated calls.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the stream fails; a peer that has left is not an error.
    pub fn finish(&mut self) -> Result<Option<ShutdownReport>, Error> {
        let Some(until) = self.begin_finish() else { return Ok(None) };
        while !self.transport.is_drained() && self.transport.now() < until {
            self.continue_finish(until);
        }
        self.transport.shutdown(self.shutdown_timeouts)
    }

    /// Starts to send the remaining output. Returns the deadline for it, or `None` if it was started before.
    ///
    /// Afterwards call [`continue_finish`](Self::continue_finish) until the transport
    /// [is drained](crate::adapter::client::ClientTransport::is_drained) or the deadline has passed, then
    /// [`take_close_action`](Self::take_close_action).
    pub fn begin_finish(&mut self) -> Option<Instant> {
        if core::mem::replace(&mut self.finished, true) {
            return None;
        }
        let until = self.transport.tick() + self.shutdown_timeouts.exit.min(FINAL_WRITE_TIMEOUT);
        self.transport.close();
        self.process_events(&mut None);
        Some(until)
    }

    /// Sends some of the remaining output. Waits for that until `until` at most.
    pub fn continue_finish(&mut self, until: Instant) {
        self.transport.wait_closing(until);
        self.process_events(&mut None);
        if let Some(diagnostic) = self.transport.poll_closing_diagnostic() {
            self.dispatch(Callback::Diagnostic(diagnostic));
        }
    }

    /// Returns the last step of closing, and the timeouts for it.
    pub fn take_close_action(&mut self, now: Instant) -> (CloseAction, ShutdownTimeouts) {
        (self.transport.take_close_action(self.shutdown_timeouts, now), self.shutdown_timeouts)
    }
}

/// Default maximum wait for the exit status of a server that has closed its output.
pub const EXIT_STATUS_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time for a server to read the remaining output.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(1);
