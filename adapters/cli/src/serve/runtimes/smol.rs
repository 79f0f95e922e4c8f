//! The demonstration server on `mcp-smol`.

use core::time::Duration;

use mcp_mock::smol::router as mock_router;
use mcp_smol as adapter;
use mcp_smol::Router;
use smol::{Timer, block_on};

#[path = "../on_future.rs"]
#[expect(clippy::duplicate_mod, reason = "once for the futures of each adapter")]
mod on_future;

pub(in crate::serve) use on_future::run;

async fn sleep(duration: Duration) {
    Timer::after(duration).await;
}
