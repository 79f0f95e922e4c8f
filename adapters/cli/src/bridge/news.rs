//! What changes at the server: followed as long as a client follows it, and passed on

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use mcp_proto::client::{self, SubscriptionKey};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{Capability, Change, Era, Instant, UseError};

use super::relay::Ends;

/// What clients follow, and the subscriptions at the server that this takes
#[derive(Debug)]
pub(super) struct News {
    /// The lists that the server tells changes of only to who asks
    lists: Vec<Change>,
    /// The resources that clients follow
    followed: BTreeSet<String>,
    /// Subscriptions at the server, the oldest first
    subscriptions: BTreeMap<SubscriptionKey, Subscription>,
    /// Something may have to be subscribed to, or no longer
    dirty: bool,
    /// When it is tried again, and how long to wait after that
    retry: Option<Instant>,
    pause: Duration,
}

#[derive(Debug)]
struct Subscription {
    lists: bool,
    uris: BTreeSet<String>,
    acknowledged: bool,
}

impl News {
    pub(super) fn new(peer: &client::Peer) -> Self {
        let lists = [
            (Capability::ToolsListChanged, Change::Tools),
            (Capability::PromptsListChanged, Change::Prompts),
            (Capability::ResourcesListChanged, Change::Resources),
        ];
        // A legacy server tells everybody.
        let asks = peer.era() == Era::Modern;
        let lists = lists.into_iter().filter(|(capability, _)| asks && peer.has(*capability));
        let lists: Vec<Change> = lists.map(|(_, change)| change).collect();
        Self {
            dirty: !lists.is_empty(),
            lists,
            followed: BTreeSet::new(),
            subscriptions: BTreeMap::new(),
            retry: None,
            pause: FIRST_PAUSE,
        }
    }

    /// A client follows a resource, or nobody does any more
    pub(super) fn interest(&mut self, uri: String, wanted: bool) {
        if wanted {
            self.followed.insert(uri)
        } else {
            self.followed.remove(&uri)
        };
        self.dirty = true;
    }

    /// Something has changed
    pub(super) fn changed(&self, ends: &mut Ends<'_>, change: &Change) {
        let Change::Resource(uri) = change else {
            ends.down.publish(ends.now, change);
            return;
        };
        if self.followed.contains(uri) {
            ends.down.publish(ends.now, change);
            return;
        }
        // Something within what is followed: news goes by the name that the client used.
        for around in self.followed.iter().filter(|around| is_within(around, uri)) {
            ends.down.publish(ends.now, &Change::Resource(around.clone()));
        }
    }

    /// The server tells of changes from now on
    pub(super) fn subscribed(&mut self, ends: &mut Ends<'_>, key: SubscriptionKey) {
        let Some(subscription) = self.subscriptions.get_mut(&key) else { return };
        self.pause = FIRST_PAUSE;
        if core::mem::replace(&mut subscription.acknowledged, true) {
            // It was lost in between, and what was told meanwhile with it.
            let uris = subscription.uris.iter().map(|uri| Change::Resource(uri.clone()));
            let lists = if subscription.lists { &*self.lists } else { &[] };
            for change in uris.chain(lists.iter().cloned()) {
                ends.down.publish(ends.now, &change);
            }
        }
        // Others may have become superfluous.
        self.dirty = true;
    }

    /// The server tells of changes no more
    pub(super) fn ended(&mut self, ends: &mut Ends<'_>, key: SubscriptionKey) {
        if self.subscriptions.remove(&key).is_none() {
            return;
        }
        // Clients that subscribed learn of it, and may do so again. Sessions cannot be told.
        ends.down.end_all_subscriptions(ends.now);
        self.later(ends.now);
    }

    fn later(&mut self, now: Instant) {
        self.retry = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LAST_PAUSE);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next
    pub(super) const fn retries(&self) -> Option<Instant> {
        self.retry
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.retry.is_some_and(|at| at <= now) {
            self.retry = None;
            self.dirty = true;
        }
    }

    /// Subscribes to what is followed and not told of yet, and gives up what nobody follows
    pub(super) fn settle(&mut self, ends: &mut Ends<'_>) {
        if self.retry.is_some() || !core::mem::take(&mut self.dirty) {
            return;
        }
        if let Err(UseError::Full(_)) = self.subscribe(ends).and_then(|()| self.unsubscribe(ends)) {
            self.later(ends.now);
        }
    }

    fn subscribe(&mut self, ends: &mut Ends<'_>) -> Result<(), UseError> {
        let covered = |uri: &&String| self.subscriptions.values().any(|sub| sub.uris.contains(*uri));
        let new: BTreeSet<String> = self.followed.iter().filter(|uri| !covered(uri)).cloned().collect();
        let lists = !self.lists.is_empty() && !self.subscriptions.values().any(|sub| sub.lists);
        if new.is_empty() && !lists {
            return Ok(());
        }
        // Lists in one of their own, which is never given up; of resources there are not too many subscriptions, since
        // one that has all of them takes the place of several.
        if lists {
            let mut filter = SubscriptionFilter::new();
            for change in &self.lists {
                match change {
                    Change::Tools => filter.tools_list_changed = Some(true),
                    Change::Prompts => filter.prompts_list_changed = Some(true),
                    _ => filter.resources_list_changed = Some(true),
                }
            }
            let key = ends.up.subscribe(ends.up_now, &filter)?;
            let uris = BTreeSet::new();
            self.subscriptions.insert(key, Subscription { lists: true, uris, acknowledged: false });
        }
        if new.is_empty() {
            return Ok(());
        }
        let many = self.subscriptions.values().filter(|sub| !sub.lists).count() >= MANY;
        let uris = if many { self.followed.clone() } else { new };
        let mut filter = SubscriptionFilter::new();
        filter.resource_subscriptions = Some(uris.iter().cloned().collect());
        let key = ends.up.subscribe(ends.up_now, &filter)?;
        self.subscriptions.insert(key, Subscription { lists: false, uris, acknowledged: false });
        Ok(())
    }

    fn unsubscribe(&mut self, ends: &mut Ends<'_>) -> Result<(), UseError> {
        let superfluous = |key: &SubscriptionKey, sub: &Subscription| {
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
            ends.up.unsubscribe(ends.up_now, key)?;
            self.subscriptions.remove(&key);
        }
        Ok(())
    }
}

/// Whether `uri` lies within the resource `around`, as servers may tell
fn is_within(around: &str, uri: &str) -> bool {
    let rest = uri.strip_prefix(around);
    rest.is_some_and(|rest| around.ends_with('/') || rest.starts_with(['/', '?', '#']))
}

/// Subscriptions to resources, beyond which one is made of all
const MANY: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);
