//! Servers on `mcp-smol`.

use mcp_smol::Router;

macro_rules! handler {
    (|$cx:tt, $($rest:tt)*) => {
        async move |$cx: &mut mcp_smol::Cx, $($rest)*
    };
}

#[path = "router.rs"]
mod router;

pub use router::router;
