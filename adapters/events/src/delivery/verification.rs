//! Proofs that the owner of a URL wants deliveries, and the challenges that ask for them (EVT-113 to EVT-118).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::http::Url;

use super::config::Config;
use super::values::{Outcome, Subscribe, Ticket};
use super::{Headers, headers};
use crate::webhook::{Challenge, SubscriptionKey, sign};
use crate::wire::{CallbackFailure, EventsError};

/// Principal and URL, which a proof is for (EVT-116).
pub(super) type ProofKey = (String, String);

pub(super) fn proof_of(key: &SubscriptionKey) -> ProofKey {
    (key.principal().to_string(), key.url().to_string())
}

const MINUTE: Duration = Duration::from_secs(60);

/// A challenge, and the calls that wait for it.
struct Verification {
    challenge: Challenge,
    webhook_id: String,
    url: Url,
    /// In order; the last one with a key decides. Bounded by `Config::subscriptions_per_principal`.
    calls: Vec<(Ticket, Subscribe)>,
}

/// Proofs, and challenges: one at a time for a principal and a URL.
#[derive(Default)]
pub(super) struct Verifications {
    /// Challenges that are to be sent, or in flight; each has a call, so `Config::subscriptions` bounds them.
    open: BTreeMap<ProofKey, Verification>,
    /// Those to send.
    unsent: VecDeque<ProofKey>,
    /// Number of challenges in the current minute, per host; bounded by `Config::subscriptions`.
    counts: BTreeMap<String, (Instant, u32)>,
    /// Until when each proof counts; bounded by `Config::subscriptions`.
    proofs: BTreeMap<ProofKey, Instant>,
}

impl Verifications {
    pub(super) fn is_proved(&self, now: Instant, proof: &ProofKey) -> bool {
        self.proofs.get(proof).is_some_and(|until| now < *until)
    }

    pub(super) fn is_open(&self, proof: &ProofKey) -> bool {
        self.open.contains_key(proof)
    }

    pub(super) fn has_challenge(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Returns the number of calls that wait.
    pub(super) fn calls(&self) -> usize {
        self.open.values().map(|verification| verification.calls.len()).sum()
    }

    /// Begins a verification, unless the host has had too many (EVT-118).
    pub(super) fn begin(
        &mut self,
        now: Instant,
        proof: &ProofKey,
        url: &Url,
        (webhook_id, challenge): (String, Challenge),
        config: &Config,
    ) -> Result<(), EventsError> {
        let most = config.challenges_per_host;
        let exhausted = EventsError::ResourceExhausted { limit: "challenges", max: u64::from(most) };
        let host = url.origin().host.to_string();
        if !self.counts.contains_key(&host) && self.counts.len() >= config.subscriptions {
            self.counts.retain(|_, (since, _)| now.saturating_duration_since(*since) < MINUTE);
            if self.counts.len() >= config.subscriptions {
                return Err(exhausted);
            }
        }
        let (since, count) = self.counts.entry(host).or_insert((now, 0));
        if now.saturating_duration_since(*since) >= MINUTE {
            (*since, *count) = (now, 0);
        }
        if *count >= most {
            return Err(exhausted);
        }
        *count += 1;
        let verification = Verification { challenge, webhook_id, url: url.clone(), calls: Vec::new() };
        self.open.insert(proof.clone(), verification);
        self.unsent.push_back(proof.clone());
        Ok(())
    }

    /// Lets a call wait for a verification that is open.
    pub(super) fn wait(&mut self, proof: &ProofKey, ticket: Ticket, request: Subscribe) {
        if let Some(verification) = self.open.get_mut(proof) {
            verification.calls.push((ticket, request));
        }
    }

    /// Forgets a call; returns its principal.
    pub(super) fn cancel(&mut self, ticket: Ticket) -> Option<String> {
        self.open.iter_mut().find_map(|(proof, verification)| {
            let at = verification.calls.iter().position(|(other, _)| *other == ticket)?;
            verification.calls.remove(at);
            Some(proof.0.clone())
        })
    }

    /// Forgets the calls with a key, and returns them.
    pub(super) fn take_calls(&mut self, key: &SubscriptionKey) -> Vec<Ticket> {
        let Some(verification) = self.open.get_mut(&proof_of(key)) else { return Vec::new() };
        let calls = verification.calls.iter().filter(|(_, call)| call.key == *key);
        let tickets = calls.map(|(ticket, _)| *ticket).collect();
        verification.calls.retain(|(_, call)| call.key != *key);
        tickets
    }

    /// Returns the next challenge to send; those for which nobody waits any more are dropped.
    pub(super) fn next_challenge(&mut self, unix_secs: u64) -> Option<(ProofKey, Url, Headers, Vec<u8>)> {
        while let Some(proof) = self.unsent.pop_front() {
            let Some(verification) = self.open.get(&proof) else { continue };
            let Some((_, first)) = verification.calls.first() else {
                self.open.remove(&proof);
                continue;
            };
            // The newest secret of the first key: its receiver has it by now.
            let newest = verification.calls.iter().rev().find(|(_, call)| call.key == first.key);
            let secret = &newest.map_or(first, |(_, call)| call).secret;
            let (id, body) = (&verification.webhook_id, verification.challenge.body().into_bytes());
            let headers = headers(id, unix_secs, sign([secret], id, unix_secs, &body), &first.key.id());
            let url = verification.url.clone();
            return Some((proof, url, headers, body));
        }
        None
    }

    /// Ends a verification: returns why it failed, if it did, and the calls that waited.
    pub(super) fn end(
        &mut self,
        now: Instant,
        proof: &ProofKey,
        outcome: &Outcome<'_>,
        config: &Config,
    ) -> (Option<CallbackFailure>, Vec<(Ticket, Subscribe)>) {
        let Some(verification) = self.open.remove(proof) else { return (None, Vec::new()) };
        let failure = match outcome {
            Outcome::Failed(failure) => Some(failure.category()),
            Outcome::Answer { status, body, .. } => {
                let accepted = verification.challenge.accept(now, *status, body);
                accepted.err().map(|_| CallbackFailure::ChallengeFailed)
            }
        };
        if failure.is_none() {
            self.remember(now, proof, config);
        }
        (failure, verification.calls)
    }

    fn remember(&mut self, now: Instant, proof: &ProofKey, config: &Config) {
        if self.proofs.len() >= config.subscriptions {
            self.proofs.retain(|_, until| now < *until);
        }
        if self.proofs.len() >= config.subscriptions {
            // The one that expires first makes room.
            let first = self.proofs.iter().min_by_key(|(_, until)| **until).map(|(proof, _)| proof.clone());
            first.map(|proof| self.proofs.remove(&proof));
        }
        self.proofs.insert(proof.clone(), now + config.proof_life);
    }
}
