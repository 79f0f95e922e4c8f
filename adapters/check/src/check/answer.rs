//! Answers to requests of the checker, and outcomes of waiting for them.

use mcp_proto::RawJson;
use serde_json::Value;

use super::report::clip;

/// Answer to a request: a result, an error, or `None` if the server gave no usable answer.
#[derive(Clone, Debug)]
pub(super) enum CheckAnswer {
    /// The `result` member of the response.
    Result(RawJson),
    /// The error response.
    Error(ErrorAnswer),
    /// No answer, or an unusable one. The report has the reason already.
    None,
}

/// An error response.
#[derive(Clone, Debug)]
pub(super) struct ErrorAnswer {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Value,
    /// Whether the response has an `id`, which may be null.
    pub(super) has_id: bool,
}

/// Outcome of waiting for an answer.
pub(super) enum WaitOutcome {
    Answer(CheckAnswer),
    /// No answer in time.
    TimedOut,
    /// The stream has ended.
    Closed,
    /// The server floods its output or is no MCP server; the report says which.
    Unusable,
}

/// Reactions to an invalid line.
pub(super) struct ProvokedAnswers {
    /// The answer with the id of the line.
    pub(super) answer: Option<CheckAnswer>,
    /// Errors without a usable request id.
    pub(super) errors_without_id: Vec<ErrorAnswer>,
    /// Whether a result without a usable request id arrived.
    pub(super) has_result_without_id: bool,
}

/// Outcome of a listen request, until shortly after its acknowledgement.
pub(super) struct ListenOutcome {
    /// Id of the request.
    pub(super) id: Value,
    /// The answer. An open subscription has none.
    pub(super) answer: Option<CheckAnswer>,
    /// Notifications: methods with their params.
    pub(super) notifications: Vec<(String, Value)>,
}

impl CheckAnswer {
    /// Describes an answer other than the error with this code. `None` stands for that one, and for no answer.
    pub(super) fn other_than(&self, code: i64) -> Option<String> {
        self.complaint(|failed| failed.code == code, ["it got", "it was answered with a result"])
    }

    /// Describes a wrong error, behind the first words, or a result, by the second.
    pub(super) fn complaint(
        &self,
        is_right: impl Fn(&ErrorAnswer) -> bool,
        [error, result]: [&str; 2],
    ) -> Option<String> {
        match self {
            Self::Error(failed) if is_right(failed) => None,
            Self::Error(failed) => Some(format!("{error} the error {}", failed.summary())),
            Self::Result(_) => Some(result.into()),
            Self::None => None,
        }
    }

    /// Returns the parsed result, if the answer is one.
    pub(super) fn result(&self) -> Option<Value> {
        match self {
            Self::Result(raw) => raw.parse().ok(),
            _ => None,
        }
    }
}

impl ErrorAnswer {
    /// Describes the error in a few words.
    pub(super) fn summary(&self) -> String {
        format!("{} ({:?})", self.code, clip(&self.message, 120))
    }
}
