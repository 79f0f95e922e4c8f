//! Tasks of a server: their limits and their store, and what drives the store.

#[cfg(feature = "crypto")]
mod driver;
#[cfg(feature = "crypto")]
mod settings;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::fmt;
use core::task::Waker;
use std::thread::{self, Thread};

use mcp_proto::Anchor;

use super::dispatcher::CommandSender;
use super::server_loop::ServerLoop;
use crate::Error;
use crate::task_store::TaskStoreError;

#[cfg(feature = "crypto")]
pub use settings::ServerTasks;

/// Tasks that a handler gives to the event loop that runs it; see [`Handler::tasks`](super::Handler::tasks).
///
/// Only one loop can have them. It is a trait object, so that a server without tasks is linked without their code.
pub struct TaskSource(Arc<dyn InstallTasks>);

impl Clone for TaskSource {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl TaskSource {
    /// Gives the tasks to the engine of a loop.
    ///
    /// # Errors
    ///
    /// [`Error::Tasks`] if another loop has the tasks, or the store cannot be loaded.
    pub fn install(
        &self,
        server_loop: &mut dyn ServerLoop,
        anchor: Anchor,
        place: StorePlace,
    ) -> Result<Box<dyn DriveTasks>, Error> {
        self.0.install(server_loop, anchor, place)
    }
}

impl fmt::Debug for TaskSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskSource").finish_non_exhaustive()
    }
}

/// Where a store runs.
#[derive(Debug)]
pub enum StorePlace {
    /// On a thread of its own, which wakes the loop by these commands.
    Worker(CommandSender),
    /// On the thread of the loop: for tests.
    Inline,
}

trait InstallTasks: Send + Sync {
    fn install(
        &self,
        server_loop: &mut dyn ServerLoop,
        anchor: Anchor,
        place: StorePlace,
    ) -> Result<Box<dyn DriveTasks>, Error>;
}

/// What a loop with tasks does between two waits.
pub trait DriveTasks: Send {
    /// Passes changes to the store, and outcomes of the store to the engine. Returns whether there were any.
    fn drive(&mut self, server_loop: &mut dyn ServerLoop) -> bool;

    /// Waits for the changes that the store has not finished, up to a few seconds.
    fn finish(self: Box<Self>, server_loop: &mut dyn ServerLoop);
}

/// Returns a waker that unparks this thread.
pub(super) fn thread_waker() -> Waker {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    Waker::from(Arc::new(Unpark(thread::current())))
}

/// The reason why a server cannot have its tasks.
#[derive(Debug)]
#[non_exhaustive]
pub enum TasksError {
    /// The stored tasks cannot be loaded.
    Store(TaskStoreError),
    /// The server has several shards. Each would have tasks that the others do not know.
    Shards,
    /// The tasks of the router belong to a server already.
    InUse,
}

impl fmt::Display for TasksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "the stored tasks cannot be loaded: {error}"),
            Self::Shards => {
                f.write_str("a server with tasks has one shard: each shard would have tasks of its own")
            }
            Self::InUse => f.write_str("the tasks of this router belong to another server"),
        }
    }
}

impl core::error::Error for TasksError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Shards | Self::InUse => None,
        }
    }
}

impl From<TasksError> for Error {
    fn from(error: TasksError) -> Self {
        Self::Tasks(Arc::new(error))
    }
}
