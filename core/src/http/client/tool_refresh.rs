//! Lists of tools: what is learned from each, and the look-up of the tool of a refused call (XHDR-029).

use alloc::boxed::Box;

use bytes::Bytes;

use super::binding::Client;
use super::exchange::{ExchangePurpose, RetryCounts, ToolRefresh};
use super::exchange_table::ClientExchange;
use super::message_parts::MessageParts;
use crate::diagnostic::Diagnostic;
use crate::draft::Deviation;
use crate::error::CallError;
use crate::rpc::envelope;
use crate::version::Version;

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
        let body = self.tools.list_request(self.engine.config().request_meta(Version::V2026_07_28), cursor);
        self.open_exchange(ExchangePurpose::RefreshTools(Box::new(refresh)), body, RetryCounts::default());
    }

    /// Processes a page of the list.
    pub(super) fn process_tools_page(&mut self, x: ClientExchange, message: &Bytes) {
        let ExchangePurpose::RefreshTools(refresh) = x.purpose().clone() else { return };
        let is_message = envelope::parse(message, self.engine.config().effective_limits(), None).is_ok();
        let page = self.tools.learn_page(message, &refresh.tool, self.config.max_tools);
        let Some(page) = page.filter(|_| is_message) else { return self.fail_tool_refresh(x) };
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
            (Some(Ok(())), _) => match self.engine.exchanges().resend_request(self.now, &refresh.call) {
                Some(again) => self.exchanges.requests().record_repeat(&again, refresh.retries),
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
