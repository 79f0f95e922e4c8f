//! Guide: servers in web frameworks and in Workers.
//!
//! | page | read it to |
//! |---|---|
//! | [`axum`] | mount a server in axum or hyper, and connect a client over your own HTTP client |
//! | [`workers`] | run a server in a Worker, as WebAssembly |
//!
//! The pages about single features (tools, resources, elicitation, authorization, testing, …) are in the guide of
//! [`mcp-blocking`](https://docs.rs/mcp-blocking/latest/mcp_blocking/guide/): routers are the same, with `async` closures here.
//! [`mcp-proto`](https://docs.rs/mcp-proto/latest/mcp_proto/guide/) has the eras and questions.
//!
//! The modules exist in the documentation alone, and cost a program nothing.

// Their programs run in `tests/programs/tower`, which has web frameworks.

#[cfg_attr(not(doctest), doc = include_str!("axum.md"))]
#[doc(alias(
    "hyper",
    "web framework",
    "Streamable HTTP server",
    "route_service",
    "CORS",
    "reqwest",
    "graceful shutdown"
))]
pub mod axum {}

#[cfg_attr(not(doctest), doc = include_str!("workers.md"))]
#[doc(alias("cloudflare", "serverless", "edge", "wasm32-unknown-unknown", "wasm", "webassembly"))]
pub mod workers {}
