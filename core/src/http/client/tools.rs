//! The header fields of tools, learned from lists of tools (XHDR).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;

use super::binding::{Client, MessageParts};
use super::exchange::{CallMethod, ExchangePurpose, RetryCounts, ToolRefresh};
use super::exchange_table::ClientExchange;
use super::session::sends_in_sessions;
use crate::diagnostic::Diagnostic;
use crate::draft::{Deviation, Draft};
use crate::error::CallError;
use crate::head::Fields;
use crate::http::params::HeaderParams;
use crate::json::{Scanner, member, object_members, string, write_str};
use crate::methods;
use crate::raw::RawJson;
use crate::rpc::{self, envelope};
use crate::version::Version;

/// Length of the longest tool name that is remembered, in bytes; the protocol recommends 128.
const MAX_TOOL_NAME: usize = 1 << 10;

/// The tools with header fields, by name.
#[derive(Debug, Default)]
pub(super) struct ToolHeaders {
    params: BTreeMap<Box<str>, HeaderParams>,
    draft: Draft,
    /// Number of list requests for looking up tools.
    list_requests: i64,
    /// Whether a list was received, or requested for looking up tools.
    was_listed: bool,
}

impl ToolHeaders {
    pub(super) fn new(draft: Draft) -> Self {
        Self { draft, ..Self::default() }
    }

    /// Adds the fields of a call; none if the tool was never listed (XHDR-030).
    pub(super) fn push_fields(&self, parts: &MessageParts<'_>, out: &mut Fields) {
        let known = parts.name.as_deref().and_then(|name| self.params.get(name));
        let (Some(params), Some(arguments)) = (known, parts.arguments) else { return };
        for (name, value) in params.values(arguments) {
            out.push(name, value.as_bytes()); // XHDR-014 to XHDR-019
        }
    }

    /// Learns from a list of tools, the invalid ones of which are dropped if `drops_invalid` (XHDR-011 to XHDR-013).
    ///
    /// `max` is the largest number of tools with header fields. Returns the message without dropped tools, and the name
    /// of each with the reason.
    pub(super) fn learn(
        &mut self,
        message: Bytes,
        drops_invalid: bool,
        max: usize,
    ) -> (Bytes, Vec<(String, String)>) {
        let mut invalid = Vec::new();
        let Some(found) = parse_tool_list(&message) else { return (message, invalid) };
        self.was_listed = true;
        let mut kept: Vec<&[u8]> = Vec::with_capacity(found.tools.len());
        for tool in &found.tools {
            match self.learn_schema(&tool.name, &tool.schema, max) {
                Err(reason) if drops_invalid => invalid.push((tool.name.clone(), reason)),
                _ => kept.push(tool.text),
            }
        }
        if invalid.is_empty() {
            return (message, invalid);
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
        (out.into(), invalid)
    }

    /// Returns a `tools/list` request for the page at `cursor`, with this content of its `_meta`.
    pub(super) fn list_request(&mut self, request_meta: &[u8], cursor: Option<&[u8]>) -> Bytes {
        let mut body = Vec::new();
        // Ids of the engine are positive.
        self.list_requests += 1;
        self.was_listed = true;
        rpc::request_head(&mut body, -self.list_requests, methods::TOOLS_LIST);
        body.extend_from_slice(b",\"params\":{");
        if let Some(cursor) = cursor {
            write_str(&mut body, "cursor");
            body.push(b':');
            body.extend_from_slice(cursor);
            body.push(b',');
        }
        body.extend_from_slice(b"\"_meta\":{");
        body.extend_from_slice(request_meta);
        body.extend_from_slice(b"}}");
        rpc::end(&mut body);
        body.pop();
        body.into()
    }

    /// Learns from a page of a list in which `tool` is looked for; `None` if there is no list in the message.
    pub(super) fn learn_page<'a>(&mut self, message: &'a Bytes, tool: &str, max: usize) -> Option<Page<'a>> {
        let list = parse_tool_list(message)?;
        let mut found = None;
        for listed in &list.tools {
            let learned = self.learn_schema(&listed.name, &listed.schema, max);
            if listed.name == *tool {
                found = Some(learned);
            }
        }
        Some(Page { found, next_cursor: list.next_cursor })
    }

    /// Forgets a tool that does not exist any more.
    pub(super) fn forget(&mut self, tool: &str) {
        self.params.remove(tool);
    }

    /// Records the schema of a tool; returns the reason if the tool cannot be called (XHDR-011).
    fn learn_schema(&mut self, name: &str, schema: &RawJson, max: usize) -> Result<(), String> {
        match HeaderParams::read(schema, self.draft) {
            Ok(params) if params.is_empty() => drop(self.params.remove(name)),
            Ok(params) => {
                // A tool that is known is updated in a full table, too.
                let fits = self.params.len() < max && name.len() <= MAX_TOOL_NAME;
                if fits || self.params.contains_key(name) {
                    self.params.insert(name.into(), params);
                }
            }
            Err(reason) => {
                // The fields of an earlier schema must not outlive it.
                self.params.remove(name);
                return Err(reason.to_string());
            }
        }
        Ok(())
    }
}

/// Result of the search for a tool in a page of a list.
pub(super) struct Page<'a> {
    /// Whether the tool can be called, or why not; `None` if the page does not have it.
    pub(super) found: Option<Result<(), String>>,
    /// The cursor of the next page.
    pub(super) next_cursor: Option<&'a [u8]>,
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
    let (mut text, mut next) = (None, None);
    object_members(member(message, "result")?, |name, value| match name {
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

// Lists of tools: what is learned from each, and the look-up of the tool of a refused call (XHDR-029).

/// Largest number of pages that are searched for one tool.
const MAX_PAGES: u32 = 64;

impl Client {
    /// Learns from a list of tools; returns the message without tools that cannot be called (XHDR-011, XHDR-012).
    pub(super) fn learn_tools(&mut self, message: Bytes) -> Bytes {
        let is_modern = self.is_modern();
        let draft = self.engine.config().settings.draft;
        let mirrors = is_modern || self.session.mirrors_fields(&self.config, draft, self.engine.peer());
        let drops_invalid =
            is_modern || (draft.contains(Deviation::InvalidToolsLeftOut) && !self.session.is_http_sse());
        // The engine refuses invalid messages.
        if !(mirrors || drops_invalid)
            || envelope::parse(&message, self.engine.config().effective_limits(), None).is_err()
        {
            return message;
        }
        let (message, invalid) = self.tools.learn(message, drops_invalid, self.config.max_tools);
        for (name, reason) in invalid {
            self.engine.report_diagnostic(Diagnostic::InvalidTool { name, reason });
        }
        message
    }

    /// Looks up the tool of a refused call (XHDR-029), or of one that was not sent; returns false if the call names none.
    pub(super) fn begin_tool_refresh(&mut self, x: &ClientExchange, answer: Bytes) -> bool {
        let (Some(call), Some(tool)) =
            (x.request_id().cloned(), MessageParts::parse(&x.body).name.map(Box::from))
        else {
            return false;
        };
        // With this count a second refusal ends the call (see `process_body`).
        let tries = RetryCounts { refreshes: u8::from(!answer.is_empty()), ..x.retries };
        let message = x.body.clone();
        let refresh = ToolRefresh { call, tool, message, refusal: answer, retries: tries, pages: 0 };
        self.request_tools(refresh, None);
        true
    }

    fn request_tools(&mut self, refresh: ToolRefresh, cursor: Option<&[u8]>) {
        let meta: &[u8] = match self.is_modern() {
            true => self.engine.config().request_meta(Version::V2026_07_28),
            false => b"",
        };
        let body = self.tools.list_request(meta, cursor);
        self.open_exchange(ExchangePurpose::RefreshTools(Box::new(refresh)), body, RetryCounts::default());
    }

    /// Processes a page of the list.
    pub(super) fn process_tools_page(&mut self, x: ClientExchange, message: &Bytes) {
        let ExchangePurpose::RefreshTools(refresh) = x.purpose().clone() else { return };
        let is_message = envelope::parse(message, self.engine.config().effective_limits(), None).is_ok();
        let page = self.tools.learn_page(message, &refresh.tool, self.config.max_tools);
        let Some(page) = page.filter(|_| is_message) else { return self.fail_tool_refresh(x) };
        // A server could return cursors without end, so the number of pages is bounded.
        match (page.found, page.next_cursor.filter(|_| refresh.pages + 1 < MAX_PAGES)) {
            (None, Some(cursor)) => {
                let next = ToolRefresh { pages: refresh.pages + 1, ..*refresh };
                self.request_tools(next, Some(cursor));
            }
            // The tool no longer exists; the call would be refused again.
            (None, None) => {
                self.tools.forget(&refresh.tool);
                self.fail_tool_refresh(x);
            }
            (Some(Err(reason)), _) => {
                self.engine.report_diagnostic(Diagnostic::InvalidTool { name: refresh.tool.into(), reason });
                self.fail_tool_refresh(x);
            }
            // In a session the same request is sent: what was refused was not begun.
            (Some(Ok(())), _) if !self.is_modern() => send_looked_up(self, *refresh),
            (Some(Ok(())), _) => match self.engine.exchanges().resend_request(self.now, &refresh.call) {
                Some(again) => self.exchanges.requests().record_repeat(&again, refresh.retries),
                None => self.fail_tool_refresh(x),
            },
        }
    }

    /// Ends the call with its refusal, because the lookup failed. One that was not sent is sent without the fields.
    pub(super) fn fail_tool_refresh(&mut self, x: ClientExchange) {
        let ExchangePurpose::RefreshTools(refresh) = x.into_purpose() else { return };
        if refresh.refusal.is_empty() {
            return send_looked_up(self, *refresh);
        }
        let error = envelope::parse(&refresh.refusal, self.engine.config().effective_limits(), None)
            .ok()
            .and_then(|envelope| envelope.outcome(&refresh.refusal).err());
        if let Some(error) = error {
            self.engine.exchanges().fail_request(self.now, &refresh.call, CallError::Rpc(error));
        }
    }
}

/// Returns whether the session is one of a draft, whose requests have the mirrored fields.
pub(super) fn has_draft_session(client: &Client) -> bool {
    let draft = client.engine.config().settings.draft;
    sends_in_sessions(draft) && client.is_legacy() && !client.session.is_http_sse()
}

/// Returns whether a request of a handshake or a session lacks the fields that a draft has there.
pub(super) fn lacks_draft(client: &Client, x: &ClientExchange) -> bool {
    let is_probe = matches!(x.purpose(), ExchangePurpose::Call { method: CallMethod::Probe, .. });
    !is_probe && !client.is_modern() && !sends_in_sessions(client.engine.config().settings.draft)
}

/// Lists the tools before the first call of a session of a draft, which has to have their fields; returns false if this is
/// none.
pub(super) fn begin_first_list(client: &mut Client, x: &ClientExchange) -> bool {
    let is_call = matches!(x.purpose(), ExchangePurpose::Call { method: CallMethod::CallTool, .. });
    let is_needed = is_call && !client.tools.was_listed && has_draft_session(client);
    is_needed && client.begin_tool_refresh(x, Bytes::new())
}

/// Sends the call of a lookup in a session, unless it no longer waits for its answer.
fn send_looked_up(client: &mut Client, ToolRefresh { call, message, retries, .. }: ToolRefresh) {
    if client.engine.awaits_response(&call) {
        let purpose = ExchangePurpose::Call { id: call, method: CallMethod::CallTool };
        client.open_exchange(purpose, message, retries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = concat!(
        r#"{"jsonrpc":"2.0","id":1,"result":{"tools":["#,
        r#"{"name":"good","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}},"#,
        r#"{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}},"#,
        r#"{"name":"plain","inputSchema":{"type":"object"}}],"nextCursor":"2"}}"#
    );

    fn known(tools: &ToolHeaders) -> Vec<&str> {
        tools.params.keys().map(|name| &**name).collect()
    }

    // covers: XHDR-011, XHDR-012, XHDR-013
    #[test]
    fn invalid_tool_is_dropped_from_the_list_if_the_revision_knows_the_annotations() {
        let message = Bytes::from_static(LIST.as_bytes());
        let mut tools = ToolHeaders::default();
        let (kept, invalid) = tools.learn(message.clone(), false, 10);
        assert_eq!((kept, invalid.len(), known(&tools)), (message.clone(), 0, alloc::vec!["good"]));
        let (kept, invalid) = tools.learn(message.clone(), true, 10);
        assert_eq!((invalid.len(), &*invalid[0].0), (1, "bad"));
        let listed = parse_tool_list(&kept).expect("still a list");
        let names: Vec<&str> = listed.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!((names, listed.next_cursor), (alloc::vec!["good", "plain"], Some(&b"\"2\""[..])));
    }

    #[test]
    fn page_tells_of_the_tool_and_of_the_next_page() {
        let message = Bytes::from_static(LIST.as_bytes());
        let mut tools = ToolHeaders::default();
        let mut found = |tool: &str| tools.learn_page(&message, tool, 10).expect("a list").found;
        assert_eq!((found("good"), found("plain"), found("other")), (Some(Ok(())), Some(Ok(())), None));
        assert!(matches!(found("bad"), Some(Err(_))));
        tools.forget("good");
        assert!(known(&tools).is_empty());
        let page = tools.learn_page(&message, "good", 0).expect("a list");
        assert_eq!((page.next_cursor, known(&tools).len()), (Some(&b"\"2\""[..]), 0), "the limit is reached");
    }

    #[test]
    fn list_requests_have_ids_of_their_own() {
        let mut tools = ToolHeaders::default();
        let first = tools.list_request(b"", None);
        let next = tools.list_request(b"", Some(b"\"2\""));
        let [first, next] = [&first, &next].map(|message| MessageParts::parse(message));
        assert!(first.id.is_some() && first.id != next.id);
        assert_eq!((first.has_cursor, next.has_cursor), (false, true));
        assert_eq!(next.method.as_deref(), Some(methods::TOOLS_LIST));
    }
}
