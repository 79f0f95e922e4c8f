//! Change notifications: `subscriptions/listen`, `resources/subscribe`, and what is published to them (SUB, RES).

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::audience::Announcement;
use super::channel::{OUT_OF_MEMORY, ServerEndpoint, caller, is_exchange, mark_stream_finished};
use super::config::Config;
use super::event::Event;
use super::subscriptions::{ChangeTarget, ChannelListeners, Interest, SentChanges, Subscriptions};
use super::tasks::TaskContext;
use crate::built::{Part, Subscribing};
use crate::calls::endpoint::EndpointTimer;
use crate::identity::Capabilities;
use crate::json::{escaped_len, write_str};
use crate::limits::Limits;
use crate::listen_filter::{self, CustomLists, ListenFilter, declared_lists};
use crate::model::TaskId;
use crate::rpc::{self, RequestId, RpcError};
use crate::slab::Key;
use crate::sync::Arc;
use crate::{Capability, meta, methods};

/// Time until the outbox of a slow peer is checked again.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The subscriptions of all channels, and the notifications that they wait for.
///
/// Each channel with deferred notifications has one timer in the heap of the endpoint, which holds all deadlines.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Created with the first subscription.
    table: Part<Subscribing, Subscriptions>,
}

/// Bytes that a subscribed resource takes in the tables, beside its URI, while they grow.
const TABLES_OF_RESOURCE: usize = 256;

impl Changes {
    pub(super) fn trim(&mut self) {
        if let Some(table) = self.table.as_mut() {
            table.trim();
        }
    }

    /// Panics if a sum differs from what it sums.
    #[cfg(any(debug_assertions, test))]
    pub(super) fn check_sums(&self) {
        if let Some(table) = self.table.as_ref() {
            table.check_sums();
        }
    }

    /// Returns the bytes of the URIs and of their entries.
    pub(super) fn byte_len(&self) -> usize {
        self.table.as_ref().map_or(0, Subscriptions::byte_len)
    }

    fn table(&mut self) -> Option<&mut Subscriptions> {
        self.table.get_or_make(Subscriptions::new)
    }

    // ---- notifications -----------------------------------------------------------------------------------------

    /// Publishes a change to its audience among all subscribers. Returns their number.
    pub(super) fn publish(
        &mut self,
        endpoint: &mut ServerEndpoint,
        config: &Config,
        announcement: &Announcement<'_>,
    ) -> usize {
        let Some(table) = self.table.as_mut() else { return 0 };
        let Some(target) = table.find_target(announcement.change(), &config.custom_lists) else { return 0 };
        let (audience, of_resource) = (announcement.audience(), config.audience_of(announcement.change()));
        let is_everyone = audience.is_everyone() && of_resource.is_everyone();
        let (mut count, mut interests) = (0, table.interests(target));
        let mut message = ChangeMessage::new(target, &config.custom_lists);
        while let Some(interest) = table.next(&mut interests) {
            // Without conditions no caller is made, which would cost some copies for each receiver.
            if !is_everyone {
                let Some((channel, _)) = table.receiver(interest) else { continue };
                // As its requests are now: the party of a session can change.
                let caller = caller(endpoint, channel);
                if !audience.includes(&caller) || !of_resource.includes(&caller) {
                    continue;
                }
            }
            notify(table, endpoint, target, interest, &mut message);
            count += 1;
        }
        count
    }

    /// Returns the URIs of all resources that clients subscribe to.
    pub(super) fn uris(&self) -> impl Iterator<Item = &str> {
        self.table.as_ref().into_iter().flat_map(|table| table.uris())
    }

    /// Sends the deferred notifications of a channel if there is room.
    pub(super) fn handle_timeout(&mut self, endpoint: &mut ServerEndpoint, config: &Config, channel: Key) {
        if !Subscribing::IS_BUILT {
            return;
        }
        let now = endpoint.now;
        let sent = endpoint.channels.get_mut(channel).and_then(|c| c.role.sent_changes.as_mut());
        let Some(deferred) = sent.and_then(|sent| sent.take_due(now)) else { return };
        let Some(table) = self.table.as_mut() else { return };
        for interest in deferred {
            // An interest may have ended since, or it was notified in the meantime.
            if let Some(target) = table.target(interest).filter(|_| table.undefer(interest)) {
                let mut message = ChangeMessage::new(target, &config.custom_lists);
                notify(table, endpoint, target, interest, &mut message);
            }
        }
    }

    // ---- requests ----------------------------------------------------------------------------------------------

    /// Handles `subscriptions/listen`: acknowledges it now, answers it at its end (SUB-001, SUB-004, SUB-006, DEC-032).
    ///
    /// `accept_tasks` returns the tasks of the filter that are honoured.
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn listen(
        &mut self,
        cx: &mut TaskContext<'_>,
        channel: Key,
        id: &RequestId,
        params: &[u8],
        accept_tasks: impl FnOnce(&mut TaskContext<'_>, &[TaskId]) -> Result<Option<Vec<TaskId>>, RpcError>,
    ) -> Result<Vec<Event>, RpcError> {
        // The strings of the filter are copied, and their list has up to three entries for each while it grows.
        let strings = params.iter().filter(|byte| **byte == b',').count();
        let copied = params.len().saturating_add(strings.saturating_mul(4 * size_of::<String>()));
        if cx.endpoint.limits.is_out_of_memory(copied) || !cx.endpoint.memory.takes_new(copied) {
            return Err(RpcError::internal(OUT_OF_MEMORY));
        }
        let mut filter = ListenFilter::read(params, &cx.config.custom_lists)?;
        // What the server does not offer is left out, and the acknowledgment shows it.
        filter.restrict(&cx.config.settings.capabilities);
        if let Some(ids) = filter.task_ids.take() {
            filter.task_ids = accept_tasks(cx, &ids)?;
        }
        let TaskContext { endpoint, config, .. } = cx;
        let uris = filter.resources.iter().flatten().map(|uri| &**uri);
        config.check_subscription(&caller(endpoint, channel), uris)?; // AUTH-054
        let limits = &endpoint.limits;
        let Some(c) = endpoint.channels.get_mut(channel) else { return Ok(Vec::new()) };
        if c.input_end.is_some() {
            // A subscription that begins after the end of the input would never end.
            return Err(RpcError::internal("the input has ended"));
        }
        if c.role.listeners.len() >= limits.max_subscriptions {
            return Err(RpcError::internal("too many subscriptions"));
        }
        // Resources beyond the limits are not honoured; the acknowledgment shows that (DEC-032).
        let room = limits.max_subscribed_resources.saturating_sub(c.role.listeners.resource_count());
        let max_uri = limits.max_uri;
        if let Some(uris) = &mut filter.resources {
            uris.retain(|uri| uri.len() <= max_uri);
            uris.truncate(room);
        }
        let extra = filter.resources.iter().flatten().map(|uri| escaped_len(uri.as_bytes()) + 8).sum();
        let tables = filter.resources.iter().flatten().map(|uri| uri.len() + TABLES_OF_RESOURCE).sum();
        let has_memory = !endpoint.limits.is_out_of_memory(tables) && endpoint.memory.takes_new(tables);
        if !endpoint.make_room(channel, extra) || !has_memory {
            return Err(RpcError::internal(OUT_OF_MEMORY));
        }
        // From here on nothing is refused, so a refused filter has left nothing behind.
        let Some(c) = endpoint.channels.get_mut(channel) else { return Ok(Vec::new()) };
        let Some(table) = self.table() else { return Ok(Vec::new()) };
        let Some(key) = table.open(&mut c.role.listeners, channel, Some(id.clone()), filter.lists) else {
            return Ok(Vec::new());
        };
        let mut events = Vec::new();
        for uri in filter.resources.iter().flatten() {
            events.extend(
                table.subscribe(&mut c.role.listeners, key, uri).map(|uri| interest_event(&uri, true)),
            );
        }
        acknowledge(endpoint, channel, id, extra, |out| filter.write(out, &config.custom_lists));
        Ok(events)
    }

    /// Subscribes a new session to the lists whose changes the capabilities promise.
    pub(super) fn listen_for_session(
        &mut self,
        endpoint: &mut ServerEndpoint,
        declared: &Capabilities,
        channel: Key,
    ) {
        if declared_lists(|capability| declared.has(capability)) != 0 {
            self.session_listener(endpoint, declared, channel);
        }
    }

    /// Returns the resources that a legacy session subscribes to.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "sessions move over HTTP alone"))]
    pub(super) fn resources_of_session(&mut self, of: &mut ChannelListeners) -> Vec<Arc<str>> {
        let Some(table) = self.table.as_mut().filter(|_| !of.is_empty()) else { return Vec::new() };
        table.find(of, None).map(|listener| table.resources_of(listener)).unwrap_or_default()
    }

    /// Subscribes a session to exactly these resources.
    ///
    /// `announces`: it is also notified of all that it is subscribed to, because nobody knows what has changed meanwhile.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "sessions move over HTTP alone"))]
    pub(super) fn set_resources(
        &mut self,
        endpoint: &mut ServerEndpoint,
        config: &Config,
        channel: Key,
        resources: &[Arc<str>],
        announces: bool,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let declared = &config.settings.capabilities;
        let may_subscribe = !resources.is_empty() && declared.has(Capability::ResourceSubscriptions);
        let listener = may_subscribe.then(|| self.session_listener(endpoint, declared, channel)).flatten();
        let (max_resources, max_uri) = match may_subscribe {
            true => (endpoint.limits.max_subscribed_resources, endpoint.limits.max_uri),
            false => (0, 0),
        };
        let (Some(table), Some(c)) = (self.table.as_mut(), endpoint.channels.get_mut(channel)) else {
            return events;
        };
        let of = &mut c.role.listeners;
        let Some(listener) = listener.or_else(|| table.find(of, None)) else { return events };
        for uri in table.resources_of(listener).iter().filter(|uri| !resources.contains(uri)) {
            events.extend(table.unsubscribe(of, listener, uri).map(|uri| interest_event(&uri, false)));
        }
        for uri in resources.iter().filter(|uri| uri.len() <= max_uri).take(max_resources) {
            events.extend(table.subscribe(of, listener, uri).map(|uri| interest_event(&uri, true)));
        }
        let announced = if announces { table.interests_of(listener) } else { Vec::new() };
        for interest in announced {
            if let Some(target) = table.target(interest) {
                let mut message = ChangeMessage::new(target, &config.custom_lists);
                notify(table, endpoint, target, interest, &mut message);
            }
        }
        events
    }

    /// Returns the listener of a legacy session, opening it if necessary.
    fn session_listener(
        &mut self,
        endpoint: &mut ServerEndpoint,
        declared: &Capabilities,
        channel: Key,
    ) -> Option<Key> {
        let c = endpoint.channels.get_mut(channel).filter(|c| c.input_end.is_none())?;
        let table = self.table()?;
        let existing = table.find(&mut c.role.listeners, None);
        // The end of the handshake opens it if lists are promised, else the first subscription to a resource does.
        existing.or_else(|| {
            table.open(
                &mut c.role.listeners,
                channel,
                None,
                declared_lists(|capability| declared.has(capability)),
            )
        })
    }

    /// Handles `resources/subscribe` and `resources/unsubscribe` (RES-010) of an exchange, or of the session itself.
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn update_resource(
        &mut self,
        endpoint: &mut ServerEndpoint,
        config: &Config,
        (exchange, channel): (Key, Key),
        params: &[u8],
        subscribe: bool,
    ) -> Result<Option<Event>, RpcError> {
        let uri = listen_filter::read_uri(params)?;
        let (max_resources, max_uri) = (endpoint.limits.max_subscribed_resources, endpoint.limits.max_uri);
        if subscribe && uri.len() > max_uri {
            return Err(RpcError::invalid_params(alloc::format!(
                "`params.uri` is longer than {max_uri} bytes"
            )));
        }
        if subscribe {
            let caller = caller(endpoint, exchange);
            config.check_subscription(&caller, core::iter::once(&*uri))?; // AUTH-054
        }
        let declared = &config.settings.capabilities;
        let Some(key) = self.session_listener(endpoint, declared, channel) else { return Ok(None) };
        let (Some(table), Some(c)) = (self.table.as_mut(), endpoint.channels.get_mut(channel)) else {
            return Ok(None);
        };
        if subscribe && c.role.listeners.resource_count() >= max_resources {
            return Err(RpcError::internal("too many subscriptions"));
        }
        if subscribe && !endpoint.memory.takes_new(uri.len() + TABLES_OF_RESOURCE) {
            return Err(RpcError::internal(OUT_OF_MEMORY));
        }
        let changed = if subscribe {
            table.subscribe(&mut c.role.listeners, key, &uri)
        } else {
            table.unsubscribe(&mut c.role.listeners, key, &uri)
        };
        Ok(changed.map(|uri| interest_event(&uri, subscribe)))
    }

    // ---- end of subscriptions ----------------------------------------------------------------------------------

    /// Ends every `subscriptions/listen` of a channel gracefully (SUB-013, SUB-014).
    pub(super) fn end_gracefully(&mut self, endpoint: &mut ServerEndpoint, channel: Key) -> Vec<Event> {
        let Some(table) = self.table.as_mut() else { return Vec::new() };
        let mut events = Vec::new();
        let c = endpoint.channels.get(channel).filter(|c| !c.role.listeners.is_empty());
        let requests = c.map(|c| table.requests(&c.role.listeners)).unwrap_or_default();
        for key in requests {
            let Some(id) = table.id(key).cloned() else { continue };
            // Closed first, so that no notification can follow the result.
            events.extend(close(table, endpoint, channel, key));
            send_listen_end(endpoint, channel, &id);
        }
        events
    }

    /// Returns the listener of the `subscriptions/listen` with this id.
    pub(super) fn find(
        &mut self,
        endpoint: &mut ServerEndpoint,
        channel: Key,
        id: &RequestId,
    ) -> Option<Key> {
        let c = endpoint.channels.get_mut(channel).filter(|c| !c.role.listeners.is_empty())?;
        self.table.as_mut()?.find(&mut c.role.listeners, Some(id))
    }

    /// Ends a subscription that the client cancelled; nothing more is sent for it (SUB-012).
    pub(super) fn end(&mut self, endpoint: &mut ServerEndpoint, channel: Key, key: Key) -> Vec<Event> {
        self.table.as_mut().map(|table| close(table, endpoint, channel, key)).unwrap_or_default()
    }

    /// Ends all subscriptions of a channel without sending anything, because its client is gone (SUB-017).
    pub(super) fn end_all(&mut self, endpoint: &mut ServerEndpoint, channel: Key) -> Vec<Event> {
        let Some(table) = self.table.as_mut() else { return Vec::new() };
        let c = endpoint.channels.get_mut(channel).filter(|c| !c.role.listeners.is_empty());
        let Some(c) = c else { return Vec::new() };
        let (mut all, mut events) = (table.requests(&c.role.listeners), Vec::new());
        all.extend(table.find(&mut c.role.listeners, None));
        for key in all {
            events.extend(close(table, endpoint, channel, key));
        }
        events
    }
}

/// Removes a listener. Returns the events of resources that have no subscribers any more.
fn close(table: &mut Subscriptions, endpoint: &mut ServerEndpoint, channel: Key, key: Key) -> Vec<Event> {
    let Some(c) = endpoint.channels.get_mut(channel) else { return Vec::new() };
    let unsubscribed = table.close(&mut c.role.listeners, key);
    unsubscribed.into_iter().map(|uri| interest_event(&uri, false)).collect()
}

fn interest_event(uri: &str, is_subscribed: bool) -> Event {
    Event::ResourceInterest { uri: String::from(uri), is_subscribed }
}

/// Sends a change notification to a listener, or defers it.
fn notify(
    table: &mut Subscriptions,
    endpoint: &mut ServerEndpoint,
    target: ChangeTarget,
    interest: Interest,
    message: &mut ChangeMessage,
) {
    let Some((channel, id)) = table.receiver(interest) else { return };
    let uri_room = message.uri_room(table, target);
    let is_full = endpoint.check_outbox_room(channel, uri_room).is_err()
        || !message.make_room(&endpoint.limits, id.is_some(), uri_room);
    let Some(c) = endpoint.channels.get_mut(channel).filter(|c| !c.closed) else { return };
    let Some(marker) = Subscribing::get() else { return };
    let sent: &mut SentChanges = c.role.sent_changes.get_or_insert_default(marker);
    let consumed = c.outbox.consumed();
    let all_consumed = sent.begin(consumed, c.outbox.len());
    let epoch = sent.epoch();
    let was_notified = !all_consumed && table.was_notified(interest, epoch);
    // Its notification is still complete in the outbox, and will be read after this change.
    if was_notified && !sent.is_begun(consumed) {
        return;
    }
    // A notification that was written in part may have been read already. The new one is sent after the rest.
    if was_notified || is_full {
        if table.defer(interest) {
            // Interests that have ended leave their entries.
            let live = c.role.listeners.len() * 3 + c.role.listeners.resource_count();
            sent.push_deferred(interest, live, |interest| table.is_deferred(interest));
        }
        let at = endpoint.now + RETRY_DELAY;
        // One timer per channel: each run arms at most one more, so timers cannot multiply.
        if sent.schedule(at) {
            endpoint.deadlines.arm(at, EndpointTimer::Changes(channel));
        }
        return;
    }
    let mark = c.outbox.mark();
    message.write(c.outbox.tail(), table, target, id);
    table.mark_notified(interest, epoch);
    endpoint.commit_message(channel, mark);
    // The end is known behind the message only. Until it is consumed, an equal change adds nothing.
    if let Some(c) = endpoint.channels.get_mut(channel) {
        let end = c.outbox.consumed() + c.outbox.len() as u64;
        c.role.sent_changes.get_or_insert_default(marker).set_end(end);
    }
}

/// Acknowledges a subscription with what of its filter is honoured (SUB-004).
fn acknowledge(
    endpoint: &mut ServerEndpoint,
    channel: Key,
    id: &RequestId,
    extra: usize,
    write_filter: impl FnOnce(&mut Vec<u8>),
) {
    endpoint.send(channel, extra, |out| {
        rpc::notification_head(out, methods::ACKNOWLEDGED);
        out.extend_from_slice(b",\"params\":{\"notifications\":");
        write_filter(out);
        out.extend_from_slice(b",\"_meta\":");
        write_subscription_meta(out, id);
        out.push(b'}');
        rpc::end(out);
    });
}

/// Sends the result, and on byte streams the notification that the cancellation page requires (DEC-002, SUB-021).
fn send_listen_end(endpoint: &mut ServerEndpoint, channel: Key, id: &RequestId) {
    // Without memory an error ends the request as well.
    endpoint.send_or_batch(channel, None, id, 0, |out| {
        rpc::result_head(out, id);
        out.extend_from_slice(b"{\"resultType\":\"complete\",\"_meta\":");
        write_subscription_meta(out, id);
        out.push(b'}');
        rpc::end(out);
    });
    if is_exchange(endpoint, channel) {
        // The end of the exchange means the same (SUB-021 is about streams that continue).
        return mark_stream_finished(endpoint, channel);
    }
    endpoint.send(channel, 0, |out| {
        rpc::notification_head(out, methods::CANCELLED);
        out.extend_from_slice(b",\"params\":{\"requestId\":");
        id.write(out);
        out.push(b'}');
        rpc::end(out);
    });
}

/// Appends `{"io.modelcontextprotocol/subscriptionId":…}`.
fn write_subscription_meta(out: &mut Vec<u8>, id: &RequestId) {
    out.push(b'{');
    write_str(out, meta::SUBSCRIPTION_ID);
    out.push(b':');
    id.write(out);
    out.push(b'}');
}

/// More than the bytes of a change notification beside its method and its URI, up to the subscription id.
const MEMBERS_LEN: usize = 128;

/// An encoded change notification. It is equal for all listeners, except for the subscription id.
struct ChangeMessage {
    method: &'static str,
    /// Bytes that the URI takes in the text for all listeners, and again in an outbox.
    uri_room: Option<usize>,
    /// Encoded up to the subscription id; empty until it is needed.
    with_id: Vec<u8>,
    /// Encoded for legacy sessions, without an id.
    without_id: Vec<u8>,
}

impl ChangeMessage {
    fn new(target: ChangeTarget, custom: &CustomLists) -> Self {
        let method = match target {
            ChangeTarget::Resource(_) => methods::RESOURCE_UPDATED,
            // The position is that of a list, so it has a notification.
            ChangeTarget::List(list) => custom.notification(list).unwrap_or_default(),
        };
        Self { method, uri_room: None, with_id: Vec::new(), without_id: Vec::new() }
    }

    fn uri_room(&mut self, table: &Subscriptions, target: ChangeTarget) -> usize {
        let uri = || table.uri(target).map_or(0, |uri| escaped_len(uri.as_bytes()));
        *self.uri_room.get_or_insert_with(uri)
    }

    /// Makes room for the text for all listeners. Returns whether there is.
    fn make_room(&mut self, limits: &Limits, has_id: bool, uri_room: usize) -> bool {
        let text = if has_id { &mut self.with_id } else { &mut self.without_id };
        // Exactly, because what follows a long URI would double it; and what `write_str` makes behind one.
        let room = uri_room + uri_room.min(1 << 10) + self.method.len() + MEMBERS_LEN;
        !text.is_empty() || (!limits.is_out_of_memory(room) && text.try_reserve_exact(room).is_ok())
    }

    fn write(
        &mut self,
        out: &mut Vec<u8>,
        table: &Subscriptions,
        target: ChangeTarget,
        id: Option<&RequestId>,
    ) {
        match id {
            Some(id) => {
                // Encoded once for all listeners, which differ only in the id behind it.
                if self.with_id.is_empty() {
                    rpc::notification_head(&mut self.with_id, self.method);
                    self.with_id.extend_from_slice(b",\"params\":{");
                    if let Some(uri) = table.uri(target) {
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
                    rpc::notification_head(&mut self.without_id, self.method);
                    if let Some(uri) = table.uri(target) {
                        self.without_id.extend_from_slice(b",\"params\":{");
                        write_uri(&mut self.without_id, uri);
                        self.without_id.push(b'}');
                    }
                }
                out.extend_from_slice(&self.without_id);
            }
        }
        rpc::end(out);
    }
}

fn write_uri(out: &mut Vec<u8>, uri: &str) {
    out.extend_from_slice(b"\"uri\":");
    write_str(out, uri);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;

    // Where the heap is bounded, the room is asked for, and what is written beyond it is not.
    #[test]
    fn change_of_a_resource_is_written_into_the_room_that_was_made_for_it() {
        let (custom, channel) = (CustomLists::new(), Key { slot: 0, generation: 0 });
        for length in [1, 1 << 10, (16 << 10) - 1, 16 << 10, 40 << 10] {
            for id in [None, Some(RequestId::int(1))] {
                let (mut table, mut of) = (Subscriptions::new(), ChannelListeners::new());
                let listener = table.open(&mut of, channel, id.clone(), 0).expect("new");
                let uri = "u".repeat(length);
                table.subscribe(&mut of, listener, &uri);
                let target = table.find_target(&Change::Resource(uri), &custom).expect("a target");
                let mut message = ChangeMessage::new(target, &custom);
                let uri_room = message.uri_room(&table, target);
                assert!(message.make_room(&Limits::default(), id.is_some(), uri_room));
                let capacities =
                    |message: &ChangeMessage| (message.with_id.capacity(), message.without_id.capacity());
                let room = capacities(&message);
                message.write(&mut Vec::new(), &table, target, id.as_ref());
                assert_eq!(capacities(&message), room, "{length} {id:?}");
            }
        }
    }
}
