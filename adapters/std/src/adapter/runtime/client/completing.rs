//! Completion of a text while it is typed.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

use mcp_proto::UseError;
use mcp_proto::client::Keystroke;
use mcp_proto::model::{CompleteParams, CompleteResult};

use super::Client;
use crate::Error;
use crate::adapter::client::SharedCompleter;
use crate::adapter::runtime::Runtime;

impl<R: Runtime> Client<R> {
    /// Completes the text of an input field after a keystroke; `None` if another key was pressed before the result came.
    ///
    /// Call it after each keystroke with the same completer. A request is sent when nothing was typed for the
    /// [delay](mcp_proto::client::Completer::delay) of the completer. A later keystroke ends this future, which cancels its
    /// request; dropping it does so, too. Results are cached.
    ///
    /// # Errors
    ///
    /// As [`send`](crate::adapter::client::AsyncCalls::send).
    pub async fn complete_typed(
        &self,
        completer: &SharedCompleter,
        params: &CompleteParams<'_>,
    ) -> Result<Option<CompleteResult>, Error> {
        let key = match completer.press(params).map_err(UseError::Encode)? {
            Keystroke::Known(result) => return Ok(Some(result)),
            Keystroke::Pending(key) => key,
        };
        while let Some(left) = completer.time_until_due(key).filter(|left| !left.is_zero()) {
            // It drives the connection, which may have the cancellation of an earlier request to send.
            let mut waiting = pin!(self.poll(left));
            poll_fn(|cx| match completer.poll_replaced(cx, key) {
                Poll::Ready(()) => Poll::Ready(Ok(true)),
                Poll::Pending => waiting.as_mut().poll(cx),
            })
            .await?;
        }
        if !completer.begin(key) {
            return Ok(None);
        }
        let mut call = pin!(self.send(params));
        let outcome = poll_fn(|cx| match completer.poll_replaced(cx, key) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => call.as_mut().poll(cx).map(Some),
        })
        .await;
        let Some(outcome) = outcome else { return Ok(None) };
        let is_wanted = completer.finish(key, outcome.as_ref().ok());
        if is_wanted { outcome.map(Some) } else { Ok(None) }
    }
}
