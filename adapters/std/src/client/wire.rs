//! The way to a server: a byte stream, or exchanges over HTTP

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt::{self, Debug};
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::process::ExitStatus;

#[cfg(unix)]
use crate::Descriptors;
use crate::child::{Ended, Patience, Shutdown};
use crate::{Clock, Duplex, Interest, is_peer_gone};
use mcp_proto::Instant;
use mcp_proto::client::{Config, Engine, Event};
#[cfg(feature = "http")]
use mcp_proto::http::HeadRecord;
#[cfg(feature = "http")]
use mcp_proto::http::client::{Challenge, Credential, ExchangeId};
use mcp_proto::pipe::{self, Pipe};

use super::link::Link;
use crate::Outlook;
use crate::drive::{Drive, Opening};
use crate::error::Error;

/// What a connection needs to know of the way to its server
pub trait Wire: Debug {
    /// The engine
    fn engine(&mut self) -> &mut Engine;

    /// The time as of the last look at the clock; cheap
    fn now(&self) -> Instant;

    /// Looks at the clock
    fn tick(&mut self) -> Instant;

    /// The next event; what was read is decoded here
    fn poll_event(&mut self) -> Option<Event>;

    /// The next event that does not come of what was read: of a deadline, for one
    fn poll_own_event(&mut self) -> Option<Event> {
        let now = self.now();
        self.engine().poll_event(now)
    }

    /// Says whether nothing that was read is asked for now
    fn hold(&mut self, hold: bool) {
        let _ = hold;
    }

    /// Writes what there is as far as it goes now; whether anything went
    fn write(&mut self) -> bool;

    /// Waits until something can be read or written, a deadline passes, or `until`; then reads once, and lets deadlines
    /// pass
    fn wait(&mut self, until: Option<Instant>);

    /// As [`wait`](Self::wait), for a loop that has waited by itself, and found that there is something to read or not
    fn step(&mut self, readable: bool) {
        let _ = readable;
        self.wait(Some(Instant::ZERO));
    }

    /// What [`wait`](Self::wait) would wait for, for a loop that has other things to wait for besides
    fn outlook(&mut self) -> Outlook<'_> {
        Outlook::blind(None)
    }

    /// When a [`wait`](Self::wait) without a limit ends by itself: for loops that wait in their own way
    fn due(&mut self) -> Option<Instant>;

    /// What such a loop waits for at the [descriptors](Self::descriptors)
    fn interest(&mut self) -> Interest;

    /// What such a loop watches
    #[cfg(unix)]
    fn descriptors(&mut self) -> Descriptors<'_>;

    /// Ends the conversation in good order: what that takes is still to be written
    fn close(&mut self);

    /// As [`wait`](Self::wait), for what is left to be written
    fn wait_closing(&mut self, until: Instant);

    /// Whether everything is over and written
    fn is_drained(&self) -> bool;

    /// What broke it, if it was not the peer who left; told once
    fn take_error(&mut self) -> Option<io::Error>;

    /// Whether messages or heads are kept to be shown
    fn is_tapped(&mut self) -> bool {
        self.engine().config().get_limits().tap_records > 0
    }

    /// The next head of a request or response, if they are kept
    #[cfg(feature = "http")]
    fn poll_head(&mut self) -> Option<HeadRecord> {
        None
    }

    /// The next question of the server's who it is that asks
    #[cfg(feature = "http")]
    fn poll_challenge(&mut self) -> Option<Challenge> {
        None
    }

    /// Answers a challenge; none refuses
    #[cfg(feature = "http")]
    fn authorize(&mut self, exchange: ExchangeId, credential: Option<Credential>) {
        let _ = (exchange, credential);
    }

    /// What ends a [`wait`](Self::wait) early, from anywhere
    ///
    /// # Errors
    ///
    /// Why there is no such thing.
    fn waker(&mut self) -> io::Result<Waker> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Calls can be made from now on
    fn opened(&mut self) {}

    /// A line proved to be no message
    fn is_noise(&mut self, line: &str) {
        let _ = line;
    }

    /// Whether anything came that looked like a message, before calls could be made
    fn any_message(&self) -> bool {
        false
    }

    /// What is known of the server, when it is over
    fn obituary(&mut self, wait: Duration) -> Obituary;

    /// Begins to end the server, if it is ours to end: for loops that wait in their own way
    fn part(&mut self, patience: Patience, now: Instant) -> Parting;

    /// Ends the server, if it is ours to end
    fn end(&mut self, patience: Patience) -> Result<Option<Ended>, Error> {
        let clock = Clock::start();
        match self.part(patience, clock.now()) {
            Parting::Child(shutdown) => Ok(Some(shutdown.run(clock))),
            Parting::Stream(mut stream) => {
                match stream.shutdown_write().and_then(|()| stream.flush(patience.exit)) {
                    Err(error) if !is_peer_gone(&error) => Err(Error::Io(error)),
                    _ => Ok(None),
                }
            }
            Parting::Nothing => Ok(None),
        }
    }
}

/// What is left to be done at the end of a connection
pub enum Parting {
    /// A process of ours is to be ended
    Child(Box<Shutdown>),
    /// Our direction of a stream is to be ended
    Stream(Box<dyn Duplex + Send>),
    /// Nothing
    Nothing,
}

impl Debug for Parting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Child(shutdown) => shutdown.fmt(f),
            Self::Stream(_) => f.write_str("Stream"),
            Self::Nothing => f.write_str("Nothing"),
        }
    }
}

/// What is known of a server whose connection is over
#[derive(Debug, Default)]
pub struct Obituary {
    /// The program that was started
    pub program: Option<String>,
    /// Where the server is
    pub url: Option<String>,
    /// How the process ended
    pub ended: Option<ExitStatus>,
    /// What it wrote to stderr last
    pub last_words: String,
}

/// A byte stream to a server
#[derive(Debug)]
pub struct Stream {
    pipe: pipe::Client,
    drive: Drive,
    link: Link,
}

impl Stream {
    /// A connection that has not begun to speak
    pub fn new(config: Config, link: Link) -> Self {
        let mut drive = Drive::new();
        drive.opening = Some(Opening::default());
        let pipe = pipe::Client::new(Arc::new(config), drive.tick());
        Self { pipe, drive, link }
    }
}

impl Wire for Stream {
    fn engine(&mut self) -> &mut Engine {
        self.pipe.engine()
    }

    fn now(&self) -> Instant {
        self.drive.now()
    }

    fn tick(&mut self) -> Instant {
        self.drive.tick()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.pipe.poll_event(self.drive.now())
    }

    fn write(&mut self) -> bool {
        self.drive.write(&mut self.pipe, self.link.io())
    }

    fn wait(&mut self, until: Option<Instant>) {
        self.drive.wait(&mut self.pipe, self.link.io(), true, until);
    }

    fn step(&mut self, readable: bool) {
        self.drive.step(&mut self.pipe, self.link.io(), readable);
    }

    fn outlook(&mut self) -> Outlook<'_> {
        self.drive.outlook(&mut self.pipe, self.link.io(), true)
    }

    fn due(&mut self) -> Option<Instant> {
        self.drive.due(&mut self.pipe)
    }

    fn interest(&mut self) -> Interest {
        self.drive.interest(&self.pipe, true)
    }

    #[cfg(unix)]
    fn descriptors(&mut self) -> Descriptors<'_> {
        (*self.link.io()).descriptors()
    }

    fn close(&mut self) {
        let now = self.drive.now();
        self.pipe.engine().close(now);
    }

    fn wait_closing(&mut self, until: Instant) {
        self.drive.wait(&mut self.pipe, self.link.io(), false, Some(until));
    }

    fn is_drained(&self) -> bool {
        self.pipe.is_drained()
    }

    fn take_error(&mut self) -> Option<io::Error> {
        self.drive.take_error()
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.link.io().waker()
    }

    fn opened(&mut self) {
        self.drive.opening = None;
    }

    fn is_noise(&mut self, line: &str) {
        if let Some(opening) = &mut self.drive.opening {
            opening.is_noise(line);
        }
    }

    fn any_message(&self) -> bool {
        self.drive.opening.as_ref().is_some_and(Opening::any_message)
    }

    fn obituary(&mut self, wait: Duration) -> Obituary {
        let (program, ended, last_words) = self.link.obituary(wait);
        Obituary { program, url: None, ended, last_words }
    }

    fn part(&mut self, patience: Patience, now: Instant) -> Parting {
        self.link.part(patience, now)
    }
}
