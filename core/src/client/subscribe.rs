//! Subscriptions to changes: one filter, whatever the era (SUB, RES-010, RES-013).
//!
//! A modern subscription is a request that stays open, `subscriptions/listen`, by whose id news is told apart. Of a
//! legacy one the server knows only the resources, each followed once however many subscriptions want it; which of
//! them some news is for is decided here.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;

use super::engine::Engine;
use super::event::Event;
use crate::calls::ours::Ask;
use crate::calls::outbound::{CallOptions, Match, OutCall, Purpose};
use crate::change::Change;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, HttpError, UseError};
use crate::json::{Serializer, object_members};
use crate::meta;
use crate::model::{SubscriptionFilter, SubscriptionsAcknowledgedParams};
use crate::rpc::RequestId;
use crate::shape;
use crate::slab::Key;
use crate::time::Instant;
use crate::vocab::{self, Capability};

/// A subscription
///
/// Stale from [`Event::SubscriptionEnded`] on, or once it was given up; a stale key is refused and never hits another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriptionKey(u64);

/// All subscriptions, and what a legacy server knows of them
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    /// By a number that is never used again
    all: BTreeMap<u64, Subscription>,
    /// The resources that a legacy server was asked to follow
    followed: BTreeMap<Box<str>, Followed>,
}

#[derive(Debug)]
struct Subscription {
    /// What it is about: as asked, then as honoured
    lists: Lists,
    /// In order
    uris: Vec<Box<str>>,
    /// The server has said what it honours
    acknowledged: bool,
    /// The request that is open for it (modern)
    listen: Option<Key>,
}

#[derive(Debug)]
struct Followed {
    /// How many subscriptions want it
    wanted: usize,
    /// The question that has not been answered
    asked: Option<Key>,
}

/// Lists that can change
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Lists {
    tools: bool,
    prompts: bool,
    resources: bool,
}

impl Lists {
    fn of(filter: &SubscriptionFilter) -> Self {
        let is = |flag: Option<bool>| flag == Some(true);
        Self {
            tools: is(filter.tools_list_changed),
            prompts: is(filter.prompts_list_changed),
            resources: is(filter.resources_list_changed),
        }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            tools: self.tools && other.tools,
            prompts: self.prompts && other.prompts,
            resources: self.resources && other.resources,
        }
    }
}

fn uris(filter: &SubscriptionFilter) -> Vec<Box<str>> {
    let given = filter.resource_subscriptions.iter().flatten();
    let mut uris: Vec<Box<str>> = given.map(|uri| Box::from(&**uri)).collect();
    uris.sort_unstable();
    uris.dedup();
    uris
}

/// Whether `uri` is a resource, or lies within it (RES-011)
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

    /// What it is about, as the application is told
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
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn listening(&mut self, listen: Key) -> Option<(u64, &mut Subscription)> {
        let found = self.all.iter_mut().find(|(_, sub)| sub.listen == Some(listen));
        found.map(|(number, sub)| (*number, sub))
    }
}

impl Engine {
    /// Asks to be told of changes (SUB-001, SUB-010, RES-010, RES-013)
    ///
    /// What the server honours of it comes as [`Event::Subscribed`], what changes from then on as [`Event::Changed`]:
    /// what changed before is not told, so that moment is the one to read what is followed. A subscription that the
    /// server ends is told by [`Event::SubscriptionEnded`]. On a byte stream nothing is opened anew: a connection
    /// that breaks ends its subscriptions, and the next one begins without any (SUB-016, SUB-017). Once acknowledged
    /// it has no time-out (SUB-018).
    pub fn subscribe(
        &mut self,
        now: Instant,
        filter: &SubscriptionFilter,
    ) -> Result<SubscriptionKey, UseError> {
        self.link.tick(now);
        let (main, _) = self.ready_channel()?;
        let limits = &self.link.limits;
        let number = self.serial + 1;
        let mut sub =
            Subscription { lists: Lists::of(filter), uris: uris(filter), acknowledged: false, listen: None };
        if self.news.as_ref().is_some_and(|n| n.subscriptions.all.len() >= limits.max_subscriptions) {
            return Err(UseError::Full("max_subscriptions"));
        }
        if sub.uris.len() > limits.max_followed {
            return Err(UseError::Full("max_followed"));
        }
        if sub.uris.iter().any(|uri| uri.len() > limits.max_uri) {
            return Err(UseError::Full("max_uri"));
        }
        if self.is_modern() {
            self.room_for(1)?;
            sub.listen = Some(self.listen(main, filter)?);
        } else {
            sub.lists = sub.lists.and(self.promised());
            if !self.peer.as_ref().is_some_and(|p| p.has(Capability::ResourceSubscriptions)) {
                sub.uris.clear();
            }
            self.follow(main, &sub.uris)?;
        }
        self.serial = number;
        self.news.get_or_insert_default().subscriptions.all.insert(number, sub);
        self.acknowledge_followers();
        Ok(SubscriptionKey(number))
    }

    /// Gives a subscription up: nothing more is told of it (SUB-012)
    pub fn unsubscribe(&mut self, now: Instant, subscription: SubscriptionKey) -> Result<(), UseError> {
        self.link.tick(now);
        let SubscriptionKey(number) = subscription;
        let subs = self.news.as_mut().map(|n| &mut n.subscriptions).ok_or(UseError::Stale)?;
        let sub = subs.all.get(&number).ok_or(UseError::Stale)?;
        if let Some(listen) = sub.listen {
            self.link.send_cancelled(listen, None);
            self.link.outbound.calls.remove(listen);
        } else {
            let (left, others): (Vec<Box<str>>, Vec<Box<str>>) = sub
                .uris
                .iter()
                .cloned()
                .partition(|uri| subs.followed.get(uri).is_some_and(|f| f.wanted <= 1));
            self.room_for(left.len())?;
            self.unfollow(&left)?;
            for uri in &others {
                let followed = self.news.as_mut().and_then(|n| n.subscriptions.followed.get_mut(uri));
                if let Some(followed) = followed {
                    followed.wanted -= 1;
                }
            }
        }
        if let Some(news) = &mut self.news {
            news.subscriptions.all.remove(&number);
        }
        self.events.retain(|event| match event {
            Event::Subscribed { key, .. } => *key != subscription,
            Event::Changed { key, .. } => *key != Some(subscription),
            _ => true,
        });
        Ok(())
    }

    // ---- modern ----------------------------------------------------------------------------------------------

    fn listen(&mut self, main: Key, filter: &SubscriptionFilter) -> Result<Key, UseError> {
        #[derive(Serialize)]
        struct Params<'a> {
            notifications: &'a SubscriptionFilter,
        }
        let Some(version) = self.peer.as_ref().map(|p| p.version) else { return Err(UseError::NotReady) };
        let call = OutCall::new(self.link.now, main, Purpose::Listen, &CallOptions::new(), &self.link.limits);
        let key = self.link.outbound.calls.insert(call);
        // Without a log level: nothing is logged on such a request (LOG-009).
        let stamp = Some(self.config.stamp(version));
        let ask = Ask { method: vocab::SUBSCRIBE, stamp, meta: None, progress: false };
        let params = Params { notifications: filter };
        let sent = self.link.ask(key, &ask, |out| Serializer::object(out, &params, shape::table(version)));
        if let Err(error) = sent {
            self.link.outbound.calls.remove(key);
            return Err(error);
        }
        Ok(key)
    }

    /// The server says what it honours of a subscription (SUB-006, SUB-007)
    pub(super) fn acknowledged_in(&mut self, channel: Key, params: &[u8]) {
        let method = vocab::ACKNOWLEDGED;
        let Ok(answer) = serde_json::from_slice::<SubscriptionsAcknowledgedParams>(params) else {
            return self.diagnose(Diagnostic::InvalidNotification(method.into()));
        };
        let Some(listen) = self.subscription_of(channel, method, params) else { return };
        let subs = self.news.as_mut().map(|n| &mut n.subscriptions);
        let found = subs.and_then(|s| s.listening(listen)).filter(|(_, sub)| !sub.acknowledged);
        let Some((number, sub)) = found else {
            return self.diagnose(Diagnostic::UnwantedNews(method.into()));
        };
        // What was not asked for is not honoured either (SUB-003).
        let honoured = uris(&answer.notifications);
        sub.lists = sub.lists.and(Lists::of(&answer.notifications));
        sub.uris.retain(|uri| honoured.binary_search(uri).is_ok());
        sub.acknowledged = true;
        let honoured = sub.filter();
        if let Some(call) = self.link.outbound.calls.get_mut(listen) {
            call.wait_for_ever();
        }
        self.events.push_back(Event::Subscribed { key: SubscriptionKey(number), honoured });
    }

    /// The open request that news belongs to, by the id in its `_meta` (SUB-008, SUB-009)
    fn subscription_of(&mut self, channel: Key, method: &str, params: &[u8]) -> Option<Key> {
        let mut id = None;
        object_members(params, |name, value| {
            if name == b"_meta" {
                object_members(value, |name, value| {
                    if name == meta::SUBSCRIPTION_ID.as_bytes() {
                        id = RequestId::from_json(value, self.link.limits.max_id);
                    }
                });
            }
        });
        match id.map(|id| self.link.match_answer(channel, &id)) {
            Some(Match::Live(key)) if self.is_listen(key) => return Some(key),
            // It was on its way when the subscription ended.
            Some(Match::Late) => {}
            _ => self.diagnose(Diagnostic::UnwantedNews(method.into())),
        }
        None
    }

    fn is_listen(&self, key: Key) -> bool {
        self.link.outbound.calls.get(key).is_some_and(|c| c.purpose == Purpose::Listen)
    }

    /// A `subscriptions/listen` has its outcome
    pub(super) fn listen_ended(&mut self, listen: Key, outcome: Result<(), CallError>) {
        self.link.outbound.calls.remove(listen);
        self.link.sweep();
        let Some(subs) = self.news.as_mut().map(|n| &mut n.subscriptions) else { return };
        let Some((number, _)) = subs.listening(listen) else { return };
        subs.all.remove(&number);
        self.subscription_ended(number, outcome.err());
    }

    /// Asks again for what a subscription was about whose request broke off (SUB-016); the new request
    ///
    /// It is acknowledged anew: news may have been lost in between.
    #[cfg(feature = "http")]
    pub(super) fn listen_again(&mut self, listen: Key) -> Option<Key> {
        let main = self.main?;
        let (number, sub) = self.news.as_mut()?.subscriptions.listening(listen)?;
        let filter = sub.filter();
        self.link.outbound.calls.remove(listen);
        let again = self.listen(main, &filter);
        let subs = &mut self.news.as_mut()?.subscriptions;
        match again {
            Ok(key) => {
                let sub = subs.all.get_mut(&number)?;
                (sub.listen, sub.acknowledged) = (Some(key), false);
                Some(key)
            }
            Err(error) => {
                subs.all.remove(&number);
                self.subscription_ended(number, Some(CallError::Refused(error)));
                None
            }
        }
    }

    /// Tells a legacy server once more which resources are followed: it has forgotten
    ///
    /// Subscriptions are acknowledged anew: news may have been lost in between.
    #[cfg(feature = "http")]
    pub(super) fn follow_again(&mut self, main: Key) {
        let followed = self.news.iter().flat_map(|n| n.subscriptions.followed.keys());
        let uris: Vec<Box<str>> = followed.cloned().collect();
        for uri in uris {
            // Written as it was the first time.
            let Ok(asked) = self.errand(main, vocab::RESOURCES_SUBSCRIBE, &Uri { uri: &uri }) else {
                continue;
            };
            let subs = self.news.as_mut().map(|n| &mut n.subscriptions);
            if let Some(followed) = subs.and_then(|s| s.followed.get_mut(&uri)) {
                followed.asked = Some(asked);
            }
        }
        for sub in self.news.iter_mut().flat_map(|n| n.subscriptions.all.values_mut()) {
            sub.acknowledged = false;
        }
        self.acknowledge_followers();
    }

    /// Takes note of a cancellation that names a request of ours; false when it names none that can be cancelled
    pub(super) fn listen_cancelled(&mut self, channel: Key, id: &RequestId) -> bool {
        if !self.is_modern() {
            return false;
        }
        match self.link.match_answer(channel, id) {
            Match::Live(key) if self.is_listen(key) => {
                self.listen_ended(key, Ok(())); // CANC-018, SUB-021
                true
            }
            // Said in both ways, as most servers do: the first one counted (DEC-002).
            Match::Late => true,
            _ => false,
        }
    }

    // ---- legacy ----------------------------------------------------------------------------------------------

    /// The lists of which a legacy server tells changes
    fn promised(&self) -> Lists {
        let has = |capability| self.peer.as_ref().is_some_and(|p| p.has(capability));
        Lists {
            tools: has(Capability::ToolsListChanged),
            prompts: has(Capability::PromptsListChanged),
            resources: has(Capability::ResourcesListChanged),
        }
    }

    /// Has a legacy server follow resources for one subscription more
    fn follow(&mut self, main: Key, uris: &[Box<str>]) -> Result<(), UseError> {
        if uris.is_empty() {
            return Ok(());
        }
        let is_new = |engine: &Self, uri: &str| {
            engine.news.as_ref().is_none_or(|n| !n.subscriptions.followed.contains_key(uri))
        };
        self.room_for(uris.iter().filter(|uri| is_new(self, uri)).count())?;
        for uri in uris {
            let asked = if is_new(self, uri) {
                Some(self.errand(main, vocab::RESOURCES_SUBSCRIBE, &Uri { uri })?)
            } else {
                None
            };
            let followed = &mut self.news.get_or_insert_default().subscriptions.followed;
            followed.entry(uri.clone()).or_insert(Followed { wanted: 0, asked }).wanted += 1;
        }
        Ok(())
    }

    /// Has a legacy server follow resources no more
    fn unfollow(&mut self, uris: &[Box<str>]) -> Result<(), UseError> {
        let Some(main) = self.main else { return Ok(()) };
        for uri in uris {
            self.errand(main, vocab::RESOURCES_UNSUBSCRIBE, &Uri { uri })?;
            if let Some(news) = &mut self.news {
                news.subscriptions.followed.remove(uri);
            }
        }
        Ok(())
    }

    /// An answer to something that the engine asked on the way
    pub(super) fn errand_ended(&mut self, key: Key, outcome: Result<(), CallError>) {
        self.link.outbound.calls.remove(key);
        self.link.sweep();
        let refused = outcome.is_err();
        match outcome {
            // What is followed is asked for again in the next session.
            Err(CallError::Http(error)) if *error == HttpError::SessionLost => return,
            Err(CallError::Rpc(error)) => self.diagnose(Diagnostic::PeerError(error)),
            _ => {}
        }
        let Some(subs) = self.news.as_mut().map(|n| &mut n.subscriptions) else { return };
        let Some((uri, followed)) = subs.followed.iter_mut().find(|(_, f)| f.asked == Some(key)) else {
            return;
        };
        followed.asked = None;
        if refused {
            let uri = uri.clone();
            subs.followed.remove(&uri);
            subs.all.values_mut().for_each(|sub| sub.uris.retain(|other| *other != uri));
        }
        self.acknowledge_followers();
    }

    /// Tells what a legacy server honours of those subscriptions about which nothing is open any more
    fn acknowledge_followers(&mut self) {
        let Some(news) = &mut self.news else { return };
        let Subscriptions { all, followed } = &mut news.subscriptions;
        for (number, sub) in all.iter_mut().filter(|(_, sub)| sub.listen.is_none() && !sub.acknowledged) {
            if sub.uris.iter().all(|uri| followed.get(uri).is_some_and(|f| f.asked.is_none())) {
                sub.acknowledged = true;
                let (key, honoured) = (SubscriptionKey(*number), sub.filter());
                self.events.push_back(Event::Subscribed { key, honoured });
            }
        }
    }

    // ---- both ------------------------------------------------------------------------------------------------

    /// Something has changed at the server
    pub(super) fn change_in(&mut self, channel: Key, method: &str, params: &[u8]) {
        let change = match method {
            vocab::TOOLS_CHANGED => Change::Tools,
            vocab::PROMPTS_CHANGED => Change::Prompts,
            vocab::RESOURCES_CHANGED => Change::Resources,
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
            return self.legacy_change(method, &change);
        }
        let Some(listen) = self.subscription_of(channel, method, params) else { return };
        let subs = self.news.as_mut().map(|n| &mut n.subscriptions);
        let wanted = |(_, sub): &(u64, &mut Subscription)| {
            // Which resources lie within those that are followed is the server's to know.
            let within = matches!(change, Change::Resource(_)) && !sub.uris.is_empty();
            sub.acknowledged && (within || sub.wants(&change))
        };
        match subs.and_then(|s| s.listening(listen)).filter(wanted).map(|(number, _)| number) {
            Some(number) => self.changed(number, &change),
            None => self.diagnose(Diagnostic::UnwantedNews(method.into())), // SUB-003, SUB-004
        }
    }

    /// Legacy news is for everyone who wants it
    fn legacy_change(&mut self, method: &str, change: &Change) {
        let all = self.news.iter().flat_map(|n| &n.subscriptions.all);
        let wanted = all.filter(|(_, sub)| sub.acknowledged && sub.wants(change));
        let numbers: Vec<u64> = wanted.map(|(number, _)| *number).collect();
        // Changes of lists are sent to whoever can hear; a resource must have been asked for (RES-028).
        if numbers.is_empty() {
            if matches!(change, Change::Resource(_)) {
                return self.diagnose(Diagnostic::UnwantedNews(method.into()));
            }
            // What was kept of the list is outdated all the same.
            return self.tell_change(None, change);
        }
        for number in numbers {
            self.changed(number, change);
        }
    }

    /// News that is equal to some that has not been read says nothing new
    fn changed(&mut self, number: u64, news: &Change) {
        self.tell_change(Some(SubscriptionKey(number)), news);
    }

    fn tell_change(&mut self, of: Option<SubscriptionKey>, news: &Change) {
        let known =
            |event: &Event| matches!(event, Event::Changed { key, change } if *key == of && change == news);
        if !self.events.iter().any(known) {
            self.events.push_back(Event::Changed { key: of, change: news.clone() });
        }
    }

    fn subscription_ended(&mut self, number: u64, error: Option<CallError>) {
        let key = SubscriptionKey(number);
        self.events.push_back(Event::SubscriptionEnded { key, graceful: error.is_none(), error });
    }

    /// The connection is over, and with it every subscription (SUB-015, SUB-017)
    pub(super) fn end_subscriptions(&mut self, error: &CallError) {
        let Some(news) = &mut self.news else { return };
        let ended = core::mem::take(&mut news.subscriptions);
        for (number, _) in ended.all {
            self.subscription_ended(number, Some(error.clone()));
        }
    }

    /// Asks something on the way, whose answer the application does not wait for
    pub(super) fn errand<T: Serialize>(
        &mut self,
        main: Key,
        method: &str,
        params: &T,
    ) -> Result<Key, UseError> {
        let call = OutCall::new(self.link.now, main, Purpose::Errand, &CallOptions::new(), &self.link.limits);
        let key = self.link.outbound.calls.insert(call);
        let ask = Ask { method, stamp: None, meta: None, progress: false };
        if let Err(error) = self.link.ask(key, &ask, |out| Serializer::object(out, params, None)) {
            self.link.outbound.calls.remove(key);
            return Err(error);
        }
        Ok(key)
    }
}

#[derive(Serialize)]
struct Uri<'a> {
    uri: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: RES-011
    #[test]
    fn a_resource_covers_what_lies_within_it() {
        for within in ["a:b", "a:b/c", "a:b?c", "a:b#c"] {
            assert!(covers("a:b", within), "{within}");
        }
        for other in ["a:", "a:bc", "a:c", "", "x/a:b"] {
            assert!(!covers("a:b", other), "{other}");
        }
        assert!(covers("a:b/", "a:b/c") && !covers("a:b/", "a:b"));
    }
}
