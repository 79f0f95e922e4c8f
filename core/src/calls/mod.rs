//! Calls in flight, in both directions: the part that both engines share.

pub(crate) mod batch;
pub(crate) mod endpoint;
#[cfg(test)]
#[path = "../exhaustive/tables/calls.rs"]
mod exhaustive_tables;
pub(crate) mod inbound;
pub(crate) mod observing;
pub(crate) mod outbound;
pub(crate) mod outbound_requests;
pub(crate) mod pings;
pub(crate) mod room;
