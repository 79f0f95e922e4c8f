//! A loop between two streams: bytes from each side to the other.

use core::time::Duration;
use std::io::{self, ErrorKind};
use std::time::Instant;

use mcp_std::io::{Duplex, is_peer_gone};
#[cfg(unix)]
use mcp_std::poll::Interest;
use mcp_std::poll::WaitRequest;

use crate::Side;

/// Bytes that wait for one side before no more are read for it.
const MAX_WAITING: usize = 1 << 20;
/// Bytes of one read.
const READ_SIZE: usize = 64 << 10;
/// Time that a server has after its client has left.
const LEFT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a client that says nothing is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// One direction.
#[derive(Default)]
struct Flow {
    waiting: Vec<u8>,
    /// Number of bytes of `waiting` that were written.
    written: usize,
    /// Nothing more is read.
    is_ended: bool,
    /// Nothing more is written, because the receiver is gone.
    is_cut: bool,
}

/// Passes bytes on in both directions until the server has ended, and its last bytes have been written.
///
/// `passed` is told what each read returned, and of the end of each side. `has_ended` returns whether the server has, although
/// something that it has left behind keeps its stream open.
///
/// # Errors
///
/// Fails if the system cannot wait, or if reading fails otherwise than by a peer that is gone.
pub fn pump(
    client: &mut impl Duplex,
    server: &mut impl Duplex,
    has_ended: &mut dyn FnMut() -> bool,
    passed: &mut dyn FnMut(Side, Option<&[u8]>),
) -> io::Result<()> {
    let mut buffer = vec![0; READ_SIZE];
    let (mut up, mut down) = (Flow::default(), Flow::default());
    let mut is_input_closed = false;
    let mut left_at = None;
    let mut looked_at = Instant::now();
    loop {
        let mut has_passed = up.read(client, &mut buffer, |bytes| passed(Side::Client, bytes))?;
        up.write(server);
        if up.is_ended && up.is_empty() && !is_input_closed {
            is_input_closed = true;
            server.shutdown_write()?;
        }
        has_passed |= down.read(server, &mut buffer, |bytes| passed(Side::Server, bytes))?;
        down.write(client);
        if down.is_ended && down.is_empty() {
            return Ok(());
        }
        // Not at each message: who speaks is there.
        let has_looked = !has_passed && looked_at.elapsed() >= LOOK_INTERVAL;
        let is_gone = has_looked && {
            looked_at = Instant::now();
            client.hung_up().is_ok_and(|hung_up| hung_up.write_closed)
        };
        if left_at.is_none() && (down.is_cut || is_gone) {
            left_at = Some(Instant::now());
            // It cannot say anything that anybody would hear.
            if !core::mem::replace(&mut up.is_ended, true) {
                passed(Side::Client, None);
            }
        }
        if left_at.is_some_and(|at: Instant| at.elapsed() > LEFT_TIMEOUT) {
            return Ok(());
        }
        if has_looked && has_ended() {
            return Ok(());
        }
        let to_client = request(client, up.wants_input(), !down.is_empty());
        let to_server = request(server, down.wants_input(), !up.is_empty());
        WaitRequest::wait(&[to_client, to_server], Some(LOOK_INTERVAL))?;
        if !has_passed {
            // What the stream does by itself: the stderr of the server is read.
            server.wait(Default::default(), Some(Duration::ZERO))?;
        }
    }
}

#[cfg(unix)]
fn request(io: &impl Duplex, read: bool, write: bool) -> WaitRequest<'_> {
    WaitRequest::new(io.descriptors(), Interest { read, write }, None)
}

#[cfg(not(unix))]
fn request(_: &impl Duplex, _: bool, _: bool) -> WaitRequest<'_> {
    WaitRequest::unpollable(None)
}

impl Flow {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn wants_input(&self) -> bool {
        !self.is_ended && self.waiting.len() < MAX_WAITING
    }

    /// Reads once, if there is room. Returns whether bytes have passed.
    fn read(
        &mut self,
        from: &mut impl Duplex,
        buffer: &mut [u8],
        mut passed: impl FnMut(Option<&[u8]>),
    ) -> io::Result<bool> {
        if !self.wants_input() {
            return Ok(false);
        }
        match from.read(buffer) {
            Ok(0) => self.is_ended = true,
            Ok(length) => {
                let bytes = buffer.get(..length).unwrap_or_default();
                passed(Some(bytes));
                if !self.is_cut {
                    self.waiting.extend_from_slice(bytes);
                }
                return Ok(true);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if is_peer_gone(&error) => self.is_ended = true,
            Err(error) => return Err(error),
        }
        passed(None);
        Ok(false)
    }

    /// Writes as much as fits. A receiver that is gone gets nothing more.
    fn write(&mut self, to: &mut impl Duplex) {
        while let Some(left) = self.waiting.get(self.written..).filter(|left| !left.is_empty()) {
            match to.write(left) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.is_cut = true;
                    break;
                }
            }
        }
        self.waiting.clear();
        self.written = 0;
    }
}
