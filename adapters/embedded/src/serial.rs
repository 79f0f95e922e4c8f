//! A server on a UART or another byte stream, polled by the loop of the program, or as a future.

#[cfg(feature = "async")]
mod serve;

#[cfg(feature = "async")]
pub use self::serve::Timer;

use embedded_io::{ErrorType, Read, ReadReady, Write, WriteReady};
use mcp_proto::pipe::{Pipe, Server};
use mcp_proto::server::{Config, Engine};
use mcp_proto::sync::Arc;
use mcp_proto::{Fault, Instant};

use crate::{Application, Turn};

/// Largest number of bytes that are read at once: the driver has no other buffer, and it is on the stack.
const CHUNK_BYTES: usize = 128;

/// A server on one byte stream.
///
/// The stream has to be able to say whether it is ready ([`ReadReady`], [`WriteReady`]), so that a turn never waits. A
/// UART needs a buffer that an interrupt fills, of at least the bytes that arrive while the longest handler runs. Nothing
/// is flushed, because that waits too: a stream that holds bytes back until then needs a `write` that does not.
///
/// A serial line has no end, so a client that has gone looks like a silent one. Tell the server by [`restart`](Self::restart) where
/// something shows it (a control line of the interface, a break, a cable that is pulled).
#[derive(Debug)]
pub struct SerialServer {
    server: Server,
    config: Arc<Config>,
    /// The last byte that was written is not the end of a message.
    is_mid_message: bool,
}

impl SerialServer {
    /// Creates a server whose first client has not sent anything yet.
    #[must_use]
    pub fn new(config: Arc<Config>, now: Instant) -> Self {
        Self { server: Server::new(Arc::clone(&config), now), config, is_mid_message: false }
    }

    /// Returns the engine, for commands of the application outside of [`Application`].
    pub const fn engine(&mut self) -> &mut Engine {
        self.server.engine()
    }

    /// Ends the conversation with the client, and begins one with the next.
    ///
    /// The application is told that its calls were cancelled. What was not written is dropped; a message that was written
    /// in part is ended by a newline, so that the next client loses none of its own.
    ///
    /// # Errors
    ///
    /// The error of `io`; the new conversation has begun, too.
    pub fn restart<S: Write, A: Application>(
        &mut self,
        now: Instant,
        io: &mut S,
        app: &mut A,
    ) -> Result<(), S::Error> {
        self.server.abort(now, &Fault::Eof);
        while let Some(event) = self.server.poll_event(now) {
            app.handle_event(now, self.server.engine(), event);
        }
        self.server = Server::new(Arc::clone(&self.config), now);
        if core::mem::take(&mut self.is_mid_message) {
            io.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Performs one turn: reads what has arrived, hands its events to the application, and writes what fits.
    ///
    /// # Errors
    ///
    /// The error of `io`. The server is unchanged by it: on a serial line it is noise or lost bytes, and the next turn
    /// goes on. The line that it was in is answered as invalid; the calls of other lines are not affected.
    pub fn poll<S, A>(&mut self, now: Instant, io: &mut S, app: &mut A) -> Result<Turn, S::Error>
    where
        S: Read + ReadReady + Write + WriteReady,
        A: Application,
    {
        let mut is_busy = false;
        if self.server.wants_input() && io.read_ready()? {
            let mut bytes = [0; CHUNK_BYTES];
            let n = io.read(&mut bytes)?;
            self.handle_read(now, &bytes, n);
            is_busy = true;
        }
        let wakes_at = self.advance(now, app);
        is_busy |= self.write(io)?;
        if self.server.is_drained() {
            return Ok(Turn::Closed);
        }
        if is_busy {
            return Ok(Turn::Busy);
        }
        Ok(Turn::Idle(self.poll_timeout(wakes_at)))
    }

    /// Takes the first `n` bytes that were read; none are the end of the stream.
    fn handle_read(&mut self, now: Instant, bytes: &[u8], n: usize) {
        match bytes.get(..n) {
            Some(read @ [_, ..]) => self.server.handle_input(now, read),
            _ => self.server.handle_eof(now),
        }
    }

    /// Returns when to take the next turn without input; `wakes_at` is when the application wants to be called.
    fn poll_timeout(&mut self, wakes_at: Option<Instant>) -> Option<Instant> {
        self.server.poll_timeout().into_iter().chain(wakes_at).min()
    }

    /// Processes what is due, hands all events to the application, and returns when it wants to be called.
    fn advance<A: Application>(&mut self, now: Instant, app: &mut A) -> Option<Instant> {
        if self.server.poll_timeout().is_some_and(|at| at <= now) {
            self.server.handle_timeout(now);
        }
        while let Some(event) = self.server.poll_event(now) {
            app.handle_event(now, self.server.engine(), event);
        }
        app.poll(now, self.server.engine())
    }

    /// Writes as much as the stream takes at once. Returns whether it took any.
    fn write<S: Write + WriteReady>(&mut self, io: &mut S) -> Result<bool, S::Error> {
        let mut has_written = false;
        loop {
            let bytes = self.server.transmit();
            if bytes.is_empty() || !io.write_ready()? {
                return Ok(has_written);
            }
            let n = io.write(bytes)?;
            self.consume(n);
            has_written |= n > 0;
            if n == 0 {
                return Ok(has_written);
            }
        }
    }

    /// Records that the first `n` bytes of the output were written.
    fn consume(&mut self, n: usize) {
        if let Some(last) = n.checked_sub(1).and_then(|at| self.server.transmit().get(at)) {
            self.is_mid_message = *last != b'\n';
        }
        self.server.consume(n);
    }
}

/// A stream whose two directions are separate values, as a split UART is.
#[derive(Debug)]
pub struct Joined<R, W>(pub R, pub W);

impl<R: ErrorType, W: ErrorType<Error = R::Error>> ErrorType for Joined<R, W> {
    type Error = R::Error;
}

impl<R: Read, W: ErrorType<Error = R::Error>> Read for Joined<R, W> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Self::Error> {
        self.0.read(bytes)
    }
}

impl<R: ReadReady, W: ErrorType<Error = R::Error>> ReadReady for Joined<R, W> {
    fn read_ready(&mut self) -> Result<bool, Self::Error> {
        self.0.read_ready()
    }
}

impl<R: ErrorType, W: Write<Error = R::Error>> Write for Joined<R, W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Self::Error> {
        self.1.write(bytes)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        self.1.flush()
    }
}

impl<R: ErrorType, W: WriteReady<Error = R::Error>> WriteReady for Joined<R, W> {
    fn write_ready(&mut self) -> Result<bool, Self::Error> {
        self.1.write_ready()
    }
}
