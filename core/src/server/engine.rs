//! The engine: its channels, events and deadlines, and the commands of the application.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::channel::{Extra, KnownMeta, Session};
use super::config::Config;
use super::event::{Call, CancelReason, Event, Peer};
use super::subscriptions::Subscriptions;
use crate::calls::inbound::{CallId, Progress, Sent};
use crate::calls::link::{Link, Timer};
use crate::calls::ours::{self, Ask};
use crate::calls::outbound::{CallKey, CallOptions, OutCall, Purpose};
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault, UseError};
use crate::json::Serializer;
use crate::outbox::Outbox;
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::shape;
use crate::slab::Key;
use crate::tap::{ChannelId, TapRecord};
use crate::time::Instant;
use crate::version::Era;
use crate::vocab;

pub(super) const SHUTTING_DOWN: &str = "the server is shutting down";

/// A server without bytes: messages in, messages and events out
///
/// One engine serves any number of channels; request ids live in a channel. Feed messages with
/// [`handle_message`](Self::handle_message), take events with [`poll_event`](Self::poll_event), answer calls, and
/// send what stands in the [`outbox`](Self::outbox) of each channel. For a byte stream,
/// [`pipe::Server`](crate::pipe::Server) does all of that.
#[derive(Debug)]
pub struct Engine {
    pub(super) config: Arc<Config>,
    pub(super) link: Link<Extra>,
    pub(super) events: VecDeque<Event>,
    /// Channels with requests that wait for a free place, each once
    pub(super) backlog: VecDeque<Key>,
    pub(super) shutting_down: bool,
    /// Calls that wait for answers of their clients
    pub(super) parked: usize,
    /// What seals, if there is something
    #[cfg(feature = "crypto")]
    pub(super) keys: Option<Arc<dyn super::sealing::Sealing>>,
    /// What was cancelled and has not come
    #[cfg(feature = "http")]
    pub(super) early: super::early::Early,
    /// Made when the first client wants to be told of something
    pub(super) subscriptions: Option<Box<Subscriptions>>,
    /// The last `_meta` that was found to be in order
    pub(super) known_meta: Option<Box<KnownMeta>>,
}

impl Engine {
    /// An engine without channels
    #[must_use]
    pub fn new(config: Arc<Config>) -> Self {
        let link = Link::new(Arc::clone(&config.limits), &config.hidden);
        let (events, backlog) = (VecDeque::new(), VecDeque::new());
        Self {
            #[cfg(feature = "crypto")]
            keys: config.keys.clone(),
            config,
            link,
            events,
            backlog,
            shutting_down: false,
            parked: 0,
            #[cfg(feature = "http")]
            early: super::early::Early::default(),
            subscriptions: None,
            known_meta: None,
        }
    }

    /// Opens a channel: a byte stream, or whatever else carries messages of one peer in order
    pub fn open_channel(&mut self, now: Instant) -> ChannelId {
        self.link.tick(now);
        // A modern-only server never has to mind what older revisions cannot express (DEC-004).
        let idless = self.config.legacy().is_empty();
        ChannelId(self.link.open_channel(idless, Extra::new()))
    }

    /// Says on whose behalf a channel speaks, as far as that was established by other means than its messages
    ///
    /// What is sealed on it from then on is good for this principal alone, on whatever channel (MRTR-023, ELIC-035).
    pub fn set_principal(&mut self, channel: ChannelId, principal: Option<&str>) {
        if let Some(c) = self.link.channels.get_mut(channel.0) {
            c.extra.principal = principal.map(Into::into);
        }
    }

    /// On whose behalf a channel speaks
    #[must_use]
    pub fn principal(&self, channel: ChannelId) -> Option<&str> {
        self.link.channels.get(self.link.home(channel.0))?.extra.principal.as_deref()
    }

    /// Takes one message from a channel
    ///
    /// The bytes are shared, not copied, by the event that they lead to.
    pub fn handle_message(&mut self, now: Instant, channel: ChannelId, message: Bytes) {
        self.link.tick(now);
        self.link.touch();
        self.link.received(channel.0, &message);
        if self.link.channels.get(channel.0).is_some_and(|c| !c.closed) {
            self.receive(channel.0, message, false);
        }
    }

    /// Says that nothing more will come on a channel; calls in work get [`Limits::eof_grace`](crate::Limits) to
    /// finish, and their answers still go out (STDIO-028)
    pub fn handle_eof(&mut self, now: Instant, channel: ChannelId) {
        self.end_input(now, channel.0, &Fault::Eof, self.link.limits.eof_grace);
    }

    /// Ends a channel at once: calls are cancelled and nothing more is sent on it
    pub fn close_channel(&mut self, now: Instant, channel: ChannelId, fault: &Fault) {
        self.end_input(now, channel.0, fault, Duration::ZERO);
        self.give_up(channel.0, &CancelReason::Disconnected);
        if let Some(c) = self.link.channels.get_mut(channel.0) {
            c.outbox.clear();
        }
    }

    pub(crate) fn end_input(&mut self, now: Instant, channel: Key, fault: &Fault, grace: Duration) {
        self.link.tick(now);
        if self.link.end_input(channel, fault.clone(), grace) {
            self.fail_parked(channel, "the input ended before the answers came");
            // Nobody is left to answer our own requests.
            for key in self.link.ours(channel) {
                self.finish_out(key, Err(CallError::Closed(fault.clone())));
            }
            if *fault == Fault::Closed {
                self.end_subscriptions(now, ChannelId(channel));
            }
            self.end_listeners(channel);
            self.check_closed(channel);
        }
    }

    /// Refuses new requests from now on and ends every channel when its calls are answered, or after `grace`
    pub fn shutdown(&mut self, now: Instant, grace: Duration) {
        self.shutting_down = true;
        for channel in self.link.open_channels() {
            self.end_input(now, channel, &Fault::Closed, grace);
        }
    }

    /// Lets deadlines pass; calling it early or in vain does no harm
    pub fn handle_timeout(&mut self, now: Instant) {
        self.link.tick(now);
        while let Some(timer) = self.link.pop_due() {
            match timer {
                Timer::Age(key) => {
                    self.expire(key, CancelReason::TooOld, "the call took too long and was given up")
                }
                Timer::Held(key) => self.link.release_held(key),
                Timer::Out(key) => {
                    if let Some(outcome) =
                        self.link.outbound.calls.get(key).and_then(|c| c.expired(self.link.now))
                    {
                        self.link.send_cancelled(key, Some("no answer in time"));
                        self.finish_out(key, Err(outcome));
                    }
                }
                Timer::Grace(channel) => {
                    let ours = self
                        .link
                        .channels
                        .get(channel)
                        .is_some_and(|c| c.ended.as_deref() == Some(&Fault::Closed));
                    let reason = if ours { CancelReason::Shutdown } else { CancelReason::Disconnected };
                    self.give_up(channel, &reason);
                }
                Timer::News(channel) => self.release_news(channel),
                Timer::Trim => self.trim(),
                Timer::Opening(_) => {}
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.link.poll_timeout()
    }

    /// As [`poll_timeout`](Self::poll_timeout), without the deadline at which idle buffers are given back
    pub fn poll_punctual(&mut self) -> Option<Instant> {
        self.link.poll_punctual()
    }

    /// The next event
    pub fn poll_event(&mut self, now: Instant) -> Option<Event> {
        self.link.tick(now);
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if !self.admit_waiting() {
                return None;
            }
        }
    }

    /// Whether the next request would have to wait because too many are in work
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.live_calls() >= self.link.limits.max_live_calls as usize
    }

    /// Whether reading on `channel` should pause: it is over, its peer does not read, or too many requests wait
    #[must_use]
    pub fn is_stalled(&self, channel: ChannelId) -> bool {
        let limits = &self.link.limits;
        self.link.channels.get(channel.0).is_none_or(|c| {
            c.ended.is_some()
                || self.events.len() >= limits.max_events
                || c.outbox.len() >= limits.outbox_mark
                || c.extra.waiting.len() >= limits.max_waiting
                || c.extra.waiting.is_spent()
        })
    }

    /// Whether the end of a channel's input is known
    pub(crate) fn has_ended(&self, channel: ChannelId) -> bool {
        self.link.channels.get(channel.0).is_none_or(|c| c.ended.is_some())
    }

    /// Whether a channel is closed, everything about it told and all of its output sent
    pub(crate) fn is_over(&self, channel: ChannelId) -> bool {
        self.events.is_empty()
            && self.link.channels.get(channel.0).is_none_or(|c| c.closed && c.outbox.is_empty())
    }

    /// Calls that wait for the application's answer
    #[must_use]
    pub fn live_calls(&self) -> usize {
        self.link.inbound.calls.len().saturating_sub(self.parked)
    }

    /// What is to be sent on a channel
    pub fn outbox(&mut self, channel: ChannelId) -> Option<&mut Outbox> {
        self.link.channels.get_mut(channel.0).map(|c| &mut c.outbox)
    }

    /// The bytes to send next on a channel
    pub(crate) fn peek_outbox(&self, channel: ChannelId) -> &[u8] {
        self.link.channels.get(channel.0).map_or(&[], |c| c.outbox.transmit())
    }

    /// Forgets a channel that has closed and whose outbox is sent
    pub fn release_channel(&mut self, channel: ChannelId) {
        self.link.release_channel(channel.0);
    }

    /// The next record of the tap ([`Limits::tap_records`](crate::Limits::tap_records))
    pub fn poll_tap(&mut self) -> Option<TapRecord> {
        self.link.poll_tap()
    }

    /// How many messages did not fit the tap
    #[must_use]
    pub fn tap_dropped(&self) -> u64 {
        self.link.tap_dropped()
    }

    /// The configuration
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Who makes `call`: its own `_meta` in the modern era (BASE-032, META-015), the session in the legacy one
    #[must_use]
    pub fn peer(&self, call: &Call) -> Peer {
        let empty = || RawJson::trusted(Bytes::from_static(b"{}"));
        if call.version.era() == Era::Modern {
            let meta = &call.params.meta;
            return Peer {
                version: call.version,
                info: call.part(meta.info),
                capabilities: call.part(meta.capabilities).unwrap_or_else(empty),
            };
        }
        let session = self.session(call.channel.0);
        Peer {
            version: call.version,
            info: session.and_then(Session::info),
            capabilities: session.map_or_else(empty, Session::capabilities),
        }
    }

    /// Answers a call with a result, which must be written as a JSON object
    ///
    /// Written straight into the outbox, types of [`model`](crate::model) in the shape of the call's revision; the
    /// engine adds what the revision wants in every result (BASE-026, META-018, CACHE-001). Refused, with the call
    /// still open, when the value cannot be written, or not in this revision, when `_meta` has a key of the protocol or
    /// a malformed one ([`UseError::ReservedKey`]; META-003, META-006, META-007, DEC-009), when `resultType` says
    /// `input_required` and nothing is asked for (MRTR-005), and when a typed value in it is none that may be sent
    /// ([`EncodeError::NeverSent`](crate::EncodeError::NeverSent)).
    pub fn complete<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        call: CallId,
        result: &T,
    ) -> Result<(), UseError> {
        self.answer(now, call, &mut |out, table| Serializer::object(out, result, table))
    }

    /// Answers a call with an error, under the code that the call's revision has for it
    pub fn fail(&mut self, now: Instant, call: CallId, error: &RpcError) -> Result<(), UseError> {
        self.link.tick(now);
        let version = self.link.inbound.calls.get(call.0).ok_or(UseError::Stale)?.version;
        let record = self.link.fail(call.0, &shape::error(error, version)).ok_or(UseError::Stale)?;
        self.check_closed(record.channel);
        Ok(())
    }

    /// Reports how far a call has come (PROG-006, PROG-010)
    ///
    /// Sent only when the client asked for it, only when it increases, and at a limited rate; the latest report
    /// that was held back goes out when the rate allows (PROG-007, PROG-013).
    pub fn progress(&mut self, now: Instant, call: CallId, progress: Progress) -> Result<Sent, UseError> {
        self.link.tick(now);
        self.link.report(call.0, progress)
    }

    /// Sends a notification of the application's own on a channel
    pub fn notify<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        channel: ChannelId,
        method: &str,
        params: Option<&T>,
    ) -> Result<(), UseError> {
        self.link.tick(now);
        let session = self.link.channels.get(channel.0).and_then(|c| c.extra.session.as_ref());
        let table = session.and_then(|s| shape::table(s.version));
        self.link.notify(channel.0, method, params, table)
    }

    /// Sends a request of the server's own to a client (legacy only: modern servers send none, BASE-019)
    ///
    /// For `ping` and custom methods. Ends with [`Event::Done`].
    pub fn request<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        channel: ChannelId,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        self.link.tick(now);
        ours::check_meta(options.meta.as_ref())?;
        let limits = Arc::clone(&self.link.limits);
        let c = self.link.channels.get_mut(channel.0).ok_or(UseError::Stale)?;
        if c.ended.is_some() || c.closed {
            return Err(UseError::Closed);
        }
        // Before `initialized` only ping may be sent (LIFE-006).
        let Some(session) = c.extra.session.as_ref() else { return Err(UseError::NotReady) };
        let table = shape::table(session.version);
        if !session.initialized && method != vocab::PING {
            return Err(UseError::NotReady);
        }
        if c.outbox.len() >= limits.outbox_mark {
            return Err(UseError::Full("outbox_mark"));
        }
        if method != vocab::PING && vocab::request(method).is_some() {
            return Err(UseError::NotYours(method.into()));
        }
        if self.link.outbound.calls.len() >= limits.pending() {
            return Err(UseError::Full("max_pending_calls"));
        }
        let call = OutCall::new(self.link.now, channel.0, Purpose::Application, options, &limits);
        let key = self.link.outbound.calls.insert(call);
        let ask = Ask { method, stamp: None, meta: options.meta.as_ref(), progress: options.progress };
        let written = self.link.ask(key, &ask, |out| Serializer::object(out, params, table));
        if let Err(e) = written {
            self.link.outbound.calls.remove(key);
            return Err(e);
        }
        Ok(CallKey(key))
    }

    /// Gives up a request of ours; it ends with [`CallError::Cancelled`] (CANC-001, CANC-003)
    pub fn cancel_request(
        &mut self,
        now: Instant,
        call: CallKey,
        reason: Option<&str>,
    ) -> Result<(), UseError> {
        self.link.tick(now);
        let ours = self.link.outbound.calls.get(call.0).map(|c| c.purpose);
        if ours != Some(Purpose::Application) {
            return Err(UseError::Stale);
        }
        self.link.send_cancelled(call.0, reason);
        self.finish_out(call.0, Err(CallError::Cancelled));
        Ok(())
    }

    // ---- inside ----------------------------------------------------------------------------------------------

    /// The legacy session that a channel or a stream belongs to
    pub(super) fn session(&self, channel: Key) -> Option<&Session> {
        self.link.channels.get(self.link.home(channel))?.extra.session.as_deref()
    }

    pub(super) fn finish_out(&mut self, key: Key, outcome: Result<RawJson, CallError>) {
        let Some(call) = self.link.outbound.calls.remove(key) else { return };
        self.link.sweep();
        match call.purpose {
            Purpose::Input(call) => self.input_ended(call, key, outcome),
            _ => self.events.push_back(Event::Done { call: CallKey(key), outcome }),
        }
    }

    pub(super) fn diagnose(&mut self, channel: Key, diagnostic: Diagnostic) {
        self.events.push_back(Event::Diagnostic { channel: ChannelId(channel), diagnostic });
    }

    /// Whether nothing has happened for long enough that buffers were given back
    pub(crate) const fn is_idle(&self) -> bool {
        self.link.is_idle()
    }

    /// Ends a call that the application did not answer with an internal error
    fn expire(&mut self, key: Key, reason: CancelReason, message: &'static str) {
        if let Some(record) = self.link.fail(key, &RpcError::internal(message)) {
            self.events.push_back(Event::Cancelled { call: CallId(key), reason });
            self.check_closed(record.channel);
        }
    }

    /// Cancels whatever is left on a channel and closes it
    fn give_up(&mut self, channel: Key, reason: &CancelReason) {
        let Some(c) = self.link.channels.get_mut(channel) else { return };
        let waiting = core::mem::take(&mut c.extra.waiting);
        let live = c.live.clone();
        self.backlog.retain(|k| *k != channel);
        if *reason == CancelReason::Shutdown {
            for id in waiting.ids() {
                self.link.send_error(channel, None, Some(&id), &RpcError::internal(SHUTTING_DOWN));
            }
        }
        for key in live {
            if self.unpark(key, "the call is over") {
                self.link.drop_call(key);
            } else if *reason == CancelReason::Shutdown {
                self.expire(key, reason.clone(), SHUTTING_DOWN);
            } else if self.link.drop_call(key).is_some() {
                self.events.push_back(Event::Cancelled { call: CallId(key), reason: reason.clone() });
            }
        }
        self.check_closed(channel);
    }

    /// Says that a channel is over once nothing is left to be done on it
    pub(super) fn check_closed(&mut self, channel: Key) {
        let channel = self.link.home(channel);
        let Some(c) = self.link.channels.get_mut(channel) else { return };
        let Some(fault) = &c.ended else { return };
        if !c.closed && c.live.is_empty() && c.extra.waiting.is_empty() {
            c.closed = true;
            let fault = Fault::clone(fault);
            self.stream_over(channel);
            self.events.push_back(Event::Closed { channel: ChannelId(channel), fault });
        }
    }

    /// Takes a waiting request up when there is room; false when there is nothing to do
    fn admit_waiting(&mut self) -> bool {
        if self.backlog.is_empty() || self.is_full() {
            return false;
        }
        let Some(key) = self.backlog.pop_front() else { return false };
        if let Some(c) = self.link.channels.get_mut(key) {
            if let Some(frame) = c.extra.waiting.pop() {
                if !c.extra.waiting.is_empty() {
                    self.backlog.push_back(key);
                }
                self.receive(key, frame, true);
                self.check_closed(key);
            }
        }
        true
    }

    fn trim(&mut self) {
        if self.link.trim() {
            self.known_meta = None;
            self.events.shrink_to_fit();
            self.backlog.shrink_to_fit();
            #[cfg(feature = "http")]
            self.early.trim(self.link.now);
            if let Some(subscriptions) = &mut self.subscriptions {
                subscriptions.trim();
            }
            for key in self.link.open_channels() {
                if let Some(c) = self.link.channels.get_mut(key) {
                    c.extra.trim();
                }
            }
        }
    }
}
