//! The table of subscriptions of both eras, indexed by change (SUB, RES).
//!
//! Change notifications are level-triggered. A listener with an unsent notification gets no second one, so a slow
//! listener costs one bit per list or resource instead of a queue.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::change::Change;
use crate::rpc::RequestId;
use crate::slab::{Key, Slab};

/// A set of lists.
pub(super) type ListSet = u8;
pub(super) const TOOLS: ListSet = 1;
pub(super) const PROMPTS: ListSet = 2;
pub(super) const RESOURCES: ListSet = 4;
const LISTS: [(ListSet, Change); 3] =
    [(TOOLS, Change::Tools), (PROMPTS, Change::Prompts), (RESOURCES, Change::Resources)];

/// A listener: a `subscriptions/listen` request (modern) or the session of a channel (legacy).
#[derive(Debug)]
pub(super) struct ChangeListener {
    pub(super) channel: Key,
    /// Id of the `subscriptions/listen` request; `None` for a session.
    pub(super) id: Option<RequestId>,
    /// Lists that the listener subscribes to.
    pub(super) lists: ListSet,
    /// Lists that were announced in `epoch`.
    notified: ListSet,
    epoch: u32,
    /// Lists whose notification is deferred until there is room.
    deferred: ListSet,
    /// Resources that the listener subscribes to, sorted by key.
    resources: Vec<Key>,
}

/// A resource with at least one subscriber.
#[derive(Debug)]
struct SubscribedResource {
    uri: Arc<str>,
    /// Sorted by listener.
    subscribers: Vec<ResourceSubscriber>,
}

#[derive(Clone, Copy, Debug)]
struct ResourceSubscriber {
    listener: Key,
    /// Epoch of the last notification.
    epoch: u32,
    deferred: bool,
}

/// A list or a subscribed resource that has changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChangeTarget {
    /// A list, by its index in [`LISTS`].
    List(usize),
    Resource(Key),
}

#[derive(Debug)]
pub(super) struct Subscriptions {
    listeners: Slab<ChangeListener>,
    /// Listeners of each list, sorted by key.
    lists: [Vec<Key>; 3],
    resources: Slab<SubscribedResource>,
    by_uri: BTreeMap<Arc<str>, Key>,
}

impl Subscriptions {
    pub(super) const fn new() -> Self {
        Self {
            listeners: Slab::new(),
            lists: [const { Vec::new() }; 3],
            resources: Slab::new(),
            by_uri: BTreeMap::new(),
        }
    }

    pub(super) fn open(&mut self, channel: Key, id: Option<RequestId>, lists: ListSet) -> Key {
        let listener =
            ChangeListener { channel, id, lists, notified: 0, epoch: 0, deferred: 0, resources: Vec::new() };
        let key = self.listeners.insert(listener);
        for (list, (kind, _)) in self.lists.iter_mut().zip(LISTS) {
            if let (true, Err(index)) = (lists & kind != 0, list.binary_search(&key)) {
                list.insert(index, key);
            }
        }
        key
    }

    pub(super) fn get(&self, key: Key) -> Option<&ChangeListener> {
        self.listeners.get(key)
    }

    /// Returns the number of resources that a listener subscribes to.
    pub(super) fn resource_count(&self, key: Key) -> usize {
        self.listeners.get(key).map_or(0, |l| l.resources.len())
    }

    /// Subscribes a listener to a resource. Returns the URI if this is the first subscriber.
    pub(super) fn subscribe_resource(&mut self, key: Key, uri: &str) -> Option<Arc<str>> {
        let listener = self.listeners.get_mut(key)?;
        let (resource, first) = match self.by_uri.get(uri) {
            Some(resource) => (*resource, None),
            None => {
                let uri = Arc::<str>::from(uri);
                let resource = self
                    .resources
                    .insert(SubscribedResource { uri: Arc::clone(&uri), subscribers: Vec::new() });
                self.by_uri.insert(Arc::clone(&uri), resource);
                (resource, Some(uri))
            }
        };
        if let Err(index) = listener.resources.binary_search(&resource) {
            listener.resources.insert(index, resource);
            let subscribers = self.resources.get_mut(resource).map(|t| &mut t.subscribers);
            if let Some(subscribers) = subscribers {
                let index = subscribers.partition_point(|f| f.listener < key);
                subscribers.insert(index, ResourceSubscriber { listener: key, epoch: 0, deferred: false });
            }
        }
        first
    }

    /// Unsubscribes a listener from a resource. Returns the URI if this was the last subscriber.
    pub(super) fn unsubscribe_resource(&mut self, key: Key, uri: &str) -> Option<Arc<str>> {
        let resource = *self.by_uri.get(uri)?;
        let listener = self.listeners.get_mut(key)?;
        let index = listener.resources.binary_search(&resource).ok()?;
        listener.resources.remove(index);
        self.remove_subscriber(key, resource)
    }

    fn remove_subscriber(&mut self, listener: Key, key: Key) -> Option<Arc<str>> {
        let resource = self.resources.get_mut(key)?;
        if let Ok(index) = resource.subscribers.binary_search_by_key(&listener, |f| f.listener) {
            resource.subscribers.remove(index);
        }
        if !resource.subscribers.is_empty() {
            return None;
        }
        let resource = self.resources.remove(key)?;
        self.by_uri.remove(&resource.uri);
        Some(resource.uri)
    }

    /// Removes a listener. Returns it with the URIs that have no subscribers any more.
    pub(super) fn close(&mut self, key: Key) -> Option<(ChangeListener, Vec<Arc<str>>)> {
        let listener = self.listeners.remove(key)?;
        for (list, (kind, _)) in self.lists.iter_mut().zip(LISTS) {
            if let (true, Ok(index)) = (listener.lists & kind != 0, list.binary_search(&key)) {
                list.remove(index);
            }
        }
        let unsubscribed =
            listener.resources.iter().filter_map(|resource| self.remove_subscriber(key, *resource)).collect();
        Some((listener, unsubscribed))
    }

    // ---- change notifications ----

    /// Returns the URIs of all subscribed resources.
    pub(super) fn uris(&self) -> impl Iterator<Item = &str> {
        self.by_uri.keys().map(|uri| &**uri)
    }

    /// Returns the target of a change, if it can have listeners.
    pub(super) fn find_target(&self, change: &Change) -> Option<ChangeTarget> {
        match change {
            Change::Resource(uri) => self.by_uri.get(&**uri).map(|key| ChangeTarget::Resource(*key)),
            list => LISTS.iter().position(|(_, other)| other == list).map(ChangeTarget::List),
        }
    }

    /// Returns the listener at `index` among those of a target.
    pub(super) fn listener_at(&self, target: ChangeTarget, index: usize) -> Option<Key> {
        match target {
            ChangeTarget::List(list) => self.lists.get(list)?.get(index).copied(),
            ChangeTarget::Resource(resource) => {
                self.resources.get(resource)?.subscribers.get(index).map(|f| f.listener)
            }
        }
    }

    /// Returns whether a listener was notified of the target in `epoch`.
    pub(super) fn was_notified(&self, target: ChangeTarget, index: usize, epoch: u32) -> bool {
        match target {
            ChangeTarget::List(list) => {
                let listener = self.listener_at(target, index).and_then(|key| self.listeners.get(key));
                let kind = LISTS.get(list).map_or(0, |(kind, _)| *kind);
                listener.is_some_and(|l| l.epoch == epoch && l.notified & kind != 0)
            }
            ChangeTarget::Resource(resource) => {
                let subscriber = self.resources.get(resource).and_then(|t| t.subscribers.get(index));
                subscriber.is_some_and(|subscriber| subscriber.epoch == epoch)
            }
        }
    }

    /// Records that a listener was notified of the target in `epoch`.
    pub(super) fn mark_notified(&mut self, target: ChangeTarget, index: usize, epoch: u32) {
        match target {
            ChangeTarget::List(list) => {
                let Some((key, (kind, _))) = self.listener_at(target, index).zip(LISTS.get(list)) else {
                    return;
                };
                let Some(listener) = self.listeners.get_mut(key) else { return };
                if listener.epoch != epoch {
                    (listener.epoch, listener.notified) = (epoch, 0);
                }
                listener.notified |= kind;
                listener.deferred &= !kind;
            }
            ChangeTarget::Resource(resource) => {
                if let Some(f) = self.resources.get_mut(resource).and_then(|t| t.subscribers.get_mut(index)) {
                    (f.epoch, f.deferred) = (epoch, false);
                }
            }
        }
    }

    /// Records that a notification is deferred until there is room.
    pub(super) fn defer(&mut self, target: ChangeTarget, index: usize) {
        match target {
            ChangeTarget::List(list) => {
                let Some((key, (kind, _))) = self.listener_at(target, index).zip(LISTS.get(list)) else {
                    return;
                };
                if let Some(listener) = self.listeners.get_mut(key) {
                    listener.deferred |= kind;
                }
            }
            ChangeTarget::Resource(resource) => {
                if let Some(f) = self.resources.get_mut(resource).and_then(|t| t.subscribers.get_mut(index)) {
                    f.deferred = true;
                }
            }
        }
    }

    /// Returns the deferred notifications of a listener: targets, and the listener's index in each.
    pub(super) fn deferred(&self, key: Key) -> Vec<(ChangeTarget, usize)> {
        let Some(listener) = self.listeners.get(key) else { return Vec::new() };
        let lists = self.lists.iter().zip(LISTS).enumerate().filter_map(|(i, (list, (kind, _)))| {
            let index = (listener.deferred & kind != 0).then(|| list.binary_search(&key).ok())??;
            Some((ChangeTarget::List(i), index))
        });
        let resources = listener.resources.iter().filter_map(|resource| {
            let subscribers = &self.resources.get(*resource)?.subscribers;
            let index = subscribers.binary_search_by_key(&key, |f| f.listener).ok()?;
            subscribers.get(index)?.deferred.then_some((ChangeTarget::Resource(*resource), index))
        });
        lists.chain(resources).collect()
    }

    /// Returns the URI of a resource target.
    pub(super) fn uri(&self, target: ChangeTarget) -> Option<&Arc<str>> {
        match target {
            ChangeTarget::List(_) => None,
            ChangeTarget::Resource(key) => self.resources.get(key).map(|t| &t.uri),
        }
    }

    pub(super) fn trim(&mut self) {
        self.listeners.trim();
        self.resources.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: Key = Key { slot: 0, generation: 0 };

    #[test]
    fn listeners_are_found_by_change_and_removed_completely() {
        let mut subs = Subscriptions::new();
        let a = subs.open(CHANNEL, None, TOOLS | RESOURCES);
        let b = subs.open(CHANNEL, Some(RequestId::int(1)), TOOLS);
        assert_eq!(subs.subscribe_resource(b, "x:1").as_deref(), Some("x:1"));
        assert_eq!(subs.subscribe_resource(a, "x:1"), None);
        assert_eq!(subs.subscribe_resource(a, "x:1"), None, "a second subscription has no effect");
        assert_eq!(subs.resource_count(a), 1);
        let all = |subs: &Subscriptions, change: &Change| {
            let target = subs.find_target(change);
            target.map(|t| (0..).map_while(|i| subs.listener_at(t, i)).collect::<Vec<_>>())
        };
        assert_eq!(all(&subs, &Change::Tools), Some(alloc::vec![a, b]));
        assert_eq!(all(&subs, &Change::Prompts), Some(Vec::new()));
        assert_eq!(all(&subs, &Change::Resource("x:1".into())), Some(alloc::vec![a, b]));
        assert_eq!(all(&subs, &Change::Resource("x:2".into())), None);
        assert!(subs.uris().eq(["x:1"]));
        assert_eq!(subs.unsubscribe_resource(b, "x:1"), None);
        assert_eq!(subs.close(a).map(|(_, unsubscribed)| unsubscribed.len()), Some(1));
        assert!(subs.uris().next().is_none() && subs.resources.is_empty());
        assert_eq!(all(&subs, &Change::Tools), Some(alloc::vec![b]));
    }

    #[test]
    fn listener_is_notified_once_per_epoch_and_deferrals_merge() {
        let mut subs = Subscriptions::new();
        let a = subs.open(CHANNEL, None, TOOLS);
        subs.subscribe_resource(a, "x:1");
        for change in [Change::Tools, Change::Resource("x:1".into())] {
            let target = subs.find_target(&change).expect("a target");
            assert!(!subs.was_notified(target, 0, 1));
            subs.mark_notified(target, 0, 1);
            assert!(subs.was_notified(target, 0, 1) && !subs.was_notified(target, 0, 2));
            subs.defer(target, 0);
            subs.defer(target, 0);
        }
        assert_eq!(subs.deferred(a).len(), 2);
        for (target, index) in subs.deferred(a) {
            subs.mark_notified(target, index, 3);
        }
        assert!(subs.deferred(a).is_empty());
    }
}
