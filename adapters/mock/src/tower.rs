//! Servers on `mcp-tower`.

use mcp_tower::Router;

macro_rules! handler {
    (|$cx:tt, $($rest:tt)*) => {
        async move |$cx: &mut mcp_tower::Cx, $($rest)*
    };
}

#[path = "router.rs"]
mod router;

pub use router::router;
