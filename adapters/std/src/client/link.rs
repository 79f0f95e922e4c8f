//! What a client talks through: a server process that it started, or a stream

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use crate::child::{Child, ChildIo, Life, Patience, Program};
use crate::{Duplex, memory_pair};
use std::process::ExitStatus;

use super::wire::Parting;
use crate::error::Error;
use mcp_proto::Instant;

/// The way to a server
pub enum Link {
    /// A server process, the pipes to it, and the name of its program
    Child {
        /// The process
        child: Box<Child>,
        /// Its pipes
        io: ChildIo,
        /// What was started
        program: String,
    },
    /// A byte stream
    Stream(Box<dyn Duplex + Send>),
}

impl Link {
    /// Starts a server
    pub fn spawn(program: &Program) -> Result<Self, Error> {
        let mut child = program.spawn()?;
        let io = child.take_io()?;
        let program = program.program().to_string_lossy().into_owned();
        Ok(Self::Child { child: Box::new(child), io, program })
    }

    /// The bytes
    pub fn io(&mut self) -> &mut dyn Duplex {
        match self {
            Self::Child { io, .. } => io,
            Self::Stream(stream) => stream,
        }
    }

    /// What is known of the server process: its program, how it ended if it did within `wait`, its last words
    pub fn obituary(&mut self, wait: Duration) -> (Option<String>, Option<ExitStatus>, String) {
        match self {
            Self::Stream(_) => (None, None, String::new()),
            Self::Child { child, program, .. } => {
                let status = match child.wait_ended(wait) {
                    Life::Ended(status) => status,
                    Life::Running => None,
                };
                (Some(program.clone()), status, child.last_words())
            }
        }
    }

    /// What is left to be done to end it: our direction first, then the process by the steps that `patience` allows for
    pub fn part(&mut self, patience: Patience, now: Instant) -> Parting {
        // What stays behind is a stream whose other end is gone.
        let link = core::mem::replace(self, Self::Stream(Box::new(memory_pair(1).0)));
        match link {
            Self::Child { child, io, .. } => {
                Parting::Child(Box::new(child.begin_shutdown(Some(io), patience, now)))
            }
            Self::Stream(stream) => Parting::Stream(stream),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Child { child, program, .. } => {
                f.debug_struct("Child").field("program", program).field("id", &child.id()).finish()
            }
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}
