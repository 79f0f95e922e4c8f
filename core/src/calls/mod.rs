//! Requests under way, in both directions: what client and server share.

pub(crate) mod batch;
pub(crate) mod bucket;
pub(crate) mod forms;
pub(crate) mod inbound;
pub(crate) mod link;
pub(crate) mod ours;
pub(crate) mod outbound;
pub(crate) mod side;
mod theirs;
