//! Completion of a text while it is typed.

use mcp_proto::UseError;
use mcp_proto::client::Keystroke;
use mcp_proto::model::{CompleteParams, CompleteResult};

use super::{BlockingCalls, ClientBackend};
use crate::adapter::client::SharedCompleter;
use crate::error::Error;

impl<B: ClientBackend> BlockingCalls<B> {
    /// Completes the text of an input field after a keystroke; `None` if another key was pressed before the result came.
    ///
    /// Call it after each keystroke with the same completer. It waits until nothing was typed for the
    /// [delay](mcp_proto::client::Completer::delay) of the completer, and then sends a request. Results are cached. With a client
    /// that threads share, call it on a thread that may wait: a call on another thread ends this wait. A request that was sent
    /// goes on, and its result is dropped. To wait elsewhere, drive a [`Completer`](mcp_proto::client::Completer) yourself.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn complete_typed(
        &self,
        completer: &SharedCompleter,
        params: &CompleteParams<'_>,
    ) -> Result<Option<CompleteResult>, Error> {
        let key = match completer.press(params).map_err(UseError::Encode)? {
            Keystroke::Known(result) => return Ok(Some(result)),
            Keystroke::Pending(key) => key,
        };
        if !completer.wait_and_begin(key) {
            return Ok(None);
        }
        let outcome = self.send(params);
        let is_wanted = completer.finish(key, outcome.as_ref().ok());
        if is_wanted { outcome.map(Some) } else { Ok(None) }
    }
}
