//! Batches of JSON-RPC, in 2025-03-26 only (BATCH-001): one array of messages in, one array of responses out.

use alloc::vec::Vec;

use bytes::Bytes;

use super::endpoint::{Endpoint, Role, send_text};
use super::inbound::{BatchKey, InboundCall, NO_MEMORY_FOR_ANSWER};
use crate::built::Legacy;
use crate::json::{Scanner, check_utf8};
use crate::limits::Limits;
use crate::memory::{self, Charge};
use crate::rpc::envelope::{self, Kind, MalformedMessage, RejectedMessage};
use crate::rpc::{self, RequestId, RpcError};
use crate::slab::Key;

/// The response to a batch, while it is incomplete.
#[derive(Debug)]
pub(crate) struct Batch {
    channel: Key,
    /// The opening bracket, and responses, separated by commas.
    out: Vec<u8>,
    charge: Charge,
    /// Number of missing responses, plus one while the batch is being read.
    pending: usize,
    /// Number of members that may still be answered. With a bounded heap, `out` has room for an error of each.
    unanswered: usize,
}

impl Batch {
    /// Makes room for a response, without taking that of other members. Returns whether there is.
    fn reserve(&mut self, limits: &Limits, bytes: usize) -> bool {
        let others = limits.error_room().saturating_mul(self.unanswered.saturating_sub(1));
        let more = bytes.saturating_add(others).saturating_add(END.len() + 1);
        limits.hold_reserve().is_some_and(|_reserve| memory::reserve(&mut self.out, more))
    }
}

const END: &[u8] = b"]\n";

/// The members of a batch, or why it is refused and what can be read of them.
pub(crate) type SplitBatch = Result<Vec<Bytes>, (MalformedMessage, Vec<Bytes>)>;

/// Splits an array into its members, within the limits. An empty array is refused (BATCH-006).
///
/// A member that is nested too deep or has too many members costs itself alone (BATCH-008).
///
/// # Errors
///
/// The reason if the array is not valid JSON or exceeds a limit.
pub(crate) fn split_batch(frame: &Bytes, limits: &Limits) -> SplitBatch {
    let mut s = Scanner::new(frame, limits.effective_max_depth(), limits.max_members);
    let mut members = Vec::new();
    let mut count = 0;
    let scanned = s.array(|s| {
        let span = s.value()?;
        count += 1;
        // Members beyond the limit are counted and not kept: the list is bounded whatever the peer sends.
        if count <= limits.max_batch {
            members.push(frame.slice_ref(span.slice(frame).unwrap_or_default()));
        }
        Ok(())
    });
    let text = check_utf8(frame).map_err(|at| MalformedMessage::Utf8 { at });
    match text.and_then(|_| scanned.map_err(MalformedMessage::from_scan)) {
        Ok(()) if !s.is_at_end() => Err((MalformedMessage::Json { at: s.pos() }, members)),
        Ok(()) if count > limits.max_batch || count == 0 => Err((MalformedMessage::Batch, members)),
        Ok(()) => Ok(members),
        // The scanner stops at the first such member. Brackets and commas find the others, which are still answered.
        Err(reason @ (MalformedMessage::Depth { .. } | MalformedMessage::Members { .. })) => {
            split_by_commas(frame, limits.max_batch).ok_or((reason, members))
        }
        Err(reason) => Err((reason, members)),
    }
}

/// Returns the rejection of a batch as a whole, with the ids of the requests in it that can be read.
///
/// They are those of the first `max_batch` members, and of an array that is not valid JSON those before the fault.
#[cold]
pub(crate) fn reject_batch(refused: SplitBatch, limits: &Limits) -> RejectedMessage {
    let (reason, members) = refused.map_or_else(|fault| fault, |all| (MalformedMessage::Batch, all));
    let mut rejected = RejectedMessage::unreadable(reason);
    for member in &members {
        let id = match envelope::parse(member, limits, None) {
            Ok(message) => message.id.filter(|_| message.kind == Kind::Request),
            Err(malformed) => malformed.id.filter(|_| malformed.has_method),
        };
        rejected.batched.extend(id);
    }
    rejected
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
            // Only a string sets `escaped`, and this arm is before those that end a string: `\"` does not.
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
            // Kinds of brackets are not compared here: the parser refuses the member in which they differ.
            b']' | b'}' if depth > 1 => depth -= 1,
            b']' | b',' if depth == 1 => {
                if members.len() == max {
                    return None;
                }
                // A member that is empty or no JSON is refused when it is parsed, and costs only itself (BATCH-008).
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

/// Returns the responses to a batch of a channel that are there already, as an array.
#[cfg(all(feature = "http", feature = "server"))]
pub(crate) fn batch_answers<R: Role>(endpoint: &Endpoint<R>, channel: Key) -> Option<Vec<u8>> {
    let mut open = endpoint.batches.iter().map(|(_, batch)| batch);
    let batch = open.find(|batch| batch.channel == channel && batch.out.len() > 1)?;
    Some([&*batch.out, b"]"].concat())
}

impl<R: Role> Endpoint<R> {
    /// Starts the response to a batch.
    ///
    /// [`close_batch`](Self::close_batch) must follow when all members have been received. Returns `None` without memory
    /// for an error of each member.
    pub(crate) fn open_batch(&mut self, marker: Legacy, channel: Key, members: usize) -> Option<BatchKey> {
        let charge = self.memory.open();
        let mut batch = Batch { channel, out: Vec::new(), charge, pending: 1, unanswered: members };
        // The bracket, and an error of one member, beside those of the others.
        if !batch.reserve(&self.limits, 1 + self.limits.error_room()) {
            return None;
        }
        batch.out.push(b'[');
        if let Some(c) = self.channels.get_mut(channel) {
            c.role.request_started();
        }
        Some(BatchKey::new(marker, self.batches.insert(batch)))
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

    /// Makes room for a response of `bytes` bytes. Returns whether there is.
    pub(super) fn make_room_in_batch(&mut self, key: BatchKey, bytes: usize) -> bool {
        self.limits.memory_reserve == 0
            || self.batches.get_mut(key.key()).is_none_or(|batch| batch.reserve(&self.limits, bytes))
    }

    /// Adds the response that `write` appends; `extra` is as for [`send`](Self::send).
    ///
    /// If it would exceed `max_batch_bytes`, or without memory for it, an error takes its place.
    pub(super) fn add_to_batch(
        &mut self,
        key: BatchKey,
        id: Option<&RequestId>,
        extra: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let limit = self.limits.max_batch_bytes;
        let has_memory = self.make_room_in_batch(key, self.limits.message_room().saturating_add(extra));
        let Some(batch) = self.batches.get_mut(key.key()) else { return };
        // After the room was made: until here the member is one of those that must leave room for the others.
        batch.unanswered = batch.unanswered.saturating_sub(1);
        if batch.out.len() > 1 {
            batch.out.push(b',');
        }
        let mark = batch.out.len();
        let refusal = if has_memory {
            write(&mut batch.out);
            // The newline and the bracket do not count.
            if batch.out.len() - 2 > limit {
                Some("the answer to the batch would be too long")
            } else if self.memory.takes_result(batch.out.len() - mark) {
                None
            } else {
                Some(NO_MEMORY_FOR_ANSWER)
            }
        } else {
            Some(NO_MEMORY_FOR_ANSWER)
        };
        if let Some(refusal) = refusal {
            // It may exceed the limit, which then is one short text for each member (`Limits::max_batch`).
            batch.out.truncate(mark);
            rpc::error(&mut batch.out, id, &RpcError::internal(refusal));
        }
        if let Some(observing) = self.observing.as_mut() {
            observing.record_sent(batch.out.get(mark..).unwrap_or_default());
        }
        // The newline of the message: inside the array only a comma follows.
        batch.out.pop();
        batch.charge.follow(batch.out.capacity());
    }

    /// Records that a call of a batch was answered or dropped.
    pub(super) fn finish_batch_member(&mut self, record: &InboundCall) {
        if let Some(key) = record.batch {
            self.release_batch(key);
        }
    }

    /// Sends the array when no response is missing.
    fn release_batch(&mut self, key: BatchKey) {
        let Some(batch) = self.batches.get_mut(key.key()) else { return };
        batch.pending = batch.pending.saturating_sub(1);
        // Without memory the complete batch stays in the table, and `send_owed_batch` sends it later.
        if batch.pending == 0 && self.send_batch(key.key()).is_none() {
            self.owed += 1;
        }
    }

    /// Sends a complete array, or nothing if it is empty (BATCH-007). Returns its channel, or `None` without memory for it.
    fn send_batch(&mut self, key: Key) -> Option<Key> {
        let batch = self.batches.get_mut(key)?;
        let (channel, is_empty) = (batch.channel, batch.out.len() <= 1);
        let mut text = core::mem::take(&mut batch.out);
        text.extend_from_slice(END);
        let is_sent = is_empty
            // A copy needs memory for the whole text. Without it the text itself becomes a segment of the outbox.
            || self.send(channel, text.len(), |out| out.extend_from_slice(&text))
            || send_text(self, channel, &mut text);
        if !is_sent {
            // As before the attempt: the next one appends the end again.
            text.truncate(text.len() - END.len());
            self.batches.get_mut(key)?.out = text;
            return None;
        }
        self.batches.remove(key);
        if let Some(c) = self.channels.get_mut(channel) {
            c.role.request_finished(&mut self.shared);
        }
        Some(channel)
    }
}

/// Returns whether batches of a channel are incomplete or wait for memory.
pub(crate) fn has_batches<R: Role>(endpoint: &Endpoint<R>, channel: Key) -> bool {
    endpoint.batches.iter().any(|(_, batch)| batch.channel == channel)
}

/// Drops the complete batches of a channel that wait for memory.
pub(crate) fn drop_owed_batches<R: Role>(endpoint: &mut Endpoint<R>, channel: Key) {
    let is_owed = |batch: &Batch| batch.channel == channel && batch.pending == 0;
    loop {
        // Each pass removes a batch, so their number bounds the loop.
        let owed = endpoint.batches.iter().find(|(_, batch)| is_owed(batch)).map(|(key, _)| key);
        let Some(key) = owed else { return };
        endpoint.batches.remove(key);
        endpoint.owed = endpoint.owed.saturating_sub(1);
    }
}

/// Sends a complete array that there was no memory for before, if there is now. Returns its channel.
pub(super) fn send_owed_batch<R: Role>(endpoint: &mut Endpoint<R>) -> Option<Key> {
    let Endpoint { batches, channels, limits, .. } = endpoint;
    let mut may_be_sent = |batch: &Batch| {
        // An empty outbox cannot free memory by being written, so it is not waited for.
        channels
            .get_mut(batch.channel)
            .is_none_or(|c| c.closed || c.outbox.is_empty() || c.reserve(limits, batch.out.len()))
    };
    let owed = batches.iter().find(|(_, batch)| batch.pending == 0 && may_be_sent(batch));
    let key = owed.map(|(key, _)| key)?;
    let channel = endpoint.send_batch(key)?;
    endpoint.owed -= 1;
    Some(channel)
}

#[cfg(test)]
mod tests;
