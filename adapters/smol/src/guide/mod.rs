//! Guide: servers and clients as plain futures, on any executor.
//!
//! | page | read it to |
//! |---|---|
//! | [`first_server`] | write a server with a tool, and a client that calls it |
//!
//! The pages about single features (tools, resources, elicitation, HTTP, authorization, testing, …) are in the guide of
//! [`mcp-blocking`](https://docs.rs/mcp-blocking/latest/mcp_blocking/guide/): names and behaviour are the same, with `async` closures and
//! `.await` here. [`mcp-threads`](https://docs.rs/mcp-threads/latest/mcp_threads/guide/deployment/) has deployment: desktop clients,
//! containers, systemd, nginx. [`mcp-proto`](https://docs.rs/mcp-proto/latest/mcp_proto/guide/) has the eras, transports and questions.
//!
//! The modules exist in the documentation alone, and cost a program nothing.

// Its programs run in `tests/system/src/guide.rs`, where the features and packages that they need are on.

#[cfg_attr(not(doctest), doc = include_str!("first_server.md"))]
#[doc(alias("quick start", "getting started", "tutorial", "async server", "stdio server", "async client"))]
pub mod first_server {}
