//! The client's side of the loop: who gets which event, and what is known when it all ends

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::io;

use crate::child::{Ended, Patience};
use crate::{Newest, catch};
use mcp_proto::client::{Engine, Event, Peer, SubscriptionKey, Verdict};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallError, CallKey, Diagnostic, Fault, Instant, Progress, RawJson, RpcError, UseError};

use super::handler::ClientHandler;
use super::heard::{Ears, Heard, Reply};
use super::memory::Memory;
use super::slot::Teller;
use super::wire::{Parting, Wire};
use crate::error::{Closed, Error};

/// The result of a call, and whether the server needed something first
pub type Answer = (RawJson, bool);

/// A subscription, and what the server honours of it
pub type Honoured = (SubscriptionKey, SubscriptionFilter);

/// Who is told of the progress of one call
pub type Watch<'a> = Option<(CallKey, &'a mut dyn FnMut(&Progress))>;

/// Where the outcome of a call goes
enum Place {
    /// To who asks this connection for it
    Here(Option<(Result<RawJson, CallError>, bool)>),
    /// To who waits elsewhere
    Away(Teller<Answer>),
}

/// Where the outcome of subscribing goes: what the server honours, or why there is nothing of it
enum Subscribing {
    /// To who asks this connection for it
    Here(Option<Result<SubscriptionFilter, Option<CallError>>>),
    /// To who waits elsewhere
    Away(Teller<Honoured>),
}

/// A client, ready or not
pub struct Connection {
    /// The way to the server
    pub wire: Box<dyn Wire + Send>,
    /// Who hears of what comes from the server
    pub ears: Ears,
    /// What is kept of what the server has said
    pub memory: Memory,
    patience: Patience,
    /// Calls whose outcome nobody has taken yet
    calls: Newest<CallKey, Place>,
    /// Subscriptions that are waited for
    subscribing: Vec<(SubscriptionKey, Subscribing)>,
    /// Who waits for what ended along with the connection: it is told when all is known about that
    lost: Vec<Teller<Answer>>,
    lost_subscribing: Vec<Teller<Honoured>>,
    /// Told once, when the connection is ready
    peer: Option<Peer>,
    was_ready: bool,
    /// What was found out about the server's era
    pub verdict: Option<Verdict>,
    fault: Option<Fault>,
    /// All that is known about the end, once somebody has asked
    closed: Option<Box<Closed>>,
    /// What else broke, to be told once
    broken: Option<io::Error>,
    noise: Option<String>,
    any_message: bool,
    /// There is something to show of messages and heads
    tapped: bool,
    /// Events so far
    pub seen: u64,
    /// How long the exit status of a server is waited for that has closed its output
    pub breath: Duration,
    finished: bool,
}

impl Connection {
    /// A connection that has not begun to speak
    pub fn new(
        mut wire: Box<dyn Wire + Send>,
        handler: Box<dyn ClientHandler + Send>,
        patience: Patience,
    ) -> Self {
        Self {
            tapped: wire.is_tapped(),
            wire,
            ears: Ears::Here(handler),
            memory: Memory::default(),
            patience,
            calls: Newest::new(),
            subscribing: Vec::new(),
            lost: Vec::new(),
            lost_subscribing: Vec::new(),
            peer: None,
            was_ready: false,
            verdict: None,
            fault: None,
            closed: None,
            broken: None,
            noise: None,
            any_message: false,
            seen: 0,
            breath: LAST_BREATH,
            finished: false,
        }
    }

    /// Waits until calls can be made
    pub fn open(&mut self) -> Result<Peer, Error> {
        loop {
            if let Some(peer) = self.take_peer() {
                return Ok(peer);
            }
            self.check_open()?;
            self.turn(None, &mut None);
        }
    }

    /// The server, once, when calls can be made
    pub const fn take_peer(&mut self) -> Option<Peer> {
        self.peer.take()
    }

    /// Takes the handler out, for another connection
    pub fn take_handler(&mut self) -> Box<dyn ClientHandler + Send> {
        match core::mem::replace(&mut self.ears, Ears::Here(Box::new(()))) {
            Ears::Here(handler) => handler,
            Ears::Away(_) => Box::new(()),
        }
    }

    /// Tells the handler something, or has it told, and takes its reply
    pub fn hear(&mut self, heard: Heard) {
        let most = self.wire.engine().config().get_limits().max_waiting;
        if let Some(reply) = self.ears.hear(heard, most) {
            self.reply(reply);
        }
    }

    /// Says who hears of what comes from now on; what the one before has open is refused
    pub fn set_ears(&mut self, ears: Ears) {
        self.stop_answers();
        let old = core::mem::replace(&mut self.ears, ears);
        // Whatever it does when it is dropped, it is gone.
        let _ = catch(|| drop(old));
    }

    /// Refuses what a handler has open whose answers take their time
    pub fn stop_answers(&mut self) {
        self.ears.stop().into_iter().for_each(|reply| self.reply(reply));
    }

    /// Gives the answers that a handler has by now whose answers take their time; `waker` is woken when there is more to be
    /// done
    pub fn reply_later(&mut self, waker: &Waker) {
        let mut any = false;
        while let Some(reply) = self.ears.poll(waker) {
            self.reply(reply);
            any = true;
        }
        if any {
            self.settle(&mut None);
        }
    }

    // ---- the loop --------------------------------------------------------------------------------------------

    /// Writes, waits for something to happen, at most until `until`, and handles it
    pub fn turn(&mut self, until: Option<Instant>, watch: &mut Watch<'_>) {
        self.flush();
        self.wire.wait(until);
        self.settle(watch);
    }

    /// As [`turn`](Self::turn), for a loop that has waited by itself, and found that there is something to read or not
    pub fn step(&mut self, readable: bool) {
        self.flush();
        self.wire.step(readable);
        self.settle(&mut None);
    }

    /// Writes what there is as far as it goes now; whether anything went
    pub fn flush(&mut self) -> bool {
        self.show_tap();
        self.wire.write()
    }

    /// Handles everything that was read, then writes everything, until there is nothing left to do but wait
    pub fn settle(&mut self, watch: &mut Watch<'_>) {
        loop {
            while let Some(event) = self.next_event() {
                self.handle(event, watch);
                self.show_tap();
            }
            #[cfg(feature = "http")]
            while let Some(challenge) = self.wire.poll_challenge() {
                self.hear(Heard::Challenge(challenge));
            }
            if !self.flush() {
                return;
            }
        }
    }

    /// The next event; what was read is left as it is while the handler has more to do than it may have
    fn next_event(&mut self) -> Option<Event> {
        let full = self.ears.is_full();
        self.wire.hold(full);
        if full { self.wire.poll_own_event() } else { self.wire.poll_event() }
    }

    fn show_tap(&mut self) {
        if !self.tapped {
            return;
        }
        #[cfg(feature = "http")]
        while let Some(record) = self.wire.poll_head() {
            self.hear(Heard::Head(record));
        }
        while let Some(record) = self.wire.engine().poll_tap() {
            self.hear(Heard::Tap(record));
        }
    }

    fn handle(&mut self, event: Event, watch: &mut Watch<'_>) {
        self.seen += 1;
        self.any_message |= !matches!(event, Event::Closed(_) | Event::Diagnostic(Diagnostic::Noise { .. }));
        match event {
            Event::Done { call, outcome, again } => self.done(call, outcome, again),
            Event::Progress { call, progress } => self.progress(call, progress, watch),
            Event::Request(request) => self.hear(Heard::Request(request)),
            Event::Input(input) => self.hear(Heard::Input(input)),
            Event::InputGone(input) => self.hear(Heard::InputGone(input)),
            Event::RequestCancelled(request) => self.hear(Heard::RequestGone(request)),
            Event::Notification(notification) => self.hear(Heard::Notification(notification)),
            Event::Subscribed { key, honoured } => {
                let _ = self.subscribed(key, Ok(honoured));
            }
            Event::SubscriptionEnded { key, error, .. } => {
                if let Some(error) = self.subscribed(key, Err(error)) {
                    self.hear(Heard::SubscriptionEnded(key, error));
                }
            }
            Event::ElicitationComplete(id) => self.hear(Heard::ElicitationComplete(id)),
            Event::Changed { change, .. } => {
                self.memory.notice(&change);
                self.hear(Heard::Changed(change));
            }
            Event::Log(log) => self.hear(Heard::Log(log)),
            Event::Diagnostic(diagnostic) => {
                if let Diagnostic::Noise { line, .. } = &diagnostic {
                    self.noise.get_or_insert_with(|| line.clone());
                    self.wire.is_noise(line);
                }
                // One of them says that it proved wrong.
                self.verdict = self.wire.engine().verdict();
                self.hear(Heard::Diagnostic(diagnostic));
            }
            Event::Ready(peer) => {
                self.peer = Some(peer);
                self.was_ready = true;
                self.wire.opened();
                self.verdict = self.wire.engine().verdict();
            }
            Event::Closed(fault) => self.fault = Some(fault),
            // What handlers were asked for is answered all the same: it finds nobody.
            _ => {}
        }
    }

    fn done(&mut self, call: CallKey, outcome: Result<RawJson, CallError>, again: bool) {
        match self.calls.get_mut(&call) {
            None => {}
            Some(Place::Here(place)) => *place = Some((outcome, again)),
            Some(Place::Away(_)) => {
                let Some(Place::Away(teller)) = self.calls.remove(&call) else { return };
                match outcome {
                    Ok(result) => teller.tell(Ok((result, again))),
                    Err(CallError::Closed(_)) => self.lost.push(teller),
                    Err(error) => teller.tell(Err(Error::Call(error))),
                }
            }
        }
    }

    fn progress(&mut self, call: CallKey, progress: Progress, watch: &mut Watch<'_>) {
        match (watch, self.calls.get(&call)) {
            (Some((watched, told)), _) if *watched == call => {
                // A panic ends what panicked and nothing else; the panic hook has said it.
                let _ = catch(|| told(&progress));
            }
            (_, Some(Place::Away(teller))) => {
                if let Some(progress) = teller.progress(progress) {
                    self.hear(Heard::Progress(call, progress));
                }
            }
            _ => self.hear(Heard::Progress(call, progress)),
        }
    }

    /// Tells who waits for a subscription; gives back the end of one that nobody waits for
    fn subscribed(
        &mut self,
        key: SubscriptionKey,
        outcome: Result<SubscriptionFilter, Option<CallError>>,
    ) -> Option<Option<CallError>> {
        // One that was acknowledged has begun, even if its end was read along with that.
        let waits =
            |(other, to): &(_, Subscribing)| *other == key && !matches!(to, Subscribing::Here(Some(_)));
        let Some(at) = self.subscribing.iter().position(waits) else { return outcome.err() };
        if let Some((_, Subscribing::Here(place))) = self.subscribing.get_mut(at) {
            *place = Some(outcome);
            return None;
        }
        let (_, Subscribing::Away(teller)) = self.subscribing.swap_remove(at) else { return None };
        match outcome {
            Ok(honoured) => {
                if teller.tell_or_keep(Ok((key, honoured))).is_some() {
                    // Given up meanwhile.
                    let now = self.wire.now();
                    let _ = self.wire.engine().unsubscribe(now, key);
                }
            }
            Err(Some(CallError::Closed(_))) => self.lost_subscribing.push(teller),
            Err(error) => teller.tell(Err(unwanted(error))),
        }
        None
    }

    /// Answers what the handler was told
    pub fn reply(&mut self, reply: Reply) {
        // A person may have taken a while: the deadlines of what is sent now begin now.
        let now = self.wire.tick();
        let engine = self.wire.engine();
        // Stale: the server does not want it any more.
        let _ = match reply {
            Reply::Request(request, outcome) => {
                match outcome.map(|result| engine.respond(now, request, &result)) {
                    Ok(Err(UseError::Encode(_))) => {
                        engine.refuse(now, request, &RpcError::internal("the answer is no JSON object"))
                    }
                    Ok(outcome) => outcome,
                    Err(error) => engine.refuse(now, request, &error),
                }
            }
            Reply::Input(input, outcome) => match outcome.map(|result| engine.answer(now, input, &*result)) {
                Ok(Ok(()) | Err(UseError::Stale)) => Ok(()),
                Ok(Err(_)) => engine.refuse(now, input, &RpcError::internal("the answer cannot be given")),
                Err(error) => engine.refuse(now, input, &error),
            },
            #[cfg(feature = "http")]
            Reply::Challenge(exchange, credential) => {
                self.wire.authorize(exchange, credential);
                Ok(())
            }
        };
    }

    // ---- calls -----------------------------------------------------------------------------------------------

    /// Tells the engine something that has no outcome, and writes what comes of it
    pub fn command(
        &mut self,
        command: impl FnOnce(&mut Engine, Instant) -> Result<(), UseError>,
    ) -> Result<(), Error> {
        self.check_open()?;
        let now = self.wire.tick();
        command(self.wire.engine(), now).map_err(Error::Use)?;
        self.flush();
        Ok(())
    }

    /// Begins a call, with what `command` tells the engine
    pub fn start(
        &mut self,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError>,
    ) -> Result<CallKey, Error> {
        self.make_room()?;
        let now = self.wire.tick();
        let engine = self.wire.engine();
        // Outcomes that nobody takes count too.
        if self.calls.len() >= engine.config().get_limits().max_pending_calls as usize {
            return Err(Error::Use(UseError::Full("max_pending_calls")));
        }
        let call = command(engine, now).map_err(Error::Use)?;
        self.calls.insert(call, Place::Here(None));
        self.flush();
        Ok(call)
    }

    /// Waits until the server has taken most of what was written before, so that a server which does not read cannot
    /// make us keep more and more
    fn make_room(&mut self) -> Result<(), Error> {
        let patience = self.wire.engine().config().get_limits().call_timeout;
        let mut until = None;
        loop {
            self.check_open()?;
            if !self.wire.engine().is_congested() {
                return Ok(());
            }
            let now = self.wire.tick();
            let until = *until.get_or_insert(now + patience);
            if now >= until {
                return Err(Error::Use(UseError::Full("outbox_mark")));
            }
            self.turn(Some(until), &mut None);
        }
    }

    /// Waits for the outcome of a call, at most until `until`; its result, and whether the server needed something first
    pub fn outcome(
        &mut self,
        call: CallKey,
        until: Option<Instant>,
        watch: &mut Watch<'_>,
    ) -> Result<Option<Answer>, Error> {
        loop {
            let Some(Place::Here(place)) = self.calls.get_mut(&call) else {
                return Err(Error::Use(UseError::Stale));
            };
            if let Some((outcome, again)) = place.take() {
                self.calls.remove(&call);
                return match outcome {
                    Err(CallError::Closed(_)) => Err(self.gone()),
                    Err(error) => Err(Error::Call(error)),
                    Ok(result) => Ok(Some((result, again))),
                };
            }
            self.check_open()?;
            if until.is_some_and(|at| at <= self.wire.now()) {
                return Ok(None);
            }
            self.turn(until, watch);
        }
    }

    /// Begins a subscription, and waits for what the server honours of it
    pub fn subscribe(&mut self, filter: &SubscriptionFilter) -> Result<Honoured, Error> {
        self.make_room()?;
        let now = self.wire.tick();
        let key = self.wire.engine().subscribe(now, filter).map_err(Error::Use)?;
        self.subscribing.push((key, Subscribing::Here(None)));
        loop {
            let at = self.subscribing.iter().position(|(other, _)| *other == key);
            let told =
                at.filter(|at| matches!(self.subscribing.get(*at), Some((_, Subscribing::Here(Some(_))))));
            if let Some((_, Subscribing::Here(Some(outcome)))) =
                told.map(|at| self.subscribing.swap_remove(at))
            {
                return match outcome {
                    Ok(honoured) => Ok((key, honoured)),
                    Err(Some(CallError::Closed(_))) => Err(self.gone()),
                    Err(error) => Err(unwanted(error)),
                };
            }
            if let (Err(error), Some(at)) = (self.check_open(), at) {
                self.subscribing.swap_remove(at);
                return Err(error);
            }
            self.turn(None, &mut None);
        }
    }

    /// Forgets a call; false when it is not known
    pub fn forget(&mut self, call: CallKey) -> bool {
        self.calls.remove(&call).is_some()
    }

    /// Gives a call up: nobody is told what came of it. False when it is not known
    pub fn cancel(&mut self, call: CallKey, reason: Option<&str>) -> bool {
        let known = self.forget(call);
        if known {
            let now = self.wire.tick();
            // Refused when it has ended already; nobody needs to be told then.
            let _ = self.wire.engine().cancel(now, call, reason);
        }
        known
    }

    /// Reads what has come already, so that no result is given that was kept and of which the server has said since that
    /// it does not hold any more
    pub fn catch_up(&mut self) {
        for _ in 0..CATCH_UP {
            let (seen, now) = (self.seen, self.wire.tick());
            self.turn(Some(now), &mut None);
            if self.seen == seen || self.fault.is_some() {
                return;
            }
        }
    }

    // ---- for those who wait elsewhere ------------------------------------------------------------------------

    /// Begins a call as [`start`](Self::start) does, without waiting for room, for somebody who waits elsewhere
    pub fn begin(
        &mut self,
        teller: Teller<Answer>,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError>,
    ) {
        if teller.is_abandoned() {
            return;
        }
        let now = self.wire.tick();
        match command(self.wire.engine(), now) {
            Ok(call) if teller.begun(call) => {
                self.calls.insert(call, Place::Away(teller));
            }
            Ok(call) => {
                let _ = self.wire.engine().cancel(now, call, None);
            }
            // Its end has not been handled yet.
            Err(UseError::Closed) => self.lost.push(teller),
            Err(error) => teller.tell(Err(Error::Use(error))),
        }
    }

    /// Begins a subscription for somebody who waits elsewhere
    pub fn begin_subscription(&mut self, teller: Teller<Honoured>, filter: &SubscriptionFilter) {
        let now = self.wire.tick();
        match self.wire.engine().subscribe(now, filter) {
            Ok(key) => self.subscribing.push((key, Subscribing::Away(teller))),
            Err(UseError::Closed) => self.lost_subscribing.push(teller),
            Err(error) => teller.tell(Err(Error::Use(error))),
        }
    }

    /// Tells everybody who waits elsewhere that it is over
    pub fn tell_end(&mut self) {
        let calls = core::mem::take(&mut self.calls);
        let still = calls.into_iter().filter_map(|(_, place)| match place {
            Place::Here(_) => None,
            Place::Away(teller) => Some(teller),
        });
        let lost: Vec<_> = core::mem::take(&mut self.lost).into_iter().chain(still).collect();
        lost.into_iter().for_each(|teller| teller.tell(Err(self.gone())));
        let subscribing = core::mem::take(&mut self.subscribing).into_iter().filter_map(|(_, to)| match to {
            Subscribing::Here(_) => None,
            Subscribing::Away(teller) => Some(teller),
        });
        let lost: Vec<_> =
            core::mem::take(&mut self.lost_subscribing).into_iter().chain(subscribing).collect();
        lost.into_iter().for_each(|teller| teller.tell(Err(self.gone())));
    }

    // ---- the end ---------------------------------------------------------------------------------------------

    /// Whether it goes on; otherwise all that is known about the end
    pub fn check_open(&mut self) -> Result<(), Error> {
        if self.fault.is_none() { Ok(()) } else { Err(self.gone()) }
    }

    /// Whether it is over
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.fault.is_some()
    }

    /// The error that says all that is known about the end
    pub fn gone(&mut self) -> Error {
        if let Some(error) = self.broken.take().or_else(|| self.wire.take_error()) {
            return Error::Io(error);
        }
        if self.closed.is_none() {
            let fault = self.fault.clone().unwrap_or(Fault::Closed);
            let mut closed = Closed {
                fault,
                was_ready: self.was_ready,
                program: None,
                url: None,
                ended: None,
                last_words: String::new(),
                noise: self.noise.clone(),
                any_message: self.any_message || self.wire.any_message(),
            };
            // The end of its output comes a moment before its end.
            let wait = if closed.is_end() { self.breath } else { Duration::ZERO };
            let known = self.wire.obituary(wait);
            (closed.program, closed.url) = (known.program, known.url);
            (closed.ended, closed.last_words) = (known.ended, known.last_words);
            self.closed = Some(Box::new(closed));
        }
        self.closed.clone().map_or_else(|| Error::closed(Fault::Closed), Error::Closed)
    }

    /// Ends it because it cannot be waited for any more
    pub fn break_off(&mut self, error: io::Error) {
        self.broken.get_or_insert(error);
        self.fault.get_or_insert(Fault::Closed);
    }

    /// As [`break_off`](Self::break_off), and nothing is left to be ended in good order
    pub fn give_up(&mut self, error: io::Error) {
        self.break_off(error);
        self.finished = true;
    }

    /// Whether the exit status of a server whose output has ended is still to come: for loops that wait in their own way
    pub fn is_breathing(&mut self) -> bool {
        let ended = matches!(
            self.fault,
            Some(Fault::Eof | Fault::Truncated { .. } | Fault::ExitedDuringProbe { .. })
        );
        ended && {
            let known = self.wire.obituary(Duration::ZERO);
            known.program.is_some() && known.ended.is_none()
        }
    }

    /// Sends what is left, as far as the server takes it soon, and ends the server
    pub fn finish(&mut self) -> Result<Option<Ended>, Error> {
        let Some(until) = self.begin_finish() else { return Ok(None) };
        while !self.wire.is_drained() && self.wire.now() < until {
            self.finish_some(until);
        }
        self.wire.end(self.patience)
    }

    /// Begins to send what is left; until when, unless that was begun before. To be followed by
    /// [`finish_some`](Self::finish_some) until it is [drained](Wire::is_drained) or so late, and by [`part`](Self::part)
    pub fn begin_finish(&mut self) -> Option<Instant> {
        if core::mem::replace(&mut self.finished, true) {
            return None;
        }
        let until = self.wire.tick() + self.patience.exit.min(LAST_WRITE);
        self.wire.close();
        self.settle(&mut None);
        Some(until)
    }

    /// Sends some of what is left, and waits for that at most until `until`
    pub fn finish_some(&mut self, until: Instant) {
        self.wire.wait_closing(until);
        self.settle(&mut None);
    }

    /// What is left to be done then
    pub fn part(&mut self, now: Instant) -> (Parting, Patience) {
        (self.wire.part(self.patience, now), self.patience)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("wire", &self.wire)
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

/// What comes of a subscription that does not begin
fn unwanted(error: Option<CallError>) -> Error {
    // One that ends in good order before it has begun was not wanted there.
    Error::Call(error.unwrap_or(CallError::Cancelled))
}

/// How often it is looked for news at most, before a result is given that was kept
const CATCH_UP: u32 = 64;
/// How long the exit status of a server is waited for that has closed its output, by default
pub const LAST_BREATH: Duration = Duration::from_secs(1);
/// How long a server that is to end is given to take what was written to it
const LAST_WRITE: Duration = Duration::from_secs(1);
