//! The request fields that repeat arguments of tools (`x-mcp-header`; XHDR-021 to XHDR-027).
//!
//! The server calls them through a trait object that [`Server::set_tool_schema`](super::Server::set_tool_schema) installs, so a
//! program without such schemas links no comparison.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::head::FieldLine;
use crate::http::params::HeaderParams;
use crate::rpc::{RpcError, code};

/// The repeated arguments of the tools of a server.
pub(super) trait ToolFields: fmt::Debug + Send + Sync {
    /// Sets the repeated arguments of a tool.
    fn set(&mut self, tool: &str, params: HeaderParams);

    /// Removes the repeated arguments of a tool.
    fn remove(&mut self, tool: &str);

    /// Compares the fields of a call with its arguments; an absent field is an error if it is `required`.
    fn check(
        &self,
        tool: &str,
        arguments: &[u8],
        fields: &mut dyn Iterator<Item = FieldLine<'_>>,
        required: bool,
    ) -> Result<(), RpcError>;

    /// Appends the names of the fields to a list.
    fn append_names(&self, list: &mut String);
}

/// Creates an empty table.
pub(super) fn tool_fields() -> Box<dyn ToolFields> {
    Box::<ToolTable>::default()
}

/// The repeated arguments of each tool that has any, sorted by tool name.
#[derive(Debug, Default)]
struct ToolTable(Vec<(Box<str>, HeaderParams)>);

impl ToolFields for ToolTable {
    fn set(&mut self, tool: &str, params: HeaderParams) {
        self.remove(tool);
        let at = self.0.partition_point(|(name, _)| **name < *tool);
        self.0.insert(at, (tool.into(), params));
    }

    fn remove(&mut self, tool: &str) {
        if let Ok(at) = self.0.binary_search_by(|(name, _)| (**name).cmp(tool)) {
            self.0.remove(at);
        }
    }

    fn check(
        &self,
        tool: &str,
        arguments: &[u8],
        fields: &mut dyn Iterator<Item = FieldLine<'_>>,
        required: bool,
    ) -> Result<(), RpcError> {
        let found = self.0.binary_search_by(|(name, _)| (**name).cmp(tool));
        let Some((_, wanted)) = found.ok().and_then(|at| self.0.get(at)) else { return Ok(()) };
        let fields: Vec<FieldLine<'_>> = fields.collect();
        let checked = if required {
            wanted.check(arguments, &fields)
        } else {
            wanted.check_present(arguments, &fields)
        };
        checked.map_err(|reason| RpcError::new(code::HEADER_MISMATCH, format!("{reason}")))
    }

    fn append_names(&self, list: &mut String) {
        for name in self.0.iter().flat_map(|(_, tool)| tool.names()) {
            list.push_str(", ");
            list.push_str(name);
        }
    }
}
