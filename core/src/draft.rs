//! Drafts of the specification: what differs from the releases, as a table.
//!
//! Draft revisions of MCP have other error codes, and some other rules, than the revisions that were released from them. A
//! [`Draft`] is a set of such [deviations](Deviation). [`client::Config::draft`](crate::client::Config::draft) and
//! [`server::Config::draft`](crate::server::Config::draft) follow them instead of the release; by default none is followed.
//!
//! A deviation is one row of the table, and is asked for at one place of the code. A client recognizes the error codes of
//! drafts without this setting, by the shape of the errors (DEC-001).
//!
//! The module is outside of the promise of semantic versioning, because drafts change: **it may change in a minor release**, and
//! rows come and go.
//!
//! ```
//! use mcp_proto::draft::{Deviation, Draft, DraftDocument};
//! use mcp_proto::server::Config;
//!
//! // All of both documents.
//! let config = Config::new("tides", "1.0").draft(Draft::ALL);
//! // One of them, without a row.
//! let draft = Draft::of(DraftDocument::Transports).without(Deviation::SessionHeaders);
//! let config = config.draft(draft);
//!
//! for row in Deviation::TABLE {
//!     println!("{:?}: {}; released: {}", row.deviation, row.draft, row.release);
//! }
//! ```

use alloc::borrow::Cow;
use alloc::format;

use crate::rpc::RpcError;
use crate::rpc::{code, draft_code};

/// Declares the deviations. The first line above a name is the rule of the draft, the second one that of the release; the
/// text behind it is the file below `core/src` that asks for it.
macro_rules! deviations {
    ($(#[doc = $draft:literal] #[doc = $release:literal] $document:ident $name:ident $place:literal;)*) => {
        /// A rule of a draft that differs from the released one.
        ///
        #[doc = "| deviation | document | draft | release | asked for in |\n|---|---|---|---|---|"]
        $(
            #[doc = concat!(
                "| [`", stringify!($name), "`](Self::", stringify!($name), ") | ", stringify!($document), " |", $draft,
                " |", $release, " | `", $place, "` |"
            )]
        )*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[non_exhaustive]
        pub enum Deviation {
            $(
                #[doc = concat!($draft, " The release:", $release)]
                $name,
            )*
        }

        impl Deviation {
            /// All deviations.
            pub const TABLE: &[DeviationRow] = &[$(DeviationRow {
                deviation: Self::$name,
                document: DraftDocument::$document,
                draft: $draft.trim_ascii_start(),
                release: $release.trim_ascii_start(),
                place: $place,
            }),*];
        }
    };
}

deviations! {
    /// An unsupported revision has the code -32004.
    /// It has -32022.
    Versioning UnsupportedVersionCode "draft.rs";
    /// `initialize` is unknown to a server of modern revisions: -32601, 404; the message names them.
    /// It has an unsupported revision (-32022); over HTTP it lacks a header (-32020, 400).
    Versioning InitializeIsUnknown "server/request_check.rs";
    /// A missing capability of the client has the code -32003.
    /// It has -32021.
    Stateless MissingCapabilityCode "draft.rs";
    /// A header that does not match the body has the code -32001.
    /// It has -32020.
    Transports HeaderMismatchCode "draft.rs";
    /// It has this code in sessions, too.
    /// It has -32600 in sessions.
    Transports SessionMismatchCode "draft.rs";
    /// A server requires `Mcp-Method` and `Mcp-Name` of requests in sessions, `initialize` included.
    /// It compares them if they are present.
    Transports SessionHeaders "http/server/request_headers.rs";
    /// A server requires `Mcp-Param-*` in sessions.
    /// It compares them if they are present.
    Transports SessionParamHeaders "http/server/request_headers.rs";
    /// A server requires `Mcp-Method` of notifications, in every revision.
    /// It compares it if it is present.
    Transports NotificationHeaders "http/server/request_headers.rs";
    /// A server checks the revision that `MCP-Protocol-Version` names in every session, and with `initialize`.
    /// It does in sessions of 2025-06-18 and later.
    Transports CheckedVersion "http/server/request_headers.rs";
    /// A POST has one message. A server refuses batches.
    /// Sessions of 2025-03-26 have batches.
    Transports NoBatches "http/server/post.rs";
    /// A client sends `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` in sessions, with notifications, too.
    /// It sends them from 2026-07-28 on, and in sessions if it is configured to.
    Transports SentInSessions "http/client/session.rs";
    /// A client sends `Mcp-Method` with `initialize`.
    /// It does not.
    Transports SentWithInitialize "http/client/send.rs";
    /// A client sends `MCP-Protocol-Version` in every session.
    /// It does in sessions of 2025-06-18 and later.
    Transports SentVersion "http/client/send.rs";
    /// A client leaves tools with invalid `x-mcp-header` out of lists in sessions.
    /// It leaves them out from 2026-07-28 on.
    Transports InvalidToolsLeftOut "http/client/tools.rs";
    /// `x-mcp-header` is visible ASCII without `:`. A name that HTTP cannot carry is valid, and not sent.
    /// It is a token of RFC 9110.
    Transports HeaderNames "http/params.rs";
    /// `x-mcp-header` may annotate a `number`, which is mirrored as a decimal.
    /// It annotates integers, strings and booleans.
    Transports NumberHeaders "http/params.rs";
    /// Event streams of every session begin with an event that has an id, and a server may let the client poll.
    /// Those of 2025-11-25 do.
    Transports PrimedStreams "http/server/response.rs";
    /// A client falls back to HTTP+SSE after 400, 404 or 405.
    /// It does after any 4xx, except 401, 407 and 408, and 403 and 429 with a challenge or `Retry-After`.
    Transports FallbackStatuses "http/client/negotiation.rs";
}

/// A row of the [table](Deviation::TABLE).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DeviationRow {
    /// The deviation.
    pub deviation: Deviation,
    /// The draft.
    pub document: DraftDocument,
    /// The rule of the draft.
    pub draft: &'static str,
    /// The rule of the release.
    pub release: &'static str,
    /// The file of the core that asks for it.
    pub place: &'static str,
}

/// A draft of the specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DraftDocument {
    /// "Transports", between 2025-11-25 and 2026-07-28: sessions with the headers of 2026-07-28.
    Transports,
    /// "Versioning", of 2026-07-28.
    Versioning,
    /// SEP-2575, "stateless", of 2026-07-28.
    Stateless,
}

/// The deviations that are followed; none by default.
///
/// See [`Deviation`] for the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Draft {
    bits: u32,
}

impl Draft {
    /// The released specification.
    pub const NONE: Self = Self { bits: 0 };
    /// Every deviation.
    pub const ALL: Self = Self { bits: (1 << Deviation::TABLE.len()) - 1 };

    /// Returns the deviations of one document.
    #[must_use]
    pub fn of(document: DraftDocument) -> Self {
        let rows = Deviation::TABLE.iter().filter(|row| row.document == document);
        rows.fold(Self::NONE, |all, row| all.with(row.deviation))
    }

    /// Adds a deviation.
    #[must_use]
    pub const fn with(self, deviation: Deviation) -> Self {
        Self { bits: self.bits | 1 << deviation as u32 }
    }

    /// Removes a deviation.
    #[must_use]
    pub const fn without(self, deviation: Deviation) -> Self {
        Self { bits: self.bits & !(1 << deviation as u32) }
    }

    /// Returns whether a deviation is followed.
    #[must_use]
    pub const fn contains(self, deviation: Deviation) -> bool {
        self.bits & 1 << deviation as u32 != 0
    }
}

/// Questions of several callers.
impl Draft {
    /// Returns whether a header mismatch keeps its code in a session.
    pub(crate) const fn keeps_mismatch_in_sessions(self) -> bool {
        self.contains(Deviation::SessionMismatchCode)
    }

    /// Returns an error with the code that it is sent with.
    ///
    /// Everything until the response is written works with the released codes.
    pub(crate) fn error(self, error: &RpcError) -> Cow<'_, RpcError> {
        let code = match error.code {
            // The code alone does not say enough: others use it as well.
            code::HEADER_MISMATCH if self.contains(Deviation::HeaderMismatchCode) => {
                let message = format!("{}: {}", draft_code::HEADER_MISMATCH_MESSAGE, error.message).into();
                let code = draft_code::HEADER_MISMATCH;
                return Cow::Owned(RpcError { code, message, ..error.clone() });
            }
            code::MISSING_CLIENT_CAPABILITY if self.contains(Deviation::MissingCapabilityCode) => {
                draft_code::MISSING_CLIENT_CAPABILITY
            }
            code::UNSUPPORTED_PROTOCOL_VERSION if self.contains(Deviation::UnsupportedVersionCode) => {
                draft_code::UNSUPPORTED_PROTOCOL_VERSION
            }
            _ => return Cow::Borrowed(error),
        };
        Cow::Owned(RpcError { code, ..error.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_what_was_put_into_them() {
        let documents = [DraftDocument::Transports, DraftDocument::Versioning, DraftDocument::Stateless];
        let all = documents
            .into_iter()
            .map(Draft::of)
            .fold(Draft::NONE, |all, draft| Draft { bits: all.bits | draft.bits });
        assert_eq!(all, Draft::ALL);
        assert_eq!(Draft::default(), Draft::NONE);
        for (n, row) in Deviation::TABLE.iter().enumerate() {
            assert_eq!(row.deviation as usize, n, "the order of the table is that of the variants");
            let one = Draft::NONE.with(row.deviation);
            assert!(one.contains(row.deviation) && Draft::of(row.document).contains(row.deviation));
            assert_eq!(one.without(row.deviation), Draft::NONE);
            assert!(!Draft::ALL.without(row.deviation).contains(row.deviation));
        }
    }
}
