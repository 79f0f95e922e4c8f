//! Servers on `mcp-threads`.

use mcp_threads::Router;

macro_rules! handler {
    (|$cx:tt, $($rest:tt)*) => {
        move |$cx: &mut mcp_threads::Cx<'_>, $($rest)*
    };
}

#[path = "router.rs"]
mod router;

pub use router::router;
