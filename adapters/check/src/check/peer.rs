//! The server under test behind a line interface: a process, a socket, or a server over HTTP.
//!
//! The clients of the adapters send only valid messages. The checker also has to send invalid ones.

use core::time::Duration;
use std::time::Instant;

use mcp_proto::Version;
use mcp_std::io::{Duplex, StreamAddress};
use mcp_std::process::{Child, ChildIo, Program, ShutdownReport, ShutdownTimeouts};

use super::conversation::CheckSetup;
use super::http_peer::HttpPeer;
use super::line_stream::LineStream;
use super::received::{Received, WireTrace};
use super::{CheckError, shutdown};
use crate::exchange::HttpTarget;

/// Address of the server under test.
pub(super) enum ServerTarget {
    Program(Box<Program>),
    /// A socket, and the time to connect to it.
    Stream(StreamAddress, Duration),
    Http(HttpTarget),
}

/// A running server or an open HTTP conversation.
pub(super) enum CheckedPeer {
    Process(Child, LineStream<ChildIo>),
    Stream(LineStream<Box<dyn Duplex + Send>>),
    Http(Box<HttpPeer>),
}

impl ServerTarget {
    /// Returns whether the server is reached over HTTP.
    pub(super) const fn is_http(&self) -> bool {
        matches!(self, Self::Http(_))
    }

    /// Names the source of unsolicited messages.
    pub(super) const fn message_source(&self) -> &'static str {
        match self {
            Self::Program(_) => "stdout",
            Self::Stream(..) => "the stream",
            Self::Http(_) => "the responses",
        }
    }
}

impl CheckedPeer {
    /// Starts a process, connects to a socket, or begins an HTTP conversation in `version`.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be started, or no server listens at the socket.
    pub(super) fn start(setup: &CheckSetup, version: Version) -> Result<Self, CheckError> {
        let trace_output = WireTrace::new(setup.trace.clone());
        Ok(match &setup.server {
            ServerTarget::Program(program) => {
                let mut child = program.spawn()?;
                let io = child.take_io().map_err(CheckError::Stream)?;
                Self::Process(child, LineStream::new(io, trace_output))
            }
            ServerTarget::Stream(address, timeout) => {
                let stream = address.connect(*timeout).map_err(CheckError::Stream)?;
                Self::Stream(LineStream::new(stream, trace_output))
            }
            ServerTarget::Http(target) => {
                Self::Http(Box::new(HttpPeer::new(target.clone(), (version, setup.draft), trace_output)))
            }
        })
    }

    /// Sends a line. Returns `false` if that fails or takes too long.
    pub(super) fn send(&mut self, line: &[u8], until: Instant) -> bool {
        match self {
            Self::Process(_, lines) => lines.send(line, until),
            Self::Stream(lines) => lines.send(line, until),
            Self::Http(remote) => remote.send(line, until),
        }
    }

    /// Waits for a line.
    pub(super) fn next(&mut self, until: Instant) -> Received {
        match self {
            Self::Process(_, lines) => lines.next(until),
            Self::Stream(lines) => lines.next(until),
            Self::Http(remote) => remote.next(until),
        }
    }

    /// Describes what the server did instead of answering.
    pub(super) fn describe_failure(&mut self) -> String {
        match self {
            Self::Process(child, _) => shutdown::describe_end(child),
            Self::Stream(_) => "it closed the connection".into(),
            Self::Http(remote) => remote.describe_failure(),
        }
    }

    /// Sets the negotiated revision.
    pub(super) fn set_version(&mut self, version: Version) {
        if let Self::Http(remote) = self {
            remote.set_version(version);
        }
    }

    /// Ends the session, the connection or the process. Returns how a process ended.
    pub(super) fn close(self, timeouts: ShutdownTimeouts) -> Option<ShutdownReport> {
        match self {
            Self::Process(child, lines) => Some(child.shutdown(Some(lines.into_inner()), timeouts)),
            Self::Stream(lines) => {
                drop(lines.into_inner());
                None
            }
            Self::Http(mut remote) => {
                remote.end_session(timeouts.exit.min(SESSION_END_TIMEOUT));
                None
            }
        }
    }
}

/// Time to wait for the end of an HTTP session.
const SESSION_END_TIMEOUT: Duration = Duration::from_secs(2);
