//! Guide: servers and clients on tokio.
//!
//! | page | read it to |
//! |---|---|
//! | [`first_server`] | write a server with a tool |
//! | [`first_client`] | call a server |
//! | [`from_rmcp`] | move a program from the official Rust SDK |
//!
//! The pages about single features (tools, resources, elicitation, HTTP, authorization, testing, …) are in the guide of
//! [`mcp-blocking`](https://docs.rs/mcp-blocking/latest/mcp_blocking/guide/): names and behaviour are the same, with `async` closures and
//! `.await` here. [`mcp-threads`](https://docs.rs/mcp-threads/latest/mcp_threads/guide/deployment/) has deployment: desktop clients,
//! containers, systemd, nginx. [`mcp-tower`](https://docs.rs/mcp-tower/latest/mcp_tower/guide/) has axum and hyper,
//! [`mcp-proto`](https://docs.rs/mcp-proto/latest/mcp_proto/guide/) the eras, transports and questions.
//!
//! The modules exist in the documentation alone, and cost a program nothing.

// Their programs run in `tests/system/src/guide.rs`, where the features and packages that they need are on.

#[cfg_attr(not(doctest), doc = include_str!("first_server.md"))]
#[doc(alias("quick start", "getting started", "tutorial", "async server", "stdio server"))]
pub mod first_server {}

#[cfg_attr(not(doctest), doc = include_str!("first_client.md"))]
#[doc(alias("quick start", "getting started", "tutorial", "async client", "stdio client"))]
pub mod first_client {}

#[cfg_attr(not(doctest), doc = include_str!("from_rmcp.md"))]
#[doc(alias("rmcp", "official Rust SDK", "ServerHandler", "tool_router", "ServiceExt", "migration"))]
pub mod from_rmcp {}
