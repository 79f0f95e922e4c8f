//! The tokio runtime of this process.

use core::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

/// Runs a future to its end. What it opens stays usable in later calls.
///
/// # Panics
///
/// If the system has no descriptor left for the runtime.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime =
        RUNTIME.get_or_init(|| Builder::new_current_thread().enable_all().build().expect("a runtime"));
    runtime.block_on(future)
}
