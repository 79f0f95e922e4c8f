//! JSON-RPC 2.0: ids, envelopes and errors, independent of the methods of MCP.

pub(crate) mod encode;
pub(crate) mod envelope;
mod error;
mod id;
pub(crate) mod recover;

pub use error::{RpcError, code};
pub(crate) use error::{clip, clip_to, draft_code};
pub use id::RequestId;
