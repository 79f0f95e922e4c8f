//! Tools, resources, templates, prompts and completions by name, each with a handler: the layer for servers that do not
//! want to read requests by hand.
//!
//! A [`Router`] knows what is registered; it does no I/O and runs nothing. For each call that an engine delivers,
//! [`Router::route`] says what to do: give an answer that the router makes itself (lists), run a handler, or refuse.
//! Whatever the handlers are (`H`) is the adapter's business.
//!
//! ```
//! use std::sync::Arc;
//! use mcp_proto::model::Tool;
//! use mcp_proto::pipe::{Pipe, Server};
//! use mcp_proto::router::{IntoToolResult, Route, Router, Target};
//! use mcp_proto::{Instant, RawJson, server::Event};
//!
//! #[derive(serde::Deserialize)]
//! struct Add { a: i64, b: i64 }
//!
//! type Handler = fn(Add) -> i64;
//! let mut router = Router::<Handler>::new("calc", "1.0");
//! let schema = r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}"#;
//! router.tool(Tool::new("add", RawJson::new(schema)?), |add| add.a + add.b)?;
//!
//! let mut server = Server::new(Arc::new(router.config()), Instant::ZERO);
//! let now = Instant::ZERO;
//! // … input …
//! while let Some(event) = server.poll_event(now) {
//!     let Event::Call(call) = event else { continue };
//!     match router.route(&call) {
//!         Route::Answer(answer) => server.engine().complete(now, call.id(), &answer)?,
//!         Route::Refuse(error) => server.engine().fail(now, call.id(), &error)?,
//!         Route::Handle(work) => match &work.target {
//!             Target::Tool(tool) => {
//!                 let result = match tool.parse() {
//!                     Ok(add) => (work.handler)(add).into_tool_result()?,
//!                     Err(bad) => bad.into_result(),
//!                 };
//!                 server.engine().complete(now, call.id(), &result)?;
//!             }
//!             _ => {}
//!         },
//!         _ => {}
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cache;
#[cfg(test)]
mod calls_tests;
mod check;
mod entries;
mod hooks;
mod kinds;
#[cfg(test)]
mod lists_tests;
mod nest;
mod page;
mod params;
mod registry;
#[cfg(test)]
mod registry_tests;
mod results;
mod route;
#[cfg(feature = "schemars")]
pub mod schema;
pub mod template;
#[cfg(test)]
mod tests;
mod texts;

pub use cache::PageCache;
pub use check::{BadArguments, BadResult};
pub use hooks::{Asked, Hook, Outcome, Subject};
pub use kinds::{Changed, RegisterError, check_tool_name};
pub use page::{CacheHint, Page};
pub use registry::Router;
pub use results::{
    IntoCompletion, IntoPromptResult, IntoReadResult, IntoToolResult, Json, NoResult, suggest,
};
pub use route::{Answer, CompletionTarget, PromptTarget, ResourceTarget, Route, Target, ToolTarget, Work};

pub use crate::validate::{SchemaError, SchemaValidator, Validate, Violations};
pub use crate::vocab::Kind;
