//! The body of a response.

use core::convert::Infallible;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::shard::{Exchange, Piece};

/// The body of a response, which is produced as it is polled.
///
/// A body that is not polled costs its share of the queue of its engine and no more; one of at most 64 KiB that is complete when
/// the response begins is held here instead. Dropping it before its end is a
/// disconnect: an unanswered modern request is cancelled; the client of a legacy one may come back for the rest.
pub struct McpBody(Source);

enum Source {
    Exchange {
        exchange: Exchange,
        /// Bytes that are left, if the length is known.
        left: Option<u64>,
        /// Bytes that were returned and do not count as sent yet.
        unconsumed: usize,
    },
    Whole(Option<Bytes>),
}

impl McpBody {
    /// Creates the body of a response of the engine, whose length is `left` if it is known.
    pub(crate) const fn new(exchange: Exchange, left: Option<u64>) -> Self {
        Self(Source::Exchange { exchange, left, unconsumed: 0 })
    }

    /// Creates a body that is there as a whole.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self(Source::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    /// Returns the next piece, or `None` at the end.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let (exchange, left, unconsumed) = match &mut self.0 {
            Source::Whole(bytes) => return Poll::Ready(bytes.take()),
            Source::Exchange { exchange, left, unconsumed } => (exchange, left, unconsumed),
        };
        let mut waker = None;
        for _ in 0..MAX_ATTEMPTS {
            match exchange.take_piece(left.is_none(), unconsumed, waker) {
                Piece::Data(piece) => {
                    // It is perhaps not polled again for long: its reader has to take this piece first. So the work for which
                    // it may have been woken comes now, and it is not woken for more.
                    if exchange.has_work() {
                        exchange.turn();
                    }
                    exchange.stop_waiting();
                    *left = left.map(|left| left.saturating_sub(piece.len() as u64));
                    return Poll::Ready(Some(piece));
                }
                Piece::End => {
                    self.0 = Source::Whole(None);
                    return Poll::Ready(None);
                }
                Piece::Nothing if waker.is_some() && !exchange.has_work() => return Poll::Pending,
                Piece::Nothing => {}
            }
            exchange.turn();
            waker = Some(cx.waker());
        }
        // Yield to the executor's other tasks.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Body for McpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.poll_piece(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Exchange { left, .. } => *left == Some(0),
            Source::Whole(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Exchange { left, .. } => left.map_or_else(SizeHint::default, SizeHint::with_exact),
            Source::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}

impl fmt::Debug for McpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpBody").field("size", &self.size_hint()).finish_non_exhaustive()
    }
}

/// Attempts after which a poll returns to its executor.
const MAX_ATTEMPTS: usize = 16;
