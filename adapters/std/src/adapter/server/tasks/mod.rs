//! Tasks of a server: their limits and their store, and what drives the store.

#[cfg(feature = "crypto")]
mod driver;
#[cfg(feature = "crypto")]
mod settings;
mod source;

#[cfg(feature = "crypto")]
pub use settings::ServerTasks;
pub(super) use source::thread_waker;
pub use source::{DriveTasks, StorePlace, TaskSource};
