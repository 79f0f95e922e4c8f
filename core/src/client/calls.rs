//! Calls of ours under way: held back until the server is known, permitted, kept for a repeat, ended.

use alloc::collections::VecDeque;
use core::ops::Range;

use super::config::Config;
use super::engine::Engine;
use super::event::{Event, Peer};
use super::log::Logs;
use super::news::News;
use crate::calls::ours::Ask;
use crate::calls::outbound::{CallKey, Purpose};
use crate::error::{CallError, UseError};
use crate::json::Noted;
use crate::raw::RawJson;
use crate::slab::Key;
use crate::version::Era;
use crate::vocab::{self, Capability};

/// Calls that wait, oldest first
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) calls: VecDeque<Key>,
    pub(super) bytes: usize,
}

impl Engine {
    /// Whether a call may go out to this server (LIFE-010, LIFE-011, LIFE-023)
    pub(super) fn permit(&self, method: &str) -> Result<(), UseError> {
        let (Some(rule), Some(peer)) = (vocab::request(method), self.peer.as_ref()) else { return Ok(()) };
        if !rule.client_sends() {
            return Err(UseError::NotYours(method.into()));
        }
        if !rule.exists_in(peer.version) {
            return Err(UseError::NotInVersion { what: method.into(), version: peer.version });
        }
        match rule.gate_in(peer.version) {
            Some(gate) if !peer.has(gate) => Err(UseError::PeerLacks(gate)),
            // What a server remembers of us is the engine's to say.
            Some(Capability::ResourceSubscriptions | Capability::Logging) => {
                Err(UseError::NotYours(method.into()))
            }
            _ => Ok(()),
        }
    }

    /// Keeps what is needed to repeat a call, where the server may answer that it needs something first, or the answer
    /// may be lost
    pub(super) fn keep(&mut self, key: Key, method: &str, written: Range<usize>, meta: Option<&RawJson>) {
        let again = || self.exchanges && self.link.outbound.calls.get(key).is_some_and(|c| c.repeatable);
        // What is kept is read up to the end of the method, which has no escapes.
        let plain = || method.bytes().all(|b| b >= b' ' && !matches!(b, b'"' | b'\\'));
        if (self.is_modern() && vocab::may_need_input(method)) || (again() && plain()) {
            self.kept += self.link.keep(key, method, written, meta);
        }
    }

    /// A deadline of a request of ours has come
    pub(super) fn call_due(&mut self, key: Key) {
        let Some(call) = self.link.outbound.calls.get(key) else { return };
        match (call.purpose, call.expired(self.link.now)) {
            (Purpose::Application, _) if call.parked => self.round_due(key),
            (Purpose::Application | Purpose::Round(_), _) => self.overdue(key),
            (Purpose::Listen | Purpose::Errand, Some(outcome)) => {
                self.link.send_cancelled(key, Some("no answer in time"));
                self.ended(key, Err(outcome));
            }
            // The stage has a deadline of its own.
            _ => {}
        }
    }

    /// Sends what waited for the connection to be ready
    pub(super) fn flush_queue(&mut self) {
        for key in self.queue.take().map(|queue| queue.calls).into_iter().flatten() {
            let now = self.link.now;
            let Some(call) = self.link.outbound.calls.get_mut(key) else { continue };
            let Some(queued) = call.queued.take() else { continue };
            call.restart(now, queued.total);
            let progress = call.wants_progress;
            let Some(version) = self.peer.as_ref().map(|p| p.version) else { continue };
            let written = self.permit(&queued.method).and_then(|()| {
                let stamp = stamp(self.peer.as_deref(), &self.config, None);
                let ask = Ask { method: &queued.method, stamp, meta: queued.meta.as_ref(), progress };
                let params = queued.params.in_version(version)?;
                self.link.ask_at(key, &ask, |out| {
                    out.extend_from_slice(params);
                    Ok(Noted::default())
                })
            });
            match written {
                Err(e) => self.finish(key, Err(CallError::Refused(e))),
                Ok(written) => self.keep(key, &queued.method, written, queued.meta.as_ref()),
            }
        }
    }

    /// Ends a call of ours that the server may still be working on
    pub(super) fn abandon(&mut self, key: Key, reason: Option<&str>, outcome: CallError) {
        let queued = self.link.outbound.calls.get_mut(key).and_then(|c| c.queued.take());
        if let Some(queued) = queued {
            if let Some(queue) = &mut self.queue {
                queue.bytes = queue.bytes.saturating_sub(queued.cost());
                queue.calls.retain(|k| *k != key);
            }
        } else if let Some(sent) = self.wire_key(key) {
            self.link.send_cancelled(sent, reason);
        }
        self.finish(key, Err(outcome));
    }

    pub(super) fn finish(&mut self, key: Key, outcome: Result<RawJson, CallError>) {
        if let Some(call) = self.link.outbound.calls.remove(key) {
            self.kept = self.kept.saturating_sub(call.kept.map_or(0, |kept| kept.len()));
            if call.parked {
                self.end_rounds(key);
            }
            self.link.sweep();
            self.events.push_back(Event::Done { call: CallKey(key), outcome, again: call.parked });
        }
    }
}

/// What every request carries in `_meta`, in the modern era
pub(super) fn stamp<'c>(peer: Option<&Peer>, config: &'c Config, news: Option<&'c News>) -> Option<&'c [u8]> {
    let peer = peer.filter(|p| p.era() == Era::Modern)?;
    Some(news.and_then(|n| n.logs.as_ref()).map_or_else(|| config.stamp(peer.version), Logs::stamp))
}
