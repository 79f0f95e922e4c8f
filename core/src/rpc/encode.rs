//! Writes messages, one line each.

use alloc::vec::Vec;

use super::error::RpcError;
use super::id::RequestId;
use crate::json::{write_int, write_str};

/// `{"jsonrpc":"2.0","id":…,"result":` — the result and [`end`] follow
#[inline]
pub(crate) fn result_head(out: &mut Vec<u8>, id: &RequestId) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    id.write(out);
    out.extend_from_slice(b",\"result\":");
}

/// Closes a message whose last member has been written
#[inline]
pub(crate) fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"}\n");
}

/// A whole error response; without an id where none could be read (BASE-013)
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

/// `{"jsonrpc":"2.0","id":…,"method":…` — members and [`end`] follow
#[inline]
pub(crate) fn request_head(out: &mut Vec<u8>, id: i64, method: &str) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    write_int(out, id);
    out.extend_from_slice(b",\"method\":");
    write_str(out, method);
}

/// `{"jsonrpc":"2.0","method":…` — members and [`end`] follow
pub(crate) fn notification_head(out: &mut Vec<u8>, method: &str) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":");
    write_str(out, method);
}

/// A whole `notifications/cancelled` (CANC-005, DEC-015)
pub(crate) fn cancelled(out: &mut Vec<u8>, id: i64, reason: Option<&str>) {
    notification_head(out, crate::vocab::CANCELLED);
    out.extend_from_slice(b",\"params\":{\"requestId\":");
    write_int(out, id);
    if let Some(reason) = reason {
        out.extend_from_slice(b",\"reason\":");
        write_str(out, reason);
    }
    out.push(b'}');
    end(out);
}
