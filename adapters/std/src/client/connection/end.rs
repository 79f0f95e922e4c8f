//! The end of a connection: what is known about it, and what is still sent

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;
use std::io;

use mcp_proto::{Fault, Instant};

use super::Connection;
use crate::child::{Ended, Patience};
use crate::client::wire::Parting;
use crate::error::{Closed, Error};

impl Connection {
    /// Whether it goes on; otherwise all that is known about the end
    pub fn check_open(&mut self) -> Result<(), Error> {
        if self.fault.is_none() { Ok(()) } else { Err(self.gone()) }
    }

    /// Whether it is over
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.fault.is_some()
    }

    /// The error that says all that is known about the end
    pub fn gone(&mut self) -> Error {
        if let Some(error) = self.broken.take().or_else(|| self.wire.take_error()) {
            return Error::Io(error);
        }
        if self.closed.is_none() {
            let fault = self.fault.clone().unwrap_or(Fault::Closed);
            let mut closed = Closed {
                fault,
                was_ready: self.was_ready,
                program: None,
                url: None,
                ended: None,
                last_words: String::new(),
                noise: self.noise.clone(),
                any_message: self.any_message || self.wire.any_message(),
            };
            // The end of its output comes a moment before its end.
            let wait = if closed.is_end() { self.breath } else { Duration::ZERO };
            let known = self.wire.obituary(wait);
            (closed.program, closed.url) = (known.program, known.url);
            (closed.ended, closed.last_words) = (known.ended, known.last_words);
            self.closed = Some(Arc::new(closed));
        }
        self.closed.clone().map_or_else(|| Error::closed(Fault::Closed), Error::Closed)
    }

    /// Ends it because it cannot be waited for any more
    pub fn break_off(&mut self, error: io::Error) {
        self.broken.get_or_insert(error);
        self.fault.get_or_insert(Fault::Closed);
    }

    /// As [`break_off`](Self::break_off), and nothing is left to be ended in good order
    pub fn give_up(&mut self, error: io::Error) {
        self.break_off(error);
        self.finished = true;
    }

    /// Whether the exit status of a server whose output has ended is still to come: for loops that wait in their own way
    pub fn is_breathing(&mut self) -> bool {
        let ended = matches!(
            self.fault,
            Some(Fault::Eof | Fault::Truncated { .. } | Fault::ExitedDuringProbe { .. })
        );
        ended && {
            let known = self.wire.obituary(Duration::ZERO);
            known.program.is_some() && known.ended.is_none()
        }
    }

    /// Sends what is left, as far as the server takes it soon, and ends the server
    pub fn finish(&mut self) -> Result<Option<Ended>, Error> {
        let Some(until) = self.begin_finish() else { return Ok(None) };
        while !self.wire.is_drained() && self.wire.now() < until {
            self.finish_some(until);
        }
        self.wire.end(self.patience)
    }

    /// Begins to send what is left; until when, unless that was begun before. To be followed by
    /// [`finish_some`](Self::finish_some) until it is [drained](crate::client::Wire::is_drained) or so late, and by [`part`](Self::part)
    pub fn begin_finish(&mut self) -> Option<Instant> {
        if core::mem::replace(&mut self.finished, true) {
            return None;
        }
        let until = self.wire.tick() + self.patience.exit.min(LAST_WRITE);
        self.wire.close();
        self.settle(&mut None);
        Some(until)
    }

    /// Sends some of what is left, and waits for that at most until `until`
    pub fn finish_some(&mut self, until: Instant) {
        self.wire.wait_closing(until);
        self.settle(&mut None);
    }

    /// What is left to be done then
    pub fn part(&mut self, now: Instant) -> (Parting, Patience) {
        (self.wire.part(self.patience, now), self.patience)
    }
}

/// How long the exit status of a server is waited for that has closed its output, by default
pub const LAST_BREATH: Duration = Duration::from_secs(1);
/// How long a server that is to end is given to take what was written to it
const LAST_WRITE: Duration = Duration::from_secs(1);
