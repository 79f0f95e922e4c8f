//! Calls and requests from sending to their end: queue, retention, rounds, input requests, outcomes.
//!
//! Their deadlines are in the shared heap, because each call has one in every state.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use serde::Serialize;

use super::common::{CommonState, request_meta};
use super::event::Event;
use super::input::{self, Input, InputId, InputSource, LegacyInputs, UrlElicitations};
use super::input_tasks::hosted::HostedTasks;
use super::rounds::{RoundDeadline, Rounds};
use super::task_calls::{TaskUse, task_role};
use super::tasks::FollowedTasks;
use crate::built::{Part, Tasking};
use crate::calls::endpoint::EndpointTimer;
use crate::calls::inbound::CallId;
use crate::calls::observing::observe_outcome;
use crate::calls::outbound::{
    CallKey, CallOptions, CallPurpose, CallSlab, CallStage, OutboundCall, QueuedCall,
};
use crate::calls::outbound_requests::{OutboundRequest, VersionedParams, WriteForm, split_retained};
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, UseError};
use crate::json::{OBJECT_MARKER, TopLevelMembers, member, string};
use crate::limits::Limit;
use crate::model::{ElicitParams, ElicitUrlParams, InputRequest, TaskId};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::slab::Key;
use crate::slab::list::List;
use crate::version::Version;
use crate::{methods, shape};

/// Calls of the application, and input requests; see the [module](self).
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Calls that are queued until the connection is ready.
    queue: CallQueue,
    /// Input requests of the server; most clients never have any, and an idle one has room for a pointer alone.
    inputs: Option<Box<InputState>>,
    /// Tasks that calls follow.
    pub(super) tasks: Part<Tasking, FollowedTasks>,
    /// Tasks that the client hosts.
    pub(super) input_tasks: Part<Tasking, HostedTasks>,
}

/// Input requests in both eras.
#[derive(Debug, Default)]
struct InputState {
    rounds: Rounds,
    legacy: LegacyInputs,
    url_elicitations: UrlElicitations,
}

impl InputState {
    /// Returns whether there is nothing to keep.
    fn is_empty(&self) -> bool {
        self.rounds.is_empty() && self.legacy.is_empty() && self.url_elicitations.is_empty()
    }
}

impl Calls {
    /// Sends a call, or queues it until the connection is ready.
    ///
    /// # Errors
    ///
    /// As [`Engine::call`](super::Engine::call).
    pub(super) fn call(
        &mut self,
        common: &mut CommonState,
        main: Key,
        method: &str,
        params: &WriteForm<'_>,
        options: &CallOptions,
        task: TaskUse,
    ) -> Result<CallKey, UseError> {
        let mut call = OutboundCall::new(
            common.endpoint.now,
            main,
            CallPurpose::Application,
            options,
            &common.endpoint.limits,
        );
        if common.peer.is_none() {
            // Its revision is not known yet.
            let params = VersionedParams::encode(params, common.config.effective_versions())?;
            let total_timeout = options.total_timeout.unwrap_or(common.endpoint.limits.call_total_timeout);
            let task = match task {
                TaskUse::Request(request) => Some(request),
                TaskUse::Default => None,
            };
            let meta = options.meta.clone();
            let queued = QueuedCall { method: Cow::Owned(method.into()), params, meta, task, total_timeout };
            return self.queue_call(common, call, queued);
        }
        common.check_permitted(method)?;
        if let Some(inputs) = self.inputs.as_ref().filter(|_| !call.has_explicit_total) {
            // The time that has passed before this call is added again in the check of its deadline.
            call.total_deadline = call.total_deadline - inputs.legacy.total_wait(common.endpoint.now);
        }
        let base_meta = request_meta(&common.config, common.peer.as_ref(), common.log.as_ref());
        let request = OutboundRequest {
            method,
            base_meta,
            meta: options.meta.as_ref(),
            wants_progress: options.wants_progress,
        };
        let table = common.peer.as_ref().and_then(|p| shape::table(p.version));
        let (role, request_for_task) = task_role(common, method, task);
        call.task = role;
        // The entry comes first, because its key is the id on the wire. A request that cannot be written removes it
        // again.
        let key = common.endpoint.outbound.calls.insert(call);
        let mut write = |out: &mut Vec<u8>| {
            let members = params(out, table)?;
            if let Some(request) = request_for_task {
                request.append_to(out);
            }
            // The one method whose own parameter has the name of a member of the engine.
            let is_update = method == methods::TASKS_UPDATE;
            Ok(if is_update { members.without(TopLevelMembers::INPUT_RESPONSES) } else { members })
        };
        match common.endpoint.send_request_range(key, &request, &mut write) {
            Err(e) => {
                common.endpoint.outbound.calls.remove(key);
                return Err(e);
            }
            Ok(written) => self.retain_call(common, key, method, written, options.meta.as_ref()),
        }
        Ok(CallKey(key))
    }

    /// Queues a call until the connection is ready.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`].
    fn queue_call(
        &mut self,
        common: &mut CommonState,
        mut call: OutboundCall,
        queued: QueuedCall,
    ) -> Result<CallKey, UseError> {
        let cost = queued.cost();
        if self.queue.bytes().saturating_add(cost) > common.endpoint.limits.max_queued_bytes {
            return Err(UseError::Full(Limit::QueuedBytes));
        }
        call.stage = CallStage::Queued(Box::new(queued));
        let key = common.endpoint.outbound.calls.insert(call);
        self.queue.push(&mut common.endpoint.outbound.calls, key, cost);
        Ok(CallKey(key))
    }

    /// Returns the state of input requests and repeated calls. It is made now if there is none.
    fn inputs_mut(&mut self) -> &mut InputState {
        self.inputs.get_or_insert_default()
    }

    /// Frees what holds nothing.
    pub(super) fn trim(&mut self, common: &CommonState) {
        // Deadlines of open calls depend on the times in `inputs`.
        let no_calls = common.endpoint.outbound.calls.is_empty();
        self.inputs.take_if(|inputs| no_calls && inputs.is_empty());
        if self.tasks.as_ref().is_some_and(FollowedTasks::is_empty) {
            self.tasks = Part::NONE;
        }
    }

    /// Drops the queue of a connection that is closed, and the tasks that were to be cancelled.
    pub(super) fn drop_queue(&mut self) {
        self.queue = CallQueue::default();
        self.tasks = Part::NONE;
    }

    /// Retains what is needed to repeat a call, if the server may ask for input or the answer may be lost.
    fn retain_call(
        &mut self,
        common: &mut CommonState,
        key: Key,
        method: &str,
        written: Range<usize>,
        meta: Option<&RawJson>,
    ) {
        let may_resend =
            || common.uses_exchanges && common.endpoint.outbound.calls.get(key).is_some_and(|c| c.idempotent);
        // The method is stored up to the next quote, so it must not contain escapes.
        let is_plain = || method.bytes().all(|b| b >= b' ' && !matches!(b, b'"' | b'\\'));
        if (common.is_modern() && methods::may_need_input(method)) || (may_resend() && is_plain()) {
            let bytes = common.endpoint.retain_request(key, method, written, meta);
            common.retained_bytes += bytes;
        }
    }

    /// Sends the queued calls when the connection is ready.
    pub(super) fn flush_queue(&mut self, common: &mut CommonState) {
        // The queue is emptied at once, with its bytes: each call is now either sent or finished.
        for key in core::mem::take(&mut self.queue).keys(&common.endpoint.outbound.calls) {
            let now = common.endpoint.now;
            let Some(call) = common.endpoint.outbound.calls.get_mut(key) else { continue };
            let Some(queued) = call.take_queued() else { continue };
            call.restart_timeouts(now, queued.total_timeout);
            let progress = call.wants_progress();
            let Some(version) = common.peer.as_ref().map(|p| p.version) else { continue };
            let wanted = queued.task.map_or(TaskUse::Default, TaskUse::Request);
            let (role, request_for_task) = task_role(common, &queued.method, wanted);
            if let Some(call) = common.endpoint.outbound.calls.get_mut(key) {
                call.task = role;
            }
            // The capabilities of the server were unknown when the call was queued, so they are checked here.
            let written = common.check_permitted(&queued.method).and_then(|()| {
                // No log level can have been set: that needs a connection that is ready.
                let base_meta = request_meta(&common.config, common.peer.as_ref(), None);
                let request = OutboundRequest {
                    method: &queued.method,
                    base_meta,
                    meta: queued.meta.as_ref(),
                    wants_progress: progress,
                };
                let params = queued.params.for_version(version)?;
                common.endpoint.send_request_range(key, &request, &mut |out| {
                    out.extend_from_slice(params);
                    if let Some(request) = request_for_task {
                        request.append_to(out);
                    }
                    Ok(TopLevelMembers::default())
                })
            });
            match written {
                Err(e) => self.finish(common, key, Err(CallError::Refused(e))),
                Ok(written) => self.retain_call(common, key, &queued.method, written, queued.meta.as_ref()),
            }
        }
    }

    /// Ends a call that the server may still process.
    pub(super) fn abandon(
        &mut self,
        common: &mut CommonState,
        key: Key,
        reason: Option<&str>,
        mut outcome: CallError,
    ) {
        if let (CallError::TimedOut | CallError::TotalTimedOut, Some(call)) =
            (&outcome, common.endpoint.outbound.calls.get(key))
        {
            // The answer may have come without a usable id; that explains the silence better than a timeout.
            if let Some(stray) = common.stray_since(call.last_active_at()) {
                outcome = CallError::Misaddressed(stray.into());
            }
        }
        let queued = common.endpoint.outbound.calls.get_mut(key).and_then(OutboundCall::take_queued);
        if let Some(queued) = queued {
            // It was never sent, so there is nothing to cancel.
            self.queue.remove(&mut common.endpoint.outbound.calls, key, queued.cost());
        } else if self.end_before_task(common, key, &outcome) {
            return;
        } else if let Some(sent) = self.wire_key(key).filter(|_| !self.is_answered_by_task(common, key)) {
            // A call between two rounds is not in flight, and a task is cancelled by its id (CANC-009). Neither comes
            // here.
            common.endpoint.send_cancellation(sent, reason);
        }
        self.finish(common, key, Err(outcome));
    }

    pub(super) fn finish(&mut self, common: &mut CommonState, key: Key, outcome: Result<RawJson, CallError>) {
        observe_outcome(&mut common.endpoint, key, outcome.as_ref());
        if let Some(call) = common.endpoint.outbound.calls.remove(key) {
            let is_superseded = call.is_superseded();
            common.retained_bytes = common.retained_bytes.saturating_sub(call.retained.len());
            // Whatever continued the call ends with it.
            if is_superseded {
                if let Some(inputs) = &mut self.inputs {
                    inputs.rounds.end(common, key);
                }
                if let Some(tasks) = self.tasks.as_mut() {
                    tasks.end(common, key, &outcome);
                }
            }
            common.endpoint.sweep();
            common.events.push_back(Event::Done { call: CallKey(key), outcome, retried: is_superseded });
        }
    }

    /// Ends a call that could not be sent again.
    fn finish_failed(&mut self, common: &mut CommonState, call: Key, sent: Result<(), CallError>) {
        if let Err(error) = sent {
            self.finish(common, call, Err(error));
        }
    }

    // ---- input requests ----

    /// Returns whether an outbound request may be answered by `input_required` (MRTR-003).
    pub(super) fn may_need_input(&self, common: &CommonState, key: Key) -> bool {
        let call = common.endpoint.outbound.calls.get(common.original_call(key));
        call.is_some_and(|call| methods::may_need_input(split_retained(&call.retained).0))
    }

    /// Handles `input_required` for a call or its retry.
    pub(super) fn receive_input_required(&mut self, common: &mut CommonState, key: Key, result: &RawJson) {
        let call = self.finish_retry(common, key);
        let inputs = self.inputs_mut();
        let begun = inputs.rounds.begin(common, call, result);
        self.finish_failed(common, call, begun);
    }

    /// Removes a retry from the table. Returns the original call.
    pub(super) fn finish_retry(&mut self, common: &mut CommonState, key: Key) -> Key {
        let call = common.original_call(key);
        if call != key {
            common.endpoint.outbound.calls.remove(key);
        }
        call
    }

    /// Ends the rounds of a call that becomes a task (TASK-110).
    pub(super) fn end_rounds(&mut self, common: &mut CommonState, call: Key) {
        if let Some(inputs) = &mut self.inputs {
            inputs.rounds.end(common, call);
        }
    }

    /// Returns the entry under which a call is in flight, if it is.
    fn wire_key(&self, call: Key) -> Option<Key> {
        self.inputs.as_ref().map_or(Some(call), |inputs| inputs.rounds.wire_key(call))
    }

    /// Handles a deadline of a call that is in a round.
    pub(super) fn handle_round_deadline(&mut self, common: &mut CommonState, call: Key) {
        let now = common.endpoint.now;
        let Some(parked) = common.endpoint.outbound.calls.get(call) else { return };
        // A call that follows a task has the deadlines of the task.
        if self.tasks.as_ref().is_some_and(|tasks| tasks.is_followed(call)) {
            return self.handle_task_deadline(common, call);
        }
        let Some(inputs) = &mut self.inputs else { return };
        // A legacy server may wait for input while a call was sent a second time.
        let extension =
            if parked.has_explicit_total { Duration::ZERO } else { inputs.legacy.total_wait(now) };
        let total_at = parked.total_deadline + extension;
        if now >= total_at {
            return self.abandon(common, call, Some("no answer in time"), CallError::TotalTimedOut);
        }
        // It was extended meanwhile, and the timer still had the time before.
        if now >= parked.total_deadline {
            return common.endpoint.deadlines.arm(total_at, EndpointTimer::Outbound(call));
        }
        match inputs.rounds.deadline_passed(call) {
            RoundDeadline::Retry => {
                let sent = inputs.rounds.send_retry(common, call);
                self.finish_failed(common, call, sent);
            }
            RoundDeadline::InputTimedOut => self.finish(common, call, Err(CallError::InputTimedOut)),
            RoundDeadline::None => {}
        }
    }

    /// Handles the timeout of a call.
    pub(super) fn handle_call_timeout(&mut self, common: &mut CommonState, key: Key) {
        let now = common.endpoint.now;
        let Some(call) = common.endpoint.outbound.calls.get(key) else { return };
        let end = match &self.inputs {
            Some(inputs) => inputs.legacy.check_deadline(now, call),
            None => call.timeout_error(now).ok_or_else(|| call.deadline()),
        };
        match end {
            // TIME-002, TIME-003
            // A retry that runs out of time ends the call of the application.
            Ok(outcome) => {
                self.abandon(common, common.original_call(key), Some("no answer in time"), outcome)
            }
            Err(at) => common.endpoint.deadlines.arm(at, EndpointTimer::Outbound(key)),
        }
    }

    /// Records the end of a request of the server; returns false if it was not an input request.
    pub(super) fn end_input_request(&mut self, common: &mut CommonState, key: Key) -> bool {
        let now = common.endpoint.now;
        self.inputs.as_mut().is_some_and(|inputs| inputs.legacy.end(now, key))
    }

    /// Reports the end of a request of the server.
    pub(super) fn end_server_request(&mut self, common: &mut CommonState, key: Key) {
        if self.release_task_request(key) {
            return;
        }
        if self.end_input_request(common, key) {
            common.events.withdraw_input(InputId(InputSource::Request(key)));
        } else {
            common.events.push_back(Event::RequestCancelled(CallId(key)));
        }
    }

    /// Remembers the ids of elicitations by URL, up to `max_inputs` (2025-11-25).
    pub(super) fn remember_elicitations(&mut self, common: &mut CommonState, pages: &[ElicitUrlParams]) {
        if common.peer.as_ref().is_none_or(|p| p.version != Version::V2025_11_25) {
            return;
        }
        let limits = &common.endpoint.limits;
        for id in pages.iter().filter_map(|page| page.elicitation_id.as_deref()) {
            // The peer chooses the id, and `max_inputs` bounds only the number of ids.
            if id.len() <= limits.max_id {
                let inputs = self.inputs_mut();
                inputs.url_elicitations.remember(id, limits.max_inputs);
            }
        }
    }

    /// Records an input request of a legacy server and reports it.
    pub(super) fn receive_input_request(
        &mut self,
        common: &mut CommonState,
        source: InputSource,
        request: Box<InputRequest<'static>>,
        related_task: Option<TaskId>,
    ) {
        input::report_deprecated(common, &request);
        let method = request.method().unwrap_or_default();
        let now = common.endpoint.now;
        let call = related_task.as_ref().and_then(|id| self.tasks.as_ref()?.call_of(id));
        match source {
            InputSource::Request(key) => {
                // Counted before the question is open: an open question of the same task would make this one part of
                // its round.
                if let Err(error) = self.count_round(common, related_task.as_ref()) {
                    common.endpoint.fail(key, &error);
                    return;
                }
                self.inputs_mut().legacy.begin(now, key, method, related_task);
            }
            _ => self.count_hosted(common),
        }
        let call = call.map(CallKey);
        if let InputRequest::Elicit(ElicitParams::Url(page)) = &*request {
            self.remember_elicitations(common, core::slice::from_ref(page));
        }
        let id = InputId(source);
        common.events.push_back(Event::Input(Input { id, call, key: None, request }));
    }

    /// Counts the round of a question about a task that a call follows. Questions at the same time are one round.
    ///
    /// # Errors
    ///
    /// The error response to send: the call has had too many rounds, and was ended.
    pub(super) fn count_round(
        &mut self,
        common: &mut CommonState,
        related_task: Option<&TaskId>,
    ) -> Result<(), RpcError> {
        let (Some(tasks), Some(task)) = (self.tasks.as_mut(), related_task) else { return Ok(()) };
        let Some(call) = tasks.call_of(task) else { return Ok(()) };
        let is_open = self.inputs.as_ref().is_some_and(|inputs| inputs.legacy.is_open_for(Some(task)))
            || self.input_tasks.as_ref().is_some_and(|hosted| hosted.is_open_for(task));
        if let Err(error) = tasks.count_question(common, call, !is_open) {
            self.finish(common, call, Err(error));
            return Err(RpcError::internal("too many input requests"));
        }
        Ok(())
    }

    /// Sets the number of open questions of hosted tasks.
    pub(super) fn set_hosted_questions(&mut self, common: &CommonState, open: usize) {
        // A client that hosts no tasks needs no state for their number.
        if open > 0 || self.inputs.is_some() {
            self.inputs_mut().legacy.set_hosted(common.endpoint.now, open);
        }
    }

    /// Handles progress of a call in any round. Values must increase across rounds.
    pub(super) fn receive_progress(common: &mut CommonState, key: Key, progress: crate::Progress) {
        let call = common.original_call(key);
        if call != key {
            match common.endpoint.outbound.calls.get_mut(call) {
                Some(parked) if progress.progress > parked.last_progress => {
                    parked.last_progress = progress.progress
                }
                _ => return,
            }
        }
        common.events.push_progress(CallKey(call), progress);
    }

    /// Handles the completion of an elicitation. An unknown or completed one is ignored (ELIC-027).
    pub(super) fn receive_elicitation_complete(&mut self, common: &mut CommonState, params: &[u8]) {
        let method = methods::ELICITATION_COMPLETE;
        let Some(id) = member(params, "elicitationId").and_then(string) else {
            return common.diagnose(Diagnostic::InvalidNotification(method.into()));
        };
        let inputs = self.inputs.as_mut();
        match inputs.and_then(|inputs| inputs.url_elicitations.take(&id)) {
            Some(id) => common.events.push_back(Event::ElicitationComplete(id)),
            None => common.diagnose(Diagnostic::UnsolicitedNotification(method.into())),
        }
    }

    /// Returns the method of an open input request of a legacy server, and the task that it belongs to.
    pub(super) fn legacy_input(&self, key: Key) -> Option<(&'static str, Option<&TaskId>)> {
        let legacy = &self.inputs.as_ref()?.legacy;
        Some((legacy.method(key)?, legacy.related_task(key)))
    }

    /// Records an input response for a round, which may be the last one.
    ///
    /// # Errors
    ///
    /// As [`Engine::answer`](super::Engine::answer).
    pub(super) fn answer_round<T: Serialize + ?Sized>(
        &mut self,
        common: &mut CommonState,
        call: Key,
        number: u64,
        response: &T,
    ) -> Result<(), UseError> {
        let inputs = self.inputs.as_mut().ok_or(UseError::Stale)?;
        if inputs.rounds.answer(common, call, number, response)? {
            let sent = inputs.rounds.send_retry(common, call);
            self.finish_failed(common, call, sent);
        }
        Ok(())
    }

    /// Ends the call of an input request that the application refuses.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the input request has ended.
    pub(super) fn refuse_round(
        &mut self,
        common: &mut CommonState,
        call: Key,
        number: u64,
        error: &RpcError,
    ) -> Result<(), UseError> {
        let inputs = self.inputs.as_mut().ok_or(UseError::Stale)?;
        inputs.rounds.take_refused(call, number).ok_or(UseError::Stale)?;
        self.finish(common, call, Err(CallError::InputRefused(error.clone())));
        Ok(())
    }

    /// Sends a call again whose answer was lost. Returns the retry, if there is one.
    pub(super) fn resend_lost(&mut self, common: &mut CommonState, key: Key) -> Option<Key> {
        let call = common.original_call(key);
        match self.inputs_mut().rounds.resend_lost(common, key) {
            Ok(retry) => retry,
            Err(error) => {
                self.finish(common, call, Err(error));
                None
            }
        }
    }
}

// The parameters of `tools/call`, written from borrowed arguments.

/// Parameters of `tools/call`.
#[derive(Serialize)]
pub(super) struct ToolCallParams<'a, T: ?Sized> {
    name: &'a str,
    arguments: ToolArguments<'a, T>,
}

struct ToolArguments<'a, T: ?Sized>(&'a T);

impl<T: Serialize + ?Sized> Serialize for ToolArguments<'_, T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(OBJECT_MARKER, self.0)
    }
}

impl<'a, T: ?Sized> ToolCallParams<'a, T> {
    pub(super) const fn new(name: &'a str, arguments: &'a T) -> Self {
        Self { name, arguments: ToolArguments(arguments) }
    }
}

// Calls that are queued until the era is known, and the bytes that are charged for them.

/// Queued calls, oldest first.
///
/// Invariant: `bytes` is the sum of the costs of the calls that were not removed. Calls expire by their own deadlines,
/// which are in the shared heap with those of sent calls.
#[derive(Debug, Default)]
pub(super) struct CallQueue {
    calls: List,
    bytes: usize,
}

impl CallQueue {
    /// Returns the bytes that are charged for the calls.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a call that is in no list.
    pub(super) fn push(&mut self, calls: &mut CallSlab, call: Key, cost: usize) {
        calls.push_to(&mut self.calls, call);
        self.bytes = self.bytes.saturating_add(cost);
    }

    /// Removes a call that is queued.
    pub(super) fn remove(&mut self, calls: &mut CallSlab, call: Key, cost: usize) {
        calls.take_from(&mut self.calls, call);
        self.bytes = self.bytes.saturating_sub(cost);
    }

    /// Returns the calls from the oldest to the newest.
    pub(super) fn keys(&self, calls: &CallSlab) -> Vec<Key> {
        calls.keys_of(&self.calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::outbound::{CallOptions, CallPurpose, OutboundCall};
    use crate::limits::Limits;
    use crate::time::Instant;

    #[test]
    fn bytes_are_those_of_the_remaining_calls_in_order() {
        let (mut calls, mut queue) = (CallSlab::default(), CallQueue::default());
        let channel = Key { slot: 0, generation: 0 };
        let keys = [10, 11, 12, 13].map(|cost| {
            let options = CallOptions::new();
            let purpose = CallPurpose::Application;
            let call = OutboundCall::new(Instant::ZERO, channel, purpose, &options, &Limits::default());
            let key = calls.insert(call);
            queue.push(&mut calls, key, cost);
            key
        });
        queue.remove(&mut calls, keys[2], 12);
        assert_eq!(queue.bytes(), 10 + 11 + 13);
        assert_eq!(queue.keys(&calls), [keys[0], keys[1], keys[3]]);
    }
}
