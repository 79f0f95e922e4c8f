//! The response to a request, as a future.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use bytes::{Buf as _, Bytes};
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, request};
use http_body::Body;
use mcp_proto::head::{FieldLine, RequestHead};
use mcp_proto::http::fields;
use mcp_std::catch;

use crate::McpBody;
use crate::request_view::SeenRequest;
use crate::service::Inner;
use crate::shard::{Exchange, RequestState, ResponseBody, ShardSleep};

/// The response of an [`McpService`](crate::McpService). It never fails.
///
/// Nothing happens before it is polled. Dropping it is a disconnect of the client.
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<B> {
    state: State<B>,
}

enum State<B> {
    Start { request: Box<Request<B>>, service: Arc<Inner> },
    Receiving { exchange: Exchange, body: Pin<Box<B>>, timeout: BodyTimeout },
    Done,
}

/// When the body of a request is too late.
struct BodyTimeout {
    after: Duration,
    sleep: Option<Pin<Box<ShardSleep>>>,
}

impl<B: Body> ResponseFuture<B> {
    pub(crate) fn new(request: Request<B>, service: Arc<Inner>) -> Self {
        Self { state: State::Start { request: Box::new(request), service } }
    }
}

impl<B: Body> Future for ResponseFuture<B> {
    type Output = Result<Response<McpBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut opened = None;
        if let State::Start { .. } = &this.state {
            if let State::Start { request, service } = core::mem::replace(&mut this.state, State::Done) {
                let (head, body) = request.into_parts();
                // Before anything is locked: this is code of the application.
                let Ok(seen) = catch(|| service.view.of(&head)) else {
                    let why = "the request cannot be described";
                    return Poll::Ready(Ok(refusal(StatusCode::INTERNAL_SERVER_ERROR, why)));
                };
                let Some((exchange, request_state)) = open(&head, &body, &service, &seen) else {
                    return Poll::Pending;
                };
                let timeout = BodyTimeout { after: service.body_timeout, sleep: None };
                this.state = State::Receiving { exchange, body: Box::pin(body), timeout };
                opened = Some(request_state);
            }
        }
        let State::Receiving { exchange, body, timeout } = &mut this.state else { return Poll::Pending };
        let response = match poll_request(exchange, body.as_mut(), timeout, opened, cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err((status, why))) => refusal(status, why),
            Poll::Ready(Ok(())) => match core::mem::replace(&mut this.state, State::Done) {
                State::Receiving { exchange, .. } => into_response(exchange),
                _ => return Poll::Pending,
            },
        };
        this.state = State::Done;
        Poll::Ready(Ok(response))
    }
}

impl<B> fmt::Debug for ResponseFuture<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

/// Opens the exchange of a request.
fn open(
    head: &request::Parts,
    body: &impl Body,
    service: &Inner,
    seen: &SeenRequest,
) -> Option<(Exchange, RequestState)> {
    let mut fields: Vec<FieldLine<'_>> = Vec::with_capacity(head.headers.len() + 1);
    fields.extend(head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
    // A request over HTTP/2 names its host in its target only.
    if let Some(authority) = head.uri.authority().filter(|_| !head.headers.contains_key(HOST)) {
        let host = authority.as_str();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        fields.push((HOST.as_str(), host.as_bytes()));
    }
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let request = RequestHead { method: head.method.as_str(), target, fields: &fields };
    let length = body.size_hint().exact();
    let (shards, shard) = (&service.shards, service.next_shard()?);
    let other = match shard.open(&request, length, false, seen) {
        Ok(opened) => return Some(opened),
        Err(other) => shards.get(usize::from(other)).unwrap_or(shard),
    };
    other.open(&request, length, true, seen).ok()
}

/// Reads the body of a request, and waits for its response. `opened`: its state, if it was opened just now.
fn poll_request<B: Body>(
    exchange: &mut Exchange,
    mut body: Pin<&mut B>,
    timeout: &mut BodyTimeout,
    mut opened: Option<RequestState>,
    cx: &mut Context<'_>,
) -> Poll<Result<(), (StatusCode, &'static str)>> {
    let mut is_registered = false;
    // The clock was read when it was opened.
    let tick = opened.is_none();
    for _ in 0..MAX_ATTEMPTS {
        let waker = is_registered.then_some(cx.waker());
        match opened.take().unwrap_or_else(|| exchange.request_state(waker)) {
            RequestState::Decided => {
                exchange.stop_waiting();
                return Poll::Ready(Ok(()));
            }
            RequestState::WantsBody => match body.as_mut().poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let piece = frame.into_data().ok().map(|mut data| data.copy_to_bytes(data.remaining()));
                    exchange.handle_body(piece, body.is_end_stream(), tick);
                    continue;
                }
                Poll::Ready(None) => exchange.handle_body(None, true, tick),
                Poll::Ready(Some(Err(_))) => {
                    return Poll::Ready(Err((StatusCode::BAD_REQUEST, "the body of the request broke off")));
                }
                Poll::Pending => {
                    let begin =
                        || Box::pin(ShardSleep::new(&Arc::downgrade(exchange.shard()), timeout.after));
                    let sleep = timeout.sleep.get_or_insert_with(begin);
                    if sleep.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Err((StatusCode::REQUEST_TIMEOUT, "the body took too long")));
                    }
                    if is_registered && !exchange.has_work() {
                        return Poll::Pending;
                    }
                }
            },
            RequestState::Waits => {
                timeout.sleep = None;
                if is_registered && !exchange.has_work() {
                    return Poll::Pending;
                }
            }
        }
        exchange.turn();
        is_registered = true;
    }
    // Yield to the executor's other tasks.
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Returns the response of the engine.
fn into_response(mut exchange: Exchange) -> Response<McpBody> {
    let mut response = Response::new(());
    let taken = exchange.take_response(|head| {
        *response.status_mut() =
            StatusCode::from_u16(head.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in head.fields.iter() {
            // Both are valid: the engine has checked what it writes.
            if let (Some(name), Some(value)) = (field_name(name), field_value(value)) {
                response.headers_mut().append(name, value);
            }
        }
    });
    let Some(((), body)) = taken else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "the server has ended");
    };
    let left = match body {
        ResponseBody::Whole(bytes) => return response.map(|()| McpBody::whole(bytes)),
        ResponseBody::Pieces(length) => Some(length),
        ResponseBody::Stream => None,
    };
    exchange.begin_body();
    response.map(|()| McpBody::new(exchange, left))
}

/// Returns the name of a field. That of all responses with a body is not parsed.
fn field_name(name: &str) -> Option<HeaderName> {
    match name {
        fields::CONTENT_TYPE => Some(CONTENT_TYPE),
        _ => HeaderName::from_bytes(name.as_bytes()).ok(),
    }
}

/// Returns the value of a field. That of most responses is not copied.
fn field_value(value: &[u8]) -> Option<HeaderValue> {
    match value {
        b"application/json" => Some(HeaderValue::from_static("application/json")),
        _ => HeaderValue::from_bytes(value).ok(),
    }
}

/// Returns a response that is not of the engine.
fn refusal(status: StatusCode, why: &'static str) -> Response<McpBody> {
    let mut response = Response::new(McpBody::whole(Bytes::from_static(why.as_bytes())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// Attempts after which a poll returns to its executor, and so the largest number of pieces of a body that it reads.
const MAX_ATTEMPTS: usize = 64;
