//! The task that a call runs as.

use alloc::boxed::Box;

#[cfg(feature = "crypto")]
use mcp_proto::model::TaskId;
#[cfg(feature = "crypto")]
use mcp_proto::server::TaskOptions;
use mcp_proto::server::{Call, Engine, InputRequired, TaskOffer};
use mcp_proto::{Instant, RpcError, UseError};

use super::{Backend, CallCx, CallParts, CallState, RunningCall};
use crate::adapter::server::remote::TASK_MESSAGE_INTERVAL;
use crate::adapter::server::server_loop::{ServerLoop, set_task_message};

impl<B: RunningCall> CallCx<B> {
    /// Returns the id of the task that the call runs as; `None` in a plain call.
    ///
    /// A holder of the id may use the task, so treat it as a secret.
    #[cfg(feature = "crypto")]
    #[must_use]
    pub fn task(&self) -> Option<TaskId> {
        self.0.call().task_id()
    }

    /// Describes the state of the task to its client, then does the same as [`checkpoint`](Self::checkpoint).
    ///
    /// It may be called at any rate: a client sees the latest description, and the store gets at most one in a second. In
    /// a plain call it has no effect.
    ///
    /// ```
    /// # use mcp_std::adapter::server::Cx;
    /// # use mcp_proto::RpcError;
    /// fn build(cx: &mut Cx<'_>) -> Result<&'static str, RpcError> {
    ///     for part in ["keel", "planks", "mast"] {
    ///         cx.working(format!("working on the {part}"))?;
    ///         // … some work …
    ///     }
    ///     Ok("a boat")
    /// }
    /// # let _ = build;
    /// ```
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint).
    pub fn working(&mut self, message: impl Into<Box<str>>) -> Result<(), RpcError> {
        let CallParts { backend, call, state } = self.0.parts();
        if call.is_task_run() {
            match backend {
                Backend::Local(..) => state.task_message = Some(message.into()),
                Backend::Remote(remote) => remote.set_task_message(message.into()),
            }
        }
        self.checkpoint()
    }

    /// Makes the call a task, if the client supports it, for a tool that
    /// [defers](mcp_proto::router::ToolEntry::defer_task) the decision.
    ///
    /// The first time it returns an error: leave the handler with `?`. The handler then runs again from its beginning, as
    /// the task, with the input that was there before. In the task, and in a call that cannot become one, it returns
    /// `Ok`. So ask first what a task should not wait for:
    ///
    /// ```
    /// # use mcp_std::adapter::server::Cx;
    /// # use mcp_proto::RpcError;
    /// # use mcp_proto::model::{BooleanSchema, ElicitSchema};
    /// fn refit(cx: &mut Cx<'_>) -> Result<&'static str, RpcError> {
    ///     let form = ElicitSchema::default().field("ok", BooleanSchema::new());
    ///     cx.elicit("confirm", "Take the boat out of the water?", form)?;
    ///     cx.begin_task()?;
    ///     // … a day of work …
    ///     Ok("as new")
    /// }
    /// # let _ = refit;
    /// ```
    ///
    /// # Errors
    ///
    /// An error that is never sent: the call becomes a task.
    pub fn begin_task(&mut self) -> Result<(), RpcError> {
        let CallParts { call, state, .. } = self.0.parts();
        if call.task_offer() == TaskOffer::None {
            return Ok(());
        }
        state.begins_task = Some(begin_task);
        Err(RpcError::internal("the call becomes a task"))
    }
}

impl CallState {
    /// Shows the description of the task on the loop's thread, if it is time. Returns when it will be.
    pub(super) fn show_task_message(
        &mut self,
        server_loop: &mut dyn ServerLoop,
        call: &Call,
    ) -> Option<Instant> {
        let message = self.task_message.take()?;
        let now = server_loop.now();
        if now < self.next_task_message {
            self.task_message = Some(message);
            return Some(self.next_task_message);
        }
        self.next_task_message = now + TASK_MESSAGE_INTERVAL;
        set_task_message(server_loop, call, &message);
        None
    }
}

/// Makes a call a task.
#[cfg(feature = "crypto")]
fn begin_task(engine: &mut Engine, now: Instant, call: &Call, input: &InputRequired) -> Result<(), UseError> {
    input.begin_task(engine, now, call, TaskOptions::new())
}

/// Fails: without this feature no call can become a task.
#[cfg(not(feature = "crypto"))]
fn begin_task(_: &mut Engine, _: Instant, _: &Call, _: &InputRequired) -> Result<(), UseError> {
    Err(UseError::Stale)
}
