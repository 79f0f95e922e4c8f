//! Webhook subscriptions of a server: between its source, its loops, and what delivers; and what becomes of their calls.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::task::Wake;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use core::task::Waker;
use core::time::Duration;

use mcp_proto::{CallId, Instant};

use super::Events;
use super::shared::{Answer, Shared};
use crate::delivery::{
    self, Deliveries, DriveDeliveries, Grant, Subscribe, Subscribed, SubscriptionHandle, Ticket,
};
use crate::source::{Filter, Lane, Resume, Source};
use crate::store::{Record, StoredSubscription};
use crate::webhook::SubscriptionKey;
use crate::wire::{EventOccurrence, EventsError, Nullable, Profile, SubscribeEventsResult};

/// A checked call of `events/subscribe`.
pub(super) struct Request {
    pub(super) name: String,
    pub(super) subscribe: Subscribe,
    pub(super) filter: Filter,
    pub(super) resume: Resume,
}

/// Webhook subscriptions, and the calls that wait for a challenge.
pub(super) struct Webhooks {
    deliverer: Driver,
    /// Nothing is delivered any more.
    has_ended: bool,
    subscribers: BTreeMap<SubscriptionHandle, Subscriber>,
    waiting: BTreeMap<Ticket, Waiting>,
    /// Answers that the loops have not taken yet.
    answers: Vec<(Lane, CallId, Answer)>,
}

struct Subscriber {
    /// Id of the subscription on the wire.
    id: String,
    name: String,
    principal: String,
    filter: Filter,
}

/// A webhook subscription whose receiver fails.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebhookFailure {
    /// What follows from it.
    pub kind: WebhookFailureKind,
    /// Id of the subscription on the wire.
    pub id: String,
    /// Name of the type.
    pub name: String,
    /// Canonical name of the subscriber.
    pub principal: String,
}

/// What follows from the failures of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebhookFailureKind {
    /// Nothing is sent until the subscriber refreshes (EVT-100).
    Suspended,
    /// The subscription had no expiry, and has ended (EVT-131): see [`Config::give_up_after`](delivery::Config::give_up_after).
    GivenUp,
}

/// What became of a stored subscription.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Restored {
    /// It goes on, or its end is delivered.
    Taken,
    /// It cannot go on, and nobody is told.
    Refused,
    /// The deliverer takes nothing now.
    Later,
}

/// A call that waits for the challenge of its URL.
struct Waiting {
    lane: Lane,
    call: CallId,
    key: SubscriptionKey,
    /// Of its caller, for an error.
    profile: Profile,
    begin: Begin,
}

/// A subscription that is not granted yet, and where its events begin.
struct Begin {
    subscriber: Subscriber,
    resume: Resume,
}

impl Events {
    /// Delivers to webhooks: types with [`DeliveryMode::Webhook`](crate::wire::DeliveryMode::Webhook) can be subscribed to then, by callers that are authenticated
    /// (EVT-070).
    ///
    /// The events of `deliverer` are taken by this. Subscriptions are in memory, unless there is a [store](Self::with_store)
    /// (EVT-084).
    pub fn webhooks(&self, deliverer: impl DriveDeliveries + 'static) {
        deliverer.register(&Waker::from(Arc::new(News(Arc::downgrade(&self.0)))));
        let webhooks = Webhooks {
            deliverer: Driver(Arc::new(deliverer)),
            has_ended: false,
            subscribers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            answers: Vec::new(),
        };
        // Some may have come before there was a waker.
        self.0.has_news.store(true, Ordering::SeqCst);
        let mut state = self.0.lock();
        if state.keeper.is_some() {
            webhooks.deliverer.with(|deliveries, _| deliveries.track_changes());
        }
        state.webhooks = Some(Box::new(webhooks));
        drop(state);
        self.0.restore_subscriptions();
    }

    /// Delivers what is queued for webhooks until `timeout` has passed, and stops then, or as soon as nothing more is due in that
    /// time. Call it when the loops of the server have ended. Returns whether no delivery is left open, also without
    /// [webhooks](Self::webhooks).
    ///
    /// Calls of `events/subscribe` are refused behind it, and those that wait for a challenge.
    #[must_use]
    pub fn finish(&self, timeout: Duration) -> bool {
        let deliverer = self.0.lock().webhooks.as_ref().map(|webhooks| webhooks.deliverer.clone());
        // Without the lock: others go on meanwhile.
        let is_complete = deliverer.is_none_or(|deliverer| deliverer.0.finish(timeout));
        self.0.change(|state, _| state.webhooks.as_mut().map(|webhooks| webhooks.close()));
        is_complete
    }

    /// Calls functions of the machine that delivers, for proofs or numbers; `None` without [webhooks](Self::webhooks). They must not
    /// use these events.
    pub fn with_deliveries<R>(&self, f: impl FnOnce(&mut Deliveries, Instant) -> R) -> Option<R> {
        self.0.lock().webhooks.as_ref().and_then(|webhooks| webhooks.deliverer.with(f))
    }
}

/// What drives the deliveries.
#[derive(Clone)]
struct Driver(Arc<dyn DriveDeliveries>);

impl Driver {
    /// Calls functions of the machine. `None` if the driver did not let it.
    fn with<R>(&self, f: impl FnOnce(&mut Deliveries, Instant) -> R) -> Option<R> {
        let (mut f, mut result) = (Some(f), None);
        self.0.with_deliveries(&mut |deliveries, now| {
            if let Some(f) = f.take() {
                result = Some(f(deliveries, now));
            }
        });
        result
    }

    fn poll_event(&self) -> Option<delivery::Event> {
        self.with(|deliveries, _| deliveries.poll_event())?
    }
}

/// Told by the deliverer that it has events: on its thread, or on one that calls it and has the lock.
struct News(Weak<Shared>);

impl Wake for News {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.0.upgrade() {
            shared.has_news.store(true, Ordering::SeqCst);
            shared.take_news();
        }
    }
}

impl Webhooks {
    /// Delivers an event that was just published, the newest one of its type, to those who subscribed to it.
    pub(super) fn publish(&mut self, source: &mut Source, event: &EventOccurrence) {
        self.deliver_to_subscribers(source, event);
        if let Some(cursor) = source.checkpoint(&event.name) {
            self.pass(&event.name, &cursor);
        }
    }

    /// Tells the subscriptions of a type that they have everything up to a position.
    fn pass(&self, name: &str, cursor: &str) {
        let of_type = self.subscribers.iter().filter(|(_, subscriber)| subscriber.name == name);
        self.deliverer.with(|deliveries, _| of_type.for_each(|(handle, _)| deliveries.pass(*handle, cursor)));
    }

    fn deliver_to_subscribers(&self, source: &Source, event: &EventOccurrence) {
        let subscribers = self.subscribers.iter().filter(|(_, s)| s.name == event.name && (s.filter)(event));
        let handles: Vec<SubscriptionHandle> = subscribers.map(|(handle, _)| *handle).collect();
        if handles.is_empty() {
            return;
        }
        let event = event.clone().cursor(Nullable(source.cursor(&event.name)));
        self.deliverer.with(|deliveries, now| {
            for handle in handles {
                deliver(deliveries, now, handle, &event);
            }
        });
    }

    /// Tells the subscribers of a type that events were lost, up to the newest position of the type.
    pub(super) fn report_gap(&mut self, source: &Source, name: &str) {
        let Some(cursor) = source.cursor(name) else { return };
        self.deliverer.with(|deliveries, now| {
            for (handle, _) in self.subscribers.iter().filter(|(_, subscriber)| subscriber.name == name) {
                deliveries.report_gap(now, *handle, &cursor);
            }
        });
    }

    /// Handles `events/subscribe`. `None`: the answer comes later, for this call of this lane.
    ///
    /// # Errors
    ///
    /// The error to answer with.
    pub(super) fn subscribe(
        &mut self,
        source: &Source,
        (lane, call): (Lane, CallId),
        request: Request,
    ) -> Result<Option<SubscribeEventsResult>, EventsError> {
        if self.has_ended {
            return Err(ended());
        }
        let Request { name, subscribe, filter, resume } = request;
        let (id, principal) = (subscribe.key.id(), subscribe.key.principal().into());
        let subscriber = Subscriber { id, name, principal, filter };
        let begin = Begin { subscriber, resume };
        let (profile, key) = (subscribe.profile, subscribe.key.clone());
        let end = source.cursor(subscribe.key.name());
        let subscribed = self.deliverer.with(|deliveries, now| {
            // One that does not get events yet has not passed what is queued for it.
            let live = deliveries.find(&subscribe.key).filter(|handle| self.subscribers.contains_key(handle));
            if let (Some(handle), Some(end)) = (live, &end) {
                deliveries.pass(handle, end);
            }
            deliveries.subscribe(now, subscribe)
        });
        match subscribed.unwrap_or_else(|| Err(ended()))? {
            Subscribed::Granted(grant) => Ok(Some(self.begin(source, &grant, begin))),
            Subscribed::Verifying(ticket) => {
                self.waiting.insert(ticket, Waiting { lane, call, key, profile, begin });
                Ok(None)
            }
        }
    }

    /// Handles `events/unsubscribe`.
    ///
    /// # Errors
    ///
    /// The error to answer with.
    pub(super) fn unsubscribe(
        &mut self,
        key: &SubscriptionKey,
        profile: &Profile,
    ) -> Result<(), EventsError> {
        let ended_now = self.deliverer.with(|deliveries, _| {
            if let Some(handle) = deliveries.find(key) {
                self.subscribers.remove(&handle);
            }
            deliveries.unsubscribe(key, profile)
        });
        ended_now.unwrap_or_else(|| Err(ended()))
    }

    /// Forgets a call that waits, whose client has gone.
    pub(super) fn cancel(&mut self, lane: Lane, call: CallId) -> bool {
        let is_it = |waiting: &Waiting| waiting.lane == lane && waiting.call == call;
        let is_found = self.forget(is_it);
        let before = self.answers.len();
        self.answers.retain(|(other, id, _)| (*other, *id) != (lane, call));
        is_found || self.answers.len() < before
    }

    /// Forgets the calls of a loop that has ended.
    pub(super) fn remove_lane(&mut self, lane: Lane) {
        self.forget(|waiting| waiting.lane == lane);
        self.answers.retain(|(other, ..)| *other != lane);
    }

    /// Cancels calls that wait. Returns whether there are any.
    fn forget(&mut self, is_it: impl Fn(&Waiting) -> bool) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|ticket, waiting| {
            let is_gone = is_it(waiting);
            if is_gone {
                self.deliverer.with(|deliveries, _| deliveries.cancel(*ticket));
            }
            !is_gone
        });
        self.waiting.len() < before
    }

    /// Ends the subscription of a key, and refuses the calls that wait for it (EVT-162).
    pub(super) fn end(&mut self, key: &SubscriptionKey, error: &EventsError) {
        self.deliverer.with(|deliveries, now| {
            if let Some(handle) = deliveries.find(key) {
                self.subscribers.remove(&handle);
                deliveries.terminate(now, handle, error);
            }
        });
        let waiting =
            self.waiting.iter().filter(|(_, waiting)| waiting.key == *key).map(|(ticket, _)| *ticket);
        for ticket in waiting.collect::<Vec<_>>() {
            self.deliverer.with(|deliveries, _| deliveries.cancel(ticket));
            self.refuse(ticket, error);
        }
    }

    /// Ends the subscriptions for which `reason`, called with type and principal, returns one. Returns their number.
    pub(super) fn terminate(&mut self, reason: &dyn Fn(&str, &str) -> Option<EventsError>) -> usize {
        let ended = self
            .subscribers
            .iter()
            .filter_map(|(handle, s)| Some((*handle, reason(&s.name, &s.principal)?)))
            .collect::<Vec<_>>();
        for (handle, error) in &ended {
            self.subscribers.remove(handle);
            self.deliverer.with(|deliveries, now| deliveries.terminate(now, *handle, error));
        }
        // Those that are not granted yet are refused.
        let waiting = self.waiting.iter().filter_map(|(ticket, waiting)| {
            let Subscriber { name, principal, .. } = &waiting.begin.subscriber;
            Some((*ticket, reason(name, principal)?))
        });
        for (ticket, error) in waiting.collect::<Vec<_>>() {
            self.deliverer.with(|deliveries, _| deliveries.cancel(ticket));
            self.refuse(ticket, &error);
        }
        ended.len()
    }

    /// Returns whether a loop has answers to give.
    pub(super) fn has_answers(&self, lane: Lane) -> bool {
        self.answers.iter().any(|(other, ..)| *other == lane)
    }

    /// Returns an answer for a call of a lane.
    pub(super) fn poll_answer(&mut self, lane: Lane) -> Option<(CallId, Answer)> {
        let at = self.answers.iter().position(|(other, ..)| *other == lane)?;
        let (_, call, answer) = self.answers.remove(at);
        Some((call, answer))
    }

    /// Takes the events of the deliverer. Returns what the application hears.
    pub(super) fn take_news(&mut self, source: &Source) -> Vec<WebhookFailure> {
        let (mut failures, mut unwanted) = (Vec::new(), Vec::new());
        while let Some(event) = self.deliverer.poll_event() {
            match event {
                delivery::Event::Verified { ticket, grant } => match self.waiting.remove(&ticket) {
                    Some(Waiting { lane, call, begin, .. }) => {
                        let result = self.begin(source, &grant, begin);
                        self.answers.push((lane, call, Ok(result)));
                    }
                    // It was cancelled or refused meanwhile; another call with its key may follow.
                    None => unwanted.push(grant.subscription),
                },
                delivery::Event::Refused { ticket, error } => {
                    self.refuse(ticket, &error);
                }
                delivery::Event::Ended { subscription } => {
                    self.subscribers.remove(&subscription);
                }
                delivery::Event::Suspended { subscription } => {
                    failures.extend(self.failure(subscription, WebhookFailureKind::Suspended));
                }
                delivery::Event::GivenUp { subscription } => {
                    failures.extend(self.failure(subscription, WebhookFailureKind::GivenUp));
                    self.subscribers.remove(&subscription);
                }
            }
        }
        for handle in unwanted.into_iter().filter(|handle| !self.subscribers.contains_key(handle)) {
            // Nobody would end one without expiry.
            self.deliverer.with(|deliveries, _| {
                let key = deliveries.key(handle).cloned();
                key.map(|key| deliveries.unsubscribe(&key, &Profile::SEP))
            });
        }
        failures
    }

    fn failure(&self, handle: SubscriptionHandle, kind: WebhookFailureKind) -> Option<WebhookFailure> {
        let Subscriber { id, name, principal, .. } = self.subscribers.get(&handle)?;
        Some(WebhookFailure { kind, id: id.clone(), name: name.clone(), principal: principal.clone() })
    }

    /// Refuses all that would wait for a delivery.
    fn close(&mut self) {
        self.has_ended = true;
        for ticket in self.waiting.keys().copied().collect::<Vec<_>>() {
            self.deliverer.with(|deliveries, _| deliveries.cancel(ticket));
            self.refuse(ticket, &ended());
        }
    }

    /// Answers a call that waits with an error.
    fn refuse(&mut self, ticket: Ticket, error: &EventsError) {
        if let Some(Waiting { lane, call, profile, .. }) = self.waiting.remove(&ticket) {
            self.answers.push((lane, call, Err(error.to_rpc(&profile))));
        }
    }

    /// Begins a granted subscription; a refresh goes on where it is.
    fn begin(&mut self, source: &Source, grant: &Grant, begin: Begin) -> SubscribeEventsResult {
        if !self.subscribers.contains_key(&grant.subscription) {
            self.fill(source, grant.subscription, begin);
        }
        grant.to_result()
    }

    /// Delivers what a subscription has missed since its start, and then what comes.
    fn fill(&mut self, source: &Source, handle: SubscriptionHandle, begin: Begin) {
        let Begin { subscriber, resume } = begin;
        let replay = source.replay(&subscriber.name, &resume, &subscriber.filter);
        self.deliverer.with(|deliveries, now| {
            if let Some(cursor) = &replay.gap {
                deliveries.report_gap(now, handle, cursor);
            }
            for event in &replay.events {
                deliver(deliveries, now, handle, event);
            }
        });
        self.subscribers.insert(handle, subscriber);
    }

    /// Takes in a subscription of a store, whose filter was made again, or ends it with the reason why there is none.
    pub(super) fn restore(
        &mut self,
        source: &mut Source,
        stored: &StoredSubscription,
        filter: Result<Filter, EventsError>,
    ) -> Restored {
        let is_live =
            |deliveries: &Deliveries| stored.key().is_some_and(|key| deliveries.find(&key).is_some());
        let restored = self.deliverer.with(|deliveries, now| match is_live(deliveries) {
            true => Err(()),
            false => Ok(deliveries.restore(now, stored)),
        });
        let handle = match restored {
            // Its client was faster: what the store has of it by now is that of the new one.
            Some(Err(())) => return Restored::Taken,
            Some(Ok(Some(handle))) => handle,
            Some(Ok(None)) => return Restored::Refused,
            None => return Restored::Later,
        };
        if stored.terminated.is_some() {
            return Restored::Taken;
        }
        let cursor = stored.progress.cursor.as_deref();
        let resume = filter.and_then(|filter| Ok((filter, source.resume_stored(&stored.name, cursor)?)));
        match resume {
            Ok((filter, resume)) => {
                if let Some(cursor) = resume.cursor.as_deref().filter(|_| resume.truncated) {
                    self.deliverer.with(|deliveries, now| deliveries.report_gap(now, handle, cursor));
                }
                let id = stored.key().map(|key| key.id()).unwrap_or_default();
                let (name, principal) = (stored.name.clone(), stored.principal.clone());
                let subscriber = Subscriber { id, name, principal, filter };
                self.fill(source, handle, Begin { subscriber, resume });
            }
            Err(error) => {
                self.deliverer.with(|deliveries, now| deliveries.terminate(now, handle, &error));
            }
        }
        Restored::Taken
    }

    /// Returns the records of changes that a store does not know yet.
    pub(super) fn changes(&self) -> Vec<Record> {
        let all = |deliveries: &mut Deliveries, _| core::iter::from_fn(|| deliveries.poll_change()).collect();
        self.deliverer.with(all).unwrap_or_default()
    }

    /// Returns the records of everything that a store keeps of the subscriptions, with their positions in the logs as they are
    /// now. `None` if the driver did not let it.
    pub(super) fn records(&self, source: &Source) -> Option<Vec<Record>> {
        let names: BTreeSet<&str> = self.subscribers.values().map(|subscriber| &*subscriber.name).collect();
        for name in names {
            source.cursor(name).into_iter().for_each(|cursor| self.pass(name, &cursor));
        }
        self.deliverer.with(|deliveries, _| deliveries.records().collect())
    }
}

/// Returns the error of a call that comes too late. The client can try again: at another host, or after a restart.
fn ended() -> EventsError {
    EventsError::Internal("the server is ending".into())
}

/// Puts an event into the queue of a subscription. What cannot be a delivery becomes a gap, so that its subscriber hears of it.
fn deliver(deliveries: &mut Deliveries, now: Instant, handle: SubscriptionHandle, event: &EventOccurrence) {
    match deliveries.publish(now, handle, event) {
        // It has just ended.
        Ok(()) | Err(delivery::PublishError::Stale) => {}
        Err(_) => {
            if let Some(cursor) = Nullable::text(event.cursor.as_ref()) {
                deliveries.report_gap(now, handle, cursor);
            }
        }
    }
}
