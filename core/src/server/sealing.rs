//! Sealing what a modern client keeps for a call, and opening it when that comes back.
//!
//! Behind a table of functions: a server that never asks for input is linked without it, unless it was given keys.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use bytes::Bytes;

use super::engine::Engine;
use super::event::Call;
use super::input::Round;
use crate::error::UseError;
use crate::raw::RawJson;
use crate::seal::{Binding, Keys, Record, digest};
use crate::vocab;

/// Stands in a sealed state for the answer to what was asked; no JSON text is empty
pub(super) const UNANSWERED: &str = "";

pub(super) trait Sealing: fmt::Debug + Send + Sync {
    /// Good before `expires` (Unix time in seconds), for the same call by `principal`
    fn seal(
        &self,
        call: &Call,
        principal: Option<&str>,
        record: &Record<'_>,
        expires: u64,
        limit: usize,
    ) -> Result<String, UseError>;

    /// None where that is not what was given out
    fn open(&self, call: &Call, principal: Option<&str>, text: &str, now: u64, limit: usize)
    -> Option<Round>;
}

impl Sealing for Keys {
    fn seal(
        &self,
        call: &Call,
        principal: Option<&str>,
        record: &Record<'_>,
        expires: u64,
        limit: usize,
    ) -> Result<String, UseError> {
        let target = target(call);
        let binding = binding(call, principal, &target).ok_or(UseError::Stale)?;
        Self::seal(self, &binding, expires, &record.encode(), limit)
            .map_err(|_| UseError::Full("max_request_state"))
    }

    fn open(
        &self,
        call: &Call,
        principal: Option<&str>,
        text: &str,
        now: u64,
        limit: usize,
    ) -> Option<Round> {
        let target = target(call);
        let payload = Self::open(self, &binding(call, principal, &target)?, now, text, limit).ok()?;
        let record = Record::decode(&payload).ok()?;
        let mut round = Round { attempt: record.attempt, state: record.state.to_vec(), ..Round::default() };
        let asked = round.asked.insert(alloc::vec::Vec::new());
        for (key, text) in record.answers {
            if text == UNANSWERED {
                asked.push(key.into());
            } else {
                let text = RawJson::trusted(Bytes::copy_from_slice(text.as_bytes()));
                round.answers.push((key.into(), Ok(text)));
            }
        }
        Some(round)
    }
}

/// What a call is about: the name of a tool or prompt, the URI of a resource
fn target(call: &Call) -> String {
    // A resource has no name, whatever else stands in the request: the URI is what is read.
    let target = match &*call.method {
        vocab::RESOURCES_READ => call.params().and_then(|params| params.member("uri")),
        _ => call.part(call.params.name),
    };
    target.and_then(|target| target.string()).unwrap_or_default()
}

/// What a sealed state belongs to
fn binding<'a>(call: &'a Call, principal: Option<&'a str>, target: &'a str) -> Option<Binding<'a>> {
    let arguments = digest(call.params.arguments.of(&call.frame)).ok()?;
    Some(Binding { principal, method: call.method(), target, arguments })
}

impl Engine {
    /// Makes the keys that were only promised
    pub(super) fn make_keys(&mut self) {
        if let (None, Some(seed)) = (&self.keys, &self.config.seed) {
            self.keys = Some(Arc::new(Keys::new(seed.0)));
        }
    }
}

/// What keys are made of; shows nothing
#[derive(Clone)]
pub(super) struct Seed(pub(super) [u8; 32]);

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed")
    }
}
