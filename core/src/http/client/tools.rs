//! The header fields of tools, learned from lists of tools (XHDR).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;

use super::binding::Client;
use super::exchange::{ExchangePurpose, RetryCounts, ToolRefresh};
use super::exchange_table::ClientExchange;
use super::send::MessageParts;
use crate::diagnostic::Diagnostic;
use crate::error::CallError;
use crate::http::params::HeaderParams;
use crate::json::{Scanner, object_members, string, write_str};
use crate::methods;
use crate::raw::RawJson;
use crate::rpc::encode;
use crate::rpc::envelope;
use crate::version::Version;

/// Largest number of pages that are searched for one tool.
const MAX_PAGES: u32 = 64;
/// Length of the longest tool name that is remembered, in bytes; the protocol recommends 128.
const MAX_TOOL_NAME: usize = 1 << 10;

/// The tools with header fields, by name.
#[derive(Debug, Default)]
pub(super) struct ToolHeaders {
    params: BTreeMap<Box<str>, HeaderParams>,
    /// Number of list requests for looking up tools.
    list_requests: i64,
}

impl ToolHeaders {
    /// Adds the fields of a call; none if the tool was never listed (XHDR-030).
    pub(super) fn push_fields(&self, parts: &MessageParts<'_>, push: &mut impl FnMut(&str, &[u8]) -> bool) {
        let known = parts.name.as_deref().and_then(|name| self.params.get(name));
        let (Some(params), Some(arguments)) = (known, parts.arguments) else { return };
        for (name, value) in params.values(arguments) {
            push(name, value.as_bytes()); // XHDR-014 to XHDR-019
        }
    }

    /// Records the schema of a tool; returns the reason if the tool cannot be called (XHDR-011).
    fn learn_schema(&mut self, name: &str, schema: &RawJson, max: usize) -> Result<(), String> {
        match HeaderParams::from_schema(schema) {
            Ok(params) if params.is_empty() => drop(self.params.remove(name)),
            Ok(params) => {
                let fits = self.params.len() < max && name.len() <= MAX_TOOL_NAME;
                if fits || self.params.contains_key(name) {
                    self.params.insert(name.into(), params);
                }
            }
            Err(reason) => {
                self.params.remove(name);
                return Err(reason.to_string());
            }
        }
        Ok(())
    }
}

/// A tool in a list: its text, name and schema.
struct ListedTool<'a> {
    text: &'a [u8],
    name: String,
    schema: RawJson,
}

/// The list in the result of a message, and the cursor of the next page.
struct ToolList<'a> {
    /// The text of the array.
    text: &'a [u8],
    tools: Vec<ListedTool<'a>>,
    next_cursor: Option<&'a [u8]>,
}

fn parse_tool_list(message: &Bytes) -> Option<ToolList<'_>> {
    let (mut result, mut text, mut next) = (None, None, None);
    object_members(message, |name, value| {
        if name == b"result" {
            result = Some(value);
        }
    });
    object_members(result?, |name, value| match name {
        b"tools" => text = Some(value),
        // Other values, `null` for example, are not cursors.
        b"nextCursor" => next = Some(value).filter(|v| v.first() == Some(&b'"')),
        _ => {}
    });
    let text = text.filter(|t| t.first() == Some(&b'['))?;
    let mut tools = Vec::new();
    let mut scanner = Scanner::trusted(text);
    let read = scanner.array(|s| {
        let span = s.value()?;
        let tool = span.slice(text).unwrap_or_default();
        let (mut name, mut schema) = (None, None);
        if tool.first() == Some(&b'{') {
            object_members(tool, |member, value| match member {
                b"name" => name = string(value),
                b"inputSchema" => schema = Some(RawJson::trusted(message.slice_ref(value))),
                _ => {}
            });
        }
        let name = name.map(|n| n.into_owned()).unwrap_or_default();
        let schema = schema.unwrap_or_else(|| RawJson::trusted(Bytes::from_static(b"{}")));
        tools.push(ListedTool { text: tool, name, schema });
        Ok(())
    });
    read.ok().map(|()| ToolList { text, tools, next_cursor: next })
}

impl Client {
    /// Learns from a list of tools; returns the message without tools that cannot be called (XHDR-011, XHDR-012).
    pub(super) fn learn_tools(&mut self, message: Bytes) -> Bytes {
        let is_modern = self.is_modern();
        // The engine refuses invalid messages.
        if !(is_modern || self.mirrors_in_session())
            || envelope::parse(&message, self.engine.config().effective_limits(), None).is_err()
        {
            return message;
        }
        let Some(found) = parse_tool_list(&message) else { return message };
        let mut kept: Vec<&[u8]> = Vec::with_capacity(found.tools.len());
        for tool in &found.tools {
            match self.tools.learn_schema(&tool.name, &tool.schema, self.config.max_tools) {
                // No legacy revision knows the annotations, so an invalid one is no fault there (XHDR-013).
                Err(_) if !is_modern => kept.push(tool.text),
                Ok(()) => kept.push(tool.text),
                Err(reason) => {
                    let name = tool.name.clone();
                    self.engine.report_diagnostic(Diagnostic::InvalidTool { name, reason });
                }
            }
        }
        if kept.len() == found.tools.len() {
            return message;
        }
        // Both slices belong to one allocation.
        let start = found.text.as_ptr() as usize - message.as_ptr() as usize;
        let end = start + found.text.len();
        let mut out = Vec::with_capacity(message.len());
        out.extend_from_slice(message.get(..start).unwrap_or_default());
        out.push(b'[');
        for (i, tool) in kept.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(tool);
        }
        out.push(b']');
        out.extend_from_slice(message.get(end..).unwrap_or_default());
        out.into()
    }

    /// Looks up the tool of a refused call (XHDR-029); returns false if the call names none.
    pub(super) fn begin_tool_refresh(&mut self, x: &ClientExchange, answer: Bytes) -> bool {
        let (Some(call), Some(tool)) =
            (x.request_id().cloned(), MessageParts::parse(&x.body).name.map(Box::from))
        else {
            return false;
        };
        let tries = RetryCounts { refreshes: 1, ..x.retries };
        self.request_tools(ToolRefresh { call, tool, refusal: answer, retries: tries, pages: 0 }, None);
        true
    }

    fn request_tools(&mut self, refresh: ToolRefresh, cursor: Option<&[u8]>) {
        let mut body = Vec::new();
        let version = Version::V2026_07_28;
        // Ids of the engine are positive.
        self.tools.list_requests += 1;
        encode::request_head(&mut body, -self.tools.list_requests, methods::TOOLS_LIST);
        body.extend_from_slice(b",\"params\":{");
        if let Some(cursor) = cursor {
            write_str(&mut body, "cursor");
            body.push(b':');
            body.extend_from_slice(cursor);
            body.push(b',');
        }
        body.extend_from_slice(b"\"_meta\":{");
        body.extend_from_slice(self.engine.config().request_meta(version));
        body.extend_from_slice(b"}}");
        encode::end(&mut body);
        body.pop();
        self.open_exchange(
            ExchangePurpose::RefreshTools(Box::new(refresh)),
            body.into(),
            RetryCounts::default(),
        );
    }

    /// Processes a page of the list.
    pub(super) fn process_tools_page(&mut self, x: ClientExchange, message: &Bytes) {
        let ExchangePurpose::RefreshTools(refresh) = x.purpose().clone() else { return };
        if envelope::parse(message, self.engine.config().effective_limits(), None).is_err() {
            return self.fail_tool_refresh(x);
        }
        let Some(found) = parse_tool_list(message) else { return self.fail_tool_refresh(x) };
        let mut target = None;
        for tool in &found.tools {
            let learned = self.tools.learn_schema(&tool.name, &tool.schema, self.config.max_tools);
            if tool.name == *refresh.tool {
                target = Some(learned);
            }
        }
        match (target, found.next_cursor.filter(|_| refresh.pages + 1 < MAX_PAGES)) {
            (None, Some(cursor)) => {
                let next = ToolRefresh { pages: refresh.pages + 1, ..*refresh };
                self.request_tools(next, Some(cursor));
            }
            // The tool no longer exists; the call would be refused again.
            (None, None) => {
                self.tools.params.remove(&*refresh.tool);
                self.fail_tool_refresh(x);
            }
            (Some(Err(reason)), _) => {
                self.engine.report_diagnostic(Diagnostic::InvalidTool { name: refresh.tool.into(), reason });
                self.fail_tool_refresh(x);
            }
            (Some(Ok(())), _) => match self.engine.exchanges().resend_request(self.now, &refresh.call) {
                Some(again) => self.exchanges.record_repeat(&again, refresh.retries),
                None => self.fail_tool_refresh(x),
            },
        }
    }

    /// Ends the call with its refusal, because the lookup failed.
    pub(super) fn fail_tool_refresh(&mut self, x: ClientExchange) {
        let ExchangePurpose::RefreshTools(refresh) = x.into_purpose() else { return };
        let error = envelope::parse(&refresh.refusal, self.engine.config().effective_limits(), None)
            .ok()
            .and_then(|envelope| envelope.outcome(&refresh.refusal).err());
        if let Some(error) = error {
            self.engine.exchanges().fail_request(self.now, &refresh.call, CallError::Rpc(error));
        }
    }
}
