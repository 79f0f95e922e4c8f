//! Subscriptions at the server, kept as long as a client needs them, and the forwarding of changes.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use mcp_proto::client::{self, SubscriptionKey};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{Capability, Change, Era, Instant, UseError};

use super::relay::Engines;

/// Resources that clients follow, and the resulting subscriptions at the server.
#[derive(Debug, Default)]
pub(super) struct UpstreamSubscriptions {
    /// List changes that the server reports only to subscribers (modern era).
    listen_lists: Vec<Change>,
    /// Resources that clients follow, with the newest subscription to each; `None` if there is none.
    followed: BTreeMap<String, Option<SubscriptionKey>>,
    /// Number of followed resources that were left out, because there are too many or their URIs are too long.
    left_out: usize,
    /// Subscriptions at the server, oldest first.
    subscriptions: BTreeMap<SubscriptionKey, UpstreamSubscription>,
    /// Whether a subscription may have to be added or removed.
    needs_update: bool,
    /// Whether the server has ended a subscription.
    has_lost: bool,
    /// Time of the next attempt after a failure; `retry_delay` is the delay after that.
    retry_at: Option<Instant>,
    retry_delay: Duration,
    /// Time of the last attempt after a failure.
    retried_at: Option<Instant>,
    /// Whether the clients have subscriptions to other servers too, so that the end of one is not theirs.
    is_shared: bool,
    /// Changes that may have been missed since such an end. They are announced with the next subscription.
    missed: BTreeSet<String>,
    missed_lists: bool,
}

/// A change that clients are to be told of.
#[derive(Debug)]
pub(super) struct Notice {
    /// The change, under the URI that clients follow.
    pub(super) change: Change,
    /// The resource that has changed, if it lies below the one that clients follow.
    pub(super) part: Option<String>,
}

impl From<Change> for Notice {
    fn from(change: Change) -> Self {
        Self { change, part: None }
    }
}

#[derive(Debug)]
struct UpstreamSubscription {
    lists: bool,
    uris: Vec<String>,
    /// Number of followed resources to which this is the newest subscription.
    newest_of: usize,
    acknowledged: bool,
}

impl UpstreamSubscription {
    const fn new(lists: bool, uris: Vec<String>) -> Self {
        Self { lists, uris, newest_of: 0, acknowledged: false }
    }
}

impl UpstreamSubscriptions {
    pub(super) fn new(peer: &client::Peer) -> Self {
        let lists = [
            (Capability::ToolsListChanged, Change::Tools),
            (Capability::PromptsListChanged, Change::Prompts),
            (Capability::ResourcesListChanged, Change::Resources),
        ];
        // A legacy server notifies every client.
        let asks = peer.era() == Era::Modern;
        let lists = lists.into_iter().filter(|(capability, _)| asks && peer.has(*capability));
        let lists: Vec<Change> = lists.map(|(_, change)| change).collect();
        let needs_update = !lists.is_empty();
        Self { needs_update, listen_lists: lists, retry_delay: MIN_RETRY_DELAY, ..Self::default() }
    }

    /// Begins anew with a server that was started in place of the last one.
    pub(super) fn restart(&mut self, peer: &client::Peer, is_shared: bool) {
        let mut followed = core::mem::take(&mut self.followed);
        followed.values_mut().for_each(|newest| *newest = None);
        *self = Self { needs_update: true, followed, is_shared, ..Self::new(peer) };
    }

    /// Returns the resources that clients follow.
    pub(super) fn followed(&self) -> impl Iterator<Item = &String> {
        self.followed.keys()
    }

    pub(super) fn is_following(&self) -> bool {
        !self.followed.is_empty()
    }

    /// Returns the number of followed resources that the server is not asked for.
    pub(super) const fn left_out(&self) -> usize {
        self.left_out
    }

    /// Sets whether any client follows a resource.
    pub(super) fn set_followed(&mut self, uri: String, wanted: bool) {
        self.needs_update = true;
        if wanted {
            self.followed.entry(uri).or_insert(None);
            return;
        }
        self.missed.remove(&uri);
        let newest = self.followed.remove(&uri).flatten();
        self.leave(newest);
    }

    /// Notes that a subscription is not the newest one to a followed resource any more.
    fn leave(&mut self, newest: Option<SubscriptionKey>) {
        if let Some(subscription) = newest.and_then(|key| self.subscriptions.get_mut(&key)) {
            subscription.newest_of = subscription.newest_of.saturating_sub(1);
        }
    }

    /// Returns what the clients are told of a change.
    pub(super) fn handle_change(&self, change: Change) -> Vec<Notice> {
        let uri = match change {
            Change::Resource(uri) if !self.followed.contains_key(&uri) => uri,
            change => return vec![change.into()],
        };
        // A change below a followed resource is announced under the URI that the client used.
        let around = self.followed.keys().filter(|around| is_within(around, &uri));
        let notice =
            |around: &String| Notice { change: Change::Resource(around.clone()), part: Some(uri.clone()) };
        around.map(notice).collect()
    }

    /// Handles the confirmation of a subscription. Returns what the clients are told.
    pub(super) fn handle_subscribed(&mut self, key: SubscriptionKey) -> Vec<Notice> {
        let Some(subscription) = self.subscriptions.get_mut(&key) else { return Vec::new() };
        // One that was lost for a while, so that changes may have been missed: announce all of them.
        let was_lost = core::mem::replace(&mut subscription.acknowledged, true);
        let missed = |uri: &&String| was_lost || self.missed.contains(*uri);
        let uris: Vec<String> = subscription.uris.iter().filter(missed).cloned().collect();
        let lists = subscription.lists && (was_lost || core::mem::take(&mut self.missed_lists));
        for uri in &uris {
            self.missed.remove(uri);
        }
        // Other subscriptions may have become redundant.
        self.needs_update = true;
        let lists = if lists { &*self.listen_lists } else { &[] };
        uris.into_iter().map(Change::Resource).chain(lists.iter().cloned()).map(Notice::from).collect()
    }

    /// Handles the end of a subscription.
    pub(super) fn handle_ended(&mut self, key: SubscriptionKey) {
        let Some(ended) = self.subscriptions.remove(&key) else { return };
        (self.has_lost, self.needs_update) = (true, true);
        self.missed_lists |= self.is_shared && ended.lists;
        for uri in ended.uris {
            let Some(newest) = self.followed.get_mut(&uri) else { continue };
            if *newest == Some(key) {
                *newest = None;
            }
            if self.is_shared {
                self.missed.insert(uri);
            }
        }
    }

    fn schedule_retry(&mut self, now: Instant) {
        let worked = |at: Instant| now.saturating_duration_since(at) >= STABLE_TIME;
        if self.retried_at.is_none_or(worked) {
            self.retry_delay = MIN_RETRY_DELAY;
        }
        self.retry_at = Some(now + self.retry_delay);
        self.retry_delay = (self.retry_delay * 2).min(MAX_RETRY_DELAY);
    }

    /// Returns when [`handle_timeout()`](Self::handle_timeout) must be called next.
    pub(super) const fn next_retry(&self) -> Option<Instant> {
        self.retry_at
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            self.retried_at = Some(now);
            self.needs_update = true;
        }
    }

    /// Subscribes to followed resources that are not covered yet, and ends subscriptions that no client needs. Returns whether the
    /// first ones are left out now.
    pub(super) fn update(&mut self, engines: &mut Engines<'_>) -> bool {
        if !core::mem::take(&mut self.needs_update) {
            return false;
        }
        // Known only now: subscriptions that end with their server are made again at the next one.
        if core::mem::take(&mut self.has_lost) {
            // Subscribed clients are notified and may subscribe again. Legacy sessions cannot be notified.
            if !self.is_shared {
                engines.downstream.end_all_subscriptions(engines.now);
            }
            if self.retry_at.is_none() {
                self.schedule_retry(engines.now);
            }
        }
        // Also while subscribing waits: what is ended makes room.
        let mut done = self.unsubscribe(engines);
        let were_left_out = self.left_out > 0;
        if self.retry_at.is_none() {
            done = self.subscribe(engines).and(done);
        }
        if matches!(done, Err(UseError::Full(_))) && self.retry_at.is_none() {
            self.schedule_retry(engines.now);
        }
        self.left_out > 0 && !were_left_out
    }

    fn subscribe(&mut self, engines: &mut Engines<'_>) -> Result<(), UseError> {
        // Lists have a subscription of their own, which is never ended.
        if !self.listen_lists.is_empty() && !self.subscriptions.values().any(|sub| sub.lists) {
            let mut filter = SubscriptionFilter::new();
            for change in &self.listen_lists {
                match change {
                    Change::Tools => filter.tools_list_changed = Some(true),
                    Change::Prompts => filter.prompts_list_changed = Some(true),
                    _ => filter.resources_list_changed = Some(true),
                }
            }
            let key = engines.upstream.subscribe(engines.upstream_now, &filter)?;
            self.subscriptions.insert(key, UpstreamSubscription::new(true, Vec::new()));
        }
        let limits = engines.upstream.config().effective_limits();
        // A legacy server is sent a request for each resource.
        let pending_calls = usize::try_from(limits.max_pending_calls / 2).unwrap_or(usize::MAX);
        let (size, max_uri) = (limits.max_subscribed_resources.min(pending_calls).max(1), limits.max_uri);
        let (mut new, mut covered) = (Vec::new(), 0);
        for (uri, newest) in &self.followed {
            match newest {
                Some(_) => covered += 1,
                None => new.push(uri),
            }
        }
        let all = new.len();
        // One of these would have its whole subscription refused.
        new.retain(|uri| uri.len() <= max_uri);
        new.truncate((size * MAX_FULL_SUBSCRIPTIONS).saturating_sub(covered));
        self.left_out = all - new.len();
        if new.is_empty() {
            return Ok(());
        }
        // The number of subscriptions is bounded, because new ones replace several small ones.
        let is_small = |sub: &UpstreamSubscription| (1..=size / 2).contains(&sub.newest_of);
        let small = self.subscriptions.iter().filter(|(_, sub)| is_small(sub)).map(|(key, _)| *key);
        let small: BTreeSet<SubscriptionKey> = small.collect();
        if small.len() >= MAX_SMALL_SUBSCRIPTIONS {
            let of_small = |newest: &Option<SubscriptionKey>| newest.is_some_and(|key| small.contains(&key));
            new.extend(self.followed.iter().filter(|(_, newest)| of_small(newest)).map(|(uri, _)| uri));
        }
        let new: Vec<String> = new.into_iter().cloned().collect();
        for uris in new.chunks(size) {
            let mut filter = SubscriptionFilter::new();
            filter.resource_subscriptions = Some(uris.to_vec());
            let key = engines.upstream.subscribe(engines.upstream_now, &filter)?;
            let subscription = UpstreamSubscription::new(false, uris.to_vec());
            self.subscriptions.insert(key, UpstreamSubscription { newest_of: uris.len(), ..subscription });
            for uri in uris {
                let last = self.followed.get_mut(uri).and_then(|newest| newest.replace(key));
                self.leave(last);
            }
        }
        Ok(())
    }

    fn unsubscribe(&mut self, engines: &mut Engines<'_>) -> Result<(), UseError> {
        // Until newer ones are confirmed, theirs are told by the older ones.
        let is_confirmed = |newest: &Option<SubscriptionKey>| {
            newest.and_then(|key| self.subscriptions.get(&key)).is_some_and(|newest| newest.acknowledged)
        };
        let is_replaced = |uri: &String| self.followed.get(uri).is_none_or(is_confirmed);
        let is_superfluous =
            |sub: &UpstreamSubscription| !sub.lists && sub.newest_of == 0 && sub.uris.iter().all(is_replaced);
        let found = self.subscriptions.iter().filter(|(_, sub)| is_superfluous(sub));
        let found: Vec<SubscriptionKey> = found.map(|(key, _)| *key).collect();
        for key in found {
            engines.upstream.unsubscribe(engines.upstream_now, key)?;
            self.subscriptions.remove(&key);
        }
        Ok(())
    }
}

/// Returns whether `uri` lies below the resource `around`. Servers may report changes of such resources.
fn is_within(around: &str, uri: &str) -> bool {
    let rest = uri.strip_prefix(around);
    rest.is_some_and(|rest| around.ends_with('/') || rest.starts_with(['/', '?', '#']))
}

/// Number of subscriptions to few resources from which on the next one replaces them.
const MAX_SMALL_SUBSCRIPTIONS: usize = 4;
/// Maximum number of followed resources of a server, in subscriptions with as many as
/// [`max_subscribed_resources`](mcp_proto::Limits::max_subscribed_resources) allows. Further ones are left out.
const MAX_FULL_SUBSCRIPTIONS: usize = 16;
/// Time without a failure after which the next one is followed by [`MIN_RETRY_DELAY`] again.
const STABLE_TIME: Duration = Duration::from_secs(60);
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
