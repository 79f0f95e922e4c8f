//! One turn of a connection's loop, which never waits, and the steps of its end

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::thread;
use std::time::Instant as StdInstant;

use async_io::Timer;
use mcp_proto::client::Peer;
use mcp_proto::{Fault, Instant};
use mcp_std::child::{Ended, Shutdown, Step};
use mcp_std::client::{Connection, Ears, Hub, LAST_BREATH, Parting};
use mcp_std::{Clock, Duplex, Error, Panic, catch, is_peer_gone};

use super::turns::{Place, Turn, Turns};
use super::watch::{Found, Watch};

/// A connection and all that it takes to drive it; what is left to be done when it is dropped, a thread does
#[derive(Debug)]
pub(super) struct Core {
    /// None once it was handed to a thread
    inner: Option<Box<Inner>>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) connection: Connection,
    /// Once it is ready
    hub: Option<Hub>,
    watch: Option<Watch>,
    /// What is waited for is asked of the reactor
    reactor: bool,
    timer: Timer,
    /// When the timer goes off, or earlier than needed
    armed: Option<Instant>,
    /// The time that the end goes by
    clock: Clock,
    waker: Waker,
    stage: Stage,
    /// It is to be ended here
    pub(super) closes: bool,
    /// Why it ended although nobody here wanted that
    pub(super) error: Option<Error>,
    /// How the server ended
    pub(super) ended: Option<Result<Option<Ended>, Error>>,
}

#[derive(Debug)]
enum Stage {
    Open,
    /// The server has ended its output; its exit status is waited for until then, in the time of `clock`
    Breath(Instant),
    /// What is left is being written, until then
    Drain(Instant),
    /// A process of ours is being ended
    Child(Box<Shutdown>),
    /// Our direction of a stream is being ended, until then in the time of `clock`
    Stream(Parted, Instant),
    Over,
}

/// A stream of which only our direction is left to be ended
struct Parted(Box<dyn Duplex + Send>);

impl core::fmt::Debug for Parted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Parted")
    }
}

impl Core {
    pub(super) fn new(mut connection: Connection, watch: Watch, waker: Waker) -> Self {
        // Waited for here, and nowhere else.
        connection.breath = Duration::ZERO;
        Self {
            inner: Some(Box::new(Inner {
                connection,
                hub: None,
                watch: Some(watch),
                reactor: false,
                timer: Timer::never(),
                armed: None,
                clock: Clock::start(),
                waker,
                stage: Stage::Open,
                closes: false,
                error: None,
                ended: None,
            })),
        }
    }

    /// None only while it is dropped
    pub(super) fn inner(&mut self) -> Option<&mut Inner> {
        self.inner.as_deref_mut()
    }

    /// Does all that can be done now, and has whoever waits woken when there is more; to be called by who has the turn
    pub(super) fn turn(&mut self, turns: &Turns) {
        let Some(inner) = self.inner() else { return };
        let more = inner.guarded(turns, Inner::step);
        turns.ended(inner.connection.seen, matches!(inner.stage, Stage::Over));
        if more {
            inner.waker.wake_by_ref();
        }
    }

    /// Waits until it is ready; the error of one that did not become so is told when nothing of it is left
    pub(super) async fn open(&mut self, turns: &Arc<Turns>) -> Result<Peer, Error> {
        let mut place = Place::new(turns.clone(), false);
        turns.wake_by_ref();
        poll_fn(|cx| {
            for _ in 0..ROUNDS {
                if !place.enter(cx.waker()) {
                    return Poll::Pending;
                }
                self.turn(turns);
                let Some(inner) = self.inner() else { break };
                if let Some(peer) = inner.connection.take_peer() {
                    return Poll::Ready(Ok(peer));
                }
                if let Stage::Over = inner.stage {
                    let error = inner.error.take();
                    return Poll::Ready(Err(error.unwrap_or_else(|| Error::closed(Fault::Closed))));
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

impl Inner {
    /// Does from now on what callers want
    pub(super) fn serve(&mut self, mut hub: Hub) {
        if !matches!(self.stage, Stage::Open | Stage::Breath(_)) {
            // It became ready, and was over before anybody could call.
            hub.tell_end(&mut self.connection);
        }
        self.hub = Some(hub);
    }

    /// Whether a call may begin without standing in line
    pub(super) fn is_idle(&mut self) -> bool {
        matches!(self.stage, Stage::Open)
            && !self.connection.is_over()
            && self.hub.as_ref().is_some_and(Hub::is_idle)
            && !self.connection.wire.engine().is_congested()
    }

    /// Sends what has begun, and has itself woken when there is more; false when there is more than that now
    pub(super) fn send(&mut self, turns: &Turns) -> bool {
        self.guarded(turns, Self::send_now)
    }

    /// Works as a part of `turns`; false when a stream of the program's panics
    fn guarded(&mut self, turns: &Turns, work: fn(&mut Self) -> bool) -> bool {
        let _turn = Turn::of(turns);
        self.reactor = turns.are_apart();
        catch(|| work(self)).unwrap_or_else(|panic| self.broke(&panic))
    }

    fn send_now(&mut self) -> bool {
        let seen = self.connection.seen;
        self.connection.flush();
        self.connection.settle(&mut None);
        if self.connection.is_over() || self.connection.seen != seen {
            return false;
        }
        let due = self.hub.as_ref().and_then(Hub::due);
        self.waits(due)
    }

    /// Whether it should go on at once
    fn step(&mut self) -> bool {
        for _ in 0..AT_ONCE {
            let waits = match &mut self.stage {
                Stage::Open => self.talk(),
                Stage::Breath(until) => {
                    let until = *until;
                    self.breathe(until)
                }
                Stage::Drain(until) => {
                    let until = *until;
                    self.drain(until)
                }
                Stage::Child(shutdown) => match shutdown.poll(self.clock.now()) {
                    Step::Done(ended) => self.over(Ok(Some(ended))),
                    Step::Wait(until) => self.sleep(until),
                },
                Stage::Stream(stream, until) => {
                    let (outcome, until) = (stream.0.shutdown_write(), *until);
                    match outcome {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {
                            if self.clock.now() < until {
                                self.sleep(until)
                            } else {
                                self.over(Err(Error::Io(ErrorKind::TimedOut.into())))
                            }
                        }
                        Err(error) if !is_peer_gone(&error) => self.over(Err(Error::Io(error))),
                        _ => self.over(Ok(None)),
                    }
                }
                Stage::Over => true,
            };
            if waits {
                return false;
            }
        }
        true
    }

    fn talk(&mut self) -> bool {
        if let Some(hub) = &mut self.hub {
            hub.take_in(&mut self.connection);
            self.closes |= hub.closes();
        }
        if self.closes {
            return self.finish();
        }
        match self.found() {
            // What a server process writes besides is read while it is waited for the rest.
            Found { aside: true, .. } => self.connection.turn(Some(Instant::ZERO), &mut None),
            Found { read, .. } => self.connection.step(read),
        }
        self.connection.reply_later(&self.waker);
        if self.connection.is_over() {
            self.stage = Stage::Breath(self.clock.now() + LAST_BREATH);
            return false;
        }
        let due = self.hub.as_ref().and_then(Hub::due);
        self.waits(due)
    }

    /// Has itself woken when there is more; false when there is more now
    fn waits(&mut self, due: Option<Instant>) -> bool {
        let due = due.into_iter().chain(self.connection.wire.due()).min();
        if self.poll_watch() {
            return false;
        }
        let Some(due) = due else { return true };
        let now = self.connection.wire.now();
        if due <= now {
            return false;
        }
        self.arm(due, now)
    }

    /// A deadline that is earlier than needed is left as it is: most calls are over long before theirs
    fn arm(&mut self, at: Instant, now: Instant) -> bool {
        if self.armed.is_some_and(|armed| now < armed && armed <= at) {
            return true;
        }
        self.timer.set_at(StdInstant::now() + at.saturating_duration_since(now));
        self.armed = Some(at);
        let mut cx = Context::from_waker(&self.waker);
        Pin::new(&mut self.timer).poll(&mut cx).is_pending()
    }

    /// Waits until then, in the time of `clock`
    fn sleep(&mut self, until: Instant) -> bool {
        self.armed = None;
        self.timer.set_at(StdInstant::now() + self.clock.until(until));
        let mut cx = Context::from_waker(&self.waker);
        Pin::new(&mut self.timer).poll(&mut cx).is_pending()
    }

    /// What was found since the last look: it is looked at now, and not told once more
    fn found(&mut self) -> Found {
        let mut cx = Context::from_waker(&self.waker);
        self.watch.as_mut().map(|watch| watch.take(&mut cx, self.reactor)).unwrap_or_default()
    }

    fn poll_watch(&mut self) -> bool {
        let Some(watch) = &mut self.watch else { return false };
        let mut cx = Context::from_waker(&self.waker);
        match watch.poll(&mut *self.connection.wire, &mut cx, self.reactor) {
            Ok(ready) => ready,
            Err(error) => {
                self.watch = None;
                self.connection.break_off(error);
                true
            }
        }
    }

    /// The end of the output of a process comes a moment before its own
    fn breathe(&mut self, until: Instant) -> bool {
        let now = self.clock.now();
        if now < until && self.connection.is_breathing() {
            return self.sleep(until.min(now + LOOK));
        }
        match &mut self.hub {
            Some(hub) => hub.tell_end(&mut self.connection),
            None => self.error = Some(self.connection.gone()),
        }
        self.begin_end();
        false
    }

    fn finish(&mut self) -> bool {
        if let Some(hub) = &mut self.hub {
            hub.tell_end(&mut self.connection);
        }
        self.begin_end();
        false
    }

    fn begin_end(&mut self) {
        self.armed = None;
        self.connection.stop_answers();
        let until = self.connection.begin_finish();
        self.stage = Stage::Drain(until.unwrap_or(Instant::ZERO));
    }

    fn drain(&mut self, until: Instant) -> bool {
        let wire = &mut self.connection.wire;
        if !wire.is_drained() && wire.tick() < until {
            self.found();
            self.connection.finish_some(Instant::ZERO);
            if !self.connection.wire.is_drained() {
                return self.waits(Some(until));
            }
        }
        self.part();
        false
    }

    fn part(&mut self) {
        // Before the rest: as long as there is a duplicate of our direction, it does not end.
        self.watch = None;
        let now = self.clock.now();
        let (parting, patience) = self.connection.part(now);
        match parting {
            Parting::Child(shutdown) => self.stage = Stage::Child(shutdown),
            Parting::Stream(stream) => self.stage = Stage::Stream(Parted(stream), now + patience.exit),
            Parting::Nothing => _ = self.over(Ok(None)),
        }
    }

    fn over(&mut self, outcome: Result<Option<Ended>, Error>) -> bool {
        self.ended = Some(outcome);
        self.stage = Stage::Over;
        // It may hold a handle of the connection. One that did not become ready may be tried once more.
        if self.hub.is_some() {
            self.connection.set_ears(Ears::Here(Box::new(())));
        }
        true
    }

    /// A stream of the program's panicked: it is not touched any more, and nobody waits for it
    fn broke(&mut self, panic: &Panic) -> bool {
        self.connection.give_up(io::Error::other(panic.to_string()));
        self.watch = None;
        match &mut self.hub {
            Some(hub) => hub.tell_end(&mut self.connection),
            None => self.error = Some(self.connection.gone()),
        }
        let _ = self.over(Ok(None));
        false
    }

    /// Ends it in its own time
    fn end_blocking(mut self) {
        if let Some(watch) = &self.watch {
            watch.let_block();
        }
        if let Stage::Open | Stage::Breath(_) = self.stage {
            self.begin_end();
        }
        if let Stage::Drain(until) = self.stage {
            while !self.connection.wire.is_drained() && self.connection.wire.tick() < until {
                self.connection.finish_some(until);
            }
            self.part();
        }
        if let Stage::Child(shutdown) = self.stage {
            shutdown.run(self.clock);
        }
    }
}

/// Nobody is left to drive it: what can be done at once is done at once, and the rest by a thread
impl Drop for Core {
    fn drop(&mut self) {
        let Some(mut inner) = self.inner.take() else { return };
        inner.closes = true;
        while catch(|| inner.step()).unwrap_or_else(|panic| inner.broke(&panic)) {}
        if let Stage::Over = inner.stage {
            return;
        }
        // Without a thread it ends right here: less kindly, and just as surely.
        let _ = thread::Builder::new().name("mcp-end".into()).spawn(move || inner.end_blocking());
    }
}

/// Steps of one turn, before others have theirs
const AT_ONCE: u32 = 16;
/// Turns in a row of one task
pub(super) const ROUNDS: u32 = 4;
/// Between two looks at a process that has ended its output
const LOOK: Duration = Duration::from_millis(5);
