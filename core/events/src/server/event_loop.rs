//! The part of the events on one loop: it answers calls, and sends what is due on the streams of its clients.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::model::{EmptyResult, NotificationMeta, ResultMeta};
use mcp_proto::server::{self, Call, Caller};
use mcp_proto::{CallId, ChannelId, Instant, RawJson, RequestId, RpcError, UseError};
use mcp_runtime::server::{CommandSender, LoopExtension, ServerLoop};
use serde::Serialize;

use super::shared::{JoinedLoop, Locked, Shared, State, has_streams};
use super::webhooks::Request;
use crate::delivery::Subscribe;
use crate::source::{Filter, Lane, StreamKey, StreamMessage};
use crate::webhook::SubscriptionKey;
use crate::wire::{
    self, CallbackUrl, DeliveryMode, EventErrorObject, EventsError, Nullable, PollEventsParams, Profile,
    StreamActiveParams, StreamErrorParams, StreamEventsParams, StreamHeartbeatParams, SubscribeEventsParams,
    UnsubscribeEventsParams, WebhookDelivery, WebhookTarget,
};

const METHODS: [&str; 5] = [wire::LIST, wire::POLL, wire::STREAM, wire::SUBSCRIBE, wire::UNSUBSCRIBE];
/// Time after which a message is sent again that had no room.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Messages after which the loop does other work.
const MAX_MESSAGES_PER_TURN: usize = 256;

/// The events on one loop, with the streams of its clients.
///
/// Invariant: `calls` has the calls of `streams`.
pub(super) struct EventsLoop {
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
    /// Adds a lane for a loop, which `commands` wakes.
    pub(super) fn join(
        shared: Arc<Shared>,
        server_loop: &mut dyn ServerLoop,
        commands: CommandSender,
    ) -> Self {
        let mut state = shared.lock();
        let lane = state.source.add_lane();
        state.loops.insert(lane, JoinedLoop { commands, is_woken: false });
        let began = (server_loop.tick(), shared.clock.now().max(state.now));
        drop(state);
        Self { shared, lane, began, streams: BTreeMap::new(), calls: BTreeMap::new(), deadline: None }
    }

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
        let version = call.version();
        let is_served = self.shared.is_served(version) && (method != wire::STREAM || has_streams(version));
        let outcome = match method {
            _ if !is_served => Err(RpcError::method_not_found(method)),
            wire::LIST => call.parse().map(|params| {
                let result = self.shared.list(&params, call.caller(), version);
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
        name: &str,
        arguments: Option<RawJson>,
    ) -> Result<(Filter, Locked<'_>), EventsError> {
        let arguments = arguments.unwrap_or_else(RawJson::empty_object);
        loop {
            let epoch = self.shared.lock().epoch;
            let access = self.shared.access(name, call.caller());
            let filter = access.and_then(|access| access.accept(&arguments, call.caller()))?;
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
        let filter = self.filter(call, &params.name, params.arguments.clone());
        let (filter, mut state) = filter.map_err(|error| error.to_rpc(&profile))?;
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
        let filter = self.filter(call, &params.name, params.arguments.clone());
        let (filter, mut state) = filter.map_err(|error| error.to_rpc(&profile))?;
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
        let (filter, mut state) = match self.filter(call, &params.name, params.arguments.clone()) {
            Ok(accepted) => accepted,
            Err(error) => {
                self.shared.change(|state, _| state.end_refused(&key, &error));
                return Err(wrong(error));
            }
        };
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
            scopes: scopes(call.caller()),
        };
        let request = Request { name: params.name.into_owned(), subscribe, filter, resume };
        let answer = webhooks.subscribe(source, (self.lane, call.id()), request).map_err(wrong)?;
        // A grant is stored before it is answered (EVT-084).
        state.keep_changes();
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
        let waits = state.forget_stored(&key);
        let ended = match &mut state.webhooks {
            Some(webhooks) => webhooks.unsubscribe(&key, &profile),
            None => Err(EventsError::SubscriptionNotFound),
        };
        state.keep_changes();
        drop(state);
        // One that was made anew while the stored one waited ends with it.
        if !waits {
            ended.map_err(wrong)?;
        }
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

/// Returns the scopes of a caller, separated by spaces.
fn scopes(caller: &Caller) -> String {
    let all: Vec<&str> =
        caller.authorization().map(|party| party.scopes().iter().collect()).unwrap_or_default();
    all.join(" ")
}

/// Returns the key of a webhook subscription. The mode is `webhook`, or absent. The principal is empty if the caller has none,
/// and then the subscription is refused (EVT-070).
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
