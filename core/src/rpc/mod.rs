//! JSON-RPC 2.0: ids, envelopes and errors, independent of the methods of MCP.

pub(crate) mod encode;
pub(crate) mod envelope;
mod error;
mod id;
pub(crate) mod recover;

#[cfg(feature = "draft")]
pub(crate) use error::draft_code;
pub use error::{RpcError, code};
pub(crate) use error::{clip, clip_to};
pub use id::RequestId;
