//! The server side of events: the source and the deliveries of a process, between the calls of its clients and its store.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt;
use core::time::Duration;

use mcp_events::delivery::{
    self, Deliveries, Delivery, Grant, PublishError, Subscribe, Subscribed, SubscriptionHandle, Ticket,
};
use mcp_events::source::{Filter, Lane, LogLimits, Resume, Source, SourceConfig, StreamKey, StreamMessage};
use mcp_events::store::{Record, StoredSubscription};
use mcp_events::webhook::SubscriptionKey;
use mcp_events::wire::{
    self, DeliveryMode, EventOccurrence, EventType, EventsCapability, EventsError, ListEventsParams,
    Nullable, PollEventsParams, Profile, StreamActiveParams, StreamErrorParams, StreamEventsParams,
    StreamHeartbeatParams, SubscribeEventsParams, SubscribeEventsResult, UnsubscribeEventsParams,
};
use mcp_proto::model::{EmptyResult, NotificationMeta, ResultMeta};
use mcp_proto::server::{Call, CustomMethod, Engine};
use mcp_proto::{CallId, ChannelId, Entropy, Era, Instant, RawJson, RequestId, RpcError, UseError, server};
use serde::Serialize;

use super::super::inputs::ANCHOR;
use crate::events::{KEPT, LIVE, LOG_EVENTS};

pub(super) const METHODS: [&str; 5] =
    [wire::LIST, wire::POLL, wire::STREAM, wire::SUBSCRIBE, wire::UNSUBSCRIBE];

/// Attempts of a delivery.
const ATTEMPTS: u32 = 4;

/// Time after which a message is sent again that had no room.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Longer than any world.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

/// Returns the profile of every client. Those with a handshake have polls and webhooks.
fn profile() -> Profile {
    let mut profile = Profile::SEP;
    profile.is_legacy_allowed = true;
    profile
}

/// Lets a server have events.
pub(super) fn configure(config: server::Config) -> server::Config {
    let capabilities = config.effective_capabilities().clone();
    let config = config.capabilities(profile().declare(capabilities, EventsCapability::new()));
    METHODS.into_iter().fold(config, |config, name| {
        let method = CustomMethod::new(name).of_extension(wire::EXTENSION);
        config.custom_method(if name == wire::STREAM { method.long_lived() } else { method })
    })
}

/// The clients that an event is for: those of a principal who follow a topic of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Audience {
    pub(super) name: String,
    pub(super) principal: String,
    pub(super) topic: u64,
}

impl Audience {
    /// Reads the topic from the arguments of a subscription.
    fn read(principal: &str, name: &str, arguments: Option<&RawJson>) -> Result<Self, RpcError> {
        let topic = arguments.and_then(|all| all.member("topic")?.parse().ok());
        let topic = topic.ok_or_else(|| RpcError::invalid_params("`arguments.topic` is no number"))?;
        Ok(Self { name: name.to_owned(), principal: principal.to_owned(), topic })
    }

    /// Returns the arguments of a subscription.
    pub(super) fn arguments(&self) -> RawJson {
        RawJson::new(format!(r#"{{"topic":{}}}"#, self.topic)).expect("an object")
    }

    /// Returns the key of a subscription that is delivered to a URL.
    fn subscription_key(&self, url: &str) -> Result<SubscriptionKey, RpcError> {
        SubscriptionKey::new(&*self.principal, url, &*self.name, &self.arguments())
            .map_err(|error| RpcError::invalid_params(error.to_string()))
    }

    /// Returns an event for this audience.
    pub(super) fn event(&self, id: &str) -> EventOccurrence {
        let data = format!(r#"{{"to":"{}","topic":{}}}"#, self.principal, self.topic);
        EventOccurrence::new(id, &*self.name, "2026-08-01T00:00:00Z", RawJson::new(data).expect("an object"))
    }

    fn has(&self, event: &EventOccurrence) -> bool {
        let to = event.data.member("to").and_then(|to| to.string());
        let topic = event.data.member("topic").and_then(|topic| topic.parse().ok());
        event.name == self.name && to.as_ref() == Some(&self.principal) && topic == Some(self.topic)
    }

    fn filter(self) -> Filter {
        Box::new(move |event| self.has(event))
    }
}

impl fmt::Display for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} about {}", self.name, self.principal, self.topic)
    }
}

/// Returns the types of every server. Only one of them has positions.
fn types() -> [(EventType, LogLimits); 2] {
    let object = || RawJson::new(r#"{"type":"object"}"#).expect("an object");
    let described = |name, modes: &[DeliveryMode]| {
        EventType::new(name, modes.to_vec(), object()).payload_schema(object())
    };
    let mut kept = LogLimits::default();
    (kept.events, kept.age) = (LOG_EVENTS, FOR_EVER);
    let mut live = LogLimits::default();
    live.replays = false;
    let modes = [DeliveryMode::Poll, DeliveryMode::Push, DeliveryMode::Webhook];
    [(described(KEPT, &modes), kept), (described(LIVE, &[DeliveryMode::Push]), live)]
}

fn source_config() -> SourceConfig {
    let mut config = SourceConfig::default();
    config.next_poll = Duration::from_secs(2);
    // The result fits the frames of a tiny device.
    config.events_per_poll = 3;
    config
}

fn delivery_config() -> delivery::Config {
    let mut config = delivery::Config::default();
    config.attempts = ATTEMPTS;
    config.attempt_timeout = Duration::from_secs(5);
    config.backoff = [1, 2, 4].map(Duration::from_secs).into();
    // Each message has all its attempts, also if the clock jumps.
    config.retry_window = FOR_EVER;
    config.give_up_after = FOR_EVER;
    (config.challenges_per_principal, config.challenges_per_host) = (10_000, 10_000);
    config.failed_challenges = 10_000;
    config
}

/// The events of a server process.
#[derive(Debug)]
pub(super) struct EventServer {
    /// Tells the process from those before it.
    pub(super) life: u64,
    source: Source,
    lane: Lane,
    deliveries: Deliveries,
    subscribers: BTreeMap<SubscriptionHandle, Audience>,
    /// Calls that wait for a challenge.
    waiting: BTreeMap<Ticket, Waiting>,
    streams: BTreeMap<StreamKey, OpenStream>,
    /// Calls that were cancelled before they were looked at, and whose cancellation is the next event.
    gone: BTreeSet<CallId>,
    /// Attempts of each message of a subscription.
    attempts: BTreeMap<(String, String), u32>,
}

#[derive(Debug)]
struct Waiting {
    call: CallId,
    begin: Begin,
}

/// A subscription that is not granted yet, and where its events begin.
#[derive(Debug)]
struct Begin {
    audience: Audience,
    resume: Resume,
}

#[derive(Debug)]
struct OpenStream {
    call: CallId,
    channel: ChannelId,
    id: RequestId,
}

fn to_rpc(error: &EventsError) -> RpcError {
    error.to_rpc(&profile())
}

impl EventServer {
    /// Starts a process, which goes on with what its store has.
    pub(super) fn start(now: Instant, life: u64, store: &mut Vec<Record>) -> Self {
        // A crash may lose the latest progress.
        while store.last().is_some_and(|record| !record.is_promise()) {
            store.pop();
        }
        let mut source = Source::new(source_config(), Entropy::new([1; 32], life));
        let stored = source.restore(store.iter().cloned().collect());
        for (described, limits) in types() {
            store.extend(source.add(described, limits));
        }
        let mut deliveries = Deliveries::new(delivery_config(), Entropy::new([2; 32], life), ANCHOR);
        deliveries.track_changes();
        let lane = source.add_lane();
        let mut server = Self {
            life,
            source,
            lane,
            deliveries,
            subscribers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            streams: BTreeMap::new(),
            gone: BTreeSet::new(),
            attempts: BTreeMap::new(),
        };
        for (id, stored) in stored {
            if !server.restore(now, &stored) {
                store.push(Record::SubscriptionEnded { id });
            }
        }
        server.keep(store);
        server
    }

    /// Lets a stored subscription go on; returns false if it cannot.
    fn restore(&mut self, now: Instant, stored: &StoredSubscription) -> bool {
        let Some(handle) = self.deliveries.restore(now, stored) else { return false };
        if stored.terminated.is_some() {
            return true;
        }
        let resume = self.source.resume_stored(&stored.name, stored.progress.cursor.as_deref());
        let audience = Audience::read(&stored.principal, &stored.name, Some(&stored.arguments));
        match (resume, audience) {
            (Ok(resume), Ok(audience)) => {
                if let Some(cursor) = resume.cursor.as_deref().filter(|_| resume.truncated) {
                    self.deliveries.report_gap(now, handle, cursor);
                }
                self.fill(now, handle, Begin { audience, resume });
            }
            _ => self.deliveries.terminate(now, handle, &EventsError::EventNotFound),
        }
        true
    }

    /// Stores what has changed in the deliveries.
    fn keep(&mut self, store: &mut Vec<Record>) {
        store.extend(core::iter::from_fn(|| self.deliveries.poll_change()));
    }

    /// Publishes an event.
    pub(super) fn publish(&mut self, now: Instant, event: &EventOccurrence, store: &mut Vec<Record>) {
        store.extend(self.source.record(now, event));
        self.source.publish(now, event.clone()).expect("a known type");
        let positioned = event.clone().cursor(Nullable(self.source.cursor(&event.name)));
        for (handle, _) in self.subscribers.iter().filter(|(_, audience)| audience.has(event)) {
            deliver(&mut self.deliveries, now, *handle, &positioned);
        }
        if let Some(cursor) = self.source.checkpoint(&event.name) {
            for (handle, _) in self.subscribers.iter().filter(|(_, audience)| audience.name == event.name) {
                self.deliveries.pass(*handle, &cursor);
            }
        }
        self.keep(store);
    }

    /// Answers a call of the extension, now or later.
    pub(super) fn serve(
        &mut self,
        now: Instant,
        engine: &mut Engine,
        principal: &str,
        call: &Call,
        store: &mut Vec<Record>,
    ) {
        let Some(id) = engine.request_id(call.id()).cloned() else {
            self.gone.insert(call.id());
            return;
        };
        let method = call.method();
        let has_streams = call.version().era() == Era::Modern;
        let outcome = match method {
            wire::LIST => self.list(now, engine, call, has_streams),
            wire::POLL => self.poll(now, engine, principal, call),
            wire::STREAM if has_streams => self.open(now, id, principal, call),
            wire::SUBSCRIBE => self.subscribe(now, engine, principal, call, store),
            wire::UNSUBSCRIBE => self.unsubscribe(now, engine, principal, call, store),
            _ => Err(RpcError::method_not_found(method)),
        };
        if let Err(error) = outcome {
            fail(now, engine, call.id(), &error);
        }
    }

    /// Forgets a call whose client has gone; returns whether it was open.
    pub(super) fn cancel(&mut self, call: CallId) -> bool {
        let stream = self.streams.iter().find(|(_, stream)| stream.call == call).map(|(key, _)| *key);
        if let Some(key) = stream {
            self.streams.remove(&key);
            self.source.close(key);
            return true;
        }
        let ticket = self.waiting.iter().find(|(_, waiting)| waiting.call == call).map(|(ticket, _)| *ticket);
        if let Some(ticket) = ticket {
            self.waiting.remove(&ticket);
            self.deliveries.cancel(ticket);
        }
        ticket.is_some() || self.gone.remove(&call)
    }

    /// Sends what is due on streams, and answers calls that have waited; returns whether there was something.
    pub(super) fn drive(&mut self, now: Instant, engine: &mut Engine, store: &mut Vec<Record>) -> bool {
        let mut moved = engine.is_shutting_down() && self.end_streams(now, engine);
        self.deliveries.handle_timeout(now);
        moved |= self.take_news(now, engine, store);
        self.source.handle_timeout(now, self.lane);
        loop {
            match self.source.poll_message(now, self.lane) {
                Some((key, message)) => {
                    moved = true;
                    self.send(now, engine, key, message);
                }
                None if self.source.is_ready(self.lane) => {}
                None => break,
            }
        }
        self.keep(store);
        moved
    }

    /// Returns the next delivery to make, and whether it is the last attempt of its message.
    pub(super) fn poll_delivery(&mut self, now: Instant) -> Option<(Delivery, bool)> {
        let delivery = self.deliveries.poll_transmit(now)?;
        let field = |name| {
            let found = delivery.headers.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let message = (field(mcp_events::webhook::SUBSCRIPTION_ID), field(mcp_events::webhook::WEBHOOK_ID));
        let attempts = self.attempts.entry(message).or_default();
        *attempts += 1;
        let is_last = *attempts >= ATTEMPTS;
        Some((delivery, is_last))
    }

    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        id: delivery::DeliveryId,
        outcome: &delivery::Outcome<'_>,
    ) {
        self.deliveries.handle_answer(now, id, outcome);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.source.poll_timeout(self.lane).into_iter().chain(self.deliveries.poll_timeout()).min()
    }

    // Calls.

    fn list(
        &self,
        now: Instant,
        engine: &mut Engine,
        call: &Call,
        has_streams: bool,
    ) -> Result<(), RpcError> {
        let params: ListEventsParams = call.parse()?;
        let has = |mode: &DeliveryMode| has_streams || *mode != DeliveryMode::Push;
        let is_visible = |described: &EventType| described.delivery.iter().any(has);
        let mut page = self.source.list(params.cursor.as_deref(), is_visible);
        page.events.iter_mut().for_each(|described| described.delivery.retain(has));
        complete(now, engine, call.id(), &page);
        Ok(())
    }

    fn poll(
        &mut self,
        now: Instant,
        engine: &mut Engine,
        principal: &str,
        call: &Call,
    ) -> Result<(), RpcError> {
        let params: PollEventsParams<'_> = call.parse()?;
        let audience = Audience::read(principal, &params.name, params.arguments.as_ref())?;
        let result =
            self.source.poll(now, &params, |event| audience.has(event)).map_err(|error| to_rpc(&error))?;
        complete(now, engine, call.id(), &result);
        Ok(())
    }

    fn open(&mut self, now: Instant, id: RequestId, principal: &str, call: &Call) -> Result<(), RpcError> {
        let params: StreamEventsParams<'_> = call.parse()?;
        let audience = Audience::read(principal, &params.name, params.arguments.as_ref())?;
        let key = self.source.open(now, self.lane, &params, Some(principal), audience.filter());
        let stream = OpenStream { call: call.id(), channel: call.channel(), id };
        self.streams.insert(key.map_err(|error| to_rpc(&error))?, stream);
        Ok(())
    }

    fn subscribe(
        &mut self,
        now: Instant,
        engine: &mut Engine,
        principal: &str,
        call: &Call,
        store: &mut Vec<Record>,
    ) -> Result<(), RpcError> {
        let params: SubscribeEventsParams<'_> = call.parse()?;
        let audience = Audience::read(principal, &params.name, params.arguments.as_ref())?;
        let key = audience.subscription_key(&params.delivery.url.0)?;
        let cursor = params.cursor.as_ref().map(AsRef::as_ref);
        let resume = self
            .source
            .resume(now, &params.name, cursor, params.max_age_ms)
            .map_err(|error| to_rpc(&error))?;
        let live = self.deliveries.find(&key).filter(|handle| self.subscribers.contains_key(handle));
        if let (Some(handle), Some(end)) = (live, self.source.cursor(&params.name)) {
            self.deliveries.pass(handle, &end);
        }
        let subscribe = Subscribe {
            key,
            secret: params.delivery.secret,
            ttl: params.ttl_ms,
            cursor: resume.cursor.clone(),
            truncated: resume.truncated,
            profile: profile(),
            scopes: String::new(),
        };
        let begin = Begin { audience, resume };
        match self.deliveries.subscribe(now, subscribe).map_err(|error| to_rpc(&error))? {
            Subscribed::Granted(grant) => {
                let result = self.begin(now, &grant, begin);
                self.keep(store);
                complete(now, engine, call.id(), &result);
            }
            Subscribed::Verifying(ticket) => {
                self.waiting.insert(ticket, Waiting { call: call.id(), begin });
            }
            _ => {}
        }
        Ok(())
    }

    fn unsubscribe(
        &mut self,
        now: Instant,
        engine: &mut Engine,
        principal: &str,
        call: &Call,
        store: &mut Vec<Record>,
    ) -> Result<(), RpcError> {
        let params: UnsubscribeEventsParams<'_> = call.parse()?;
        let audience = Audience::read(principal, &params.name, params.arguments.as_ref())?;
        let key = audience.subscription_key(&params.delivery.url.0)?;
        if let Some(handle) = self.deliveries.find(&key) {
            self.subscribers.remove(&handle);
        }
        self.deliveries.unsubscribe(&key, &profile()).map_err(|error| to_rpc(&error))?;
        self.keep(store);
        complete(now, engine, call.id(), &EmptyResult::new());
        Ok(())
    }

    // Webhooks.

    /// Begins a granted subscription; a refresh goes on where it is.
    fn begin(&mut self, now: Instant, grant: &Grant, begin: Begin) -> SubscribeEventsResult {
        if !self.subscribers.contains_key(&grant.subscription) {
            self.fill(now, grant.subscription, begin);
        }
        grant.to_result()
    }

    /// Delivers what a subscription has missed since its start, and then what comes.
    fn fill(&mut self, now: Instant, handle: SubscriptionHandle, begin: Begin) {
        let Begin { audience, resume } = begin;
        let replay = self.source.replay(&audience.name, &resume, |event| audience.has(event));
        if let Some(cursor) = &replay.gap {
            self.deliveries.report_gap(now, handle, cursor);
        }
        for event in &replay.events {
            deliver(&mut self.deliveries, now, handle, event);
        }
        self.subscribers.insert(handle, audience);
    }

    fn take_news(&mut self, now: Instant, engine: &mut Engine, store: &mut Vec<Record>) -> bool {
        let mut moved = false;
        while let Some(news) = self.deliveries.poll_event() {
            moved = true;
            match news {
                delivery::Event::Verified { ticket, grant } => match self.waiting.remove(&ticket) {
                    Some(Waiting { call, begin }) => {
                        let result = self.begin(now, &grant, begin);
                        self.keep(store);
                        complete(now, engine, call, &result);
                    }
                    // The client that asked for it has gone, and no other call uses it.
                    None if !self.subscribers.contains_key(&grant.subscription) => {
                        if let Some(key) = self.deliveries.key(grant.subscription).cloned() {
                            let _ = self.deliveries.unsubscribe(&key, &profile());
                        }
                    }
                    None => {}
                },
                delivery::Event::Refused { ticket, error } => {
                    if let Some(Waiting { call, .. }) = self.waiting.remove(&ticket) {
                        fail(now, engine, call, &to_rpc(&error));
                    }
                }
                delivery::Event::Ended { subscription } | delivery::Event::GivenUp { subscription } => {
                    self.subscribers.remove(&subscription);
                }
                _ => {}
            }
        }
        moved
    }

    // Streams.

    fn end_streams(&mut self, now: Instant, engine: &mut Engine) -> bool {
        let streams = core::mem::take(&mut self.streams);
        for (key, stream) in &streams {
            self.source.close(*key);
            let _ = final_result(&stream.id).and_then(|result| engine.complete(now, stream.call, &result));
        }
        !streams.is_empty()
    }

    /// Sends a message on its stream, or holds it back if there is no room.
    fn send(&mut self, now: Instant, engine: &mut Engine, key: StreamKey, message: StreamMessage) {
        match self.write(now, engine, key, message) {
            Ok(()) => {}
            Err(UseError::Full(_)) => self.source.hold(key, now + RETRY_INTERVAL),
            Err(_) => {
                self.source.close(key);
                if let Some(stream) = self.streams.remove(&key) {
                    fail(now, engine, stream.call, &RpcError::internal("the stream cannot go on"));
                }
            }
        }
    }

    fn write(
        &mut self,
        now: Instant,
        engine: &mut Engine,
        key: StreamKey,
        message: StreamMessage,
    ) -> Result<(), UseError> {
        let OpenStream { call, channel, id } = self.streams.get(&key).ok_or(UseError::Stale)?;
        engine.request_id(*call).ok_or(UseError::Stale)?;
        let meta = RawJson::encode(&NotificationMeta::default().subscription_id(id.clone()))?;
        match message {
            StreamMessage::Active { cursor, truncated } => {
                let params = StreamActiveParams::new().cursor(Nullable(cursor)).truncated(truncated);
                engine.notify(now, *channel, wire::ACTIVE, Some(&params.meta(meta)))
            }
            StreamMessage::Event(event) => engine.notify(now, *channel, wire::EVENT, Some(&event.meta(meta))),
            StreamMessage::Heartbeat { cursor } => {
                let params = StreamHeartbeatParams::new().cursor(Nullable(cursor)).meta(meta);
                engine.notify(now, *channel, wire::HEARTBEAT, Some(&params))
            }
            StreamMessage::Error(error) => {
                let params = StreamErrorParams::new(error.to_object(&profile())).meta(meta);
                engine.notify(now, *channel, wire::ERROR, Some(&params))
            }
            // `Terminated`: no type is removed here, and no client loses access.
            _ => Err(UseError::Stale),
        }
    }
}

/// Puts an event into the queue of a subscription. What cannot be a delivery becomes a gap.
fn deliver(deliveries: &mut Deliveries, now: Instant, handle: SubscriptionHandle, event: &EventOccurrence) {
    match deliveries.publish(now, handle, event) {
        Ok(()) | Err(PublishError::Stale) => {}
        Err(_) => {
            if let Some(cursor) = Nullable::text(event.cursor.as_ref()) {
                deliveries.report_gap(now, handle, cursor);
            }
        }
    }
}

/// Completes a call; with an error if the result cannot be sent. Without effect on a call that was cancelled.
fn complete<T: Serialize>(now: Instant, engine: &mut Engine, call: CallId, result: &T) {
    if engine.complete(now, call, result).is_err() {
        fail(now, engine, call, &RpcError::internal("the result cannot be sent"));
    }
}

fn fail(now: Instant, engine: &mut Engine, call: CallId, error: &RpcError) {
    let _ = engine.fail(now, call, error);
}

fn final_result(id: &RequestId) -> Result<EmptyResult, UseError> {
    Ok(EmptyResult::new().meta(RawJson::encode(&ResultMeta::new().subscription_id(id.clone()))?))
}
