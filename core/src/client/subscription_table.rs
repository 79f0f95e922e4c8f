//! The subscriptions as a trait object, and what their notifications mean to a client without any.
//!
//! A client that never subscribes is linked without the code of subscriptions. A server may still send their
//! notifications: a change of a list is reported, because a cached list is outdated, and anything else is diagnosed.

use alloc::borrow::Cow;
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
