//! What is made of a trace (feature `views`): its differences from another one, a page, HTTP exchanges and spans.
//!
//! ```
//! use mcp_proto_trace::{Trace, views};
//!
//! let trace = Trace::read(&b"{\"mcpTrace\":1,\"by\":\"a\",\"unixMillis\":0,\"command\":[],\"masked\":true}\n"[..], 1 << 20)?;
//! let page = views::html(&trace);
//! assert!(page.text.contains("<html") && page.notes.is_empty());
//! assert!(views::diff(&trace, &trace).is_empty());
//! # Ok::<(), mcp_proto_trace::TraceError>(())
//! ```

mod diff;
mod har;
mod html;
mod otlp;

use alloc::string::String;
use alloc::vec::Vec;

use crate::Outcome;

pub use diff::{Change, Divergence, diff};
pub use har::{NoExchange, har};
pub use html::html;
pub use otlp::otlp;

/// What is made of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct View {
    /// The text of the file.
    pub text: String,
    /// What it lacks, in English.
    pub notes: Vec<String>,
}

/// The program that makes a view, as the view names it.
#[derive(Clone, Copy, Debug)]
pub struct Producer<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
}

impl Outcome {
    /// Returns the name of the outcome in JSON: `ok`, `tool_error`, `error`, `cancelled` or `unanswered`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Succeeded => "ok",
            Self::ToolError => "tool_error",
            Self::Failed { .. } => "error",
            Self::Cancelled => "cancelled",
            Self::Unanswered => "unanswered",
        }
    }
}
