//! Events of a server on any adapter: its types, what it publishes, and the answers to its clients (feature `server`).
//!
//! [`Events`] is an extension of a router (`router.extension(events.clone())`). Its methods are answered on the loops of the
//! server, beside the handlers: an open stream takes neither a thread nor a place among the running calls. Clones share the same
//! events, and publish from any thread.
//!
//! ```
//! use mcp_events::server::{Event, Events};
//! use mcp_proto::RawJson;
//!
//! let events = Events::new()?;
//! let any = || RawJson::new(r#"{"type":"object"}"#);
//! let finished = events.add(Event::new("build.finished", any()?, any()?).description("A build has ended"))?;
//! finished.publish(&RawJson::new(r#"{"build":7,"ok":true}"#)?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `schemars`, `Event::typed` takes the schemas from types. With the feature `post`, `Events::webhooks` delivers to
//! webhooks, too. Changes of the types are announced to those who subscribed to [`EVENTS_LIST`].

mod registration;
#[cfg(test)]
mod tests;
#[cfg_attr(not(feature = "post"), path = "server/no_webhooks.rs")]
mod webhooks;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use mcp_proto::model::{EmptyResult, NotificationMeta, ResultMeta};
use mcp_proto::server::{self, Announcement, Call, Caller, Config, CustomMethod};
use mcp_proto::{
    CallId, Change, ChannelId, CustomList, EncodeError, Entropy, Era, Instant, RawJson, RequestId, RpcError,
    UseError,
};
use mcp_runtime::server::{CommandSender, LoopExtension, ServerExtension, ServerLoop};
use mcp_std::{Clock, catch, entropy};
use serde::Serialize;

pub use registration::{AddEventError, Event, PublishError, Publisher};

use crate::delivery::Subscribe;
use crate::source::{Filter, Lane, Resume, Source, SourceConfig, StreamKey, StreamMessage, UnknownType};
use crate::webhook::SubscriptionKey;
use crate::wire::{
    self, CallbackUrl, DeliveryMode, EventErrorObject, EventOccurrence, EventType, EventsCapability,
    EventsError, ListEventsParams, Nullable, PollEventsParams, Profile, StreamActiveParams,
    StreamErrorParams, StreamEventsParams, StreamHeartbeatParams, SubscribeEventsParams,
    SubscribeEventsResult, UnsubscribeEventsParams, WebhookDelivery, WebhookTarget,
};
use registration::Access;
use webhooks::Webhooks;

/// The list of types, whose changes clients can subscribe to (EVT-016).
pub const EVENTS_LIST: CustomList = CustomList::new(wire::LISTEN_MEMBER, wire::LIST_CHANGED);

/// The answer of `events/subscribe`.
type Answer = Result<SubscribeEventsResult, RpcError>;

/// Chooses the profile of a caller.
type FindProfile = Arc<dyn Fn(&Caller) -> Profile + Send + Sync>;

/// The events of a server.
#[derive(Clone)]
pub struct Events(Arc<Shared>);

struct Shared {
    /// What is declared, and the profile of callers who have none of their own.
    profile: Profile,
    clock: Clock,
    state: Mutex<State>,
    /// Whether the deliverer of webhooks has events.
    has_news: AtomicBool,
}

/// The state while it is locked. The events of the deliverer are taken when it is not any more.
struct Locked<'a> {
    // Dropped first.
    state: MutexGuard<'a, State>,
    _after: AfterLock<'a>,
}

struct AfterLock<'a>(&'a Shared);

impl Drop for AfterLock<'_> {
    fn drop(&mut self) {
        self.0.take_news();
    }
}

impl Deref for Locked<'_> {
    type Target = State;
    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

struct State {
    find_profile: Option<FindProfile>,
    source: Source,
    types: BTreeMap<String, Registered>,
    /// Number of the last type that was added.
    last_type: u64,
    loops: BTreeMap<Lane, JoinedLoop>,
    webhooks: Option<Box<Webhooks>>,
    /// Raised when access may have been lost: a check before that counts no more.
    epoch: u64,
    /// The latest time of a loop.
    now: Instant,
    entropy: Entropy,
}

/// A type, as it was added last.
struct Registered {
    /// Tells it from one that had this name before.
    number: u64,
    access: Arc<Access>,
}

/// A loop of the server, as the publishers see it.
struct JoinedLoop {
    commands: CommandSender,
    /// Whether it was woken, and has not looked since then.
    is_woken: bool,
}

impl Events {
    /// Creates events without types, with the default bounds and [`Profile::SEP`].
    ///
    /// # Errors
    ///
    /// The operating system has no source of randomness.
    pub fn new() -> io::Result<Self> {
        Self::with(SourceConfig::default(), Profile::SEP)
    }

    /// Creates events without types.
    ///
    /// # Errors
    ///
    /// The operating system has no source of randomness.
    pub fn with(config: SourceConfig, profile: Profile) -> io::Result<Self> {
        let entropy = || io::Result::Ok(Entropy::new(entropy::seed()?, entropy::nonce()));
        let state = State {
            find_profile: None,
            source: Source::new(config, entropy()?),
            types: BTreeMap::new(),
            last_type: 0,
            loops: BTreeMap::new(),
            webhooks: None,
            epoch: 0,
            now: Instant::ZERO,
            entropy: entropy()?,
        };
        let (clock, state, has_news) = (Clock::start(), Mutex::new(state), AtomicBool::new(false));
        Ok(Self(Arc::new(Shared { profile, clock, state, has_news })))
    }

    /// Chooses the profile of each caller by a function: the codes of errors, and what is written to webhooks. A webhook subscription
    /// keeps the profile that it was made with.
    ///
    /// What a server declares, and whether it serves revisions with a handshake, is the same for all: it is that of the profile which
    /// these events were created with, and so is that of a caller for whom the function panics. It must be fast.
    pub fn profile_for(&self, find_profile: impl Fn(&Caller) -> Profile + Send + Sync + 'static) {
        self.0.lock().find_profile = Some(Arc::new(find_profile));
    }

    /// Adds a type, or describes one anew that has changed additively (EVT-022). Returns what publishes its events.
    ///
    /// A type that changed otherwise is [removed](Self::remove) first, with [`EventsError::SchemaChanged`].
    ///
    /// # Errors
    ///
    /// [`AddEventError`]; nothing changed then.
    pub fn add<A, P>(&self, event: Event<A, P>) -> Result<Publisher<P>, AddEventError>
    where
        A: serde::de::DeserializeOwned + Send + Sync + 'static,
        P: serde::de::DeserializeOwned + 'static,
    {
        let (described, limits, access) = event.into_parts()?;
        let name = described.name.clone();
        let mut state = self.0.lock();
        state.source.add(described, limits);
        let number = state.types.get(&name).map_or(state.last_type + 1, |known| known.number);
        state.last_type = state.last_type.max(number);
        state.types.insert(name.clone(), Registered { number, access: Arc::new(access) });
        drop(state);
        self.0.announce_list();
        Ok(Publisher::new(self.clone(), name, number))
    }

    /// Removes a type, and ends its streams with `reason` (EVT-020, EVT-021). Returns whether there was one.
    pub fn remove(&self, name: &str, reason: &EventsError) -> bool {
        let is_known = self.0.change(|state, _| {
            state.epoch += 1;
            state.types.remove(name);
            if let Some(webhooks) = &mut state.webhooks {
                webhooks.terminate(&|other, _| (other == name).then(|| reason.clone()));
            }
            state.source.remove(name, reason)
        });
        if is_known {
            self.0.announce_list();
        }
        is_known
    }

    /// Publishes an event of a type, with an id and a time of its own.
    ///
    /// # Errors
    ///
    /// [`PublishError`]; nothing was published then.
    pub fn publish(&self, event: &EventOccurrence) -> Result<(), PublishError> {
        self.publish_to(None, event)
    }

    /// Publishes an event of the type with a number; of any without one.
    fn publish_to(&self, number: Option<u64>, event: &EventOccurrence) -> Result<(), PublishError> {
        // It becomes a header field of deliveries.
        let id = &event.event_id;
        if !(1..=wire::MAX_EVENT_ID).contains(&id.len()) || !id.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(PublishError::EventId);
        }
        // In the log, it would be in the way of all that comes behind it.
        if !event.data.is_object() || event.meta.as_ref().is_some_and(|meta| !meta.is_object()) {
            return Err(EncodeError::NotAnObject.into());
        }
        self.change_type(&event.name, number, |source, webhooks, now| {
            source.publish(now, event.clone())?;
            if let Some(webhooks) = webhooks {
                webhooks.publish(source, event);
            }
            Ok(())
        })
    }

    /// Reports that events of a type were lost: on streams, in polls, and to webhooks.
    fn report_gap(&self, name: &str, number: u64) -> Result<(), PublishError> {
        self.change_type(name, Some(number), |source, webhooks, now| {
            source.report_gap(now, name)?;
            if let Some(webhooks) = webhooks {
                webhooks.report_gap(source, name);
            }
            Ok(())
        })
    }

    fn report_error(&self, name: &str, number: u64, error: &EventsError) -> Result<(), PublishError> {
        self.change_type(name, Some(number), |source, _, _| source.report_error(name, error))
    }

    /// Changes the type of a name, unless it is another one than that with a number.
    fn change_type(
        &self,
        name: &str,
        number: Option<u64>,
        change: impl FnOnce(&mut Source, Option<&mut Webhooks>, Instant) -> Result<(), UnknownType>,
    ) -> Result<(), PublishError> {
        let changed = self.0.change(|state, now| {
            let State { source, webhooks, types, .. } = state;
            let is_it =
                types.get(name).is_some_and(|known| number.is_none_or(|number| known.number == number));
            if is_it { change(source, webhooks.as_deref_mut(), now) } else { Err(UnknownType) }
        });
        changed.map_err(|_| PublishError::Removed)
    }

    /// Ends the streams and webhook subscriptions for which `reason`, called with type and principal, returns one: their clients
    /// may not see these events any more, for example (EVT-162). Returns their number.
    ///
    /// `reason` must not use these events.
    pub fn terminate(&self, reason: impl Fn(&str, Option<&str>) -> Option<EventsError>) -> usize {
        self.0.change(|state, _| {
            state.epoch += 1;
            let of_webhooks = state
                .webhooks
                .as_mut()
                .map_or(0, |webhooks| webhooks.terminate(&|name, principal| reason(name, Some(principal))));
            of_webhooks + state.source.terminate(reason)
        })
    }

    /// Returns the number of open streams.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.0.lock().source.open_streams()
    }

    /// Returns an id for an event that has none of its own.
    fn random_id(&self) -> String {
        let mut bytes = [0; 16];
        self.0.lock().entropy.fill(&mut bytes);
        alloc::format!("evt_{:032x}", u128::from_le_bytes(bytes))
    }
}

/// Shows numbers alone: events belong to others.
impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Events");
        // Not while a function of the application runs under the lock.
        if let Ok(state) = self.0.state.try_lock() {
            shown.field("source", &state.source).field("loops", &state.loops.len());
        }
        shown.finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> Locked<'_> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Locked { state, _after: AfterLock(self) }
    }

    /// Changes something, and wakes the loops that have to send something for it.
    fn change<T>(&self, change: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = self.lock();
        let now = self.clock.now().max(state.now);
        let outcome = change(&mut state, now);
        let woken = state.wake();
        // A waker may run its loop at once, which locks.
        drop(state);
        wake_all(woken);
        outcome
    }

    /// Returns the profile of a caller.
    fn profile(&self, caller: &Caller) -> Profile {
        let find_profile = self.lock().find_profile.clone();
        find_profile.and_then(|find| catch(|| find(caller)).ok()).unwrap_or(self.profile)
    }

    /// Returns an answer for a call that has waited on a lane.
    fn poll_answer(&self, lane: Lane) -> Option<(CallId, Answer)> {
        self.lock().webhooks.as_mut()?.poll_answer(lane)
    }

    /// Takes the events of the deliverer of webhooks, unless another thread has the lock: it does that then when it is done.
    fn take_news(&self) {
        while self.has_news.load(Ordering::SeqCst) {
            let mut state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            self.has_news.store(false, Ordering::SeqCst);
            let State { source, webhooks, .. } = &mut *state;
            if let Some(webhooks) = webhooks {
                webhooks.take_news(source);
            }
            let woken = state.wake();
            drop(state);
            wake_all(woken);
        }
    }

    /// Announces that the list of types has changed (EVT-016).
    fn announce_list(&self) {
        let loops: Vec<CommandSender> =
            self.lock().loops.values().map(|joined| joined.commands.clone()).collect();
        for commands in loops {
            // Each loop tells its own subscribers. One that has ended has none.
            let _ = commands.send_unbounded(|server_loop| {
                let now = server_loop.tick();
                server_loop.engine().publish(now, Announcement::new(Change::Custom(EVENTS_LIST)));
            });
        }
    }

    /// Finds what decides about a type that a caller may see.
    fn access(&self, name: &str, caller: &Caller) -> Result<Arc<Access>, EventsError> {
        let access = self.lock().types.get(name).map(|known| known.access.clone());
        // To others, a type is as if it did not exist.
        access.filter(|access| access.is_visible(caller)).ok_or(EventsError::EventNotFound)
    }

    /// Answers `events/list`. Those who have no streams see neither their mode nor types that have no other.
    fn list(&self, params: &ListEventsParams, caller: &Caller, era: Era) -> wire::ListEventsResult {
        let all: Vec<_> =
            self.lock().types.iter().map(|(name, known)| (name.clone(), known.access.clone())).collect();
        // Without the lock, because functions of the application run.
        let visible: BTreeMap<String, bool> =
            all.into_iter().map(|(name, access)| (name, access.is_visible(caller))).collect();
        let has = |mode: &DeliveryMode| has_streams(era) || *mode != DeliveryMode::Push;
        let is_visible = |described: &EventType| {
            visible.get(&described.name).copied().unwrap_or(false) && described.delivery.iter().any(has)
        };
        let mut page = self.lock().source.list(params.cursor.as_deref(), is_visible);
        page.events.iter_mut().for_each(|described| described.delivery.retain(has));
        page
    }
}

impl State {
    /// Notes that the loops are woken which have something to send, and returns how.
    fn wake(&mut self) -> Vec<CommandSender> {
        let Self { source, loops, webhooks, .. } = self;
        let has_work = |lane: Lane| {
            source.is_ready(lane) || webhooks.as_ref().is_some_and(|webhooks| webhooks.has_answers(lane))
        };
        let ready = loops.iter_mut().filter(|(lane, joined)| !joined.is_woken && has_work(**lane));
        ready
            .map(|(_, joined)| {
                joined.is_woken = true;
                joined.commands.clone()
            })
            .collect()
    }
}

fn wake_all(loops: Vec<CommandSender>) {
    for commands in loops {
        // A loop that has ended has nothing to send.
        let _ = commands.send_unbounded(|_| ());
    }
}

impl ServerExtension for Events {
    fn configure(&self, config: Config) -> Config {
        let profile = &self.0.profile;
        let (config, announces) = match config.clone().custom_list(EVENTS_LIST) {
            Ok(config) => (config, true),
            // The application has given the names away.
            Err(_) => (config, false),
        };
        let capabilities = config.effective_capabilities().clone();
        let capability = EventsCapability::new().list_changed(announces);
        let config = config.capabilities(profile.declare(capabilities, capability));
        let method = |name: &str| {
            let method = CustomMethod::new(name);
            if profile.declares_extension { method.of_extension(wire::EXTENSION) } else { method }
        };
        [wire::LIST, wire::POLL, wire::SUBSCRIBE, wire::UNSUBSCRIBE]
            .into_iter()
            .fold(config, |config, name| config.custom_method(method(name)))
            .custom_method(method(wire::STREAM).long_lived())
    }

    fn identity(&self) -> Option<usize> {
        // Two parts on one loop would both take answers and cancellations of one call.
        Some(Arc::as_ptr(&self.0).addr())
    }

    fn join(&self, server_loop: &mut dyn ServerLoop, commands: CommandSender) -> Box<dyn LoopExtension> {
        let mut state = self.0.lock();
        let lane = state.source.add_lane();
        state.loops.insert(lane, JoinedLoop { commands, is_woken: false });
        let began = (server_loop.tick(), self.0.clock.now().max(state.now));
        drop(state);
        Box::new(EventsLoop {
            shared: self.0.clone(),
            lane,
            began,
            streams: BTreeMap::new(),
            calls: BTreeMap::new(),
            deadline: None,
        })
    }
}

/// The events on one loop, with the streams of its clients.
///
/// Invariant: `calls` has the calls of `streams`.
struct EventsLoop {
    shared: Arc<Shared>,
    lane: Lane,
    /// The same time by the clock of the loop, and by that of the source.
    began: (Instant, Instant),
    streams: BTreeMap<StreamKey, OpenStream>,
    calls: BTreeMap<CallId, StreamKey>,
    /// When there is something to do, by the clock of the loop.
    deadline: Option<Instant>,
}

/// The call of `events/stream`.
struct OpenStream {
    call: CallId,
    channel: ChannelId,
    id: RequestId,
    profile: Profile,
}

impl LoopExtension for EventsLoop {
    fn handle_event(&mut self, server_loop: &mut dyn ServerLoop, event: &server::Event) -> bool {
        match event {
            server::Event::Call(call) => self.handle_call(server_loop, call),
            server::Event::Cancelled { call, .. } => match self.calls.remove(call) {
                Some(key) => {
                    self.streams.remove(&key);
                    self.shared.lock().source.close(key)
                }
                None => {
                    let mut state = self.shared.lock();
                    state.webhooks.as_mut().is_some_and(|webhooks| webhooks.cancel(self.lane, *call))
                }
            },
            _ => false,
        }
    }

    fn drive(&mut self, server_loop: &mut dyn ServerLoop) -> bool {
        if server_loop.engine().is_shutting_down() {
            self.end_all(server_loop);
        }
        let loop_now = server_loop.now();
        let now = self.source_time(loop_now);
        let shared = self.shared.clone();
        {
            let mut state = shared.lock();
            state.now = state.now.max(now);
            let joined = state.loops.get_mut(&self.lane);
            let is_woken = joined.is_some_and(|joined| core::mem::take(&mut joined.is_woken));
            let is_due = self.deadline.is_some_and(|at| at <= loop_now);
            // In most turns there is nothing: the loop serves other calls. Answers come with a wake-up.
            if !is_woken && !is_due && !state.source.is_ready(self.lane) {
                return false;
            }
            state.source.handle_timeout(now, self.lane);
        }
        // An observer of the application may use the events when a call ends, so nothing is sent under the lock.
        let mut sent = 0;
        while let Some((call, answer)) = shared.poll_answer(self.lane) {
            sent += 1;
            match answer {
                Ok(result) => complete(server_loop, call, &result),
                Err(error) => fail(server_loop, call, &error),
            }
        }
        while sent < MAX_MESSAGES_PER_TURN {
            let polled = shared.lock().source.poll_message(now, self.lane);
            let Some((key, message)) = polled else { break };
            sent += 1;
            match self.send(server_loop, key, message) {
                Ok(()) => {}
                Err(UseError::Full(_)) => shared.lock().source.hold(key, now + RETRY_INTERVAL),
                Err(_) => {
                    if let Some(stream) = self.forget(key) {
                        fail(server_loop, stream.call, &RpcError::internal("the stream cannot go on"));
                    }
                    shared.lock().source.close(key);
                }
            }
        }
        let due = shared.lock().source.poll_timeout(self.lane);
        self.deadline = due.map(|at| loop_now + at.saturating_duration_since(now));
        sent > 0
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl EventsLoop {
    /// Returns the time of the source at a time of the loop.
    fn source_time(&self, now: Instant) -> Instant {
        let (of_loop, of_source) = self.began;
        of_source + now.saturating_duration_since(of_loop)
    }

    /// Answers a call of the extension. Returns false if it is of another method.
    fn handle_call(&mut self, server_loop: &mut dyn ServerLoop, call: &Call) -> bool {
        let method = call.method();
        if !METHODS.contains(&method) {
            return false;
        }
        let era = call.version().era();
        let is_served = (era == Era::Modern || self.shared.profile.is_legacy_allowed)
            && (method != wire::STREAM || has_streams(era));
        let outcome = match method {
            _ if !is_served => Err(RpcError::method_not_found(method)),
            wire::LIST => call.parse().map(|params| {
                let result = self.shared.list(&params, call.caller(), era);
                complete(server_loop, call.id(), &result);
            }),
            wire::POLL => self.poll(server_loop, call),
            wire::STREAM => self.open(server_loop, call),
            wire::SUBSCRIBE => self.subscribe(server_loop, call),
            _ => self.unsubscribe(server_loop, call),
        };
        if let Err(error) = outcome {
            fail(server_loop, call.id(), &error);
        }
        true
    }

    /// Returns the filter of a subscription: the caller may have it, and its arguments are right. Returns the state with it, in
    /// which that still holds.
    fn filter(
        &self,
        call: &Call,
        profile: &Profile,
        name: &str,
        arguments: Option<RawJson>,
    ) -> Result<(Filter, Locked<'_>), RpcError> {
        let arguments = arguments.unwrap_or_else(RawJson::empty_object);
        loop {
            let epoch = self.shared.lock().epoch;
            let access = self.shared.access(name, call.caller());
            let filter = access.and_then(|access| access.accept(&arguments, call.caller()));
            let filter = filter.map_err(|error| error.to_rpc(profile))?;
            let state = self.shared.lock();
            // Otherwise access may have been lost while the application decided (EVT-162).
            if state.epoch == epoch {
                return Ok((filter, state));
            }
        }
    }

    fn poll(&self, server_loop: &mut dyn ServerLoop, call: &Call) -> Result<(), RpcError> {
        let params: PollEventsParams<'_> = call.parse()?;
        let now = self.source_time(server_loop.tick());
        let profile = self.shared.profile(call.caller());
        let (filter, mut state) = self.filter(call, &profile, &params.name, params.arguments.clone())?;
        let polled = state.source.poll(now, &params, filter);
        drop(state);
        let result = polled.map_err(|error| error.to_rpc(&profile))?;
        complete(server_loop, call.id(), &result);
        Ok(())
    }

    fn open(&mut self, server_loop: &mut dyn ServerLoop, call: &Call) -> Result<(), RpcError> {
        let params: StreamEventsParams<'_> = call.parse()?;
        let now = self.source_time(server_loop.tick());
        // Stale: it was cancelled before it came here.
        let Some(id) = server_loop.engine().request_id(call.id()).cloned() else { return Ok(()) };
        let principal = call.caller().principal();
        let profile = self.shared.profile(call.caller());
        let (filter, mut state) = self.filter(call, &profile, &params.name, params.arguments.clone())?;
        let opened = state.source.open(now, self.lane, &params, principal, filter);
        drop(state);
        let key = opened.map_err(|error| error.to_rpc(&profile))?;
        self.streams.insert(key, OpenStream { call: call.id(), channel: call.channel(), id, profile });
        self.calls.insert(call.id(), key);
        Ok(())
    }

    fn subscribe(&self, server_loop: &mut dyn ServerLoop, call: &Call) -> Result<(), RpcError> {
        let params: SubscribeEventsParams<'_> = call.parse()?;
        let profile = self.shared.profile(call.caller());
        let wrong = |error: EventsError| error.to_rpc(&profile);
        let now = self.source_time(server_loop.tick());
        let WebhookDelivery { url, mode, .. } = &params.delivery;
        let key =
            subscription_key(call.caller(), mode.as_ref(), url, &params.name, params.arguments.as_ref());
        let key = key.map_err(wrong)?;
        let (filter, mut state) = self.filter(call, &profile, &params.name, params.arguments.clone())?;
        let State { source, webhooks, .. } = &mut *state;
        let Some(webhooks) = webhooks else {
            return Err(wrong(EventsError::UnsupportedMode(DeliveryMode::Webhook)));
        };
        let resume = source
            .resume(now, &params.name, params.cursor.as_ref().map(AsRef::as_ref), params.max_age_ms)
            .map_err(wrong)?;
        let subscribe = Subscribe {
            key,
            secret: params.delivery.secret,
            ttl: params.ttl_ms,
            cursor: resume.cursor.clone(),
            truncated: resume.truncated,
            profile,
        };
        let request = Request { name: params.name.into_owned(), subscribe, filter, resume };
        let answer = webhooks.subscribe(source, (self.lane, call.id()), request).map_err(wrong)?;
        drop(state);
        if let Some(result) = answer {
            complete(server_loop, call.id(), &result);
        }
        Ok(())
    }

    fn unsubscribe(&self, server_loop: &mut dyn ServerLoop, call: &Call) -> Result<(), RpcError> {
        let params: UnsubscribeEventsParams<'_> = call.parse()?;
        let profile = self.shared.profile(call.caller());
        let wrong = |error: EventsError| error.to_rpc(&profile);
        let WebhookTarget { url, mode, .. } = &params.delivery;
        let key =
            subscription_key(call.caller(), mode.as_ref(), url, &params.name, params.arguments.as_ref());
        let key = key.map_err(wrong)?;
        let mut state = self.shared.lock();
        let ended = match &mut state.webhooks {
            Some(webhooks) => webhooks.unsubscribe(&key, &profile),
            None => Err(EventsError::SubscriptionNotFound),
        };
        drop(state);
        ended.map_err(wrong)?;
        complete(server_loop, call.id(), &EmptyResult::new());
        Ok(())
    }

    /// Sends a message on its stream.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`]: it can be sent later. Otherwise the stream has ended.
    fn send(
        &mut self,
        server_loop: &mut dyn ServerLoop,
        key: StreamKey,
        message: StreamMessage,
    ) -> Result<(), UseError> {
        let stream = self.streams.get(&key).ok_or(UseError::Stale)?;
        let (now, call, channel) = (server_loop.now(), stream.call, stream.channel);
        // A cancellation may wait behind a handler that blocks its loop.
        if server_loop.engine().request_id(call).is_none() {
            return Err(UseError::Stale);
        }
        let meta = |own: Option<&RawJson>| stream_meta(own, &stream.id);
        let engine = server_loop.engine();
        match message {
            StreamMessage::Active { cursor, truncated } => {
                let params = StreamActiveParams::new().cursor(Nullable(cursor)).truncated(truncated);
                engine.notify(now, channel, wire::ACTIVE, Some(&params.meta(meta(None)?)))
            }
            StreamMessage::Event(event) => {
                let meta = meta(event.meta.as_ref())?;
                engine.notify(now, channel, wire::EVENT, Some(&event.meta(meta)))
            }
            StreamMessage::Heartbeat { cursor } => {
                let params = StreamHeartbeatParams::new().cursor(Nullable(cursor)).meta(meta(None)?);
                engine.notify(now, channel, wire::HEARTBEAT, Some(&params))
            }
            StreamMessage::Error(error) => {
                let params = StreamErrorParams::new(error.to_object(&stream.profile)).meta(meta(None)?);
                engine.notify(now, channel, wire::ERROR, Some(&params))
            }
            StreamMessage::Terminated(error) => {
                let object: EventErrorObject = error.to_object(&stream.profile);
                let params = StreamErrorParams::new(object).meta(meta(None)?);
                let told = engine.notify(now, channel, wire::TERMINATED, Some(&params));
                let ended = match told {
                    Ok(()) => engine.complete(now, call, &final_result(&stream.id)?),
                    // It does not come again, so the error ends the call without it.
                    Err(_) => engine.fail(now, call, &error.to_rpc(&stream.profile)),
                };
                self.forget(key);
                ended
            }
        }
    }

    /// Ends all streams with their final results, because the server ends.
    fn end_all(&mut self, server_loop: &mut dyn ServerLoop) {
        let now = server_loop.now();
        self.calls.clear();
        for (key, stream) in core::mem::take(&mut self.streams) {
            self.shared.lock().source.close(key);
            if let Ok(result) = final_result(&stream.id) {
                // Stale: its client has gone.
                let _ = server_loop.engine().complete(now, stream.call, &result);
            }
        }
    }

    fn forget(&mut self, key: StreamKey) -> Option<OpenStream> {
        let stream = self.streams.remove(&key)?;
        self.calls.remove(&stream.call);
        Some(stream)
    }
}

impl Drop for EventsLoop {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.source.remove_lane(self.lane);
        state.loops.remove(&self.lane);
        if let Some(webhooks) = &mut state.webhooks {
            webhooks.remove_lane(self.lane);
        }
    }
}

/// Returns whether clients of an era have `events/stream`. In the older one there is no way to tell the messages of one stream from
/// those of another (EVT-008).
fn has_streams(era: Era) -> bool {
    era == Era::Modern
}

/// Completes a call; with an error if the result cannot be sent. Without effect on a call that was cancelled.
fn complete<T: Serialize>(server_loop: &mut dyn ServerLoop, call: CallId, result: &T) {
    let now = server_loop.now();
    if server_loop.engine().complete(now, call, result).is_err() {
        let _ = server_loop.engine().fail(now, call, &RpcError::internal("the result cannot be sent"));
    }
}

/// Fails a call; with a short error if that one cannot be sent. Without effect on a call that was cancelled.
fn fail(server_loop: &mut dyn ServerLoop, call: CallId, error: &RpcError) {
    let now = server_loop.now();
    if server_loop.engine().fail(now, call, error).is_err() {
        let _ = server_loop.engine().fail(now, call, &RpcError::internal("the result cannot be sent"));
    }
}

/// A checked call of `events/subscribe`.
#[cfg_attr(not(feature = "post"), expect(dead_code, reason = "webhooks read it"))]
struct Request {
    name: String,
    subscribe: Subscribe,
    filter: Filter,
    resume: Resume,
}

/// Returns the key of a webhook subscription. The mode is `webhook`, or absent. The principal is empty if the caller has none, and
/// then the subscription is refused (EVT-070).
fn subscription_key(
    caller: &Caller,
    mode: Option<&DeliveryMode>,
    url: &CallbackUrl,
    name: &str,
    arguments: Option<&RawJson>,
) -> Result<SubscriptionKey, EventsError> {
    if let Some(other) = mode.filter(|mode| **mode != DeliveryMode::Webhook) {
        return Err(EventsError::UnsupportedMode(other.clone()));
    }
    let none = RawJson::empty_object();
    let principal = caller.principal().unwrap_or_default();
    SubscriptionKey::new(principal, &*url.0, name, arguments.unwrap_or(&none))
        .map_err(|error| EventsError::InvalidParams(alloc::format!("`params.arguments`: {error}")))
}

/// Returns `_meta` of a message on a stream: that of the event, and the id of the request (EVT-052).
fn stream_meta(own: Option<&RawJson>, id: &RequestId) -> Result<RawJson, UseError> {
    let meta = own.and_then(|own| own.parse::<NotificationMeta>().ok()).unwrap_or_default();
    Ok(RawJson::encode(&meta.subscription_id(id.clone()))?)
}

/// Returns the result that ends a stream (EVT-059).
fn final_result(id: &RequestId) -> Result<EmptyResult, UseError> {
    let meta = RawJson::encode(&ResultMeta::new().subscription_id(id.clone()))?;
    Ok(EmptyResult::new().meta(meta))
}

const METHODS: [&str; 5] = [wire::LIST, wire::POLL, wire::STREAM, wire::SUBSCRIBE, wire::UNSUBSCRIBE];
/// Time after which a message is sent again that had no room.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Messages after which the loop does other work.
const MAX_MESSAGES_PER_TURN: usize = 256;
