//! Executors for the futures of the asynchronous adapters.

use core::future::Future;
use std::sync::OnceLock;

use mcp_runtime::runtime::{PollStream, Runtime};
use mcp_smol::Smol;
use mcp_tokio::Tokio;

/// The runtime of an asynchronous adapter, with an executor for its futures.
pub trait Executor: Runtime + PollStream<<Self as Runtime>::Stdio> {
    /// Runs a future to its end, on any thread. What it opens stays usable in later calls.
    fn run<T>(future: impl Future<Output = T>) -> T;
}

impl Executor for Smol {
    fn run<T>(future: impl Future<Output = T>) -> T {
        mcp_smol::block_on(future)
    }
}

impl Executor for Tokio {
    /// # Panics
    ///
    /// If the system has no descriptor left for the runtime.
    fn run<T>(future: impl Future<Output = T>) -> T {
        use tokio::runtime::{Builder, Runtime};

        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        let build = || Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        RUNTIME.get_or_init(build).block_on(future)
    }
}
