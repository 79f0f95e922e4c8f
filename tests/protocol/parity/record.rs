//! The record of an application: one line for each event, in words that name neither era nor revision.

use mcp_proto::model::{ElicitParams, InputRequest};
use mcp_proto::{CallError, RawJson};
use mcp_tests::harness::build::to_value;
use serde_json::Value;

/// The application that a line belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordSide {
    Client,
    Server,
}

/// A part of a line that may differ while the rest must be equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Facet {
    /// The revision in use.
    Revision,
    /// The call of an input request, and its key.
    Purpose,
    /// The `elicitationId` of a URL elicitation.
    PageId,
    /// `resultType` and the server's identity in a result.
    Stamps,
    /// `ttlMs` and `cacheScope` in a result.
    Hints,
    /// `isError` of a result that is none.
    SuccessFlag,
    /// The number of receivers of a change.
    PublishCount,
    /// The `SendStatus` of a progress report at the server.
    ProgressStatus,
    /// The message of a progress report.
    ProgressMessage,
}

/// One line of the record.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RecordLine {
    pub(super) side: RecordSide,
    pub(super) text: String,
    pub(super) facets: Vec<(Facet, String)>,
}

impl core::fmt::Debug for RecordLine {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}: {}", self.side, self.text)?;
        if self.facets.is_empty() { Ok(()) } else { write!(f, " {:?}", self.facets) }
    }
}

impl RecordLine {
    pub(super) fn new(side: RecordSide, text: impl Into<String>) -> Self {
        Self { side, text: text.into(), facets: Vec::new() }
    }

    pub(super) fn with_facet(mut self, facet: Facet, text: impl Into<String>) -> Self {
        self.facets.push((facet, text.into()));
        self
    }

    /// Removes a facet from the line.
    pub(super) fn remove_facet(&mut self, facet: Facet) {
        self.facets.retain(|(other, _)| *other != facet);
    }
}

/// Describes how a call ended.
pub(super) fn describe_outcome(name: &str, outcome: &Result<RawJson, CallError>) -> RecordLine {
    let line = |text: &str| RecordLine::new(RecordSide::Client, format!("{name} ended: {text}"));
    match outcome {
        Ok(result) => {
            let mut result = to_value(result);
            let members = result.as_object_mut().expect("an object");
            let mut take = |names: [&str; 2]| {
                let found = names.map(|name| members.remove(name).unwrap_or(Value::Null));
                found.iter().any(|v| !v.is_null()).then(|| Value::from(found.to_vec()).to_string())
            };
            let (stamps, hints) = (take(["resultType", "_meta"]), take(["ttlMs", "cacheScope"]));
            let flag = members.get("isError").is_some_and(|flag| flag == false);
            if flag {
                members.remove("isError");
            }
            let mut line = line(&result.to_string());
            line.facets.extend(flag.then(|| (Facet::SuccessFlag, "false".into())));
            line.facets.extend(stamps.map(|text| (Facet::Stamps, text)));
            line.facets.extend(hints.map(|text| (Facet::Hints, text)));
            line
        }
        Err(CallError::Rpc(error)) => line(&format!("error {}: {}", error.code, error.message)),
        Err(error) => line(&format!("not answered: {error}")),
    }
}

/// Describes an input request.
#[expect(deprecated, reason = "tested until its removal")]
pub(super) fn describe_input(request: &InputRequest<'_>) -> RecordLine {
    let line = |text: String| RecordLine::new(RecordSide::Client, format!("needs {text}"));
    match request {
        InputRequest::Elicit(ElicitParams::Form(form)) => {
            let schema = RawJson::encode(&form.requested_schema).expect("JSON");
            line(format!("a form: {} {}", form.message, to_value(&schema)))
        }
        InputRequest::Elicit(ElicitParams::Url(page)) => {
            let text = line(format!("a page: {} {}", page.message, page.url));
            match &page.elicitation_id {
                Some(id) => text.with_facet(Facet::PageId, id.as_str()),
                None => text,
            }
        }
        InputRequest::CreateMessage(params) => {
            let tools: Vec<&str> = params.tools.iter().flatten().map(|tool| &*tool.name).collect();
            let last = params.messages.last().map(|m| RawJson::encode(&m.content).expect("JSON"));
            let last = last.map(|content| to_value(&content).to_string());
            line(format!("a model: {last:?} with {tools:?}, {} messages", params.messages.len()))
        }
        InputRequest::ListRoots(_) => line("roots".into()),
        other => line(format!("{other:?}")),
    }
}
