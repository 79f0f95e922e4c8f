//! The subscriptions as a trait object, and what their notifications mean to a client without any.
//!
//! A client that never subscribes is linked without the code of subscriptions. A server may still send their
//! notifications: a change of a list is reported, because a cached list is outdated, and anything else is diagnosed.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::common::CommonState;
use super::event::SubscriptionKey;
use crate::calls::outbound::{CallPurpose, ResponseMatch};
use crate::change::Change;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, UseError};
use crate::json::{object_members, string};
use crate::methods;
use crate::model::SubscriptionFilter;
use crate::slab::Key;

/// Subscriptions of the application; [`Subscriptions`](super::subscriptions::Subscriptions) has the meanings.
pub(super) trait SubscriptionTable: fmt::Debug + Send + Sync {
    fn is_empty(&self) -> bool;

    /// Adds a subscription and requests what it needs of the server.
    ///
    /// # Errors
    ///
    /// As [`Engine::subscribe`](super::Engine::subscribe).
    fn subscribe(
        &mut self,
        common: &mut CommonState,
        filter: &SubscriptionFilter,
    ) -> Result<SubscriptionKey, UseError>;

    /// Ends a subscription at the request of the application.
    ///
    /// # Errors
    ///
    /// As [`Engine::unsubscribe`](super::Engine::unsubscribe).
    fn unsubscribe(
        &mut self,
        common: &mut CommonState,
        subscription: SubscriptionKey,
    ) -> Result<(), UseError>;

    /// Handles the acknowledgment of the subscription of an open request (SUB-006, SUB-007).
    fn receive_acknowledged(&mut self, common: &mut CommonState, listen: Key, params: &[u8]);

    /// Handles the outcome of `subscriptions/listen`.
    fn listen_ended(&mut self, common: &mut CommonState, listen: Key, outcome: Result<(), CallError>);

    /// Renews a subscription whose request was lost (SUB-016). Returns the new request.
    ///
    /// The subscription will be acknowledged again, because changes may have been missed.
    #[cfg(feature = "exchanges")]
    fn renew_listen(&mut self, common: &mut CommonState, request: Key) -> Option<Key>;

    /// Renews the resource subscriptions in a new session of a legacy server.
    ///
    /// The subscriptions will be acknowledged again, because changes may have been missed.
    #[cfg(feature = "http")]
    fn renew_resources(&mut self, common: &mut CommonState, main: Key);

    /// Handles the answer to the request for a resource.
    fn resource_answered(&mut self, common: &mut CommonState, request: Key, resource: Key, refused: bool);

    /// Returns the subscriptions that want a change of a legacy server, in the order in which they were made.
    fn subscribers(&self, change: &Change) -> Vec<SubscriptionKey>;

    /// Returns the subscription of an open request, if it wants the change.
    fn subscriber(&mut self, common: &CommonState, listen: Key, change: &Change) -> Option<SubscriptionKey>;

    /// Ends all subscriptions with the connection (SUB-015, SUB-017).
    fn end_all(&mut self, common: &mut CommonState, error: &CallError);
}

/// Subscriptions of the application, if it has ever had one.
type Subscribed<'s> = Option<&'s mut (dyn SubscriptionTable + 'static)>;

/// Handles the acknowledgment of a subscription.
pub(super) fn receive_acknowledged(
    subscriptions: Subscribed<'_>,
    common: &mut CommonState,
    channel: Key,
    params: &[u8],
) {
    let has_filter = {
        let mut filter = None;
        object_members(params, |name, value| {
            if name == b"notifications" {
                filter = Some(value);
            }
        });
        filter.is_some_and(|filter| filter.first() == Some(&b'{'))
    };
    if !has_filter {
        return common.diagnose(Diagnostic::InvalidNotification(methods::ACKNOWLEDGED.into()));
    }
    let Some(listen) = subscription_of(common, channel, methods::ACKNOWLEDGED, params) else { return };
    if let Some(subscriptions) = subscriptions {
        subscriptions.receive_acknowledged(common, listen, params);
    }
}

/// Handles a change notification.
pub(super) fn receive_change(
    subscriptions: Subscribed<'_>,
    common: &mut CommonState,
    channel: Key,
    method: &str,
    params: &[u8],
) {
    let change = match method {
        methods::TOOLS_CHANGED => Change::Tools,
        methods::PROMPTS_CHANGED => Change::Prompts,
        methods::RESOURCES_CHANGED => Change::Resources,
        _ => {
            let mut uri = None;
            object_members(params, |name, value| {
                if name == b"uri" {
                    uri = string(value).map(Cow::into_owned);
                }
            });
            match uri {
                Some(uri) => Change::Resource(uri),
                None => return common.diagnose(Diagnostic::InvalidNotification(method.into())),
            }
        }
    };
    if !common.is_modern() {
        let wanting = subscriptions.map(|subscriptions| subscriptions.subscribers(&change));
        return receive_legacy_change(common, method, change, wanting.unwrap_or_default());
    }
    let Some(listen) = subscription_of(common, channel, method, params) else { return };
    let wanting = subscriptions.and_then(|it| it.subscriber(common, listen, &change));
    match wanting {
        Some(subscription) => common.events.push_change(Some(subscription), change),
        // SUB-003, SUB-004
        None => common.diagnose(Diagnostic::UnsolicitedNotification(method.into())),
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

// A map by the keys of a slab, with a tenth of the code of a `BTreeMap`.

/// Values by the keys of a slab, which bounds their number.
///
/// Invariant: `len` is the number of values. A key finds its own value only, and none of an earlier one in its slot.
#[derive(Debug)]
pub(super) struct SecondaryMap<T> {
    slots: Vec<Option<Box<(Key, T)>>>,
    len: usize,
}

impl<T> Default for SecondaryMap<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), len: 0 }
    }
}

impl<T> SecondaryMap<T> {
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let entry = self.slots.get(key.slot as usize)?.as_deref()?;
        (entry.0 == key).then_some(&entry.1)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.slots.get_mut(key.slot as usize)?.as_deref_mut()?;
        (entry.0 == key).then_some(&mut entry.1)
    }

    /// Sets the value of a key. It replaces one of an earlier key in the slot.
    pub(super) fn insert(&mut self, key: Key, value: T) {
        let slot = key.slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        if let Some(entry) = self.slots.get_mut(slot) {
            self.len += usize::from(entry.is_none());
            *entry = Some(Box::new((key, value)));
        }
    }

    /// Removes the value of a key.
    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let entry = self.slots.get_mut(key.slot as usize)?;
        let removed = entry.take_if(|entry| entry.0 == key)?;
        self.len -= 1;
        Some(removed.1)
    }
}

// Parts of a subscription filter: flags of lists, and URIs of resources.

/// Lists that can change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ListFlags {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
}

impl ListFlags {
    pub(super) fn from_filter(filter: &SubscriptionFilter) -> Self {
        let is = |flag: Option<bool>| flag == Some(true);
        Self {
            tools: is(filter.tools_list_changed),
            prompts: is(filter.prompts_list_changed),
            resources: is(filter.resources_list_changed),
        }
    }

    /// Returns the flags in the order of the lists.
    pub(super) const fn as_array(self) -> [bool; 3] {
        [self.tools, self.prompts, self.resources]
    }

    pub(super) const fn intersection(self, other: Self) -> Self {
        Self {
            tools: self.tools && other.tools,
            prompts: self.prompts && other.prompts,
            resources: self.resources && other.resources,
        }
    }
}

/// Returns the resources of a filter, sorted and without duplicates.
pub(super) fn sorted_uris(filter: &SubscriptionFilter) -> Vec<Box<str>> {
    let given = filter.resource_subscriptions.iter().flatten();
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
    rest.is_empty() || prefix.ends_with(b"/") || matches!(rest, [b'/' | b'?' | b'#', ..])
}

#[cfg(test)]
mod subscription_filter_tests {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn key(slot: u32, generation: u32) -> Key {
        Key { slot, generation }
    }

    #[test]
    fn value_is_found_by_its_key_until_it_is_removed() {
        let mut values = SecondaryMap::default();
        assert_eq!(values.remove(key(4, 0)), None);
        values.insert(key(4, 0), "a");
        values.insert(key(1, 7), "b");
        assert_eq!((values.get(key(4, 0)), values.get(key(1, 7))), (Some(&"a"), Some(&"b")));
        for other in [key(4, 1), key(0, 0), key(9, 0)] {
            assert!(values.get(other).is_none() && values.get_mut(other).is_none());
            assert_eq!(values.remove(other), None);
        }
        assert_eq!(values.remove(key(4, 0)), Some("a"));
        values.insert(key(1, 8), "c");
        assert_eq!(values.get(key(1, 7)), None);
        assert_eq!(values.get_mut(key(1, 8)), Some(&mut "c"));
        assert!(!values.is_empty() && values.remove(key(1, 8)).is_some() && values.is_empty());
    }
}
