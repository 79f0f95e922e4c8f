//! The engine: its channel, events and deadlines, and the commands of the application.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::calls::{Queue, stamp};
use super::config::Config;
use super::event::{Event, Peer};
use super::negotiate::Stage;
use super::news::News;
use super::rounds::Inputs;
use crate::calls::forms::Forms;
use crate::calls::link::{Link, Timer};
use crate::calls::ours::{self, Ask};
use crate::calls::outbound::{CallKey, CallOptions, OutCall, Purpose, Queued};
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault, UseError};
use crate::json::{OBJECT, Serializer};
use crate::outbox::Outbox;
use crate::rpc::RpcError;
use crate::shape;
use crate::slab::Key;
use crate::tap::{ChannelId, TapRecord};
use crate::time::Instant;
use crate::version::{Era, Verdict, Version};
use crate::vocab::{self, Kind};

/// A client without bytes: messages in, messages and events out
///
/// Open the channel, make calls at once (they wait until the server's era is known), feed what the server sends to
/// [`handle_message`](Self::handle_message), take events, and send what stands in the [`outbox`](Self::outbox). For a
/// byte stream, [`pipe::Client`](crate::pipe::Client) does all of that.
#[derive(Debug)]
pub struct Engine {
    pub(super) config: Arc<Config>,
    pub(super) link: Link<()>,
    pub(super) events: VecDeque<Event>,
    pub(super) stage: Stage,
    /// The channel that the negotiation and all calls run on
    pub(super) main: Option<Key>,
    pub(super) peer: Option<Box<Peer>>,
    pub(super) verdict: Option<Verdict>,
    /// Calls that wait for the connection to be ready
    pub(super) queue: Option<Box<Queue>>,
    /// What the server needs
    pub(super) inputs: Option<Box<Inputs>>,
    /// What the application wants to be told of
    pub(super) news: Option<Box<News>>,
    /// Bytes kept of calls that may have to be repeated
    pub(super) kept: usize,
    /// The last number of an input or a subscription
    pub(super) serial: u64,
    /// Bytes of answers to the server that were appended since the outbox was last empty
    owed: usize,
    /// Where the last of them ends, counted from the first byte ever sent
    owed_until: u64,
    /// Each message travels in an HTTP exchange of its own, which says more than silence does
    pub(super) exchanges: bool,
}

impl Engine {
    /// An engine that has not begun
    #[must_use]
    pub fn new(config: Arc<Config>) -> Self {
        let link = Link::new(Arc::clone(&config.limits), &config.hidden);
        Self {
            link,
            events: VecDeque::new(),
            stage: Stage::Idle,
            main: None,
            peer: None,
            verdict: None,
            queue: None,
            inputs: None,
            news: None,
            kept: 0,
            serial: 0,
            owed: 0,
            owed_until: 0,
            exchanges: false,
            config,
        }
    }

    /// Opens the channel and begins to find out what the server speaks
    ///
    /// One channel at a time: opening another one while the first is open gives the first.
    pub fn open_channel(&mut self, now: Instant) -> ChannelId {
        self.link.tick(now);
        if let Some(main) = self.main {
            return ChannelId(main);
        }
        let main = self.link.open_channel(false, ());
        self.main = Some(main);
        self.begin();
        ChannelId(main)
    }

    /// Takes one message from the server
    pub fn handle_message(&mut self, now: Instant, channel: ChannelId, message: Bytes) {
        self.link.tick(now);
        self.link.touch();
        self.link.received(channel.0, &message);
        if self.link.channels.get(channel.0).is_some_and(|c| !c.closed) {
            self.receive(channel.0, message, None);
        }
    }

    /// Says that nothing more will come: every call ends (STDIO-028)
    pub fn handle_eof(&mut self, now: Instant, channel: ChannelId) {
        if Some(channel.0) == self.main {
            self.end_input(now, 0);
        }
    }

    /// The input has ended, `partial` bytes into a message
    pub(crate) fn end_input(&mut self, now: Instant, partial: usize) {
        self.link.tick(now);
        let fault = match (self.eof_fault(), partial) {
            (Fault::Eof, 1..) => Fault::Truncated { bytes: partial },
            (fault, _) => fault,
        };
        self.close_with(fault);
    }

    /// Ends the connection here: every call ends with [`CallError::Closed`], what is in the outbox still goes out
    pub fn close(&mut self, now: Instant) {
        self.link.tick(now);
        self.close_with(Fault::Closed);
    }

    /// Lets deadlines pass; calling it early or in vain does no harm
    pub fn handle_timeout(&mut self, now: Instant) {
        self.link.tick(now);
        while let Some(timer) = self.link.pop_due() {
            match timer {
                Timer::Opening(_) => self.opening_timed_out(),
                Timer::Out(key) => self.call_due(key),
                Timer::Age(key) => {
                    if self.link.fail(key, &RpcError::internal("no answer in time")).is_some() {
                        self.request_over(key);
                    }
                }
                Timer::Held(key) => self.link.release_held(key),
                Timer::Trim => {
                    if self.link.trim() {
                        self.events.shrink_to_fit();
                        self.news.take_if(|news| news.is_empty());
                        // Calls under way know how long the application has owed something.
                        let quiet = self.link.outbound.calls.len() == 0;
                        self.inputs.take_if(|inputs| quiet && inputs.is_empty());
                    }
                }
                Timer::News(_) | Timer::Grace(_) => {}
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
        self.events.pop_front()
    }

    /// Whether decoding should pause: once it is over, or while the server does not read the answers that it asked for
    ///
    /// Reading goes on meanwhile, within the bounds of the byte stream's buffer: a server may wait for being read
    /// before it reads, and two of our ends must not wait for each other.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.is_closed()
            || self.unread() >= self.link.limits.outbox_mark
            || self.events.len() >= self.link.limits.max_events
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.main.and_then(|m| self.link.channels.get(m)).is_none_or(|c| c.closed)
    }

    /// Whether so much is unsent that calls are refused until the server has read some of it
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.outbox_len() >= self.link.limits.outbox_mark
    }

    /// Whether the connection is closed, everything about it told and all output sent
    pub(crate) fn is_over(&self) -> bool {
        let main = self.main.and_then(|m| self.link.channels.get(m));
        self.events.is_empty() && main.is_none_or(|c| c.closed && c.outbox.is_empty())
    }

    /// What is to be sent on the channel
    pub fn outbox(&mut self, channel: ChannelId) -> Option<&mut Outbox> {
        self.link.channels.get_mut(channel.0).map(|c| &mut c.outbox)
    }

    pub(crate) fn peek_outbox(&self, channel: ChannelId) -> &[u8] {
        self.link.channels.get(channel.0).map_or(&[], |c| c.outbox.transmit())
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.link.is_idle()
    }

    /// Notes that an answer to the server was appended, for [`is_stalled`](Self::is_stalled)
    pub(super) fn owe(&mut self, before: usize) {
        let Some(outbox) = self.main.and_then(|m| self.link.channels.get(m)).map(|c| &c.outbox) else {
            return;
        };
        let (sent, after) = (outbox.consumed(), outbox.len());
        if sent >= self.owed_until {
            self.owed = 0;
        }
        if after > before {
            self.owed += after - before;
            self.owed_until = sent.saturating_add(after as u64);
        }
    }

    /// Bytes of answers that the server has not read; what else is unsent behind the last of them does not count
    fn unread(&self) -> usize {
        let sent = self.main.and_then(|m| self.link.channels.get(m)).map_or(0, |c| c.outbox.consumed());
        let left = usize::try_from(self.owed_until.saturating_sub(sent)).unwrap_or(usize::MAX);
        self.owed.min(left)
    }

    pub(super) fn outbox_len(&self) -> usize {
        self.main.and_then(|m| self.link.channels.get(m)).map_or(0, |c| c.outbox.len())
    }

    /// The server, once the connection is ready
    #[must_use]
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_deref()
    }

    /// What was found out about the server's era, to be stored for the next connection; none until the connection
    /// is ready, and after it proved wrong
    #[must_use]
    pub const fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    /// The configuration
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Calls that have no outcome yet
    #[must_use]
    pub fn pending_calls(&self) -> usize {
        self.link.outbound.calls.iter().filter(|(_, c)| c.purpose == Purpose::Application).count()
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

    /// Makes a call; its outcome comes as [`Event::Done`]
    ///
    /// `params` is written as a JSON object, straight into the outbox when the connection is ready, types of
    /// [`model`](crate::model) in the shape of the revision in use; `_meta` is the engine's (pass yours in `options`).
    /// Refused, with nothing sent, when the server lacks the capability or the revision lacks the method or something
    /// in its parameters. Before the connection is ready the call waits, and such a refusal becomes its
    /// outcome ([`CallError::Refused`]).
    pub fn call<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        self.link.tick(now);
        let main = self.main.ok_or(UseError::NotReady)?;
        if self.link.channels.get(main).is_none_or(|c| c.closed) {
            return Err(UseError::Closed);
        }
        let is_mine = match vocab::request(method) {
            Some(rule) => matches!(rule.name, vocab::INITIALIZE | vocab::SUBSCRIBE),
            None => vocab::is_spec_notification(method),
        };
        if is_mine {
            return Err(UseError::NotYours(method.into()));
        }
        ours::check_meta(options.meta.as_ref())?;
        self.room_for(1)?;
        if self.kept >= self.link.limits.max_kept_bytes {
            return Err(UseError::Full("max_kept_bytes"));
        }
        let mut call = OutCall::new(self.link.now, main, Purpose::Application, options, &self.link.limits);
        if self.peer.is_some() {
            self.permit(method)?;
            if let Some(inputs) = self.inputs.as_ref().filter(|_| !call.total_is_set) {
                // It will be added again when the time is over.
                call.total_at = call.total_at - inputs.owed.waited(self.link.now);
            }
            let stamp = stamp(self.peer.as_deref(), &self.config, self.news.as_deref());
            let ask = Ask { method, stamp, meta: options.meta.as_ref(), progress: options.progress };
            let table = self.peer.as_ref().and_then(|p| shape::table(p.version));
            let key = self.link.outbound.calls.insert(call);
            match self.link.ask_at(key, &ask, |out| Serializer::object(out, params, table)) {
                Err(e) => {
                    self.link.outbound.calls.remove(key);
                    return Err(e);
                }
                Ok(written) => self.keep(key, method, written, options.meta.as_ref()),
            }
            return Ok(CallKey(key));
        }
        let params = Forms::of(params, self.config.versions)?;
        let total = options.total.unwrap_or(self.link.limits.call_total);
        let queued = Queued { method: method.into(), params, meta: options.meta.clone(), total };
        let bytes = self.queue.as_ref().map_or(0, |q| q.bytes).saturating_add(queued.cost());
        if bytes > self.link.limits.max_queued_bytes {
            return Err(UseError::Full("max_queued_bytes"));
        }
        call.queued = Some(Box::new(queued));
        let key = self.link.outbound.calls.insert(call);
        let queue = self.queue.get_or_insert_default();
        queue.bytes = bytes;
        queue.calls.push_back(key);
        Ok(CallKey(key))
    }

    /// Asks whether the server is alive: `ping`, or `server/discover` where there is no ping (PING-001, PING-006)
    pub fn ping(&mut self, now: Instant, options: &CallOptions) -> Result<CallKey, UseError> {
        #[derive(Serialize)]
        struct Nothing {}
        match self.peer.as_ref().map(|p| p.era()) {
            None => Err(UseError::NotReady),
            Some(Era::Legacy) => self.call(now, vocab::PING, &Nothing {}, options),
            Some(Era::Modern) => self.call(now, vocab::DISCOVER, &Nothing {}, options),
        }
    }

    /// Calls a tool; refused when `arguments` is not written as a JSON object (TOOL-010)
    pub fn call_tool<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        name: &str,
        arguments: &T,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        #[derive(Serialize)]
        struct Params<'a, T: ?Sized> {
            name: &'a str,
            arguments: Arguments<'a, T>,
        }
        struct Arguments<'a, T: ?Sized>(&'a T);
        impl<T: Serialize + ?Sized> Serialize for Arguments<'_, T> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_newtype_struct(OBJECT, self.0)
            }
        }
        self.call(now, vocab::TOOLS_CALL, &Params { name, arguments: Arguments(arguments) }, options)
    }

    /// Asks for a page of a list; which one, the cursor of the page before says (PAGE-005, PAGE-008)
    pub fn list(
        &mut self,
        now: Instant,
        kind: Kind,
        cursor: Option<&str>,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        #[derive(Serialize)]
        struct Page<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            cursor: Option<&'a str>,
        }
        self.call(now, kind.list(), &Page { cursor }, options)
    }

    /// Asks for a page of the tools
    pub fn list_tools(
        &mut self,
        now: Instant,
        cursor: Option<&str>,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        self.list(now, Kind::Tool, cursor, options)
    }

    /// Gives a call up; it ends with [`CallError::Cancelled`] (CANC-003, CANC-012, CANC-016)
    pub fn cancel(&mut self, now: Instant, call: CallKey, reason: Option<&str>) -> Result<(), UseError> {
        self.link.tick(now);
        self.link.outbound.calls.get(call.0).ok_or(UseError::Stale)?;
        self.abandon(call.0, reason, CallError::Cancelled);
        Ok(())
    }

    /// Sends a notification of the application's own
    pub fn notify<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        method: &str,
        params: Option<&T>,
    ) -> Result<(), UseError> {
        self.link.tick(now);
        if self.peer.is_none() {
            return Err(UseError::NotReady);
        }
        let main = self.main.ok_or(UseError::NotReady)?;
        let table = self.peer.as_ref().and_then(|p| shape::table(p.version));
        self.link.notify(main, method, params, table)
    }

    // ---- inside ----------------------------------------------------------------------------------------------

    /// The channel and the revision in use, once there are any
    pub(super) fn ready_channel(&self) -> Result<(Key, Version), UseError> {
        let main = self.main.ok_or(UseError::NotReady)?;
        if self.is_closed() {
            return Err(UseError::Closed);
        }
        let version = self.peer.as_ref().map(|p| p.version).ok_or(UseError::NotReady)?;
        Ok((main, version))
    }

    /// Whether so many requests more may go out
    #[inline]
    pub(super) fn room_for(&self, requests: usize) -> Result<(), UseError> {
        if self.link.outbound.calls.len() + requests > self.link.limits.pending() {
            return Err(UseError::Full("max_pending_calls"));
        }
        if self.is_congested() {
            return Err(UseError::Full("outbox_mark"));
        }
        Ok(())
    }

    /// Whether the connection is ready and modern
    pub(super) fn is_modern(&self) -> bool {
        self.peer.as_ref().is_some_and(|p| p.era() == Era::Modern)
    }

    pub(super) fn diagnose(&mut self, diagnostic: Diagnostic) {
        self.events.push_back(Event::Diagnostic(diagnostic));
    }

    /// Ends everything, once
    pub(super) fn close_with(&mut self, fault: Fault) {
        let Some(main) = self.main else { return };
        self.link.end_input(main, fault.clone(), Duration::ZERO);
        let Some(c) = self.link.channels.get_mut(main).filter(|c| !c.closed) else { return };
        let theirs = c.live.clone();
        for key in theirs {
            if self.link.drop_call(key).is_some() {
                self.request_over(key);
            }
        }
        for key in self.link.ours(main) {
            let ours = self.link.outbound.calls.get(key).is_some_and(|c| c.purpose == Purpose::Application);
            if ours {
                self.finish(key, Err(CallError::Closed(fault.clone())));
            } else {
                self.link.outbound.calls.remove(key);
            }
        }
        self.queue = None;
        self.end_subscriptions(&CallError::Closed(fault.clone()));
        if let Some(c) = self.link.channels.get_mut(main) {
            c.closed = true;
        }
        self.stage = Stage::Over;
        self.link.opening += 1;
        self.events.push_back(Event::Closed(fault));
    }

    pub(super) fn ready(&mut self, peer: Peer) {
        self.verdict = Some(match peer.era() {
            Era::Modern => Verdict::Modern,
            Era::Legacy => Verdict::Legacy,
        });
        if let Some(c) = self.main.and_then(|m| self.link.channels.get_mut(m)) {
            c.idless = peer.version >= Version::V2025_11_25; // DEC-004
        }
        self.stage = Stage::Ready;
        self.link.opening += 1;
        self.peer = Some(Box::new(peer.clone()));
        self.events.push_back(Event::Ready(peer));
        self.flush_queue();
    }
}
