//! A duplex stream from any reader and writer, with a thread for each
//!
//! The fallback where handles cannot be polled. Both directions need a thread: with the writing done by the
//! caller, two ends that write to each other would hang on full pipes.

use alloc::sync::Arc;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::thread;

use crate::duplex::{Duplex, HungUp, Interest, Ready, uninterrupted};
use crate::memory::{Lane, Link};

/// A [`Duplex`] over any blocking reader and writer
///
/// One thread reads into a bounded buffer and pauses while that is full; one thread writes from another. So
/// `write` accepts bytes before they have left the process: call [`flush`](Duplex::flush) before the process
/// ends.
///
/// Dropping it does not wait: what was accepted is still written while the process lives, and the reading
/// thread ends with the next byte or end that it gets (a blocked `read` cannot be called back). Neither keeps
/// the process alive.
#[derive(Debug)]
pub struct Threaded {
    link: Arc<Link>,
}

impl Threaded {
    /// Starts the two threads, with 64 KiB of buffer for each direction
    ///
    /// # Errors
    ///
    /// When the operating system has no thread left to give.
    pub fn new(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> io::Result<Self> {
        Self::with_capacity(CAPACITY, reader, writer)
    }

    /// Starts the two threads, with `capacity` bytes (at least 1) of buffer for each direction
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_capacity(
        capacity: usize,
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        // Made first: if the second thread cannot be had, dropping this lets the first one go.
        let threaded = Self { link: Arc::new(Link::new(capacity)) };
        let link = Arc::clone(&threaded.link);
        thread::Builder::new().name("mcp-std read".into()).spawn(move || read_all(&link, reader))?;
        let link = Arc::clone(&threaded.link);
        thread::Builder::new().name("mcp-std write".into()).spawn(move || write_all(&link, writer))?;
        Ok(threaded)
    }
}

impl Duplex for Threaded {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.link.read(IN, buf)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.link.write(OUT, bytes)
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        self.link.wait_ready(IN, interest, timeout)
    }

    fn waker(&mut self) -> io::Result<Waker> {
        Ok(Link::waker(&self.link, IN))
    }

    fn hung_up(&mut self) -> io::Result<HungUp> {
        Ok(self.link.hung_up(IN))
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.link.end(OUT, None);
        Ok(())
    }

    fn flush(&mut self, timeout: Duration) -> io::Result<()> {
        let outcome = self.link.wait_until(Some(timeout), |lanes| {
            let lane = &mut lanes[OUT];
            match lane.take_failure() {
                Some(error) => Some(Err(error)),
                None if lane.bytes.is_empty() => (lane.settled || !lane.ended).then_some(Ok(())),
                // Its error has been told already.
                None => lane.settled.then(|| Err(ErrorKind::BrokenPipe.into())),
            }
        });
        outcome.unwrap_or_else(|| Err(ErrorKind::TimedOut.into()))
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.link.abandon(IN);
        self.link.end(OUT, None);
    }
}

/// The reading thread
fn read_all(link: &Link, mut reader: impl Read) {
    let _end = OnExit(|| link.end(IN, None));
    let mut buf = [0; CHUNK];
    loop {
        // Reads only what there is room for, so back-pressure reaches the peer.
        let room = link.wait_until(None, |lanes| match &lanes[IN] {
            lane if lane.abandoned => Some(0),
            lane => Some(link.room(lane)).filter(|room| *room > 0),
        });
        let Some(room) = room.filter(|room| *room > 0) else { return };
        let buf = &mut buf[..room.min(CHUNK)];
        match uninterrupted(|| reader.read(buf)) {
            Ok(0) => return,
            // A handle that turns out to be non-blocking cannot be waited for; asking again soon is what is
            // left.
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY),
            Err(error) => return link.end(IN, Some(error)),
            // Fails only when nobody reads any more, which the next turn sees.
            Ok(n) => drop(link.write(IN, &buf[..n])),
        }
    }
}

/// The writing thread; bytes stay on the lane until they are written, so that an empty lane means "all gone"
fn write_all(link: &Link, mut writer: impl Write) {
    let _settle = OnExit(|| {
        link.change(OUT, |lane| {
            lane.abandoned = true;
            lane.settled = true;
        });
    });
    let mut buf = [0; CHUNK];
    loop {
        let taken = link.wait_until(None, |lanes| match &lanes[OUT] {
            lane if !lane.bytes.is_empty() => Some(lane.peek(&mut buf)),
            lane => lane.ended.then_some(0),
        });
        let Some(taken) = taken.filter(|taken| *taken > 0) else { break };
        match write_some(&mut writer, &buf[..taken]) {
            Ok(written) => link.change(OUT, |lane: &mut Lane| drop(lane.bytes.drain(..written))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY),
            Err(error) => return link.end(OUT, Some(error)),
        }
    }
    drop(writer);
}

/// One write, pushed through whatever buffer `writer` has
fn write_some(writer: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    match uninterrupted(|| writer.write(bytes))? {
        0 => Err(ErrorKind::WriteZero.into()),
        written => loop {
            match uninterrupted(|| writer.flush()) {
                // What it has taken must not be written again.
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY),
                outcome => return outcome.map(|()| written),
            }
        },
    }
}

/// Runs its closure when the thread leaves, by whatever way: a panicking reader ends the stream too
struct OnExit<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnExit<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

const IN: usize = 0;
const OUT: usize = 1;
/// Buffer of each direction, unless told otherwise
const CAPACITY: usize = 64 * 1024;
/// Bytes of one read or write
const CHUNK: usize = 16 * 1024;
/// Between two tries on a handle that is non-blocking against expectation
const RETRY: Duration = Duration::from_millis(1);
