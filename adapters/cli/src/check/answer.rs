//! Answers to requests, and what comes in place of them

use mcp_proto::RawJson;
use serde_json::Value;

use super::report::clip;

/// An answer, if there was one
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Result(RawJson),
    Error(Failed),
    /// None that could be used; the report says why
    None,
}

/// An error answer
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Value,
    /// Whether there was an `id`, be it null
    pub(super) has_id: bool,
}

/// What came of waiting for an answer
pub(super) enum Waited {
    Answer(Answer),
    /// Nothing in time
    Silent,
    /// The stream has ended
    Gone,
    /// It floods, or is no server: the report says so
    Spoiled,
}

/// What came of a line that is wrong
pub(super) struct Provoked {
    /// The answer with the id that was in the line
    pub(super) answer: Option<Answer>,
    /// Errors that name no request
    pub(super) loose: Vec<Failed>,
    /// Whether there was a result that names no request
    pub(super) loose_result: bool,
}

/// What came of a subscription until it was acknowledged, and shortly after
pub(super) struct Listened {
    /// The id of its request
    pub(super) id: Value,
    /// The answer, which a subscription that goes on does not have
    pub(super) answer: Option<Answer>,
    /// Notifications, with their params
    pub(super) news: Vec<(String, Value)>,
}

impl Answer {
    /// The result as a value, when there is one
    pub(super) fn result(&self) -> Option<Value> {
        match self {
            Self::Result(raw) => raw.parse().ok(),
            _ => None,
        }
    }
}

impl Failed {
    /// The error in a few words
    pub(super) fn text(&self) -> String {
        format!("{} ({:?})", self.code, clip(&self.message, 120))
    }
}
