//! Clients and routers in one thread, on virtual time

use core::time::Duration;
use std::sync::mpsc;
use std::thread;
use std::time::Instant as Real;

use mcp_blocking::testing::{self, Server};
use mcp_blocking::{Call, Client, ClientHandler, Cx, Error, Router};
use mcp_proto::client::Config;
use mcp_proto::model::{
    CallToolResult, ElicitParams, ElicitResult, ElicitSchema, Map, SubscriptionFilter, Tool,
};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Change, Era, Progress, RawJson, RpcError, VersionSet,
};
use serde_json::{Value, json};

const HOUR: Duration = Duration::from_secs(3600);
/// Less than the age that a server allows for
const NAP: Duration = Duration::from_secs(3000);
const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

fn options(era: Era) -> mcp_blocking::Options {
    let config = Config::new("test", "1").versions(VersionSet::ALL.era(era));
    Client::options(config.capabilities(Capabilities::new().with(Capability::ElicitationForm)))
}

fn tool(name: &'static str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap())
}

fn patient(time: Duration) -> CallOptions {
    CallOptions::new().timeout(time).total(time)
}

fn router(told: mpsc::Sender<String>) -> Router {
    let mut router = Router::new("harbour", "1.0");
    router.tool_with(tool("sleep"), move |cx: &mut Cx<'_>, _: Value| {
        let slept = cx.sleep(NAP);
        let _ = told.send(format!("{:?}", slept.is_ok()));
        slept.map(|()| "rested")
    });
    router.tool_with(tool("looks"), |cx: &mut Cx<'_>, _: Value| -> Result<&str, RpcError> {
        loop {
            cx.checkpoint()?;
        }
    });
    router.tool_with(tool("steps"), |cx: &mut Cx<'_>, _: Value| -> Result<&str, RpcError> {
        for step in 1..=10 {
            cx.progress(Progress::new(f64::from(step)))?;
            cx.sleep(Duration::from_secs(50))?;
        }
        Ok("there")
    });
    router.tool_with(tool("asks"), |cx: &mut Cx<'_>, _: Value| -> Result<&str, RpcError> {
        cx.elicit("sure", "Sure?", ElicitSchema::default())?;
        cx.sleep(Duration::from_secs(1))?;
        Ok("booked")
    });
    router
}

// covers: TIME-001, CANC-002
#[test]
fn a_nap_is_over_at_once_and_time_outs_come_within_it() {
    for era in ERAS {
        let (sender, told) = mpsc::channel();
        let begun = Real::now();
        let mut client = testing::pair_with(options(era), router(sender)).unwrap();
        assert_eq!(client.peer().era(), era);
        let before = client.now();
        let result = client.call_tool_with("sleep", &json!({}), &patient(HOUR * 2), &mut |_| {}).unwrap();
        assert_eq!(result.content[0].as_text(), Some("rested"));
        let took = client.now().saturating_duration_since(before);
        assert!(took >= NAP && took < NAP + Duration::from_secs(1), "{took:?}");
        assert_eq!(told.recv().unwrap(), "true");

        // The client's time-out comes while the handler sleeps, and tells it.
        for name in ["sleep", "looks"] {
            let before = client.now();
            let options = patient(Duration::from_millis(30));
            let error = client.call_tool_with(name, &json!({}), &options, &mut |_| {}).unwrap_err();
            assert!(
                matches!(error, Error::Call(CallError::TimedOut | CallError::TotalTimedOut)),
                "{error:?}"
            );
            let took = client.now().saturating_duration_since(before);
            assert!(took >= Duration::from_millis(30) && took < Duration::from_secs(1), "{took:?}");
        }
        assert_eq!(told.recv().unwrap(), "false");
        assert!(client.close().unwrap().is_none());
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}

// covers: PROG-001, TIME-005
#[test]
fn progress_counts_when_it_comes() {
    for era in ERAS {
        let mut client = testing::pair_with(options(era), router(mpsc::channel().0)).unwrap();
        let mut seen = Vec::new();
        let mut strict = CallOptions::new();
        strict.progress_resets = false;
        // 500 s in all, and never more than 50 s without a word: the default of 60 s is kept.
        let result = client
            .call_tool_with("steps", &json!({}), &CallOptions::new(), &mut |progress| {
                seen.push(progress.progress)
            })
            .unwrap();
        assert_eq!(result.content[0].as_text(), Some("there"));
        assert!(seen.is_sorted() && seen.last() == Some(&10.0), "{seen:?}");
        // The same without: it is late after a minute.
        let error = client.call_tool_with("steps", &json!({}), &strict, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
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
        let result = client.call_tool("asks", &json!({})).unwrap();
        assert_eq!(result.content[0].as_text(), Some("booked"), "{era:?}");
        assert_eq!(client.list_tools().unwrap().len(), 4);
    }
}

#[test]
fn any_handler_on_any_revision() {
    for version in VersionSet::ALL.iter() {
        let config = mcp_proto::server::Config::new("any", "1")
            .capabilities(Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged));
        let handler = |cx: &mut Cx<'_>, call: &Call| {
            cx.publish(&Change::Tools);
            cx.complete(&CallToolResult::text(call.tool()?.name))
        };
        let client = Client::options(Config::new("test", "1").versions(VersionSet::only(version)));
        let mut client = client.connect(Server::new(config, handler)).unwrap();
        assert_eq!(client.peer().version, version);
        let filter = SubscriptionFilter::new().tools_list_changed(true);
        let (subscription, _) = client.subscribe(&filter).unwrap();
        let calls = [0; 5].map(|_| client.start_tool("x", &json!({}), &CallOptions::new()).unwrap());
        for call in calls.into_iter().rev() {
            client.wait(call).unwrap();
        }
        client.unsubscribe(subscription).unwrap();
        // Nothing happens for a day, and that is over at once.
        let before = client.now();
        while client.poll(HOUR * 24).unwrap() {}
        assert!(client.now() >= before + HOUR * 24);
        client.close().unwrap();
    }
}

#[test]
fn a_handler_may_have_a_client_of_its_own_and_another_thread_may_not() {
    let mut inner = testing::pair(router(mpsc::channel().0)).unwrap();
    let mut outer = Router::new("front", "1.0");
    outer.tool_with(tool("sleep"), move |_: &mut Cx<'_>, arguments: Value| -> Result<String, RpcError> {
        let result = inner.call_tool_with("sleep", &arguments, &patient(HOUR * 2), &mut |_| {});
        let result = result.map_err(|error| RpcError::internal(error.to_string()))?;
        Ok(result.content[0].as_text().unwrap_or_default().into())
    });
    let mut client = testing::pair(outer).unwrap();
    assert_eq!(client.call_tool("sleep", &json!({})).unwrap().content[0].as_text(), Some("rested"));
    let error = thread::spawn(move || client.call_tool("sleep", &json!({})).unwrap_err()).join().unwrap();
    assert!(matches!(&error, Error::Io(_)) && error.to_string().contains("thread that made it"), "{error}");
}

#[test]
fn what_cannot_be_registered_is_said() {
    let mut twice = Router::new("twice", "1.0");
    for _ in 0..2 {
        twice.tool_with(tool("x"), |_: &mut Cx<'_>, _: Value| "x");
    }
    assert!(matches!(testing::pair(twice), Err(Error::Register(_))));
}
