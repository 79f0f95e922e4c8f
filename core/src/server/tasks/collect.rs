//! Questions of tasks in 2025-11-25: requests to the client on the stream of a blocked `tasks/result`.

use alloc::vec::Vec;

use super::TaskContext;
use super::entry::Question;
use super::host::{RETRY_DELAY, ServerTasks};
use super::store::{Detail, text_room, write_members, write_with_related_task};
use crate::calls::endpoint::EndpointTimer;
use crate::calls::inbound::InputOutcome;
use crate::calls::outbound::{CallOptions, CallPurpose, OutboundCall, OutboundCalls};
use crate::error::{CallError, UseError};
use crate::identity::Capabilities;
use crate::json::{self, write_str};
use crate::meta;
use crate::methods::{self, Capability};
use crate::model::InputRequest;
use crate::rpc::{self, RequestId};
use crate::server::channel::{cancellation_route, session};
use crate::server::parked::SESSION_SHARE;
use crate::slab::Key;
use crate::version::Version;

impl ServerTasks {
    /// Asks the questions of a task that are not asked yet, if a client waits for its result (TASK-021, TASK-022).
    pub(super) fn ask(&mut self, cx: &mut TaskContext<'_>, task: Key) {
        // Nobody collects the result of a task of 2026-07-28, so it finds no stream below.
        let count = self.table.get(task).map_or(0, |entry| entry.questions().len());
        if count == 0 {
            return;
        }
        let collector = self.reachable_collector(cx, task);
        if collector.is_none() && !self.has_silent_collector(cx, task) {
            return;
        }
        let session = collector.and_then(|(_, root)| session(cx.endpoint, root));
        let capabilities = session.map(|s| Capabilities::read(s.capabilities().as_bytes()));
        // A client that cannot be asked lacks all capabilities for it.
        let capabilities = capabilities.unwrap_or_default();
        // By index, because an answer that is recorded below may end the round.
        for at in 0..count {
            let Some(entry) = self.table.get(task) else { return };
            let Some(question) = entry.questions().get(at) else { return };
            if question.answer.is_some() || question.asked.is_some() {
                continue;
            }
            // The client that collects the result is asked, so its capabilities count.
            let missing = missing_capability(question, entry.version, &capabilities);
            let refusal = missing.map(UseError::MissingPeerCapability);
            if let Some(refusal) = refusal.or_else(|| collector.is_none().then_some(UseError::NotReady)) {
                self.record_answer(cx, task, at, Err(CallError::Refused(refusal)));
                continue;
            }
            let Some((stream, root)) = collector else { return };
            let max_pending = cx.endpoint.limits.effective_max_pending_calls();
            // A session of many: questions that its client leaves unanswered must not block the other sessions.
            let share = (max_pending / SESSION_SHARE).max(cx.endpoint.limits.max_inputs);
            let is_full = cx.endpoint.outbound.calls.len() >= max_pending
                || (root != stream
                    && cx
                        .endpoint
                        .channels
                        .get(root)
                        .is_some_and(|session| session.request_count() >= share))
                || cx
                    .endpoint
                    .channels
                    .get(stream)
                    .is_none_or(|c| c.outbox.len() >= cx.endpoint.limits.outbox_high_water);
            if is_full || !self.send_question(cx, task, at, stream, root) {
                if !self.unasked.contains(&task) {
                    self.unasked.push(task);
                }
                self.retry_at.get_or_insert(cx.endpoint.now + RETRY_DELAY);
                return;
            }
        }
    }

    /// Returns the stream and the session of a request for the result of a task that can carry questions: one that its
    /// client has not left, if there is one.
    fn reachable_collector(&self, cx: &TaskContext<'_>, task: Key) -> Option<(Key, Key)> {
        let collectors = &self.table.get(task)?.peers.as_ref()?.collectors;
        let mut left = None;
        for call in collectors {
            let Some(stream) = cx.endpoint.inbound.calls.get(*call).map(|call| call.channel) else {
                continue;
            };
            let root = cx.endpoint.root_channel(stream);
            let (Some(session), Some(c)) = (session(cx.endpoint, root), cx.endpoint.channels.get(stream))
            else {
                continue;
            };
            if !session.initialized
                || session.is_stateless
                || c.input_end.is_some()
                || c.role.stream.is_unreachable()
            {
                continue;
            }
            if !c.role.stream.is_left() {
                return Some((stream, root));
            }
            // It may be resumed, but a stream that is read now is better.
            left.get_or_insert((stream, root));
        }
        left
    }

    /// Returns whether a client waits for the result that cannot be asked: it has no session, or takes the answer alone.
    fn has_silent_collector(&self, cx: &TaskContext<'_>, task: Key) -> bool {
        let peers = self.table.get(task).and_then(|entry| entry.peers.as_ref());
        peers.is_some_and(|peers| {
            peers.collectors.iter().any(|call| {
                let stream = cx.endpoint.inbound.calls.get(*call).map(|call| call.channel);
                let is_unreachable = stream
                    .and_then(|stream| cx.endpoint.channels.get(stream))
                    .is_some_and(|c| c.role.stream.is_unreachable());
                let root = stream.map(|stream| cx.endpoint.root_channel(stream));
                is_unreachable
                    || root.and_then(|root| session(cx.endpoint, root)).is_some_and(|s| s.is_stateless)
            })
        })
    }

    /// Sends the request that asks a question. Returns false if there is no memory for it.
    fn send_question(
        &mut self,
        cx: &mut TaskContext<'_>,
        task: Key,
        at: usize,
        stream: Key,
        root: Key,
    ) -> bool {
        let Some(entry) = self.table.get_mut(task) else { return false };
        let timeout = cx.endpoint.limits.input_timeout;
        let options = CallOptions::new().timeout(timeout).total_timeout(timeout);
        // The request belongs to the session, so its answer counts also after the stream has ended.
        let limits = cx.endpoint.limits.clone();
        let call = OutboundCall::new(
            cx.endpoint.now,
            root,
            CallPurpose::TaskInput { task, stream },
            &options,
            &limits,
        );
        let deadline = call.deadline();
        let Some(question) = entry.questions().get(at) else { return false };
        let Some(key) = cx.endpoint.begin_request(call) else { return false };
        let is_sent = cx.endpoint.send(stream, question.params.len(), |out| {
            rpc::request_head(out, OutboundCalls::wire_id(key), question.method);
            out.extend_from_slice(b",\"params\":");
            write_with_related_task(out, &question.params, entry); // TASK-023
            rpc::end(out);
        });
        if !is_sent {
            // Nobody would answer it, so it must not wait for its timeout.
            cx.endpoint.end_request(key);
            return false;
        }
        cx.endpoint.deadlines.arm(deadline, EndpointTimer::Outbound(key));
        if let Some(question) = entry.questions_mut().get_mut(at) {
            question.asked = Some(key);
        }
        true
    }

    /// Takes the outcome of a request that asked a question.
    pub(in crate::server) fn take_answer(
        &mut self,
        cx: &mut TaskContext<'_>,
        task: Key,
        request: Key,
        outcome: InputOutcome,
    ) {
        let Some(entry) = self.table.get_mut(task) else { return };
        let Some(at) = entry.questions().iter().position(|question| question.asked == Some(request)) else {
            return;
        };
        // First, because a question that counts as asked is not asked again below.
        if let Some(question) = entry.questions_mut().get_mut(at) {
            question.asked = None;
        }
        match outcome {
            // Its session has ended: the next request for the result gets the question.
            Err(CallError::Closed(_)) => self.ask(cx, task),
            Ok(value) => self.record_answer(cx, task, at, Ok(value.compact())),
            outcome => self.record_answer(cx, task, at, outcome),
        }
    }

    /// Records the answer to a question; the task runs again after the last one.
    pub(super) fn record_answer(
        &mut self,
        cx: &mut TaskContext<'_>,
        task: Key,
        at: usize,
        outcome: InputOutcome,
    ) {
        let now = cx.endpoint.now;
        let is_complete = match self.table.answer(now, task, at, outcome) {
            Ok(is_complete) => is_complete,
            Err(UseError::Full(_)) => {
                // An error takes the place of the answer, because the handler would wait without end.
                let limit = self.table.limits.max_bytes;
                self.table.answer(now, task, at, Err(CallError::TooLarge { limit })).unwrap_or(false)
            }
            Err(_) => false,
        };
        if is_complete {
            self.notify(cx, task);
            self.run_next(cx);
        }
    }

    /// Cancels the requests that ask questions of a task, which are not needed any more.
    pub(super) fn withdraw_questions(&mut self, cx: &mut TaskContext<'_>, task: Key, reason: Option<&str>) {
        for request in self.asked(task, |_| true, cx) {
            // Before the request ends: the cancellation needs its id and its channel.
            self.cancel_question(cx, task, request, reason);
            cx.endpoint.end_request(request);
        }
    }

    /// Cancels a request that asks a question of a task, on a stream that its client reads, if there is one.
    pub(in crate::server) fn cancel_question(
        &self,
        cx: &mut TaskContext<'_>,
        task: Key,
        request: Key,
        reason: Option<&str>,
    ) {
        let Some(call) = cx.endpoint.outbound.calls.get(request) else { return };
        let CallPurpose::TaskInput { stream, .. } = call.purpose else { return };
        let channel = cancellation_route(cx.endpoint, (stream, call.channel));
        let (Some(channel), Some(entry)) = (channel, self.table.get(task)) else { return };
        let mut params = Vec::new();
        rpc::cancelled_params(&mut params, OutboundCalls::wire_id(request), reason);
        cx.endpoint.send(channel, 0, |out| {
            rpc::notification_head(out, methods::CANCELLED);
            out.extend_from_slice(b",\"params\":");
            write_with_related_task(out, &params, entry); // TASK-023
            rpc::end(out);
        });
    }

    /// Takes back the questions that were sent on a stream whose client is gone.
    pub(super) fn take_back_questions(&mut self, cx: &mut TaskContext<'_>, task: Key, stream: Key) {
        for request in self.asked(task, |other| other == stream, cx) {
            self.cancel_question(cx, task, request, Some("the stream of the question has ended"));
            cx.endpoint.end_request(request);
        }
    }

    /// Returns the requests that ask questions of a task on certain streams, and marks the questions as not asked.
    fn asked(&mut self, task: Key, on: impl Fn(Key) -> bool, cx: &TaskContext<'_>) -> Vec<Key> {
        let Some(entry) = self.table.get_mut(task) else { return Vec::new() };
        let is_on = |request: &Key| match cx.endpoint.outbound.calls.get(*request).map(|call| call.purpose) {
            Some(CallPurpose::TaskInput { stream, .. }) => on(stream),
            _ => false,
        };
        let questions = entry.questions_mut().iter_mut();
        questions.filter_map(|q| q.asked.take_if(|request| is_on(request))).collect()
    }
}

/// Returns the most specific capability that a client lacks for a question.
fn missing_capability(
    question: &Question,
    version: Version,
    capabilities: &Capabilities,
) -> Option<Capability> {
    // Questions are kept as text, so the needed capabilities are read from it.
    let text =
        [b"{\"method\":\"", question.method.as_bytes(), b"\",\"params\":", &*question.params, b"}"].concat();
    let needed = json::read::<InputRequest<'_>>(&text)
        .map(|request| request.required_capabilities(version))
        .unwrap_or_default();
    capabilities.missing(&needed).iter().last()
}

// Notifications about tasks: `notifications/tasks` for listeners (TASK-126), `notifications/tasks/status` for the
// session that created a task (TASK-025).

impl ServerTasks {
    /// Tells those who want to know that the state of a task has changed.
    pub(super) fn notify(&mut self, cx: &mut TaskContext<'_>, task: Key) {
        let Some(entry) = self.table.get(task).filter(|entry| entry.status().is_some()) else { return };
        if entry.version >= Version::V2026_07_28 {
            return self.notify_listeners(cx, task);
        }
        let Some(channel) = entry.session else { return };
        let high_water = cx.endpoint.limits.outbox_high_water;
        let can_receive = session(cx.endpoint, channel).is_some_and(|s| s.initialized && !s.is_stateless)
            && cx.endpoint.channels.get(channel).is_some_and(|c| {
                // Clients do not rely on it, so it does not wait for a stream or for room.
                !c.role.stream.has_no_get_stream() && c.outbox.len() < high_water && c.input_end.is_none()
            });
        if can_receive {
            cx.endpoint.send(channel, text_room(entry), |out| {
                rpc::notification_head(out, methods::TASK_STATUS);
                out.extend_from_slice(b",\"params\":{");
                write_members(out, entry, Detail::Bare);
                out.push(b'}');
                rpc::end(out);
            });
        }
    }

    /// Sends the state of a task to its listeners.
    fn notify_listeners(&mut self, cx: &mut TaskContext<'_>, task: Key) {
        for (channel, id) in self.listeners.of_task(task) {
            self.notify_listener(cx, task, channel, id);
        }
    }

    pub(super) fn notify_listener(
        &mut self,
        cx: &mut TaskContext<'_>,
        task: Key,
        channel: Key,
        id: RequestId,
    ) {
        let Some(entry) = self.table.get(task) else { return };
        let high_water = cx.endpoint.limits.outbox_high_water;
        let Some(c) = cx.endpoint.channels.get(channel).filter(|c| !c.closed) else { return };
        let is_full = c.outbox.len() >= high_water;
        let is_sent = !is_full
            && cx.endpoint.send(channel, text_room(entry), |out| {
                rpc::notification_head(out, methods::TASK_CHANGED);
                out.extend_from_slice(b",\"params\":{");
                write_members(out, entry, Detail::Full);
                out.extend_from_slice(b",\"_meta\":{");
                write_str(out, meta::SUBSCRIPTION_ID);
                out.push(b':');
                id.write(out);
                out.extend_from_slice(b"}}");
                rpc::end(out);
            });
        if !is_sent {
            // An earlier time stays, because its timer is armed.
            self.retry_at.get_or_insert(cx.endpoint.now + RETRY_DELAY);
        }
        if let Some(waits) = self.listeners.by_task.get_mut(&(task, channel, id)) {
            *waits = !is_sent;
        }
    }

    /// Sends the notifications that found no room.
    pub(super) fn retry_notifications(&mut self, cx: &mut TaskContext<'_>) {
        let waiting = self.listeners.by_task.iter().filter(|(_, waits)| **waits);
        for (task, channel, id) in waiting.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.notify_listener(cx, task, channel, id);
        }
    }
}
