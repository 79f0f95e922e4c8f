//! Our client with the server in C: the steps of `mcp-probe demo`, in both eras.

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::Mutex;

use mcp_blocking::mcp_proto::client::{Config, StartedTask};
use mcp_blocking::mcp_proto::model::{CallToolResult, ElicitParams, ElicitResult, SubscriptionFilter};
use mcp_blocking::mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Change, Version, VersionSet,
};
use mcp_blocking::{Client, ClientHandler, Error, Program, RpcError};
use serde_json::json;

use crate::build::{Linked, compile, example, is_installed};

/// Answers each form, and keeps the changes.
#[derive(Clone, Default)]
struct User(Arc<Mutex<Vec<Change>>>);

impl ClientHandler for User {
    fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        Ok(ElicitResult::accept([("name", "Zo\u{eb} \"Z\"".into())]))
    }

    fn changed(&self, change: &Change) {
        self.0.lock().expect("no panic").push(change.clone());
    }
}

fn text(result: &CallToolResult<'_>) -> String {
    result.content[0].as_text().expect("text").to_owned()
}

#[test]
fn own_client_uses_c_server_in_both_eras() {
    if !is_installed("gcc") {
        return;
    }
    let server = compile("gcc", &example("server.c"), Linked::Sanitized);
    for version in [Version::V2026_07_28, Version::V2025_11_25, Version::V2025_06_18] {
        let user = User::default();
        let config = Config::new("rust", "1.0")
            .versions(VersionSet::only(version))
            .capabilities(Capabilities::new().with(Capability::ElicitationForm))
            .tasks();
        let client =
            Client::options(config).handler(user.clone()).spawn(Program::new(&server)).expect("a connection");
        assert_eq!(client.peer().version, version);

        let names: Vec<_> = client.list_tools().expect("tools").into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["echo", "add", "count", "fail", "sign", "multi_input"]);
        let sent = "sm\u{f6}rg\u{e5}s \"quoted\" \\ \u{1f980}";
        assert_eq!(text(&client.call_tool("echo", &json!({ "text": sent })).expect("echo")), sent);
        let sum = client.call_tool("add", &json!({ "a": 20, "b": 22 })).expect("add");
        assert_eq!(sum.structured_content.expect("a sum").as_str(), r#"{"sum":42}"#);
        assert!(client.call_tool("fail", &json!({})).expect("fail").is_failure());
        let refused = client.call_tool("no-such-tool", &json!({})).expect_err("no such tool");
        assert!(matches!(&refused, Error::Call(CallError::Rpc(error)) if error.code == -32602), "{refused}");

        let mut seen = Vec::new();
        let counted = client
            .call_tool_with(
                "count",
                &json!({ "to": 4, "delay_ms": 20 }),
                &CallOptions::new(),
                &mut |report| {
                    seen.push((report.progress, report.total));
                },
            )
            .expect("count");
        assert_eq!(text(&counted), "counted to 4");
        assert_eq!(seen, [1.0, 2.0, 3.0, 4.0].map(|step| (step, Some(4.0))));

        let filter = SubscriptionFilter::new().resource_subscriptions(["guestbook://page".to_owned()]);
        assert_eq!(client.subscribe(&filter).expect("a subscription").1, filter);
        assert_eq!(text(&client.call_tool("sign", &json!({})).expect("sign")), "Hello, Zo\u{eb} \"Z\"!");
        for _ in 0..100 {
            if user.0.lock().expect("no panic").is_empty() {
                client.poll(Duration::from_millis(100)).expect("the connection is open");
            }
        }
        assert_eq!(*user.0.lock().expect("no panic"), [Change::Resource("guestbook://page".into())]);
        let page = client.read_resource("guestbook://page").expect("the page");
        assert!(format!("{page:?}").contains("Zo\u{eb} \\\"Z\\\"\\n"), "{page:?}");

        if version >= Version::V2025_11_25 {
            let both = match client.start_task("multi_input", &json!({}), None).expect("a task") {
                StartedTask::Task(task) => client.wait_task(&task).expect("its result"),
                other => panic!("no task: {other:?}"),
            };
            assert_eq!(text(&both), "Zo\u{eb} \"Z\" and Zo\u{eb} \"Z\"");
        }

        let slow = CallOptions::new().timeout(Duration::from_millis(200));
        let call =
            client.start_tool("count", &json!({ "to": 1, "delay_ms": 60_000 }), &slow).expect("a call");
        let late = client.wait(call).expect_err("too slow");
        assert!(matches!(late, Error::Call(CallError::TimedOut)), "{late}");
        let call = client.start_tool("count", &json!({ "to": 9_000 }), &CallOptions::new()).expect("a call");
        client.cancel(call, Some("no longer needed")).expect("it runs");
        client.ping().expect("the server is alive");
        let ended = client.close().expect("the server ends").expect("a process");
        assert!(ended.status.is_some_and(|status| status.success()), "{ended:?}");
    }
}
