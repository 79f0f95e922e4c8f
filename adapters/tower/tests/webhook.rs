//! Deliveries of events to a webhook, without sockets.

use alloc::sync::Arc;
use core::convert::Infallible;
use core::future::Future as _;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::Mutex;

use bytes::Bytes;
use futures_lite::future::{block_on, pending};
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use mcp_tower::events::receiver::{Limits, Message, Receiver, RegistrationKey};
use mcp_tower::events::webhook::{Secret, sign};
use mcp_tower::{McpBody, WebhookService};
use tower_service::Service as _;

const NOW: u64 = 1_795_600_800;
const EVENT: &str = r#"{"eventId":"e1","name":"n","timestamp":"2026-11-25T10:00:00Z","data":{}}"#;

fn secret() -> Secret {
    Secret::from_entropy([7; 32])
}

fn bound() -> (Arc<Mutex<Receiver>>, RegistrationKey) {
    let mut limits = Limits::default();
    limits.max_body = 300;
    let mut receiver = Receiver::new(limits);
    let key = receiver.register(secret()).unwrap();
    receiver.bind(key, "sub_1").unwrap();
    (Arc::new(Mutex::new(receiver)), key)
}

fn request(id: &str, body: &str) -> Request<Full<Bytes>> {
    let request = Request::post("/hooks")
        .header("Content-Type", "application/json")
        .header("webhook-id", id)
        .header("webhook-timestamp", NOW.to_string())
        .header("webhook-signature", sign([&secret()], id, NOW, body.as_bytes()))
        .header("X-MCP-Subscription-Id", "sub_1");
    request.body(Full::from(body.to_owned())).unwrap()
}

fn body(response: Response<McpBody>) -> Bytes {
    block_on(response.into_body().collect()).unwrap().to_bytes()
}

// covers: EVT-120, EVT-122, EVT-123, EVT-125, EVT-126
#[test]
fn message_is_acknowledged_when_it_is_kept() {
    let (receiver, key) = bound();
    let kept = Arc::new(Mutex::new(Vec::new()));
    let (store, attempts) = (kept.clone(), Arc::new(AtomicUsize::new(0)));
    let mut service = WebhookService::new(receiver, move |subscription, message| {
        let (store, attempt) = (store.clone(), attempts.fetch_add(1, Ordering::SeqCst));
        async move {
            futures_lite::future::yield_now().await;
            store.lock().unwrap().push((subscription, message));
            attempt > 0
        }
    })
    .clock(|| NOW);
    for expected in [503, 204, 204] {
        let response = block_on(service.call(request("e1", EVENT))).unwrap();
        assert_eq!(response.status(), expected);
        assert!(body(response).is_empty());
    }
    let kept = kept.lock().unwrap();
    assert_eq!(kept.len(), 2, "the third one is a repetition");
    assert!(kept.iter().all(|(subscription, message)| {
        *subscription == key && matches!(message, Message::Event(event) if event.event_id == "e1")
    }));
    let challenge = request("m1", r#"{"type":"verification","challenge":"n"}"#);
    let response = block_on(service.call(challenge)).unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(body(response), r#"{"challenge":"n"}"#);
}

#[test]
fn message_that_is_given_up_comes_again() {
    let (receiver, _) = bound();
    let attempts = Arc::new(AtomicUsize::new(0));
    let count = attempts.clone();
    let service = WebhookService::new(receiver, move |_, _| {
        let attempt = count.fetch_add(1, Ordering::SeqCst);
        async move {
            match attempt {
                0 => pending().await,
                1 => panic!("a mistake of the test"),
                _ => true,
            }
        }
    })
    .clock(|| NOW);
    {
        // The sender leaves.
        let mut handling = pin!(service.handle(request("e1", EVENT)));
        assert!(handling.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let panicking = core::panic::AssertUnwindSafe(|| block_on(service.handle(request("e1", EVENT))));
    assert!(std::panic::catch_unwind(panicking).is_err());
    assert_eq!(block_on(service.handle(request("e1", EVENT))).status(), 204);
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
}

/// A body in pieces without an end, and the number of those that were read.
struct Endless(Arc<AtomicUsize>);

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b' '; 100])))))
    }
}

// covers: EVT-120, EVT-127
#[test]
fn what_is_no_delivery_is_refused_with_bounds() {
    let (receiver, _) = bound();
    let service = WebhookService::new(receiver, async |_, message| panic!("{message:?}")).clock(|| NOW);
    let read = Arc::new(AtomicUsize::new(0));
    let endless = Request::post("/hooks").body(Endless(read.clone())).unwrap();
    assert_eq!(block_on(service.handle(endless)).status(), 413);
    assert_eq!(read.load(Ordering::SeqCst), 4);
    let mut get = request("e1", EVENT);
    *get.method_mut() = http::Method::GET;
    let response = block_on(service.handle(get));
    assert_eq!(response.status(), 405);
    assert_eq!(response.headers()["allow"], "POST");
    let mut forged = request("e1", EVENT);
    forged.headers_mut().insert("webhook-id", "e2".parse().unwrap());
    assert_eq!(block_on(service.handle(forged)).status(), 401);
}
