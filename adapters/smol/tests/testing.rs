//! Routers of this package in front of the client for tests, on virtual time

extern crate alloc;

use alloc::sync::Arc;
use core::future::pending;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Instant as Real;

use mcp_blocking::testing::{self, Server};
use mcp_blocking::{Client, ClientHandler, Options};
use mcp_proto::client::Config;
use mcp_proto::model::{CallToolResult, ElicitParams, ElicitResult, ElicitSchema, Map, Tool};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Era, Progress, RawJson, RpcError, VersionSet,
};
use mcp_smol::{Call, Cx, Error, Router};
use serde_json::{Value, json};

const HOUR: Duration = Duration::from_secs(3600);
const NAP: Duration = Duration::from_secs(3000);
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

fn options(era: Era) -> Options {
    let config = Config::new("test", "1").versions(VersionSet::ALL.era(era));
    Client::options(config.capabilities(Capabilities::new().with(Capability::ElicitationForm)))
}

fn tool(name: &'static str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap())
}

/// Tells when it is dropped
struct Dropped(mpsc::Sender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

fn router(told: mpsc::Sender<&'static str>) -> Router {
    let mut router = Router::new("harbour", "1.0");
    router.tool_with(tool("sleep"), async move |cx: &mut Cx<'_>, _: Value| {
        let _dropped = Dropped(told.clone());
        cx.sleep(NAP).await?;
        let _ = told.send("rested");
        Ok::<_, RpcError>("rested")
    });
    router.tool_with(tool("steps"), async |cx: &mut Cx<'_>, _: Value| {
        for step in 1..=10 {
            cx.progress(Progress::new(f64::from(step)))?;
            cx.sleep(Duration::from_secs(50)).await?;
        }
        Ok::<_, RpcError>("there")
    });
    router.tool_with(tool("asks"), async |cx: &mut Cx<'_>, _: Value| {
        cx.elicit("sure", "Sure?", ElicitSchema::default())?;
        cx.sleep(Duration::from_secs(1)).await?;
        Ok::<_, RpcError>("booked")
    });
    router.tool_with(tool("thread"), async |_: &mut Cx<'_>, _: Value| {
        let (tell, told) = word();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            tell("done");
        });
        Ok::<_, RpcError>(told.await)
    });
    router.tool_with(tool("timer"), async |_: &mut Cx<'_>, _: Value| {
        async_io::Timer::after(Duration::from_millis(20)).await;
        Ok::<_, RpcError>("late")
    });
    router.tool_with(tool("never"), async |_: &mut Cx<'_>, _: Value| {
        pending::<()>().await;
        Ok::<_, RpcError>("never")
    });
    router
}

/// A word from another thread
fn word() -> (impl FnOnce(&'static str) + Send, impl Future<Output = &'static str>) {
    let shared = Arc::new(Mutex::new((None, None::<Waker>)));
    let near = shared.clone();
    let tell = move |word| {
        let mut state = near.lock().unwrap();
        state.0 = Some(word);
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    };
    let told = core::future::poll_fn(move |cx| {
        let mut state = shared.lock().unwrap();
        state.1 = Some(cx.waker().clone());
        state.0.map_or(Poll::Pending, Poll::Ready)
    });
    (tell, told)
}

fn text(result: &CallToolResult<'_>) -> String {
    result.content[0].as_text().unwrap().into()
}

// covers: TIME-001, CANC-002
#[test]
fn a_nap_is_over_at_once_and_who_is_cancelled_is_dropped() {
    for era in ERAS {
        let (tell, told) = mpsc::channel();
        let begun = Real::now();
        let mut client = testing::pair_with(options(era), router(tell)).unwrap();
        let patient = CallOptions::new().timeout(HOUR).total(HOUR);
        let before = client.now();
        let result = client.call_tool_with("sleep", &json!({}), &patient, &mut |_| {}).unwrap();
        assert_eq!(text(&result), "rested");
        let took = client.now().saturating_duration_since(before);
        assert!(took >= NAP && took < NAP + Duration::from_secs(1), "{took:?}");
        assert_eq!([told.recv().unwrap(), told.recv().unwrap()], ["rested", "dropped"]);

        let short = CallOptions::new().timeout(Duration::from_millis(30)).total(HOUR);
        let before = client.now();
        let error = client.call_tool_with("sleep", &json!({}), &short, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
        let took = client.now().saturating_duration_since(before);
        assert!(took >= Duration::from_millis(30) && took < Duration::from_secs(1), "{took:?}");
        client.close().unwrap();
        assert_eq!(told.try_recv(), Ok("dropped"));
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}

// covers: PROG-001, TIME-005
#[test]
fn progress_counts_when_it_comes() {
    for era in ERAS {
        let mut client = testing::pair_with(options(era), router(mpsc::channel().0)).unwrap();
        let mut seen = Vec::new();
        // 500 s in all, and never more than 50 s without a word: the default of 60 s is kept.
        let told = &mut |progress: &Progress| seen.push(progress.progress);
        let result = client.call_tool_with("steps", &json!({}), &CallOptions::new(), told).unwrap();
        assert_eq!(text(&result), "there");
        assert!(seen.is_sorted() && seen.last() == Some(&10.0), "{seen:?}");
    }
}

struct Yes;

impl ClientHandler for Yes {
    fn elicit(&mut self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        Ok(ElicitResult::accept(Map::new()))
    }
}

#[test]
fn handlers_ask_and_the_client_answers() {
    for era in ERAS {
        let mut client = testing::pair_with(options(era).handler(Yes), router(mpsc::channel().0)).unwrap();
        assert_eq!(text(&client.call_tool("asks", &json!({})).unwrap()), "booked", "{era:?}");
        assert_eq!(client.list_tools().unwrap().len(), 6);
    }
}

/// Virtual time does not run away from them
#[test]
fn what_takes_real_time_is_given_some() {
    for era in ERAS {
        let mut client = testing::pair_with(options(era), router(mpsc::channel().0)).unwrap();
        let before = client.now();
        assert_eq!(text(&client.call_tool("thread", &json!({})).unwrap()), "done");
        assert_eq!(text(&client.call_tool("timer", &json!({})).unwrap()), "late");
        assert!(client.now() < before + Duration::from_secs(1));
        // And it goes on without those who take too much.
        let error = client.call_tool("never", &json!({})).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
        assert!(client.now() >= before + Duration::from_secs(60));
    }
}

#[test]
fn any_handler_on_any_revision() {
    for version in VersionSet::ALL.iter() {
        let config = mcp_proto::server::Config::new("any", "1")
            .capabilities(Capabilities::new().with(Capability::Tools));
        let handler = async |cx: &mut Cx<'_>, call: &Call| {
            cx.sleep(Duration::from_secs(1)).await?;
            cx.complete(&CallToolResult::text(call.tool()?.name))
        };
        let client = Client::options(Config::new("test", "1").versions(VersionSet::only(version)));
        let server = Server::of(config, mcp_smol::testing::actor(handler));
        let mut client = client.connect(server).unwrap();
        assert_eq!(client.peer().version, version);
        assert_eq!(text(&client.call_tool("x", &json!({})).unwrap()), "x");
    }
}
