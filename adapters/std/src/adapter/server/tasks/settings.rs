//! The tasks of a server, as an application configures them.

use alloc::sync::Arc;
use core::fmt;

use mcp_proto::server::TaskLimits;

use crate::task_store::{TaskStore, TaskStoreError};

/// The tasks of a server: their limits, and where they are stored.
///
/// Give it to a router ([`Router::tasks`](crate::adapter::server::router::Router::tasks)), and declare for each tool whether its calls
/// may become tasks ([`ToolEntry::task_support`](mcp_proto::router::ToolEntry::task_support)).
///
/// Tasks are kept in memory. They outlive the connections of their clients, and end with the server; those of a session of
/// 2025-11-25 without a principal end with it. With a [store](Self::store) they outlive the process, too (DESIGN-49): a task is stored before its client learns of it, and
/// each change later. After a restart, results are there; tasks that had not begun to run, and those that wait for
/// input, go on; a task whose handler was running has failed, because it is unknown how far it came.
///
/// ```
/// # use mcp_std::adapter::server::{ServerTasks, router::{Functions, Router}};
/// use mcp_proto::model::TaskSupport;
///
/// let mut router = Router::<Functions<()>>::new("yard", "1.0");
/// router.tasks(ServerTasks::new());
/// # #[cfg(feature = "schemars")]
/// router.tool("build", |cx, (): ()| {
///     cx.working("laying the keel")?;
///     Ok::<_, mcp_proto::RpcError>("a boat")
/// }).task_support(TaskSupport::Optional);
/// router.check().unwrap();
/// ```
pub struct ServerTasks {
    pub(super) limits: TaskLimits,
    pub(super) store: Option<Arc<dyn TaskStore>>,
    pub(super) on_problem: OnProblem,
}

/// Receives problems of a store.
pub(super) type OnProblem = Arc<dyn Fn(&TaskStoreError) + Send + Sync>;

impl Default for ServerTasks {
    fn default() -> Self {
        Self::new()
    }
}

impl ServerTasks {
    /// Creates tasks that are kept in memory, with the default limits.
    #[must_use]
    pub fn new() -> Self {
        let on_problem = Arc::new(|problem: &TaskStoreError| std::eprintln!("tasks: {problem}"));
        Self { limits: TaskLimits::default(), store: None, on_problem }
    }

    /// Sets the limits.
    #[must_use]
    pub const fn limits(mut self, limits: TaskLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the store. Its tasks are loaded when the server starts.
    ///
    /// It runs on a thread of its own. While it is slow, tasks are created slowly, and other requests are not delayed.
    #[must_use]
    pub fn store(mut self, store: impl TaskStore + 'static) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Sets a callback for problems of the store: damaged tasks, and changes that could not be stored and are tried
    /// again.
    ///
    /// It runs on the thread of the event loop and must be fast. Without a callback, problems are written to stderr.
    #[must_use]
    pub fn on_problem(mut self, on_problem: impl Fn(&TaskStoreError) + Send + Sync + 'static) -> Self {
        self.on_problem = Arc::new(on_problem);
        self
    }
}

impl fmt::Debug for ServerTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTasks")
            .field("limits", &self.limits)
            .field("is_stored", &self.store.is_some())
            .finish_non_exhaustive()
    }
}
