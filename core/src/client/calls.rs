//! Operations on outbound calls: queue, check, retain, end.

use core::ops::Range;

use super::config::Config;
use super::engine::Engine;
use super::event::{Event, Peer};
use super::log::LogSettings;
use super::notifications::NotificationState;
use crate::calls::outbound::{CallKey, CallPurpose};
use crate::calls::outbound_requests::OutboundRequest;
use crate::error::{CallError, UseError};
use crate::json::TopLevelMembers;
use crate::key_queue::KeyQueue;
use crate::methods::{self, Capability};
use crate::raw::RawJson;
use crate::slab::Key;
use crate::version::Era;

/// Queued calls, oldest first.
#[derive(Debug, Default)]
pub(super) struct CallQueue {
    pub(super) calls: KeyQueue,
    pub(super) bytes: usize,
}

impl Engine {
    /// Checks that a call may be sent to this server (LIFE-010, LIFE-011, LIFE-023).
    ///
    /// # Errors
    ///
    /// [`UseError::ReservedMethod`], [`UseError::NotInVersion`] or [`UseError::MissingPeerCapability`].
    pub(super) fn check_permitted(&self, method: &str) -> Result<(), UseError> {
        let (Some(rule), Some(peer)) = (methods::request_rule(method), self.peer.as_ref()) else {
            return Ok(());
        };
        if !rule.is_sent_by_client() {
            return Err(UseError::ReservedMethod(method.into()));
        }
        if !rule.exists_in(peer.version) {
            return Err(UseError::NotInVersion { feature: method.into(), version: peer.version });
        }
        match rule.required_capability_in(peer.version) {
            Some(capability) if !peer.has(capability) => Err(UseError::MissingPeerCapability(capability)),
            // Subscriptions and the log level are managed by the engine.
            Some(Capability::ResourceSubscriptions | Capability::Logging) => {
                Err(UseError::ReservedMethod(method.into()))
            }
            _ => Ok(()),
        }
    }

    /// Retains what is needed to repeat a call, if the server may ask for input or the answer may be lost.
    pub(super) fn retain_call(
        &mut self,
        key: Key,
        method: &str,
        written: Range<usize>,
        meta: Option<&RawJson>,
    ) {
        let may_resend =
            || self.uses_exchanges && self.endpoint.outbound.calls.get(key).is_some_and(|c| c.idempotent);
        // The method is stored up to the next quote, so it must not contain escapes.
        let is_plain = || method.bytes().all(|b| b >= b' ' && !matches!(b, b'"' | b'\\'));
        if (self.is_modern() && methods::may_need_input(method)) || (may_resend() && is_plain()) {
            self.retained_bytes += self.endpoint.retain_request(key, method, written, meta);
        }
    }

    /// Handles a deadline of an outbound call.
    pub(super) fn handle_call_deadline(&mut self, key: Key) {
        let Some(call) = self.endpoint.outbound.calls.get(key) else { return };
        match (call.purpose, call.timeout_error(self.endpoint.now)) {
            (CallPurpose::Application, _) if call.superseded => self.handle_round_deadline(key),
            (CallPurpose::Application | CallPurpose::Retry(_), _) => self.handle_call_timeout(key),
            (CallPurpose::KeepAlive, Some(_)) if self.restart_ping_wait(key) => {}
            (CallPurpose::Listen | CallPurpose::Internal | CallPurpose::KeepAlive, Some(outcome)) => {
                self.endpoint.send_cancellation(key, Some("no answer in time"));
                self.finish_outbound(key, Err(outcome));
            }
            // The negotiation has a deadline of its own.
            _ => {}
        }
    }

    /// Sends the queued calls when the connection is ready.
    pub(super) fn flush_queue(&mut self) {
        let Some(queue) = self.queue.take() else { return };
        for key in queue.calls.iter() {
            let now = self.endpoint.now;
            let Some(call) = self.endpoint.outbound.calls.get_mut(key) else { continue };
            let Some(queued) = call.queued.take() else { continue };
            call.restart_timeouts(now, queued.total_timeout);
            let progress = call.wants_progress;
            let Some(version) = self.peer.as_ref().map(|p| p.version) else { continue };
            let written = self.check_permitted(&queued.method).and_then(|()| {
                let base_meta = request_meta(self.peer.as_deref(), &self.config, None);
                let request = OutboundRequest {
                    method: &queued.method,
                    base_meta,
                    meta: queued.meta.as_ref(),
                    wants_progress: progress,
                };
                let params = queued.params.for_version(version)?;
                self.endpoint.send_request_range(key, &request, |out| {
                    out.extend_from_slice(params);
                    Ok(TopLevelMembers::default())
                })
            });
            match written {
                Err(e) => self.finish(key, Err(CallError::Refused(e))),
                Ok(written) => self.retain_call(key, &queued.method, written, queued.meta.as_ref()),
            }
        }
    }

    /// Ends a call that the server may still process.
    pub(super) fn abandon(&mut self, key: Key, reason: Option<&str>, outcome: CallError) {
        let queued = self.endpoint.outbound.calls.get_mut(key).and_then(|c| c.queued.take());
        if let Some(queued) = queued {
            if let Some(queue) = &mut self.queue {
                queue.bytes = queue.bytes.saturating_sub(queued.cost());
                let calls = &self.endpoint.outbound.calls;
                queue.calls.record_removal(|key| calls.get(key).is_some_and(|c| c.queued.is_some()));
            }
        } else if let Some(sent) = self.wire_key(key) {
            self.endpoint.send_cancellation(sent, reason);
        }
        self.finish(key, Err(outcome));
    }

    pub(super) fn finish(&mut self, key: Key, outcome: Result<RawJson, CallError>) {
        if let Some(call) = self.endpoint.outbound.calls.remove(key) {
            self.retained_bytes =
                self.retained_bytes.saturating_sub(call.retained.map_or(0, |kept| kept.len()));
            if call.superseded {
                self.end_rounds(key);
            }
            self.endpoint.sweep();
            self.events.push_back(Event::Done { call: CallKey(key), outcome, retried: call.superseded });
        }
    }
}

/// Returns the members of `_meta` that every modern request carries.
pub(super) fn request_meta<'c>(
    peer: Option<&Peer>,
    config: &'c Config,
    notifications: Option<&'c NotificationState>,
) -> Option<&'c [u8]> {
    let peer = peer.filter(|p| p.era() == Era::Modern)?;
    Some(
        notifications
            .and_then(|state| state.log_settings.as_ref())
            .map_or_else(|| config.request_meta(peer.version), LogSettings::request_meta),
    )
}
