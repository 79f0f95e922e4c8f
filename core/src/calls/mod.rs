//! Calls in flight, in both directions: the part that both engines share.

pub(crate) mod batch;
pub(crate) mod batch_key;
pub(crate) mod endpoint;
mod error_form;
pub(crate) mod inbound;
mod inbound_requests;
pub(crate) mod keep_alive;
pub(crate) mod observed_requests;
pub(crate) mod observing;
pub(crate) mod outbound;
pub(crate) mod outbound_requests;
mod pings;
mod responses;
pub(crate) mod role;
pub(crate) mod room;
pub(crate) mod settings;
pub(crate) mod task_request;
pub(crate) mod token_bucket;
pub(crate) mod versioned_params;
