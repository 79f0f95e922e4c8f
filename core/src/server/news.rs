//! Subscriptions and the news that go to them: `subscriptions/listen`, `resources/subscribe`, `publish` (SUB, RES).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::engine::Engine;
use super::event::Event;
use super::subscriptions::{Lists, PROMPTS, RESOURCES, Subscriptions, TOOLS, Target};
use crate::calls::link::Timer;
use crate::change::Change;
use crate::json::{Serializer, write_str};
use crate::meta;
use crate::model::{SubscribeParams, SubscriptionFilter, SubscriptionsListenParams};
use crate::rpc::{RequestId, RpcError, encode};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::vocab::{self, Capability};

/// How soon a peer that did not read is looked at again
const SOON: Duration = Duration::from_millis(50);

impl Engine {
    /// Tells everybody who wants to know that something has changed; how many that are
    ///
    /// Modern clients are told on each `subscriptions/listen` whose filter matches (SUB-003, SUB-008), legacy ones when
    /// the capability promised it to them (RES-012, PROMPT-009), or when they subscribed to the resource (RES-011,
    /// RES-028). News is level-triggered: whoever has not been sent the last one yet is told once; who does not read is
    /// told when it does. URIs are compared as they are spelt.
    pub fn publish(&mut self, now: Instant, change: &Change) -> usize {
        self.link.tick(now);
        let Some(target) = self.subscriptions.as_ref().and_then(|subs| subs.target(change)) else { return 0 };
        let (mut place, mut wording) = (0, Wording::default());
        while self.tell(target, place, &mut wording) {
            place += 1;
        }
        place
    }

    /// The resources that somebody wants to know of, by their URIs as they were spelt
    ///
    /// For who knows no more than that some of them have changed.
    pub fn followed(&self) -> impl Iterator<Item = &str> {
        self.subscriptions.iter().flat_map(|subs| subs.uris())
    }

    /// Ends every `subscriptions/listen` of a channel in good order (SUB-013, SUB-014)
    ///
    /// The client learns that it will not be told any more. Its other calls go on.
    pub fn end_subscriptions(&mut self, now: Instant, channel: ChannelId) {
        self.link.tick(now);
        let Some(c) = self.link.channels.get_mut(channel.0) else { return };
        for key in core::mem::take(&mut c.extra.listeners) {
            let id = self.subscriptions.as_ref().and_then(|subs| subs.get(key)).and_then(|l| l.id.clone());
            match id {
                // A session's own goes on.
                None => {
                    if let Some(c) = self.link.channels.get_mut(channel.0) {
                        c.extra.listeners.push(key);
                    }
                }
                Some(id) => {
                    self.close_listener(key);
                    self.say_farewell(channel.0, &id);
                }
            }
        }
    }

    /// Ends every `subscriptions/listen` of all channels in good order, as [`end_subscriptions`](Self::end_subscriptions)
    /// does those of one; over HTTP each is a channel of its own
    pub fn end_all_subscriptions(&mut self, now: Instant) {
        for channel in self.link.open_channels() {
            self.end_subscriptions(now, ChannelId(channel));
        }
    }

    /// The result, and the notification that the cancellation page asks for on streams (DEC-002, SUB-021)
    fn say_farewell(&mut self, channel: Key, id: &RequestId) {
        self.link.send(channel, |out| {
            encode::result_head(out, id);
            out.extend_from_slice(b"{\"resultType\":\"complete\",\"_meta\":");
            write_subscription(out, id);
            out.push(b'}');
            encode::end(out);
        });
        if self.is_exchange(channel) {
            // Its end says the same (SUB-021 is about streams that go on).
            return self.stream_over(channel);
        }
        self.link.send(channel, |out| {
            encode::notification_head(out, vocab::CANCELLED);
            out.extend_from_slice(b",\"params\":{\"requestId\":");
            id.write(out);
            out.push(b'}');
            encode::end(out);
        });
    }

    /// Writes one piece of news, or notes that it is due; false when there is nobody at `place`
    fn tell(&mut self, target: Target, place: usize, wording: &mut Wording) -> bool {
        let Some(subs) = self.subscriptions.as_deref_mut() else { return false };
        let Some(key) = subs.at(target, place) else { return false };
        let Some(channel) = subs.get(key).map(|l| l.channel) else { return true };
        let Some(c) = self.link.channels.get_mut(channel).filter(|c| !c.closed) else { return true };
        let news = c.extra.news.get_or_insert_default();
        let left = c.outbox.consumed();
        let begins = left >= news.until;
        if begins {
            // All that was said before has left: what is said from now on is new to the peer.
            news.round = news.round.wrapping_add(1).max(1);
            news.from = left + c.outbox.len() as u64;
        }
        let told = !begins && subs.was_told(target, place, news.round);
        if told && left <= news.from {
            return true;
        }
        // What has left in part may have been read, and then this is new to the peer: it is told when the rest has left.
        if told || c.outbox.len() >= self.link.limits.outbox_mark {
            subs.hold(target, place);
            self.look_later(channel, self.link.now);
            return true;
        }
        subs.tell(target, place, news.round);
        let mark = c.outbox.mark();
        let id = subs.get(key).and_then(|l| l.id.as_ref());
        wording.write(c.outbox.tail(), target, subs.uri(target), id);
        self.link.sent(channel, mark);
        if let Some(c) = self.link.channels.get_mut(channel) {
            c.extra.news.get_or_insert_default().until = c.outbox.consumed() + c.outbox.len() as u64;
        }
        true
    }

    /// Has what is held back on a channel looked at, at `at` or a little later
    pub(super) fn look_later(&mut self, channel: Key, at: Instant) {
        let at = at.max(self.link.now + SOON);
        let Some(c) = self.link.channels.get_mut(channel) else { return };
        // One look leads to one other at most, whatever is held: else they would be twice as many each time.
        let news = c.extra.news.get_or_insert_default();
        if at < news.due {
            news.due = at;
            self.link.deadlines.arm(at, Timer::News(channel));
        }
    }

    /// Tells what was held back on a channel, if there is room by now
    pub(super) fn release_news(&mut self, channel: Key) {
        let now = self.link.now;
        let news = self.link.channels.get_mut(channel).and_then(|c| c.extra.news.as_mut());
        let Some(news) = news.filter(|news| news.due <= now) else { return };
        news.due = Instant::FAR;
        self.release_log(channel);
        let Some(c) = self.link.channels.get_mut(channel) else { return };
        for key in c.extra.listeners.clone() {
            let held = self.subscriptions.as_ref().map(|subs| subs.held(key)).unwrap_or_default();
            for (target, place) in held {
                self.tell(target, place, &mut Wording::default());
            }
        }
    }

    // ---- requests --------------------------------------------------------------------------------------------

    /// `subscriptions/listen`: acknowledged at once, answered when it ends (SUB-001, SUB-004, SUB-006, DEC-032)
    pub(super) fn listen(&mut self, channel: Key, id: &RequestId, params: &[u8]) -> Result<(), RpcError> {
        let asked: SubscriptionsListenParams = serde_json::from_slice(params)
            .map_err(|e| RpcError::invalid_params(alloc::format!("`params`: {e}")))?;
        let (wants, mut filter) = self.honoured(&asked.notifications);
        let limits = &self.link.limits;
        let Some(c) = self.link.channels.get(channel) else { return Ok(()) };
        if c.ended.is_some() {
            // All subscriptions have ended, and none may begin that never would.
            return Err(RpcError::internal("the input has ended"));
        }
        if c.extra.listeners.len() >= limits.max_subscriptions {
            return Err(RpcError::internal("too many subscriptions"));
        }
        // What is beyond the limit is not honoured, and the acknowledgement says so.
        let followed: usize = match &self.subscriptions {
            Some(subs) => c.extra.listeners.iter().map(|key| subs.followed(*key)).sum(),
            None => 0,
        };
        let room = limits.max_followed.saturating_sub(followed);
        let longest = limits.max_uri;
        if let Some(uris) = &mut filter.resource_subscriptions {
            uris.retain(|uri| uri.len() <= longest);
            uris.truncate(room);
        }
        let subs = self.subscriptions.get_or_insert_with(|| Box::new(Subscriptions::new()));
        let key = subs.open(channel, Some(id.clone()), wants);
        for uri in filter.resource_subscriptions.iter().flatten() {
            if let Some(uri) = subs.follow(key, uri) {
                self.events.push_back(Event::Interest { uri: String::from(&*uri), wanted: true });
            }
        }
        if let Some(c) = self.link.channels.get_mut(channel) {
            c.extra.listeners.push(key);
        }
        self.link.send(channel, |out| {
            encode::notification_head(out, vocab::ACKNOWLEDGED);
            out.extend_from_slice(b",\"params\":{\"notifications\":");
            // Booleans and strings can always be written.
            let _ = Serializer::any(out, &filter);
            out.extend_from_slice(b",\"_meta\":");
            write_subscription(out, id);
            out.push(b'}');
            encode::end(out);
        });
        Ok(())
    }

    /// What of a filter this server tells of
    fn honoured(&self, asked: &SubscriptionFilter) -> (Lists, SubscriptionFilter) {
        let declared = self.declared_lists();
        let mut filter = SubscriptionFilter::new();
        let mut wants = 0;
        let lists = [
            (TOOLS, asked.tools_list_changed, &mut filter.tools_list_changed),
            (PROMPTS, asked.prompts_list_changed, &mut filter.prompts_list_changed),
            (RESOURCES, asked.resources_list_changed, &mut filter.resources_list_changed),
        ];
        for (kind, asked, honoured) in lists {
            if asked == Some(true) && declared & kind != 0 {
                wants |= kind;
                *honoured = Some(true);
            }
        }
        if self.config.capabilities.has(Capability::ResourceSubscriptions) {
            filter.resource_subscriptions.clone_from(&asked.resource_subscriptions);
        }
        (wants, filter)
    }

    fn declared_lists(&self) -> Lists {
        let lists = [
            (TOOLS, Capability::ToolsListChanged),
            (PROMPTS, Capability::PromptsListChanged),
            (RESOURCES, Capability::ResourcesListChanged),
        ];
        let declared = lists.into_iter().filter(|(_, c)| self.config.capabilities.has(*c));
        declared.fold(0, |all, (kind, _)| all | kind)
    }

    /// A session begins: from now on it is told of the lists that were promised to it
    pub(super) fn promise(&mut self, channel: Key) {
        if self.declared_lists() != 0 {
            self.session_listener(channel);
        }
    }

    /// The listener that is the session of a channel
    fn session_listener(&mut self, channel: Key) -> Option<Key> {
        let wants = self.declared_lists();
        let c = self.link.channels.get_mut(channel).filter(|c| c.ended.is_none())?;
        let subs = self.subscriptions.get_or_insert_with(|| Box::new(Subscriptions::new()));
        let listeners = &mut c.extra.listeners;
        let known = listeners.iter().find(|key| subs.get(**key).is_some_and(|l| l.id.is_none()));
        Some(known.copied().unwrap_or_else(|| {
            let key = subs.open(channel, None, wants);
            listeners.push(key);
            key
        }))
    }

    /// `resources/subscribe` and `resources/unsubscribe` (RES-010)
    pub(super) fn follow(&mut self, channel: Key, params: &[u8], follows: bool) -> Result<(), RpcError> {
        let params: SubscribeParams = serde_json::from_slice(params)
            .map_err(|e| RpcError::invalid_params(alloc::format!("`params`: {e}")))?;
        let (most, longest) = (self.link.limits.max_followed, self.link.limits.max_uri);
        if follows && params.uri.len() > longest {
            return Err(RpcError::invalid_params(alloc::format!(
                "`params.uri` is longer than {longest} bytes"
            )));
        }
        let Some(key) = self.session_listener(channel) else { return Ok(()) };
        let Some(subs) = &mut self.subscriptions else { return Ok(()) };
        if follows && subs.followed(key) >= most {
            return Err(RpcError::internal("too many subscriptions"));
        }
        let changed = if follows { subs.follow(key, &params.uri) } else { subs.unfollow(key, &params.uri) };
        if let Some(uri) = changed {
            self.events.push_back(Event::Interest { uri: String::from(&*uri), wanted: follows });
        }
        Ok(())
    }

    // ---- ends ------------------------------------------------------------------------------------------------

    /// The listener that a `subscriptions/listen` with this id has
    pub(super) fn find_listener(&self, channel: Key, id: &RequestId) -> Option<Key> {
        let listeners = &self.link.channels.get(channel)?.extra.listeners;
        let subs = self.subscriptions.as_ref()?;
        listeners.iter().copied().find(|key| subs.get(*key).is_some_and(|l| l.id.as_ref() == Some(id)))
    }

    /// A client ends a subscription: nothing more is sent for it (SUB-012)
    pub(super) fn end_listener(&mut self, channel: Key, key: Key) {
        if let Some(c) = self.link.channels.get_mut(channel) {
            c.extra.listeners.retain(|other| *other != key);
        }
        self.close_listener(key);
    }

    /// All subscriptions of a channel end without a word: nobody is there to hear it (SUB-017)
    pub(super) fn end_listeners(&mut self, channel: Key) {
        let Some(c) = self.link.channels.get_mut(channel) else { return };
        for key in core::mem::take(&mut c.extra.listeners) {
            self.close_listener(key);
        }
    }

    fn close_listener(&mut self, key: Key) {
        let closed = self.subscriptions.as_mut().and_then(|subs| subs.close(key));
        for uri in closed.map(|(_, left)| left).unwrap_or_default() {
            self.events.push_back(Event::Interest { uri: String::from(&*uri), wanted: false });
        }
    }
}

/// `{"io.modelcontextprotocol/subscriptionId":…}`
fn write_subscription(out: &mut Vec<u8>, id: &RequestId) {
    out.push(b'{');
    write_str(out, meta::SUBSCRIPTION_ID);
    out.push(b':');
    id.write(out);
    out.push(b'}');
}

/// One piece of news as it is written: the same for all who are told, but for the id of their subscription
#[derive(Default)]
struct Wording {
    /// Up to that id; empty until somebody needs it
    tagged: Vec<u8>,
    /// For legacy sessions, which have none
    plain: Vec<u8>,
}

impl Wording {
    fn write(&mut self, out: &mut Vec<u8>, target: Target, uri: Option<&Arc<str>>, id: Option<&RequestId>) {
        match id {
            Some(id) => {
                if self.tagged.is_empty() {
                    begin(&mut self.tagged, target);
                    self.tagged.extend_from_slice(b",\"params\":{");
                    if let Some(uri) = uri {
                        write_uri(&mut self.tagged, uri);
                        self.tagged.push(b',');
                    }
                    self.tagged.extend_from_slice(b"\"_meta\":{");
                    write_str(&mut self.tagged, meta::SUBSCRIPTION_ID);
                    self.tagged.push(b':');
                }
                out.extend_from_slice(&self.tagged);
                id.write(out);
                out.extend_from_slice(b"}}");
            }
            None => {
                if self.plain.is_empty() {
                    begin(&mut self.plain, target);
                    if let Some(uri) = uri {
                        self.plain.extend_from_slice(b",\"params\":{");
                        write_uri(&mut self.plain, uri);
                        self.plain.push(b'}');
                    }
                }
                out.extend_from_slice(&self.plain);
            }
        }
        encode::end(out);
    }
}

fn begin(out: &mut Vec<u8>, target: Target) {
    encode::notification_head(
        out,
        match target {
            Target::List(0) => vocab::TOOLS_CHANGED,
            Target::List(1) => vocab::PROMPTS_CHANGED,
            Target::List(_) => vocab::RESOURCES_CHANGED,
            Target::Topic(_) => vocab::RESOURCE_UPDATED,
        },
    );
}

fn write_uri(out: &mut Vec<u8>, uri: &str) {
    out.extend_from_slice(b"\"uri\":");
    write_str(out, uri);
}
