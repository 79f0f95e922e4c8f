//! What principals may see and use behind a gateway.

use alloc::sync::Arc;
use core::fmt;

use mcp_proto::server::Caller;
use mcp_proto::{EntryKind, RawJson, RpcError};

/// An entry of an upstream that a client lists or uses.
#[derive(Debug)]
#[non_exhaustive]
pub struct Access<'a> {
    /// The party that asks.
    pub caller: &'a Caller,
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Kind of the entry. A completion for a prompt or a resource template is a use of it.
    pub kind: EntryKind,
    /// Name or URI of the entry at its upstream, without the name of the upstream before it. Empty for the upstream itself, with an
    /// empty object as payload: whether a list may say that the upstream is left out, and why, and whether
    /// [search](crate::Gateway::with_search) starts it and waits for it.
    pub name: &'a str,
    /// The entry as it would be listed, or the parameters of the call with `_meta`. Of a change of a resource that the caller
    /// follows: an object with its `uri`.
    pub payload: &'a RawJson,
    /// Whether the entry is used, not listed. To learn of a change of a resource is a use of it.
    pub is_use: bool,
}

/// Decision about an [`Access`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Decision {
    /// The entry is listed, or used.
    Allow,
    /// It is not listed, a use is answered as that of an unknown entry, and changes of it are not told. Times may still tell it from one, and so may
    /// cursors of lists: they are not sealed, and hold the names of upstreams that have more pages.
    Hide,
    /// This object takes the place of the entry or of the parameters. Its name or URI stays as it was.
    Rewrite(RawJson),
    /// A use is answered with this error. The entry is not listed.
    Refuse(RpcError),
}

impl Decision {
    /// Returns whether the entry is listed, or used.
    pub(crate) const fn is_shown(&self) -> bool {
        matches!(self, Self::Allow | Self::Rewrite(_))
    }
}

/// Decides about each entry of a list and each use of an entry.
#[derive(Clone)]
pub(crate) struct Policy(pub(crate) Arc<dyn Fn(&Access<'_>) -> Decision + Send + Sync>);

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Policy")
    }
}
