//! The tokio runtime of a test program.

use core::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

/// Runs a future to its end, on any thread. What it opens stays usable in later calls.
///
/// # Panics
///
/// If the system has no descriptor left for the runtime.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let build = || Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    RUNTIME.get_or_init(build).block_on(future)
}
