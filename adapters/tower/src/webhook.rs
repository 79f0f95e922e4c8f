//! Deliveries of events to a webhook, as a service (feature `events`).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use std::sync::Mutex;

use mcp_std::sync::lock;

use bytes::{Buf as _, Bytes};
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use mcp_events::receiver::{self, Answer, Message, Receipt, Receiver, RegistrationKey};
use tower_service::Service;

use crate::{McpBody, StdClock, Timer as _};

/// A service that takes deliveries of events in: a [`Receiver`], and an asynchronous function that keeps what comes.
///
/// Mount it at the path of the callback URL, which is `https`. It reads at most
/// [`Limits::max_body`](mcp_events::receiver::Limits::max_body) bytes of a body, verifies it, and answers challenges. A message goes to the
/// function; the sender is told that it arrived if that returns true (EVT-123), and else that it has to try again. So it is if
/// the function panics, or the sender leaves before. The function may run for several messages at once, and should be done
/// within seconds: senders wait for five to ten.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use http_body_util::Full;
/// use mcp_tower::WebhookService;
/// use mcp_tower::events::receiver::{Limits, Message, Receiver};
///
/// let receiver = Receiver::new(Limits::default());
/// let receiver = Arc::new(Mutex::new(receiver));
/// let service = WebhookService::new(
///     receiver.clone(),
///     async |_subscription, message| {
///         if let Message::Event(event) = message {
///             // … it is stored here …
///             println!("{}", event.event_id);
///         }
///         true
///     },
/// );
/// // A web framework does this:
/// # futures_lite::future::block_on(async {
/// let request = http::Request::post("/hooks")
///     .body(Full::<bytes::Bytes>::default())
///     .unwrap();
/// let response = service.handle(request).await;
/// // It is no delivery.
/// assert_eq!(response.status(), 415);
/// # });
/// ```
pub struct WebhookService<F> {
    receiver: Arc<Mutex<Receiver>>,
    keep: Arc<F>,
    unix_secs: fn() -> u64,
}

impl<F> Clone for WebhookService<F> {
    fn clone(&self) -> Self {
        Self { receiver: self.receiver.clone(), keep: self.keep.clone(), unix_secs: self.unix_secs }
    }
}

impl<F> fmt::Debug for WebhookService<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookService").finish_non_exhaustive()
    }
}

impl<F> WebhookService<F> {
    /// Creates a service around a receiver, with what keeps messages: an `async` function of a registration and its message.
    pub fn new<Fut>(receiver: Arc<Mutex<Receiver>>, keep: F) -> Self
    where
        F: Fn(RegistrationKey, Message) -> Fut,
        Fut: Future<Output = bool>,
    {
        Self { receiver, keep: Arc::new(keep), unix_secs: || StdClock.unix_seconds() }
    }

    /// Sets the clock, in Unix time, for hosts without one that Rust knows.
    #[must_use]
    pub const fn clock(mut self, unix_secs: fn() -> u64) -> Self {
        self.unix_secs = unix_secs;
        self
    }

    /// Handles a request.
    pub async fn handle<B, Fut>(&self, request: Request<B>) -> Response<McpBody>
    where
        B: Body,
        F: Fn(RegistrationKey, Message) -> Fut,
        Fut: Future<Output = bool>,
    {
        let max_body = lock(&self.receiver).limits().max_body;
        let (head, body) = request.into_parts();
        let answer = match read(body, max_body).await {
            Err(answer) => answer,
            Ok(body) => {
                let fields: Vec<_> =
                    head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
                let request =
                    receiver::Request { method: head.method.as_str(), fields: &fields, body: &body };
                let outcome = lock(&self.receiver).receive(&request, (self.unix_secs)());
                match outcome.into_message() {
                    Err(answer) => answer,
                    Ok((subscription, message, receipt)) => {
                        let unconfirmed = Unconfirmed { receiver: &self.receiver, receipt: Some(receipt) };
                        let is_kept = (self.keep)(subscription, message).await;
                        unconfirmed.confirm(is_kept)
                    }
                }
            }
        };
        response(answer)
    }
}

/// A message that is being kept. If that is given up, it is not kept.
struct Unconfirmed<'a> {
    receiver: &'a Mutex<Receiver>,
    receipt: Option<Receipt>,
}

impl Unconfirmed<'_> {
    fn confirm(mut self, is_kept: bool) -> Answer {
        let receipt = self.receipt.take();
        receipt.map_or(Answer::empty(503), |receipt| lock(self.receiver).confirm(receipt, is_kept))
    }
}

impl Drop for Unconfirmed<'_> {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            let _ = lock(self.receiver).confirm(receipt, false);
        }
    }
}

/// Reads a body of at most `max` bytes.
///
/// # Errors
///
/// The answer to a longer one, and to one that ends in between.
async fn read<B: Body>(body: B, max: usize) -> Result<Vec<u8>, Answer> {
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let Ok(frame) = frame else { return Err(Answer::empty(400)) };
        let Ok(mut data) = frame.into_data() else { continue };
        if data.remaining() > max - bytes.len() {
            return Err(Answer::empty(413));
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            bytes.extend_from_slice(chunk);
            let length = chunk.len();
            data.advance(length);
        }
    }
    Ok(bytes)
}

fn response(answer: Answer) -> Response<McpBody> {
    let has_body = !answer.body.is_empty();
    let mut response = Response::new(McpBody::whole(Bytes::from(answer.body)));
    // The receiver has no others.
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if has_body {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    if answer.status == 405 {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}

impl<F, Fut, B> Service<Request<B>> for WebhookService<F>
where
    F: Fn(RegistrationKey, Message) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = bool> + Send + 'static,
    B: Body<Data: Send> + Send + 'static,
{
    type Response = Response<McpBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<McpBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.handle(request).await) })
    }
}
