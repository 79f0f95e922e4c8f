//! Requests that ask questions as tasks of the client, as the engine meets them.

use super::channel::ServerEndpoint;
use super::input_tasks::FollowedQuestionTable;
use super::parked::ParkedCallTable;
use crate::built::{Parking, Part};
use crate::calls::inbound::InputOutcome;
use crate::calls::outbound::{CallPurpose, CallTask};
use crate::raw::RawJson;
use crate::slab::Key;

/// The parked calls of an engine, which have the tasks of their questions.
type Parked = Option<Part<Parking, dyn ParkedCallTable>>;

fn question_tasks(parked: &mut Parked) -> Option<&mut (dyn FollowedQuestionTable + 'static)> {
    parked.as_mut()?.tasks()
}

/// Takes the outcome of an outbound request that may be about the task of a question.
///
/// Returns the request that has ended, with its outcome: itself, the question of the task, or none.
pub(super) fn follow_question(
    parked: &mut Parked,
    endpoint: &mut ServerEndpoint,
    key: Key,
    outcome: InputOutcome,
) -> Option<(Key, InputOutcome)> {
    let Some(request) = endpoint.outbound.calls.get(key) else { return Some((key, outcome)) };
    let may_be_task = request.task == CallTask::Follow && !request.superseded;
    let question = match (request.purpose, &outcome) {
        (CallPurpose::InputTask(question), _) => {
            endpoint.end_request(key);
            endpoint.sweep();
            question
        }
        (CallPurpose::Input(_), Ok(_)) if may_be_task => key,
        _ => return Some((key, outcome)),
    };
    let tasks = question_tasks(parked)?;
    let outcome = match outcome {
        Ok(result) if question == key => tasks.begin(endpoint, question, result),
        outcome => tasks.receive(endpoint, question, key, outcome),
    };
    outcome.map(|outcome| (question, outcome))
}

/// Polls the task of a question if that is what its deadline is for. Returns false if the question has timed out, or
/// follows no task.
pub(super) fn poll_question(parked: &mut Parked, endpoint: &mut ServerEndpoint, key: Key) -> bool {
    let now = endpoint.now;
    let followed = endpoint.outbound.calls.get(key).filter(|request| request.superseded);
    if followed.is_none_or(|request| now >= request.total_deadline) {
        return false;
    }
    if let Some(tasks) = question_tasks(parked) {
        tasks.handle_deadline(endpoint, key);
    }
    true
}

/// Cancels a task that a late response has created.
pub(super) fn cancel_late_question(
    parked: &mut Parked,
    endpoint: &mut ServerEndpoint,
    root: Key,
    result: &RawJson,
) {
    if let Some(tasks) = question_tasks(parked) {
        tasks.cancel_late(endpoint, root, result);
    }
}

/// Takes a notification about a task. Returns false if no question of the session follows it.
pub(super) fn receive_question_status(
    parked: &mut Parked,
    endpoint: &mut ServerEndpoint,
    root: Key,
    params: &[u8],
) -> bool {
    question_tasks(parked).is_some_and(|tasks| tasks.receive_notification(endpoint, root, params))
}
