//! Clients over services, without sockets: the service of a server itself, and one that fails in all ways.

use alloc::sync::Arc;
use core::error::Error as StdError;
use core::fmt;
use core::future::{Future, pending};
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Mutex;
use std::thread;

use bytes::Bytes;
use futures_lite::future::{block_on, yield_now, zip};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use mcp_smol::{Client, Error, Options};
use mcp_tower::mcp_proto::client::Config;
use mcp_tower::mcp_proto::http::client::{Config as HttpConfig, Credential};
use mcp_tower::mcp_proto::model::CallToolResult;
use mcp_tower::mcp_proto::{CallError, CallOptions, Era, HttpError, Limits, Progress, VersionSet};
use mcp_tower::{Cx, McpService, Router, RpcError};
use serde_json::{Value, json};
use tower_service::Service;

use crate::support::{ScriptedBody, poll_once, tool};

const URL: &str = "http://localhost/mcp";
const ERAS: [Era; 2] = [Era::Modern, Era::Legacy];
/// The largest message of the clients under test.
const MAX_FRAME: usize = 64 << 10;

fn options(era: Era) -> Options {
    let mut limits = Limits::default();
    limits.max_frame = MAX_FRAME;
    Client::options(Config::new("test", "1").versions(VersionSet::ALL.era(era)).limits(limits))
}

/// Counts the handlers that exist.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns a server, and the number of its handlers that never end.
fn server() -> (McpService, Arc<AtomicUsize>) {
    let mut router = Router::new("served", "1");
    let running = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&running);
    router
        .tool_with(tool("echo"), async |_: &mut Cx, arguments: Value| arguments.to_string())
        .tool_with(tool("count"), async |cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
            for n in 1..=3 {
                cx.progress(Progress::new(n.into()))?;
                yield_now().await;
            }
            Ok("counted")
        })
        .tool_with(tool("never"), async move |_: &mut Cx, _: Value| -> String {
            count.fetch_add(1, Ordering::SeqCst);
            let _counted = Counted(count.clone());
            pending().await
        });
    (McpService::new(router).unwrap(), running)
}

fn text<'a>(result: &'a CallToolResult<'_>) -> &'a str {
    result.content[0].as_text().unwrap()
}

async fn assert_echo(client: &Client, value: impl fmt::Display) {
    let arguments = json!({ "value": value.to_string() });
    let answer = client.call_tool("echo", &arguments).await.unwrap();
    assert_eq!(text(&answer), arguments.to_string());
}

// covers: SSE-001
#[test]
fn calls_and_progress_pass_in_both_eras() {
    for era in ERAS {
        let (service, _) = server();
        block_on(async {
            let client =
                mcp_tower::connect::<_, _, Full<Bytes>, _>(options(era), URL, service).await.unwrap();
            assert_eq!((client.peer().era(), client.list_tools().await.unwrap().len()), (era, 3));
            assert_echo(&client, "short").await;
            assert_echo(&client, "long".repeat(10_000)).await;
            let mut seen = Vec::new();
            let on_progress = &mut |progress: &Progress| seen.push(progress.progress);
            client.call_tool_with("count", &json!({}), &CallOptions::new(), on_progress).await.unwrap();
            assert_eq!(seen, [1.0, 2.0, 3.0], "{era:?}");
            client.close().await.unwrap();
        });
    }
}

// covers: CANC-016
#[test]
fn dropped_call_drops_its_exchange() {
    for era in ERAS {
        let (service, running) = server();
        block_on(async {
            let client =
                mcp_tower::connect::<_, _, Full<Bytes>, _>(options(era), URL, service).await.unwrap();
            {
                let none = json!({});
                let mut call = pin!(client.call_tool("never", &none));
                while running.load(Ordering::SeqCst) == 0 {
                    assert!(poll_once(&mut call).is_pending());
                }
            }
            // The next call of any handle sends what the dropped future left.
            assert_echo(&client, "after").await;
            assert_eq!(running.load(Ordering::SeqCst), 0, "{era:?}");
            client.close().await.unwrap();
        });
    }
}

/// Many tasks on several threads share a client and a server, neither of which has a task of its own.
#[test]
fn calls_of_several_threads_lose_no_wakeup() {
    for era in ERAS {
        let (service, _) = server();
        let client = block_on(async {
            mcp_tower::connect::<_, _, Full<Bytes>, _>(options(era), URL, service).await.unwrap()
        });
        thread::scope(|scope| {
            for worker in 0..3 {
                let client = &client;
                scope.spawn(move || {
                    for n in 0..50 {
                        let one = assert_echo(client, worker * 1_000 + n);
                        block_on(zip(one, async {
                            let counted = client.call_tool("count", &json!({})).await.unwrap();
                            assert_eq!(text(&counted), "counted");
                        }));
                    }
                });
            }
        });
        block_on(client.close()).unwrap();
    }
}

// ---- services that fail ----------------------------------------------------------------------------------------

/// An error with a cause.
#[derive(Debug)]
struct Broken(&'static str, Option<Box<Self>>);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl StdError for Broken {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.1.as_deref().map(|cause| cause as _)
    }
}

fn refused() -> Broken {
    Broken("cannot connect", Some(Box::new(Broken("refused", None))))
}

/// The way in which calls of tools fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failure {
    None,
    /// `poll_ready` is pending, until the waker that it stored is woken.
    NotReady,
    /// `poll_ready` fails.
    Closed,
    /// The future of the response fails.
    Refused,
    Status(u16),
    /// A body with this media type and these frames, the last of which is an error or not.
    Body(&'static str, &'static [&'static str], bool),
    /// A JSON body that does not end.
    Endless,
    Panic,
    /// The service cannot be cloned.
    PanicOfClone,
    /// The error quotes the URL of the request.
    Quoting,
}

/// The service of a server, whose calls fail.
struct Faulty {
    service: McpService,
    failure: Arc<Mutex<(Failure, Option<Waker>)>>,
    /// The failure that `poll_ready` has found.
    found: Failure,
    /// How often `poll_ready` was called.
    polls: Arc<AtomicUsize>,
}

impl Clone for Faulty {
    fn clone(&self) -> Self {
        let current = self.failure.lock().unwrap().0;
        assert_ne!(current, Failure::PanicOfClone, "as expected");
        let Self { service, failure, found, polls } = self;
        Self { service: service.clone(), failure: failure.clone(), found: *found, polls: polls.clone() }
    }
}

impl Faulty {
    fn set(&self, failure: Failure) {
        let waker = {
            let mut state = self.failure.lock().unwrap();
            state.0 = failure;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

type TestBody = UnsyncBoxBody<Bytes, Broken>;

fn scripted(frames: impl IntoIterator<Item = Result<Bytes, &'static str>>, ends: bool) -> TestBody {
    let body = ScriptedBody { frames: frames.into_iter().collect(), ends };
    body.map_err(|why| Broken(why, Some(Box::new(Broken("reset", None))))).boxed_unsync()
}

impl Service<Request<Full<Bytes>>> for Faulty {
    type Response = Response<TestBody>;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Broken>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.polls.fetch_add(1, Ordering::SeqCst);
        let mut state = self.failure.lock().unwrap();
        self.found = state.0;
        match state.0 {
            Failure::NotReady => {
                state.1 = Some(cx.waker().clone());
                Poll::Pending
            }
            Failure::Closed => Poll::Ready(Err(refused())),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let response = |status: u16, kind: &'static str, body| {
            let response = Response::builder().status(status).header("content-type", kind);
            Ok(response.body(body).unwrap())
        };
        let outcome = match self.found {
            Failure::Refused => Err(refused()),
            Failure::Status(status) => {
                response(status, "text/plain", scripted([Ok(Bytes::from("no"))], true))
            }
            Failure::Body(kind, frames, is_broken) => {
                let frames = frames.iter().map(|frame| Ok(Bytes::from(*frame)));
                let broken = is_broken.then_some(Err("body broke"));
                response(200, kind, scripted(frames.chain(broken), true))
            }
            Failure::Endless => {
                let piece = Bytes::from(vec![b' '; 1 << 10]);
                let frames = core::iter::repeat_n(Ok(piece), MAX_FRAME);
                response(200, "application/json", scripted(frames, true))
            }
            Failure::Panic => panic!("as expected: http://harbor.example/mcp?key=secret"),
            Failure::Quoting => {
                Err(Broken("cannot reach (http://harbor.example/mcp?key=(secret)), twice", None))
            }
            _ => {
                let response = self.service.handle(request);
                return Box::pin(async move {
                    let Ok(response) = response.await;
                    Ok(response.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
                });
            }
        };
        Box::pin(async move { outcome })
    }
}

async fn faulty(era: Era) -> (Client, Faulty) {
    let failure = Arc::new(Mutex::new((Failure::None, None)));
    let service = Faulty { service: server().0, failure, found: Failure::None, polls: Arc::default() };
    let config = HttpConfig::new(URL).unwrap();
    let is_unsent = |error: &Broken| error.0 == "cannot connect";
    let client = mcp_tower::connect_with(options(era), config, service.clone(), is_unsent).await.unwrap();
    (client, service)
}

/// Returns the error of a call during a failure. The client works before and after it.
fn error_of(era: Era, failure: Failure) -> Error {
    block_on(async {
        let (client, service) = faulty(era).await;
        assert_echo(&client, "before").await;
        service.set(failure);
        let error = client.call_tool("echo", &json!({})).await.unwrap_err();
        service.set(Failure::None);
        assert_echo(&client, "after").await;
        client.close().await.unwrap();
        error
    })
}

// covers: HTTP-044
#[test]
fn failures_of_the_service_are_errors_of_their_calls() {
    for era in ERAS {
        for failure in [Failure::Closed, Failure::Refused] {
            let error = error_of(era, failure);
            let reason = "cannot connect: refused";
            assert!(
                matches!(error.http(), Some(HttpError::Unreachable { reason: why }) if **why == *reason),
                "{failure:?} {error}"
            );
        }
        let error = error_of(era, Failure::Status(500));
        assert!(matches!(error.http(), Some(HttpError::Response(answer)) if answer.status == 500), "{error}");
        let half = &["{\"jsonrpc\":", "\"2.0\","];
        let error = error_of(era, Failure::Body("application/json", half, true));
        let is_lost =
            matches!(error.http(), Some(HttpError::Lost { reason }) if **reason == *"body broke: reset");
        assert!(is_lost, "{error}");
        let error = error_of(era, Failure::Body("application/json", half, false));
        assert!(matches!(error, Error::Call(CallError::Malformed(_) | CallError::Http(_))), "{error:?}");
        let events = &["data: {\"jsonrpc\":", "\"2.0\"}"];
        for is_broken in [false, true] {
            let error = error_of(era, Failure::Body("text/event-stream", events, is_broken));
            assert!(matches!(error.http(), Some(HttpError::Lost { .. })), "{era:?} {is_broken} {error}");
        }
    }
}

#[test]
fn response_beyond_the_limit_is_not_read_on() {
    for era in ERAS {
        let error = error_of(era, Failure::Endless);
        assert!(matches!(error, Error::Call(CallError::TooLarge { limit }) if limit == MAX_FRAME), "{error}");
    }
}

#[test]
fn call_waits_until_the_service_is_ready() {
    for era in ERAS {
        block_on(async {
            let (client, service) = faulty(era).await;
            service.set(Failure::NotReady);
            let arguments = json!({});
            let mut call = Box::pin(client.call_tool("echo", &arguments));
            for _ in 0..9 {
                assert!(poll_once(&mut call).is_pending());
            }
            thread::scope(|scope| {
                scope.spawn(|| service.set(Failure::None));
                assert_eq!(text(&block_on(call).unwrap()), "{}");
            });
            client.close().await.unwrap();
        });
    }
}

// covers: TIME-001
#[test]
fn service_that_is_never_ready_is_a_timeout() {
    block_on(async {
        let (client, service) = faulty(Era::Modern).await;
        service.set(Failure::NotReady);
        let options = CallOptions::new().timeout(Duration::from_millis(20));
        let ignore = &mut |_: &Progress| {};
        let error = client.call_tool_with("echo", &json!({}), &options, ignore).await.unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error}");
        service.set(Failure::None);
        assert_echo(&client, "after").await;
        client.close().await.unwrap();
    });
}

/// Where the last handle is dropped there may be no runtime, without which a service could panic.
#[test]
fn client_dropped_without_close_uses_the_service_no_more() {
    for era in ERAS {
        let (client, service) = block_on(faulty(era));
        let arguments = json!({});
        let mut call = Box::pin(client.call_tool("never", &arguments));
        assert!(poll_once(&mut call).is_pending());
        drop(call);
        let polls = service.polls.load(Ordering::SeqCst);
        drop(client);
        assert_eq!(service.polls.load(Ordering::SeqCst), polls, "{era:?}");
        assert_eq!(Arc::strong_count(&service.polls), 1, "{era:?}: nothing is left");
    }
}

// covers: SEC-019
#[test]
fn panic_of_the_service_fails_its_call_alone() {
    for era in [Era::Modern, Era::Legacy] {
        for failure in [Failure::Panic, Failure::PanicOfClone] {
            let text = error_of(era, failure).to_string();
            assert!(text.contains("the HTTP client panicked: "), "{text}");
            assert!(text.contains("as expected") && !text.contains("secret"), "{text}");
        }
        let text = error_of(era, Failure::Quoting).to_string();
        assert!(text.contains("cannot reach (http://harbor.example/mcp?…)), twice"), "{text}");
    }
}

/// Writes down the header fields of requests, as a layer for traces does.
#[derive(Clone)]
struct Printing {
    service: McpService,
    printed: Arc<Mutex<String>>,
}

impl Service<Request<Full<Bytes>>> for Printing {
    type Response = <McpService as Service<Request<Full<Bytes>>>>::Response;
    type Error = <McpService as Service<Request<Full<Bytes>>>>::Error;
    type Future = <McpService as Service<Request<Full<Bytes>>>>::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        self.printed.lock().unwrap().push_str(&format!("{:?}", request.headers()));
        self.service.call(request)
    }
}

// covers: SEC-019
#[test]
fn credentials_are_hidden_from_layers_that_print_requests() {
    block_on(async {
        let printed = Arc::<Mutex<String>>::default();
        let printing = Printing { service: server().0, printed: Arc::clone(&printed) };
        let config = HttpConfig::new(URL).unwrap().credential(Credential::bearer("hidden-token").unwrap());
        let config = config.field("X-Api-Key", b"hidden-key").unwrap().field("X-Tenant", b"shown").unwrap();
        let client =
            mcp_tower::connect_with(options(Era::Legacy), config, printing, |_| false).await.unwrap();
        assert_echo(&client, "text").await;
        client.close().await.unwrap();
        let printed = printed.lock().unwrap();
        assert!(
            printed.contains("x-api-key") && printed.contains("authorization") && printed.contains("shown")
        );
        assert!(!printed.contains("hidden"), "{printed}");
    });
}

#[test]
fn invalid_url_and_exposed_token_are_refused() {
    block_on(async {
        let connect = |url| mcp_tower::connect::<_, _, Full<Bytes>, _>(options(Era::Modern), url, server().0);
        let error = connect("ftp://localhost/mcp").await.unwrap_err();
        assert!(matches!(error, Error::Url { .. }), "{error}");
        let config = HttpConfig::new("http://example.com/mcp")
            .unwrap()
            .credential(Credential::bearer("secret").unwrap());
        let connecting =
            mcp_tower::connect_with::<_, _, Full<Bytes>, _>(options(Era::Modern), config, server().0, |_| {
                false
            });
        let error = connecting.await.unwrap_err();
        assert!(matches!(error, Error::Url { .. }), "{error}");
    });
}
