//! Batches of JSON-RPC, in 2025-03-26 only (BATCH-001): one array of messages in, one array of responses out.

use alloc::vec::Vec;

use bytes::Bytes;

use super::batch_key::BatchKey;
use super::endpoint::Endpoint;
use super::inbound::InboundCall;
use super::role::Role;
use crate::built::Batching;
use crate::json::{Scanner, check_utf8};
use crate::limits::Limits;
use crate::rpc::envelope::MalformedMessage;
use crate::rpc::{RpcError, encode};
use crate::slab::Key;

/// The response to a batch, while it is incomplete.
#[derive(Debug)]
pub(crate) struct Batch {
    channel: Key,
    /// Responses, separated by commas.
    out: Vec<u8>,
    /// Number of missing responses, plus one while the batch is being read.
    pending: usize,
}

/// Splits an array into its members, within the limits. An empty array is refused (BATCH-006).
///
/// A member that is nested too deep or has too many members costs itself alone (BATCH-008).
///
/// # Errors
///
/// The reason if the array is not valid JSON or exceeds a limit.
pub(crate) fn split_batch(frame: &Bytes, limits: &Limits) -> Result<Vec<Bytes>, MalformedMessage> {
    if let Err(at) = check_utf8(frame) {
        return Err(MalformedMessage::Utf8 { at });
    }
    let mut s = Scanner::new(frame, limits.effective_max_depth(), limits.max_members);
    let mut members = Vec::new();
    let mut count = 0;
    let scanned = s.array(|s| {
        let span = s.value()?;
        count += 1;
        if count <= limits.max_batch {
            members.push(frame.slice_ref(span.slice(frame).unwrap_or_default()));
        }
        Ok(())
    });
    match scanned.map_err(MalformedMessage::from_scan) {
        Err(reason @ (MalformedMessage::Depth { .. } | MalformedMessage::Members { .. })) => {
            return split_by_commas(frame, limits.max_batch).ok_or(reason);
        }
        scanned => drop(scanned?),
    }
    if !s.is_at_end() {
        return Err(MalformedMessage::Json { at: s.pos() });
    }
    if count > limits.max_batch || count == 0 { Err(MalformedMessage::Batch) } else { Ok(members) }
}

/// Splits an array by brackets and commas alone, without a check of its members.
///
/// `None` if the brackets do not match or there are more than `max` members.
fn split_by_commas(frame: &Bytes, max: usize) -> Option<Vec<Bytes>> {
    let (mut members, mut depth, mut start, mut end) = (Vec::new(), 0usize, 0, None);
    let (mut in_string, mut escaped) = (false, false);
    for (at, byte) in frame.iter().enumerate() {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' if end.is_some() => {}
            _ if end.is_some() => return None,
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth == 1 {
                    start = at + 1;
                }
            }
            b']' | b'}' if depth > 1 => depth -= 1,
            b']' | b',' if depth == 1 => {
                if members.len() == max {
                    return None;
                }
                members.push(frame.slice(start..at));
                start = at + 1;
                end = (*byte == b']').then_some(at);
            }
            b']' | b'}' => return None,
            _ => {}
        }
    }
    end.map(|_| members)
}

impl<R: Role> Endpoint<R> {
    /// Starts the response to a batch.
    ///
    /// [`close_batch`](Self::close_batch) must follow when all members have been received.
    pub(crate) fn open_batch(&mut self, marker: Batching, channel: Key) -> BatchKey {
        if let Some(c) = self.channels.get_mut(channel) {
            c.role.request_started();
        }
        let key = self.batches.insert(Batch { channel, out: Vec::new(), pending: 1 });
        BatchKey::new(marker, key)
    }

    /// Records that all members have been received. The array is sent when the last response is there.
    pub(crate) fn close_batch(&mut self, key: BatchKey) {
        self.release_batch(key);
    }

    /// Adds a call whose response belongs to the batch.
    pub(super) fn join_batch(&mut self, key: BatchKey) {
        if let Some(batch) = self.batches.get_mut(key.key()) {
            batch.pending += 1;
        }
    }

    /// Adds a response. If it would exceed `max_batch_bytes`, an error takes its place.
    pub(super) fn add_to_batch(&mut self, key: BatchKey, id: Option<&crate::RequestId>, message: &[u8]) {
        let limit = self.limits.max_batch_bytes;
        let Some(batch) = self.batches.get_mut(key.key()) else { return };
        let message = message.strip_suffix(b"\n").unwrap_or(message);
        if !batch.out.is_empty() {
            batch.out.push(b',');
        }
        if batch.out.len() + message.len() <= limit {
            batch.out.extend_from_slice(message);
        } else {
            let error = RpcError::internal("the answer to the batch would be too long");
            encode::error(&mut batch.out, id, &error);
            batch.out.pop();
        }
    }

    /// Records that a call of a batch was answered or dropped.
    pub(super) fn finish_batch_member(&mut self, record: &InboundCall) {
        if let Some(key) = record.batch {
            self.release_batch(key);
        }
    }

    /// Sends the array when no response is missing; sends nothing if it is empty (BATCH-007).
    fn release_batch(&mut self, key: BatchKey) {
        let Some(batch) = self.batches.get_mut(key.key()) else { return };
        batch.pending = batch.pending.saturating_sub(1);
        if batch.pending > 0 {
            return;
        }
        let Some(batch) = self.batches.remove(key.key()) else { return };
        if let Some(c) = self.channels.get_mut(batch.channel) {
            c.role.request_finished(&mut self.shared);
        }
        if !batch.out.is_empty() {
            self.send(batch.channel, |out| {
                out.push(b'[');
                out.extend_from_slice(&batch.out);
                out.extend_from_slice(b"]\n");
            });
        }
    }
}
