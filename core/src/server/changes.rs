//! Subscriptions and change notifications: `subscriptions/listen`, `resources/subscribe`, `publish` (SUB, RES).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::engine::Engine;
use super::event::Event;
use super::subscriptions::{ChangeTarget, ListSet, PROMPTS, RESOURCES, Subscriptions, TOOLS};
use crate::calls::endpoint::EndpointTimer;
use crate::change::Change;
use crate::json::{Serializer, write_str};
use crate::meta;
use crate::methods::{self, Capability};
use crate::model::{SubscribeParams, SubscriptionFilter, SubscriptionsListenParams};
use crate::rpc::{RequestId, RpcError, encode};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;

/// Time until the outbox of a slow peer is checked again.
const RETRY_DELAY: Duration = Duration::from_millis(50);

impl Engine {
    /// Publishes a change to all subscribers. Returns their number.
    ///
    /// Modern clients are notified on each `subscriptions/listen` whose filter matches (SUB-003, SUB-008). Legacy
    /// sessions are notified if the capability promises it (RES-012, PROMPT-009) or if they subscribed to the resource
    /// (RES-011, RES-028). Notifications are level-triggered: while one waits to be sent, an equal change adds none. A
    /// peer that does not read is notified when it does. URIs are compared literally.
    pub fn publish(&mut self, now: Instant, change: &Change) -> usize {
        self.endpoint.tick(now);
        let Some(target) = self.subscriptions.as_ref().and_then(|subs| subs.find_target(change)) else {
            return 0;
        };
        let (mut index, mut message) = (0, ChangeMessage::default());
        while self.notify_listener(target, index, &mut message) {
            index += 1;
        }
        index
    }

    /// Returns the URIs of all resources that clients subscribe to, as the clients spelled them.
    ///
    /// Useful for an application that only knows that some resources have changed.
    pub fn subscribed_uris(&self) -> impl Iterator<Item = &str> {
        self.subscriptions.iter().flat_map(|subs| subs.uris())
    }

    /// Ends every `subscriptions/listen` of a channel gracefully (SUB-013, SUB-014).
    ///
    /// The client learns that its subscriptions have ended. Its other calls continue.
    pub fn end_subscriptions(&mut self, now: Instant, channel: ChannelId) {
        self.endpoint.tick(now);
        let Some(c) = self.endpoint.channels.get_mut(channel.0) else { return };
        for key in core::mem::take(&mut c.role.listeners) {
            let id = self.subscriptions.as_ref().and_then(|subs| subs.get(key)).and_then(|l| l.id.clone());
            match id {
                // The listener of a legacy session continues.
                None => {
                    if let Some(c) = self.endpoint.channels.get_mut(channel.0) {
                        c.role.listeners.push(key);
                    }
                }
                Some(id) => {
                    self.close_listener(key);
                    self.send_listen_end(channel.0, &id);
                }
            }
        }
    }

    /// Ends every `subscriptions/listen` of all channels gracefully.
    ///
    /// See [`end_subscriptions`](Self::end_subscriptions). Over HTTP each subscription has a channel of its own.
    pub fn end_all_subscriptions(&mut self, now: Instant) {
        for channel in self.endpoint.open_channels() {
            self.end_subscriptions(now, ChannelId(channel));
        }
    }

    /// Sends the result, and on byte streams the notification that the cancellation page requires (DEC-002, SUB-021).
    fn send_listen_end(&mut self, channel: Key, id: &RequestId) {
        self.endpoint.send(channel, |out| {
            encode::result_head(out, id);
            out.extend_from_slice(b"{\"resultType\":\"complete\",\"_meta\":");
            write_subscription_meta(out, id);
            out.push(b'}');
            encode::end(out);
        });
        if self.is_exchange(channel) {
            // The end of the exchange means the same (SUB-021 is about streams that continue).
            return self.mark_stream_finished(channel);
        }
        self.endpoint.send(channel, |out| {
            encode::notification_head(out, methods::CANCELLED);
            out.extend_from_slice(b",\"params\":{\"requestId\":");
            id.write(out);
            out.push(b'}');
            encode::end(out);
        });
    }

    /// Sends a change notification to the listener at `index`, or defers it.
    ///
    /// Returns false if there is no such listener.
    fn notify_listener(&mut self, target: ChangeTarget, index: usize, message: &mut ChangeMessage) -> bool {
        let Some(subs) = self.subscriptions.as_deref_mut() else { return false };
        let Some(key) = subs.listener_at(target, index) else { return false };
        let Some(channel) = subs.get(key).map(|l| l.channel) else { return true };
        let Some(c) = self.endpoint.channels.get_mut(channel).filter(|c| !c.closed) else { return true };
        let sent = c.role.sent_changes.get_or_insert_default();
        let consumed = c.outbox.consumed();
        let all_consumed = consumed >= sent.end;
        if all_consumed {
            // All earlier notifications were written, so a new one reports a new change.
            sent.epoch = sent.epoch.wrapping_add(1).max(1);
            sent.start = consumed + c.outbox.len() as u64;
        }
        let was_notified = !all_consumed && subs.was_notified(target, index, sent.epoch);
        if was_notified && consumed <= sent.start {
            return true;
        }
        // A notification that was written in part may have been read already. The new one is sent after the rest.
        if was_notified || c.outbox.len() >= self.endpoint.limits.outbox_high_water {
            subs.defer(target, index);
            self.schedule_changes(channel, self.endpoint.now);
            return true;
        }
        subs.mark_notified(target, index, sent.epoch);
        let mark = c.outbox.mark();
        let id = subs.get(key).and_then(|l| l.id.as_ref());
        message.write(c.outbox.tail(), target, subs.uri(target), id);
        self.endpoint.commit_message(channel, mark);
        if let Some(c) = self.endpoint.channels.get_mut(channel) {
            c.role.sent_changes.get_or_insert_default().end = c.outbox.consumed() + c.outbox.len() as u64;
        }
        true
    }

    /// Arms the timer for the deferred notifications of a channel, for `at` or slightly later.
    pub(super) fn schedule_changes(&mut self, channel: Key, at: Instant) {
        let at = at.max(self.endpoint.now + RETRY_DELAY);
        let Some(c) = self.endpoint.channels.get_mut(channel) else { return };
        // One timer per channel: each run arms at most one more, so timers cannot multiply.
        let sent = c.role.sent_changes.get_or_insert_default();
        if at < sent.due_at {
            sent.due_at = at;
            self.endpoint.deadlines.arm(at, EndpointTimer::Changes(channel));
        }
    }

    /// Sends the deferred notifications of a channel if there is room.
    pub(super) fn send_deferred_changes(&mut self, channel: Key) {
        let now = self.endpoint.now;
        let sent = self.endpoint.channels.get_mut(channel).and_then(|c| c.role.sent_changes.as_mut());
        let Some(sent) = sent.filter(|sent| sent.due_at <= now) else { return };
        sent.due_at = Instant::FAR_FUTURE;
        self.send_deferred_log(channel);
        let Some(c) = self.endpoint.channels.get_mut(channel) else { return };
        for key in c.role.listeners.clone() {
            let deferred = self.subscriptions.as_ref().map(|subs| subs.deferred(key)).unwrap_or_default();
            for (target, index) in deferred {
                self.notify_listener(target, index, &mut ChangeMessage::default());
            }
        }
    }

    // ---- requests ----

    /// Handles `subscriptions/listen`: acknowledges it now, answers it at its end (SUB-001, SUB-004, SUB-006, DEC-032).
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn listen(&mut self, channel: Key, id: &RequestId, params: &[u8]) -> Result<(), RpcError> {
        let request: SubscriptionsListenParams = serde_json::from_slice(params)
            .map_err(|e| RpcError::invalid_params(alloc::format!("`params`: {e}")))?;
        let (lists, mut filter) = self.honoured_filter(&request.notifications);
        let limits = &self.endpoint.limits;
        let Some(c) = self.endpoint.channels.get(channel) else { return Ok(()) };
        if c.input_end.is_some() {
            // A subscription that begins after the end of the input would never end.
            return Err(RpcError::internal("the input has ended"));
        }
        if c.role.listeners.len() >= limits.max_subscriptions {
            return Err(RpcError::internal("too many subscriptions"));
        }
        // Resources beyond the limits are not honoured; the acknowledgment shows that (DEC-032).
        let subscribed: usize = match &self.subscriptions {
            Some(subs) => c.role.listeners.iter().map(|key| subs.resource_count(*key)).sum(),
            None => 0,
        };
        let room = limits.max_subscribed_resources.saturating_sub(subscribed);
        let max_uri = limits.max_uri;
        if let Some(uris) = &mut filter.resource_subscriptions {
            uris.retain(|uri| uri.len() <= max_uri);
            uris.truncate(room);
        }
        let subs = self.subscriptions.get_or_insert_with(|| Box::new(Subscriptions::new()));
        let key = subs.open(channel, Some(id.clone()), lists);
        for uri in filter.resource_subscriptions.iter().flatten() {
            if let Some(uri) = subs.subscribe_resource(key, uri) {
                self.events
                    .push_back(Event::ResourceInterest { uri: String::from(&*uri), is_subscribed: true });
            }
        }
        if let Some(c) = self.endpoint.channels.get_mut(channel) {
            c.role.listeners.push(key);
        }
        self.endpoint.send(channel, |out| {
            encode::notification_head(out, methods::ACKNOWLEDGED);
            out.extend_from_slice(b",\"params\":{\"notifications\":");
            // Booleans and strings can always be encoded.
            let _ = Serializer::any(out, &filter);
            out.extend_from_slice(b",\"_meta\":");
            write_subscription_meta(out, id);
            out.push(b'}');
            encode::end(out);
        });
        Ok(())
    }

    /// Returns the part of a filter that this server honours.
    fn honoured_filter(&self, requested: &SubscriptionFilter) -> (ListSet, SubscriptionFilter) {
        let declared = self.declared_lists();
        let mut filter = SubscriptionFilter::new();
        let mut wanted = 0;
        let lists = [
            (TOOLS, requested.tools_list_changed, &mut filter.tools_list_changed),
            (PROMPTS, requested.prompts_list_changed, &mut filter.prompts_list_changed),
            (RESOURCES, requested.resources_list_changed, &mut filter.resources_list_changed),
        ];
        for (kind, requested, honoured) in lists {
            if requested == Some(true) && declared & kind != 0 {
                wanted |= kind;
                *honoured = Some(true);
            }
        }
        if self.config.capabilities.has(Capability::ResourceSubscriptions) {
            filter.resource_subscriptions.clone_from(&requested.resource_subscriptions);
        }
        (wanted, filter)
    }

    fn declared_lists(&self) -> ListSet {
        let lists = [
            (TOOLS, Capability::ToolsListChanged),
            (PROMPTS, Capability::PromptsListChanged),
            (RESOURCES, Capability::ResourcesListChanged),
        ];
        let declared = lists.into_iter().filter(|(_, c)| self.config.capabilities.has(*c));
        declared.fold(0, |all, (kind, _)| all | kind)
    }

    /// Subscribes a new session to the lists whose changes the capabilities promise.
    pub(super) fn listen_for_session(&mut self, channel: Key) {
        if self.declared_lists() != 0 {
            self.session_listener(channel);
        }
    }

    /// Returns the listener of a legacy session, opening it if necessary.
    fn session_listener(&mut self, channel: Key) -> Option<Key> {
        let lists = self.declared_lists();
        let c = self.endpoint.channels.get_mut(channel).filter(|c| c.input_end.is_none())?;
        let subs = self.subscriptions.get_or_insert_with(|| Box::new(Subscriptions::new()));
        let listeners = &mut c.role.listeners;
        let existing = listeners.iter().find(|key| subs.get(**key).is_some_and(|l| l.id.is_none()));
        Some(existing.copied().unwrap_or_else(|| {
            let key = subs.open(channel, None, lists);
            listeners.push(key);
            key
        }))
    }

    /// Handles `resources/subscribe` and `resources/unsubscribe` (RES-010).
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn update_resource_subscription(
        &mut self,
        channel: Key,
        params: &[u8],
        subscribe: bool,
    ) -> Result<(), RpcError> {
        let params: SubscribeParams = serde_json::from_slice(params)
            .map_err(|e| RpcError::invalid_params(alloc::format!("`params`: {e}")))?;
        let (max_resources, max_uri) =
            (self.endpoint.limits.max_subscribed_resources, self.endpoint.limits.max_uri);
        if subscribe && params.uri.len() > max_uri {
            return Err(RpcError::invalid_params(alloc::format!(
                "`params.uri` is longer than {max_uri} bytes"
            )));
        }
        let Some(key) = self.session_listener(channel) else { return Ok(()) };
        let Some(subs) = &mut self.subscriptions else { return Ok(()) };
        if subscribe && subs.resource_count(key) >= max_resources {
            return Err(RpcError::internal("too many subscriptions"));
        }
        let changed = if subscribe {
            subs.subscribe_resource(key, &params.uri)
        } else {
            subs.unsubscribe_resource(key, &params.uri)
        };
        if let Some(uri) = changed {
            self.events
                .push_back(Event::ResourceInterest { uri: String::from(&*uri), is_subscribed: subscribe });
        }
        Ok(())
    }

    // ---- end of subscriptions ----

    /// Returns the listener of the `subscriptions/listen` with this id.
    pub(super) fn find_listener(&self, channel: Key, id: &RequestId) -> Option<Key> {
        let listeners = &self.endpoint.channels.get(channel)?.role.listeners;
        let subs = self.subscriptions.as_ref()?;
        listeners.iter().copied().find(|key| subs.get(*key).is_some_and(|l| l.id.as_ref() == Some(id)))
    }

    /// Ends a subscription that the client cancelled; nothing more is sent for it (SUB-012).
    pub(super) fn end_listener(&mut self, channel: Key, key: Key) {
        if let Some(c) = self.endpoint.channels.get_mut(channel) {
            c.role.listeners.retain(|other| *other != key);
        }
        self.close_listener(key);
    }

    /// Ends all subscriptions of a channel without sending anything, because its client is gone (SUB-017).
    pub(super) fn end_listeners(&mut self, channel: Key) {
        let Some(c) = self.endpoint.channels.get_mut(channel) else { return };
        for key in core::mem::take(&mut c.role.listeners) {
            self.close_listener(key);
        }
    }

    fn close_listener(&mut self, key: Key) {
        let closed = self.subscriptions.as_mut().and_then(|subs| subs.close(key));
        for uri in closed.map(|(_, unsubscribed)| unsubscribed).unwrap_or_default() {
            self.events.push_back(Event::ResourceInterest { uri: String::from(&*uri), is_subscribed: false });
        }
    }
}

/// Appends `{"io.modelcontextprotocol/subscriptionId":…}`.
fn write_subscription_meta(out: &mut Vec<u8>, id: &RequestId) {
    out.push(b'{');
    write_str(out, meta::SUBSCRIPTION_ID);
    out.push(b':');
    id.write(out);
    out.push(b'}');
}

/// An encoded change notification. It is equal for all listeners, except for the subscription id.
#[derive(Default)]
struct ChangeMessage {
    /// Encoded up to the subscription id; empty until it is needed.
    with_id: Vec<u8>,
    /// Encoded for legacy sessions, without an id.
    without_id: Vec<u8>,
}

impl ChangeMessage {
    fn write(
        &mut self,
        out: &mut Vec<u8>,
        target: ChangeTarget,
        uri: Option<&Arc<str>>,
        id: Option<&RequestId>,
    ) {
        match id {
            Some(id) => {
                if self.with_id.is_empty() {
                    write_head(&mut self.with_id, target);
                    self.with_id.extend_from_slice(b",\"params\":{");
                    if let Some(uri) = uri {
                        write_uri(&mut self.with_id, uri);
                        self.with_id.push(b',');
                    }
                    self.with_id.extend_from_slice(b"\"_meta\":{");
                    write_str(&mut self.with_id, meta::SUBSCRIPTION_ID);
                    self.with_id.push(b':');
                }
                out.extend_from_slice(&self.with_id);
                id.write(out);
                out.extend_from_slice(b"}}");
            }
            None => {
                if self.without_id.is_empty() {
                    write_head(&mut self.without_id, target);
                    if let Some(uri) = uri {
                        self.without_id.extend_from_slice(b",\"params\":{");
                        write_uri(&mut self.without_id, uri);
                        self.without_id.push(b'}');
                    }
                }
                out.extend_from_slice(&self.without_id);
            }
        }
        encode::end(out);
    }
}

fn write_head(out: &mut Vec<u8>, target: ChangeTarget) {
    encode::notification_head(
        out,
        match target {
            ChangeTarget::List(0) => methods::TOOLS_CHANGED,
            ChangeTarget::List(1) => methods::PROMPTS_CHANGED,
            ChangeTarget::List(_) => methods::RESOURCES_CHANGED,
            ChangeTarget::Resource(_) => methods::RESOURCE_UPDATED,
        },
    );
}

fn write_uri(out: &mut Vec<u8>, uri: &str) {
    out.extend_from_slice(b"\"uri\":");
    write_str(out, uri);
}
