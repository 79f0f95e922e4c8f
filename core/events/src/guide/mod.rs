//! Guide: events of servers, and how clients and web servers get them.
//!
//! | page | read it to |
//! |---|---|
//! | [`serving`] | say what happens: types, filters, streams, webhooks, restarts |
//! | [`following`] | hear of it as a client, by polls or a stream |
//! | [`webhooks`] | have it delivered to a web server of yours |
//!
//! Routers and clients are those of the adapters; their guide is that of
//! [`mcp-blocking`](https://docs.rs/mcp-blocking/latest/mcp_blocking/guide/). The programs here run on it and on any other.
//!
//! The modules exist in the documentation alone, and cost a program nothing.

// Their programs run in `tests/system/src/guide.rs`, which has an adapter.

#[cfg_attr(not(doctest), doc = include_str!("serving.md"))]
#[doc(alias("events/list", "events/poll", "events/stream", "publish", "io.modelcontextprotocol/events"))]
pub mod serving {}

#[cfg_attr(not(doctest), doc = include_str!("following.md"))]
#[doc(alias("follow", "notifications/events/event", "cursor", "gap"))]
pub mod following {}

#[cfg_attr(not(doctest), doc = include_str!("webhooks.md"))]
#[doc(alias("events/subscribe", "events/unsubscribe", "Standard Webhooks", "challenge", "signature"))]
pub mod webhooks {}
