//! The relation of a call to tasks: it may become one, or it runs one.

use core::fmt;

/// Whether a call may become a task ([`Call::task_offer`](super::super::Call::task_offer)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum TaskOffer {
    /// It must be answered directly: its client does not know tasks, or the server has none.
    #[default]
    None,
    /// It may become a task, at the choice of the server (2026-07-28; TASK-103).
    Allowed,
    /// Its client asks for a task (2025-11-25; TASK-009).
    Requested,
}

/// The bits of the id of a task that a call runs. `Debug` omits them.
#[derive(Clone, Copy)]
pub(in crate::server) struct RunId(pub(super) [u8; 16]);

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunId(…)")
    }
}

/// The relation of a call to tasks.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) enum CallTask {
    Offer(TaskOffer),
    Run(RunId),
}
