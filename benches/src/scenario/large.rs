//! The echo of 10,000,000 bytes.

use core::hint::black_box;
use std::io::{self, Read, Write};

use mcp_proto::pipe::Pipe;

use super::server::{EchoServer, config};
use super::{STEP, Scenario, pass};
use crate::floor;
use crate::wire::{Era, Request};

/// Bytes of text
pub(super) const SIZE: usize = 10_000_000;

/// Bytes that one read or write moves: the capacity of a pipe
const CHUNK: usize = 64 << 10;

/// The floor's, with the loop of its server
#[derive(Debug)]
pub struct FloorLarge(Request);

impl FloorLarge {
    /// With a request of `era`
    #[must_use]
    pub fn new(era: Era) -> Self {
        Self(Request::new(era, SIZE))
    }
}

impl Scenario for FloorLarge {
    fn op(&mut self) {
        let mut sent = Counter(0);
        floor::serve(Chunks(self.0.advance()), &mut sent).expect("no trouble in memory");
        assert!(sent.0 > SIZE, "an answer");
    }
}

/// Ours
#[derive(Debug)]
pub struct Large {
    request: Request,
    server: EchoServer,
}

impl Large {
    /// With a request of `era`
    #[must_use]
    pub fn new(era: Era) -> Self {
        Self { request: Request::new(era, SIZE), server: EchoServer::ready(config(), era) }
    }
}

impl Scenario for Large {
    fn op(&mut self) {
        let server = &mut self.server;
        let mut sent = 0;
        for chunk in self.request.advance().chunks(CHUNK) {
            pass(&mut server.now, STEP);
            server.pipe.handle_input(server.now, chunk);
            server.turn();
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

/// Hands out what a pipe would hand out
struct Chunks<'a>(&'a [u8]);

impl Read for Chunks<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.0.len().min(buf.len()).min(CHUNK);
        let (now, later) = self.0.split_at(n);
        buf[..n].copy_from_slice(now);
        self.0 = later;
        Ok(n)
    }
}

/// Takes what a pipe would take
struct Counter(usize);

impl Write for &mut Counter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = buf.len().min(CHUNK);
        self.0 += n;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
