//! Invariants of events, of those who follow them, and of the receiver of webhooks.

use alloc::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::entry::{Lane, What};
use crate::messages::Log;

/// Name of the type of events that has positions.
pub(crate) const KEPT: &str = "kept";

/// Name of the type of events without positions.
pub(crate) const LIVE: &str = "live";

/// Events of a type that a server keeps.
pub(crate) const LOG_EVENTS: usize = 8;

/// Text of the fault after which a server that is started again knows no event, no position and no subscription.
pub(crate) const STORE_LOST: &str = "the store of events is lost";

/// The prefix of the secret of a webhook.
const SECRET: &str = "whsec_";

/// A client that follows the events of an audience.
struct Follower<'l> {
    lane: Lane,
    audience: &'l str,
    is_ordered: bool,
    /// Number of events with positions when it was begun.
    begun_at: usize,
    /// Number of events of its audience when its position became known: these may have come before it.
    positioned_at: Option<usize>,
    /// Index among the events of its audience of the last one that it handed out.
    last: Option<usize>,
    handed_out: BTreeSet<&'l str>,
    /// Whether it was told of missing events since it handed out the last one.
    is_told: bool,
    /// Number of events of its audience when it was told of missing events.
    told_at: usize,
    has_ended: bool,
}

/// Followers, and the events of each audience.
#[derive(Default)]
struct Followers<'l> {
    followers: BTreeMap<&'l str, Follower<'l>>,
    events: BTreeMap<&'l str, Vec<&'l str>>,
    /// The audience of each event, and its index there.
    places: BTreeMap<&'l str, (&'l str, usize)>,
    /// Events whose delivery to the receiver of a client was attempted as often as it is.
    given_up: BTreeSet<(Lane, String)>,
    /// Number of events with positions.
    kept: usize,
    has_lost_store: bool,
}

impl<'l> Followers<'l> {
    fn count(&self, audience: &str) -> usize {
        self.events.get(audience).map_or(0, Vec::len)
    }

    fn handle(&mut self, lane: Lane, what: &'l What) {
        match what {
            What::Published { event, audience } => {
                self.kept += usize::from(audience.starts_with(KEPT));
                let events = self.events.entry(audience).or_default();
                self.places.insert(event, (audience, events.len()));
                events.push(event);
            }
            What::Followed { follower, audience, is_ordered } => {
                let follows = Follower {
                    lane,
                    audience,
                    is_ordered: *is_ordered,
                    begun_at: self.kept,
                    positioned_at: None,
                    last: None,
                    handed_out: BTreeSet::new(),
                    is_told: false,
                    told_at: 0,
                    has_ended: false,
                };
                self.followers.insert(follower, follows);
            }
            What::Positioned { follower } => {
                let count = self.followers.get(&**follower).map(|found| self.count(found.audience));
                if let Some(found) = self.followers.get_mut(&**follower) {
                    found.positioned_at = count;
                }
            }
            What::HandedOut { follower, event } => {
                let place = self.places.get(&**event).map(|(_, place)| *place);
                if let Some(found) = self.followers.get_mut(&**follower) {
                    found.handed_out.insert(event);
                    (found.last, found.is_told) = (place, false);
                }
            }
            What::Gap { follower, .. } => {
                let count = self.followers.get(&**follower).map(|found| self.count(found.audience));
                if let Some(found) = self.followers.get_mut(&**follower) {
                    (found.is_told, found.told_at) = (true, count.unwrap_or(0));
                }
            }
            What::Unfollowed { follower, .. } => {
                if let Some(found) = self.followers.get_mut(&**follower) {
                    found.has_ended = true;
                }
            }
            What::Posted { body, is_last: true, .. } => {
                let body: Value = serde_json::from_str(body).unwrap_or_default();
                let event = body["eventId"].as_str().map(str::to_owned);
                let client = match lane {
                    Lane::Server(n) => Lane::Client(n),
                    other => other,
                };
                self.given_up.extend(event.map(|event| (client, event)));
            }
            What::Fault { text } if text == STORE_LOST => self.has_lost_store = true,
            _ => {}
        }
    }

    /// Finds an event that a follower was promised, and that it neither got nor was told of.
    fn find_missing(&self) -> Option<String> {
        self.followers.iter().filter(|(_, follower)| !follower.has_ended).find_map(|(name, follower)| {
            let promised = follower.positioned_at?.max(follower.told_at);
            let events = self.events.get(follower.audience)?.get(promised..)?;
            let is_excused = |event: &str| {
                !follower.is_ordered && self.given_up.contains(&(follower.lane, event.to_owned()))
            };
            let missing =
                events.iter().find(|event| !follower.handed_out.contains(*event) && !is_excused(event))?;
            Some(format!("{name} has not got {missing} ({})", follower.audience))
        })
    }

    /// Returns why a follower may not hand an event out now.
    fn find_misplaced(&self, follower: &str, event: &str) -> Option<String> {
        let (name, follower) = self.followers.get_key_value(follower)?;
        let (_, place) = self.places.get(event).filter(|_| follower.is_ordered)?;
        match (follower.last, follower.positioned_at) {
            (Some(last), _) if *place <= last => Some(format!("{name} gets {event} behind later ones")),
            (Some(last), _) if *place > last + 1 && !follower.is_told => {
                Some(format!("{name} gets {event}, and is not told that the one in front of it is missing"))
            }
            (None, Some(first)) if *place > first && !follower.is_told => {
                Some(format!("{name} begins with {event}, and is not told that an earlier one is missing"))
            }
            _ => None,
        }
    }
}

/// Finds the first entry that `check` refuses, given what has happened before.
fn find<'l>(
    log: &'l Log<'_>,
    check: impl Fn(&Followers<'l>, &'l What) -> Option<String>,
) -> Option<(usize, String)> {
    let mut followers = Followers::default();
    for (at, entry) in log.iter().enumerate() {
        if let Some(reason) = check(&followers, &entry.what) {
            return Some((at, reason));
        }
        followers.handle(entry.lane, &entry.what);
    }
    None
}

pub(crate) fn events_are_handed_out(log: &Log<'_>) -> Option<(usize, String)> {
    find(log, |followers, what| match what {
        What::CaughtUp => followers.find_missing(),
        What::Unfollowed { follower, error: Some(error) } => Some(format!("{follower} has ended: {error}")),
        _ => None,
    })
}

pub(crate) fn event_reaches_its_followers_once(log: &Log<'_>) -> Option<(usize, String)> {
    find(log, |followers, what| {
        let What::HandedOut { follower, event } = what else { return None };
        let known = followers.followers.get(&**follower)?;
        match followers.places.get(&**event) {
            None => Some(format!("{follower} gets {event}, which nobody has published")),
            Some((audience, _)) if *audience != known.audience => {
                Some(format!("{follower} of {} gets {event} of {audience}", known.audience))
            }
            _ if known.handed_out.contains(&**event) => Some(format!("{follower} gets {event} again")),
            _ => None,
        }
    })
}

pub(crate) fn events_keep_their_order(log: &Log<'_>) -> Option<(usize, String)> {
    find(log, |followers, what| match what {
        What::HandedOut { follower, event } => followers.find_misplaced(follower, event),
        _ => None,
    })
}

pub(crate) fn gap_has_a_cause(log: &Log<'_>) -> Option<(usize, String)> {
    find(log, |followers, what| {
        let What::Gap { follower, reason } = what else { return None };
        let known = followers.followers.get(&**follower)?;
        let has_cause = match &**reason {
            "Truncated" => followers.has_lost_store || followers.kept - known.begun_at > LOG_EVENTS,
            "NoReplay" => known.audience.starts_with(LIVE),
            _ => false,
        };
        (!has_cause).then(|| format!("{follower} is told that events are missing without a cause: {reason}"))
    })
}

pub(crate) fn forged_delivery_is_refused(log: &Log<'_>) -> Option<(usize, String)> {
    log.iter().enumerate().find_map(|(at, entry)| match &entry.what {
        What::Forged { text, is_taken: true } => Some((at, text.clone())),
        _ => None,
    })
}

pub(crate) fn secret_stays_with_its_client(log: &Log<'_>) -> Option<(usize, String)> {
    let mut owners: BTreeMap<&str, Lane> = BTreeMap::new();
    for (at, entry) in log.iter().enumerate() {
        let (texts, may_have): (&[&String], _) = match (&entry.what, entry.lane) {
            (What::Sent { line }, Lane::Client(_)) => (&[line], true),
            (What::Sent { line: text } | What::Streamed { line: text, .. }, _) => (&[text], false),
            (What::Posted { target, head, body, .. }, _) => (&[target, head, body], false),
            (What::Overheard { text, .. } | What::Event { text }, _) => (&[text], false),
            (What::Ended { outcome: text, .. } | What::Received { request: text }, _) => (&[text], false),
            (What::Closed { fault: text }, _) => (&[text], false),
            _ => continue,
        };
        let secrets = texts.iter().flat_map(|text| text.match_indices(SECRET).map(|(from, _)| &text[from..]));
        for secret in secrets {
            let secret = secret.split(['"', '\n']).next().unwrap_or_default();
            let owner = *owners.entry(secret).or_insert(entry.lane);
            if !may_have || owner != entry.lane {
                return Some((at, format!("a secret of {owner:?} in {texts:?}")));
            }
        }
    }
    None
}
