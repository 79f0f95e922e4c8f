//! Texts of peers as attributes: bounded, harmless, and few enough to label metrics.

use alloc::borrow::Cow;

use mcp_proto::observe::{Direction, RequestEnd, RequestOutcome};
use mcp_proto::rpc::code;
use mcp_proto::{CallError, HttpError};

/// Stands for a value that is not known, or is one of too many.
pub(crate) const OTHER: &str = "_OTHER";

/// Longest name in bytes, of a tool or of a prompt. The specification advises 128 characters at most (TOOL-028).
pub(crate) const MAX_NAME: usize = 256;

/// Longest URI in bytes.
pub(crate) const MAX_URI: usize = 1024;

/// Longest request id in bytes.
pub(crate) const MAX_ID: usize = 128;

/// Longest message of an error in bytes.
pub(crate) const MAX_MESSAGE: usize = 512;

/// Returns a text as an attribute: cut to a number of bytes, its control characters replaced.
pub(crate) fn clean(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max && text.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let mut cut = max.min(text.len());
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    let mut cleaned: String =
        text[..cut].chars().map(|c| if is_harmless(c) { c } else { char::REPLACEMENT_CHARACTER }).collect();
    if cut < text.len() {
        cleaned.push('…');
    }
    Cow::Owned(cleaned)
}

/// Returns whether a character neither controls a terminal nor the direction of text.
fn is_harmless(c: char) -> bool {
    let is_directional =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !is_directional
}

/// Methods of requests in any revision of the specification and its extensions.
pub(crate) const METHODS: &[&str] = &[
    "tools/call",
    "tools/list",
    "resources/read",
    "resources/list",
    "resources/templates/list",
    "prompts/get",
    "prompts/list",
    "completion/complete",
    "server/discover",
    "subscriptions/listen",
    "initialize",
    "ping",
    "resources/subscribe",
    "resources/unsubscribe",
    "resources/directory/read",
    "skills/list",
    "skills/get",
    "logging/setLevel",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "tasks/result",
    "tasks/list",
    "roots/list",
    "sampling/createMessage",
    "elicitation/create",
];

/// Returns a code as it may label metrics: those that are defined, those of servers, or [`OTHER`].
///
/// A peer may answer with any number.
pub(crate) fn code_label(code: i64) -> Cow<'static, str> {
    let is_defined = matches!(
        code,
        code::PARSE_ERROR | code::INTERNAL_ERROR..=code::INVALID_REQUEST | -32099..=-32000 | code::USER_REJECTED
    );
    if is_defined { Cow::Owned(code.to_string()) } else { Cow::Borrowed(OTHER) }
}

/// Class of the error of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ErrorType {
    /// Code in the answer of the peer.
    Code(i64),
    /// Any other.
    Named(&'static str),
}

impl ErrorType {
    /// The request was given up.
    pub(crate) const CANCELLED: Self = Self::Named("cancelled");

    pub(crate) fn of(end: &RequestEnd<'_>) -> Option<Self> {
        match end.outcome {
            RequestOutcome::Success => None,
            RequestOutcome::ToolError => Some(Self::Named("tool_error")),
            RequestOutcome::Failed(error) => Some(Self::of_error(error)),
            _ => Some(Self::Named(OTHER)),
        }
    }

    fn of_error(error: &CallError) -> Self {
        Self::Named(match error {
            CallError::Rpc(error) => return Self::Code(error.code),
            CallError::TimedOut
            | CallError::TotalTimedOut
            | CallError::Misaddressed(_)
            | CallError::InputTimedOut => "timeout",
            CallError::Cancelled | CallError::TaskCancelled { .. } => "cancelled",
            CallError::Closed(_) => "connection_closed",
            CallError::Malformed(_)
            | CallError::UnknownResultType(_)
            | CallError::InvalidInputRequest { .. }
            | CallError::InvalidTask { .. } => "invalid_response",
            CallError::TooLarge { .. } => "response_too_large",
            CallError::NotDeclared(_) => "capability_not_declared",
            CallError::TooManyRounds { .. } => "too_many_input_requests",
            CallError::InputRefused(_) => "input_refused",
            CallError::TaskLost(_) | CallError::TaskExpired => "task_lost",
            CallError::Refused(_) => "not_sent",
            CallError::Http(error) => match &**error {
                HttpError::Unreachable { .. } => "unreachable",
                HttpError::Lost { .. } => "connection_closed",
                _ => "http",
            },
            CallError::Transport { .. } => "transport",
            _ => OTHER,
        })
    }

    /// Returns whether the name in the request may be one that does not exist: the request was refused, or had no answer.
    ///
    /// A received name is known only after a success or a failure of its tool, because a server also refuses requests
    /// that it has not read so far.
    pub(crate) const fn leaves_name_unknown(self, direction: Direction) -> bool {
        match self {
            Self::Named(name) if matches!(name.as_bytes(), b"tool_error") => false,
            _ if matches!(direction, Direction::In) => true,
            Self::Code(code) => {
                matches!(code, code::METHOD_NOT_FOUND | code::INVALID_PARAMS | code::RESOURCE_NOT_FOUND)
            }
            Self::Named(name) => matches!(name.as_bytes(), b"cancelled" | b"connection_closed"),
        }
    }

    /// Returns the value of an attribute of a span.
    pub(crate) fn text(self) -> Cow<'static, str> {
        match self {
            Self::Code(code) => Cow::Owned(code.to_string()),
            Self::Named(name) => Cow::Borrowed(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::RpcError;

    use super::*;

    #[test]
    fn texts_are_cut_and_control_characters_replaced() {
        assert!(matches!(clean("plain text", 10), Cow::Borrowed("plain text")));
        assert_eq!(clean("plain texts", 10), "plain text…");
        assert_eq!(clean("größer", 3), "gr…", "not within a character");
        assert_eq!(clean("größer", 4), "grö…");
        assert_eq!(clean("a\u{1b}[31m\n\u{9b}\u{202e}b", 40), "a\u{fffd}[31m\u{fffd}\u{fffd}\u{fffd}b");
        assert_eq!(clean("日本", 40), "日本");
        assert_eq!(clean("日本", 0), "…");
    }

    #[test]
    fn only_defined_codes_are_labels() {
        for code in [-32700, -32600, -32601, -32602, -32603, -32002, -32022, -32042, -32099, -1] {
            assert_eq!(code_label(code), code.to_string());
        }
        for code in [0, 1, -2, -32604, -32699, -31999, -32100, i64::MIN, i64::MAX] {
            assert_eq!(code_label(code), OTHER);
        }
    }

    #[test]
    fn refused_and_unanswered_names_stay_unknown() {
        let of = |error: CallError| ErrorType::of_error(&error);
        let rpc = |code| of(CallError::Rpc(RpcError::new(code, "no")));
        for unknown in [rpc(-32601), rpc(-32602), rpc(-32002), of(CallError::Cancelled), ErrorType::CANCELLED]
        {
            assert!(unknown.leaves_name_unknown(Direction::Out), "{unknown:?}");
        }
        for known in [rpc(-32603), rpc(5), of(CallError::TimedOut), ErrorType::Named("tool_error")] {
            assert!(!known.leaves_name_unknown(Direction::Out), "{known:?}");
            let is_of_tool = known == ErrorType::Named("tool_error");
            assert_eq!(known.leaves_name_unknown(Direction::In), !is_of_tool, "{known:?}");
        }
        assert_eq!(rpc(5).text(), "5");
        assert_eq!(of(CallError::TotalTimedOut).text(), "timeout");
    }
}
