//! A byte stream from any reader and writer, with a thread for each.
//!
//! This is the fallback where handles cannot be polled. Both directions need a thread: if the caller wrote, two ends
//! that write to each other would deadlock on full pipes.

use alloc::sync::Arc;
use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::thread;

use crate::io::{MemoryEnd, MemoryPipe, MemoryPipes, retry_on_interrupt};

/// A [`Duplex`](crate::io::Duplex) over any blocking reader and writer.
///
/// One thread reads into a bounded buffer and pauses while that is full. Another thread writes from a second buffer.
/// So `write` accepts bytes before they have left the process: call [`flush`](crate::io::Duplex::flush) before the process
/// ends.
///
/// Dropping it does not wait. Accepted bytes are still written while the process lives. The reading thread ends after
/// its current `read`, which cannot be interrupted. Neither thread keeps the process alive.
#[derive(Debug)]
pub struct Threaded(MemoryEnd);

impl Threaded {
    /// Starts the two threads, with a buffer of 64 KiB for each direction.
    ///
    /// # Errors
    ///
    /// The error of the operating system if a thread cannot be started.
    pub fn new(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> io::Result<Self> {
        Self::with_capacity(CAPACITY, reader, writer)
    }

    /// Starts the two threads, with a buffer of `capacity` bytes (at least 1) for each direction.
    ///
    /// # Errors
    ///
    /// The same as [`new`](Self::new).
    pub fn with_capacity(
        capacity: usize,
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        // Created first: if the second thread cannot be started, dropping it ends the first one.
        let pipes = Arc::new(MemoryPipes::new(capacity));
        let threaded = Self(MemoryEnd { pipes: Arc::clone(&pipes), inbound: IN, is_threaded: true });
        let read_pipes = Arc::clone(&pipes);
        thread::Builder::new().name("mcp-std read".into()).spawn(move || read_all(&read_pipes, reader))?;
        thread::Builder::new().name("mcp-std write".into()).spawn(move || write_all(&pipes, writer))?;
        Ok(threaded)
    }
}

macro_rules! end {
    ($self:ident, $($call:tt)*) => { $self.0.$($call)* };
}

crate::io::forward_duplex!(end: impl[] Threaded);

/// Runs the reading thread.
fn read_all(pipes: &MemoryPipes, mut reader: impl Read) {
    let _on_exit = OnExit(|| pipes.close_writer(IN, None));
    let mut buf = [0; CHUNK_SIZE];
    loop {
        // Reads no more than fits, so that back-pressure reaches the peer.
        let free = pipes.wait_until(None, |pair| match &pair[IN] {
            pipe if pipe.is_reader_dropped => Some(0),
            pipe => Some(pipes.free_capacity(pipe)).filter(|free| *free > 0),
        });
        let Some(free) = free.filter(|free| *free > 0) else { return };
        let buf = &mut buf[..free.min(CHUNK_SIZE)];
        match retry_on_interrupt(|| reader.read(buf)) {
            Ok(0) => return,
            // The handle is non-blocking after all and cannot be waited for; only retrying is left.
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY_DELAY),
            Err(error) => return pipes.close_writer(IN, Some(error)),
            // Fails only if the reader was dropped, which the next iteration sees.
            Ok(n) => drop(pipes.write(IN, &buf[..n])),
        }
    }
}

/// Runs the writing thread. Bytes stay in the pipe until they are written, so an empty pipe means "all written".
fn write_all(pipes: &MemoryPipes, mut writer: impl Write) {
    let _on_exit = OnExit(|| {
        pipes.update(OUT, |pipe| {
            pipe.is_reader_dropped = true;
            pipe.is_finished = true;
        });
    });
    let mut buf = [0; CHUNK_SIZE];
    loop {
        let taken = pipes.wait_until(None, |pair| match &pair[OUT] {
            pipe if !pipe.bytes.is_empty() => Some(pipe.peek(&mut buf)),
            pipe => pipe.is_writer_closed.then_some(0),
        });
        let Some(taken) = taken.filter(|taken| *taken > 0) else { break };
        match write_some(&mut writer, &buf[..taken]) {
            Ok(written) => pipes.update(OUT, |pipe: &mut MemoryPipe| drop(pipe.bytes.drain(..written))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY_DELAY),
            Err(error) => return pipes.close_writer(OUT, Some(error)),
        }
    }
    // Before `_on_exit` reports the end: a flush that waits for it returns after the writer was closed.
    drop(writer);
}

/// Writes once and flushes the buffer of `writer`.
fn write_some(writer: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    match retry_on_interrupt(|| writer.write(bytes))? {
        0 => Err(ErrorKind::WriteZero.into()),
        written => loop {
            match retry_on_interrupt(|| writer.flush()) {
                // The bytes are taken, so only the flush is repeated.
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY_DELAY),
                outcome => return outcome.map(|()| written),
            }
        },
    }
}

/// Runs its closure when the thread exits, so that a panic of the reader also ends the stream.
struct OnExit<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnExit<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

const IN: usize = 0;
const OUT: usize = 1;
/// Default buffer of each direction, in bytes.
const CAPACITY: usize = 64 * 1024;
/// Bytes of one read or write.
const CHUNK_SIZE: usize = 16 * 1024;
/// Pause before another try on a handle that is unexpectedly non-blocking.
const RETRY_DELAY: Duration = Duration::from_millis(1);
