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
    /// Resources that clients follow.
    followed: BTreeSet<String>,
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
    uris: BTreeSet<String>,
    acknowledged: bool,
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
        Self {
            needs_update: !lists.is_empty(),
            listen_lists: lists,
            followed: BTreeSet::new(),
            subscriptions: BTreeMap::new(),
            has_lost: false,
            retry_at: None,
            retry_delay: MIN_RETRY_DELAY,
            retried_at: None,
            is_shared: false,
            missed: BTreeSet::new(),
            missed_lists: false,
        }
    }

    /// Begins anew with a server that was started in place of the last one.
    pub(super) fn restart(&mut self, peer: &client::Peer, is_shared: bool) {
        let followed = core::mem::take(&mut self.followed);
        *self = Self { needs_update: true, followed, is_shared, ..Self::new(peer) };
    }

    /// Returns the resources that clients follow.
    pub(super) const fn followed(&self) -> &BTreeSet<String> {
        &self.followed
    }

    /// Sets whether any client follows a resource.
    pub(super) fn set_followed(&mut self, uri: String, wanted: bool) {
        if wanted {
            self.followed.insert(uri)
        } else {
            self.followed.remove(&uri)
        };
        self.missed.retain(|uri| self.followed.contains(uri));
        self.needs_update = true;
    }

    /// Returns what the clients are told of a change.
    pub(super) fn handle_change(&self, change: Change) -> Vec<Notice> {
        let uri = match change {
            Change::Resource(uri) if !self.followed.contains(&uri) => uri,
            change => return vec![change.into()],
        };
        // A change below a followed resource is announced under the URI that the client used.
        let around = self.followed.iter().filter(|around| is_within(around, &uri));
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
        if let Some(ended) = self.subscriptions.remove(&key) {
            (self.has_lost, self.needs_update) = (true, true);
            if self.is_shared {
                self.missed.extend(ended.uris);
                self.missed_lists |= ended.lists;
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

    /// Subscribes to followed resources that are not covered yet, and ends subscriptions that no client needs.
    pub(super) fn update(&mut self, engines: &mut Engines<'_>) {
        if self.retry_at.is_some() || !core::mem::take(&mut self.needs_update) {
            return;
        }
        // Known only now: subscriptions that end with their server are made again at the next one.
        if core::mem::take(&mut self.has_lost) {
            // Subscribed clients are notified and may subscribe again. Legacy sessions cannot be notified.
            if !self.is_shared {
                engines.downstream.end_all_subscriptions(engines.now);
            }
            return self.schedule_retry(engines.now);
        }
        if let Err(UseError::Full(_)) = self.subscribe(engines).and_then(|()| self.unsubscribe(engines)) {
            self.schedule_retry(engines.now);
        }
    }

    fn subscribe(&mut self, engines: &mut Engines<'_>) -> Result<(), UseError> {
        let covered = |uri: &&String| self.subscriptions.values().any(|sub| sub.uris.contains(*uri));
        let new: BTreeSet<String> = self.followed.iter().filter(|uri| !covered(uri)).cloned().collect();
        let lists = !self.listen_lists.is_empty() && !self.subscriptions.values().any(|sub| sub.lists);
        if new.is_empty() && !lists {
            return Ok(());
        }
        // Lists have a subscription of their own, which is never ended. The number of resource subscriptions is
        // bounded, because one for all resources replaces several.
        if lists {
            let mut filter = SubscriptionFilter::new();
            for change in &self.listen_lists {
                match change {
                    Change::Tools => filter.tools_list_changed = Some(true),
                    Change::Prompts => filter.prompts_list_changed = Some(true),
                    _ => filter.resources_list_changed = Some(true),
                }
            }
            let key = engines.upstream.subscribe(engines.upstream_now, &filter)?;
            let uris = BTreeSet::new();
            self.subscriptions.insert(key, UpstreamSubscription { lists: true, uris, acknowledged: false });
        }
        if new.is_empty() {
            return Ok(());
        }
        let many = self.subscriptions.values().filter(|sub| !sub.lists).count() >= MAX_RESOURCE_SUBSCRIPTIONS;
        let uris = if many { self.followed.clone() } else { new };
        let mut filter = SubscriptionFilter::new();
        filter.resource_subscriptions = Some(uris.iter().cloned().collect());
        let key = engines.upstream.subscribe(engines.upstream_now, &filter)?;
        self.subscriptions.insert(key, UpstreamSubscription { lists: false, uris, acknowledged: false });
        Ok(())
    }

    fn unsubscribe(&mut self, engines: &mut Engines<'_>) -> Result<(), UseError> {
        let superfluous = |key: &SubscriptionKey, sub: &UpstreamSubscription| {
            let newer = || {
                self.subscriptions.iter().filter(|(other, other_sub)| *other > key && other_sub.acknowledged)
            };
            let wanted = |uri: &&String| self.followed.contains(*uri);
            !sub.lists
                && sub
                    .uris
                    .iter()
                    .filter(wanted)
                    .all(|uri| newer().any(|(_, other)| other.uris.contains(uri)))
        };
        let found = self.subscriptions.iter().filter(|(key, sub)| superfluous(key, sub));
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

/// Number of resource subscriptions from which on the next one covers all resources.
const MAX_RESOURCE_SUBSCRIPTIONS: usize = 4;
/// Time without a failure after which the next one is followed by [`MIN_RETRY_DELAY`] again.
const STABLE_TIME: Duration = Duration::from_secs(60);
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
