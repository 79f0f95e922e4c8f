//! The demonstration server on `mcp-smol`.

use core::time::Duration;

use mcp_smol as adapter;
use mcp_smol::Router;
use smol::{Timer, block_on};

macro_rules! handler {
    (|$cx:tt, $($rest:tt)*) => {
        async move |$cx: &mut mcp_smol::Cx, $($rest)*
    };
}

#[path = "../on_future.rs"]
#[expect(clippy::duplicate_mod, reason = "once for the futures of each adapter")]
mod on_future;
#[path = "../tools/mod.rs"]
#[expect(clippy::duplicate_mod, reason = "once for the router of each adapter")]
mod tools;

pub(in crate::serve) use on_future::run;

async fn sleep(duration: Duration) {
    Timer::after(duration).await;
}
