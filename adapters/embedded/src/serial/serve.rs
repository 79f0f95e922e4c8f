//! The server on a byte stream as a future.

use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Poll, Waker};

use embedded_io_async::{Read, Write};
use mcp_proto::Instant;
use mcp_proto::pipe::Pipe as _;

use super::{CHUNK_BYTES, SerialServer};
use crate::Application;

/// The clock of an executor.
pub trait Timer {
    /// Returns the time, from any epoch.
    fn now(&self) -> Instant;

    /// Waits until a time. Dropping the future before is allowed, and happens often.
    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()>;
}

impl<T: Timer + ?Sized> Timer for &T {
    fn now(&self) -> Instant {
        (**self).now()
    }

    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> {
        (**self).sleep_until(at)
    }
}

/// The server, and its two directions while they wait for it.
struct Shared<'a, A> {
    server: &'a mut SerialServer,
    app: &'a mut A,
    /// The reader, while the server takes no input.
    reader: Option<Waker>,
    /// The writer, while there is no output.
    writer: Option<Waker>,
    /// The task that drives the server.
    driver: Option<Waker>,
    /// The time at which the server is driven without input.
    deadline: Option<Instant>,
}

impl<A: Application> Shared<'_, A> {
    /// Processes what is due, and wakes the directions that can go on.
    fn advance(&mut self, now: Instant) {
        let wakes_at = self.server.advance(now, self.app);
        self.deadline = self.server.poll_timeout(wakes_at);
        let reader = self.reader.take_if(|_| self.server.server.wants_input());
        let writer = self.writer.take_if(|_| !self.server.server.transmit().is_empty());
        reader.into_iter().chain(writer).for_each(Waker::wake);
    }

    /// Wakes the task that drives the server, after something has happened.
    fn wake_driver(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}

impl SerialServer {
    /// Serves until the stream ends, and its last answer was written.
    ///
    /// Both directions wait at once, and a handler that answers later is called in time by `timer`. The future may be dropped
    /// and a new one made, with the same streams: nothing is lost if the futures of `reader` and `writer` are free of side
    /// effects when they are dropped unfinished, which they document. They are never dropped before this future is.
    ///
    /// # Errors
    ///
    /// The error of `reader` or `writer`. As with [`poll`](Self::poll) the server is unchanged by it; call this again to go
    /// on.
    pub async fn serve<R, W, T, A>(
        &mut self,
        mut reader: R,
        mut writer: W,
        timer: T,
        app: &mut A,
    ) -> Result<(), R::Error>
    where
        R: Read,
        W: Write<Error = R::Error>,
        T: Timer,
        A: Application,
    {
        let shared = Shared { server: self, app, reader: None, writer: None, driver: None, deadline: None };
        let shared = RefCell::new(shared);
        let mut reading = pin!(read(&shared, &mut reader, &timer));
        let mut writing = pin!(write(&shared, &mut writer));
        loop {
            let deadline = {
                let mut shared = shared.borrow_mut();
                shared.advance(timer.now());
                if shared.server.server.is_drained() {
                    return Ok(());
                }
                shared.deadline
            };
            let mut due = pin!(async {
                match deadline {
                    Some(at) => timer.sleep_until(at).await,
                    None => core::future::pending().await,
                }
            });
            // Until a direction has done something, or the time has come.
            let turn = poll_fn(|cx| {
                shared.borrow_mut().driver = Some(cx.waker().clone());
                // Each ends by its error alone.
                if let Poll::Ready(error) = writing.as_mut().poll(cx) {
                    return Poll::Ready(Err(error));
                }
                if let Poll::Ready(error) = reading.as_mut().poll(cx) {
                    return Poll::Ready(Err(error));
                }
                if shared.borrow().driver.is_none() || due.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending
            });
            turn.await?;
        }
    }
}

/// Reads while the server takes input, until an error.
async fn read<R: Read, A: Application>(
    shared: &RefCell<Shared<'_, A>>,
    reader: &mut R,
    timer: &impl Timer,
) -> R::Error {
    let mut has_ended = false;
    loop {
        poll_fn(|cx| {
            let mut shared = shared.borrow_mut();
            if shared.server.server.wants_input() && !has_ended {
                return Poll::Ready(());
            }
            shared.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        let mut bytes = [0; CHUNK_BYTES];
        let n = match reader.read(&mut bytes).await {
            Ok(n) => n,
            Err(error) => return error,
        };
        has_ended = n == 0;
        let mut shared = shared.borrow_mut();
        shared.server.handle_read(timer.now(), &bytes, n);
        shared.wake_driver();
    }
}

/// Writes the output, until an error.
async fn write<W: Write, A: Application>(shared: &RefCell<Shared<'_, A>>, writer: &mut W) -> W::Error {
    loop {
        // A copy, so that the server may go on while the stream takes its time.
        let mut bytes = [0; CHUNK_BYTES];
        let n = poll_fn(|cx| {
            let mut shared = shared.borrow_mut();
            let n =
                bytes.iter_mut().zip(shared.server.server.transmit()).map(|(to, from)| *to = *from).count();
            if n > 0 {
                return Poll::Ready(n);
            }
            shared.writer = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        match writer.write(bytes.get(..n).unwrap_or_default()).await {
            Ok(written) => {
                let mut shared = shared.borrow_mut();
                shared.server.consume(written);
                shared.wake_driver();
            }
            Err(error) => return error,
        }
    }
}
