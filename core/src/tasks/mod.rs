//! Tasks as both roles see them: ids, texts, times between polls. Each role keeps its tasks in tables of its own.

pub(crate) mod pace;
#[cfg(feature = "crypto")]
pub(crate) mod params;
pub(crate) mod related;
#[cfg(feature = "crypto")]
pub(crate) mod text;

/// Longest id of a task that is accepted from a peer, in bytes. Others are refused.
pub(crate) const MAX_TASK_ID: usize = 1_024;
