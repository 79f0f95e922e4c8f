//! Messages of a trace.

use mcp_proto::{Progress, RawJson};
use serde::Deserialize;

use crate::record::{Content, Line, Record, Text};

/// A JSON-RPC message.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// Id of a request or response. `null` counts as none.
    #[serde(default)]
    pub id: Option<RawJson>,
    /// Method of a request or notification.
    #[serde(default)]
    pub method: Option<String>,
    /// Parameters of a request or notification.
    #[serde(default)]
    pub params: Option<RawJson>,
    /// Result of a response.
    #[serde(default)]
    pub result: Option<RawJson>,
    /// Error of a response.
    #[serde(default)]
    pub error: Option<RawJson>,
    /// All of it.
    #[serde(skip, default = "RawJson::empty_object")]
    pub(crate) json: RawJson,
}

impl Message {
    /// Returns the messages of a record: several if it is a batch, none if it is no line or its line is no message.
    #[must_use]
    pub fn of(record: &Record) -> Vec<Self> {
        let Content::Line(Line { text: Text::Utf8(text), .. }) = &record.content else { return Vec::new() };
        let Some(message) = Self::parse(text.as_bytes()) else { return Vec::new() };
        let parts = message.parts().into_iter().map(Self::new);
        parts.filter(Self::is_message).collect()
    }

    /// Takes a text apart. What has a member twice, or a method that is no string, is none of the kinds of messages.
    pub(crate) fn new(json: RawJson) -> Self {
        let none = || Self {
            id: None,
            method: None,
            params: None,
            result: None,
            error: None,
            json: RawJson::empty_object(),
        };
        let mut message: Self = json.parse().unwrap_or_else(|_| none());
        message.json = json;
        message
    }

    /// Takes a text apart, unless it is no JSON.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        RawJson::new(text.to_vec()).ok().map(Self::new)
    }

    /// Returns whether it is an array of messages.
    pub(crate) fn is_batch(&self) -> bool {
        self.json.as_bytes().first() == Some(&b'[')
    }

    /// Returns the members of a batch, or the message itself.
    pub(crate) fn parts(&self) -> Vec<RawJson> {
        self.json.elements().unwrap_or_else(|| vec![self.json.clone()])
    }

    const fn is_message(&self) -> bool {
        self.method.is_some() || self.is_response()
    }

    /// Returns whether it expects a response.
    #[must_use]
    pub const fn is_request(&self) -> bool {
        self.method.is_some() && self.id.is_some()
    }

    /// Returns whether it answers a request.
    #[must_use]
    pub const fn is_response(&self) -> bool {
        self.method.is_none() && (self.result.is_some() || self.error.is_some())
    }

    /// Returns what a request is about: the name of a tool or prompt, the URI of a resource, the id of a task.
    #[must_use]
    pub fn target(&self) -> Option<String> {
        let params = self.params.as_ref()?;
        let name = |of: &RawJson| ["name", "uri", "taskId"].iter().find_map(|name| of.member(name)?.string());
        name(params).or_else(|| name(&params.member("ref")?))
    }

    /// Returns a member of the `_meta` of the parameters, if it is a string.
    #[must_use]
    pub fn meta(&self, name: &str) -> Option<String> {
        self.params.as_ref()?.member("_meta")?.member(name)?.string()
    }

    /// Returns the id as text, which is a key: `1` and `"1"` differ.
    pub(crate) fn id_text(&self) -> Option<String> {
        self.id.as_ref().map(|id| id.as_str().to_owned())
    }

    /// Returns a member of the parameters.
    pub(crate) fn param(&self, name: &str) -> Option<RawJson> {
        self.params.as_ref()?.member(name)
    }

    /// Returns what a notification of progress says.
    pub(crate) fn progress(&self) -> Progress {
        let number = |name: &str| self.param(name).and_then(|value| value.parse::<f64>().ok());
        let mut progress = Progress::new(number("progress").unwrap_or_default());
        progress.total = number("total");
        progress.message = self.param("message").and_then(|message| message.string());
        progress
    }

    /// Returns whether both are of the same kind: responses to the same request, or the same method.
    pub(crate) fn is_counterpart(&self, other: &Self) -> bool {
        match (&self.method, &other.method) {
            (Some(method), Some(other_method)) => {
                method == other_method && self.id.is_some() == other.id.is_some()
            }
            (None, None) => self.id.as_ref().map(RawJson::as_str) == other.id.as_ref().map(RawJson::as_str),
            _ => false,
        }
    }
}
