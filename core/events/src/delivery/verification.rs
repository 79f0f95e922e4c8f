//! Proofs that the owner of a URL wants deliveries, and the challenges that ask for them (EVT-113 to EVT-118).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::http::Url;

use super::config::Config;
use super::values::{Outcome, Subscribe, Ticket};
use super::{Headers, headers, host_of};
use crate::webhook::{Challenge, SubscriptionKey, sign};
use crate::wire::{CallbackFailure, EventsError};

/// Principal and URL, which a proof is for (EVT-116).
pub(super) type ProofKey = (String, String);

pub(super) fn proof_of(key: &SubscriptionKey) -> ProofKey {
    (key.principal().to_string(), key.url().to_string())
}

const MINUTE: Duration = Duration::from_secs(60);

/// A map that forgets the entry with the earliest time when it is full.
struct Aged<K, V> {
    entries: BTreeMap<K, (Instant, V)>,
    /// Has exactly the entries.
    order: BTreeSet<(Instant, K)>,
}

impl<K, V> Default for Aged<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, V> Aged<K, V> {
    fn insert(&mut self, at: Instant, key: &K, value: V, limit: usize) {
        if let Some((before, _)) = self.entries.insert(key.clone(), (at, value)) {
            self.order.remove(&(before, key.clone()));
        }
        self.order.insert((at, key.clone()));
        while self.entries.len() > limit.max(1) {
            if let Some((_, first)) = self.order.pop_first() {
                self.entries.remove(&first);
            }
        }
    }
}

/// Numbers in a minute that begins with the first one.
type Rates<K> = Aged<K, u32>;

impl<K: Ord + Clone> Rates<K> {
    fn count(&self, now: Instant, key: &K) -> u32 {
        let entry = self.entries.get(key);
        entry
            .filter(|(since, _)| now.saturating_duration_since(*since) < MINUTE)
            .map_or(0, |(_, count)| *count)
    }

    fn add(&mut self, now: Instant, key: &K, limit: usize) {
        let is_current = self.count(now, key) > 0;
        match self.entries.get_mut(key).filter(|_| is_current) {
            Some((_, count)) => *count += 1,
            None => self.insert(now, key, 1, limit),
        }
    }

    fn give_back(&mut self, key: &K) {
        if let Some((_, count)) = self.entries.get_mut(key) {
            *count = count.saturating_sub(1);
        }
    }
}

/// A challenge, and the calls that wait for it.
struct Verification {
    challenge: Challenge,
    webhook_id: String,
    url: Url,
    /// In the order of arrival; the last one with a key decides. Bounded by `Config::subscriptions_per_principal`.
    calls: BTreeMap<Ticket, Subscribe>,
}

/// Number of places that a verification with so many calls has of its principal. One without calls has one, too: else a
/// caller that goes away and comes back would have any number of challenges in flight.
pub(super) fn places(calls: usize) -> usize {
    calls.max(1)
}

/// Proofs, and challenges: one at a time for a principal and a URL.
#[derive(Default)]
pub(super) struct Verifications {
    /// Challenges that are to be sent, or in flight; each has a place, so `Config::subscriptions` bounds them.
    open: BTreeMap<ProofKey, Verification>,
    /// The verification of each call that waits.
    tickets: BTreeMap<Ticket, ProofKey>,
    /// Those to send, apart from those that wait for their host.
    pub(super) unsent: VecDeque<ProofKey>,
    /// Sum of the places of all.
    places: usize,
    // Each of these is bounded by `Config::subscriptions`.
    /// Challenges of each principal.
    principals: Rates<String>,
    /// Challenges to each host, without those that were echoed.
    hosts: Rates<String>,
    /// Failed challenges of each principal to each host.
    failures: Rates<(String, String)>,
    /// Until when each proof counts.
    proofs: Aged<ProofKey, ()>,
}

impl Verifications {
    /// Returns until when a proof counts.
    pub(super) fn proof(&self, proof: &ProofKey) -> Option<Instant> {
        self.proofs.entries.get(proof).map(|(until, ())| *until)
    }

    pub(super) fn is_proved(&self, now: Instant, proof: &ProofKey) -> bool {
        self.proof(proof).is_some_and(|until| now < until)
    }

    pub(super) fn prove(&mut self, proof: &ProofKey, until: Instant, config: &Config) {
        self.proofs.insert(until, proof, (), config.subscriptions);
    }

    pub(super) fn is_open(&self, proof: &ProofKey) -> bool {
        self.open.contains_key(proof)
    }

    /// Number of calls that wait.
    pub(super) fn calls(&self) -> usize {
        self.tickets.len()
    }

    /// Number of places of principals.
    pub(super) const fn places(&self) -> usize {
        self.places
    }

    /// Numbers of principals, hosts, and pairs of them that are counted.
    #[cfg(test)]
    pub(super) fn counters(&self) -> [usize; 3] {
        [self.principals.entries.len(), self.hosts.entries.len(), self.failures.entries.len()]
    }

    /// Begins a verification, which takes a place, unless there were too many (EVT-118).
    pub(super) fn begin(
        &mut self,
        now: Instant,
        proof: &ProofKey,
        url: &Url,
        (webhook_id, challenge): (String, Challenge),
        config: &Config,
    ) -> Result<(), EventsError> {
        let host = host_of(url);
        let failures = self.failures.count(now, &(proof.0.clone(), host.clone()));
        for (count, most) in [
            (self.principals.count(now, &proof.0), config.challenges_per_principal),
            (failures, config.failed_challenges),
            (self.hosts.count(now, &host), config.challenges_per_host),
        ] {
            if count >= most {
                return Err(EventsError::ResourceExhausted { limit: "challenges", max: u64::from(most) });
            }
        }
        self.principals.add(now, &proof.0, config.subscriptions);
        self.hosts.add(now, &host, config.subscriptions);
        let verification = Verification { challenge, webhook_id, url: url.clone(), calls: BTreeMap::new() };
        self.open.insert(proof.clone(), verification);
        self.unsent.push_back(proof.clone());
        self.places += 1;
        Ok(())
    }

    /// Lets a call wait for a verification that is open; returns whether it takes a place that the verification did not
    /// have.
    pub(super) fn wait(&mut self, proof: &ProofKey, ticket: Ticket, request: Subscribe) -> bool {
        let Some(verification) = self.open.get_mut(proof) else { return false };
        verification.calls.insert(ticket, request);
        self.tickets.insert(ticket, proof.clone());
        let is_more = verification.calls.len() > 1;
        self.places += usize::from(is_more);
        is_more
    }

    /// Forgets a call; returns its principal if that gives a place back.
    pub(super) fn cancel(&mut self, ticket: Ticket) -> Option<String> {
        let proof = self.tickets.remove(&ticket)?;
        let verification = self.open.get_mut(&proof)?;
        verification.calls.remove(&ticket);
        if verification.calls.is_empty() {
            return None;
        }
        self.places -= 1;
        Some(proof.0)
    }

    /// Returns the calls with a key.
    pub(super) fn calls_of(&self, key: &SubscriptionKey) -> Vec<Ticket> {
        let calls = self.open.get(&proof_of(key)).into_iter().flat_map(|verification| &verification.calls);
        calls.filter(|(_, call)| call.key == *key).map(|(ticket, _)| *ticket).collect()
    }

    /// Returns the host of a verification that somebody waits for.
    pub(super) fn host(&self, proof: &ProofKey) -> Option<String> {
        let verification = self.open.get(proof).filter(|verification| !verification.calls.is_empty())?;
        Some(host_of(&verification.url))
    }

    /// Returns the challenge to send.
    pub(super) fn challenge(&self, proof: &ProofKey, unix_secs: u64) -> Option<(Url, Headers, Vec<u8>)> {
        let verification = self.open.get(proof)?;
        let (_, first) = verification.calls.first_key_value()?;
        // The newest secret of the first key: its receiver has it by now.
        let newest = verification.calls.values().rev().find(|call| call.key == first.key);
        let secret = &newest.unwrap_or(first).secret;
        let (id, body) = (&verification.webhook_id, verification.challenge.body().into_bytes());
        let headers = headers(id, unix_secs, sign([secret], id, unix_secs, &body), &first.key.id());
        Some((verification.url.clone(), headers, body))
    }

    /// Forgets a verification that nobody waits for.
    pub(super) fn forget(&mut self, proof: &ProofKey) {
        self.remove(proof);
    }

    fn remove(&mut self, proof: &ProofKey) -> Option<Verification> {
        let verification = self.open.remove(proof)?;
        self.places -= places(verification.calls.len());
        for ticket in verification.calls.keys() {
            self.tickets.remove(ticket);
        }
        Some(verification)
    }

    /// Ends a verification: returns why it failed, if it did, its URL, and the calls that waited.
    pub(super) fn end(
        &mut self,
        now: Instant,
        proof: &ProofKey,
        outcome: &Outcome<'_>,
        config: &Config,
    ) -> Option<(Option<CallbackFailure>, Url, BTreeMap<Ticket, Subscribe>)> {
        let Verification { challenge, url, calls, .. } = self.remove(proof)?;
        let failure = match outcome {
            Outcome::Failed(failure) => Some(failure.category()),
            Outcome::Answer { status, body, .. } => {
                challenge.accept(now, *status, body).err().map(|_| CallbackFailure::ChallengeFailed)
            }
        };
        let host = host_of(&url);
        if failure.is_some() {
            self.failures.add(now, &(proof.0.clone(), host), config.subscriptions);
        } else {
            self.hosts.give_back(&host);
            self.prove(proof, now + config.proof_life, config);
        }
        Some((failure, url, calls))
    }
}
