//! Events of servers, and clients that follow them: by polls, by streams, and by webhooks.
//!
//! Each server process has a source of events and delivers to webhooks; its store outlives it, unless that is lost. Requests and
//! streams take the links of the world. Deliveries have a way of their own, on which they are late, lost, twice, and overtake each
//! other. One receiver serves all clients.

mod deliveries;
mod server;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::time::Duration;

use mcp_events::delivery::Delivery;
use mcp_events::follow::{
    FollowAction, FollowConfig, FollowError, FollowEvent, Follower, GapReason, Subscription,
};
use mcp_events::receiver::{self, Receiver};
use mcp_events::store::Record;
use mcp_events::subscription::{
    SubscriptionAction, SubscriptionConfig, SubscriptionEvent, WebhookSubscription,
};
use mcp_events::wire::{self, EventType, ListEventsParams, ListEventsResult};
use mcp_proto::rpc::code;
use mcp_proto::server::Call;
use mcp_proto::{
    CallError, CallId, CallKey, CallOptions, Entropy, Era, Instant, RawJson, client, server as mcp_server,
};
use serde::Serialize;

use super::inputs::ANCHOR;
use super::{Application, CALL_TIMEOUT, Lane, Phase, Pipe, Plan, What, World, principal};
use crate::events::{KEPT, LIVE, STORE_LOST};
use deliveries::{Fate, Post};
use server::{Audience, EventServer, METHODS};

/// Followers of one client.
const MAX_FOLLOWERS: usize = 3;

/// Time after which a list that was lost is asked for again.
const LIST_PAUSE: Duration = Duration::from_secs(1);

/// Time in which followers begin once there are no faults.
const BEGIN_TIME: Duration = Duration::from_secs(300);

/// Time in which followers get what is missing once there are no faults.
const CATCH_UP_TIME: Duration = Duration::from_secs(1_800);

/// Deliveries that a stranger has seen.
const MAX_SEEN: usize = 16;

/// Lets servers have events if the plan has.
pub(super) fn configure(plan: &Plan, config: mcp_server::Config) -> mcp_server::Config {
    if plan.events > 0 { server::configure(config) } else { config }
}

fn follow_config() -> FollowConfig {
    let mut config = FollowConfig::default();
    config.longest_poll = Duration::from_secs(10);
    config.longest_backoff = Duration::from_secs(8);
    config
}

fn subscription_config() -> SubscriptionConfig {
    let mut config = SubscriptionConfig::default();
    config.time_to_live = Some(Duration::from_secs(60));
    config.longest_backoff = Duration::from_secs(8);
    config
}

/// A client that follows the events of an audience.
#[derive(Debug)]
struct Following {
    /// Name in the log.
    name: String,
    /// Index of its connection, and number of its client in the log.
    n: usize,
    lane: usize,
    audience: Audience,
    way: Way,
    machine: Machine,
    call: Option<(CallKey, Purpose)>,
    /// Its position, as its application has stored it.
    cursor: Option<String>,
    /// Whether its position is known.
    is_positioned: bool,
    /// Whether it is to end.
    is_leaving: bool,
    has_ended: bool,
    /// Events that were published since its position is known, and that it neither got nor was told of.
    missing: BTreeSet<String>,
}

/// How a client follows events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Polls,
    Streams,
    Webhook,
}

#[derive(Debug)]
enum Machine {
    /// The list of types is asked for then.
    Listing(Instant),
    Follower(Box<Follower>),
    Webhook(Box<WebhookSubscription>),
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    List,
    Poll,
    Stream,
    Subscribe,
    Unsubscribe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The world acts.
    Acting,
    /// Each follower that can begin does.
    Beginning(Instant),
    /// Each follower gets what is missing.
    CatchingUp(Instant),
    Over,
}

/// The events of a world.
#[derive(Debug)]
pub(super) struct Events {
    /// Those of each server: that of a client on a pipe, or the one over HTTP.
    servers: BTreeMap<usize, EventServer>,
    stores: BTreeMap<usize, Vec<Record>>,
    followings: Vec<Following>,
    /// Calls that were cancelled, and whose end is an event that was not polled yet.
    cancelled: Vec<(usize, CallKey)>,
    receiver: Receiver,
    posts: Vec<Post>,
    seen: VecDeque<Delivery>,
    /// Number of the last event, follower, process, or other thing that needs one.
    last_number: u64,
    stage: Stage,
}

impl Events {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            servers: BTreeMap::new(),
            stores: BTreeMap::new(),
            followings: Vec::new(),
            cancelled: Vec::new(),
            receiver: Receiver::new(receiver::Limits::default()),
            posts: Vec::new(),
            seen: VecDeque::new(),
            last_number: 0,
            stage: if plan.events > 0 { Stage::Acting } else { Stage::Over },
        }
    }

    const fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

/// Returns what a failed call means for a follower.
fn passing(error: CallError) -> FollowError {
    match error {
        CallError::Rpc(error) => FollowError::Server(error),
        error if error.is_access_refused() => FollowError::Refused(error.to_string()),
        error => match error.retry_after() {
            Some(retry_after) => FollowError::Busy { reason: error.to_string(), retry_after },
            None => FollowError::Lost(error.to_string()),
        },
    }
}

/// Returns the URL at which the receiver takes what is for a client.
fn callback(lane: usize) -> String {
    format!("https://hooks.example/{lane}")
}

/// Returns the client of the target of a callback URL.
fn lane_of_target(target: &str) -> usize {
    target.rsplit('/').next().and_then(|lane| lane.parse().ok()).unwrap_or_default()
}

/// # Processes
impl<A: Application> World<A> {
    /// Returns the index of the server of a connection.
    const fn event_index(&self, n: usize) -> usize {
        if self.network.is_some() { 0 } else { n }
    }

    /// Starts the events of a server process.
    pub(super) fn start_event_server(&mut self, index: usize) {
        if self.plan.events > 0 {
            let life = self.events.number();
            let store = self.events.stores.entry(index).or_default();
            let server = EventServer::start(self.now, life, store);
            self.events.servers.insert(index, server);
        }
    }

    /// Lets the followers of a client go on with its next connection, and starts the events of the server if it is a new one, too.
    pub(super) fn connect_events(&mut self, lane: usize) {
        let n = lane % usize::try_from(self.plan.clients.max(1)).unwrap_or(1);
        if self.network.is_some() {
            // It is another client.
            return self.lose_followings(n);
        }
        self.start_event_server(n);
        self.events.cancelled.retain(|(of, _)| *of != n);
        let (now, Events { followings, .. }) = (self.now, &mut self.events);
        for following in followings.iter_mut().filter(|following| following.n == n) {
            if following.call.take().is_some() {
                match &mut following.machine {
                    Machine::Listing(_) => {}
                    Machine::Follower(follower) => {
                        follower.handle_stream_end(now, Err(FollowError::Lost("another connection".into())));
                        follower.handle_abandoned(now);
                    }
                    Machine::Webhook(subscription) => subscription.handle_abandoned(now),
                }
            }
        }
    }

    /// Ends the followers of a client that has died. On a pipe it has stored its positions, and goes on from there when it is
    /// started again; what it knew of its webhooks is lost. Over HTTP it will be another client.
    pub(super) fn lose_followings(&mut self, n: usize) {
        self.events.cancelled.retain(|(of, _)| *of != n);
        let is_pipe = self.network.is_none();
        let mut ended = Vec::new();
        self.events.followings.retain_mut(|following| {
            if following.n != n {
                return true;
            }
            following.call = None;
            match &following.machine {
                Machine::Webhook(subscription) => self.events.receiver.remove(subscription.registration()),
                // Without a position nobody knows that there is something to go on with.
                _ if is_pipe && (following.cursor.is_some() || !following.is_positioned) => {
                    following.machine = Machine::Listing(self.now);
                    return true;
                }
                _ => {}
            }
            if !following.is_leaving {
                ended.push((Lane::Client(following.lane), following.name.clone()));
            }
            false
        });
        for (lane, follower) in ended {
            self.record(lane, What::Unfollowed { follower, error: None });
        }
    }

    /// Forgets the events of a server whose process has ended; returns whether it runs.
    fn has_event_server(&mut self, index: usize) -> bool {
        let is_alive = match &self.network {
            Some(network) => network.server.is_some(),
            None => self.connections[index].server.as_ref().is_some_and(|server| !server.is_drained()),
        };
        if !is_alive {
            self.events.servers.remove(&index);
        }
        self.events.servers.contains_key(&index)
    }

    fn is_connected(&self, n: usize) -> bool {
        self.connections[n].client.as_ref().is_some_and(|client| !client.is_drained())
    }
}

/// # Turns
impl<A: Application> World<A> {
    /// Does what is due for the events of a client and its server; returns whether there was something.
    pub(super) fn poll_events(&mut self, n: usize) -> bool {
        if self.events.stage == Stage::Over {
            return false;
        }
        let moved = self.drive_event_server(self.event_index(n)) | self.drive_followings(n);
        moved | (self.phase != Phase::Acting && self.deliver(0, Fate::Arrives))
    }

    /// Returns when something is due next.
    pub(super) fn next_of_events(&self) -> Option<Instant> {
        if self.events.stage == Stage::Over {
            return None;
        }
        let servers = self.events.servers.values().filter_map(EventServer::poll_timeout);
        let due = |following: &Following| match &following.machine {
            Machine::Listing(until) => Some(*until),
            Machine::Follower(follower) => follower.poll_timeout(),
            Machine::Webhook(subscription) => subscription.poll_timeout(),
        };
        let followings = self.events.followings.iter().filter(|following| self.is_connected(following.n));
        // What is due now waits for something else.
        servers.chain(followings.filter_map(due)).filter(|at| *at > self.now).min()
    }

    fn drive_event_server(&mut self, index: usize) -> bool {
        if !self.has_event_server(index) {
            return false;
        }
        let mut moved =
            self.with_event_server(index, |server, now, engine, store| server.drive(now, engine, store));
        let now = self.now;
        while let Some(server) = self.events.servers.get_mut(&index) {
            let life = server.life;
            let Some((delivery, is_last)) = server.poll_delivery(now) else { break };
            let target = delivery.url.target().to_owned();
            let head = delivery.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
            let body = String::from_utf8_lossy(&delivery.body).into_owned();
            if is_last {
                self.give_up(&body);
            }
            let lane = Lane::Server(lane_of_target(&target));
            self.record(lane, What::Posted { target, head, body, is_last });
            self.events.posts.push(Post { index, life, delivery, is_over: false });
            moved = true;
        }
        moved
    }

    /// Calls `f` with the events of a server, its engine and its store. Without one it returns the default.
    fn with_event_server<T: Default>(
        &mut self,
        index: usize,
        f: impl FnOnce(&mut EventServer, Instant, &mut mcp_server::Engine, &mut Vec<Record>) -> T,
    ) -> T {
        let now = self.now;
        let Some(mut server) = self.events.servers.remove(&index) else { return T::default() };
        let mut store = self.events.stores.remove(&index).unwrap_or_default();
        let result = self.server_engine(index).map(|engine| f(&mut server, now, engine, &mut store));
        self.events.stores.insert(index, store);
        self.events.servers.insert(index, server);
        result.unwrap_or_default()
    }

    fn drive_followings(&mut self, n: usize) -> bool {
        let mut moved = false;
        for at in 0..self.events.followings.len() {
            if self.events.followings[at].n == n {
                moved |= self.with_following(at, |world, following| world.drive_following(n, following));
            }
        }
        self.events.followings.retain(|following| !following.has_ended);
        moved
    }

    /// Calls `f` with a follower, whose place is taken by another one meanwhile.
    fn with_following<T>(&mut self, at: usize, f: impl FnOnce(&mut Self, &mut Following) -> T) -> T {
        let mut following = self.events.followings.swap_remove(at);
        let result = f(self, &mut following);
        self.events.followings.push(following);
        let last = self.events.followings.len() - 1;
        self.events.followings.swap(at, last);
        result
    }
}

/// # Requests
impl<A: Application> World<A> {
    /// Takes an event of a client that is about events; returns any other.
    pub(super) fn take_client_event(&mut self, n: usize, event: client::Event) -> Option<client::Event> {
        let call = match &event {
            client::Event::Done { call, .. } | client::Event::CallNotification { call, .. } => *call,
            _ => return Some(event),
        };
        if let Some(at) = self.events.cancelled.iter().position(|known| *known == (n, call)) {
            if let client::Event::Done { .. } = event {
                self.events.cancelled.remove(at);
            }
            return None;
        }
        let is_it = |following: &Following| {
            following.n == n && following.call.is_some_and(|(known, _)| known == call)
        };
        let Some(at) = self.events.followings.iter().position(is_it) else { return Some(event) };
        self.with_following(at, |world, following| {
            match event {
                client::Event::Done { outcome, .. } => world.end_call(n, following, outcome),
                client::Event::CallNotification { notification, .. } => {
                    if &*notification.method == wire::ACTIVE {
                        world.begin(following);
                    }
                    if let Machine::Follower(follower) = &mut following.machine {
                        let params = notification.params.as_ref();
                        follower.handle_notification(world.now, &notification.method, params);
                    }
                }
                _ => {}
            }
            world.take_output(following);
        });
        None
    }

    /// Takes an event of a server that is about events; returns any other.
    pub(super) fn take_server_event(
        &mut self,
        n: usize,
        event: mcp_server::Event,
    ) -> Option<mcp_server::Event> {
        let index = self.event_index(n);
        let is_taken = match &event {
            mcp_server::Event::Call(call) if self.plan.events > 0 && METHODS.contains(&call.method()) => {
                self.serve_events(index, call);
                true
            }
            mcp_server::Event::Cancelled { call, .. } => self.cancel_events(index, *call),
            _ => false,
        };
        (!is_taken).then_some(event)
    }

    fn serve_events(&mut self, index: usize, call: &Call) {
        let own = principal(index);
        let principal = call.caller().principal().unwrap_or(&own);
        self.with_event_server(index, |server, now, engine, store| {
            server.serve(now, engine, principal, call, store);
        });
    }

    fn cancel_events(&mut self, index: usize, call: CallId) -> bool {
        self.events.servers.get_mut(&index).is_some_and(|server| server.cancel(call))
    }

    /// Does what a follower says.
    fn drive_following(&mut self, n: usize, following: &mut Following) -> bool {
        let now = self.now;
        let mut moved = false;
        while self.is_connected(n) && !following.has_ended {
            match &mut following.machine {
                Machine::Listing(until) if *until <= now && following.call.is_none() => {
                    if self.request(n, following, Purpose::List, &ListEventsParams::new()).is_err() {
                        following.machine = Machine::Listing(now + LIST_PAUSE);
                    }
                }
                Machine::Listing(_) => break,
                Machine::Follower(follower) => {
                    follower.handle_timeout(now);
                    let Some(action) = follower.poll_action(now) else { break };
                    self.follow_events(n, following, action);
                }
                Machine::Webhook(subscription) => {
                    let action = subscription.poll_action(now, &mut self.events.receiver);
                    let Some(action) = action else { break };
                    self.subscribe_to_events(n, following, action);
                }
            }
            moved = true;
            self.take_output(following);
        }
        self.take_output(following);
        moved
    }

    fn follow_events(&mut self, n: usize, following: &mut Following, action: FollowAction) {
        let sent = match &action {
            FollowAction::Poll(params) => self.request(n, following, Purpose::Poll, params),
            FollowAction::Open(params) => self.request(n, following, Purpose::Stream, params),
            FollowAction::List => self.request(n, following, Purpose::List, &ListEventsParams::new()),
            _ => {
                self.cancel_following(n, following);
                Ok(())
            }
        };
        let (now, Machine::Follower(follower)) = (self.now, &mut following.machine) else { return };
        match (action, sent) {
            (_, Ok(())) => {}
            (FollowAction::Poll(_), Err(error)) => follower.handle_polled(now, Err(error)),
            (FollowAction::Open(_), Err(error)) => follower.handle_stream_end(now, Err(error)),
            (_, Err(error)) => follower.handle_listed(now, Err(error)),
        }
    }

    fn subscribe_to_events(&mut self, n: usize, following: &mut Following, action: SubscriptionAction) {
        let sent = match &action {
            SubscriptionAction::Subscribe(params) => self.request(n, following, Purpose::Subscribe, params),
            SubscriptionAction::Unsubscribe(params) => {
                self.request(n, following, Purpose::Unsubscribe, params)
            }
            _ => Ok(()),
        };
        let (now, receiver) = (self.now, &mut self.events.receiver);
        let Machine::Webhook(subscription) = &mut following.machine else { return };
        match (action, sent) {
            (_, Ok(())) => {}
            (SubscriptionAction::Subscribe(_), Err(error)) => {
                subscription.handle_subscribed(now, receiver, Err(error));
            }
            (_, Err(error)) => subscription.handle_unsubscribed(receiver, Err(error)),
        }
    }

    fn request<T: Serialize>(
        &mut self,
        n: usize,
        following: &mut Following,
        purpose: Purpose,
        params: &T,
    ) -> Result<(), FollowError> {
        let (method, is_long_lived) = match purpose {
            Purpose::List => (wire::LIST, false),
            Purpose::Poll => (wire::POLL, false),
            Purpose::Stream => (wire::STREAM, true),
            Purpose::Subscribe => (wire::SUBSCRIBE, false),
            Purpose::Unsubscribe => (wire::UNSUBSCRIBE, false),
        };
        let mut options = CallOptions::new();
        options.timeout = Some(CALL_TIMEOUT);
        options.long_lived = is_long_lived;
        let client = self.connections[n].client.as_mut();
        let client = client.ok_or_else(|| FollowError::Lost("no client".into()))?;
        let call = client.engine().call(self.now, method, params, &options);
        following.call = Some((call.map_err(|error| FollowError::Lost(error.to_string()))?, purpose));
        Ok(())
    }

    /// Cancels the call of a follower, if there is one.
    fn cancel_following(&mut self, n: usize, following: &mut Following) {
        let now = self.now;
        if let (Some((call, _)), Some(client)) = (following.call.take(), &mut self.connections[n].client) {
            // Its end may be an event that was not polled yet.
            let _ = client.engine().cancel(now, call, None);
            self.events.cancelled.push((n, call));
        }
    }

    fn end_call(&mut self, n: usize, following: &mut Following, outcome: Result<RawJson, CallError>) {
        let Some((_, purpose)) = following.call.take() else { return };
        let (now, outcome) = (self.now, outcome.map_err(passing));
        if purpose == Purpose::Poll && outcome.is_ok() {
            self.begin(following);
        }
        let Events { receiver, .. } = &mut self.events;
        match (&mut following.machine, purpose) {
            (Machine::Listing(_), _) => self.begin_following(n, following, outcome),
            (Machine::Follower(follower), Purpose::List) => {
                let described = outcome.and_then(|result| find_type(&result, &following.audience.name));
                follower.handle_listed(now, described);
            }
            (Machine::Follower(follower), Purpose::Poll) => follower.handle_polled(now, outcome),
            (Machine::Follower(follower), _) => follower.handle_stream_end(now, outcome.map(drop)),
            (Machine::Webhook(subscription), Purpose::Unsubscribe) => {
                subscription.handle_unsubscribed(receiver, outcome.map(drop));
            }
            (Machine::Webhook(subscription), _) => {
                let malformed = |error: serde_json::Error| FollowError::Malformed(error.to_string());
                let outcome = outcome.and_then(|result| result.parse().map_err(malformed));
                subscription.handle_subscribed(now, receiver, outcome);
            }
        }
    }

    /// Begins to follow a type that the server has listed.
    fn begin_following(&mut self, n: usize, following: &mut Following, listed: Result<RawJson, FollowError>) {
        let described = match listed.and_then(|result| find_type(&result, &following.audience.name)) {
            Ok(Some(described)) => described,
            // There is nothing for this client.
            Ok(None) => return following.has_ended = true,
            Err(_) => return following.machine = Machine::Listing(self.now + LIST_PAUSE),
        };
        let Audience { name, .. } = &following.audience;
        let subscription =
            Subscription { name: name.clone(), arguments: Some(following.audience.arguments()) };
        let entropy = Entropy::new([3; 32], self.events.number());
        let cursor = following.cursor.clone();
        let peer = self.connections[n].client.as_mut().and_then(|client| client.engine().peer());
        let is_modern = peer.is_some_and(|peer| peer.version.era() == Era::Modern);
        following.machine = if following.way == Way::Webhook {
            let (url, receiver) = (callback(following.lane), &mut self.events.receiver);
            let config = subscription_config();
            let subscription =
                WebhookSubscription::new(config, subscription, url, cursor, receiver, entropy, ANCHOR);
            Machine::Webhook(Box::new(subscription.expect("room")))
        } else {
            let has_streams = is_modern && following.way == Way::Streams;
            let config = follow_config();
            match Follower::new(config, subscription, &described, has_streams, cursor, entropy) {
                Ok(follower) => Machine::Follower(Box::new(follower)),
                Err(_) => return following.has_ended = true,
            }
        };
    }

    /// Notes that the position of a follower is known: it is promised everything from here on.
    fn begin(&mut self, following: &mut Following) {
        if !core::mem::replace(&mut following.is_positioned, true) {
            let follower = following.name.clone();
            self.record(Lane::Client(following.lane), What::Positioned { follower });
        }
    }

    /// Takes what a follower reports.
    fn take_output(&mut self, following: &mut Following) {
        loop {
            let lane = Lane::Client(following.lane);
            let follower = following.name.clone();
            match &mut following.machine {
                Machine::Listing(_) => return,
                Machine::Follower(machine) => {
                    let event = machine.poll_event();
                    // In the middle of the events of a poll, what is stored stays.
                    following.cursor =
                        machine.cursor().map(str::to_owned).or_else(|| following.cursor.take());
                    let Some(event) = event else { return };
                    match event {
                        FollowEvent::Event(event) => self.hand_out(following, event.event_id),
                        FollowEvent::Gap { reason, .. } => self.report_missing(following, reason),
                        FollowEvent::Ended(error) => {
                            following.has_ended = true;
                            // The next connection may have a revision without streams.
                            let is_lawful = following.audience.name == LIVE && is_unknown_method(&error);
                            let error = (!is_lawful).then(|| error.to_string());
                            self.record(lane, What::Unfollowed { follower, error });
                        }
                        _ => {}
                    }
                }
                Machine::Webhook(machine) => match machine.poll_event() {
                    None => return,
                    Some(SubscriptionEvent::Granted { .. }) => self.begin(following),
                    Some(SubscriptionEvent::Gap(reason)) => self.report_missing(following, reason),
                    Some(SubscriptionEvent::Ended(error)) => {
                        following.has_ended = true;
                        if !following.is_leaving {
                            let error = error.map(|error| error.to_string());
                            self.record(lane, What::Unfollowed { follower, error });
                        }
                    }
                    Some(_) => {}
                },
            }
        }
    }

    fn hand_out(&mut self, following: &mut Following, event: String) {
        following.missing.remove(&event);
        let follower = following.name.clone();
        self.record(Lane::Client(following.lane), What::HandedOut { follower, event });
    }

    fn report_missing(&mut self, following: &mut Following, reason: GapReason) {
        following.missing.clear();
        let (follower, reason) = (following.name.clone(), format!("{reason:?}"));
        self.record(Lane::Client(following.lane), What::Gap { follower, reason });
    }
}

fn is_unknown_method(error: &FollowError) -> bool {
    matches!(error, FollowError::Server(error) if error.code == code::METHOD_NOT_FOUND)
}

/// Finds a type in a list.
fn find_type(result: &RawJson, name: &str) -> Result<Option<EventType>, FollowError> {
    let list: ListEventsResult =
        result.parse().map_err(|error| FollowError::Malformed(format!("{error}")))?;
    Ok(list.events.into_iter().find(|described| described.name == name))
}

/// # Actions
impl<A: Application> World<A> {
    pub(super) fn act_on_events(&mut self, n: usize) {
        match self.draws.below(48) {
            0..=13 => self.publish(n),
            14..=19 => self.begin_to_follow(n),
            20..=31 => {
                for _ in 0..=self.draws.below(4) {
                    let at = self.draws.below(64) as usize;
                    let fate = match self.draws.below(12) {
                        0..=6 => Fate::Arrives,
                        7 => Fate::IsNotKept,
                        8 | 9 => Fate::LosesItsAnswer,
                        10 => Fate::IsLost,
                        _ => Fate::IsRepeated,
                    };
                    self.deliver(at, fate);
                    self.poll(n);
                }
            }
            32..=35 => self.forge(),
            36 => self.stop_to_follow(n),
            37 | 38 => self.rotate(n),
            39 => {
                let index = self.event_index(n);
                // The next process finds nothing of what was before.
                self.events.stores.insert(index, Vec::new());
                self.record(Lane::World, What::Fault { text: STORE_LOST.to_owned() });
            }
            _ => {
                // A handshake with a side that does not read would take longer than calls that wait for it may.
                if self.connections.iter().any(|c| !c.client_reads || !c.server_reads) {
                    return;
                }
                // Connections come back, streams have heartbeats, grants are renewed.
                for _ in 0..=self.draws.below(16) {
                    self.skip_to_next(self.now + Duration::from_secs(10));
                    for n in 0..self.connections.len() {
                        self.turn(n, usize::MAX, Duration::ZERO);
                    }
                }
            }
        }
    }

    /// Publishes some events for a client.
    fn publish(&mut self, n: usize) {
        let name = if self.draws.below(4) == 3 { LIVE } else { KEPT };
        let topic = self.draws.below(2).into();
        let lane = self.connections[n].lane;
        let any = Audience { name: name.to_owned(), principal: principal(lane), topic };
        let followed = self.choose_following(n).filter(|_| topic == 0);
        let audience = followed.map_or(any, |at| self.events.followings[at].audience.clone());
        for _ in 0..=self.draws.below(3) {
            self.publish_event(n, lane, &audience);
        }
    }

    fn publish_event(&mut self, n: usize, lane: usize, audience: &Audience) {
        let index = self.event_index(n);
        if !self.has_event_server(index) {
            return;
        }
        let event = format!("event-{lane}-{}", self.events.number());
        for following in &mut self.events.followings {
            if following.audience == *audience && following.is_positioned && !following.is_leaving {
                following.missing.insert(event.clone());
            }
        }
        let occurrence = audience.event(&event);
        self.record(Lane::Server(lane), What::Published { event, audience: audience.to_string() });
        self.with_event_server(index, |server, now, _, store| server.publish(now, &occurrence, store));
    }

    fn begin_to_follow(&mut self, n: usize) {
        let way = [Way::Polls, Way::Streams, Way::Webhook][self.draws.below(3) as usize];
        let (topic, kind) = (self.draws.below(2).into(), self.draws.below(4));
        self.restart(n);
        let lane = self.connections[n].lane;
        let name = if way == Way::Streams && kind == 3 { LIVE } else { KEPT };
        let audience = Audience { name: name.to_owned(), principal: principal(lane), topic };
        let of_client = self.events.followings.iter().filter(|following| following.n == n);
        // A subscription has one secret, so one follower.
        let is_known = |other: &Following| {
            way == Way::Webhook && other.way == Way::Webhook && other.audience == audience
        };
        let most = if self.plan.tight { 1 } else { MAX_FOLLOWERS };
        if of_client.clone().count() >= most || of_client.clone().any(is_known) {
            return;
        }
        let kind = format!("{way:?}").to_lowercase();
        let follower = format!("{kind}-{lane}-{}", self.events.number());
        let is_ordered = way != Way::Webhook;
        let what = What::Followed { follower: follower.clone(), audience: audience.to_string(), is_ordered };
        self.record(Lane::Client(lane), what);
        self.events.followings.push(Following {
            name: follower,
            n,
            lane,
            audience,
            way,
            machine: Machine::Listing(self.now),
            call: None,
            cursor: None,
            is_positioned: false,
            is_leaving: false,
            has_ended: false,
            missing: BTreeSet::new(),
        });
    }

    /// Chooses a follower of a client.
    fn choose_following(&mut self, n: usize) -> Option<usize> {
        let at = self.draws.below(16) as usize;
        let all = self.events.followings.iter().enumerate();
        let own: Vec<usize> = all.filter(|(_, following)| following.n == n).map(|(at, _)| at).collect();
        Some(own[at.checked_rem(own.len())?])
    }

    fn stop_to_follow(&mut self, n: usize) {
        let Some(at) = self.choose_following(n) else { return };
        self.with_following(at, |world, following| {
            if core::mem::replace(&mut following.is_leaving, true) {
                return;
            }
            let follower = following.name.clone();
            world.record(Lane::Client(following.lane), What::Unfollowed { follower, error: None });
            following.missing.clear();
            match &mut following.machine {
                Machine::Webhook(subscription) => subscription.unsubscribe(),
                _ => {
                    world.cancel_following(n, following);
                    following.has_ended = true;
                }
            }
        });
        self.events.followings.retain(|following| !following.has_ended);
    }

    fn rotate(&mut self, n: usize) {
        let Some(at) = self.choose_following(n) else { return };
        let (now, Events { followings, receiver, .. }) = (self.now, &mut self.events);
        if let Machine::Webhook(subscription) = &mut followings[at].machine {
            subscription.rotate(now, receiver);
        }
    }
}

/// # Quiet
impl<A: Application> World<A> {
    /// Lets followers get what is missing after the last fault, and then ends them. Returns false once it is over.
    pub(super) fn settle_events(&mut self) -> bool {
        let until = match self.events.stage {
            Stage::Over => return false,
            Stage::Acting => {
                self.events.stage = Stage::Beginning(self.now + BEGIN_TIME);
                return true;
            }
            Stage::Beginning(until) => {
                for n in 0..self.connections.len() {
                    // Once the server has ended, too.
                    if self.events.followings.iter().any(|f| f.n == n) && !self.is_connected(n) {
                        self.restart(n);
                    }
                }
                let has_begun = |f: &Following| f.is_positioned && self.is_connected(f.n);
                if self.events.followings.iter().all(has_begun) || self.now >= until {
                    self.events.stage = Stage::CatchingUp(self.now + CATCH_UP_TIME);
                    // Calls that nobody cancels would keep all places of a tiny server, and polls had none.
                    let is_pipe = self.network.is_none();
                    self.connections.iter_mut().for_each(|connection| connection.end_silence(is_pipe));
                    let all = self.events.followings.iter();
                    let last: Vec<_> = all.map(|f| (f.n, f.lane, f.audience.clone())).collect();
                    for (n, lane, audience) in last {
                        self.publish_event(n, lane, &audience);
                    }
                    return true;
                }
                until
            }
            Stage::CatchingUp(until) => {
                if self.events.followings.iter().all(|following| following.missing.is_empty())
                    || self.now >= until
                {
                    for mut following in core::mem::take(&mut self.events.followings) {
                        self.cancel_following(following.n, &mut following);
                    }
                    self.events.stage = Stage::Over;
                    self.record(Lane::World, What::CaughtUp);
                    return true;
                }
                until
            }
        };
        if !self.skip_to_next(until) {
            self.advance_to(until);
        }
        true
    }
}
