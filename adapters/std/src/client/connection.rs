//! The client's side of the loop: who gets which event

mod calls;
mod end;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::io;

use crate::child::Patience;
use crate::{Newest, catch};
use mcp_proto::client::{Event, Peer, SubscriptionKey, Verdict};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallError, CallKey, Diagnostic, Fault, Instant, Progress, RawJson, RpcError, UseError};

use self::calls::unwanted;
pub use self::end::LAST_BREATH;
use super::handler::ClientHandler;
use super::heard::{Ears, Heard, Reply};
use super::memory::Memory;
use super::slot::Teller;
use super::wire::Wire;
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
    closed: Option<Arc<Closed>>,
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
