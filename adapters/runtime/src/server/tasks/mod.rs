//! Tasks of a server: their limits and their store, and what drives the store.

#[cfg(feature = "tasks")]
mod driver;

#[cfg(feature = "tasks")]
pub use driver::ServerTasks;

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

// Tasks that a handler gives to the event loop that runs it.

/// Tasks that a handler gives to the event loop that runs it; see [`Handler::attachments`](crate::server::Handler::attachments).
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

/// Tasks that no loop has yet.
trait InstallTasks: Send + Sync {
    fn install(
        &self,
        server_loop: &mut dyn ServerLoop,
        anchor: Anchor,
        place: StorePlace,
    ) -> Result<Box<dyn DriveTasks>, Error>;
}

/// The work of a loop with tasks between two waits.
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
