//! The server that is checked: a process or a site, either of which takes lines and gives some, whatever they are
//!
//! A client of `mcp-blocking` sends nothing that is wrong, which is just what has to be sent here.

use core::time::Duration;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_proto::Version;
use mcp_std::child::{Ended, Patience, Program};

use super::exchange::Site;
use super::passing::{Got, Shown};
use super::process::Process;
use super::remote::Remote;

/// Where a server is had
pub(super) enum Server {
    Program(Box<Program>),
    Site(Site),
}

/// A server to talk to
pub(super) enum Peer {
    Process(Process),
    Remote(Box<Remote>),
}

impl Server {
    /// Whether it is spoken to over HTTP
    pub(super) const fn is_site(&self) -> bool {
        matches!(self, Self::Site(_))
    }

    /// What its messages come out of
    pub(super) const fn source(&self) -> &'static str {
        if self.is_site() { "the responses" } else { "stdout" }
    }
}

impl Peer {
    /// Starts a process, or begins a conversation in `version` with a site
    pub(super) fn start(server: &Server, version: Version, trace: bool) -> Result<Self, Error> {
        let shown = Shown::new(trace);
        Ok(match server {
            Server::Program(program) => Self::Process(Process::start(program, shown)?),
            Server::Site(site) => Self::Remote(Box::new(Remote::new(site.clone(), version, shown))),
        })
    }

    /// Sends a line; false when that did not work in time
    pub(super) fn send(&mut self, line: &[u8], until: Instant) -> bool {
        match self {
            Self::Process(process) => process.send(line, until),
            Self::Remote(remote) => remote.send(line, until),
        }
    }

    /// Waits for a line
    pub(super) fn next(&mut self, until: Instant) -> Got {
        match self {
            Self::Process(process) => process.next(until),
            Self::Remote(remote) => remote.next(until),
        }
    }

    /// What it did instead of answering, in words
    pub(super) fn fate(&mut self) -> String {
        match self {
            Self::Process(process) => process.fate(),
            Self::Remote(remote) => remote.fate(),
        }
    }

    /// The handshake has settled on a revision
    pub(super) fn agreed(&mut self, version: Version) {
        if let Self::Remote(remote) = self {
            remote.agreed(version);
        }
    }

    /// Takes leave, and sees to it that a process goes; how it went
    pub(super) fn end(self, patience: Patience) -> Option<Ended> {
        match self {
            Self::Process(process) => Some(process.end(patience)),
            Self::Remote(mut remote) => {
                remote.leave(patience.exit.min(LEAVE));
                None
            }
        }
    }
}

/// How long a site is given to end a session
const LEAVE: Duration = Duration::from_secs(2);
