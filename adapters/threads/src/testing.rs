//! Tests of servers on virtual time, a simulated clock that advances when nothing else is left to do.
//!
//! `mcp_blocking::testing::pair` connects a client to a [`Router`](crate::Router) in memory and in one thread. A
//! program on threads needs `mcp-blocking` as a dev-dependency only.
//!
//! ```
//! use std::time::Duration;
//! use mcp_threads::mcp_proto::{RawJson, model::Tool};
//! use mcp_threads::{Router, ok};
//!
//! let mut router = Router::new("harbour", "1.0");
//! let schema = RawJson::new(r#"{"type":"object"}"#).unwrap();
//! router.tool_with(Tool::new("tide", schema), |cx, _: serde_json::Value| {
//!     cx.sleep(Duration::from_secs(30))?; // returns immediately
//!     ok("high")
//! });
//!
//! let client = mcp_blocking::testing::pair(router, Default::default())?;
//! let result = client.call_tool("tide", &serde_json::json!({}))?;
//! assert_eq!(result.content[0].as_text(), Some("high"));
//! # Ok::<(), mcp_threads::Error>(())
//! ```
//!
//! In tests, handlers run one after another, as with [`workers(0)`](crate::Server::workers).

use alloc::boxed::Box;
use alloc::sync::Arc;

use mcp_runtime::client::{Inline, TestPeer};

use crate::Handler;
use crate::handler::SharedHandler;

/// Wraps a handler for `mcp_blocking::testing::Server::from_peer`.
pub fn test_peer(handler: impl Handler) -> Box<dyn TestPeer> {
    Box::new(Inline(SharedHandler(Arc::new(handler))))
}
