//! Tasks that the client hosts: questions of a server of 2025-11-25 whose answers it collects later (TASK).
//!
//! ```text
//!   elicitation/create ──task──▶ working, the application is asked ──answer───▶ completed ──tasks/result──▶ answer
//!   sampling/createMessage                   │                  └───refusal──▶ failed ─────tasks/result──▶ error
//!                                            └──tasks/cancel, which withdraws the question──▶ cancelled
//! ```
//! The request is answered at once by the task, so nothing of it is in the table of calls. The tasks end
//! with the connection (DESIGN-50). The feature `tasks` leaves them out of a build.

pub(super) mod hosted;
#[cfg(all(test, feature = "tasks"))]
mod table_tests;

use core::time::Duration;

use serde::Serialize;

use super::calls::Calls;
use super::common::CommonState;
use super::config::Config;
use crate::calls::inbound::RequestSource;
use crate::error::UseError;
use crate::json::Serializer;
use crate::methods::{self, Capability};
use crate::model::{InputRequest, TaskId};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::slab::Key;
use crate::sync::Arc;
use crate::tasks::may_be_task;
use crate::version::Version;
use hosted::{HostedTasks, InputTasks};

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

// The part of a configuration for tasks that the client hosts.

// Questions of a server that run as tasks of the client, and requests about them.

/// # Tasks of questions
impl Config {
    /// Lets a server of 2025-11-25 run its questions as tasks, whose answers it collects later.
    ///
    /// Elicitation and sampling can be tasks, as far as the [`capabilities`](Self::capabilities) declare them; `tasks` is
    /// declared beside them (TASK-001, TASK-002). The application sees the same events and answers as usual: the server
    /// alone decides. The tasks end with the connection or the session. By default the client has none.
    #[cfg(feature = "tasks")]
    #[must_use]
    pub fn input_tasks(mut self, tasks: InputTasks) -> Self {
        self.input_tasks = Some(tasks);
        self.declare_input_tasks()
    }

    /// Returns whether questions of servers may run as tasks.
    #[must_use]
    pub const fn has_input_tasks(&self) -> bool {
        self.input_tasks.is_some()
    }

    /// Declares the tasks that the client can host, depending on its other capabilities.
    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn declare_input_tasks(mut self) -> Self {
        let capabilities = Arc::make_mut(&mut self.settings.capabilities);
        let rows = [
            (Capability::Sampling, Capability::SamplingTasks),
            (Capability::Elicitation, Capability::ElicitationTasks),
        ];
        for (question, task) in rows {
            if capabilities.has(question) {
                let all = [task, Capability::TaskList, Capability::TaskCancellation];
                *capabilities = all.into_iter().fold(core::mem::take(capabilities), |all, one| all.with(one));
            }
        }
        self
    }
}

impl Calls {
    /// Returns the table of hosted tasks if the configuration has them. It is made now if there is none.
    fn hosted(&mut self, common: &CommonState) -> Option<&mut HostedTasks> {
        let settings = common.config.input_tasks.as_ref()?;
        self.input_tasks.get_or_make(|| HostedTasks::new(settings))
    }

    /// Makes a question a task if the server asks for one and the client declared it (TASK-009, TASK-010).
    ///
    /// Returns the serial number of the question, or `None` for a question without a task.
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn host_question(
        &mut self,
        common: &mut CommonState,
        source: RequestSource<'_>,
        version: Version,
        request: &mut InputRequest<'static>,
        related_task: Option<&TaskId>,
    ) -> Result<Option<u64>, RpcError> {
        let (config, method) = (&common.config, request.method().unwrap_or_default());
        let is_declared = config.has_input_tasks() && may_be_task(&config.settings.capabilities, method);
        if version != Version::V2025_11_25 || !is_declared {
            return Ok(None);
        }
        let Some(ttl) = take_task(request) else { return Ok(None) };
        // Counted before the question is open: an open one would make it part of its own round.
        self.count_round(common, related_task)?;
        let Some(tasks) = self.hosted(common) else { return Ok(None) };
        tasks.create(common, source, method, ttl, related_task).map(Some)
    }

    /// Answers a request of the server about a hosted task.
    pub(super) fn answer_task_request(
        &mut self,
        common: &mut CommonState,
        source: RequestSource<'_>,
        method: &str,
        params: Option<&RawJson>,
    ) {
        let answered = match self.hosted(common) {
            Some(tasks) => {
                tasks.handle_request(common, source, method, params.map_or(b"{}", |params| params.as_bytes()))
            }
            None => Err(RpcError::method_not_found(method)),
        };
        if let Err(error) = answered {
            common.endpoint.send_error(source.channel, source.batch, Some(source.id), &error);
        }
        self.count_hosted(common);
    }

    /// Forgets a request that waits for the result of a hosted task; returns false if it is not one.
    pub(super) fn release_task_request(&mut self, key: Key) -> bool {
        self.input_tasks.as_mut().is_some_and(|tasks| tasks.release(key))
    }

    /// Ends a hosted task with the answer to its question.
    ///
    /// # Errors
    ///
    /// As [`Engine::answer`](super::Engine::answer).
    pub(super) fn answer_hosted<T: Serialize + ?Sized>(
        &mut self,
        common: &mut CommonState,
        question: u64,
        response: &T,
    ) -> Result<(), UseError> {
        let before = common.outbox_len();
        let tasks = self.input_tasks.as_mut().ok_or(UseError::Stale)?;
        tasks.answer(common, question, &mut |text, table| Serializer::object(text, response, table))?;
        common.count_answer(before);
        self.count_hosted(common);
        Ok(())
    }

    /// Ends a hosted task with an error.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the question has ended.
    pub(super) fn refuse_hosted(
        &mut self,
        common: &mut CommonState,
        question: u64,
        error: &RpcError,
    ) -> Result<(), UseError> {
        let before = common.outbox_len();
        self.input_tasks.as_mut().ok_or(UseError::Stale)?.refuse(common, question, error)?;
        common.count_answer(before);
        self.count_hosted(common);
        Ok(())
    }

    /// Processes the deadlines of hosted tasks that have passed.
    pub(super) fn handle_hosted_timeout(&mut self, common: &mut CommonState) {
        if let Some(tasks) = self.input_tasks.as_mut() {
            tasks.handle_timeout(common);
            self.count_hosted(common);
        }
    }

    /// Removes the hosted tasks: the connection or the session has ended.
    pub(super) fn clear_hosted(&mut self, common: &mut CommonState) {
        if let Some(mut tasks) = self.input_tasks.take() {
            tasks.clear(common);
            self.set_hosted_questions(common, 0);
        }
    }

    /// Suspends the timeouts of calls while a question of a hosted task is open (TIME-008).
    pub(super) fn count_hosted(&mut self, common: &CommonState) {
        if let Some(tasks) = self.input_tasks.as_ref() {
            self.set_hosted_questions(common, tasks.open_questions());
        }
    }
}

/// Returns whether a request of the server is about a task.
pub(super) fn is_about_task(method: &str) -> bool {
    matches!(method, methods::TASKS_GET | methods::TASKS_RESULT | methods::TASKS_CANCEL | methods::TASKS_LIST)
}
