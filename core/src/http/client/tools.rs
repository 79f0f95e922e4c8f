//! What tools ask for in header fields, learned from their lists (XHDR).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;

use super::binding::Client;
use super::exchange::{Exchange, Phase, Refresh, Tries, What};
use super::send::Parts;
use crate::diagnostic::Diagnostic;
use crate::error::CallError;
use crate::http::params::HeaderParams;
use crate::json::{Scanner, object_members, string, write_str};
use crate::raw::RawJson;
use crate::rpc::encode;
use crate::rpc::envelope;
use crate::version::Version;
use crate::vocab;

/// How many pages are looked through for one tool
const MAX_PAGES: u32 = 64;
/// Longest name of a tool that is remembered, in bytes; the protocol advises 128
const MAX_NAME: usize = 1 << 10;

/// The tools that ask for header fields, by name
#[derive(Debug, Default)]
pub(super) struct Tools {
    known: BTreeMap<Box<str>, HeaderParams>,
    /// Lists that were asked for to look a tool up
    asked: i64,
}

impl Tools {
    /// The fields that a call of a tool needs; none for a tool that was never seen (XHDR-030)
    pub(super) fn fields(&self, parts: &Parts<'_>, push: &mut impl FnMut(&str, &[u8]) -> bool) {
        let known = parts.name.as_deref().and_then(|name| self.known.get(name));
        let (Some(params), Some(arguments)) = (known, parts.arguments) else { return };
        for (name, value) in params.values(arguments) {
            push(name, value.as_bytes()); // XHDR-014 to XHDR-019
        }
    }

    /// Takes note of a tool's schema; why it cannot be called, if that is so (XHDR-011)
    fn note(&mut self, name: &str, schema: &RawJson, max: usize) -> Result<(), String> {
        match HeaderParams::of(schema) {
            Ok(params) if params.is_empty() => drop(self.known.remove(name)),
            Ok(params) => {
                let fits = self.known.len() < max && name.len() <= MAX_NAME;
                if fits || self.known.contains_key(name) {
                    self.known.insert(name.into(), params);
                }
            }
            Err(why) => {
                self.known.remove(name);
                return Err(why.to_string());
            }
        }
        Ok(())
    }
}

/// A tool in a list: where it stands, its name, its schema
struct Tool<'a> {
    text: &'a [u8],
    name: String,
    schema: RawJson,
}

/// The list in the result of a message, and the cursor of the next page
struct List<'a> {
    /// The array
    text: &'a [u8],
    tools: Vec<Tool<'a>>,
    next: Option<&'a [u8]>,
}

fn list(message: &Bytes) -> Option<List<'_>> {
    let (mut result, mut text, mut next) = (None, None, None);
    object_members(message, |name, value| {
        if name == b"result" {
            result = Some(value);
        }
    });
    object_members(result?, |name, value| match name {
        b"tools" => text = Some(value),
        // Anything else is no cursor, `null` for one.
        b"nextCursor" => next = Some(value).filter(|v| v.first() == Some(&b'"')),
        _ => {}
    });
    let text = text.filter(|t| t.first() == Some(&b'['))?;
    let mut tools = Vec::new();
    let mut scanner = Scanner::trusted(text);
    let read = scanner.array(|s| {
        let span = s.value()?;
        let tool = span.of(text).unwrap_or_default();
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
        tools.push(Tool { text: tool, name, schema });
        Ok(())
    });
    read.ok().map(|()| List { text, tools, next })
}

impl Client {
    /// Learns from a list of tools; the message without those that cannot be called (XHDR-011, XHDR-012)
    pub(super) fn learn(&mut self, message: Bytes) -> Bytes {
        // What is no valid message is the engine's to refuse.
        if !self.is_modern() || envelope::parse(&message, self.engine.config().get_limits(), None).is_err() {
            return message;
        }
        let Some(found) = list(&message) else { return message };
        let mut kept: Vec<&[u8]> = Vec::with_capacity(found.tools.len());
        for tool in &found.tools {
            match self.tools.note(&tool.name, &tool.schema, self.config.max_tools) {
                Ok(()) => kept.push(tool.text),
                Err(why) => {
                    let name = tool.name.clone();
                    self.engine.note(Diagnostic::InvalidTool { name, why });
                }
            }
        }
        if kept.len() == found.tools.len() {
            return message;
        }
        // Where the array stands: both are parts of one allocation.
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

    /// Looks a tool up whose call was refused for its header fields (XHDR-029); false for a call that names none
    pub(super) fn refresh(&mut self, x: &Exchange, answer: Bytes) -> bool {
        let (Some(call), Some(tool)) = (x.what.request().cloned(), Parts::of(&x.body).name.map(Box::from))
        else {
            return false;
        };
        let tries = Tries { refreshes: 1, ..x.tries };
        self.ask_for_tools(Refresh { call, tool, answer, tries, pages: 0 }, None);
        true
    }

    fn ask_for_tools(&mut self, refresh: Refresh, cursor: Option<&[u8]>) {
        let mut body = Vec::new();
        let version = Version::V2026_07_28;
        // The engine's ids are numbers from 1 on.
        self.tools.asked += 1;
        encode::request_head(&mut body, -self.tools.asked, vocab::TOOLS_LIST);
        body.extend_from_slice(b",\"params\":{");
        if let Some(cursor) = cursor {
            write_str(&mut body, "cursor");
            body.push(b':');
            body.extend_from_slice(cursor);
            body.push(b',');
        }
        body.extend_from_slice(b"\"_meta\":{");
        body.extend_from_slice(self.engine.config().stamp(version));
        body.extend_from_slice(b"}}");
        encode::end(&mut body);
        body.pop();
        self.open(What::Tools(Box::new(refresh)), body.into(), Tries::default());
    }

    /// A page of the list has come
    pub(super) fn refreshed(&mut self, x: Exchange, message: &Bytes) {
        let What::Tools(refresh) = x.what.clone() else { return };
        if envelope::parse(message, self.engine.config().get_limits(), None).is_err() {
            return self.not_refreshed(x);
        }
        let Some(found) = list(message) else { return self.not_refreshed(x) };
        let mut there = None;
        for tool in &found.tools {
            let noted = self.tools.note(&tool.name, &tool.schema, self.config.max_tools);
            if tool.name == *refresh.tool {
                there = Some(noted);
            }
        }
        match (there, found.next.filter(|_| refresh.pages + 1 < MAX_PAGES)) {
            (None, Some(cursor)) => {
                let next = Refresh { pages: refresh.pages + 1, ..*refresh };
                self.ask_for_tools(next, Some(cursor));
            }
            // It is gone: the same call would be refused for the same reason.
            (None, None) => {
                self.tools.known.remove(&*refresh.tool);
                self.not_refreshed(x);
            }
            (Some(Err(why)), _) => {
                self.engine.note(Diagnostic::InvalidTool { name: refresh.tool.into(), why });
                self.not_refreshed(x);
            }
            (Some(Ok(())), _) => match self.engine.repeat_request(self.now, self.channel, &refresh.call) {
                Some(again) => self.carried.push((again, refresh.tries)),
                None => self.not_refreshed(Exchange { phase: Phase::Sent, ..x }),
            },
        }
    }

    /// The tool could not be looked up: the call ends with what it was refused with
    pub(super) fn not_refreshed(&mut self, x: Exchange) {
        let What::Tools(refresh) = x.what else { return };
        let error = envelope::parse(&refresh.answer, self.engine.config().get_limits(), None)
            .ok()
            .and_then(|envelope| envelope.outcome(&refresh.answer).err());
        if let Some(error) = error {
            self.engine.fail_request(self.now, self.channel, &refresh.call, CallError::Rpc(error));
        }
    }
}
