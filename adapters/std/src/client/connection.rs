//! The client's side of the loop: who gets which event, and what is known when it all ends

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::catch;
use crate::child::{Ended, Patience};
use mcp_proto::client::{Engine, Event, Input, Peer, Request, SubscriptionKey, Verdict};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallError, CallKey, Diagnostic, Fault, Instant, Progress, RawJson, RpcError, UseError};

use super::handler::ClientHandler;
use super::memory::Memory;
use super::wire::Wire;
use crate::error::{Closed, Error};

/// The outcome of a call, and whether the server needed something first
type Outcome = (Result<RawJson, CallError>, bool);

/// What a server honours of a subscription, or why there is none
type Acknowledged = Result<SubscriptionFilter, Option<CallError>>;

/// Who is told of the progress of one call
pub type Watch<'a> = Option<(CallKey, &'a mut dyn FnMut(&Progress))>;

/// A client, ready or not
pub struct Connection {
    /// The way to the server
    pub wire: Box<dyn Wire + Send>,
    /// Who hears of what comes from the server
    pub handler: Box<dyn ClientHandler + Send>,
    /// What is kept of what the server has said
    pub memory: Memory,
    patience: Patience,
    /// Calls whose outcome nobody has taken yet, with it once it is there
    calls: Vec<(CallKey, Option<Outcome>)>,
    /// The subscription that is waited for, with what became of it
    subscribing: Option<(SubscriptionKey, Option<Acknowledged>)>,
    /// Told once, when the connection is ready
    peer: Option<Peer>,
    was_ready: bool,
    /// What was found out about the server's era
    pub verdict: Option<Verdict>,
    fault: Option<Fault>,
    /// All that is known about the end, once somebody has asked
    closed: Option<Box<Closed>>,
    noise: Option<String>,
    any_message: bool,
    /// Events so far
    pub seen: u64,
    finished: bool,
}

impl Connection {
    /// A connection that has not begun to speak
    pub fn new(
        wire: Box<dyn Wire + Send>,
        handler: Box<dyn ClientHandler + Send>,
        patience: Patience,
    ) -> Self {
        Self {
            wire,
            handler,
            memory: Memory::default(),
            patience,
            calls: Vec::new(),
            subscribing: None,
            peer: None,
            was_ready: false,
            verdict: None,
            fault: None,
            closed: None,
            noise: None,
            any_message: false,
            seen: 0,
            finished: false,
        }
    }

    /// Waits until calls can be made
    pub fn open(&mut self) -> Result<Peer, Error> {
        loop {
            if let Some(peer) = self.peer.take() {
                return Ok(peer);
            }
            self.check_open()?;
            self.turn(None, &mut None);
        }
    }

    /// Takes the handler out, for another connection
    pub fn take_handler(&mut self) -> Box<dyn ClientHandler + Send> {
        core::mem::replace(&mut self.handler, Box::new(()))
    }

    // ---- the loop --------------------------------------------------------------------------------------------

    /// Writes, waits for something to happen, at most until `until`, and handles it
    pub fn turn(&mut self, until: Option<Instant>, watch: &mut Watch<'_>) {
        self.flush();
        self.wire.wait(until);
        self.settle(watch);
    }

    /// Writes what there is as far as it goes now; whether anything went
    pub fn flush(&mut self) -> bool {
        self.show_tap();
        self.wire.write()
    }

    /// Handles everything that was read, then writes everything, until there is nothing left to do but wait
    fn settle(&mut self, watch: &mut Watch<'_>) {
        loop {
            while let Some(event) = self.wire.poll_event() {
                self.handle(event, watch);
                self.show_tap();
            }
            #[cfg(feature = "http")]
            self.wire.challenged(&mut |challenge| {
                // Nobody answers if it panics.
                catch(|| self.handler.challenge(challenge)).unwrap_or_default()
            });
            if !self.flush() {
                return;
            }
        }
    }

    fn show_tap(&mut self) {
        #[cfg(feature = "http")]
        while let Some(record) = self.wire.poll_head() {
            let _ = catch(|| self.handler.head(&record));
        }
        while let Some(record) = self.wire.engine().poll_tap() {
            let _ = catch(|| self.handler.tap(&record));
        }
    }

    fn handle(&mut self, event: Event, watch: &mut Watch<'_>) {
        self.seen += 1;
        self.any_message |= !matches!(event, Event::Closed(_) | Event::Diagnostic(Diagnostic::Noise { .. }));
        let handler = &mut self.handler;
        // A panic ends what panicked and nothing else; the panic hook has said it.
        let _ = match event {
            Event::Done { call, outcome, again } => {
                if let Some((_, place)) = self.calls.iter_mut().find(|(other, _)| *other == call) {
                    *place = Some((outcome, again));
                }
                Ok(())
            }
            Event::Progress { call, progress } => match watch {
                Some((watched, told)) if *watched == call => {
                    told(&progress);
                    Ok(())
                }
                _ => catch(|| handler.progress(call, &progress)),
            },
            Event::Request(request) => {
                self.answer(&request);
                Ok(())
            }
            Event::Input(input) => {
                self.answer_input(&input);
                Ok(())
            }
            Event::InputGone(input) => catch(|| handler.input_gone(input)),
            Event::Notification(notification) => catch(|| handler.notification(&notification)),
            Event::Subscribed { key, honoured } => {
                if let Some((_, place)) = self.subscribing.as_mut().filter(|(other, _)| *other == key) {
                    *place = Some(Ok(honoured));
                }
                Ok(())
            }
            Event::SubscriptionEnded { key, error, .. } => {
                // One that was acknowledged has begun, even if its end was read along with that.
                let begins = |(other, heard): &&mut (_, Option<_>)| *other == key && heard.is_none();
                if let Some((_, place)) = self.subscribing.as_mut().filter(begins) {
                    *place = Some(Err(error));
                    Ok(())
                } else {
                    catch(|| handler.subscription_ended(key, error.as_ref()))
                }
            }
            Event::ElicitationComplete(id) => catch(|| handler.elicitation_complete(&id)),
            Event::Changed { change, .. } => {
                self.memory.notice(&change);
                catch(|| handler.changed(&change))
            }
            Event::Log(log) => catch(|| handler.log(&log)),
            Event::Diagnostic(diagnostic) => {
                if let Diagnostic::Noise { line, .. } = &diagnostic {
                    self.noise.get_or_insert_with(|| line.clone());
                    self.wire.is_noise(line);
                }
                // One of them says that it proved wrong.
                self.verdict = self.wire.engine().verdict();
                catch(|| handler.diagnostic(&diagnostic))
            }
            Event::Ready(peer) => {
                self.peer = Some(peer);
                self.was_ready = true;
                self.wire.opened();
                self.verdict = self.wire.engine().verdict();
                Ok(())
            }
            Event::Closed(fault) => {
                self.fault = Some(fault);
                Ok(())
            }
            // Handlers answer at once; nothing of theirs is left to be cancelled.
            _ => Ok(()),
        };
    }

    fn answer(&mut self, request: &Request) {
        let (now, handler) = (self.wire.now(), &mut self.handler);
        let outcome = catch(|| handler.request(request))
            .unwrap_or_else(|_| Err(RpcError::internal("the handler of the request panicked")));
        let engine = self.wire.engine();
        let refused = match outcome {
            Ok(result) => match engine.respond(now, request.id, &result) {
                Err(UseError::Encode(_)) => Some(RpcError::internal("the answer is no JSON object")),
                // Stale: the server does not want it any more.
                _ => None,
            },
            Err(error) => Some(error),
        };
        if let Some(error) = refused {
            let _ = engine.refuse(now, request.id, &error);
        }
    }

    fn answer_input(&mut self, input: &Input) {
        let handler = &mut self.handler;
        let outcome = catch(|| handler.input(input))
            .unwrap_or_else(|_| Some(Err(RpcError::internal("the handler of the input panicked"))));
        // None: it comes later, by `Client::answer`.
        let Some(outcome) = outcome else { return };
        let outcome = outcome.and_then(|answer| match input.request.check(&answer) {
            Ok(()) => Ok(answer),
            // ELIC-020; what is wrong is for the one who wrote the handler
            Err(misfit) => Err(RpcError::internal(alloc::format!("the answer does not fit: {misfit}"))),
        });
        // A person may have taken a while: the deadlines of what is sent now begin now.
        let now = self.wire.tick();
        let engine = self.wire.engine();
        let refused = match outcome {
            Ok(result) => match engine.answer(now, input.id, &result) {
                Ok(()) | Err(UseError::Stale) => None,
                Err(_) => Some(RpcError::internal("the answer cannot be given")),
            },
            Err(error) => Some(error),
        };
        if let Some(error) = refused {
            let _ = engine.refuse(now, input.id, &error);
        }
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
        self.calls.push((call, None));
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
    ) -> Result<Option<(RawJson, bool)>, Error> {
        loop {
            let place = self.calls.iter().position(|(other, _)| *other == call);
            let place = place.ok_or(Error::Use(UseError::Stale))?;
            if let Some((_, outcome @ Some(_))) = self.calls.get_mut(place) {
                let outcome = outcome.take();
                self.calls.swap_remove(place);
                return match outcome {
                    Some((Err(CallError::Closed(_)), _)) => Err(self.gone()),
                    Some((Err(error), _)) => Err(Error::Call(error)),
                    Some((Ok(result), again)) => Ok(Some((result, again))),
                    None => Ok(None),
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
    pub fn subscribe(
        &mut self,
        filter: &SubscriptionFilter,
    ) -> Result<(SubscriptionKey, SubscriptionFilter), Error> {
        self.make_room()?;
        let now = self.wire.tick();
        let key = self.wire.engine().subscribe(now, filter).map_err(Error::Use)?;
        self.subscribing = Some((key, None));
        loop {
            if let Some((_, Some(outcome))) = self.subscribing.take_if(|(_, outcome)| outcome.is_some()) {
                return match outcome {
                    Ok(honoured) => Ok((key, honoured)),
                    Err(Some(CallError::Closed(_))) => Err(self.gone()),
                    // One that ends in good order before it has begun was not wanted there.
                    Err(error) => Err(Error::Call(error.unwrap_or(CallError::Cancelled))),
                };
            }
            self.check_open()?;
            self.turn(None, &mut None);
        }
    }

    /// Forgets a call; false when it is not known
    pub fn forget(&mut self, call: CallKey) -> bool {
        let before = self.calls.len();
        self.calls.retain(|(other, _)| *other != call);
        self.calls.len() < before
    }

    // ---- the end ---------------------------------------------------------------------------------------------

    /// Whether it goes on; otherwise all that is known about the end
    pub fn check_open(&mut self) -> Result<(), Error> {
        if self.fault.is_none() { Ok(()) } else { Err(self.gone()) }
    }

    /// The error that says all that is known about the end
    fn gone(&mut self) -> Error {
        if let Some(error) = self.wire.take_error() {
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
            let wait = if closed.is_end() { LAST_BREATH } else { Duration::ZERO };
            let known = self.wire.obituary(wait);
            (closed.program, closed.url) = (known.program, known.url);
            (closed.ended, closed.last_words) = (known.ended, known.last_words);
            self.closed = Some(Box::new(closed));
        }
        self.closed.clone().map_or_else(|| Error::closed(Fault::Closed), Error::Closed)
    }

    /// Sends what is left, as far as the server takes it soon, and ends the server
    pub fn finish(&mut self) -> Result<Option<Ended>, Error> {
        if core::mem::replace(&mut self.finished, true) {
            return Ok(None);
        }
        let until = self.wire.tick() + self.patience.exit.min(LAST_WRITE);
        self.wire.close();
        self.settle(&mut None);
        while !self.wire.is_drained() && self.wire.now() < until {
            self.wire.wait_closing(until);
            self.settle(&mut None);
        }
        self.wire.end(self.patience)
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

/// How long the exit status of a server is waited for that has closed its output
const LAST_BREATH: Duration = Duration::from_secs(1);
/// How long a server that is to end is given to take what was written to it
const LAST_WRITE: Duration = Duration::from_secs(1);
