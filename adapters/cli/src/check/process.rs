//! A server process and the lines that go to it and come from it

use core::time::Duration;
use std::io::ErrorKind;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_proto::tap::Direction;
use mcp_std::child::{Child, ChildIo, Ended, Life, Patience, Program};
use mcp_std::{Duplex, Interest};

use super::passing::{Got, LONGEST, MOST, Shown};
use super::report::clip;

/// A running server
pub(super) struct Process {
    child: Child,
    io: ChildIo,
    buffer: Vec<u8>,
    /// Where in `buffer` the next line begins
    begin: usize,
    /// How far in `buffer` there is no end of a line
    searched: usize,
    total: usize,
    open: bool,
    shown: Shown,
}

impl Process {
    pub(super) fn start(program: &Program, shown: Shown) -> Result<Self, Error> {
        let mut child = program.spawn()?;
        let io = child.take_io()?;
        Ok(Self { child, io, buffer: Vec::new(), begin: 0, searched: 0, total: 0, open: true, shown })
    }

    /// Writes a line; false when that did not work in time
    pub(super) fn send(&mut self, line: &[u8], until: Instant) -> bool {
        self.shown.line(Direction::Out, line);
        let line = [line, b"\n"].concat();
        let mut left = line.as_slice();
        while !left.is_empty() {
            match self.io.write(left) {
                Ok(n) => left = &left[n..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let time = until.saturating_duration_since(Instant::now());
                    if time.is_zero() || self.io.wait(Interest::WRITE, Some(time)).is_err() {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Waits for a line
    pub(super) fn next(&mut self, until: Instant) -> Got {
        let mut chunk = [0; 64 * 1024];
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let end = self.searched + at;
                let line = self.buffer[self.begin..end].to_vec();
                (self.begin, self.searched) = (end + 1, end + 1);
                self.shown.line(Direction::In, &line);
                return Got::Line(line);
            }
            self.buffer.drain(..self.begin);
            (self.begin, self.searched) = (0, self.buffer.len());
            if self.buffer.len() > LONGEST || self.total > MOST {
                return Got::Flood;
            }
            if !self.open {
                return Got::End(core::mem::take(&mut self.buffer));
            }
            let time = until.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return Got::Quiet;
            }
            match self.io.wait(Interest::READ, Some(time)).and_then(|_| self.io.read(&mut chunk)) {
                Ok(n @ 1..) => {
                    self.buffer.extend_from_slice(&chunk[..n]);
                    self.total += n;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => self.open = false,
            }
        }
    }

    /// How it ended, in words, when it has
    pub(super) fn fate(&mut self) -> String {
        let mut fate = match self.child.wait_ended(Duration::from_millis(300)) {
            Life::Ended(Some(status)) => format!("it ended ({status})"),
            Life::Ended(None) => "it ended".into(),
            Life::Running => "it closed its stdout".into(),
        };
        if let Some(line) = self.child.last_words().lines().next_back() {
            fate += &format!(", with {:?} on stderr,", clip(line, 160));
        }
        fate
    }

    /// Closes its stdin and sees to it that it goes
    pub(super) fn end(self, patience: Patience) -> Ended {
        self.child.shutdown(Some(self.io), patience)
    }
}
