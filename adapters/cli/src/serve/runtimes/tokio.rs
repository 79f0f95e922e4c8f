//! The demonstration server on `mcp-tokio`.

use ::tokio::time::sleep;
use mcp_mock::tokio::router as mock_router;
use mcp_tokio::LocalRouter as Router;

use crate::tokio_runtime::block_on;

/// The adapter, with the router whose handlers stay on their thread.
mod adapter {
    pub(super) use mcp_tokio::*;
}

#[path = "../on_future.rs"]
#[expect(clippy::duplicate_mod, reason = "once for the futures of each adapter")]
mod on_future;

pub(in crate::serve) use on_future::run;
