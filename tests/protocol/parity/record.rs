//! What an application is told, one line for each event, in words that name neither era nor revision.

use mcp_proto::model::{ElicitParams, InputRequest};
use mcp_proto::{CallError, RawJson};
use mcp_tests::harness::build::value;
use serde_json::Value;

/// Whose application
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Client,
    Server,
}

/// A part of a line that may be permitted to differ while the rest must not
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Facet {
    /// The revision in use
    Revision,
    /// The call that an input is needed for, and the server's name for it
    Purpose,
    /// The `elicitationId` of a page
    PageId,
    /// `resultType` and the server's identity in a result
    Stamps,
    /// `ttlMs` and `cacheScope` in a result
    Hints,
    /// How many were told of a change
    Audience,
    /// What the server was told became of a progress report
    Fate,
    /// The sentence in a progress report
    Sentence,
}

/// One line
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) side: Side,
    pub(super) text: String,
    pub(super) facets: Vec<(Facet, String)>,
}

impl core::fmt::Debug for Line {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}: {}", self.side, self.text)?;
        if self.facets.is_empty() { Ok(()) } else { write!(f, " {:?}", self.facets) }
    }
}

impl Line {
    pub(super) fn new(side: Side, text: impl Into<String>) -> Self {
        Self { side, text: text.into(), facets: Vec::new() }
    }

    pub(super) fn with(mut self, facet: Facet, text: impl Into<String>) -> Self {
        self.facets.push((facet, text.into()));
        self
    }

    /// Leaves a part out
    pub(super) fn drop(&mut self, facet: Facet) {
        self.facets.retain(|(other, _)| *other != facet);
    }
}

/// How a call ended
pub(super) fn ended(name: &str, outcome: &Result<RawJson, CallError>) -> Line {
    let line = |text: &str| Line::new(Side::Client, format!("{name} ended: {text}"));
    match outcome {
        Ok(result) => {
            let mut result = value(result);
            let members = result.as_object_mut().expect("an object");
            let mut take = |names: [&str; 2]| {
                let found = names.map(|name| members.remove(name).unwrap_or(Value::Null));
                found.iter().any(|v| !v.is_null()).then(|| Value::from(found.to_vec()).to_string())
            };
            let (stamps, hints) = (take(["resultType", "_meta"]), take(["ttlMs", "cacheScope"]));
            let mut line = line(&result.to_string());
            line.facets.extend(stamps.map(|text| (Facet::Stamps, text)));
            line.facets.extend(hints.map(|text| (Facet::Hints, text)));
            line
        }
        Err(CallError::Rpc(error)) => line(&format!("error {}: {}", error.code, error.message)),
        Err(error) => line(&format!("not answered: {error}")),
    }
}

/// What a server needs
pub(super) fn needs(request: &InputRequest<'_>) -> Line {
    let line = |text: String| Line::new(Side::Client, format!("needs {text}"));
    match request {
        InputRequest::Elicit(ElicitParams::Form(form)) => {
            let schema = RawJson::encode(&form.requested_schema).expect("JSON");
            line(format!("a form: {} {}", form.message, value(&schema)))
        }
        InputRequest::Elicit(ElicitParams::Url(page)) => {
            let text = line(format!("a page: {} {}", page.message, page.url));
            match &page.elicitation_id {
                Some(id) => text.with(Facet::PageId, id.as_str()),
                None => text,
            }
        }
        InputRequest::CreateMessage(ask) => {
            let tools: Vec<&str> = ask.tools.iter().flatten().map(|tool| &*tool.name).collect();
            let last = ask.messages.last().map(|m| RawJson::encode(&m.content).expect("JSON"));
            let last = last.map(|content| value(&content).to_string());
            line(format!("a model: {last:?} with {tools:?}, {} messages", ask.messages.len()))
        }
        InputRequest::ListRoots(_) => line("roots".into()),
        other => line(format!("{other:?}")),
    }
}
