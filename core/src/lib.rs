#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]
//! placeholder

extern crate alloc;
#[cfg(test)]
extern crate std;

mod budget;
pub mod client;
mod calls;
mod deadlines;
mod diagnostic;
#[cfg(feature = "crypto")]
mod entropy;
mod error;
pub mod frame;
mod identity;
mod json;
mod limits;
pub mod meta;
pub mod model;
mod outbox;
pub mod pipe;
mod raw;
pub mod rpc;
pub mod server;
mod slab;
pub mod tap;
mod time;
mod version;
mod vocab;

pub use calls::inbound::{CallId, Progress, Sent};
pub use calls::outbound::{CallKey, CallOptions};
pub use diagnostic::Diagnostic;
#[cfg(feature = "crypto")]
pub use entropy::Entropy;
pub use error::{CallError, Fault, UseError};
pub use identity::{Capabilities, Implementation};
pub use json::EncodeError;
pub use limits::Limits;
pub use outbox::Outbox;
pub use raw::{InvalidJson, RawJson};
pub use rpc::envelope::Malformed;
pub use rpc::{RequestId, RpcError};
pub use tap::ChannelId;
pub use time::{Anchor, Instant};
pub use version::{Era, Version, VersionSet};
pub use vocab::Capability;
