//! Guide: servers and clients on threads.
//!
//! | page | read it to |
//! |---|---|
//! | [`first_server`] | write a server whose handlers run in parallel, and a client for several threads |
//! | [`deployment`] | copy lines for desktop clients, containers, systemd and nginx |
//!
//! The pages about single features (tools, resources, elicitation, HTTP, authorization, testing, …) are in the guide of
//! [`mcp-blocking`](https://docs.rs/mcp-blocking/latest/mcp_blocking/guide/): names and behaviour are the same; closures are `Fn + Send + Sync`
//! here. [`mcp-proto`](https://docs.rs/mcp-proto/latest/mcp_proto/guide/) has the eras, transports and questions.
//!
//! The modules exist in the documentation alone, and cost a program nothing.

// Its programs run in `tests/system/src/guide.rs`, where the features and packages that they need are on.

#[cfg_attr(not(doctest), doc = include_str!("first_server.md"))]
#[doc(alias(
    "quick start",
    "getting started",
    "tutorial",
    "thread pool",
    "workers",
    "stdio server",
    "blocking client"
))]
pub mod first_server {}

#[cfg_attr(not(doctest), doc = include_str!("deployment.md"))]
#[doc(alias("mcpServers", "claude desktop", "vs code", "docker", "podman", "container"))]
#[doc(alias("systemd", "nginx", "reverse proxy", "configuration", "install", "musl"))]
pub mod deployment {}
