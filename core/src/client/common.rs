//! The state that all parts of the client engine use: endpoint and channel, configuration, server, events.

use serde::Serialize;

use super::config::Config;
use super::event::{Event, EventQueue, LogSettings, Peer};
use crate::calls::endpoint::{Endpoint, EndpointTimer};
use crate::calls::inbound::{BatchKey, RequestSource};
use crate::calls::outbound::{CallOptions, CallPurpose, OutboundCall, ResponseMatch};
use crate::calls::outbound_requests::OutboundRequest;
use crate::deprecation::{DeprecatedFeature, UsedFeatures};
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, UseError};
use crate::json::{EncodeError, Serializer, ShapeTable, TopLevelMembers, member, room};
use crate::limits::Limit;
use crate::methods::{self, Capability};
use crate::model::TaskId;
use crate::rpc::{self, RequestId, RpcError};
use crate::slab::Key;
use crate::sync::Arc;
use crate::tasks::add_related_task;
use crate::time::Instant;
use crate::version::{Era, Version};
use crate::{meta, shape};

/// The state that the parts of an engine share; see the [module](self).
#[derive(Debug)]
pub(super) struct CommonState {
    pub(super) config: Arc<Config>,
    pub(super) endpoint: Endpoint<()>,
    pub(super) events: EventQueue,
    /// The channel of the negotiation and all calls.
    pub(super) main_channel: Option<Key>,
    pub(super) peer: Option<Peer>,
    /// The last serial number of an input request or a subscription.
    last_serial: u64,
    /// Bytes of answers to the server that were appended since all earlier ones had been sent.
    answer_bytes: usize,
    /// Position after the last of these answers in the output.
    answers_end: u64,
    /// Bytes that are retained of calls that may be repeated.
    pub(super) retained_bytes: usize,
    /// The log level that the application has set.
    pub(super) log: Option<LogSettings>,
    /// The last message that may have been an answer, but names no request, and when it came.
    stray: Option<(Instant, Diagnostic)>,
    /// The last answer with the id of no request that came in the exchange of one, as the error of that request.
    pub(super) skipped_answer: Option<(Key, CallError)>,
    /// Deprecated features that were reported.
    reported_features: UsedFeatures,
    /// Requests whose exchanges are not needed any more, although no message says so; as many as there may be calls.
    pub(super) expired_requests: alloc::collections::VecDeque<RequestId>,
    /// Number of sessions that an HTTP server has lost.
    pub(super) lost_sessions: u32,
    /// Requests that ended in the outbox, while their cancellations may follow there.
    pub(super) unsent_requests: alloc::collections::BTreeSet<RequestId>,
    /// Each message has an HTTP exchange of its own, whose status is stronger evidence than silence.
    pub(super) uses_exchanges: bool,
}

impl CommonState {
    pub(super) fn new(config: Arc<Config>) -> Self {
        let endpoint = Endpoint::new(&config.settings);
        Self {
            endpoint,
            events: EventQueue::default(),
            main_channel: None,
            peer: None,
            last_serial: 0,
            answer_bytes: 0,
            answers_end: 0,
            retained_bytes: 0,
            log: None,
            stray: None,
            skipped_answer: None,
            reported_features: UsedFeatures::default(),
            expired_requests: alloc::collections::VecDeque::new(),
            lost_sessions: 0,
            unsent_requests: alloc::collections::BTreeSet::new(),
            uses_exchanges: false,
            config,
        }
    }

    /// Returns a number that was not returned before.
    pub(super) const fn next_serial(&mut self) -> u64 {
        self.last_serial += 1;
        self.last_serial
    }

    /// Returns the table of the negotiated revision.
    pub(super) fn shape_table(&self) -> Option<&'static ShapeTable> {
        self.peer.as_ref().and_then(|p| shape::table(p.version))
    }

    /// Arms the timeout of the current request of the negotiation; an earlier one no longer holds.
    pub(super) fn arm_negotiation_timeout(&mut self, wait: core::time::Duration) {
        self.disarm_negotiation_timeout();
        let timer = EndpointTimer::Negotiation(self.endpoint.negotiation_generation);
        self.endpoint.deadlines.arm(self.endpoint.now + wait, timer);
    }

    /// Makes a timer of the negotiation that is armed stale: it holds for one generation.
    pub(super) const fn disarm_negotiation_timeout(&mut self) {
        let generation = &mut self.endpoint.negotiation_generation;
        *generation = generation.wrapping_add(1);
    }

    /// Waits on for the answer to a ping if silence proves nothing. Returns whether it does.
    pub(super) fn restart_ping_wait(&mut self, key: Key) -> bool {
        // The application takes no events, so reading pauses and the answer may be there unread (DESIGN-37).
        let is_stalled = self.events.len() >= self.endpoint.limits.max_events;
        self.endpoint.restart_ping_wait(key, is_stalled)
    }

    /// Answers a `ping` of the server (PING-002).
    pub(super) fn answer_ping(&mut self, channel: Key, batch: Option<BatchKey>, id: &RequestId) {
        RequestSource { channel, batch, id }.send_result(&mut self.endpoint, 0, |out| {
            out.extend_from_slice(b"{}"); // PING-002
        });
    }

    /// Returns whether the server declared a capability.
    pub(super) fn peer_has(&self, capability: Capability) -> bool {
        self.peer.as_ref().is_some_and(|p| p.has(capability))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.main_channel.and_then(|m| self.endpoint.channels.get(m)).is_none_or(|c| c.closed)
    }

    /// Records that the exchange of a request is not needed any more, although no message says so.
    pub(super) fn expire_request(&mut self, request: Key) {
        if self.uses_exchanges {
            // A binding that never polls must not make the queue grow.
            if self.expired_requests.len() >= self.endpoint.limits.effective_max_pending_calls() {
                self.expired_requests.pop_front();
            }
            let id = crate::calls::outbound::OutboundCalls::wire_id(request);
            self.expired_requests.push_back(RequestId::int(id));
        }
    }

    /// Returns whether the outbox is so full that calls are refused.
    pub(super) fn is_congested(&self) -> bool {
        self.outbox_len() >= self.endpoint.limits.outbox_high_water
    }

    /// Accounts for an answer to the server that was appended; see [`is_stalled`](Self::is_stalled).
    pub(super) fn count_answer(&mut self, before: usize) {
        let Some(outbox) = self.main_channel.and_then(|m| self.endpoint.channels.get(m)).map(|c| &c.outbox)
        else {
            return;
        };
        let (sent, after) = (outbox.consumed(), outbox.len());
        // All answers before were written, so the sum begins again.
        if sent >= self.answers_end {
            self.answer_bytes = 0;
        }
        if after > before {
            self.answer_bytes += after - before;
            self.answers_end = sent.saturating_add(after as u64);
        }
    }

    /// Returns the bytes of answers that were not sent yet, without the requests behind the last one.
    pub(super) fn unread_answer_bytes(&self) -> usize {
        let sent =
            self.main_channel.and_then(|m| self.endpoint.channels.get(m)).map_or(0, |c| c.outbox.consumed());
        let left = usize::try_from(self.answers_end.saturating_sub(sent)).unwrap_or(usize::MAX);
        // Both are upper bounds: `left` includes requests between two answers, `answer_bytes` the part that was
        // written.
        self.answer_bytes.min(left)
    }

    pub(super) fn outbox_len(&self) -> usize {
        self.main_channel.and_then(|m| self.endpoint.channels.get(m)).map_or(0, |c| c.outbox.len())
    }

    /// Returns the channel and the negotiated revision.
    ///
    /// # Errors
    ///
    /// [`UseError::NotReady`] or [`UseError::Closed`].
    pub(super) fn ready_channel(&self) -> Result<(Key, Version), UseError> {
        let main = self.main_channel.ok_or(UseError::NotReady)?;
        if self.is_closed() {
            return Err(UseError::Closed);
        }
        let version = self.peer.as_ref().map(|p| p.version).ok_or(UseError::NotReady)?;
        Ok((main, version))
    }

    /// Checks that this number of further requests can be sent.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`].
    #[inline]
    pub(super) fn check_capacity(&self, requests: usize) -> Result<(), UseError> {
        if self.endpoint.outbound.calls.len() + requests > self.endpoint.limits.effective_max_pending_calls()
        {
            return Err(UseError::Full(Limit::PendingCalls));
        }
        // A full outbox refuses calls and does not stop reading: two endpoints with full buffers would wait for each
        // other (DESIGN-12).
        if self.is_congested() {
            return Err(UseError::Full(Limit::OutboxHighWater));
        }
        Ok(())
    }

    /// Returns whether the connection is ready and modern.
    pub(super) fn is_modern(&self) -> bool {
        self.peer.as_ref().is_some_and(|p| p.era() == Era::Modern)
    }

    pub(super) fn diagnose(&mut self, diagnostic: Diagnostic) {
        self.events.push_back(Event::Diagnostic(diagnostic));
    }

    /// Reports a message that may have been the answer to any request, unless it came in the exchange of one.
    pub(super) fn diagnose_stray(&mut self, diagnostic: Diagnostic, is_in_exchange: bool) {
        if !is_in_exchange {
            self.stray = Some((self.endpoint.now, diagnostic.clone()));
        }
        self.diagnose(diagnostic);
    }

    /// Returns what came since an instant and may have been the answer to a request sent then.
    pub(super) fn stray_since(&self, sent_at: Instant) -> Option<Diagnostic> {
        self.stray.as_ref().filter(|stray| stray.0 >= sent_at).map(|stray| stray.1.clone())
    }

    /// Reports that the server uses a deprecated feature, once for each.
    pub(super) fn report_deprecated(&mut self, feature: DeprecatedFeature) {
        if self.reported_features.insert(feature) {
            self.diagnose(Diagnostic::DeprecatedFeature { feature });
        }
    }

    /// Checks that a call may be sent to this server (LIFE-010, LIFE-011, LIFE-023).
    ///
    /// # Errors
    ///
    /// [`UseError::ReservedMethod`], [`UseError::NotInVersion`] or [`UseError::MissingPeerCapability`].
    #[expect(deprecated, reason = "supported until its removal")]
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

    /// Sends a request of the engine, whose answer the application does not see.
    pub(super) fn send_internal_request<T: Serialize>(
        &mut self,
        main: Key,
        purpose: CallPurpose,
        method: &str,
        params: &T,
    ) -> Result<Key, UseError> {
        let call =
            OutboundCall::new(self.endpoint.now, main, purpose, &CallOptions::new(), &self.endpoint.limits);
        let key = self.endpoint.outbound.calls.insert(call);
        let request = OutboundRequest { method, base_meta: None, meta: None, wants_progress: false };
        if let Err(error) =
            self.endpoint.send_request(key, &request, &mut |out| Serializer::object(out, params, None))
        {
            self.endpoint.outbound.calls.remove(key);
            return Err(error);
        }
        Ok(key)
    }

    /// Returns the original call of a retry, or the call itself.
    pub(super) fn original_call(&self, key: Key) -> Key {
        match self.endpoint.outbound.calls.get(key).map(|c| c.purpose) {
            Some(CallPurpose::Retry(call)) => call,
            _ => key,
        }
    }

    /// Returns the subscription id in `_meta` of a notification (SUB-008).
    pub(super) fn subscription_id(&self, params: &[u8]) -> Option<RequestId> {
        let id = member(member(params, "_meta")?, meta::SUBSCRIPTION_ID)?;
        RequestId::from_json(id, self.endpoint.limits.max_id)
    }

    /// Returns the open request of a notification, by its subscription id.
    pub(super) fn subscription_request(&self, channel: Key, params: &[u8]) -> Option<Key> {
        match self.endpoint.match_response(channel, &self.subscription_id(params)?) {
            ResponseMatch::Live(key) => Some(key),
            _ => None,
        }
    }

    pub(super) fn write_result<T: Serialize + ?Sized>(
        &mut self,
        request: Key,
        result: &T,
        related_task: Option<&TaskId>,
        check: impl FnOnce(TopLevelMembers, &[u8]) -> Result<(), UseError>,
    ) -> Result<(), UseError> {
        let before = self.outbox_len();
        let reserve = self.endpoint.limits.hold_reserve().ok_or(EncodeError::OutOfMemory)?;
        let record = self.endpoint.inbound.calls.get(request).ok_or(UseError::Stale)?;
        let c = self.endpoint.channels.get_mut(record.channel).ok_or(UseError::Stale)?;
        let mark = c.outbox.mark();
        let out = c.outbox.tail();
        rpc::result_head(out, &record.id);
        let start = out.len();
        let written = Serializer::object(out, result, shape::table(record.version)).map_err(UseError::from);
        // The check parses the result, which takes small pieces that it cannot ask for.
        drop(reserve);
        let checked = written.and_then(|members| {
            check(members, out.get(start..).unwrap_or_default())?;
            room(out, MEMBERS_ROOM)?;
            Ok(members)
        });
        match (checked, related_task) {
            (Err(e), _) => {
                // The head of the message was written. Without the rollback the next message would begin inside of it.
                c.outbox.rollback(mark);
                return Err(e);
            }
            (Ok(members), Some(task)) => add_related_task(out, members, task.as_str()),
            (Ok(_), None) => {}
        }
        rpc::end(out);
        self.endpoint.commit_answer(request, mark)?;
        self.count_answer(before);
        Ok(())
    }

    pub(super) fn write_error(&mut self, request: Key, error: &RpcError) -> Result<(), UseError> {
        let before = self.outbox_len();
        let version = self.endpoint.inbound.calls.get(request).ok_or(UseError::Stale)?.version;
        self.endpoint.fail(request, &shape::error_in_revision(error, version)).ok_or(UseError::Stale)?;
        self.count_answer(before);
        Ok(())
    }
}

/// Room for the id of a task, and for the end of a message.
const MEMBERS_ROOM: usize = 128;

/// Returns the members of `_meta` that every modern request carries, at a log level.
pub(super) fn request_meta<'c>(
    config: &'c Config,
    peer: Option<&Peer>,
    log: Option<&'c LogSettings>,
) -> Option<&'c [u8]> {
    let peer = peer.filter(|p| p.era() == Era::Modern)?;
    Some(log.map_or_else(|| config.request_meta(peer.version), LogSettings::request_meta))
}
