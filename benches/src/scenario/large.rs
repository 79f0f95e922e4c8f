//! The echo of 10,000,000 bytes.

use core::hint::black_box;
use std::io::{self, Read, Write};

use mcp_proto::pipe::Pipe;

use super::server::{EchoServer, config};
use super::{Scenario, TIME_STEP, advance};
use crate::floor;
use crate::wire::{RequestLine, WireEra};

/// Bytes of text.
pub(super) const SIZE: usize = 10_000_000;

/// Bytes per read or write: the capacity of a pipe.
const CHUNK: usize = 64 << 10;

/// The large call on the floor, with its server loop.
#[derive(Debug)]
pub struct FloorLarge(RequestLine);

impl FloorLarge {
    /// Returns the scenario with a request of `era`.
    #[must_use]
    pub fn new(era: WireEra) -> Self {
        Self(RequestLine::new(era, SIZE))
    }
}

impl Scenario for FloorLarge {
    fn run_once(&mut self) {
        let mut sent = CountingWriter(0);
        floor::serve(ChunkReader(self.0.advance()), &mut sent).expect("no trouble in memory");
        assert!(sent.0 > SIZE, "an answer");
    }
}

/// The large call on our server.
#[derive(Debug)]
pub struct LargeCall {
    request: RequestLine,
    server: EchoServer,
}

impl LargeCall {
    /// Returns the scenario with a request of `era`.
    #[must_use]
    pub fn new(era: WireEra) -> Self {
        Self { request: RequestLine::new(era, SIZE), server: EchoServer::ready(config(), era) }
    }
}

impl Scenario for LargeCall {
    fn run_once(&mut self) {
        let server = &mut self.server;
        let mut sent = 0;
        for chunk in self.request.advance().chunks(CHUNK) {
            advance(&mut server.now, TIME_STEP);
            server.pipe.handle_input(server.now, chunk);
            server.run_turn();
            loop {
                let n = black_box(server.pipe.transmit()).len().min(CHUNK);
                if n == 0 {
                    break;
                }
                server.pipe.consume(n);
                sent += n;
            }
        }
        assert!(sent > SIZE, "an answer");
    }
}

/// Reader that returns as much as a pipe.
struct ChunkReader<'a>(&'a [u8]);

impl Read for ChunkReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.0.len().min(buf.len()).min(CHUNK);
        let (now, later) = self.0.split_at(n);
        buf[..n].copy_from_slice(now);
        self.0 = later;
        Ok(n)
    }
}

/// Writer that accepts as much as a pipe.
struct CountingWriter(usize);

impl Write for &mut CountingWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = buf.len().min(CHUNK);
        self.0 += n;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
