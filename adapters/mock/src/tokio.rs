//! Servers on `mcp-tokio`.

use mcp_tokio::LocalRouter as Router;

macro_rules! handler {
    (|$cx:tt, $($rest:tt)*) => {
        async move |$cx: &mut mcp_tokio::Cx, $($rest)*
    };
}

#[path = "router.rs"]
mod router;

pub use router::router;
