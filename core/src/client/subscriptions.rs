//! Subscriptions to changes, with one filter in both eras (SUB, RES-010, RES-013).
//!
//! A modern subscription is an open `subscriptions/listen` request, whose id its notifications carry. A legacy server
//! knows resource subscriptions only, once per resource. The subscriptions of each resource are known, and a change is
//! assigned to those that want it. An acknowledged subscription has no deadline; that of its request is in the shared
//! heap, where every call has one.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Bound;

use serde::Serialize;

use super::common::CommonState;
use super::event::{Event, SubscriptionKey};
use crate::calls::outbound::{CallOptions, CallPurpose, OutboundCall, ResponseMatch};
use crate::calls::outbound_requests::OutboundRequest;
use crate::change::Change;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, UseError};
use crate::json::{Serializer, member, object_members, string};
use crate::limits::Limit;
use crate::listen_filter::{CustomLists, ListSet, ListenFilter, PROMPTS, RESOURCES, TOOLS, declared_lists};
use crate::methods::{self, Capability};
use crate::model::SubscriptionFilter;
use crate::shape;
use crate::slab::list::{List, ListLinks};
use crate::slab::{Key, Slab, links};

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
    lists: ListSet,
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

links! { Membership: list links }

impl Subscription {
    const fn key(&self, key: Key) -> SubscriptionKey {
        SubscriptionKey::new(self.serial, key)
    }

    const fn is_acknowledged(&self) -> bool {
        matches!(self.acknowledgment, Acknowledgment::Received)
    }

    /// Records that the subscription was renewed.
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
        let custom = &common.config.custom_lists;
        common.events.push_back(Event::Subscribed { key, honoured: self.filter(custom) });
        if is_renewed {
            let resources = self.uris.iter().map(|uri| Change::Resource(String::from(&**uri)));
            for change in custom.changes(self.lists).chain(resources) {
                common.events.push_back(Event::Changed { key: Some(key), change });
            }
        }
    }

    fn wants(&self, change: &Change, custom: &CustomLists) -> bool {
        match change {
            Change::Resource(uri) => self.uris.iter().any(|resource| covers(resource, uri)),
            list => self.lists & custom.set_of(list) != 0,
        }
    }

    /// Returns the filter for the application.
    fn filter(&self, custom: &CustomLists) -> SubscriptionFilter {
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = (self.lists & TOOLS != 0).then_some(true);
        filter.prompts_list_changed = (self.lists & PROMPTS != 0).then_some(true);
        filter.resources_list_changed = (self.lists & RESOURCES != 0).then_some(true);
        let uris = || self.uris.iter().map(|uri| String::from(&**uri)).collect();
        filter.resource_subscriptions = (!self.uris.is_empty()).then(uris);
        let wanted = custom.iter().filter(|(bit, _)| self.lists & bit != 0);
        wanted.fold(filter, |filter, (_, list)| filter.custom_list(list))
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
            // Another subscription may have requested the resource, and the answer is still to come.
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
        // A resource that covers `uri` is a prefix of it. The greatest known key up to `bound` is the longest such
        // prefix, or limits the length of the next one.
        let mut bound = uri;
        loop {
            let up_to = (Bound::Unbounded, Bound::Included(bound));
            let Some((known, resource)) = self.by_uri.range::<str, _>(up_to).next_back() else { return };
            if covers(known, uri) {
                visit(*resource);
            }
            // A prefix of `uri` that sorts before `known` is no longer than what both share. So `bound` shrinks in each
            // turn, and the loop ends.
            let common = known.bytes().zip(uri.bytes()).take_while(|(a, b)| a == b).count();
            let ends = if common == known.len() { 0..common } else { 0..common + 1 };
            let shorter = ends.rev().find(|end| is_covered_by_prefix(uri, *end));
            let Some(shorter) = shorter.and_then(|end| uri.get(..end)) else { return };
            bound = shorter;
        }
    }
}

impl Subscriptions {
    pub(in crate::client) fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Adds a subscription and requests what it needs of the server.
    ///
    /// # Errors
    ///
    /// As [`Engine::subscribe`](super::Engine::subscribe).
    pub(in crate::client) fn subscribe(
        &mut self,
        common: &mut CommonState,
        filter: &SubscriptionFilter,
    ) -> Result<SubscriptionKey, UseError> {
        let (main, _) = common.ready_channel()?;
        let limits = &common.endpoint.limits;
        let mut sub = Subscription {
            serial: 0,
            lists: lists_of(filter, &common.config.custom_lists),
            uris: sorted_uris(filter.resource_subscriptions.iter().flatten()),
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
        if !common.is_modern() {
            return self.subscribe_to_topics(common, main, sub);
        }
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
        Ok(SubscriptionKey::new(serial, key))
    }

    /// Adds a subscription of the legacy era, which shares lists and resources with others.
    ///
    /// # Errors
    ///
    /// As [`Engine::subscribe`](super::Engine::subscribe).
    fn subscribe_to_topics(
        &mut self,
        common: &mut CommonState,
        main: Key,
        mut sub: Subscription,
    ) -> Result<SubscriptionKey, UseError> {
        // What the server does not offer is left out, not refused: `Event::Subscribed` names what is honoured.
        sub.lists &= promised_lists(common);
        if !common.peer_has(Capability::ResourceSubscriptions) {
            sub.uris.clear();
        }
        // Checked for all resources before the first request is sent: a subscription is whole or not there.
        let known: Vec<Option<Key>> = sub.uris.iter().map(|uri| self.by_uri.get(uri).copied()).collect();
        if !known.is_empty() {
            common.check_capacity(known.iter().filter(|resource| resource.is_none()).count())?;
        }
        sub.serial = common.next_serial();
        let (serial, lists, uris) = (sub.serial, sub.lists, sub.uris.clone());
        let key = self.slab.insert(sub);
        for list in (0..self.lists.len()).filter(|list| lists & 1 << list != 0) {
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
        // Others may have subscribed to all of it before, so there may be nothing to wait for.
        self.acknowledge_if_answered(common, key);
        Ok(SubscriptionKey::new(serial, key))
    }

    /// Ends a subscription at the request of the application.
    ///
    /// # Errors
    ///
    /// As [`Engine::unsubscribe`](super::Engine::unsubscribe).
    pub(in crate::client) fn unsubscribe(
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
            // All requests or none: a refused command changes nothing (DESIGN-27).
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
        // Events that wait to be polled are removed, too (SUB-012).
        common.events.remove_subscription(subscription);
        Ok(())
    }

    // ---- modern era ----

    /// Handles the acknowledgment of the subscription of an open request (SUB-006, SUB-007).
    pub(in crate::client) fn receive_acknowledged(
        &mut self,
        common: &mut CommonState,
        channel: Key,
        params: &[u8],
    ) {
        let method = methods::ACKNOWLEDGED;
        let invalid = || Diagnostic::InvalidNotification(method.into());
        let mut has_filter = false;
        object_members(params, |name, value| {
            has_filter |= name == b"notifications" && value.starts_with(b"{")
        });
        if !has_filter {
            return common.diagnose(invalid());
        }
        // One that was sent before its subscription ended is not read.
        let Some(listen) = subscription_of(common, channel, method, params) else { return };
        let Ok(answer) = ListenFilter::read(params, &common.config.custom_lists) else {
            return common.diagnose(invalid());
        };
        let found = self.find_by_listen(common, listen).filter(|(_, sub)| !sub.is_acknowledged());
        let Some((key, sub)) = found else {
            return common.diagnose(Diagnostic::UnsolicitedNotification(method.into()));
        };
        // The server cannot honour more than was requested (SUB-003).
        let honoured = sorted_uris(answer.resources.iter().flatten());
        sub.lists &= answer.lists;
        sub.uris.retain(|uri| honoured.binary_search(uri).is_ok());
        sub.acknowledge(common, key);
        // The request is open as long as the subscription, so silence is no timeout any more.
        if let Some(call) = common.endpoint.outbound.calls.get_mut(listen) {
            call.disable_timeouts();
        }
    }

    /// Handles the outcome of `subscriptions/listen`.
    pub(in crate::client) fn listen_ended(
        &mut self,
        common: &mut CommonState,
        listen: Key,
        outcome: Result<(), CallError>,
    ) {
        let found = self.find_by_listen(common, listen).map(|(key, sub)| (key, sub.key(key)));
        common.endpoint.outbound.calls.remove(listen);
        common.endpoint.sweep();
        if let Some((key, subscription)) = found {
            self.remove(key);
            report_end(common, subscription, outcome.err());
        }
    }

    /// Renews a subscription whose request was lost (SUB-016). Returns the new request.
    ///
    /// The subscription will be acknowledged again, because changes may have been missed.
    pub(in crate::client) fn renew_listen(&mut self, common: &mut CommonState, request: Key) -> Option<Key> {
        let main = common.main_channel?;
        let (key, sub) = self.find_by_listen(common, request)?;
        let (filter, subscription) = (sub.filter(&common.config.custom_lists), sub.key(key));
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

    /// Renews the resource subscriptions in a new session of a legacy server.
    ///
    /// The subscriptions will be acknowledged again, because changes may have been missed.
    #[cfg(feature = "http")]
    pub(in crate::client) fn renew_resources(&mut self, common: &mut CommonState, main: Key) {
        let mut unsent = Vec::new();
        for (uri, resource) in &self.by_uri {
            match request_resource(common, main, *resource, uri) {
                Ok(request) => {
                    if let Some(resource) = self.resources.get_mut(*resource) {
                        resource.pending_request = Some(request);
                    }
                }
                // It was sent before, so it can fail only because of a limit.
                Err(_) => unsent.push(*resource),
            }
        }
        for resource in unsent {
            self.drop_resource(resource);
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

    /// Handles the answer to the request for a resource.
    pub(in crate::client) fn resource_answered(
        &mut self,
        common: &mut CommonState,
        request: Key,
        resource: Key,
        refused: bool,
    ) {
        let Some(entry) = self.resources.get_mut(resource).filter(|r| r.pending_request == Some(request))
        else {
            return;
        };
        entry.pending_request = None;
        let members = entry.subscribers.iter(&self.memberships);
        let subscriptions: Vec<Key> = members.map(|(_, member)| member.subscription).collect();
        if refused {
            self.drop_resource(resource);
        }
        for key in subscriptions {
            if let Some(sub) = self.slab.get_mut(key) {
                sub.unanswered = sub.unanswered.saturating_sub(1);
            }
            self.acknowledge_if_answered(common, key);
        }
    }

    /// Takes a resource that the server does not follow out of the subscriptions.
    fn drop_resource(&mut self, resource: Key) {
        let Some(entry) = self.resources.get(resource) else { return };
        let members = entry.subscribers.iter(&self.memberships);
        let members: Vec<(Key, Key)> = members.map(|(key, member)| (key, member.subscription)).collect();
        // The resource goes first: `leave` then finds no topic and removes only the membership.
        self.resources.remove(resource);
        for (membership, key) in members {
            let Some(sub) = self.slab.get_mut(key) else { continue };
            if let Some(at) = sub.memberships.iter().position(|other| *other == membership) {
                // Memberships in lists come before those in resources, which are in the order of `uris`.
                let lists = sub.memberships.len().saturating_sub(sub.uris.len());
                sub.memberships.remove(at);
                self.by_uri.remove(&sub.uris.remove(at.saturating_sub(lists)));
                self.leave(membership);
            }
        }
    }

    // ---- changes ----

    /// Returns the subscriptions that want a change of a legacy server, in the order in which they were made.
    pub(in crate::client) fn subscribers(&self, change: &Change) -> Vec<SubscriptionKey> {
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
            // The legacy era has none.
            Change::Custom(_) => {}
            Change::Resource(uri) => self.visit_covering(uri, |resource| {
                if let Some(resource) = self.resources.get(resource) {
                    add(&resource.subscribers);
                }
            }),
        }
        wanting
    }

    /// Returns the subscription of an open request, if it wants the change.
    pub(in crate::client) fn subscriber(
        &mut self,
        common: &CommonState,
        listen: Key,
        change: &Change,
    ) -> Option<SubscriptionKey> {
        let (key, sub) = self.find_by_listen(common, listen)?;
        // Only the server knows which resources are parts of the subscribed ones.
        let may_be_part = matches!(change, Change::Resource(_)) && !sub.uris.is_empty();
        let is_wanted = may_be_part || sub.wants(change, &common.config.custom_lists);
        (sub.is_acknowledged() && is_wanted).then(|| sub.key(key))
    }

    /// Ends all subscriptions with the connection (SUB-015, SUB-017).
    pub(in crate::client) fn end_all(&mut self, common: &mut CommonState, error: &CallError) {
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
fn promised_lists(common: &CommonState) -> ListSet {
    declared_lists(|capability| common.peer_has(capability))
}

/// Returns the lists of a filter.
fn lists_of(filter: &SubscriptionFilter, custom: &CustomLists) -> ListSet {
    let is_set = |flag: Option<bool>, list| if flag == Some(true) { list } else { 0 };
    let of_protocol = is_set(filter.tools_list_changed, TOOLS)
        | is_set(filter.prompts_list_changed, PROMPTS)
        | is_set(filter.resources_list_changed, RESOURCES);
    custom
        .iter()
        .filter(|(_, list)| filter.has_custom_list(*list))
        .fold(of_protocol, |all, (bit, _)| all | bit)
}

/// Returns URIs sorted and without duplicates.
fn sorted_uris<'a>(given: impl Iterator<Item = &'a String>) -> Vec<Box<str>> {
    let mut uris: Vec<Box<str>> = given.map(|uri| Box::from(&**uri)).collect();
    uris.sort_unstable();
    uris.dedup();
    uris
}

/// Returns whether `uri` is the resource or a part of it (RES-011).
pub(super) fn covers(resource: &str, uri: &str) -> bool {
    uri.starts_with(resource) && is_covered_by_prefix(uri, resource.len())
}

/// Returns whether `uri` is the resource whose URI is its first `end` bytes, or a part of it.
pub(super) fn is_covered_by_prefix(uri: &str, end: usize) -> bool {
    let (prefix, rest) = uri.as_bytes().split_at_checked(end).unwrap_or_default();
    // A part begins at a delimiter: `file:///ab` is no part of `file:///a` (RES-011).
    rest.is_empty() || prefix.ends_with(b"/") || matches!(rest, [b'/' | b'?' | b'#', ..])
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
    let sent = endpoint
        .send_request(key, &request, &mut |out| Serializer::object(out, &params, shape::table(version)));
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

// Notifications, and the subscriptions that they are of.

impl Subscriptions {
    /// Handles a change notification; returns false if it is something else. A server may send one to a client without any
    /// subscription: a change of a list is reported, because a cached list is outdated, and anything else is diagnosed.
    pub(super) fn receive_change(
        &mut self,
        common: &mut CommonState,
        channel: Key,
        method: &str,
        params: &[u8],
    ) -> bool {
        let change = match method {
            methods::RESOURCE_UPDATED => match member(params, "uri").and_then(string).map(Cow::into_owned) {
                Some(uri) => Change::Resource(uri),
                None => {
                    common.diagnose(Diagnostic::InvalidNotification(method.into()));
                    return true;
                }
            },
            _ => match common.config.custom_lists.announced_by(method) {
                // Legacy revisions have no such lists, so this is a notification as any other.
                Some(Change::Custom(_)) if !common.is_modern() => return false,
                Some(change) => change,
                None => return false,
            },
        };
        if !common.is_modern() {
            let wanting = self.subscribers(&change);
            receive_legacy_change(common, method, change, wanting);
            return true;
        }
        let Some(listen) = subscription_of(common, channel, method, params) else { return true };
        match self.subscriber(common, listen, &change) {
            Some(subscription) => common.events.push_change(Some(subscription), change),
            // SUB-003, SUB-004
            None => common.diagnose(Diagnostic::UnsolicitedNotification(method.into())),
        }
        true
    }
}

/// Assigns a change of a legacy server to the subscriptions that want it.
fn receive_legacy_change(
    common: &mut CommonState,
    method: &str,
    change: Change,
    mut wanting: Vec<SubscriptionKey>,
) {
    // List changes are sent to every client; a resource change needs a subscription (RES-028).
    let Some(last) = wanting.pop() else {
        if matches!(change, Change::Resource(_)) {
            return common.diagnose(Diagnostic::UnsolicitedNotification(method.into()));
        }
        // A cached list is outdated even without a subscription.
        return common.events.push_change(None, change);
    };
    for subscription in wanting {
        common.events.push_change(Some(subscription), change.clone());
    }
    common.events.push_change(Some(last), change);
}

/// Returns whether an outbound call is the request of a subscription.
pub(super) fn is_listen(common: &CommonState, key: Key) -> bool {
    common.endpoint.outbound.calls.get(key).is_some_and(|c| matches!(c.purpose, CallPurpose::Listen(_)))
}

/// Returns the open request of a notification, by the subscription id in its `_meta` (SUB-008, SUB-009).
fn subscription_of(common: &mut CommonState, channel: Key, method: &str, params: &[u8]) -> Option<Key> {
    let id = common.subscription_id(params);
    match id.map(|id| common.endpoint.match_response(channel, &id)) {
        Some(ResponseMatch::Live(key)) if is_listen(common, key) => return Some(key),
        // The notification was sent before the subscription ended.
        Some(ResponseMatch::Late) => {}
        _ => common.diagnose(Diagnostic::UnsolicitedNotification(method.into())),
    }
    None
}

#[cfg(test)]
#[path = "subscriptions_tests.rs"]
mod tests;
