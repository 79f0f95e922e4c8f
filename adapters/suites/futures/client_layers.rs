//! Suite: layers of asynchronous clients, whose futures are dropped, raced and left to others.
//!
//! `crate::adapter` names the adapter under test.

use alloc::sync::Arc;
use core::future::{Future, pending};
use core::pin::pin;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, mpsc};
use std::thread;

use futures_lite::future::{or, poll_once, zip};
use mcp_proto::client::Config;
use mcp_proto::model::Tool;
use mcp_proto::{CallError, CallOptions, RawJson};
use mcp_runtime::client::LayerFuture;
use serde_json::{Value, json};

use crate::adapter::package::{Client, Cx, Error, Options};
use crate::adapter::{Router, async_stream, block_on, block_on_reactor, sleep};
use crate::support::{DEADLINE, text, with_timeout};

/// Sends a text when it is dropped.
struct OnDrop(mpsc::Sender<&'static str>, &'static str);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

fn assert_send<T: Send>(value: T) -> T {
    value
}

/// Runs a test with a client of a server whose tools answer, hang, or wait for each other.
fn with_client<F: Future<Output = ()>>(
    options: impl FnOnce(Options) -> Options + Send + 'static,
    test: impl FnOnce(Client, mpsc::Receiver<&'static str>, mpsc::Receiver<&'static str>) -> F + Send + 'static,
) {
    with_timeout(move || {
        let ((begun, begins), (ended, ends)) = (mpsc::channel(), mpsc::channel());
        let make = move || {
            let mut router = Router::new("harbour", "1.0");
            let tool = |name| Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap());
            router.tool_with(tool("echo"), async |_: &mut Cx, arguments: Value| arguments.to_string());
            router.tool_with(tool("hang"), async move |_: &mut Cx, _: Value| {
                let _ended = OnDrop(ended.clone(), "ended");
                begun.send("begun").unwrap();
                pending::<()>().await;
                "never"
            });
            let met = Arc::new(AtomicU32::new(0));
            router.tool_with(tool("meet"), async move |cx: &mut Cx, _: Value| {
                met.fetch_add(1, Ordering::SeqCst);
                while met.load(Ordering::SeqCst) < 2 {
                    cx.sleep(Duration::from_millis(1)).await?;
                }
                Ok::<_, mcp_proto::RpcError>("met")
            });
            router
        };
        let (near, far) = UnixStream::pair().unwrap();
        let serving = thread::spawn(move || block_on(make().serve(async_stream(near))));
        block_on(async {
            let options = options(Client::options(Config::new("me", "1.0")));
            let client = options.connect(async_stream(far)).await.unwrap();
            test(client.clone(), begins, ends).await;
            client.close().await.unwrap();
        });
        serving.join().unwrap().unwrap();
    });
}

async fn receive(channel: &mpsc::Receiver<&'static str>) -> &'static str {
    loop {
        match channel.try_recv() {
            Ok(value) => return value,
            Err(_) => sleep(Duration::from_millis(1)).await,
        }
    }
}

// covers: CANC-005
#[test]
fn dropping_the_call_drops_its_layers_and_cancels_what_is_inside() {
    let (dropped, drops) = mpsc::channel();
    let options = move |options: Options| {
        options.layer(move |request, next| {
            let dropped = dropped.clone();
            async move {
                let _dropped = OnDrop(dropped, "layer");
                next.run(request).await
            }
        })
    };
    with_client(options, async move |client, begins, ends| {
        let call = async {
            client.call_tool("hang", &json!({})).await.unwrap();
            unreachable!("the tool hangs");
        };
        or(call, async { assert_eq!(receive(&begins).await, "begun") }).await;
        assert_eq!(drops.try_recv(), Ok("layer"));
        // The next call sends the cancellation.
        client.call_tool("echo", &json!({})).await.unwrap();
        assert_eq!(ends.recv_timeout(DEADLINE), Ok("ended"));
        assert_eq!(drops.try_recv(), Ok("layer"));
    });
}

#[test]
fn layer_that_never_returns_can_be_dropped() {
    let options = |options: Options| {
        options.layer(|request, next| async move {
            if request.is_tool("hang") {
                pending::<()>().await;
            }
            next.run(request).await
        })
    };
    with_client(options, async |client, begins, _| {
        let arguments = json!({});
        let mut hanging = pin!(client.call_tool("hang", &arguments));
        assert!(poll_once(hanging.as_mut()).await.is_none());
        client.call_tool("echo", &json!({})).await.unwrap();
        assert!(poll_once(hanging.as_mut()).await.is_none());
        assert!(begins.try_recv().is_err(), "nothing was sent");
    });
}

// covers: CANC-005
#[test]
fn layer_that_gives_up_its_call_cancels_it_and_goes_on() {
    let options = |options: Options| {
        options.layer(|request, next| async move {
            if !request.is_tool("hang") {
                return next.run(request).await;
            }
            let limit = async {
                sleep(Duration::from_millis(20)).await;
                Err(Error::Call(CallError::TimedOut))
            };
            let outcome = or(next.run(request.clone()), limit).await;
            assert!(matches!(outcome, Err(Error::Call(CallError::TimedOut))), "{outcome:?}");
            let mut request = request;
            let params = json!({"name": "echo", "arguments": {"instead": true}});
            request.set_params(RawJson::new(params.to_string()).unwrap()).unwrap();
            next.run(request).await
        })
    };
    with_client(options, async |client, begins, ends| {
        let result = client.call_tool("hang", &json!({})).await.unwrap();
        assert_eq!(text(&result), r#"{"instead":true}"#);
        assert_eq!(begins.try_recv(), Ok("begun"));
        client.call_tool("echo", &json!({})).await.unwrap();
        assert_eq!(ends.recv_timeout(DEADLINE), Ok("ended"));
    });
}

#[test]
fn calls_of_one_layer_overlap() {
    let options = |options: Options| {
        options.layer(|request, next| async move {
            let (first, second) = zip(next.run(request.clone()), next.run(request)).await;
            assert_eq!(first.as_ref().ok().map(RawJson::as_str), second.as_ref().ok().map(RawJson::as_str));
            first
        })
    };
    with_client(options, async |client, _, _| {
        // Each waits for the other one.
        assert_eq!(text(&client.call_tool("meet", &json!({})).await.unwrap()), "met");
    });
}

#[test]
fn call_that_a_layer_leaves_to_another_task_is_made_until_the_layer_ends() {
    let (left, lefts) = mpsc::channel::<LayerFuture>();
    let is_over = Arc::new(Mutex::new(None));
    let kept = is_over.clone();
    let options = move |options: Options| {
        options.layer(move |request, next| {
            let (left, kept) = (left.clone(), kept.clone());
            async move {
                // Another thread waits for the call, which this task makes.
                let (elsewhere, outcomes) = mpsc::channel();
                let call = next.run(request.clone());
                thread::spawn(move || elsewhere.send(block_on_reactor(call)));
                let outcome = loop {
                    match outcomes.try_recv() {
                        Ok(outcome) => break outcome,
                        Err(_) => sleep(Duration::from_millis(1)).await,
                    }
                };
                let mut late = next.run(request.clone());
                assert!(poll_once(&mut late).await.is_none());
                left.send(late).unwrap();
                *kept.lock().unwrap() = Some((request, next));
                outcome
            }
        })
    };
    with_client(options, async move |client, _, _| {
        let result = client.call_tool("echo", &json!({"a": 1})).await.unwrap();
        assert_eq!(text(&result), r#"{"a":1}"#);
        let is_cancelled =
            |outcome: &Result<RawJson, Error>| matches!(outcome, Err(Error::Call(CallError::Cancelled)));
        let late = lefts.recv().unwrap().await;
        assert!(is_cancelled(&late), "{late:?}");
        let (request, next) = is_over.lock().unwrap().take().unwrap();
        let after = next.run(request).await;
        assert!(is_cancelled(&after), "{after:?}");
    });
}

/// A layer that repeats a call which fails at once does not keep the thread.
#[test]
fn layer_that_repeats_for_ever_yields() {
    let options = |options: Options| {
        options.layer(|request, next| async move {
            loop {
                let outcome = next.run(request.clone()).await;
                if outcome.is_ok() {
                    return outcome;
                }
            }
        })
    };
    with_client(options, async |client, _, _| {
        let options = CallOptions::new();
        // A method of the engine is refused before anything is sent.
        let call = async {
            client.request("initialize", &json!({}), &options).await.unwrap();
            unreachable!("it is refused");
        };
        or(call, sleep(Duration::from_millis(20))).await;
        client.call_tool("echo", &json!({})).await.unwrap();
    });
}

#[test]
fn future_of_a_call_with_layers_is_send() {
    let options = |options: Options| options.layer(|request, next| async move { next.run(request).await });
    with_client(options, async |client, _, _| {
        assert_send(client.call_tool("echo", &json!({}))).await.unwrap();
        assert_send(client.list_tools()).await.unwrap();
        let mut report = |_: &mcp_proto::Progress| {};
        let options = CallOptions::new();
        assert_send(client.call_tool_with("echo", &json!({}), &options, &mut report)).await.unwrap();
    });
}
