//! Servers on `mcp-blocking`.

use mcp_blocking::Router;

macro_rules! handler {
    (|$cx:tt, $($rest:tt)*) => {
        move |$cx: &mut mcp_blocking::Cx<'_>, $($rest)*
    };
}

#[path = "router.rs"]
mod router;

pub use router::router;
