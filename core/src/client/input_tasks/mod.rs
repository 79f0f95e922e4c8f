//! Tasks that the client hosts: questions of a server of 2025-11-25 whose answers it collects later (TASK).
//!
//! ```text
//!   elicitation/create ──task──▶ working, the application is asked ──answer───▶ completed ──tasks/result──▶ answer
//!   sampling/createMessage                   │                  └───refusal──▶ failed ─────tasks/result──▶ error
//!                                            └──tasks/cancel, which withdraws the question──▶ cancelled
//! ```
//! The request is answered at once by the task, so nothing of it is in the table of calls. The engine knows the tasks as
//! a trait object, so that a client without them is linked without this code. They end with the connection (DESIGN-50).

#[cfg(feature = "crypto")]
pub(super) mod hosted;
#[cfg(feature = "crypto")]
pub(super) mod limits;
#[cfg(feature = "crypto")]
mod requests;
pub(super) mod support;
#[cfg(all(test, feature = "crypto"))]
mod table_tests;

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use support::InputTaskSupport;

use super::common::CommonState;
use super::tasks::WriteAnswer;
use crate::calls::batch_key::BatchKey;
use crate::error::UseError;
use crate::model::{InputRequest, TaskId};
use crate::raw::RawJson;
use crate::rpc::{RequestId, RpcError};
use crate::slab::Key;

/// The place at which a request of the server is answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestSource<'a> {
    pub(super) channel: Key,
    pub(super) batch: Option<BatchKey>,
    pub(super) id: &'a RequestId,
}

/// A question that becomes a task.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "crypto"), allow(dead_code, reason = "only the table reads it"))]
pub(super) struct HostedQuestion<'a> {
    pub(super) method: &'static str,
    /// Time to live that the server asks for.
    pub(super) ttl: Option<Duration>,
    /// The task of the server that needs the answer (TASK-023).
    pub(super) related_task: Option<&'a TaskId>,
}

/// Tasks that the client hosts; [`hosted::HostedTasks`] has the meanings.
pub(super) trait InputTaskTable: fmt::Debug + Send + Sync {
    /// Creates the task of a question and answers its request. Returns the serial number of the question.
    ///
    /// # Errors
    ///
    /// The error response to send: there are too many tasks.
    fn create(
        &mut self,
        common: &mut CommonState,
        source: RequestSource<'_>,
        question: HostedQuestion<'_>,
    ) -> Result<u64, RpcError>;

    /// Answers a request about tasks, now or later.
    ///
    /// # Errors
    ///
    /// The error response to send.
    fn handle_request(
        &mut self,
        common: &mut CommonState,
        source: RequestSource<'_>,
        method: &str,
        params: Option<&RawJson>,
    ) -> Result<(), RpcError>;

    /// Ends a task with the answer to its question.
    ///
    /// # Errors
    ///
    /// As [`Engine::answer`](super::Engine::answer), and [`UseError::Full`].
    fn answer(
        &mut self,
        common: &mut CommonState,
        question: u64,
        write: WriteAnswer<'_>,
    ) -> Result<(), UseError>;

    /// Ends a task with an error.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`].
    fn refuse(&mut self, common: &mut CommonState, question: u64, error: &RpcError) -> Result<(), UseError>;

    /// Forgets a request that waits for a result. Returns false if it is not one.
    fn release(&mut self, request: Key) -> bool;

    /// Processes the deadlines that have passed.
    fn handle_timeout(&mut self, common: &mut CommonState);

    /// Removes all tasks and withdraws their questions: the connection or the session has ended.
    fn clear(&mut self, common: &mut CommonState);

    /// Returns whether a question about this task of the server is open.
    fn is_open_for(&self, task: &TaskId) -> bool;

    /// Returns the number of questions that are open.
    fn open_questions(&self) -> usize;

    /// Panics if a sum differs from what it sums.
    #[cfg(any(fuzzing, all(test, feature = "crypto")))]
    fn check_sums(&self, common: &CommonState);
}

/// Makes the table of a configuration with hosted tasks.
pub(super) fn new_table(support: &InputTaskSupport) -> Option<Box<dyn InputTaskTable>> {
    Some(*(support.new_table)().downcast::<Box<dyn InputTaskTable>>().ok()?)
}

/// Takes the request to run a question as a task out of its parameters (TASK-008).
///
/// Returns `None` without one, and the requested time to live otherwise.
#[expect(deprecated, reason = "supported until its removal")]
pub(super) fn take_task(request: &mut InputRequest<'static>) -> Option<Option<Duration>> {
    use crate::model::ElicitParams;
    let task = match request {
        InputRequest::CreateMessage(params) => params.task.take(),
        InputRequest::Elicit(ElicitParams::Form(params)) => params.task.take(),
        InputRequest::Elicit(ElicitParams::Url(params)) => params.task.take(),
        _ => None,
    }?;
    Some(task.ttl.map(Duration::from_millis))
}
