//! Diagnostics: deviations of a peer that were refused, ignored or tolerated, and its use of deprecated features.

use alloc::boxed::Box;
use alloc::string::String;

use crate::deprecation::DeprecatedFeature;
use crate::methods::EntryKind;
use crate::rpc::envelope::MalformedMessage;
use crate::rpc::{RequestId, RpcError};

/// A deviation of the peer, its use of a deprecated feature, or a lack of this side, that is worth a log entry and has no
/// further effect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Diagnostic {
    /// A message was refused.
    Malformed {
        /// Reason, and position in the message.
        reason: MalformedMessage,
        /// Its id, if it could be read.
        id: Option<RequestId>,
        /// Whether an error was sent (DEC-004).
        ///
        /// Never for notifications and responses, nor where the revision has no form for it.
        answered: bool,
    },
    /// A line is not a message, for example a banner printed to stdout (STDIO-005).
    Noise {
        /// Beginning of the line, at most [`Limits::max_noise_bytes`](crate::Limits::max_noise_bytes).
        line: String,
        /// Length of the whole line in bytes.
        length: usize,
    },
    /// A request had the id of another request in flight. It was dropped, and the first one continues (DESIGN-09).
    DuplicateId(RequestId),
    /// A response arrived for a call that has ended (CANC-012, CANC-013).
    LateResponse(RequestId),
    /// A response has an id that was never used for a request, or in an exchange that of another request.
    UnknownResponse {
        /// Its id.
        id: RequestId,
        /// Its error, if it is one.
        error: Option<RpcError>,
    },
    /// The peer sent an error that names no request (DEC-004).
    PeerError(RpcError),
    /// A cancellation names a request that is not in flight (CANC-011, CANC-014).
    UnknownCancellation(RequestId),
    /// A request arrived after its cancellation, which is possible over HTTP. It was not executed (CANC-010).
    EarlyCancellation(RequestId),
    /// Progress names a call that is not in flight or did not ask for progress (PROG-012).
    UnknownProgress,
    /// Progress did not increase (PROG-007).
    ProgressNotIncreasing,
    /// A notification of the protocol has invalid parameters. It was ignored.
    InvalidNotification(Box<str>),
    /// This role never receives requests of this kind in this era. The request was ignored (BASE-019, BASE-020).
    UnexpectedRequest {
        /// Method of the request.
        method: Box<str>,
        /// Id of the request.
        id: RequestId,
    },
    /// A notification that nothing asked for. It was ignored.
    ///
    /// The change notification belongs to no subscription (SUB-003, SUB-004, SUB-008), or the completed elicitation is
    /// unknown (ELIC-027).
    UnsolicitedNotification(Box<str>),
    /// A tool was left out of a list because its `x-mcp-header` annotations are not valid (XHDR-011).
    InvalidTool {
        /// Name of the tool.
        name: String,
        /// Reason why they are not valid.
        reason: String,
    },
    /// An entry was left out of a typed list because it cannot be read, for example because it is nested too deep.
    ///
    /// [`client::TypedEntries`](crate::client::TypedEntries) reports it.
    UnreadableEntry {
        /// The list.
        list: EntryKind,
        /// Position in the list, from 0.
        index: usize,
        /// The member that cannot be read and why, at most 256 characters.
        reason: String,
    },
    /// Further entries of the same list were left out, and are not reported one by one.
    MoreUnreadableEntries {
        /// The list.
        list: EntryKind,
        /// Number of these entries.
        count: usize,
    },
    /// A list named a cursor again that had been requested. It ends there, without the entries of a page that came twice
    /// (PAGE-012).
    ///
    /// [`client::Paginator`](crate::client::Paginator) reports it.
    RepeatedCursor {
        /// The list.
        list: EntryKind,
    },
    /// The result of a tool has `structuredContent` and no `content`, which counts as empty (TOOL-037).
    MissingContent {
        /// Name of the tool.
        tool: Box<str>,
    },
    /// A tool of this server has no description, by which models choose (TOOL-006). Routers of the adapters report it when
    /// the server is configured.
    UndescribedTool {
        /// Name of the tool.
        tool: Box<str>,
    },
    /// The peer did not answer a keep-alive ping in time (PING-005).
    PingMissed {
        /// Number of unanswered pings in a row.
        misses: u32,
    },
    /// A deviation in an HTTP exchange.
    Http(String),
    /// An HTTP server refused a request because of its `Host` (HTTP-008).
    ///
    /// `http::server::Config::allow_host` adds a name of the server.
    RefusedHost {
        /// Beginning of the field, at most 256 bytes; empty if it is missing or repeated.
        host: String,
    },
    /// An HTTP server refused a request because of its `Origin` (HTTP-003, HTTP-004).
    ///
    /// `http::server::Config::allow_origin` adds the origin of a web page.
    RefusedOrigin {
        /// Beginning of the field, at most 256 bytes.
        origin: String,
    },
    /// The peer contradicted the era that was found. A stored [`KnownEra`](crate::client::KnownEra) is out of date.
    EraContradicted,
    /// The peer used a feature that the specification deprecates. It was served as ever.
    ///
    /// Reported once for each feature and peer: for a client, once per connection; for a server, once per session or
    /// byte stream. Modern exchanges over HTTP belong to no session: there it is once per authenticated principal, and once
    /// for all others. A server remembers 1,024 principals; those beyond count among the others. The peer uses a feature by
    /// a message of its own: the answer to an input request is no such use.
    DeprecatedFeature {
        /// The feature.
        feature: DeprecatedFeature,
    },
}

/// Writes one sentence. Text of the peer is included as received: escape it before it is displayed.
impl core::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Malformed { reason, id, answered } => {
                write!(f, "a message was refused: {reason}")?;
                if let Some(id) = id {
                    write!(f, " (id {id})")?;
                }
                f.write_str(if *answered { "; an error was sent" } else { "" })
            }
            Self::Noise { line, length } => write!(f, "a line of {length} bytes is not a message: {line}"),
            Self::DuplicateId(id) => write!(f, "a request was dropped because its id {id} is in flight"),
            Self::LateResponse(id) => write!(f, "an answer arrived too late (id {id})"),
            Self::UnknownResponse { id, error: None } => {
                write!(f, "an answer to an unknown request (id {id})")
            }
            Self::UnknownResponse { id, error: Some(error) } => {
                write!(f, "an answer to an unknown request (id {id}): {error}")
            }
            Self::PeerError(error) => write!(f, "the peer sent an error that names no request: {error}"),
            Self::UnknownCancellation(id) => {
                write!(f, "a cancellation of a request that is not in flight (id {id})")
            }
            Self::EarlyCancellation(id) => write!(f, "a request was cancelled before it arrived (id {id})"),
            Self::UnknownProgress => f.write_str("progress of a call that is not in flight"),
            Self::ProgressNotIncreasing => f.write_str("progress that does not increase"),
            Self::InvalidNotification(method) => write!(f, "a `{method}` whose parameters are not valid"),
            Self::UnexpectedRequest { method, id } => {
                write!(f, "a request that this side never receives: `{method}` (id {id})")
            }
            Self::UnsolicitedNotification(method) => write!(f, "a `{method}` that was not asked for"),
            Self::InvalidTool { name, reason } => write!(f, "the tool `{name}` was left out: {reason}"),
            Self::UnreadableEntry { list, index, reason } => {
                write!(f, "entry {index} of the list `{}` was left out: {reason}", list.list_member())
            }
            Self::MoreUnreadableEntries { list, count } => {
                write!(f, "{count} more entries of the list `{}` were left out", list.list_member())
            }
            Self::RepeatedCursor { list } => {
                write!(f, "the list `{}` names a cursor again and ends there", list.list_member())
            }
            Self::MissingContent { tool } => write!(f, "the result of the tool `{tool}` has no `content`"),
            Self::UndescribedTool { tool } => {
                write!(f, "the tool `{tool}` has no description, by which models choose")
            }
            Self::PingMissed { misses } => {
                write!(f, "a keep-alive ping was not answered ({misses} in a row)")
            }
            Self::Http(text) => f.write_str(text),
            Self::RefusedHost { host } => {
                write!(
                    f,
                    "a request for the host `{host}` was refused; `allow_host` adds a name of the server"
                )
            }
            Self::RefusedOrigin { origin } => {
                write!(f, "a request of a page of `{origin}` was refused; `allow_origin` adds an origin")
            }
            Self::EraContradicted => f.write_str("an answer that contradicts the era of the server"),
            Self::DeprecatedFeature { feature } => write!(
                f,
                "the peer uses {feature}, which is deprecated ({}); earliest removal: {}; instead: {}",
                feature.decided_in(),
                feature.earliest_removal(),
                feature.replacement()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn each_diagnostic_is_one_sentence_that_names_what_it_is_about() {
        let error = || RpcError::invalid_params("bad");
        let malformed =
            |id, answered| Diagnostic::Malformed { reason: MalformedMessage::Method, id, answered };
        for (diagnostic, text) in [
            (malformed(None, false), "a message was refused: `method` is not a string"),
            (
                malformed(Some(7.into()), true),
                "a message was refused: `method` is not a string (id 7); an error was sent",
            ),
            (
                Diagnostic::Noise { line: "hello".into(), length: 9 },
                "a line of 9 bytes is not a message: hello",
            ),
            (Diagnostic::DuplicateId(7.into()), "a request was dropped because its id 7 is in flight"),
            (Diagnostic::LateResponse(7.into()), "an answer arrived too late (id 7)"),
            (
                Diagnostic::UnknownResponse { id: 7.into(), error: None },
                "an answer to an unknown request (id 7)",
            ),
            (
                Diagnostic::UnknownResponse { id: 7.into(), error: Some(error()) },
                "an answer to an unknown request (id 7): bad (code -32602)",
            ),
            (
                Diagnostic::PeerError(error()),
                "the peer sent an error that names no request: bad (code -32602)",
            ),
            (
                Diagnostic::UnknownCancellation(7.into()),
                "a cancellation of a request that is not in flight (id 7)",
            ),
            (Diagnostic::EarlyCancellation(7.into()), "a request was cancelled before it arrived (id 7)"),
            (Diagnostic::UnknownProgress, "progress of a call that is not in flight"),
            (Diagnostic::ProgressNotIncreasing, "progress that does not increase"),
            (Diagnostic::InvalidNotification("a/b".into()), "a `a/b` whose parameters are not valid"),
            (
                Diagnostic::UnexpectedRequest { method: "a/b".into(), id: 7.into() },
                "a request that this side never receives: `a/b` (id 7)",
            ),
            (Diagnostic::UnsolicitedNotification("a/b".into()), "a `a/b` that was not asked for"),
            (
                Diagnostic::InvalidTool { name: "add".into(), reason: "no name".into() },
                "the tool `add` was left out: no name",
            ),
            (
                Diagnostic::UnreadableEntry { list: EntryKind::Prompt, index: 3, reason: "no name".into() },
                "entry 3 of the list `prompts` was left out: no name",
            ),
            (
                Diagnostic::MoreUnreadableEntries { list: EntryKind::Resource, count: 3 },
                "3 more entries of the list `resources` were left out",
            ),
            (
                Diagnostic::RepeatedCursor { list: EntryKind::ResourceTemplate },
                "the list `resourceTemplates` names a cursor again and ends there",
            ),
            (
                Diagnostic::MissingContent { tool: "add".into() },
                "the result of the tool `add` has no `content`",
            ),
            (
                Diagnostic::UndescribedTool { tool: "add".into() },
                "the tool `add` has no description, by which models choose",
            ),
            (Diagnostic::PingMissed { misses: 2 }, "a keep-alive ping was not answered (2 in a row)"),
            (Diagnostic::Http("no body".into()), "no body"),
            (
                Diagnostic::RefusedHost { host: "a.example".into() },
                "a request for the host `a.example` was refused; `allow_host` adds a name of the server",
            ),
            (
                Diagnostic::RefusedOrigin { origin: "https://a.example".into() },
                "a request of a page of `https://a.example` was refused; `allow_origin` adds an origin",
            ),
            (Diagnostic::EraContradicted, "an answer that contradicts the era of the server"),
        ] {
            assert_eq!(diagnostic.to_string(), text);
        }
    }

    #[test]
    fn diagnostic_of_a_deprecated_feature_says_what_to_use_instead() {
        for feature in DeprecatedFeature::ALL {
            let text = Diagnostic::DeprecatedFeature { feature }.to_string();
            for part in [
                &*feature.to_string(),
                feature.decided_in(),
                feature.earliest_removal(),
                feature.replacement(),
            ] {
                assert!(!part.is_empty() && text.contains(part), "{text}");
            }
        }
        let text = Diagnostic::DeprecatedFeature { feature: DeprecatedFeature::HttpSse }.to_string();
        let removal = "earliest removal: three months after SEP-2596 reaches Final";
        let expected = "the peer uses HTTP+SSE, which is deprecated (SEP-2596)";
        assert_eq!(text, alloc::format!("{expected}; {removal}; instead: Streamable HTTP"));
    }
}
