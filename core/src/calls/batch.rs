//! Batches, which exist in 2025-03-26 alone (BATCH-001): one array in, one array out.

use alloc::vec::Vec;

use bytes::Bytes;

use super::inbound::InCall;
use super::link::Link;
use super::side::Side;
use crate::json::{Scanner, check_utf8};
use crate::limits::Limits;
use crate::rpc::envelope::Malformed;
use crate::rpc::{RpcError, encode};
use crate::slab::Key;

/// The answer to a batch, as far as it is known
#[derive(Debug)]
pub(crate) struct Batch {
    channel: Key,
    /// Answers, separated by commas
    out: Vec<u8>,
    /// Answers that are still missing, and one for as long as the batch is being read
    open: usize,
}

/// The members of an array, checked and bounded; an empty one is refused too (BATCH-006)
pub(crate) fn members(frame: &Bytes, limits: &Limits) -> Result<Vec<Bytes>, Malformed> {
    if let Err(at) = check_utf8(frame) {
        return Err(Malformed::Utf8 { at });
    }
    let mut s = Scanner::new(frame, limits.depth(), limits.max_members);
    let mut members = Vec::new();
    let mut count = 0;
    s.array(|s| {
        let span = s.value()?;
        count += 1;
        if count <= limits.max_batch {
            members.push(frame.slice_ref(span.of(frame).unwrap_or_default()));
        }
        Ok(())
    })
    .map_err(Malformed::of)?;
    if !s.at_end() {
        return Err(Malformed::Json { at: s.pos() });
    }
    if count > limits.max_batch || count == 0 { Err(Malformed::Batch) } else { Ok(members) }
}

impl<X: Side> Link<X> {
    /// Begins the answer to a batch; [`close_batch`](Self::close_batch) when all members have been received
    pub(crate) fn open_batch(&mut self, channel: Key) -> Key {
        if let Some(c) = self.channels.get_mut(channel) {
            c.extra.begun();
        }
        self.batches.insert(Batch { channel, out: Vec::new(), open: 1 })
    }

    /// All members have been received: from now on the array goes out when the last answer is there
    pub(crate) fn close_batch(&mut self, key: Key) {
        self.leave(key);
    }

    /// A call of a batch has begun, whose answer belongs into the array
    pub(super) fn join_batch(&mut self, key: Key) {
        if let Some(batch) = self.batches.get_mut(key) {
            batch.open += 1;
        }
    }

    /// Adds an answer; one that would make the array too long gives way to an error
    pub(super) fn add_to_batch(&mut self, key: Key, id: Option<&crate::RequestId>, message: &[u8]) {
        let limit = self.limits.max_batch_bytes;
        let Some(batch) = self.batches.get_mut(key) else { return };
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

    /// A call of a batch has its answer, or will get none
    pub(super) fn leave_batch(&mut self, record: &InCall) {
        if let Some(key) = record.batch {
            self.leave(key);
        }
    }

    /// Sends the array once no answer is missing; nothing when there is none (BATCH-007)
    fn leave(&mut self, key: Key) {
        let Some(batch) = self.batches.get_mut(key) else { return };
        batch.open = batch.open.saturating_sub(1);
        if batch.open > 0 {
            return;
        }
        let Some(batch) = self.batches.remove(key) else { return };
        if let Some(c) = self.channels.get_mut(batch.channel) {
            c.extra.ended(&mut self.shared);
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
