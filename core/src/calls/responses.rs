//! Responses: sent at once, or added to the batch of their request.

use alloc::vec::Vec;

use super::batch_key::BatchKey;
use super::endpoint::Endpoint;
use super::error_form::{ErrorForm, NO_MEMORY_FOR_ANSWER};
use super::role::Role;
use super::room;
use crate::rpc::{RequestId, RpcError, encode};
use crate::slab::Key;

impl<R: Role> Endpoint<R> {
    /// Sends an error response, or adds it to the batch of its request.
    ///
    /// Without memory for it, a short one takes its place, and without memory for that nothing is sent. Both cannot be
    /// while a message is handled that was taken after [`room::can_answer`].
    pub(crate) fn send_error(
        &mut self,
        channel: Key,
        batch: Option<BatchKey>,
        id: Option<&RequestId>,
        error: &RpcError,
    ) {
        let short = RpcError::internal(NO_MEMORY_FOR_ANSWER);
        let sent = self.draft.error(error);
        let (error, released) = match room::error_form(self, channel, batch, &sent) {
            Some(ErrorForm::Whole) => (&*sent, error),
            Some(ErrorForm::Short) => (&short, &short),
            None => return,
        };
        if let (None, Some(c)) = (batch, self.channels.get_mut(channel)) {
            c.role.error_sent(released.code);
        }
        if let Some(observing) = &mut self.observing {
            observing.record_error(error);
        }
        match batch {
            None => self.append(channel, |out| encode::error(out, id, error)),
            Some(batch) => self.add_to_batch(batch, id, error.len(), |out| encode::error(out, id, error)),
        }
    }

    /// Sends a response, or adds it to the batch of its request; `extra` is as for [`send`](Self::send).
    ///
    /// Without memory for it, an error takes its place.
    pub(crate) fn send_or_batch(
        &mut self,
        channel: Key,
        batch: Option<BatchKey>,
        id: &RequestId,
        extra: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        match batch {
            Some(batch) => self.add_to_batch(batch, Some(id), extra, write),
            None => {
                if !self.send(channel, extra, write) {
                    self.send_error(channel, None, Some(id), &RpcError::internal(NO_MEMORY_FOR_ANSWER));
                }
            }
        }
    }
}
