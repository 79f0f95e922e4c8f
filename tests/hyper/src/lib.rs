//! The exchange level of the HTTP server of `mcp-proto` under `hyper`, on one thread.
//!
//! Heads, bodies and disconnects are passed in as `hyper` reports them, and responses are written as its `Body` is
//! polled. This crate adds only a clock and the wakers of the waiting tasks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mcp_proto::Instant;
use mcp_proto::head::{BodySize, RequestHead};
use mcp_proto::http::server::{Event, ExchangeId, Server};
use tokio::net::TcpListener;

/// Handles the events of the server; a call may be answered immediately or later.
pub type EventHandler = Box<dyn FnMut(&mut Server, Instant, mcp_proto::server::Event)>;

/// A server and the wakers of the tasks that wait for it.
struct MountedServer {
    server: Server,
    handle: EventHandler,
    started: std::time::Instant,
    wakers: BTreeMap<ExchangeId, Waker>,
}

type SharedServer = Rc<RefCell<MountedServer>>;

impl MountedServer {
    fn now(&self) -> Instant {
        Instant::from_micros(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Handles all events and wakes the waiting tasks.
    fn settle(&mut self) {
        let now = self.now();
        while let Some(event) = self.server.poll_event(now) {
            if let Event::Server(event) = event {
                (self.handle)(&mut self.server, now, event);
            }
        }
        while let Some(exchange) = self.server.poll_ready(now) {
            self.wakers.remove(&exchange).into_iter().for_each(Waker::wake);
        }
    }
}

/// Guard that closes an exchange when it is dropped.
struct ExchangeGuard {
    mount: SharedServer,
    exchange: ExchangeId,
}

impl Drop for ExchangeGuard {
    fn drop(&mut self) {
        let mount = &mut *self.mount.borrow_mut();
        let now = mount.now();
        mount.wakers.remove(&self.exchange);
        mount.server.handle_gone(now, self.exchange);
        mount.settle();
    }
}

/// Body of a response, produced as it is polled.
struct ResponseBody {
    guard: ExchangeGuard,
    remaining: Option<u64>,
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let exchange = self.guard.exchange;
        let shared = Rc::clone(&self.guard.mount);
        let mount = &mut *shared.borrow_mut();
        let now = mount.now();
        let bytes = match mount.server.transmit_owned(now, exchange) {
            Some(bytes) => bytes,
            None => {
                let bytes = Bytes::copy_from_slice(mount.server.transmit(now, exchange));
                mount.server.consume(exchange, bytes.len());
                bytes
            }
        };
        if !bytes.is_empty() {
            self.remaining = self.remaining.map(|left| left - bytes.len() as u64);
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if mount.server.is_finished(exchange) {
            return Poll::Ready(None);
        }
        mount.wakers.insert(exchange, cx.waker().clone());
        Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        self.remaining.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Serves one request.
async fn serve_one(
    mount: SharedServer,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<ResponseBody>, hyper::Error> {
    let (head, mut body) = request.into_parts();
    let fields: Vec<(&str, &[u8])> = head.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let exchange = {
        let mount = &mut *mount.borrow_mut();
        let request = RequestHead { method: head.method.as_str(), target, fields: &fields };
        let exchange = mount.server.open(mount.now(), &request, body.size_hint().exact());
        mount.settle();
        exchange
    };
    // From here on, dropping this future closes the exchange.
    let held = ExchangeGuard { mount: Rc::clone(&mount), exchange };
    while mount.borrow().server.wants_body(exchange) {
        let frame = body.frame().await.transpose()?;
        let mount = &mut *mount.borrow_mut();
        let now = mount.now();
        match frame.map(Frame::into_data) {
            Some(Ok(piece)) => mount.server.handle_body(now, exchange, piece),
            Some(Err(_)) => {}
            None => mount.server.handle_end(now, exchange),
        }
        mount.settle();
    }
    let response = std::future::poll_fn(|cx| {
        let mount = &mut *mount.borrow_mut();
        match mount.server.response(exchange) {
            Some(response) => Poll::Ready(response.clone()),
            None => {
                mount.wakers.insert(exchange, cx.waker().clone());
                Poll::Pending
            }
        }
    });
    let response = response.await;
    let left = match response.size {
        BodySize::None => Some(0),
        BodySize::Exact(length) => Some(length),
        BodySize::Stream => None,
    };
    let mut answer = hyper::Response::new(ResponseBody { guard: held, remaining: left });
    *answer.status_mut() = hyper::StatusCode::from_u16(response.status).expect("from 200 to 503");
    for (name, value) in response.fields.iter() {
        let name = hyper::header::HeaderName::from_bytes(name.as_bytes()).expect("a token");
        let value = hyper::header::HeaderValue::from_bytes(value).expect("a value");
        answer.headers_mut().append(name, value);
    }
    Ok(answer)
}

/// Handles the deadlines of the server.
async fn run_timeouts(mount: SharedServer) {
    loop {
        let wait = {
            let mount = &mut *mount.borrow_mut();
            let now = mount.now();
            mount.server.handle_timeout(now);
            mount.settle();
            mount.server.poll_timeout().map(|at| at.saturating_duration_since(now))
        };
        // Other events may change the deadline while this sleeps, so it sleeps for at most `POLL_INTERVAL`.
        tokio::time::sleep(wait.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL)).await;
    }
}

/// Serves all connections until the future is dropped. It must run on a `LocalSet`.
pub async fn serve(listener: TcpListener, server: Server, handle: EventHandler) -> std::io::Result<()> {
    let begun = std::time::Instant::now();
    let mount =
        Rc::new(RefCell::new(MountedServer { server, handle, started: begun, wakers: BTreeMap::new() }));
    tokio::task::spawn_local(run_timeouts(Rc::clone(&mount)));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mount = Rc::clone(&mount);
        let service = service_fn(move |request| serve_one(Rc::clone(&mount), request));
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // A client that disconnects is not an error.
        tokio::task::spawn_local(async move { drop(connection.await) });
    }
}

const POLL_INTERVAL: Duration = Duration::from_millis(50);
