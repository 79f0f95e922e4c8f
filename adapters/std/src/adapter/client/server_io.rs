//! The transport of a client on a byte stream: the pipes of a child process, or a stream.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;
use std::io;

use crate::io::{Duplex, StreamAddress, memory_pair};
use crate::process::{Child, ChildIo, ProcessStatus, Program, ShutdownTimeouts};

use super::transport::{CloseAction, ExitInfo};
use crate::error::Error;
use mcp_proto::Instant;

/// The byte stream to a server.
pub enum ServerIo {
    /// A server process that this client started.
    Child {
        /// The process.
        child: Box<Child>,
        /// The pipes to the process.
        io: ChildIo,
        /// The name of the program.
        program: String,
    },
    /// A byte stream that is not a child process.
    Stream(Box<dyn Duplex + Send>),
    /// A byte stream to a known address.
    Address {
        /// The stream.
        stream: Box<dyn Duplex + Send>,
        /// The address, for errors.
        address: String,
    },
}

impl ServerIo {
    /// Starts a server process.
    ///
    /// # Errors
    ///
    /// [`Error::Spawn`] if the process cannot be started, [`Error::Io`] if its pipes cannot be taken.
    pub fn spawn(program: &Program) -> Result<Self, Error> {
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
    pub fn connect(address: &StreamAddress, timeout: Duration) -> io::Result<Self> {
        Ok(Self::Address { stream: address.connect(timeout)?, address: address.to_string() })
    }

    /// Returns the byte stream.
    pub fn io(&mut self) -> &mut dyn Duplex {
        match self {
            Self::Child { io, .. } => io,
            Self::Stream(stream) | Self::Address { stream, .. } => stream,
        }
    }

    /// Returns what is known about the server. Waits up to `wait` for a server process to exit.
    pub fn exit_info(&mut self, wait: Duration) -> ExitInfo {
        match self {
            Self::Stream(_) => ExitInfo::default(),
            Self::Address { address, .. } => ExitInfo { url: Some(address.clone()), ..ExitInfo::default() },
            Self::Child { child, program, .. } => {
                let status = match child.wait_timeout(wait) {
                    ProcessStatus::Exited(status) => status,
                    ProcessStatus::Running => None,
                };
                let program = Some(program.clone());
                ExitInfo { program, url: None, exit_status: status, stderr_tail: child.stderr_tail() }
            }
        }
    }

    /// Detaches the byte stream and returns the steps that close it.
    ///
    /// The write direction is closed first, then the process is ended within `timeouts`.
    pub fn take_close_action(&mut self, timeouts: ShutdownTimeouts, now: Instant) -> CloseAction {
        // A stream whose other end is gone takes its place.
        let detached = core::mem::replace(self, Self::Stream(Box::new(memory_pair(1).0)));
        match detached {
            Self::Child { child, io, .. } => {
                CloseAction::Child(Box::new(child.begin_shutdown(Some(io), timeouts, now)))
            }
            Self::Stream(stream) | Self::Address { stream, .. } => CloseAction::Stream(stream),
        }
    }
}

impl fmt::Debug for ServerIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Child { child, program, .. } => {
                f.debug_struct("Child").field("program", program).field("id", &child.id()).finish()
            }
            Self::Stream(_) => f.write_str("Stream"),
            Self::Address { address, .. } => f.debug_tuple("Address").field(address).finish(),
        }
    }
}
