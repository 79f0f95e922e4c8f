//! A client and handlers in one thread, over two pipes in memory, on virtual time
//!
//! Time passes only where something is waited for, and then at once: to the next deadline of either end.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::cell::RefCell;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;

use crate::child::Patience;
#[cfg(unix)]
use crate::duplex::Descriptors;
use crate::serve::{self, Backlog, Desk, Handler, Host};
use crate::{Error, Interest};
use mcp_proto::client::{Config, Engine, Event};
use mcp_proto::pipe::{self, Pipe};
use mcp_proto::{Instant, server};

use super::wire::{Obituary, Parting, Wire};

/// Who answers what comes to the server's end
pub trait Actor {
    /// Sees an event; a call may be answered later
    fn handle(&mut self, host: &mut dyn Host, desk: &mut Desk, event: server::Event);

    /// Goes on with what can go on now; whether anything came of it
    fn go_on(&mut self, host: &mut dyn Host, desk: &mut Desk) -> bool {
        let _ = (host, desk);
        false
    }

    /// Waits a moment of real time, before virtual time passes, for what only that can bring; whether it came
    fn linger(&mut self) -> bool {
        false
    }

    /// When somebody wants to go on who sleeps
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Wakes who wanted to sleep until `now` or earlier
    fn wake(&mut self, now: Instant) {
        let _ = now;
    }
}

/// A handler that answers each call on the spot
#[derive(Debug)]
pub struct OnTheSpot<H>(pub H);

impl<H: Handler> Actor for OnTheSpot<H> {
    fn handle(&mut self, host: &mut dyn Host, desk: &mut Desk, event: server::Event) {
        serve::handle(host, desk, &mut self.0, &event);
    }
}

/// A server that can be put under test: the routers of all adapters
pub trait Rehearse {
    /// What it offers, and who answers
    ///
    /// # Errors
    ///
    /// [`Error::Register`] when something could not be registered.
    fn rehearse(self) -> Result<(server::Config, Box<dyn Actor>), Error>;
}

/// The client's end; the handler stays on the thread that made it, so that it need not be `Send`
#[derive(Debug)]
pub struct Rehearsal {
    near: Near,
    stage: u64,
    /// Why it cannot go on
    error: Option<io::Error>,
}

/// The client's end, for a handler that runs
#[derive(Debug)]
struct Near {
    pipe: pipe::Client,
    now: Instant,
    /// What has been read while a handler ran
    events: VecDeque<Event>,
}

/// The server's end
struct Far {
    pipe: pipe::Server,
    backlog: Backlog,
    /// Nobody commands from elsewhere
    desk: Desk,
    actor: Box<dyn Actor>,
    /// The client knows that it is over
    over: bool,
}

thread_local! {
    /// The servers' ends of this thread
    static STAGES: RefCell<BTreeMap<u64, Box<Far>>> = const { RefCell::new(BTreeMap::new()) };
}

static LAST: AtomicU64 = AtomicU64::new(0);

impl Rehearsal {
    /// A client that has not begun to speak, and its server
    pub fn new(config: Config, server: server::Config, actor: Box<dyn Actor>) -> Self {
        #[cfg(feature = "crypto")]
        let server = server.seal_by_default(|| {
            let anchor = crate::Clock::start().anchor();
            Some((mcp_proto::seal::Keys::new(crate::entropy::seed().ok()?), anchor))
        });
        let now = Instant::ZERO;
        let pipe = pipe::Server::new(Arc::new(server), now);
        let far = Far { pipe, backlog: Backlog::default(), desk: Desk::new(MOST_CALLS), actor, over: false };
        let stage = LAST.fetch_add(1, Ordering::Relaxed);
        STAGES.with_borrow_mut(|stages| stages.insert(stage, Box::new(far)));
        let pipe = pipe::Client::new(Arc::new(config), now);
        Self { near: Near { pipe, now, events: VecDeque::new() }, stage, error: None }
    }

    /// Has the server's end do something; none on another thread than its own
    fn with<T>(&mut self, f: impl FnOnce(&mut Far, &mut Near) -> T) -> Option<T> {
        // Taken out, so that its handler may have a client of this kind itself.
        let taken = STAGES.try_with(|stages| stages.borrow_mut().remove(&self.stage)).ok().flatten();
        let mut stage = taken?;
        let outcome = f(&mut stage, &mut self.near);
        let _ = STAGES.try_with(|stages| stages.borrow_mut().insert(self.stage, stage));
        Some(outcome)
    }

    fn fail(&mut self, why: &'static str) {
        self.error.get_or_insert_with(|| io::Error::other(why));
        let now = self.near.now;
        self.near.pipe.engine().close(now);
    }
}

impl Near {
    /// Reads what has come, whoever runs: progress counts when it comes, and pings are answered
    fn read(&mut self) {
        while self.events.len() < MOST_EVENTS {
            let Some(event) = self.pipe.poll_event(self.now) else { return };
            self.events.push_back(event);
        }
    }

    /// Goes on to `at`, and lets deadlines of this end pass
    fn jump(&mut self, at: Instant) {
        self.now = self.now.max(at);
        if self.pipe.poll_timeout().is_some_and(|due| due <= self.now) {
            self.pipe.handle_timeout(self.now);
        }
        self.read();
    }
}

/// Moves what one end has written to the other one; whether there was anything
fn pass(from: &mut impl Pipe, to: &mut impl Pipe, now: Instant) -> bool {
    let bytes = from.transmit();
    if bytes.is_empty() || !(to.wants_input() || to.is_drained()) {
        return false;
    }
    let n = bytes.len();
    to.handle_input(now, bytes);
    from.consume(n);
    true
}

impl Far {
    /// Moves bytes both ways, and has the client read its share
    fn exchange(&mut self, near: &mut Near) -> bool {
        let mut moved = pass(&mut self.pipe, &mut near.pipe, near.now);
        near.read();
        moved |= pass(&mut near.pipe, &mut self.pipe, near.now);
        moved
    }

    /// Has all handled that has come; whether anything came of it
    fn play(&mut self, near: &mut Near) -> bool {
        let mut any = false;
        loop {
            let mut moved = self.exchange(near);
            while let Some(event) = self.backlog.pop().or_else(|| self.pipe.poll_event(near.now)) {
                moved = true;
                let Self { pipe, backlog, desk, actor, .. } = self;
                if !matches!(event, server::Event::Closed { .. }) {
                    actor.handle(&mut Playing { pipe, backlog, near }, desk, event);
                }
            }
            let Self { pipe, backlog, desk, actor, .. } = self;
            moved |= actor.go_on(&mut Playing { pipe, backlog, near }, desk);
            let over = self.pipe.is_drained();
            if over && !core::mem::replace(&mut self.over, true) {
                near.pipe.handle_eof(near.now);
                near.read();
                moved = true;
            }
            if !moved {
                return any;
            }
            any = true;
        }
    }

    /// When something is to be done without more input
    fn due(&mut self) -> Option<Instant> {
        self.pipe.poll_timeout().into_iter().chain(self.actor.due()).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.actor.wake(now);
        if self.pipe.poll_timeout().is_some_and(|due| due <= now) {
            self.pipe.handle_timeout(now);
        }
    }

    /// The client has left
    fn leave(&mut self, near: &mut Near) {
        self.play(near);
        self.pipe.handle_eof(near.now);
        self.play(near);
    }
}

impl fmt::Debug for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Far").field("pipe", &self.pipe).finish_non_exhaustive()
    }
}

/// Both ends, for a handler that runs
struct Playing<'a> {
    pipe: &'a mut pipe::Server,
    backlog: &'a mut Backlog,
    near: &'a mut Near,
}

impl fmt::Debug for Playing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Playing").field("near", &self.near).finish_non_exhaustive()
    }
}

impl Host for Playing<'_> {
    fn engine(&mut self) -> &mut server::Engine {
        self.pipe.engine()
    }

    fn now(&self) -> Instant {
        self.near.now
    }

    /// A look at the clock takes time, or a handler that looks until its call is cancelled would look for ever
    fn tick(&mut self) -> Instant {
        self.near.now = self.near.now + LOOK;
        self.near.now
    }

    fn next_meanwhile(&mut self) -> Option<server::Event> {
        let now = self.near.now;
        if self.backlog.is_full(self.pipe.engine().config().get_limits()) {
            self.pipe.engine().poll_event(now)
        } else {
            self.pipe.poll_event(now)
        }
    }

    fn defer(&mut self, event: server::Event) {
        self.backlog.push(event);
    }

    fn write(&mut self) -> bool {
        let moved = pass(self.pipe, &mut self.near.pipe, self.near.now);
        self.near.read();
        moved
    }

    fn wait(&mut self, until: Instant) {
        if pass(&mut self.near.pipe, self.pipe, self.near.now) {
            return;
        }
        let deadlines = [self.near.pipe.poll_timeout(), self.pipe.poll_timeout()];
        let next = deadlines.into_iter().flatten().fold(until, Instant::min);
        self.near.jump(next);
        if self.pipe.poll_timeout().is_some_and(|due| due <= self.near.now) {
            self.pipe.handle_timeout(self.near.now);
        }
        let _ = pass(&mut self.near.pipe, self.pipe, self.near.now);
    }
}

impl Wire for Rehearsal {
    fn engine(&mut self) -> &mut Engine {
        self.near.pipe.engine()
    }

    fn now(&self) -> Instant {
        self.near.now
    }

    fn tick(&mut self) -> Instant {
        self.near.now
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.near.events.pop_front().or_else(|| self.near.pipe.poll_event(self.near.now))
    }

    /// Nothing moves before something is waited for
    fn write(&mut self) -> bool {
        false
    }

    fn wait(&mut self, until: Option<Instant>) {
        let waited = self.with(|stage, near| {
            near.read();
            let played = stage.play(near);
            let waits = until.is_none_or(|until| until > near.now);
            if !near.events.is_empty() || (played && !waits) {
                return true;
            }
            if waits && stage.actor.linger() {
                stage.play(near);
                return true;
            }
            let deadlines = [until, near.pipe.poll_timeout(), stage.due()];
            let Some(next) = deadlines.into_iter().flatten().min() else { return false };
            near.jump(next);
            stage.handle_timeout(near.now);
            stage.play(near);
            true
        });
        match waited {
            Some(true) => {}
            Some(false) => self.fail("nothing is due and nothing will come: this would wait for ever"),
            None => self.fail("a client of this kind works on the thread that made it"),
        }
    }

    fn due(&mut self) -> Option<Instant> {
        Some(self.near.now)
    }

    fn interest(&mut self) -> Interest {
        Interest::default()
    }

    #[cfg(unix)]
    fn descriptors(&mut self) -> Descriptors<'_> {
        Descriptors::default()
    }

    fn close(&mut self) {
        let now = self.near.now;
        self.near.pipe.engine().close(now);
    }

    fn wait_closing(&mut self, until: Instant) {
        if self.error.is_some() || self.with(|stage, near| stage.play(near)) != Some(true) {
            self.near.now = self.near.now.max(until);
        }
    }

    fn is_drained(&self) -> bool {
        self.near.events.is_empty() && self.near.pipe.is_drained()
    }

    fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    fn obituary(&mut self, _: Duration) -> Obituary {
        Obituary::default()
    }

    fn part(&mut self, _: Patience, _: Instant) -> Parting {
        let _ = self.with(|stage, near| stage.leave(near));
        Parting::Nothing
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        // On another thread it stays until its own one ends.
        let left = STAGES.try_with(|stages| stages.borrow_mut().remove(&self.stage));
        drop(left);
    }
}

/// How long a look at the clock takes
const LOOK: Duration = Duration::from_micros(1);
/// Events that are kept while a handler runs; what comes beyond is read after it
const MOST_EVENTS: usize = 4096;
/// Calls that are at work at the same time
const MOST_CALLS: usize = 1024;
