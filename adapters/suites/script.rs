//! A byte stream that plays a script. Each adapter implements its own stream trait for it.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use std::io::{self, ErrorKind};
use std::sync::Mutex;

/// A byte stream that reads the pieces of a script, then its end, and records each write. Clones share the state.
#[derive(Clone, Default)]
pub struct ScriptedStream(Arc<Mutex<ScriptState>>);

#[derive(Default)]
struct ScriptState {
    input: VecDeque<Vec<u8>>,
    writes: Vec<Vec<u8>>,
    /// Number of bytes that can be written before the peer disconnects.
    write_limit: Option<usize>,
    wait_count: usize,
    /// Whether the last read was deferred.
    has_paused: bool,
}

impl ScriptedStream {
    /// Creates a stream of which each read returns one piece.
    pub fn new<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let script = Self::default();
        script.0.lock().unwrap().input = pieces.into_iter().map(<[u8]>::to_vec).collect();
        script
    }

    /// Lets the peer disconnect after `bytes` written bytes.
    pub fn with_write_limit(self, bytes: usize) -> Self {
        self.0.lock().unwrap().write_limit = Some(bytes);
        self
    }

    pub fn writes(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().writes.clone()
    }

    pub fn written(&self) -> String {
        String::from_utf8(self.writes().concat()).unwrap()
    }

    pub fn wait_count(&self) -> usize {
        self.0.lock().unwrap().wait_count
    }

    pub fn count_wait(&self) {
        self.0.lock().unwrap().wait_count += 1;
    }

    /// Returns true on every other call: an asynchronous read is then deferred once.
    pub fn pauses(&self) -> bool {
        let mut state = self.0.lock().unwrap();
        state.has_paused = !state.has_paused;
        state.has_paused
    }

    /// Reads the next piece.
    ///
    /// # Errors
    ///
    /// Never fails.
    ///
    /// # Panics
    ///
    /// Panics if `buffer` is shorter than the piece.
    pub fn read_piece(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(piece) = self.0.lock().unwrap().input.pop_front() else { return Ok(0) };
        assert!(piece.len() <= buffer.len(), "a piece is longer than a read");
        buffer[..piece.len()].copy_from_slice(&piece);
        Ok(piece.len())
    }

    /// Records a write.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::BrokenPipe`] at the write limit.
    pub fn record_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock().unwrap();
        let n = state.write_limit.unwrap_or(bytes.len()).min(bytes.len());
        if n == 0 {
            return Err(ErrorKind::BrokenPipe.into());
        }
        state.write_limit = state.write_limit.map(|limit| limit - n);
        state.writes.push(bytes[..n].to_vec());
        Ok(n)
    }
}
