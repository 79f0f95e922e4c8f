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
//! Notifications about tasks are hints that come earlier than the next poll (TASK-025). The parked calls know the tasks
//! as a trait object, so that a server that never asks for them is linked without this code (DESIGN-50).

pub(super) mod followed;
#[cfg(all(test, feature = "crypto"))]
mod table_tests;

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use super::channel::ServerEndpoint;
use super::route::cancellation_route;
use crate::calls::inbound::InputOutcome;
use crate::calls::outbound::{CallPurpose, CallTask};
use crate::identity::Capabilities;
use crate::methods::{self, Capability};
use crate::raw::RawJson;
use crate::slab::Key;

/// The wish that questions run as tasks.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuestionTasks {
    /// Time to live to ask for; the time that the answer is waited for if there is none.
    pub(super) ttl: Option<Duration>,
    pub(super) new_table: fn() -> Box<dyn FollowedQuestionTable>,
}

/// Tasks of questions; [`followed::FollowedQuestions`] has the meanings.
pub(super) trait FollowedQuestionTable: fmt::Debug + Send + Sync {
    /// Takes the result of a question that was to become a task. Returns the outcome of one that did not.
    fn begin(
        &mut self,
        endpoint: &mut ServerEndpoint,
        question: Key,
        result: RawJson,
    ) -> Option<InputOutcome>;

    /// Takes the outcome of a request about the task of a question. Returns the outcome of the question, if it has one.
    fn receive(
        &mut self,
        endpoint: &mut ServerEndpoint,
        question: Key,
        request: Key,
        outcome: InputOutcome,
    ) -> Option<InputOutcome>;

    /// Does what is due for a question.
    fn handle_deadline(&mut self, endpoint: &mut ServerEndpoint, question: Key);

    /// Ends what was begun for a question that has ended, and its task if that still runs (TASK-028).
    fn end(&mut self, endpoint: &mut ServerEndpoint, question: Key, outcome: &InputOutcome);

    /// Cancels a task that was created for a question which has ended (CANC-009).
    fn cancel_late(&mut self, endpoint: &mut ServerEndpoint, root: Key, result: &RawJson);

    /// Takes a notification about a task. Returns false if no question of the session follows it.
    fn receive_notification(&mut self, endpoint: &mut ServerEndpoint, root: Key, params: &[u8]) -> bool;

    /// Panics if the table does not agree with the requests of the endpoint.
    #[cfg(any(fuzzing, test))]
    fn check_sums(&self, endpoint: &ServerEndpoint);
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

/// Returns whether a client declared that questions of this method may run as tasks (TASK-003).
#[expect(deprecated, reason = "supported until its removal")]
pub(super) fn may_be_task(declared: &Capabilities, method: &str) -> bool {
    match method {
        methods::CREATE_MESSAGE => declared.has(Capability::SamplingTasks),
        methods::ELICIT => declared.has(Capability::ElicitationTasks),
        _ => false,
    }
}
