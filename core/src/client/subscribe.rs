//! Subscriptions to changes, with one filter in both eras (SUB, RES-010, RES-013).
//!
//! A modern subscription is an open `subscriptions/listen` request, whose id its notifications carry. A legacy server
//! knows resource subscriptions only, once per resource. The engine counts them and assigns notifications to the
//! subscriptions that want them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;

use super::engine::Engine;
use super::event::Event;
use crate::calls::outbound::{CallOptions, CallPurpose, OutboundCall, ResponseMatch};
use crate::calls::outbound_requests::OutboundRequest;
use crate::change::Change;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, HttpError, UseError};
use crate::json::{Serializer, object_members};
use crate::limits::Limit;
use crate::meta;
use crate::methods::{self, Capability};
use crate::model::{SubscriptionFilter, SubscriptionsAcknowledgedParams};
use crate::rpc::RequestId;
use crate::shape;
use crate::slab::Key;
use crate::time::Instant;

/// The key of a subscription.
///
/// It is stale after [`Event::SubscriptionEnded`] or [`Engine::unsubscribe`]. A stale key is refused and never reaches
/// another subscription.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriptionKey(u64);

/// All subscriptions, and the resource subscriptions at a legacy server.
#[derive(Debug, Default)]
pub(super) struct ActiveSubscriptions {
    /// By serial number, which is never reused.
    by_number: BTreeMap<u64, Subscription>,
    /// The resources that a legacy server was asked for.
    resources: BTreeMap<Box<str>, ResourceSubscription>,
}

#[derive(Debug)]
struct Subscription {
    /// The lists: as requested, later as honoured.
    lists: ListFlags,
    /// The resources, sorted.
    uris: Vec<Box<str>>,
    /// The server has confirmed the subscription.
    acknowledged: bool,
    /// The open request (modern).
    listen: Option<Key>,
}

#[derive(Debug)]
struct ResourceSubscription {
    /// Number of subscriptions that want the resource.
    subscribers: usize,
    /// The request to the server, until it is answered.
    pending_request: Option<Key>,
}

/// Lists that can change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct ListFlags {
    tools: bool,
    prompts: bool,
    resources: bool,
}

impl ListFlags {
    fn from_filter(filter: &SubscriptionFilter) -> Self {
        let is = |flag: Option<bool>| flag == Some(true);
        Self {
            tools: is(filter.tools_list_changed),
            prompts: is(filter.prompts_list_changed),
            resources: is(filter.resources_list_changed),
        }
    }

    const fn intersection(self, other: Self) -> Self {
        Self {
            tools: self.tools && other.tools,
            prompts: self.prompts && other.prompts,
            resources: self.resources && other.resources,
        }
    }
}

fn sorted_uris(filter: &SubscriptionFilter) -> Vec<Box<str>> {
    let given = filter.resource_subscriptions.iter().flatten();
    let mut uris: Vec<Box<str>> = given.map(|uri| Box::from(&**uri)).collect();
    uris.sort_unstable();
    uris.dedup();
    uris
}

/// Returns whether `uri` is the resource or a part of it (RES-011).
fn covers(resource: &str, uri: &str) -> bool {
    uri.strip_prefix(resource)
        .is_some_and(|rest| rest.is_empty() || resource.ends_with('/') || rest.starts_with(['/', '?', '#']))
}

impl Subscription {
    fn wants(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.lists.tools,
            Change::Prompts => self.lists.prompts,
            Change::Resources => self.lists.resources,
            Change::Resource(uri) => self.uris.iter().any(|resource| covers(resource, uri)),
        }
    }

    /// Returns the filter for the application.
    fn filter(&self) -> SubscriptionFilter {
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = self.lists.tools.then_some(true);
        filter.prompts_list_changed = self.lists.prompts.then_some(true);
        filter.resources_list_changed = self.lists.resources.then_some(true);
        let uris = || self.uris.iter().map(|uri| String::from(&**uri)).collect();
        filter.resource_subscriptions = (!self.uris.is_empty()).then(uris);
        filter
    }
}

impl ActiveSubscriptions {
    pub(super) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    fn find_by_listen(&mut self, listen: Key) -> Option<(u64, &mut Subscription)> {
        let found = self.by_number.iter_mut().find(|(_, sub)| sub.listen == Some(listen));
        found.map(|(number, sub)| (*number, sub))
    }
}

impl Engine {
    /// Subscribes to changes (SUB-001, SUB-010, RES-010, RES-013).
    ///
    /// [`Event::Subscribed`] reports the part of the filter that the server honours; later changes arrive as
    /// [`Event::Changed`]. Earlier changes are not reported, so read the lists and resources after that event.
    /// [`Event::SubscriptionEnded`] reports that the server has ended the subscription. On a byte stream, subscriptions
    /// end with the connection and are not renewed (SUB-016, SUB-017). An acknowledged subscription has no timeout
    /// (SUB-018).
    ///
    /// # Errors
    ///
    /// [`UseError::NotReady`] or [`UseError::Closed`] if there is no open connection. [`UseError::Full`] if there are
    /// too many subscriptions or resources, a URI is too long, or no request can be sent.
    pub fn subscribe(
        &mut self,
        now: Instant,
        filter: &SubscriptionFilter,
    ) -> Result<SubscriptionKey, UseError> {
        self.endpoint.tick(now);
        let (main, _) = self.ready_channel()?;
        let limits = &self.endpoint.limits;
        let number = self.last_serial + 1;
        let mut sub = Subscription {
            lists: ListFlags::from_filter(filter),
            uris: sorted_uris(filter),
            acknowledged: false,
            listen: None,
        };
        if self
            .notifications
            .as_ref()
            .is_some_and(|n| n.subscriptions.by_number.len() >= limits.max_subscriptions)
        {
            return Err(UseError::Full(Limit::Subscriptions));
        }
        if sub.uris.len() > limits.max_subscribed_resources {
            return Err(UseError::Full(Limit::SubscribedResources));
        }
        if sub.uris.iter().any(|uri| uri.len() > limits.max_uri) {
            return Err(UseError::Full(Limit::UriLength));
        }
        if self.is_modern() {
            self.check_capacity(1)?;
            sub.listen = Some(self.listen(main, filter)?);
        } else {
            sub.lists = sub.lists.intersection(self.promised_lists());
            if !self.peer.as_ref().is_some_and(|p| p.has(Capability::ResourceSubscriptions)) {
                sub.uris.clear();
            }
            self.subscribe_resources(main, &sub.uris)?;
        }
        self.last_serial = number;
        self.notifications.get_or_insert_default().subscriptions.by_number.insert(number, sub);
        self.acknowledge_ready();
        Ok(SubscriptionKey(number))
    }

    /// Ends a subscription. Nothing more is reported for it (SUB-012).
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the subscription has ended, [`UseError::Full`] if no request can be sent.
    pub fn unsubscribe(&mut self, now: Instant, subscription: SubscriptionKey) -> Result<(), UseError> {
        self.endpoint.tick(now);
        let SubscriptionKey(number) = subscription;
        let subs = self.notifications.as_mut().map(|n| &mut n.subscriptions).ok_or(UseError::Stale)?;
        let sub = subs.by_number.get(&number).ok_or(UseError::Stale)?;
        if let Some(listen) = sub.listen {
            self.endpoint.send_cancellation(listen, None);
            self.endpoint.outbound.calls.remove(listen);
        } else {
            let (last_uris, shared_uris): (Vec<Box<str>>, Vec<Box<str>>) = sub
                .uris
                .iter()
                .cloned()
                .partition(|uri| subs.resources.get(uri).is_some_and(|f| f.subscribers <= 1));
            self.check_capacity(last_uris.len())?;
            self.unsubscribe_resources(&last_uris)?;
            for uri in &shared_uris {
                let resource =
                    self.notifications.as_mut().and_then(|n| n.subscriptions.resources.get_mut(uri));
                if let Some(resource) = resource {
                    resource.subscribers -= 1;
                }
            }
        }
        if let Some(state) = &mut self.notifications {
            state.subscriptions.by_number.remove(&number);
        }
        self.events.retain(|event| match event {
            Event::Subscribed { key, .. } => *key != subscription,
            Event::Changed { key, .. } => *key != Some(subscription),
            _ => true,
        });
        Ok(())
    }

    // ---- modern era ----

    fn listen(&mut self, main: Key, filter: &SubscriptionFilter) -> Result<Key, UseError> {
        #[derive(Serialize)]
        struct ListenParams<'a> {
            notifications: &'a SubscriptionFilter,
        }
        let Some(version) = self.peer.as_ref().map(|p| p.version) else { return Err(UseError::NotReady) };
        let call = OutboundCall::new(
            self.endpoint.now,
            main,
            CallPurpose::Listen,
            &CallOptions::new(),
            &self.endpoint.limits,
        );
        let key = self.endpoint.outbound.calls.insert(call);
        // Without a log level, because nothing is logged for this request (LOG-009).
        let base_meta = Some(self.config.request_meta(version));
        let request = OutboundRequest {
            method: methods::SUBSCRIPTIONS_LISTEN,
            base_meta,
            meta: None,
            wants_progress: false,
        };
        let params = ListenParams { notifications: filter };
        let sent = self
            .endpoint
            .send_request(key, &request, |out| Serializer::object(out, &params, shape::table(version)));
        if let Err(error) = sent {
            self.endpoint.outbound.calls.remove(key);
            return Err(error);
        }
        Ok(key)
    }

    /// Handles the acknowledgment of a subscription (SUB-006, SUB-007).
    pub(super) fn receive_acknowledged(&mut self, channel: Key, params: &[u8]) {
        let method = methods::ACKNOWLEDGED;
        let Ok(answer) = serde_json::from_slice::<SubscriptionsAcknowledgedParams>(params) else {
            return self.diagnose(Diagnostic::InvalidNotification(method.into()));
        };
        let Some(listen) = self.subscription_of(channel, method, params) else { return };
        let subs = self.notifications.as_mut().map(|n| &mut n.subscriptions);
        let found = subs.and_then(|s| s.find_by_listen(listen)).filter(|(_, sub)| !sub.acknowledged);
        let Some((number, sub)) = found else {
            return self.diagnose(Diagnostic::UnsolicitedNotification(method.into()));
        };
        // The server cannot honour more than was requested (SUB-003).
        let honoured = sorted_uris(&answer.notifications);
        sub.lists = sub.lists.intersection(ListFlags::from_filter(&answer.notifications));
        sub.uris.retain(|uri| honoured.binary_search(uri).is_ok());
        sub.acknowledged = true;
        let honoured = sub.filter();
        if let Some(call) = self.endpoint.outbound.calls.get_mut(listen) {
            call.disable_timeouts();
        }
        self.events.push_back(Event::Subscribed { key: SubscriptionKey(number), honoured });
    }

    /// Returns the open request of a notification, by the subscription id in its `_meta` (SUB-008, SUB-009).
    fn subscription_of(&mut self, channel: Key, method: &str, params: &[u8]) -> Option<Key> {
        let mut id = None;
        object_members(params, |name, value| {
            if name == b"_meta" {
                object_members(value, |name, value| {
                    if name == meta::SUBSCRIPTION_ID.as_bytes() {
                        id = RequestId::from_json(value, self.endpoint.limits.max_id);
                    }
                });
            }
        });
        match id.map(|id| self.endpoint.match_response(channel, &id)) {
            Some(ResponseMatch::Live(key)) if self.is_listen(key) => return Some(key),
            // The notification was sent before the subscription ended.
            Some(ResponseMatch::Late) => {}
            _ => self.diagnose(Diagnostic::UnsolicitedNotification(method.into())),
        }
        None
    }

    fn is_listen(&self, key: Key) -> bool {
        self.endpoint.outbound.calls.get(key).is_some_and(|c| c.purpose == CallPurpose::Listen)
    }

    /// Handles the outcome of `subscriptions/listen`.
    pub(super) fn listen_ended(&mut self, listen: Key, outcome: Result<(), CallError>) {
        self.endpoint.outbound.calls.remove(listen);
        self.endpoint.sweep();
        let Some(subs) = self.notifications.as_mut().map(|n| &mut n.subscriptions) else { return };
        let Some((number, _)) = subs.find_by_listen(listen) else { return };
        subs.by_number.remove(&number);
        self.subscription_ended(number, outcome.err());
    }

    /// Renews a subscription whose request was lost (SUB-016). Returns the new request.
    ///
    /// The subscription will be acknowledged again, because changes may have been missed.
    #[cfg(feature = "http")]
    pub(super) fn renew_listen(&mut self, listen: Key) -> Option<Key> {
        let main = self.main_channel?;
        let (number, sub) = self.notifications.as_mut()?.subscriptions.find_by_listen(listen)?;
        let filter = sub.filter();
        self.endpoint.outbound.calls.remove(listen);
        let renewed = self.listen(main, &filter);
        let subs = &mut self.notifications.as_mut()?.subscriptions;
        match renewed {
            Ok(key) => {
                let sub = subs.by_number.get_mut(&number)?;
                (sub.listen, sub.acknowledged) = (Some(key), false);
                Some(key)
            }
            Err(error) => {
                subs.by_number.remove(&number);
                self.subscription_ended(number, Some(CallError::Refused(error)));
                None
            }
        }
    }

    /// Renews the resource subscriptions in a new session of a legacy server.
    ///
    /// The subscriptions will be acknowledged again, because changes may have been missed.
    #[cfg(feature = "http")]
    pub(super) fn renew_resource_subscriptions(&mut self, main: Key) {
        let subscribed = self.notifications.iter().flat_map(|n| n.subscriptions.resources.keys());
        let uris: Vec<Box<str>> = subscribed.cloned().collect();
        for uri in uris {
            // It was sent before, so it can fail only because of a limit.
            let Ok(request) =
                self.send_internal_request(main, methods::RESOURCES_SUBSCRIBE, &UriParams { uri: &uri })
            else {
                continue;
            };
            let subs = self.notifications.as_mut().map(|n| &mut n.subscriptions);
            if let Some(subscribed) = subs.and_then(|s| s.resources.get_mut(&uri)) {
                subscribed.pending_request = Some(request);
            }
        }
        for sub in self.notifications.iter_mut().flat_map(|n| n.subscriptions.by_number.values_mut()) {
            sub.acknowledged = false;
        }
        self.acknowledge_ready();
    }

    /// Handles a cancellation by the server; returns false if it does not name a subscription.
    pub(super) fn listen_cancelled(&mut self, channel: Key, id: &RequestId) -> bool {
        if !self.is_modern() {
            return false;
        }
        match self.endpoint.match_response(channel, id) {
            ResponseMatch::Live(key) if self.is_listen(key) => {
                self.listen_ended(key, Ok(())); // CANC-018, SUB-021
                true
            }
            // Most servers end a subscription in both ways, and the first one counted (DEC-002).
            ResponseMatch::Late => true,
            _ => false,
        }
    }

    // ---- legacy era ----

    /// Returns the lists whose changes a legacy server announces.
    fn promised_lists(&self) -> ListFlags {
        let has = |capability| self.peer.as_ref().is_some_and(|p| p.has(capability));
        ListFlags {
            tools: has(Capability::ToolsListChanged),
            prompts: has(Capability::PromptsListChanged),
            resources: has(Capability::ResourcesListChanged),
        }
    }

    /// Adds a subscription to each resource, and sends `resources/subscribe` for new ones.
    fn subscribe_resources(&mut self, main: Key, uris: &[Box<str>]) -> Result<(), UseError> {
        if uris.is_empty() {
            return Ok(());
        }
        let is_new = |engine: &Self, uri: &str| {
            engine.notifications.as_ref().is_none_or(|n| !n.subscriptions.resources.contains_key(uri))
        };
        self.check_capacity(uris.iter().filter(|uri| is_new(self, uri)).count())?;
        for uri in uris {
            let pending_request = if is_new(self, uri) {
                Some(self.send_internal_request(main, methods::RESOURCES_SUBSCRIBE, &UriParams { uri })?)
            } else {
                None
            };
            let resources = &mut self.notifications.get_or_insert_default().subscriptions.resources;
            resources
                .entry(uri.clone())
                .or_insert(ResourceSubscription { subscribers: 0, pending_request })
                .subscribers += 1;
        }
        Ok(())
    }

    /// Removes resources and sends `resources/unsubscribe` for them.
    fn unsubscribe_resources(&mut self, uris: &[Box<str>]) -> Result<(), UseError> {
        let Some(main) = self.main_channel else { return Ok(()) };
        for uri in uris {
            self.send_internal_request(main, methods::RESOURCES_UNSUBSCRIBE, &UriParams { uri })?;
            if let Some(state) = &mut self.notifications {
                state.subscriptions.resources.remove(uri);
            }
        }
        Ok(())
    }

    /// Handles the answer to a request of the engine.
    pub(super) fn finish_internal_request(&mut self, key: Key, outcome: Result<(), CallError>) {
        self.endpoint.outbound.calls.remove(key);
        self.endpoint.sweep();
        let refused = outcome.is_err();
        match outcome {
            // The next session renews the subscriptions.
            Err(CallError::Http(error)) if *error == HttpError::SessionLost => return,
            Err(CallError::Rpc(error)) => self.diagnose(Diagnostic::PeerError(error)),
            _ => {}
        }
        let Some(subs) = self.notifications.as_mut().map(|n| &mut n.subscriptions) else { return };
        let Some((uri, resource)) = subs.resources.iter_mut().find(|(_, f)| f.pending_request == Some(key))
        else {
            return;
        };
        resource.pending_request = None;
        if refused {
            let uri = uri.clone();
            subs.resources.remove(&uri);
            subs.by_number.values_mut().for_each(|sub| sub.uris.retain(|other| *other != uri));
        }
        self.acknowledge_ready();
    }

    /// Reports the subscriptions whose requests to a legacy server have all been answered.
    fn acknowledge_ready(&mut self) {
        let Some(state) = &mut self.notifications else { return };
        let ActiveSubscriptions { by_number, resources } = &mut state.subscriptions;
        for (number, sub) in by_number.iter_mut().filter(|(_, sub)| sub.listen.is_none() && !sub.acknowledged)
        {
            if sub.uris.iter().all(|uri| resources.get(uri).is_some_and(|f| f.pending_request.is_none())) {
                sub.acknowledged = true;
                let (key, honoured) = (SubscriptionKey(*number), sub.filter());
                self.events.push_back(Event::Subscribed { key, honoured });
            }
        }
    }

    // ---- both eras ----

    /// Handles a change notification.
    pub(super) fn receive_change(&mut self, channel: Key, method: &str, params: &[u8]) {
        let change = match method {
            methods::TOOLS_CHANGED => Change::Tools,
            methods::PROMPTS_CHANGED => Change::Prompts,
            methods::RESOURCES_CHANGED => Change::Resources,
            _ => {
                let mut uri = None;
                object_members(params, |name, value| {
                    if name == b"uri" {
                        uri = serde_json::from_slice::<String>(value).ok();
                    }
                });
                match uri {
                    Some(uri) => Change::Resource(uri),
                    None => return self.diagnose(Diagnostic::InvalidNotification(method.into())),
                }
            }
        };
        if !self.is_modern() {
            return self.receive_legacy_change(method, &change);
        }
        let Some(listen) = self.subscription_of(channel, method, params) else { return };
        let subs = self.notifications.as_mut().map(|n| &mut n.subscriptions);
        let wanted = |(_, sub): &(u64, &mut Subscription)| {
            // Only the server knows which resources are parts of the subscribed ones.
            let may_be_part = matches!(change, Change::Resource(_)) && !sub.uris.is_empty();
            sub.acknowledged && (may_be_part || sub.wants(&change))
        };
        match subs.and_then(|s| s.find_by_listen(listen)).filter(wanted).map(|(number, _)| number) {
            Some(number) => self.queue_subscription_change(number, &change),
            None => self.diagnose(Diagnostic::UnsolicitedNotification(method.into())), // SUB-003, SUB-004
        }
    }

    /// Assigns a change of a legacy server to the subscriptions that want it.
    fn receive_legacy_change(&mut self, method: &str, change: &Change) {
        let all = self.notifications.iter().flat_map(|n| &n.subscriptions.by_number);
        let wanted = all.filter(|(_, sub)| sub.acknowledged && sub.wants(change));
        let numbers: Vec<u64> = wanted.map(|(number, _)| *number).collect();
        // List changes are sent to every client; a resource change needs a subscription (RES-028).
        if numbers.is_empty() {
            if matches!(change, Change::Resource(_)) {
                return self.diagnose(Diagnostic::UnsolicitedNotification(method.into()));
            }
            // A cached list is outdated even without a subscription.
            return self.queue_change(None, change);
        }
        for number in numbers {
            self.queue_subscription_change(number, change);
        }
    }

    /// Queues a change, unless an equal one was not polled yet.
    fn queue_subscription_change(&mut self, number: u64, change: &Change) {
        self.queue_change(Some(SubscriptionKey(number)), change);
    }

    fn queue_change(&mut self, subscription: Option<SubscriptionKey>, change: &Change) {
        let is_queued = |event: &Event| match event {
            Event::Changed { key, change: other } => *key == subscription && other == change,
            _ => false,
        };
        if !self.events.iter().any(is_queued) {
            self.events.push_back(Event::Changed { key: subscription, change: change.clone() });
        }
    }

    fn subscription_ended(&mut self, number: u64, error: Option<CallError>) {
        let key = SubscriptionKey(number);
        self.events.push_back(Event::SubscriptionEnded { key, graceful: error.is_none(), error });
    }

    /// Ends all subscriptions with the connection (SUB-015, SUB-017).
    pub(super) fn end_subscriptions(&mut self, error: &CallError) {
        let Some(state) = &mut self.notifications else { return };
        let ended = core::mem::take(&mut state.subscriptions);
        for (number, _) in ended.by_number {
            self.subscription_ended(number, Some(error.clone()));
        }
    }

    /// Sends a request of the engine, whose answer the application does not see.
    pub(super) fn send_internal_request<T: Serialize>(
        &mut self,
        main: Key,
        method: &str,
        params: &T,
    ) -> Result<Key, UseError> {
        let call = OutboundCall::new(
            self.endpoint.now,
            main,
            CallPurpose::Internal,
            &CallOptions::new(),
            &self.endpoint.limits,
        );
        let key = self.endpoint.outbound.calls.insert(call);
        let request = OutboundRequest { method, base_meta: None, meta: None, wants_progress: false };
        if let Err(error) =
            self.endpoint.send_request(key, &request, |out| Serializer::object(out, params, None))
        {
            self.endpoint.outbound.calls.remove(key);
            return Err(error);
        }
        Ok(key)
    }
}

#[derive(Serialize)]
struct UriParams<'a> {
    uri: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: RES-011
    #[test]
    fn resource_covers_only_itself_and_its_parts() {
        for within in ["a:b", "a:b/c", "a:b?c", "a:b#c"] {
            assert!(covers("a:b", within), "{within}");
        }
        for other in ["a:", "a:bc", "a:c", "", "x/a:b"] {
            assert!(!covers("a:b", other), "{other}");
        }
        assert!(covers("a:b/", "a:b/c") && !covers("a:b/", "a:b"));
    }
}
