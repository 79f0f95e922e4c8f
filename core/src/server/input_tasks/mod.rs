//! Questions that run as tasks of the client (2025-11-25; TASK): the server polls and collects the answer.
//!
//! ```text
//!   elicitation/create ──task──▶ followed ──interval──▶ tasks/get ──working──────────▶ followed
//!   sampling/createMessage          ▲                       ├───────terminal─────────▶ tasks/result ──▶ outcome
//!          │                        └──transient failure────┤
//!          └──plain answer──▶ outcome                       └───────lost, cancelled──▶ outcome
//! ```
//! The request stays in the table of calls as *superseded*, with the deadline of the question; its idle deadline is the
//! time of the next poll. Requests about its task are entries of their own, whose answers end nothing by themselves.
//! Notifications about tasks are hints that come earlier than the next poll (TASK-025). The parked calls keep the
//! tasks (DESIGN-50). The feature `tasks` leaves them out of a build.

#[cfg(all(test, feature = "tasks"))]
mod table_tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::ops::ControlFlow;
use core::time::Duration;

use super::channel::{ServerEndpoint, cancellation_route, request_route};
use super::parked::SESSION_SHARE;
use crate::calls::endpoint::EndpointTimer;
use crate::calls::inbound::InputOutcome;
use crate::calls::outbound::{CallOptions, CallPurpose, CallTask, OutboundCall, OutboundCalls};
use crate::error::CallError;
use crate::json::{max_escaped_len, object_members, string, write_str};
use crate::methods;
use crate::model::{Task, TaskId, TaskStatus};
use crate::raw::RawJson;
use crate::rpc;
use crate::slab::Key;
use crate::tasks::MAX_TASK_ID;
use crate::tasks::follow::{Follow, PollPace, cancelled, followers_of, unknown_status};
use crate::time::Instant;

/// The wish that questions run as tasks.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuestionTasks {
    /// Time to live to ask for; the time that the answer is waited for if there is none.
    pub(super) ttl: Option<Duration>,
}

/// Cancels a request. One that was to become a task is not cancelled by a notification, but by the id of its task
/// (CANC-009).
pub(super) fn cancel_question(endpoint: &mut ServerEndpoint, request: Key, reason: Option<&str>) {
    let call = endpoint.outbound.calls.get(request).filter(|call| call.task == CallTask::None);
    let Some((purpose, channel)) = call.map(|call| (call.purpose, call.channel)) else { return };
    let channel = match purpose {
        // A request about a task belongs to the session, and was sent where its question was.
        CallPurpose::InputTask(question) => {
            let stream = endpoint.outbound.calls.get(question).map_or(channel, |question| question.channel);
            cancellation_route(endpoint, (stream, channel))
        }
        _ => Some(channel),
    };
    if let Some(channel) = channel {
        endpoint.send_cancellation_on(channel, request, reason);
    }
}

// The tasks that questions follow.

/// Times between polls (TASK-017).
const PACE: PollPace = PollPace {
    min: Duration::from_millis(100),
    default: Duration::from_secs(1),
    max: Duration::from_secs(60),
    max_failures: 5,
};

/// A question whose task is followed.
struct FollowedQuestion {
    follow: Follow,
    /// The stream on which the question was asked, and its session.
    stream: Key,
    root: Key,
    /// `tasks/get` or `tasks/result` in flight.
    in_flight: Option<(Key, &'static str)>,
    /// A notification has led to a poll: one for each question, so that a client cannot make polls more frequent.
    was_hinted: bool,
}

/// Questions whose tasks are followed, by the keys of their requests; see the [module](self).
///
/// Invariant: `by_id` has an entry for each question. Their number is bounded by
/// [`Limits::max_pending_calls`](crate::Limits::max_pending_calls).
#[derive(Default)]
pub(super) struct FollowedQuestions {
    questions: BTreeMap<Key, FollowedQuestion>,
    by_id: BTreeSet<(TaskId, Key)>,
}

/// Omits ids.
impl fmt::Debug for FollowedQuestions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowedQuestions").field("questions", &self.questions.len()).finish_non_exhaustive()
    }
}

fn invalid(reason: String) -> Option<InputOutcome> {
    Some(Err(CallError::InvalidTask { reason }))
}

impl FollowedQuestions {
    /// Returns the question of a session that follows the task with this id.
    fn find(&self, root: Key, id: &TaskId) -> Option<Key> {
        // Clients choose the ids: two sessions may have equal ones.
        followers_of(&self.by_id, id)
            .find(|key| self.questions.get(key).is_some_and(|question| question.root == root))
    }

    /// Applies a state of a task. Returns the outcome of its question, if there is one now.
    fn apply(&mut self, endpoint: &mut ServerEndpoint, key: Key, task: &Task<'_>) -> Option<InputOutcome> {
        let follow = &mut self.questions.get_mut(&key)?.follow;
        follow.record_state(endpoint.now, task, &PACE);
        // A terminal state never changes, so another one is older (TASK-013).
        if !follow.status.is_terminal() {
            follow.status = task.status.clone();
        }
        match &follow.status {
            TaskStatus::Other(word) => return Some(Err(unknown_status(word))),
            TaskStatus::Cancelled => return Some(Err(cancelled(task))),
            // TASK-021
            TaskStatus::Completed | TaskStatus::Failed | TaskStatus::InputRequired => {
                self.send_about(endpoint, key, methods::TASKS_RESULT);
            }
            TaskStatus::Working => {}
        }
        self.rearm(endpoint, key);
        None
    }

    /// Sends a request about the task of a question. Without room for it, it is sent later.
    fn send_about(&mut self, endpoint: &mut ServerEndpoint, key: Key, method: &'static str) {
        // One request at a time, so that a slow client does not get one after the other.
        let Some(question) = self.questions.get_mut(&key).filter(|question| question.in_flight.is_none())
        else {
            return;
        };
        match send(endpoint, key, (question.stream, question.root), method, &question.follow.id) {
            Some(sent) => {
                question.in_flight = Some((sent, method));
                // The client holds it back until the task has ended; the question has a deadline.
                if method == methods::TASKS_RESULT && !question.follow.status.is_terminal() {
                    if let Some(call) = endpoint.outbound.calls.get_mut(sent) {
                        call.disable_timeouts();
                    }
                }
            }
            None => question.follow.postpone(endpoint.now, &PACE),
        }
    }

    /// Arms the deadline of a question for the next poll.
    fn rearm(&self, endpoint: &mut ServerEndpoint, key: Key) {
        let Some(question) = self.questions.get(&key) else { return };
        let Some(request) = endpoint.outbound.calls.get_mut(key) else { return };
        let is_waiting = question.in_flight.is_some();
        // The request in flight has a deadline of its own. An earlier one here would find nothing to do.
        request.idle_deadline = if is_waiting { Instant::FAR_FUTURE } else { question.follow.next_poll };
        let deadline = request.deadline();
        endpoint.deadlines.arm(deadline, EndpointTimer::Outbound(key));
    }

    /// Takes the result of a question that was to become a task. Returns the outcome of one that did not.
    pub(in crate::server) fn begin(
        &mut self,
        endpoint: &mut ServerEndpoint,
        question: Key,
        result: RawJson,
    ) -> Option<InputOutcome> {
        let task = match Task::from_result(&result) {
            Ok(Some(task)) if task.task_id.as_str().len() > MAX_TASK_ID => {
                return invalid(format!("the id is longer than {MAX_TASK_ID} bytes"));
            }
            Ok(Some(task)) => task.into_owned(),
            Ok(None) => return Some(Ok(result)), // It was answered at once.
            Err(error) => return invalid(format!("{error}")),
        };
        let stream = endpoint.outbound.calls.get(question)?.channel;
        // The id has had its answer, so a second response counts as late.
        endpoint.outbound.calls.supersede(question);
        let followed = FollowedQuestion {
            follow: Follow::new(endpoint.now, task.task_id.clone()),
            stream,
            root: endpoint.root_channel(stream),
            in_flight: None,
            was_hinted: false,
        };
        self.by_id.insert((task.task_id.clone(), question));
        self.questions.insert(question, followed);
        self.apply(endpoint, question, &task)
    }

    /// Takes the outcome of a request about the task of a question. Returns the outcome of the question, if it has one.
    pub(in crate::server) fn receive(
        &mut self,
        endpoint: &mut ServerEndpoint,
        question: Key,
        request: Key,
        outcome: InputOutcome,
    ) -> Option<InputOutcome> {
        let followed = self.questions.get_mut(&question)?;
        // A `tasks/cancel` is not recorded, so its answer ends nothing.
        let (_, method) = followed.in_flight.take_if(|(sent, _)| *sent == request)?;
        let (now, follow) = (endpoint.now, &mut followed.follow);
        let outcome = match method {
            methods::TASKS_RESULT => match follow.receive_result(outcome, &PACE) {
                ControlFlow::Break(outcome) => Some(outcome),
                ControlFlow::Continue(_) => {
                    follow.next_poll = now + PACE.interval(follow.proposed_interval, follow.result_failures);
                    None
                }
            },
            _ => match follow.receive_poll(now, outcome, &PACE) {
                Ok(task) => task.and_then(|task| self.apply(endpoint, question, &task)),
                Err(error) => Some(Err(error)),
            },
        };
        if outcome.is_none() {
            self.rearm(endpoint, question);
        }
        outcome
    }

    /// Does what is due for a question.
    pub(in crate::server) fn handle_deadline(&mut self, endpoint: &mut ServerEndpoint, question: Key) {
        let Some(followed) = self.questions.get(&question) else { return };
        if endpoint.now >= followed.follow.next_poll {
            let is_over = followed.follow.status.is_terminal();
            self.send_about(
                endpoint,
                question,
                if is_over { methods::TASKS_RESULT } else { methods::TASKS_GET },
            );
        }
        self.rearm(endpoint, question);
    }

    /// Ends what was begun for a question that has ended, and its task if that still runs (TASK-028).
    pub(in crate::server) fn end(
        &mut self,
        endpoint: &mut ServerEndpoint,
        question: Key,
        outcome: &InputOutcome,
    ) {
        let Some(followed) = self.questions.remove(&question) else { return };
        self.by_id.remove(&(followed.follow.id.clone(), question));
        let is_closed = matches!(outcome, Err(CallError::Closed(_)));
        if let Some((request, _)) = followed.in_flight {
            let route = request_route(endpoint, (followed.stream, followed.root));
            if let Some(channel) = route.filter(|_| !is_closed) {
                endpoint.send(channel, 0, |out| rpc::cancelled(out, OutboundCalls::wire_id(request), None));
            }
            endpoint.end_request(request);
        }
        if followed.follow.runs_after(outcome) {
            let target = (followed.stream, followed.root);
            send(endpoint, question, target, methods::TASKS_CANCEL, &followed.follow.id);
        }
    }

    /// Cancels a task that was created for a question which has ended (CANC-009).
    pub(in crate::server) fn cancel_late(
        &mut self,
        endpoint: &mut ServerEndpoint,
        root: Key,
        result: &RawJson,
    ) {
        let Ok(Some(task)) = Task::from_result(result) else { return };
        // A second response of a question that follows the task changes nothing.
        if self.find(root, &task.task_id).is_some() {
            return;
        }
        // Late responses are cheap for the client, so they may not use up the requests of others.
        let share = endpoint.limits.effective_max_pending_calls() / SESSION_SHARE;
        let has_room = endpoint.channels.get(root).is_some_and(|session| session.request_count() < share);
        if has_room && task.task_id.as_str().len() <= MAX_TASK_ID && !task.status.is_terminal() {
            // No question has this key, so the answer finds none.
            let none = Key { slot: u32::MAX, generation: 0 };
            send(endpoint, none, (root, root), methods::TASKS_CANCEL, &task.task_id);
        }
    }

    /// Takes a notification about a task. Returns false if no question of the session follows it.
    pub(in crate::server) fn receive_notification(
        &mut self,
        endpoint: &mut ServerEndpoint,
        root: Key,
        params: &[u8],
    ) -> bool {
        let (mut id, mut is_over) = (None, false);
        object_members(params, |name, value| match name {
            b"taskId" => id = string(value).map(TaskId::from),
            b"status" => {
                is_over = matches!(value, b"\"completed\"" | b"\"failed\"" | b"\"cancelled\"");
            }
            _ => {}
        });
        let Some(id) = id else { return false };
        let Some(key) = self.find(root, &id) else { return false };
        let hinted = self.questions.get_mut(&key).filter(|question| is_over && !question.was_hinted);
        // The state of a task that is known to have ended needs no poll.
        if let Some(question) = hinted.filter(|question| !question.follow.status.is_terminal()) {
            // While a request is in flight it changes nothing, because the next poll is near.
            question.was_hinted = question.in_flight.is_none();
            if question.was_hinted {
                self.send_about(endpoint, key, methods::TASKS_GET);
                self.rearm(endpoint, key);
            }
        }
        true
    }

    /// Panics if the table does not agree with the requests of the endpoint.
    #[cfg(any(debug_assertions, test))]
    pub(in crate::server) fn check_sums(&self, endpoint: &ServerEndpoint) {
        let ids = self.questions.iter().map(|(key, question)| (question.follow.id.clone(), *key));
        assert_eq!(self.by_id, ids.collect());
        for (key, question) in &self.questions {
            let request = endpoint.outbound.calls.get(*key);
            assert!(request.is_some_and(OutboundCall::is_superseded), "a question has ended");
            if let Some((sent, _)) = question.in_flight {
                let purpose = endpoint.outbound.calls.get(sent).map(|request| request.purpose);
                assert_eq!(purpose, Some(CallPurpose::InputTask(*key)), "a request about a task has ended");
            }
        }
    }
}

/// Sends a request about a task. Returns `None` if there is no room, no memory or no way.
///
/// It belongs to the session, so its answer counts also after the stream has ended.
fn send(
    endpoint: &mut ServerEndpoint,
    question: Key,
    target: (Key, Key),
    method: &'static str,
    id: &TaskId,
) -> Option<Key> {
    // As for the retries of a client, there is room for one request for each question.
    let max = endpoint.limits.effective_max_pending_calls().saturating_mul(2);
    if endpoint.outbound.calls.len() >= max {
        return None;
    }
    let channel = request_route(endpoint, target)?;
    let (now, purpose) = (endpoint.now, CallPurpose::InputTask(question));
    let call = OutboundCall::new(now, target.1, purpose, &CallOptions::new(), &endpoint.limits);
    let deadline = call.deadline();
    let key = endpoint.begin_request(call)?;
    let is_sent = endpoint.send(channel, max_escaped_len(id.as_str().len()), |out| {
        rpc::request_head(out, OutboundCalls::wire_id(key), method);
        out.extend_from_slice(b",\"params\":{\"taskId\":");
        write_str(out, id.as_str());
        out.push(b'}');
        rpc::end(out);
    });
    if !is_sent {
        // Nobody would answer it, so it must not wait for its timeout.
        endpoint.end_request(key);
        return None;
    }
    endpoint.deadlines.arm(deadline, EndpointTimer::Outbound(key));
    Some(key)
}
