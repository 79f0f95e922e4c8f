//! The entries of `mcp-probe serve --everything`, for a router of `mcp-tower`.

use mcp_tower::Router;

use self::clock::ClockResource;
use self::demo::read_only;

macro_rules! handler {
    (|$cx:tt, $($rest:tt)*) => {
        async move |$cx: &mut mcp_tower::Cx, $($rest)*
    };
}

macro_rules! wait {
    ($waiting:expr) => {
        $waiting.await
    };
}

#[path = "../../../../adapters/cli/src/serve/clock.rs"]
pub(crate) mod clock;
#[path = "../../../../adapters/cli/src/serve/demo.rs"]
mod demo;
#[path = "../../../../adapters/cli/src/serve/everything/mod.rs"]
mod everything;
#[path = "../../../../adapters/cli/src/serve/tools/mod.rs"]
#[expect(dead_code, reason = "only the command line serves less than everything")]
mod tools;

/// Returns the router with everything, and its clock.
pub(crate) fn router() -> (Router, ClockResource) {
    let (router, clock) = tools::build_router(tools::Entries::Everything, None);
    (router, clock.expect("everything has a clock"))
}
