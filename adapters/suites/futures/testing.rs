//! Suite: routers of asynchronous adapters in front of a test client, on virtual time.
//!
//! `crate::suites::testing` is that of all adapters, and `crate::adapter` names the adapter under test.

use alloc::sync::Arc;
use core::future::pending;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::sync::Mutex;
use std::thread;

use mcp_blocking::testing;
use mcp_proto::{CallError, RpcError};
use serde_json::{Value, json};

use crate::adapter::package::{Cx, Error};
use crate::adapter::{Router, enter, sleep};
use crate::suites::testing::{options, tool};
use crate::support::{ERAS, text};

/// Makes a router whose tools wait for something other than virtual time.
fn router() -> Router {
    let mut router = Router::new("harbour", "1.0");
    router.tool_with(tool("thread"), async |_: &mut Cx, _: Value| {
        let (send, received) = oneshot();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            send("done");
        });
        Ok::<_, RpcError>(received.await)
    });
    router.tool_with(tool("timer"), async |_: &mut Cx, _: Value| {
        sleep(Duration::from_millis(20)).await;
        Ok::<_, RpcError>("late")
    });
    router.tool_with(tool("never"), async |_: &mut Cx, _: Value| {
        pending::<()>().await;
        Ok::<_, RpcError>("never")
    });
    router
}

/// Returns a function that sends a word, and a future that receives it.
fn oneshot() -> (impl FnOnce(&'static str) + Send, impl Future<Output = &'static str>) {
    let shared = Arc::new(Mutex::new((None, None::<Waker>)));
    let near = shared.clone();
    let send = move |word| {
        let mut state = near.lock().unwrap();
        state.0 = Some(word);
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    };
    let received = core::future::poll_fn(move |cx| {
        let mut state = shared.lock().unwrap();
        state.1 = Some(cx.waker().clone());
        state.0.map_or(Poll::Pending, Poll::Ready)
    });
    (send, received)
}

/// Virtual time does not advance while a handler waits for real events.
#[test]
fn virtual_time_waits_for_real_events() {
    let _entered = enter();
    for era in ERAS {
        let mut client = testing::pair(router(), options(era)).unwrap();
        let before = client.now();
        assert_eq!(text(&client.call_tool("thread", &json!({})).unwrap()), "done");
        assert_eq!(text(&client.call_tool("timer", &json!({})).unwrap()), "late");
        assert!(client.now() < before + Duration::from_secs(1));
        // Virtual time does advance when a handler takes too long.
        let error = client.call_tool("never", &json!({})).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
        assert!(client.now() >= before + Duration::from_secs(60));
    }
}
