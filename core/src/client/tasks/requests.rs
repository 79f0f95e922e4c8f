//! Requests about a task: for its state, for its result, with answers, and for its end.

use alloc::vec::Vec;
use core::fmt;

use super::FollowedTasks;
use super::followed::{FollowedTask, TaskListen};
use crate::calls::endpoint::EndpointTimer;
use crate::calls::outbound::{CallOptions, CallPurpose, OutboundCall};
use crate::calls::outbound_requests::OutboundRequest;
use crate::client::common::{CommonState, request_meta};
use crate::error::CallError;
use crate::json::{TopLevelMembers, write_str};
use crate::methods;
use crate::model::TaskId;
use crate::slab::Key;
use crate::tasks::follow::is_transient;
use crate::time::Instant;

impl FollowedTasks {
    /// Requests the state of a task, unless a request is in flight (TASK-018, TASK-111).
    pub(super) fn poll(&mut self, common: &mut CommonState, call: Key) {
        let pace = common.config.polling().pace();
        let Some(followed) = self.tasks.get_mut(&call).filter(|followed| followed.poll.is_none()) else {
            return;
        };
        // Before the poll is sent: a notification from now on may be newer than the answer to it.
        followed.was_notified = false;
        followed.poll = send(common, call, methods::TASKS_GET, &followed.follow.id, |_| {});
        if followed.poll.is_none() {
            followed.follow.postpone(common.endpoint.now, &pace);
        }
    }

    /// Requests the result of a task, which the server holds back until there is one (2025-11-25; TASK-019, TASK-020).
    ///
    /// Before the end of the task it has no timeout. Meanwhile polls go on, so a lost request is noticed.
    pub(super) fn request_result(&mut self, common: &mut CommonState, call: Key) {
        let pace = common.config.polling().pace();
        let Some(followed) = self.tasks.get_mut(&call) else { return };
        let is_terminal = followed.follow.status.is_terminal();
        let request = match followed.result {
            Some(request) => request,
            // One that stays open leaves room for polls.
            None if !is_terminal && !has_room_to_wait(common) => {
                return followed.follow.postpone(common.endpoint.now, &pace);
            }
            None => match send(common, call, methods::TASKS_RESULT, &followed.follow.id, |_| {}) {
                Some(request) => *followed.result.insert(request),
                None => return followed.follow.postpone(common.endpoint.now, &pace),
            },
        };
        let (now, total) = (common.endpoint.now, common.endpoint.limits.call_total_timeout);
        let Some(sent) = common.endpoint.outbound.calls.get_mut(request) else { return };
        if is_terminal {
            // The task has ended, so the answer is due now.
            (sent.idle_deadline, sent.total_deadline) = (now + sent.timeout, now + total);
            common.endpoint.deadlines.arm(sent.deadline(), EndpointTimer::Outbound(request));
        } else {
            // The server holds the answer back until the task ends (TASK-020), so silence is no timeout.
            sent.disable_timeouts();
        }
    }

    /// Sends the answers that the server has not confirmed, unless some are in flight (TASK-117).
    pub(super) fn send_answers(&mut self, common: &mut CommonState, call: Key) {
        let Some(followed) = self.tasks.get_mut(&call).filter(|followed| followed.update.is_none()) else {
            return;
        };
        if !followed.has_unsent_answers() || !has_room(common) {
            // They are sent after the next poll.
            return;
        }
        let mut answers = Vec::new();
        followed.write_answers(&mut answers);
        let FollowedTask { follow, update, .. } = followed;
        *update = send(common, call, methods::TASKS_UPDATE, &follow.id, |out| {
            out.extend_from_slice(b",\"inputResponses\":{");
            out.extend_from_slice(&answers);
            out.push(b'}');
        });
        if update.is_none() {
            // Nothing was sent, so the next poll sends these answers.
            followed.lose_answers();
        }
    }
}

impl FollowedTasks {
    /// Asks for notifications about a task if polls are rare (2026-07-28; TASK-126). Nothing depends on them.
    pub(super) fn listen_if_useful(&mut self, common: &mut CommonState, call: Key) {
        let polling = common.config.polling();
        let wanted = |followed: &&mut FollowedTask| {
            common.is_modern() && followed.should_listen(&polling) && has_room_to_wait(common)
        };
        let Some(followed) = self.tasks.get_mut(&call).filter(wanted) else { return };
        let id = followed.follow.id.clone();
        let request = send_params(common, call, methods::SUBSCRIPTIONS_LISTEN, |out| {
            out.extend_from_slice(b"{\"notifications\":{\"taskIds\":[");
            write_str(out, id.as_str());
            out.extend_from_slice(b"]}}");
        });
        followed.listen = request.map_or(TaskListen::Ended, TaskListen::Open);
    }
}

/// Returns whether a request about a task can be sent. As with retries, there is one for each call at least.
fn has_room(common: &CommonState) -> bool {
    let max = common.endpoint.limits.effective_max_pending_calls();
    common.endpoint.outbound.calls.len() < max.saturating_mul(2) && !common.is_congested()
}

/// Returns whether a request that stays open can be sent, so that room for polls is left.
fn has_room_to_wait(common: &CommonState) -> bool {
    let max = common.endpoint.limits.effective_max_pending_calls();
    common.endpoint.outbound.calls.len() < max.saturating_mul(3) / 2 && !common.is_congested()
}

/// Sends a request with the id of a task. Returns `None` if there is no room.
pub(super) fn send(
    common: &mut CommonState,
    call: Key,
    method: &str,
    id: &TaskId,
    members: impl Fn(&mut Vec<u8>),
) -> Option<Key> {
    send_params(common, call, method, |out| {
        out.extend_from_slice(b"{\"taskId\":");
        write_str(out, id.as_str());
        members(out);
        out.push(b'}');
    })
}

/// Sends a request about the task of a call. Returns `None` if there is no room.
fn send_params(
    common: &mut CommonState,
    call: Key,
    method: &str,
    params: impl Fn(&mut Vec<u8>),
) -> Option<Key> {
    let main = common.main_channel.filter(|_| has_room(common))?;
    let timeout = common.endpoint.outbound.calls.get(call).map(|parked| parked.timeout);
    let options = CallOptions { timeout, ..CallOptions::new() };
    let (now, purpose) = (common.endpoint.now, CallPurpose::Task(call));
    let request = OutboundCall::new(now, main, purpose, &options, &common.endpoint.limits);
    let key = common.endpoint.outbound.calls.insert(request);
    let base_meta = request_meta(&common.config, common.peer.as_ref(), common.log.as_ref());
    let request = OutboundRequest { method, base_meta, meta: None, wants_progress: false };
    let sent = common.endpoint.send_request(key, &request, &mut |out| {
        params(out);
        Ok(TopLevelMembers::default())
    });
    match sent {
        Ok(()) => Some(key),
        Err(_) => {
            common.endpoint.outbound.calls.remove(key);
            None
        }
    }
}

// Tasks that this client cancels: each request is repeated until the server has answered it, within bounds.

/// Owner of a cancellation in the table of calls: no call has this key.
pub(super) const NO_CALL: Key = Key { slot: u32::MAX, generation: 0 };

/// A task to cancel, whose server has not answered yet.
pub(super) struct Cancellation {
    id: TaskId,
    /// `tasks/cancel` in flight.
    request: Option<Key>,
    /// Number of requests that were made.
    attempts: u32,
    /// Time of the next request, if none is in flight.
    next: Instant,
}

impl FollowedTasks {
    /// Cancels a task that no call waits for any more (TASK-028, TASK-122).
    ///
    /// The request has the timeouts of any call. One that fails like a failed poll is repeated with the same pauses, up to
    /// [`TaskPolling::max_failures`](super::TaskPolling::max_failures) times in all. As many tasks as there may be calls are
    /// remembered for this; the request for a further one is sent once.
    pub(super) fn cancel(&mut self, common: &mut CommonState, id: &TaskId) {
        let max = common.endpoint.limits.effective_max_pending_calls();
        let now = common.endpoint.now;
        let mut cancellation = Cancellation { id: id.clone(), request: None, attempts: 0, next: now };
        cancellation.send(common);
        // Beyond the limit a cancellation is sent once and not repeated.
        if self.cancellations.len() < max {
            self.cancellations.push(cancellation);
        }
    }

    /// Handles the answer to `tasks/cancel`. A refusal ends it, too: the task may have ended before.
    pub(super) fn receive_cancelled(
        &mut self,
        common: &mut CommonState,
        request: Key,
        error: Option<CallError>,
    ) {
        let Some(at) = self.cancellations.iter().position(|one| one.request == Some(request)) else { return };
        let polling = common.config.polling();
        let Some(one) = self.cancellations.get_mut(at) else { return };
        if error.is_some_and(|error| is_transient(&error)) && one.attempts < polling.max_failures {
            one.postpone(common);
        } else {
            self.cancellations.swap_remove(at);
        }
    }

    /// Sends the cancellations that are due.
    pub(in crate::client) fn send_due_cancellations(&mut self, common: &mut CommonState) {
        let (now, max) = (common.endpoint.now, common.config.polling().max_failures.max(1));
        self.cancellations.retain_mut(|one| {
            if one.request.is_some() || one.next > now {
                return true;
            }
            if one.attempts >= max {
                return false;
            }
            one.send(common);
            true
        });
    }
}

impl Cancellation {
    /// Sends the request. Without room for it the attempt counts, and is repeated later.
    fn send(&mut self, common: &mut CommonState) {
        self.attempts = self.attempts.saturating_add(1);
        self.request = send(common, NO_CALL, methods::TASKS_CANCEL, &self.id, |_| {});
        if self.request.is_none() {
            self.postpone(common);
        }
    }

    fn postpone(&mut self, common: &mut CommonState) {
        self.request = None;
        self.next = common.endpoint.now + common.config.polling().pace().interval(None, self.attempts);
        common.endpoint.deadlines.arm(self.next, EndpointTimer::Tasks);
    }
}

/// Omits the id.
impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation").field("attempts", &self.attempts).finish_non_exhaustive()
    }
}

/// Cancellations in the order in which they began.
pub(super) type Cancellations = Vec<Cancellation>;
