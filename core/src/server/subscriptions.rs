//! Who is told of what: one table for both eras, indexed by what can change (SUB, RES).
//!
//! News is level-triggered: it says that something is another than it was, so a listener that has not been sent the
//! last one yet is not told again, and one that does not read costs a bit per thing, not a queue.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::change::Change;
use crate::rpc::RequestId;
use crate::slab::{Key, Slab};

/// A set of lists that can change
pub(super) type Lists = u8;
pub(super) const TOOLS: Lists = 1;
pub(super) const PROMPTS: Lists = 2;
pub(super) const RESOURCES: Lists = 4;
const LISTS: [(Lists, Change); 3] =
    [(TOOLS, Change::Tools), (PROMPTS, Change::Prompts), (RESOURCES, Change::Resources)];

/// A `subscriptions/listen` (modern), or the session of a channel (legacy)
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) channel: Key,
    /// The id of the `subscriptions/listen`; none for a session
    pub(super) id: Option<RequestId>,
    /// The lists that it is told of
    pub(super) wants: Lists,
    /// Those that it was told of in the round of news `round`
    told: Lists,
    round: u32,
    /// Those that it is to be told of when there is room
    held: Lists,
    /// The resources that it follows, in order
    topics: Vec<Key>,
}

/// A resource that somebody follows
#[derive(Debug)]
struct Topic {
    uri: Arc<str>,
    /// In the order of their listeners
    followers: Vec<Follower>,
}

#[derive(Clone, Copy, Debug)]
struct Follower {
    listener: Key,
    /// The round of news in which it was told last
    round: u32,
    held: bool,
}

/// Something that has changed, and that somebody wants to know of
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// A list, by its place
    List(usize),
    Topic(Key),
}

#[derive(Debug)]
pub(super) struct Subscriptions {
    listeners: Slab<Listener>,
    /// The listeners of each list, in order
    lists: [Vec<Key>; 3],
    topics: Slab<Topic>,
    by_uri: BTreeMap<Arc<str>, Key>,
}

impl Subscriptions {
    pub(super) const fn new() -> Self {
        Self {
            listeners: Slab::new(),
            lists: [const { Vec::new() }; 3],
            topics: Slab::new(),
            by_uri: BTreeMap::new(),
        }
    }

    pub(super) fn open(&mut self, channel: Key, id: Option<RequestId>, wants: Lists) -> Key {
        let listener = Listener { channel, id, wants, told: 0, round: 0, held: 0, topics: Vec::new() };
        let key = self.listeners.insert(listener);
        for (list, (kind, _)) in self.lists.iter_mut().zip(LISTS) {
            if let (true, Err(place)) = (wants & kind != 0, list.binary_search(&key)) {
                list.insert(place, key);
            }
        }
        key
    }

    pub(super) fn get(&self, key: Key) -> Option<&Listener> {
        self.listeners.get(key)
    }

    /// How many resources a listener follows
    pub(super) fn followed(&self, key: Key) -> usize {
        self.listeners.get(key).map_or(0, |l| l.topics.len())
    }

    /// Has a listener follow a resource; its URI if nobody did before
    pub(super) fn follow(&mut self, key: Key, uri: &str) -> Option<Arc<str>> {
        let listener = self.listeners.get_mut(key)?;
        let (topic, first) = match self.by_uri.get(uri) {
            Some(topic) => (*topic, None),
            None => {
                let uri = Arc::<str>::from(uri);
                let topic = self.topics.insert(Topic { uri: Arc::clone(&uri), followers: Vec::new() });
                self.by_uri.insert(Arc::clone(&uri), topic);
                (topic, Some(uri))
            }
        };
        if let Err(place) = listener.topics.binary_search(&topic) {
            listener.topics.insert(place, topic);
            let followers = self.topics.get_mut(topic).map(|t| &mut t.followers);
            if let Some(followers) = followers {
                let place = followers.partition_point(|f| f.listener < key);
                followers.insert(place, Follower { listener: key, round: 0, held: false });
            }
        }
        first
    }

    /// Has a listener follow a resource no more; its URI if nobody does any more
    pub(super) fn unfollow(&mut self, key: Key, uri: &str) -> Option<Arc<str>> {
        let topic = *self.by_uri.get(uri)?;
        let listener = self.listeners.get_mut(key)?;
        let place = listener.topics.binary_search(&topic).ok()?;
        listener.topics.remove(place);
        self.leave(key, topic)
    }

    fn leave(&mut self, listener: Key, key: Key) -> Option<Arc<str>> {
        let topic = self.topics.get_mut(key)?;
        if let Ok(place) = topic.followers.binary_search_by_key(&listener, |f| f.listener) {
            topic.followers.remove(place);
        }
        if !topic.followers.is_empty() {
            return None;
        }
        let topic = self.topics.remove(key)?;
        self.by_uri.remove(&topic.uri);
        Some(topic.uri)
    }

    /// Takes a listener out; and the URIs that nobody follows any more
    pub(super) fn close(&mut self, key: Key) -> Option<(Listener, Vec<Arc<str>>)> {
        let listener = self.listeners.remove(key)?;
        for (list, (kind, _)) in self.lists.iter_mut().zip(LISTS) {
            if let (true, Ok(place)) = (listener.wants & kind != 0, list.binary_search(&key)) {
                list.remove(place);
            }
        }
        let left = listener.topics.iter().filter_map(|topic| self.leave(key, *topic)).collect();
        Some((listener, left))
    }

    // ---- news ------------------------------------------------------------------------------------------------

    /// What is followed of resources
    pub(super) fn uris(&self) -> impl Iterator<Item = &str> {
        self.by_uri.keys().map(|uri| &**uri)
    }

    /// What has changed, if anybody wants to know
    pub(super) fn target(&self, change: &Change) -> Option<Target> {
        match change {
            Change::Resource(uri) => self.by_uri.get(&**uri).map(|key| Target::Topic(*key)),
            list => LISTS.iter().position(|(_, other)| other == list).map(Target::List),
        }
    }

    /// The listener at `place` among those that want to know; none behind the last one
    pub(super) fn at(&self, target: Target, place: usize) -> Option<Key> {
        match target {
            Target::List(list) => self.lists.get(list)?.get(place).copied(),
            Target::Topic(topic) => self.topics.get(topic)?.followers.get(place).map(|f| f.listener),
        }
    }

    /// Whether a listener was told of this in `round`
    pub(super) fn was_told(&self, target: Target, place: usize, round: u32) -> bool {
        match target {
            Target::List(list) => {
                let listener = self.at(target, place).and_then(|key| self.listeners.get(key));
                let kind = LISTS.get(list).map_or(0, |(kind, _)| *kind);
                listener.is_some_and(|l| l.round == round && l.told & kind != 0)
            }
            Target::Topic(topic) => {
                let follower = self.topics.get(topic).and_then(|t| t.followers.get(place));
                follower.is_some_and(|follower| follower.round == round)
            }
        }
    }

    /// Notes that a listener is told of this in `round`
    pub(super) fn tell(&mut self, target: Target, place: usize, round: u32) {
        match target {
            Target::List(list) => {
                let Some((key, (kind, _))) = self.at(target, place).zip(LISTS.get(list)) else { return };
                let Some(listener) = self.listeners.get_mut(key) else { return };
                if listener.round != round {
                    (listener.round, listener.told) = (round, 0);
                }
                listener.told |= kind;
                listener.held &= !kind;
            }
            Target::Topic(topic) => {
                if let Some(f) = self.topics.get_mut(topic).and_then(|t| t.followers.get_mut(place)) {
                    (f.round, f.held) = (round, false);
                }
            }
        }
    }

    /// Notes that a listener is to be told when there is room
    pub(super) fn hold(&mut self, target: Target, place: usize) {
        match target {
            Target::List(list) => {
                let Some((key, (kind, _))) = self.at(target, place).zip(LISTS.get(list)) else { return };
                if let Some(listener) = self.listeners.get_mut(key) {
                    listener.held |= kind;
                }
            }
            Target::Topic(topic) => {
                if let Some(f) = self.topics.get_mut(topic).and_then(|t| t.followers.get_mut(place)) {
                    f.held = true;
                }
            }
        }
    }

    /// What a listener is to be told when there is room, each with its place
    pub(super) fn held(&self, key: Key) -> Vec<(Target, usize)> {
        let Some(listener) = self.listeners.get(key) else { return Vec::new() };
        let lists = self.lists.iter().zip(LISTS).enumerate().filter_map(|(i, (list, (kind, _)))| {
            let place = (listener.held & kind != 0).then(|| list.binary_search(&key).ok())??;
            Some((Target::List(i), place))
        });
        let topics = listener.topics.iter().filter_map(|topic| {
            let followers = &self.topics.get(*topic)?.followers;
            let place = followers.binary_search_by_key(&key, |f| f.listener).ok()?;
            followers.get(place)?.held.then_some((Target::Topic(*topic), place))
        });
        lists.chain(topics).collect()
    }

    /// The URI of a target that is a resource
    pub(super) fn uri(&self, target: Target) -> Option<&Arc<str>> {
        match target {
            Target::List(_) => None,
            Target::Topic(key) => self.topics.get(key).map(|t| &t.uri),
        }
    }

    pub(super) fn trim(&mut self) {
        self.listeners.trim();
        self.topics.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: Key = Key { slot: 0, generation: 0 };

    #[test]
    fn listeners_are_found_by_what_changed_and_leave_nothing_behind() {
        let mut subs = Subscriptions::new();
        let a = subs.open(CHANNEL, None, TOOLS | RESOURCES);
        let b = subs.open(CHANNEL, Some(RequestId::int(1)), TOOLS);
        assert_eq!(subs.follow(b, "x:1").as_deref(), Some("x:1"));
        assert_eq!(subs.follow(a, "x:1"), None);
        assert_eq!(subs.follow(a, "x:1"), None, "twice is once");
        assert_eq!(subs.followed(a), 1);
        let all = |subs: &Subscriptions, change: &Change| {
            let target = subs.target(change);
            target.map(|t| (0..).map_while(|i| subs.at(t, i)).collect::<Vec<_>>())
        };
        assert_eq!(all(&subs, &Change::Tools), Some(alloc::vec![a, b]));
        assert_eq!(all(&subs, &Change::Prompts), Some(Vec::new()));
        assert_eq!(all(&subs, &Change::Resource("x:1".into())), Some(alloc::vec![a, b]));
        assert_eq!(all(&subs, &Change::Resource("x:2".into())), None);
        assert!(subs.uris().eq(["x:1"]));
        assert_eq!(subs.unfollow(b, "x:1"), None);
        assert_eq!(subs.close(a).map(|(_, left)| left.len()), Some(1));
        assert!(subs.uris().next().is_none() && subs.topics.len() == 0);
        assert_eq!(all(&subs, &Change::Tools), Some(alloc::vec![b]));
    }

    #[test]
    fn a_listener_is_told_once_in_a_round_and_what_is_held_is_one_bit() {
        let mut subs = Subscriptions::new();
        let a = subs.open(CHANNEL, None, TOOLS);
        subs.follow(a, "x:1");
        for change in [Change::Tools, Change::Resource("x:1".into())] {
            let target = subs.target(&change).expect("somebody");
            assert!(!subs.was_told(target, 0, 1));
            subs.tell(target, 0, 1);
            assert!(subs.was_told(target, 0, 1) && !subs.was_told(target, 0, 2));
            subs.hold(target, 0);
            subs.hold(target, 0);
        }
        assert_eq!(subs.held(a).len(), 2);
        for (target, place) in subs.held(a) {
            subs.tell(target, place, 3);
        }
        assert!(subs.held(a).is_empty());
    }
}
