//! Subscriptions to changes, with one filter in both eras (SUB, RES-010, RES-013).
//!
//! A modern subscription is an open `subscriptions/listen` request, whose id its notifications carry. A legacy server
//! knows resource subscriptions only, once per resource. The subscriptions of each resource are known, and a change is
//! assigned to those that want it. An acknowledged subscription has no deadline; that of its request is in the shared
//! heap, where every call has one.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Bound;

use serde::Serialize;

use super::common::CommonState;
use super::event::{Event, SubscriptionKey};
use super::subscription_table::{ListFlags, SubscriptionTable, covers, is_covered_by_prefix, sorted_uris};
use crate::calls::outbound::{CallOptions, CallPurpose, OutboundCall};
use crate::calls::outbound_requests::OutboundRequest;
use crate::change::Change;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, UseError};
use crate::json::Serializer;
use crate::limits::Limit;
use crate::methods::{self, Capability};
use crate::model::{SubscriptionFilter, SubscriptionsAcknowledgedParams};
use crate::shape;
use crate::slab::list::{List, ListLinks, ListNode};
use crate::slab::{Key, Slab};

/// All subscriptions, and the resource subscriptions at a legacy server; see the [module](self).
///
/// Invariants: `unanswered` of a subscription is the number of its resources with a pending request; each list and each
/// resource names exactly the subscriptions that want it, by the memberships of those.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    slab: Slab<Subscription>,
    /// Legacy subscriptions to each kind of list: tools, prompts, resources.
    lists: [List; 3],
    memberships: Slab<Membership>,
    /// The resources that a legacy server was asked for.
    resources: Slab<ResourceSubscription>,
    by_uri: BTreeMap<Box<str>, Key>,
}

#[derive(Debug)]
struct Subscription {
    /// The serial number, which is never reused.
    serial: u64,
    /// The lists: as requested, later as honoured.
    lists: ListFlags,
    /// The resources, sorted.
    uris: Vec<Box<str>>,
    /// Memberships in lists, and then in resources, in the order of `uris` (legacy).
    memberships: Vec<Key>,
    acknowledgment: Acknowledgment,
    /// Number of resources that the server has not answered for (legacy).
    unanswered: usize,
    /// The open request (modern).
    listen: Option<Key>,
}

/// Whether the server has confirmed a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Acknowledgment {
    Awaited,
    Received,
    /// It has to confirm a renewed one; changes in between are not announced.
    AwaitedAgain,
}

#[derive(Debug, Default)]
struct ResourceSubscription {
    /// The subscriptions that want the resource.
    subscribers: List,
    /// The request to the server, until it is answered.
    pending_request: Option<Key>,
}

/// The object of a legacy subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Topic {
    /// A kind of list, by its position.
    List(usize),
    Resource(Key),
}

/// A subscription among the others of a topic.
#[derive(Debug)]
struct Membership {
    subscription: Key,
    topic: Topic,
    links: ListLinks,
}

impl ListNode for Membership {
    fn list_links(&self) -> ListLinks {
        self.links
    }

    fn set_list_links(&mut self, links: ListLinks) {
        self.links = links;
    }
}

impl Subscription {
    const fn key(&self, key: Key) -> SubscriptionKey {
        SubscriptionKey::new(self.serial, key)
    }

    const fn is_acknowledged(&self) -> bool {
        matches!(self.acknowledgment, Acknowledgment::Received)
    }

    /// Records that the subscription was renewed.
    #[cfg(feature = "exchanges")]
    const fn await_again(&mut self) {
        if self.is_acknowledged() {
            self.acknowledgment = Acknowledgment::AwaitedAgain;
        }
    }

    /// Reports the subscription. What is subscribed again counts as changed, because changes may have been missed (SUB-016).
    fn acknowledge(&mut self, common: &mut CommonState, key: Key) {
        let is_renewed = self.acknowledgment == Acknowledgment::AwaitedAgain;
        self.acknowledgment = Acknowledgment::Received;
        let key = self.key(key);
        common.events.push_back(Event::Subscribed { key, honoured: self.filter() });
        if is_renewed {
            let lists =
                [Change::Tools, Change::Prompts, Change::Resources].into_iter().zip(self.lists.as_array());
            let lists = lists.filter_map(|(change, is_subscribed)| is_subscribed.then_some(change));
            let resources = self.uris.iter().map(|uri| Change::Resource(String::from(&**uri)));
            for change in lists.chain(resources) {
                common.events.push_back(Event::Changed { key: Some(key), change });
            }
        }
    }

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

impl Subscriptions {
    /// Adds a resource and sends `resources/subscribe` for it.
    fn add_resource(&mut self, common: &mut CommonState, main: Key, uri: Box<str>) -> Result<Key, UseError> {
        let resource = self.resources.insert(ResourceSubscription::default());
        let request = request_resource(common, main, resource, &uri).inspect_err(|_| {
            self.resources.remove(resource);
        })?;
        if let Some(entry) = self.resources.get_mut(resource) {
            entry.pending_request = Some(request);
        }
        self.by_uri.insert(uri, resource);
        Ok(resource)
    }

    /// Adds a subscription to a topic.
    fn join(&mut self, subscription: Key, topic: Topic) {
        let Some(sub) = self.slab.get_mut(subscription) else { return };
        let membership = self.memberships.insert(Membership { subscription, topic, links: ListLinks::NONE });
        sub.memberships.push(membership);
        if let Topic::Resource(resource) = topic {
            sub.unanswered += usize::from(is_pending(&self.resources, resource));
        }
        if let Some(list) = members(&mut self.lists, &mut self.resources, topic) {
            list.push(&mut self.memberships, membership);
        }
    }

    /// Removes a subscription from a topic. The topic may have been removed before, with all of its members.
    fn leave(&mut self, membership: Key) {
        let Some(topic) = self.memberships.get(membership).map(|membership| membership.topic) else { return };
        if let Some(list) = members(&mut self.lists, &mut self.resources, topic) {
            list.remove(&mut self.memberships, membership);
        }
        self.memberships.remove(membership);
    }

    /// Returns the memberships of a subscription in resources.
    fn in_resources<'s>(&'s self, sub: &'s Subscription) -> impl Iterator<Item = (Key, &'s Membership)> {
        sub.memberships.iter().filter_map(|key| match self.memberships.get(*key)? {
            Membership { topic: Topic::List(_), .. } => None,
            membership @ Membership { topic: Topic::Resource(resource), .. } => Some((*resource, membership)),
        })
    }

    /// Removes a subscription from the table, and from its lists and resources.
    fn remove(&mut self, key: Key) -> Option<Subscription> {
        let sub = self.slab.remove(key)?;
        sub.memberships.iter().for_each(|membership| self.leave(*membership));
        Some(sub)
    }

    /// Returns the subscription of an open request.
    fn find_by_listen(&mut self, common: &CommonState, listen: Key) -> Option<(Key, &mut Subscription)> {
        let CallPurpose::Listen(key) = common.endpoint.outbound.calls.get(listen)?.purpose else {
            return None;
        };
        let sub = self.slab.get_mut(key).filter(|sub| sub.listen == Some(listen))?;
        Some((key, sub))
    }

    /// Reports a legacy subscription whose requests have all been answered.
    fn acknowledge_if_answered(&mut self, common: &mut CommonState, key: Key) {
        let Some(sub) = self.slab.get_mut(key) else { return };
        if sub.listen.is_none() && !sub.is_acknowledged() && sub.unanswered == 0 {
            sub.acknowledge(common, key);
        }
    }

    /// Visits the resources that `uri` is or is a part of.
    ///
    /// Each step finds the last known URI up to a prefix of `uri` that would cover it. A shorter prefix can only be known
    /// if it is a prefix of what was found, too.
    fn visit_covering(&self, uri: &str, mut visit: impl FnMut(Key)) {
        let mut bound = uri;
        loop {
            let up_to = (Bound::Unbounded, Bound::Included(bound));
            let Some((known, resource)) = self.by_uri.range::<str, _>(up_to).next_back() else { return };
            if covers(known, uri) {
                visit(*resource);
            }
            let common = known.bytes().zip(uri.bytes()).take_while(|(a, b)| a == b).count();
            let ends = if common == known.len() { 0..common } else { 0..common + 1 };
            let shorter = ends.rev().find(|end| is_covered_by_prefix(uri, *end));
            let Some(shorter) = shorter.and_then(|end| uri.get(..end)) else { return };
            bound = shorter;
        }
    }
}

impl SubscriptionTable for Subscriptions {
    fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    fn subscribe(
        &mut self,
        common: &mut CommonState,
        filter: &SubscriptionFilter,
    ) -> Result<SubscriptionKey, UseError> {
        let (main, _) = common.ready_channel()?;
        let limits = &common.endpoint.limits;
        let mut sub = Subscription {
            serial: 0,
            lists: ListFlags::from_filter(filter),
            uris: sorted_uris(filter),
            memberships: Vec::new(),
            acknowledgment: Acknowledgment::Awaited,
            unanswered: 0,
            listen: None,
        };
        if self.slab.len() >= limits.max_subscriptions {
            return Err(UseError::Full(Limit::Subscriptions));
        }
        if sub.uris.len() > limits.max_subscribed_resources {
            return Err(UseError::Full(Limit::SubscribedResources));
        }
        if sub.uris.iter().any(|uri| uri.len() > limits.max_uri) {
            return Err(UseError::Full(Limit::UriLength));
        }
        if common.is_modern() {
            common.check_capacity(1)?;
            sub.serial = common.next_serial();
            let serial = sub.serial;
            let key = self.slab.insert(sub);
            match listen(common, main, key, filter) {
                Ok(request) => self.slab.get_mut(key).map(|sub| sub.listen = Some(request)),
                Err(error) => {
                    self.slab.remove(key);
                    return Err(error);
                }
            };
            return Ok(SubscriptionKey::new(serial, key));
        }
        sub.lists = sub.lists.intersection(promised_lists(common));
        if !common.peer_has(Capability::ResourceSubscriptions) {
            sub.uris.clear();
        }
        let known: Vec<Option<Key>> = sub.uris.iter().map(|uri| self.by_uri.get(uri).copied()).collect();
        if !known.is_empty() {
            common.check_capacity(known.iter().filter(|resource| resource.is_none()).count())?;
        }
        sub.serial = common.next_serial();
        let (serial, lists, uris) = (sub.serial, sub.lists, sub.uris.clone());
        let key = self.slab.insert(sub);
        for (list, _) in lists.as_array().into_iter().enumerate().filter(|(_, wanted)| *wanted) {
            self.join(key, Topic::List(list));
        }
        for (uri, known) in uris.into_iter().zip(known) {
            let resource = match known.map_or_else(|| self.add_resource(common, main, uri), Ok) {
                Ok(resource) => resource,
                Err(error) => {
                    self.remove(key);
                    return Err(error);
                }
            };
            self.join(key, Topic::Resource(resource));
        }
        self.acknowledge_if_answered(common, key);
        Ok(SubscriptionKey::new(serial, key))
    }

    fn unsubscribe(
        &mut self,
        common: &mut CommonState,
        subscription: SubscriptionKey,
    ) -> Result<(), UseError> {
        let key = subscription.slab_key();
        let sub = self.slab.get(key).filter(|sub| sub.key(key) == subscription).ok_or(UseError::Stale)?;
        if let Some(listen) = sub.listen {
            common.endpoint.send_cancellation(listen, None);
            common.endpoint.outbound.calls.remove(listen);
        } else {
            let is_last = |(resource, membership): (Key, &Membership)| {
                membership.links.is_alone() && self.resources.get(resource).is_some()
            };
            let memberships = sub.uris.iter().zip(self.in_resources(sub));
            let last: Vec<Box<str>> =
                memberships.filter(|(_, of)| is_last(*of)).map(|(uri, _)| uri.clone()).collect();
            common.check_capacity(last.len())?;
            let main = common.main_channel.ok_or(UseError::NotReady)?;
            for uri in last {
                let params = UriParams { uri: &uri };
                let purpose = CallPurpose::Internal;
                common.send_internal_request(main, purpose, methods::RESOURCES_UNSUBSCRIBE, &params)?;
                if let Some(resource) = self.by_uri.remove(&uri) {
                    self.resources.remove(resource);
                }
            }
        }
        self.remove(key);
        common.events.remove_subscription(subscription);
        Ok(())
    }

    // ---- modern era ----

    fn receive_acknowledged(&mut self, common: &mut CommonState, listen: Key, params: &[u8]) {
        let method = methods::ACKNOWLEDGED;
        let Ok(answer) = serde_json::from_slice::<SubscriptionsAcknowledgedParams>(params) else {
            return common.diagnose(Diagnostic::InvalidNotification(method.into()));
        };
        let found = self.find_by_listen(common, listen).filter(|(_, sub)| !sub.is_acknowledged());
        let Some((key, sub)) = found else {
            return common.diagnose(Diagnostic::UnsolicitedNotification(method.into()));
        };
        // The server cannot honour more than was requested (SUB-003).
        let honoured = sorted_uris(&answer.notifications);
        sub.lists = sub.lists.intersection(ListFlags::from_filter(&answer.notifications));
        sub.uris.retain(|uri| honoured.binary_search(uri).is_ok());
        sub.acknowledge(common, key);
        if let Some(call) = common.endpoint.outbound.calls.get_mut(listen) {
            call.disable_timeouts();
        }
    }

    fn listen_ended(&mut self, common: &mut CommonState, listen: Key, outcome: Result<(), CallError>) {
        let found = self.find_by_listen(common, listen).map(|(key, sub)| (key, sub.key(key)));
        common.endpoint.outbound.calls.remove(listen);
        common.endpoint.sweep();
        if let Some((key, subscription)) = found {
            self.remove(key);
            report_end(common, subscription, outcome.err());
        }
    }

    #[cfg(feature = "exchanges")]
    fn renew_listen(&mut self, common: &mut CommonState, request: Key) -> Option<Key> {
        let main = common.main_channel?;
        let (key, sub) = self.find_by_listen(common, request)?;
        let (filter, subscription) = (sub.filter(), sub.key(key));
        common.endpoint.outbound.calls.remove(request);
        match listen(common, main, key, &filter) {
            Ok(request) => {
                let sub = self.slab.get_mut(key)?;
                sub.listen = Some(request);
                sub.await_again();
                Some(request)
            }
            Err(error) => {
                self.remove(key);
                report_end(common, subscription, Some(CallError::Refused(error)));
                None
            }
        }
    }

    // ---- legacy era ----

    #[cfg(feature = "http")]
    fn renew_resources(&mut self, common: &mut CommonState, main: Key) {
        for (uri, resource) in &self.by_uri {
            // It was sent before, so it can fail only because of a limit.
            let Ok(request) = request_resource(common, main, *resource, uri) else { continue };
            if let Some(resource) = self.resources.get_mut(*resource) {
                resource.pending_request = Some(request);
            }
        }
        let unanswered = |(key, sub)| {
            let pending =
                self.in_resources(sub).filter(|(resource, _)| is_pending(&self.resources, *resource));
            (key, pending.count())
        };
        let unanswered: Vec<(Key, usize)> = self.slab.iter().map(unanswered).collect();
        for (key, unanswered) in unanswered {
            if let Some(sub) = self.slab.get_mut(key) {
                sub.unanswered = unanswered;
                sub.await_again();
            }
            self.acknowledge_if_answered(common, key);
        }
    }

    fn resource_answered(&mut self, common: &mut CommonState, request: Key, resource: Key, refused: bool) {
        let Some(entry) = self.resources.get_mut(resource).filter(|r| r.pending_request == Some(request))
        else {
            return;
        };
        entry.pending_request = None;
        let members = entry.subscribers.iter(&self.memberships);
        let members: Vec<(Key, Key)> = members.map(|(key, member)| (key, member.subscription)).collect();
        if refused {
            self.resources.remove(resource);
        }
        for (membership, key) in members {
            let Some(sub) = self.slab.get_mut(key) else { continue };
            sub.unanswered = sub.unanswered.saturating_sub(1);
            if let Some(at) =
                sub.memberships.iter().position(|other| *other == membership).filter(|_| refused)
            {
                let lists = sub.memberships.len().saturating_sub(sub.uris.len());
                sub.memberships.remove(at);
                self.by_uri.remove(&sub.uris.remove(at.saturating_sub(lists)));
                self.leave(membership);
            }
            self.acknowledge_if_answered(common, key);
        }
    }

    // ---- changes ----

    fn subscribers(&self, change: &Change) -> Vec<SubscriptionKey> {
        let mut wanting: Vec<SubscriptionKey> = Vec::new();
        let mut add = |list: &List| {
            for (_, Membership { subscription: key, .. }) in list.iter(&self.memberships) {
                let sub = self.slab.get(*key).filter(|sub| sub.is_acknowledged());
                if let Some(subscription) = sub.map(|sub| sub.key(*key)) {
                    // In the order in which they were made; those of several resources are merged.
                    if let Err(at) = wanting.binary_search(&subscription) {
                        wanting.insert(at, subscription);
                    }
                }
            }
        };
        let [tools, prompts, resources] = &self.lists;
        match change {
            Change::Tools => add(tools),
            Change::Prompts => add(prompts),
            Change::Resources => add(resources),
            Change::Resource(uri) => self.visit_covering(uri, |resource| {
                if let Some(resource) = self.resources.get(resource) {
                    add(&resource.subscribers);
                }
            }),
        }
        wanting
    }

    fn subscriber(&mut self, common: &CommonState, listen: Key, change: &Change) -> Option<SubscriptionKey> {
        let (key, sub) = self.find_by_listen(common, listen)?;
        // Only the server knows which resources are parts of the subscribed ones.
        let may_be_part = matches!(change, Change::Resource(_)) && !sub.uris.is_empty();
        (sub.is_acknowledged() && (may_be_part || sub.wants(change))).then(|| sub.key(key))
    }

    fn end_all(&mut self, common: &mut CommonState, error: &CallError) {
        let ended = core::mem::take(self);
        for (key, sub) in ended.slab.iter() {
            report_end(common, sub.key(key), Some(error.clone()));
        }
    }
}

/// Returns the members of a topic.
fn members<'s>(
    lists: &'s mut [List; 3],
    resources: &'s mut Slab<ResourceSubscription>,
    topic: Topic,
) -> Option<&'s mut List> {
    match topic {
        Topic::List(list) => lists.get_mut(list),
        Topic::Resource(resource) => resources.get_mut(resource).map(|resource| &mut resource.subscribers),
    }
}

/// Returns whether the server has not answered for a resource.
fn is_pending(resources: &Slab<ResourceSubscription>, resource: Key) -> bool {
    resources.get(resource).is_some_and(|resource| resource.pending_request.is_some())
}

fn report_end(common: &mut CommonState, key: SubscriptionKey, error: Option<CallError>) {
    common.events.push_back(Event::SubscriptionEnded { key, graceful: error.is_none(), error });
}

/// Returns the lists whose changes a legacy server announces.
fn promised_lists(common: &CommonState) -> ListFlags {
    ListFlags {
        tools: common.peer_has(Capability::ToolsListChanged),
        prompts: common.peer_has(Capability::PromptsListChanged),
        resources: common.peer_has(Capability::ResourcesListChanged),
    }
}

/// Sends `subscriptions/listen` for a subscription. Returns the request.
fn listen(
    common: &mut CommonState,
    main: Key,
    subscription: Key,
    filter: &SubscriptionFilter,
) -> Result<Key, UseError> {
    #[derive(Serialize)]
    struct ListenParams<'a> {
        notifications: &'a SubscriptionFilter,
    }
    let (_, version) = common.ready_channel()?;
    let endpoint = &mut common.endpoint;
    let purpose = CallPurpose::Listen(subscription);
    let call = OutboundCall::new(endpoint.now, main, purpose, &CallOptions::new(), &endpoint.limits);
    let key = endpoint.outbound.calls.insert(call);
    // Without a log level, because nothing is logged for this request (LOG-009).
    let base_meta = Some(common.config.request_meta(version));
    let request = OutboundRequest {
        method: methods::SUBSCRIPTIONS_LISTEN,
        base_meta,
        meta: None,
        wants_progress: false,
    };
    let params = ListenParams { notifications: filter };
    let sent =
        endpoint.send_request(key, &request, |out| Serializer::object(out, &params, shape::table(version)));
    if let Err(error) = sent {
        endpoint.outbound.calls.remove(key);
        return Err(error);
    }
    Ok(key)
}

/// Sends `resources/subscribe`. Returns the request.
fn request_resource(common: &mut CommonState, main: Key, resource: Key, uri: &str) -> Result<Key, UseError> {
    let purpose = CallPurpose::Subscribe(resource);
    common.send_internal_request(main, purpose, methods::RESOURCES_SUBSCRIBE, &UriParams { uri })
}

#[derive(Serialize)]
struct UriParams<'a> {
    uri: &'a str,
}

#[cfg(test)]
#[path = "subscriptions_tests.rs"]
mod tests;
