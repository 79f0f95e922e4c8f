//! Suite: routers and handlers in front of a test client, on virtual time.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use core::time::Duration;
use std::sync::mpsc;
use std::time::Instant as RealInstant;

use mcp_blocking::testing;
use mcp_blocking::{Client, ClientHandler, Error, Options};
use mcp_proto::client::Config;
use mcp_proto::model::{
    CallToolResult, ElicitParams, ElicitResult, ElicitSchema, Map, SubscriptionFilter, Tool,
};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Change, Era, Progress, RawJson, RpcError, VersionSet,
};
use serde_json::{Value, json};

use crate::adapter::{Call, Cx, IS_SINGLE_THREADED, Router, SLEEP_CANCELLED, handler, test_server, wait};
use crate::support::{ERAS, text, version_set};

const HOUR: Duration = Duration::from_secs(3600);
/// Duration for which the tool `sleep` sleeps. It is less than the age at which a server ends a call.
pub(crate) const NAP: Duration = Duration::from_secs(3000);

pub(crate) fn options(era: Era) -> Options {
    let config = Config::new("test", "1").versions(version_set(era));
    Client::options(config.capabilities(Capabilities::new().with(Capability::ElicitationForm)))
}

pub(crate) fn tool(name: &'static str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap())
}

pub(crate) fn options_with_timeout(timeout: Duration) -> CallOptions {
    CallOptions::new().timeout(timeout).total_timeout(timeout)
}

/// Reports a handler that was dropped before it returned.
struct DropReporter {
    events: mpsc::Sender<String>,
    has_returned: bool,
}

impl Drop for DropReporter {
    fn drop(&mut self) {
        if !self.has_returned {
            let _ = self.events.send("dropped".to_owned());
        }
    }
}

/// Makes a router whose tool `sleep` reports how its sleep ends.
pub(crate) fn router(events: mpsc::Sender<String>) -> Router {
    let mut router = Router::new("harbour", "1.0");
    router.tool_with(
        tool("sleep"),
        handler!(move |cx: &mut Cx, _: Value| {
            let mut reporter = DropReporter { events: events.clone(), has_returned: false };
            let slept = wait!(cx.sleep(NAP));
            reporter.has_returned = true;
            let _ = events.send(slept.is_ok().to_string());
            slept.map(|()| "rested")
        }),
    );
    router.tool_with(
        tool("looks"),
        handler!(|cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
            loop {
                cx.checkpoint()?;
            }
        }),
    );
    router.tool_with(
        tool("steps"),
        handler!(|cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
            for step in 1..=10 {
                cx.progress(Progress::new(f64::from(step)))?;
                wait!(cx.sleep(Duration::from_secs(50)))?;
            }
            Ok("there")
        }),
    );
    router.tool_with(
        tool("asks"),
        handler!(|cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
            cx.elicit("sure", "Sure?", ElicitSchema::default())?;
            wait!(cx.sleep(Duration::from_secs(1)))?;
            Ok("booked")
        }),
    );
    router
}

// covers: TIME-001, CANC-002
#[test]
fn sleep_takes_no_real_time_and_ends_at_call_timeout() {
    for era in ERAS {
        let (events, received) = mpsc::channel();
        let begun = RealInstant::now();
        let mut client = testing::pair(router(events), options(era)).unwrap();
        assert_eq!(client.peer().era(), era);
        let before = client.now();
        let result =
            client.call_tool_with("sleep", &json!({}), &options_with_timeout(HOUR), &mut |_| {}).unwrap();
        assert_eq!(text(&result), "rested");
        let took = client.now().saturating_duration_since(before);
        assert!(took >= NAP && took < NAP + Duration::from_secs(1), "{took:?}");
        assert_eq!(received.recv().unwrap(), "true");

        // The call times out while the handler sleeps, which cancels the handler. A handler that polls its
        // cancellation without a pause needs the thread of the loop: elsewhere it would outrun virtual time.
        let tools = ["sleep", "looks"];
        for name in tools.into_iter().take(if IS_SINGLE_THREADED { 2 } else { 1 }) {
            let before = client.now();
            let options = options_with_timeout(Duration::from_millis(30));
            let error = client.call_tool_with(name, &json!({}), &options, &mut |_| {}).unwrap_err();
            assert!(
                matches!(error, Error::Call(CallError::TimedOut | CallError::TotalTimedOut)),
                "{error:?}"
            );
            let took = client.now().saturating_duration_since(before);
            assert!(took >= Duration::from_millis(30) && took < Duration::from_secs(1), "{took:?}");
        }
        let error = client.call_tool("sleep", &json!({})).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
        assert!(client.close().unwrap().is_none());
        let cancelled: Vec<_> = received.iter().collect();
        assert_eq!(cancelled, [SLEEP_CANCELLED; 2]);
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}

// covers: PROG-001, TIME-005
#[test]
fn progress_resets_call_timeout() {
    for era in ERAS {
        let client = testing::pair(router(mpsc::channel().0), options(era)).unwrap();
        let mut seen = Vec::new();
        let mut strict = CallOptions::new();
        strict.progress_resets_timeout = false;
        // The call takes 500 s, with progress each 50 s: the default timeout of 60 s never passes.
        let result = client
            .call_tool_with("steps", &json!({}), &CallOptions::new(), &mut |progress| {
                seen.push(progress.progress)
            })
            .unwrap();
        assert_eq!(text(&result), "there");
        assert!(seen.is_sorted() && seen.last() == Some(&10.0), "{seen:?}");
        // If progress does not count, the call times out after a minute.
        let error = client.call_tool_with("steps", &json!({}), &strict, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Call(CallError::TimedOut)), "{error:?}");
    }
}

pub(crate) struct AcceptElicitation;

impl ClientHandler for AcceptElicitation {
    fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        Ok(ElicitResult::accept(Map::new()))
    }
}

#[test]
fn client_handler_answers_elicitation() {
    for era in ERAS {
        let client =
            testing::pair(router(mpsc::channel().0), options(era).handler(AcceptElicitation)).unwrap();
        let result = client.call_tool("asks", &json!({})).unwrap();
        assert_eq!(text(&result), "booked", "{era:?}");
        assert_eq!(client.list_tools().unwrap().len(), 4);
    }
}

#[test]
fn handler_serves_calls_and_subscriptions_of_each_revision() {
    for version in VersionSet::ALL.iter() {
        let config = mcp_proto::server::Config::new("any", "1")
            .capabilities(Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged));
        let handler = handler!(|cx: &mut Cx, call: &Call| {
            cx.publish(&Change::Tools);
            wait!(cx.sleep(Duration::from_secs(1)))?;
            cx.complete(&CallToolResult::text(call.tool_call()?.name))
        });
        let client = Client::options(Config::new("test", "1").versions(VersionSet::only(version)));
        let mut client = client.connect(test_server!(config, handler)).unwrap();
        assert_eq!(client.peer().version, version);
        assert_eq!(text(&client.call_tool("x", &json!({})).unwrap()), "x");
        let filter = SubscriptionFilter::new().tools_list_changed(true);
        let (subscription, _) = client.subscribe(&filter).unwrap();
        let calls = [0; 5].map(|_| client.start_tool("x", &json!({}), &CallOptions::new()).unwrap());
        for call in calls.into_iter().rev() {
            client.wait(call).unwrap();
        }
        client.unsubscribe(subscription).unwrap();
        // Nothing happens for a day, which takes no real time.
        let before = client.now();
        while client.poll(HOUR * 24).unwrap() {}
        assert!(client.now() >= before + HOUR * 24);
        client.close().unwrap();
    }
}

#[test]
fn router_under_test_gets_copies_of_messages() {
    for era in ERAS {
        let (records, recorded) = mpsc::channel();
        let mut router = Router::new("harbour", "1.0");
        router.on_tap(move |record| drop(records.send(record.bytes.clone())));
        let mut limits = mcp_proto::Limits::default();
        limits.tap_records = 64;
        let config = router.config().unwrap().limits(limits);
        let client = options(era).connect(test_server!(config, router)).unwrap();
        client.ping().unwrap();
        let messages: Vec<_> = recorded.try_iter().collect();
        let is_seen =
            |method: &str| messages.iter().any(|m| m.windows(method.len()).any(|w| w == method.as_bytes()));
        // The modern era has no pings: the client asks for the server's description instead.
        assert!(is_seen(if era == Era::Legacy {
            r#""method":"ping""#
        } else {
            r#""method":"server/discover""#
        }));
        assert!(is_seen(r#""result""#), "{era:?}: {messages:?}");
    }
}
