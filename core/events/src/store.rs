//! What outlives a restart of a server: changes as records, and what they add up to.
//!
//! [`Source`](crate::source::Source) and [`Deliveries`](crate::delivery::Deliveries) make [`Record`]s of what they keep, and
//! take it back in. They write nothing: the caller appends the records to a store, in their order, and reads them after a
//! restart.
//!
//! - The log of a type, with the positions that cursors name. The record of an event is written **before** it is published.
//! - Webhook subscriptions, with their grants, secrets and watermarks. Their records follow the change, and come before the
//!   answer of the call. What a subscription has still to get is not written: it is what the log has behind the watermark.
//!
//! So cursors go on, subscriptions go on without their clients, and an event that was published and not yet acknowledged is
//! delivered, maybe again (EVT-151). A type without positions keeps nothing of its events.
//!
//! [`Snapshot`] adds records up. One that is missing, or written twice, changes nothing else: a log with a hole begins behind
//! it, and its readers are told.
//!
//! **Records contain the secrets of subscriptions**, and arguments and events, which may be secrets, too.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use mcp_proto::{EncodeError, RawJson};
use serde::{Deserialize, Serialize};

use crate::log::{Log, LogLimits};
use crate::webhook::{Secret, SubscriptionKey};
use crate::wire::{CallbackFailure, CallbackUrl, EventOccurrence, Profile};

/// A change of what outlives a restart.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Record {
    /// The log of a type begins, in place of one that it had; one with the same epoch has other bounds now.
    Log {
        /// Name of the type.
        name: String,
        /// Number that its cursors have.
        epoch: u32,
        /// Position in front of its first entry.
        first: u64,
        /// What is kept of it.
        limits: LogLimits,
    },
    /// A type was removed, with its log.
    LogRemoved {
        /// Name of the type.
        name: String,
    },
    /// An event of a type is published.
    Event {
        /// Position in front of it.
        position: u64,
        /// Time in microseconds: the instant of the source.
        at: u64,
        /// The event.
        event: EventOccurrence,
    },
    /// Events of a type were lost.
    Gap {
        /// Name of the type.
        name: String,
        /// Position in front of it.
        position: u64,
        /// Time in microseconds: the instant of the source.
        at: u64,
    },
    /// A subscription was made, refreshed or terminated.
    Subscription(Box<StoredSubscription>),
    /// Something was delivered to a subscription, or could not be.
    Progress {
        /// Id of the subscription.
        id: String,
        /// What is known now.
        progress: Progress,
    },
    /// A subscription has ended.
    SubscriptionEnded {
        /// Id of the subscription.
        id: String,
    },
}

impl Record {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// An error that names the member that is missing or wrong.
    pub fn read(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }

    /// Returns the record as one line of JSON, without its end.
    ///
    /// # Errors
    ///
    /// A member cannot be written.
    pub fn to_line(&self) -> Result<String, EncodeError> {
        // Line ends are white space here: in a string they are escaped.
        RawJson::encode(self).map(|text| text.as_str().replace(['\n', '\r'], " "))
    }

    /// Returns whether an acknowledged call depends on it, so that it must outlive a power failure. What
    /// was delivered need not: it would be delivered again.
    #[must_use]
    pub const fn is_promise(&self) -> bool {
        !matches!(self, Self::Progress { .. })
    }
}

/// Shows kinds and names alone: events, arguments and secrets belong to others.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Record");
        match self {
            Self::Log { name, .. } => shown.field("log", name),
            Self::LogRemoved { name } => shown.field("log_removed", name),
            Self::Event { position, event, .. } => shown.field("event", &(&event.name, position)),
            Self::Gap { name, position, .. } => shown.field("gap", &(name, position)),
            Self::Subscription(stored) => shown.field("subscription", stored),
            Self::Progress { id, progress } => shown.field("progress", &(id, progress)),
            Self::SubscriptionEnded { id } => shown.field("subscription_ended", id),
        };
        shown.finish()
    }
}

/// A webhook subscription, as it is stored. Times are Unix times in seconds.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StoredSubscription {
    /// Canonical name of the subscriber.
    pub principal: String,
    /// Scopes of the subscriber when it subscribed.
    #[serde(default)]
    pub scopes: String,
    /// URL of the receiver.
    pub url: CallbackUrl,
    /// Name of the type.
    pub name: String,
    /// Arguments.
    pub arguments: RawJson,
    /// The secret.
    pub secret: Secret,
    /// Secrets before rotations, the oldest first, and until when each signs, too.
    #[serde(default)]
    pub older: Vec<(Secret, u64)>,
    /// When it was granted last.
    #[serde(default)]
    pub granted_at: u64,
    /// When it expires; `None` for no expiry.
    pub expires_at: Option<u64>,
    /// Until when the proof of principal and URL counts.
    #[serde(default)]
    pub proved_until: Option<u64>,
    /// What is written to the subscriber.
    pub profile: Profile,
    /// The envelope that tells of its end; nothing else is delivered then.
    #[serde(default)]
    pub terminated: Option<RawJson>,
    /// What was delivered.
    pub progress: Progress,
}

impl StoredSubscription {
    /// Returns its key; `None` if the arguments have no canonical text.
    #[must_use]
    pub fn key(&self) -> Option<SubscriptionKey> {
        SubscriptionKey::new(&*self.principal, &*self.url.0, &*self.name, &self.arguments).ok()
    }
}

/// Omits secrets, arguments, and the query of the URL.
impl fmt::Debug for StoredSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredSubscription")
            .field("principal", &self.principal)
            .field("url", &self.url)
            .field("name", &self.name)
            .field("expires_at", &self.expires_at)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

/// What is known of the deliveries of a subscription. Times are Unix times in seconds.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Progress {
    /// Position behind which nothing is done for certain; absent if its type has none.
    pub cursor: Option<String>,
    /// Whether events in front of its first position were skipped, and the subscriber does not know it yet (EVT-144).
    pub starts_truncated: bool,
    /// Whether deliveries are suspended until a refresh (EVT-100).
    pub is_suspended: bool,
    /// Time of the last acknowledged delivery.
    pub last_delivery_at: Option<u64>,
    /// Category of the last failure.
    pub last_error: Option<CallbackFailure>,
    /// Time since which every attempt has failed.
    pub failed_since: Option<u64>,
}

/// What records add up to.
#[derive(Default)]
pub struct Snapshot {
    /// By the name of their types.
    pub(crate) logs: BTreeMap<String, Log>,
    /// By their ids.
    pub(crate) subscriptions: BTreeMap<String, StoredSubscription>,
}

/// Shows numbers alone.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("logs", &self.logs.len())
            .field("subscriptions", &self.subscriptions.len())
            .finish()
    }
}

impl Snapshot {
    /// Adds a record.
    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Log { name, epoch, first, limits } => match self.logs.get_mut(&name) {
                Some(log) if log.epoch() == epoch => log.set_limits(limits),
                _ => {
                    self.logs.insert(name, Log::begin_at(limits, epoch, first));
                }
            },
            Record::LogRemoved { name } => {
                self.logs.remove(&name);
            }
            Record::Event { position, at, event } => {
                if let Some(log) = self.logs.get_mut(&event.name) {
                    log.restore(position, at, Some(event));
                }
            }
            Record::Gap { name, position, at } => {
                if let Some(log) = self.logs.get_mut(&name) {
                    log.restore(position, at, None);
                }
            }
            Record::Subscription(stored) => {
                if let Some(key) = stored.key() {
                    self.subscriptions.insert(key.id(), *stored);
                }
            }
            Record::Progress { id, progress } => {
                if let Some(stored) = self.subscriptions.get_mut(&id) {
                    stored.progress = progress;
                }
            }
            Record::SubscriptionEnded { id } => {
                self.subscriptions.remove(&id);
            }
        }
    }
}

impl FromIterator<Record> for Snapshot {
    fn from_iter<I: IntoIterator<Item = Record>>(records: I) -> Self {
        let mut snapshot = Self::default();
        records.into_iter().for_each(|record| snapshot.apply(record));
        snapshot
    }
}

/// Returns the records of the log of a type: its beginning, and its entries.
pub(crate) fn log_records<'l>(name: &'l str, log: &'l Log) -> impl Iterator<Item = Record> + 'l {
    let (epoch, first, limits) = (log.epoch(), log.start_of_all().0, log.limits());
    let begin = Record::Log { name: name.into(), epoch, first, limits };
    let entries = log.entries().zip(first..).map(|((at, event), position)| {
        let at = at.as_micros();
        match event {
            Some(event) => Record::Event { position, at, event: event.clone() },
            None => Record::Gap { name: name.into(), position, at },
        }
    });
    core::iter::once(begin).chain(entries)
}

#[cfg(test)]
mod tests;
