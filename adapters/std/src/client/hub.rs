//! One connection and many callers, on other threads or in other tasks

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::task::Waker;
use std::sync::{Mutex, OnceLock, PoisonError};

use mcp_proto::client::{Engine, Peer};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::server::Prepared;
use mcp_proto::{CallKey, Fault, Instant, RawJson, UseError};
use serde::Serialize;

use super::connection::{Answer, Connection, Honoured};
use super::memory::Memory;
use super::slot::Slot;
use crate::error::{Closed, Error};
use crate::inbox::{Inbox, Refused, Sender};

/// The loop's side: what callers want of a connection
///
/// ```text
///   take_in → turn the connection → until it is over, or is to be closed → tell_end
/// ```
#[derive(Debug)]
pub struct Hub {
    inbox: Inbox<Command>,
    taken: VecDeque<Command>,
    /// What waits until the server has taken most of what was written
    held: VecDeque<Command>,
    /// When that is given up
    gives_up: Option<Instant>,
    /// Somebody wants it closed
    closes: bool,
    end: Arc<OnceLock<End>>,
}

/// The callers' side; clones call the same server
#[derive(Clone)]
pub struct Caller {
    sender: Sender<Command>,
    end: Arc<OnceLock<End>>,
    peer: Arc<Peer>,
    memory: Memory,
    max_frame: usize,
    most_waiting: usize,
}

/// Something that a caller wants
pub enum Command {
    /// To have this run on the loop
    Run {
        /// Whether it is run even while the server does not take what was written
        urgent: bool,
        /// What to run: with the connection, or with why it cannot be used
        job: Job,
    },
    /// To have the connection closed
    Close,
}

/// What is run on the loop
pub type Job = Box<dyn FnOnce(Result<&mut Connection, Error>) + Send>;

/// What callers are told who come too late
#[derive(Debug)]
struct End {
    /// What broke the stream, if nobody was told
    io: Mutex<Option<Error>>,
    closed: Arc<Closed>,
}

impl Hub {
    /// Both sides for a connection that is ready; `waker` ends the loop's wait when a caller wants something
    #[must_use]
    pub fn new(connection: &mut Connection, peer: Peer, waker: &Waker) -> (Self, Caller) {
        let (most, max_frame, most_waiting) = {
            let limits = connection.wire.engine().config().get_limits();
            (limits.max_pending_calls as usize, limits.max_frame, limits.max_waiting)
        };
        let inbox = Inbox::new(most);
        inbox.register(waker);
        let end = Arc::new(OnceLock::new());
        let caller = Caller {
            sender: inbox.sender(),
            end: end.clone(),
            peer: Arc::new(peer),
            memory: connection.memory.clone(),
            max_frame,
            most_waiting,
        };
        let hub =
            Self { inbox, taken: VecDeque::new(), held: VecDeque::new(), gives_up: None, closes: false, end };
        (hub, caller)
    }

    /// Does what callers want, as far as the server takes what comes of it
    pub fn take_in(&mut self, connection: &mut Connection) {
        // What may wait is bounded; more stays where it is, and its callers are told that there is no room.
        if self.held.len() < connection.wire.engine().config().get_limits().max_pending_calls as usize {
            self.inbox.take(&mut self.taken);
        }
        if self.held.is_empty() && self.taken.is_empty() {
            return;
        }
        while !self.held.is_empty() && has_room(connection) {
            self.gives_up = None;
            if let Some(Command::Run { job, .. }) = self.held.pop_front() {
                job(Ok(&mut *connection));
            }
        }
        while let Some(command) = self.taken.pop_front() {
            match command {
                Command::Close => self.closes = true,
                Command::Run { urgent: false, .. } if !self.held.is_empty() || !has_room(connection) => {
                    self.held.push_back(command);
                }
                Command::Run { job, .. } => job(Ok(&mut *connection)),
            }
        }
        self.give_up_held(connection);
    }

    /// What has waited for too long is refused
    fn give_up_held(&mut self, connection: &mut Connection) {
        if self.held.is_empty() {
            self.gives_up = None;
            return;
        }
        let patience = connection.wire.engine().config().get_limits().call_timeout;
        let now = connection.wire.tick();
        if *self.gives_up.get_or_insert(now + patience) <= now {
            self.gives_up = None;
            fail(core::mem::take(&mut self.held), || Error::Use(UseError::Full("outbox_mark")));
        }
    }

    /// When to [take in](Self::take_in) again although nobody has come
    #[must_use]
    pub const fn due(&self) -> Option<Instant> {
        self.gives_up
    }

    /// Whether nobody has wanted anything that was not done: a call may begin without standing in line
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.taken.is_empty() && self.inbox.is_empty() && !self.closes
    }

    /// Whether somebody wants the connection closed
    #[must_use]
    pub const fn closes(&self) -> bool {
        self.closes
    }

    /// Tells all callers that it is over, and those that come later
    pub fn tell_end(&mut self, connection: &mut Connection) {
        connection.tell_end();
        let mut waiting: VecDeque<_> = core::mem::take(&mut self.held);
        waiting.append(&mut self.taken);
        fail(waiting, || connection.gone());
        let (io, closed) = match connection.gone() {
            Error::Closed(closed) => (None, closed),
            io => match connection.gone() {
                Error::Closed(closed) => (Some(io), closed),
                _ => (Some(io), Arc::new(Closed::unknown(Fault::Closed))),
            },
        };
        // In this order: who is refused finds the reason.
        let _ = self.end.set(End { io: Mutex::new(io), closed });
        self.inbox.close();
        let mut late = VecDeque::new();
        self.inbox.take(&mut late);
        fail(late, || connection.gone());
    }
}

/// Whether the server takes what is written
fn has_room(connection: &mut Connection) -> bool {
    if connection.wire.engine().is_congested() {
        connection.flush();
    }
    !connection.wire.engine().is_congested()
}

fn fail(commands: impl IntoIterator<Item = Command>, mut why: impl FnMut() -> Error) {
    for command in commands {
        if let Command::Run { job, .. } = command {
            job(Err(why()));
        }
    }
}

impl Caller {
    /// The server
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// What is kept of what the server has said
    #[must_use]
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// How many bytes a list may have, over all of its pages
    #[must_use]
    pub const fn most_of_a_list(&self) -> usize {
        self.max_frame.saturating_mul(4)
    }

    /// How many questions of the server may be open
    #[must_use]
    pub const fn most_waiting(&self) -> usize {
        self.most_waiting
    }

    /// Writes parameters in the shape of the server's revision
    pub fn written<T: Serialize + ?Sized>(&self, value: &T) -> Result<RawJson, Error> {
        let written = Prepared::new(self.peer.version, value);
        Ok(written.map_err(|why| Error::Use(why.into()))?.text().clone())
    }

    /// Has a call begun, with what `command` tells the engine; `progress` says whether that is wanted in the slot
    pub fn call(
        &self,
        progress: bool,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError> + Send + 'static,
    ) -> Result<Slot<Answer>, Error> {
        let (teller, slot) = Slot::new(progress);
        self.send(move |connection| match connection {
            Ok(connection) => connection.begin(teller, command),
            Err(error) => teller.tell(Err(error)),
        })?;
        Ok(slot)
    }

    /// Has a subscription begun
    pub fn subscribe(&self, filter: SubscriptionFilter) -> Result<Slot<Honoured>, Error> {
        let (teller, slot) = Slot::new(false);
        self.send(move |connection| match connection {
            Ok(connection) => connection.begin_subscription(teller, &filter),
            Err(error) => teller.tell(Err(error)),
        })?;
        Ok(slot)
    }

    /// Has something run on the loop
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<Slot<T>, Error> {
        let (teller, slot) = Slot::new(false);
        self.send(move |connection| teller.tell(connection.and_then(job)))?;
        Ok(slot)
    }

    /// Has something run on the loop, whatever waits there, and does not want to know what came of it
    ///
    /// For what there is only so much of: the end of a call, the answer to a question.
    pub fn run_due(&self, job: impl FnOnce(&mut Connection) + Send + 'static) {
        let job: Job = Box::new(move |connection| {
            if let Ok(connection) = connection {
                job(connection);
            }
        });
        // Refused when it is over: there is nothing left to be done.
        let _ = self.sender.send_due(Command::Run { urgent: true, job });
    }

    /// Gives a call up: it is cancelled if it has begun, and does not begin otherwise
    pub fn cancel<T>(&self, slot: &Slot<T>, reason: Option<&str>) {
        if let Some(call) = slot.abandon() {
            let reason = reason.map(String::from);
            self.run_due(move |connection| {
                connection.cancel(call, reason.as_deref());
            });
        }
    }

    /// Has the connection closed, after what was wanted before; false when it is over already
    pub fn close(&self) -> bool {
        self.sender.send_due(Command::Close).is_ok()
    }

    fn send(&self, job: impl FnOnce(Result<&mut Connection, Error>) + Send + 'static) -> Result<(), Error> {
        match self.sender.send(Command::Run { urgent: false, job: Box::new(job) }) {
            Ok(()) => Ok(()),
            Err(Refused::Full(_)) => Err(Error::Use(UseError::Full("max_pending_calls"))),
            Err(Refused::Closed(_)) => Err(self.gone()),
        }
    }

    /// Whether it is over, and all is known about that
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.end.get().is_some()
    }

    /// All that is known about the end
    #[must_use]
    pub fn gone(&self) -> Error {
        let Some(end) = self.end.get() else { return Error::closed(Fault::Closed) };
        let io = end.io.lock().unwrap_or_else(PoisonError::into_inner).take();
        io.unwrap_or_else(|| Error::Closed(end.closed.clone()))
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run { .. } => "Run",
            Self::Close => "Close",
        })
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("peer", &self.peer).field("end", &self.end).finish_non_exhaustive()
    }
}
