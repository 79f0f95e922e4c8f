//! Router: tools, resources, templates, prompts and completions by name, each with a handler.
//!
//! It is a layer for servers that do not decode requests themselves (DESIGN-03). A [`Router`] holds the registered
//! entries; it does no I/O and runs no handler. For each call that an engine delivers, [`Router::route`] returns what
//! to do: send an answer that the router makes itself (lists), run a handler, or refuse. The adapter chooses the
//! handler type `H`.
//!
//! ```
//! use std::sync::Arc;
//! use mcp_proto::model::Tool;
//! use mcp_proto::pipe::{Pipe, Server};
//! use mcp_proto::router::{CallTarget, HookOutcome, IntoToolResult, Route, Router};
//! use mcp_proto::{Instant, RawJson, server::Event};
//!
//! #[derive(serde::Deserialize)]
//! struct Add { a: i64, b: i64 }
//!
//! type Handler = fn(Add) -> i64;
//! let mut router = Router::<Handler>::new("calc", "1.0");
//! let schema =
//!     r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}"#;
//! router.tool(Tool::new("add", RawJson::new(schema)?), |add| add.a + add.b)?;
//!
//! let mut server = Server::new(Arc::new(router.config()), Instant::ZERO);
//! let now = Instant::ZERO;
//! // Bytes of a client.
//! # let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
//! # let params = format!(r#"{{"name":"add","arguments":{{"a":20,"b":22}},"_meta":{meta}}}"#);
//! # let input = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#) + "\n";
//! server.handle_input(now, input.as_bytes());
//! while let Some(event) = server.poll_event(now) {
//!     let Event::Call(call) = event else { continue };
//!     match router.route(&call) {
//!         Route::Answer(answer) => server.engine().complete(now, call.id(), &answer)?,
//!         Route::Refuse(error) => server.engine().fail(now, call.id(), &error)?,
//!         Route::Handle(routed) => {
//!             // It has tools alone.
//!             let CallTarget::Tool(tool) = &routed.target else { continue };
//!             let result = match tool.parse() {
//!                 Ok(add) => (routed.handler)(add).into_tool_result().or_else(|error| error.into_result())?,
//!                 Err(error) => error.into_result()?,
//!             };
//!             server.engine().complete(now, call.id(), &result)?;
//!             // Hooks learn of the outcome, once for each call that a handler got.
//!             let failed = result.is_failure();
//!             router.finish(routed.context(), if failed { HookOutcome::ToolFailed } else { HookOutcome::Completed });
//!         }
//!         _ => {}
//!     }
//! }
//! # assert!(String::from_utf8_lossy(server.transmit()).contains(r#""text":"42""#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access_rules;
mod apps;
#[cfg(test)]
mod apps_tests;
mod cache;
#[cfg(test)]
mod calls_tests;
#[cfg(test)]
mod continued_tests;
mod entries;
#[cfg(test)]
#[path = "../exhaustive/tables/router.rs"]
mod exhaustive_tables;
#[cfg(test)]
mod folder_tests;
mod hooks;
#[cfg(test)]
mod lists_tests;
mod page;
mod params;
mod pending;
mod registration;
mod registry;
#[cfg(test)]
mod registry_tests;
mod results;
mod route;
#[cfg(feature = "schemars")]
pub mod schema;
mod skills;
#[cfg(test)]
mod skills_tests;
#[cfg(all(test, feature = "tasks"))]
mod task_support_tests;
pub mod template;
#[cfg(test)]
mod tests;
mod text_deserializer;
mod tool_entry;
mod visibility;
#[cfg(test)]
mod visibility_tests;

pub use access_rules::AccessRules;
pub use cache::PageCache;
pub use hooks::{EnclosingHooks, Hook, HookContext, HookOutcome, Subject};
pub use page::{CacheHint, CatalogPage};
pub use params::{ToolArguments, UntypedArguments};
pub use registration::{ChangedLists, RegisterError, RegisterErrors, check_tool_name};
pub use registry::Router;
pub use results::{
    Failure, HandlerError, IntoCompletion, IntoHandlerError, IntoPromptResult, IntoReadResult,
    IntoToolResult, Json, ok, suggest,
};
pub use route::{
    CallTarget, CompletionTarget, PromptTarget, ResourceTarget, Route, RoutedCall, RouterAnswer, ToolTarget,
};
pub use skills::{FolderEntry, SkillAnswer};
pub use tool_entry::{InvalidArguments, InvalidToolOutput, ToolEntry, undescribed_tools};
pub use visibility::{Visibility, VisibilityGuard};

pub use crate::validate::{SchemaError, SchemaValidator, Validate, Violations};
