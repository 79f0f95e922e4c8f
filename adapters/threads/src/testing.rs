//! Servers under test, on virtual time
//!
//! `mcp_blocking::testing::pair` makes a client of a [`Router`](crate::Router) in one thread, in memory, on virtual time: a
//! program on threads has `mcp-blocking` among its dependencies for tests, and nothing else of it.
//!
//! ```
//! use std::time::Duration;
//! use mcp_proto::{RawJson, model::Tool};
//! use mcp_threads::Router;
//!
//! let mut router = Router::new("harbour", "1.0");
//! let schema = RawJson::new(r#"{"type":"object"}"#).unwrap();
//! router.tool_with(Tool::new("tide", schema), |cx, _: serde_json::Value| {
//!     cx.sleep(Duration::from_secs(30))?; // returns at once
//!     Ok::<_, mcp_proto::RpcError>("high")
//! });
//!
//! let mut client = mcp_blocking::testing::pair(router)?;
//! let result = client.call_tool("tide", &serde_json::json!({}))?;
//! assert_eq!(result.content[0].as_text(), Some("high"));
//! # Ok::<(), mcp_threads::Error>(())
//! ```
//!
//! Handlers run one after another there, as with no workers.

use alloc::boxed::Box;
use alloc::sync::Arc;

use mcp_std::client::{Actor, OnTheSpot};

use crate::Handler;
use crate::handler::Shared;

/// A handler for `mcp_blocking::testing::Server::of`
pub fn actor(handler: impl Handler) -> Box<dyn Actor> {
    Box::new(OnTheSpot(Shared(Arc::new(handler))))
}
