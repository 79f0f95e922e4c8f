//! Tests of servers on virtual time, a simulated clock that advances when nothing else is left to do.
//!
//! `mcp_blocking::testing::pair` connects a client to a [`Router`](crate::Router) in memory and in one thread. A
//! program on smol needs `mcp-blocking` as a dev-dependency only.
//!
//! ```
//! use std::time::Duration;
//! use mcp_smol::mcp_proto::{RawJson, model::Tool};
//! use mcp_smol::{Cx, Router, ok};
//!
//! let mut router = Router::new("harbour", "1.0");
//! let schema = RawJson::new(r#"{"type":"object"}"#).unwrap();
//! router.tool_with(Tool::new("tide", schema), async |cx: &mut Cx, _: serde_json::Value| {
//!     cx.sleep(Duration::from_secs(30)).await?; // returns immediately
//!     ok("high")
//! });
//!
//! let client = mcp_blocking::testing::pair(router, Default::default())?;
//! let result = client.call_tool("tide", &serde_json::json!({}))?;
//! assert_eq!(result.content[0].as_text(), Some("high"));
//! # Ok::<(), mcp_smol::Error>(())
//! ```
//!
//! Handlers run concurrently, and the future of a cancelled call is dropped, as in production.
//! [`Cx::sleep`](crate::Cx::sleep) takes virtual time. Other waits of a handler (timers and sockets of the runtime,
//! other threads) take real time. When nothing else is left to do, the test waits for them for up to one second; then
//! virtual time advances without them.

use alloc::boxed::Box;

use mcp_runtime::client::TestPeer;

use crate::{Handler, Smol};

/// Wraps a handler for `mcp_blocking::testing::Server::from_peer`.
#[inline]
pub fn test_peer(handler: impl Handler + 'static) -> Box<dyn TestPeer> {
    mcp_runtime::runtime::testing::test_peer::<Smol>(handler)
}
