//! The driver of a store: between the engine of a loop, and the worker or the store itself.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use mcp_proto::model::TaskId;
use mcp_proto::server::{StoreEffect, TaskLimits, TaskTable};
use mcp_proto::{Anchor, Entropy};
use mcp_std::entropy;
use mcp_std::task_store::{
    TaskStore, TaskStoreError, TaskStoreJob, TaskStoreOutcome, TaskStoreWorker, TasksError,
};

use super::{DriveTasks, InstallTasks, StorePlace, TaskSource, thread_waker};
use crate::Error;
use crate::server::dispatcher::CommandSender;
use crate::server::server_loop::ServerLoop;

/// Drives the store of a server's tasks, if it has one.
struct StoreDriver {
    link: StoreLink,
    on_problem: OnProblem,
}

enum StoreLink {
    /// Tasks are kept in memory only.
    None,
    Worker(Worker),
    Inline(Arc<dyn TaskStore>),
}

struct Worker {
    worker: TaskStoreWorker,
    /// A job for which the queue had no room.
    refused: Option<TaskStoreJob>,
}

impl TaskSource {
    /// Wraps the tasks.
    #[must_use]
    pub fn new(tasks: ServerTasks) -> Self {
        Self(Arc::new(Mutex::new(Some(tasks))))
    }
}

impl InstallTasks for Mutex<Option<ServerTasks>> {
    fn install(
        &self,
        server_loop: &mut dyn ServerLoop,
        anchor: Anchor,
        place: StorePlace,
    ) -> Result<Box<dyn DriveTasks>, Error> {
        let tasks = self.lock().unwrap_or_else(PoisonError::into_inner).take();
        let tasks = tasks.ok_or(TasksError::InUse)?;
        Ok(Box::new(StoreDriver::install(tasks, server_loop, anchor, place)?))
    }
}

impl StoreDriver {
    fn install(
        tasks: ServerTasks,
        server_loop: &mut dyn ServerLoop,
        anchor: Anchor,
        place: StorePlace,
    ) -> Result<Self, Error> {
        let ServerTasks { limits, store, on_problem } = tasks;
        let table = TaskTable::new(Entropy::new(entropy::seed()?, entropy::nonce()), anchor).limits(limits);
        let table = if server_loop.tells_clients_apart() { table } else { table.without_list() };
        let now = server_loop.tick();
        let Some(store) = store else {
            server_loop.engine().set_tasks(now, table);
            return Ok(Self { link: StoreLink::None, on_problem });
        };
        let loaded = store.load().map_err(TasksError::Store)?;
        loaded.problems.iter().for_each(|problem| on_problem(problem));
        server_loop.engine().set_tasks(now, table.stored());
        for task in loaded.tasks {
            let id = TaskId::new(task.id);
            if let Err(problem) = server_loop.engine().tasks(now).load(&id, &task.record) {
                on_problem(&TaskStoreError::NotRestored(problem));
            }
        }
        let link = match place {
            StorePlace::Inline => StoreLink::Inline(store),
            StorePlace::Worker(commands) => {
                let worker = TaskStoreWorker::start(store, MAX_JOBS)?;
                worker.register(&command_waker(commands));
                StoreLink::Worker(Worker { worker, refused: None })
            }
        };
        Ok(Self { link, on_problem })
    }

    /// Passes an outcome to the engine.
    fn apply(&self, server_loop: &mut dyn ServerLoop, outcome: TaskStoreOutcome) {
        let TaskStoreOutcome { id, version, is_deletion, result } = outcome;
        if let Err(problem) = &result {
            (self.on_problem)(problem);
        }
        let now = server_loop.tick();
        let mut tasks = server_loop.engine().tasks(now);
        // The versions are those of the engine.
        let (id, version) = (TaskId::new(id), u32::try_from(version).unwrap_or_default());
        if is_deletion {
            tasks.handle_deleted(&id, version, result.is_ok());
        } else {
            tasks.handle_saved(&id, version, result.is_ok());
        }
    }
}

impl DriveTasks for StoreDriver {
    fn drive(&mut self, server_loop: &mut dyn ServerLoop) -> bool {
        let mut any = false;
        loop {
            let outcome = match &mut self.link {
                StoreLink::None => None,
                StoreLink::Worker(worker) => worker.next_outcome(server_loop),
                StoreLink::Inline(store) => next_job(server_loop).map(|job| job.run(&**store)),
            };
            let Some(outcome) = outcome else { return any };
            any = true;
            self.apply(server_loop, outcome);
        }
    }

    fn finish(mut self: Box<Self>, server_loop: &mut dyn ServerLoop) {
        let until = Instant::now() + FINISH_TIMEOUT;
        if let StoreLink::Worker(link) = &self.link {
            link.worker.register(&thread_waker());
        }
        loop {
            self.drive(server_loop);
            let now = server_loop.now();
            server_loop.engine().handle_timeout(now);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || server_loop.engine().tasks(now).is_saved() {
                break;
            }
            // Also for changes that are tried again after a failure.
            thread::park_timeout(left.min(FINISH_INTERVAL));
        }
        if let StoreLink::Worker(link) = self.link {
            // The store is free for the next server then.
            let _ = link.worker.finish(until.saturating_duration_since(Instant::now()));
        }
    }
}

impl Worker {
    /// Submits jobs while the worker takes them, and returns the next outcome.
    fn next_outcome(&mut self, server_loop: &mut dyn ServerLoop) -> Option<TaskStoreOutcome> {
        while let Some(job) = self.refused.take().or_else(|| next_job(server_loop)) {
            if let Err(job) = self.worker.submit(job) {
                self.refused = Some(job);
                break;
            }
        }
        self.worker.poll_outcome()
    }
}

/// Returns what the store has to do next.
fn next_job(server_loop: &mut dyn ServerLoop) -> Option<TaskStoreJob> {
    let now = server_loop.now();
    Some(match server_loop.engine().tasks(now).poll_store()? {
        StoreEffect::Save { id, version, record } => {
            TaskStoreJob::Save { id: id.as_str().into(), version: version.into(), record: record.into() }
        }
        StoreEffect::Delete { id, version } => {
            TaskStoreJob::Delete { id: id.as_str().into(), version: version.into() }
        }
        _ => return None,
    })
}

/// Returns a waker that wakes a loop.
fn command_waker(commands: CommandSender) -> Waker {
    struct WakeLoop(CommandSender);
    impl Wake for WakeLoop {
        fn wake(self: Arc<Self>) {
            // One at a time: the worker wakes again when its outcomes were taken.
            let _ = self.0.send_unbounded(|_| ());
        }
    }
    Waker::from(Arc::new(WakeLoop(commands)))
}

/// Jobs that wait for a worker.
const MAX_JOBS: usize = 64;
/// Time for the last changes at the end of a server.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which the end of the last changes is looked for.
const FINISH_INTERVAL: Duration = Duration::from_millis(50);

// The tasks of a server, as an application configures them.

/// The tasks of a server: their limits, and where they are stored.
///
/// Give it to a router ([`Router::tasks`](crate::server::router::Router::tasks)), and declare for each tool whether its calls
/// may become tasks ([`ToolEntry::task_support`](mcp_proto::router::ToolEntry::task_support)).
///
/// Tasks are kept in memory. They outlive the connections of their clients, and end with the server; those of a session of
/// 2025-11-25 without a principal end with it. With a [store](Self::store) they outlive the process, too (DESIGN-49): a task is stored before its client learns of it, and
/// each change later. After a restart, results are there; tasks that had not begun to run, and those that wait for
/// input, go on; a task whose handler was running has failed, because it is unknown how far it came.
///
/// ```
/// # use mcp_runtime::server::{ServerTasks, router::{Functions, Local, Router}};
/// use mcp_proto::model::TaskSupport;
///
/// let mut router = Router::<Functions<(), Local>>::new("yard", "1.0");
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
