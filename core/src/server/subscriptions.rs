//! The table of subscriptions of both eras, indexed by change (SUB, RES).
//!
//! Change notifications are level-triggered. A listener with an unsent notification gets no second one, so a slow
//! listener costs one bit per list or resource instead of a queue.
//!
//! No operation visits subscriptions that it does not concern, except that a change visits all its subscribers.

use alloc::vec::Vec;

use crate::change::Change;
use crate::listen_filter::{CustomLists, ListSet, bit};
use crate::rpc::RequestId;
use crate::slab::list::{List, ListLinks};
use crate::slab::tree::{Tree, TreeLinks};
use crate::slab::{Key, Slab, links};
use crate::sync::Arc;
use crate::time::Instant;

/// A listener: a `subscriptions/listen` request (modern) or the session of a channel (legacy).
#[derive(Debug)]
pub(super) struct ChangeListener {
    channel: Key,
    /// Id of the `subscriptions/listen` request; `None` for a session.
    id: Option<RequestId>,
    /// Lists that the listener subscribes to.
    lists: ListSet,
    /// Lists that were announced in `epoch`.
    notified: ListSet,
    /// Lists whose notification is deferred until there is room.
    deferred: ListSet,
    epoch: u32,
    /// Position among the listeners of the same lists.
    position: u32,
    /// Subscriptions to resources, ordered by resource.
    resources: Tree,
    /// Links of the listeners of the channel.
    links: TreeLinks,
}

links! { ChangeListener: tree links }

/// The listeners of a channel, ordered by id; that of a session is the first one.
#[derive(Debug)]
pub(super) struct ChannelListeners {
    by_id: Tree,
    count: u32,
    /// Number of subscriptions to resources, of all listeners.
    resources: u32,
}

impl ChannelListeners {
    pub(super) const fn new() -> Self {
        Self { by_id: Tree::new(), count: 0, resources: 0 }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) const fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns the number of subscriptions to resources.
    pub(super) const fn resource_count(&self) -> usize {
        self.resources as usize
    }
}

/// A resource with at least one subscriber.
#[derive(Debug)]
struct SubscribedResource {
    uri: Arc<str>,
    subscribers: List,
    /// Links of all resources, ordered by URI.
    links: TreeLinks,
}

links! { SubscribedResource: tree links }

/// The subscription of a listener to a resource.
#[derive(Debug)]
struct ResourceSubscription {
    /// Slots of the listener and of the resource; both exist as long as the subscription.
    listener: u32,
    resource: u32,
    /// Epoch of the last notification.
    epoch: u32,
    deferred: bool,
    /// Links of the subscribers of the resource.
    subscribers: ListLinks,
    /// Links of the subscriptions of the listener.
    links: TreeLinks,
}

links! { ResourceSubscription: list subscribers, tree links }

/// The change notifications that were sent last on a channel, and those that are deferred.
#[derive(Debug)]
pub(super) struct SentChanges {
    /// Position of the first byte in the output of the channel.
    start: u64,
    /// Position after the last byte.
    end: u64,
    /// Number of times that all notifications had been written.
    epoch: u32,
    /// Deadline for the deferred notifications.
    due_at: Instant,
    /// Interests whose notification is deferred, each once, and some that have ended.
    deferred: Vec<Interest>,
}

impl Default for SentChanges {
    fn default() -> Self {
        Self { start: 0, end: 0, epoch: 0, due_at: Instant::FAR_FUTURE, deferred: Vec::new() }
    }
}

impl SentChanges {
    /// Begins an epoch if all earlier notifications were written, so that a new one reports a new change.
    pub(super) fn begin(&mut self, consumed: u64, unsent: usize) -> bool {
        let all_consumed = consumed >= self.end;
        if all_consumed {
            // Never 0, with which listeners and subscriptions begin: they were notified in no epoch.
            self.epoch = self.epoch.wrapping_add(1).max(1);
            self.start = consumed + unsent as u64;
        }
        all_consumed
    }

    /// Returns whether a part of the notifications was written.
    pub(super) const fn is_begun(&self, consumed: u64) -> bool {
        consumed > self.start
    }

    pub(super) const fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(super) const fn set_end(&mut self, end: u64) {
        self.end = end;
    }

    /// Adds a deferred notification; `live` is the number of interests that the channel has.
    pub(super) fn push_deferred(
        &mut self,
        interest: Interest,
        live: usize,
        is_deferred: impl Fn(Interest) -> bool,
    ) {
        // When most of them can be dead, so the cost of a push stays constant on average.
        if self.deferred.len() > live.saturating_mul(2).saturating_add(32) {
            self.deferred.retain(|interest| is_deferred(*interest));
        }
        self.deferred.push(interest);
    }

    /// Sets the deadline, unless there is an earlier one. Returns whether it was set.
    pub(super) fn schedule(&mut self, at: Instant) -> bool {
        let is_earlier = at < self.due_at;
        self.due_at = self.due_at.min(at);
        is_earlier
    }

    /// Takes the deferred notifications, if their deadline has passed.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Vec<Interest>> {
        if self.due_at > now {
            return None;
        }
        self.due_at = Instant::FAR_FUTURE;
        Some(core::mem::take(&mut self.deferred))
    }
}

/// A list or a subscribed resource that has changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChangeTarget {
    /// A list, by its position among those that the configuration has ([`CustomLists`]).
    List(usize),
    Resource(Key),
}

/// The interest of one listener in one list or resource.
#[derive(Clone, Copy, Debug)]
pub(super) enum Interest {
    /// A listener, and the position of the list.
    List(Key, usize),
    /// A subscription to a resource.
    Resource(Key),
}

/// The interests in a target, one after the other; valid while no listener is opened or closed.
#[derive(Debug)]
pub(super) enum Interests {
    /// Position of a list, and of a set of lists, and one among the listeners of that set.
    List(usize, usize, usize),
    /// The next subscription to a resource.
    Resource(Option<Key>),
}

#[derive(Debug)]
pub(super) struct Subscriptions {
    listeners: Slab<ChangeListener>,
    /// Each set of lists that a listener has, with the slots of its listeners, in the order of the sets.
    by_lists: Vec<(ListSet, Vec<u32>)>,
    resources: Slab<SubscribedResource>,
    /// The resources, ordered by URI.
    by_uri: Tree,
    subscriptions: Slab<ResourceSubscription>,
    /// Invariant: the bytes of the URIs of all resources.
    uri_bytes: usize,
}

impl Subscriptions {
    pub(super) const fn new() -> Self {
        Self {
            listeners: Slab::new(),
            by_lists: Vec::new(),
            resources: Slab::new(),
            by_uri: Tree::new(),
            subscriptions: Slab::new(),
            uri_bytes: 0,
        }
    }

    /// Returns the bytes of the URIs and of the entries.
    pub(super) fn byte_len(&self) -> usize {
        let entries = self.listeners.len() * size_of::<ChangeListener>()
            + self.resources.len() * size_of::<SubscribedResource>()
            + self.subscriptions.len() * size_of::<ResourceSubscription>();
        self.uri_bytes + entries
    }

    /// Panics if the sum of the bytes differs from what it sums.
    #[cfg(any(debug_assertions, test))]
    pub(super) fn check_sums(&self) {
        assert_eq!(self.uri_bytes, self.uris().map(str::len).sum::<usize>(), "the bytes of all URIs");
    }

    /// Adds a listener of a channel, which has none with this id.
    pub(super) fn open(
        &mut self,
        of: &mut ChannelListeners,
        channel: Key,
        id: Option<RequestId>,
        lists: ListSet,
    ) -> Option<Key> {
        let place = of.by_id.place(&mut self.listeners, |_, other| other.id.cmp(&id)).ok()?;
        let listener = ChangeListener {
            channel,
            id,
            lists,
            notified: 0,
            deferred: 0,
            epoch: 0,
            position: 0,
            resources: Tree::new(),
            links: TreeLinks::default(),
        };
        let key = self.listeners.insert(listener);
        of.by_id.insert(&mut self.listeners, place, key);
        of.count += 1;
        // A listener of no list is in no set, and its position is never used.
        let peers = listeners_of(&mut self.by_lists, lists);
        if let (Some(peers), Some(listener)) = (peers, self.listeners.get_mut(key)) {
            listener.position = u32::try_from(peers.len()).unwrap_or(u32::MAX);
            peers.push(key.slot);
        }
        Some(key)
    }

    /// Returns the listener of a channel with an id, or that of its session.
    pub(super) fn find(&mut self, of: &mut ChannelListeners, id: Option<&RequestId>) -> Option<Key> {
        of.by_id.find(&mut self.listeners, |_, other| other.id.as_ref().cmp(&id))
    }

    /// Returns all listeners of a channel that are requests.
    pub(super) fn requests(&mut self, of: &ChannelListeners) -> Vec<Key> {
        let mut keys = of.by_id.keys(&mut self.listeners);
        keys.retain(|key| self.id(*key).is_some());
        keys
    }

    /// Returns the id of the `subscriptions/listen` request; `None` for a session.
    pub(super) fn id(&self, listener: Key) -> Option<&RequestId> {
        self.listeners.get(listener)?.id.as_ref()
    }

    /// Subscribes a listener to a resource. Returns the URI if this is the first subscriber.
    pub(super) fn subscribe(&mut self, of: &mut ChannelListeners, key: Key, uri: &str) -> Option<Arc<str>> {
        let listener = self.listeners.get_mut(key)?;
        let place = self.by_uri.place(&mut self.resources, |_, other| (*other.uri).cmp(uri));
        let known = place.err();
        let slot = known.map_or(u32::MAX, |resource| resource.slot);
        let subscriptions = &mut self.subscriptions;
        if known.is_some()
            && listener.resources.find(subscriptions, |_, other| other.resource.cmp(&slot)).is_some()
        {
            return None;
        }
        let (resource, first) = match known {
            Some(resource) => (resource, None),
            None => {
                let uri = Arc::<str>::from(uri);
                let links = TreeLinks::default();
                let resource = SubscribedResource { uri: Arc::clone(&uri), subscribers: List::new(), links };
                let resource = self.resources.insert(resource);
                self.uri_bytes += uri.len();
                if let Ok(place) = place {
                    self.by_uri.insert(&mut self.resources, place, resource);
                }
                (resource, Some(uri))
            }
        };
        let slot = resource.slot;
        if let Ok(place) = listener.resources.place(subscriptions, |_, other| other.resource.cmp(&slot)) {
            let subscription = subscriptions.insert(ResourceSubscription {
                listener: key.slot,
                resource: slot,
                epoch: 0,
                deferred: false,
                subscribers: ListLinks::NONE,
                links: TreeLinks::default(),
            });
            listener.resources.insert(subscriptions, place, subscription);
            if let Some(resource) = self.resources.get_mut(resource) {
                resource.subscribers.push(subscriptions, subscription);
            }
            of.resources += 1;
        }
        first
    }

    /// Unsubscribes a listener from a resource. Returns the URI if this was the last subscriber.
    pub(super) fn unsubscribe(&mut self, of: &mut ChannelListeners, key: Key, uri: &str) -> Option<Arc<str>> {
        let slot = self.find_resource(uri)?.slot;
        let tree = &mut self.listeners.get_mut(key)?.resources;
        let order = |_, other: &ResourceSubscription| other.resource.cmp(&slot);
        let subscription = tree.find(&mut self.subscriptions, order)?;
        tree.remove(&mut self.subscriptions, subscription, order);
        of.resources = of.resources.saturating_sub(1);
        self.remove_subscriber(subscription)
    }

    /// Removes a subscription from its resource.
    fn remove_subscriber(&mut self, subscription: Key) -> Option<Arc<str>> {
        let key = self.resources.key_at(self.subscriptions.get(subscription)?.resource)?;
        let resource = self.resources.get_mut(key)?;
        resource.subscribers.remove(&mut self.subscriptions, subscription);
        self.subscriptions.remove(subscription);
        if !resource.subscribers.is_empty() {
            return None;
        }
        let uri = Arc::clone(&resource.uri);
        // Before the entry goes, which has the links of the tree.
        self.by_uri.remove(&mut self.resources, key, |_, other| other.uri.cmp(&uri));
        self.resources.remove(key);
        self.uri_bytes = self.uri_bytes.saturating_sub(uri.len());
        Some(uri)
    }

    /// Returns the resource with a URI.
    fn find_resource(&mut self, uri: &str) -> Option<Key> {
        self.by_uri.find(&mut self.resources, |_, other| (*other.uri).cmp(uri))
    }

    /// Returns the resources that a listener subscribes to.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "sessions move over HTTP alone"))]
    pub(super) fn resources_of(&mut self, listener: Key) -> Vec<Arc<str>> {
        let Some(listener) = self.listeners.get(listener) else { return Vec::new() };
        let subscriptions = listener.resources.keys(&mut self.subscriptions);
        let uri = |key: Key| Some(Arc::clone(&self.resources.at(self.subscriptions.get(key)?.resource)?.uri));
        subscriptions.into_iter().filter_map(uri).collect()
    }

    /// Returns all interests of a listener.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "sessions move over HTTP alone"))]
    pub(super) fn interests_of(&mut self, key: Key) -> Vec<Interest> {
        let Some(listener) = self.listeners.get(key) else { return Vec::new() };
        let lists = (0..ListSet::BITS as usize).filter(|list| listener.lists & bit(*list) != 0);
        let lists: Vec<Interest> = lists.map(|list| Interest::List(key, list)).collect();
        let resources = listener.resources.keys(&mut self.subscriptions);
        lists.into_iter().chain(resources.into_iter().map(Interest::Resource)).collect()
    }

    /// Removes a listener of a channel. Returns the URIs that have no subscribers any more.
    pub(super) fn close(&mut self, of: &mut ChannelListeners, key: Key) -> Vec<Arc<str>> {
        let Some(listener) = self.listeners.get_mut(key) else { return Vec::new() };
        // The id is compared with those of other listeners only.
        let id = listener.id.take();
        of.by_id.remove(&mut self.listeners, key, |_, other| other.id.cmp(&id));
        of.count = of.count.saturating_sub(1);
        let Some(listener) = self.listeners.remove(key) else { return Vec::new() };
        if let Some(peers) = listeners_of(&mut self.by_lists, listener.lists) {
            let at = listener.position as usize;
            if at < peers.len() {
                peers.swap_remove(at);
            }
            // `swap_remove` has put the last listener here, so its position changes.
            let moved = peers.get(at).and_then(|slot| self.listeners.key_at(*slot));
            if let Some(moved) = moved.and_then(|key| self.listeners.get_mut(key)) {
                moved.position = listener.position;
            }
        }
        let subscriptions = listener.resources.keys(&mut self.subscriptions);
        of.resources = of.resources.saturating_sub(u32::try_from(subscriptions.len()).unwrap_or(u32::MAX));
        subscriptions.into_iter().filter_map(|subscription| self.remove_subscriber(subscription)).collect()
    }

    // ---- change notifications ----

    /// Returns the URIs of all subscribed resources.
    pub(super) fn uris(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().map(|(_, resource)| &*resource.uri)
    }

    /// Returns the target of a change, if it can have listeners.
    pub(super) fn find_target(&mut self, change: &Change, custom: &CustomLists) -> Option<ChangeTarget> {
        match change {
            Change::Resource(uri) => self.find_resource(uri).map(ChangeTarget::Resource),
            list => custom.position(list).map(ChangeTarget::List),
        }
    }

    /// Returns the interests in a target, for [`next`](Self::next).
    pub(super) fn interests(&self, target: ChangeTarget) -> Interests {
        match target {
            ChangeTarget::List(list) => Interests::List(list, 0, 0),
            ChangeTarget::Resource(key) => Interests::Resource(
                self.resources.get(key).and_then(|resource| resource.subscribers.first(&self.subscriptions)),
            ),
        }
    }

    /// Returns the next interest.
    #[inline]
    pub(super) fn next(&self, interests: &mut Interests) -> Option<Interest> {
        match interests {
            Interests::Resource(next) => {
                let key = (*next)?;
                *next = List::next(&self.subscriptions, key);
                Some(Interest::Resource(key))
            }
            Interests::List(list, set, at) => loop {
                // The end of the sets ends the loop. A set without the list is skipped as a whole.
                let (lists, listeners) = self.by_lists.get(*set)?;
                match listeners.get(*at).filter(|_| lists & bit(*list) != 0) {
                    Some(slot) => {
                        *at += 1;
                        return self.listeners.key_at(*slot).map(|key| Interest::List(key, *list));
                    }
                    None => (*set, *at) = (*set + 1, 0),
                }
            },
        }
    }

    /// Returns the channel of an interest, and the id of its request; `None` if it has ended.
    #[inline]
    pub(super) fn receiver(&self, interest: Interest) -> Option<(Key, Option<&RequestId>)> {
        let listener = match interest {
            Interest::List(key, _) => self.listeners.get(key)?,
            Interest::Resource(key) => self.listeners.at(self.subscriptions.get(key)?.listener)?,
        };
        Some((listener.channel, listener.id.as_ref()))
    }

    /// Returns the target of an interest.
    pub(super) fn target(&self, interest: Interest) -> Option<ChangeTarget> {
        match interest {
            Interest::List(_, list) => Some(ChangeTarget::List(list)),
            Interest::Resource(key) => {
                let slot = self.subscriptions.get(key)?.resource;
                self.resources.key_at(slot).map(ChangeTarget::Resource)
            }
        }
    }

    /// Returns whether a notification was sent in `epoch`.
    pub(super) fn was_notified(&self, interest: Interest, epoch: u32) -> bool {
        match interest {
            Interest::List(key, list) => {
                let listener = self.listeners.get(key);
                listener.is_some_and(|l| l.epoch == epoch && l.notified & bit(list) != 0)
            }
            Interest::Resource(key) => self.subscriptions.get(key).is_some_and(|s| s.epoch == epoch),
        }
    }

    /// Records that a notification was sent in `epoch`.
    pub(super) fn mark_notified(&mut self, interest: Interest, epoch: u32) {
        match interest {
            Interest::List(key, list) => {
                let Some(listener) = self.listeners.get_mut(key) else { return };
                // Bits of an earlier epoch say nothing about this one.
                if listener.epoch != epoch {
                    (listener.epoch, listener.notified) = (epoch, 0);
                }
                listener.notified |= bit(list);
                // What is deferred would repeat this notification.
                listener.deferred &= !bit(list);
            }
            Interest::Resource(key) => {
                if let Some(subscription) = self.subscriptions.get_mut(key) {
                    (subscription.epoch, subscription.deferred) = (epoch, false);
                }
            }
        }
    }

    /// Records that a notification is deferred until there is room. Returns false if it was before.
    pub(super) fn defer(&mut self, interest: Interest) -> bool {
        match interest {
            Interest::List(key, list) => self.listeners.get_mut(key).is_some_and(|listener| {
                let is_new = listener.deferred & bit(list) == 0;
                listener.deferred |= bit(list);
                is_new
            }),
            Interest::Resource(key) => {
                let subscription = self.subscriptions.get_mut(key);
                subscription.is_some_and(|s| !core::mem::replace(&mut s.deferred, true))
            }
        }
    }

    /// Returns whether a notification is deferred.
    pub(super) fn is_deferred(&self, interest: Interest) -> bool {
        match interest {
            Interest::List(key, list) => {
                self.listeners.get(key).is_some_and(|listener| listener.deferred & bit(list) != 0)
            }
            Interest::Resource(key) => self.subscriptions.get(key).is_some_and(|s| s.deferred),
        }
    }

    /// Ends the deferral of a notification. Returns false if it was not deferred, or its interest has ended.
    pub(super) fn undefer(&mut self, interest: Interest) -> bool {
        let was_deferred = self.is_deferred(interest);
        match interest {
            Interest::List(key, list) => {
                if let Some(listener) = self.listeners.get_mut(key) {
                    listener.deferred &= !bit(list);
                }
            }
            Interest::Resource(key) => {
                if let Some(subscription) = self.subscriptions.get_mut(key) {
                    subscription.deferred = false;
                }
            }
        }
        was_deferred
    }

    /// Returns the URI of a resource target.
    pub(super) fn uri(&self, target: ChangeTarget) -> Option<&Arc<str>> {
        match target {
            ChangeTarget::List(_) => None,
            ChangeTarget::Resource(key) => self.resources.get(key).map(|t| &t.uri),
        }
    }

    pub(super) fn trim(&mut self) {
        self.by_lists.retain(|(_, listeners)| !listeners.is_empty());
        self.listeners.trim();
        self.resources.trim();
        self.subscriptions.trim();
    }
}

/// Returns the slots of the listeners of a set of lists, which is added if it is not there; `None` for no lists.
fn listeners_of(by_lists: &mut Vec<(ListSet, Vec<u32>)>, lists: ListSet) -> Option<&mut Vec<u32>> {
    if lists == 0 {
        return None;
    }
    let at = by_lists.binary_search_by_key(&lists, |(set, _)| *set).unwrap_or_else(|at| {
        by_lists.insert(at, (lists, Vec::new()));
        at
    });
    by_lists.get_mut(at).map(|(_, listeners)| listeners)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::CustomList;
    use crate::listen_filter::{RESOURCES, TOOLS};
    use crate::testing::{Rng, rounds};
    use alloc::collections::BTreeSet;
    use alloc::format;
    use alloc::string::String;

    const CHANNEL: Key = Key { slot: 0, generation: 0 };
    const CUSTOM: [CustomList; 5] = [
        CustomList::new("a", "notifications/a"),
        CustomList::new("b", "notifications/b"),
        CustomList::new("c", "notifications/c"),
        CustomList::new("d", "notifications/d"),
        CustomList::new("e", "notifications/e"),
    ];

    fn custom_lists() -> CustomLists {
        let mut lists = CustomLists::new();
        CUSTOM.iter().for_each(|list| lists.register(*list).expect("room"));
        lists
    }

    fn audience(subs: &mut Subscriptions, change: &Change) -> Option<Vec<Key>> {
        let target = subs.find_target(change, &custom_lists())?;
        let subs = &*subs;
        let mut audience = subs.interests(target);
        let listener = |interest| match interest {
            Interest::List(key, _) => Some(key),
            Interest::Resource(key) => subs.listeners.key_at(subs.subscriptions.get(key)?.listener),
        };
        Some(core::iter::from_fn(|| subs.next(&mut audience).and_then(listener)).collect())
    }

    #[test]
    fn listeners_are_found_by_change_and_removed_completely() {
        let (mut subs, mut of) = (Subscriptions::new(), ChannelListeners::new());
        let a = subs.open(&mut of, CHANNEL, None, TOOLS | RESOURCES).expect("new");
        let b = subs.open(&mut of, CHANNEL, Some(RequestId::int(1)), TOOLS).expect("new");
        assert_eq!(subs.find(&mut of, None), Some(a));
        assert_eq!(subs.find(&mut of, Some(&RequestId::int(1))), Some(b));
        assert_eq!((subs.find(&mut of, Some(&RequestId::int(2))), subs.requests(&of)), (None, [b].into()));
        assert_eq!(subs.subscribe(&mut of, b, "x:1").as_deref(), Some("x:1"));
        assert_eq!(subs.subscribe(&mut of, a, "x:1"), None);
        assert_eq!(subs.subscribe(&mut of, a, "x:1"), None, "a second subscription has no effect");
        assert_eq!((of.len(), of.resource_count()), (2, 2));
        assert_eq!(audience(&mut subs, &Change::Tools), Some([b, a].into()));
        assert_eq!(audience(&mut subs, &Change::Prompts), Some(Vec::new()));
        assert_eq!(audience(&mut subs, &Change::Resource("x:1".into())), Some([b, a].into()));
        assert_eq!(audience(&mut subs, &Change::Resource("x:2".into())), None);
        assert!(subs.uris().eq(["x:1"]));
        assert_eq!(subs.unsubscribe(&mut of, b, "x:1"), None);
        assert_eq!(subs.close(&mut of, a).len(), 1);
        assert!(subs.uris().next().is_none() && subs.resources.is_empty() && subs.subscriptions.is_empty());
        assert_eq!((of.len(), of.resource_count()), (1, 0));
        assert_eq!(audience(&mut subs, &Change::Tools), Some([b].into()));
    }

    #[test]
    fn listener_is_notified_once_per_epoch_and_deferrals_merge() {
        let (mut subs, mut of) = (Subscriptions::new(), ChannelListeners::new());
        let a = subs.open(&mut of, CHANNEL, None, TOOLS).expect("new");
        subs.subscribe(&mut of, a, "x:1");
        for change in [Change::Tools, Change::Resource("x:1".into())] {
            let target = subs.find_target(&change, &custom_lists()).expect("a target");
            let interest = subs.next(&mut subs.interests(target)).expect("an interest");
            assert!(!subs.was_notified(interest, 1));
            subs.mark_notified(interest, 1);
            assert!(subs.was_notified(interest, 1) && !subs.was_notified(interest, 2));
            assert!(!subs.is_deferred(interest) && subs.defer(interest) && !subs.defer(interest));
            assert!(subs.undefer(interest) && !subs.undefer(interest));
            assert!(subs.defer(interest));
            subs.mark_notified(interest, 3);
            assert!(!subs.is_deferred(interest));
        }
        subs.close(&mut of, a);
        assert!(of.is_empty());
    }

    #[test]
    fn bytes_are_those_of_entries_and_uris_and_tables_are_freed_when_empty() {
        let (mut subs, mut of) = (Subscriptions::new(), ChannelListeners::new());
        let (listener, resource, subscription) =
            (size_of::<ChangeListener>(), size_of::<SubscribedResource>(), size_of::<ResourceSubscription>());
        let a = subs.open(&mut of, CHANNEL, None, TOOLS).expect("new");
        let b = subs.open(&mut of, CHANNEL, Some(RequestId::int(1)), TOOLS).expect("new");
        assert_eq!(subs.byte_len(), 2 * listener);
        for (key, uri) in [(a, "x:123"), (b, "x:123"), (a, "x:4"), (b, "x:56")] {
            subs.subscribe(&mut of, key, uri);
        }
        assert_eq!(subs.byte_len(), 2 * listener + 3 * resource + 4 * subscription + 12);
        subs.trim();
        subs.close(&mut of, b);
        assert_eq!(subs.byte_len(), listener + 2 * resource + 2 * subscription + 8);
        subs.close(&mut of, a);
        assert_eq!(subs.byte_len(), 0);
        subs.trim();
        assert!(subs.by_lists.is_empty());
        assert_eq!(
            (subs.listeners.capacity(), subs.resources.capacity(), subs.subscriptions.capacity()),
            (0, 0, 0)
        );
    }

    #[test]
    fn deferred_notifications_that_have_ended_are_dropped_before_they_are_many() {
        let mut sent = SentChanges::default();
        let resource = |slot| Interest::Resource(Key { slot, generation: 0 });
        let mut longest = 0;
        for slot in 0..500 {
            // The last ones alone are alive.
            let is_live =
                |interest: Interest| matches!(interest, Interest::Resource(key) if key.slot + 3 >= slot);
            sent.push_deferred(resource(slot), 3, is_live);
            longest = longest.max(sent.deferred.len());
        }
        assert_eq!(longest, 2 * 3 + 32 + 1);
        let now = Instant::from_micros(5);
        assert!(sent.take_due(now).is_none(), "no deadline is set");
        assert!(sent.schedule(now) && !sent.schedule(now), "one timer for each deadline");
        assert!(!sent.schedule(Instant::from_micros(6)) && sent.schedule(Instant::from_micros(4)));
        let due = sent.take_due(Instant::from_micros(4)).expect("its deadline has passed");
        let slots: Vec<u32> = due
            .iter()
            .filter_map(|interest| if let Interest::Resource(key) = interest { Some(key.slot) } else { None })
            .collect();
        assert!(slots.ends_with(&[496, 497, 498, 499]), "none that is alive is dropped: {slots:?}");
    }

    #[test]
    #[should_panic(expected = "the bytes of all URIs")]
    fn check_of_sums_finds_a_wrong_one() {
        let mut subs = Subscriptions::new();
        subs.uri_bytes = 1;
        subs.check_sums();
    }

    #[test]
    fn every_change_finds_its_listeners_after_every_step() {
        for seed in 0..rounds(30) {
            let (mut rng, mut subs, custom) = (Rng::new(seed), Subscriptions::new(), custom_lists());
            let mut channels = [ChannelListeners::new(), ChannelListeners::new()];
            let mut model: Vec<(usize, Key, ListSet, BTreeSet<String>)> = Vec::new();
            for id in 0..300 {
                let (at, uri) = (rng.below(model.len()), format!("x:{}", rng.below(5)));
                match (rng.below(6), model.get_mut(at)) {
                    (0 | 1, _) => {
                        let (on, lists) = (rng.below(2), u8::try_from(rng.below(256)).unwrap_or(0));
                        let key = subs.open(&mut channels[on], CHANNEL, Some(RequestId::int(id)), lists);
                        model.push((on, key.expect("new"), lists, BTreeSet::new()));
                    }
                    (2 | 3, Some((on, key, _, uris))) => {
                        subs.subscribe(&mut channels[*on], *key, &uri);
                        uris.insert(uri);
                    }
                    (4, Some((on, key, _, uris))) => {
                        subs.unsubscribe(&mut channels[*on], *key, &uri);
                        uris.remove(&uri);
                    }
                    (_, Some(_)) => {
                        let (on, key, ..) = model.swap_remove(at);
                        subs.close(&mut channels[on], key);
                        subs.trim();
                    }
                    _ => {}
                }
                let sorted =
                    |found: Option<Vec<Key>>| found.unwrap_or_default().into_iter().collect::<BTreeSet<_>>();
                for change in custom.changes(ListSet::MAX) {
                    let kind = custom.set_of(&change);
                    let expected =
                        model.iter().filter(|(_, _, lists, _)| lists & kind != 0).map(|(_, key, ..)| *key);
                    assert_eq!(sorted(audience(&mut subs, &change)), expected.collect());
                }
                for uri in (0..5).map(|n| format!("x:{n}")) {
                    let expected =
                        model.iter().filter(|(.., uris)| uris.contains(&uri)).map(|(_, key, ..)| *key);
                    assert_eq!(
                        sorted(audience(&mut subs, &Change::Resource(uri.as_str().into()))),
                        expected.collect()
                    );
                }
                for (on, of) in channels.iter().enumerate() {
                    let own = || model.iter().filter(|(other, ..)| *other == on);
                    assert_eq!(of.len(), own().count());
                    assert_eq!(of.resource_count(), own().map(|(.., uris)| uris.len()).sum::<usize>());
                }
            }
        }
    }
}
