//! The relay between the stream of a server and that of its client, with a [`Filter`] on the way to the client.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use mcp_std::io::{Duplex, Interest, Socket, is_peer_gone};
use mcp_std::poll::WaitRequest;

use super::{Filter, Step};

/// Steps that wait for the client before no more output of the server is read.
const MAX_STEPS: usize = 256;
/// Bytes for the server that wait before no more input of the client is read.
const MAX_INPUT: usize = 1 << 20;
/// Bytes of one read.
const READ_SIZE: usize = 64 << 10;
/// Longest wait between two looks at whether the server has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How long a client that does not read holds up the end of a server that a signal ends.
const SIGNAL_GRACE: Duration = Duration::from_secs(1);

/// What ends a relay before all pauses are over.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// The server has ended: what it has written still comes, without pauses.
    pub is_server_gone: Arc<AtomicBool>,
    /// A signal has come: a client that does not read is not waited for.
    pub is_signalled: Arc<AtomicBool>,
}

/// Starts a relay. Returns the stream for the server, and the thread, which ends after the server has ended its stream.
///
/// # Errors
///
/// Fails if the system has no thread or no pair of sockets.
pub fn start(
    client: Box<dyn Duplex + Send>,
    filter: Filter,
    end: End,
) -> io::Result<(Socket, JoinHandle<io::Result<()>>)> {
    let (near, far) = UnixStream::pair()?;
    let mut relay = Relay {
        client,
        server: Socket::unix(far)?,
        filter,
        end,
        gone_since: None,
        input: Vec::new(),
        is_input_ended: false,
        steps: VecDeque::new(),
        written: 0,
        paused_until: None,
        is_output_ended: false,
        is_client_gone: false,
    };
    let thread = thread::Builder::new().name("chaos".into()).spawn(move || relay.run())?;
    Ok((Socket::unix(near)?, thread))
}

struct Relay {
    client: Box<dyn Duplex + Send>,
    server: Socket,
    filter: Filter,
    end: End,
    gone_since: Option<Instant>,
    /// Bytes of the client that the server has not taken.
    input: Vec<u8>,
    is_input_ended: bool,
    /// What is still to be done for the client.
    steps: VecDeque<Step>,
    /// Number of bytes of the first step that were written.
    written: usize,
    paused_until: Option<Instant>,
    is_output_ended: bool,
    /// Nothing more is written to the client.
    is_client_gone: bool,
}

impl Relay {
    fn run(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; READ_SIZE];
        let mut is_server_told = false;
        loop {
            self.read_client(&mut buffer)?;
            self.write_server();
            self.read_server(&mut buffer)?;
            if self.end.is_server_gone.load(Ordering::Acquire) {
                let gone_since = *self.gone_since.get_or_insert_with(Instant::now);
                self.steps.retain(|step| !matches!(step, Step::Pause(_)));
                self.paused_until = None;
                if self.end.is_signalled.load(Ordering::Acquire) && gone_since.elapsed() > SIGNAL_GRACE {
                    return Ok(());
                }
            }
            self.perform_steps();
            if self.is_input_ended && self.input.is_empty() && !is_server_told {
                is_server_told = true;
                self.server.shutdown_write()?;
            }
            if self.is_output_ended && self.steps.is_empty() {
                return self.client.shutdown_write();
            }
            let wants_write = !self.steps.is_empty() && self.paused_until.is_none();
            let client = Interest { read: self.wants_input(), write: wants_write };
            let server = Interest { read: self.wants_output(), write: !self.input.is_empty() };
            let paused = self.paused_until.map(|until| until.saturating_duration_since(Instant::now()));
            let look = (!self.steps.is_empty()).then_some(LOOK_INTERVAL);
            let timeout = look.map(|look| paused.unwrap_or(look).min(look));
            let requests = [
                WaitRequest::new(self.client.descriptors(), client, None),
                WaitRequest::new(self.server.descriptors(), server, None),
            ];
            WaitRequest::wait(&requests, timeout)?;
        }
    }

    fn wants_input(&self) -> bool {
        !self.is_input_ended && self.input.len() < MAX_INPUT
    }

    fn wants_output(&self) -> bool {
        !self.is_output_ended && self.steps.len() < MAX_STEPS
    }

    fn read_client(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        if self.wants_input() {
            match read(&mut *self.client, buffer)? {
                Some(0) => self.is_input_ended = true,
                Some(length) => self.input.extend_from_slice(buffer.get(..length).unwrap_or_default()),
                None => {}
            }
        }
        Ok(())
    }

    fn write_server(&mut self) {
        while !self.input.is_empty() {
            match self.server.write(&self.input) {
                Ok(length) => drop(self.input.drain(..length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Its end is read as well.
                Err(_) => {
                    self.input.clear();
                    self.is_input_ended = true;
                }
            }
        }
    }

    fn read_server(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        if self.wants_output() {
            match read(&mut self.server, buffer)? {
                Some(0) => {
                    self.is_output_ended = true;
                    self.filter.finish(&mut self.steps);
                }
                Some(length) => {
                    self.filter.push(buffer.get(..length).unwrap_or_default(), &mut self.steps);
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Does what can be done for the client now.
    fn perform_steps(&mut self) {
        if self.is_client_gone {
            self.steps.clear();
        }
        while let Some(step) = self.steps.front() {
            match step {
                Step::Pause(time) => {
                    let until = *self.paused_until.get_or_insert_with(|| Instant::now() + *time);
                    if Instant::now() < until {
                        return;
                    }
                    self.paused_until = None;
                }
                Step::Write(_) | Step::Fill(_) => {
                    const FILLING: &[u8] = &[b'x'; 4096];
                    let (left, more) = match step {
                        Step::Fill(length) => {
                            let left = length - self.written;
                            (FILLING.get(..left).unwrap_or(FILLING), left.saturating_sub(FILLING.len()))
                        }
                        Step::Write(bytes) => (bytes.get(self.written..).unwrap_or_default(), 0),
                        Step::Pause(_) | Step::End => (&[][..], 0),
                    };
                    match self.client.write(left) {
                        Ok(length) if length < left.len() + more => {
                            self.written += length;
                            continue;
                        }
                        Ok(_) => self.written = 0,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                        Err(_) => return self.leave_client(),
                    }
                }
                Step::End => return self.leave_client(),
            }
            self.steps.pop_front();
        }
    }

    /// Ends both directions: the server sees a client that has left.
    fn leave_client(&mut self) {
        // A client that is gone already needs no end.
        let _ = self.client.shutdown_write();
        self.steps.clear();
        self.input.clear();
        (self.is_client_gone, self.is_input_ended, self.written) = (true, true, 0);
    }
}

/// Returns the number of bytes that were read, 0 at the end; `None` if there are none now.
fn read(stream: &mut dyn Duplex, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match stream.read(buffer) {
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) if is_peer_gone(&error) => Ok(Some(0)),
        Err(error) => Err(error),
    }
}
