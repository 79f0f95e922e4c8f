//! The facts of a request that spans and metrics share.

use alloc::sync::Arc;

use mcp_proto::Version;
use mcp_proto::observe::{Direction, RequestStart};
use opentelemetry::StringValue;

use crate::labels::{self, MAX_NAME, MAX_URI, Names, OTHER};
use crate::telemetry::Telemetry;

/// Kind of the subject of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SubjectKind {
    Tool,
    Prompt,
    Resource,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) direction: Direction,
    /// Method, or [`OTHER`].
    pub(crate) method: &'static str,
    pub(crate) version: Option<Version>,
    pub(crate) kind: Option<SubjectKind>,
    /// Name of the tool or prompt, or URI of the resource.
    pub(crate) subject: Option<Box<str>>,
    /// The name, if it is a label.
    pub(crate) known: Option<Arc<str>>,
}

impl Operation {
    pub(crate) fn new(
        start: &RequestStart<'_>,
        settings: &Telemetry,
        tools: &Names,
        prompts: &Names,
    ) -> Self {
        let method = labels::method(start.method, &settings.methods);
        let kind = match method {
            "tools/call" => Some(SubjectKind::Tool),
            "prompts/get" => Some(SubjectKind::Prompt),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe"
                if settings.has_resource_uris =>
            {
                Some(SubjectKind::Resource)
            }
            _ => None,
        };
        let max = if kind == Some(SubjectKind::Resource) { MAX_URI } else { MAX_NAME };
        let subject = kind.and(start.subject.as_deref()).map(|subject| labels::clean(subject, max));
        let known = match (kind, &subject) {
            (Some(SubjectKind::Tool), Some(name)) => tools.get(name),
            (Some(SubjectKind::Prompt), Some(name)) => prompts.get(name),
            _ => None,
        };
        // A known name is kept once.
        let subject = if known.is_some() { None } else { subject.map(|subject| subject.into_owned().into()) };
        Self { direction: start.direction, method, version: start.version, kind, subject, known }
    }

    /// Returns the subject, if it is of this kind.
    pub(crate) fn subject(&self, kind: SubjectKind) -> Option<&str> {
        if self.kind != Some(kind) {
            return None;
        }
        self.known.as_deref().or(self.subject.as_deref())
    }

    pub(crate) fn is_tool_call(&self) -> bool {
        self.kind == Some(SubjectKind::Tool)
    }

    /// Returns the attribute of the name of the tool or prompt.
    pub(crate) fn name_attribute(&self) -> &'static str {
        if self.is_tool_call() { "gen_ai.tool.name" } else { "gen_ai.prompt.name" }
    }

    /// Returns the name of the tool or prompt as a label.
    pub(crate) fn label(&self, added: Option<Arc<str>>) -> Option<StringValue> {
        if !matches!(self.kind, Some(SubjectKind::Tool | SubjectKind::Prompt)) {
            return None;
        }
        match (&self.known, added, &self.subject) {
            (Some(name), _, _) => Some(Arc::clone(name).into()),
            (None, Some(name), _) => Some(name.into()),
            (None, None, Some(_)) => Some(OTHER.into()),
            (None, None, None) => None,
        }
    }
}
