//! What a peer did that was odd, refused or ignored: told to the application, harmless to everything else.

use alloc::boxed::Box;
use alloc::string::String;

use crate::rpc::envelope::Malformed;
use crate::rpc::{RequestId, RpcError};

/// Something about a peer that is worth a look in a log and changes nothing else
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Diagnostic {
    /// A message was refused
    Malformed {
        /// What was wrong with it, and where
        why: Malformed,
        /// Its id, where one could be made out
        id: Option<RequestId>,
        /// Whether an error answer went out (never for notifications and responses, nor where the revision has no
        /// form for it; DEC-004)
        answered: bool,
    },
    /// A line that is no message at all, such as a banner printed to stdout (STDIO-005)
    Noise {
        /// The beginning of the line, at most [`Limits::max_noise`](crate::Limits::max_noise) bytes
        line: String,
        /// The length of the whole line in bytes
        length: usize,
    },
    /// A request whose id is that of one in flight; it was dropped, the first one goes on
    DuplicateId(RequestId),
    /// A response to a call that has ended (CANC-012, CANC-013)
    LateResponse(RequestId),
    /// A response to nothing that we asked
    UnknownResponse(RequestId),
    /// An error that names no request (DEC-004)
    PeerError(RpcError),
    /// A cancellation of something that is not running (CANC-011, CANC-014)
    UnknownCancel(RequestId),
    /// A request that came after its cancellation, as may be over HTTP; nobody has worked on it (CANC-010)
    CancelledEarly(RequestId),
    /// Progress for something that is not running, or that did not ask for it (PROG-012)
    UnknownProgress,
    /// Progress that did not increase (PROG-007)
    ProgressNotIncreasing,
    /// A notification of the protocol whose parameters make no sense; it was ignored
    InvalidNotification(Box<str>),
    /// A request that this side never gets in this era; it was ignored (BASE-019, BASE-020)
    UnexpectedRequest {
        /// Its method
        method: Box<str>,
        /// Its id
        id: RequestId,
    },
    /// News that nobody subscribed to, or not with this subscription (SUB-003, SUB-004, SUB-008), or of a web page that
    /// nobody was sent to (ELIC-027); it was ignored
    UnwantedNews(Box<str>),
    /// A tool was left out of a list, since what it wants mirrored in header fields is against the rules (XHDR-011)
    InvalidTool {
        /// Its name
        name: String,
        /// What is wrong
        why: String,
    },
    /// Something odd about an HTTP exchange
    Http(String),
    /// The peer answered in a way that contradicts the era that was settled on; a remembered verdict is worthless
    EraContradicted,
}

/// A sentence; what a peer wrote stands in it as it came and is to be escaped before it is shown
impl core::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Malformed { why, id, answered } => {
                write!(f, "a message was refused: {why}")?;
                if let Some(id) = id {
                    write!(f, " (id {id})")?;
                }
                f.write_str(if *answered { "; the peer was told" } else { "" })
            }
            Self::Noise { line, length } => write!(f, "a line of {length} bytes is no message: {line}"),
            Self::DuplicateId(id) => write!(f, "a request with the id {id}, which is in flight, was dropped"),
            Self::LateResponse(id) => write!(f, "an answer came too late (id {id})"),
            Self::UnknownResponse(id) => write!(f, "an answer to nothing that was asked (id {id})"),
            Self::PeerError(error) => write!(f, "the peer reports an error: {error}"),
            Self::UnknownCancel(id) => write!(f, "a cancellation of something that is not running (id {id})"),
            Self::CancelledEarly(id) => write!(f, "a request was cancelled before it came (id {id})"),
            Self::UnknownProgress => f.write_str("progress of something that is not running"),
            Self::ProgressNotIncreasing => f.write_str("progress that does not increase"),
            Self::InvalidNotification(method) => write!(f, "a `{method}` that makes no sense"),
            Self::UnexpectedRequest { method, id } => {
                write!(f, "a request that this side never gets: `{method}` (id {id})")
            }
            Self::UnwantedNews(method) => write!(f, "a `{method}` that nobody waits for"),
            Self::InvalidTool { name, why } => write!(f, "the tool `{name}` was left out: {why}"),
            Self::Http(what) => f.write_str(what),
            Self::EraContradicted => f.write_str("an answer that contradicts the era that was settled on"),
        }
    }
}
