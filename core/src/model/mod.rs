//! Typed messages: so far what listing and calling tools needs.
//!
//! The names are the specification's. Values borrow where that pays, so that an answer made of what came in is written
//! without a copy in between.

mod content;
mod tools;

pub use content::Content;
pub use tools::{Blocks, CallToolResult, ListToolsResult, Tool, ToolAnnotations};
