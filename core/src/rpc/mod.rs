//! JSON-RPC 2.0: ids, envelopes and errors, independent of the methods of MCP.

pub(crate) mod envelope;
mod error;
mod id;
pub(crate) mod recover;

pub(crate) use error::draft_code;
pub use error::{RpcError, code};
pub(crate) use error::{clip, clip_to};
pub use id::RequestId;

use alloc::vec::Vec;

use super::json::{write_int, write_str};

// Encoder for messages, one line each.

/// Writes `{"jsonrpc":"2.0","id":…,"result":`; the result and [`end`] follow.
#[inline]
pub(crate) fn result_head(out: &mut Vec<u8>, id: &RequestId) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    id.write(out);
    out.extend_from_slice(b",\"result\":");
}

/// Closes a message behind its last member.
#[inline]
pub(crate) fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"}\n");
}

/// Writes an error response, without an id if none could be read (BASE-013).
pub(crate) fn error(out: &mut Vec<u8>, id: Option<&RequestId>, error: &RpcError) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        id.write(out);
    }
    out.extend_from_slice(b",\"error\":");
    error.write(out);
    end(out);
}

/// Writes `{"jsonrpc":"2.0","id":…,"method":…`; members and [`end`] follow.
#[inline]
pub(crate) fn request_head(out: &mut Vec<u8>, id: i64, method: &str) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    write_int(out, id);
    out.extend_from_slice(b",\"method\":");
    write_str(out, method);
}

/// Writes `{"jsonrpc":"2.0","method":…`; members and [`end`] follow.
pub(crate) fn notification_head(out: &mut Vec<u8>, method: &str) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":");
    write_str(out, method);
}

/// Writes a `notifications/cancelled` message (CANC-005, DEC-015).
pub(crate) fn cancelled(out: &mut Vec<u8>, id: i64, reason: Option<&str>) {
    notification_head(out, crate::methods::CANCELLED);
    out.extend_from_slice(b",\"params\":");
    cancelled_params(out, id, reason);
    end(out);
}

/// Writes the parameters of a `notifications/cancelled` message.
pub(crate) fn cancelled_params(out: &mut Vec<u8>, id: i64, reason: Option<&str>) {
    out.extend_from_slice(b"{\"requestId\":");
    write_int(out, id);
    if let Some(reason) = reason {
        out.extend_from_slice(b",\"reason\":");
        write_str(out, reason);
    }
    out.push(b'}');
}
