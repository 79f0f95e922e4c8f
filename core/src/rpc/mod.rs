//! JSON-RPC 2.0: ids, envelopes, errors. Knows no method of the protocol above it.

pub(crate) mod encode;
pub(crate) mod envelope;
mod error;
mod id;
pub(crate) mod recover;

pub(crate) use error::clip;
pub use error::{RpcError, code};
pub use id::RequestId;
